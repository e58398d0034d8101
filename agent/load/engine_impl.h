/* agent/load/engine_impl.h - what engine.c (time and life), engine_ops.c (arrivals, operations),
 * engine_end.c (their ends), engine_conn.c (connections), engine_tally.c (values) and
 * engine_think.c (think times) share. Nobody else includes this. */
#ifndef LS_AGENT_LOAD_ENGINE_IMPL_H
#define LS_AGENT_LOAD_ENGINE_IMPL_H

#include "agent/load/engine.h"
#include "agent/load/pacer.h"
#include "common/schedule.h"

#define NO_OP          UINT32_MAX
#define NO_CONN        UINT32_MAX
#define STAMP_ERROR_NS INT64_C(2000) /* of the difference between two clocks, read in turn */

enum op_state { OP_FREE, OP_UNSENT, OP_SENT };

struct op {
    int64_t scheduled_ns;
    int64_t sent_ns;
    int64_t began_ns; /* of drivers that interleave: the answer; 0: not yet */
    uint64_t request; /* number of the load */
    uint32_t next;    /* in its connection's list of free or of unsent ones */
    uint32_t older;   /* in the engine's list of all that are under way, by scheduled_ns */
    uint32_t newer;
    uint32_t conn;
    uint8_t state;
    uint8_t part; /* enum agent_part, which follows from scheduled_ns */
    bool counted; /* is in the books as sent: a connection has returned it */
};

enum conn_state {
    CONN_CLOSED,
    CONN_CONNECTING,
    CONN_GREETING, /* connected, but the driver has not agreed with the peer yet */
    CONN_WAITING,  /* it has, but the peer has not said that it may begin */
    CONN_OPEN,
    CONN_CLOSING
};

enum conn_list_id {
    LIST_NONE,
    LIST_TO_OPEN,
    LIST_CONNECTING,
    LIST_GREETING,
    LIST_WAITING,
    LIST_IDLE,    /* open loop: no request in flight */
    LIST_FREE,    /* open loop: some in flight, room for more */
    LIST_BACKOFF, /* the first of AGENT_BACKOFF_STEPS */
    LIST_COUNT = LIST_BACKOFF + AGENT_BACKOFF_STEPS
};

/* Followed in memory by the link's and the driver's state. */
struct conn {
    struct agent_engine *engine;
    struct conn *next;
    struct conn *prev;
    int64_t at_ns; /* connecting, waiting, open: since; back-off: until */
    /* Connecting: the handshake, when the transport is connected and one follows. Open: the answer
     * coming in. 0: not yet. */
    int64_t began_ns;
    uint32_t index;
    uint32_t in_flight;
    uint32_t limit; /* of in_flight: what was asked for and the driver can do */
    uint32_t free_op;
    uint32_t unsent_first;
    uint32_t unsent_last;
    uint8_t state;
    uint8_t list;
    uint8_t failures; /* in a row: connects, or connections that were of no use */
    bool settled;     /* has been open or has failed */
    bool was_open;
    bool used;     /* has answered since it was opened */
    bool stuck;    /* the driver took no more, until it has been fed again */
    bool given_up; /* closing because we want to */
    bool spent;    /* at the end of its lifetime: takes no more */
    bool retired;  /* was closed for that */
    bool thinking; /* is in the heap of those; whether or not it is open */
    bool woken;    /* an operation ended while another connection was fed */
};

/* Of a connection, beside it because most loads have no lifetimes. */
struct life {
    uint64_t taken;   /* requests since it was opened */
    uint32_t younger; /* in the list of open ones by age, NO_CONN at its end; if they are limited */
    uint32_t older;
};

/* A connection that thinks. */
struct thinker {
    int64_t wakes_ns;
    struct conn *conn;
};

struct conn_list {
    struct conn *first;
    struct conn *last;
};

struct arrival {
    int64_t scheduled_ns;
    uint64_t request;
};

/* One that was sent, and that the peer has not looked at: it is still under way. */
struct retry {
    int64_t scheduled_ns;
    uint64_t request;
    uint8_t part;
};

enum engine_state { ENGINE_OPENING, ENGINE_RUNNING, ENGINE_FINISHED };

/* A value that came several times in a row: what one read or one send ends shares its instant. */
struct tally {
    int64_t value_ns;
    uint64_t count;
};

