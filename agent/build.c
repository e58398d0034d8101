#include "agent/build.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/build_law.h"
#include "agent/build_requests.h"
#include "agent/build_sources.h"
#include "agent/build_tls.h"
#include "agent/build_websocket.h"

struct agent_build {
    struct load_workload workload;
    struct agent_requests *requests;   /* owned */
    struct agent_websocket *websocket; /* owned; NULL: HTTP */
    int *worker_cpus;                  /* owned */
    struct agent_build_tls *tls;       /* owned; NULL: none */
    struct ls_rate_piece *pieces;      /* owned */
    struct ls_sources sources;
};

void agent_build_destroy(struct agent_build *build)
{
    if (build == NULL)
        return;
    agent_requests_destroy(build->requests);
    agent_websocket_destroy(build->websocket);
    free(build->worker_cpus);
    agent_build_tls_destroy(build->tls);
    free(build->pieces);
    ls_sources_fini(&build->sources);
    free(build);
}

const struct load_workload *agent_build_get(const struct agent_build *build)
{
    return &build->workload;
}

enum ls_err agent_parse_address(const char *host, uint32_t port, struct sockaddr_storage *out,
                                socklen_t *out_len, struct ls_diag *diag)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;

    (void)memset(out, 0, sizeof(*out));
    if (port == 0 || port > UINT16_MAX)
        return ls_fail(diag, LS_EINVAL, "port %u is not from 1 to 65535", port);
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        *out_len = sizeof(*v4);
        return LS_OK;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        *out_len = sizeof(*v6);
        return LS_OK;
    }
    return ls_fail(diag, LS_EINVAL, "'%.60s' is not a literal IPv4 or IPv6 address", host);
}

static bool is_http(const Ls__Prepare *prepare)
{
    return prepare->workload->protocol_case == LS__WORKLOAD__PROTOCOL_HTTP;
}

static bool is_http2(const Ls__Prepare *prepare)
{
    return is_http(prepare) &&
           prepare->workload->http->version == LS__HTTP_VERSION__HTTP_VERSION_HTTP2;
}

static enum ls_err add_requests(struct agent_build *build, Ls__Request *const *requests, size_t n,
                                const Ls__Prepare *prepare, const struct agent_files *files,
                                struct ls_diag *diag)
{
    enum ls_err rc = agent_requests_create(
        &(struct agent_requests_source){ .requests = requests,
                                         .count = n,
                                         .data = is_http(prepare) ? prepare->workload->http->data
                                                                  : NULL,
                                         .target = prepare->target,
                                         .refs = prepare->plan_files,
                                         .ref_count = prepare->n_plan_files,
                                         .files = files,
                                         .seed = prepare->seed,
                                         .http2 = is_http2(prepare) },
        &build->requests, diag);

    if (rc == LS_OK)
        agent_requests_give(build->requests, &build->workload);
    return rc;
}

static enum ls_err add_websocket(struct agent_build *build, const Ls__Prepare *prepare,
                                 struct ls_diag *diag)
{
    enum ls_err rc = agent_websocket_create(prepare->workload->websocket, prepare->target,
                                            &build->websocket, diag);

    if (rc == LS_OK)
        agent_websocket_give(build->websocket, &build->workload);
    return rc;
}

/* Of one request or handshake: its Host header, or the address. */
static const char *host_of(const Ls__Prepare *prepare, const Ls__Request *request)
{
    if (request != NULL) {
        for (size_t i = 0; i < request->n_headers; i++) {
            if (strcasecmp(request->headers[i]->key, "host") == 0 &&
                request->headers[i]->value != NULL)
                return request->headers[i]->value;
        }
    } else if (!is_http(prepare)) {
        const Ls__WebSocket *ws = prepare->workload->websocket;

        for (size_t i = 0; i < ws->n_headers; i++) {
            if (strcasecmp(ws->headers[i]->key, "host") == 0 && ws->headers[i]->value != NULL)
                return ws->headers[i]->value;
        }
    }
    return prepare->target->host;
}

