#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/rng.h"
#include "common/schedule.h"

static const int64_t second_ns = INT64_C(1000000000);

static struct ls_schedule walk(const struct ls_arrivals *arrivals, int64_t start_ns, uint64_t first,
                               uint64_t stride)
{
    struct ls_schedule schedule;

    assert_int_equal(ls_schedule_init(&schedule, arrivals, start_ns, first, stride, NULL), LS_OK);
    return schedule;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static struct ls_arrivals pieces_of(struct ls_rate_piece *pieces, size_t count)
{
    struct ls_diag diag = { 0 };

    if (ls_rate_pieces_init(pieces, count, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    return (struct ls_arrivals){ .law = LS_LAW_PIECES, .pieces = pieces, .piece_count = count };
}

static void one_piece_is_a_constant_rate(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 6, 8);
    for (unsigned i = 0; i < 20000; i++) {
        /* rates that both count in without rounding */
        double rate = (double)(1 + ls_rng_below(&rng, 1000000000)) / (double)(1 << (i % 20));
        struct ls_rate_piece piece = { .from_per_s = rate, .to_per_s = rate };
        struct ls_arrivals arrivals = pieces_of(&piece, 1);
        struct ls_arrivals constant = { .law = LS_LAW_CONSTANT, .rate_per_s = rate };
        struct ls_schedule one = walk(&constant, 5, 0, 1), other = walk(&arrivals, 5, 0, 1);

        one.k = other.k = ls_rng_next(&rng) >> (20 + ls_rng_below(&rng, 44));
        if ((double)one.k / rate * 1e9 < 0x1p61)
            assert_int_equal(ls_schedule_peek(&one), ls_schedule_peek(&other));
    }
}

/* The integral of the rate from the start until since_ns. */
static long double integral(const struct ls_arrivals *arrivals, int64_t since_ns)
{
    long double sum = 0;

    for (size_t i = 0; i < arrivals->piece_count && arrivals->pieces[i].at_ns < since_ns; i++) {
        const struct ls_rate_piece *piece = &arrivals->pieces[i];
        bool is_last = i + 1 == arrivals->piece_count;
        int64_t end_ns = is_last || piece[1].at_ns > since_ns ? since_ns : piece[1].at_ns;
        long double t = (long double)(end_ns - piece->at_ns) / 1e9L;
        long double slope = is_last ? 0
                                    : ((long double)piece->to_per_s - piece->from_per_s) /
                                          ((long double)(piece[1].at_ns - piece->at_ns) / 1e9L);

        sum += piece->from_per_s * t + slope * t * t / 2;
    }
    return sum;
}

#define PIECES 12

/* Ramps up and down, from and to nothing, pauses, jumps. */
static struct ls_arrivals random_pieces(struct ls_rng *rng, struct ls_rate_piece pieces[PIECES])
{
    size_t count = 1 + ls_rng_below(rng, PIECES);
    int64_t at_ns = 0;

    for (size_t i = 0; i < count; i++) {
        double from = ls_rng_below(rng, 5) == 0 ? 0 : exp(ls_rng_unit(rng) * log(1e6));
        double to = ls_rng_below(rng, 3) == 0   ? from
                    : ls_rng_below(rng, 5) == 0 ? 0
                                                : exp(ls_rng_unit(rng) * log(1e6));

        pieces[i] = (struct ls_rate_piece){ .at_ns = at_ns,
                                            .from_per_s = from,
                                            .to_per_s = i + 1 < count ? to : from };
        at_ns += 1 + (int64_t)ls_rng_below(rng, (uint64_t)second_ns << ls_rng_below(rng, 12));
    }
    return pieces_of(pieces, count);
}

static void any_span_of_time_holds_its_integral_within_one(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 7, 8);
    for (unsigned i = 0; i < 2000; i++) {
        struct ls_rate_piece pieces[PIECES];
        struct ls_arrivals arrivals = random_pieces(&rng, pieces);
        int64_t whole_ns = pieces[arrivals.piece_count - 1].at_ns + 10 * second_ns;

        for (unsigned n = 0; n < 20; n++) {
            int64_t from_ns = (int64_t)ls_rng_below(&rng, (uint64_t)whole_ns);
            int64_t to_ns = from_ns + (int64_t)ls_rng_below(&rng, (uint64_t)(whole_ns - from_ns));
            long double wanted = integral(&arrivals, to_ns) - integral(&arrivals, from_ns);
            uint64_t count = ls_schedule_count(&arrivals, 99, 99 + from_ns, 99 + to_ns);

            /* and what a nanosecond, in which instants are given, can hold: twice, at both ends */
            assert_true(fabsl((long double)count - wanted) < 1 + 2e-3L + 1e-9L * wanted);
        }
    }
}

/* Far out, where a sum of gaps would have gone astray: a ramp over a day to arrival 10^12 and back.
 */
static void a_long_ramp_is_exact_to_a_nanosecond(void **state)
{
    const int64_t half_day_ns = 43200 * second_ns;
    struct ls_rate_piece pieces[] = {
        { .from_per_s = 0, .to_per_s = 23148148 },
        { .at_ns = half_day_ns, .from_per_s = 23148148, .to_per_s = 0 },
        { .at_ns = 2 * half_day_ns }
    };
    struct ls_arrivals arrivals = pieces_of(pieces, 3);
    struct ls_schedule schedule = walk(&arrivals, 0, 0, 1);

    (void)state;
    for (uint64_t k = 1; k < UINT64_C(499999996800); k = k * 3 + 1) {
        long double exact = sqrtl(2 * (long double)k * 43200 / 23148148) * 1e9L;

        schedule.k = k;
        assert_true(fabsl((long double)ls_schedule_peek(&schedule) - exact) <= 1.1L);
    }
    schedule.k = UINT64_C(499999996800); /* half of all: when the rate turns */
    assert_int_equal(ls_schedule_peek(&schedule), half_day_ns);
    schedule.k = UINT64_C(999999993600) - 1; /* the last, when the rate is all but nothing */
    assert_true(ls_schedule_peek(&schedule) < 2 * half_day_ns);
    schedule.k++;
    assert_int_equal(ls_schedule_peek(&schedule), INT64_MAX);
}

static void pauses_hold_nothing_and_rates_end_where_the_next_begins(void **state)
{
    struct ls_rate_piece pieces[] = { { .from_per_s = 10, .to_per_s = 10 },
                                      { .at_ns = second_ns },
                                      { .at_ns = 3 * second_ns, .from_per_s = 4, .to_per_s = 4 },
                                      { .at_ns = 4 * second_ns } };
    struct ls_arrivals arrivals = pieces_of(pieces, 4);
    struct ls_schedule schedule = walk(&arrivals, 7, 0, 1);

    (void)state;
    for (int64_t k = 0; k < 10; k++, ls_schedule_advance(&schedule))
        assert_int_equal(ls_schedule_peek(&schedule), 7 + k * second_ns / 10);
    for (int64_t k = 0; k < 4; k++, ls_schedule_advance(&schedule))
        assert_int_equal(ls_schedule_peek(&schedule), 7 + 3 * second_ns + k * second_ns / 4);
    assert_int_equal(ls_schedule_peek(&schedule), INT64_MAX);
    assert_int_equal(ls_schedule_count(&arrivals, 7, 0, INT64_MAX), 14);
    assert_int_equal(ls_schedule_count(&arrivals, 7, 7 + second_ns, 7 + 3 * second_ns), 0);
}

static void pieces_out_of_order_or_range_are_refused(void **state)
{
    static const struct {
        struct ls_rate_piece pieces[2];
        size_t count;
    } cases[] = {
        { { { .from_per_s = 1, .to_per_s = 1 } }, 0 },
        { { { .at_ns = 1, .from_per_s = 1, .to_per_s = 1 } }, 1 },
        { { { .from_per_s = 1, .to_per_s = 2 } }, 1 },
        { { { .from_per_s = -1, .to_per_s = -1 } }, 1 },
        { { { .from_per_s = NAN, .to_per_s = NAN } }, 1 },
        { { { .from_per_s = 1e9 + 1, .to_per_s = 1e9 + 1 } }, 1 },
        { { { .from_per_s = 1, .to_per_s = 1e10 }, { .at_ns = 1 } }, 2 },
        { { { .from_per_s = 1, .to_per_s = 1 }, { .at_ns = 0 } }, 2 },
        { { { .from_per_s = 1, .to_per_s = 1 }, { .at_ns = INT64_MAX } }, 2 },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_rate_piece pieces[2] = { cases[i].pieces[0], cases[i].pieces[1] };

        assert_int_equal(ls_rate_pieces_init(pieces, cases[i].count, NULL), LS_ERANGE);
    }
}

/* ---- Poisson --------------------------------------------------------------------------------- */

static struct ls_arrivals poisson(double rate_per_s, uint64_t seed)
{
    return (struct ls_arrivals){ .law = LS_LAW_POISSON, .rate_per_s = rate_per_s, .seed = seed };
}

static void workers_together_make_the_one_schedule_of_every_law(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 8, 8);
    for (unsigned round = 0; round < 30; round++) {
        struct ls_rate_piece pieces[PIECES];
        struct ls_arrivals arrivals =
            round % 2 == 0 ? random_pieces(&rng, pieces) : poisson(exp(round / 2.0), round);

        for (uint64_t workers = 1; workers <= 100; workers = workers * 3 / 2 + 1) {
            struct ls_schedule whole = walk(&arrivals, 77, 0, 1);
            struct ls_schedule part[100];

            for (uint64_t w = 0; w < workers; w++)
                part[w] = walk(&arrivals, 77, w, workers);
            for (uint64_t k = 0; k < 1000; k++) {
                struct ls_schedule *mine = &part[k % workers];

                assert_int_equal(ls_schedule_peek(mine), ls_schedule_peek(&whole));
                assert_int_equal(ls_schedule_peek(mine), ls_schedule_peek(&whole));
                ls_schedule_advance(mine);
                ls_schedule_advance(&whole);
            }
        }
    }
}

