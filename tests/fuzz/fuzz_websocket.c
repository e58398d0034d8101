/* WebSocket's driver on hostile bytes: the answer to the upgrade, frames behind a proper one, and
 * what is said in a room. The oracle: however the bytes are cut, the same operations end, each once
 * and in order, with the same outcome, and the same messages are counted. The first bytes of the
 * input choose what it is and where it is cut. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/driver.h"
#include "agent/load/ws_handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }
#define KEY_PLACE "AAAAAAAAAAAAAAAAAAAAAA=="
#define HELLO     "Hello, World! It is me."

enum { PIPELINE = 4, EVENTS_MAX = 16, PLAN_BYTES = 3 };
enum { HANDSHAKE = 1, ROOM = 2, BINARY = 4, DEFLATE = 8, ANYTHING = 16 };

struct run {
    const struct agent_driver *driver;
    struct agent_driver_env env;
    struct ls_rng rng;
    struct load_messages messages;
    uint32_t next; /* the operation to end next */
    uint32_t submitted;
    enum ls_err rc;
    uint32_t ok;
    struct agent_reply replies[EVENTS_MAX];
};

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void on_done(void *ctx, uint32_t op, const struct agent_reply *reply)
{
    struct run *run = ctx;

    demand(op == run->next && op < run->submitted && op < EVENTS_MAX);
    demand(reply->outcome < LOAD_OUTCOME_COUNT && reply->why != NULL);
    demand((reply->outcome == LOAD_OK) == (reply->why[0] == '\0'));
    run->replies[run->next++] = *reply;
    run->ok += reply->outcome == LOAD_OK;
}

static int64_t due(void *ctx, uint32_t op)
{
    (void)ctx;
    return 64 * (int64_t)op;
}

static void delivered(void *ctx, uint64_t due_ns)
{
    (void)ctx;
    demand(due_ns < UINT64_C(1) << 48);
}

/* A proper answer to what the driver asks. */
static size_t agree(const struct run *run, const uint8_t *asked, unsigned mode, char *out)
{
    const struct load_websocket *websocket = run->env.workload->websocket;
    char accept[WS_ACCEPT_BYTES];
    int len;

    ws_accept_of((const char *)asked + websocket->key_at, accept);
    len = snprintf(out, 400,
                   "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Accept: %.*s\r\n%s\r\n",
                   (int)sizeof(accept), accept,
                   (mode & DEFLATE) != 0 ? "Sec-WebSocket-Extensions: permessage-deflate\r\n" : "");
    demand(len > 0 && len < 400);
    return (size_t)len;
}

/* Every piece is a copy of its own, so that a sanitizer sees reads beyond it. */
static enum ls_err feed(struct run *run, void *conn, const void *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    uint8_t out[512];
    enum ls_err rc;

    demand(copy != NULL);
    memcpy(copy, data, len);
    rc = run->driver->feed(conn, (struct ls_bytes){ copy, len });
    free(copy);
    if (rc == LS_EAGAIN) {
        while (run->driver->drain(conn, out, sizeof(out), NULL) > 0) {}
        rc = LS_OK;
    }
    return rc;
}

static size_t cut(uint32_t *seed, size_t left)
{
    size_t n;

    *seed = *seed * 1664525u + 1013904223u;
    n = 1 + (*seed >> 16) % 9;
    return n < left ? n : left;
}

static void drive(struct run *run, const struct load_workload *workload, const uint8_t *plan,
                  const uint8_t *data, size_t len, bool whole)
{
    void *conn;
    void *shared = NULL;
    uint32_t seed = plan[1];
    uint32_t most = 0;
    uint8_t out[1024];
    char answer[400];

    *run = (struct run){ .driver = agent_driver_find("websocket") };
    ls_rng_init(&run->rng, 1, 1);
    run->env = (struct agent_driver_env){ .workload = workload,
                                          .done = on_done,
                                          .ctx = run,
                                          .rng = &run->rng,
                                          .messages = &run->messages,
                                          .due = due,
                                          .delivered = delivered };
    conn = calloc(1, run->driver->conn_size);
    demand(conn != NULL);
    demand(run->driver->share(&run->env, 1, &shared, NULL) == LS_OK);
    run->env.shared = shared;
    demand(run->driver->open(conn, &run->env, &most) == LS_OK && most == PIPELINE);
    (void)run->driver->drain(conn, out, sizeof(out), NULL);
    if ((plan[0] & HANDSHAKE) == 0)
        run->rc = feed(run, conn, answer, agree(run, out, plan[0], answer));
    for (unsigned i = 0; i < plan[2] % (PIPELINE + 1u) && run->rc == LS_OK; i++) {
        run->submitted++;
        if (run->driver->submit(conn, i, i) != LS_OK)
            run->submitted--;
    }
    (void)run->driver->drain(conn, out, sizeof(out), NULL);
    for (size_t at = 0; at < len && run->rc == LS_OK;) {
        size_t n = whole ? len : cut(&seed, len - at);

        run->rc = feed(run, conn, data + at, n);
        at += n;
    }
    run->driver->eof(conn, (plan[2] & 128) != 0 ? LOAD_RESET : LOAD_CLOSED_EARLY);
    demand(run->next == run->submitted);
    run->driver->close(conn);
    if (shared != NULL)
        run->driver->balance(shared);
    run->driver->unshare(shared);
    demand(run->messages.expected == run->messages.received + run->messages.lost);
    free(conn);
}

static void compare(const struct load_workload *workload, const uint8_t *plan, const uint8_t *data,
                    size_t len)
{
    static struct run whole;
    static struct run pieces;

    drive(&whole, workload, plan, data, len, true);
    drive(&pieces, workload, plan, data, len, false);
    demand(whole.rc == pieces.rc && whole.next == pieces.next && whole.ok == pieces.ok);
    for (unsigned i = 0; i < whole.next; i++) {
        demand(whole.replies[i].outcome == pieces.replies[i].outcome);
        demand(strcmp(whole.replies[i].why, pieces.replies[i].why) == 0);
    }
    demand(memcmp(&whole.messages, &pieces.messages, sizeof(whole.messages)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct load_room room = {
        .ready = BYTES("ready"), .named = true, .between = BYTES(": "), .to_sender = true
    };
    struct load_request request = { .bytes = BYTES(HELLO),
                                    .label = "hello",
                                    .expect_body = BYTES(HELLO),
                                    .expect_body_given = true };
    struct load_websocket websocket = { .handshake = BYTES(KEY_PLACE) };
    struct load_workload workload = { .driver = "websocket",
                                      .requests = &request,
                                      .request_count = 1,
                                      .websocket = &websocket,
                                      .pipeline = PIPELINE,
                                      .connections = 1,
                                      .workers = 1,
                                      .workers_total = 1 };

    if (size < PLAN_BYTES)
        return 0;
    websocket.binary = (data[0] & BINARY) != 0;
    websocket.deflate = websocket.server_takeover = (data[0] & DEFLATE) != 0;
    websocket.room = (data[0] & ROOM) != 0 ? &room : NULL;
    request.expect_body_given = (data[0] & ANYTHING) == 0;
    compare(&workload, data, data + PLAN_BYTES, size - PLAN_BYTES);
    return 0;
}
