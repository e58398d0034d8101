/* What happens beyond the capacity that a search has found: rates up and down, and bursts, each set
 * one trial on one server, read from its intervals. A request counts where it ended. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/units.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/result/message.h"
#include "coordinator/run/run_internal.h"

#define INTERVAL_NS                                                              \
    INT64_C(50000000) /* of which burst, rest and steps are multiples, or nearly \
                       */
#define PIECES_MAX (2 * COORD_PROFILE_BURST_COUNT + COORD_PROFILE_STEP_COUNT + 1)
#define RECOVERED  0.5 /* of the last steps: held for so long at the end */

static const double step_shares[COORD_PROFILE_STEP_COUNT] = COORD_PROFILE_STEPS;
static const double burst_shares[COORD_PROFILE_BURST_COUNT] = COORD_PROFILE_BURSTS;

struct profile {
    struct run *r;
    const struct run_profile_spec *spec;
    Ls__CapacityProfile *out;
    bool goes_on;
};

/* A trace of rates, piece after piece. */
struct script {
    Ls__TracePoint points[PIECES_MAX];
    Ls__TracePoint *pointers[PIECES_MAX];
    Ls__Duration at[PIECES_MAX];
    Ls__Rate rates[PIECES_MAX];
    size_t count;
    int64_t length_ns;
};

static double allowed(const struct profile *p)
{
    return p->spec->limits[p->spec->limit].allowed_share;
}

static void script_add(struct script *s, double rate_per_s, int64_t length_ns)
{
    size_t i = s->count++;

    ls__trace_point__init(&s->points[i]);
    ls__duration__init(&s->at[i]);
    ls__rate__init(&s->rates[i]);
    s->at[i].ns = s->length_ns;
    s->rates[i].per_s = rate_per_s;
    s->points[i].at = &s->at[i];
    s->points[i].rate = &s->rates[i];
    s->pointers[i] = &s->points[i];
    s->length_ns += length_ns;
}

static enum ls_err play(struct profile *p, struct script *script, uint32_t number,
                        Ls__Trial **out_trial, struct ls_diag *diag)
{
    struct run_load load;
    enum ls_err rc;

    run_load_init(&load, p->spec->trial->workload, script->length_ns, INTERVAL_NS,
                  p->spec->timeout_ns);
    ls__trace__init(&load.law.trace);
    load.law.trace.points = script->pointers;
    load.law.trace.n_points = script->count;
    load.law.trace.has_queue = load.law.trace.has_scale = 1;
    load.law.trace.queue = p->spec->trial->workload->load->capacity->queue;
    load.load.law_case = LS__LOAD__LAW_TRACE;
    load.load.trace = &load.law.trace;
    rc = run_part(p->r, p->spec->trial, &load.workload, "profile", number, out_trial, diag);
    p->goes_on = *out_trial != NULL;
    return rc;
}

/* What ended in [from, to), and what of it broke the limit. */
struct sum {
    double ended;
    double breaking;
    double ok;
};

static void add_interval(const struct profile *p, const Ls__Interval *interval, struct sum *sum)
{
    double slower =
        p->spec->limit < interval->n_slower ? (double)interval->slower[p->spec->limit] : 0;
    double ended = (double)interval->completed + (double)interval->errors;

    sum->ok += (double)interval->completed;
    sum->ended += ended;
    sum->breaking += fmin(slower + (double)interval->errors, ended);
}

static struct sum sum_of(const struct profile *p, const Ls__Trial *trial, int64_t from_ns,
                         int64_t to_ns)
{
    struct sum sum = { 0 };

    for (size_t i = 0; i < trial->n_intervals; i++) {
        const Ls__Interval *interval = trial->intervals[i];

        if (interval->at_ns >= from_ns && interval->at_ns < to_ns)
            add_interval(p, interval, &sum);
    }
    return sum;
}

static double share_of(const struct sum *sum)
{
    return sum->ended > 0 ? sum->breaking / sum->ended : 0;
}

/* Is there anything to read? Says why not. */
static bool readable(struct profile *p, const Ls__Trial *trial, bool *out_ok)
{
    struct coord_cause cause;

    run_part_cause(p->r, p->spec->trial, trial, p->spec->limits, p->spec->limit_count, &cause);
    *out_ok = true;
    if (strcmp(trial->status, "done") == 0 && cause.by != COORD_LIMITED_BY_CLIENT)
        return true;
    *out_ok = coord_message_string(&p->out->why, cause.by == COORD_LIMITED_BY_CLIENT
                                                     ? cause.why
                                                     : "the trial did not get to its end");
    return false;
}

/* ---- up and down */

