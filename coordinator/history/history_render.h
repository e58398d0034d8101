/* coordinator/history/history_render.h - how a history looks. */
#ifndef LS_COORDINATOR_HISTORY_HISTORY_RENDER_H
#define LS_COORDINATOR_HISTORY_HISTORY_RENDER_H

#include "common/buf.h"
#include "coordinator/result/report.h"
#include "proto/result.pb-c.h"

/* A row for each run of each series. LS_ENOMEM. */
enum ls_err coord_history_list(const Ls__History *history, enum coord_report_format format,
                               const struct coord_report_options *options, struct ls_buf *out,
                               struct ls_diag *diag) LS_NODISCARD;
/* A line of blocks and the changes of each series, in words. JSON as above. LS_ENOMEM. */
enum ls_err coord_history_trend(const Ls__History *history, enum coord_report_format format,
                                const struct coord_report_options *options, struct ls_buf *out,
                                struct ls_diag *diag) LS_NODISCARD;
/* The same as one page that needs nothing else: a chart and a table a series. LS_ENOMEM. */
enum ls_err coord_history_page(const Ls__History *history, struct ls_buf *out,
                               struct ls_diag *diag) LS_NODISCARD;

#endif
