/* The fleet of a run: who takes part, on which CPUs, and at which addresses. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/credentials.h"
#include "common/log.h"
#include "common/topology.h"
#include "coordinator/run/run_internal.h"

#define ENROL_TIMEOUT_NS   (15 * LS_NS_PER_S) /* of local agents */
#define EARLIER_TIMEOUT_NS (30 * LS_NS_PER_S)
#define BYE_TIMEOUT_NS     (5 * LS_NS_PER_S)
#define LOOK_NS            (100 * LS_NS_PER_MS) /* for who is missing, while agents come */

enum ls_err run_await_earlier_agents(struct run *r, struct ls_diag *diag)
{
    const char *folder = r->result->agents_folder;
    int64_t limit_ns = ls_clock_mono_ns() + EARLIER_TIMEOUT_NS;
    bool said = false;

    if (r->options->resumed == NULL || folder[0] == '\0')
        return LS_OK;
    while (coord_local_is_used(folder)) {
        if (ls_clock_mono_ns() >= limit_ns)
            return ls_fail(diag, LS_ETIMEOUT,
                           "agents of the run before are still alive: look for processes whose "
                           "command line has %.200s",
                           folder);
        if (!said)
            coord_progress_note(r->progress, "waiting for the agents of the run before to end");
        said = true;
        ls_clock_sleep_until(ls_clock_mono_ns() + 50 * LS_NS_PER_MS);
    }
    return LS_OK;
}

enum ls_err run_plan_fleet(struct run *r, struct ls_diag *diag)
{
    const Ls__Fleet *wish = r->options->plan->fleet;
    enum ls_err rc = ls_cpuset_get_affinity(0, &r->allowed, diag);

    for (size_t i = 0; i < r->options->plan->n_targets; i++) {
        if (!r->options->plan->targets[i]->external)
            r->servers = wish->servers;
    }
    r->clients = wish->clients;
    r->clients_used = wish->clients;
    if (rc != LS_OK || r->options->listen != NULL)
        return rc;
    return coord_cpus_assign(wish->cpus, &r->allowed, NULL, r->servers, r->clients, &r->cpus, diag);
}

/* ---- CPUs */

/* The coordinator keeps off the CPUs of the server under test, where there are others. */
static void keep_off(const struct run *r)
{
    struct ls_cpuset rest = r->allowed;
    struct ls_diag diag;

    if (r->servers == 0)
        return;
    for (uint32_t server = 0; server < r->servers; server++) {
        for (size_t i = 0; i < LS_ARRAY_LEN(rest.bits); i++)
            rest.bits[i] &= ~r->cpus.agents[server].bits[i];
    }
    if (ls_cpuset_count(&rest) > 0 && ls_cpuset_set_affinity(0, &rest, &diag) != LS_OK)
        ls_log(LS_LOG_WARN, "run.not_pinned", "%s", diag.text);
}

static void hand_out_cpus(struct run *r)
{
    for (uint32_t i = 0; i < coord_fleet_size(r->fleet); i++) {
        struct coord_agent *a = coord_fleet_agent(r->fleet, i);

        a->cpus = r->cpus.agents[i];
        a->cpus_shared = coord_cpus_is_shared(&r->cpus, i);
    }
}

/* The cores of an agent's host, as it says. */
static enum ls_err read_topology(const struct coord_agent *a, struct ls_topology *out,
                                 struct ls_diag *diag)
{
    struct ls_topology topology = { .numa_nodes = 1 };
    enum ls_err rc = LS_OK;

