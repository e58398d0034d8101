/* agent/load/http2_conn.h - one HTTP/2 connection of a client: what drivers/http2.c (requests),
 * http2_in.c (frames that arrive), http2_answer.c (answers) and http2_out.c (frames that leave)
 * share. Nobody else includes this.
 *
 * Streams live in an array of a power of two, at least twice as many as may be open: the stream of
 * an id is at id / 2 modulo its length. A new stream whose place is still taken leaves that id out
 * (RFC 9113, 5.1.1, allows it). Nothing is allocated after open(): bodies are compared where they
 * arrive, header blocks are decoded as they come, and what has to be said to the peer beside
 * requests waits in a small buffer; a peer that fills it is one that floods.
 */
#ifndef LS_AGENT_LOAD_HTTP2_CONN_H
#define LS_AGENT_LOAD_HTTP2_CONN_H

#include "agent/load/driver.h"
#include "agent/load/gunzip.h"
#include "agent/load/hpack.h"
#include "agent/load/http2_frame.h"
#include "agent/load/http2_request.h"

#define HTTP2_STREAMS_MAX 4096u
#define HTTP2_OUR_WINDOW  0x3fffffff     /* of each stream, as we announce it */
#define HTTP2_UPDATE_AT   (1 << 27)      /* received bytes after which a window is opened again */
#define HTTP2_LIST_MAX    (256u * 1024u) /* bytes of a header list, coded or decoded */
#define HTTP2_INTERIM_MAX 32u            /* 1xx answers to one request */
#define HTTP2_IDLE_MAX    10000u         /* in a row: no answer ends, no body goes on */
#define HTTP2_LEARNED_MAX 64u            /* bytes of a header block that is kept */
#define HTTP2_NO_STREAM   UINT32_MAX

/* What a response's header block says. */
struct http2_head {
    uint16_t status; /* 0: none */
    uint8_t coding;  /* enum hpack_coding */
    bool has_length;
    uint64_t length;
};

struct http2_stream {
    uint32_t id; /* 0: free */
    uint32_t op;
    uint32_t request; /* index into the workload's requests */
    bool begun;       /* something of the answer has arrived */
    bool headed;      /* the final head is complete */
    bool differs;     /* the body is not the expected one from mismatch_at on */
    bool waits;       /* has a body to send, but no window: is in no list */
    struct http2_head head;
    uint64_t at;          /* of a request that varies: place in its table, or turn if it has none */
    uint64_t body_bytes;  /* decoded */
    uint64_t coded_bytes; /* as they came */
    uint32_t received;    /* of its window, since we last opened it */
    uint32_t next;        /* in the list of those with a body to send */
    int64_t window;       /* the peer's; it may be negative */

    uint64_t mismatch_at;
    uint64_t body_sent; /* of the request's body */
    uint64_t body_left; /* 0: all is sent */
    uint32_t interims;
    uint32_t heard;        /* what the connection's was when the stream was opened */
    const char *undecoded; /* static text: why the body could not be decoded */
    struct gunzip *gunzip; /* owned; NULL: no answer is to be decoded */
};

struct http2_waiting {
    uint32_t op;
    uint32_t request;
    uint64_t at;
};

/* A block that left the table alone, and what it said: while the table is the same, so is that. */
struct http2_learned {
    uint32_t changes; /* of the decoder */
    uint32_t len;     /* 0: none */
    struct http2_head head;
    uint8_t block[HTTP2_LEARNED_MAX];
};

struct http2_conn {
    struct agent_driver_env env;
    const struct load_http2 *shared;
    struct load_http2_use *use;
    struct http2_stream *streams; /* owned, with all of the following that are pointers; NULL:
                                     closed */
    uint32_t mask;
    uint32_t asked; /* streams that may be open at most: what the plan says, ... */
    uint32_t limit; /* ... and what the peer allows */
    uint32_t open;
    uint32_t next_id;
    struct http2_waiting *waiting; /* ring of asked entries: submitted, not begun to be sent */
    uint32_t first;
    uint32_t count;

    bool over;         /* takes and gives nothing more; eof() reports what is left */
    bool settled;      /* the peer's first SETTINGS have come */
    bool acked;        /* the peer has seen ours */
    bool going;        /* opens no stream any more: GOAWAY, or ids are used up */
    bool reset_some;   /* we have: what comes for a stream that is closed may be late */
    uint32_t promised; /* the last stream that the peer has promised */
    uint32_t heard;    /* pieces that have come */
    uint32_t idle;     /* frames since an answer was complete or part of a body left */
    uint32_t error;    /* enum http2_error, for our GOAWAY */

    /* The frame under way. */
    uint8_t head[HTTP2_HEAD_BYTES];
    uint32_t head_len;
    uint8_t type;
    uint8_t flags;
    bool in_frame;
    uint32_t id;
    uint32_t left; /* of its payload */
    uint32_t pad;
    uint32_t pre;      /* bytes that come before the content: pad length, priority ... */
    uint8_t small[16]; /* those, and contents of control frames */
    uint32_t small_len;

    /* The header block under way. */
    uint32_t block_id;      /* 0: none, so no CONTINUATION is due */
    uint32_t block_len;     /* coded */
    uint32_t list_len;      /* decoded */
    bool block_ends;        /* the stream ends with it */
    uint32_t block_promise; /* of a PUSH_PROMISE: the stream; 0: it is of HEADERS */
    bool block_trailers;
    bool block_regular;    /* a field without a colon has been seen */
    const char *block_ill; /* static text: not what a response may be; NULL: nothing yet */
    struct http2_head block_head;
    struct http2_learned learned;
    struct hpack hpack;

