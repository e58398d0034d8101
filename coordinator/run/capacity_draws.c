/* Where a server breaks that is another one in each probe.
 *
 * One that is started anew, or shares its machine, does not break at the same rate each time:
 * halving a bracket asks at each rate once and takes a draw for what is so. So each probe is a draw
 * that held or broke, with the odds of a psychometric function: P(broke) = e + (1 - 2e) Phi(ln(rate
 * / m) / s), where s is by how much the server differs and e a lapse, such as a burst far below
 * (Wichmann and Hill, Perception & Psychophysics 63, 2001). The interval is that of m in the
 * posterior over a grid of m and s, both flat in their logarithms. */
#include <math.h>

#include "coordinator/run/capacity_internal.h"
#include "coordinator/run/capacity_points.h"

#define LAPSE   0.02
#define AROUND  1.25 /* m is from the bracket's lower end over this to its upper end times this */
#define RATES   400u
#define SPREADS 5u
#define LEAST   0.004 /* s, doubled from one to the next: none repeats itself any better */
#define TAIL    0.025

static double broke_share(double rate_per_s, double at_per_s, double spread)
{
    return LAPSE + (1 - 2 * LAPSE) * 0.5 * erfc(-log(rate_per_s / at_per_s) / spread / sqrt(2));
}

static double likelihood(const struct coord_points *c, double at_per_s, double spread)
{
    double log_sum = 0;

    for (size_t i = 0; i < c->count; i++) {
        double broke;

        if (!coord_points_counts(c, i))
            continue;
        broke = broke_share(c->points[i].probe.rate_per_s, at_per_s, spread);
        log_sum += log(coord_points_held(c, i) ? 1 - broke : broke);
    }
    return exp(log_sum);
}

static double rate_of(double low, double high, double index)
{
    return low * pow(high / low, (index + 0.5) / RATES);
}

void coord_points_draw(struct coord_points *c)
{
    double low = c->holds / AROUND, high = c->breaks * AROUND, weights[RATES], sum = 0, below = 0;

    c->drawn_low = 0;
    c->drawn_high = INFINITY;
    if (!(c->holds > 0) || !isfinite(c->breaks))
        return;
    for (unsigned i = 0; i < RATES; i++) {
        weights[i] = 0;
        for (unsigned k = 0; k < SPREADS; k++)
            weights[i] += likelihood(c, rate_of(low, high, i), ldexp(LEAST, (int)k));
        sum += weights[i];
    }
    if (!(sum > 0))
        return;
    for (unsigned i = 0; i < RATES; i++) {
        if (below <= TAIL * sum)
            c->drawn_low = rate_of(low, high, i);
        if (below < (1 - TAIL) * sum)
            c->drawn_high = rate_of(low, high, i);
        below += weights[i];
    }
}

bool coord_points_contradict(const struct coord_points *c, double *out_held_per_s,
                             double *out_broke_per_s)
{
    double held = 0, broke = INFINITY;

    for (size_t i = 0; i < c->count; i++) {
        double rate = c->points[i].probe.rate_per_s;

        if (!coord_points_counts(c, i))
            continue;
        if (coord_points_held(c, i))
            held = fmax(held, rate);
        else
            broke = fmin(broke, rate);
    }
    *out_held_per_s = held;
    *out_broke_per_s = broke;
    return held >= broke;
}
