#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cpuset.h"
#include "common/units.h"
#include "coordinator/run/trend.h"
#include "coordinator/run/verdict_internal.h"

void coord_check_shared(struct judge *j)
{
    if (j->in->shared_cores)
        coord_verdict_add(j->trial, "shared_cores", SUSPECT, "CPUs are shared: %s",
                          j->in->shared_why != NULL && j->in->shared_why[0] != '\0'
                              ? j->in->shared_why
                              : "not every agent has CPUs of its own");
}

/* Where server and generator run on the same CPUs, its work there is no surprise. */
static bool shares_with_clients(const struct judge *j)
{
    struct ls_cpuset server, client;

    if (!j->in->shared_cores)
        return false;
    if (ls_cpuset_parse(j->trial->server->cpus, &server, NULL) != LS_OK ||
        ls_cpuset_count(&server) == 0)
        return true; /* not bound to any */
    for (size_t i = 0; i < j->trial->n_clients; i++) {
        if (ls_cpuset_parse(j->trial->clients[i]->cpus, &client, NULL) != LS_OK ||
            ls_cpuset_count(&client) == 0 || ls_cpuset_intersects(&server, &client))
            return true;
    }
    return false;
}

void coord_check_foreign(struct judge *j)
{
    const Ls__Server *server = j->trial->server;
    double cpus = j->in->server_cpus;

    if (server == NULL || cpus <= 0)
        return;
    if (!shares_with_clients(j) && server->foreign_cpu_cores > COORD_LIMIT_FOREIGN * cpus)
        coord_verdict_add(j->trial, "foreign_cpu", SUSPECT,
                          "other processes used %.1f %% of the server's %.0f CPU%s",
                          server->foreign_cpu_cores / cpus * 100, cpus, cpus > 1 ? "s" : "");
    if (server->steal_cores > COORD_LIMIT_STEAL * cpus)
        coord_verdict_add(j->trial, "cpu_steal", SUSPECT,
                          "the hypervisor took %.1f %% of the server's %.0f CPU%s",
                          server->steal_cores / cpus * 100, cpus, cpus > 1 ? "s" : "");
}

static uint32_t cpus_of(const Ls__Client *client)
{
    struct ls_cpuset cpus;

    return ls_cpuset_parse(client->cpus, &cpus, NULL) == LS_OK ? ls_cpuset_count(&cpus) : 0;
}

static bool overlaps(const char *a, const char *b)
{
    struct ls_cpuset one, other;

    return ls_cpuset_parse(a, &one, NULL) != LS_OK || ls_cpuset_parse(b, &other, NULL) != LS_OK ||
           ls_cpuset_count(&one) == 0 || ls_cpuset_count(&other) == 0 ||
           ls_cpuset_intersects(&one, &other);
}

/* Its workers have a CPU each, and no other agent of ours is on any of them. */
static bool has_own_cpus(const struct judge *j, size_t index)
{
    const Ls__Client *client = j->trial->clients[index];

    if (cpus_of(client) < client->workers)
        return false;
    if (!j->in->shared_cores)
        return true; /* lists of different hosts may be alike */
    for (size_t i = 0; i < j->trial->n_clients; i++) {
        if (i != index && overlaps(client->cpus, j->trial->clients[i]->cpus))
            return false;
    }
    return j->trial->server == NULL || !overlaps(client->cpus, j->trial->server->cpus);
}

static void check_client_host(struct judge *j, size_t index)
{
    const Ls__Client *client = j->trial->clients[index];
    double queued =
        client->cpu != NULL && j->window_s > 0 && client->workers > 0
            ? (double)client->cpu->runqueue_wait_ns / 1e9 / j->window_s / client->workers
            : 0;
    double sent = j->trial->requests != NULL ? (double)j->trial->requests->sent : 0;
    uint32_t cpus = cpus_of(client);
    bool much = queued > COORD_LIMIT_QUEUED_INVALID && j->room.left;

    if (queued > COORD_LIMIT_QUEUED && has_own_cpus(j, index))
        coord_verdict_add(j->trial, "client_foreign_cpu", much ? INVALID : SUSPECT,
                          "workers of %.60s waited %.1f %% of the time for their CPUs, which "
                          "others had (%.2f cores), or a quota kept from them",
                          client->agent, queued * 100, client->foreign_cpu_cores);
    if (cpus > 0 && client->steal_cores > COORD_LIMIT_STEAL * cpus)
        coord_verdict_add(j->trial, "client_cpu_steal", SUSPECT,
                          "the hypervisor took %.1f %% of %.60s's %u CPU%s",
                          client->steal_cores / cpus * 100, client->agent, cpus,
                          cpus > 1 ? "s" : "");
    if (client->tcp_retransmits >= COORD_LIMIT_RETRANSMITS_LEAST &&
        (double)client->tcp_retransmits * 1e6 > COORD_LIMIT_RETRANSMITS * sent)
        coord_verdict_add(j->trial, "client_retransmits", SUSPECT,
                          "TCP on %.60s's host sent %" PRIu64 " segments again", client->agent,
                          client->tcp_retransmits);
}

void coord_check_client_hosts(struct judge *j)
{
    for (size_t i = 0; i < j->trial->n_clients; i++)
        check_client_host(j, i);
}

