#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/units.h"
#include "coordinator/result/messages.h"
#include "coordinator/result/requests.h"
#include "coordinator/run/verdict_internal.h"

void coord_check_books(struct judge *j)
{
    const struct coord_books *books = j->in->books;

    if (books == NULL)
        return;
    if (books->refused[0] != '\0')
        coord_verdict_add(j->trial, "bad_report", INVALID, "a report made no sense: %s",
                          books->refused);
    if (books->unbalanced[0] != '\0')
        coord_verdict_add(j->trial, "books", INVALID, "the books do not balance: %s",
                          books->unbalanced);
    if (books->sums[0] != '\0')
        coord_verdict_add(j->trial, "interval_sums", INVALID,
                          "the intervals do not add up to the total: %s", books->sums);
}

void coord_check_messages(struct judge *j)
{
    char kinds[200];

    if (j->trial->messages != NULL &&
        coord_messages_describe(j->trial->messages, kinds, sizeof(kinds))[0] != '\0')
        coord_verdict_add(j->trial, "messages", INVALID,
                          "of %" PRIu64 " messages that were to come: %s",
                          j->trial->messages->expected, kinds);
}

static bool has_reason(const Ls__Trial *trial, const char *code)
{
    for (size_t i = 0; i < trial->n_reasons; i++) {
        if (strcmp(trial->reasons[i]->code, code) == 0)
            return true;
    }
    return false;
}

void coord_check_agents(struct judge *j)
{
    size_t lost = 0;
    const char *name = "";

    for (size_t i = 0; i < j->trial->n_clients; i++) {
        if (!j->trial->clients[i]->lost)
            continue;
        lost++;
        name = j->trial->clients[i]->agent;
    }
    if (lost > 0 && !has_reason(j->trial, "agent_lost")) /* whoever saw it go knows more */
        coord_verdict_add(j->trial, "agent_lost", INVALID,
                          "%zu of %zu clients went away before the last report (%.60s)", lost,
                          j->trial->n_clients, name);
}

void coord_check_target(struct judge *j)
{
    const Ls__Server *server = j->trial->server;

    if (server != NULL && server->exit[0] != '\0' && !server->stopped_by_us)
        coord_verdict_add(j->trial, "target_died", INVALID,
                          "the target ended by itself (%.60s): see target.log", server->exit);
    else if (server != NULL && server->oom_kills > 0 && !has_reason(j->trial, "out_of_memory"))
        coord_verdict_add(j->trial, "out_of_memory", INVALID,
                          "%" PRIu64 " process%s of the target %s killed for memory",
                          server->oom_kills, server->oom_kills == 1 ? "" : "es",
                          server->oom_kills == 1 ? "was" : "were");
}

/* Clocks of processes miss what nobody has waited for, the group's is a tick late: they agree, or
 * one of them is wrong. */
void coord_check_cpu_accounts(struct judge *j)
{
    const Ls__Server *server = j->trial->server;
    double clocks, group, apart;

    if (server == NULL || server->cpu_ns <= 0 || server->cpu_cgroup_ns <= 0)
        return;
    clocks = (double)server->cpu_ns;
    group = (double)server->cpu_cgroup_ns;
    apart = clocks > group ? clocks - group : group - clocks;
    if (apart > COORD_LIMIT_ACCOUNTS * (clocks > group ? clocks : group) &&
        apart > (double)COORD_LIMIT_ACCOUNTS_NS)
        coord_verdict_add(
            j->trial, "cpu_accounts", SUSPECT,
            "the clocks of the target's processes say %.0f ms of CPU time, its control "
            "group says %.0f ms: CPU per request is not to be relied on",
            clocks / 1e6, group / 1e6);
}

void coord_check_answers(struct judge *j)
{
    const Ls__Requests *requests = j->trial->requests;
    const Ls__Requests *warmup = j->trial->warmup != NULL ? j->trial->warmup->requests : NULL;
    char kinds[200];

    /* A round of a slow room may begin before the window and end behind it. */
    if ((requests == NULL || requests->ok == 0) &&
        (j->trial->messages == NULL || j->trial->messages->received_in_window == 0))
        coord_verdict_add(j->trial, "no_requests", INVALID,
                          "no request was answered as expected (%" PRIu64 " sent)",
                          requests != NULL ? requests->sent : 0);
    if (requests != NULL && coord_requests_errors(requests) > 0)
        coord_verdict_add(j->trial, "wrong_responses", INVALID, "of %" PRIu64 " requests: %s",
                          requests->sent, coord_requests_describe(requests, kinds, sizeof(kinds)));
    if (warmup != NULL && coord_requests_errors(warmup) > 0)
        coord_verdict_add(j->trial, "warmup_errors", SUSPECT,
                          "of %" PRIu64 " requests in the warm-up: %s", warmup->sent,
                          coord_requests_describe(warmup, kinds, sizeof(kinds)));
}

