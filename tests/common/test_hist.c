#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "common/hist.h"
#include "common/rng.h"
#include "tests/support/failmalloc.h"

static struct ls_hist *new_hist(void)
{
    struct ls_hist *hist = NULL;

    assert_int_equal(ls_hist_create(&hist), LS_OK);
    return hist;
}

/* Any magnitude is as likely as any other. */
static int64_t any_value(struct ls_rng *rng)
{
    return (int64_t)(ls_rng_next(rng) >> (22 + ls_rng_below(rng, 42)));
}

static void buckets_cover_the_range_without_gap_or_overlap(void **state)
{
    int64_t next = 0;

    (void)state;
    for (uint32_t i = 0; i < LS_HIST_LEN; i++) {
        int64_t low = ls_hist_lowest_at(i);
        int64_t high = ls_hist_highest_at(i);

        assert_int_equal(low, next);
        assert_true(high >= low);
        assert_true((double)(high - low) <= (double)low / 1000);
        if (high <= LS_HIST_MAX_NS) {
            assert_int_equal(ls_hist_index(low), i);
            assert_int_equal(ls_hist_index(high), i);
        }
        next = high + 1;
    }
    assert_true(next > LS_HIST_MAX_NS);
    assert_true(ls_hist_index(LS_HIST_MAX_NS) < LS_HIST_LEN);
    assert_int_equal(ls_hist_index(INT64_MAX), ls_hist_index(LS_HIST_MAX_NS));
    assert_int_equal(ls_hist_index(INT64_MIN), 0);
}

static void an_empty_histogram_answers_zero(void **state)
{
    struct ls_hist *hist = new_hist();
    uint32_t first = 1;
    uint32_t end = 1;

    (void)state;
    assert_int_equal(ls_hist_count(hist), 0);
    assert_int_equal(ls_hist_min(hist), 0);
    assert_int_equal(ls_hist_max(hist), 0);
    assert_int_equal(ls_hist_clipped(hist), 0);
    assert_int_equal(ls_hist_quantile(hist, 0.5), 0);
    assert_true(ls_hist_mean(hist) == 0);
    assert_true(ls_hist_stdev(hist) == 0);
    ls_hist_range(hist, &first, &end);
    assert_int_equal(first, end);
    ls_hist_record_n(hist, 5, 0);
    assert_int_equal(ls_hist_count(hist), 0);
    assert_int_equal(ls_hist_max(hist), 0);
    ls_hist_record(hist, 7);
    assert_int_equal(ls_hist_min(hist), 7);
    ls_hist_destroy(hist);
    ls_hist_destroy(NULL);
}

static void values_out_of_range_are_counted_at_its_ends(void **state)
{
    struct ls_hist *hist = new_hist();

    (void)state;
    ls_hist_record(hist, -1);
    ls_hist_record(hist, INT64_MIN);
    assert_int_equal(ls_hist_count_at(hist, 0), 2);
    assert_int_equal(ls_hist_max(hist), 0);
    ls_hist_record(hist, LS_HIST_MAX_NS);
    assert_int_equal(ls_hist_clipped(hist), 0);
    ls_hist_record(hist, LS_HIST_MAX_NS + 1);
    ls_hist_record_n(hist, INT64_MAX, 3);
    assert_int_equal(ls_hist_clipped(hist), 4);
    assert_int_equal(ls_hist_count_at(hist, ls_hist_index(LS_HIST_MAX_NS)), 5);
    assert_int_equal(ls_hist_count_at(hist, LS_HIST_LEN), 0);
    assert_int_equal(ls_hist_count(hist), 7);
    assert_int_equal(ls_hist_min(hist), 0);
    assert_true(ls_hist_max(hist) == INT64_MAX); /* exact, though it does not fit */
    ls_hist_destroy(hist);
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;

    return (*x > *y) - (*x < *y);
}

