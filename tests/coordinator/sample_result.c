#include "tests/coordinator/sample_result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/result/message.h"
#include "coordinator/result/summary.h"

enum { WINDOW_S = 5, CONNECTIONS = 64, CLIENTS = 2 };

static void *must(void *pointer)
{
    if (pointer == NULL)
        abort();
    return pointer;
}

static void set(char **field, const char *text)
{
    if (!coord_message_string(field, text))
        abort();
}

static Ls__Latency *latency(double p50_ns, double mean_ns, uint64_t count)
{
    Ls__Latency *made = must(coord_message_new(&ls__latency__descriptor));

    made->count = count;
    made->min_ns = (int64_t)(p50_ns / 4);
    made->mean_ns = mean_ns;
    made->stdev_ns = p50_ns / 3;
    made->p50_ns = (int64_t)p50_ns;
    made->p75_ns = (int64_t)(p50_ns * 1.25);
    made->p90_ns = (int64_t)(p50_ns * 1.5);
    made->p99_ns = (int64_t)(p50_ns * 2);
    made->p999_ns = (int64_t)(p50_ns * 4);
    made->p9999_ns = (int64_t)(p50_ns * 6);
    made->max_ns = (int64_t)(p50_ns * 8);
    return made;
}

static Ls__Requests *requests(uint64_t count)
{
    Ls__Requests *made = must(coord_message_new(&ls__requests__descriptor));

    made->scheduled = made->sent = made->ok = count;
    return made;
}

