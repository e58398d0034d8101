/* What the raw files of a trial say of its figures. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/hist.h"
#include "common/hist_log.h"
#include "common/msg_model.h"
#include "common/series.h"
#include "coordinator/result/latency.h"
#include "coordinator/result/message.h"
#include "coordinator/result/raw.h"
#include "coordinator/result/requests.h"
#include "coordinator/result/series.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/summary.h"
#include "coordinator/result/verify_internal.h"

#define INTERVALS_MAX 4000000u /* as coordinator/run/merge.c */
#define BLOCK_POINTS  64u

/* One interval of all clients. */
struct point {
    bool used;
    bool in_time; /* not all of its reports were late */
    bool has_line;
    Ls__Interval interval;
};

/* What the rows of one client add up to. */
struct totals {
    Ls__Requests warmup, measure;
    uint64_t ok_in_window, bytes_in, bytes_out;
    int64_t in_flight_ns;
    uint64_t reports, merged;
};

struct job {
    struct verify *v;
    const Ls__Trial *trial;
    const char *where; /* "trials[nginx hello r1]" */
    const char *file;  /* where its figures stand */
    struct ls_hist *line;
    struct ls_hist *of[LS_SERIES_COUNT];  /* of the file at hand */
    struct ls_hist *sum[LS_SERIES_COUNT]; /* of all clients' files */
    bool has[LS_SERIES_COUNT];
    struct totals *clients; /* owned; as many as the trial has */
    struct point **blocks;  /* owned, as each is; by index, BLOCK_POINTS in each; NULL: none used */
    size_t block_count;
    int64_t slot_ns; /* from the start of one interval to the next; 0: not known */
    double ok_in_window;
    bool refused; /* a row that cannot be of this trial */
    bool has_rows;
};

static double per_second(const Ls__Trial *trial, uint64_t count)
{
    int64_t ns = trial->window->duration_ns;

    return ns > 0 ? (double)count * 1e9 / (double)ns : 0;
}

static bool path_of(const struct job *job, const char *name, char *relative, char *absolute)
{
    return coord_path(job->trial->folder, name, relative, NULL) == LS_OK &&
           coord_path(job->v->dir, relative, absolute, NULL) == LS_OK;
}

static void sub(const struct job *job, const char *field, char *out, size_t out_bytes)
{
    (void)snprintf(out, out_bytes, "%s.%s", job->where, field);
}

/* NULL: no row has said anything of it. */
static struct point *find_point(const struct job *job, size_t index)
{
    struct point *block =
        index / BLOCK_POINTS < job->block_count ? job->blocks[index / BLOCK_POINTS] : NULL;

    return block != NULL && block[index % BLOCK_POINTS].used ? &block[index % BLOCK_POINTS] : NULL;
}

/* ---- histogram logs */

static void reset(struct job *job)
{
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        ls_hist_reset(job->of[s]);
        job->has[s] = false;
    }
}

static int series_of(const char *tag)
{
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        if (strcmp(ls_series_name((enum ls_series)s), tag) == 0)
            return (int)s;
    }
    return -1;
}

/* The first line of an interval that came in time is what its percentiles were published from; a
 * part that came later has a line of its own. */
static void note_line(struct job *job, int series, int64_t start_ns)
{
    bool primary = series == (coord_trial_is_open(job->trial) ? (int)LS_SERIES_RESPONSE_TIME
                                                              : (int)LS_SERIES_SERVICE_TIME);
    size_t index = job->slot_ns > 0 ? (size_t)(start_ns / job->slot_ns) : 0;
    struct point *point = primary ? find_point(job, index) : NULL;

    if (point == NULL || point->has_line || !point->in_time)
        return;
    point->has_line = true;
    point->interval.p50_ns = ls_hist_quantile(job->line, 0.50);
    point->interval.p99_ns = ls_hist_quantile(job->line, 0.99);
    point->interval.max_ns = ls_hist_max(job->line);
}

/* All lines of a log into job->of. */
static enum ls_err read_log(struct job *job, const char *path, bool merged, struct ls_diag *diag)
{
    char tag[64];
    int64_t start_ns, length_ns;
    FILE *file = NULL;
    int fd;
    enum ls_err rc = ls_fs_open(path, &fd, diag);

