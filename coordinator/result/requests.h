/* coordinator/result/requests.h - the counters of a phase: sums, differences, the books. */
#ifndef LS_COORDINATOR_RESULT_REQUESTS_H
#define LS_COORDINATOR_RESULT_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.pb-c.h"

/* dst += src; NULL src: nothing. */
void coord_requests_add(Ls__Requests *dst, const Ls__Requests *src);

/* The sum of all outcomes but ok; 0 for NULL. Shed requests were never sent and are not in it. */
uint64_t coord_requests_errors(const Ls__Requests *requests);

/* Name of the first counter that differs, NULL if all are equal; NULL messages are all zero. */
const char *coord_requests_differ(const Ls__Requests *a, const Ls__Requests *b, uint64_t *out_a,
                                  uint64_t *out_b);

/* scheduled = sent + shed and sent = ok + all other outcomes. Otherwise false, and out says by how
 * much. NULL balances. */
bool coord_requests_balance(const Ls__Requests *requests, char *out, size_t out_bytes);

/* "3 bad_status, 1 timeout"; "" if there are no errors. Returns out. */
const char *coord_requests_describe(const Ls__Requests *requests, char *out, size_t out_bytes);

#endif
