/* Does the rate that was found stand, and do the limits break above it? */
#include <math.h>

#include "coordinator/run/capacity_search.h"

#define MISFIT_MOST   5.0
#define CONFIRM_LOWER 0.9   /* of a rate that was not confirmed; to what holds if that is nearer */
#define CONFIRM_NEAR  0.95  /* of one that was not confirmed, but nearly */
#define LOWER_MOST    0.5   /* by which one is below another that was not confirmed */
#define BURST_LEAST   100.0 /* answers beyond a limit that come together: worth a word */

int64_t coord_search_confirm_ns(const struct coord_capacity *c, double rate)
{
    int64_t seen_ns = coord_search_window_ns(c, rate, COORD_CAPACITY_TAIL_BRACKET);

    return seen_ns > c->set.confirm_ns ? seen_ns : c->set.confirm_ns;
}

void coord_search_confirm(struct coord_capacity *c, double rate)
{
    int64_t window_ns = coord_search_confirm_ns(c, rate);

    c->stage = COORD_STAGE_CONFIRM;
    c->confirms++;
    /* The time was kept for it, but for a probe that took much longer than any before. */
    if (c->used_ns + window_ns <= c->set.budget_ns)
        coord_search_plan(c, COORD_PROBE_CONFIRM, rate, window_ns);
    else
        coord_search_finish(c, false,
                            "the budget of %.0f s was used up before %g/s could be confirmed",
                            (double)c->set.budget_ns / 1e9, rate);
}

/* The confirmation held over all, but not evenly. */
static void say_drift(struct coord_capacity *c)
{
    const struct coord_capacity_point *point = &c->p.points[c->confirmed_at];
    const struct coord_tally *t = &c->p.tallies[c->confirmed_at];
    bool better = t->last[point->limit] < t->first[point->limit];

    coord_search_finish(
        c, false,
        "the server got %s during the confirmation at %g/s: of its first third %.3g %% broke "
        "%s, of its last %.3g %%: %s",
        better ? "better" : "worse", point->probe.rate_per_s, t->first[point->limit] * 100,
        c->p.limits[point->limit].name, t->last[point->limit] * 100,
        better ? "give it a longer warm-up" : "it does not sustain this rate");
}

/* The limit whose scatter takes the longest to see through. */
static uint32_t most_scattered(const struct coord_points *p)
{
    uint32_t worst = 0;
    double most = 0;

    for (uint32_t k = 0; k < p->limit_count; k++) {
        double tail = p->dispersion[k] / p->limits[k].allowed_share;

        if (p->limits[k].coarse || tail <= most)
            continue;
        worst = k;
        most = tail;
    }
    return worst;
}

static void say_scatter(struct coord_capacity *c)
{
    uint32_t limit = c->p.fitted ? c->p.fit_limit : most_scattered(&c->p);
    double burst = c->p.dispersion[limit], budget_s = (double)c->set.budget_ns / 1e9, held, broke;

    if (!c->p.fitted && coord_points_contradict(&c->p, &held, &broke))
        coord_search_finish(
            c, false,
            "the budget of %.0f s was used up before the interval was narrow: the server differs "
            "from probe to probe, broke the limits at %g/s and held them at %g/s",
            budget_s, broke, held);
    else if (burst < BURST_LEAST)
        coord_search_finish(
            c, false, "the budget of %.0f s was used up before the interval was narrow", budget_s);
    else
        coord_search_finish(
            c, false,
            "the budget of %.0f s was used up before the interval was narrow: answers beyond %s "
            "come in bursts of about %.0f, and a probe sees few of them; longer probes "
            "(longest_probe) and a larger budget see more",
            budget_s, c->p.limits[limit].name, burst);
}

/* Without a line the interval ends where it was broken. If no probes of a confirmation's length
 * have seen that, a moment of the machine's may have been it: a server near its limit is long in
 * coming back. Is there time to see it once more, for so long that it counts whatever they said? */
