#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/result/report_parts.h"
#include "coordinator/result/requests.h"
#include "coordinator/result/summary.h"
#include "coordinator/run/verdict.h"

static enum coord_style style_of(Ls__Verdict verdict)
{
    return verdict == LS__VERDICT__VERDICT_VALID     ? COORD_STYLE_GOOD
           : verdict == LS__VERDICT__VERDICT_SUSPECT ? COORD_STYLE_WARN
           : verdict == LS__VERDICT__VERDICT_NONE    ? COORD_STYLE_NONE
                                                     : COORD_STYLE_BAD;
}

static bool belongs(const Ls__Trial *trial, const char *workload, const char *target)
{
    return strcmp(trial->workload, workload) == 0 && strcmp(trial->target, target) == 0;
}

/* ---- summary */

static const struct coord_column summary_columns[] = {
    { "target", "target", true },
    { "verdicts", "trials", true },
    { "throughput_per_s", "requests/s", false },
    { "spread", "spread", false },
    { "p50_ns", "p50", false },
    { "p99_ns", "p99", false },
    { "max_ns", "max", false },
    { "errors", "errors", false },
    { "cpu_ns_per_request", "CPU/request", false },
    { "rss_peak_bytes", "memory", false },
    { "date", "date", true },
};

static void date_cell(const Ls__Result *result, const char *workload, const char *target,
                      struct coord_table *out)
{
    char date[16] = "";

    for (size_t i = 0; i < result->n_trials; i++) {
        if (belongs(result->trials[i], workload, target))
            (void)snprintf(date, sizeof(date), "%.10s", result->trials[i]->started_at);
    }
    coord_table_text(out, date, COORD_STYLE_NONE);
}

static void median_cell(const Ls__Result *result, const char *workload, const char *target,
                        const char *metric, struct coord_table *out)
{
    const Ls__Summary *row = coord_summary_find(result, workload, target, metric);
    const struct coord_metric *known = coord_metric_find(metric);

    if (row == NULL || row->n == 0 || known == NULL)
        coord_table_none(out);
    else
        coord_table_number(out, row->median, known->unit);
    if (row != NULL && row->noisy)
        coord_table_noisy(out);
}

static void latency_cells(const Ls__Result *result, const char *workload, const char *target,
                          struct coord_table *out)
{
    bool open = coord_summary_find(result, workload, target, "response_time_p50_ns") != NULL;
    const char *const metrics[2][3] = {
        { "service_time_p50_ns", "service_time_p99_ns", "service_time_max_ns" },
        { "response_time_p50_ns", "response_time_p99_ns", "response_time_max_ns" },
    };
    const Ls__Summary *max = coord_summary_find(result, workload, target, metrics[open][2]);

    median_cell(result, workload, target, metrics[open][0], out);
    median_cell(result, workload, target, metrics[open][1], out);
    /* The longest of all repetitions: a median of maxima would hide it. */
    coord_table_maybe(out, max != NULL && max->n > 0, max != NULL ? max->max : 0, COORD_UNIT_NS);
}

/* Of all trials, whatever their verdict: errors are often why. */
static void errors_cell(const Ls__Result *result, const char *workload, const char *target,
                        struct coord_table *out)
{
    uint64_t errors = 0;

    for (size_t i = 0; i < result->n_trials; i++) {
        if (belongs(result->trials[i], workload, target))
            errors += coord_requests_errors(result->trials[i]->requests);
    }
    coord_table_number(out, (double)errors, COORD_UNIT_COUNT);
}

static size_t count_label(const Ls__Result *result, const char *workload, const char *target,
                          const char *label)
{
    size_t n = 0;

    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        n += belongs(trial, workload, target) && !coord_trial_is_discarded(trial) &&
             strcmp(coord_trial_label(trial), label) == 0;
    }
    return n;
}

void coord_part_verdicts_cell(const Ls__Result *result, const char *workload, const char *target,
                              struct coord_table *out)
{
    static const struct {
        const char *label;
        enum coord_style style;
    } labels[] = {
        { "valid", COORD_STYLE_GOOD },   { "suspect", COORD_STYLE_WARN },
        { "invalid", COORD_STYLE_BAD },  { "other version", COORD_STYLE_WARN },
        { "skipped", COORD_STYLE_NONE }, { "n/a", COORD_STYLE_NONE },
    };
    enum coord_style worst = COORD_STYLE_NONE;
    struct ls_buf text;

