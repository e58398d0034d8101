/* agent/load/http2_request.h - requests as HTTP/2 sends them, made of what HTTP/1 would.
 *
 * A request of an HTTP/2 load is the HEADERS frame of stream 0, complete but for the stream's
 * number, and the body behind it. Header fields that all requests of a load share (:authority,
 * user-agent ...) are sent once on each connection and then named by their index in the peer's
 * table (RFC 7541, 2.3.2); nothing else is ever put there, so that the indexes stay. In a block the
 * shared pseudo-fields come first and the other shared fields last. Three forms of them:
 *
 *     first   literals that the peer keeps: in the first block of a connection
 *     later   one byte for each: what prepared frames contain
 *     plain   literals that the peer does not keep: if its table is too small for them
 */
#ifndef LS_AGENT_LOAD_HTTP2_REQUEST_H
#define LS_AGENT_LOAD_HTTP2_REQUEST_H

#include "agent/load/workload.h"
#include "common/err.h"

#define HTTP2_SHARED_MAX   32u   /* fields */
#define HTTP2_SHARED_BYTES 2048u /* that they take in the peer's table */

struct http2_shared_field {
    struct ls_bytes line; /* as HTTP/1 writes it, without the line end; "GET /x HTTP/1.1": :path */
    bool pseudo;
};

struct load_http2 {
    bool tls;             /* :scheme */
    uint32_t table_bytes; /* that the peer's table needs for the first form; 0: nothing is shared */
    uint32_t frame_max;   /* longest prepared HEADERS frame, or of one that is rendered */
    uint32_t count;
    uint32_t front; /* bytes of the later form before and ... */
    uint32_t back;  /* ... behind what is a request's own */
    struct ls_bytes first[2];
    struct ls_bytes plain[2];
    struct http2_shared_field fields[HTTP2_SHARED_MAX];
    unsigned char *store; /* owned: what the above points to */
};

/* The lines of each head that do not vary, separated by CR LF: what they all have is shared.
 * LS_ENOMEM; the caller ends with http2_shared_destroy(). */
enum ls_err http2_shared_create(const struct ls_bytes *heads, size_t count, bool tls,
                                struct load_http2 **out_shared, struct ls_diag *diag) LS_NODISCARD;
void http2_shared_destroy(struct load_http2 *shared); /* NULL is fine */

/* Can this head be said in HTTP/2? LS_EINVAL: a field is about connections of HTTP/1. */
enum ls_err http2_check_head(struct ls_bytes head, struct ls_diag *diag) LS_NODISCARD;

/* Bytes that http2_encode() needs for a text of so many. */
static inline size_t http2_encoded_max(size_t text_bytes)
{
    return text_bytes + text_bytes / 32 + 64;
}

/* Writes the HEADERS frame, in the later form, of a request in HTTP/1 (complete, as
 * agent_http_request_format() made it) and returns its length. *out_body is what follows the head.
 * more: a body follows that is not in text. Neither allocates nor fails: called under load. */
size_t http2_encode(const struct load_http2 *shared, struct ls_bytes text, bool more,
                    unsigned char *out, struct ls_bytes *out_body);

#endif
