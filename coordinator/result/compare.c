#include "coordinator/result/compare.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/result/compare_internal.h"
#include "coordinator/result/message.h"
#include "coordinator/result/rank_test.h"
#include "coordinator/result/summary.h"

/* What a load is judged by, unless the caller names metrics. */
static const char *const judged_closed[] = { "throughput_per_s", "service_time_p99_ns",
                                             "cpu_ns_per_request" };
static const char *const judged_open[] = { "response_time_p50_ns", "response_time_p99_ns",
                                           "cpu_ns_per_request" };

static const char *const judged_runs[] = { "wall_median_ns", "user_mean_ns", "process_peak_bytes" };

static_assert(LS_ARRAY_LEN(judged_closed) == LS_ARRAY_LEN(judged_open) &&
                  LS_ARRAY_LEN(judged_closed) == LS_ARRAY_LEN(judged_runs),
              "one loop goes over any of them");

#define CAPACITY "capacity_per_s"

struct job {
    const Ls__Result *a;
    const Ls__Result *b;
    const struct coord_compare_options *options;
    Ls__Comparison *to;
    double *values; /* owned; room for the trials of both */
    bool nomem;
};

/* The first trial of a workload, and of a target unless that is NULL, that counts. */
static const Ls__Trial *first_of(const Ls__Result *result, const char *workload, const char *target)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (coord_trial_counts(trial) && strcmp(trial->workload, workload) == 0 &&
            (target == NULL || strcmp(trial->target, target) == 0))
            return trial;
    }
    return NULL;
}

static size_t collect(const Ls__Result *result, const Ls__Trial *like,
                      const struct coord_metric *metric, double *values)
{
    size_t n = 0;

    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (coord_trial_counts(trial) && strcmp(trial->workload, like->workload) == 0 &&
            strcmp(trial->target, like->target) == 0 && coord_metric_get(metric, trial, &values[n]))
            n++;
    }
    return n;
}

/* Relative scatter of single runs, of both sides together around their own means. */
static double spread_of(const struct coord_stats *a, const struct coord_stats *b)
{
    double squares = 0, freedom = 0;
    const struct coord_stats *sides[] = { a, b };

    for (size_t i = 0; i < LS_ARRAY_LEN(sides); i++) {
        if (sides[i]->n < 2 || sides[i]->mean == 0)
            continue;
        squares += (sides[i]->n - 1.0) * pow(sides[i]->stdev / sides[i]->mean, 2);
        freedom += sides[i]->n - 1.0;
    }
    return freedom > 0 ? sqrt(squares / freedom) : 0;
}

static enum ls_err fill(Ls__ComparedMetric *row, const double *a, size_t na, const double *b,
                        size_t nb, uint64_t seed)
{
    uint64_t stream = coord_stats_stream(row->workload, row->target, row->metric);
    struct coord_stats sa, sb;
    struct coord_ratio ratio = { 0 };
    enum ls_err rc = coord_stats_compute(a, na, seed, stream, &sa);

    if (rc == LS_OK)
        rc = coord_stats_compute(b, nb, seed, stream, &sb);
    if (rc == LS_OK)
        rc = coord_rank_test(a, na, b, nb, &row->p);
    if (rc != LS_OK)
        return rc;
    rc = coord_stats_ratio(b, nb, a, na, seed, stream, &ratio);
    if (rc == LS_ENOMEM)
        return rc; /* LS_EINVAL: a's are not above 0, there is no ratio to them */
    row->n_a = (uint32_t)na;
    row->n_b = (uint32_t)nb;
    row->median_a = sa.median;
    row->median_b = sb.median;
    row->ratio = ratio.ratio;
    row->ratio_low = ratio.low;
    row->ratio_high = ratio.high;
    row->spread = spread_of(&sa, &sb);
    return LS_OK;
}

static double fail_on_of(const struct coord_compare_options *options, const char *metric)
{
    for (size_t i = 0; options->thresholds != NULL && i < options->thresholds->count; i++) {
        if (strcmp(options->thresholds->items[i].metric, metric) == 0)
            return options->thresholds->items[i].fail_on;
    }
    return options->fail_on;
}

/* NULL: it has not been judged. */
static Ls__ComparedMetric *row_of(const Ls__Comparison *to, const Ls__Trial *like, const char *name)
{
    for (size_t i = 0; i < to->n_metrics; i++) {
        if (strcmp(to->metrics[i]->metric, name) == 0 &&
            strcmp(to->metrics[i]->workload, like->workload) == 0 &&
            strcmp(to->metrics[i]->target, like->target) == 0)
            return to->metrics[i];
    }
    return NULL;
}

