/* coordinator/run/limited_by.c: one trial, and whose limit each single figure makes it. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "common/attr.h"
#include "coordinator/result/message.h"
#include "coordinator/run/limited_by.h"
#include "tests/coordinator/sample_result.h"

#define MS INT64_C(1000000)

static const struct sample_trial from = { "nginx", "hello", 1,     20000,
                                          0.8,     9,       20000, LS__VERDICT__VERDICT_VALID };
static const struct coord_load_limit p99[] = {
    { .name = "p99 10ms", .limit_ns = 10 * MS, .allowed_share = 0.01 },
    { .name = "errors 0.1%", .limit_ns = INT64_MAX, .allowed_share = 0.001 },
};

struct rig {
    Ls__Trial *trial;
    struct coord_cause_input in;
};

/* 0.18 of four CPUs; a limit that 2 % of 1000 requests break. */
static void rig_init(struct rig *rig)
{
    Ls__Interval *interval;

    *rig = (struct rig){ .trial = sample_trial(&from) };
    rig->in = (struct coord_cause_input){
        .server_cpus = 4, .connections = 64, .limits = p99, .limit_count = LS_ARRAY_LEN(p99)
    };
    coord_message_clear(&rig->trial->n_intervals, &rig->trial->intervals);
    interval = coord_message_append(&rig->trial->n_intervals, &rig->trial->intervals,
                                    &ls__interval__descriptor);
    assert_non_null(interval);
    interval->completed = 1000;
    interval->slower = calloc(2, sizeof(*interval->slower));
    assert_non_null(interval->slower);
    interval->n_slower = 2;
    interval->slower[0] = 20;
    rig->trial->clients[0]->network = coord_message_new(&ls__network_use__descriptor);
    rig->trial->network = coord_message_new(&ls__network_use__descriptor);
    assert_non_null(rig->trial->network);
    assert_non_null(rig->trial->clients[0]->network);
}

static void expect(struct rig *rig, enum coord_limited_by by, const char *words)
{
    struct coord_cause cause;

    coord_limited_by(rig->trial, &rig->in, &cause);
    if (cause.by != by || strstr(cause.why, words) == NULL)
        fail_msg("limited by %s: %s", coord_limited_by_name(cause.by), cause.why);
    coord_message_free(rig->trial);
}

static void what_nothing_shows_is_unknown_with_its_figures(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "used 0.18 of its 4 CPUs");
    rig_init(&rig);
    rig.in.server_cpus = 0;
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "CPU is not known");
    rig_init(&rig);
    rig.in.connections = 10; /* 20,000/s of 0.8 ms or so */
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "with more connections it may be more");
}

static void a_server_without_cpu_is_the_limit(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.trial->server->cpu_cores_used = 3.7;
    expect(&rig, COORD_LIMITED_BY_SERVER, "3.70 of its 4 CPUs");
    rig_init(&rig);
    rig.trial->server->cpu_cores_used = 3.5;
    rig.trial->server->processes = 8;
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "3.50 of its 4 CPUs");
    rig_init(&rig);
    rig.trial->server->cpu_cores_used = 1.01;
    rig.trial->server->processes = 1;
    expect(&rig, COORD_LIMITED_BY_SERVER, "1.01 CPUs in 1 process");
}

static void a_full_accept_queue_is_the_servers(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.trial->server->listen_overflows = 700;
    expect(&rig, COORD_LIMITED_BY_SERVER, "accept queue overflowed 700 times");
    rig_init(&rig);
    rig.trial->server->listen_overflows = 7; /* of 100,000: somebody else's */
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "");
}

static void a_full_link_and_lost_segments_are_the_networks(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.trial->clients[0]->network->link_used = 0.93;
    rig.trial->clients[0]->network->link_bits_per_s = 1000000000;
    expect(&rig, COORD_LIMITED_BY_NETWORK, "93 % of the 1000 Mbit/s");
    rig_init(&rig);
    rig.trial->clients[0]->network->link_used = 0.89;
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "");
    rig_init(&rig);
    rig.trial->clients[0]->tcp_retransmits = rig.trial->requests->sent / 999;
    expect(&rig, COORD_LIMITED_BY_NETWORK, "were sent again");
    rig_init(&rig);
    rig.trial->clients[0]->tcp_retransmits = rig.trial->requests->sent / 1010;
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "");
}

static Ls__Latency *delay(int64_t p99_ns)
{
    Ls__Latency *made = coord_message_new(&ls__latency__descriptor);

    assert_non_null(made);
    made->count = 1000;
    made->p99_ns = p99_ns;
    return made;
}

static void a_client_is_the_limit_where_it_was_late_by_a_good_part_of_it(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.trial->read_delay = delay(5 * MS / 2 + 1);
    expect(&rig, COORD_LIMITED_BY_CLIENT,
           "1 % of the answers lay unread in the clients' kernels for 2.50 ms");
    rig_init(&rig);
    rig.trial->read_delay = delay(5 * MS / 2);
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "");
    rig_init(&rig);
    rig.trial->loop_lag->p99_ns = 5 * MS / 2 + 1;
    expect(&rig, COORD_LIMITED_BY_CLIENT, "1 % of the requests waited for a client's worker");
}

