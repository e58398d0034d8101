/* A trial that looks for the largest rate at which limits hold: its probes are trials of their own,
 * each with a folder, and the one that confirms the answer becomes the trial of the result. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/units.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/result/message.h"
#include "coordinator/run/capacity.h"
#include "coordinator/run/capacity_result.h"
#include "coordinator/run/fill.h"
#include "coordinator/run/run_internal.h"
#include "coordinator/run/verdict.h"

#define ABOVE_SHARE      0.10               /* the second confirmation's rate, above the first's */
#define PROBE_TIMEOUT_NS INT64_C(500000000) /* at least, and several times the largest limit */
#define TIMEOUT_FACTOR   10
#define INTERVAL_MIN_NS  INT64_C(50000000)

struct search {
    struct run *r;
    const struct coord_trial *trial;
    const Ls__Capacity *plan;
    struct coord_load_limit limits[COORD_LOAD_LIMITS_MAX];
    struct coord_capacity_limit allowed[COORD_LOAD_LIMITS_MAX];
    int64_t limits_ns[COORD_LOAD_LIMITS_MAX];
    size_t limit_count;
    struct coord_capacity *capacity; /* owned */
    Ls__CapacityResult *result;      /* owned */
    Ls__Trial *kept;                 /* owned: what confirms the answer, or the latest probe */
    bool kept_is_confirmation;
    int64_t began_ns;
};

/* ---- one probe's load */

static int64_t largest_limit(const struct search *s)
{
    int64_t most = 0;

    for (size_t i = 0; i < s->limit_count; i++) {
        if (s->limits_ns[i] != INT64_MAX && s->limits_ns[i] > most)
            most = s->limits_ns[i];
    }
    return most;
}

/* What takes ten times as long as any limit has broken them all; to wait for more would only make
 * the drain after an overload longer. */
static int64_t timeout_of(const struct search *s)
{
    int64_t ns = largest_limit(s) * TIMEOUT_FACTOR, asked = s->trial->workload->timeout->ns;

    ns = ns > PROBE_TIMEOUT_NS ? ns : PROBE_TIMEOUT_NS;
    return ns < asked ? ns : asked;
}

static int64_t interval_of(int64_t window_ns)
{
    int64_t ns = window_ns / COORD_CAPACITY_BATCHES;

    return ns > INTERVAL_MIN_NS ? ns : INTERVAL_MIN_NS;
}

static void make_load(const struct search *s, const struct coord_capacity_probe *probe,
                      struct run_load *p)
{
    run_load_init(p, s->trial->workload, probe->window_ns, interval_of(probe->window_ns),
                  timeout_of(s));
    p->rate.per_s = probe->rate_per_s;
    if (s->plan->arrivals == LS__ARRIVALS__ARRIVALS_CONSTANT) {
        ls__constant__init(&p->law.constant);
        p->law.constant.rate = &p->rate;
        p->law.constant.has_queue = 1;
        p->law.constant.queue = s->plan->queue;
        p->load.law_case = LS__LOAD__LAW_CONSTANT;
        p->load.constant = &p->law.constant;
    } else {
        ls__poisson__init(&p->law.poisson);
        p->law.poisson.rate = &p->rate;
        p->law.poisson.has_queue = 1;
        p->law.poisson.queue = s->plan->queue;
        p->load.law_case = LS__LOAD__LAW_POISSON;
        p->load.poisson = &p->law.poisson;
    }
}

/* ---- what it came to */

/* Where the capacity is, as far as is known: nothing at first. Returns out. */
static const char *say_bounds(const struct search *s, char *out, size_t out_bytes)
{
    struct coord_capacity_answer answer;
    char low[48], high[48];

    coord_capacity_answer(s->capacity, &answer);
    (void)ls_human_count(answer.low_per_s, low, sizeof(low));
    (void)ls_human_count(isfinite(answer.high_per_s) ? answer.high_per_s : 0, high, sizeof(high));
    out[0] = '\0';
    if (answer.low_per_s > 0 && isfinite(answer.high_per_s))
        (void)snprintf(out, out_bytes, "; the capacity is from %s/s to %s/s", low, high);
    else if (answer.low_per_s > 0)
        (void)snprintf(out, out_bytes, "; the capacity is %s/s or more", low);
    else if (isfinite(answer.high_per_s))
        (void)snprintf(out, out_bytes, "; the capacity is below %s/s", high);
    return out;
}

