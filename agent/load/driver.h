/* agent/load/driver.h - what a protocol provides: bytes in, bytes out, results by callback.
 *
 * A driver owns no socket, thread, timer or clock and never reports a time. All calls for one
 * connection come from one thread, and only open() may allocate. An operation is a number that
 * the caller chose in submit(); each submitted operation ends in exactly one env->done(), which may
 * call submit() and drain() of the same connection, but nothing else.
 */
#ifndef LS_AGENT_LOAD_DRIVER_H
#define LS_AGENT_LOAD_DRIVER_H

#include "agent/load/load.h"
#include "agent/load/workload.h"
#include "common/err.h"
#include "common/rng.h"

/* What is known of a finished operation. why points to static text: "" for LOAD_OK. */
struct agent_reply {
    enum load_outcome outcome;
    uint16_t status; /* 0: none was read */
    uint64_t body_bytes;
    uint64_t mismatch_at; /* LOAD_BAD_BODY: offset of the first wrong byte */
    const char *why;      /* "content-length twice", "body is shorter than expected" */
    bool more;            /* bytes of the next answer came in the same piece as this one's end */
    bool again; /* the peer has not looked at it, and says so: it did not end, it is sent again */
};

/* Outlives the connections that were opened with it. */
struct agent_driver_env {
    const struct load_workload *workload;
    void (*done)(void *ctx, uint32_t op, const struct agent_reply *reply);
    /* The same of several operations of a connection that ended well and alike, in this order:
     * their answers are whole within the bytes that are being fed. more is the last one's; behind
     * each of the others came the next. NULL: done() is called for each. */
    void (*done_alike)(void *ctx, const uint32_t *ops, uint32_t count,
                       const struct agent_reply *reply);
    void *ctx;
    struct ls_rng *rng;             /* the worker's */
    struct load_messages *messages; /* to be counted in, at this moment; the caller may change it */
    uint64_t number;                /* of the connection being opened, among those of all workers */

    /* For drivers that interleave; NULL is fine. */
    void (*began)(void *ctx, uint32_t op); /* the first bytes of its answer are in this piece */
    struct load_http2_use *http2;          /* counted by the driver; the caller's */
    void *shared; /* what share() made; NULL: this is a connection of its own, a probe */
    /* For messages that carry it: when an operation was due, ... */
    int64_t (*due)(void *ctx, uint32_t op);
    /* ... and to be told that one arrived that was due then, of which the low 48 bits are known. */
    void (*delivered)(void *ctx, uint64_t due_ns);
};

/* How far a connection is that has something to agree on before it takes operations. */
enum agent_greeting {
    AGENT_GREETS, /* the peer's answer is missing */
    AGENT_WAITS,  /* agreed; but the peer has not said that it may begin */
    AGENT_READY
};

struct agent_driver {
    const char *name; /* as written in plans: "http1" */
    size_t conn_size; /* bytes of state per connection, handed over zeroed */
    bool interleaves; /* answers come mixed: began() is called, and more means nothing */

    /* Can this workload be driven at all? No I/O. */
    enum ls_err (*check)(const struct load_workload *workload, struct ls_diag *diag);

    /* What a worker's connections share; share NULL, or *out_shared: nothing. An operation may then
     * end while another connection is fed or closed. unshare(NULL) is fine. */
    enum ls_err (*share)(const struct agent_driver_env *env, uint32_t connections,
                         void **out_shared, struct ls_diag *diag);
    void (*unshare)(void *shared);
    /* All connections are closed for good: what is left to be counted is counted. */
    void (*balance)(void *shared);

    /* Starts a connection's life, which env outlives; *out_max_in_flight is how many operations it
     * takes at once. */
    enum ls_err (*open)(void *conn, const struct agent_driver_env *env,
                        uint32_t *out_max_in_flight);

    /* Queues request number request of the load (load_workload_turn) as operation op; calls nothing
     * back. LS_EAGAIN: full, offer it again; LS_ESTATE: this connection takes no more. */
    enum ls_err (*submit)(void *conn, uint32_t op, uint64_t request);
    /* submit() of count operations, ops[0] being request and the others those behind it: returns
     * how many it took; the next would be refused. NULL: submit() is called for each. */
    uint32_t (*submit_all)(void *conn, const uint32_t *ops, uint32_t count, uint64_t request);

    /* NULL: the connection takes operations as soon as it is open. Otherwise what drain() gives is
     * sent, and nothing submitted until this says so. */
    enum agent_greeting (*greeting)(const void *conn);

    /* Takes all of in. LS_EAGAIN: well, and drain() has something to send that belongs to no
     * operation. LS_ECLOSED: finished in good order, the caller must close; operations still
     * outstanding are then reported by eof(). LS_EPROTO: give up, the peer broke the protocol; the
     * operation at fault has been reported, the others are reported by eof(); what drain() still
     * gives are last words, sent if that goes at once. */
    enum ls_err (*feed)(void *conn, struct ls_bytes in);

    /* Up to cap bytes to send; 0: nothing at the moment. Whatever it returns counts as sent.
     * *out_ops (NULL is fine) grows by the number of operations whose first byte is among them. */
    size_t (*drain)(void *conn, uint8_t *out, size_t cap, uint32_t *out_ops);

    /* The peer closed, or the caller gives up: ends every outstanding operation, with outcome
     * how (LOAD_CLOSED_EARLY, LOAD_RESET, LOAD_ABORTED ...) unless the end itself completes it (a
     * body that lasts until close). */
    void (*eof)(void *conn, enum load_outcome how);

    /* NULL: a connection ends by being closed. Otherwise: none of its operations is under way, and
     * no further one comes; drain() may have something to say, and feed() returns LS_ECLOSED when
     * all has been said. True: it may take as long as the drain may. */
    bool (*leave)(void *conn);

    /* Releases what open() took; safe after a failed open(). Reports nothing of its own. */
    void (*close)(void *conn);

    /* Ends one operation that has been sent with LOAD_TIMEOUT and leaves the others alone; drain()
     * has something to send. False: nothing has come from the peer since it was sent, so it has to
     * be the connection, and nothing has happened. NULL: only a connection can be given up. */
    bool (*cancel)(void *conn, uint32_t op);

    /* The caller is about to end an intact connection, before eof(): true if there is a farewell to
     * drain(), even behind eof(). NULL: there is none. */
    bool (*part)(void *conn);
};

/* NULL if there is none of that name. */
const struct agent_driver *agent_driver_find(const char *name);
/* The i-th driver, NULL past the last. */
const struct agent_driver *agent_driver_at(unsigned i);

#endif
