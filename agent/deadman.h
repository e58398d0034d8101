/* agent/deadman.h - ends this process when its control thread hangs.
 *
 * Load must not outlive the one who asked for it. A control thread that hangs hears neither ABORT
 * nor that the coordinator has gone, and the workers would go on for ever: then the process ends,
 * and with it the workers; the supervisors of its targets see that and end them.
 *
 * The watching thread waits for a timer that beats put off, so that it never wakes a CPU while all
 * is well. When the timer goes off, time is counted in turns of that thread and not by a clock: a
 * process that was stopped as a whole (SIGSTOP, a suspended machine) has not hung.
 */
#ifndef LS_AGENT_DEADMAN_H
#define LS_AGENT_DEADMAN_H

#include <stdint.h>

#include "common/err.h"

struct agent_deadman;

/* After after_ns without a beat, or a quarter more: hung(ctx) is called on the watching thread;
 * NULL: logs it and ends the process with AGENT_EXIT_FAULT. All beats come from one thread. */
enum ls_err agent_deadman_start(int64_t after_ns, void (*hung)(void *ctx), void *ctx,
                                struct agent_deadman **out_deadman,
                                struct ls_diag *diag) LS_NODISCARD;
void agent_deadman_beat(struct agent_deadman *deadman); /* NULL is fine */
void agent_deadman_stop(struct agent_deadman *deadman); /* NULL is fine */

#endif
