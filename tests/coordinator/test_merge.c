/* coordinator/run/merge.c against a straightforward account of the same samples. */
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/hist_codec.h"
#include "common/hist_log.h"
#include "common/rng.h"
#include "common/transport.h"
#include "coordinator/result/message.h"
#include "coordinator/result/requests.h"
#include "coordinator/result/store.h"
#include "coordinator/run/merge.h"
#include "tests/common/wire_fill.h"
#include "tests/support/failmalloc.h"
#include "tests/support/tmpdir.h"

enum { CLIENTS_MAX = 5, INTERVALS = 12, SERVER = 0, START = 1000000 };

#define MS        INT64_C(1000000)
#define INTERVAL  (100 * MS)
#define WARMUP    (200 * MS)
#define MEASURE   (800 * MS)
#define WALL      INT64_C(1700000000000000000)
#define RESPONSES 0u
#define SERVICES  1u
#define LAGS      2u

/* ---- a fleet that invents its measurements */

struct cell { /* one client's one interval */
    struct ls_hist *hists[3];
    Ls__Requests warmup;
    Ls__Requests measure;
    uint64_t ok_in_window;
    int64_t in_flight_ns;
};

struct fleet {
    uint32_t clients;
    uint32_t trial; /* that reports say they are of; 0 is the one that is merged */
    bool open;
    int64_t warmup_ns;
    int64_t early_ns; /* intervals begin that much before their grid */
    int64_t plan_ns;  /* how long it was to be; 0: MEASURE */
    struct cell cells[CLIENTS_MAX][INTERVALS];
    struct coord_merge_clock clocks[CLIENTS_MAX + 1];
    struct ls_hist *all[3]; /* every sample, recorded into one histogram */
    struct coord_merge *merge;
    struct ls_rng rng;
};

static void cell_init(struct cell *cell)
{
    for (unsigned s = 0; s < 3; s++)
        assert_int_equal(ls_hist_create(&cell->hists[s]), LS_OK);
    ls__requests__init(&cell->warmup);
    ls__requests__init(&cell->measure);
}

/* Log-uniform from 1 us to 10 s, so that all octaves get their share. */
static int64_t random_latency(struct ls_rng *rng)
{
    return (int64_t)(1000 + ls_rng_below(rng, UINT64_C(1) << (10 + ls_rng_below(rng, 24))));
}

static void sample(struct fleet *fleet, struct cell *cell, bool measured)
{
    Ls__Requests *requests = measured ? &cell->measure : &cell->warmup;
    int64_t values[3] = { random_latency(&fleet->rng), random_latency(&fleet->rng),
                          random_latency(&fleet->rng) };

    requests->scheduled++;
    requests->sent++;
    requests->ok++;
    if (!measured)
        return;
    cell->ok_in_window++;
    cell->in_flight_ns += values[0];
    for (unsigned s = 0; s < 3; s++) {
        ls_hist_record(cell->hists[s], values[s]);
        ls_hist_record(fleet->all[s], values[s]);
    }
}

static struct coord_merge *make_merge(const struct fleet *fleet, struct coord_store_trial *files)
{
    struct coord_merge_agent agents[CLIENTS_MAX + 1] = {
        { "server", LS__ROLE__ROLE_SERVER, 0 },   { "client-1", LS__ROLE__ROLE_CLIENT, 1 },
        { "client-2", LS__ROLE__ROLE_CLIENT, 1 }, { "client-3", LS__ROLE__ROLE_CLIENT, 1 },
        { "client-4", LS__ROLE__ROLE_CLIENT, 1 }, { "client-5", LS__ROLE__ROLE_CLIENT, 1 },
    };
    struct coord_merge_options options = {
        .agents = agents,
        .agent_count = fleet->clients + 1,
        .warmup_ns = fleet->warmup_ns,
        .measure_ns = fleet->plan_ns > 0 ? fleet->plan_ns : MEASURE,
        .drain_ns = 200 * MS,
        .interval_ns = INTERVAL,
        .offered_per_s = fleet->open ? 1000 : 0,
        .files = files,
    };
    struct coord_merge *merge = NULL;

    assert_int_equal(coord_merge_create(&options, &merge, NULL), LS_OK);
    assert_int_equal(coord_merge_arm(merge, START, WALL, NULL), LS_OK);
    return merge;
}

static void fleet_init(struct fleet *fleet, uint32_t clients, uint64_t seed, unsigned samples)
{
    *fleet = (struct fleet){ .clients = clients, .open = true, .warmup_ns = WARMUP };
    ls_rng_init(&fleet->rng, seed, 1);
    for (unsigned s = 0; s < 3; s++)
        assert_int_equal(ls_hist_create(&fleet->all[s]), LS_OK);
    for (uint32_t c = 0; c < clients; c++) {
        fleet->clocks[c + 1].offset_ns = (int64_t)ls_rng_below(&fleet->rng, 1000000000) - 500000000;
        fleet->clocks[c + 1].error_ns = 1000 * (c + 1);
        for (unsigned i = 0; i < INTERVALS; i++)
            cell_init(&fleet->cells[c][i]);
    }
    for (unsigned k = 0; k < samples; k++) {
        uint32_t c = (uint32_t)ls_rng_below(&fleet->rng, clients);
        unsigned i = (unsigned)ls_rng_below(&fleet->rng, INTERVALS);

        sample(fleet, &fleet->cells[c][i], i >= 2); /* the first two are warm-up */
    }
}

static void fleet_fini(struct fleet *fleet)
{
    coord_merge_destroy(fleet->merge);
    for (unsigned s = 0; s < 3; s++) {
        ls_hist_destroy(fleet->all[s]);
        for (uint32_t c = 0; c < fleet->clients; c++) {
            for (unsigned i = 0; i < INTERVALS; i++)
                ls_hist_destroy(fleet->cells[c][i].hists[s]);
        }
    }
}

static ProtobufCBinaryData encode(const struct ls_hist *hist)
{
    ProtobufCBinaryData data = { 0 };

    assert_int_equal(ls_hist_encode(hist, &data.data, &data.len), LS_OK);
    return data;
}

static void add_cell(struct cell *dst, const struct cell *src)
{
    coord_requests_add(&dst->warmup, &src->warmup);
    coord_requests_add(&dst->measure, &src->measure);
    dst->ok_in_window += src->ok_in_window;
    dst->in_flight_ns += src->in_flight_ns;
    for (unsigned s = 0; s < 3; s++)
        ls_hist_merge(dst->hists[s], src->hists[s]);
}

/* Intervals first .. first + merged of client c in one report. */
static enum ls_err send_interval(struct fleet *fleet, uint32_t c, unsigned first, unsigned merged,
                                 struct ls_diag *diag)
{
    Ls__IntervalReport report = LS__INTERVAL_REPORT__INIT;
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Series series[3];
    Ls__Series *pointers[3];
    struct cell sum = { 0 };
    enum ls_err rc;

