/* The HTTP/2 driver against frames written by hand: what it makes of them, however they are cut,
 * and what it says to the peer. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/http2_conn.h"
#include "tests/support/http2_talk.h"

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }
#define SETTINGS "S 0 0 ;"
#define HELLO    "'Hello, World!'"

static const struct load_request usual[] = {
    { .bytes = BYTES("GET / HTTP/1.1\r\nHost: example.test:80\r\nUser-Agent: x\r\n\r\n"),
      .label = "GET /",
      .expect_body_given = true,
      .expect_body = BYTES("Hello, World!") },
};

/* Three requests at once, the peer's frames, and what comes of it. */
static const struct {
    const char *frames;
    const char *replies;
    const char *said;
    enum ls_err rc; /* LS_EAGAIN counts as LS_OK */
} cases[] = {
    /* What is right. */
    { SETTINGS "H 1 4 88;D 1 1 " HELLO ";H 3 4 88;H 5 4 88;D 5 0 'Hello';D 3 1 " HELLO
               ";D 5 1 ', World!'",
      "ok 200 13 | ok 200 13 | ok 200 13", "SETTINGS ack", LS_OK },
    { SETTINGS "H 1 4 88 0f0d 02 3133;D 1 1 " HELLO, "ok 200 13 | - | -", "SETTINGS ack", LS_OK },
    { SETTINGS "H 1 c 02 88 0000;D 1 9 03 " HELLO " 000000", "ok 200 13 | - | -", "SETTINGS ack",
      LS_OK },
    { SETTINGS "H 1 24 00000000 10 88;D 1 1 " HELLO, "ok 200 13 | - | -", "SETTINGS ack", LS_OK },
    { SETTINGS "H 1 0;C 1 0 0f;C 1 0;C 1 4 0d 02 3133",
      "bad_framing 0 0: head without :status | - | -", "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR",
      LS_OK },
    { SETTINGS "H 1 0 88;C 1 0 0f;C 1 0;C 1 4 0d 02 3133;D 1 1 " HELLO, "ok 200 13 | - | -",
      "SETTINGS ack", LS_OK },
    { SETTINGS "H 1 4 08 03 313033;H 1 4 88;D 1 0 " HELLO ";H 1 5 40 01 78 01 79",
      "ok 200 13 | - | -", "SETTINGS ack", LS_OK },
    { SETTINGS "I 0 0 '12345678';E 7 ff 'what is this';P 9 0 00000001 10;H 1 4 88;D 1 1 " HELLO,
      "ok 200 13 | - | -", "SETTINGS ack, PING ack 12345678", LS_OK },
    { SETTINGS "U 1 4 00000002 88;H 1 4 88;D 1 1 " HELLO, "ok 200 13 | - | -",
      "SETTINGS ack, RST_STREAM 2 REFUSED_STREAM", LS_OK },
    { SETTINGS "S 0 1;U 1 4 00000002 88",
      "bad_framing 0 0: the server pushes though it was told not to | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },

    /* The dynamic table: the second and third block mean what the first one has put there. */
    { SETTINGS "H 1 4 88 5c 02 3133;H 3 4 88 be;H 5 4 88 be;D 1 1 " HELLO ";D 3 1 " HELLO
               ";D 5 1 " HELLO,
      "ok 200 13 | ok 200 13 | ok 200 13", "SETTINGS ack", LS_OK },
    { SETTINGS "H 1 4 88 5c 02 3133;H 3 4 88 5c 02 3132;H 5 4 88 be;D 1 1 " HELLO ";D 3 1 " HELLO
               ";D 5 1 " HELLO,
      "ok 200 13 | bad_framing 200 13: content-length is not the length of the body | "
      "bad_framing 200 13: content-length is not the length of the body",
      "SETTINGS ack, RST_STREAM 3 PROTOCOL_ERROR, RST_STREAM 5 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "H 1 4 20 88 5c 02 3133;H 3 4 88 be",
      "- | bad_framing 0 0: header block: an index that the table does not have | -",
      "SETTINGS ack, GOAWAY COMPRESSION_ERROR", LS_EPROTO },

    /* What real servers send first: nginx, Deno and Node.js, with the date and all. */
    { SETTINGS "S 0 0 0003 00000080 0004 00010000 0005 00ffffff;W 0 0 7fff0000;S 0 1;"
               "H 1 4 88 7689aa6355e580ae212e1f 6196d07abe94640a693f75040138 a04571905c0b6a62d1bf "
               "5f87497ca58ae819aa 5c023133;D 1 1 " HELLO,
      "ok 200 13 | - | -", "SETTINGS ack, SETTINGS ack", LS_OK },
    { SETTINGS
      "S 0 0 0003 000000c8 0004 00100000 0005 00004000 0006 00004000;S 0 1;W 0 0 000f0001;"
      "H 1 4 88 5f92497ca58ae819aafb24e3b1054c1c37e159ef 6196d07abe94640a693f75040138a04371a7a"
      "e34ea98b46f 0f0d820b3f;H 3 4 88bfbe 0f0d820b3f;H 5 4 88bfbe 0f0d820b3f;D 1 1 " HELLO
      ";D 3 1 " HELLO ";D 5 1 " HELLO,
      "ok 200 13 | ok 200 13 | ok 200 13", "SETTINGS ack, SETTINGS ack", LS_OK },
    { SETTINGS "S 0 1;H 1 4 88 5f87497ca58ae819aa 6196d07abe94640a693f75040138a04371a7ae34ca98b46f;"
               "H 3 4 88bfbe;H 5 4 88bfbe;D 1 1 " HELLO ";D 3 1 " HELLO ";D 5 1 " HELLO,
      "ok 200 13 | ok 200 13 | ok 200 13", "SETTINGS ack", LS_OK },
    { SETTINGS "G 0 0 00000000 00000001 'request HEADERS: invalid stream_id'",
      "again | again | again", "SETTINGS ack", LS_ECLOSED },

    /* What the answer is. */
    { SETTINGS "H 1 5 89", "bad_body 204 0: body is shorter than expected | - | -", "SETTINGS ack",
      LS_OK },
    { SETTINGS "H 1 5 8d", "bad_status 404 0: status is not within 200 to 399 | - | -",
      "SETTINGS ack", LS_OK },
    { SETTINGS "H 1 4 88;D 1 1 'Hello, world!'", "bad_body 200 13: body differs | - | -",
      "SETTINGS ack", LS_OK },
    { SETTINGS "H 1 4 88;D 1 0 'Hello, World!';D 1 1 '!'",
      "bad_body 200 14: body is longer than expected | - | -", "SETTINGS ack", LS_OK },
    { SETTINGS "H 1 4 88;D 1 0 'Hello, World!';D 1 1", "ok 200 13 | - | -", "SETTINGS ack", LS_OK },
    { SETTINGS "R 1 0 00000007;R 3 0 00000008;R 5 0 000000ff",
      "reset 0 0: stream reset by the peer: REFUSED_STREAM | reset 0 0: stream reset by the peer: "
      "CANCEL | reset 0 0: stream reset by the peer: unknown code",
      "SETTINGS ack", LS_OK },
    { SETTINGS "H 1 4 88;D 1 0 'Hello';R 1 0 00000002",
      "reset 200 5: stream reset by the peer: INTERNAL_ERROR | - | -", "SETTINGS ack", LS_OK },

    /* GOAWAY: what was not looked at is asked again, the rest goes on. */
    { SETTINGS "G 0 0 00000001 00000000;H 1 4 88;D 1 1 " HELLO, "ok 200 13 | again | again",
      "SETTINGS ack", LS_ECLOSED },
    { SETTINGS "G 0 0 7fffffff 00000000 'bye';I 0 0 '87654321';H 1 4 88;D 1 1 " HELLO
               ";G 0 0 00000003 00000000",
      "ok 200 13 | - | again", "SETTINGS ack, PING ack 87654321", LS_OK },
    { SETTINGS "G 0 0 00000000 0000000b", "again | again | again", "SETTINGS ack", LS_ECLOSED },

    /* Answers that break the rules end themselves; the others go on. */
    { SETTINGS "D 1 0 'x';H 3 4 88;D 3 1 " HELLO,
      "bad_framing 0 0: a body before the head | ok 200 13 | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "H 1 4 88;D 1 0 " HELLO ";H 1 4 40 01 78 01 79",
      "bad_framing 200 13: a head within the body | - | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "H 1 4 88;D 1 0 " HELLO ";H 1 5 88",
      "bad_framing 200 13: trailers with a status | - | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "H 1 4 8888", "bad_framing 0 0: :status twice, or behind other fields | - | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "H 1 4 5f 00 88", "bad_framing 0 0: :status twice, or behind other fields | - | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "H 1 4 88 84", "bad_framing 0 0: a pseudo-field that answers do not have | - | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "H 1 4 88 79 07 'chunked'",
      "bad_framing 0 0: a field about connections of HTTP/1 | - | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "H 1 4 88 00 01 'X' 01 'y'",
      "bad_framing 0 0: a field whose name is not in lower case, or no name | - | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "H 1 4 88 00 01 'x' 01 00",
      "bad_framing 0 0: control byte in the value of a field | - | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "H 1 4 88 5c 02 3133 5c 02 3134",
      "bad_framing 0 0: content-length twice, with different values | - | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "H 1 5 08 03 313030",
      "bad_framing 0 0: a 1xx answer that ends the stream, or is 101 | - | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "33 x H 1 4 08 03 313030", "bad_framing 0 0: too many 1xx answers | - | -",
      "SETTINGS ack, RST_STREAM 1 ENHANCE_YOUR_CALM", LS_OK },
    { SETTINGS "W 1 0 00000000",
      "bad_framing 0 0: a window is opened by nothing, or too far | - | -",
      "SETTINGS ack, RST_STREAM 1 PROTOCOL_ERROR", LS_OK },
    { SETTINGS "W 1 0 7fffffff",
      "bad_framing 0 0: a window is opened by nothing, or too far | - | -",
      "SETTINGS ack, RST_STREAM 1 FLOW_CONTROL_ERROR", LS_OK },

    /* Peers that break the connection. */
    { SETTINGS "H 1 5 88;", "bad_body 200 0: body is shorter than expected | - | -", "SETTINGS ack",
      LS_OK },
    { SETTINGS "H 1 4 88;D 1 1 " HELLO ";D 1 0 'x'",
      "ok 200 13 | bad_framing 0 0: more than the answer to a request | -",
      "SETTINGS ack, GOAWAY STREAM_CLOSED", LS_EPROTO },
    { SETTINGS "D 0 0 'x'", "bad_framing 0 0: a frame of a stream says that it is of none | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { SETTINGS "H 7 4 88", "bad_framing 0 0: a frame of a stream that was never opened | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { SETTINGS "H 2 4 88", "bad_framing 0 0: a frame of a stream that was never opened | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { SETTINGS "H 1 0 88;D 1 1 'x'", "bad_framing 0 0: a header block is interrupted | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { SETTINGS "H 1 0 88;C 3 4", "bad_framing 0 0: a header block is interrupted | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { SETTINGS "C 1 4 88", "bad_framing 0 0: CONTINUATION of nothing | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { SETTINGS "H 1 4 88 00 03 'ab'", "bad_framing 0 0: header block: ends within a field | - | -",
      "SETTINGS ack, GOAWAY COMPRESSION_ERROR", LS_EPROTO },
    { SETTINGS "H 1 4 88;D 1 8 05 'abcd'",
      "bad_framing 200 0: a frame with more padding than it has bytes | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { SETTINGS "H 1 4 88;D 1 8", "bad_framing 200 0: a frame is too short for what it says | - | -",
      "SETTINGS ack, GOAWAY FRAME_SIZE_ERROR", LS_EPROTO },
    { SETTINGS "X 004001 00 00 00000001",
      "bad_framing 0 0: a frame that is larger than we allow | - | -",
      "SETTINGS ack, GOAWAY FRAME_SIZE_ERROR", LS_EPROTO },
    { SETTINGS "I 0 0 '1234567'", "bad_framing 0 0: a frame of a wrong length | - | -",
      "SETTINGS ack, GOAWAY FRAME_SIZE_ERROR", LS_EPROTO },
    { SETTINGS "S 0 0 0003 000000", "bad_framing 0 0: SETTINGS of a wrong length | - | -",
      "SETTINGS ack, GOAWAY FRAME_SIZE_ERROR", LS_EPROTO },
    { SETTINGS "S 0 1 0003 0000000a", "bad_framing 0 0: SETTINGS of a wrong length | - | -",
      "SETTINGS ack, GOAWAY FRAME_SIZE_ERROR", LS_EPROTO },
    { SETTINGS "S 1 0", "bad_framing 0 0: SETTINGS of a stream | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { SETTINGS "S 0 0 0002 00000001", "bad_framing 0 0: a server that enables push | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { SETTINGS "S 0 0 0004 80000000",
      "bad_framing 0 0: SETTINGS with a window that is too large | - | -",
      "SETTINGS ack, GOAWAY FLOW_CONTROL_ERROR", LS_EPROTO },
    { SETTINGS "S 0 0 0005 00003fff",
      "bad_framing 0 0: SETTINGS with a frame size that cannot be | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { SETTINGS "W 0 0 00000000",
      "bad_framing 0 0: a window is opened by nothing, or too far | - | -",
      "SETTINGS ack, GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { SETTINGS "W 0 0 7fffffff",
      "bad_framing 0 0: a window is opened by nothing, or too far | - | -",
      "SETTINGS ack, GOAWAY FLOW_CONTROL_ERROR", LS_EPROTO },
    { SETTINGS "G 0 0 00000001", "bad_framing 0 0: GOAWAY of a wrong length | - | -",
      "SETTINGS ack, GOAWAY FRAME_SIZE_ERROR", LS_EPROTO },
    { SETTINGS "10001 x E 0 0", "bad_framing 0 0: a flood of frames that answer nothing | - | -",
      "SETTINGS ack, GOAWAY ENHANCE_YOUR_CALM", LS_EPROTO },
    { SETTINGS "H 1 4 88;10001 x D 1 0",
      "bad_framing 200 0: a flood of frames that answer nothing | - | -",
      "SETTINGS ack, GOAWAY ENHANCE_YOUR_CALM", LS_EPROTO },
    { SETTINGS "H 1 0 88;10001 x C 1 0",
      "bad_framing 0 0: a flood of frames that answer nothing | - | -",
      "SETTINGS ack, GOAWAY ENHANCE_YOUR_CALM", LS_EPROTO },

    /* Peers that do not speak it. */
    { "X 'HTTP/1.1 400 Bad Request' 0d0a0d0a",
      "bad_framing 0 0: the server does not speak h2c (HTTP/2 without TLS): it answers in HTTP/1 | "
      "- | -",
      "GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { "X 'SSH-2.0-OpenSSH' 0d0a",
      "bad_framing 0 0: the server does not speak h2c (HTTP/2 without TLS): what it says first is "
      "not SETTINGS | - | -",
      "GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { "S 0 1",
      "bad_framing 0 0: the server does not speak h2c (HTTP/2 without TLS): what it says first "
      "is not SETTINGS | - | -",
      "GOAWAY PROTOCOL_ERROR", LS_EPROTO },
    { "G 0 0 00000000 00000001",
      "bad_framing 0 0: the server refuses HTTP/2: it answers the preface with GOAWAY | - | -",
      "GOAWAY PROTOCOL_ERROR", LS_EPROTO },
};

static unsigned char frames[TALK_BYTES_MAX];

static void check_case(size_t i, size_t len, size_t step)
{
    struct http2_work work;
    struct http2_talk talk;
    char replies[TALK_TEXT];
    char said[TALK_TEXT];
    size_t at = 0;
    enum ls_err rc;

    http2_work_init(&work, usual, 1, 3);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 3);
    http2_talk_drain(&talk);
    if (strncmp(cases[i].frames, SETTINGS, strlen(SETTINGS)) == 0) {
        http2_talk_feed(&talk, (struct ls_bytes){ frames, HTTP2_HEAD_BYTES }, step);
        at = HTTP2_HEAD_BYTES; /* only then are there requests to be answered */
    }
    http2_talk_feed(&talk, (struct ls_bytes){ frames + at, len - at }, step);
    rc = talk.rc == LS_EAGAIN ? LS_OK : talk.rc;
    if (strcmp(http2_talk_replies(&talk, replies), cases[i].replies) != 0 ||
        strcmp(http2_talk_said(&talk, said), cases[i].said) != 0 || rc != cases[i].rc)
        fail_msg("%s, in pieces of %zu:\n  want %s, \"%s\", %d\n  seen %s, \"%s\", %d",
                 cases[i].frames, step, cases[i].replies, cases[i].said, cases[i].rc, replies, said,
                 rc);
    talk.driver->eof(talk.conn, LOAD_CLOSED_EARLY);
    assert_int_equal(talk.ended, talk.submitted);
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

static void every_peer_is_understood_however_its_bytes_are_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        size_t len = http2_frames(cases[i].frames, frames, sizeof(frames));

        check_case(i, len, len);
        if (len > 10000) {
            check_case(i, len, 1000);
            continue;
        }
        for (size_t step = 1; step < len; step++)
            check_case(i, len, step);
    }
}

/* ---- what leaves -------------------------------------------------------------------------------
 */

static void take_text(struct http2_talk *talk, const char *text)
{
    size_t len = http2_frames(text, frames, sizeof(frames));

    http2_talk_feed(talk, (struct ls_bytes){ frames, len }, len);
    assert_true(talk->rc == LS_OK || talk->rc == LS_EAGAIN);
}

/* The n-th frame of a type that was said; NULL: there are fewer. */
static const unsigned char *said_frame(const struct http2_talk *talk, enum http2_type type,
                                       unsigned n)
{
    const unsigned char *at = talk->said + HTTP2_PREFACE_BYTES;
    const unsigned char *end = talk->said + talk->said_len;

    for (; at < end; at += HTTP2_HEAD_BYTES + http2_frame_len(at)) {
        if (at[3] == type && n-- == 0)
            return at;
    }
    return NULL;
}

static void assert_block(const struct http2_talk *talk, unsigned n, const char *hex)
{
    const unsigned char *frame = said_frame(talk, HTTP2_HEADERS, n);
    unsigned char block[256];
    char text[300];
    size_t len;

    (void)snprintf(text, sizeof(text), "X %s", hex);
    len = http2_frames(text, frames, sizeof(frames));
    memcpy(block, frames, len);
    assert_non_null(frame);
    assert_int_equal(http2_frame_len(frame), len);
    assert_memory_equal(frame + HTTP2_HEAD_BYTES, block, len);
    assert_int_equal(http2_get32(frame + 5), 2 * n + 1);
}

static void shared_fields_are_sent_once_and_then_named(void **state)
{
    struct http2_work work;
    struct http2_talk talk;

    (void)state;
    http2_work_init(&work, usual, 1, 3);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 2);
    take_text(&talk, SETTINGS);
    assert_block(&talk, 0, "41 0f 'example.test:80' 82 86 84 7a 01 'x'");
    assert_block(&talk, 1, "bf 82 86 84 be");
    /* A table that still holds them is only announced; one that does not makes them literals. */
    take_text(&talk, "S 0 0 0001 00000063;S 0 0 0001 00000080;H 1 5 88;H 3 5 88");
    http2_talk_submit(&talk, 2);
    http2_talk_drain(&talk);
    assert_block(&talk, 2, "20 01 0f 'example.test:80' 82 86 84 0f2b 01 'x'");
    assert_block(&talk, 3, "01 0f 'example.test:80' 82 86 84 0f2b 01 'x'");
    http2_talk_end(&talk);

    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 2);
    take_text(&talk, "S 0 0 0001 00000064"); /* 100 bytes are just what they take */
    assert_block(&talk, 0, "3f45 41 0f 'example.test:80' 82 86 84 7a 01 'x'");
    assert_block(&talk, 1, "bf 82 86 84 be");
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

/* RFC 9110, 4.2.3: schemes and hosts are, paths are not. */
static void paths_are_case_sensitive(void **state)
{
    static const struct load_request shouting[] = {
        { .bytes = BYTES("GET /INDEX.html HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "GET" },
        { .bytes = BYTES("GET /index.html HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "GET" },
    };
    struct http2_work work;
    struct http2_talk talk;

    (void)state;
    http2_work_init(&work, shouting, 2, 2);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 2);
    take_text(&talk, SETTINGS);
    assert_block(&talk, 0, "41 01 'x' 82 86 04 0b '/INDEX.html'");
    assert_block(&talk, 1, "be 82 86 85");
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

static void no_more_streams_are_open_than_the_server_allows(void **state)
{
    struct http2_work work;
    struct http2_talk talk;
    char replies[TALK_TEXT];

    (void)state;
    http2_work_init(&work, usual, 1, 5);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 5);
    http2_talk_drain(&talk);
    assert_int_equal(talk.sent, 0); /* nothing before its SETTINGS */
    take_text(&talk, "S 0 0 0003 00000000");
    assert_int_equal(talk.sent, 0);
    assert_int_equal(talk.driver->greeting(talk.conn), AGENT_WAITS);
    take_text(&talk, "S 0 0 0003 00000002");
    assert_int_equal(talk.driver->greeting(talk.conn), AGENT_READY);
    assert_int_equal(talk.sent, 2);
    assert_int_equal(talk.driver->submit(talk.conn, 9, 9), LS_EAGAIN);
    take_text(&talk, "H 1 4 88;D 1 1 " HELLO);
    assert_int_equal(talk.sent, 3);
    take_text(&talk, "S 0 0 0003 00000005");
    assert_int_equal(talk.sent, 5);
    take_text(&talk, "S 0 0 0003 00000000;H 3 4 88;D 3 1 " HELLO);
    assert_int_equal(talk.driver->submit(talk.conn, 9, 9), LS_EAGAIN);
    assert_string_equal(http2_talk_replies(&talk, replies), "ok 200 13 | ok 200 13 | - | - | -");
    assert_int_equal(talk.use.connections, 1);
    assert_int_equal(talk.use.granted_most, 5);
    assert_int_equal(talk.use.granted_least, 2); /* none at all is for a while */
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

/* ---- bodies of requests ------------------------------------------------------------------------
 */

#define UPLOAD 200000u

static const struct load_request *upload(void)
{
    static const char head[] = "POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n";
    static unsigned char bytes[sizeof(head) + UPLOAD];
    static struct load_request request = { .label = "POST /up" };

    memcpy(bytes, head, sizeof(head) - 1);
    for (uint32_t i = 0; i < UPLOAD; i++)
        bytes[sizeof(head) - 1 + i] = (unsigned char)('a' + i % 26);
    request.bytes = (struct ls_bytes){ bytes, sizeof(head) - 1 + UPLOAD };
    return &request;
}

/* Bytes of body that were sent on a stream, checked; *out_ended: with END_STREAM. */
static uint32_t body_sent(const struct http2_talk *talk, uint32_t id, bool *out_ended)
{
    const unsigned char *frame;
    uint32_t sent = 0;

    *out_ended = false;
    for (unsigned n = 0; (frame = said_frame(talk, HTTP2_DATA, n)) != NULL; n++) {
        uint32_t len = http2_frame_len(frame);

        if (http2_get32(frame + 5) != id)
            continue;
        assert_false(*out_ended);
        assert_true(len > 0 && len <= HTTP2_FRAME_MAX);
        for (uint32_t i = 0; i < len; i++)
            assert_int_equal(frame[HTTP2_HEAD_BYTES + i], 'a' + (sent + i) % 26);
        sent += len;
        *out_ended = (frame[4] & HTTP2_END_STREAM) != 0;
    }
    return sent;
}

static void assert_sent(const struct http2_talk *talk, uint32_t first, uint32_t second)
{
    bool ended = false;

    assert_int_equal(body_sent(talk, 1, &ended), first);
    assert_int_equal(ended, first == UPLOAD);
    assert_int_equal(body_sent(talk, 3, &ended), second);
    assert_int_equal(ended, second == UPLOAD);
}

static void bodies_keep_to_the_servers_windows(void **state)
{
    struct http2_work work;
    struct http2_talk talk;

    (void)state;
    http2_work_init(&work, upload(), 1, 2);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 2);
    take_text(&talk, "S 0 0 0004 00002710"); /* 10,000 a stream */
    assert_sent(&talk, 10000, 10000);
    take_text(&talk, "W 1 0 000186a0"); /* 100,000 more for one, but the connection has 65,535 */
    assert_sent(&talk, 55535, 10000);
    take_text(&talk,
              "S 0 0 0004 00004e20"); /* all streams have 10,000 more, but not the connection */
    assert_sent(&talk, 55535, 10000);
    take_text(&talk, "W 0 0 00002710");
    assert_int_equal(body_sent(&talk, 1, &(bool){ 0 }) + body_sent(&talk, 3, &(bool){ 0 }), 75535);
    take_text(&talk, "S 0 0 0004 00000000;W 0 0 00010000"); /* windows may be negative */
    take_text(&talk, "S 0 0 0004 7ff00000;W 0 0 7ff00000");
    assert_sent(&talk, UPLOAD, UPLOAD);
    take_text(&talk, "H 1 5 88;H 3 5 88");
    assert_int_equal(talk.ended, 2);
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

/* A server that opens its windows by little at a time does so as often as a long body needs. */
static void a_long_body_needs_many_windows(void **state)
{
    struct http2_work work;
    struct http2_talk talk;

    (void)state;
    http2_work_init(&work, upload(), 1, 1);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 1);
    take_text(&talk, "S 0 0 0004 00100000");
    for (unsigned i = 0; i < 2 * HTTP2_IDLE_MAX; i++)
        take_text(&talk, "W 0 0 00000001");
    assert_int_equal(body_sent(&talk, 1, &(bool){ 0 }), HTTP2_WINDOW + 2 * HTTP2_IDLE_MAX);
    assert_int_equal(talk.ended, 0);
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

/* An answer may come before the request is through: then the rest is not sent (RFC 9113, 8.1). */
static void an_early_answer_ends_the_request(void **state)
{
    struct http2_work work;
    struct http2_talk talk;
    char said[TALK_TEXT];

    (void)state;
    http2_work_init(&work, upload(), 1, 2);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 2);
    take_text(&talk, "S 0 0 0004 00002710");
    take_text(&talk, "H 1 5 88");
    assert_string_equal(http2_talk_said(&talk, said), "SETTINGS ack, RST_STREAM 1 CANCEL");
    take_text(&talk, "R 1 0 00000000;W 1 0 00002710;W 0 0 00020000;W 3 0 00020000");
    take_text(&talk, "R 3 0 00000008");
    assert_sent(&talk, 10000, 10000 + 0x20000);
    assert_int_equal(talk.ended, 2);
    assert_int_equal(talk.replies[0].outcome, LOAD_OK);
    assert_int_equal(talk.replies[1].outcome, LOAD_RESET);
    assert_int_equal(talk.use.resets[HTTP2_CANCEL], 1);
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

/* ---- bodies of answers -------------------------------------------------------------------------
 */

/* A gigabyte on one stream: our windows are opened again in time, and not for nothing. */
static void windows_are_opened_before_they_are_used_up(void **state)
{
    static const struct load_request any[] = {
        { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "GET /" }
    };
    struct http2_work work;
    struct http2_talk talk;
    char said[TALK_TEXT];
    size_t len;

    (void)state;
    http2_work_init(&work, any, 1, 1);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 1);
    take_text(&talk, SETTINGS);
    take_text(&talk, "H 1 4 88");
    http2_put_head(frames, HTTP2_FRAME_MAX, HTTP2_DATA, 0, 1);
    len = HTTP2_HEAD_BYTES + HTTP2_FRAME_MAX;
    for (unsigned i = 0; i < (1u << 30) / HTTP2_FRAME_MAX; i++) {
        http2_talk_feed(&talk, (struct ls_bytes){ frames, len }, len);
        assert_true(talk.rc == LS_OK || talk.rc == LS_EAGAIN);
    }
    take_text(&talk, "D 1 1");
    assert_int_equal(talk.replies[0].outcome, LOAD_OK);
    assert_int_equal(talk.replies[0].body_bytes, 1u << 30);
    (void)http2_talk_said(&talk, said);
    for (unsigned stream = 0; stream < 2; stream++) {
        const unsigned char *frame;
        uint64_t opened = 0;

        for (unsigned n = 1; (frame = said_frame(&talk, HTTP2_WINDOW_UPDATE, n)) != NULL; n++) {
            if (http2_get32(frame + 5) == stream)
                opened += http2_get32(frame + HTTP2_HEAD_BYTES);
        }
        assert_in_range(opened, (1u << 30) - HTTP2_UPDATE_AT - HTTP2_FRAME_MAX, 1u << 30);
    }
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

static void more_than_our_window_is_a_breach(void **state)
{
    static const struct load_request any[] = {
        { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "GET /" }
    };
    struct http2_work work;
    struct http2_talk talk;
    size_t len;
    enum ls_err rc = LS_OK;

    (void)state;
    http2_work_init(&work, any, 1, 1);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 1);
    take_text(&talk, SETTINGS);
    take_text(&talk, "H 1 4 88");
    http2_put_head(frames, HTTP2_FRAME_MAX, HTTP2_DATA, 0, 1);
    len = HTTP2_HEAD_BYTES + HTTP2_FRAME_MAX;
    /* Nothing is drained: the server does not get to see that the window is open again. */
    for (unsigned i = 0; i < 3 * (1u << 30) / HTTP2_FRAME_MAX && rc != LS_EPROTO; i++)
        rc = talk.driver->feed(talk.conn, (struct ls_bytes){ frames, len });
    assert_int_equal(rc, LS_EPROTO);
    assert_string_equal(talk.replies[0].why, "more data than the connection's window allows");
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

/* ---- ids ---------------------------------------------------------------------------------------
 */

static void ids_are_used_up_and_then_the_connection(void **state)
{
    struct http2_work work;
    struct http2_talk talk;
    struct http2_conn *c;
    unsigned answered = 0;

    (void)state;
    http2_work_init(&work, usual, 1, 2);
    http2_talk_begin(&talk, &work);
    take_text(&talk, SETTINGS);
    c = talk.conn;
    c->next_id = HTTP2_ID_MAX - 40;
    for (;; answered++) {
        char text[64];
        uint32_t id = c->next_id;

        talk.submitted = 0;
        talk.ends[0] = talk.begun[0] = false;
        if (talk.driver->submit(talk.conn, 0, 0) != LS_OK)
            break;
        talk.submitted = 1;
        http2_talk_drain(&talk);
        (void)snprintf(text, sizeof(text), "H %u 4 88;D %u 1 " HELLO, id, id);
        http2_talk_feed(
            &talk, (struct ls_bytes){ frames, http2_frames(text, frames, sizeof(frames)) }, 1000);
        assert_true(talk.ends[0] && talk.replies[0].outcome == LOAD_OK);
    }
    assert_in_range(answered, 1, 20);
    assert_int_equal(talk.rc, LS_ECLOSED); /* the caller opens another one */
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

/* A slow answer holds its place: later streams leave out the ids that would take it. */
static void a_slow_answer_is_not_mixed_up_with_later_ones(void **state)
{
    struct http2_work work;
    struct http2_talk talk;
    const unsigned char *frame;

    (void)state;
    http2_work_init(&work, usual, 1, 2);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 1);
    take_text(&talk, SETTINGS);
    take_text(&talk, "H 1 4 88;D 1 0 'Hello'");
    for (uint32_t i = 0, id = 0; i < 30; i++) {
        char text[64];

        http2_talk_submit(&talk, 1);
        http2_talk_drain(&talk);
        frame = said_frame(&talk, HTTP2_HEADERS, i + 1);
        assert_non_null(frame);
        assert_true(http2_get32(frame + 5) > id);
        id = http2_get32(frame + 5);
        assert_int_equal(id & 1, 1);
        (void)snprintf(text, sizeof(text), "H %u 4 88;D %u 1 " HELLO, id, id);
        take_text(&talk, text);
        assert_int_equal(talk.replies[i + 1].outcome, LOAD_OK);
    }
    take_text(&talk, "D 1 1 ', World!'");
    assert_int_equal(talk.ended, 31);
    assert_int_equal(talk.replies[0].outcome, LOAD_OK);
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

/* ---- timeouts ----------------------------------------------------------------------------------
 */

static void a_late_answer_is_given_up_alone_if_the_peer_is_alive(void **state)
{
    struct http2_work work;
    struct http2_talk talk;
    char said[TALK_TEXT];

    (void)state;
    http2_work_init(&work, usual, 1, 2);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 2);
    take_text(&talk, SETTINGS);
    assert_false(talk.driver->cancel(talk.conn, 0)); /* it has not said a word since */
    take_text(&talk, "I 0 0 '12345678'");
    assert_true(talk.driver->cancel(talk.conn, 0));
    assert_int_equal(talk.replies[0].outcome, LOAD_TIMEOUT);
    http2_talk_drain(&talk);
    /* What comes for it now is late, and harmless. */
    take_text(&talk, "H 1 4 88 40 01 'x' 01 'y';D 1 1 'Hello';H 3 4 88 be;D 3 1 " HELLO);
    assert_int_equal(talk.ended, 2);
    assert_int_equal(talk.replies[1].outcome, LOAD_OK);
    assert_string_equal(http2_talk_said(&talk, said),
                        "SETTINGS ack, PING ack 12345678, RST_STREAM 1 CANCEL");
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

/* ---- farewell ----------------------------------------------------------------------------------
 */

static void an_intact_connection_is_ended_with_goaway(void **state)
{
    struct http2_work work;
    struct http2_talk talk;
    char said[TALK_TEXT];

    (void)state;
    http2_work_init(&work, usual, 1, 2);
    http2_talk_begin(&talk, &work);
    http2_talk_submit(&talk, 1);
    take_text(&talk, SETTINGS);
    assert_true(talk.driver->part(talk.conn));
    talk.driver->eof(talk.conn, LOAD_ABORTED);
    assert_int_equal(talk.ended, 1);
    http2_talk_drain(&talk);
    assert_string_equal(http2_talk_said(&talk, said), "SETTINGS ack, GOAWAY NO_ERROR");
    assert_false(talk.driver->part(talk.conn)); /* once */
    http2_talk_end(&talk);
    http2_work_fini(&work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_peer_is_understood_however_its_bytes_are_cut),
        cmocka_unit_test(shared_fields_are_sent_once_and_then_named),
        cmocka_unit_test(paths_are_case_sensitive),
        cmocka_unit_test(no_more_streams_are_open_than_the_server_allows),
        cmocka_unit_test(bodies_keep_to_the_servers_windows),
        cmocka_unit_test(a_long_body_needs_many_windows),
        cmocka_unit_test(an_early_answer_ends_the_request),
        cmocka_unit_test(windows_are_opened_before_they_are_used_up),
        cmocka_unit_test(more_than_our_window_is_a_breach),
        cmocka_unit_test(ids_are_used_up_and_then_the_connection),
        cmocka_unit_test(a_slow_answer_is_not_mixed_up_with_later_ones),
        cmocka_unit_test(a_late_answer_is_given_up_alone_if_the_peer_is_alive),
        cmocka_unit_test(an_intact_connection_is_ended_with_goaway),
    };

    return cmocka_run_group_tests_name("agent.http2", tests, NULL, NULL);
}
