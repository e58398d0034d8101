/* tests/support/http2_talk.h - the HTTP/2 driver and a peer of frames that are written as text.
 *
 *     S 0 0 0003 0000000a; H 1 4 88; D 1 1 'Hello, World!'
 *
 * Type, stream, flags (hexadecimal), payload (hexadecimal, or text in quotes, mixed). Types: D
 * data, H headers, P priority, R rst_stream, S settings, U push_promise, I ping, G goaway, W
 * window_update, C continuation, E of an extension; X: the payload alone, as it stands; N x TYPE
 * ...: x times.
 */
#ifndef LS_TESTS_SUPPORT_HTTP2_TALK_H
#define LS_TESTS_SUPPORT_HTTP2_TALK_H

#include "agent/load/driver.h"
#include "agent/load/http2_request.h"
#include "agent/load/http2_use.h"

#define TALK_REQUESTS  8u
#define TALK_OPS       64u
#define TALK_BYTES_MAX (1u << 20)
#define TALK_TEXT      8192u

/* A workload of HTTP/2, made of requests as HTTP/1 writes them. */
struct http2_work {
    struct load_workload workload;
    struct load_request requests[TALK_REQUESTS];
    struct load_http2 *shared; /* owned */
    unsigned char *frames;     /* owned */
};

/* bytes of the requests are complete HTTP/1; all else is taken as it is. */
void http2_work_init(struct http2_work *work, const struct load_request *requests, size_t count,
                     uint32_t streams);
void http2_work_fini(struct http2_work *work);

struct http2_talk {
    const struct agent_driver *driver;
    struct agent_driver_env env;
    struct load_http2_use use;
    void *conn; /* owned */
    uint32_t submitted;
    uint32_t sent;
    uint32_t ended;
    struct agent_reply replies[TALK_OPS];
    bool ends[TALK_OPS];
    bool begun[TALK_OPS];
    enum ls_err rc;      /* of the last feed() */
    unsigned char *said; /* owned: all that the driver has sent */
    size_t said_len;
};

void http2_talk_begin(struct http2_talk *talk, const struct http2_work *work);
void http2_talk_end(struct http2_talk *talk);
void http2_talk_submit(struct http2_talk *talk, uint32_t count); /* as far as it takes them */
void http2_talk_drain(struct http2_talk *talk);
/* Feeds in pieces of step bytes until it is refused; drains after each. */
void http2_talk_feed(struct http2_talk *talk, struct ls_bytes in, size_t step);

/* Frames from text. Returns their length. */
size_t http2_frames(const char *text, unsigned char *out, size_t cap);

/* "ok 200 13 | reset 0 0: stream reset by ... | -": operations in order, "-" if not ended. */
const char *http2_talk_replies(const struct http2_talk *talk, char out[TALK_TEXT]);
/* What was said beside requests, bodies and the greeting: "SETTINGS ack, RST_STREAM 1 CANCEL" */
const char *http2_talk_said(const struct http2_talk *talk, char out[TALK_TEXT]);

#endif
