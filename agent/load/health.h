/* agent/load/health.h - what a worker's thread costs, lap by lap.
 *
 * Opened, read and closed on the worker's own thread. What the kernel does not show reads as 0.
 */
#ifndef LS_AGENT_LOAD_HEALTH_H
#define LS_AGENT_LOAD_HEALTH_H

#include "agent/load/load.h"

struct agent_health {
    int schedstat_fd;      /* owned; -1: the kernel has none */
    struct load_health at; /* totals of the thread at the last lap; window_ns: the instant */
};

void agent_health_init(struct agent_health *health);
void agent_health_fini(struct agent_health *health);

/* Starts a lap at now_ns. spin_ns: the pacer's total so far. */
void agent_health_start(struct agent_health *health, int64_t now_ns, int64_t spin_ns);
/* Adds the lap's costs to *into and starts the next one. */
void agent_health_lap(struct agent_health *health, int64_t now_ns, int64_t spin_ns,
                      struct load_health *into);

void load_health_add(struct load_health *dst, const struct load_health *src);

/* The second number of "run_ns wait_ns slices"; 0 if there is none. */
int64_t agent_schedstat_wait_ns(const char *text);

#endif
