#include "coordinator/result/report_live.h"

#include <stdlib.h>

#include "coordinator/result/html_json.h"
#include "coordinator/result/summary.h"

#define TRIALS_MAX 200u

static void workload(struct coord_html *html, const char *name)
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
    ls_buf_adds(html->out, "\"end\":0}");
}

void coord_report_live(const Ls__Result *result, struct ls_buf *out)
{
    struct coord_html html = { .result = result, .out = out };
    size_t left_out = result->n_trials > TRIALS_MAX ? result->n_trials - TRIALS_MAX : 0;
    Ls__Result newest = *result; /* borrows all of it */
    const char **names = NULL;
    size_t n = coord_result_workloads(result, &names);
    struct coord_table rows;

    newest.trials = left_out > 0 ? result->trials + left_out : result->trials;
    newest.n_trials -= left_out;
    out->ok = out->ok && (names != NULL || result->n_trials == 0);
    ls_buf_adds(out, "{");
    coord_part_trials(&newest, false, &rows);
    coord_html_table(&html, "trials", &rows);
    ls_buf_adds(out, "\"workloads\":[");
    for (size_t i = 0; names != NULL && i < n; i++) {
        ls_buf_adds(out, i > 0 ? "," : "");
        workload(&html, names[i]);
    }
    ls_buf_adds(out, "],");
    coord_html_say(&html, "verdict", coord_part_verdict);
    coord_html_say(&html, "reasons", coord_part_reasons);
    ls_buf_addf(out, "\"left_out\":%zu}", left_out);
    free(names);
}