/* Against the sorted samples: never low, at most 0.1 % high, never above the maximum. */
static void what_is_above_a_value_is_counted_by_buckets(void **state)
{
    struct ls_hist *hist;

    (void)state;
    assert_int_equal(ls_hist_create(&hist), LS_OK);
    assert_int_equal(ls_hist_above(hist, 0), 0);
    for (int64_t value = 1; value <= 1000; value++)
        ls_hist_record(hist, value); /* buckets of one value each */
    ls_hist_record_n(hist, INT64_C(10000000), 7);
    assert_int_equal(ls_hist_above(hist, -1), 1007);
    assert_int_equal(ls_hist_above(hist, 0), 1007);
    assert_int_equal(ls_hist_above(hist, 400), 607);
    assert_int_equal(ls_hist_above(hist, 1000), 7);
    assert_int_equal(ls_hist_above(hist, INT64_C(10000000)), 0);
    assert_int_equal(ls_hist_above(hist, INT64_MAX), 0);
    ls_hist_destroy(hist);
}

static void quantiles_are_never_low_and_at_most_a_thousandth_high(void **state)
{
    static const double quantiles[] = { 0,   0.001, 0.01,  0.1,    0.25,    0.5, 0.75,
                                        0.9, 0.99,  0.999, 0.9999, 0.99999, 1 };
    static const unsigned counts[] = { 1, 2, 3, 10, 99, 100, 101, 1000, 9999, 50000 };
    int64_t *values = calloc(50000, sizeof(*values));
    struct ls_hist *hist = new_hist();
    struct ls_rng rng;

    (void)state;
    assert_non_null(values);
    ls_rng_init(&rng, 1, 0);
    for (size_t c = 0; c < LS_ARRAY_LEN(counts); c++) {
        unsigned n = counts[c];

        ls_hist_reset(hist);
        for (unsigned i = 0; i < n; i++) {
            do
                values[i] = any_value(&rng);
            while (values[i] > LS_HIST_MAX_NS);
            ls_hist_record(hist, values[i]);
        }
        qsort(values, n, sizeof(*values), by_value);
        for (size_t q = 0; q < LS_ARRAY_LEN(quantiles); q++) {
            long double rank = ceill((long double)quantiles[q] * n - 1e-9L);
            int64_t truth = values[rank < 1 ? 0 : (unsigned)rank - 1];
            int64_t got = ls_hist_quantile(hist, quantiles[q]);

            assert_true(got >= truth);
            assert_true((double)(got - truth) <= (double)truth / 1000);
            assert_true(got <= values[n - 1]);
        }
        assert_int_equal(ls_hist_min(hist), values[0]);
        assert_int_equal(ls_hist_max(hist), values[n - 1]);
        assert_int_equal(ls_hist_quantile(hist, 1), values[n - 1]);
    }
    ls_hist_destroy(hist);
    free(values);
}

/* Ranks by whole-number arithmetic, for every count up to 20000 and some beyond: rounding in
 * q x count must not add one. */
static void the_rank_is_the_ceiling_of_quantile_times_count(void **state)
{
    static const struct {
        double q;
        uint64_t part, whole;
    } cases[] = { { 0.5, 1, 2 },     { 0.75, 3, 4 },       { 0.9, 9, 10 },
                  { 0.99, 99, 100 }, { 0.999, 999, 1000 }, { 0.9999, 9999, 10000 },
                  { 0.07, 7, 100 },  { 0.55, 11, 20 },     { 0.29, 29, 100 } };

    (void)state;
    for (size_t c = 0; c < LS_ARRAY_LEN(cases); c++) {
        struct ls_hist *hist = new_hist();

        for (uint64_t n = 1; n <= 2000; n++) { /* one sample a bucket: the value is the rank */
            ls_hist_record(hist, (int64_t)n);
            assert_int_equal(ls_hist_quantile(hist, cases[c].q),
                             (n * cases[c].part + cases[c].whole - 1) / cases[c].whole);
        }
        ls_hist_reset(hist);
        for (uint64_t n = 1000; n < UINT64_C(1) << 50; n = n * 7 + 1000) {
            uint64_t whole = n / 10000 * 10000 + 10000;
            uint64_t below = whole / cases[c].whole * cases[c].part;

            ls_hist_reset(hist); /* the rank is the last of the lower bucket, exactly */
            ls_hist_record_n(hist, 1, below);
            ls_hist_record_n(hist, 2, whole - below);
            assert_int_equal(ls_hist_quantile(hist, cases[c].q), 1);
            ls_hist_reset(hist);
            ls_hist_record_n(hist, 1, below - 1);
            ls_hist_record_n(hist, 2, whole - below + 1);
            assert_int_equal(ls_hist_quantile(hist, cases[c].q), 2);
        }
        ls_hist_destroy(hist);
    }
}

