#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "coordinator/result/latency.h"
#include "coordinator/result/message.h"
#include "coordinator/result/messages.h"
#include "coordinator/result/requests.h"
#include "coordinator/run/merge_http2.h"
#include "coordinator/run/merge_internal.h"
#include "coordinator/run/merge_network.h"

#define CLOCK_ERROR_MAX_NS (INT64_C(1) << 50) /* 13 days: as good as unknown */

/* What finish() hands from one step to the next. */
struct finish {
    struct coord_merge *merge;
    Ls__Trial *trial;
    int64_t begin_ns; /* of the measure window, our clock */
    int64_t duration_ns;
    bool no_memory; /* sticky: checked once, at the end */
};

static void *make(struct finish *f, const ProtobufCMessageDescriptor *descriptor)
{
    void *message = coord_message_new(descriptor);

    f->no_memory = f->no_memory || message == NULL;
    return message;
}

static void *append(struct finish *f, size_t *n, void *items,
                    const ProtobufCMessageDescriptor *descriptor)
{
    void *message = coord_message_append(n, items, descriptor);

    f->no_memory = f->no_memory || message == NULL;
    return message;
}

static void set_string(struct finish *f, char **field, const char *text)
{
    f->no_memory = !coord_message_string(field, text) || f->no_memory;
}

static bool is_client(const struct merge_agent *agent)
{
    return agent->role == LS__ROLE__ROLE_CLIENT;
}

/* ---- window */

/* On our clock; checked when the report was taken. */
static int64_t ours(const struct merge_agent *agent, int64_t at_ns)
{
    return at_ns - agent->final_clock.offset_ns;
}

static void find_window(struct finish *f)
{
    const struct coord_merge *merge = f->merge;
    int64_t longest = 0;

    f->begin_ns = merge->start_ns + merge->options.warmup_ns;
    f->duration_ns = merge->options.measure_ns;
    if (!merge->options.fixed_count)
        return;
    for (uint32_t i = 0; i < merge->agent_count; i++) {
        const struct merge_agent *agent = &merge->agents[i];

        if (agent->final != NULL && ours(agent, agent->final->ended_ns) - f->begin_ns > longest)
            longest = ours(agent, agent->final->ended_ns) - f->begin_ns;
    }
    if (longest > 0 && longest < f->duration_ns)
        f->duration_ns = longest;
}

/* The clock that tells when an agent's load began. */
static const struct coord_merge_clock *at_start(const struct merge_agent *agent)
{
    return agent->start_known ? &agent->start_clock : &agent->final_clock;
}

static int64_t started(const struct merge_agent *agent, int64_t at_ns)
{
    return at_ns - at_start(agent)->offset_ns;
}

/* INT64_MAX, of a clock that is not known, would not survive being added to another. */
static int64_t start_error_ns(const struct merge_agent *agent)
{
    int64_t error_ns = at_start(agent)->error_ns;

    return error_ns < CLOCK_ERROR_MAX_NS ? error_ns : CLOCK_ERROR_MAX_NS;
}

/* Latest minus earliest actual start of load, and how much larger it can be in truth: the worst
 * pair of clients with both clocks off to their bounds. Within a client there is one clock. */
static void fill_skew(const struct coord_merge *merge, Ls__Window *window)
{
    int64_t worst = 0, skew = 0;

    for (uint32_t i = 0; i < merge->agent_count; i++) {
        const struct merge_agent *late = &merge->agents[i];

        for (uint32_t k = 0; late->final != NULL && k < merge->agent_count; k++) {
            const struct merge_agent *early = &merge->agents[k];
            int64_t apart, error;

            if (early->final == NULL)
                continue;
            apart = started(late, late->final->started_ns) -
                    started(early, early->final->started_first_ns);
            error = i == k ? 0 : start_error_ns(late) + start_error_ns(early);
            if (apart > skew)
                skew = apart;
            if (apart + error > worst)
                worst = apart + error;
        }
    }
    window->start_skew_ns = skew;
    window->start_skew_error_ns = worst > skew ? worst - skew : 0;
}

static void fill_window(struct finish *f)
{
    const struct coord_merge *merge = f->merge;
    Ls__Window *window;
    char wall[32];

    if (!merge->armed)
        return;
    window = f->trial->window = make(f, &ls__window__descriptor);
    if (window == NULL)
        return;
    ls_clock_format_wall(merge->start_wall_ns + merge->options.warmup_ns, wall, sizeof(wall));
    set_string(f, &window->start, wall);
    window->start_ns = f->begin_ns;
    window->duration_ns = f->duration_ns;
    fill_skew(merge, window);
}

