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
#include "coordinator/run/capacity_fit.h"

/* Independent answers beyond the limit that a probe should see if the limit is just met. */
#define TAIL_BRACKET 20.0
#define TAIL_SEARCH  30.0

#define STANDARD_DEVIATIONS 2.5 /* beyond which a probe alone decides */
#define CONFIRM_DEVIATIONS  1.645
#define DISPERSION_FIRST    50.0 /* of answers' clusters, until probes have shown it */
#define EXCESS_MOST         5.0
#define CLUSTER_ODDS        2.0  /* of points whose clusters are alike, from the allowed ones */
#define INFORMATIVE_LEAST   4.0  /* breaking requests of a point that the line is fitted to ... */
#define INFORMATIVE_ODDS    3.5  /* ... whose log odds are no more above the allowed ones */
#define INFORMATIVE_RATE    0.25 /* ... at a rate this near to the crossing, as a share */
#define MISFIT_MOST         5.0
#define POINTS_LEAST        4u   /* that an answer by a line rests on */
#define STEP_LEAST          0.02 /* of a rate, on either side of the crossing */
#define STEP_MOST           0.10
#define CONFIRMS_MOST       4u
#define DEATHS_MOST         3u
#define USELESS_MOST        6u /* probes that told nothing */

enum stage { STAGE_BRACKET, STAGE_SEARCH, STAGE_CONFIRM, STAGE_ABOVE, STAGE_DONE };

struct tally {
    double requests;
    double breaking[COORD_CAPACITY_LIMITS_MAX];
    double dispersion[COORD_CAPACITY_LIMITS_MAX];
};

struct coord_capacity {
    struct coord_capacity_settings set;
    struct coord_capacity_limit limits[COORD_CAPACITY_LIMITS_MAX];
    enum stage stage;
    struct coord_capacity_probe next;
    bool has_next;
    struct coord_capacity_point points[COORD_CAPACITY_PROBES_MAX];
    struct tally tallies[COORD_CAPACITY_PROBES_MAX];
    size_t count;
    int64_t used_ns;
    double dispersion[COORD_CAPACITY_LIMITS_MAX]; /* of all probes together */
    double holds;        /* the largest rate at which it held, below breaks; 0: none */
    double breaks;       /* the smallest rate at which it broke; INFINITY: none */
    double surely_holds; /* the same, beyond the scatter of single probes */
    double surely_breaks;
    double ceiling; /* no rate above this one can be offered: the clients', or most_per_s */
    enum coord_limited_by ceiling_by;
    bool fitted;
    struct coord_fit fit;
    uint32_t fit_limit;
    size_t fit_points;
    bool up; /* the next step goes above the crossing */
    uint32_t confirms;
    double confirmed; /* 0: not yet */
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
        if (!c->limits[i].coarse)
            least = fmin(least, c->limits[i].allowed_share);
    }
    return least;
}

/* The window in which that many clusters of requests break the strictest limit if it is just met.
 */
static int64_t window_for(const struct coord_capacity *c, double rate_per_s, double tail)
{
    double dispersion = tail > TAIL_BRACKET ? c->dispersion[c->fitted ? c->fit_limit : 0] : 1;
    double ns = tail * dispersion / strictest(c) / rate_per_s * 1e9;

    if (ns > (double)c->set.probe_most_ns)
        return c->set.probe_most_ns;
    return ns > (double)c->set.probe_ns ? (int64_t)ns : c->set.probe_ns;
}

static enum ls_err check(const struct coord_capacity_settings *s, struct ls_diag *diag)
{
    double least = 1;

