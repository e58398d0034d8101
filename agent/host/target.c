#include "agent/host/target.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/port.h"
#include "agent/host/target_state.h"
#include "agent/host/thread.h"
#include "common/clock.h"
#include "common/units.h"

#define CLEAN_SLACK_NS (8 * LS_NS_PER_S) /* beyond the grace time, until "left behind" */
#define PORT_WAIT_NS   (2 * LS_NS_PER_S)
#define PORT_LOOK_NS   (10 * LS_NS_PER_MS)

void host_target_main_hook(int argc, char **argv)
{
    host_supervisor_main_hook(argc, argv);
}

int host_signal_number(const char *name)
{
    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (int i = 1; i < SIGRTMIN; i++) {
        const char *abbreviation = sigabbrev_np(i);

        if (abbreviation != NULL && strcmp(abbreviation, name) == 0)
            return i;
    }
    return SIGTERM;
}

/* ---- events, of the target's thread */

static void emit(struct host_target *t, struct host_target_event *event)
{
    event->diag = t->diag;
    event->code = t->code != NULL ? t->code : "";
    if (t->code == NULL)
        event->diag = (struct ls_diag){ .code = LS_OK };
    (void)snprintf(event->exit, sizeof(event->exit), "%s", t->exit);
    (void)pthread_mutex_lock(&t->lock);
    if (t->event_count < HOST_TARGET_EVENTS)
        t->events[t->event_count++] = *event;
    (void)pthread_mutex_unlock(&t->lock);
    t->env.wake(t->env.ctx);
}

static void emit_up(struct host_target *t)
{
    struct host_target_event event = { .kind = HOST_TARGET_UP,
                                       .program = { .path = t->file.real,
                                                    .sha256 = t->file.sha256,
                                                    .interpreter = t->file.interpreter,
                                                    .version = t->version,
                                                    .probed = t->probed,
                                                    .version_differs = t->version_differs,
                                                    .binary = t->binary.real,
                                                    .binary_sha256 = t->binary.sha256,
                                                    .shim = t->shim },
                                       .containment = &t->containment,
                                       .readiness_requests = t->readiness_requests,
                                       .up_after_ns = t->up_after_ns };

    (void)snprintf(event.cpus, sizeof(event.cpus), "%s", t->cpus_text);
    emit(t, &event);
}

static void emit_end(struct host_target *t, enum host_target_event_kind kind)
{
    struct host_target_event event = { .kind = kind, .readiness_requests = t->readiness_requests };

    if (t->log != NULL) {
        host_logpump_drain(t->log);
        (void)host_logpump_tail(t->log, event.log_tail, sizeof(event.log_tail));
    }
    emit(t, &event);
}

/* ---- what the supervisor says */

/* Counted by the kernel before the process gets its signal. */
static void count_oom_kills(struct host_target *t)
{
    struct host_cgroup_use use = { .oom_kills = t->oom_kills };

    (void)pthread_mutex_lock(&t->lock);
    if (t->group != NULL)
        host_cgroup_read(t->group, &use);
    (void)pthread_mutex_unlock(&t->lock);
    t->oom_kills = use.oom_kills;
}

static void describe_exit(struct host_target *t, int status, char *out, size_t out_bytes)
{
    uint64_t before = t->oom_kills;
    bool oom;

    count_oom_kills(t);
    oom = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && t->oom_kills > before;
    if (WIFSIGNALED(status))
        (void)snprintf(out, out_bytes, "signal %s%s", sigabbrev_np(WTERMSIG(status)),
                       oom ? ", out of memory" : "");
    else
        (void)snprintf(out, out_bytes, "exit %d", WEXITSTATUS(status));
}

/* Who ended by itself is what counts; of those that were told to, all have to have ended alike. */
static void take_exit(struct host_target *t, const struct host_supervisor_event *event)
{
    struct host_one *one;

    if (event->instance >= t->instance_count || t->instances[event->instance].exited)
        return;
    one = &t->instances[event->instance];
    one->exited = true;
    describe_exit(t, event->status, one->exit, sizeof(one->exit));
    if (!event->asked && !t->exited_unasked) {
        t->exited_unasked = true;
        t->exited = true;
        t->ended = event->instance;
        t->went_away = t->instance_count == 1 && event->status == 0 && event->others;
        (void)snprintf(t->exit, sizeof(t->exit), "%s", one->exit);
    } else if (!t->exited_unasked) {
        bool alike = t->exited_count == 0 || strcmp(t->exit, one->exit) == 0;

        (void)snprintf(t->exit, sizeof(t->exit), "%s", alike ? one->exit : "mixed");
    }
    t->exited_count++;
    t->exited = t->exited || t->exited_count == t->started_count;
}

