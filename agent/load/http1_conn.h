/* agent/load/http1_conn.h - what the two halves of the HTTP/1.1 driver share: requests in
 * drivers/http1.c, answers in http1_in.c. Nobody else includes this. */
#ifndef LS_AGENT_LOAD_HTTP1_CONN_H
#define LS_AGENT_LOAD_HTTP1_CONN_H

#include "agent/load/driver.h"
#include "agent/load/gunzip.h"
#include "agent/load/http1_parse.h"
#include "agent/load/variation.h"

struct http1_op {
    uint32_t op;
    uint32_t request; /* index into the workload's requests */
    uint64_t at;      /* of a request that varies: place in its table, or turn if it has none */
};

/* What only some loads need: requests that are rendered when they are sent, bodies that are
 * decoded. */
struct http1_extra {
    struct gunzip *gunzip; /* owned; NULL: nothing is decoded */
    const char *undecoded; /* static text: why the body could not be decoded */
    unsigned char
        *expected; /* the body expected for what was rendered; behind it in the same block */
    unsigned char rendered[];
};

struct http1_conn {
    const struct agent_driver_env *env;
    struct ls_bytes out;       /* what is left of the request that is being sent */
    struct ls_bytes out_body;  /* ... and comes behind that */
    struct ls_bytes expect;    /* the body that answers the oldest operation, once that has begun */
    struct http1_extra *extra; /* owned; NULL: not needed */

    /* Operations without an answer: count of them from first on, the last unsent of which have not
     * begun to be sent. The answer to one may be complete before the request is (out). */
    struct http1_op *ring; /* &one, or owned; NULL: closed */
    struct http1_op one;
    uint32_t cap;
    uint32_t first;
    uint32_t count;
    uint32_t unsent; /* of no meaning once it is over */

    bool over;        /* takes and gives nothing more; eof() reports what is left */
    bool closing;     /* a request that says "Connection: close" was submitted */
    bool begun;       /* the parser is in a response */
    bool unsolicited; /* ... that nobody asked for */
    bool differs;     /* the body is not the expected one from mismatch_at on */
    uint64_t body_bytes;
    uint64_t mismatch_at;
    struct http1_parser parser;
};

static inline const struct load_request *http1_request_of(const struct http1_conn *c,
                                                          const struct http1_op *op)
{
    return &c->env->workload->requests[op->request];
}

static inline struct http1_op *http1_ring_at(struct http1_conn *c, uint32_t i)
{
    uint32_t at = c->first + i; /* both are below PIPELINE_MAX */

    return &c->ring[at < c->cap ? at : at - c->cap];
}

/* http1_in.c: the driver's feed() and eof(). */
enum ls_err http1_feed(void *conn, struct ls_bytes in);
void http1_eof(void *conn, enum load_outcome how);

#endif
