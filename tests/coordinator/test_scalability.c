/* coordinator/run/scalability.c: curves of known parameters, with and without noise. */
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "common/attr.h"
#include "common/rng.h"
#include "coordinator/run/scalability.h"

#define RUNGS  8
#define PASSES 2

static const struct coord_usl_law known = { 1000, 0.05, 0.0005 };

/* Normal, by the sum of twelve uniforms. */
static double noise(struct ls_rng *rng)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += ls_rng_unit(rng);
    return sum;
}

static size_t measure(const struct coord_usl_law *law, double stdev, uint64_t seed,
                      struct coord_usl_point *out)
{
    struct ls_rng rng;
    size_t n = 0;

    ls_rng_init(&rng, seed, 5);
    for (int pass = 0; pass < PASSES; pass++) {
        for (int i = 0; i < RUNGS; i++) {
            double at = (double)(1u << i);

            out[n++] =
                (struct coord_usl_point){ at, coord_usl_at(law, at) * (1 + stdev * noise(&rng)) };
        }
    }
    return n;
}

static void exact_points_give_back_the_parameters(void **state)
{
    static const struct coord_usl_law laws[] = {
        { 1000, 0.05, 0.0005 }, { 3, 0.9, 0 }, { 20, 0, 0 }, { 7, 0, 0.01 }
    };
    struct coord_usl_point points[PASSES * RUNGS];

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(laws); i++) {
        size_t n = measure(&laws[i], 0, 1, points);
        struct coord_usl usl;

        assert_true(coord_usl_fit(points, n, 1, &usl));
        assert_true(fabs(usl.law.per_s / laws[i].per_s - 1) < 1e-6);
        assert_true(fabs(usl.law.contention - laws[i].contention) < 1e-6);
        assert_true(fabs(usl.law.coherency - laws[i].coherency) < 1e-8);
        assert_true(usl.explained > 0.999999);
        assert_true(fabs(usl.measured_to - 128) < 1e-9);
    }
}

static void the_peak_is_where_the_law_says(void **state)
{
    struct coord_usl_law law = known;

    (void)state;
    assert_true(fabs(coord_usl_peak(&law) - sqrt(0.95 / 0.0005)) < 1e-9);
    assert_true(coord_usl_at(&law, 43) > coord_usl_at(&law, 42));
    assert_true(coord_usl_at(&law, 45) < coord_usl_at(&law, 44));
    law.coherency = 0;
    assert_true(isinf(coord_usl_peak(&law)));
}

/* 95 % intervals over 100 noisy ladders: between 87 and 100 of them, for each number. */
static void intervals_hold_the_parameters_as_often_as_they_say(void **state)
{
    unsigned per_s = 0, contention = 0, coherency = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct coord_usl_point points[PASSES * RUNGS];
        size_t n = measure(&known, 0.03, seed, points);
        struct coord_usl usl;

        assert_true(coord_usl_fit(points, n, seed, &usl));
        per_s += usl.low.per_s <= known.per_s && known.per_s <= usl.high.per_s;
        contention +=
            usl.low.contention <= known.contention && known.contention <= usl.high.contention;
        coherency += usl.low.coherency <= known.coherency && known.coherency <= usl.high.coherency;
    }
    assert_in_range(per_s, 87, 100);
    assert_in_range(contention, 87, 100);
    assert_in_range(coherency, 87, 100);
}

static void the_same_seed_gives_the_same_intervals(void **state)
{
    struct coord_usl_point points[PASSES * RUNGS];
    size_t n = measure(&known, 0.03, 4, points);
    struct coord_usl a, b;

    (void)state;
    assert_true(coord_usl_fit(points, n, 9, &a));
    assert_true(coord_usl_fit(points, n, 9, &b));
    assert_memory_equal(&a.low, &b.low, sizeof(a.low));
    assert_memory_equal(&a.high, &b.high, sizeof(a.high));
}

static void what_must_not_be_read_out_of_it_is_said(void **state)
{
    static const struct coord_usl_law far = { 1000, 0.01, 0.00001 }; /* peak at 315 */
    static const struct coord_usl_law none = { 1000, 0.1, 0 };
    struct coord_usl_point points[PASSES * RUNGS];
    struct coord_usl usl;
    char text[200];
    size_t n = measure(&far, 0, 1, points);

    (void)state;
    assert_true(coord_usl_fit(points, n, 1, &usl));
    assert_non_null(strstr(coord_usl_warn(&usl, text, sizeof(text)),
                           "its peak at 315 is an extrapolation: nothing beyond 128"));
    n = measure(&none, 0.02, 1, points);
    assert_true(coord_usl_fit(points, n, 1, &usl));
    assert_non_null(strstr(coord_usl_warn(&usl, text, sizeof(text)), "coherency may be 0"));
    n = measure(&known, 0.01, 1, points);
    assert_true(coord_usl_fit(points, n, 1, &usl));
    assert_string_equal(coord_usl_warn(&usl, text, sizeof(text)), "");
    for (size_t i = 0; i < n; i++)
        points[i].per_s = i % 2 == 0 ? 100 : 5000;
    assert_true(coord_usl_fit(points, n, 1, &usl));
    assert_non_null(strstr(coord_usl_warn(&usl, text, sizeof(text)), "do not use it"));
}

static void too_few_points_and_useless_ones_fit_nothing(void **state)
{
    struct coord_usl_point points[] = { { 1, 10 }, { 2, 19 }, { 2, 20 }, { 4, 35 } };
    struct coord_usl_point zero[] = { { 1, 10 }, { 2, 0 }, { 3, 20 }, { 4, 35 } };
    struct coord_usl usl;

    (void)state;
    assert_false(coord_usl_fit(points, LS_ARRAY_LEN(points), 1, &usl));
    assert_false(coord_usl_fit(zero, LS_ARRAY_LEN(zero), 1, &usl));
    assert_false(coord_usl_fit(zero, 0, 1, &usl));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_points_give_back_the_parameters),
        cmocka_unit_test(the_peak_is_where_the_law_says),
        cmocka_unit_test(intervals_hold_the_parameters_as_often_as_they_say),
        cmocka_unit_test(the_same_seed_gives_the_same_intervals),
        cmocka_unit_test(what_must_not_be_read_out_of_it_is_said),
        cmocka_unit_test(too_few_points_and_useless_ones_fit_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
