/* A result as a page: the data, as JSON, for the scripts in coordinator/page/. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "coordinator/page/page.h"
#include "coordinator/result/escape.h"
#include "coordinator/result/html_figures.h"
#include "coordinator/result/html_json.h"
#include "coordinator/result/html_parts.h"
#include "coordinator/result/html_series.h"
#include "coordinator/result/report_parts.h"
#include "coordinator/result/store.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/summary.h"
#include "coordinator/result/sums.h"

/* What keeps a page below 2 MB, however long a run was. */
enum {
    JSON_MAX = 8 << 20,
    PLAN_MAX_BYTES = 64 << 10,
    CSV_MAX_BYTES = 256 << 10,
    SERIES_MAX = 64,      /* trials that are shown over time */
    POINTS_OF_ALL = 7200, /* of all trials together */
    POINTS_LEAST = 60,    /* of a trial */
    POINTS_MOST = 240,
    COLUMNS_OF_HEAT = 3600, /* of all heat maps together */
    AGENT_ROWS_MAX = 2000,
    FILES_MAX = 400
};

struct page {
    struct coord_html html;
    const char *dir; /* NULL: there are no files */
    struct coord_html_names names;
    size_t series_count; /* trials that are shown over time */
    bool *in_series;     /* by trial */
};

/* ---- pieces */

static void number(struct page *page, double value)
{
    char digits[48];

    ls_buf_adds(page->html.out, coord_unit_exact(value, digits, sizeof(digits)));
}

/* The plan's own tables. */
static void pages(struct page *page)
{
    const Ls__Result *result = page->html.result;
    struct coord_say say = coord_html_sayer(&page->html);
    struct coord_table rows;

    ls_buf_adds(page->html.out, "\"pages\":[");
    for (size_t i = 0; i < result->n_pages; i++) {
        ls_buf_adds(page->html.out, i > 0 ? ",{" : "{");
        coord_html_named(&page->html, "title", result->pages[i]->title);
        coord_part_page(result->pages[i], &rows);
        coord_html_table(&page->html, "table", &rows);
        coord_html_begin(&page->html, "notes");
        coord_part_page_notes(result->pages[i], &say);
        ls_buf_adds(page->html.out, "]}");
    }
    ls_buf_adds(page->html.out, "],");
    page->html.out->ok = page->html.out->ok && !say.failed;
}

static void workload(struct page *page, const char *name)
{
    struct coord_table rows;

    ls_buf_adds(page->html.out, "{");
    coord_html_named(&page->html, "name", name);
    coord_html_say_of(&page->html, "load", name, coord_part_load);
    coord_part_summary(page->html.result, name, &rows);
    coord_html_table(&page->html, "summary", &rows);
    coord_part_scripts(page->html.result, name, &rows);
    coord_html_table(&page->html, "scripts", &rows);
    coord_part_ratios(page->html.result, name, &rows);
    coord_html_table(&page->html, "ratios", &rows);
    coord_html_say_of(&page->html, "capacity", name, coord_part_capacity);
    coord_html_say_of(&page->html, "comparisons", name, coord_part_comparisons);
    coord_html_say_of(&page->html, "notes", name, coord_part_notes);
    coord_html_bars(&page->html, &page->names, name);
    coord_html_metrics(page->html.result, name, &rows);
    coord_html_table(&page->html, "metrics", &rows);
    ls_buf_adds(page->html.out, "\"end\":0}");
}

/* ---- over time */

/* All trials, or of each target and workload the first that counts. */
static enum ls_err choose_series(struct page *page)
{
    const Ls__Result *result = page->html.result;
    size_t pairs = page->names.target_count * page->names.workload_count;
    bool *seen = calloc(pairs + 1, sizeof(*seen));

    page->in_series = calloc(result->n_trials + 1, sizeof(*page->in_series));
    if (seen == NULL || page->in_series == NULL) {
        free(seen);
        return LS_ENOMEM;
    }
    for (size_t i = 0; i < result->n_trials && page->series_count < SERIES_MAX; i++) {
        const Ls__Trial *trial = result->trials[i];
        size_t pair =
            coord_html_place(page->names.targets, page->names.target_count, trial->target) *
                page->names.workload_count +
            coord_html_place(page->names.workloads, page->names.workload_count, trial->workload);

        if (trial->n_intervals == 0 ||
            (result->n_trials > SERIES_MAX && (seen[pair] || !coord_trial_counts(trial))))
            continue;
        seen[pair] = true;
        page->in_series[i] = true;
        page->series_count++;
    }
    free(seen);
    return LS_OK;
}

