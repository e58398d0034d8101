/* coordinator/result/latency.h - which figures of a histogram, or of a few values, are published.
 */
#ifndef LS_COORDINATOR_RESULT_LATENCY_H
#define LS_COORDINATOR_RESULT_LATENCY_H

#include "common/hist.h"
#include "proto/result.pb-c.h"

void coord_latency_fill(Ls__Latency *latency, const struct ls_hist *hist);
/* n >= 1 values, which are sorted. */
void coord_spread_fill(Ls__Spread *spread, double *values, size_t n);

#endif
