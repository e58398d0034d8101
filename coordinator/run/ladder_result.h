/* coordinator/run/ladder_result.h - what the rungs of a ladder come to. Pure. */
#ifndef LS_COORDINATOR_RUN_LADDER_RESULT_H
#define LS_COORDINATOR_RUN_LADDER_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"
#include "proto/result.pb-c.h"

/* Adds the knee and the scalability law to a result that has neither, as far as its useful rungs
 * give them; seed is for the law's intervals. *out_useful: how many of those there are. False: out
 * of memory. */
bool coord_ladder_result_end(Ls__LadderResult *result, uint64_t seed,
                             size_t *out_useful) LS_NODISCARD;

#endif
