/* What agents are like right now, for who looks on; nothing of it goes into a result. */
#include <string.h>

#include "coordinator/result/series.h"
#include "coordinator/run/merge_internal.h"

static const struct coord_merge_now unknown = { .sent_per_s = -1,
                                                .send_lag_p99_ns = -1,
                                                .cores = -1,
                                                .busiest = -1,
                                                .rss_bytes = -1,
                                                .switches_per_s = -1 };

static void note_workers(struct coord_merge_now *now, const Ls__IntervalReport *report)
{
    for (size_t i = 0; i < report->n_workers; i++) {
        const Ls__WorkerHealth *worker = report->workers[i];
        double window = (double)worker->window_ns, cores, busiest;

        if (window <= 0)
            continue; /* none of it was measured */
        cores = (double)worker->cpu_ns / window;
        busiest =
            ((double)worker->cpu_ns + (double)worker->runqueue_wait_ns - (double)worker->spin_ns) /
            window;
        now->cores = now->cores < 0 ? cores : now->cores + cores;
        if (busiest > now->busiest)
            now->busiest = busiest;
    }
}

static uint64_t sent_of(const Ls__Requests *requests)
{
    return requests != NULL ? requests->sent : 0;
}

void coord_merge_note_now(struct coord_merge *merge, struct merge_agent *agent,
                          const Ls__IntervalReport *report)
{
    const struct ls_hist_sparse *lag = &merge->at_hand.of[LS_SERIES_SEND_LAG];
    struct coord_merge_now *now = &agent->now;

    *now = unknown;
    now->sent_per_s = ((double)sent_of(report->warmup) + (double)sent_of(report->measure)) * 1e9 /
                      (double)report->length_ns;
    note_workers(now, report);
    if (merge->options.offered_per_s <= 0 || !merge->at_hand.has[LS_SERIES_SEND_LAG] ||
        lag->count == 0)
        return;
    ls_hist_reset(merge->wide);
    ls_hist_sparse_add_to(lag, merge->wide);
    now->send_lag_p99_ns = ls_hist_quantile(merge->wide, 0.99);
}

static void look_at_samples(const struct merge_agent *agent, struct coord_merge_now *out)
{
    const struct merge_sample *last, *before;
    Ls__Sample from, to;

    if (agent->sample_count == 0)
        return;
    last = &agent->samples[agent->sample_count - 1];
    out->rss_bytes = (int64_t)(last->usage.rss_bytes & INT64_MAX);
    if (agent->sample_count < 2)
        return;
    before = last - 1;
    from = before->usage;
    to = last->usage;
    from.at_ns = before->at_ns;
    to.at_ns = last->at_ns;
    if (to.at_ns <= from.at_ns || to.cpu_ns < from.cpu_ns)
        return; /* processes that ended took their time with them */
    out->cores = coord_series_cores(&from, &to);
    out->switches_per_s = coord_series_switches(&from, &to);
}

void coord_merge_now(const struct coord_merge *merge, uint32_t agent, struct coord_merge_now *out)
{
    *out = unknown;
    if (agent >= merge->agent_count)
        return;
    if (merge->agents[agent].sums.reports > 0)
        *out = merge->agents[agent].now;
    look_at_samples(&merge->agents[agent], out);
}

bool coord_merge_take_heat(struct coord_merge *merge, uint64_t column[COORD_HEAT_ROWS])
{
    bool has = merge->has_heat;

    for (unsigned row = 0; has && row < COORD_HEAT_ROWS; row++)
        column[row] += merge->heat[row];
    (void)memset(merge->heat, 0, sizeof(merge->heat));
    merge->has_heat = false;
    return has;
}
