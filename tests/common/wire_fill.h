/* tests/common/wire_fill.h - envelopes with every field of a body set, found by the descriptors. */
#ifndef LS_TESTS_COMMON_WIRE_FILL_H
#define LS_TESTS_COMMON_WIRE_FILL_H

#include "common/transport_impl.h"

/* body: a field of Envelope's oneof. Every field of it has a value of its own; of a oneof the first
 * member is set, a list has two elements. seq is used if the body is numbered. The caller frees
 * with ls_envelope_free(). */
Ls__Envelope *wire_fill(const ProtobufCFieldDescriptor *body, const char *run_id, uint64_t seq);

/* Is it one of Envelope's bodies? */
bool wire_is_body(const ProtobufCFieldDescriptor *field);

#endif
