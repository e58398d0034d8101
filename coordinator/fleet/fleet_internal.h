/* coordinator/fleet/fleet_internal.h - shared by fleet.c (life, commands, local processes) and
 * fleet_enrol.c (what the listener calls), by nobody else. */
#ifndef LS_COORDINATOR_FLEET_FLEET_INTERNAL_H
#define LS_COORDINATOR_FLEET_FLEET_INTERNAL_H

#include <ev.h>

#include "common/transport.h"
#include "coordinator/fleet/fleet.h"
#include "coordinator/fleet/seats.h"

#define COORD_REFUSED_MAX 16u

struct slot {
    struct coord_agent agent;
    ev_io ended; /* on the local process's pidfd */
    struct coord_fleet *fleet;
};

/* One agent's session, as the listener knows it. It lives as long as the fleet, for the listener
 * may call for it at any time; a place that was lost or taken over has left it behind. */
struct coord_session {
    struct coord_session *next;
    struct coord_agent *agent; /* NULL: left behind */
    struct ls_peer *peer;
    char name[COORD_AGENT_NAME_MAX + 1];
    char why[480]; /* it was left behind */
};

/* Who was turned away, as far as people have been told. */
struct coord_refused {
    struct {
        char who[160];
        char why[240];
    } items[COORD_REFUSED_MAX];
    unsigned count;
};

struct coord_fleet {
    struct ev_loop *loop;
    struct coord_fleet_env env;
    struct ls_listener *listener;   /* owned */
    struct coord_clocks *clocks;    /* owned; NULL: the sessions' exchanges have to do */
    struct slot *slots;             /* owned; they do not move */
    uint32_t *names;                /* owned; a number for the name in each slot, 0: it is free */
    struct coord_agent **order;     /* owned; by index */
    struct coord_session *sessions; /* owned */
    struct coord_seats seats;
    uint32_t count;
    uint32_t awaited; /* index of somebody who was missing when it was last asked */
    int64_t swept_ns;
    bool local;
    bool bound;
    bool leaving;
    struct coord_refused refused;
    struct ls_cpuset allowed; /* of this process at the beginning; agents begin with it */
    char program[4200];
    char folder[256]; /* private; "" if there is none */
    char url[300];
};

extern const struct ls_listener_env coord_fleet_callbacks; /* but for ctx, which is the fleet */

/* "192.0.2.7:40312" and "[2001:db8::7]:40312" without their ports; "" for "local". */
void coord_take_host(const char *address, char *out, size_t out_bytes);
/* Fills what an agent says of itself, and where it is, into an agent; a copy. False: no memory,
 * nothing is changed. What it held of that is freed. */
bool coord_agent_introduce(struct coord_agent *agent, const struct ls_peer *peer,
                           const Ls__Hello *hello);

/* The agent's name has changed. */
void coord_fleet_note_name(struct coord_fleet *fleet, const struct coord_agent *agent);

/* Takes a refusal down, as ls_listener_env.refused hears of it. True: it is news, in *out_item; an
 * agent that comes again and again is news once, and so are more of them than are kept. */
bool coord_refused_note(struct coord_refused *refused, const char *address, const char *agent,
                        const char *text, unsigned *out_item);

/* The agent's session is over, and with it its part of the trial. */
void coord_fleet_lose(struct coord_fleet *fleet, struct coord_agent *agent, const char *fmt, ...)
    LS_PRINTF(3, 4);
/* The run has not begun: anybody may have the place instead. */
void coord_fleet_vacate(struct coord_fleet *fleet, struct coord_agent *agent);
/* Tells a session that was left behind to begin anew. */
void coord_session_dismiss(struct coord_session *session, const char *why);

#endif