    ls_buf_init(&text, 256);
    for (size_t i = 0; i < LS_ARRAY_LEN(labels); i++) {
        size_t n = count_label(result, workload, target, labels[i].label);

        if (n > 0)
            ls_buf_addf(&text, "%s%zu %s", text.len > 0 ? ", " : "", n, labels[i].label);
        if (n > 0 && labels[i].style > worst)
            worst = labels[i].style;
    }
    out->ok = out->ok && text.ok;
    coord_table_text(out, text.data != NULL ? (const char *)text.data : "", worst);
    ls_buf_fini(&text);
}

void coord_part_summary(const Ls__Result *result, const char *workload, struct coord_table *out)
{
    const char **targets = NULL;
    size_t n;

    if (coord_report_is_process(result, workload)) {
        coord_part_process(result, workload, out);
        return;
    }
    n = coord_result_targets(result, &targets);
    /* The last is the date, where rows are not of one run. */
    coord_table_init(out, summary_columns, LS_ARRAY_LEN(summary_columns) - (result->n_merged == 0));
    out->ok = out->ok && targets != NULL;
    for (size_t t = 0; t < n; t++) {
        const Ls__Summary *row =
            coord_summary_find(result, workload, targets[t], "throughput_per_s");

        if (row == NULL)
            continue;
        coord_table_text(out, targets[t], COORD_STYLE_NONE);
        coord_part_verdicts_cell(result, workload, targets[t], out);
        median_cell(result, workload, targets[t], "throughput_per_s", out);
        coord_table_maybe(out, row->n > 1 && row->median > 0,
                          row->median > 0 ? (row->max - row->min) / row->median : 0,
                          COORD_UNIT_SHARE);
        latency_cells(result, workload, targets[t], out);
        errors_cell(result, workload, targets[t], out);
        median_cell(result, workload, targets[t], "cpu_ns_per_request", out);
        median_cell(result, workload, targets[t], "rss_peak_bytes", out);
        if (result->n_merged > 0)
            date_cell(result, workload, targets[t], out);
    }
    free(targets);
}

/* ---- trials */

/* One figure of a trial; some stand on the page as well, the others in csv only. */
struct figure {
    struct coord_column column;
    /* Those of MANY where workloads differ, of FLEET where there are several clients, of LOAD and
     * of RUNS where there are requests or process workloads. */
    enum {
        IN_CSV,
        ON_PAGE,
        ON_PAGE_OF_MANY,
        ON_PAGE_OF_FLEET,
        ON_PAGE_OF_LOAD,
        ON_PAGE_OF_RUNS
    } where;
    void (*cell)(const Ls__Trial *trial, struct coord_table *out);
};

static void latency_cell(const Ls__Latency *latency, int64_t value, struct coord_table *out)
{
    coord_table_maybe(out, latency != NULL && latency->count > 0, (double)value, COORD_UNIT_NS);
}

static void cell_index(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_number(out, trial->index, COORD_UNIT_COUNT);
}

static void cell_target(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_text(out, trial->target, COORD_STYLE_NONE);
}

static void cell_workload(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_text(out, trial->workload, COORD_STYLE_NONE);
}

static void cell_repetition(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_maybe(out, !coord_trial_is_discarded(trial), trial->repetition, COORD_UNIT_COUNT);
}

static void cell_status(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_text(out, trial->status, COORD_STYLE_NONE);
}

static void cell_load(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_text(out, trial->load, COORD_STYLE_NONE);
}

static void cell_throughput(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_maybe(out, trial->requests != NULL, trial->throughput_per_s, COORD_UNIT_PER_S);
}

static void cell_offered(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_maybe(out, coord_trial_is_open(trial), trial->offered_per_s, COORD_UNIT_PER_S);
}

static void cell_kind(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_text(out, coord_trial_is_open(trial) ? "response_time" : "service_time",
                     COORD_STYLE_NONE);
}

