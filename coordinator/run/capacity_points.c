#include "coordinator/run/capacity_points.h"

#include <inttypes.h>
#include <math.h>

#include "coordinator/run/trend.h"

#define STANDARD_DEVIATIONS 2.5 /* beyond which a probe alone decides */
#define CONFIRM_DEVIATIONS  1.645
#define DISPERSION_FIRST    50.0 /* of answers' clusters, until probes have shown it */
#define EXCESS_MOST         5.0
#define CLUSTER_ODDS        2.0  /* of points whose clusters are alike, from the allowed ones */
#define INFORMATIVE_LEAST   4.0  /* breaking requests of a point that the line is fitted to ... */
#define INFORMATIVE_ODDS    3.5  /* ... whose log odds are no more above the allowed ones */
#define INFORMATIVE_RATE    0.25 /* ... at a rate this near to the crossing, as a share */
#define POINTS_LEAST        4u   /* that an answer by a line rests on */
#define NOTHING_CLUSTERS    3.0  /* exp(-3) is a twentieth */
#define TREND_MOST          64u  /* batches that are looked at */
#define TREND_LEVEL         0.01
#define TREND_SIZE          0.5 /* of the allowed share */
#define TREND_DEVIATIONS    3.0

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

static double third(const struct coord_capacity_seen *seen, uint32_t limit, bool last)
{
    size_t n = seen->batch_count / 3, from = last ? seen->batch_count - n : 0;
    double requests = 0, breaking = 0;

    for (size_t i = from; i < from + n; i++) {
        requests += (double)seen->batches[i].requests;
        breaking += (double)seen->batches[i].breaking[limit];
    }
    return requests > 0 ? breaking / requests : 0;
}

static double trend_of(const struct coord_capacity_seen *seen, uint32_t limit)
{
    double shares[TREND_MOST];
    uint32_t n = 0;

    for (size_t i = 0; i < seen->batch_count && n < TREND_MOST; i++) {
        if (seen->batches[i].requests > 0)
            shares[n++] =
                (double)seen->batches[i].breaking[limit] / (double)seen->batches[i].requests;
    }
    return coord_trend_p(shares, n);
}

enum ls_err coord_points_add_up(const struct coord_points *c,
                                const struct coord_capacity_seen *seen, struct coord_tally *out,
                                struct ls_diag *diag)
{
    *out = (struct coord_tally){ 0 };
    for (size_t i = 0; i < seen->batch_count; i++) {
        out->requests += (double)seen->batches[i].requests;
        for (uint32_t k = 0; k < c->limit_count; k++) {
            if (seen->batches[i].breaking[k] > seen->batches[i].requests)
                return ls_fail(
                    diag, LS_EINVAL, "%" PRIu64 " of %" PRIu64 " requests break the limit %s",
                    seen->batches[i].breaking[k], seen->batches[i].requests, c->limits[k].name);
            out->breaking[k] += (double)seen->batches[i].breaking[k];
        }
    }
    for (uint32_t k = 0; k < c->limit_count && out->requests > 0; k++) {
        out->dispersion[k] = dispersion_of(seen, k, out->breaking[k] / out->requests);
        out->trend_p[k] = trend_of(seen, k);
        out->first[k] = third(seen, k, false);
        out->last[k] = third(seen, k, true);
    }
    return LS_OK;
}

/* ---- what the points say together */

static double odds_between(double share, double allowed)
{
    return log(share / (1 - share)) - log(allowed / (1 - allowed));
}

