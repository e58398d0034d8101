#include "agent/load/http2_request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/load/hpack.h"
#include "agent/load/http2_frame.h"

#define KEPT       0x40u /* first byte of a literal: 6 bits of index follow */
#define NOT_KEPT   0x00u /* 4 bits */
#define FIRST_KEPT 62u   /* index of the newest field of the table */

enum { PATH = 4, SCHEME_HTTP = 6, SCHEME_HTTPS = 7 };

/* Names that have an index in RFC 7541, Appendix A. */
static const struct {
    const char *name;
    uint8_t index;
} indexed[] = {
    { ":authority", 1 },       { ":method", 2 },       { ":path", PATH },
    { "accept-encoding", 16 }, { "accept", 19 },       { "authorization", 23 },
    { "content-length", 28 },  { "content-type", 31 }, { "cookie", 32 },
    { "user-agent", 58 },
};

/* A field in both protocols' terms. */
struct field {
    struct ls_bytes name; /* in any case */
    struct ls_bytes value;
};

static bool is_word(struct ls_bytes text, const char *word)
{
    return text.len == strlen(word) && strncasecmp((const char *)text.data, word, text.len) == 0;
}

/* The next line of *text, without its end. */
static struct ls_bytes take_line(struct ls_bytes *text)
{
    const unsigned char *lf = text->len > 0 ? memchr(text->data, '\n', text->len) : NULL;
    struct ls_bytes line = { text->data, lf != NULL ? (size_t)(lf - text->data) : text->len };

    text->data += line.len + (lf != NULL);
    text->len -= line.len + (lf != NULL);
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    return line;
}

/* "GET /x HTTP/1.1" */
static void split_start(struct ls_bytes line, struct ls_bytes *out_method,
                        struct ls_bytes *out_path)
{
    const unsigned char *space = memchr(line.data, ' ', line.len);
    const unsigned char *end = line.data + line.len;

    *out_method = (struct ls_bytes){ line.data, (size_t)(space - line.data) };
    while (end > space + 1 && end[-1] != ' ')
        end--;
    *out_path = (struct ls_bytes){ space + 1, (size_t)(end - 1 - (space + 1)) };
}

static struct field split_field(struct ls_bytes line)
{
    const unsigned char *colon = memchr(line.data, ':', line.len);
    struct field field = { .name = { line.data, (size_t)(colon - line.data) } };
    const unsigned char *value = colon + 1;
    const unsigned char *end = line.data + line.len;

    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    field.value = (struct ls_bytes){ value, (size_t)(end - value) };
    if (is_word(field.name, "host"))
        field.name = (struct ls_bytes){ (const unsigned char *)":authority", 10 };
    return field;
}

static bool is_start(struct ls_bytes line)
{
    const unsigned char *colon = memchr(line.data, ':', line.len);
    const unsigned char *space = memchr(line.data, ' ', line.len);

    return space != NULL && (colon == NULL || space < colon);
}

/* ---- HPACK ----------------------------------------------------------------------------------- */

static unsigned char *put_integer(unsigned char *out, unsigned first, unsigned prefix_bits,
                                  size_t number)
{
    size_t most = ((size_t)1 << prefix_bits) - 1;

    if (number < most) {
        *out++ = (unsigned char)(first | number);
        return out;
    }
    *out++ = (unsigned char)(first | most);
    for (number -= most; number >= 0x80; number >>= 7)
        *out++ = (unsigned char)(0x80 | (number & 0x7f));
    *out++ = (unsigned char)number;
    return out;
}

static unsigned char *put_text(unsigned char *out, struct ls_bytes text, bool lower)
{
    out = put_integer(out, 0, 7, text.len);
    for (size_t i = 0; lower && i < text.len; i++) {
        unsigned char c = text.data[i];

        out[i] = c >= 'A' && c <= 'Z' ? (unsigned char)(c - 'A' + 'a') : c;
    }
    if (!lower && text.len > 0)
        memcpy(out, text.data, text.len);
    return out + text.len;
}

static unsigned char *put_literal(unsigned char *out, unsigned form, struct field field)
{
    unsigned index = 0;

    for (size_t i = 0; i < LS_ARRAY_LEN(indexed) && index == 0; i++) {
        if (is_word(field.name, indexed[i].name))
            index = indexed[i].index;
    }
    out = put_integer(out, form, form == KEPT ? 6 : 4, index);
    if (index == 0)
        out = put_text(out, field.name, true);
    return put_text(out, field.value, false);
}