    cell_init(&sum);
    for (unsigned i = first; i <= first + merged; i++)
        add_cell(&sum, &fleet->cells[c][i]);
    report.trial = fleet->trial;
    report.index = first;
    report.merged = merged;
    report.start_ns = START + first * INTERVAL - fleet->early_ns + fleet->clocks[c + 1].offset_ns;
    report.length_ns = (merged + 1) * INTERVAL;
    report.warmup = &sum.warmup;
    report.measure = &sum.measure;
    report.ok_in_window = sum.ok_in_window;
    report.in_flight_ns = sum.in_flight_ns;
    for (unsigned s = 0; s < 3; s++) { /* RESPONSES, SERVICES, LAGS have the series' numbers */
        ls__series__init(&series[s]);
        series[s].kind = (Ls__SeriesKind)s;
        series[s].histogram = encode(sum.hists[s]);
        pointers[s] = &series[s];
    }
    report.series = pointers;
    report.n_series = 3;
    envelope.body_case = LS__ENVELOPE__BODY_INTERVAL;
    envelope.interval = &report;
    rc = coord_merge_report(fleet->merge, c + 1, &fleet->clocks[c + 1], &envelope, diag);
    for (unsigned s = 0; s < 3; s++) {
        free(series[s].histogram.data);
        ls_hist_destroy(sum.hists[s]);
    }
    return rc;
}

static uint64_t connections_each = 10;
static char governors[][12] = { "powersave", "performance" };

/* What TLS was like, by client. */
static char ciphers[][24] = { "TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256" };
static char version[] = "TLSv1.3";
/* Which streams were reset: one code by client, and one by both. */
static char reset_names[][16] = { "CANCEL", "REFUSED_STREAM", "NO_ERROR" };

static enum ls_err send_final(struct fleet *fleet, uint32_t c, int64_t late_ns, uint64_t lie)
{
    Ls__ClientReport report = LS__CLIENT_REPORT__INIT;
    Ls__Connections connections = LS__CONNECTIONS__INIT;
    Ls__WorkerHealth health[2] = { LS__WORKER_HEALTH__INIT, LS__WORKER_HEALTH__INIT };
    Ls__WorkerHealth *workers[] = { &health[0], &health[1] };
    Ls__HostUse host = LS__HOST_USE__INIT;
    Ls__TlsUse tls = LS__TLS_USE__INIT;
    Ls__Http2Use http2 = LS__HTTP2_USE__INIT;
    Ls__CodeCount resets[2] = { LS__CODE_COUNT__INIT, LS__CODE_COUNT__INIT };
    Ls__CodeCount *resets_at[] = { &resets[0], &resets[1] };
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    struct cell sum = { 0 };
    enum ls_err rc;

    cell_init(&sum);
    for (unsigned i = 0; i < INTERVALS; i++)
        add_cell(&sum, &fleet->cells[c][i]);
    sum.measure.ok += lie;
    sum.measure.sent += lie;
    sum.measure.scheduled += lie;
    connections.asked = connections.opened = connections.peak = connections_each;
    health[0].window_ns = health[1].window_ns = MEASURE;
    health[0].loop_lag_ns = 7000000;
    health[1].stalled_ns = MEASURE / 4;
    http2.streams_asked = 100;
    http2.streams_granted = 10 + c;
    http2.streams_granted_most = 20 + c;
    http2.retried = 7;
    resets[0].name = reset_names[c % 2];
    resets[0].count = 5;
    resets[1].name = reset_names[2];
    resets[1].count = 1;
    http2.resets = resets_at;
    http2.n_resets = 2;
    report.http2 = &http2;
    host.span_ns = MEASURE * 2;
    host.busy_ns = MEASURE;
    host.own_ns = MEASURE / 2;
    host.steal_ns = MEASURE / 10;
    host.tcp_retransmits = 3 + c;
    host.listen_overflows = 1;
    host.governor_before = governors[0];
    host.governor_after = governors[1];
    tls.full = 3 + c;
    tls.resumed = 10 * c;
    tls.version = version;
    tls.cipher = ciphers[c % 2];
    tls.verified = c == 0;
    report.tls = &tls;
    report.workers = workers;
    report.n_workers = 2;
    report.host = &host;
    report.rss_before_bytes = 1000000;
    report.rss_open_bytes = 1500000;
    report.warmup = &sum.warmup;
    report.measure = &sum.measure;
    report.ok_in_window = sum.ok_in_window;
    report.in_flight_ns = sum.in_flight_ns;
    report.connections = &connections;
    report.started_ns = START + late_ns + fleet->clocks[c + 1].offset_ns;
    report.started_first_ns = report.started_ns - 10;
    report.ended_ns = START + WARMUP + MEASURE + fleet->clocks[c + 1].offset_ns;
    report.intervals = INTERVALS;
    report.trial = fleet->trial;
    envelope.body_case = LS__ENVELOPE__BODY_CLIENT;
    envelope.client = &report;
    rc = coord_merge_report(fleet->merge, c + 1, &fleet->clocks[c + 1], &envelope, NULL);
    for (unsigned s = 0; s < 3; s++)
        ls_hist_destroy(sum.hists[s]);
    return rc;
}

/* Each client in its order, the clients against each other at random: one may be far ahead. */
static void deliver_all(struct fleet *fleet)
{
    unsigned next[CLIENTS_MAX] = { 0 };
    uint32_t left = fleet->clients;

    while (left > 0) {
        uint32_t c = (uint32_t)ls_rng_below(&fleet->rng, fleet->clients);
        unsigned merged;

        if (next[c] > INTERVALS)
            continue;
        if (next[c] == INTERVALS) {
            assert_int_equal(send_final(fleet, c, c * 1000, 0), LS_OK);
            next[c]++;
            left--;
            continue;
        }
        merged = ls_rng_below(&fleet->rng, 4) == 0 ? (unsigned)ls_rng_below(&fleet->rng, 3) : 0;
        merged = next[c] + merged < INTERVALS ? merged : INTERVALS - 1 - next[c];
        assert_int_equal(send_interval(fleet, c, next[c], merged, NULL), LS_OK);
        next[c] += merged + 1;
    }
}

static Ls__Trial *finish(struct fleet *fleet, struct coord_books *books)
{
    Ls__Trial *trial = coord_message_new(&ls__trial__descriptor);

    assert_non_null(trial);
    assert_int_equal(coord_merge_finish(fleet->merge, trial, books, NULL), LS_OK);
    return trial;
}

