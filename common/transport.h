/* common/transport.h - framed, resuming sessions over nng streams.
 *
 * A frame is a 32-bit little-endian length and that many bytes: one packed Envelope of wire.proto.
 * The length is checked against a named limit before anything is allocated, and unpacking runs
 * under a byte budget. Commands and reports are numbered 1, 2, 3 ... per direction, kept until they
 * are acknowledged, sent again after a reconnect, and delivered exactly once and in order.
 *
 * Everything here belongs to one libev thread, the one that runs the loop handed to create(); nng's
 * own threads only queue completions and wake that loop. Callbacks run on the loop's thread and may
 * call any function here, including close() and destroy(). The loop must outlive dialer and
 * listener. nng's threads take no signals, and its descriptors are not inherited by exec; after a
 * bare fork() the child must not call anything here. A callback that takes LS_SILENCE_NS costs the
 * connections, for the other ends hear nothing meanwhile; the sessions outlive that.
 *
 * An agent dials, the coordinator listens. URLs: ipc:///path, whose folder must be this user's with
 * mode 0700 on the listening side; tcp://ADDRESS:PORT with a literal loopback address; and
 * tls+tcp://HOST:PORT with keys (common/credentials.h). To listen, HOST is an address of this host,
 * 0.0.0.0, [::] or *, and PORT may be 0.
 *
 * Over TLS both ends have proven who they are before the first frame: the one that listens is a
 * coordinator whose certificate has the dialled name or address, the one that dials is an agent,
 * and the name in its HELLO is the one in its certificate. Who is turned away before its HELLO was
 * taken is logged here (transport.turned_away, tls.no_session), for nobody else knows of it, with
 * address and reason, at most a line a second. Connections that have not said who they are get half
 * of the process's descriptors at most.
 *
 * Strings must be UTF-8 without NUL (common/utf8.h cleans foreign ones) and enums in range: what
 * the other end would refuse is refused by report() and command(), for it would come back for ever.
 */
#ifndef LS_COMMON_TRANSPORT_H
#define LS_COMMON_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attr.h"
#include "common/credentials.h"
#include "common/err.h"
#include "proto/wire.pb-c.h"

#ifndef LS_WIRE_VERSION /* tests build programs of the next one */
#define LS_WIRE_VERSION 1
#endif
#define LS_FRAME_MAX_FROM_AGENT (1u << 20) /* a report: three histograms and their counters */
#define LS_FRAME_MAX_FROM_COORD (4u << 20) /* a plan's part, a piece of a file */
#define LS_UNPACK_BUDGET_FACTOR 16u        /* memory a frame may unpack to, times its length */
#define LS_UNPACK_BUDGET_MIN    (64u << 10)
#define LS_HEARTBEAT_NS         INT64_C(1000000000)
#define LS_SILENCE_NS           INT64_C(3000000000)
#define LS_HELLO_DEADLINE_NS    INT64_C(5000000000)

/* ---- one frame, pure: for tests and fuzzing ---- */

/* Unpacks and validates one envelope's bytes: version, one known body, a sequence number where
 * there has to be one, UTF-8 without NUL in strings, known enum values, no field twice, budget.
 * LS_EPROTO, LS_ENOMEM (budget). On LS_OK the caller frees with ls_envelope_free. */
enum ls_err ls_envelope_unpack(struct ls_bytes in, Ls__Envelope **out,
                               struct ls_diag *diag) LS_NODISCARD;
void ls_envelope_free(Ls__Envelope *envelope); /* NULL is fine */
/* Is it a report that agents of this role send? What is not decided here nobody may send. */
bool ls_report_fits_role(Ls__Envelope__BodyCase body, Ls__Role role);

/* ---- agent side ---- */

struct ls_dialer;

