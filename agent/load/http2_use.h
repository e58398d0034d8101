/* agent/load/http2_use.h - what HTTP/2 was like, beside what every protocol tells. */
#ifndef LS_AGENT_LOAD_HTTP2_USE_H
#define LS_AGENT_LOAD_HTTP2_USE_H

#include <stdint.h>

#define LOAD_HTTP2_CODES 15 /* of RFC 9113, section 7; the last is for all others */

/* What HTTP/2 was like, all connections of the load. */
struct load_http2_use {
    uint64_t connections; /* on which the peer has said its SETTINGS */
    uint32_t
        granted_least; /* streams at once: the fewest and the most that a connection was allowed
                        */
    uint32_t granted_most;
    uint64_t retried; /* requests behind the last stream of a GOAWAY, sent again */
    uint64_t pushes_refused;
    uint64_t pings;                    /* answered */
    uint64_t resets[LOAD_HTTP2_CODES]; /* streams that the peer has reset, by code */
    uint64_t goaways[LOAD_HTTP2_CODES];
    const char *why; /* static text: what first broke a connection; NULL: nothing did */
};

void load_http2_use_add(struct load_http2_use *dst, const struct load_http2_use *src);
/* "CANCEL"; "other" */
const char *load_http2_code_name(unsigned code);

#endif
