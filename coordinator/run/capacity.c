#include "coordinator/run/capacity.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/attr.h"
#include "common/rng.h"
#include "coordinator/run/capacity_hosts.h"
#include "coordinator/run/capacity_internal.h"
#include "coordinator/run/capacity_points.h"

#define TAIL_SEARCH 30.0 /* as COORD_CAPACITY_TAIL_BRACKET, of those near the crossing */

#define MISFIT_MOST   5.0
#define STEP_LEAST    0.02 /* of a rate, on either side of the crossing */
#define STEP_MOST     0.10
#define CONFIRMS_MOST 6u
#define FAR           2.0   /* from one rate of a bracket to the next, and ... */
#define NEAR          1.25  /* ... where there seemed to be one, at first */
#define STRUCK_NEAR   0.01  /* of a rate: the same one again */
#define CLIENT_NEAR   1.05  /* of what holds: no use in asking what the clients can do between */
#define CLIENT_LOWER  0.9   /* of a rate that they cannot keep up for a confirmation */
#define CONFIRM_LOWER 0.9   /* of a rate that was not confirmed; to what holds if that is nearer */
#define CONFIRM_NEAR  0.95  /* of one that was not confirmed, but nearly */
#define LOWER_MOST    0.5   /* by which one is below another that was not confirmed */
#define BURST_LEAST   100.0 /* answers beyond a limit that come together: worth a word */
#define DEATHS_MOST   3u
#define USELESS_MOST  6u /* probes that told nothing */

enum stage { STAGE_BRACKET, STAGE_SEARCH, STAGE_CONFIRM, STAGE_ABOVE, STAGE_DONE };

struct coord_capacity {
    struct coord_capacity_settings set;
    struct coord_points p;
    enum stage stage;
    struct coord_capacity_probe next;
    bool has_next;
    int64_t used_ns;
    double ceiling; /* no rate above this one can be offered: the clients', or most_per_s */
    enum coord_limited_by ceiling_by;
    struct coord_hosts hosts;
    double struck; /* where these clients were last seen to be the limit; 0: never */
    bool up;       /* the next step goes above the crossing */
    double step;   /* of the bracket's next rate, upwards or downwards */
    uint32_t confirms;
    uint32_t refusals;   /* confirmations that failed, since the last that did not */
    double confirmed;    /* 0: not yet */
    size_t confirmed_at; /* which point that was */
    double refuted;      /* the lowest rate whose confirmation failed since; INFINITY: none */
    double held_above;   /* where it should have broken in the end, and did not */
    bool unresolved;     /* nothing that was seen is an answer */
    uint32_t deaths;
    uint32_t useless;
    struct coord_capacity_answer answer;
};

static const char *const kind_names[] = { "bracket", "search", "confirm", "above" };
static_assert(LS_ARRAY_LEN(kind_names) == COORD_PROBE_KIND_COUNT, "a name for each kind");
static const char *const limited_names[] = { "unknown", "server", "network", "client" };
static_assert(LS_ARRAY_LEN(limited_names) == COORD_LIMITED_BY_COUNT, "a name for each");

const char *coord_capacity_kind_name(enum coord_capacity_kind kind)
{
    return kind_names[kind];
}

const char *coord_limited_by_name(enum coord_limited_by by)
{
    return limited_names[by];
}

/* ---- settings */

static double strictest(const struct coord_capacity *c)
{
    double least = 1;

    for (size_t i = 0; i < c->set.limit_count; i++) {
        if (!c->p.limits[i].coarse)
            least = fmin(least, c->p.limits[i].allowed_share);
    }
    return least;
}

/* The window in which that many clusters of requests break the strictest limit if it is just met.
 */
static int64_t window_for(const struct coord_capacity *c, double rate_per_s, double tail)
{
    double dispersion =
        tail > COORD_CAPACITY_TAIL_BRACKET ? c->p.dispersion[c->p.fitted ? c->p.fit_limit : 0] : 1;
    double ns = tail * dispersion / strictest(c) / rate_per_s * 1e9;

    if (ns > (double)c->set.probe_most_ns)
        return c->set.probe_most_ns;
    return ns > (double)c->set.probe_ns ? (int64_t)ns : c->set.probe_ns;
}

