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
#include "coordinator/run/capacity_search.h"

#define TAIL_SEARCH 30.0 /* as COORD_CAPACITY_TAIL_BRACKET, of those near the crossing */

#define STEP_LEAST      0.02 /* of a rate, on either side of the crossing */
#define STEP_MOST       0.10
#define FAR             2.0  /* from one rate of a bracket to the next, and ... */
#define NEAR            1.25 /* ... where there seemed to be one, or where it broke by little */
#define STRUCK_NEAR     0.01 /* of a rate: the same one again */
#define CLIENT_NEAR     1.05 /* of what holds: no use in asking what the clients can do between */
#define CLIENT_LOWER    0.9  /* of a rate that they cannot keep up for a confirmation */
#define DEATHS_MOST     3u
#define DISTURBED_MOST  3u  /* probes that are made again because a client stood still */
#define DISTURBED_SHARE 0.5 /* of what is not allowed: it was overloaded anyway */
#define USELESS_MOST    6u  /* probes that told nothing */
#define LOOKS_MOST      10u /* around a narrow bracket */

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

/* Of how many requests one breaks a limit that is just met, or one cluster of those that come
 * together: of the limit for which that is most. */
static double rarest(const struct coord_capacity *c, bool clusters)
{
    double most = 1;

    for (size_t i = 0; i < c->set.limit_count; i++) {
        if (!c->p.limits[i].coarse)
            most = fmax(most, (clusters ? c->p.dispersion[i] : 1) / c->p.limits[i].allowed_share);
    }
    return most;
}

int64_t coord_search_window_ns(const struct coord_capacity *c, double rate_per_s, double tail)
{
    double ns = tail * rarest(c, tail > COORD_CAPACITY_TAIL_BRACKET) / rate_per_s * 1e9;

    if (ns > (double)c->set.probe_most_ns)
        return c->set.probe_most_ns;
    return ns > (double)c->set.probe_ns ? (int64_t)ns : c->set.probe_ns;
}

/* ---- the next probe */

static double clipped(const struct coord_capacity *c, double rate)
{
    return fmin(fmax(rate, c->set.least_per_s), c->ceiling);
}

