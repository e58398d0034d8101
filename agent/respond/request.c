#include "agent/respond/request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LINE_MAX_BYTES 4096u

enum state {
    AT_HEAD,
    IN_BODY,
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    TRAILER_START,
    TRAILER_LINE,
    TRAILER_LF,
    TRAILER_END_LF
};

/* What the header fields of one head add up to. */
struct fields {
    bool websocket; /* Upgrade says so ... */
    bool upgrade;   /* ... and Connection that it means it */
    bool version_13;
    unsigned hosts;
    bool length_given;
    bool chunked;
    bool close;
    bool keep_alive;
    bool expects;
    uint64_t length;
};

static bool is_token(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_text(const unsigned char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((text[i] < 0x20 && text[i] != '\t') || text[i] == 0x7f)
            return false;
    }
    return true;
}

static bool same(const unsigned char *text, size_t len, const char *word)
{
    return len == strlen(word) && strncasecmp((const char *)text, word, len) == 0;
}

/* Is word among the comma-separated elements of value? */
static bool lists(const unsigned char *value, size_t len, const char *word)
{
    size_t at = 0;

    while (at < len) {
        size_t end = at;
        size_t last;

        while (end < len && value[end] != ',')
            end++;
        last = end;
        while (at < last && (value[at] == ' ' || value[at] == '\t'))
            at++;
        while (last > at && (value[last - 1] == ' ' || value[last - 1] == '\t'))
            last--;
        if (same(value + at, last - at, word))
            return true;
        at = end + 1;
    }
    return false;
}

static void copy_word(char out[RESPOND_WORD_MAX], const unsigned char *text, size_t len)
{
    if (len >= RESPOND_WORD_MAX)
        len = RESPOND_WORD_MAX - 1;
    (void)memcpy(out, text, len);
    out[len] = '\0';
}

/* What a head says of WebSocket. */
static void take_upgrade(struct respond_upgrade *upgrade, struct fields *fields,
                         const unsigned char *name, size_t name_len, const unsigned char *value,
                         size_t value_len)
{
    if (same(name, name_len, "upgrade")) {
        fields->websocket = same(value, value_len, "websocket");
    } else if (same(name, name_len, "sec-websocket-key")) {
        copy_word(upgrade->key, value, value_len);
    } else if (same(name, name_len, "sec-websocket-version")) {
        fields->version_13 = same(value, value_len, "13");
    } else if (same(name, name_len, "sec-websocket-protocol")) {
        const unsigned char *comma = memchr(value, ',', value_len);

        copy_word(upgrade->protocol, value, comma != NULL ? (size_t)(comma - value) : value_len);
    }
}

static const char *take_length(struct fields *fields, const unsigned char *value, size_t len)
{
    uint64_t length = 0;

    if (fields->length_given)
        return "Content-Length twice";
    if (len == 0 || len > 15)
        return "Content-Length is no number";
    for (size_t i = 0; i < len; i++) {
        if (value[i] < '0' || value[i] > '9')
            return "Content-Length is no number";
        length = length * 10 + (value[i] - '0');
    }
    fields->length_given = true;
    fields->length = length;
    return NULL;
}

static const char *take_field(struct fields *fields, struct respond_upgrade *upgrade,
                              const unsigned char *line, size_t len)
{
    const unsigned char *colon = memchr(line, ':', len);
    const unsigned char *value;
    size_t name_len;
    size_t value_len;

    if (colon == NULL || colon == line)
        return "a header line without a name and a colon";
    name_len = (size_t)(colon - line);
    for (size_t i = 0; i < name_len; i++) {
        if (!is_token(line[i]))
            return "a header name with a character that is not allowed";
    }
    value = colon + 1;
    value_len = len - name_len - 1;
    while (value_len > 0 && (*value == ' ' || *value == '\t')) {
        value++;
        value_len--;
    }
    while (value_len > 0 && (value[value_len - 1] == ' ' || value[value_len - 1] == '\t'))
        value_len--;
    if (!is_text(value, value_len))
        return "a header value with a control character";
    if (same(line, name_len, "host")) {
        fields->hosts++;
    } else if (same(line, name_len, "content-length")) {
        return take_length(fields, value, value_len);
    } else if (same(line, name_len, "transfer-encoding")) {
        if (fields->chunked || !same(value, value_len, "chunked"))
            return "a Transfer-Encoding other than chunked";
        fields->chunked = true;
    } else if (same(line, name_len, "connection")) {
        fields->close = fields->close || lists(value, value_len, "close");
        fields->keep_alive = fields->keep_alive || lists(value, value_len, "keep-alive");
        fields->upgrade = fields->upgrade || lists(value, value_len, "upgrade");
    } else if (same(line, name_len, "expect")) {
        if (!same(value, value_len, "100-continue"))
            return "an Expect other than 100-continue";
        fields->expects = true;
    } else {
        take_upgrade(upgrade, fields, line, name_len, value, value_len);
    }
    return NULL;
}

