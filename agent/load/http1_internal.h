/* agent/load/http1_internal.h - what the two halves of the HTTP/1 parser share: the head in
 * http1_head.c, the rest in http1_parse.c. */
#ifndef LS_AGENT_LOAD_HTTP1_INTERNAL_H
#define LS_AGENT_LOAD_HTTP1_INTERNAL_H

#include "agent/load/http1_parse.h"

enum http1_state {
    S_IDLE, /* no response wanted, or the last one is complete */
    S_VERSION,
    S_FOREIGN, /* it began as no HTTP/1 response does: looking what it is */
    S_MINOR,
    S_AFTER_VERSION,
    S_STATUS,
    S_AFTER_STATUS,
    S_REASON,
    S_STATUS_LF,
    S_FIELD_START,
    S_NAME,
    S_VALUE,
    S_FIELD_LF,
    S_HEAD_LF, /* the states up to here are part of a head or a trailer section */
    S_HEAD_DONE,
    S_LENGTH,
    S_CLOSE,
    S_CHUNK_SIZE,
    S_CHUNK_EXT,
    S_CHUNK_SIZE_LF,
    S_CHUNK_DATA,
    S_CHUNK_CR,
    S_CHUNK_LF,
    S_TRAILERS_DONE,
    S_BAD
};

enum http1_kind {
    K_OTHER,
    K_CONTENT_LENGTH,
    K_TRANSFER_ENCODING,
    K_CONNECTION,
    K_CONTENT_ENCODING
};

#define F_LENGTH     0x01u /* content_length is set */
#define F_TRANSFER   0x02u /* transfer-encoding was there ... */
#define F_CHUNKED    0x04u /* ... and said chunked */
#define F_CLOSE      0x08u /* connection: close */
#define F_KEEP_ALIVE 0x10u /* connection: keep-alive */
#define F_TRAILER    0x20u /* past the last chunk */
#define F_SPACE      0x40u /* white space after something of the current value */

/* Classes of bytes. */
#define C_TOKEN 1u /* may be part of a field name */
#define C_TEXT  2u /* may be part of a field value or reason phrase */

extern const uint8_t http1_byte_class[256];

/* Gives up; why is static text. The first reason stays. */
static inline void http1_fail(struct http1_parser *p, const char *why)
{
    if (p->state != S_BAD)
        p->why = why;
    p->state = S_BAD;
}

static inline unsigned char http1_lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + ('a' - 'A')) : c;
}

static inline bool http1_in_head(const struct http1_parser *p)
{
    return p->state >= S_VERSION && p->state <= S_HEAD_LF;
}

/* Takes what belongs to a head or a trailer section off *in. Afterwards the state is one of them if
 * all was used and more is to come, S_HEAD_DONE, S_TRAILERS_DONE or S_BAD. */
void http1_head_bytes(struct http1_parser *p, struct ls_bytes *in);

#endif
