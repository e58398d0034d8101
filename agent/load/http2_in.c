/* Frames that arrive (RFC 9113, 4 to 6), in any slicing. */
#include "agent/load/http2_conn.h"
#include "agent/load/http2_use.h"

#define ID_MASK 0x7fffffffu

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
enum ls_err http2_idle_frame(struct http2_conn *c)
{
    return ++c->idle > HTTP2_IDLE_MAX ? fail(c, HTTP2_ENHANCE_YOUR_CALM, HTTP2_FLOOD) : LS_OK;
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
        return http2_idle_frame(c);
    s->received += c->left;
    if (s->received > HTTP2_OUR_WINDOW)
        return http2_fail(c, s, HTTP2_FLOW_CONTROL_ERROR,
                          "more data than the stream's window allows");
    if (!s->headed)
        http2_malformed(c, s, HTTP2_PROTOCOL_ERROR, "a body before the head");
    if (c->left == 0 && (c->flags & HTTP2_END_STREAM) == 0)
        return http2_idle_frame(c);
    return LS_OK;
}

static enum ls_err headers_begin(struct http2_conn *c)
{
    struct http2_stream *s = http2_stream_of(c, c->id);

    if (s != NULL)
        http2_begin_answer(c, s);
    http2_block_begin(c, s, c->id, 0, (c->flags & HTTP2_END_STREAM) != 0);
    return LS_OK;
}

static enum ls_err settings_begin(struct http2_conn *c)
{
    if (c->id != 0)
        return fail(c, HTTP2_PROTOCOL_ERROR, "SETTINGS of a stream");
    if ((c->flags & HTTP2_ACK) != 0 ? c->left != 0 : c->left % 6 != 0)
        return fail(c, HTTP2_FRAME_SIZE_ERROR, "SETTINGS of a wrong length");
    return http2_idle_frame(c);
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
    return c->left == 0 ? http2_idle_frame(c) : LS_OK;
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
        return http2_idle_frame(c);
    case HTTP2_RST_STREAM:
        return fixed_begin(c, 4, true);
    case HTTP2_SETTINGS:
        return settings_begin(c);
    case HTTP2_PUSH_PROMISE:
        return push_begin(c);
    case HTTP2_PING:
        rc = fixed_begin(c, 8, false);
        return rc == LS_OK ? http2_idle_frame(c) : rc;
    case HTTP2_GOAWAY:
        return goaway_begin(c);
    case HTTP2_WINDOW_UPDATE:
        if (c->id == 0)
            return c->left == 4 ? http2_idle_frame(c)
                                : fail(c, HTTP2_FRAME_SIZE_ERROR, "a frame of a wrong length");
        return fixed_begin(c, 4, true);
    case HTTP2_CONTINUATION:
        return continuation_begin(c);
    default:
        return http2_idle_frame(c); /* of an extension: ignored (RFC 9113, 5.5) */
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
        http2_block_begin(c, NULL, c->id, promise, false);
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
        return http2_block_bytes(c, in);
    case HTTP2_SETTINGS:
        return http2_settings_bytes(c, in);
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

static enum ls_err frame_end(struct http2_conn *c)
{
    c->in_frame = false;
    switch (c->type) {
    case HTTP2_DATA:
        return data_end(c);
    case HTTP2_HEADERS:
    case HTTP2_PUSH_PROMISE:
    case HTTP2_CONTINUATION:
        return (c->flags & HTTP2_END_HEADERS) != 0 ? http2_block_end(c) : LS_OK;
    case HTTP2_RST_STREAM:
        return http2_reset_end(c);
    case HTTP2_SETTINGS:
        return http2_settings_end(c);
    case HTTP2_PING:
        return http2_ping_end(c);
    case HTTP2_GOAWAY:
        return http2_goaway_end(c);
    case HTTP2_WINDOW_UPDATE:
        return http2_window_end(c);
    default:
        return LS_OK;
    }
}

/* ---- the common case --------------------------------------------------------------------------
 */

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
        return http2_block_whole(c, s, in, (flags & HTTP2_END_STREAM) != 0);
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
