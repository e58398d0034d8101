/* agent/load/http1_parse.h - strict, incremental parser of HTTP/1 responses (RFC 9112).
 *
 * Bytes come in any fragmentation and the result never depends on it. Nothing is allocated or kept
 * but a small fixed state. Strict where framing decides where the next response begins; tolerant
 * of what real servers send: empty or missing reason phrases, lines that end in a bare LF, heads
 * as large as the limits below.
 *
 *     http1_begin(p, flags);
 *     do step = http1_parse(p, &in, &body); while (step is neither MORE, DONE nor BAD);
 */
#ifndef LS_AGENT_LOAD_HTTP1_PARSE_H
#define LS_AGENT_LOAD_HTTP1_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"

#define HTTP1_NAME_MAX      1024u          /* bytes of one field name */
#define HTTP1_VALUE_MAX     (128u * 1024u) /* bytes of one field value or reason phrase */
#define HTTP1_FIELDS_MAX    1024u          /* fields of one head; also of one trailer section */
#define HTTP1_HEAD_MAX      (256u * 1024u) /* bytes of one head; also of one trailer section */
#define HTTP1_INTERIM_MAX   32u            /* 1xx responses before the final one */
#define HTTP1_CHUNK_EXT_MAX 4096u          /* bytes of one chunk's extensions */
#define HTTP1_CHUNK_DIGITS  16u            /* of a chunk size, leading zeros included */

enum http1_step {
    HTTP1_MORE,    /* in is used up, the response goes on */
    HTTP1_INTERIM, /* the head of a 1xx response is complete: status is set, another head follows */
    HTTP1_HEAD,    /* the final head is complete: status, framing, keep_alive are set */
    HTTP1_BODY,    /* *out_body is the next piece of the body, a part of what was in */
    HTTP1_DONE,    /* the response is complete; what is left of in does not belong to it */
    HTTP1_BAD      /* not a response: why says so. Nothing after it can be trusted */
};

enum http1_framing {
    HTTP1_FRAMING_NONE, /* no body, whatever the head says: HEAD, 204, 304, an accepted 101 */
    HTTP1_FRAMING_LENGTH,
    HTTP1_FRAMING_CHUNKED,
    HTTP1_FRAMING_CLOSE, /* the body ends with the connection */
    HTTP1_FRAMING_COUNT
};

enum http1_coding {
    HTTP1_CODING_NONE, /* no content-encoding but identity */
    HTTP1_CODING_GZIP,
    HTTP1_CODING_OTHER /* or several */
};

/* Flags of http1_begin(). */
#define HTTP1_TO_HEAD 1u /* the request was HEAD */
#define HTTP1_TO_UPGRADE                                                    \
    2u /* the request asked for another protocol: 101 is final, not refused \
        */

#define HTTP1_REASON_KEPT 40

/* Zeroed: between responses. Read the first part at HEAD and later, write only reason. */
struct http1_parser {
    uint16_t status;
    uint8_t minor; /* of HTTP/1.minor */
    uint8_t framing;
    bool keep_alive;         /* the connection may carry another response after this one */
    bool reason_given;       /* a space followed the status */
    uint8_t reason_len;      /* of what is kept of it */
    uint8_t interims;        /* 1xx responses so far */
    uint8_t coding;          /* enum http1_coding */
    uint16_t trailers;       /* fields after the last chunk */
    uint64_t body_left;      /* of the length, or of the current chunk */
    uint64_t content_length; /* 0 if none was given */
    const char *why;         /* static text, after BAD */
    char *reason; /* HTTP1_REASON_KEPT bytes of the caller, if he set it behind http1_begin() */

    /* Private. */
    uint8_t state;
    uint8_t kind; /* of the current field */
    uint8_t begin_flags;
    uint8_t flags;
    uint16_t fields;
    uint16_t word_len; /* may exceed sizeof(word): then it is none of the words we look for */
    uint32_t run;      /* length of the current name, value, digits or extension */
    uint32_t head_bytes;
    char word[20]; /* start of a field name or list member, in lower case */
};

void http1_begin(struct http1_parser *p, unsigned flags);

/* Advances *in. Call again until MORE, DONE or BAD: a step may need no input. */
enum http1_step http1_parse(struct http1_parser *p, struct ls_bytes *in, struct ls_bytes *out_body);

/* The peer closed in good order. DONE if that completes the response, BAD if what has come so far
 * can be no response whatever follows, else MORE: why then says how far it had come. */
enum http1_step http1_end(struct http1_parser *p);

/* True between http1_begin() and the first byte. */
bool http1_at_start(const struct http1_parser *p);

/* "until-close" */
const char *http1_framing_name(enum http1_framing framing);

#endif