static unsigned fixed_path(struct ls_bytes path)
{
    static const char index[] = "/index.html";

    if (path.len == 1 && path.data[0] == '/')
        return PATH;
    return path.len == sizeof(index) - 1 && memcmp(path.data, index, path.len) == 0 ? PATH + 1 : 0;
}

static unsigned char *put_method(unsigned char *out, struct ls_bytes method)
{
    static const char name[] = ":method";
    struct field field = { { (const unsigned char *)name, sizeof(name) - 1 }, method };

    if (method.len == 3 && memcmp(method.data, "GET", 3) == 0)
        return put_integer(out, 0x80, 7, 2);
    if (method.len == 4 && memcmp(method.data, "POST", 4) == 0)
        return put_integer(out, 0x80, 7, 3);
    return put_literal(out, NOT_KEPT, field);
}

static struct field path_field(struct ls_bytes path)
{
    static const char name[] = ":path";

    return (struct field){ { (const unsigned char *)name, sizeof(name) - 1 }, path };
}

static bool is_shared(const struct load_http2 *shared, struct ls_bytes line)
{
    for (uint32_t i = 0; i < shared->count; i++) {
        const struct ls_bytes *other = &shared->fields[i].line;

        if (other->len == line.len && memcmp(other->data, line.data, line.len) == 0)
            return true;
    }
    return false;
}

static unsigned char *put_later(const struct load_http2 *shared, bool pseudo, unsigned char *out)
{
    for (uint32_t i = 0; i < shared->count; i++) {
        if (shared->fields[i].pseudo == pseudo)
            out = put_integer(out, 0x80, 7, FIRST_KEPT + shared->count - 1 - i);
    }
    return out;
}

static unsigned char *put_start(const struct load_http2 *shared, struct ls_bytes line,
                                unsigned char *out)
{
    struct ls_bytes method;
    struct ls_bytes path;

    split_start(line, &method, &path);
    out = put_method(out, method);
    out = put_integer(out, 0x80, 7, shared->tls ? SCHEME_HTTPS : SCHEME_HTTP);
    if (is_shared(shared, line))
        return out;
    if (fixed_path(path) != 0)
        return put_integer(out, 0x80, 7, fixed_path(path));
    return put_literal(out, NOT_KEPT, path_field(path));
}

size_t http2_encode(const struct load_http2 *shared, struct ls_bytes text, bool more,
                    unsigned char *out, struct ls_bytes *out_body)
{
    unsigned char *at = put_later(shared, true, out + HTTP2_HEAD_BYTES);
    struct ls_bytes rest = text;
    struct ls_bytes line = take_line(&rest);
    struct ls_bytes fields = rest;

    at = put_start(shared, line, at);
    /* Pseudo-fields come before all others (RFC 9113, 8.3). */
    while ((line = take_line(&rest)).len > 0) {
        struct field field = split_field(line);

        if (field.name.data[0] == ':' && !is_shared(shared, line))
            at = put_literal(at, NOT_KEPT, field);
    }
    *out_body = rest;
    while ((line = take_line(&fields)).len > 0) {
        struct field field = split_field(line);

        if (field.name.data[0] != ':' && !is_shared(shared, line))
            at = put_literal(at, NOT_KEPT, field);
    }
    at = put_later(shared, false, at);
    http2_put_head(out, (uint32_t)(at - out - HTTP2_HEAD_BYTES), HTTP2_HEADERS,
                   HTTP2_END_HEADERS | (more || out_body->len > 0 ? 0 : HTTP2_END_STREAM), 0);
    return (size_t)(at - out);
}

enum ls_err http2_check_head(struct ls_bytes head, struct ls_diag *diag)
{
    static const char *const of_connections[] = { "connection", "keep-alive", "proxy-connection",
                                                  "transfer-encoding", "upgrade" };
    struct ls_bytes line = take_line(&head);
    struct ls_bytes method;
    struct ls_bytes path;

    split_start(line, &method, &path);
    if (path.len == 0 || (path.data[0] != '/' && !is_word(path, "*")))
        return ls_fail(diag, LS_EINVAL, "path %.*s: HTTP/2 needs one that begins with /",
                       (int)(path.len < 80 ? path.len : 80), path.data);
    while ((line = take_line(&head)).len > 0) {
        struct field field = split_field(line);

        for (size_t i = 0; i < LS_ARRAY_LEN(of_connections); i++) {
            if (is_word(field.name, of_connections[i]))
                return ls_fail(diag, LS_EINVAL,
                               "header %s is about connections of HTTP/1: HTTP/2 has none, leave "
                               "it out",
                               of_connections[i]);
        }
        if (is_word(field.name, "te") && !is_word(field.value, "trailers"))
            return ls_fail(diag, LS_EINVAL, "header te: in HTTP/2 it can only be trailers");
    }
    return LS_OK;
}

