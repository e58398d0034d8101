/* tests/e2e/harness.c - what a shell script cannot do for an end-to-end test.
 *
 *   harness guard SECONDS COMMAND [ARGUMENT...]
 *       Runs COMMAND in a private folder ($LS_TMP, and $TMPDIR) and ends with its status. When the
 *       command has ended, or its time is over, or the guard itself is told to stop or killed,
 *       everything that the command started is killed, whatever it did (setsid, double fork), and
 *       the folder is removed. Status 97: processes were left behind; 98: the time was over; 99: no
 *       guard.
 *   harness port [N]
 *       Prints N (1) ports of 127.0.0.1 that are free, outside the range from which the kernel
 *       takes ports for outgoing connections.
 *   harness left PID
 *       Prints "PID NAME" of every living descendant of PID but those that led to this very
 *       process; status 1 if there is any.
 *   harness find PID PATTERN
 *       Prints the number of the living descendant of PID whose command line, its words with blanks
 *       between them, matches the basic regular expression, but for those that led to this very
 *       process; status 1 if there is none. Who was just forked by it, and has its command line
 *       until he becomes somebody else, is not meant.
 *   harness pending NUMBER COMMAND [ARGUMENT...]
 *       Becomes COMMAND with that signal blocked and pending: it comes as soon as the command can
 *       take it, and kills one that unblocks it before it is ready.
 *   harness relay PORT TO
 *       Passes what comes to 127.0.0.1:PORT on to 127.0.0.1:TO and back, until it is killed:
 * stopped (SIGSTOP) it is a network that takes everything and delivers nothing, killed one that
 *       resets, and started again one that is healed.
 *   harness get PORT PATH
 *       Prints the body of http://127.0.0.1:PORT/PATH; status 1 if there is none.
 *
 * The guard is two processes: one that ctest knows and may kill, and, in a session of its own, one
 * that adopts all orphans, learns of the first one's death from the kernel, and cleans up.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STATUS_LEFT = 97, STATUS_TIME = 98, STATUS_BROKEN = 99 };

#define PROCESSES_MAX 65536
#define LEAVE_SECONDS 10 /* for what is just ending when the command has ended */

static int usage(void)
{
    (void)fputs("usage: harness guard SECONDS COMMAND... | port [N] | left PID | "
                "find PID PATTERN | pending NUMBER COMMAND... | relay PORT TO | get PORT PATH\n",
                stderr);
    return 2;
}

static double now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

struct process {
    pid_t pid;
    pid_t parent;
    char name[32];
};

/* Fills all with the living processes of this machine; zombies are none. Returns how many. */
static size_t list_processes(struct process *all)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    size_t n = 0;

    while (proc != NULL && n < PROCESSES_MAX && (entry = readdir(proc)) != NULL) {
        char path[300];
        char text[512];
        char *end;
        char state = 'Z';
        FILE *file;
        size_t len;

        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        len = fread(text, 1, sizeof(text) - 1, file);
        (void)fclose(file);
        text[len] = '\0';
        /* "12 (name) S 1 ...": the name may hold anything, also ")" */
        end = strrchr(text, ')');
        if (end == NULL || sscanf(end, ") %c %d", &state, &all[n].parent) != 2 || state == 'Z')
            continue;
        *end = '\0';
        all[n].pid = (pid_t)strtol(text, NULL, 10);
        end = strchr(text, '(');
        (void)snprintf(all[n].name, sizeof(all[n].name), "%.31s", end != NULL ? end + 1 : "?");
        n++;
    }
    if (proc != NULL)
        (void)closedir(proc);
    return n;
}

static pid_t parent_of(const struct process *all, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++) {
        if (all[i].pid == pid)
            return all[i].parent;
    }
    return 0;
}

static bool descends(const struct process *all, size_t n, pid_t pid, pid_t from)
{
    for (unsigned depth = 0; pid > 1 && depth < 1000; depth++) {
        pid = parent_of(all, n, pid);
        if (pid == from)
            return true;
    }
    return false;
}

