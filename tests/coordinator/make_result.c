/* make_result DIR TRIALS SECONDS [NAME]: a result folder made up of figures that follow from their
 * place, for tests of what is made of results. Two targets, two workloads, an interval a second;
 * of a long trial, as a run keeps it, but for merged.hlog: only coarse.hlog is there.
 * NAME stands where names come from others: of targets, workloads, agents, programs, hosts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hist.h"
#include "common/units.h"
#include "coordinator/result/message.h"
#include "coordinator/result/series.h"
#include "coordinator/result/store.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/summary.h"
#include "tests/coordinator/sample_result.h"

#define SECOND_NS INT64_C(1000000000)
#define WALL_NS   INT64_C(1700000000000000000)

static void must(enum ls_err rc, const struct ls_diag *diag)
{
    if (rc == LS_OK)
        return;
    (void)fprintf(stderr, "make_result: %s\n", diag->text);
    exit(1);
}

static void set(char **field, const char *text)
{
    if (!coord_message_string(field, text))
        abort();
}

static void *add(size_t *n, void *items, const ProtobufCMessageDescriptor *descriptor)
{
    void *made = coord_message_append(n, items, descriptor);

    if (made == NULL)
        abort();
    return made;
}

/* A slow wave, and now and then a pause. */
static double speed(unsigned trial, unsigned second)
{
    return (1 + 0.1 * sin(second / 20.0 + trial)) * (second % 97 == 96 ? 0.4 : 1);
}

static void add_series(Ls__Trial *trial, unsigned number, unsigned seconds)
{
    double cpu_ns = 0;

    coord_message_clear(&trial->n_intervals, &trial->intervals);
    trial->window->duration_ns = seconds * SECOND_NS;
    for (unsigned s = 0; s < seconds; s++) {
        double fast = speed(number, s);
        Ls__Interval *interval =
            add(&trial->n_intervals, &trial->intervals, &ls__interval__descriptor);

        interval->at_ns = s * SECOND_NS;
        interval->length_ns = SECOND_NS;
        interval->completed = (uint64_t)(trial->throughput_per_s * fast);
        interval->scheduled = (uint64_t)trial->throughput_per_s;
        interval->errors = s % 500 == 499 ? 3 : 0;
        interval->p50_ns = (int64_t)(1e6 / fast);
        interval->p99_ns = (int64_t)(4e6 / fast);
        interval->max_ns = (int64_t)(3e7 / fast);
    }
    for (unsigned s = 0; trial->server != NULL && s <= seconds; s++) {
        Ls__Sample *sample =
            add(&trial->server->n_samples, &trial->server->samples, &ls__sample__descriptor);

        sample->at_ns = s * SECOND_NS;
        sample->cpu_ns = (int64_t)cpu_ns;
        cpu_ns += 4e8 * speed(number, s);
        sample->rss_bytes = (20u << 20) + s * 4096ull;
        sample->voluntary_switches = s * 900ull;
        sample->processes = sample->threads = 2;
    }
}

/* A long tail. */
static void record_second(struct ls_hist *hist, double fast, unsigned times)
{
    double value_ns = 2e5;

    for (unsigned k = 0; k < 300; k++, value_ns *= 1.02)
        ls_hist_record_n(hist, (int64_t)(value_ns / fast), times * (1ull + (400 - k) / 8));
}

static void write_log(struct coord_store_trial *files, const Ls__Trial *trial, unsigned seconds)
{
    const char *tag = coord_trial_is_open(trial) ? "response_time" : "service_time";
    bool coarse = trial->intervals_thinned != NULL;
    unsigned every = coarse ? seconds / COORD_COARSE_LINES + 1 : 1;
    struct coord_store_hlog *log = NULL;
    struct ls_hist *hist = NULL;
    struct ls_diag diag;

    must(ls_hist_create(&hist), &diag);
    must(coarse ? coord_store_coarse_begin(files, WALL_NS, &log, &diag)
                : coord_store_hlog_begin(files, NULL, WALL_NS, &log, &diag),
         &diag);
    for (unsigned s = 0; s < seconds; s += every) {
        ls_hist_reset(hist);
        record_second(hist, speed(trial->index, s), every);
        must(coord_store_hlog_write(log, tag, s * SECOND_NS, every * SECOND_NS, hist, &diag),
             &diag);
    }
    ls_hist_destroy(hist);
}

