/* coordinator/result/html_figures.h - bars and dots: figures of trials and of their summary as
 * JSON, for report_html.c and report_live.c. coordinator/page/figures.js shows them. */
#ifndef LS_COORDINATOR_RESULT_HTML_FIGURES_H
#define LS_COORDINATOR_RESULT_HTML_FIGURES_H

#include "coordinator/result/html_json.h"

/* The different targets and workloads of a result, which JSON names by their places. */
struct coord_html_names {
    const char **targets, **workloads; /* the arrays are owned, the names borrowed */
    size_t target_count, workload_count;
};

/* False: out of memory; it is for fini all the same. */
bool coord_html_names_init(struct coord_html_names *names, const Ls__Result *result) LS_NODISCARD;
void coord_html_names_fini(struct coord_html_names *names);
size_t coord_html_place(const char **names, size_t count, const char *name);

/* "targets":[name ...], */
void coord_html_targets(struct coord_html *html, const struct coord_html_names *names);
/* "bars":[{"metric", "title", "unit", "higher", "rows": [[target, n, median, low, high, min, max,
 * median as text]]}], of a workload: the metrics that have bars. */
void coord_html_bars(struct coord_html *html, const struct coord_html_names *names,
                     const char *workload);
/* "dots":{"metrics": [[title, unit]], "trials": [[index, target, workload, repetition, counts, a
 * figure of each metric or null]]}, in the order in which the trials ran. */
void coord_html_dots(struct coord_html *html, const struct coord_html_names *names);

#endif
