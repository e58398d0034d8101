/* coordinator/run/capacity_probe.h: what a trial comes to as a probe of a search. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/result/message.h"
#include "coordinator/run/capacity_probe.h"

static Ls__Trial *make_trial(void)
{
    Ls__Trial *trial = coord_message_new(&ls__trial__descriptor);

    assert_non_null(trial);
    trial->requests = coord_message_new(&ls__requests__descriptor);
    assert_non_null(trial->requests);
    return trial;
}

/* ceiling_per_s 0: it has not been calibrated. */
static void add_client(Ls__Trial *trial, const char *name, uint32_t workers, double ceiling_per_s,
                       const char *limited_by)
{
    Ls__Client *client =
        coord_message_append(&trial->n_clients, &trial->clients, &ls__client__descriptor);

    assert_non_null(client);
    assert_true(coord_message_string(&client->agent, name));
    client->workers = workers;
    if (ceiling_per_s <= 0)
        return;
    client->headroom = coord_message_new(&ls__headroom__descriptor);
    assert_non_null(client->headroom);
    client->headroom->ceiling_per_s = ceiling_per_s;
    client->headroom->used = 0.25;
    assert_true(coord_message_string(&client->headroom->limited_by, limited_by));
}

static void add_interval(Ls__Trial *trial, uint64_t completed, uint64_t errors, uint64_t slower)
{
    Ls__Interval *interval =
        coord_message_append(&trial->n_intervals, &trial->intervals, &ls__interval__descriptor);

    assert_non_null(interval);
    interval->completed = completed;
    interval->errors = errors;
    interval->slower = calloc(1, sizeof(*interval->slower));
    assert_non_null(interval->slower);
    interval->slower[0] = slower;
    interval->n_slower = 1;
}

static void the_weakest_for_its_share_says_what_a_host_is_good_for(void **state)
{
    Ls__Trial *trial = make_trial();

    (void)state;
    assert_true(coord_capacity_probe_host_per_s(trial) <= 0); /* nobody is nothing */
    add_client(trial, "client-1", 2, 10000, "generator");
    assert_float_equal(coord_capacity_probe_host_per_s(trial), 7000, 1e-6);
    /* Two thirds of the load are the first one's: it is at its end at 10,500/s of both together. */
    add_client(trial, "client-2", 1, 6000, "generator");
    assert_float_equal(coord_capacity_probe_host_per_s(trial), 5250, 1e-6);
    /* A third is this one's: at 3,150/s. */
    trial->clients[1]->headroom->ceiling_per_s = 1500;
    assert_float_equal(coord_capacity_probe_host_per_s(trial), 1575, 1e-6);
    coord_message_free(trial);
}

static void a_client_that_is_not_calibrated_leaves_it_unknown(void **state)
{
    Ls__Trial *trial = make_trial();

    (void)state;
    add_client(trial, "client-1", 2, 10000, "generator");
    add_client(trial, "client-2", 2, 0, "");
    assert_true(coord_capacity_probe_host_per_s(trial) <= 0);
    coord_message_free(trial);
    trial = make_trial();
    add_client(trial, "client-1", 2, 10000, "responder"); /* it can do more than that */
    assert_true(coord_capacity_probe_host_per_s(trial) <= 0);
    coord_message_free(trial);
}

static void what_was_shed_broke_the_limits_of_the_last_batch(void **state)
{
    struct coord_capacity_batch batches[2] = { 0 };
    Ls__Trial *trial = make_trial();

    (void)state;
    add_interval(trial, 100, 0, 7);
    add_interval(trial, 90, 5, 60);
    trial->requests->shed = 50;
    coord_capacity_probe_batches(trial, 1, batches);
    assert_int_equal(batches[0].requests, 100);
    assert_int_equal(batches[0].breaking[0], 7);
    assert_int_equal(batches[1].requests, 145);
    assert_int_equal(batches[1].breaking[0], 115);
    trial->intervals[1]->slower[0] = 140; /* failed ones that took long count once */
    coord_capacity_probe_batches(trial, 1, batches);
    assert_int_equal(batches[1].breaking[0], 145);
    coord_message_free(trial);
}

static void a_probe_says_who_offered_it_and_what_was_good(void **state)
{
    Ls__CapacityProbe *probe = coord_message_new(&ls__capacity_probe__descriptor);
    Ls__Trial *trial = make_trial();

    (void)state;
    assert_non_null(probe);
    add_client(trial, "client-1", 1, 4000, "generator");
    add_client(trial, "client-2", 1, 0, "");
    add_interval(trial, 1000, 0, 100);
    probe->window_ns = INT64_C(2000000000);
    assert_true(coord_capacity_probe_fill(probe, trial, 0));
    assert_int_equal(probe->n_clients, 2);
    assert_string_equal(probe->clients[0], "client-1");
    assert_string_equal(probe->clients[1], "client-2");
    assert_float_equal(probe->good_per_s, 450, 1e-9);
    assert_float_equal(probe->headroom_used, 0.25, 1e-9);
    assert_string_equal(probe->why, "");
    coord_message_free(probe);
    coord_message_free(trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_weakest_for_its_share_says_what_a_host_is_good_for),
        cmocka_unit_test(a_client_that_is_not_calibrated_leaves_it_unknown),
        cmocka_unit_test(what_was_shed_broke_the_limits_of_the_last_batch),
        cmocka_unit_test(a_probe_says_who_offered_it_and_what_was_good),
    };

    return cmocka_run_group_tests_name("coordinator.capacity_probe", tests, NULL, NULL);
}
