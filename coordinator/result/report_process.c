/* What a report says of process workloads, and of cells without figures. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "coordinator/result/report_parts.h"
#include "coordinator/result/summary.h"
#include "coordinator/run/verdict.h"

static void say(struct coord_say *to, enum coord_style style, const char *fmt, ...) LS_PRINTF(3, 4);
static void say(struct coord_say *to, enum coord_style style, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    to->say(to->ctx, style, text);
}

static bool belongs(const Ls__Trial *trial, const char *workload, const char *target)
{
    return strcmp(trial->workload, workload) == 0 && strcmp(trial->target, target) == 0;
}

bool coord_report_is_process(const Ls__Result *result, const char *workload)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        if (strcmp(result->trials[i]->workload, workload) == 0)
            return strcmp(result->trials[i]->protocol, "process") == 0;
    }
    return false;
}

const char *coord_trial_label(const Ls__Trial *trial)
{
    if (trial->verdict == LS__VERDICT__VERDICT_NONE)
        return strcmp(trial->outcome, "not_applicable") == 0 ? "n/a" : "skipped";
    if (strcmp(trial->outcome, "version_differs") == 0 &&
        trial->verdict != LS__VERDICT__VERDICT_INVALID)
        return "other version";
    return coord_verdict_name(trial->verdict);
}

/* ---- wall time */

static const struct coord_column columns[] = {
    { "target", "target", true },
    { "verdicts", "trials", true },
    { "wall_min_ns", "shortest", false },
    { "wall_median_ns", "median", false },
    { "wall_mean_ns", "mean", false },
    { "wall_stdev_ns", "stdev", false },
    { "wall_max_ns", "longest", false },
    { "user_mean_ns", "user", false },
    { "system_mean_ns", "system", false },
    { "process_peak_bytes", "peak memory", false },
    { "marker_rss_bytes", "at the marker", false },
    { "published", "published", false },
};

static void figure_cell(const Ls__Result *result, const char *workload, const char *target,
                        const char *name, struct coord_table *out)
{
    const Ls__Summary *row = coord_summary_find(result, workload, target, name);
    const struct coord_metric *metric = coord_metric_find(name);
    bool there = row != NULL && row->n > 0 && metric != NULL;

    coord_table_maybe(out, there, there ? row->median : 0,
                      metric != NULL ? metric->unit : COORD_UNIT_COUNT);
}

static const Ls__Reference *find_published(const Ls__Result *result, const char *workload,
                                           const char *target, const char *metric)
{
    for (size_t i = 0; i < result->n_published; i++) {
        const Ls__Reference *p = result->published[i];

        if (strcmp(p->workload, workload) == 0 && strcmp(p->target, target) == 0 &&
            (metric == NULL ? strncmp(p->metric, "script/", 7) != 0
                            : strcmp(p->metric, metric) == 0))
            return p;
    }
    return NULL;
}

void coord_part_published_cell(const Ls__Result *result, const char *workload, const char *target,
                               const char *metric, struct coord_table *out)
{
    const Ls__Reference *p = find_published(result, workload, target, metric);
    char number[48], text[100];

    if (p == NULL) {
        coord_table_none(out);
        return;
    }
    (void)snprintf(text, sizeof(text), "%s %.40s",
                   coord_unit_exact(p->value, number, sizeof(number)), p->unit);
    coord_table_text(out, text, COORD_STYLE_NONE);
}

static bool has_marker(const Ls__Result *result, const char *workload)
{
    for (size_t i = 0; i < result->n_summary; i++) {
        if (strcmp(result->summary[i]->workload, workload) == 0 &&
            strcmp(result->summary[i]->metric, "marker_rss_bytes") == 0)
            return true;
    }
    return false;
}

static bool has_published(const Ls__Result *result, const char *workload)
{
    for (size_t i = 0; i < result->n_published; i++) {
        if (strcmp(result->published[i]->workload, workload) == 0)
            return true;
    }
    return false;
}

static void cell(const Ls__Result *result, const char *workload, const char *target,
                 const char *name, struct coord_table *out)
{
    if (strcmp(name, "target") == 0)
        coord_table_text(out, target, COORD_STYLE_NONE);
    else if (strcmp(name, "verdicts") == 0)
        coord_part_verdicts_cell(result, workload, target, out);
    else if (strcmp(name, "published") == 0)
        coord_part_published_cell(result, workload, target, NULL, out);
    else
        figure_cell(result, workload, target, name, out);
}

