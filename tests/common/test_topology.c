#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "common/topology.h"

#define CLIENTS_MAX 8

struct split_case {
    const char *machine; /* in hwloc's words */
    const char *allowed;
    unsigned clients;
    const char *server;
    const char *clients_cpus[CLIENTS_MAX];
    bool shared;
};

/* hwloc numbers the threads of a synthetic core next to each other: core 0 is CPUs 0 and 1. */
static const struct split_case cases[] = {
    { "core:4 pu:1", "0-3", 1, "0-1", { "2-3" }, false },
    { "core:4 pu:1", "0-3", 2, "0-1", { "2", "3" }, false },
    { "core:4 pu:2", "0-7", 2, "0-3", { "4-5", "6-7" }, false },
    { "core:8 pu:2", "0-15", 2, "0-7", { "8-11", "12-15" }, false },
    { "core:5 pu:1", "0-4", 1, "0-2", { "3-4" }, false },      /* half, rounded up */
    { "core:6 pu:1", "0-5", 2, "0-2", { "3-4", "5" }, false }, /* the first gets one more */
    { "core:3 pu:1", "0-2", 2, "0", { "1", "2" }, false },     /* rather than shared */
    { "core:4 pu:1", "0-3", 3, "0", { "1", "2", "3" }, false },
    { "core:2 pu:1", "0-1", 1, "0", { "1" }, false },
    { "core:2 pu:1", "0-1", 2, "0", { "1", "1" }, true },
    { "core:3 pu:1", "0-2", 4, "0", { "1", "2", "1", "2" }, true },
    { "core:1 pu:1", "0", 1, "0", { "0" }, true },
    { "core:1 pu:2", "0-1", 2, "0-1", { "0-1", "0-1" }, true }, /* never half a core */
    { "core:4 pu:2", "0-7", 0, "0-7", { NULL }, false },
    { "numa:2 core:2 pu:2", "0-7", 1, "0-3", { "4-7" }, false }, /* a node each */
    /* taskset */
    { "core:8 pu:1", "4-7", 2, "4-5", { "6", "7" }, false },
    { "core:4 pu:2", "0,2,4,6", 2, "0,2", { "4", "6" }, false }, /* one thread of each core */
    { "core:4 pu:2", "1-2", 1, "1", { "2" }, false },
    { "core:4 pu:2", "0-1", 1, "0-1", { "0-1" }, true },
    { "core:2 pu:1", "1,100-200", 1, "1", { "1" }, true }, /* others are not there */
};

static void check(const struct split_case *c)
{
    struct ls_topology topology;
    struct ls_cpuset allowed, server, clients[CLIENTS_MAX];
    struct ls_diag diag = { 0 };
    bool shared = !c->shared;
    char text[128];

    assert_int_equal(ls_topology_init(&topology, c->machine, &diag), LS_OK);
    assert_int_equal(ls_cpuset_parse(c->allowed, &allowed, &diag), LS_OK);
    assert_int_equal(
        ls_topology_divide(&topology, &allowed, c->clients, &server, clients, &shared, &diag),
        LS_OK);
    assert_string_equal(ls_cpuset_format(&server, text, sizeof(text)), c->server);
    for (unsigned i = 0; i < c->clients; i++)
        assert_string_equal(ls_cpuset_format(&clients[i], text, sizeof(text)), c->clients_cpus[i]);
    assert_int_equal(shared, c->shared);
    ls_topology_fini(&topology);
}

static void cores_are_divided_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++)
        check(&cases[i]);
}

/* Whatever the machine: all parts are allowed, no core is cut, nothing is shared unless it says so,
 * and nothing is left over. */