/* What an answer's end is recorded as; negative: not known. */
struct answer_times {
    int64_t response_ns;
    int64_t service_ns;
    int64_t first_byte_ns;
    int64_t unread_ns;
};

struct agent_engine {
    struct agent_engine_setup set;
    struct agent_driver_env driver_env;
    struct ls_rng rng;
    struct load_messages early_messages; /* others may have started earlier, and be heard */
    struct agent_recorder *recorder;
    struct tally tallies[LS_SERIES_COUNT]; /* not yet in the recorder's histograms */
    struct answer_times ended; /* the last one, and how often in a row: not recorded either */
    uint64_t ended_count;
    int64_t now_ns;        /* of the event being worked on */
    int64_t received_ns;   /* when the kernel had the bytes that are being fed; 0: unknown */
    int64_t wall_ahead_ns; /* of the monotonic clock; looked at in each interval */
    enum engine_state state;
    bool open_loop; /* arrivals may have to wait: the open laws, and waves */
    bool waves;
    bool flushing; /* a pull comes from our own flush: now_ns is right */

    int64_t measure_ns; /* start and end of the measure window, end of drain */
    int64_t end_ns;
    int64_t drain_end_ns;
    int64_t edge_ns; /* next slice or window edge */
    int64_t sweep_ns;
    int64_t due_ns; /* next arrival or wave; closed loop: end of the next think time */
    struct ls_arrivals arrivals;
    struct ls_schedule schedule;
    bool measuring; /* health is being read */

    bool fixed;          /* closed loop or waves with a count */
    uint64_t count_left; /* measured requests still to be submitted, or scheduled by a wave */
    int64_t last_done_ns;
    uint64_t next_request[AGENT_PART_COUNT]; /* closed loop */

    struct op *ops; /* owned */
    uint32_t oldest_op;
    uint32_t newest_op;
    uint32_t outstanding;
    uint64_t due_count; /* due and not ended: the in-flight integral's factor */
    int64_t integrated_ns;

    struct arrival *queue; /* owned; ring of queue_cap entries */
    uint32_t queue_max;    /* those that may wait, beside what returns from a connection */
    uint32_t queue_cap;
    uint32_t queue_first;
    uint32_t queue_len;

    struct retry *retries; /* owned; ring of ops' length; NULL: the driver returns none */
    uint32_t retry_cap;
    uint32_t retry_first;
    uint32_t retry_len;

    unsigned char *conns; /* owned */
    size_t conn_stride;
    size_t driver_offset;
    uint32_t conn_count;
    uint32_t depth;
    uint32_t unsettled;
    uint32_t uninvited; /* of these, at the end: CONN_WAITING */
    uint32_t open_count;
    uint32_t connecting;
    uint32_t connecting_max;
    struct conn_list lists[LIST_COUNT];
    void *shared;        /* owned: the driver's */
    struct conn **woken; /* owned; NULL: operations end only while their connection is fed */
    uint32_t woken_count;
    struct conn *feeding;
    bool leaving; /* no operation will come; connections say goodbye */
    int64_t leave_end_ns;
    struct life *lives; /* owned; of each connection. NULL: they have no lifetimes */
    uint32_t oldest;    /* of the open ones, if their time is limited */
    uint32_t youngest;
    uint64_t lifetime;        /* in requests; UINT64_MAX: no limit */
    struct thinker *thinkers; /* owned; heap, the first to wake on top. NULL: nobody thinks */
    uint32_t *thoughts;       /* owned; how often each connection has thought, with thinkers */
    uint32_t thinker_count;
    uint64_t events;

    /* Owned; connect and handshake times of before the start, kept until the window begins. */
    struct ls_hist *early[2];

    struct agent_engine_summary summary;
};

static inline struct conn *engine_conn(const struct agent_engine *e, uint32_t index)
{
    return (struct conn *)(void *)(e->conns + index * e->conn_stride);
}

static inline void *conn_link(struct conn *conn)
{
    return (unsigned char *)conn + ((sizeof(struct conn) + 15) & ~(size_t)15);
}

static inline void *conn_driver(struct conn *conn)
{
    return (unsigned char *)conn + conn->engine->driver_offset;
}

