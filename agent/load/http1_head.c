#include "agent/load/http1_internal.h"

#include <string.h>

#define TLS_ALERT 0x15

static const char VERSION_TEXT[] = "HTTP/1.";

/* RFC 9110, 5.6.2 and 5.5. Values: HTAB, SP, VCHAR, obs-text. */
#define T  (C_TOKEN | C_TEXT)
#define X  C_TEXT
#define X8 X, X, X, X, X, X, X, X
const uint8_t http1_byte_class[256] = {
    0,  0,  0,  0,  0,  0,  0,  0,  0,  X,  0,  0,  0,  0,  0,  0, /* only HTAB */
    0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0, /* none */
    X,  T,  X,  T,  T,  T,  T,  T,  X,  X,  T,  T,  X,  T,  T,  X, /* SP to '/' */
    T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  X,  X,  X,  X,  X,  X, /* digits */
    X,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T, /* '@' to 'O' */
    T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  X,  X,  X,  T,  T, /* 'P' to '_' */
    T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T, /* '`' to 'o' */
    T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  T,  X,  T,  X,  T,  0, /* 'p' to DEL */
    X8, X8, X8, X8, X8, X8, X8, X8, X8, X8, X8, X8, X8, X8, X8, X8,
};
#undef T
#undef X
#undef X8

static void word_add(struct http1_parser *p, unsigned char c)
{
    if (p->word_len < sizeof(p->word))
        p->word[p->word_len++] = (char)http1_lower(c);
    else
        p->word_len = sizeof(p->word) + 1;
}

static bool word_is(const struct http1_parser *p, const char *text)
{
    return p->word_len == strlen(text) && memcmp(p->word, text, p->word_len) == 0;
}

/* Length of the run of bytes of a class from at, at most up to end and at most max. */
static size_t run_of(const unsigned char *at, const unsigned char *end, unsigned class, size_t max)
{
    size_t len = (size_t)(end - at);
    size_t n = 0;

    if (len > max)
        len = max;
    while (n < len && (http1_byte_class[at[n]] & class) != 0)
        n++;
    return n;
}

/* --- Field values that decide about framing --- */

static void length_byte(struct http1_parser *p, unsigned char c)
{
    unsigned digit = (unsigned)c - '0';

    if (c == ' ' || c == '\t') {
        if (p->run > 0)
            p->flags |= F_SPACE;
    } else if (digit > 9 || (p->flags & F_SPACE) != 0) {
        http1_fail(p, "content-length is not a number");
    } else if (p->body_left > ((uint64_t)INT64_MAX - digit) / 10) {
        http1_fail(p, "content-length is too large");
    } else {
        p->body_left = p->body_left * 10 + digit;
        p->run = 1; /* leading zeros are no overflow, however many */
    }
}

static void length_end(struct http1_parser *p)
{
    if (p->run == 0) {
        http1_fail(p, "content-length is not a number");
    } else if ((p->flags & F_LENGTH) != 0 && p->content_length != p->body_left) {
        http1_fail(p, "content-length twice, with different values");
    } else {
        p->content_length = p->body_left;
        p->flags |= F_LENGTH;
    }
}

static void coding_end(struct http1_parser *p)
{
    /* We never ask for another coding (TE), so any is wrong; chunked twice is, too. */
    if (!word_is(p, "chunked"))
        http1_fail(p, "transfer-encoding other than chunked");
    else if ((p->flags & F_CHUNKED) != 0)
        http1_fail(p, "transfer-encoding: chunked twice");
    p->flags |= F_CHUNKED;
}

/* Says nothing about framing, so that nothing in it is wrong. */
static void content_coding_end(struct http1_parser *p)
{
    if (word_is(p, "identity"))
        return;
    p->coding = p->coding == HTTP1_CODING_NONE && (word_is(p, "gzip") || word_is(p, "x-gzip"))
                    ? HTTP1_CODING_GZIP
                    : HTTP1_CODING_OTHER;
}

/* The end of a member, perhaps empty, of a comma-separated list. */
static void list_member(struct http1_parser *p)
{
    if (p->word_len > 0) {
        if (p->kind == K_TRANSFER_ENCODING)
            coding_end(p);
        else if (p->kind == K_CONTENT_ENCODING)
            content_coding_end(p);
        else if (word_is(p, "close"))
            p->flags |= F_CLOSE;
        else if (word_is(p, "keep-alive"))
            p->flags |= F_KEEP_ALIVE;
    }
    p->word_len = 0;
    p->flags &= (uint8_t)~F_SPACE;
}

static void list_byte(struct http1_parser *p, unsigned char c)
{
    if (c == ',') {
        list_member(p);
    } else if (c == ' ' || c == '\t') {
        if (p->word_len > 0)
            p->flags |= F_SPACE;
    } else {
        if ((p->flags & F_SPACE) != 0)
            p->word_len = sizeof(p->word) + 1; /* "keep alive" is none of our words */
        word_add(p, c);
    }
}

