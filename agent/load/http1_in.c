/* Answers of HTTP/1.1, which come in the order of the requests: each is compared, or parsed and
 * compared. */
#include <string.h>

#include "agent/load/http1_conn.h"
#include "agent/load/http1_template.h"

/* Requests of a rotation may get different heads: request i uses template i modulo this. */
#define TEMPLATES 8u

/* Shared by the connections of a worker, which is one thread; only ever a short cut. */
static _Thread_local struct http1_template templates[TEMPLATES];

static struct http1_template *template_of(struct http1_conn *c)
{
    return &templates[http1_ring_at(c, 0)->request % TEMPLATES];
}

/* The body that answers op. */
static struct ls_bytes expect_of(struct http1_conn *c, const struct load_request *request,
                                 const struct http1_op *op)
{
    const struct load_variation *varied = request->varied;

    if (varied == NULL || !varied->expect_varies)
        return request->expect_body;
    if (varied->table != NULL)
        return (struct ls_bytes){ varied->table[op->at].expect, varied->table[op->at].expect_len };
    return (struct ls_bytes){ c->extra->expected,
                              load_variation_expect(varied, op->at, c->extra->expected) };
}

static unsigned flags_of(const struct load_request *request)
{
    return request->no_body ? HTTP1_TO_HEAD : 0;
}