/* Computed apart, with sixty digits: these must never change. */
static void a_seed_names_its_schedule_for_ever(void **state)
{
    static const struct {
        uint64_t k;
        int64_t at_ns;
    } expected[] = { { 0, 34296 },     { 1, 1374948 },   { 2, 2507334 },
                     { 3, 2823797 },   { 14, 18073997 }, { 15, 18322161 },
                     { 16, 18751033 }, { 17, 20002961 }, { 39, 36447822 } };
    struct ls_arrivals arrivals = poisson(1000, 42);
    struct ls_schedule schedule = walk(&arrivals, 0, 0, 1);

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(expected); i++) {
        schedule.k = expected[i].k;
        assert_int_equal(ls_schedule_peek(&schedule), expected[i].at_ns);
    }
}

static void seeds_differ(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct ls_arrivals a = poisson(1000, seed), b = poisson(1000, seed + 1);
        struct ls_schedule one = walk(&a, 0, 0, 1), other = walk(&b, 0, 0, 1);
        unsigned same = 0;

        for (unsigned k = 0; k < 16; k++) {
            same += ls_schedule_peek(&one) == ls_schedule_peek(&other);
            ls_schedule_advance(&one);
            ls_schedule_advance(&other);
        }
        assert_true(same <= 1);
    }
}

