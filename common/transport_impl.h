/* common/transport_impl.h - what the transport's own files share; nobody else includes it.
 *
 *   frame.c      bytes <-> one envelope, pure
 *   numbered.c   numbering, acknowledging, sending again; the same for both ends
 *   transport_hub.c, transport_conn.c   nng's streams and the libev loop: nng.h and ev.h stop there
 *   transport_sweep.c  what no event brings about: heartbeats, silence, what hangs
 *   transport_keys.c   keys that change or end while connections live
 *   address.c    the addresses that are taken
 *   tls_engine.c, credentials.c, identity.c   TLS, keys, and who somebody is
 *   dialer.c     the agent's end        listener.c   the coordinator's end
 */
#ifndef LS_COMMON_TRANSPORT_IMPL_H
#define LS_COMMON_TRANSPORT_IMPL_H

#include "common/transport.h"

#define LS_FRAME_HEAD     4u          /* bytes of the length before each envelope */
#define LS_BATCH_BYTES    (64u << 10) /* numbered frames are handed to a stream in such portions */
#define LS_CLOCK_MAX      16u         /* clock exchanges of one connection under way */
#define LS_CROWD          64u         /* connections of a hub */
#define LS_NAME_MAX_BYTES 128u        /* agent name, boot id */

/* ---- frame.c ---- */

enum ls_body_kind { LS_BODY_SESSION, LS_BODY_COMMAND, LS_BODY_REPORT };
enum ls_body_kind ls_body_kind(Ls__Envelope__BodyCase body);
const char *ls_body_name(Ls__Envelope__BodyCase body); /* "hello"; "?" if unknown */

/* Takes the next frame from a stream's bytes. LS_OK: *out_envelope is its view, *out_bytes how many
 * bytes it took. LS_EAGAIN: *out_bytes are needed in all before it is complete. LS_EPROTO: empty or
 * longer than max. */
enum ls_err ls_frame_next(struct ls_bytes in, uint32_t max, struct ls_bytes *out_envelope,
                          size_t *out_bytes, struct ls_diag *diag) LS_NODISCARD;

/* The version in an envelope's bytes, which may be of any version; 0 if there is none. */
uint32_t ls_envelope_peek_version(struct ls_bytes in);

/* A numbered message as it is kept: the envelope's body field alone. Protobuf lets version, run id
 * and sequence be put before it when it is sent, and the run id is not known any earlier. */
struct ls_packed {
    unsigned char *data; /* owned */
    size_t len;
};

/* Packs a command or report whose whole frame must not exceed max. Refuses what the other end would
 * refuse, or it would be sent for ever. LS_EINVAL, LS_ERANGE, LS_ENOMEM. */
enum ls_err ls_packed_make(const Ls__Envelope *envelope, enum ls_body_kind kind, uint32_t max,
                           struct ls_packed *out, struct ls_diag *diag) LS_NODISCARD;

/* ---- address.c ---- */

struct ls_address {
    const char *url;
    const char *path; /* ipc: the socket's file; NULL: tcp. Points into url */
    bool tls;
    bool loopback;  /* tcp: it leads to whoever dials it */
    char host[256]; /* tcp: a name, or an address without brackets */
};

/* LS_EINVAL: not an address that the transport takes. LS_EREFUSED: plain tcp to another host. */
enum ls_err ls_address_check(const char *url, struct ls_address *out,
                             struct ls_diag *diag) LS_NODISCARD;
/* Before listening: the folder must be private, and what a dead coordinator left is removed.
 * LS_EINVAL, LS_EIO; LS_ESTATE: somebody listens there. */
enum ls_err ls_address_prepare(const struct ls_address *address, struct ls_diag *diag) LS_NODISCARD;

/* ---- transport_hub.c, transport_conn.c ---- */

struct ls_hub;  /* one dialer's or listener's streams, timers and wake-ups */
struct ls_conn; /* one stream; freed by the hub after closed(), once nobody is in it */

struct ls_hub_ops {
    uint32_t frame_max; /* longest envelope to receive */
    void (*opened)(void *owner, struct ls_conn *conn);
    void (*dial_failed)(void *owner, const char *why);
    /* received_ns: when the bytes came from the kernel, by the thread that got them. */
    void (*frame)(void *owner, struct ls_conn *conn, struct ls_bytes envelope, int64_t received_ns);
    /* The stream takes bytes now: append frames with ls_conn_put*. */
    void (*fill)(void *owner, struct ls_conn *conn);
    /* Once for each opened one, but for those of a hub being destroyed or that linger. */
    void (*closed)(void *owner, struct ls_conn *conn, const char *why);
    void (*alarm)(void *owner); /* a listener has none */
    void (*freed)(void *owner); /* the last call: frees the owner */
};

/* How long things take. Tests shorten it for the hubs that they create afterwards. */
struct ls_pace {
    int64_t tick_ns; /* of the sweep; at rest an agent's comes with its heartbeats */
    int64_t heartbeat_ns;
    int64_t silence_ns;
    int64_t greeting_ns; /* until HELLO or WELCOME */
    int64_t linger_ns;   /* for a refused peer to read why */
    int64_t backoff_min_ns;
    int64_t backoff_max_ns;
};
extern const struct ls_pace ls_pace_default;
void ls_transport_set_pace(const struct ls_pace *pace); /* NULL: the default again */

