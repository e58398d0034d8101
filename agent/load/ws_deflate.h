/* agent/load/ws_deflate.h - compression of messages (permessage-deflate, RFC 7692) of one
 * connection. Ours never refer to earlier ones; the server's may, if that was agreed on.
 *
 * All memory is taken by ws_deflate_create(). What a hostile peer can make of few bytes is bounded
 * by the caller, who is handed the pieces.
 */
#ifndef LS_AGENT_LOAD_WS_DEFLATE_H
#define LS_AGENT_LOAD_WS_DEFLATE_H

#include <stdbool.h>

#include "common/attr.h"
#include "common/err.h"

struct ws_deflate;

/* longest: of our messages. LS_ENOMEM. */
enum ls_err ws_deflate_create(size_t longest, struct ws_deflate **out) LS_NODISCARD;
void ws_deflate_destroy(struct ws_deflate *deflate); /* NULL is fine */

/* The compressed form of a and b, one behind the other; valid until the next message. */
struct ls_bytes ws_deflate_message(struct ws_deflate *deflate, struct ls_bytes a,
                                   struct ls_bytes b);

/* Of a message from the server, piece by piece; out gets what comes of each, and returns an error
 * to end it. LS_EPROTO: it is not well compressed. */
enum ls_err ws_inflate_piece(struct ws_deflate *deflate, struct ls_bytes in,
                             enum ls_err (*out)(void *ctx, struct ls_bytes piece), void *ctx);
/* It has ended. takeover: the next one may refer to it. */
enum ls_err ws_inflate_end(struct ws_deflate *deflate, bool takeover,
                           enum ls_err (*out)(void *ctx, struct ls_bytes piece), void *ctx);

#endif