/* ---- what all have in common ----------------------------------------------------------------- */

static bool has_line(struct ls_bytes head, struct ls_bytes line)
{
    while (head.len > 0) {
        struct ls_bytes other = take_line(&head);

        if (other.len == line.len && line.len > 0 && memcmp(other.data, line.data, line.len) == 0)
            return true;
    }
    return false;
}

static struct field field_of(struct ls_bytes line)
{
    struct ls_bytes method;
    struct ls_bytes path;

    if (!is_start(line))
        return split_field(line);
    split_start(line, &method, &path);
    return path_field(path);
}

/* Of a head's line: is it worth a place in the peer's table, and is there one? */
static void offer(struct load_http2 *shared, struct ls_bytes line)
{
    struct field field = field_of(line);
    size_t bytes = HPACK_OVERHEAD + field.name.len + field.value.len;

    if (shared->count == HTTP2_SHARED_MAX || shared->table_bytes + bytes > HTTP2_SHARED_BYTES ||
        is_shared(shared, line) || (is_start(line) && fixed_path(field.value) != 0))
        return;
    shared->fields[shared->count++] =
        (struct http2_shared_field){ .line = line, .pseudo = field.name.data[0] == ':' };
    shared->table_bytes += (uint32_t)bytes;
}

/* In the order of a block: pseudo-fields first, which is that of the table, too. */
static void sort_fields(struct load_http2 *shared)
{
    struct http2_shared_field sorted[HTTP2_SHARED_MAX];
    uint32_t n = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < shared->count; i++) {
            if (shared->fields[i].pseudo == (pass == 0))
                sorted[n++] = shared->fields[i];
        }
    }
    memcpy(shared->fields, sorted, n * sizeof(sorted[0]));
}

static unsigned char *put_form(struct load_http2 *shared, unsigned form, struct ls_bytes parts[2],
                               unsigned char *at)
{
    for (int part = 0; part < 2; part++) {
        parts[part].data = at;
        for (uint32_t i = 0; i < shared->count; i++) {
            if (shared->fields[i].pseudo == (part == 0))
                at = put_literal(at, form, field_of(shared->fields[i].line));
        }
        parts[part].len = (size_t)(at - parts[part].data);
    }
    return at;
}

/* Copies the lines, which are the caller's, and writes the forms. */
static enum ls_err make_forms(struct load_http2 *shared)
{
    size_t bytes = 0;
    unsigned char *at;

    for (uint32_t i = 0; i < shared->count; i++)
        bytes += shared->fields[i].line.len + 2 * http2_encoded_max(shared->fields[i].line.len);
    shared->store = malloc(bytes + 1);
    if (shared->store == NULL)
        return LS_ENOMEM;
    at = shared->store;
    for (uint32_t i = 0; i < shared->count; i++) {
        struct http2_shared_field *field = &shared->fields[i];

        memcpy(at, field->line.data, field->line.len);
        field->line.data = at;
        at += field->line.len;
        *(field->pseudo ? &shared->front : &shared->back) += 1;
    }
    at = put_form(shared, KEPT, shared->first, at);
    (void)put_form(shared, NOT_KEPT, shared->plain, at);
    return LS_OK;
}

enum ls_err http2_shared_create(const struct ls_bytes *heads, size_t count, bool tls,
                                struct load_http2 **out_shared, struct ls_diag *diag)
{
    struct load_http2 *shared = calloc(1, sizeof(*shared));
    struct ls_bytes rest = count > 0 ? heads[0] : (struct ls_bytes){ NULL, 0 };

    if (shared == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for requests");
    shared->tls = tls;
    while (rest.len > 0) {
        struct ls_bytes line = take_line(&rest);
        size_t n = 1;

        while (n < count && has_line(heads[n], line))
            n++;
        if (n == count && line.len > 0)
            offer(shared, line);
    }
    sort_fields(shared);
    if (make_forms(shared) != LS_OK) {
        http2_shared_destroy(shared);
        return ls_fail(diag, LS_ENOMEM, "out of memory for requests");
    }
    *out_shared = shared;
    return LS_OK;
}

void http2_shared_destroy(struct load_http2 *shared)
{
    if (shared == NULL)
        return;
    free(shared->store);
    free(shared);
}
