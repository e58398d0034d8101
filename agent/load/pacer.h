/* agent/load/pacer.h - how a worker waits for an instant: asleep for the long part, then spinning.
 *
 * A timed sleep ends 25 to 80 us late and costs 20 us of CPU by itself, so the last
 * AGENT_PACER_SPIN_NS before something that is due to the microsecond are spent looking at the
 * clock and at the sockets in turn, unless the pacer is frugal. Pure: time is an argument, and the
 * caller does the waiting.
 */
#ifndef LS_AGENT_LOAD_PACER_H
#define LS_AGENT_LOAD_PACER_H

#include <stdbool.h>
#include <stdint.h>

#define AGENT_PACER_SPIN_NS INT64_C(60000)
#define AGENT_NEVER_NS      INT64_MAX /* no such instant */

enum agent_pace {
    AGENT_PACE_ACT,  /* something is due: do it, look at the sockets without waiting */
    AGENT_PACE_SPIN, /* look at the sockets without waiting, ask again */
    AGENT_PACE_WAIT  /* wait for the sockets, until pacer.until_ns at the latest */
};

struct agent_pacer {
    bool frugal;        /* the caller's choice: asleep until the very instant, without a spin */
    int64_t until_ns;   /* of the last AGENT_PACE_WAIT */
    int64_t spun_ns;    /* spent spinning in vain so far */
    int64_t spin_at_ns; /* when the spin under way was last looked at; 0: none */
    uint64_t events;    /* the caller's count of events at that time */
};

/* due_ns: the next instant that counts to the microsecond; coarse_ns: the next one that may be
 * late by a sleep's error. events: a number that changes when the sockets had something to do, so
 * that work done during a spin is not counted as spinning. */
enum agent_pace agent_pacer_next(struct agent_pacer *pacer, int64_t now_ns, int64_t due_ns,
                                 int64_t coarse_ns, uint64_t events);

#endif