/* Is it this process, or did it lead to it? */
static bool is_ours(const struct process *all, size_t n, pid_t pid)
{
    return pid == getpid() || descends(all, n, getpid(), pid);
}

/* Calls each for every living descendant of root; with_us: also for this process's own line. */
static void each_descendant(pid_t root, bool with_us,
                            void (*each)(const struct process *process, void *ctx), void *ctx)
{
    struct process *all = calloc(PROCESSES_MAX, sizeof(*all));
    size_t n;

    if (all == NULL)
        return;
    n = list_processes(all);
    for (size_t i = 0; i < n; i++) {
        if ((with_us || !is_ours(all, n, all[i].pid)) && descends(all, n, all[i].pid, root))
            each(&all[i], ctx);
    }
    free(all);
}

static void kill_it(const struct process *process, void *ctx)
{
    (void)ctx;
    (void)kill(process->pid, SIGKILL);
}

static void show_it(const struct process *process, void *ctx)
{
    (void)ctx;
    (void)fprintf(stderr, "guard: left behind: %d %s\n", (int)process->pid, process->name);
}

/* Waits for children, of which orphans are some, until there are none or the time is over. */
static bool reap_all(double seconds)
{
    double until = now_s() + seconds;

    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        const struct timespec nap = { 0, 5000000 };

        if (pid < 0 && errno == ECHILD)
            return true;
        if (pid > 0)
            continue;
        if (now_s() >= until)
            return false;
        (void)nanosleep(&nap, NULL);
    }
}

/* false: something refuses to die. */
static bool kill_all(void)
{
    for (unsigned round = 0; round < 100; round++) {
        each_descendant(getpid(), true, kill_it, NULL);
        if (reap_all(0.1))
            return true;
    }
    return false;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    (void)remove(path);
    return 0;
}

static void block_signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGCHLD);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, set, NULL);
}

/* LS_LEAVE_SECONDS: less, for who tests the guard itself. */
static double leave_seconds(void)
{
    const char *given = getenv("LS_LEAVE_SECONDS");

    return given != NULL ? strtod(given, NULL) : LEAVE_SECONDS;
}

/* In the child: becomes the command. */
static void become(char **argv, const char *folder, const sigset_t *blocked)
{
    char pid[16];

    (void)sigprocmask(SIG_UNBLOCK, blocked, NULL);
    (void)setpgid(0, 0);
    (void)snprintf(pid, sizeof(pid), "%d", (int)getppid());
    if (setenv("LS_TMP", folder, 1) != 0 || setenv("TMPDIR", folder, 1) != 0 ||
        setenv("LS_GUARD", pid, 1) != 0 || freopen("/dev/null", "r", stdin) == NULL)
        _exit(STATUS_BROKEN);
    (void)execvp(argv[0], argv);
    (void)fprintf(stderr, "guard: %s: %s\n", argv[0], strerror(errno));
    _exit(STATUS_BROKEN);
}

/* The second process. Returns the status for the first one to end with. */
static int keep_watch(double seconds, char **argv, pid_t first)
{
    const char *base = getenv("TMPDIR");
    double until = now_s() + seconds;
    int result = STATUS_BROKEN;
    char folder[256];
    sigset_t signals;
    pid_t command;

    block_signals(&signals);
    (void)setsid();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1L);
    (void)prctl(PR_SET_PDEATHSIG, (long)SIGTERM);
    if (getppid() != first)
        return STATUS_BROKEN; /* it died before we would have been told */
    (void)snprintf(folder, sizeof(folder), "%.200s/lockstep-e2e-XXXXXX",
                   base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL) {
        (void)fprintf(stderr, "guard: no folder %s: %s\n", folder, strerror(errno));
        return STATUS_BROKEN;
    }
    command = fork();
    if (command == 0)
        become(argv, folder, &signals);
    for (bool ended = command < 0; !ended;) {
        const struct timespec tick = { 1, 0 };
        int number = sigtimedwait(&signals, NULL, &tick);
        int status = 0;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == command) {
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                ended = true;
            }
        }
        if (!ended && now_s() >= until) {
            (void)fprintf(stderr, "guard: not done after %.0f s\n", seconds);
            each_descendant(getpid(), true, show_it, NULL);
            result = STATUS_TIME;
            break;
        }
        if (!ended && number > 0 && number != SIGCHLD) {
            result = 128 + number;
            break;
        }
    }
    if (result < 97 && !reap_all(leave_seconds())) {
        each_descendant(getpid(), true, show_it, NULL);
        result = STATUS_LEFT;
    }
    if (!kill_all())
        (void)fputs("guard: a process cannot be killed\n", stderr);
    (void)nftw(folder, remove_entry, 32, FTW_DEPTH | FTW_PHYS);
    return result;
}

