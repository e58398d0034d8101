/* Every driver there is passes the one suite. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "agent/load/http2_frame.h"
#include "agent/load/http2_request.h"
#include "agent/load/ws_handshake.h"
#include "tests/support/driver_suite.h"

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }
#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n"

static const struct load_request http_requests[] = {
    { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
      .label = "GET /",
      .expect_body_given = true,
      .expect_body = BYTES("Hello, World!") },
    { .bytes = BYTES("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "HEAD /", .no_body = true },
    { .bytes = BYTES("GET /abc HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "GET /abc" },
};

static struct ls_bytes http1_answer(uint32_t request, uint32_t nth)
{
    static const struct ls_bytes answers[LS_ARRAY_LEN(http_requests)] = {
        BYTES(OK_HEAD "Hello, World!"),
        BYTES(OK_HEAD),
        BYTES("HTTP/1.1 100 Continue\r\n\r\n"
              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    };

    (void)nth;
    return answers[request];
}

/* ---- HTTP/2: the same requests as frames, and answers with the streams' numbers ---- */

static struct load_request http2_requests[LS_ARRAY_LEN(http_requests)];
static struct load_http2 *http2_shared;

static int make_http2(void **state)
{
    static unsigned char frames[LS_ARRAY_LEN(http_requests)][256];
    struct ls_bytes heads[LS_ARRAY_LEN(http_requests)];

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(http_requests); i++)
        heads[i] = http_requests[i].bytes;
    if (http2_shared_create(heads, LS_ARRAY_LEN(heads), false, &http2_shared, NULL) != LS_OK)
        return -1;
    for (size_t i = 0; i < LS_ARRAY_LEN(http_requests); i++) {
        struct ls_bytes body;

        http2_requests[i] = http_requests[i];
        http2_requests[i].bytes.data = frames[i];
        http2_requests[i].bytes.len =
            http2_encode(http2_shared, http_requests[i].bytes, false, frames[i], &body);
        http2_shared->frame_max = sizeof(frames[i]);
    }
    return 0;
}

static int free_http2(void **state)
{
    (void)state;
    http2_shared_destroy(http2_shared);
    return 0;
}

static size_t put_frame(unsigned char *out, enum http2_type type, unsigned flags, uint32_t id,
                        struct ls_bytes payload)
{
    http2_put_head(out, (uint32_t)payload.len, type, flags, id);
    if (payload.len > 0)
        memcpy(out + HTTP2_HEAD_BYTES, payload.data, payload.len);
    return HTTP2_HEAD_BYTES + payload.len;
}

static struct ls_bytes http2_answer(uint32_t request, uint32_t nth)
{
    static const struct ls_bytes head = BYTES("\x88\x0f\x0d\x02"
                                              "13"); /* 200, 13 bytes */
    static const struct ls_bytes interim = BYTES("\x08\x03"
                                                 "103");
    static const struct ls_bytes plain = BYTES("\x88");
    static const struct ls_bytes padded = BYTES("\x02"
                                                "abc\0\0");
    static const struct ls_bytes trailer = BYTES("\x40\x01x\x01y");
    static unsigned char out[256];
    uint32_t id = 2 * nth + 1;
    size_t len = 0;

    if (request == 0) {
        len = put_frame(out, HTTP2_HEADERS, HTTP2_END_HEADERS, id, head);
        len += put_frame(out + len, HTTP2_DATA, HTTP2_END_STREAM, id,
                         (struct ls_bytes)BYTES("Hello, World!"));
    } else if (request == 1) {
        len = put_frame(out, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, id, head);
    } else {
        len = put_frame(out, HTTP2_HEADERS, HTTP2_END_HEADERS, id, interim);
        len += put_frame(out + len, HTTP2_HEADERS, 0, id, (struct ls_bytes){ NULL, 0 });
        len += put_frame(out + len, HTTP2_CONTINUATION, HTTP2_END_HEADERS, id, plain);
        len += put_frame(out + len, HTTP2_PING, 0, 0, (struct ls_bytes)BYTES("12345678"));
        len += put_frame(out + len, HTTP2_DATA, HTTP2_PADDED, id, padded);
        len +=
            put_frame(out + len, HTTP2_HEADERS, HTTP2_END_HEADERS | HTTP2_END_STREAM, id, trailer);
    }
    return (struct ls_bytes){ out, len };
}

