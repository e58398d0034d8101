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

#define LS_JSON_MAX_BYTES (256u << 20) /* none longer is written or read */

/* indent 0: one line, without a line end; otherwise the text ends in one. What is no UTF-8 in a
 * string becomes U+FFFD. The caller frees. NULL: out of memory, or longer than the limit. */
char *ls_msg_to_json(const ProtobufCMessage *message, unsigned indent) LS_NODISCARD;

/* Unknown and duplicate keys are refused; null reads as left out. LS_EINVAL, LS_ERANGE, LS_ENOMEM;
 * diag says where, by line and column or by path. On LS_OK the caller frees *out_message with
 * protobuf_c_message_free_unpacked(m, NULL). */
enum ls_err ls_msg_from_json(const ProtobufCMessageDescriptor *descriptor, struct ls_bytes text,
                             ProtobufCMessage **out_message, struct ls_diag *diag) LS_NODISCARD;

#endif
