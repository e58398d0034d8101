#include "coordinator/plan/trials.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/share.h"
#include "common/sources.h"
#include "coordinator/plan/load_law.h"

/* A client's descriptors beside its connections: standard streams, control session, event loops and
 * wake-ups of some dozens of workers. */
#define FILES_BESIDE_CONNECTIONS 128u
#define BYTES_OF_CONNECTION      UINT64_C(4608)  /* the kernel's end and the agent's */
#define BYTES_OF_TLS             UINT64_C(32768) /* the same with TLS */

bool coord_workload_has_target(const Ls__Workload *workload, const char *target)
{
    if (workload->n_targets == 0)
        return true;
    for (size_t i = 0; i < workload->n_targets; i++) {
        if (strcmp(workload->targets[i], target) == 0)
            return true;
    }
    return false;
}

const char *coord_trial_folder(const struct coord_trial *trial, char *out, size_t out_bytes)
{
    (void)snprintf(out, out_bytes, "%03u-%s-%s-r%u", trial->index, trial->target->name,
                   trial->workload->name, trial->repetition);
    return out;
}

/* The pairs of one round, in the plan's order; items NULL: only counts. */
static size_t list_pairs(const Ls__Plan *plan, struct coord_trial *items)
{
    size_t count = 0;

    for (size_t w = 0; w < plan->n_workloads; w++) {
        for (size_t t = 0; t < plan->n_targets; t++) {
            if (!coord_workload_has_target(plan->workloads[w], plan->targets[t]->name))
                continue;
            if (items != NULL)
                items[count] = (struct coord_trial){ .target = plan->targets[t],
                                                     .workload = plan->workloads[w] };
            count++;
        }
    }
    return count;
}

/* Fisher and Yates; every order is equally likely. */
static void shuffle(struct coord_trial *items, size_t count, struct ls_rng *rng)
{
    for (size_t left = count; left > 1; left--) {
        size_t pick = (size_t)ls_rng_below(rng, left);
        struct coord_trial swap = items[left - 1];

        items[left - 1] = items[pick];
        items[pick] = swap;
    }
}

static void fill_rounds(const struct coord_trial *pairs, size_t pair_count, uint32_t rounds,
                        const Ls__Schedule *schedule, uint64_t seed, struct coord_trial *items)
{
    for (uint32_t r = 0; r < rounds; r++) {
        struct coord_trial *round = items + (size_t)r * pair_count;
        struct ls_rng rng;

        for (size_t p = 0; p < pair_count; p++) {
            size_t at = schedule->order == LS__ORDER__ORDER_SEQUENTIAL ? p * rounds + r
                                                                       : (size_t)r * pair_count + p;
            items[at] = pairs[p];
            items[at].seed = seed;
            items[at].repetition = r < schedule->discard ? 0 : r - schedule->discard + 1;
        }
        if (schedule->order == LS__ORDER__ORDER_SHUFFLED) {
            /* A stream for each round: more repetitions leave the earlier rounds as they were. */
            ls_rng_init(&rng, seed, r);
            shuffle(round, pair_count, &rng);
        }
    }
}

static bool is_wanted(const struct coord_trial *trial, const char *only)
{
    char pair[COORD_TRIAL_FOLDER_MAX];

    if (only == NULL)
        return true;
    if (strchr(only, '/') == NULL)
        return fnmatch(only, trial->target->name, 0) == 0;
    (void)snprintf(pair, sizeof(pair), "%s/%s", trial->target->name, trial->workload->name);
    return fnmatch(only, pair, FNM_PATHNAME) == 0;
}

static size_t keep_wanted(struct coord_trial *items, size_t count, const char *only)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(&items[i], only))
            continue;
        items[kept] = items[i];
        items[kept].index = (uint32_t)(kept + 1);
        kept++;
    }
    return kept;
}

static enum ls_err fail_nothing_left(const struct coord_trial *pairs, size_t pair_count,
                                     const char *only, struct ls_diag *diag)
{
    char list[256] = "";
    size_t used = 0;

    for (size_t p = 0; p < pair_count && used < sizeof(list); p++) {
        int n = snprintf(list + used, sizeof(list) - used, "%s%s/%s", p == 0 ? "" : ", ",
                         pairs[p].target->name, pairs[p].workload->name);

        used += n < 0 ? 0 : (size_t)n;
    }
    return ls_fail(diag, LS_ESTATE, "no trial matches '%.64s'; there are: %s%s", only, list,
                   used < sizeof(list) ? "" : "...");
}