bool coord_search_look_at_end(struct coord_capacity *c)
{
    double end = c->p.surely_breaks;
    int64_t window_ns = coord_search_confirm_ns(c, end), seen_ns = 0;

    if (c->p.fitted || c->end_at == end)
        return false;
    for (size_t i = 0; i < c->p.count; i++) {
        const struct coord_capacity_point *point = &c->p.points[i];

        if (point->probe.rate_per_s == end && point->verdict != COORD_USELESS)
            seen_ns += point->probe.window_ns;
    }
    if (seen_ns >= window_ns)
        return false;
    window_ns =
        window_ns > COORD_POINTS_OVERRULES * seen_ns ? window_ns : COORD_POINTS_OVERRULES * seen_ns;
    c->end_at = end;
    if (!coord_search_can_afford(c, window_ns))
        return false;
    c->stage = COORD_STAGE_END;
    coord_search_plan(c, COORD_PROBE_SEARCH, end, window_ns);
    return true;
}

/* The limit that the latest probe which told anything was judged by. */
static uint32_t limit_of(const struct coord_points *p)
{
    for (size_t i = p->count; !p->fitted && i-- > 0;) {
        if (p->points[i].verdict != COORD_USELESS)
            return p->points[i].limit;
    }
    return p->fit_limit;
}

void coord_search_settle(struct coord_capacity *c)
{
    double low = c->p.fitted ? c->p.fit.rate * (1 - 2 * c->p.precision)
                             : coord_points_begin(&c->p) * (1 - c->p.precision);
    bool narrow =
        coord_points_narrow(&c->p) && c->broke_above > c->confirmed && c->confirmed >= low;
    uint32_t limit = limit_of(&c->p);
    double first, last;
    int64_t more_ns =
        c->set.probe_ns + 2 * (coord_search_confirm_ns(c, c->confirmed) + 2 * c->set.overhead_ns);

    if (narrow && coord_search_look_at_end(c))
        return;
    if (!narrow && c->confirms < COORD_SEARCH_CONFIRMS_MOST &&
        coord_search_can_afford(c, more_ns)) {
        coord_search_narrow(c); /* the confirmations were points as well, and moved the line */
        return;
    }

    if (coord_points_drifts(&c->p, c->confirmed_at))
        say_drift(c);
    else if (coord_points_warms_up(&c->p, limit, &first, &last))
        coord_search_finish(
            c, false,
            "the server got better within its probes: of their first thirds %.3g %% broke %s, "
            "of their last %.3g %%: give it a longer warm-up",
            first * 100, c->p.limits[limit].name, last * 100);
    else if (c->p.fitted && c->p.fit.misfit > MISFIT_MOST)
        coord_search_finish(
            c, false,
            "probes at like rates differ %.1f times as much as chance would have it: the server "
            "changes over time",
            sqrt(c->p.fit.misfit));
    else if (narrow)
        coord_search_finish(c, true, "the limits held at %g/s and were broken at %g/s",
                            c->confirmed, c->broke_above);
    else
        say_scatter(c);
}

void coord_search_end_seen(struct coord_capacity *c, size_t at)
{
    double end = c->p.points[at].probe.rate_per_s;

    if (coord_points_within(&c->p, at)) { /* as good as a confirmation, of a higher rate */
        c->confirmed = end;
        c->confirmed_at = at;
    } else if (c->p.surely_breaks <= end) {
        c->broke_above = end;
    }
    coord_search_settle(c);
}

/* What to try to confirm after a confirmation failed. What is known to hold may be far below, which
 * is no reason to go there where one probe alone could not have told that it is broken. */
