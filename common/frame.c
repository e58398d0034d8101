/* common/frame.c - bytes <-> one envelope: pure, bounded, and strict.
 *
 * protobuf-c checks neither UTF-8 nor embedded NULs, merges fields that come twice and grows a
 * small input into much memory. The bytes are therefore walked first, guided by the descriptors,
 * and then unpacked under a budget. The schema has no recursion, so the walk is as deep as the
 * schema.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_model.h"
#include "common/transport_impl.h"
#include "common/utf8.h"

#define SCAN_DEPTH_MAX 32u

enum wire_type { WIRE_VARINT = 0, WIRE_64BIT = 1, WIRE_BYTES = 2, WIRE_32BIT = 5 };

enum ls_body_kind ls_body_kind(Ls__Envelope__BodyCase body)
{
    unsigned id = (unsigned)body;

    return id >= 40 ? LS_BODY_REPORT : id >= 20 ? LS_BODY_COMMAND : LS_BODY_SESSION;
}

const char *ls_body_name(Ls__Envelope__BodyCase body)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(&ls__envelope__descriptor, (unsigned)body);

    return field != NULL ? field->name : "?";
}

bool ls_report_fits_role(Ls__Envelope__BodyCase body, Ls__Role role)
{
    switch (body) {
    case LS__ENVELOPE__BODY_PHASE:
        return true;
    case LS__ENVELOPE__BODY_INTERVAL:
    case LS__ENVELOPE__BODY_CLIENT:
        return role == LS__ROLE__ROLE_CLIENT;
    case LS__ENVELOPE__BODY_TARGET_UP:
    case LS__ENVELOPE__BODY_SAMPLE:
    case LS__ENVELOPE__BODY_TARGET_LOG:
    case LS__ENVELOPE__BODY_SERVER:
    case LS__ENVELOPE__BODY_PROCESS:
        return role == LS__ROLE__ROLE_SERVER;
    default:
        return false;
    }
}

enum ls_err ls_frame_next(struct ls_bytes in, uint32_t max, struct ls_bytes *out_envelope,
                          size_t *out_bytes, struct ls_diag *diag)
{
    uint32_t len;

    *out_bytes = LS_FRAME_HEAD;
    if (in.len < LS_FRAME_HEAD)
        return LS_EAGAIN;
    len = (uint32_t)in.data[0] | (uint32_t)in.data[1] << 8 | (uint32_t)in.data[2] << 16 |
          (uint32_t)in.data[3] << 24;
    if (len == 0 || len > max)
        return ls_fail(diag, LS_EPROTO, "a frame of %" PRIu32 " bytes; 1 to %" PRIu32 " are taken",
                       len, max);
    *out_bytes = LS_FRAME_HEAD + (size_t)len;
    if (in.len - LS_FRAME_HEAD < len)
        return LS_EAGAIN;
    *out_envelope = (struct ls_bytes){ .data = in.data + LS_FRAME_HEAD, .len = len };
    return LS_OK;
}

/* ---- the walk ---- */

static bool take_varint(struct ls_bytes *in, uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < 10 && i < in->len; i++) {
        value |= (uint64_t)(in->data[i] & 0x7f) << (7 * i);
        if ((in->data[i] & 0x80) == 0) {
            *out = value;
            in->data += i + 1;
            in->len -= i + 1;
            return true;
        }
    }
    return false;
}

struct wire_field {
    uint32_t id;
    enum wire_type type;
    uint64_t varint;
    struct ls_bytes bytes;
};

static bool take_bytes(struct ls_bytes *in, uint64_t len, struct ls_bytes *out)
{
    if (len > in->len)
        return false;
    *out = (struct ls_bytes){ .data = in->data, .len = (size_t)len };
    in->data += len;
    in->len -= (size_t)len;
    return true;
}

