/* agent/respond/request.h - finds the requests in a stream of bytes; strict, in any slicing.
 *
 * Independent of the load generator's own code on purpose: what it sends is judged here.
 */
#ifndef LS_AGENT_RESPOND_REQUEST_H
#define LS_AGENT_RESPOND_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESPOND_HEAD_MAX  65536
#define RESPOND_CACHE_MAX 1024
#define RESPOND_WORD_MAX  64 /* of the texts of an upgrade, with the NUL */

enum respond_found {
    RESPOND_MORE,    /* all bytes are taken, no request has ended */
    RESPOND_REQUEST, /* one has ended */
    RESPOND_EXPECTS, /* a head has ended whose sender waits for 100 Continue; then its body */
    RESPOND_BAD,     /* no request: why says in what way. The stream is lost */
    RESPOND_NOMEM
};

struct respond_request {
    bool head;    /* HEAD: the answer has no body */
    bool last;    /* the sender wants the connection to end */
    bool upgrade; /* it wants WebSocket: parser.upgrade says how */
};

/* Texts that are longer than fits are cut. */
struct respond_upgrade {
    char key[RESPOND_WORD_MAX];      /* Sec-WebSocket-Key */
    char protocol[RESPOND_WORD_MAX]; /* the first of Sec-WebSocket-Protocol; "": none */
    char name[RESPOND_WORD_MAX];     /* of the query's ?name=; "anon" */
};

/* The head of a frequent request without a body, shared by the connections of one thread: the same
 * bytes mean the same, without reading them again. Zeroed at first. */
struct respond_cache {
    unsigned char bytes[RESPOND_CACHE_MAX];
    size_t len;
    struct respond_request request;
};

/* State of one stream; zeroed at first. */
struct respond_parser {
    unsigned char *pending; /* owned: a head that has not ended */
    size_t pending_len;
    size_t pending_cap;
    uint64_t body_left; /* of a body with a length, or of a chunk */
    int state;
    uint32_t line_len; /* of a chunk size or trailer line */
    struct respond_request request;
    struct respond_upgrade upgrade; /* of the last head */
    const char *why;                /* static text */
};

/* Takes bytes from *data, *len, both of which move on, until it has found something. */
enum respond_found respond_parser_next(struct respond_parser *parser, struct respond_cache *cache,
                                       const unsigned char **data, size_t *len,
                                       struct respond_request *out);
void respond_parser_fini(struct respond_parser *parser);

#endif
