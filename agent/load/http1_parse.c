#include "agent/load/http1_parse.h"

#include <assert.h>
#include <string.h>

#include "agent/load/http1_internal.h"

/* In a step of the whole. */
static enum http1_step bad(struct http1_parser *p, const char *why)
{
    http1_fail(p, why);
    return HTTP1_BAD;
}

void http1_begin(struct http1_parser *p, unsigned flags)
{
    memset(p, 0, sizeof(*p));
    p->state = S_VERSION;
    p->begin_flags = (uint8_t)flags;
}

bool http1_at_start(const struct http1_parser *p)
{
    return p->state == S_VERSION && p->run == 0 && p->interims == 0;
}

/* RFC 9112, 6.3, in its order. */
static enum http1_step head_done(struct http1_parser *p)
{
    if ((p->flags & F_TRANSFER) != 0) {
        if ((p->flags & F_LENGTH) != 0)
            return bad(p, "both content-length and transfer-encoding");
        if ((p->flags & F_CHUNKED) == 0)
            return bad(p, "transfer-encoding other than chunked");
        if (p->minor == 0)
            return bad(p, "transfer-encoding in HTTP/1.0");
    }
    if (p->status == 101 && (p->begin_flags & HTTP1_TO_UPGRADE) == 0)
        return bad(p, "101 without having been asked to switch protocols");
    if (p->status < 200 && p->status != 101) {
        if (++p->interims > HTTP1_INTERIM_MAX)
            return bad(p, "too many 1xx responses");
        p->state = S_VERSION;
        p->run = 0;
        p->flags = 0;
        p->fields = 0;
        p->head_bytes = 0;
        p->content_length = 0;
        return HTTP1_INTERIM;
    }

    p->body_left = 0;
    p->state = S_LENGTH;
    if ((p->begin_flags & HTTP1_TO_HEAD) != 0 || p->status == 101 || p->status == 204 ||
        p->status == 304) {
        p->framing = HTTP1_FRAMING_NONE;
    } else if ((p->flags & F_TRANSFER) != 0) {
        p->framing = HTTP1_FRAMING_CHUNKED;
        p->state = S_CHUNK_SIZE;
        p->run = 0;
    } else if ((p->flags & F_LENGTH) != 0) {
        p->framing = HTTP1_FRAMING_LENGTH;
        p->body_left = p->content_length;
    } else {
        p->framing = HTTP1_FRAMING_CLOSE;
        p->state = S_CLOSE;
    }
    p->keep_alive = p->framing != HTTP1_FRAMING_CLOSE && (p->flags & F_CLOSE) == 0 &&
                    (p->minor == 1 || (p->flags & F_KEEP_ALIVE) != 0);
    return HTTP1_HEAD;
}

/* --- The body --- */

static struct ls_bytes take(struct ls_bytes *in, uint64_t max)
{
    struct ls_bytes taken = { in->data, in->len < max ? in->len : (size_t)max };

    in->data += taken.len;
    in->len -= taken.len;
    return taken;
}

static int hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = http1_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void chunk_size_byte(struct http1_parser *p, unsigned char c)
{
    int digit = hex_digit(c);

    if (digit >= 0) {
        if (++p->run > HTTP1_CHUNK_DIGITS || p->body_left > (uint64_t)INT64_MAX / 16)
            http1_fail(p, "chunk size is too large");
        p->body_left = p->body_left * 16 + (unsigned)digit;
        return;
    }
    if (p->run == 0) {
        http1_fail(p, "chunk size is not a number");
        return;
    }
    p->run = 0;
    p->flags &= (uint8_t)~F_SPACE;
    if (c == '\r') {
        p->state = S_CHUNK_SIZE_LF;
    } else if (c == ';') {
        p->state = S_CHUNK_EXT;
    } else if (c == ' ' || c == '\t') {
        p->state = S_CHUNK_EXT; /* some servers pad the size */
        p->flags |= F_SPACE;
    } else {
        http1_fail(p, "chunk size is not a number");
    }
}

/* F_SPACE: nothing but white space so far. */
static void chunk_ext_byte(struct http1_parser *p, unsigned char c)
{
    if (c == '\r') {
        p->state = S_CHUNK_SIZE_LF;
    } else if ((http1_byte_class[c] & C_TEXT) == 0) {
        http1_fail(p, "control byte in a chunk extension");
    } else if (++p->run > HTTP1_CHUNK_EXT_MAX) {
        http1_fail(p, "chunk extension is too long");
    } else if ((p->flags & F_SPACE) != 0 && c != ' ' && c != '\t') {
        if (c == ';')
            p->flags &= (uint8_t)~F_SPACE;
        else
            http1_fail(p, "chunk size is not a number");
    }
}

