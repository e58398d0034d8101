#include "agent/load/engine.h"

#include <stdlib.h>

#include "agent/load/engine_impl.h"
#include "common/share.h"

/* ---- time ------------------------------------------------------------------------------------ */

static void find_next_edge(struct agent_engine *e)
{
    e->edge_ns = e->recorder->next_ns;
    if (e->now_ns < e->measure_ns && e->measure_ns < e->edge_ns)
        e->edge_ns = e->measure_ns;
    else if (e->now_ns < e->end_ns && e->end_ns < e->edge_ns)
        e->edge_ns = e->end_ns;
}

static void health_lap(struct agent_engine *e)
{
    if (e->measuring)
        agent_health_lap(e->set.health, e->now_ns, *e->set.spun_ns, &e->recorder->current->health);
}

/* Connections of before the load are told in the first slice that is measured. */
static void tell_early(struct agent_engine *e)
{
    struct ls_hist *const *series = e->recorder->current->series;

    if (e->now_ns < e->measure_ns || ls_hist_count(e->early[0]) == 0)
        return;
    ls_hist_merge(series[LS_SERIES_CONNECT_TIME], e->early[0]);
    ls_hist_merge(series[LS_SERIES_HANDSHAKE_TIME], e->early[1]);
    ls_hist_reset(e->early[0]);
    ls_hist_reset(e->early[1]);
}

/* Messages are counted apart in the measure window and out of it. */
static void count_messages(struct agent_engine *e)
{
    bool inside = e->now_ns >= e->measure_ns && e->now_ns < e->end_ns;

    e->driver_env.messages = &e->recorder->current->messages[inside ? AGENT_MEASURE : AGENT_WARMUP];
}

void engine_edges(struct agent_engine *e)
{
    if (e->state != ENGINE_RUNNING)
        return;
    engine_integrate(e);
    engine_settle(e);
    engine_compare_clocks(e);
    health_lap(e);
    if (e->now_ns >= e->end_ns) {
        e->measuring = false;
    } else if (!e->measuring && e->set.health != NULL && e->now_ns >= e->measure_ns) {
        e->measuring = true;
        agent_health_start(e->set.health, e->now_ns, *e->set.spun_ns);
    }
    if (e->now_ns >= e->recorder->next_ns && agent_recorder_roll(e->recorder, e->now_ns))
        e->set.handed(e->set.ctx);
    tell_early(e);
    find_next_edge(e);
    count_messages(e);
}

/* An operation has taken too long: it alone is ended where the protocol allows that. True if its
 * connection has room for another one now. */
static bool give_up(struct agent_engine *e, uint32_t id)
{
    struct conn *conn = engine_conn(e, e->ops[id].conn);

    if (e->set.driver->cancel == NULL || e->ops[id].state != OP_SENT ||
        !e->set.driver->cancel(conn_driver(conn), id)) {
        engine_conn_end(conn, LOAD_ABORTED, true);
        return false;
    }
    conn->stuck = false;
    engine_flush(conn);
    return true;
}

/* Only when all that is too late has been given up: a connection may turn out to be silent, and
 * would take with it what it has just been given. */
static void refill_all(struct agent_engine *e)
{
    for (uint32_t i = 0; i < e->conn_count && e->state == ENGINE_RUNNING; i++) {
        if (engine_conn(e, i)->state == CONN_OPEN)
            engine_refill(engine_conn(e, i));
    }
}

static void sweep(struct agent_engine *e)
{
    int64_t oldest_ns = e->now_ns - e->set.workload->timeout_ns;
    bool room = false;

    e->sweep_ns = e->now_ns + AGENT_SWEEP_NS;
    engine_conns_sweep(e);
    /* Before there is room for what is too late already, and again for what returns. */
    engine_shed_until(e, oldest_ns);
    engine_end_retries(e, oldest_ns);
    while (e->oldest_op != NO_OP && e->ops[e->oldest_op].scheduled_ns <= oldest_ns)
        room = give_up(e, e->oldest_op) || room;
    if (room)
        refill_all(e);
    engine_shed_until(e, oldest_ns);
    engine_end_retries(e, oldest_ns);
}