    if (a->hello->n_cores == 0 || a->hello->n_cores > LS_CPU_MAX)
        return ls_fail(diag, LS_EPROTO, "agent %s does not say what cores its host has", a->name);
    topology.cores = calloc(a->hello->n_cores, sizeof(*topology.cores));
    if (topology.cores == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the cores of agent %s", a->name);
    for (size_t i = 0; i < a->hello->n_cores && rc == LS_OK; i++) {
        rc = ls_cpuset_parse(a->hello->cores[i], &topology.cores[i], diag);
        topology.core_count++;
    }
    if (rc != LS_OK) {
        ls_topology_fini(&topology);
        return ls_fail_in(diag, rc, "the cores of agent %s", a->name);
    }
    *out = topology;
    return LS_OK;
}

struct hosts {
    struct coord_cpus_agent *agents; /* owned, like the others */
    struct ls_topology *topologies;
    const struct ls_topology **pointers;
    uint32_t count;
};

static void hosts_fini(struct hosts *h)
{
    for (uint32_t i = 0; i < h->count; i++)
        ls_topology_fini(&h->topologies[i]);
    free(h->agents);
    free(h->topologies);
    free(h->pointers);
}

/* Agents without an id have a host each: nothing is known against it. */
static uint32_t find_host(const struct run *r, const struct hosts *h, uint32_t agent)
{
    const char *id = coord_fleet_agent(r->fleet, agent)->hello->host_id;

    for (uint32_t i = 0; i < agent && id[0] != '\0'; i++) {
        if (strcmp(coord_fleet_agent(r->fleet, i)->hello->host_id, id) == 0)
            return h->agents[i].host;
    }
    return h->count;
}

static enum ls_err add_agent(struct run *r, struct hosts *h, uint32_t i, struct ls_diag *diag)
{
    const struct coord_agent *a = coord_fleet_agent(r->fleet, i);
    struct coord_cpus_agent *agent = &h->agents[i];
    enum ls_err rc;

    agent->name = a->name;
    agent->list = a->wish != NULL ? a->wish->cpus : NULL;
    if (a->facts == NULL ||
        ls_cpuset_parse(a->facts->cpus_allowed, &agent->allowed, diag) != LS_OK ||
        ls_cpuset_count(&agent->allowed) == 0)
        return ls_fail(diag, LS_EPROTO, "agent %s does not say which CPUs it may use", a->name);
    agent->host = find_host(r, h, i);
    if (agent->host < h->count)
        return LS_OK;
    rc = read_topology(a, &h->topologies[h->count], diag);
    if (rc != LS_OK)
        return rc;
    h->pointers[h->count] = &h->topologies[h->count];
    h->count++;
    return LS_OK;
}

/* Agents of one running system share its CPUs, whatever they are called. */
static enum ls_err place_remote(struct run *r, struct ls_diag *diag)
{
    uint32_t n = coord_fleet_size(r->fleet);
    struct hosts h = { .agents = calloc(n, sizeof(*h.agents)),
                       .topologies = calloc(n, sizeof(*h.topologies)),
                       .pointers = calloc(n, sizeof(struct ls_topology *)) };
    enum ls_err rc = h.agents != NULL && h.topologies != NULL && h.pointers != NULL
                         ? LS_OK
                         : ls_fail(diag, LS_ENOMEM, "out of memory for the CPU lists");

    for (uint32_t i = 0; i < n && rc == LS_OK; i++)
        rc = add_agent(r, &h, i, diag);
    if (rc == LS_OK)
        rc = coord_cpus_place(r->options->plan->fleet->cpus, h.agents, r->servers, r->clients,
                              h.pointers, h.count, &r->cpus, diag);
    hosts_fini(&h);
    return rc;
}

/* ---- addresses */

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool is_auto(const Ls__Target *target)
{
    return strcmp(target->host, "auto") == 0;
}

uint32_t run_server_of(const struct run *r, const Ls__Target *target)
{
    for (uint32_t i = 0; target->server != NULL && i < r->servers; i++) {
        if (strcmp(coord_fleet_agent(r->fleet, i)->name, target->server) == 0)
            return i;
    }
    return 0;
}

const char *run_target_host(const struct run *r, const Ls__Target *target)
{
    if (!is_auto(target))
        return target->host;
    if (target->network == LS__NETWORK__NETWORK_PRIVATE)
        return "127.0.0.1";
    if (r->options->listen == NULL || r->servers == 0)
        return "127.0.0.1";
    return coord_fleet_agent(r->fleet, run_server_of(r, target))->address;
}

/* A private network is on one host. */
static enum ls_err check_same_host(struct run *r, const Ls__Target *target, struct ls_diag *diag)
{
    const struct coord_agent *server = coord_fleet_agent(r->fleet, run_server_of(r, target));

