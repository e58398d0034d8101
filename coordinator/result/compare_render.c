/* What a comparison says, in the formats of reports. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_json.h"
#include "coordinator/result/compare.h"
#include "coordinator/result/escape.h"
#include "coordinator/result/report_parts.h"
#include "coordinator/result/summary.h"

enum { COLUMNS_DEFAULT = 80, COLUMNS_LEAST = 60 };

struct page {
    struct ls_buf *out;
    bool markdown;
    unsigned columns;
    bool colour;
};

static void say(const struct page *page, enum coord_style style, const char *fmt, ...)
    LS_PRINTF(3, 4);
static void say(const struct page *page, enum coord_style style, const char *fmt, ...)
{
    char text[1600];
    struct ls_buf line;
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ls_buf_init(&line, page->out->max);
    if (page->markdown) {
        const char *strong = style == COORD_STYLE_BAD ? "**" : "";

        coord_escape_markdown(&line, text);
        ls_buf_addf(page->out, "- %s%s%s\n", strong, line.ok ? (const char *)line.data : "",
                    strong);
    } else {
        coord_escape_text(&line, text);
        ls_buf_adds(page->out, coord_style_begin(style, page->colour));
        coord_report_wrap(page->out, page->columns, line.ok ? (const char *)line.data : "", "  ",
                          "    ");
        ls_buf_adds(page->out, coord_style_end(style, page->colour));
        ls_buf_adds(page->out, "\n");
    }
    page->out->ok = page->out->ok && line.ok;
    ls_buf_fini(&line);
}

static void heading(const struct page *page, const Ls__Comparison *comparison)
{
    char text[400];

    (void)snprintf(text, sizeof(text), "%.180s against %.180s", comparison->b, comparison->a);
    if (page->markdown) {
        ls_buf_adds(page->out, "## ");
        coord_escape_markdown(page->out, text);
        ls_buf_adds(page->out, "\n\n");
    } else {
        ls_buf_adds(page->out, page->colour ? "\033[1m" : "");
        coord_escape_text(page->out, text);
        ls_buf_adds(page->out, page->colour ? "\033[0m\n\n" : "\n\n");
    }
}

/* "2 worse (1 by more than allowed), 1 better, 3 without a difference shown": what a pull request
 * is told first. */
static void headline(const struct page *page, const Ls__Comparison *comparison)
{
    unsigned worse = 0, better = 0, same = 0, few = 0, bounds = 0;
    char failed[64] = "", unclear[64] = "", open[64] = "", text[300];

    for (size_t i = 0; i < comparison->n_metrics; i++) {
        const char *finding = comparison->metrics[i]->finding;

        worse += strcmp(finding, "worse") == 0;
        better += strcmp(finding, "better") == 0;
        same += strcmp(finding, "no_difference") == 0;
        few += strcmp(finding, "too_few") == 0;
        bounds += strcmp(finding, "lower_bound") == 0;
    }
    if (comparison->failed > 0)
        (void)snprintf(failed, sizeof(failed), " (%u by more than allowed)", comparison->failed);
    if (few > 0)
        (void)snprintf(unclear, sizeof(unclear), ", %u with too few runs to tell", few);
    if (bounds > 0)
        (void)snprintf(open, sizeof(open), ", %u known as a lower bound only", bounds);
    (void)snprintf(text, sizeof(text), "%u worse%s, %u better, %u without a difference shown%s%s",
                   worse, failed, better, same, unclear, open);
    ls_buf_addf(page->out, page->markdown ? "**%s**\n\n" : "%s\n\n", text);
}

/* ---- the table */

static const struct coord_column columns[] = {
    { "workload", "workload", true },      { "target", "target", true },
    { "metric", "metric", true },          { "median_a", "before", false },
    { "median_b", "after", false },        { "change", "change", false },
    { "interval", "95 % interval", true }, { "p_adjusted", "p", false },
    { "finding", "finding", true },
};

/* "-7.2 %", or "-" where there was nothing before, or no figure. */
static void change_cells(const Ls__ComparedMetric *row, struct coord_table *out)
{
    char text[64];

    if (row->median_a <= 0 || strcmp(row->finding, "lower_bound") == 0) {
        coord_table_none(out);
        coord_table_none(out);
        return;
    }
    (void)snprintf(text, sizeof(text), "%+.1f %%",
                   coord_stats_change(row->median_a, row->median_b) * 100);
    coord_table_text(out, text, COORD_STYLE_NONE);
    (void)snprintf(text, sizeof(text), "%+.1f to %+.1f %%", (row->ratio_low - 1) * 100,
                   (row->ratio_high - 1) * 100);
    coord_table_text(out, text, COORD_STYLE_NONE);
}