/* ---- the next probe */

static double clipped(const struct coord_capacity *c, double rate)
{
    return fmin(fmax(rate, c->set.least_per_s), c->ceiling);
}

static void plan(struct coord_capacity *c, enum coord_capacity_kind kind, double rate,
                 int64_t window_ns)
{
    uint32_t hosts = coord_hosts_for(&c->hosts, clipped(c, rate));

    c->next = (struct coord_capacity_probe){ .index = (uint32_t)c->p.count,
                                             .kind = kind,
                                             .rate_per_s = clipped(c, rate),
                                             .window_ns = window_ns,
                                             .hosts = hosts };
    c->has_next = true;
    /* Rates that are compared with each other are offered alike; those of the bracket may be far
     * above what can be had. */
    if (kind != COORD_PROBE_BRACKET)
        c->hosts.least = hosts;
}

/* Probes that contradict each other are a reason of their own. */
static void add_change(struct coord_capacity *c)
{
    size_t used = strlen(c->answer.why);
    bool worse;
    double held, broke;

    if (coord_points_changed(&c->p, &worse, &held, &broke))
        (void)snprintf(c->answer.why + used, sizeof(c->answer.why) - used,
                       "; the server got %s: the limits %s at %g/s, and later %s at %g/s",
                       worse ? "worse" : "better", worse ? "held" : "were broken",
                       worse ? held : broke, worse ? "were broken" : "held", worse ? broke : held);
}

static void finish(struct coord_capacity *c, bool settled, const char *fmt, ...) LS_PRINTF(3, 4);
static void finish(struct coord_capacity *c, bool settled, const char *fmt, ...)
{
    va_list ap;

    c->stage = STAGE_DONE;
    c->has_next = false;
    c->answer.settled = settled;
    va_start(ap, fmt);
    (void)vsnprintf(c->answer.why, sizeof(c->answer.why), fmt, ap);
    va_end(ap);
    if (!settled)
        add_change(c);
}

/* Is there time for a probe, and both confirmations after it? */
static bool affordable(const struct coord_capacity *c, int64_t window_ns)
{
    int64_t both = c->stage == STAGE_CONFIRM || c->stage == STAGE_ABOVE
                       ? 0
                       : 2 * (c->set.confirm_ns + c->set.overhead_ns);

    return c->used_ns + window_ns + c->set.overhead_ns + both <= c->set.budget_ns &&
           c->p.count + 3 < COORD_CAPACITY_PROBES_MAX;
}
/* ---- stages */

static int64_t confirm_window(const struct coord_capacity *c, double rate)
{
    int64_t seen_ns = window_for(c, rate, COORD_CAPACITY_TAIL_BRACKET);

    return seen_ns > c->set.confirm_ns ? seen_ns : c->set.confirm_ns;
}

/* A limit that no probe here is long enough to see: says how long they would have to be. */
static bool unresolvable(struct coord_capacity *c, double rate)
{
    double overhead_s = (double)c->set.overhead_ns / 1e9, needed_s;
    int64_t needed_ns = 0;
    uint32_t limit = 0;

    if (!coord_points_too_rare(&c->p, rate, c->set.probe_most_ns, &needed_ns, &limit))
        return false;
    needed_s = (double)needed_ns / 1e9;
    c->unresolved = true;
    finish(c, false,
           "%s cannot be judged at about %.3g/s within probes of %.0f s: they would have to be "
           "%.0f s long (longest_probe) and the budget %.0f s at the least",
           c->p.limits[limit].name, rate, (double)c->set.probe_most_ns / 1e9, ceil(needed_s),
           ceil(6 * (needed_s + overhead_s)));
    return true;
}

static void go_confirm(struct coord_capacity *c, double rate)
{
    c->stage = STAGE_CONFIRM;
    c->confirms++;
    plan(c, COORD_PROBE_CONFIRM, rate, confirm_window(c, rate));
}

