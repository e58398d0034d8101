#include "coordinator/result/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/result/message.h"
#include "coordinator/result/page_metrics.h"
#include "coordinator/result/requests.h"

#define RESPONSE offsetof(Ls__Trial, response_time)
#define SERVICE  offsetof(Ls__Trial, service_time)

static bool get_throughput(const Ls__Trial *trial, double *out)
{
    *out = trial->throughput_per_s;
    return trial->requests != NULL;
}

static bool get_errors(const Ls__Trial *trial, double *out)
{
    *out = (double)coord_requests_errors(trial->requests);
    return trial->requests != NULL;
}

static bool get_cpu(const Ls__Trial *trial, double *out)
{
    *out = trial->server != NULL ? trial->server->cpu_ns_per_request : 0;
    return *out > 0;
}

static bool get_memory(const Ls__Trial *trial, double *out)
{
    *out = trial->server != NULL ? (double)trial->server->rss_peak_bytes : 0;
    return *out > 0;
}

static bool get_messages(const Ls__Trial *trial, double *out)
{
    *out = trial->messages != NULL ? trial->messages->received_per_s : 0;
    return trial->messages != NULL;
}

static bool get_capacity(const Ls__Trial *trial, double *out)
{
    *out = trial->capacity != NULL ? trial->capacity->rate_per_s : 0;
    return *out > 0;
}

