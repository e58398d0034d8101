#include "coordinator/result/page_metrics.h"

#include "common/attr.h"

/* One core's worth, from server CPU per request: the figure that repeats best. */
static bool get_one_core(const Ls__Trial *trial, double *out)
{
    double cpu_ns = trial->server != NULL ? trial->server->cpu_ns_per_request : 0;

    *out = cpu_ns > 0 ? 1e9 / cpu_ns : 0;
    return cpu_ns > 0;
}

static bool get_ok(const Ls__Trial *trial, double *out)
{
    *out = trial->requests != NULL ? (double)trial->requests->ok : 0;
    return trial->requests != NULL;
}

static bool get_time_per_request(const Ls__Trial *trial, double *out)
{
    *out = trial->throughput_per_s > 0 ? 1e9 / trial->throughput_per_s : 0;
    return *out > 0;
}

static bool get_bytes_in(const Ls__Trial *trial, double *out)
{
    *out = trial->window != NULL && trial->window->duration_ns > 0
               ? (double)trial->bytes_in * 1e9 / (double)trial->window->duration_ns
               : 0;
    return *out > 0;
}

/* Heads and bodies, of the answers inside the window. */
static bool get_response_bytes(const Ls__Trial *trial, double *out)
{
    double per_s;

    *out = get_bytes_in(trial, &per_s) && trial->throughput_per_s > 0
               ? per_s / trial->throughput_per_s
               : 0;
    return *out > 0;
}

static bool get_mean(const Ls__Trial *trial, double *out)
{
    const Ls__Latency *latency = coord_trial_latency(trial);

    *out = latency != NULL ? latency->mean_ns : 0;
    return latency != NULL && latency->count > 0;
}

static bool get_stdev(const Ls__Trial *trial, double *out)
{
    const Ls__Latency *latency = coord_trial_latency(trial);

    *out = latency != NULL ? latency->stdev_ns : 0;
    return latency != NULL && latency->count > 0;
}

static bool get_socket_errors(const Ls__Trial *trial, double *out)
{
    const Ls__Requests *r = trial->requests;

    *out = r != NULL ? (double)(r->timeout + r->reset + r->closed_early + r->tls_error + r->aborted)
                     : 0;
    return r != NULL;
}

static bool get_status_errors(const Ls__Trial *trial, double *out)
{
    *out = trial->requests != NULL ? (double)trial->requests->bad_status : 0;
    return trial->requests != NULL;
}

static bool get_timeouts(const Ls__Trial *trial, double *out)
{
    *out = trial->requests != NULL ? (double)trial->requests->timeout : 0;
    return trial->requests != NULL;
}

static bool get_opened(const Ls__Trial *trial, double *out)
{
    *out = trial->connections != NULL ? (double)trial->connections->peak : 0;
    return trial->connections != NULL;
}

static bool get_client_cores(const Ls__Trial *trial, double *out)
{
    *out = 0;
    for (size_t i = 0; i < trial->n_clients; i++)
        *out += trial->clients[i]->cpu != NULL ? trial->clients[i]->cpu->cores_used : 0;
    return *out > 0;
}

static const struct coord_metric metrics[] = {
    { .name = "one_core_per_s",
      .title = "requests/s of one core",
      .noun = "requests/s of one core",
      .more = "more requests/s of one core",
      .unit = COORD_UNIT_PER_S,
      .higher_is_better = true,
      .get = get_one_core },
    { .name = "requests_ok",
      .title = "requests",
      .noun = "requests",
      .more = "more requests",
      .higher_is_better = true,
      .get = get_ok },
    { .name = "time_per_request_ns",
      .title = "time/request",
      .noun = "time per request",
      .more = "more time per request",
      .unit = COORD_UNIT_NS,
      .get = get_time_per_request },
    { .name = "bytes_in_per_s",
      .title = "transfer/s",
      .noun = "bytes/s",
      .more = "more bytes/s",
      .unit = COORD_UNIT_BYTES,
      .higher_is_better = true,
      .get = get_bytes_in },
    { .name = "response_bytes",
      .title = "bytes/response",
      .noun = "bytes per response",
      .more = "more bytes per response",
      .unit = COORD_UNIT_BYTES,
      .get = get_response_bytes },
    { .name = "latency_mean_ns",
      .title = "mean latency",
      .noun = "mean latency",
      .more = "longer mean latency",
      .unit = COORD_UNIT_NS,
      .get = get_mean },
    { .name = "latency_stdev_ns",
      .title = "stdev of latency",
      .noun = "standard deviation of latency",
      .more = "more scatter of latency",
      .unit = COORD_UNIT_NS,
      .get = get_stdev },
    { .name = "socket_errors",
      .title = "socket errors",
      .noun = "socket errors",
      .more = "more socket errors",
      .get = get_socket_errors },
    { .name = "status_errors",
      .title = "status errors",
      .noun = "status errors",
      .more = "more status errors",
      .get = get_status_errors },
    { .name = "timeouts",
      .title = "timeouts",
      .noun = "timeouts",
      .more = "more timeouts",
      .get = get_timeouts },
    { .name = "connections_opened",
      .title = "connections",
      .noun = "connections at once",
      .more = "more connections at once",
      .higher_is_better = true,
      .get = get_opened },
    { .name = "client_cores_used",
      .title = "client cores",
      .noun = "client cores",
      .more = "more client cores",
      .unit = COORD_UNIT_CORES,
      .get = get_client_cores },
};

const struct coord_metric *coord_page_metric_at(unsigned i)
{
    return i < LS_ARRAY_LEN(metrics) ? &metrics[i] : NULL;
}
