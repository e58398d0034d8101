#include "common/msg_model.h"

#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const unit_names[] = { "",         "ls.Duration", "ls.Rate",
                                          "ls.Count", "ls.Size",     "ls.Share" };
static_assert(LS_ARRAY_LEN(unit_names) == LS_MSG_UNIT_COUNT_OF, "a name for each unit");

enum ls_msg_unit ls_msg_unit(const ProtobufCMessageDescriptor *descriptor)
{
    for (unsigned u = LS_MSG_UNIT_NONE + 1; u < LS_MSG_UNIT_COUNT_OF; u++) {
        if (strcmp(descriptor->name, unit_names[u]) == 0)
            return (enum ls_msg_unit)u;
    }
    return LS_MSG_UNIT_NONE;
}

const ProtobufCMessageDescriptor *ls_msg_of_field(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_MESSAGE ? field->descriptor : NULL;
}

/* Is name CamelCase(field) + "Entry"? */
static bool is_entry_name(const char *name, const char *field)
{
    bool upper = true;

    for (; *field != '\0'; field++) {
        if (*field == '_') {
            upper = true;
            continue;
        }
        if (*name != (upper ? toupper((unsigned char)*field) : *field))
            return false;
        name++;
        upper = false;
    }
    return strcmp(name, "Entry") == 0;
}

bool ls_msg_is_map(const ProtobufCMessageDescriptor *parent, const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *entry = ls_msg_of_field(field);
    size_t parent_len = strlen(parent->name);

    return field->label == PROTOBUF_C_LABEL_REPEATED && entry != NULL && entry->n_fields == 2 &&
           entry->fields[0].id == 1 && strcmp(entry->fields[0].name, "key") == 0 &&
           entry->fields[1].id == 2 && strcmp(entry->fields[1].name, "value") == 0 &&
           strncmp(entry->name, parent->name, parent_len) == 0 && entry->name[parent_len] == '.' &&
           is_entry_name(entry->name + parent_len + 1, field->name);
}

bool ls_msg_is_proto3(const ProtobufCMessageDescriptor *descriptor)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        if (descriptor->fields[i].label == PROTOBUF_C_LABEL_NONE)
            return true;
    }
    return false;
}

/* ---- members ----------------------------------------------------------------------------------
 */

size_t ls_msg_type_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return sizeof(uint32_t);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_FLOAT:
        return sizeof(float);
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(double);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    }
    return 0;
}

static const void *member(const ProtobufCMessage *message, unsigned offset)
{
    return (const unsigned char *)message + offset;
}

static void *member_mut(ProtobufCMessage *message, unsigned offset)
{
    return (unsigned char *)message + offset;
}

static bool is_pointer(ProtobufCType type)
{
    return type == PROTOBUF_C_TYPE_STRING || type == PROTOBUF_C_TYPE_MESSAGE;
}

static bool is_oneof(const ProtobufCFieldDescriptor *field)
{
    return (field->flags & (unsigned)PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* Does a has_ member say whether the field is given? */
static bool has_flag(const ProtobufCFieldDescriptor *field)
{
    return field->label == PROTOBUF_C_LABEL_OPTIONAL && !is_oneof(field) &&
           !is_pointer(field->type);
}

size_t ls_msg_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const void *at = member(message, field->offset);

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)member(message, field->quantifier_offset);
    if (is_oneof(field) &&
        *(const uint32_t *)member(message, field->quantifier_offset) != field->id)
        return 0;
    if (has_flag(field))
        return *(const protobuf_c_boolean *)member(message, field->quantifier_offset) ? 1 : 0;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(const void *const *)at != NULL ? 1 : 0;
    if (field->type == PROTOBUF_C_TYPE_STRING && field->label != PROTOBUF_C_LABEL_NONE) {
        const void *text = *(const void *const *)at;

        return text != NULL && text != field->default_value ? 1 : 0;
    }
    return 1;
}

const void *ls_msg_at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                      size_t i)
{
    const void *at = member(message, field->offset);

    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return at;
    return *(const unsigned char *const *)at + i * ls_msg_type_size(field->type);
}

ProtobufCMessage *ls_msg_sub(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                             size_t i)
{
    return *(ProtobufCMessage *const *)ls_msg_at(message, field, i);
}

