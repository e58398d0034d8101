#include "coordinator/result/latency.h"

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
