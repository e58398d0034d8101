/* What server.csv says of the figures of a trial's server. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/result/message.h"
#include "coordinator/result/raw.h"
#include "coordinator/result/series.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/verify_internal.h"

struct samples {
    struct coord_raw_sample *items; /* owned */
    size_t n;
};

static bool take_sample(void *ctx, const struct coord_raw_sample *row)
{
    struct samples *samples = ctx;
    struct coord_raw_sample *items;

    if ((samples->n & (samples->n - 1)) == 0) { /* 0, 1, 2, 4, ... */
        items = realloc(samples->items, (samples->n * 2 + 1) * sizeof(*items));
        if (items == NULL)
            return false;
        samples->items = items;
    }
    samples->items[samples->n++] = *row;
    return true;
}

/* The window's own edges; a fixed count ends when it ends: with the first sample after that. */
static bool find_edges(const Ls__Trial *trial, const struct samples *samples,
                       const struct coord_raw_sample **out_begin,
                       const struct coord_raw_sample **out_end)
{
    const struct coord_raw_sample *begin = NULL, *end = NULL, *after = NULL;

    for (size_t i = 0; i < samples->n; i++) {
        const struct coord_raw_sample *sample = &samples->items[i];

        if (sample->edge == 1)
            begin = sample;
        else if (sample->edge == 2)
            end = sample;
        if (after == NULL && begin != NULL && sample != begin &&
            sample->usage.at_ns >= trial->window->duration_ns)
            after = sample;
    }
    if (strstr(trial->load, " requests") != NULL && after != NULL)
        end = after;
    *out_begin = begin;
    *out_end = end;
    return begin != NULL && end != NULL && end->usage.at_ns > begin->usage.at_ns;
}

static uint64_t grown(uint64_t before, uint64_t after)
{
    return after > before ? after - before : 0;
}

/* A file holds any numbers: what is beyond an integer comes round, and differs from what is
 * published. */
static int64_t between(int64_t from, int64_t to)
{
    return (int64_t)((uint64_t)to - (uint64_t)from);
}

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? between(b, a) : between(a, b);
}

static void compute(const struct verify_server *s, const struct coord_raw_sample *begin,
                    const struct coord_raw_sample *end, Ls__Server *out)
{
    double span = (double)between(begin->usage.at_ns, end->usage.at_ns), foreign;
    int64_t late_ns = distance(end->usage.at_ns, s->trial->window->duration_ns);
    uint64_t ok = s->ok_in_window;

    out->cpu_ns = end->usage.cpu_ns > begin->usage.cpu_ns
                      ? between(begin->usage.cpu_ns, end->usage.cpu_ns)
                      : 0;
    out->cpu_cores_used = (double)out->cpu_ns / span;
    out->cpu_ns_per_request = ok > 0 ? (double)out->cpu_ns / (double)ok : 0;
    out->rss_bytes = end->usage.rss_bytes;
    out->rss_peak_bytes = end->rss_peak_bytes;
    out->processes = end->usage.processes;
    out->threads = end->usage.threads;
    out->voluntary_switches = grown(begin->usage.voluntary_switches, end->usage.voluntary_switches);
    out->involuntary_switches =
        grown(begin->usage.involuntary_switches, end->usage.involuntary_switches);
    out->switches_per_request =
        ok > 0 ? ((double)out->voluntary_switches + (double)out->involuntary_switches) / (double)ok
               : 0;
    if (begin->usage.cpu_cgroup_ns > 0)
        out->cpu_cgroup_ns = (int64_t)grown((uint64_t)begin->usage.cpu_cgroup_ns,
                                            (uint64_t)end->usage.cpu_cgroup_ns);
    out->memory_peak_bytes = end->usage.memory_peak_bytes;
    out->listen_overflows = grown(begin->listen_overflows, end->listen_overflows);
    out->tcp_retransmits = grown(begin->tcp_retransmits, end->tcp_retransmits);
    foreign = (double)between(out->cpu_ns, between(begin->cpus_busy_ns, end->cpus_busy_ns)) / span;
    out->foreign_cpu_cores = foreign > 0 ? foreign : 0;
    out->steal_cores = end->cpus_steal_ns > begin->cpus_steal_ns
                           ? (double)between(begin->cpus_steal_ns, end->cpus_steal_ns) / span
                           : 0;
    out->window_error_ns = distance(begin->usage.at_ns, 0);
    if (late_ns > out->window_error_ns)
        out->window_error_ns = late_ns;
}

