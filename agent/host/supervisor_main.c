/* The inside of the supervisor process (agent/host/supervisor.h): single-threaded, no log. */
#include "agent/host/supervisor_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/proc.h"
#include "common/clock.h"

#define KILL_LOOK_NS      (2 * LS_NS_PER_MS)
#define SIGNAL_LOOKS      3
#define KILL_LATE_LOOK_NS (100 * LS_NS_PER_MS)
#define STUCK_NS          (5 * LS_NS_PER_S)
#define EXIT_INTERNAL     70

enum mode { IDLE, RUNNING, STOPPING, KILLING };

struct supervisor {
    int control; /* -1: the agent is gone */
    int child_signals;
    enum mode mode;
    pid_t main; /* the program; 0: has been reaped, or was never started */
    bool oneshot;
    bool stuck_said;
    int64_t kill_at_ns;    /* STOPPING: end of the grace time */
    int64_t kill_begun_ns; /* KILLING */
    uint32_t left_over;
};

/* What the child tells before exec; nothing at all: the exec has happened. */
struct start_failure {
    int step;
    int error;
};

struct job {
    const char *path;
    const char *dir;
    char **argv;
    char **envp;
    const struct ls_cpuset *cpus;
    const struct host_confine *confine;
    int output_fd;
};

static void report(struct supervisor *s, const struct host_supervisor_event *event)
{
    struct supervisor_report packet = { .magic = SUPERVISOR_MAGIC, .event = *event };

    /* A failure means that the agent is gone, and reading says so too. */
    if (s->control >= 0)
        (void)send(s->control, &packet, sizeof(packet), MSG_NOSIGNAL);
}

static void report_clean(struct supervisor *s)
{
    struct host_supervisor_event event = { .kind = HOST_SUPERVISOR_CLEAN,
                                           .left_over = s->left_over };

    s->mode = IDLE;
    report(s, &event);
}

/* ---- starting: in the child, between fork and exec */

static LS_NORETURN void start_fails(int failure_fd, int step)
{
    struct start_failure failure = { .step = step, .error = errno };
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

static LS_NORETURN void become_target(const struct job *job, int failure_fd, pid_t supervisor)
{
    if (setsid() < 0)
        start_fails(failure_fd, HOST_STEP_SESSION);
    if (!arrange_files(job->output_fd, &failure_fd))
        start_fails(failure_fd, HOST_STEP_FILES);
    if (job->cpus != NULL && ls_cpuset_set_affinity(0, job->cpus, NULL) != LS_OK)
        start_fails(failure_fd, HOST_STEP_CPUS);
    confine(job->confine, failure_fd);
    /* A second string to the bow, for the case that agent and supervisor are killed together. Not
     * before the user has changed, which would undo it (kernel/cred.c, commit_creds()). */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(EXIT_INTERNAL);
    if (chdir(job->dir) < 0)
        start_fails(failure_fd, HOST_STEP_FOLDER);
    default_signals();
    (void)execve(job->path, job->argv, job->envp);
    start_fails(failure_fd, HOST_STEP_EXEC);
}

static void start_failed(struct supervisor *s, int step, int error)
{
    struct host_supervisor_event event = { .kind = HOST_SUPERVISOR_START_FAILED,
                                           .step = (enum host_supervisor_step)step,
                                           .error = error };

    report(s, &event);
}

/* Reads until the exec has closed the pipe or failed. */
static bool await_exec(int fd, struct start_failure *failure)
{
    ssize_t n;

    do
        n = read(fd, failure, sizeof(*failure));
    while (n < 0 && errno == EINTR);
    return n == 0;
}

static void start(struct supervisor *s, const struct job *job)
{
    struct host_supervisor_event event = { .kind = HOST_SUPERVISOR_STARTED };
    struct start_failure failure = { .step = HOST_STEP_FORK, .error = EIO };
    pid_t self = getpid();
    int fds[2];
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0) {
        start_failed(s, HOST_STEP_FORK, errno);
        return;
    }
    pid = fork();
    if (pid == 0)
        become_target(job, fds[1], self);
    if (pid < 0)
        failure.error = errno;
    (void)close(fds[1]);
    if (pid < 0 || !await_exec(fds[0], &failure)) {
        (void)close(fds[0]);
        if (pid > 0)
            (void)waitpid(pid, NULL, 0);
        start_failed(s, failure.step, failure.error);
        return;
    }
    (void)close(fds[0]);
    s->main = pid;
    s->mode = RUNNING;
    s->left_over = 0;
    s->stuck_said = false;
    event.pid = pid; /* not reaped yet, so its affinity can be read even if it has ended */
    if (ls_cpuset_get_affinity(pid, &event.cpus, NULL) != LS_OK)
        ls_cpuset_clear(&event.cpus);
    report(s, &event);
}

