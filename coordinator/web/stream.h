/* coordinator/web/stream.h - one reader of a feed: the body of a response of server-sent events.
 * server.c and this, nobody else. All on the server's thread. */
#ifndef LS_COORDINATOR_WEB_STREAM_H
#define LS_COORDINATOR_WEB_STREAM_H

#include <microhttpd.h>

#include "coordinator/web/server.h"

/* Readers that are connected; a server has one of these. */
struct coord_streams {
    struct coord_stream *first;
    unsigned count;
    bool ending; /* no more is to come */
};

/* Answers with the feed of a route. last_id: of Last-Event-ID, NULL: none. */
enum MHD_Result coord_stream_queue(struct coord_streams *streams,
                                   const struct coord_web_route *route,
                                   struct MHD_Connection *connection, const char *last_id,
                                   void (*head)(struct MHD_Response *response));
/* Goes on with the readers for whom there is something new, or who have heard nothing for long. */
void coord_streams_wake(struct coord_streams *streams, int64_t now_ns);
/* Has them all end when they have what was published; true: they have, or are gone. */
bool coord_streams_end(struct coord_streams *streams);

#endif