enum ls_err coord_trials_expand(const Ls__Plan *plan, uint64_t seed, const char *only,
                                struct coord_trials *out_trials, struct ls_diag *diag)
{
    enum ls_err rc = LS_ENOMEM;
    size_t pair_count = list_pairs(plan, NULL);
    uint32_t rounds = plan->schedule->repetitions + plan->schedule->discard;
    struct coord_trial *pairs = NULL;
    struct coord_trial *items = NULL;
    size_t kept;

    if (pair_count == 0 || rounds == 0)
        return ls_fail(diag, LS_EINVAL, "the plan has no trials");
    if (pair_count > COORD_TRIALS_MAX / rounds)
        return ls_fail(diag, LS_ERANGE,
                       "%zu pairs of target and workload, %u times each, are more "
                       "than %u trials: repeat less often or split the plan",
                       pair_count, rounds, COORD_TRIALS_MAX);
    pairs = calloc(pair_count, sizeof(*pairs));
    items = calloc(pair_count * rounds, sizeof(*items));
    if (pairs == NULL || items == NULL) {
        (void)ls_fail(diag, rc, "no memory for %zu trials", pair_count * rounds);
        goto out;
    }
    (void)list_pairs(plan, pairs);
    fill_rounds(pairs, pair_count, rounds, plan->schedule, seed, items);
    kept = keep_wanted(items, pair_count * rounds, only);
    if (kept == 0) {
        rc = fail_nothing_left(pairs, pair_count, only, diag);
        goto out;
    }
    *out_trials = (struct coord_trials){ .items = items, .count = kept, .seed = seed };
    items = NULL; /* now the caller's */
    rc = LS_OK;
out:
    free(items);
    free(pairs);
    return rc;
}

void coord_trials_fini(struct coord_trials *trials)
{
    free(trials->items);
    *trials = (struct coord_trials){ 0 };
}

static void at_least(uint64_t *value, uint64_t other)
{
    if (*value < other)
        *value = other;
}

static void at_least_32(uint32_t *value, uint32_t other)
{
    if (*value < other)
        *value = other;
}

static uint32_t per_source(const Ls__Workload *w, const Ls__Target *target)
{
    struct ls_sources sources = { 0 };
    int family = strchr(target->host, ':') != NULL ? AF_INET6 : AF_INET;
    enum ls_err rc = LS_OK;
    uint32_t count;

    for (size_t i = 0; i < w->n_source_addresses && rc == LS_OK; i++)
        rc = ls_sources_add(&sources, w->source_addresses[i], family, NULL);
    count = rc == LS_OK && sources.count > 0 ? sources.count : 1;
    ls_sources_fini(&sources);
    return w->connections / count + (w->connections % count > 0);
}

static void add_trial(const Ls__Plan *plan, const struct coord_trial *trial,
                      struct coord_budget *budget)
{
    const Ls__Workload *w = trial->workload;
    uint32_t per_client =
        plan->fleet->clients > 0 ? (uint32_t)ls_share(w->connections, plan->fleet->clients, 0) : 0;
    int64_t window_ns =
        coord_load_parts_ns(w) > 0 ? coord_load_parts_ns(w) : w->warmup->ns + w->measure->ns;

    budget->expected_ns += COORD_TRIAL_OVERHEAD_NS + window_ns;
    budget->longest_ns += COORD_TRIAL_OVERHEAD_NS + window_ns + w->timeout->ns +
                          trial->target->ready->timeout->ns + trial->target->stop->grace->ns;
    at_least_32(&budget->connections, w->connections);
    at_least_32(&budget->connections_per_client, per_client);
    at_least_32(&budget->connections_per_source, per_source(w, trial->target));
    at_least(&budget->memory_per_client,
             per_client * (trial->target->tls != NULL ? BYTES_OF_TLS : BYTES_OF_CONNECTION));
    at_least(&budget->in_flight, (uint64_t)w->connections * coord_load_pipeline(w));
    at_least(&budget->queued, coord_load_queue(w));
}

void coord_trials_budget(const Ls__Plan *plan, const struct coord_trials *trials,
                         struct coord_budget *out_budget)
{
    *out_budget = (struct coord_budget){ 0 };
    for (size_t i = 0; i < trials->count; i++)
        add_trial(plan, &trials->items[i], out_budget);
    out_budget->files_per_client = out_budget->connections_per_client + FILES_BESIDE_CONNECTIONS;
    out_budget->files_target = out_budget->connections;
}