#define SAMPLES 200000

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Gaps in units of their mean. */
static void sample_gaps(uint64_t seed, double gaps[SAMPLES])
{
    struct ls_arrivals arrivals = poisson(1000, seed);
    struct ls_schedule schedule = walk(&arrivals, 0, 0, 1);
    int64_t last_ns = 0;

    for (unsigned i = 0; i < SAMPLES; i++, ls_schedule_advance(&schedule)) {
        int64_t at_ns = ls_schedule_peek(&schedule);

        assert_true(at_ns >= last_ns);
        gaps[i] = (double)(at_ns - last_ns) / 1e6;
        last_ns = at_ns;
    }
}

/* Largest distance of the two distribution functions, times the root of n: Kolmogorov and Smirnov.
 * Above 1.95 for one of a thousand samples that are exponential. */
static double distance_from_exponential(double gaps[SAMPLES])
{
    double most = 0;

    qsort(gaps, SAMPLES, sizeof(gaps[0]), compare);
    for (unsigned i = 0; i < SAMPLES; i++) {
        double below = -expm1(-gaps[i]);

        most = fmax(most, fmax(below - (double)i / SAMPLES, (double)(i + 1) / SAMPLES - below));
    }
    return most * sqrt(SAMPLES);
}

static void gaps_are_independent_and_exponential(void **state)
{
    static double gaps[SAMPLES];

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        double sum = 0, squares = 0, neighbours = 0;

        sample_gaps(seed, gaps);
        for (unsigned i = 0; i < SAMPLES; i++) {
            sum += gaps[i];
            squares += (gaps[i] - 1) * (gaps[i] - 1);
            neighbours += (gaps[i] - 1) * (gaps[(i + 1) % SAMPLES] - 1);
        }
        /* Standard errors: 1, sqrt(8) and 1, over sqrt(n). Four of them. */
        assert_true(fabs(sum / SAMPLES - 1) < 4 / sqrt(SAMPLES));
        assert_true(fabs(squares / SAMPLES - 1) < 4 * sqrt(8) / sqrt(SAMPLES));
        assert_true(fabs(neighbours / SAMPLES) < 4 / sqrt(SAMPLES));
        assert_true(distance_from_exponential(gaps) < 1.95);
    }
}

