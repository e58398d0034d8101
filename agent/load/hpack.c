#include "agent/load/hpack.h"

#include <string.h>
#include <strings.h>

#define STATIC_ENTRIES 61u
#define PIECE          128u /* symbols decoded at once */

enum state {
    STATE_FIELD,         /* the first byte of a field comes next */
    STATE_FIELD_NUMBER,  /* its integer goes on */
    STATE_LENGTH,        /* the first byte of a string */
    STATE_LENGTH_NUMBER, /* its length goes on */
    STATE_STRING
};

/* The first bits of a field, and with it what its integer means (RFC 7541, 6). */
enum form { FORM_INDEXED, FORM_KEPT, FORM_RESIZE, FORM_NOT_KEPT };

#define ROW(kind, name, value, number)                               \
    {                                                                \
        (kind), false, sizeof(name) - 1, sizeof(value) - 1, (number) \
    }
#define OTHER(name, value)   ROW(HPACK_OTHER, name, value, 0)
#define REQUEST(name, value) ROW(HPACK_PSEUDO, name, value, 0)
#define STATUS(code)         ROW(HPACK_STATUS, ":status", "200", code)

/* RFC 7541, Appendix A; the first has index 1. Values of no meaning here are there for their
 * length. */
static const struct hpack_entry fixed[STATIC_ENTRIES] = {
    REQUEST(":authority", ""),
    REQUEST(":method", "GET"),
    REQUEST(":method", "POST"),
    REQUEST(":path", "/"),
    REQUEST(":path", "/index.html"),
    REQUEST(":scheme", "http"),
    REQUEST(":scheme", "https"),
    STATUS(200),
    STATUS(204),
    STATUS(206),
    STATUS(304),
    STATUS(400),
    STATUS(404),
    STATUS(500),
    OTHER("accept-charset", ""),
    OTHER("accept-encoding", "gzip, deflate"),
    OTHER("accept-language", ""),
    OTHER("accept-ranges", ""),
    OTHER("accept", ""),
    OTHER("access-control-allow-origin", ""),
    OTHER("age", ""),
    OTHER("allow", ""),
    OTHER("authorization", ""),
    OTHER("cache-control", ""),
    OTHER("content-disposition", ""),
    ROW(HPACK_CODING, "content-encoding", "", HPACK_CODING_NONE),
    OTHER("content-language", ""),
    { HPACK_LENGTH, true, sizeof("content-length") - 1, 0, 0 }, /* as it stands, no number */
    OTHER("content-location", ""),
    OTHER("content-range", ""),
    OTHER("content-type", ""),
    OTHER("cookie", ""),
    OTHER("date", ""),
    OTHER("etag", ""),
    OTHER("expect", ""),
    OTHER("expires", ""),
    OTHER("from", ""),
    OTHER("host", ""),
    OTHER("if-match", ""),
    OTHER("if-modified-since", ""),
    OTHER("if-none-match", ""),
    OTHER("if-range", ""),
    OTHER("if-unmodified-since", ""),
    OTHER("last-modified", ""),
    OTHER("link", ""),
    OTHER("location", ""),
    OTHER("max-forwards", ""),
    OTHER("proxy-authenticate", ""),
    OTHER("proxy-authorization", ""),
    OTHER("range", ""),
    OTHER("referer", ""),
    OTHER("refresh", ""),
    OTHER("retry-after", ""),
    OTHER("server", ""),
    OTHER("set-cookie", ""),
    OTHER("strict-transport-security", ""),
    ROW(HPACK_CONNECTION, "transfer-encoding", "", 0),
    OTHER("user-agent", ""),
    OTHER("vary", ""),
    OTHER("via", ""),
    OTHER("www-authenticate", ""),
};

static enum hpack_step bad(struct hpack *h, const char *why)
{
    h->why = why;
    return HPACK_BAD;
}

void hpack_init(struct hpack *h)
{
    *h = (struct hpack){ .max = HPACK_TABLE_MAX };
}

void hpack_begin(struct hpack *h)
{
    h->state = STATE_FIELD;
    h->fields_seen = false;
}

/* ---- the dynamic table ----------------------------------------------------------------------- */

static uint32_t entry_bytes(const struct hpack_entry *entry)
{
    return HPACK_OVERHEAD + entry->name_len + entry->value_len;
}

static void shrink(struct hpack *h, uint32_t bytes)
{
    while (h->used > bytes) {
        uint32_t oldest = (h->newest + 1 - h->count) % HPACK_ENTRIES;

        h->used -= entry_bytes(&h->table[oldest]);
        h->count--;
    }
}

static void keep(struct hpack *h, const struct hpack_field *field)
{
    uint64_t bytes = (uint64_t)HPACK_OVERHEAD + field->name_len + field->value_len;

    h->changes++;
    if (bytes > h->max) { /* RFC 7541, 4.4: no error, and empties the table */
        shrink(h, 0);
        return;
    }
    shrink(h, h->max - (uint32_t)bytes);
    h->newest = (h->newest + 1) % HPACK_ENTRIES;
    h->table[h->newest] = (struct hpack_entry){ .kind = field->kind,
                                                .ill = field->ill,
                                                .name_len = (uint16_t)field->name_len,
                                                .value_len = field->value_len,
                                                .number = field->number };
    h->count++;
    h->used += (uint32_t)bytes;
}