static void take_init(struct host_target *t, pid_t init)
{
    if (init == 0)
        return;
    t->containment.by = "pid namespace";
    (void)pthread_mutex_lock(&t->lock);
    if (t->sampler != NULL)
        host_sampler_leave_out(t->sampler, init);
    (void)pthread_mutex_unlock(&t->lock);
}

static void take_news(struct host_target *t, const struct host_supervisor_event *event)
{
    switch (event->kind) {
    case HOST_SUPERVISOR_STARTED:
        if (event->instance < t->instance_count) {
            t->instances[event->instance].pid = event->pid;
            take_init(t, event->init);
            t->started_count++;
        }
        break;
    case HOST_SUPERVISOR_START_FAILED:
        t->start_failed = true;
        break;
    case HOST_SUPERVISOR_EXITED:
        take_exit(t, event);
        return; /* news stays what explains a start or an end */
    case HOST_SUPERVISOR_CLEAN:
        t->clean = true;
        break;
    case HOST_SUPERVISOR_STUCK:
        t->stuck = true;
        break;
    default:
        t->lost = true;
        break;
    }
    t->news = *event;
}

/* Whose supervisor was killed, say by the kernel for want of memory, cannot be watched any more,
 * and its processes must not go on: they have come to this process and are killed here. */
static void bury_supervisor(struct host_target *t)
{
    (void)epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, host_supervisor_fd(t->supervisor), NULL);
    host_supervisor_destroy(t->supervisor);
    t->supervisor = NULL;
    if (t->started_count > 0 && !t->exited)
        (void)snprintf(t->exit, sizeof(t->exit), "%s",
                       t->lost ? "unknown: its supervisor was killed" : "unknown");
}

void host_target_wait(struct host_target *t, int64_t until_ns)
{
    int64_t left_ns = until_ns - ls_clock_mono_ns();
    int wait_ms = left_ns > 0 ? (int)((left_ns + LS_NS_PER_MS - 1) / LS_NS_PER_MS) : 0;
    struct host_supervisor_event event;
    struct epoll_event ready;

    (void)epoll_wait(t->epoll_fd, &ready, 1, until_ns < 0 ? -1 : wait_ms);
    while (t->supervisor != NULL && host_supervisor_receive(t->supervisor, &event) == LS_OK)
        take_news(t, &event);
    if (t->lost && t->supervisor != NULL)
        bury_supervisor(t);
}

bool host_target_stop_asked(struct host_target *t)
{
    bool asked;

    (void)pthread_mutex_lock(&t->lock);
    asked = t->stop_asked;
    (void)pthread_mutex_unlock(&t->lock);
    return asked;
}

static bool kill_asked(struct host_target *t)
{
    bool asked;

    (void)pthread_mutex_lock(&t->lock);
    asked = t->kill_asked;
    (void)pthread_mutex_unlock(&t->lock);
    return asked;
}

static enum ls_err explain_oom(struct host_target *t, const char *when)
{
    char limit[48];

    t->code = "out_of_memory";
    if (t->spec.limits.memory_bytes > 0)
        return ls_fail(&t->diag, LS_ESTATE,
                       "the target was killed for memory %s: it needs more than its limit of %s",
                       when, ls_format_size(t->spec.limits.memory_bytes, limit, sizeof(limit)));
    return ls_fail(&t->diag, LS_ESTATE,
                   "the target was killed for memory %s: its host, or the control group that the "
                   "agent is in, had none left",
                   when);
}

enum ls_err host_target_explain_end(struct host_target *t, const char *when)
{
    if (t->lost) {
        t->code = "supervisor_lost";
        return ls_fail(
            &t->diag, LS_ECLOSED,
            "the target's supervisor process was killed %s, by somebody else or for want of "
            "memory; the target's processes have been ended",
            when);
    }
    t->code = "exited";
    if (strstr(t->exit, "out of memory") != NULL)
        return explain_oom(t, when);
    if (t->went_away)
        return ls_fail(&t->diag, LS_ESTATE,
                       "the target ended %s (%s) but left processes in the background: start it so "
                       "that it stays in the foreground (nginx: \"daemon off;\")",
                       when, t->exit);
    if (t->instance_count > 1)
        return ls_fail(&t->diag, LS_ESTATE, "instance %zu of the target's %zu ended %s: %s",
                       t->ended, t->instance_count, when, t->exit);
    return ls_fail(&t->diag, LS_ESTATE, "the target ended %s: %s", when, t->exit);
}

