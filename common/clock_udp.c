#include "common/clock_udp.h"

#include <string.h>

#include "common/digest.h"

#define MAGIC        0x4b43534cu /* "LSCK" */
#define VERSION      1u
#define TAG_BYTES    16u
#define SIGNED_BYTES (LS_CLOCK_DATAGRAM_BYTES - TAG_BYTES)

/* Where things are; numbers are little-endian. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_KIND = 5,
    AT_ZERO = 6, /* two bytes */
    AT_AGENT = 8,
    AT_NUMBER = 12,
    AT_RECEIVED = 20,
    AT_REPLIED = 28
};

static void put(unsigned char *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *in, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

/* ---- bytes ---- */

void ls_clock_seal(const struct ls_clock_datagram *datagram,
                   const unsigned char key[LS_CLOCK_KEY_BYTES],
                   unsigned char out[LS_CLOCK_DATAGRAM_BYTES])
{
    unsigned char tag[LS_HMAC_SHA256_BYTES];

    put(out + AT_MAGIC, MAGIC, 4);
    put(out + AT_VERSION, VERSION, 1);
    put(out + AT_KIND, (uint64_t)datagram->kind, 1);
    put(out + AT_ZERO, 0, 2);
    put(out + AT_AGENT, datagram->agent, 4);
    put(out + AT_NUMBER, datagram->number, 8);
    put(out + AT_RECEIVED, (uint64_t)datagram->received_ns, 8);
    put(out + AT_REPLIED, (uint64_t)datagram->replied_ns, 8);
    ls_hmac_sha256((struct ls_bytes){ key, LS_CLOCK_KEY_BYTES },
                   (struct ls_bytes){ out, SIGNED_BYTES }, tag);
    memcpy(out + SIGNED_BYTES, tag, TAG_BYTES);
}

bool ls_clock_parse(struct ls_bytes in, struct ls_clock_datagram *out)
{
    struct ls_clock_datagram d;

    if (in.len != LS_CLOCK_DATAGRAM_BYTES || get(in.data + AT_MAGIC, 4) != MAGIC ||
        in.data[AT_VERSION] != VERSION || get(in.data + AT_ZERO, 2) != 0 ||
        in.data[AT_KIND] < LS_CLOCK_KNOCK || in.data[AT_KIND] > LS_CLOCK_REPLY)
        return false;
    d = (struct ls_clock_datagram){ .kind = (enum ls_clock_kind)in.data[AT_KIND],
                                    .agent = (uint32_t)get(in.data + AT_AGENT, 4),
                                    .number = get(in.data + AT_NUMBER, 8),
                                    .received_ns = (int64_t)get(in.data + AT_RECEIVED, 8),
                                    .replied_ns = (int64_t)get(in.data + AT_REPLIED, 8) };
    if (d.number == 0 || (d.kind != LS_CLOCK_REPLY && (d.received_ns != 0 || d.replied_ns != 0)))
        return false;
    *out = d;
    return true;
}

bool ls_clock_verify(struct ls_bytes in, const unsigned char key[LS_CLOCK_KEY_BYTES])
{
    unsigned char tag[LS_HMAC_SHA256_BYTES];

    ls_hmac_sha256((struct ls_bytes){ key, LS_CLOCK_KEY_BYTES },
                   (struct ls_bytes){ in.data, SIGNED_BYTES }, tag);
    return ls_bytes_equal_secret(tag, in.data + SIGNED_BYTES, TAG_BYTES);
}

/* ---- the agent's end ---- */

void ls_clock_echo_init(struct ls_clock_echo *echo, uint32_t agent,
                        const unsigned char key[LS_CLOCK_KEY_BYTES])
{
    *echo = (struct ls_clock_echo){ .agent = agent };
    memcpy(echo->key, key, LS_CLOCK_KEY_BYTES);
}

void ls_clock_echo_knock(struct ls_clock_echo *echo, unsigned char out[LS_CLOCK_DATAGRAM_BYTES])
{
    const struct ls_clock_datagram knock = { .kind = LS_CLOCK_KNOCK,
                                             .agent = echo->agent,
                                             .number = ++echo->knocks };

    ls_clock_seal(&knock, echo->key, out);
}

/* Datagrams overtake each other; one that is more than 64 behind is as good as lost. */
static bool is_first(struct ls_clock_echo *echo, uint64_t number)
{
    uint64_t behind;

    if (number > echo->newest) {
        uint64_t ahead = number - echo->newest;

        echo->before = ahead >= 64 ? 0 : echo->before << ahead;
        if (echo->newest != 0 && ahead <= 64)
            echo->before |= UINT64_C(1) << (ahead - 1);
        echo->newest = number;
        return true;
    }
    behind = echo->newest - number;
    if (behind == 0 || behind > 64 || (echo->before >> (behind - 1) & 1) != 0)
        return false;
    echo->before |= UINT64_C(1) << (behind - 1);
    return true;
}

bool ls_clock_echo_take(struct ls_clock_echo *echo, struct ls_bytes in, uint64_t *out_number)
{
    struct ls_clock_datagram probe;

    if (!ls_clock_parse(in, &probe) || probe.kind != LS_CLOCK_PROBE || probe.agent != echo->agent ||
        !ls_clock_verify(in, echo->key) || !is_first(echo, probe.number))
        return false;
    *out_number = probe.number;
    return true;
}

void ls_clock_echo_reply(const struct ls_clock_echo *echo, uint64_t number, int64_t received_ns,
                         int64_t replied_ns, unsigned char out[LS_CLOCK_DATAGRAM_BYTES])
{
    const struct ls_clock_datagram reply = { .kind = LS_CLOCK_REPLY,
                                             .agent = echo->agent,
                                             .number = number,
                                             .received_ns = received_ns,
                                             .replied_ns = replied_ns };

    ls_clock_seal(&reply, echo->key, out);
}

/* ---- the coordinator's end ---- */

void ls_clock_asker_init(struct ls_clock_asker *asker, uint32_t agent,
                         const unsigned char key[LS_CLOCK_KEY_BYTES])
{
    *asker = (struct ls_clock_asker){ .agent = agent };
    memcpy(asker->key, key, LS_CLOCK_KEY_BYTES);
}

uint64_t ls_clock_asker_probe(struct ls_clock_asker *asker,
                              unsigned char out[LS_CLOCK_DATAGRAM_BYTES])
{
    const struct ls_clock_datagram probe = { .kind = LS_CLOCK_PROBE,
                                             .agent = asker->agent,
                                             .number = ++asker->number };

    ls_clock_seal(&probe, asker->key, out);
    return probe.number;
}

void ls_clock_asker_sent(struct ls_clock_asker *asker, uint64_t number, int64_t sent_ns)
{
    asker->pending[number % LS_CLOCK_PENDING].number = number;
    asker->pending[number % LS_CLOCK_PENDING].sent_ns = sent_ns;
}

enum ls_clock_news ls_clock_asker_take(struct ls_clock_asker *asker, struct ls_bytes in,
                                       struct ls_clock_exchange *out_exchange)
{
    struct ls_clock_datagram d;
    uint64_t *number;

    if (!ls_clock_parse(in, &d) || d.agent != asker->agent || d.kind == LS_CLOCK_PROBE ||
        !ls_clock_verify(in, asker->key))
        return LS_CLOCK_NOTHING;
    if (d.kind == LS_CLOCK_KNOCK) {
        if (d.number <= asker->knock)
            return LS_CLOCK_NOTHING;
        asker->knock = d.number;
        return LS_CLOCK_KNOCKED;
    }
    number = &asker->pending[d.number % LS_CLOCK_PENDING].number;
    if (*number != d.number)
        return LS_CLOCK_NOTHING;
    *number = 0;
    *out_exchange = (struct ls_clock_exchange){
        .sent_ns = asker->pending[d.number % LS_CLOCK_PENDING].sent_ns,
        .received_ns = d.received_ns,
        .replied_ns = d.replied_ns,
    };
    return LS_CLOCK_ANSWERED;
}
