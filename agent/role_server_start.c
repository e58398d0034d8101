/* From PREPARE to a target that starts. */
#include "agent/role_server.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/expand.h"
#include "agent/files.h"
#include "agent/policy/policy.h"
#include "agent/runs.h"
#include "common/fs.h"
#include "common/msg_model.h"

#define LOG_MAX_BYTES (16u << 20) /* kept of a target's output, per trial */

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

enum ls_err server_expand(struct server *s, const Ls__Prepare *prepare, struct ls_diag *diag)
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

enum ls_err server_start(struct server *s, const Ls__Prepare *prepare, struct ls_diag *diag)
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
