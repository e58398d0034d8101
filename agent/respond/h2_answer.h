/* agent/respond/h2_answer.h - what h2.c (frames that come) and h2_answer.c (answers) share. Nobody
 * else includes this. */
#ifndef LS_AGENT_RESPOND_H2_ANSWER_H
#define LS_AGENT_RESPOND_H2_ANSWER_H

#include <nghttp2/nghttp2.h>

#include "agent/respond/h2.h"

#define H2_HEAD_BYTES 9u
#define H2_FRAME_MAX  16384u

enum { /* RFC 9113, 6 */
       H2_DATA = 0,
       H2_HEADERS = 1,
       H2_RST_STREAM = 3,
       H2_SETTINGS = 4,
       H2_PUSH_PROMISE = 5,
       H2_PING = 6,
       H2_GOAWAY = 7,
       H2_WINDOW_UPDATE = 8,
       H2_CONTINUATION = 9
};

#define H2_END_STREAM  0x01u
#define H2_ACK         0x01u
#define H2_END_HEADERS 0x04u
#define H2_PADDED      0x08u
#define H2_PRIORITISED 0x20u

enum { H2_HEADER_TABLE_SIZE = 1, H2_MAX_CONCURRENT_STREAMS = 3, H2_INITIAL_WINDOW_SIZE = 4 };

enum { /* RFC 9113, 7 */
       H2_NO_ERROR = 0,
       H2_PROTOCOL_ERROR = 1,
       H2_INTERNAL_ERROR = 2,
       H2_FLOW_CONTROL_ERROR = 3,
       H2_FRAME_SIZE_ERROR = 6,
       H2_REFUSED_STREAM = 7,
       H2_COMPRESSION_ERROR = 9,
       H2_ENHANCE_YOUR_CALM = 11
};

struct h2_frame {
    uint32_t len;
    unsigned type;
    unsigned flags;
    uint32_t id;
    const unsigned char *payload;
};

/* A request that has begun, until its answer is through. */
struct h2_stream {
    uint32_t id;
    int rule;
    bool head;         /* HEAD: the answer has no body */
    bool asked;        /* the request has ended */
    bool headed;       /* the answer's head has been emitted */
    uint8_t again;     /* TWICE: answers that are through */
    uint32_t pieces;   /* DRIP: pieces that are through */
    uint32_t received; /* of its window, since we last opened it */
    int64_t window;    /* the client's */
    int64_t due_ns;
    size_t body_at;
};

struct respond_h2 {
    nghttp2_hd_inflater *inflater; /* owned */
    struct respond_bytes in;       /* the frame that is not complete */
    struct respond_bytes out;
    struct respond_bytes block; /* of a request, so far */
    uint32_t block_id;          /* 0: none */
    bool block_ends;
    size_t preface;            /* bytes of it that have come */
    struct h2_stream *streams; /* owned, in no order */
    uint32_t count;
    uint32_t cap;
    uint32_t last_id; /* the newest stream that was opened */
    uint32_t promised;
    uint64_t emitted; /* answers in out */
    int64_t window;   /* the client's */
    int64_t initial_window;
    uint32_t received; /* of ours, since we last opened it */
    uint32_t changes;  /* SETTINGS that an action has sent */
    bool indexed;      /* the client's table has the fields of the normal answer */
    bool going;        /* GOAWAY was sent: later streams are not looked at */
    bool mute;         /* nothing is answered any more */
    bool lost;         /* what came was no HTTP/2 */
    enum respond_ending ending;
};

static inline uint32_t h2_get32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline void h2_put32(unsigned char *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* Appends a frame. false: no memory. */
bool h2_add(struct respond_h2 *h2, unsigned type, unsigned flags, uint32_t id, const void *payload,
            size_t len);
/* GOAWAY, once: what was opened until now is answered, and nothing else. */
bool h2_go(struct respond_h2 *h2);
void h2_drop(struct respond_h2 *h2, struct h2_stream *s);
/* Appends what is due of the answer to s, as far as windows allow; drops s if it is through. */
bool h2_emit(struct respond_loop *loop, struct respond_h2 *h2, struct h2_stream *s, int64_t now_ns);

#endif
