#include "tests/support/test.h"

#include "common/attr.h"
#include "common/share.h"

static void parts_add_up_differ_by_one_at_most_and_never_grow(void **state)
{
    (void)state;
    for (uint64_t parts = 1; parts <= 70; parts++) {
        for (uint64_t total = 0; total <= 300; total++) {
            uint64_t sum = 0;
            uint64_t before = UINT64_MAX;

            for (uint64_t i = 0; i < parts; i++) {
                uint64_t share = ls_share(total, parts, i);

                assert_true(share == total / parts || share == (total + parts - 1) / parts);
                assert_true(share <= before);
                before = share;
                sum += share;
            }
            assert_int_equal(sum, total);
        }
    }
}

static void the_largest_numbers_do_not_overflow(void **state)
{
    static const struct {
        uint64_t total, parts, i, share;
    } cases[] = {
        { UINT64_MAX, 1, 0, UINT64_MAX },
        { UINT64_MAX, 2, 0, UINT64_C(1) << 63 },
        { UINT64_MAX, 2, 1, UINT64_MAX >> 1 },
        { UINT64_MAX, UINT64_MAX, UINT64_MAX - 1, 1 },
        { 1, UINT64_MAX, 0, 1 },
        { 1, UINT64_MAX, 1, 0 },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++)
        assert_int_equal(ls_share(cases[i].total, cases[i].parts, cases[i].i), cases[i].share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up_differ_by_one_at_most_and_never_grow),
        cmocka_unit_test(the_largest_numbers_do_not_overflow),
    };
    return cmocka_run_group_tests_name("common.share", tests, NULL, NULL);
}