static void rename_all(Ls__Trial *trial, const char *name)
{
    char text[12000];

    (void)snprintf(text, sizeof(text), "%s%s", name, trial->target);
    set(&trial->target, text);
    (void)snprintf(text, sizeof(text), "%s%s", name, trial->workload);
    set(&trial->workload, text);
    set(&trial->load, name);
    for (size_t i = 0; i < trial->n_clients; i++) {
        set(&trial->clients[i]->agent, name);
        set(&trial->clients[i]->io_reason, name);
    }
    if (trial->server == NULL)
        return;
    set(&trial->server->exit, name);
    set(&trial->server->program->path, name);
    set(&trial->server->program->version, name);
}

static Ls__Host *add_host(Ls__Result *result, const char *name)
{
    Ls__Host *host = add(&result->n_hosts, &result->hosts, &ls__host__descriptor);

    set(&host->agent, name[0] != '\0' ? name : "client-1");
    set(&host->role, "client");
    host->facts = coord_message_new(&ls__facts__descriptor);
    if (host->facts == NULL)
        abort();
    set(&host->facts->cpu_model, name);
    set(&host->facts->kernel, name);
    return host;
}

int main(int argc, char **argv)
{
    struct coord_store *store = NULL;
    struct ls_diag diag = { 0 };
    uint64_t trials = 0, seconds = 0;
    const char *name = argc > 4 ? argv[4] : "";
    struct sample_trial *from;
    Ls__Result *result;

    if (argc < 4) {
        (void)fprintf(stderr, "usage: make_result DIR TRIALS SECONDS [NAME]\n");
        return 2;
    }
    must(ls_parse_count(argv[2], &trials, &diag), &diag);
    must(ls_parse_count(argv[3], &seconds, &diag), &diag);
    from = calloc(trials, sizeof(*from));
    if (from == NULL)
        abort();
    for (unsigned i = 0; i < trials; i++)
        from[i] = (struct sample_trial){ .target = i % 2 == 0 ? "nginx" : "node",
                                         .workload = i / 2 % 2 == 0 ? "hello" : "steady",
                                         .repetition = 1 + i / 4,
                                         .throughput_per_s = 20000 + (i % 2) * 5000 + i % 7 * 100,
                                         .p50_ms = 1 + i % 5 * 0.01,
                                         .cpu_us = 20 + i % 2 * 7,
                                         .offered_per_s = i / 2 % 2 == 0 ? 0 : 21000 };
    result = sample_result(from, trials);
    must(coord_store_create(argv[1], &store, &diag), &diag);
    must(coord_store_plan(store, (struct ls_bytes){ (const unsigned char *)"name: made\n", 11 },
                          &diag),
         &diag);
    for (size_t i = 0; i < result->n_trials; i++) {
        Ls__Trial *trial = result->trials[i];
        struct coord_store_trial *files = NULL;

        if (name[0] != '\0') {
            rename_all(trial, name);
            sample_reason(trial, LS__VERDICT__VERDICT_SUSPECT, "trend", name);
            trial->verdict = LS__VERDICT__VERDICT_SUSPECT;
        }
        add_series(trial, (unsigned)i, (unsigned)seconds);
        must(coord_series_thin(trial, coord_series_points((uint32_t)trials)), &diag);
        must(coord_store_trial_begin(store, trial->index, trial->target, trial->workload,
                                     trial->repetition, &files, &diag),
             &diag);
        set(&trial->folder, coord_store_trial_folder(files));
        write_log(files, trial, (unsigned)seconds);
        must(coord_store_trial_finish(files, trial, &diag), &diag);
    }
    if (name[0] != '\0') {
        set(&result->name, name);
        set(&result->description, name);
        set(&result->error, name);
    }
    (void)add_host(result, name);
    must(coord_summary_build(result), &diag);
    must(coord_store_result(store, result, &diag), &diag);
    coord_store_close(store);
    ls__result__free_unpacked(result, NULL);
    free(from);
    return 0;
}
