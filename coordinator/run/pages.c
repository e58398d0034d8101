#include "coordinator/run/pages.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "coordinator/plan/trials.h"
#include "coordinator/result/message.h"
#include "coordinator/run/pages_internal.h"

void pages_keep(struct pages_builder *b, bool ok)
{
    if (!ok && b->rc == LS_OK)
        b->rc = LS_ENOMEM;
}

/* ---- which figure a cell shows */

static bool matches(char *const *globs, size_t count, const char *name)
{
    if (count == 0)
        return true;
    for (size_t i = 0; i < count; i++) {
        if (fnmatch(globs[i], name, 0) == 0)
            return true;
    }
    return false;
}

/* The target's first workload that the column and the table mean. */
static const char *workload_of(const struct pages_builder *b, const char *glob, const char *target)
{
    for (size_t i = 0; i < b->plan->n_workloads; i++) {
        const Ls__Workload *w = b->plan->workloads[i];

        if (fnmatch(glob != NULL ? glob : "*", w->name, 0) == 0 &&
            matches(b->table->workloads, b->table->n_workloads, w->name) &&
            coord_workload_has_target(w, target))
            return w->name;
    }
    return NULL;
}

static bool has_pair(const struct pages_builder *b, const char *workload, const char *target)
{
    for (size_t i = 0; i < b->plan->n_workloads; i++) {
        if (strcmp(b->plan->workloads[i]->name, workload) == 0)
            return coord_workload_has_target(b->plan->workloads[i], target);
    }
    return false;
}

static bool find_planned(const Ls__Plan *plan, const char *name, struct coord_metric *out)
{
    for (size_t i = 0; i < plan->n_workloads; i++) {
        const Ls__Workload *w = plan->workloads[i];

        if (w->protocol_case != LS__WORKLOAD__PROTOCOL_PROCESS ||
            strncmp(name, COORD_SCRIPT_PREFIX, strlen(COORD_SCRIPT_PREFIX)) != 0)
            continue;
        for (size_t m = 0; m < w->process->n_metrics; m++) {
            const Ls__ProcessMetric *metric = w->process->metrics[m];

            if (strcmp(metric->name, name + strlen(COORD_SCRIPT_PREFIX)) == 0) {
                *out = coord_metric_script(name, metric->better == LS__BETTER__BETTER_HIGHER);
                return true;
            }
        }
    }
    return false;
}

/* A script's own metric exists as soon as a trial has printed it, or the plan asks for it. */
static bool find_metric(const struct pages_builder *b, const char *name, struct coord_metric *out)
{
    const struct coord_metric *known = coord_metric_find(name);

    if (known != NULL)
        *out = *known;
    return known != NULL || coord_metric_of_script(b->result, name, out) ||
           find_planned(b->plan, name, out);
}

/* False: the plan has nothing for that cell. */
bool pages_figure_of(const struct pages_builder *b, const Ls__PageColumn *column, const char *row,
                     struct pages_figure *out)
{
    const Ls__PageTable *table = b->table;
    const char *metric = column->metric != NULL ? column->metric : table->metric;

    *out = (struct pages_figure){ .target = row,
                                  .statistic = column->has_statistic ? column->statistic
                                                                     : table->statistic };
    if (table->rows == LS__TABLE_ROWS__TABLE_ROWS_TARGETS) {
        out->workload = workload_of(b, column->workload, row);
    } else if (table->rows == LS__TABLE_ROWS__TABLE_ROWS_WORKLOADS) {
        out->workload = row;
        out->target = column->target;
    } else {
        out->target = column->target;
        out->workload = workload_of(b, column->workload, column->target);
        metric = row;
    }
    return out->workload != NULL && out->target != NULL && find_metric(b, metric, &out->metric) &&
           has_pair(b, out->workload, out->target);
}

/* ---- its text */