/* "3 ECONNREFUSED, 1 EMFILE" */
static void describe_failures(const Ls__Connections *connections, char *out, size_t out_bytes)
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < connections->n_failures && len < out_bytes; i++) {
        int used = snprintf(out + len, out_bytes - len, "%s%" PRIu64 " %.20s", i == 0 ? ": " : ", ",
                            connections->failures[i]->count, connections->failures[i]->name);

        len += used > 0 ? (size_t)used : 0;
    }
}

/* What the commonest names mean to a load generator, and what helps. "" for the others. */
static const char *explain_failures(const Ls__Connections *connections)
{
    static const struct {
        const char *name;
        const char *means;
    } known[] = {
        { "EADDRNOTAVAIL", ": the clients ran out of local ports (more source_addresses, or sysctl "
                           "net.ipv4.ip_local_port_range)" },
        { "EMFILE", ": an agent ran out of file descriptors (ulimit -n, or more clients)" },
        { "ENFILE", ": the host ran out of file descriptors (sysctl fs.file-max)" },
        { "ENOBUFS", ": the host ran out of memory for sockets (sysctl net.ipv4.tcp_mem)" },
        { "ECONNREFUSED", ": nobody listened" },
        { "ETIMEDOUT", ": the server's host did not answer, or its accept queue was full" },
        { "EKEYREJECTED", ": the server's certificate does not verify" },
    };

    for (size_t k = 0; k < LS_ARRAY_LEN(known); k++) {
        for (size_t i = 0; i < connections->n_failures; i++) {
            if (strcmp(connections->failures[i]->name, known[k].name) == 0)
                return known[k].means;
        }
    }
    return "";
}

void coord_check_connections(struct judge *j)
{
    const Ls__Connections *connections = j->trial->connections;
    uint64_t asked = coord_judge_connections(j), first, again;
    char failures[160];

    if (connections == NULL || asked == 0)
        return;
    again = connections->reopened + connections->renewed;
    first = connections->opened - (again < connections->opened ? again : connections->opened);
    describe_failures(connections, failures, sizeof(failures));
    if (first < asked)
        coord_verdict_add(j->trial, "connections_short", INVALID,
                          "%" PRIu64 " of %" PRIu64 " connections were opened%s%s", first, asked,
                          failures, explain_failures(connections));
    else if (connections->failed > 0)
        coord_verdict_add(j->trial, "connect_errors", SUSPECT,
                          "%" PRIu64 " attempts to connect failed%s%s", connections->failed,
                          failures, explain_failures(connections));
}

void coord_check_skew(struct judge *j)
{
    const Ls__Window *window = j->trial->window;
    int64_t limit =
        j->in->max_start_skew_ns > 0 ? j->in->max_start_skew_ns : COORD_MAX_START_SKEW_NS;
    char skew[48], error[48], most[48];

    if (window == NULL || window->start_skew_ns + window->start_skew_error_ns <= limit)
        return;
    coord_verdict_add(j->trial, "start_skew", INVALID,
                      "the clients began %s apart, +- %s of the clocks; at most %s is allowed",
                      ls_human_duration((double)window->start_skew_ns, skew, sizeof(skew)),
                      ls_human_duration((double)window->start_skew_error_ns, error, sizeof(error)),
                      ls_human_duration((double)limit, most, sizeof(most)));
}

/* From when a request was due (open loop) or could be sent (closed) to its end: the time for which
 * the generator counts it as in flight. 0: not known. */
static double mean_in_flight_s(const struct judge *j)
{
    const Ls__Latency *response = j->trial->response_time, *service = j->trial->service_time;
    const Ls__Latency *lag = j->trial->send_lag;

    if (j->open)
        return response != NULL ? response->mean_ns / 1e9 : 0;
    if (service == NULL)
        return 0;
    return (service->mean_ns + (lag != NULL ? lag->mean_ns : 0)) / 1e9;
}

/* Mean in flight = completions per second x mean time in flight. The window's mean and its
 * requests' mean differ by what hangs over the two edges: about one time in flight. */
void coord_check_little(struct judge *j)
{
    const Ls__Latency *service = j->trial->service_time;
    double mean_s = mean_in_flight_s(j), expected, off;

    if (service == NULL || service->count < COORD_LIMIT_LITTLE_COUNT || mean_s <= 0 ||
        j->window_s <= 0 || j->trial->in_flight_mean <= 0)
        return;
    expected = (double)service->count / j->window_s * mean_s;
    off = fabs(expected - j->trial->in_flight_mean) / j->trial->in_flight_mean;
    if (off > COORD_LIMIT_LITTLE + mean_s / j->window_s)
        coord_verdict_add(j->trial, "littles_law", INVALID,
                          "on average %.2f requests were in flight, but their rate times their "
                          "mean time is %.2f (%.0f %% off): latencies or counts are wrong",
                          j->trial->in_flight_mean, expected, off * 100);
}

void coord_check_clipped(struct judge *j)
{
    const Ls__Latency *latency = j->open ? j->trial->response_time : j->trial->service_time;

    if (latency != NULL && latency->clipped > 0)
        coord_verdict_add(j->trial, "clipped", SUSPECT,
                          "%" PRIu64 " latencies were longer than the histogram's hour",
                          latency->clipped);
}
