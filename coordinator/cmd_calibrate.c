/* lockstep calibrate: how much load of a shape this host can make, against the built-in responder.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/cpuset.h"
#include "common/msg_json.h"
#include "common/options.h"
#include "common/pb.h"
#include "common/units.h"
#include "coordinator/cli.h"
#include "coordinator/execute.h"
#include "coordinator/fleet/local.h"
#include "coordinator/run/ceiling.h"
#include "coordinator/run/verdict.h"
#include "proto/plan.pb-c.h"

#define REQUEST_MAX  (1u << 20)
#define RESPONSE_MAX (64u << 20)

struct arguments {
    uint64_t connections;
    uint64_t threads;
    uint64_t pipeline;
    uint64_t request_bytes;
    uint64_t response_bytes;
    int64_t duration_ns;
    uint64_t repetitions;
    const char *io;
    const char *cpus;
    const char *file;
    bool json;
    bool quiet;
    bool help;
};

#define ROW(field) offsetof(struct arguments, field)

static const struct ls_option rows[] = {
    { "connections", 'c', LS_OPTION_COUNT, ROW(connections), "N", "64", 1, 1e6,
      "connections kept open" },
    { "threads", 't', LS_OPTION_COUNT, ROW(threads), "N", "1", 1, 1024, "worker threads" },
    { "pipeline", 'p', LS_OPTION_COUNT, ROW(pipeline), "N", "1", 1, 1024,
      "requests in flight per connection" },
    { "request-bytes", 0, LS_OPTION_COUNT, ROW(request_bytes), "N", "0", 0, REQUEST_MAX,
      "body of each request" },
    { "response-bytes", 0, LS_OPTION_COUNT, ROW(response_bytes), "N", "13", 0, RESPONSE_MAX,
      "body of each response" },
    { "duration", 'd', LS_OPTION_DURATION, ROW(duration_ns), "TIME", "3s", 1e9, 3.6e12,
      "of each measurement" },
    { "repetitions", 'r', LS_OPTION_COUNT, ROW(repetitions), "N", "3", 1, 100,
      "the best of so many is the ceiling" },
    { "io", 0, LS_OPTION_TEXT, ROW(io), "WAY", "auto", 1, 0, "auto, libev or io_uring" },
    { "cpus", 0, LS_OPTION_TEXT, ROW(cpus), "LIST", "auto", 1, 0, "CPUs of the workers: 2-3" },
    { "file", 0, LS_OPTION_TEXT, ROW(file), "FILE", NULL, 1, 0,
      "keep it there and not in the user's cache (then it is not found by runs)" },
    { "json", 0, LS_OPTION_FLAG, ROW(json), NULL, NULL, 1, 0, "the result as one JSON document" },
    { "quiet", 'q', LS_OPTION_FLAG, ROW(quiet), NULL, NULL, 1, 0, "no progress on stderr" },
    { "help", 'h', LS_OPTION_FLAG, ROW(help), NULL, NULL, 1, 0, "this text" },
};

/* A port that is free now; whoever takes it before the responder does makes a failed trial. */
static uint32_t free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint32_t port = 0;

    if (fd < 0)
        return 0;
    if (bind(fd, (struct sockaddr *)&address, len) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        port = ntohs(address.sin_port);
    (void)close(fd); /* nothing was sent */
    return port;
}

/* As many as the workers leave CPUs. */
static uint64_t responder_threads(const struct arguments *args)
{
    struct ls_cpuset allowed;
    uint64_t cpus =
        ls_cpuset_get_affinity(0, &allowed, NULL) == LS_OK ? ls_cpuset_count(&allowed) : 1;

    return cpus > args->threads ? cpus - args->threads : 1;
}

static enum ls_err set_io(const struct arguments *args, Ls__Workload *workload,
                          struct ls_diag *diag)
{
    static const struct {
        const char *name;
        Ls__Io io;
    } known[] = { { "auto", LS__IO__IO_AUTO },
                  { "libev", LS__IO__IO_LIBEV },
                  { "io_uring", LS__IO__IO_IO_URING } };

    for (size_t i = 0; i < LS_ARRAY_LEN(known); i++) {
        if (strcmp(args->io, known[i].name) != 0)
            continue;
        workload->has_io = true;
        workload->io = known[i].io;
        return LS_OK;
    }
    return ls_fail(diag, LS_EINVAL, "--io %.60s: auto, libev or io_uring", args->io);
}

