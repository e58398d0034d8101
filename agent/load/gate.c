#include "agent/load/gate.h"

#define SHUT INT64_C(-1)

void agent_gate_init(struct agent_gate *gate, uint32_t workers)
{
    gate->workers = workers;
    atomic_init(&gate->state, 0);
}

bool agent_gate_arrive(struct agent_gate *gate)
{
    int_least64_t arrived = atomic_load(&gate->state);

    while (arrived != SHUT) {
        if (atomic_compare_exchange_weak(&gate->state, &arrived, arrived + 1))
            return arrived + 1 == gate->workers;
    }
    return false;
}

bool agent_gate_decide(struct agent_gate *gate)
{
    int_least64_t arrived = atomic_load(&gate->state);

    while (arrived != gate->workers) {
        if (arrived == SHUT || atomic_compare_exchange_weak(&gate->state, &arrived, SHUT))
            return false;
    }
    return true;
}

bool agent_gate_is_open(struct agent_gate *gate)
{
    return atomic_load(&gate->state) == gate->workers;
}

bool agent_gate_is_shut(struct agent_gate *gate)
{
    return atomic_load(&gate->state) == SHUT;
}
