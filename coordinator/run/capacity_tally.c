/* What a probe of a search came to, by itself. */
#include <inttypes.h>
#include <math.h>

#include "coordinator/run/capacity_internal.h"
#include "coordinator/run/capacity_points.h"
#include "coordinator/run/trend.h"

#define TREND_MOST  64u /* batches that are looked at */
#define TREND_LEVEL 0.01

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

bool coord_points_drifts(const struct coord_points *c, size_t at)
{
    const struct coord_tally *t = &c->tallies[at];
    uint32_t k = c->points[at].limit;

    return t->trend_p[k] < TREND_LEVEL &&
           fabs(t->last[k] - t->first[k]) > COORD_POINTS_TREND * c->limits[k].allowed_share;
}
