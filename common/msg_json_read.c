#include "common/msg_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/msg_marks.h"
#include "common/msg_model.h"

struct json_reader {
    struct ls_msg_path path;
    struct ls_diag *diag;
};

static enum ls_err fail(struct json_reader *r, enum ls_err code, const char *fmt, ...)
    LS_PRINTF(3, 4);

/* "path: what is wrong" */
static enum ls_err fail(struct json_reader *r, enum ls_err code, const char *fmt, ...)
{
    char text[sizeof(r->diag->text)];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return ls_fail(r->diag, code, "%s%s%s", r->path.text, r->path.len == 0 ? "" : ": ", text);
}

static enum ls_err no_memory(struct json_reader *r)
{
    return fail(r, LS_ENOMEM, "no memory left to read it");
}

static void *member(ProtobufCMessage *message, unsigned offset)
{
    return (unsigned char *)message + offset;
}

static const char *kind(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "?";
}

/* Does this kind of value stand for this type of field? */
static bool fits(const json_t *value, ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_BOOL:
        return json_is_boolean(value);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_ENUM:
        return json_is_string(value);
    case PROTOBUF_C_TYPE_MESSAGE: /* a unit */
        return json_is_string(value) || json_is_integer(value);
    default:
        return json_is_number(value);
    }
}