static void what_a_client_s_host_did_is_told_for_each_client(void **state)
{
    (void)state;
    for (unsigned many = 0; many < 2; many++) {
        struct fleet fleet;
        struct coord_books books;
        const Ls__Client *client;
        Ls__Trial *trial;

        connections_each = many ? 2000 : 10;
        fleet_init(&fleet, 2, 5, 100);
        fleet.merge = make_merge(&fleet, NULL);
        deliver_all(&fleet);
        trial = finish(&fleet, &books);
        client = trial->clients[1];
        assert_true(client->foreign_cpu_cores == 0.25);
        assert_true(client->steal_cores == 0.05);
        assert_int_equal(client->tcp_retransmits, 4);
        assert_int_equal(client->listen_overflows, 1);
        assert_string_equal(client->governor_before, "powersave");
        assert_string_equal(client->governor_after, "performance");
        assert_int_equal(client->cpu->loop_lag_ns, 7000000); /* the worst worker's */
        assert_true(client->cpu->stalled == 0.25);
        /* Of ten connections, it would be a figure about pages. */
        assert_true(client->memory_per_connection_bytes == (many ? 250 : 0));
        coord_message_free(trial);
        fleet_fini(&fleet);
    }
    connections_each = 10;
}

/* ---- properties */

static void what_http2_was_like_is_added_up_and_told_for_each_client(void **state)
{
    (void)state;
    for (uint32_t clients = 1; clients <= 2; clients++) {
        struct fleet fleet;
        struct coord_books books;
        Ls__Trial *trial;

        fleet_init(&fleet, clients, 11, 100);
        fleet.merge = make_merge(&fleet, NULL);
        deliver_all(&fleet);
        trial = finish(&fleet, &books);
        assert_int_equal(trial->http2->streams_asked, 100);
        assert_int_equal(trial->http2->streams_granted, 10);
        assert_int_equal(trial->http2->streams_granted_most, 19 + clients);
        assert_int_equal(trial->http2->retried, 7 * clients);
        assert_int_equal(trial->http2->n_resets, 1 + clients);
        for (size_t i = 0; i < trial->http2->n_resets; i++) {
            const Ls__CodeCount *code = trial->http2->resets[i];

            assert_int_equal(code->count, strcmp(code->name, "NO_ERROR") == 0 ? clients : 5);
        }
        for (uint32_t c = 0; c < clients; c++)
            assert_int_equal(trial->clients[c]->http2->streams_granted, 10 + c);
        coord_message_free(trial);
        fleet_fini(&fleet);
    }
}

static void what_tls_was_like_is_added_up_and_told_for_each_client(void **state)
{
    (void)state;
    for (uint32_t clients = 1; clients <= 2; clients++) {
        struct fleet fleet;
        struct coord_books books;
        Ls__Trial *trial;

        fleet_init(&fleet, clients, 11, 100);
        fleet.merge = make_merge(&fleet, NULL);
        deliver_all(&fleet);
        trial = finish(&fleet, &books);
        assert_int_equal(trial->tls->full, clients == 1 ? 3 : 7);
        assert_int_equal(trial->tls->resumed, clients == 1 ? 0 : 10);
        assert_string_equal(trial->tls->version, version);
        assert_string_equal(trial->tls->cipher, clients == 1 ? ciphers[0] : "mixed");
        assert_int_equal(trial->tls->verified, clients == 1); /* by each, or it is not */
        for (uint32_t c = 0; c < clients; c++) {
            assert_int_equal(trial->clients[c]->tls->full, 3 + c);
            assert_string_equal(trial->clients[c]->tls->cipher, ciphers[c]);
        }
        coord_message_free(trial);
        fleet_fini(&fleet);
    }
}

static void expect_merged(const struct fleet *fleet, unsigned series)
{
    struct ls_hist *merged = NULL;

    assert_int_equal(ls_hist_create(&merged), LS_OK);
    assert_true(coord_merge_hist(fleet->merge, UINT32_MAX, series, merged));
    assert_true(ls_hist_equal(merged, fleet->all[series]));
    ls_hist_destroy(merged);
}

static void the_merged_histogram_is_that_of_the_union_however_the_samples_are_split(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct fleet fleet;
        struct coord_books books;
        Ls__Trial *trial;
        uint64_t count;

        fleet_init(&fleet, 1 + (uint32_t)(seed % CLIENTS_MAX), seed, 3000);
        fleet.merge = make_merge(&fleet, NULL);
        deliver_all(&fleet);
        trial = finish(&fleet, &books);

        for (unsigned s = 0; s < 3; s++)
            expect_merged(&fleet, s);
        count = ls_hist_count(fleet.all[RESPONSES]);
        assert_int_equal(trial->requests->ok, count);
        assert_int_equal(trial->requests->ok + trial->warmup->requests->ok, 3000);
        assert_int_equal(trial->response_time->p99_ns,
                         ls_hist_quantile(fleet.all[RESPONSES], 0.99));
        assert_int_equal(trial->service_time->max_ns, ls_hist_max(fleet.all[SERVICES]));
        assert_int_equal(trial->send_lag->min_ns, ls_hist_min(fleet.all[LAGS]));
        assert_true(trial->throughput_per_s == (double)count * 1e9 / MEASURE);
        assert_string_equal(books.unbalanced, "");
        assert_string_equal(books.sums, "");
        assert_string_equal(books.refused, "");
        coord_message_free(trial);
        fleet_fini(&fleet);
    }
}

static void the_time_series_holds_every_measured_completion_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fleet fleet;
        struct coord_books books;
        Ls__Trial *trial;
        uint64_t completed = 0;
        int64_t before = INT64_MIN;

        fleet_init(&fleet, 3, seed, 2000);
        fleet.merge = make_merge(&fleet, NULL);
        deliver_all(&fleet);
        trial = finish(&fleet, &books);
        for (size_t i = 0; i < trial->n_intervals; i++) {
            const Ls__Interval *interval = trial->intervals[i];

            assert_true(interval->at_ns > before);
            assert_true(interval->at_ns + interval->length_ns > 0);
            before = interval->at_ns;
            completed += interval->completed;
        }
        assert_int_equal(completed, trial->requests->ok);
        coord_message_free(trial);
        fleet_fini(&fleet);
    }
}

/* ---- files */

struct files {
    struct tmpdir tmp;
    struct coord_store *store;
    struct coord_store_trial *trial;
};

static void files_begin(struct files *files)
{
    char out[300];

    tmpdir_make(&files->tmp);
    (void)snprintf(out, sizeof(out), "%s/out", files->tmp.path);
    assert_int_equal(coord_store_create(out, &files->store, NULL), LS_OK);
    assert_int_equal(
        coord_store_trial_begin(files->store, 1, "nginx", "hello", 1, &files->trial, NULL), LS_OK);
}

static void files_end(struct files *files)
{
    coord_store_close(files->store);
    tmpdir_remove(&files->tmp);
}

/* The sum of all lines of one tag, and their number; no start goes back below 0 or beyond the
 * trial. */
