#include "tests/support/test.h"

#include "common/attr.h"
#include "common/clock.h"

static void monotonic_time_never_goes_back(void **state)
{
    int64_t before = ls_clock_mono_ns();

    (void)state;
    for (unsigned i = 0; i < 10000; i++) {
        int64_t now = ls_clock_mono_ns();

        assert_true(now >= before);
        before = now;
    }
}

static void cpu_time_grows_with_work_and_the_thread_has_no_more_than_the_process(void **state)
{
    int64_t begin = ls_clock_thread_cpu_ns();

    (void)state;
    while (ls_clock_thread_cpu_ns() == begin)
        continue;
    assert_true(ls_clock_thread_cpu_ns() <= ls_clock_process_cpu_ns());
}

static void a_sleep_ends_at_its_instant_or_later(void **state)
{
    int64_t until = ls_clock_mono_ns() + 2 * LS_NS_PER_MS;

    (void)state;
    ls_clock_sleep_until(until);
    assert_true(ls_clock_mono_ns() >= until); /* no signal comes here */
    ls_clock_sleep_until(until);              /* past already: returns at once */
    ls_clock_sleep_until(0);
}

static void wall_time_is_written_in_utc(void **state)
{
    static const struct {
        int64_t wall_ns;
        const char *text;
    } cases[] = {
        { 0, "1970-01-01T00:00:00.000Z" },
        { INT64_C(1700000000123456789), "2023-11-14T22:13:20.123Z" },
        { INT64_C(951827696999999999), "2000-02-29T12:34:56.999Z" },
        { INT64_C(4102444800000000000), "2100-01-01T00:00:00.000Z" },
        { INT64_MAX, "2262-04-11T23:47:16.854Z" },
    };
    char out[32];

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        ls_clock_format_wall(cases[i].wall_ns, out, sizeof(out));
        assert_string_equal(out, cases[i].text);
    }
    assert_true(ls_clock_wall_ns() > cases[1].wall_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(monotonic_time_never_goes_back),
        cmocka_unit_test(cpu_time_grows_with_work_and_the_thread_has_no_more_than_the_process),
        cmocka_unit_test(a_sleep_ends_at_its_instant_or_later),
        cmocka_unit_test(wall_time_is_written_in_utc),
    };
    return cmocka_run_group_tests_name("common.clock", tests, NULL, NULL);
}
