#include <stdlib.h>

#include "coordinator/result/escape.h"
#include "coordinator/result/report_parts.h"
#include "coordinator/result/summary.h"

/* A sentence is a paragraph, or an item of a list. */
struct page {
    struct ls_buf *out;
    bool list;
};

static void sentence(void *ctx, enum coord_style style, const char *text)
{
    struct page *page = ctx;
    const char *strong = style == COORD_STYLE_BAD ? "**" : "";

    ls_buf_addf(page->out, "%s%s", page->list ? "- " : "", strong);
    coord_escape_markdown(page->out, text);
    ls_buf_addf(page->out, "%s\n%s", strong, page->list ? "" : "\n");
}

static void heading(struct ls_buf *out, const char *level, const char *title)
{
    ls_buf_addf(out, "%s ", level);
    coord_escape_markdown(out, title);
    ls_buf_adds(out, "\n\n");
}

static void table(struct ls_buf *out, struct coord_table *rows)
{
    if (!rows->ok || rows->cell_count > 0) {
        coord_table_write_markdown(rows, out);
        ls_buf_adds(out, "\n");
    }
    coord_table_fini(rows);
}

static void section(struct ls_buf *out, const char *title, const Ls__Result *result,
                    void (*part)(const Ls__Result *result, struct coord_say *say))
{
    struct ls_buf body;
    struct page page = { .out = &body, .list = true };
    struct coord_say to = { .say = sentence, .ctx = &page };

    ls_buf_init(&body, out->max);
    part(result, &to);
    if (body.len > 0) {
        heading(out, "##", title);
        ls_buf_add(out, body.data, body.len);
        ls_buf_adds(out, "\n");
    }
    out->ok = out->ok && body.ok && !to.failed;
    ls_buf_fini(&body);
}

static void workload(struct ls_buf *out, const Ls__Result *result, const char *name)
{
    struct page paragraph = { .out = out }, item = { .out = out, .list = true };
    struct coord_say text = { .say = sentence, .ctx = &paragraph };
    struct coord_say list = { .say = sentence, .ctx = &item };
    struct coord_table rows;

    heading(out, "##", name);
    coord_part_load(result, name, &text);
    coord_part_summary(result, name, &rows);
    table(out, &rows);
    coord_part_scripts(result, name, &rows);
    table(out, &rows);
    coord_part_ratios(result, name, &rows);
    table(out, &rows);
    coord_part_capacity(result, name, &list);
    coord_part_comparisons(result, name, &list);
    coord_part_notes(result, name, &list);
    out->ok = out->ok && !list.failed;
    ls_buf_adds(out, "\n");
}

/* The plan's own tables, in the place of one for each workload. */
static void pages(struct ls_buf *out, const Ls__Result *result)
{
    struct page item = { .out = out, .list = true };
    struct coord_say list = { .say = sentence, .ctx = &item };
    struct coord_table rows;

    for (size_t i = 0; i < result->n_pages; i++) {
        heading(out, "##", result->pages[i]->title);
        coord_part_page(result->pages[i], &rows);
        table(out, &rows);
        coord_part_page_notes(result->pages[i], &list);
        ls_buf_adds(out, "\n");
    }
    out->ok = out->ok && !list.failed;
}

static void verdict(const Ls__Result *result, struct coord_say *say)
{
    coord_part_verdict(result, say);
    coord_part_reasons(result, say);
}

void coord_report_markdown(const Ls__Result *result, struct ls_buf *out)
{
    struct page paragraph = { .out = out };
    struct page item = { .out = out, .list = true };
    struct coord_say text = { .say = sentence, .ctx = &paragraph };
    struct coord_say list = { .say = sentence, .ctx = &item };
    const char **names = NULL;
    size_t n = coord_result_workloads(result, &names);
    struct coord_table rows;

    out->ok = out->ok && names != NULL;
    heading(out, "#", result->name[0] != '\0' ? result->name : "lockstep");
    if (result->description[0] != '\0')
        sentence(&paragraph, COORD_STYLE_NONE, result->description);
    coord_part_status(result, &text);
    pages(out, result);
    for (size_t i = 0; i < n && result->n_pages == 0; i++)
        workload(out, result, names[i]);
    free(names);
    if (result->n_trials == 1 && result->n_pages == 0) {
        heading(out, "##", "In detail");
        coord_part_latency(result->trials[0], &rows);
        table(out, &rows);
        coord_part_details(result->trials[0], &list);
        ls_buf_adds(out, "\n");
    }
    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (trial->capacity == NULL && trial->ladder == NULL)
            continue;
        heading(out, "##", trial->ladder != NULL ? "Ladder" : "Probes");
        if (trial->ladder != NULL)
            coord_part_rungs(trial, &rows);
        else
            coord_part_probes(trial, &rows);
        table(out, &rows);
    }
    if (result->n_trials > 1) {
        heading(out, "##", "Trials");
        coord_part_trials(result, false, &rows);
        table(out, &rows);
    }
    if (result->n_standings > 1) {
        heading(out, "##", "Places");
        coord_part_standings(result, &rows);
        table(out, &rows);
    }
    section(out, "Verdict", result, verdict);
    section(out, "Targets", result, coord_part_targets);
    section(out, "Hosts", result, coord_part_hosts);
    section(out, "Method", result, coord_part_method);
}
