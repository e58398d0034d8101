#include "coordinator/run/profile.h"

#include <math.h>

#include "coordinator/result/message.h"

#define RECOVERED      0.5 /* of what is left after the fall: held for so long at the end */
#define ANSWERED_LEAST 0.5 /* of what was due: less is no server that holds anything */

static const double step_shares[COORD_PROFILE_STEP_COUNT] = { 0.5, 0.8, 1.0, 1.2, 1.5,
                                                              1.2, 1.0, 0.8, 0.5 };
static const double burst_shares[COORD_PROFILE_BURST_COUNT] = { 1.1, 1.25, 1.5, 2, 3 };

double coord_profile_step(size_t i)
{
    return step_shares[i];
}

double coord_profile_burst(size_t i)
{
    return burst_shares[i];
}

/* What became due and what ended in [from, to), and what of that broke the limit. */
struct sum {
    double due;
    double ended;
    double breaking;
    double ok;
    double shed; /* at the most: what became due and has not ended, of a trial that shed */
};

static void add_interval(const struct coord_profile_spec *spec, const Ls__Interval *interval,
                         struct sum *sum)
{
    double slower = spec->limit < interval->n_slower ? (double)interval->slower[spec->limit] : 0;
    double ended = (double)interval->completed + (double)interval->errors;

    sum->due += (double)interval->scheduled;
    sum->ok += (double)interval->completed;
    sum->ended += ended;
    sum->breaking += fmin(slower + (double)interval->errors, ended);
}

/* Intervals do not say when something was shed. */
static double shed_of(const Ls__Trial *trial, const struct sum *sum)
{
    double shed = trial->requests != NULL ? (double)trial->requests->shed : 0;

    return fmin(shed, fmax(0, sum->due - sum->ended));
}

static struct sum sum_of(const struct coord_profile_spec *spec, const Ls__Trial *trial,
                         int64_t from_ns, int64_t to_ns)
{
    struct sum sum = { 0 };

    for (size_t i = 0; i < trial->n_intervals; i++) {
        const Ls__Interval *interval = trial->intervals[i];

        if (interval->at_ns >= from_ns && interval->at_ns < to_ns)
            add_interval(spec, interval, &sum);
    }
    sum.shed = shed_of(trial, &sum);
    return sum;
}

/* What was shed has broken every limit. Nothing of what was due has ended: all of it is too late.
 */
static double share_of(const struct sum *sum)
{
    double all = sum->ended + sum->shed;

    return all > 0 ? (sum->breaking + sum->shed) / all : sum->due > 0 ? 1 : 0;
}

/* A server that hangs breaks nothing, for nothing ends. */
static bool holds(const struct coord_profile_spec *spec, const struct sum *sum, double share)
{
    return sum->ended > 0 && sum->ended >= ANSWERED_LEAST * sum->due &&
           share <= spec->allowed_share;
}

/* ---- up and down */

static bool fill_steps(const struct coord_profile_spec *spec, const Ls__Trial *trial,
                       Ls__CapacityProfile *out)
{
    double seconds = (double)spec->step_ns / 1e9;

    for (size_t i = 0; i < COORD_PROFILE_STEP_COUNT; i++) {
        int64_t at_ns = (int64_t)i * spec->step_ns;
        struct sum sum = sum_of(spec, trial, at_ns, at_ns + spec->step_ns);
        Ls__ProfileStep *step =
            coord_message_append(&out->n_steps, &out->steps, &ls__profile_step__descriptor);

        if (step == NULL)
            return false;
        step->rate_per_s = step_shares[i] * spec->capacity_per_s;
        step->down = i > 0 && step_shares[i - 1] > step_shares[i];
        step->at_ns = at_ns;
        step->length_ns = spec->step_ns;
        step->throughput_per_s = sum.ok / seconds;
        step->good_per_s = (sum.ended - sum.breaking) / seconds;
        step->share = share_of(&sum);
    }
    return true;
}

/* Good answers that the same rate gave on the way up, and not on the way down. */
static void find_hysteresis(Ls__CapacityProfile *out)
{
    for (size_t up = 0; up < out->n_steps; up++) {
        for (size_t down = up + 1; down < out->n_steps; down++) {
            const Ls__ProfileStep *a = out->steps[up], *b = out->steps[down];

            if (!a->down && b->down && fabs(a->rate_per_s - b->rate_per_s) < 1e-6 * a->rate_per_s)
                out->hysteresis =
                    fmax(out->hysteresis, (a->good_per_s - b->good_per_s) / a->rate_per_s);
        }
    }
}

/* From when on, of what is left until the end, no more than allowed breaks the limit. */
static void find_recovery(const struct coord_profile_spec *spec, const Ls__Trial *trial,
                          int64_t fall_ns, Ls__CapacityProfile *out)
{
    int64_t end_ns = COORD_PROFILE_STEP_COUNT * spec->step_ns, since_ns = end_ns;
    struct sum sum = { 0 };

    for (size_t i = trial->n_intervals; i-- > 0;) {
        const Ls__Interval *interval = trial->intervals[i];

        if (interval->at_ns >= end_ns || interval->at_ns < fall_ns)
            continue;
        add_interval(spec, interval, &sum);
        sum.shed = shed_of(trial, &sum);
        if (holds(spec, &sum, share_of(&sum)))
            since_ns = interval->at_ns;
    }
    out->recovered = end_ns - since_ns >= (int64_t)(RECOVERED * (double)(end_ns - fall_ns));
    out->recovery_ns = since_ns - fall_ns;
}

bool coord_profile_read_steps(const struct coord_profile_spec *spec, const Ls__Trial *trial,
                              Ls__CapacityProfile *out)
{
    size_t below = COORD_PROFILE_STEP_COUNT; /* the first step of the end below the capacity */

    while (below > 0 && step_shares[below - 1] < 1)
        below--;
    if (!fill_steps(spec, trial, out))
        return false;
    find_hysteresis(out);
    out->recovery_rate_per_s = step_shares[below] * spec->capacity_per_s;
    find_recovery(spec, trial, (int64_t)below * spec->step_ns, out);
    return true;
}

/* ---- bursts */

bool coord_profile_read_bursts(const struct coord_profile_spec *spec, const Ls__Trial *trial,
                               Ls__CapacityProfile *out)
{
    bool all_held = true;

    for (size_t i = 0; i < COORD_PROFILE_BURST_COUNT; i++) {
        double rate = burst_shares[i] * spec->capacity_per_s;
        int64_t at_ns =
            COORD_PROFILE_REST_NS + (int64_t)i * (COORD_PROFILE_BURST_NS + COORD_PROFILE_REST_NS);
        struct sum sum =
            sum_of(spec, trial, at_ns, at_ns + COORD_PROFILE_BURST_NS + COORD_PROFILE_REST_NS);
        Ls__ProfileBurst *burst =
            coord_message_append(&out->n_bursts, &out->bursts, &ls__profile_burst__descriptor);

        if (burst == NULL)
            return false;
        burst->rate_per_s = rate;
        burst->share =
            fmin(1, (sum.breaking + sum.shed) / (rate * (double)COORD_PROFILE_BURST_NS / 1e9));
        burst->holds = holds(spec, &sum, burst->share);
        all_held = all_held && burst->holds;
        if (all_held)
            out->burst_per_s = rate;
    }
    return true;
}
