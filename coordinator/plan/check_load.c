/* Arrival law, think time, lifetime, min-wait: what each says by itself, and together with the
 * rest. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/units.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/plan/plan_check_parts.h"
#include "coordinator/plan/trace_file.h"

#define QUEUE_MAX      10000000u
#define RATE_MAX_PER_S 1e9
#define SCALE_MAX      1e6
#define ARRIVALS_MAX   1e12 /* of a trial */

/* ---- parts ------------------------------------------------------------------------------------
 */

static void check_requests(struct coord_plan_checker *c, const ProtobufCMessage *law,
                           const Ls__Count *requests)
{
    if (requests == NULL)
        return;
    if (requests->n == 0)
        coord_plan_check_say(c, law, "requests", -1, "must be at least 1");
    else if (requests->n < c->clients)
        coord_plan_check_say(c, law, "requests", -1,
                             "%" PRIu64 " are too few for %" PRIu32
                             " clients: each takes at least one",
                             requests->n, c->clients);
    else if (requests->n > COORD_PLAN_SEED_MAX)
        coord_plan_check_say(c, law, "requests", -1, "is out of range: 1 to %" PRIu64,
                             COORD_PLAN_SEED_MAX);
}

bool coord_plan_check_rate(struct coord_plan_checker *c, const ProtobufCMessage *law,
                           const char *field, int index, const Ls__Rate *rate, bool may_be_zero)
{
    char text[48];

    if (rate == NULL)
        coord_plan_check_say(c, law, field, index, "is missing: write it like 20k/s");
    else if (!(rate->per_s > 0) && !(may_be_zero && rate->per_s == 0))
        coord_plan_check_say(c, law, field, index, "must be above 0");
    else if (rate->per_s > RATE_MAX_PER_S)
        coord_plan_check_say(c, law, field, index, "%s is out of range: up to %s",
                             ls_format_rate(rate->per_s, text, sizeof(text)), "1G/s");
    else
        return true;
    return false;
}

void coord_plan_check_queue(struct coord_plan_checker *c, const ProtobufCMessage *law,
                            uint32_t queue)
{
    coord_plan_check_range(c, law, "queue", queue, 0, QUEUE_MAX);
}

/* ---- laws -------------------------------------------------------------------------------------
 */

static void check_ramp(struct coord_plan_checker *c, const Ls__Workload *w, const Ls__Ramp *ramp)
{
    int64_t measure_ns = coord_load_measure_ns(w);
    bool from = coord_plan_check_rate(c, &ramp->base, "from", -1, ramp->from, true);
    bool to = coord_plan_check_rate(c, &ramp->base, "to", -1, ramp->to, true);
    char over[48], measure[48];

    if (from && to && ramp->from->per_s == 0 && ramp->to->per_s == 0)
        coord_plan_check_say(c, &ramp->base, "to", -1, "one of from and to must be above 0");
    if (ramp->over != NULL && ramp->over->ns > measure_ns)
        coord_plan_check_say(c, &ramp->base, "over", -1,
                             "%s is longer than the measurement of %s: shorten it",
                             ls_format_duration(ramp->over->ns, over, sizeof(over)),
                             ls_format_duration(measure_ns, measure, sizeof(measure)));
    else
        coord_plan_check_duration(c, &ramp->base, "over", ramp->over, LS_NS_PER_MS,
                                  COORD_PLAN_DAY_NS);
    coord_plan_check_queue(c, &ramp->base, ramp->queue);
}