/* What the whole design rests on: merged parts equal the histogram of the union, bit for bit. */
static void merging_gives_the_histogram_of_the_union(void **state)
{
    enum { PARTS = 5 };
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 2, 0);
    for (unsigned round = 0; round < 20; round++) {
        struct ls_hist *part[PARTS];
        struct ls_hist *merged = new_hist();
        struct ls_hist *backwards = new_hist();
        struct ls_hist *whole = new_hist();

        for (unsigned p = 0; p < PARTS; p++)
            part[p] = new_hist();
        for (unsigned i = 0; i < round * 500; i++) {
            int64_t value = any_value(&rng); /* some beyond the range */

            ls_hist_record(part[ls_rng_below(&rng, PARTS)], value);
            ls_hist_record(whole, value);
        }
        for (unsigned p = 0; p < PARTS; p++) {
            ls_hist_merge(merged, part[p]);
            ls_hist_merge(backwards, part[PARTS - 1 - p]);
        }
        assert_true(ls_hist_equal(merged, whole));
        assert_true(ls_hist_equal(backwards, whole));
        for (uint32_t i = 0; i < LS_HIST_LEN; i++)
            assert_int_equal(ls_hist_count_at(merged, i), ls_hist_count_at(whole, i));
        for (unsigned p = 0; p < PARTS; p++)
            ls_hist_destroy(part[p]);
        ls_hist_destroy(merged);
        ls_hist_destroy(backwards);
        ls_hist_destroy(whole);
    }
}

static void any_difference_makes_histograms_unequal(void **state)
{
    struct ls_hist *a = new_hist();
    struct ls_hist *b = new_hist();

    (void)state;
    assert_true(ls_hist_equal(a, b));
    ls_hist_record(a, 5);
    assert_false(ls_hist_equal(a, b));
    ls_hist_record(b, 6);
    assert_false(ls_hist_equal(a, b));
    ls_hist_record(a, 6);
    ls_hist_record(b, 5);
    assert_true(ls_hist_equal(a, b));
    ls_hist_record(a, 3000001); /* the same bucket, another maximum */
    ls_hist_record(b, 3000002);
    assert_int_equal(ls_hist_index(3000001), ls_hist_index(3000002));
    assert_false(ls_hist_equal(a, b));
    ls_hist_record(a, 3000002);
    ls_hist_record(b, 3000001);
    assert_true(ls_hist_equal(a, b));
    ls_hist_record_n(a, 100, 2);
    ls_hist_record(b, 100);
    ls_hist_record(b, 101);
    assert_false(ls_hist_equal(a, b));
    ls_hist_reset(a);
    ls_hist_reset(b);
    ls_hist_record(a, 1);
    ls_hist_record(b, 1);
    ls_hist_record_n(a, LS_HIST_MAX_NS + 1, 2);
    ls_hist_record(b, LS_HIST_MAX_NS + 1);
    ls_hist_record(b, LS_HIST_MAX_NS); /* the same bucket, but not clipped */
    assert_false(ls_hist_equal(a, b));
    ls_hist_destroy(a);
    ls_hist_destroy(b);
}

