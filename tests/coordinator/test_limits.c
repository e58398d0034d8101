/* coordinator/run/limits.c: what could not be kept to its end is not begun. */
#include "tests/support/test.h"

#include <string.h>

#include "coordinator/run/limits.h"

#define S INT64_C(1000000000)

static enum ls_err asked(size_t count, int64_t measure_ns, int64_t interval_ns,
                         struct ls_diag *diag)
{
    Ls__Duration measure = LS__DURATION__INIT, interval = LS__DURATION__INIT;
    Ls__Workload workload = LS__WORKLOAD__INIT;
    struct coord_trial items[1000] = { 0 };
    struct coord_trials trials = { .items = items, .count = count };

    measure.ns = measure_ns;
    interval.ns = interval_ns;
    workload.measure = &measure;
    workload.interval = &interval;
    for (size_t i = 0; i < count; i++)
        items[i].workload = &workload;
    return coord_limits_series(&trials, diag);
}

static void long_series_of_many_trials_are_refused_before_they_begin(void **state)
{
    struct ls_diag diag = { .text = "" };

    (void)state;
    assert_int_equal(asked(60, 10 * S, S, &diag), LS_OK);
    assert_int_equal(asked(10, 8 * 3600 * S, S, &diag), LS_OK);
    assert_int_equal(asked(1000, 10 * 3600 * S, S, &diag), LS_ERANGE);
    assert_non_null(strstr(diag.text, "an interval of "));
    assert_non_null(strstr(diag.text, "1000 trials"));
    assert_int_equal(asked(1000, 10 * 3600 * S, 120 * S, &diag), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_series_of_many_trials_are_refused_before_they_begin),
    };

    return cmocka_run_group_tests_name("coordinator.limits", tests, NULL, NULL);
}