/* Its probes may have been too short to be sure of it. A confirmation, which is longer, tells more
 * than one between two rates that are as good as the same. */
static bool bracket_is_narrow(const struct coord_capacity *c)
{
    return !c->p.fitted && c->p.holds > c->confirmed &&
           c->p.breaks / c->p.holds - 1 <= c->set.precision;
}

static void go_bracket(struct coord_capacity *c);

static void go_search(struct coord_capacity *c)
{
    double rate, step;
    int64_t window_ns;

    if (!c->p.fitted && !(c->p.holds > 0 && isfinite(c->p.breaks))) {
        c->stage = STAGE_BRACKET; /* what seemed to be one was luck, but it is not far away */
        c->step = NEAR;
        go_bracket(c);
        return;
    }
    c->stage = STAGE_SEARCH;
    if (unresolvable(c, c->p.fitted ? c->p.fit.rate : sqrt(c->p.holds * c->p.breaks)))
        return;
    if (coord_points_narrow(&c->p) || bracket_is_narrow(c)) {
        go_confirm(c, coord_points_candidate(&c->p));
        return;
    }
    if (c->p.fitted) {
        step = fmin(fmax(coord_points_half_width(&c->p), STEP_LEAST), STEP_MOST);
        rate = c->p.fit.rate * (c->up ? 1 + step : 1 - step);
        rate = fmin(fmax(rate, c->p.holds * 0.9), c->p.breaks * 1.1);
        c->up = !c->up;
    } else if (c->p.points[c->p.count - 1].verdict == COORD_UNCLEAR &&
               coord_points_some_broke(&c->p, c->p.count - 1)) {
        /* It was near: what is needed is the line, and that wants another rate. */
        rate = c->p.points[c->p.count - 1].probe.rate_per_s *
               (c->up ? 1 + STEP_LEAST * 2 : 1 - STEP_LEAST * 2);
        c->up = !c->up;
    } else {
        rate = sqrt(c->p.holds * c->p.breaks);
    }
    window_ns = window_for(c, rate, TAIL_SEARCH);
    if (affordable(c, window_ns))
        plan(c, COORD_PROBE_SEARCH, rate, window_ns);
    else
        go_confirm(c, coord_points_candidate(&c->p));
}

/* The clients cannot offer this rate: what holds below it is a lower bound. */
static void at_least(struct coord_capacity *c, double rate)
{
    c->answer.limited_by = COORD_LIMITED_BY_CLIENT;
    c->p.holds = coord_points_held_below(&c->p, rate); /* or it was luck */
    if (c->p.holds <= 0)
        finish(c, false, "the clients cannot offer %g/s, and nothing less was seen to hold", rate);
    else if (c->stage <= STAGE_SEARCH && affordable(c, 0))
        go_confirm(c, c->p.holds);
    else
        finish(c, false, "the limits held at %g/s%s, and the clients cannot offer more than %g/s",
               c->confirmed > 0 ? c->confirmed : c->p.holds,
               c->confirmed > 0 ? "" : " in a short probe", rate);
}

