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
#include "agent/host/supervisor_child.h"
#include "common/clock.h"

#define KILL_LOOK_NS      (2 * LS_NS_PER_MS)
#define SIGNAL_LOOKS      3
#define KILL_LATE_LOOK_NS (100 * LS_NS_PER_MS)
#define STUCK_NS          (5 * LS_NS_PER_S)
#define EXIT_INTERNAL     70

enum mode { IDLE, RUNNING, STOPPING, KILLING };

struct instance {
    pid_t pid; /* of the program; 0: has been reaped, or was never started */
    int status;
    bool ended; /* and that has not been reported yet */
};

struct supervisor {
    int control; /* -1: the agent is gone */
    int child_signals;
    enum mode mode;
    struct instance instances[HOST_INSTANCES_MAX];
    unsigned instance_count;
    char groups[HOST_CGROUP_FOLDERS][HOST_CGROUP_PATH];
    unsigned group_count;
    bool group_kills;
    pid_t init; /* of the pid namespace that targets are in; 0: there is none */
    bool oneshot;
    bool stuck_said;
    int64_t kill_at_ns;    /* STOPPING: end of the grace time */
    int64_t kill_begun_ns; /* KILLING */
    uint32_t left_over;
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
    s->instance_count = 0;
    report(s, &event);
}

static bool any_alive(const struct supervisor *s)
{
    for (unsigned i = 0; i < s->instance_count; i++) {
        if (s->instances[i].pid != 0)
            return true;
    }
    return false;
}

/* ---- starting */

static void start_failed(struct supervisor *s, uint32_t instance, int step, int error)
{
    struct host_supervisor_event event = { .kind = HOST_SUPERVISOR_START_FAILED,
                                           .instance = instance,
                                           .step = (enum host_supervisor_step)step,
                                           .error = error };

    report(s, &event);
}

/* Reads until the exec has closed the pipe or failed. */
static bool await_exec(int fd, struct host_child_failure *failure)
{
    ssize_t n;

    do
        n = read(fd, failure, sizeof(*failure));
    while (n < 0 && errno == EINTR);
    return n == 0;
}

static void start(struct supervisor *s, uint32_t instance, struct host_child *child)
{
    struct host_supervisor_event event = { .kind = HOST_SUPERVISOR_STARTED, .instance = instance };
    struct host_child_failure failure = { .step = HOST_STEP_FORK, .error = EIO };
    int fds[2];
    pid_t pid;

    child->supervisor = s->init > 0 ? 0 : getpid();
    if (pipe2(fds, O_CLOEXEC) < 0) {
        start_failed(s, instance, HOST_STEP_FORK, errno);
        return;
    }
    pid = fork();
    if (pid == 0)
        host_child_become(child, fds[1]);
    if (pid < 0)
        failure.error = errno;
    (void)close(fds[1]);
    if (pid < 0 || !await_exec(fds[0], &failure)) {
        (void)close(fds[0]);
        if (pid > 0)
            (void)waitpid(pid, NULL, 0);
        start_failed(s, instance, failure.step, failure.error);
        return;
    }
    (void)close(fds[0]);
    if (s->mode == IDLE) {
        s->mode = RUNNING;
        s->left_over = 0;
        s->stuck_said = false;
    }
    s->instances[instance] = (struct instance){ .pid = pid };
    s->instance_count = instance + 1;
    event.init = s->init;
    event.pid = pid; /* not reaped yet, so its affinity can be read even if it has ended */
    if (ls_cpuset_get_affinity(pid, &event.cpus, NULL) != LS_OK)
        ls_cpuset_clear(&event.cpus);
    report(s, &event);
}

/* ---- ending */

static void report_exits(struct supervisor *s, bool others)
{
    for (unsigned i = 0; i < s->instance_count; i++) {
        struct instance *one = &s->instances[i];
        struct host_supervisor_event event = { .kind = HOST_SUPERVISOR_EXITED,
                                               .instance = i,
                                               .pid = one->pid,
                                               .status = one->status,
                                               .asked = s->mode == STOPPING || s->mode == KILLING,
                                               .others = others };

        if (!one->ended)
            continue;
        *one = (struct instance){ .pid = 0 };
        report(s, &event);
    }
}

static struct instance *find_instance(struct supervisor *s, pid_t pid)
{
    for (unsigned i = 0; i < s->instance_count && pid > 0; i++) {
        if (s->instances[i].pid == pid)
            return &s->instances[i];
    }
    return NULL;
}

/* Who lives beside the first process of the pid namespace. */
static uint32_t count_living(const struct supervisor *s)
{
    struct host_proc *procs = NULL;
    size_t count = 0;
    uint32_t living = 0;

    if (host_proc_descendants(getpid(), &procs, &count, NULL) != LS_OK)
        return 1; /* no memory: it may be */
    for (size_t i = 0; i < count; i++)
        living += procs[i].pid != s->init && procs[i].state != 'Z';
    free(procs);
    return living;
}

/* Orphans do not come here but to the first process of the pid namespace, which stays as long as it
 * is let. If the end was asked for, it is killed; the last one is waited for like all others, for
 * it does not end before they are. */
