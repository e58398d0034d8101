/* coordinator/result/wall_clock.h - for people: whose wall clock is far from the coordinator's. */
#ifndef LS_COORDINATOR_RESULT_WALL_CLOCK_H
#define LS_COORDINATOR_RESULT_WALL_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Beyond what is not known of it. Less is what hosts without NTP gain on each other in days. */
#define COORD_WALL_CLOCK_OFF_NS INT64_C(5000000000)

/* offset_ns: the agent's minus the coordinator's. True: it is off; out says by how much, what of
 * and what to do, cut at out_bytes. */
bool coord_wall_clock_is_off(const char *agent, int64_t offset_ns, int64_t error_ns, char *out,
                             size_t out_bytes);

#endif