/* ---- clients */

static void fill_latency(struct finish *f, Ls__Latency **field, const struct ls_hist *hist)
{
    Ls__Latency *latency = make(f, &ls__latency__descriptor);

    *field = latency;
    if (latency != NULL)
        coord_latency_fill(latency, hist);
}

/* In a closed loop nothing was due before it could be sent: there is no response time that would
 * say more than the service time, and none is published that could be taken for it. */
static bool is_published(const struct finish *f, unsigned series)
{
    return series != LS_SERIES_RESPONSE_TIME || f->merge->options.offered_per_s > 0;
}

/* Where Trial and Client, which have the same fields, keep each series. */
#define LATENCY_FIELDS(message)                                  \
    (Ls__Latency * *const[LS_SERIES_COUNT])                      \
    {                                                            \
        [LS_SERIES_RESPONSE_TIME] = &(message)->response_time,   \
        [LS_SERIES_SERVICE_TIME] = &(message)->service_time,     \
        [LS_SERIES_SEND_LAG] = &(message)->send_lag,             \
        [LS_SERIES_FIRST_BYTE] = &(message)->first_byte,         \
        [LS_SERIES_CONNECT_TIME] = &(message)->connect_time,     \
        [LS_SERIES_HANDSHAKE_TIME] = &(message)->handshake_time, \
        [LS_SERIES_READ_DELAY] = &(message)->read_delay,         \
        [LS_SERIES_KERNEL_TIME] = &(message)->kernel_time,       \
        [LS_SERIES_DELIVERY_TIME] = &(message)->delivery_time,   \
        [LS_SERIES_LOOP_LAG] = &(message)->loop_lag,             \
    }

static void fill_trial_latencies(struct finish *f)
{
    Ls__Latency **const *fields = LATENCY_FIELDS(f->trial);
    const struct merge_hists *total = &f->merge->total;

    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        if (total->has[s] && is_published(f, s))
            fill_latency(f, fields[s], total->of[s]);
    }
}

static void fill_client_latencies(struct finish *f, Ls__Client *client,
                                  const struct merge_agent *agent)
{
    Ls__Latency **const *fields = LATENCY_FIELDS(client);
    struct merge_hists *total = &f->merge->total;

    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        if (agent->hists[s] == NULL)
            continue;
        ls_hist_reset(f->merge->wide);
        ls_hist_narrow_add_to(agent->hists[s], f->merge->wide);
        ls_hist_merge(total->of[s], f->merge->wide);
        total->has[s] = true;
        if (is_published(f, s))
            fill_latency(f, fields[s], f->merge->wide);
    }
}

static void add_requests(struct finish *f, Ls__Requests **field, const Ls__Requests *src)
{
    if (*field == NULL)
        *field = make(f, &ls__requests__descriptor);
    if (*field != NULL)
        coord_requests_add(*field, src);
}

static void add_phase(struct finish *f, Ls__PhaseRequests **field, const Ls__Requests *src)
{
    if (*field == NULL)
        *field = make(f, &ls__phase_requests__descriptor);
    if (*field != NULL)
        add_requests(f, &(*field)->requests, src);
}

static void add_failure(struct finish *f, Ls__Connections *connections, const Ls__ErrnoCount *src)
{
    Ls__ErrnoCount *failure;

    for (size_t i = 0; i < connections->n_failures; i++) {
        if (strcmp(connections->failures[i]->name, src->name) == 0) {
            connections->failures[i]->count += src->count;
            return;
        }
    }
    failure =
        append(f, &connections->n_failures, &connections->failures, &ls__errno_count__descriptor);
    if (failure == NULL)
        return;
    set_string(f, &failure->name, src->name);
    failure->count = src->count;
}

static void add_connections(struct finish *f, Ls__Connections **field, const Ls__Connections *src)
{
    if (*field == NULL)
        *field = make(f, &ls__connections__descriptor);
    if (*field == NULL || src == NULL)
        return;
    (*field)->asked += src->asked;
    (*field)->opened += src->opened;
    (*field)->failed += src->failed;
    (*field)->peak += src->peak;
    (*field)->reopened += src->reopened;
    (*field)->retired += src->retired;
    (*field)->renewed += src->renewed;
    for (size_t i = 0; i < src->n_failures; i++)
        add_failure(f, *field, src->failures[i]);
}

