#include "agent/load/engine.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/load/engine_impl.h"
#include "common/share.h"

/* ---- operations ------------------------------------------------------------------------------ */

/* Mostly the newest of all: only one that returns from a failed connection is older. */
static void under_way_insert(struct agent_engine *e, uint32_t id)
{
    struct op *op = &e->ops[id];
    uint32_t before = e->newest_op;

    while (before != NO_OP && e->ops[before].scheduled_ns > op->scheduled_ns)
        before = e->ops[before].older;
    op->older = before;
    op->newer = before != NO_OP ? e->ops[before].newer : e->oldest_op;
    *(before != NO_OP ? &e->ops[before].newer : &e->oldest_op) = id;
    *(op->newer != NO_OP ? &e->ops[op->newer].older : &e->newest_op) = id;
}

static void under_way_remove(struct agent_engine *e, uint32_t id)
{
    struct op *op = &e->ops[id];

    *(op->older != NO_OP ? &e->ops[op->older].newer : &e->oldest_op) = op->newer;
    *(op->newer != NO_OP ? &e->ops[op->newer].older : &e->newest_op) = op->older;
}

static void unsent_append(struct conn *conn, uint32_t id)
{
    struct agent_engine *e = conn->engine;

    e->ops[id].next = NO_OP;
    *(conn->unsent_last != NO_OP ? &e->ops[conn->unsent_last].next : &conn->unsent_first) = id;
    conn->unsent_last = id;
}

static void unsent_remove(struct conn *conn, uint32_t id)
{
    struct agent_engine *e = conn->engine;
    uint32_t before = NO_OP;

    for (uint32_t at = conn->unsent_first; at != id; at = e->ops[at].next)
        before = at;
    *(before != NO_OP ? &e->ops[before].next : &conn->unsent_first) = e->ops[id].next;
    if (conn->unsent_last == id)
        conn->unsent_last = before;
}

/* The in-flight integral up to now, over the measure window. */
static void integrate(struct agent_engine *e)
{
    int64_t from_ns = e->integrated_ns > e->measure_ns ? e->integrated_ns : e->measure_ns;
    int64_t to_ns = e->now_ns < e->end_ns ? e->now_ns : e->end_ns;

    if (to_ns > from_ns)
        e->recorder->current->in_flight_ns += (to_ns - from_ns) * (int64_t)e->due_count;
    e->integrated_ns = e->now_ns;
}

static void due_begins(struct agent_engine *e, int64_t scheduled_ns)
{
    int64_t from_ns = scheduled_ns > e->measure_ns ? scheduled_ns : e->measure_ns;
    int64_t to_ns = e->now_ns < e->end_ns ? e->now_ns : e->end_ns;

    integrate(e);
    e->due_count++;
    if (to_ns > from_ns) /* it was noticed late but has been due since */
        e->recorder->current->in_flight_ns += to_ns - from_ns;
}

static void due_ends(struct agent_engine *e)
{
    integrate(e);
    e->due_count--;
}

static void op_free(struct conn *conn, uint32_t id)
{
    struct agent_engine *e = conn->engine;

    under_way_remove(e, id);
    e->ops[id].state = OP_FREE;
    e->ops[id].next = conn->free_op;
    conn->free_op = id;
    conn->in_flight--;
    e->outstanding--;
}

/* False: the driver takes no more at the moment. */
static bool op_submit(struct conn *conn, int64_t scheduled_ns, uint32_t request,
                      enum agent_part part)
{
    struct agent_engine *e = conn->engine;
    uint32_t id = conn->free_op;
    struct op *op = &e->ops[id];

    conn->free_op = op->next;
    op->scheduled_ns = scheduled_ns;
    op->request = request;
    op->part = (uint8_t)part;
    op->state = OP_UNSENT;
    unsent_append(conn, id);
    under_way_insert(e, id);
    conn->in_flight++;
    e->outstanding++;
    if (LS_LIKELY(e->set.driver->submit(conn_driver(conn), id, request) == LS_OK))
        return true;
    unsent_remove(conn, id);
    op_free(conn, id);
    conn->stuck = true;
    return false;
}

void engine_mark_sent(struct conn *conn, uint32_t ops)
{
    struct agent_engine *e = conn->engine;
    struct agent_slice *slice = e->recorder->current;

    for (; ops > 0 && conn->unsent_first != NO_OP; ops--) {
        struct op *op = &e->ops[conn->unsent_first];
        struct load_counts *counts = &slice->counts[op->part];

        conn->unsent_first = op->next;
        op->state = OP_SENT;
        op->sent_ns = e->now_ns;
        counts->sent++;
        counts->scheduled += !e->open_loop;
        if (op->part == AGENT_MEASURE)
            ls_hist_record(slice->series[LS_SERIES_SEND_LAG], op->sent_ns - op->scheduled_ns);
    }
    if (conn->unsent_first == NO_OP)
        conn->unsent_last = NO_OP;
}

