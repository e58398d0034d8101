/* tests/support/http1_view.h - what the HTTP/1 parser makes of one connection's bytes, as one line
 * of text: the notation of tests/golden/http1/README.md. */
#ifndef LS_TESTS_SUPPORT_HTTP1_VIEW_H
#define LS_TESTS_SUPPORT_HTTP1_VIEW_H

#include "agent/load/http1_template.h"

#define HTTP1_VIEW_ROWS 32

/* All zero to begin with, but for flags_of. */
struct http1_view {
    unsigned (*flags_of)(void *ctx, unsigned index); /* of the index-th request */
    void *ctx;
    struct http1_template *template; /* NULL: each head is parsed */

    unsigned hits; /* heads that the template took */
    struct http1_parser parser;
    char reason[HTTP1_REASON_KEPT];
    bool begun;
    unsigned index;
    unsigned char body[1 << 17]; /* of the current response */
    size_t body_bytes;
    bool over; /* bad */
    unsigned rows;
    char row[HTTP1_VIEW_ROWS][256];
};

void http1_view_feed(struct http1_view *view, struct ls_bytes in);
void http1_view_end(struct http1_view *view); /* the peer closed */
/* The rows, joined; repeated ones counted. */
void http1_view_text(const struct http1_view *view, char *out, size_t out_bytes);

#endif