/* "?name=..." of a request's target. */
static void take_name(struct respond_upgrade *upgrade, const unsigned char *line, size_t len)
{
    const unsigned char *at = memmem(line, len, "name=", 5);
    size_t n = 0;

    (void)memcpy(upgrade->name, "anon", 5);
    if (at == NULL || at == line || (at[-1] != '?' && at[-1] != '&'))
        return;
    at += 5;
    while (at + n < line + len && at[n] != '&' && at[n] != ' ' && at[n] != '#')
        n++;
    copy_word(upgrade->name, at, n);
}

/* "GET /path HTTP/1.1" */
static const char *take_request_line(const unsigned char *line, size_t len, bool *out_head,
                                     unsigned *out_minor)
{
    size_t at = 0;
    size_t target;

    while (at < len && is_token(line[at]))
        at++;
    if (at == 0 || at == len || line[at] != ' ')
        return "a request line without a method";
    *out_head = at == 4 && memcmp(line, "HEAD", 4) == 0;
    target = ++at;
    while (at < len && line[at] > 0x20 && line[at] != 0x7f)
        at++;
    if (at == target || at == len || line[at] != ' ')
        return "a request line without a target";
    at++;
    if (len - at != 8 || memcmp(line + at, "HTTP/1.", 7) != 0 ||
        (line[at + 7] != '0' && line[at + 7] != '1'))
        return "a version other than HTTP/1.0 and HTTP/1.1";
    *out_minor = (unsigned)(line[at + 7] - '0');
    return NULL;
}

/* Reads a head with its last empty line. Sets request, state and body_left. */
static enum respond_found take_head(struct respond_parser *parser, const unsigned char *head,
                                    size_t len)
{
    const unsigned char *end = head + len - 2; /* the empty line */
    const unsigned char *line = head;
    struct fields fields = { 0 };
    unsigned minor = 1;

    parser->why = NULL;
    parser->upgrade.key[0] = parser->upgrade.protocol[0] = '\0';
    while (line < end && parser->why == NULL) {
        const unsigned char *lf = memchr(line, '\n', (size_t)(end - line));

        if (lf == NULL || lf == line || lf[-1] != '\r')
            parser->why = "a line that does not end in CR LF";
        else if (line == head)
            parser->why =
                take_request_line(line, (size_t)(lf - 1 - line), &parser->request.head, &minor);
        else
            parser->why = take_field(&fields, &parser->upgrade, line, (size_t)(lf - 1 - line));
        line = lf != NULL ? lf + 1 : end;
    }
    if (parser->why == NULL && minor == 1 && fields.hosts != 1)
        parser->why = "not exactly one Host";
    if (parser->why == NULL && fields.chunked && fields.length_given)
        parser->why = "Content-Length beside Transfer-Encoding";
    if (parser->why == NULL && fields.chunked && minor == 0)
        parser->why = "Transfer-Encoding in HTTP/1.0";
    if (parser->why != NULL)
        return RESPOND_BAD;
    parser->request.upgrade = fields.websocket && fields.upgrade && fields.version_13 &&
                              parser->upgrade.key[0] != '\0' && minor == 1;
    if (parser->request.upgrade)
        take_name(&parser->upgrade, head,
                  (size_t)((const unsigned char *)memchr(head, '\n', len) - head));
    parser->request.last = fields.close || (minor == 0 && !fields.keep_alive);
    parser->body_left = fields.length;
    parser->line_len = 0;
    parser->state = fields.chunked ? CHUNK_SIZE : fields.length > 0 ? IN_BODY : AT_HEAD;
    if (parser->state == AT_HEAD)
        return RESPOND_REQUEST;
    return fields.expects ? RESPOND_EXPECTS : RESPOND_MORE;
}

/* The length of the head at the start of data, 0: it has not ended. Looks from byte from on. */
static size_t head_length(const unsigned char *data, size_t len, size_t from)
{
    const unsigned char *end;

    if (len < 4)
        return 0;
    end = memmem(data + from, len - from, "\r\n\r\n", 4);
    return end != NULL ? (size_t)(end - data) + 4 : 0;
}

/* Puts len bytes behind the head so far. */
static bool keep(struct respond_parser *parser, const unsigned char *data, size_t len)
{
    size_t need = parser->pending_len + len;

    if (need > parser->pending_cap) {
        size_t cap = need < 512 ? 512 : need * 2;
        unsigned char *grown = realloc(parser->pending, cap);

        if (grown == NULL)
            return false;
        parser->pending = grown;
        parser->pending_cap = cap;
    }
    (void)memcpy(parser->pending + parser->pending_len, data, len);
    parser->pending_len += len;
    return true;
}

static void remember(struct respond_cache *cache, const struct respond_parser *parser,
                     const unsigned char *head, size_t len)
{
    if (len > sizeof(cache->bytes) || parser->request.upgrade)
        return; /* no two upgrades are alike */
    (void)memcpy(cache->bytes, head, len);
    cache->len = len;
    cache->request = parser->request;
}