    reset(job);
    if (rc != LS_OK)
        return rc;
    file = fdopen(fd, "r");
    if (file == NULL) {
        (void)close(fd);
        return ls_fail(diag, LS_ENOMEM, "no memory for %s", path);
    }
    while ((rc = ls_hist_log_next(file, job->line, tag, sizeof(tag), &start_ns, &length_ns,
                                  diag)) == LS_OK) {
        int s = series_of(tag);

        if (s < 0)
            continue; /* of a later version */
        ls_hist_merge(job->of[s], job->line);
        job->has[s] = true;
        if (merged)
            note_line(job, s, start_ns);
    }
    (void)fclose(file); /* read only */
    return rc == LS_EAGAIN ? LS_OK : rc;
}

/* A log has buckets: the exact minimum is in none, and what was clipped is known to be in the last.
 */
static void settle(Ls__Latency *computed, const Ls__Latency *published)
{
    int64_t lowest_ns = ls_hist_lowest_at(ls_hist_index(published->min_ns));

    if (published->min_ns >= 0 && lowest_ns == computed->min_ns)
        computed->min_ns = published->min_ns;
    if ((published->clipped > 0) == (computed->clipped > 0) &&
        published->clipped <= computed->clipped)
        computed->clipped = published->clipped;
}

/* The latencies of a Trial or a Client, from job->of. */
static void check_latencies(struct job *job, const char *where, const ProtobufCMessage *message,
                            const char *log)
{
    const struct verify_source source = { .file = job->file, .from = log };

    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        const char *name = ls_series_name((enum ls_series)s);
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
        bool published = ls_msg_count(message, field) > 0;
        bool wanted =
            job->has[s] && (s != LS_SERIES_RESPONSE_TIME || coord_trial_is_open(job->trial));
        Ls__Latency computed = LS__LATENCY__INIT;
        char figure[400];

        (void)snprintf(figure, sizeof(figure), "%s.%s", where, name);
        if (published != wanted) {
            job->v->out->figures++;
            verify_differs(job->v, job->file, figure, published ? "there" : "absent",
                           wanted ? "there" : "absent",
                           published ? "a latency that no histogram log has"
                                     : "a latency of the histogram log is missing");
            continue;
        }
        if (!published)
            continue;
        coord_latency_fill(&computed, job->of[s]);
        settle(&computed, (const Ls__Latency *)ls_msg_sub(message, field, 0));
        verify_message(job->v, &source, figure, ls_msg_sub(message, field, 0), &computed.base);
    }
}

static bool same_counts(const struct ls_hist *a, const struct ls_hist *b)
{
    for (uint32_t i = 0; i < LS_HIST_LEN; i++) {
        if (ls_hist_count_at(a, i) != ls_hist_count_at(b, i))
            return false;
    }
    return ls_hist_max(a) == ls_hist_max(b);
}

static bool take_log(struct job *job, const char *name, bool merged, char *relative)
{
    char absolute[PATH_MAX];
    struct ls_diag why = { .text = "" };
    enum ls_err rc;

    if (!path_of(job, name, relative, absolute))
        return false;
    rc = read_log(job, absolute, merged, &why);
    if (rc == LS_OK)
        return true;
    job->v->no_memory = job->v->no_memory || rc == LS_ENOMEM;
    verify_differs(job->v, relative, "", NULL, NULL, why.text);
    return false;
}

static void check_clients_logs(struct job *job)
{
    const Ls__Trial *trial = job->trial;
    char name[96], where[400], relative[PATH_MAX];

    for (size_t i = 0; i < trial->n_clients; i++) {
        unsigned copy = 1;

        for (size_t k = 0; k < i; k++) { /* one that has that name already */
            char other[96];

            coord_path_hlog(trial->clients[i]->agent, 1, name, sizeof(name));
            coord_path_hlog(trial->clients[k]->agent, 1, other, sizeof(other));
            copy += strcmp(name, other) == 0;
        }
        coord_path_hlog(trial->clients[i]->agent, copy, name, sizeof(name));
        if (!take_log(job, name, false, relative))
            continue;
        (void)snprintf(where, sizeof(where), "%.250s.clients[%.80s]", job->where,
                       trial->clients[i]->agent);
        check_latencies(job, where, &trial->clients[i]->base, relative);
        for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
            ls_hist_merge(job->sum[s], job->of[s]);
    }
}

