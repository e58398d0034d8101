#include "coordinator/result/report_live.h"

#include "coordinator/result/html_figures.h"
#include "coordinator/result/html_json.h"
#include "coordinator/result/html_parts.h"
#include "coordinator/result/summary.h"

#define TRIALS_MAX     200u
#define AGENT_ROWS_MAX 400u

static void workload(struct coord_html *html, const struct coord_html_names *names,
                     const char *name)
{
    struct coord_table rows;

    ls_buf_adds(html->out, "{");
    coord_html_named(html, "name", name);
    coord_html_say_of(html, "load", name, coord_part_load);
    coord_part_summary(html->result, name, &rows);
    coord_html_table(html, "summary", &rows);
    coord_part_ratios(html->result, name, &rows);
    coord_html_table(html, "ratios", &rows);
    coord_html_say_of(html, "comparisons", name, coord_part_comparisons);
    coord_html_say_of(html, "notes", name, coord_part_notes);
    coord_html_bars(html, names, name);
    ls_buf_adds(html->out, "\"end\":0}");
}

/* What is listed trial by trial, of the newest ones. */
static void trials(struct coord_html *html, const struct coord_html_names *names)
{
    const Ls__Result *all = html->result;
    size_t left_out = all->n_trials > TRIALS_MAX ? all->n_trials - TRIALS_MAX : 0;
    Ls__Result newest = *all; /* borrows all of it */
    struct coord_table rows;

    newest.trials = left_out > 0 ? all->trials + left_out : all->trials;
    newest.n_trials -= left_out;
    html->result = &newest;
    coord_part_trials(&newest, false, &rows);
    coord_html_table(html, "trials", &rows);
    coord_html_dots(html, names);
    coord_html_agents(&newest, AGENT_ROWS_MAX, &rows);
    coord_html_table(html, "agents", &rows);
    ls_buf_addf(html->out, "\"left_out\":%zu,", left_out);
    html->result = all;
}

void coord_report_live(const Ls__Result *result, struct ls_buf *out)
{
    struct coord_html html = { .result = result, .out = out };
    struct coord_html_names names;

    out->ok = coord_html_names_init(&names, result) && out->ok;
    ls_buf_adds(out, "{");
    if (out->ok) {
        coord_html_targets(&html, &names);
        trials(&html, &names);
    }
    ls_buf_adds(out, "\"workloads\":[");
    for (size_t i = 0; out->ok && i < names.workload_count; i++) {
        ls_buf_adds(out, i > 0 ? "," : "");
        workload(&html, &names, names.workloads[i]);
    }
    ls_buf_adds(out, "],");
    coord_html_say(&html, "verdict", coord_part_verdict);
    coord_html_say(&html, "reasons", coord_part_reasons);
    ls_buf_adds(out, "\"end\":0}");
    coord_html_names_fini(&names);
}
