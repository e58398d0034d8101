#include "agent/load/mix.h"

#include <stdlib.h>

struct runner {
    int64_t credit;
    uint32_t rank;
};

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* The next place: whoever is furthest behind its share; of several, the first. */
static struct load_place next(struct runner *runners, const struct load_request *requests,
                              uint32_t count, uint32_t total)
{
    uint32_t best = 0;

    for (uint32_t i = 0; i < count; i++) {
        runners[i].credit += requests[i].weight;
        if (runners[i].credit > runners[best].credit)
            best = i;
    }
    runners[best].credit -= total;
    return (struct load_place){ .request = best, .rank = runners[best].rank++ };
}

enum ls_err load_mix_create(struct load_request *requests, uint32_t count,
                            struct load_place **out_mix, uint32_t *out_len, struct ls_diag *diag)
{
    struct runner *runners;
    struct load_place *mix;
    uint32_t divisor = 0;
    uint64_t total = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (requests[i].weight == 0)
            return ls_fail(diag, LS_EINVAL, "%s: a weight of 0 is never sent", requests[i].label);
        divisor = common_divisor(requests[i].weight, divisor);
    }
    for (uint32_t i = 0; i < count; i++) {
        requests[i].weight /= divisor;
        total += requests[i].weight;
    }
    if (total == count) {
        *out_mix = NULL;
        *out_len = 0;
        return LS_OK;
    }
    if (total > LOAD_MIX_MAX)
        return ls_fail(diag, LS_ERANGE, "the weights make a period of %llu requests: at most %u",
                       (unsigned long long)total, LOAD_MIX_MAX);
    runners = calloc(count, sizeof(*runners));
    mix = calloc(total, sizeof(*mix));
    if (runners == NULL || mix == NULL) {
        free(runners);
        free(mix);
        return ls_fail(diag, LS_ENOMEM, "no memory for a mix of %u requests", count);
    }
    for (uint32_t i = 0; i < total; i++)
        mix[i] = next(runners, requests, count, (uint32_t)total);
    free(runners);
    *out_mix = mix;
    *out_len = (uint32_t)total;
    return LS_OK;
}
