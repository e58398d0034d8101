#include "coordinator/history/history_render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_json.h"
#include "coordinator/result/escape.h"
#include "coordinator/result/report_parts.h"
#include "coordinator/result/summary.h"

enum { COLUMNS_DEFAULT = 80, LEVELS = 8 };

static enum coord_unit unit_of(const Ls__HistorySeries *series)
{
    const struct coord_metric *metric = coord_metric_find(series->metric);

    return metric != NULL ? metric->unit : COORD_UNIT_PLAIN; /* a script's */
}

static const char *noun_of(const Ls__HistorySeries *series)
{
    const struct coord_metric *metric = coord_metric_find(series->metric);

    return metric != NULL ? metric->noun : series->metric;
}

/* ---- list */

static const struct coord_column columns[] = {
    { "started_at", "started", true }, { "plan", "plan", true },     { "target", "target", true },
    { "workload", "workload", true },  { "metric", "metric", true }, { "median", "median", false },
    { "ci95_low", "from", false },     { "ci95_high", "to", false }, { "n", "n", false },
    { "commit", "commit", true },      { "hosts", "hosts", true },   { "folder", "folder", true },
};

static void fill_table(const Ls__History *history, bool all, struct coord_table *out)
{
    coord_table_init(out, columns, LS_ARRAY_LEN(columns) - (all ? 0 : 1));
    for (size_t s = 0; s < history->n_series; s++) {
        const Ls__HistorySeries *series = history->series[s];

        for (size_t i = 0; i < series->n_points; i++) {
            const Ls__HistoryPoint *point = series->points[i];
            char commit[16];

            (void)snprintf(commit, sizeof(commit), "%.12s", point->commit);
            coord_table_text(out, point->started_at, COORD_STYLE_NONE);
            coord_table_text(out, series->plan, COORD_STYLE_NONE);
            coord_table_text(out, series->target, COORD_STYLE_NONE);
            coord_table_text(out, series->workload, COORD_STYLE_NONE);
            coord_table_text(out, all ? series->metric : noun_of(series), COORD_STYLE_NONE);
            coord_table_number(out, point->median, unit_of(series));
            coord_table_number(out, point->ci95_low, unit_of(series));
            coord_table_number(out, point->ci95_high, unit_of(series));
            coord_table_number(out, point->n, COORD_UNIT_COUNT);
            coord_table_text(out, all ? point->commit : commit, COORD_STYLE_NONE);
            coord_table_text(out, series->hosts, COORD_STYLE_NONE);
            if (all)
                coord_table_text(out, point->folder, COORD_STYLE_NONE);
        }
    }
}

static void put_json(const Ls__History *history, struct ls_buf *out)
{
    char *text = ls_msg_to_json(&history->base, 2);

    ls_buf_adds(out, text != NULL ? text : "");
    out->ok = out->ok && text != NULL;
    free(text);
}

static enum ls_err finish(const struct ls_buf *out, struct ls_diag *diag)
{
    return out->ok ? LS_OK
                   : ls_fail(diag, LS_ENOMEM, "no memory for the history, or it is too large");
}

enum ls_err coord_history_list(const Ls__History *history, enum coord_report_format format,
                               const struct coord_report_options *options, struct ls_buf *out,
                               struct ls_diag *diag)
{
    struct coord_table table;

    if (format == COORD_REPORT_JSON) {
        put_json(history, out);
        return finish(out, diag);
    }
    fill_table(history, format == COORD_REPORT_CSV, &table);
    if (format == COORD_REPORT_CSV)
        coord_table_write_csv(&table, out);
    else if (format == COORD_REPORT_MARKDOWN)
        coord_table_write_markdown(&table, out);
    else
        coord_table_write_text(&table, options->columns == 0 ? COLUMNS_DEFAULT : options->columns,
                               options->colour, out);
    coord_table_fini(&table);
    return finish(out, diag);
}