static void finish(struct agent_engine *e)
{
    bool all_done = e->fixed && e->count_left == 0 && e->outstanding == 0 && e->queue_len == 0 &&
                    e->retry_len == 0;

    if (e->now_ns >= e->edge_ns)
        engine_edges(e);
    e->state = ENGINE_FINISHED;
    e->due_ns = e->edge_ns = e->sweep_ns = AGENT_NEVER_NS;
    engine_conns_close(e);
    if (e->shared != NULL)
        e->set.driver->balance(e->shared);
    engine_shed_until(e, INT64_MAX);
    engine_end_retries(e, INT64_MAX);
    engine_integrate(e);
    health_lap(e);
    e->summary.ended_ns = all_done ? e->last_done_ns : e->now_ns;
    if (e->summary.ended_ns > e->end_ns)
        e->summary.ended_ns = e->end_ns;
    engine_settle(e);
    agent_recorder_finish(e->recorder, e->now_ns);
    e->set.handed(e->set.ctx);
}

static bool is_done(const struct agent_engine *e)
{
    if (e->outstanding > 0 || e->queue_len > 0 || e->retry_len > 0)
        return false;
    return e->now_ns >= e->end_ns || (e->fixed && e->now_ns >= e->measure_ns && e->count_left == 0);
}

/* Connections that have something to say at the end say it first. */
static bool is_over(struct agent_engine *e)
{
    if (e->now_ns >= e->drain_end_ns)
        return true;
    if (!e->leaving && is_done(e) && e->set.driver->leave != NULL) {
        e->leaving = true;
        engine_conns_leave(e);
    }
    if (e->leaving)
        return e->open_count == 0 || e->now_ns >= e->leave_end_ns;
    return is_done(e);
}

/* How late this turn is for what was due. The sweep always is within AGENT_SWEEP_NS, so that no
 * standstill goes unnoticed. */
static void note_lag(struct agent_engine *e, int64_t now_ns)
{
    struct load_health *health = &e->recorder->current->health;
    int64_t due_ns = e->due_ns < e->sweep_ns ? e->due_ns : e->sweep_ns;
    int64_t lag_ns = now_ns - due_ns;

    if (lag_ns > health->loop_lag_ns)
        health->loop_lag_ns = lag_ns;
    if (lag_ns > AGENT_STALL_NS)
        health->stalled_ns += lag_ns;
}

void agent_engine_tick(struct agent_engine *e, int64_t now_ns)
{
    if (e->state == ENGINE_FINISHED)
        return;
    if (e->state == ENGINE_RUNNING && now_ns >= e->measure_ns && now_ns < e->end_ns)
        note_lag(e, now_ns);
    e->now_ns = now_ns;
    if (now_ns >= e->edge_ns)
        engine_edges(e);
    engine_pump(e);
    if (now_ns >= e->sweep_ns)
        sweep(e);
    engine_wake(e);
    engine_conns_connect(e);
    if (e->state == ENGINE_RUNNING && is_over(e))
        finish(e);
}

void agent_engine_start(struct agent_engine *e, int64_t now_ns)
{
    e->state = ENGINE_RUNNING;
    e->now_ns = e->integrated_ns = e->summary.started_ns = now_ns;
    e->sweep_ns = now_ns; /* nothing is late yet */
    e->edge_ns = now_ns;  /* begins with the measure window if there is no warm-up */
    engine_edges(e);
    load_messages_add(&e->recorder->current->messages[AGENT_WARMUP], &e->early_messages);
    engine_conns_start(e);
    if (e->thinkers != NULL)
        engine_think_start(e);
    if (e->waves)
        e->due_ns = now_ns;
    else if (e->open_loop)
        engine_find_next_due(e);
    for (uint32_t i = 0; i < e->conn_count; i++) {
        if (engine_conn(e, i)->state != CONN_OPEN)
            continue;
        engine_refill(engine_conn(e, i));
        e->now_ns = e->set.clock();
    }
    engine_pump(e);
}