/* False: not protobuf. Groups are not: proto3 has none. */
static bool take_field(struct ls_bytes *in, struct wire_field *out)
{
    uint64_t key;
    uint64_t len;

    if (!take_varint(in, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff)
        return false;
    *out = (struct wire_field){ .id = (uint32_t)(key >> 3), .type = (enum wire_type)(key & 7) };
    switch (out->type) {
    case WIRE_VARINT:
        return take_varint(in, &out->varint);
    case WIRE_64BIT:
        return take_bytes(in, 8, &out->bytes);
    case WIRE_BYTES:
        return take_varint(in, &len) && take_bytes(in, len, &out->bytes);
    case WIRE_32BIT:
        return take_bytes(in, 4, &out->bytes);
    }
    return false;
}

uint32_t ls_envelope_peek_version(struct ls_bytes in)
{
    struct wire_field field;

    while (in.len > 0 && take_field(&in, &field))
        if (field.id == 1 && field.type == WIRE_VARINT)
            return field.varint > UINT32_MAX ? UINT32_MAX : (uint32_t)field.varint;
    return 0;
}

/* Which fields of one message have been seen; a field that is not repeated may come once, and one
 * of a oneof's members. That keeps protobuf-c's merging code out of the game. */
struct seen {
    uint64_t fields;
};

static enum ls_err check_once(const ProtobufCMessageDescriptor *message,
                              const ProtobufCFieldDescriptor *field, struct seen *seen,
                              struct ls_diag *diag)
{
    size_t index = (size_t)(field - message->fields);

    if (field->label == PROTOBUF_C_LABEL_REPEATED || index >= 64)
        return LS_OK;
    if (seen->fields >> index & 1)
        return ls_fail(diag, LS_EPROTO, "%s.%s is there twice", message->short_name, field->name);
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        for (unsigned i = 0; i < message->n_fields && i < 64; i++) {
            const ProtobufCFieldDescriptor *other = &message->fields[i];

            if ((seen->fields >> i & 1) != 0 && (other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
                other->quantifier_offset == field->quantifier_offset)
                return ls_fail(diag, LS_EPROTO, "%s has both %s and %s", message->short_name,
                               other->name, field->name);
        }
    seen->fields |= UINT64_C(1) << index;
    return LS_OK;
}

static enum ls_err scan(const ProtobufCMessageDescriptor *parent,
                        const ProtobufCFieldDescriptor *in_field,
                        const ProtobufCMessageDescriptor *message, struct ls_bytes in,
                        unsigned depth, struct ls_diag *diag);

static enum ls_err check_value(const ProtobufCMessageDescriptor *message,
                               const ProtobufCFieldDescriptor *field, const struct wire_field *wire,
                               unsigned depth, struct ls_diag *diag)
{
    if (wire->type == WIRE_VARINT && field->type == PROTOBUF_C_TYPE_ENUM &&
        protobuf_c_enum_descriptor_get_value(field->descriptor, (int)(uint32_t)wire->varint) ==
            NULL)
        return ls_fail(diag, LS_EPROTO, "%s.%s has the unknown value %" PRIu64, message->short_name,
                       field->name, wire->varint);
    if (wire->type != WIRE_BYTES)
        return LS_OK;
    if (field->type == PROTOBUF_C_TYPE_STRING && !ls_utf8_is_text(wire->bytes))
        return ls_fail(diag, LS_EPROTO, "%s.%s is not UTF-8 text", message->short_name,
                       field->name);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return scan(message, field, field->descriptor, wire->bytes, depth + 1, diag);
    return LS_OK;
}

/* An entry without its key or its value would be NULL in proto2, where everybody expects text. */
static enum ls_err check_entry(const ProtobufCMessageDescriptor *entry, const struct seen *seen,
                               struct ls_diag *diag)
{
    return seen->fields == 3
               ? LS_OK
               : ls_fail(diag, LS_EPROTO, "%s without key or value", entry->short_name);
}

/* parent, field: what message is in; NULL at the top. */
static enum ls_err scan(const ProtobufCMessageDescriptor *parent,
                        const ProtobufCFieldDescriptor *in_field,
                        const ProtobufCMessageDescriptor *message, struct ls_bytes in,
                        unsigned depth, struct ls_diag *diag)
{
    struct seen seen = { 0 };

    if (depth > SCAN_DEPTH_MAX)
        return ls_fail(diag, LS_EPROTO, "messages nested deeper than %u", SCAN_DEPTH_MAX);
    while (in.len > 0) {
        const ProtobufCFieldDescriptor *field;
        struct wire_field wire;
        enum ls_err rc;

        if (!take_field(&in, &wire))
            return ls_fail(diag, LS_EPROTO, "%s is malformed or cut short", message->short_name);
        field = protobuf_c_message_descriptor_get_field(message, wire.id);
        if (field == NULL)
            continue;
        rc = check_once(message, field, &seen, diag);
        if (rc == LS_OK)
            rc = check_value(message, field, &wire, depth, diag);
        if (rc != LS_OK)
            return rc;
    }
    return parent != NULL && ls_msg_is_map(parent, in_field) ? check_entry(message, &seen, diag)
                                                             : LS_OK;
}

/* ---- unpacking ---- */

struct budget {
    size_t left; /* counts what was ever allocated: frees give nothing back */
    bool spent;
};

static void *budget_alloc(void *data, size_t size)
{
    struct budget *budget = data;
    void *memory = size <= budget->left ? malloc(size) : NULL;

    if (memory == NULL)
        budget->spent = true;
    else
        budget->left -= size;
    return memory;
}

static void budget_free(void *data, void *memory)
{
    (void)data;
    free(memory);
}

static enum ls_err check_envelope(const Ls__Envelope *e, struct ls_diag *diag)
{
    bool numbered;

    if (e->body_case == LS__ENVELOPE__BODY__NOT_SET)
        return ls_fail(diag, LS_EPROTO, "an envelope without a body that is known here");
    numbered = ls_body_kind(e->body_case) != LS_BODY_SESSION;
    if (numbered != (e->seq != 0))
        return ls_fail(diag, LS_EPROTO, "%s %s a sequence number", ls_body_name(e->body_case),
                       numbered ? "without" : "with");
    return LS_OK;
}

enum ls_err ls_envelope_unpack(struct ls_bytes in, Ls__Envelope **out, struct ls_diag *diag)
{
    struct budget budget = { .left = in.len * LS_UNPACK_BUDGET_FACTOR };
    ProtobufCAllocator allocator = { budget_alloc, budget_free, &budget };
    uint32_t version = ls_envelope_peek_version(in);
    Ls__Envelope *envelope;
    enum ls_err rc;

    if (version != LS_WIRE_VERSION)
        return ls_fail(diag, LS_EPROTO, "protocol version %" PRIu32 "; this program speaks %d",
                       version, LS_WIRE_VERSION);
    rc = scan(NULL, NULL, &ls__envelope__descriptor, in, 0, diag);
    if (rc != LS_OK)
        return rc;
    if (budget.left < LS_UNPACK_BUDGET_MIN)
        budget.left = LS_UNPACK_BUDGET_MIN;
    envelope = ls__envelope__unpack(&allocator, in.len, in.data);
    if (envelope == NULL)
        return budget.spent
                   ? ls_fail(diag, LS_ENOMEM, "an envelope of %zu bytes unpacks to too much",
                             in.len)
                   : ls_fail(diag, LS_EPROTO, "an envelope of %zu bytes does not decode", in.len);
    rc = check_envelope(envelope, diag);
    if (rc != LS_OK) {
        ls_envelope_free(envelope);
        return rc;
    }
    *out = envelope;
    return LS_OK;
}

void ls_envelope_free(Ls__Envelope *envelope)
{
    if (envelope != NULL)
        ls__envelope__free_unpacked(envelope, NULL);
}

/* ---- packing ---- */

/* As the receiver will: with the longest head a frame can get, so that no later one is too long. */
static enum ls_err check_as_received(const Ls__Envelope *envelope, uint32_t max,
                                     struct ls_diag *diag)
{
    char run_id[LS_NAME_MAX_BYTES + 1];
    Ls__Envelope whole = *envelope;
    Ls__Envelope *unpacked = NULL;
    unsigned char *bytes;
    enum ls_err rc;
    size_t len;

    memset(run_id, 'x', LS_NAME_MAX_BYTES);
    run_id[LS_NAME_MAX_BYTES] = '\0';
    whole.version = LS_WIRE_VERSION;
    whole.run_id = run_id;
    whole.seq = UINT64_MAX;
    len = ls__envelope__get_packed_size(&whole);
    if (len > max)
        return ls_fail(diag, LS_ERANGE, "%s makes a frame of %zu bytes; at most %" PRIu32 " go",
                       ls_body_name(envelope->body_case), len, max);
    bytes = malloc(len);
    if (bytes == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a message of %zu bytes", len);
    (void)ls__envelope__pack(&whole, bytes);
    rc = ls_envelope_unpack((struct ls_bytes){ bytes, len }, &unpacked, diag);
    if (rc == LS_EPROTO)
        rc = ls_fail_in(diag, LS_EINVAL, "%s cannot be sent", ls_body_name(envelope->body_case));
    ls_envelope_free(unpacked);
    free(bytes);
    return rc;
}

enum ls_err ls_packed_make(const Ls__Envelope *envelope, enum ls_body_kind kind, uint32_t max,
                           struct ls_packed *out, struct ls_diag *diag)
{
    Ls__Envelope bare = *envelope;
    struct ls_packed packed;
    enum ls_err rc;

    if (envelope->body_case == LS__ENVELOPE__BODY__NOT_SET ||
        ls_body_kind(envelope->body_case) != kind)
        return ls_fail(diag, LS_EINVAL, "%s is not a %s", ls_body_name(envelope->body_case),
                       kind == LS_BODY_COMMAND ? "command" : "report");
    rc = check_as_received(envelope, max, diag);
    if (rc != LS_OK)
        return rc;
    bare.version = 0;
    bare.run_id = NULL;
    bare.seq = 0;
    packed.len = ls__envelope__get_packed_size(&bare);
    packed.data = malloc(packed.len);
    if (packed.data == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a message of %zu bytes", packed.len);
    (void)ls__envelope__pack(&bare, packed.data);
    *out = packed;
    return LS_OK;
}