static void say_probe(const struct search *s)
{
    const Ls__CapacityProbe *probe = s->result->probes[s->result->n_probes - 1];
    char rate[48], p99[48], by[48] = "", bounds[128];

    (void)ls_human_count(probe->rate_per_s, rate, sizeof(rate));
    if (s->r->clients > 1)
        (void)snprintf(by, sizeof(by), " by %zu of %u clients", probe->n_clients, s->r->clients);
    if (strcmp(probe->finding, "useless") == 0) {
        bool client = strcmp(probe->limited_by, "client") == 0;

        coord_progress_note(s->r->progress, "%s at %s/s%s: %s: %.200s", probe->kind, rate, by,
                            client ? "the clients were the limit" : "not measured",
                            client ? probe->limited_why : probe->why);
        return;
    }
    coord_progress_note(s->r->progress, "%s at %s/s%s: %s (%.3g %% beyond %s, p99 %s)%s",
                        probe->kind, rate, by, probe->finding, probe->share * 100, probe->limit,
                        ls_human_duration((double)probe->p99_ns, p99, sizeof(p99)),
                        say_bounds(s, bounds, sizeof(bounds)));
}

/* What confirms the answer as it is now stands for the search; where nothing does, the latest
 * probe.
 */
static void keep(struct search *s, uint32_t index, Ls__Trial *trial)
{
    struct coord_capacity_answer answer;
    bool confirmation;

    coord_capacity_answer(s->capacity, &answer);
    confirmation = answer.confirmed && answer.confirmed_at == index;
    if (s->kept_is_confirmation && answer.confirmed && !confirmation) {
        ls__trial__free_unpacked(trial, NULL);
        return;
    }
    if (s->kept != NULL)
        ls__trial__free_unpacked(s->kept, NULL);
    s->kept = trial;
    s->kept_is_confirmation = confirmation;
}

/* A server that all probes share is left in peace between two of them. False: interrupted. */
static bool settle(struct search *s)
{
    int64_t due_ns = ls_clock_mono_ns() + (s->plan->settle != NULL ? s->plan->settle->ns : 0);

    while (s->plan->settle != NULL && ls_clock_mono_ns() < due_ns && !s->r->interrupted)
        run_pump(s->r, due_ns);
    return !s->r->interrupted;
}

/* *out_goes_on is false when the run was interrupted: nothing is kept of the trial then. */
static enum ls_err run_probe(struct search *s, const struct coord_capacity_probe *probe,
                             bool *out_goes_on, struct ls_diag *diag)
{
    int64_t began_ns = ls_clock_mono_ns();
    struct coord_capacity_watched watched;
    struct coord_cause cause;
    struct run_load load;
    Ls__Trial *measured = NULL;
    enum ls_err rc;

    make_load(s, probe, &load);
    *out_goes_on = probe->index == 0 || settle(s);
    if (!*out_goes_on)
        return LS_OK;
    s->r->clients_used = probe->hosts;
    rc = run_part(s->r, s->trial, &load.workload, "probe", probe->index + 1, &measured, diag);
    *out_goes_on = measured != NULL;
    if (rc != LS_OK || measured == NULL)
        return rc;
    run_part_cause(s->r, s->trial, measured, s->limits, s->limit_count, &cause);
    watched = (struct coord_capacity_watched){ .limited_by = coord_limited_by_name(cause.by),
                                               .limited_why = cause.why,
                                               .took_ns = ls_clock_mono_ns() - began_ns };
    rc = coord_capacity_result_take(s->result, s->capacity, &watched, measured, diag);
    if (rc == LS_OK)
        say_probe(s);
    keep(s, probe->index, measured);
    return rc;
}

