#include "coordinator/run/capacity_points.h"

#include <math.h>

#include "coordinator/run/capacity_internal.h"

#define CONFIRM_DEVIATIONS 1.645
#define DISPERSION_FIRST   50.0 /* of answers' clusters, until probes have shown it */
#define CLUSTER_ODDS       2.0  /* of points whose clusters are alike, from the allowed ones */
#define INFORMATIVE_LEAST  4.0  /* breaking requests of a point that the line is fitted to ... */
#define INFORMATIVE_ODDS   3.5  /* ... whose log odds are no more above the allowed ones */
#define INFORMATIVE_RATE   0.25 /* ... at a rate this near to the crossing, as a share */
#define POINTS_LEAST       4u   /* that an answer by a line rests on */
#define TREND_DEVIATIONS   3.0
#define SPARE_LEAST        0.05 /* of the rate where it breaks, which is not known any better */

static double odds_between(double share, double allowed)
{
    return log(share / (1 - share)) - log(allowed / (1 - allowed));
}

bool coord_points_counts(const struct coord_points *c, size_t at)
{
    return c->points[at].verdict != COORD_USELESS && !c->points[at].overruled;
}

static bool informative(const struct coord_points *c, size_t at, uint32_t limit, double around)
{
    const struct coord_tally *t = &c->tallies[at];
    double allowed = c->limits[limit].allowed_share, share = t->breaking[limit] / t->requests;
    bool near = around > 0 && fabs(c->points[at].probe.rate_per_s / around - 1) <= INFORMATIVE_RATE;

    if (!coord_points_counts(c, at) || t->requests <= 0 || share >= 1)
        return false;
    if (around > 0 ? !near : t->breaking[limit] < INFORMATIVE_LEAST)
        return false;
    return odds_between(share, allowed) <= INFORMATIVE_ODDS;
}

static bool is_near(const struct coord_points *c, size_t at, uint32_t limit)
{
    double share = c->tallies[at].breaking[limit] / c->tallies[at].requests;

    return informative(c, at, limit, 0) &&
           fabs(odds_between(share, c->limits[limit].allowed_share)) <= CLUSTER_ODDS;
}

/* Slow answers come in clusters, and those of neighbouring rates are alike: one dispersion for all
 * probes that saw some, which their batches tell better together than each its own. */
static void pool_dispersion(struct coord_points *c)
{
    for (uint32_t limit = 0; limit < c->limit_count; limit++) {
        double sum = 0, rates = 0, n = 0;

        for (size_t i = 0; i < c->count; i++) {
            if (!is_near(c, i, limit))
                continue;
            sum += c->tallies[i].dispersion[limit];
            rates += c->points[i].probe.rate_per_s;
            n++;
        }
        c->dispersion[limit] = n > 0 ? sum / n : DISPERSION_FIRST;
        c->dispersion_per_s[limit] = n > 0 ? rates / n : 0;
    }
}

/* A cluster is what comes while the server stands still, and until it has caught up, for which it
 * has what it could do beyond the rate: at a lower rate it is less in proportion, and ends sooner.
 */
static double dispersion_at(const struct coord_points *c, uint32_t limit, double rate_per_s)
{
    double per_s = c->dispersion_per_s[limit], least = SPARE_LEAST * c->breaks, share;

    if (per_s <= rate_per_s)
        return c->dispersion[limit];
    share = rate_per_s / per_s;
    if (isfinite(c->breaks))
        share *= fmax(c->breaks - per_s, least) / fmax(c->breaks - rate_per_s, least);
    return 1 + (c->dispersion[limit] - 1) * share;
}

