#include "agent/runs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/session.h"
#include "common/log.h"

#define ROOM_RESERVE 16u
#define BATCH        64u

bool agent_runs_are_asked_for(const Ls__Prepare *prepare)
{
    return prepare->workload != NULL &&
           prepare->workload->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS;
}

enum ls_err agent_runs_argv(const Ls__Prepare *prepare, const struct agent_expand *values,
                            char ***out_argv, struct ls_diag *diag)
{
    const Ls__Process *p = prepare->workload->process;
    const Ls__Target *t = prepare->target;
    char *const *first = p->n_command > 0 ? p->command : t->command;
    size_t count = p->n_command > 0 ? p->n_command : t->n_command;
    char **words = calloc(count + p->n_args + 1, sizeof(*words));
    enum ls_err rc;

    if (words == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a command");
    for (size_t i = 0; i < count; i++)
        words[i] = first[i];
    for (size_t i = 0; i < p->n_args; i++)
        words[count + i] = p->args[i];
    rc = agent_expand_argv(values, words, count + p->n_args, out_argv, diag);
    free(words);
    return rc;
}

/* The workload's later, so that they replace the target's. */
enum ls_err agent_runs_env(const Ls__Prepare *prepare, const struct agent_expand *values,
                           char ***out_envp, struct ls_diag *diag)
{
    const Ls__Process *p = prepare->workload->process;
    const Ls__Target *t = prepare->target;
    Ls__Target__EnvEntry *own = calloc(p->n_env + 1, sizeof(*own));
    Ls__Target__EnvEntry **all = calloc(t->n_env + p->n_env + 1, sizeof(Ls__Target__EnvEntry *));
    enum ls_err rc = LS_ENOMEM;

    if (own == NULL || all == NULL) {
        (void)ls_fail(diag, rc, "no memory for an environment");
        goto out;
    }
    for (size_t i = 0; i < t->n_env; i++)
        all[i] = t->env[i];
    for (size_t i = 0; i < p->n_env; i++) {
        ls__target__env_entry__init(&own[i]);
        own[i].key = p->env[i]->key;
        own[i].value = p->env[i]->value;
        all[t->n_env + i] = &own[i];
    }
    rc = agent_expand_env(values, all, t->n_env + p->n_env, out_envp, diag);
out:
    free(all);
    free(own);
    return rc;
}

/* file NULL: not given, no data. */
static enum ls_err content_of(const Ls__Prepare *prepare, const struct agent_files *files,
                              const char *file, struct ls_bytes *out, struct ls_diag *diag)
{
    if (file == NULL)
        return LS_OK;
    for (size_t i = 0; i < prepare->n_plan_files; i++) {
        if (strcmp(prepare->plan_files[i]->name, file) == 0)
            return agent_files_get(files, prepare->plan_files[i]->sha256, out, diag);
    }
    return ls_fail(diag, LS_EPROTO, "the file %.100s of the plan has not come", file);
}

enum ls_err agent_runs_create(const Ls__Prepare *prepare, const struct agent_files *files,
                              const char *spawner_path, struct host_series **out_series,
                              struct ls_diag *diag)
{
    const Ls__Workload *w = prepare->workload;
    const Ls__Process *p = w->process;
    struct host_series_spec spec = { .process = p, .spawner_path = spawner_path };
    enum ls_err rc;

    if (p->expect == NULL || w->measure == NULL || w->timeout == NULL)
        return ls_fail(diag, LS_EPROTO, "PREPARE came without the times of its process workload");
    spec.budget_ns = w->measure->ns;
    spec.timeout_ns = w->timeout->ns;
    rc = content_of(prepare, files, p->stdin_file, &spec.input, diag);
    if (rc == LS_OK)
        rc = content_of(prepare, files, p->expect->output_file, &spec.expected, diag);
    return rc == LS_OK ? host_series_create(&spec, out_series, diag) : rc;
}

static void send_runs(struct agent_session *session, Ls__ProcessReport *report)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;

    report->trial = agent_session_trial(session);
    envelope.body_case = LS__ENVELOPE__BODY_PROCESS;
    envelope.process = report;
    if (agent_session_report(session, &envelope) != LS_OK)
        ls_log(LS_LOG_ERROR, "runs.report_lost", "trial=%" PRIu32, report->trial);
}

bool agent_runs_report(struct agent_session *session, struct host_series *series, bool is_over)
{
    Ls__ProcessRun *runs[BATCH];
    bool all = false;

    while (!all && agent_session_room(session) > ROOM_RESERVE) {
        Ls__ProcessReport report = LS__PROCESS_REPORT__INIT;
        Ls__ProcessTotals totals;

        while (report.n_runs < BATCH) {
            runs[report.n_runs] = host_series_next(series);
            if (runs[report.n_runs] == NULL)
                break;
            report.n_runs++;
        }
        all = report.n_runs < BATCH;
        report.runs = runs;
        if (all && is_over) {
            host_series_totals(series, &totals);
            report.totals = &totals;
        }
        if (report.n_runs > 0 || report.totals != NULL)
            send_runs(session, &report);
        for (size_t i = 0; i < report.n_runs; i++)
            ls__process_run__free_unpacked(runs[i], NULL);
    }
    return all && is_over;
}