static double lower_than(const struct coord_capacity *c, const struct coord_capacity_point *failed)
{
    double rate = failed->probe.rate_per_s, candidate = coord_points_candidate(&c->p);
    double known = candidate > 0 ? sqrt(candidate * rate) : rate;

    if (!c->p.fitted && candidate < rate * CONFIRM_LOWER)
        return failed->verdict == COORD_BREAKS ? fmin(known, rate * CONFIRM_LOWER)
                                               : rate * CONFIRM_NEAR;
    if (c->p.fitted)
        return fmin(candidate, rate * (1 - c->set.precision));
    /* Each time by twice as much: short probes may have been too kind. */
    return fmin(candidate, rate * (1 - fmin(c->set.precision * exp2(c->refusals - 1), LOWER_MOST)));
}

/* What confirmations take was kept for them; what is more than that may be too much. */
static void go_above(struct coord_capacity *c, double rate)
{
    int64_t window_ns = coord_search_confirm_ns(c, rate);

    c->stage = COORD_STAGE_ABOVE;
    if (c->used_ns + window_ns <= c->set.budget_ns)
        coord_search_plan(c, COORD_PROBE_ABOVE, rate, window_ns);
    else
        coord_search_finish(c, false,
                            "the budget of %.0f s was used up: the limits held at %g/s, and there "
                            "was no time to see them broken at %g/s",
                            (double)c->set.budget_ns / 1e9, c->confirmed, rate);
}

void coord_search_confirmed(struct coord_capacity *c, size_t at)
{
    double rate = c->p.points[at].probe.rate_per_s, lower;

    if (coord_points_within(&c->p, at)) {
        c->confirmed = rate;
        c->confirmed_at = at;
        c->refuted = INFINITY;
        c->refusals = 0;
        if (rate * (1 + c->set.above) > c->ceiling && c->p.surely_breaks > c->ceiling) {
            c->answer.limited_by = c->ceiling_by;
            coord_search_finish(c, false, "the limits held at %g/s; %g/s is more than %s", rate,
                                rate * (1 + c->set.above),
                                c->ceiling_by == COORD_LIMITED_BY_CLIENT ? "the clients can offer"
                                                                         : "was allowed");
            return;
        }
        go_above(c, fmin(rate * (1 + c->set.above), c->ceiling));
        return;
    }
    if (c->confirmed >= rate)
        c->confirmed = 0; /* it was luck */
    c->refuted = fmin(c->refuted, rate);
    c->refusals++;
    lower = lower_than(c, &c->p.points[at]);
    if (c->confirms < COORD_SEARCH_CONFIRMS_MOST && lower >= c->set.least_per_s &&
        coord_search_can_afford(c, coord_search_confirm_ns(c, lower)))
        coord_search_confirm(c, lower);
    else
        coord_search_finish(
            c, false, "the limits did not hold in a confirmation at %g/s, at %.3g %% for %s", rate,
            c->p.points[at].share * 100, c->p.limits[c->p.points[at].limit].name);
}

/* It held at this rate, above the one that was found. */
static void say_open(struct coord_capacity *c, double rate)
{
    double broke = c->p.surely_breaks;

    if (c->ceiling_by == COORD_LIMITED_BY_CLIENT)
        coord_search_finish(c, false,
                            "the limits held at %g/s, and the clients cannot offer more than %g/s",
                            rate, c->ceiling);
    else if (isfinite(broke) && broke > rate)
        coord_search_finish(
            c, false,
            "the budget of %.0f s was used up: the limits held at %g/s and were broken at %g/s; "
            "what lies between was not seen",
            (double)c->set.budget_ns / 1e9, rate, broke);
    else
        coord_search_finish(c, false,
                            "the limits held at %g/s, where they were expected to be broken", rate);
}

void coord_search_above(struct coord_capacity *c, size_t at)
{
    if (!coord_points_within(&c->p, at)) {
        c->broke_above = c->p.points[at].probe.rate_per_s;
        coord_search_settle(c);
        return;
    }
    c->stage = COORD_STAGE_SEARCH;
    if (c->confirms < COORD_SEARCH_CONFIRMS_MOST && coord_search_can_afford(c, c->set.probe_ns)) {
        coord_points_fit_anew(&c->p);
        c->stage = COORD_STAGE_BRACKET;
        coord_search_bracket(c);
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
