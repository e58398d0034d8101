/* coordinator/plan/load_law.h - what follows from a workload's arrival law, think time and
 * lifetime.
 *
 * For checked and completed workloads, but for the two functions that say otherwise.
 */
#ifndef LS_COORDINATOR_PLAN_LOAD_LAW_H
#define LS_COORDINATOR_PLAN_LOAD_LAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/plan.pb-c.h"

#define COORD_LAW_TEXT_MAX 160u

/* The profile of a search: so many rates, up and down, and bursts with a rest around each. Which:
 * run/profile.h. */
#define COORD_PROFILE_STEP_COUNT  9
#define COORD_PROFILE_BURST_COUNT 5
#define COORD_PROFILE_BURST_NS    INT64_C(250000000)
#define COORD_PROFILE_REST_NS     INT64_C(1250000000)

/* Requests are due at instants of their own, whatever the server does. */
bool coord_load_is_open(const Ls__Workload *workload);
bool coord_load_is_fixed_count(const Ls__Workload *workload);
/* The rate is the same all the time, so that the trial has no trend of its own. */
bool coord_load_is_steady(const Ls__Workload *workload);
/* A closed loop that is not always full: waves, think times, connections that are replaced. */
bool coord_load_has_gaps(const Ls__Workload *workload);
bool coord_load_is_http2(const Ls__Workload *workload); /* any workload */
/* Requests of one worker that may be due and wait; 0 in a closed loop. */
uint32_t coord_load_queue(const Ls__Workload *workload);
/* Requests, or messages, in flight per connection; of HTTP/2: streams, as planned. */
uint32_t coord_load_pipeline(const Ls__Workload *workload);
/* The rate is what is looked for: a trial is a search of many probes. Any workload. */
bool coord_load_is_search(const Ls__Workload *workload);
/* A trial is a climb of many rungs. Any workload. */
bool coord_load_is_ladder(const Ls__Workload *workload);
/* How long all probes, or rungs, of such a workload may take together; without either: 0. */
int64_t coord_load_parts_ns(const Ls__Workload *workload);
/* How long a search's profile takes; 0: it has none. Any workload. */
int64_t coord_load_profile_ns(const Ls__Workload *workload);
int64_t coord_load_default_warmup_ns(const Ls__Workload *workload); /* any workload */

/* Length of the measure window: as given, all steps, or the default. Any workload; 0 if it cannot
 * be known. */
int64_t coord_load_measure_ns(const Ls__Workload *workload);
/* Arrivals per second: mean over the measure window, and during the warm-up. Any workload; 0 if it
 * has no open law, or not one that is complete. */
double coord_load_offered_per_s(const Ls__Workload *workload);
double coord_load_warmup_per_s(const Ls__Workload *workload);

/* As given, or by default: windows are parts of the budget. Any search. */
int64_t coord_capacity_budget_ns(const Ls__Capacity *capacity);
int64_t coord_capacity_probe_ns(const Ls__Capacity *capacity);
int64_t coord_capacity_longest_ns(const Ls__Capacity *capacity);
int64_t coord_capacity_confirm_ns(const Ls__Capacity *capacity);

/* What a search holds the load to, one by one, errors last. out has room for
 * COORD_LOAD_LIMITS_MAX. Returns how many there are. */
#define COORD_LOAD_LIMITS_MAX 5u
struct coord_load_limit {
    char name[56];        /* "p99 10ms", "errors 0.1%" */
    int64_t limit_ns;     /* INT64_MAX: none, only what went wrong breaks it */
    double allowed_share; /* of the requests that may break it */
};
size_t coord_load_limits(const Ls__CapacityLimits *limits, struct coord_load_limit *out);

/* "closed 50000 requests", "poisson 20k/s", "ramp 1k/s to 9k/s in 5s". Returns out. */
const char *coord_load_describe(const Ls__Workload *workload, char out[COORD_LAW_TEXT_MAX]);
const char *coord_load_pacing(const Ls__Workload *workload); /* "precise", "frugal" */
/* "exponential 50ms"; "100 requests or 10s"; "": none. Return out. */
const char *coord_load_think(const Ls__Workload *workload, char out[COORD_LAW_TEXT_MAX]);
const char *coord_load_lifetime(const Ls__Workload *workload, char out[COORD_LAW_TEXT_MAX]);
const char *coord_load_min_wait(const Ls__Workload *workload, char out[COORD_LAW_TEXT_MAX]);

#endif