static void note_trouble(struct agent_engine *e, const struct op *op,
                         const struct agent_reply *reply, enum load_outcome outcome)
{
    if (e->summary.trouble)
        return;
    e->summary.trouble = true;
    e->summary.reply = *reply;
    e->summary.reply.outcome = outcome;
    e->summary.request = op->request;
}

static void record_end(struct agent_engine *e, const struct conn *conn, const struct op *op,
                       const struct agent_reply *reply)
{
    struct agent_slice *slice = e->recorder->current;
    int64_t waited_ns = e->now_ns - op->scheduled_ns;
    bool too_late = waited_ns >= e->set.workload->timeout_ns;
    enum load_outcome outcome = reply->outcome;

    if (conn->given_up)
        outcome = too_late ? LOAD_TIMEOUT : LOAD_ABORTED;
    else if (outcome == LOAD_OK && too_late)
        outcome = LOAD_TIMEOUT;
    slice->counts[op->part].outcome[outcome]++;
    if (LS_UNLIKELY(outcome != LOAD_OK))
        note_trouble(e, op, reply, outcome);
    if (op->part != AGENT_MEASURE)
        return;
    e->last_done_ns = e->now_ns;
    if (outcome != LOAD_OK && outcome != LOAD_TIMEOUT)
        return;
    slice->ok_in_window += outcome == LOAD_OK && e->now_ns < e->end_ns;
    ls_hist_record(slice->series[LS_SERIES_RESPONSE_TIME], waited_ns);
    ls_hist_record(slice->series[LS_SERIES_SERVICE_TIME], e->now_ns - op->sent_ns);
}

/* ---- arrivals -------------------------------------------------------------------------------- */

static void shed(struct agent_engine *e, int64_t scheduled_ns)
{
    enum agent_part part = scheduled_ns < e->measure_ns ? AGENT_WARMUP : AGENT_MEASURE;

    e->recorder->current->counts[part].shed++;
    due_ends(e);
}

static struct arrival *queue_at(struct agent_engine *e, uint32_t i)
{
    uint32_t at = e->queue_first + i; /* below 2 x queue_cap, which fits: see create */

    return &e->queue[at < e->queue_cap ? at : at - e->queue_cap];
}

static void queue_pop(struct agent_engine *e)
{
    e->queue_first = e->queue_first + 1 < e->queue_cap ? e->queue_first + 1 : 0;
    e->queue_len--;
}

/* One that was on a connection and is due again: before all that are younger. There is room: the
 * ring holds queue_max and everything that can be on a connection. */
static void queue_return(struct agent_engine *e, struct arrival arrival)
{
    uint32_t i = 0;

    e->queue_first = e->queue_first > 0 ? e->queue_first - 1 : e->queue_cap - 1;
    e->queue_len++;
    for (; i + 1 < e->queue_len && queue_at(e, i + 1)->scheduled_ns < arrival.scheduled_ns; i++)
        *queue_at(e, i) = *queue_at(e, i + 1);
    *queue_at(e, i) = arrival;
}

static void flush(struct conn *conn)
{
    struct agent_engine *e = conn->engine;

    e->flushing = true;
    e->set.link->flush(e->set.hub, conn_link(conn));
    e->flushing = false;
}

/* A connection whose driver takes nothing though nothing is in flight is of no use. */
static void end_if_useless(struct conn *conn)
{
    if (conn->stuck && conn->in_flight == 0)
        engine_conn_end(conn, LOAD_ABORTED, true);
}

static void admit(struct agent_engine *e, int64_t scheduled_ns, uint32_t request)
{
    enum agent_part part = scheduled_ns < e->measure_ns ? AGENT_WARMUP : AGENT_MEASURE;
    struct conn *conn;

    e->recorder->current->counts[part].scheduled++;
    due_begins(e, scheduled_ns);
    while (e->queue_len == 0 && (conn = engine_conn_take_free(e)) != NULL) {
        if (LS_LIKELY(op_submit(conn, scheduled_ns, request, part))) {
            engine_conn_place(conn);
            flush(conn);
            e->now_ns = e->set.clock(); /* a send takes microseconds: the next is later by that */
            return;
        }
        end_if_useless(conn);
    }
    if (e->queue_len >= e->set.workload->queue_max) {
        shed(e, scheduled_ns);
        return;
    }
    e->queue_len++;
    *queue_at(e, e->queue_len - 1) =
        (struct arrival){ .scheduled_ns = scheduled_ns, .request = request };
}

