/* coordinator/result/rank_test.h - do two handfuls of runs differ, or could chance have made it?
 *
 * Wilcoxon's rank-sum test (Wilcoxon 1945; Mann and Whitney 1947), two-sided, with mean ranks for
 * ties. No assumption about how runs are spread, and one wild run moves a rank, not a mean. Pure.
 */
#ifndef LS_COORDINATOR_RESULT_RANK_TEST_H
#define LS_COORDINATOR_RESULT_RANK_TEST_H

#include <stddef.h>

#include "common/err.h"

#define COORD_RANK_EXACT_MAX 60u /* runs of both together; beyond that the normal approximation */

/* The probability that as uneven a sharing of the ranks comes from runs that do not differ: of all
 * sharings of these ranks up to COORD_RANK_EXACT_MAX runs, else by the normal approximation with
 * corrections for ties and continuity. Finite values, at least one on each side: LS_EINVAL.
 * LS_ENOMEM. */
enum ls_err coord_rank_test(const double *a, size_t na, const double *b, size_t nb,
                            double *out_p) LS_NODISCARD;

/* The smallest p that na and nb runs can give, however far apart they are: 2 / C(na + nb, na). With
 * three and three that is 0.1. */
double coord_rank_least_p(size_t na, size_t nb);

/* Runs on each side with which a change of the medians by change (0.05: 5 %) is found at level in 8
 * of 10 cases, if single runs scatter with the relative standard deviation spread: what Student's
 * test of two means needs, over the rank test's efficiency of 3/pi (Lehmann, Nonparametrics, 2.3),
 * and at least what coord_rank_least_p needs. At most 1000. */
unsigned coord_rank_runs_needed(double spread, double change, double level);

#endif