/* The plan of a calibration, as text, like any other. */
static enum ls_err compose(const struct arguments *args, const char *agent, char *body,
                           char **out_text, struct ls_diag *diag)
{
    Ls__Plan plan = LS__PLAN__INIT;
    Ls__Fleet fleet = LS__FLEET__INIT;
    Ls__FleetCpus cpus = LS__FLEET_CPUS__INIT;
    Ls__Target target = LS__TARGET__INIT;
    Ls__Workload workload = LS__WORKLOAD__INIT;
    Ls__Http http = LS__HTTP__INIT;
    Ls__Request request = LS__REQUEST__INIT;
    Ls__Duration warmup = LS__DURATION__INIT;
    Ls__Duration measure = LS__DURATION__INIT;
    Ls__Schedule schedule = LS__SCHEDULE__INIT;
    Ls__Target *targets[] = { &target };
    Ls__Workload *workloads[] = { &workload };
    Ls__Request *requests[] = { &request };
    char bytes[32], threads[32];
    char *command[] = { ls_pb_text(agent),
                        ls_pb_text("respond"),
                        ls_pb_text("--listen"),
                        ls_pb_text("{host}:{port}"),
                        ls_pb_text("--body-bytes"),
                        bytes,
                        ls_pb_text("--threads"),
                        threads,
                        ls_pb_text("--die-with-parent") };
    enum ls_err rc = set_io(args, &workload, diag);

    if (rc != LS_OK)
        return rc;
    (void)snprintf(bytes, sizeof(bytes), "%" PRIu64, args->response_bytes);
    (void)snprintf(threads, sizeof(threads), "%" PRIu64, responder_threads(args));
    cpus.client = ls_pb_text(args->cpus);
    fleet.cpus = &cpus;
    fleet.has_clients = true;
    fleet.clients = 1;
    target.name = ls_pb_text("responder");
    target.command = command;
    target.n_command = LS_ARRAY_LEN(command);
    target.has_port = true;
    target.port = free_port();
    if (body != NULL) {
        request.method = ls_pb_text("POST");
        request.body = body;
    }
    http.requests = requests;
    http.n_requests = 1;
    http.has_pipeline = true;
    http.pipeline = (uint32_t)args->pipeline;
    warmup.ns = LS_NS_PER_S / 2;
    measure.ns = args->duration_ns;
    workload.name = ls_pb_text("calibrate");
    workload.protocol_case = LS__WORKLOAD__PROTOCOL_HTTP;
    workload.http = &http;
    workload.has_connections = true;
    workload.connections = (uint32_t)args->connections;
    workload.warmup = &warmup;
    workload.measure = &measure;
    schedule.has_repetitions = true;
    schedule.repetitions = (uint32_t)args->repetitions;
    plan.name = ls_pb_text("calibrate");
    plan.fleet = &fleet;
    plan.targets = targets;
    plan.n_targets = 1;
    plan.workloads = workloads;
    plan.n_workloads = 1;
    plan.schedule = &schedule;
    *out_text = ls_msg_to_json(&plan.base, 2);
    return *out_text != NULL ? LS_OK : ls_fail(diag, LS_ENOMEM, "out of memory for the plan");
}

/* The fastest that was answered without a fault; what the verdict says of a generator at its limit
 * is what is wanted here. */
static const Ls__Trial *best_of(const Ls__Result *result)
{
    const Ls__Trial *best = NULL;

    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (strcmp(trial->status, "done") != 0 || trial->requests == NULL ||
            trial->requests->ok == 0 || trial->requests->ok != trial->requests->sent ||
            trial->n_clients != 1)
            continue;
        if (best == NULL || trial->throughput_per_s > best->throughput_per_s)
            best = trial;
    }
    return best;
}

static bool overlap(const char *a, const char *b)
{
    struct ls_cpuset one, other;

    return ls_cpuset_parse(a, &one, NULL) != LS_OK || ls_cpuset_parse(b, &other, NULL) != LS_OK ||
           ls_cpuset_intersects(&one, &other);
}

static const char *limit_of(const Ls__Trial *trial)
{
    const Ls__Client *client = trial->clients[0];
    const Ls__Server *server = trial->server;
    struct ls_cpuset cpus;

    if (server == NULL || overlap(server->cpus, client->cpus))
        return "shared_cpus";
    if (client->cpu != NULL && client->cpu->busiest >= COORD_LIMIT_BUSY)
        return "generator";
    if (ls_cpuset_parse(server->cpus, &cpus, NULL) == LS_OK && ls_cpuset_count(&cpus) > 0 &&
        server->cpu_cores_used >= COORD_LIMIT_BUSY * ls_cpuset_count(&cpus))
        return "responder";
    return "neither";
}

static const Ls__Facts *facts_of(const Ls__Result *result, const char *agent)
{
    for (size_t i = 0; i < result->n_hosts; i++) {
        if (strcmp(result->hosts[i]->agent, agent) == 0)
            return result->hosts[i]->facts;
    }
    return NULL;
}

