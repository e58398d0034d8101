/* common/hist_sparse.h - two forms of a histogram, for who takes in those of thousands of agents.
 *
 * ls_hist_sparse is what one report holds. It is read from the wire once (hist_codec.h), and added
 * to as many sums as want it. Counters are of a byte each, for nearly all of a report's are small;
 * the few larger ones stand apart.
 * ls_hist_narrow is a sum: over a trial, one for each agent and series, or over an interval's
 * agents. Counters are as wide as they have to be, and are there once they are not zero.
 * Both are exact. One thread at a time.
 */
#ifndef LS_COMMON_HIST_SPARSE_H
#define LS_COMMON_HIST_SPARSE_H

#include "common/hist.h"

#define LS_HIST_SPARSE_CHUNK 8u /* counters that are read and written together */

struct ls_hist_run { /* buckets one after another that are not empty */
    uint16_t first;
    uint16_t end;
};

struct ls_hist_sparse {
    uint8_t *low;             /* owned; of each bucket, with room for a chunk beyond the last one */
    uint32_t first;           /* nothing is before it, */
    uint32_t end;             /* nor from here on, low is 0 there; both are 0 while empty */
    struct ls_hist_run *runs; /* owned; rising, and none touches the next */
    uint32_t run_count;
    uint16_t *high;        /* owned; rising: buckets of more than low can hold, where low is 0 */
    uint64_t *high_counts; /* owned; theirs */
    uint32_t high_len;
    uint64_t count; /* sum of all counters */
    uint64_t clipped;
    int64_t min_ns; /* INT64_MAX while empty */
    int64_t max_ns; /* -1 while empty */
};

/* LS_ENOMEM; what was made is for fini all the same. */
enum ls_err ls_hist_sparse_init(struct ls_hist_sparse *sparse) LS_NODISCARD;
void ls_hist_sparse_fini(struct ls_hist_sparse *sparse);  /* also of a zeroed one */
void ls_hist_sparse_clear(struct ls_hist_sparse *sparse); /* empty */
void ls_hist_sparse_add_to(const struct ls_hist_sparse *src, struct ls_hist *dst);
/* As ls_hist_above. */
uint64_t ls_hist_sparse_above(const struct ls_hist_sparse *sparse, int64_t value_ns);

struct ls_hist_narrow;

enum ls_err ls_hist_narrow_create(struct ls_hist_narrow **out_narrow) LS_NODISCARD; /* LS_ENOMEM */
void ls_hist_narrow_destroy(struct ls_hist_narrow *narrow); /* NULL is fine */
void ls_hist_narrow_reset(struct ls_hist_narrow *narrow);   /* empty; keeps its memory */
/* LS_ENOMEM; LS_ERANGE: more values than a histogram log can tell of. dst is then unchanged. */
enum ls_err ls_hist_narrow_add(struct ls_hist_narrow *dst,
                               const struct ls_hist_sparse *src) LS_NODISCARD;
void ls_hist_narrow_add_to(const struct ls_hist_narrow *src, struct ls_hist *dst);
uint64_t ls_hist_narrow_count(const struct ls_hist_narrow *narrow);
size_t ls_hist_narrow_bytes(const struct ls_hist_narrow *narrow); /* of memory that it has */

#endif