static void add_server(Ls__Trial *trial, const struct sample_trial *from)
{
    Ls__Server *server = must(coord_message_new(&ls__server__descriptor));

    trial->server = server;
    set(&server->agent, "server");
    set(&server->cpus, "0");
    set(&server->exit, "signal TERM");
    server->stopped_by_us = true;
    server->cpu_ns_per_request = from->cpu_us * 1000;
    server->cpu_ns = (int64_t)(from->cpu_us * 1000 * from->throughput_per_s * WINDOW_S);
    server->cpu_cores_used = (double)server->cpu_ns / (WINDOW_S * 1e9);
    server->rss_bytes = 5 << 20;
    server->rss_peak_bytes = 6 << 20;
    server->processes = 2;
    server->threads = 2;
    server->program = must(coord_message_new(&ls__program__descriptor));
    set(&server->program->path, "/usr/sbin/server");
    set(&server->program->sha256,
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    set(&server->program->version, "server 1.2.3");
}

static void add_clients(Ls__Trial *trial)
{
    for (unsigned i = 1; i <= CLIENTS; i++) {
        Ls__Client *client =
            must(coord_message_append(&trial->n_clients, &trial->clients, &ls__client__descriptor));
        char name[16];

        (void)snprintf(name, sizeof(name), "client-%u", i);
        set(&client->agent, name);
        set(&client->io, "libev");
        client->workers = 1;
        client->intervals = WINDOW_S;
        client->cpu = must(coord_message_new(&ls__client_cpu__descriptor));
        client->cpu->cores_used = 0.4;
        client->cpu->busiest = 0.5;
    }
}

static void add_intervals(Ls__Trial *trial, uint64_t count, double p50_ns)
{
    for (unsigned i = 0; i < WINDOW_S; i++) {
        Ls__Interval *interval = must(coord_message_append(&trial->n_intervals, &trial->intervals,
                                                           &ls__interval__descriptor));

        interval->at_ns = i * INT64_C(1000000000);
        interval->length_ns = INT64_C(1000000000);
        interval->completed = count / WINDOW_S;
        interval->p50_ns = (int64_t)p50_ns;
    }
}

Ls__Trial *sample_trial(const struct sample_trial *from)
{
    Ls__Trial *trial = must(coord_message_new(&ls__trial__descriptor));
    uint64_t count = (uint64_t)(from->throughput_per_s * WINDOW_S);
    double p50_ns = from->p50_ms * 1e6;
    double mean_ns = CONNECTIONS / from->throughput_per_s * 1e9; /* a full closed loop */
    char text[64];

    trial->repetition = from->repetition;
    trial->verdict = from->verdict;
    trial->pipeline = 1;
    trial->offered_per_s = from->offered_per_s;
    trial->throughput_per_s = from->throughput_per_s;
    set(&trial->target, from->target);
    set(&trial->workload, from->workload);
    set(&trial->status, "done");
    set(&trial->started_at, "2026-01-02T03:04:05.678Z");
    (void)snprintf(text, sizeof(text), "constant %.0f/s", from->offered_per_s);
    set(&trial->load, from->offered_per_s > 0 ? text : "closed");
    set(&trial->pacing, "precise");
    trial->window = must(coord_message_new(&ls__window__descriptor));
    set(&trial->window->start, "2026-01-02T03:04:08.678Z");
    trial->window->duration_ns = WINDOW_S * INT64_C(1000000000);
    trial->window->start_skew_ns = 12000;
    trial->window->start_skew_error_ns = 30000;
    trial->requests = requests(count);
    trial->warmup = must(coord_message_new(&ls__phase_requests__descriptor));
    trial->warmup->requests = requests(count / 2);
    trial->connections = must(coord_message_new(&ls__connections__descriptor));
    trial->connections->asked = trial->connections->opened = CONNECTIONS;
    trial->connections->peak = CONNECTIONS;
    trial->bytes_in = count * 160;
    trial->bytes_out = count * 40;
    trial->service_time = latency(p50_ns, mean_ns, count);
    trial->in_flight_mean = CONNECTIONS;
    if (from->offered_per_s > 0) {
        /* Half of the connections are busy, and everything leaves on time. */
        trial->service_time->mean_ns = mean_ns / 2;
        trial->in_flight_mean = CONNECTIONS / 2.0;
        trial->response_time = latency(p50_ns, mean_ns / 2, count);
        trial->send_lag = latency(2000, 2000, count);
        trial->loop_lag = latency(2000, 2000, count);
    }
    if (from->cpu_us > 0)
        add_server(trial, from);
    add_clients(trial);
    add_intervals(trial, count, p50_ns);
    return trial;
}

void sample_reason(Ls__Trial *trial, Ls__Verdict verdict, const char *code, const char *text)
{
    Ls__Reason *reason =
        must(coord_message_append(&trial->n_reasons, &trial->reasons, &ls__reason__descriptor));

    reason->verdict = verdict;
    set(&reason->code, code);
    set(&reason->text, text);
}

static void add_host(Ls__Result *result, const char *agent, const char *role, const char *cpus)
{
    Ls__Host *host =
        must(coord_message_append(&result->n_hosts, &result->hosts, &ls__host__descriptor));

    set(&host->agent, agent);
    set(&host->role, role);
    set(&host->cpus, cpus);
    host->facts = must(coord_message_new(&ls__facts__descriptor));
    set(&host->facts->cpu_model, "Test CPU 9000");
    set(&host->facts->kernel, "Linux 6.1.0");
}

Ls__Result *sample_result(const struct sample_trial *from, size_t count)
{
    Ls__Result *result = must(coord_message_new(&ls__result__descriptor));
    char folder[160];

    set(&result->run_id, "0123456789abcdef");
    set(&result->name, "sample");
    set(&result->description, "made up for tests");
    set(&result->lockstep_version, "0.1.0");
    set(&result->started_at, "2026-01-02T03:04:05.678Z");
    set(&result->status, "complete");
    result->seed = 42;
    result->trials_planned = (uint32_t)count;
    add_host(result, "server", "server", "0");
    add_host(result, "client-1", "client", "1");
    result->trials = count > 0 ? must(calloc(count, sizeof(*result->trials))) : NULL;
    result->n_trials = count;
    for (size_t i = 0; i < count; i++) {
        Ls__Trial *trial = result->trials[i] = sample_trial(&from[i]);

        trial->index = (uint32_t)i + 1;
        (void)snprintf(folder, sizeof(folder), "trials/%03u-%.40s-%.40s-r%u", trial->index,
                       from[i].target, from[i].workload, from[i].repetition);
        set(&trial->folder, folder);
    }
    if (coord_summary_build(result) != LS_OK)
        abort();
    return result;
}

void sample_tls(Ls__Trial *trial, uint64_t full, uint64_t resumed)
{
    trial->tls = must(coord_message_new(&ls__tls_use__descriptor));
    trial->tls->full = full;
    trial->tls->resumed = resumed;
    set(&trial->tls->version, "TLSv1.3");
    set(&trial->tls->cipher, "TLS_AES_256_GCM_SHA384");
}
