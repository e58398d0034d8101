#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/units.h"
#include "coordinator/run/verdict_internal.h"

/* "and the server's CPUs were 42 % in use": how a reason about the generator ends. */
static const char *say_room(const struct judge *j, char *out, size_t out_bytes)
{
    if (j->room.known)
        (void)snprintf(out, out_bytes, "the server's CPUs were %.0f %% in use", j->room.used * 100);
    else
        (void)snprintf(out, out_bytes, "how busy the server was is not known");
    return out;
}

static const Ls__Client *busiest_client(const Ls__Trial *trial)
{
    const Ls__Client *busiest = NULL;

    for (size_t i = 0; i < trial->n_clients; i++) {
        const Ls__Client *client = trial->clients[i];

        if (client->cpu != NULL &&
            (busiest == NULL || client->cpu->busiest > busiest->cpu->busiest))
            busiest = client;
    }
    return busiest;
}

void coord_check_generator(struct judge *j)
{
    const Ls__Client *client = busiest_client(j->trial);
    char room[64];

    if (client == NULL || client->cpu->busiest < COORD_LIMIT_BUSY)
        return;
    (void)say_room(j, room, sizeof(room));
    if (j->room.left)
        coord_verdict_add(j->trial, "generator_limited", INVALID,
                          "a worker of %.60s was busy %.0f %% of the time and %s: this is the "
                          "generator's limit, not the server's",
                          client->agent, client->cpu->busiest * 100, room);
    else
        coord_verdict_add(
            j->trial, "generator_busy", SUSPECT,
            "a worker of %.60s was busy %.0f %% of the time and %s: the throughput is "
            "the server's, the latency includes the generator's own queue",
            client->agent, client->cpu->busiest * 100, room);
}

/* A standstill shows in no worker's CPU time: stopped, throttled, or the whole machine was away. */
void coord_check_stalled(struct judge *j)
{
    for (size_t i = 0; i < j->trial->n_clients; i++) {
        const Ls__Client *client = j->trial->clients[i];
        char lag[48];
        bool much;

        if (client->cpu == NULL || client->cpu->stalled <= COORD_LIMIT_STALLED)
            continue;
        much = client->cpu->stalled > COORD_LIMIT_STALLED_INVALID;
        coord_verdict_add(j->trial, "generator_stalled", much && j->room.left ? INVALID : SUSPECT,
                          "a worker of %.60s stood still for %.0f %% of the window, up to %s at a "
                          "time: what it measured includes that",
                          client->agent, client->cpu->stalled * 100,
                          ls_human_duration((double)client->cpu->loop_lag_ns, lag, sizeof(lag)));
    }
}

/* What the kernel's stamps say: the service time is the server's until the client's kernel has the
 * answer, and the generator's own queue from there on. */
void coord_check_unread(struct judge *j)
{
    const Ls__Latency *unread = j->trial->read_delay, *service = j->trial->service_time;
    char mean[48];
    double share;
    bool much;

    if (unread == NULL || service == NULL || unread->count == 0 || service->mean_ns <= 0)
        return;
    share = unread->mean_ns / service->mean_ns;
    if (share <= COORD_LIMIT_UNREAD || unread->mean_ns <= (double)COORD_LIMIT_LAG_SUSPECT_NS)
        return;
    much = share > COORD_LIMIT_UNREAD_INVALID &&
           unread->mean_ns > (double)COORD_LIMIT_LAG_INVALID_NS && j->trial->min_wait[0] == '\0';
    coord_verdict_add(
        j->trial, "read_delay", much && j->room.left ? INVALID : SUSPECT,
        "answers lay unread in the clients' kernels for %s on average, %.0f %% of the "
        "service time: kernel_time is the server's part of it",
        ls_human_duration(unread->mean_ns, mean, sizeof(mean)), share * 100);
}

/* Against what the same client has made of a server that costs next to nothing. A calibration that
 * was itself limited by something else is a lower bound, and proves nothing. */
void coord_check_headroom(struct judge *j)
{
    char ceiling[48];

    for (size_t i = 0; i < j->trial->n_clients; i++) {
        const Ls__Client *client = j->trial->clients[i];
        const Ls__Headroom *headroom = client->headroom;
        bool at_it;

        if (headroom == NULL || headroom->used <= COORD_LIMIT_HEADROOM ||
            strcmp(headroom->limited_by, "generator") != 0)
            continue;
        (void)ls_human_count(headroom->ceiling_per_s, ceiling, sizeof(ceiling));
        at_it = headroom->used >= COORD_LIMIT_HEADROOM_INVALID && j->room.left;
        if (at_it)
            coord_verdict_add(j->trial, "generator_limited", INVALID,
                              "%.60s was at %.0f %% of the %s requests/s that it was calibrated to "
                              "be able to make: this is the generator's limit, not the server's",
                              client->agent, headroom->used * 100, ceiling);
        else
            coord_verdict_add(j->trial, "near_ceiling", SUSPECT,
                              "%.60s was at %.0f %% of the %s requests/s that it was calibrated to "
                              "be able to make: near the generator's ceiling",
                              client->agent, headroom->used * 100, ceiling);
    }
}