static void every_division_keeps_the_rules(void **state)
{
    (void)state;
    for (unsigned cores = 1; cores <= 9; cores++) {
        struct ls_topology topology;
        struct ls_cpuset allowed = { { 0 } };
        char machine[32];

        (void)snprintf(machine, sizeof(machine), "core:%u pu:2", cores);
        assert_int_equal(ls_topology_init(&topology, machine, NULL), LS_OK);
        assert_int_equal(topology.core_count, cores);
        assert_int_equal(topology.thread_count, 2 * cores);
        for (unsigned cpu = 0; cpu < 2 * cores; cpu++)
            ls_cpuset_add(&allowed, cpu);
        for (unsigned n = 1; n <= CLIENTS_MAX; n++) {
            struct ls_cpuset parts[1 + CLIENTS_MAX];
            unsigned total = 0, least = UINT32_MAX, most = 0;
            bool shared = false, met = false;

            assert_int_equal(
                ls_topology_divide(&topology, &allowed, n, &parts[0], parts + 1, &shared, NULL),
                LS_OK);
            for (unsigned i = 0; i <= n; i++) {
                unsigned count = ls_cpuset_count(&parts[i]);

                assert_true(count > 0 && ls_cpuset_contains(&allowed, &parts[i]));
                for (unsigned k = 0; k < cores; k++)
                    assert_int_equal(ls_cpuset_has(&parts[i], 2 * k),
                                     ls_cpuset_has(&parts[i], 2 * k + 1));
                for (unsigned k = i + 1; k <= n; k++)
                    met = met || ls_cpuset_intersects(&parts[i], &parts[k]);
                total += count;
                if (i > 0) {
                    least = count < least ? count : least;
                    most = count > most ? count : most;
                }
            }
            assert_int_equal(met, shared);
            assert_int_equal(shared, cores < n + 1);
            assert_true(most - least <= 2);
            if (!shared)
                assert_int_equal(total, 2 * cores);
        }
        ls_topology_fini(&topology);
    }
}

static void an_empty_allowance_is_refused(void **state)
{
    struct ls_topology topology;
    struct ls_cpuset allowed, server, client;
    struct ls_diag diag;
    bool shared = false;

    (void)state;
    assert_int_equal(ls_topology_init(&topology, "core:2 pu:1", NULL), LS_OK);
    assert_int_equal(ls_cpuset_parse("8-9", &allowed, NULL), LS_OK);
    assert_int_equal(ls_topology_divide(&topology, &allowed, 1, &server, &client, &shared, &diag),
                     LS_ERANGE);
    assert_non_null(strstr(diag.text, "8-9"));
    ls_topology_fini(&topology);
}

static void nonsense_is_no_topology(void **state)
{
    struct ls_topology topology;
    struct ls_diag diag;

    (void)state;
    assert_int_equal(ls_topology_init(&topology, "core:banana", &diag), LS_EINVAL);
    assert_int_equal(ls_topology_init(&topology, "core:2000 pu:1", &diag), LS_ERANGE);
}

static void this_machine_is_split_within_the_own_affinity(void **state)
{
    struct ls_cpuset own, one = { { 0 } }, server, client;
    bool shared = false;

    (void)state;
    assert_int_equal(ls_cpuset_get_affinity(0, &own, NULL), LS_OK);
    ls_cpuset_add(&one, (unsigned)ls_cpuset_nth(&own, 0));
    assert_int_equal(ls_topology_split(NULL, 1, &server, &client, &shared, NULL), LS_OK);
    assert_true(ls_cpuset_contains(&own, &server) && ls_cpuset_contains(&own, &client));
    assert_int_equal(ls_cpuset_set_affinity(0, &one, NULL), LS_OK);
    assert_int_equal(ls_topology_split(&own, 1, &server, &client, &shared, NULL), LS_OK);
    assert_true(ls_cpuset_equal(&server, &one) && ls_cpuset_equal(&client, &one) && shared);
    assert_int_equal(ls_cpuset_set_affinity(0, &own, NULL), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_divided_whole),
        cmocka_unit_test(every_division_keeps_the_rules),
        cmocka_unit_test(an_empty_allowance_is_refused),
        cmocka_unit_test(nonsense_is_no_topology),
        cmocka_unit_test(this_machine_is_split_within_the_own_affinity),
    };

    return cmocka_run_group_tests_name("common.topology", tests, NULL, NULL);
}
