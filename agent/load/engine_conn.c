/* Connections of one worker: opened a few at a time, tried again after a failure, reopened when the
 * server has closed them, or we have at the end of their lifetime. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/engine_impl.h"

static void list_remove(struct conn *conn)
{
    struct conn_list *list = &conn->engine->lists[conn->list];

    if (conn->list == LIST_NONE)
        return;
    *(conn->prev != NULL ? &conn->prev->next : &list->first) = conn->next;
    *(conn->next != NULL ? &conn->next->prev : &list->last) = conn->prev;
    conn->list = LIST_NONE;
}

static void list_append(struct conn *conn, enum conn_list_id id)
{
    struct conn_list *list = &conn->engine->lists[id];

    list_remove(conn);
    conn->prev = list->last;
    conn->next = NULL;
    *(list->last != NULL ? &list->last->next : &list->first) = conn;
    list->last = conn;
    conn->list = (uint8_t)id;
}

/* ---- lifetime -------------------------------------------------------------------------------- */

static void age_append(struct conn *conn)
{
    struct agent_engine *e = conn->engine;
    struct life *life = &e->lives[conn->index];

    life->younger = NO_CONN;
    life->older = e->youngest;
    *(e->youngest != NO_CONN ? &e->lives[e->youngest].younger : &e->oldest) = conn->index;
    e->youngest = conn->index;
}

static void age_remove(struct conn *conn)
{
    struct agent_engine *e = conn->engine;
    struct life *life;

    if (e->lives == NULL)
        return;
    life = &e->lives[conn->index];
    if (life->older == NO_CONN && e->oldest != conn->index)
        return; /* is not in it */
    *(life->older != NO_CONN ? &e->lives[life->older].younger : &e->oldest) = life->younger;
    *(life->younger != NO_CONN ? &e->lives[life->younger].older : &e->youngest) = life->older;
    life->older = life->younger = NO_CONN;
}

void engine_conn_retire(struct conn *conn)
{
    if (!conn->spent || conn->in_flight > 0)
        return;
    conn->retired = true;
    conn->used = true; /* nothing is wrong with it: no back-off */
    conn->engine->summary.connections.retired++;
    engine_conn_end(conn, LOAD_ABORTED, true);
}

void engine_conns_start(struct agent_engine *e)
{
    for (uint32_t i = e->oldest; i != NO_CONN; i = e->lives[i].younger)
        engine_conn(e, i)->at_ns = e->now_ns;
}