/* ---- the whole */

static enum ls_err begin(struct search *s, struct ls_diag *diag)
{
    const Ls__Capacity *plan = s->plan;
    struct coord_capacity_settings settings = {
        .limits = s->allowed,
        .first_per_s = plan->start->per_s,
        .least_per_s = plan->least->per_s,
        .most_per_s = plan->most->per_s,
        .precision = plan->precision->of_one,
        .budget_ns = plan->budget->ns - coord_load_profile_ns(s->trial->workload),
        .probe_ns = plan->probe->ns,
        .probe_most_ns = plan->longest_probe->ns,
        .confirm_ns = plan->confirm->ns,
        .overhead_ns = COORD_TRIAL_OVERHEAD_NS + s->trial->workload->warmup->ns +
                       (plan->settle != NULL ? plan->settle->ns : 0),
        .above = ABOVE_SHARE,
        .seed = s->r->options->trials->seed + s->trial->index,
        .hosts = s->r->clients,
        .all_hosts = plan->hosts == LS__CLIENT_HOSTS__CLIENT_HOSTS_ALL,
    };

    s->limit_count = coord_load_limits(plan->limits, s->limits);
    for (size_t i = 0; i < s->limit_count; i++) {
        s->allowed[i] = (struct coord_capacity_limit){
            .name = s->limits[i].name,
            .allowed_share = s->limits[i].allowed_share,
            .limit_ns = s->limits[i].limit_ns < INT64_MAX ? s->limits[i].limit_ns : 0,
            .coarse = s->limits[i].limit_ns == INT64_MAX
        };
        s->limits_ns[i] = s->limits[i].limit_ns;
    }
    settings.limit_count = s->limit_count;
    s->began_ns = ls_clock_mono_ns();
    s->result = coord_message_new(&ls__capacity_result__descriptor);
    if (s->result == NULL || !coord_capacity_result_begin(s->result, &settings))
        return ls_fail(diag, LS_ENOMEM, "no memory for a search");
    return coord_capacity_create(&settings, &s->capacity, diag);
}

static const char *server_state(const struct search *s)
{
    if (s->trial->target->external)
        return "external";
    return s->plan->server == LS__SERVER_STATE__SERVER_STATE_SETTLED ? "settled" : "fresh";
}

/* A client that came late made response times longer. Where the limits held all the same, that
 * takes nothing from the answer. */
static void pardon_lateness(struct search *s)
{
    static const char *const codes[] = { "send_lag", "read_delay", "generator_stalled",
                                         "client_foreign_cpu" };
    Ls__Verdict worst = LS__VERDICT__VERDICT_VALID;

    if (!s->kept_is_confirmation || !coord_limits_hold(s->kept, s->limits, s->limit_count))
        return;
    for (size_t i = 0; i < s->kept->n_reasons; i++) {
        Ls__Reason *reason = s->kept->reasons[i];

        for (size_t k = 0; k < LS_ARRAY_LEN(codes); k++) {
            if (strcmp(reason->code, codes[k]) == 0)
                reason->verdict = LS__VERDICT__VERDICT_SUSPECT;
        }
        worst = reason->verdict > worst ? reason->verdict : worst;
    }
    s->kept->verdict = worst;
}

/* What the answer makes of the trial. */
static void judge(struct search *s, const struct coord_capacity_answer *answer)
{
    if (answer->limited_by == COORD_LIMITED_BY_CLIENT)
        coord_verdict_add(s->kept, "capacity_client_limited", LS__VERDICT__VERDICT_INVALID,
                          "the clients were the limit, so it is at least %.6g/s: %s (%.160s); give "
                          "them more CPUs (fleet.cpus.client) or add client hosts (fleet.clients, "
                          "%u now)",
                          answer->rate_per_s, answer->why, s->result->limited_why, s->r->clients);
    else if (!answer->found)
        coord_verdict_add(s->kept, "capacity_not_found", LS__VERDICT__VERDICT_INVALID, "%s",
                          answer->why);
    else if (!answer->settled)
        coord_verdict_add(s->kept, "capacity_unsettled", LS__VERDICT__VERDICT_SUSPECT,
                          "the capacity is not settled: %s", answer->why);
}

