/* A server: one target per trial, watched over the window, its log and end reported. */
#include "agent/role_server.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/expand.h"
#include "agent/host/facts.h"
#include "agent/policy/policy.h"
#include "agent/runs.h"
#include "agent/session.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/msg_model.h"
#include "common/pb.h"

#define LOG_PIECE_BYTES (64u << 10)
#define ROOM_RESERVE    16u
#define KEPT_NS         (120 * LS_NS_PER_S) /* that a target outlives its trial at the most */

static enum ls_err server_create(const struct agent_role_env *env, void **out_role,
                                 struct ls_diag *diag)
{
    struct server *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the server");
    s->env = *env;
    s->log_fd = -1;
    s->next_sample_ns = INT64_MAX;
    *out_role = s;
    return LS_OK;
}

static void free_list(char *const *list)
{
    union {
        char *const *in;
        char **out;
    } owned = { .in = list };

    agent_expand_free(owned.out);
}

static void drop_waiting(struct server *s)
{
    if (s->waiting != NULL)
        ls__prepare__free_unpacked(s->waiting, NULL);
    s->waiting = NULL;
}

static void drop_target(struct server *s)
{
    struct ls_diag diag;

    host_target_destroy(s->target);
    s->target = NULL;
    agent_services_destroy(s->services);
    s->services = NULL;
    drop_waiting(s);
    agent_build_destroy(s->ready);
    s->ready = NULL;
    host_series_destroy(s->series);
    s->series = NULL;
    s->series_over = false;
    agent_expand_free(s->argv);
    agent_expand_free(s->envp);
    agent_expand_free(s->version);
    agent_expand_free(s->variables);
    for (size_t i = 0; i < s->other_count; i++) {
        free_list(s->others[i].argv);
        free_list(s->others[i].envp);
    }
    free(s->others);
    s->others = NULL;
    s->other_count = 0;
    s->network_pid = 0;
    agent_expand_free(s->probe_argv);
    s->argv = s->envp = s->version = s->variables = s->probe_argv = NULL;
    if (s->probe_message != NULL)
        ls__probe__free_unpacked(s->probe_message, NULL);
    s->probe_message = NULL;
    if (s->log_fd >= 0)
        (void)close(s->log_fd);
    s->log_fd = -1;
    if (s->dir[0] != '\0' && ls_fs_remove_tree(s->dir, &diag) != LS_OK)
        ls_log(LS_LOG_WARN, "server.folder_left", "%s", diag.text);
    s->dir[0] = '\0';
    free(s->identity);
    s->identity = NULL;
    s->kept = s->gone = false;
    s->log_sent = 0;
}

static void forget_trial(struct server *s)
{
    s->next_sample_ns = INT64_MAX;
    s->finishing = s->stop_asked = s->stopped = s->reported = s->measured = false;
    s->log_from = s->log_sent;
    s->governor_before[0] = s->governor_after[0] = '\0';
}

static void server_release(void *role)
{
    struct server *s = role;

    if (!s->kept)
        drop_target(s);
    forget_trial(s);
}

static void server_destroy(void *role)
{
    if (role == NULL)
        return;
    drop_target(role);
    free(role);
}

/* ---- prepare */

/* What an agent that was killed has left is not to be trusted. Whoever runs a target has to get to
 * its folder, which is his alone. */
static enum ls_err make_folder(struct server *s, struct ls_diag *diag)
{
    enum ls_err rc = ls_fs_remove_tree(s->dir, diag);

    if (rc == LS_OK)
        rc = ls_fs_mkdirs(s->dir, 0700, diag);
    if (rc == LS_OK && agent_policy_changes_user(s->env.policy) && chmod(s->env.work_dir, 0711) < 0)
        rc = ls_fail(diag, LS_EIO, "cannot open %.200s for other users' targets: %s",
                     s->env.work_dir, strerror(errno));
    return rc;
}

static enum ls_err create_series(struct server *s, const Ls__Prepare *prepare, struct ls_diag *diag)
{
    char path[sizeof(s->dir) + 16];

