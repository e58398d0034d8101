#include "agent/build_law.h"

#include <stdlib.h>

#include "common/clock.h"

/* Longer than any checked plan has; what is below can be added up without a thought. */
#define TIME_MAX_NS (2 * 86400 * LS_NS_PER_S)

/* The rates of a law in the making. */
struct rates {
    struct ls_rate_piece *pieces; /* owned until handed over */
    size_t count;
    int64_t measure_at_ns; /* start of the measure window: the warm-up has its first rate */
};

static enum ls_err incomplete(struct ls_diag *diag)
{
    return ls_fail(diag, LS_EPROTO, "PREPARE came with an arrival law that is not complete");
}

static bool is_sane(int64_t ns)
{
    return ns >= 0 && ns <= TIME_MAX_NS;
}

static enum ls_err rates_init(struct rates *rates, const Ls__Workload *in, size_t count_max,
                              struct ls_diag *diag)
{
    if (in->warmup == NULL || in->measure == NULL || !is_sane(in->warmup->ns))
        return incomplete(diag);
    *rates = (struct rates){ .measure_at_ns = in->warmup->ns };
    rates->pieces = calloc(count_max + 1, sizeof(*rates->pieces)); /* one for the warm-up */
    return rates->pieces != NULL
               ? LS_OK
               : ls_fail(diag, LS_ENOMEM, "out of memory for %zu rates", count_max);
}

/* A rate, or an even change, from at_ns of the measure window on. */
static void rates_add(struct rates *rates, int64_t at_ns, double from_per_s, double to_per_s)
{
    if (rates->count == 0 && rates->measure_at_ns > 0)
        rates->pieces[rates->count++] =
            (struct ls_rate_piece){ .from_per_s = from_per_s, .to_per_s = from_per_s };
    rates->pieces[rates->count++] = (struct ls_rate_piece){ .at_ns = rates->measure_at_ns + at_ns,
                                                            .from_per_s = from_per_s,
                                                            .to_per_s = to_per_s };
}

static enum ls_err add_ramp(struct rates *rates, const Ls__Workload *in, struct ls_diag *diag)
{
    const Ls__Ramp *ramp = in->load->ramp;
    enum ls_err rc;

    if (ramp->from == NULL || ramp->to == NULL || ramp->over == NULL || !is_sane(ramp->over->ns))
        return incomplete(diag);
    rc = rates_init(rates, in, 2, diag);
    if (rc != LS_OK)
        return rc;
    rates_add(rates, 0, ramp->from->per_s, ramp->to->per_s);
    rates_add(rates, ramp->over->ns, ramp->to->per_s, ramp->to->per_s);
    return LS_OK;
}

static enum ls_err add_steps(struct rates *rates, const Ls__Workload *in, struct ls_diag *diag)
{
    const Ls__Steps *steps = in->load->steps;
    enum ls_err rc;

    if (steps->n_rates == 0 || steps->each == NULL || steps->each->ns <= 0 ||
        steps->each->ns > TIME_MAX_NS / (int64_t)steps->n_rates)
        return incomplete(diag);
    rc = rates_init(rates, in, steps->n_rates, diag);
    for (size_t i = 0; rc == LS_OK && i < steps->n_rates; i++)
        rates_add(rates, (int64_t)i * steps->each->ns, steps->rates[i]->per_s,
                  steps->rates[i]->per_s);
    return rc;
}

static enum ls_err add_trace(struct rates *rates, const Ls__Workload *in, struct ls_diag *diag)
{
    const Ls__Trace *trace = in->load->trace;
    enum ls_err rc = rates_init(rates, in, trace->n_points, diag);

    for (size_t i = 0; rc == LS_OK && i < trace->n_points; i++) {
        const Ls__TracePoint *point = trace->points[i];

        if (point->at == NULL || point->rate == NULL || !is_sane(point->at->ns))
            return incomplete(diag);
        rates_add(rates, point->at->ns, point->rate->per_s * trace->scale,
                  point->rate->per_s * trace->scale);
    }
    return rc;
}

