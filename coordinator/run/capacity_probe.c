#include "coordinator/run/capacity_probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/result/message.h"
#include "coordinator/run/verdict.h"

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void coord_capacity_probe_batches(const Ls__Trial *trial, size_t limit_count,
                                  struct coord_capacity_batch *batches)
{
    for (size_t i = 0; i < trial->n_intervals; i++) {
        const Ls__Interval *interval = trial->intervals[i];
        uint64_t shed = i + 1 == trial->n_intervals ? trial->requests->shed : 0;
        uint64_t requests = interval->completed + interval->errors + shed;

        batches[i].requests = requests;
        for (size_t k = 0; k < limit_count && k < interval->n_slower; k++)
            batches[i].breaking[k] =
                least_of(requests, interval->slower[k] + interval->errors + shed);
    }
}

const char *coord_capacity_probe_why(const Ls__Trial *trial)
{
    const Ls__Reason *worst = NULL;

    for (size_t i = 0; i < trial->n_reasons; i++) {
        if (worst == NULL || trial->reasons[i]->verdict > worst->verdict)
            worst = trial->reasons[i];
    }
    return worst != NULL ? worst->text : "";
}

double coord_capacity_probe_host_per_s(const Ls__Trial *trial)
{
    double least = INFINITY, workers = 0;

    for (size_t i = 0; i < trial->n_clients; i++)
        workers += trial->clients[i]->workers;
    for (size_t i = 0; i < trial->n_clients; i++) {
        const Ls__Client *client = trial->clients[i];
        const Ls__Headroom *headroom = client->headroom;

        if (headroom == NULL || strcmp(headroom->limited_by, "generator") != 0)
            return 0;
        least = fmin(least, COORD_LIMIT_HEADROOM * headroom->ceiling_per_s * workers /
                                client->workers / (double)trial->n_clients);
    }
    return isfinite(least) ? least : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What its agents saw beside the answers. */
static void fill_costs(Ls__CapacityProbe *probe, const Ls__Trial *trial)
{
    if (trial->server != NULL) {
        probe->server_cores_used = trial->server->cpu_cores_used;
        probe->listen_overflows = trial->server->listen_overflows;
        probe->tcp_retransmits = trial->server->tcp_retransmits;
    }
    for (size_t i = 0; i < trial->n_clients; i++) {
        const Ls__Client *client = trial->clients[i];

        if (client->cpu != NULL && client->cpu->busiest > probe->client_busiest)
            probe->client_busiest = client->cpu->busiest;
        if (client->headroom != NULL && client->headroom->used > probe->headroom_used)
            probe->headroom_used = client->headroom->used;
        probe->tcp_retransmits = larger(probe->tcp_retransmits, client->tcp_retransmits);
    }
    if (trial->network != NULL) {
        probe->link_used = trial->network->link_used;
        probe->round_trip_p50_ns = trial->network->round_trip_p50_ns;
    }
}

static double good_per_s(const Ls__Trial *trial, uint32_t limit, int64_t window_ns)
{
    uint64_t good = 0;

    for (size_t i = 0; i < trial->n_intervals; i++) {
        const Ls__Interval *interval = trial->intervals[i];
        uint64_t slower = limit < interval->n_slower ? interval->slower[limit] : 0;

        good += interval->completed > slower ? interval->completed - slower : 0;
    }
    return (double)good / ((double)window_ns / 1e9);
}

/* Who offered it. */
static bool fill_clients(Ls__CapacityProbe *probe, const Ls__Trial *trial)
{
    probe->clients = calloc(trial->n_clients + 1, sizeof(char *));
    if (probe->clients == NULL)
        return false;
    for (size_t i = 0; i < trial->n_clients; i++) {
        probe->clients[i] = strdup(trial->clients[i]->agent);
        if (probe->clients[i] == NULL)
            return false;
        probe->n_clients++;
    }
    return true;
}

bool coord_capacity_probe_fill(Ls__CapacityProbe *probe, const Ls__Trial *trial, uint32_t limit)
{
    probe->throughput_per_s = trial->throughput_per_s;
    probe->good_per_s = good_per_s(trial, limit, probe->window_ns);
    if (trial->response_time != NULL) {
        probe->p50_ns = trial->response_time->p50_ns;
        probe->p99_ns = trial->response_time->p99_ns;
        probe->p999_ns = trial->response_time->p999_ns;
    }
    fill_costs(probe, trial);
    return coord_message_string(&probe->folder, trial->folder) &&
           coord_message_string(&probe->why, coord_capacity_probe_why(trial)) &&
           fill_clients(probe, trial);
}
