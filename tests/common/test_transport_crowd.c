/* So many agents that what each of them costs counts: answers that nobody waits for travel with
 * what is sent anyway, and nothing is lost or doubled for all that. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "tests/common/transport_rig.h"

#define AGENTS (LS_CROWD + 6u)

struct crowd {
    struct rig rig; /* first: what conditions are asked with */
    struct ls_dialer *dialers[AGENTS];
    struct ls_peer *peers[AGENTS];
    uint64_t taken[AGENTS];
    uint64_t settled[AGENTS];
    uint64_t wanted; /* of each */
    unsigned up;
    bool wrong;
};

static enum ls_err on_enrol(void *ctx, struct ls_peer *peer, const Ls__Hello *hello, void **out_ctx,
                            struct ls_diag *diag)
{
    struct crowd *crowd = ctx;
    unsigned number = (unsigned)strtoul(hello->agent, NULL, 10);

    (void)diag;
    assert_true(number < AGENTS);
    crowd->peers[number] = peer;
    *out_ctx = &crowd->taken[number];
    return LS_OK;
}

static void on_up(void *ctx, void *peer_ctx)
{
    struct crowd *crowd = ctx;

    (void)peer_ctx;
    crowd->up++;
}

static void on_down(void *ctx, void *peer_ctx, const char *why)
{
    (void)ctx;
    (void)peer_ctx;
    (void)why;
}

static enum ls_err on_report(void *ctx, void *peer_ctx, const Ls__Envelope *report)
{
    struct crowd *crowd = ctx;
    uint64_t *taken = peer_ctx;

    crowd->wrong |= report->seq != ++*taken;
    return LS_OK;
}

static void on_settle(void *ctx)
{
    struct crowd *crowd = ctx;

    (void)memcpy(crowd->settled, crowd->taken, sizeof(crowd->settled));
}

static void on_clock(void *ctx, void *peer_ctx, int64_t sent_ns, int64_t peer_received_ns,
                     int64_t peer_replied_ns, int64_t received_ns)
{
    (void)ctx;
    (void)peer_ctx;
    (void)sent_ns;
    (void)peer_received_ns;
    (void)peer_replied_ns;
    (void)received_ns;
}

/* An agent forgets what is acknowledged: it has to be stored by then. */
static void look_at_acknowledged(struct crowd *crowd)
{
    for (unsigned i = 0; i < AGENTS && crowd->dialers[i] != NULL; i++)
        crowd->wrong |= crowd->wanted - ls_dialer_unacked(crowd->dialers[i]) > crowd->settled[i];
}

static bool all_up(struct rig *rig)
{
    struct crowd *crowd = (struct crowd *)rig;

    look_at_acknowledged(crowd);
    return crowd->up == AGENTS;
}

static bool all_taken(struct rig *rig)
{
    struct crowd *crowd = (struct crowd *)rig;

    look_at_acknowledged(crowd);
    for (unsigned i = 0; i < AGENTS; i++) {
        if (crowd->taken[i] < crowd->wanted)
            return false;
    }
    return true;
}

static bool all_acknowledged(struct rig *rig)
{
    struct crowd *crowd = (struct crowd *)rig;

    look_at_acknowledged(crowd);
    for (unsigned i = 0; i < AGENTS; i++) {
        if (ls_dialer_unacked(crowd->dialers[i]) > 0)
            return false;
    }
    return true;
}

static void crowd_init(struct crowd *crowd, const struct ls_pace *pace)
{
    const struct ls_listener_env env = { .enrol = on_enrol,
                                         .up = on_up,
                                         .down = on_down,
                                         .report = on_report,
                                         .settle = on_settle,
                                         .clock = on_clock,
                                         .ctx = crowd };
    struct ls_listener_options options = { .run_id = "run-1" };
    char name[16];

    rig_init(&crowd->rig);
    if (pace != NULL)
        ls_transport_set_pace(pace);
    options.url = crowd->rig.url;
    assert_int_equal(
        ls_listener_create(crowd->rig.loop, &options, &env, &crowd->rig.listener, NULL), LS_OK);
    for (unsigned i = 0; i < AGENTS; i++) {
        (void)snprintf(name, sizeof(name), "%u", i);
        assert_int_equal(
            rig_dialer(&crowd->rig, crowd->rig.url, name, "boot", 0, &crowd->dialers[i]), LS_OK);
    }
    rig_until(&crowd->rig, all_up);
}