    (void)snprintf(path, sizeof(path), "%s/ls-spawner", s->env.work_dir);
    return agent_runs_create(prepare, s->env.files, path, &s->series, diag);
}

/* The target comes when they are up. */
static enum ls_err start_services(struct server *s, const Ls__Prepare *prepare,
                                  struct ls_diag *diag)
{
    const struct agent_services_env env = { .policy = s->env.policy,
                                            .dir = s->dir,
                                            .host = { .wake = s->env.wake, .ctx = s->env.ctx } };

    s->waiting = ls_msg_copy(prepare);
    if (s->waiting == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the trial");
    return agent_services_start(prepare, &env, &s->services, diag);
}

/* Everything that a target's being the same depends on; NULL: no memory, nothing is the same. */
static uint8_t *identity_of(const Ls__Prepare *prepare, size_t *out_bytes)
{
    size_t target = ls__target__get_packed_size(prepare->target), cpus = strlen(prepare->cpus);
    uint8_t *identity = malloc(target + cpus + 1);

    if (identity == NULL)
        return NULL;
    (void)memcpy(identity, prepare->cpus, cpus + 1);
    *out_bytes = cpus + 1 + ls__target__pack(prepare->target, identity + cpus + 1);
    return identity;
}

static bool is_kept(const struct server *s, const uint8_t *identity, size_t bytes)
{
    return s->kept && identity != NULL && bytes == s->identity_bytes &&
           memcmp(identity, s->identity, bytes) == 0;
}

static void on_up(struct server *s, const struct host_target_event *event, int64_t now_ns);

/* It runs already. */
static enum ls_err go_on(struct server *s, struct ls_diag *diag)
{
    s->kept = false;
    if (s->gone)
        return ls_fail(diag, LS_ESTATE,
                       "the server that all probes share ended between two of them");
    s->up.readiness_requests = 0;
    s->up.up_after_ns = 0;
    on_up(s, &s->up, ls_clock_mono_ns());
    return LS_OK;
}

static enum ls_err begin(struct server *s, const Ls__Prepare *prepare, struct ls_diag *diag)
{
    struct ls_cpuset cpus;
    enum ls_err rc;
    int n =
        snprintf(s->dir, sizeof(s->dir), "%s/trial-%03" PRIu32, s->env.work_dir, prepare->trial);

    if (n < 0 || (size_t)n >= sizeof(s->dir)) {
        s->dir[0] = '\0';
        return ls_fail(diag, LS_ERANGE, "the work folder's path is too long");
    }
    rc = make_folder(s, diag);
    if (rc == LS_OK && !agent_runs_are_asked_for(prepare))
        rc = agent_pin_process(prepare->cpus, &cpus, diag);
    if (rc == LS_OK)
        rc = server_expand(s, prepare, diag);
    if (rc == LS_OK)
        rc = agent_runs_are_asked_for(prepare)
                 ? create_series(s, prepare, diag)
                 : agent_build_ready(prepare, s->env.files, &s->ready, diag);
    if (rc == LS_OK)
        rc = agent_services_count(prepare) > 0 ? start_services(s, prepare, diag)
                                               : server_start(s, prepare, diag);
    return rc;
}

static enum ls_err server_prepare(void *role, const Ls__Prepare *prepare, struct ls_diag *diag)
{
    struct server *s = role;
    uint8_t *identity;
    size_t bytes = 0;

    forget_trial(s);
    if (!agent_policy_runs_programs(s->env.policy))
        return agent_policy_no_programs(s->env.policy, diag);
    if (prepare->target == NULL || prepare->target->ready == NULL ||
        prepare->target->ready->timeout == NULL || prepare->target->stop == NULL ||
        prepare->target->stop->grace == NULL || prepare->target->stop->signal == NULL)
        return ls_fail(diag, LS_EPROTO, "PREPARE came without its target's times");
    s->keep = prepare->keep;
    identity = identity_of(prepare, &bytes);
    if (is_kept(s, identity, bytes)) {
        free(identity);
        return go_on(s, diag);
    }
    drop_target(s);
    forget_trial(s);
    s->identity = identity;
    s->identity_bytes = bytes;
    return begin(s, prepare, diag);
}

/* ---- the window */

static enum ls_err server_arm(void *role, const struct load_window *window, struct ls_diag *diag)
{
    struct server *s = role;

