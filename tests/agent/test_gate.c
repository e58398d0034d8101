#include "tests/support/test.h"

#include <pthread.h>

#include "agent/load/gate.h"

#define WORKERS 4

static void it_opens_when_the_last_one_arrives(void **state)
{
    struct agent_gate gate;

    (void)state;
    agent_gate_init(&gate, 3);
    assert_false(agent_gate_arrive(&gate));
    assert_false(agent_gate_arrive(&gate));
    assert_false(agent_gate_is_open(&gate));
    assert_true(agent_gate_arrive(&gate));
    assert_true(agent_gate_is_open(&gate));
    assert_true(agent_gate_decide(&gate));
    assert_true(agent_gate_decide(&gate));
    assert_false(agent_gate_is_shut(&gate));
}

static void a_decision_before_the_last_one_shuts_it_for_good(void **state)
{
    struct agent_gate gate;

    (void)state;
    agent_gate_init(&gate, 2);
    assert_false(agent_gate_arrive(&gate));
    assert_false(agent_gate_decide(&gate));
    assert_true(agent_gate_is_shut(&gate));
    assert_false(agent_gate_arrive(&gate)); /* too late */
    assert_false(agent_gate_decide(&gate));
    assert_false(agent_gate_is_open(&gate));
}

static void *arrive_and_decide(void *arg)
{
    (void)agent_gate_arrive(arg);
    return agent_gate_decide(arg) ? arg : NULL;
}

static void whatever_the_order_all_get_the_same_answer(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct agent_gate gate;
        pthread_t threads[WORKERS];
        int started = 0;

        agent_gate_init(&gate, WORKERS);
        for (int i = 0; i < WORKERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, arrive_and_decide, &gate), 0);
        for (int i = 0; i < WORKERS; i++) {
            void *result = NULL;

            assert_int_equal(pthread_join(threads[i], &result), 0);
            started += result != NULL;
        }
        assert_true(started == 0 || started == WORKERS);
        assert_true(agent_gate_is_open(&gate) == (started == WORKERS));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_opens_when_the_last_one_arrives),
        cmocka_unit_test(a_decision_before_the_last_one_shuts_it_for_good),
        cmocka_unit_test(whatever_the_order_all_get_the_same_answer),
    };
    return cmocka_run_group_tests_name("agent.gate", tests, NULL, NULL);
}