/* The whole is the sum of its parts, counter by counter. */
static void check_union(struct job *job, const char *relative)
{
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        char text[200];

        job->v->out->figures++;
        if (same_counts(job->of[s], job->sum[s]))
            continue;
        (void)snprintf(text, sizeof(text),
                       "its %s is not the sum of the clients' logs: %" PRIu64
                       " samples, and %" PRIu64 " in those",
                       ls_series_name((enum ls_series)s), ls_hist_count(job->of[s]),
                       ls_hist_count(job->sum[s]));
        verify_differs(job->v, relative, "", NULL, NULL, text);
    }
}

/* The few lines of a long trial have what the many have. */
static void check_coarse(struct job *job)
{
    enum ls_series primary =
        coord_trial_is_open(job->trial) ? LS_SERIES_RESPONSE_TIME : LS_SERIES_SERVICE_TIME;
    char relative[PATH_MAX], absolute[PATH_MAX];

    if (!path_of(job, COORD_COARSE_LOG, relative, absolute) || access(absolute, F_OK) != 0 ||
        !take_log(job, COORD_COARSE_LOG, false, relative))
        return;
    job->v->out->figures++;
    if (!same_counts(job->of[primary], job->sum[primary]))
        verify_differs(job->v, relative, "", NULL, NULL,
                       "it does not add up to what the clients' logs add up to");
}

static void check_logs(struct job *job)
{
    char relative[PATH_MAX];

    check_clients_logs(job);
    if (!take_log(job, "merged.hlog", true, relative))
        return;
    check_union(job, relative);
    check_latencies(job, job->where, &job->trial->base, relative);
    check_coarse(job);
}

/* ---- intervals.csv */

/* The one with that number, made if need be; NULL: out of memory. What is allocated follows from
 * how many rows there are, but for 8 bytes in BLOCK_POINTS, not from the numbers in them. */
static struct point *point_at(struct job *job, uint32_t index)
{
    size_t at = index / BLOCK_POINTS, count = at + 1 + at / 2;
    struct point **blocks;

    if (at >= job->block_count) {
        blocks = realloc(job->blocks, count * sizeof(*blocks));
        if (blocks == NULL)
            return NULL;
        for (size_t i = job->block_count; i < count; i++)
            blocks[i] = NULL;
        job->blocks = blocks;
        job->block_count = count;
    }
    if (job->blocks[at] == NULL) {
        job->blocks[at] = calloc(BLOCK_POINTS, sizeof(**job->blocks));
        for (size_t i = 0; job->blocks[at] != NULL && i < BLOCK_POINTS; i++)
            ls__interval__init(&job->blocks[at][i].interval);
    }
    return job->blocks[at] != NULL ? &job->blocks[at][index % BLOCK_POINTS] : NULL;
}

static bool take_row(void *ctx, const struct coord_raw_interval *row)
{
    struct job *job = ctx;
    struct totals *totals;
    struct point *point;

    if (row->client == 0 || row->client > job->trial->n_clients || row->index >= INTERVALS_MAX) {
        job->refused = true;
        return true;
    }
    point = point_at(job, row->index);
    if (point == NULL)
        return false;
    job->has_rows = true;
    if (row->index > 0)
        job->slot_ns = row->slot_ns / row->index;
    point->used = true;
    point->in_time = point->in_time || row->late == 0;
    point->interval.at_ns = row->at_ns;
    if (row->length_ns > point->interval.length_ns)
        point->interval.length_ns = row->length_ns;
    point->interval.scheduled += row->measure.scheduled;
    point->interval.completed += row->measure.ok;
    point->interval.errors += coord_requests_errors(&row->measure);
    totals = &job->clients[row->client - 1];
    coord_requests_add(&totals->warmup, &row->warmup);
    coord_requests_add(&totals->measure, &row->measure);
    totals->ok_in_window += row->ok_in_window;
    totals->bytes_in += row->bytes_in;
    totals->bytes_out += row->bytes_out;
    totals->in_flight_ns = (int64_t)((uint64_t)totals->in_flight_ns + (uint64_t)row->in_flight_ns);
    totals->reports++;
    totals->merged += row->merged;
    return true;
}