/* request: whose Host header names the server; NULL: that of the handshake. */
static enum ls_err add_tls(struct agent_build *build, const Ls__Request *request,
                           const Ls__Prepare *prepare, const struct agent_files *files,
                           struct ls_diag *diag)
{
    enum ls_err rc;

    if (prepare->target->tls == NULL)
        return LS_OK;
    rc = agent_build_tls(prepare, files, host_of(prepare, request), is_http2(prepare), &build->tls,
                         diag);
    if (rc == LS_OK)
        build->workload.tls = agent_build_tls_get(build->tls);
    return rc;
}

static enum load_io io_of(Ls__Io io)
{
    switch (io) {
    case LS__IO__IO_LIBEV:
        return LOAD_IO_LIBEV;
    case LS__IO__IO_IO_URING:
        return LOAD_IO_URING;
    default:
        return LOAD_IO_AUTO;
    }
}

static enum load_stamps stamps_of(Ls__ReceiveStamps stamps)
{
    switch (stamps) {
    case LS__RECEIVE_STAMPS__RECEIVE_STAMPS_ON:
        return LOAD_STAMPS_ON;
    case LS__RECEIVE_STAMPS__RECEIVE_STAMPS_OFF:
        return LOAD_STAMPS_OFF;
    default:
        return LOAD_STAMPS_AUTO;
    }
}

static enum ls_err begin(const Ls__Prepare *prepare, struct agent_build **out_build,
                         struct ls_diag *diag)
{
    struct agent_build *build;
    enum ls_err rc;

    if (prepare->target == NULL || prepare->target->host == NULL || prepare->workload == NULL ||
        prepare->workload->timeout == NULL ||
        (is_http(prepare) ? prepare->workload->http == NULL
                          : prepare->workload->protocol_case != LS__WORKLOAD__PROTOCOL_WEBSOCKET ||
                                prepare->workload->websocket == NULL))
        return ls_fail(diag, LS_EPROTO, "PREPARE came without a target or a workload");
    build = calloc(1, sizeof(*build));
    if (build == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the workload");
    build->workload.driver = is_http2(prepare) ? "http2" : "http1";
    build->workload.link = "tcp";
    build->workload.pipeline = 1;
    build->workload.connections = 1;
    build->workload.workers = build->workload.workers_total = 1;
    build->workload.io = io_of(prepare->workload->io);
    build->workload.stamps = stamps_of(prepare->workload->receive_stamps);
    build->workload.timeout_ns = prepare->workload->timeout->ns;
    rc = agent_parse_address(prepare->target->host, prepare->target->port, &build->workload.address,
                             &build->workload.address_len, diag);
    if (rc != LS_OK) {
        agent_build_destroy(build);
        return rc;
    }
    *out_build = build;
    return LS_OK;
}

enum ls_err agent_build_ready(const Ls__Prepare *prepare, const struct agent_files *files,
                              struct agent_build **out_build, struct ls_diag *diag)
{
    struct agent_build *build = NULL;
    enum ls_err rc = begin(prepare, &build, diag);

    if (rc != LS_OK)
        return rc;
    if (prepare->target->ready != NULL && prepare->target->ready->request != NULL) {
        rc = add_requests(build, &prepare->target->ready->request, 1, prepare, files, diag);
        if (rc == LS_OK)
            rc = add_tls(build, prepare->target->ready->request, prepare, files, diag);
    } else if (!is_http(prepare)) {
        rc = add_websocket(build, prepare, diag);
        if (rc == LS_OK)
            rc = add_tls(build, NULL, prepare, files, diag);
    } else {
        rc = ls_fail(diag, LS_EPROTO, "PREPARE came without a readiness request");
    }
    if (rc != LS_OK) {
        agent_build_destroy(build);
        return rc;
    }
    *out_build = build;
    return LS_OK;
}

/* ---- the share of the load */

static enum ls_err assign_cpus(struct agent_build *build, const char *list, uint32_t workers,
                               struct ls_diag *diag)
{
    struct ls_cpuset set;
    enum ls_err rc = ls_cpuset_parse(list, &set, diag);
    unsigned n;

