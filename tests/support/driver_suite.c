#include "tests/support/driver_suite.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/failmalloc.h"
#include "tests/support/test.h"

enum { BYTES_MAX = 1 << 16 };

/* Many at once: by submit_all() and done_alike()? All of the suite is run without and with them. */
static bool at_once;

/* One connection and what became of its operations. */
struct life {
    const struct driver_suite *suite;
    const struct agent_driver *driver;
    struct agent_driver_env env;
    struct ls_rng rng;
    struct load_messages messages;
    void *conn;
    uint32_t most;      /* in flight */
    uint32_t submitted; /* operations are numbered from 0 */
    uint32_t sent;
    uint32_t ended; /* in order, so the next to end has this number */
    uint32_t ok;
    uint32_t refill; /* so many further operations are submitted from within done() */
    bool closed;
    struct agent_reply last;
};

static void submit_one(struct life *life)
{
    uint32_t op = life->submitted;
    enum ls_err rc;

    /* It may end before submit() returns. */
    life->submitted++;
    rc = life->driver->submit(life->conn, op, op);
    assert_int_equal(rc, LS_OK);
}

static void on_done(void *ctx, uint32_t op, const struct agent_reply *reply)
{
    struct life *life = ctx;

    assert_false(life->closed);
    assert_int_equal(op, life->ended); /* once, and in order */
    assert_true(op < life->submitted);
    assert_true(reply->outcome < LOAD_OUTCOME_COUNT);
    assert_non_null(reply->why);
    assert_int_equal(reply->outcome == LOAD_OK, reply->why[0] == '\0');
    life->ended++;
    life->ok += reply->outcome == LOAD_OK;
    life->last = *reply;
    if (life->refill > 0) {
        life->refill--;
        submit_one(life);
    }
}

static void on_done_alike(void *ctx, const uint32_t *ops, uint32_t count,
                          const struct agent_reply *reply)
{
    assert_true(count > 0);
    assert_true(reply->outcome == LOAD_OK);
    for (uint32_t i = 0; i < count; i++)
        on_done(ctx, ops[i], reply);
}

/* What a flawless peer sends; the driver may have something to say to that. */
static void feed_well(struct life *life, struct ls_bytes in)
{
    enum ls_err rc = life->driver->feed(life->conn, in);

    assert_true(rc == LS_OK || rc == LS_EAGAIN);
}

/* What the driver has to say before its first operation, and the peer's answer, byte by byte. */
static void greet(struct life *life)
{
    static uint8_t out[BYTES_MAX];
    static uint8_t in[BYTES_MAX];
    size_t len = 0;
    size_t n;

    do {
        n = life->driver->drain(life->conn, out + len, 7, NULL);
        len += n;
    } while (n > 0);
    assert_int_equal(life->driver->greeting(life->conn), AGENT_GREETS);
    len = life->suite->greet((struct ls_bytes){ out, len }, in);
    for (size_t at = 0; at < len; at++)
        feed_well(life, (struct ls_bytes){ in + at, 1 });
    assert_int_equal(life->driver->greeting(life->conn), AGENT_READY);
}

static void life_begin(struct life *life, const struct driver_suite *suite)
{
    *life = (struct life){ .suite = suite, .driver = agent_driver_find(suite->driver) };
    assert_non_null(life->driver);
    ls_rng_init(&life->rng, 1, 0);
    life->env = (struct agent_driver_env){ .workload = suite->workload,
                                           .done = on_done,
                                           .done_alike = at_once ? on_done_alike : NULL,
                                           .ctx = life,
                                           .rng = &life->rng,
                                           .messages = &life->messages };
    life->conn = calloc(1, life->driver->conn_size + 1);
    assert_non_null(life->conn);
    assert_int_equal(life->driver->open(life->conn, &life->env, &life->most), LS_OK);
    assert_true(life->most >= 1);
    if (life->driver->greeting != NULL)
        greet(life);
}

static void life_end(struct life *life)
{
    life->driver->close(life->conn);
    life->closed = true;
    free(life->conn);
}

