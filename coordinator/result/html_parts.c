#include "coordinator/result/html_parts.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/result/summary.h"

static void text(struct coord_table *out, const char *value)
{
    if (value[0] != '\0')
        coord_table_text(out, value, COORD_STYLE_NONE);
    else
        coord_table_none(out);
}

static void count(struct coord_table *out, uint64_t value)
{
    coord_table_number(out, (double)value, COORD_UNIT_COUNT);
}

static void some(struct coord_table *out, double value, enum coord_unit unit)
{
    coord_table_maybe(out, value > 0, value, unit);
}

/* ---- metrics */

static const struct coord_column metric_columns[] = {
    { "metric", "metric", true },  { "target", "target", true },  { "n", "runs", false },
    { "median", "median", false }, { "ci95_low", "from", false }, { "ci95_high", "to", false },
    { "min", "least", false },     { "max", "most", false },
};

void coord_html_metrics(const Ls__Result *result, const char *workload, struct coord_table *out)
{
    coord_table_init(out, metric_columns, LS_ARRAY_LEN(metric_columns));
    for (size_t i = 0; i < result->n_summary; i++) {
        const Ls__Summary *row = result->summary[i];
        const struct coord_metric *metric = coord_metric_find(row->metric);

        if (metric == NULL || row->n == 0 || strcmp(row->workload, workload) != 0)
            continue;
        text(out, metric->noun);
        text(out, row->target);
        count(out, row->n);
        coord_table_number(out, row->median, metric->unit);
        coord_table_number(out, row->ci95_low, metric->unit);
        coord_table_number(out, row->ci95_high, metric->unit);
        coord_table_number(out, row->min, metric->unit);
        coord_table_number(out, row->max, metric->unit);
    }
}

/* ---- agents */

static const struct coord_column agent_columns[] = {
    { "trial", "trial", false },
    { "agent", "agent", true },
    { "start_offset_ns", "start offset", false },
    { "start_offset_error_ns", "+-", false },
    { "send_lag_p50_ns", "send lag p50", false },
    { "send_lag_p99_ns", "send lag p99", false },
    { "share", "share", false },
    { "cores_used", "cores used", false },
    { "busiest", "busiest worker", false },
    { "loop_lag_ns", "at most late", false },
    { "io", "I/O", true },
};

static void agent_row(const Ls__Trial *trial, const Ls__Client *client, struct coord_table *out)
{
    uint64_t all = trial->requests != NULL ? trial->requests->sent : 0;
    uint64_t own = client->requests != NULL ? client->requests->sent : 0;
    const Ls__Latency *lag = client->send_lag;
    bool lags = lag != NULL && lag->count > 0 && coord_trial_is_open(trial);
    const Ls__ClientCpu *cpu = client->cpu;

    count(out, trial->index);
    text(out, client->agent);
    coord_table_maybe(out, trial->window != NULL, (double)client->start_offset_ns, COORD_UNIT_NS);
    coord_table_maybe(out, trial->window != NULL, (double)client->start_offset_error_ns,
                      COORD_UNIT_NS);
    coord_table_maybe(out, lags, lags ? (double)lag->p50_ns : 0, COORD_UNIT_NS);
    coord_table_maybe(out, lags, lags ? (double)lag->p99_ns : 0, COORD_UNIT_NS);
    coord_table_maybe(out, all > 0, all > 0 ? (double)own / (double)all : 0, COORD_UNIT_SHARE);
    coord_table_maybe(out, cpu != NULL, cpu != NULL ? cpu->cores_used : 0, COORD_UNIT_CORES);
    coord_table_maybe(out, cpu != NULL, cpu != NULL ? cpu->busiest : 0, COORD_UNIT_SHARE);
    coord_table_maybe(out, cpu != NULL, cpu != NULL ? (double)cpu->loop_lag_ns : 0, COORD_UNIT_NS);
    text(out, client->io);
}

void coord_html_agents(const Ls__Result *result, size_t rows_max, struct coord_table *out)
{
    size_t rows = 0;

    coord_table_init(out, agent_columns, LS_ARRAY_LEN(agent_columns));
    for (size_t t = 0; t < result->n_trials; t++) {
        const Ls__Trial *trial = result->trials[t];

        for (size_t i = 0; i < trial->n_clients && rows < rows_max; i++, rows++)
            agent_row(trial, trial->clients[i], out);
    }
}

/* ---- servers */

static const struct coord_column server_columns[] = {
    { "trial", "trial", false },
    { "target", "target", true },
    { "cpu_ns_per_request", "CPU/request", false },
    { "cpu_cores_used", "cores used", false },
    { "rss_peak_bytes", "peak memory", false },
    { "rss_bytes", "memory at the end", false },
    { "switches_per_1000_requests", "switches/1k requests", false },
    { "processes", "processes", false },
    { "threads", "threads", false },
    { "foreign_cpu_cores", "others' cores", false },
    { "exit", "ended by", true },
};

