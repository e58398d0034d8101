#include "tests/support/test.h"

#include <math.h>

#include "common/rng.h"
#include "common/schedule.h"

static const int64_t second_ns = INT64_C(1000000000);

/* At most RATES of them are in use at once. */
#define RATES 64

static const struct ls_arrivals *constant(double rate_per_s)
{
    static struct ls_arrivals ring[RATES];
    static unsigned next;
    struct ls_arrivals *arrivals = &ring[next++ % RATES];

    *arrivals = (struct ls_arrivals){ .law = LS_LAW_CONSTANT, .rate_per_s = rate_per_s };
    return arrivals;
}

static struct ls_schedule walk_from(double rate_per_s, int64_t start_ns, uint64_t first,
                                    uint64_t stride)
{
    struct ls_schedule schedule;

    assert_int_equal(
        ls_schedule_init(&schedule, constant(rate_per_s), start_ns, first, stride, NULL), LS_OK);
    return schedule;
}

static void a_rate_of_three_takes_exact_thirds(void **state)
{
    struct ls_schedule schedule = walk_from(3, 100, 0, 1);
    static const int64_t expected[] = { 100, 333333433, 666666766, 1000000100, 1333333433 };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(expected); i++) {
        assert_int_equal(ls_schedule_peek(&schedule), expected[i]);
        assert_int_equal(ls_schedule_peek(&schedule), expected[i]); /* looking does not move */
        ls_schedule_advance(&schedule);
    }
}

/* Whole rates: arrival rate x n is at n seconds to the nanosecond, however far out. */
static void no_error_adds_up(void **state)
{
    static const double rates[] = { 1, 3, 7, 1000, 19997, 48000, 333333, 1e6, 999999937, 1e9 };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rates); i++) {
        struct ls_schedule schedule = walk_from(rates[i], 5, 0, 1);

        for (int64_t n = 1; n <= 1000000; n *= 10) {
            schedule.k = (uint64_t)rates[i] * (uint64_t)n;
            assert_int_equal(ls_schedule_peek(&schedule), 5 + n * second_ns);
        }
    }
}

/* Rates that no binary fraction hits, against long double arithmetic, which is itself off by some
 * 2^-63 of the value. */
static void any_rate_is_within_a_nanosecond_of_its_instants(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 2, 8);
    for (unsigned i = 0; i < 100000; i++) {
        double rate = exp(log(1e-6) + ls_rng_unit(&rng) * log(1e15));
        uint64_t k = ls_rng_next(&rng) >> ls_rng_below(&rng, 64);
        long double exact = (long double)k * 1e9L / (long double)rate;
        struct ls_schedule schedule = walk_from(rate, 0, 0, 1);

        schedule.k = k;
        if (exact < 0x1p60L)
            assert_true(fabsl((long double)ls_schedule_peek(&schedule) - exact) <=
                        1 + exact * 0x1p-60L);
        else
            assert_true(ls_schedule_peek(&schedule) >= (int64_t)1 << 60);
    }
}

static void instants_never_go_back(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 3, 8);
    for (unsigned i = 0; i < 1000; i++) {
        double rate = exp(ls_rng_unit(&rng) * log(1e9));
        struct ls_schedule schedule = walk_from(rate, 1000, 0, 1);
        int64_t before = ls_schedule_peek(&schedule);

        schedule.k = ls_rng_below(&rng, 1000000);
        for (unsigned n = 0; n < 50; n++) {
            int64_t now = ls_schedule_peek(&schedule);

            assert_true(now >= before);
            before = now;
            ls_schedule_advance(&schedule);
        }
    }
}

static void workers_together_make_the_one_schedule(void **state)
{
    static const double rates[] = { 0.7, 10, 12345.678, 1e6 };
    enum { ARRIVALS = 2000 };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rates); i++) {
        for (uint64_t workers = 1; workers <= 17; workers++) {
            struct ls_schedule whole = walk_from(rates[i], 77, 0, 1);
            struct ls_schedule part[17];

            for (uint64_t w = 0; w < workers; w++)
                part[w] = walk_from(rates[i], 77, w, workers);
            for (uint64_t k = 0; k < ARRIVALS; k++) {
                struct ls_schedule *mine = &part[k % workers];

                assert_int_equal(ls_schedule_peek(mine), ls_schedule_peek(&whole));
                ls_schedule_advance(mine);
                ls_schedule_advance(&whole);
            }
        }
    }
}

static uint64_t counted_by_walking(double rate, int64_t start_ns, int64_t from_ns, int64_t to_ns)
{
    struct ls_schedule schedule = walk_from(rate, start_ns, 0, 1);
    uint64_t count = 0;

    for (; ls_schedule_peek(&schedule) < to_ns; ls_schedule_advance(&schedule))
        count += ls_schedule_peek(&schedule) >= from_ns;
    return count;
}

