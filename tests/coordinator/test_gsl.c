/* coordinator/result/{stats,rank_test}.c beside the GNU Scientific Library on the same data. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_combination.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>

#include "coordinator/result/rank_test.h"
#include "coordinator/result/stats.h"

enum { SAMPLES = 200, MOST = 40 };

static void assert_near(double value, double expected, double error)
{
    if (!(fabs(value - expected) <= error * (1 + fabs(expected))))
        fail_msg("%.17g is not %.17g (GSL)", value, expected);
}

/* n values as runs give them: around some figure, with a tail, at times with ties. */
static void draw(gsl_rng *rng, double *values, size_t n)
{
    double around = gsl_ran_flat(rng, 1, 1e6), scatter = gsl_ran_flat(rng, 0, 0.2);
    int ties = gsl_rng_uniform_int(rng, 3) == 0;

    for (size_t i = 0; i < n; i++) {
        values[i] = around * (1 + scatter * gsl_ran_tdist(rng, 3));
        values[i] = ties ? round(values[i] / around * 20) : values[i];
    }
}

static uint32_t outliers_of(const double *sorted, size_t n)
{
    double low = gsl_stats_quantile_from_sorted_data(sorted, 1, n, 0.25);
    double high = gsl_stats_quantile_from_sorted_data(sorted, 1, n, 0.75);
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += sorted[i] < low - 1.5 * (high - low) || sorted[i] > high + 1.5 * (high - low);
    return n >= COORD_OUTLIERS_FROM ? count : 0;
}

static void moments_medians_and_fences_are_those_of_gsl(void **state)
{
    gsl_rng *rng = *state;

    for (unsigned round = 0; round < SAMPLES; round++) {
        double values[MOST], sorted[MOST];
        size_t n = 1 + gsl_rng_uniform_int(rng, MOST);
        struct coord_stats s;

        draw(rng, values, n);
        assert_int_equal(coord_stats_compute(values, n, 1, round, &s), LS_OK);
        (void)memcpy(sorted, values, sizeof(sorted));
        gsl_sort(sorted, 1, n);
        assert_true(s.min == gsl_stats_min(values, 1, n) && s.max == gsl_stats_max(values, 1, n));
        assert_near(s.mean, gsl_stats_mean(values, 1, n), 1e-13);
        assert_near(s.stdev, n > 1 ? gsl_stats_sd(values, 1, n) : 0, 1e-12);
        assert_near(s.median, gsl_stats_median_from_sorted_data(sorted, 1, n), 1e-15);
        assert_int_equal(s.outliers, outliers_of(sorted, n));
    }
}

/* An independent bootstrap, by GSL's generator: its interval ends where ours does, but for the
 * chance in both. */
static void bootstrap_intervals_are_those_of_another_bootstrap(void **state)
{
    enum { N = 25, RESAMPLES = 20000 };
    gsl_rng *rng = *state;
    double values[N], other[N], *medians = calloc(RESAMPLES, sizeof(*medians));
    double *ratios = calloc(RESAMPLES, sizeof(*ratios)), sample[N], scale;
    struct coord_stats s;
    struct coord_ratio r;

    assert_true(medians != NULL && ratios != NULL);
    for (size_t i = 0; i < N; i++) {
        values[i] = 100 + gsl_ran_gaussian(rng, 5);
        other[i] = 90 + gsl_ran_gaussian(rng, 5);
    }
    for (size_t k = 0; k < RESAMPLES; k++) {
        gsl_ran_sample(rng, sample, N, values, N, sizeof(double));
        medians[k] = ratios[k] = gsl_stats_median(sample, 1, N);
        gsl_ran_sample(rng, sample, N, other, N, sizeof(double));
        ratios[k] /= gsl_stats_median(sample, 1, N);
    }
    gsl_sort(medians, 1, RESAMPLES);
    gsl_sort(ratios, 1, RESAMPLES);
    assert_int_equal(coord_stats_compute(values, N, 3, 4, &s), LS_OK);
    assert_int_equal(coord_stats_ratio(values, N, other, N, 3, 4, &r), LS_OK);
    scale = s.ci_high - s.ci_low;
    assert_true(fabs(s.ci_low - gsl_stats_quantile_from_sorted_data(medians, 1, RESAMPLES, 0.025)) <
                0.15 * scale);
    assert_true(fabs(s.ci_high - gsl_stats_quantile_from_sorted_data(medians, 1, RESAMPLES,
                                                                     0.975)) < 0.15 * scale);
    scale = r.high - r.low;
    assert_true(fabs(r.low - gsl_stats_quantile_from_sorted_data(ratios, 1, RESAMPLES, 0.025)) <
                0.1 * scale);
    assert_true(fabs(r.high - gsl_stats_quantile_from_sorted_data(ratios, 1, RESAMPLES, 0.975)) <
                0.1 * scale);
    free(ratios);
    free(medians);
}