/* ---- ending */

static void report_exit(struct supervisor *s, int status, bool others)
{
    struct host_supervisor_event event = { .kind = HOST_SUPERVISOR_EXITED,
                                           .pid = s->main,
                                           .status = status,
                                           .asked = s->mode == STOPPING || s->mode == KILLING,
                                           .others = others };

    s->main = 0;
    report(s, &event);
}

/* Takes all that have ended. True: nothing is left below this process, whatever it did, for as a
 * subreaper it has a child as long as there is any descendant. */
static bool reap(struct supervisor *s)
{
    bool main_ended = false;
    int main_status = 0;

    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        bool empty = pid < 0 && errno == ECHILD;

        if (pid <= 0) {
            if (main_ended)
                report_exit(s, main_status, !empty);
            return empty;
        }
        if (pid == s->main) {
            main_ended = true;
            main_status = status;
        } else if (s->mode == KILLING && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
            s->left_over++;
        }
    }
}

static bool contains(const struct host_proc *procs, size_t count, const struct host_proc *proc)
{
    for (size_t i = 0; i < count; i++) {
        if (procs[i].pid == proc->pid && procs[i].start_ticks == proc->start_ticks)
            return true;
    }
    return false;
}

/* The stop signal, once to each: to the group in one stroke, while its leader has not been reaped
 * and nobody else can have its number; to those that have left the group one by one, with another
 * look for who was just being forked. Processes that a signal handler starts later are left alone.
 */
static void signal_all(struct supervisor *s, int signal)
{
    struct host_proc *procs, *seen = NULL;
    size_t count, seen_count = 0;
    pid_t group = s->main;
    bool fresh = true;

    if (group > 0)
        (void)kill(-group, signal);
    for (int i = 0; i < SIGNAL_LOOKS && fresh; i++) {
        if (host_proc_descendants(getpid(), &procs, &count, NULL) != LS_OK)
            break; /* no memory: the grace time ends in KILL for all */
        fresh = false;
        for (size_t k = 0; k < count; k++) {
            if (procs[k].state == 'Z' || (group > 0 && procs[k].group == group) ||
                contains(seen, seen_count, &procs[k]))
                continue;
            fresh = true;
            (void)host_proc_kill(&procs[k], signal);
        }
        free(seen);
        seen = procs;
        seen_count = count;
    }
    free(seen);
}

/* Own children cannot lose their number before they are reaped here, so this needs no check and is
 * fast enough for processes that live for microseconds and fork the next. */
static void kill_children(void)
{
    pid_t pids[256];
    size_t count = 0;

    if (!host_proc_own_children(pids, LS_ARRAY_LEN(pids), &count))
        return;
    for (size_t i = 0; i < count; i++)
        (void)kill(pids[i], SIGKILL);
}

/* Stops before it kills: a process that is stopped cannot fork while others are being killed.
 * out_last: one of those that lived; untouched if none did. */
