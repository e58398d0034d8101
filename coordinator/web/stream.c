#include "coordinator/web/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "coordinator/web/feed.h"

#define PENDING_MAX COORD_WEB_REPLY_MAX
#define CHUNK_BYTES 4096u
/* A silent connection is taken for a dead one by what lies between. */
#define QUIET_NS    (5 * LS_NS_PER_S)
#define STREAMS_MAX 64u

struct coord_stream {
    struct coord_streams *streams;
    struct coord_stream *next;
    struct MHD_Connection *connection;
    const struct coord_web_route *route;
    struct ls_buf pending; /* what is to be sent, and how much of it was */
    size_t sent;
    uint64_t at; /* the event that pending ends with */
    bool begun;  /* at means something */
    bool waiting;
    bool quiet; /* woken for nothing: a comment says that we are here */
    int64_t woken_ns;
};

/* "id: 7\nevent: snapshot\ndata: {...}\n\n" */
static bool take_snapshot(struct coord_stream *stream)
{
    struct ls_buf data;
    uint64_t at = 0;
    bool ok;

    ls_buf_init(&data, PENDING_MAX);
    stream->route->snapshot(stream->route->ctx, &data, &at);
    ls_buf_addf(&stream->pending, "id: %" PRIu64 "\nevent: snapshot\ndata: ", at);
    ls_buf_add(&stream->pending, data.data, data.len);
    ls_buf_adds(&stream->pending, "\n\n");
    ok = data.ok && stream->pending.ok;
    ls_buf_fini(&data);
    stream->at = at;
    stream->begun = true;
    return ok;
}

/* False: this reader is to be dropped. It has fallen behind, and comes again if it is a browser. */
static bool refill(struct coord_stream *stream)
{
    ls_buf_reset(&stream->pending);
    stream->sent = 0;
    if (!stream->begun)
        return take_snapshot(stream);
    if (coord_feed_read(stream->route->feed, &stream->at, &stream->pending) != LS_OK)
        return false;
    if (stream->pending.len == 0 && stream->quiet)
        ls_buf_adds(&stream->pending, ":\n\n");
    stream->quiet = false;
    return stream->pending.ok;
}

/* libmicrohttpd asks for the next bytes of the body. */
static ssize_t read_stream(void *ctx, uint64_t position, char *out, size_t max)
{
    struct coord_stream *stream = ctx;
    size_t n;

    (void)position;
    if (stream->sent == stream->pending.len && !refill(stream))
        return MHD_CONTENT_READER_END_OF_STREAM;
    n = stream->pending.len - stream->sent;
    if (n == 0 && stream->streams->ending)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == 0) {
        stream->waiting = true;
        MHD_suspend_connection(stream->connection);
        return 0;
    }
    n = n < max ? n : max;
    (void)memcpy(out, stream->pending.data + stream->sent, n);
    stream->sent += n;
    return (ssize_t)n;
}

static void free_stream(void *ctx)
{
    struct coord_stream *stream = ctx, **link = &stream->streams->first;

    while (*link != NULL && *link != stream)
        link = &(*link)->next;
    if (*link != NULL)
        *link = stream->next;
    stream->streams->count--;
    ls_buf_fini(&stream->pending);
    free(stream);
}

/* Where the reader has been before; an id that makes no sense is none. */
static void go_on_at(struct coord_stream *stream, const char *last_id)
{
    struct ls_buf nothing;
    char *end = NULL;
    uint64_t at;

    if (last_id == NULL || *last_id < '0' || *last_id > '9')
        return;
    at = strtoull(last_id, &end, 10);
    ls_buf_init(&nothing, 0);
    if (*end == '\0' && coord_feed_read(stream->route->feed, &at, &nothing) == LS_OK) {
        stream->at = at; /* nothing fits, so it has not moved */
        stream->begun = true;
    }
    ls_buf_fini(&nothing);
}

enum MHD_Result coord_stream_queue(struct coord_streams *streams,
                                   const struct coord_web_route *route,
                                   struct MHD_Connection *connection, const char *last_id,
                                   void (*head)(struct MHD_Response *response))
{
    struct coord_stream *stream;
    struct MHD_Response *response;
    enum MHD_Result queued;

    if (streams->count >= STREAMS_MAX || streams->ending)
        return MHD_NO;
    stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return MHD_NO;
    stream->streams = streams;
    stream->connection = connection;
    stream->route = route;
    stream->woken_ns = ls_clock_mono_ns();
    ls_buf_init(&stream->pending, PENDING_MAX);
    go_on_at(stream, last_id);
    stream->next = streams->first;
    streams->first = stream;
    streams->count++;
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, CHUNK_BYTES, read_stream, stream,
                                                 free_stream);
    if (response == NULL) {
        free_stream(stream);
        return MHD_NO;
    }
    head(response);
    queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

static void wake(struct coord_stream *stream, int64_t now_ns)
{
    stream->waiting = false;
    stream->woken_ns = now_ns;
    MHD_resume_connection(stream->connection);
}

void coord_streams_wake(struct coord_streams *streams, int64_t now_ns)
{
    for (struct coord_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        if (!stream->waiting)
            continue;
        stream->quiet = now_ns - stream->woken_ns >= QUIET_NS;
        if (stream->quiet || coord_feed_last(stream->route->feed) != stream->at)
            wake(stream, now_ns);
    }
}

bool coord_streams_end(struct coord_streams *streams)
{
    streams->ending = true;
    for (struct coord_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        if (stream->waiting)
            wake(stream, stream->woken_ns);
    }
    return streams->first == NULL;
}
