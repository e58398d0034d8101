#include "coordinator/result/series.h"

#include <math.h>
#include <stdlib.h>

#include "coordinator/result/message.h"

/* Less of an interval than this share lies in the window: its rate would be noise. */
#define INSIDE_LEAST 0.1

unsigned coord_series_points(uint32_t trials)
{
    unsigned points = COORD_SERIES_ALL / (trials > 0 ? trials : 1);

    return points < COORD_SERIES_LEAST  ? COORD_SERIES_LEAST
           : points > COORD_SERIES_MOST ? COORD_SERIES_MOST
                                        : points;
}

/* Results come from anybody, and may hold any number. */
static int64_t end_of(const Ls__Interval *interval)
{
    if (interval->length_ns <= 0)
        return interval->at_ns;
    return interval->at_ns > INT64_MAX - interval->length_ns
               ? INT64_MAX
               : interval->at_ns + interval->length_ns;
}

int64_t coord_series_inside(const Ls__Trial *trial, const Ls__Interval *interval)
{
    int64_t end_ns = trial->window != NULL ? trial->window->duration_ns : INT64_MAX;
    int64_t from = interval->at_ns > 0 ? interval->at_ns : 0;
    int64_t to = end_of(interval);

    to = to < end_ns ? to : end_ns;
    return to > from ? to - from : 0;
}

bool coord_series_rate(const Ls__Trial *trial, const Ls__Interval *interval, double *out_per_s)
{
    int64_t inside_ns = coord_series_inside(trial, interval);

    if (inside_ns <= 0 || (double)inside_ns < INSIDE_LEAST * (double)interval->length_ns)
        return false;
    *out_per_s = (double)interval->completed * 1e9 / (double)inside_ns;
    return true;
}

static double seconds_between(const Ls__Sample *from, const Ls__Sample *to)
{
    return ((double)to->at_ns - (double)from->at_ns) / 1e9;
}

double coord_series_cores(const Ls__Sample *from, const Ls__Sample *to)
{
    double seconds = seconds_between(from, to);

    return seconds > 0 ? ((double)to->cpu_ns - (double)from->cpu_ns) / 1e9 / seconds : 0;
}

double coord_series_switches(const Ls__Sample *from, const Ls__Sample *to)
{
    double seconds = seconds_between(from, to);
    uint64_t before = from->voluntary_switches + from->involuntary_switches;
    uint64_t after = to->voluntary_switches + to->involuntary_switches;

    return seconds > 0 && after > before ? (double)(after - before) / seconds : 0;
}

/* ---- intervals */

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void add_interval(Ls__Interval *to, const Ls__Interval *more)
{
    /* From the first one's start to the latest end: a gap, or what overlaps, bends no rate. */
    to->length_ns = most(to->length_ns, (int64_t)((uint64_t)end_of(more) - (uint64_t)to->at_ns));
    to->completed += more->completed;
    to->scheduled += more->scheduled;
    to->errors += more->errors;
    to->p50_ns = most(to->p50_ns, more->p50_ns);
    to->p99_ns = most(to->p99_ns, more->p99_ns);
    to->max_ns = most(to->max_ns, more->max_ns);
    for (size_t i = 0; i < to->n_slower && i < more->n_slower; i++)
        to->slower[i] += more->slower[i];
}

static size_t end_of_point(const Ls__Trial *trial, size_t first, uint32_t every)
{
    bool drained = coord_series_inside(trial, trial->intervals[first]) == 0;
    size_t end = first + 1;

    while (end < trial->n_intervals && end - first < every &&
           (coord_series_inside(trial, trial->intervals[end]) == 0) == drained)
        end++;
    return end;
}

static void note_rates(const Ls__Trial *trial, size_t first, size_t end, double *out_least,
                       double *out_most)
{
    bool any = false;

    *out_least = *out_most = 0;
    for (size_t i = first; i < end; i++) {
        double rate;

        if (!coord_series_rate(trial, trial->intervals[i], &rate))
            continue;
        *out_least = any ? fmin(*out_least, rate) : rate;
        *out_most = fmax(*out_most, rate);
        any = true;
    }
}

/* room: as many as there are intervals, for those of a drain may lie anywhere in a result that
 * somebody else has written. */
