/* coordinator/result/stats.c against figures that were had in other ways. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "coordinator/result/stats.h"
#include "tests/support/failmalloc.h"

static void assert_near(double value, double expected, double error)
{
    if (!(fabs(value - expected) <= error))
        fail_msg("%.12g is not %.12g +- %.3g", value, expected, error);
}

static struct coord_stats stats_of(const double *values, size_t n)
{
    struct coord_stats stats;

    assert_int_equal(coord_stats_compute(values, n, 42, 1, &stats), LS_OK);
    return stats;
}

/* By hand, and by Python's statistics module. */
static void moments_and_medians_are_the_textbook_ones(void **state)
{
    static const double odd[] = { 5, 1, 4, 2, 3 };
    static const double even[] = { 2, 4, 4, 4, 5, 5, 7, 9 };
    static const double close[] = { 1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16 };
    struct coord_stats s;

    (void)state;
    s = stats_of(odd, 5);
    assert_int_equal(s.n, 5);
    assert_true(s.min == 1 && s.max == 5 && s.median == 3 && s.mean == 3);
    assert_near(s.stdev, sqrt(2.5), 1e-15);
    assert_near(s.spread, 4.0 / 3, 1e-15);
    assert_true(s.noisy);
    s = stats_of(even, 8);
    assert_true(s.median == 4.5 && s.mean == 5);
    assert_near(s.stdev, 2.13808993529939507, 1e-14); /* statistics.stdev */
    s = stats_of(close, 4); /* where the sum of squares would lose everything */
    assert_near(s.stdev, sqrt(30), 1e-9);
    assert_true(s.mean == 1e9 + 10 && s.median == 1e9 + 10);
    assert_false(s.noisy);
}

static void one_or_two_values_have_a_range_and_no_interval(void **state)
{
    static const double two[] = { 12, 10 };
    struct coord_stats s;

    (void)state;
    s = stats_of(two, 1);
    assert_true(s.min == 12 && s.max == 12 && s.median == 12 && s.mean == 12 && s.stdev == 0);
    assert_true(s.ci_low == 12 && s.ci_high == 12 && s.ci_is_range && !s.noisy);
    s = stats_of(two, 2);
    assert_true(s.median == 11 && s.mean == 11);
    assert_near(s.stdev, sqrt(2), 1e-15);
    assert_true(s.ci_low == 10 && s.ci_high == 12 && s.ci_is_range && s.noisy);
}

static void a_spread_of_ten_per_cent_is_not_yet_noisy(void **state)
{
    static const double at[] = { 95, 100, 105 }, above[] = { 95, 100, 105.1 };

    (void)state;
    assert_false(stats_of(at, 3).noisy);
    assert_true(stats_of(above, 3).noisy);
}

static void outliers_are_counted_and_stay(void **state)
{
    static const double runs[] = { 100, 101, 99, 102, 98, 60 };
    struct coord_stats s;

    (void)state;
    s = stats_of(runs, 6);
    assert_int_equal(s.outliers, 1);
    assert_true(s.min == 60 && s.n == 6);
    assert_int_equal(stats_of(runs + 2, 4).outliers, 0); /* of four none can be told */
}

/* Three runs a side: 2 p is 0.1 at best, so only what is beyond their noise is claimed. */
static void three_runs_show_what_is_beyond_noise_and_nothing_less(void **state)
{
    static const double base[] = { 100, 101, 102 }, near[] = { 104, 105, 106 };
    static const double far[] = { 114, 115, 116 };
    struct coord_ratio r;

    (void)state;
    assert_int_equal(coord_stats_ratio(near, 3, base, 3, 1, 1, &r), LS_OK);
    assert_true(r.low > 1 && !r.enough && !r.differs);
    assert_near(r.p, 0.1, 1e-12);
    assert_int_equal(coord_stats_ratio(far, 3, base, 3, 1, 1, &r), LS_OK);
    assert_true(r.differs);
    assert_int_equal(coord_stats_ratio(base, 3, far, 3, 1, 1, &r), LS_OK);
    assert_true(r.differs && r.high < 1);
}

