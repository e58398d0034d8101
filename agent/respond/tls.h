/* agent/respond/tls.h - the responder over TLS: OpenSSL on the connection's socket.
 *
 * It shares no code with the load engine's TLS, on purpose. 1.2 and 1.3, tickets, ALPN h2 and
 * http/1.1. A context is shared by all threads; a session belongs to its connection's.
 */
#ifndef LS_AGENT_RESPOND_TLS_H
#define LS_AGENT_RESPOND_TLS_H

#include <sys/types.h>
#include <sys/uio.h>

#include "agent/respond/settings.h"

struct respond_tls;
struct respond_tls_session;

/* From the settings' certificate and key, or with a certificate made for the moment. LS_EINVAL:
 * they cannot be used; LS_ENOMEM. */
enum ls_err respond_tls_create(const struct respond_settings *settings,
                               struct respond_tls **out_tls, struct ls_diag *diag) LS_NODISCARD;
void respond_tls_destroy(struct respond_tls *tls); /* NULL is fine */

/* A session on fd, which stays the caller's; its handshake happens in recv(). NULL: no memory. */
struct respond_tls_session *respond_tls_accept(struct respond_tls *tls, int fd);
void respond_tls_end(struct respond_tls_session *session); /* NULL is fine */

/* As recv(), at most a record at a time; 0 as well after close_notify. */
ssize_t respond_tls_recv(struct respond_tls_session *session, void *out, size_t cap);
/* As sendmsg(), at most a record at a time. After EAGAIN the same bytes have to come again, and
 * more may follow them. */
ssize_t respond_tls_send(struct respond_tls_session *session, const struct iovec *parts,
                         size_t count);
void respond_tls_farewell(struct respond_tls_session *session); /* close_notify, if it can */

#endif
