#include "tests/support/test.h"

#include "tests/common/transport_rig.h"

static void an_agent_enrols_and_both_ends_come_up(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    rig_dial(&rig, "client-1", "boot-a");
    rig_until(&rig, rig_both_up);
    assert_int_equal(rig.enrolled, 1);
    assert_int_equal(rig.ups, 1);
    assert_int_equal(rig.resumes, 0);
    rig_fini(&rig);
}

static bool ten_each_way(struct rig *rig)
{
    return rig->reports == 10 && rig->commands == 10 && rig->flushes > 0 && rig->takens > 0;
}

static void reports_and_commands_arrive_in_order(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    rig_dial(&rig, "client-1", "boot-a");
    for (unsigned n = 1; n <= 10; n++)
        assert_int_equal(rig_report(rig.dialer, n), LS_OK);
    rig_until(&rig, rig_both_up);
    for (unsigned n = 1; n <= 10; n++)
        assert_int_equal(rig_command(rig.peer, n), LS_OK);
    rig_until(&rig, ten_each_way);
    assert_false(rig.out_of_order);
    assert_int_equal(ls_dialer_unacked(rig.dialer), 0);
    assert_int_equal(ls_peer_unacked(rig.peer), 0);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_enrols_and_both_ends_come_up),
        cmocka_unit_test(reports_and_commands_arrive_in_order),
    };
    return cmocka_run_group_tests_name("common.transport", tests, NULL, NULL);
}
