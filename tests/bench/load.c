/* The load engine by itself, for a fair count of what it costs: one client agent's load from a plan
 * (its first target and workload), in a process that does what the agent's process does - workers,
 * a control thread that merges and encodes an interval each second - and nothing of a coordinator.
 * Whoever starts it reads the whole process's CPU time, start-up included, as with any other tool.
 *
 *     bench_load CPU PLAN [path=value ...]
 *
 * Prints one line of key=value. Exit status 0 only if every request was answered as expected.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/build.h"
#include "agent/load/load.h"
#include "common/clock.h"
#include "common/hist_codec.h"
#include "coordinator/plan/plan_file.h"
#include "proto/wire.pb-c.h"

/* Connections are opened in it; doubled until it is enough. */
#define LEAD_NS          (100 * LS_NS_PER_MS)
#define LEAD_PER_CONN_NS (250 * LS_NS_PER_US)
#define LEAD_PER_TLS_NS  (1500 * LS_NS_PER_US)
#define LEAD_MAX         6

struct run {
    struct coord_plan plan;
    struct agent_files *files;               /* owned; empty: the plans name none */
    struct agent_build *build;               /* owned */
    struct agent_load *load;                 /* owned */
    struct ls_hist *series[LS_SERIES_COUNT]; /* owned */
    struct load_totals totals;
    uint64_t encoded_bytes;
    unsigned attempts;
    long armed_kib; /* resident, with all connections open and idle */
    int wake_fd;    /* owned */
};

static void wake(void *ctx)
{
    const struct run *run = ctx;
    uint64_t one = 1;

    (void)!write(run->wake_fd, &one, sizeof(one));
}

static enum ls_err open_plan(struct run *run, const char *file, char **set, size_t set_count,
                             struct ls_diag *diag)
{
    const struct coord_plan_source source = { .file = file,
                                              .set = (const char *const *)set,
                                              .set_count = set_count };
    struct ls_issues issues;
    enum ls_err rc;

    ls_issues_init(&issues, file);
    rc = coord_plan_open(&source, &issues, &run->plan);
    if (rc != LS_OK) {
        char *text = ls_issues_format(&issues);

        rc = ls_fail(diag, rc, "%s", text != NULL ? text : "out of memory");
        free(text);
    }
    ls_issues_fini(&issues);
    return rc;
}

/* As a coordinator would have prepared the only client. */
static enum ls_err build(struct run *run, char *cpu, struct ls_diag *diag)
{
    Ls__Prepare prepare = LS__PREPARE__INIT;
    enum ls_err rc = agent_files_create(NULL, &run->files);

    if (rc != LS_OK)
        return ls_fail(diag, rc, "out of memory");
    prepare.trial = 1;
    prepare.cpus = cpu;
    prepare.target = run->plan.plan->targets[0];
    prepare.workload = run->plan.plan->workloads[0];
    prepare.workers = prepare.workers_total = 1;
    prepare.seed = 1;
    return agent_build_workload(&prepare, run->files, &run->build, diag);
}

static enum ls_err arm(struct run *run, struct ls_diag *diag)
{
    const Ls__Workload *w = run->plan.plan->workloads[0];
    const bool tls = run->plan.plan->targets[0]->tls != NULL;
    const int64_t lead_ns = LEAD_NS + w->connections * (tls ? LEAD_PER_TLS_NS : LEAD_PER_CONN_NS);
    const struct load_window window = {
        .start_ns = ls_clock_mono_ns() + (lead_ns << run->attempts),
        .warmup_ns = w->warmup->ns,
        .measure_ns = w->measure->ns,
        .drain_ns = w->timeout->ns,
        .interval_ns = w->interval->ns,
    };

    if (++run->attempts > LEAD_MAX)
        return ls_fail(diag, LS_ETIMEOUT, "the connections are not open in time");
    return agent_load_arm(run->load, &window, diag);
}

/* What the agent does with an interval: its histograms become bytes for the coordinator. */
static enum ls_err take_interval(struct run *run, const struct load_interval *interval)
{
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        unsigned char *data = NULL;
        size_t len = 0;
        enum ls_err rc;

        if (ls_hist_count(interval->series[s]) == 0)
            continue;
        rc = ls_hist_encode(interval->series[s], &data, &len);
        if (rc != LS_OK)
            return rc;
        free(data);
        run->encoded_bytes += len;
        ls_hist_merge(run->series[s], interval->series[s]);
    }
    return LS_OK;
}