static void add_word(struct finish *f, char **field, const char *src)
{
    if (src[0] == '\0' || strcmp(*field, src) == 0)
        return;
    set_string(f, field, (*field)[0] == '\0' ? src : "mixed");
}

static void add_tls(struct finish *f, Ls__TlsUse **field, const Ls__TlsUse *src)
{
    bool first = *field == NULL;

    if (src == NULL)
        return;
    if (first)
        *field = make(f, &ls__tls_use__descriptor);
    if (*field == NULL)
        return;
    (*field)->full += src->full;
    (*field)->resumed += src->resumed;
    (*field)->verified = src->verified && (first || (*field)->verified);
    add_word(f, &(*field)->version, src->version);
    add_word(f, &(*field)->cipher, src->cipher);
}

static double per_second(const struct finish *f, uint64_t count)
{
    return f->duration_ns > 0 ? (double)count * 1e9 / (double)f->duration_ns : 0;
}

static void add_messages(struct finish *f, Ls__Messages **field, const Ls__Messages *src)
{
    if (src == NULL)
        return;
    if (*field == NULL)
        *field = make(f, &ls__messages__descriptor);
    if (*field == NULL)
        return;
    coord_messages_add(*field, src);
    (*field)->received_per_s = per_second(f, (*field)->received_in_window);
}

static void fill_cpu(struct finish *f, Ls__Client *client, const Ls__ClientReport *report)
{
    Ls__ClientCpu *cpu;
    double cores = 0;

    if (report == NULL || report->n_workers == 0)
        return;
    cpu = client->cpu = make(f, &ls__client_cpu__descriptor);
    if (cpu == NULL)
        return;
    for (size_t i = 0; i < report->n_workers; i++) {
        const Ls__WorkerHealth *worker = report->workers[i];
        double window = (double)worker->window_ns, busy;

        /* As doubles, for they come from outside and their sum must not overflow. */
        cpu->cpu_ns = (int64_t)((uint64_t)cpu->cpu_ns + (uint64_t)worker->cpu_ns);
        cpu->runqueue_wait_ns =
            (int64_t)((uint64_t)cpu->runqueue_wait_ns + (uint64_t)worker->runqueue_wait_ns);
        cpu->spin_ns = (int64_t)((uint64_t)cpu->spin_ns + (uint64_t)worker->spin_ns);
        cpu->voluntary_switches += worker->voluntary_switches;
        cpu->involuntary_switches += worker->involuntary_switches;
        client->stamps_dropped += worker->stamps_dropped;
        if (worker->loop_lag_ns > cpu->loop_lag_ns)
            cpu->loop_lag_ns = worker->loop_lag_ns;
        if (window <= 0)
            continue;
        if ((double)worker->stalled_ns / window > cpu->stalled)
            cpu->stalled = (double)worker->stalled_ns / window;
        cores += (double)worker->cpu_ns / window;
        busy =
            ((double)worker->cpu_ns + (double)worker->runqueue_wait_ns - (double)worker->spin_ns) /
            window;
        if (busy > cpu->busiest)
            cpu->busiest = busy;
    }
    cpu->cores_used = cores;
}

/* All of it comes from outside: as doubles, nothing can overflow. */
static void fill_host(struct finish *f, Ls__Client *client, const Ls__ClientReport *report)
{
    const Ls__HostUse *host = report->host;
    const Ls__Connections *connections = report->connections;
    double span = host != NULL ? (double)host->span_ns : 0, foreign;

    if (span > 0) {
        foreign = ((double)host->busy_ns - (double)host->own_ns) / span;
        client->foreign_cpu_cores = foreign > 0 ? foreign : 0;
        client->steal_cores = host->steal_ns > 0 ? (double)host->steal_ns / span : 0;
        client->listen_overflows = host->listen_overflows;
        client->tcp_retransmits = host->tcp_retransmits;
        set_string(f, &client->governor_before, host->governor_before);
        set_string(f, &client->governor_after, host->governor_after);
    }
    /* Of few connections, pages and threads would be most of it. */
    if (connections != NULL && connections->asked >= COORD_MERGE_MEMORY_LEAST &&
        connections->opened >= connections->asked && report->rss_before_bytes > 0 &&
        report->rss_open_bytes > report->rss_before_bytes)
        client->memory_per_connection_bytes =
            ((double)report->rss_open_bytes - (double)report->rss_before_bytes) /
            (double)connections->asked;
}

