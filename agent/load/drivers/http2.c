/* agent/load/drivers/http2.c - HTTP/2 (RFC 9113), many requests at once on a connection.
 *
 * No request leaves before the server has said how many streams it allows: the preface goes out
 * when the connection opens, so that under a load that begins later nothing waits for it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/http2_conn.h"
#include "agent/load/http2_use.h"
#include "agent/load/variation.h"

#define CONTROL_BYTES       512u   /* beside 13 for each stream that may have to be reset */
#define STREAMS_DECODED_MAX 65536u /* connections x streams, where answers are to be decoded */

static enum ls_err check_request(const struct load_request *request, struct ls_diag *diag)
{
    if (request->bytes.len < HTTP2_HEAD_BYTES && request->varied == NULL)
        return ls_fail(diag, LS_EINVAL, "%s: the request has no bytes", request->label);
    return load_request_check_expected(request, diag);
}

static enum ls_err http2_check(const struct load_workload *workload, struct ls_diag *diag)
{
    uint64_t streams = (uint64_t)workload->connections * workload->pipeline;

    if (workload->request_count == 0 || workload->http2 == NULL)
        return ls_fail(diag, LS_EINVAL, "http2 needs at least one request");
    if (workload->pipeline < 1 || workload->pipeline > HTTP2_STREAMS_MAX)
        return ls_fail(diag, LS_ERANGE, "streams %" PRIu32 " is outside 1 to %u",
                       workload->pipeline, HTTP2_STREAMS_MAX);
    if (workload->gunzips && streams > STREAMS_DECODED_MAX)
        return ls_fail(diag, LS_ERANGE,
                       "%" PRIu32 " connections with %" PRIu32
                       " streams are too many to decode gzip on: at most %u together",
                       workload->connections, workload->pipeline, STREAMS_DECODED_MAX);
    for (uint32_t i = 0; i < workload->request_count; i++) {
        enum ls_err rc = check_request(&workload->requests[i], diag);

        if (rc != LS_OK)
            return rc;
    }
    return LS_OK;
}

static void http2_close(void *conn)
{
    struct http2_conn *c = conn;

    for (uint32_t i = 0; c->streams != NULL && i <= c->mask; i++)
        gunzip_destroy(c->streams[i].gunzip);
    free(c->streams);
    free(c->waiting);
    free(c->scratch);
    free(c->rendered);
    c->streams = NULL;
    c->waiting = NULL;
    c->scratch = NULL;
    c->rendered = NULL;
    c->over = true;
    c->open = c->count = 0;
    c->out.len = c->out_body.len = 0;
    c->control_len = 0;
}

/* Scratch, the control buffer and room for rendered requests. */
static enum ls_err open_buffers(struct http2_conn *c)
{
    const struct load_workload *w = c->env.workload;
    size_t scratch = http2_scratch_bytes(w);
    size_t encoded = w->rendered_max > 0 ? http2_encoded_max(w->rendered_max) : 0;

    c->control_cap = CONTROL_BYTES + 13 * c->asked;
    c->scratch = malloc(scratch + encoded + c->control_cap);
    if (c->scratch == NULL)
        return LS_ENOMEM;
    c->encoded = c->scratch + scratch;
    c->control = c->encoded + encoded;
    if (w->rendered_max > 0) {
        c->rendered = malloc(w->rendered_max + w->expected_max);
        if (c->rendered == NULL)
            return LS_ENOMEM;
        c->expected = c->rendered + w->rendered_max;
    }
    c->rendered_len = c->expected_len = SIZE_MAX; /* nothing yet */
    return LS_OK;
}

static enum ls_err open_streams(struct http2_conn *c)
{
    uint32_t places = 2;

    while (places < 2 * c->asked)
        places *= 2;
    c->mask = places - 1;
    c->streams = calloc(places, sizeof(*c->streams));
    c->waiting = calloc(c->asked, sizeof(*c->waiting));
    if (c->streams == NULL || c->waiting == NULL)
        return LS_ENOMEM;
    for (uint32_t i = 0; c->env.workload->gunzips && i < places; i++) {
        if (gunzip_create(&c->streams[i].gunzip) != LS_OK)
            return LS_ENOMEM;
    }
    return LS_OK;
}

static enum ls_err http2_open(void *conn, const struct agent_driver_env *env,
                              uint32_t *out_max_in_flight)
{
    static _Thread_local struct load_http2_use unread;
    struct http2_conn *c = conn;

    c->env = *env;
    c->shared = env->workload->http2;
    c->use = env->http2 != NULL ? env->http2 : &unread;
    c->asked = c->limit = env->workload->pipeline;
    c->next_id = 1;
    c->window = c->initial_window = HTTP2_WINDOW;
    c->table = HPACK_TABLE_MAX;
    c->sending = HTTP2_NO_STREAM;
    hpack_init(&c->hpack);
    if (open_streams(c) != LS_OK || open_buffers(c) != LS_OK)
        return LS_ENOMEM;
    http2_greet(c);
    *out_max_in_flight = c->asked;
    return LS_OK;
}