/* Up by twos until it breaks, or down by twos until it holds; by less where it must be near. */
static void go_bracket(struct coord_capacity *c)
{
    double rate;
    int64_t window_ns;

    if (c->p.holds > 0 && isfinite(c->p.breaks)) {
        go_search(c);
        return;
    }
    if (c->p.holds <= 0 && isfinite(c->p.breaks))
        rate = c->p.breaks / c->step;
    else if (c->ceiling_by == COORD_LIMITED_BY_CLIENT && c->p.holds > 0)
        rate = sqrt(c->p.holds * c->ceiling);
    else
        rate =
            c->p.count == 0 ? c->set.first_per_s : fmax(c->p.holds, c->next.rate_per_s) * c->step;
    if (isfinite(c->p.breaks) && c->p.breaks <= c->set.least_per_s) {
        finish(c, false, "the limits are broken at every rate down to %g/s (%s by %.3g %%)",
               c->set.least_per_s, c->p.limits[c->p.points[c->p.count - 1].limit].name,
               c->p.points[c->p.count - 1].share * 100);
        return;
    }
    if (c->ceiling_by == COORD_LIMITED_BY_CLIENT && c->ceiling < c->p.holds * CLIENT_NEAR) {
        at_least(c, c->ceiling);
        return;
    }
    if (c->p.holds >= c->ceiling) {
        c->answer.limited_by = c->ceiling_by;
        finish(c, false, "the limits hold at every rate up to %g/s, the most that was allowed",
               c->ceiling);
        return;
    }
    c->step = FAR;
    window_ns = window_for(c, clipped(c, rate), COORD_CAPACITY_TAIL_BRACKET);
    if (affordable(c, window_ns))
        plan(c, COORD_PROBE_BRACKET, rate, window_ns);
    else if (c->ceiling_by == COORD_LIMITED_BY_CLIENT)
        at_least(c, c->ceiling);
    else
        finish(
            c, false,
            "the budget of %.0f s was used up before a rate was found at which the limits %s; at "
            "%g/s, %.3g %% of the requests broke %s",
            (double)c->set.budget_ns / 1e9, c->p.holds > 0 ? "break" : "hold",
            c->p.points[c->p.count - 1].probe.rate_per_s, c->p.points[c->p.count - 1].share * 100,
            c->p.limits[c->p.points[c->p.count - 1].limit].name);
}

/* The clients could not offer what was asked for; if that was no accident, more of them have to,
 * and where there are no more, nothing above it can be had. */
static void client_was_the_limit(struct coord_capacity *c, const struct coord_capacity_probe *probe)
{
    double rate = probe->rate_per_s, lower;
    bool again =
        fabs(c->struck / rate - 1) < STRUCK_NEAR || c->ceiling_by == COORD_LIMITED_BY_CLIENT;
    int64_t window_ns;

    c->struck = rate;
    if (!again && affordable(c, probe->window_ns)) {
        plan(c, probe->kind, rate, probe->window_ns);
        return;
    }
    if (affordable(c, probe->window_ns) && coord_hosts_add(&c->hosts, probe->hosts, rate)) {
        c->struck = 0;
        plan(c, probe->kind, rate, probe->window_ns);
        return;
    }
    c->ceiling = fmin(c->ceiling, rate * 0.999);
    c->ceiling_by = COORD_LIMITED_BY_CLIENT;
    lower = c->p.holds > 0 ? sqrt(c->p.holds * rate) : rate / 2;
    window_ns = window_for(c, lower, COORD_CAPACITY_TAIL_BRACKET);
    if (c->stage == STAGE_CONFIRM && c->confirms < CONFIRMS_MOST &&
        affordable(c, probe->window_ns)) {
        go_confirm(c, rate * CLIENT_LOWER); /* it had held, for a while */
        return;
    }
    if (c->stage > STAGE_SEARCH || lower < c->set.least_per_s || rate <= c->p.holds * CLIENT_NEAR ||
        !affordable(c, window_ns))
        at_least(c, rate);
    else if (isfinite(c->p.breaks))
        go_search(c);
    else
        plan(c, COORD_PROBE_BRACKET, lower, window_ns);
}

static void useless(struct coord_capacity *c, const struct coord_capacity_point *point,
                    const struct coord_capacity_seen *seen)
{
    bool died = seen->died;

    c->deaths += died;
    c->useless++;
    if (c->deaths >= DEATHS_MOST) {
        finish(c, false, "%u probes ended early, the last at %g/s%s%.160s%s", c->deaths,
               point->probe.rate_per_s, seen->why != NULL ? ": " : "",
               seen->why != NULL ? seen->why : "",
               c->p.holds > 0 ? "; below that the limits were seen to hold" : "");
        return;
    }
    if (!died && point->limited_by == COORD_LIMITED_BY_CLIENT) {
        client_was_the_limit(c, &point->probe);
        return;
    }
    if (c->useless >= USELESS_MOST || !affordable(c, point->probe.window_ns)) {
        finish(c, false, "%u probes told nothing, the last at %g/s", c->useless,
               point->probe.rate_per_s);
        return;
    }
    plan(c, point->probe.kind, point->probe.rate_per_s, point->probe.window_ns); /* again */
}