static double statistic_of(const struct coord_stats *stats, const struct pages_figure *figure)
{
    switch (figure->statistic) {
    case LS__STATISTIC__STATISTIC_BEST:
        return figure->metric.higher_is_better ? stats->max : stats->min;
    case LS__STATISTIC__STATISTIC_MIN:
        return stats->min;
    case LS__STATISTIC__STATISTIC_MAX:
        return stats->max;
    case LS__STATISTIC__STATISTIC_MEAN:
    case LS__STATISTIC__STATISTIC_MEAN_SD:
        return stats->mean;
    default:
        return stats->median;
    }
}

static void all_runs(const struct pages_builder *b, const struct pages_figure *figure, size_t n,
                     char *out, size_t out_bytes)
{
    size_t used = 0;
    char number[48];

    for (size_t i = 0; i < n && used < out_bytes; i++)
        used += (size_t)snprintf(
            out + used, out_bytes - used, "%s%s", i > 0 ? ", " : "",
            coord_unit_human(b->values[i], figure->metric.unit, number, sizeof(number)));
}

/* A script says itself what its figures are. */
static void add_script_unit(const struct pages_builder *b, const struct pages_figure *figure,
                            char *number, size_t number_bytes)
{
    size_t len = strlen(number);

    for (size_t i = 0; figure->metric.script != NULL && i < b->result->n_trials; i++) {
        const Ls__ScriptMetric *found =
            coord_script_metric(b->result->trials[i], figure->metric.script);

        if (found != NULL && found->unit[0] != '\0') {
            (void)snprintf(number + len, number_bytes - len, " %.16s", found->unit);
            return;
        }
    }
}

static void show(const struct pages_builder *b, const struct pages_figure *figure,
                 const struct coord_stats *stats, Ls__PageCell *cell, char *out, size_t out_bytes)
{
    char number[48], scatter[48];

    if (figure->statistic == LS__STATISTIC__STATISTIC_RUNS) {
        all_runs(b, figure, stats->n, out, out_bytes);
        return;
    }
    (void)coord_unit_human(cell->value, figure->metric.unit, number, sizeof(number));
    add_script_unit(b, figure, number, sizeof(number));
    if (figure->statistic == LS__STATISTIC__STATISTIC_MEAN_SD && stats->n > 1)
        (void)snprintf(
            out, out_bytes, "%s%s +- %s", cell->noisy ? "~" : "", number,
            coord_unit_human(stats->stdev, figure->metric.unit, scatter, sizeof(scatter)));
    else
        (void)snprintf(out, out_bytes, "%s%s", cell->noisy ? "~" : "", number);
}

/* The script said that it cannot have it. */
static bool lacks(const Ls__Trial *trial, const struct coord_metric *metric)
{
    const Ls__ScriptMetric *found =
        metric->script != NULL ? coord_script_metric(trial, metric->script) : NULL;

    return found != NULL && found->not_applicable[0] != '\0';
}

/* Why there is no figure: the word of the last trial of that pair. */
static const char *why_none(const struct pages_builder *b, const struct pages_figure *figure)
{
    const char *why = "not measured";

    for (size_t i = 0; i < b->result->n_trials; i++) {
        const Ls__Trial *trial = b->result->trials[i];

        if (strcmp(trial->target, figure->target) != 0 ||
            strcmp(trial->workload, figure->workload) != 0 || coord_trial_is_discarded(trial))
            continue;
        if (strcmp(trial->status, "not_applicable") == 0 || lacks(trial, &figure->metric))
            why = "n/a";
        else if (strcmp(trial->status, "done") != 0)
            why = trial->status;
        else if (trial->verdict == LS__VERDICT__VERDICT_INVALID)
            why = "invalid";
    }
    return why;
}

const Ls__PageColumn *pages_base_of(const struct pages_builder *b, const Ls__PageColumn *column,
                                    size_t *out_index)
{
    const char *title = column->over != NULL ? column->over : column->change_from;

    for (size_t i = 0; title != NULL && i < b->table->n_columns; i++) {
        if (strcmp(b->table->columns[i]->title, title) == 0) {
            *out_index = i;
            return b->table->columns[i];
        }
    }
    return NULL;
}

