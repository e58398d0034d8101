#include "tests/support/test.h"

#include <stdlib.h>

#include "common/offset.h"
#include "common/rng.h"

/* A peer whose clock is ahead by offset; the two ways take out and back. */
static void exchange(struct ls_offset *offset, int64_t now, int64_t ahead, int64_t out,
                     int64_t back)
{
    int64_t held = 1000;

    ls_offset_add(offset, now, now + out + ahead, now + out + held + ahead,
                  now + out + held + back);
}

static void even_ways_give_the_offset_itself(void **state)
{
    struct ls_offset offset;

    (void)state;
    ls_offset_init(&offset);
    assert_false(ls_offset_known(&offset));
    assert_int_equal(ls_offset_error_ns(&offset, 0), INT64_MAX);
    exchange(&offset, 1000000, 123456789, 5000, 5000);
    assert_true(ls_offset_known(&offset));
    assert_int_equal(ls_offset_ns(&offset), 123456789);
    assert_int_equal(ls_offset_round_trip_ns(&offset), 10000);
    assert_int_equal(ls_offset_error_ns(&offset, 0), 5000);
}

/* The promise: whatever the ways took, the truth is within the error bound. */
static void the_truth_is_within_the_bound(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 1, 1);
    for (unsigned round = 0; round < 300; round++) {
        int64_t ahead = (int64_t)(ls_rng_next(&rng) >> 20) - (INT64_C(1) << 43);
        int64_t now = 1000000;
        struct ls_offset offset;

        ls_offset_init(&offset);
        for (unsigned i = 0; i < 200; i++) {
            int64_t off;

            exchange(&offset, now, ahead, (int64_t)ls_rng_below(&rng, 100000),
                     (int64_t)ls_rng_below(&rng, 100000));
            now += 1000000;
            off = ls_offset_ns(&offset) - ahead;
            assert_true(llabs(off) <= ls_offset_error_ns(&offset, now));
        }
    }
}

/* ... also when the peer's clock runs faster or slower, as fast as is assumed. */
static void the_truth_is_within_the_bound_under_drift(void **state)
{
    static const int ppms[] = { -LS_OFFSET_DRIFT_PPM, LS_OFFSET_DRIFT_PPM };
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 2, 1);
    for (unsigned d = 0; d < 2; d++) {
        struct ls_offset offset;
        int64_t now = 0;

        ls_offset_init(&offset);
        for (unsigned i = 0; i < 2000; i++) {
            int64_t ahead = 7777 + now / 1000000 * ppms[d];

            if (i % 10 == 0)
                exchange(&offset, now, ahead, (int64_t)ls_rng_below(&rng, 50000),
                         (int64_t)ls_rng_below(&rng, 50000));
            /* A nanosecond for the clock's steps here, which jump once a millisecond. */
            assert_true(llabs(ls_offset_ns(&offset) - ahead) <=
                        ls_offset_error_ns(&offset, now) + LS_OFFSET_DRIFT_PPM);
            now += 10000000;
        }
    }
}

static void the_fastest_of_fresh_exchanges_decides(void **state)
{
    struct ls_offset offset;

    (void)state;
    ls_offset_init(&offset);
    exchange(&offset, 1000, 100, 40000, 20000);
    exchange(&offset, 2000, 100, 3000, 3000);
    exchange(&offset, 3000, 100, 10000, 90000);
    assert_int_equal(ls_offset_ns(&offset), 100);
    assert_int_equal(ls_offset_round_trip_ns(&offset), 6000);
    assert_int_equal(ls_offset_slowest_ns(&offset), 100000);
}

static void an_old_exchange_gives_way_to_a_fresh_one_once_drift_has_eaten_its_lead(void **state)
{
    const int64_t minute = INT64_C(60000000000);
    struct ls_offset offset;

    (void)state;
    ls_offset_init(&offset);
    exchange(&offset, 0, 100, 5000, 5000);
    assert_int_equal(ls_offset_error_ns(&offset, minute + 11000), 5000 + 3000000);
    exchange(&offset, minute, 200, 50000, 50000);
    assert_int_equal(ls_offset_ns(&offset), 200);
    assert_int_equal(ls_offset_round_trip_ns(&offset), 100000);
}

static void only_the_last_exchanges_count(void **state)
{
    struct ls_offset offset;

    (void)state;
    ls_offset_init(&offset);
    exchange(&offset, 0, 1, 10, 10);
    exchange(&offset, 0, 1, 1000000, 1000000);
    for (unsigned i = 0; i < LS_OFFSET_SAMPLES; i++)
        exchange(&offset, 0, 2, 100, 100);
    assert_int_equal(ls_offset_ns(&offset), 2);
    assert_int_equal(ls_offset_slowest_ns(&offset), 200);
    assert_int_equal(offset.count, LS_OFFSET_SAMPLES);
    assert_int_equal(offset.taken, LS_OFFSET_SAMPLES + 2);
}

