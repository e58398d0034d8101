#include "tests/support/test.h"

#include <limits.h>
#include <string.h>

#include "common/cpuset.h"
#include "common/rng.h"

static struct ls_cpuset set_of(const char *list)
{
    struct ls_cpuset set;

    assert_int_equal(ls_cpuset_parse(list, &set, NULL), LS_OK);
    return set;
}

static void lists_read_and_write_back_in_their_shortest_form(void **state)
{
    static const struct {
        const char *list;
        unsigned count;
        const char *shortest;
    } cases[] = {
        { "", 0, "" },           { "0", 1, "0" },         { "0-3,8", 5, "0-3,8" },
        { "8,0-3", 5, "0-3,8" }, { "0,1,2,3", 4, "0-3" }, { "1,0", 2, "0-1" },
        { "5-5", 1, "5" },       { "0-3,2-6", 7, "0-6" }, { "63-64", 2, "63-64" },
        { "007", 1, "7" },       { "1023", 1, "1023" },   { "0-1023", 1024, "0-1023" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char out[64];
        struct ls_cpuset set = set_of(cases[i].list);

        assert_int_equal(ls_cpuset_count(&set), cases[i].count);
        assert_string_equal(ls_cpuset_format(&set, out, sizeof(out)), cases[i].shortest);
    }
}

static void other_texts_are_refused(void **state)
{
    static const struct {
        const char *list;
        enum ls_err rc;
    } cases[] = {
        { ",", LS_EINVAL },          { "0,", LS_EINVAL },
        { ",0", LS_EINVAL },         { "0,,1", LS_EINVAL },
        { "-", LS_EINVAL },          { "0-", LS_EINVAL },
        { "-3", LS_EINVAL },         { "0-1-2", LS_EINVAL },
        { " 0", LS_EINVAL },         { "0 ", LS_EINVAL },
        { "0;1", LS_EINVAL },        { "a", LS_EINVAL },
        { "0x1", LS_EINVAL },        { "auto", LS_EINVAL },
        { "+1", LS_EINVAL },         { "3-1", LS_ERANGE },
        { "1024", LS_ERANGE },       { "0-1024", LS_ERANGE },
        { "4294967296", LS_ERANGE }, { "99999999999999999999", LS_ERANGE },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_cpuset set = set_of("7");
        struct ls_cpuset before = set;
        struct ls_diag diag = { 0 };

        if (ls_cpuset_parse(cases[i].list, &set, &diag) != cases[i].rc)
            fail_msg("\"%s\" is not answered with %s", cases[i].list, ls_err_name(cases[i].rc));
        assert_non_null(strstr(diag.text, cases[i].list));
        assert_true(ls_cpuset_equal(&set, &before));
    }
}

/* Half an item would be another CPU. */
static void a_list_that_does_not_fit_ends_in_dots_after_a_whole_item(void **state)
{
    static const char *const cuts[] = {
        "...", "0,...", "0,2,...", "0,2,4,...", "0,2,4,6,...", "0,2,4,6,8,...", "0,2,4,6,8,100-200"
    };
    struct ls_cpuset set = set_of("0,2,4,6,8,100-200");

    (void)state;
    for (size_t room = 4; room < 24; room++) {
        char out[25];
        const char *expected = cuts[0];

        for (size_t i = 0; i < LS_ARRAY_LEN(cuts); i++) {
            if (strlen(cuts[i]) < room)
                expected = cuts[i];
        }
        (void)memset(out, 'x', sizeof(out));
        assert_string_equal(ls_cpuset_format(&set, out, room), expected);
        assert_int_equal(out[room], 'x');
    }
}

/* Against an array of flags. */
static void sets_behave_like_arrays_of_flags(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 3, 1);
    for (unsigned round = 0; round < 200; round++) {
        bool a_has[LS_CPU_MAX] = { 0 };
        bool b_has[LS_CPU_MAX] = { 0 };
        bool common = false;
        bool within = true;
        struct ls_cpuset a;
        struct ls_cpuset b;
        struct ls_cpuset back;
        char list[8192];
        unsigned count = 0;

        ls_cpuset_clear(&a);
        ls_cpuset_clear(&b);
        for (unsigned i = 0; i < round; i++) {
            unsigned cpu = (unsigned)ls_rng_below(&rng, LS_CPU_MAX);

            a_has[cpu] = true;
            ls_cpuset_add(&a, cpu);
            if (i % 2 == 0 || round % 2 == 0)
                cpu = (unsigned)ls_rng_below(&rng, LS_CPU_MAX);
            b_has[cpu] = true;
            ls_cpuset_add(&b, cpu);
        }
        for (unsigned cpu = 0; cpu < LS_CPU_MAX; cpu++) {
            assert_int_equal(ls_cpuset_has(&a, cpu), a_has[cpu]);
            if (a_has[cpu])
                assert_int_equal(ls_cpuset_nth(&a, count++), cpu);
            common = common || (a_has[cpu] && b_has[cpu]);
            within = within && (a_has[cpu] || !b_has[cpu]);
        }
        assert_int_equal(ls_cpuset_count(&a), count);
        assert_int_equal(ls_cpuset_nth(&a, count), -1);
        assert_int_equal(ls_cpuset_intersects(&a, &b), common);
        assert_int_equal(ls_cpuset_contains(&a, &b), within);
        assert_int_equal(ls_cpuset_equal(&a, &b), memcmp(a_has, b_has, sizeof(a_has)) == 0);
        back = set_of(ls_cpuset_format(&a, list, sizeof(list)));
        assert_true(ls_cpuset_equal(&a, &back));
    }
}