static void cell_p50(const Ls__Trial *trial, struct coord_table *out)
{
    const Ls__Latency *latency = coord_trial_latency(trial);

    latency_cell(latency, latency != NULL ? latency->p50_ns : 0, out);
}

static void cell_p90(const Ls__Trial *trial, struct coord_table *out)
{
    const Ls__Latency *latency = coord_trial_latency(trial);

    latency_cell(latency, latency != NULL ? latency->p90_ns : 0, out);
}

static void cell_p99(const Ls__Trial *trial, struct coord_table *out)
{
    const Ls__Latency *latency = coord_trial_latency(trial);

    latency_cell(latency, latency != NULL ? latency->p99_ns : 0, out);
}

static void cell_p999(const Ls__Trial *trial, struct coord_table *out)
{
    const Ls__Latency *latency = coord_trial_latency(trial);

    latency_cell(latency, latency != NULL ? latency->p999_ns : 0, out);
}

static void cell_max(const Ls__Trial *trial, struct coord_table *out)
{
    const Ls__Latency *latency = coord_trial_latency(trial);

    latency_cell(latency, latency != NULL ? latency->max_ns : 0, out);
}

static void cell_first_byte(const Ls__Trial *trial, struct coord_table *out)
{
    latency_cell(trial->first_byte, trial->first_byte != NULL ? trial->first_byte->p50_ns : 0, out);
}

static void cell_first_byte_p99(const Ls__Trial *trial, struct coord_table *out)
{
    latency_cell(trial->first_byte, trial->first_byte != NULL ? trial->first_byte->p99_ns : 0, out);
}

static void cell_connect(const Ls__Trial *trial, struct coord_table *out)
{
    latency_cell(trial->connect_time, trial->connect_time != NULL ? trial->connect_time->p50_ns : 0,
                 out);
}

static void cell_connect_p99(const Ls__Trial *trial, struct coord_table *out)
{
    latency_cell(trial->connect_time, trial->connect_time != NULL ? trial->connect_time->p99_ns : 0,
                 out);
}

static void cell_mean(const Ls__Trial *trial, struct coord_table *out)
{
    const Ls__Latency *latency = coord_trial_latency(trial);

    coord_table_maybe(out, latency != NULL && latency->count > 0,
                      latency != NULL ? latency->mean_ns : 0, COORD_UNIT_NS);
}

static void cell_sent(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_maybe(out, trial->requests != NULL,
                      trial->requests != NULL ? (double)trial->requests->sent : 0,
                      COORD_UNIT_COUNT);
}

static void cell_ok(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_maybe(out, trial->requests != NULL,
                      trial->requests != NULL ? (double)trial->requests->ok : 0, COORD_UNIT_COUNT);
}

static void cell_errors(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_maybe(out, trial->requests != NULL, (double)coord_requests_errors(trial->requests),
                      COORD_UNIT_COUNT);
}

static void cell_cpu(const Ls__Trial *trial, struct coord_table *out)
{
    const Ls__Server *server = trial->server;

    coord_table_maybe(out, server != NULL && server->cpu_ns_per_request > 0,
                      server != NULL ? server->cpu_ns_per_request : 0, COORD_UNIT_NS);
}

static void cell_cores(const Ls__Trial *trial, struct coord_table *out)
{
    const Ls__Server *server = trial->server;

    coord_table_maybe(out, server != NULL && server->cpu_ns > 0,
                      server != NULL ? server->cpu_cores_used : 0, COORD_UNIT_CORES);
}

static void cell_memory(const Ls__Trial *trial, struct coord_table *out)
{
    const Ls__Server *server = trial->server;

    coord_table_maybe(out, server != NULL && server->rss_peak_bytes > 0,
                      server != NULL ? (double)server->rss_peak_bytes : 0, COORD_UNIT_BYTES);
}

static void cell_skew(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_maybe(out, trial->window != NULL,
                      trial->window != NULL ? (double)trial->window->start_skew_ns : 0,
                      COORD_UNIT_NS);
}

static void cell_skew_error(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_maybe(out, trial->window != NULL,
                      trial->window != NULL ? (double)trial->window->start_skew_error_ns : 0,
                      COORD_UNIT_NS);
}

