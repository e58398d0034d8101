/* A server: one target per trial, watched over the window, its log and end reported. */
#include "agent/role.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/build.h"
#include "agent/expand.h"
#include "agent/files.h"
#include "agent/host/facts.h"
#include "agent/host/target.h"
#include "agent/policy/policy.h"
#include "agent/runs.h"
#include "agent/services.h"
#include "agent/session.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/msg_model.h"
#include "common/pb.h"
#include "common/utf8.h"

#define LOG_MAX_BYTES   (16u << 20) /* kept of a target's output, per trial */
#define LOG_PIECE_BYTES (64u << 10)
#define ROOM_RESERVE    16u
#define KEPT_NS         (120 * LS_NS_PER_S) /* that a target outlives its trial at the most */

struct server {
    struct agent_role_env env;
    struct host_target *target; /* owned */
    struct agent_build *ready;  /* owned */
    Ls__Probe *probe_message;   /* owned; what probe points into */
    char **probe_argv;          /* owned; NULL: there is nothing to ask */
    struct host_probe probe;
    struct agent_services *services; /* owned; NULL: there are none */
    Ls__Prepare *waiting;            /* owned: what is to be started when they are up */
    struct host_series *series;      /* owned; of a process workload */
    bool series_over;                /* all runs have ended; up is how */
    struct host_target_event up;
    char **argv; /* owned; NULL-terminated, like the next two */
    char **envp;
    struct host_instance *others; /* owned, with their lists; of a target with instances */
    size_t other_count;
    char **version;
    char **variables;  /* names that the plan's env has */
    char dir[512];     /* of the trial; "" if there is none */
    pid_t network_pid; /* who is in the target's private network; 0: it has none */
    char cpus[128];    /* as the target really has them */
    char governor_before[64];
    char governor_after[64];
    struct load_window window;
    int64_t next_sample_ns; /* INT64_MAX: none is due */
    bool finishing;
    bool stop_asked;
    /* after STOPPED */
    bool stopped;
    struct host_target_event end;
    int log_fd;
    uint64_t log_sent; /* all of it, in earlier trials too ... */
    uint64_t log_from; /* ... and where this trial's begins */
    bool reported;
    /* A target that stays from trial to trial. */
    bool keep;     /* as PREPARE says */
    bool measured; /* the window came to its end */
    bool kept;     /* between two of its trials */
    bool gone;     /* ended meanwhile */
    int64_t kept_until_ns;
    uint8_t *identity; /* owned; what was prepared, packed */
    size_t identity_bytes;
};

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

/* The name, that no other file of the list could be taken for it, and that it is what was sent. */
static enum ls_err file_of(struct server *s, const Ls__Prepare *prepare, size_t index,
                           struct host_file *out, struct ls_diag *diag)
{
    const Ls__FileRef *ref = prepare->files[index];
    enum ls_err rc = ls_fs_name_check(ref->name, diag);

    for (size_t i = 0; i < index && rc == LS_OK; i++) {
        if (ls_fs_names_clash(ref->name, prepare->files[i]->name))
            rc = ls_fail(diag, LS_EINVAL, "'%.100s' and '%.100s' would be the same file somewhere",
                         ref->name, prepare->files[i]->name);
    }
    if (rc == LS_OK)
        rc = agent_files_get(s->env.files, ref->sha256, &out->data, diag);
    if (rc == LS_OK && out->data.len != ref->bytes)
        rc = ls_fail(diag, LS_EPROTO, "it has %zu bytes, %" PRIu64 " were announced", out->data.len,
                     ref->bytes);
    out->name = ref->name;
    out->executable = ref->executable;
    return rc == LS_OK ? rc : ls_fail_in(diag, rc, "file %.100s of the target", ref->name);
}

static enum ls_err files_of(struct server *s, const Ls__Prepare *prepare, struct host_file **out,
                            struct ls_diag *diag)
{
    struct host_file *files = calloc(prepare->n_files + 1, sizeof(*files));
    enum ls_err rc = LS_OK;

