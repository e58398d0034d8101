#include "coordinator/run/capacity_fit.h"

#include <math.h>

#define SCORINGS 50
#define Z95      1.959964

/* Sums over the points that the normal equations of a weighted line need, x around a centre. */
struct sums {
    double w, wx, wxx, wy, wxy;
};

struct line {
    double a, b; /* log odds = a + b x */
};

static double odds_log(double share)
{
    return log(share / (1 - share));
}

static double share_of(const struct line *line, double x)
{
    double share = 1 / (1 + exp(-(line->a + line->b * x)));

    return fmin(fmax(share, 1e-12), 1 - 1e-12);
}

static bool solve(const struct sums *s, struct line *out)
{
    double det = s->w * s->wxx - s->wx * s->wx;

    if (!(det > 1e-12 * s->w * s->wxx))
        return false;
    out->a = (s->wxx * s->wy - s->wx * s->wxy) / det;
    out->b = (s->w * s->wxy - s->wx * s->wy) / det;
    return isfinite(out->a) && isfinite(out->b);
}

static void add(struct sums *s, double w, double x, double y)
{
    s->w += w;
    s->wx += w * x;
    s->wxx += w * x * x;
    s->wy += w * y;
    s->wxy += w * x * y;
}

/* From the shares themselves, half a count added so that none is infinite. */
static bool begin(const struct coord_fit_point *points, size_t count, double centre,
                  struct line *out)
{
    struct sums s = { 0 };

    for (size_t i = 0; i < count; i++) {
        double n = points[i].requests, k = points[i].breaking;
        double share = (k + 0.5) / (n + 1);

        add(&s, n * share * (1 - share) / points[i].dispersion, points[i].rate / centre - 1,
            odds_log(share));
    }
    return solve(&s, out);
}

/* One step of Fisher scoring; the sums are those of the weights at the line that came in. */
static bool score(const struct coord_fit_point *points, size_t count, double centre,
                  struct line *line, struct sums *out_sums)
{
    struct sums s = { 0 };

    for (size_t i = 0; i < count; i++) {
        double x = points[i].rate / centre - 1, n = points[i].requests;
        double share = share_of(line, x), variance = share * (1 - share);

        add(&s, n * variance / points[i].dispersion, x,
            line->a + line->b * x + (points[i].breaking / n - share) / variance);
    }
    *out_sums = s;
    return solve(&s, line);
}

static double misfit_of(const struct coord_fit_point *points, size_t count, double centre,
                        const struct line *line)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++) {
        double n = points[i].requests, share = share_of(line, points[i].rate / centre - 1);
        double off = points[i].breaking - n * share;

        sum += off * off / (n * share * (1 - share) * points[i].dispersion);
    }
    return count > 2 ? sum / (double)(count - 2) : 1;
}

/* 97.5 % of Student's t, by Cornish and Fisher's expansion (Abramowitz and Stegun, 26.7.5). */
static double student(double freedom)
{
    double z = Z95, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z, v = 1 / freedom;

    return z + (z3 + z) / 4 * v + (5 * z5 + 16 * z3 + 3 * z) / 96 * v * v +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384 * v * v * v;
}

/* Fieller's interval of (level - a) / b, whose estimates scatter by the inverse of the sums' matrix
 * times scale. False: b may be 0, so that the crossing has no bounds. */
static bool fieller(const struct sums *s, const struct line *line, double level, double scale,
                    double deviations, double *out_low, double *out_high)
{
    double det = s->w * s->wxx - s->wx * s->wx;
    double vaa = scale * s->wxx / det, vab = -scale * s->wx / det, vbb = scale * s->w / det;
    double g = deviations * deviations * vbb / (line->b * line->b), x = (level - line->a) / line->b,
           under, root;

    if (!(g < 0.5))
        return false;
    /* Of the line's height at x, seen along the rate axis. */
    under = vaa + 2 * x * vab + x * x * vbb - g * (vaa - vab * vab / vbb);
    root = deviations / line->b * sqrt(fmax(under, 0));
    *out_low = (x + g * vab / vbb - root) / (1 - g);
    *out_high = (x + g * vab / vbb + root) / (1 - g);
    return true;
}

bool coord_fit_crossing(const struct coord_fit_point *points, size_t count, double allowed_share,
                        struct coord_fit *out)
{
    double centre = 0, level = odds_log(allowed_share), low, high, scale;
    struct line line;
    struct sums sums;

    if (count < 2)
        return false;
    for (size_t i = 0; i < count; i++)
        centre += points[i].rate / (double)count;
    if (!begin(points, count, centre, &line))
        return false;
    for (int i = 0; i < SCORINGS; i++) {
        struct line before = line;

        if (!score(points, count, centre, &line, &sums))
            return false;
        if (fabs(line.a - before.a) + fabs(line.b - before.b) < 1e-9)
            break;
    }
    if (!(line.b > 0))
        return false;
    out->misfit = misfit_of(points, count, centre, &line);
    scale = fmax(1, out->misfit);
    /* By how much points scatter that scatter by more than their batches say is known from them
     * alone. */
    if (!fieller(&sums, &line, level, scale,
                 out->misfit > 1 && count > 2 ? student((double)count - 2) : Z95, &low, &high))
        return false;
    out->rate = centre * (1 + (level - line.a) / line.b);
    out->low = centre * (1 + low);
    out->high = centre * (1 + high);
    out->slope = line.b * out->rate / centre;
    return out->rate > 0 && isfinite(out->rate);
}