static void cell_in_flight(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_maybe(out, trial->requests != NULL, trial->in_flight_mean, COORD_UNIT_CORES);
}

static void cell_verdict(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_text(out, coord_trial_label(trial), style_of(trial->verdict));
}

static void cell_reasons(const Ls__Trial *trial, struct coord_table *out)
{
    struct ls_buf codes;

    ls_buf_init(&codes, 1 << 20);
    for (size_t i = 0; i < trial->n_reasons; i++)
        ls_buf_addf(&codes, "%s%s", i > 0 ? " " : "", trial->reasons[i]->code);
    out->ok = out->ok && codes.ok;
    coord_table_text(out, codes.data != NULL ? (const char *)codes.data : "", COORD_STYLE_NONE);
    ls_buf_fini(&codes);
}

static void cell_outcome(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_text(out, trial->outcome, COORD_STYLE_NONE);
}

static void metric_cell(const Ls__Trial *trial, const char *name, struct coord_table *out)
{
    const struct coord_metric *metric = coord_metric_find(name);
    double value = 0;
    bool there = metric != NULL && coord_metric_get(metric, trial, &value);

    coord_table_maybe(out, there, value, metric != NULL ? metric->unit : COORD_UNIT_COUNT);
}

static void cell_wall_median(const Ls__Trial *trial, struct coord_table *out)
{
    metric_cell(trial, "wall_median_ns", out);
}

static void cell_wall_min(const Ls__Trial *trial, struct coord_table *out)
{
    metric_cell(trial, "wall_min_ns", out);
}

static void cell_wall_mean(const Ls__Trial *trial, struct coord_table *out)
{
    metric_cell(trial, "wall_mean_ns", out);
}

static void cell_user(const Ls__Trial *trial, struct coord_table *out)
{
    metric_cell(trial, "user_mean_ns", out);
}

static void cell_system(const Ls__Trial *trial, struct coord_table *out)
{
    metric_cell(trial, "system_mean_ns", out);
}

static void cell_peak(const Ls__Trial *trial, struct coord_table *out)
{
    metric_cell(trial, "process_peak_bytes", out);
}

static void cell_marker(const Ls__Trial *trial, struct coord_table *out)
{
    metric_cell(trial, "marker_rss_bytes", out);
}

static const struct figure figures[] = {
    { { "trial", "trial", false }, ON_PAGE, cell_index },
    { { "target", "target", true }, ON_PAGE, cell_target },
    { { "workload", "workload", true }, ON_PAGE_OF_MANY, cell_workload },
    { { "repetition", "rep", false }, ON_PAGE, cell_repetition },
    { { "status", "status", true }, IN_CSV, cell_status },
    { { "verdict", "verdict", true }, ON_PAGE, cell_verdict },
    { { "load", "load", true }, IN_CSV, cell_load },
    { { "offered_per_s", "offered/s", false }, IN_CSV, cell_offered },
    { { "throughput_per_s", "requests/s", false }, ON_PAGE_OF_LOAD, cell_throughput },
    { { "latency_kind", "latency", true }, IN_CSV, cell_kind },
    { { "mean_ns", "mean", false }, IN_CSV, cell_mean },
    { { "p50_ns", "p50", false }, ON_PAGE_OF_LOAD, cell_p50 },
    { { "p90_ns", "p90", false }, IN_CSV, cell_p90 },
    { { "p99_ns", "p99", false }, ON_PAGE_OF_LOAD, cell_p99 },
    { { "p999_ns", "p99.9", false }, IN_CSV, cell_p999 },
    { { "max_ns", "max", false }, ON_PAGE_OF_LOAD, cell_max },
    { { "first_byte_p50_ns", "first byte p50", false }, IN_CSV, cell_first_byte },
    { { "first_byte_p99_ns", "first byte p99", false }, IN_CSV, cell_first_byte_p99 },
    { { "connect_time_p50_ns", "connect p50", false }, IN_CSV, cell_connect },
    { { "connect_time_p99_ns", "connect p99", false }, IN_CSV, cell_connect_p99 },
    { { "sent", "sent", false }, IN_CSV, cell_sent },
    { { "ok", "ok", false }, IN_CSV, cell_ok },
    { { "errors", "errors", false }, ON_PAGE_OF_LOAD, cell_errors },
    { { "in_flight_mean", "in flight", false }, IN_CSV, cell_in_flight },
    { { "cpu_ns_per_request", "CPU/request", false }, ON_PAGE_OF_LOAD, cell_cpu },
    { { "cpu_cores_used", "cores", false }, IN_CSV, cell_cores },
    { { "rss_peak_bytes", "memory", false }, ON_PAGE_OF_LOAD, cell_memory },
    { { "start_skew_ns", "start skew", false }, ON_PAGE_OF_FLEET, cell_skew },
    { { "start_skew_error_ns", "+-", false }, ON_PAGE_OF_FLEET, cell_skew_error },
    { { "reasons", "reasons", true }, IN_CSV, cell_reasons },
    { { "outcome", "outcome", true }, IN_CSV, cell_outcome },
    { { "wall_median_ns", "wall", false }, ON_PAGE_OF_RUNS, cell_wall_median },
    { { "wall_min_ns", "shortest", false }, ON_PAGE_OF_RUNS, cell_wall_min },
    { { "wall_mean_ns", "mean", false }, ON_PAGE_OF_RUNS, cell_wall_mean },
    { { "user_mean_ns", "user", false }, IN_CSV, cell_user },
    { { "system_mean_ns", "system", false }, IN_CSV, cell_system },
    { { "process_peak_bytes", "peak memory", false }, ON_PAGE_OF_RUNS, cell_peak },
    { { "marker_rss_bytes", "at the marker", false }, IN_CSV, cell_marker },
};

