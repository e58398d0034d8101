#include "coordinator/result/latency.h"

#include <math.h>
#include <stdlib.h>

void coord_latency_fill(Ls__Latency *latency, const struct ls_hist *hist)
{
    latency->count = ls_hist_count(hist);
    latency->min_ns = ls_hist_min(hist);
    latency->mean_ns = ls_hist_mean(hist);
    latency->stdev_ns = ls_hist_stdev(hist);
    latency->p50_ns = ls_hist_quantile(hist, 0.50);
    latency->p75_ns = ls_hist_quantile(hist, 0.75);
    latency->p90_ns = ls_hist_quantile(hist, 0.90);
    latency->p99_ns = ls_hist_quantile(hist, 0.99);
    latency->p999_ns = ls_hist_quantile(hist, 0.999);
    latency->p9999_ns = ls_hist_quantile(hist, 0.9999);
    latency->max_ns = ls_hist_max(hist);
    latency->clipped = ls_hist_clipped(hist);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void coord_spread_fill(Ls__Spread *spread, double *values, size_t n)
{
    double sum = 0, squares = 0;

    qsort(values, n, sizeof(*values), by_size);
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    spread->n = (uint32_t)n;
    spread->min = values[0];
    spread->max = values[n - 1];
    spread->mean = sum / (double)n;
    spread->median = (values[(n - 1) / 2] + values[n / 2]) / 2;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - spread->mean) * (values[i] - spread->mean);
    spread->stdev = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}
