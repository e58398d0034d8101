#include "tests/support/test.h"

#include "common/clock.h"
#include "tests/support/fake_link.h"

#define US LS_NS_PER_US
#define MS LS_NS_PER_MS
#define S  LS_NS_PER_S

/* One connection, and a wall clock that is far ahead of the monotonic one. */
static void begin(struct fake_run *run)
{
    fake_init(run);
    run->workload.connections = 1;
    run->window.measure_ns = 10 * S;
    fake_wall_ahead_ns = 1700000000 * S;
    fake_create(run);
    fake_start(run);
}

/* The request under way is answered after service_ns; the kernel had the answer delay_ns before. */
static void answer(struct fake_run *run, int64_t service_ns, int64_t delay_ns)
{
    fake_now_ns += service_ns;
    run->stamp_ns = fake_now_ns + fake_wall_ahead_ns - delay_ns;
    fake_answer(run, 0, 1);
}

static void end(struct fake_run *run)
{
    agent_engine_stop(run->engine, fake_now_ns);
    fake_check_over(run);
    fake_fini(run);
}

static const struct ls_hist *delays(const struct fake_run *run)
{
    return run->sum.series[LS_SERIES_READ_DELAY];
}

static const struct ls_hist *kernel_times(const struct fake_run *run)
{
    return run->sum.series[LS_SERIES_KERNEL_TIME];
}

static void a_stamp_divides_the_service_time(void **state)
{
    struct fake_run run;

    (void)state;
    begin(&run);
    answer(&run, 500 * US, 300 * US);
    answer(&run, 700 * US, 0);
    fake_walk(&run, fake_now_ns + 2 * S);
    assert_int_equal(ls_hist_count(delays(&run)), 2);
    assert_int_equal(ls_hist_max(delays(&run)), 300 * US);
    assert_int_equal(ls_hist_min(delays(&run)), 0);
    assert_int_equal(ls_hist_min(kernel_times(&run)), 200 * US);
    assert_int_equal(ls_hist_max(kernel_times(&run)), 700 * US);
    assert_int_equal(run.sum.health.stamps_dropped, 0);
    end(&run);
}

static void without_a_stamp_nothing_is_recorded(void **state)
{
    struct fake_run run;

    (void)state;
    begin(&run);
    fake_now_ns += MS;
    fake_answer(&run, 0, 1);
    fake_walk(&run, fake_now_ns + 2 * S);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_SERVICE_TIME]), 1);
    assert_int_equal(ls_hist_count(delays(&run)), 0);
    assert_int_equal(ls_hist_count(kernel_times(&run)), 0);
    end(&run);
}

static void a_small_error_of_the_clocks_is_no_nonsense(void **state)
{
    struct fake_run run;

    (void)state;
    begin(&run);
    answer(&run, 500 * US, -US);           /* a little in the future */
    answer(&run, 500 * US, 500 * US + US); /* a little before it was sent */
    fake_walk(&run, fake_now_ns + 2 * S);
    assert_int_equal(ls_hist_count(delays(&run)), 2);
    assert_int_equal(ls_hist_min(delays(&run)), 0);
    assert_int_equal(ls_hist_min(kernel_times(&run)), 0);
    assert_int_equal(ls_hist_max(delays(&run)), 500 * US);
    assert_int_equal(run.sum.health.stamps_dropped, 0);
    end(&run);
}

static void a_wall_clock_that_is_set_costs_one_stamp(void **state)
{
    static const int64_t steps_ns[] = { 5 * S, -5 * S, 3600 * S, -20 * MS };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(steps_ns); i++) {
        struct fake_run run;

        begin(&run);
        answer(&run, MS, 100 * US);
        fake_wall_ahead_ns += steps_ns[i];
        answer(&run, MS, 100 * US); /* dropped; the clocks are compared again */
        answer(&run, MS, 100 * US);
        fake_walk(&run, fake_now_ns + 2 * S);
        assert_int_equal(ls_hist_count(delays(&run)), 2);
        assert_int_equal(ls_hist_count(kernel_times(&run)), 2);
        assert_in_range(ls_hist_max(delays(&run)), 100 * US, 101 * US);
        assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_SERVICE_TIME]), 3);
        assert_int_equal(run.sum.health.stamps_dropped, 1);
        end(&run);
    }
}

static void a_clock_that_is_set_between_answers_is_noticed_by_the_interval(void **state)
{
    struct fake_run run;

    (void)state;
    begin(&run);
    answer(&run, MS, 100 * US);
    fake_wall_ahead_ns += 50 * US; /* too little to be nonsense */
    fake_walk(&run, 2 * S);        /* an interval ends */
    answer(&run, MS, 100 * US);
    fake_walk(&run, fake_now_ns + 2 * S);
    assert_int_equal(ls_hist_count(delays(&run)), 2);
    assert_in_range(ls_hist_min(delays(&run)), 100 * US, 101 * US);
    end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stamp_divides_the_service_time),
        cmocka_unit_test(without_a_stamp_nothing_is_recorded),
        cmocka_unit_test(a_small_error_of_the_clocks_is_no_nonsense),
        cmocka_unit_test(a_wall_clock_that_is_set_costs_one_stamp),
        cmocka_unit_test(a_clock_that_is_set_between_answers_is_noticed_by_the_interval),
    };
    return cmocka_run_group_tests_name("agent.stamps", tests, NULL, NULL);
}
