#include "agent/host/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/proc.h"
#include "agent/host/supervisor_wire.h"
#include "agent/host/target.h"
#include "common/buf.h"
#include "common/clock.h"

#define END_WAIT_NS    (10 * LS_NS_PER_S)
#define ORPHAN_WAIT_NS (5 * LS_NS_PER_S)

extern char **environ;

struct host_supervisor {
    pid_t pid;
    int fd;
    bool lost; /* has been said */
    struct host_supervisor *next;
};

/* Which children of this process are supervisors. Held over the spawn, so that no supervisor is
 * ever seen that is not on the list. */
static struct {
    pthread_mutex_t lock;
    struct host_supervisor *first;
    bool adopts;
    struct host_proc *others; /* children when adoption began */
    size_t other_count;
} family = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- spawn */

void host_supervisor_main_hook(int argc, char **argv)
{
    int type = 0;
    socklen_t len = sizeof(type);

    if (argc != 2 || strcmp(argv[1], SUPERVISOR_ARG) != 0)
        return;
    if (getsockopt(SUPERVISOR_CONTROL_FD, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
        type != SOCK_SEQPACKET) {
        (void)fprintf(stderr, "%s is for the program's own use\n", SUPERVISOR_ARG);
        _exit(2);
    }
    (void)fcntl(SUPERVISOR_CONTROL_FD, F_SETFD, FD_CLOEXEC);
    (void)prctl(PR_SET_NAME, "ls-supervisor");
    _exit(host_supervisor_serve(SUPERVISOR_CONTROL_FD)); /* no atexit handlers: not their process */
}

/* No signal mask, no ignored signals, no descriptors but these four, no terminal. */
static int spawn(int control_fd, pid_t *out_pid)
{
    char *argv[] = { (char[]){ "lockstep-supervisor" }, (char[]){ SUPERVISOR_ARG }, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int error = 0;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attr) != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return ENOMEM;
    }
    error |= posix_spawn_file_actions_adddup2(&actions, control_fd, SUPERVISOR_CONTROL_FD);
    error |= posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
    error |= posix_spawn_file_actions_adddup2(&actions, 0, 1);
    error |= posix_spawn_file_actions_adddup2(&actions, 0, 2);
    error |= posix_spawn_file_actions_addclosefrom_np(&actions, SUPERVISOR_CONTROL_FD + 1);
    error |= posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                 POSIX_SPAWN_SETSIGDEF);
    error |= posix_spawnattr_setsigmask(&attr, &none);
    error |= posix_spawnattr_setsigdefault(&attr, &all);
    if (error == 0)
        error = posix_spawn(out_pid, "/proc/self/exe", &actions, &attr, argv, environ);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

enum ls_err host_supervisor_create(struct host_supervisor **out_supervisor, struct ls_diag *diag)
{
    struct host_supervisor *s = calloc(1, sizeof(*s));
    int fds[2];
    int error;

    if (s == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a supervisor");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
        error = errno;
        free(s);
        return ls_fail(diag, LS_EIO, "cannot make a socket pair for the supervisor: %s",
                       strerror(error));
    }
    s->fd = fds[0];
    (void)pthread_mutex_lock(&family.lock);
    error = spawn(fds[1], &s->pid);
    if (error == 0) {
        s->next = family.first;
        family.first = s;
    }
    (void)pthread_mutex_unlock(&family.lock);
    (void)close(fds[1]);
    if (error != 0) {
        (void)close(s->fd);
        free(s);
        return ls_fail(diag, LS_EIO, "cannot start a supervisor process: %s", strerror(error));
    }
    *out_supervisor = s;
    return LS_OK;
}

/* ---- orphans of a supervisor that was killed */

static bool is_orphan(const struct host_proc *proc)
{
    if (proc->ppid != getpid())
        return false;
    for (const struct host_supervisor *s = family.first; s != NULL; s = s->next) {
        if (s->pid == proc->pid)
            return false;
    }
    for (size_t i = 0; i < family.other_count; i++) {
        if (family.others[i].pid == proc->pid && family.others[i].start_ticks == proc->start_ticks)
            return false;
    }
    return true;
}