/* For an odd n the bootstrap's distribution of the median is known: it is x_(k) with probability
 * P(Bin(n, k/n) >= m) - P(Bin(n, (k-1)/n) >= m), m = (n+1)/2. Sorted values 1 .. n make the value
 * its own rank. */
static double cumulative(unsigned n, unsigned k)
{
    double p = (double)k / n, sum = 0, term;

    for (unsigned i = (n + 1) / 2; i <= n; i++) {
        term = 1;
        for (unsigned j = 0; j < i; j++)
            term *= (double)(n - j) / (i - j) * p;
        for (unsigned j = i; j < n; j++)
            term *= 1 - p;
        sum += term;
    }
    return sum;
}

static void the_interval_is_the_exact_bootstrap_s_where_that_is_known(void **state)
{
    (void)state;
    for (unsigned n = 3; n <= 21; n += 2) {
        double values[21];
        struct coord_stats s;
        unsigned low = 1, high = 1;

        for (unsigned i = 0; i < n; i++)
            values[i] = (i * 8) % n + 1; /* any order: 8 has no factor in common with odd n */
        s = stats_of(values, n);
        while (cumulative(n, low) < 0.025)
            low++;
        while (cumulative(n, high) < 0.975)
            high++;
        /* Where a step of the distribution is within sampling error of 2.5 %, either side is
         * right. 10,000 resamples: 4 standard errors are 0.6 %. */
        if (fabs(cumulative(n, low) - 0.025) > 0.007 &&
            (low == 1 || fabs(cumulative(n, low - 1) - 0.025) > 0.007))
            assert_true(s.ci_low == low);
        if (fabs(cumulative(n, high) - 0.975) > 0.007 &&
            (high == 1 || fabs(cumulative(n, high - 1) - 0.975) > 0.007))
            assert_true(s.ci_high == high);
        assert_true(s.ci_low <= s.median && s.median <= s.ci_high);
    }
}

/* Of 100 samples of 15 from a known distribution, the intervals must hold its median about 95
 * times: the percentile bootstrap of a median is known to be a little generous or short. */
static void intervals_cover_the_true_median_about_as_often_as_they_say(void **state)
{
    struct ls_rng rng;
    unsigned covered = 0;

    (void)state;
    ls_rng_init(&rng, 7, 7);
    for (unsigned k = 0; k < 100; k++) {
        double values[15];
        struct coord_stats s;

        for (unsigned i = 0; i < 15; i++)
            values[i] = -log(1 - ls_rng_unit(&rng)); /* exponential: median log 2 */
        assert_int_equal(coord_stats_compute(values, 15, 1, k, &s), LS_OK);
        covered += s.ci_low <= log(2) && log(2) <= s.ci_high;
    }
    assert_true(covered >= 88 && covered <= 100);
}

static void the_same_seed_gives_the_same_interval_whatever_the_order(void **state)
{
    static const double a[] = { 3.5, 1.25, 9, 4, 7.5, 2, 6 };
    static const double b[] = { 9, 7.5, 6, 4, 3.5, 2, 1.25 };
    struct coord_stats one, other;

    (void)state;
    one = stats_of(a, 7);
    other = stats_of(b, 7);
    assert_memory_equal(&one, &other, sizeof(one));
}

