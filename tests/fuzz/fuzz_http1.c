/* The HTTP/1 parser and driver on hostile bytes. The oracle: what comes out must not depend on how
 * the bytes are cut, each operation ends exactly once and in order, and the body bytes that are
 * reported are bytes that came. The first bytes of the input choose requests, cuts and the end. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/driver.h"
#include "agent/load/http1_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }

enum { PIPELINE = 5, EVENTS_MAX = 64 };

static const struct load_request requests[] = {
    { .bytes = BYTES("GET / HTTP/1.1\r\n\r\n"),
      .label = "a",
      .expect_status = 200,
      .expect_body_given = true,
      .expect_body = BYTES("Hello, World!") },
    { .bytes = BYTES("HEAD / HTTP/1.1\r\n\r\n"), .label = "b", .no_body = true },
    { .bytes = BYTES("GET /any HTTP/1.1\r\n\r\n"), .label = "c" },
    { .bytes = BYTES("GET /last HTTP/1.1\r\n\r\n"), .label = "d", .closes = true },
};

static const struct load_workload workload = { .driver = "http1",
                                               .requests = requests,
                                               .request_count = LS_ARRAY_LEN(requests),
                                               .pipeline = PIPELINE };

struct run {
    uint32_t next; /* the operation to end next */
    uint32_t submitted;
    enum ls_err rc;
    unsigned count;
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

    demand(op == run->next && op < run->submitted);
    demand(reply->outcome < LOAD_OUTCOME_COUNT && reply->why != NULL);
    demand((reply->outcome == LOAD_OK) == (reply->why[0] == '\0'));
    demand(run->count < EVENTS_MAX);
    run->next++;
    run->replies[run->count++] = *reply;
}

static void on_done_alike(void *ctx, const uint32_t *ops, uint32_t count,
                          const struct agent_reply *reply)
{
    demand(count > 0 && reply->outcome == LOAD_OK);
    for (uint32_t i = 0; i < count; i++)
        on_done(ctx, ops[i], reply);
}

/* A piece's length: drawn from the seed, mostly short. */
static size_t cut(uint32_t *seed, size_t left)
{
    size_t n;

    *seed = *seed * 1664525u + 1013904223u;
    n = (*seed >> 24) < 200 ? 1 + (*seed >> 16) % 8 : 1 + (*seed >> 8) % 300;
    return n < left ? n : left;
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
    return rc;
}

static void drive(struct run *run, const uint8_t *plan, const uint8_t *data, size_t len, bool whole)
{
    static const enum load_outcome ends[] = { LOAD_CLOSED_EARLY, LOAD_CLOSED_EARLY, LOAD_RESET,
                                              LOAD_TIMEOUT };
    const struct agent_driver *driver = agent_driver_find("http1");
    struct agent_driver_env env = { .workload = &workload,
                                    .done = on_done,
                                    .done_alike = whole ? on_done_alike : NULL,
                                    .ctx = run };
    void *conn = calloc(1, driver->conn_size);
    uint32_t seed = plan[2];
    uint32_t most = 0;
    uint8_t out[256];

    demand(conn != NULL);
    memset(run, 0, sizeof(*run));
    demand(driver->open(conn, &env, &most) == LS_OK && most == PIPELINE);
    for (unsigned i = 0; i < plan[0] % (PIPELINE + 1u); i++) {
        run->submitted++;
        if (driver->submit(conn, i, plan[1] + i * (plan[1] >> 4)) != LS_OK)
            run->submitted--;
    }
    (void)driver->drain(conn, out, plan[0] < 128 ? sizeof(out) : plan[0] % 40u, NULL);
    for (size_t at = 0; at < len && run->rc == LS_OK;) {
        size_t n = whole ? len : cut(&seed, len - at);

        run->rc = feed_copy(driver, conn, data + at, n);
        at += n;
    }
    driver->eof(conn, ends[plan[3] % LS_ARRAY_LEN(ends)]);
    demand(run->next == run->submitted);
    driver->close(conn);
    free(conn);
}

static void compare_drives(const uint8_t *plan, const uint8_t *data, size_t len)
{
    static struct run whole;
    static struct run pieces;

    drive(&whole, plan, data, len, true);
    drive(&pieces, plan, data, len, false);
    demand(whole.rc == pieces.rc && whole.count == pieces.count);
    for (unsigned i = 0; i < whole.count; i++) {
        const struct agent_reply *a = &whole.replies[i];
        const struct agent_reply *b = &pieces.replies[i];

        demand(a->outcome == b->outcome && a->status == b->status);
        demand(a->body_bytes == b->body_bytes && a->mismatch_at == b->mismatch_at);
        demand(strcmp(a->why, b->why) == 0 && a->body_bytes <= len);
    }
}

/* What a parser saw, in short. */
#define REASON_AT 13u /* "HTTP/1.1 200 " */

struct sight {
    struct http1_template *template; /* NULL: none is used */
    unsigned flags;
    uint64_t hash;
    uint64_t body_bytes;
    enum http1_step last;
    bool begun;
    char reason[HTTP1_REASON_KEPT];
    struct http1_parser parser;
};