static const char *words(const char *finding, enum coord_style *out_style)
{
    *out_style = COORD_STYLE_NONE;
    if (strcmp(finding, "better") == 0)
        *out_style = COORD_STYLE_GOOD;
    if (strcmp(finding, "worse") == 0)
        *out_style = COORD_STYLE_BAD;
    if (strcmp(finding, "no_difference") == 0)
        return "no difference shown";
    if (strcmp(finding, "lower_bound") == 0)
        return "lower bound only";
    return strcmp(finding, "too_few") == 0 ? "too few runs to tell" : finding;
}

static void fill_table(const Ls__Comparison *comparison, struct coord_table *out)
{
    coord_table_init(out, columns, LS_ARRAY_LEN(columns));
    for (size_t i = 0; i < comparison->n_metrics; i++) {
        const Ls__ComparedMetric *row = comparison->metrics[i];
        const struct coord_metric *metric = coord_metric_find(row->metric);
        enum coord_unit unit = metric != NULL ? metric->unit : COORD_UNIT_COUNT;
        enum coord_style style;
        const char *finding = words(row->finding, &style);
        char p[32];

        coord_table_text(out, row->workload, COORD_STYLE_NONE);
        coord_table_text(out, row->target, COORD_STYLE_NONE);
        coord_table_text(out, metric != NULL ? metric->noun : row->metric, COORD_STYLE_NONE);
        coord_table_number(out, row->median_a, unit);
        coord_table_number(out, row->median_b, unit);
        change_cells(row, out);
        if (row->by_intervals)
            (void)snprintf(p, sizeof(p), "intervals");
        else
            (void)snprintf(p, sizeof(p), "%.2g", row->p_adjusted);
        coord_table_text(out, p, COORD_STYLE_NONE);
        coord_table_text(out, finding, style);
    }
}

/* ---- the sentences */

static void say_failed(const struct page *page, const Ls__Comparison *comparison)
{
    for (size_t i = 0; i < comparison->n_metrics; i++) {
        const Ls__ComparedMetric *row = comparison->metrics[i];

        if (row->failed)
            say(page, COORD_STYLE_BAD, "%.200s, %.64s: %.64s is worse by more than %g %%.",
                row->workload, row->target, row->metric, row->fail_on * 100);
    }
}

/* How many runs would have told, where these did not. */
static void say_runs(const struct page *page, const Ls__Comparison *comparison)
{
    unsigned most = 0, few = 0;
    double change = COORD_COMPARE_CHANGE;

    for (size_t i = 0; i < comparison->n_metrics; i++) {
        const Ls__ComparedMetric *row = comparison->metrics[i];
        unsigned have = row->n_a < row->n_b ? row->n_a : row->n_b;

        few += strcmp(row->finding, "too_few") == 0;
        if (row->runs_needed > have && row->runs_needed > most &&
            (strcmp(row->finding, "too_few") == 0 || strcmp(row->finding, "no_difference") == 0)) {
            most = row->runs_needed;
            change = row->fail_on > 0 ? row->fail_on : (double)COORD_COMPARE_CHANGE;
        }
    }
    if (comparison->undecided > 0)
        say(page, COORD_STYLE_BAD,
            "%u of the metrics may be worse by more than is allowed, but these runs cannot tell.",
            comparison->undecided);
    if (few > 0)
        say(page, COORD_STYLE_WARN,
            "Of so few runs chance alone could make any difference that they show.");
    if (most > 0)
        say(page, COORD_STYLE_NONE,
            "To find a change of %g %% in 8 of 10 cases, with this much scatter, takes %u runs of "
            "each (repetitions: %u).",
            change * 100, most, most);
}

static void say_differences(const struct page *page, const Ls__Comparison *comparison)
{
    if (comparison->n_differences == 0)
        say(page, COORD_STYLE_NONE, "Hosts, programs and loads were the same.");
    for (size_t i = 0; i < comparison->n_differences; i++) {
        const Ls__Difference *difference = comparison->differences[i];

        say(page, difference->grave ? COORD_STYLE_BAD : COORD_STYLE_WARN,
            "%s%.300s: '%.400s', then '%.400s'", difference->grave ? "Not the same load: " : "",
            difference->what, difference->a, difference->b);
    }
}

static void one(const struct page *page, const Ls__Comparison *comparison,
                const Ls__Comparisons *all)
{
    struct coord_table table;

    heading(page, comparison);
    headline(page, comparison);
    fill_table(comparison, &table);
    if (page->markdown)
        coord_table_write_markdown(&table, page->out);
    else
        coord_table_write_text(&table, page->columns, page->colour, page->out);
    coord_table_fini(&table);
    ls_buf_adds(page->out, "\n");
    say_failed(page, comparison);
    say_runs(page, comparison);
    say_differences(page, comparison);
    say(page, COORD_STYLE_NONE,
        "p: rank-sum test of the runs, adjusted for %zu test%s (Holm); a finding at %g or less. "
        "Intervals: 95 %% bootstrap of the medians.",
        comparison->n_metrics, comparison->n_metrics == 1 ? "" : "s", all->level);
}