/* Takes the head as well if it is a known one. */
static void answer_begin(struct http1_conn *c, struct ls_bytes *in)
{
    const struct http1_op *op = http1_ring_at(c, 0);
    const struct load_request *request = http1_request_of(c, op);
    unsigned flags = flags_of(request);

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
    if (!http1_request_of(c, http1_ring_at(c, 0))->expect_body_given)
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
    if (LS_LIKELY(!http1_request_of(c, http1_ring_at(c, 0))->gunzip))
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
    uint32_t op = http1_ring_at(c, 0)->op;

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
    const struct load_request *request = http1_request_of(c, http1_ring_at(c, 0));
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

/* ---- the common case: a head that is known, and behind it, whole, the body that is expected ----
 */

#define ALIKE_MAX 64u /* answers that are told together */

/* What the answer to a request is if it is like those before. */
struct likely {
    const struct load_request *request;
    uint32_t index; /* of request */
    struct http1_template *head;
    size_t body_bytes;
    size_t bytes; /* head and body */
};

/* False: the parser has to find out. */
static bool find_likely(const struct http1_conn *c, const struct http1_op *op, struct likely *out)
{
    const struct load_request *request = http1_request_of(c, op);
    struct http1_template *t = &templates[op->request % TEMPLATES];
    const struct http1_parser *after = &t->after;
    size_t body_bytes = after->framing == HTTP1_FRAMING_LENGTH ? after->content_length : 0;

    if (request->gunzip || request->closes || !http1_template_fits(t, flags_of(request)) ||
        !after->keep_alive || after->framing > HTTP1_FRAMING_LENGTH ||
        (request->expect_status != 0 ? after->status != request->expect_status
                                     : after->status > 399))
        return false;
    *out = (struct likely){ .request = request,
                            .index = op->request,
                            .head = t,
                            .body_bytes = body_bytes,
                            .bytes = t->len + body_bytes };
    return true;
}

/* Does in begin with the answer to op, whole and, to the last byte, the likely one? */
static bool is_likely(struct http1_conn *c, const struct http1_op *op, const struct likely *likely,
                      struct ls_bytes in)
{
    struct ls_bytes expect;

    if (in.len < likely->bytes || !http1_template_begins(likely->head, in))
        return false;
    if (!likely->request->expect_body_given)
        return true;
    expect = expect_of(c, likely->request, op);
    return expect.len == likely->body_bytes &&
           memcmp(expect.data, in.data + likely->head->len, expect.len) == 0;
}

/* Does the body that is expected follow from the request alone? */
static bool is_constant(const struct load_request *request)
{
    return request->expect_body_given &&
           (request->varied == NULL || !request->varied->expect_varies);
}

/* The first of *in is an answer that was compared. How many behind it answer the same request, from
 * operation i on and up to end, and are the same bytes? All of them, or none: each is compared with
 * the one before it, in one go. Their operations are noted in ops. */
static uint32_t same_again(struct http1_conn *c, const struct likely *likely, struct ls_bytes in,
                           uint32_t i, uint32_t end, uint32_t *ops)
{
    size_t left = in.len - likely->bytes;
    uint32_t n = 0;

    if (!is_constant(likely->request))
        return 0;
    for (; i + n < end && left >= likely->bytes; left -= likely->bytes, n++) {
        const struct http1_op *op = http1_ring_at(c, i + n);

        if (op->request != likely->index)
            break;
        ops[n] = op->op;
    }
    return n > 0 && memcmp(in.data, in.data + likely->bytes, n * likely->bytes) == 0 ? n : 0;
}

/* Ends the oldest operations, as finish() does one. */
static void finish_alike(struct http1_conn *c, const uint32_t *ops, uint32_t count,
                         struct agent_reply *reply)
{
    bool more = reply->more;

    c->first = c->first + count < c->cap ? c->first + count : c->first + count - c->cap;
    c->count -= count;
    if (LS_LIKELY(c->env->done_alike != NULL)) {
        c->env->done_alike(c->env->ctx, ops, count, reply);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        reply->more = i + 1 < count || more;
        c->env->done(c->env->ctx, ops[i], reply);
    }
}

/* Has this one the status and length that those before had? */
static bool goes_along(const struct likely *likely, struct agent_reply *reply, bool first)
{
    uint16_t status = likely->head->after.status;

    if (!first)
        return reply->status == status && reply->body_bytes == likely->body_bytes;
    reply->status = status;
    reply->body_bytes = likely->body_bytes;
    return true;
}

/* The answers to the oldest operations, most of them at most, as far as they are likely ones and
 * have one status and length. How many: what is behind them in *in is for the parser, or for the
 * next call. */
static uint32_t answers_at_once(struct http1_conn *c, struct ls_bytes *in, uint32_t most)
{
    struct agent_reply reply = { .outcome = LOAD_OK, .why = "" };
    struct likely likely = { .index = UINT32_MAX }; /* nobody's */
    uint32_t ops[ALIKE_MAX];
    uint32_t end = most < ALIKE_MAX ? most : ALIKE_MAX;
    struct ls_bytes left = *in;
    uint32_t n = 0;

    while (n < end && left.len > 0) {
        const struct http1_op *op = http1_ring_at(c, n);
        uint32_t taken = n;

        if (op->request != likely.index &&
            (!find_likely(c, op, &likely) || !goes_along(&likely, &reply, n == 0)))
            break;
        if (!is_likely(c, op, &likely, left))
            break;
        ops[n++] = op->op;
        if (left.len > likely.bytes)
            n += same_again(c, &likely, left, n, end, ops + n);
        left.data += (n - taken) * likely.bytes;
        left.len -= (n - taken) * likely.bytes;
    }
    if (n == 0)
        return 0;
    *in = left;
    reply.more = left.len > 0;
    finish_alike(c, ops, n, &reply);
    return n;
}

/* Up to the end of the oldest operation's answer, or of in. */
static enum ls_err answer(struct http1_conn *c, struct ls_bytes *in)
{
    const unsigned char *start = c->begun ? NULL : in->data;
    struct ls_bytes body;

    if (!c->begun)
        answer_begin(c, in);
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

enum ls_err http1_feed(void *conn, struct ls_bytes in)
{
    struct http1_conn *c = conn;
    /* These bytes can only answer what was asked before they came, whatever done() adds. */
    uint32_t asked = c->count - c->unsent;

    if (c->over)
        return LS_ECLOSED;
    while (in.len > 0) {
        uint32_t at_once = c->begun ? 0 : answers_at_once(c, &in, asked);
        enum ls_err rc;

        if (c->over) /* done() closed */
            return LS_ECLOSED;
        asked -= at_once;
        if (at_once > 0)
            continue;
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

void http1_eof(void *conn, enum load_outcome how)
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
                reply = judge(c, http1_request_of(c, http1_ring_at(c, 0)));
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
