/* The http1 driver: what becomes of each operation, whatever the server does. The parser has its
 * own test, test_http1_golden.c. */
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/load/driver.h"
#include "tests/support/guard.h"

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }
#define OK_HEAD  "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n"
#define OK       OK_HEAD "Hello, World!"
#define OK_CLOSE "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\nHello, World!"
#define CHUNKED  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

#define ZIP_HEAD "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 33\r\n\r\n"
/* "Hello, World!" as gzip */
#define ZIP                                                                    \
    "\037\213\010\000\000\000\000\000\002\003\363\110\315\311\311\327\121\010" \
    "\317\057\312\111\121\004\000\320\303\112\354\015\000\000\000"

enum { LOG_BYTES = 1024, NONE = LOAD_OUTCOME_COUNT };

enum { GET, HEAD, ANY, LAST, EMPTY, ZIPPED, REQUESTS };

static const struct load_request requests[REQUESTS] = {
    [GET] = { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
              .label = "GET /",
              .expect_status = 200,
              .expect_body_given = true,
              .expect_body = BYTES("Hello, World!") },
    [HEAD] = { .bytes = BYTES("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"),
               .label = "HEAD /",
               .no_body = true,
               .expect_status = 200 },
    [ANY] = { .bytes = BYTES("GET /any HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "GET /any" },
    [LAST] = { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
               .label = "GET /",
               .closes = true },
    [EMPTY] = { .bytes = BYTES("GET /empty HTTP/1.1\r\nHost: x\r\n\r\n"),
                .label = "GET /empty",
                .expect_body_given = true },
    [ZIPPED] = { .bytes = BYTES("GET /zip HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"),
                 .label = "GET /zip",
                 .expect_body_given = true,
                 .expect_body = BYTES("Hello, World!"),
                 .gunzip = true },
};

static const struct load_workload workload = { .driver = "http1",
                                               .requests = requests,
                                               .request_count = REQUESTS,
                                               .gunzips = true,
                                               .pipeline = 4 };

struct talk {
    unsigned char conn[1024];
    struct agent_driver_env env;
    const struct agent_driver *driver;
    char log[LOG_BYTES];
    size_t log_len;
};

static const char *const outcomes[LOAD_OUTCOME_COUNT] = { "ok",           "bad_status", "bad_body",
                                                          "bad_framing",  "timeout",    "reset",
                                                          "closed_early", "tls_error",  "aborted" };

static void say(struct talk *talk, const char *text)
{
    talk->log_len += (size_t)snprintf(talk->log + talk->log_len, LOG_BYTES - talk->log_len, "%s%s",
                                      talk->log_len > 0 ? "; " : "", text);
    assert_true(talk->log_len < LOG_BYTES);
}

static void on_done(void *ctx, uint32_t op, const struct agent_reply *reply)
{
    char text[160];
    char at[32] = "";

    if (reply->outcome == LOAD_BAD_BODY)
        (void)snprintf(at, sizeof(at), " at %" PRIu64, reply->mismatch_at);
    (void)snprintf(text, sizeof(text), "%" PRIu32 " %s %u %" PRIu64 "%s%s%s", op,
                   outcomes[reply->outcome], reply->status, reply->body_bytes, at,
                   reply->why[0] != '\0' ? ": " : "", reply->why);
    say(ctx, text);
}

static void talk_begin(struct talk *talk, const struct load_workload *load)
{
    uint32_t most = 0;

    memset(talk, 0, sizeof(*talk));
    talk->env = (struct agent_driver_env){ .workload = load, .done = on_done, .ctx = talk };
    talk->driver = agent_driver_find("http1");
    assert_non_null(talk->driver);
    assert_true(talk->driver->conn_size <= sizeof(talk->conn));
    assert_int_equal(talk->driver->open(talk->conn, &talk->env, &most), LS_OK);
    assert_int_equal(most, load->pipeline);
}

struct scene {
    const char *
        asked; /* letters: g GET, h HEAD, a ANY, l LAST, e EMPTY, z ZIPPED; capital: not sent yet */
    struct ls_bytes in;
    unsigned end; /* enum load_outcome for eof(), or NONE */
    const char *log;
};

static void ask(struct talk *talk, const char *asked)
{
    static const char letters[] = "ghalez";
    uint32_t op = 0;
    bool unsent = false;

    for (const char *c = asked; *c != '\0'; c++) {
        unsigned char out[256];
        bool later = *c >= 'A' && *c <= 'Z';
        const char *at = strchr(letters, later ? *c + ('a' - 'A') : *c);

        assert_non_null(at);
        assert_int_equal(talk->driver->submit(talk->conn, op++, (uint32_t)(at - letters)), LS_OK);
        assert_false(unsent && !later);
        unsent = later;
        if (!later) {
            uint32_t ops = 0;

            assert_true(talk->driver->drain(talk->conn, out, sizeof(out), &ops) > 0);
            assert_int_equal(ops, 1);
        }
    }
}

static const char *rc_text(enum ls_err rc)
{
    return rc == LS_ECLOSED ? "closed" : rc == LS_EPROTO ? "broken" : "?";
}

/* The bytes in two pieces, or one by one if at is more than there are. */
static void play(const struct scene *scene, size_t at, struct guard *guard, struct talk *talk)
{
    enum ls_err rc = LS_OK;
    size_t from = 0;

    talk_begin(talk, &workload);
    ask(talk, scene->asked);
    while (from < scene->in.len && rc == LS_OK) {
        size_t to = at > scene->in.len ? from + 1 : from < at ? at : scene->in.len;
        struct ls_bytes piece = { scene->in.data + from, to - from };

        rc = talk->driver->feed(talk->conn, guard_copy(guard, piece));
        from = to;
    }
    if (rc != LS_OK)
        say(talk, rc_text(rc));
    if (scene->end != NONE)
        talk->driver->eof(talk->conn, (enum load_outcome)scene->end);
    talk->driver->close(talk->conn);
}

static const struct scene scenes[] = {
    /* --- good answers --- */
    { "g", BYTES(OK), NONE, "0 ok 200 13" },
    { "gg", BYTES(OK OK), NONE, "0 ok 200 13; 1 ok 200 13" },
    { "g", BYTES("HTTP/1.1 200\nContent-Length: 13\n\nHello, World!"), NONE, "0 ok 200 13" },
    { "g", BYTES(CHUNKED "7\r\nHello, \r\n6\r\nWorld!\r\n0\r\n\r\n"), NONE, "0 ok 200 13" },
    { "g", BYTES("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" OK), NONE, "0 ok 200 13" },
    { "hg", BYTES(OK_HEAD OK), NONE, "0 ok 200 0; 1 ok 200 13" },
    { "ag", BYTES("HTTP/1.1 304 Not Modified\r\nContent-Length: 13\r\n\r\n" OK), NONE,
      "0 ok 304 0; 1 ok 200 13" },
    { "ag", BYTES("HTTP/1.1 204 No Content\r\n\r\n" OK), NONE, "0 ok 204 0; 1 ok 200 13" },
    { "e", BYTES("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), NONE, "0 ok 200 0" },
    { "a", BYTES("HTTP/1.1 399 So So\r\nContent-Length: 1\r\n\r\n!"), NONE, "0 ok 399 1" },
    /* --- coded bodies --- */
    { "zgz", BYTES(ZIP_HEAD ZIP OK ZIP_HEAD ZIP), NONE, "0 ok 200 13; 1 ok 200 13; 2 ok 200 13" },
    { "z",
      BYTES("HTTP/1.1 200 OK\r\nContent-Encoding: identity, x-gzip\r\nTransfer-Encoding: "
            "chunked\r\n\r\n21\r\n" ZIP "\r\n0\r\n\r\n"),
      NONE, "0 ok 200 13" },
    { "zg", BYTES(OK OK), NONE,
      "0 bad_body 200 13 at 13: content-encoding is not gzip, which the plan asks for; 1 ok 200 "
      "13" },
    { "zg",
      BYTES("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 13\r\n\r\nHello, "
            "World!" OK),
      NONE, "0 bad_body 200 0 at 0: the body is not gzip data; 1 ok 200 13" },
    { "zg", BYTES("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n" OK),
      NONE, "0 bad_body 200 0 at 0: the gzip data ends early; 1 ok 200 13" },
    { "z", BYTES("HTTP/1.1 200 OK\r\nContent-Encoding: br, gzip\r\nContent-Length: 0\r\n\r\n"),
      NONE, "0 bad_body 200 0 at 0: content-encoding is not gzip, which the plan asks for" },
    { "gg", BYTES(ZIP_HEAD ZIP OK), NONE,
      "0 bad_body 200 33 at 0: body differs: it has a content-encoding that the plan does not ask "
      "for; 1 ok 200 13" },
    { "a", BYTES(ZIP_HEAD ZIP), NONE, "0 ok 200 33" },
    /* --- the wrong status, before the body --- */
    { "gg", BYTES("HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found" OK), NONE,
      "0 bad_status 404 9: status is not the expected one; 1 ok 200 13" },
    { "aa",
      BYTES("HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 599 x\r\nContent-Length: "
            "0\r\n\r\n"),
      NONE,
      "0 bad_status 400 0: status is not within 200 to 399; 1 bad_status 599 0: status is not "
      "within 200 to 399" },
    /* --- the wrong body --- */
    { "gg", BYTES(OK_HEAD "Hello, world!" OK), NONE,
      "0 bad_body 200 13 at 7: body differs; 1 ok 200 13" },
    { "g", BYTES(OK_HEAD "hELLO, wORLD!"), NONE, "0 bad_body 200 13 at 0: body differs" },
    { "g", BYTES(OK_HEAD "Hello, World?"), NONE, "0 bad_body 200 13 at 12: body differs" },
    { "gg", BYTES("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHello, World" OK), NONE,
      "0 bad_body 200 12 at 12: body is shorter than expected; 1 ok 200 13" },
    { "gg", BYTES("HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nHello, World!!!" OK), NONE,
      "0 bad_body 200 15 at 13: body is longer than expected; 1 ok 200 13" },
    { "gg", BYTES("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" OK), NONE,
      "0 bad_body 200 0 at 0: body is shorter than expected; 1 ok 200 13" },
    { "e", BYTES("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!"), NONE,
      "0 bad_body 200 1 at 0: body is longer than expected" },
    { "g", BYTES(CHUNKED "7\r\nHello, \r\n6\r\nWOrld!\r\n0\r\n\r\n"), NONE,
      "0 bad_body 200 13 at 8: body differs" },
    /* --- broken framing ends the connection; what was asked after it is not answered --- */
    { "gg", BYTES("HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Length: 12\r\n\r\n"),
      LOAD_ABORTED,
      "0 bad_framing 200 0: content-length twice, with different values; broken; 1 aborted 0 0: "
      "given up" },
    { "g", BYTES(CHUNKED "5\r\nHello\r\nx\r\n"), NONE,
      "0 bad_framing 200 5: chunk size is not a number; broken" },
    { "g", BYTES("\0\0\0\x04\0\0\0\0\0"), NONE,
      "0 bad_framing 0 0: the server speaks HTTP/2 here; broken" },
    { "g", BYTES("HTTP/1.1 101 Switching Protocols\r\n\r\n"), NONE,
      "0 bad_framing 101 0: 101 without having been asked to switch protocols; broken" },
    { "gg", BYTES(OK_HEAD "Hello, World!!" OK), LOAD_CLOSED_EARLY,
      "0 ok 200 13; 1 bad_framing 0 0: does not begin with a status line; broken" },
    { "g", BYTES("\0"), LOAD_CLOSED_EARLY, "0 bad_framing 0 0: does not begin with a status line" },
    /* --- the end of a connection --- */
    { "a", BYTES("HTTP/1.1 200 OK\r\n\r\nHello"), LOAD_CLOSED_EARLY, "0 ok 200 5" },
    { "g", BYTES("HTTP/1.1 200 OK\r\n\r\nHello"), LOAD_CLOSED_EARLY,
      "0 bad_body 200 5 at 5: body is shorter than expected" },
    { "a", BYTES("HTTP/1.1 200 OK\r\n\r\nHello"), LOAD_RESET, "0 reset 200 5: reset by the peer" },
    { "aa", BYTES("HTTP/1.0 200 OK\r\n\r\nHello" OK), LOAD_CLOSED_EARLY,
      "0 ok 200 57; 1 closed_early 0 0: closed without an answer" },
    { "ggg", BYTES(OK OK_CLOSE OK), LOAD_CLOSED_EARLY,
      "0 ok 200 13; 1 ok 200 13; closed; 2 closed_early 0 0: closed without an answer" },
    { "g", BYTES("HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!"), LOAD_CLOSED_EARLY,
      "0 ok 200 13; closed" },
    { "gg",
      BYTES("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 13\r\n\r\nHello, "
            "World!" OK),
      NONE, "0 ok 200 13; 1 ok 200 13" },
    { "l", BYTES(OK), LOAD_CLOSED_EARLY, "0 ok 200 13; closed" },
    { "g", BYTES(""), LOAD_CLOSED_EARLY, "0 closed_early 0 0: closed without an answer" },
    { "g", BYTES(""), LOAD_RESET, "0 reset 0 0: reset by the peer" },
    { "gg", BYTES(""), LOAD_TIMEOUT,
      "0 timeout 0 0: no complete answer in time; 1 timeout 0 0: no complete answer in time" },
    { "g", BYTES("HTTP/1.1 2"), LOAD_CLOSED_EARLY, "0 closed_early 0 0: closed within the head" },
    { "g", BYTES("HTTP/1.1 200 OK\r\n"), LOAD_CLOSED_EARLY,
      "0 closed_early 200 0: closed within the head" },
    { "gg", BYTES("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nHello, World!"), LOAD_CLOSED_EARLY,
      "0 closed_early 200 13: closed before content-length was reached; 1 closed_early 0 0: closed "
      "without an answer" },
    { "g", BYTES(CHUNKED "d\r\nHello, World!\r\n"), LOAD_CLOSED_EARLY,
      "0 closed_early 200 13: closed before the last chunk" },
    { "g", BYTES(CHUNKED "d\r\nHello, World!\r\n0\r\nx"), LOAD_CLOSED_EARLY,
      "0 closed_early 200 13: closed within the trailers" },
    { "g", BYTES(CHUNKED "d\r\nHello, World!\r\n"), LOAD_TIMEOUT,
      "0 timeout 200 13: no complete answer in time" },
    { "g", BYTES(""), LOAD_TLS_ERROR, "0 tls_error 0 0: TLS failed" },
    /* --- nobody asked --- */
    { "", BYTES("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"), LOAD_CLOSED_EARLY,
      "closed" },
    { "", BYTES(OK), LOAD_CLOSED_EARLY, "broken" },
    { "", BYTES("HTTP/1.1 100 Continue\r\n\r\n"), LOAD_CLOSED_EARLY, "broken" },
    { "", BYTES("hello"), LOAD_CLOSED_EARLY, "broken" },
    { "g", BYTES(OK OK), NONE, "0 ok 200 13; broken" },
    { "g", BYTES(OK "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"), NONE,
      "0 ok 200 13; closed" },
    { "g", BYTES(OK "HTTP/1.1 408"), LOAD_CLOSED_EARLY, "0 ok 200 13" },
    { "gG", BYTES(OK OK), LOAD_CLOSED_EARLY,
      "0 ok 200 13; broken; 1 closed_early 0 0: closed without an answer" },
    { "G", BYTES("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"), LOAD_CLOSED_EARLY,
      "closed; 0 closed_early 0 0: closed without an answer" },
};

static void every_operation_ends_as_it_should_in_any_fragmentation(void **state)
{
    struct guard guard;
    struct talk talk;

    (void)state;
    guard_init(&guard, 4096);
    for (size_t i = 0; i < LS_ARRAY_LEN(scenes); i++) {
        const struct scene *scene = &scenes[i];

        for (size_t at = 1; at <= scene->in.len + 1; at++) {
            play(scene, at, &guard, &talk);
            if (strcmp(talk.log, scene->log) != 0)
                fail_msg("scene %zu, split at %zu of %zu:\n  want %s\n  seen %s", i, at,
                         scene->in.len, scene->log, talk.log);
        }
    }
    guard_fini(&guard);
}

static void an_answer_may_come_before_the_request_is_sent(void **state)
{
    static const unsigned char answer[] = OK;
    struct talk talk;
    unsigned char out[256];
    uint32_t ops = 0;
    size_t first;
    size_t rest;

    (void)state;
    talk_begin(&talk, &workload);
    assert_int_equal(talk.driver->submit(talk.conn, 0, GET), LS_OK);
    assert_int_equal(talk.driver->submit(talk.conn, 1, ANY), LS_OK);
    first = talk.driver->drain(talk.conn, out, 10, &ops);
    assert_int_equal(first, 10);
    assert_int_equal(ops, 1);
    assert_int_equal(talk.driver->feed(talk.conn, (struct ls_bytes){ answer, sizeof(answer) - 1 }),
                     LS_OK);
    assert_string_equal(talk.log, "0 ok 200 13");
    /* The rest of it still goes out, and the next behind it. */
    rest = talk.driver->drain(talk.conn, out + first, sizeof(out) - first, &ops);
    assert_int_equal(ops, 2);
    assert_int_equal(first + rest, requests[GET].bytes.len + requests[ANY].bytes.len);
    assert_memory_equal(out, requests[GET].bytes.data, requests[GET].bytes.len);
    assert_memory_equal(out + requests[GET].bytes.len, requests[ANY].bytes.data,
                        requests[ANY].bytes.len);
    talk.driver->close(talk.conn);
}

static void nothing_goes_on_after_the_end(void **state)
{
    struct talk talk;
    unsigned char out[256];

    (void)state;
    talk_begin(&talk, &workload);
    ask(&talk, "gG");
    talk.driver->eof(talk.conn, LOAD_RESET);
    assert_int_equal(talk.driver->submit(talk.conn, 2, GET), LS_ESTATE);
    assert_int_equal(talk.driver->drain(talk.conn, out, sizeof(out), NULL), 0);
    assert_int_equal(talk.driver->feed(talk.conn, (struct ls_bytes)BYTES(OK)), LS_ECLOSED);
    talk.driver->eof(talk.conn, LOAD_RESET);
    assert_string_equal(talk.log, "0 reset 0 0: reset by the peer; 1 reset 0 0: reset by the peer");
    talk.driver->close(talk.conn);
}

static void nothing_is_asked_where_an_end_has_begun(void **state)
{
    struct talk talk;
    unsigned char out[256];

    (void)state;
    talk_begin(&talk, &workload);
    assert_int_equal(talk.driver->submit(talk.conn, 0, GET), LS_OK);
    assert_int_equal(talk.driver->feed(talk.conn, (struct ls_bytes)BYTES("HTTP/1.1 4")), LS_OK);
    assert_int_equal(talk.driver->submit(talk.conn, 1, GET), LS_ESTATE);
    assert_int_equal(talk.driver->drain(talk.conn, out, sizeof(out), NULL), 0);
    talk.driver->close(talk.conn);

    talk_begin(&talk, &workload);
    ask(&talk, "g");
    assert_int_equal(talk.driver->feed(talk.conn, (struct ls_bytes)BYTES("?")), LS_EPROTO);
    assert_int_equal(talk.driver->submit(talk.conn, 1, GET), LS_ESTATE);
    assert_int_equal(talk.driver->feed(talk.conn, (struct ls_bytes)BYTES(OK)), LS_ECLOSED);
    talk.driver->close(talk.conn);
}

static void no_request_follows_one_that_says_close(void **state)
{
    static const unsigned char answer[] = OK;
    struct talk talk;

    (void)state;
    talk_begin(&talk, &workload);
    ask(&talk, "gl");
    assert_int_equal(talk.driver->submit(talk.conn, 2, GET), LS_EAGAIN);
    assert_int_equal(talk.driver->feed(talk.conn, (struct ls_bytes){ answer, sizeof(answer) - 1 }),
                     LS_OK);
    assert_int_equal(talk.driver->submit(talk.conn, 2, GET), LS_EAGAIN);
    assert_int_equal(talk.driver->feed(talk.conn, (struct ls_bytes){ answer, sizeof(answer) - 1 }),
                     LS_ECLOSED);
    assert_int_equal(talk.driver->submit(talk.conn, 2, GET), LS_ESTATE);
    assert_string_equal(talk.log, "0 ok 200 13; 1 ok 200 13");
    talk.driver->close(talk.conn);
}

static void requests_are_numbered_around_the_rotation(void **state)
{
    struct talk talk;
    unsigned char out[256];

    (void)state;
    talk_begin(&talk, &workload);
    assert_int_equal(talk.driver->submit(talk.conn, 0, 7 * REQUESTS + ANY), LS_OK);
    assert_int_equal(talk.driver->drain(talk.conn, out, sizeof(out), NULL),
                     requests[ANY].bytes.len);
    assert_memory_equal(out, requests[ANY].bytes.data, requests[ANY].bytes.len);
    talk.driver->close(talk.conn);
}

/* Same head, but an answer to HEAD has no body: wherever the two stand in the rotation. */
static void known_heads_do_not_mix_up_get_and_head(void **state)
{
    (void)state;
    for (uint32_t count = 2; count < 20; count++) {
        struct load_request rotation[20];
        struct load_workload load = { .requests = rotation, .request_count = count, .pipeline = 1 };
        struct talk talk;
        unsigned char out[256];

        for (uint32_t i = 0; i < count; i++)
            rotation[i] = requests[i + 1 < count ? GET : HEAD];
        talk_begin(&talk, &load);
        for (uint32_t i = 0; i < 3 * count; i++) {
            bool head = i % count + 1 == count;

            talk.log_len = 0;
            assert_int_equal(talk.driver->submit(talk.conn, 0, i), LS_OK);
            assert_true(talk.driver->drain(talk.conn, out, sizeof(out), NULL) > 0);
            assert_int_equal(talk.driver->feed(talk.conn, head ? (struct ls_bytes)BYTES(OK_HEAD)
                                                               : (struct ls_bytes)BYTES(OK)),
                             LS_OK);
            assert_string_equal(talk.log, head ? "0 ok 200 0" : "0 ok 200 13");
        }
        talk.driver->close(talk.conn);
    }
}

/* --- What can be driven --- */

static void check_says_what_cannot_be_driven(void **state)
{
    static const struct load_request good = { .bytes = BYTES("x"), .label = "GET /" };
    static const struct load_request empty = { .bytes = { NULL, 0 }, .label = "GET /" };
    static const struct load_request interim = { .bytes = BYTES("x"),
                                                 .label = "GET /",
                                                 .expect_status = 100 };
    static const struct load_request head = { .bytes = BYTES("x"),
                                              .label = "HEAD /",
                                              .no_body = true,
                                              .expect_body_given = true,
                                              .expect_body = BYTES("y") };
    static const struct {
        struct load_workload workload;
        enum ls_err rc;
        const char *says;
    } cases[] = {
        { { .requests = &good, .request_count = 1, .pipeline = 1 }, LS_OK, "" },
        { { .requests = &good, .request_count = 0, .pipeline = 1 }, LS_EINVAL, "at least one" },
        { { .requests = &good, .request_count = 1, .pipeline = 0 }, LS_ERANGE, "pipeline 0" },
        { { .requests = &good, .request_count = 1, .pipeline = 4097 }, LS_ERANGE, "4097" },
        { { .requests = &empty, .request_count = 1, .pipeline = 1 }, LS_EINVAL, "no bytes" },
        { { .requests = &interim, .request_count = 1, .pipeline = 1 }, LS_ERANGE, "status 100" },
        { { .requests = &head, .request_count = 1, .pipeline = 1 }, LS_EINVAL, "HEAD has no body" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_diag diag = { .text = "" };

        assert_int_equal(agent_driver_find("http1")->check(&cases[i].workload, &diag), cases[i].rc);
        assert_non_null(strstr(diag.text, cases[i].says));
    }
}

static void a_connection_is_small(void **state)
{
    (void)state;
    assert_true(agent_driver_find("http1")->conn_size <= 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_ends_as_it_should_in_any_fragmentation),
        cmocka_unit_test(an_answer_may_come_before_the_request_is_sent),
        cmocka_unit_test(nothing_goes_on_after_the_end),
        cmocka_unit_test(nothing_is_asked_where_an_end_has_begun),
        cmocka_unit_test(no_request_follows_one_that_says_close),
        cmocka_unit_test(requests_are_numbered_around_the_rotation),
        cmocka_unit_test(known_heads_do_not_mix_up_get_and_head),
        cmocka_unit_test(check_says_what_cannot_be_driven),
        cmocka_unit_test(a_connection_is_small),
    };

    return cmocka_run_group_tests_name("agent.http1", tests, NULL, NULL);
}
