/* coordinator/run/ceiling.c: a ceiling is found again for its host and shape, and for no other. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "coordinator/result/message.h"
#include "coordinator/run/ceiling.h"
#include "tests/support/tmpdir.h"

/* A trial of one client with what a shape is made of; 100 bytes out and 200 in for a request. */
static Ls__Trial *trial_of(uint32_t connections, double per_s)
{
    Ls__Trial *trial = coord_message_new(&ls__trial__descriptor);
    Ls__Client *client =
        coord_message_append(&trial->n_clients, &trial->clients, &ls__client__descriptor);

    trial->pipeline = 1;
    trial->throughput_per_s = client->throughput_per_s = per_s;
    client->workers = 1;
    client->requests = coord_message_new(&ls__requests__descriptor);
    client->connections = coord_message_new(&ls__connections__descriptor);
    client->requests->sent = client->requests->ok = 1000;
    client->bytes_out = 100000;
    client->bytes_in = 200000;
    client->connections->asked = connections;
    assert_true(coord_message_string(&client->io, "libev"));
    assert_true(coord_message_string(&client->agent, "client-1"));
    return trial;
}

static Ls__Facts *facts_of(const char *hostname)
{
    Ls__Facts *facts = coord_message_new(&ls__facts__descriptor);

    assert_true(coord_message_string(&facts->hostname, hostname));
    facts->cpu_threads = 4;
    return facts;
}

static void keep(Ls__Calibration *calibration, const Ls__Facts *facts, uint32_t connections,
                 double per_s, const char *limited_by)
{
    Ls__Trial *trial = trial_of(connections, per_s);

    assert_int_equal(coord_ceiling_keep(calibration, facts, trial, limited_by, NULL), LS_OK);
    coord_message_free(trial);
}

static double ceiling_for(const Ls__Calibration *calibration, const Ls__Facts *facts,
                          Ls__Trial *trial)
{
    const Ls__Ceiling *c = coord_ceiling_find(calibration, facts, trial, trial->clients[0]);

    return c != NULL ? c->per_s : 0;
}

static void the_nearest_shape_within_bounds_counts(void **state)
{
    Ls__Calibration *calibration = coord_message_new(&ls__calibration__descriptor);
    Ls__Facts *here = facts_of("here"), *there = facts_of("there");
    Ls__Trial *trial;

    (void)state;
    keep(calibration, here, 64, 64000, "generator");
    keep(calibration, here, 256, 256000, "generator");
    trial = trial_of(64, 1);
    assert_true(ceiling_for(calibration, here, trial) == 64000);
    assert_true(ceiling_for(calibration, there, trial) == 0);
    assert_true(ceiling_for(calibration, NULL, trial) == 0);
    trial->clients[0]->connections->asked = 120; /* both are near, one is nearer */
    assert_true(ceiling_for(calibration, here, trial) == 64000);
    trial->clients[0]->connections->asked = 150;
    assert_true(ceiling_for(calibration, here, trial) == 256000);
    trial->clients[0]->connections->asked = 513;
    assert_true(ceiling_for(calibration, here, trial) == 0);
    trial->clients[0]->connections->asked = 31;
    assert_true(ceiling_for(calibration, here, trial) == 0);
    trial->clients[0]->connections->asked = 64;
    trial->clients[0]->bytes_in = 450000; /* 250 bytes more */
    assert_true(ceiling_for(calibration, here, trial) == 64000);
    trial->clients[0]->bytes_in = 4500000;
    assert_true(ceiling_for(calibration, here, trial) == 0);
    trial->clients[0]->bytes_in = 200000;
    trial->pipeline = 16;
    assert_true(ceiling_for(calibration, here, trial) == 0);
    trial->pipeline = 1;
    trial->clients[0]->workers = 2;
    assert_true(ceiling_for(calibration, here, trial) == 0);
    trial->clients[0]->workers = 1;
    assert_true(coord_message_string(&trial->clients[0]->io, "io_uring"));
    assert_true(ceiling_for(calibration, here, trial) == 0);
    coord_message_free(trial);
    coord_message_free(calibration);
    coord_message_free(here);
    coord_message_free(there);
}

static void the_same_shape_replaces_what_there_was(void **state)
{
    Ls__Calibration *calibration = coord_message_new(&ls__calibration__descriptor);
    Ls__Facts *here = facts_of("here");
    Ls__Trial *trial = trial_of(64, 1);

    (void)state;
    keep(calibration, here, 64, 100, "responder");
    keep(calibration, here, 128, 300, "generator");
    keep(calibration, here, 64, 200, "generator");
    assert_int_equal(calibration->n_ceilings, 2);
    assert_true(ceiling_for(calibration, here, trial) == 200);
    coord_message_free(trial);
    coord_message_free(calibration);
    coord_message_free(here);
}

