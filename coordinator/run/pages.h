/* coordinator/run/pages.h - a plan's tables, filled in from what was measured: in the shape of the
 * page that the plan follows, with the page's faults named where they are there again. */
#ifndef LS_COORDINATOR_RUN_PAGES_H
#define LS_COORDINATOR_RUN_PAGES_H

#include "common/err.h"
#include "proto/plan.pb-c.h"
#include "proto/result.pb-c.h"

/* Replaces result->pages. LS_ENOMEM; there are none then. */
enum ls_err coord_pages_build(Ls__Result *result, const Ls__Plan *plan) LS_NODISCARD;

/* Mean size of an answer's body, as the workload expects it (files relative to base_dir, and
 * placeholders as they are written); 0 where it does not say. */
double coord_pages_body_bytes(const Ls__Workload *workload, const char *base_dir);

#endif