/* A value as the text that ls_msg_parse() takes; into buf unless it has a text already. */
static struct ls_bytes as_text(const json_t *value, char *buf, size_t buf_bytes)
{
    if (json_is_string(value))
        return (struct ls_bytes){ (const unsigned char *)json_string_value(value),
                                  json_string_length(value) };
    if (json_is_integer(value))
        (void)snprintf(buf, buf_bytes, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        (void)ls_msg_format_double(json_real_value(value), buf);
    else
        (void)snprintf(buf, buf_bytes, "%s", json_is_true(value) ? "true" : "false");
    return (struct ls_bytes){ (const unsigned char *)buf, strlen(buf) };
}

static enum ls_err read_message(struct json_reader *r, json_t *value, ProtobufCMessage *message);

static enum ls_err read_value(struct json_reader *r, json_t *value,
                              const ProtobufCFieldDescriptor *field, void *out)
{
    const ProtobufCMessageDescriptor *type = ls_msg_of_field(field);
    char expected[LS_MSG_EXPECTED_MAX];
    char buf[48];
    struct ls_diag diag;
    enum ls_err rc;

    if (type != NULL && ls_msg_unit(type) == LS_MSG_UNIT_NONE) {
        ProtobufCMessage *sub = ls_msg_new(type);

        if (sub == NULL)
            return no_memory(r);
        *(ProtobufCMessage **)out = sub; /* freed with the whole, if it comes to that */
        return read_message(r, value, sub);
    }
    if (!fits(value, field->type))
        return fail(r, LS_EINVAL, "%s is expected, not %s", ls_msg_expected(field, expected),
                    kind(value));
    rc = ls_msg_parse(field, as_text(value, buf, sizeof(buf)), out, &diag);
    return rc == LS_OK ? LS_OK : fail(r, rc, "%s", diag.text);
}

static enum ls_err read_list(struct json_reader *r, json_t *value, ProtobufCMessage *message,
                             const ProtobufCFieldDescriptor *field)
{
    size_t *count = member(message, field->quantifier_offset);
    size_t size = ls_msg_type_size(field->type);
    struct ls_msg_path path = r->path;
    size_t n = json_array_size(value);
    unsigned char *list;

    if (!json_is_array(value))
        return fail(r, LS_EINVAL, "an array is expected, not %s", kind(value));
    if (n == 0)
        return LS_OK;
    list = calloc(n, size);
    if (list == NULL)
        return no_memory(r);
    *(void **)member(message, field->offset) = list;
    for (size_t i = 0; i < n; i++) {
        enum ls_err rc;

        r->path = path;
        ls_msg_path_index(&r->path, i);
        ++*count; /* before reading: freeing a zeroed element is fine */
        rc = read_value(r, json_array_get(value, i), field, list + i * size);
        if (rc != LS_OK)
            return rc;
    }
    r->path = path;
    return LS_OK;
}

static enum ls_err read_entry(struct json_reader *r, const char *key, json_t *value,
                              ProtobufCMessage *entry)
{
    const ProtobufCFieldDescriptor *parts = entry->descriptor->fields;
    struct ls_bytes text = { (const unsigned char *)key, strlen(key) };
    struct ls_diag diag;
    enum ls_err rc;

    rc = ls_msg_parse(&parts[0], text, member(entry, parts[0].offset), &diag);
    if (rc != LS_OK)
        return fail(r, rc, "%s", diag.text);
    ls_msg_set_given(entry, &parts[0]);
    rc = read_value(r, value, &parts[1], member(entry, parts[1].offset));
    if (rc == LS_OK)
        ls_msg_set_given(entry, &parts[1]);
    return rc;
}

static enum ls_err read_map(struct json_reader *r, json_t *value, ProtobufCMessage *message,
                            const ProtobufCFieldDescriptor *field)
{
    size_t *count = member(message, field->quantifier_offset);
    struct ls_msg_path path = r->path;
    size_t n = json_object_size(value);
    ProtobufCMessage **list;
    const char *key;
    json_t *item;

    if (!json_is_object(value))
        return fail(r, LS_EINVAL, "an object is expected, not %s", kind(value));
    if (n == 0)
        return LS_OK;
    list = calloc(n, sizeof(ProtobufCMessage *));
    if (list == NULL)
        return no_memory(r);
    *(void **)member(message, field->offset) = list;
    json_object_foreach(value, key, item)
    {
        enum ls_err rc;

        r->path = path;
        ls_msg_path_key(&r->path, (struct ls_bytes){ (const unsigned char *)key, strlen(key) });
        list[*count] = ls_msg_new(ls_msg_of_field(field));
        if (list[*count] == NULL)
            return no_memory(r);
        rc = read_entry(r, key, item, list[(*count)++]);
        if (rc != LS_OK)
            return rc;
    }
    r->path = path;
    return LS_OK;
}

static bool is_oneof(const ProtobufCFieldDescriptor *field)
{
    return (field->flags & (unsigned)PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

static enum ls_err read_single(struct json_reader *r, json_t *value, ProtobufCMessage *message,
                               const ProtobufCFieldDescriptor *field)
{
    enum ls_err rc;

    if (is_oneof(field) && *(uint32_t *)member(message, field->quantifier_offset) != 0)
        return fail(r, LS_EINVAL, "excludes another field that is given, too");
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        ls_msg_set_given(message, field); /* so that a half-read message is freed */
    rc = read_value(r, value, field, member(message, field->offset));
    if (rc == LS_OK)
        ls_msg_set_given(message, field);
    return rc;
}

static enum ls_err unknown_key(struct json_reader *r, const ProtobufCMessageDescriptor *type,
                               const char *key)
{
    ls_msg_path_key(&r->path, (struct ls_bytes){ (const unsigned char *)key, strlen(key) });
    return fail(r, LS_EINVAL, "unknown key of %s", type->name);
}

static enum ls_err read_message(struct json_reader *r, json_t *value, ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    struct ls_msg_path path = r->path;

    if (!json_is_object(value))
        return fail(r, LS_EINVAL, "an object is expected, not %s", kind(value));
    for (void *at = json_object_iter(value); at != NULL; at = json_object_iter_next(value, at)) {
        const char *key = json_object_iter_key(at);
        json_t *item = json_object_iter_value(at);
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field_by_name(type, key);
        enum ls_err rc;

        r->path = path;
        if (field == NULL)
            return unknown_key(r, type, key);
        if (json_is_null(item))
            continue; /* proto3: as if it were not there */
        ls_msg_path_field(&r->path, key);
        if (field->label != PROTOBUF_C_LABEL_REPEATED)
            rc = read_single(r, item, message, field);
        else if (ls_msg_is_map(type, field))
            rc = read_map(r, item, message, field);
        else
            rc = read_list(r, item, message, field);
        if (rc != LS_OK)
            return rc;
    }
    r->path = path;
    return LS_OK;
}

static enum ls_err load(struct ls_bytes text, json_t **out, struct ls_diag *diag)
{
    json_error_t error;

    if (text.len > LS_JSON_MAX_BYTES)
        return ls_fail(diag, LS_ERANGE, "%zu bytes of JSON are more than %u", text.len,
                       LS_JSON_MAX_BYTES);
    *out = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    if (*out != NULL)
        return LS_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return ls_fail(diag, LS_ENOMEM, "no memory left to read it");
    return ls_fail(diag, LS_EINVAL, "line %d, column %d: %s", error.line, error.column, error.text);
}

enum ls_err ls_msg_from_json(const ProtobufCMessageDescriptor *descriptor, struct ls_bytes text,
                             ProtobufCMessage **out_message, struct ls_diag *diag)
{
    struct json_reader r = { .diag = diag };
    json_t *root = NULL;
    ProtobufCMessage *message;
    enum ls_err rc = load(text, &root, diag);

    if (rc != LS_OK)
        return rc;
    message = ls_msg_new(descriptor);
    rc = message == NULL ? no_memory(&r) : read_message(&r, root, message);
    json_decref(root);
    if (rc == LS_OK)
        *out_message = message;
    else if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
    return rc;
}