/* Mean ranks, from GSL's sort. */
static void rank(const double *values, size_t n, double *ranks)
{
    size_t order[MOST * 2];

    gsl_sort_index(order, values, 1, n);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && values[order[k]] == values[order[i]]; k++) {}
        for (size_t at = i; at < k; at++)
            ranks[order[at]] = (double)(i + 1 + k) / 2;
    }
}

/* The permutation test, word for word: all ways to choose the ranks of one side. */
static double permutation_p(const double *ranks, size_t na, size_t n)
{
    gsl_combination *chosen = gsl_combination_calloc(n, na);
    double mean = (double)na * (double)(n + 1) / 2, observed = 0, far = 0, total = 0;

    for (size_t i = 0; i < na; i++)
        observed += ranks[i];
    do {
        double sum = 0;

        for (size_t i = 0; i < na; i++)
            sum += ranks[gsl_combination_get(chosen, i)];
        far += fabs(sum - mean) >= fabs(observed - mean) - 1e-9;
        total++;
    } while (gsl_combination_next(chosen) == 0);
    gsl_combination_free(chosen);
    return far / total;
}

static void rank_tests_are_permutation_tests_of_the_ranks(void **state)
{
    gsl_rng *rng = *state;

    for (unsigned round = 0; round < 60; round++) {
        double values[16], ranks[16], p;
        size_t na = 1 + gsl_rng_uniform_int(rng, 7), nb = 1 + gsl_rng_uniform_int(rng, 7);

        draw(rng, values, na + nb);
        rank(values, na + nb, ranks);
        assert_int_equal(coord_rank_test(values, na, values + na, nb, &p), LS_OK);
        assert_near(p, permutation_p(ranks, na, na + nb), 1e-9);
    }
}

/* Beyond COORD_RANK_EXACT_MAX: the normal distribution is GSL's, with corrections for ties and
 * continuity as in R's wilcox.test(exact = FALSE). */
static void large_rank_tests_use_the_normal_distribution(void **state)
{
    gsl_rng *rng = *state;

    for (unsigned round = 0; round < 50; round++) {
        double values[2 * MOST], ranks[2 * MOST], p, sum = 0, ties = 0, z;
        const double na = MOST, nb = MOST, n = na + nb;

        draw(rng, values, MOST);
        draw(rng, values + MOST, MOST);
        for (size_t i = 0; i < MOST; i++) /* of one scale, so that it is not plain */
            values[MOST + i] = values[MOST + i] / values[MOST] * values[0];
        rank(values, 2 * MOST, ranks);
        for (size_t i = 0; i < MOST; i++)
            sum += ranks[i];
        for (size_t i = 0; i < 2 * MOST; i++) {
            double t = 0;

            for (size_t k = 0; k < 2 * MOST; k++)
                t += values[k] == values[i];
            ties += t * t - 1; /* each of the t counts (t^3 - t) / t */
        }
        z = (fabs(sum - na * (n + 1) / 2) - 0.5) /
            sqrt(na * nb / 12 * (n + 1 - ties / (n * (n - 1))));
        assert_int_equal(coord_rank_test(values, MOST, values + MOST, MOST, &p), LS_OK);
        assert_near(p, z > 0 ? 2 * gsl_cdf_ugaussian_Q(z) : 1, 1e-9);
    }
}

static int make_rng(void **state)
{
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);

    gsl_rng_set(rng, 20260101);
    *state = rng;
    return 0;
}

static int free_rng(void **state)
{
    gsl_rng_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_medians_and_fences_are_those_of_gsl),
        cmocka_unit_test(bootstrap_intervals_are_those_of_another_bootstrap),
        cmocka_unit_test(rank_tests_are_permutation_tests_of_the_ranks),
        cmocka_unit_test(large_rank_tests_use_the_normal_distribution),
    };

    return cmocka_run_group_tests_name("coordinator.gsl", tests, make_rng, free_rng);
}