/* How much of the window a client's reports cover. */
static int64_t covered_ns(const struct finish *f, const struct merge_agent *agent)
{
    int64_t end_ns =
        (int64_t)agent->next_index * f->merge->options.interval_ns - f->merge->options.warmup_ns;

    if (agent->final != NULL || end_ns > f->duration_ns)
        return f->duration_ns;
    return end_ns > 0 ? end_ns : 0;
}

/* What a client says of itself; of a lost one, what its intervals add up to. */
static void fill_client(struct finish *f, const struct merge_agent *agent)
{
    Ls__Trial *trial = f->trial;
    const Ls__ClientReport *final = agent->final;
    const struct merge_totals *sums = &agent->sums;
    uint64_t ok_in_window = final != NULL ? final->ok_in_window : sums->ok_in_window;
    Ls__Client *client = append(f, &trial->n_clients, &trial->clients, &ls__client__descriptor);

    if (client == NULL)
        return;
    set_string(f, &client->agent, agent->name);
    if (agent->ready != NULL) {
        set_string(f, &client->cpus, agent->ready->cpus);
        set_string(f, &client->io, agent->ready->io);
        set_string(f, &client->io_reason, agent->ready->io_reason);
        add_phase(f, &client->preflight, agent->ready->preflight);
    } else if (final != NULL) {
        add_phase(f, &client->preflight, final->preflight);
    }
    add_requests(f, &client->requests, final != NULL ? final->measure : &sums->measure);
    add_phase(f, &client->warmup, final != NULL ? final->warmup : &sums->warmup);
    add_connections(f, &client->connections, final != NULL ? final->connections : NULL);
    add_tls(f, &client->tls, final != NULL ? final->tls : NULL);
    if (final == NULL && sums->has_messages)
        add_messages(f, &client->messages, &sums->messages);
    else if (final != NULL)
        add_messages(f, &client->messages, final->messages);
    if (final != NULL && !coord_merge_http2(&client->http2, final->http2))
        f->no_memory = true;
    client->workers = final != NULL ? (uint32_t) final->n_workers : 0;
    client->throughput_per_s = per_second(f, ok_in_window);
    client->bytes_in = final != NULL ? final->bytes_in : sums->bytes_in;
    client->bytes_out = final != NULL ? final->bytes_out : sums->bytes_out;
    client->in_flight_mean =
        f->duration_ns > 0 ? (double)sums->in_flight_ns / (double)f->duration_ns : 0;
    client->intervals = sums->reports;
    client->intervals_merged = sums->merged;
    client->lost = agent->lost || final == NULL;
    client->lost_at_ns = agent->lost && final == NULL ? covered_ns(f, agent) : 0;
    if (final != NULL) {
        client->start_offset_ns = started(agent, final->started_ns) - f->merge->start_ns;
        client->start_offset_error_ns = at_start(agent)->error_ns;
        fill_host(f, client, final);
        f->no_memory =
            !coord_merge_network(&client->network, final->network, f->duration_ns) || f->no_memory;
    }
    fill_cpu(f, client, final);
    fill_client_latencies(f, client, agent);
}

static void add_to_trial(struct finish *f, const Ls__Client *client)
{
    Ls__Trial *trial = f->trial;

    add_requests(f, &trial->requests, client->requests);
    if (client->preflight != NULL)
        add_phase(f, &trial->preflight, client->preflight->requests);
    if (client->warmup != NULL)
        add_phase(f, &trial->warmup, client->warmup->requests);
    add_connections(f, &trial->connections, client->connections);
    add_tls(f, &trial->tls, client->tls);
    add_messages(f, &trial->messages, client->messages);
    f->no_memory = !coord_merge_http2(&trial->http2, client->http2) || f->no_memory;
    trial->throughput_per_s += client->throughput_per_s;
    trial->bytes_in += client->bytes_in;
    trial->bytes_out += client->bytes_out;
    trial->in_flight_mean += client->in_flight_mean;
}

