/* The spawner: a small static program that starts others and times them (agent/host/spawner.h).
 *
 * Small, because a process that is started from a large one shows that one's memory as its own
 * peak: exec() notes the high-water mark of the memory that it leaves (fs/exec.c, exec_mmap()), and
 * that is the parent's until then. posix_spawn(), because it is what other tools start with, and
 * its cost is part of what they print.
 *
 * Orders come and reports go through descriptor 1, a SOCK_SEQPACKET. When its other end closes, the
 * spawner leaves, and its supervisor kills what is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/spawner_wire.h"
#include "common/attr.h"
#include "common/clock.h"

#define CONTROL_FD    3
#define EXIT_INTERNAL 70
#define CHILDREN_TEXT 65536
#define CLEAN_UP_NS   (2 * LS_NS_PER_S)

struct run {
    uint32_t id;
    pid_t pid;
    int pidfd;
    int fds[3]; /* that it was given; closed when it has ended */
    int64_t begin_ns;
    int64_t kill_at_ns; /* INT64_MAX: never */
    bool timed_out;
};

static struct run runs[SPAWNER_RUNS_MAX];
static unsigned run_count;

static union {
    char bytes[SPAWNER_PACKET_MAX];
    struct spawner_order order;
} packet;

static void close_fds(const int fds[3])
{
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
    }
}

static void tell(struct spawner_report *report)
{
    report->magic = SPAWNER_MAGIC;
    /* A failure means that the agent is gone, and reading says so too. */
    (void)send(CONTROL_FD, report, sizeof(*report), MSG_NOSIGNAL);
}

static int64_t to_ns(struct timeval t)
{
    return t.tv_sec * LS_NS_PER_S + t.tv_usec * LS_NS_PER_US;
}

/* ---- start */

/* Cuts the packet's text into count strings, and one NULL, at *list. */
static char **cut(char **list, uint32_t count, char **text, size_t *left)
{
    for (uint32_t i = 0; i < count; i++) {
        char *end = memchr(*text, '\0', *left);

        if (end == NULL)
            return NULL;
        *list++ = *text;
        *left -= (size_t)(end + 1 - *text);
        *text = end + 1;
    }
    *list++ = NULL;
    return list;
}

/* A process group of its own, so that it can be killed with it. Not a session: making one makes a
 * scheduling group, too (autogroup), which takes as long as 3 % of what /bin/true does; the
 * spawner's has no terminal. Signals are by default and none blocked, as the supervisor starts
 * programs. */
struct recipe {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
};

