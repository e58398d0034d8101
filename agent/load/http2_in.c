/* Frames that arrive (RFC 9113, 4 to 6), in any slicing. */
#include "agent/load/http2_conn.h"
#include "agent/load/http2_use.h"

#define ID_MASK 0x7fffffffu

static const char flood[] = "a flood of frames that answer nothing";

const char *http2_reset_text(uint32_t code)
{
    static const char *const texts[] = {
        "stream reset by the peer: NO_ERROR",
        "stream reset by the peer: PROTOCOL_ERROR",
        "stream reset by the peer: INTERNAL_ERROR",
        "stream reset by the peer: FLOW_CONTROL_ERROR",
        "stream reset by the peer: SETTINGS_TIMEOUT",
        "stream reset by the peer: STREAM_CLOSED",
        "stream reset by the peer: FRAME_SIZE_ERROR",
        "stream reset by the peer: REFUSED_STREAM",
        "stream reset by the peer: CANCEL",
        "stream reset by the peer: COMPRESSION_ERROR",
        "stream reset by the peer: CONNECT_ERROR",
        "stream reset by the peer: ENHANCE_YOUR_CALM",
        "stream reset by the peer: INADEQUATE_SECURITY",
        "stream reset by the peer: HTTP_1_1_REQUIRED",
    };

    return code < LS_ARRAY_LEN(texts) ? texts[code] : "stream reset by the peer: unknown code";
}

const char *load_http2_code_name(unsigned code)
{
    return code < HTTP2_ERROR_COUNT ? strrchr(http2_reset_text(code), ' ') + 1 : "other";
}

/* ---- the end of it all ----------------------------------------------------------------------- */

static struct http2_stream *oldest_stream(struct http2_conn *c)
{
    struct http2_stream *oldest = NULL;

    for (uint32_t i = 0; i <= c->mask; i++) {
        struct http2_stream *s = &c->streams[i];

        if (s->id != 0 && (oldest == NULL || s->id < oldest->id))
            oldest = s;
    }
    return oldest;
}

enum ls_err http2_fail(struct http2_conn *c, struct http2_stream *s, enum http2_error error,
                       const char *why)
{
    struct agent_reply reply = { .outcome = LOAD_BAD_FRAMING, .why = why };

    c->over = true;
    c->error = error;
    (void)http2_part(c); /* if there is room */
    if (c->use->why == NULL)
        c->use->why = why;
    if (s == NULL)
        s = oldest_stream(c);
    if (s != NULL) {
        reply.status = s->head.status;
        reply.body_bytes = s->body_bytes;
        http2_finish(c, s, &reply);
    } else if (c->count > 0) {
        uint32_t op = c->waiting[c->first].op;

        c->first = c->first + 1 < c->asked ? c->first + 1 : 0;
        c->count--;
        c->env.done(c->env.ctx, op, &reply);
    }
    return LS_EPROTO;
}

static enum ls_err fail(struct http2_conn *c, enum http2_error error, const char *why)
{
    return http2_fail(c, NULL, error, why);
}

/* A frame that brings no answer any further. */
static enum ls_err idle_frame(struct http2_conn *c)
{
    return ++c->idle > HTTP2_IDLE_MAX ? fail(c, HTTP2_ENHANCE_YOUR_CALM, flood) : LS_OK;
}

/* ---- header blocks --------------------------------------------------------------------------- */

static void block_begin(struct http2_conn *c, const struct http2_stream *s, uint32_t id,
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

static enum ls_err block_bytes(struct http2_conn *c, struct ls_bytes in)
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

static enum ls_err block_end(struct http2_conn *c)
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
            return fail(c, HTTP2_ENHANCE_YOUR_CALM, flood);
    }
    if (!progress)
        return idle_frame(c);
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

static void begin_answer(struct http2_conn *c, struct http2_stream *s)
{
    if (s->begun)
        return;
    s->begun = true;
    if (c->env.began != NULL)
        c->env.began(c->env.ctx, s->op);
}

/* ---- frames by type: what must be so at their beginning ---------------------------------------
 */

static enum ls_err not_http2(struct http2_conn *c, const uint8_t *first, size_t len)
{
    bool tls = c->env.workload->tls != NULL;