static bool workloads_differ(const Ls__Result *result)
{
    for (size_t i = 1; i < result->n_trials; i++) {
        if (strcmp(result->trials[i]->workload, result->trials[0]->workload) != 0)
            return true;
    }
    return false;
}

/* With one client there is nobody to be apart from. */
static bool has_fleet(const Ls__Result *result)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        if (result->trials[i]->n_clients > 1)
            return true;
    }
    return false;
}

static bool has_kind(const Ls__Result *result, bool process)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        if ((strcmp(result->trials[i]->protocol, "process") == 0) == process)
            return true;
    }
    return false;
}

/* What a result's trials have to show. */
static bool is_shown(const Ls__Result *result, const struct figure *figure)
{
    switch (figure->where) {
    case ON_PAGE_OF_MANY:
        return workloads_differ(result);
    case ON_PAGE_OF_FLEET:
        return has_fleet(result);
    case ON_PAGE_OF_LOAD:
        return has_kind(result, false);
    case ON_PAGE_OF_RUNS:
        return has_kind(result, true);
    default:
        return figure->where == ON_PAGE;
    }
}

void coord_part_trials(const Ls__Result *result, bool all, struct coord_table *out)
{
    struct coord_column columns[LS_ARRAY_LEN(figures)];
    const struct figure *shown[LS_ARRAY_LEN(figures)];
    size_t count = 0;

    for (size_t i = 0; i < LS_ARRAY_LEN(figures); i++) {
        if (!all && !is_shown(result, &figures[i]))
            continue;
        shown[count] = &figures[i];
        columns[count++] = figures[i].column;
    }
    coord_table_init(out, columns, count);
    for (size_t t = 0; t < result->n_trials; t++) {
        for (size_t i = 0; i < count; i++)
            shown[i]->cell(result->trials[t], out);
    }
}

/* ---- latency, standings */

static const struct coord_column latency_columns[] = {
    { "latency", "latency", true },  { "p50_ns", "p50", false }, { "p75_ns", "p75", false },
    { "p90_ns", "p90", false },      { "p99_ns", "p99", false }, { "p999_ns", "p99.9", false },
    { "p9999_ns", "p99.99", false }, { "max_ns", "max", false }, { "mean_ns", "mean", false },
    { "stdev_ns", "stdev", false },
};