static int recipe_init(struct recipe *r, const int fds[3])
{
    sigset_t none;
    int error = posix_spawn_file_actions_init(&r->actions);

    if (error != 0)
        return error;
    error = posix_spawnattr_init(&r->attr);
    (void)sigemptyset(&none);
    for (int i = 0; i < 3; i++)
        error |= posix_spawn_file_actions_adddup2(&r->actions, fds[i], i);
    error |= posix_spawnattr_setsigmask(&r->attr, &none);
    error |= posix_spawnattr_setflags(&r->attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    return error;
}

static void recipe_fini(struct recipe *r)
{
    (void)posix_spawn_file_actions_destroy(&r->actions);
    (void)posix_spawnattr_destroy(&r->attr);
}

static int start(struct run *run, const char *path, char **argv, char **envp,
                 const struct recipe *recipe)
{
    int error;

    run->begin_ns = ls_clock_mono_ns();
    error = posix_spawn(&run->pid, path, &recipe->actions, &recipe->attr, argv, envp);
    if (error != 0)
        return error;
    run->pidfd = (int)syscall(SYS_pidfd_open, run->pid, 0);
    if (run->pidfd >= 0)
        return 0;
    error = errno;
    (void)kill(run->pid, SIGKILL);
    (void)waitpid(run->pid, NULL, 0);
    return error;
}

/* What shares a CPU with a run that has begun delays it: all else is done before, or after its end.
 */
static void begin(const struct spawner_order *order, const char *path, char **argv, char **envp,
                  const int fds[3])
{
    struct spawner_report report = { .id = order->id };
    struct run *run = &runs[run_count];
    struct recipe recipe;

    report.error = run_count < SPAWNER_RUNS_MAX ? recipe_init(&recipe, fds) : EAGAIN;
    if (report.error == 0) {
        *run = (struct run){ .id = order->id, .pidfd = -1, .kill_at_ns = INT64_MAX };
        (void)memcpy(run->fds, fds, sizeof(run->fds));
        report.error = start(run, path, argv, envp, &recipe);
        recipe_fini(&recipe);
    }
    if (report.error != 0) {
        close_fds(fds);
        report.kind = SPAWNER_ENDED;
        tell(&report);
        return;
    }
    if (order->timeout_ns > 0)
        run->kill_at_ns = run->begin_ns + order->timeout_ns;
    run_count++;
    if (order->tell_start != 0) {
        report.kind = SPAWNER_STARTED;
        report.pid = run->pid;
        tell(&report);
    }
}

/* False: the agent talks nonsense. */
static bool order_run(const struct spawner_order *order, char *text, size_t text_bytes,
                      const int fds[3])
{
    static char *strings[SPAWNER_PACKET_MAX / 2];
    char **argv = strings, **envp, **end;
    char *path = text;

    if (order->text_bytes != text_bytes || fds[2] < 0 || order->argc < 1 ||
        (uint64_t)order->argc + order->envc + 3 > LS_ARRAY_LEN(strings))
        return false;
    argv = cut(strings, 1, &text, &text_bytes);
    if (argv == NULL)
        return false;
    envp = cut(argv, order->argc, &text, &text_bytes);
    end = envp != NULL ? cut(envp, order->envc, &text, &text_bytes) : NULL;
    if (end == NULL)
        return false;
    begin(order, path, argv, envp, fds);
    return true;
}

/* ---- end */

static bool is_run(pid_t pid)
{
    for (unsigned i = 0; i < run_count; i++) {
        if (runs[i].pid == pid)
            return true;
    }
    return false;
}

/* Kills the children of this process that are no runs: what runs had started, and left. As a
 * subreaper it is their parent. False: this kernel does not say who they are. */
static bool kill_orphans(void)
{
    static char text[CHILDREN_TEXT];
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    char *at = text;

    if (fd < 0)
        return false;
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    while (*at != '\0') {
        char *end;
        pid_t pid = (pid_t)strtol(at, &end, 10);

        if (end == at)
            break;
        if (!is_run(pid))
            (void)kill(pid, SIGKILL);
        at = end;
    }
    return true;
}

/* After the last of the runs under way nothing of any may live on; before, what was orphaned cannot
 * be told from what still belongs to one. Returns how many had to be killed. One that does not end
 * for all that, in a system call that nothing interrupts, is the supervisor's: other runs wait. */
static uint32_t clean_up(void)
{
    int64_t give_up_ns = ls_clock_mono_ns() + CLEAN_UP_NS;
    uint32_t killed = 0;

    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);

        if (pid < 0)
            return killed;
        if (pid > 0) {
            killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            continue;
        }
        if (!kill_orphans())
            return killed; /* its supervisor will */
        if (ls_clock_mono_ns() >= give_up_ns)
            return killed + 1; /* at least */
        (void)poll(NULL, 0, 1);
    }
}

static void end(unsigned at, int64_t end_ns)
{
    struct run *run = &runs[at];
    struct spawner_report report = { .kind = SPAWNER_ENDED,
                                     .id = run->id,
                                     .pid = run->pid,
                                     .timed_out = run->timed_out,
                                     .begin_ns = run->begin_ns,
                                     .wall_ns = end_ns - run->begin_ns };
    struct rusage usage;
    pid_t pid;

    (void)kill(-run->pid, SIGKILL); /* what is left of its group; it holds the number itself */
    do
        pid = wait4(run->pid, &report.status, 0, &usage);
    while (pid < 0 && errno == EINTR);
    (void)close(run->pidfd);
    close_fds(run->fds);
    report.user_ns = to_ns(usage.ru_utime);
    report.system_ns = to_ns(usage.ru_stime);
    report.peak_bytes = (uint64_t)usage.ru_maxrss << 10;
    *run = runs[--run_count];
    if (run_count == 0)
        report.left_over = clean_up();
    tell(&report);
}

