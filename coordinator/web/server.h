/* coordinator/web/server.h - a small HTTP server for people's browsers and for scrapers.
 *
 * libmicrohttpd on a thread of its own, with a low priority. Loopback unless another address is
 * named. A route needs the token, which is part of the address (http://127.0.0.1:PORT/TOKEN/...),
 * unless it is open; a request must name this server as an IP address or localhost (no rebinding of
 * somebody's domain) and, where it comes from a page, that must be one of ours. Nothing is read
 * from the disk: what is not in the table is not found. Connections, headers and times are limited;
 * whoever is too slow is dropped.
 */
#ifndef LS_COORDINATOR_WEB_SERVER_H
#define LS_COORDINATOR_WEB_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

struct coord_web;
struct coord_feed;

#define COORD_WEB_REPLY_MAX (8u << 20) /* bytes of a body */

struct coord_web_reply {
    unsigned status;    /* 200 unless set */
    const char *type;   /* Content-Type, static; "text/plain; charset=utf-8" unless set */
    const char *policy; /* Content-Security-Policy; lives until the server is stopped; NULL:
                           nothing may be loaded or run */
    struct ls_buf body;
};

struct coord_web_route {
    const char *method; /* "GET" (which serves HEAD, too), "POST" */
    const char *path;   /* exactly, behind the token: "/", "/events" */
    bool open;          /* no token is asked for: "/metrics" is at the top. Not for a POST */
    /* Called on the server's thread, one call at a time. A body that does not fit gives a 500. */
    void (*answer)(void *ctx, struct coord_web_reply *reply);
    /* Instead of answer: server-sent events. Who comes without a Last-Event-ID, or with one that is
     * too old, gets a snapshot first: the data of an event "snapshot", one line, as of the event
     * *out_at. */
    struct coord_feed *feed;
    void (*snapshot)(void *ctx, struct ls_buf *out, uint64_t *out_at);
    void *ctx;
};

struct coord_web_options {
    const char *address;                  /* an IP address; NULL: 127.0.0.1 */
    uint16_t port;                        /* 0: any that is free */
    const struct coord_web_route *routes; /* must outlive the server */
    size_t route_count;
};

/* "9464", "127.0.0.1:9464", "[::1]:9464"; out_host is "" where none is named. LS_EINVAL. */
enum ls_err coord_web_parse(const char *text, char *out_host, size_t host_bytes, uint16_t *out_port,
                            struct ls_diag *diag) LS_NODISCARD;

/* LS_EINVAL: not an address; LS_EIO: cannot listen there, with the reason; LS_ENOMEM. */
enum ls_err coord_web_start(const struct coord_web_options *options, struct coord_web **out_web,
                            struct ls_diag *diag) LS_NODISCARD;
/* Ends all connections, after a moment for what was published last. NULL is fine. */
void coord_web_stop(struct coord_web *web);

/* "http://127.0.0.1:8089/0f1e.../": for the one who started it, and not for logs. */
const char *coord_web_url(const struct coord_web *web);
uint16_t coord_web_port(const struct coord_web *web);

#endif
