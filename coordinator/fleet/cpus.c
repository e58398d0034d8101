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
static enum ls_err split(const struct ls_cpuset *allowed, const struct ls_topology *topology,
                         struct coord_cpus *cpus, struct ls_diag *diag)
{
    struct ls_cpuset server;
    bool shared = false;
    enum ls_err rc;

    if (cpus->servers == 0) {
        divide(allowed, cpus);
        return LS_OK;
    }
    if (topology != NULL)
        rc = ls_topology_divide(topology, allowed, cpus->clients, &server,
                                cpus->agents + cpus->servers, &shared, diag);
    else
        rc = ls_topology_split(allowed, cpus->clients, &server, cpus->agents + cpus->servers,
                               &shared, diag);
    if (rc != LS_OK)
        return rc;
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

    if (!is_auto(wish->server) && cpus->servers > 0)
        rc = parse("server", wish->server, allowed, &server, diag);
    if (rc == LS_OK && !is_auto(wish->client) && cpus->clients > 0)
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
        if (i < cpus->servers && agent < cpus->servers)
            continue; /* of servers, one at a time has something to do */
        if (i != agent && (cpus->hosts == NULL || cpus->hosts[i] == cpus->hosts[agent]) &&
            ls_cpuset_intersects(&cpus->agents[i], &cpus->agents[agent]))
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
                              const struct ls_topology *topology, uint32_t servers,
                              uint32_t clients, struct coord_cpus *out, struct ls_diag *diag)
{
    struct coord_cpus cpus = { .servers = servers, .clients = clients };
    enum ls_err rc;

    cpus.agents = calloc((size_t)servers + clients + 1, sizeof(*cpus.agents));
    if (cpus.agents == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the CPU lists");
    if (wish == NULL || (is_auto(wish->server) && is_auto(wish->client)))
        rc = split(allowed, topology, &cpus, diag);
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

/* ---- several hosts */

struct placing {
    const Ls__FleetCpus *wish;
    const struct coord_cpus_agent *agents;
    struct coord_cpus *cpus;
};

static void add(struct ls_cpuset *to, const struct ls_cpuset *what)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(to->bits); i++)
        to->bits[i] |= what->bits[i];
}

static void intersect(struct ls_cpuset *with, const struct ls_cpuset *what)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(with->bits); i++)
        with->bits[i] &= what->bits[i];
}

/* Those with lists of their own. out_rest: what is left for the host's others. */
static enum ls_err place_listed(struct placing *p, uint32_t host, struct ls_cpuset *out_rest,
                                struct ls_diag *diag)
{
    struct ls_cpuset all = { { 0 } }, taken = { { 0 } };
    char text[128];

    for (uint32_t i = 0; i < p->cpus->servers + p->cpus->clients; i++) {
        const struct coord_cpus_agent *agent = &p->agents[i];
        struct ls_cpuset *mine = &p->cpus->agents[i];
        enum ls_err rc;

        if (agent->host != host)
            continue;
        add(&all, &agent->allowed);
        if (agent->list == NULL)
            continue;
        rc = ls_cpuset_parse(agent->list, mine, diag);
        if (rc != LS_OK)
            return ls_fail_in(diag, rc, "cpus of %s", agent->name);
        if (!ls_cpuset_contains(&agent->allowed, mine))
            return ls_fail(diag, LS_ERANGE, "cpus of %s: %s is not within those it may use, %s",
                           agent->name, agent->list,
                           ls_cpuset_format(&agent->allowed, text, sizeof(text)));
        if (ls_cpuset_intersects(&taken, mine) && !p->wish->allow_overlap)
            return ls_fail(diag, LS_EINVAL,
                           "cpus of %s: another agent of the same host has some of %s; choose "
                           "disjoint lists or set fleet.cpus.allow_overlap: true",
                           agent->name, agent->list);
        add(&taken, mine);
    }
    *out_rest = all;
    subtract(out_rest, &taken);
    if (ls_cpuset_count(out_rest) == 0)
        *out_rest = all;
    return LS_OK;
}

/* Every agent was given CPUs of its own where it runs: then that is what it has. */
static bool allowed_is_disjoint(const struct placing *p, uint32_t host)
{
    struct ls_cpuset seen = { { 0 } };

    for (uint32_t i = 0; i < p->cpus->servers + p->cpus->clients; i++) {
        if (p->agents[i].host != host || p->agents[i].list != NULL)
            continue;
        if (ls_cpuset_intersects(&seen, &p->agents[i].allowed))
            return false;
        add(&seen, &p->agents[i].allowed);
    }
    return true;
}

