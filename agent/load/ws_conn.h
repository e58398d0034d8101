/* agent/load/ws_conn.h - a connection of WebSocket: what its driver (drivers/websocket.c) and its
 * way out (ws_out.c) share. Nobody else includes this. */
#ifndef LS_AGENT_LOAD_WS_CONN_H
#define LS_AGENT_LOAD_WS_CONN_H

#include "agent/load/driver.h"
#include "agent/load/ws_deflate.h"
#include "agent/load/ws_frame.h"
#include "agent/load/ws_room.h"

struct ws_handshake;

/* A pong, and a close frame behind it if it is on its way: 6 + 125 + 6 + 2. */
#define WS_CONTROL_OUT  (14 + WS_CONTROL_MAX)
#define WS_NUMBER_BYTES LOAD_WS_NUMBER_BYTES

struct ws_op {
    uint32_t op;
    uint32_t request; /* index into the workload's requests */
    uint64_t number;  /* of the load */
};

/* The message that is being sent, frame by frame. */
struct ws_sending {
    struct ls_bytes payload; /* of the message; its first bytes are number if that is set */
    size_t at;               /* of payload: what has been sent */
    bool compressed;
    size_t frame_start; /* of payload: of the frame under way ... */
    size_t frame_end;
    uint8_t head_len;
    uint8_t head_at;
    unsigned char head[WS_HEAD_MAX];
    unsigned char mask[4];
    unsigned char number[WS_NUMBER_BYTES];
};

struct ws_conn {
    const struct agent_driver_env *env;
    const struct load_websocket *websocket;
    struct ws_room *room;           /* NULL: an echo, or a probe of a room */
    uint32_t me;                    /* in room */
    struct ws_handshake *handshake; /* owned; as long as it is under way */

    /* Operations without an answer: count of them from first on, the last unsent of which have not
     * begun to be sent. */
    struct ws_op *ring; /* &one, or owned; NULL: closed */
    struct ws_op one;
    uint32_t cap;
    uint32_t first;
    uint32_t count;
    uint32_t unsent;
    struct ws_sending out;

    bool over;     /* takes nothing more; eof() reports what is left */
    bool invited;  /* room: it may begin */
    bool last_due; /* room: to be said that there are no more */
    bool last_said;
    bool leaving; /* a close frame came or was sent: no further message is sent */
    bool agreed;
    bool begun;           /* an answer is coming in ... */
    bool asked;           /* ... which somebody has asked for */
    bool differs;         /* ... and which is not the expected one from mismatch_at on */
    uint16_t closed_with; /* code of the server's close frame; 0: none */
    uint8_t control_len;  /* of a control frame to be sent */
    uint8_t control_at;
    uint32_t utf8;
    uint64_t got; /* bytes of the answer */
    uint64_t mismatch_at;
    unsigned char expected_number[WS_NUMBER_BYTES];
    unsigned char *text; /* owned; room: a message that comes in pieces, of up to text_max bytes */
    size_t text_max;
    struct ws_deflate *deflate; /* owned; NULL: not agreed on */
    bool takeover;              /* of the server's messages */
    const char *broke;          /* static text: why we broke off; NULL: we did not */
    struct ws_reader reader;
    unsigned char control[WS_CONTROL_OUT];
};

static inline struct ws_op *ws_ring_at(struct ws_conn *c, uint32_t i)
{
    uint32_t at = c->first + i; /* both are below cap */

    return &c->ring[at < c->cap ? at : at - c->cap];
}

static inline const struct load_request *ws_request_of(const struct ws_conn *c,
                                                       const struct ws_op *op)
{
    return &c->env->workload->requests[op->request];
}

/* Sixteen hexadecimal digits. */
void ws_put_number(unsigned char out[WS_NUMBER_BYTES], uint64_t number);

/* Ends the oldest operation. The state is consistent before done(), which may call back. */
void ws_finish(struct ws_conn *c, const struct agent_reply *reply);
/* The peer broke the rules. What is at fault, if anything, is the oldest operation. */
enum ls_err ws_break_off(struct ws_conn *c, enum ws_close_code code,
                         const struct agent_reply *reply);

/* ws_in.c. The common case in one step: a whole frame with what is expected, or one of the room's.
 * False: nothing has happened, and the reader has to find out. */
bool ws_answer_at_once(struct ws_conn *c, struct ls_bytes *in);
bool ws_room_at_once(struct ws_conn *c, struct ls_bytes *in);
void ws_answer_begin(struct ws_conn *c, bool asked);
enum ls_err ws_take_piece(struct ws_conn *c, struct ls_bytes piece);
/* more: bytes of the next message came along. */
enum ls_err ws_take_end(struct ws_conn *c, bool more);

/* A driver's drain(). */
size_t ws_drain(void *conn, uint8_t *out, size_t cap, uint32_t *out_ops);

/* A control frame, in the place of one that has not been begun: of several pings the latest is
 * answered, and nothing follows a close frame, which itself follows a pong that has been begun. */
void ws_send_control(struct ws_conn *c, enum ws_opcode opcode, const unsigned char *payload,
                     size_t len);
void ws_send_close(struct ws_conn *c, uint16_t code);

#endif
