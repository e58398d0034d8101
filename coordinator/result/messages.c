#include "coordinator/result/messages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/attr.h"

static const struct {
    const char *name;
    size_t at;
    bool wrong;
} fields[] = {
    { "sent", offsetof(Ls__Messages, sent), false },
    { "expected", offsetof(Ls__Messages, expected), false },
    { "received", offsetof(Ls__Messages, received), false },
    { "lost", offsetof(Ls__Messages, lost), true },
    { "duplicated", offsetof(Ls__Messages, duplicated), true },
    { "out_of_order", offsetof(Ls__Messages, out_of_order), true },
    { "corrupted", offsetof(Ls__Messages, corrupted), true },
    { "received_in_window", offsetof(Ls__Messages, received_in_window), false },
    { "pings", offsetof(Ls__Messages, pings), false },
    { "closes", offsetof(Ls__Messages, closes), false },
};

static uint64_t get(const Ls__Messages *messages, size_t i)
{
    uint64_t value = 0;

    if (messages != NULL)
        (void)memcpy(&value, (const char *)messages + fields[i].at, sizeof(value));
    return value;
}

void coord_messages_add(Ls__Messages *dst, const Ls__Messages *src)
{
    if (dst == NULL)
        return; /* never; the optimiser cannot see that, and warns */
    for (size_t i = 0; i < LS_ARRAY_LEN(fields); i++) {
        uint64_t sum = get(dst, i) + get(src, i);

        (void)memcpy((char *)dst + fields[i].at, &sum, sizeof(sum));
    }
    if (src != NULL && dst->close_code == 0)
        dst->close_code = src->close_code;
}

const char *coord_messages_differ(const Ls__Messages *a, const Ls__Messages *b, uint64_t *out_a,
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

bool coord_messages_balance(const Ls__Messages *messages, char *out, size_t out_bytes)
{
    if (messages == NULL || messages->expected == messages->received + messages->lost)
        return true;
    (void)snprintf(out, out_bytes,
                   "%" PRIu64 " messages were to come, but %" PRIu64 " came and %" PRIu64
                   " are known to be lost",
                   messages->expected, messages->received, messages->lost);
    return false;
}

const char *coord_messages_describe(const Ls__Messages *messages, char *out, size_t out_bytes)
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < LS_ARRAY_LEN(fields) && len < out_bytes; i++) {
        int used;

        if (!fields[i].wrong || get(messages, i) == 0)
            continue;
        used = snprintf(out + len, out_bytes - len, "%s%" PRIu64 " %s", len > 0 ? ", " : "",
                        get(messages, i), fields[i].name);
        len += used > 0 ? (size_t)used : 0;
    }
    return out;
}
