/* coordinator/run/verdict.h - is a trial's number to be believed? README.md lists the codes.
 *
 * A pure function over what was measured: no clock, no file, no state. Every check is a row of a
 * table, every limit a named constant, and each reason carries its figures.
 */
#ifndef LS_COORDINATOR_RUN_VERDICT_H
#define LS_COORDINATOR_RUN_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"
#include "common/err.h"
#include "coordinator/run/merge.h"
#include "proto/result.pb-c.h"

#define COORD_LIMIT_BUSY              0.95 /* of a worker's time; of the server's CPUs: no room */
#define COORD_LIMIT_LAG_INVALID_NS    INT64_C(1000000)
#define COORD_LIMIT_LAG_SUSPECT_NS    INT64_C(200000)
#define COORD_LIMIT_LAG_SHARE         0.10 /* of the response time's p99 */
#define COORD_LIMIT_ACHIEVED          0.99 /* of the offered rate */
#define COORD_LIMIT_LITTLE            0.05
#define COORD_LIMIT_LITTLE_COUNT      1000 /* fewer completions say nothing */
#define COORD_LIMIT_PIPELINES         0.90 /* of connections x pipeline, in flight on average */
#define COORD_LIMIT_FOREIGN           0.05 /* of the server's CPUs */
#define COORD_LIMIT_STEAL             0.02 /* of the server's CPUs, or a client's */
#define COORD_LIMIT_QUEUED            0.05 /* of a worker's time: ready, but others had the CPU */
#define COORD_LIMIT_QUEUED_INVALID    0.30
#define COORD_LIMIT_UNREAD            0.20 /* of the mean service time: answers lay unread for so long */
#define COORD_LIMIT_UNREAD_INVALID    0.50
#define COORD_LIMIT_STALLED           0.05 /* of a worker's time: it came over 20 ms too late */
#define COORD_LIMIT_STALLED_INVALID   0.20
#define COORD_LIMIT_HEADROOM          0.70 /* of a calibrated ceiling */
#define COORD_LIMIT_HEADROOM_INVALID  0.95
#define COORD_LIMIT_RETRANSMITS       10 /* per million requests */
#define COORD_LIMIT_RETRANSMITS_LEAST 5
#define COORD_LIMIT_TREND             0.10 /* last third against the first */
#define COORD_LIMIT_TREND_P           0.05 /* of the Mann-Kendall test, two-sided */
#define COORD_LIMIT_TREND_INTERVALS   5
#define COORD_LIMIT_TREND_MOST        512 /* more are put together before they are ranked */
#define COORD_LIMIT_WINDOW_NS         INT64_C(1000000000)
#define COORD_LIMIT_ACCOUNTS          0.03 /* clocks of the target's processes against its group's */
#define COORD_LIMIT_ACCOUNTS_NS       INT64_C(20000000) /* ticks that they may be apart */
#define COORD_LIMIT_EDGE              0.02 /* of the window: how far off the server's samples may be */
#define COORD_MAX_START_SKEW_NS       INT64_C(5000000) /* unless the plan says otherwise */

struct coord_verdict_input {
    const struct coord_books *books; /* NULL: nothing wrong is known */
    int64_t max_start_skew_ns;       /* 0: COORD_MAX_START_SKEW_NS */
    uint32_t connections;            /* as planned, of all clients; 0: as the trial says */
    bool fixed_count;
    bool has_gaps;               /* a closed loop that is not meant to be always full */
    bool is_random;              /* offered_per_s is only the mean of what was scheduled */
    bool changes;                /* the load itself changes over the window */
    bool shared_cores;           /* server and clients, or two clients, have a CPU in common */
    const char *shared_why;      /* with figures: "2 CPUs for 3 agents"; NULL is fine */
    uint32_t server_cpus;        /* CPUs that the server may use; 0: not known */
    const char *governor_before; /* NULL or "": not known */
    const char *governor_after;
};

/* Adds a reason for everything it finds and sets trial->verdict to the worst of all reasons,
 * including those that were there before. A trial that was not measured to its end is invalid. */
void coord_verdict_judge(Ls__Trial *trial, const struct coord_verdict_input *input);

/* One more reason; never makes a verdict better. For what only the caller knows: agent_lost,
 * target failures, an interruption. code is short and stable, text one sentence with its figures.
 * Out of memory: the text may be lost, the verdict is not. */
void coord_verdict_add(Ls__Trial *trial, const char *code, Ls__Verdict verdict, const char *fmt,
                       ...) LS_PRINTF(4, 5);

const char *coord_verdict_name(Ls__Verdict verdict); /* "valid" */

#endif
