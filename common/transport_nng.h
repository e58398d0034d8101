/* common/transport_nng.h - where nng and libev are known: transport_hub.c, transport_conn.c,
 * transport_sweep.c and transport_keys.c include this, and it alone includes nng.h. */
#ifndef LS_COMMON_TRANSPORT_NNG_H
#define LS_COMMON_TRANSPORT_NNG_H

#include <ev.h>
#include <nng/nng.h>
#include <pthread.h>

#include "common/transport_impl.h"

enum ls_op_kind { LS_OP_OPEN, LS_OP_RECEIVE, LS_OP_SEND };

struct ls_op {
    struct ls_op *next;
    struct ls_hub *hub;
    struct ls_conn *conn; /* NULL: LS_OP_OPEN */
    nng_aio *aio;         /* owned */
    enum ls_op_kind kind;
    bool queued;  /* completed, not yet handled */
    bool busy;    /* started, not yet handled; the loop's thread only */
    bool quiet;   /* nobody has to hear of its success; guarded by the hub's mutex, as is done */
    bool done;    /* it was quiet, and has succeeded */
    size_t bytes; /* that a quiet one is to move */
    int64_t done_ns;
};

struct ls_conn {
    struct ls_conn *next; /* what a sweep looks at, five times a second, is together */
    struct ls_hub *hub;
    int64_t heard_ns;
    int64_t spoke_ns;
    int64_t since_ns;       /* opened, or began to linger */
    int64_t expiry_wall_ns; /* of its peer's certificate, once it is up; 0: none */
    unsigned generation;    /* of the keys that its peer was last verified with */
    unsigned pins;          /* calls that still need it */
    bool handling;          /* frames, or a fill: one write afterwards takes all that they cause */
    bool closing;
    bool lingering;
    bool up;
    bool stranger;  /* accepted, and not up: counted by the hub */
    bool starved;   /* an allocation failed: closed by the sweep */
    bool silent;    /* closed by the sweep, for it said nothing any more */
    unsigned small; /* reads one after another that would have fitted an idle buffer */
    struct ls_conn *prev;
    nng_stream *stream; /* owned */
    void *user;
    struct ls_op receive;
    struct ls_op send;
    unsigned char *in; /* owned; lent to receive while that is busy */
    size_t in_len;
    size_t in_cap;
    unsigned char *out; /* owned; lent to send while that is busy */
    size_t out_len;
    size_t out_sent;
    size_t out_cap;
    char remote[64];
};

struct ls_hub {
    const struct ls_hub_ops *ops;
    void *owner;
    struct ls_pace pace;
    struct ev_loop *loop;
    ev_async wake;
    ev_timer tick;
    ev_timer alarm;
    pthread_mutex_t mutex; /* guards the queue, and crowded */
    bool crowded;          /* as of count, for nng's threads */
    struct ls_op *queue;
    struct ls_op **queue_end;
    nng_stream_dialer *dialer;     /* owned; one of the two */
    nng_stream_listener *listener; /* owned */
    struct ls_op open;
    bool accept_paused; /* until a sweep finds that there is room */
    unsigned strangers; /* connections that were accepted and are not up */
    unsigned count;     /* of conns */
    bool tcp;
    bool loopback;                      /* the URL's address */
    bool alone;                         /* as ls_hub_is_alone says */
    struct ls_credentials *credentials; /* held; NULL: not TLS */
    int64_t end_said_ns;                /* when it was last logged that they end soon */
    int64_t keys_seen_ns;               /* when their files were last looked at by a sweep */
    unsigned generation;                /* of the keys, as of then */
    bool dying;
    unsigned depth; /* of calls that may end in callbacks */
    int64_t sweep_due_ns;
    struct ls_conn *conns;
    char *url; /* owned */
};

/* ---- transport_hub.c */
int ls_op_init(struct ls_op *op, struct ls_hub *hub, struct ls_conn *conn, enum ls_op_kind kind);
/* Waits for the callback to have run: nothing refers to op afterwards. */
void ls_op_fini(struct ls_op *op);
/* Of a quiet operation that is busy: true once it has succeeded. Otherwise its end will be heard
 * of. */
bool ls_op_settle(struct ls_op *op);
void ls_hub_count(struct ls_hub *hub, int change); /* connections come and go */
/* Has the host that conn comes from more connections than its share of those that have not said who
 * they are? Others are to come through beside it. */
bool ls_hub_is_overrun_by(const struct ls_hub *hub, const struct ls_conn *conn);

/* What has completed since the last time. Between enter and leave. */
void ls_hub_handle_all(struct ls_hub *hub);
void ls_hub_accept_again(struct ls_hub *hub); /* if it was paused, and there is room */

/* ---- transport_sweep.c */
void ls_sweep_start(struct ls_hub *hub);
void ls_sweep_stop(struct ls_hub *hub);

/* ---- transport_keys.c */
/* Reads the keys anew if it is time, and closes connections whose peers they do not take any more.
 * Verifying takes a fraction of a millisecond: thousands of agents are spread over some sweeps. */
void ls_hub_look_at_keys(struct ls_hub *hub, int64_t now_ns);

/* ---- transport_conn.c */
/* Owns stream. */
void ls_conn_open(struct ls_hub *hub, nng_stream *stream, int64_t now_ns);
void ls_conn_on_received(struct ls_conn *conn, int result);
void ls_conn_on_sent(struct ls_conn *conn, int result);
/* Ends one use of conn, which may be the last. */
void ls_conn_release(struct ls_conn *conn);
void ls_conn_free(struct ls_conn *conn); /* waits for its operations; only when nobody is in it */

#endif
