#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "common/hist_sparse.h"
#include "common/rng.h"
#include "tests/support/failmalloc.h"
#include "tests/support/sparse.h"

static struct ls_hist *new_hist(void)
{
    struct ls_hist *hist = NULL;

    assert_int_equal(ls_hist_create(&hist), LS_OK);
    return hist;
}

static struct ls_hist_narrow *new_narrow(void)
{
    struct ls_hist_narrow *narrow = NULL;

    assert_int_equal(ls_hist_narrow_create(&narrow), LS_OK);
    return narrow;
}

/* Values of all sizes, some of them very often: counters of each width, and some that outgrow it.
 */
static void fill(struct ls_hist *hist, struct ls_rng *rng, unsigned values)
{
    for (unsigned i = 0; i < values; i++)
        ls_hist_record_n(hist, (int64_t)(ls_rng_next(rng) >> (20 + ls_rng_below(rng, 44))),
                         1 + (ls_rng_next(rng) >> (30 + ls_rng_below(rng, 34))));
}

static void expect_narrow(const struct ls_hist_narrow *narrow, const struct ls_hist *expected)
{
    struct ls_hist *wide = new_hist();

    ls_hist_narrow_add_to(narrow, wide);
    assert_true(ls_hist_equal(wide, expected));
    assert_int_equal(ls_hist_narrow_count(narrow), ls_hist_count(expected));
    ls_hist_destroy(wide);
}

static void sums_are_those_of_whole_histograms(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 1, 1);
    for (unsigned round = 0; round < 40; round++) {
        struct ls_hist *sum = new_hist(), *spread = new_hist();
        struct ls_hist_narrow *narrow = new_narrow();

        expect_narrow(narrow, sum);
        for (unsigned report = 0; report < 20; report++) {
            struct ls_hist *hist = new_hist();
            struct ls_hist_sparse sparse;

            fill(hist, &rng, (unsigned)ls_rng_below(&rng, 300)); /* none, too */
            ls_hist_merge(sum, hist);
            sparse_of(hist, &sparse);
            ls_hist_sparse_add_to(&sparse, spread);
            assert_int_equal(ls_hist_narrow_add(narrow, &sparse), LS_OK);
            expect_narrow(narrow, sum);
            ls_hist_sparse_fini(&sparse);
            ls_hist_destroy(hist);
        }
        assert_true(ls_hist_equal(spread, sum));
        ls_hist_narrow_destroy(narrow);
        ls_hist_destroy(spread);
        ls_hist_destroy(sum);
    }
}

/* By ones, over the edge of each width. */
static void a_counter_grows_past_each_width(void **state)
{
    static const uint64_t steps[] = {
        1, UINT8_MAX - 1, 1, UINT16_MAX - 256, 1, UINT32_MAX - UINT16_MAX - 1, 1, UINT64_C(1) << 40
    };
    struct ls_hist_narrow *narrow = new_narrow();
    struct ls_hist *sum = new_hist();

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(steps); i++) {
        struct ls_hist *hist = new_hist();
        struct ls_hist_sparse sparse;

        ls_hist_record_n(hist, 1234567, steps[i]);
        ls_hist_record(hist, 1234567 + 20000 * (int64_t)i); /* others of its page */
        ls_hist_merge(sum, hist);
        sparse_of(hist, &sparse);
        assert_int_equal(ls_hist_narrow_add(narrow, &sparse), LS_OK);
        expect_narrow(narrow, sum);
        ls_hist_sparse_fini(&sparse);
        ls_hist_destroy(hist);
    }
    ls_hist_narrow_destroy(narrow);
    ls_hist_destroy(sum);
}

/* Reports of small counters, until each width of a page has been too narrow for some of its. */
static void pages_of_small_counters_grow_too(void **state)
{
    struct ls_hist_narrow *narrow = new_narrow();
    struct ls_hist *sum = new_hist(), *hist = new_hist();
    struct ls_hist_sparse sparse;
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 6, 6);
    for (uint32_t i = 1000; i < 1700; i++)
        ls_hist_record_n(hist, ls_hist_lowest_at(i), ls_rng_below(&rng, 256));
    sparse_of(hist, &sparse);
    for (unsigned report = 0; report < 600; report++) {
        ls_hist_merge(sum, hist);
        assert_int_equal(ls_hist_narrow_add(narrow, &sparse), LS_OK);
        if (report < 4 || report % 50 == 0 || report > 590)
            expect_narrow(narrow, sum);
    }
    ls_hist_sparse_fini(&sparse);
    ls_hist_destroy(hist);
    ls_hist_destroy(sum);
    ls_hist_narrow_destroy(narrow);
}

static void a_sum_that_was_reset_is_empty_and_takes_others(void **state)
{
    struct ls_hist_narrow *narrow = new_narrow();
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 8, 8);
    for (unsigned round = 0; round < 10; round++) {
        struct ls_hist *hist = new_hist(), *empty = new_hist();
        struct ls_hist_sparse sparse;

        fill(hist, &rng, 200);
        sparse_of(hist, &sparse);
        assert_int_equal(ls_hist_narrow_add(narrow, &sparse), LS_OK);
        expect_narrow(narrow, hist);
        ls_hist_narrow_reset(narrow);
        expect_narrow(narrow, empty);
        ls_hist_sparse_fini(&sparse);
        ls_hist_destroy(empty);
        ls_hist_destroy(hist);
    }
    ls_hist_narrow_destroy(narrow);
}

