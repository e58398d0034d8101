#include "coordinator/plan/load_law.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/units.h"
#include "coordinator/plan/plan_check_parts.h"
#include "coordinator/plan/trials.h"

/* ---- kinds ------------------------------------------------------------------------------------
 */

bool coord_load_is_open(const Ls__Workload *w)
{
    return w->load->law_case != LS__LOAD__LAW_CLOSED && w->load->law_case != LS__LOAD__LAW_WAVES &&
           w->load->law_case != LS__LOAD__LAW_LADDER;
}

bool coord_load_is_fixed_count(const Ls__Workload *w)
{
    return (w->load->law_case == LS__LOAD__LAW_CLOSED && w->load->closed->requests != NULL) ||
           (w->load->law_case == LS__LOAD__LAW_WAVES && w->load->waves->requests != NULL);
}

bool coord_load_is_steady(const Ls__Workload *w)
{
    return w->load->law_case != LS__LOAD__LAW_RAMP && w->load->law_case != LS__LOAD__LAW_STEPS &&
           w->load->law_case != LS__LOAD__LAW_TRACE;
}

bool coord_load_is_search(const Ls__Workload *w)
{
    return w->load != NULL && w->load->law_case == LS__LOAD__LAW_CAPACITY;
}

bool coord_load_is_ladder(const Ls__Workload *w)
{
    return w->load != NULL && w->load->law_case == LS__LOAD__LAW_LADDER;
}

static int64_t given_or(const Ls__Duration *duration, int64_t otherwise_ns)
{
    return duration != NULL ? duration->ns : otherwise_ns;
}

static int64_t part_of(int64_t ns, int64_t parts, int64_t least_ns, int64_t most_ns)
{
    int64_t part_ns = ns / parts;

    return part_ns < least_ns ? least_ns : part_ns > most_ns ? most_ns : part_ns;
}

int64_t coord_capacity_budget_ns(const Ls__Capacity *capacity)
{
    return given_or(capacity->budget, COORD_DEFAULT_CAPACITY_BUDGET_NS);
}

int64_t coord_capacity_probe_ns(const Ls__Capacity *capacity)
{
    return given_or(capacity->probe,
                    part_of(coord_capacity_budget_ns(capacity), 60, LS_NS_PER_S, 2 * LS_NS_PER_S));
}

int64_t coord_capacity_longest_ns(const Ls__Capacity *capacity)
{
    int64_t least_ns = coord_capacity_probe_ns(capacity);
    int64_t ns =
        given_or(capacity->longest_probe, part_of(coord_capacity_budget_ns(capacity), 12,
                                                  LS_NS_PER_S, COORD_DEFAULT_CAPACITY_LONGEST_NS));

    return capacity->longest_probe == NULL && ns < least_ns ? least_ns : ns;
}

int64_t coord_capacity_confirm_ns(const Ls__Capacity *capacity)
{
    return given_or(capacity->confirm, part_of(coord_capacity_budget_ns(capacity), 12, LS_NS_PER_S,
                                               COORD_DEFAULT_CAPACITY_CONFIRM_NS));
}

int64_t coord_load_profile_ns(const Ls__Workload *w)
{
    const Ls__Capacity *capacity = coord_load_is_search(w) ? w->load->capacity : NULL;
    int64_t step_ns, around_ns;

    if (capacity == NULL || !capacity->profile)
        return 0;
    step_ns = capacity->profile_step != NULL ? capacity->profile_step->ns
                                             : COORD_DEFAULT_CAPACITY_STEP_NS;
    around_ns = COORD_TRIAL_OVERHEAD_NS +
                (w->warmup != NULL ? w->warmup->ns : coord_load_default_warmup_ns(w));
    return COORD_PROFILE_STEP_COUNT * step_ns +
           COORD_PROFILE_BURST_COUNT * (COORD_PROFILE_BURST_NS + COORD_PROFILE_REST_NS) +
           COORD_PROFILE_REST_NS + 2 * around_ns;
}

