/* coordinator/run/trend.c against published tables of Kendall's S. */
#include "tests/support/test.h"

#include <math.h>

#include "common/attr.h"
#include "common/rng.h"
#include "coordinator/run/trend.h"

static void assert_p(const double *values, uint32_t n, double expected)
{
    double p = coord_trend_p(values, n);

    if (!(fabs(p - expected) < 0.0006))
        fail_msg("n = %u: p = %.6f, expected %.4f", n, p, expected);
}

/* One-sided probabilities from Kaarsemaker and van Wijngaarden (1953), as in Hollander and Wolfe's
 * table A.30 and Gilbert (1987) table A18; two-sided here. */
static void small_samples_have_their_exact_probabilities(void **state)
{
    static const double up4[] = { 1, 2, 3, 4 };                     /* S = 6: 0.042 */
    static const double up5[] = { 1, 2, 3, 4, 5 };                  /* S = 10: 0.0083 */
    static const double down5[] = { 5, 4, 3, 2, 1 };                /* S = -10 */
    static const double one5[] = { 1, 2, 3, 5, 4 };                 /* S = 8: 0.042 */
    static const double mixed5[] = { 2, 1, 3, 5, 4 };               /* S = 6: 0.117 */
    static const double none5[] = { 3, 5, 1, 4, 2 };                /* S = -2: 0.408 */
    static const double up8[] = { 1, 2, 3, 4, 5, 7, 6, 8 };         /* S = 26: 0.00020 */
    static const double up10[] = { 3, 1, 2, 5, 4, 6, 7, 9, 10, 8 }; /* S = 35: 0.00047 */

    (void)state;
    assert_p(up4, 4, 2 * 0.0417);
    assert_p(up5, 5, 2 * 0.0083);
    assert_p(down5, 5, 2 * 0.0083);
    assert_p(one5, 5, 2 * 0.0417);
    assert_p(mixed5, 5, 2 * 0.1167);
    assert_p(none5, 5, 2 * 0.4083);
    assert_p(up8, 8, 2 * 0.00020);
    assert_p(up10, 10, 2 * 0.00047);
}

static void too_few_or_equal_values_show_nothing(void **state)
{
    static const double values[] = { 1, 2 }, equal[] = { 4, 4, 4, 4, 4, 4 };
    double many[50];

    (void)state;
    for (unsigned i = 0; i < 50; i++)
        many[i] = 7;
    assert_true(coord_trend_p(values, 0) == 1 && coord_trend_p(values, 2) == 1);
    assert_true(fabs(coord_trend_p(equal, 6) - 1) < 1e-9);
    assert_true(coord_trend_p(many, 50) == 1);
}

static double normal_p(const double *values, uint32_t n)
{
    double s = 0, variance = n * (n - 1.0) * (2.0 * n + 5) / 18;

    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < i; k++)
            s += values[i] > values[k] ? 1 : -1;
    }
    return s == 0 ? 1 : erfc((fabs(s) - 1) / sqrt(2 * variance));
}

/* The normal approximation takes over above 30: there the two agree. */
static void the_approximation_continues_the_exact_values(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 3, 3);
    for (unsigned k = 0; k < 50; k++) {
        double values[31];

        for (unsigned i = 0; i < 31; i++)
            values[i] = ls_rng_unit(&rng) + i * 0.01;
        assert_true(fabs(coord_trend_p(values, 30) - normal_p(values, 30)) < 0.005);
        assert_true(fabs(coord_trend_p(values, 31) - normal_p(values, 31)) < 1e-9);
    }
}

/* Without a trend, p is below 0.05 in at most 5 of 100 cases. */
static void noise_is_seldom_taken_for_a_trend(void **state)
{
    static const uint32_t sizes[] = { 5, 10, 30, 60 };
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 9, 9);
    for (size_t s = 0; s < LS_ARRAY_LEN(sizes); s++) {
        unsigned alarms = 0;

        for (unsigned k = 0; k < 1000; k++) {
            double values[60];

            for (uint32_t i = 0; i < sizes[s]; i++)
                values[i] = ls_rng_unit(&rng);
            alarms += coord_trend_p(values, sizes[s]) < 0.05;
        }
        assert_true(alarms <= 75); /* 50 and 3.6 standard deviations */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_samples_have_their_exact_probabilities),
        cmocka_unit_test(too_few_or_equal_values_show_nothing),
        cmocka_unit_test(the_approximation_continues_the_exact_values),
        cmocka_unit_test(noise_is_seldom_taken_for_a_trend),
    };
    return cmocka_run_group_tests_name("coordinator.trend", tests, NULL, NULL);
}