static int guard(int argc, char **argv)
{
    double seconds = argc > 3 ? strtod(argv[2], NULL) : 0;
    pid_t first = getpid();
    sigset_t signals;
    pid_t second;

    if (seconds <= 0)
        return usage();
    block_signals(&signals);
    second = fork();
    if (second < 0)
        return STATUS_BROKEN;
    if (second == 0) {
        (void)sigprocmask(SIG_UNBLOCK, &signals, NULL);
        _exit(keep_watch(seconds, argv + 3, first));
    }
    for (;;) {
        int number = sigwaitinfo(&signals, NULL);
        int status = 0;

        if (number > 0 && number != SIGCHLD)
            (void)kill(second, SIGTERM);
        if (waitpid(second, &status, WNOHANG) == second)
            return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_BROKEN;
    }
}

static bool is_free(unsigned port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    yes = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
          listen(fd, 1) == 0;
    if (fd >= 0)
        (void)close(fd);
    return yes;
}

/* Ports between 10000 and 32767, from a place that differs from process to process. */
static int port(int argc, char **argv)
{
    unsigned want = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
    unsigned at = (unsigned)getpid() * 7919u;

    for (unsigned tries = 0; want > 0 && tries < 20000; tries++) {
        unsigned candidate = 10000 + (at + tries * 13u) % 22000;

        if (is_free(candidate)) {
            (void)printf("%u\n", candidate);
            want--;
        }
    }
    return want == 0 ? 0 : 1;
}

static void print_it(const struct process *process, void *ctx)
{
    unsigned *shown = ctx;

    (void)printf("%d %s\n", (int)process->pid, process->name);
    (*shown)++;
}

static int left(int argc, char **argv)
{
    unsigned shown = 0;

    if (argc != 3)
        return usage();
    each_descendant((pid_t)strtol(argv[2], NULL, 10), false, print_it, &shown);
    return shown > 0 ? 1 : 0;
}

static bool is_called(pid_t pid, const regex_t *pattern)
{
    char path[40], text[8192];
    size_t len;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    len = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\0')
            text[i] = ' ';
    }
    text[len] = '\0';
    return regexec(pattern, text, 0, NULL, 0) == 0;
}

static int find(int argc, char **argv)
{
    struct process *all = calloc(PROCESSES_MAX, sizeof(*all));
    pid_t root = argc == 4 ? (pid_t)strtol(argv[2], NULL, 10) : 0, found = 0;
    regex_t pattern;
    size_t n;

    if (root <= 0 || all == NULL || regcomp(&pattern, argv[3], REG_NOSUB) != 0) {
        free(all);
        return usage();
    }
    n = list_processes(all);
    for (size_t i = 0; i < n; i++) {
        pid_t pid = all[i].pid;

        if (!is_ours(all, n, pid) && descends(all, n, pid, root) && is_called(pid, &pattern) &&
            (found == 0 || !descends(all, n, pid, found)))
            found = pid;
    }
    regfree(&pattern);
    free(all);
    if (found != 0)
        (void)printf("%d\n", (int)found);
    return found != 0 ? 0 : 1;
}

static int pending(int argc, char **argv)
{
    int number = argc > 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    sigset_t set;

    if (number <= 0)
        return usage();
    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 || raise(number) != 0)
        return 1;
    (void)execvp(argv[3], argv + 3);
    (void)fprintf(stderr, "harness pending: %s: %s\n", argv[3], strerror(errno));
    return 1;
}

