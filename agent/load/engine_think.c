/* Think times: connections that wait before their next request, in a heap by the instant at which
 * they wake. */
#include <stdlib.h>

#include "agent/load/engine_impl.h"
#include "common/exponential.h"

static void set_due(struct agent_engine *e)
{
    e->due_ns = e->thinker_count > 0 ? e->thinkers[0].wakes_ns : AGENT_NEVER_NS;
}

static void push(struct agent_engine *e, struct conn *conn, int64_t wakes_ns)
{
    uint32_t at = e->thinker_count++;

    while (at > 0 && e->thinkers[(at - 1) / 2].wakes_ns > wakes_ns) {
        e->thinkers[at] = e->thinkers[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    e->thinkers[at] = (struct thinker){ wakes_ns, conn };
    conn->thinking = true;
}

static struct thinker pop(struct agent_engine *e)
{
    struct thinker first = e->thinkers[0];
    struct thinker last = e->thinkers[--e->thinker_count];
    uint32_t at = 0;

    for (uint32_t child = 1; child < e->thinker_count; child = 2 * at + 1) {
        if (child + 1 < e->thinker_count &&
            e->thinkers[child + 1].wakes_ns < e->thinkers[child].wakes_ns)
            child++;
        if (e->thinkers[child].wakes_ns >= last.wakes_ns)
            break;
        e->thinkers[at] = e->thinkers[child];
        at = child;
    }
    e->thinkers[at] = last;
    first.conn->thinking = false;
    return first;
}

static int64_t exponential(struct conn *conn)
{
    const struct load_workload *workload = conn->engine->set.workload;
    /* Each connection has a sequence of its own, so that it thinks alike in whatever worker. */
    uint64_t seed =
        workload->seed ^ ((engine_conn_number(conn) + 1) * UINT64_C(0xd1342543de82ef95));
    double mean = (double)workload->think_ns;

    return (int64_t)(mean * ls_minus_log(ls_uniform_at(ls_uniform_stream(seed),
                                                       conn->engine->thoughts[conn->index]++)));
}

enum ls_err engine_think_create(struct agent_engine *e, struct ls_diag *diag)
{
    e->thinkers = calloc(e->conn_count, sizeof(*e->thinkers));
    e->thoughts = calloc(e->conn_count, sizeof(*e->thoughts));
    if (e->thinkers == NULL || e->thoughts == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for %u connections that think", e->conn_count);
    return LS_OK;
}

void engine_think_start(struct agent_engine *e)
{
    const struct load_workload *workload = e->set.workload;

    for (uint32_t i = 0; i < e->conn_count; i++) {
        struct conn *conn = engine_conn(e, i);
        double part = (double)engine_conn_number(conn) / workload->connections;

        push(e, conn,
             e->now_ns + (workload->think_exponential
                              ? exponential(conn)
                              : (int64_t)(part * (double)workload->think_ns)));
    }
    set_due(e);
}

void engine_think(struct conn *conn)
{
    struct agent_engine *e = conn->engine;
    const struct load_workload *workload = e->set.workload;

    if (e->state == ENGINE_FINISHED)
        return;
    push(e, conn,
         e->now_ns + (workload->think_exponential ? exponential(conn) : workload->think_ns));
    set_due(e);
}

struct conn *engine_think_wake(struct agent_engine *e, int64_t *out_woke_ns)
{
    struct thinker first;

    if (e->due_ns > e->now_ns || e->thinker_count == 0)
        return NULL;
    first = pop(e);
    set_due(e);
    *out_woke_ns = first.wakes_ns;
    return first.conn;
}
