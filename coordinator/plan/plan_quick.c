#include "coordinator/plan/plan_quick.h"

#include <stdint.h>

#include "common/attr.h"
#include "common/clock.h"
#include "common/msg_model.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/plan/plan_check_parts.h"

#define SHARE          10 /* of a window and of a count, one in so many */
#define LEAST_REQUESTS UINT64_C(2000)
#define PROCESS_RUNS   10u
/* Four probes and two confirmations of the lengths below, and what is around them. */
#define CAPACITY_BUDGET_NS (30 * LS_NS_PER_S)

static bool set_duration(Ls__Duration **duration, int64_t ns)
{
    if (*duration == NULL)
        *duration = (Ls__Duration *)ls_msg_new(&ls__duration__descriptor);
    if (*duration != NULL)
        (*duration)->ns = ns;
    return *duration != NULL;
}

static int64_t within(int64_t ns, int64_t least_ns, int64_t most_ns)
{
    return ns < least_ns ? least_ns : ns > most_ns ? most_ns : ns;
}

static int64_t shorter(int64_t measure_ns)
{
    int64_t ns = within(measure_ns / SHARE, 2 * LS_NS_PER_S, 5 * LS_NS_PER_S);

    return ns < measure_ns ? ns : measure_ns;
}

static void shorten_count(Ls__Count *count)
{
    uint64_t n = count != NULL ? count->n / SHARE : 0;

    if (count != NULL && count->n > LEAST_REQUESTS)
        count->n = n > LEAST_REQUESTS ? n : LEAST_REQUESTS;
}

static bool shorten_warmup(Ls__Workload *w)
{
    return w->warmup == NULL ||
           set_duration(&w->warmup, within(w->warmup->ns / SHARE * 4, 0, LS_NS_PER_S));
}

/* Without what lies beyond, which takes longer than the search. */
static bool shorten_capacity(Ls__Capacity *capacity)
{
    capacity->has_profile = capacity->profile = 0;
    if (capacity->profile_step != NULL)
        ls__duration__free_unpacked(capacity->profile_step, NULL);
    capacity->profile_step = NULL;
    return set_duration(&capacity->budget, CAPACITY_BUDGET_NS) &&
           set_duration(&capacity->probe, LS_NS_PER_S) &&
           set_duration(&capacity->longest_probe, 2 * LS_NS_PER_S) &&
           set_duration(&capacity->confirm, 2 * LS_NS_PER_S);
}

static bool shorten_ladder(Ls__Ladder *ladder)
{
    ladder->has_passes = 1;
    ladder->passes = 1;
    return set_duration(&ladder->each, LS_NS_PER_S);
}

static bool shorten_process(Ls__Workload *w)
{
    Ls__Process *process = w->process;

    if (process->has_warmup_runs && process->warmup_runs > 1)
        process->warmup_runs = 1;
    if (process->has_runs && process->runs > PROCESS_RUNS)
        process->runs = PROCESS_RUNS;
    return w->measure == NULL || set_duration(&w->measure, shorter(w->measure->ns));
}

static bool shorten(Ls__Workload *w)
{
    const Ls__Load *load = w->load;
    int64_t warmup_ns = w->warmup != NULL ? w->warmup->ns : coord_load_default_warmup_ns(w);
    int64_t measure_ns = w->measure != NULL ? w->measure->ns : COORD_DEFAULT_MEASURE_NS;
    bool fixed_length = false;

    if (w->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS)
        return shorten_process(w);
    if (load != NULL) {
        switch (load->law_case) {
        case LS__LOAD__LAW_CLOSED:
            shorten_count(load->closed->requests);
            fixed_length = load->closed->requests != NULL;
            break;
        case LS__LOAD__LAW_WAVES:
            shorten_count(load->waves->requests);
            fixed_length = load->waves->requests != NULL;
            break;
        case LS__LOAD__LAW_CAPACITY:
            return shorten_warmup(w) && shorten_capacity(load->capacity);
        case LS__LOAD__LAW_LADDER:
            return shorten_warmup(w) && shorten_ladder(load->ladder);
        case LS__LOAD__LAW_STEPS:
        case LS__LOAD__LAW_TRACE:
            fixed_length = true;
            break;
        default:
            break;
        }
    }
    return set_duration(&w->warmup, within(warmup_ns / SHARE * 4, 0, 2 * LS_NS_PER_S)) &&
           (fixed_length || set_duration(&w->measure, shorter(measure_ns)));
}

bool coord_plan_quick(Ls__Plan *plan)
{
    if (plan->schedule == NULL)
        plan->schedule = (Ls__Schedule *)ls_msg_new(&ls__schedule__descriptor);
    if (plan->schedule == NULL)
        return false;
    plan->schedule->has_repetitions = plan->schedule->has_discard = 1;
    plan->schedule->repetitions = 1;
    plan->schedule->discard = 0;
    for (size_t i = 0; i < plan->n_workloads; i++) {
        if (!shorten(plan->workloads[i]))
            return false;
    }
    return true;
}
