#include "coordinator/run/process.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/clock.h"
#include "coordinator/result/latency.h"
#include "coordinator/result/message.h"
#include "coordinator/result/store.h"
#include "coordinator/run/verdict.h"

#define RUNS_MOST       300000u /* warm-ups and all */
#define METRICS_MOST    1000u
#define CSV_MOST        (64u << 20)
#define NS_MOST         (INT64_C(1) << 53)
#define FOREIGN_MOST    0.25 /* cores beside the runs: the spawner and this agent are in it */
#define FOREIGN_SPAN_NS LS_NS_PER_S

struct values {
    double *items; /* owned */
    size_t count;
    size_t room;
};

/* A metric of the script over all measured runs. */
struct metric {
    Ls__ScriptMetric *message; /* owned, until it is the trial's */
    struct values values;
    bool varies; /* its checksum */
    bool mixed;  /* its unit or direction: its values are not of one kind */
};

struct coord_process {
    const Ls__Workload *workload;
    struct ls_buf csv;
    uint32_t warmups;
    uint32_t measured;
    uint32_t refused;
    uint32_t left_over;
    uint64_t lines_ignored;
    int64_t cpu_ns; /* of all measured runs */
    struct values wall, user, system, peak, marker;
    struct metric *metrics; /* owned */
    size_t metric_count;
    Ls__OutcomeCount **outcomes; /* owned, until they are the trial's */
    size_t outcome_count;
    char output_sha256[80];
    bool output_varies;
    Ls__ProcessTotals totals;
    bool has_totals;
    char limit_by[40];
    char first_refused[400];
    char nonsense[200]; /* a report that made no sense; "" */
};

bool coord_process_is(const Ls__Workload *workload)
{
    return workload->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS;
}

enum ls_err coord_process_create(const Ls__Workload *workload, struct coord_process **out_process,
                                 struct ls_diag *diag)
{
    struct coord_process *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the runs");
    p->workload = workload;
    ls_buf_init(&p->csv, CSV_MOST);
    ls_buf_adds(&p->csv, "run,phase,start_ns,wall_ns,user_ns,system_ns,peak_bytes,"
                         "marker_rss_bytes,outcome,detail,output_bytes,output_sha256,left_over\n");
    *out_process = p;
    return LS_OK;
}

void coord_process_destroy(struct coord_process *process)
{
    if (process == NULL)
        return;
    free(process->wall.items);
    free(process->user.items);
    free(process->system.items);
    free(process->peak.items);
    free(process->marker.items);
    for (size_t i = 0; i < process->metric_count; i++) {
        free(process->metrics[i].values.items);
        coord_message_free(process->metrics[i].message);
    }
    free(process->metrics);
    coord_message_clear(&process->outcome_count, &process->outcomes);
    ls_buf_fini(&process->csv);
    free(process);
}

/* ---- reports */

static bool add(struct values *values, double value)
{
    if (values->count == values->room) {
        size_t room = 2 * values->room + 32;
        double *grown = realloc(values->items, room * sizeof(*grown));

        if (grown == NULL)
            return false;
        values->items = grown;
        values->room = room;
    }
    values->items[values->count++] = value;
    return true;
}

static bool is_amount(int64_t ns)
{
    return ns >= 0 && ns <= NS_MOST;
}

static bool is_short(const char *text, size_t most)
{
    return strlen(text) <= most;
}

