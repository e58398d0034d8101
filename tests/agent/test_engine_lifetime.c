/* Connections that we replace, on invented time. */
#include "tests/support/test.h"

#include "common/clock.h"
#include "tests/support/fake_link.h"

#define MS LS_NS_PER_MS
#define S  LS_NS_PER_S

static void a_connection_takes_exactly_its_requests_and_is_replaced(void **state)
{
    (void)state;
    for (uint32_t pipeline = 1; pipeline <= 3; pipeline++) {
        struct fake_run run;

        fake_init(&run);
        run.workload.count = 120;
        run.workload.pipeline = pipeline;
        run.workload.lifetime_requests = 10;
        fake_create(&run);
        fake_start(&run);
        while (!agent_engine_is_finished(run.engine)) {
            for (unsigned i = 0; i < 4; i++) {
                struct fake_link *link = run.links[i];

                assert_true(link->got - link->got_before <= 10);
                if (link->is_open && fake_unanswered(&run, i) > 0)
                    fake_answer(&run, i, 1);
                if (!link->is_open)
                    assert_int_equal(link->got - link->got_before, 10);
            }
            fake_tick(&run, fake_now_ns + MS);
        }
        fake_check_over(&run);
        assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 120);
        assert_int_equal(fake_connections(&run)->retired, 12);
        assert_true(fake_connections(&run)->renewed >= 8);
        assert_int_equal(fake_connections(&run)->opened, 4 + fake_connections(&run)->renewed);
        assert_int_equal(fake_connections(&run)->reopened, 0);
        assert_int_equal(fake_connections(&run)->failed, 0);
        fake_fini(&run);
    }
}

static void in_open_loop_a_connection_that_is_replaced_is_not_free(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 1000);
    run.workload.connections = 2;
    run.workload.lifetime_requests = 1;
    fake_create(&run);
    run.hold_opens = false;
    fake_start(&run); /* 0 has one */
    run.hold_opens = true;
    fake_answer(&run, 0, 1); /* and is done */
    assert_false(run.links[0]->is_open);
    fake_walk(&run, S + 1 * MS); /* goes to 1 */
    assert_int_equal(fake_unanswered(&run, 1), 1);
    fake_walk(&run, S + 2 * MS); /* waits: 0 is connecting, 1 takes no more */
    assert_int_equal(run.links[0]->got + run.links[1]->got, 2);
    fake_opened(&run, 0, 0);
    assert_int_equal(run.links[0]->got, 2);
    run.hold_opens = false;
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    assert_int_equal(fake_connections(&run)->retired, 1);
    assert_int_equal(fake_connections(&run)->renewed, 1);
    fake_fini(&run);
}

static void arrivals_never_pass_a_connection_s_lifetime(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 2000);
    run.workload.connections = 3;
    run.workload.pipeline = 8;
    run.workload.lifetime_requests = 5;
    fake_create(&run);
    fake_start(&run);
    for (unsigned round = 0; !agent_engine_is_finished(run.engine); round++) {
        for (unsigned i = 0; i < 3; i++) {
            struct fake_link *link = run.links[i];

            assert_true(link->got - link->got_before <= 5);
            if (round % 3 == i && link->is_open && fake_unanswered(&run, i) > 0)
                fake_answer(&run, i, fake_unanswered(&run, i));
        }
        fake_walk(&run, fake_now_ns + MS);
    }
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 2000);
    assert_true(fake_connections(&run)->retired >= 2000 / 5 - 3);
    fake_fini(&run);
}

/* Time begins with the load; who is busy then ends with its answer, who is idle at once. */
static void a_lifetime_in_time_ends_idle_and_busy_connections(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 4); /* 0, 250, 500, 750 ms */
    run.workload.connections = 3;
    run.workload.lifetime_ns = 300 * MS;
    fake_create(&run);
    fake_start(&run);
    fake_walk(&run, S + 200 * MS);
    fake_answer(&run, 0, 1);
    fake_walk(&run, S + 299 * MS); /* 0 and 2 are idle, 1 has a request */
    assert_int_equal(fake_connections(&run)->retired, 0);
    fake_walk(&run, S + 305 * MS); /* noticed, and no reason to hesitate */
    assert_int_equal(fake_connections(&run)->retired, 2);
    assert_int_equal(run.links[0]->opens + run.links[2]->opens, 4);
    assert_int_equal(fake_unanswered(&run, 1), 1);
    fake_answer(&run, 1, 1);
    assert_int_equal(fake_connections(&run)->retired, 3);
    fake_walk(&run, S + 599 * MS);
    assert_int_equal(fake_connections(&run)->renewed, 3);
    assert_int_equal(fake_connections(&run)->retired, 3);
    fake_walk(&run, S + 650 * MS); /* the renewed ones had theirs, but for one that is busy */
    assert_int_equal(fake_connections(&run)->retired, 5);
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 2);
    assert_int_equal(fake_connections(&run)->reopened, 0);
    fake_fini(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_takes_exactly_its_requests_and_is_replaced),
        cmocka_unit_test(in_open_loop_a_connection_that_is_replaced_is_not_free),
        cmocka_unit_test(arrivals_never_pass_a_connection_s_lifetime),
        cmocka_unit_test(a_lifetime_in_time_ends_idle_and_busy_connections),
    };
    return cmocka_run_group_tests_name("agent.engine_lifetime", tests, NULL, NULL);
}
