/* agent/load/load.h - one trial's load on this agent: its workers, from preflight to the last
 * report.
 *
 * The control thread calls everything here; workers are threads of the load's own. When there is
 * something to poll, env->wake is called on some other thread: it must only signal. No call
 * blocks for longer than it takes to create or join threads.
 *
 *     create -> preflight -> (PREFLIGHT) -> arm -> (ARMED) -> (STARTED) -> (INTERVAL)* -> (DONE)
 *
 * stop() may come at any time. After the start it leads to DONE, with requests in flight counted as
 * aborted; between arm() and the start, back to where arm() may be called again, without a further
 * event; during the preflight, to a PREFLIGHT that is not ok. Otherwise it does nothing.
 */
#ifndef LS_AGENT_LOAD_LOAD_H
#define LS_AGENT_LOAD_LOAD_H

#include "agent/load/http2_use.h"
#include "agent/load/workload.h"
#include "common/err.h"
#include "common/hist.h"
#include "common/series.h"

struct agent_load;

struct load_env {
    void (*wake)(void *ctx);
    void *ctx;
};

/* One worker's costs over its part of the measure window. */
struct load_health {
    int64_t cpu_ns;
    int64_t runqueue_wait_ns; /* ready to run, but something else had the CPU */
    int64_t spin_ns;          /* of cpu_ns: waiting for a scheduled instant */
    int64_t window_ns;
    uint64_t voluntary_switches;
    uint64_t involuntary_switches;
    uint64_t stamps_dropped; /* receive stamps that made no sense: the wall clock was set */
    int64_t loop_lag_ns; /* the latest that the loop came to what was due; put together by max */
    int64_t stalled_ns;  /* all such lags of more than AGENT_STALL_NS */
};

/* Messages of WebSocket, beside the requests that they are part of. */
struct load_messages {
    uint64_t sent;
    uint64_t expected;   /* deliveries that what was sent has to lead to, at all clients together */
    uint64_t received;   /* each once, however often it came */
    uint64_t lost;       /* known to be: later ones came, or their sender's last */
    uint64_t duplicated; /* came again, or nobody had asked for it */
    uint64_t out_of_order;
    uint64_t corrupted;
    uint64_t pings;      /* answered */
    uint64_t closes;     /* connections that the server closed with a close frame */
    uint16_t close_code; /* the first of their codes; 0: none, 1005: without a code */
};

void load_messages_add(struct load_messages *dst, const struct load_messages *src);

/* What happened in one interval, all workers together. Intervals are [start + i x interval_ns,
 * ...); a completion belongs to the one it happened in. Histograms hold requests of the measure
 * window only and are owned by the load until the next poll. */
struct load_interval {
    uint32_t index;
    uint32_t merged; /* further intervals that went into this one: coarser, never lost */
    int64_t start_ns;
    int64_t length_ns;
    struct load_counts warmup;
    struct load_counts measure;
    uint64_t ok_in_window;         /* LOAD_OK completions before the window's end */
    struct load_messages messages; /* all that came in the interval ... */
    uint64_t received_in_window;   /* ... and in the measure window */
    uint64_t bytes_in;             /* during the measure window */
    uint64_t bytes_out;
    int64_t in_flight_ns; /* integral over the measure window of the requests that were due and had
                           * not ended, so that Little's law holds with response_time */
    const struct ls_hist *const *series; /* LS_SERIES_COUNT of them: common/series.h */
    const struct load_health *workers;   /* this interval's share, one per worker */
    uint32_t worker_count;
};

#define LOAD_ERRNO_MAX 16

struct load_connections {
    uint64_t asked;
    uint64_t opened;   /* reopened ones included */
    uint64_t failed;   /* attempts */
    uint64_t peak;     /* open at once: each worker's most, added up */
    uint64_t reopened; /* after the server had closed them, or a failure */
    uint64_t retired;  /* closed by us at the end of their lifetime */
    uint64_t renewed;  /* opened in place of a retired one */
    struct {
        int error;
        uint64_t count;
    } failures[LOAD_ERRNO_MAX]; /* error 0: unused. A 17th errno value is in failed only. */
};

/* What TLS was like, all connections of the load. */
struct load_tls_use {
    uint64_t full;    /* handshakes with certificates */
    uint64_t resumed; /* without: from a session of an earlier connection */
    char version[16]; /* "TLSv1.3", "mixed"; "": there was none */
    char cipher[48];  /* "TLS_AES_256_GCM_SHA384", likewise */
};

struct load_totals {
    struct load_counts preflight;
    struct load_counts warmup;
    struct load_counts measure;
    uint64_t ok_in_window;
    struct load_messages messages;
    uint64_t received_in_window;
    uint64_t bytes_in;
    uint64_t bytes_out;
    int64_t in_flight_ns;
    struct load_connections connections;
    int64_t started_first_ns; /* actual start of the earliest and the latest worker */
    int64_t started_ns;
    int64_t ended_ns; /* window's end: as planned, or a fixed count's last completion */
    uint32_t intervals;
    const struct load_health *workers;
    uint32_t worker_count;
    struct load_tls_use tls;
    struct load_http2_use http2;
    char sample[240]; /* one thing that went wrong, for people; "" if nothing did */
};

enum load_event_kind {
    LOAD_EVENT_NONE,
    LOAD_EVENT_PREFLIGHT, /* ok, or diag says which request got what instead */
    LOAD_EVENT_ARMED,     /* connections are open (or known not to), workers wait */
    LOAD_EVENT_LATE,      /* the instant cannot be made; stopped, may be armed again */
    LOAD_EVENT_STARTED,   /* every worker has begun; at_ns is the latest */
    LOAD_EVENT_INTERVAL,
    LOAD_EVENT_DONE
};

struct load_event {
    enum load_event_kind kind;
    bool ok;
    struct ls_diag diag;
    int64_t at_ns;
    struct load_counts preflight;
    struct load_interval interval;
    struct load_totals totals;
};

/* Checks the workload against its driver. On LS_OK the caller owns *out_load. */
enum ls_err agent_load_create(const struct load_workload *workload, const struct load_env *env,
                              struct agent_load **out_load, struct ls_diag *diag) LS_NODISCARD;
void agent_load_destroy(struct agent_load *load); /* stops and joins whatever runs; NULL is fine */

/* Sends every distinct request once, in order, on one connection, and compares each answer. */
enum ls_err agent_load_preflight(struct agent_load *load, struct ls_diag *diag) LS_NODISCARD;

/* Starts the workers: pin, wait for window->open_ns, connect (paced), wait for the instant, run the
 * window. */
enum ls_err agent_load_arm(struct agent_load *load, const struct load_window *window,
                           struct ls_diag *diag) LS_NODISCARD;
/* True if load had started, so that DONE follows. Else *why (NULL is fine) says what a start would
 * have had to wait for, if there is anything. */
bool agent_load_stop(struct agent_load *load, struct ls_diag *why);

/* True with the next event in order; false if there is none now. */
bool agent_load_poll(struct agent_load *load, struct load_event *out_event);

/* How the bytes are moved, "libev" or "io_uring", and why it is not what auto prefers; "": it is,
 * or something was asked for. */
const char *agent_load_io(const struct agent_load *load);
const char *agent_load_io_reason(const struct agent_load *load);

#endif
