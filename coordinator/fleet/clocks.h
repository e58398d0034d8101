/* coordinator/fleet/clocks.h - what is known of the agents' clocks, and the socket for the
 * exchanges that do not go through the sessions (common/clock_udp.h).
 *
 * One socket asks all agents, from the address that the coordinator listens at and the same port
 * number where that is free. Everything happens on the event loop's thread.
 */
#ifndef LS_COORDINATOR_FLEET_CLOCKS_H
#define LS_COORDINATOR_FLEET_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock_udp.h"
#include "common/err.h"
#include "common/offset.h"
#include "proto/wire.pb-c.h"

/* An agent's clock as of some instant of ours. */
struct coord_clock {
    int64_t offset_ns; /* the agent's minus ours */
    int64_t error_ns;
    const char *source; /* "udp", "session": whose exchange decides */
    int64_t round_trip_ns;
    double drift_ppm;
    double drift_error_ppm; /* 0: not watched for long enough */
    uint32_t steps;
    int64_t stepped_ns;
    uint64_t exchanges;
};

/* The tighter of the two bounds decides. Where they contradict each other, as for a moment after a
 * clock was set, it is the newer. False, with *out untouched: nothing is known of either. */
bool coord_clock_at(const struct ls_offset *session, const struct ls_offset *udp, int64_t at_ns,
                    struct coord_clock *out);
/* Of the same, what each report is put on our clock by. */
bool coord_clock_offset(const struct ls_offset *session, const struct ls_offset *udp, int64_t at_ns,
                        int64_t *out_offset_ns, int64_t *out_error_ns);

/* The agent's wall clock minus ours: clock's offset, and each side's wall time at the zero of its
 * own monotonic clock. At most COORD_WALL_MAX_NS either way, whatever an agent has said. */
#define COORD_WALL_MAX_NS (INT64_C(1) << 53) /* 104 days */
int64_t coord_clock_wall(const struct coord_clock *clock, int64_t agent_zero_ns,
                         int64_t own_zero_ns);

struct coord_clocks;

/* An exchange with that agent has ended; received_ns and replied_ns are of its clock. */
typedef void (*coord_clocks_answer_fn)(void *ctx, uint32_t agent, int64_t sent_ns,
                                       int64_t received_ns, int64_t replied_ns,
                                       int64_t answered_ns);

/* url: what the coordinator listens at, with its port. LS_EIO: there is no such socket; the
 * sessions have to do. */
enum ls_err coord_clocks_create(void *ev_loop, const char *url, uint32_t agents,
                                coord_clocks_answer_fn answer, void *ctx,
                                struct coord_clocks **out_clocks,
                                struct ls_diag *diag) LS_NODISCARD;
void coord_clocks_destroy(struct coord_clocks *clocks); /* NULL is fine */

/* A new process of that agent: fills out, whose strings and key live until the next call for the
 * same agent. LS_EIO: no random numbers. */
enum ls_err coord_clocks_invite(struct coord_clocks *clocks, uint32_t agent, Ls__ClockUdp *out,
                                struct ls_diag *diag) LS_NODISCARD;
/* One exchange, if the agent has knocked. */
void coord_clocks_probe(struct coord_clocks *clocks, uint32_t agent);

#endif