    (void)diag;
    s->window = *window;
    agent_session_on(s->env.session, LS_ON_ARMED, ls_clock_mono_ns(), NULL);
    return LS_OK;
}

static void server_disarm(void *role, struct ls_diag *why)
{
    (void)role;
    (void)why;
}

/* Edge 1: the window's start, 2: its end, 0: in between. A target that is gone gives no sample. */
static void sample(struct server *s, uint32_t edge)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__SampleReport report = LS__SAMPLE_REPORT__INIT;
    Ls__Sample usage = LS__SAMPLE__INIT;
    struct host_usage now;
    struct host_counters counters;

    if (s->target == NULL || (edge == 0 && agent_session_room(s->env.session) <= ROOM_RESERVE))
        return;
    if (edge == 1)
        host_target_reset_peak(s->target);
    if (host_target_usage(s->target, ls_clock_mono_ns(), &now) != LS_OK)
        return;
    host_counters_read(s->cpus, s->network_pid, &counters);
    usage.at_ns = now.at_ns;
    usage.cpu_ns = now.cpu_ns;
    usage.rss_bytes = now.rss_bytes;
    usage.processes = now.processes;
    usage.threads = now.threads;
    usage.voluntary_switches = now.voluntary_switches;
    usage.involuntary_switches = now.involuntary_switches;
    usage.cpu_cgroup_ns = now.cgroup_cpu_ns;
    usage.memory_bytes = now.cgroup_memory_bytes;
    usage.memory_peak_bytes = now.cgroup_memory_peak_bytes;
    report.trial = agent_session_trial(s->env.session);
    report.at_ns = now.at_ns;
    report.edge = edge;
    report.usage = &usage;
    report.rss_peak_bytes = now.rss_peak_bytes;
    report.listen_overflows = counters.listen_overflows;
    report.tcp_retransmits = counters.tcp_retransmits;
    report.cpus_busy_ns = counters.cpus_busy_ns;
    report.cpus_steal_ns = counters.cpus_steal_ns;
    envelope.body_case = LS__ENVELOPE__BODY_SAMPLE;
    envelope.sample = &report;
    if (agent_session_report(s->env.session, &envelope) != LS_OK)
        ls_log(LS_LOG_ERROR, "server.sample_lost", "trial=%" PRIu32 " edge=%" PRIu32, report.trial,
               edge);
}

static void server_entered(void *role, enum ls_phase phase, int64_t now_ns)
{
    struct server *s = role;

    (void)now_ns;
    if (phase == LS_PHASE_MEASURE) {
        (void)host_governor_read(s->governor_before, sizeof(s->governor_before));
        sample(s, 1);
        s->next_sample_ns = s->window.start_ns + s->window.warmup_ns + s->window.interval_ns;
    } else if (phase == LS_PHASE_DRAIN) {
        s->measured = true;
        s->next_sample_ns = INT64_MAX;
        sample(s, 2);
        (void)host_governor_read(s->governor_after, sizeof(s->governor_after));
    }
}

static int64_t server_tick(void *role, int64_t now_ns)
{
    struct server *s = role;

    if (s->kept && s->kept_until_ns <= now_ns)
        drop_target(s);
    if (s->kept)
        return s->kept_until_ns;
    if (agent_session_phase(s->env.session) != LS_PHASE_MEASURE)
        return INT64_MAX;
    if (s->next_sample_ns <= now_ns) {
        sample(s, 0);
        while (s->next_sample_ns <= now_ns)
            s->next_sample_ns += s->window.interval_ns;
    }
    return s->next_sample_ns;
}

/* ---- the end */