static void check_steps_fill(struct coord_plan_checker *c, const Ls__Workload *w,
                             const Ls__Steps *steps)
{
    int64_t whole_ns = steps->each->ns * (int64_t)steps->n_rates;
    char each[48], whole[48];

    if (w->measure != NULL && w->measure->ns != whole_ns)
        coord_plan_check_say(c, &w->base, "measure", -1,
                             "%zu steps of %s make %s: leave it out, or change the steps",
                             steps->n_rates,
                             ls_format_duration(steps->each->ns, each, sizeof(each)),
                             ls_format_duration(whole_ns, whole, sizeof(whole)));
    else if (w->measure == NULL && (whole_ns < 100 * LS_NS_PER_MS || whole_ns > COORD_PLAN_DAY_NS))
        coord_plan_check_say(c, &steps->base, "each", -1,
                             "%zu steps make %s, which is out of range: 100ms to 24h",
                             steps->n_rates, ls_format_duration(whole_ns, whole, sizeof(whole)));
}

static void check_steps(struct coord_plan_checker *c, const Ls__Workload *w, const Ls__Steps *steps)
{
    bool any = false, fine = true;

    if (steps->n_rates == 0)
        coord_plan_check_say(c, &steps->base, "rates", -1,
                             "is missing: one rate for each step, such as [5k/s, 10k/s]");
    if (!coord_plan_check_few(c, &steps->base, "rates", steps->n_rates))
        return;
    for (size_t i = 0; i < steps->n_rates; i++) {
        fine =
            coord_plan_check_rate(c, &steps->base, "rates", (int)i, steps->rates[i], true) && fine;
        any = any || (fine && steps->rates[i]->per_s > 0);
    }
    if (steps->n_rates > 0 && fine && !any)
        coord_plan_check_say(c, &steps->base, "rates", -1, "one of them must be above 0");
    if (steps->each == NULL)
        coord_plan_check_say(c, &steps->base, "each", -1,
                             "is missing: how long a step lasts, such as 2s");
    else if (steps->each->ns < LS_NS_PER_MS || steps->each->ns > COORD_PLAN_DAY_NS)
        coord_plan_check_duration(c, &steps->base, "each", steps->each, LS_NS_PER_MS,
                                  COORD_PLAN_DAY_NS);
    else if (steps->n_rates > 0)
        check_steps_fill(c, w, steps);
    coord_plan_check_queue(c, &steps->base, steps->queue);
}

static void check_points(struct coord_plan_checker *c, const Ls__Workload *w,
                         const Ls__Trace *trace)
{
    int64_t measure_ns = coord_load_measure_ns(w);
    int64_t last_ns = -1;
    bool any = false;
    char at[48], measure[48];

    for (size_t i = 0; i < trace->n_points; i++) {
        const Ls__TracePoint *point = trace->points[i];

        if (point->at == NULL || (i == 0 ? point->at->ns != 0 : point->at->ns <= last_ns)) {
            coord_plan_check_say(c, &trace->base, "points", (int)i,
                                 i == 0 ? "the first one is at: 0s"
                                        : "needs an at that is later than that of the one before");
            return;
        }
        last_ns = point->at->ns;
        if (!coord_plan_check_rate(c, &trace->base, "points", (int)i, point->rate, true))
            return;
        if (point->rate->per_s * trace->scale > RATE_MAX_PER_S) {
            coord_plan_check_say(c, &trace->base, "scale", -1, "makes a rate of more than 1G/s");
            return;
        }
        any = any || point->rate->per_s > 0;
    }
    if (!any)
        coord_plan_check_say(c, &trace->base, trace->file != NULL ? "file" : "points", -1,
                             "one of the rates must be above 0");
    else if (last_ns >= measure_ns)
        coord_plan_check_say(
            c, &trace->base, trace->file != NULL ? "file" : "points", -1,
            "the last rate begins at %s, but the measurement lasts %s: lengthen measure",
            ls_format_duration(last_ns, at, sizeof(at)),
            ls_format_duration(measure_ns, measure, sizeof(measure)));
}

