/* agent/host/cgroup.h - a control group for one target: killed, counted and limited as one.
 *
 * Whatever is in it stays in it and so do its children, however they detach; what cannot be listed
 * fast enough is killed nevertheless (cgroup.kill), and nothing of it survives the agent and its
 * supervisor being killed in one moment: the next agent here sweeps it up.
 *
 * A group is made below the group that this process is in, in version 2 of the file system or, for
 * memory, processes and CPU time, in the hierarchies of version 1 where the host has those. Version
 * 2 gives groups limits only if the group above passes the controller on, which it may not do as
 * long as processes are in it: an agent that is alone in its group (a service with Delegate=yes)
 * moves itself out of the way for that. Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/.
 *
 * Functions that take a folder serve the supervisor process; they allocate nothing.
 */
#ifndef LS_AGENT_HOST_CGROUP_H
#define LS_AGENT_HOST_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define HOST_CGROUP_PATH    512
#define HOST_CGROUP_FOLDERS 4 /* of one group, at most: one in each hierarchy */

struct host_cgroup;

struct host_cgroup_limits { /* 0: none */
    uint64_t memory_bytes;
    uint32_t processes; /* and threads */
};

struct host_cgroup_use {
    int64_t cpu_ns; /* since the group was made; a tick behind for what runs at this moment */
    uint64_t memory_bytes;      /* with page cache; 0: not known, like the next two */
    uint64_t memory_peak_bytes; /* since host_cgroup_reset_peak() */
    uint64_t oom_kills;
};

/* *out_group NULL: this process may make none, and no limits are wanted. LS_EREFUSED: a limit that
 * this host cannot hold a group to, diag says which and why; LS_ENOMEM. Any thread. */
enum ls_err host_cgroup_create(const struct host_cgroup_limits *limits,
                               struct host_cgroup **out_group, struct ls_diag *diag) LS_NODISCARD;
/* Kills what is still in it and removes it. NULL is fine. */
void host_cgroup_destroy(struct host_cgroup *group);

/* Its folders, which live as long as it; returns how many. If kills_by() says how, the first is the
 * one to kill by. */
unsigned host_cgroup_folders(const struct host_cgroup *group, const char *out[HOST_CGROUP_FOLDERS]);
/* "cgroup.kill", "cgroup freezer"; "": this host has neither, it only counts and limits. */
const char *host_cgroup_kills_by(const struct host_cgroup *group);
const char *host_cgroup_cpu_from(const struct host_cgroup *group); /* "cpu.stat"; "": nothing */
/* The file that the limit was written to; "" without one. */
const char *host_cgroup_memory_by(const struct host_cgroup *group);
const char *host_cgroup_processes_by(const struct host_cgroup *group);

void host_cgroup_read(struct host_cgroup *group, struct host_cgroup_use *out);
void host_cgroup_reset_peak(struct host_cgroup *group);

/* What this process can make, for people: "v2 kill cpu; v1 memory pids"; "none"; out. */
const char *host_cgroup_describe(char *out, size_t out_bytes);

/* For a test: as on a host where no group can be made. */
void host_cgroup_forbid(bool forbid);

/* Kills and removes the groups of agents that are no more, which were made beside ours. At start.
 */
void host_cgroup_sweep(void);

/* The calling process, and what it starts from now on. 0 or an errno value. */
int host_cgroup_join(const char *folder);
/* Kills everything in it, once; what is being forked may need another call. */
void host_cgroup_kill(const char *folder);
/* With the groups that were made below it. Waits for a moment until what was killed in it has gone.
 * False: it is still there. */
bool host_cgroup_remove(const char *folder);

/* The folder, below the mounted file systems, of the group that a process is in. mountinfo, self:
 * content of its /proc files; controller: of version 1, "" for version 2. False: not mounted. */
bool host_cgroup_place(const char *mountinfo, const char *self, const char *controller,
                       char out[HOST_CGROUP_PATH]);

#endif
