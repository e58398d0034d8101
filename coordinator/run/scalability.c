#include "coordinator/run/scalability.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"

#define TERMS      3
#define RESAMPLES  1000
#define EXPLAINED  0.9 /* less is no description */
#define PEAK_TRUST 1.0 /* of what was measured: a peak beyond that is an extrapolation */

double coord_usl_at(const struct coord_usl_law *law, double n)
{
    return law->per_s * n / (1 + law->contention * (n - 1) + law->coherency * n * (n - 1));
}

double coord_usl_peak(const struct coord_usl_law *law)
{
    if (!(law->coherency > 0))
        return INFINITY;
    return law->contention < 1 ? fmax(1, sqrt((1 - law->contention) / law->coherency)) : 1;
}

static void terms_of(double n, double out[TERMS])
{
    out[0] = 1;
    out[1] = n - 1;
    out[2] = n * (n - 1);
}

/* Sums of the normal equations: weights of (X / N)^2 make errors of N / X relative ones of X. */
struct sums {
    double m[TERMS][TERMS];
    double y[TERMS];
};

static void add_up(const struct coord_usl_point *points, size_t count, struct sums *out)
{
    (void)memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < count; i++) {
        double t[TERMS], target = points[i].n / points[i].per_s, w = 1 / (target * target);

        terms_of(points[i].n, t);
        for (int r = 0; r < TERMS; r++) {
            for (int c = 0; c < TERMS; c++)
                out->m[r][c] += w * t[r] * t[c];
            out->y[r] += w * t[r] * target;
        }
    }
}

/* Gauss with pivots over the terms of a mask; the others are 0. False: singular. */
static bool solve(const struct sums *s, unsigned mask, double out[TERMS])
{
    double a[TERMS][TERMS + 1];
    int at[TERMS], n = 0;

    for (int i = 0; i < TERMS; i++) {
        out[i] = 0;
        if ((mask >> i & 1) != 0)
            at[n++] = i;
    }
    for (int r = 0; r < n; r++) {
        for (int c = 0; c < n; c++)
            a[r][c] = s->m[at[r]][at[c]];
        a[r][n] = s->y[at[r]];
    }
    for (int k = 0; k < n; k++) {
        int pivot = k;

        for (int r = k + 1; r < n; r++)
            pivot = fabs(a[r][k]) > fabs(a[pivot][k]) ? r : pivot;
        if (!(fabs(a[pivot][k]) > 1e-12 * s->m[at[k]][at[k]]))
            return false;
        for (int c = 0; c <= n; c++) {
            double kept = a[k][c];

            a[k][c] = a[pivot][c];
            a[pivot][c] = kept;
        }
        for (int r = 0; r < n; r++) {
            double factor = r == k ? 0 : a[r][k] / a[k][k];

            for (int c = k; c <= n; c++)
                a[r][c] -= factor * a[k][c];
        }
    }
    for (int k = 0; k < n; k++)
        out[at[k]] = a[k][n] / a[k][k];
    return true;
}

/* Of the quadratic form whose minimum the equations are for; the constant is left out. */
static double loss(const struct sums *s, const double x[TERMS])
{
    double sum = 0;

    for (int r = 0; r < TERMS; r++) {
        sum -= 2 * x[r] * s->y[r];
        for (int c = 0; c < TERMS; c++)
            sum += x[r] * s->m[r][c] * x[c];
    }
    return sum;
}

static bool fit(const struct coord_usl_point *points, size_t count, struct coord_usl_law *out)
{
    double best = INFINITY;
    struct sums sums;

    add_up(points, count, &sums);
    for (unsigned mask = 1; mask < 1u << TERMS; mask += 2) { /* one always has its own rate */
        double x[TERMS], cost;

        if (!solve(&sums, mask, x) || x[0] <= 0 || x[1] < 0 || x[2] < 0)
            continue;
        cost = loss(&sums, x);
        if (cost >= best)
            continue;
        best = cost;
        *out = (struct coord_usl_law){ 1 / x[0], x[1] / x[0], x[2] / x[0] };
    }
    return isfinite(best);
}

/* ---- intervals */

struct resamples {
    double per_s[RESAMPLES];
    double contention[RESAMPLES];
    double coherency[RESAMPLES];
    double peak[RESAMPLES];
    size_t count;
};

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void interval(double *values, size_t count, double around, double *out_low, double *out_high)
{
    qsort(values, count, sizeof(*values), by_size);
    *out_low = fmin(values[(size_t)(0.025 * (double)count)], around);
    *out_high = fmax(values[(size_t)(0.975 * (double)count)], around);
}