static bool fill_steps(struct profile *p, const Ls__Trial *trial, int64_t step_ns)
{
    double seconds = (double)step_ns / 1e9;

    for (size_t i = 0; i < COORD_PROFILE_STEP_COUNT; i++) {
        int64_t at_ns = (int64_t)i * step_ns;
        struct sum sum = sum_of(p, trial, at_ns, at_ns + step_ns);
        Ls__ProfileStep *step =
            coord_message_append(&p->out->n_steps, &p->out->steps, &ls__profile_step__descriptor);

        if (step == NULL)
            return false;
        step->rate_per_s = step_shares[i] * p->spec->capacity_per_s;
        step->down = i > 0 && step_shares[i - 1] > step_shares[i];
        step->at_ns = at_ns;
        step->length_ns = step_ns;
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
static void find_recovery(struct profile *p, const Ls__Trial *trial, int64_t fall_ns,
                          int64_t end_ns)
{
    int64_t since_ns = end_ns;
    struct sum sum = { 0 };

    for (size_t i = trial->n_intervals; i-- > 0;) {
        const Ls__Interval *interval = trial->intervals[i];

        if (interval->at_ns >= end_ns || interval->at_ns < fall_ns)
            continue;
        add_interval(p, interval, &sum);
        if (share_of(&sum) <= allowed(p))
            since_ns = interval->at_ns;
    }
    p->out->recovered = end_ns - since_ns >= (int64_t)(RECOVERED * (double)(end_ns - fall_ns));
    p->out->recovery_ns = since_ns - fall_ns;
}

static enum ls_err run_steps(struct profile *p, struct ls_diag *diag)
{
    int64_t step_ns = p->spec->trial->workload->load->capacity->profile_step->ns;
    struct script script = { 0 };
    Ls__Trial *trial = NULL;
    size_t below = COORD_PROFILE_STEP_COUNT - 1; /* the first step of the end below the capacity */
    bool ok;
    enum ls_err rc;

    for (size_t i = 0; i < COORD_PROFILE_STEP_COUNT; i++)
        script_add(&script, step_shares[i] * p->spec->capacity_per_s, step_ns);
    while (below > 0 && step_shares[below - 1] < 1)
        below--;
    rc = play(p, &script, 1, &trial, diag);
    if (rc != LS_OK || trial == NULL)
        return rc;
    if (readable(p, trial, &ok)) {
        ok = fill_steps(p, trial, step_ns);
        find_hysteresis(p->out);
        p->out->recovery_rate_per_s = step_shares[below] * p->spec->capacity_per_s;
        find_recovery(p, trial, (int64_t)below * step_ns, script.length_ns);
    }
    ok = ok && coord_message_string(&p->out->folder, trial->folder);
    ls__trial__free_unpacked(trial, NULL);
    return ok ? LS_OK : ls_fail(diag, LS_ENOMEM, "no memory for a search's profile");
}

/* ---- bursts */

/* What broke the limit in a burst and in the rest after it, which the backlog drains into, out of
 * what was due in the burst. */
static bool fill_bursts(struct profile *p, const Ls__Trial *trial)
{
    bool all_held = true;

    for (size_t i = 0; i < COORD_PROFILE_BURST_COUNT; i++) {
        double rate = burst_shares[i] * p->spec->capacity_per_s;
        int64_t at_ns =
            COORD_PROFILE_REST_NS + (int64_t)i * (COORD_PROFILE_BURST_NS + COORD_PROFILE_REST_NS);
        struct sum sum =
            sum_of(p, trial, at_ns, at_ns + COORD_PROFILE_BURST_NS + COORD_PROFILE_REST_NS);
        Ls__ProfileBurst *burst = coord_message_append(&p->out->n_bursts, &p->out->bursts,
                                                       &ls__profile_burst__descriptor);

        if (burst == NULL)
            return false;
        burst->rate_per_s = rate;
        burst->share = fmin(1, sum.breaking / (rate * (double)COORD_PROFILE_BURST_NS / 1e9));
        burst->holds = burst->share <= allowed(p);
        all_held = all_held && burst->holds;
        if (all_held)
            p->out->burst_per_s = rate;
    }
    return true;
}

static enum ls_err run_bursts(struct profile *p, struct ls_diag *diag)
{
    struct script script = { 0 };
    Ls__Trial *trial = NULL;
    bool ok;
    enum ls_err rc;

    for (size_t i = 0; i < COORD_PROFILE_BURST_COUNT; i++) {
        script_add(&script, COORD_PROFILE_REST * p->spec->capacity_per_s, COORD_PROFILE_REST_NS);
        script_add(&script, burst_shares[i] * p->spec->capacity_per_s, COORD_PROFILE_BURST_NS);
    }
    script_add(&script, COORD_PROFILE_REST * p->spec->capacity_per_s, COORD_PROFILE_REST_NS);
    rc = play(p, &script, 2, &trial, diag);
    if (rc != LS_OK || trial == NULL)
        return rc;
    p->out->burst_ns = COORD_PROFILE_BURST_NS;
    if (readable(p, trial, &ok))
        ok = fill_bursts(p, trial);
    ok = ok && coord_message_string(&p->out->bursts_folder, trial->folder);
    ls__trial__free_unpacked(trial, NULL);
    return ok ? LS_OK : ls_fail(diag, LS_ENOMEM, "no memory for a search's profile");
}

static void say(const struct profile *p)
{
    char recovery[48], burst[48];

    coord_progress_say(p->r->progress, "beyond it: %s %s after the rate fell again; bursts to %s/s",
                       p->out->recovered ? "recovered" : "not recovered",
                       ls_human_duration((double)p->out->recovery_ns, recovery, sizeof(recovery)),
                       ls_human_count(p->out->burst_per_s, burst, sizeof(burst)));
}

enum ls_err run_profile(struct run *r, const struct run_profile_spec *spec,
                        Ls__CapacityProfile **out_profile, bool *out_goes_on, struct ls_diag *diag)
{
    struct profile p = { .r = r, .spec = spec, .goes_on = true };
    enum ls_err rc;

    p.out = *out_profile = coord_message_new(&ls__capacity_profile__descriptor);
    if (p.out == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a search's profile");
    rc = run_steps(&p, diag);
    if (rc == LS_OK && p.goes_on)
        rc = run_bursts(&p, diag);
    *out_goes_on = p.goes_on;
    if (rc == LS_OK && p.goes_on)
        say(&p);
    return rc;
}