/* For machines: no figure is rounded, and each row says what it compares. */
static const struct coord_column exact_columns[] = {
    { .name = "a" },       { .name = "b" },          { .name = "workload" },
    { .name = "target" },  { .name = "metric" },     { .name = "n_a" },
    { .name = "n_b" },     { .name = "median_a" },   { .name = "median_b" },
    { .name = "ratio" },   { .name = "ratio_low" },  { .name = "ratio_high" },
    { .name = "p" },       { .name = "p_adjusted" }, { .name = "finding" },
    { .name = "fail_on" }, { .name = "failed" },     { .name = "runs_needed" },
};

static void exact_row(const Ls__Comparison *comparison, const Ls__ComparedMetric *row,
                      struct coord_table *out)
{
    bool has_ratio = row->median_a > 0 && strcmp(row->finding, "lower_bound") != 0;

    coord_table_text(out, comparison->a, COORD_STYLE_NONE);
    coord_table_text(out, comparison->b, COORD_STYLE_NONE);
    coord_table_text(out, row->workload, COORD_STYLE_NONE);
    coord_table_text(out, row->target, COORD_STYLE_NONE);
    coord_table_text(out, row->metric, COORD_STYLE_NONE);
    coord_table_number(out, row->n_a, COORD_UNIT_COUNT);
    coord_table_number(out, row->n_b, COORD_UNIT_COUNT);
    coord_table_number(out, row->median_a, COORD_UNIT_PLAIN);
    coord_table_number(out, row->median_b, COORD_UNIT_PLAIN);
    coord_table_maybe(out, has_ratio, row->ratio, COORD_UNIT_PLAIN);
    coord_table_maybe(out, has_ratio, row->ratio_low, COORD_UNIT_PLAIN);
    coord_table_maybe(out, has_ratio, row->ratio_high, COORD_UNIT_PLAIN);
    coord_table_maybe(out, !row->by_intervals, row->p, COORD_UNIT_PLAIN);
    coord_table_maybe(out, !row->by_intervals, row->p_adjusted, COORD_UNIT_PLAIN);
    coord_table_text(out, row->finding, COORD_STYLE_NONE);
    coord_table_maybe(out, row->fail_on > 0, row->fail_on, COORD_UNIT_PLAIN);
    coord_table_text(out, row->failed ? "yes" : "no", COORD_STYLE_NONE);
    coord_table_maybe(out, row->runs_needed > 0, row->runs_needed, COORD_UNIT_COUNT);
}

static void csv(const Ls__Comparisons *all, struct ls_buf *out)
{
    struct coord_table table;

    coord_table_init(&table, exact_columns, LS_ARRAY_LEN(exact_columns));
    for (size_t i = 0; i < all->n_comparisons; i++) {
        for (size_t k = 0; k < all->comparisons[i]->n_metrics; k++)
            exact_row(all->comparisons[i], all->comparisons[i]->metrics[k], &table);
    }
    coord_table_write_csv(&table, out);
    coord_table_fini(&table);
}

enum ls_err coord_compare_render(const Ls__Comparisons *comparisons,
                                 enum coord_report_format format,
                                 const struct coord_report_options *options, struct ls_buf *out,
                                 struct ls_diag *diag)
{
    unsigned wide = options->columns == 0              ? COLUMNS_DEFAULT
                    : options->columns < COLUMNS_LEAST ? COLUMNS_LEAST
                                                       : options->columns;
    struct page page = { .out = out,
                         .markdown = format == COORD_REPORT_MARKDOWN,
                         .columns = wide,
                         .colour = options->colour };

    if (format == COORD_REPORT_JSON) {
        char *text = ls_msg_to_json(&comparisons->base, 2);

        if (text != NULL)
            ls_buf_adds(out, text);
        out->ok = out->ok && text != NULL;
        free(text);
    } else if (format == COORD_REPORT_CSV) {
        csv(comparisons, out);
    } else {
        for (size_t i = 0; i < comparisons->n_comparisons; i++) {
            ls_buf_adds(out, i > 0 ? "\n" : "");
            one(&page, comparisons->comparisons[i], comparisons);
        }
    }
    if (!out->ok)
        return ls_fail(diag, LS_ENOMEM, "no memory for the comparison, or it is too large");
    return LS_OK;
}
