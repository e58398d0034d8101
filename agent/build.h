/* agent/build.h - from a Prepare command to the load's own form: requests formatted, address
 * parsed. */
#ifndef LS_AGENT_BUILD_H
#define LS_AGENT_BUILD_H

#include "agent/files.h"
#include "agent/load/workload.h"
#include "common/cpuset.h"
#include "common/err.h"
#include "proto/wire.pb-c.h"

struct agent_build; /* a load_workload and all that it points to */

/* The workload of a client: its share of the load, one worker per CPU of prepare->cpus in turn.
 * files hold what prepare->plan_files name, and are borrowed until agent_build_destroy(). */
enum ls_err agent_build_workload(const Ls__Prepare *prepare, const struct agent_files *files,
                                 struct agent_build **out_build, struct ls_diag *diag) LS_NODISCARD;
/* One connection that sends the target's readiness request. */
enum ls_err agent_build_ready(const Ls__Prepare *prepare, const struct agent_files *files,
                              struct agent_build **out_build, struct ls_diag *diag) LS_NODISCARD;
void agent_build_destroy(struct agent_build *build); /* NULL is fine */

const struct load_workload *agent_build_get(const struct agent_build *build);

/* A literal IPv4 or IPv6 address and a port. LS_EINVAL. */
enum ls_err agent_parse_address(const char *host, uint32_t port, struct sockaddr_storage *out,
                                socklen_t *out_len, struct ls_diag *diag) LS_NODISCARD;

/* Pins every thread of this process to the list; out reads back what they have. Empty: left alone.
 */
enum ls_err agent_pin_process(const char *cpus, struct ls_cpuset *out,
                              struct ls_diag *diag) LS_NODISCARD;

#endif