/* Every connection waiting for the server: then a late request is not the generator's doing. By
 * Little's law on the service time, for requests in flight include those that wait for one. */
static bool connections_exhausted(const struct judge *j)
{
    const Ls__Latency *service = j->trial->service_time;

    return j->pipelines > 0 && service != NULL &&
           j->trial->throughput_per_s * service->mean_ns / 1e9 >=
               COORD_LIMIT_PIPELINES * j->pipelines;
}

/* What a request waits for a connection is not the generator's doing; how late the workers come to
 * it is, whether there is a free one then or not. */
void coord_check_send_lag(struct judge *j)
{
    const Ls__Latency *lag = j->trial->loop_lag, *response = j->trial->response_time;
    char p99[48], of[48];
    Ls__Verdict verdict;

    if (!j->open || lag == NULL || response == NULL)
        return;
    if ((double)lag->p99_ns <= COORD_LIMIT_LAG_SHARE * (double)response->p99_ns ||
        lag->p99_ns <= COORD_LIMIT_LAG_SUSPECT_NS)
        return;
    verdict = lag->p99_ns > COORD_LIMIT_LAG_INVALID_NS && j->room.left ? INVALID : SUSPECT;
    coord_verdict_add(j->trial, "send_lag", verdict,
                      "the workers came to 1 %% of the requests %s late or later; p99 of the "
                      "response time is %s",
                      ls_human_duration((double)lag->p99_ns, p99, sizeof(p99)),
                      ls_human_duration((double)response->p99_ns, of, sizeof(of)));
}

/* Completions inside the window against what was due in it, less what is still on its way at its
 * end: about rate x service time. */
void coord_check_achieved(struct judge *j)
{
    const Ls__Latency *service = j->trial->service_time;
    const Ls__Requests *requests = j->trial->requests;
    double offered = j->trial->offered_per_s, due, share;
    char rate[48], got[48], room[64];

    if (!j->open || j->window_s <= 0 || j->in->fixed_count)
        return;
    if (j->in->is_random && requests != NULL)
        offered = (double)requests->scheduled / j->window_s;
    due = offered * (1 - (service != NULL ? service->mean_ns / 1e9 / j->window_s : 0));
    share = due > 0 ? j->trial->throughput_per_s / due : 1;
    if (share >= COORD_LIMIT_ACHIEVED)
        return;
    (void)ls_human_count(offered, rate, sizeof(rate));
    (void)ls_human_count(j->trial->throughput_per_s, got, sizeof(got));
    (void)say_room(j, room, sizeof(room));
    if (!j->room.left)
        coord_verdict_add(j->trial, "server_saturated", SUSPECT,
                          "%s/s were offered, %s/s achieved (%.1f %%), and %s: this is what the "
                          "server can do, and response times grow with the length of the window",
                          rate, got, share * 100, room);
    else
        coord_verdict_add(j->trial, "not_achieved", INVALID,
                          "%s/s were offered, %s/s achieved (%.1f %%), though %s%s", rate, got,
                          share * 100, room,
                          connections_exhausted(j)
                              ? ": every connection was waiting, so use more connections, or fewer "
                                "CPUs if the server cannot use them"
                              : "");
}

void coord_check_shed(struct judge *j)
{
    const Ls__Requests *requests = j->trial->requests;

    if (requests != NULL && requests->shed > 0)
        coord_verdict_add(j->trial, "shed", SUSPECT,
                          "%" PRIu64 " of %" PRIu64 " requests found the queue full and were not "
                          "sent",
                          requests->shed, requests->scheduled);
}

/* A closed loop keeps connections x pipeline requests in flight. Connections that are opened again
 * and again, and the end of a fixed count, leave honest gaps. */
void coord_check_pipelines(struct judge *j)
{
    const Ls__Connections *connections = j->trial->connections;
    const Ls__Requests *requests = j->trial->requests;

    if (j->open || j->in->fixed_count || j->in->has_gaps || connections == NULL ||
        requests == NULL || j->pipelines <= 0 || requests->ok < COORD_LIMIT_LITTLE_COUNT ||
        connections->reopened > requests->ok / 100)
        return;
    if (j->trial->in_flight_mean < COORD_LIMIT_PIPELINES * j->pipelines)
        coord_verdict_add(j->trial, "pipelines_not_full", SUSPECT,
                          "on average %.1f of %.0f possible requests were in flight: the generator "
                          "did not send the next request as soon as it could",
                          j->trial->in_flight_mean, j->pipelines);
}