    if (files == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the target's files");
    if (prepare->n_files > AGENT_FILES_MAX)
        rc = ls_fail(diag, LS_ERANGE, "%zu files of the target; %u are the most", prepare->n_files,
                     AGENT_FILES_MAX);
    for (size_t i = 0; i < prepare->n_files && rc == LS_OK; i++)
        rc = file_of(s, prepare, i, &files[i], diag);
    if (rc != LS_OK) {
        free(files);
        return rc;
    }
    *out = files;
    return LS_OK;
}

/* Those of the plan, of the target and of what it is to run. */
static enum ls_err keep_variables(struct server *s, const Ls__Prepare *prepare,
                                  struct ls_diag *diag)
{
    const Ls__Target *t = prepare->target;
    const Ls__Process *p = agent_runs_are_asked_for(prepare) ? prepare->workload->process : NULL;
    size_t more = p != NULL ? p->n_env : 0;

    s->variables = calloc(t->n_env + more + 1, sizeof(*s->variables));
    for (size_t i = 0; s->variables != NULL && i < t->n_env + more; i++) {
        s->variables[i] = strdup(i < t->n_env ? t->env[i]->key : p->env[i - t->n_env]->key);
        if (s->variables[i] == NULL)
            return ls_fail(diag, LS_ENOMEM, "out of memory for the target's environment");
    }
    return s->variables != NULL
               ? LS_OK
               : ls_fail(diag, LS_ENOMEM, "out of memory for the target's environment");
}

static enum ls_err expand_other(struct server *s, const Ls__Target *t,
                                const struct agent_expand *values, struct ls_diag *diag)
{
    char **argv = NULL, **envp = NULL;
    enum ls_err rc = agent_expand_argv(values, t->command, t->n_command, &argv, diag);

    if (rc == LS_OK)
        rc = agent_expand_env(values, t->env, t->n_env, &envp, diag);
    if (rc != LS_OK) {
        agent_expand_free(argv);
        return rc;
    }
    s->others[s->other_count].argv = argv;
    s->others[s->other_count++].envp = envp;
    return LS_OK;
}

static enum ls_err expand_others(struct server *s, const Ls__Target *t,
                                 const struct agent_expand *first, struct ls_diag *diag)
{
    struct agent_expand values = *first;
    enum ls_err rc = LS_OK;

    if (t->instances > HOST_INSTANCES_MAX)
        return ls_fail(diag, LS_ERANGE, "%" PRIu32 " instances of the target; %u are the most",
                       t->instances, HOST_INSTANCES_MAX);
    if (t->instances <= 1)
        return LS_OK;
    s->others = calloc(t->instances - 1, sizeof(*s->others));
    if (s->others == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the target's instances");
    for (values.instance = 1; values.instance < t->instances && rc == LS_OK; values.instance++)
        rc = expand_other(s, t, &values, diag);
    return rc;
}

/* Of what is asked with, unless the probe says so itself, the version's. */
static enum ls_err keep_probe(struct server *s, const Ls__Target *t,
                              const struct agent_expand *values, struct ls_diag *diag)
{
    const Ls__Probe *p = t->probe;
    bool own = p->n_command > 0;
    enum ls_err rc = LS_OK;

    if (p->timeout == NULL)
        return ls_fail(diag, LS_EPROTO, "PREPARE came without its probe's time");
    s->probe_message = ls_msg_copy(p);
    if (s->probe_message == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the target's probe");
    if (own || t->n_version > 0)
        rc = agent_expand_argv(values, own ? p->command : t->version,
                               own ? p->n_command : t->n_version, &s->probe_argv, diag);
    s->probe = (struct host_probe){ .argv = s->probe_argv,
                                    .expect = s->probe_message->expect,
                                    .version = s->probe_message->version,
                                    .sha256 = s->probe_message->sha256,
                                    .timeout_ns = s->probe_message->timeout->ns };
    return rc;
}

static enum ls_err expand_all(struct server *s, const Ls__Prepare *prepare, struct ls_diag *diag)
{
    const Ls__Target *t = prepare->target;
    const struct agent_expand values = {
        .dir = s->dir,
        .host = t->host,
        .port = (uint16_t)t->port,
        .cpus = prepare->cpus,
        .program = t->program,
        .home_is_dir = !agent_policy_is_local(s->env.policy),
    };
    bool runs = agent_runs_are_asked_for(prepare);
    enum ls_err rc = runs ? agent_runs_argv(prepare, &values, &s->argv, diag)
                          : agent_expand_argv(&values, t->command, t->n_command, &s->argv, diag);

    if (rc == LS_OK && t->n_version > 0)
        rc = agent_expand_argv(&values, t->version, t->n_version, &s->version, diag);
    if (rc == LS_OK)
        rc = runs ? agent_runs_env(prepare, &values, &s->envp, diag)
                  : agent_expand_env(&values, t->env, t->n_env, &s->envp, diag);
    if (rc == LS_OK && !runs)
        rc = expand_others(s, t, &values, diag);
    if (rc == LS_OK && t->probe != NULL)
        rc = keep_probe(s, t, &values, diag);
    return rc == LS_OK ? keep_variables(s, prepare, diag) : rc;
}

/* On the target's thread. */
static enum ls_err may_run(void *ctx, const struct host_program_file *file, char *const *argv,
                           bool version, struct host_confine *out, struct ls_diag *diag)
{
    const struct server *s = ctx;
    const struct agent_policy_command command = {
        .file = file, .argv = argv, .version = version, .dir = s->dir, .variables = s->variables
    };

    return agent_policy_program(s->env.policy, &command, out, diag);
}

/* A process workload's own come first. */
static struct host_target_limits limits_of(const Ls__Prepare *prepare)
{
    const Ls__TargetLimits *limits = prepare->target->limits;
    const Ls__Process *p = agent_runs_are_asked_for(prepare) ? prepare->workload->process : NULL;
    struct host_target_limits out = { 0 };

    if (limits != NULL) {
        out.memory_bytes = limits->memory != NULL ? limits->memory->bytes : 0;
        out.processes = limits->processes;
        out.descriptors = limits->descriptors;
    }
    if (p != NULL && p->memory != NULL)
        out.memory_bytes = p->memory->bytes;
    return out;
}

static enum ls_err start(struct server *s, const Ls__Prepare *prepare, struct ls_diag *diag)
{
    const Ls__Target *t = prepare->target;
    const struct host_env env = { .wake = s->env.wake, .ctx = s->env.ctx };
    struct host_file *files = NULL;
    enum ls_err rc = files_of(s, prepare, &files, diag);

    if (rc != LS_OK)
        return rc;
    rc = host_target_start(
        &(struct host_target_spec){ .dir = s->dir,
                                    .files = files,
                                    .file_count = prepare->n_files,
                                    .argv = s->argv,
                                    .envp = s->envp,
                                    .others = s->others,
                                    .other_count = s->other_count,
                                    .limits = limits_of(prepare),
                                    .private_network = t->network == LS__NETWORK__NETWORK_PRIVATE,
                                    .version_argv = s->version,
                                    .cpus = prepare->cpus,
                                    .host = t->host,
                                    .port = (uint16_t)t->port,
                                    .ready = s->ready != NULL ? agent_build_get(s->ready) : NULL,
                                    .ready_timeout_ns = t->ready->timeout->ns,
                                    .ready_processes = t->ready->processes,
                                    .stop_signal = host_signal_number(t->stop->signal),
                                    .grace_ns = t->stop->grace->ns,
                                    .probe = s->probe_message != NULL ? &s->probe : NULL,
                                    .series = s->series,
                                    .log_max_bytes = LOG_MAX_BYTES,
                                    .permit = { .ask = may_run, .ctx = s } },
        &env, &s->target, diag);
    free(files);
    return rc;
}

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
        rc = expand_all(s, prepare, diag);
    if (rc == LS_OK)
        rc = agent_runs_are_asked_for(prepare)
                 ? create_series(s, prepare, diag)
                 : agent_build_ready(prepare, s->env.files, &s->ready, diag);
    if (rc == LS_OK)
        rc = agent_services_count(prepare) > 0 ? start_services(s, prepare, diag)
                                               : start(s, prepare, diag);
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

/* Nothing for a single one, whose end is that of the target. */
static size_t exits_of(const struct server *s, char **out)
{
    size_t n = 0;

    for (; s->other_count > 0 && n <= s->other_count; n++)
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

static size_t count(char *const *list)
{
    size_t n = 0;

    while (list[n] != NULL)
        n++;
    return n;
}

/* Names of files are bytes; messages carry text. */
static char *as_text(const char *name, char *out, size_t out_bytes)
{
    (void)snprintf(out, out_bytes, "%s", name);
    ls_utf8_clean(out, strlen(out));
    return out;
}

/* What is told of the target's containment; both live as long as the call that sends it. */
struct told_containment {
    Ls__Containment message;
    char *limits[HOST_LIMITS_MAX];
};

static void tell_containment(const struct host_containment *c, size_t instances,
                             struct told_containment *out)
{
    union {
        const char *in;
        char *out;
    } limit;

    ls__containment__init(&out->message);
    out->message.by = ls_pb_text(c->by);
    out->message.cpu_from = ls_pb_text(c->cpu_from);
    out->message.network = ls_pb_text(c->network_pid != 0 ? "private" : "host");
    out->message.instances = (uint32_t)instances;
    for (unsigned i = 0; i < c->limit_count; i++) {
        limit.in = c->limits[i];
        out->limits[i] = limit.out;
    }
    out->message.limits = out->limits;
    out->message.n_limits = c->limit_count;
}

static void on_up(struct server *s, const struct host_target_event *event, int64_t now_ns)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__TargetUp report = LS__TARGET_UP__INIT;
    Ls__Program program = LS__PROGRAM__INIT;
    struct told_containment containment;
    char path[PATH_MAX], interpreter[PATH_MAX], binary[PATH_MAX], shim[512];

    if (agent_expand_publish(s->envp, &program.environment, &program.environment_hidden, NULL) ==
        LS_OK) {
        program.n_environment = count(program.environment);
        program.n_environment_hidden = count(program.environment_hidden);
    }
    program.argv = s->argv;
    program.n_argv = count(s->argv);
    program.path = as_text(event->program.path, path, sizeof(path));
    program.sha256 = ls_pb_text(event->program.sha256);
    program.version = ls_pb_text(event->program.version);
    program.interpreter = as_text(event->program.interpreter, interpreter, sizeof(interpreter));
    program.folder = s->dir;
    program.probed = ls_pb_text(event->program.probed);
    program.version_differs = ls_pb_text(event->program.version_differs);
    program.binary = as_text(event->program.binary, binary, sizeof(binary));
    program.binary_sha256 = ls_pb_text(event->program.binary_sha256);
    program.shim = as_text(event->program.shim, shim, sizeof(shim));
    tell_containment(event->containment, 1 + s->other_count, &containment);
    s->network_pid = event->containment->network_pid;
    report.containment = &containment.message;
    report.network_pid = (uint32_t)event->containment->network_pid;
    report.network_inode = event->containment->network_inode;
    report.trial = agent_session_trial(s->env.session);
    report.program = &program;
    report.readiness_requests = event->readiness_requests;
    report.up_after_ns = event->up_after_ns;
    envelope.body_case = LS__ENVELOPE__BODY_TARGET_UP;
    envelope.target_up = &report;
    if (agent_session_report(s->env.session, &envelope) != LS_OK)
        ls_log(LS_LOG_ERROR, "server.report_lost", "trial=%" PRIu32, report.trial);
    agent_expand_free(program.environment);
    agent_expand_free(program.environment_hidden);
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
    rc = start(s, s->waiting, &diag);
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
