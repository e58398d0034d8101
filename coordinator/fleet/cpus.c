#include "coordinator/fleet/cpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/share.h"
#include "common/topology.h"

static bool is_auto(const char *list)
{
    return list == NULL || strcmp(list, "auto") == 0;
}

static enum ls_err parse(const char *whose, const char *list, const struct ls_cpuset *allowed,
                         struct ls_cpuset *out, struct ls_diag *diag)
{
    char text[128];
    enum ls_err rc = ls_cpuset_parse(list, out, diag);

    if (rc != LS_OK)
        return ls_fail_in(diag, rc, "fleet.cpus.%s", whose);
    if (ls_cpuset_count(out) == 0)
        return ls_fail(diag, LS_EINVAL, "fleet.cpus.%s: an empty list; give CPUs or auto", whose);
    if (!ls_cpuset_contains(allowed, out))
        return ls_fail(diag, LS_ERANGE,
                       "fleet.cpus.%s: %s is not within the CPUs that may be used here, %s", whose,
                       list, ls_cpuset_format(allowed, text, sizeof(text)));
    return LS_OK;
}

/* Divides a list evenly; with fewer CPUs than clients, all clients share all of it. */
static void divide(const struct ls_cpuset *list, struct coord_cpus *cpus)
{
    unsigned n = ls_cpuset_count(list);
    unsigned at = 0;

    for (uint32_t i = 0; i < cpus->clients; i++) {
        struct ls_cpuset *mine = &cpus->agents[cpus->servers + i];

        if (n < cpus->clients) {
            *mine = *list;
            continue;
        }
        ls_cpuset_clear(mine);
        for (uint64_t k = ls_share(n, cpus->clients, i); k > 0; k--)
            ls_cpuset_add(mine, (unsigned)ls_cpuset_nth(list, at++));
    }
}

static void subtract(struct ls_cpuset *from, const struct ls_cpuset *what)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(from->bits); i++)
        from->bits[i] &= ~what->bits[i];
}

/* Both lists are auto: whole cores by the machine's topology. */
static enum ls_err split(const struct ls_cpuset *allowed, struct coord_cpus *cpus,
                         struct ls_diag *diag)
{
    struct ls_cpuset server;
    bool shared = false;
    enum ls_err rc;

    if (cpus->servers == 0) {
        divide(allowed, cpus);
        return LS_OK;
    }
    rc = ls_topology_split(allowed, cpus->clients, &server, cpus->agents + cpus->servers, &shared,
                           diag);
    for (uint32_t i = 0; i < cpus->servers; i++)
        cpus->agents[i] = server;
    return rc;
}

static enum ls_err by_lists(const Ls__FleetCpus *wish, const struct ls_cpuset *allowed,
                            struct coord_cpus *cpus, struct ls_diag *diag)
{
    struct ls_cpuset server = { { 0 } };
    struct ls_cpuset client = { { 0 } };
    enum ls_err rc = LS_OK;

    if (!is_auto(wish->server))
        rc = parse("server", wish->server, allowed, &server, diag);
    if (rc == LS_OK && !is_auto(wish->client))
        rc = parse("client", wish->client, allowed, &client, diag);
    if (rc != LS_OK)
        return rc;
    if (is_auto(wish->server)) { /* what the other list leaves, or all of it */
        server = *allowed;
        subtract(&server, &client);
        server = ls_cpuset_count(&server) > 0 ? server : *allowed;
    }
    if (is_auto(wish->client)) {
        client = *allowed;
        if (cpus->servers > 0)
            subtract(&client, &server);
        client = ls_cpuset_count(&client) > 0 ? client : *allowed;
    }
    if (cpus->servers > 0 && !is_auto(wish->server) && !is_auto(wish->client) &&
        ls_cpuset_intersects(&server, &client) && !wish->allow_overlap)
        return ls_fail(diag, LS_EINVAL,
                       "fleet.cpus: server %s and client %s overlap; choose disjoint lists or set "
                       "allow_overlap: true",
                       wish->server, wish->client);
    for (uint32_t i = 0; i < cpus->servers; i++)
        cpus->agents[i] = server;
    divide(&client, cpus);
    return LS_OK;
}

bool coord_cpus_is_shared(const struct coord_cpus *cpus, uint32_t agent)
{
    for (uint32_t i = 0; i < cpus->servers + cpus->clients; i++) {
        if (i != agent && ls_cpuset_intersects(&cpus->agents[i], &cpus->agents[agent]))
            return true;
    }
    return false;
}

static void find_shared(struct coord_cpus *cpus, const struct ls_cpuset *allowed)
{
    uint32_t n = cpus->servers + cpus->clients;

    for (uint32_t i = 0; i < n; i++)
        cpus->shared |= coord_cpus_is_shared(cpus, i);
    if (cpus->shared)
        (void)snprintf(cpus->why, sizeof(cpus->why), "%u usable CPUs for %u agents",
                       ls_cpuset_count(allowed), n);
}

enum ls_err coord_cpus_assign(const Ls__FleetCpus *wish, const struct ls_cpuset *allowed,
                              uint32_t servers, uint32_t clients, struct coord_cpus *out,
                              struct ls_diag *diag)
{
    struct coord_cpus cpus = { .servers = servers, .clients = clients };
    enum ls_err rc;

    cpus.agents = calloc((size_t)servers + clients + 1, sizeof(*cpus.agents));
    if (cpus.agents == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the CPU lists");
    if (wish == NULL || (is_auto(wish->server) && is_auto(wish->client)))
        rc = split(allowed, &cpus, diag);
    else
        rc = by_lists(wish, allowed, &cpus, diag);
    if (rc != LS_OK) {
        free(cpus.agents);
        return rc;
    }
    find_shared(&cpus, allowed);
    *out = cpus;
    return LS_OK;
}

void coord_cpus_fini(struct coord_cpus *cpus)
{
    free(cpus->agents);
    cpus->agents = NULL;
}
