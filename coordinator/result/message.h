/* coordinator/result/message.h - building protobuf-c messages piece by piece.
 *
 * Everything is malloc'ed as the unpacker would have done, so that the generated free_unpacked
 * functions (with allocator NULL) take it apart again. */
#ifndef LS_COORDINATOR_RESULT_MESSAGE_H
#define LS_COORDINATOR_RESULT_MESSAGE_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "common/attr.h"

/* An initialised message; NULL: out of memory. */
void *coord_message_new(const ProtobufCMessageDescriptor *descriptor) LS_NODISCARD;
/* A deep copy; NULL: out of memory. */
void *coord_message_copy(const void *message) LS_NODISCARD;
void coord_message_free(void *message); /* NULL is fine */

/* Replaces a string field by a copy of text (NULL: empty). False: out of memory, unchanged. */
bool coord_message_string(char **field, const char *text) LS_NODISCARD;

/* Appends a copy of text to a repeated string field. False: out of memory, unchanged. */
bool coord_message_add_string(size_t *n, char ***texts, const char *text) LS_NODISCARD;

/* Appends an initialised message to a repeated field: items is &message->things, n is
 * &message->n_things. NULL: out of memory, unchanged. */
void *coord_message_append(size_t *n, void *items,
                           const ProtobufCMessageDescriptor *descriptor) LS_NODISCARD;
/* Frees all elements of a repeated message field and empties it. */
void coord_message_clear(size_t *n, void *items);

#endif
