/* Runs a command on one CPU and says what all of it cost:
 *
 *     bench_spawn CPU SECONDS COST-FILE COMMAND [ARGUMENT ...]
 *
 * COST-FILE gets one line: cpu_ns= (user + system, by wait4: the process, its threads, and children
 * it has waited for) user_ns= system_ns= wall_ns= maxrss_kib=. After SECONDS the command is killed.
 * It dies with us. Exit status: the command's; 124: killed after SECONDS; 125: our own failure.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"

static volatile sig_atomic_t out_of_time;
static volatile pid_t child;

static void on_alarm(int signal_number)
{
    (void)signal_number;
    out_of_time = 1;
    if (child > 0)
        (void)kill(child, SIGKILL);
}

static int fail(const char *what)
{
    (void)fprintf(stderr, "bench_spawn: %s: %s\n", what, strerror(errno));
    return 125;
}

static int run(int cpu, pid_t parent, char **argv)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        return fail("CPU");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it has ended before it could take us along */
        return 125;
    (void)execvp(argv[0], argv);
    return fail(argv[0]);
}

static int64_t ns(struct timeval t)
{
    return t.tv_sec * LS_NS_PER_S + t.tv_usec * LS_NS_PER_US;
}

static int64_t read_number(const char *text, int64_t max)
{
    char *end;
    long long value = strtoll(text, &end, 10);

    return *text == '\0' || *end != '\0' || value < 0 || value > max ? -1 : (int64_t)value;
}

int main(int argc, char **argv)
{
    struct sigaction alarm_action = { .sa_handler = on_alarm };
    int64_t cpu = argc > 4 ? read_number(argv[1], CPU_SETSIZE - 1) : -1;
    int64_t seconds = argc > 4 ? read_number(argv[2], 86400) : -1;
    struct rusage usage;
    int64_t began_ns;
    pid_t self = getpid();
    int status;
    FILE *file;

    if (cpu < 0 || seconds <= 0) {
        (void)fprintf(stderr, "usage: bench_spawn CPU SECONDS COST-FILE COMMAND [ARGUMENT ...]\n");
        return 125;
    }
    (void)sigaction(SIGALRM, &alarm_action, NULL);
    began_ns = ls_clock_mono_ns();
    child = fork();
    if (child < 0)
        return fail("fork");
    if (child == 0)
        _exit(run((int)cpu, self, argv + 4));
    (void)alarm((unsigned)seconds);
    while (wait4(child, &status, 0, &usage) < 0) {
        if (errno != EINTR)
            return fail("wait4");
    }
    file = fopen(argv[3], "we");
    if (file == NULL)
        return fail(argv[3]);
    (void)fprintf(file,
                  "cpu_ns=%" PRId64 " user_ns=%" PRId64 " system_ns=%" PRId64 " wall_ns=%" PRId64
                  " maxrss_kib=%ld\n",
                  ns(usage.ru_utime) + ns(usage.ru_stime), ns(usage.ru_utime), ns(usage.ru_stime),
                  ls_clock_mono_ns() - began_ns, usage.ru_maxrss);
    if (fclose(file) != 0)
        return fail(argv[3]);
    if (out_of_time)
        return 124;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
