/* Peers that do not keep to the protocol: strangers at the listener's socket, agents gone mad, and
 * something else than a coordinator behind the dialled address. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/common/transport_rig.h"

struct raw {        /* a test with a socket of its own at one end */
    struct rig rig; /* first: conditions get it */
    int listening;
    int fd;
    unsigned char got[4096];
    size_t got_len;
    bool closed;
    void (*answer)(int fd); /* of the false coordinator, to HELLO */
    unsigned accepted;
};

static void raw_init(struct raw *raw)
{
    *raw = (struct raw){ .fd = -1, .listening = -1 };
    rig_init(&raw->rig);
}

static void raw_fini(struct raw *raw)
{
    if (raw->fd >= 0)
        (void)close(raw->fd);
    if (raw->listening >= 0) {
        (void)close(raw->listening);
        (void)unlink(raw->rig.url + strlen("ipc://"));
    }
    rig_fini(&raw->rig);
}

static struct sockaddr_un unix_address(const struct rig *rig)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };

    (void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", rig->url + strlen("ipc://"));
    return sun;
}

static int connect_ipc(const struct rig *rig)
{
    struct sockaddr_un sun = unix_address(rig);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&sun, sizeof(sun)), 0);
    return fd;
}

static int connect_tcp(const struct rig *rig)
{
    struct sockaddr_in sin = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sin.sin_port =
        htons((uint16_t)strtoul(strrchr(ls_listener_url(rig->listener), ':') + 1, NULL, 10));
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&sin, sizeof(sin)), 0);
    return fd;
}

/* The other end may have closed already: what comes of it is the test's matter. */
static void send_bytes(int fd, const void *data, size_t len)
{
    (void)!send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_envelope(int fd, Ls__Envelope *envelope)
{
    static unsigned char bytes[65536];
    size_t len = ls__envelope__get_packed_size(envelope);

    assert_true(len + LS_FRAME_HEAD <= sizeof(bytes));
    for (unsigned i = 0; i < LS_FRAME_HEAD; i++)
        bytes[i] = (unsigned char)(len >> (8 * i));
    (void)ls__envelope__pack(envelope, bytes + LS_FRAME_HEAD);
    send_bytes(fd, bytes, LS_FRAME_HEAD + len);
}

static char run_1[] = "run-1";
static char run_2[] = "run-2";

static Ls__Envelope envelope_of(char *run_id, uint64_t seq)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;

    envelope.version = LS_WIRE_VERSION;
    envelope.run_id = run_id;
    envelope.seq = seq;
    return envelope;
}

static void send_hello_as(int fd, uint32_t version, uint64_t next_seq, uint64_t commands_done)
{
    static char agent[] = "client-1";
    static char boot[] = "boot-a";
    static char none[] = "";
    Ls__Envelope envelope = envelope_of(none, 0);
    Ls__Hello hello = LS__HELLO__INIT;

    envelope.version = version;
    hello.agent = agent;
    hello.boot_id = boot;
    hello.next_seq = next_seq;
    hello.commands_done = commands_done;
    envelope.body_case = LS__ENVELOPE__BODY_HELLO;
    envelope.hello = &hello;
    send_envelope(fd, &envelope);
}

static void send_hello(int fd)
{
    send_hello_as(fd, LS_WIRE_VERSION, 1, 0);
}

static void send_ping(int fd, char *run_id, uint64_t seq)
{
    Ls__Envelope envelope = envelope_of(run_id, seq);
    Ls__Ping ping = LS__PING__INIT;

    envelope.body_case = LS__ENVELOPE__BODY_PING;
    envelope.ping = &ping;
    send_envelope(fd, &envelope);
}

static void send_ack(int fd, uint64_t seq)
{
    Ls__Envelope envelope = envelope_of(run_1, 0);
    Ls__Ack ack = LS__ACK__INIT;

    ack.seq = seq;
    envelope.body_case = LS__ENVELOPE__BODY_ACK;
    envelope.ack = &ack;
    send_envelope(fd, &envelope);
}