ProtobufCMessage *ls_msg_new(const ProtobufCMessageDescriptor *descriptor)
{
    ProtobufCMessage *message = calloc(1, descriptor->sizeof_message);

    if (message != NULL)
        descriptor->message_init(message);
    return message;
}

void *ls_msg_copy(const void *message)
{
    const ProtobufCMessage *from = message;
    size_t len = protobuf_c_message_get_packed_size(from);
    uint8_t *packed = malloc(len + 1); /* an empty message packs to nothing */
    ProtobufCMessage *copy;

    if (packed == NULL)
        return NULL;
    (void)protobuf_c_message_pack(from, packed);
    copy = protobuf_c_message_unpack(from->descriptor, NULL, len, packed);
    free(packed);
    return copy;
}

void ls_msg_set_given(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (is_oneof(field))
        *(uint32_t *)member_mut(message, field->quantifier_offset) = field->id;
    else if (has_flag(field))
        *(protobuf_c_boolean *)member_mut(message, field->quantifier_offset) = 1;
}

/* Frees one element; what it pointed to is then gone. */
static void free_element(const ProtobufCFieldDescriptor *field, void *at)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        ProtobufCMessage *sub = *(ProtobufCMessage **)at;

        if (sub != NULL)
            protobuf_c_message_free_unpacked(sub, NULL);
    } else if (field->type == PROTOBUF_C_TYPE_STRING) {
        char *text = *(char **)at;

        if (text != field->default_value)
            free(text);
    } else if (field->type == PROTOBUF_C_TYPE_BYTES) {
        ProtobufCBinaryData *bytes = at;
        const ProtobufCBinaryData *original = field->default_value;

        if (original == NULL || bytes->data != original->data)
            free(bytes->data);
    }
}

static void clear_repeated(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    size_t *count = member_mut(message, field->quantifier_offset);
    void **list = member_mut(message, field->offset);

    for (size_t i = 0; i < *count; i++)
        free_element(field, (unsigned char *)*list + i * ls_msg_type_size(field->type));
    free(*list);
    *list = NULL;
    *count = 0;
}

/* The member of field's oneof that is set; NULL: none is. */
static const ProtobufCFieldDescriptor *oneof_member(const ProtobufCMessage *message,
                                                    const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];

        if (is_oneof(f) && f->quantifier_offset == field->quantifier_offset &&
            ls_msg_count(message, f) > 0)
            return f;
    }
    return NULL;
}

void ls_msg_clear(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    void *at = member_mut(message, field->offset);
    size_t size = ls_msg_type_size(field->type);

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        clear_repeated(message, field);
        return;
    }
    if (is_oneof(field)) {
        const ProtobufCFieldDescriptor *set = oneof_member(message, field);

        if (set != NULL)
            free_element(set, member_mut(message, set->offset));
        *(uint32_t *)member_mut(message, field->quantifier_offset) = 0;
        (void)memset(at, 0, size);
        return;
    }
    free_element(field, at);
    if (has_flag(field))
        *(protobuf_c_boolean *)member_mut(message, field->quantifier_offset) = 0;
    if (field->default_value == NULL)
        (void)memset(at, 0, size);
    else if (is_pointer(field->type)) /* a string's default is the string itself */
        (void)memcpy(at, &field->default_value, size);
    else
        (void)memcpy(at, field->default_value, size);
}

void ls_msg_move(ProtobufCMessage *dst, ProtobufCMessage *src,
                 const ProtobufCFieldDescriptor *field)
{
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    size_t size = repeated ? sizeof(void *) : ls_msg_type_size(field->type);

    assert(dst->descriptor == src->descriptor);
    ls_msg_clear(dst, field);
    if (ls_msg_count(src, field) == 0)
        return;
    (void)memcpy(member_mut(dst, field->offset), member(src, field->offset), size);
    if (repeated)
        *(size_t *)member_mut(dst, field->quantifier_offset) = ls_msg_count(src, field);
    else
        ls_msg_set_given(dst, field);
    /* src must not free what it gave away. */
    (void)memset(member_mut(src, field->offset), 0, size);
    if (repeated)
        *(size_t *)member_mut(src, field->quantifier_offset) = 0;
    else
        ls_msg_clear(src, field);
}

/* ---- the schema itself ------------------------------------------------------------------------
 */

struct chain {
    const ProtobufCMessageDescriptor *types[LS_MSG_MAX_DEPTH];
    const char *fields[LS_MSG_MAX_DEPTH]; /* that led to the type */
    unsigned len;
};

