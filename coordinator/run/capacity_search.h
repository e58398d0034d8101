/* coordinator/run/capacity_search.h - the state of a search, and what its two halves ask of each
 * other: capacity.c narrows down where the capacity is, capacity_confirm.c sees whether a rate
 * stands. Nobody else includes it. */
#ifndef LS_COORDINATOR_RUN_CAPACITY_SEARCH_H
#define LS_COORDINATOR_RUN_CAPACITY_SEARCH_H

#include "common/attr.h"
#include "coordinator/run/capacity_hosts.h"
#include "coordinator/run/capacity_internal.h"

#define COORD_SEARCH_CONFIRMS_MOST 6u

enum coord_search_stage {
    COORD_STAGE_BRACKET,
    COORD_STAGE_SEARCH,
    COORD_STAGE_CONFIRM,
    COORD_STAGE_ABOVE,
    COORD_STAGE_END,
    COORD_STAGE_DONE
};

struct coord_capacity {
    struct coord_capacity_settings set;
    struct coord_points p;
    enum coord_search_stage stage;
    struct coord_capacity_probe next;
    bool has_next;
    int64_t used_ns;
    double ceiling; /* no rate above this one can be offered: the clients', or most_per_s */
    enum coord_limited_by ceiling_by;
    struct coord_hosts hosts;
    double struck;  /* where these clients were last seen to be the limit; 0: never */
    bool up;        /* the next step goes above the crossing */
    uint32_t looks; /* around a narrow bracket */
    double step;    /* of the bracket's next rate, upwards or downwards */
    uint32_t confirms;
    uint32_t refusals;   /* confirmations that failed, since the last that did not */
    double confirmed;    /* 0: not yet */
    size_t confirmed_at; /* which point that was */
    double refuted;      /* the lowest rate whose confirmation failed since; INFINITY: none */
    double broke_above;  /* the rate above it at which it was last seen broken */
    double end_at;       /* the interval's upper end, when it was looked at once more; 0: never */
    double held_above;   /* where it should have broken in the end, and did not */
    bool unresolved;     /* nothing that was seen is an answer */
    uint32_t deaths;
    uint32_t useless;
    uint32_t disturbed; /* probes in which a client stood still */
    struct coord_capacity_answer answer;
};

/* ---- capacity.c */

/* The window in which that many clusters of requests break the strictest limit if it is just met.
 */
int64_t coord_search_window_ns(const struct coord_capacity *c, double rate_per_s, double tail);
/* Is there time for a probe, and for those confirmations that are still to come? */
bool coord_search_can_afford(const struct coord_capacity *c, int64_t window_ns);
/* The next probe. */
void coord_search_plan(struct coord_capacity *c, enum coord_capacity_kind kind, double rate,
                       int64_t window_ns);
/* The end, and why. */
void coord_search_finish(struct coord_capacity *c, bool settled, const char *fmt, ...)
    LS_PRINTF(3, 4);
/* Up by twos until it breaks, or down by twos until it holds; by less where it must be near. */
void coord_search_bracket(struct coord_capacity *c);
/* Between what holds and what breaks. */
void coord_search_narrow(struct coord_capacity *c);

/* ---- capacity_confirm.c */

/* The window of a confirmation at that rate. */
int64_t coord_search_confirm_ns(const struct coord_capacity *c, double rate);
/* A run of full length at that rate. */
void coord_search_confirm(struct coord_capacity *c, double rate);
/* What follows from it, from the one above it, and from the one at the interval's upper end, each
 * the point at. */
void coord_search_confirmed(struct coord_capacity *c, size_t at);
void coord_search_above(struct coord_capacity *c, size_t at);
void coord_search_end_seen(struct coord_capacity *c, size_t at);
/* Plans a look at the interval's end, if it wants one and there is time. */
bool coord_search_look_at_end(struct coord_capacity *c);
/* What was confirmed is the answer, or the search goes on. */
void coord_search_settle(struct coord_capacity *c);

#endif
