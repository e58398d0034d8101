/* Every driver there is passes the one suite. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

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

static struct ls_bytes http1_answer(uint32_t request)
{
    static const struct ls_bytes answers[LS_ARRAY_LEN(http_requests)] = {
        BYTES(OK_HEAD "Hello, World!"),
        BYTES(OK_HEAD),
        BYTES("HTTP/1.1 100 Continue\r\n\r\n"
              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    };

    return answers[request];
}

static struct ls_bytes null_answer(uint32_t request)
{
    (void)request;
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

static struct ls_bytes websocket_answer(uint32_t request)
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

/* A flawless peer for each driver. */
static const struct {
    const char *driver;
    struct ls_bytes (*answer)(uint32_t request);
    size_t (*greet)(struct ls_bytes sent, uint8_t *out);
} peers[] = {
    { "http1", http1_answer, NULL },
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

    return cmocka_run_group_tests_name("agent.drivers", tests, NULL, NULL);
}