static void kill_run(struct run *run)
{
    run->timed_out = true;
    run->kill_at_ns = INT64_MAX;
    (void)kill(-run->pid, SIGKILL);
    (void)kill(run->pid, SIGKILL);
}

/* ---- orders */

static void take_fds(struct msghdr *msg, int fds[3])
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);

    fds[0] = fds[1] = fds[2] = -1;
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(3 * sizeof(int)))
        (void)memcpy(fds, CMSG_DATA(c), 3 * sizeof(int));
}

/* False: the agent is gone, or talks nonsense, which is the same. */
static bool take_order(void)
{
    union {
        char bytes[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr align;
    } control = { 0 };
    struct iovec iov = { .iov_base = packet.bytes, .iov_len = sizeof(packet.bytes) };
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = control.bytes,
                          .msg_controllen = sizeof(control.bytes) };
    ssize_t n = recvmsg(CONTROL_FD, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    bool fine;
    int fds[3];

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    take_fds(&msg, fds);
    if (n < (ssize_t)sizeof(packet.order) || (msg.msg_flags & MSG_TRUNC) != 0 ||
        packet.order.magic != SPAWNER_MAGIC) {
        close_fds(fds);
        return false;
    }
    fine = order_run(&packet.order, packet.bytes + sizeof(packet.order),
                     (size_t)n - sizeof(packet.order), fds);
    if (!fine)
        close_fds(fds);
    return fine;
}

/* ---- life */

static int wait_ms(void)
{
    int64_t due_ns = INT64_MAX, left_ns;

    for (unsigned i = 0; i < run_count; i++)
        due_ns = runs[i].kill_at_ns < due_ns ? runs[i].kill_at_ns : due_ns;
    if (due_ns == INT64_MAX)
        return -1;
    left_ns = due_ns - ls_clock_mono_ns();
    if (left_ns <= 0)
        return 0;
    return left_ns > 1000 * LS_NS_PER_S ? 1000 * 1000
                                        : (int)((left_ns + LS_NS_PER_MS - 1) / LS_NS_PER_MS);
}

/* Those that have ended, the latest begun first, as the list closes up from behind. */
static void look(struct pollfd *fds, int64_t now_ns)
{
    for (unsigned i = run_count; i-- > 0;) {
        if (fds[i + 1].revents != 0)
            end(i, now_ns);
        else if (runs[i].kill_at_ns <= now_ns)
            kill_run(&runs[i]);
    }
}

static int serve(void)
{
    static struct pollfd fds[SPAWNER_RUNS_MAX + 1];

    for (;;) {
        int64_t now_ns;

        fds[0] = (struct pollfd){ .fd = CONTROL_FD, .events = POLLIN };
        for (unsigned i = 0; i < run_count; i++)
            fds[i + 1] = (struct pollfd){ .fd = runs[i].pidfd, .events = POLLIN };
        (void)poll(fds, run_count + 1, wait_ms());
        now_ns = ls_clock_mono_ns();
        look(fds, now_ns);
        if (fds[0].revents != 0 && !take_order())
            return 0;
    }
}

/* VmHWM of this memory. ru_maxrss has the supervisor's in it, that it was forked from. */
static uint64_t own_peak_bytes(void)
{
    static char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    const char *at;

    if (fd >= 0)
        (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    at = strstr(text, "VmHWM:");
    return at != NULL ? (uint64_t)strtoul(at + 6, NULL, 10) << 10 : 0;
}

int main(void)
{
    struct spawner_report up = { .kind = SPAWNER_UP };

    if (dup3(1, CONTROL_FD, O_CLOEXEC) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return EXIT_INTERNAL;
    (void)prctl(PR_SET_NAME, "ls-spawner");
    up.peak_bytes = own_peak_bytes();
    tell(&up);
    return serve();
}