static void check_trace(struct coord_plan_checker *c, const Ls__Workload *w, const Ls__Trace *trace)
{
    if (trace->file == NULL && trace->n_points == 0)
        coord_plan_check_say(c, &trace->base, "file", -1,
                             "is missing: a file with lines of seconds and requests per second");
    if (!(trace->scale > 0 && trace->scale <= SCALE_MAX))
        coord_plan_check_say(c, &trace->base, "scale", -1, "is out of range: above 0 to 1000000");
    else if (trace->n_points > COORD_TRACE_POINTS_MAX)
        coord_plan_check_say(c, &trace->base, "points", -1, "there are %zu: at most %u are allowed",
                             trace->n_points, COORD_TRACE_POINTS_MAX);
    else if (trace->n_points > 0) /* none: the reason is known */
        check_points(c, w, trace);
    coord_plan_check_queue(c, &trace->base, trace->queue);
}

static bool is_room(const Ls__Workload *w)
{
    return w->protocol_case == LS__WORKLOAD__PROTOCOL_WEBSOCKET &&
           w->websocket->kind_case == LS__WEB_SOCKET__KIND_ROOM;
}

/* Where a workload has its pipeline. */
static const ProtobufCMessage *protocol_of(const Ls__Workload *w)
{
    return w->protocol_case == LS__WORKLOAD__PROTOCOL_HTTP ? &w->http->base : &w->websocket->base;
}

static void check_waves(struct coord_plan_checker *c, const Ls__Workload *w, const Ls__Waves *waves)
{
    if (!waves->has_size)
        coord_plan_check_say(c, &waves->base, "size", -1,
                             "is missing: how many requests a wave has");
    else
        coord_plan_check_range(c, &waves->base, "size", waves->size, 1, COORD_PLAN_CONNECTIONS_MAX);
    if (waves->size > 0 && waves->size < c->clients)
        coord_plan_check_say(c, &waves->base, "size", -1,
                             "%" PRIu32 " is too small for %" PRIu32
                             " clients: each sends a share of a wave",
                             waves->size, c->clients);
    if (waves->has_size && w->has_connections && w->connections != waves->size)
        coord_plan_check_say(c, &w->base, "connections", -1,
                             "waves have a connection for each request, %" PRIu32
                             " of them: leave it out",
                             waves->size);
    if (coord_load_pipeline(w) > 1 && !is_room(w))
        coord_plan_check_say(c, protocol_of(w), coord_load_is_http2(w) ? "streams" : "pipeline", -1,
                             "does not go with waves: they have one request on a connection");
    check_requests(c, &waves->base, waves->requests);
}

static void check_law(struct coord_plan_checker *c, const Ls__Workload *w)
{
    const Ls__Load *load = w->load;

    switch (load->law_case) {
    case LS__LOAD__LAW_CLOSED:
        check_requests(c, &load->closed->base, load->closed->requests);
        return;
    case LS__LOAD__LAW_CONSTANT:
        (void)coord_plan_check_rate(c, &load->constant->base, "rate", -1, load->constant->rate,
                                    false);
        coord_plan_check_queue(c, &load->constant->base, load->constant->queue);
        return;
    case LS__LOAD__LAW_POISSON:
        (void)coord_plan_check_rate(c, &load->poisson->base, "rate", -1, load->poisson->rate,
                                    false);
        coord_plan_check_queue(c, &load->poisson->base, load->poisson->queue);
        return;
    case LS__LOAD__LAW_RAMP:
        check_ramp(c, w, load->ramp);
        return;
    case LS__LOAD__LAW_STEPS:
        check_steps(c, w, load->steps);
        return;
    case LS__LOAD__LAW_TRACE:
        check_trace(c, w, load->trace);
        return;
    case LS__LOAD__LAW_WAVES:
        check_waves(c, w, load->waves);
        return;
    case LS__LOAD__LAW_CAPACITY:
        coord_plan_check_capacity(c, w, load->capacity);
        return;
    case LS__LOAD__LAW_LADDER:
        coord_plan_check_ladder(c, w, load->ladder);
        return;
    default:
        return; /* closed, by default */
    }
}

