/* coordinator/fleet/cpus.h - which CPUs each agent gets: those of one host are divided among its
 * agents, whatever they are called. */
#ifndef LS_COORDINATOR_FLEET_CPUS_H
#define LS_COORDINATOR_FLEET_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cpuset.h"
#include "common/err.h"
#include "common/topology.h"
#include "proto/plan.pb-c.h"

struct coord_cpus {
    struct ls_cpuset *agents; /* owned; servers first, then clients */
    uint32_t *hosts;          /* owned; of each, an index; NULL: all are on one */
    uint32_t servers;
    uint32_t clients;
    bool shared;   /* two agents have a CPU in common */
    char why[200]; /* with figures, when shared */
};

/* Of one host. topology NULL: this machine. auto: whole physical cores, half of them for the
 * servers; lists as they are, the clients' divided among them. allowed is what this process may
 * use. LS_ERANGE: a list names a CPU that it may not; LS_EINVAL: lists overlap and the plan does
 * not allow it. On LS_OK end with coord_cpus_fini. */
enum ls_err coord_cpus_assign(const Ls__FleetCpus *wish, const struct ls_cpuset *allowed,
                              const struct ls_topology *topology, uint32_t servers,
                              uint32_t clients, struct coord_cpus *out,
                              struct ls_diag *diag) LS_NODISCARD;

struct coord_cpus_agent {
    const char *name;         /* for messages */
    const char *list;         /* that it is to have; NULL: as fleet.cpus says */
    struct ls_cpuset allowed; /* that it may use */
    uint32_t host;            /* index */
};

/* Of all hosts; agents: servers first. hosts[i] NULL: this machine. Errors as above; LS_EINVAL also
 * if agents of one host were to overlap by their own lists. On LS_OK end with coord_cpus_fini. */
enum ls_err coord_cpus_place(const Ls__FleetCpus *wish, const struct coord_cpus_agent *agents,
                             uint32_t servers, uint32_t clients,
                             const struct ls_topology *const *hosts, uint32_t host_count,
                             struct coord_cpus *out, struct ls_diag *diag) LS_NODISCARD;
/* Has this agent a CPU in common with another one of its host? */
bool coord_cpus_is_shared(const struct coord_cpus *cpus, uint32_t agent);
void coord_cpus_fini(struct coord_cpus *cpus);

#endif