void agent_engine_stop(struct agent_engine *e, int64_t now_ns)
{
    e->now_ns = now_ns;
    if (e->state == ENGINE_RUNNING) {
        finish(e);
    } else if (e->state == ENGINE_OPENING) {
        e->state = ENGINE_FINISHED;
        engine_conns_close(e);
    }
}

int64_t agent_engine_due_ns(const struct agent_engine *e)
{
    return e->open_loop ? e->due_ns : AGENT_NEVER_NS; /* who thinks is not in a hurry */
}

int64_t agent_engine_coarse_ns(const struct agent_engine *e)
{
    int64_t next_ns = e->edge_ns < e->sweep_ns ? e->edge_ns : e->sweep_ns;

    if (!e->open_loop && e->due_ns < next_ns)
        next_ns = e->due_ns;
    return e->state == ENGINE_RUNNING && e->drain_end_ns < next_ns ? e->drain_end_ns : next_ns;
}

uint64_t agent_engine_events(const struct agent_engine *e)
{
    return e->events;
}

uint32_t agent_engine_unsettled(const struct agent_engine *e)
{
    return e->unsettled;
}

uint32_t agent_engine_uninvited(const struct agent_engine *e)
{
    return e->uninvited;
}

bool agent_engine_is_finished(const struct agent_engine *e)
{
    return e->state == ENGINE_FINISHED;
}

