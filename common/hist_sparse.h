/* common/hist_sparse.h - two forms of a histogram, for who takes in those of thousands of agents.
 *
 * ls_hist_sparse is what one report holds: the buckets that are not empty, in order. It is read
 * from the wire once (hist_codec.h), and added to as many sums as want it.
 * ls_hist_narrow is the sum over a trial, one for each agent and series: counters are as wide as
 * they have to be, and are there once they are not zero. Both are exact. One thread at a time.
 */
#ifndef LS_COMMON_HIST_SPARSE_H
#define LS_COMMON_HIST_SPARSE_H

#include "common/hist.h"

#define LS_HIST_SPARSE_CHUNK 8u /* counters that are read together */

struct ls_hist_sparse {
    uint16_t *indexes; /* owned; rising. Room for all buckets and a chunk, which costs what is
                          touched; beyond len there is anything */
    uint64_t *counts;  /* owned; none is 0 */
    uint32_t len;
    uint64_t count; /* sum of counts */
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
/* LS_ENOMEM; LS_ERANGE: more values than a histogram log can tell of. dst is then unchanged. */
enum ls_err ls_hist_narrow_add(struct ls_hist_narrow *dst,
                               const struct ls_hist_sparse *src) LS_NODISCARD;
void ls_hist_narrow_add_to(const struct ls_hist_narrow *src, struct ls_hist *dst);
uint64_t ls_hist_narrow_count(const struct ls_hist_narrow *narrow);
size_t ls_hist_narrow_bytes(const struct ls_hist_narrow *narrow); /* of memory that it has */

#endif
