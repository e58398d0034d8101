/* coordinator/plan/plan_expand.h - {plan} and ${NAME} in what a plan starts. */
#ifndef LS_COORDINATOR_PLAN_PLAN_EXPAND_H
#define LS_COORDINATOR_PLAN_PLAN_EXPAND_H

#include "common/err.h"
#include "proto/plan.pb-c.h"

/* In the programs, commands and environments of targets, services and processes, on the host of the
 * coordinator: {plan} becomes the folder base_dir, as an absolute path, ${NAME} that variable of
 * our environment, and ${NAME:-instead} the same or, where it is not set or empty, instead (which
 * may hold {plan}). A ${NAME} that is not set stays as it is, so that whoever starts it can say so.
 * LS_ENOMEM. */
enum ls_err coord_plan_expand(Ls__Plan *plan, const char *base_dir) LS_NODISCARD;

#endif
