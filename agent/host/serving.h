/* agent/host/serving.h - which processes of a tree listen, and which have taken connections.
 *
 * One process of several answers as soon as it listens, and a cluster as soon as one of its workers
 * does; who is not there yet shows in the tables of sockets and descriptors only.
 */
#ifndef LS_AGENT_HOST_SERVING_H
#define LS_AGENT_HOST_SERVING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct host_server_process {
    pid_t pid;
    pid_t top;          /* the child of root that it descends from, perhaps itself */
    bool listens;       /* on the port */
    bool serves;        /* holds a connection to the port */
    uint16_t elsewhere; /* another port that it listens on; 0: none */
};

/* Of all processes below root, in the network namespace of the calling thread. A socket that
 * several share counts for each. LS_ENOMEM, LS_EIO. The caller frees *out_processes. */
enum ls_err host_serving_read(pid_t root, uint16_t port, struct host_server_process **out_processes,
                              size_t *out_count, struct ls_diag *diag) LS_NODISCARD;

#endif
