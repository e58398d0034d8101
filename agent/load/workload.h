/* agent/load/workload.h - a prepared, immutable load: all that workers need, and nothing else.
 *
 * Whoever builds it (agent/session) has checked it and keeps it alive, with everything it points
 * to, until the load is destroyed. agent/load/ never sees a plan, protobuf or nng.
 */
#ifndef LS_AGENT_LOAD_WORKLOAD_H
#define LS_AGENT_LOAD_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/attr.h"
#include "common/schedule.h"

enum load_law {
    LOAD_LAW_CLOSED,   /* each connection sends its next request as soon as it may */
    LOAD_LAW_CONSTANT, /* open loop: requests are due whether or not a connection is free */
    LOAD_LAW_POISSON,
    LOAD_LAW_PIECES,
    LOAD_LAW_WAVES, /* one request on each connection; when all have ended, again */
    LOAD_LAW_COUNT
};

/* Whether the kernel is to say when answers arrive. */
enum load_stamps {
    LOAD_STAMPS_AUTO, /* where that costs next to nothing: on io_uring, and in open loops */
    LOAD_STAMPS_ON,
    LOAD_STAMPS_OFF,
    LOAD_STAMPS_COUNT
};

/* How links wait for their sockets. */
enum load_io {
    LOAD_IO_AUTO, /* io_uring where it works */
    LOAD_IO_LIBEV,
    LOAD_IO_URING,
    LOAD_IO_COUNT
};

struct load_variation; /* agent/load/variation.h */
struct load_http2;     /* agent/load/http2_request.h */

/* One request of the plan, in the driver's own wire form. */
struct load_request {
    struct ls_bytes bytes;  /* complete: request line, headers, body; of no meaning if varied */
    const char *label;      /* "GET /hello", for messages */
    bool no_body;           /* the answer has none whatever it says (HEAD) */
    bool closes;            /* says "Connection: close": its answer is the connection's last */
    uint16_t expect_status; /* 0: any of 200 to 399 */
    bool expect_body_given;
    struct ls_bytes expect_body;
    bool frames;     /* bytes are a message of WebSocket, not HTTP */
    bool gunzip;     /* the answer has to be gzip-coded, and expect_body is what is in it */
    uint32_t weight; /* of workload->mix */
    /* The bytes, and perhaps the expected body, differ from turn to turn; NULL: they do not. */
    const struct load_variation *varied;
};

/* One place of a mix: the rank-th of request's places. */
struct load_place {
    uint32_t request;
    uint32_t rank;
};

/* The turn-th time (from 0) that this request is sent, counted over all workers. */
struct load_turn {
    uint32_t request;
    uint64_t turn;
};

/* TLS towards the target. Texts and files are in memory; nothing here is ever logged. */
struct load_tls {
    bool verify;                 /* that the certificate is trusted and for server_name */
    bool resume;                 /* sessions of earlier connections */
    const char *server_name;     /* a name (sent as SNI) or a literal address (not sent) */
    struct ls_bytes ca;          /* PEM, whom to trust; empty: whom this host trusts */
    struct ls_bytes certificate; /* PEM, ours and what it was issued by; empty: none */
    struct ls_bytes key;         /* PEM, to certificate */
    const char *const *alpn;     /* offered, NULL at the end; the first is liked best */
    bool alpn_required;          /* the server has to choose the first of them */
    uint16_t min_version;        /* 0x0303: 1.2, 0x0304: 1.3 */
    uint16_t max_version;
    const char *ciphers; /* as OpenSSL writes lists of them, either version's; NULL: its own */
};

/* Each message goes to all connections of the workload, of all agents. What comes is before, the
 * sender's name if named, between, the message, after. */
struct load_room {
    struct ls_bytes ready; /* the text that says that all are in; empty: nothing is waited for */
    struct ls_bytes before;
    bool named;
    struct ls_bytes between;
    struct ls_bytes after;
    bool to_sender; /* it gets its own messages, too */
};

/* What is WebSocket's beside the messages, which are the workload's requests. */
struct load_websocket {
    struct ls_bytes handshake; /* the request that asks for it, with a key to be replaced ... */
    size_t key_at;             /* ... here; 24 bytes */
    size_t name_at;            /* where the connection's name goes, in place of name_len bytes */
    size_t name_len;           /* 0: nowhere */
    const char *subprotocol;   /* asked for, and to be agreed to; NULL: none */
    bool binary;
    bool numbered;        /* the first LOAD_WS_NUMBER_BYTES of a message are its request's number */
    bool deflate;         /* permessage-deflate is offered */
    bool server_takeover; /* ... and the server may refer to its earlier messages */
    size_t fragment_bytes;        /* of the fragments that messages are sent in; 0: in one */
    const struct load_room *room; /* NULL: each message is answered by one */
};

#define LOAD_WS_NUMBER_BYTES 16u

