/* common/msg_model.h - what a descriptor means to the file forms of a message: which messages are
 * one word, which lists are mappings, how enum values are spelt, what counts as given.
 * proto/README.md has the rules in words; common/msg_yaml.c and common/msg_json.c follow them here.
 */
#ifndef LS_COMMON_MSG_MODEL_H
#define LS_COMMON_MSG_MODEL_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "common/attr.h"
#include "common/err.h"

#define LS_MSG_MAX_FIELDS 64u /* of one message, and */
#define LS_MSG_MAX_DEPTH  24u /* of messages within messages: ls_msg_check_schema() proves both */
#define LS_MSG_WORD_MAX   64u /* bytes of an enum word or a unit's scalar, with the NUL */

/* Messages that files show as one word, known by their names: ls.Duration and so on. */
enum ls_msg_unit {
    LS_MSG_UNIT_NONE,
    LS_MSG_UNIT_DURATION,
    LS_MSG_UNIT_RATE,
    LS_MSG_UNIT_COUNT,
    LS_MSG_UNIT_SIZE,
    LS_MSG_UNIT_SHARE,
    LS_MSG_UNIT_COUNT_OF
};

/* No message contains itself, directly or not, so that reading and freeing are bounded by the
 * schema; the limits above hold; enum values carry their type's prefix. LS_EINVAL with the chain
 * of fields otherwise. For start-up and tests. */
enum ls_err ls_msg_check_schema(const ProtobufCMessageDescriptor *root,
                                struct ls_diag *diag) LS_NODISCARD;

enum ls_msg_unit ls_msg_unit(const ProtobufCMessageDescriptor *descriptor);

/* The descriptor of a message field, NULL for other types. */
const ProtobufCMessageDescriptor *ls_msg_of_field(const ProtobufCFieldDescriptor *field);

/* protobuf-c forgets that a field was declared as a map; protoc's naming of the entry tells. */
bool ls_msg_is_map(const ProtobufCMessageDescriptor *parent, const ProtobufCFieldDescriptor *field);

/* Was the message declared in a proto3 file, so that its scalars have no presence? */
bool ls_msg_is_proto3(const ProtobufCMessageDescriptor *descriptor);

/* Bytes of one element of this type in a message struct. */
size_t ls_msg_type_size(ProtobufCType type);

/* Elements of a repeated field; 0 or 1 for a singular one: is it given? Scalars without presence
 * always are. */
size_t ls_msg_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
/* Element i < ls_msg_count(). */
const void *ls_msg_at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                      size_t i);
/* The same for elements that are messages. */
ProtobufCMessage *ls_msg_sub(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                             size_t i);

/* A zeroed and initialised message on the heap; NULL: out of memory. */
ProtobufCMessage *ls_msg_new(const ProtobufCMessageDescriptor *descriptor) LS_NODISCARD;
/* A deep copy, of the same type; NULL: out of memory. */
void *ls_msg_copy(const void *message) LS_NODISCARD;
/* Marks a singular field as given, whose member has just been written. */
void ls_msg_set_given(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
/* Frees what the field holds; it is then as in a new message. The other members of its oneof go
 * too. */
void ls_msg_clear(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
/* Clears the field in dst and moves src's there; both have the same type. */
void ls_msg_move(ProtobufCMessage *dst, ProtobufCMessage *src,
                 const ProtobufCFieldDescriptor *field);

/* "interleaved" for ORDER_INTERLEAVED, into out of LS_MSG_WORD_MAX bytes; NULL: no such value. */
const char *ls_msg_enum_word(const ProtobufCEnumDescriptor *type, int value, char *out);
bool ls_msg_enum_value(const ProtobufCEnumDescriptor *type, const char *word, int *out_value);

/* A unit's message as one word, into out of LS_MSG_WORD_MAX bytes. Returns out. */
const char *ls_msg_format_unit(const ProtobufCMessage *message, char *out);
/* Shortest decimal form that reads back equal; finite values only. Returns out, of 32 bytes. */
const char *ls_msg_format_double(double value, char *out);

/* One scalar written as text, into out of ls_msg_type_size() bytes: numbers, true and false, enum
 * words, base64 for bytes; strings are copied as they are. For unit messages the message is
 * created. Strings and messages are then the caller's. diag says what was expected instead. */
enum ls_err ls_msg_parse(const ProtobufCFieldDescriptor *field, struct ls_bytes text, void *out,
                         struct ls_diag *diag) LS_NODISCARD;

/* What ls_msg_parse() takes: "a whole number", "one of abort, continue", "a duration such as 10s".
 * Returns out, of LS_MSG_EXPECTED_MAX bytes. */
#define LS_MSG_EXPECTED_MAX 256u
const char *ls_msg_expected(const ProtobufCFieldDescriptor *field, char *out);

/* A short, printable view of text for messages: at most 40 bytes, whole characters, no controls,
 * "..." where it was cut. Returns out, of LS_EXCERPT_MAX bytes. */
#define LS_EXCERPT_MAX 48u
const char *ls_excerpt(struct ls_bytes text, char *out);

#endif