/* The confirmation held over all, but not evenly. */
static void say_drift(struct coord_capacity *c)
{
    const struct coord_capacity_point *point = &c->p.points[c->confirmed_at];
    const struct coord_tally *t = &c->p.tallies[c->confirmed_at];
    bool better = t->last[point->limit] < t->first[point->limit];

    finish(c, false,
           "the server got %s during the confirmation at %g/s: of its first third %.3g %% broke "
           "%s, of its last %.3g %%: %s",
           better ? "better" : "worse", point->probe.rate_per_s, t->first[point->limit] * 100,
           c->p.limits[point->limit].name, t->last[point->limit] * 100,
           better ? "give it a longer warm-up" : "it does not sustain this rate");
}

static void say_scatter(struct coord_capacity *c, uint32_t limit)
{
    double burst = c->p.dispersion[limit], budget_s = (double)c->set.budget_ns / 1e9;

    if (burst < BURST_LEAST)
        finish(c, false, "the budget of %.0f s was used up before the interval was narrow",
               budget_s);
    else
        finish(c, false,
               "the budget of %.0f s was used up before the interval was narrow: answers beyond %s "
               "come in bursts of about %.0f, and a probe sees few of them; longer probes "
               "(longest_probe) and a larger budget see more",
               budget_s, c->p.limits[limit].name, burst);
}

static void settle(struct coord_capacity *c)
{
    bool narrow = coord_points_narrow(&c->p);
    uint32_t limit = c->p.fitted ? c->p.fit_limit : c->p.points[c->p.count - 1].limit;
    double first, last;
    int64_t more_ns = c->set.probe_ns + 2 * (c->set.confirm_ns + 2 * c->set.overhead_ns);

    if (!narrow && c->confirms < CONFIRMS_MOST && affordable(c, more_ns)) {
        go_search(c); /* the confirmations were points as well, and moved the line */
        return;
    }

    c->answer.limited_by = coord_points_limited_by(&c->p);
    if (coord_points_drifts(&c->p, c->confirmed_at))
        say_drift(c);
    else if (coord_points_warms_up(&c->p, limit, &first, &last))
        finish(c, false,
               "the server got better within its probes: of their first thirds %.3g %% broke %s, "
               "of their last %.3g %%: give it a longer warm-up",
               first * 100, c->p.limits[limit].name, last * 100);
    else if (c->p.fitted && c->p.fit.misfit > MISFIT_MOST)
        finish(c, false,
               "probes at like rates differ %.1f times as much as chance would have it: the server "
               "changes over time",
               sqrt(c->p.fit.misfit));
    else if (narrow)
        finish(c, true, "the limits held at %g/s and were broken at %g/s", c->confirmed,
               c->p.points[c->p.count - 1].probe.rate_per_s);
    else
        say_scatter(c, limit);
}

/* What to try to confirm after a confirmation failed. What is known to hold may be far below, which
 * is no reason to go there where one probe alone could not have told that it is broken. */
static double lower_than(const struct coord_capacity *c, const struct coord_capacity_point *failed)
{
    double rate = failed->probe.rate_per_s, candidate = coord_points_candidate(&c->p);

    if (!c->p.fitted && candidate < rate * CONFIRM_LOWER)
        return failed->verdict == COORD_BREAKS ? fmin(sqrt(candidate * rate), rate * CONFIRM_LOWER)
                                               : rate * CONFIRM_NEAR;
    if (c->p.fitted)
        return fmin(candidate, rate * (1 - c->set.precision));
    /* Each time by twice as much: short probes may have been too kind. */
    return fmin(candidate, rate * (1 - fmin(c->set.precision * exp2(c->refusals - 1), LOWER_MOST)));
}