static void counting_equals_walking(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 4, 8);
    for (unsigned i = 0; i < 3000; i++) {
        double rate = exp(log(0.1) + ls_rng_unit(&rng) * log(1e5));
        int64_t window = (int64_t)(300e9 / rate); /* some hundred arrivals */
        int64_t start = (int64_t)ls_rng_below(&rng, 1000) - 500;
        int64_t from = start - window / 10 + (int64_t)ls_rng_below(&rng, (uint64_t)window);
        int64_t to = from + (int64_t)ls_rng_below(&rng, (uint64_t)window);

        if (i % 2 == 0) { /* edges that hit an arrival */
            struct ls_schedule schedule = walk_from(rate, start, ls_rng_below(&rng, 100), 100);

            from = ls_schedule_peek(&schedule);
            schedule.k += ls_rng_below(&rng, 100);
            to = ls_schedule_peek(&schedule);
        }
        assert_int_equal(ls_schedule_count(constant(rate), start, from, to),
                         counted_by_walking(rate, start, from, to));
    }
}

/* Adjacent windows count each arrival once. */
static void windows_add_up(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 5, 8);
    for (unsigned i = 0; i < 20000; i++) {
        double rate = exp(log(1e-9) + ls_rng_unit(&rng) * log(1e18));
        int64_t a = (int64_t)(ls_rng_next(&rng) >> (2 + ls_rng_below(&rng, 60)));
        int64_t b = a + (int64_t)(ls_rng_next(&rng) >> (2 + ls_rng_below(&rng, 60)));
        int64_t start = (int64_t)ls_rng_below(&rng, 2000) - 1000;

        assert_int_equal(ls_schedule_count(constant(rate), start, start, a) +
                             ls_schedule_count(constant(rate), start, a < start ? start : a, b),
                         ls_schedule_count(constant(rate), start, start, b));
    }
}

static void counts_have_half_open_windows(void **state)
{
    (void)state;
    assert_int_equal(ls_schedule_count(constant(1000), 0, 0, second_ns), 1000);
    assert_int_equal(ls_schedule_count(constant(1000), 0, 1, second_ns + 1), 1000);
    assert_int_equal(ls_schedule_count(constant(1000), 0, 0, 1), 1);
    assert_int_equal(ls_schedule_count(constant(1000), 0, 0, 0), 0);
    assert_int_equal(ls_schedule_count(constant(1000), 50, 0, 50), 0);
    assert_int_equal(ls_schedule_count(constant(1000), 0, 5, 3), 0);
    assert_int_equal(ls_schedule_count(constant(1000), INT64_MAX - 1, 0, INT64_MAX), 1);
    assert_int_equal(ls_schedule_count(constant(1000), 50, INT64_MIN, 51), 1);
    assert_true(ls_schedule_count(constant(1), INT64_MIN, INT64_MIN, INT64_MAX) > 0);
}

static void what_never_comes_is_at_the_end_of_time(void **state)
{
    struct ls_schedule schedule = walk_from(5e-324, 10, 0, 1);

    (void)state;
    assert_int_equal(ls_schedule_peek(&schedule), 10);
    ls_schedule_advance(&schedule);
    assert_int_equal(ls_schedule_peek(&schedule), INT64_MAX);
    for (double rate = 1e-10; rate > 0; rate /= 2)
        assert_int_equal(ls_schedule_count(constant(rate), 10, 10, INT64_MAX), 1);
    schedule = walk_from(1, INT64_MAX - second_ns, 0, 1);
    schedule.k = 2;
    assert_int_equal(ls_schedule_peek(&schedule), INT64_MAX);
}

static void arguments_out_of_range_are_refused(void **state)
{
    static const struct {
        int law;
        double rate;
        uint64_t first, stride;
    } cases[] = {
        { LS_LAW_CONSTANT, 0, 0, 1 },
        { LS_LAW_CONSTANT, -1, 0, 1 },
        { LS_LAW_CONSTANT, NAN, 0, 1 },
        { LS_LAW_CONSTANT, INFINITY, 0, 1 },
        { LS_LAW_CONSTANT, 1000000001, 0, 1 },
        { LS_LAW_CONSTANT, 1, 0, 0 },
        { LS_LAW_CONSTANT, 1, 3, 3 },
        { LS_LAW_POISSON, 0, 0, 1 },
        { LS_LAW_PIECES, 1, 0, 1 },
        { LS_LAW_COUNT, 1, 0, 1 },
        { -1, 1, 0, 1 },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_schedule schedule = { .k = 99 };
        struct ls_diag diag = { 0 };

        struct ls_arrivals arrivals = { .law = (enum ls_law)cases[i].law,
                                        .rate_per_s = cases[i].rate };

        assert_int_equal(
            ls_schedule_init(&schedule, &arrivals, 0, cases[i].first, cases[i].stride, &diag),
            LS_ERANGE);
        assert_int_equal(diag.code, LS_ERANGE);
        assert_int_equal(schedule.k, 99);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_of_three_takes_exact_thirds),
        cmocka_unit_test(no_error_adds_up),
        cmocka_unit_test(any_rate_is_within_a_nanosecond_of_its_instants),
        cmocka_unit_test(instants_never_go_back),
        cmocka_unit_test(workers_together_make_the_one_schedule),
        cmocka_unit_test(counting_equals_walking),
        cmocka_unit_test(windows_add_up),
        cmocka_unit_test(counts_have_half_open_windows),
        cmocka_unit_test(what_never_comes_is_at_the_end_of_time),
        cmocka_unit_test(arguments_out_of_range_are_refused),
    };
    return cmocka_run_group_tests_name("common.schedule", tests, NULL, NULL);
}
