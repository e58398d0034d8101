/* Loads that are made of several trials: searches for a capacity, ladders of connections. */
#include <inttypes.h>

#include "common/clock.h"
#include "common/units.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/plan/plan_check_parts.h"
#include "coordinator/plan/trials.h"

#define PASSES_MAX      100u
#define BUDGET_LEAST_NS (10 * LS_NS_PER_S)

static void check_limits(struct coord_plan_checker *c, const Ls__CapacityLimits *limits)
{
    const struct {
        const char *field;
        const Ls__Duration *limit;
    } percentiles[] = { { "p50", limits->p50 },
                        { "p90", limits->p90 },
                        { "p99", limits->p99 },
                        { "p999", limits->p999 } };
    const char *before = NULL;
    int64_t before_ns = 0;

    for (size_t i = 0; i < LS_ARRAY_LEN(percentiles); i++) {
        const Ls__Duration *limit = percentiles[i].limit;
        char text[48];

        coord_plan_check_duration(c, &limits->base, percentiles[i].field, limit, 1000,
                                  COORD_PLAN_DAY_NS);
        if (limit == NULL)
            continue;
        if (before != NULL && limit->ns < before_ns)
            coord_plan_check_say(c, &limits->base, percentiles[i].field, -1,
                                 "is less than %s, which allows more requests to take longer than "
                                 "%s: leave that out, or make this larger",
                                 before, ls_format_duration(before_ns, text, sizeof(text)));
        before = percentiles[i].field;
        before_ns = limit->ns;
    }
    if (before == NULL)
        coord_plan_check_say(c, &limits->base, "p99", -1,
                             "is missing, and the other percentiles, too: a latency that the load "
                             "has to stay within, such as p99: 10ms");
    if (limits->errors != NULL && !(limits->errors->of_one > 0))
        coord_plan_check_say(c, &limits->base, "errors", -1,
                             "0%% cannot be shown by any number of requests: write a share such as "
                             "0.01%%");
    else if (limits->errors != NULL && limits->errors->of_one >= 1)
        coord_plan_check_say(c, &limits->base, "errors", -1, "must be below 100%%");
}

static double rate_or(const Ls__Rate *rate, double otherwise)
{
    return rate != NULL ? rate->per_s : otherwise;
}

static void check_rates_grow(struct coord_plan_checker *c, const Ls__Capacity *capacity)
{
    double start = rate_or(capacity->start, COORD_DEFAULT_CAPACITY_START_PER_S);
    double least = rate_or(capacity->least, COORD_DEFAULT_CAPACITY_LEAST_PER_S);
    double most = rate_or(capacity->most, COORD_DEFAULT_CAPACITY_MOST_PER_S);
    char low[48], high[48];

    if (start < least || start > most)
        coord_plan_check_say(
            c, &capacity->base, "start", -1, "has to be from %s to %s, the least and the most",
            ls_format_rate(least, low, sizeof(low)), ls_format_rate(most, high, sizeof(high)));
}

/* A percentile that no probe is long enough to see. */
static void check_resolution(struct coord_plan_checker *c, const Ls__Capacity *capacity)
{
    const Ls__CapacityLimits *limits = capacity->limits;
    double most = rate_or(capacity->most, COORD_DEFAULT_CAPACITY_MOST_PER_S);
    int64_t longest_ns = coord_capacity_longest_ns(capacity);
    double one_in = limits->p999 != NULL  ? 1000
                    : limits->p99 != NULL ? 100
                    : limits->p90 != NULL ? 10
                                          : 2;
    double needed_ns = COORD_CAPACITY_TAIL * one_in / most * 1e9;
    char longest[48], needed[48], rate[48];

    if (needed_ns > (double)longest_ns)
        coord_plan_check_say(c, &capacity->base, "longest_probe", -1,
                             "%s is too short for one request in %.0f that may take longer: even "
                             "at %s, the most, that takes %s to see",
                             ls_format_duration(longest_ns, longest, sizeof(longest)), one_in,
                             ls_format_rate(most, rate, sizeof(rate)),
                             ls_human_duration(needed_ns, needed, sizeof(needed)));
}

/* What the shortest search there is takes: probes to find both sides, and the confirmations. */
static void check_budget(struct coord_plan_checker *c, const Ls__Workload *w,
                         const Ls__Capacity *capacity)
{
    double budget = (double)coord_capacity_budget_ns(capacity);
    double probe = (double)coord_capacity_probe_ns(capacity);
    double confirm = (double)coord_capacity_confirm_ns(capacity);
    double around = (double)(w->warmup != NULL ? w->warmup->ns : coord_load_default_warmup_ns(w)) +
                    (double)COORD_TRIAL_OVERHEAD_NS;
    double profile = (double)coord_load_profile_ns(w);
    double needed =
        COORD_CAPACITY_PROBES_LEAST * (probe + around) + 2 * (confirm + around) + profile;
    char text[3][48];

    if (budget >= BUDGET_LEAST_NS && budget < needed) /* less has been refused already */
        coord_plan_check_say(
            c, &capacity->base, "budget", -1,
            "%s is too little: %d probes of %s, two confirmations%s and what is around "
            "them take %s",
            ls_human_duration(budget, text[0], sizeof(text[0])), COORD_CAPACITY_PROBES_LEAST,
            ls_human_duration(probe, text[1], sizeof(text[1])), profile > 0 ? ", the profile" : "",
            ls_human_duration(needed, text[2], sizeof(text[2])));
}

