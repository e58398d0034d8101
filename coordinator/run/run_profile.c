/* What happens beyond the capacity that a search has found: rates up and down, and bursts, each set
 * one trial on one server. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/units.h"
#include "coordinator/result/message.h"
#include "coordinator/run/profile.h"
#include "coordinator/run/run_internal.h"

/* Bursts, rests and, nearly, steps are multiples of it. */
#define INTERVAL_NS INT64_C(50000000)
#define PIECES_MAX  (2 * COORD_PROFILE_BURST_COUNT + COORD_PROFILE_STEP_COUNT + 1)

struct profile {
    struct run *r;
    const struct run_profile_spec *spec;
    struct coord_profile_spec how;
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

static enum ls_err run_steps(struct profile *p, struct ls_diag *diag)
{
    struct script script = { 0 };
    Ls__Trial *trial = NULL;
    bool ok;
    enum ls_err rc;

    for (size_t i = 0; i < COORD_PROFILE_STEP_COUNT; i++)
        script_add(&script, coord_profile_step(i) * p->how.capacity_per_s, p->how.step_ns);
    rc = play(p, &script, 1, &trial, diag);
    if (rc != LS_OK || trial == NULL)
        return rc;
    if (readable(p, trial, &ok))
        ok = coord_profile_read_steps(&p->how, trial, p->out);
    ok = ok && coord_message_string(&p->out->folder, trial->folder);
    ls__trial__free_unpacked(trial, NULL);
    return ok ? LS_OK : ls_fail(diag, LS_ENOMEM, "no memory for a search's profile");
}

static enum ls_err run_bursts(struct profile *p, struct ls_diag *diag)
{
    struct script script = { 0 };
    Ls__Trial *trial = NULL;
    bool ok;
    enum ls_err rc;

    for (size_t i = 0; i < COORD_PROFILE_BURST_COUNT; i++) {
        script_add(&script, COORD_PROFILE_REST * p->how.capacity_per_s, COORD_PROFILE_REST_NS);
        script_add(&script, coord_profile_burst(i) * p->how.capacity_per_s, COORD_PROFILE_BURST_NS);
    }
    script_add(&script, COORD_PROFILE_REST * p->how.capacity_per_s, COORD_PROFILE_REST_NS);
    rc = play(p, &script, 2, &trial, diag);
    if (rc != LS_OK || trial == NULL)
        return rc;
    p->out->burst_ns = COORD_PROFILE_BURST_NS;
    if (readable(p, trial, &ok))
        ok = coord_profile_read_bursts(&p->how, trial, p->out);
    ok = ok && coord_message_string(&p->out->bursts_folder, trial->folder);
    ls__trial__free_unpacked(trial, NULL);
    return ok ? LS_OK : ls_fail(diag, LS_ENOMEM, "no memory for a search's profile");
}

static void say(const struct profile *p)
{
    char recovery[48], burst[48];

    coord_progress_note(p->r->progress,
                        "beyond it: %s %s after the rate fell again; bursts to %s/s",
                        p->out->recovered ? "recovered" : "not recovered",
                        ls_human_duration((double)p->out->recovery_ns, recovery, sizeof(recovery)),
                        ls_human_count(p->out->burst_per_s, burst, sizeof(burst)));
}

enum ls_err run_profile(struct run *r, const struct run_profile_spec *spec,
                        Ls__CapacityProfile **out_profile, bool *out_goes_on, struct ls_diag *diag)
{
    struct profile p = { .r = r,
                         .spec = spec,
                         .how = { .capacity_per_s = spec->capacity_per_s,
                                  .limit = spec->limit,
                                  .allowed_share = spec->limits[spec->limit].allowed_share,
                                  .step_ns =
                                      spec->trial->workload->load->capacity->profile_step->ns },
                         .goes_on = true };
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
