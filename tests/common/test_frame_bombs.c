/* Little input, much memory: for each list of each message that can come over the wire, and for
 * unknown fields in each of them, found by the descriptors. What an envelope unpacks to stays
 * within the budget of its length, or it is refused. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/transport_impl.h"
#include "tests/common/wire_fill.h"

#define DEPTH_MAX   24u
#define FEW         50u /* these are just messages */
#define ELEMENTS    30000u
#define INPUT_BYTES (512u << 10)

/* The fields from the envelope's body on. */
struct path {
    const ProtobufCFieldDescriptor *fields[DEPTH_MAX];
    unsigned depth;
};

static unsigned refused, taken;

static void add_varint(struct ls_buf *buf, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));

        ls_buf_add(buf, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

/* ---- what a message takes in memory */

static size_t memory_of(const ProtobufCMessage *message);

static size_t memory_at(const ProtobufCFieldDescriptor *field, const void *at)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(ProtobufCMessage *const *)at != NULL ? memory_of(*(ProtobufCMessage *const *)at)
                                                      : 0;
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return *(char *const *)at != NULL && *(char *const *)at != field->default_value &&
                       *(char *const *)at != (const char *)protobuf_c_empty_string
                   ? strlen(*(char *const *)at) + 1
                   : 0;
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)at)->len;
    return 0;
}

static size_t element_bytes(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

static size_t memory_of(const ProtobufCMessage *message)
{
    const char *base = (const char *)message;
    size_t sum = message->descriptor->sizeof_message +
                 message->n_unknown_fields * sizeof(ProtobufCMessageUnknownField);

    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const void *quantifier = base + field->quantifier_offset;

        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t count = *(const size_t *)quantifier, each = element_bytes(field->type);
            const char *array = *(char *const *)(const void *)(base + field->offset);

            sum += count * each;
            for (size_t k = 0; k < count; k++)
                sum += memory_at(field, array + k * each);
        } else if ((field->flags & (unsigned)PROTOBUF_C_FIELD_FLAG_ONEOF) == 0 ||
                   *(const uint32_t *)quantifier == field->id) {
            sum += memory_at(field, base + field->offset);
        }
    }
    return sum;
}

/* ---- bombs */

/* Version 1, a run id, a number if it needs one, and the path around content, which buf then is. */
static void wrap(const struct path *path, struct ls_buf *content)
{
    struct ls_buf outer;

    for (unsigned i = path->depth; i-- > 0;) {
        ls_buf_init(&outer, 8u << 20);
        if (i == 0) {
            ls_buf_add(&outer, "\x08\x01\x12\x01r", 5);
            if (ls_body_kind((Ls__Envelope__BodyCase)path->fields[0]->id) != LS_BODY_SESSION)
                ls_buf_add(&outer, "\x18\x03", 2);
        }
        add_varint(&outer, (uint64_t)path->fields[i]->id << 3 | 2);
        add_varint(&outer, content->len);
        ls_buf_add(&outer, content->data, content->len);
        ls_buf_fini(content);
        *content = outer;
    }
}

static void expect_bounded(const struct path *path, const char *what, struct ls_buf *content)
{
    Ls__Envelope *out = NULL;
    struct ls_diag diag = { 0 };
    size_t budget;
    enum ls_err rc;

    wrap(path, content);
    assert_true(content->ok && content->len <= LS_FRAME_MAX_FROM_AGENT);
    budget = content->len * LS_UNPACK_BUDGET_FACTOR;
    if (budget < LS_UNPACK_BUDGET_MIN)
        budget = LS_UNPACK_BUDGET_MIN;
    rc = ls_envelope_unpack((struct ls_bytes){ content->data, content->len }, &out, &diag);
    if (rc == LS_OK && memory_of(&out->base) > budget)
        fail_msg("%s in %s: %zu bytes became %zu", what, path->fields[path->depth - 1]->name,
                 content->len, memory_of(&out->base));
    refused += rc != LS_OK;
    taken += rc == LS_OK;
    ls_envelope_free(out);
    ls_buf_fini(content);
}

static void list_bomb(const struct path *path, const ProtobufCFieldDescriptor *list, size_t count)
{
    struct ls_buf content;

    ls_buf_init(&content, 8u << 20);
    for (size_t i = 0; i < count; i++) {
        bool scalar = list->type != PROTOBUF_C_TYPE_MESSAGE &&
                      list->type != PROTOBUF_C_TYPE_STRING && list->type != PROTOBUF_C_TYPE_BYTES;

        add_varint(&content, (uint64_t)list->id << 3 | (scalar ? 0 : 2));
        add_varint(&content, 0);
    }
    expect_bounded(path, list->name, &content);
}

static void unknown_bomb(const struct path *path, size_t count)
{
    struct ls_buf content;

    ls_buf_init(&content, 8u << 20);
    for (size_t i = 0; i < count; i++)
        ls_buf_add(&content, "\x80\x7d\x00", 3); /* field 2000, 0 */
    expect_bounded(path, "unknown fields", &content);
}

/* The schema has no recursion: each message is reached by a finite number of ways, of which the
 * first is as good as any. */
static void explore(struct path *path, const ProtobufCMessageDescriptor **seen,
                    unsigned *seen_count)
{
    const ProtobufCMessageDescriptor *message = path->fields[path->depth - 1]->descriptor;

    for (unsigned i = 0; i < *seen_count; i++) {
        if (seen[i] == message)
            return;
    }
    seen[(*seen_count)++] = message;
    unknown_bomb(path, FEW);
    unknown_bomb(path, ELEMENTS);
    for (unsigned i = 0; i < message->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->fields[i];

        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            list_bomb(path, field, FEW);
            list_bomb(path, field, ELEMENTS);
        }
        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            assert_true(path->depth < DEPTH_MAX);
            path->fields[path->depth++] = field;
            explore(path, seen, seen_count);
            path->depth--;
        }
    }
}

static void no_message_becomes_more_than_its_budget(void **state)
{
    static const ProtobufCMessageDescriptor *seen[512];
    unsigned seen_count = 0;

    (void)state;
    for (unsigned i = 0; i < ls__envelope__descriptor.n_fields; i++) {
        struct path path = { .fields = { &ls__envelope__descriptor.fields[i] }, .depth = 1 };

        if (wire_is_body(path.fields[0]))
            explore(&path, seen, &seen_count);
    }
    assert_true(seen_count >= 60);
    assert_true(refused >= seen_count); /* bombs they are */
    assert_true(taken >= seen_count);
}

/* One list of messages within another: each level may multiply. */
static void a_list_in_a_list_is_bounded_as_well(void **state)
{
    const ProtobufCFieldDescriptor *prepare = protobuf_c_message_descriptor_get_field(
        &ls__envelope__descriptor, LS__ENVELOPE__BODY_PREPARE);
    struct path path = { .fields = { prepare }, .depth = 1 };
    struct ls_buf content;

    (void)state;
    ls_buf_init(&content, 8u << 20);
    ls_buf_add(&content, "\x22\x00", 2); /* the workload; and then another, with requests */
    for (size_t i = 0; i < INPUT_BYTES / 8; i++)
        ls_buf_add(&content, "\x22\x06\x12\x04\x0a\x02\x1a\x00", 8);
    expect_bounded(&path, "requests with headers", &content);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_message_becomes_more_than_its_budget),
        cmocka_unit_test(a_list_in_a_list_is_bounded_as_well),
    };

    return cmocka_run_group_tests_name("common.frame_bombs", tests, NULL, NULL);
}