static void headroom_is_that_of_each_client_and_of_all_if_all_have_one(void **state)
{
    Ls__Calibration *calibration = coord_message_new(&ls__calibration__descriptor);
    Ls__Facts *here = facts_of("here"), *there = facts_of("there");
    const Ls__Facts *facts[] = { here, there };

    (void)state;
    keep(calibration, here, 64, 1000, "generator");
    for (unsigned both = 0; both < 2; both++) {
        Ls__Trial *trial = trial_of(64, 500), *other = trial_of(64, 300);
        Ls__Client *second =
            coord_message_append(&trial->n_clients, &trial->clients, &ls__client__descriptor);

        coord_message_free(second);
        trial->clients[1] = coord_message_copy(other->clients[0]);
        trial->throughput_per_s = 800;
        if (both)
            keep(calibration, there, 64, 600, "generator");
        assert_int_equal(coord_ceiling_apply(calibration, trial, facts), LS_OK);
        assert_true(trial->clients[0]->headroom->used == 0.5);
        assert_true((trial->clients[1]->headroom != NULL) == (both == 1));
        assert_true((trial->headroom != NULL) == (both == 1));
        if (both) {
            assert_true(trial->headroom->ceiling_per_s == 1600);
            assert_true(trial->headroom->used == 0.5);
        }
        coord_message_free(trial);
        coord_message_free(other);
    }
    coord_message_free(calibration);
    coord_message_free(here);
    coord_message_free(there);
}

static void the_file_is_read_back_and_strange_ones_are_told(void **state)
{
    struct tmpdir dir;
    char path[300];
    Ls__Calibration *calibration = NULL, *again = NULL;
    Ls__Facts *here = facts_of("here");
    Ls__Trial *trial = trial_of(64, 1);
    struct ls_diag diag;

    (void)state;
    tmpdir_make(&dir);
    (void)snprintf(path, sizeof(path), "%s/a/b/calibration.json", dir.path);
    assert_int_equal(coord_ceiling_load(path, &calibration, NULL), LS_OK); /* absent: empty */
    assert_int_equal(calibration->n_ceilings, 0);
    keep(calibration, here, 64, 1234.5, "generator");
    assert_int_equal(coord_ceiling_save(path, calibration, NULL), LS_OK);
    assert_int_equal(coord_ceiling_load(path, &again, NULL), LS_OK);
    assert_true(ceiling_for(again, here, trial) == 1234.5);
    assert_int_equal(chdir(dir.path), 0);
    assert_int_equal(coord_ceiling_save("here.json", again, NULL), LS_OK); /* no folder is named */
    assert_int_equal(access("here.json", F_OK), 0);
    assert_int_equal(chdir("/"), 0);
    again->version = COORD_CEILING_VERSION + 1; /* of another time: nothing is taken from it */
    assert_int_equal(coord_ceiling_save(path, again, NULL), LS_OK);
    coord_message_free(again);
    assert_int_equal(coord_ceiling_load(path, &again, NULL), LS_OK);
    assert_int_equal(again->n_ceilings, 0);
    assert_int_equal(again->version, COORD_CEILING_VERSION);
    coord_message_free(again);
    assert_int_equal(
        ls_fs_write(path, (struct ls_bytes){ (const unsigned char *)"{]", 2 }, 0600, NULL), LS_OK);
    assert_int_equal(coord_ceiling_load(path, &again, &diag), LS_EINVAL);
    assert_non_null(strstr(diag.text, "calibration.json"));
    coord_message_free(calibration);
    coord_message_free(here);
    coord_message_free(trial);
    tmpdir_remove(&dir);
}

static void the_path_follows_the_environment(void **state)
{
    char path[100];

    (void)state;
    assert_int_equal(setenv("XDG_CACHE_HOME", "/x", 1), 0);
    assert_int_equal(coord_ceiling_path(path, sizeof(path), NULL), LS_OK);
    assert_string_equal(path, "/x/lockstep/calibration.json");
    assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0);
    assert_int_equal(setenv("HOME", "/h", 1), 0);
    assert_int_equal(coord_ceiling_path(path, sizeof(path), NULL), LS_OK);
    assert_string_equal(path, "/h/.cache/lockstep/calibration.json");
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(coord_ceiling_path(path, sizeof(path), NULL), LS_ESTATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_shape_within_bounds_counts),
        cmocka_unit_test(the_same_shape_replaces_what_there_was),
        cmocka_unit_test(headroom_is_that_of_each_client_and_of_all_if_all_have_one),
        cmocka_unit_test(the_file_is_read_back_and_strange_ones_are_told),
        cmocka_unit_test(the_path_follows_the_environment),
    };

    return cmocka_run_group_tests_name("coordinator.ceiling", tests, NULL, NULL);
}