/* t2 and t3 are whatever a peer says. */
static void impossible_exchanges_are_ignored(void **state)
{
    static const int64_t cases[][4] = {
        { 100, 50, 60, 99 },                            /* answered before it was asked */
        { 100, 60, 50, 200 },                           /* replied before it received */
        { 100, 50, 151, 200 },                          /* held for longer than it took */
        { 100, INT64_MIN, INT64_MAX, 200 },             /* ... absurdly so */
        { INT64_MIN, INT64_MAX, INT64_MAX, INT64_MAX }, /* a round trip beyond any number */
        { -100, INT64_MAX, INT64_MAX, -50 },            /* an offset beyond any number */
    };
    struct ls_offset offset;

    (void)state;
    ls_offset_init(&offset);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ls_offset_add(&offset, cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
    assert_false(ls_offset_known(&offset));
    assert_int_equal(offset.taken, 0);
    ls_offset_add(&offset, 100, 50, 150, 200); /* no time on the way is still possible */
    assert_true(ls_offset_known(&offset));
    assert_int_equal(ls_offset_round_trip_ns(&offset), 0);
}

static void extreme_offsets_do_not_overflow(void **state)
{
    struct ls_offset offset;

    (void)state;
    ls_offset_init(&offset);
    ls_offset_add(&offset, 0, INT64_MAX, INT64_MAX, 0);
    assert_int_equal(ls_offset_ns(&offset), INT64_MAX);
    ls_offset_init(&offset);
    ls_offset_add(&offset, 0, INT64_MIN, INT64_MIN, 0);
    assert_int_equal(ls_offset_ns(&offset), INT64_MIN);
    assert_true(ls_offset_error_ns(&offset, INT64_MAX) > 0);
}

static void the_past_is_told_by_the_exchanges_of_that_time(void **state)
{
    const int64_t second = INT64_C(1000000000);
    struct ls_offset offset;
    int64_t at = 5, error = 6;

    (void)state;
    ls_offset_init(&offset);
    assert_false(ls_offset_at(&offset, 0, &at, &error));
    assert_true(at == 5 && error == 6);
    for (int64_t i = 0; i < 20; i++)
        exchange(&offset, i * second, 1000 * i, 100, 100);
    assert_true(ls_offset_at(&offset, 7 * second, &at, &error));
    assert_int_equal(at, 7000);
    assert_true(error >= 100 && error <= 102);
    assert_true(ls_offset_at(&offset, 30 * second, &at, &error));
    assert_int_equal(at, 19000);
    assert_true(error > 11 * LS_OFFSET_DRIFT_PPM * 1000 - 100);
    assert_true(ls_offset_at(&offset, INT64_MIN, &at, &error));
    assert_int_equal(at, 0);
}

static void a_step_makes_what_was_known_before_void(void **state)
{
    const int64_t second = INT64_C(1000000000);
    struct ls_offset offset;
    double ppm, error;

    (void)state;
    ls_offset_init(&offset);
    for (int64_t i = 0; i < 10; i++)
        exchange(&offset, i * second, 7000, 100, 100);
    assert_int_equal(offset.steps, 0);
    exchange(&offset, 10 * second, 7000 + second, 90000, 90000);
    assert_int_equal(offset.steps, 1);
    assert_int_equal(offset.count, 1);
    assert_int_equal(ls_offset_ns(&offset), 7000 + second);
    assert_true(offset.stepped_ns > second - 300000 && offset.stepped_ns <= second);
    assert_false(ls_offset_drift(&offset, &ppm, &error));
    exchange(&offset, 11 * second, 7000 + second, 100, 100);
    assert_int_equal(offset.steps, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_ways_give_the_offset_itself),
        cmocka_unit_test(the_truth_is_within_the_bound),
        cmocka_unit_test(the_truth_is_within_the_bound_under_drift),
        cmocka_unit_test(the_fastest_of_fresh_exchanges_decides),
        cmocka_unit_test(an_old_exchange_gives_way_to_a_fresh_one_once_drift_has_eaten_its_lead),
        cmocka_unit_test(only_the_last_exchanges_count),
        cmocka_unit_test(impossible_exchanges_are_ignored),
        cmocka_unit_test(the_past_is_told_by_the_exchanges_of_that_time),
        cmocka_unit_test(a_step_makes_what_was_known_before_void),
        cmocka_unit_test(extreme_offsets_do_not_overflow),
    };
    return cmocka_run_group_tests_name("common.offset", tests, NULL, NULL);
}
