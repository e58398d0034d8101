/* Strangers at the listener's socket, agents gone mad, and very many of them. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/common/transport_raw.h"

static bool is_enrolled(struct rig *rig)
{
    return rig->peer_ups > 0;
}

static bool is_down(struct rig *rig)
{
    return rig->peer_downs > 0;
}

/* ---- strangers at the listener ---- */

static void say_oversize(int fd)
{
    raw_bytes(fd, "\x01\x00\x10\x00", 4); /* 1 MiB + 1 */
}

static void say_ping_first(int fd)
{
    raw_ping(fd, raw_run_1, 0);
}

static void say_report_first(int fd)
{
    raw_report(fd, 1);
}

static void say_bomb(int fd)
{
    raw_bomb(fd);
}

static void strangers_are_shown_out(void **state)
{
    static void (*const say[])(int fd) = {
        raw_garbage,      say_oversize,     raw_empty_frame, say_ping_first,
        say_report_first, raw_half_a_frame, raw_nothing,     say_bomb,
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(say); i++) {
        struct raw raw;

        raw_init(&raw);
        rig_listen(&raw.rig);
        raw.fd = raw_connect_ipc(&raw.rig);
        say[i](raw.fd);
        rig_until(&raw.rig, raw_was_closed);
        assert_int_equal(raw.rig.enrolled, 0);
        assert_int_equal(raw.got_len, 0);
        raw_fini(&raw);
    }
}