static bool send_log(struct server *s, unsigned char *piece, size_t n)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__TargetLog report = LS__TARGET_LOG__INIT;

    report.trial = agent_session_trial(s->env.session);
    report.offset = s->log_sent - s->log_from;
    report.data.data = piece;
    report.data.len = n;
    envelope.body_case = LS__ENVELOPE__BODY_TARGET_LOG;
    envelope.target_log = &report;
    if (agent_session_report(s->env.session, &envelope) != LS_OK)
        return false;
    s->log_sent += n;
    return true;
}

static bool send_log_piece(struct server *s)
{
    static unsigned char piece[LOG_PIECE_BYTES]; /* one control thread */
    ssize_t n = s->log_fd >= 0 ? pread(s->log_fd, piece, sizeof(piece), (off_t)s->log_sent) : 0;

    return n > 0 && send_log(s, piece, (size_t)n);
}

/* A log that is shorter than what the target wrote says so in its last line. */
static void send_log_cut(struct server *s)
{
    unsigned char line[128];
    int n;

    if (s->end.log_dropped_bytes == 0)
        return;
    n = snprintf((char *)line, sizeof(line),
                 "\n[lockstep: %" PRIu64 " further bytes were dropped]\n",
                 s->end.log_dropped_bytes);
    if (!send_log(s, line, (size_t)n))
        ls_log(LS_LOG_ERROR, "server.log_cut_untold", "trial=%" PRIu32,
               agent_session_trial(s->env.session));
}

/* Nothing for a single one, whose end is that of the target, nor for a target that its services did
 * not let begin. */
static size_t exits_of(const struct server *s, char **out)
{
    size_t n = 0;

    for (; s->target != NULL && s->other_count > 0 && n <= s->other_count; n++)
        out[n] = ls_pb_text(host_target_instance_exit(s->target, n));
    return n;
}

static void send_end(struct server *s, int64_t now_ns)
{
    char *exits[HOST_INSTANCES_MAX];
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__ServerReport report = LS__SERVER_REPORT__INIT;
    Ls__Failure failure = LS__FAILURE__INIT;

    report.trial = agent_session_trial(s->env.session);
    report.exit = s->series != NULL ? ls_pb_text("") : s->end.exit; /* the spawner's is no news */
    report.stopped_by_us = s->end.stopped_by_us;
    report.left_over = s->end.left_over;
    report.log_bytes = s->end.log_bytes;
    report.log_dropped_bytes = s->end.log_dropped_bytes;
    report.governor_before = s->governor_before;
    report.governor_after = s->governor_after;
    report.oom_kills = s->end.oom_kills;
    if (s->services != NULL)
        report.services = agent_services_use(s->services, &report.n_services);
    report.n_instance_exits = exits_of(s, exits);
    report.instance_exits = exits;
    if (s->end.code[0] != '\0') {
        failure.code = ls_pb_text(s->end.code);
        failure.text = s->end.diag.text;
        report.failure = &failure;
    }
    envelope.body_case = LS__ENVELOPE__BODY_SERVER;
    envelope.server = &report;
    if (agent_session_report(s->env.session, &envelope) != LS_OK)
        ls_log(LS_LOG_ERROR, "server.report_lost", "trial=%" PRIu32, report.trial);
    s->reported = true;
    agent_session_finished(s->env.session, now_ns);
}

/* Log pieces as the ring takes them, then the end. */
static void continue_end(struct server *s, int64_t now_ns)
{
    if (!s->finishing || !s->stopped || s->reported)
        return;
    if (s->services != NULL && !s->kept) { /* they go after it */
        agent_services_stop(s->services);
        if (!agent_services_are_stopped(s->services))
            return;
    }
    while (agent_session_room(s->env.session) > ROOM_RESERVE) {
        if (!send_log_piece(s)) {
            send_log_cut(s);
            send_end(s, now_ns);
            return;
        }
    }
}

/* None yet: nothing to send. The folder is the target's: a FIFO there must not hold us up, and what
 * he has put in the log's place, another's file by a second name even, is not to be told. */