static bool read_rows(struct job *job)
{
    char relative[PATH_MAX], absolute[PATH_MAX];
    struct ls_diag why = { .text = "" };
    enum ls_err rc;
    bool expected = job->trial->n_intervals > 0;

    for (size_t i = 0; i < job->trial->n_clients; i++)
        expected = expected || job->trial->clients[i]->intervals > 0;
    if (!expected || !path_of(job, COORD_RAW_INTERVALS, relative, absolute))
        return false;
    rc = coord_raw_read_intervals(absolute, take_row, job, &why);
    job->v->no_memory = job->v->no_memory || rc == LS_ENOMEM;
    if (rc == LS_OK && job->refused)
        rc = ls_fail(&why, LS_EPROTO, "%s has rows of clients that the trial does not have",
                     absolute);
    if (rc != LS_OK)
        verify_differs(job->v, relative, "", NULL, NULL, why.text);
    return rc == LS_OK;
}

/* What was said of agents whose reports did not make sense, or not add up, is not what counts. */
static bool books_were_open(const Ls__Trial *trial)
{
    static const char *const codes[] = { "bad_report", "books", "interval_sums" };

    for (size_t i = 0; i < trial->n_reasons; i++) {
        for (size_t k = 0; k < LS_ARRAY_LEN(codes); k++) {
            if (strcmp(trial->reasons[i]->code, codes[k]) == 0)
                return true;
        }
    }
    return false;
}

static void check_clients(struct job *job)
{
    static const char *const names[] = { "requests",  "warmup",           "throughput_per_s",
                                         "bytes_in",  "bytes_out",        "in_flight_mean",
                                         "intervals", "intervals_merged", NULL };
    const struct verify_source source = { .file = job->file, .from = COORD_RAW_INTERVALS };
    const Ls__Trial *trial = job->trial;

    for (size_t i = 0; i < trial->n_clients; i++) {
        struct totals *totals = &job->clients[i];
        Ls__PhaseRequests warmup = LS__PHASE_REQUESTS__INIT;
        Ls__Client computed = LS__CLIENT__INIT;
        double ns = (double)trial->window->duration_ns;
        char where[400];

        warmup.requests = &totals->warmup;
        computed.requests = &totals->measure;
        computed.warmup = &warmup;
        computed.throughput_per_s = per_second(trial, totals->ok_in_window);
        computed.bytes_in = totals->bytes_in;
        computed.bytes_out = totals->bytes_out;
        computed.in_flight_mean = ns > 0 ? (double)totals->in_flight_ns / ns : 0;
        computed.intervals = totals->reports;
        computed.intervals_merged = totals->merged;
        (void)snprintf(where, sizeof(where), "%.250s.clients[%.80s]", job->where,
                       trial->clients[i]->agent);
        verify_fields(job->v, &source, where, &trial->clients[i]->base, &computed.base, names);
    }
}

/* One division, one rounding, as when it was made. */
static void check_throughput(struct job *job)
{
    static const char *const names[] = { "throughput_per_s", NULL };
    const struct verify_source source = { .file = job->file, .from = COORD_RAW_INTERVALS };
    Ls__Trial computed = LS__TRIAL__INIT;
    uint64_t ok = 0;

    for (size_t i = 0; i < job->trial->n_clients; i++)
        ok += job->clients[i].ok_in_window;
    computed.throughput_per_s = per_second(job->trial, ok);
    verify_fields(job->v, &source, job->where, &job->trial->base, &computed.base, names);
}

/* Every interval that touches the window, as it was, made as few as the published ones are. */
static Ls__Trial *make_series(const struct job *job)
{
    const Ls__ThinnedIntervals *thinned = job->trial->intervals_thinned;
    Ls__Trial *made = coord_message_new(&ls__trial__descriptor);
    bool ok = made != NULL;

    for (size_t i = 0; ok && i < job->block_count * BLOCK_POINTS; i++) {
        const struct point *point = find_point(job, i);
        Ls__Interval *copy;

        if (point == NULL || point->interval.at_ns <= -point->interval.length_ns)
            continue; /* of the warm-up alone */
        copy =
            coord_message_append(&made->n_intervals, &made->intervals, &ls__interval__descriptor);
        ok = copy != NULL;
        if (ok)
            *copy = point->interval;
    }
    if (ok && thinned != NULL && thinned->every > 0) {
        made->window = job->trial->window; /* borrowed while it is looked at */
        ok = coord_series_thin_intervals(made, thinned->every) == LS_OK;
        made->window = NULL;
    }
    if (ok)
        return made;
    coord_message_free(made);
    return NULL;
}

