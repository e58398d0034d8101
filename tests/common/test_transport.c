/* Sessions between a real dialer and a real listener: what the two ends promise each other. */
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/common/chaos_proxy.h"
#include "tests/common/transport_rig.h"
#include "tests/support/failmalloc.h"

/* ---- enrolment ---- */

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
    assert_string_equal(ls_dialer_trouble(rig.dialer), "");
    rig_fini(&rig);
}

static void an_agent_waits_for_its_coordinator(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_dial(&rig, "client-1", "boot-a");
    rig_run_ms(&rig, 50);
    assert_string_not_equal(ls_dialer_trouble(rig.dialer), "");
    assert_int_equal(rig.downs, 0);               /* it was never up */
    assert_false(ls_dialer_is_alone(rig.dialer)); /* such a path is meant to be of this host */
    rig_listen(&rig);
    rig_until(&rig, rig_both_up);
    rig_fini(&rig);
}

static bool is_alone(struct rig *rig)
{
    return ls_dialer_is_alone(rig->dialer);
}

static void who_dials_loopback_and_finds_nobody_can_be_told(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    assert_int_equal(rig_dialer(&rig, "tcp://127.0.0.1:1", "client-1", "a", 0, &rig.dialer), LS_OK);
    rig_until(&rig, is_alone);
    ls_dialer_destroy(rig.dialer);
    rig.dialer = NULL;
    rig_listen_at(&rig, "tcp://127.0.0.1:0", "run-1");
    assert_int_equal(
        rig_dialer(&rig, ls_listener_url(rig.listener), "client-1", "a", 0, &rig.dialer), LS_OK);
    rig_until(&rig, rig_both_up);
    assert_false(ls_dialer_is_alone(rig.dialer));
    rig_fini(&rig);
}

static enum ls_err refuse_with_code(struct rig *rig, const Ls__Hello *hello, struct ls_diag *diag)
{
    (void)rig;
    return ls_fail(diag, LS_ESTATE, "agent_restarted: %s was here before", hello->agent);
}

static enum ls_err refuse_without_code(struct rig *rig, const Ls__Hello *hello,
                                       struct ls_diag *diag)
{
    (void)rig;
    return ls_fail(diag, LS_EINVAL, "%s: nobody knows it", hello->agent);
}