static void chunk_size_end(struct http1_parser *p)
{
    p->run = 0;
    if (p->body_left > 0) {
        p->state = S_CHUNK_DATA;
        return;
    }
    p->state = S_FIELD_START;
    p->flags |= F_TRAILER;
    p->fields = 0;
    p->head_bytes = 0;
}

/* One byte of what surrounds the chunks. Here a bare LF ends no line: RFC 9112, 2.2, allows that
 * for the head only, and intermediaries disagree about it. */
static enum http1_step chunk_byte(struct http1_parser *p, struct ls_bytes *in)
{
    unsigned char c = *take(in, 1).data;

    switch ((enum http1_state)p->state) {
    case S_CHUNK_SIZE:
        chunk_size_byte(p, c);
        break;
    case S_CHUNK_EXT:
        chunk_ext_byte(p, c);
        break;
    case S_CHUNK_SIZE_LF:
        if (c == '\n')
            chunk_size_end(p);
        else
            http1_fail(p, "chunk size does not end in CRLF");
        break;
    default:
        if (c != (p->state == S_CHUNK_CR ? '\r' : '\n'))
            http1_fail(p, "chunk does not end in CRLF");
        else
            p->state = p->state == S_CHUNK_CR ? S_CHUNK_LF : S_CHUNK_SIZE;
        break;
    }
    return p->state == S_BAD ? HTTP1_BAD : HTTP1_MORE;
}

static enum http1_step body_bytes(struct http1_parser *p, struct ls_bytes *in,
                                  struct ls_bytes *out_body)
{
    if (p->state == S_CLOSE) {
        *out_body = take(in, in->len);
        return HTTP1_BODY;
    }
    *out_body = take(in, p->body_left);
    p->body_left -= out_body->len;
    if (p->body_left == 0 && p->state == S_CHUNK_DATA)
        p->state = S_CHUNK_CR;
    return HTTP1_BODY;
}

static enum http1_step done(struct http1_parser *p)
{
    if ((p->flags & F_TRAILER) != 0)
        p->trailers = p->fields;
    p->state = S_IDLE;
    return HTTP1_DONE;
}

/* One step; MORE: go on as long as there is input. */
static enum http1_step step_once(struct http1_parser *p, struct ls_bytes *in,
                                 struct ls_bytes *out_body)
{
    switch ((enum http1_state)p->state) {
    case S_HEAD_DONE:
        return head_done(p);
    case S_TRAILERS_DONE:
        return done(p);
    case S_LENGTH:
        if (p->body_left == 0)
            return done(p);
        return in->len > 0 ? body_bytes(p, in, out_body) : HTTP1_MORE;
    case S_CLOSE:
    case S_CHUNK_DATA:
        return in->len > 0 ? body_bytes(p, in, out_body) : HTTP1_MORE;
    case S_CHUNK_SIZE:
    case S_CHUNK_EXT:
    case S_CHUNK_SIZE_LF:
    case S_CHUNK_CR:
    case S_CHUNK_LF:
        return in->len > 0 ? chunk_byte(p, in) : HTTP1_MORE;
    case S_BAD:
        return HTTP1_BAD;
    case S_IDLE:
        return HTTP1_DONE; /* not begun: nothing of in can belong to it */
    default:
        http1_head_bytes(p, in);
        return p->state == S_BAD ? HTTP1_BAD : HTTP1_MORE;
    }
}

enum http1_step http1_parse(struct http1_parser *p, struct ls_bytes *in, struct ls_bytes *out_body)
{
    enum http1_step step;

    do
        step = step_once(p, in, out_body);
    while (step == HTTP1_MORE &&
           (in->len > 0 || p->state == S_HEAD_DONE || p->state == S_TRAILERS_DONE));
    return step;
}

enum http1_step http1_end(struct http1_parser *p)
{
    switch ((enum http1_state)p->state) {
    case S_CLOSE:
        return done(p);
    case S_BAD:
        return HTTP1_BAD;
    case S_FOREIGN:
        return bad(p, "does not begin with a status line");
    case S_LENGTH:
        p->why = "closed before content-length was reached";
        return HTTP1_MORE;
    case S_CHUNK_SIZE:
    case S_CHUNK_EXT:
    case S_CHUNK_SIZE_LF:
    case S_CHUNK_DATA:
    case S_CHUNK_CR:
    case S_CHUNK_LF:
        p->why = "closed before the last chunk";
        return HTTP1_MORE;
    default:
        if (http1_at_start(p) || p->state == S_IDLE)
            p->why = "closed without an answer";
        else
            p->why = (p->flags & F_TRAILER) != 0 ? "closed within the trailers"
                                                 : "closed within the head";
        return HTTP1_MORE;
    }
}

const char *http1_framing_name(enum http1_framing framing)
{
    static const char *const names[] = { "none", "cl", "chunked", "until-close" };

    static_assert(LS_ARRAY_LEN(names) == HTTP1_FRAMING_COUNT, "a name for each framing");
    return names[framing];
}
