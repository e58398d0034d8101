/* tests/bench/fleet_agents.h - many client agents in one thread: TLS sockets on one epoll, and as
 * much of a session (common/transport.h) and of a trial as a coordinator can see of an agent.
 *
 * They are ready, armed and over as soon as they are asked to: what takes time is the coordinator.
 * From the agreed start on each reports an interval a second, all at the same instant as real ones
 * do, with three histograms in it. The last report waits for the caller's word.
 */
#ifndef LS_TESTS_BENCH_FLEET_AGENTS_H
#define LS_TESTS_BENCH_FLEET_AGENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define FLEET_REQUESTS 12000u /* of an agent in each second */

struct fleet;

struct fleet_state {
    uint32_t welcomed; /* agents that have a session */
    uint32_t lost;     /* connections that ended before the coordinator said BYE */
    uint32_t acked;    /* agents of which everything said so far is stored */
    uint32_t left;     /* agents that were told BYE */
    uint32_t attempts; /* of starts, as the coordinator counts them */
    int64_t asked_ns;  /* the first PREPARE came; 0: not yet */
    int64_t armed_ns;  /* the last ARMED was acknowledged */
    int64_t start_ns;  /* agreed; INT64_MAX: not yet */
    uint32_t reported; /* intervals that each has sent */
    uint64_t probes;   /* clock exchanges answered */
    uint32_t report_bytes;
    char trouble[200];
};

/* Issues a certificate for each. seconds: intervals that each reports. */
enum ls_err fleet_create(uint32_t agents, uint32_t seconds, struct fleet **out,
                         struct ls_diag *diag) LS_NODISCARD;
void fleet_destroy(struct fleet *fleet); /* NULL is fine */

/* The coordinator's keys, as `lockstep pki issue` would have written them. */
enum ls_err fleet_write_keys(const struct fleet *fleet, const char *dir,
                             struct ls_diag *diag) LS_NODISCARD;
/* From now on they connect, to a port on loopback; so many at a time as a listener's queue takes.
 */
void fleet_dial(struct fleet *fleet, uint16_t port);
/* The last reports may go out: intervals are what was measured. */
void fleet_end(struct fleet *fleet);
/* Waits for events, 50 ms at most, and does what is due. */
void fleet_turn(struct fleet *fleet);
const struct fleet_state *fleet_look(const struct fleet *fleet);

#endif