struct ls_dialer_env {
    /* WELCOME arrived: reports may flow. resumed: it is not the first one. */
    void (*up)(void *ctx, bool resumed);
    /* After up(). Dials again by itself, with back-off (50 ms to 2 s) and jitter. */
    void (*down)(void *ctx, const char *why);
    /* A command, exactly once, in order. Valid during the call. */
    void (*command)(void *ctx, const Ls__Envelope *command);
    /* Every report so far is stored by the coordinator. May be NULL. */
    void (*flushed)(void *ctx);
    /* Does not dial again. Codes of our own: version, foreign_run (the coordinator is in another
     * run than this session), lost_state, superseded, protocol, identity, refused; others are the
     * coordinator's. */
    void (*refused)(void *ctx, const char *code, const char *text);
    void *ctx;
};

struct ls_dialer_options {
    const char *url;
    const Ls__Hello *hello;             /* agent, role, boot_id, software, pid, facts; copied */
    uint32_t reports_max;               /* unacknowledged reports kept; 0: 1024 */
    struct ls_credentials *credentials; /* of an agent; held. NULL: none, so no TLS */
};

/* LS_EINVAL; LS_EREFUSED (exit status 5): another host without keys, or keys that do not prove that
 * this is the agent of the name in hello; LS_EIO, LS_ENOMEM. */
enum ls_err ls_dialer_create(void *ev_loop, const struct ls_dialer_options *options,
                             const struct ls_dialer_env *env, struct ls_dialer **out,
                             struct ls_diag *diag) LS_NODISCARD;
void ls_dialer_destroy(struct ls_dialer *dialer); /* NULL is fine */

/* Numbers the report, keeps it until acknowledged, sends it when it can. The body is copied
 * (packed); version, run id and sequence are filled in on the way. LS_EAGAIN: the ring of
 * unacknowledged reports is full; merge into the next one, never drop. LS_EINVAL: not a report, or
 * one that the coordinator would refuse. LS_ERANGE: larger than a frame. LS_ESTATE: refused before.
 */
enum ls_err ls_dialer_report(struct ls_dialer *dialer, Ls__Envelope *report,
                             struct ls_diag *diag) LS_NODISCARD;
uint32_t ls_dialer_room(const struct ls_dialer *dialer); /* reports that still fit */
bool ls_dialer_is_up(const struct ls_dialer *dialer);
uint64_t ls_dialer_unacked(const struct ls_dialer *dialer);
/* The coordinator's literal address, "10.0.0.1"; "" if there is no connection, or none by TCP. */
void ls_dialer_host(const struct ls_dialer *dialer, char *out, size_t out_bytes);
/* Of the run whose session this is; "" before the first WELCOME. */
const char *ls_dialer_run_id(const struct ls_dialer *dialer);
/* Why there is no session at the moment; "" if there is one. */
const char *ls_dialer_trouble(const struct ls_dialer *dialer);
/* The last attempt went to a loopback address, so to this host itself, and nobody listens there. */
bool ls_dialer_is_alone(const struct ls_dialer *dialer);
/* The coordinator of the present or last session. One by another name is refused as foreign_run. */
const struct ls_identity *ls_dialer_identity(const struct ls_dialer *dialer);

/* ---- coordinator side ---- */

struct ls_listener;
struct ls_peer; /* one agent, whatever connection it has at the moment; alive until the listener
                   goes, or it is forgotten */

