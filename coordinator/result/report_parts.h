/* coordinator/result/report_parts.h - what a report says, before anybody decides how it looks:
 * tables, and sentences one by one. text and markdown are made of the same parts. */
#ifndef LS_COORDINATOR_RESULT_REPORT_PARTS_H
#define LS_COORDINATOR_RESULT_REPORT_PARTS_H

#include "coordinator/result/report.h"
#include "coordinator/result/summary.h"
#include "coordinator/result/table.h"

/* Renderers of the formats, called by coord_report(). */
void coord_report_text(const Ls__Result *result, const struct coord_report_options *options,
                       struct ls_buf *out);
void coord_report_markdown(const Ls__Result *result, struct ls_buf *out);
void coord_report_html(const Ls__Result *result, const struct coord_report_options *options,
                       struct ls_buf *out);
/* Escaped text, broken at blanks into lines of at most columns; a longer word stays whole. */
void coord_report_wrap(struct ls_buf *out, unsigned columns, const char *text, const char *indent,
                       const char *hang);
void coord_report_csv(const Ls__Result *result, struct ls_buf *out);
void coord_report_json(const Ls__Result *result, struct ls_buf *out);

/* ---- tables; the caller calls coord_table_fini */

/* One row a target: medians of the trials that count, of one workload. */
void coord_part_summary(const Ls__Result *result, const char *workload, struct coord_table *out);
/* Of the metrics that are compared, a row for each target: how it stands beside the best. No row:
 * there is only one. */
void coord_part_ratios(const Ls__Result *result, const char *workload, struct coord_table *out);
/* One row a trial. all: every figure (csv), else what fits a page. */
void coord_part_trials(const Ls__Result *result, bool all, struct coord_table *out);
/* Every percentile of one trial: a row for response time, service time, send lag. */
void coord_part_latency(const Ls__Trial *trial, struct coord_table *out);
/* The probes of a search by their rates: throughput and latency over load. No row: it was none. */
void coord_part_probes(const Ls__Trial *trial, struct coord_table *out);
/* The rungs of a ladder, as they were climbed. No row: it was none. */
void coord_part_rungs(const Ls__Trial *trial, struct coord_table *out);
/* Of a search or a ladder, with bars of characters. */
void coord_part_curve(const Ls__Trial *trial, struct coord_table *out);
void coord_part_standings(const Ls__Result *result, struct coord_table *out);
/* A table in the shape of the plan's. Its columns' names are the page's, which has to outlive it.
 */
void coord_part_page(const Ls__Page *page, struct coord_table *out);

/* report_process.c: wall times of a process workload, a row a target; and what its scripts have
 * measured themselves, a row a metric and target. */
bool coord_report_is_process(const Ls__Result *result, const char *workload);
void coord_part_process(const Ls__Result *result, const char *workload, struct coord_table *out);
void coord_part_scripts(const Ls__Result *result, const char *workload, struct coord_table *out);
/* "2 valid, 1 suspect", "3 skipped", as a cell. */
void coord_part_verdicts_cell(const Ls__Result *result, const char *workload, const char *target,
                              struct coord_table *out);
/* What others have published of it (metric NULL: of anything but scripts' own), or nothing. */
void coord_part_published_cell(const Ls__Result *result, const char *workload, const char *target,
                               const char *metric, struct coord_table *out);
/* The verdict, or why there is none: "skipped", "n/a"; "other version". */
const char *coord_trial_label(const Ls__Trial *trial);

/* Names of the metrics by which targets are compared in a workload; NULL ends them. */
const char *const *coord_report_compared(const Ls__Result *result, const char *workload);
/* The target with the best median; NULL: none has one. */
const char *coord_report_best(const Ls__Result *result, const char *workload,
                              const char *const *targets, size_t n,
                              const struct coord_metric *metric);

/* ---- sentences. The text holds names as they are: say() must escape it. */

struct coord_say {
    void (*say)(void *ctx, enum coord_style style, const char *text);
    void *ctx;
    bool failed; /* set when there was no memory for a sentence */
};

/* "closed, 64 connections, 2 clients" and what the latencies are, of a workload's first trial. */
void coord_part_load(const Ls__Result *result, const char *workload, struct coord_say *say);
/* What is to be known of a page's table. */
void coord_part_page_notes(const Ls__Page *page, struct coord_say *say);
/* "nginx: 1.21x (1.18 to 1.25) more requests/s than node", "no difference shown ..." */
void coord_part_comparisons(const Ls__Result *result, const char *workload, struct coord_say *say);
/* Whether a network is in the figures. */
void coord_part_path(const Ls__Trial *trial, struct coord_say *say);
/* Its round trips, and how much of the latency they are. */
void coord_part_network(const Ls__Trial *trial, struct coord_say *say);
/* What searches and ladders of this workload found, one by one. */
void coord_part_capacity(const Ls__Result *result, const char *workload, struct coord_say *say);
/* Of a process workload: how runs ended that did not just end well, and under which limits. */
void coord_part_outcomes(const Ls__Result *result, const char *workload, struct coord_say *say);
/* Why cells have no figures, or are not ranked; and what others have published. */
void coord_part_cells(const Ls__Result *result, const char *workload, struct coord_say *say);
void coord_part_process_details(const Ls__Trial *trial, struct coord_say *say);
/* What is to be known of a workload's summary: trials left out, spread. */
void coord_part_notes(const Ls__Result *result, const char *workload, struct coord_say *say);
/* "Verdict: 5 valid, 1 suspect, 0 invalid"; nothing where there is no trial. */
void coord_part_verdict(const Ls__Result *result, struct coord_say *say);
/* Each reason once, with the trials that it holds for, worst first. */
void coord_part_reasons(const Ls__Result *result, struct coord_say *say);
/* Requests, connections, server, clients of one trial, a line each. */
void coord_part_details(const Ls__Trial *trial, struct coord_say *say);
/* What was tested and where. */
void coord_part_targets(const Ls__Result *result, struct coord_say *say);
void coord_part_hosts(const Ls__Result *result, struct coord_say *say);
/* How to read the intervals; nothing when there are none. */
void coord_part_method(const Ls__Result *result, struct coord_say *say);

/* "6 of 6 trials, complete" */
void coord_part_status(const Ls__Result *result, struct coord_say *say);

#endif