static const struct coord_metric metrics[] = {
    { .name = "throughput_per_s",
      .title = "requests/s",
      .noun = "requests/s",
      .more = "more requests/s",
      .unit = COORD_UNIT_PER_S,
      .higher_is_better = true,
      .ranked_closed = true,
      .get = get_throughput },
    { .name = "response_time_p50_ns",
      .title = "p50",
      .noun = "p50 response time",
      .more = "longer p50 response time",
      .unit = COORD_UNIT_NS,
      .ranked_open = true,
      .series = RESPONSE,
      .field = offsetof(Ls__Latency, p50_ns) },
    { .name = "response_time_p99_ns",
      .title = "p99",
      .noun = "p99 response time",
      .more = "longer p99 response time",
      .unit = COORD_UNIT_NS,
      .ranked_open = true,
      .series = RESPONSE,
      .field = offsetof(Ls__Latency, p99_ns) },
    { .name = "response_time_p999_ns",
      .title = "p99.9",
      .noun = "p99.9 response time",
      .more = "longer p99.9 response time",
      .unit = COORD_UNIT_NS,
      .ranked_open = true,
      .series = RESPONSE,
      .field = offsetof(Ls__Latency, p999_ns) },
    { .name = "response_time_max_ns",
      .title = "max",
      .noun = "longest response time",
      .more = "longer maximum of the response time",
      .unit = COORD_UNIT_NS,
      .series = RESPONSE,
      .field = offsetof(Ls__Latency, max_ns) },
    { .name = "service_time_p50_ns",
      .title = "p50",
      .noun = "p50 service time",
      .more = "longer p50 service time",
      .unit = COORD_UNIT_NS,
      .ranked_closed = true,
      .series = SERVICE,
      .field = offsetof(Ls__Latency, p50_ns) },
    { .name = "service_time_p99_ns",
      .title = "p99",
      .noun = "p99 service time",
      .more = "longer p99 service time",
      .unit = COORD_UNIT_NS,
      .ranked_closed = true,
      .series = SERVICE,
      .field = offsetof(Ls__Latency, p99_ns) },
    { .name = "service_time_p999_ns",
      .title = "p99.9",
      .noun = "p99.9 service time",
      .more = "longer p99.9 service time",
      .unit = COORD_UNIT_NS,
      .ranked_closed = true,
      .series = SERVICE,
      .field = offsetof(Ls__Latency, p999_ns) },
    { .name = "service_time_max_ns",
      .title = "max",
      .noun = "longest service time",
      .more = "longer maximum of the service time",
      .unit = COORD_UNIT_NS,
      .series = SERVICE,
      .field = offsetof(Ls__Latency, max_ns) },
    { .name = "capacity_per_s",
      .title = "capacity/s",
      .noun = "capacity",
      .more = "more capacity",
      .unit = COORD_UNIT_PER_S,
      .higher_is_better = true,
      .ranked_open = true,
      .get = get_capacity },
    { .name = "errors",
      .title = "errors",
      .noun = "errors",
      .more = "more errors",
      .get = get_errors },
    { .name = "cpu_ns_per_request",
      .title = "CPU/request",
      .noun = "server CPU per request",
      .more = "more server CPU per request",
      .unit = COORD_UNIT_NS,
      .ranked_closed = true,
      .ranked_open = true,
      .get = get_cpu },
    { .name = "rss_peak_bytes",
      .title = "memory",
      .noun = "peak memory",
      .more = "more peak memory",
      .unit = COORD_UNIT_BYTES,
      .ranked_closed = true,
      .ranked_open = true,
      .get = get_memory },
    { .name = "messages_received_per_s",
      .title = "messages/s",
      .noun = "received messages/s",
      .more = "more received messages/s",
      .unit = COORD_UNIT_PER_S,
      .higher_is_better = true,
      .get = get_messages },
    { .name = "wall_median_ns",
      .title = "wall",
      .noun = "wall time",
      .more = "longer wall time",
      .unit = COORD_UNIT_NS,
      .ranked_closed = true,
      .spread = offsetof(Ls__ProcessResult, wall_ns),
      .statistic = offsetof(Ls__Spread, median) },
    { .name = "wall_min_ns",
      .title = "shortest",
      .noun = "shortest wall time",
      .more = "longer shortest wall time",
      .unit = COORD_UNIT_NS,
      .spread = offsetof(Ls__ProcessResult, wall_ns),
      .statistic = offsetof(Ls__Spread, min) },
    { .name = "wall_mean_ns",
      .title = "mean",
      .noun = "mean wall time",
      .more = "longer mean wall time",
      .unit = COORD_UNIT_NS,
      .spread = offsetof(Ls__ProcessResult, wall_ns),
      .statistic = offsetof(Ls__Spread, mean) },
    { .name = "wall_stdev_ns",
      .title = "stdev",
      .noun = "standard deviation of the wall time",
      .more = "more scatter of the wall time",
      .unit = COORD_UNIT_NS,
      .spread = offsetof(Ls__ProcessResult, wall_ns),
      .statistic = offsetof(Ls__Spread, stdev) },
    { .name = "wall_max_ns",
      .title = "longest",
      .noun = "longest wall time",
      .more = "longer longest wall time",
      .unit = COORD_UNIT_NS,
      .spread = offsetof(Ls__ProcessResult, wall_ns),
      .statistic = offsetof(Ls__Spread, max) },
    { .name = "user_mean_ns",
      .title = "user",
      .noun = "user time",
      .more = "more user time",
      .unit = COORD_UNIT_NS,
      .spread = offsetof(Ls__ProcessResult, user_ns),
      .statistic = offsetof(Ls__Spread, mean) },
    { .name = "system_mean_ns",
      .title = "system",
      .noun = "system time",
      .more = "more system time",
      .unit = COORD_UNIT_NS,
      .spread = offsetof(Ls__ProcessResult, system_ns),
      .statistic = offsetof(Ls__Spread, mean) },
    { .name = "process_peak_bytes",
      .title = "peak memory",
      .noun = "peak memory of a process",
      .more = "more peak memory of a process",
      .unit = COORD_UNIT_BYTES,
      .ranked_closed = true,
      .spread = offsetof(Ls__ProcessResult, peak_bytes),
      .statistic = offsetof(Ls__Spread, median) },
    { .name = "marker_rss_bytes",
      .title = "memory at the marker",
      .noun = "memory at the marker",
      .more = "more memory at the marker",
      .unit = COORD_UNIT_BYTES,
      .ranked_closed = true,
      .spread = offsetof(Ls__ProcessResult, marker_rss_bytes),
      .statistic = offsetof(Ls__Spread, median) },
};

const struct coord_metric *coord_metric_at(unsigned i)
{
    return i < LS_ARRAY_LEN(metrics) ? &metrics[i]
                                     : coord_page_metric_at(i - (unsigned)LS_ARRAY_LEN(metrics));
}

