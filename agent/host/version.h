/* agent/host/version.h - what a program says its version is. */
#ifndef LS_AGENT_HOST_VERSION_H
#define LS_AGENT_HOST_VERSION_H

#include "agent/host/supervisor.h"
#include "agent/host/target.h"

#define HOST_VERSION_BYTES 256

/* Runs argv (looked up as a target's command is) under the idle supervisor, stdin closed, for at
 * most limit_ns, and puts the first 200 bytes of what it printed, as one line, into out; or
 * "unknown" and why: a version that cannot be had stops no trial. permit NULL: it may. LS_ESTATE:
 * cancel_fd became readable; LS_ECLOSED: the supervisor is gone; what permit refuses with. Nothing
 * of it runs afterwards. */
enum ls_err host_version_read(struct host_supervisor *supervisor, int cancel_fd,
                              const struct host_supervisor_job *job,
                              const struct host_permit *permit, int64_t limit_ns,
                              char out[HOST_VERSION_BYTES], struct ls_diag *diag) LS_NODISCARD;

#endif