static Ls__ThinnedIntervals *new_intervals(size_t room, uint32_t every)
{
    Ls__ThinnedIntervals *made = coord_message_new(&ls__thinned_intervals__descriptor);

    if (made == NULL)
        return NULL;
    made->every = every;
    made->least_per_s = calloc(room, sizeof(*made->least_per_s));
    made->most_per_s = calloc(room, sizeof(*made->most_per_s));
    if (made->least_per_s != NULL && made->most_per_s != NULL)
        return made;
    coord_message_free(made);
    return NULL;
}

enum ls_err coord_series_thin_intervals(Ls__Trial *trial, uint32_t every)
{
    Ls__ThinnedIntervals *thinned = new_intervals(trial->n_intervals + 1, every);
    size_t n = 0;

    if (thinned == NULL)
        return LS_ENOMEM;
    for (size_t i = 0, end; i < trial->n_intervals; i = end) {
        Ls__Interval *point = trial->intervals[i];

        end = end_of_point(trial, i, every);
        note_rates(trial, i, end, &thinned->least_per_s[n], &thinned->most_per_s[n]);
        for (size_t k = i + 1; k < end; k++) {
            add_interval(point, trial->intervals[k]);
            coord_message_free(trial->intervals[k]);
        }
        trial->intervals[n++] = point;
    }
    trial->n_intervals = thinned->n_least_per_s = thinned->n_most_per_s = n;
    coord_message_free(trial->intervals_thinned);
    trial->intervals_thinned = thinned;
    return LS_OK;
}

/* ---- samples */

static uint64_t most_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Into the last one of a point. */
static void add_sample(Ls__Sample *last, const Ls__Sample *earlier)
{
    last->rss_bytes = most_of(last->rss_bytes, earlier->rss_bytes);
    last->memory_bytes = most_of(last->memory_bytes, earlier->memory_bytes);
    last->processes = (uint32_t)most_of(last->processes, earlier->processes);
    last->threads = (uint32_t)most_of(last->threads, earlier->threads);
}

static Ls__ThinnedSamples *new_samples(size_t room, uint32_t every)
{
    Ls__ThinnedSamples *made = coord_message_new(&ls__thinned_samples__descriptor);

    if (made == NULL)
        return NULL;
    made->every = every;
    made->cores_most = calloc(room, sizeof(*made->cores_most));
    made->switches_most_per_s = calloc(room, sizeof(*made->switches_most_per_s));
    if (made->cores_most != NULL && made->switches_most_per_s != NULL)
        return made;
    coord_message_free(made);
    return NULL;
}

enum ls_err coord_series_thin_samples(Ls__Server *server, uint32_t every)
{
    Ls__ThinnedSamples *thinned = new_samples(server->n_samples / every + 2, every);
    size_t n = 0;

    if (thinned == NULL)
        return LS_ENOMEM;
    for (size_t i = 0, end; i < server->n_samples; i = end) {
        size_t left = server->n_samples - i;
        Ls__Sample *last;

        end = i == 0 ? 1 : i + (left < every ? left : every);
        for (size_t k = i; i > 0 && k < end; k++) {
            const Ls__Sample *from = server->samples[k - 1], *to = server->samples[k];

            thinned->cores_most[n] = fmax(thinned->cores_most[n], coord_series_cores(from, to));
            thinned->switches_most_per_s[n] =
                fmax(thinned->switches_most_per_s[n], coord_series_switches(from, to));
        }
        last = server->samples[end - 1];
        for (size_t k = i; k + 1 < end; k++) {
            add_sample(last, server->samples[k]);
            coord_message_free(server->samples[k]);
        }
        server->samples[n++] =
            last; /* and stays at its own place, where the next one's rate begins */
    }
    server->n_samples = thinned->n_cores_most = thinned->n_switches_most_per_s = n;
    coord_message_free(server->samples_thinned);
    server->samples_thinned = thinned;
    return LS_OK;
}

/* ---- both */

static uint32_t share(size_t n, unsigned points)
{
    return (uint32_t)((n + points - 1) / points);
}

enum ls_err coord_series_thin(Ls__Trial *trial, unsigned points)
{
    Ls__Server *server = trial->server;
    enum ls_err rc = LS_OK;

    if (trial->n_intervals > points)
        rc = coord_series_thin_intervals(trial, share(trial->n_intervals, points));
    if (rc == LS_OK && server != NULL && server->n_samples > (size_t)points + 1)
        rc = coord_series_thin_samples(server, share(server->n_samples - 1, points));
    return rc;
}
