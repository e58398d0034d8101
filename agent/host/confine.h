/* agent/host/confine.h - what a program may not do that its agent may: user, privileges, limits.
 *
 * Every program that an agent starts gets a session of its own, no descriptors but three, signals
 * by default, umask 022, no core files, no ambient capabilities and no new privileges: no
 * set-user-ID program, no file capability gives it more than it has (prctl(2),
 * PR_SET_NO_NEW_PRIVS). A policy adds the rest.
 */
#ifndef LS_AGENT_HOST_CONFINE_H
#define LS_AGENT_HOST_CONFINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/cpuset.h"

/* All zero: what every program gets. Plain data, for it is sent to the supervisor. */
struct host_confine {
    bool change_user; /* needs CAP_SETUID and CAP_SETGID; supplementary groups are dropped */
    uid_t uid;
    gid_t gid;
    /* Executed and called (argv[0]) by its real path: programs of many names, such as busybox or
     * python in a virtual environment, do something else under another one. */
    bool by_real_path;
    uint64_t memory_bytes; /* RLIMIT_DATA; 0: as the agent's, and so on */
    uint64_t address_space_bytes;
    uint64_t file_bytes;
    uint32_t processes;
    uint32_t descriptors;
    bool has_cpus; /* its CPUs have to be among these */
    struct ls_cpuset cpus;
};

enum host_confine_step {
    HOST_CONFINE_LIMITS,
    HOST_CONFINE_USER,
    HOST_CONFINE_PRIVILEGES,
    HOST_CONFINE_STEP_COUNT
};

/* For the process that calls, between fork and exec; for good. 0, or an errno value, and which step
 * it was. A user that could not be changed for good is an error (EPERM), never passed over. */
int host_confine_apply(const struct host_confine *confine, enum host_confine_step *out_step);

#endif