static size_t gather(const struct coord_points *c, uint32_t limit, double around,
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

bool coord_points_held(const struct coord_points *c, size_t at)
{
    return coord_points_excess(c, at) <= 1;
}

static bool narrow_bracket(const struct coord_points *c)
{
    return coord_points_begin(c) > 0 && isfinite(c->surely_breaks) &&
           coord_points_end(c) / coord_points_begin(c) - 1 <= 2 * c->precision;
}

/* The limit whose line crosses first decides. A bracket that is narrow needs no line through a few
 * points, which may be bursts. */
static void fit_all(struct coord_points *c)
{
    struct coord_fit_point points[COORD_CAPACITY_PROBES_MAX];
    double around = c->fitted ? c->fit.rate : 0;

    c->fitted = false;
    for (uint32_t limit = 0; limit < c->limit_count; limit++) {
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
    if (c->fitted && c->fit_points < POINTS_LEAST && narrow_bracket(c))
        c->fitted = false;
}

double coord_points_distance(const struct coord_points *c, uint32_t limit, double breaking,
                             double requests, double rate_per_s)
{
    double allowed = c->limits[limit].allowed_share;
    double error = sqrt(allowed * (1 - allowed) * dispersion_at(c, limit, rate_per_s) / requests);

    return (breaking / requests - allowed) / error;
}

static double distance(const struct coord_points *c, size_t at, uint32_t limit)
{
    const struct coord_tally *t = &c->tallies[at];

    return coord_points_distance(c, limit, t->breaking[limit], t->requests,
                                 c->points[at].probe.rate_per_s);
}

bool coord_points_is_looked_at(const struct coord_points *c, uint32_t limit, double far)
{
    return far > 0 || !c->limits[limit].coarse;
}

static void judge(struct coord_points *c, size_t at)
{
    struct coord_capacity_point *point = &c->points[at];
    const struct coord_tally *t = &c->tallies[at];
    double worst = -INFINITY;

    point->limit = 0;
    for (uint32_t k = 0; k < c->limit_count; k++) {
        double far = distance(c, at, k);

        if (far <= worst || !coord_points_is_looked_at(c, k, far))
            continue;
        worst = far;
        point->limit = k;
    }
    point->share = t->breaking[point->limit] / t->requests;
    point->share_error =
        sqrt(point->share * (1 - point->share) *
             dispersion_at(c, point->limit, point->probe.rate_per_s) / t->requests);
    point->verdict = worst > COORD_POINTS_DEVIATIONS    ? COORD_BREAKS
                     : worst < -COORD_POINTS_DEVIATIONS ? COORD_HOLDS
                                                        : COORD_UNCLEAR;
}

/* Twice: what a point is worth depends on where the others say that it breaks. */
void coord_points_judge(struct coord_points *c)
{
    for (unsigned pass = 0; pass < 2; pass++) {
        pool_dispersion(c);
        for (size_t i = 0; i < c->count; i++) {
            if (c->points[i].verdict != COORD_USELESS)
                judge(c, i);
        }
        coord_points_bracket(c);
    }
    coord_points_draw(c);
    fit_all(c);
}

void coord_points_fit_anew(struct coord_points *c)
{
    c->fitted = false;
    fit_all(c);
}

double coord_points_half_width(const struct coord_points *c)
{
    return (c->fit.high - c->fit.low) / 2 / c->fit.rate;
}

static bool narrow_line(const struct coord_points *c)
{
    return c->fitted && c->fit_points >= POINTS_LEAST && coord_points_half_width(c) <= c->precision;
}

bool coord_points_narrow(const struct coord_points *c)
{
    return narrow_line(c) || (!c->fitted && narrow_bracket(c));
}

double coord_points_begin(const struct coord_points *c)
{
    return fmin(fmax(c->surely_holds, c->long_holds), c->drawn_low);
}

double coord_points_end(const struct coord_points *c)
{
    return fmax(c->surely_breaks, c->drawn_high);
}

double coord_points_candidate(const struct coord_points *c)
{
    if (c->fitted)
        return c->fit.rate * (1 - fmin(c->precision, coord_points_half_width(c)) / 2);
    return fmax(c->holds, c->surely_holds);
}

bool coord_points_some_broke(const struct coord_points *c, size_t at)
{
    return c->tallies[at].breaking[c->points[at].limit] >= INFORMATIVE_LEAST;
}

bool coord_points_within(const struct coord_points *c, size_t at)
{
    for (uint32_t i = 0; i < c->limit_count; i++) {
        if (distance(c, at, i) > (c->fitted ? CONFIRM_DEVIATIONS : 0))
            return false;
    }
    return true;
}

bool coord_points_warms_up(const struct coord_points *c, uint32_t limit, double *out_first,
                           double *out_last)
{
    double allowed = c->limits[limit].allowed_share, requests = 0, first = 0, last = 0;

    for (size_t i = 0; i < c->count; i++) {
        const struct coord_tally *t = &c->tallies[i];

        if (!is_near(c, i, limit))
            continue;
        requests += t->requests / 3;
        first += t->first[limit] * t->requests / 3;
        last += t->last[limit] * t->requests / 3;
    }
    if (requests <= 0 || first <= 0)
        return false;
    *out_first = first / requests;
    *out_last = last / requests;
    return *out_first - *out_last > COORD_POINTS_TREND * allowed &&
           (first - last) / sqrt((first + last) * c->dispersion[limit]) > TREND_DEVIATIONS;
}

bool coord_points_too_rare(const struct coord_points *c, double rate_per_s, int64_t most_ns,
                           int64_t *out_ns, uint32_t *out_limit)
{
    double longest = 0;

    for (uint32_t k = 0; k < c->limit_count; k++) {
        double ns = COORD_CAPACITY_TAIL_RARE / c->limits[k].allowed_share / rate_per_s * 1e9;

        if (c->limits[k].coarse || ns <= longest)
            continue;
        longest = ns;
        *out_limit = k;
    }
    if (longest <= (double)most_ns)
        return false;
    *out_ns = longest < (double)INT64_MAX ? (int64_t)longest : INT64_MAX;
    return true;
}

enum coord_limited_by coord_points_limited_by(const struct coord_points *c)
{
    enum coord_limited_by best = COORD_LIMITED_BY_UNKNOWN;
    size_t counts[COORD_LIMITED_BY_COUNT] = { 0 };

    for (size_t i = 0; i < c->count; i++) {
        enum coord_limited_by by = c->points[i].limited_by;

        if (c->points[i].verdict != COORD_BREAKS || c->points[i].overruled)
            continue;
        counts[by]++;
        if (counts[by] >= counts[best])
            best = by;
    }
    return best;
}