/* Arrivals in a second: mean and variance are the rate. */
static void counts_vary_as_poisson_says(void **state)
{
    struct ls_arrivals arrivals = poisson(20, 3);
    struct ls_schedule schedule = walk(&arrivals, 0, 0, 1);
    double squares = 0;
    unsigned seconds = 10000, total = 0;

    (void)state;
    for (unsigned s = 0; s < seconds; s++) {
        unsigned count = 0;

        for (; ls_schedule_peek(&schedule) < (int64_t)(s + 1) * second_ns; count++)
            ls_schedule_advance(&schedule);
        total += count;
        squares += (count - 20.0) * (count - 20.0);
    }
    assert_true(fabs(total / (double)seconds - 20) < 4 * sqrt(20.0 / seconds));
    assert_true(fabs(squares / seconds - 20) < 4 * 20 * sqrt(2.0 / seconds) * 1.1);
    assert_int_equal(ls_schedule_count(&arrivals, 5, 5, 5 + seconds * second_ns), total);
    assert_int_equal(ls_schedule_count(&arrivals, 5, 5, 1005) +
                         ls_schedule_count(&arrivals, 5, 1005, 5 + seconds * second_ns),
                     total);
}

static void the_slowest_schedule_comes_to_an_end_of_time(void **state)
{
    struct ls_arrivals arrivals = poisson(1e-9, 1);
    struct ls_schedule schedule = walk(&arrivals, 1000, 0, 1);
    int64_t last_ns = 0;

    (void)state;
    for (unsigned i = 0; i < 10000; i++) {
        int64_t at_ns = ls_schedule_peek(&schedule);

        assert_true(at_ns >= last_ns);
        last_ns = at_ns;
        ls_schedule_advance(&schedule);
    }
    assert_int_equal(last_ns, INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_piece_is_a_constant_rate),
        cmocka_unit_test(any_span_of_time_holds_its_integral_within_one),
        cmocka_unit_test(a_long_ramp_is_exact_to_a_nanosecond),
        cmocka_unit_test(pauses_hold_nothing_and_rates_end_where_the_next_begins),
        cmocka_unit_test(pieces_out_of_order_or_range_are_refused),
        cmocka_unit_test(workers_together_make_the_one_schedule_of_every_law),
        cmocka_unit_test(a_seed_names_its_schedule_for_ever),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(gaps_are_independent_and_exponential),
        cmocka_unit_test(counts_vary_as_poisson_says),
        cmocka_unit_test(the_slowest_schedule_comes_to_an_end_of_time),
    };
    return cmocka_run_group_tests_name("common.schedule_laws", tests, NULL, NULL);
}
