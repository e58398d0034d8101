/* common/hist_impl.h - the inside of a histogram, for hist.c and its two codecs only. */
#ifndef LS_COMMON_HIST_IMPL_H
#define LS_COMMON_HIST_IMPL_H

#include <endian.h>
#include <string.h>

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

/* Eight bytes at a time, as a number whose lowest byte is the first one. */
static inline uint64_t ls_hist_eight(const unsigned char *in)
{
    uint64_t x;

    (void)memcpy(&x, in, sizeof(x));
    return le64toh(x);
}

static inline void ls_hist_put_eight(unsigned char *out, uint64_t x)
{
    x = htole64(x);
    (void)memcpy(out, &x, sizeof(x));
}

/* How many of the eight, from the lowest one, are neither zero nor as large as limit, a power of
 * two. */
static inline uint32_t ls_hist_small(uint64_t x, uint64_t limit)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t zero = (x - ones) & ~x & ones << 7; /* exact up to the first one */
    uint64_t other = (x & (0x100 - limit) * ones) | zero;

    return other == 0 ? 8 : LS_LOW_BIT(other) / 8;
}

#endif
