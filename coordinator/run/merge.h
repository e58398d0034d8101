/* coordinator/run/merge.h - what the agents report during one trial, added up.
 *
 * Histograms are added, percentiles never averaged: a trial's histogram equals the histogram of
 * the union of its clients' samples, counter by counter. Every instant that goes into the result
 * is on the coordinator's clock. Each interval is written to its client's .hlog as it arrives, so
 * memory does not grow with the trial but for one small line of the time series per interval;
 * merged.hlog is written behind a window of COORD_MERGE_WINDOW intervals. A part that arrives when
 * its interval has left the window becomes a line of its own: the lines of the file still add up to
 * the whole.
 *
 * One thread. Life: create (before the agents prepare), arm (once an attempt), report ..., finish.
 */
#ifndef LS_COORDINATOR_RUN_MERGE_H
#define LS_COORDINATOR_RUN_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/hist.h"
#include "coordinator/result/heat.h"
#include "proto/wire.pb-c.h"

#define COORD_MERGE_WINDOW       8u
#define COORD_MERGE_LIMITS_MAX   8u
#define COORD_MERGE_MEMORY_LEAST 1000u /* connections of a client: fewer tell nothing of memory */

struct coord_merge;
struct coord_store_trial;

struct coord_merge_agent {
    const char *name; /* copied */
    Ls__Role role;
    uint32_t share; /* of a client in the load, in any unit: workers */
};

struct coord_merge_options {
    uint32_t trial;                         /* the number that its reports carry */
    const struct coord_merge_agent *agents; /* their places are the agent indexes used below */
    uint32_t agent_count;
    int64_t warmup_ns;
    int64_t measure_ns; /* fixed count: the most it may take */
    int64_t drain_ns;
    int64_t interval_ns;             /* > 0 */
    bool fixed_count;                /* the window ends with the last completion of a client */
    double offered_per_s;            /* 0: closed loop */
    const int64_t *limits_ns;        /* copied; intervals count what is slower; may be NULL */
    size_t limit_count;              /* at most COORD_MERGE_LIMITS_MAX */
    struct coord_store_trial *files; /* borrowed; NULL: nothing is written */
};

/* LS_EINVAL, LS_ERANGE, LS_ENOMEM. On LS_OK the caller owns *out_merge. */
enum ls_err coord_merge_create(const struct coord_merge_options *options,
                               struct coord_merge **out_merge, struct ls_diag *diag) LS_NODISCARD;
void coord_merge_destroy(struct coord_merge *merge); /* NULL is fine */

/* Warm-up begins at start_ns of the coordinator's monotonic clock, start_wall_ns of its wall clock.
 * Again for each attempt; LS_ESTATE once an interval has been taken. Opens the .hlog files. */
enum ls_err coord_merge_arm(struct coord_merge *merge, int64_t start_ns, int64_t start_wall_ns,
                            struct ls_diag *diag) LS_NODISCARD;

/* The agent's monotonic clock minus the coordinator's, and how far off that can be. */
struct coord_merge_clock {
    int64_t offset_ns;
    int64_t error_ns;
};

/* What is known of an agent's clock as of the start, whenever it is known: of several, the one with
 * the smallest error stays until the next coord_merge_arm. Without, the last report's clock is it.
 */
void coord_merge_start_clock(struct coord_merge *merge, uint32_t agent,
                             const struct coord_merge_clock *clock);

/* Takes one report, each exactly once and in the agent's order. Reports that have nothing to add
 * are ignored, and those of another trial: they came too late. LS_EPROTO: it makes no sense (an
 * index twice, a histogram that does not decode, a report of the other role); it is left out, and
 * the books say so. LS_EIO: it could not be written (full disk). LS_ENOMEM. */
enum ls_err coord_merge_report(struct coord_merge *merge, uint32_t agent,
                               const struct coord_merge_clock *clock, const Ls__Envelope *report,
                               struct ls_diag *diag) LS_NODISCARD;

/* No more will come from this agent: intervals no longer wait for it. LS_EIO as above. */
enum ls_err coord_merge_lost(struct coord_merge *merge, uint32_t agent,
                             struct ls_diag *diag) LS_NODISCARD;

bool coord_merge_has_client_report(const struct coord_merge *merge, uint32_t agent);
bool coord_merge_has_server_report(const struct coord_merge *merge, uint32_t agent);

/* The latest interval that every client has delivered, for a progress line. False: none yet. */
struct coord_merge_progress {
    int64_t at_ns; /* start, since the start of the measure window; negative in the warm-up */
    int64_t length_ns;
    uint64_t completed; /* as expected */
    uint64_t errors;
    uint64_t scheduled; /* 0 in the warm-up */
    int64_t p50_ns;     /* response time in an open loop, else service time; 0 in the warm-up */
    int64_t p99_ns;
    int64_t max_ns;
};
bool coord_merge_latest(const struct coord_merge *merge, struct coord_merge_progress *out);

/* An agent as of its newest report of this trial, for who looks on. Negative: not known. */
struct coord_merge_now {
    double sent_per_s;       /* by a client, in its newest interval */
    int64_t send_lag_p99_ns; /* in an open loop */
    double cores;            /* of a client's workers, of a server's target; measure window alone */
    double busiest;          /* of a client's workers, 0 to 1 */
    int64_t rss_bytes;       /* of a server's target */
    double switches_per_s;   /* its context switches */
};
void coord_merge_now(const struct coord_merge *merge, uint32_t agent, struct coord_merge_now *out);

/* How slow the requests of the intervals were that every client has delivered since this was asked
 * last: added to column. False: there are none. */
bool coord_merge_take_heat(struct coord_merge *merge, uint64_t column[COORD_HEAT_ROWS]);

/* What the books say. An empty text: nothing is wrong. */
struct coord_books {
    char unbalanced[240]; /* scheduled = sent + shed, sent = the outcomes: who and by how much */
    char sums[240];       /* the sum of the intervals against the final report */
    char refused[240];    /* a report that made no sense */
};

/* Fills the measured part of an initialised Trial, whatever has arrived: window, requests,
 * preflight, warmup, connections, throughput, bytes, latencies, in_flight_mean, server, clients,
 * intervals, offered_per_s; and the books. Closes merged.hlog and the clients' logs. Strings and
 * messages are malloc'ed. With clients lost, coverage says what there was. LS_EIO, LS_ENOMEM; the
 * trial is then part-filled but valid. */
enum ls_err coord_merge_finish(struct coord_merge *merge, Ls__Trial *trial,
                               struct coord_books *out_books, struct ls_diag *diag) LS_NODISCARD;

/* For tests and the live page: added to dst. client is an agent index, or UINT32_MAX: all, valid
 * after finish. kind: 0 response time, 1 service time, 2 send lag. False: no such. */
bool coord_merge_hist(const struct coord_merge *merge, uint32_t client, unsigned kind,
                      struct ls_hist *dst);

#endif