static void after_confirm(struct coord_capacity *c, size_t at)
{
    double rate = c->p.points[at].probe.rate_per_s, lower;

    if (coord_points_within(&c->p, at)) {
        c->confirmed = rate;
        c->confirmed_at = at;
        c->refuted = INFINITY;
        c->refusals = 0;
        if (rate * (1 + c->set.above) > c->ceiling) {
            c->answer.limited_by = c->ceiling_by;
            finish(c, false, "the limits held at %g/s; %g/s is more than %s", rate,
                   rate * (1 + c->set.above),
                   c->ceiling_by == COORD_LIMITED_BY_CLIENT ? "the clients can offer"
                                                            : "was allowed");
            return;
        }
        c->stage = STAGE_ABOVE;
        plan(c, COORD_PROBE_ABOVE, rate * (1 + c->set.above),
             confirm_window(c, rate * (1 + c->set.above)));
        return;
    }
    if (c->confirmed >= rate)
        c->confirmed = 0; /* it was luck */
    c->refuted = fmin(c->refuted, rate);
    c->refusals++;
    lower = lower_than(c, &c->p.points[at]);
    if (c->confirms < CONFIRMS_MOST && lower >= c->set.least_per_s &&
        affordable(c, 2 * c->set.confirm_ns + c->set.overhead_ns))
        go_confirm(c, lower);
    else
        finish(c, false, "the limits did not hold in a confirmation at %g/s, at %.3g %% for %s",
               rate, c->p.points[at].share * 100, c->p.limits[c->p.points[at].limit].name);
}

/* It held at this rate, above the one that was found. */
static void say_open(struct coord_capacity *c, double rate)
{
    double broke = c->p.surely_breaks;

    if (c->ceiling_by == COORD_LIMITED_BY_CLIENT)
        finish(c, false, "the limits held at %g/s, and the clients cannot offer more than %g/s",
               rate, c->ceiling);
    else if (isfinite(broke) && broke > rate)
        finish(c, false,
               "the budget of %.0f s was used up: the limits held at %g/s and were broken at %g/s; "
               "what lies between was not seen",
               (double)c->set.budget_ns / 1e9, rate, broke);
    else
        finish(c, false, "the limits held at %g/s, where they were expected to be broken", rate);
}

static void after_above(struct coord_capacity *c, size_t at)
{
    if (!coord_points_within(&c->p, at)) {
        settle(c);
        return;
    }
    c->stage = STAGE_SEARCH;
    if (c->confirms < CONFIRMS_MOST && affordable(c, c->set.probe_ns)) {
        coord_points_fit_anew(&c->p);
        c->stage = STAGE_BRACKET;
        go_bracket(c);
    } else {
        /* It held for as long as the confirmation; a line knows better how near it was. */
        c->confirmed = fmax(c->confirmed, c->p.fitted ? fmin(coord_points_candidate(&c->p),
                                                             c->p.points[at].probe.rate_per_s)
                                                      : c->p.points[at].probe.rate_per_s);
        c->confirmed_at = at;
        c->held_above = c->p.points[at].probe.rate_per_s;
        say_open(c, c->p.points[at].probe.rate_per_s);
    }
}

enum ls_err coord_capacity_create(const struct coord_capacity_settings *settings,
                                  struct coord_capacity **out, struct ls_diag *diag)
{
    struct coord_capacity *c;
    struct ls_rng rng;
    enum ls_err rc = coord_capacity_check(settings, diag);

    if (rc != LS_OK)
        return rc;
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a search");
    c->set = *settings;
    (void)memcpy(c->p.limits, settings->limits, settings->limit_count * sizeof(*c->p.limits));
    c->set.limits = c->p.limits;
    c->p.limit_count = settings->limit_count;
    c->p.precision = settings->precision;
    ls_rng_init(&rng, settings->seed, 0);
    c->up = ls_rng_below(&rng, 2) == 1;
    c->step = FAR;
    c->ceiling = settings->most_per_s;
    c->refuted = INFINITY;
    coord_hosts_init(&c->hosts, settings->hosts, settings->all_hosts);
    coord_points_judge(&c->p);
    go_bracket(c);
    *out = c;
    return LS_OK;
}

void coord_capacity_destroy(struct coord_capacity *capacity)
{
    free(capacity);
}