/* The samples of the file, made as few as the published ones are. */
static Ls__Server *make_samples(const Ls__Server *server, const struct samples *samples)
{
    const Ls__ThinnedSamples *thinned = server->samples_thinned;
    Ls__Server *made = coord_message_new(&ls__server__descriptor);
    bool ok = made != NULL;

    for (size_t i = 0; ok && i < samples->n; i++) {
        Ls__Sample *copy =
            coord_message_append(&made->n_samples, &made->samples, &ls__sample__descriptor);

        ok = copy != NULL;
        if (ok)
            *copy = samples->items[i].usage;
    }
    if (ok && thinned != NULL && thinned->every > 0)
        ok = coord_series_thin_samples(made, thinned->every) == LS_OK;
    if (ok)
        return made;
    coord_message_free(made);
    return NULL;
}

void verify_server(struct verify *v, const struct verify_server *s)
{
    static const char *const names[] = {
        "cpu_ns",          "cpu_cores_used",   "rss_bytes",          "rss_peak_bytes",
        "processes",       "threads",          "voluntary_switches", "involuntary_switches",
        "window_error_ns", "listen_overflows", "tcp_retransmits",    "foreign_cpu_cores",
        "steal_cores",     "cpu_cgroup_ns",    "memory_peak_bytes",  NULL
    };
    static const char *const per_request[] = { "cpu_ns_per_request", "switches_per_request", NULL };
    const struct verify_source source = { .file = s->file, .from = COORD_RAW_SERVER };
    const Ls__Server *server = s->trial->server;
    const struct coord_raw_sample *begin, *end;
    char relative[PATH_MAX], absolute[PATH_MAX], where[400];
    static const char *const series[] = { "samples", "samples_thinned", NULL };
    struct samples samples = { 0 };
    struct ls_diag why = { .text = "" };
    Ls__Server computed = LS__SERVER__INIT;
    Ls__Server *made = NULL;
    enum ls_err rc;

    if (server == NULL || server->n_samples == 0 ||
        coord_path(s->trial->folder, COORD_RAW_SERVER, relative, NULL) != LS_OK ||
        coord_path(v->dir, relative, absolute, NULL) != LS_OK)
        return;
    rc = coord_raw_read_samples(absolute, take_sample, &samples, &why);
    v->no_memory = v->no_memory || rc == LS_ENOMEM;
    if (rc == LS_OK) {
        made = make_samples(server, &samples);
        v->no_memory = v->no_memory || made == NULL;
    }
    if (made != NULL && made->n_samples != server->n_samples)
        rc = ls_fail(&why, LS_EPROTO, "it has %zu samples, the trial has those of %zu", samples.n,
                     server->n_samples);
    if (rc != LS_OK)
        verify_differs(v, relative, "", NULL, NULL, why.text);
    if (rc != LS_OK || made == NULL)
        goto out;
    (void)snprintf(where, sizeof(where), "%.300s.server", s->where);
    verify_fields(v, &source, where, &server->base, &made->base, series);
    if (find_edges(s->trial, &samples, &begin, &end))
        compute(s, begin, end, &computed);
    verify_fields(v, &source, where, &server->base, &computed.base, names);
    if (s->counted)
        verify_fields(v, &source, where, &server->base, &computed.base, per_request);
out:
    coord_message_free(made);
    free(samples.items);
}
