#include "coordinator/run/limited_by.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/attr.h"
#include "common/units.h"

#define CONNECTIONS_BUSY 0.9 /* of them, on average */
#define WAITING_PART     0.5 /* of them: an overload needs a while to fill all */
#define UNREAD_PART      0.5 /* of the time in flight */

const Ls__Reason *coord_trial_reason(const Ls__Trial *trial, const char *code, Ls__Verdict least)
{
    for (size_t i = 0; i < trial->n_reasons; i++) {
        if (strcmp(trial->reasons[i]->code, code) == 0 && trial->reasons[i]->verdict >= least)
            return trial->reasons[i];
    }
    return NULL;
}

static void say(struct coord_cause *out, enum coord_limited_by by, const char *fmt, ...)
    LS_PRINTF(3, 4);
static void say(struct coord_cause *out, enum coord_limited_by by, const char *fmt, ...)
{
    va_list ap;

    out->by = by;
    va_start(ap, fmt);
    (void)vsnprintf(out->why, sizeof(out->why), fmt, ap);
    va_end(ap);
}

bool coord_limits_hold(const Ls__Trial *trial, const struct coord_load_limit *limits, size_t count)
{
    double shed = trial->requests != NULL ? (double)trial->requests->shed : 0;

    for (size_t k = 0; k < count; k++) {
        double requests = shed, breaking = shed;

        for (size_t i = 0; i < trial->n_intervals; i++) {
            const Ls__Interval *interval = trial->intervals[i];

            requests += (double)interval->completed + (double)interval->errors;
            breaking += (double)interval->errors;
            breaking += k < interval->n_slower ? (double)interval->slower[k] : 0;
        }
        if (requests <= 0 || breaking > limits[k].allowed_share * requests)
            return false;
    }
    return true;
}

/* The value that a share of all is beyond, of the shares that limits have. */
static int64_t beyond(const Ls__Latency *latency, double share)
{
    return share <= 0.001  ? latency->p999_ns
           : share <= 0.01 ? latency->p99_ns
           : share <= 0.1  ? latency->p90_ns
                           : latency->p50_ns;
}

/* Late by a good part of a limit: the share of requests that it allows is. */
static bool is_late_by(const Ls__Latency *lag, const struct coord_cause_input *in,
                       const char *of_which, struct coord_cause *out)
{
    for (size_t k = 0; lag != NULL && k < in->limit_count; k++) {
        const struct coord_load_limit *limit = &in->limits[k];
        int64_t late_ns = limit->limit_ns < INT64_MAX ? beyond(lag, limit->allowed_share) : 0;
        char late[48];

        if ((double)late_ns <= COORD_LIMITED_LATE * (double)limit->limit_ns || late_ns == 0)
            continue;
        say(out, COORD_LIMITED_BY_CLIENT, "%.3g %% of the %s %s or longer, with a limit of %s",
            100 * limit->allowed_share, of_which,
            ls_human_duration((double)late_ns, late, sizeof(late)), limit->name);
        return true;
    }
    return false;
}

/* In reading, or in coming to what was due. */
static bool is_late(const Ls__Trial *trial, const struct coord_cause_input *in,
                    struct coord_cause *out)
{
    return is_late_by(trial->read_delay, in, "answers lay unread in the clients' kernels for",
                      out) ||
           is_late_by(trial->loop_lag, in, "requests waited for a client's worker for", out);
}

static double in_flight(const Ls__Trial *trial)
{
    return trial->service_time != NULL
               ? trial->throughput_per_s * trial->service_time->mean_ns / 1e9
               : 0;
}

/* Most of its connections are in flight, and not for want of reading: what is at its limit is where
 * most of them wait. A client on a small ration of CPU has something to do all the time long before
 * that is all it can do, for the fewer answers it finds at a time the more each of them costs. */
static bool waits_for_server(const Ls__Trial *trial, double connections)
{
    return trial->read_delay != NULL && connections > 0 &&
           in_flight(trial) >= WAITING_PART * connections &&
           trial->read_delay->mean_ns < UNREAD_PART * trial->service_time->mean_ns;
}

/* At work, or ready to and kept from it, nearly all the time. */
static bool is_busy(const Ls__Trial *trial, struct coord_cause *out)
{
    double window_ns = trial->window != NULL ? (double)trial->window->duration_ns : 0;

    for (size_t i = 0; i < trial->n_clients && window_ns > 0; i++) {
        const Ls__Client *client = trial->clients[i];

        if (client->cpu == NULL || client->workers == 0 ||
            client->cpu->busiest < COORD_LIMITED_BUSY)
            continue;
        say(out, COORD_LIMITED_BY_CLIENT,
            "client %.40s had no time left: its busiest worker had work for %.0f %% of it, and all "
            "of them waited %.0f %% for a CPU that others had or a quota kept",
            client->agent, 100 * client->cpu->busiest,
            100 * (double)client->cpu->runqueue_wait_ns / window_ns / client->workers);
        return true;
    }
    return false;
}