void coord_plan_check_capacity(struct coord_plan_checker *c, const Ls__Workload *w,
                               const Ls__Capacity *capacity)
{
    if (capacity->limits == NULL)
        coord_plan_check_say(c, &capacity->base, "limits", -1,
                             "is missing: what has to hold, such as {p99: 10ms}");
    else
        check_limits(c, capacity->limits);
    if ((capacity->start == NULL ||
         coord_plan_check_rate(c, &capacity->base, "start", -1, capacity->start, false)) &&
        (capacity->least == NULL ||
         coord_plan_check_rate(c, &capacity->base, "least", -1, capacity->least, false)) &&
        (capacity->most == NULL ||
         coord_plan_check_rate(c, &capacity->base, "most", -1, capacity->most, false)))
        check_rates_grow(c, capacity);
    if (capacity->limits != NULL)
        check_resolution(c, capacity);
    coord_plan_check_duration(c, &capacity->base, "budget", capacity->budget, BUDGET_LEAST_NS,
                              COORD_PLAN_DAY_NS);
    coord_plan_check_duration(c, &capacity->base, "probe", capacity->probe, LS_NS_PER_S,
                              COORD_PLAN_DAY_NS);
    coord_plan_check_duration(c, &capacity->base, "longest_probe", capacity->longest_probe,
                              coord_capacity_probe_ns(capacity), COORD_PLAN_DAY_NS);
    coord_plan_check_duration(c, &capacity->base, "confirm", capacity->confirm, LS_NS_PER_S,
                              COORD_PLAN_DAY_NS);
    if (capacity->precision != NULL &&
        !(capacity->precision->of_one >= 0.001 && capacity->precision->of_one <= 0.5))
        coord_plan_check_say(c, &capacity->base, "precision", -1, "is out of range: 0.1%% to 50%%");
    if (w->measure != NULL)
        coord_plan_check_say(c, &w->base, "measure", -1,
                             "a search chooses the lengths of its windows itself: leave it out, or "
                             "set load.capacity.confirm");
    coord_plan_check_queue(c, &capacity->base, capacity->queue);
    coord_plan_check_duration(c, &capacity->base, "settle", capacity->settle, 0, COORD_PLAN_DAY_NS);
    coord_plan_check_duration(c, &capacity->base, "profile_step", capacity->profile_step,
                              LS_NS_PER_S / 2, COORD_PLAN_DAY_NS);
    if (capacity->settle != NULL && capacity->server != LS__SERVER_STATE__SERVER_STATE_SETTLED)
        coord_plan_check_say(
            c, &capacity->base, "settle", -1,
            "goes with server: settled: a fresh server has nothing to settle from");
    if (capacity->profile_step != NULL && !capacity->profile)
        coord_plan_check_say(c, &capacity->base, "profile_step", -1, "goes with profile: true");
    check_budget(c, w, capacity);
}

void coord_plan_check_ladder(struct coord_plan_checker *c, const Ls__Workload *w,
                             const Ls__Ladder *ladder)
{
    uint32_t before = 0;

    (void)coord_plan_check_few(c, &ladder->base, "connections", ladder->n_connections);
    for (size_t i = 0; i < ladder->n_connections; i++) {
        uint32_t rung = ladder->connections[i];

        if (rung < c->clients || rung > COORD_PLAN_CONNECTIONS_MAX)
            coord_plan_check_say(c, &ladder->base, "connections", (int)i,
                                 "is out of range: %" PRIu32 ", one for each client, to %u",
                                 c->clients, COORD_PLAN_CONNECTIONS_MAX);
        else if (rung <= before)
            coord_plan_check_say(c, &ladder->base, "connections", (int)i,
                                 "has to be more than the rung before it, %" PRIu32, before);
        before = rung;
    }
    if (ladder->n_connections > 0 && w->has_connections && w->connections != before)
        coord_plan_check_say(
            c, &w->base, "connections", -1,
            "the ladder's last rung has %" PRIu32 ": leave this out, or the ladder's", before);
    coord_plan_check_duration(c, &ladder->base, "each", ladder->each, LS_NS_PER_S / 2,
                              COORD_PLAN_DAY_NS);
    coord_plan_check_range(c, &ladder->base, "passes", ladder->passes, 1, PASSES_MAX);
    if (w->measure != NULL)
        coord_plan_check_say(c, &w->base, "measure", -1,
                             "a ladder measures each rung for load.ladder.each: leave it out");
}
