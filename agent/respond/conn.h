/* agent/respond/conn.h - one connection: requests in, answers out when they are due.
 *
 * Belongs to one thread (struct respond_loop). Answers wait in a queue of runs: equal answers that
 * are due at the same instant are one run, and leave in one system call.
 */
#ifndef LS_AGENT_RESPOND_CONN_H
#define LS_AGENT_RESPOND_CONN_H

#include <stdatomic.h>

#include "agent/respond/answer.h"
#include "agent/respond/request.h"
#include "agent/respond/server.h"
#include "agent/respond/tls.h"
#include "common/hist.h"
#include "common/rng.h"

#define RESPOND_READ_BYTES  65536
#define RESPOND_QUEUE_MAX   1024 /* answers that wait on one connection; then it is not read */
#define RESPOND_DRIP_PIECES 8
#define RESPOND_NOT_QUEUED  UINT32_MAX

struct respond_conn;
struct respond_ws;
struct respond_h2;

/* Bytes that wait to be sent, or for their end. Zeroed at first. */
struct respond_bytes {
    unsigned char *data; /* owned */
    size_t at;
    size_t len; /* data[at..len) are in use */
    size_t cap;
};

/* All members of one thread's room. Zeroed at first. */
struct respond_room {
    struct respond_conn *first;
    uint32_t count;
    uint32_t victim;             /* whom the next fault hits */
    struct respond_bytes shared; /* what all get next, in order; owned */
    uint64_t shared_messages;
    bool faulty; /* somebody's next delivery is to overtake one */
    bool dirty;  /* members have something to send */
};

/* Counters with one writer, read by others at any time. */
struct respond_tally {
    _Atomic uint64_t accept_failures;
    _Atomic uint64_t opened;
    _Atomic uint64_t closed;
    _Atomic uint64_t requests;
    _Atomic uint64_t responses;
    _Atomic uint64_t unanswered;
    _Atomic uint64_t bad_requests;
    _Atomic uint64_t bytes_in;
    _Atomic uint64_t bytes_out;
    _Atomic uint64_t stalls;
    _Atomic uint64_t upgrades;
    _Atomic uint64_t deliveries;
    _Atomic uint64_t pongs;
    _Atomic uint64_t closes;
    _Atomic uint64_t actions[RESPOND_ACTION_COUNT];
};

static inline void respond_tally_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* What the connections of one thread share. */
struct respond_loop {
    const struct respond_settings *settings;
    const struct respond_answers *answers;
    _Atomic uint64_t *sequence; /* numbers requests over all threads, for the rules */
    _Atomic uint64_t *upgrades; /* the same of upgrades */
    int epoll_fd;
    struct respond_tally tally;
    struct respond_cache cache;
    struct ls_rng rng;
    int64_t queue_free_ns;      /* when the queue's server has served all that have come so far */
    struct ls_hist *lateness;   /* owned by the server */
    struct respond_conn **heap; /* by due instant; owned by the server */
    uint32_t heap_len;
    uint32_t heap_cap;
    unsigned char *read_buffer; /* RESPOND_READ_BYTES; owned by the server */
    struct respond_room room;
};

/* One run of equal answers. */
struct respond_run {
    const struct respond_answer *answer;
    int64_t due_ns;
    uint32_t count;
    uint32_t pieces; /* DRIP: of the first answer, how many have left */
};

struct respond_conn {
    int fd;
    struct respond_tls_session *tls; /* owned; NULL: plain */
    struct respond_ws *ws;           /* owned; NULL: HTTP */
    struct respond_h2 *h2;           /* owned; NULL: HTTP/1 */
    unsigned char first[3];          /* bytes, until they tell HTTP/2 from HTTP/1 */
    uint32_t first_len;
    struct respond_parser parser;
    struct respond_run *runs; /* owned ring of runs_cap */
    uint32_t runs_cap;
    uint32_t runs_first;
    uint32_t runs_len;
    uint32_t waiting;          /* answers in all runs */
    size_t sent;               /* bytes of the first answer of the first run */
    int64_t timer_ns;          /* when to look at it again */
    uint32_t heap_at;          /* RESPOND_NOT_QUEUED: no timer */
    uint32_t watched;          /* epoll events asked for */
    bool ending;               /* an answer ended it: later requests are counted, not answered */
    bool lingering;            /* FIN is sent; waiting for the peer's */
    bool blocked;              /* the socket is full */
    bool peer_done;            /* the peer has sent FIN */
    bool lost;                 /* what it sent was no request */
    struct respond_conn *next; /* in the thread's list */
    struct respond_conn *prev;
};

/* tls NULL: plain. NULL: no memory; the caller still owns fd. */
struct respond_conn *respond_conn_create(int fd, struct respond_tls *tls);
/* Counts what was never answered and closes. The caller has taken it off its list. */
void respond_conn_destroy(struct respond_loop *loop, struct respond_conn *conn);

/* The first rule that applies to the next request, or message, of the server; -1: none. */
int respond_choose_rule(struct respond_loop *loop);
/* When a request that was read at now_ns is to be answered; 0: at once. */
int64_t respond_due_instant(struct respond_loop *loop, const struct respond_answer *answer,
                            int64_t now_ns);
/* As send(). */
ssize_t respond_conn_send(struct respond_conn *conn, const void *data, size_t len);

/* The socket is readable or writable, or a timer has come. false: the connection has ended, the
 * caller destroys it. */
bool respond_conn_readable(struct respond_loop *loop, struct respond_conn *conn, int64_t now_ns);
bool respond_conn_flush(struct respond_loop *loop, struct respond_conn *conn, int64_t now_ns);

#endif