const struct coord_metric *coord_metric_find(const char *name)
{
    const struct coord_metric *metric;

    for (unsigned i = 0; (metric = coord_metric_at(i)) != NULL; i++) {
        if (strcmp(metric->name, name) == 0)
            return metric;
    }
    return NULL;
}

bool coord_trial_is_open(const Ls__Trial *trial)
{
    return trial->offered_per_s > 0;
}

const Ls__Latency *coord_trial_latency(const Ls__Trial *trial)
{
    return coord_trial_is_open(trial) ? trial->response_time : trial->service_time;
}

static bool get_latency(const struct coord_metric *metric, const Ls__Trial *trial, double *out)
{
    const Ls__Latency *latency;
    int64_t value;

    if (metric->series == RESPONSE && !coord_trial_is_open(trial))
        return false;
    (void)memcpy(&latency, (const char *)trial + metric->series, sizeof(latency));
    if (latency == NULL || latency->count == 0)
        return false;
    (void)memcpy(&value, (const char *)latency + metric->field, sizeof(value));
    *out = (double)value;
    return true;
}

/* ---- process workloads */

static bool get_spread(const struct coord_metric *metric, const Ls__Trial *trial, double *out)
{
    const Ls__Spread *spread = NULL;

    if (trial->process != NULL)
        (void)memcpy(&spread, (const char *)trial->process + metric->spread, sizeof(spread));
    if (spread == NULL || spread->n == 0)
        return false;
    (void)memcpy(out, (const char *)spread + metric->statistic, sizeof(*out));
    return true;
}

const Ls__ScriptMetric *coord_script_metric(const Ls__Trial *trial, const char *name)
{
    for (size_t i = 0; trial->process != NULL && i < trial->process->n_metrics; i++) {
        if (strcmp(trial->process->metrics[i]->name, name) == 0)
            return trial->process->metrics[i];
    }
    return NULL;
}

static bool get_script(const struct coord_metric *metric, const Ls__Trial *trial, double *out)
{
    const Ls__ScriptMetric *found = coord_script_metric(trial, metric->script);

    *out = found != NULL && found->value != NULL ? found->value->median : 0;
    return found != NULL && found->value != NULL;
}

struct coord_metric coord_metric_script(const char *name, bool higher_is_better)
{
    const char *script = name + strlen(COORD_SCRIPT_PREFIX);

    return (struct coord_metric){ .name = name,
                                  .title = script,
                                  .noun = script,
                                  .more = script,
                                  .unit = COORD_UNIT_PLAIN,
                                  .higher_is_better = higher_is_better,
                                  .ranked_closed = true,
                                  .script = script };
}

bool coord_metric_of_script(const Ls__Result *result, const char *name, struct coord_metric *out)
{
    const char *script = strncmp(name, COORD_SCRIPT_PREFIX, strlen(COORD_SCRIPT_PREFIX)) == 0
                             ? name + strlen(COORD_SCRIPT_PREFIX)
                             : NULL;
    const Ls__ScriptMetric *found = NULL;

    for (size_t i = 0; script != NULL && i < result->n_trials && found == NULL; i++)
        found = coord_script_metric(result->trials[i], script);
    if (found != NULL)
        *out = coord_metric_script(name, strcmp(found->better, "higher") == 0);
    return found != NULL;
}

bool coord_metric_of(const Ls__Result *result, const char *name, struct coord_metric *out)
{
    const struct coord_metric *known = coord_metric_find(name);

    if (known != NULL)
        *out = *known;
    return known != NULL || coord_metric_of_script(result, name, out);
}

bool coord_metric_get(const struct coord_metric *metric, const Ls__Trial *trial, double *out)
{
    if (metric->script != NULL)
        return get_script(metric, trial, out);
    if (metric->spread != 0)
        return get_spread(metric, trial, out);
    return metric->get != NULL ? metric->get(trial, out) : get_latency(metric, trial, out);
}

bool coord_trial_is_discarded(const Ls__Trial *trial)
{
    return trial->repetition == 0;
}

