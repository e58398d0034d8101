/* agent/load/drivers/http1.c - HTTP/1.1 with keep-alive and pipelining; answers come in the order
 * of the requests. Requests are sent as they were prepared; every answer is parsed and compared. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/driver.h"
#include "agent/load/gunzip.h"
#include "agent/load/http1_parse.h"
#include "agent/load/http1_template.h"
#include "agent/load/variation.h"

#define PIPELINE_MAX 4096u

/* Requests of a rotation may get different heads: request i uses template i modulo this. */
#define TEMPLATES 8u

struct op {
    uint32_t op;
    uint32_t request; /* index into the workload's requests */
    uint64_t at;      /* of a request that varies: place in its table, or turn if it has none */
};

/* What only some loads need: requests that are rendered when they are sent, bodies that are
 * decoded. */
struct extra {
    struct gunzip *gunzip; /* owned; NULL: nothing is decoded */
    const char *undecoded; /* static text: why the body could not be decoded */
    unsigned char
        *expected; /* the body expected for what was rendered; behind it in the same block */
    unsigned char rendered[];
};

struct http1_conn {
    const struct agent_driver_env *env;
    struct ls_bytes out;      /* what is left of the request that is being sent */
    struct ls_bytes out_body; /* ... and comes behind that */
    struct ls_bytes expect;   /* the body that answers the oldest operation, once that has begun */
    struct extra *extra;      /* owned; NULL: not needed */

    /* Operations without an answer: count of them from first on, the last unsent of which have not
     * begun to be sent. The answer to one may be complete before the request is (out). */
    struct op *ring; /* &one, or owned; NULL: closed */
    struct op one;
    uint32_t cap;
    uint32_t first;
    uint32_t count;
    uint32_t unsent; /* of no meaning once it is over */

    bool over;        /* takes and gives nothing more; eof() reports what is left */
    bool closing;     /* a request that says "Connection: close" was submitted */
    bool begun;       /* the parser is in a response */
    bool unsolicited; /* ... that nobody asked for */
    bool differs;     /* the body is not the expected one from mismatch_at on */
    uint64_t body_bytes;
    uint64_t mismatch_at;
    struct http1_parser parser;
};

static const struct load_request *request_of(const struct http1_conn *c, const struct op *op)
{
    return &c->env->workload->requests[op->request];
}

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

static struct op *ring_at(struct http1_conn *c, uint32_t i)
{
    uint32_t at = c->first + i; /* both are below PIPELINE_MAX */

    return &c->ring[at < c->cap ? at : at - c->cap];
}

static enum ls_err http1_submit(void *conn, uint32_t op, uint64_t request)
{
    struct http1_conn *c = conn;
    const struct load_variation *varied;
    struct load_turn turn;
    struct op *slot;

    if (c->over || c->unsolicited)
        return LS_ESTATE;
    if (c->count == c->cap || c->closing)
        return LS_EAGAIN;
    turn = load_workload_turn(c->env->workload, request);
    slot = ring_at(c, c->count);
    slot->op = op;
    slot->request = turn.request;
    varied = request_of(c, slot)->varied;
    if (varied != NULL)
        slot->at = load_variation_place(varied, turn.turn);
    c->closing = request_of(c, slot)->closes;
    c->count++;
    c->unsent++;
    return LS_OK;
}