void coord_html_servers(const Ls__Result *result, struct coord_table *out)
{
    coord_table_init(out, server_columns, LS_ARRAY_LEN(server_columns));
    for (size_t t = 0; t < result->n_trials; t++) {
        const Ls__Trial *trial = result->trials[t];
        const Ls__Server *server = trial->server;
        uint64_t ok = trial->requests != NULL ? trial->requests->ok : 0;

        if (server == NULL || server->cpu_ns <= 0)
            continue;
        count(out, trial->index);
        text(out, trial->target);
        some(out, server->cpu_ns_per_request, COORD_UNIT_NS);
        coord_table_number(out, server->cpu_cores_used, COORD_UNIT_CORES);
        some(out, (double)server->rss_peak_bytes, COORD_UNIT_BYTES);
        some(out, (double)server->rss_bytes, COORD_UNIT_BYTES);
        coord_table_maybe(
            out, ok > 0,
            ok > 0 ? 1e3 * (double)(server->voluntary_switches + server->involuntary_switches) /
                         (double)ok
                   : 0,
            COORD_UNIT_PER_S);
        count(out, server->processes);
        count(out, server->threads);
        coord_table_number(out, server->foreign_cpu_cores, COORD_UNIT_CORES);
        text(out, server->exit);
    }
}

/* ---- where and what */

static const struct coord_column host_columns[] = {
    { "agent", "agent", true },          { "role", "role", true },
    { "hostname", "host", true },        { "cpus", "CPUs", true },
    { "cpu_model", "CPU", true },        { "cpu_threads", "threads", false },
    { "memory_bytes", "memory", false }, { "os", "system", true },
    { "kernel", "kernel", true },        { "governor", "governor", true },
    { "boost", "boost", true },          { "virtualisation", "virtualisation", true },
    { "clock_source", "clock", true },   { "offset_error_ns", "clock +-", false },
};

void coord_html_hosts(const Ls__Result *result, struct coord_table *out)
{
    coord_table_init(out, host_columns, LS_ARRAY_LEN(host_columns));
    for (size_t i = 0; i < result->n_hosts; i++) {
        const Ls__Host *host = result->hosts[i];
        const Ls__Facts *facts = host->facts;

        text(out, host->agent);
        text(out, host->role);
        text(out, facts != NULL ? facts->hostname : "");
        text(out, host->cpus);
        text(out, facts != NULL ? facts->cpu_model : "");
        coord_table_maybe(out, facts != NULL, facts != NULL ? facts->cpu_threads : 0,
                          COORD_UNIT_COUNT);
        some(out, facts != NULL ? (double)facts->memory_bytes : 0, COORD_UNIT_BYTES);
        text(out, facts != NULL ? facts->os : "");
        text(out, facts != NULL ? facts->kernel : "");
        text(out, facts != NULL ? facts->governor : "");
        text(out, facts != NULL ? facts->boost : "");
        text(out, facts != NULL ? facts->virtualisation : "");
        text(out, facts != NULL ? facts->clock_source : "");
        coord_table_maybe(out, host->clock != NULL,
                          host->clock != NULL ? (double)host->clock->error_ns : 0, COORD_UNIT_NS);
    }
}

static const struct coord_column program_columns[] = {
    { "target", "target", true },  { "version", "version", true },
    { "path", "program", true },   { "interpreter", "run by", true },
    { "sha256", "SHA-256", true }, { "agent", "server", true },
    { "cpus", "CPUs", true },      { "governor", "governor", true },
};

void coord_html_programs(const Ls__Result *result, struct coord_table *out)
{
    const char **targets = NULL;
    size_t n = coord_result_targets(result, &targets);

    coord_table_init(out, program_columns, LS_ARRAY_LEN(program_columns));
    out->ok = out->ok && (targets != NULL || result->n_trials == 0);
    for (size_t t = 0; targets != NULL && t < n; t++) {
        const Ls__Server *server = NULL;

        for (size_t i = 0; i < result->n_trials && server == NULL; i++) {
            const Ls__Trial *trial = result->trials[i];

            if (strcmp(trial->target, targets[t]) == 0 && trial->server != NULL &&
                trial->server->program != NULL)
                server = trial->server;
        }
        if (server == NULL)
            continue;
        text(out, targets[t]);
        text(out, server->program->version);
        text(out, server->program->path);
        text(out, server->program->interpreter);
        text(out, server->program->sha256);
        text(out, server->agent);
        text(out, server->cpus);
        text(out, server->governor_after);
    }
    free(targets);
}