static void kill_tree(const struct host_proc *top)
{
    struct host_proc *below = NULL;
    size_t count = 0;

    (void)host_proc_kill(top, SIGSTOP);
    if (host_proc_descendants(top->pid, &below, &count, NULL) == LS_OK) {
        for (size_t i = 0; i < count; i++)
            (void)host_proc_kill(&below[i], SIGSTOP);
        for (size_t i = 0; i < count; i++)
            (void)host_proc_kill(&below[i], SIGKILL);
    }
    free(below);
    (void)host_proc_kill(top, SIGKILL);
}

/* One round; returns how many orphans there were. Called with the family's lock held. */
static size_t kill_orphans_once(void)
{
    struct host_proc *procs = NULL;
    size_t count = 0, orphans = 0;

    if (host_proc_descendants(getpid(), &procs, &count, NULL) != LS_OK)
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_orphan(&procs[i]))
            continue;
        orphans++;
        if (procs[i].state != 'Z')
            kill_tree(&procs[i]);
        (void)waitpid(procs[i].pid, NULL, WNOHANG | __WALL);
    }
    free(procs);
    return orphans;
}

static void kill_orphans(void)
{
    int64_t give_up_ns = ls_clock_mono_ns() + ORPHAN_WAIT_NS;

    while (family.adopts && kill_orphans_once() > 0 && ls_clock_mono_ns() < give_up_ns)
        ls_clock_sleep_until(ls_clock_mono_ns() + LS_NS_PER_MS);
}

enum ls_err host_adopt_orphans(struct ls_diag *diag)
{
    struct host_proc *procs = NULL;
    size_t count = 0, kept = 0;
    enum ls_err rc = host_proc_descendants(getpid(), &procs, &count, diag);

    if (rc != LS_OK)
        return rc;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
        free(procs);
        return ls_fail(diag, LS_EIO, "cannot become a child subreaper: %s", strerror(errno));
    }
    (void)pthread_mutex_lock(&family.lock);
    for (size_t i = 0; i < count; i++) {
        if (is_orphan(&procs[i]))
            procs[kept++] = procs[i];
    }
    if (!family.adopts) {
        family.adopts = true;
        family.others = procs;
        family.other_count = kept;
        procs = NULL;
    }
    (void)pthread_mutex_unlock(&family.lock);
    free(procs);
    return LS_OK;
}

/* ---- end */

static void leave_family(const struct host_supervisor *s)
{
    for (struct host_supervisor **at = &family.first; *at != NULL; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            return;
        }
    }
}

/* True when it has gone; *out_status is then how, or 0 if somebody else has asked already. */
static bool await_end(pid_t pid, int *out_status)
{
    int64_t give_up_ns = ls_clock_mono_ns() + END_WAIT_NS;

    for (;;) {
        pid_t got = waitpid(pid, out_status, WNOHANG);

        if (got == pid)
            return true;
        if (got < 0 && errno == ECHILD) {
            *out_status = 0;
            return true;
        }
        if (ls_clock_mono_ns() >= give_up_ns)
            return false;
        ls_clock_sleep_until(ls_clock_mono_ns() + LS_NS_PER_MS / 2);
    }
}

void host_supervisor_destroy(struct host_supervisor *s)
{
    int status = 0;

    if (s == NULL)
        return;
    (void)close(s->fd);
    if (!await_end(s->pid, &status))
        return; /* still killing: it stays on the list, lest it be taken for an orphan */
    (void)pthread_mutex_lock(&family.lock);
    leave_family(s);
    if (s->lost || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        kill_orphans();
    (void)pthread_mutex_unlock(&family.lock);
    free(s);
}

/* ---- talk */

pid_t host_supervisor_pid(const struct host_supervisor *s)
{
    return s->pid;
}

int host_supervisor_fd(const struct host_supervisor *s)
{
    return s->fd;
}

static uint32_t add_list(struct ls_buf *buf, char *const *list)
{
    uint32_t n = 0;

    for (; list != NULL && list[n] != NULL; n++)
        ls_buf_add(buf, list[n], strlen(list[n]) + 1);
    return n;
}

static enum ls_err send_packet(int fd, const struct ls_buf *packet, int output_fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { 0 };
    struct iovec iov = { .iov_base = packet->data, .iov_len = packet->len };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (output_fd >= 0) {
        struct cmsghdr *c;

        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        (void)memcpy(CMSG_DATA(c), &output_fd, sizeof(output_fd));
    }
    return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)packet->len ? LS_OK : LS_ECLOSED;
}