static void check_series(struct job *job)
{
    static const char *const names[] = { "at_ns",  "length_ns", "scheduled", "completed", "errors",
                                         "p50_ns", "p99_ns",    "max_ns",    NULL };
    static const char *const rates[] = { "intervals_thinned", NULL };
    const struct verify_source source = { .file = job->file,
                                          .from = COORD_RAW_INTERVALS " and merged.hlog" };
    const Ls__Trial *trial = job->trial;
    Ls__Trial *made = make_series(job);
    char where[400];

    if (made == NULL) {
        job->v->no_memory = true;
        return;
    }
    for (size_t i = 0; i < made->n_intervals && i < trial->n_intervals; i++) {
        (void)snprintf(where, sizeof(where), "%.300s.intervals[%zu]", job->where, i);
        verify_fields(job->v, &source, where, &trial->intervals[i]->base, &made->intervals[i]->base,
                      names);
    }
    verify_fields(job->v, &source, job->where, &trial->base, &made->base, rates);
    if (made->n_intervals != trial->n_intervals) {
        sub(job, "intervals", where, sizeof(where));
        verify_differs(job->v, job->file, where, NULL, NULL,
                       "there are not as many intervals as in " COORD_RAW_INTERVALS);
    }
    coord_message_free(made);
}

/* ---- all of it */

static void check_server(const struct job *job)
{
    struct verify_server server = { .trial = job->trial, .where = job->where, .file = job->file };

    server.counted = job->has_rows && !books_were_open(job->trial);
    for (size_t i = 0; i < job->trial->n_clients; i++)
        server.ok_in_window += job->clients[i].ok_in_window;
    verify_server(job->v, &server);
}

static bool job_init(struct job *job)
{
    bool ok = ls_hist_create(&job->line) == LS_OK;

    for (unsigned s = 0; ok && s < LS_SERIES_COUNT; s++)
        ok = ls_hist_create(&job->of[s]) == LS_OK && ls_hist_create(&job->sum[s]) == LS_OK;
    job->clients = calloc(job->trial->n_clients + 1, sizeof(*job->clients));
    for (size_t i = 0; job->clients != NULL && i < job->trial->n_clients; i++) {
        ls__requests__init(&job->clients[i].warmup);
        ls__requests__init(&job->clients[i].measure);
    }
    return ok && job->clients != NULL;
}

static void job_fini(struct job *job)
{
    ls_hist_destroy(job->line);
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        ls_hist_destroy(job->of[s]);
        ls_hist_destroy(job->sum[s]);
    }
    free(job->clients);
    for (size_t i = 0; i < job->block_count; i++)
        free(job->blocks[i]);
    free(job->blocks);
}

static void check_verdict(struct job *job)
{
    Ls__Verdict worst = LS__VERDICT__VERDICT_VALID;
    char where[400];

    if (strcmp(job->trial->status, "skipped") == 0 ||
        strcmp(job->trial->status, "not_applicable") == 0)
        worst = LS__VERDICT__VERDICT_NONE; /* nothing ran that could be judged */
    for (size_t i = 0; i < job->trial->n_reasons; i++) {
        if (job->trial->reasons[i]->verdict > worst)
            worst = job->trial->reasons[i]->verdict;
    }
    job->v->out->figures++;
    sub(job, "verdict", where, sizeof(where));
    if (job->trial->verdict != worst)
        verify_differs(job->v, job->file, where, NULL, NULL,
                       "the verdict is not the worst of its reasons");
}

void verify_trial(struct verify *v, const Ls__Trial *trial, const char *where, const char *file)
{
    struct job job = { .v = v, .trial = trial, .where = where, .file = file };

    check_verdict(&job);
    if (trial->process != NULL)
        verify_process(v, trial, where, file);
    if (trial->window == NULL)
        return; /* it never began: there is nothing to compute it from */
    if (!job_init(&job)) {
        v->no_memory = true;
        job_fini(&job);
        return;
    }
    if (read_rows(&job) && books_were_open(trial)) {
        verify_note(v,
                    "%s: its agents' reports did not add up, so its counters cannot be "
                    "computed again from " COORD_RAW_INTERVALS,
                    where);
    } else if (job.has_rows) {
        check_clients(&job);
        check_throughput(&job);
    }
    check_logs(&job); /* with the intervals known, for their percentiles */
    if (job.has_rows && !books_were_open(trial))
        check_series(&job);
    verify_sums(v, trial, where, file);
    check_server(&job);
    job_fini(&job);
}