static void retire_the_old(struct agent_engine *e)
{
    struct conn *conn;

    while (e->state == ENGINE_RUNNING && e->oldest != NO_CONN) {
        conn = engine_conn(e, e->oldest);
        if (e->now_ns - conn->at_ns < e->set.workload->lifetime_ns)
            break;
        age_remove(conn);
        list_remove(conn);
        conn->spent = true;
        engine_conn_retire(conn);
    }
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void conn_init(struct agent_engine *e, uint32_t index)
{
    struct conn *conn = engine_conn(e, index);

    conn->engine = e;
    conn->index = index;
    conn->unsent_first = conn->unsent_last = NO_OP;
    conn->free_op = NO_OP;
    if (e->lives != NULL)
        e->lives[index].younger = e->lives[index].older = NO_CONN;
    for (uint32_t i = e->depth; i-- > 0;) {
        uint32_t id = index * e->depth + i;

        e->ops[id].conn = index;
        e->ops[id].next = conn->free_op;
        conn->free_op = id;
    }
    list_append(conn, LIST_TO_OPEN);
}

enum ls_err engine_conns_create(struct agent_engine *e, struct ls_diag *diag)
{
    const struct load_workload *workload = e->set.workload;
    size_t link_end = ((sizeof(struct conn) + 15) & ~(size_t)15) + e->set.link->link_size;
    uint64_t ops = (uint64_t)e->conn_count * workload->pipeline;
    bool mortal = workload->lifetime_requests > 0 || workload->lifetime_ns > 0;

    e->driver_offset = (link_end + 15) & ~(size_t)15;
    /* Packed: with very many idle ones, memory is what counts, and one thread has them all. */
    e->conn_stride = (e->driver_offset + e->set.driver->conn_size + 15) & ~(size_t)15;
    e->depth = workload->pipeline;
    e->unsettled = e->conn_count;
    e->connecting_max = AGENT_CONNECTING_MAX / workload->workers_total;
    if (e->connecting_max < 4)
        e->connecting_max = 4;
    if (ops >= NO_OP)
        return ls_fail(diag, LS_ERANGE, "%u connections with %u requests in flight each: too many",
                       e->conn_count, workload->pipeline);
    e->conns = calloc(e->conn_count, e->conn_stride);
    e->ops = calloc(ops, sizeof(*e->ops));
    if (mortal)
        e->lives = calloc(e->conn_count, sizeof(*e->lives));
    if (e->set.driver->interleaves) {
        e->retry_cap = (uint32_t)ops;
        e->retries = calloc(ops, sizeof(*e->retries));
    }
    if (e->conns == NULL || e->ops == NULL || (mortal && e->lives == NULL) ||
        (e->retry_cap > 0 && e->retries == NULL))
        return ls_fail(diag, LS_ENOMEM, "no memory for %u connections", e->conn_count);
    for (uint32_t i = 0; i < e->conn_count; i++)
        conn_init(e, i);
    return LS_OK;
}

static void settle(struct conn *conn)
{
    if (!conn->settled)
        conn->engine->unsettled--;
    conn->settled = true;
}

/* Each step has a list of its own, which is so in the order of its ends. */
static void back_off(struct conn *conn)
{
    unsigned step = conn->failures;

    if (step < AGENT_BACKOFF_STEPS - 1)
        conn->failures++;
    conn->at_ns = conn->engine->now_ns + (AGENT_BACKOFF_NS << step);
    list_append(conn, (enum conn_list_id)(LIST_BACKOFF + step));
}

static void count_failure(struct load_connections *connections, int error)
{
    connections->failed++;
    for (unsigned i = 0; i < LOAD_ERRNO_MAX; i++) {
        if (connections->failures[i].error != error && connections->failures[i].error != 0)
            continue;
        connections->failures[i].error = error;
        connections->failures[i].count++;
        return;
    }
}

static void connect_failed(struct conn *conn, int error)
{
    conn->state = CONN_CLOSED;
    count_failure(&conn->engine->summary.connections, error);
    settle(conn);
    back_off(conn);
}

static void leave_connecting(struct conn *conn)
{
    list_remove(conn);
    conn->engine->connecting--;
}

void engine_conns_connect(struct agent_engine *e)
{
    const struct load_workload *workload = e->set.workload;
    struct conn *conn;

    if (e->leaving)
        return;

    while (e->connecting < e->connecting_max && (conn = e->lists[LIST_TO_OPEN].first) != NULL) {
        conn->state = CONN_CONNECTING;
        conn->at_ns = e->now_ns;
        conn->began_ns = 0;
        e->connecting++;
        list_append(conn, LIST_CONNECTING);
        e->set.link->open(e->set.hub, conn_link(conn), conn,
                          (const struct sockaddr *)&workload->address, workload->address_len);
    }
}

/* Something happened on a socket: what time is it? */
static void event_begins(struct agent_engine *e)
{
    e->events++;
    e->now_ns = e->set.clock();
    if (LS_UNLIKELY(e->now_ns >= e->edge_ns))
        engine_edges(e);
}

static bool is_measuring(const struct agent_engine *e)
{
    return e->now_ns >= e->measure_ns && e->now_ns < e->end_ns;
}

uint64_t engine_conn_number(const struct conn *conn)
{
    const struct load_workload *workload = conn->engine->set.workload;

    return (uint64_t)conn->index * workload->workers_total + workload->worker_base +
           conn->engine->set.worker;
}

static enum ls_err open_driver(struct conn *conn)
{
    struct agent_engine *e = conn->engine;
    uint32_t limit = 0;
    enum ls_err rc;

    memset(conn_driver(conn), 0, e->set.driver->conn_size);
    e->driver_env.number = engine_conn_number(conn);
    rc = e->set.driver->open(conn_driver(conn), &e->driver_env, &limit);
    if (rc != LS_OK) {
        e->set.driver->close(conn_driver(conn));
        return rc;
    }
    assert(limit > 0);
    conn->limit = limit < e->depth ? limit : e->depth;
    return LS_OK;
}

static void on_connected(void *ctx)
{
    struct conn *conn = ctx;

    event_begins(conn->engine);
    conn->began_ns = conn->engine->now_ns;
}

/* Of the connections opened before the load, and of those opened in the measure window. */
static void record_set_up(struct agent_engine *e, enum ls_series series, int64_t took_ns)
{
    if (e->state == ENGINE_OPENING)
        ls_hist_record(e->early[series == LS_SERIES_HANDSHAKE_TIME], took_ns);
    else if (is_measuring(e))
        ls_hist_record(e->recorder->current->series[series], took_ns);
}

static void record_opening(struct conn *conn)
{
    struct agent_engine *e = conn->engine;
    int64_t connected_ns = conn->began_ns != 0 ? conn->began_ns : e->now_ns;

    record_set_up(e, LS_SERIES_CONNECT_TIME, connected_ns - conn->at_ns);
    if (conn->began_ns != 0)
        record_set_up(e, LS_SERIES_HANDSHAKE_TIME, e->now_ns - connected_ns);
    conn->began_ns = 0;
}

/* It takes operations from now on. */
static void conn_begins(struct conn *conn)
{
    struct agent_engine *e = conn->engine;
    struct load_connections *connections = &e->summary.connections;

    conn->state = CONN_OPEN;
    conn->used = conn->stuck = conn->given_up = conn->spent = false;
    if (e->lives != NULL)
        e->lives[conn->index].taken = 0;
    conn->at_ns = e->now_ns;
    if (e->set.workload->lifetime_ns > 0)
        age_append(conn);
    connections->opened++;
    connections->renewed += conn->retired;
    connections->reopened += conn->was_open && !conn->retired;
    conn->was_open = true;
    conn->retired = false;
    if (++e->open_count > connections->peak)
        connections->peak = e->open_count;
    settle(conn);
    if (e->state == ENGINE_RUNNING)
        engine_refill(conn);
}

/* What the driver has to agree on comes before the first operation, and is no part of its time. */
static void greet(struct conn *conn)
{
    conn->state = CONN_GREETING;
    if (conn->began_ns == 0)
        conn->began_ns = conn->engine->now_ns; /* connected; all else is handshake */
    list_append(conn, LIST_GREETING);
    engine_flush(conn);
}

static void greeting_failed(struct conn *conn, int error)
{
    struct agent_engine *e = conn->engine;

    list_remove(conn);
    e->set.driver->close(conn_driver(conn));
    e->set.link->close(e->set.hub, conn_link(conn));
    connect_failed(conn, error);
}

static void take_greeting(struct conn *conn, struct ls_bytes in)
{
    struct agent_engine *e = conn->engine;
    enum ls_err rc = e->set.driver->feed(conn_driver(conn), in);
    enum agent_greeting greeting;

    if (rc != LS_OK && rc != LS_EAGAIN) {
        engine_flush(conn); /* last words */
        greeting_failed(conn, rc == LS_ECLOSED ? ECONNABORTED : EPROTO);
        return;
    }
    if (rc == LS_EAGAIN)
        engine_flush(conn);
    greeting = e->set.driver->greeting(conn_driver(conn));
    if (conn->state == CONN_GREETING && greeting != AGENT_GREETS) {
        record_opening(conn);
        conn->state = CONN_WAITING;
        conn->at_ns = e->now_ns;
        list_append(conn, LIST_WAITING);
    }
    if (greeting == AGENT_READY) {
        list_remove(conn);
        conn_begins(conn);
    }
}

static void on_opened(void *ctx, int error)
{
    struct conn *conn = ctx;
    struct agent_engine *e = conn->engine;

    event_begins(e);
    leave_connecting(conn);
    if (error == 0 && open_driver(conn) != LS_OK) {
        e->set.link->close(e->set.hub, conn_link(conn));
        error = ENOMEM;
    }
    if (error != 0) {
        connect_failed(conn, error);
    } else if (e->set.driver->greeting != NULL) {
        greet(conn);
    } else {
        record_opening(conn);
        conn_begins(conn);
    }
}

static void on_bytes(void *ctx, struct ls_bytes in, int64_t wall_ns)
{
    struct conn *conn = ctx;
    struct agent_engine *e = conn->engine;
    enum ls_err rc;

    event_begins(e);
    if (is_measuring(e))
        e->recorder->current->bytes_in += in.len;
    if (LS_UNLIKELY(conn->state != CONN_OPEN)) {
        take_greeting(conn, in);
        return;
    }
    if (wall_ns != 0 && e->set.wall_clock != NULL)
        e->received_ns = wall_ns - e->wall_ahead_ns;
    if (conn->began_ns == 0)
        conn->began_ns = e->now_ns;
    e->feeding = conn;
    rc = e->set.driver->feed(conn_driver(conn), in);
    e->feeding = NULL;
    e->received_ns = 0;
    if (LS_UNLIKELY(rc == LS_EAGAIN || rc == LS_EPROTO))
        engine_flush(conn);
    if (LS_LIKELY(rc == LS_OK) || rc == LS_EAGAIN) {
        conn->stuck = false;
        if (e->state == ENGINE_RUNNING)
            engine_refill(conn);
    } else {
        engine_conn_end(conn, rc == LS_ECLOSED ? LOAD_CLOSED_EARLY : LOAD_ABORTED,
                        rc != LS_ECLOSED);
    }
    if (LS_UNLIKELY(e->retry_len > 0))
        engine_place_retries(e);
    engine_wake(e);
    /* A batch of answers must not hold up what is due meanwhile. */
    if (e->due_ns <= e->now_ns)
        engine_pump(e);
}

void engine_wake(struct agent_engine *e)
{
    while (e->woken_count > 0) {
        struct conn *conn = e->woken[--e->woken_count];

        conn->woken = false;
        if (conn->state == CONN_OPEN && e->state == ENGINE_RUNNING)
            engine_refill(conn);
    }
}

static void on_ended(void *ctx, enum load_outcome how, int error)
{
    struct conn *conn = ctx;

    event_begins(conn->engine);
    if (conn->state != CONN_OPEN)
        greeting_failed(conn, error != 0                 ? error
                              : how == LOAD_CLOSED_EARLY ? ECONNABORTED
                                                         : EPROTO);
    else /* the outcome says enough; connects are what errno values are counted for */
        engine_conn_end(conn, how, false);
}

static size_t on_pull(void *ctx, uint8_t *out, size_t cap)
{
    struct conn *conn = ctx;
    struct agent_engine *e = conn->engine;
    uint32_t ops = 0;
    size_t len;

    if (!e->flushing)
        event_begins(e);
    len = e->set.driver->drain(conn_driver(conn), out, cap, &ops);
    if (ops > 0)
        engine_mark_sent(conn, ops);
    if (is_measuring(e))
        e->recorder->current->bytes_out += len;
    return len;
}

const struct agent_link_env agent_engine_link_env = { .opened = on_opened,
                                                      .bytes = on_bytes,
                                                      .ended = on_ended,
                                                      .pull = on_pull,
                                                      .connected = on_connected };

void engine_conn_end(struct conn *conn, enum load_outcome how, bool given_up)
{
    struct agent_engine *e = conn->engine;
    bool parts = given_up && e->set.driver->part != NULL && e->set.driver->part(conn_driver(conn));

    assert(conn->state == CONN_OPEN);
    conn->state = CONN_CLOSING;
    conn->given_up = given_up;
    list_remove(conn);
    age_remove(conn);
    if (conn->in_flight > 0)
        e->set.driver->eof(conn_driver(conn), how);
    assert(conn->in_flight == 0);
    if (parts)
        engine_flush(conn);
    e->set.driver->close(conn_driver(conn));
    e->set.link->close(e->set.hub, conn_link(conn));
    conn->state = CONN_CLOSED;
    e->open_count--;
    if (e->state == ENGINE_FINISHED || e->leaving)
        return;
    if (!conn->used) {
        back_off(conn);
        return;
    }
    conn->failures = 0;
    list_append(conn, LIST_TO_OPEN);
}

void engine_conns_sweep(struct agent_engine *e)
{
    struct conn *conn;

    retire_the_old(e);
    for (unsigned step = 0; step < AGENT_BACKOFF_STEPS; step++) {
        while ((conn = e->lists[LIST_BACKOFF + step].first) != NULL && conn->at_ns <= e->now_ns)
            list_append(conn, LIST_TO_OPEN);
    }
    while ((conn = e->lists[LIST_CONNECTING].first) != NULL &&
           e->now_ns - conn->at_ns >= AGENT_CONNECT_TIMEOUT_NS) {
        e->set.link->close(e->set.hub, conn_link(conn));
        leave_connecting(conn);
        connect_failed(conn, ETIMEDOUT);
    }
    while ((conn = e->lists[LIST_GREETING].first) != NULL &&
           e->now_ns - conn->at_ns >= e->set.workload->timeout_ns)
        greeting_failed(conn, ETIMEDOUT);
    /* Before the start they may wait as long as there is time, and are named if there is none. */
    while (e->state == ENGINE_RUNNING && (conn = e->lists[LIST_WAITING].first) != NULL &&
           e->now_ns - conn->at_ns >= e->set.workload->timeout_ns)
        greeting_failed(conn, ETIMEDOUT);
}

void engine_conns_leave(struct agent_engine *e)
{
    bool patient = false;

    for (uint32_t i = 0; i < e->conn_count; i++) {
        struct conn *conn = engine_conn(e, i);

        if (conn->state != CONN_OPEN)
            continue;
        patient = e->set.driver->leave(conn_driver(conn)) || patient;
        engine_flush(conn);
    }
    e->leave_end_ns = patient ? e->drain_end_ns : e->now_ns + AGENT_LEAVE_NS;
}

void engine_conns_close(struct agent_engine *e)
{
    for (uint32_t i = 0; i < e->conn_count; i++) {
        struct conn *conn = engine_conn(e, i);

        if (conn->state == CONN_OPEN)
            engine_conn_end(conn, LOAD_ABORTED, true);
        e->uninvited += conn->state == CONN_WAITING && !conn->settled;
        if (conn->state == CONN_GREETING || conn->state == CONN_WAITING)
            e->set.driver->close(conn_driver(conn));
        if (conn->state == CONN_CONNECTING || conn->state == CONN_GREETING ||
            conn->state == CONN_WAITING)
            e->set.link->close(e->set.hub, conn_link(conn));
        conn->state = CONN_CLOSED;
        list_remove(conn);
    }
}

void engine_conn_place(struct conn *conn)
{
    if (conn->spent)
        list_remove(conn);
    else if (conn->in_flight == 0)
        list_append(conn, LIST_IDLE);
    else if (conn->in_flight < conn->limit)
        list_append(conn, LIST_FREE);
    else
        list_remove(conn);
}

struct conn *engine_conn_take_free(struct agent_engine *e)
{
    struct conn *conn = e->lists[LIST_IDLE].first;

    if (conn == NULL)
        conn = e->lists[LIST_FREE].first;
    if (conn != NULL)
        list_remove(conn);
    return conn;
}
