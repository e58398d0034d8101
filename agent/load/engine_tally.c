/* Values on their way into the recorder's histograms: those of a batch are mostly the same one. */
#include "agent/load/engine_impl.h"

void engine_tally(struct agent_engine *e, enum ls_series series, int64_t value_ns)
{
    struct tally *t = &e->tallies[series];

    if (value_ns == t->value_ns) {
        t->count++;
        return;
    }
    ls_hist_record_n(e->recorder->current->series[series], t->value_ns, t->count);
    *t = (struct tally){ .value_ns = value_ns, .count = 1 };
}

void engine_settle(struct agent_engine *e)
{
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
        engine_tally(e, LS_SERIES_DELIVERY_TIME, waited_ns);
}
