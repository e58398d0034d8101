/* coordinator/plan/plan_quick.h - any plan, in seconds a row: a first look, not a measurement. */
#ifndef LS_COORDINATOR_PLAN_PLAN_QUICK_H
#define LS_COORDINATOR_PLAN_PLAN_QUICK_H

#include <stdbool.h>

#include "proto/plan.pb-c.h"

/* Before the check and before --set, which may say otherwise: one repetition, nothing discarded,
 * two seconds of warm-up at most, a tenth of each window (2 s to 5 s) and of each fixed count (2000
 * at least), ten runs of a process behind one. Steps and traces keep their length. False: out of
 * memory. */
bool coord_plan_quick(Ls__Plan *plan);

#endif
