/* Header blocks of answers (RFC 9113, 4.3 and 8): what they say, and whether they may. */
#include "agent/load/http2_conn.h"
#include "agent/load/http2_use.h"

static enum ls_err fail(struct http2_conn *c, enum http2_error error, const char *why)
{
    return http2_fail(c, NULL, error, why);
}

void http2_block_begin(struct http2_conn *c, const struct http2_stream *s, uint32_t id,
                       uint32_t promise, bool ends)
{
    c->block_id = id;
    c->block_promise = promise;
    c->block_ends = ends;
    c->block_len = c->list_len = 0;
    c->block_regular = false;
    c->block_trailers = s != NULL && s->headed;
    c->block_ill = NULL;
    c->block_head = (struct http2_head){ 0 };
    hpack_begin(&c->hpack);
}

static const char *take_status(struct http2_conn *c, const struct hpack_field *field)
{
    if (c->block_trailers)
        return "trailers with a status";
    if (c->block_regular || c->block_head.status != 0)
        return ":status twice, or behind other fields";
    if (field->ill)
        return ":status is not a number of three digits";
    c->block_head.status = (uint16_t)field->number;
    return NULL;
}

static const char *take_length(struct http2_conn *c, const struct hpack_field *field)
{
    if (field->ill)
        return "content-length is not a number";
    if (c->block_head.has_length && c->block_head.length != field->number)
        return "content-length twice, with different values";
    c->block_head.has_length = true;
    c->block_head.length = field->number;
    return NULL;
}

/* NULL, or what is wrong with it. */
static const char *take_field(struct http2_conn *c, const struct hpack_field *field)
{
    c->list_len += HPACK_OVERHEAD + field->name_len + field->value_len;
    if (c->list_len > HTTP2_LIST_MAX)
        return "header list is too large";
    if (field->kind == HPACK_STATUS)
        return take_status(c, field);
    c->block_regular = true;
    switch ((enum hpack_kind)field->kind) {
    case HPACK_LENGTH:
        return take_length(c, field);
    case HPACK_CODING:
        if (field->number != HPACK_CODING_NONE)
            c->block_head.coding = c->block_head.coding == HPACK_CODING_NONE
                                       ? (uint8_t)field->number
                                       : HPACK_CODING_OTHER;
        return NULL;
    case HPACK_PSEUDO:
        return "a pseudo-field that answers do not have";
    case HPACK_CONNECTION:
        return "a field about connections of HTTP/1";
    case HPACK_ILL_NAMED:
        return "a field whose name is not in lower case, or no name";
    default:
        return field->ill ? "control byte in the value of a field" : NULL;
    }
}

enum ls_err http2_block_bytes(struct http2_conn *c, struct ls_bytes in)
{
    enum hpack_step step;
    struct hpack_field field;

    c->block_len += (uint32_t)in.len;
    if (c->block_len > HTTP2_LIST_MAX)
        return fail(c, HTTP2_ENHANCE_YOUR_CALM, "header block without an end");
    while ((step = hpack_next(&c->hpack, &in, &field)) == HPACK_FIELD) {
        const char *ill = take_field(c, &field);

        if (c->block_ill == NULL)
            c->block_ill = ill;
    }
    if (step == HPACK_BAD)
        return http2_fail(c, http2_stream_of(c, c->block_id), HTTP2_COMPRESSION_ERROR,
                          c->hpack.why);
    return LS_OK;
}

/* The head of an answer that is not over with it. */
static void take_head(struct http2_conn *c, struct http2_stream *s)
{
    const struct http2_head *head = &c->block_head;

    if (head->status == 0) {
        http2_malformed(c, s, HTTP2_PROTOCOL_ERROR, "head without :status");
    } else if (head->status >= 200) {
        s->head = *head;
        s->headed = true;
        if (c->block_ends)
            http2_answered(c, s);
    } else if (c->block_ends || head->status == 101) {
        http2_malformed(c, s, HTTP2_PROTOCOL_ERROR, "a 1xx answer that ends the stream, or is 101");
    } else if (++s->interims > HTTP2_INTERIM_MAX) {
        http2_malformed(c, s, HTTP2_ENHANCE_YOUR_CALM, "too many 1xx answers");
    }
}

enum ls_err http2_block_end(struct http2_conn *c)
{
    struct http2_stream *s = http2_stream_of(c, c->block_id);
    bool progress = c->block_promise == 0 && s != NULL;

    c->block_id = 0;
    if (!hpack_end(&c->hpack))
        return http2_fail(c, s, HTTP2_COMPRESSION_ERROR, c->hpack.why);
    if (c->block_promise != 0) {
        uint8_t code[4];

        http2_put32(code, HTTP2_REFUSED_STREAM);
        c->use->pushes_refused++;
        if (!http2_say(c, HTTP2_RST_STREAM, 0, c->block_promise,
                       (struct ls_bytes){ code, sizeof(code) }))
            return fail(c, HTTP2_ENHANCE_YOUR_CALM, HTTP2_FLOOD);
    }
    if (!progress)
        return http2_idle_frame(c);
    if (c->block_ill != NULL)
        http2_malformed(c, s, HTTP2_PROTOCOL_ERROR, c->block_ill);
    else if (!c->block_trailers)
        take_head(c, s);
    else if (c->block_ends)
        http2_answered(c, s);
    else
        http2_malformed(c, s, HTTP2_PROTOCOL_ERROR, "a head within the body");
    return LS_OK;
}

void http2_begin_answer(struct http2_conn *c, struct http2_stream *s)
{
    if (s->begun)
        return;
    s->begun = true;
    if (c->env.began != NULL)
        c->env.began(c->env.ctx, s->op);
}

/* ---- a block that is whole ---------------------------------------------------------------------
 */

static void learn(struct http2_conn *c, struct ls_bytes block)
{
    struct http2_learned *learned = &c->learned;

    memcpy(learned->block, block.data, block.len);
    learned->len = (uint32_t)block.len;
    learned->changes = c->hpack.changes;
    learned->head = c->block_head;
}

/* A whole block. What it says follows from its bytes and the table: if both are as they were when
 * it was read the last time, it is not read again. */
enum ls_err http2_block_whole(struct http2_conn *c, struct http2_stream *s, struct ls_bytes block,
                              bool ends)
{
    uint32_t changes = c->hpack.changes;
    enum ls_err rc;

    http2_begin_answer(c, s);
    if (LS_LIKELY(block.len == c->learned.len && changes == c->learned.changes && !s->headed &&
                  block.len > 0 && memcmp(block.data, c->learned.block, block.len) == 0)) {
        s->head = c->learned.head;
        s->headed = true;
        if (ends)
            http2_answered(c, s);
        return LS_OK;
    }
    http2_block_begin(c, s, s->id, 0, ends);
    rc = http2_block_bytes(c, block);
    if (rc != LS_OK)
        return rc;
    if (block.len > 0 && block.len <= HTTP2_LEARNED_MAX && changes == c->hpack.changes &&
        !s->headed && c->block_ill == NULL && c->block_head.status >= 200 && hpack_end(&c->hpack))
        learn(c, block);
    return http2_block_end(c);
}