static void check_arrivals(struct coord_plan_checker *c, const Ls__Workload *w)
{
    int64_t warmup_ns = w->warmup != NULL ? w->warmup->ns : coord_load_default_warmup_ns(w);
    double arrivals = coord_load_offered_per_s(w) * (double)coord_load_measure_ns(w) / 1e9 +
                      coord_load_warmup_per_s(w) * (double)warmup_ns / 1e9;
    char text[48];

    if (arrivals > ARRIVALS_MAX)
        coord_plan_check_say(c, &w->base, "load", -1,
                             "makes %s requests in a trial: at most 1T are allowed",
                             ls_human_count(arrivals, text, sizeof(text)));
}

/* ---- connections ------------------------------------------------------------------------------
 */

static bool is_closed(const Ls__Workload *w)
{
    return w->load == NULL || w->load->law_case == LS__LOAD__LAW_CLOSED ||
           w->load->law_case == LS__LOAD__LAW__NOT_SET;
}

static void check_think(struct coord_plan_checker *c, const Ls__Workload *w)
{
    const Ls__Think *think = w->think;

    if (think->mean == NULL)
        coord_plan_check_say(c, &think->base, "mean", -1,
                             "is missing: how long a connection waits, such as 50ms");
    coord_plan_check_duration(c, &think->base, "mean", think->mean, 1000, 3600 * LS_NS_PER_S);
    if (!is_closed(w))
        coord_plan_check_say(c, &w->base, "think", -1,
                             "goes with a closed load only: other laws say themselves when "
                             "requests are due");
    else if (coord_load_pipeline(w) > 1)
        coord_plan_check_say(c, &w->base, "think", -1,
                             "does not go with %s: a connection waits for its answer, then thinks",
                             coord_load_is_http2(w) ? "several streams" : "a pipeline");
}

static void check_lifetime(struct coord_plan_checker *c, const Ls__Workload *w)
{
    const Ls__Lifetime *lifetime = w->lifetime;

    if (lifetime->requests == NULL && lifetime->time == NULL)
        coord_plan_check_say(c, &w->base, "lifetime", -1,
                             "needs requests, time, or both: {requests: 100, time: 10s}");
    if (lifetime->requests != NULL &&
        (lifetime->requests->n == 0 || lifetime->requests->n > COORD_PLAN_SEED_MAX))
        coord_plan_check_say(c, &lifetime->base, "requests", -1, "is out of range: 1 to %" PRIu64,
                             COORD_PLAN_SEED_MAX);
    coord_plan_check_duration(c, &lifetime->base, "time", lifetime->time, 100 * LS_NS_PER_MS,
                              COORD_PLAN_DAY_NS);
}

static void check_min_wait(struct coord_plan_checker *c, const Ls__Workload *w)
{
    coord_plan_check_duration(c, &w->base, "min_wait", w->min_wait, LS_NS_PER_US,
                              10 * LS_NS_PER_MS);
    if (!is_closed(w))
        coord_plan_check_say(c, &w->base, "min_wait", -1,
                             "goes with a closed load only: in others every answer is read as soon "
                             "as it is there");
    if (w->io == LS__IO__IO_LIBEV)
        coord_plan_check_say(c, &w->base, "min_wait", -1,
                             "needs io_uring: leave out io: libev, or min_wait");
    if (w->receive_stamps == LS__RECEIVE_STAMPS__RECEIVE_STAMPS_OFF)
        coord_plan_check_say(c, &w->base, "min_wait", -1,
                             "needs the kernel's receive stamps, which tell our wait from the "
                             "server's time: leave out receive_stamps: off, or min_wait");
}

void coord_plan_check_load(struct coord_plan_checker *c, const Ls__Workload *w)
{
    if (w->load != NULL) {
        check_law(c, w);
        check_arrivals(c, w);
    }
    if (w->think != NULL)
        check_think(c, w);
    if (w->lifetime != NULL)
        check_lifetime(c, w);
    if (w->min_wait != NULL)
        check_min_wait(c, w);
}
