/* agent/host/netns.h - private network namespaces, without a name: nothing is left in /run/netns.
 *
 * A namespace is a thread's: what the thread opens and starts, processes and threads, is in it. One
 * lasts as long as somebody is in it.
 */
#ifndef LS_AGENT_HOST_NETNS_H
#define LS_AGENT_HOST_NETNS_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* Moves the calling thread into a new one with nothing but loopback, which is up. LS_EREFUSED: it
 * takes CAP_SYS_ADMIN; LS_EIO. */
enum ls_err host_netns_make(struct ls_diag *diag) LS_NODISCARD;

/* The number of the one that a process (0: the calling thread) is in; 0: it cannot be read. */
uint64_t host_netns_inode(pid_t pid);

/* Moves the calling thread into the one that pid is in, if that is the one with this number and pid
 * is the supervisor of a target. *out_back: the way back, for host_netns_leave(). LS_ESTATE: pid is
 * in another one, no supervisor, or no more; LS_EREFUSED, LS_EIO. */
enum ls_err host_netns_enter(pid_t pid, uint64_t inode, int *out_back,
                             struct ls_diag *diag) LS_NODISCARD;
/* LS_EIO: the thread is still in there. Closes back; -1 is fine: it has not entered any. */
enum ls_err host_netns_leave(int back, struct ls_diag *diag) LS_NODISCARD;

#endif