    if (len >= 5 && memcmp(first, "HTTP/", 5) == 0)
        return fail(c, HTTP2_PROTOCOL_ERROR,
                    tls ? "the server does not speak HTTP/2: it answers in HTTP/1"
                        : "the server does not speak h2c (HTTP/2 without TLS): it answers in "
                          "HTTP/1");
    if (len == HTTP2_HEAD_BYTES && first[3] == HTTP2_GOAWAY && http2_frame_len(first) < 1024)
        return fail(c, HTTP2_PROTOCOL_ERROR,
                    "the server refuses HTTP/2: it answers the preface with GOAWAY");
    return fail(c, HTTP2_PROTOCOL_ERROR,
                tls ? "the server does not speak HTTP/2: what it says first is not SETTINGS"
                    : "the server does not speak h2c (HTTP/2 without TLS): what it says first is "
                      "not SETTINGS");
}

/* A frame of a stream: is there such a stream, or was there? */
static enum ls_err check_stream(struct http2_conn *c, bool carries)
{
    if (c->id == 0)
        return fail(c, HTTP2_PROTOCOL_ERROR, "a frame of a stream says that it is of none");
    if ((c->id & 1) == 0 ? c->id > c->promised : c->id >= c->next_id)
        return fail(c, HTTP2_PROTOCOL_ERROR, "a frame of a stream that was never opened");
    if (carries && (c->id & 1) == 1 && http2_stream_of(c, c->id) == NULL && !c->reset_some)
        return fail(c, HTTP2_STREAM_CLOSED, "more than the answer to a request");
    return LS_OK;
}

static enum ls_err data_begin(struct http2_conn *c)
{
    struct http2_stream *s = http2_stream_of(c, c->id);

    c->received += c->left;
    if (c->received > HTTP2_WINDOW_MAX)
        return fail(c, HTTP2_FLOW_CONTROL_ERROR, "more data than the connection's window allows");
    if (s == NULL)
        return idle_frame(c);
    s->received += c->left;
    if (s->received > HTTP2_OUR_WINDOW)
        return http2_fail(c, s, HTTP2_FLOW_CONTROL_ERROR,
                          "more data than the stream's window allows");
    if (!s->headed)
        http2_malformed(c, s, HTTP2_PROTOCOL_ERROR, "a body before the head");
    if (c->left == 0 && (c->flags & HTTP2_END_STREAM) == 0)
        return idle_frame(c);
    return LS_OK;
}

static enum ls_err headers_begin(struct http2_conn *c)
{
    struct http2_stream *s = http2_stream_of(c, c->id);

    if (s != NULL)
        begin_answer(c, s);
    block_begin(c, s, c->id, 0, (c->flags & HTTP2_END_STREAM) != 0);
    return LS_OK;
}

static enum ls_err settings_begin(struct http2_conn *c)
{
    if (c->id != 0)
        return fail(c, HTTP2_PROTOCOL_ERROR, "SETTINGS of a stream");
    if ((c->flags & HTTP2_ACK) != 0 ? c->left != 0 : c->left % 6 != 0)
        return fail(c, HTTP2_FRAME_SIZE_ERROR, "SETTINGS of a wrong length");
    return idle_frame(c);
}

/* Frames of a fixed length. */
static enum ls_err fixed_begin(struct http2_conn *c, uint32_t len, bool of_stream)
{
    if (c->left != len)
        return fail(c, HTTP2_FRAME_SIZE_ERROR, "a frame of a wrong length");
    if (of_stream)
        return check_stream(c, false);
    return c->id == 0 ? LS_OK : fail(c, HTTP2_PROTOCOL_ERROR, "PING of a stream");
}

static enum ls_err push_begin(struct http2_conn *c)
{
    enum ls_err rc = check_stream(c, false);

    if (rc == LS_OK && c->acked)
        rc = fail(c, HTTP2_PROTOCOL_ERROR, "the server pushes though it was told not to");
    return rc;
}

static enum ls_err continuation_begin(struct http2_conn *c)
{
    if (c->block_id == 0)
        return fail(c, HTTP2_PROTOCOL_ERROR, "CONTINUATION of nothing");
    return c->left == 0 ? idle_frame(c) : LS_OK;
}

static enum ls_err goaway_begin(struct http2_conn *c)
{
    if (c->id != 0)
        return fail(c, HTTP2_PROTOCOL_ERROR, "GOAWAY of a stream");
    return c->left >= 8 ? LS_OK : fail(c, HTTP2_FRAME_SIZE_ERROR, "GOAWAY of a wrong length");
}

static enum ls_err type_begin(struct http2_conn *c)
{
    enum ls_err rc;