/* Of what has doubled or halved a ratio says more than "+395 %" and "-80 %" do. */
static void show_change(double change, bool noisy, char *out, size_t out_bytes)
{
    const char *mark = noisy ? "~" : "";

    if (change >= 1 || change <= -0.5)
        (void)snprintf(out, out_bytes, "%s%.2fx", mark, 1 + change);
    else
        (void)snprintf(out, out_bytes, "%s%+.1f %%", mark, change * 100);
}

/* Against an earlier column of the row, before anything is rounded. */
static void relate(const struct pages_builder *b, const Ls__PageColumn *column,
                   const Ls__PageRow *row, Ls__PageCell *cell, char *out, size_t out_bytes)
{
    size_t at = 0;
    const Ls__PageColumn *other = pages_base_of(b, column, &at);
    const Ls__PageCell *base = at < row->n_cells ? row->cells[at] : NULL;

    if (other == NULL)
        return;
    if (base == NULL || !base->measured || base->value == 0) {
        cell->measured = false;
        (void)snprintf(out, out_bytes, "-");
        return;
    }
    cell->noisy = cell->noisy || base->noisy;
    if (column->over != NULL) {
        cell->value /= base->value;
        (void)snprintf(out, out_bytes, "%s%.2fx", cell->noisy ? "~" : "", cell->value);
    } else {
        cell->value = coord_stats_change(base->value, cell->value);
        show_change(cell->value, cell->noisy, out, out_bytes);
    }
}

static void add_cell(struct pages_builder *b, const Ls__PageColumn *column, Ls__PageRow *row)
{
    Ls__PageCell *cell =
        coord_message_append(&row->n_cells, &row->cells, &ls__page_cell__descriptor);
    struct pages_figure figure;
    struct coord_stats stats;
    char text[256] = "";
    size_t n;

    if (cell == NULL) {
        pages_keep(b, false);
        return;
    }
    if (pages_figure_of(b, column, row->name, &figure)) {
        n = coord_summary_values(b->result, figure.workload, figure.target, &figure.metric,
                                 b->values, NULL);
        if (n == 0) {
            (void)snprintf(text, sizeof(text), "%s", why_none(b, &figure));
        } else if (coord_stats_compute(b->values, n, b->result->seed, 0, &stats) != LS_OK) {
            pages_keep(b, false);
        } else {
            cell->measured = true;
            cell->noisy = stats.noisy;
            cell->value = statistic_of(&stats, &figure);
            show(b, &figure, &stats, cell, text, sizeof(text));
            relate(b, column, row, cell, text, sizeof(text));
        }
    }
    pages_keep(b, coord_message_string(&cell->text, text));
}

/* ---- what others have published, in columns behind ours */

const Ls__Published *pages_published_of(const struct pages_builder *b, const Ls__PageColumn *column,
                                        const char *row)
{
    struct pages_figure figure;

    if (column->over != NULL || column->change_from != NULL ||
        !pages_figure_of(b, column, row, &figure))
        return NULL;
    for (size_t t = 0; t < b->plan->n_targets; t++) {
        const Ls__Target *target = b->plan->targets[t];

        for (size_t i = 0; strcmp(target->name, figure.target) == 0 && i < target->n_published;
             i++) {
            const Ls__Published *published = target->published[i];

            if (strcmp(published->metric, figure.metric.name) == 0 &&
                strcmp(published->workload, figure.workload) == 0)
                return published;
        }
    }
    return NULL;
}

/* Behind the columns that are measured, so that references by place stay right. */
static void add_published(struct pages_builder *b, size_t index)
{
    const Ls__PageColumn *column = b->table->columns[index];
    const Ls__Published *one = NULL;
    char text[128];

    for (size_t r = 0; r < b->page->n_rows && one == NULL; r++) {
        one = pages_published_of(b, column, b->page->rows[r]->name);
        for (size_t i = 0; i < index && one != NULL; i++) {
            if (pages_published_of(b, b->table->columns[i], b->page->rows[r]->name) == one)
                return; /* shown already, behind another statistic of the same */
        }
    }
    if (one == NULL)
        return;
    (void)snprintf(text, sizeof(text), "%.64s, published", column->title);
    pages_keep(b, coord_message_add_string(&b->page->n_columns, &b->page->columns, text));
    for (size_t r = 0; r < b->page->n_rows && b->rc == LS_OK; r++) {
        Ls__PageRow *row = b->page->rows[r];
        const Ls__Published *published = pages_published_of(b, column, row->name);
        Ls__PageCell *cell =
            coord_message_append(&row->n_cells, &row->cells, &ls__page_cell__descriptor);
        char number[48];

        if (published != NULL)
            (void)snprintf(text, sizeof(text), "%s%s%.16s",
                           coord_unit_exact(published->value, number, sizeof(number)),
                           published->unit != NULL ? " " : "",
                           published->unit != NULL ? published->unit : "");
        pages_keep(b, cell != NULL &&
                          coord_message_string(&cell->text, published != NULL ? text : ""));
    }
}

