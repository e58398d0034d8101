/* agent/load/preflight.h - every distinct request once (of one that varies, its first 256 turns),
 * in order, on one connection, before any load: is this the server, and are these the answers, that
 * the workload expects?
 *
 * A thread of its own, which ends at the first answer that is not as expected. A workload without
 * an address (the null link) has nobody to ask and passes.
 */
#ifndef LS_AGENT_LOAD_PREFLIGHT_H
#define LS_AGENT_LOAD_PREFLIGHT_H

#include "agent/load/load.h"

struct agent_preflight;

/* env->wake is called when there is a result. LS_EIO, LS_ENOMEM. Borrows the workload. */
enum ls_err agent_preflight_start(const struct load_workload *workload, const struct load_env *env,
                                  struct agent_preflight **out_preflight,
                                  struct ls_diag *diag) LS_NODISCARD;
void agent_preflight_cancel(struct agent_preflight *preflight);  /* a result follows soon */
void agent_preflight_destroy(struct agent_preflight *preflight); /* cancels; NULL is fine */

/* False: not yet. Otherwise the result as an event, ended by LS_ESTATE if it was cancelled. */
bool agent_preflight_poll(struct agent_preflight *preflight, struct load_event *out_event);

#endif
