#include "common/topology.h"

#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#include "common/share.h"

static enum ls_err copy_core(hwloc_obj_t core, struct ls_cpuset *out, struct ls_diag *diag)
{
    int cpu;

    ls_cpuset_clear(out);
    for (cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(core->cpuset, cpu)) {
        if (cpu >= LS_CPU_MAX)
            return ls_fail(diag, LS_ERANGE, "CPU %d is beyond the %d that are supported", cpu,
                           LS_CPU_MAX);
        ls_cpuset_add(out, (unsigned)cpu);
    }
    return LS_OK;
}

static enum ls_err copy_cores(hwloc_topology_t system, struct ls_topology *out,
                              struct ls_diag *diag)
{
    /* Some virtual machines show no cores: then each thread counts as one. */
    hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(system, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    int count = hwloc_get_nbobjs_by_type(system, type);
    enum ls_err rc = LS_OK;

    if (count <= 0)
        return ls_fail(diag, LS_EIO, "hwloc finds no CPU on this machine");
    out->cores = calloc((size_t)count, sizeof(*out->cores));
    if (out->cores == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for %d cores", count);
    for (int i = 0; i < count && rc == LS_OK; i++) {
        rc = copy_core(hwloc_get_obj_by_type(system, type, (unsigned)i), &out->cores[i], diag);
        if (ls_cpuset_count(&out->cores[i]) > 0)
            out->core_count = (unsigned)i + 1;
        out->thread_count += ls_cpuset_count(&out->cores[i]);
    }
    return rc;
}

enum ls_err ls_topology_init(struct ls_topology *topology, const char *synthetic,
                             struct ls_diag *diag)
{
    struct ls_topology found = { 0 };
    hwloc_topology_t system;
    enum ls_err rc = LS_OK;
    int nodes, sockets;

    if (hwloc_topology_init(&system) != 0)
        return ls_fail(diag, LS_ENOMEM, "hwloc cannot be set up: %s", strerror(errno));
    if (synthetic != NULL && hwloc_topology_set_synthetic(system, synthetic) != 0)
        rc = ls_fail(diag, LS_EINVAL, "hwloc does not understand the topology \"%s\"", synthetic);
    if (rc == LS_OK &&
        (hwloc_topology_set_flags(system, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
         hwloc_topology_load(system) != 0))
        rc = ls_fail(diag, LS_EIO, "hwloc cannot read this machine's CPUs: %s", strerror(errno));
    if (rc == LS_OK)
        rc = copy_cores(system, &found, diag);
    if (rc == LS_OK) {
        nodes = hwloc_get_nbobjs_by_type(system, HWLOC_OBJ_NUMANODE);
        found.numa_nodes = nodes > 0 ? (unsigned)nodes : 1;
        sockets = hwloc_get_nbobjs_by_type(system, HWLOC_OBJ_PACKAGE);
        found.sockets = sockets > 0 ? (unsigned)sockets : 1;
        *topology = found;
        found.cores = NULL;
    }
    free(found.cores);
    hwloc_topology_destroy(system);
    return rc;
}

void ls_topology_fini(struct ls_topology *topology)
{
    free(topology->cores);
    *topology = (struct ls_topology){ 0 };
}

static void intersect(const struct ls_cpuset *a, const struct ls_cpuset *b, struct ls_cpuset *out)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(out->bits); i++)
        out->bits[i] = a->bits[i] & b->bits[i];
}

/* Adds what is allowed of cores[from .. from + count) to set. */
static void add_cores(const struct ls_cpuset *cores, unsigned from, unsigned count,
                      struct ls_cpuset *set)
{
    for (unsigned i = from; i < from + count; i++) {
        for (size_t word = 0; word < LS_ARRAY_LEN(set->bits); word++)
            set->bits[word] |= cores[i].bits[word];
    }
}

/* rest cores from the given one on, for clients; with too few, one each in rotation. */
static void serve_clients(const struct ls_cpuset *cores, unsigned from, unsigned rest,
                          unsigned clients, struct ls_cpuset out_clients[])
{
    unsigned next = from;

    for (unsigned i = 0; i < clients; i++) {
        unsigned count = rest >= clients ? (unsigned)ls_share(rest, clients, i) : 1;

        ls_cpuset_clear(&out_clients[i]);
        add_cores(cores, rest >= clients ? next : from + i % rest, count, &out_clients[i]);
        next += count;
    }
}

static unsigned servers_part(unsigned cores, unsigned clients)
{
    unsigned half = (cores + 1) / 2;
    unsigned left = cores > clients ? cores - clients : 1;

    return half < left ? half : left;
}

enum ls_err ls_topology_divide(const struct ls_topology *topology, const struct ls_cpuset *allowed,
                               unsigned clients, struct ls_cpuset *out_server,
                               struct ls_cpuset out_clients[], bool *out_shared,
                               struct ls_diag *diag)
{
    struct ls_cpuset *cores = calloc((size_t)topology->core_count + 1, sizeof(*cores));
    unsigned count = 0, server, rest;
    char list[128];

    if (cores == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for %u cores", topology->core_count);
    for (unsigned i = 0; i < topology->core_count; i++) {
        intersect(&topology->cores[i], allowed, &cores[count]);
        if (ls_cpuset_count(&cores[count]) > 0)
            count++;
    }
    if (count == 0) {
        free(cores);
        return ls_fail(diag, LS_ERANGE, "none of the CPUs %s is there and allowed",
                       ls_cpuset_format(allowed, list, sizeof(list)));
    }
    server = clients == 0 ? count : servers_part(count, clients);
    rest = count - server;
    ls_cpuset_clear(out_server);
    add_cores(cores, 0, server, out_server);
    if (rest == 0 && clients > 0)
        serve_clients(cores, 0, 1, clients, out_clients);
    else if (clients > 0)
        serve_clients(cores, server, rest, clients, out_clients);
    *out_shared = rest < clients;
    free(cores);
    return LS_OK;
}

enum ls_err ls_topology_split(const struct ls_cpuset *allowed, unsigned clients,
                              struct ls_cpuset *out_server, struct ls_cpuset out_clients[],
                              bool *out_shared, struct ls_diag *diag)
{
    struct ls_topology topology;
    struct ls_cpuset own;
    enum ls_err rc = ls_cpuset_get_affinity(0, &own, diag);

    if (rc == LS_OK)
        rc = ls_topology_init(&topology, NULL, diag);
    if (rc != LS_OK)
        return rc;
    if (allowed != NULL)
        intersect(&own, allowed, &own);
    rc = ls_topology_divide(&topology, &own, clients, out_server, out_clients, out_shared, diag);
    ls_topology_fini(&topology);
    return rc;
}