static void add_group(struct ls_buf *buf, const struct host_cgroup *group,
                      struct supervisor_order *order)
{
    const char *folders[HOST_CGROUP_FOLDERS];

    if (group == NULL)
        return;
    order->group_count = host_cgroup_folders(group, folders);
    order->group_kills = host_cgroup_kills_by(group)[0] != '\0';
    for (unsigned i = 0; i < order->group_count; i++)
        ls_buf_add(buf, folders[i], strlen(folders[i]) + 1);
}

enum ls_err host_supervisor_start(struct host_supervisor *s, const struct host_supervisor_job *job,
                                  struct ls_diag *diag)
{
    struct supervisor_order order = { .magic = SUPERVISOR_MAGIC,
                                      .kind = SUPERVISOR_START,
                                      .oneshot = job->oneshot,
                                      .own_pids = job->own_pids,
                                      .instance = job->instance,
                                      .has_cpus = job->cpus != NULL };
    bool renamed = job->confine != NULL && job->confine->by_real_path;
    enum ls_err rc;
    struct ls_buf buf;

    if (job->cpus != NULL)
        order.cpus = *job->cpus;
    if (job->confine != NULL)
        order.confine = *job->confine;
    ls_buf_init(&buf, SUPERVISOR_PACKET_MAX);
    ls_buf_add(&buf, &order, sizeof(order));
    ls_buf_add(&buf, job->path, strlen(job->path) + 1);
    ls_buf_add(&buf, job->dir, strlen(job->dir) + 1);
    add_group(&buf, job->group, &order);
    if (renamed)
        ls_buf_add(&buf, job->path, strlen(job->path) + 1);
    order.argc = renamed + add_list(&buf, job->argv + renamed);
    order.envc = add_list(&buf, job->envp);
    if (!buf.ok) {
        rc = ls_fail(diag, LS_ERANGE,
                     "command and environment of %s are longer than %u KiB: shorten them, or put "
                     "what is long into a file",
                     job->argv[0], SUPERVISOR_PACKET_MAX >> 10);
    } else {
        order.text_bytes = (uint32_t)(buf.len - sizeof(order));
        (void)memcpy(buf.data, &order, sizeof(order));
        rc = send_packet(s->fd, &buf, job->output_fd);
        if (rc != LS_OK)
            (void)ls_fail(diag, rc, "the supervisor process %d is gone: %s", (int)s->pid,
                          strerror(errno));
    }
    ls_buf_fini(&buf);
    return rc;
}

void host_supervisor_stop(struct host_supervisor *s, int signal, int64_t grace_ns)
{
    struct supervisor_order order = {
        .magic = SUPERVISOR_MAGIC, .kind = SUPERVISOR_STOP, .signal = signal, .grace_ns = grace_ns
    };

    (void)send(s->fd, &order, sizeof(order), MSG_NOSIGNAL); /* gone: receive() says so */
}

enum ls_err host_supervisor_receive(struct host_supervisor *s,
                                    struct host_supervisor_event *out_event)
{
    struct supervisor_report packet;
    ssize_t n;

    if (s->lost)
        return LS_EAGAIN;
    do
        n = recv(s->fd, &packet, sizeof(packet), MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return LS_EAGAIN;
    if (n != (ssize_t)sizeof(packet) || packet.magic != SUPERVISOR_MAGIC ||
        (unsigned)packet.event.kind >= HOST_SUPERVISOR_LOST ||
        packet.event.instance >= HOST_INSTANCES_MAX ||
        (unsigned)packet.event.step >= HOST_STEP_COUNT) {
        s->lost = true;
        *out_event = (struct host_supervisor_event){ .kind = HOST_SUPERVISOR_LOST };
        return LS_OK;
    }
    packet.event.name[sizeof(packet.event.name) - 1] = '\0';
    *out_event = packet.event;
    return LS_OK;
}
