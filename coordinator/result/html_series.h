/* coordinator/result/html_series.h - what happened over time, small enough for a page: JSON for
 * report_html.c.
 *
 * The rule, which the page states, is that of series.h once more: what the result has is divided
 * into at most so many buckets of equally many. Heat maps are made of the histograms themselves,
 * added. Values have four significant digits.
 */
#ifndef LS_COORDINATOR_RESULT_HTML_SERIES_H
#define LS_COORDINATOR_RESULT_HTML_SERIES_H

#include "common/buf.h"
#include "common/hist.h"
#include "proto/result.pb-c.h"

/* Four significant digits. */
void coord_html_number(struct ls_buf *out, double value);

/* {"every": intervals of a bucket, "kept": intervals of a point of the result, "at": [s], "rate":
 * [], "low": [], "high": [], "offered": [], "errors": [], "p50": [ns], "p99": [], "max": []}; no
 * low and high where every is 1, no offered in a closed loop. */
void coord_html_intervals(const Ls__Trial *trial, unsigned points, struct ls_buf *out);
/* {"every": ..., "at": [s], "cores": [], "rss": [bytes], "switches": [per s]} */
void coord_html_samples(const Ls__Trial *trial, unsigned points, struct ls_buf *out);

/* Reads the trial's merged.hlog below dir once, or coarse.hlog where the trial was long: adds all
 * of it to total, and appends {"every": ..., "at": [s], "columns": [[row, count, count ...]]}, rows
 * being those of heat.h. LS_EIO, LS_EINVAL, LS_EPROTO, LS_ENOMEM: nothing was appended, but total
 * may hold a part. */
enum ls_err coord_html_log(const char *dir, const Ls__Trial *trial, unsigned points,
                           struct ls_hist *total, struct ls_buf *out,
                           struct ls_diag *diag) LS_NODISCARD;

/* Points of a curve over 1 / (1 - p): [[1, ...], [value, ...]], 12 a decade, to the maximum. */
void coord_html_quantiles(const struct ls_hist *hist, struct ls_buf *out);

#endif