static bool informative(const struct coord_points *c, size_t at, uint32_t limit, double around)
{
    const struct coord_tally *t = &c->tallies[at];
    double allowed = c->limits[limit].allowed_share, share = t->breaking[limit] / t->requests;
    bool near = around > 0 && fabs(c->points[at].probe.rate_per_s / around - 1) <= INFORMATIVE_RATE;

    if (c->points[at].verdict == COORD_USELESS || t->requests <= 0 || share >= 1)
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

/* A cluster is what comes while the server stands still or catches up, which at a lower rate is
 * less in proportion, at the least. */
static double dispersion_at(const struct coord_points *c, uint32_t limit, double rate_per_s)
{
    double per_s = c->dispersion_per_s[limit];

    return per_s > rate_per_s ? 1 + (c->dispersion[limit] - 1) * rate_per_s / per_s
                              : c->dispersion[limit];
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

/* The limit whose line crosses first decides. */
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
}

/* How far above (positive) or below its allowed share a limit is, in standard deviations that a
 * share would have which is just the allowed one. */
static double distance_of(const struct coord_points *c, uint32_t limit, double breaking,
                          double requests, double rate_per_s)
{
    double allowed = c->limits[limit].allowed_share;
    double error = sqrt(allowed * (1 - allowed) * dispersion_at(c, limit, rate_per_s) / requests);

    return (breaking / requests - allowed) / error;
}

static double distance(const struct coord_points *c, size_t at, uint32_t limit)
{
    const struct coord_tally *t = &c->tallies[at];

    return distance_of(c, limit, t->breaking[limit], t->requests, c->points[at].probe.rate_per_s);
}

/* Of a coarse limit that is not broken, no more is asked. */
static bool is_looked_at(const struct coord_points *c, uint32_t limit, double far)
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

        if (far <= worst || !is_looked_at(c, k, far))
            continue;
        worst = far;
        point->limit = k;
    }
    point->share = t->breaking[point->limit] / t->requests;
    point->share_error =
        sqrt(point->share * (1 - point->share) *
             dispersion_at(c, point->limit, point->probe.rate_per_s) / t->requests);
    point->verdict = worst > STANDARD_DEVIATIONS    ? COORD_BREAKS
                     : worst < -STANDARD_DEVIATIONS ? COORD_HOLDS
                                                    : COORD_UNCLEAR;
}

/* How far a point is above its limits: 1 is just met. Beyond a few it is the same how far. */
static double excess(const struct coord_points *c, size_t at)
{
    double most = 0;

    for (uint32_t k = 0; k < c->limit_count; k++)
        most = fmax(most, c->tallies[at].breaking[k] / c->tallies[at].requests /
                              c->limits[k].allowed_share);
    return fmin(most, EXCESS_MOST);
}

/* Useful points by their rates, lowest first. */
static size_t by_rate(const struct coord_points *c, size_t *out)
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
static size_t blocks_of(const struct coord_points *c, const size_t *order, size_t n,
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
 * by pooling adjacent violators; Ayer and others 1955). Returns how many blocks are left. */
static size_t pool_violators(const struct coord_points *c, const size_t *order, size_t n,
                             struct block *out)
{
    size_t count = blocks_of(c, order, n, out), kept = 0;

    for (size_t i = 0; i < count; i++) {
        out[kept++] = out[i];
        for (; kept > 1 && out[kept - 2].excess > out[kept - 1].excess; kept--)
            join(&out[kept - 2], &out[kept - 1]);
    }
    return kept;
}

/* Where the excess passes 1 is the bracket. */
static void find_bracket(struct coord_points *c, const struct block *blocks, size_t n)
{
    c->holds = 0;
    c->breaks = INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (blocks[i].excess <= 1)
            c->holds = blocks[i].most;
        else
            c->breaks = fmin(c->breaks, blocks[i].least);
    }
}

/* Points of neighbouring rates, put together. */
static struct coord_tally together(const struct coord_points *c, const size_t *order, size_t from,
                                   size_t to)
{
    struct coord_tally sum = { 0 };

    for (size_t i = from; i <= to; i++) {
        sum.requests += c->tallies[order[i]].requests;
        for (uint32_t k = 0; k < c->limit_count; k++)
            sum.breaking[k] += c->tallies[order[i]].breaking[k];
    }
    return sum;
}

/* Do the limits surely hold at the lowest of them? The share grows with the rate, so there it is at
 * most theirs together. Where none broke a limit, of clusters that would if it were just met
 * NOTHING_CLUSTERS have to be missing. */
static bool together_hold(const struct coord_points *c, const size_t *order, size_t from, size_t to)
{
    struct coord_tally sum = together(c, order, from, to);
    double rate_per_s = c->points[order[to]].probe.rate_per_s;

    for (uint32_t k = 0; k < c->limit_count; k++) {
        double far = distance_of(c, k, sum.breaking[k], sum.requests, rate_per_s);

        if (is_looked_at(c, k, far) &&
            far >= (sum.breaking[k] > 0 ? -STANDARD_DEVIATIONS : -sqrt(NOTHING_CLUSTERS)))
            return false;
    }
    return true;
}

