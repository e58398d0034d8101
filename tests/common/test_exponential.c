#include "tests/support/test.h"

#include <math.h>

#include "common/exponential.h"
#include "common/rng.h"

static void the_logarithm_is_right_to_its_last_bits(void **state)
{
    struct ls_rng rng;

    (void)state;
    assert_true(ls_minus_log(1) == 0);
    ls_rng_init(&rng, 1, 9);
    for (unsigned i = 0; i < 300000; i++) {
        /* from 1 - 2^-53 down to products of many numbers */
        double x = ldexp(1 - ldexp(ls_rng_unit(&rng), -(int)ls_rng_below(&rng, 53)),
                         i % 3 == 0 ? 0 : -(int)ls_rng_below(&rng, 1000));
        long double exact;

        if (x == 0)
            continue;
        exact = -logl((long double)x);
        assert_true(fabsl((long double)ls_minus_log(x) - exact) <= exact * 0x1p-50L);
    }
}

static void uniform_numbers_are_from_above_0_to_1_and_even(void **state)
{
    unsigned bins[16] = { 0 };
    double sum = 0;

    (void)state;
    for (uint64_t i = 0; i < 160000; i++) {
        double x = ls_uniform_at(7, i);

        assert_true(x > 0 && x <= 1);
        assert_true(x == ls_uniform_at(7, i));
        bins[(unsigned)ceil(x * 16) - 1]++;
        sum += x;
    }
    for (unsigned i = 0; i < 16; i++) /* standard deviation 97 */
        assert_true(bins[i] > 10000 - 400 && bins[i] < 10000 + 400);
    assert_true(fabs(sum / 160000 - 0.5) < 4 * 0.2887 / 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_logarithm_is_right_to_its_last_bits),
        cmocka_unit_test(uniform_numbers_are_from_above_0_to_1_and_even),
    };
    return cmocka_run_group_tests_name("common.exponential", tests, NULL, NULL);
}
