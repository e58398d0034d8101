/* coordinator/result/compare_internal.h - what the files compare*.c share. */
#ifndef LS_COORDINATOR_RESULT_COMPARE_INTERNAL_H
#define LS_COORDINATOR_RESULT_COMPARE_INTERNAL_H

#include <stdbool.h>

#include "common/buf.h"
#include "proto/result.pb-c.h"

#define COORD_COMPARE_TEXT_MAX (1u << 20) /* bytes of one field, as text */

/* Each appends what differs to to->differences. False: out of memory. */
bool coord_compare_hosts(Ls__Comparison *to, const Ls__Result *a, const Ls__Result *b);
/* Of two trials of the same workload: grave where the figures are of different loads. */
bool coord_compare_loads(Ls__Comparison *to, const Ls__Trial *a, const Ls__Trial *b);
bool coord_compare_programs(Ls__Comparison *to, const Ls__Trial *a, const Ls__Trial *b);

#endif
