#include "coordinator/result/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "coordinator/result/rank_test.h"

static int compare(const void *a, const void *b)
{
    double x, y;

    (void)memcpy(&x, a, sizeof(x));
    (void)memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

static double median_of(const double *sorted, size_t n)
{
    return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Linear between order statistics, as R's default (type 7). */
static double quantile_of(const double *sorted, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t low = (size_t)at;

    if (low + 1 >= n)
        return sorted[n - 1];
    return sorted[low] + (at - (double)low) * (sorted[low + 1] - sorted[low]);
}

static uint32_t count_outliers(const double *sorted, size_t n)
{
    double low = quantile_of(sorted, n, 0.25), high = quantile_of(sorted, n, 0.75);
    double fence = 1.5 * (high - low);
    uint32_t count = 0;

    for (size_t i = 0; n >= COORD_OUTLIERS_FROM && i < n; i++)
        count += sorted[i] < low - fence || sorted[i] > high + fence;
    return count;
}

static double *sorted_copy(const double *values, size_t n)
{
    double *copy = malloc(n * sizeof(*copy));

    if (copy == NULL)
        return NULL;
    (void)memcpy(copy, values, n * sizeof(*copy));
    qsort(copy, n, sizeof(*copy), compare);
    return copy;
}

/* Draws n of n with replacement. The values are sorted, so counting what was drawn sorts the
 * sample, and its median is found in one walk. */
static double resampled_median(const double *sorted, size_t n, struct ls_rng *rng, uint32_t *tally)
{
    size_t low_rank = (n - 1) / 2, seen = 0, i = 0;
    double low;

    (void)memset(tally, 0, n * sizeof(*tally));
    for (size_t k = 0; k < n; k++)
        tally[ls_rng_below(rng, n)]++;
    for (;; i++) {
        seen += tally[i];
        if (seen > low_rank)
            break;
    }
    low = sorted[i];
    for (; seen <= n / 2; seen += tally[i])
        i++;
    return n % 2 == 1 ? low : (low + sorted[i]) / 2;
}

static bool all_finite(const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            return false;
    }
    return true;
}

static void moments(const double *values, size_t n, struct coord_stats *out)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i];
    out->mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - out->mean) * (values[i] - out->mean);
    out->stdev = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

enum ls_err coord_stats_compute(const double *values, size_t n, uint64_t seed, uint64_t stream,
                                struct coord_stats *out)
{
    struct coord_stats stats = { .n = (uint32_t)n };
    double *sorted = NULL, *medians = NULL;
    uint32_t *tally = NULL;
    struct ls_rng rng;
    enum ls_err rc = LS_ENOMEM;

    if (n == 0 || n > UINT32_MAX || !all_finite(values, n))
        return LS_EINVAL;
    sorted = sorted_copy(values, n);
    medians = calloc(COORD_BOOTSTRAP_RESAMPLES, sizeof(*medians));
    tally = calloc(n, sizeof(*tally));
    if (sorted == NULL || medians == NULL || tally == NULL)
        goto out;

    moments(sorted, n, &stats); /* of the sorted values: the order given changes no digit */
    stats.min = sorted[0];
    stats.max = sorted[n - 1];
    stats.median = median_of(sorted, n);
    stats.spread = stats.median != 0 ? (stats.max - stats.min) / fabs(stats.median) : 0;
    stats.noisy = stats.spread > COORD_NOISY_SPREAD;
    stats.outliers = count_outliers(sorted, n);
    stats.ci_is_range = n <= 2;
    stats.ci_low = stats.min;
    stats.ci_high = stats.max;
    if (!stats.ci_is_range) {
        ls_rng_init(&rng, seed, stream);
        for (size_t i = 0; i < COORD_BOOTSTRAP_RESAMPLES; i++)
            medians[i] = resampled_median(sorted, n, &rng, tally);
        qsort(medians, COORD_BOOTSTRAP_RESAMPLES, sizeof(*medians), compare);
        stats.ci_low = quantile_of(medians, COORD_BOOTSTRAP_RESAMPLES, 0.025);
        stats.ci_high = quantile_of(medians, COORD_BOOTSTRAP_RESAMPLES, 0.975);
    }
    *out = stats;
    rc = LS_OK;
out:
    free(tally);
    free(medians);
    free(sorted);
    return rc;
}