static enum ls_err finish(struct search *s, struct ls_diag *diag)
{
    struct coord_capacity_answer answer;

    coord_capacity_answer(s->capacity, &answer);
    s->result->took_ns = ls_clock_mono_ns() - s->began_ns;
    if (!coord_capacity_result_answer(s->result, s->capacity) ||
        !coord_message_string(&s->result->server, server_state(s)))
        return ls_fail(diag, LS_ENOMEM, "no memory for a search's result");
    pardon_lateness(s);
    judge(s, &answer);
    s->r->invalid |= s->kept->verdict == LS__VERDICT__VERDICT_INVALID;
    s->r->incomplete |= strcmp(s->kept->status, "done") != 0;
    s->kept->capacity = s->result;
    s->result = NULL;
    return LS_OK;
}

/* Beyond the capacity, if there is one and the plan wants to know. */
static enum ls_err profile(struct search *s, bool *goes_on, struct ls_diag *diag)
{
    const struct coord_capacity_point *points;
    size_t n = coord_capacity_points(s->capacity, &points);
    struct coord_capacity_answer answer;
    struct run_profile_spec spec = { .trial = s->trial,
                                     .limits = s->limits,
                                     .limit_count = s->limit_count,
                                     .timeout_ns = timeout_of(s) };

    coord_capacity_answer(s->capacity, &answer);
    if (!s->plan->profile || !answer.found || answer.limited_by == COORD_LIMITED_BY_CLIENT)
        return LS_OK;
    spec.capacity_per_s = answer.rate_per_s;
    for (size_t i = 0; i < n; i++) {
        if (points[i].verdict == COORD_BREAKS)
            spec.limit = points[i].limit;
    }
    return run_profile(s->r, &spec, &s->result->profile, goes_on, diag);
}

static enum ls_err search(struct search *s, struct ls_diag *diag)
{
    char law[COORD_LAW_TEXT_MAX];
    struct coord_capacity_probe probe;
    bool goes_on = true;
    enum ls_err rc = begin(s, diag);

    s->r->keep_server = s->plan->server == LS__SERVER_STATE__SERVER_STATE_SETTLED;
    s->r->limits_ns = s->limits_ns;
    s->r->limit_count = s->limit_count;
    while (rc == LS_OK && goes_on && coord_capacity_next(s->capacity, &probe))
        rc = run_probe(s, &probe, &goes_on, diag);
    s->r->clients_used = s->r->clients; /* beyond the capacity all of them may be needed */
    if (rc == LS_OK && goes_on)
        rc = profile(s, &goes_on, diag);
    s->r->keep_server = false;
    s->r->limits_ns = NULL;
    s->r->limit_count = 0;
    if (rc != LS_OK || !goes_on || s->kept == NULL)
        return rc;
    rc = finish(s, diag);
    if (rc == LS_OK)
        rc = coord_fill_text(&s->kept->load, coord_load_describe(s->trial->workload, law));
    return rc;
}

enum ls_err run_search(struct run *r, const struct coord_trial *trial, Ls__Trial **out_trial,
                       struct ls_diag *diag)
{
    struct search s = { .r = r, .trial = trial, .plan = trial->workload->load->capacity };
    enum ls_err rc = search(&s, diag);

    *out_trial = NULL;
    if (rc == LS_OK && s.kept != NULL && s.kept->capacity != NULL) {
        *out_trial = s.kept;
        s.kept = NULL;
    }
    if (s.kept != NULL)
        ls__trial__free_unpacked(s.kept, NULL);
    coord_message_free(s.result);
    coord_capacity_destroy(s.capacity);
    return rc;
}
