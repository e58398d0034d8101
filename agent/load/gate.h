/* agent/load/gate.h - all workers start at the instant, or none does.
 *
 * Workers arrive when they are ready. Shortly before the start each of them asks for the decision:
 * it is the same for all, whoever asks first and however late the others are.
 */
#ifndef LS_AGENT_LOAD_GATE_H
#define LS_AGENT_LOAD_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct agent_gate {
    uint32_t workers;
    atomic_int_least64_t state; /* how many have arrived; -1: shut */
};

void agent_gate_init(struct agent_gate *gate, uint32_t workers);

/* Any worker, once. True if it was the last one: the gate is open from now on. */
bool agent_gate_arrive(struct agent_gate *gate);
/* True: open, everybody starts. False: shut for good, nobody does. */
bool agent_gate_decide(struct agent_gate *gate);

bool agent_gate_is_open(struct agent_gate *gate);
bool agent_gate_is_shut(struct agent_gate *gate);

#endif
