/* Operations of one worker: from the arrival over a connection to the end, and what is counted and
 * recorded on the way. */
#include <assert.h>

#include "agent/load/engine_impl.h"

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

void engine_integrate(struct agent_engine *e)
{
    int64_t from_ns;
    int64_t to_ns;

    if (e->now_ns == e->integrated_ns)
        return; /* most of a batch has one instant */
    from_ns = e->integrated_ns > e->measure_ns ? e->integrated_ns : e->measure_ns;
    to_ns = e->now_ns < e->end_ns ? e->now_ns : e->end_ns;
    if (to_ns > from_ns)
        e->recorder->current->in_flight_ns += (to_ns - from_ns) * (int64_t)e->due_count;
    e->integrated_ns = e->now_ns;
}

static void due_begins(struct agent_engine *e, int64_t scheduled_ns)
{
    int64_t from_ns;
    int64_t to_ns;

    engine_integrate(e);
    e->due_count++;
    if (scheduled_ns >= e->now_ns)
        return;
    from_ns = scheduled_ns > e->measure_ns ? scheduled_ns : e->measure_ns;
    to_ns = e->now_ns < e->end_ns ? e->now_ns : e->end_ns;
    if (to_ns > from_ns) /* it was noticed late but has been due since */
        e->recorder->current->in_flight_ns += to_ns - from_ns;
}