static unsigned share_of(const struct page *page, unsigned all)
{
    unsigned points = all / (unsigned)(page->series_count > 0 ? page->series_count : 1);

    return points < POINTS_LEAST ? POINTS_LEAST : points > POINTS_MOST ? POINTS_MOST : points;
}

/* A folder's name comes from result.json, which anybody may have written. */
static bool has_log(const struct page *page, const Ls__Trial *trial)
{
    return page->dir != NULL && trial->folder[0] != '\0' &&
           strncmp(trial->folder, COORD_TRIALS_DIR "/", strlen(COORD_TRIALS_DIR "/")) == 0 &&
           ls_fs_name_check(trial->folder, NULL) == LS_OK;
}

/* The heat map of a trial that is shown over time; all of them add to the total of their target. A
 * file that is missing or damaged costs the page a chart, and the page says so. */
static enum ls_err read_log(struct page *page, size_t trial, struct ls_hist *total)
{
    struct ls_buf heat;
    struct ls_diag diag = { 0 };
    enum ls_err rc;

    ls_buf_init(&heat, JSON_MAX);
    rc = coord_html_log(page->dir, page->html.result->trials[trial],
                        share_of(page, COLUMNS_OF_HEAT), total, &heat, &diag);
    if (rc == LS_OK && heat.ok) {
        coord_html_next(&page->html);
        ls_buf_addf(page->html.out, "{\"trial\":%zu,\"map\":%s}", trial,
                    page->in_series[trial] ? (const char *)heat.data : "null");
    } else if (rc != LS_ENOMEM) {
        coord_html_next(&page->html);
        ls_buf_addf(page->html.out, "{\"trial\":%zu,\"error\":", trial);
        coord_escape_json(page->html.out, diag.text, sizeof(diag.text));
        ls_buf_adds(page->html.out, "}");
        rc = LS_OK;
    }
    ls_buf_fini(&heat);
    return rc;
}

/* One curve: all trials of a target that count, added up. */
static enum ls_err add_curve(struct page *page, struct ls_buf *curves, size_t w, size_t t)
{
    const Ls__Result *result = page->html.result;
    struct ls_hist *total = NULL;
    unsigned trials = 0;
    enum ls_err rc = ls_hist_create(&total);

    for (size_t i = 0; rc == LS_OK && i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];
        bool counts = coord_trial_counts(trial);

        if (strcmp(trial->workload, page->names.workloads[w]) != 0 ||
            strcmp(trial->target, page->names.targets[t]) != 0 || !has_log(page, trial) ||
            (!counts && !page->in_series[i]))
            continue;
        if (counts) {
            rc = read_log(page, i, total);
            trials++;
        } else {
            struct ls_hist *apart = NULL;

            rc = ls_hist_create(&apart);
            if (rc == LS_OK)
                rc = read_log(page, i, apart);
            ls_hist_destroy(apart);
        }
    }
    if (rc == LS_OK && ls_hist_count(total) > 0) {
        ls_buf_addf(curves,
                    "%s{\"workload\":%zu,\"target\":%zu,\"trials\":%u,\"count\":%" PRIu64
                    ",\"points\":",
                    curves->len > 0 ? "," : "", w, t, trials, ls_hist_count(total));
        coord_html_quantiles(total, curves);
        ls_buf_adds(curves, "}");
    }
    ls_hist_destroy(total);
    return rc;
}

static enum ls_err histograms(struct page *page)
{
    struct ls_buf curves;
    enum ls_err rc = LS_OK;

    ls_buf_init(&curves, JSON_MAX);
    coord_html_begin(&page->html, "heat");
    for (size_t w = 0; w < page->names.workload_count; w++) {
        for (size_t t = 0; t < page->names.target_count && rc == LS_OK; t++)
            rc = add_curve(page, &curves, w, t);
    }
    ls_buf_adds(page->html.out, "],\"curves\":[");
    ls_buf_add(page->html.out, curves.data, curves.len);
    ls_buf_adds(page->html.out, "],");
    page->html.out->ok = page->html.out->ok && curves.ok;
    ls_buf_fini(&curves);
    return rc;
}

static void series(struct page *page)
{
    coord_html_begin(&page->html, "series");
    for (size_t i = 0; i < page->html.result->n_trials; i++) {
        if (!page->in_series[i])
            continue;
        coord_html_next(&page->html);
        ls_buf_addf(page->html.out, "{\"trial\":%zu,\"intervals\":", i);
        coord_html_intervals(page->html.result->trials[i], share_of(page, POINTS_OF_ALL),
                             page->html.out);
        ls_buf_adds(page->html.out, ",\"server\":");
        coord_html_samples(page->html.result->trials[i], share_of(page, POINTS_OF_ALL),
                           page->html.out);
        ls_buf_adds(page->html.out, "}");
    }
    ls_buf_adds(page->html.out, "],");
}