#define RELAYED_MAX 64

/* A socket for 127.0.0.1:port, listening or connected; -1: it cannot be had. */
static int loopback(unsigned port, bool to_listen)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    bool ok = fd >= 0;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ok = ok && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0;
    if (to_listen)
        ok = ok && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
             listen(fd, 16) == 0;
    else
        ok = ok && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    if (ok)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

/* What is there goes to the other end; false: one of them has ended. */
static bool pass(int from, int to)
{
    char bytes[16384];
    ssize_t n = recv(from, bytes, sizeof(bytes), 0);
    ssize_t done = 0;

    while (n > 0 && done < n) {
        ssize_t sent = send(to, bytes + done, (size_t)(n - done), MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        done += sent;
    }
    return n > 0;
}

/* fds[0] listens, then pairs. */
static int relay(int argc, char **argv)
{
    struct pollfd fds[1 + 2 * RELAYED_MAX];
    nfds_t count = 1;

    if (argc != 4)
        return usage();
    fds[0] = (struct pollfd){ .fd = loopback((unsigned)strtoul(argv[2], NULL, 10), true),
                              .events = POLLIN };
    if (fds[0].fd < 0) {
        (void)fprintf(stderr, "harness relay: %s\n", strerror(errno));
        return 1;
    }
    while (poll(fds, count, -1) > 0) {
        for (nfds_t i = 1; i < count; i += 2) {
            bool ok = (fds[i].revents == 0 || pass(fds[i].fd, fds[i + 1].fd)) &&
                      (fds[i + 1].revents == 0 || pass(fds[i + 1].fd, fds[i].fd));

            if (ok)
                continue;
            (void)close(fds[i].fd);
            (void)close(fds[i + 1].fd);
            fds[i] = fds[count - 2];
            fds[i + 1] = fds[count - 1];
            count -= 2;
            i -= 2;
        }
        if (fds[0].revents != 0 && count + 2 <= 1 + 2 * RELAYED_MAX) {
            int near = accept(fds[0].fd, NULL, NULL);
            int far = loopback((unsigned)strtoul(argv[3], NULL, 10), false);

            if (near >= 0 && far >= 0) {
                fds[count++] = (struct pollfd){ .fd = near, .events = POLLIN };
                fds[count++] = (struct pollfd){ .fd = far, .events = POLLIN };
            } else {
                (void)close(near);
                (void)close(far);
            }
        }
    }
    return 1;
}

static int get(int argc, char **argv)
{
    struct sockaddr_in to = { .sin_family = AF_INET };
    struct timeval limit = { 10, 0 };
    char text[65536];
    size_t len = 0;
    ssize_t n;
    char *body;
    int fd;

    if (argc != 4)
        return usage();
    to.sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 ||
        dprintf(fd, "GET %s HTTP/1.0\r\n\r\n", argv[3]) < 0) {
        (void)fprintf(stderr, "harness get: %s\n", strerror(errno));
        return 1;
    }
    while (len + 1 < sizeof(text) && (n = recv(fd, text + len, sizeof(text) - 1 - len, 0)) > 0)
        len += (size_t)n;
    (void)close(fd);
    text[len] = '\0';
    body = strstr(text, "\r\n\r\n");
    if (body == NULL || strncmp(text, "HTTP/1.1 200 ", 13) != 0) {
        (void)fprintf(stderr, "harness get: %.200s\n", text);
        return 1;
    }
    (void)fputs(body + 4, stdout);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return usage();
    if (strcmp(argv[1], "guard") == 0)
        return guard(argc, argv);
    if (strcmp(argv[1], "port") == 0)
        return port(argc, argv);
    if (strcmp(argv[1], "left") == 0)
        return left(argc, argv);
    if (strcmp(argv[1], "find") == 0)
        return find(argc, argv);
    if (strcmp(argv[1], "pending") == 0)
        return pending(argc, argv);
    if (strcmp(argv[1], "relay") == 0)
        return relay(argc, argv);
    if (strcmp(argv[1], "get") == 0)
        return get(argc, argv);
    return usage();
}