/* What voids a trial for want of a client's CPU. */
static bool is_void(const Ls__Trial *trial, struct coord_cause *out)
{
    static const char *const codes[] = { "generator_limited", "generator_stalled",
                                         "client_foreign_cpu", "read_delay", "send_lag" };

    for (size_t i = 0; i < LS_ARRAY_LEN(codes); i++) {
        const Ls__Reason *reason =
            coord_trial_reason(trial, codes[i], LS__VERDICT__VERDICT_INVALID);

        if (reason == NULL)
            continue;
        say(out, COORD_LIMITED_BY_CLIENT, "%.200s", reason->text);
        return true;
    }
    return false;
}

/* Where it is known how late a client was, nothing else needs to be suspected. */
static bool is_without_cpu(const Ls__Trial *trial, const struct coord_cause_input *in,
                           struct coord_cause *out)
{
    if (in->limit_count == 0)
        return is_void(trial, out);
    return (!waits_for_server(trial, in->connections) && is_busy(trial, out)) ||
           (trial->read_delay == NULL && is_void(trial, out));
}

static bool is_server_cpu(const Ls__Trial *trial, double cpus, struct coord_cause *out)
{
    const Ls__Server *server = trial->server;

    if (server == NULL)
        return false;
    if (cpus > 0 && server->cpu_cores_used >= COORD_LIMITED_CPU * cpus) {
        say(out, COORD_LIMITED_BY_SERVER, "the server used %.2f of its %.0f CPUs",
            server->cpu_cores_used, cpus);
        return true;
    }
    if (server->processes > 0 && server->cpu_cores_used >= COORD_LIMITED_CPU * server->processes) {
        say(out, COORD_LIMITED_BY_SERVER,
            "the server used %.2f CPUs in %" PRIu32 " process%s: what one thread of each can",
            server->cpu_cores_used, server->processes, server->processes == 1 ? "" : "es");
        return true;
    }
    return false;
}

/* Of the server's host, which is the client's where there is no other. */
static uint64_t overflows_of(const Ls__Trial *trial)
{
    bool here = trial->network != NULL && strcmp(trial->network->path, "loopback") == 0;

    if (trial->server != NULL)
        return trial->server->listen_overflows;
    return here && trial->n_clients > 0 ? trial->clients[0]->listen_overflows : 0;
}

/* Either side counts what it sent again. */
static uint64_t retransmits_of(const Ls__Trial *trial)
{
    uint64_t clients = 0, server = trial->server != NULL ? trial->server->tcp_retransmits : 0;

    for (size_t i = 0; i < trial->n_clients; i++)
        clients += trial->clients[i]->tcp_retransmits;
    return clients > server ? clients : server;
}

static bool is_network(const Ls__Trial *trial, struct coord_cause *out)
{
    uint64_t lost = retransmits_of(trial),
             sent = trial->requests != NULL ? trial->requests->sent : 0;

    for (size_t i = 0; i < trial->n_clients; i++) {
        const Ls__NetworkUse *network = trial->clients[i]->network;

        if (network == NULL || network->link_used < COORD_LIMITED_LINK)
            continue;
        say(out, COORD_LIMITED_BY_NETWORK,
            "%.16s of client %.40s carried %.0f %% of the %.0f Mbit/s that it can",
            network->interface, trial->clients[i]->agent, 100 * network->link_used,
            (double)network->link_bits_per_s / 1e6);
        return true;
    }
    if (sent == 0 || (double)lost < COORD_LIMITED_LOSS * (double)sent)
        return false;
    say(out, COORD_LIMITED_BY_NETWORK,
        "%" PRIu64 " segments were sent again, for %" PRIu64 " requests", lost, sent);
    return true;
}

static void say_unknown(const Ls__Trial *trial, double cpus, double connections,
                        struct coord_cause *out)
{
    double busy = in_flight(trial);
    char cpu[96] = "the server's CPU is not known";

    if (trial->server != NULL && cpus > 0)
        (void)snprintf(cpu, sizeof(cpu), "the server used %.2f of its %.0f CPUs",
                       trial->server->cpu_cores_used, cpus);
    if (connections > 0 && busy >= CONNECTIONS_BUSY * connections)
        say(out, COORD_LIMITED_BY_UNKNOWN,
            "%s, and %.0f of %.0f requests that the connections allow were in flight: with more "
            "connections it may be more",
            cpu, busy, connections);
    else
        say(out, COORD_LIMITED_BY_UNKNOWN, "%s; no accept queue, link or client was at its limit",
            cpu);
}

void coord_limited_by(const Ls__Trial *trial, const struct coord_cause_input *in,
                      struct coord_cause *out)
{
    bool held = in->limit_count > 0 && coord_limits_hold(trial, in->limits, in->limit_count);

    if ((!held && is_late(trial, in, out)) || is_server_cpu(trial, in->server_cpus, out) ||
        (!held && is_without_cpu(trial, in, out)))
        return;
    if (trial->requests != NULL && overflows_of(trial) > 0 &&
        (double)overflows_of(trial) >= COORD_LIMITED_LOSS * (double)trial->requests->sent) {
        say(out, COORD_LIMITED_BY_SERVER, "the server's accept queue overflowed %" PRIu64 " times",
            overflows_of(trial));
        return;
    }
    if (!is_network(trial, out))
        say_unknown(trial, in->server_cpus, in->connections, out);
}