static void a_refused_agent_learns_why_and_stays_away(void **state)
{
    static const struct {
        enum ls_err (*enrol)(struct rig *rig, const Ls__Hello *hello, struct ls_diag *diag);
        const char *code;
        const char *text;
    } cases[] = {
        { refuse_with_code, "agent_restarted", "client-1 was here before" },
        { refuse_without_code, "refused", "client-1: nobody knows it" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct rig rig;

        rig_init(&rig);
        rig.hooks.enrol = cases[i].enrol;
        rig_listen(&rig);
        rig_dial(&rig, "client-1", "boot-a");
        rig_until(&rig, rig_was_refused);
        assert_string_equal(rig.refused_code, cases[i].code);
        assert_string_equal(rig.refused_text, cases[i].text);
        assert_int_equal(rig.ups, 0);
        assert_int_equal(rig_report(rig.dialer, 1), LS_ESTATE);
        rig_run_ms(&rig, 60); /* several times the back-off */
        assert_int_equal(rig.refusals, 1);
        rig_fini(&rig);
    }
}

static bool enrolled_twice(struct rig *rig)
{
    return rig->enrolled == 2 && rig_both_up(rig);
}

static void a_restarted_agent_is_enrolled_anew_and_gets_nothing_old(void **state)
{
    struct ls_dialer *first;
    struct ls_peer *old;
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    rig_dial(&rig, "client-1", "boot-a");
    rig_until(&rig, rig_both_up);
    first = rig.dialer;
    old = rig.peer;
    assert_int_equal(rig_command(old, 1), LS_OK); /* on its way when the process dies */
    ls_dialer_destroy(first);
    assert_int_equal(rig_command(old, 2), LS_OK);

    rig_dial(&rig, "client-1", "boot-b");
    rig_until(&rig, enrolled_twice);
    assert_ptr_not_equal(rig.peer, old);
    assert_int_equal(rig.peer_downs, 1);
    assert_false(ls_peer_is_up(old));
    assert_int_equal(ls_peer_unacked(old), 0);
    assert_int_equal(rig_command(old, 3), LS_ESTATE);
    rig_run_ms(&rig, 50);
    assert_int_equal(rig.commands, 0);
    rig_fini(&rig);
}

static enum ls_err refuse_the_second(struct rig *rig, const Ls__Hello *hello, struct ls_diag *diag)
{
    return rig->enrolled == 0 ? LS_OK : refuse_with_code(rig, hello, diag);
}

static void a_refused_process_leaves_the_session_of_its_name_alone(void **state)
{
    struct ls_dialer *second = NULL;
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.hooks.enrol = refuse_the_second;
    rig_listen(&rig);
    rig_dial(&rig, "client-1", "boot-a");
    rig_until(&rig, rig_both_up);
    assert_int_equal(rig_dialer(&rig, rig.url, "client-1", "boot-b", 0, &second), LS_OK);
    rig_until(&rig, rig_was_refused);
    assert_true(rig_both_up(&rig));
    assert_int_equal(rig.peer_downs, 0);
    ls_dialer_destroy(second);
    rig_fini(&rig);
}

static bool old_process_refused(struct rig *rig)
{
    return rig->refusals == 1;
}

static void the_older_process_of_a_name_cannot_come_back(void **state)
{
    struct ls_dialer *second = NULL;
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    rig_dial(&rig, "client-1", "boot-a");
    rig_until(&rig, rig_both_up);
    assert_int_equal(rig_dialer(&rig, rig.url, "client-1", "boot-b", 0, &second), LS_OK);
    rig_until(&rig, old_process_refused);
    assert_string_equal(rig.refused_code, "superseded");
    assert_true(ls_dialer_is_up(second));
    ls_dialer_destroy(second);
    rig_fini(&rig);
}

static bool replaced(struct rig *rig)
{
    return rig->peer_downs >= 1 && rig->peer_ups >= 2;
}

static void the_newest_connection_of_a_process_wins(void **state)
{
    struct ls_dialer *twin = NULL;
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    rig_dial(&rig, "client-1", "boot-a");
    rig_until(&rig, rig_both_up);
    /* The same process as far as the coordinator can tell: its old connection is half dead. */
    assert_int_equal(rig_dialer(&rig, rig.url, "client-1", "boot-a", 0, &twin), LS_OK);
    rig_until(&rig, replaced);
    assert_non_null(strstr(rig.last_why, "newer connection"));
    assert_int_equal(rig.enrolled, 1);
    ls_dialer_destroy(twin);
    rig_until(&rig, rig_both_up);
    rig_fini(&rig);
}

static bool another_enrolled(struct rig *rig)
{
    return rig->enrolled == rig->reports_made && rig_both_up(rig);
}

/* An agent that is started anew for ever costs no more than one that was a few times. */
static void processes_of_long_ago_are_forgotten(void **state)
{
    struct rig rig;
    char boot[16];

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    for (unsigned n = 1; n <= 20; n++) {
        ls_dialer_destroy(rig.dialer);
        (void)snprintf(boot, sizeof(boot), "boot-%u", n);
        rig_dial(&rig, "client-1", boot);
        rig.reports_made = n;
        rig_until(&rig, another_enrolled);
    }
    assert_int_equal(rig.forgotten,
                     15); /* the present one, and four that are turned away by name */
    rig_fini(&rig);
}

/* ---- messages ---- */

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

static void a_full_ring_says_so_and_loses_nothing(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    assert_int_equal(rig_dialer(&rig, rig.url, "client-1", "boot-a", 10, &rig.dialer), LS_OK);
    for (unsigned n = 1; n <= 10; n++) {
        assert_int_equal(ls_dialer_room(rig.dialer), 11 - n);
        assert_int_equal(rig_report(rig.dialer, n), LS_OK);
    }
    assert_int_equal(rig_report(rig.dialer, 11), LS_EAGAIN);
    assert_int_equal(ls_dialer_unacked(rig.dialer), 10);
    rig.commands = 10; /* none to wait for */
    rig.takens = 1;
    rig_listen(&rig);
    rig_until(&rig, ten_each_way);
    assert_false(rig.out_of_order);
    assert_int_equal(ls_dialer_room(rig.dialer), 10);
    rig_fini(&rig);
}

static bool one_large_each_way(struct rig *rig)
{
    return rig->reports == 1 && rig->commands == 1;
}

static void messages_as_large_as_a_frame_pass(void **state)
{
    static uint8_t data[LS_FRAME_MAX_FROM_COORD];
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__PutFile file = LS__PUT_FILE__INIT;
    Ls__TargetLog log = LS__TARGET_LOG__INIT;
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    rig_dial(&rig, "client-1", "boot-a");
    rig_until(&rig, rig_both_up);
    log.offset = file.offset = 1;
    log.data = (ProtobufCBinaryData){ .data = data, .len = LS_FRAME_MAX_FROM_AGENT };
    envelope.body_case = LS__ENVELOPE__BODY_TARGET_LOG;
    envelope.target_log = &log;
    assert_int_equal(ls_dialer_report(rig.dialer, &envelope, NULL), LS_ERANGE);
    log.data.len -= 256;
    assert_int_equal(ls_dialer_report(rig.dialer, &envelope, NULL), LS_OK);
    file.data = (ProtobufCBinaryData){ .data = data, .len = LS_FRAME_MAX_FROM_COORD };
    envelope.body_case = LS__ENVELOPE__BODY_PUT_FILE;
    envelope.put_file = &file;
    assert_int_equal(ls_peer_command(rig.peer, &envelope, NULL), LS_ERANGE);
    file.data.len -= 256;
    assert_int_equal(ls_peer_command(rig.peer, &envelope, NULL), LS_OK);
    rig_until(&rig, one_large_each_way);
    assert_false(rig.out_of_order);
    rig_fini(&rig);
}

/* ---- drops ---- */

struct chaos {
    struct rig rig; /* first: hooks get it */
    struct chaos_proxy proxy;
    struct ls_rng rng;
    uint64_t total;
    uint64_t reports_made;
    uint64_t commands_made;
    unsigned drops;
};

static bool now_and_then(struct chaos *c)
{
    bool hit = ls_rng_below(&c->rng, 300) == 0;

    c->drops += hit;
    return hit;
}

static enum ls_err report_with_accidents(struct rig *rig, const Ls__Envelope *report)
{
    struct chaos *c = (struct chaos *)rig;

    (void)report;
    if (now_and_then(c))
        return LS_EIO; /* before it is stored */
    if (now_and_then(c))
        ls_peer_close(rig->peer, "after it is stored"); /* the acknowledgement is lost */
    return LS_OK;
}

static void command_with_accidents(struct rig *rig, const Ls__Envelope *command)
{
    struct chaos *c = (struct chaos *)rig;

    (void)command;
    if (now_and_then(c))
        ls_dialer_drop(rig->dialer);
}

/* Produces what there is room for on the way. */
static bool all_arrived(struct rig *rig)
{
    struct chaos *c = (struct chaos *)rig;

    for (unsigned i = 0; i < 50 && c->reports_made < c->total; i++)
        if (rig_report(rig->dialer, c->reports_made + 1) == LS_OK)
            c->reports_made++;
    for (unsigned i = 0; i < 50 && c->commands_made < c->total; i++)
        if (rig->peer != NULL && ls_peer_unacked(rig->peer) < 500 &&
            rig_command(rig->peer, c->commands_made + 1) == LS_OK)
            c->commands_made++;
    return rig->reports >= c->total && rig->commands >= c->total &&
           ls_dialer_unacked(rig->dialer) == 0 && ls_peer_unacked(rig->peer) == 0;
}

static void every_message_takes_effect_exactly_once(uint64_t seed)
{
    static struct chaos c;
    char path[108];

    c = (struct chaos){ .total = 20000 };
    rig_init(&c.rig);
    ls_rng_init(&c.rng, seed, 2);
    c.rig.hooks.report = report_with_accidents;
    c.rig.hooks.command = command_with_accidents;
    rig_listen(&c.rig);
    (void)snprintf(path, sizeof(path), "%.80s/proxy", c.rig.dir.path);
    chaos_proxy_init(&c.proxy, c.rig.loop, path, c.rig.url + strlen("ipc://"), seed, 20000);
    (void)snprintf(path, sizeof(path), "ipc://%.80s/proxy", c.rig.dir.path);
    assert_int_equal(rig_dialer(&c.rig, path, "client-1", "boot-a", 200, &c.rig.dialer), LS_OK);
    rig_until(&c.rig, all_arrived);

    assert_false(c.rig.out_of_order);
    assert_int_equal(c.rig.reports, c.total);
    assert_int_equal(c.rig.report_sum, c.total * (c.total + 1) / 2);
    assert_int_equal(c.rig.commands, c.total);
    assert_int_equal(c.rig.enrolled, 1);
    assert_true(c.drops + c.proxy.cuts > 300);
    assert_true(c.rig.resumes > 100);
    chaos_proxy_fini(&c.proxy);
    rig_fini(&c.rig);
}

static void nothing_is_lost_or_doubled_when_connections_drop(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        every_message_takes_effect_exactly_once(seed);
}

/* ---- silence ---- */

static bool went_down(struct rig *rig)
{
    return rig->peer_downs >= 1 && rig->downs >= 1;
}

static void silence_closes_a_connection_at_both_ends(void **state)
{
    struct chaos_proxy proxy;
    struct rig rig;
    char path[108];

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    (void)snprintf(path, sizeof(path), "%.80s/proxy", rig.dir.path);
    chaos_proxy_init(&proxy, rig.loop, path, rig.url + strlen("ipc://"), 1, 0);
    (void)snprintf(path, sizeof(path), "ipc://%.80s/proxy", rig.dir.path);
    assert_int_equal(rig_dialer(&rig, path, "client-1", "boot-a", 0, &rig.dialer), LS_OK);
    rig_until(&rig, rig_both_up);
    chaos_proxy_freeze(&proxy);
    rig_until(&rig, went_down);
    assert_string_equal(rig.last_why, "no sign of life");
    rig_until(&rig, rig_both_up); /* a new connection is not frozen */
    assert_int_equal(rig.enrolled, 1);
    chaos_proxy_fini(&proxy);
    rig_fini(&rig);
}

static void an_idle_session_stays(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    rig_dial(&rig, "client-1", "boot-a");
    rig_until(&rig, rig_both_up);
    rig_run_ms(&rig, 1000); /* 2.5 times what counts as silence */
    assert_int_equal(rig.downs + rig.peer_downs, 0);
    rig_fini(&rig);
}

static void a_loop_that_stood_still_does_not_blame_its_peers(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    rig_dial(&rig, "client-1", "boot-a");
    rig_until(&rig, rig_both_up);
    ls_clock_sleep_until(ls_clock_mono_ns() + 600 * LS_NS_PER_MS); /* a callback that took long */
    rig_run_ms(&rig, 100);
    assert_int_equal(rig.downs + rig.peer_downs, 0);
    rig_fini(&rig);
}

/* ---- clocks ---- */

static bool clock_answered(struct rig *rig)
{
    return rig->clocks > 0;
}

static bool all_clocks_answered(struct rig *rig)
{
    return rig->clocks == LS_CLOCK_MAX + 1;
}

static void a_clock_exchange_gives_four_instants_in_order(void **state)
{
    struct rig rig;
    int64_t before_ns;

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    rig_dial(&rig, "client-1", "boot-a");
    rig_until(&rig, rig_both_up);
    before_ns = ls_clock_mono_ns();
    assert_int_equal(ls_peer_probe_clock(rig.peer), LS_OK);
    rig_until(&rig, clock_answered);
    /* One host, one clock: the order of events is the order of stamps. */
    assert_true(before_ns <= rig.clock[0]);
    assert_true(rig.clock[0] <= rig.clock[1]);
    assert_true(rig.clock[1] <= rig.clock[2]);
    assert_true(rig.clock[2] <= rig.clock[3]);
    assert_true(rig.clock[3] <= ls_clock_mono_ns());

    for (unsigned i = 0; i < LS_CLOCK_MAX; i++)
        assert_int_equal(ls_peer_probe_clock(rig.peer), LS_OK);
    assert_int_equal(ls_peer_probe_clock(rig.peer), LS_EAGAIN);
    rig_until(&rig, all_clocks_answered);
    assert_int_equal(ls_peer_probe_clock(rig.peer), LS_OK);
    ls_peer_close(rig.peer, "enough");
    assert_int_equal(ls_peer_probe_clock(rig.peer), LS_EAGAIN);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_enrols_and_both_ends_come_up),
        cmocka_unit_test(an_agent_waits_for_its_coordinator),
        cmocka_unit_test(who_dials_loopback_and_finds_nobody_can_be_told),
        cmocka_unit_test(a_refused_agent_learns_why_and_stays_away),
        cmocka_unit_test(a_restarted_agent_is_enrolled_anew_and_gets_nothing_old),
        cmocka_unit_test(a_refused_process_leaves_the_session_of_its_name_alone),
        cmocka_unit_test(the_older_process_of_a_name_cannot_come_back),
        cmocka_unit_test(the_newest_connection_of_a_process_wins),
        cmocka_unit_test(processes_of_long_ago_are_forgotten),
        cmocka_unit_test(reports_and_commands_arrive_in_order),
        cmocka_unit_test(a_full_ring_says_so_and_loses_nothing),
        cmocka_unit_test(messages_as_large_as_a_frame_pass),
        cmocka_unit_test(nothing_is_lost_or_doubled_when_connections_drop),
        cmocka_unit_test(silence_closes_a_connection_at_both_ends),
        cmocka_unit_test(an_idle_session_stays),
        cmocka_unit_test(a_loop_that_stood_still_does_not_blame_its_peers),
        cmocka_unit_test(a_clock_exchange_gives_four_instants_in_order),
    };
    return cmocka_run_group_tests_name("common.transport", tests, NULL, NULL);
}