bool coord_trial_counts(const Ls__Trial *trial)
{
    return !coord_trial_is_discarded(trial) && strcmp(trial->status, "done") == 0 &&
           trial->verdict != LS__VERDICT__VERDICT_INVALID;
}

/* ---- names */

static size_t distinct(const Ls__Result *result, bool targets, const char ***out_names)
{
    const char **names = calloc(result->n_trials + 1, sizeof(*names));
    size_t n = 0;

    *out_names = names;
    if (names == NULL)
        return 0;
    for (size_t i = 0; i < result->n_trials; i++) {
        const char *name = targets ? result->trials[i]->target : result->trials[i]->workload;
        size_t k = 0;

        while (k < n && strcmp(names[k], name) != 0)
            k++;
        if (k == n)
            names[n++] = name;
    }
    return n;
}

size_t coord_result_targets(const Ls__Result *result, const char ***out_names)
{
    return distinct(result, true, out_names);
}

size_t coord_result_workloads(const Ls__Result *result, const char ***out_names)
{
    return distinct(result, false, out_names);
}

/* ---- summary */

static bool belongs(const Ls__Trial *trial, const char *workload, const char *target)
{
    return strcmp(trial->workload, workload) == 0 && strcmp(trial->target, target) == 0;
}

size_t coord_summary_values(const Ls__Result *result, const char *workload, const char *target,
                            const struct coord_metric *metric, double *values,
                            uint32_t *out_left_out)
{
    uint32_t left_out = 0;
    size_t n = 0;

    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (!belongs(trial, workload, target) || coord_trial_is_discarded(trial))
            continue;
        if (coord_trial_counts(trial) && coord_metric_get(metric, trial, &values[n]))
            n++;
        else if (trial->verdict != LS__VERDICT__VERDICT_NONE)
            left_out++;
    }
    if (out_left_out != NULL)
        *out_left_out = left_out;
    return n;
}

static void note_on(const struct coord_stats *stats, uint32_t left_out, char *out, size_t out_bytes)
{
    char left[64] = "", spread[64] = "", outside[80] = "";
    const char *few = stats->n == 1   ? "one run: no interval; "
                      : stats->n == 2 ? "two runs: the interval is their range; "
                                      : "";
    size_t len;

    if (left_out > 0)
        (void)snprintf(left, sizeof(left), "%u of %u trials left out; ", left_out,
                       stats->n + left_out);
    if (stats->noisy)
        (void)snprintf(spread, sizeof(spread), "spread %.0f %% of the median; ",
                       stats->spread * 100);
    if (stats->outliers > 0)
        (void)snprintf(outside, sizeof(outside), "%u of %u runs outside the others, not removed; ",
                       stats->outliers, stats->n);
    (void)snprintf(out, out_bytes, "%s%s%s%s", stats->n == 0 ? "" : few, spread, outside, left);
    len = strlen(out);
    if (len >= 2)
        out[len - 2] = '\0';
}

/* What a workload is about. */
static const char *first_metric_of(const Ls__Result *result, const char *workload)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        if (strcmp(result->trials[i]->workload, workload) == 0 &&
            strcmp(result->trials[i]->protocol, "process") == 0)
            return "wall_median_ns";
    }
    return "throughput_per_s";
}

