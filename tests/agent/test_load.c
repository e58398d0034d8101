#include "tests/support/test.h"

#include "common/clock.h"
#include "tests/support/load_run.h"

#define MS LS_NS_PER_MS

static void closed_loop_books_balance_and_totals_are_the_sums_of_intervals(void **state)
{
    struct load_workload workload = load_run_null_workload();
    struct load_window window;
    struct load_run run;

    (void)state;
    workload.pipeline = 3;
    workload.workers = workload.workers_total = 2;
    workload.connections = 5;
    load_run_init(&run, &workload);
    window = load_run_window(50 * MS, 30 * MS, 100 * MS);
    load_run_all(&run, &window);
    assert_true(run.totals.warmup.sent > 0);
    assert_true(run.totals.measure.sent > 0);
    assert_int_equal(run.totals.measure.outcome[LOAD_OK], run.totals.measure.sent);
    assert_int_equal(run.totals.connections.asked, 5);
    assert_int_equal(run.totals.connections.opened, 5);
    assert_int_equal(run.totals.connections.peak, 5);
    load_run_fini(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_loop_books_balance_and_totals_are_the_sums_of_intervals),
    };
    return cmocka_run_group_tests_name("agent.load", tests, NULL, NULL);
}
