#include "coordinator/run/trend.h"

#include <math.h>
#include <string.h>

/* P(|S| >= s) for n values in random order. The number of permutations with k inversions is the
 * coefficient of x^k in the product of (1 + x + ... + x^(i-1)); S = pairs - 2 k. */
static double exact_p(uint32_t n, int64_t s)
{
    enum { MOST = 30, PAIRS = MOST * (MOST - 1) / 2 };
    double share[PAIRS + 1] = { 1 }, next[PAIRS + 1], p = 0;
    int64_t pairs = (int64_t)n * (n - 1) / 2;

    for (uint32_t i = 2; i <= n; i++) {
        for (int64_t k = 0; k <= pairs; k++) {
            next[k] = 0;
            for (int64_t back = 0; back < i && back <= k; back++)
                next[k] += share[k - back] / i;
        }
        (void)memcpy(share, next, sizeof(share));
    }
    for (int64_t k = 0; k <= pairs; k++) {
        int64_t one = pairs - 2 * k;

        p += (one < 0 ? -one : one) >= s ? share[k] : 0;
    }
    return p < 1 ? p : 1;
}

double coord_trend_p(const double *values, uint32_t n)
{
    int64_t s = 0;
    double variance;

    if (n < 3)
        return 1;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = i + 1; k < n; k++)
            s += (values[k] > values[i]) - (values[k] < values[i]);
    }
    s = s < 0 ? -s : s;
    if (n <= 30)
        return exact_p(n, s);
    variance = (double)n * (n - 1) * (2.0 * n + 5) / 18;
    return s == 0 ? 1 : erfc(((double)s - 1) / sqrt(variance) / sqrt(2));
}
