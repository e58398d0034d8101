/* agent/policy/policy.h - what this host allows: programs, users, limits, load, files, and whose.
 *
 * A policy is a file of proto/policy.proto, or one of two that need none: "local" for an agent that
 * the same user's coordinator has started, who may do here what that user may do anyway; "remote"
 * for one that dials, which runs nothing and loads this host and the hosts of the run's servers.
 * Immutable once made: any thread may ask. Refusals are LS_EREFUSED and name the rule.
 */
#ifndef LS_AGENT_POLICY_POLICY_H
#define LS_AGENT_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "agent/files.h"
#include "agent/host/confine.h"
#include "agent/host/program.h"
#include "agent/load/workload.h"
#include "common/err.h"
#include "common/msg_yaml.h"
#include "proto/policy.pb-c.h"
#include "proto/wire.pb-c.h"

#define AGENT_POLICY_DEFAULT_FILE "/etc/lockstep/policy.yaml"
#define AGENT_POLICY_MAX_BYTES    (1u << 20)

struct agent_policy;

/* ---- made */

/* Reads a file. It, and every folder above it, must be root's or this process's user's and not be
 * writable for others, or whoever can write could allow himself anything. All mistakes are in
 * issues, with their positions (initialised by the caller with path). LS_EIO: it cannot be read;
 * LS_EREFUSED: who else could write it; LS_EINVAL, LS_ENOMEM. */
enum ls_err agent_policy_load(const char *path, struct ls_issues *issues,
                              struct agent_policy **out_policy) LS_NODISCARD;
/* The same from text; file names it in messages. root: does the agent run as root? */
enum ls_err agent_policy_parse(struct ls_bytes text, const char *file, bool root,
                               struct ls_issues *issues,
                               struct agent_policy **out_policy) LS_NODISCARD;

enum agent_policy_kind { AGENT_POLICY_LOCAL, AGENT_POLICY_REMOTE };
/* Without a file. LS_ENOMEM. */
enum ls_err agent_policy_without_file(enum agent_policy_kind kind,
                                      struct agent_policy **out_policy) LS_NODISCARD;
void agent_policy_destroy(struct agent_policy *policy); /* NULL is fine */

/* Does url lead to the same user's coordinator: ipc:// in a folder that is his or root's alone? */
bool agent_policy_url_is_local(const char *url);

/* ---- asked */

/* May it run a program at all? What a server without any should be told. */
bool agent_policy_runs_programs(const struct agent_policy *policy);
/* The refusal of one that may not, in words of what to do. Returns LS_EREFUSED. */
enum ls_err agent_policy_no_programs(const struct agent_policy *policy,
                                     struct ls_diag *diag) LS_NODISCARD;
/* Nothing is decided by a file: the agent's user may do here what he may do anyway. */
bool agent_policy_is_local(const struct agent_policy *policy);

/* Would a program that a file allows run as the agent's own user, and so be able to read what only
 * the agent is to know? */
bool agent_policy_shares_user(const struct agent_policy *policy);

/* name: as in the coordinator's certificate; "": it has proven none. */
enum ls_err agent_policy_coordinator(const struct agent_policy *policy, const char *name,
                                     struct ls_diag *diag) LS_NODISCARD;

struct agent_policy_command {
    const struct host_program_file *file; /* what would be executed */
    char *const *argv;                    /* expanded */
    bool version;                         /* it is only asked for its version */
    const char *dir;                      /* the trial's folder */
    char *const *variables;               /* names that the plan sets; NULL at the end */
};

/* *out: how it is to be confined. What was found by a name that the rule's path does not fit, a
 * link to the file, is called by the file's path. May read the file, to hash it. */
enum ls_err agent_policy_program(const struct agent_policy *policy,
                                 const struct agent_policy_command *command,
                                 struct host_confine *out, struct ls_diag *diag) LS_NODISCARD;

/* Everything that a prepared load would do but for its length: the very address that is connected
 * to, those that connections come from, how many, how fast. servers (count of them): literal
 * addresses of the run's server agents, as a coordinator states them. */
enum ls_err agent_policy_workload(const struct agent_policy *policy,
                                  const struct load_workload *workload, char *const *servers,
                                  size_t server_count, struct ls_diag *diag) LS_NODISCARD;
/* length_ns: from the start of the warm-up to the end of the drain. */
enum ls_err agent_policy_duration(const struct agent_policy *policy, int64_t length_ns,
                                  struct ls_diag *diag) LS_NODISCARD;

/* out borrows from policy. */
void agent_policy_files(const struct agent_policy *policy, struct agent_files_limits *out);
/* Does a program run as somebody else? Its folder has to be reachable for him then. */
bool agent_policy_changes_user(const struct agent_policy *policy);

/* Fills an initialised message, whose strings are then malloc'ed. LS_ENOMEM, with what there is. */
enum ls_err agent_policy_describe(const struct agent_policy *policy,
                                  Ls__HostLimits *out) LS_NODISCARD;

#endif
