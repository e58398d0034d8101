#include "coordinator/result/html_series.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/hist_log.h"
#include "coordinator/result/heat.h"
#include "coordinator/result/series.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/summary.h"

#define POINTS_PER_DECADE 12

void coord_html_number(struct ls_buf *out, double value)
{
    double unit;

    if (value == 0 || !isfinite(value)) {
        ls_buf_adds(out, "0");
        return;
    }
    unit = pow(10, floor(log10(fabs(value))) - 3);
    if (unit >= 1)
        ls_buf_addf(out, "%.0f", round(value / unit) * unit);
    else
        ls_buf_addf(out, "%.*g", 4, value);
}

static unsigned bucket_size(size_t n, unsigned points)
{
    return n > points ? (unsigned)((n + points - 1) / points) : 1;
}

/* ---- intervals */

struct point {
    int64_t at_ns;
    double inside_ns; /* of its intervals, within the window; their sum may be past any integer */
    uint64_t completed, scheduled, errors;
    double low, high; /* rates of its intervals; low < 0: none yet */
    int64_t p50_ns, p99_ns, max_ns;
};

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The rates of what is in an interval of the result. False: it shows none. */
static bool rates_of(const Ls__Trial *trial, size_t i, double *out_low, double *out_high)
{
    const Ls__ThinnedIntervals *thinned = trial->intervals_thinned;

    if (!coord_series_rate(trial, trial->intervals[i], out_low))
        return false;
    *out_high = *out_low;
    if (thinned != NULL && i < thinned->n_least_per_s && i < thinned->n_most_per_s) {
        *out_low = thinned->least_per_s[i];
        *out_high = thinned->most_per_s[i];
    }
    return true;
}

/* What came in the drain belongs to the window as well: only its errors are shown, and no rate. */
static void add_interval(struct point *point, const Ls__Trial *trial, size_t i)
{
    const Ls__Interval *interval = trial->intervals[i];
    double low, high;

    point->errors += interval->errors;
    point->p50_ns = most(point->p50_ns, interval->p50_ns);
    point->p99_ns = most(point->p99_ns, interval->p99_ns);
    point->max_ns = most(point->max_ns, interval->max_ns);
    if (!rates_of(trial, i, &low, &high))
        return;
    point->completed += interval->completed;
    point->scheduled += interval->scheduled;
    point->inside_ns += (double)coord_series_inside(trial, interval);
    point->low = point->low < 0 || low < point->low ? low : point->low;
    point->high = high > point->high ? high : point->high;
}

/* Their number; out has room for points of them. */
static unsigned make_points(const Ls__Trial *trial, unsigned every, struct point *out)
{
    unsigned n = 0, taken = 0;

    for (size_t i = 0; i < trial->n_intervals; i++) {
        const Ls__Interval *interval = trial->intervals[i];
        int64_t inside_ns = coord_series_inside(trial, interval);

        if (inside_ns > 0 && (n == 0 || taken == every)) {
            out[n++] = (struct point){ .at_ns = most(interval->at_ns, 0), .low = -1 };
            taken = 0;
        }
        if (n == 0)
            continue;
        taken += inside_ns > 0;
        add_interval(&out[n - 1], trial, i);
    }
    return n;
}

static double per_second(const struct point *point, uint64_t count)
{
    return point->inside_ns > 0 ? (double)count * 1e9 / point->inside_ns : 0;
}

static double get_at(const struct point *p)
{
    return (double)p->at_ns / 1e9;
}

static double get_rate(const struct point *p)
{
    return per_second(p, p->completed);
}

static double get_offered(const struct point *p)
{
    return per_second(p, p->scheduled);
}

static double get_low(const struct point *p)
{
    return p->low < 0 ? 0 : p->low;
}

static double get_high(const struct point *p)
{
    return p->high;
}

static double get_errors(const struct point *p)
{
    return (double)p->errors;
}

static double get_p50(const struct point *p)
{
    return (double)p->p50_ns;
}

static double get_p99(const struct point *p)
{
    return (double)p->p99_ns;
}

static double get_max(const struct point *p)
{
    return (double)p->max_ns;
}

