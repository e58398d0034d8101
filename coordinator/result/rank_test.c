#include "coordinator/result/rank_test.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define RUNS_MOST 1000u

struct ranked {
    double value;
    bool of_a;
    uint32_t rank2; /* twice the mean rank, so that ties stay whole numbers */
};

static int by_value(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    return (x->value > y->value) - (x->value < y->value);
}

/* Sorts, and gives ranks. Returns the sum of t^3 - t over groups of t equal values. */
static double rank_all(struct ranked *all, size_t n)
{
    double ties = 0;

    qsort(all, n, sizeof(*all), by_value);
    for (size_t i = 0, k; i < n; i = k) {
        double t;

        for (k = i + 1; k < n && all[k].value == all[i].value; k++) {}
        for (size_t at = i; at < k; at++)
            all[at].rank2 = (uint32_t)(i + 1 + k);
        t = (double)(k - i);
        ties += t * t * t - t;
    }
    return ties;
}

/* Of all ways to pick k of the n ranks, the share whose sum is at least as far from the mean as
 * that of sum2 (doubled, as the ranks). ways[j][s]: how many picks of j among the ranks so far add
 * up to s. */
static enum ls_err exact_p(const struct ranked *all, size_t n, size_t k, uint32_t sum2,
                           double *out_p)
{
    size_t sums = n * (n + 1) + 1; /* of all doubled ranks, and 0 */
    double *ways = calloc((k + 1) * sums, sizeof(*ways)), total = 0, far = 0;
    int64_t mean4 = (int64_t)(2 * k * (n + 1)), distance = llabs(2 * (int64_t)sum2 - mean4);

    if (ways == NULL)
        return LS_ENOMEM;
    ways[0] = 1;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1 < k ? i + 1 : k; j >= 1; j--) {
            for (size_t s = all[i].rank2; s < sums; s++)
                ways[j * sums + s] += ways[(j - 1) * sums + s - all[i].rank2];
        }
    }
    for (size_t s = 0; s < sums; s++) {
        total += ways[k * sums + s];
        if (llabs(2 * (int64_t)s - mean4) >= distance)
            far += ways[k * sums + s];
    }
    free(ways);
    *out_p = far / total;
    return LS_OK;
}

static double normal_p(double na, double nb, double sum, double ties)
{
    double n = na + nb, distance = fabs(sum - na * (n + 1) / 2) - 0.5;
    double variance = na * nb / 12 * (n + 1 - ties / (n * (n - 1)));

    if (variance <= 0 || distance <= 0)
        return 1;
    return erfc(distance / sqrt(2 * variance));
}

static bool fill(struct ranked *all, const double *values, size_t n, bool of_a)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            return false;
        all[i] = (struct ranked){ .value = values[i], .of_a = of_a };
    }
    return true;
}

enum ls_err coord_rank_test(const double *a, size_t na, const double *b, size_t nb, double *out_p)
{
    size_t n = na + nb;
    struct ranked *all;
    uint64_t sum2 = 0;
    double ties;
    enum ls_err rc = LS_EINVAL;

    if (na == 0 || nb == 0)
        return LS_EINVAL;
    all = calloc(n, sizeof(*all));
    if (all == NULL)
        return LS_ENOMEM;
    if (!fill(all, a, na, true) || !fill(all + na, b, nb, false))
        goto out;
    ties = rank_all(all, n);
    for (size_t i = 0; i < n; i++)
        sum2 += all[i].of_a ? all[i].rank2 : 0;
    rc = LS_OK;
    if (n <= COORD_RANK_EXACT_MAX)
        rc = exact_p(all, n, na, (uint32_t)sum2, out_p);
    else
        *out_p = normal_p((double)na, (double)nb, (double)sum2 / 2, ties);
out:
    free(all);
    return rc;
}

double coord_rank_least_p(size_t na, size_t nb)
{
    double ways = 1;

    for (size_t i = 1; i <= na; i++)
        ways *= (double)(nb + i) / (double)i;
    return ways > 2 ? 2 / ways : 1;
}

/* z with P(Z > z) = p, 0 < p < 1, by halving: erfc falls from 2 to 0. */
static double normal_upper(double p)
{
    double low = -40, high = 40;

    for (int i = 0; i < 200; i++) {
        double mid = (low + high) / 2;

        if (erfc(mid / sqrt(2)) / 2 > p)
            low = mid;
        else
            high = mid;
    }
    return (low + high) / 2;
}

/* Student's t with P(T > t) = P(Z > z), by the expansion of Cornish and Fisher in 1 / freedom. */
static double student_upper(double z, double freedom)
{
    double z3 = z * z * z, z5 = z3 * z * z;

    return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom);
}

unsigned coord_rank_runs_needed(double spread, double change, double level)
{
    const double efficiency = 3 / acos(-1.0), power = 0.8;
    double chance = normal_upper(level / 2), certainty = normal_upper(1 - power);
    unsigned n = 2;

    for (; n < RUNS_MOST; n++) {
        double freedom = 2 * (n - 1.0);
        double t = student_upper(chance, freedom) + student_upper(certainty, freedom);

        if (coord_rank_least_p(n, n) <= level && n >= 2 * pow(t * spread / change, 2) / efficiency)
            break;
    }
    return n;
}