/* Takes all that is to be sent, at most step bytes at once. */
static size_t drain_all(struct life *life, uint8_t *out, size_t step)
{
    size_t len = 0;
    size_t n;

    do {
        n = life->driver->drain(life->conn, out + len, step, &life->sent);
        assert_true(n <= step);
        len += n;
        assert_true(len + step < BYTES_MAX);
    } while (n > 0);
    return len;
}

/* The answers to operations from on, as the peer sends them. */
static size_t answers(const struct driver_suite *suite, uint32_t from, uint32_t count, uint8_t *out)
{
    size_t len = 0;

    for (uint32_t i = from; i < from + count; i++) {
        struct ls_bytes answer = suite->answer(i % suite->workload->request_count, i);

        assert_true(len + answer.len < BYTES_MAX);
        if (answer.len > 0)
            memcpy(out + len, answer.data, answer.len);
        len += answer.len;
    }
    return len;
}

static void submit_all(struct life *life)
{
    uint32_t ops[BYTES_MAX / 16];

    if (!at_once || life->driver->submit_all == NULL) {
        for (uint32_t i = 0; i < life->most; i++)
            submit_one(life);
        return;
    }
    assert_true(life->most < LS_ARRAY_LEN(ops));
    for (uint32_t i = 0; i <= life->most; i++)
        ops[i] = life->submitted + i;
    assert_int_equal(life->driver->submit_all(life->conn, ops, life->most + 1, ops[0]), life->most);
    life->submitted += life->most;
}

static void a_well_formed_life(const struct driver_suite *suite, size_t drain_step,
                               size_t feed_step)
{
    static uint8_t out[BYTES_MAX];
    static uint8_t in[BYTES_MAX];
    struct life life;

    life_begin(&life, suite);
    for (uint32_t round = 0; round < 3; round++) {
        size_t len;

        submit_all(&life);
        if (life.ended < life.submitted) /* none has ended: full */
            assert_int_equal(life.driver->submit(life.conn, 77, 77), LS_EAGAIN);
        (void)drain_all(&life, out, drain_step);
        len = answers(suite, life.submitted - life.most, life.most, in);
        for (size_t at = 0; at < len; at += feed_step) {
            size_t n = len - at < feed_step ? len - at : feed_step;

            feed_well(&life, (struct ls_bytes){ in + at, n });
        }
        assert_int_equal(life.ended, life.submitted);
        assert_int_equal(life.ok, life.submitted);
    }
    if (life.sent > 0)
        assert_int_equal(life.sent, life.submitted);
    life_end(&life);
}

static void sent_bytes_do_not_depend_on_the_room(const struct driver_suite *suite)
{
    static uint8_t whole[BYTES_MAX];
    static uint8_t pieces[BYTES_MAX];
    struct life life;
    size_t len;

    life_begin(&life, suite);
    submit_all(&life);
    len = drain_all(&life, whole, BYTES_MAX / 2);
    life_end(&life);
    for (size_t step = 1; step < 20; step++) {
        life_begin(&life, suite);
        submit_all(&life);
        assert_int_equal(drain_all(&life, pieces, step), len);
        assert_memory_equal(pieces, whole, len);
        life_end(&life);
    }
}

/* After so many bytes sent and received, the connection ends. */
static void end_at(const struct driver_suite *suite, size_t sent, size_t received,
                   enum load_outcome how)
{
    static uint8_t out[BYTES_MAX];
    static uint8_t in[BYTES_MAX];
    struct life life;
    size_t len;

    life_begin(&life, suite);
    submit_all(&life);
    if (sent > 0)
        (void)life.driver->drain(life.conn, out, sent, &life.sent);
    len = answers(suite, 0, life.most, in);
    if (received > 0 && len > 0)
        (void)life.driver->feed(life.conn,
                                (struct ls_bytes){ in, received < len ? received : len });
    life.driver->eof(life.conn, how);
    assert_int_equal(life.ended, life.submitted); /* each exactly once: see on_done() */
    if (life.ok < life.submitted)
        assert_true(life.last.outcome == how);
    assert_int_equal(life.driver->drain(life.conn, out, BYTES_MAX, NULL), 0);
    life.driver->eof(life.conn, how); /* nothing is left to end */
    life_end(&life);
}