/* credentials: needed for tls+tcp, else ignored; held. */
enum ls_err ls_hub_dialer(void *ev_loop, const char *url, struct ls_credentials *credentials,
                          const struct ls_hub_ops *ops, void *owner, struct ls_hub **out,
                          struct ls_diag *diag) LS_NODISCARD;
enum ls_err ls_hub_listener(void *ev_loop, const char *url, struct ls_credentials *credentials,
                            const struct ls_hub_ops *ops, void *owner, struct ls_hub **out,
                            struct ls_diag *diag) LS_NODISCARD;
/* Ends with ops->freed: before it returns, or when the callback that it is called from returns. */
void ls_hub_destroy(struct ls_hub *hub);
const char *ls_hub_url(const struct ls_hub *hub); /* with the port that was bound */
const struct ls_pace *ls_hub_pace(const struct ls_hub *hub);
bool ls_hub_is_tls(const struct ls_hub *hub);
bool ls_hub_is_alone(const struct ls_hub *hub); /* as ls_dialer_is_alone */
/* So many connections that what each costs counts: LS_CROWD or more. */
bool ls_hub_is_crowded(const struct ls_hub *hub);
/* Logs it if the files of the hub's keys were read again, and once a day if they end soon. */
void ls_hub_log_news(struct ls_hub *hub);
void ls_hub_dial(struct ls_hub *hub);
void ls_hub_set_alarm(struct ls_hub *hub, int64_t delay_ns);
/* Around calls from outside that may end in callbacks, for those may destroy the hub. */
void ls_hub_enter(struct ls_hub *hub);
void ls_hub_leave(struct ls_hub *hub);

void ls_conn_set_user(struct ls_conn *conn, void *user);
void *ls_conn_user(const struct ls_conn *conn);
void ls_conn_set_up(struct ls_conn *conn); /* from now on heartbeats are sent and expected */
bool ls_conn_ping_due(const struct ls_conn *conn, int64_t now_ns);
bool ls_conn_is_closing(const struct ls_conn *conn);
bool ls_conn_fell_silent(const struct ls_conn *conn);   /* that is why it was closed */
const char *ls_conn_remote(const struct ls_conn *conn); /* "192.0.2.7:40312", "local" for ipc */
/* Who is at the other end; not proven without TLS. */
void ls_conn_identity(const struct ls_conn *conn, struct ls_identity *out);
void ls_conn_kick(struct ls_conn *conn); /* there may be something to send */
void ls_conn_close(struct ls_conn *conn, const char *why);
/* Sends what was put, takes no more frames, and closes when the peer has or after a while: a stream
 * that is closed at once may lose its last bytes. closed() is not called. */
void ls_conn_linger(struct ls_conn *conn);

size_t ls_conn_pending(const struct ls_conn *conn); /* bytes put and not yet taken */
/* Only in fill(), and in frame() before anything was sent. Memory may fail: the sweep then closes
 * the connection. */
void ls_conn_put(struct ls_conn *conn, Ls__Envelope *envelope); /* sets its version */
void ls_conn_put_packed(struct ls_conn *conn, char *run_id, uint64_t seq,
                        const struct ls_packed *packed);

/* ---- numbered.c ---- */

/* Both directions of one session, whatever connection it has. acked <= sent <= last. */
struct ls_numbered {
    struct ls_packed *slots; /* owned; of acked + 1 .. last, each at seq % cap */
    uint32_t cap;            /* 0 or a power of two */
    uint32_t max;            /* messages kept */
    size_t max_bytes;
    size_t bytes;
    uint64_t acked;
    uint64_t sent; /* on the present connection */
    uint64_t last;
    uint64_t taken; /* the other direction: highest one that took effect here */
    bool ack_due;
    bool ack_later; /* with whatever is sent next, the heartbeat if it comes to that */
};

void ls_numbered_init(struct ls_numbered *n, uint32_t max, size_t max_bytes);
void ls_numbered_fini(struct ls_numbered *n);
/* Owns packed on LS_OK. LS_EAGAIN: full. LS_ENOMEM. */
enum ls_err ls_numbered_push(struct ls_numbered *n, struct ls_packed packed,
                             struct ls_diag *diag) LS_NODISCARD;
/* The other end has everything up to seq. LS_EPROTO: it cannot. */
enum ls_err ls_numbered_ack(struct ls_numbered *n, uint64_t seq, struct ls_diag *diag) LS_NODISCARD;
/* A new connection, on which the other end starts from seq. LS_EPROTO: it has lost what it had
 * acknowledged, or has more than was ever sent. */
enum ls_err ls_numbered_resume(struct ls_numbered *n, uint64_t seq,
                               struct ls_diag *diag) LS_NODISCARD;
/* What to do with an incoming number: LS_OK take it (then set taken), LS_EAGAIN it came before,
 * LS_EPROTO one is missing. */
enum ls_err ls_numbered_check(struct ls_numbered *n, uint64_t seq,
                              struct ls_diag *diag) LS_NODISCARD;
/* Will the next fill acknowledge what was taken? */
bool ls_numbered_acks(const struct ls_numbered *n, const struct ls_conn *conn);
/* Acknowledgement, heartbeat, then as many messages as make a batch. */
void ls_numbered_fill(struct ls_numbered *n, struct ls_conn *conn, char *run_id);

/* For a test: the connection breaks as if the network had done it. */
void ls_dialer_drop(struct ls_dialer *dialer);

#endif