static enum ls_err add_row(Ls__Result *result, const char *workload, const char *target,
                           const struct coord_metric *metric, double *values)
{
    struct coord_stats stats = { 0 };
    uint32_t left_out;
    size_t n = coord_summary_values(result, workload, target, metric, values, &left_out);
    char note[192];
    Ls__Summary *row;
    enum ls_err rc;

    /* A target of which nothing counts is still named, once. */
    if (n == 0 && strcmp(metric->name, first_metric_of(result, workload)) != 0)
        return LS_OK;
    if (n > 0) {
        rc = coord_stats_compute(values, n, result->seed,
                                 coord_stats_stream(workload, target, metric->name), &stats);
        if (rc != LS_OK)
            return rc;
    }
    row = coord_message_append(&result->n_summary, &result->summary, &ls__summary__descriptor);
    note_on(&stats, left_out, note, sizeof(note));
    if (row == NULL || !coord_message_string(&row->target, target) ||
        !coord_message_string(&row->workload, workload) ||
        !coord_message_string(&row->metric, metric->name) ||
        !coord_message_string(&row->note, note))
        return LS_ENOMEM;
    row->n = stats.n;
    row->min = stats.min;
    row->median = stats.median;
    row->mean = stats.mean;
    row->stdev = stats.stdev;
    row->max = stats.max;
    row->ci95_low = stats.ci_low;
    row->ci95_high = stats.ci_high;
    row->noisy = stats.noisy;
    row->best = metric->higher_is_better ? stats.max : stats.min;
    row->outliers = stats.outliers;
    row->left_out = left_out;
    return LS_OK;
}

/* Those of the first trial that has any: scripts print the same ones each time. */
static enum ls_err add_scripts(Ls__Result *result, const char *workload, const char *target,
                               double *values)
{
    const Ls__ProcessResult *process = NULL;
    char name[80];
    enum ls_err rc = LS_OK;

    for (size_t i = 0; i < result->n_trials && process == NULL; i++) {
        if (belongs(result->trials[i], workload, target) && coord_trial_counts(result->trials[i]))
            process = result->trials[i]->process;
    }
    for (size_t i = 0; process != NULL && i < process->n_metrics && rc == LS_OK; i++) {
        struct coord_metric metric;

        (void)snprintf(name, sizeof(name), COORD_SCRIPT_PREFIX "%.64s", process->metrics[i]->name);
        if (coord_metric_of_script(result, name, &metric))
            rc = add_row(result, workload, target, &metric, values);
    }
    return rc;
}

static bool has_trial(const Ls__Result *result, const char *workload, const char *target)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        if (belongs(result->trials[i], workload, target))
            return true;
    }
    return false;
}

static bool is_open(const Ls__Result *result, const char *workload)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        if (strcmp(result->trials[i]->workload, workload) == 0 &&
            coord_trial_is_open(result->trials[i]))
            return true;
    }
    return false;
}

/* Its trials end at a rate of their own each: their response times are not of one load. */
static bool is_search(const Ls__Result *result, const char *workload)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        if (strcmp(result->trials[i]->workload, workload) == 0 &&
            result->trials[i]->capacity != NULL)
            return true;
    }
    return false;
}

const Ls__Summary *coord_summary_find(const Ls__Result *result, const char *workload,
                                      const char *target, const char *metric)
{
    for (size_t i = 0; i < result->n_summary; i++) {
        const Ls__Summary *row = result->summary[i];

        if (strcmp(row->metric, metric) == 0 && strcmp(row->workload, workload) == 0 &&
            strcmp(row->target, target) == 0)
            return row;
    }
    return NULL;
}

enum ls_err coord_summary_ratio(const Ls__Result *result, const char *workload, const char *a,
                                const char *b, const struct coord_metric *metric,
                                struct coord_ratio *out)
{
    double *values = calloc(2 * result->n_trials + 1, sizeof(*values));
    size_t na, nb;
    enum ls_err rc;

    if (values == NULL)
        return LS_ENOMEM;
    na = coord_summary_values(result, workload, a, metric, values, NULL);
    nb = coord_summary_values(result, workload, b, metric, values + na, NULL);
    rc = coord_stats_ratio(
        values, na, values + na, nb, result->seed,
        coord_stats_stream(workload, a, b) ^ coord_stats_stream(metric->name, NULL, NULL), out);
    free(values);
    return rc;
}

