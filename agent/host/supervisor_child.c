#include "agent/host/supervisor_child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/cgroup.h"

#define EXIT_INTERNAL 70

/* Signals are blocked, as in the supervisor; only those from outside that cannot be end it. */
static LS_NORETURN void be_init(void)
{
    sigset_t child;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "ls-init");
    closefrom(0); /* the agent's socket above all: its end tells that the supervisor has gone */
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    for (;;) {
        while (waitpid(-1, NULL, __WALL) > 0)
            ;
        (void)sigwaitinfo(&child, NULL);
    }
}

int host_child_make_init(pid_t *out_pid)
{
    pid_t pid;

    *out_pid = 0;
    if (unshare(CLONE_NEWPID) < 0)
        return 0;
    pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0)
        be_init();
    *out_pid = pid;
    return 0;
}

static LS_NORETURN void start_fails(int failure_fd, int step)
{
    struct host_child_failure failure = { .step = step, .error = errno };
    ssize_t n = write(failure_fd, &failure, sizeof(failure));

    _exit(n == (ssize_t)sizeof(failure) ? 127 : EXIT_INTERNAL);
}

/* Ignored signals and blocked ones would otherwise live on in the target. By the system call, as
 * libc keeps two signals from its sigaction(), and its posix_spawn() leaves those ignored. */
static void default_signals(void)
{
    static const uint64_t by_default[8]; /* the kernel's struct, SIG_DFL and no flags, and more */
    sigset_t none;

    for (int i = 1; i < NSIG; i++)
        (void)syscall(SYS_rt_sigaction, i, by_default, NULL, sizeof(uint64_t)); /* not KILL, STOP */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* 0 /dev/null, 1 and 2 the log, 3 the way to say that exec failed, which exec closes. */
static bool arrange_files(int output_fd, int *failure_fd)
{
    int output = fcntl(output_fd, F_DUPFD_CLOEXEC, 10);
    int failure = fcntl(*failure_fd, F_DUPFD_CLOEXEC, 10);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (failure < 0 || output < 0 || null < 0)
        return false;
    if (dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0 ||
        dup3(failure, 3, O_CLOEXEC) < 0)
        return false;
    *failure_fd = 3;
    closefrom(4);
    return true;
}

static void confine(const struct host_confine *how, int failure_fd)
{
    enum host_confine_step step;
    int error = host_confine_apply(how, &step);

    if (error == 0)
        return;
    errno = error;
    start_fails(failure_fd, HOST_STEP_LIMITS + (int)step);
}

/* While there still is the right to. */
static void join_groups(char *const *groups, int failure_fd)
{
    for (; *groups != NULL; groups++) {
        errno = host_cgroup_join(*groups);
        if (errno != 0)
            start_fails(failure_fd, HOST_STEP_GROUP);
    }
}

void host_child_become(const struct host_child *job, int failure_fd)
{
    if (setsid() < 0)
        start_fails(failure_fd, HOST_STEP_SESSION);
    if (!arrange_files(job->output_fd, &failure_fd))
        start_fails(failure_fd, HOST_STEP_FILES);
    join_groups(job->groups, failure_fd);
    if (job->cpus != NULL && ls_cpuset_set_affinity(0, job->cpus, NULL) != LS_OK)
        start_fails(failure_fd, HOST_STEP_CPUS);
    confine(job->confine, failure_fd);
    /* A second string to the bow, for the case that agent and supervisor are killed together. Not
     * before the user has changed, which would undo it (kernel/cred.c, commit_creds()). */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != job->supervisor)
        _exit(EXIT_INTERNAL);
    if (chdir(job->dir) < 0)
        start_fails(failure_fd, HOST_STEP_FOLDER);
    default_signals();
    (void)execve(job->path, job->argv, job->envp);
    start_fails(failure_fd, HOST_STEP_EXEC);
}