    switch (c->type) {
    case HTTP2_DATA:
        rc = check_stream(c, true);
        return rc == LS_OK ? data_begin(c) : rc;
    case HTTP2_HEADERS:
        rc = check_stream(c, true);
        return rc == LS_OK ? headers_begin(c) : rc;
    case HTTP2_PRIORITY: /* on any stream, even an idle one */
        if (c->left != 5 || c->id == 0)
            return fail(c, HTTP2_FRAME_SIZE_ERROR, "a frame of a wrong length");
        return idle_frame(c);
    case HTTP2_RST_STREAM:
        return fixed_begin(c, 4, true);
    case HTTP2_SETTINGS:
        return settings_begin(c);
    case HTTP2_PUSH_PROMISE:
        return push_begin(c);
    case HTTP2_PING:
        rc = fixed_begin(c, 8, false);
        return rc == LS_OK ? idle_frame(c) : rc;
    case HTTP2_GOAWAY:
        return goaway_begin(c);
    case HTTP2_WINDOW_UPDATE:
        if (c->id == 0)
            return c->left == 4 ? idle_frame(c)
                                : fail(c, HTTP2_FRAME_SIZE_ERROR, "a frame of a wrong length");
        return fixed_begin(c, 4, true);
    case HTTP2_CONTINUATION:
        return continuation_begin(c);
    default:
        return idle_frame(c); /* of an extension: ignored (RFC 9113, 5.5) */
    }
}

/* How many bytes come before the content. */
static uint32_t bytes_before(const struct http2_conn *c)
{
    bool may_pad =
        c->type == HTTP2_DATA || c->type == HTTP2_HEADERS || c->type == HTTP2_PUSH_PROMISE;
    uint32_t n = may_pad && (c->flags & HTTP2_PADDED) != 0;

    if (c->type == HTTP2_HEADERS && (c->flags & HTTP2_PRIORITISED) != 0)
        n += 5;
    return c->type == HTTP2_PUSH_PROMISE ? n + 4 : n;
}

static enum ls_err frame_begin(struct http2_conn *c, const uint8_t *head)
{
    enum ls_err rc;

    c->left = http2_frame_len(head);
    c->type = head[3];
    c->flags = head[4];
    c->id = http2_get32(head + 5) & ID_MASK;
    if (!c->settled && (c->type != HTTP2_SETTINGS || (c->flags & HTTP2_ACK) != 0 || c->id != 0))
        return not_http2(c, head, HTTP2_HEAD_BYTES);
    if (c->left > HTTP2_FRAME_MAX)
        return fail(c, HTTP2_FRAME_SIZE_ERROR, "a frame that is larger than we allow");
    if (c->block_id != 0 && (c->type != HTTP2_CONTINUATION || c->id != c->block_id))
        return fail(c, HTTP2_PROTOCOL_ERROR, "a header block is interrupted");
    c->in_frame = true;
    c->pad = 0;
    c->small_len = 0;
    c->pre = bytes_before(c);
    if (c->pre > c->left)
        return fail(c, HTTP2_FRAME_SIZE_ERROR, "a frame is too short for what it says");
    rc = type_begin(c);
    c->head_len = 0;
    return rc;
}

/* ---- contents -------------------------------------------------------------------------------- */

/* The peer's windows of new streams are now so large: those that are open change by as much. */
static enum ls_err set_initial_window(struct http2_conn *c, uint32_t value)
{
    int64_t change = (int64_t)value - c->initial_window;

    if (value > HTTP2_WINDOW_MAX)
        return fail(c, HTTP2_FLOW_CONTROL_ERROR, "SETTINGS with a window that is too large");
    c->initial_window = value;
    for (uint32_t i = 0; i <= c->mask; i++) {
        struct http2_stream *s = &c->streams[i];

        if (s->id == 0)
            continue;
        s->window += change;
        if (s->window > HTTP2_WINDOW_MAX)
            return http2_fail(c, s, HTTP2_FLOW_CONTROL_ERROR, "SETTINGS make a window too large");
        http2_resume(c, s);
    }
    return LS_OK;
}

static void set_table(struct http2_conn *c, uint32_t value)
{
    if (value >= c->table)
        return; /* more than we use */
    c->say_resize = true;
    c->table = value;
    if (value < c->shared->table_bytes) {
        c->plain = true;
        c->table = 0;
    }
}

static enum ls_err take_setting(struct http2_conn *c, const uint8_t *entry)
{
    uint32_t value = http2_get32(entry + 2);