static unsigned add_lines(const struct files *files, const char *name, const char *tag,
                          int64_t longest_ns, struct ls_hist *sum)
{
    unsigned lines = 0;
    char path[400];
    struct ls_hist *line = NULL;
    int64_t start_ns, length_ns;
    struct ls_diag diag;
    enum ls_err rc;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/out/trials/001-nginx-hello-r1/%s", files->tmp.path,
                   name);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(ls_hist_create(&line), LS_OK);
    while ((rc = ls_hist_log_read(file, tag, line, &start_ns, &length_ns, &diag)) == LS_OK) {
        assert_true(start_ns >= 0 && start_ns < INTERVALS * INTERVAL);
        assert_true(length_ns >= INTERVAL && length_ns <= longest_ns);
        ls_hist_merge(sum, line);
        lines++;
    }
    assert_int_equal(rc, LS_EAGAIN);
    ls_hist_destroy(line);
    (void)fclose(file);
    return lines;
}

static void add_log(const struct files *files, const char *name, const char *tag,
                    struct ls_hist *sum)
{
    (void)add_lines(files, name, tag, 3 * INTERVAL, sum);
}

static void assert_same_counters(const struct ls_hist *a, const struct ls_hist *b)
{
    assert_int_equal(ls_hist_count(a), ls_hist_count(b));
    for (uint32_t i = 0; i < LS_HIST_LEN; i++)
        assert_int_equal(ls_hist_count_at(a, i), ls_hist_count_at(b, i));
}

static void the_logs_of_the_clients_add_up_to_the_merged_log_bucket_by_bucket(void **state)
{
    static const char *const tags[] = { "response_time", "service_time", "send_lag" };

    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct fleet fleet;
        struct files files;
        struct coord_books books;
        Ls__Trial *trial;

        files_begin(&files);
        fleet_init(&fleet, 2, seed, 2000);
        fleet.merge = make_merge(&fleet, files.trial);
        deliver_all(&fleet);
        trial = finish(&fleet, &books);
        assert_int_equal(coord_store_trial_finish(files.trial, trial, NULL), LS_OK);
        for (unsigned s = 0; s < 3; s++) {
            struct ls_hist *merged = NULL, *clients = NULL;

            assert_int_equal(ls_hist_create(&merged), LS_OK);
            assert_int_equal(ls_hist_create(&clients), LS_OK);
            add_log(&files, "merged.hlog", tags[s], merged);
            add_log(&files, "client-1.hlog", tags[s], clients);
            add_log(&files, "client-2.hlog", tags[s], clients);
            assert_same_counters(merged, clients);
            assert_same_counters(merged, fleet.all[s]);
            ls_hist_destroy(merged);
            ls_hist_destroy(clients);
        }
        coord_message_free(trial);
        fleet_fini(&fleet);
        files_end(&files);
    }
}

static void who_looks_on_sees_the_newest_of_each_and_every_request_once(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    struct coord_merge_now now;
    uint64_t column[COORD_HEAT_ROWS] = { 0 }, sum = 0;
    const struct cell *last;
    Ls__Trial *trial;

    (void)state;
    fleet_init(&fleet, 2, 3, 2000);
    fleet.merge = make_merge(&fleet, NULL);
    coord_merge_now(fleet.merge, 1, &now);
    assert_true(now.sent_per_s < 0 && now.cores < 0 && now.send_lag_p99_ns < 0);
    assert_false(coord_merge_take_heat(fleet.merge, column));
    for (unsigned i = 0; i < INTERVALS; i++) {
        for (uint32_t c = 0; c < fleet.clients; c++)
            assert_int_equal(send_interval(&fleet, c, i, 0, NULL), LS_OK);
        if (i == INTERVALS / 2)
            assert_true(coord_merge_take_heat(fleet.merge, column));
    }
    coord_merge_now(fleet.merge, 2, &now);
    last = &fleet.cells[1][INTERVALS - 1];
    assert_true(now.sent_per_s == (double)last->measure.sent * 1e9 / INTERVAL);
    assert_int_equal(now.send_lag_p99_ns, ls_hist_quantile(last->hists[LAGS], 0.99));
    assert_true(now.cores < 0 && now.rss_bytes < 0); /* it did not say */
    coord_merge_now(fleet.merge, 3, &now);
    assert_true(now.sent_per_s < 0);
    trial = finish(&fleet, &books);
    assert_true(coord_merge_take_heat(fleet.merge, column));
    assert_false(coord_merge_take_heat(fleet.merge, column));
    for (unsigned row = 0; row < COORD_HEAT_ROWS; row++)
        sum += column[row];
    assert_int_equal(sum, ls_hist_count(fleet.all[RESPONSES]));
    coord_message_free(trial);
    fleet_fini(&fleet);
}

/* In the order in which parts come, late ones included. */
static void the_few_lines_of_a_long_trial_add_up_to_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct fleet fleet;
        struct files files;
        struct coord_books books;
        struct ls_hist *sum = NULL;
        Ls__Trial *trial;

        files_begin(&files);
        fleet_init(&fleet, 2, seed, 2000);
        fleet.plan_ns = 700 * INTERVAL; /* three in a line */
        fleet.merge = make_merge(&fleet, files.trial);
        deliver_all(&fleet);
        trial = finish(&fleet, &books);
        assert_int_equal(coord_store_trial_finish(files.trial, trial, NULL), LS_OK);
        assert_int_equal(ls_hist_create(&sum), LS_OK);
        assert_in_range(
            add_lines(&files, "coarse.hlog", "response_time", INTERVALS * INTERVAL, sum), 3, 5);
        assert_same_counters(sum, fleet.all[RESPONSES]);
        ls_hist_destroy(sum);
        coord_message_free(trial);
        fleet_fini(&fleet);
        files_end(&files);
    }
}

/* What was due at the window's start, counted by a worker that stood still in the interval before.
 */
static void samples_of_an_interval_before_the_window_are_in_the_logs(void **state)
{
    static const char *const logs[] = { "merged.hlog", "client-1.hlog" };
    const unsigned before = WARMUP / INTERVAL - 1;
    struct fleet fleet;
    struct files files;
    struct coord_books books;
    struct ls_hist *sum = NULL;
    Ls__Trial *trial;

    (void)state;
    files_begin(&files);
    fleet_init(&fleet, 1, 29, 500);
    fleet.merge = make_merge(&fleet, files.trial);
    assert_int_equal(ls_hist_count(fleet.cells[0][before].hists[LAGS]), 0);
    for (unsigned i = 0; i < 33; i++) {
        ls_hist_record(fleet.cells[0][before].hists[LAGS], INT64_C(33000000));
        ls_hist_record(fleet.all[LAGS], INT64_C(33000000));
    }
    deliver_all(&fleet);
    trial = finish(&fleet, &books);
    assert_int_equal(coord_store_trial_finish(files.trial, trial, NULL), LS_OK);
    assert_int_equal(trial->send_lag->count, ls_hist_count(fleet.all[LAGS]));
    for (size_t i = 0; i < LS_ARRAY_LEN(logs); i++) {
        assert_int_equal(ls_hist_create(&sum), LS_OK);
        (void)add_lines(&files, logs[i], "send_lag", INTERVALS * INTERVAL, sum);
        assert_same_counters(sum, fleet.all[LAGS]);
        ls_hist_destroy(sum);
    }
    coord_message_free(trial);
    fleet_fini(&fleet);
    files_end(&files);
}