static int say(const struct arguments *args, const Ls__Ceiling *c, const char *path)
{
    char rate[48], request[48], response[48], *text;
    int status = COORD_EXIT_OK;

    if (args->json) {
        text = ls_msg_to_json(&c->base, 2);
        if (text == NULL)
            return coord_cli_fail(true, COORD_EXIT_FAULT, "out of memory");
        (void)fputs(text, stdout);
        free(text);
    } else {
        (void)printf("%s requests/s by %u worker%s over %s, %u connection%s x %u, requests of %s, "
                     "responses of %s\n",
                     ls_human_count(c->per_s, rate, sizeof(rate)), c->workers,
                     c->workers == 1 ? "" : "s", c->io, c->connections,
                     c->connections == 1 ? "" : "s", c->pipeline,
                     ls_human_size(c->request_bytes, request, sizeof(request)),
                     ls_human_size(c->response_bytes, response, sizeof(response)));
        if (strcmp(c->limited_by, "generator") == 0)
            (void)printf("Limited by the generator: this is its ceiling.\n");
        else
            (void)printf("Limited by %s: the generator's ceiling is there or above; runs are shown "
                         "this figure, but not judged by it.\n",
                         strcmp(c->limited_by, "responder") == 0     ? "the responder"
                         : strcmp(c->limited_by, "shared_cpus") == 0 ? "CPUs that both share"
                                                                     : "neither of the two");
        (void)printf("Kept in %s\n", path);
    }
    if (fflush(stdout) != 0)
        status = coord_cli_fail(false, COORD_EXIT_FAULT, "stdout is closed");
    return status;
}

/* From the result of the trials to a line in the file. */
static int keep(const struct arguments *args, const Ls__Result *result, const char *path,
                struct ls_diag *diag)
{
    const Ls__Trial *best = best_of(result);
    Ls__Calibration *calibration = NULL;
    enum ls_err rc;
    int status;

    if (best == NULL)
        return coord_cli_fail(args->json, COORD_EXIT_INCOMPLETE,
                              result->error[0] != '\0' ? result->error
                                                       : "no measurement came to a clean end");
    rc = coord_ceiling_load(path, &calibration, diag);
    if (rc == LS_OK)
        rc = coord_ceiling_keep(calibration, facts_of(result, best->clients[0]->agent), best,
                                limit_of(best), diag);
    if (rc == LS_OK)
        rc = coord_ceiling_save(path, calibration, diag);
    status = rc == LS_OK ? say(args, calibration->ceilings[calibration->n_ceilings - 1], path)
                         : coord_cli_fail(args->json, COORD_EXIT_INCOMPLETE, diag->text);
    if (calibration != NULL)
        ls__calibration__free_unpacked(calibration, NULL);
    return status;
}

static int measure(const struct arguments *args, const char *path, char *body, struct ls_diag *diag)
{
    char agent[PATH_MAX], *text = NULL;
    Ls__Result *result = NULL;
    int status;

    if (coord_local_find_agent(agent, sizeof(agent), diag) != LS_OK)
        return coord_cli_fail(args->json, COORD_EXIT_INCOMPLETE, diag->text);
    if (compose(args, agent, body, &text, diag) != LS_OK)
        return coord_cli_fail(args->json, COORD_EXIT_USAGE, diag->text);
    status = coord_execute(
        &(struct coord_execute_options){ .file = "calibrate",
                                         .text = text,
                                         .base_dir = ".",
                                         .out_dir = "",
                                         .workers_per_client = (uint32_t)args->threads,
                                         .json = args->json,
                                         .quiet = args->quiet || args->json,
                                         .calibrating = true,
                                         .out_result = &result });
    free(text);
    if (result == NULL)
        return status;
    if (status == COORD_EXIT_INTERRUPTED)
        status = coord_cli_fail(args->json, status, "the calibration was interrupted");
    else if (status == COORD_EXIT_USAGE) /* the run has said why, but for the document */
        status = args->json ? coord_cli_print_failure(status, result->error) : status;
    else
        status = keep(args, result, path, diag);
    ls__result__free_unpacked(result, NULL);
    return status;
}

static int calibrate(const struct arguments *args, struct ls_diag *diag)
{
    char cache[PATH_MAX], *body = NULL;
    const char *path = args->file != NULL ? args->file : cache;
    int status;

    if (args->file == NULL && coord_ceiling_path(cache, sizeof(cache), diag) != LS_OK)
        return coord_cli_fail(args->json, COORD_EXIT_USAGE, diag->text);
    if (args->request_bytes > 0) {
        body = malloc(args->request_bytes + 1);
        if (body == NULL)
            return coord_cli_fail(args->json, COORD_EXIT_FAULT, "out of memory");
        (void)memset(body, 'x', args->request_bytes);
        body[args->request_bytes] = '\0';
    }
    status = measure(args, path, body, diag);
    free(body);
    return status;
}

int coord_cmd_calibrate(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    size_t plain = 0;

    if (ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &args, NULL, 0, &plain, &diag) !=
        LS_OK)
        return coord_cli_fail(coord_cli_wants_json(argc, argv), COORD_EXIT_USAGE, diag.text);
    if (args.help) {
        (void)printf("usage: lockstep calibrate [option ...]\n\n"
                     "Measures how much load of a shape this host can make, against the built-in\n"
                     "responder, and keeps it: later runs on it say how near they came.\n\n");
        ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
        return COORD_EXIT_OK;
    }
    return calibrate(&args, &diag);
}
