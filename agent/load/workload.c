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

enum ls_err load_request_check_expected(const struct load_request *request, struct ls_diag *diag)
{
    if (request->expect_status != 0 &&
        (request->expect_status < 200 || request->expect_status > 999))
        return ls_fail(diag, LS_ERANGE,
                       "%s: status %u cannot be expected: an answer is complete with 200 to 999",
                       request->label, request->expect_status);
    if (request->no_body && request->gunzip)
        return ls_fail(diag, LS_EINVAL, "%s: an answer to HEAD has no body to decode",
                       request->label);
    if (request->no_body && request->expect_body_given && request->expect_body.len > 0)
        return ls_fail(diag, LS_EINVAL, "%s: an answer to HEAD has no body: expect none",
                       request->label);
    return LS_OK;
}
