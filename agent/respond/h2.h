/* agent/respond/h2.h - a connection that speaks HTTP/2 (RFC 9113).
 *
 * Independent of the load generator's own code on purpose: frames are read and written here, header
 * blocks of requests are decoded by nghttp2's library. A request counts when it has ended; behind
 * the last stream of a GOAWAY of ours it does not count at all, as nobody looks at it. Windows are
 * kept in both directions.
 */
#ifndef LS_AGENT_RESPOND_H2_H
#define LS_AGENT_RESPOND_H2_H

#include "agent/respond/conn.h"

#define RESPOND_H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define RESPOND_H2_OUT_MAX (4u << 20) /* waiting to be sent: then nothing is read */

struct respond_h2;

/* Do the first bytes of a connection ask for it? At least three are needed to tell. */
bool respond_h2_is(const unsigned char *data, size_t len);
/* Becomes HTTP/2: our SETTINGS wait to be sent. false: no memory. */
bool respond_h2_begin(struct respond_loop *loop, struct respond_conn *conn);
void respond_h2_end(struct respond_loop *loop,
                    struct respond_conn *conn); /* what is open: unanswered */

/* false: no memory. */
bool respond_h2_take(struct respond_loop *loop, struct respond_conn *conn,
                     const unsigned char *data, size_t len, int64_t now_ns);
/* Sends what is due. false: the connection is gone; else *out_ending says whether it has to end. */
bool respond_h2_flush(struct respond_loop *loop, struct respond_conn *conn, int64_t now_ns,
                      enum respond_ending *out_ending);
int64_t respond_h2_due_ns(
    const struct respond_conn *conn);                      /* of the next answer; INT64_MAX: none */
bool respond_h2_has_room(const struct respond_conn *conn); /* to be read from */
bool respond_h2_is_idle(const struct respond_conn *conn);  /* has nothing to send, now or later */

#endif
