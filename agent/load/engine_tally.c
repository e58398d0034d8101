/* Values on their way into the recorder's histograms: those of a batch are mostly the same one. */
#include "agent/load/engine_impl.h"

static void settle_ends(struct agent_engine *e)
{
    struct ls_hist *const *series = e->recorder->current->series;
    const struct answer_times *t = &e->ended;

    ls_hist_record_n(series[LS_SERIES_RESPONSE_TIME], t->response_ns, e->ended_count);
    ls_hist_record_n(series[LS_SERIES_SERVICE_TIME], t->service_ns, e->ended_count);
    if (t->first_byte_ns >= 0)
        ls_hist_record_n(series[LS_SERIES_FIRST_BYTE], t->first_byte_ns, e->ended_count);
    if (t->unread_ns >= 0) {
        ls_hist_record_n(series[LS_SERIES_READ_DELAY], t->unread_ns, e->ended_count);
        ls_hist_record_n(series[LS_SERIES_KERNEL_TIME], t->service_ns - t->unread_ns,
                         e->ended_count);
    }
    e->ended_count = 0;
}

void engine_tally_end(struct agent_engine *e, struct answer_times times, uint32_t count)
{
    const struct answer_times *last = &e->ended;

    if (times.response_ns != last->response_ns || times.service_ns != last->service_ns ||
        times.first_byte_ns != last->first_byte_ns || times.unread_ns != last->unread_ns) {
        settle_ends(e);
        e->ended = times;
    }
    e->ended_count += count;
}

void engine_settle(struct agent_engine *e)
{
    settle_ends(e);
    for (unsigned i = 0; i < LS_SERIES_COUNT; i++) {
        ls_hist_record_n(e->recorder->current->series[i], e->tallies[i].value_ns,
                         e->tallies[i].count);
        e->tallies[i].count = 0;
    }
}

int64_t engine_op_due(void *ctx, uint32_t op)
{
    const struct agent_engine *e = ctx;

    return e->ops[op].scheduled_ns;
}

/* As anything else, it belongs to the window in which it was due. */
void engine_delivered(void *ctx, uint64_t due_ns)
{
    struct agent_engine *e = ctx;
    int64_t waited_ns = (int64_t)(((uint64_t)e->now_ns - due_ns) & ((UINT64_C(1) << 48) - 1));
    int64_t scheduled_ns = e->now_ns - waited_ns;

    if (scheduled_ns >= e->measure_ns && scheduled_ns < e->end_ns)
        engine_tally(e, LS_SERIES_DELIVERY_TIME, waited_ns, 1);
}
