#include "coordinator/run/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "coordinator/result/message.h"
#include "coordinator/result/requests.h"
#include "coordinator/run/trend.h"

#define INVALID LS__VERDICT__VERDICT_INVALID
#define SUSPECT LS__VERDICT__VERDICT_SUSPECT

const char *coord_verdict_name(Ls__Verdict verdict)
{
    switch (verdict) {
    case LS__VERDICT__VERDICT_VALID:
        return "valid";
    case LS__VERDICT__VERDICT_SUSPECT:
        return "suspect";
    default:
        return "invalid";
    }
}

void coord_verdict_add(Ls__Trial *trial, const char *code, Ls__Verdict verdict, const char *fmt,
                       ...)
{
    char text[480];
    Ls__Reason *reason;
    va_list ap;

    if (verdict > trial->verdict)
        trial->verdict = verdict;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    reason = coord_message_append(&trial->n_reasons, &trial->reasons, &ls__reason__descriptor);
    if (reason == NULL)
        return;
    reason->verdict = verdict;
    if (!coord_message_string(&reason->code, code) || !coord_message_string(&reason->text, text))
        trial->verdict = INVALID; /* a reason that cannot be read must not look like none */
}

/* ---- what the checks have in common -----------------------------------------------------------
 */

/* How much of the server's CPUs was in use, by whomever. */
struct room {
    bool known;
    bool left;   /* the server could have done more */
    double used; /* 0 to 1 */
};

struct judge {
    Ls__Trial *trial;
    const struct coord_verdict_input *in;
    struct room room;
    bool open;
    double window_s;
    double pipelines; /* connections x pipeline: the most that can be in flight */
};

typedef void check_fn(struct judge *j);

static struct room find_room(const Ls__Trial *trial, uint32_t cpus)
{
    const Ls__Server *server = trial->server;
    struct room room = { .known = false, .left = true };

    if (server == NULL || cpus == 0 || server->cpu_cores_used <= 0)
        return room;
    room.known = true;
    room.used = (server->cpu_cores_used + server->foreign_cpu_cores + server->steal_cores) / cpus;
    room.left = room.used < COORD_LIMIT_BUSY;
    return room;
}

/* "and the server's CPUs were 42 % in use": how a reason about the generator ends. */
static const char *say_room(const struct judge *j, char *out, size_t out_bytes)
{
    if (j->room.known)
        (void)snprintf(out, out_bytes, "the server's CPUs were %.0f %% in use", j->room.used * 100);
    else
        (void)snprintf(out, out_bytes, "how busy the server was is not known");
    return out;
}

