/* coordinator/fleet/local.h - agents on this machine: processes that the coordinator starts, each
 * in a session of its own, and that dial it like any other. */
#ifndef LS_COORDINATOR_FLEET_LOCAL_H
#define LS_COORDINATOR_FLEET_LOCAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/cpuset.h"
#include "common/err.h"
#include "proto/wire.pb-c.h"

/* A local agent that has lost its coordinator ends within this. */
#define COORD_LOCAL_LEASE "2s"

struct coord_local {
    pid_t pid;     /* 0: not running */
    int pidfd;     /* readable when it has ended; -1: none */
    char log[320]; /* where its stderr goes */
};

/* The agent's program: $LOCKSTEP_AGENT, beside this program, or beside it in the build tree. */
enum ls_err coord_local_find_agent(char *out, size_t out_bytes, struct ls_diag *diag) LS_NODISCARD;

/* It may use cpus, whatever this process restricts itself to. folder is private and holds the
 * socket of url; the agent's own folder and log go there. */
enum ls_err coord_local_start(const struct ls_cpuset *cpus, const char *program, const char *folder,
                              const char *url, const char *name, Ls__Role role,
                              struct coord_local *out, struct ls_diag *diag) LS_NODISCARD;

/* True once it has ended; out says how ("exit 3", "signal KILL"), >= 64 bytes. */
bool coord_local_reap(struct coord_local *local, char *out, size_t out_bytes);
void coord_local_signal(const struct coord_local *local, int signal);
/* Does any process have folder in its command line? Agents of a coordinator that was killed have.
 */
bool coord_local_is_used(const char *folder);
/* Its last log lines as one line; "" if there are none. out holds out_bytes. */
void coord_local_log_tail(const struct coord_local *local, char *out, size_t out_bytes);

#endif