static void find_next_due(struct agent_engine *e)
{
    int64_t next_ns = ls_schedule_peek(&e->schedule);

    e->due_ns = next_ns < e->end_ns ? next_ns : AGENT_NEVER_NS;
}

void engine_pump(struct agent_engine *e)
{
    while (e->due_ns <= e->now_ns) {
        int64_t scheduled_ns = e->due_ns;
        uint32_t request = (uint32_t)(e->schedule.k % e->set.workload->request_count);

        ls_schedule_advance(&e->schedule);
        find_next_due(e);
        admit(e, scheduled_ns, request);
    }
}

static void refill_from_queue(struct conn *conn)
{
    struct agent_engine *e = conn->engine;
    bool submitted = false;

    while (e->queue_len > 0 && !conn->stuck && conn->in_flight < conn->limit) {
        const struct arrival *next = queue_at(e, 0);

        if (!op_submit(conn, next->scheduled_ns, next->request,
                       next->scheduled_ns < e->measure_ns ? AGENT_WARMUP : AGENT_MEASURE))
            break;
        queue_pop(e);
        submitted = true;
    }
    if (!conn->stuck)
        engine_conn_place(conn);
    if (submitted)
        flush(conn);
}

static bool may_submit(const struct agent_engine *e)
{
    if (e->now_ns >= e->end_ns)
        return false;
    return !e->fixed || e->now_ns < e->measure_ns || e->count_left > 0;
}

static void refill_closed(struct conn *conn)
{
    struct agent_engine *e = conn->engine;
    enum agent_part part = e->now_ns < e->measure_ns ? AGENT_WARMUP : AGENT_MEASURE;
    bool submitted = false;

    while (!conn->stuck && conn->in_flight < conn->limit && may_submit(e)) {
        if (!op_submit(conn, e->now_ns, e->rotation, part))
            break;
        due_begins(e, e->now_ns);
        if (++e->rotation == e->set.workload->request_count)
            e->rotation = 0;
        if (part == AGENT_MEASURE)
            e->count_left--;
        submitted = true;
    }
    if (submitted)
        flush(conn);
}

void engine_refill(struct conn *conn)
{
    if (conn->engine->open_loop)
        refill_from_queue(conn);
    else
        refill_closed(conn);
    end_if_useless(conn);
}

/* It ended before its first byte was sent. */
static void unsent_ended(struct conn *conn, uint32_t id)
{
    struct agent_engine *e = conn->engine;
    struct op *op = &e->ops[id];

    unsent_remove(conn, id);
    if (!e->open_loop) {
        due_ends(e);
        if (op->part == AGENT_MEASURE)
            e->count_left++;
    } else if (e->state == ENGINE_FINISHED) {
        shed(e, op->scheduled_ns);
    } else {
        queue_return(e,
                     (struct arrival){ .scheduled_ns = op->scheduled_ns, .request = op->request });
    }
}

void engine_on_done(void *ctx, uint32_t id, const struct agent_reply *reply)
{
    struct agent_engine *e = ctx;
    struct op *op = &e->ops[id];
    struct conn *conn = engine_conn(e, op->conn);

    assert(op->state != OP_FREE);
    conn->used = conn->used || conn->state == CONN_OPEN;
    if (LS_LIKELY(op->state == OP_SENT)) {
        record_end(e, conn, op, reply);
        due_ends(e);
    } else {
        unsent_ended(conn, id);
    }
    op_free(conn, id);
}

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

void engine_edges(struct agent_engine *e)
{
    if (e->state != ENGINE_RUNNING)
        return;
    integrate(e);
    health_lap(e);
    if (e->now_ns >= e->end_ns) {
        e->measuring = false;
    } else if (!e->measuring && e->set.health != NULL && e->now_ns >= e->measure_ns) {
        e->measuring = true;
        agent_health_start(e->set.health, e->now_ns, *e->set.spun_ns);
    }
    if (e->now_ns >= e->recorder->next_ns && agent_recorder_roll(e->recorder, e->now_ns))
        e->set.handed(e->set.ctx);
    find_next_edge(e);
}

static void sweep(struct agent_engine *e)
{
    int64_t oldest_ns = e->now_ns - e->set.workload->timeout_ns;

    e->sweep_ns = e->now_ns + AGENT_SWEEP_NS;
    engine_conns_sweep(e);
    while (e->oldest_op != NO_OP && e->ops[e->oldest_op].scheduled_ns <= oldest_ns)
        engine_conn_end(engine_conn(e, e->ops[e->oldest_op].conn), LOAD_ABORTED, true);
    while (e->queue_len > 0 && queue_at(e, 0)->scheduled_ns <= oldest_ns) {
        shed(e, queue_at(e, 0)->scheduled_ns);
        queue_pop(e);
    }
}