/* engine_conn.c */
enum ls_err engine_conns_create(struct agent_engine *e, struct ls_diag *diag);
void engine_conns_connect(struct agent_engine *e); /* as many as may be connecting at once */
void engine_conns_sweep(struct agent_engine *e);   /* back-off and connects that hang */
void engine_conns_close(struct agent_engine *e);   /* all, for good */
/* Ends an open connection: what is outstanding ends as how, or as engine.h says if given_up. */
void engine_conn_end(struct conn *conn, enum load_outcome how, bool given_up);
/* Puts an open connection into the list that fits its load; open loop only. */
void engine_conn_place(struct conn *conn);
struct conn *engine_conn_take_free(struct agent_engine *e); /* NULL: none */
/* If it is at the end of its lifetime and has its answers: closes it, to be opened again. */
void engine_conn_retire(struct conn *conn);
void engine_conns_start(struct agent_engine *e); /* lifetimes begin */
void engine_conns_leave(struct agent_engine *e); /* all say goodbye */

/* engine_think.c */
enum ls_err engine_think_create(struct agent_engine *e, struct ls_diag *diag);
void engine_think_start(struct agent_engine *e); /* all connections, spread over a think time */
void engine_think(struct conn *conn);            /* from now on; sets due_ns */
/* NULL: none is due; sets due_ns, and *out_woke_ns to when it should have been woken. */
struct conn *engine_think_wake(struct agent_engine *e, int64_t *out_woke_ns);

/* engine_ops.c */
void engine_refill(struct conn *conn);             /* an open connection may have room */
void engine_flush(struct conn *conn);              /* its driver may have something to send */
void engine_place_retries(struct agent_engine *e); /* on connections that have room */
void engine_end_retries(struct agent_engine *e, int64_t scheduled_ns); /* those due by then */
void engine_mark_sent(struct conn *conn, uint32_t ops);                /* the oldest unsent ones */
void engine_unsent_ended(struct conn *conn, uint32_t id); /* before its first byte was sent */
/* It was sent, and not looked at: goes to the next connection that has room, as the same request.
 */
void engine_retry(struct agent_engine *e, const struct op *op);
void engine_due_ends(struct agent_engine *e, uint32_t count); /* of that many of due_count */
void engine_find_next_due(struct agent_engine *e);            /* sets due_ns from the schedule */
/* Does what due_ns stands for: arrivals, a wave, connections that have thought. */
void engine_pump(struct agent_engine *e);
void engine_shed_until(struct agent_engine *e, int64_t scheduled_ns); /* those due by then */
void engine_integrate(struct agent_engine *e); /* in flight up to now, over the measure window */

/* engine_end.c */
void engine_on_began(void *ctx, uint32_t op);
void engine_on_done(void *ctx, uint32_t op, const struct agent_reply *reply);
void engine_on_done_alike(void *ctx, const uint32_t *ids, uint32_t count,
                          const struct agent_reply *reply);
void engine_note_trouble(struct agent_engine *e, const struct op *op,
                         const struct agent_reply *reply, enum load_outcome outcome);
void engine_compare_clocks(struct agent_engine *e); /* sets wall_ahead_ns */

/* The values of a batch are mostly the same one. */
static inline void engine_tally(struct agent_engine *e, enum ls_series series, int64_t value_ns,
                                uint32_t count)
{
    struct tally *t = &e->tallies[series];

    if (value_ns == t->value_ns) {
        t->count += count;
        return;
    }
    ls_hist_record_n(e->recorder->current->series[series], t->value_ns, t->count);
    *t = (struct tally){ .value_ns = value_ns, .count = count };
}

/* engine_tally.c */
void engine_tally_end(struct agent_engine *e, struct answer_times times, uint32_t count);
/* Puts the tallies into the recorder's histograms. */
void engine_settle(struct agent_engine *e);

/* The connection's number among those of all workers. */
uint64_t engine_conn_number(const struct conn *conn);

int64_t engine_op_due(void *ctx, uint32_t op);
void engine_delivered(void *ctx, uint64_t due_ns);
/* Connections of which operations ended elsewhere have room again. */
void engine_wake(struct agent_engine *e);

/* engine.c */
void engine_edges(struct agent_engine *e); /* a slice or a window begins or ends */

#endif