/* NULL: there is none of that index. */
static const struct hpack_entry *entry_at(const struct hpack *h, uint32_t index)
{
    if (index == 0)
        return NULL;
    if (index <= STATIC_ENTRIES)
        return &fixed[index - 1];
    index -= STATIC_ENTRIES + 1;
    return index < h->count ? &h->table[(h->newest - index) % HPACK_ENTRIES] : NULL;
}

static struct hpack_field field_of(const struct hpack_entry *entry)
{
    return (struct hpack_field){ .kind = entry->kind,
                                 .ill = entry->ill,
                                 .name_len = entry->name_len,
                                 .value_len = entry->value_len,
                                 .number = entry->number };
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool is_token_byte(uint8_t c)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
        return true;
    return c != 0 && strchr(others, c) != NULL;
}

/* Some bytes of the string under way. */
static void take_text(struct hpack *h, const uint8_t *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint8_t c = text[i];

        if (h->in_value ? c == '\0' || c == '\r' || c == '\n'
                        : !is_token_byte(c) && !(c == ':' && h->text_len + i == 0))
            h->text_ill = true;
    }
    if (h->text_len < HPACK_TEXT_KEPT) {
        size_t room = HPACK_TEXT_KEPT - h->text_len;

        memcpy(h->text + h->text_len, text, len < room ? len : room);
    }
    h->text_len += (uint32_t)len;
}

static bool text_is(const struct hpack *h, const char *word)
{
    return h->text_len == strlen(word) && memcmp(h->text, word, h->text_len) == 0;
}

/* The same, of a value in which case means nothing. */
static bool value_is(const struct hpack *h, const char *word)
{
    return h->text_len == strlen(word) &&
           strncasecmp((const char *)h->text, word, h->text_len) == 0;
}

static enum hpack_kind kind_of_name(const struct hpack *h)
{
    static const char *const of_connections[] = { "connection", "keep-alive", "proxy-connection",
                                                  "transfer-encoding", "upgrade" };

    if (h->text_ill || h->text_len == 0)
        return HPACK_ILL_NAMED;
    if (h->text[0] == ':')
        return text_is(h, ":status") ? HPACK_STATUS : HPACK_PSEUDO;
    if (text_is(h, "content-length"))
        return HPACK_LENGTH;
    if (text_is(h, "content-encoding"))
        return HPACK_CODING;
    for (size_t i = 0; i < LS_ARRAY_LEN(of_connections); i++) {
        if (text_is(h, of_connections[i]))
            return HPACK_CONNECTION;
    }
    return HPACK_OTHER;
}