/* COORD_BOOTSTRAP_RESAMPLES of them; tally has room for the larger side. */
static void resample_ratios(const double *a, size_t na, const double *b, size_t nb, uint64_t seed,
                            uint64_t stream, uint32_t *tally, double *out)
{
    struct ls_rng rng;

    ls_rng_init(&rng, seed, stream);
    for (size_t i = 0; i < COORD_BOOTSTRAP_RESAMPLES; i++) {
        double top = resampled_median(a, na, &rng, tally);

        out[i] = top / resampled_median(b, nb, &rng, tally);
    }
}

/* With three runs a side no rank test can tell anything at 5 %, however far apart they are; what is
 * further apart than runs are allowed to scatter is called a difference all the same. */
static bool tells(const struct coord_ratio *ratio, double lowest, double highest)
{
    if (ratio->is_range || (ratio->low <= 1 && ratio->high >= 1))
        return false;
    if (ratio->enough)
        return ratio->p <= COORD_STATS_LEVEL;
    return lowest > 1 + COORD_NOISY_SPREAD || highest < 1 / (1 + COORD_NOISY_SPREAD);
}

enum ls_err coord_stats_ratio(const double *a, size_t na, const double *b, size_t nb, uint64_t seed,
                              uint64_t stream, struct coord_ratio *out)
{
    struct coord_ratio ratio = { .na = na, .nb = nb, .is_range = na <= 2 || nb <= 2 };
    double *sa = NULL, *sb = NULL, *ratios = NULL;
    uint32_t *tally = NULL;
    enum ls_err rc = LS_EINVAL;

    if (na == 0 || nb == 0 || !all_finite(a, na) || !all_finite(b, nb))
        return rc;
    rc = LS_ENOMEM;
    sa = sorted_copy(a, na);
    sb = sorted_copy(b, nb);
    ratios = calloc(COORD_BOOTSTRAP_RESAMPLES, sizeof(*ratios));
    tally = calloc(na > nb ? na : nb, sizeof(*tally));
    if (sa == NULL || sb == NULL || ratios == NULL || tally == NULL)
        goto out;
    rc = LS_EINVAL;
    if (sa[0] < 0 || sb[0] <= 0)
        goto out;

    ratio.ratio = median_of(sa, na) / median_of(sb, nb);
    ratio.low = sa[0] / sb[nb - 1];
    ratio.high = sa[na - 1] / sb[0];
    if (!ratio.is_range) {
        resample_ratios(sa, na, sb, nb, seed, stream, tally, ratios);
        qsort(ratios, COORD_BOOTSTRAP_RESAMPLES, sizeof(*ratios), compare);
        ratio.low = quantile_of(ratios, COORD_BOOTSTRAP_RESAMPLES, 0.025);
        ratio.high = quantile_of(ratios, COORD_BOOTSTRAP_RESAMPLES, 0.975);
    }
    ratio.enough = coord_rank_least_p(na, nb) <= COORD_STATS_LEVEL;
    rc = coord_rank_test(a, na, b, nb, &ratio.p);
    if (rc != LS_OK)
        goto out;
    ratio.differs = tells(&ratio, sa[0] / sb[nb - 1], sa[na - 1] / sb[0]);
    *out = ratio;
out:
    free(tally);
    free(ratios);
    free(sb);
    free(sa);
    return rc;
}

/* FNV-1a, 64 bits; a separator after each name, so that "ab","c" is not "a","bc". */
uint64_t coord_stats_stream(const char *a, const char *b, const char *c)
{
    const char *names[] = { a, b, c };
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < LS_ARRAY_LEN(names); i++) {
        for (const char *p = names[i] == NULL ? "" : names[i]; *p != '\0'; p++)
            hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
        hash = (hash ^ 0x1f) * UINT64_C(1099511628211);
    }
    return hash;
}

double coord_stats_change(double before, double after)
{
    return before == 0 ? 0 : (after - before) / before;
}
