/* coordinator/fleet/cpus.c: agents of one host share its CPUs, those of others have theirs. */
#include "tests/support/test.h"

#include <string.h>

#include "coordinator/fleet/cpus.h"

static struct ls_cpuset set_of(const char *list)
{
    struct ls_cpuset set;

    assert_int_equal(ls_cpuset_parse(list, &set, NULL), LS_OK);
    return set;
}

static void assert_cpus(const struct coord_cpus *cpus, uint32_t agent, const char *expected)
{
    char text[64];

    assert_string_equal(ls_cpuset_format(&cpus->agents[agent], text, sizeof(text)), expected);
}

struct rig {
    struct ls_topology a, b;
    const struct ls_topology *hosts[2];
    Ls__FleetCpus wish;
    struct coord_cpus cpus;
    struct ls_diag diag;
};

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){ 0 };
    assert_int_equal(ls_topology_init(&rig->a, "core:4 pu:2", NULL), LS_OK);
    assert_int_equal(ls_topology_init(&rig->b, "core:2 pu:1", NULL), LS_OK);
    rig->hosts[0] = &rig->a;
    rig->hosts[1] = &rig->b;
    ls__fleet_cpus__init(&rig->wish);
}

static void rig_fini(struct rig *rig)
{
    ls_topology_fini(&rig->a);
    ls_topology_fini(&rig->b);
    coord_cpus_fini(&rig->cpus);
}

static enum ls_err place(struct rig *rig, const struct coord_cpus_agent *agents, uint32_t servers,
                         uint32_t clients)
{
    coord_cpus_fini(&rig->cpus);
    rig->cpus = (struct coord_cpus){ 0 };
    return coord_cpus_place(&rig->wish, agents, servers, clients, rig->hosts, 2, &rig->cpus,
                            &rig->diag);
}

static void each_host_is_divided_among_its_own_agents(void **state)
{
    struct coord_cpus_agent agents[] = {
        { "server", NULL, set_of("0-7"), 0 },
        { "near", NULL, set_of("0-7"), 0 },
        { "far", NULL, set_of("0-1"), 1 },
    };
    struct rig rig;

    (void)state;
    rig_init(&rig);
    assert_int_equal(place(&rig, agents, 1, 2), LS_OK);
    assert_cpus(&rig.cpus, 0, "0-3"); /* half of the cores, whole ones */
    assert_cpus(&rig.cpus, 1, "4-7");
    assert_cpus(&rig.cpus, 2, "0-1"); /* the same numbers, another machine */
    assert_false(rig.cpus.shared);
    assert_false(coord_cpus_is_shared(&rig.cpus, 2));
    rig_fini(&rig);
}

static void more_agents_than_cores_share_and_it_is_said(void **state)
{
    struct coord_cpus_agent agents[] = {
        { "server", NULL, set_of("0-7"), 0 },
        { "c1", NULL, set_of("0-1"), 1 },
        { "c2", NULL, set_of("0-1"), 1 },
        { "c3", NULL, set_of("0-1"), 1 },
    };
    struct rig rig;

    (void)state;
    rig_init(&rig);
    assert_int_equal(place(&rig, agents, 1, 3), LS_OK);
    assert_cpus(&rig.cpus, 0, "0-7");
    assert_true(rig.cpus.shared);
    assert_string_equal(rig.cpus.why, "2 usable CPUs for 3 agents");
    assert_false(coord_cpus_is_shared(&rig.cpus, 0));
    rig_fini(&rig);
}

static void agents_that_were_given_cpus_where_they_run_keep_them(void **state)
{
    struct coord_cpus_agent agents[] = {
        { "server", NULL, set_of("0-5"), 0 },
        { "client", NULL, set_of("6-7"), 0 },
    };
    struct rig rig;

    (void)state;
    rig_init(&rig);
    assert_int_equal(place(&rig, agents, 1, 1), LS_OK);
    assert_cpus(&rig.cpus, 0, "0-5");
    assert_cpus(&rig.cpus, 1, "6-7");
    assert_false(rig.cpus.shared);
    rig_fini(&rig);
}

static void a_list_of_ones_own_is_obeyed_and_the_others_have_the_rest(void **state)
{
    struct coord_cpus_agent agents[] = {
        { "server", "0", set_of("0-7"), 0 },
        { "client", NULL, set_of("0-7"), 0 },
        { "far", "1", set_of("0-1"), 1 },
    };
    struct rig rig;

    (void)state;
    rig_init(&rig);
    assert_int_equal(place(&rig, agents, 1, 2), LS_OK);
    assert_cpus(&rig.cpus, 0, "0");
    assert_cpus(&rig.cpus, 1, "1-7");
    assert_cpus(&rig.cpus, 2, "1");
    agents[1].list = "0-1";
    assert_int_equal(place(&rig, agents, 1, 2), LS_EINVAL); /* overlaps with the server's */
    assert_non_null(strstr(rig.diag.text, "allow_overlap"));
    rig.wish.allow_overlap = true;
    assert_int_equal(place(&rig, agents, 1, 2), LS_OK);
    assert_true(rig.cpus.shared);
    agents[2].list = "2";
    assert_int_equal(place(&rig, agents, 1, 2), LS_ERANGE); /* it has no such CPU */
    assert_non_null(strstr(rig.diag.text, "far"));
    rig_fini(&rig);
}

static char server_list[] = "2-3", client_list[] = "4-5";

static void the_plan_s_lists_hold_where_such_agents_are(void **state)
{
    struct coord_cpus_agent agents[] = {
        { "server", NULL, set_of("0-7"), 0 },
        { "near", NULL, set_of("0-7"), 0 },
    };
    struct coord_cpus_agent elsewhere[] = {
        { "server", NULL, set_of("0-7"), 0 },
        { "far", NULL, set_of("0-1"), 1 },
    };
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.wish.server = server_list;
    rig.wish.client = client_list;
    assert_int_equal(place(&rig, agents, 1, 1), LS_OK);
    assert_cpus(&rig.cpus, 0, "2-3");
    assert_cpus(&rig.cpus, 1, "4-5");
    assert_int_equal(place(&rig, elsewhere, 1, 1), LS_ERANGE); /* it has no CPU 4 */
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_host_is_divided_among_its_own_agents),
        cmocka_unit_test(more_agents_than_cores_share_and_it_is_said),
        cmocka_unit_test(agents_that_were_given_cpus_where_they_run_keep_them),
        cmocka_unit_test(a_list_of_ones_own_is_obeyed_and_the_others_have_the_rest),
        cmocka_unit_test(the_plan_s_lists_hold_where_such_agents_are),
    };

    return cmocka_run_group_tests_name("coordinator.cpus", tests, NULL, NULL);
}