    for (uint32_t i = r->servers; i < coord_fleet_size(r->fleet); i++) {
        const struct coord_agent *a = coord_fleet_agent(r->fleet, i);

        if (a->hello != NULL && server->hello != NULL && a->hello->host_id[0] != '\0' &&
            strcmp(a->hello->host_id, server->hello->host_id) == 0)
            continue;
        return ls_fail(diag, LS_EINVAL,
                       "target %s has a private network, which client %s cannot enter from another "
                       "host than that of server %s: run the clients there, or leave "
                       "targets[].network out",
                       target->name, a->name, server->name);
    }
    return LS_OK;
}

/* 127.0.0.1 is another host on each: only clients that come from here by loopback, too, mean the
 * same by it. */
static enum ls_err check_target(struct run *r, const Ls__Target *target, struct ls_diag *diag)
{
    const char *host = run_target_host(r, target);

    if (target->server != NULL && !target->external &&
        strcmp(coord_fleet_agent(r->fleet, run_server_of(r, target))->name, target->server) != 0)
        return ls_fail(diag, LS_EINVAL, "target %s is for server %s, which is not in this run",
                       target->name, target->server);
    if (r->options->listen == NULL)
        return LS_OK; /* everybody is on this host */
    if (target->network == LS__NETWORK__NETWORK_PRIVATE)
        return check_same_host(r, target, diag);
    if (is_auto(target) && target->external)
        return ls_fail(diag, LS_EINVAL,
                       "target %s is external, and the agents are on other hosts: say where it is "
                       "(targets[].host)",
                       target->name);
    if (!is_loopback(host))
        return LS_OK;
    for (uint32_t i = 0; i < coord_fleet_size(r->fleet); i++) {
        const struct coord_agent *a = coord_fleet_agent(r->fleet, i);

        if (a->from[0] == '\0' || is_loopback(a->from))
            continue;
        return ls_fail(diag, LS_EINVAL,
                       "target %s would be loaded at %s, which agent %s at %s takes for its own "
                       "host: %s",
                       target->name, host, a->name, a->from,
                       is_auto(target) ? "start the server's agent with --address, or have it dial "
                                         "this coordinator's address in the network"
                                       : "give the address that clients reach it at "
                                         "(targets[].host), or leave it out");
    }
    return LS_OK;
}

/* ---- who is there */

/* Said when it changes. */
static void say_who_is_missing(struct run *r)
{
    char missing[480], here[480], text[sizeof(r->waited_for)];

    coord_fleet_missing(r->fleet, missing, sizeof(missing));
    coord_fleet_here(r->fleet, here, sizeof(here));
    (void)snprintf(text, sizeof(text), "%s%s%s%s", here[0] != '\0' ? "here: " : "", here,
                   here[0] != '\0' && missing[0] != '\0' ? "; " : "",
                   missing[0] != '\0' ? "missing: " : "");
    if (missing[0] != '\0')
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", missing);
    if (strcmp(text, r->waited_for) == 0)
        return;
    (void)snprintf(r->waited_for, sizeof(r->waited_for), "%s", text);
    coord_progress_note(r->progress, "%s", text);
}

/* An address that only this host has is a usual reason for nobody to come. */
static const char *why_nobody(const struct run *r)
{
    const char *host = strstr(r->options->listen, "://");

    if (host != NULL && (strncmp(host, "://127.", 7) == 0 || strncmp(host, "://[::1]", 8) == 0))
        return "nobody was refused: agents of other hosts cannot dial a loopback address, listen at "
               "one of this host's in the network";
    return "nobody was refused: do agents dial this address?";
}

static enum ls_err give_up_waiting(struct run *r, int64_t waited_ns, struct ls_diag *diag)
{
    char missing[200], refused[200];

    coord_fleet_missing(r->fleet, missing, sizeof(missing));
    coord_fleet_refused(r->fleet, refused, sizeof(refused));
    return ls_fail(diag, LS_ETIMEOUT, "after %" PRId64 " s there is still missing: %s; %s%s",
                   waited_ns / LS_NS_PER_S, missing,
                   refused[0] != '\0' ? "refused were: " : why_nobody(r), refused);
}

/* The first time that all are there: what could not be known before. */
static enum ls_err settle(struct run *r, struct ls_diag *diag)
{
    enum ls_err rc;

    coord_fleet_bind(r->fleet);
    rc = place_remote(r, diag);
    for (size_t i = 0; i < r->options->plan->n_targets && rc == LS_OK; i++)
        rc = check_target(r, r->options->plan->targets[i], diag);
    if (rc != LS_OK) {
        r->unusable = rc == LS_EINVAL || rc == LS_ERANGE;
        return rc;
    }
    hand_out_cpus(r);
    return LS_OK;
}

static enum ls_err wait_for_remote(struct run *r, struct ls_diag *diag)
{
    int64_t begin_ns = ls_clock_mono_ns();
    int64_t limit_ns = begin_ns + r->options->wait_ns;
    int64_t look_ns = begin_ns;