/* ---- trials, one by one */

static void searches(struct page *page)
{
    bool more = false;

    ls_buf_adds(page->html.out, "\"searches\":[");
    for (size_t i = 0; i < page->html.result->n_trials; i++) {
        const Ls__Trial *trial = page->html.result->trials[i];
        const Ls__CapacityResult *found = trial->capacity;
        struct coord_table rows;

        if (found == NULL)
            continue;
        ls_buf_addf(page->html.out, "%s{\"trial\":%zu,\"rate\":", more ? "," : "", i);
        more = true;
        number(page, found->rate_per_s);
        ls_buf_adds(page->html.out, ",\"low\":");
        number(page, found->low_per_s);
        ls_buf_adds(page->html.out, ",\"high\":");
        number(page, found->high_per_s);
        ls_buf_adds(page->html.out, ",");
        coord_html_begin(&page->html, "limits");
        for (size_t l = 0; l < found->n_limits; l++) {
            coord_html_next(&page->html);
            coord_html_text(&page->html, found->limits[l]);
        }
        ls_buf_adds(page->html.out, "],");
        coord_part_probes(trial, &rows);
        coord_html_table(&page->html, "probes", &rows);
        ls_buf_adds(page->html.out, "\"end\":0}");
    }
    ls_buf_adds(page->html.out, "],");
}

static void ladders(struct page *page)
{
    bool more = false;

    ls_buf_adds(page->html.out, "\"ladders\":[");
    for (size_t i = 0; i < page->html.result->n_trials; i++) {
        const Ls__Trial *trial = page->html.result->trials[i];
        struct coord_table rows;

        if (trial->ladder == NULL)
            continue;
        ls_buf_addf(page->html.out, "%s{\"trial\":%zu,", more ? "," : "", i);
        more = true;
        coord_part_rungs(trial, &rows);
        coord_html_table(&page->html, "rungs", &rows);
        ls_buf_adds(page->html.out, "\"end\":0}");
    }
    ls_buf_adds(page->html.out, "],");
}

/* ---- how it was made */

static void plan(struct page *page)
{
    char path[PATH_MAX];
    char *data = NULL;
    size_t len = 0;

    if (page->dir == NULL || coord_path(page->dir, COORD_PLAN_FILE, path, NULL) != LS_OK ||
        ls_fs_read(path, 16u << 20, &data, &len, NULL) != LS_OK)
        return; /* without: the page says nothing of it */
    ls_buf_adds(page->html.out, "\"plan\":[");
    page->html.first = true;
    for (char *line = data, *end; line != NULL && line - data < PLAN_MAX_BYTES; line = end) {
        end = strchr(line, '\n');
        if (end != NULL)
            *end++ = '\0';
        coord_html_next(&page->html);
        coord_escape_json(page->html.out, line, 400);
    }
    ls_buf_adds(page->html.out, "],");
    free(data);
}

static void files(struct page *page)
{
    struct coord_sums sums = { 0 };
    size_t shown = 0;

    if (page->dir == NULL || coord_sums_read(&sums, page->dir, NULL) != LS_OK)
        return;
    coord_html_begin(&page->html, "files");
    for (size_t i = 0; i < sums.n; i++) {
        const struct coord_sum *sum = &sums.items[i];

        /* What changes until the run has ended has another hash by then. */
        if (strchr(sum->path, '/') == NULL && strcmp(sum->path, COORD_PLAN_FILE) != 0)
            continue;
        if (shown++ >= FILES_MAX)
            continue;
        coord_html_next(&page->html);
        ls_buf_adds(page->html.out, "[");
        coord_html_text(&page->html, sum->path);
        ls_buf_adds(page->html.out, ",");
        coord_html_text(&page->html, sum->hex);
        ls_buf_adds(page->html.out, "]");
    }
    ls_buf_addf(page->html.out, "],\"files_left_out\":%zu,",
                shown > FILES_MAX ? shown - FILES_MAX : 0);
    coord_sums_fini(&sums);
}