/* ---- trend */

/* From the least to the most of them, as eight heights. */
static void put_blocks(const Ls__HistorySeries *series, struct ls_buf *out)
{
    static const char *const blocks[LEVELS] = { "\u2581", "\u2582", "\u2583", "\u2584",
                                                "\u2585", "\u2586", "\u2587", "\u2588" };
    double low = series->points[0]->median, high = low;

    for (size_t i = 0; i < series->n_points; i++) {
        low = series->points[i]->median < low ? series->points[i]->median : low;
        high = series->points[i]->median > high ? series->points[i]->median : high;
    }
    for (size_t i = 0; i < series->n_points; i++) {
        double share = high > low ? (series->points[i]->median - low) / (high - low) : 0.5;
        size_t level = (size_t)(share * LEVELS);

        ls_buf_adds(out, blocks[level < LEVELS ? level : LEVELS - 1]);
    }
}

/* "2026-11-30 (1a2b3c): 48.1 k to 45.0 k, -6.4 %, worse (p 0.002)" */
static void describe(const Ls__HistorySeries *series, const Ls__HistoryChange *change, char *out,
                     size_t out_bytes)
{
    char before[48], after[48], commit[80] = "";

    if (change->commit[0] != '\0')
        (void)snprintf(commit, sizeof(commit), " (commit %.40s)", change->commit);
    (void)snprintf(out, out_bytes, "%.40s%s: %s to %s, %+.1f %%, %s (p %.2g)", change->started_at,
                   commit,
                   coord_unit_human(change->before, unit_of(series), before, sizeof(before)),
                   coord_unit_human(change->after, unit_of(series), after, sizeof(after)),
                   coord_stats_change(change->before, change->after) * 100,
                   change->better ? "better" : "worse", change->p);
}

static void title_of(const Ls__HistorySeries *series, char *out, size_t out_bytes)
{
    (void)snprintf(out, out_bytes, "%.80s, %.80s, %.80s: %.64s on %.120s", series->plan,
                   series->workload, series->target, noun_of(series),
                   series->hosts[0] != '\0' ? series->hosts : "unknown hosts");
}

static void trend_text(const Ls__History *history, bool markdown, bool colour, struct ls_buf *out)
{
    void (*escape)(struct ls_buf *, const char *) =
        markdown ? coord_escape_markdown : coord_escape_text;
    char text[600], last[48];

    for (size_t s = 0; s < history->n_series; s++) {
        const Ls__HistorySeries *series = history->series[s];

        title_of(series, text, sizeof(text));
        ls_buf_adds(out, markdown ? "### " : s > 0 ? "\n" : "");
        escape(out, text);
        ls_buf_adds(out, markdown ? "\n\n" : "\n  ");
        put_blocks(series, out);
        ls_buf_addf(out, "  %zu runs, now %s%s\n", series->n_points,
                    coord_unit_human(series->points[series->n_points - 1]->median, unit_of(series),
                                     last, sizeof(last)),
                    series->left_out > 0 ? ", older ones left out" : "");
        if (series->n_changes == 0)
            ls_buf_adds(out, markdown ? "- no change shown\n" : "  no change shown\n");
        for (size_t i = 0; i < series->n_changes; i++) {
            enum coord_style style =
                series->changes[i]->better ? COORD_STYLE_GOOD : COORD_STYLE_BAD;

            describe(series, series->changes[i], text, sizeof(text));
            ls_buf_addf(out, "%s%s", markdown ? "- " : "  ",
                        markdown ? "" : coord_style_begin(style, colour));
            escape(out, text);
            ls_buf_addf(out, "%s\n", markdown ? "" : coord_style_end(style, colour));
        }
        ls_buf_adds(out, markdown ? "\n" : "");
    }
    if (history->n_series > 0)
        ls_buf_addf(
            out,
            "%sChanges: E-divisive means of the runs' medians, by permutation, each test at "
            "%g.\n",
            markdown ? "" : "\n", history->level);
}

