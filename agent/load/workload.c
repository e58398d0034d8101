#include "agent/load/workload.h"

#include <assert.h>

#include "agent/load/load.h"

uint64_t load_workload_find(const struct load_workload *workload, struct load_turn turn)
{
    uint32_t weight;
    uint32_t at = 0;

    if (workload->mix == NULL)
        return turn.turn * workload->request_count + turn.request;
    weight = workload->requests[turn.request].weight;
    while (workload->mix[at].request != turn.request ||
           workload->mix[at].rank != turn.turn % weight)
        at++;
    return turn.turn / weight * workload->mix_len + at;
}

static const char *const outcome_names[] = {
    "ok",    "bad_status",   "bad_body",  "bad_framing", "timeout",
    "reset", "closed_early", "tls_error", "aborted",
};
static_assert(LS_ARRAY_LEN(outcome_names) == LOAD_OUTCOME_COUNT, "a name for each outcome");

const char *load_outcome_name(enum load_outcome outcome)
{
    return (unsigned)outcome < LOAD_OUTCOME_COUNT ? outcome_names[outcome] : "?";
}

void load_counts_add(struct load_counts *dst, const struct load_counts *src)
{
    dst->scheduled += src->scheduled;
    dst->sent += src->sent;
    dst->shed += src->shed;
    for (unsigned i = 0; i < LOAD_OUTCOME_COUNT; i++)
        dst->outcome[i] += src->outcome[i];
}

bool load_counts_balance(const struct load_counts *counts)
{
    uint64_t ended = 0;

    for (unsigned i = 0; i < LOAD_OUTCOME_COUNT; i++)
        ended += counts->outcome[i];
    return counts->scheduled == counts->sent + counts->shed && counts->sent == ended;
}

void load_messages_add(struct load_messages *dst, const struct load_messages *src)
{
    dst->sent += src->sent;
    dst->expected += src->expected;
    dst->received += src->received;
    dst->lost += src->lost;
    dst->duplicated += src->duplicated;
    dst->out_of_order += src->out_of_order;
    dst->corrupted += src->corrupted;
    dst->pings += src->pings;
    dst->closes += src->closes;
    if (dst->close_code == 0)
        dst->close_code = src->close_code;
}