static void send_report(int fd, uint64_t seq)
{
    Ls__Envelope envelope = envelope_of(run_1, seq);
    Ls__TargetLog log = LS__TARGET_LOG__INIT;

    log.offset = seq;
    envelope.body_case = LS__ENVELOPE__BODY_TARGET_LOG;
    envelope.target_log = &log;
    send_envelope(fd, &envelope);
}

static void send_command(int fd, uint64_t seq)
{
    Ls__Envelope envelope = envelope_of(run_1, seq);
    Ls__PutFile file = LS__PUT_FILE__INIT;

    file.offset = seq;
    envelope.body_case = LS__ENVELOPE__BODY_PUT_FILE;
    envelope.put_file = &file;
    send_envelope(fd, &envelope);
}

static void send_welcome(int fd, char *run_id, uint64_t last_acked)
{
    Ls__Envelope envelope = envelope_of(run_id, 0);
    Ls__Welcome welcome = LS__WELCOME__INIT;

    welcome.last_acked_seq = last_acked;
    envelope.body_case = LS__ENVELOPE__BODY_WELCOME;
    envelope.welcome = &welcome;
    send_envelope(fd, &envelope);
}

static void send_clock_reply(int fd, uint64_t id)
{
    Ls__Envelope envelope = envelope_of(run_1, 0);
    Ls__ClockReply reply = LS__CLOCK_REPLY__INIT;

    reply.id = id;
    envelope.body_case = LS__ENVELOPE__BODY_CLOCK_REPLY;
    envelope.clock_reply = &reply;
    send_envelope(fd, &envelope);
}

static void send_bomb(int fd)
{
    enum { MEMBERS = 60000 };
    static unsigned char bytes[2 * MEMBERS + 32] = "\x08\x01\x12\x05run-1\x18\x01\xca\x02";
    size_t at = 13;
    unsigned char head[LS_FRAME_HEAD];

    for (uint32_t left = 2 * MEMBERS; left > 0; left >>= 7) /* the length of IntervalReport */
        bytes[at++] = (unsigned char)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
    for (unsigned i = 0; i < MEMBERS; i++) { /* so many empty WorkerHealth */
        bytes[at++] = 15 << 3 | 2;
        bytes[at++] = 0;
    }
    for (unsigned i = 0; i < LS_FRAME_HEAD; i++)
        head[i] = (unsigned char)(at >> (8 * i));
    send_bytes(fd, head, sizeof(head));
    send_bytes(fd, bytes, at);
}

/* Reads what there is; true once the other end has closed. */
static bool was_closed(struct rig *rig)
{
    struct raw *raw = (struct raw *)rig;
    ssize_t n;

    do {
        n = recv(raw->fd, raw->got + raw->got_len, sizeof(raw->got) - raw->got_len, MSG_DONTWAIT);
        if (n > 0)
            raw->got_len += (size_t)n;
    } while (n > 0);
    raw->closed = n == 0 || errno == ECONNRESET;
    return raw->closed;
}

static bool is_enrolled(struct rig *rig)
{
    return rig->peer_ups > 0;
}

static bool is_down(struct rig *rig)
{
    return rig->peer_downs > 0;
}

/* ---- strangers at the listener ---- */

static void say_garbage(int fd)
{
    send_bytes(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35);
}

static void say_oversize(int fd)
{
    send_bytes(fd, "\x01\x00\x10\x00", 4); /* 1 MiB + 1 */
}

static void say_empty_frame(int fd)
{
    send_bytes(fd, "\0\0\0\0", 4);
}

static void say_ping_first(int fd)
{
    send_ping(fd, run_1, 0);
}

static void say_report_first(int fd)
{
    send_report(fd, 1);
}

static void say_half_a_frame(int fd)
{
    send_bytes(fd, "\x40\0\0\0half", 8);
}

static void say_nothing(int fd)
{
    (void)fd;
}

static void say_bomb(int fd)
{
    send_bomb(fd);
}