/* A head that began in an earlier piece of the stream. */
static enum respond_found resume_head(struct respond_parser *parser, const unsigned char **data,
                                      size_t *len)
{
    size_t old = parser->pending_len;
    size_t take = *len < RESPOND_HEAD_MAX ? *len : RESPOND_HEAD_MAX;
    enum respond_found found;
    size_t head;

    if (!keep(parser, *data, take))
        return RESPOND_NOMEM;
    head = head_length(parser->pending, parser->pending_len, old > 3 ? old - 3 : 0);
    if (head == 0) {
        *data += take;
        *len -= take;
        if (parser->pending_len >= RESPOND_HEAD_MAX) {
            parser->why = "a head that does not end";
            return RESPOND_BAD;
        }
        return RESPOND_MORE;
    }
    found = take_head(parser, parser->pending, head);
    *data += head - old;
    *len -= head - old;
    parser->pending_len = 0;
    return found;
}

static enum respond_found next_head(struct respond_parser *parser, struct respond_cache *cache,
                                    const unsigned char **data, size_t *len)
{
    enum respond_found found;
    size_t head;

    if (parser->pending_len > 0)
        return resume_head(parser, data, len);
    if (cache->len > 0 && *len >= cache->len && memcmp(*data, cache->bytes, cache->len) == 0) {
        *data += cache->len;
        *len -= cache->len;
        parser->request = cache->request;
        return RESPOND_REQUEST;
    }
    head = head_length(*data, *len, 0);
    if (head == 0)
        return resume_head(parser, data, len);
    found = take_head(parser, *data, head);
    if (found == RESPOND_REQUEST)
        remember(cache, parser, *data, head);
    *data += head;
    *len -= head;
    return found;
}

static int hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* One byte of "SIZE[;extension] CR". line_len counts the digits. */
static bool chunk_size_byte(struct respond_parser *parser, unsigned char c)
{
    int digit = hex_digit(c);

    if (digit >= 0 && parser->line_len < 12) {
        parser->body_left = parser->body_left * 16 + (uint64_t)digit;
        parser->line_len++;
        return true;
    }
    if (parser->line_len == 0 || digit >= 0)
        return false;
    parser->line_len = 0;
    parser->state = c == ';' ? CHUNK_EXTENSION : CHUNK_SIZE_LF;
    return c == ';' || c == '\r';
}

/* One byte of chunked framing outside the data; false: it is wrong. */
static bool chunk_byte(struct respond_parser *parser, unsigned char c)
{
    switch (parser->state) {
    case CHUNK_SIZE:
        return chunk_size_byte(parser, c);
    case CHUNK_EXTENSION:
        if (c == '\r')
            parser->state = CHUNK_SIZE_LF;
        return c != '\n' && ++parser->line_len < LINE_MAX_BYTES;
    case CHUNK_SIZE_LF:
        parser->line_len = 0;
        parser->state = parser->body_left > 0 ? CHUNK_DATA : TRAILER_START;
        return c == '\n';
    case CHUNK_DATA_CR:
        parser->state = CHUNK_DATA_LF;
        return c == '\r';
    case CHUNK_DATA_LF:
        parser->state = CHUNK_SIZE;
        return c == '\n';
    case TRAILER_START:
        parser->state = c == '\r' ? TRAILER_END_LF : TRAILER_LINE;
        return c == '\r' || is_token(c);
    case TRAILER_LINE:
        if (c == '\r')
            parser->state = TRAILER_LF;
        return c != '\n' && ++parser->line_len < LINE_MAX_BYTES;
    case TRAILER_LF:
        parser->state = TRAILER_START;
        return c == '\n';
    default: /* TRAILER_END_LF */
        parser->state = AT_HEAD;
        return c == '\n';
    }
}

/* Takes bytes of a body; true when it has ended. */
static bool take_body(struct respond_parser *parser, const unsigned char **data, size_t *len)
{
    while (*len > 0) {
        if (parser->state == IN_BODY || parser->state == CHUNK_DATA) {
            size_t take = parser->body_left < *len ? (size_t)parser->body_left : *len;

            *data += take;
            *len -= take;
            parser->body_left -= take;
            if (parser->body_left > 0)
                return false;
            if (parser->state == IN_BODY) {
                parser->state = AT_HEAD;
                return true;
            }
            parser->state = CHUNK_DATA_CR;
            continue;
        }
        if (!chunk_byte(parser, **data)) {
            parser->why = "chunked framing";
            return false;
        }
        (*data)++;
        (*len)--;
        if (parser->state == AT_HEAD)
            return true;
    }
    return false;
}

enum respond_found respond_parser_next(struct respond_parser *parser, struct respond_cache *cache,
                                       const unsigned char **data, size_t *len,
                                       struct respond_request *out)
{
    if (parser->why != NULL)
        return RESPOND_BAD;
    while (*len > 0) {
        enum respond_found found = RESPOND_MORE;

        if (parser->state == AT_HEAD)
            found = next_head(parser, cache, data, len);
        else if (take_body(parser, data, len))
            found = RESPOND_REQUEST;
        else if (parser->why != NULL)
            found = RESPOND_BAD;
        if (found != RESPOND_MORE) {
            *out = parser->request;
            return found;
        }
    }
    return RESPOND_MORE;
}

void respond_parser_fini(struct respond_parser *parser)
{
    free(parser->pending);
    parser->pending = NULL;
    parser->pending_len = 0;
    parser->pending_cap = 0;
}
