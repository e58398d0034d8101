/* agent/load/drivers/http1.c - HTTP/1.1 with keep-alive and pipelining; answers come in the order
 * of the requests. Requests are sent as they were prepared; answers are http1_in.c's. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/http1_conn.h"

#define PIPELINE_MAX 4096u

static enum ls_err check_request(const struct load_request *request, struct ls_diag *diag)
{
    if (request->bytes.len == 0 && request->varied == NULL)
        return ls_fail(diag, LS_EINVAL, "%s: the request has no bytes", request->label);
    return load_request_check_expected(request, diag);
}

static enum ls_err http1_check(const struct load_workload *workload, struct ls_diag *diag)
{
    if (workload->request_count == 0)
        return ls_fail(diag, LS_EINVAL, "http1 needs at least one request");
    if (workload->pipeline < 1 || workload->pipeline > PIPELINE_MAX)
        return ls_fail(diag, LS_ERANGE, "pipeline %" PRIu32 " is outside 1 to %u",
                       workload->pipeline, PIPELINE_MAX);
    for (uint32_t i = 0; i < workload->request_count; i++) {
        enum ls_err rc = check_request(&workload->requests[i], diag);

        if (rc != LS_OK)
            return rc;
    }
    return LS_OK;
}

static enum ls_err open_extra(struct http1_conn *c)
{
    const struct load_workload *workload = c->env->workload;

    if (workload->rendered_max == 0 && !workload->gunzips)
        return LS_OK;
    c->extra = calloc(1, sizeof(*c->extra) + workload->rendered_max + workload->expected_max);
    if (c->extra == NULL)
        return LS_ENOMEM;
    c->extra->expected = c->extra->rendered + workload->rendered_max;
    return workload->gunzips ? gunzip_create(&c->extra->gunzip) : LS_OK;
}

static void close_extra(struct http1_conn *c)
{
    if (c->extra == NULL)
        return;
    gunzip_destroy(c->extra->gunzip);
    free(c->extra);
    c->extra = NULL;
}

static enum ls_err http1_open(void *conn, const struct agent_driver_env *env,
                              uint32_t *out_max_in_flight)
{
    struct http1_conn *c = conn;

    c->env = env;
    c->cap = env->workload->pipeline;
    c->ring = c->cap == 1 ? &c->one : calloc(c->cap, sizeof(*c->ring));
    if (c->ring == NULL)
        return LS_ENOMEM;
    if (open_extra(c) != LS_OK)
        return LS_ENOMEM;
    *out_max_in_flight = c->cap;
    return LS_OK;
}

static void http1_close(void *conn)
{
    struct http1_conn *c = conn;

    if (c->ring != &c->one)
        free(c->ring);
    c->ring = NULL;
    close_extra(c);
    c->over = true;
    c->count = 0;
    c->unsent = 0;
}

static enum ls_err http1_submit(void *conn, uint32_t op, uint64_t request)
{
    struct http1_conn *c = conn;
    const struct load_workload *workload = c->env->workload;
    const struct load_request *asked;
    struct load_turn turn;
    uint64_t at = 0;

    if (c->over || c->unsolicited)
        return LS_ESTATE;
    if (c->count == c->cap || c->closing)
        return LS_EAGAIN;
    turn = load_workload_turn(workload, request);
    asked = &workload->requests[turn.request];
    if (asked->varied != NULL)
        at = load_variation_place(asked->varied, turn.turn);
    *http1_ring_at(c, c->count) = (struct http1_op){ .op = op, .request = turn.request, .at = at };
    c->closing = asked->closes;
    c->count++;
    c->unsent++;
    return LS_OK;
}

/* A load with one request for all turns, which most are. */
static uint32_t submit_turns(struct http1_conn *c, const uint32_t *ops, uint32_t count,
                             uint64_t turn)
{
    const struct load_variation *varied = c->env->workload->requests->varied;
    uint64_t at = varied != NULL ? load_variation_place(varied, turn) : 0;

    for (uint32_t i = 0; i < count; i++) {
        if (varied != NULL && i > 0)
            at = load_variation_next(varied, turn + i, at);
        *http1_ring_at(c, c->count + i) = (struct http1_op){ .op = ops[i], .request = 0, .at = at };
    }
    c->count += count;
    c->unsent += count;
    return count;
}

