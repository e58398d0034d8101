/* Something else than a coordinator listens at the address that an agent dials: it says wrong
 * things, or as good as nothing. */
#include "tests/support/test.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/common/transport_raw.h"

static void raw_listen(struct raw *raw)
{
    struct sockaddr_un sun = raw_address(&raw->rig);

    raw->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(raw->listening, (const struct sockaddr *)&sun, sizeof(sun)), 0);
    assert_int_equal(listen(raw->listening, 8), 0);
}

/* Takes a connection, waits for HELLO, answers, and leaves it open. */
static void be_coordinator(struct raw *raw)
{
    if (raw->fd < 0) {
        raw->fd = accept4(raw->listening, NULL, NULL, SOCK_CLOEXEC);
        raw->got_len = 0;
        raw->accepted += raw->fd >= 0;
    }
    if (raw->fd >= 0 && raw->got_len == 0) {
        if (raw_was_closed(&raw->rig)) {
            (void)close(raw->fd);
            raw->fd = -1;
        } else if (raw->got_len > 0) {
            raw->answer(raw->fd);
        }
    }
}

/* The agent has given up this connection (or the address). */
static bool agent_left(struct rig *rig)
{
    struct raw *raw = (struct raw *)rig;

    be_coordinator(raw);
    return raw->fd >= 0 && raw->got_len > 0 && raw_was_closed(rig);
}

static void answer_command(int fd)
{
    raw_command(fd, 1);
}

static void answer_new_version(int fd)
{
    Ls__Envelope envelope = raw_envelope(raw_run_1, 0);
    Ls__Welcome welcome = LS__WELCOME__INIT;

    envelope.version = 9;
    envelope.body_case = LS__ENVELOPE__BODY_WELCOME;
    envelope.welcome = &welcome;
    raw_send(fd, &envelope);
}

static void answer_too_many_acked(int fd)
{
    raw_welcome(fd, raw_run_1, 1);
}

static void answer_report(int fd)
{
    raw_welcome(fd, raw_run_1, 0);
    raw_report(fd, 1);
}

static void answer_two_welcomes(int fd)
{
    raw_welcome(fd, raw_run_1, 0);
    raw_welcome(fd, raw_run_1, 0);
}

static void answer_gap(int fd)
{
    raw_welcome(fd, raw_run_1, 0);
    raw_command(fd, 2);
}

static void answer_run(int fd)
{
    raw_welcome(fd, raw_run_1, 0);
    raw_ping(fd, raw_run_2, 0);
}

static void answer_no_run(int fd)
{
    static char none[] = "";

    raw_welcome(fd, none, 0);
}

static void answer_long_run(int fd)
{
    static char name[LS_NAME_MAX_BYTES + 2];

    memset(name, 'x', sizeof(name) - 1);
    raw_welcome(fd, name, 0);
}

static void answer_oversize(int fd)
{
    raw_bytes(fd, "\x01\x00\x40\x00", 4); /* 4 MiB + 1 */
}

static void answer_probes(int fd)
{
    raw_welcome(fd, raw_run_1, 0);
    for (unsigned i = 0; i < 100; i++) {
        Ls__Envelope envelope = raw_envelope(raw_run_1, 0);
        Ls__ClockProbe probe = LS__CLOCK_PROBE__INIT;

        probe.id = i;
        envelope.body_case = LS__ENVELOPE__BODY_CLOCK_PROBE;
        envelope.clock_probe = &probe;
        raw_send(fd, &envelope);
    }
}

