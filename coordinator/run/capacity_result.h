/* coordinator/run/capacity_result.h - a search in the result: what it was given, its probes and its
 * answer; and all that follows from those once more. Pure. */
#ifndef LS_COORDINATOR_RUN_CAPACITY_RESULT_H
#define LS_COORDINATOR_RUN_CAPACITY_RESULT_H

#include "common/attr.h"
#include "coordinator/run/capacity.h"
#include "proto/result.pb-c.h"

/* What the search was given, into a new result. False: out of memory. */
bool coord_capacity_result_begin(Ls__CapacityResult *result,
                                 const struct coord_capacity_settings *settings) LS_NODISCARD;
/* What whoever watched a probe says of it. */
struct coord_capacity_watched {
    const char *limited_by; /* as coord_limited_by_name() */
    const char *limited_why;
    int64_t took_ns;
};

/* A probe's trial becomes a probe of the result, and the search takes in what it saw; which changes
 * what all earlier ones are worth. LS_ENOMEM, LS_EINVAL: more requests broke a limit than there
 * were. */
enum ls_err coord_capacity_result_take(Ls__CapacityResult *result, struct coord_capacity *capacity,
                                       const struct coord_capacity_watched *watched,
                                       const Ls__Trial *trial, struct ls_diag *diag) LS_NODISCARD;
/* Its answer, whose limit it was according to the probe that says most, and the knee. False: out of
 * memory. */
bool coord_capacity_result_answer(Ls__CapacityResult *result,
                                  const struct coord_capacity *capacity) LS_NODISCARD;

/* The trial of a probe; NULL: it is not to be had. Owned by whoever calls. */
typedef Ls__Trial *coord_probe_trial(void *ctx, const Ls__CapacityProbe *probe);

/* The same search once more: *out is kept but for what was not asked of trials (server, took_ns,
 * profile). The trials say what was seen; whose limit a probe met is taken from kept, for agents
 * said it. LS_EPROTO: kept has not all that this takes, or contradicts itself. LS_ENOMEM. The
 * caller owns *out. */
enum ls_err coord_capacity_result_again(const Ls__CapacityResult *kept, coord_probe_trial *trial_of,
                                        void *ctx, Ls__CapacityResult **out,
                                        struct ls_diag *diag) LS_NODISCARD;

#endif