static void finish(struct agent_engine *e)
{
    bool all_done = e->fixed && e->count_left == 0 && e->outstanding == 0;

    if (e->now_ns >= e->edge_ns)
        engine_edges(e);
    e->state = ENGINE_FINISHED;
    e->due_ns = e->edge_ns = e->sweep_ns = AGENT_NEVER_NS;
    engine_conns_close(e);
    for (; e->queue_len > 0; queue_pop(e))
        shed(e, queue_at(e, 0)->scheduled_ns);
    integrate(e);
    health_lap(e);
    e->summary.ended_ns = all_done ? e->last_done_ns : e->now_ns;
    if (e->summary.ended_ns > e->end_ns)
        e->summary.ended_ns = e->end_ns;
    agent_recorder_finish(e->recorder, e->now_ns);
    e->set.handed(e->set.ctx);
}

static bool is_over(const struct agent_engine *e)
{
    if (e->now_ns >= e->drain_end_ns)
        return true;
    if (e->outstanding > 0 || e->queue_len > 0)
        return false;
    return e->now_ns >= e->end_ns || (e->fixed && e->now_ns >= e->measure_ns && e->count_left == 0);
}

void agent_engine_tick(struct agent_engine *e, int64_t now_ns)
{
    if (e->state == ENGINE_FINISHED)
        return;
    e->now_ns = now_ns;
    if (now_ns >= e->edge_ns)
        engine_edges(e);
    engine_pump(e);
    if (now_ns >= e->sweep_ns)
        sweep(e);
    engine_conns_connect(e);
    if (e->state == ENGINE_RUNNING && is_over(e))
        finish(e);
}

void agent_engine_start(struct agent_engine *e, int64_t now_ns)
{
    e->state = ENGINE_RUNNING;
    e->now_ns = e->integrated_ns = e->summary.started_ns = now_ns;
    e->edge_ns = now_ns; /* begins with the measure window if there is no warm-up */
    engine_edges(e);
    if (e->open_loop)
        find_next_due(e);
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
    return e->due_ns;
}

int64_t agent_engine_coarse_ns(const struct agent_engine *e)
{
    int64_t next_ns = e->edge_ns < e->sweep_ns ? e->edge_ns : e->sweep_ns;

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

bool agent_engine_is_finished(const struct agent_engine *e)
{
    return e->state == ENGINE_FINISHED;
}

const struct agent_engine_summary *agent_engine_summarise(const struct agent_engine *e)
{
    return &e->summary;
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum ls_err init_arrivals(struct agent_engine *e, uint32_t worker, struct ls_diag *diag)
{
    const struct load_workload *workload = e->set.workload;
    uint64_t cap = (uint64_t)workload->queue_max + (uint64_t)e->conn_count * e->depth + 1;

    if (!e->open_loop)
        return LS_OK;
    if (cap > UINT32_MAX / 2)
        return ls_fail(diag, LS_ERANGE, "a queue of %u requests is too long", workload->queue_max);
    e->queue_cap = (uint32_t)cap;
    e->queue = calloc(cap, sizeof(*e->queue));
    if (e->queue == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a queue of %u requests",
                       workload->queue_max);
    return ls_schedule_init(&e->schedule, LS_LAW_CONSTANT, workload->rate_per_s,
                            e->set.window->start_ns, worker, workload->workers_total, diag);
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
    e->driver_env =
        (struct agent_driver_env){ .workload = workload, .done = engine_on_done, .ctx = e };
    e->recorder = setup->recorder;
    e->open_loop = workload->law == LOAD_LAW_CONSTANT;
    e->measure_ns = window->start_ns + window->warmup_ns;
    e->end_ns = e->measure_ns + window->measure_ns;
    e->drain_end_ns = e->end_ns + window->drain_ns;
    e->edge_ns = e->due_ns = AGENT_NEVER_NS;
    e->fixed = !e->open_loop && workload->count > 0;
    e->count_left = ls_share(workload->count, workload->workers_total, worker);
    e->last_done_ns = e->measure_ns;
    e->rotation = worker % workload->request_count; /* workers start at different requests */
    e->oldest_op = e->newest_op = NO_OP;
    e->conn_count = agent_engine_connections(workload, setup->worker);
    e->summary.connections.asked = e->conn_count;
    rc = engine_conns_create(e, diag);
    if (rc == LS_OK)
        rc = init_arrivals(e, worker, diag);
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
    free(engine->queue);
    free(engine->ops);
    free(engine->conns);
    free(engine);
}