static uint32_t http1_submit_all(void *conn, const uint32_t *ops, uint32_t count, uint64_t request)
{
    struct http1_conn *c = conn;
    const struct load_workload *workload = c->env->workload;
    uint32_t room = c->cap - c->count;
    uint32_t taken = 0;

    if (workload->mix == NULL && workload->request_count == 1 && !workload->requests->closes) {
        if (c->over || c->unsolicited)
            return 0;
        return submit_turns(c, ops, count < room ? count : room, request);
    }
    while (taken < count && http1_submit(c, ops[taken], request + taken) == LS_OK)
        taken++;
    return taken;
}

static void send_begin(struct http1_conn *c, const struct http1_op *op)
{
    const struct load_request *request = http1_request_of(c, op);
    const struct load_variation *varied = request->varied;

    if (varied == NULL) {
        c->out = request->bytes;
        return;
    }
    if (varied->table != NULL)
        c->out = (struct ls_bytes){ varied->table[op->at].bytes, varied->table[op->at].len };
    else
        c->out = (struct ls_bytes){ c->extra->rendered,
                                    load_variation_render(varied, op->at, c->extra->rendered) };
    c->out_body = varied->fixed_body;
}

/* Those behind op whose renderings lie behind its own, as they do in a table that is walked
 * through, leave with it: as many as begin within cap bytes. */
static uint32_t send_along(struct http1_conn *c, const struct http1_op *op, size_t cap)
{
    const struct load_variation *varied = http1_request_of(c, op)->varied;
    uint32_t ops = 0;

    if (varied == NULL || varied->table == NULL || varied->fixed_body.len > 0)
        return 0;
    while (c->unsent > 0 && c->out.len < cap) {
        const struct http1_op *next = http1_ring_at(c, c->count - c->unsent);

        if (next->request != op->request ||
            varied->table[next->at].bytes != c->out.data + c->out.len)
            break;
        c->out.len += varied->table[next->at].len;
        c->unsent--;
        ops++;
    }
    return ops;
}

/* Begins with the oldest one that is not sent yet; how many leave with it. */
static uint32_t send_next(struct http1_conn *c, size_t cap)
{
    const struct http1_op *op = http1_ring_at(c, c->count - c->unsent);

    send_begin(c, op);
    c->unsent--;
    return c->unsent > 0 ? 1 + send_along(c, op, cap) : 1;
}

static size_t http1_drain(void *conn, uint8_t *out, size_t cap, uint32_t *out_ops)
{
    struct http1_conn *c = conn;
    uint32_t ops = 0;
    size_t len = 0;

    if (c->over || c->unsolicited)
        return 0;
    while (len < cap && (c->out.len > 0 || c->out_body.len > 0 || c->unsent > 0)) {
        size_t n = cap - len;

        if (c->out.len == 0 && c->out_body.len > 0) {
            c->out = c->out_body;
            c->out_body.len = 0;
        } else if (c->out.len == 0) {
            ops += send_next(c, n);
        }
        if (n > c->out.len)
            n = c->out.len;
        memcpy(out + len, c->out.data, n);
        c->out.data += n;
        c->out.len -= n;
        len += n;
    }
    if (out_ops != NULL)
        *out_ops += ops;
    return len;
}

extern const struct agent_driver agent_driver_http1;

const struct agent_driver agent_driver_http1 = {
    .name = "http1",
    .conn_size = sizeof(struct http1_conn),
    .check = http1_check,
    .open = http1_open,
    .submit = http1_submit,
    .submit_all = http1_submit_all,
    .feed = http1_feed,
    .drain = http1_drain,
    .eof = http1_eof,
    .close = http1_close,
};
