#include "coordinator/run/capacity_result.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "coordinator/result/message.h"
#include "coordinator/run/capacity_probe.h"
#include "coordinator/run/fill.h"
#include "coordinator/run/knee.h"
#include "coordinator/run/limited_by.h"

static const char *finding_name(enum coord_capacity_verdict verdict)
{
    static const char *const names[] = { "holds", "breaks", "unclear", "useless" };

    static_assert(LS_ARRAY_LEN(names) == COORD_CAPACITY_VERDICT_COUNT, "a name for each");
    return names[verdict];
}

/* ---- what it was given */

static bool keep_limit(Ls__CapacityResult *result, const struct coord_capacity_limit *limit)
{
    Ls__CapacitySettings *kept = result->settings;
    char **names = realloc(result->limits, (result->n_limits + 1) * sizeof(*names));
    Ls__CapacityAllowed *to;

    if (names == NULL)
        return false;
    result->limits = names;
    names[result->n_limits] = strdup(limit->name);
    if (names[result->n_limits] == NULL)
        return false;
    result->n_limits++;
    to = coord_message_append(&kept->n_allowed, &kept->allowed, &ls__capacity_allowed__descriptor);
    if (to == NULL)
        return false;
    to->share = limit->allowed_share;
    to->limit_ns = limit->limit_ns;
    to->coarse = limit->coarse;
    return true;
}

bool coord_capacity_result_begin(Ls__CapacityResult *result,
                                 const struct coord_capacity_settings *settings)
{
    Ls__CapacitySettings *kept = coord_message_new(&ls__capacity_settings__descriptor);

    result->settings = kept;
    if (kept == NULL)
        return false;
    kept->first_per_s = settings->first_per_s;
    kept->least_per_s = settings->least_per_s;
    kept->most_per_s = settings->most_per_s;
    kept->precision = settings->precision;
    kept->budget_ns = settings->budget_ns;
    kept->probe_ns = settings->probe_ns;
    kept->probe_most_ns = settings->probe_most_ns;
    kept->confirm_ns = settings->confirm_ns;
    kept->overhead_ns = settings->overhead_ns;
    kept->above = settings->above;
    kept->seed = settings->seed;
    kept->all_hosts = settings->all_hosts;
    result->clients = settings->hosts;
    for (size_t i = 0; i < settings->limit_count; i++) {
        if (!keep_limit(result, &settings->limits[i]))
            return false;
    }
    return true;
}

/* False: there is not all of it. limits has room for COORD_CAPACITY_LIMITS_MAX; names are the
 * message's. */
static bool settings_of(const Ls__CapacityResult *result, struct coord_capacity_limit *limits,
                        struct coord_capacity_settings *out)
{
    const Ls__CapacitySettings *kept = result->settings;

    if (kept == NULL || kept->n_allowed > COORD_CAPACITY_LIMITS_MAX ||
        kept->n_allowed != result->n_limits)
        return false;
    for (size_t i = 0; i < kept->n_allowed; i++)
        limits[i] = (struct coord_capacity_limit){ .name = result->limits[i],
                                                   .allowed_share = kept->allowed[i]->share,
                                                   .limit_ns = kept->allowed[i]->limit_ns,
                                                   .coarse = kept->allowed[i]->coarse };
    *out = (struct coord_capacity_settings){ .limits = limits,
                                             .limit_count = kept->n_allowed,
                                             .first_per_s = kept->first_per_s,
                                             .least_per_s = kept->least_per_s,
                                             .most_per_s = kept->most_per_s,
                                             .precision = kept->precision,
                                             .budget_ns = kept->budget_ns,
                                             .probe_ns = kept->probe_ns,
                                             .probe_most_ns = kept->probe_most_ns,
                                             .confirm_ns = kept->confirm_ns,
                                             .overhead_ns = kept->overhead_ns,
                                             .above = kept->above,
                                             .seed = kept->seed,
                                             .hosts = result->clients,
                                             .all_hosts = kept->all_hosts };
    return true;
}

/* ---- what was seen */

static enum coord_limited_by limited_by_of(const char *name)
{
    for (unsigned by = 0; by < COORD_LIMITED_BY_COUNT; by++) {
        if (strcmp(name, coord_limited_by_name((enum coord_limited_by)by)) == 0)
            return (enum coord_limited_by)by;
    }
    return COORD_LIMITED_BY_UNKNOWN;
}

