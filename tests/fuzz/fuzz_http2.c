/* The HTTP/2 driver on hostile frames. The oracle: what comes out does not depend on how the bytes
 * are cut, and each operation ends exactly once. The first bytes of the input choose requests, cuts
 * and the end; what follows is what a server says after its first SETTINGS. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/driver.h"
#include "agent/load/http2_frame.h"
#include "agent/load/http2_request.h"
#include "agent/load/http2_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }

enum { STREAMS = 5, REQUESTS = 3, PLAN = 3 };

static const struct load_request texts[REQUESTS] = {
    { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
      .label = "a",
      .expect_status = 200,
      .expect_body_given = true,
      .expect_body = BYTES("Hello, World!") },
    { .bytes = BYTES("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "b", .no_body = true },
    { .bytes = BYTES("POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde"),
      .label = "c" },
};

static struct load_request requests[REQUESTS];
static struct load_workload workload = { .driver = "http2",
                                         .requests = requests,
                                         .request_count = REQUESTS,
                                         .connections = 1,
                                         .pipeline = STREAMS };

struct run {
    enum ls_err rc;
    uint32_t submitted;
    uint32_t ended;
    bool ends[STREAMS];
    struct agent_reply replies[STREAMS];
    struct load_http2_use use;
    size_t said;
    uint8_t out[1 << 16];
};

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void make_workload(void)
{
    static unsigned char frames[REQUESTS][256];
    static struct load_http2 *shared;
    struct ls_bytes heads[REQUESTS];

    if (shared != NULL)
        return;
    for (unsigned i = 0; i < REQUESTS; i++)
        heads[i] = texts[i].bytes;
    demand(http2_shared_create(heads, REQUESTS, false, &shared, NULL) == LS_OK);
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct ls_bytes body;
        size_t len = http2_encode(shared, texts[i].bytes, false, frames[i], &body);

        memcpy(frames[i] + len, body.data, body.len);
        requests[i] = texts[i];
        requests[i].bytes = (struct ls_bytes){ frames[i], len + body.len };
        shared->frame_max = sizeof(frames[i]);
    }
    workload.http2 = shared;
}

static void on_done(void *ctx, uint32_t op, const struct agent_reply *reply)
{
    struct run *run = ctx;

    demand(op < run->submitted && !run->ends[op]);
    demand(reply->outcome < LOAD_OUTCOME_COUNT && reply->why != NULL);
    demand((reply->outcome == LOAD_OK) == (reply->why[0] == '\0'));
    run->ends[op] = true;
    run->replies[op] = *reply;
    run->ended++;
}

static void drain(const struct agent_driver *driver, void *conn, struct run *run)
{
    size_t n;

    do {
        n = driver->drain(conn, run->out + run->said, sizeof(run->out) - run->said, NULL);
        run->said += n;
    } while (n > 0 && run->said < sizeof(run->out));
}

/* Every piece is a copy of its own, so that a sanitizer sees reads beyond it. */
static enum ls_err feed_copy(const struct agent_driver *driver, void *conn, const uint8_t *data,
                             size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    enum ls_err rc;

    demand(copy != NULL);
    memcpy(copy, data, len);
    rc = driver->feed(conn, (struct ls_bytes){ copy, len });
    free(copy);
    return rc == LS_EAGAIN ? LS_OK : rc;
}

static void drive(struct run *run, const uint8_t *plan, const uint8_t *data, size_t len, bool whole)
{
    static const uint8_t settings[HTTP2_HEAD_BYTES] = { 0, 0, 0, HTTP2_SETTINGS };
    static const enum load_outcome ends[] = { LOAD_CLOSED_EARLY, LOAD_RESET, LOAD_TIMEOUT };
    const struct agent_driver *driver = agent_driver_find("http2");
    struct agent_driver_env env = {
        .workload = &workload, .done = on_done, .ctx = run, .http2 = &run->use
    };
    void *conn = calloc(1, driver->conn_size);
    uint32_t seed = plan[1];
    uint32_t most = 0;

    demand(conn != NULL);
    memset(run, 0, offsetof(struct run, out));
    demand(driver->open(conn, &env, &most) == LS_OK && most == STREAMS);
    for (unsigned i = 0; i < 1 + plan[0] % STREAMS; i++) {
        run->submitted++;
        demand(driver->submit(conn, i, plan[0] + i) == LS_OK);
    }
    demand(feed_copy(driver, conn, settings, sizeof(settings)) == LS_OK);
    drain(driver, conn, run);
    for (size_t at = 0; at < len && run->rc == LS_OK;) {
        size_t n = len - at;

        seed = seed * 1664525u + 1013904223u;
        if (!whole && n > 1 + (seed >> 24) % 40)
            n = 1 + (seed >> 24) % 40;
        run->rc = feed_copy(driver, conn, data + at, n);
        at += n;
    }
    drain(driver, conn, run);
    driver->eof(conn, ends[plan[2] % LS_ARRAY_LEN(ends)]);
    demand(run->ended == run->submitted);
    driver->close(conn);
    free(conn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run whole;
    static struct run pieces;

    if (size < PLAN)
        return 0;
    make_workload();
    drive(&whole, data, data + PLAN, size - PLAN, true);
    drive(&pieces, data, data + PLAN, size - PLAN, false);
    demand(whole.rc == pieces.rc && whole.said == pieces.said);
    demand(memcmp(whole.out, pieces.out, whole.said) == 0);
    demand(memcmp(&whole.use, &pieces.use, sizeof(whole.use)) == 0);
    for (uint32_t i = 0; i < whole.submitted; i++) {
        const struct agent_reply *a = &whole.replies[i];
        const struct agent_reply *b = &pieces.replies[i];

        demand(a->outcome == b->outcome && a->status == b->status && a->again == b->again);
        demand(a->body_bytes == b->body_bytes && a->mismatch_at == b->mismatch_at);
        demand(strcmp(a->why, b->why) == 0);
    }
    return 0;
}
