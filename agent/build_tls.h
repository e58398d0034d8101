/* agent/build_tls.h - from a target's TLS settings to the load's own form. */
#ifndef LS_AGENT_BUILD_TLS_H
#define LS_AGENT_BUILD_TLS_H

#include "agent/files.h"
#include "agent/load/workload.h"
#include "common/err.h"
#include "proto/wire.pb-c.h"

struct agent_build_tls; /* a load_tls and all that it points to */

/* prepare->target->tls must be there. host is what server_name is taken from unless it is given:
 * "name", "name:port", "[v6]:port" or an address. http2: h2 is offered, and has to be taken.
 * LS_EINVAL: a file has not come; LS_EPROTO; LS_ENOMEM. */
enum ls_err agent_build_tls(const Ls__Prepare *prepare, const struct agent_files *files,
                            const char *host, bool http2, struct agent_build_tls **out_tls,
                            struct ls_diag *diag) LS_NODISCARD;
void agent_build_tls_destroy(struct agent_build_tls *tls); /* NULL is fine */
const struct load_tls *agent_build_tls_get(const struct agent_build_tls *tls);

#endif