/* Digits only, at least one; false if that is not so, or the number is 2^63 or more. */
static bool read_number(const struct hpack *h, uint64_t *out)
{
    uint64_t number = 0;

    if (h->text_len == 0 || h->text_len > 19)
        return false;
    for (uint32_t i = 0; i < h->text_len; i++) {
        unsigned digit = (unsigned)h->text[i] - '0';

        if (digit > 9 || number > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *out = number;
    return true;
}

static void read_value(struct hpack *h)
{
    struct hpack_field *field = &h->field;

    field->value_len = h->text_len;
    field->ill = h->text_ill;
    field->number = 0;
    if (field->kind == HPACK_STATUS)
        field->ill = h->text_len != 3 || !read_number(h, &field->number) || field->number < 100;
    else if (field->kind == HPACK_LENGTH)
        field->ill = !read_number(h, &field->number);
    else if (field->kind == HPACK_CODING)
        field->number = value_is(h, "gzip") || value_is(h, "x-gzip")  ? HPACK_CODING_GZIP
                        : h->text_len == 0 || value_is(h, "identity") ? HPACK_CODING_NONE
                                                                      : HPACK_CODING_OTHER;
}

/* False: the coded string is none. */
static bool decode_text(struct hpack *h, struct ls_bytes coded)
{
    uint8_t piece[PIECE];
    int n;

    do {
        n = hpack_huffman(&h->bits, &coded, piece, sizeof(piece));
        if (n < 0)
            return false;
        take_text(h, piece, (size_t)n);
    } while ((size_t)n == sizeof(piece) || coded.len > 0);
    if (h->left > 0)
        return true;
    n = hpack_huffman_end(&h->bits, piece);
    if (n > 0)
        take_text(h, piece, (size_t)n);
    return n >= 0;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static void string_begin(struct hpack *h, bool value)
{
    h->in_value = value;
    h->state = STATE_LENGTH;
    h->text_len = 0;
    h->text_ill = false;
}

static enum hpack_step field_done(struct hpack *h, struct hpack_field *out)
{
    h->state = STATE_FIELD;
    h->fields_seen = true;
    if (h->form == FORM_KEPT)
        keep(h, &h->field);
    *out = h->field;
    return HPACK_FIELD;
}

static enum hpack_step string_done(struct hpack *h, struct hpack_field *out)
{
    if (!h->in_value) {
        h->field =
            (struct hpack_field){ .kind = (uint8_t)kind_of_name(h), .name_len = h->text_len };
        string_begin(h, true);
        return HPACK_MORE;
    }
    read_value(h);
    return field_done(h, out);
}

static enum hpack_step string_bytes(struct hpack *h, struct ls_bytes *in, struct hpack_field *out)
{
    struct ls_bytes piece = { in->data, in->len < h->left ? in->len : h->left };

    in->data += piece.len;
    in->len -= piece.len;
    h->left -= (uint32_t)piece.len;
    if (!h->huffman)
        take_text(h, piece.data, piece.len);
    else if (!decode_text(h, piece))
        return bad(h, "header block: a Huffman code is wrong");
    return h->left == 0 ? string_done(h, out) : HPACK_MORE;
}

/* The integer of a field or of a string is complete. */
static enum hpack_step number_done(struct hpack *h, struct hpack_field *out)
{
    const struct hpack_entry *entry;

    if (h->state >= STATE_LENGTH) {
        if (h->integer > HPACK_STRING_MAX)
            return bad(h, "header block: a name or value is too long");
        h->state = STATE_STRING;
        h->left = h->integer;
        h->bits = (struct hpack_bits){ 0 };
        return h->left == 0 ? string_done(h, out) : HPACK_MORE;
    }
    if (h->form == FORM_RESIZE) {
        if (h->integer > HPACK_TABLE_MAX)
            return bad(h, "header block: the table is made larger than it may be");
        h->max = h->integer;
        h->changes++;
        shrink(h, h->max);
        h->state = STATE_FIELD;
        return HPACK_MORE;
    }
    if (h->integer == 0 && h->form != FORM_INDEXED) {
        string_begin(h, false);
        return HPACK_MORE;
    }
    entry = entry_at(h, h->integer);
    if (entry == NULL)
        return bad(h, "header block: an index that the table does not have");
    h->field = field_of(entry);
    if (h->form == FORM_INDEXED)
        return field_done(h, out);
    string_begin(h, true);
    return HPACK_MORE;
}

/* The first byte of an integer, of which prefix_bits belong to it (RFC 7541, 5.1). */
static enum hpack_step number_begin(struct hpack *h, unsigned byte, unsigned prefix_bits,
                                    struct hpack_field *out)
{
    unsigned most = (1u << prefix_bits) - 1;

    h->integer = byte & most;
    h->shift = 0;
    if (h->integer < most)
        return number_done(h, out);
    h->state = h->state == STATE_FIELD ? STATE_FIELD_NUMBER : STATE_LENGTH_NUMBER;
    return HPACK_MORE;
}

static enum hpack_step number_byte(struct hpack *h, unsigned byte, struct hpack_field *out)
{
    uint32_t part = byte & 0x7f;

    if (h->shift > 28 || part > UINT32_MAX >> h->shift ||
        part << h->shift > UINT32_MAX - h->integer)
        return bad(h, "header block: an integer is too large");
    h->integer += part << h->shift;
    h->shift += 7;
    return (byte & 0x80) != 0 ? HPACK_MORE : number_done(h, out);
}

static enum hpack_step field_begin(struct hpack *h, unsigned byte, struct hpack_field *out)
{
    if ((byte & 0x80) != 0) {
        h->form = FORM_INDEXED;
        return number_begin(h, byte, 7, out);
    }
    if ((byte & 0x40) != 0) {
        h->form = FORM_KEPT;
        return number_begin(h, byte, 6, out);
    }
    if ((byte & 0x20) == 0) {
        h->form = FORM_NOT_KEPT;
        return number_begin(h, byte, 4, out);
    }
    if (h->fields_seen)
        return bad(h, "header block: the table's size changes within a block");
    h->form = FORM_RESIZE;
    return number_begin(h, byte, 5, out);
}

enum hpack_step hpack_next(struct hpack *h, struct ls_bytes *in, struct hpack_field *out)
{
    enum hpack_step step = HPACK_MORE;

    while (step == HPACK_MORE && in->len > 0) {
        unsigned byte = *in->data;

        if (h->state == STATE_STRING) {
            step = string_bytes(h, in, out);
            continue;
        }
        in->data++;
        in->len--;
        if (h->state == STATE_FIELD) {
            step = field_begin(h, byte, out);
        } else if (h->state == STATE_LENGTH) {
            h->huffman = (byte & 0x80) != 0;
            step = number_begin(h, byte, 7, out);
        } else {
            step = number_byte(h, byte, out);
        }
    }
    return step;
}

bool hpack_end(struct hpack *h)
{
    if (h->state == STATE_FIELD)
        return true;
    h->why = "header block: ends within a field";
    return false;
}
