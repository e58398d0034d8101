/* coordinator/fleet/cpus.h - which CPUs each agent of this machine gets. */
#ifndef LS_COORDINATOR_FLEET_CPUS_H
#define LS_COORDINATOR_FLEET_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cpuset.h"
#include "common/err.h"
#include "proto/plan.pb-c.h"

struct coord_cpus {
    struct ls_cpuset *agents; /* owned; servers first, then clients */
    uint32_t servers;
    uint32_t clients;
    bool shared;   /* two agents have a CPU in common */
    char why[200]; /* with figures, when shared */
};

/* auto: whole physical cores, half of them for the servers; lists as they are, the clients' divided
 * among them. allowed is what this process may use. LS_ERANGE: a list names a CPU that it may not;
 * LS_EINVAL: lists overlap and the plan does not allow it. On LS_OK end with coord_cpus_fini. */
enum ls_err coord_cpus_assign(const Ls__FleetCpus *wish, const struct ls_cpuset *allowed,
                              uint32_t servers, uint32_t clients, struct coord_cpus *out,
                              struct ls_diag *diag) LS_NODISCARD;
/* Has this agent a CPU in common with another one? */
bool coord_cpus_is_shared(const struct coord_cpus *cpus, uint32_t agent);
void coord_cpus_fini(struct coord_cpus *cpus);

#endif