static void expect_refusal(struct raw *raw, const char *code, const char *text)
{
    struct ls_bytes bytes;
    Ls__Envelope *envelope = NULL;
    size_t taken = 0;

    rig_until(&raw->rig, raw_was_closed); /* it is given time to read first */
    assert_int_equal(ls_frame_next((struct ls_bytes){ raw->got, raw->got_len },
                                   LS_FRAME_MAX_FROM_COORD, &bytes, &taken, NULL),
                     LS_OK);
    assert_int_equal(taken, raw->got_len);
    assert_int_equal(ls_envelope_unpack(bytes, &envelope, NULL), LS_OK);
    assert_int_equal(envelope->body_case, LS__ENVELOPE__BODY_REFUSE);
    assert_string_equal(envelope->refuse->code, code);
    if (strstr(envelope->refuse->text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", envelope->refuse->text, text);
    ls_envelope_free(envelope);
}

static void a_foreign_version_is_refused_by_name(void **state)
{
    struct raw raw;

    (void)state;
    raw_init(&raw);
    rig_listen(&raw.rig);
    raw.fd = raw_connect_ipc(&raw.rig);
    raw_hello_as(raw.fd, 7, 1, 0);
    expect_refusal(&raw, "version", "the agent speaks protocol version 7, this coordinator 1");
    assert_int_equal(raw.rig.enrolled, 0);
    raw_fini(&raw);
}

static void a_hello_that_cannot_be_is_refused(void **state)
{
    static const struct {
        uint64_t next_seq;
        uint64_t commands_done;
        const char *code;
    } cases[] = {
        { 0, 0, "lost_state" }, /* the first report is number 1 */
        { UINT64_MAX, 0, "protocol" },
        { 1, UINT64_MAX, "protocol" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct raw raw;

        raw_init(&raw);
        rig_listen(&raw.rig);
        raw.fd = raw_connect_ipc(&raw.rig);
        raw_hello_as(raw.fd, LS_WIRE_VERSION, cases[i].next_seq, cases[i].commands_done);
        expect_refusal(&raw, cases[i].code, "");
        assert_int_equal(raw.rig.enrolled, 0); /* nobody keeps a peer that is freed at once */
        raw_fini(&raw);
    }
}

static bool one_report(struct rig *rig)
{
    return rig->reports == 1;
}

static void an_agent_that_forgot_the_session_is_refused(void **state)
{
    struct raw raw;

    (void)state;
    raw_init(&raw);
    rig_listen(&raw.rig);
    raw.fd = raw_connect_ipc(&raw.rig);
    raw_hello(raw.fd);
    raw_report(raw.fd, 1);
    rig_until(&raw.rig, one_report);
    (void)close(raw.fd);
    rig_until(&raw.rig, is_down);
    raw.fd = raw_connect_ipc(&raw.rig);
    raw_hello(raw.fd); /* its next report is number 1 again */
    expect_refusal(&raw, "lost_state", "report 1 is stored");
    raw_fini(&raw);
}

static void a_hello_in_many_pieces_is_as_good_as_one(void **state)
{
    unsigned char bytes[256];
    struct raw raw;
    int pair[2];
    ssize_t len;

    (void)state;
    raw_init(&raw);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    raw_hello(pair[0]);
    len = recv(pair[1], bytes, sizeof(bytes), 0);
    (void)close(pair[0]);
    (void)close(pair[1]);
    assert_true(len > 10);
    rig_listen(&raw.rig);
    raw.fd = raw_connect_ipc(&raw.rig);
    for (ssize_t i = 0; i < len; i++) {
        raw_bytes(raw.fd, bytes + i, 1);
        rig_run_ms(&raw.rig, 1);
    }
    rig_until(&raw.rig, is_enrolled);
    raw_fini(&raw);
}

/* ---- agents gone mad ---- */

static void mad_command(int fd)
{
    raw_command(fd, 1);
}

static void mad_welcome(int fd)
{
    raw_welcome(fd, raw_run_1, 0);
}

static void mad_hello(int fd)
{
    raw_hello(fd);
}

static void mad_run(int fd)
{
    raw_ping(fd, raw_run_2, 0);
}

static void mad_gap(int fd)
{
    raw_report(fd, 1);
    raw_report(fd, 3);
}

static void mad_ack(int fd)
{
    raw_ack(fd, 5);
}

static void mad_clock(int fd)
{
    raw_clock_reply(fd, 3);
}

static void mad_numbered_ping(int fd)
{
    raw_ping(fd, raw_run_1, 4);
}

static void agents_gone_mad_lose_their_connection_and_it_is_said_why(void **state)
{
    static const struct {
        void (*say)(int fd);
        const char *why;
    } cases[] = {
        { mad_command, "unexpected put_file" },
        { mad_welcome, "unexpected welcome" },
        { mad_hello, "another run" }, /* a HELLO names no run */
        { mad_run, "another run" },
        { mad_gap, "message 3 follows 1" },
        { mad_ack, "message 5 is acknowledged but only 0 were sent" },
        { mad_clock, "an answer to no clock probe" },
        { mad_numbered_ping, "ping with a sequence number" },
        { raw_garbage, "a frame of 542393671 bytes" },
        { say_oversize, "a frame of 1048577 bytes; 1 to 1048576 are taken" },
        { raw_empty_frame, "a frame of 0 bytes" },
        { say_bomb, "unpacks to too much" },
        { raw_half_a_frame, "no sign of life" },
        { raw_nothing, "no sign of life" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct raw raw;

        raw_init(&raw);
        rig_listen(&raw.rig);
        raw.fd = raw_connect_ipc(&raw.rig);
        raw_hello(raw.fd);
        rig_until(&raw.rig, is_enrolled);
        cases[i].say(raw.fd);
        rig_until(&raw.rig, is_down);
        if (strstr(raw.rig.last_why, cases[i].why) == NULL)
            fail_msg("case %zu: \"%s\" instead of \"%s\"", i, raw.rig.last_why, cases[i].why);
        rig_until(&raw.rig, raw_was_closed);
        raw_fini(&raw);
    }
}

static bool got_a_third_frame(struct rig *rig)
{
    struct raw *raw = (struct raw *)rig;

    (void)raw_was_closed(rig);
    return raw->got_len >= 60; /* WELCOME and two acknowledgements have about 20 bytes each */
}

static void a_report_that_comes_twice_takes_effect_once(void **state)
{
    struct raw raw;

    (void)state;
    raw_init(&raw);
    rig_listen(&raw.rig);
    raw.fd = raw_connect_ipc(&raw.rig);
    raw_hello(raw.fd);
    raw_report(raw.fd, 1);
    rig_until(&raw.rig, one_report);
    rig_run_ms(&raw.rig, 10);
    raw_report(raw.fd, 1);
    rig_until(&raw.rig, got_a_third_frame); /* it is acknowledged again */
    assert_int_equal(raw.rig.reports, 1);
    assert_int_equal(raw.rig.peer_downs, 0);
    raw_fini(&raw);
}

/* An agent that never reads must not make the coordinator keep more than its commands. */
static void an_agent_that_never_reads_is_cut_off(void **state)
{
    struct raw raw;

    (void)state;
    raw_init(&raw);
    rig_listen(&raw.rig);
    raw.fd = raw_connect_ipc(&raw.rig);
    raw_hello(raw.fd);
    rig_until(&raw.rig, is_enrolled);
    for (unsigned n = 1; n <= 20000; n++)
        assert_int_equal(rig_command(raw.rig.peer, n), LS_OK);
    rig_until(&raw.rig, is_down);
    assert_string_equal(raw.rig.last_why, "no sign of life");
    assert_int_equal(ls_peer_unacked(raw.rig.peer), 20000);
    raw_fini(&raw);
}

/* ---- many of them ---- */

static void reset(int fd)
{
    struct linger now = { .l_onoff = 1, .l_linger = 0 };

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

static void hello_and_die(int fd)
{
    raw_hello(fd);
    reset(fd);
}

static void hello_garbage_and_die(int fd)
{
    raw_hello(fd);
    raw_garbage(fd);
}

static void half_and_reset(int fd)
{
    raw_half_a_frame(fd);
    reset(fd);
}

static void storm(struct raw *raw, int (*connect_to)(const struct rig *rig), unsigned connections)
{
    static void (*const acts[])(int fd) = {
        raw_garbage,   say_oversize,          reset,          raw_half_a_frame, raw_nothing,
        hello_and_die, hello_garbage_and_die, half_and_reset, say_bomb,         say_ping_first,
    };

    for (unsigned i = 0; i < connections; i++) {
        int fd = connect_to(&raw->rig);

        acts[i % LS_ARRAY_LEN(acts)](fd);
        if (i % 3 == 0)
            rig_run_ms(&raw->rig, 1); /* sometimes it is noticed before the end, sometimes after */
        (void)close(fd);
        ev_run(raw->rig.loop, EVRUN_NOWAIT);
    }
}

static unsigned descriptors_wanted;

static bool descriptors_are_back(struct rig *rig)
{
    (void)rig;
    return rig_open_descriptors() <= descriptors_wanted;
}

static void survive_a_storm(const char *url, int (*connect_to)(const struct rig *rig))
{
    struct mallinfo2 before;
    struct mallinfo2 after;
    struct raw raw;

    raw_init(&raw);
    rig_listen_at(&raw.rig, url != NULL ? url : raw.rig.url, "run-1");
    descriptors_wanted = rig_open_descriptors();
    storm(&raw, connect_to, 100); /* buffers and pools reach their size */
    rig_until(&raw.rig, descriptors_are_back);
    before = mallinfo2();
    storm(&raw, connect_to, 1000);
    rig_until(&raw.rig, descriptors_are_back);
    after = mallinfo2();
    assert_true(after.uordblks < before.uordblks + 64 * 1024);
    assert_true(raw.rig.enrolled <= 1); /* one name, one boot id */

    assert_int_equal(rig_dialer(&raw.rig, ls_listener_url(raw.rig.listener), "honest", "boot-h", 0,
                                &raw.rig.dialer),
                     LS_OK);
    assert_int_equal(rig_report(raw.rig.dialer, 1), LS_OK);
    rig_until(&raw.rig, one_report);
    raw_fini(&raw);
}

static void a_storm_of_strangers_leaves_nothing_behind(void **state)
{
    (void)state;
    survive_a_storm(NULL, raw_connect_ipc);
}

static void a_storm_of_resets_over_tcp_leaves_nothing_behind(void **state)
{
    (void)state;
    survive_a_storm("tcp://127.0.0.1:0", raw_connect_tcp);
}

static int crowd[80];

static bool somebody_enrolled(struct rig *rig)
{
    return rig->enrolled == 1;
}

static void mute_connections_do_not_stay(void **state)
{
    struct raw raw;
    int fds[200];

    (void)state;
    raw_init(&raw);
    rig_listen(&raw.rig);
    descriptors_wanted = rig_open_descriptors();
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++) {
        fds[i] = raw_connect_ipc(&raw.rig);
        rig_run_ms(&raw.rig, 1); /* the backlog is short */
    }
    rig_dial(&raw.rig, "honest", "boot-h");
    rig_until(&raw.rig, rig_both_up);                      /* beside them */
    descriptors_wanted += (unsigned)LS_ARRAY_LEN(fds) + 2; /* our ends, and the honest one's two */
    rig_until(&raw.rig, descriptors_are_back);
    assert_true(rig_both_up(&raw.rig));
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    raw_fini(&raw);
}

static int connect_from(const struct rig *rig, uint32_t address)
{
    struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) };
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port =
            htons((uint16_t)strtoul(strrchr(ls_listener_url(rig->listener), ':') + 1, NULL, 10)),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static bool is_closed(int fd)
{
    unsigned char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || errno != EAGAIN;
}

static bool surplus_is_closed(struct rig *rig)
{
    const struct raw *raw = (const struct raw *)rig;
    unsigned closed = 0;

    for (unsigned i = 0; i < raw->accepted; i++)
        closed += is_closed(crowd[i]);
    return closed >= raw->accepted / 2;
}

/* Each address has a share of the room for those that have not said who they are. */
static void a_host_that_takes_all_leaves_room_for_others(void **state)
{
    static const struct ls_pace pace = {
        .tick_ns = 20 * LS_NS_PER_MS,
        .heartbeat_ns = 60 * LS_NS_PER_MS,
        .silence_ns = 3600 * LS_NS_PER_S,
        .greeting_ns = 3600 * LS_NS_PER_S, /* nobody is sent away for his silence */
        .linger_ns = 200 * LS_NS_PER_MS,
        .backoff_min_ns = 1 * LS_NS_PER_MS,
        .backoff_max_ns = 20 * LS_NS_PER_MS,
    };
    struct rlimit before, few;
    struct raw raw;
    int other;

    (void)state;
    raw_init(&raw);
    ls_transport_set_pace(&pace);
    rig_listen_at(&raw.rig, "tcp://127.0.0.1:0", "run-1");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 8 * LS_ARRAY_LEN(crowd) / 4; /* a share is a quarter of the half */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (raw.accepted = 0; raw.accepted < LS_ARRAY_LEN(crowd); raw.accepted++) {
        crowd[raw.accepted] = connect_from(&raw.rig, INADDR_LOOPBACK);
        rig_run_ms(&raw.rig, 1); /* the backlog is short */
    }
    rig_until(&raw.rig, surplus_is_closed);
    other = connect_from(&raw.rig, INADDR_LOOPBACK + 1);
    raw_hello(other);
    raw.fd = other;
    rig_until(&raw.rig, somebody_enrolled);
    assert_false(is_closed(other));
    (void)close(other);
    raw.fd = -1;
    for (size_t i = 0; i < LS_ARRAY_LEN(crowd); i++)
        (void)close(crowd[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    raw_fini(&raw);
}

static void a_listener_that_ran_out_of_descriptors_recovers(void **state)
{
    struct rlimit before;
    struct rlimit few;
    struct raw raw;
    int fds[8];

    (void)state;
    raw_init(&raw);
    rig_listen(&raw.rig);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)dup(0) + LS_ARRAY_LEN(fds) + 4; /* the lowest one that is free */
    (void)close((int)(few.rlim_cur - LS_ARRAY_LEN(fds) - 4));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++)
        fds[i] = raw_connect_ipc(&raw.rig);
    rig_run_ms(&raw.rig, 100); /* four are accepted, four wait */
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    rig_dial(&raw.rig, "honest", "boot-h");
    rig_until(&raw.rig, rig_both_up);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    raw_fini(&raw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_shown_out),
        cmocka_unit_test(a_foreign_version_is_refused_by_name),
        cmocka_unit_test(a_hello_that_cannot_be_is_refused),
        cmocka_unit_test(an_agent_that_forgot_the_session_is_refused),
        cmocka_unit_test(a_hello_in_many_pieces_is_as_good_as_one),
        cmocka_unit_test(agents_gone_mad_lose_their_connection_and_it_is_said_why),
        cmocka_unit_test(a_report_that_comes_twice_takes_effect_once),
        cmocka_unit_test(an_agent_that_never_reads_is_cut_off),
        cmocka_unit_test(a_storm_of_strangers_leaves_nothing_behind),
        cmocka_unit_test(a_storm_of_resets_over_tcp_leaves_nothing_behind),
        cmocka_unit_test(mute_connections_do_not_stay),
        cmocka_unit_test(a_host_that_takes_all_leaves_room_for_others),
        cmocka_unit_test(a_listener_that_ran_out_of_descriptors_recovers),
    };
    return cmocka_run_group_tests_name("common.transport_hostile", tests, NULL, NULL);
}