    switch (entry[0] << 8 | entry[1]) {
    case HTTP2_HEADER_TABLE_SIZE:
        set_table(c, value);
        return LS_OK;
    case HTTP2_ENABLE_PUSH:
        return value == 0 ? LS_OK : fail(c, HTTP2_PROTOCOL_ERROR, "a server that enables push");
    case HTTP2_MAX_CONCURRENT_STREAMS:
        c->limit = value < c->asked ? value : c->asked;
        return LS_OK;
    case HTTP2_INITIAL_WINDOW_SIZE:
        return set_initial_window(c, value);
    case HTTP2_MAX_FRAME_SIZE:
        return value >= HTTP2_FRAME_MAX && value < 1u << 24
                   ? LS_OK
                   : fail(c, HTTP2_PROTOCOL_ERROR, "SETTINGS with a frame size that cannot be");
    default:
        return LS_OK;
    }
}

static enum ls_err settings_bytes(struct http2_conn *c, struct ls_bytes in)
{
    while (in.len > 0) {
        enum ls_err rc;

        c->small[c->small_len++] = *in.data++;
        in.len--;
        if (c->small_len < 6)
            continue;
        c->small_len = 0;
        rc = take_setting(c, c->small);
        if (rc != LS_OK)
            return rc;
    }
    return LS_OK;
}

/* Pad length, priority, promised stream. */
static enum ls_err pre_done(struct http2_conn *c)
{
    bool padded = (c->flags & HTTP2_PADDED) != 0;

    c->pad = padded ? c->small[0] : 0;
    if (c->pad > c->left)
        return fail(c, HTTP2_PROTOCOL_ERROR, "a frame with more padding than it has bytes");
    if (c->type == HTTP2_PUSH_PROMISE) {
        uint32_t promise = http2_get32(c->small + padded) & ID_MASK;

        if (promise == 0 || (promise & 1) != 0 || promise <= c->promised)
            return fail(c, HTTP2_PROTOCOL_ERROR, "a promise of a stream that cannot be");
        c->promised = promise;
        block_begin(c, NULL, c->id, promise, false);
    }
    c->small_len = 0;
    return LS_OK;
}

static enum ls_err content(struct http2_conn *c, struct ls_bytes in)
{
    struct http2_stream *s;

    switch (c->type) {
    case HTTP2_DATA:
        s = http2_stream_of(c, c->id);
        if (s != NULL && in.len > 0)
            http2_body(c, s, in);
        return LS_OK;
    case HTTP2_HEADERS:
    case HTTP2_PUSH_PROMISE:
    case HTTP2_CONTINUATION:
        return block_bytes(c, in);
    case HTTP2_SETTINGS:
        return settings_bytes(c, in);
    default: /* all that matters of the others is in their first 8 bytes */
        for (size_t i = 0; i < in.len && c->small_len < 8; i++)
            c->small[c->small_len++] = in.data[i];
        return LS_OK;
    }
}

/* Takes what in has of the frame's payload. */
static enum ls_err payload(struct http2_conn *c, struct ls_bytes *in)
{
    size_t n;

    while (c->pre > 0 && in->len > 0) {
        c->small[c->small_len++] = *in->data++;
        in->len--;
        c->left--;
        if (--c->pre == 0) {
            enum ls_err rc = pre_done(c);

            if (rc != LS_OK)
                return rc;
        }
    }
    if (c->pre > 0)
        return LS_OK;
    n = c->left - c->pad < in->len ? c->left - c->pad : in->len;
    if (n > 0) {
        struct ls_bytes piece = { in->data, n };

        in->data += n;
        in->len -= n;
        c->left -= (uint32_t)n;
        return content(c, piece);
    }
    n = c->left < in->len ? c->left : in->len;
    in->data += n;
    in->len -= n;
    c->left -= (uint32_t)n;
    c->pad -= (uint32_t)n;
    return LS_OK;
}

/* ---- frames by type: their end ----------------------------------------------------------------
 */

static void open_window(struct http2_conn *c, struct http2_stream *s)
{
    uint8_t bytes[4];

    http2_put32(bytes, s->received);
    if (http2_say(c, HTTP2_WINDOW_UPDATE, 0, s->id, (struct ls_bytes){ bytes, sizeof(bytes) }))
        s->received = 0; /* else with a later frame */
}

static enum ls_err data_end(struct http2_conn *c)
{
    struct http2_stream *s = http2_stream_of(c, c->id);