static void each_operation_ends_once_wherever_the_connection_does(const struct driver_suite *suite)
{
    static uint8_t bytes[BYTES_MAX];
    struct life life;
    size_t to_send;
    size_t to_receive;

    life_begin(&life, suite);
    submit_all(&life);
    to_send = drain_all(&life, bytes, BYTES_MAX / 2);
    to_receive = answers(suite, 0, life.most, bytes);
    life_end(&life);
    for (size_t sent = 0; sent <= to_send; sent++)
        end_at(suite, sent, 0, LOAD_RESET);
    for (size_t received = 0; received <= to_receive; received++) {
        end_at(suite, to_send, received, LOAD_CLOSED_EARLY);
        end_at(suite, to_send, received, LOAD_TIMEOUT);
    }
}

static void close_is_silent_at_any_time(const struct driver_suite *suite)
{
    static uint8_t out[BYTES_MAX];
    static uint8_t in[BYTES_MAX];
    size_t len = answers(suite, 0, 1, in);
    struct life life;

    for (size_t received = 0; received < len; received++) {
        uint32_t ended;

        life_begin(&life, suite);
        submit_all(&life);
        (void)drain_all(&life, out, BYTES_MAX / 2);
        (void)life.driver->feed(life.conn, (struct ls_bytes){ in, received });
        ended = life.ended;
        life_end(&life);
        assert_int_equal(life.ended, ended);
    }
    life_begin(&life, suite);
    life.driver->close(life.conn);
    life_end(&life); /* twice */
}

static void done_may_submit(const struct driver_suite *suite)
{
    static uint8_t out[BYTES_MAX];
    static uint8_t in[BYTES_MAX];
    struct life life;

    life_begin(&life, suite);
    life.refill = 50;
    submit_one(&life);
    for (unsigned i = 0; i < 60 && life.ended < 51; i++) {
        size_t len;

        (void)drain_all(&life, out, BYTES_MAX / 2);
        len = answers(suite, life.ended, 1, in);
        feed_well(&life, (struct ls_bytes){ in, len });
    }
    assert_int_equal(life.submitted, 51);
    assert_int_equal(life.ok, 51);
    life_end(&life);
}

static void open_once(void *ctx)
{
    const struct driver_suite *suite = ctx;
    const struct agent_driver *driver = agent_driver_find(suite->driver);
    static unsigned char conn[4096];
    struct ls_rng rng = { { 1, 2 }, { 3, 4 } };
    struct agent_driver_env env = { .workload = suite->workload, .done = on_done, .rng = &rng };
    uint32_t most = 0;
    enum ls_err rc;

    assert_true(driver->conn_size <= sizeof(conn));
    memset(conn, 0, sizeof(conn));
    rc = driver->open(conn, &env, &most);
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    driver->close(conn);
}

static void run_lives(const struct driver_suite *suite)
{
    a_well_formed_life(suite, BYTES_MAX / 2, BYTES_MAX);
    a_well_formed_life(suite, 1, BYTES_MAX);
    for (size_t step = 1; step < 8; step++)
        a_well_formed_life(suite, 7, step);
    sent_bytes_do_not_depend_on_the_room(suite);
    each_operation_ends_once_wherever_the_connection_does(suite);
    close_is_silent_at_any_time(suite);
    done_may_submit(suite);
}

void driver_suite_run(const struct driver_suite *suite)
{
    struct driver_suite copy = *suite;
    struct ls_diag diag = { .text = "" };
    const struct agent_driver *driver = agent_driver_find(suite->driver);

    assert_non_null(driver);
    if (driver->check(suite->workload, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    at_once = false;
    run_lives(suite);
    at_once = true;
    run_lives(suite);
    (void)failmalloc_each(open_once, &copy); /* a driver may well allocate nothing */
}