enum ls_err coord_history_trend(const Ls__History *history, enum coord_report_format format,
                                const struct coord_report_options *options, struct ls_buf *out,
                                struct ls_diag *diag)
{
    if (format == COORD_REPORT_JSON)
        put_json(history, out);
    else if (format == COORD_REPORT_CSV)
        return coord_history_list(history, format, options, out, diag);
    else
        trend_text(history, format == COORD_REPORT_MARKDOWN, options->colour, out);
    return finish(out, diag);
}

/* ---- the page */

enum { WIDTH = 800, HEIGHT = 200, LEFT = 8, TOP = 12, BOTTOM = 12 };

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>Lockstep: history</title>\n<style>\n"
    ":root { color-scheme: light dark; --line: #0072b2; --bad: #d55e00; --good: #007a5e; }\n"
    "@media (prefers-color-scheme: dark) { :root { --line: #56b4e9; --bad: #ff8c42; --good: #2ec4a0; "
    "} }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 "
    "1rem; }\n"
    "svg { width: 100%; height: auto; }\n"
    ".band { stroke: var(--line); stroke-width: 2; opacity: .35; }\n"
    ".line { fill: none; stroke: var(--line); stroke-width: 2; }\n"
    ".dot { fill: var(--line); }\n"
    ".bad { stroke: var(--bad); stroke-width: 2; }\n"
    ".good { stroke: var(--good); stroke-width: 2; stroke-dasharray: 6 4; }\n"
    "table { border-collapse: collapse; font-variant-numeric: tabular-nums; }\n"
    "th, td { text-align: left; padding: .1rem 1rem .1rem 0; border-bottom: 1px solid #8886; }\n"
    "@media print { details > * { display: block; } }\n"
    "</style></head><body>\n<h1>History</h1>\n";

/* Text is text, in an element or an attribute. */
static void escape_html(struct ls_buf *out, const char *text)
{
    struct ls_buf plain;

    ls_buf_init(&plain, out->max);
    coord_escape_text(&plain, text);
    for (size_t i = 0; i < plain.len; i++) {
        switch (plain.data[i]) {
        case '&':
            ls_buf_adds(out, "&amp;");
            break;
        case '<':
            ls_buf_adds(out, "&lt;");
            break;
        case '>':
            ls_buf_adds(out, "&gt;");
            break;
        case '"':
            ls_buf_adds(out, "&quot;");
            break;
        default:
            ls_buf_add(out, &plain.data[i], 1);
        }
    }
    out->ok = out->ok && plain.ok;
    ls_buf_fini(&plain);
}

struct scale {
    double low, high;
    size_t n;
};

static double x_of(const struct scale *scale, double i)
{
    double step = (double)(WIDTH - 2 * LEFT) / (double)(scale->n > 1 ? scale->n - 1 : 1);

    return LEFT + step * i;
}