static void a_reset_histogram_is_like_a_new_one(void **state)
{
    struct ls_hist *used = new_hist();
    struct ls_hist *fresh = new_hist();
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 3, 0);
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 200; i++)
            ls_hist_record(used, any_value(&rng));
        ls_hist_reset(used);
        assert_true(ls_hist_equal(used, fresh));
        for (uint32_t i = 0; i < LS_HIST_LEN; i++)
            assert_int_equal(ls_hist_count_at(used, i), 0);
    }
    ls_hist_destroy(used);
    ls_hist_destroy(fresh);
}

static void the_range_holds_all_that_was_recorded_and_no_more(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 4, 0);
    for (unsigned round = 0; round < 200; round++) {
        struct ls_hist *hist = new_hist();
        uint32_t first;
        uint32_t end;
        uint64_t inside = 0;

        for (unsigned i = 0; i <= round % 7; i++)
            ls_hist_record(hist, any_value(&rng));
        ls_hist_range(hist, &first, &end);
        assert_true(first < end && end <= LS_HIST_LEN);
        assert_true(ls_hist_count_at(hist, first) > 0);
        assert_true(ls_hist_count_at(hist, end - 1) > 0);
        for (uint32_t i = first; i < end; i++)
            inside += ls_hist_count_at(hist, i);
        assert_int_equal(inside, ls_hist_count(hist));
        ls_hist_destroy(hist);
    }
}

static void mean_and_deviation_are_those_of_the_samples(void **state)
{
    struct ls_hist *hist = new_hist();
    struct ls_rng rng;
    long double sum = 0;
    long double squares = 0;
    enum { N = 20000 };

    (void)state;
    ls_hist_record_n(hist, 10, 3);
    ls_hist_record(hist, 30);
    assert_true(ls_hist_mean(hist) == 15);
    assert_true(fabs(ls_hist_stdev(hist) - sqrt(75)) < 1e-9);
    ls_hist_reset(hist);
    ls_rng_init(&rng, 5, 0);
    for (unsigned i = 0; i < N; i++) {
        int64_t value = 1000 + (int64_t)(1e6 * ls_rng_unit(&rng) * ls_rng_unit(&rng));

        ls_hist_record(hist, value);
        sum += value;
        squares += (long double)value * value;
    }
    assert_true(fabsl(ls_hist_mean(hist) - sum / N) < sum / N * 5e-4L);
    assert_true(fabsl(ls_hist_stdev(hist) - sqrtl(squares / N - sum / N * sum / N)) <
                sum / N * 1e-3L);
    ls_hist_destroy(hist);
}

static void create_once(void *ctx)
{
    struct ls_hist *hist = NULL;
    enum ls_err rc = ls_hist_create(&hist);

    (void)ctx;
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_true((rc == LS_OK) == (hist != NULL));
    ls_hist_destroy(hist);
}

static void a_failing_allocation_is_reported(void **state)
{
    (void)state;
    assert_int_equal(failmalloc_each(create_once, NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_cover_the_range_without_gap_or_overlap),
        cmocka_unit_test(an_empty_histogram_answers_zero),
        cmocka_unit_test(values_out_of_range_are_counted_at_its_ends),
        cmocka_unit_test(what_is_above_a_value_is_counted_by_buckets),
        cmocka_unit_test(quantiles_are_never_low_and_at_most_a_thousandth_high),
        cmocka_unit_test(the_rank_is_the_ceiling_of_quantile_times_count),
        cmocka_unit_test(merging_gives_the_histogram_of_the_union),
        cmocka_unit_test(any_difference_makes_histograms_unequal),
        cmocka_unit_test(a_reset_histogram_is_like_a_new_one),
        cmocka_unit_test(the_range_holds_all_that_was_recorded_and_no_more),
        cmocka_unit_test(mean_and_deviation_are_those_of_the_samples),
        cmocka_unit_test(a_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("common.hist", tests, NULL, NULL);
}
