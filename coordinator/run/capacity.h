/* coordinator/run/capacity.h - the search for the largest rate at which limits hold.
 *
 * Rates to try out, what was seen in: no I/O, no clock, so that tests drive whole searches against
 * servers whose capacity is known by formula.
 *
 * What a probe says is not "p99 was 9.8 ms" but how many answers were slower than the limit, out of
 * how many, batch by batch: a share that grows smoothly with the rate, whose scatter the batches
 * tell (batch means; answers that wait in one queue are not independent). Where several probes saw
 * such shares, the logarithm of their odds is fitted by a straight line over the rate, weighted by
 * their scatter: for M/M/1 that is exact in the logarithm of the share (Kleinrock, Queueing Systems
 * I, 3.2), for M/D/1 very nearly (the tail of its waiting time is exponential). The rate at which
 * the line crosses the allowed odds is the capacity, and its interval comes from the fit (Fieller
 * 1954). Where shares jump from nothing to everything, as at a hard ceiling, there is nothing to
 * fit and the bracket is halved until it is narrow enough. Then rates around it are tried up and
 * down: a server that is started anew is not quite the same one, and how often it held says how
 * well its capacity is known (capacity_draws.c).
 *
 *     bracket -> search -> confirm at the rate found, and just above it -> its end -> done
 *
 * The end of an interval that no line gives, but one short probe, is looked at once more for as
 * long as a confirmation, if there is time. Of probes at one rate that contradict each other the
 * longer one counts; one in which a client stood still for longer than a limit is made again.
 *
 * Client hosts are taken as they are needed (capacity_hosts.h): where a probe was the clients'
 * limit and not the server's, it is made again with more of them.
 */
#ifndef LS_COORDINATOR_RUN_CAPACITY_H
#define LS_COORDINATOR_RUN_CAPACITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define COORD_CAPACITY_LIMITS_MAX 8u
#define COORD_CAPACITY_PROBES_MAX 200u
#define COORD_CAPACITY_BATCHES    20u /* that a probe's window should be cut into */

/* A limit is a share of the requests that may break it. p99 of 10 ms: of the answers, 0.01 may take
 * longer than 10 ms; what never came breaks it, too. errors 0.1 %: 0.001 may fail. */
struct coord_capacity_limit {
    const char *name;     /* "p99 of 10 ms", borrowed */
    double allowed_share; /* 0 < share < 1 */
    int64_t limit_ns;     /* of the response time; 0: it is not one of a time */
    bool coarse;          /* probes need not be long enough to see a share as small as that */
};

struct coord_capacity_settings {
    const struct coord_capacity_limit *limits; /* copied; their names are borrowed */
    size_t limit_count;
    double first_per_s; /* where to begin, such as half of a closed loop's rate */
    double least_per_s; /* nothing is tried outside these two */
    double most_per_s;
    double precision;      /* of the answer: half the interval's width over the rate, 0.02 */
    int64_t budget_ns;     /* of everything, probes' overhead included */
    int64_t probe_ns;      /* least length of a probe's window */
    int64_t probe_most_ns; /* longest */
    int64_t confirm_ns;    /* of each of the two confirmations */
    int64_t overhead_ns;   /* of a probe besides its window, at first; then as reported */
    double above;          /* the second confirmation is at 1 + above times the rate: 0.1 */
    uint64_t seed;
    uint32_t hosts; /* client hosts that there are; 0 is 1 */
    bool all_hosts; /* offer every probe; else no more than are needed */
};

enum coord_capacity_kind {
    COORD_PROBE_BRACKET,
    COORD_PROBE_SEARCH,
    COORD_PROBE_CONFIRM,
    COORD_PROBE_ABOVE,
    COORD_PROBE_KIND_COUNT
};

const char *coord_capacity_kind_name(enum coord_capacity_kind kind);

struct coord_capacity_probe {
    uint32_t index; /* from 0 */
    enum coord_capacity_kind kind;
    double rate_per_s;
    int64_t window_ns;
    uint32_t hosts; /* client hosts that offer it */
};