void coord_check_network(struct judge *j)
{
    const Ls__Server *server = j->trial->server;
    double sent = j->trial->requests != NULL ? (double)j->trial->requests->sent : 0;

    if (server == NULL)
        return;
    if (server->listen_overflows > 0)
        coord_verdict_add(j->trial, "listen_overflows", SUSPECT,
                          "the server's host dropped %" PRIu64
                          " connections because an accept queue was full",
                          server->listen_overflows);
    if (server->tcp_retransmits >= COORD_LIMIT_RETRANSMITS_LEAST &&
        (double)server->tcp_retransmits * 1e6 > COORD_LIMIT_RETRANSMITS * sent)
        coord_verdict_add(j->trial, "tcp_retransmits", SUSPECT,
                          "TCP on the server's host sent %" PRIu64 " segments again",
                          server->tcp_retransmits);
}

void coord_check_governor(struct judge *j)
{
    const char *before = j->in->governor_before, *after = j->in->governor_after;

    if (before != NULL && after != NULL && before[0] != '\0' && after[0] != '\0' &&
        strcmp(before, after) != 0)
        coord_verdict_add(j->trial, "governor_changed", SUSPECT,
                          "the CPU frequency governor was %.40s before and %.40s after", before,
                          after);
}

void coord_check_window(struct judge *j)
{
    const Ls__Window *window = j->trial->window;
    const Ls__Server *server = j->trial->server;
    uint64_t merged = 0;
    char length[48], error[48];

    if (window == NULL)
        return;
    (void)ls_human_duration((double)window->duration_ns, length, sizeof(length));
    if (window->duration_ns < COORD_LIMIT_WINDOW_NS)
        coord_verdict_add(j->trial, "short_window", SUSPECT, "the measure window was only %s long",
                          length);
    if (server != NULL && !j->in->fixed_count &&
        (double)server->window_error_ns > COORD_LIMIT_EDGE * (double)window->duration_ns)
        coord_verdict_add(j->trial, "server_edges", SUSPECT,
                          "the server's CPU was read %s beside the edges of the %s window",
                          ls_human_duration((double)server->window_error_ns, error, sizeof(error)),
                          length);
    for (size_t i = 0; i < j->trial->n_clients; i++)
        merged += j->trial->clients[i]->intervals_merged;
    if (merged > 0)
        coord_verdict_add(j->trial, "merged_intervals", SUSPECT,
                          "%" PRIu64 " intervals came together with another one, because the "
                          "connection to the coordinator did not keep up",
                          merged);
}

/* ---- trend */

/* Whole intervals inside the window. The first one misses the answers to requests of the warm-up,
 * which matters when a service time is a good part of an interval. */
static uint32_t trend_values(const struct judge *j, double *values)
{
    const Ls__Latency *service = j->trial->service_time;
    uint32_t n = 0;

    for (size_t i = 0; i < j->trial->n_intervals; i++) {
        const Ls__Interval *interval = j->trial->intervals[i];

        if (interval->at_ns < 0 || interval->length_ns <= 0 ||
            interval->at_ns + interval->length_ns > j->trial->window->duration_ns)
            continue;
        if (n == 0 && service != NULL && interval->at_ns < 100 * service->p50_ns &&
            interval->length_ns < 100 * service->p50_ns)
            continue;
        values[n++] = j->open ? (double)interval->p50_ns
                              : (double)interval->completed * 1e9 / (double)interval->length_ns;
    }
    return n;
}

static double mean_of(const double *values, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += values[i];
    return sum / n;
}

/* Ranking compares each value with each other: of very many, neighbours become their mean. */
static uint32_t thin_out(double *values, uint32_t n)
{
    uint32_t group = (n + COORD_LIMIT_TREND_MOST - 1) / COORD_LIMIT_TREND_MOST, kept = 0;

    for (uint32_t i = 0; group > 1 && i + group <= n; i += group)
        values[kept++] = mean_of(values + i, group);
    return group > 1 ? kept : n;
}

/* Both: the last third differs from the first by so much, and a rank test says that it is a trend
 * and not one odd interval. In an open loop the rate is given, so the latency is looked at. */
void coord_check_trend(struct judge *j)
{
    double *values, first, last, p;
    uint32_t n;

    if (j->in->changes || j->trial->window == NULL ||
        j->trial->n_intervals < COORD_LIMIT_TREND_INTERVALS)
        return;
    values = calloc(j->trial->n_intervals, sizeof(*values));
    if (values == NULL) {
        coord_verdict_add(j->trial, "no_memory", INVALID, "no memory to look for a trend");
        return;
    }
    n = thin_out(values, trend_values(j, values));
    if (n >= COORD_LIMIT_TREND_INTERVALS) {
        first = mean_of(values, n / 3);
        last = mean_of(values + n - n / 3, n / 3);
        p = coord_trend_p(values, n);
        if (first > 0 && fabs(last / first - 1) > COORD_LIMIT_TREND && p < COORD_LIMIT_TREND_P)
            coord_verdict_add(j->trial, "trend", SUSPECT,
                              "%s %s by %.0f %% from the first third of the window to the last "
                              "(p = %.2g): the warm-up may be too short",
                              j->open ? "p50" : "throughput", last > first ? "rose" : "fell",
                              fabs(last / first - 1) * 100, p);
    }
    free(values);
}