/* Shares are not redistributed: what a lost client was to do is not done. */
static void fill_coverage(struct finish *f)
{
    const struct coord_merge *merge = f->merge;
    double planned = 0, covered = 0;
    Ls__Coverage *coverage;
    uint32_t lost = 0, clients = 0;
    int64_t since_ns = INT64_MAX;

    for (uint32_t i = 0; i < merge->agent_count; i++) {
        const struct merge_agent *agent = &merge->agents[i];

        if (!is_client(agent))
            continue;
        clients++;
        planned += (double)agent->share * (double)f->duration_ns;
        covered += (double)agent->share * (double)covered_ns(f, agent);
        if (!agent->lost || agent->final != NULL)
            continue;
        lost++;
        if (covered_ns(f, agent) < since_ns)
            since_ns = covered_ns(f, agent);
    }
    if (lost == 0)
        return;
    coverage = f->trial->coverage = make(f, &ls__coverage__descriptor);
    if (coverage == NULL)
        return;
    coverage->clients = clients;
    coverage->clients_lost = lost;
    coverage->load = planned > 0 ? covered / planned : 0;
    coverage->since_ns = since_ns;
}

static void fill_clients(struct finish *f)
{
    struct coord_merge *merge = f->merge;
    Ls__Trial *trial = f->trial;
    uint64_t ok_in_window = 0;

    if (!merge->armed)
        return;
    for (uint32_t i = 0; i < merge->agent_count && !f->no_memory; i++) {
        const struct merge_agent *agent = &merge->agents[i];

        if (!is_client(agent))
            continue;
        fill_client(f, agent);
        if (!f->no_memory)
            add_to_trial(f, trial->clients[trial->n_clients - 1]);
        ok_in_window +=
            agent->final != NULL ? agent->final->ok_in_window : agent->sums.ok_in_window;
    }
    trial->throughput_per_s = per_second(f, ok_in_window); /* one division, one rounding */
    fill_trial_latencies(f);
    f->no_memory = !coord_merge_networks(trial) || f->no_memory;
}

static bool fill_slower(struct finish *f, Ls__Interval *interval, const struct merge_point *point)
{
    size_t n = f->merge->options.limit_count;

    if (n == 0)
        return true;
    interval->slower = malloc(n * sizeof(*interval->slower));
    if (interval->slower == NULL) {
        f->no_memory = true;
        return false;
    }
    (void)memcpy(interval->slower, point->slower, n * sizeof(*interval->slower));
    interval->n_slower = n;
    return true;
}

static void fill_intervals(struct finish *f)
{
    const struct coord_merge *merge = f->merge;
    int64_t step = merge->options.interval_ns;

    for (uint32_t i = 0; i < merge->point_count && !f->no_memory; i++) {
        const struct merge_point *point = &merge->points[i];
        Ls__Interval *interval;

        if (!point->used || (int64_t)i * step + point->length_ns <= merge->options.warmup_ns)
            continue;
        interval =
            append(f, &f->trial->n_intervals, &f->trial->intervals, &ls__interval__descriptor);
        if (interval == NULL)
            return;
        interval->at_ns = (int64_t)i * step - merge->options.warmup_ns;
        interval->length_ns = point->length_ns;
        interval->scheduled = point->scheduled;
        interval->completed = point->ok;
        interval->errors = point->errors;
        interval->p50_ns = point->p50_ns;
        interval->p99_ns = point->p99_ns;
        interval->max_ns = point->max_ns;
        if (!fill_slower(f, interval, point))
            return;
    }
}

/* ---- books */

static void note(char *out, size_t out_bytes, const char *agent, const char *what)
{
    if (out[0] == '\0') /* the first one is enough */
        (void)snprintf(out, out_bytes, "%.60s: %s", agent, what);
}

static void check_phase(struct coord_books *books, const char *agent, const char *phase,
                        const Ls__Requests *requests)
{
    char how[120], text[160];

    if (coord_requests_balance(requests, how, sizeof(how)))
        return;
    (void)snprintf(text, sizeof(text), "%s: %s", phase, how);
    note(books->unbalanced, sizeof(books->unbalanced), agent, text);
}

static void check_sum(struct coord_books *books, const char *agent, const char *what,
                      uint64_t reported, uint64_t summed)
{
    char text[160];

    if (reported == summed)
        return;
    (void)snprintf(text, sizeof(text),
                   "%s: the last report says %" PRIu64 ", the intervals add up to %" PRIu64, what,
                   reported, summed);
    note(books->sums, sizeof(books->sums), agent, text);
}

static void check_requests(struct coord_books *books, const char *agent, const char *phase,
                           const Ls__Requests *reported, const Ls__Requests *summed)
{
    uint64_t a, b;
    const char *field = coord_requests_differ(reported, summed, &a, &b);
    char what[64];

    if (field == NULL)
        return;
    (void)snprintf(what, sizeof(what), "%s %s", phase, field);
    check_sum(books, agent, what, a, b);
}

