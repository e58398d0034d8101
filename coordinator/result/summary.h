/* coordinator/result/summary.h - repetitions put together: per target, workload and metric, over
 * the valid and suspect trials; and who is first, second, third in how many metrics. */
#ifndef LS_COORDINATOR_RESULT_SUMMARY_H
#define LS_COORDINATOR_RESULT_SUMMARY_H

#include <stdbool.h>

#include "common/units.h"
#include "coordinator/result/stats.h"
#include "proto/result.pb-c.h"

enum coord_unit { COORD_UNIT_NONE, COORD_UNIT_PER_S, COORD_UNIT_NS, COORD_UNIT_BYTES };

struct coord_metric {
    const char *name;  /* as in Summary.metric: "throughput_per_s" */
    const char *title; /* as in reports: "requests/s" */
    const char *more;  /* "more requests/s": what a ratio above 1 means */
    const char *less;  /* "fewer requests/s" */
    enum coord_unit unit;
    bool higher_is_better;
    /* False: this trial does not have it. */
    bool (*get)(const Ls__Trial *trial, double *out);
};

/* The i-th metric, NULL past the last; by name, NULL if there is none. */
const struct coord_metric *coord_metric_at(unsigned i);
const struct coord_metric *coord_metric_find(const char *name);

/* Replaces result->summary and result->standings from result->trials and result->seed. Call it
 * after each trial, before the result is written. LS_ENOMEM; both are then empty. */
enum ls_err coord_summary_build(Ls__Result *result) LS_NODISCARD;

/* Does it count? done, and not invalid. */
bool coord_trial_counts(const Ls__Trial *trial);

/* Places of n values, from 1: equal values share a place and the next one is left free (1 1 3).
 * Values that are equal all over place nobody: all 0. */
void coord_places(const double *values, unsigned n, bool higher_is_better, unsigned *out_places);

/* a's median over b's, for the same workload and metric. LS_EINVAL: one of them has no trial that
 * counts, or b's median is 0. */
enum ls_err coord_summary_ratio(const Ls__Result *result, const char *workload, const char *a,
                                const char *b, const struct coord_metric *metric,
                                struct coord_ratio *out) LS_NODISCARD;

#endif
