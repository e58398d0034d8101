/* Between which rates a capacity is, whatever the curve's shape. */
#include <math.h>

#include "coordinator/run/capacity_internal.h"
#include "coordinator/run/capacity_points.h"

#define LIKELY_DEVIATIONS 1.28 /* nine times in ten */
#define NOTHING_CLUSTERS  3.0  /* exp(-3) is a twentieth */

double coord_points_excess(const struct coord_points *c, size_t at)
{
    double most = 0;

    for (uint32_t k = 0; k < c->limit_count; k++)
        most = fmax(most, c->tallies[at].breaking[k] / c->tallies[at].requests /
                              c->limits[k].allowed_share);
    return fmin(most, COORD_POINTS_EXCESS_MOST);
}

/* Of two that contradict each other at one rate the longer one counts: something has disturbed the
 * short one, or it was too short. */
static bool is_overruled(const struct coord_points *c, size_t at)
{
    const struct coord_capacity_probe *probe = &c->points[at].probe;

    for (size_t i = 0; i < c->count; i++) {
        const struct coord_capacity_point *other = &c->points[i];

        if (other->verdict != COORD_USELESS && other->probe.rate_per_s == probe->rate_per_s &&
            other->probe.window_ns / COORD_POINTS_OVERRULES >= probe->window_ns &&
            coord_points_held(c, i) != coord_points_held(c, at))
            return true;
    }
    return false;
}

/* Useful points by their rates, lowest first. */
static size_t by_rate(const struct coord_points *c, size_t *out)
{
    size_t n = 0;

    for (size_t i = 0; i < c->count; i++) {
        size_t k;

        if (!coord_points_counts(c, i))
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
        struct block one = { rate, rate, coord_points_excess(c, order[i]),
                             c->tallies[order[i]].requests };

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
        if (blocks[i].excess <= 1) {
            c->holds = blocks[i].most;
        } else if (!isfinite(c->breaks)) { /* the first of them is the lowest */
            c->breaks = blocks[i].least;
            c->breaks_excess = blocks[i].excess;
        }
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
        double far = coord_points_distance(c, k, sum.breaking[k], sum.requests, rate_per_s);

        if (coord_points_is_looked_at(c, k, far) &&
            far >= (sum.breaking[k] > 0 ? -COORD_POINTS_DEVIATIONS : -sqrt(NOTHING_CLUSTERS)))
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
        if (coord_points_distance(c, k, sum.breaking[k], sum.requests, rate_per_s) >
            COORD_POINTS_DEVIATIONS)
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

/* Of what neighbours together call broken, a point that held is no evidence either: it may have
 * been short. */
static void find_surely_holds(struct coord_points *c, const size_t *order, size_t n)
{
    double most = fmin(c->breaks, c->surely_breaks);

    c->surely_holds = 0;
    while (n > 0 && c->points[order[n - 1]].probe.rate_per_s >= most)
        n--;
    for (size_t from = n; from-- > 0;) {
        const struct coord_capacity_probe *probe = &c->points[order[from]].probe;

        if (probe->rate_per_s <= c->surely_holds)
            return;
        for (size_t to = from; to < n; to++) {
            if (!together_hold(c, order, from, to))
                continue;
            c->surely_holds = fmax(c->surely_holds, sustained(c, probe));
            break;
        }
    }
}

/* Each limit, at that point, by a standard deviation at least. */
static bool holds_likely(const struct coord_points *c, size_t at)
{
    const struct coord_tally *t = &c->tallies[at];

    for (uint32_t k = 0; k < c->limit_count; k++) {
        double far = coord_points_distance(c, k, t->breaking[k], t->requests,
                                           c->points[at].probe.rate_per_s);

        if (coord_points_is_looked_at(c, k, far) && far > -LIKELY_DEVIATIONS)
            return false;
    }
    return true;
}

/* The largest rate at which one of the longest probes held. */
static void find_long_holds(struct coord_points *c, const size_t *order, size_t n)
{
    int64_t longest_ns = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t window_ns = c->points[order[i]].probe.window_ns;

        longest_ns = window_ns > longest_ns ? window_ns : longest_ns;
    }
    c->long_holds = 0;
    for (size_t i = 0; i < n; i++) {
        const struct coord_capacity_probe *probe = &c->points[order[i]].probe;

        if (probe->window_ns >= longest_ns / COORD_POINTS_OVERRULES &&
            probe->rate_per_s < c->breaks && holds_likely(c, order[i]))
            c->long_holds = fmax(c->long_holds, sustained(c, probe));
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
        if (blocks[i].excess > 1 && together_break(c, order, from, end - 1)) {
            c->surely_breaks = blocks[i].most;
            return;
        }
        from = end;
    }
}

void coord_points_bracket(struct coord_points *c)
{
    struct block blocks[COORD_CAPACITY_PROBES_MAX];
    size_t order[COORD_CAPACITY_PROBES_MAX], n, block_count;

    for (size_t i = 0; i < c->count; i++)
        c->points[i].overruled = c->points[i].verdict != COORD_USELESS && is_overruled(c, i);
    n = by_rate(c, order);
    block_count = pool_violators(c, order, n, blocks);
    find_bracket(c, blocks, block_count);
    find_surely_breaks(c, order, n, blocks, block_count);
    find_surely_holds(c, order, n);
    find_long_holds(c, order, n);
}

double coord_points_held_below(const struct coord_points *c, double rate_per_s)
{
    double most = 0;

    for (size_t i = 0; i < c->count; i++) {
        double rate = c->points[i].probe.rate_per_s;

        if (coord_points_counts(c, i) && rate < rate_per_s && rate < c->breaks &&
            coord_points_held(c, i))
            most = fmax(most, rate);
    }
    return most;
}

/* Beyond its scatter, or for so much longer than one that broke that it counts whatever that said.
 */
static bool surely_held(const struct coord_points *c, size_t at, size_t broke)
{
    const struct coord_capacity_point *point = &c->points[at];

    return point->verdict == COORD_HOLDS ||
           (point->verdict == COORD_UNCLEAR && coord_points_held(c, at) &&
            point->probe.window_ns / COORD_POINTS_OVERRULES >= c->points[broke].probe.window_ns);
}

bool coord_points_changed(const struct coord_points *c, bool *out_worse, double *out_held_per_s,
                          double *out_broke_per_s)
{
    for (size_t later = c->count; later-- > 0;) {
        for (size_t before = later; before-- > 0;) {
            bool worse = c->points[later].verdict == COORD_BREAKS;
            size_t held = worse ? before : later, broke = worse ? later : before;

            if (c->points[broke].verdict != COORD_BREAKS || !surely_held(c, held, broke) ||
                c->points[held].probe.rate_per_s < c->points[broke].probe.rate_per_s)
                continue;
            *out_worse = worse;
            *out_held_per_s = c->points[held].probe.rate_per_s;
            *out_broke_per_s = c->points[broke].probe.rate_per_s;
            return true;
        }
    }
    return false;
}