/* Are they surely broken at the highest of them? */
static bool together_break(const struct coord_points *c, const size_t *order, size_t from,
                           size_t to)
{
    struct coord_tally sum = together(c, order, from, to);
    double rate_per_s = c->points[order[to]].probe.rate_per_s;

    for (uint32_t k = 0; k < c->limit_count; k++) {
        if (distance_of(c, k, sum.breaking[k], sum.requests, rate_per_s) > STANDARD_DEVIATIONS)
            return true;
    }
    return false;
}

/* An overload is not seen until its backlog is as long as the limit: in a window a rate may hold
 * that is above what can be sustained by the limit's share of it. */
static double sustained(const struct coord_points *c, const struct coord_capacity_probe *probe)
{
    int64_t longest_ns = 0;

    for (uint32_t k = 0; k < c->limit_count; k++)
        longest_ns = c->limits[k].limit_ns > longest_ns ? c->limits[k].limit_ns : longest_ns;
    return probe->rate_per_s * fmax(0, 1 - (double)longest_ns / (double)probe->window_ns);
}

static void find_surely_holds(struct coord_points *c, const size_t *order, size_t n)
{
    while (n > 0 && c->points[order[n - 1]].probe.rate_per_s >= c->surely_breaks)
        n--;
    for (size_t from = n; from-- > 0;) {
        for (size_t to = from; to < n; to++) {
            if (!together_hold(c, order, from, to))
                continue;
            c->surely_holds = sustained(c, &c->points[order[from]].probe);
            return;
        }
    }
}

/* Of one block after the other: a single point that broke, among others at higher rates that did
 * not, is no evidence. */
static void find_surely_breaks(struct coord_points *c, const size_t *order, size_t n,
                               const struct block *blocks, size_t block_count)
{
    size_t from = 0;

    c->surely_breaks = INFINITY;
    for (size_t i = 0; i < block_count && from < n; i++) {
        size_t end = from;

        while (end < n && c->points[order[end]].probe.rate_per_s <= blocks[i].most)
            end++;
        if (together_break(c, order, from, end - 1)) {
            c->surely_breaks = blocks[i].most;
            return;
        }
        from = end;
    }
}

static void bracket_all(struct coord_points *c)
{
    struct block blocks[COORD_CAPACITY_PROBES_MAX];
    size_t order[COORD_CAPACITY_PROBES_MAX], n = by_rate(c, order);
    size_t block_count = pool_violators(c, order, n, blocks);

    for (size_t i = 0; i < n; i++)
        judge(c, order[i]);
    c->surely_holds = 0;
    find_surely_breaks(c, order, n, blocks, block_count);
    find_surely_holds(c, order, n);
    find_bracket(c, blocks, block_count);
}

void coord_points_judge(struct coord_points *c)
{
    pool_dispersion(c);
    bracket_all(c);
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

static bool narrow_bracket(const struct coord_points *c)
{
    return c->surely_holds > 0 && isfinite(c->surely_breaks) &&
           c->surely_breaks / c->surely_holds - 1 <= 2 * c->precision;
}

bool coord_points_narrow(const struct coord_points *c)
{
    return narrow_line(c) || (!c->fitted && narrow_bracket(c));
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

double coord_points_held_up_to(const struct coord_points *c, double rate_per_s)
{
    double most = 0;

    for (size_t i = 0; i < c->count; i++) {
        double rate = c->points[i].probe.rate_per_s;

        if (c->points[i].verdict != COORD_USELESS && rate <= rate_per_s && rate < c->breaks &&
            excess(c, i) <= 1)
            most = fmax(most, rate);
    }
    return most;
}

bool coord_points_drifts(const struct coord_points *c, size_t at)
{
    const struct coord_tally *t = &c->tallies[at];
    uint32_t k = c->points[at].limit;

    return t->trend_p[k] < TREND_LEVEL &&
           fabs(t->last[k] - t->first[k]) > TREND_SIZE * c->limits[k].allowed_share;
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
    return *out_first - *out_last > TREND_SIZE * allowed &&
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

        if (c->points[i].verdict != COORD_BREAKS)
            continue;
        counts[by]++;
        if (counts[by] >= counts[best])
            best = by;
    }
    return best;
}
