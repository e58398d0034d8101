/* coordinator/result/latency.h - which figures of a histogram are published. */
#ifndef LS_COORDINATOR_RESULT_LATENCY_H
#define LS_COORDINATOR_RESULT_LATENCY_H

#include "common/hist.h"
#include "proto/result.pb-c.h"

void coord_latency_fill(Ls__Latency *latency, const struct ls_hist *hist);

#endif