int64_t coord_load_parts_ns(const Ls__Workload *w)
{
    if (coord_load_is_search(w))
        return coord_capacity_budget_ns(w->load->capacity);
    if (coord_load_is_ladder(w))
        return (int64_t)(w->load->ladder->n_connections * w->load->ladder->passes) *
               (w->load->ladder->each->ns + w->warmup->ns + COORD_TRIAL_OVERHEAD_NS);
    return 0;
}

int64_t coord_load_default_warmup_ns(const Ls__Workload *w)
{
    return coord_load_is_search(w) || coord_load_is_ladder(w) ? COORD_DEFAULT_CAPACITY_WARMUP_NS
                                                              : COORD_DEFAULT_WARMUP_NS;
}

bool coord_load_has_gaps(const Ls__Workload *w)
{
    return w->load->law_case == LS__LOAD__LAW_WAVES || w->think != NULL || w->lifetime != NULL;
}

bool coord_load_is_http2(const Ls__Workload *w)
{
    return w->protocol_case == LS__WORKLOAD__PROTOCOL_HTTP &&
           w->http->version == LS__HTTP_VERSION__HTTP_VERSION_HTTP2;
}

uint32_t coord_load_pipeline(const Ls__Workload *w)
{
    switch (w->protocol_case) {
    case LS__WORKLOAD__PROTOCOL_HTTP:
        return coord_load_is_http2(w) ? w->http->streams : w->http->pipeline;
    case LS__WORKLOAD__PROTOCOL_WEBSOCKET:
        return w->websocket->pipeline;
    default:
        return 1;
    }
}

uint32_t coord_load_queue(const Ls__Workload *w)
{
    switch (w->load->law_case) {
    case LS__LOAD__LAW_CONSTANT:
        return w->load->constant->queue;
    case LS__LOAD__LAW_POISSON:
        return w->load->poisson->queue;
    case LS__LOAD__LAW_RAMP:
        return w->load->ramp->queue;
    case LS__LOAD__LAW_STEPS:
        return w->load->steps->queue;
    case LS__LOAD__LAW_TRACE:
        return w->load->trace->queue;
    case LS__LOAD__LAW_CAPACITY:
        return w->load->capacity->queue;
    default:
        return 0;
    }
}

/* ---- rates ------------------------------------------------------------------------------------
 */

int64_t coord_load_measure_ns(const Ls__Workload *w)
{
    const Ls__Steps *steps =
        w->load != NULL && w->load->law_case == LS__LOAD__LAW_STEPS ? w->load->steps : NULL;

    if (w->measure != NULL)
        return w->measure->ns;
    if (coord_load_is_ladder(w))
        return w->load->ladder->each != NULL ? w->load->ladder->each->ns
                                             : COORD_DEFAULT_LADDER_EACH_NS;
    if (coord_load_is_search(w))
        return coord_capacity_confirm_ns(w->load->capacity);
    if (steps == NULL)
        return COORD_DEFAULT_MEASURE_NS;
    if (steps->each == NULL || steps->each->ns <= 0 || steps->n_rates == 0 ||
        steps->each->ns > INT64_MAX / (int64_t)steps->n_rates)
        return 0;
    return steps->each->ns * (int64_t)steps->n_rates;
}

static double per_s(const Ls__Rate *rate)
{
    return rate != NULL ? rate->per_s : 0;
}

static double ramp_mean(const Ls__Ramp *ramp, int64_t measure_ns)
{
    double share = 1;

    if (ramp->over != NULL && measure_ns > 0 && ramp->over->ns < measure_ns)
        share = (double)ramp->over->ns / (double)measure_ns;
    return (per_s(ramp->from) + per_s(ramp->to)) / 2 * share + per_s(ramp->to) * (1 - share);
}