static void send_begin(struct http1_conn *c, const struct op *op)
{
    const struct load_request *request = request_of(c, op);
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

static size_t http1_drain(void *conn, uint8_t *out, size_t cap, uint32_t *out_ops)
{
    struct http1_conn *c = conn;
    size_t len = 0;

    if (c->over || c->unsolicited)
        return 0;
    while (len < cap && (c->out.len > 0 || c->out_body.len > 0 || c->unsent > 0)) {
        size_t n = cap - len;

        if (c->out.len == 0 && c->out_body.len > 0) {
            c->out = c->out_body;
            c->out_body.len = 0;
        } else if (c->out.len == 0) {
            send_begin(c, ring_at(c, c->count - c->unsent));
            c->unsent--;
            if (out_ops != NULL)
                (*out_ops)++;
        }
        if (n > c->out.len)
            n = c->out.len;
        memcpy(out + len, c->out.data, n);
        c->out.data += n;
        c->out.len -= n;
        len += n;
    }
    return len;
}

/* --- Answers --- */

/* Shared by the connections of a worker, which is one thread; only ever a short cut. */
static _Thread_local struct http1_template templates[TEMPLATES];

static struct http1_template *template_of(struct http1_conn *c)
{
    return &templates[ring_at(c, 0)->request % TEMPLATES];
}

/* The body that answers op. */
static struct ls_bytes expect_of(struct http1_conn *c, const struct load_request *request,
                                 const struct op *op)
{
    const struct load_variation *varied = request->varied;

    if (varied == NULL || !varied->expect_varies)
        return request->expect_body;
    if (varied->table != NULL)
        return (struct ls_bytes){ varied->table[op->at].expect, varied->table[op->at].expect_len };
    return (struct ls_bytes){ c->extra->expected,
                              load_variation_expect(varied, op->at, c->extra->expected) };
}

/* Takes the head as well if it is a known one. */
static void answer_begin(struct http1_conn *c, struct ls_bytes *in)
{
    const struct op *op = ring_at(c, 0);
    const struct load_request *request = request_of(c, op);
    unsigned flags = request->no_body ? HTTP1_TO_HEAD : 0;

    c->begun = true;
    c->body_bytes = 0;
    c->mismatch_at = 0;
    c->differs = false;
    c->expect = expect_of(c, request, op);
    if (LS_UNLIKELY(request->gunzip)) {
        c->extra->undecoded = NULL;
        gunzip_begin(c->extra->gunzip);
    }
    if (!http1_template_use(template_of(c), flags, in, &c->parser))
        http1_begin(&c->parser, flags);
}

/* start: where the answer began, if that is in the same piece as the end of its head. */
static void head_done(struct http1_conn *c, const unsigned char *start, const unsigned char *end)
{
    if (start != NULL && c->parser.interims == 0)
        http1_template_learn(template_of(c), (struct ls_bytes){ start, (size_t)(end - start) },
                             &c->parser);
}

/* False: it differs, so that the rest is of no interest. */
static bool compare_body(void *conn, struct ls_bytes body)
{
    struct http1_conn *c = conn;
    uint64_t at = c->body_bytes;
    size_t n;

    c->body_bytes += body.len;
    if (c->differs)
        return false;
    if (!request_of(c, ring_at(c, 0))->expect_body_given)
        return true;
    /* Nothing differed so far, so at is within the expected body. */
    n = c->expect.len - (size_t)at;
    if (n > body.len)
        n = body.len;
    if (n > 0 && memcmp(c->expect.data + at, body.data, n) != 0) {
        size_t same = 0;

        while (c->expect.data[at + same] == body.data[same])
            same++;
        c->differs = true;
        c->mismatch_at = at + same;
    } else if (n < body.len) {
        c->differs = true;
        c->mismatch_at = at + n;
    }
    return !c->differs;
}

static void take_body(struct http1_conn *c, struct ls_bytes body)
{
    if (LS_LIKELY(!request_of(c, ring_at(c, 0))->gunzip))
        (void)compare_body(c, body); /* judge() looks at differs */
    else if (c->parser.coding == HTTP1_CODING_GZIP)
        c->extra->undecoded = gunzip_feed(c->extra->gunzip, body, compare_body, c);
    else
        c->body_bytes += body.len;
}

/* What keeps an answer that has to be gzip-coded from being that; NULL: nothing. */
static const char *why_undecoded(const struct http1_conn *c)
{
    if (c->parser.coding != HTTP1_CODING_GZIP)
        return "content-encoding is not gzip, which the plan asks for";
    return c->extra->undecoded != NULL ? c->extra->undecoded : gunzip_end(c->extra->gunzip);
}

static const char *why_differs(const struct http1_conn *c, const struct load_request *request)
{
    if (c->mismatch_at == c->expect.len)
        return "body is longer than expected";
    return c->parser.coding == HTTP1_CODING_NONE || request->gunzip
               ? "body differs"
               : "body differs: it has a content-encoding that the plan does not ask for";
}

/* What is wrong with an answer that was framed well: status first, then body. */
static struct agent_reply judge(const struct http1_conn *c, const struct load_request *request)
{
    struct agent_reply reply = {
        .outcome = LOAD_OK, .status = c->parser.status, .body_bytes = c->body_bytes, .why = ""
    };

    /* A final status is 200 or more: the parser sees to that. */
    if (request->expect_status != 0 ? reply.status != request->expect_status : reply.status > 399) {
        reply.outcome = LOAD_BAD_STATUS;
        reply.why = request->expect_status != 0 ? "status is not the expected one"
                                                : "status is not within 200 to 399";
    } else if (c->differs) {
        reply.outcome = LOAD_BAD_BODY;
        reply.mismatch_at = c->mismatch_at;
        reply.why = why_differs(c, request);
    } else if (LS_UNLIKELY(request->gunzip) && why_undecoded(c) != NULL) {
        reply.outcome = LOAD_BAD_BODY;
        reply.mismatch_at = c->body_bytes;
        reply.why = why_undecoded(c);
    } else if (request->expect_body_given && c->body_bytes < c->expect.len) {
        reply.outcome = LOAD_BAD_BODY;
        reply.mismatch_at = c->body_bytes;
        reply.why = "body is shorter than expected";
    }
    return reply;
}

/* Ends the oldest operation. The state is consistent before done(), which may call back. */
static void finish(struct http1_conn *c, const struct agent_reply *reply)
{
    uint32_t op = ring_at(c, 0)->op;

    c->first = c->first + 1 < c->cap ? c->first + 1 : 0;
    c->count--;
    c->begun = false;
    c->env->done(c->env->ctx, op, reply);
}

/* 0 unless all three digits were read. */
static uint16_t status_read(const struct http1_conn *c)
{
    return c->parser.status >= 100 ? c->parser.status : 0;
}

/* The oldest operation's answer is complete. */
static enum ls_err answer_done(struct http1_conn *c, bool more)
{
    const struct load_request *request = request_of(c, ring_at(c, 0));
    struct agent_reply reply = judge(c, request);

    reply.more = more;
    c->over = !c->parser.keep_alive || request->closes;
    finish(c, &reply);
    return c->over ? LS_ECLOSED : LS_OK; /* over, too, if done() closed */
}

static enum ls_err answer_bad(struct http1_conn *c)
{
    struct agent_reply reply = { .outcome = LOAD_BAD_FRAMING,
                                 .status = status_read(c),
                                 .body_bytes = c->body_bytes,
                                 .why = c->parser.why };

    c->over = true;
    finish(c, &reply);
    return LS_EPROTO;
}

/* The common case in one step: a head that is known, and behind it, whole, the body that is
 * expected. False: nothing has happened, and the parser has to find out. */
static bool answer_at_once(struct http1_conn *c, struct ls_bytes *in)
{
    const struct op *op = ring_at(c, 0);
    const struct load_request *request = request_of(c, op);
    struct http1_template *t = template_of(c);
    const struct http1_parser *after = &t->after;
    struct agent_reply reply = { .outcome = LOAD_OK, .why = "" };
    size_t body;

    if (request->gunzip || request->closes ||
        !http1_template_match(t, request->no_body ? HTTP1_TO_HEAD : 0, *in))
        return false;
    body = after->framing == HTTP1_FRAMING_LENGTH ? after->content_length : 0;
    if (!after->keep_alive || after->framing > HTTP1_FRAMING_LENGTH || in->len - t->len < body ||
        (request->expect_status != 0 ? after->status != request->expect_status
                                     : after->status > 399))
        return false;
    if (request->expect_body_given) {
        struct ls_bytes expect = expect_of(c, request, op);

        if (expect.len != body || memcmp(expect.data, in->data + t->len, body) != 0)
            return false;
    }
    in->data += t->len + body;
    in->len -= t->len + body;
    reply.status = after->status;
    reply.body_bytes = body;
    reply.more = in->len > 0;
    finish(c, &reply);
    return true;
}

/* Up to the end of the oldest operation's answer, or of in. */
static enum ls_err answer(struct http1_conn *c, struct ls_bytes *in)
{
    const unsigned char *start = c->begun ? NULL : in->data;
    struct ls_bytes body;

    if (!c->begun) {
        if (LS_LIKELY(answer_at_once(c, in)))
            return c->over ? LS_ECLOSED : LS_OK; /* over if done() closed */
        answer_begin(c, in);
    }
    for (;;) {
        switch (http1_parse(&c->parser, in, &body)) {
        case HTTP1_MORE:
            return LS_OK;
        case HTTP1_INTERIM:
            break;
        case HTTP1_HEAD:
            head_done(c, start, in->data);
            break;
        case HTTP1_BODY:
            take_body(c, body);
            break;
        case HTTP1_DONE:
            return answer_done(c, in->len > 0);
        case HTTP1_BAD:
            return answer_bad(c);
        }
    }
}

/* Nobody asked. A 408 is how some servers hang up on an idle connection; all else is a breach. The
 * head is read to its end, as a status line may come in pieces. */
static enum ls_err unsolicited(struct http1_conn *c, struct ls_bytes *in)
{
    struct ls_bytes body;
    enum http1_step step;

    if (!c->unsolicited)
        http1_begin(&c->parser, 0);
    c->unsolicited = true;
    step = http1_parse(&c->parser, in, &body);
    if (step == HTTP1_MORE)
        return LS_OK;
    c->over = true;
    return step == HTTP1_HEAD && c->parser.status == 408 ? LS_ECLOSED : LS_EPROTO;
}

static enum ls_err http1_feed(void *conn, struct ls_bytes in)
{
    struct http1_conn *c = conn;
    /* These bytes can only answer what was asked before they came, whatever done() adds. */
    uint32_t asked = c->count - c->unsent;

    if (c->over)
        return LS_ECLOSED;
    while (in.len > 0) {
        enum ls_err rc;

        if (asked == 0)
            return unsolicited(c, &in);
        rc = answer(c, &in);
        if (rc != LS_OK)
            return rc;
        if (!c->begun)
            asked--;
    }
    return LS_OK;
}

static const char *why_ended(enum load_outcome how)
{
    switch (how) {
    case LOAD_TIMEOUT:
        return "no complete answer in time";
    case LOAD_RESET:
        return "reset by the peer";
    case LOAD_CLOSED_EARLY:
        return "closed without an answer";
    case LOAD_TLS_ERROR:
        return "TLS failed";
    default:
        return "given up";
    }
}

static void http1_eof(void *conn, enum load_outcome how)
{
    struct http1_conn *c = conn;

    c->over = true;
    if (c->begun) {
        struct agent_reply reply = { .outcome = how,
                                     .status = status_read(c),
                                     .body_bytes = c->body_bytes,
                                     .why = why_ended(how) };

        /* Only an orderly end can complete a body that lasts until close. */
        if (how == LOAD_CLOSED_EARLY) {
            enum http1_step step = http1_end(&c->parser);

            if (step == HTTP1_DONE)
                reply = judge(c, request_of(c, ring_at(c, 0)));
            else if (step == HTTP1_BAD)
                reply.outcome = LOAD_BAD_FRAMING;
            if (step != HTTP1_DONE)
                reply.why = c->parser.why;
        }
        finish(c, &reply);
    }
    while (c->count > 0) {
        struct agent_reply reply = { .outcome = how, .why = why_ended(how) };

        finish(c, &reply);
    }
}

extern const struct agent_driver agent_driver_http1;

const struct agent_driver agent_driver_http1 = {
    .name = "http1",
    .conn_size = sizeof(struct http1_conn),
    .check = http1_check,
    .open = http1_open,
    .submit = http1_submit,
    .feed = http1_feed,
    .drain = http1_drain,
    .eof = http1_eof,
    .close = http1_close,
};
