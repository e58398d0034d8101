/* coordinator/run/limited_by.h - whose limit did a trial meet: the server's, the network's, the
 * clients'? Pure; after the verdict, whose reasons it reads. */
#ifndef LS_COORDINATOR_RUN_LIMITED_BY_H
#define LS_COORDINATOR_RUN_LIMITED_BY_H

#include "coordinator/plan/load_law.h"
#include "coordinator/run/capacity.h"
#include "proto/result.pb-c.h"

#define COORD_LIMITED_CPU  0.90 /* of the server's CPUs, or of one for each of its processes */
#define COORD_LIMITED_LATE 0.25 /* of a limit, that its percentile was late by the client */
#define COORD_LIMITED_BUSY \
    0.85 /* of the time, that a client's worker was at work or waited for a CPU */
#define COORD_LIMITED_LINK 0.90 /* of what a client's link carries */
#define COORD_LIMITED_LOSS                                                      \
    0.001 /* segments sent again, or accept queues full, for each request: each \
             costs some 200 ms; both are counted for the whole host */

struct coord_cause {
    enum coord_limited_by by;
    char why[240]; /* its figures; also those that do not tell, where it is unknown */
};

struct coord_cause_input {
    double server_cpus; /* of the target; 0: unknown, or it is external */
    double connections; /* of all clients, times the requests that each may have in flight */
    const struct coord_load_limit *limits; /* that had to hold; without any, the verdict decides */
    size_t limit_count;
};

/* Of an open loop whose limits all held the client was not the limit, however late it was: its
 * lateness is part of the response times. Where one broke, it was if it was late by a good part of
 * that limit (at its percentile) in reading what had arrived (read_delay) or in coming to what was
 * due (loop_lag), or had no CPU left, unless most connections were in flight, and the larger part
 * of that time at the server. */
void coord_limited_by(const Ls__Trial *trial, const struct coord_cause_input *in,
                      struct coord_cause *out);
/* Do all limits hold, by what was counted alone? */
bool coord_limits_hold(const Ls__Trial *trial, const struct coord_load_limit *limits, size_t count);

/* A reason of that code and at least that weight; NULL: there is none. */
const Ls__Reason *coord_trial_reason(const Ls__Trial *trial, const char *code, Ls__Verdict least);

#endif
