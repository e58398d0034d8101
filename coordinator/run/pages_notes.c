#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/result/message.h"
#include "coordinator/run/pages_internal.h"

#define NOTE_MAX    512u
#define SOURCES_MAX 8u
#define FEW_RUNS    3u /* with less there is no interval */

static void note(struct pages_builder *b, const char *fmt, ...) LS_PRINTF(2, 3);
static void note(struct pages_builder *b, const char *fmt, ...)
{
    char text[NOTE_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    pages_keep(b, coord_message_add_string(&b->page->n_notes, &b->page->notes, text));
}

/* The figures of a table's first column, row by row. */
static size_t first_column(const struct pages_builder *b, struct pages_figure *out)
{
    size_t n = 0;

    for (size_t r = 0; r < b->page->n_rows; r++) {
        if (b->page->rows[r]->n_cells > 0 && b->page->rows[r]->cells[0]->measured &&
            pages_figure_of(b, b->table->columns[0], b->page->rows[r]->name, &out[n]))
            n++;
    }
    return n;
}

static const Ls__Trial *trial_of(const struct pages_builder *b, const struct pages_figure *figure)
{
    for (size_t i = 0; i < b->result->n_trials; i++) {
        const Ls__Trial *trial = b->result->trials[i];

        if (coord_trial_counts(trial) && strcmp(trial->target, figure->target) == 0 &&
            strcmp(trial->workload, figure->workload) == 0)
            return trial;
    }
    return NULL;
}

/* Who answers with less does less. True: the rows do not do the same work. */
static bool note_bodies(struct pages_builder *b, const struct pages_figure *figures, size_t n)
{
    double least = INFINITY, most = 0;
    bool unknown = false;

    for (size_t i = 0; i < n; i++) {
        const Ls__Trial *trial = trial_of(b, &figures[i]);

        if (trial == NULL)
            continue;
        unknown = unknown || (trial->body_bytes == 0 && trial->protocol[0] == 'h');
        least = trial->body_bytes > 0 && trial->body_bytes < least ? trial->body_bytes : least;
        most = trial->body_bytes > most ? trial->body_bytes : most;
    }
    if (most > least)
        note(
            b,
            "The bodies differ: %.0f to %.0f bytes. These rows do not do the same work; their order "
            "is no finding.",
            least, most);
    if (unknown)
        note(b, "The plan does not say what bodies it expects: whether they are equal was not "
                "looked at.");
    return most > least;
}

static double median_of(struct pages_builder *b, const struct pages_figure *figure)
{
    struct coord_stats stats = { .median = NAN };
    size_t n = coord_summary_values(b->result, figure->workload, figure->target, &figure->metric,
                                    b->values, NULL);

    pages_keep(b, n == 0 || coord_stats_compute(b->values, n, 0, 0, &stats) == LS_OK);
    return stats.median;
}

/* The best and another one, the larger first. */
static void note_ratio(struct pages_builder *b, const struct pages_figure *best,
                       const struct pages_figure *other)
{
    bool swap = median_of(b, best) < median_of(b, other);
    const struct pages_figure *x = swap ? other : best, *y = swap ? best : other;
    char text[COORD_RATIO_TEXT_MAX];
    struct coord_ratio ratio;
    size_t nx, ny;
    enum ls_err rc;

    nx = coord_summary_values(b->result, x->workload, x->target, &x->metric, b->values, NULL);
    ny = coord_summary_values(b->result, y->workload, y->target, &y->metric, b->values + nx, NULL);
    rc = coord_stats_ratio(b->values, nx, b->values + nx, ny, b->result->seed,
                           coord_stats_stream(x->target, y->target, x->metric.name), &ratio);
    if (rc == LS_OK)
        note(b, "%s",
             coord_ratio_describe(&ratio, &x->metric, x->target, y->target, text, sizeof(text)));
    pages_keep(b, rc != LS_ENOMEM); /* LS_EINVAL: nothing to divide by */
}

/* Of those that have a place. */
static void note_ratios(struct pages_builder *b, struct pages_figure *figures, size_t all)
{
    size_t best = 0, n = 0;

    for (size_t i = 0; i < all; i++) {
        if (coord_target_is_ranked(b->result, figures[i].workload, figures[i].target))
            figures[n++] = figures[i];
    }
    for (size_t i = 1; i < n; i++) {
        double mine = median_of(b, &figures[i]), its = median_of(b, &figures[best]);

        if (figures[i].metric.higher_is_better ? mine > its : mine < its)
            best = i;
    }
    for (size_t i = 0; i < n; i++) {
        if (i != best)
            note_ratio(b, &figures[best], &figures[i]);
    }
}

static void note_order(struct pages_builder *b)
{
    if (b->plan->schedule->order == LS__ORDER__ORDER_SEQUENTIAL && b->page->n_rows > 1)
        note(b, "Not interleaved: the rows were measured one after the other, so that a small gap "
                "may be drift.");
    if (b->result->profile[0] != '\0')
        note(b,
             "The %.20s profile: seconds a row, for a first look. These are not figures to "
             "publish.",
             b->result->profile);
    if (b->result->n_merged > 0)
        note(b, "The rows are not all of one date: compare down a column only where they are.");
}

static void note_left_out(struct pages_builder *b, const struct pages_figure *figures, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t left_out = 0;
        size_t count = coord_summary_values(b->result, figures[i].workload, figures[i].target,
                                            &figures[i].metric, b->values, &left_out);

        if (left_out > 0)
            note(b, "%.64s: %u of %zu trials left out.", figures[i].target, left_out,
                 count + left_out);
    }
}