    if (s->limit_count < 1 || s->limit_count > COORD_CAPACITY_LIMITS_MAX)
        return ls_fail(diag, LS_ERANGE, "%zu limits: a search needs 1 to %u", s->limit_count,
                       COORD_CAPACITY_LIMITS_MAX);
    for (size_t i = 0; i < s->limit_count; i++) {
        if (!(s->limits[i].allowed_share > 0 && s->limits[i].allowed_share < 1))
            return ls_fail(diag, LS_ERANGE, "limit %s: its share has to be between 0 and 1",
                           s->limits[i].name);
        if (!s->limits[i].coarse)
            least = fmin(least, s->limits[i].allowed_share);
    }
    if (!(s->least_per_s > 0 && s->least_per_s <= s->first_per_s &&
          s->first_per_s <= s->most_per_s && isfinite(s->most_per_s)))
        return ls_fail(diag, LS_ERANGE,
                       "rates from %g/s over %g/s to %g/s: they have to grow from above 0",
                       s->least_per_s, s->first_per_s, s->most_per_s);
    if (s->probe_ns <= 0 || s->probe_most_ns < s->probe_ns || s->confirm_ns <= 0 ||
        !(s->precision > 0 && s->precision < 1) || !(s->above > 0))
        return ls_fail(diag, LS_ERANGE, "lengths of probes, precision: they have to be above 0");
    if (s->budget_ns < 4 * (s->probe_ns + s->overhead_ns) + 2 * (s->confirm_ns + s->overhead_ns))
        return ls_fail(diag, LS_ERANGE,
                       "a budget of %.0f s is less than four probes of %.0f s and two "
                       "confirmations of %.0f s take, with %.1f s around each",
                       (double)s->budget_ns / 1e9, (double)s->probe_ns / 1e9,
                       (double)s->confirm_ns / 1e9, (double)s->overhead_ns / 1e9);
    if (TAIL_BRACKET / least / s->most_per_s * 1e9 > (double)s->probe_most_ns)
        return ls_fail(diag, LS_ERANGE,
                       "one request in %.0f may break a limit: at %g/s that takes probes of %.0f s "
                       "to see, and they are at most %.0f s: allow longer ones and a larger budget",
                       1 / least, s->most_per_s, TAIL_BRACKET / least / s->most_per_s,
                       (double)s->probe_most_ns / 1e9);
    return LS_OK;
}

/* ---- the next probe */

static double clipped(const struct coord_capacity *c, double rate)
{
    return fmin(fmax(rate, c->set.least_per_s), c->ceiling);
}

static void plan(struct coord_capacity *c, enum coord_capacity_kind kind, double rate,
                 int64_t window_ns)
{
    c->next = (struct coord_capacity_probe){ .index = (uint32_t)c->count,
                                             .kind = kind,
                                             .rate_per_s = clipped(c, rate),
                                             .window_ns = window_ns };
    c->has_next = true;
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
}

/* Is there time for a probe, and both confirmations after it? */
static bool affordable(const struct coord_capacity *c, int64_t window_ns)
{
    int64_t both = c->stage == STAGE_CONFIRM || c->stage == STAGE_ABOVE
                       ? 0
                       : 2 * (c->set.confirm_ns + c->set.overhead_ns);

    return c->used_ns + window_ns + c->set.overhead_ns + both <= c->set.budget_ns &&
           c->count + 3 < COORD_CAPACITY_PROBES_MAX;
}

/* ---- what the points say together */

static double odds_between(double share, double allowed)
{
    return log(share / (1 - share)) - log(allowed / (1 - allowed));
}

static bool informative(const struct coord_capacity *c, size_t at, uint32_t limit, double around)
{
    const struct tally *t = &c->tallies[at];
    double allowed = c->limits[limit].allowed_share, share = t->breaking[limit] / t->requests;
    bool near = around > 0 && fabs(c->points[at].probe.rate_per_s / around - 1) <= INFORMATIVE_RATE;

    if (c->points[at].verdict == COORD_USELESS || t->requests <= 0 || share >= 1)
        return false;
    if (around > 0 ? !near : t->breaking[limit] < INFORMATIVE_LEAST)
        return false;
    return odds_between(share, allowed) <= INFORMATIVE_ODDS;
}

/* Slow answers come in clusters, and those of neighbouring rates are alike: one dispersion for all
 * probes that saw some, which their batches tell better together than each its own. */
static void pool_dispersion(struct coord_capacity *c)
{
    for (uint32_t limit = 0; limit < c->set.limit_count; limit++) {
        double sum = 0, n = 0;

        for (size_t i = 0; i < c->count; i++) {
            double share = c->tallies[i].breaking[limit] / c->tallies[i].requests;

            if (!informative(c, i, limit, 0) ||
                fabs(odds_between(share, c->limits[limit].allowed_share)) > CLUSTER_ODDS)
                continue;
            sum += c->tallies[i].dispersion[limit];
            n++;
        }
        c->dispersion[limit] = n > 0 ? sum / n : DISPERSION_FIRST;
    }
}