/* A word or two that may stand in a line of runs.csv: "signal SEGV", "after 1.5 s". */
static bool is_plain(const char *text, size_t most)
{
    static const char may_begin[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

    for (size_t i = 0; text[i] != '\0'; i++) {
        if (strchr(may_begin, text[i]) == NULL && (i == 0 || strchr(" _.+-", text[i]) == NULL))
            return false;
    }
    return is_short(text, most);
}

static bool makes_sense(const Ls__ProcessRun *run)
{
    bool fine = is_amount(run->start_ns) && is_amount(run->wall_ns) && is_amount(run->user_ns) &&
                is_amount(run->system_ns) && run->peak_bytes <= (uint64_t)NS_MOST &&
                run->marker_rss_bytes <= (uint64_t)NS_MOST &&
                run->output_bytes <= (uint64_t)NS_MOST && is_plain(run->outcome, 16) &&
                run->outcome[0] != '\0' && is_plain(run->detail, 80) &&
                is_plain(run->output_sha256, 64) && run->n_values <= METRICS_MOST;

    for (size_t i = 0; i < run->n_values && fine; i++)
        fine = isfinite(run->values[i]->value) && is_short(run->values[i]->name, 64) &&
               is_short(run->values[i]->unit, 16) && is_short(run->values[i]->checksum, 128) &&
               is_short(run->values[i]->not_applicable, 200);
    return fine;
}

static bool count_outcome(struct coord_process *p, const Ls__ProcessRun *run)
{
    Ls__OutcomeCount *entry = NULL;

    for (size_t i = 0; i < p->outcome_count && entry == NULL; i++) {
        if (strcmp(p->outcomes[i]->outcome, run->outcome) == 0 &&
            strcmp(p->outcomes[i]->detail, run->detail) == 0)
            entry = p->outcomes[i];
    }
    if (entry == NULL) {
        entry =
            coord_message_append(&p->outcome_count, &p->outcomes, &ls__outcome_count__descriptor);
        if (entry == NULL || !coord_message_string(&entry->outcome, run->outcome) ||
            !coord_message_string(&entry->detail, run->detail))
            return false;
    }
    entry->count++;
    return true;
}

static const char *direction_of(const Ls__ScriptValue *value)
{
    return value->higher_is_better ? "higher" : "lower";
}

static struct metric *metric_of(struct coord_process *p, const Ls__ScriptValue *value)
{
    struct metric *grown;
    Ls__ScriptMetric *message;

    for (size_t i = 0; i < p->metric_count; i++) {
        if (strcmp(p->metrics[i].message->name, value->name) == 0)
            return &p->metrics[i];
    }
    grown = realloc(p->metrics, (p->metric_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return NULL;
    p->metrics = grown;
    message = coord_message_new(&ls__script_metric__descriptor);
    if (message == NULL || !coord_message_string(&message->name, value->name) ||
        !coord_message_string(&message->unit, value->unit) ||
        !coord_message_string(&message->checksum, value->checksum) ||
        !coord_message_string(&message->not_applicable, value->not_applicable) ||
        !coord_message_string(&message->better, direction_of(value))) {
        coord_message_free(message);
        return NULL;
    }
    p->metrics[p->metric_count] = (struct metric){ .message = message };
    return &p->metrics[p->metric_count++];
}

static bool add_metric(struct coord_process *p, const Ls__ScriptValue *value)
{
    struct metric *metric = metric_of(p, value);

    if (metric == NULL)
        return false;
    metric->varies |= strcmp(metric->message->checksum, value->checksum) != 0;
    if (value->not_applicable[0] == '\0' && metric->message->not_applicable[0] == '\0')
        metric->mixed |= strcmp(metric->message->unit, value->unit) != 0 ||
                         strcmp(metric->message->better, direction_of(value)) != 0;
    return value->not_applicable[0] != '\0' || add(&metric->values, value->value);
}

static bool add_measured(struct coord_process *p, const Ls__ProcessRun *run)
{
    bool ok = add(&p->wall, (double)run->wall_ns) && add(&p->user, (double)run->user_ns) &&
              add(&p->system, (double)run->system_ns) && add(&p->peak, (double)run->peak_bytes);

    if (run->marker_rss_bytes > 0)
        ok = ok && add(&p->marker, (double)run->marker_rss_bytes);
    for (size_t i = 0; i < run->n_values && ok; i++)
        ok = add_metric(p, run->values[i]);
    if (p->measured == 0)
        (void)snprintf(p->output_sha256, sizeof(p->output_sha256), "%s", run->output_sha256);
    p->output_varies |= strcmp(p->output_sha256, run->output_sha256) != 0;
    p->cpu_ns += run->user_ns + run->system_ns;
    p->lines_ignored += run->lines_ignored;
    p->measured++;
    return ok && count_outcome(p, run);
}

static void add_line(struct coord_process *p, const Ls__ProcessRun *run)
{
    ls_buf_addf(&p->csv,
                "%" PRIu32 ",%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRIu64
                ",%" PRIu64 ",%s,%s,%" PRIu64 ",%s,%" PRIu32 "\n",
                run->index, run->warmup ? "warmup" : "measure", run->start_ns, run->wall_ns,
                run->user_ns, run->system_ns, run->peak_bytes, run->marker_rss_bytes, run->outcome,
                run->detail, run->output_bytes, run->output_sha256, run->left_over);
}

static enum ls_err nonsense(struct coord_process *p, const char *what, struct ls_diag *diag)
{
    if (p->nonsense[0] == '\0')
        (void)snprintf(p->nonsense, sizeof(p->nonsense), "%s", what);
    return ls_fail(diag, LS_EPROTO, "%s", what);
}

static enum ls_err take_run(struct coord_process *p, const Ls__ProcessRun *run,
                            struct ls_diag *diag)
{
    if (p->warmups + p->measured >= RUNS_MOST)
        return nonsense(p, "it reported more runs than a plan can ask for", diag);
    if (!makes_sense(run))
        return nonsense(p, "it reported a run that makes no sense", diag);
    add_line(p, run);
    p->left_over += run->left_over;
    if (run->why[0] != '\0') {
        if (p->refused++ == 0)
            (void)snprintf(p->first_refused, sizeof(p->first_refused), "run %" PRIu32 "%s: %.300s",
                           run->index, run->warmup ? " (a warm-up)" : "", run->why);
    }
    if (run->warmup)
        p->warmups++;
    else if (!add_measured(p, run))
        return ls_fail(diag, LS_ENOMEM, "out of memory for the runs");
    return p->csv.ok ? LS_OK : ls_fail(diag, LS_ENOMEM, "out of memory for runs.csv");
}

enum ls_err coord_process_report(struct coord_process *p, const Ls__ProcessReport *report,
                                 struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    for (size_t i = 0; i < report->n_runs && rc == LS_OK; i++)
        rc = take_run(p, report->runs[i], diag);
    if (rc == LS_OK && report->totals != NULL) {
        p->totals = *report->totals;
        (void)snprintf(p->limit_by, sizeof(p->limit_by), "%s", report->totals->memory_limit_by);
        p->has_totals = true;
    }
    return rc;
}

/* ---- the result */

/* NULL: there are no values, or no memory for them. */
static Ls__Spread *spread_of(struct values *values)
{
    Ls__Spread *spread = values->count > 0 ? coord_message_new(&ls__spread__descriptor) : NULL;

    if (spread != NULL)
        coord_spread_fill(spread, values->items, values->count);
    return spread;
}

static bool move_metrics(struct coord_process *p, Ls__ProcessResult *result)
{
    result->metrics = calloc(p->metric_count + 1, sizeof(Ls__ScriptMetric *));
    if (result->metrics == NULL)
        return false;
    for (size_t i = 0; i < p->metric_count; i++) {
        p->metrics[i].message->value = spread_of(&p->metrics[i].values);
        result->metrics[result->n_metrics++] = p->metrics[i].message;
        p->metrics[i].message = NULL;
    }
    return true;
}

static void fill_totals(const struct coord_process *p, Ls__ProcessResult *result)
{
    const Ls__ProcessTotals *t = &p->totals;
    double span = (double)t->span_ns;

    if (!p->has_totals || t->span_ns <= 0)
        return;
    result->peak_floor_bytes = t->spawner_peak_bytes;
    result->memory_limit_bytes = t->memory_limit_bytes;
    if (t->cpus_busy_ns > p->cpu_ns)
        result->foreign_cpu_cores = (double)(t->cpus_busy_ns - p->cpu_ns) / span;
    if (t->cpus_steal_ns > 0)
        result->steal_cores = (double)t->cpus_steal_ns / span;
}

static bool fill_result(struct coord_process *p, const Ls__Trial *trial, Ls__ProcessResult *result)
{
    const Ls__Server *server = trial->server;

    result->runs = p->measured;
    result->warmup_runs = p->warmups;
    result->concurrency = p->workload->process->concurrency;
    result->refused = p->refused;
    result->left_over = p->left_over;
    result->lines_ignored = p->lines_ignored;
    result->wall_ns = spread_of(&p->wall);
    result->user_ns = spread_of(&p->user);
    result->system_ns = spread_of(&p->system);
    result->peak_bytes = spread_of(&p->peak);
    result->marker_rss_bytes = spread_of(&p->marker);
    result->outcomes = p->outcomes;
    result->n_outcomes = p->outcome_count;
    p->outcomes = NULL;
    p->outcome_count = 0;
    fill_totals(p, result);
    return coord_message_string(&result->agent, server != NULL ? server->agent : "") &&
           coord_message_string(&result->cpus, server != NULL ? server->cpus : "") &&
           coord_message_string(&result->memory_limit_by, p->limit_by) &&
           coord_message_string(&result->output_sha256, p->output_varies ? "" : p->output_sha256) &&
           move_metrics(p, result);
}

enum ls_err coord_process_finish(struct coord_process *p, Ls__Trial *trial,
                                 struct coord_store_trial *files, struct ls_diag *diag)
{
    if (p->warmups + p->measured == 0)
        return LS_OK; /* nothing was measured */
    trial->process = coord_message_new(&ls__process_result__descriptor);
    if (trial->process == NULL || !fill_result(p, trial, trial->process))
        return ls_fail(diag, LS_ENOMEM, "out of memory for the trial's result");
    return files != NULL
               ? coord_store_trial_file(files, "runs.csv",
                                        (struct ls_bytes){ p->csv.data, p->csv.len }, diag)
               : LS_OK;
}

/* ---- is it to be believed? */

static void judge_runs(const struct coord_process *p, Ls__Trial *trial)
{
    if (p->nonsense[0] != '\0')
        coord_verdict_add(trial, "bad_report", LS__VERDICT__VERDICT_INVALID, "%s", p->nonsense);
    if (p->refused > 0)
        coord_verdict_add(trial, "runs_refused", LS__VERDICT__VERDICT_INVALID,
                          "%" PRIu32 " of %" PRIu32 " runs did not end as expected; %s", p->refused,
                          p->warmups + p->measured, p->first_refused);
    else if (p->measured == 0)
        coord_verdict_add(trial, "not_measured", LS__VERDICT__VERDICT_INVALID,
                          "no run was measured");
}

static const Ls__ScriptMetric *find_metric(const Ls__Trial *trial, const char *name)
{
    for (size_t i = 0; trial->process != NULL && i < trial->process->n_metrics; i++) {
        if (strcmp(trial->process->metrics[i]->name, name) == 0)
            return trial->process->metrics[i];
    }
    return NULL;
}

/* The first trial of the workload that counts and printed it; with a checksum, if that is asked
 * for.
 */
static const Ls__Trial *reference_of(const Ls__Result *earlier, const Ls__Trial *trial,
                                     const char *name, bool checksum)
{
    for (size_t i = 0; earlier != NULL && i < earlier->n_trials; i++) {
        const Ls__Trial *other = earlier->trials[i];
        const Ls__ScriptMetric *metric =
            strcmp(other->workload, trial->workload) == 0 ? find_metric(other, name) : NULL;

        if (metric != NULL && (checksum ? metric->checksum[0] != '\0' : metric->value != NULL) &&
            other->verdict != LS__VERDICT__VERDICT_INVALID)
            return other;
    }
    return NULL;
}

static void judge_checksums(const struct coord_process *p, Ls__Trial *trial,
                            const Ls__Result *earlier)
{
    for (size_t i = 0; i < trial->process->n_metrics; i++) {
        const Ls__ScriptMetric *metric = trial->process->metrics[i];
        const Ls__Trial *other = reference_of(earlier, trial, metric->name, true);
        const char *wanted = other != NULL ? find_metric(other, metric->name)->checksum : "";

        if (p->metrics[i].varies)
            coord_verdict_add(trial, "checksum_varies", LS__VERDICT__VERDICT_INVALID,
                              "metric %s has not the same checksum in all runs", metric->name);
        else if (other != NULL && metric->not_applicable[0] == '\0' &&
                 strcmp(wanted, metric->checksum) != 0)
            coord_verdict_add(
                trial, "checksum_differs", LS__VERDICT__VERDICT_INVALID,
                "metric %s has checksum %.40s, and trial %u (%.64s) had %.40s: they did "
                "not compute the same",
                metric->name, metric->checksum[0] != '\0' ? metric->checksum : "none", other->index,
                other->target, wanted);
    }
}

/* Milliseconds and seconds have no median, and are not to be ranked. */
static void judge_units(const struct coord_process *p, Ls__Trial *trial, const Ls__Result *earlier)
{
    for (size_t i = 0; i < trial->process->n_metrics; i++) {
        const Ls__ScriptMetric *metric = trial->process->metrics[i], *wanted;
        const Ls__Trial *other = reference_of(earlier, trial, metric->name, false);

        wanted = other != NULL ? find_metric(other, metric->name) : metric;
        if (p->metrics[i].mixed)
            coord_verdict_add(trial, "unit_varies", LS__VERDICT__VERDICT_INVALID,
                              "metric %s has not the same unit and direction in all runs",
                              metric->name);
        else if (metric->value != NULL && (strcmp(wanted->unit, metric->unit) != 0 ||
                                           strcmp(wanted->better, metric->better) != 0))
            coord_verdict_add(
                trial, "unit_differs", LS__VERDICT__VERDICT_INVALID,
                "metric %s is in %.16s, better %.8s, and in trial %u (%.64s) it was in "
                "%.16s, better %.8s",
                metric->name, metric->unit, metric->better, other->index, other->target,
                wanted->unit, wanted->better);
    }
}

static void judge_quiet(const struct coord_process *p, Ls__Trial *trial)
{
    const Ls__ProcessResult *result = trial->process;

    if (!p->has_totals || p->totals.span_ns < FOREIGN_SPAN_NS)
        return; /* a look at ticks of 10 ms says nothing */
    if (result->foreign_cpu_cores > FOREIGN_MOST)
        coord_verdict_add(trial, "foreign_cpu", LS__VERDICT__VERDICT_SUSPECT,
                          "others used %.2f cores of the CPUs that the runs were on",
                          result->foreign_cpu_cores);
    if (result->steal_cores > COORD_LIMIT_STEAL)
        coord_verdict_add(trial, "cpu_steal", LS__VERDICT__VERDICT_SUSPECT,
                          "the hypervisor took %.2f cores from the CPUs that the runs were on",
                          result->steal_cores);
}

void coord_process_judge(const struct coord_process *p, Ls__Trial *trial, const Ls__Result *earlier)
{
    judge_runs(p, trial);
    if (trial->process == NULL)
        return;
    judge_checksums(p, trial, earlier);
    judge_units(p, trial, earlier);
    judge_quiet(p, trial);
}
