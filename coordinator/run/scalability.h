/* coordinator/run/scalability.h - the Universal Scalability Law, fitted to what was measured. Pure.
 *
 *     X(N) = per_s N / (1 + contention (N - 1) + coherency N (N - 1))
 *
 * Gunther, Guerrilla Capacity Planning, 2007, chapters 4 and 5. N / X(N) is linear in the three
 * numbers 1 / per_s, contention / per_s and coherency / per_s: they come from weighted linear least
 * squares, of relative errors, with none of them below 0 (Lawson and Hanson, Solving Least Squares
 * Problems, 1974, 23: the best of all ways to hold some of them at 0). Intervals by resampling
 * residuals (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 9.4), from a seed.
 */
#ifndef LS_COORDINATOR_RUN_SCALABILITY_H
#define LS_COORDINATOR_RUN_SCALABILITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COORD_USL_POINTS_LEAST 4u /* of different N */
#define COORD_USL_POINTS_MOST  256u

struct coord_usl_point {
    double n; /* connections, instances: 1 at least */
    double per_s;
};

struct coord_usl_law {
    double per_s; /* of one */
    double contention;
    double coherency;
};

struct coord_usl {
    struct coord_usl_law law;
    struct coord_usl_law low; /* 95 % intervals, number by number */
    struct coord_usl_law high;
    double peak_at; /* N of the largest throughput; INFINITY: it has none */
    double peak_low;
    double peak_high;
    double explained; /* R squared of X */
    double measured_to;
};

double coord_usl_at(const struct coord_usl_law *law, double n);
/* INFINITY where more is always more. */
double coord_usl_peak(const struct coord_usl_law *law);

/* False: too few points, or throughputs that are not above 0. */
bool coord_usl_fit(const struct coord_usl_point *points, size_t count, uint64_t seed,
                   struct coord_usl *out);

/* What must not be read out of it, in a sentence; "" if there is nothing special. Returns out. */
const char *coord_usl_warn(const struct coord_usl *usl, char *out, size_t out_bytes);

#endif