static void an_agent_leaves_what_is_no_coordinator(void **state)
{
    static const struct {
        void (*answer)(int fd);
        const char *why;
        const char *refused; /* code; NULL: it dials again */
    } cases[] = {
        { raw_garbage, "a frame of 542393671 bytes", NULL },
        { raw_empty_frame, "a frame of 0 bytes", NULL },
        { answer_oversize, "a frame of 4194305 bytes", NULL },
        { raw_nothing, "no greeting in time", NULL },
        { raw_half_a_frame, "no greeting in time", NULL },
        { answer_command, "put_file before WELCOME", NULL },
        { answer_report, "unexpected target_log", NULL },
        { answer_two_welcomes, "unexpected welcome", NULL },
        { answer_gap, "message 2 follows 0", NULL },
        { answer_run, "another run", NULL },
        { answer_probes, "too many clock probes", NULL },
        { answer_no_run, "without a proper id", NULL },
        { answer_long_run, "without a proper id", NULL },
        { answer_new_version, "the coordinator speaks protocol version 9, this agent 1",
          "version" },
        { answer_too_many_acked, "the other end has 1 messages", "lost_state" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct raw raw;

        raw_init(&raw);
        raw.answer = cases[i].answer;
        raw_listen(&raw);
        rig_dial(&raw.rig, "client-1", "boot-a");
        rig_until(&raw.rig, agent_left);
        if (strstr(ls_dialer_trouble(raw.rig.dialer), cases[i].why) == NULL)
            fail_msg("case %zu: \"%s\" instead of \"%s\"", i, ls_dialer_trouble(raw.rig.dialer),
                     cases[i].why);
        assert_string_equal(raw.rig.refused_code, cases[i].refused != NULL ? cases[i].refused : "");
        raw_fini(&raw);
    }
}

static bool second_visit(struct rig *rig)
{
    struct raw *raw = (struct raw *)rig;

    be_coordinator(raw);
    if (raw->accepted == 1 && raw->got_len > 0 && rig->ups == 1) {
        (void)close(raw->fd);
        raw->fd = -1;
    }
    return rig->refusals > 0;
}

static void answer_another_run_each_time(int fd)
{
    static unsigned visits;

    raw_welcome(fd, visits++ == 0 ? raw_run_1 : raw_run_2, 0);
}

static void an_agent_does_not_follow_its_address_into_another_run(void **state)
{
    struct raw raw;

    (void)state;
    raw_init(&raw);
    raw.answer = answer_another_run_each_time;
    raw_listen(&raw);
    rig_dial(&raw.rig, "client-1", "boot-a");
    rig_until(&raw.rig, second_visit);
    assert_string_equal(raw.rig.refused_code, "foreign_run");
    raw_fini(&raw);
}

static void answer_welcome(int fd)
{
    raw_welcome(fd, raw_run_1, 0);
}

static bool agent_is_up(struct rig *rig)
{
    be_coordinator((struct raw *)rig);
    return ls_dialer_is_up(rig->dialer);
}

static void an_agent_at_rest_wakes_up_for_its_heartbeats_alone(void **state)
{
    static const struct ls_pace pace = {
        .tick_ns = 5 * LS_NS_PER_MS,
        .heartbeat_ns = 50 * LS_NS_PER_MS,
        .silence_ns = 3600 * LS_NS_PER_S,
        .greeting_ns = 3600 * LS_NS_PER_S,
        .linger_ns = 200 * LS_NS_PER_MS,
        .backoff_min_ns = 1 * LS_NS_PER_MS,
        .backoff_max_ns = 20 * LS_NS_PER_MS,
    };
    unsigned char heartbeat[4096];
    unsigned heartbeats = 0;
    unsigned wakeups = 0;
    struct raw raw;

    (void)state;
    raw_init(&raw);
    ls_transport_set_pace(&pace);
    raw.answer = answer_welcome;
    raw_listen(&raw);
    rig_dial(&raw.rig, "client-1", "boot-a");
    rig_until(&raw.rig, agent_is_up);
    while (heartbeats < 20) {
        ev_run(raw.rig.loop, EVRUN_ONCE);
        wakeups++;
        heartbeats += recv(raw.fd, heartbeat, sizeof(heartbeat), MSG_DONTWAIT) > 0;
    }
    /* Two for each; ten more if there were ticks. Between, for threads that are not in time. */
    assert_true(wakeups <= 6 * heartbeats);
    raw_fini(&raw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_leaves_what_is_no_coordinator),
        cmocka_unit_test(an_agent_does_not_follow_its_address_into_another_run),
        cmocka_unit_test(an_agent_at_rest_wakes_up_for_its_heartbeats_alone),
    };
    return cmocka_run_group_tests_name("common.transport_false", tests, NULL, NULL);
}