static double y_of(const struct scale *scale, double value)
{
    double share =
        scale->high > scale->low ? (value - scale->low) / (scale->high - scale->low) : 0.5;

    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

static struct scale scale_of(const Ls__HistorySeries *series)
{
    struct scale scale = { .low = series->points[0]->ci95_low,
                           .high = series->points[0]->ci95_high,
                           .n = series->n_points };

    for (size_t i = 0; i < series->n_points; i++) {
        const Ls__HistoryPoint *point = series->points[i];

        scale.low = point->ci95_low < scale.low ? point->ci95_low : scale.low;
        scale.high = point->ci95_high > scale.high ? point->ci95_high : scale.high;
    }
    return scale;
}

static void put_chart(const Ls__HistorySeries *series, struct ls_buf *out)
{
    struct scale scale = scale_of(series);

    ls_buf_addf(out,
                "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"medians of %zu runs\">\n",
                WIDTH, HEIGHT, series->n_points);
    for (size_t i = 0; i < series->n_changes; i++)
        ls_buf_addf(out, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%d\"/>\n",
                    series->changes[i]->better ? "good" : "bad",
                    x_of(&scale, series->changes[i]->at - 0.5),
                    x_of(&scale, series->changes[i]->at - 0.5), HEIGHT);
    for (size_t i = 0; i < series->n_points; i++)
        ls_buf_addf(out, "<line class=\"band\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
                    x_of(&scale, (double)i), x_of(&scale, (double)i),
                    y_of(&scale, series->points[i]->ci95_low),
                    y_of(&scale, series->points[i]->ci95_high));
    ls_buf_adds(out, "<polyline class=\"line\" points=\"");
    for (size_t i = 0; i < series->n_points; i++)
        ls_buf_addf(out, "%s%.1f,%.1f", i > 0 ? " " : "", x_of(&scale, (double)i),
                    y_of(&scale, series->points[i]->median));
    ls_buf_adds(out, "\"/>\n");
    for (size_t i = 0; i < series->n_points; i++)
        ls_buf_addf(out, "<circle class=\"dot\" r=\"3\" cx=\"%.1f\" cy=\"%.1f\"/>\n",
                    x_of(&scale, (double)i), y_of(&scale, series->points[i]->median));
    ls_buf_adds(out, "</svg>\n");
}

static void put_rows(const Ls__HistorySeries *series, struct ls_buf *out)
{
    char value[48];

    ls_buf_adds(out,
                "<details><summary>All runs</summary><table>\n<tr><th>started</th><th>commit"
                "</th><th>median</th><th>from</th><th>to</th><th>trials</th><th>folder</th></tr>"
                "\n");
    for (size_t i = series->n_points; i-- > 0;) {
        const Ls__HistoryPoint *point = series->points[i];
        const double values[] = { point->median, point->ci95_low, point->ci95_high };

        ls_buf_adds(out, "<tr><td>");
        escape_html(out, point->started_at);
        ls_buf_adds(out, "</td><td>");
        escape_html(out, point->commit);
        for (size_t k = 0; k < LS_ARRAY_LEN(values); k++) {
            ls_buf_adds(out, "</td><td>");
            escape_html(out, coord_unit_human(values[k], unit_of(series), value, sizeof(value)));
        }
        ls_buf_addf(out, "</td><td>%u</td><td>", point->n);
        escape_html(out, point->folder);
        ls_buf_adds(out, "</td></tr>\n");
    }
    ls_buf_adds(out, "</table></details>\n");
}

enum ls_err coord_history_page(const Ls__History *history, struct ls_buf *out, struct ls_diag *diag)
{
    char text[600];

    ls_buf_adds(out, head);
    ls_buf_addf(out,
                "<p>Medians of runs with their intervals. A vertical line is a change of level: "
                "E-divisive means (Matteson and James 2014) by permutation, each test at %g; solid "
                "is worse, dashed is better.</p>\n",
                history->level);
    for (size_t s = 0; s < history->n_series; s++) {
        const Ls__HistorySeries *series = history->series[s];

        ls_buf_adds(out, "<h2>");
        title_of(series, text, sizeof(text));
        escape_html(out, text);
        ls_buf_adds(out, "</h2>\n");
        put_chart(series, out);
        ls_buf_adds(out, series->n_changes > 0 ? "<ul>\n" : "<p>No change shown.</p>\n");
        for (size_t i = 0; i < series->n_changes; i++) {
            describe(series, series->changes[i], text, sizeof(text));
            ls_buf_adds(out, "<li>");
            escape_html(out, text);
            ls_buf_adds(out, "</li>\n");
        }
        ls_buf_adds(out, series->n_changes > 0 ? "</ul>\n" : "");
        put_rows(series, out);
    }
    ls_buf_adds(out, "</body></html>\n");
    return finish(out, diag);
}