static int open_log(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;

    if (fd < 0 ||
        (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1))
        return fd;
    (void)close(fd);
    ls_log(LS_LOG_WARN, "server.log_replaced", "%s is not what was written there", path);
    return -1;
}

static void server_finish(void *role)
{
    struct server *s = role;
    char path[600];

    s->finishing = true;
    s->next_sample_ns = INT64_MAX;
    drop_waiting(s);
    if (s->target == NULL && s->services == NULL) {
        agent_session_finished(s->env.session, 0);
        return;
    }
    if (s->target == NULL) { /* the services alone */
        s->end = (struct host_target_event){ .kind = HOST_TARGET_STOPPED, .code = "" };
        s->stopped = true;
        s->env.wake(s->env.ctx);
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/target.log", s->dir);
    if (s->log_fd < 0)
        s->log_fd = open_log(path);
    if (s->keep && s->measured && !s->gone) {
        s->kept = s->stopped = true;
        s->kept_until_ns = ls_clock_mono_ns() + KEPT_NS;
        s->end = (struct host_target_event){ .code = "", .stopped_by_us = true };
        continue_end(s, 0);
        return;
    }
    if (!s->stop_asked) {
        s->stop_asked = true;
        host_target_stop(s->target);
    }
}

/* ---- events */

static void on_up(struct server *s, const struct host_target_event *event, int64_t now_ns)
{
    server_tell_up(s, event);
    (void)snprintf(s->cpus, sizeof(s->cpus), "%s", event->cpus);
    agent_session_ready_facts(s->env.session, s->cpus, "", "", NULL);
    agent_session_on(s->env.session, LS_ON_READY, now_ns, NULL);
}

static void on_failed(struct server *s, const struct host_target_event *event, int64_t now_ns)
{
    const struct agent_failure failure = { .code = event->code,
                                           .text = event->diag.text,
                                           .log_tail = event->log_tail };

    agent_session_on(s->env.session, LS_ON_FAIL, now_ns, &failure);
}

static void poll_services(struct server *s, int64_t now_ns)
{
    struct host_target_event event;
    struct ls_diag diag;
    enum ls_err rc;

    agent_services_poll(s->services);
    if (agent_services_failure(s->services, &event) && !s->finishing) {
        on_failed(s, &event, now_ns);
        return;
    }
    if (s->waiting == NULL || !agent_services_are_up(s->services))
        return;
    rc = server_start(s, s->waiting, &diag);
    drop_waiting(s);
    if (rc != LS_OK) {
        const struct agent_failure failure = { .code = "prepare_failed", .text = diag.text };

        agent_session_on(s->env.session, LS_ON_FAIL, now_ns, &failure);
    }
}

static void server_poll(void *role, int64_t now_ns)
{
    struct server *s = role;
    struct host_target_event event;

    if (s->services != NULL)
        poll_services(s, now_ns);

    while (s->target != NULL && host_target_poll(s->target, &event)) {
        switch (event.kind) {
        case HOST_TARGET_UP:
            s->up = event;
            s->series_over = s->series != NULL;
            if (!s->finishing && s->series == NULL)
                on_up(s, &event, now_ns);
            break;
        case HOST_TARGET_FAILED:
        case HOST_TARGET_EXITED:
            s->gone = true;
            if (!s->finishing && !s->kept)
                on_failed(s, &event, now_ns);
            break;
        case HOST_TARGET_STOPPED:
            s->stopped = true;
            s->end = event;
            break;
        default:
            break;
        }
    }
    if (s->series != NULL && !s->finishing &&
        agent_runs_report(s->env.session, s->series, s->series_over)) {
        s->series_over = false; /* once */
        on_up(s, &s->up, now_ns);
    }
    continue_end(s, now_ns);
}

const struct agent_role_class agent_role_server = {
    .name = "server",
    .create = server_create,
    .destroy = server_destroy,
    .prepare = server_prepare,
    .arm = server_arm,
    .disarm = server_disarm,
    .entered = server_entered,
    .finish = server_finish,
    .release = server_release,
    .poll = server_poll,
    .tick = server_tick,
};