static void kill_descendants(struct host_proc *out_last)
{
    struct host_proc *procs = NULL;
    size_t count = 0;

    if (host_proc_descendants(getpid(), &procs, &count, NULL) != LS_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        if (procs[i].state != 'Z')
            (void)host_proc_kill(&procs[i], SIGSTOP);
    }
    for (size_t i = 0; i < count; i++) {
        if (procs[i].state == 'Z')
            continue;
        *out_last = procs[i];
        (void)host_proc_kill(&procs[i], SIGKILL);
    }
    free(procs);
}

/* One round against everything that lives; cgroup.kill, where there is a cgroup, belongs here. */
static void kill_round(struct supervisor *s, int64_t now_ns)
{
    struct host_supervisor_event stuck = { .kind = HOST_SUPERVISOR_STUCK };
    struct host_proc last = { 0 };

    kill_descendants(&last);
    for (int i = 0; i < 16 && !reap(s); i++)
        kill_children();
    if (s->stuck_said || last.pid == 0 || now_ns - s->kill_begun_ns < STUCK_NS)
        return;
    s->stuck_said = true;
    stuck.pid = last.pid;
    stuck.state = last.state;
    (void)memcpy(stuck.name, last.name, sizeof(stuck.name));
    report(s, &stuck);
}

static void begin_kill(struct supervisor *s)
{
    s->mode = KILLING;
    s->kill_begun_ns = ls_clock_mono_ns();
    kill_round(s, s->kill_begun_ns);
}

/* ---- orders */

/* Cuts text into count strings; NULL: it holds fewer. The caller frees the array. */
static char **cut(char **text, size_t *left, uint32_t count)
{
    char **list = calloc((size_t)count + 1, sizeof(*list));

    for (uint32_t i = 0; list != NULL && i < count; i++) {
        char *end = memchr(*text, '\0', *left);

        if (end == NULL) {
            free(list);
            return NULL;
        }
        list[i] = *text;
        *left -= (size_t)(end + 1 - *text);
        *text = end + 1;
    }
    return list;
}

static void order_start(struct supervisor *s, const struct supervisor_order *order, char *text,
                        size_t text_bytes, int output_fd)
{
    uint32_t most = SUPERVISOR_PACKET_MAX;
    char **two = NULL, **argv = NULL, **envp = NULL;

    if (s->mode == IDLE && output_fd >= 0 && order->text_bytes == text_bytes && order->argc >= 1 &&
        order->argc < most && order->envc < most) {
        two = cut(&text, &text_bytes, 2);
        argv = two != NULL ? cut(&text, &text_bytes, order->argc) : NULL;
        envp = argv != NULL ? cut(&text, &text_bytes, order->envc) : NULL;
    }
    if (envp == NULL) {
        start_failed(s, HOST_STEP_FORK, EPROTO);
    } else {
        struct job job = { .path = two[0],
                           .dir = two[1],
                           .argv = argv,
                           .envp = envp,
                           .cpus = order->has_cpus != 0 ? &order->cpus : NULL,
                           .confine = &order->confine,
                           .output_fd = output_fd };

        s->oneshot = order->oneshot != 0;
        start(s, &job);
    }
    free(two);
    free(argv);
    free(envp);
}

static void order_stop(struct supervisor *s, const struct supervisor_order *order)
{
    if (s->mode == IDLE) {
        report_clean(s);
    } else if (s->mode != KILLING && order->grace_ns <= 0) {
        begin_kill(s);
    } else if (s->mode == RUNNING) {
        s->mode = STOPPING;
        s->kill_at_ns = ls_clock_mono_ns() + order->grace_ns;
        signal_all(s, order->signal);
    }
}

static int received_fd(struct msghdr *msg)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    int fd = -1;

    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        (void)memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    return fd;
}