/* One client is done before the other begins: what comes late is written with the start of its own
 * interval, each interval's lines add up to it, and none begins before the load did. */
static void late_parts_are_written_where_they_belong(void **state)
{
    struct fleet fleet;
    struct files files;
    struct coord_books books;
    struct ls_hist *found[INTERVALS] = { NULL }, *line = NULL;
    int64_t start_ns, length_ns;
    char path[400];
    Ls__Trial *trial;
    FILE *file;

    (void)state;
    files_begin(&files);
    fleet_init(&fleet, 2, 23, 3000);
    fleet.merge = make_merge(&fleet, files.trial);
    for (uint32_t c = 0; c < 2; c++) {
        for (unsigned i = 0; i < INTERVALS; i++)
            assert_int_equal(send_interval(&fleet, c, i, 0, NULL), LS_OK);
        assert_int_equal(send_final(&fleet, c, 0, 0), LS_OK);
    }
    trial = finish(&fleet, &books);
    for (size_t i = 0; i < trial->n_intervals; i++) {
        unsigned index = (unsigned)((trial->intervals[i]->at_ns + WARMUP) / INTERVAL);

        assert_int_equal(trial->intervals[i]->completed,
                         fleet.cells[0][index].measure.ok + fleet.cells[1][index].measure.ok);
    }
    assert_int_equal(coord_store_trial_finish(files.trial, trial, NULL), LS_OK);

    (void)snprintf(path, sizeof(path), "%s/out/trials/001-nginx-hello-r1/merged.hlog",
                   files.tmp.path);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(ls_hist_create(&line), LS_OK);
    for (unsigned i = 0; i < INTERVALS; i++)
        assert_int_equal(ls_hist_create(&found[i]), LS_OK);
    while (ls_hist_log_read(file, "service_time", line, &start_ns, &length_ns, NULL) == LS_OK) {
        assert_true(start_ns >= 0 && start_ns % INTERVAL == 0 && start_ns / INTERVAL < INTERVALS);
        ls_hist_merge(found[start_ns / INTERVAL], line);
    }
    for (unsigned i = 0; i < INTERVALS; i++) {
        ls_hist_merge(fleet.cells[0][i].hists[SERVICES], fleet.cells[1][i].hists[SERVICES]);
        assert_same_counters(found[i], fleet.cells[0][i].hists[SERVICES]);
        ls_hist_destroy(found[i]);
    }
    ls_hist_destroy(line);
    (void)fclose(file);
    coord_message_free(trial);
    fleet_fini(&fleet);
    files_end(&files);
}

/* Clocks agree to their errors only, and readers of the format know no time before its start. */
static void no_line_begins_before_the_load(void **state)
{
    struct fleet fleet;
    struct files files;
    struct coord_books books;
    struct ls_hist *sum = NULL;
    Ls__Trial *trial;

    (void)state;
    files_begin(&files);
    fleet_init(&fleet, 1, 29, 100);
    fleet.warmup_ns = 0;
    fleet.early_ns = 700;
    fleet.merge = make_merge(&fleet, files.trial);
    assert_int_equal(send_interval(&fleet, 0, 0, 0, NULL), LS_OK);
    trial = finish(&fleet, &books);
    assert_int_equal(coord_store_trial_finish(files.trial, trial, NULL), LS_OK);
    assert_int_equal(ls_hist_create(&sum), LS_OK);
    add_log(&files, "client-1.hlog", "service_time", sum); /* looks at each start */
    ls_hist_destroy(sum);
    coord_message_free(trial);
    fleet_fini(&fleet);
    files_end(&files);
}

/* ---- books and refusals */

static void a_total_that_is_not_the_sum_of_its_intervals_is_noticed(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    Ls__Trial *trial;

    (void)state;
    fleet_init(&fleet, 1, 7, 100);
    fleet.merge = make_merge(&fleet, NULL);
    for (unsigned i = 0; i < INTERVALS; i++)
        assert_int_equal(send_interval(&fleet, 0, i, 0, NULL), LS_OK);
    assert_int_equal(send_final(&fleet, 0, 0, 5), LS_OK);
    trial = finish(&fleet, &books);
    assert_non_null(strstr(books.sums, "client-1: measure scheduled"));
    assert_string_equal(books.unbalanced, "");
    coord_message_free(trial);
    fleet_fini(&fleet);
}

static void books_that_do_not_balance_are_noticed(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    Ls__Trial *trial;

    (void)state;
    fleet_init(&fleet, 1, 7, 100);
    fleet.cells[0][4].measure.sent++; /* never ended */
    fleet.cells[0][4].measure.scheduled++;
    fleet.merge = make_merge(&fleet, NULL);
    for (unsigned i = 0; i < INTERVALS; i++)
        assert_int_equal(send_interval(&fleet, 0, i, 0, NULL), LS_OK);
    assert_int_equal(send_final(&fleet, 0, 0, 0), LS_OK);
    trial = finish(&fleet, &books);
    assert_non_null(strstr(books.unbalanced, "client-1: measure: "));
    assert_string_equal(books.sums, "");
    coord_message_free(trial);
    fleet_fini(&fleet);
}

static void an_answer_without_a_latency_is_noticed(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    Ls__Trial *trial;

    (void)state;
    fleet_init(&fleet, 1, 7, 100);
    fleet.cells[0][4].measure.scheduled++;
    fleet.cells[0][4].measure.sent++;
    fleet.cells[0][4].measure.ok++;
    fleet.merge = make_merge(&fleet, NULL);
    deliver_all(&fleet);
    trial = finish(&fleet, &books);
    assert_string_equal(books.unbalanced, "");
    assert_non_null(strstr(books.sums, "samples for"));
    coord_message_free(trial);
    fleet_fini(&fleet);
}

static void an_interval_that_was_part_of_another_is_refused(void **state)
{
    struct fleet fleet;

    (void)state;
    fleet_init(&fleet, 1, 7, 100);
    fleet.merge = make_merge(&fleet, NULL);
    assert_int_equal(send_interval(&fleet, 0, 0, 2, NULL), LS_OK);
    assert_int_equal(send_interval(&fleet, 0, 2, 0, NULL), LS_EPROTO);
    assert_int_equal(send_interval(&fleet, 0, 3, 0, NULL), LS_OK);
    fleet_fini(&fleet);
}

static void a_missing_interval_shows_in_the_sums(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    Ls__Trial *trial;

    (void)state;
    fleet_init(&fleet, 1, 7, 500);
    fleet.merge = make_merge(&fleet, NULL);
    for (unsigned i = 0; i < INTERVALS; i++) {
        if (i != 5)
            assert_int_equal(send_interval(&fleet, 0, i, 0, NULL), LS_OK);
    }
    assert_int_equal(send_final(&fleet, 0, 0, 0), LS_OK);
    trial = finish(&fleet, &books);
    assert_true(books.sums[0] != '\0');
    coord_message_free(trial);
    fleet_fini(&fleet);
}