static struct ls_bytes null_answer(uint32_t request, uint32_t nth)
{
    (void)request;
    (void)nth;
    return (struct ls_bytes)BYTES(".");
}

/* The suite's HTTP requests are messages as well as any others. */
#define KEY_PLACE "AAAAAAAAAAAAAAAAAAAAAA=="
#define UPGRADE   "GET / HTTP/1.1\r\nSec-WebSocket-Key: "

static const struct load_websocket websocket = {
    .handshake = BYTES(UPGRADE KEY_PLACE "\r\n\r\n"),
    .key_at = sizeof(UPGRADE) - 1,
    .binary = true,
};

static struct ls_bytes websocket_answer(uint32_t request, uint32_t nth)
{
    static const struct ls_bytes answers[LS_ARRAY_LEN(http_requests)] = {
        BYTES("\x82\x0dHello, World!"),
        BYTES("\x82\x00"),
        BYTES("\x02\x03"
              "abc"
              "\x8a\x00"
              "\x00\x00"
              "\x80\x01"
              "d"),
    };

    (void)nth;
    return answers[request];
}

static size_t websocket_greet(struct ls_bytes sent, uint8_t *out)
{
    char accept[WS_ACCEPT_BYTES];
    int len;

    assert_int_equal(sent.len, websocket.handshake.len);
    ws_accept_of((const char *)sent.data + websocket.key_at, accept);
    len = snprintf((char *)out, 512,
                   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                   "Connection: keep-alive, Upgrade\r\nSec-WebSocket-Accept: %.*s\r\n\r\n",
                   (int)sizeof(accept), accept);
    assert_true(len > 0);
    return (size_t)len;
}

/* Empty SETTINGS: everything as it is by default. */
static size_t http2_greet(struct ls_bytes sent, uint8_t *out)
{
    assert_true(sent.len > HTTP2_PREFACE_BYTES);
    assert_memory_equal(sent.data, HTTP2_PREFACE, HTTP2_PREFACE_BYTES);
    http2_put_head(out, 0, HTTP2_SETTINGS, 0, 0);
    return HTTP2_HEAD_BYTES;
}

/* A flawless peer for each driver. */
static const struct {
    const char *driver;
    struct ls_bytes (*answer)(uint32_t request, uint32_t nth);
    size_t (*greet)(struct ls_bytes sent, uint8_t *out);
} peers[] = {
    { "http1", http1_answer, NULL },
    { "http2", http2_answer, http2_greet },
    { "null", null_answer, NULL },
    { "websocket", websocket_answer, websocket_greet },
};

static void every_driver_passes_the_suite(void **state)
{
    struct load_workload workload = { .requests = http_requests,
                                      .request_count = LS_ARRAY_LEN(http_requests),
                                      .websocket = &websocket };
    const struct agent_driver *driver;

    (void)state;
    for (unsigned i = 0; (driver = agent_driver_at(i)) != NULL; i++) {
        size_t peer = 0;

        while (peer < LS_ARRAY_LEN(peers) && strcmp(peers[peer].driver, driver->name) != 0)
            peer++;
        if (peer == LS_ARRAY_LEN(peers))
            fail_msg("driver %s has no peer here: add one", driver->name);
        workload.http2 = strcmp(driver->name, "http2") == 0 ? http2_shared : NULL;
        workload.requests = workload.http2 != NULL ? http2_requests : http_requests;
        for (workload.pipeline = 1; workload.pipeline <= 5; workload.pipeline++) {
            struct driver_suite suite = { driver->name, &workload, peers[peer].answer,
                                          peers[peer].greet };

            driver_suite_run(&suite);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_driver_passes_the_suite) };

    return cmocka_run_group_tests_name("agent.drivers", tests, make_http2, free_http2);
}