static size_t gather(const struct coord_capacity *c, uint32_t limit, double around,
                     struct coord_fit_point *out)
{
    size_t n = 0;

    for (size_t i = 0; i < c->count; i++) {
        if (!informative(c, i, limit, around))
            continue;
        out[n++] = (struct coord_fit_point){ .rate = c->points[i].probe.rate_per_s,
                                             .requests = c->tallies[i].requests,
                                             .breaking = c->tallies[i].breaking[limit],
                                             .dispersion = c->dispersion[limit] };
    }
    return n;
}

/* The limit whose line crosses first decides. */
static void fit_all(struct coord_capacity *c)
{
    struct coord_fit_point points[COORD_CAPACITY_PROBES_MAX];
    double around = c->fitted ? c->fit.rate : 0;

    c->fitted = false;
    for (uint32_t limit = 0; limit < c->set.limit_count; limit++) {
        struct coord_fit fit;
        size_t n = gather(c, limit, around, points);

        if (!coord_fit_crossing(points, n, c->limits[limit].allowed_share, &fit))
            continue;
        /* A line through points that are all on one side may cross anywhere. */
        if (fit.rate < c->holds * 0.8 || fit.rate > c->breaks * 1.25)
            continue;
        if (c->fitted && fit.rate >= c->fit.rate)
            continue;
        c->fitted = true;
        c->fit = fit;
        c->fit_limit = limit;
        c->fit_points = n;
    }
}

/* How far above (positive) or below its allowed share a limit is, in standard deviations that a
 * share would have which is just the allowed one. */
static double distance(const struct coord_capacity *c, size_t at, uint32_t limit)
{
    const struct tally *t = &c->tallies[at];
    double allowed = c->limits[limit].allowed_share;
    double error = sqrt(allowed * (1 - allowed) * c->dispersion[limit] / t->requests);

    return (t->breaking[limit] / t->requests - allowed) / error;
}

static void judge(struct coord_capacity *c, size_t at)
{
    struct coord_capacity_point *point = &c->points[at];
    const struct tally *t = &c->tallies[at];
    double worst = -INFINITY;

    for (uint32_t k = 0; k < c->set.limit_count; k++) {
        double far = distance(c, at, k);

        if (far <= worst)
            continue;
        worst = far;
        point->limit = k;
        point->share = t->breaking[k] / t->requests;
        point->share_error =
            sqrt(point->share * (1 - point->share) * c->dispersion[k] / t->requests);
    }
    point->verdict = worst > STANDARD_DEVIATIONS    ? COORD_BREAKS
                     : worst < -STANDARD_DEVIATIONS ? COORD_HOLDS
                                                    : COORD_UNCLEAR;
}

/* How far a point is above its limits: 1 is just met. Beyond a few it is the same how far. */
static double excess(const struct coord_capacity *c, size_t at)
{
    double most = 0;

    for (uint32_t k = 0; k < c->set.limit_count; k++)
        most = fmax(most, c->tallies[at].breaking[k] / c->tallies[at].requests /
                              c->limits[k].allowed_share);
    return fmin(most, EXCESS_MOST);
}

/* Useful points by their rates, lowest first. */
static size_t by_rate(const struct coord_capacity *c, size_t *out)
{
    size_t n = 0;

    for (size_t i = 0; i < c->count; i++) {
        size_t k;

        if (c->points[i].verdict == COORD_USELESS)
            continue;
        for (k = n++;
             k > 0 && c->points[out[k - 1]].probe.rate_per_s > c->points[i].probe.rate_per_s; k--)
            out[k] = out[k - 1];
        out[k] = i;
    }
    return n;
}

/* Neighbours in the order of rates that are taken for one, with their excess put together. */
struct block {
    double least; /* rates */
    double most;
    double excess;
    double weight;
};

static void join(struct block *into, const struct block *next)
{
    double weight = into->weight + next->weight;

    into->excess = (into->excess * into->weight + next->excess * next->weight) / weight;
    into->weight = weight;
    into->most = next->most;
}