static void due_ends(struct agent_engine *e)
{
    engine_integrate(e);
    e->due_count--;
    if (e->waves && e->due_count == 0 && e->state == ENGINE_RUNNING)
        e->due_ns = e->now_ns; /* the next wave */
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
static bool op_submit(struct conn *conn, int64_t scheduled_ns, uint64_t request,
                      enum agent_part part)
{
    struct agent_engine *e = conn->engine;
    uint32_t id = conn->free_op;
    struct op *op = &e->ops[id];

    conn->free_op = op->next;
    op->scheduled_ns = scheduled_ns;
    op->request = request;
    op->part = (uint8_t)part;
    op->began_ns = 0;
    op->counted = false;
    op->state = OP_UNSENT;
    unsent_append(conn, id);
    under_way_insert(e, id);
    conn->in_flight++;
    e->outstanding++;
    if (LS_LIKELY(e->set.driver->submit(conn_driver(conn), id, request) == LS_OK)) {
        if (LS_UNLIKELY(e->lives != NULL) && ++e->lives[conn->index].taken >= e->lifetime)
            conn->spent = true;
        return true;
    }
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
        if (LS_UNLIKELY(op->counted))
            continue;
        counts->sent++;
        counts->scheduled += !e->open_loop;
        if (op->part == AGENT_MEASURE)
            engine_tally(e, LS_SERIES_SEND_LAG, op->sent_ns - op->scheduled_ns);
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

void engine_compare_clocks(struct agent_engine *e)
{
    int64_t before_ns;
    int64_t wall_ns;

    if (e->set.wall_clock == NULL)
        return;
    before_ns = e->set.clock();
    wall_ns = e->set.wall_clock();
    e->wall_ahead_ns = wall_ns - before_ns - (e->set.clock() - before_ns) / 2;
}

/* How long the answer lay unread: the kernel had it between our send and our read, or the wall
 * clock was set meanwhile. Negative: not known. */
static int64_t unread_ns(struct agent_engine *e, struct agent_slice *slice, int64_t service_ns)
{
    int64_t delay_ns = e->now_ns - e->received_ns;

    if (delay_ns < -STAMP_ERROR_NS || delay_ns > service_ns + STAMP_ERROR_NS) {
        slice->health.stamps_dropped++;
        engine_compare_clocks(e);
        return -1;
    }
    return delay_ns < 0 ? 0 : delay_ns > service_ns ? service_ns : delay_ns;
}

static void record_end(struct agent_engine *e, const struct conn *conn, const struct op *op,
                       const struct agent_reply *reply)
{
    struct agent_slice *slice = e->recorder->current;
    int64_t waited_ns = e->now_ns - op->scheduled_ns;
    int64_t service_ns = e->now_ns - op->sent_ns;
    bool too_late = waited_ns >= e->set.workload->timeout_ns;
    enum load_outcome outcome = reply->outcome;
    int64_t began_ns;
    bool has_begun;

    /* At the end of a room, too, whichever of its connections is closed first. */
    if (conn->given_up || e->state == ENGINE_FINISHED)
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
    began_ns = e->set.driver->interleaves ? op->began_ns : conn->began_ns;
    /* A timeout's answer may not have begun; and in a room, when does whose? */
    has_begun = LS_LIKELY(began_ns >= op->sent_ns) && e->woken == NULL;
    engine_tally_end(e,
                     (struct answer_times){
                         .response_ns = waited_ns,
                         .service_ns = service_ns,
                         .first_byte_ns = has_begun ? began_ns - op->sent_ns : -1,
                         .unread_ns = e->received_ns != 0 ? unread_ns(e, slice, service_ns) : -1 });
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

void engine_flush(struct conn *conn)
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

static void admit(struct agent_engine *e, int64_t scheduled_ns, uint64_t request)
{
    enum agent_part part = scheduled_ns < e->measure_ns ? AGENT_WARMUP : AGENT_MEASURE;
    struct conn *conn;

    e->recorder->current->counts[part].scheduled++;
    due_begins(e, scheduled_ns);
    while (e->queue_len == 0 && (conn = engine_conn_take_free(e)) != NULL) {
        if (LS_LIKELY(op_submit(conn, scheduled_ns, request, part))) {
            engine_conn_place(conn);
            engine_flush(conn);
            e->now_ns = e->set.clock(); /* a send takes microseconds: the next is later by that */
            return;
        }
        end_if_useless(conn);
    }
    if (e->queue_len >= e->queue_max) {
        shed(e, scheduled_ns);
        return;
    }
    e->queue_len++;
    *queue_at(e, e->queue_len - 1) =
        (struct arrival){ .scheduled_ns = scheduled_ns, .request = request };
}

void engine_find_next_due(struct agent_engine *e)
{
    int64_t next_ns = ls_schedule_peek(&e->schedule);

    e->due_ns = next_ns < e->end_ns ? next_ns : AGENT_NEVER_NS;
}

static bool may_submit(const struct agent_engine *e)
{
    if (e->now_ns >= e->end_ns)
        return false;
    return !e->fixed || e->now_ns < e->measure_ns || e->count_left > 0;
}

/* All of it is due now; what has no open connection waits for one. */
static void begin_wave(struct agent_engine *e)
{
    int64_t scheduled_ns = e->now_ns;
    enum agent_part part = scheduled_ns < e->measure_ns ? AGENT_WARMUP : AGENT_MEASURE;
    uint64_t size = (uint64_t)e->conn_count * e->depth;

    e->due_ns = AGENT_NEVER_NS;
    if (!may_submit(e))
        return;
    if (e->fixed && scheduled_ns >= e->measure_ns) {
        size = size < e->count_left ? size : e->count_left;
        e->count_left -= size;
    }
    if (e->depth == 1) {
        for (uint64_t i = 0; i < size; i++)
            admit(e, scheduled_ns, e->next_request[part]++);
        return;
    }
    e->recorder->current->counts[part].scheduled += size;
    for (uint64_t i = 0; i < size; i++) {
        due_begins(e, scheduled_ns);
        e->queue_len++;
        *queue_at(e, e->queue_len - 1) =
            (struct arrival){ .scheduled_ns = scheduled_ns, .request = e->next_request[part]++ };
    }
    for (uint32_t i = 0; i < e->conn_count && e->queue_len > 0; i++) {
        if (engine_conn(e, i)->state != CONN_OPEN)
            continue;
        engine_refill(engine_conn(e, i));
        e->now_ns = e->set.clock(); /* each connection's share leaves at once */
    }
}

/* ---- requests that the peer has not looked at -------------------------------------------------
 */

/* Ends one that waits to be sent again: nobody will answer it. */
static void end_retry(struct agent_engine *e, const struct retry *r)
{
    struct agent_slice *slice = e->recorder->current;
    int64_t waited_ns = e->now_ns - r->scheduled_ns;
    bool too_late = waited_ns >= e->set.workload->timeout_ns;
    const struct op op = { .request = r->request };
    const struct agent_reply reply = { .why = "the server took no connection for it any more" };
    enum load_outcome outcome = too_late ? LOAD_TIMEOUT : LOAD_ABORTED;

    slice->counts[r->part].outcome[outcome]++;
    note_trouble(e, &op, &reply, outcome);
    if (r->part == AGENT_MEASURE) {
        e->last_done_ns = e->now_ns;
        if (too_late)
            engine_tally(e, LS_SERIES_RESPONSE_TIME, waited_ns);
    }
    due_ends(e);
}

/* Sent, and not looked at: goes to the next connection that has room, as the same request. */
static void retry(struct agent_engine *e, const struct op *op)
{
    const struct retry r = { .scheduled_ns = op->scheduled_ns,
                             .request = op->request,
                             .part = op->part };

    if (e->state == ENGINE_FINISHED || e->retry_len == e->retry_cap) {
        end_retry(e, &r);
        return;
    }
    e->retries[(e->retry_first + e->retry_len++) % e->retry_cap] = r;
}

static struct retry retry_pop(struct agent_engine *e)
{
    struct retry r = e->retries[e->retry_first];

    e->retry_first = (e->retry_first + 1) % e->retry_cap;
    e->retry_len--;
    return r;
}

void engine_end_retries(struct agent_engine *e, int64_t scheduled_ns)
{
    for (uint32_t n = e->retry_len; n > 0; n--) {
        struct retry r = retry_pop(e);

        if (r.scheduled_ns <= scheduled_ns)
            end_retry(e, &r);
        else
            e->retries[(e->retry_first + e->retry_len++) % e->retry_cap] = r;
    }
}

/* True if there were any. They are marked as counted before they can be sent. */
static bool submit_retries(struct conn *conn)
{
    struct agent_engine *e = conn->engine;
    bool submitted = false;

    while (e->retry_len > 0 && !conn->stuck && !conn->spent && conn->in_flight < conn->limit) {
        const struct retry *next = &e->retries[e->retry_first];
        uint32_t id = conn->free_op;

        if (!op_submit(conn, next->scheduled_ns, next->request, (enum agent_part)next->part))
            break;
        e->ops[id].counted = true;
        (void)retry_pop(e);
        submitted = true;
    }
    return submitted;
}

void engine_place_retries(struct agent_engine *e)
{
    struct conn *conn;

    /* In a closed loop no connection has room but a new one, which takes them as it opens. */
    while (e->open_loop && e->retry_len > 0 && (conn = engine_conn_take_free(e)) != NULL) {
        uint32_t before = e->retry_len;

        engine_refill(conn);
        if (e->retry_len == before)
            break;
    }
}

static void refill_from_queue(struct conn *conn)
{
    struct agent_engine *e = conn->engine;
    bool submitted = submit_retries(conn);

    while (e->queue_len > 0 && !conn->stuck && !conn->spent && conn->in_flight < conn->limit) {
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
        engine_flush(conn);
}

static void refill_closed(struct conn *conn, int64_t scheduled_ns)
{
    struct agent_engine *e = conn->engine;
    enum agent_part part = scheduled_ns < e->measure_ns ? AGENT_WARMUP : AGENT_MEASURE;
    bool submitted = submit_retries(conn);

    while (!conn->stuck && !conn->spent && conn->in_flight < conn->limit && may_submit(e)) {
        if (!op_submit(conn, scheduled_ns, e->next_request[part], part))
            break;
        due_begins(e, scheduled_ns);
        e->next_request[part]++;
        if (part == AGENT_MEASURE)
            e->count_left--;
        submitted = true;
    }
    if (submitted)
        engine_flush(conn);
}

static void end_if_over(struct conn *conn)
{
    if (LS_UNLIKELY(conn->spent))
        engine_conn_retire(conn);
    else
        end_if_useless(conn);
}

void engine_refill(struct conn *conn)
{
    if (conn->engine->open_loop)
        refill_from_queue(conn);
    else if (!conn->thinking)
        refill_closed(conn, conn->engine->now_ns);
    end_if_over(conn);
}

static void wake_thinkers(struct agent_engine *e)
{
    struct conn *conn;
    int64_t woke_ns;

    while ((conn = engine_think_wake(e, &woke_ns)) != NULL) {
        if (conn->state != CONN_OPEN)
            continue;                 /* sends as soon as it is */
        refill_closed(conn, woke_ns); /* so that waking late shows as send lag */
        end_if_over(conn);
        e->now_ns = e->set.clock();
    }
}

void engine_pump(struct agent_engine *e)
{
    if (!e->open_loop) {
        wake_thinkers(e);
        return;
    }
    if (e->waves) {
        if (e->due_ns <= e->now_ns)
            begin_wave(e);
        return;
    }
    while (e->due_ns <= e->now_ns) {
        int64_t scheduled_ns = e->due_ns;
        uint64_t request = e->schedule.k;

        ls_schedule_advance(&e->schedule);
        engine_find_next_due(e);
        admit(e, scheduled_ns, request);
    }
}

/* It ended before its first byte was sent. */
static void unsent_ended(struct conn *conn, uint32_t id)
{
    struct agent_engine *e = conn->engine;
    struct op *op = &e->ops[id];

    unsent_remove(conn, id);
    if (op->counted) {
        retry(e, op);
    } else if (!e->open_loop) {
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

void engine_on_began(void *ctx, uint32_t id)
{
    struct agent_engine *e = ctx;

    e->ops[id].began_ns = e->now_ns;
}

void engine_on_done(void *ctx, uint32_t id, const struct agent_reply *reply)
{
    struct agent_engine *e = ctx;
    struct op *op = &e->ops[id];
    struct conn *conn = engine_conn(e, op->conn);

    assert(op->state != OP_FREE);
    /* An answer of use: also one that lasts until the peer closes. */
    conn->used = conn->used ||
                 (conn->state == CONN_OPEN && op->state == OP_SENT && !reply->again) ||
                 reply->outcome == LOAD_OK;
    if (LS_UNLIKELY(reply->again) && op->state == OP_SENT) {
        retry(e, op);
    } else if (LS_LIKELY(op->state == OP_SENT)) {
        record_end(e, conn, op, reply);
        due_ends(e);
        if (e->thinkers != NULL)
            engine_think(conn);
    } else {
        unsent_ended(conn, id);
    }
    conn->began_ns = reply->more ? e->now_ns : 0;
    op_free(conn, id);
    if (e->woken != NULL && conn != e->feeding && !conn->woken) {
        conn->woken = true;
        e->woken[e->woken_count++] = conn;
    }
}

void engine_shed_until(struct agent_engine *e, int64_t scheduled_ns)
{
    while (e->queue_len > 0 && queue_at(e, 0)->scheduled_ns <= scheduled_ns) {
        shed(e, queue_at(e, 0)->scheduled_ns);
        queue_pop(e);
    }
}
