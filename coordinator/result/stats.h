/* coordinator/result/stats.h - what a handful of repetitions says. Pure; no allocation is kept. */
#ifndef LS_COORDINATOR_RESULT_STATS_H
#define LS_COORDINATOR_RESULT_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define COORD_BOOTSTRAP_RESAMPLES 10000u
#define COORD_NOISY_SPREAD        0.10 /* (max - min) / median */
/* Of fewer values, even the whole range holds the true median less often than 95 times in 100
 * (1 - 2^(1-n)): a bootstrap cannot know more. */
#define COORD_STATS_ENOUGH 6u
/* Of fewer values none can be told to lie outside the others (Tukey's fences need quartiles). */
#define COORD_OUTLIERS_FROM 5u
#define COORD_STATS_LEVEL   0.05 /* of the rank test behind a difference */

struct coord_stats {
    uint32_t n;
    double min, median, mean, stdev, max; /* stdev of the sample; 0 for n = 1 */
    double ci_low, ci_high; /* of the median: percentile bootstrap, 95 %; n <= 2: the range */
    bool ci_is_range;       /* n <= 2: an interval cannot be had from them */
    double spread;          /* (max - min) / median; 0 if the median is 0 */
    bool noisy;             /* spread above COORD_NOISY_SPREAD */
    /* Values beyond 1.5 interquartile ranges from the quartiles (Tukey 1977): they stay in all of
     * the above. 0 for n < COORD_OUTLIERS_FROM. */
    uint32_t outliers;
};

/* n >= 1, finite values, in any order (not changed). The same seed and stream give the same
 * interval on every machine. LS_EINVAL, LS_ENOMEM. */
enum ls_err coord_stats_compute(const double *values, size_t n, uint64_t seed, uint64_t stream,
                                struct coord_stats *out) LS_NODISCARD;

struct coord_ratio {
    size_t na, nb;
    double ratio;     /* of the medians, a over b */
    double low, high; /* percentile bootstrap, 95 %; n <= 2 on either side: the extremes */
    bool is_range;
    double p;    /* rank_test.h, two-sided */
    bool enough; /* that many runs can give a p of COORD_STATS_LEVEL */
    /* The interval leaves 1 out, and p is at most COORD_STATS_LEVEL; where the runs are not enough,
     * all of one side are more than COORD_NOISY_SPREAD beyond all of the other. Never claimed when
     * is_range. */
    bool differs;
};

/* LS_EINVAL if a side is empty, a value of a is negative, one of b not above 0. LS_ENOMEM. */
enum ls_err coord_stats_ratio(const double *a, size_t na, const double *b, size_t nb, uint64_t seed,
                              uint64_t stream, struct coord_ratio *out) LS_NODISCARD;

/* A stable number from names, for the stream argument. */
uint64_t coord_stats_stream(const char *a, const char *b, const char *c);

/* (after - before) / before, from unrounded values; 0 if before is 0. */
double coord_stats_change(double before, double after);

#endif
