/* What a trial has of all its clients, from what it has of each. */
#include <stdio.h>

#include "coordinator/result/message.h"
#include "coordinator/result/requests.h"
#include "coordinator/result/verify_internal.h"

static bool add_phase(Ls__PhaseRequests **sum, const Ls__PhaseRequests *part)
{
    if (*sum == NULL) {
        *sum = coord_message_new(&ls__phase_requests__descriptor);
        if (*sum != NULL)
            (*sum)->requests = coord_message_new(&ls__requests__descriptor);
    }
    if (*sum == NULL || (*sum)->requests == NULL)
        return false;
    coord_requests_add((*sum)->requests, part != NULL ? part->requests : NULL);
    return true;
}

static bool add_client(Ls__Trial *sum, const Ls__Client *client)
{
    if (sum->requests == NULL)
        sum->requests = coord_message_new(&ls__requests__descriptor);
    if (sum->connections == NULL)
        sum->connections = coord_message_new(&ls__connections__descriptor);
    if (sum->requests == NULL || sum->connections == NULL ||
        !add_phase(&sum->warmup, client->warmup))
        return false;
    if (client->preflight != NULL && !add_phase(&sum->preflight, client->preflight))
        return false;
    coord_requests_add(sum->requests, client->requests);
    sum->bytes_in += client->bytes_in;
    sum->bytes_out += client->bytes_out;
    sum->in_flight_mean += client->in_flight_mean;
    if (client->connections == NULL)
        return true;
    sum->connections->asked += client->connections->asked;
    sum->connections->opened += client->connections->opened;
    sum->connections->failed += client->connections->failed;
    sum->connections->peak += client->connections->peak;
    sum->connections->reopened += client->connections->reopened;
    sum->connections->retired += client->connections->retired;
    sum->connections->renewed += client->connections->renewed;
    return true;
}

void verify_sums(struct verify *v, const Ls__Trial *trial, const char *where, const char *file)
{
    static const char *const names[] = { "requests",  "preflight",      "warmup", "bytes_in",
                                         "bytes_out", "in_flight_mean", NULL };
    static const char *const failures[] = { "failures", NULL };
    const struct verify_source source = { .file = file, .from = "its clients" };
    Ls__Trial *sum = coord_message_new(&ls__trial__descriptor);
    bool ok = sum != NULL;
    char connections[400];

    for (size_t i = 0; ok && i < trial->n_clients; i++)
        ok = add_client(sum, trial->clients[i]);
    if (ok) {
        verify_fields(v, &source, where, &trial->base, &sum->base, names);
        (void)snprintf(connections, sizeof(connections), "%s.connections", where);
        if (trial->connections != NULL && sum->connections != NULL)
            verify_other_fields(v, &source, connections, &trial->connections->base,
                                &sum->connections->base, failures);
    }
    v->no_memory = v->no_memory || !ok;
    coord_message_free(sum);
}