static uint64_t connections_of(const struct judge *j)
{
    if (j->in->connections > 0)
        return j->in->connections;
    return j->trial->connections != NULL ? j->trial->connections->asked : 0;
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

/* ---- the checks: was it counted right? --------------------------------------------------------
 */

static void check_books(struct judge *j)
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

static bool has_reason(const Ls__Trial *trial, const char *code)
{
    for (size_t i = 0; i < trial->n_reasons; i++) {
        if (strcmp(trial->reasons[i]->code, code) == 0)
            return true;
    }
    return false;
}

static void check_agents(struct judge *j)
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

static void check_target(struct judge *j)
{
    const Ls__Server *server = j->trial->server;

    if (server != NULL && server->exit[0] != '\0' && !server->stopped_by_us)
        coord_verdict_add(j->trial, "target_died", INVALID,
                          "the target ended by itself (%.60s): see target.log", server->exit);
}

static void check_answers(struct judge *j)
{
    const Ls__Requests *requests = j->trial->requests;
    const Ls__Requests *warmup = j->trial->warmup != NULL ? j->trial->warmup->requests : NULL;
    char kinds[200];

    if (requests == NULL || requests->ok == 0)
        coord_verdict_add(j->trial, "no_requests", INVALID,
                          "no request was answered as expected (%" PRIu64 " sent)",
                          requests != NULL ? requests->sent : 0);
    if (coord_requests_errors(requests) > 0)
        coord_verdict_add(j->trial, "wrong_responses", INVALID, "of %" PRIu64 " requests: %s",
                          requests->sent, coord_requests_describe(requests, kinds, sizeof(kinds)));
    if (coord_requests_errors(warmup) > 0)
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

static void check_connections(struct judge *j)
{
    const Ls__Connections *connections = j->trial->connections;
    uint64_t asked = connections_of(j), first;
    char failures[160];

    if (connections == NULL || asked == 0)
        return;
    first =
        connections->opened -
        (connections->reopened < connections->opened ? connections->reopened : connections->opened);
    describe_failures(connections, failures, sizeof(failures));
    if (first < asked)
        coord_verdict_add(j->trial, "connections_short", INVALID,
                          "%" PRIu64 " of %" PRIu64 " connections were opened%s", first, asked,
                          failures);
    else if (connections->failed > 0)
        coord_verdict_add(j->trial, "connect_errors", SUSPECT,
                          "%" PRIu64 " attempts to connect failed%s", connections->failed,
                          failures);
}

static void check_skew(struct judge *j)
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
static void check_little(struct judge *j)
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

static void check_clipped(struct judge *j)
{
    const Ls__Latency *latency = j->open ? j->trial->response_time : j->trial->service_time;

    if (latency != NULL && latency->clipped > 0)
        coord_verdict_add(j->trial, "clipped", SUSPECT,
                          "%" PRIu64 " latencies were longer than the histogram's hour",
                          latency->clipped);
}

/* ---- was the generator the limit? -------------------------------------------------------------
 */

static void check_generator(struct judge *j)
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

/* Every connection waiting for the server: then a late request is not the generator's doing. By
 * Little's law on the service time, for requests in flight include those that wait for one. */
static bool connections_exhausted(const struct judge *j)
{
    const Ls__Latency *service = j->trial->service_time;

    return j->pipelines > 0 && service != NULL &&
           j->trial->throughput_per_s * service->mean_ns / 1e9 >=
               COORD_LIMIT_PIPELINES * j->pipelines;
}

static void check_send_lag(struct judge *j)
{
    const Ls__Latency *lag = j->trial->send_lag, *response = j->trial->response_time;
    char p99[48], of[48];
    Ls__Verdict verdict;

    if (!j->open || lag == NULL || response == NULL || connections_exhausted(j))
        return;
    if ((double)lag->p99_ns <= COORD_LIMIT_LAG_SHARE * (double)response->p99_ns ||
        lag->p99_ns <= COORD_LIMIT_LAG_SUSPECT_NS)
        return;
    verdict = lag->p99_ns > COORD_LIMIT_LAG_INVALID_NS && j->room.left ? INVALID : SUSPECT;
    coord_verdict_add(j->trial, "send_lag", verdict,
                      "1 %% of the requests left %s late or later, though connections were free; "
                      "p99 of the response time is %s",
                      ls_human_duration((double)lag->p99_ns, p99, sizeof(p99)),
                      ls_human_duration((double)response->p99_ns, of, sizeof(of)));
}

/* Completions inside the window against what was due in it, less what is still on its way at its
 * end: about rate x service time. */
static void check_achieved(struct judge *j)
{
    const Ls__Latency *service = j->trial->service_time;
    double offered = j->trial->offered_per_s, due, share;
    char rate[48], got[48], room[64];

    if (!j->open || j->window_s <= 0 || j->in->fixed_count)
        return;
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

static void check_shed(struct judge *j)
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
static void check_pipelines(struct judge *j)
{
    const Ls__Connections *connections = j->trial->connections;
    const Ls__Requests *requests = j->trial->requests;

    if (j->open || j->in->fixed_count || connections == NULL || requests == NULL ||
        j->pipelines <= 0 || requests->ok < COORD_LIMIT_LITTLE_COUNT ||
        connections->reopened > requests->ok / 100)
        return;
    if (j->trial->in_flight_mean < COORD_LIMIT_PIPELINES * j->pipelines)
        coord_verdict_add(j->trial, "pipelines_not_full", SUSPECT,
                          "on average %.1f of %.0f possible requests were in flight: the generator "
                          "did not send the next request as soon as it could",
                          j->trial->in_flight_mean, j->pipelines);
}

/* ---- was it quiet? ----------------------------------------------------------------------------
 */

static void check_shared(struct judge *j)
{
    if (j->in->shared_cores)
        coord_verdict_add(j->trial, "shared_cores", SUSPECT, "CPUs are shared: %s",
                          j->in->shared_why != NULL && j->in->shared_why[0] != '\0'
                              ? j->in->shared_why
                              : "not every agent has CPUs of its own");
}

static void check_foreign(struct judge *j)
{
    const Ls__Server *server = j->trial->server;
    double cpus = j->in->server_cpus;

    if (server == NULL || cpus <= 0)
        return;
    if (!j->in->shared_cores && server->foreign_cpu_cores > COORD_LIMIT_FOREIGN * cpus)
        coord_verdict_add(j->trial, "foreign_cpu", SUSPECT,
                          "other processes used %.1f %% of the server's %.0f CPU%s",
                          server->foreign_cpu_cores / cpus * 100, cpus, cpus > 1 ? "s" : "");
    if (server->steal_cores > COORD_LIMIT_STEAL * cpus)
        coord_verdict_add(j->trial, "cpu_steal", SUSPECT,
                          "the hypervisor took %.1f %% of the server's %.0f CPU%s",
                          server->steal_cores / cpus * 100, cpus, cpus > 1 ? "s" : "");
}

static void check_network(struct judge *j)
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

static void check_governor(struct judge *j)
{
    const char *before = j->in->governor_before, *after = j->in->governor_after;

    if (before != NULL && after != NULL && before[0] != '\0' && after[0] != '\0' &&
        strcmp(before, after) != 0)
        coord_verdict_add(j->trial, "governor_changed", SUSPECT,
                          "the CPU frequency governor was %.40s before and %.40s after", before,
                          after);
}

static void check_window(struct judge *j)
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

/* ---- trend ------------------------------------------------------------------------------------
 */

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
static void check_trend(struct judge *j)
{
    double *values, first, last, p;
    uint32_t n;

    if (j->trial->window == NULL || j->trial->n_intervals < COORD_LIMIT_TREND_INTERVALS)
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

/* ---- all of it --------------------------------------------------------------------------------
 */

static check_fn *const checks[] = {
    check_books,    check_agents,   check_target,    check_answers,   check_connections,
    check_skew,     check_little,   check_clipped,   check_generator, check_send_lag,
    check_achieved, check_shed,     check_pipelines, check_shared,    check_foreign,
    check_network,  check_governor, check_window,    check_trend,
};

static bool took_place(const Ls__Trial *trial)
{
    return strcmp(trial->status, "done") == 0 && trial->window != NULL;
}

void coord_verdict_judge(Ls__Trial *trial, const struct coord_verdict_input *input)
{
    struct judge j = { .trial = trial, .in = input };

    for (size_t i = 0; i < trial->n_reasons; i++) {
        if (trial->reasons[i]->verdict > trial->verdict)
            trial->verdict = trial->reasons[i]->verdict;
    }
    if (!took_place(trial)) {
        /* Whoever ended it knows better why than the figures that are missing. */
        if (trial->verdict != INVALID)
            coord_verdict_add(trial, "not_measured", INVALID,
                              "the trial was not measured to its "
                              "end");
        return;
    }
    j.room = find_room(trial, input->server_cpus);
    j.open = trial->offered_per_s > 0;
    j.window_s = (double)trial->window->duration_ns / 1e9;
    j.pipelines = (double)connections_of(&j) * (trial->pipeline > 0 ? trial->pipeline : 1);
    for (size_t i = 0; i < LS_ARRAY_LEN(checks); i++)
        checks[i](&j);
}