void coord_part_process(const Ls__Result *result, const char *workload, struct coord_table *out)
{
    struct coord_column shown[LS_ARRAY_LEN(columns)];
    const char **targets = NULL;
    size_t n = coord_result_targets(result, &targets), count = 0;

    for (size_t i = 0; i < LS_ARRAY_LEN(columns); i++) {
        if ((strcmp(columns[i].name, "marker_rss_bytes") == 0 && !has_marker(result, workload)) ||
            (strcmp(columns[i].name, "published") == 0 && !has_published(result, workload)))
            continue;
        shown[count++] = columns[i];
    }
    coord_table_init(out, shown, count);
    out->ok = out->ok && targets != NULL;
    for (size_t t = 0; t < n; t++) {
        if (coord_summary_find(result, workload, targets[t], "wall_median_ns") == NULL)
            continue;
        for (size_t i = 0; i < count; i++)
            cell(result, workload, targets[t], shown[i].name, out);
    }
    free(targets);
}

/* ---- what scripts have measured themselves */

/* A row a metric and target: tables of many targets would not fit a page. */
static const struct coord_column script_columns[] = {
    { "metric", "metric", true },  { "target", "target", true },
    { "median", "median", false }, { "min", "least", false },
    { "max", "most", false },      { "unit", "unit", true },
    { "better", "better", true },  { "published", "published", false },
};

static const Ls__ScriptMetric *any_metric(const Ls__Result *result, const char *workload,
                                          const char *target, const char *name)
{
    const Ls__ScriptMetric *found = NULL;

    for (size_t i = 0; i < result->n_trials && found == NULL; i++) {
        if (belongs(result->trials[i], workload, target))
            found = coord_script_metric(result->trials[i], name);
    }
    return found;
}

static void script_row(const Ls__Result *result, const char *workload, const char *target,
                       const char *name, struct coord_table *out)
{
    const Ls__ScriptMetric *metric = any_metric(result, workload, target, name);
    const Ls__Summary *row;
    char full[80];
    bool there;

    if (metric == NULL)
        return;
    (void)snprintf(full, sizeof(full), "script/%.64s", name);
    row = coord_summary_find(result, workload, target, full);
    there = row != NULL && row->n > 0;
    coord_table_text(out, name, COORD_STYLE_NONE);
    coord_table_text(out, target, COORD_STYLE_NONE);
    if (!there && metric->not_applicable[0] != '\0')
        coord_table_text(out, "n/a", COORD_STYLE_NONE);
    else
        coord_table_maybe(out, there, there ? row->median : 0, COORD_UNIT_PLAIN);
    coord_table_maybe(out, there, there ? row->min : 0, COORD_UNIT_PLAIN);
    coord_table_maybe(out, there, there ? row->max : 0, COORD_UNIT_PLAIN);
    coord_table_text(out, metric->unit, COORD_STYLE_NONE);
    coord_table_text(out, metric->better, COORD_STYLE_NONE);
    coord_part_published_cell(result, workload, target, full, out);
}

/* Has an earlier trial of the workload this metric, too? */
static bool is_new(const Ls__Result *result, size_t trial, const char *workload, const char *name)
{
    for (size_t i = 0; i < trial; i++) {
        if (strcmp(result->trials[i]->workload, workload) == 0 &&
            coord_script_metric(result->trials[i], name) != NULL)
            return false;
    }
    return true;
}

void coord_part_scripts(const Ls__Result *result, const char *workload, struct coord_table *out)
{
    const char **targets = NULL;
    size_t n = coord_result_targets(result, &targets);

    coord_table_init(out, script_columns, LS_ARRAY_LEN(script_columns));
    out->ok = out->ok && targets != NULL;
    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__ProcessResult *process = result->trials[i]->process;

        if (process == NULL || strcmp(result->trials[i]->workload, workload) != 0)
            continue;
        for (size_t m = 0; m < process->n_metrics; m++) {
            const char *name = process->metrics[m]->name;

            if (!is_new(result, i, workload, name))
                continue;
            for (size_t t = 0; t < n; t++)
                script_row(result, workload, targets[t], name, out);
        }
    }
    free(targets);
}

/* ---- sentences */