    r->waited_for[0] = '\0';
    while (!coord_fleet_complete(r->fleet)) {
        if (r->interrupted)
            return ls_fail(diag, LS_ESTATE, "interrupted");
        if (ls_clock_mono_ns() >= limit_ns)
            return give_up_waiting(r, ls_clock_mono_ns() - begin_ns, diag);
        if (ls_clock_mono_ns() >= look_ns) {
            say_who_is_missing(r);
            look_ns = ls_clock_mono_ns() + LOOK_NS;
        }
        run_pump(r, look_ns < limit_ns ? look_ns : limit_ns);
    }
    say_who_is_missing(r);
    return r->cpus.agents == NULL ? settle(r, diag) : LS_OK;
}

static enum ls_err start_local(struct run *r, struct ls_diag *diag)
{
    int64_t limit_ns = ls_clock_mono_ns() + ENROL_TIMEOUT_NS;
    enum ls_err rc = coord_fleet_start(r->fleet, diag);

    while (rc == LS_OK && !coord_fleet_complete(r->fleet)) {
        if (r->interrupted)
            return ls_fail(diag, LS_ESTATE, "interrupted");
        for (uint32_t i = 0; i < coord_fleet_size(r->fleet); i++) {
            const struct coord_agent *a = coord_fleet_agent(r->fleet, i);

            if (a->lost && a->local.pid == 0)
                return ls_fail(diag, LS_EIO, "%s", a->why_lost);
            if (!a->up && ls_clock_mono_ns() >= limit_ns)
                return ls_fail(diag, LS_ETIMEOUT, "agent %s did not enrol within %d s", a->name,
                               (int)(ENROL_TIMEOUT_NS / LS_NS_PER_S));
        }
        run_pump(r, limit_ns);
    }
    return rc;
}

/* A fleet that is complete already costs nothing. */
enum ls_err run_gather(struct run *r, struct ls_diag *diag)
{
    return coord_fleet_is_local(r->fleet) ? start_local(r, diag) : wait_for_remote(r, diag);
}

enum ls_err run_create_fleet(struct run *r, struct ls_diag *diag)
{
    struct coord_fleet_options options = { .run_id = r->run_id,
                                           .wanted = r->options->plan->fleet,
                                           .servers = r->servers,
                                           .clients = r->clients,
                                           .listen = r->options->listen };
    struct coord_fleet_env env = run_fleet_env;
    enum ls_err rc = LS_OK;

    env.ctx = r;
    if (r->options->keys != NULL)
        rc = ls_credentials_open(r->options->keys, LS_IDENTITY_COORDINATOR, &options.credentials,
                                 diag);
    if (rc == LS_OK)
        rc = coord_fleet_create(r->loop, &options, &env, &r->fleet, diag);
    ls_credentials_close(options.credentials);
    r->refused = rc == LS_EREFUSED;
    r->unusable = rc != LS_OK && !r->refused && r->options->listen != NULL;
    return rc;
}

enum ls_err run_first_gather(struct run *r, struct ls_diag *diag)
{
    if (!coord_fleet_is_local(r->fleet)) {
        coord_progress_note(r->progress, "waiting for agents at %s", coord_fleet_url(r->fleet));
        return run_gather(r, diag);
    }
    for (size_t i = 0; i < r->options->plan->n_targets; i++) {
        enum ls_err rc = check_target(r, r->options->plan->targets[i], diag);

        if (rc != LS_OK) {
            r->unusable = true;
            return rc;
        }
    }
    hand_out_cpus(r);
    keep_off(r);
    return run_gather(r, diag);
}

uint32_t run_places(const struct run *r)
{
    return r->servers + r->clients_used;
}

void run_say_bye(struct run *r)
{
    int64_t limit_ns = ls_clock_mono_ns() + BYE_TIMEOUT_NS;

    if (r->fleet == NULL || r->leaving)
        return;
    coord_fleet_bye(r->fleet, "the run is over");
    while (!coord_fleet_gone(r->fleet) && ls_clock_mono_ns() < limit_ns && !r->leaving)
        run_pump(r, limit_ns);
}