const char *coord_ratio_describe(const struct coord_ratio *ratio, const struct coord_metric *metric,
                                 const char *a, const char *b, char *out, size_t out_bytes)
{
    bool apart = ratio->low > 1 || ratio->high < 1;

    if (ratio->is_range)
        (void)snprintf(out, out_bytes,
                       "%.64s and %.64s: too few runs to tell by %s (%.2fx, from %zu and %zu)", a,
                       b, metric->noun, ratio->ratio, ratio->na, ratio->nb);
    else if (!ratio->differs)
        (void)snprintf(
            out, out_bytes, "%.64s and %.64s: no difference shown in %s (%.2fx, %.2f to %.2f%s)", a,
            b, metric->noun, ratio->ratio, ratio->low, ratio->high,
            apart && !ratio->enough ? "; so few runs cannot show one of 10 % or less" : "");
    else
        (void)snprintf(out, out_bytes, "%.64s: %.2fx (%.2f to %.2f) %s than %.64s", a, ratio->ratio,
                       ratio->low, ratio->high, metric->more, b);
    return out;
}

/* ---- standings */

void coord_places(const double *values, unsigned n, bool higher_is_better, unsigned *out_places)
{
    bool all_equal = true;

    for (unsigned i = 0; i < n; i++) {
        out_places[i] = 1;
        for (unsigned k = 0; k < n; k++) {
            bool better = higher_is_better ? values[k] > values[i] : values[k] < values[i];

            out_places[i] += better ? 1 : 0;
            all_equal = all_equal && values[k] == values[i];
        }
    }
    for (unsigned i = 0; all_equal && i < n; i++)
        out_places[i] = 0;
}

/* A search that ended with "at least": what the target takes is more, nobody knows how much. */
static bool is_lower_bound(const Ls__Trial *trial)
{
    return trial->capacity != NULL && !trial->capacity->settled &&
           trial->capacity->high_per_s <= 0 && !coord_trial_is_discarded(trial);
}

bool coord_target_is_ranked(const Ls__Result *result, const char *workload, const char *target)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (belongs(trial, workload, target) &&
            (strcmp(trial->outcome, "version_differs") == 0 || is_lower_bound(trial)))
            return false;
    }
    return true;
}

bool coord_figure_is_bound(const Ls__Result *result, const char *workload, const char *target,
                           const char *metric)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        if (belongs(result->trials[i], workload, target) && coord_trial_counts(result->trials[i]) &&
            is_lower_bound(result->trials[i]))
            return coord_metric_find(metric) != NULL &&
                   coord_metric_find(metric)->get == get_capacity;
    }
    return false;
}

/* NULL: the target has nothing to be ranked by. */
static const Ls__Summary *ranked_row(const Ls__Result *result, const char *workload,
                                     const char *target, const struct coord_metric *metric)
{
    const Ls__Summary *row = coord_summary_find(result, workload, target, metric->name);

    return row != NULL && row->n > 0 && coord_target_is_ranked(result, workload, target) ? row
                                                                                         : NULL;
}

static void count_places(const Ls__Result *result, const char *workload,
                         const struct coord_metric *metric, double *values, unsigned *places)
{
    unsigned n = 0;

    for (size_t i = 0; i < result->n_standings; i++) {
        const Ls__Summary *row = ranked_row(result, workload, result->standings[i]->target, metric);

        if (row != NULL)
            values[n++] = row->median;
    }
    if (n < 2)
        return; /* nobody to be better than */
    coord_places(values, n, metric->higher_is_better, places);
    n = 0;
    for (size_t i = 0; i < result->n_standings; i++) {
        Ls__Standing *standing = result->standings[i];
        const Ls__Summary *row = ranked_row(result, workload, standing->target, metric);

        if (row == NULL)
            continue;
        standing->metrics += places[n] > 0;
        if (places[n] > 0)
            standing->places[places[n] - 1]++;
        standing->firsts += places[n] == 1;
        standing->seconds += places[n] == 2;
        standing->thirds += places[n] == 3;
        n++;
    }
}

/* Each metric of a script once, at the first row that has it. */
static void count_scripts(const Ls__Result *result, const char *workload, double *values,
                          unsigned *places)
{
    for (size_t i = 0; i < result->n_summary; i++) {
        const Ls__Summary *row = result->summary[i];
        struct coord_metric metric;
        bool seen = false;

        if (strcmp(row->workload, workload) != 0 ||
            !coord_metric_of_script(result, row->metric, &metric))
            continue;
        for (size_t k = 0; k < i && !seen; k++)
            seen = strcmp(result->summary[k]->workload, workload) == 0 &&
                   strcmp(result->summary[k]->metric, row->metric) == 0;
        if (!seen)
            count_places(result, workload, &metric, values, places);
    }
}

