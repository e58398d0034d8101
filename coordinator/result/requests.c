#include "coordinator/result/requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/attr.h"

static const struct {
    const char *name;
    size_t at;
    bool error; /* an outcome other than ok */
} fields[] = {
    { "scheduled", offsetof(Ls__Requests, scheduled), false },
    { "sent", offsetof(Ls__Requests, sent), false },
    { "shed", offsetof(Ls__Requests, shed), false },
    { "ok", offsetof(Ls__Requests, ok), false },
    { "bad_status", offsetof(Ls__Requests, bad_status), true },
    { "bad_body", offsetof(Ls__Requests, bad_body), true },
    { "bad_framing", offsetof(Ls__Requests, bad_framing), true },
    { "timeout", offsetof(Ls__Requests, timeout), true },
    { "reset", offsetof(Ls__Requests, reset), true },
    { "closed_early", offsetof(Ls__Requests, closed_early), true },
    { "tls_error", offsetof(Ls__Requests, tls_error), true },
    { "aborted", offsetof(Ls__Requests, aborted), true },
};

static uint64_t get(const Ls__Requests *requests, size_t i)
{
    uint64_t value = 0;

    if (requests != NULL)
        (void)memcpy(&value, (const char *)requests + fields[i].at, sizeof(value));
    return value;
}

void coord_requests_add(Ls__Requests *dst, const Ls__Requests *src)
{
    if (dst == NULL)
        return; /* never; the optimiser cannot see that, and warns */
    for (size_t i = 0; i < LS_ARRAY_LEN(fields); i++) {
        uint64_t sum = get(dst, i) + get(src, i);

        (void)memcpy((char *)dst + fields[i].at, &sum, sizeof(sum));
    }
}

uint64_t coord_requests_errors(const Ls__Requests *requests)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < LS_ARRAY_LEN(fields); i++)
        sum += fields[i].error ? get(requests, i) : 0;
    return sum;
}

const char *coord_requests_differ(const Ls__Requests *a, const Ls__Requests *b, uint64_t *out_a,
                                  uint64_t *out_b)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(fields); i++) {
        if (get(a, i) == get(b, i))
            continue;
        *out_a = get(a, i);
        *out_b = get(b, i);
        return fields[i].name;
    }
    return NULL;
}

bool coord_requests_balance(const Ls__Requests *requests, char *out, size_t out_bytes)
{
    uint64_t ended;

    if (requests == NULL)
        return true;
    if (requests->scheduled != requests->sent + requests->shed) {
        (void)snprintf(out, out_bytes,
                       "%" PRIu64 " scheduled, but %" PRIu64 " sent and %" PRIu64 " shed",
                       requests->scheduled, requests->sent, requests->shed);
        return false;
    }
    ended = requests->ok + coord_requests_errors(requests);
    if (requests->sent != ended) {
        (void)snprintf(out, out_bytes, "%" PRIu64 " sent, but %" PRIu64 " ended", requests->sent,
                       ended);
        return false;
    }
    return true;
}

const char *coord_requests_describe(const Ls__Requests *requests, char *out, size_t out_bytes)
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < LS_ARRAY_LEN(fields) && len < out_bytes; i++) {
        int used;

        if (!fields[i].error || get(requests, i) == 0)
            continue;
        used = snprintf(out + len, out_bytes - len, "%s%" PRIu64 " %s", len == 0 ? "" : ", ",
                        get(requests, i), fields[i].name);
        len += used > 0 ? (size_t)used : 0;
    }
    return out;
}
