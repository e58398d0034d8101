#include "tests/common/wire_fill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

static void *must_alloc(size_t n, size_t size)
{
    void *memory = calloc(n, size);

    assert_non_null(memory);
    return memory;
}

static ProtobufCMessage *filled(const ProtobufCMessageDescriptor *descriptor, unsigned *counter);

static void fill_value(const ProtobufCFieldDescriptor *field, void *at, unsigned *counter)
{
    const ProtobufCEnumDescriptor *values = field->descriptor;
    ProtobufCBinaryData *bytes = at;
    char text[64];

    ++*counter;
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT32:
        *(uint32_t *)at = *counter;
        break;
    case PROTOBUF_C_TYPE_INT64:
        *(int64_t *)at = *counter % 2 != 0 ? -(int64_t)*counter : INT64_C(1) << 40 | *counter;
        break;
    case PROTOBUF_C_TYPE_UINT64:
        *(uint64_t *)at = UINT64_C(1) << 50 | *counter;
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)at = *counter + 0.25;
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = 1;
        break;
    case PROTOBUF_C_TYPE_ENUM:
        *(int *)at = values->values[values->n_values - 1].value;
        break;
    case PROTOBUF_C_TYPE_STRING:
        (void)snprintf(text, sizeof(text), "%s %u", field->name, *counter);
        *(char **)at = strdup(text);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        bytes->len = 3;
        bytes->data = must_alloc(1, bytes->len);
        memset(bytes->data, (int)*counter, bytes->len);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)at = filled(field->descriptor, counter);
        break;
    default:
        fail_msg("%s: a type that this test does not know yet", field->name);
    }
}

static void fill_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                       unsigned *counter)
{
    char *base = (char *)message;
    void *quantifier = base + field->quantifier_offset;
    void *at = base + field->offset;

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        char *array = must_alloc(2, size_of(field->type));

        *(size_t *)quantifier = 2;
        *(char **)at = array;
        fill_value(field, array, counter);
        fill_value(field, array + size_of(field->type), counter);
        return;
    }
    fill_value(field, at, counter);
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        *(uint32_t *)quantifier = field->id;
    else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->type != PROTOBUF_C_TYPE_MESSAGE &&
             field->type != PROTOBUF_C_TYPE_STRING)
        *(protobuf_c_boolean *)quantifier = 1;
}

/* Every field set; of a oneof, the first. */
static ProtobufCMessage *filled(const ProtobufCMessageDescriptor *descriptor, unsigned *counter)
{
    ProtobufCMessage *message = must_alloc(1, descriptor->sizeof_message);

    descriptor->message_init(message);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

        if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
            *(uint32_t *)(void *)((char *)message + field->quantifier_offset) != 0)
            continue;
        fill_field(message, field, counter);
    }
    return message;
}

bool wire_is_body(const ProtobufCFieldDescriptor *field)
{
    return (field->flags & (unsigned)PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

Ls__Envelope *wire_fill(const ProtobufCFieldDescriptor *body, const char *run_id, uint64_t seq)
{
    Ls__Envelope *envelope = must_alloc(1, sizeof(*envelope));
    unsigned counter = 0;

    ls__envelope__init(envelope);
    fill_field(&envelope->base, body, &counter);
    envelope->version = LS_WIRE_VERSION;
    envelope->run_id = strdup(run_id);
    assert_non_null(envelope->run_id);
    if (ls_body_kind(envelope->body_case) != LS_BODY_SESSION)
        envelope->seq = seq;
    return envelope;
}
