/* The recorded bytes of a wire version still mean what they meant: tests/golden/wire.
 *
 * With --record it writes such a file for the present schema: every body, every field of it set to
 * a value of its own, found by the descriptors.
 */
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/transport_impl.h"
#include "tests/common/wire_fill.h"

#define TEXT_MAX (1u << 20)

/* ---- what a message says, one field a line; what has no value is left out ---- */

static void dump(struct ls_buf *out, const ProtobufCMessage *message, const char *path);

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

static void dump_bytes(struct ls_buf *out, const ProtobufCBinaryData *bytes)
{
    for (size_t i = 0; i < bytes->len; i++)
        ls_buf_addf(out, "%02x", bytes->data[i]);
}

static void dump_value(struct ls_buf *out, const ProtobufCFieldDescriptor *field, const void *at,
                       const char *path)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        dump(out, *(ProtobufCMessage *const *)at, path);
        return;
    }
    ls_buf_addf(out, "%s = ", path);
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT32:
        ls_buf_addf(out, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
        ls_buf_addf(out, "%" PRId64, *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        ls_buf_addf(out, "%" PRIu64, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        ls_buf_addf(out, "%.17g", *(const double *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        ls_buf_adds(out, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        ls_buf_adds(
            out, protobuf_c_enum_descriptor_get_value(field->descriptor, *(const int *)at)->name);
        break;
    case PROTOBUF_C_TYPE_STRING:
        ls_buf_addf(out, "\"%s\"", *(char *const *)at);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        dump_bytes(out, at);
        break;
    default:
        fail_msg("%s: a type that this test does not know yet", path);
    }
    ls_buf_adds(out, "\n");
}

static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    static const unsigned char zeros[sizeof(ProtobufCBinaryData)];
    const char *base = (const char *)message;
    const void *at = base + field->offset;

    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(const void *)(base + field->quantifier_offset) == field->id;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(void *const *)at != NULL;
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return *(char *const *)at != field->default_value && (*(char *const *)at)[0] != '\0';
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL)
        return *(const protobuf_c_boolean *)(const void *)(base + field->quantifier_offset);
    return memcmp(at, zeros, size_of(field->type)) != 0;
}

static void dump(struct ls_buf *out, const ProtobufCMessage *message, const char *path)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const char *base = (const char *)message;
        char deeper[256];
        size_t count;

        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            count = *(const size_t *)(const void *)(base + field->quantifier_offset);
            for (size_t k = 0; k < count; k++) {
                const char *array = *(char *const *)(const void *)(base + field->offset);

                (void)snprintf(deeper, sizeof(deeper), "%s.%s[%zu]", path, field->name, k);
                dump_value(out, field, array + k * size_of(field->type), deeper);
            }
        } else if (is_set(message, field)) {
            (void)snprintf(deeper, sizeof(deeper), "%s.%s", path, field->name);
            dump_value(out, field, base + field->offset, deeper);
        }
    }
}

/* ---- recording ---- */

static void record_body(const ProtobufCFieldDescriptor *body)
{
    Ls__Envelope *envelope = wire_fill(body, "run-1", 300);
    size_t len = ls__envelope__get_packed_size(envelope);
    unsigned char *bytes = malloc(len);
    struct ls_buf text;

    assert_non_null(bytes);
    (void)ls__envelope__pack(envelope, bytes);
    ls_buf_init(&text, TEXT_MAX);
    dump(&text, &envelope->base, "envelope");
    (void)printf("bytes ");
    for (size_t i = 0; i < len; i++)
        (void)printf("%02x", bytes[i]);
    (void)printf("\n%s\n", (char *)text.data);
    ls_buf_fini(&text);
    free(bytes);
    ls_envelope_free(envelope);
}

static int record(void)
{
    for (unsigned i = 0; i < ls__envelope__descriptor.n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &ls__envelope__descriptor.fields[i];

        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
            record_body(field);
    }
    return 0;
}

/* ---- the test ---- */

/* Reads hex digits up to the line's end; returns what follows it. */
static char *take_hex(char *at, unsigned char *out, size_t *out_len)
{
    *out_len = 0;
    while (*at != '\n') {
        char digits[3] = { at[0], at[1], '\0' };

        out[(*out_len)++] = (unsigned char)strtoul(digits, NULL, 16);
        at += 2;
    }
    return at + 1;
}

static void recorded_bytes_mean_what_they_meant(void **state)
{
    static unsigned char bytes[65536];
    struct ls_diag diag = { 0 };
    unsigned envelopes = 0;
    char *data = NULL;
    size_t len = 0;
    char *at;

    (void)state;
    if (ls_fs_read(LS_SOURCE "/tests/golden/wire/v1.txt", TEXT_MAX, &data, &len, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    for (at = data; strncmp(at, "bytes ", 6) == 0;) {
        Ls__Envelope *envelope = NULL;
        struct ls_buf text;
        char *end;

        at = take_hex(at + 6, bytes, &len);
        end = strstr(at, "\n\n");
        assert_non_null(end);
        end[1] = '\0';
        if (ls_envelope_unpack((struct ls_bytes){ bytes, len }, &envelope, &diag) != LS_OK)
            fail_msg("%s", diag.text);
        ls_buf_init(&text, TEXT_MAX);
        dump(&text, &envelope->base, "envelope");
        assert_true(text.ok);
        assert_string_equal((char *)text.data, at);
        ls_buf_fini(&text);
        ls_envelope_free(envelope);
        at = end + 2;
        envelopes++;
    }
    assert_string_equal(at, ""); /* nothing was left out */
    assert_true(envelopes >= 21);
    free(data);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_bytes_mean_what_they_meant),
    };

    if (argc == 2 && strcmp(argv[1], "--record") == 0)
        return record();
    return cmocka_run_group_tests_name("common.wire_golden", tests, NULL, NULL);
}