static void what_makes_no_sense_is_refused_and_changes_nothing(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    struct ls_diag diag;
    Ls__Trial *trial;
    Ls__IntervalReport bad = LS__INTERVAL_REPORT__INIT;
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    unsigned char garbage[] = { 9, 9, 9 };
    Ls__Series broken = LS__SERIES__INIT;
    Ls__Series *pointers[] = { &broken };

    (void)state;
    fleet_init(&fleet, 1, 7, 500);
    fleet.merge = make_merge(&fleet, NULL);
    envelope.body_case = LS__ENVELOPE__BODY_INTERVAL;
    envelope.interval = &bad;
    assert_int_equal(send_interval(&fleet, 0, 0, 0, NULL), LS_OK);

    assert_int_equal(send_interval(&fleet, 0, 0, 0, &diag), LS_EPROTO); /* twice */
    assert_string_equal(diag.text, "client-1: an interval that was delivered before");
    bad.index = 3;
    bad.length_ns = 0;
    assert_int_equal(coord_merge_report(fleet.merge, 1, &fleet.clocks[1], &envelope, &diag),
                     LS_EPROTO);
    bad.length_ns = INTERVAL;
    bad.index = 1000000;
    assert_int_equal(coord_merge_report(fleet.merge, 1, &fleet.clocks[1], &envelope, &diag),
                     LS_EPROTO);
    bad.index = 3;
    bad.merged = UINT32_MAX;
    assert_int_equal(coord_merge_report(fleet.merge, 1, &fleet.clocks[1], &envelope, &diag),
                     LS_EPROTO);
    bad.merged = 0;
    bad.start_ns = INT64_MAX;
    assert_int_equal(coord_merge_report(fleet.merge, 1, &fleet.clocks[1], &envelope, &diag),
                     LS_EPROTO);
    bad.start_ns = START;
    bad.in_flight_ns = -1;
    assert_int_equal(coord_merge_report(fleet.merge, 1, &fleet.clocks[1], &envelope, &diag),
                     LS_EPROTO);
    bad.in_flight_ns = 0;
    broken.kind = LS__SERIES_KIND__SERIES_KIND_SERVICE_TIME;
    broken.histogram = (ProtobufCBinaryData){ .data = garbage, .len = sizeof(garbage) };
    bad.series = pointers;
    bad.n_series = 1;
    assert_int_equal(coord_merge_report(fleet.merge, 1, &fleet.clocks[1], &envelope, &diag),
                     LS_EPROTO);
    assert_int_equal(coord_merge_report(fleet.merge, SERVER, &fleet.clocks[1], &envelope, &diag),
                     LS_EPROTO);
    assert_int_equal(coord_merge_report(fleet.merge, 99, &fleet.clocks[1], &envelope, &diag),
                     LS_EINVAL);

    for (unsigned i = 1; i < INTERVALS; i++)
        assert_int_equal(send_interval(&fleet, 0, i, 0, NULL), LS_OK);
    assert_int_equal(send_final(&fleet, 0, 0, 0), LS_OK);
    assert_int_equal(send_final(&fleet, 0, 0, 0), LS_EPROTO);
    trial = finish(&fleet, &books);
    expect_merged(&fleet, 0);
    assert_string_equal(books.refused, "client-1: an interval that was delivered before");
    assert_string_equal(books.sums, "");
    coord_message_free(trial);
    fleet_fini(&fleet);
}

/* Every report, as the descriptors know them, from agents of the role that does not send it. */
static void reports_of_the_other_role_are_refused_and_make_the_books_say_so(void **state)
{
    unsigned refused = 0;

    (void)state;
    for (unsigned i = 0; i < ls__envelope__descriptor.n_fields; i++) {
        const ProtobufCFieldDescriptor *body = &ls__envelope__descriptor.fields[i];

        for (unsigned agent = SERVER; agent <= 1 && wire_is_body(body); agent++) {
            Ls__Envelope *envelope = wire_fill(body, "run", 1);
            Ls__Role role = agent == SERVER ? LS__ROLE__ROLE_SERVER : LS__ROLE__ROLE_CLIENT;
            struct coord_books books;
            struct fleet fleet;
            struct ls_diag diag = { 0 };

            if (!ls_report_fits_role(envelope->body_case, role)) {
                fleet_init(&fleet, 1, 7, 10);
                fleet.merge = make_merge(&fleet, NULL);
                assert_int_equal(
                    coord_merge_report(fleet.merge, agent, &fleet.clocks[agent], envelope, &diag),
                    LS_EPROTO);
                assert_non_null(strstr(diag.text, "agents of its role do not send"));
                coord_message_free(finish(&fleet, &books));
                assert_non_null(strstr(books.refused, "agents of its role do not send"));
                fleet_fini(&fleet);
                refused++;
            }
            ls_envelope_free(envelope);
        }
    }
    assert_true(refused >= 2 * 15); /* commands and the session's own messages, too */
}

/* ---- skew, lost agents, progress */

static void start_skew_is_measured_between_clients_and_bounded_by_both_clocks(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    Ls__Trial *trial;

    (void)state;
    fleet_init(&fleet, 3, 11, 300);
    fleet.clocks[1].error_ns = 5000;
    fleet.clocks[2].error_ns = 100;
    fleet.clocks[3].error_ns = 20;
    fleet.merge = make_merge(&fleet, NULL);
    for (uint32_t c = 0; c < 3; c++) {
        for (unsigned i = 0; i < INTERVALS; i++)
            assert_int_equal(send_interval(&fleet, c, i, 0, NULL), LS_OK);
    }
    assert_int_equal(send_final(&fleet, 0, 100, 0), LS_OK); /* 90 .. 100 +- 5000 */
    assert_int_equal(send_final(&fleet, 1, 400, 0), LS_OK); /* 390 .. 400 +- 100 */
    assert_int_equal(send_final(&fleet, 2, 900, 0), LS_OK); /* 890 .. 900 +- 20 */
    trial = finish(&fleet, &books);
    assert_int_equal(trial->window->start_skew_ns, 900 - 90);
    /* Worst: the first client 5000 early, the third 20 late: 900 + 20 - (90 - 5000) = 5830. */
    assert_int_equal(trial->window->start_skew_error_ns, 5830 - 810);
    assert_int_equal(trial->clients[1]->start_offset_ns, 400);
    assert_int_equal(trial->window->duration_ns, MEASURE);
    assert_int_equal(trial->window->start_ns, START + WARMUP);
    coord_message_free(trial);
    fleet_fini(&fleet);
}