bool coord_capacity_next(struct coord_capacity *c, struct coord_capacity_probe *out)
{
    if (c->has_next)
        *out = c->next;
    return c->has_next;
}

static void go_on(struct coord_capacity *c)
{
    size_t at = c->p.count - 1;
    const struct coord_capacity_point *point = &c->p.points[at];

    coord_points_judge(&c->p);
    if (c->stage == STAGE_CONFIRM)
        after_confirm(c, at);
    else if (c->stage == STAGE_ABOVE)
        after_above(c, at);
    else if (c->stage == STAGE_SEARCH)
        go_search(c);
    else if (point->verdict == COORD_UNCLEAR && c->p.holds <= 0 && !isfinite(c->p.breaks))
        plan(c, COORD_PROBE_BRACKET, point->probe.rate_per_s * 0.8,
             window_for(c, point->probe.rate_per_s * 0.8, TAIL_SEARCH));
    else
        go_bracket(c);
}

enum ls_err coord_capacity_report(struct coord_capacity *c, const struct coord_capacity_seen *seen,
                                  struct ls_diag *diag)
{
    struct coord_capacity_point *point = &c->p.points[c->p.count];
    enum ls_err rc;

    if (!c->has_next)
        return ls_fail(diag, LS_ESTATE, "the search has ended");
    rc = coord_points_add_up(&c->p, seen, &c->p.tallies[c->p.count], diag);
    if (rc != LS_OK)
        return rc;
    *point = (struct coord_capacity_point){ .probe = c->next,
                                            .verdict = COORD_UNCLEAR,
                                            .limited_by = seen->limited_by };
    if (seen->died || seen->limited_by == COORD_LIMITED_BY_CLIENT ||
        c->p.tallies[c->p.count].requests <= 0)
        point->verdict = COORD_USELESS;
    c->p.count++;
    c->has_next = false;
    c->used_ns += seen->took_ns;
    if (seen->host_per_s > 0)
        coord_hosts_calibrated(&c->hosts, seen->host_per_s);
    c->set.overhead_ns =
        seen->took_ns > point->probe.window_ns ? seen->took_ns - point->probe.window_ns : 0;
    if (c->p.count >= COORD_CAPACITY_PROBES_MAX)
        finish(c, false, "%u probes did not settle it", COORD_CAPACITY_PROBES_MAX);
    else if (point->verdict == COORD_USELESS)
        useless(c, point, seen);
    else
        go_on(c);
    return LS_OK;
}

void coord_capacity_answer(const struct coord_capacity *c, struct coord_capacity_answer *out)
{
    bool line = c->p.fitted && c->answer.limited_by != COORD_LIMITED_BY_CLIENT;
    double best = c->confirmed > 0 ? c->confirmed : line ? 0 : c->p.holds;

    *out = c->answer;
    if (c->p.count > 0)
        out->hosts = c->p.points[c->confirmed > 0 ? c->confirmed_at : c->p.count - 1].probe.hosts;
    if (c->unresolved)
        return;
    out->rate_per_s = best > 0 ? best : coord_points_candidate(&c->p);
    if (c->confirmed <= 0 && out->rate_per_s >= c->refuted)
        out->rate_per_s = coord_points_held_below(&c->p, c->refuted);
    out->found = out->rate_per_s > 0;
    out->low_per_s = fmin(c->p.fitted ? c->p.fit.low : c->p.surely_holds, out->rate_per_s);
    out->high_per_s = fmax(c->p.fitted ? c->p.fit.high : c->p.surely_breaks, out->rate_per_s);
    if (out->high_per_s <= c->held_above)
        out->high_per_s = c->p.surely_breaks > c->held_above ? c->p.surely_breaks : INFINITY;
    if (c->answer.limited_by == COORD_LIMITED_BY_CLIENT)
        out->high_per_s = INFINITY;
}

size_t coord_capacity_points(const struct coord_capacity *c,
                             const struct coord_capacity_point **out_points)
{
    *out_points = c->p.points;
    return c->p.count;
}