static enum ls_err http2_submit(void *conn, uint32_t op, uint64_t request)
{
    struct http2_conn *c = conn;
    const struct load_variation *varied;
    struct http2_waiting *waiting;
    struct load_turn turn;
    uint32_t at;

    if (c->over || c->going)
        return LS_ESTATE;
    if (c->open + c->count >= c->limit)
        return LS_EAGAIN;
    turn = load_workload_turn(c->env.workload, request);
    at = c->first + c->count;
    waiting = &c->waiting[at < c->asked ? at : at - c->asked];
    waiting->op = op;
    waiting->request = turn.request;
    varied = http2_request_of(c, turn.request)->varied;
    if (varied != NULL)
        waiting->at = load_variation_place(varied, turn.turn);
    c->count++;
    return LS_OK;
}

static enum ls_err http2_feed(void *conn, struct ls_bytes in)
{
    struct http2_conn *c = conn;
    enum ls_err rc;

    if (c->over)
        return LS_ECLOSED;
    c->heard++;
    rc = http2_take(c, in);
    if (rc != LS_OK)
        return rc;
    /* After GOAWAY what was begun has been answered; what waits finds another connection. */
    if (c->going && c->open == 0)
        return LS_ECLOSED;
    return http2_has_output(c) ? LS_EAGAIN : LS_OK;
}

static size_t http2_drain_conn(void *conn, uint8_t *out, size_t cap, uint32_t *out_ops)
{
    return http2_drain(conn, out, cap, out_ops);
}

static const char *why_ended(const struct http2_conn *c, enum load_outcome how, bool begun)
{
    switch (how) {
    case LOAD_TIMEOUT:
        return "no complete answer in time";
    case LOAD_RESET:
        return "reset by the peer";
    case LOAD_TLS_ERROR:
        return "TLS failed";
    case LOAD_CLOSED_EARLY:
        if (c->going && !begun)
            return "the server sent GOAWAY and takes no more requests";
        if (!c->settled)
            return "the server does not speak HTTP/2: it hung up on the preface";
        return begun ? "closed within the answer" : "closed without an answer";
    default:
        return "given up";
    }
}

static void http2_eof(void *conn, enum load_outcome how)
{
    struct http2_conn *c = conn;
    uint32_t place = c->next_id >> 1; /* the oldest of the ids that are close together */

    c->over = true;
    if (!c->parted)
        c->out.len = c->out_body.len = c->control_len = 0;
    for (uint32_t i = 0; c->open > 0 && i <= c->mask; i++) {
        struct http2_stream *s = &c->streams[(place + i) & c->mask];
        struct agent_reply reply = { .outcome = how,
                                     .status = s->head.status,
                                     .body_bytes = s->body_bytes };

        if (s->id == 0)
            continue;
        reply.why = why_ended(c, how, s->begun);
        http2_finish(c, s, &reply);
    }
    while (c->count > 0) {
        struct agent_reply reply = { .outcome = how, .why = why_ended(c, how, false) };
        uint32_t op = c->waiting[c->first].op;

        c->first = c->first + 1 < c->asked ? c->first + 1 : 0;
        c->count--;
        c->env.done(c->env.ctx, op, &reply);
    }
}

/* Streams are opened when the server has said how many it allows; none is a number that it may
 * raise (RFC 9113, 5.1.2). */
static enum agent_greeting http2_greeting(const void *conn)
{
    const struct http2_conn *c = conn;

    if (!c->settled)
        return AGENT_GREETS;
    return c->limit > 0 ? AGENT_READY : AGENT_WAITS;
}

static bool http2_cancel(void *conn, uint32_t op)
{
    struct http2_conn *c = conn;
    struct http2_stream *s = c->streams;

    while (s->id == 0 || s->op != op)
        s++;
    if (c->heard == s->heard)
        return false;
    http2_give_up(c, s);
    return true;
}

static bool http2_part_conn(void *conn)
{
    return http2_part(conn);
}

extern const struct agent_driver agent_driver_http2;

const struct agent_driver agent_driver_http2 = {
    .name = "http2",
    .conn_size = sizeof(struct http2_conn),
    .interleaves = true,
    .check = http2_check,
    .open = http2_open,
    .submit = http2_submit,
    .greeting = http2_greeting,
    .feed = http2_feed,
    .drain = http2_drain_conn,
    .eof = http2_eof,
    .close = http2_close,
    .cancel = http2_cancel,
    .part = http2_part_conn,
};
