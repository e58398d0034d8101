/* coordinator/run/capacity_probe.h - what the trial that was a search's probe says, for the search
 * and for the result. Pure. */
#ifndef LS_COORDINATOR_RUN_CAPACITY_PROBE_H
#define LS_COORDINATOR_RUN_CAPACITY_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attr.h"
#include "coordinator/run/capacity.h"
#include "proto/result.pb-c.h"

/* A batch an interval, into as many; what was shed broke every limit, and is put to the last. */
void coord_capacity_probe_batches(const Ls__Trial *trial, size_t limit_count,
                                  struct coord_capacity_batch *batches);
/* What one client host is good for, by calibration: they are given their shares of the load, and
 * the first that would be at its end decides. 0: it is not known of all. */
double coord_capacity_probe_host_per_s(const Ls__Trial *trial);
/* The reason that weighs most, for people; "". */
const char *coord_capacity_probe_why(const Ls__Trial *trial);
/* Its figures, and who offered it; limit decides what is good, and window_ns is there already.
 * False: out of memory. */
bool coord_capacity_probe_fill(Ls__CapacityProbe *probe, const Ls__Trial *trial,
                               uint32_t limit) LS_NODISCARD;

#endif