static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long pages = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%*s %ld", &pages) != 1)
        pages = 0;
    (void)fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static enum ls_err take_event(struct run *run, const struct load_event *event, bool *done,
                              struct ls_diag *diag)
{
    switch (event->kind) {
    case LOAD_EVENT_PREFLIGHT:
        if (!event->ok)
            return ls_fail(diag, LS_EPROTO, "preflight: %s", event->diag.text);
        return arm(run, diag);
    case LOAD_EVENT_LATE:
        return arm(run, diag);
    case LOAD_EVENT_INTERVAL:
        return take_interval(run, &event->interval);
    case LOAD_EVENT_DONE:
        run->totals = event->totals;
        *done = true;
        return LS_OK;
    case LOAD_EVENT_ARMED:
        run->armed_kib = resident_kib();
        return event->ok ? LS_OK : ls_fail(diag, LS_EIO, "arm: %s", event->diag.text);
    case LOAD_EVENT_STARTED:
    case LOAD_EVENT_NONE:
        break;
    }
    return LS_OK;
}

static enum ls_err follow(struct run *run, struct ls_diag *diag)
{
    enum ls_err rc = agent_load_preflight(run->load, diag);
    struct load_event event;
    bool done = false;

    while (rc == LS_OK && !done) {
        if (agent_load_poll(run->load, &event)) {
            rc = take_event(run, &event, &done, diag);
        } else {
            struct pollfd wakes = { .fd = run->wake_fd, .events = POLLIN };
            uint64_t times;

            (void)poll(&wakes, 1, -1);
            (void)!read(run->wake_fd, &times, sizeof(times));
        }
    }
    return rc;
}

static void print_quantiles(const struct run *run, enum ls_series series)
{
    static const struct {
        const char *name;
        double q;
    } quantiles[] = { { "p50", .5 }, { "p95", .95 }, { "p99", .99 }, { "p999", .999 } };

    for (size_t i = 0; i < LS_ARRAY_LEN(quantiles); i++)
        (void)printf(" %s_%s=%" PRId64, ls_series_name(series), quantiles[i].name,
                     ls_hist_quantile(run->series[series], quantiles[i].q));
}

/* Requests that were not answered as expected; those aborted at the end of a window that is over
 * are neither. */
static uint64_t print(const struct run *run)
{
    const struct load_totals *totals = &run->totals;
    struct load_counts all = totals->warmup;
    uint64_t bad;

    load_counts_add(&all, &totals->measure);
    bad = all.sent - all.outcome[LOAD_OK] + all.shed;
    (void)printf("requests=%" PRIu64 " bad=%" PRIu64 " scheduled=%" PRIu64 " in_window=%" PRIu64
                 " io=%s"
                 " window_ns=%" PRId64 " connections=%" PRIu64 " full=%" PRIu64 " resumed=%" PRIu64
                 " armed_kib=%ld encoded_bytes=%" PRIu64 " received=%" PRIu64 " lost=%" PRIu64,
                 all.outcome[LOAD_OK], bad, all.scheduled, totals->ok_in_window,
                 agent_load_io(run->load), totals->ended_ns - totals->started_ns,
                 totals->connections.opened, totals->tls.full, totals->tls.resumed, run->armed_kib,
                 run->encoded_bytes, totals->messages.received, totals->messages.lost);
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        if (ls_hist_count(run->series[s]) > 0)
            print_quantiles(run, (enum ls_series)s);
    }
    (void)printf("\n");
    if (bad > 0)
        (void)fprintf(stderr, "bench_load: %" PRIu64 " of %" PRIu64 " requests failed: %s\n", bad,
                      all.scheduled, totals->sample);
    return bad;
}

static void fini(struct run *run)
{
    agent_load_destroy(run->load);
    agent_build_destroy(run->build);
    agent_files_destroy(run->files);
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        ls_hist_destroy(run->series[s]);
    coord_plan_close(&run->plan);
    if (run->wake_fd >= 0)
        (void)close(run->wake_fd);
}

int main(int argc, char **argv)
{
    struct run run = { .wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
    const struct load_env env = { .wake = wake, .ctx = &run };
    struct ls_diag diag = { 0 };
    enum ls_err rc = LS_OK;
    int status = 1;

    if (argc < 3) {
        (void)fprintf(stderr, "usage: bench_load CPU PLAN [path=value ...]\n");
        return 2;
    }
    for (unsigned s = 0; s < LS_SERIES_COUNT && rc == LS_OK; s++)
        rc = ls_hist_create(&run.series[s]);
    if (rc == LS_OK)
        rc = open_plan(&run, argv[2], argv + 3, (size_t)argc - 3, &diag);
    if (rc == LS_OK)
        rc = build(&run, argv[1], &diag);
    if (rc == LS_OK)
        rc = agent_load_create(agent_build_get(run.build), &env, &run.load, &diag);
    if (rc == LS_OK)
        rc = follow(&run, &diag);
    if (rc == LS_OK)
        status = print(&run) == 0 ? 0 : 1;
    else
        (void)fprintf(stderr, "bench_load: %s\n", diag.text[0] != '\0' ? diag.text : "failed");
    fini(&run);
    return status;
}