void coord_search_plan(struct coord_capacity *c, enum coord_capacity_kind kind, double rate,
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

void coord_search_finish(struct coord_capacity *c, bool settled, const char *fmt, ...)
{
    va_list ap;

    c->stage = COORD_STAGE_DONE;
    c->has_next = false;
    c->answer.settled = settled;
    if (c->answer.limited_by == COORD_LIMITED_BY_UNKNOWN && isfinite(c->p.breaks))
        c->answer.limited_by = coord_points_limited_by(&c->p);
    va_start(ap, fmt);
    (void)vsnprintf(c->answer.why, sizeof(c->answer.why), fmt, ap);
    va_end(ap);
    if (!settled)
        add_change(c);
}

/* For the confirmations that follow on a probe of this stage. */
static int64_t reserved_ns(const struct coord_capacity *c)
{
    double rate = coord_points_candidate(&c->p);
    int64_t one = rate > 0 ? coord_search_confirm_ns(c, rate) : c->set.confirm_ns;

    return (one + c->set.overhead_ns) * (c->stage < COORD_STAGE_CONFIRM    ? 2
                                         : c->stage == COORD_STAGE_CONFIRM ? 1
                                                                           : 0);
}

bool coord_search_can_afford(const struct coord_capacity *c, int64_t window_ns)
{
    return c->used_ns + window_ns + c->set.overhead_ns + reserved_ns(c) <= c->set.budget_ns &&
           c->p.count + 3 < COORD_CAPACITY_PROBES_MAX;
}

/* ---- stages */

/* A limit that no probe here is long enough to see: says how long they would have to be. */
static bool unresolvable(struct coord_capacity *c, double rate)
{
    double overhead_s = (double)c->set.overhead_ns / 1e9, needed_s;
    int64_t needed_ns = 0;
    uint32_t limit = 0;

    if (!coord_points_too_rare(&c->p, rate, c->set.probe_most_ns, &needed_ns, &limit))
        return false;
    needed_s = (double)needed_ns / 1e9;
    c->unresolved = c->confirmed <= 0;
    coord_search_finish(
        c, false,
        "%s cannot be judged at about %.3g/s within probes of %.0f s: they would have to be "
        "%.0f s long (longest_probe) and the budget %.0f s at the least",
        c->p.limits[limit].name, rate, (double)c->set.probe_most_ns / 1e9, ceil(needed_s),
        ceil(6 * (needed_s + overhead_s)));
    return true;
}

/* Its probes may have been too short to be sure of it. A confirmation, which is longer, tells more
 * than one between two rates that are as good as the same. */
static bool bracket_is_narrow(const struct coord_capacity *c)
{
    return !c->p.fitted && c->p.holds > c->confirmed &&
           c->p.breaks / c->p.holds - 1 <= c->set.precision;
}

/* Half way; but where it broke by little, what can be sustained is not as far below. */
static double between(const struct coord_capacity *c)
{
    double middle = sqrt(c->p.holds * c->p.breaks);

    return c->p.breaks_excess < COORD_POINTS_EXCESS_MOST ? fmax(middle, c->p.breaks / NEAR)
                                                         : middle;
}

/* Up where it held and down where it broke (Dixon and Mood 1948): what halving a bracket took for
 * so may have been a draw. More than a few tell little more, and time is left for a confirmation
 * that fails, or for the interval's end.
 */
static bool look(struct coord_capacity *c)
{
    size_t last = c->p.count - 1;
    double rate = c->p.points[last].probe.rate_per_s, step = 1 + c->p.precision;
    int64_t window_ns, spare_ns = coord_search_confirm_ns(c, rate) + c->set.overhead_ns;

    rate = coord_points_held(&c->p, last) ? rate * step : rate / step;
    rate = fmin(fmax(rate, c->p.holds / step), c->p.breaks * step);
    window_ns = coord_search_window_ns(c, rate, COORD_CAPACITY_TAIL_BRACKET);
    if (c->looks >= LOOKS_MOST || c->p.points[last].verdict == COORD_USELESS ||
        !coord_search_can_afford(c, window_ns + spare_ns))
        return false;
    c->looks++;
    coord_search_plan(c, COORD_PROBE_SEARCH, rate, window_ns);
    return true;
}

/* Both sides of the crossing as often, and in turn: which is the first is the seed's to say. */
static bool goes_up(struct coord_capacity *c)
{
    c->up = !c->up;
    return !c->up;
}

void coord_search_narrow(struct coord_capacity *c)
{
    double rate, step;
    int64_t window_ns;

    if (!c->p.fitted && !(c->p.holds > 0 && isfinite(c->p.breaks))) {
        c->stage = COORD_STAGE_BRACKET; /* what seemed to be one was luck, but it is not far away */
        c->step = NEAR;
        coord_search_bracket(c);
        return;
    }
    c->stage = COORD_STAGE_SEARCH;
    if (unresolvable(c, c->p.fitted ? c->p.fit.rate : sqrt(c->p.holds * c->p.breaks)))
        return;
    if (bracket_is_narrow(c) && !coord_points_narrow(&c->p) && look(c))
        return;
    if (coord_points_narrow(&c->p) || bracket_is_narrow(c)) {
        coord_search_confirm(c, coord_points_candidate(&c->p));
        return;
    }
    if (c->p.fitted) {
        step = fmin(fmax(coord_points_half_width(&c->p), STEP_LEAST), STEP_MOST);
        rate = c->p.fit.rate * (goes_up(c) ? 1 + step : 1 - step);
        rate = fmin(fmax(rate, c->p.holds * 0.9), c->p.breaks * 1.1);
    } else if (c->p.points[c->p.count - 1].verdict == COORD_UNCLEAR &&
               coord_points_some_broke(&c->p, c->p.count - 1)) {
        /* It was near: what is needed is the line, and that wants another rate. */
        rate = c->p.points[c->p.count - 1].probe.rate_per_s *
               (goes_up(c) ? 1 + STEP_LEAST * 2 : 1 - STEP_LEAST * 2);
    } else {
        rate = between(c);
    }
    window_ns = coord_search_window_ns(c, rate, TAIL_SEARCH);
    if (coord_search_can_afford(c, window_ns))
        coord_search_plan(c, COORD_PROBE_SEARCH, rate, window_ns);
    else
        coord_search_confirm(c, coord_points_candidate(&c->p));
}

/* The clients cannot offer this rate: what holds below it is a lower bound. */
static void at_least(struct coord_capacity *c, double rate)
{
    if (c->confirmed > 0 && c->p.surely_breaks < rate) { /* the server's limit is below theirs */
        if (coord_search_look_at_end(c))
            return; /* which is above, too */
        coord_search_finish(
            c, false,
            "the limits held at %g/s and were broken at %g/s in short probes; for a longer one "
            "there was no time, and %g/s is more than the clients can offer",
            c->confirmed, c->p.surely_breaks, rate);
        return;
    }
    c->p.holds = coord_points_held_below(&c->p, rate); /* or it was luck */
    if (c->p.holds > 0 && c->stage <= COORD_STAGE_SEARCH && coord_search_can_afford(c, 0)) {
        coord_search_confirm(c, c->p.holds);
        return;
    }
    c->answer.limited_by = COORD_LIMITED_BY_CLIENT;
    if (c->p.holds <= 0)
        coord_search_finish(
            c, false, "the clients cannot offer %g/s, and nothing less was seen to hold", rate);
    else
        coord_search_finish(
            c, false, "the limits held at %g/s%s, and the clients cannot offer more than %g/s",
            c->confirmed > 0 ? c->confirmed : c->p.holds,
            c->confirmed > 0 ? "" : " in a short probe", rate);
}

void coord_search_bracket(struct coord_capacity *c)
{
    double rate;
    int64_t window_ns;

    if (c->p.holds > 0 && isfinite(c->p.breaks)) {
        coord_search_narrow(c);
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
        coord_search_finish(c, false,
                            "the limits are broken at every rate down to %g/s (%s by %.3g %%)",
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
        coord_search_finish(c, false,
                            "the limits hold at every rate up to %g/s, the most that was allowed",
                            c->ceiling);
        return;
    }
    c->step = FAR;
    window_ns = coord_search_window_ns(c, clipped(c, rate), COORD_CAPACITY_TAIL_BRACKET);
    if (coord_search_can_afford(c, window_ns))
        coord_search_plan(c, COORD_PROBE_BRACKET, rate, window_ns);
    else if (c->ceiling_by == COORD_LIMITED_BY_CLIENT && !isfinite(c->p.breaks))
        at_least(c, c->ceiling);
    else
        coord_search_finish(
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
    if (!again && coord_search_can_afford(c, probe->window_ns)) {
        coord_search_plan(c, probe->kind, rate, probe->window_ns);
        return;
    }
    if (coord_search_can_afford(c, probe->window_ns) &&
        coord_hosts_add(&c->hosts, probe->hosts, rate)) {
        c->struck = 0;
        coord_search_plan(c, probe->kind, rate, probe->window_ns);
        return;
    }
    c->ceiling = fmin(c->ceiling, rate * 0.999);
    c->ceiling_by = COORD_LIMITED_BY_CLIENT;
    lower = c->p.holds > 0 ? sqrt(c->p.holds * rate) : rate / 2;
    window_ns = coord_search_window_ns(c, lower, COORD_CAPACITY_TAIL_BRACKET);
    if (c->stage == COORD_STAGE_CONFIRM && c->confirms < COORD_SEARCH_CONFIRMS_MOST &&
        coord_search_can_afford(c, probe->window_ns)) {
        coord_search_confirm(c, rate * CLIENT_LOWER); /* it had held, for a while */
        return;
    }
    if (c->stage > COORD_STAGE_SEARCH || lower < c->set.least_per_s ||
        rate <= c->p.holds * CLIENT_NEAR || !coord_search_can_afford(c, window_ns))
        at_least(c, rate);
    else if (isfinite(c->p.breaks))
        coord_search_narrow(c);
    else
        coord_search_plan(c, COORD_PROBE_BRACKET, lower, window_ns);
}

/* A client that stands still for longer than a limit sends all that was due in one go, and a server
 * near its limit is long in working that off. */
static bool was_disturbed(const struct coord_capacity *c, const struct coord_capacity_seen *seen,
                          size_t at)
{
    const struct coord_tally *t = &c->p.tallies[at];
    bool broke = false;

    for (uint32_t k = 0; k < c->p.limit_count; k++) {
        const struct coord_capacity_limit *limit = &c->p.limits[k];
        double share = t->breaking[k] / t->requests, allowed = limit->allowed_share;

        if (share >= allowed + DISTURBED_SHARE * (1 - allowed))
            return false;
        broke |= limit->limit_ns > 0 && seen->client_late_ns > limit->limit_ns && share > allowed;
    }
    return broke && c->disturbed < DISTURBED_MOST &&
           coord_search_can_afford(c, c->p.points[at].probe.window_ns);
}

static void useless(struct coord_capacity *c, const struct coord_capacity_point *point,
                    const struct coord_capacity_seen *seen)
{
    bool died = seen->died;

    if (point->client_late_ns > 0) {
        c->disturbed++;
        coord_search_plan(c, point->probe.kind, point->probe.rate_per_s, point->probe.window_ns);
        return;
    }
    c->deaths += died;
    if (c->deaths >= DEATHS_MOST) {
        coord_search_finish(c, false, "%u probes ended early, the last at %g/s%s%.160s%s",
                            c->deaths, point->probe.rate_per_s, seen->why != NULL ? ": " : "",
                            seen->why != NULL ? seen->why : "",
                            coord_points_held_below(&c->p, point->probe.rate_per_s) > 0
                                ? "; below that the limits were seen to hold"
                                : "");
        return;
    }
    if (!died && point->limited_by == COORD_LIMITED_BY_CLIENT && c->stage != COORD_STAGE_END) {
        client_was_the_limit(c, &point->probe);
        return;
    }
    if (++c->useless >= USELESS_MOST || !coord_search_can_afford(c, point->probe.window_ns)) {
        if (c->stage == COORD_STAGE_END)
            coord_search_settle(c); /* as it would be without that look */
        else
            coord_search_finish(c, false, "%u probes told nothing, the last at %g/s", c->useless,
                                point->probe.rate_per_s);
        return;
    }
    coord_search_plan(c, point->probe.kind, point->probe.rate_per_s,
                      point->probe.window_ns); /* again */
}

/* The first probe; there has to be time for it. */
static enum ls_err begin(struct coord_capacity *c, struct ls_diag *diag)
{
    int64_t window_ns = coord_search_window_ns(c, c->set.first_per_s, COORD_CAPACITY_TAIL_BRACKET);

    coord_points_judge(&c->p);
    if (!coord_search_can_afford(c, window_ns))
        return ls_fail(diag, LS_ERANGE,
                       "a budget of %.0f s is less than a probe of %.0f s at %g/s and two "
                       "confirmations of %.0f s take: allow more, or begin at a higher rate",
                       (double)c->set.budget_ns / 1e9, (double)window_ns / 1e9, c->set.first_per_s,
                       (double)c->set.confirm_ns / 1e9);
    coord_search_bracket(c);
    return LS_OK;
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
    rc = begin(c, diag);
    if (rc == LS_OK)
        *out = c;
    else
        coord_capacity_destroy(c);
    return rc;
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
    if (c->stage == COORD_STAGE_CONFIRM)
        coord_search_confirmed(c, at);
    else if (c->stage == COORD_STAGE_ABOVE)
        coord_search_above(c, at);
    else if (c->stage == COORD_STAGE_END)
        coord_search_end_seen(c, at);
    else if (c->stage == COORD_STAGE_SEARCH)
        coord_search_narrow(c);
    else if (point->verdict == COORD_UNCLEAR && c->p.holds <= 0 && !isfinite(c->p.breaks))
        coord_search_plan(c, COORD_PROBE_BRACKET, point->probe.rate_per_s * 0.8,
                          coord_search_window_ns(c, point->probe.rate_per_s * 0.8, TAIL_SEARCH));
    else
        coord_search_bracket(c);
}

enum ls_err coord_capacity_report(struct coord_capacity *c, const struct coord_capacity_seen *seen,
                                  struct ls_diag *diag)
{
    struct coord_capacity_point *point = &c->p.points[c->p.count];
    enum ls_err rc;

    if (!c->has_next)
        return ls_fail(diag, LS_ESTATE, "the search has ended");
    if (seen->took_ns < 0 || seen->took_ns > COORD_SEARCH_LONGEST_NS)
        return ls_fail(diag, LS_EINVAL, "a probe took %" PRId64 " ns", seen->took_ns);
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
    if (point->verdict != COORD_USELESS && was_disturbed(c, seen, c->p.count - 1)) {
        point->verdict = COORD_USELESS;
        point->client_late_ns = seen->client_late_ns;
    }
    if (c->p.count >= COORD_CAPACITY_PROBES_MAX)
        coord_search_finish(c, false, "%u probes did not settle it", COORD_CAPACITY_PROBES_MAX);
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
    out->confirmed = c->confirmed > 0;
    out->confirmed_at = c->confirmed_at;
    if (c->unresolved)
        return;
    out->rate_per_s = best > 0 || c->answer.limited_by == COORD_LIMITED_BY_CLIENT
                          ? best
                          : coord_points_candidate(&c->p);
    if (c->confirmed <= 0 && out->rate_per_s >= c->refuted)
        out->rate_per_s = coord_points_held_below(&c->p, c->refuted);
    out->found = out->rate_per_s > 0;
    out->low_per_s = fmin(c->p.fitted ? c->p.fit.low : coord_points_begin(&c->p), out->rate_per_s);
    out->high_per_s = fmax(c->p.fitted ? c->p.fit.high : coord_points_end(&c->p), out->rate_per_s);
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