/* Relative residuals, centred and as large as they would be of points that were not fitted to. */
static void residuals_of(const struct coord_usl_point *points, size_t count,
                         const struct coord_usl_law *law, double *out)
{
    double mean = 0;

    for (size_t i = 0; i < count; i++) {
        out[i] = points[i].per_s / coord_usl_at(law, points[i].n) - 1;
        mean += out[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++)
        out[i] = (out[i] - mean) * sqrt((double)count / fmax(1, (double)count - TERMS));
}

static void resample(const struct coord_usl_point *points, size_t count, uint64_t seed,
                     const struct coord_usl_law *law, struct resamples *out)
{
    struct coord_usl_point drawn[COORD_USL_POINTS_MOST];
    double residuals[COORD_USL_POINTS_MOST];
    struct ls_rng rng;

    residuals_of(points, count, law, residuals);
    ls_rng_init(&rng, seed, count);
    out->count = 0;
    for (int i = 0; i < RESAMPLES; i++) {
        struct coord_usl_law one;

        for (size_t k = 0; k < count; k++) {
            double factor = 1 + residuals[ls_rng_below(&rng, count)];

            drawn[k].n = points[k].n;
            drawn[k].per_s = coord_usl_at(law, points[k].n) * fmax(factor, 0.01);
        }
        if (!fit(drawn, count, &one))
            continue;
        out->per_s[out->count] = one.per_s;
        out->contention[out->count] = one.contention;
        out->coherency[out->count] = one.coherency;
        out->peak[out->count++] = coord_usl_peak(&one);
    }
}

static double explained(const struct coord_usl_point *points, size_t count,
                        const struct coord_usl_law *law)
{
    double mean = 0, left = 0, all = 0;

    for (size_t i = 0; i < count; i++)
        mean += points[i].per_s / (double)count;
    for (size_t i = 0; i < count; i++) {
        left += pow(points[i].per_s - coord_usl_at(law, points[i].n), 2);
        all += pow(points[i].per_s - mean, 2);
    }
    return all > 0 ? 1 - left / all : 1;
}

static bool enough(const struct coord_usl_point *points, size_t count)
{
    size_t different = 0;

    if (count > COORD_USL_POINTS_MOST)
        return false;
    for (size_t i = 0; i < count; i++) {
        bool again = false;

        if (!(points[i].per_s > 0) || !(points[i].n >= 1))
            return false;
        for (size_t k = 0; k < i; k++)
            again = again || fabs(points[k].n - points[i].n) < 0.5;
        different += !again;
    }
    return different >= COORD_USL_POINTS_LEAST;
}

bool coord_usl_fit(const struct coord_usl_point *points, size_t count, uint64_t seed,
                   struct coord_usl *out)
{
    struct resamples *drawn;
    struct coord_usl usl = { 0 };

    if (!enough(points, count) || !fit(points, count, &usl.law))
        return false;
    drawn = malloc(sizeof(*drawn));
    if (drawn == NULL)
        return false;
    resample(points, count, seed, &usl.law, drawn);
    if (drawn->count > 0) {
        size_t n = drawn->count;

        usl.peak_at = coord_usl_peak(&usl.law);
        interval(drawn->per_s, n, usl.law.per_s, &usl.low.per_s, &usl.high.per_s);
        interval(drawn->contention, n, usl.law.contention, &usl.low.contention,
                 &usl.high.contention);
        interval(drawn->coherency, n, usl.law.coherency, &usl.low.coherency, &usl.high.coherency);
        interval(drawn->peak, n, usl.peak_at, &usl.peak_low, &usl.peak_high);
    }
    free(drawn);
    usl.explained = explained(points, count, &usl.law);
    for (size_t i = 0; i < count; i++)
        usl.measured_to = fmax(usl.measured_to, points[i].n);
    *out = usl;
    return usl.high.per_s > 0;
}

const char *coord_usl_warn(const struct coord_usl *usl, char *out, size_t out_bytes)
{
    out[0] = '\0';
    if (usl->explained < EXPLAINED)
        (void)snprintf(out, out_bytes,
                       "the law describes only %.0f %% of how throughput changed: do not use it",
                       100 * fmax(0, usl->explained));
    else if (!(usl->low.coherency > 0))
        (void)snprintf(out, out_bytes,
                       "coherency may be 0, so that no peak can be told; nothing beyond %.0f was "
                       "measured",
                       usl->measured_to);
    else if (usl->peak_at > PEAK_TRUST * usl->measured_to)
        (void)snprintf(out, out_bytes,
                       "its peak at %.0f is an extrapolation: nothing beyond %.0f was measured",
                       usl->peak_at, usl->measured_to);
    return out;
}