static void an_unknown_clock_is_no_good_one(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    Ls__Trial *trial;

    (void)state;
    fleet_init(&fleet, 2, 11, 300);
    fleet.clocks[1].error_ns = fleet.clocks[2].error_ns = INT64_MAX;
    fleet.merge = make_merge(&fleet, NULL);
    for (uint32_t c = 0; c < 2; c++) {
        for (unsigned i = 0; i < INTERVALS; i++)
            assert_int_equal(send_interval(&fleet, c, i, 0, NULL), LS_OK);
        assert_int_equal(send_final(&fleet, c, 100 + 100 * c, 0), LS_OK);
    }
    trial = finish(&fleet, &books);
    assert_int_equal(trial->window->start_skew_ns, 200 - 90);
    assert_true(trial->window->start_skew_error_ns > INT64_C(86400000000000));
    coord_message_free(trial);
    fleet_fini(&fleet);
}

/* A start is told by the clocks as they were then, not as they are an hour later. */
static void the_start_has_clocks_of_its_own(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    Ls__Trial *trial;

    (void)state;
    fleet_init(&fleet, 2, 11, 300);
    fleet.clocks[1].error_ns = fleet.clocks[2].error_ns = 900000;
    fleet.merge = make_merge(&fleet, NULL);
    for (uint32_t c = 1; c <= 2; c++) {
        struct coord_merge_clock clock = fleet.clocks[c];

        clock.error_ns = 200;
        clock.offset_ns -= 50;
        coord_merge_start_clock(fleet.merge, c, &clock);
        clock.error_ns = 300; /* no better: it does not count */
        clock.offset_ns += 1000000;
        coord_merge_start_clock(fleet.merge, c, &clock);
    }
    for (uint32_t c = 0; c < 2; c++) {
        for (unsigned i = 0; i < INTERVALS; i++)
            assert_int_equal(send_interval(&fleet, c, i, 0, NULL), LS_OK);
        assert_int_equal(send_final(&fleet, c, 100 + 100 * c, 0), LS_OK);
    }
    trial = finish(&fleet, &books);
    assert_int_equal(trial->window->start_skew_ns, 200 - 90);
    assert_int_equal(trial->window->start_skew_error_ns, 400);
    assert_int_equal(trial->clients[0]->start_offset_ns, 150);
    assert_int_equal(trial->clients[0]->start_offset_error_ns, 200);
    coord_message_free(trial);
    fleet_fini(&fleet);
}

static void a_lost_client_is_marked_and_the_others_go_on(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    struct coord_merge_progress progress;
    Ls__Trial *trial;

    (void)state;
    fleet_init(&fleet, 2, 13, 2000);
    fleet.merge = make_merge(&fleet, NULL);
    assert_false(coord_merge_latest(fleet.merge, &progress));
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(send_interval(&fleet, 0, i, 0, NULL), LS_OK);
        assert_int_equal(send_interval(&fleet, 1, i, 0, NULL), LS_OK);
    }
    assert_true(coord_merge_latest(fleet.merge, &progress));
    assert_int_equal(progress.at_ns, 3 * INTERVAL - WARMUP);
    assert_int_equal(progress.completed,
                     fleet.cells[0][3].measure.ok + fleet.cells[1][3].measure.ok);
    for (unsigned i = 4; i < INTERVALS; i++)
        assert_int_equal(send_interval(&fleet, 0, i, 0, NULL), LS_OK);
    assert_true(coord_merge_latest(fleet.merge, &progress));
    assert_true(progress.at_ns < 6 * INTERVAL); /* the window cannot hold more than eight */
    assert_int_equal(coord_merge_lost(fleet.merge, 2, NULL), LS_OK);
    assert_true(coord_merge_latest(fleet.merge, &progress));
    assert_int_equal(progress.at_ns, (INTERVALS - 1) * INTERVAL - WARMUP);
    assert_int_equal(send_final(&fleet, 0, 0, 0), LS_OK);
    assert_true(coord_merge_has_client_report(fleet.merge, 1));
    assert_false(coord_merge_has_client_report(fleet.merge, 2));
    trial = finish(&fleet, &books);
    assert_false(trial->clients[0]->lost);
    assert_true(trial->clients[1]->lost);
    /* two of eight intervals of one of two clients of the same share */
    assert_int_equal(trial->clients[1]->lost_at_ns, 2 * INTERVAL);
    assert_int_equal(trial->coverage->clients, 2);
    assert_int_equal(trial->coverage->clients_lost, 1);
    assert_int_equal(trial->coverage->since_ns, 2 * INTERVAL);
    assert_true(fabs(trial->coverage->load - (1 + 0.25) / 2) < 1e-9);
    assert_string_equal(books.sums, "");
    coord_message_free(trial);
    fleet_fini(&fleet);
}

static void reports_of_another_trial_do_not_count(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    Ls__Trial *trial;

    (void)state;
    fleet_init(&fleet, 1, 17, 500);
    fleet.merge = make_merge(&fleet, NULL);
    fleet.trial = 1;
    assert_int_equal(send_interval(&fleet, 0, 0, 0, NULL), LS_OK);
    assert_int_equal(send_final(&fleet, 0, 0, 0), LS_OK);
    assert_false(coord_merge_has_client_report(fleet.merge, 1));
    fleet.trial = 0;
    for (unsigned i = 0; i < INTERVALS; i++)
        assert_int_equal(send_interval(&fleet, 0, i, 0, NULL), LS_OK);
    assert_int_equal(send_final(&fleet, 0, 0, 0), LS_OK);
    trial = finish(&fleet, &books);
    assert_int_equal(trial->requests->ok + trial->warmup->requests->ok, 500);
    assert_null(trial->coverage);
    assert_string_equal(books.sums, "");
    assert_string_equal(books.refused, "");
    coord_message_free(trial);
    fleet_fini(&fleet);
}

/* ---- server */

static void send_sample(struct fleet *fleet, int64_t at_ns, uint32_t edge, int64_t cpu_ns,
                        int64_t busy_ns)
{
    Ls__SampleReport report = LS__SAMPLE_REPORT__INIT;
    Ls__Sample usage = LS__SAMPLE__INIT;
    Ls__Envelope envelope = LS__ENVELOPE__INIT;

    usage.cpu_ns = cpu_ns;
    usage.rss_bytes = 1000;
    usage.processes = 2;
    report.at_ns = at_ns + fleet->clocks[SERVER].offset_ns;
    report.edge = edge;
    report.usage = &usage;
    report.rss_peak_bytes = 2000 + (uint64_t)edge;
    report.listen_overflows = 5 + edge;
    report.cpus_busy_ns = busy_ns;
    report.cpus_steal_ns = edge == 2 ? 80 * MS : 0;
    envelope.body_case = LS__ENVELOPE__BODY_SAMPLE;
    envelope.sample = &report;
    assert_int_equal(
        coord_merge_report(fleet->merge, SERVER, &fleet->clocks[SERVER], &envelope, NULL), LS_OK);
}