static void ratios_have_intervals_and_claim_only_what_they_show(void **state)
{
    static const double fast[] = { 120, 121, 122, 123, 124, 125 };
    static const double slow[] = { 100, 101, 102, 103, 104, 105 };
    static const double wide[] = { 90, 130, 95, 125, 100, 120 };
    static const double zero[] = { 0, 1, 2 };
    struct coord_ratio r;

    (void)state;
    assert_int_equal(coord_stats_ratio(fast, 6, slow, 6, 1, 1, &r), LS_OK);
    assert_near(r.ratio, 122.5 / 102.5, 1e-15);
    assert_true(r.low > 1.15 && r.low < r.ratio && r.high > r.ratio && r.high < 1.25);
    assert_true(r.differs && !r.is_range);
    assert_int_equal(coord_stats_ratio(wide, 6, slow, 6, 1, 1, &r), LS_OK);
    assert_false(r.differs);
    /* Two runs each, far apart: still too few to claim anything. */
    assert_int_equal(coord_stats_ratio(fast, 2, slow, 2, 1, 1, &r), LS_OK);
    assert_true(r.is_range && !r.differs);
    assert_near(r.low, 120.0 / 101, 1e-15);
    assert_near(r.high, 121.0 / 100, 1e-15);
    assert_int_equal(coord_stats_ratio(fast, 6, zero, 3, 1, 1, &r), LS_EINVAL);
    assert_int_equal(coord_stats_ratio(zero, 3, fast, 6, 1, 1, &r), LS_OK);
    assert_int_equal(coord_stats_ratio(fast, 0, slow, 6, 1, 1, &r), LS_EINVAL);
}

static void values_that_are_no_numbers_are_refused(void **state)
{
    static const double bad[] = { 1, NAN }, worse[] = { INFINITY };
    struct coord_stats s;

    (void)state;
    assert_int_equal(coord_stats_compute(bad, 2, 1, 1, &s), LS_EINVAL);
    assert_int_equal(coord_stats_compute(worse, 1, 1, 1, &s), LS_EINVAL);
    assert_int_equal(coord_stats_compute(worse, 0, 1, 1, &s), LS_EINVAL);
}

/* SUITES.md, section 6: published pairs whose printed change can only be had before rounding. */
static void changes_are_computed_before_anything_is_rounded(void **state)
{
    (void)state;
    assert_near(coord_stats_change(82.1, 76.2) * 100, -7.2, 0.05);
    assert_near(coord_stats_change(78.3, 69.6) * 100, -11.1, 0.05);
    assert_near(coord_stats_change(49.34, 50.08) * 100, 1.5, 0.05);
    assert_true(fabs(coord_stats_change(49.3, 50.1) * 100 - 1.5) > 0.05);
    assert_true(coord_stats_change(0, 5) == 0);
}

static void streams_of_different_names_differ(void **state)
{
    (void)state;
    assert_true(coord_stats_stream("ab", "c", "d") != coord_stats_stream("a", "bc", "d"));
    assert_true(coord_stats_stream("a", NULL, NULL) != coord_stats_stream("b", NULL, NULL));
    assert_true(coord_stats_stream("a", "b", "c") == coord_stats_stream("a", "b", "c"));
}

static void both(void *ctx)
{
    static const double values[] = { 1, 2, 3 };
    struct coord_stats s;
    struct coord_ratio r;
    enum ls_err rc = coord_stats_compute(values, 3, 1, 1, &s);

    (void)ctx;
    if (rc == LS_OK)
        rc = coord_stats_ratio(values, 3, values, 3, 1, 1, &r);
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    assert_int_equal(failmalloc_each(both, NULL), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_and_medians_are_the_textbook_ones),
        cmocka_unit_test(one_or_two_values_have_a_range_and_no_interval),
        cmocka_unit_test(a_spread_of_ten_per_cent_is_not_yet_noisy),
        cmocka_unit_test(outliers_are_counted_and_stay),
        cmocka_unit_test(three_runs_show_what_is_beyond_noise_and_nothing_less),
        cmocka_unit_test(the_interval_is_the_exact_bootstrap_s_where_that_is_known),
        cmocka_unit_test(intervals_cover_the_true_median_about_as_often_as_they_say),
        cmocka_unit_test(the_same_seed_gives_the_same_interval_whatever_the_order),
        cmocka_unit_test(ratios_have_intervals_and_claim_only_what_they_show),
        cmocka_unit_test(values_that_are_no_numbers_are_refused),
        cmocka_unit_test(changes_are_computed_before_anything_is_rounded),
        cmocka_unit_test(streams_of_different_names_differ),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("coordinator.stats", tests, NULL, NULL);
}
