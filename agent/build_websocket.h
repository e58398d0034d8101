/* agent/build_websocket.h - WebSocket of a plan in the load's own form: build.c's, nobody else's.
 */
#ifndef LS_AGENT_BUILD_WEBSOCKET_H
#define LS_AGENT_BUILD_WEBSOCKET_H

#include "agent/load/workload.h"
#include "proto/wire.pb-c.h"

struct agent_websocket; /* a handshake, a message, and all that they point to */

/* LS_EINVAL, LS_EPROTO, LS_ENOMEM, LS_ERANGE. */
enum ls_err agent_websocket_create(const Ls__WebSocket *in, const Ls__Target *target,
                                   struct agent_websocket **out, struct ls_diag *diag) LS_NODISCARD;
void agent_websocket_destroy(struct agent_websocket *websocket); /* NULL is fine */

/* Sets what concerns WebSocket in *workload, which borrows it. */
void agent_websocket_give(const struct agent_websocket *websocket, struct load_workload *workload);

#endif