    /* Windows of the connection. */
    int64_t window;         /* the peer's */
    int64_t initial_window; /* the peer's, of new streams */
    uint32_t received;      /* of ours, since we last opened it */

    /* What leaves: out, then out_body; then control, in this order. */
    struct ls_bytes out;
    struct ls_bytes out_body;
    uint8_t *scratch; /* frames that are put together, ... */
    uint8_t *encoded; /* ... of requests that are rendered when they are sent, ... */
    uint8_t *control; /* ... and what is to be said beside requests */
    uint32_t control_len;
    uint32_t control_cap;
    uint32_t sending; /* first and last stream with a body to send */
    uint32_t sending_last;
    bool greeted;    /* the first request of this connection, which shares fields, has left */
    bool plain;      /* the peer's table is too small: literals for ever */
    bool say_resize; /* it has to be told how much of it we use: */
    uint32_t table;  /* bytes */
    bool parted;     /* our GOAWAY is among what leaves */
    uint8_t out_head[HTTP2_HEAD_BYTES];

    /* A request that is rendered when it is sent; an expected body, when it is compared. */
    unsigned char *rendered;
    unsigned char *expected;
    uint64_t rendered_at;
    uint32_t rendered_request;
    size_t rendered_len;
    uint64_t expected_at;
    uint32_t expected_request;
    size_t expected_len;
};

static inline const struct load_request *http2_request_of(const struct http2_conn *c,
                                                          uint32_t request)
{
    return &c->env.workload->requests[request];
}

/* NULL: it is not open. */
static inline struct http2_stream *http2_stream_of(struct http2_conn *c, uint32_t id)
{
    struct http2_stream *s = &c->streams[(id >> 1) & c->mask];

    return s->id == id ? s : NULL;
}

#define HTTP2_FLOOD "a flood of frames that answer nothing"

/* http2_in.c */
enum ls_err http2_take(struct http2_conn *c, struct ls_bytes in);
/* Counts a frame that brings no answer any further. */
enum ls_err http2_idle_frame(struct http2_conn *c);
/* The connection is of no use any more: reports s (NULL: the oldest operation) as the one at fault.
 * Returns LS_EPROTO. */
enum ls_err http2_fail(struct http2_conn *c, struct http2_stream *s, enum http2_error error,
                       const char *why);

/* http2_block.c */
void http2_begin_answer(struct http2_conn *c, struct http2_stream *s);
/* promise: of PUSH_PROMISE, the stream; 0: of HEADERS. */
void http2_block_begin(struct http2_conn *c, const struct http2_stream *s, uint32_t id,
                       uint32_t promise, bool ends);
enum ls_err http2_block_bytes(struct http2_conn *c, struct ls_bytes in);
enum ls_err http2_block_end(struct http2_conn *c);
/* A block from its beginning to its end. */
enum ls_err http2_block_whole(struct http2_conn *c, struct http2_stream *s, struct ls_bytes block,
                              bool ends);

/* http2_control.c: some of SETTINGS, and frames whose contents are in small */
enum ls_err http2_settings_bytes(struct http2_conn *c, struct ls_bytes in);
enum ls_err http2_settings_end(struct http2_conn *c);
enum ls_err http2_ping_end(struct http2_conn *c);
enum ls_err http2_reset_end(struct http2_conn *c);
enum ls_err http2_goaway_end(struct http2_conn *c);
enum ls_err http2_window_end(struct http2_conn *c);
/* "stream reset by the peer: CANCEL" */
const char *http2_reset_text(uint32_t code); /* http2_use.c */

/* http2_answer.c */
void http2_body(struct http2_conn *c, struct http2_stream *s, struct ls_bytes body);
/* The answer is complete: ends the stream. */
void http2_answered(struct http2_conn *c, struct http2_stream *s);
/* Ends the stream of an answer that breaks the rules, and resets it. */
void http2_malformed(struct http2_conn *c, struct http2_stream *s, enum http2_error error,
                     const char *why);
/* It has taken too long: ends and resets the stream. */
void http2_give_up(struct http2_conn *c, struct http2_stream *s);
void http2_finish(struct http2_conn *c, struct http2_stream *s, const struct agent_reply *reply);

/* http2_out.c */
size_t http2_drain(struct http2_conn *c, uint8_t *out, size_t cap, uint32_t *out_ops);
bool http2_has_output(const struct http2_conn *c);
/* GOAWAY is the last that is said, once. False: it was said before. */
bool http2_part(struct http2_conn *c);
void http2_greet(struct http2_conn *c); /* preface, SETTINGS, the connection's window */
/* A frame of up to 13 bytes to send. False: there is no room, the peer does not read. */
bool http2_say(struct http2_conn *c, enum http2_type type, unsigned flags, uint32_t id,
               struct ls_bytes payload);
/* The stream may go on sending its body. */
void http2_resume(struct http2_conn *c, struct http2_stream *s);
void http2_forget_body(struct http2_conn *c, struct http2_stream *s);
/* Bytes that scratch needs. */
size_t http2_scratch_bytes(const struct load_workload *workload);

#endif
