#include "coordinator/run/merge_network.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/result/message.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool coord_merge_network(Ls__NetworkUse **field, const Ls__NetworkUse *src, int64_t window_ns)
{
    Ls__NetworkUse *network;

    if (src == NULL)
        return true;
    network = *field = coord_message_copy(src);
    if (network == NULL)
        return false;
    if (network->round_trip_min_ns < 0 || network->round_trip_p50_ns < 0)
        network->round_trip_min_ns = network->round_trip_p50_ns = 0; /* it comes from outside */
    network->share_of_latency = 0;                                   /* both are known here alone */
    network->link_used = 0;
    if (network->link_bits_per_s > 0 && window_ns > 0)
        network->link_used = (double)larger(network->link_bytes_in, network->link_bytes_out) * 8 /
                             ((double)window_ns / 1e9) / (double)network->link_bits_per_s;
    return true;
}

static void set_share(Ls__NetworkUse *network, const Ls__Latency *service_time)
{
    if (service_time != NULL && service_time->p50_ns > 0)
        network->share_of_latency =
            (double)network->round_trip_p50_ns / (double)service_time->p50_ns;
}

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static int64_t middle_of_medians(const Ls__Trial *trial)
{
    int64_t *medians = calloc(trial->n_clients, sizeof(*medians)), middle;
    size_t n = 0;

    if (medians == NULL)
        return -1;
    for (size_t i = 0; i < trial->n_clients; i++) {
        const Ls__NetworkUse *one = trial->clients[i]->network;

        if (one != NULL && one->connections > 0)
            medians[n++] = one->round_trip_p50_ns;
    }
    qsort(medians, n, sizeof(*medians), by_size);
    middle = n > 0 ? medians[n / 2] : 0;
    free(medians);
    return middle;
}

static bool add(Ls__NetworkUse *all, const Ls__NetworkUse *one)
{
    const char *path =
        all->path[0] == '\0' || strcmp(all->path, one->path) == 0 ? one->path : "mixed";

    if (one->connections > 0 &&
        (all->round_trip_min_ns == 0 || one->round_trip_min_ns < all->round_trip_min_ns))
        all->round_trip_min_ns = one->round_trip_min_ns;
    all->connections += one->connections;
    all->link_bits_per_s += one->link_bits_per_s;
    all->link_bytes_in += one->link_bytes_in;
    all->link_bytes_out += one->link_bytes_out;
    if (one->link_used > all->link_used)
        all->link_used = one->link_used;
    return coord_message_string(&all->path, path);
}

bool coord_merge_networks(Ls__Trial *trial)
{
    bool ok = true;

    for (size_t i = 0; i < trial->n_clients && ok; i++) {
        Ls__Client *client = trial->clients[i];

        if (client->network == NULL)
            continue;
        set_share(client->network, client->service_time);
        if (trial->network == NULL)
            trial->network = coord_message_new(&ls__network_use__descriptor);
        ok = trial->network != NULL && add(trial->network, client->network);
    }
    if (trial->network == NULL)
        return ok;
    trial->network->round_trip_p50_ns = middle_of_medians(trial);
    set_share(trial->network, trial->service_time);
    return ok && trial->network->round_trip_p50_ns >= 0;
}