static void check_messages(struct coord_books *books, const struct merge_agent *agent)
{
    uint64_t a, b;
    const char *field =
        coord_messages_differ(agent->final->messages, &agent->sums.messages, &a, &b);
    char what[64];

    if (field == NULL)
        return;
    (void)snprintf(what, sizeof(what), "messages, %s", field);
    check_sum(books, agent->name, what, a, b);
}

/* Every answered request has a latency, and nothing has one that was not due. */
static void check_samples(const struct coord_merge *merge, struct coord_books *books,
                          const struct merge_agent *agent)
{
    enum ls_series series = coord_merge_primary(merge);
    uint64_t count = agent->hists[series] != NULL ? ls_hist_narrow_count(agent->hists[series]) : 0;
    const Ls__Requests *measure = agent->final->measure;
    uint64_t ok = measure != NULL ? measure->ok : 0;
    char text[160];

    if (count >= ok && count <= (measure != NULL ? measure->scheduled : 0))
        return;
    (void)snprintf(text, sizeof(text),
                   "%s has %" PRIu64 " samples for %" PRIu64 " answered requests",
                   ls_series_name(series), count, ok);
    note(books->sums, sizeof(books->sums), agent->name, text);
}

static void check_agent(const struct coord_merge *merge, struct coord_books *books,
                        const struct merge_agent *agent)
{
    const Ls__ClientReport *final = agent->final;
    const struct merge_totals *sums = &agent->sums;

    check_phase(books, agent->name, "preflight", final->preflight);
    check_phase(books, agent->name, "warm-up", final->warmup);
    check_phase(books, agent->name, "measure", final->measure);
    if (agent->ready != NULL && agent->ready->preflight != NULL)
        check_requests(books, agent->name, "preflight", final->preflight, agent->ready->preflight);
    check_requests(books, agent->name, "warm-up", final->warmup, &sums->warmup);
    check_requests(books, agent->name, "measure", final->measure, &sums->measure);
    check_messages(books, agent);
    check_sum(books, agent->name, "completions in the window", final->ok_in_window,
              sums->ok_in_window);
    check_sum(books, agent->name, "bytes in", final->bytes_in, sums->bytes_in);
    check_sum(books, agent->name, "bytes out", final->bytes_out, sums->bytes_out);
    check_sum(books, agent->name, "in flight, ns", (uint64_t) final->in_flight_ns,
              (uint64_t)sums->in_flight_ns);
    /* An agent counts the intervals that it measured or those that it sent; either is whole. */
    if (final->intervals != sums->reports + sums->merged)
        check_sum(books, agent->name, "intervals", final->intervals, sums->reports);
    check_samples(merge, books, agent);
}

/* What one client sends, another one has to get: this can be asked of all together only. */
static void check_all_messages(struct coord_merge *merge, const Ls__Trial *trial)
{
    char how[160];

    for (size_t i = 0; i < trial->n_clients; i++) {
        if (trial->clients[i]->lost)
            return; /* which has a reason of its own */
    }
    if (!coord_messages_balance(trial->messages, how, sizeof(how)))
        note(merge->books.unbalanced, sizeof(merge->books.unbalanced), "all clients", how);
}

/* ---- server */

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* The sample at the window's start, and the one at its end. A fixed count ends when it ends: then
 * the first one after that. */
static void find_edges(const struct finish *f, const struct merge_agent *agent,
                       const struct merge_sample **out_begin, const struct merge_sample **out_end)
{
    int64_t end_ns = f->begin_ns + f->duration_ns;
    const struct merge_sample *begin = NULL, *end = NULL, *after = NULL;

    for (uint32_t i = 0; i < agent->sample_count; i++) {
        const struct merge_sample *sample = &agent->samples[i];

        if (sample->edge == 1)
            begin = sample;
        else if (sample->edge == 2)
            end = sample;
        if (after == NULL && begin != NULL && sample != begin && sample->at_ns >= end_ns)
            after = sample;
    }
    *out_begin = begin;
    *out_end = f->merge->options.fixed_count && after != NULL ? after : end;
}

static uint64_t grown(uint64_t before, uint64_t after)
{
    return after > before ? after - before : 0;
}

