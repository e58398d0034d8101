#include "common/msg_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/buf.h"
#include "common/msg_model.h"
#include "common/utf8.h"

/* ---- writing ----------------------------------------------------------------------------------
 */

struct writer {
    struct ls_buf buf;
    unsigned indent;
    unsigned depth;
};

static void new_line(struct writer *w)
{
    if (w->indent == 0)
        return;
    ls_buf_adds(&w->buf, "\n");
    for (unsigned i = 0; i < w->indent * w->depth; i++)
        ls_buf_adds(&w->buf, " ");
}

static void open_with(struct writer *w, const char *bracket)
{
    ls_buf_adds(&w->buf, bracket);
    w->depth++;
}

static void next_item(struct writer *w, bool first)
{
    if (!first)
        ls_buf_adds(&w->buf, ",");
    new_line(w);
}

static void close_with(struct writer *w, const char *bracket, bool empty)
{
    w->depth--;
    if (!empty)
        new_line(w);
    ls_buf_adds(&w->buf, bracket);
}

static void write_escaped(struct writer *w, unsigned c)
{
    switch (c) {
    case '"':
        ls_buf_adds(&w->buf, "\\\"");
        break;
    case '\\':
        ls_buf_adds(&w->buf, "\\\\");
        break;
    case '\n':
        ls_buf_adds(&w->buf, "\\n");
        break;
    case '\r':
        ls_buf_adds(&w->buf, "\\r");
        break;
    case '\t':
        ls_buf_adds(&w->buf, "\\t");
        break;
    default:
        ls_buf_addf(&w->buf, "\\u%04x", c);
    }
}

/* The character's number if it has to be escaped, 0 if not: what JSON wants, and what YAML does not
 * read raw, so that our JSON is YAML as well. All of them have at most three bytes. */
static unsigned to_escape(const unsigned char *c, size_t len)
{
    unsigned value = len == 1   ? c[0]
                     : len == 2 ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu)
                     : len == 3 ? (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu)
                                : 0;
    bool control = value < 0x20 || (value >= 0x7f && value < 0xa0);

    return control || value == '"' || value == '\\' || value == 0x2028 || value == 0x2029 ||
                   value == 0xfeff || value >= 0xfffe
               ? value
               : 0;
}

/* What is not UTF-8 becomes U+FFFD byte by byte: a target's output may be anything, the document
 * must be JSON. */
static void write_string(struct writer *w, const char *string)
{
    const unsigned char *at = (const unsigned char *)string;
    size_t left = strlen(string);

    ls_buf_adds(&w->buf, "\"");
    while (left > 0) {
        size_t plain = 0;
        size_t len = 0;

        while (plain < left) {
            len = ls_utf8_char_len(at + plain, left - plain);
            if (len == 0 || to_escape(at + plain, len) != 0)
                break;
            plain += len;
        }
        ls_buf_add(&w->buf, at, plain);
        at += plain;
        left -= plain;
        if (left == 0)
            break;
        if (len == 0)
            ls_buf_adds(&w->buf, "\xef\xbf\xbd");
        else
            write_escaped(w, to_escape(at, len));
        len += len == 0;
        at += len;
        left -= len;
    }
    ls_buf_adds(&w->buf, "\"");
}

static void write_key(struct writer *w, const char *key)
{
    write_string(w, key);
    ls_buf_adds(&w->buf, w->indent == 0 ? ":" : ": ");
}

static void write_base64(struct writer *w, const ProtobufCBinaryData *bytes)
{
    ls_buf_adds(&w->buf, "\"");
    ls_base64_encode(&w->buf, (struct ls_bytes){ bytes->data, bytes->len });
    ls_buf_adds(&w->buf, "\"");
}

static void write_message(struct writer *w, const ProtobufCMessage *message);

static void write_enum(struct writer *w, const ProtobufCEnumDescriptor *type, int value)
{
    char word[LS_MSG_WORD_MAX];

    if (ls_msg_enum_word(type, value, word) != NULL)
        write_string(w, word);
    else
        ls_buf_addf(&w->buf, "%d", value); /* of a newer schema, as proto3 does it */
}

static void write_sub(struct writer *w, const ProtobufCMessage *message)
{
    char word[LS_MSG_WORD_MAX];

    if (ls_msg_unit(message->descriptor) != LS_MSG_UNIT_NONE)
        write_string(w, ls_msg_format_unit(message, word));
    else
        write_message(w, message);
}

static void write_value(struct writer *w, const ProtobufCFieldDescriptor *field, const void *at)
{
    char number[32];

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        ls_buf_addf(&w->buf, "%" PRId32, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        ls_buf_addf(&w->buf, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        ls_buf_addf(&w->buf, "%" PRId64, *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        ls_buf_addf(&w->buf, "%" PRIu64, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        ls_buf_adds(&w->buf, ls_msg_format_double((double)*(const float *)at, number));
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        ls_buf_adds(&w->buf, ls_msg_format_double(*(const double *)at, number));
        break;
    case PROTOBUF_C_TYPE_BOOL:
        ls_buf_adds(&w->buf, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        write_enum(w, field->descriptor, *(const int *)at);
        break;
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(const char *const *)at;

        write_string(w, text == NULL ? "" : text);
        break;
    }
    case PROTOBUF_C_TYPE_BYTES:
        write_base64(w, at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        write_sub(w, *(const ProtobufCMessage *const *)at);
        break;
    }
}

static void write_map(struct writer *w, const ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field)
{
    size_t count = ls_msg_count(message, field);

    open_with(w, "{");
    for (size_t i = 0; i < count; i++) {
        const ProtobufCMessage *entry = ls_msg_sub(message, field, i);
        const ProtobufCFieldDescriptor *parts = entry->descriptor->fields;
        const char *key = *(const char *const *)ls_msg_at(entry, &parts[0], 0);

        next_item(w, i == 0);
        write_key(w, key == NULL ? "" : key);
        write_value(w, &parts[1], ls_msg_at(entry, &parts[1], 0));
    }
    close_with(w, "}", count == 0);
}

static void write_list(struct writer *w, const ProtobufCMessage *message,
                       const ProtobufCFieldDescriptor *field)
{
    size_t count = ls_msg_count(message, field);

    open_with(w, "[");
    for (size_t i = 0; i < count; i++) {
        next_item(w, i == 0);
        write_value(w, field, ls_msg_at(message, field, i));
    }
    close_with(w, "]", count == 0);
}

static void write_message(struct writer *w, const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    bool all = ls_msg_is_proto3(type); /* empty lists, too */
    bool first = true;

    open_with(w, "{");
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;

        if (ls_msg_count(message, field) == 0 && !(all && repeated))
            continue;
        next_item(w, first);
        first = false;
        write_key(w, field->name);
        if (!repeated)
            write_value(w, field, ls_msg_at(message, field, 0));
        else if (ls_msg_is_map(type, field))
            write_map(w, message, field);
        else
            write_list(w, message, field);
    }
    close_with(w, "}", first);
}

char *ls_msg_to_json(const ProtobufCMessage *message, unsigned indent)
{
    struct writer w = { .indent = indent };
    char *text;

    ls_buf_init(&w.buf, LS_JSON_MAX_BYTES);
    write_message(&w, message);
    if (indent > 0)
        ls_buf_adds(&w.buf, "\n");
    text = ls_buf_detach(&w.buf);
    ls_buf_fini(&w.buf);
    return text;
}
