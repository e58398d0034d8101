/* agent/host/proc.h - what /proc says of processes. Nothing here is exact about a process that
 * comes or goes meanwhile; callers look again. */
#ifndef LS_AGENT_HOST_PROC_H
#define LS_AGENT_HOST_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* One line of /proc/PID/stat. */
struct host_proc {
    pid_t pid;
    pid_t ppid;
    pid_t group;
    pid_t session;
    char state; /* 'Z': has ended, its parent has not asked yet */
    uint32_t threads;
    uint64_t start_ticks;    /* since boot; with pid it names one process for good */
    int64_t children_cpu_ns; /* of descendants that were waited for, in 10 ms ticks */
    uint64_t rss_bytes;
    char name[32]; /* of the first thread; a process may choose it */
};

/* False: there is no such process (any more). */
bool host_proc_read(pid_t pid, struct host_proc *out);
/* text: the content of /proc/PID/stat. False: not in that format. */
bool host_proc_parse(const char *text, struct host_proc *out);

/* All processes of this machine. LS_ENOMEM, LS_EIO. The caller frees *out_pids. */
enum ls_err host_proc_list(pid_t **out_pids, size_t *out_count, struct ls_diag *diag) LS_NODISCARD;

/* The processes below root, root itself not among them, parents before children. Zombies are
 * listed. LS_ENOMEM, LS_EIO. The caller frees *out_procs. */
enum ls_err host_proc_descendants(pid_t root, struct host_proc **out_procs, size_t *out_count,
                                  struct ls_diag *diag) LS_NODISCARD;

/* The children of the calling process's first thread, from /proc/self/task/PID/children: much
 * faster than a walk. At most max; false: this kernel has no such file. */
bool host_proc_own_children(pid_t *out_pids, size_t max, size_t *out_count);

/* Sends the signal to exactly the process that was read: a pid that has changed hands since is left
 * alone. False: it has gone. */
bool host_proc_kill(const struct host_proc *proc, int signal);

/* "nginx: master process /usr/sbin/nginx -p ..." or "[name]", for messages; returns out. */
const char *host_proc_command(pid_t pid, char *out, size_t out_bytes);

/* Reads a small file whole, cut at out_bytes - 1, NUL-terminated. -1: cannot be read. */
ssize_t host_proc_slurp(const char *path, char *out, size_t out_bytes);

#endif