static void no_cpu_beyond_the_last_is_in_a_set(void **state)
{
    struct ls_cpuset set = set_of("0-1023");

    (void)state;
    assert_true(ls_cpuset_has(&set, 1023));
    assert_false(ls_cpuset_has(&set, 1024));
    assert_false(ls_cpuset_has(&set, UINT_MAX));
}

static void a_thread_can_be_pinned_and_says_so(void **state)
{
    struct ls_cpuset all;
    struct ls_cpuset one;
    struct ls_cpuset now;
    struct ls_diag diag = { 0 };

    (void)state;
    assert_int_equal(ls_cpuset_get_affinity(0, &all, &diag), LS_OK);
    assert_true(ls_cpuset_count(&all) >= 1);
    ls_cpuset_clear(&one);
    ls_cpuset_add(&one, (unsigned)ls_cpuset_nth(&all, ls_cpuset_count(&all) - 1));
    assert_int_equal(ls_cpuset_set_affinity(0, &one, &diag), LS_OK);
    assert_int_equal(ls_cpuset_get_affinity(0, &now, &diag), LS_OK);
    assert_true(ls_cpuset_equal(&now, &one));
    assert_int_equal(ls_cpuset_set_affinity(0, &all, &diag), LS_OK);
}

static void pinning_to_no_cpu_fails_with_a_reason(void **state)
{
    struct ls_cpuset none;
    struct ls_diag diag = { 0 };

    (void)state;
    ls_cpuset_clear(&none);
    assert_int_equal(ls_cpuset_set_affinity(0, &none, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "Invalid argument"));
    assert_int_equal(ls_cpuset_get_affinity(INT_MAX, &none, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "No such process"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_read_and_write_back_in_their_shortest_form),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(a_list_that_does_not_fit_ends_in_dots_after_a_whole_item),
        cmocka_unit_test(sets_behave_like_arrays_of_flags),
        cmocka_unit_test(no_cpu_beyond_the_last_is_in_a_set),
        cmocka_unit_test(a_thread_can_be_pinned_and_says_so),
        cmocka_unit_test(pinning_to_no_cpu_fails_with_a_reason),
    };
    return cmocka_run_group_tests_name("common.cpuset", tests, NULL, NULL);
}
