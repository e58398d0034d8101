/* How operations of one worker end: what is counted and recorded of them, and their slots given
 * back. Answers that come together mostly have all times in common, and are recorded as one. */
#include <assert.h>

#include "agent/load/engine_impl.h"

void engine_note_trouble(struct agent_engine *e, const struct op *op,
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

/* How long count answers of this instant lay unread: the kernel had them between our send and our
 * read, or the wall clock was set meanwhile. Negative: not known. */
static int64_t unread_ns(struct agent_engine *e, struct agent_slice *slice, int64_t service_ns,
                         uint32_t count)
{
    int64_t delay_ns = e->now_ns - e->received_ns;

    if (delay_ns < -STAMP_ERROR_NS || delay_ns > service_ns + STAMP_ERROR_NS) {
        slice->health.stamps_dropped += count;
        engine_compare_clocks(e);
        return -1;
    }
    return delay_ns < 0 ? 0 : delay_ns > service_ns ? service_ns : delay_ns;
}

/* Of count operations that have all times in common with op. */
static void record_ends(struct agent_engine *e, const struct conn *conn, const struct op *op,
                        uint32_t count, const struct agent_reply *reply)
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
    slice->counts[op->part].outcome[outcome] += count;
    if (LS_UNLIKELY(outcome != LOAD_OK))
        engine_note_trouble(e, op, reply, outcome);
    if (op->part != AGENT_MEASURE)
        return;
    e->last_done_ns = e->now_ns;
    if (outcome != LOAD_OK && outcome != LOAD_TIMEOUT)
        return;
    slice->ok_in_window += outcome == LOAD_OK && e->now_ns < e->end_ns ? count : 0;
    began_ns = e->set.driver->interleaves ? op->began_ns : conn->began_ns;
    /* A timeout's answer may not have begun; and in a room, when does whose? */
    has_begun = LS_LIKELY(began_ns >= op->sent_ns) && e->woken == NULL;
    engine_tally_end(
        e,
        (struct answer_times){
            .response_ns = waited_ns,
            .service_ns = service_ns,
            .first_byte_ns = has_begun ? began_ns - op->sent_ns : -1,
            .unread_ns = e->received_ns != 0 ? unread_ns(e, slice, service_ns, count) : -1 },
        count);
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Those that were submitted together stand together in the list. */
static void under_way_remove(struct agent_engine *e, const uint32_t *ids, uint32_t count)
{
    uint32_t i = 0;

    while (i < count) {
        uint32_t older = e->ops[ids[i]].older;
        uint32_t newer = e->ops[ids[i]].newer;

        for (i++; i < count && ids[i] == newer; i++)
            newer = e->ops[newer].newer;
        *(older != NO_OP ? &e->ops[older].newer : &e->oldest_op) = newer;
        *(newer != NO_OP ? &e->ops[newer].older : &e->newest_op) = older;
    }
}

/* The first of them becomes the next to be used. */
static void give_back(struct conn *conn, const uint32_t *ids, uint32_t count)
{
    struct agent_engine *e = conn->engine;

    under_way_remove(e, ids, count);
    for (uint32_t i = count; i > 0; i--) {
        struct op *op = &e->ops[ids[i - 1]];

        op->state = OP_FREE;
        op->next = conn->free_op;
        conn->free_op = ids[i - 1];
    }
    conn->in_flight -= count;
    e->outstanding -= count;
}

/* ---- the driver's callbacks ------------------------------------------------------------------ */

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
        engine_retry(e, op);
    } else if (LS_LIKELY(op->state == OP_SENT)) {
        record_ends(e, conn, op, 1, reply);
        engine_due_ends(e, 1);
        if (e->thinkers != NULL)
            engine_think(conn);
    } else {
        engine_unsent_ended(conn, id);
    }
    conn->began_ns = reply->more ? e->now_ns : 0;
    give_back(conn, &id, 1);
    if (e->woken != NULL && conn != e->feeding && !conn->woken) {
        conn->woken = true;
        e->woken[e->woken_count++] = conn;
    }
}

/* So many of ids, which were all sent, have their times in common. */
static uint32_t alike(const struct agent_engine *e, const uint32_t *ids, uint32_t count)
{
    const struct op *first = &e->ops[ids[0]];
    uint32_t n = 1;

    while (n < count && e->ops[ids[n]].scheduled_ns == first->scheduled_ns &&
           e->ops[ids[n]].sent_ns == first->sent_ns)
        n++;
    return n;
}

void engine_on_done_alike(void *ctx, const uint32_t *ids, uint32_t count,
                          const struct agent_reply *reply)
{
    struct agent_engine *e = ctx;
    struct conn *conn = engine_conn(e, e->ops[ids[0]].conn);
    uint32_t n;

    assert(reply->outcome == LOAD_OK && conn->state == CONN_OPEN);
    assert(conn->began_ns == e->now_ns); /* none of them in an earlier piece */
    conn->used = true;
    for (uint32_t i = 0; i < count; i += n) {
        n = alike(e, ids + i, count - i);
        assert(e->ops[ids[i]].state == OP_SENT);
        record_ends(e, conn, &e->ops[ids[i]], n, reply);
    }
    engine_due_ends(e, count);
    if (e->thinkers != NULL)
        engine_think(conn);
    conn->began_ns = reply->more ? e->now_ns : 0;
    give_back(conn, ids, count);
}
