/* coordinator/run/capacity_internal.h - shared by the files of a search (capacity*.c), by nobody
 * else. */
#ifndef LS_COORDINATOR_RUN_CAPACITY_INTERNAL_H
#define LS_COORDINATOR_RUN_CAPACITY_INTERNAL_H

#include "coordinator/run/capacity_points.h"

/* Independent answers beyond the limit that a probe should see if the limit is just met. */
#define COORD_CAPACITY_TAIL_BRACKET 20.0
#define COORD_POINTS_DEVIATIONS     2.5 /* beyond which a probe alone decides */
#define COORD_POINTS_EXCESS_MOST    5.0 /* of what is allowed; beyond it is the same how far */
#define COORD_POINTS_TREND          0.5 /* of the allowed share */
#define COORD_SEARCH_LONGEST_NS     INT64_C(1000000000000000) /* of anything: eleven days */
#define COORD_POINTS_OVERRULES      2 /* times as long: of two at one rate, the one that counts */

/* capacity_check.c: as coord_capacity_create. */
enum ls_err coord_capacity_check(const struct coord_capacity_settings *settings,
                                 struct ls_diag *diag) LS_NODISCARD;

/* capacity_points.c: how far above (positive) or below its allowed share a limit is, in standard
 * deviations that a share would have which is just the allowed one. */
double coord_points_distance(const struct coord_points *c, uint32_t limit, double breaking,
                             double requests, double rate_per_s);
/* Of a coarse limit that is not broken, no more is asked. */
bool coord_points_is_looked_at(const struct coord_points *c, uint32_t limit, double far);

/* capacity_points.c: does it say anything, and does no longer one say the contrary? */
bool coord_points_counts(const struct coord_points *c, size_t at);
/* capacity_draws.c: drawn_low and drawn_high, of points that have been judged. */
void coord_points_draw(struct coord_points *c);
/* capacity_bracket.c: how far a point is above its limits: 1 is just met. Beyond a few it is the
 * same how far. */
double coord_points_excess(const struct coord_points *c, size_t at);
/* capacity_bracket.c: who is overruled, holds, breaks, and both for sure; of points that have been
 * judged. */
void coord_points_bracket(struct coord_points *c);

#endif