static void strangers_are_shown_out(void **state)
{
    static void (*const say[])(int fd) = {
        say_garbage,      say_oversize,     say_empty_frame, say_ping_first,
        say_report_first, say_half_a_frame, say_nothing,     say_bomb,
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(say); i++) {
        struct raw raw;

        raw_init(&raw);
        rig_listen(&raw.rig);
        raw.fd = connect_ipc(&raw.rig);
        say[i](raw.fd);
        rig_until(&raw.rig, was_closed);
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

    rig_until(&raw->rig, was_closed); /* it is given time to read first */
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
    raw.fd = connect_ipc(&raw.rig);
    send_hello_as(raw.fd, 7, 1, 0);
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
        raw.fd = connect_ipc(&raw.rig);
        send_hello_as(raw.fd, LS_WIRE_VERSION, cases[i].next_seq, cases[i].commands_done);
        expect_refusal(&raw, cases[i].code, "");
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
    raw.fd = connect_ipc(&raw.rig);
    send_hello(raw.fd);
    send_report(raw.fd, 1);
    rig_until(&raw.rig, one_report);
    (void)close(raw.fd);
    rig_until(&raw.rig, is_down);
    raw.fd = connect_ipc(&raw.rig);
    send_hello(raw.fd); /* its next report is number 1 again */
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
    send_hello(pair[0]);
    len = recv(pair[1], bytes, sizeof(bytes), 0);
    (void)close(pair[0]);
    (void)close(pair[1]);
    assert_true(len > 10);
    rig_listen(&raw.rig);
    raw.fd = connect_ipc(&raw.rig);
    for (ssize_t i = 0; i < len; i++) {
        send_bytes(raw.fd, bytes + i, 1);
        rig_run_ms(&raw.rig, 1);
    }
    rig_until(&raw.rig, is_enrolled);
    raw_fini(&raw);
}

/* ---- agents gone mad ---- */

static void mad_command(int fd)
{
    send_command(fd, 1);
}

static void mad_welcome(int fd)
{
    send_welcome(fd, run_1, 0);
}

static void mad_hello(int fd)
{
    send_hello(fd);
}

static void mad_run(int fd)
{
    send_ping(fd, run_2, 0);
}

static void mad_gap(int fd)
{
    send_report(fd, 1);
    send_report(fd, 3);
}

static void mad_ack(int fd)
{
    send_ack(fd, 5);
}

static void mad_clock(int fd)
{
    send_clock_reply(fd, 3);
}

static void mad_numbered_ping(int fd)
{
    send_ping(fd, run_1, 4);
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
        { say_garbage, "a frame of 542393671 bytes" },
        { say_oversize, "a frame of 1048577 bytes; 1 to 1048576 are taken" },
        { say_empty_frame, "a frame of 0 bytes" },
        { say_bomb, "unpacks to too much" },
        { say_half_a_frame, "no sign of life" },
        { say_nothing, "no sign of life" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct raw raw;

        raw_init(&raw);
        rig_listen(&raw.rig);
        raw.fd = connect_ipc(&raw.rig);
        send_hello(raw.fd);
        rig_until(&raw.rig, is_enrolled);
        cases[i].say(raw.fd);
        rig_until(&raw.rig, is_down);
        if (strstr(raw.rig.last_why, cases[i].why) == NULL)
            fail_msg("case %zu: \"%s\" instead of \"%s\"", i, raw.rig.last_why, cases[i].why);
        rig_until(&raw.rig, was_closed);
        raw_fini(&raw);
    }
}

static bool got_a_third_frame(struct rig *rig)
{
    struct raw *raw = (struct raw *)rig;

    (void)was_closed(rig);
    return raw->got_len >= 60; /* WELCOME and two acknowledgements have about 20 bytes each */
}

static void a_report_that_comes_twice_takes_effect_once(void **state)
{
    struct raw raw;

    (void)state;
    raw_init(&raw);
    rig_listen(&raw.rig);
    raw.fd = connect_ipc(&raw.rig);
    send_hello(raw.fd);
    send_report(raw.fd, 1);
    rig_until(&raw.rig, one_report);
    rig_run_ms(&raw.rig, 10);
    send_report(raw.fd, 1);
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
    raw.fd = connect_ipc(&raw.rig);
    send_hello(raw.fd);
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
    send_hello(fd);
    reset(fd);
}

static void hello_garbage_and_die(int fd)
{
    send_hello(fd);
    say_garbage(fd);
}

static void half_and_reset(int fd)
{
    say_half_a_frame(fd);
    reset(fd);
}

static void storm(struct raw *raw, int (*connect_to)(const struct rig *rig), unsigned connections)
{
    static void (*const acts[])(int fd) = {
        say_garbage,   say_oversize,          reset,          say_half_a_frame, say_nothing,
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
    survive_a_storm(NULL, connect_ipc);
}

static void a_storm_of_resets_over_tcp_leaves_nothing_behind(void **state)
{
    (void)state;
    survive_a_storm("tcp://127.0.0.1:0", connect_tcp);
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
        fds[i] = connect_ipc(&raw.rig);
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
        fds[i] = connect_ipc(&raw.rig);
    rig_run_ms(&raw.rig, 100); /* four are accepted, four wait */
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    rig_dial(&raw.rig, "honest", "boot-h");
    rig_until(&raw.rig, rig_both_up);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    raw_fini(&raw);
}

/* ---- something else than a coordinator ---- */

static void raw_listen(struct raw *raw)
{
    struct sockaddr_un sun = unix_address(&raw->rig);

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
        if (was_closed(&raw->rig)) {
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
    return raw->fd >= 0 && raw->got_len > 0 && was_closed(rig);
}

static void answer_command(int fd)
{
    send_command(fd, 1);
}

static void answer_new_version(int fd)
{
    Ls__Envelope envelope = envelope_of(run_1, 0);
    Ls__Welcome welcome = LS__WELCOME__INIT;

    envelope.version = 9;
    envelope.body_case = LS__ENVELOPE__BODY_WELCOME;
    envelope.welcome = &welcome;
    send_envelope(fd, &envelope);
}

static void answer_too_many_acked(int fd)
{
    send_welcome(fd, run_1, 1);
}

static void answer_report(int fd)
{
    send_welcome(fd, run_1, 0);
    send_report(fd, 1);
}

static void answer_two_welcomes(int fd)
{
    send_welcome(fd, run_1, 0);
    send_welcome(fd, run_1, 0);
}

static void answer_gap(int fd)
{
    send_welcome(fd, run_1, 0);
    send_command(fd, 2);
}

static void answer_run(int fd)
{
    send_welcome(fd, run_1, 0);
    send_ping(fd, run_2, 0);
}

static void answer_no_run(int fd)
{
    static char none[] = "";

    send_welcome(fd, none, 0);
}

static void answer_long_run(int fd)
{
    static char name[LS_NAME_MAX_BYTES + 2];

    memset(name, 'x', sizeof(name) - 1);
    send_welcome(fd, name, 0);
}

static void answer_oversize(int fd)
{
    send_bytes(fd, "\x01\x00\x40\x00", 4); /* 4 MiB + 1 */
}

static void answer_probes(int fd)
{
    send_welcome(fd, run_1, 0);
    for (unsigned i = 0; i < 100; i++) {
        Ls__Envelope envelope = envelope_of(run_1, 0);
        Ls__ClockProbe probe = LS__CLOCK_PROBE__INIT;

        probe.id = i;
        envelope.body_case = LS__ENVELOPE__BODY_CLOCK_PROBE;
        envelope.clock_probe = &probe;
        send_envelope(fd, &envelope);
    }
}

static void an_agent_leaves_what_is_no_coordinator(void **state)
{
    static const struct {
        void (*answer)(int fd);
        const char *why;
        const char *refused; /* code; NULL: it dials again */
    } cases[] = {
        { say_garbage, "a frame of 542393671 bytes", NULL },
        { say_empty_frame, "a frame of 0 bytes", NULL },
        { answer_oversize, "a frame of 4194305 bytes", NULL },
        { say_nothing, "no greeting in time", NULL },
        { say_half_a_frame, "no greeting in time", NULL },
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

    send_welcome(fd, visits++ == 0 ? run_1 : run_2, 0);
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
        cmocka_unit_test(a_listener_that_ran_out_of_descriptors_recovers),
        cmocka_unit_test(an_agent_leaves_what_is_no_coordinator),
        cmocka_unit_test(an_agent_does_not_follow_its_address_into_another_run),
    };
    return cmocka_run_group_tests_name("common.transport_hostile", tests, NULL, NULL);
}