/* Whose limit a probe met, as far as its agents could tell. */
enum coord_limited_by {
    COORD_LIMITED_BY_UNKNOWN,
    COORD_LIMITED_BY_SERVER,
    COORD_LIMITED_BY_NETWORK,
    COORD_LIMITED_BY_CLIENT,
    COORD_LIMITED_BY_COUNT
};

const char *coord_limited_by_name(enum coord_limited_by by);

struct coord_capacity_batch {
    uint64_t requests;                            /* that were due in it */
    uint64_t breaking[COORD_CAPACITY_LIMITS_MAX]; /* of them, in the order of the limits */
};

struct coord_capacity_seen {
    const struct coord_capacity_batch *batches;
    size_t batch_count;
    enum coord_limited_by limited_by; /* CLIENT: nothing is learnt of the server at this rate */
    bool died;                        /* the target, or the probe for another reason ... */
    const char *why;                  /* ... which is this; borrowed; NULL is fine */
    int64_t took_ns;                  /* from the probe's beginning to its end */
    double host_per_s;      /* what one client host is good for, as calibrated; 0: unknown */
    int64_t client_late_ns; /* the latest that a client came to what was due */
};

enum coord_capacity_verdict {
    COORD_HOLDS,   /* every limit, beyond its scatter */
    COORD_BREAKS,  /* one limit at least, beyond its scatter */
    COORD_UNCLEAR, /* too near to tell by this probe alone */
    COORD_USELESS, /* the client was the limit or stood still, or the probe failed */
    COORD_CAPACITY_VERDICT_COUNT
};

/* What a probe came to. */
struct coord_capacity_point {
    struct coord_capacity_probe probe;
    enum coord_capacity_verdict verdict;
    enum coord_limited_by limited_by;
    uint32_t limit;         /* the one that is nearest to being broken, or broken most */
    double share;           /* that broke it */
    double share_error;     /* one standard deviation of that, from the batches */
    int64_t client_late_ns; /* for how long one stood still, if it is useless for that; else 0 */
    bool overruled;         /* a longer one at the same rate says the contrary, and counts */
};

struct coord_capacity_answer {
    bool settled;      /* the interval is as narrow as asked, and what was seen for long agrees: the
                        * limits held at the rate, and were broken above it and, if there was time to
                        * look, at the interval's end */
    bool found;        /* there is a rate at all */
    double rate_per_s; /* the largest that was confirmed; found without settled: the best guess */
    double low_per_s;  /* 95 % interval of where the limits begin to break */
    double high_per_s;
    enum coord_limited_by limited_by; /* CLIENT: the rate is a lower bound */
    uint32_t hosts;                   /* client hosts that it took */
    bool confirmed;                   /* by a probe of full length, ... */
    size_t confirmed_at;              /* ... which is this one of the points */
    char why[480];                    /* one sentence: settled by what, or not for what reason */
};

struct coord_capacity;

/* LS_EINVAL, LS_ERANGE: the settings contradict each other, or the budget cannot resolve a limit at
 * any allowed rate; diag says how long it would have to be. LS_ENOMEM. */
enum ls_err coord_capacity_create(const struct coord_capacity_settings *settings,
                                  struct coord_capacity **out, struct ls_diag *diag) LS_NODISCARD;
void coord_capacity_destroy(struct coord_capacity *capacity); /* NULL is fine */

/* The next probe; false: the search has ended. The same until it is reported. */
bool coord_capacity_next(struct coord_capacity *capacity, struct coord_capacity_probe *out);
/* What the probe that next() gave came to. LS_EINVAL: more limits broken than requests. */
enum ls_err coord_capacity_report(struct coord_capacity *capacity,
                                  const struct coord_capacity_seen *seen,
                                  struct ls_diag *diag) LS_NODISCARD;

/* As far as is known at the moment. */
void coord_capacity_answer(const struct coord_capacity *capacity,
                           struct coord_capacity_answer *out);
size_t coord_capacity_points(const struct coord_capacity *capacity,
                             const struct coord_capacity_point **out_points);

#endif
