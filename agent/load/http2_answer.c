/* Answers: bodies compared as they come, and what is made of it at the end. */
#include "agent/load/http2_conn.h"
#include "agent/load/http2_use.h"
#include "agent/load/variation.h"

/* The body that answers s. */
static struct ls_bytes expect_of(struct http2_conn *c, const struct load_request *request,
                                 const struct http2_stream *s)
{
    const struct load_variation *varied = request->varied;

    if (varied == NULL || !varied->expect_varies)
        return request->expect_body;
    if (varied->table != NULL)
        return (struct ls_bytes){ varied->table[s->at].expect, varied->table[s->at].expect_len };
    /* Answers come mixed, but mostly a piece belongs to the one of the piece before. */
    if (c->expected_len == SIZE_MAX || c->expected_at != s->at ||
        c->expected_request != s->request) {
        c->expected_len = load_variation_expect(varied, s->at, c->expected);
        c->expected_at = s->at;
        c->expected_request = s->request;
    }
    return (struct ls_bytes){ c->expected, c->expected_len };
}

struct compared {
    struct http2_conn *c;
    struct http2_stream *s;
};

/* False: it differs, so that the rest is of no interest. */
static bool compare_body(void *ctx, struct ls_bytes body)
{
    struct http2_conn *c = ((struct compared *)ctx)->c;
    struct http2_stream *s = ((struct compared *)ctx)->s;
    const struct load_request *request = http2_request_of(c, s->request);
    uint64_t at = s->body_bytes;
    struct ls_bytes expect;
    size_t n;

    s->body_bytes += body.len;
    if (s->differs)
        return false;
    if (!request->expect_body_given)
        return true;
    expect = expect_of(c, request, s);
    n = expect.len - (size_t)at; /* nothing differed so far: at is within it */
    if (n > body.len)
        n = body.len;
    if (n > 0 && memcmp(expect.data + at, body.data, n) != 0) {
        size_t same = 0;

        while (expect.data[at + same] == body.data[same])
            same++;
        s->differs = true;
        s->mismatch_at = at + same;
    } else if (n < body.len) {
        s->differs = true;
        s->mismatch_at = at + n;
    }
    return !s->differs;
}

void http2_body(struct http2_conn *c, struct http2_stream *s, struct ls_bytes body)
{
    struct compared compared = { c, s };

    s->coded_bytes += body.len;
    if (LS_LIKELY(!http2_request_of(c, s->request)->gunzip))
        (void)compare_body(&compared, body); /* judge() looks at differs */
    else if (s->head.coding == HPACK_CODING_GZIP)
        s->undecoded = gunzip_feed(s->gunzip, body, compare_body, &compared);
    else
        s->body_bytes += body.len;
}

/* What keeps an answer that has to be gzip-coded from being that; NULL: nothing. */
static const char *why_undecoded(const struct http2_stream *s)
{
    if (s->head.coding != HPACK_CODING_GZIP)
        return "content-encoding is not gzip, which the plan asks for";
    return s->undecoded != NULL ? s->undecoded : gunzip_end(s->gunzip);
}

static const char *why_differs(const struct http2_stream *s, const struct load_request *request,
                               size_t expected)
{
    if (s->mismatch_at == expected)
        return "body is longer than expected";
    return s->head.coding == HPACK_CODING_NONE || request->gunzip
               ? "body differs"
               : "body differs: it has a content-encoding that the plan does not ask for";
}

/* What is wrong with the framing of an answer that is complete; NULL: nothing. */
static const char *why_ill(const struct http2_stream *s, const struct load_request *request)
{
    bool bodiless = request->no_body || s->head.status == 204 || s->head.status == 304;

    if (bodiless)
        return s->coded_bytes > 0 ? "a body where none may be" : NULL;
    return s->head.has_length && s->head.length != s->coded_bytes
               ? "content-length is not the length of the body"
               : NULL;
}

/* An answer that was framed well: status first, then body. */
static void judge(struct http2_conn *c, const struct http2_stream *s,
                  const struct load_request *request, struct agent_reply *reply)
{
    struct ls_bytes expect = { NULL, 0 };

    if (request->expect_body_given)
        expect = expect_of(c, request, s);
    if (request->expect_status != 0 ? reply->status != request->expect_status
                                    : reply->status > 399) {
        reply->outcome = LOAD_BAD_STATUS;
        reply->why = request->expect_status != 0 ? "status is not the expected one"
                                                 : "status is not within 200 to 399";
    } else if (s->differs) {
        reply->outcome = LOAD_BAD_BODY;
        reply->mismatch_at = s->mismatch_at;
        reply->why = why_differs(s, request, expect.len);
    } else if (LS_UNLIKELY(request->gunzip) && why_undecoded(s) != NULL) {
        reply->outcome = LOAD_BAD_BODY;
        reply->mismatch_at = s->body_bytes;
        reply->why = why_undecoded(s);
    } else if (request->expect_body_given && s->body_bytes < expect.len) {
        reply->outcome = LOAD_BAD_BODY;
        reply->mismatch_at = s->body_bytes;
        reply->why = "body is shorter than expected";
    }
}

/* Says that the stream is given up, if there is room; else the peer finds out by itself. */
static void reset(struct http2_conn *c, uint32_t id, enum http2_error error)
{
    uint8_t code[4];

    c->reset_some = true;
    http2_put32(code, error);
    (void)http2_say(c, HTTP2_RST_STREAM, 0, id, (struct ls_bytes){ code, sizeof(code) });
}

void http2_finish(struct http2_conn *c, struct http2_stream *s, const struct agent_reply *reply)
{
    uint32_t op = s->op;

    if (s->body_left > 0)
        http2_forget_body(c, s);
    s->id = 0;
    c->open--;
    c->idle = 0;
    c->env.done(c->env.ctx, op, reply);
}

void http2_malformed(struct http2_conn *c, struct http2_stream *s, enum http2_error error,
                     const char *why)
{
    struct agent_reply reply = { .outcome = LOAD_BAD_FRAMING,
                                 .status = s->head.status,
                                 .body_bytes = s->body_bytes,
                                 .why = why };

    reset(c, s->id, error);
    http2_finish(c, s, &reply);
}

void http2_give_up(struct http2_conn *c, struct http2_stream *s)
{
    const struct agent_reply reply = { .outcome = LOAD_TIMEOUT,
                                       .status = s->head.status,
                                       .body_bytes = s->body_bytes,
                                       .why = "no complete answer in time" };

    reset(c, s->id, HTTP2_CANCEL);
    http2_finish(c, s, &reply);
}

void http2_answered(struct http2_conn *c, struct http2_stream *s)
{
    const struct load_request *request = http2_request_of(c, s->request);
    const char *ill = why_ill(s, request);
    struct agent_reply reply = {
        .outcome = LOAD_OK, .status = s->head.status, .body_bytes = s->body_bytes, .why = ""
    };

    if (LS_UNLIKELY(ill != NULL)) {
        http2_malformed(c, s, HTTP2_PROTOCOL_ERROR, ill);
        return;
    }
    judge(c, s, request, &reply);
    if (LS_UNLIKELY(s->body_left > 0))
        reset(c, s->id, HTTP2_CANCEL); /* it does not want the rest of our body */
    http2_finish(c, s, &reply);
}