static double steps_mean(const Ls__Steps *steps)
{
    double sum = 0;

    for (size_t i = 0; i < steps->n_rates; i++)
        sum += per_s(steps->rates[i]);
    return steps->n_rates > 0 ? sum / (double)steps->n_rates : 0;
}

static double trace_mean(const Ls__Trace *trace, int64_t measure_ns)
{
    double sum = 0;

    for (size_t i = 0; i < trace->n_points; i++) {
        const Ls__TracePoint *point = trace->points[i];
        const Ls__TracePoint *next = i + 1 < trace->n_points ? trace->points[i + 1] : NULL;
        int64_t end_ns = next != NULL && next->at != NULL && next->at->ns < measure_ns
                             ? next->at->ns
                             : measure_ns;

        if (point->at != NULL && point->at->ns < end_ns)
            sum += per_s(point->rate) * (double)(end_ns - point->at->ns);
    }
    return measure_ns > 0 ? sum * trace->scale / (double)measure_ns : 0;
}

double coord_load_offered_per_s(const Ls__Workload *w)
{
    int64_t measure_ns = coord_load_measure_ns(w);

    switch (w->load != NULL ? w->load->law_case : LS__LOAD__LAW__NOT_SET) {
    case LS__LOAD__LAW_CONSTANT:
        return per_s(w->load->constant->rate);
    case LS__LOAD__LAW_POISSON:
        return per_s(w->load->poisson->rate);
    case LS__LOAD__LAW_RAMP:
        return ramp_mean(w->load->ramp, measure_ns);
    case LS__LOAD__LAW_STEPS:
        return steps_mean(w->load->steps);
    case LS__LOAD__LAW_TRACE:
        return trace_mean(w->load->trace, measure_ns);
    default:
        return 0;
    }
}

double coord_load_warmup_per_s(const Ls__Workload *w)
{
    switch (w->load != NULL ? w->load->law_case : LS__LOAD__LAW__NOT_SET) {
    case LS__LOAD__LAW_RAMP:
        return per_s(w->load->ramp->from);
    case LS__LOAD__LAW_STEPS:
        return w->load->steps->n_rates > 0 ? per_s(w->load->steps->rates[0]) : 0;
    case LS__LOAD__LAW_TRACE:
        return w->load->trace->n_points > 0
                   ? per_s(w->load->trace->points[0]->rate) * w->load->trace->scale
                   : 0;
    default:
        return coord_load_offered_per_s(w);
    }
}

/* ---- words ------------------------------------------------------------------------------------
 */

static void describe_ramp(const Ls__Workload *w, char out[COORD_LAW_TEXT_MAX])
{
    const Ls__Ramp *ramp = w->load->ramp;
    char from[48], to[48], over[48];

    (void)snprintf(out, COORD_LAW_TEXT_MAX, "ramp %s to %s in %s",
                   ls_format_rate(ramp->from->per_s, from, sizeof(from)),
                   ls_format_rate(ramp->to->per_s, to, sizeof(to)),
                   ls_format_duration(ramp->over->ns, over, sizeof(over)));
}

/* The first few; the plan has them all. */
static void describe_steps(const Ls__Steps *steps, char out[COORD_LAW_TEXT_MAX])
{
    char text[48];
    size_t len =
        (size_t)snprintf(out, COORD_LAW_TEXT_MAX,
                         "steps of %s:", ls_format_duration(steps->each->ns, text, sizeof(text)));

    for (size_t i = 0; i < steps->n_rates; i++) {
        (void)ls_format_rate(steps->rates[i]->per_s, text, sizeof(text));
        if (len + strlen(text) + sizeof(", ... 1000 rates") + 2 > COORD_LAW_TEXT_MAX) {
            (void)snprintf(out + len, COORD_LAW_TEXT_MAX - len, ", ... %zu rates", steps->n_rates);
            return;
        }
        len +=
            (size_t)snprintf(out + len, COORD_LAW_TEXT_MAX - len, "%s %s", i == 0 ? "" : ",", text);
    }
}