void coord_html_intervals(const Ls__Trial *trial, unsigned points, struct ls_buf *out)
{
    static const struct {
        const char *name;
        double (*get)(const struct point *point);
        enum { ALWAYS, BUCKETS, OPEN } when;
    } series[] = { { "at", get_at, ALWAYS },         { "rate", get_rate, ALWAYS },
                   { "low", get_low, BUCKETS },      { "high", get_high, BUCKETS },
                   { "offered", get_offered, OPEN }, { "errors", get_errors, ALWAYS },
                   { "p50", get_p50, ALWAYS },       { "p99", get_p99, ALWAYS },
                   { "max", get_max, ALWAYS } };
    unsigned every = bucket_size(trial->n_intervals, points), n;
    const Ls__ThinnedIntervals *thinned = trial->intervals_thinned;
    struct point *made = calloc(trial->n_intervals / every + 2, sizeof(*made));

    if (made == NULL) {
        out->ok = false;
        return;
    }
    n = make_points(trial, every, made);
    ls_buf_addf(out, "{\"every\":%" PRIu64 ",\"kept\":%u",
                (uint64_t)every * (thinned != NULL ? thinned->every : 1),
                thinned != NULL ? thinned->every : 1);
    for (size_t s = 0; s < LS_ARRAY_LEN(series); s++) {
        if ((series[s].when == BUCKETS && every == 1 && thinned == NULL) ||
            (series[s].when == OPEN && !coord_trial_is_open(trial)))
            continue;
        ls_buf_addf(out, ",\"%s\":[", series[s].name);
        for (unsigned i = 0; i < n; i++) {
            ls_buf_adds(out, i > 0 ? "," : "");
            coord_html_number(out, series[s].get(&made[i]));
        }
        ls_buf_adds(out, "]");
    }
    ls_buf_adds(out, "}");
    free(made);
}

/* ---- the server's samples */

struct load {
    double at_s, cores, rss, switches;
};

/* From the sample before number i to it. */
static struct load load_of(const Ls__Server *server, size_t i)
{
    const Ls__Sample *from = server->samples[i - 1], *to = server->samples[i];
    const Ls__ThinnedSamples *thinned = server->samples_thinned;
    struct load load = { .at_s = (double)from->at_ns / 1e9,
                         .cores = coord_series_cores(from, to),
                         .rss = (double)to->rss_bytes,
                         .switches = coord_series_switches(from, to) };

    if (thinned != NULL && i < thinned->n_cores_most && i < thinned->n_switches_most_per_s) {
        load.cores = thinned->cores_most[i];
        load.switches = thinned->switches_most_per_s[i];
    }
    return load;
}

static struct load highest(const struct load *a, const struct load *b)
{
    return (struct load){ .at_s = a->at_s,
                          .cores = fmax(a->cores, b->cores),
                          .rss = fmax(a->rss, b->rss),
                          .switches = fmax(a->switches, b->switches) };
}

static void put_loads(const struct load *loads, unsigned n, const char *name, size_t offset,
                      struct ls_buf *out)
{
    ls_buf_addf(out, ",\"%s\":[", name);
    for (unsigned i = 0; i < n; i++) {
        ls_buf_adds(out, i > 0 ? "," : "");
        coord_html_number(
            out, *(const double *)(const void *)((const unsigned char *)&loads[i] + offset));
    }
    ls_buf_adds(out, "]");
}

void coord_html_samples(const Ls__Trial *trial, unsigned points, struct ls_buf *out)
{
    const Ls__Server *server = trial->server;
    size_t count = server != NULL ? server->n_samples : 0;
    unsigned every = bucket_size(count, points), n = 0;
    struct load *loads = calloc(count / every + 2, sizeof(*loads));

    if (loads == NULL) {
        out->ok = false;
        return;
    }
    for (size_t i = 1; i < count; i++) {
        struct load load = load_of(server, i);

        if ((i - 1) % every == 0)
            loads[n++] = load;
        else
            loads[n - 1] = highest(&loads[n - 1], &load);
    }
    ls_buf_addf(out, "{\"every\":%u", every);
    put_loads(loads, n, "at", offsetof(struct load, at_s), out);
    put_loads(loads, n, "cores", offsetof(struct load, cores), out);
    put_loads(loads, n, "rss", offsetof(struct load, rss), out);
    put_loads(loads, n, "switches", offsetof(struct load, switches), out);
    ls_buf_adds(out, "}");
    free(loads);
}

/* ---- histograms */

struct heat {
    uint64_t (*cells)[COORD_HEAT_ROWS]; /* by column */
    double *at_s;
    unsigned columns, room, every, taken;
    struct coord_heat_rows rows;
};

static void add_line(struct heat *heat, const struct ls_hist *hist, double at_s)
{
    if (heat->columns == 0 || (heat->taken == heat->every && heat->columns < heat->room)) {
        heat->at_s[heat->columns++] = at_s;
        heat->taken = 0;
    }
    heat->taken++;
    coord_heat_add(&heat->rows, hist, heat->cells[heat->columns - 1]);
}

static void put_heat(const struct heat *heat, struct ls_buf *out)
{
    ls_buf_addf(out, "{\"every\":%u,\"at\":[", heat->every);
    for (unsigned c = 0; c < heat->columns; c++) {
        ls_buf_adds(out, c > 0 ? "," : "");
        coord_html_number(out, heat->at_s[c]);
    }
    ls_buf_adds(out, "],\"columns\":[");
    for (unsigned c = 0; c < heat->columns; c++) {
        ls_buf_adds(out, c > 0 ? "," : "");
        coord_heat_put(heat->cells[c], out);
    }
    ls_buf_adds(out, "]}");
}

