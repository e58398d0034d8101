/* Targets beside the best of them: medians with their intervals, ratios with theirs. */
#include <stdio.h>
#include <stdlib.h>

#include "coordinator/result/report_parts.h"
#include "coordinator/result/summary.h"

static const struct coord_column columns[] = {
    { "metric", "metric", true },
    { "median", "median", false },
    { "interval", "95 %", false },
    { "ratio", "ratio", false },
};

static bool has(const Ls__Summary *row)
{
    return row != NULL && row->n > 0;
}

const char *coord_report_best(const Ls__Result *result, const char *workload,
                              const char *const *targets, size_t n,
                              const struct coord_metric *metric)
{
    const char *best = NULL;
    double best_median = 0;

    for (size_t i = 0; i < n; i++) {
        const Ls__Summary *row = coord_summary_find(result, workload, targets[i], metric->name);

        if (has(row) && coord_target_is_ranked(result, workload, targets[i]) &&
            (best == NULL ||
             (metric->higher_is_better ? row->median > best_median : row->median < best_median))) {
            best = targets[i];
            best_median = row->median;
        }
    }
    return best;
}

/* "requests/s, nginx": in one, as a narrow page repeats the first column alone. */
static void name_cell(const struct coord_metric *metric, const char *target,
                      struct coord_table *out)
{
    struct ls_buf text;

    ls_buf_init(&text, 1u << 20);
    ls_buf_addf(&text, "%s, %s", metric->title, target);
    out->ok = out->ok && text.ok;
    coord_table_text(out, text.data != NULL ? (const char *)text.data : "", COORD_STYLE_NONE);
    ls_buf_fini(&text);
}

/* Of one or two runs there is no interval. */
static void interval(const Ls__Summary *row, const struct coord_metric *metric,
                     struct coord_table *out)
{
    char low[48], high[48], text[128];

    if (row->n < 3) {
        coord_table_none(out);
        return;
    }
    (void)snprintf(text, sizeof(text), "%s to %s",
                   coord_unit_human(row->ci95_low, metric->unit, low, sizeof(low)),
                   coord_unit_human(row->ci95_high, metric->unit, high, sizeof(high)));
    coord_table_text(out, text, COORD_STYLE_NONE);
}

/* "2.10x (1.89 to 2.23)" */
static void ratio_cell(const Ls__Result *result, const char *workload, const char *target,
                       const char *best, const struct coord_metric *metric, struct coord_table *out)
{
    struct coord_ratio ratio;
    enum ls_err rc = coord_summary_ratio(result, workload, target, best, metric, &ratio);
    char text[128];
    int len;

    out->ok = out->ok && rc != LS_ENOMEM;
    if (rc != LS_OK) {
        coord_table_none(out);
        return;
    }
    len = snprintf(text, sizeof(text), "%.2fx", ratio.ratio);
    if (target != best && !ratio.is_range)
        (void)snprintf(text + len, sizeof(text) - (size_t)len, " (%.2f to %.2f)", ratio.low,
                       ratio.high);
    coord_table_text(out, text, COORD_STYLE_NONE);
}

void coord_part_ratios(const Ls__Result *result, const char *workload, struct coord_table *out)
{
    const char *const *names = coord_report_compared(result, workload);
    const char **targets = NULL;
    size_t n = coord_result_targets(result, &targets);

    coord_table_init(out, columns, LS_ARRAY_LEN(columns));
    out->ok = out->ok && (targets != NULL || result->n_trials == 0);
    for (; targets != NULL && *names != NULL; names++) {
        const struct coord_metric *metric = coord_metric_find(*names);
        const char *best =
            metric != NULL ? coord_report_best(result, workload, targets, n, metric) : NULL;
        size_t rows = 0;

        for (size_t i = 0; best != NULL && i < n; i++)
            rows += has(coord_summary_find(result, workload, targets[i], metric->name));
        for (size_t i = 0; rows > 1 && i < n; i++) {
            const Ls__Summary *row = coord_summary_find(result, workload, targets[i], metric->name);

            if (!has(row))
                continue;
            name_cell(metric, targets[i], out);
            coord_table_number(out, row->median, metric->unit);
            interval(row, metric, out);
            if (coord_target_is_ranked(result, workload, targets[i]))
                ratio_cell(result, workload, targets[i], best, metric, out);
            else
                coord_table_none(out);
        }
    }
    free(targets);
}
