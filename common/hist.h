/* common/hist.h - latency histogram: record, merge, query.
 *
 * Values are nanoseconds from 1 ns to one hour, in the layout that HdrHistogram gives lowest 1,
 * highest 3.6e12 and three significant digits (http://hdrhistogram.org): 2048 sub-buckets, half of
 * them used from the second octave on. A bucket is at most 0.1 % wide, so a quantile is never low
 * and at most 0.1 % high. The exact minimum and maximum are kept aside. Recording does not
 * allocate, lock or fail: a value above the range is recorded as the range's end and counted as
 * clipped, so that it shows. One thread at a time; agent/load/recorder.h hands over.
 */
#ifndef LS_COMMON_HIST_H
#define LS_COMMON_HIST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"
#include "common/err.h"

#define LS_HIST_SUB_BUCKETS 2048
#define LS_HIST_LEN         33792 /* counters: (32 octaves + 1) x 1024 */
#define LS_HIST_MAX_NS      INT64_C(3600000000000)

struct ls_hist;

/* LS_ENOMEM. On LS_OK the caller owns *out_hist. */
enum ls_err ls_hist_create(struct ls_hist **out_hist) LS_NODISCARD;
void ls_hist_destroy(struct ls_hist *hist); /* NULL is fine */
void ls_hist_reset(struct ls_hist *hist);   /* costs only what was touched */

/* value_ns < 0 counts as 0. */
void ls_hist_record(struct ls_hist *hist, int64_t value_ns);
void ls_hist_record_n(struct ls_hist *hist, int64_t value_ns, uint64_t n);

/* dst += src, counter by counter; the result is the histogram of the union. */
void ls_hist_merge(struct ls_hist *dst, const struct ls_hist *src);
bool ls_hist_equal(const struct ls_hist *a, const struct ls_hist *b);

uint64_t ls_hist_count(const struct ls_hist *hist);
uint64_t ls_hist_clipped(const struct ls_hist *hist);
int64_t ls_hist_min(const struct ls_hist *hist); /* exact; 0 if nothing was recorded */
int64_t ls_hist_max(const struct ls_hist *hist); /* exact, even when clipped */

/* The highest value of the bucket that holds the sample of rank ceil(q x count), at least 1; q in
 * [0, 1]. Never above the exact maximum. 0 if nothing was recorded. */
int64_t ls_hist_quantile(const struct ls_hist *hist, double q);

/* How many values are above value_ns, of buckets that are wholly above it. */
uint64_t ls_hist_above(const struct ls_hist *hist, int64_t value_ns);

/* From the buckets' middles, as HdrHistogram does, so that anyone can recompute them. */
double ls_hist_mean(const struct ls_hist *hist);
double ls_hist_stdev(const struct ls_hist *hist);

/* For codecs: counter i in [0, LS_HIST_LEN), the values it stands for, and the touched range. */
uint64_t ls_hist_count_at(const struct ls_hist *hist, uint32_t i);
uint32_t ls_hist_index(int64_t value_ns);
int64_t ls_hist_lowest_at(uint32_t i);
int64_t ls_hist_highest_at(uint32_t i);
void ls_hist_range(const struct ls_hist *hist, uint32_t *out_first, uint32_t *out_end);

#endif
