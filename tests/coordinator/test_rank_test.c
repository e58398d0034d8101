/* coordinator/result/rank_test.c: against tables, and against counting every sharing of the ranks.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/attr.h"
#include "common/rng.h"
#include "coordinator/result/rank_test.h"

static double p_of(const double *a, size_t na, const double *b, size_t nb)
{
    double p = -1;

    assert_int_equal(coord_rank_test(a, na, b, nb, &p), LS_OK);
    return p;
}

static bool near(double a, double b, double within)
{
    return fabs(a - b) <= within;
}

/* Mann and Whitney's own table (1947) counts the U of random samples: for 4 and 4, P(U <= 0) is
 * 1/70 and P(U <= 3) 7/70; for 3 and 5, P(U <= 1) is 2/56. */
static void small_samples_are_as_in_the_table(void **state)
{
    const double four[] = { 1, 2, 3, 4 }, above[] = { 5, 6, 7, 8 };
    const double mixed[] = { 1, 2, 3, 7 }, rest[] = { 4, 5, 6, 8 };
    const double three[] = { 1, 2, 4 }, five[] = { 3, 5, 6, 7, 8 };

    (void)state;
    assert_true(near(p_of(four, 4, above, 4), 2.0 / 70, 1e-12));
    assert_true(near(p_of(above, 4, four, 4), 2.0 / 70, 1e-12));
    assert_true(near(p_of(mixed, 4, rest, 4), 14.0 / 70, 1e-12));
    assert_true(near(p_of(three, 3, five, 5), 4.0 / 56, 1e-12));
    assert_true(near(coord_rank_least_p(4, 4), 2.0 / 70, 1e-12));
    assert_true(near(coord_rank_least_p(3, 3), 0.1, 1e-12));
    assert_true(coord_rank_least_p(1, 1) == 1);
}

/* Twice the rank of value within all, ties shared. */
static int rank2(const double *all, unsigned n, double value)
{
    int less = 0, equal = 0;

    for (unsigned i = 0; i < n; i++) {
        less += all[i] < value;
        equal += all[i] == value;
    }
    return 2 * less + equal + 1;
}

/* The definition, word for word: every choice of na places, by the bits of a number. */
static double by_counting(const double *all, unsigned na, unsigned n)
{
    int observed = 0, mean2 = (int)(na * (n + 1)); /* of doubled rank sums */
    unsigned far = 0, total = 0;

    for (unsigned i = 0; i < na; i++)
        observed += rank2(all, n, all[i]);
    for (unsigned bits = 0; bits < 1u << n; bits++) {
        int sum = 0;

        if (__builtin_popcount(bits) != (int)na)
            continue;
        for (unsigned i = 0; i < n; i++)
            sum += bits >> i & 1 ? rank2(all, n, all[i]) : 0;
        total++;
        far += abs(sum - mean2) >= abs(observed - mean2);
    }
    return (double)far / total;
}

static void ties_and_all_small_sizes_are_as_counted(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 7, 1);
    for (unsigned round = 0; round < 150; round++) {
        unsigned na = 1 + (unsigned)ls_rng_below(&rng, 5), nb = 1 + (unsigned)ls_rng_below(&rng, 6);
        double all[11];

        for (unsigned i = 0; i < na + nb; i++)
            all[i] = (double)ls_rng_below(&rng, 1 + round % 9);
        assert_true(near(p_of(all, na, all + na, nb), by_counting(all, na, na + nb), 1e-9));
    }
}

static void large_samples_agree_with_the_exact_form_at_the_border(void **state)
{
    double a[40], b[40], exact, approximate;
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 7, 2);
    for (unsigned i = 0; i < 40; i++) {
        a[i] = ls_rng_unit(&rng);
        b[i] = ls_rng_unit(&rng) + 0.15;
    }
    a[30] = 0.575; /* in the middle of all: hardly tells one side from the other */
    exact = p_of(a, 30, b, 30);
    approximate = p_of(a, 31, b, 30); /* beyond the border by that value */
    assert_true(exact > 0.001 && exact < 0.5);
    assert_true(near(approximate / exact, 1, 0.1));
    for (unsigned i = 0; i < 40; i++)
        a[i] = b[i] = 5;
    assert_true(p_of(a, 40, b, 40) == 1);
    assert_true(p_of(a, 3, b, 3) == 1);
}

/* Without a difference, p is below its level at most that often. */
static void false_alarms_are_as_rare_as_promised(void **state)
{
    unsigned alarms = 0, rounds = 4000;
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 11, 3);
    for (unsigned round = 0; round < rounds; round++) {
        double a[6], b[6];

        for (unsigned i = 0; i < 6; i++) {
            a[i] = ls_rng_unit(&rng);
            b[i] = ls_rng_unit(&rng);
        }
        alarms += p_of(a, 6, b, 6) <= 0.05;
    }
    assert_in_range(alarms, rounds * 3 / 100, rounds * 5 / 100);
}

static void the_number_of_runs_it_asks_for_finds_the_change(void **state)
{
    const double spread = 0.03, change = 0.05;
    unsigned n = coord_rank_runs_needed(spread, change, 0.05), found = 0, rounds = 1000;
    struct ls_rng rng;

    (void)state;
    assert_in_range(n, 5, 12);
    ls_rng_init(&rng, 13, 4);
    for (unsigned round = 0; round < rounds; round++) {
        double a[16], b[16];

        for (unsigned i = 0; i < n; i++) {
            /* Box and Muller */
            double r = sqrt(-2 * log(1 - ls_rng_unit(&rng))), t = 6.283185307 * ls_rng_unit(&rng);

            a[i] = 1 + spread * r * cos(t);
            b[i] = (1 + change) * (1 + spread * r * sin(t));
        }
        found += p_of(a, n, b, n) <= 0.05;
    }
    assert_in_range(found, rounds * 80 / 100, rounds * 90 / 100);
    assert_int_equal(coord_rank_runs_needed(0, 0.05, 0.05), 4);
    assert_int_equal(coord_rank_runs_needed(0, 0.05, 0.01), 5);
    assert_int_equal(coord_rank_runs_needed(50, 0.0001, 0.01), 1000);
}

static void what_is_no_number_is_refused(void **state)
{
    const double good[] = { 1, 2 }, bad[] = { 1, NAN };
    double p = 7;

    (void)state;
    assert_int_equal(coord_rank_test(good, 2, bad, 2, &p), LS_EINVAL);
    assert_int_equal(coord_rank_test(good, 2, good, 0, &p), LS_EINVAL);
    assert_true(p == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_samples_are_as_in_the_table),
        cmocka_unit_test(ties_and_all_small_sizes_are_as_counted),
        cmocka_unit_test(large_samples_agree_with_the_exact_form_at_the_border),
        cmocka_unit_test(false_alarms_are_as_rare_as_promised),
        cmocka_unit_test(the_number_of_runs_it_asks_for_finds_the_change),
        cmocka_unit_test(what_is_no_number_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
