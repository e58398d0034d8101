/* common/hist_codec.h - a histogram's bounded wire form: lossless, sparse, checked.
 *
 * version byte, flags byte (bit 0: deflated), varints: count, min, max, clipped, number of runs;
 * then per run a gap and the counters of consecutive non-zero buckets. Deflated (zlib, level 1)
 * when it is large and that is smaller. Decoding takes untrusted bytes: every length, index and sum
 * is checked, and the counters must add up to count.
 */
#ifndef LS_COMMON_HIST_CODEC_H
#define LS_COMMON_HIST_CODEC_H

#include "common/hist_sparse.h"

#define LS_HIST_WIRE_MAX (512u << 10) /* no encoding is larger, no larger one is decoded */

/* LS_ENOMEM. On LS_OK the caller frees *out_data. An empty histogram encodes to a few bytes. */
enum ls_err ls_hist_encode(const struct ls_hist *hist, unsigned char **out_data,
                           size_t *out_len) LS_NODISCARD;

/* Replaces what out held; it is empty after a failure. LS_EPROTO (diag says what), LS_ENOMEM. */
enum ls_err ls_hist_decode(struct ls_bytes in, struct ls_hist_sparse *out,
                           struct ls_diag *diag) LS_NODISCARD;

#endif
