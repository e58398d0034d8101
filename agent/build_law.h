/* agent/build_law.h - a part of build.c: arrival law, pacing, think time and lifetime. */
#ifndef LS_AGENT_BUILD_LAW_H
#define LS_AGENT_BUILD_LAW_H

#include "agent/load/workload.h"
#include "common/err.h"
#include "proto/plan.pb-c.h"

/* Sets what out says of them. *out_pieces: the rates that out then borrows, the caller's to free;
 * NULL if the law has none. LS_EPROTO: what a checked plan would not have; LS_ENOMEM. */
enum ls_err agent_build_law(const Ls__Workload *in, struct load_workload *out,
                            struct ls_rate_piece **out_pieces, struct ls_diag *diag) LS_NODISCARD;

#endif
