/* common/tls_engine.h - OpenSSL as the TLS engine of nng's streams.
 *
 * TLS 1.3 only, both ends with a certificate of the same authority, no resumption. A coordinator
 * takes agents, an agent takes the coordinator whose certificate has the dialled name or address;
 * all of that is decided in the handshake, so that a peer of the wrong kind gets an alert and
 * never a byte of ours. Keys come from common/credentials.h, looked at anew for each connection.
 *
 * nng's headers stop in tls_engine.c and in transport_nng.h: hence the declarations of its structs.
 */
#ifndef LS_COMMON_TLS_ENGINE_H
#define LS_COMMON_TLS_ENGINE_H

#include "common/credentials.h"

#define LS_TLS_TROUBLE_MAX 256

struct nng_stream;
struct nng_stream_dialer;
struct nng_stream_listener;

/* Makes nng use this engine; again after nng_fini(). LS_EIO: it does not. */
enum ls_err ls_tls_engine_start(struct ls_diag *diag) LS_NODISCARD;

/* Sets the engine's part of a tls+tcp stream's dialer or listener, which keep hold of the
 * credentials. host: what is dialled, a name or an address without brackets. LS_EREFUSED: the
 * credentials are of the other role; LS_EIO, LS_ENOMEM. */
enum ls_err ls_tls_dialer(struct nng_stream_dialer *dialer, struct ls_credentials *credentials,
                          const char *host, struct ls_diag *diag) LS_NODISCARD;
enum ls_err ls_tls_listener(struct nng_stream_listener *listener,
                            struct ls_credentials *credentials, struct ls_diag *diag) LS_NODISCARD;

/* What is known of a TLS stream that has not been freed: who is at the other end, not proven before
 * the handshake is over; and why TLS ended it, "" if it did not. */
struct ls_tls_peer {
    struct ls_identity identity;
    unsigned generation;    /* of the keys that it was taken with */
    int64_t expiry_wall_ns; /* of its certificate */
    char trouble[LS_TLS_TROUBLE_MAX];
};
void ls_tls_look(struct nng_stream *stream, struct ls_tls_peer *out);
/* The same, and the peer's certificate is verified again with the keys as they are now: what they
 * do not take any more becomes trouble. */
void ls_tls_look_again(struct nng_stream *stream, struct ls_tls_peer *out);

/* nng 1.5.2 completes a dial or an accept that failed before it frees what it had made for it, on a
 * thread of its own: nng_fini() may overtake that, and nng then aborts the process. So whoever
 * dials or accepts a TLS stream says so, each time, and before nng_fini() waits until all that came
 * of it is freed. */
void ls_tls_opening(void);
void ls_tls_settle(void); /* gives up after some seconds */

/* Settles, and ends nng. nng 1.10 does not get up again after nng_fini(): what reaps its streams
 * stays ended, and the next nng_fini() waits for it for ever. There it goes on until the process
 * ends, and false is returned. */
bool ls_tls_engine_end(void);

#endif