    if (s == NULL)
        return LS_OK;
    if ((c->flags & HTTP2_END_STREAM) != 0)
        http2_answered(c, s);
    else if (LS_UNLIKELY(s->received >= HTTP2_UPDATE_AT))
        open_window(c, s);
    return LS_OK;
}

static enum ls_err settings_end(struct http2_conn *c)
{
    if ((c->flags & HTTP2_ACK) != 0) {
        c->acked = true;
        return LS_OK;
    }
    if (!c->settled) {
        struct load_http2_use *use = c->use;

        c->settled = true;
        use->connections++;
        if (use->connections == 1 || c->limit < use->granted_least)
            use->granted_least = c->limit;
        if (c->limit > use->granted_most)
            use->granted_most = c->limit;
    } else if (c->limit < c->use->granted_least) {
        c->use->granted_least = c->limit;
    }
    return http2_say(c, HTTP2_SETTINGS, HTTP2_ACK, 0, (struct ls_bytes){ NULL, 0 })
               ? LS_OK
               : fail(c, HTTP2_ENHANCE_YOUR_CALM, flood);
}

static enum ls_err ping_end(struct http2_conn *c)
{
    if ((c->flags & HTTP2_ACK) != 0)
        return LS_OK;
    c->use->pings++;
    return http2_say(c, HTTP2_PING, HTTP2_ACK, 0, (struct ls_bytes){ c->small, 8 })
               ? LS_OK
               : fail(c, HTTP2_ENHANCE_YOUR_CALM, flood);
}

static enum ls_err reset_end(struct http2_conn *c)
{
    struct http2_stream *s = http2_stream_of(c, c->id);
    uint32_t code = http2_get32(c->small);
    struct agent_reply reply = { .outcome = LOAD_RESET, .why = http2_reset_text(code) };

    if (s == NULL)
        return idle_frame(c); /* it was over before */
    c->use->resets[code < HTTP2_ERROR_COUNT ? code : HTTP2_ERROR_COUNT]++;
    reply.status = s->head.status;
    reply.body_bytes = s->body_bytes;
    http2_finish(c, s, &reply);
    return LS_OK;
}

/* No stream is opened any more, and those behind the last one are not looked at (RFC 9113, 6.8). */
static enum ls_err goaway_end(struct http2_conn *c)
{
    const struct agent_reply reply = { .outcome = LOAD_ABORTED,
                                       .why = "the server sent GOAWAY before this request",
                                       .again = true };
    uint32_t last = http2_get32(c->small) & ID_MASK;
    uint32_t code = http2_get32(c->small + 4);

    c->going = true;
    c->use->goaways[code < HTTP2_ERROR_COUNT ? code : HTTP2_ERROR_COUNT]++;
    for (uint32_t i = 0; i <= c->mask; i++) {
        struct http2_stream *s = &c->streams[i];

        if (s->id <= last)
            continue;
        c->reset_some = true;
        c->use->retried++;
        http2_finish(c, s, &reply);
    }
    return idle_frame(c);
}

static enum ls_err window_end(struct http2_conn *c)
{
    uint32_t more = http2_get32(c->small) & ID_MASK;
    struct http2_stream *s = c->id != 0 ? http2_stream_of(c, c->id) : NULL;

    if (c->id == 0) {
        c->window += more;
        if (more == 0 || c->window > HTTP2_WINDOW_MAX)
            return fail(c, more == 0 ? HTTP2_PROTOCOL_ERROR : HTTP2_FLOW_CONTROL_ERROR,
                        "a window is opened by nothing, or too far");
        return LS_OK;
    }
    if (s == NULL)
        return idle_frame(c); /* it was over before */
    s->window += more;
    if (more == 0 || s->window > HTTP2_WINDOW_MAX) {
        http2_malformed(c, s, more == 0 ? HTTP2_PROTOCOL_ERROR : HTTP2_FLOW_CONTROL_ERROR,
                        "a window is opened by nothing, or too far");
        return LS_OK;
    }
    http2_resume(c, s);
    return s->body_left > 0 ? LS_OK : idle_frame(c);
}

static enum ls_err frame_end(struct http2_conn *c)
{
    c->in_frame = false;
    switch (c->type) {
    case HTTP2_DATA:
        return data_end(c);
    case HTTP2_HEADERS:
    case HTTP2_PUSH_PROMISE:
    case HTTP2_CONTINUATION:
        return (c->flags & HTTP2_END_HEADERS) != 0 ? block_end(c) : LS_OK;
    case HTTP2_RST_STREAM:
        return reset_end(c);
    case HTTP2_SETTINGS:
        return settings_end(c);
    case HTTP2_PING:
        return ping_end(c);
    case HTTP2_GOAWAY:
        return goaway_end(c);
    case HTTP2_WINDOW_UPDATE:
        return window_end(c);
    default:
        return LS_OK;
    }
}