static void what_is_above_a_value_is_as_of_the_whole_histogram(void **state)
{
    struct ls_hist *hist = new_hist();
    struct ls_hist_sparse sparse;
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 3, 3);
    fill(hist, &rng, 2000);
    sparse_of(hist, &sparse);
    for (unsigned i = 0; i < 1000; i++) {
        int64_t value = (int64_t)(ls_rng_next(&rng) >> (20 + ls_rng_below(&rng, 44))) - 5;

        assert_int_equal(ls_hist_sparse_above(&sparse, value), ls_hist_above(hist, value));
    }
    ls_hist_sparse_fini(&sparse);
    ls_hist_destroy(hist);
}

static void more_than_a_log_can_tell_of_is_refused(void **state)
{
    struct ls_hist_narrow *narrow = new_narrow();
    struct ls_hist *half = new_hist();
    struct ls_hist_sparse sparse;

    (void)state;
    ls_hist_record_n(half, 1000, UINT64_C(1) << 62);
    sparse_of(half, &sparse);
    assert_int_equal(ls_hist_narrow_add(narrow, &sparse), LS_OK);
    assert_int_equal(ls_hist_narrow_add(narrow, &sparse), LS_ERANGE);
    expect_narrow(narrow, half);
    ls_hist_sparse_fini(&sparse);
    ls_hist_narrow_destroy(narrow);
    ls_hist_destroy(half);
}

/* A minute of 12,000 requests a second at about 1 ms: what a thousand clients have to fit into. */
static void a_minute_of_load_fits_twenty_kilobytes(void **state)
{
    struct ls_hist_narrow *narrow = new_narrow();
    struct ls_hist *hist = new_hist();
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 5, 5);
    for (unsigned second = 0; second < 60; second++) {
        struct ls_hist_sparse sparse;

        ls_hist_reset(hist);
        for (unsigned i = 0; i < 12000; i++) {
            double x = ls_rng_unit(&rng) + ls_rng_unit(&rng) + ls_rng_unit(&rng) - 1.5;

            ls_hist_record(hist, (int64_t)(1e6 * exp(0.7 * x)));
        }
        sparse_of(hist, &sparse);
        assert_int_equal(ls_hist_narrow_add(narrow, &sparse), LS_OK);
        ls_hist_sparse_fini(&sparse);
    }
    assert_int_equal(ls_hist_narrow_count(narrow), 720000);
    assert_true(ls_hist_narrow_bytes(narrow) < 20000);
    ls_hist_narrow_destroy(narrow);
    ls_hist_destroy(hist);
}

static void add_once(void *ctx)
{
    const struct ls_hist_sparse *sparse = ctx;
    struct ls_hist_narrow *narrow = NULL;
    struct ls_hist *empty = NULL;
    enum ls_err rc = ls_hist_narrow_create(&narrow);

    if (rc == LS_OK)
        rc = ls_hist_narrow_add(narrow, sparse);
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    if (narrow != NULL)
        assert_int_equal(ls_hist_narrow_count(narrow), rc == LS_OK ? sparse->count : 0);
    if (narrow != NULL && rc != LS_OK && ls_hist_create(&empty) == LS_OK)
        expect_narrow(narrow, empty);
    ls_hist_destroy(empty);
    ls_hist_narrow_destroy(narrow);
}

static void init_once(void *ctx)
{
    struct ls_hist_sparse sparse;
    enum ls_err rc = ls_hist_sparse_init(&sparse);

    (void)ctx;
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    ls_hist_sparse_fini(&sparse);
}

static void a_failing_allocation_changes_no_counter(void **state)
{
    struct ls_hist *hist = new_hist();
    struct ls_hist_sparse sparse;
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 9, 9);
    fill(hist, &rng, 50);
    sparse_of(hist, &sparse);
    assert_true(failmalloc_each(add_once, &sparse) > 5);
    assert_int_equal(failmalloc_each(init_once, NULL), 4);
    ls_hist_sparse_fini(&sparse);
    ls_hist_destroy(hist);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_whole_histograms),
        cmocka_unit_test(a_counter_grows_past_each_width),
        cmocka_unit_test(pages_of_small_counters_grow_too),
        cmocka_unit_test(a_sum_that_was_reset_is_empty_and_takes_others),
        cmocka_unit_test(what_is_above_a_value_is_as_of_the_whole_histogram),
        cmocka_unit_test(more_than_a_log_can_tell_of_is_refused),
        cmocka_unit_test(a_minute_of_load_fits_twenty_kilobytes),
        cmocka_unit_test(a_failing_allocation_changes_no_counter),
    };
    return cmocka_run_group_tests_name("common.hist_sparse", tests, NULL, NULL);
}