struct load_workload {
    const char *driver;                     /* "http1", "http2", "null" ... */
    const char *link;                       /* "tcp" */
    const struct load_tls *tls;             /* NULL: none */
    const struct load_websocket *websocket; /* of the driver of that name */
    enum load_io io;
    struct sockaddr_storage address;
    socklen_t address_len;
    const struct load_request *requests;
    uint32_t request_count; /* >= 1 */
    /* The order in which requests are sent, over and over: request i has weight places. NULL: each
     * in turn. What is sent as number k of the load follows from k: load_workload_turn(). */
    const struct load_place *mix;
    uint32_t mix_len;
    /* What connections need for what is rendered under load: the longest request and the longest
     * expected body of those without a table. Is any answer to be decoded? */
    size_t rendered_max;
    size_t expected_max;
    bool gunzips;
    const struct load_http2 *http2; /* what the requests of an HTTP/2 load share; NULL: another */
    uint32_t pipeline;              /* requests in flight per connection, >= 1; HTTP/2: streams */
    enum load_law law;
    double rate_per_s; /* constant, Poisson: of all workers of all agents together */
    const struct ls_rate_piece *pieces; /* since the window's start; initialised */
    size_t piece_count;
    uint64_t count;       /* closed, waves: measured requests of all workers; 0: by time */
    uint32_t connections; /* of all workers of all agents */
    uint32_t queue_max;   /* arrivals of one worker that are due but not sent; then shed */
    int64_t timeout_ns;   /* of one request, from its scheduled instant */
    enum load_stamps stamps;
    int64_t min_wait_ns; /* closed, io_uring: collect answers for so long before reading; 0: not */
    uint64_t seed;
    bool frugal;                /* sleep until an arrival is due instead of spinning at the end */
    int64_t think_ns;           /* closed: mean time from an answer to the next request; 0: none */
    bool think_exponential;     /* constant otherwise */
    uint64_t lifetime_requests; /* of a connection; 0: no limit */
    int64_t lifetime_ns;        /* of a connection, to AGENT_SWEEP_NS; 0: no limit */
    /* Which workers these are. Worker i of workers_total takes ls_share(total, workers_total, i)
     * of connections and count, and the arrivals k with k % workers_total == i. */
    uint32_t worker_base;
    uint32_t workers; /* of this agent */
    uint32_t workers_total;
    const int *worker_cpus;                 /* workers entries, -1: not pinned */
    const struct sockaddr_storage *sources; /* connections come from them by turns */
    uint32_t source_count;                  /* 0: the kernel chooses */
};

/* All instants on this host's monotonic clock, agreed before. */
struct load_window {
    int64_t start_ns;
    int64_t warmup_ns;
    int64_t measure_ns; /* fixed count: the most it may take */
    int64_t drain_ns;
    int64_t interval_ns;
    int64_t open_ns; /* connections are not opened before it: idle ones are hung up on */
};

/* How a request ended. The order is that of struct load_counts. */
enum load_outcome {
    LOAD_OK,
    LOAD_BAD_STATUS,
    LOAD_BAD_BODY,
    LOAD_BAD_FRAMING,
    LOAD_TIMEOUT,
    LOAD_RESET,
    LOAD_CLOSED_EARLY,
    LOAD_TLS_ERROR,
    LOAD_ABORTED,
    LOAD_OUTCOME_COUNT
};

/* scheduled = sent + shed; sent = the sum of outcomes. */
struct load_counts {
    uint64_t scheduled;
    uint64_t sent;
    uint64_t shed;
    uint64_t outcome[LOAD_OUTCOME_COUNT];
};

static inline bool load_law_is_open(enum load_law law)
{
    return law >= LOAD_LAW_CONSTANT && law <= LOAD_LAW_PIECES;
}

static inline struct load_turn load_workload_turn(const struct load_workload *workload, uint64_t k)
{
    const struct load_place *place;

    if (workload->mix == NULL) {
        uint32_t count = workload->request_count;

        if (count == 1)
            return (struct load_turn){ .request = 0, .turn = k };
        return (struct load_turn){ .request = (uint32_t)(k % count), .turn = k / count };
    }
    place = &workload->mix[k % workload->mix_len];
    return (struct load_turn){
        .request = place->request,
        .turn = k / workload->mix_len * workload->requests[place->request].weight + place->rank
    };
}

/* The first k of which load_workload_turn() makes that. */
uint64_t load_workload_find(const struct load_workload *workload, struct load_turn turn);

const char *load_outcome_name(enum load_outcome outcome); /* "bad_status" */
void load_counts_add(struct load_counts *dst, const struct load_counts *src);
bool load_counts_balance(const struct load_counts *counts);

/* Can HTTP give the answer that the request expects? LS_EINVAL, LS_ERANGE. */
enum ls_err load_request_check_expected(const struct load_request *request,
                                        struct ls_diag *diag) LS_NODISCARD;

#endif
