/* coordinator/fleet/seats.c: whoever can be seated is. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/fleet/seats.h"

struct guest {
    struct coord_agent agent;
    Ls__Hello hello;
    Ls__Label labels[2];
    Ls__Label *pointers[2];
};

static char zone[] = "zone", rack[] = "rack", a[] = "a", one[] = "1";

static void guest_init(struct guest *g, const char *name, Ls__Role role, bool in_zone, bool in_rack)
{
    *g = (struct guest){ .agent.role = role };
    ls__hello__init(&g->hello);
    (void)snprintf(g->agent.name, sizeof(g->agent.name), "%s", name);
    if (in_zone) {
        ls__label__init(&g->labels[0]);
        g->labels[0].key = zone;
        g->labels[0].value = a;
        g->pointers[g->hello.n_labels++] = &g->labels[0];
    }
    if (in_rack) {
        ls__label__init(&g->labels[1]);
        g->labels[1].key = rack;
        g->labels[1].value = one;
        g->pointers[g->hello.n_labels++] = &g->labels[1];
    }
    g->hello.labels = g->pointers;
    g->agent.hello = &g->hello;
}

struct wish {
    Ls__FleetAgent agent;
    Ls__FleetAgent__LabelsEntry label;
    Ls__FleetAgent__LabelsEntry *labels[1];
};

static void wish_init(struct wish *w, char *name, Ls__AgentRole role, char *key, char *value)
{
    ls__fleet_agent__init(&w->agent);
    ls__fleet_agent__labels_entry__init(&w->label);
    w->agent.name = name;
    w->agent.role = role;
    if (key != NULL) {
        w->label.key = key;
        w->label.value = value;
        w->labels[0] = &w->label;
        w->agent.labels = w->labels;
        w->agent.n_labels = 1;
    }
}

static void seats_for_anybody_go_by_role_and_number(void **state)
{
    struct coord_seats seats;
    struct guest c1, c2, c3, s1;

    (void)state;
    guest_init(&c1, "c1", LS__ROLE__ROLE_CLIENT, false, false);
    guest_init(&c2, "c2", LS__ROLE__ROLE_CLIENT, false, false);
    guest_init(&c3, "c3", LS__ROLE__ROLE_CLIENT, false, false);
    guest_init(&s1, "s1", LS__ROLE__ROLE_SERVER, false, false);
    assert_int_equal(coord_seats_init(&seats, NULL, 1, 2, NULL), LS_OK);
    assert_true(coord_seats_take(&seats, &c1.agent));
    assert_true(coord_seats_take(&seats, &c2.agent));
    assert_false(coord_seats_take(&seats, &c3.agent)); /* the server's is not for it */
    assert_true(coord_seats_take(&seats, &s1.agent));
    coord_seats_leave(&seats, &c1.agent);
    assert_true(coord_seats_take(&seats, &c3.agent));
    coord_seats_fini(&seats);
}

static void who_fits_two_seats_keeps_none_from_who_fits_one(void **state)
{
    Ls__Fleet fleet = LS__FLEET__INIT;
    struct wish by_zone, by_rack;
    Ls__FleetAgent *wishes[] = { &by_zone.agent, &by_rack.agent };
    struct coord_seats seats;
    struct guest both, zone_only, neither;

    (void)state;
    wish_init(&by_zone, NULL, LS__AGENT_ROLE__AGENT_ROLE_CLIENT, zone, a);
    wish_init(&by_rack, NULL, LS__AGENT_ROLE__AGENT_ROLE_CLIENT, rack, one);
    fleet.agents = wishes;
    fleet.n_agents = 2;
    guest_init(&both, "both", LS__ROLE__ROLE_CLIENT, true, true);
    guest_init(&zone_only, "zone", LS__ROLE__ROLE_CLIENT, true, false);
    guest_init(&neither, "neither", LS__ROLE__ROLE_CLIENT, false, false);
    assert_int_equal(coord_seats_init(&seats, &fleet, 0, 3, NULL), LS_OK);
    assert_true(coord_seats_take(&seats, &both.agent));
    assert_ptr_equal(both.agent.wish, &by_zone.agent);
    assert_true(coord_seats_take(&seats, &zone_only.agent));
    assert_ptr_equal(both.agent.wish, &by_rack.agent); /* it has moved */
    assert_ptr_equal(zone_only.agent.wish, &by_zone.agent);
    assert_true(coord_seats_take(&seats, &neither.agent));
    assert_null(neither.agent.wish);
    coord_seats_fini(&seats);
}

static void a_seat_with_a_name_waits_for_it(void **state)
{
    Ls__Fleet fleet = LS__FLEET__INIT;
    char name[] = "lab-7";
    struct wish named;
    Ls__FleetAgent *wishes[] = { &named.agent };
    struct coord_seats seats;
    struct guest other, right, server;
    char text[80];

    (void)state;
    wish_init(&named, name, LS__AGENT_ROLE__AGENT_ROLE_CLIENT, zone, a);
    fleet.agents = wishes;
    fleet.n_agents = 1;
    guest_init(&other, "lab-8", LS__ROLE__ROLE_CLIENT, true, false);
    guest_init(&right, "lab-7", LS__ROLE__ROLE_CLIENT, true, false);
    guest_init(&server, "lab-7", LS__ROLE__ROLE_SERVER, true, false);
    assert_int_equal(coord_seats_init(&seats, &fleet, 0, 1, NULL), LS_OK);
    assert_string_equal(coord_seat_describe(&seats.items[0], text, sizeof(text)),
                        "client lab-7 with zone=a");
    assert_false(coord_seats_take(&seats, &other.agent));
    assert_false(coord_seats_take(&seats, &server.agent));
    assert_true(coord_seats_take(&seats, &right.agent));
    coord_seats_fini(&seats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seats_for_anybody_go_by_role_and_number),
        cmocka_unit_test(who_fits_two_seats_keeps_none_from_who_fits_one),
        cmocka_unit_test(a_seat_with_a_name_waits_for_it),
    };

    return cmocka_run_group_tests_name("coordinator.seats", tests, NULL, NULL);
}