/* ---- life and end */

/* From UP or FAILED until stop is asked. */
static void watch(struct host_target *t, bool up)
{
    bool told = !up;

    while (!host_target_stop_asked(t)) {
        if (!told && (t->exited || t->lost)) {
            (void)host_target_explain_end(t, t->lost ? "while it ran" : "by itself");
            emit_end(t, HOST_TARGET_EXITED);
            t->code = NULL;
            told = true;
        }
        host_target_wait(t, -1);
    }
}

/* Until nothing is left, or what is left does not go. */
static void end_processes(struct host_target *t)
{
    int64_t grace_ns = kill_asked(t) ? 0 : t->spec.grace_ns;
    int64_t give_up_ns = ls_clock_mono_ns() + grace_ns + CLEAN_SLACK_NS;
    bool hurried = grace_ns == 0;

    if (t->supervisor == NULL)
        return;
    t->clean = false;
    host_supervisor_stop(t->supervisor, t->spec.stop_signal, grace_ns);
    while (!t->clean && !t->lost && !t->stuck && ls_clock_mono_ns() < give_up_ns) {
        host_target_wait(t, give_up_ns);
        (void)eventfd_read(t->wake_fd,
                           &(eventfd_t){ 0 }); /* before the look, or it could be lost */
        if (!hurried && kill_asked(t) && t->supervisor != NULL) {
            hurried = true;
            host_supervisor_stop(t->supervisor, SIGKILL, 0);
        }
    }
    if (t->clean || t->lost)
        return;
    t->code = "left_behind";
    if (t->stuck)
        (void)ls_fail(
            &t->diag, LS_ESTATE,
            "process %d (%s) of the target was killed and does not end (state %c): what it "
            "waits for, a dead disk or network file system say, must be put right",
            (int)t->news.pid, t->news.name, t->news.state);
    else
        (void)ls_fail(&t->diag, LS_ETIMEOUT,
                      "processes of the target are still there 8 s after its "
                      "grace time");
}

static void await_port(struct host_target *t)
{
    int64_t give_up_ns = ls_clock_mono_ns() + PORT_WAIT_NS;

    while (host_port_check_free(t->spec.host, t->spec.port, &t->diag) == LS_ESTATE) {
        if (kill_asked(t))
            return;
        if (ls_clock_mono_ns() >= give_up_ns) {
            t->code = "port_still_in_use";
            (void)ls_fail_in(&t->diag, LS_ESTATE, "2 s after the target had ended");
            return;
        }
        host_target_wait(t, ls_clock_mono_ns() + PORT_LOOK_NS);
        (void)eventfd_read(t->wake_fd, &(eventfd_t){ 0 });
    }
}

/* Before STOPPED is said: whoever hears it finds nothing of the target any more. */
static void remove_group(struct host_target *t)
{
    struct host_cgroup *group;

    (void)pthread_mutex_lock(&t->lock);
    group = t->group;
    t->group = NULL;
    (void)pthread_mutex_unlock(&t->lock);
    host_cgroup_destroy(group);
}

static void wind_down(struct host_target *t)
{
    struct host_target_event event = { .kind = HOST_TARGET_STOPPED,
                                       .readiness_requests = t->readiness_requests };
    struct host_logpump_totals totals = { 0 };
    bool was_lost = t->lost;

    (void)eventfd_read(t->wake_fd, &(eventfd_t){ 0 }); /* a kill writes again */
    t->code = NULL;
    end_processes(t);
    count_oom_kills(t); /* while the group is there: the supervisor removes it when it leaves */
    event.oom_kills = t->oom_kills;
    event.stopped_by_us = t->started_count > 0 && !t->exited_unasked && !was_lost;
    event.left_over = t->clean ? t->news.left_over : 0;
    if (t->supervisor != NULL && !t->stuck)
        bury_supervisor(t);
    if (t->log != NULL) {
        host_logpump_drain(t->log);
        host_logpump_totals(t->log, &totals);
    }
    remove_group(t);
    event.log_bytes = totals.kept_bytes;
    event.log_dropped_bytes = totals.dropped_bytes;
    if (t->started_count > 0 && t->code == NULL && t->spec.series == NULL && t->spec.port != 0)
        await_port(t);
    emit(t, &event);
}