/* A script's own may be printed on one side only. False: there is none of that name. */
static bool metric_of(const struct job *job, const char *name, struct coord_metric *out)
{
    return coord_metric_of(job->a, name, out) || coord_metric_of(job->b, name, out);
}

static bool higher_is_better(const struct job *job, const char *name)
{
    struct coord_metric metric;

    return metric_of(job, name, &metric) && metric.higher_is_better;
}

static void compare_metric(struct job *job, const Ls__Trial *like, const char *name)
{
    double fail_on = fail_on_of(job->options, name);
    struct coord_metric metric;
    Ls__ComparedMetric *row;
    size_t na, nb;

    if (!metric_of(job, name, &metric))
        return;
    na = collect(job->a, like, &metric, job->values);
    nb = collect(job->b, like, &metric, job->values + na);
    if (na == 0 || nb == 0 || row_of(job->to, like, name) != NULL)
        return;
    row = coord_message_append(&job->to->n_metrics, &job->to->metrics,
                               &ls__compared_metric__descriptor);
    job->nomem = job->nomem || row == NULL ||
                 !coord_message_string(&row->workload, like->workload) ||
                 !coord_message_string(&row->target, like->target) ||
                 !coord_message_string(&row->metric, name) ||
                 fill(row, job->values, na, job->values + na, nb, job->a->seed) != LS_OK;
    if (row != NULL)
        row->fail_on = fail_on;
}

/* Of one search on each side the runs tell nothing, but each knows how sure it is. */
static void take_intervals(struct job *job, const Ls__Trial *like)
{
    Ls__ComparedMetric *row = job->nomem ? NULL : row_of(job->to, like, CAPACITY);
    const Ls__Trial *a = first_of(job->a, like->workload, like->target);
    const Ls__Trial *b = first_of(job->b, like->workload, like->target);

    if (row == NULL || row->n_a != 1 || row->n_b != 1 || a == NULL || b == NULL ||
        a->capacity == NULL || b->capacity == NULL || !(a->capacity->low_per_s > 0) ||
        !(b->capacity->low_per_s > 0) || !(a->capacity->high_per_s > 0) ||
        !(b->capacity->high_per_s > 0))
        return; /* a lower bound is comparable with nothing */
    row->by_intervals = true;
    row->low_a = a->capacity->low_per_s;
    row->high_a = a->capacity->high_per_s;
    row->low_b = b->capacity->low_per_s;
    row->high_b = b->capacity->high_per_s;
    row->ratio_low = row->low_b / row->high_a;
    row->ratio_high = row->high_b / row->low_a;
}

static void compare_pair(struct job *job, const Ls__Trial *like)
{
    const struct coord_compare_options *options = job->options;
    const char *const *judged = like->process != NULL       ? judged_runs
                                : coord_trial_is_open(like) ? judged_open
                                                            : judged_closed;

    /* What has a threshold is asked for, whatever else is compared. */
    for (size_t i = 0; options->thresholds != NULL && i < options->thresholds->count; i++)
        compare_metric(job, like, options->thresholds->items[i].metric);
    if (like->capacity != NULL && options->metrics == NULL) {
        compare_metric(job, like, CAPACITY);
        take_intervals(job, like);
        return;
    }

    if (options->metrics != NULL) {
        for (size_t i = 0; !job->nomem && i < options->metric_count; i++)
            compare_metric(job, like, options->metrics[i]);
        return;
    }
    for (size_t i = 0; !job->nomem && i < LS_ARRAY_LEN(judged_open); i++)
        compare_metric(job, like, judged[i]);
    for (size_t i = 0; like->process != NULL && !job->nomem && i < like->process->n_metrics; i++) {
        char name[128];

        if (snprintf(name, sizeof(name), COORD_SCRIPT_PREFIX "%s",
                     like->process->metrics[i]->name) < (int)sizeof(name))
            compare_metric(job, like, name);
    }
}

/* ---- what it means */

static int by_p(const void *a, const void *b)
{
    const Ls__ComparedMetric *const *x = a, *const *y = b;

    return ((*x)->p > (*y)->p) - ((*x)->p < (*y)->p);
}

/* Holm, "A simple sequentially rejective multiple test procedure", 1979: the smallest p counts as
 * often as there are tests, the next once less, and none less than the one before it. */
