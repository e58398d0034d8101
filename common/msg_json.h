/* common/msg_json.h - any protobuf-c message to and from JSON, by its descriptor alone.
 *
 * proto3's JSON rules but for two choices: field names as written (snake_case), and 64-bit integers
 * as JSON numbers. Scalar fields without presence (proto3) are always written, with presence
 * (proto2) when given. Enum values are written by the lower-case part after the type's prefix:
 * "interleaved". Output is deterministic: fields in the order of their declaration, shortest
 * numbers that read back equal; NaN and infinities are refused by an assert, for we never compute
 * them.
 */
#ifndef LS_COMMON_MSG_JSON_H
#define LS_COMMON_MSG_JSON_H

#include <protobuf-c/protobuf-c.h>

#include "common/attr.h"
#include "common/err.h"

/* indent 0: one line. The caller frees. NULL: out of memory. */
char *ls_msg_to_json(const ProtobufCMessage *message, unsigned indent) LS_NODISCARD;

/* Unknown keys are refused; diag says where (path). */
enum ls_err ls_msg_from_json(const ProtobufCMessageDescriptor *descriptor, struct ls_bytes text,
                             ProtobufCMessage **out_message, struct ls_diag *diag) LS_NODISCARD;

#endif