static enum ls_err report(struct coord_capacity *capacity, const Ls__CapacityResult *result,
                          const struct coord_capacity_watched *watched, const Ls__Trial *trial,
                          struct ls_diag *diag)
{
    struct coord_capacity_batch *batches = calloc(trial->n_intervals + 1, sizeof(*batches));
    struct coord_capacity_seen seen = { .batches = batches,
                                        .batch_count = trial->n_intervals,
                                        .limited_by = limited_by_of(watched->limited_by),
                                        .took_ns = watched->took_ns,
                                        .host_per_s = coord_capacity_probe_host_per_s(trial),
                                        .why = coord_capacity_probe_why(trial) };
    enum ls_err rc;

    if (batches == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the batches of a probe");
    if (trial->loop_lag != NULL)
        seen.client_late_ns = trial->loop_lag->max_ns;
    seen.died = strcmp(trial->status, "done") != 0 || trial->requests == NULL ||
                coord_trial_reason(trial, "target_died", LS__VERDICT__VERDICT_INVALID) != NULL;
    if (!seen.died)
        coord_capacity_probe_batches(trial, result->n_limits, batches);
    rc = coord_capacity_report(capacity, &seen, diag);
    free(batches);
    return rc;
}

/* Every new probe changes what the others are worth. */
static bool update_findings(Ls__CapacityResult *result, const struct coord_capacity_point *points)
{
    for (size_t i = 0; i < result->n_probes; i++) {
        Ls__CapacityProbe *probe = result->probes[i];

        probe->share = points[i].share;
        probe->share_error = points[i].share_error;
        if (!coord_message_string(&probe->finding, finding_name(points[i].verdict)) ||
            !coord_message_string(&probe->limit, result->limits[points[i].limit]))
            return false;
    }
    return true;
}

/* Instead of what the trial's verdict was. */
static bool say_stood(Ls__CapacityProbe *probe, int64_t late_ns)
{
    char late[48], why[96];

    (void)snprintf(why, sizeof(why), "a client stood still for %s: it is made again",
                   ls_human_duration((double)late_ns, late, sizeof(late)));
    return coord_message_string(&probe->why, why);
}

enum ls_err coord_capacity_result_take(Ls__CapacityResult *result, struct coord_capacity *capacity,
                                       const struct coord_capacity_watched *watched,
                                       const Ls__Trial *trial, struct ls_diag *diag)
{
    const struct coord_capacity_point *points, *point;
    Ls__CapacityProbe *probe;
    enum ls_err rc = report(capacity, result, watched, trial, diag);

    if (rc != LS_OK)
        return rc;
    probe =
        coord_message_append(&result->n_probes, &result->probes, &ls__capacity_probe__descriptor);
    if (probe == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a probe's result");
    (void)coord_capacity_points(capacity, &points);
    point = &points[result->n_probes - 1];
    probe->rate_per_s = point->probe.rate_per_s;
    probe->window_ns = point->probe.window_ns;
    probe->took_ns = watched->took_ns;
    if (!coord_message_string(&probe->kind, coord_capacity_kind_name(point->probe.kind)) ||
        !coord_message_string(&probe->limited_by, coord_limited_by_name(point->limited_by)) ||
        !coord_message_string(&probe->limited_why, watched->limited_why) ||
        !update_findings(result, points) ||
        !coord_capacity_probe_fill(probe, trial, point->limit) ||
        (point->client_late_ns > 0 && !say_stood(probe, point->client_late_ns)))
        return ls_fail(diag, LS_ENOMEM, "no memory for a probe's result");
    return LS_OK;
}

/* ---- what it comes to */

/* Of the latest probe that the answer agrees with, one that broke a limit if there is any; nothing:
 * of no probe in particular. */
static const char *cause_of(const Ls__CapacityResult *result)
{
    const char *cause = "";
    bool broke = false;

    for (size_t i = 0; i < result->n_probes; i++) {
        const Ls__CapacityProbe *probe = result->probes[i];
        bool breaks = strcmp(probe->finding, "breaks") == 0;

        if (strcmp(probe->limited_by, result->limited_by) != 0 || (broke && !breaks))
            continue;
        cause = probe->limited_why;
        broke = breaks;
    }
    return cause;
}

/* Latency over the rate, up to where the limits break: an overload would dwarf all else. */
static bool fill_knee(Ls__CapacityResult *result, const struct coord_capacity_answer *answer)
{
    struct coord_knee_point *curve = calloc(result->n_probes + 1, sizeof(*curve));
    double most = isfinite(answer->high_per_s) ? answer->high_per_s : answer->rate_per_s;
    struct coord_knee found;
    size_t n = 0;
    bool ok;

    for (size_t i = 0; curve != NULL && i < result->n_probes; i++) {
        const Ls__CapacityProbe *probe = result->probes[i];

        if (strcmp(probe->finding, "useless") != 0 && probe->p99_ns > 0 &&
            probe->rate_per_s <= most)
            curve[n++] = (struct coord_knee_point){ probe->rate_per_s, (double)probe->p99_ns };
    }
    ok = curve != NULL;
    if (ok && coord_knee_find(curve, n, COORD_KNEE_EXPLODES, &found)) {
        result->knee = coord_fill_knee(&found);
        ok = result->knee != NULL;
    }
    free(curve);
    return ok;
}

bool coord_capacity_result_answer(Ls__CapacityResult *result, const struct coord_capacity *capacity)
{
    struct coord_capacity_answer answer;

    coord_capacity_answer(capacity, &answer);
    result->rate_per_s = answer.rate_per_s;
    result->low_per_s = answer.low_per_s;
    result->high_per_s = isfinite(answer.high_per_s) ? answer.high_per_s : 0;
    result->settled = answer.settled;
    result->clients_used = answer.hosts;
    return coord_message_string(&result->why, answer.why) &&
           coord_message_string(&result->limited_by, coord_limited_by_name(answer.limited_by)) &&
           coord_message_string(&result->limited_why, cause_of(result)) &&
           fill_knee(result, &answer);
}

/* ---- once more */

struct again {
    const Ls__CapacityResult *kept;
    Ls__CapacityResult *result;
    struct coord_capacity *capacity;
    coord_probe_trial *trial_of;
    void *ctx;
};

static enum ls_err probe_again(struct again *a, const Ls__CapacityProbe *from, struct ls_diag *diag)
{
    const struct coord_capacity_watched watched = { .limited_by = from->limited_by,
                                                    .limited_why = from->limited_why,
                                                    .took_ns = from->took_ns };
    Ls__Trial *trial = a->trial_of(a->ctx, from);
    enum ls_err rc;

    if (trial == NULL)
        return ls_fail(diag, LS_EPROTO, "the trial of one of its probes cannot be read");
    rc = coord_capacity_result_take(a->result, a->capacity, &watched, trial, diag);
    coord_message_free(trial);
    return rc;
}

static enum ls_err all_again(struct again *a, struct ls_diag *diag)
{
    struct coord_capacity_limit limits[COORD_CAPACITY_LIMITS_MAX];
    struct coord_capacity_settings settings;
    struct coord_capacity_probe next;
    enum ls_err rc;

    if (!settings_of(a->kept, limits, &settings))
        return ls_fail(diag, LS_EPROTO, "what it was given is not there, or not whole");
    if (!coord_capacity_result_begin(a->result, &settings))
        return ls_fail(diag, LS_ENOMEM, "no memory for a search");
    rc = coord_capacity_create(&settings, &a->capacity, diag);
    if (rc == LS_EINVAL || rc == LS_ERANGE)
        return LS_EPROTO;
    for (size_t i = 0; i < a->kept->n_probes && rc == LS_OK; i++) {
        if (!coord_capacity_next(a->capacity, &next))
            return ls_fail(diag, LS_EPROTO, "it would have ended after %zu of its probes", i);
        rc = probe_again(a, a->kept->probes[i], diag);
    }
    if (rc == LS_EINVAL)
        return LS_EPROTO;
    if (rc == LS_OK && !coord_capacity_result_answer(a->result, a->capacity))
        rc = ls_fail(diag, LS_ENOMEM, "no memory for a search's result");
    return rc;
}

enum ls_err coord_capacity_result_again(const Ls__CapacityResult *kept, coord_probe_trial *trial_of,
                                        void *ctx, Ls__CapacityResult **out, struct ls_diag *diag)
{
    struct again a = { .kept = kept,
                       .result = coord_message_new(&ls__capacity_result__descriptor),
                       .trial_of = trial_of,
                       .ctx = ctx };
    enum ls_err rc;

    *out = NULL;
    if (a.result == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a search");
    rc = all_again(&a, diag);
    coord_capacity_destroy(a.capacity);
    if (rc == LS_OK)
        *out = a.result;
    else
        coord_message_free(a.result);
    return rc;
}
