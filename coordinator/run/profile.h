/* coordinator/run/profile.h - what happens beyond a capacity, read from the intervals of two
 * trials: rates up and down again, and bursts. A request counts where it ended. Pure. */
#ifndef LS_COORDINATOR_RUN_PROFILE_H
#define LS_COORDINATOR_RUN_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/plan/load_law.h"
#include "proto/result.pb-c.h"

#define COORD_PROFILE_REST 0.5 /* of the capacity, around bursts */

struct coord_profile_spec {
    double capacity_per_s;
    uint32_t limit;       /* the one that decides, among the intervals' */
    double allowed_share; /* of the requests that may break it */
    int64_t step_ns;
};

/* Of the capacity: 0.5, 0.8, 1, 1.2, 1.5, 1.2, 1, 0.8, 0.5. i < COORD_PROFILE_STEP_COUNT. */
double coord_profile_step(size_t i);
/* Of the capacity: 1.1, 1.25, 1.5, 2, 3. i < COORD_PROFILE_BURST_COUNT. */
double coord_profile_burst(size_t i);

/* Steps, hysteresis and recovery: by the rates above from the measure window's start on. The limits
 * hold again from when on no more than allowed of all that is left breaks them, if that is at least
 * half of the time after the fall below the capacity. False: no memory. */
bool coord_profile_read_steps(const struct coord_profile_spec *spec, const Ls__Trial *trial,
                              Ls__CapacityProfile *out);
/* Bursts, each after a rest: what broke the limit in one and in the rest after it, which its
 * backlog drains into, out of what was due in it. False: no memory. */
bool coord_profile_read_bursts(const struct coord_profile_spec *spec, const Ls__Trial *trial,
                               Ls__CapacityProfile *out);

#endif