static void describe_trace(const Ls__Trace *trace, char out[COORD_LAW_TEXT_MAX])
{
    char least[48], most[48];
    double low = per_s(trace->points[0]->rate), high = low;

    for (size_t i = 1; i < trace->n_points; i++) {
        double rate = per_s(trace->points[i]->rate);

        low = rate < low ? rate : low;
        high = rate > high ? rate : high;
    }
    (void)snprintf(out, COORD_LAW_TEXT_MAX, "trace%s%.40s, %zu rate%s, %s to %s",
                   trace->file != NULL ? " " : "", trace->file != NULL ? trace->file : "",
                   trace->n_points, trace->n_points == 1 ? "" : "s",
                   ls_format_rate(low * trace->scale, least, sizeof(least)),
                   ls_format_rate(high * trace->scale, most, sizeof(most)));
}

static void describe_count(const char *what, const Ls__Count *requests,
                           char out[COORD_LAW_TEXT_MAX])
{
    if (requests != NULL)
        (void)snprintf(out, COORD_LAW_TEXT_MAX, "%s %" PRIu64 " requests", what, requests->n);
    else
        (void)snprintf(out, COORD_LAW_TEXT_MAX, "%s", what);
}

/* "p99 10ms, errors 0.1%" */
size_t coord_load_limits(const Ls__CapacityLimits *limits, struct coord_load_limit *out)
{
    const struct {
        const char *name;
        const Ls__Duration *limit;
        double share;
    } percentiles[] = { { "p50", limits->p50, 0.5 },
                        { "p90", limits->p90, 0.1 },
                        { "p99", limits->p99, 0.01 },
                        { "p99.9", limits->p999, 0.001 } };
    char text[48];
    size_t n = 0;

    for (size_t i = 0; i < LS_ARRAY_LEN(percentiles); i++) {
        if (percentiles[i].limit == NULL)
            continue;
        out[n].limit_ns = percentiles[i].limit->ns;
        out[n].allowed_share = percentiles[i].share;
        (void)snprintf(out[n].name, sizeof(out[n].name), "%s %s", percentiles[i].name,
                       ls_format_duration(percentiles[i].limit->ns, text, sizeof(text)));
        n++;
    }
    if (limits->errors != NULL) {
        out[n].limit_ns = INT64_MAX;
        out[n].allowed_share = limits->errors->of_one;
        (void)snprintf(out[n].name, sizeof(out[n].name), "errors %s",
                       ls_format_share(limits->errors->of_one, text, sizeof(text)));
        n++;
    }
    return n;
}

static void describe_capacity(const Ls__Capacity *capacity, char out[COORD_LAW_TEXT_MAX])
{
    struct coord_load_limit limits[COORD_LOAD_LIMITS_MAX];
    size_t n = coord_load_limits(capacity->limits, limits), len;

    len = (size_t)snprintf(out, COORD_LAW_TEXT_MAX, "capacity within");
    for (size_t i = 0; i < n && len < COORD_LAW_TEXT_MAX; i++)
        len += (size_t)snprintf(out + len, COORD_LAW_TEXT_MAX - len, "%s %s", i > 0 ? "," : "",
                                limits[i].name);
}

static void describe_ladder(const Ls__Ladder *ladder, char out[COORD_LAW_TEXT_MAX])
{
    (void)snprintf(out, COORD_LAW_TEXT_MAX,
                   "ladder of %" PRIu32 " to %" PRIu32 " connections, %zu rungs, %" PRIu32
                   " passes",
                   ladder->connections[0], ladder->connections[ladder->n_connections - 1],
                   ladder->n_connections, ladder->passes);
}