static bool adjust(Ls__Comparison *to)
{
    Ls__ComparedMetric **rows = calloc(to->n_metrics + 1, sizeof(Ls__ComparedMetric *));
    double before = 0;

    if (rows == NULL)
        return false;
    for (size_t i = 0; i < to->n_metrics; i++)
        rows[i] = to->metrics[i];
    qsort(rows, to->n_metrics, sizeof(*rows), by_p);
    for (size_t i = 0; i < to->n_metrics; i++) {
        double p = rows[i]->p * (double)(to->n_metrics - i);

        before = p > before ? p : before;
        rows[i]->p_adjusted = before < 1 ? before : 1;
    }
    free(rows);
    return true;
}

static bool is_bound(const Ls__Result *result, const Ls__ComparedMetric *row)
{
    return coord_figure_is_bound(result, row->workload, row->target, row->metric);
}

/* Could any outcome of these runs have counted, with this many tests? */
static bool enough(const Ls__ComparedMetric *row, size_t tests)
{
    return coord_rank_least_p(row->n_a, row->n_b) * (double)tests <= COORD_COMPARE_LEVEL;
}

static const char *finding_of(const struct job *job, const Ls__ComparedMetric *row)
{
    if (is_bound(job->a, row) || is_bound(job->b, row))
        return "lower_bound";
    if (row->by_intervals)
        return row->low_b > row->high_a   ? "better"
               : row->high_b < row->low_a ? "worse"
                                          : "no_difference";
    if (row->p_adjusted <= COORD_COMPARE_LEVEL && row->median_a != row->median_b)
        return (row->median_b > row->median_a) == higher_is_better(job, row->metric) ? "better"
                                                                                     : "worse";
    return enough(row, job->to->n_metrics) ? "no_difference" : "too_few";
}

/* Beyond fail_on: for what is better when higher, below 1 - fail_on; else above 1 + fail_on. From
 * nothing to something is beyond any share. */
static bool beyond(const struct job *job, const Ls__ComparedMetric *row, double fail_on)
{
    if (row->median_a <= 0)
        return true;
    return higher_is_better(job, row->metric) ? row->ratio < 1 - fail_on : row->ratio > 1 + fail_on;
}

/* Whatever the figures look like, nothing is known of the difference. */
static bool is_open(const Ls__ComparedMetric *row)
{
    return strcmp(row->finding, "too_few") == 0 || strcmp(row->finding, "lower_bound") == 0;
}

static bool judge(struct job *job)
{
    Ls__Comparison *to = job->to;

    if (!adjust(to))
        return false;
    for (size_t i = 0; i < to->n_metrics; i++) {
        Ls__ComparedMetric *row = to->metrics[i];
        double change = row->fail_on > 0 ? row->fail_on : (double)COORD_COMPARE_CHANGE;

        if (!coord_message_string(&row->finding, finding_of(job, row)))
            return false;
        row->failed = row->fail_on > 0 && strcmp(row->finding, "worse") == 0 &&
                      beyond(job, row, row->fail_on);
        to->failed += row->failed;
        to->undecided += row->fail_on > 0 && is_open(row) && beyond(job, row, row->fail_on);
        /* Found by the strictest of the adjusted tests, whatever becomes of the others. */
        row->runs_needed = coord_rank_runs_needed(row->spread, change,
                                                  COORD_COMPARE_LEVEL / (double)to->n_metrics);
    }
    return true;
}

/* ---- all of it */

/* Is nothing grave among the differences from first on? */
static bool same_load(const Ls__Comparison *to, size_t first)
{
    for (size_t i = first; i < to->n_differences; i++) {
        if (to->differences[i]->grave)
            return false;
    }
    return true;
}

static bool is_known(const struct job *job, const char *name, struct ls_diag *diag)
{
    struct coord_metric metric;
    char all[480] = "";
    size_t len = 0;

    if (metric_of(job, name, &metric))
        return true;
    if (strncmp(name, COORD_SCRIPT_PREFIX, strlen(COORD_SCRIPT_PREFIX)) == 0)
        return ls_fail(diag, LS_EINVAL, "no script of these results has printed '%.60s'",
                       name + strlen(COORD_SCRIPT_PREFIX)) == LS_OK;
    for (unsigned k = 0; coord_metric_at(k) != NULL && len < sizeof(all); k++)
        len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", k > 0 ? ", " : "",
                                coord_metric_at(k)->name);
    return ls_fail(diag, LS_EINVAL, "there is no metric '%.60s'; there are %s", name, all) == LS_OK;
}