static const char *chain_text(const struct chain *chain, char *out, size_t out_bytes)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < chain->len && used < out_bytes; i++) {
        int n = snprintf(out + used, out_bytes - used, "%s%s", i == 0 ? "" : ".",
                         i == 0 ? chain->types[0]->short_name : chain->fields[i]);
        used += n < 0 ? 0 : (size_t)n;
    }
    return out;
}

/* ORDER_ for Order, AGENT_LOSS_ for AgentLoss. */
static void enum_prefix(const ProtobufCEnumDescriptor *type, char out[LS_MSG_WORD_MAX])
{
    size_t used = 0;

    for (const char *c = type->short_name; *c != '\0' && used + 3 < LS_MSG_WORD_MAX; c++) {
        if (isupper((unsigned char)*c) && c != type->short_name)
            out[used++] = '_';
        out[used++] = (char)toupper((unsigned char)*c);
    }
    out[used++] = '_';
    out[used] = '\0';
}

static enum ls_err check_enum(const ProtobufCEnumDescriptor *type, struct ls_diag *diag)
{
    char prefix[LS_MSG_WORD_MAX];
    char word[LS_MSG_WORD_MAX];

    enum_prefix(type, prefix);
    for (unsigned i = 0; i < type->n_values; i++) {
        if (strncmp(type->values[i].name, prefix, strlen(prefix)) != 0 ||
            ls_msg_enum_word(type, type->values[i].value, word) == NULL)
            return ls_fail(diag, LS_EINVAL, "enum value %s of %s does not begin with %s",
                           type->values[i].name, type->name, prefix);
    }
    return LS_OK;
}

static enum ls_err check_type(struct chain *chain, const char *field,
                              const ProtobufCMessageDescriptor *type, struct ls_diag *diag)
{
    char text[256];

    for (unsigned i = 0; i < chain->len; i++) {
        if (chain->types[i] == type)
            return ls_fail(diag, LS_EINVAL, "recursion: %s.%s is a %s again",
                           chain_text(chain, text, sizeof(text)), field, type->name);
    }
    if (chain->len == LS_MSG_MAX_DEPTH)
        return ls_fail(diag, LS_EINVAL, "%s is deeper than %u messages",
                       chain_text(chain, text, sizeof(text)), LS_MSG_MAX_DEPTH);
    if (type->n_fields > LS_MSG_MAX_FIELDS)
        return ls_fail(diag, LS_EINVAL, "%s has more than %u fields", type->name,
                       LS_MSG_MAX_FIELDS);
    chain->types[chain->len] = type;
    chain->fields[chain->len] = field;
    chain->len++;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];
        enum ls_err rc = LS_OK;

        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
            rc = check_type(chain, f->name, f->descriptor, diag);
        else if (f->type == PROTOBUF_C_TYPE_ENUM)
            rc = check_enum(f->descriptor, diag);
        if (rc != LS_OK)
            return rc;
    }
    chain->len--;
    return LS_OK;
}

enum ls_err ls_msg_check_schema(const ProtobufCMessageDescriptor *root, struct ls_diag *diag)
{
    struct chain chain = { .len = 0 };

    return check_type(&chain, "", root, diag);
}

const char *ls_msg_enum_word(const ProtobufCEnumDescriptor *type, int value, char *out)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(type, value);
    char prefix[LS_MSG_WORD_MAX];
    const char *rest;
    size_t len;

    if (v == NULL)
        return NULL;
    enum_prefix(type, prefix);
    rest = v->name;
    if (strncmp(rest, prefix, strlen(prefix)) == 0)
        rest += strlen(prefix);
    len = strlen(rest);
    if (len + 1 > LS_MSG_WORD_MAX)
        return NULL;
    for (size_t i = 0; i <= len; i++)
        out[i] = (char)tolower((unsigned char)rest[i]);
    return out;
}

bool ls_msg_enum_value(const ProtobufCEnumDescriptor *type, const char *word, int *out_value)
{
    char other[LS_MSG_WORD_MAX];

    for (unsigned i = 0; i < type->n_values; i++) {
        if (ls_msg_enum_word(type, type->values[i].value, other) != NULL &&
            strcmp(word, other) == 0) {
            *out_value = type->values[i].value;
            return true;
        }
    }
    return false;
}
