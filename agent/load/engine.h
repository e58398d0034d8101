/* agent/load/engine.h - one worker's load without its thread and loop: connections, arrivals,
 * operations, timeouts.
 *
 * Time is an argument where the caller has just read it, and setup.clock where the engine cannot
 * know: after a receive and between two open-loop sends. Everything is called from one thread;
 * between start() and the end nothing allocates (but for what a driver's open() needs when a
 * connection is reopened), locks or formats.
 *
 *     create -> tick ... (unsettled: 0) ... tick -> start -> tick ... (is_finished) -> summary
 *
 * What decides where a request belongs:
 * - Open loop: it is scheduled when it is due, whatever the connections do; warm-up or measure
 *   window by that instant. It goes to the connection that has been free the longest (round robin:
 *   the last one used would keep a few connections hot and let servers that spread connections over
 *   processes or hang up on idle ones show something else than was asked for), one without requests
 *   in flight first; without any it waits in the queue, and is shed when that is full, when its
 *   time is up before it was sent, or when the load ends.
 * - Closed loop: it is scheduled when it is handed to its connection, which sends it at once unless
 *   the socket is full. It is counted when it is sent.
 * - Waves: all requests of a wave are scheduled when the one before has ended, and wait for a
 *   connection like those of an open loop. The first wave begins with the load.
 * - Think times (closed loop): a request is scheduled that long after the answer before it, whether
 *   or not the connection has been closed meanwhile; without a connection, as soon as there is one.
 *   The first requests are spread over one think time.
 * - Lifetimes: a connection that has had its requests or its time takes no more, is closed when it
 *   has its answers, and is opened again. What it costs to connect is in no request's latency, but
 *   an arrival may have to wait if no other connection is free. Time begins with the load.
 * - A request that was handed to a connection which failed before its first byte left has not been
 *   sent: an open-loop one returns to the head of the queue, a closed-loop one never was.
 * - An answer that is complete after the time limit is LOAD_TIMEOUT, whenever that was noticed.
 *   Without an answer, a driver whose answers come mixed gives up that one alone, if the connection
 *   is alive. Otherwise the connection is closed and opened again; what else was in flight on it
 *   will never be answered because we closed it, so it is LOAD_ABORTED. So are requests in flight
 *   when the load is stopped or the drain time is over.
 */
#ifndef LS_AGENT_LOAD_ENGINE_H
#define LS_AGENT_LOAD_ENGINE_H

#include "agent/load/driver.h"
#include "agent/load/health.h"
#include "agent/load/link.h"
#include "agent/load/recorder.h"

#define AGENT_SWEEP_NS           INT64_C(10000000)   /* how late a timeout may be noticed */
#define AGENT_STALL_NS           INT64_C(20000000)   /* a turn that late is a standstill */
#define AGENT_CONNECT_TIMEOUT_NS INT64_C(1000000000) /* then it is a failure: ETIMEDOUT */
#define AGENT_BACKOFF_NS         INT64_C(10000000)   /* after a failure; doubled by each step */
#define AGENT_LEAVE_NS           INT64_C(500000000)  /* for a goodbye to be answered */
#define AGENT_BACKOFF_STEPS      6                   /* up to 320 ms */
#define AGENT_CONNECTING_MAX     64u /* of all workers together, but at least 4 each */

struct agent_engine;

struct agent_engine_setup {
    const struct load_workload *workload;
    const struct load_window *window;
    uint32_t worker; /* of this agent: 0 .. workload->workers - 1 */
    const struct agent_driver *driver;
    const struct agent_link_class *link;
    struct agent_link_hub *hub; /* created with agent_engine_link_env */
    struct agent_recorder *recorder;
    int64_t (*clock)(void);
    int64_t (*wall_clock)(void); /* that of the links' receive stamps; NULL: they are not used */
    struct agent_health *health; /* NULL: no costs are read */
    const int64_t *spun_ns;      /* the pacer's; may be NULL without health */
    void (*handed)(void *ctx);   /* a slice was handed over: only signals */
    void *ctx;
};

struct agent_engine_summary {
    struct load_connections connections;
    struct load_http2_use http2;
    int64_t started_ns;
    int64_t ended_ns; /* of the measure window, as struct load_totals has it */
    bool trouble;     /* the next two are of the first request that did not end as LOAD_OK */
    struct agent_reply reply;
    uint64_t request; /* its number in the load */
};

extern const struct agent_link_env agent_engine_link_env;

/* How many connections worker index of this agent has. */
uint32_t agent_engine_connections(const struct load_workload *workload, uint32_t index);

/* LS_ENOMEM. Borrows everything in setup, which is copied. */
enum ls_err agent_engine_create(const struct agent_engine_setup *setup,
                                struct agent_engine **out_engine,
                                struct ls_diag *diag) LS_NODISCARD;
void agent_engine_destroy(struct agent_engine *engine); /* closes; NULL is fine */

/* Does what is due at now_ns. Must be called at the latest at the two instants below. */
void agent_engine_tick(struct agent_engine *engine, int64_t now_ns);
int64_t agent_engine_due_ns(const struct agent_engine *engine);    /* to the microsecond */
int64_t agent_engine_coarse_ns(const struct agent_engine *engine); /* a millisecond does not hurt */
uint64_t agent_engine_events(const struct agent_engine *engine);   /* callbacks of links so far */

/* Connections that have been neither open nor refused yet; 0: ready to start. */
uint32_t agent_engine_unsettled(const struct agent_engine *engine);
/* Of these, at the end: those that agreed with the peer, which never said that they may begin. */
uint32_t agent_engine_uninvited(const struct agent_engine *engine);
void agent_engine_start(struct agent_engine *engine, int64_t now_ns);
/* Ends at once; after start() that finishes the recorder, before it nothing is left behind. */
void agent_engine_stop(struct agent_engine *engine, int64_t now_ns);
bool agent_engine_is_finished(const struct agent_engine *engine);
const struct agent_engine_summary *agent_engine_summarise(const struct agent_engine *engine);

#endif