static bool names_known(const struct job *job, struct ls_diag *diag)
{
    const struct coord_compare_options *options = job->options;

    for (size_t i = 0; options->metrics != NULL && i < options->metric_count; i++) {
        if (!is_known(job, options->metrics[i], diag))
            return false;
    }
    for (size_t i = 0; options->thresholds != NULL && i < options->thresholds->count; i++) {
        if (!is_known(job, options->thresholds->items[i].metric, diag))
            return false;
    }
    return true;
}

/* Each workload and target of a that b has, too, with the same load. */
static enum ls_err compare_all(struct job *job, const char **workloads, size_t n_workloads,
                               const char **targets, size_t n_targets, struct ls_diag *diag)
{
    size_t common = 0, compared = 0;

    for (size_t w = 0; w < n_workloads; w++) {
        const Ls__Trial *x = first_of(job->a, workloads[w], NULL);
        const Ls__Trial *y = first_of(job->b, workloads[w], NULL);
        size_t first = job->to->n_differences;

        if (x == NULL || y == NULL)
            continue;
        if (!coord_compare_loads(job->to, x, y))
            return LS_ENOMEM;
        for (size_t t = 0; t < n_targets; t++) {
            x = first_of(job->a, workloads[w], targets[t]);
            y = first_of(job->b, workloads[w], targets[t]);
            if (x == NULL || y == NULL)
                continue;
            common++;
            if (!job->options->anyway && !same_load(job->to, first))
                continue;
            compared++;
            compare_pair(job, x);
        }
    }
    if (common == 0)
        return ls_fail(
            diag, LS_EINVAL,
            "%.60s and %.60s have no target and workload in common of which trials count",
            job->to->a, job->to->b);
    for (size_t i = 0; compared == 0 && i < job->to->n_differences; i++) {
        const Ls__Difference *difference = job->to->differences[i];

        if (difference->grave)
            return ls_fail(diag, LS_EINVAL,
                           "the load was another one (%.60s: '%.40s', then '%.40s'): what that "
                           "changes is no finding about the target; --anyway compares all the same",
                           difference->what, difference->a, difference->b);
    }
    if (compared > 0 && job->to->n_metrics == 0 && !job->nomem)
        return ls_fail(diag, LS_EINVAL,
                       "of %.60s and %.60s none of the metrics was measured in both: name others",
                       job->to->a, job->to->b);
    return job->nomem ? LS_ENOMEM : LS_OK;
}

static bool compare_programs(struct job *job, const char **targets, size_t n_targets)
{
    for (size_t t = 0; t < n_targets; t++) {
        for (size_t i = 0; i < job->a->n_trials; i++) {
            const Ls__Trial *x = job->a->trials[i];
            const Ls__Trial *y;

            if (strcmp(x->target, targets[t]) != 0 || !coord_trial_counts(x))
                continue;
            y = first_of(job->b, x->workload, targets[t]);
            if (y == NULL)
                continue;
            if (!coord_compare_programs(job->to, x, y))
                return false;
            break;
        }
    }
    return true;
}

enum ls_err coord_compare(const Ls__Result *a, const char *a_name, const Ls__Result *b,
                          const char *b_name, const struct coord_compare_options *options,
                          Ls__Comparisons *out, struct ls_diag *diag)
{
    struct job job = { .a = a, .b = b, .options = options };
    const char **workloads = NULL, **targets = NULL;
    size_t n_workloads, n_targets;
    enum ls_err rc = LS_ENOMEM;

    if (!names_known(&job, diag))
        return LS_EINVAL;
    n_workloads = coord_result_workloads(a, &workloads);
    n_targets = coord_result_targets(a, &targets);
    job.values = calloc(a->n_trials + b->n_trials + 1, sizeof(*job.values));
    job.to =
        coord_message_append(&out->n_comparisons, &out->comparisons, &ls__comparison__descriptor);
    if (workloads == NULL || targets == NULL || job.values == NULL || job.to == NULL ||
        !coord_message_string(&job.to->a, a_name) || !coord_message_string(&job.to->b, b_name) ||
        !coord_message_string(&job.to->a_run_id, a->run_id) ||
        !coord_message_string(&job.to->b_run_id, b->run_id) || !coord_compare_hosts(job.to, a, b) ||
        !compare_programs(&job, targets, n_targets))
        goto out;
    rc = compare_all(&job, workloads, n_workloads, targets, n_targets, diag);
    if (rc == LS_OK && !judge(&job))
        rc = LS_ENOMEM;
out:
    if (rc == LS_ENOMEM)
        (void)ls_fail(diag, rc, "no memory to compare %.60s with %.60s", a_name, b_name);
    free(job.values);
    free(targets);
    free(workloads);
    return rc;
}
