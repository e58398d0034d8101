/* coordinator/result/compare.h - did it get slower? Two results, figure by figure.
 *
 * A figure is compared where both results have trials of the same target and workload that count.
 * Whether two sets of runs differ is decided by the rank-sum test (rank_test.h), and because a
 * comparison asks it many times, by p values adjusted for their number (Holm 1979): without any
 * difference at all, one comparison in 1 / level says that there is one.
 */
#ifndef LS_COORDINATOR_RESULT_COMPARE_H
#define LS_COORDINATOR_RESULT_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"
#include "coordinator/result/report.h"
#include "proto/result.pb-c.h"

#define COORD_COMPARE_LEVEL  0.05
#define COORD_COMPARE_CHANGE 0.05 /* what runs_needed is for, unless fail_on says otherwise */

struct coord_threshold {
    char *metric;   /* owned; as in Summary.metric */
    double fail_on; /* share of a's median */
};

struct coord_thresholds {
    struct coord_threshold *items; /* owned */
    size_t count;
};

struct coord_compare_options {
    double fail_on;                            /* share of a's median; 0: nothing fails */
    const struct coord_thresholds *thresholds; /* of particular metrics, instead; NULL: none */
    const char *const
        *metrics; /* names as in Summary.metric; NULL: those that a load is judged by */
    size_t metric_count;
    bool anyway; /* also where the load was another one */
};

/* Appends the comparison of b with a to out. LS_EINVAL: they have no target and workload in common,
 * or (unless anyway) not one of those had the same load in both; diag says what differs. LS_ENOMEM.
 */
enum ls_err coord_compare(const Ls__Result *a, const char *a_name, const Ls__Result *b,
                          const char *b_name, const struct coord_compare_options *options,
                          Ls__Comparisons *out, struct ls_diag *diag) LS_NODISCARD;

/* "5" and "5%" are 0.05. LS_EINVAL: not a percentage above 0. */
enum ls_err coord_compare_percent(const char *text, double *out, struct ls_diag *diag) LS_NODISCARD;

/* A file of the Thresholds message. LS_EINVAL: not one, or a metric that there is not; diag says
 * all that is wrong, a line each. LS_EIO, LS_ENOMEM. Freed by coord_thresholds_fini, also then. */
enum ls_err coord_thresholds_read(const char *path, struct coord_thresholds *out,
                                  struct ls_diag *diag) LS_NODISCARD;
void coord_thresholds_fini(struct coord_thresholds *thresholds);

/* Text, Markdown, CSV or JSON of all comparisons. LS_ENOMEM. */
enum ls_err coord_compare_render(const Ls__Comparisons *comparisons,
                                 enum coord_report_format format,
                                 const struct coord_report_options *options, struct ls_buf *out,
                                 struct ls_diag *diag) LS_NODISCARD;

#endif