static void server_cpu_per_request_comes_from_the_two_edges(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    Ls__ServerReport down = LS__SERVER_REPORT__INIT;
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Trial *trial;
    int64_t begin = START + WARMUP, end = START + WARMUP + MEASURE;
    char exit_text[] = "signal TERM";

    (void)state;
    fleet_init(&fleet, 1, 17, 1000);
    fleet.clocks[SERVER].offset_ns = -12345678;
    fleet.merge = make_merge(&fleet, NULL);
    send_sample(&fleet, begin + 100, 1, 50 * MS, 60 * MS);
    send_sample(&fleet, begin + MEASURE / 2, 0, 200 * MS, 300 * MS);
    send_sample(&fleet, end + 300, 2, 450 * MS, 540 * MS);
    for (unsigned i = 0; i < INTERVALS; i++)
        assert_int_equal(send_interval(&fleet, 0, i, 0, NULL), LS_OK);
    assert_int_equal(send_final(&fleet, 0, 0, 0), LS_OK);
    down.exit = exit_text;
    down.stopped_by_us = true;
    envelope.body_case = LS__ENVELOPE__BODY_SERVER;
    envelope.server = &down;
    assert_int_equal(
        coord_merge_report(fleet.merge, SERVER, &fleet.clocks[SERVER], &envelope, NULL), LS_OK);
    assert_true(coord_merge_has_server_report(fleet.merge, SERVER));
    trial = finish(&fleet, &books);
    assert_non_null(trial->server);
    assert_int_equal(trial->server->cpu_ns, 400 * MS);
    assert_true(trial->server->cpu_ns_per_request ==
                (double)(400 * MS) / (double)trial->requests->ok);
    assert_true(trial->server->cpu_cores_used > 0.4999 && trial->server->cpu_cores_used < 0.5);
    assert_true(trial->server->foreign_cpu_cores > 0.0999 &&
                trial->server->foreign_cpu_cores < 0.1);
    assert_true(trial->server->steal_cores > 0.0999 && trial->server->steal_cores < 0.1001);
    assert_int_equal(trial->server->window_error_ns, 300);
    assert_int_equal(trial->server->rss_peak_bytes, 2002);
    assert_int_equal(trial->server->listen_overflows, 1);
    assert_int_equal(trial->server->n_samples, 3);
    assert_int_equal(trial->server->samples[1]->at_ns, MEASURE / 2);
    assert_string_equal(trial->server->exit, "signal TERM");
    coord_message_free(trial);
    fleet_fini(&fleet);
}

static void a_closed_loop_publishes_no_response_time(void **state)
{
    struct fleet fleet;
    struct coord_books books;
    Ls__Trial *trial;

    (void)state;
    fleet_init(&fleet, 1, 19, 100);
    fleet.open = false;
    fleet.merge = make_merge(&fleet, NULL);
    deliver_all(&fleet);
    trial = finish(&fleet, &books);
    assert_null(trial->response_time);
    assert_non_null(trial->service_time);
    assert_null(trial->clients[0]->response_time);
    coord_message_free(trial);
    fleet_fini(&fleet);
}

/* ---- memory */

static void run_short_of_memory(void *ctx)
{
    struct fleet *fleet = ctx;
    struct coord_merge_agent agents[] = { { "client-1", LS__ROLE__ROLE_CLIENT, 1 } };
    struct coord_merge_options options = {
        .agents = agents,
        .agent_count = 1,
        .measure_ns = MEASURE,
        .interval_ns = INTERVAL,
        .warmup_ns = WARMUP,
    };
    struct coord_merge_clock clock = { 0 };
    struct coord_merge *merge = NULL;
    struct coord_books books;
    Ls__IntervalReport interval = LS__INTERVAL_REPORT__INIT;
    Ls__ClientReport final = LS__CLIENT_REPORT__INIT;
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Trial *trial = NULL;
    enum ls_err rc = coord_merge_create(&options, &merge, NULL);

    (void)fleet;
    if (rc == LS_OK)
        rc = coord_merge_arm(merge, START, WALL, NULL);
    interval.length_ns = INTERVAL;
    interval.index = 3;
    envelope.body_case = LS__ENVELOPE__BODY_INTERVAL;
    envelope.interval = &interval;
    if (rc == LS_OK)
        rc = coord_merge_report(merge, 0, &clock, &envelope, NULL);
    envelope.body_case = LS__ENVELOPE__BODY_CLIENT;
    envelope.client = &final;
    if (rc == LS_OK)
        rc = coord_merge_report(merge, 0, &clock, &envelope, NULL);
    if (rc == LS_OK) {
        trial = coord_message_new(&ls__trial__descriptor);
        rc = trial == NULL ? LS_ENOMEM : coord_merge_finish(merge, trial, &books, NULL);
    }
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    coord_message_free(trial);
    coord_merge_destroy(merge);
}

static void every_failed_allocation_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    assert_true(failmalloc_each(run_short_of_memory, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_client_s_host_did_is_told_for_each_client),
        cmocka_unit_test(what_tls_was_like_is_added_up_and_told_for_each_client),
        cmocka_unit_test(what_http2_was_like_is_added_up_and_told_for_each_client),
        cmocka_unit_test(the_merged_histogram_is_that_of_the_union_however_the_samples_are_split),
        cmocka_unit_test(the_time_series_holds_every_measured_completion_once),
        cmocka_unit_test(the_logs_of_the_clients_add_up_to_the_merged_log_bucket_by_bucket),
        cmocka_unit_test(who_looks_on_sees_the_newest_of_each_and_every_request_once),
        cmocka_unit_test(the_few_lines_of_a_long_trial_add_up_to_the_same),
        cmocka_unit_test(samples_of_an_interval_before_the_window_are_in_the_logs),
        cmocka_unit_test(late_parts_are_written_where_they_belong),
        cmocka_unit_test(no_line_begins_before_the_load),
        cmocka_unit_test(an_answer_without_a_latency_is_noticed),
        cmocka_unit_test(an_interval_that_was_part_of_another_is_refused),
        cmocka_unit_test(a_total_that_is_not_the_sum_of_its_intervals_is_noticed),
        cmocka_unit_test(books_that_do_not_balance_are_noticed),
        cmocka_unit_test(a_missing_interval_shows_in_the_sums),
        cmocka_unit_test(what_makes_no_sense_is_refused_and_changes_nothing),
        cmocka_unit_test(reports_of_the_other_role_are_refused_and_make_the_books_say_so),
        cmocka_unit_test(the_start_has_clocks_of_its_own),
        cmocka_unit_test(start_skew_is_measured_between_clients_and_bounded_by_both_clocks),
        cmocka_unit_test(an_unknown_clock_is_no_good_one),
        cmocka_unit_test(a_lost_client_is_marked_and_the_others_go_on),
        cmocka_unit_test(reports_of_another_trial_do_not_count),
        cmocka_unit_test(server_cpu_per_request_comes_from_the_two_edges),
        cmocka_unit_test(a_closed_loop_publishes_no_response_time),
        cmocka_unit_test(every_failed_allocation_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests_name("coordinator.merge", tests, NULL, NULL);
}
