#include "agent/load/pacer.h"

enum agent_pace agent_pacer_next(struct agent_pacer *pacer, int64_t now_ns, int64_t due_ns,
                                 int64_t coarse_ns, uint64_t events)
{
    int64_t spin_ns = pacer->frugal ? 0 : AGENT_PACER_SPIN_NS;

    if (pacer->spin_at_ns != 0 && pacer->events == events && now_ns > pacer->spin_at_ns)
        pacer->spun_ns += now_ns - pacer->spin_at_ns;
    pacer->spin_at_ns = 0;
    if (due_ns <= now_ns || coarse_ns <= now_ns)
        return AGENT_PACE_ACT;
    if (due_ns - now_ns <= spin_ns) {
        pacer->spin_at_ns = now_ns;
        pacer->events = events;
        return AGENT_PACE_SPIN;
    }
    pacer->until_ns = coarse_ns;
    if (due_ns != AGENT_NEVER_NS && due_ns - spin_ns < coarse_ns)
        pacer->until_ns = due_ns - spin_ns;
    return AGENT_PACE_WAIT;
}