/* Of all clients. */
static uint64_t ok_in_window(const struct finish *f)
{
    uint64_t ok = 0;

    for (uint32_t i = 0; i < f->merge->agent_count; i++) {
        const struct merge_agent *client = &f->merge->agents[i];

        ok += client->final != NULL ? client->final->ok_in_window : client->sums.ok_in_window;
    }
    return ok;
}

/* What a request costs the clients, over the window that it costs the server. Spinning is what a
 * worker does with time that it has, and no cost of a request. */
static void fill_client_costs(struct finish *f)
{
    double cpu_ns = 0, switches = 0;
    uint64_t ok = ok_in_window(f);

    for (size_t i = 0; i < f->trial->n_clients; i++) {
        const Ls__ClientCpu *cpu = f->trial->clients[i]->cpu;

        if (cpu == NULL)
            return; /* without a part of it there is no whole */
        cpu_ns += (double)cpu->cpu_ns - (double)cpu->spin_ns;
        switches += (double)cpu->voluntary_switches + (double)cpu->involuntary_switches;
    }
    if (ok == 0)
        return;
    f->trial->client_cpu_ns_per_request = cpu_ns / (double)ok;
    f->trial->client_switches_per_request = switches / (double)ok;
}

static void fill_cgroup(Ls__Server *server, const struct merge_sample *begin,
                        const struct merge_sample *end)
{
    if (begin->usage.cpu_cgroup_ns > 0 && end->usage.cpu_cgroup_ns > begin->usage.cpu_cgroup_ns)
        server->cpu_cgroup_ns = end->usage.cpu_cgroup_ns - begin->usage.cpu_cgroup_ns;
    server->memory_peak_bytes = end->usage.memory_peak_bytes;
}

static void fill_usage(struct finish *f, Ls__Server *server, const struct merge_agent *agent)
{
    const struct merge_sample *begin, *end;
    uint64_t ok = ok_in_window(f);
    double span, foreign;

    find_edges(f, agent, &begin, &end);
    if (begin == NULL || end == NULL || end->at_ns <= begin->at_ns)
        return;
    span = (double)(end->at_ns - begin->at_ns);
    server->cpu_ns = end->usage.cpu_ns > begin->usage.cpu_ns
                         ? end->usage.cpu_ns - begin->usage.cpu_ns
                         : 0; /* processes that ended took their time with them */
    server->cpu_cores_used = (double)server->cpu_ns / span;
    if (ok > 0)
        server->cpu_ns_per_request = (double)server->cpu_ns / (double)ok;
    server->rss_bytes = end->usage.rss_bytes;
    server->rss_peak_bytes = end->rss_peak_bytes;
    server->processes = end->usage.processes;
    server->threads = end->usage.threads;
    server->voluntary_switches =
        grown(begin->usage.voluntary_switches, end->usage.voluntary_switches);
    server->involuntary_switches =
        grown(begin->usage.involuntary_switches, end->usage.involuntary_switches);
    if (ok > 0)
        server->switches_per_request =
            ((double)server->voluntary_switches + (double)server->involuntary_switches) /
            (double)ok;
    fill_cgroup(server, begin, end);
    server->listen_overflows = grown(begin->listen_overflows, end->listen_overflows);
    server->tcp_retransmits = grown(begin->tcp_retransmits, end->tcp_retransmits);
    foreign = (double)(end->cpus_busy_ns - begin->cpus_busy_ns - server->cpu_ns) / span;
    server->foreign_cpu_cores = foreign > 0 ? foreign : 0;
    server->steal_cores = end->cpus_steal_ns > begin->cpus_steal_ns
                              ? (double)(end->cpus_steal_ns - begin->cpus_steal_ns) / span
                              : 0;
    server->window_error_ns = distance(begin->at_ns, f->begin_ns);
    if (distance(end->at_ns, f->begin_ns + f->duration_ns) > server->window_error_ns)
        server->window_error_ns = distance(end->at_ns, f->begin_ns + f->duration_ns);
}

static void fill_samples(struct finish *f, Ls__Server *server, const struct merge_agent *agent)
{
    for (uint32_t i = 0; i < agent->sample_count && !f->no_memory; i++) {
        const struct merge_sample *from = &agent->samples[i];
        Ls__Sample *to = append(f, &server->n_samples, &server->samples, &ls__sample__descriptor);

        if (to == NULL)
            return;
        to->at_ns = from->at_ns - f->begin_ns;
        to->cpu_ns = from->usage.cpu_ns;
        to->rss_bytes = from->usage.rss_bytes;
        to->processes = from->usage.processes;
        to->threads = from->usage.threads;
        to->voluntary_switches = from->usage.voluntary_switches;
        to->involuntary_switches = from->usage.involuntary_switches;
        to->cpu_cgroup_ns = from->usage.cpu_cgroup_ns;
        to->memory_bytes = from->usage.memory_bytes;
        to->memory_peak_bytes = from->usage.memory_peak_bytes;
    }
}

