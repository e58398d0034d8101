/* What searches for a capacity and ladders of connections found, and the way to the target: the
 * sentences. Their tables are report_curve.c's. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/units.h"
#include "coordinator/result/report_parts.h"

static void say(struct coord_say *to, enum coord_style style, const char *fmt, ...) LS_PRINTF(3, 4);
static void say(struct coord_say *to, enum coord_style style, const char *fmt, ...)
{
    char text[900];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    to->say(to->ctx, style, text);
}

/* ---- the way */

void coord_part_path(const Ls__Trial *trial, struct coord_say *to)
{
    const Ls__NetworkUse *network = trial->network;
    const char *path = network != NULL ? network->path : "";

    if (strcmp(path, "loopback") == 0)
        say(to, COORD_STYLE_NONE,
            "Over loopback: client and server share this machine, and no network is in the "
            "figures. They are not what a client elsewhere would see.");
    else if (strcmp(path, "same host") == 0)
        say(to, COORD_STYLE_NONE,
            "From the same host: client and server share a machine, and no network is in the "
            "figures.");
    else if (strcmp(path, "network") == 0)
        say(to, COORD_STYLE_NONE, "Over the network: the clients are on other hosts.");
    else if (path[0] != '\0')
        say(to, COORD_STYLE_WARN, "Some clients share the server's host, and some do not.");
}

void coord_part_network(const Ls__Trial *trial, struct coord_say *to)
{
    const Ls__NetworkUse *network = trial->network;
    char least[48], median[48], of[64] = "median", link[64] = "";

    if (network == NULL || network->connections == 0)
        return;
    if (network->link_bits_per_s > 0)
        (void)snprintf(link, sizeof(link), "; the busiest link carried %.0f %% of what it can",
                       100 * network->link_used);
    if (trial->n_clients > 1)
        (void)snprintf(of, sizeof(of), "the middle one of %zu clients' medians", trial->n_clients);
    say(to, COORD_STYLE_NONE,
        "network (%.16s): round trip %s, %s of %u connections' least (%s), %.2g %% of the "
        "median service time%s",
        network->path,
        ls_human_duration((double)network->round_trip_p50_ns, median, sizeof(median)), of,
        network->connections,
        ls_human_duration((double)network->round_trip_min_ns, least, sizeof(least)),
        100 * network->share_of_latency, link);
}

/* ---- searches */

static void say_answer(const Ls__Trial *trial, struct coord_say *to)
{
    const Ls__CapacityResult *found = trial->capacity;
    char rate[48], low[48], high[48], took[48], range[128] = "", hosts[64] = "";

    if (found->rate_per_s <= 0) {
        say(to, COORD_STYLE_BAD, "%.64s: no capacity found: %.400s", trial->target, found->why);
        return;
    }
    if (found->high_per_s > 0)
        (void)snprintf(range, sizeof(range), " (%s to %s)",
                       ls_human_count(found->low_per_s, low, sizeof(low)),
                       ls_human_count(found->high_per_s, high, sizeof(high)));
    else if (found->low_per_s > 0)
        (void)snprintf(range, sizeof(range), " (%s or more)",
                       ls_human_count(found->low_per_s, low, sizeof(low)));
    if (found->clients > 1)
        (void)snprintf(hosts, sizeof(hosts), ", offered by %u of %u clients", found->clients_used,
                       found->clients);
    say(to, found->settled ? COORD_STYLE_GOOD : COORD_STYLE_WARN,
        "%.64s: capacity %s%s requests/s%s%s, limited by: %.16s, %s after %zu probes in %s: "
        "%.320s",
        trial->target,
        strcmp(found->limited_by, "client") == 0 || found->high_per_s <= 0 ? "at least " : "",
        ls_human_count(found->rate_per_s, rate, sizeof(rate)), range, hosts, found->limited_by,
        found->settled ? "settled" : "not settled", found->n_probes,
        ls_human_duration((double)found->took_ns, took, sizeof(took)), found->why);
    if (found->limited_why[0] != '\0')
        say(to, COORD_STYLE_NONE, "%.64s, what limited it: %.240s", trial->target,
            found->limited_why);
}

static void say_knee(const Ls__Trial *trial, const Ls__Knee *knee, const char *unit,
                     const char *meaning, struct coord_say *to)
{
    char at[48], low[48], high[48];

    if (knee == NULL)
        return;
    say(to, COORD_STYLE_NONE, "%.64s, knee at %s %s (between %s and %s): %s", trial->target,
        ls_human_count(knee->at, at, sizeof(at)), unit, ls_human_count(knee->low, low, sizeof(low)),
        ls_human_count(knee->high, high, sizeof(high)), meaning);
}

/* "at 1.2 k/s 600/s of good answers" */
static const Ls__ProfileStep *highest(const Ls__CapacityProfile *profile)
{
    const Ls__ProfileStep *most = NULL;

    for (size_t i = 0; i < profile->n_steps; i++) {
        if (most == NULL || profile->steps[i]->rate_per_s > most->rate_per_s)
            most = profile->steps[i];
    }
    return most;
}

