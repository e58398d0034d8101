/* common/hist_log.h - histograms in the HdrHistogram log format, version 1.3, V2 compressed
 * payload, as HistogramLogProcessor, hdr-histogram-js and others read them.
 *
 * The payload is a zlib stream, as it has to be, but of stored blocks: about half as large again as
 * a compressed one, in a tenth of the time, which the machine under test may have to share. */
#ifndef LS_COMMON_HIST_LOG_H
#define LS_COMMON_HIST_LOG_H

#include <stdio.h>

#include "common/buf.h"
#include "common/hist_sparse.h"

/* Comment lines, the start time (wall clock) and the legend. LS_EIO. */
enum ls_err ls_hist_log_begin(FILE *file, const char *comment, int64_t start_wall_ns,
                              struct ls_diag *diag) LS_NODISCARD;
/* One line: tag (NULL or "": none; letters, digits, '_', '-', '.'), start and length in seconds
 * relative to the start time, exact maximum in milliseconds, payload. */
enum ls_err ls_hist_log_write(FILE *file, const char *tag, int64_t start_ns, int64_t length_ns,
                              const struct ls_hist *hist, struct ls_diag *diag) LS_NODISCARD;
/* The same of a sparse one, appended to out. LS_ENOMEM. */
enum ls_err ls_hist_log_add_sparse(struct ls_buf *out, const char *tag, int64_t start_ns,
                                   int64_t length_ns, const struct ls_hist_sparse *hist,
                                   struct ls_diag *diag) LS_NODISCARD;

/* Reads the next line of tag (NULL: any) into hist (reset first). LS_EAGAIN: end of file.
 * LS_EPROTO: not in this format, or another layout than ours. The exact maximum comes from the
 * line, the exact minimum is lost. */
enum ls_err ls_hist_log_read(FILE *file, const char *tag, struct ls_hist *hist,
                             int64_t *out_start_ns, int64_t *out_length_ns,
                             struct ls_diag *diag) LS_NODISCARD;

/* The next line, whatever its tag, which is copied to out_tag (empty: none; cut to fit). Errors as
 * above. */
enum ls_err ls_hist_log_next(FILE *file, struct ls_hist *hist, char *out_tag, size_t tag_bytes,
                             int64_t *out_start_ns, int64_t *out_length_ns,
                             struct ls_diag *diag) LS_NODISCARD;

#endif