const struct agent_engine_summary *agent_engine_summarise(const struct agent_engine *e)
{
    return &e->summary;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct ls_arrivals arrivals_of(const struct load_workload *workload)
{
    return (struct ls_arrivals){ .law = workload->law == LOAD_LAW_POISSON  ? LS_LAW_POISSON
                                        : workload->law == LOAD_LAW_PIECES ? LS_LAW_PIECES
                                                                           : LS_LAW_CONSTANT,
                                 .rate_per_s = workload->rate_per_s,
                                 .seed = workload->seed,
                                 .pieces = workload->pieces,
                                 .piece_count = workload->piece_count };
}

static enum ls_err init_arrivals(struct agent_engine *e, uint32_t worker, struct ls_diag *diag)
{
    const struct load_workload *workload = e->set.workload;
    uint64_t cap;

    if (!e->open_loop)
        return workload->think_ns > 0 ? engine_think_create(e, diag) : LS_OK;
    e->queue_max = e->waves ? e->conn_count * e->depth
                            : workload->queue_max; /* a whole wave may have to wait */
    cap = (uint64_t)e->queue_max + (uint64_t)e->conn_count * e->depth + 1;
    if (cap > UINT32_MAX / 2)
        return ls_fail(diag, LS_ERANGE, "a queue of %u requests is too long", e->queue_max);
    e->queue_cap = (uint32_t)cap;
    e->queue = calloc(cap, sizeof(*e->queue));
    if (e->queue == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a queue of %u requests", e->queue_max);
    if (e->waves)
        return LS_OK;
    e->arrivals = arrivals_of(workload);
    return ls_schedule_init(&e->schedule, &e->arrivals, e->set.window->start_ns, worker,
                            workload->workers_total, diag);
}

/* Far apart in every rotation, whatever its length. */
#define WORKER_STEP UINT64_C(1099511627689)

/* Closed loop: which requests of the load this worker sends. Each walks on from a place of its own,
 * so that whatever it has sent at some instant, every request and every value has its exact share,
 * give or take one. The measured ones of a fixed count are 0 .. count - 1, each by one worker. */
static void init_numbers(struct agent_engine *e, uint32_t worker)
{
    const struct load_workload *workload = e->set.workload;
    uint64_t rest = workload->count % workload->workers_total;

    e->next_request[AGENT_WARMUP] = e->next_request[AGENT_MEASURE] = worker * WORKER_STEP;
    if (e->fixed)
        e->next_request[AGENT_MEASURE] =
            workload->count / workload->workers_total * worker + (worker < rest ? worker : rest);
}

static enum ls_err init_shared(struct agent_engine *e, struct ls_diag *diag)
{
    const struct agent_driver *driver = e->set.driver;
    enum ls_err rc = driver->share != NULL
                         ? driver->share(&e->driver_env, e->conn_count, &e->shared, diag)
                         : LS_OK;

    if (rc != LS_OK || e->shared == NULL)
        return rc;
    e->driver_env.shared = e->shared;
    e->woken = calloc(e->conn_count, sizeof(struct conn *));
    return e->woken != NULL
               ? LS_OK
               : ls_fail(diag, LS_ENOMEM, "no memory for %u connections", e->conn_count);
}

uint32_t agent_engine_connections(const struct load_workload *workload, uint32_t index)
{
    return (uint32_t)ls_share(workload->connections, workload->workers_total,
                              workload->worker_base + index);
}

enum ls_err agent_engine_create(const struct agent_engine_setup *setup,
                                struct agent_engine **out_engine, struct ls_diag *diag)
{
    const struct load_workload *workload = setup->workload;
    const struct load_window *window = setup->window;
    uint32_t worker = workload->worker_base + setup->worker;
    struct agent_engine *e = calloc(1, sizeof(*e));
    enum ls_err rc;

    if (e == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a worker");
    e->set = *setup;
    ls_rng_init(&e->rng, workload->seed, worker);
    e->recorder = setup->recorder;
    e->driver_env = (struct agent_driver_env){ .workload = workload,
                                               .done = engine_on_done,
                                               .done_alike = engine_on_done_alike,
                                               .ctx = e,
                                               .rng = &e->rng,
                                               .messages = &e->early_messages,
                                               .number = worker,
                                               .began = engine_on_began,
                                               .http2 = &e->summary.http2,
                                               .due = engine_op_due,
                                               .delivered = engine_delivered };
    e->waves = workload->law == LOAD_LAW_WAVES;
    e->open_loop = e->waves || load_law_is_open(workload->law);
    e->measure_ns = window->start_ns + window->warmup_ns;
    e->end_ns = e->measure_ns + window->measure_ns;
    e->drain_end_ns = e->end_ns + window->drain_ns;
    e->edge_ns = e->due_ns = AGENT_NEVER_NS;
    e->fixed = (e->waves || !e->open_loop) && workload->count > 0;
    e->lifetime = workload->lifetime_requests > 0 ? workload->lifetime_requests : UINT64_MAX;
    e->count_left = ls_share(workload->count, workload->workers_total, worker);
    e->last_done_ns = e->measure_ns;
    init_numbers(e, worker);
    e->oldest_op = e->newest_op = NO_OP;
    e->oldest = e->youngest = NO_CONN;
    e->conn_count = agent_engine_connections(workload, setup->worker);
    e->summary.connections.asked = e->conn_count;
    rc = engine_conns_create(e, diag);
    if (rc == LS_OK &&
        (ls_hist_create(&e->early[0]) != LS_OK || ls_hist_create(&e->early[1]) != LS_OK))
        rc = ls_fail(diag, LS_ENOMEM, "no memory for a worker's histograms");
    if (rc == LS_OK)
        rc = init_arrivals(e, worker, diag);
    if (rc == LS_OK)
        rc = init_shared(e, diag);
    if (rc != LS_OK) {
        agent_engine_destroy(e);
        return rc;
    }
    *out_engine = e;
    return LS_OK;
}

void agent_engine_destroy(struct agent_engine *engine)
{
    if (engine == NULL)
        return;
    if (engine->state != ENGINE_FINISHED && engine->conns != NULL && engine->ops != NULL)
        agent_engine_stop(engine, engine->now_ns);
    if (engine->set.driver->unshare != NULL)
        engine->set.driver->unshare(engine->shared);
    free(engine->woken);
    free(engine->thinkers);
    free(engine->thoughts);
    free(engine->lives);
    ls_hist_destroy(engine->early[0]);
    ls_hist_destroy(engine->early[1]);
    free(engine->queue);
    free(engine->retries);
    free(engine->ops);
    free(engine->conns);
    free(engine);
}
