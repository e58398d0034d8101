/* agent/respond/ws.h - a connection that has become WebSocket (RFC 6455): an echo, or a member of
 * the room.
 *
 * Independent of the load generator's own code on purpose, like everything here: what it sends is
 * judged by other eyes. Whole messages are kept, so that they can be relayed, changed or lost.
 */
#ifndef LS_AGENT_RESPOND_WS_H
#define LS_AGENT_RESPOND_WS_H

#include "agent/respond/conn.h"

#define RESPOND_WS_MESSAGE_MAX (32u << 20) /* then 1009 */
#define RESPOND_WS_OUT_MAX     (4u << 20)  /* waiting to be sent: then an echo reads no more */
#define RESPOND_WS_ROOM_MAX    (64u << 20) /* ... and a member of the room is dropped */

struct respond_ws {
    struct respond_bytes in; /* the frames that are not complete */
    struct respond_bytes out;
    struct respond_bytes message; /* the fragments so far */
    struct respond_bytes held;    /* room: a delivery that the next one overtakes */
    unsigned opcode;              /* of the message under way; 0: none */
    bool closing;                 /* a close frame was sent or the end was chosen */
    bool reset;                   /* ... and it ends with RST */
    char name[RESPOND_WORD_MAX];
    struct respond_conn *next; /* in the room */
    struct respond_conn *prev;
};

/* Becomes WebSocket, as conn->parser.upgrade says: the 101 waits to be sent. false: no memory. */
bool respond_ws_begin(struct respond_loop *loop, struct respond_conn *conn);
void respond_ws_end(struct respond_loop *loop, struct respond_conn *conn);

/* false: no memory. */
bool respond_ws_take(struct respond_loop *loop, struct respond_conn *conn,
                     const unsigned char *data, size_t len);
/* Sends what waits. false: the connection is gone. *out_over: it is to be ended, now that all has
 * been sent. */
bool respond_ws_flush(struct respond_loop *loop, struct respond_conn *conn, bool *out_over);
bool respond_ws_has_room(const struct respond_conn *conn); /* to be read from */

#define RESPOND_WS_FIN  0x80u
#define RESPOND_WS_HEAD 10

/* The head of a frame as servers send them: its length. */
size_t respond_ws_head(unsigned char out[RESPOND_WS_HEAD], unsigned first, uint64_t len);
/* Appends a frame. first: FIN, reserved bits, opcode. False: no memory. */
bool respond_ws_add_frame(struct respond_bytes *out, unsigned first, const unsigned char *payload,
                          size_t len);
bool respond_bytes_add(struct respond_bytes *bytes, const void *data, size_t len);
void respond_bytes_fini(struct respond_bytes *bytes);

/* ---- room.c ---------------------------------------------------------------------------------- */

bool respond_room_join(struct respond_loop *loop, struct respond_conn *conn);
void respond_room_leave(struct respond_loop *loop, struct respond_conn *conn);
/* A message of a member to all of them. action: RESPOND_NORMAL, or what happens to one delivery. */
bool respond_room_say(struct respond_loop *loop, struct respond_conn *from, unsigned opcode,
                      const unsigned char *text, size_t len, enum respond_action action);
/* Hands out what was said; the members have to be flushed afterwards. */
void respond_room_share(struct respond_loop *loop);
/* The same, and what was to be overtaken waits no longer: perhaps nothing more is said. */
void respond_room_settle(struct respond_loop *loop);

#endif