static void say_overload(const Ls__Trial *trial, const Ls__CapacityProfile *profile,
                         struct coord_say *to)
{
    char rate[48], good[48], recovery[48], back[48];

    for (size_t i = 0; i < profile->n_steps; i++) {
        const Ls__ProfileStep *step = profile->steps[i];

        if (step->down || step->rate_per_s <= trial->capacity->rate_per_s * 1.01)
            continue;
        say(to, COORD_STYLE_NONE,
            "%.64s, overload at %s/s: %s/s good answers, %.3g %% of all broke the limit",
            trial->target, ls_human_count(step->rate_per_s, rate, sizeof(rate)),
            ls_human_count(step->good_per_s, good, sizeof(good)), 100 * step->share);
    }
    if (highest(profile) == NULL)
        return;
    (void)ls_human_count(profile->recovery_rate_per_s, back, sizeof(back));
    if (profile->recovered)
        say(to, COORD_STYLE_NONE,
            "%.64s, recovery: the limits held again %s after the rate had fallen to %s/s",
            trial->target,
            ls_human_duration((double)profile->recovery_ns, recovery, sizeof(recovery)), back);
    else
        say(to, COORD_STYLE_WARN, "%.64s, recovery: the limits did not hold again at %s/s",
            trial->target, back);
    say(to, profile->hysteresis > 0.05 ? COORD_STYLE_WARN : COORD_STYLE_NONE,
        "%.64s, hysteresis: rates that had been reached from below gave up to %.1f %% fewer good "
        "answers when they were reached from above",
        trial->target, 100 * profile->hysteresis);
}

static void say_profile(const Ls__Trial *trial, struct coord_say *to)
{
    const Ls__CapacityProfile *profile = trial->capacity->profile;
    char burst[48], length[48];

    if (profile == NULL)
        return;
    if (profile->why[0] != '\0')
        say(to, COORD_STYLE_WARN, "%.64s, beyond the capacity: not measured: %.240s", trial->target,
            profile->why);
    say_overload(trial, profile, to);
    if (profile->n_bursts == 0)
        return;
    (void)ls_human_duration((double)profile->burst_ns, length, sizeof(length));
    if (profile->burst_per_s > 0)
        say(to, COORD_STYLE_NONE,
            "%.64s, bursts of %s: the limits hold at up to %s/s, %.2f times what it sustains",
            trial->target, length, ls_human_count(profile->burst_per_s, burst, sizeof(burst)),
            profile->burst_per_s / trial->capacity->rate_per_s);
    else
        say(to, COORD_STYLE_NONE,
            "%.64s, bursts of %s: not even the smallest that was tried, %s/s, holds", trial->target,
            length, ls_human_count(profile->bursts[0]->rate_per_s, burst, sizeof(burst)));
}

/* ---- ladders */

static void say_law(const Ls__Trial *trial, const Ls__Scalability *law, struct coord_say *to)
{
    char one[48], low[48], high[48], peak[96] = "no peak";

    if (law == NULL)
        return;
    if (law->peak_at > 0)
        (void)snprintf(peak, sizeof(peak), "peak at %.0f", law->peak_at);
    say(to, COORD_STYLE_NONE,
        "%.64s, Universal Scalability Law: one connection %s/s (%s to %s), contention %.3g (%.3g "
        "to %.3g), coherency %.3g (%.3g to %.3g), %s; it explains %.1f %% of what was measured",
        trial->target, ls_human_count(law->per_s, one, sizeof(one)),
        ls_human_count(law->per_s_low, low, sizeof(low)),
        ls_human_count(law->per_s_high, high, sizeof(high)), law->contention, law->contention_low,
        law->contention_high, law->coherency, law->coherency_low, law->coherency_high, peak,
        100 * law->explained);
    if (law->warning[0] != '\0')
        say(to, COORD_STYLE_WARN, "%.64s: %.240s", trial->target, law->warning);
}

static void say_ladder(const Ls__Trial *trial, struct coord_say *to)
{
    const Ls__LadderRung *best = NULL;
    char rate[48];

    for (size_t i = 0; i < trial->ladder->n_rungs; i++) {
        const Ls__LadderRung *rung = trial->ladder->rungs[i];

        if (best == NULL || rung->throughput_per_s > best->throughput_per_s)
            best = rung;
    }
    if (best == NULL)
        return;
    say(to, COORD_STYLE_NONE,
        "%.64s: most at %u connections, %s requests/s; limited by: %.16s (%.200s)", trial->target,
        best->connections, ls_human_count(best->throughput_per_s, rate, sizeof(rate)),
        best->limited_by, best->limited_why);
    say_knee(trial, trial->ladder->knee, "connections", "more of them bring little but latency",
             to);
    say_law(trial, trial->ladder->scalability, to);
}

void coord_part_capacity(const Ls__Result *result, const char *workload, struct coord_say *to)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (strcmp(trial->workload, workload) != 0)
            continue;
        if (trial->capacity != NULL) {
            say_answer(trial, to);
            say_knee(trial, trial->capacity->knee, "requests/s",
                     "beyond it latency grows faster than load", to);
            say_profile(trial, to);
        }
        if (trial->ladder != NULL)
            say_ladder(trial, to);
    }
}