static bool is_empty_but_for_init(struct supervisor *s)
{
    if (count_living(s) > 0)
        return false;
    if (s->mode != STOPPING && s->mode != KILLING)
        return true;
    (void)kill(s->init, SIGKILL);
    return false;
}

/* Takes all that have ended. True: nothing is left below this process, whatever it did, for as a
 * subreaper it has a child as long as there is any descendant. */
static bool reap(struct supervisor *s)
{
    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        bool empty = pid < 0 && errno == ECHILD;
        struct instance *one = pid > 0 ? find_instance(s, pid) : NULL;

        if (pid <= 0) {
            empty = empty || (s->init > 0 && is_empty_but_for_init(s));
            report_exits(s, !empty);
            return empty;
        }
        if (pid == s->init) {
            s->init = 0;
        } else if (one != NULL) {
            one->ended = true;
            one->status = status;
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

/* The stop signal, once to each: to a group in one stroke, while its leader has not been reaped
 * and nobody else can have its number; to those that have left the group one by one, with another
 * look for who was just being forked. Processes that a signal handler starts later are left alone.
 */
static void signal_all(struct supervisor *s, int signal)
{
    struct host_proc *procs, *seen = NULL;
    size_t count, seen_count = 0;
    bool fresh = true;

    for (unsigned i = 0; i < s->instance_count; i++) {
        if (s->instances[i].pid > 0)
            (void)kill(-s->instances[i].pid, signal);
    }
    for (int i = 0; i < SIGNAL_LOOKS && fresh; i++) {
        if (host_proc_descendants(getpid(), &procs, &count, NULL) != LS_OK)
            break; /* no memory: the grace time ends in KILL for all */
        fresh = false;
        for (size_t k = 0; k < count; k++) {
            if (procs[k].state == 'Z' || find_instance(s, procs[k].group) != NULL ||
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

/* One round against everything that lives. */
static void kill_round(struct supervisor *s, int64_t now_ns)
{
    struct host_supervisor_event stuck = { .kind = HOST_SUPERVISOR_STUCK };
    struct host_proc last = { 0 };

    if (s->group_kills)
        host_cgroup_kill(s->groups[0]);
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
    if (s->init > 0) { /* they are waited for in there */
        uint32_t living = count_living(s);

        for (unsigned i = 0; i < s->instance_count && living > 0; i++)
            living -= s->instances[i].pid != 0;
        s->left_over += living;
    }
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

/* The first instance when nothing runs, and then one after the other. */
static bool may_start(const struct supervisor *s, const struct supervisor_order *order)
{
    if (order->instance == 0)
        return s->mode == IDLE;
    return s->mode == RUNNING && !s->oneshot && order->instance == s->instance_count &&
           order->instance < HOST_INSTANCES_MAX;
}

static bool keep_groups(struct supervisor *s, const struct supervisor_order *order, char **groups)
{
    s->group_count = 0;
    s->group_kills = order->group_kills != 0 && order->group_count > 0;
    for (uint32_t i = 0; i < order->group_count; i++) {
        if (strlen(groups[i]) >= sizeof(s->groups[i]))
            return false;
        (void)memcpy(s->groups[i], groups[i], strlen(groups[i]) + 1);
        s->group_count++;
    }
    return true;
}

static void order_start(struct supervisor *s, const struct supervisor_order *order, char *text,
                        size_t text_bytes, int output_fd)
{
    uint32_t most = SUPERVISOR_PACKET_MAX;
    char **two = NULL, **groups = NULL, **argv = NULL, **envp = NULL;
    int error = 0;

    if (may_start(s, order) && output_fd >= 0 && order->text_bytes == text_bytes &&
        order->argc >= 1 && order->argc < most && order->envc < most &&
        order->group_count <= HOST_CGROUP_FOLDERS) {
        two = cut(&text, &text_bytes, 2);
        groups = two != NULL ? cut(&text, &text_bytes, order->group_count) : NULL;
        argv = groups != NULL ? cut(&text, &text_bytes, order->argc) : NULL;
        envp = argv != NULL ? cut(&text, &text_bytes, order->envc) : NULL;
    }
    if (envp == NULL || !keep_groups(s, order, groups)) {
        start_failed(s, order->instance < HOST_INSTANCES_MAX ? order->instance : 0, HOST_STEP_FORK,
                     EPROTO);
    } else {
        struct host_child child = { .path = two[0],
                                    .dir = two[1],
                                    .groups = groups,
                                    .argv = argv,
                                    .envp = envp,
                                    .cpus = order->has_cpus != 0 ? &order->cpus : NULL,
                                    .confine = &order->confine,
                                    .output_fd = output_fd };

        s->oneshot = order->oneshot != 0;
        if (order->own_pids != 0 && s->init == 0)
            error = host_child_make_init(&s->init);
        if (error != 0)
            start_failed(s, order->instance, HOST_STEP_FORK, error);
        else
            start(s, order->instance, &child);
    }
    free(two);
    free(groups);
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
    } else if (s->mode == RUNNING && s->oneshot && !any_alive(s)) {
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
        if (advance(&s) && s.control < 0) {
            for (unsigned i = 0; i < s.group_count; i++)
                (void)host_cgroup_remove(s.groups[i]); /* nobody else is there to do it */
            return 0;
        }
    }
}