/* ---- the common case --------------------------------------------------------------------------
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
static enum ls_err quick_head(struct http2_conn *c, struct http2_stream *s, struct ls_bytes block,
                              bool ends)
{
    uint32_t changes = c->hpack.changes;
    enum ls_err rc;

    begin_answer(c, s);
    if (LS_LIKELY(block.len == c->learned.len && changes == c->learned.changes && !s->headed &&
                  block.len > 0 && memcmp(block.data, c->learned.block, block.len) == 0)) {
        s->head = c->learned.head;
        s->headed = true;
        if (ends)
            http2_answered(c, s);
        return LS_OK;
    }
    block_begin(c, s, s->id, 0, ends);
    rc = block_bytes(c, block);
    if (rc != LS_OK)
        return rc;
    if (block.len > 0 && block.len <= HTTP2_LEARNED_MAX && changes == c->hpack.changes &&
        !s->headed && c->block_ill == NULL && c->block_head.status >= 200 && hpack_end(&c->hpack))
        learn(c, block);
    return block_end(c);
}

/* A frame that is whole, of an open stream, and of the usual kind. LS_EAGAIN: it is not, and
 * nothing has happened. */
static enum ls_err quick_frame(struct http2_conn *c, const uint8_t *frame, uint32_t len)
{
    uint32_t id = http2_get32(frame + 5);
    struct http2_stream *s = http2_stream_of(c, id);
    struct ls_bytes in = { frame + HTTP2_HEAD_BYTES, len };
    unsigned flags = frame[4];

    if (s == NULL || id == 0 || len > HTTP2_FRAME_MAX)
        return LS_EAGAIN;
    if (frame[3] == HTTP2_HEADERS) {
        if ((flags & ~HTTP2_END_STREAM) != HTTP2_END_HEADERS)
            return LS_EAGAIN;
        return quick_head(c, s, in, (flags & HTTP2_END_STREAM) != 0);
    }
    if ((flags & ~HTTP2_END_STREAM) != 0 || !s->headed || len == 0 ||
        c->received + len > HTTP2_UPDATE_AT || s->received + len > HTTP2_UPDATE_AT)
        return LS_EAGAIN;
    c->received += len;
    s->received += len;
    http2_body(c, s, in);
    if (flags != 0)
        http2_answered(c, s);
    return LS_OK;
}

/* Gathers a frame's head. */
static enum ls_err head_bytes(struct http2_conn *c, struct ls_bytes *in)
{
    size_t n = HTTP2_HEAD_BYTES - c->head_len;

    if (n > in->len)
        n = in->len;
    memcpy(c->head + c->head_len, in->data, n);
    c->head_len += (uint32_t)n;
    in->data += n;
    in->len -= n;
    if (!c->settled && c->head_len >= 5 && memcmp(c->head, "HTTP/", 5) == 0)
        return not_http2(c, c->head, c->head_len);
    if (c->head_len < HTTP2_HEAD_BYTES)
        return LS_OK;
    return frame_begin(c, c->head);
}

enum ls_err http2_take(struct http2_conn *c, struct ls_bytes in)
{
    enum ls_err rc = LS_OK;

    while (rc == LS_OK && in.len > 0) {
        if (LS_UNLIKELY(c->going) && c->open == 0)
            break; /* over in good order, whatever follows */
        if (LS_LIKELY(!c->in_frame && c->head_len == 0 && in.len >= HTTP2_HEAD_BYTES &&
                      in.data[3] <= HTTP2_HEADERS && c->block_id == 0)) {
            uint32_t len = http2_frame_len(in.data);

            if (LS_LIKELY(len <= in.len - HTTP2_HEAD_BYTES)) {
                rc = quick_frame(c, in.data, len);
                if (LS_LIKELY(rc == LS_OK)) {
                    in.data += HTTP2_HEAD_BYTES + len;
                    in.len -= HTTP2_HEAD_BYTES + len;
                    continue;
                }
                if (rc != LS_EAGAIN)
                    return rc;
                rc = LS_OK;
            }
        }
        rc = c->in_frame ? payload(c, &in) : head_bytes(c, &in);
        if (rc == LS_OK && c->in_frame && c->left == 0)
            rc = frame_end(c);
    }
    return rc;
}