static void mix(struct sight *sight, uint64_t value)
{
    sight->hash = (sight->hash ^ value) * UINT64_C(0x100000001b3);
}

static void mix_head(struct sight *sight)
{
    const struct http1_parser *p = &sight->parser;

    mix(sight, p->status);
    mix(sight, p->content_length);
    mix(sight, p->framing * 8u + p->keep_alive * 4u + p->reason_given * 2u + p->minor);
    for (size_t i = 0; i < p->reason_len; i++)
        mix(sight, (unsigned char)sight->reason[i]);
}

/* What is common to a head that was parsed and one that was known. */
static void begin(struct sight *sight, struct ls_bytes *in)
{
    sight->begun = true;
    if (sight->template != NULL &&
        http1_template_use(sight->template, sight->flags, in, &sight->parser)) {
        memcpy(sight->reason, sight->template->head + REASON_AT, sight->parser.reason_len);
        mix_head(sight);
    } else {
        http1_begin(&sight->parser, sight->flags);
        sight->parser.reason = sight->reason;
    }
}

static void note(struct sight *sight, enum http1_step step, struct ls_bytes body,
                 struct ls_bytes head)
{
    if (step == HTTP1_BODY) {
        demand(body.len > 0);
        sight->body_bytes += body.len;
        for (size_t i = 0; i < body.len; i++)
            mix(sight, body.data[i]);
    } else if (step == HTTP1_INTERIM) {
        mix(sight, 1000u + sight->parser.status);
    } else if (step == HTTP1_HEAD) {
        mix_head(sight);
        if (sight->template != NULL && head.data != NULL && sight->parser.interims == 0)
            http1_template_learn(sight->template, head, &sight->parser);
    } else if (step == HTTP1_DONE) {
        mix(sight, 2000u + sight->parser.trailers);
        sight->begun = false;
    }
}

/* One piece. False: nothing more is to come. */
static bool look(struct sight *sight, struct ls_bytes in)
{
    const unsigned char *end = in.data + in.len;

    for (unsigned idle = 0; in.len > 0 || sight->begun;) {
        const unsigned char *start = sight->begun ? NULL : in.data;
        size_t before = in.len;

        if (!sight->begun)
            begin(sight, &in);
        do {
            struct ls_bytes body = { NULL, 0 };

            sight->last = http1_parse(&sight->parser, &in, &body);
            demand(in.len <= before && in.data + in.len == end);
            demand(body.data == NULL || body.data + body.len <= end);
            note(sight, sight->last, body,
                 (struct ls_bytes){ start, start != NULL ? (size_t)(in.data - start) : 0 });
        } while (sight->last != HTTP1_MORE && sight->last != HTTP1_BAD && sight->begun);
        if (sight->last == HTTP1_BAD)
            return false;
        if (sight->last == HTTP1_MORE) {
            demand(in.len == 0);
            return true;
        }
        demand(in.len < before || idle++ == 0);
    }
    return true;
}

static struct sight see(struct http1_template *template, const uint8_t *plan, const uint8_t *data,
                        size_t len, bool whole)
{
    struct sight sight = { .template = template,
                           .flags = plan[1] & (HTTP1_TO_HEAD | HTTP1_TO_UPGRADE),
                           .hash = 1 };
    uint32_t seed = plan[2];
    bool more = true;

    for (size_t at = 0; at < len && more;) {
        size_t n = whole ? len : cut(&seed, len - at);

        more = look(&sight, (struct ls_bytes){ data + at, n });
        at += n;
    }
    return sight;
}

static void demand_equal(struct sight a, struct sight b)
{
    demand(a.hash == b.hash && a.body_bytes == b.body_bytes);
    demand(a.last == b.last && a.begun == b.begun);
    if (a.last == HTTP1_BAD)
        demand(strcmp(a.parser.why, b.parser.why) == 0);
    if (a.begun)
        demand(http1_end(&a.parser) == http1_end(&b.parser));
}

static void compare_sights(const uint8_t *plan, const uint8_t *data, size_t len)
{
    struct http1_template template = { .len = 0 };
    struct sight strict = see(NULL, plan, data, len, true);
    uint8_t *near = malloc(len + 1);

    demand_equal(strict, see(NULL, plan, data, len, false));
    /* With templates that were learned from bytes that differ in two places, then from these. */
    demand(near != NULL);
    memcpy(near, data, len);
    if (len > 0) {
        near[plan[3] % len] ^= plan[0];
        near[(plan[2] + 256u) % len] ^= 1;
    }
    (void)see(&template, plan, near, len, true);
    free(near);
    for (unsigned i = 0; i < 2; i++) {
        demand_equal(strict, see(&template, plan, data, len, true));
        demand_equal(strict, see(&template, plan, data, len, false));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { PLAN = 4 };

    if (size < PLAN)
        return 0;
    compare_drives(data, data + PLAN, size - PLAN);
    compare_sights(data, data + PLAN, size - PLAN);
    return 0;
}
