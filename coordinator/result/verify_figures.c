/* Two messages, figure by figure. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/msg_model.h"
#include "coordinator/result/verify_internal.h"

#define WHERE_MAX   512u
#define VALUE_MAX   96u
#define ELEMENT_MAX (WHERE_MAX + 300u) /* a figure's name, with its element's */

/* Everything but messages, as result.json would have it; out holds VALUE_MAX bytes. */
static const char *value_text(const ProtobufCFieldDescriptor *field, const void *at, char *out)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        (void)snprintf(out, VALUE_MAX, "\"%.80s\"", *(char *const *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        (void)snprintf(out, VALUE_MAX, "%s", *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_UINT32:
        (void)snprintf(out, VALUE_MAX, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        (void)snprintf(out, VALUE_MAX, "%" PRIu64, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
        (void)snprintf(out, VALUE_MAX, "%" PRId64, *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        (void)ls_msg_format_double(*(const double *)at, out);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        if (ls_msg_enum_word(field->descriptor, *(const int *)at, out) == NULL)
            (void)snprintf(out, VALUE_MAX, "%d", *(const int *)at);
        break;
    default:
        (void)snprintf(out, VALUE_MAX, "?"); /* result.proto has no other types */
        break;
    }
    return out;
}

static bool same_value(const ProtobufCFieldDescriptor *field, const void *a, const void *b)
{
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return strcmp(*(char *const *)a, *(char *const *)b) == 0;
    return memcmp(a, b, ls_msg_type_size(field->type)) == 0;
}

static void tell(struct verify *v, const struct verify_source *source, const char *figure,
                 const char *published, const char *computed)
{
    char text[ELEMENT_MAX + 2 * VALUE_MAX + 400];

    (void)snprintf(text, sizeof(text), "%s is %s, from %s it is %s", figure, published,
                   source->from, computed);
    verify_differs(v, source->file, figure, published, computed, text);
}

/* What a file leaves out reads as that. */
static bool is_nothing(const ProtobufCFieldDescriptor *field, const void *at)
{
    static const char zeros[16];

    if (field->type == PROTOBUF_C_TYPE_STRING)
        return (*(char *const *)at)[0] == '\0';
    return memcmp(at, zeros, ls_msg_type_size(field->type)) == 0;
}

static void compare_value(struct verify *v, const struct verify_source *source, const char *figure,
                          const ProtobufCFieldDescriptor *field, const void *a, const void *b)
{
    char left[VALUE_MAX], right[VALUE_MAX];

    v->out->figures++;
    if (!same_value(field, a, b) && !(v->older && is_nothing(field, a)))
        tell(v, source, figure, value_text(field, a, left), value_text(field, b, right));
}

/* What tells elements of a list from each other, better than a number: "nginx hello p50". */
static void label_of(const ProtobufCMessage *message, size_t number, char *out, size_t out_bytes)
{
    static const char *const telling[] = { "target", "workload", "metric", "agent", "name" };
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < LS_ARRAY_LEN(telling); i++) {
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field_by_name(message->descriptor, telling[i]);

        if (field == NULL || field->type != PROTOBUF_C_TYPE_STRING || len + 1 >= out_bytes)
            continue;
        len += (size_t)snprintf(out + len, out_bytes - len, "%s%.80s", len > 0 ? " " : "",
                                *(char *const *)ls_msg_at(message, field, 0));
    }
    if (len == 0)
        (void)snprintf(out, out_bytes, "%zu", number);
}

static const char *count_text(bool list, size_t n, char *out, size_t out_bytes)
{
    if (list)
        (void)snprintf(out, out_bytes, "%zu long", n);
    else
        (void)snprintf(out, out_bytes, "%s", n > 0 ? "there" : "absent");
    return out;
}

static void name_element(const char *figure, bool list, const char *label, char *out,
                         size_t out_bytes)
{
    if (list)
        (void)snprintf(out, out_bytes, "%s[%s]", figure, label);
    else
        (void)snprintf(out, out_bytes, "%s", figure);
}

static void compare_field(struct verify *v, const struct verify_source *source, const char *where,
                          const ProtobufCFieldDescriptor *field, const ProtobufCMessage *published,
                          const ProtobufCMessage *computed)
{
    size_t n = ls_msg_count(published, field), k = ls_msg_count(computed, field);
    bool list = field->label == PROTOBUF_C_LABEL_REPEATED;
    char figure[WHERE_MAX], element[ELEMENT_MAX], label[256], left[32], right[32];

    (void)snprintf(figure, sizeof(figure), "%s%s%s", where, where[0] != '\0' ? "." : "",
                   field->name);
    if (n != k && !(v->older && n == 0)) {
        v->out->figures++;
        tell(v, source, figure, count_text(list, n, left, sizeof(left)),
             count_text(list, k, right, sizeof(right)));
    }
    for (size_t i = 0; i < n && i < k; i++) {
        if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
            (void)snprintf(label, sizeof(label), "%zu", i);
            name_element(figure, list, label, element, sizeof(element));
            compare_value(v, source, element, field, ls_msg_at(published, field, i),
                          ls_msg_at(computed, field, i));
            continue;
        }
        label_of(ls_msg_sub(published, field, i), i, label, sizeof(label));
        name_element(figure, list, label, element, sizeof(element));
        verify_message(v, source, element, ls_msg_sub(published, field, i),
                       ls_msg_sub(computed, field, i));
    }
}

static bool is_named(const char *name, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strcmp(*names, name) == 0)
            return true;
    }
    return false;
}

static void compare_some(struct verify *v, const struct verify_source *source, const char *where,
                         const ProtobufCMessage *published, const ProtobufCMessage *computed,
                         const char *const *names, bool named)
{
    const ProtobufCMessageDescriptor *descriptor = published->descriptor;

    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        if (is_named(descriptor->fields[i].name, names) == named)
            compare_field(v, source, where, &descriptor->fields[i], published, computed);
    }
}

void verify_fields(struct verify *v, const struct verify_source *source, const char *where,
                   const ProtobufCMessage *published, const ProtobufCMessage *computed,
                   const char *const *names)
{
    compare_some(v, source, where, published, computed, names, true);
}

void verify_other_fields(struct verify *v, const struct verify_source *source, const char *where,
                         const ProtobufCMessage *published, const ProtobufCMessage *computed,
                         const char *const *names)
{
    compare_some(v, source, where, published, computed, names, false);
}

void verify_message(struct verify *v, const struct verify_source *source, const char *where,
                    const ProtobufCMessage *published, const ProtobufCMessage *computed)
{
    static const char *const none[] = { NULL };

    compare_some(v, source, where, published, computed, none, false);
}