static void csv(struct page *page)
{
    struct ls_buf rows;

    ls_buf_init(&rows, COORD_RESULT_MAX_BYTES);
    coord_report_csv(page->html.result, &rows);
    page->html.out->ok = page->html.out->ok && rows.ok;
    if (rows.ok && rows.len <= CSV_MAX_BYTES) {
        ls_buf_adds(page->html.out, "\"csv\":[");
        page->html.first = true;
        for (char *line = (char *)rows.data, *end; line != NULL && *line != '\0'; line = end) {
            end = strchr(line, '\n');
            if (end != NULL)
                *end++ = '\0';
            coord_html_next(&page->html);
            coord_escape_json(page->html.out, line, CSV_MAX_BYTES);
        }
        ls_buf_adds(page->html.out, "],");
    }
    ls_buf_fini(&rows);
}

static void changes(struct page *page)
{
    coord_html_begin(&page->html, "changes");
    for (size_t i = 0; i < page->html.result->n_changes; i++) {
        coord_html_next(&page->html);
        coord_html_text(&page->html, page->html.result->changes[i]);
    }
    ls_buf_adds(page->html.out, "],");
}

static void head(struct page *page)
{
    const Ls__Result *result = page->html.result;

    coord_html_named(&page->html, "title", result->name[0] != '\0' ? result->name : "lockstep");
    coord_html_named(&page->html, "description", result->description);
    coord_html_named(&page->html, "run_id", result->run_id);
    coord_html_named(&page->html, "version", result->lockstep_version);
    coord_html_named(&page->html, "started", result->started_at);
    coord_html_named(&page->html, "finished", result->finished_at);
    coord_html_named(&page->html, "plan_sha256", result->plan_sha256);
    coord_html_named(&page->html, "run_status", result->status);
    coord_html_named(&page->html, "only", result->only);
    ls_buf_addf(page->html.out, "\"seed\":%" PRIu64 ",", result->seed);
    coord_html_say(&page->html, "status", coord_part_status);
    coord_html_say(&page->html, "verdict", coord_part_verdict);
    coord_html_say(&page->html, "reasons", coord_part_reasons);
    coord_html_targets(&page->html, &page->names);
}

static enum ls_err write_data(struct page *page)
{
    struct coord_table rows;
    enum ls_err rc;

    ls_buf_adds(page->html.out, "{");
    head(page);
    pages(page);
    ls_buf_adds(page->html.out, "\"workloads\":[");
    for (size_t i = 0; i < page->names.workload_count; i++) {
        ls_buf_adds(page->html.out, i > 0 ? "," : "");
        workload(page, page->names.workloads[i]);
    }
    ls_buf_adds(page->html.out, "],");
    coord_part_standings(page->html.result, &rows);
    coord_html_table(&page->html, "standings", &rows);
    series(page);
    rc = histograms(page);
    coord_part_trials(page->html.result, false, &rows);
    coord_html_table(&page->html, "trials", &rows);
    coord_html_dots(&page->html, &page->names);
    searches(page);
    ladders(page);
    coord_html_agents(page->html.result, AGENT_ROWS_MAX, &rows);
    coord_html_table(&page->html, "agents", &rows);
    coord_html_servers(page->html.result, &rows);
    coord_html_table(&page->html, "servers", &rows);
    coord_html_hosts(page->html.result, &rows);
    coord_html_table(&page->html, "hosts", &rows);
    coord_html_programs(page->html.result, &rows);
    coord_html_table(&page->html, "programs", &rows);
    coord_html_say(&page->html, "clocks", coord_part_hosts);
    coord_html_say(&page->html, "method", coord_part_method);
    changes(page);
    plan(page);
    files(page);
    csv(page);
    ls_buf_addf(page->html.out, "\"series_max\":%d,\"agent_rows_max\":%d}", SERIES_MAX,
                AGENT_ROWS_MAX);
    return rc;
}

void coord_report_html(const Ls__Result *result, const struct coord_report_options *options,
                       struct ls_buf *out)
{
    struct ls_buf data, title;
    struct page page = { .html = { .result = result, .out = &data }, .dir = options->dir };
    bool named;

    ls_buf_init(&data, JSON_MAX);
    ls_buf_init(&title, JSON_MAX);
    named = coord_html_names_init(&page.names, result);
    coord_escape_text(&title, result->name[0] != '\0' ? result->name : "lockstep");
    if (named && choose_series(&page) == LS_OK && write_data(&page) == LS_OK && data.ok && title.ok)
        coord_page_write(COORD_PAGE_REPORT, (const char *)title.data,
                         (struct ls_bytes){ data.data, data.len }, out);
    else
        out->ok = false;
    coord_html_names_fini(&page.names);
    free(page.in_series);
    ls_buf_fini(&data);
    ls_buf_fini(&title);
}
