/* agent/host/sampler.h - what a process tree uses: CPU, memory, threads, context switches.
 *
 * CPU time is, to the nanosecond, the clock of each living process (which includes its ended
 * threads), plus, in 10 ms ticks, the time of descendants that were waited for, by whichever
 * ancestor: so workers that have ended stay counted, and the root, a subreaper, counts what was
 * orphaned. A child whose parent ignores SIGCHLD is waited for by nobody; it stays counted with
 * what it had at the last reading. The clock of a process that runs at this moment is exact; a sum
 * over its threads' /proc/.../schedstat would lose ended threads and lag by up to a tick, utime +
 * stime of /proc/PID/stat are cut to 10 ms each.
 *
 * Resident memory is summed, pages that processes share are counted for each. Context switches of
 * threads and processes that began and ended between two readings are not seen.
 *
 * One thread at a time. Where the kernel lets a target have a cgroup, its cpu.stat and memory.peak
 * are the better source; they would replace this file's reading, not its interface.
 */
#ifndef LS_AGENT_HOST_SAMPLER_H
#define LS_AGENT_HOST_SAMPLER_H

#include <sys/types.h>

#include "agent/host/target.h"
#include "common/err.h"

struct host_sampler;

/* Counts from now on what is below root, which itself is not counted. LS_ENOMEM; LS_ESTATE: no such
 * process. */
enum ls_err host_sampler_create(pid_t root, struct host_sampler **out_sampler,
                                struct ls_diag *diag) LS_NODISCARD;
void host_sampler_destroy(struct host_sampler *sampler); /* NULL is fine */

/* LS_ESTATE: nothing lives; CPU time and switches so far are in *out_usage nevertheless. LS_ENOMEM,
 * LS_EIO: *out_usage is untouched. */
enum ls_err host_sampler_read(struct host_sampler *sampler, int64_t now_ns,
                              struct host_usage *out_usage, struct ls_diag *diag) LS_NODISCARD;
/* This one is no part of the target: it counts for nothing but what it has waited for. */
void host_sampler_leave_out(struct host_sampler *sampler, pid_t pid);
/* Starts high-water marks of memory anew, from what is resident now. */
void host_sampler_reset_peak(struct host_sampler *sampler);

#endif