static void value_begin(struct http1_parser *p)
{
    p->kind = K_OTHER;
    if ((p->flags & F_TRAILER) == 0) {
        if (word_is(p, "content-length"))
            p->kind = K_CONTENT_LENGTH;
        else if (word_is(p, "transfer-encoding"))
            p->kind = K_TRANSFER_ENCODING;
        else if (word_is(p, "connection"))
            p->kind = K_CONNECTION;
        else if (word_is(p, "content-encoding"))
            p->kind = K_CONTENT_ENCODING;
    }
    if (p->kind == K_TRANSFER_ENCODING)
        p->flags |= F_TRANSFER;
    p->flags &= (uint8_t)~F_SPACE;
    p->word_len = 0;
    p->run = 0;
    p->body_left = 0; /* not in use before the head is complete: collects content-length */
}

static void value_end(struct http1_parser *p)
{
    if (p->kind == K_CONTENT_LENGTH)
        length_end(p);
    else if (p->kind != K_OTHER)
        list_member(p);
}

/* --- The head --- */

static void foreign_byte(struct http1_parser *p, unsigned char c)
{
    word_add(p, c);
    if (p->word_len < 4)
        return;
    /* A SETTINGS frame shorter than 64 KiB; a TLS alert. */
    if (p->word[0] == 0 && p->word[3] == 4)
        http1_fail(p, "the server speaks HTTP/2 here");
    else if (p->word[0] == TLS_ALERT && p->word[1] == 3)
        http1_fail(p, "the server speaks TLS here");
    else
        http1_fail(p, "does not begin with a status line");
}

static void version_byte(struct http1_parser *p, unsigned char c)
{
    if (p->run == 0 && (c == 0 || c == TLS_ALERT)) {
        p->state = S_FOREIGN;
        p->word_len = 0;
        foreign_byte(p, c);
    } else if (c == (unsigned char)VERSION_TEXT[p->run]) {
        if (++p->run == sizeof(VERSION_TEXT) - 1)
            p->state = S_MINOR;
    } else {
        /* "HTTP/2 200" is a status line, but not one of ours. */
        http1_fail(p, p->run == sizeof("HTTP/") - 1 ? "not HTTP/1.0 or HTTP/1.1"
                                                    : "does not begin with a status line");
    }
}

static void minor_byte(struct http1_parser *p, unsigned char c)
{
    if (c != '0' && c != '1') {
        http1_fail(p, "not HTTP/1.0 or HTTP/1.1");
        return;
    }
    p->minor = (uint8_t)(c - '0');
    p->state = S_AFTER_VERSION;
    p->status = 0; /* an interim response may have left its own */
    p->coding = HTTP1_CODING_NONE;
    p->reason_given = false;
    p->reason_len = 0;
    p->run = 0;
}

static void after_version_byte(struct http1_parser *p, unsigned char c)
{
    if (c == ' ')
        p->state = S_STATUS;
    else
        http1_fail(p, "no space after the version");
}

static void status_byte(struct http1_parser *p, unsigned char c)
{
    unsigned digit = (unsigned)c - '0';

    if (digit > 9) {
        http1_fail(p, "status is not three digits");
        return;
    }
    p->status = (uint16_t)(p->status * 10 + digit);
    if (++p->run < 3)
        return;
    p->state = S_AFTER_STATUS;
    if (p->status < 100)
        http1_fail(p, "status below 100");
}

static void line_end(struct http1_parser *p, unsigned char c, enum http1_state after_cr,
                     enum http1_state after_lf)
{
    if (c == '\r')
        p->state = (uint8_t)after_cr;
    else if (c == '\n')
        p->state = (uint8_t)after_lf;
    else
        http1_fail(p, c == 0 ? "NUL in the head" : "control byte in the head");
}

static void after_status_byte(struct http1_parser *p, unsigned char c)
{
    p->run = 0;
    if (c == ' ') {
        p->reason_given = true;
        p->state = S_REASON;
    } else if (c == '\r' || c == '\n') {
        line_end(p, c, S_STATUS_LF, S_FIELD_START); /* common, if not in the grammar */
    } else {
        http1_fail(p, "status is not three digits");
    }
}

static size_t reason_bytes(struct http1_parser *p, const unsigned char *at,
                           const unsigned char *end)
{
    size_t n = run_of(at, end, C_TEXT, HTTP1_VALUE_MAX - p->run);
    size_t room = p->reason != NULL ? HTTP1_REASON_KEPT - (size_t)p->reason_len : 0;
    size_t kept = n < room ? n : room;

    if (kept > 0)
        memcpy(p->reason + p->reason_len, at, kept);
    p->reason_len = (uint8_t)(p->reason_len + kept);
    p->run += (uint32_t)n;
    if (at + n == end)
        return n;
    if ((http1_byte_class[at[n]] & C_TEXT) != 0)
        http1_fail(p, "reason phrase is too long");
    else
        line_end(p, at[n], S_STATUS_LF, S_FIELD_START);
    return n + 1;
}

