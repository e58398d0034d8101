/* coordinator/history/change_points.h - where in a series of figures its level has changed.
 *
 * E-divisive means (Matteson and James, "A Nonparametric Approach for Multiple Change Point
 * Analysis of Multivariate Data", 2014), as used on benchmark histories by Daly et al., "The Use of
 * Change Point Detection to Identify Software Performance Regressions in a Continuous Integration
 * System", 2020: the split of a segment at which the energy distance of its sides is largest,
 * tested by permuting the segment, and then the same on either side. No assumption about how
 * figures are spread but that they do not depend on each other. Pure, and the same on every
 * machine.
 */
#ifndef LS_COORDINATOR_HISTORY_CHANGE_POINTS_H
#define LS_COORDINATOR_HISTORY_CHANGE_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define COORD_CHANGE_LEVEL        0.01 /* a series that does not change shows one as often as that */
#define COORD_CHANGE_PERMUTATIONS 499u
#define COORD_CHANGE_LEAST        3u   /* figures on either side */
#define COORD_CHANGE_MOST         500u /* figures of a series: the work is their square */

struct coord_change {
    size_t at; /* the first figure of the new level */
    double p;
};

/* Changes of n finite values in their order, sorted by place. n <= COORD_CHANGE_MOST: LS_ERANGE.
 * LS_ENOMEM. On LS_OK the caller frees *out, which may be NULL when there is none. */
enum ls_err coord_change_points(const double *values, size_t n, uint64_t seed,
                                struct coord_change **out, size_t *out_count) LS_NODISCARD;

#endif