/* One block a rate. */
static size_t blocks_of(const struct coord_capacity *c, const size_t *order, size_t n,
                        struct block *out)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        double rate = c->points[order[i]].probe.rate_per_s;
        struct block one = { rate, rate, excess(c, order[i]), c->tallies[order[i]].requests };

        if (count > 0 && out[count - 1].most >= rate)
            join(&out[count - 1], &one);
        else
            out[count++] = one;
    }
    return count;
}

/* Excess cannot fall while the rate grows: neighbours that say so are averaged (isotonic regression
 * by pooling adjacent violators; Ayer and others 1955). Where the result passes 1 is the bracket.
 */
static void find_bracket(struct coord_capacity *c, const size_t *order, size_t n)
{
    struct block blocks[COORD_CAPACITY_PROBES_MAX];
    size_t count = blocks_of(c, order, n, blocks), kept = 0;

    for (size_t i = 0; i < count; i++) {
        blocks[kept++] = blocks[i];
        for (; kept > 1 && blocks[kept - 2].excess > blocks[kept - 1].excess; kept--)
            join(&blocks[kept - 2], &blocks[kept - 1]);
    }
    c->holds = 0;
    c->breaks = INFINITY;
    for (size_t i = 0; i < kept; i++) {
        if (blocks[i].excess <= 1)
            c->holds = blocks[i].most;
        else
            c->breaks = fmin(c->breaks, blocks[i].least);
    }
}

/* All points anew: what one more probe shows of the scatter changes what the others are worth. */
static void bracket_all(struct coord_capacity *c)
{
    size_t order[COORD_CAPACITY_PROBES_MAX], n = by_rate(c, order);

    c->surely_holds = 0;
    c->surely_breaks = INFINITY;
    for (size_t i = 0; i < n; i++) {
        judge(c, order[i]);
        if (c->points[order[i]].verdict == COORD_BREAKS)
            c->surely_breaks = fmin(c->surely_breaks, c->points[order[i]].probe.rate_per_s);
    }
    for (size_t i = 0; i < n; i++) {
        double rate = c->points[order[i]].probe.rate_per_s;

        if (rate < c->surely_breaks &&
            (c->points[order[i]].verdict == COORD_HOLDS || c->points[order[i]].share <= 0))
            c->surely_holds = rate;
    }
    find_bracket(c, order, n);
}

static double half_width(const struct coord_capacity *c)
{
    return (c->fit.high - c->fit.low) / 2 / c->fit.rate;
}

static bool narrow_line(const struct coord_capacity *c)
{
    return c->fitted && c->fit_points >= POINTS_LEAST && half_width(c) <= c->set.precision;
}

static bool narrow_bracket(const struct coord_capacity *c)
{
    return c->surely_holds > 0 && isfinite(c->surely_breaks) &&
           c->surely_breaks / c->surely_holds - 1 <= 2 * c->set.precision;
}

/* ---- stages */

static void go_confirm(struct coord_capacity *c, double rate)
{
    c->stage = STAGE_CONFIRM;
    c->confirms++;
    plan(c, COORD_PROBE_CONFIRM, rate, c->set.confirm_ns);
}

/* The best rate to stand for: a little below the crossing, where the limits hold. */
static double candidate(const struct coord_capacity *c)
{
    if (c->fitted)
        return c->fit.rate * (1 - fmin(c->set.precision, half_width(c)) / 2);
    return fmax(c->holds, c->surely_holds);
}

static bool some_broke(const struct coord_capacity *c, size_t at)
{
    return c->tallies[at].breaking[c->points[at].limit] >= INFORMATIVE_LEAST;
}