static void field_start_byte(struct http1_parser *p, unsigned char c)
{
    if (c == '\r') {
        p->state = S_HEAD_LF;
    } else if (c == '\n') {
        p->state = (p->flags & F_TRAILER) != 0 ? S_TRAILERS_DONE : S_HEAD_DONE;
    } else if (c == ' ' || c == '\t') {
        http1_fail(p, "folded field line");
    } else if ((http1_byte_class[c] & C_TOKEN) == 0) {
        http1_fail(p, c == ':' ? "field without a name" : "field name is not a token");
    } else if (p->fields == HTTP1_FIELDS_MAX) {
        http1_fail(p, "too many fields");
    } else {
        p->fields++;
        p->state = S_NAME;
        p->word_len = 0;
        word_add(p, c);
        p->run = 1;
    }
}

static size_t name_bytes(struct http1_parser *p, const unsigned char *at, const unsigned char *end)
{
    size_t n = run_of(at, end, C_TOKEN, HTTP1_NAME_MAX - p->run);

    for (size_t i = 0; i < n && p->word_len <= sizeof(p->word); i++)
        word_add(p, at[i]);
    p->run += (uint32_t)n;
    if (at + n == end)
        return n;
    if (at[n] == ':') {
        p->state = S_VALUE;
        value_begin(p);
    } else if ((http1_byte_class[at[n]] & C_TOKEN) != 0) {
        http1_fail(p, "field name is too long");
    } else {
        http1_fail(p, at[n] == ' ' || at[n] == '\t' ? "white space in a field name"
                                                    : "field name is not a token");
    }
    return n + 1;
}

/* A value that decides about framing; bounded by the limit of the head, as nothing of it is kept.
 * Stops at the first byte that is no text. */
static size_t framing_value_bytes(struct http1_parser *p, const unsigned char *at,
                                  const unsigned char *end)
{
    size_t n = 0;

    while (at + n < end && (http1_byte_class[at[n]] & C_TEXT) != 0 && p->state != S_BAD) {
        if (p->kind == K_CONTENT_LENGTH)
            length_byte(p, at[n]);
        else
            list_byte(p, at[n]);
        n++;
    }
    return n;
}

static size_t value_bytes(struct http1_parser *p, const unsigned char *at, const unsigned char *end)
{
    size_t n;

    if (p->kind == K_OTHER) {
        n = run_of(at, end, C_TEXT, HTTP1_VALUE_MAX - p->run);
        p->run += (uint32_t)n;
    } else {
        n = framing_value_bytes(p, at, end);
    }
    if (at + n == end || p->state == S_BAD)
        return n;
    if ((http1_byte_class[at[n]] & C_TEXT) != 0) {
        http1_fail(p, "field value is too long");
        return n + 1;
    }
    line_end(p, at[n], S_FIELD_LF, S_FIELD_START);
    value_end(p);
    return n + 1;
}

static void lf_byte(struct http1_parser *p, unsigned char c, enum http1_state next)
{
    if (c == '\n')
        p->state = (uint8_t)next;
    else
        http1_fail(p, "CR without LF");
}

/* Uses at least one byte of [at, end) in one of the states of a head. Returns how many. */
static size_t head_some(struct http1_parser *p, const unsigned char *at, const unsigned char *end)
{
    switch ((enum http1_state)p->state) {
    case S_NAME:
        return name_bytes(p, at, end);
    case S_VALUE:
        return value_bytes(p, at, end);
    case S_REASON:
        return reason_bytes(p, at, end);
    case S_VERSION:
        version_byte(p, *at);
        break;
    case S_FOREIGN:
        foreign_byte(p, *at);
        break;
    case S_MINOR:
        minor_byte(p, *at);
        break;
    case S_AFTER_VERSION:
        after_version_byte(p, *at);
        break;
    case S_STATUS:
        status_byte(p, *at);
        break;
    case S_AFTER_STATUS:
        after_status_byte(p, *at);
        break;
    case S_STATUS_LF:
    case S_FIELD_LF:
        lf_byte(p, *at, S_FIELD_START);
        break;
    case S_HEAD_LF:
        lf_byte(p, *at, (p->flags & F_TRAILER) != 0 ? S_TRAILERS_DONE : S_HEAD_DONE);
        break;
    default:
        field_start_byte(p, *at);
        break;
    }
    return 1;
}

void http1_head_bytes(struct http1_parser *p, struct ls_bytes *in)
{
    /* The limit applies before bytes are looked at: fragmentation cannot matter. */
    size_t room = HTTP1_HEAD_MAX - p->head_bytes;
    const unsigned char *at = in->data;
    const unsigned char *end = at + (in->len < room ? in->len : room);

    while (at < end && http1_in_head(p))
        at += head_some(p, at, end);
    p->head_bytes += (uint32_t)(at - in->data);
    in->len -= (size_t)(at - in->data);
    in->data = at;
    if (http1_in_head(p) && in->len > 0)
        http1_fail(p, "head is too large");
}
