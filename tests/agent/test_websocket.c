/* The WebSocket driver where frames meet at a bad moment, and rooms that somebody has left. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/driver.h"
#include "agent/load/ws_handshake.h"

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }
#define KEY_PLACE "AAAAAAAAAAAAAAAAAAAAAA=="
#define HELLO     "Hello, World! It is me."

enum { MEMBERS = 2, OPS = 4, OUT_BYTES = 512 };

static const struct load_room without_echo = { .named = true, .between = BYTES(": ") };
static const struct load_request hello = {
    .bytes = BYTES(HELLO), .label = "hello", .expect_body = BYTES(HELLO), .expect_body_given = true
};

struct talk {
    const struct agent_driver *driver;
    struct load_websocket websocket;
    struct load_workload workload;
    struct agent_driver_env env;
    struct ls_rng rng;
    struct load_messages messages;
    void *conns[MEMBERS]; /* owned */
    void *shared;         /* owned */
    unsigned ended[OPS];
    enum load_outcome outcomes[OPS];
};

static void on_done(void *ctx, uint32_t op, const struct agent_reply *reply)
{
    struct talk *talk = ctx;

    assert_true(op < OPS);
    talk->ended[op]++;
    talk->outcomes[op] = reply->outcome;
}

static int64_t due(void *ctx, uint32_t op)
{
    (void)ctx;
    return 64 * (int64_t)op;
}

static void delivered(void *ctx, uint64_t due_ns)
{
    (void)ctx;
    (void)due_ns;
}

static enum ls_err feed(struct talk *talk, unsigned conn, const void *data, size_t len)
{
    return talk->driver->feed(talk->conns[conn], (struct ls_bytes){ data, len });
}

static size_t drain(struct talk *talk, unsigned conn, uint8_t *out, size_t cap)
{
    return talk->driver->drain(talk->conns[conn], out, cap, NULL);
}

/* Opens a connection and agrees with it. */
static void agree(struct talk *talk, unsigned conn)
{
    char accept[WS_ACCEPT_BYTES];
    char answer[300];
    uint8_t asked[64];
    uint32_t most;
    int len;

    talk->conns[conn] = calloc(1, talk->driver->conn_size);
    assert_non_null(talk->conns[conn]);
    talk->env.number = conn;
    assert_int_equal(talk->driver->open(talk->conns[conn], &talk->env, &most), LS_OK);
    assert_int_equal(drain(talk, conn, asked, sizeof(asked)), sizeof(KEY_PLACE) - 1);
    ws_accept_of((const char *)asked, accept);
    len = snprintf(answer, sizeof(answer),
                   "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Accept: %.*s\r\n\r\n",
                   (int)sizeof(accept), accept);
    assert_int_equal(feed(talk, conn, answer, (size_t)len), LS_OK);
}

static void begin(struct talk *talk, const struct load_room *room, unsigned conns)
{
    *talk = (struct talk){ .driver = agent_driver_find("websocket"),
                           .websocket = { .handshake = BYTES(KEY_PLACE), .room = room } };
    talk->workload = (struct load_workload){ .driver = "websocket",
                                             .requests = &hello,
                                             .request_count = 1,
                                             .websocket = &talk->websocket,
                                             .pipeline = 2,
                                             .connections = conns,
                                             .workers = 1,
                                             .workers_total = 1 };
    ls_rng_init(&talk->rng, 1, 1);
    talk->env = (struct agent_driver_env){ .workload = &talk->workload,
                                           .done = on_done,
                                           .ctx = talk,
                                           .rng = &talk->rng,
                                           .messages = &talk->messages,
                                           .due = due,
                                           .delivered = delivered };
    assert_int_equal(talk->driver->share(&talk->env, conns, &talk->shared, NULL), LS_OK);
    talk->env.shared = talk->shared;
    for (unsigned i = 0; i < conns; i++)
        agree(talk, i);
}

static void leave(struct talk *talk, unsigned conn, enum load_outcome how)
{
    talk->driver->eof(talk->conns[conn], how);
    talk->driver->close(talk->conns[conn]);
    free(talk->conns[conn]);
    talk->conns[conn] = NULL;
}