static void go_search(struct coord_capacity *c)
{
    double rate, step;
    int64_t window_ns;

    c->stage = STAGE_SEARCH;
    if (narrow_line(c) || (!c->fitted && narrow_bracket(c))) {
        go_confirm(c, candidate(c));
        return;
    }
    if (c->fitted) {
        step = fmin(fmax(half_width(c), STEP_LEAST), STEP_MOST);
        rate = c->fit.rate * (c->up ? 1 + step : 1 - step);
        rate = fmin(fmax(rate, c->holds * 0.9), c->breaks * 1.1);
        c->up = !c->up;
    } else if (c->points[c->count - 1].verdict == COORD_UNCLEAR && some_broke(c, c->count - 1)) {
        /* It was near: what is needed is the line, and that wants another rate. */
        rate = c->points[c->count - 1].probe.rate_per_s *
               (c->up ? 1 + STEP_LEAST * 2 : 1 - STEP_LEAST * 2);
        c->up = !c->up;
    } else {
        rate = sqrt(c->holds * c->breaks);
    }
    window_ns = window_for(c, rate, TAIL_SEARCH);
    if (affordable(c, window_ns))
        plan(c, COORD_PROBE_SEARCH, rate, window_ns);
    else
        go_confirm(c, candidate(c));
}

/* Up by twos until it breaks, or down by twos until it holds. */
static void go_bracket(struct coord_capacity *c)
{
    double rate;
    int64_t window_ns;

    if (c->holds > 0 && isfinite(c->breaks)) {
        go_search(c);
        return;
    }
    if (c->holds <= 0 && isfinite(c->breaks))
        rate = c->breaks / 2;
    else
        rate = c->count == 0 ? c->set.first_per_s : fmax(c->holds, c->next.rate_per_s) * 2;
    if (isfinite(c->breaks) && c->breaks <= c->set.least_per_s) {
        finish(c, false, "the limits are broken at every rate down to %g/s (%s by %.3g %%)",
               c->set.least_per_s, c->limits[c->points[c->count - 1].limit].name,
               c->points[c->count - 1].share * 100);
        return;
    }
    if (c->holds >= c->ceiling) {
        c->answer.limited_by = c->ceiling_by;
        finish(c, false, "the limits hold at every rate up to %g/s, the most that %s", c->ceiling,
               c->ceiling_by == COORD_LIMITED_BY_CLIENT ? "the clients can offer" : "was allowed");
        return;
    }
    window_ns = window_for(c, clipped(c, rate), TAIL_BRACKET);
    if (affordable(c, window_ns))
        plan(c, COORD_PROBE_BRACKET, rate, window_ns);
    else
        finish(
            c, false,
            "the budget of %.0f s was used up before a rate was found at which the limits %s; at "
            "%g/s, %.3g %% of the requests broke %s",
            (double)c->set.budget_ns / 1e9, c->holds > 0 ? "break" : "hold",
            c->points[c->count - 1].probe.rate_per_s, c->points[c->count - 1].share * 100,
            c->limits[c->points[c->count - 1].limit].name);
}

/* The clients could not offer what was asked for: nothing above that. */
static void client_was_the_limit(struct coord_capacity *c, double rate)
{
    c->ceiling = fmin(c->ceiling, fmax(rate * 0.9, c->holds));
    c->ceiling_by = COORD_LIMITED_BY_CLIENT;
    if (c->ceiling <= c->set.least_per_s) {
        c->answer.limited_by = COORD_LIMITED_BY_CLIENT;
        finish(c, false, "the clients cannot offer %g/s", c->set.least_per_s);
    } else if (c->holds > 0 && c->ceiling <= c->holds * 1.02) {
        c->answer.limited_by = COORD_LIMITED_BY_CLIENT;
        finish(c, false, "the limits hold at %g/s, and the clients cannot offer more", c->holds);
    } else if (c->stage == STAGE_BRACKET) {
        plan(c, COORD_PROBE_BRACKET, c->ceiling, window_for(c, c->ceiling, TAIL_BRACKET));
    } else {
        go_search(c);
    }
}

static void useless(struct coord_capacity *c, const struct coord_capacity_point *point, bool died)
{
    c->deaths += died;
    c->useless++;
    if (c->deaths >= DEATHS_MOST) {
        finish(c, false, "%u probes ended early, the last at %g/s", c->deaths,
               point->probe.rate_per_s);
        return;
    }
    if (!died && point->limited_by == COORD_LIMITED_BY_CLIENT) {
        client_was_the_limit(c, point->probe.rate_per_s);
        return;
    }
    if (c->useless >= USELESS_MOST || !affordable(c, point->probe.window_ns)) {
        finish(c, false, "%u probes told nothing, the last at %g/s", c->useless,
               point->probe.rate_per_s);
        return;
    }
    plan(c, point->probe.kind, point->probe.rate_per_s, point->probe.window_ns); /* again */
}