static enum ls_err build_pieces(const Ls__Workload *in, struct load_workload *out,
                                struct ls_rate_piece **out_pieces, struct ls_diag *diag)
{
    struct rates rates = { 0 };
    enum ls_err rc;

    out->law = LOAD_LAW_PIECES;
    if (in->load->law_case == LS__LOAD__LAW_RAMP)
        rc = add_ramp(&rates, in, diag);
    else if (in->load->law_case == LS__LOAD__LAW_STEPS)
        rc = add_steps(&rates, in, diag);
    else
        rc = add_trace(&rates, in, diag);
    if (rc == LS_OK)
        rc = ls_rate_pieces_init(rates.pieces, rates.count, diag);
    if (rc != LS_OK) {
        free(rates.pieces);
        return rc;
    }
    out->pieces = *out_pieces = rates.pieces;
    out->piece_count = rates.count;
    return LS_OK;
}

static enum ls_err build_arrivals(const Ls__Workload *in, struct load_workload *out,
                                  struct ls_rate_piece **out_pieces, struct ls_diag *diag)
{
    const Ls__Load *load = in->load;

    switch (load->law_case) {
    case LS__LOAD__LAW_CLOSED:
        out->law = LOAD_LAW_CLOSED;
        out->count = load->closed->requests != NULL ? load->closed->requests->n : 0;
        return LS_OK;
    case LS__LOAD__LAW_CONSTANT:
        out->law = LOAD_LAW_CONSTANT;
        out->rate_per_s = load->constant->rate != NULL ? load->constant->rate->per_s : 0;
        out->queue_max = load->constant->queue;
        return LS_OK;
    case LS__LOAD__LAW_POISSON:
        out->law = LOAD_LAW_POISSON;
        out->rate_per_s = load->poisson->rate != NULL ? load->poisson->rate->per_s : 0;
        out->queue_max = load->poisson->queue;
        return LS_OK;
    case LS__LOAD__LAW_RAMP:
        out->queue_max = load->ramp->queue;
        return build_pieces(in, out, out_pieces, diag);
    case LS__LOAD__LAW_STEPS:
        out->queue_max = load->steps->queue;
        return build_pieces(in, out, out_pieces, diag);
    case LS__LOAD__LAW_TRACE:
        out->queue_max = load->trace->queue;
        return build_pieces(in, out, out_pieces, diag);
    case LS__LOAD__LAW_WAVES:
        out->law = LOAD_LAW_WAVES;
        out->count = load->waves->requests != NULL ? load->waves->requests->n : 0;
        return LS_OK;
    default:
        return ls_fail(diag, LS_EPROTO, "an arrival law that this agent does not know");
    }
}

enum ls_err agent_build_law(const Ls__Workload *in, struct load_workload *out,
                            struct ls_rate_piece **out_pieces, struct ls_diag *diag)
{
    const Ls__Lifetime *lifetime = in->lifetime;

    if (in->min_wait != NULL && !is_sane(in->min_wait->ns))
        return ls_fail(diag, LS_EPROTO, "PREPARE came with a min_wait out of range");
    if ((in->think != NULL && (in->think->mean == NULL || !is_sane(in->think->mean->ns))) ||
        (lifetime != NULL && lifetime->time != NULL && !is_sane(lifetime->time->ns)))
        return ls_fail(diag, LS_EPROTO, "PREPARE came with a think time or lifetime out of range");
    *out_pieces = NULL;
    out->frugal = in->pacing == LS__PACING__PACING_FRUGAL;
    out->min_wait_ns = in->min_wait != NULL ? in->min_wait->ns : 0;
    if (in->think != NULL) {
        out->think_ns = in->think->mean->ns;
        out->think_exponential =
            in->think->distribution == LS__DISTRIBUTION__DISTRIBUTION_EXPONENTIAL;
    }
    if (lifetime != NULL) {
        out->lifetime_requests = lifetime->requests != NULL ? lifetime->requests->n : 0;
        out->lifetime_ns = lifetime->time != NULL ? lifetime->time->ns : 0;
    }
    return build_arrivals(in, out, out_pieces, diag);
}
