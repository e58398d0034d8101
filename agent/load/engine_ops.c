/* Operations of one worker: from the arrival over a connection to the last byte that is sent, and
 * what is counted on the way. How they end: engine_end.c. */
#include "agent/load/engine_impl.h"

#define SUBMIT_MAX 64u /* operations that are handed over at once */

/* ---- operations ------------------------------------------------------------------------------ */

/* Which of those under way comes before one that is due then: mostly the youngest of all, for only
 * what returns from a failed connection is older. */
static uint32_t under_way_before(const struct agent_engine *e, int64_t scheduled_ns)
{
    uint32_t id = e->newest_op;

    while (id != NO_OP && e->ops[id].scheduled_ns > scheduled_ns)
        id = e->ops[id].older;
    return id;
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

static void due_begins(struct agent_engine *e, int64_t scheduled_ns, uint32_t count)
{
    int64_t from_ns;
    int64_t to_ns;

    engine_integrate(e);
    e->due_count += count;
    if (scheduled_ns >= e->now_ns)
        return;
    from_ns = scheduled_ns > e->measure_ns ? scheduled_ns : e->measure_ns;
    to_ns = e->now_ns < e->end_ns ? e->now_ns : e->end_ns;
    if (to_ns > from_ns) /* it was noticed late but has been due since */
        e->recorder->current->in_flight_ns += (to_ns - from_ns) * count;
}

void engine_due_ends(struct agent_engine *e, uint32_t count)
{
    engine_integrate(e);
    e->due_count -= count;
    if (e->waves && e->due_count == 0 && e->state == ENGINE_RUNNING)
        e->due_ns = e->now_ns; /* the next wave */
}

static enum agent_part part_of(const struct agent_engine *e, int64_t scheduled_ns)
{
    return scheduled_ns < e->measure_ns ? AGENT_WARMUP : AGENT_MEASURE;
}

/* The driver has taken these, the first ones of those that were free: now they are unsent, and
 * under way. */
static void begin(struct conn *conn, const uint32_t *ids, uint32_t count, int64_t scheduled_ns)
{
    struct agent_engine *e = conn->engine;
    uint32_t before = under_way_before(e, scheduled_ns);
    uint32_t after = before != NO_OP ? e->ops[before].newer : e->oldest_op;
    uint32_t last = ids[count - 1];

    *(before != NO_OP ? &e->ops[before].newer : &e->oldest_op) = ids[0];
    *(after != NO_OP ? &e->ops[after].older : &e->newest_op) = last;
    conn->free_op = e->ops[last].next;
    e->ops[last].next = NO_OP;
    *(conn->unsent_last != NO_OP ? &e->ops[conn->unsent_last].next : &conn->unsent_first) = ids[0];
    conn->unsent_last = last;
    for (uint32_t i = 0; i < count; i++) {
        e->ops[ids[i]].older = before;
        before = ids[i];
        e->ops[before].newer = i + 1 < count ? ids[i + 1] : after;
    }
    conn->in_flight += count;
    e->outstanding += count;
}

/* How many of count the driver takes. */
static uint32_t hand_over(struct conn *conn, const uint32_t *ids, uint32_t count, uint64_t request)
{
    const struct agent_driver *driver = conn->engine->set.driver;
    uint32_t taken = 0;

    if (count > 1 && driver->submit_all != NULL)
        return driver->submit_all(conn_driver(conn), ids, count, request);
    while (taken < count && driver->submit(conn_driver(conn), ids[taken], request + taken) == LS_OK)
        taken++;
    return taken;
}

/* The connection takes no more than the requests of its life. */
static uint32_t within_life(const struct conn *conn, uint32_t count)
{
    const struct agent_engine *e = conn->engine;
    uint64_t left;

    if (LS_LIKELY(e->lives == NULL))
        return count;
    left = e->lifetime - e->lives[conn->index].taken;
    return left < count ? (uint32_t)left : count;
}

/* Hands over request and those behind it, all due at one time: count of them, for which there is
 * room, but no more than SUBMIT_MAX at once. How many it were. */
static uint32_t submit(struct conn *conn, int64_t scheduled_ns, uint64_t request, uint32_t count)
{
    struct agent_engine *e = conn->engine;
    const uint8_t part = (uint8_t)part_of(e, scheduled_ns);
    uint32_t ids[SUBMIT_MAX];
    uint32_t taken;
    uint32_t n = 0;

    count = within_life(conn, count < SUBMIT_MAX ? count : SUBMIT_MAX);
    for (uint32_t id = conn->free_op; n < count; id = e->ops[id].next)
        ids[n++] = id;
    taken = hand_over(conn, ids, count, request);
    for (uint32_t i = 0; i < taken; i++) {
        struct op *op = &e->ops[ids[i]];

        op->scheduled_ns = scheduled_ns;
        op->began_ns = 0;
        op->request = request + i;
        op->state = OP_UNSENT;
        op->part = part;
        op->counted = false;
    }
    if (taken < count)
        conn->stuck = true;
    if (LS_UNLIKELY(e->lives != NULL) && (e->lives[conn->index].taken += taken) >= e->lifetime)
        conn->spent = true;
    if (taken > 0)
        begin(conn, ids, taken, scheduled_ns);
    return taken;
}

static void count_sent(struct agent_engine *e, int64_t scheduled_ns, uint32_t count)
{
    enum agent_part part = part_of(e, scheduled_ns);
    struct load_counts *counts = &e->recorder->current->counts[part];

    counts->sent += count;
    counts->scheduled += e->open_loop ? 0 : count;
    if (part == AGENT_MEASURE)
        engine_tally(e, LS_SERIES_SEND_LAG, e->now_ns - scheduled_ns, count);
}

void engine_mark_sent(struct conn *conn, uint32_t ops)
{
    struct agent_engine *e = conn->engine;
    int64_t scheduled_ns = 0;
    uint32_t n = 0; /* that were due then, one behind the other */

    for (; ops > 0 && conn->unsent_first != NO_OP; ops--) {
        struct op *op = &e->ops[conn->unsent_first];

        conn->unsent_first = op->next;
        op->state = OP_SENT;
        op->sent_ns = e->now_ns;
        if (LS_UNLIKELY(op->counted))
            continue;
        if (op->scheduled_ns != scheduled_ns && n > 0) {
            count_sent(e, scheduled_ns, n);
            n = 0;
        }
        scheduled_ns = op->scheduled_ns;
        n++;
    }
    if (n > 0)
        count_sent(e, scheduled_ns, n);
    if (conn->unsent_first == NO_OP)
        conn->unsent_last = NO_OP;
}

/* ---- arrivals -------------------------------------------------------------------------------- */

static void shed(struct agent_engine *e, int64_t scheduled_ns)
{
    enum agent_part part = part_of(e, scheduled_ns);

    e->recorder->current->counts[part].shed++;
    engine_due_ends(e, 1);
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
    enum agent_part part = part_of(e, scheduled_ns);
    struct conn *conn;

    e->recorder->current->counts[part].scheduled++;
    if (part == AGENT_MEASURE && !e->waves) /* sending a wave takes its time */
        engine_tally(e, LS_SERIES_LOOP_LAG, e->now_ns - scheduled_ns, 1);
    due_begins(e, scheduled_ns, 1);
    while (e->queue_len == 0 && (conn = engine_conn_take_free(e)) != NULL) {
        if (LS_LIKELY(submit(conn, scheduled_ns, request, 1) > 0)) {
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
    enum agent_part part = part_of(e, scheduled_ns);
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
        due_begins(e, scheduled_ns, 1);
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
    engine_note_trouble(e, &op, &reply, outcome);
    if (r->part == AGENT_MEASURE) {
        e->last_done_ns = e->now_ns;
        if (too_late)
            engine_tally(e, LS_SERIES_RESPONSE_TIME, waited_ns, 1);
    }
    engine_due_ends(e, 1);
}

void engine_retry(struct agent_engine *e, const struct op *op)
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

        if (submit(conn, next->scheduled_ns, next->request, 1) == 0)
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

        if (submit(conn, next->scheduled_ns, next->request, 1) == 0)
            break;
        queue_pop(e);
        submitted = true;
    }
    if (!conn->stuck)
        engine_conn_place(conn);
    if (submitted)
        engine_flush(conn);
}

/* How many requests the connection has room for, and the load wants. */
static uint32_t wanted(const struct conn *conn, enum agent_part part)
{
    const struct agent_engine *e = conn->engine;
    uint32_t room = conn->limit - conn->in_flight;

    if (conn->stuck || conn->spent || !may_submit(e))
        return 0;
    return e->fixed && part == AGENT_MEASURE && e->count_left < room ? (uint32_t)e->count_left
                                                                     : room;
}

static void refill_closed(struct conn *conn, int64_t scheduled_ns)
{
    struct agent_engine *e = conn->engine;
    enum agent_part part = part_of(e, scheduled_ns);
    bool submitted = submit_retries(conn);
    uint32_t count;

    while ((count = wanted(conn, part)) > 0) {
        count = submit(conn, scheduled_ns, e->next_request[part], count);
        if (count == 0)
            break;
        due_begins(e, scheduled_ns, count);
        e->next_request[part] += count;
        if (part == AGENT_MEASURE)
            e->count_left -= count;
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

void engine_unsent_ended(struct conn *conn, uint32_t id)
{
    struct agent_engine *e = conn->engine;
    struct op *op = &e->ops[id];

    unsent_remove(conn, id);
    if (op->counted) {
        engine_retry(e, op);
    } else if (!e->open_loop) {
        engine_due_ends(e, 1);
        if (op->part == AGENT_MEASURE)
            e->count_left++;
    } else if (e->state == ENGINE_FINISHED) {
        shed(e, op->scheduled_ns);
    } else {
        queue_return(e,
                     (struct arrival){ .scheduled_ns = op->scheduled_ns, .request = op->request });
    }
}

void engine_shed_until(struct agent_engine *e, int64_t scheduled_ns)
{
    while (e->queue_len > 0 && queue_at(e, 0)->scheduled_ns <= scheduled_ns) {
        shed(e, queue_at(e, 0)->scheduled_ns);
        queue_pop(e);
    }
}
