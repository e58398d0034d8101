/* common/hist_impl.h - the inside of a histogram, for hist.c and its two codecs only. */
#ifndef LS_COMMON_HIST_IMPL_H
#define LS_COMMON_HIST_IMPL_H

#include "common/hist.h"

struct ls_hist {
    uint64_t count; /* sum of counts[] */
    uint64_t clipped;
    int64_t min_ns; /* INT64_MAX while empty */
    int64_t max_ns; /* -1 while empty; beyond the range if something was clipped */
    uint64_t counts[LS_HIST_LEN];
};

/* Non-zero counters lie in [index(min_ns), index(max_ns)]: the extremes are the touched range, and
 * recording keeps no other. */

#endif