    if (rc != LS_OK)
        return rc;
    n = ls_cpuset_count(&set);
    build->worker_cpus = calloc(workers, sizeof(*build->worker_cpus));
    if (build->worker_cpus == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for %u workers", workers);
    for (uint32_t i = 0; i < workers; i++)
        build->worker_cpus[i] = n > 0 ? ls_cpuset_nth(&set, i % n) : -1;
    build->workload.worker_cpus = build->worker_cpus;
    return LS_OK;
}

static enum ls_err set_load(struct agent_build *build, const Ls__Prepare *prepare,
                            struct ls_diag *diag)
{
    const Ls__Workload *in = prepare->workload;
    struct load_workload *w = &build->workload;

    if (in->load == NULL || prepare->workers == 0 || prepare->workers > LS_CPU_MAX ||
        prepare->worker_base > UINT32_MAX - prepare->workers ||
        prepare->workers_total < prepare->worker_base + prepare->workers)
        return ls_fail(diag, LS_EPROTO, "PREPARE came without this agent's share of the load");
    w->pipeline = is_http2(prepare)  ? in->http->streams
                  : is_http(prepare) ? in->http->pipeline
                                     : in->websocket->pipeline;
    w->connections = in->connections;
    w->seed = prepare->seed;
    w->worker_base = prepare->worker_base;
    w->workers = prepare->workers;
    w->workers_total = prepare->workers_total;
    return agent_build_law(in, w, &build->pieces, diag);
}

static enum ls_err add_work(struct agent_build *build, const Ls__Prepare *prepare,
                            const struct agent_files *files, struct ls_diag *diag)
{
    const Ls__Http *http = is_http(prepare) ? prepare->workload->http : NULL;
    enum ls_err rc =
        http != NULL ? add_requests(build, http->requests, http->n_requests, prepare, files, diag)
                     : add_websocket(build, prepare, diag);

    if (rc == LS_OK)
        rc = add_tls(build, http != NULL && http->n_requests > 0 ? http->requests[0] : NULL,
                     prepare, files, diag);
    return rc;
}

enum ls_err agent_build_workload(const Ls__Prepare *prepare, const struct agent_files *files,
                                 struct agent_build **out_build, struct ls_diag *diag)
{
    struct agent_build *build = NULL;
    enum ls_err rc = begin(prepare, &build, diag);

    if (rc != LS_OK)
        return rc;
    rc = add_work(build, prepare, files, diag);
    if (rc == LS_OK)
        rc = set_load(build, prepare, diag);
    if (rc == LS_OK)
        rc = assign_cpus(build, prepare->cpus, prepare->workers, diag);
    if (rc == LS_OK)
        rc = agent_build_sources(prepare, build->workload.address.ss_family, &build->sources, diag);
    build->workload.sources = build->sources.items;
    build->workload.source_count = build->sources.count;
    if (rc != LS_OK) {
        agent_build_destroy(build);
        return rc;
    }
    *out_build = build;
    return LS_OK;
}

/* ---- pinning */

enum ls_err agent_pin_process(const char *cpus, struct ls_cpuset *out, struct ls_diag *diag)
{
    struct ls_cpuset set;
    enum ls_err rc = ls_cpuset_parse(cpus, &set, diag);
    DIR *tasks;
    struct dirent *entry;

    if (rc != LS_OK || ls_cpuset_count(&set) == 0)
        return rc != LS_OK ? rc : ls_cpuset_get_affinity(0, out, diag);
    tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        return ls_fail(diag, LS_EIO, "/proc/self/task cannot be read");
    while (rc == LS_OK && (entry = readdir(tasks)) != NULL) {
        struct ls_diag gone;

        if (entry->d_name[0] == '.')
            continue;
        /* A thread that has just ended is none of our business; our own is checked below. */
        if (ls_cpuset_set_affinity((int)strtol(entry->d_name, NULL, 10), &set, &gone) != LS_OK)
            continue;
    }
    (void)closedir(tasks);
    rc = ls_cpuset_set_affinity(0, &set, diag);
    if (rc == LS_OK)
        rc = ls_cpuset_get_affinity(0, out, diag);
    if (rc == LS_OK && !ls_cpuset_equal(out, &set))
        return ls_fail(diag, LS_EIO, "asked for CPUs %s, got others", cpus);
    return rc;
}
