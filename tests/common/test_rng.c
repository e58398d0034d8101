#include "tests/support/test.h"

#include <math.h>

#include "common/attr.h"
#include "common/rng.h"

/* What the author's own program (pcg-c, check-pcg64) prints for seed 42, stream 54. */
static void the_numbers_are_those_of_the_reference(void **state)
{
    static const uint64_t expected[] = {
        0x86b1da1d72062b68, 0x1304aa46c9853d39, 0xa3670e9e0dd50358,
        0xf9090e529a7dae00, 0xc85b9fd837996f2c, 0x606121f8e3919196,
    };
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 42, 54);
    for (size_t i = 0; i < LS_ARRAY_LEN(expected); i++)
        assert_int_equal(ls_rng_next(&rng), expected[i]);
}

static void seed_and_stream_alone_decide(void **state)
{
    struct ls_rng a;
    struct ls_rng b;
    struct ls_rng other_seed;
    struct ls_rng other_stream;
    unsigned same = 0;

    (void)state;
    ls_rng_init(&a, 1, 2);
    ls_rng_init(&b, 1, 2);
    ls_rng_init(&other_seed, 2, 2);
    ls_rng_init(&other_stream, 1, 3);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t x = ls_rng_next(&a);

        assert_int_equal(ls_rng_next(&b), x);
        same += ls_rng_next(&other_seed) == x;
        same += ls_rng_next(&other_stream) == x;
    }
    assert_int_equal(same, 0);
}

/* Chi-squared with 2 to 99 degrees of freedom; the seed is fixed, so this cannot fail by chance. */
static void below_is_even_and_within_its_bound(void **state)
{
    static const uint64_t bounds[] = { 1, 2, 3, 7, 10, 64, 100 };
    enum { DRAWS = 100000 };
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 9, 9);
    for (size_t b = 0; b < LS_ARRAY_LEN(bounds); b++) {
        unsigned hits[100] = { 0 };
        double expected = (double)DRAWS / (double)bounds[b];
        double chi = 0;

        for (unsigned i = 0; i < DRAWS; i++) {
            uint64_t x = ls_rng_below(&rng, bounds[b]);

            assert_true(x < bounds[b]);
            hits[x]++;
        }
        for (uint64_t x = 0; x < bounds[b]; x++)
            chi += (hits[x] - expected) * (hits[x] - expected) / expected;
        assert_true(chi < (double)bounds[b] + 5 * sqrt(2.0 * (double)bounds[b]));
    }
}

/* With a bound of 3/4 of the range, one in three results would come twice as often as the others if
 * nothing were drawn again. */
static void below_is_even_for_bounds_near_the_top(void **state)
{
    const uint64_t bound = UINT64_C(3) << 62;
    struct ls_rng rng;
    unsigned hits[3] = { 0 };

    (void)state;
    ls_rng_init(&rng, 4, 4);
    for (unsigned i = 0; i < 30000; i++) {
        uint64_t x = ls_rng_below(&rng, bound);

        assert_true(x < bound);
        hits[x % 3]++;
    }
    for (unsigned i = 0; i < 3; i++)
        assert_in_range(hits[i], 9500, 10500);
    assert_true(ls_rng_below(&rng, UINT64_MAX) < UINT64_MAX);
}

static void unit_numbers_are_uniform_and_below_one(void **state)
{
    struct ls_rng rng;
    double sum = 0;
    double squares = 0;

    (void)state;
    ls_rng_init(&rng, 6, 6);
    for (unsigned i = 0; i < 100000; i++) {
        double x = ls_rng_unit(&rng);

        assert_true(x >= 0 && x < 1);
        sum += x;
        squares += x * x;
    }
    assert_true(fabs(sum / 1e5 - 0.5) < 0.005);
    assert_true(fabs(squares / 1e5 - 1.0 / 3) < 0.005);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_are_those_of_the_reference),
        cmocka_unit_test(seed_and_stream_alone_decide),
        cmocka_unit_test(below_is_even_and_within_its_bound),
        cmocka_unit_test(below_is_even_for_bounds_near_the_top),
        cmocka_unit_test(unit_numbers_are_uniform_and_below_one),
    };
    return cmocka_run_group_tests_name("common.rng", tests, NULL, NULL);
}
