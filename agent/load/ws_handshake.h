/* agent/load/ws_handshake.h - the opening handshake of WebSocket (RFC 6455, section 4.1), as a
 * client: the request, and whether the answer agrees to it. */
#ifndef LS_AGENT_LOAD_WS_HANDSHAKE_H
#define LS_AGENT_LOAD_WS_HANDSHAKE_H

#include "agent/load/workload.h"
#include "common/err.h"

#define WS_KEY_BYTES    24u    /* of Sec-WebSocket-Key, in base64 */
#define WS_ACCEPT_BYTES 28u    /* of Sec-WebSocket-Accept */
#define WS_ANSWER_MAX   16384u /* bytes of the answer's head */
#define WS_NAME_MAX     12u    /* of a connection's name, with the NUL */

/* One handshake under way. */
struct ws_handshake {
    size_t out_len; /* of out */
    size_t out_at;  /* what has been sent of it */
    size_t head_len;
    char accept[WS_ACCEPT_BYTES]; /* what the server has to answer to our key */
    unsigned char head[WS_ANSWER_MAX];
    unsigned char out[]; /* the request */
};

enum ws_handshake_step { WS_SHAKE_MORE, WS_SHAKE_DONE, WS_SHAKE_BAD };

/* What came of it. */
struct ws_agreement {
    enum load_outcome outcome; /* LOAD_BAD_STATUS, LOAD_BAD_FRAMING; LOAD_OK: agreed */
    uint16_t status;           /* 0: none was read */
    const char *why;           /* static text; "" if agreed */
    bool deflate;              /* permessage-deflate is on ... */
    bool server_takeover;      /* ... and the server's messages refer to those before */
};

/* number: of the connection, for its name. key: 16 bytes of chance. LS_ENOMEM. The caller frees
 * *out with free(). */
enum ls_err ws_handshake_create(const struct load_websocket *websocket, uint64_t number,
                                const unsigned char key[16],
                                struct ws_handshake **out) LS_NODISCARD;

/* Takes the answer's head off *in. */
enum ws_handshake_step ws_handshake_take(struct ws_handshake *handshake,
                                         const struct load_websocket *websocket,
                                         struct ls_bytes *in, struct ws_agreement *out);

/* "c17": returns its length. */
size_t ws_name_write(char out[WS_NAME_MAX], uint64_t number);

/* The 28 characters that answer a key of 24. */
void ws_accept_of(const char *key, char out[WS_ACCEPT_BYTES]);

#endif