/* Do the limits hold, as far as one run can tell? One that is just met is seen as broken one time
 * in twenty. */
static bool within(const struct coord_capacity *c, size_t at)
{
    for (uint32_t i = 0; i < c->set.limit_count; i++) {
        if (distance(c, at, i) > CONFIRM_DEVIATIONS)
            return false;
    }
    return true;
}

static void settle(struct coord_capacity *c)
{
    bool narrow = narrow_line(c) || (!c->fitted && narrow_bracket(c));
    int64_t more_ns = c->set.probe_ns + 2 * (c->set.confirm_ns + 2 * c->set.overhead_ns);

    if (!narrow && c->confirms < CONFIRMS_MOST && affordable(c, more_ns)) {
        go_search(c); /* the confirmations were points as well, and moved the line */
        return;
    }

    c->answer.limited_by = c->points[c->count - 1].limited_by;
    if (c->fitted && c->fit.misfit > MISFIT_MOST)
        finish(c, false,
               "probes at like rates differ %.1f times as much as chance would have it: the server "
               "changes over time",
               sqrt(c->fit.misfit));
    else if (narrow)
        finish(c, true, "the limits held at %g/s and were broken at %g/s", c->confirmed,
               c->points[c->count - 1].probe.rate_per_s);
    else
        finish(c, false, "the budget of %.0f s was used up before the interval was narrow",
               (double)c->set.budget_ns / 1e9);
}

static void after_confirm(struct coord_capacity *c, size_t at)
{
    double rate = c->points[at].probe.rate_per_s, lower;

    if (within(c, at)) {
        c->confirmed = rate;
        if (rate * (1 + c->set.above) > c->ceiling) {
            c->answer.limited_by = c->ceiling_by;
            finish(c, false, "the limits held at %g/s; %g/s is more than %s", rate,
                   rate * (1 + c->set.above),
                   c->ceiling_by == COORD_LIMITED_BY_CLIENT ? "the clients can offer"
                                                            : "was allowed");
            return;
        }
        c->stage = STAGE_ABOVE;
        plan(c, COORD_PROBE_ABOVE, rate * (1 + c->set.above), c->set.confirm_ns);
        return;
    }
    lower = fmin(candidate(c), rate * (1 - c->set.precision));
    if (c->confirms < CONFIRMS_MOST && lower >= c->set.least_per_s &&
        affordable(c, 2 * c->set.confirm_ns + c->set.overhead_ns))
        go_confirm(c, lower);
    else
        finish(c, false, "the limits did not hold in a confirmation at %g/s, at %.3g %% for %s",
               rate, c->points[at].share * 100, c->limits[c->points[at].limit].name);
}

static void after_above(struct coord_capacity *c, size_t at)
{
    if (!within(c, at)) {
        settle(c);
        return;
    }
    c->stage = STAGE_SEARCH;
    if (c->confirms < CONFIRMS_MOST && affordable(c, c->set.probe_ns)) {
        c->fitted = false; /* the window of rates around it was a wrong one */
        fit_all(c);
        c->stage = STAGE_BRACKET;
        go_bracket(c);
    } else {
        finish(c, false, "the limits held at %g/s, where they were expected to be broken",
               c->points[at].probe.rate_per_s);
    }
}

/* ---- one probe's outcome */

/* Variance of the batches' counts over what independent answers would have: at least 1. */
static double dispersion_of(const struct coord_capacity_seen *seen, uint32_t limit, double share)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < seen->batch_count; i++) {
        double requests = (double)seen->batches[i].requests;
        double off = (double)seen->batches[i].breaking[limit] - share * requests;

        if (requests <= 0)
            continue;
        sum += off * off / (requests * share * (1 - share));
        n++;
    }
    return n > 1 && share > 0 && share < 1 ? fmax(1, sum / (double)(n - 1)) : 1;
}