static void a_client_that_has_no_time_left_is_the_limit(void **state)
{
    struct rig rig;
    Ls__ClientCpu *cpu;

    (void)state;
    for (int busy = 84; busy <= 86; busy += 2) {
        rig_init(&rig);
        if (rig.trial->clients[0]->cpu == NULL)
            rig.trial->clients[0]->cpu = coord_message_new(&ls__client_cpu__descriptor);
        cpu = rig.trial->clients[0]->cpu;
        assert_non_null(cpu);
        cpu->busiest = busy / 100.0;
        if (busy < 85)
            expect(&rig, COORD_LIMITED_BY_UNKNOWN, "");
        else
            expect(&rig, COORD_LIMITED_BY_CLIENT, "had work for 86 %");
    }
    rig_init(&rig);
    rig.trial->clients[0]->cpu->busiest = 0.99;
    rig.trial->server->cpu_cores_used = 4; /* had none left either, and is what was asked for */
    expect(&rig, COORD_LIMITED_BY_SERVER, "4.00 of its 4 CPUs");
}

/* All of 64 are in flight for 3.2 ms each, at 20,000/s. */
static void expect_busy(double unread_ns, double service_ns, enum coord_limited_by by,
                        const char *words)
{
    struct rig rig;

    rig_init(&rig);
    rig.trial->clients[0]->cpu->busiest = 0.99;
    rig.trial->service_time->mean_ns = service_ns;
    rig.trial->read_delay = delay(2 * MS);
    rig.trial->read_delay->mean_ns = unread_ns;
    expect(&rig, by, words);
}

static void a_busy_client_is_not_the_limit_where_its_connections_wait_for_the_server(void **state)
{
    (void)state;
    expect_busy(1.59e6, 3.2e6, COORD_LIMITED_BY_UNKNOWN, "64 of 64 requests");
    expect_busy(1.61e6, 3.2e6, COORD_LIMITED_BY_CLIENT, "had work for 99 %");
    expect_busy(0.1e6, 1.61e6, COORD_LIMITED_BY_UNKNOWN, "");
    expect_busy(0.1e6, 1.59e6, COORD_LIMITED_BY_CLIENT, "had work for 99 %"); /* most were free */
}

static void a_client_is_the_limit_by_what_voids_the_trial(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    sample_reason(rig.trial, LS__VERDICT__VERDICT_INVALID, "generator_limited", "it was busy");
    expect(&rig, COORD_LIMITED_BY_CLIENT, "it was busy");
    rig_init(&rig);
    sample_reason(rig.trial, LS__VERDICT__VERDICT_INVALID, "send_lag", "it came late");
    expect(&rig, COORD_LIMITED_BY_CLIENT, "it came late");
    rig_init(&rig);
    sample_reason(rig.trial, LS__VERDICT__VERDICT_INVALID, "generator_limited", "it was busy");
    rig.trial->read_delay = delay(MS); /* but in time, by the limit of 10 ms */
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "");
    rig_init(&rig);
    sample_reason(rig.trial, LS__VERDICT__VERDICT_SUSPECT, "generator_stalled", "a little");
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "");
}

static void limits_that_hold_pardon_a_late_client(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.trial->intervals[0]->slower[0] = 10;
    rig.trial->read_delay = delay(9 * MS);
    sample_reason(rig.trial, LS__VERDICT__VERDICT_INVALID, "generator_stalled", "it stood still");
    assert_true(coord_limits_hold(rig.trial, p99, LS_ARRAY_LEN(p99)));
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "");
    rig_init(&rig);
    rig.trial->intervals[0]->slower[0] = 10;
    rig.trial->requests->shed = 2; /* breaks both */
    assert_false(coord_limits_hold(rig.trial, p99, LS_ARRAY_LEN(p99)));
    coord_message_free(rig.trial);
}

static void without_limits_the_verdict_decides(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.in.limit_count = 0;
    rig.trial->read_delay = delay(9 * MS);
    expect(&rig, COORD_LIMITED_BY_UNKNOWN, "");
    rig_init(&rig);
    rig.in.limit_count = 0;
    sample_reason(rig.trial, LS__VERDICT__VERDICT_INVALID, "read_delay", "they lay unread");
    expect(&rig, COORD_LIMITED_BY_CLIENT, "they lay unread");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nothing_shows_is_unknown_with_its_figures),
        cmocka_unit_test(a_server_without_cpu_is_the_limit),
        cmocka_unit_test(a_full_accept_queue_is_the_servers),
        cmocka_unit_test(a_full_link_and_lost_segments_are_the_networks),
        cmocka_unit_test(a_client_is_the_limit_where_it_was_late_by_a_good_part_of_it),
        cmocka_unit_test(a_client_that_has_no_time_left_is_the_limit),
        cmocka_unit_test(a_busy_client_is_not_the_limit_where_its_connections_wait_for_the_server),
        cmocka_unit_test(a_client_is_the_limit_by_what_voids_the_trial),
        cmocka_unit_test(limits_that_hold_pardon_a_late_client),
        cmocka_unit_test(without_limits_the_verdict_decides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