static int by_medals(const Ls__Standing *a, const Ls__Standing *b)
{
    if ((a->metrics > 0) != (b->metrics > 0))
        return a->metrics > 0 ? -1 : 1;
    for (size_t i = 0; i < a->n_places; i++) {
        if (a->places[i] != b->places[i])
            return a->places[i] > b->places[i] ? -1 : 1;
    }
    return 0;
}

/* Insertion sort: stable, so that equals stay in the plan's order. */
static void sort_standings(Ls__Result *result)
{
    for (size_t i = 1; i < result->n_standings; i++) {
        Ls__Standing *moved = result->standings[i];
        size_t k = i;

        for (; k > 0 && by_medals(result->standings[k - 1], moved) > 0; k--)
            result->standings[k] = result->standings[k - 1];
        result->standings[k] = moved;
    }
}

static enum ls_err build_standings(Ls__Result *result, const char **workloads, size_t n_workloads,
                                   const char **targets, size_t n_targets)
{
    double *values = calloc(n_targets + 1, sizeof(*values));
    unsigned *places = calloc(n_targets + 1, sizeof(*places));
    enum ls_err rc = LS_ENOMEM;

    if (values == NULL || places == NULL)
        goto out;
    for (size_t t = 0; t < n_targets; t++) {
        Ls__Standing *standing = coord_message_append(&result->n_standings, &result->standings,
                                                      &ls__standing__descriptor);

        if (standing == NULL || !coord_message_string(&standing->target, targets[t]))
            goto out;
        standing->places = calloc(n_targets, sizeof(*standing->places));
        if (standing->places == NULL)
            goto out;
        standing->n_places = n_targets;
    }
    for (size_t w = 0; w < n_workloads; w++) {
        bool open = is_open(result, workloads[w]), search = is_search(result, workloads[w]);

        for (size_t m = 0; m < LS_ARRAY_LEN(metrics); m++) {
            if ((open ? metrics[m].ranked_open : metrics[m].ranked_closed) &&
                (!search || metrics[m].series != RESPONSE))
                count_places(result, workloads[w], &metrics[m], values, places);
        }
        count_scripts(result, workloads[w], values, places);
    }
    sort_standings(result);
    if (result->standings[0]->metrics == 0)
        coord_message_clear(&result->n_standings, &result->standings); /* nothing to compare */
    rc = LS_OK;
out:
    free(places);
    free(values);
    return rc;
}

enum ls_err coord_summary_build(Ls__Result *result)
{
    const char **workloads = NULL, **targets = NULL;
    size_t n_workloads = coord_result_workloads(result, &workloads);
    size_t n_targets = coord_result_targets(result, &targets);
    double *values = calloc(result->n_trials + 1, sizeof(*values));
    enum ls_err rc = LS_OK;

    coord_message_clear(&result->n_summary, &result->summary);
    coord_message_clear(&result->n_standings, &result->standings);
    if (workloads == NULL || targets == NULL || values == NULL)
        rc = LS_ENOMEM;
    for (size_t w = 0; rc == LS_OK && w < n_workloads; w++) {
        for (size_t t = 0; rc == LS_OK && t < n_targets; t++) {
            if (!has_trial(result, workloads[w], targets[t]))
                continue;
            for (size_t m = 0; rc == LS_OK && m < LS_ARRAY_LEN(metrics); m++)
                rc = add_row(result, workloads[w], targets[t], &metrics[m], values);
            if (rc == LS_OK)
                rc = add_scripts(result, workloads[w], targets[t], values);
        }
    }
    if (rc == LS_OK && n_targets > 1)
        rc = build_standings(result, workloads, n_workloads, targets, n_targets);
    if (rc != LS_OK) {
        coord_message_clear(&result->n_summary, &result->summary);
        coord_message_clear(&result->n_standings, &result->standings);
    }
    free(values);
    free(targets);
    free(workloads);
    return rc;
}
