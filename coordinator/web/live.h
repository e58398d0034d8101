/* coordinator/web/live.h - the live page of a run: what is told here shows in every browser that
 * looks at it.
 *
 * Whoever tells is the run's thread, and it never waits for a browser: what is told is kept (a
 * few MB at most) for those who come later, and handed to a feed for those who are there. Every
 * call takes NULL. Without memory, a browser sees less.
 */
#ifndef LS_COORDINATOR_WEB_LIVE_H
#define LS_COORDINATOR_WEB_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "proto/result.pb-c.h"

struct coord_live;

/* address: "" any free port of loopback, or as for coord_web_parse. stop: called on a thread of its
 * own, once, when somebody has asked for the run's end. LS_EINVAL, LS_EIO, LS_ENOMEM. */
enum ls_err coord_live_start(const char *address, const char *title, void (*stop)(void *ctx),
                             void *ctx, struct coord_live **out_live,
                             struct ls_diag *diag) LS_NODISCARD;
/* Browsers are told that the run has ended, and how; they are not waited for. */
void coord_live_end(struct coord_live *live, const char *status, const char *dir);
void coord_live_destroy(struct coord_live *live);

/* With the token: for who started the run. */
const char *coord_live_url(const struct coord_live *live);

/* A trial begins: its figures over time begin anew. */
void coord_live_trial(struct coord_live *live, uint32_t index, uint32_t total, const char *target,
                      const char *workload, uint32_t repetition);

struct coord_live_now {
    const char *phase;
    double left_s; /* until the phase ends; negative: not known */
    bool has_interval;
    int64_t at_ns; /* of the interval, since the start of the measure window */
    int64_t length_ns;
    uint64_t completed, scheduled, errors;
    int64_t p50_ns, p99_ns, max_ns;
    bool open_loop;
    const uint64_t *heat; /* requests by latency since the call before, COORD_HEAT_ROWS of
                             result/heat.h; NULL: none */
    double cores;         /* of the server's target; negative: not known, like what follows */
    double rss_bytes;
    double switches_per_s;
};

/* As often as one likes: it is passed on some times a second, and whenever the phase changes. */
void coord_live_tick(struct coord_live *live, int64_t now_ns, const struct coord_live_now *now);

struct coord_live_agent {
    const char *name;
    const char *role;
    const char *state;      /* "here", "silent", "lost" */
    int64_t clock_error_ns; /* negative: not known, like what follows */
    double share;           /* of what all clients send, 0 to 1 */
    double cores;           /* of a client's workers, of a server's target */
    double busiest;         /* of a client's workers, 0 to 1 */
    int64_t send_lag_p99_ns;
    int64_t rss_bytes; /* of a server's target */
};
void coord_live_agents(struct coord_live *live, const struct coord_live_agent *agents, size_t n);

/* A line for people. style: "", "warn", "bad". */
void coord_live_said(struct coord_live *live, const char *style, const char *text);

/* What there is so far, as the report has it. */
void coord_live_result(struct coord_live *live, const Ls__Result *result);

#endif
