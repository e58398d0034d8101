/* agent/load/worker.h - one thread of load: pinned, with its own hub, connections and recorder.
 *
 * The control thread creates, starts, stops, joins and destroys; nothing is shared between workers
 * but the gate. set.signal is called on the worker's thread when something below has changed.
 */
#ifndef LS_AGENT_LOAD_WORKER_H
#define LS_AGENT_LOAD_WORKER_H

#include "agent/load/engine.h"
#include "agent/load/gate.h"

#define AGENT_READY_LEAD_NS                                              \
    INT64_C(2000000) /* before the start: decided whether it can be made \
                      */

struct agent_worker;

struct agent_worker_setup {
    const struct load_workload *workload;
    const struct load_window *window;
    uint32_t index; /* of this agent */
    const struct agent_driver *driver;
    const struct agent_link_class *link;
    const struct agent_link_class *carrier; /* what link is over; NULL: it is over none */
    struct agent_gate *gate;
    void (*signal)(void *ctx);
    void *ctx;
};

/* Lays out all that the run needs. LS_ENOMEM, LS_EIO, LS_ERANGE. Borrows what setup points to. */
enum ls_err agent_worker_create(const struct agent_worker_setup *setup,
                                struct agent_worker **out_worker,
                                struct ls_diag *diag) LS_NODISCARD;
/* Starts the thread on its CPU and reads back that it is there. LS_EIO: it may not run there. */
enum ls_err agent_worker_start(struct agent_worker *worker, struct ls_diag *diag) LS_NODISCARD;
void agent_worker_stop(struct agent_worker *worker);    /* signals only; any number of times */
void agent_worker_join(struct agent_worker *worker);    /* stop first, or wait for its end */
void agent_worker_destroy(struct agent_worker *worker); /* stops, joins; NULL is fine */

int64_t agent_worker_started_ns(struct agent_worker *worker); /* 0: load has not begun */
struct agent_recorder *agent_worker_recorder(struct agent_worker *worker);
/* Only after join(). */
const struct agent_engine *agent_worker_engine(const struct agent_worker *worker);
/* Only after join(); NULL without TLS. */
const struct tls_context *agent_worker_tls(const struct agent_worker *worker);

#endif
