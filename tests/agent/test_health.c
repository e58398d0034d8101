#include "tests/support/test.h"

#include "agent/load/health.h"
#include "common/clock.h"

static void schedstat_is_read_or_ignored(void **state)
{
    static const struct {
        const char *text;
        int64_t wait_ns;
    } rows[] = {
        { "123456789 4242 17\n", 4242 },
        { "1 9223372036854775807 1", INT64_MAX },
        { "0 0 0\n", 0 },
        { "123", 0 },
        { "", 0 },
        { "\n", 0 },
        { "a b c", 0 },
        { "1 -5 1", 0 },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++)
        assert_int_equal(agent_schedstat_wait_ns(rows[i].text), rows[i].wait_ns);
}

/* At least ns of CPU time. */
static void burn(int64_t ns)
{
    int64_t end_ns = ls_clock_thread_cpu_ns() + ns;

    while (ls_clock_thread_cpu_ns() < end_ns)
        continue;
}

static void laps_add_up_to_what_the_thread_used(void **state)
{
    struct agent_health health;
    struct load_health laps[2] = { 0 };
    struct load_health sum = { 0 };
    int64_t before_ns;
    int64_t cpu_ns;

    (void)state;
    agent_health_init(&health);
    burn(LS_NS_PER_MS); /* before the first lap: of no interest */
    before_ns = ls_clock_thread_cpu_ns();
    agent_health_start(&health, 1000, 50);
    burn(2 * LS_NS_PER_MS);
    agent_health_lap(&health, 3000, 60, &laps[0]);
    burn(LS_NS_PER_MS);
    agent_health_lap(&health, 7000, 90, &laps[1]);
    cpu_ns = ls_clock_thread_cpu_ns() - before_ns;
    load_health_add(&sum, &laps[0]);
    load_health_add(&sum, &laps[1]);
    assert_int_equal(laps[0].window_ns, 2000);
    assert_int_equal(laps[1].window_ns, 4000);
    assert_int_equal(laps[0].spin_ns, 10);
    assert_int_equal(sum.spin_ns, 40);
    assert_true(laps[0].cpu_ns >= 2 * LS_NS_PER_MS);
    assert_true(laps[1].cpu_ns >= LS_NS_PER_MS);
    assert_true(sum.cpu_ns <= cpu_ns);
    assert_true(sum.runqueue_wait_ns >= 0);
    agent_health_fini(&health);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedstat_is_read_or_ignored),
        cmocka_unit_test(laps_add_up_to_what_the_thread_used),
    };
    return cmocka_run_group_tests_name("agent.health", tests, NULL, NULL);
}