static void latency_row(const char *name, const Ls__Latency *latency, struct coord_table *out)
{
    if (latency == NULL || latency->count == 0)
        return;
    coord_table_text(out, name, COORD_STYLE_NONE);
    coord_table_number(out, (double)latency->p50_ns, COORD_UNIT_NS);
    coord_table_number(out, (double)latency->p75_ns, COORD_UNIT_NS);
    coord_table_number(out, (double)latency->p90_ns, COORD_UNIT_NS);
    coord_table_number(out, (double)latency->p99_ns, COORD_UNIT_NS);
    coord_table_number(out, (double)latency->p999_ns, COORD_UNIT_NS);
    coord_table_number(out, (double)latency->p9999_ns, COORD_UNIT_NS);
    coord_table_number(out, (double)latency->max_ns, COORD_UNIT_NS);
    coord_table_number(out, latency->mean_ns, COORD_UNIT_NS);
    coord_table_number(out, latency->stdev_ns, COORD_UNIT_NS);
}

void coord_part_latency(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_init(out, latency_columns, LS_ARRAY_LEN(latency_columns));
    if (coord_trial_is_open(trial))
        latency_row("response time", trial->response_time, out);
    latency_row("service time", trial->service_time, out);
    if (coord_trial_is_open(trial)) {
        latency_row("send lag", trial->send_lag, out);
        latency_row("loop lag", trial->loop_lag, out);
    }
    latency_row("delivery time", trial->delivery_time, out);
    latency_row("first byte", trial->first_byte, out);
    latency_row("connect time", trial->connect_time, out);
    latency_row("handshake time", trial->handshake_time, out);
    latency_row("read delay", trial->read_delay, out);
    latency_row("kernel time", trial->kernel_time, out);
}

static const struct coord_column standings_columns[] = {
    { "target", "target", true }, { "firsts", "first", false },   { "seconds", "second", false },
    { "thirds", "third", false }, { "fourths", "fourth", false }, { "fifths", "fifth", false },
    { "metrics", "of", false },
};

enum { PLACES_SHOWN = LS_ARRAY_LEN(standings_columns) - 2 };

/* As many places as there are targets to take them, up to the fifth. */
void coord_part_standings(const Ls__Result *result, struct coord_table *out)
{
    struct coord_column columns[LS_ARRAY_LEN(standings_columns)];
    size_t places = result->n_standings < PLACES_SHOWN ? result->n_standings : PLACES_SHOWN;

    (void)memcpy(columns, standings_columns, sizeof(columns));
    columns[places + 1] = standings_columns[PLACES_SHOWN + 1];
    coord_table_init(out, columns, places + 2);
    for (size_t i = 0; i < result->n_standings; i++) {
        const Ls__Standing *standing = result->standings[i];

        coord_table_text(out, standing->target, COORD_STYLE_NONE);
        for (size_t p = 0; p < places; p++)
            coord_table_maybe(out, p < standing->n_places,
                              p < standing->n_places ? standing->places[p] : 0, COORD_UNIT_COUNT);
        coord_table_number(out, standing->metrics, COORD_UNIT_COUNT);
    }
}

/* ---- a page's tables */

void coord_part_page(const Ls__Page *page, struct coord_table *out)
{
    static const char script[] = "script/"; /* goes without saying */
    struct coord_column *columns = calloc(page->n_columns + 1, sizeof(*columns));

    if (columns == NULL) {
        *out = (struct coord_table){ .ok = false };
        return;
    }
    columns[0] = (struct coord_column){ page->rows_are, page->rows_are, true };
    for (size_t i = 0; i < page->n_columns; i++)
        columns[i + 1] = (struct coord_column){ page->columns[i], page->columns[i], false };
    coord_table_init(out, columns, page->n_columns + 1);
    for (size_t r = 0; r < page->n_rows; r++) {
        const Ls__PageRow *row = page->rows[r];

        coord_table_text(out,
                         strncmp(row->name, script, strlen(script)) == 0
                             ? row->name + strlen(script)
                             : row->name,
                         COORD_STYLE_NONE);
        for (size_t i = 0; i < page->n_columns; i++)
            coord_table_text(out, i < row->n_cells ? row->cells[i]->text : "", COORD_STYLE_NONE);
    }
    free(columns);
}