/* Not of this machine, and not of this day. Of each source once. */
static void note_published(struct pages_builder *b)
{
    const Ls__Published *seen[SOURCES_MAX];
    size_t count = 0;

    for (size_t i = 0; i < b->page->n_rows * b->table->n_columns && count < SOURCES_MAX; i++) {
        const Ls__Published *p = pages_published_of(b, b->table->columns[i % b->table->n_columns],
                                                    b->page->rows[i / b->table->n_columns]->name);
        size_t k = 0;

        while (p != NULL && k < count &&
               (strcmp(seen[k]->source, p->source) != 0 || strcmp(seen[k]->date, p->date) != 0))
            k++;
        if (p == NULL || k < count)
            continue;
        seen[count++] = p;
        note(b,
             "Published: %.200s, %.40s, on another machine. To be read for the order within their "
             "own column: no difference from ours is a finding.",
             p->source, p->date);
    }
}

static size_t runs_of(struct pages_builder *b, const Ls__PageColumn *column, const char *row)
{
    struct pages_figure figure;

    return pages_figure_of(b, column, row, &figure)
               ? coord_summary_values(b->result, figure.workload, figure.target, &figure.metric,
                                      b->values, NULL)
               : 0;
}

/* One column put against another where there are too few runs to say how far chance would go. */
static void note_few(struct pages_builder *b)
{
    for (size_t i = 0; i < b->table->n_columns; i++) {
        const Ls__PageColumn *column = b->table->columns[i], *base;
        size_t at;
        bool few = false;

        base = pages_base_of(b, column, &at);
        for (size_t r = 0; base != NULL && r < b->page->n_rows; r++) {
            const Ls__PageRow *row = b->page->rows[r];

            few = few || (row->cells[i]->measured && (runs_of(b, column, row->name) < FEW_RUNS ||
                                                      runs_of(b, base, row->name) < FEW_RUNS));
        }
        if (few)
            note(b,
                 "%.64s: from one or two runs a row; what lies between so few may be chance, and "
                 "is no finding.",
                 column->title);
    }
}

void pages_add_notes(struct pages_builder *b)
{
    struct pages_figure *figures = calloc(b->page->n_rows + 1, sizeof(*figures));
    bool differ;
    size_t n;

    pages_keep(b, figures != NULL);
    if (b->table->note != NULL)
        note(b, "%.500s", b->table->note);
    note_published(b);
    note_few(b);
    note_order(b);
    if (figures != NULL && b->table->n_columns > 0) {
        n = first_column(b, figures);
        differ = note_bodies(b, figures, n);
        note_left_out(b, figures, n);
        if (b->table->compare && !differ && b->table->rows == LS__TABLE_ROWS__TABLE_ROWS_TARGETS)
            note_ratios(b, figures, n);
    }
    free(figures);
}