/* When a figure was measured, whether it counts or not; "": never. */
static const char *start_of(const struct pages_builder *b, const struct pages_figure *figure)
{
    for (size_t i = 0; i < b->result->n_trials; i++) {
        const Ls__Trial *trial = b->result->trials[i];

        if (strcmp(trial->target, figure->target) == 0 &&
            strcmp(trial->workload, figure->workload) == 0)
            return trial->started_at;
    }
    return "";
}

/* When each row was measured, where that was not in one run. */
static void add_dates(struct pages_builder *b)
{
    pages_keep(b, coord_message_add_string(&b->page->n_columns, &b->page->columns, "date"));
    for (size_t r = 0; r < b->page->n_rows && b->rc == LS_OK; r++) {
        Ls__PageRow *row = b->page->rows[r];
        Ls__PageCell *cell =
            coord_message_append(&row->n_cells, &row->cells, &ls__page_cell__descriptor);
        struct pages_figure figure;
        char text[16] = "";

        for (size_t i = 0; i < b->table->n_columns && text[0] == '\0'; i++) {
            if (pages_figure_of(b, b->table->columns[i], row->name, &figure))
                (void)snprintf(text, sizeof(text), "%.10s", start_of(b, &figure));
        }
        pages_keep(b, cell != NULL && coord_message_string(&cell->text, text));
    }
}

/* ---- rows */

static void add_row(struct pages_builder *b, const char *name)
{
    const Ls__PageTable *table = b->table;
    Ls__PageRow *row;
    struct pages_figure figure;
    bool any = false;

    for (size_t i = 0; i < table->n_columns; i++)
        any = any || pages_figure_of(b, table->columns[i], name, &figure);
    if (!any)
        return;
    row = coord_message_append(&b->page->n_rows, &b->page->rows, &ls__page_row__descriptor);
    pages_keep(b, row != NULL && coord_message_string(&row->name, name));
    for (size_t i = 0; i < table->n_columns && b->rc == LS_OK; i++)
        add_cell(b, table->columns[i], row);
}

static bool has_row(const Ls__Page *page, const char *name)
{
    for (size_t i = 0; i < page->n_rows; i++) {
        if (strcmp(page->rows[i]->name, name) == 0)
            return true;
    }
    return false;
}

/* What the plan asks for on the table's workloads, whether anybody has printed it or not. */
static void add_planned_rows(struct pages_builder *b)
{
    char name[128];

    for (size_t i = 0; i < b->plan->n_workloads; i++) {
        const Ls__Workload *w = b->plan->workloads[i];

        if (w->protocol_case != LS__WORKLOAD__PROTOCOL_PROCESS ||
            !matches(b->table->workloads, b->table->n_workloads, w->name))
            continue;
        for (size_t m = 0; m < w->process->n_metrics && b->rc == LS_OK; m++) {
            (void)snprintf(name, sizeof(name), COORD_SCRIPT_PREFIX "%.100s",
                           w->process->metrics[m]->name);
            if (!has_row(b->page, name))
                add_row(b, name);
        }
    }
}

