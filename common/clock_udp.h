/* common/clock_udp.h - clock exchanges in datagrams, beside those of the session: where UDP passes,
 * fewer threads and no stream lie between the two clocks, and the bound is the tighter for it.
 *
 * The coordinator asks and the agent answers, as in the session; but it is the agent who begins,
 * with a knock, for the coordinator does not know where its datagrams come from (an agent listens
 * on nothing; there may be a translation of addresses between them). Whoever has a valid datagram
 * of one end has not got one of the other: kinds differ, and nothing is taken twice.
 *
 *     agent  --KNOCK 7-->  coordinator      numbers grow; an old one is ignored
 *     agent  <--PROBE 31-- coordinator      numbers grow; each is answered once, if it is not much
 *     agent  --REPLY 31--> coordinator      older than the newest; each reply is taken once
 *
 * All datagrams have one length, whoever sends what: an answer is no longer than its question, and
 * one that does not verify is not answered at all. Authentic is what carries the HMAC-SHA-256
 * (RFC 2104), cut to 128 bits, under a key that was sent in the session for this agent process
 * alone. Nothing here is secret: a delay or a loss is all that somebody in between can cause, and
 * both only widen the bound (RFC 5905 section 8).
 *
 * No socket, no clock, no memory of its own here: bytes and instants come in as arguments.
 */
#ifndef LS_COMMON_CLOCK_UDP_H
#define LS_COMMON_CLOCK_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"
#include "common/err.h"

#define LS_CLOCK_KEY_BYTES      32u
#define LS_CLOCK_DATAGRAM_BYTES 52u
#define LS_CLOCK_PENDING        16u /* probes of one agent under way; older ones are forgotten */
/* A coordinator asks each agent at least this often, however many there are; an agent that is not
 * asked for longer knocks again, for the way between the two may have changed. */
#define LS_CLOCK_SELDOM_NS INT64_C(10000000000)

enum ls_clock_kind { LS_CLOCK_KNOCK = 1, LS_CLOCK_PROBE = 2, LS_CLOCK_REPLY = 3 };

struct ls_clock_datagram {
    enum ls_clock_kind kind;
    uint32_t agent; /* which of the coordinator's; whose key it is */
    uint64_t number;
    int64_t received_ns; /* reply: the agent's clock. Otherwise 0 */
    int64_t replied_ns;
};

/* ---- bytes ---- */

void ls_clock_seal(const struct ls_clock_datagram *datagram,
                   const unsigned char key[LS_CLOCK_KEY_BYTES],
                   unsigned char out[LS_CLOCK_DATAGRAM_BYTES]);
/* What it claims to be, to find the key by; nothing of it is to be believed yet. False: it is none
 * of ours. */
bool ls_clock_parse(struct ls_bytes in, struct ls_clock_datagram *out);
/* in has been parsed. Takes the same time, whatever is wrong. */
bool ls_clock_verify(struct ls_bytes in, const unsigned char key[LS_CLOCK_KEY_BYTES]);

/* ---- the agent's end ---- */

struct ls_clock_echo {
    unsigned char key[LS_CLOCK_KEY_BYTES];
    uint32_t agent;
    uint64_t knocks;
    uint64_t newest; /* probe answered */
    uint64_t before; /* bit i: probe newest - 1 - i was answered */
};

void ls_clock_echo_init(struct ls_clock_echo *echo, uint32_t agent,
                        const unsigned char key[LS_CLOCK_KEY_BYTES]);
void ls_clock_echo_knock(struct ls_clock_echo *echo, unsigned char out[LS_CLOCK_DATAGRAM_BYTES]);
/* True: in is a probe of ours that was not answered yet, and *out_number its number. */
bool ls_clock_echo_take(struct ls_clock_echo *echo, struct ls_bytes in, uint64_t *out_number);
/* The answer to it; to be sent at once, for replied_ns says that it was. */
void ls_clock_echo_reply(const struct ls_clock_echo *echo, uint64_t number, int64_t received_ns,
                         int64_t replied_ns, unsigned char out[LS_CLOCK_DATAGRAM_BYTES]);

/* ---- the coordinator's end, for one agent ---- */

struct ls_clock_asker {
    unsigned char key[LS_CLOCK_KEY_BYTES];
    uint32_t agent;
    uint64_t knock;  /* the newest one */
    uint64_t number; /* of the last probe */
    struct {
        uint64_t number; /* 0: none */
        int64_t sent_ns;
    } pending[LS_CLOCK_PENDING]; /* at number % LS_CLOCK_PENDING */
};

struct ls_clock_exchange {
    int64_t sent_ns; /* our clock */
    int64_t received_ns;
    int64_t replied_ns;
};

enum ls_clock_news {
    LS_CLOCK_NOTHING, /* not authentic, or seen before */
    LS_CLOCK_KNOCKED, /* it came from where the agent is now */
    LS_CLOCK_ANSWERED /* *out_exchange; when it came back is the caller's to say */
};

void ls_clock_asker_init(struct ls_clock_asker *asker, uint32_t agent,
                         const unsigned char key[LS_CLOCK_KEY_BYTES]);
/* The next probe, with its number. The instant of sending is noted behind it, when known best. */
uint64_t ls_clock_asker_probe(struct ls_clock_asker *asker,
                              unsigned char out[LS_CLOCK_DATAGRAM_BYTES]);
void ls_clock_asker_sent(struct ls_clock_asker *asker, uint64_t number, int64_t sent_ns);
/* in has been parsed, and names this agent. */
enum ls_clock_news ls_clock_asker_take(struct ls_clock_asker *asker, struct ls_bytes in,
                                       struct ls_clock_exchange *out_exchange);

#endif
