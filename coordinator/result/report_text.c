#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/result/escape.h"
#include "coordinator/result/report_parts.h"
#include "coordinator/result/summary.h"

enum { COLUMNS_DEFAULT = 80, COLUMNS_LEAST = 60, COLUMNS_MOST = 400 };

struct page {
    struct ls_buf *out;
    struct ls_buf line; /* escaped text in the making */
    unsigned columns;
    bool colour;
    const char *indent; /* of sentences */
};

static size_t width_of(const char *text, size_t len)
{
    size_t width = 0;

    for (size_t i = 0; i < len; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

void coord_report_wrap(struct ls_buf *out, unsigned columns, const char *text, const char *indent,
                       const char *hang)
{
    size_t at = strlen(indent);
    bool first = true;

    ls_buf_adds(out, indent);
    while (*text != '\0') {
        size_t len = strcspn(text, " "), width = width_of(text, len);

        if (!first && at + 1 + width > columns) {
            ls_buf_addf(out, "\n%s", hang);
            at = strlen(hang);
        } else if (!first) {
            ls_buf_adds(out, " ");
            at++;
        }
        ls_buf_add(out, text, len);
        at += width;
        first = false;
        text += len;
        text += *text == ' ';
    }
}

static void wrap(struct page *page, const char *text, const char *indent, const char *hang)
{
    coord_report_wrap(page->out, page->columns, text, indent, hang);
}

static void sentence(void *ctx, enum coord_style style, const char *text)
{
    struct page *page = ctx;
    char hang[16];

    ls_buf_reset(&page->line);
    coord_escape_text(&page->line, text);
    page->out->ok = page->out->ok && page->line.ok;
    (void)snprintf(hang, sizeof(hang), "%s  ", page->indent);
    ls_buf_adds(page->out, coord_style_begin(style, page->colour));
    wrap(page, page->line.data != NULL ? (const char *)page->line.data : "", page->indent, hang);
    ls_buf_adds(page->out, coord_style_end(style, page->colour));
    ls_buf_adds(page->out, "\n");
}

static void heading(struct page *page, const char *title, const char *more)
{
    ls_buf_reset(&page->line);
    coord_escape_text(&page->line, title);
    if (more != NULL && more[0] != '\0') {
        ls_buf_adds(&page->line, ": ");
        coord_escape_text(&page->line, more);
    }
    page->out->ok = page->out->ok && page->line.ok;
    ls_buf_adds(page->out, page->colour ? "\033[1m" : "");
    wrap(page, page->line.data != NULL ? (const char *)page->line.data : "", "", "  ");
    ls_buf_adds(page->out, page->colour ? "\033[0m\n" : "\n");
}

/* A list of sentences under a title, or nothing at all. */
static void section(struct page *page, const char *title, const Ls__Result *result,
                    void (*part)(const Ls__Result *result, struct coord_say *say))
{
    struct ls_buf *out = page->out, body;
    struct coord_say to = { .say = sentence, .ctx = page };

    ls_buf_init(&body, out->max);
    page->out = &body;
    part(result, &to);
    page->out = out;
    if (body.len > 0) {
        ls_buf_adds(out, "\n");
        heading(page, title, NULL);
        ls_buf_add(out, body.data, body.len);
    }
    out->ok = out->ok && body.ok && !to.failed;
    ls_buf_fini(&body);
}

static void table(struct page *page, struct coord_table *rows)
{
    if (!rows->ok || rows->cell_count > 0)
        coord_table_write_text(rows, page->columns, page->colour, page->out);
    coord_table_fini(rows);
}

/* With a line below it; nothing where there are no rows. */
static void table_apart(struct page *page, struct coord_table *rows)
{
    bool shown = !rows->ok || rows->cell_count > 0;

    table(page, rows);
    ls_buf_adds(page->out, shown ? "\n" : "");
}

static void workload(struct page *page, const Ls__Result *result, const char *name)
{
    struct coord_say to = { .say = sentence, .ctx = page };
    struct coord_table rows;

    ls_buf_adds(page->out, "\n");
    heading(page, name, NULL);
    coord_part_load(result, name, &to);
    ls_buf_adds(page->out, "\n");
    coord_part_summary(result, name, &rows);
    table(page, &rows);
    ls_buf_adds(page->out, "\n");
    coord_part_scripts(result, name, &rows);
    table_apart(page, &rows);
    coord_part_ratios(result, name, &rows);
    table_apart(page, &rows);
    coord_part_capacity(result, name, &to);
    coord_part_comparisons(result, name, &to);
    coord_part_notes(result, name, &to);
    page->out->ok = page->out->ok && !to.failed;
}

/* Searches and ladders: what was measured one by one, and its curve. */
static void searches(struct page *page, const Ls__Result *result)
{
    struct coord_table rows;

    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (trial->capacity == NULL && trial->ladder == NULL)
            continue;
        ls_buf_adds(page->out, "\n");
        heading(page, trial->ladder != NULL ? "Ladder" : "Probes", trial->target);
        if (trial->ladder != NULL)
            coord_part_rungs(trial, &rows);
        else
            coord_part_probes(trial, &rows);
        table(page, &rows);
        ls_buf_adds(page->out, "\n");
        coord_part_curve(trial, &rows);
        table(page, &rows);
    }
}

/* The plan's own tables, in the place of one for each workload. */
static void pages(struct page *page, const Ls__Result *result)
{
    struct coord_say to = { .say = sentence, .ctx = page };
    struct coord_table rows;

    for (size_t i = 0; i < result->n_pages; i++) {
        ls_buf_adds(page->out, "\n");
        heading(page, result->pages[i]->title, NULL);
        coord_part_page(result->pages[i], &rows);
        table(page, &rows);
        coord_part_page_notes(result->pages[i], &to);
    }
    page->out->ok = page->out->ok && !to.failed;
}

static void workloads(struct page *page, const Ls__Result *result)
{
    const char **names = NULL;
    size_t n = coord_result_workloads(result, &names);

    page->out->ok = page->out->ok && names != NULL;
    for (size_t i = 0; i < n; i++)
        workload(page, result, names[i]);
    free(names);
}

static void all_trials(struct page *page, const Ls__Result *result)
{
    struct coord_table rows;

    if (result->n_pages > 0)
        pages(page, result);
    else
        workloads(page, result);
    if (result->n_trials == 0)
        return;
    searches(page, result);
    ls_buf_adds(page->out, "\n");
    heading(page, "Trials", NULL);
    coord_part_trials(result, false, &rows);
    table(page, &rows);
    if (result->n_standings < 2)
        return;
    ls_buf_adds(page->out, "\n");
    heading(page, "Places, by the medians of all metrics that are ranked", NULL);
    coord_part_standings(result, &rows);
    table(page, &rows);
}

static void single(struct page *page, const Ls__Result *result)
{
    const Ls__Trial *trial = result->trials[0];
    struct coord_say to = { .say = sentence, .ctx = page };
    struct coord_table rows;

    ls_buf_adds(page->out, "\n");
    heading(page, trial->target, trial->workload);
    coord_part_load(result, trial->workload, &to);
    ls_buf_adds(page->out, "\n");
    coord_part_capacity(result, trial->workload, &to);
    coord_part_details(trial, &to);
    coord_part_latency(trial, &rows);
    if (rows.cell_count > 0)
        ls_buf_adds(page->out, "\n");
    table(page, &rows);
    searches(page, result);
}

void coord_report_text(const Ls__Result *result, const struct coord_report_options *options,
                       struct ls_buf *out)
{
    struct page page = { .out = out, .colour = options->colour, .indent = "" };
    struct coord_say to = { .say = sentence, .ctx = &page };

    page.columns = options->columns == 0              ? COLUMNS_DEFAULT
                   : options->columns < COLUMNS_LEAST ? COLUMNS_LEAST
                   : options->columns > COLUMNS_MOST  ? COLUMNS_MOST
                                                      : options->columns;
    ls_buf_init(&page.line, out->max);
    heading(&page, result->name[0] != '\0' ? result->name : "lockstep", result->description);
    coord_part_status(result, &to);
    page.indent = "  ";
    if (result->n_trials == 1 && result->n_pages == 0)
        single(&page, result);
    else
        all_trials(&page, result);
    if (result->n_trials > 0)
        ls_buf_adds(out, "\n");
    page.indent = "";
    coord_part_verdict(result, &to);
    page.indent = "  ";
    coord_part_reasons(result, &to);
    section(&page, "Targets", result, coord_part_targets);
    section(&page, "Hosts", result, coord_part_hosts);
    section(&page, "Method", result, coord_part_method);
    if (options->dir != NULL) {
        ls_buf_adds(out, "\nFiles: ");
        coord_escape_text(out, options->dir);
        ls_buf_adds(out, "\n");
    }
    ls_buf_fini(&page.line);
}