/* "bun: 30 graceful (exit 0), 2 signal (signal SEGV)", of all that did not just end well. */
static void say_outcomes(const Ls__Trial *trial, struct coord_say *to)
{
    char text[400];
    size_t used = 0;
    bool plain = true;

    for (size_t i = 0; i < trial->process->n_outcomes && used < sizeof(text); i++) {
        const Ls__OutcomeCount *o = trial->process->outcomes[i];

        plain = plain && strcmp(o->outcome, "graceful") == 0;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u %.16s (%.40s)",
                                 used > 0 ? ", " : "", o->count, o->outcome, o->detail);
    }
    if (!plain)
        say(to, COORD_STYLE_NONE, "trial %u, %.64s: %s", trial->index, trial->target, text);
}

static void say_memory(const Ls__Trial *trial, struct coord_say *to)
{
    char size[48];

    if (trial->process->memory_limit_bytes > 0)
        say(to, COORD_STYLE_NONE, "trial %u, %.64s: memory limited to %s (%.40s)", trial->index,
            trial->target,
            ls_human_size((double)trial->process->memory_limit_bytes, size, sizeof(size)),
            trial->process->memory_limit_by);
}

void coord_part_outcomes(const Ls__Result *result, const char *workload, struct coord_say *to)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (trial->process == NULL || strcmp(trial->workload, workload) != 0)
            continue;
        say_outcomes(trial, to);
        say_memory(trial, to);
    }
}

/* Each target once: what is said of one repetition holds for all. */
static bool is_first(const Ls__Result *result, size_t trial)
{
    for (size_t i = 0; i < trial; i++) {
        if (belongs(result->trials[i], result->trials[trial]->workload,
                    result->trials[trial]->target) &&
            strcmp(result->trials[i]->outcome, result->trials[trial]->outcome) == 0)
            return false;
    }
    return true;
}

void coord_part_cells(const Ls__Result *result, const char *workload, struct coord_say *to)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (strcmp(trial->workload, workload) != 0 || trial->outcome_reason[0] == '\0' ||
            strcmp(trial->outcome, "failed") == 0 || !is_first(result, i))
            continue;
        say(to,
            strcmp(trial->outcome, "version_differs") == 0 ? COORD_STYLE_WARN : COORD_STYLE_NONE,
            "%.64s: %s: %.400s", trial->target, coord_trial_label(trial), trial->outcome_reason);
    }
    for (size_t i = 0; i < result->n_published; i++) {
        const Ls__Reference *p = result->published[i];
        char number[48];

        if (strcmp(p->workload, workload) == 0)
            say(to, COORD_STYLE_NONE,
                "published of %.64s, not ranked: %.64s %s %.40s (%.200s, %.40s)", p->target,
                p->metric, coord_unit_exact(p->value, number, sizeof(number)), p->unit, p->source,
                p->date);
    }
}

void coord_part_process_details(const Ls__Trial *trial, struct coord_say *to)
{
    const Ls__ProcessResult *p = trial->process;
    char a[48], b[48], c[48];

    if (p == NULL || p->wall_ns == NULL || p->user_ns == NULL || p->system_ns == NULL ||
        p->peak_bytes == NULL)
        return;
    say(to, COORD_STYLE_NONE, "runs: %u measured, %u to warm up, %u at once, CPUs %.80s", p->runs,
        p->warmup_runs, p->concurrency, p->cpus);
    say(to, COORD_STYLE_NONE, "wall time: %s median, %s mean, %s shortest",
        ls_human_duration(p->wall_ns->median, a, sizeof(a)),
        ls_human_duration(p->wall_ns->mean, b, sizeof(b)),
        ls_human_duration(p->wall_ns->min, c, sizeof(c)));
    say(to, COORD_STYLE_NONE, "CPU: %s user, %s system, on average",
        ls_human_duration(p->user_ns->mean, a, sizeof(a)),
        ls_human_duration(p->system_ns->mean, b, sizeof(b)));
    say(to, COORD_STYLE_NONE, "peak memory: %s median, %s most",
        ls_human_size(p->peak_bytes->median, a, sizeof(a)),
        ls_human_size(p->peak_bytes->max, b, sizeof(b)));
    if (p->marker_rss_bytes != NULL)
        say(to, COORD_STYLE_NONE, "memory at the marker: %s median",
            ls_human_size(p->marker_rss_bytes->median, a, sizeof(a)));
    say_outcomes(trial, to);
    say_memory(trial, to);
}
