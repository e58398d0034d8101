/* coordinator/result/summary.h - repetitions put together: per target, workload and metric, over
 * the valid and suspect trials; and who is first, second, third in how many metrics. */
#ifndef LS_COORDINATOR_RESULT_SUMMARY_H
#define LS_COORDINATOR_RESULT_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>

#include "coordinator/result/stats.h"
#include "coordinator/result/unit.h"
#include "proto/result.pb-c.h"

struct coord_metric {
    const char *name;  /* as in Summary.metric: "throughput_per_s" */
    const char *title; /* as a column of a report: "requests/s" */
    const char *noun;  /* "requests/s", "p99 service time" */
    const char *more;  /* what a ratio above 1 says: "more requests/s" */
    enum coord_unit unit;
    bool higher_is_better;
    /* Ranked in standings? Not what is the same for all by the plan, and not a single sample. */
    bool ranked_closed;
    bool ranked_open;
    /* Where it is: a percentile (offsets of the Latency in Trial and of the field in it), or what a
     * function says. */
    size_t series;
    size_t field;
    bool (*get)(const Ls__Trial *trial, double *out);
    size_t spread;      /* of a process workload: offset of the Spread in ProcessResult, then of */
    size_t statistic;   /* the figure in it */
    const char *script; /* a script's own: what it calls it */
};

#define COORD_SCRIPT_PREFIX "script/"

/* "script/sha256" as a metric; name, which begins so, lives as long as it. */
struct coord_metric coord_metric_script(const char *name, bool higher_is_better);
/* The same, whose direction is that of the trials; name lives as long as *out.
 * False: none of them has it. */
bool coord_metric_of_script(const Ls__Result *result, const char *name, struct coord_metric *out);
/* Either: one that is known here, or one of the result's scripts. False: neither. */
bool coord_metric_of(const Ls__Result *result, const char *name, struct coord_metric *out);
/* What a trial's script has printed of it; NULL: nothing. */
const Ls__ScriptMetric *coord_script_metric(const Ls__Trial *trial, const char *name);

/* The i-th metric, NULL past the last; by name, NULL if there is none. Those of page_metrics.h come
 * after those of summaries. */
const struct coord_metric *coord_metric_at(unsigned i);
const struct coord_metric *coord_metric_find(const char *name);
/* False: this trial did not measure it. In a closed loop the response time is the service time, and
 * only the latter is there. */
bool coord_metric_get(const struct coord_metric *metric, const Ls__Trial *trial, double *out);

/* The latency that a trial is judged by: its response time in an open loop, its service time in a
 * closed one. NULL: none was measured. */
const Ls__Latency *coord_trial_latency(const Ls__Trial *trial);
/* Offered at a rate, whatever the server does. */
bool coord_trial_is_open(const Ls__Trial *trial);

/* Replaces result->summary and result->standings from result->trials and result->seed. Call it
 * after each trial, before the result is written. LS_ENOMEM; both are then empty. */
enum ls_err coord_summary_build(Ls__Result *result) LS_NODISCARD;

/* Does it count? done, and not invalid. */
bool coord_trial_counts(const Ls__Trial *trial);

/* Places of n values, from 1: equal values share a place and the next one is left free (1 1 3).
 * Values that are equal all over place nobody: all 0. */
void coord_places(const double *values, unsigned n, bool higher_is_better, unsigned *out_places);

/* False: its figures are shown and compared with nobody's. It is of another version than the plan
 * is about, or one of its searches found no more than a lower bound of its capacity. */
bool coord_target_is_ranked(const Ls__Result *result, const char *workload, const char *target);

/* Is that figure no more than a lower bound? A search that counts ended with "at least". */
bool coord_figure_is_bound(const Ls__Result *result, const char *workload, const char *target,
                           const char *metric);

/* A trial of a warm-up round (schedule.discard): shown, and in no figure. */
bool coord_trial_is_discarded(const Ls__Trial *trial);

/* The figures of a target's trials that count, in their order, into values (room for all trials of
 * the result). Returns how many; *out_left_out (NULL is fine) is how many trials are not in it. */
size_t coord_summary_values(const Ls__Result *result, const char *workload, const char *target,
                            const struct coord_metric *metric, double *values,
                            uint32_t *out_left_out);

/* The row of result->summary, NULL if there is none. */
const Ls__Summary *coord_summary_find(const Ls__Result *result, const char *workload,
                                      const char *target, const char *metric);

/* Different targets, or workloads, of the trials in order of their first appearance. Returns their
 * number; *out_names (caller frees the array, not the names) is NULL for none, or out of memory. */
size_t coord_result_targets(const Ls__Result *result, const char ***out_names);
size_t coord_result_workloads(const Ls__Result *result, const char ***out_names);

/* a's median over b's, for the same workload and metric. LS_EINVAL: one of them has no trial that
 * counts, or a value of b is not above 0. LS_ENOMEM. */
enum ls_err coord_summary_ratio(const Ls__Result *result, const char *workload, const char *a,
                                const char *b, const struct coord_metric *metric,
                                struct coord_ratio *out) LS_NODISCARD;

/* "a: 1.21x (1.18 to 1.25) more requests/s than b", "no difference shown", "too few runs to tell".
 * Returns out. */
#define COORD_RATIO_TEXT_MAX 400u
const char *coord_ratio_describe(const struct coord_ratio *ratio, const struct coord_metric *metric,
                                 const char *a, const char *b, char *out, size_t out_bytes);

#endif
