/* agent/load/probe.h - one blocking connection that sends requests one by one and compares the
 * answers: for readiness and preflight, never for load. */
#ifndef LS_AGENT_LOAD_PROBE_H
#define LS_AGENT_LOAD_PROBE_H

#include "agent/load/driver.h"

struct load_probe;

/* Nothing is sent yet. cancel_fd becoming readable ends any wait with LS_ESTATE; -1: none. */
enum ls_err load_probe_create(const struct load_workload *workload, int cancel_fd,
                              struct load_probe **out_probe, struct ls_diag *diag) LS_NODISCARD;
void load_probe_destroy(struct load_probe *probe); /* closes; NULL is fine */

/* Connects if it is not connected, sends request number request of the load, reads the whole
 * answer. LS_OK: the answer was read, *out_reply says how good it was; if it is not LOAD_OK, diag
 * says what was got instead, with the first bytes of the body. Otherwise diag says what failed:
 * refused, closed or reset (LS_ECLOSED: the caller may try again), LS_EPROTO (TLS: no agreement, or
 * broken off), LS_ETIMEOUT, LS_ESTATE (cancelled), LS_EIO. *out_sent grows by 1 if a byte of the
 * request left; *out_reply is then set whatever is returned. */
enum ls_err load_probe_exchange(struct load_probe *probe, uint64_t request, int64_t deadline_ns,
                                struct agent_reply *out_reply, uint64_t *out_sent,
                                struct ls_diag *diag) LS_NODISCARD;

#endif