/* "100 runs", "runs for 10s", "100 runs within 10s, 4 at once" */
static void describe_process(const Ls__Workload *w, char *out)
{
    const Ls__Process *p = w->process;
    char count[24] = "", time[64] = "", most[48], together[32] = "";

    if (p->has_runs)
        (void)snprintf(count, sizeof(count), "%" PRIu32 " ", p->runs);
    if (w->measure->ns > 0)
        (void)snprintf(time, sizeof(time), " %s %s", p->has_runs ? "within" : "for",
                       ls_format_duration(w->measure->ns, most, sizeof(most)));
    if (p->concurrency > 1)
        (void)snprintf(together, sizeof(together), ", %" PRIu32 " at once", p->concurrency);
    (void)snprintf(out, COORD_LAW_TEXT_MAX, "%srun%s%s%s", count,
                   p->has_runs && p->runs == 1 ? "" : "s", time, together);
}

const char *coord_load_describe(const Ls__Workload *w, char out[COORD_LAW_TEXT_MAX])
{
    char text[48];

    if (w->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS) {
        describe_process(w, out);
        return out;
    }
    switch (w->load->law_case) {
    case LS__LOAD__LAW_CONSTANT:
    case LS__LOAD__LAW_POISSON:
        (void)snprintf(out, COORD_LAW_TEXT_MAX, "%s %s",
                       w->load->law_case == LS__LOAD__LAW_POISSON ? "poisson" : "constant",
                       ls_format_rate(coord_load_offered_per_s(w), text, sizeof(text)));
        break;
    case LS__LOAD__LAW_RAMP:
        describe_ramp(w, out);
        break;
    case LS__LOAD__LAW_STEPS:
        describe_steps(w->load->steps, out);
        break;
    case LS__LOAD__LAW_TRACE:
        describe_trace(w->load->trace, out);
        break;
    case LS__LOAD__LAW_CAPACITY:
        describe_capacity(w->load->capacity, out);
        break;
    case LS__LOAD__LAW_LADDER:
        describe_ladder(w->load->ladder, out);
        break;
    case LS__LOAD__LAW_WAVES:
        (void)snprintf(text, sizeof(text), "waves of %" PRIu32 "%s", w->load->waves->size,
                       w->load->waves->requests != NULL ? "," : "");
        describe_count(text, w->load->waves->requests, out);
        break;
    default:
        describe_count("closed", w->load->closed->requests, out);
        break;
    }
    return out;
}

const char *coord_load_pacing(const Ls__Workload *w)
{
    return w->pacing == LS__PACING__PACING_FRUGAL ? "frugal" : "precise";
}

const char *coord_load_think(const Ls__Workload *w, char out[COORD_LAW_TEXT_MAX])
{
    char text[48];

    out[0] = '\0';
    if (w->think != NULL)
        (void)snprintf(out, COORD_LAW_TEXT_MAX, "%s%s",
                       w->think->distribution == LS__DISTRIBUTION__DISTRIBUTION_EXPONENTIAL
                           ? "exponential "
                           : "",
                       ls_format_duration(w->think->mean->ns, text, sizeof(text)));
    return out;
}

const char *coord_load_lifetime(const Ls__Workload *w, char out[COORD_LAW_TEXT_MAX])
{
    const Ls__Lifetime *lifetime = w->lifetime;
    char text[48];
    size_t len = 0;

    out[0] = '\0';
    if (lifetime != NULL && lifetime->requests != NULL)
        len = (size_t)snprintf(out, COORD_LAW_TEXT_MAX, "%" PRIu64 " request%s",
                               lifetime->requests->n, lifetime->requests->n == 1 ? "" : "s");
    if (lifetime != NULL && lifetime->time != NULL)
        (void)snprintf(out + len, COORD_LAW_TEXT_MAX - len, "%s%s", len > 0 ? " or " : "",
                       ls_format_duration(lifetime->time->ns, text, sizeof(text)));
    return out;
}

const char *coord_load_min_wait(const Ls__Workload *w, char out[COORD_LAW_TEXT_MAX])
{
    out[0] = '\0';
    if (w->min_wait != NULL)
        (void)ls_format_duration(w->min_wait->ns, out, COORD_LAW_TEXT_MAX);
    return out;
}
