#include "coordinator/result/html_figures.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/result/html_series.h"
#include "coordinator/result/summary.h"

/* ---- names */

bool coord_html_names_init(struct coord_html_names *names, const Ls__Result *result)
{
    names->target_count = coord_result_targets(result, &names->targets);
    names->workload_count = coord_result_workloads(result, &names->workloads);
    return (names->targets != NULL && names->workloads != NULL) || result->n_trials == 0;
}

void coord_html_names_fini(struct coord_html_names *names)
{
    free(names->targets);
    free(names->workloads);
}

size_t coord_html_place(const char **names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return 0;
}

void coord_html_targets(struct coord_html *html, const struct coord_html_names *names)
{
    coord_html_begin(html, "targets");
    for (size_t i = 0; i < names->target_count; i++) {
        coord_html_next(html);
        coord_html_text(html, names->targets[i]);
    }
    ls_buf_adds(html->out, "],");
}

static const char *unit_name(enum coord_unit unit)
{
    static const char *const names[] = { "count", "per_s", "ns", "bytes", "share", "cores" };

    return names[unit];
}

/* ---- bars */

/* [target, n, median, low, high, min, max, median as text] */
static void bar(struct coord_html *html, const struct coord_html_names *names,
                const Ls__Summary *row, const struct coord_metric *metric)
{
    const double values[] = {
        row->n, row->median, row->ci95_low, row->ci95_high, row->min, row->max
    };
    char human[48];

    coord_html_next(html);
    ls_buf_addf(html->out, "[%zu",
                coord_html_place(names->targets, names->target_count, row->target));
    for (size_t i = 0; i < LS_ARRAY_LEN(values); i++) {
        ls_buf_adds(html->out, ",");
        ls_buf_adds(html->out, coord_unit_exact(values[i], human, sizeof(human)));
    }
    ls_buf_addf(html->out, ",\"%s\"]",
                coord_unit_human(row->median, metric->unit, human, sizeof(human)));
}

/* Those that pages compare targets by at a glance; tables have all. */
static bool has_bars(const char *metric)
{
    static const char *const shown[] = { "throughput_per_s",        "capacity_per_s",
                                         "response_time_p99_ns",    "service_time_p99_ns",
                                         "cpu_ns_per_request",      "rss_peak_bytes",
                                         "messages_received_per_s", "wall_median_ns",
                                         "process_peak_bytes" };

    for (size_t i = 0; i < LS_ARRAY_LEN(shown); i++) {
        if (strcmp(shown[i], metric) == 0)
            return true;
    }
    return false;
}

static bool has_rows(struct coord_html *html, const struct coord_html_names *names,
                     const char *workload, const char *metric)
{
    for (size_t i = 0; i < names->target_count; i++) {
        const Ls__Summary *row =
            coord_summary_find(html->result, workload, names->targets[i], metric);

        if (row != NULL && row->n > 0 && row->max > 0)
            return true;
    }
    return false;
}

void coord_html_bars(struct coord_html *html, const struct coord_html_names *names,
                     const char *workload)
{
    bool more = false;

    ls_buf_adds(html->out, "\"bars\":[");
    for (unsigned m = 0; coord_metric_at(m) != NULL; m++) {
        const struct coord_metric *metric = coord_metric_at(m);

        if (!has_bars(metric->name) || !has_rows(html, names, workload, metric->name))
            continue;
        ls_buf_addf(html->out,
                    "%s{\"metric\":\"%s\",\"title\":\"%s\",\"unit\":\"%s\",\"higher\":%s,",
                    more ? "," : "", metric->name, metric->noun, unit_name(metric->unit),
                    metric->higher_is_better ? "true" : "false");
        more = true;
        coord_html_begin(html, "rows");
        for (size_t i = 0; i < names->target_count; i++) {
            const Ls__Summary *row =
                coord_summary_find(html->result, workload, names->targets[i], metric->name);

            if (row != NULL && row->n > 0)
                bar(html, names, row, metric);
        }
        ls_buf_adds(html->out, "]}");
    }
    ls_buf_adds(html->out, "],");
}

/* ---- dots */

/* Figures for the dots, in the order in which the trials ran; null: not measured. */
void coord_html_dots(struct coord_html *html, const struct coord_html_names *names)
{
    static const char *const metrics[] = { "throughput_per_s",     "response_time_p50_ns",
                                           "response_time_p99_ns", "service_time_p50_ns",
                                           "service_time_p99_ns",  "cpu_ns_per_request",
                                           "rss_peak_bytes" };

    ls_buf_adds(html->out, "\"dots\":{\"metrics\":[");
    for (size_t m = 0; m < LS_ARRAY_LEN(metrics); m++) {
        const struct coord_metric *metric = coord_metric_find(metrics[m]);

        ls_buf_addf(html->out, "%s[\"%s\",\"%s\"]", m > 0 ? "," : "", metric->noun,
                    unit_name(metric->unit));
    }
    ls_buf_adds(html->out, "],");
    coord_html_begin(html, "trials");
    for (size_t i = 0; i < html->result->n_trials; i++) {
        const Ls__Trial *trial = html->result->trials[i];

        coord_html_next(html);
        ls_buf_addf(html->out, "[%u,%zu,%zu,%u,%d", trial->index,
                    coord_html_place(names->targets, names->target_count, trial->target),
                    coord_html_place(names->workloads, names->workload_count, trial->workload),
                    trial->repetition, coord_trial_counts(trial));
        for (size_t m = 0; m < LS_ARRAY_LEN(metrics); m++) {
            double value;

            if (coord_metric_get(coord_metric_find(metrics[m]), trial, &value)) {
                ls_buf_adds(html->out, ",");
                coord_html_number(html->out, value);
            } else {
                ls_buf_adds(html->out, ",null");
            }
        }
        ls_buf_adds(html->out, "]");
    }
    ls_buf_adds(html->out, "]},");
}