static void crowd_fini(struct crowd *crowd)
{
    for (unsigned i = 0; i < AGENTS; i++)
        ls_dialer_destroy(crowd->dialers[i]);
    rig_fini(&crowd->rig);
    free(crowd);
}

static struct crowd *crowd_new(const struct ls_pace *pace)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));

    assert_non_null(crowd);
    crowd_init(crowd, pace);
    return crowd;
}

static void all_report_an_interval(struct crowd *crowd)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__IntervalReport report = LS__INTERVAL_REPORT__INIT;

    envelope.body_case = LS__ENVELOPE__BODY_INTERVAL;
    envelope.interval = &report;
    for (unsigned i = 0; i < AGENTS; i++)
        assert_int_equal(ls_dialer_report(crowd->dialers[i], &envelope, NULL), LS_OK);
    crowd->wanted++;
}

static void all_report_something_else(struct crowd *crowd)
{
    crowd->wanted++;
    for (unsigned i = 0; i < AGENTS; i++)
        assert_int_equal(rig_report(crowd->dialers[i], crowd->wanted), LS_OK);
}

static void intervals_are_acknowledged_with_what_is_sent_anyway(void **state)
{
    static const struct ls_pace pace = {
        .tick_ns = 20 * LS_NS_PER_MS,
        .heartbeat_ns = 3600 * LS_NS_PER_S,
        .silence_ns = 7200 * LS_NS_PER_S,
        .greeting_ns = 60 * LS_NS_PER_S,
        .linger_ns = 200 * LS_NS_PER_MS,
        .backoff_min_ns = 1 * LS_NS_PER_MS,
        .backoff_max_ns = 20 * LS_NS_PER_MS,
    };
    struct crowd *crowd = crowd_new(&pace);

    (void)state;
    all_report_an_interval(crowd);
    rig_until(&crowd->rig, all_taken);
    rig_run_ms(&crowd->rig, 50);
    for (unsigned i = 0; i < AGENTS; i++) /* no heartbeat is near */
        assert_int_equal(ls_dialer_unacked(crowd->dialers[i]), 1);
    for (unsigned i = 0; i < AGENTS; i++)
        assert_int_equal(ls_peer_probe_clock(crowd->peers[i]), LS_OK);
    rig_until(&crowd->rig, all_acknowledged);

    all_report_an_interval(crowd);
    all_report_something_else(crowd); /* which somebody waits for */
    rig_until(&crowd->rig, all_acknowledged);
    assert_true(all_taken(&crowd->rig));
    assert_false(crowd->wrong);
    crowd_fini(crowd);
}

static void intervals_are_acknowledged_by_the_heartbeat_at_last(void **state)
{
    struct crowd *crowd = crowd_new(NULL);

    (void)state;
    for (unsigned n = 0; n < 5; n++) {
        all_report_an_interval(crowd);
        rig_until(&crowd->rig, all_acknowledged);
    }
    assert_true(all_taken(&crowd->rig));
    assert_false(crowd->wrong);
    crowd_fini(crowd);
}

/* What was taken and not yet acknowledged comes again with the next connection, or does not. */
static void nothing_is_taken_twice_when_connections_drop(void **state)
{
    struct crowd *crowd = crowd_new(NULL);

    (void)state;
    for (unsigned n = 0; n < 6; n++) {
        all_report_an_interval(crowd);
        if (n % 2 == 0)
            rig_until(&crowd->rig, all_taken);
        crowd->up = 0;
        for (unsigned i = 0; i < AGENTS; i++)
            ls_dialer_drop(crowd->dialers[i]);
        rig_until(&crowd->rig, all_up);
    }
    rig_until(&crowd->rig, all_acknowledged);
    assert_true(all_taken(&crowd->rig));
    assert_false(crowd->wrong);
    crowd_fini(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_are_acknowledged_with_what_is_sent_anyway),
        cmocka_unit_test(intervals_are_acknowledged_by_the_heartbeat_at_last),
        cmocka_unit_test(nothing_is_taken_twice_when_connections_drop),
    };
    return cmocka_run_group_tests_name("common.transport_crowd", tests, NULL, NULL);
}
