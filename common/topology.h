/* common/topology.h - physical cores of a machine, and how programs that must not disturb each
 * other share them. Cores are taken whole, with all their hardware threads (SMT siblings): two
 * programs on the two threads of one core would slow each other down by a third.
 */
#ifndef LS_COMMON_TOPOLOGY_H
#define LS_COMMON_TOPOLOGY_H

#include <stdbool.h>

#include "common/cpuset.h"
#include "common/err.h"

struct ls_topology {
    unsigned core_count;
    struct ls_cpuset *cores; /* owned; neighbours in caches and NUMA nodes are neighbours here */
    unsigned thread_count;   /* of all cores */
    unsigned numa_nodes;
    unsigned sockets;
};

/* All of this machine, what this process may not use included; or of the one that synthetic
 * describes (hwloc's words: "numa:2 core:4 pu:2"). LS_EIO, LS_ENOMEM, LS_ERANGE (more than
 * LS_CPU_MAX threads). Takes some milliseconds. */
enum ls_err ls_topology_init(struct ls_topology *topology, const char *synthetic,
                             struct ls_diag *diag) LS_NODISCARD;
void ls_topology_fini(struct ls_topology *topology);

/* Divides the allowed CPUs among a server and clients (0: none). Of n cores that have an allowed
 * CPU the server gets half, rounded up, or what one core for each client leaves if that is less,
 * but at least one; clients share the rest evenly, the first ones one core more. With fewer cores
 * than that takes, clients share cores, and with a single one all share it: *out_shared is then
 * set. A core of which a part is allowed counts as a core. LS_ERANGE: nothing is allowed. */
enum ls_err ls_topology_divide(const struct ls_topology *topology, const struct ls_cpuset *allowed,
                               unsigned clients, struct ls_cpuset *out_server,
                               struct ls_cpuset out_clients[], bool *out_shared,
                               struct ls_diag *diag) LS_NODISCARD;

/* The same for this machine and the CPUs that this process may use (taskset, cgroups); allowed, if
 * not NULL, narrows them. */
enum ls_err ls_topology_split(const struct ls_cpuset *allowed, unsigned clients,
                              struct ls_cpuset *out_server, struct ls_cpuset out_clients[],
                              bool *out_shared, struct ls_diag *diag) LS_NODISCARD;

#endif