static enum ls_err add_up(const struct coord_capacity *c, const struct coord_capacity_seen *seen,
                          struct tally *out, struct ls_diag *diag)
{
    *out = (struct tally){ 0 };
    for (size_t i = 0; i < seen->batch_count; i++) {
        out->requests += (double)seen->batches[i].requests;
        for (uint32_t k = 0; k < c->set.limit_count; k++) {
            if (seen->batches[i].breaking[k] > seen->batches[i].requests)
                return ls_fail(
                    diag, LS_EINVAL, "%" PRIu64 " of %" PRIu64 " requests break the limit %s",
                    seen->batches[i].breaking[k], seen->batches[i].requests, c->limits[k].name);
            out->breaking[k] += (double)seen->batches[i].breaking[k];
        }
    }
    for (uint32_t k = 0; k < c->set.limit_count && out->requests > 0; k++)
        out->dispersion[k] = dispersion_of(seen, k, out->breaking[k] / out->requests);
    return LS_OK;
}

enum ls_err coord_capacity_create(const struct coord_capacity_settings *settings,
                                  struct coord_capacity **out, struct ls_diag *diag)
{
    struct coord_capacity *c;
    struct ls_rng rng;
    enum ls_err rc = check(settings, diag);

    if (rc != LS_OK)
        return rc;
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a search");
    c->set = *settings;
    (void)memcpy(c->limits, settings->limits, settings->limit_count * sizeof(*c->limits));
    c->set.limits = c->limits;
    ls_rng_init(&rng, settings->seed, 0);
    c->up = ls_rng_below(&rng, 2) == 1;
    c->breaks = INFINITY;
    c->ceiling = settings->most_per_s;
    pool_dispersion(c);
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
    size_t at = c->count - 1;
    const struct coord_capacity_point *point = &c->points[at];

    pool_dispersion(c);
    bracket_all(c);
    fit_all(c);
    if (c->stage == STAGE_CONFIRM)
        after_confirm(c, at);
    else if (c->stage == STAGE_ABOVE)
        after_above(c, at);
    else if (c->stage == STAGE_SEARCH)
        go_search(c);
    else if (point->verdict == COORD_UNCLEAR && c->holds <= 0 && !isfinite(c->breaks))
        plan(c, COORD_PROBE_BRACKET, point->probe.rate_per_s * 0.8,
             window_for(c, point->probe.rate_per_s * 0.8, TAIL_SEARCH));
    else
        go_bracket(c);
}

enum ls_err coord_capacity_report(struct coord_capacity *c, const struct coord_capacity_seen *seen,
                                  struct ls_diag *diag)
{
    struct coord_capacity_point *point = &c->points[c->count];
    enum ls_err rc;

    if (!c->has_next)
        return ls_fail(diag, LS_ESTATE, "the search has ended");
    rc = add_up(c, seen, &c->tallies[c->count], diag);
    if (rc != LS_OK)
        return rc;
    *point = (struct coord_capacity_point){ .probe = c->next,
                                            .verdict = COORD_UNCLEAR,
                                            .limited_by = seen->limited_by };
    if (seen->died || seen->limited_by == COORD_LIMITED_BY_CLIENT ||
        c->tallies[c->count].requests <= 0)
        point->verdict = COORD_USELESS;
    c->count++;
    c->has_next = false;
    c->used_ns += seen->took_ns;
    c->set.overhead_ns =
        seen->took_ns > point->probe.window_ns ? seen->took_ns - point->probe.window_ns : 0;
    if (c->count >= COORD_CAPACITY_PROBES_MAX)
        finish(c, false, "%u probes did not settle it", COORD_CAPACITY_PROBES_MAX);
    else if (point->verdict == COORD_USELESS)
        useless(c, point, seen->died);
    else
        go_on(c);
    return LS_OK;
}

void coord_capacity_answer(const struct coord_capacity *c, struct coord_capacity_answer *out)
{
    double best = c->confirmed > 0 ? c->confirmed : c->holds;

    *out = c->answer;
    out->rate_per_s = best > 0 ? best : candidate(c);
    out->found = out->rate_per_s > 0;
    out->low_per_s = fmin(c->fitted ? c->fit.low : c->surely_holds, out->rate_per_s);
    out->high_per_s = fmax(c->fitted ? c->fit.high : c->surely_breaks, out->rate_per_s);
}

size_t coord_capacity_points(const struct coord_capacity *c,
                             const struct coord_capacity_point **out_points)
{
    *out_points = c->points;
    return c->count;
}