/* All that scripts have printed on the table's workloads, in the order in which it first came. */
static void add_script_rows(struct pages_builder *b)
{
    const Ls__PageTable *table = b->table;
    char name[128];

    for (size_t i = 0; i < b->result->n_trials; i++) {
        const Ls__Trial *trial = b->result->trials[i];

        if (trial->process == NULL ||
            !matches(table->workloads, table->n_workloads, trial->workload) ||
            !matches(table->targets, table->n_targets, trial->target))
            continue;
        for (size_t m = 0; m < trial->process->n_metrics && b->rc == LS_OK; m++) {
            (void)snprintf(name, sizeof(name), COORD_SCRIPT_PREFIX "%.100s",
                           trial->process->metrics[m]->name);
            if (!has_row(b->page, name))
                add_row(b, name);
        }
    }
}

static void add_rows(struct pages_builder *b)
{
    const Ls__PageTable *table = b->table;

    if (table->rows == LS__TABLE_ROWS__TABLE_ROWS_METRICS) {
        add_planned_rows(b);
        add_script_rows(b);
        return;
    }
    if (table->rows == LS__TABLE_ROWS__TABLE_ROWS_TARGETS) {
        for (size_t i = 0; i < b->plan->n_targets; i++) {
            if (matches(table->targets, table->n_targets, b->plan->targets[i]->name))
                add_row(b, b->plan->targets[i]->name);
        }
        return;
    }
    for (size_t i = 0; i < b->plan->n_workloads; i++) {
        if (matches(table->workloads, table->n_workloads, b->plan->workloads[i]->name))
            add_row(b, b->plan->workloads[i]->name);
    }
}

static void add_page(struct pages_builder *b)
{
    static const char *const names[] = { "target", "workload", "metric" };

    b->page = coord_message_append(&b->result->n_pages, &b->result->pages, &ls__page__descriptor);
    pages_keep(b, b->page != NULL && coord_message_string(&b->page->title, b->table->title) &&
                      coord_message_string(&b->page->rows_are, names[b->table->rows]));
    for (size_t i = 0; i < b->table->n_columns && b->rc == LS_OK; i++)
        pages_keep(b, coord_message_add_string(&b->page->n_columns, &b->page->columns,
                                               b->table->columns[i]->title));
    if (b->rc == LS_OK)
        add_rows(b);
    for (size_t i = 0; i < b->table->n_columns && b->rc == LS_OK; i++)
        add_published(b, i);
    if (b->rc == LS_OK && b->result->n_merged > 0)
        add_dates(b);
    if (b->rc == LS_OK)
        pages_add_notes(b);
}

enum ls_err coord_pages_build(Ls__Result *result, const Ls__Plan *plan)
{
    struct pages_builder b = { .result = result, .plan = plan };

    coord_message_clear(&result->n_pages, &result->pages);
    b.values = calloc(2 * result->n_trials + 1, sizeof(*b.values));
    pages_keep(&b, b.values != NULL);
    for (size_t i = 0; i < plan->n_tables && b.rc == LS_OK; i++) {
        b.table = plan->tables[i];
        add_page(&b);
    }
    free(b.values);
    if (b.rc != LS_OK)
        coord_message_clear(&result->n_pages, &result->pages);
    return b.rc;
}

/* 0: nothing is expected. */
static double expected_bytes(const Ls__Expect *expect, const char *base_dir)
{
    char path[PATH_MAX];
    struct stat st;

    if (expect != NULL && expect->body != NULL)
        return (double)strlen(expect->body);
    if (expect == NULL || expect->body_file == NULL ||
        snprintf(path, sizeof(path), "%s%s%s", expect->body_file[0] == '/' ? "" : base_dir,
                 expect->body_file[0] == '/' ? "" : "/", expect->body_file) >= (int)sizeof(path) ||
        stat(path, &st) != 0)
        return 0;
    return (double)st.st_size;
}

double coord_pages_body_bytes(const Ls__Workload *w, const char *base_dir)
{
    double bytes = 0, weights = 0;

    if (w->protocol_case != LS__WORKLOAD__PROTOCOL_HTTP)
        return 0;
    for (size_t i = 0; i < w->http->n_requests; i++) {
        const Ls__Request *request = w->http->requests[i];
        double one = expected_bytes(request->expect, base_dir);

        if (one == 0)
            return 0;
        bytes += request->weight * one;
        weights += request->weight;
    }
    return weights > 0 ? bytes / weights : 0;
}
