/* coordinator/result/messages.h - the counters of WebSocket's messages: sums, differences, books.
 */
#ifndef LS_COORDINATOR_RESULT_MESSAGES_H
#define LS_COORDINATOR_RESULT_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.pb-c.h"

/* dst += src, without received_per_s; NULL src: nothing. */
void coord_messages_add(Ls__Messages *dst, const Ls__Messages *src);

/* Name of the first counter that differs, NULL if all are equal; NULL messages are all zero. */
const char *coord_messages_differ(const Ls__Messages *a, const Ls__Messages *b, uint64_t *out_a,
                                  uint64_t *out_b);

/* expected = received + lost. Otherwise false, and out says by how much. NULL balances. */
bool coord_messages_balance(const Ls__Messages *messages, char *out, size_t out_bytes);

/* "3 lost, 1 duplicated"; "" if nothing is wrong. Returns out. */
const char *coord_messages_describe(const Ls__Messages *messages, char *out, size_t out_bytes);

#endif