/* False: the agent is gone, or talks nonsense, which is the same. */
static bool take_order(struct supervisor *s)
{
    static union {
        char bytes[SUPERVISOR_PACKET_MAX];
        struct supervisor_order order;
    } packet;
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { 0 };
    struct iovec iov = { .iov_base = packet.bytes, .iov_len = sizeof(packet.bytes) };
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = control.bytes,
                          .msg_controllen = sizeof(control.bytes) };
    ssize_t n = recvmsg(s->control, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    int fd = -1;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    fd = received_fd(&msg);
    if (n < (ssize_t)sizeof(packet.order) || (msg.msg_flags & MSG_TRUNC) != 0 ||
        packet.order.magic != SUPERVISOR_MAGIC)
        return false;
    if (packet.order.kind == SUPERVISOR_START)
        order_start(s, &packet.order, packet.bytes + sizeof(packet.order),
                    (size_t)n - sizeof(packet.order), fd);
    else if (packet.order.kind == SUPERVISOR_STOP)
        order_stop(s, &packet.order);
    if (fd >= 0)
        (void)close(fd);
    return true;
}

/* ---- life */

/* Everything that can be blocked is, but for the faults of our own code. */
static int block_signals(void)
{
    sigset_t all, child;

    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGSEGV);
    (void)sigdelset(&all, SIGBUS);
    (void)sigdelset(&all, SIGFPE);
    (void)sigdelset(&all, SIGILL);
    (void)sigdelset(&all, SIGABRT);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return -1;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Rounds of waiting end at the grace time's end, and soon while killing; a child whose exit signal
 * is not SIGCHLD wakes nobody, so that something that stops is looked at now and then. */
static int wait_ms(const struct supervisor *s, int64_t now_ns)
{
    int64_t ns = 50 * LS_NS_PER_MS;

    if (s->mode == IDLE || s->mode == RUNNING)
        return -1;
    if (s->mode == KILLING && now_ns - s->kill_begun_ns < LS_NS_PER_S)
        ns = KILL_LOOK_NS;
    else if (s->mode == KILLING)
        ns = KILL_LATE_LOOK_NS;
    else if (s->kill_at_ns - now_ns < ns)
        ns = s->kill_at_ns > now_ns ? s->kill_at_ns - now_ns : 0;
    return (int)((ns + LS_NS_PER_MS - 1) / LS_NS_PER_MS);
}

/* Something has ended, or it is time. True: nothing lives any more. */
static bool advance(struct supervisor *s)
{
    struct signalfd_siginfo info[8];
    bool empty;

    while (read(s->child_signals, info, sizeof(info)) > 0)
        ;
    empty = reap(s);
    if (empty && (s->mode == STOPPING || s->mode == KILLING)) {
        report_clean(s);
    } else if (s->mode == RUNNING && s->oneshot && s->main == 0) {
        if (empty)
            report_clean(s);
        else
            begin_kill(s);
    } else if (s->mode == STOPPING && ls_clock_mono_ns() >= s->kill_at_ns) {
        begin_kill(s);
    } else if (s->mode == KILLING) {
        kill_round(s, ls_clock_mono_ns());
    }
    return empty;
}

int host_supervisor_serve(int control_fd)
{
    struct supervisor s = { .control = control_fd };

    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return EXIT_INTERNAL;
    s.child_signals = block_signals();
    if (s.child_signals < 0)
        return EXIT_INTERNAL;
    for (;;) {
        struct pollfd fds[] = { { .fd = s.control, .events = POLLIN },
                                { .fd = s.child_signals, .events = POLLIN } };

        (void)poll(fds, LS_ARRAY_LEN(fds), wait_ms(&s, ls_clock_mono_ns()));
        (void)reap(&s); /* who has ended before an order came has not ended because of it */
        if (s.control >= 0 && fds[0].revents != 0 && !take_order(&s)) {
            (void)close(s.control);
            s.control = -1;
            if (s.mode != KILLING)
                begin_kill(&s);
        }
        if (advance(&s) && s.control < 0)
            return 0;
    }
}