static enum ls_err read_lines(FILE *file, const Ls__Trial *trial, struct heat *heat,
                              struct ls_hist *total, struct ls_diag *diag)
{
    const char *tag = coord_trial_is_open(trial) ? "response_time" : "service_time";
    struct ls_hist *line = NULL;
    int64_t start_ns, length_ns, first_ns = -1;
    enum ls_err rc = ls_hist_create(&line);

    /* Lines count from the start of the load, intervals from that of the window. */
    while (rc == LS_OK) {
        rc = ls_hist_log_read(file, tag, line, &start_ns, &length_ns, diag);
        if (rc != LS_OK)
            break;
        first_ns = first_ns < 0 ? start_ns : first_ns;
        ls_hist_merge(total, line);
        add_line(heat, line, (double)(start_ns - first_ns) / 1e9);
    }
    ls_hist_destroy(line);
    return rc == LS_EAGAIN ? LS_OK : rc;
}

static enum ls_err heat_init(struct heat *heat, size_t lines, unsigned points)
{
    heat->every = bucket_size(lines, points);
    heat->room = points;
    heat->cells = calloc(points, sizeof(*heat->cells));
    heat->at_s = calloc(points, sizeof(*heat->at_s));
    coord_heat_rows_init(&heat->rows);
    return heat->cells != NULL && heat->at_s != NULL ? LS_OK : LS_ENOMEM;
}

/* The log that is quickest to read: a long trial has one with few lines. */
static enum ls_err choose_log(const char *folder, const Ls__Trial *trial, char *out_path,
                              size_t *out_lines, struct ls_diag *diag)
{
    uint32_t every = trial->intervals_thinned != NULL ? trial->intervals_thinned->every : 1;
    enum ls_err rc = LS_OK;

    *out_lines = COORD_COARSE_LINES;
    if (trial->intervals_thinned != NULL)
        rc = coord_path(folder, COORD_COARSE_LOG, out_path, diag);
    if (rc != LS_OK || (trial->intervals_thinned != NULL && access(out_path, F_OK) == 0))
        return rc;
    *out_lines = trial->n_intervals * (size_t)every;
    return coord_path(folder, "merged.hlog", out_path, diag);
}

enum ls_err coord_html_log(const char *dir, const Ls__Trial *trial, unsigned points,
                           struct ls_hist *total, struct ls_buf *out, struct ls_diag *diag)
{
    struct heat heat = { .columns = 0 };
    char folder[PATH_MAX], path[PATH_MAX];
    FILE *file = NULL;
    size_t lines = 0;
    int fd;
    enum ls_err rc = coord_path(dir, trial->folder, folder, diag);

    if (rc == LS_OK)
        rc = choose_log(folder, trial, path, &lines, diag);
    if (rc != LS_OK)
        return rc;
    rc = ls_fs_open(path, &fd, diag); /* a FIFO in its place must not hold us up */
    if (rc != LS_OK)
        return rc;
    file = fdopen(fd, "r");
    if (file == NULL) {
        (void)close(fd);
        return ls_fail(diag, LS_ENOMEM, "no memory for %s", path);
    }
    rc = heat_init(&heat, lines, points);
    if (rc == LS_OK)
        rc = read_lines(file, trial, &heat, total, diag);
    if (rc == LS_OK)
        put_heat(&heat, out);
    else if (rc != LS_ENOMEM)
        rc = ls_fail_in(diag, rc, "%s", path);
    (void)fclose(file); /* read only */
    free(heat.cells);
    free(heat.at_s);
    return rc;
}

void coord_html_quantiles(const struct ls_hist *hist, struct ls_buf *out)
{
    double count = (double)ls_hist_count(hist);
    struct ls_buf values;

    ls_buf_init(&values, 1u << 16);
    ls_buf_adds(out, "[[");
    for (unsigned i = 0; count > 0; i++) {
        double x = pow(10, (double)i / POINTS_PER_DECADE);
        bool last = x >= count;

        x = last ? count : x;
        coord_html_number(out, x);
        coord_html_number(&values,
                          (double)(last ? ls_hist_max(hist) : ls_hist_quantile(hist, 1 - 1 / x)));
        if (last)
            break;
        ls_buf_adds(out, ",");
        ls_buf_adds(&values, ",");
    }
    ls_buf_adds(out, "],[");
    ls_buf_add(out, values.data, values.len);
    ls_buf_adds(out, "]]");
    out->ok = out->ok && values.ok;
    ls_buf_fini(&values);
}