static void end(struct talk *talk)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (talk->conns[i] != NULL)
            leave(talk, i, LOAD_CLOSED_EARLY);
    }
    if (talk->shared != NULL)
        talk->driver->balance(talk->shared);
    talk->driver->unshare(talk->shared);
    assert_int_equal(talk->messages.expected, talk->messages.received + talk->messages.lost);
}

/* A ping whose pong has been begun, then the end: the pong has to be finished, and the close frame
 * answered all the same. */
static void a_close_frame_is_answered_behind_a_pong_under_way(void **state)
{
    static const uint8_t close_1000[] = { 0x88, 2, 0x03, 0xe8 };
    uint8_t ping[2 + 125] = { 0x89, 125 };
    struct talk talk;
    uint8_t out[OUT_BYTES];
    size_t len;

    (void)state;
    begin(&talk, NULL, 1);
    assert_int_equal(feed(&talk, 0, ping, sizeof(ping)), LS_EAGAIN);
    len = drain(&talk, 0, out, 3);
    assert_int_equal(len, 3);
    assert_int_equal(feed(&talk, 0, close_1000, sizeof(close_1000)), LS_EAGAIN);
    assert_int_equal(talk.driver->submit(talk.conns[0], 0, 0), LS_ESTATE);
    len += drain(&talk, 0, out + len, sizeof(out) - len);
    assert_int_equal(len, 6 + 125 + 6 + 2);
    assert_int_equal(out[0], 0x8a);
    assert_int_equal(out[131], 0x88);
    assert_int_equal(out[132], 0x82);
    assert_int_equal(out[137] ^ out[133], 0x03);
    assert_int_equal(out[138] ^ out[134], 0xe8);
    end(&talk);
}

/* One that fills what can be sent to the last byte is no longer under way. */
static void a_ping_behind_a_pong_that_has_left_is_answered(void **state)
{
    static const uint8_t ping[] = { 0x89, 1, 'a' };
    struct talk talk;
    uint8_t out[OUT_BYTES];

    (void)state;
    begin(&talk, NULL, 1);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(feed(&talk, 0, ping, sizeof(ping)), LS_EAGAIN);
        assert_int_equal(drain(&talk, 0, out, 7), 7);
        assert_int_equal(out[6] ^ out[2], 'a');
    }
    assert_int_equal(drain(&talk, 0, out, sizeof(out)), 0);
    end(&talk);
}

/* Where senders do not hear themselves, one whom all others have left is heard by nobody: its
 * operation still ends, once. */
static void what_nobody_can_hear_ends_with_its_connection(void **state)
{
    struct talk talk;
    uint8_t out[OUT_BYTES];

    (void)state;
    begin(&talk, &without_echo, MEMBERS);
    leave(&talk, 1, LOAD_RESET);
    assert_int_equal(talk.driver->submit(talk.conns[0], 0, 0), LS_OK);
    assert_int_equal(talk.driver->submit(talk.conns[0], 1, 1), LS_OK);
    assert_true(drain(&talk, 0, out, sizeof(out)) > 2 * sizeof(HELLO));
    assert_int_equal(talk.ended[0] + talk.ended[1], 0);
    leave(&talk, 0, LOAD_TIMEOUT);
    for (unsigned op = 0; op < 2; op++) {
        assert_int_equal(talk.ended[op], 1);
        assert_int_equal(talk.outcomes[op], LOAD_TIMEOUT);
    }
    end(&talk);
}

static void a_thread_of_one_who_does_not_hear_itself_is_refused(void **state)
{
    struct ls_diag diag = { 0 };
    struct talk talk;
    void *shared = NULL;

    (void)state;
    begin(&talk, &without_echo, MEMBERS);
    talk.workload.workers_total = talk.workload.workers = 2;
    assert_int_equal(talk.driver->share(&talk.env, 1, &shared, &diag), LS_EINVAL);
    assert_null(shared);
    assert_non_null(strstr(diag.text, "2 for 2 threads are too few"));
    talk.workload.workers_total = talk.workload.workers = 1;
    end(&talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_close_frame_is_answered_behind_a_pong_under_way),
        cmocka_unit_test(a_ping_behind_a_pong_that_has_left_is_answered),
        cmocka_unit_test(what_nobody_can_hear_ends_with_its_connection),
        cmocka_unit_test(a_thread_of_one_who_does_not_hear_itself_is_refused),
    };

    return cmocka_run_group_tests_name("agent.websocket", tests, NULL, NULL);
}