static void *run(void *arg)
{
    struct host_target *t = arg;
    enum ls_err rc = host_target_bring_up(t);

    if (rc == LS_OK)
        emit_up(t);
    else if (t->code != NULL)
        emit_end(t, HOST_TARGET_FAILED);
    t->code = NULL;
    watch(t, rc == LS_OK);
    wind_down(t);
    return NULL;
}

/* ---- interface, of the control thread */

static void free_target(struct host_target *t)
{
    host_target_free_spec(t);
    host_supervisor_destroy(t->supervisor);
    host_logpump_destroy(t->log);
    host_sampler_destroy(t->sampler);
    host_cgroup_destroy(t->group);
    if (t->epoll_fd >= 0)
        (void)close(t->epoll_fd);
    if (t->wake_fd >= 0)
        (void)close(t->wake_fd);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

enum ls_err host_target_start(const struct host_target_spec *spec, const struct host_env *env,
                              struct host_target **out_target, struct ls_diag *diag)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct host_target *t;
    enum ls_err rc;

    if (spec->argv == NULL || spec->argv[0] == NULL)
        return ls_fail(diag, LS_EINVAL, "the target has no command");
    if (spec->other_count >= HOST_INSTANCES_MAX)
        return ls_fail(diag, LS_EINVAL, "a target has at most %u instances", HOST_INSTANCES_MAX);
    t = calloc(1, sizeof(*t));
    if (t == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a target");
    (void)pthread_mutex_init(&t->lock, NULL);
    t->env = *env;
    t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    rc = host_target_copy_spec(t, spec, diag);
    if (rc == LS_OK)
        rc = ls_cpuset_parse(t->spec.cpus, &t->cpus, diag);
    t->has_cpus = ls_cpuset_count(&t->cpus) > 0;
    if (rc == LS_OK && (t->wake_fd < 0 || t->epoll_fd < 0 ||
                        epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->wake_fd, &event) < 0))
        rc = ls_fail(diag, LS_EIO, "cannot make an event descriptor: %s", strerror(errno));
    if (rc == LS_OK)
        rc = host_thread_create("target", run, t, &t->thread, diag);
    if (rc != LS_OK) {
        free_target(t);
        return rc;
    }
    *out_target = t;
    return LS_OK;
}

static void ask(struct host_target *t, bool at_once)
{
    (void)pthread_mutex_lock(&t->lock);
    t->stop_asked = true;
    t->kill_asked = t->kill_asked || at_once;
    (void)pthread_mutex_unlock(&t->lock);
    (void)eventfd_write(t->wake_fd, 1); /* full only after 2^64 calls */
}

void host_target_stop(struct host_target *t)
{
    ask(t, false);
}

bool host_target_poll(struct host_target *t, struct host_target_event *out_event)
{
    bool some;

    (void)pthread_mutex_lock(&t->lock);
    some = t->event_count > 0;
    if (some) {
        *out_event = t->events[0];
        t->event_count--;
        (void)memmove(t->events, t->events + 1, t->event_count * sizeof(t->events[0]));
    }
    (void)pthread_mutex_unlock(&t->lock);
    return some;
}

const char *host_target_instance_exit(const struct host_target *t, size_t instance)
{
    return instance < t->instance_count ? t->instances[instance].exit : "";
}

void host_target_destroy(struct host_target *t)
{
    if (t == NULL)
        return;
    ask(t, true);
    (void)pthread_join(t->thread, NULL);
    free_target(t);
}

enum ls_err host_target_usage(struct host_target *t, int64_t now_ns, struct host_usage *out_usage)
{
    enum ls_err rc = LS_ESTATE;
    struct host_cgroup_use use;

    *out_usage = (struct host_usage){ .at_ns = now_ns };
    (void)pthread_mutex_lock(&t->lock);
    if (t->sampler != NULL)
        rc = host_sampler_read(t->sampler, now_ns, out_usage, NULL);
    if (t->group != NULL) {
        host_cgroup_read(t->group, &use);
        out_usage->cgroup_cpu_ns = use.cpu_ns;
        out_usage->cgroup_memory_bytes = use.memory_bytes;
        out_usage->cgroup_memory_peak_bytes = use.memory_peak_bytes;
    }
    (void)pthread_mutex_unlock(&t->lock);
    return rc;
}

void host_target_reset_peak(struct host_target *t)
{
    (void)pthread_mutex_lock(&t->lock);
    if (t->sampler != NULL)
        host_sampler_reset_peak(t->sampler);
    if (t->group != NULL)
        host_cgroup_reset_peak(t->group);
    (void)pthread_mutex_unlock(&t->lock);
}