static bool is_placed_so(const struct placing *p, uint32_t i, uint32_t host)
{
    return p->agents[i].host == host && p->agents[i].list == NULL;
}

/* The others: as a host of theirs alone. */
static enum ls_err place_rest(struct placing *p, uint32_t host, const struct ls_topology *topology,
                              const struct ls_cpuset *rest, struct ls_diag *diag)
{
    uint32_t n = p->cpus->servers + p->cpus->clients, servers = 0, clients = 0, at = 0;
    bool lists = !is_auto(p->wish->server) || !is_auto(p->wish->client);
    struct coord_cpus part;
    enum ls_err rc;

    for (uint32_t i = 0; i < n; i++) {
        if (is_placed_so(p, i, host))
            (*(i < p->cpus->servers ? &servers : &clients))++;
    }
    if (servers + clients == 0)
        return LS_OK;
    if (!lists && allowed_is_disjoint(p, host)) {
        for (uint32_t i = 0; i < n; i++) {
            if (!is_placed_so(p, i, host))
                continue;
            p->cpus->agents[i] = p->agents[i].allowed;
            intersect(&p->cpus->agents[i], rest);
        }
        return LS_OK;
    }
    rc = coord_cpus_assign(p->wish, rest, topology, servers, clients, &part, diag);
    for (uint32_t i = 0; i < n && rc == LS_OK; i++) {
        struct ls_cpuset *mine = &p->cpus->agents[i];

        if (!is_placed_so(p, i, host))
            continue;
        *mine = part.agents[at++];
        if (lists && !ls_cpuset_contains(&p->agents[i].allowed, mine))
            rc = ls_fail(diag, LS_ERANGE, "fleet.cpus: %s may not use all of them there",
                         p->agents[i].name);
        intersect(mine, &p->agents[i].allowed);
        if (ls_cpuset_count(mine) == 0)
            *mine = p->agents[i].allowed;
    }
    if (at > 0)
        coord_cpus_fini(&part);
    return rc;
}

static void find_shared_on(const struct placing *p, const struct ls_cpuset *all, uint32_t host)
{
    struct coord_cpus *cpus = p->cpus;
    uint32_t n = 0;
    bool shared = false;

    for (uint32_t i = 0; i < cpus->servers + cpus->clients; i++) {
        n += p->agents[i].host == host;
        shared |= p->agents[i].host == host && coord_cpus_is_shared(cpus, i);
    }
    if (!shared || cpus->shared)
        return;
    cpus->shared = true;
    (void)snprintf(cpus->why, sizeof(cpus->why), "%u usable CPUs for %u agents",
                   ls_cpuset_count(all), n);
}

static enum ls_err place_host(struct placing *p, uint32_t host, const struct ls_topology *topology,
                              struct ls_diag *diag)
{
    struct ls_cpuset rest, all = { { 0 } };
    enum ls_err rc = place_listed(p, host, &rest, diag);

    if (rc == LS_OK)
        rc = place_rest(p, host, topology, &rest, diag);
    for (uint32_t i = 0; i < p->cpus->servers + p->cpus->clients; i++) {
        if (p->agents[i].host == host)
            add(&all, &p->agents[i].allowed);
    }
    if (rc == LS_OK)
        find_shared_on(p, &all, host);
    return rc;
}

enum ls_err coord_cpus_place(const Ls__FleetCpus *wish, const struct coord_cpus_agent *agents,
                             uint32_t servers, uint32_t clients,
                             const struct ls_topology *const *hosts, uint32_t host_count,
                             struct coord_cpus *out, struct ls_diag *diag)
{
    size_t n = (size_t)servers + clients;
    struct coord_cpus cpus = { .servers = servers,
                               .clients = clients,
                               .agents = calloc(n + 1, sizeof(*cpus.agents)),
                               .hosts = calloc(n + 1, sizeof(*cpus.hosts)) };
    struct placing p = { .wish = wish, .agents = agents, .cpus = &cpus };
    enum ls_err rc = LS_OK;

    if (cpus.agents == NULL || cpus.hosts == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "out of memory for the CPU lists");
    for (uint32_t i = 0; rc == LS_OK && i < n; i++)
        cpus.hosts[i] = agents[i].host;
    for (uint32_t host = 0; host < host_count && rc == LS_OK; host++)
        rc = place_host(&p, host, hosts[host], diag);
    if (rc != LS_OK) {
        coord_cpus_fini(&cpus);
        return rc;
    }
    *out = cpus;
    return LS_OK;
}

void coord_cpus_fini(struct coord_cpus *cpus)
{
    free(cpus->agents);
    free(cpus->hosts);
    cpus->agents = NULL;
    cpus->hosts = NULL;
}