static void fill_exits(struct finish *f, Ls__Server *server, const Ls__ServerReport *down)
{
    server->instance_exits = calloc(down->n_instance_exits + 1, sizeof(char *));
    f->no_memory = f->no_memory || server->instance_exits == NULL;
    for (size_t i = 0; i < down->n_instance_exits && !f->no_memory; i++) {
        server->instance_exits[i] = strdup(down->instance_exits[i]);
        f->no_memory = server->instance_exits[i] == NULL;
        server->n_instance_exits += !f->no_memory;
    }
}

static const struct merge_agent *find_server(const struct coord_merge *merge)
{
    for (uint32_t i = 0; i < merge->agent_count; i++) {
        const struct merge_agent *one = &merge->agents[i];

        if (!is_client(one) && (one->up != NULL || one->down != NULL || one->sample_count > 0))
            return one;
    }
    return NULL;
}

static void fill_services(struct finish *f, const Ls__ServerReport *report)
{
    f->trial->services = calloc(report->n_services + 1, sizeof(Ls__ServiceUse *));
    f->no_memory = f->no_memory || f->trial->services == NULL;
    for (size_t i = 0; i < report->n_services && !f->no_memory; i++) {
        Ls__ServiceUse *copy = coord_message_copy(report->services[i]);

        if (copy != NULL)
            f->trial->services[f->trial->n_services++] = copy;
        f->no_memory = copy == NULL;
    }
}

static void fill_server(struct finish *f, const struct merge_agent *agent)
{
    Ls__Server *server;

    if (agent == NULL)
        return;
    server = f->trial->server = make(f, &ls__server__descriptor);
    if (server == NULL)
        return;
    set_string(f, &server->agent, agent->name);
    if (agent->ready != NULL)
        set_string(f, &server->cpus, agent->ready->cpus);
    if (agent->up != NULL) {
        server->readiness_requests = agent->up->readiness_requests;
        if (agent->up->program != NULL) {
            server->program = coord_message_copy(agent->up->program);
            f->no_memory = f->no_memory || server->program == NULL;
        }
        if (agent->up->containment != NULL) {
            server->containment = coord_message_copy(agent->up->containment);
            f->no_memory = f->no_memory || server->containment == NULL;
        }
    }
    if (agent->down != NULL) {
        set_string(f, &server->exit, agent->down->exit);
        server->stopped_by_us = agent->down->stopped_by_us;
        set_string(f, &server->governor_before, agent->down->governor_before);
        set_string(f, &server->governor_after, agent->down->governor_after);
        fill_services(f, agent->down);
        server->oom_kills = agent->down->oom_kills;
        server->left_over = agent->down->left_over;
        fill_exits(f, server, agent->down);
    }
    if (!f->merge->armed)
        return;
    fill_usage(f, server, agent);
    fill_samples(f, server, agent);
}

/* ---- all of it */

enum ls_err coord_merge_finish(struct coord_merge *merge, Ls__Trial *trial,
                               struct coord_books *out_books, struct ls_diag *diag)
{
    struct finish f = { .merge = merge, .trial = trial };
    const struct merge_agent *server = find_server(merge);
    enum ls_err rc = coord_merge_flush(merge, diag);

    if (rc != LS_OK)
        return rc;
    trial->offered_per_s = merge->options.offered_per_s;
    find_window(&f);
    fill_window(&f);
    fill_clients(&f);
    if (merge->armed) {
        fill_coverage(&f);
        fill_client_costs(&f);
    }
    fill_intervals(&f);
    fill_server(&f, server);
    for (uint32_t i = 0; i < merge->agent_count; i++) {
        if (merge->agents[i].final != NULL)
            check_agent(merge, &merge->books, &merge->agents[i]);
    }
    check_all_messages(merge, trial);
    if (f.no_memory)
        return ls_fail(diag, LS_ENOMEM, "no memory for the trial's result");
    *out_books = merge->books;
    return server != NULL && merge->armed
               ? coord_merge_keep_samples(merge, server, f.begin_ns, diag)
               : LS_OK;
}