struct ls_listener_env {
    /* A HELLO of a new agent process. LS_OK: it may stay, *out_ctx is handed to the other
     * callbacks. Otherwise diag's text is sent as REFUSE, peer is freed and the connection closed;
     * a text that begins with "some_code: " gives that code, any other "refused". A process that
     * takes the name of an older one (another boot id) is another peer: if it may stay, the older
     * peer goes down for good and its unsent commands are forgotten. */
    enum ls_err (*enrol)(void *ctx, struct ls_peer *peer, const Ls__Hello *hello, void **out_ctx,
                         struct ls_diag *diag);
    void (*up)(void *ctx, void *peer_ctx); /* after enrol, and after each reconnect */
    /* Before the next up(), if a newer connection takes the place of one. */
    void (*down)(void *ctx, void *peer_ctx, const char *why);
    /* A report, exactly once, in order. LS_OK: it is taken, and is acknowledged once settle() was
     * called. Otherwise the connection is closed without an acknowledgement, so that it comes
     * again. */
    enum ls_err (*report)(void *ctx, void *peer_ctx, const Ls__Envelope *report);
    /* Before any report is acknowledged: all that were taken have to be stored when it returns, for
     * they never come again. May call ls_peer_command() and nothing else here. May be NULL. */
    void (*settle)(void *ctx);
    /* A peer whose place another process of its name took long ago: it is freed when this returns,
     * and nothing is called with its ctx any more. May be NULL. */
    void (*forgotten)(void *ctx, void *peer_ctx);
    /* Somebody was refused: where it is (as ls_peer_address), its name, "" unless it said one, and
     * the text as it was told, with its code in front. NULL: logged instead. */
    void (*refused)(void *ctx, const char *address, const char *agent, const char *text);
    /* Every command so far has been taken by the agent. May be NULL. */
    void (*taken)(void *ctx, void *peer_ctx);
    /* A clock exchange: all four instants, this side's clock for sent and received. */
    void (*clock)(void *ctx, void *peer_ctx, int64_t sent_ns, int64_t peer_received_ns,
                  int64_t peer_replied_ns, int64_t received_ns);
    void *ctx;
};

struct ls_listener_options {
    const char *url;
    const char *run_id;
    struct ls_credentials *credentials; /* of a coordinator; held. NULL: none, so no TLS */
};

/* LS_EINVAL; LS_EREFUSED (exit status 5): another host without keys, or with an agent's; LS_ESTATE,
 * LS_EIO, LS_ENOMEM. */
enum ls_err ls_listener_create(void *ev_loop, const struct ls_listener_options *options,
                               const struct ls_listener_env *env, struct ls_listener **out,
                               struct ls_diag *diag) LS_NODISCARD;
void ls_listener_destroy(struct ls_listener *listener); /* NULL is fine */
const char *ls_listener_url(
    const struct ls_listener *listener); /* port 0 replaced by the bound one */

/* Within enrol(), by a coordinator that took over a run: reports up to seq are stored already. */
void ls_peer_set_stored(struct ls_peer *peer, uint64_t seq);

/* Numbers the command, keeps it until acknowledged, sends it when it can. LS_EINVAL, LS_ERANGE as
 * for reports. LS_EAGAIN: 65536 commands or 256 MiB wait for this agent; taken() says when to go
 * on. LS_ESTATE: a newer process has taken this one's place. */
enum ls_err ls_peer_command(struct ls_peer *peer, Ls__Envelope *command,
                            struct ls_diag *diag) LS_NODISCARD;
/* One clock exchange; the answer comes by env->clock. LS_EAGAIN: not connected, or 16 are under
 * way. What a broken connection takes along is not answered. */
enum ls_err ls_peer_probe_clock(struct ls_peer *peer) LS_NODISCARD;
void ls_peer_close(struct ls_peer *peer,
                   const char *why); /* the connection; the agent may return */
bool ls_peer_is_up(const struct ls_peer *peer);
/* Its last connection was given up because nothing came any more: the network may be in the way, or
 * it stands still. Otherwise the connection was closed, and one that lives comes again at once. */
bool ls_peer_fell_silent(const struct ls_peer *peer);
/* Within enrol() and from then on: who it is (proven over TLS only; of its newest connection, for
 * certificates are renewed), and where it is: "192.0.2.7:40312", "local" for ipc. */
const struct ls_identity *ls_peer_identity(const struct ls_peer *peer);
const char *ls_peer_address(const struct ls_peer *peer);
/* Within report(): the envelope as it came. */
struct ls_bytes ls_peer_bytes(const struct ls_peer *peer);
uint64_t ls_peer_unacked(const struct ls_peer *peer); /* commands that it has not taken yet */

/* Before main() returns, after every dialer and listener is destroyed: ends nng's threads. */
void ls_transport_fini(void);

#endif
