/* coordinator/result/report_live.h - what a run has found so far, for its live page. */
#ifndef LS_COORDINATOR_RESULT_REPORT_LIVE_H
#define LS_COORDINATOR_RESULT_REPORT_LIVE_H

#include "common/buf.h"
#include "proto/result.pb-c.h"

/* Appends {"targets", "trials", "dots" and "agents" of the newest trials, "workloads": [{"name",
 * "load", "summary", "ratios", "comparisons", "notes", "bars"}], "verdict", "reasons"}: the tables,
 * sentences and figures of the report. */
void coord_report_live(const Ls__Result *result, struct ls_buf *out);

#endif
