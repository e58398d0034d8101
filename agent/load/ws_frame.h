/* agent/load/ws_frame.h - frames of WebSocket (RFC 6455, section 5): a client's are written masked,
 * a server's are read in any slicing, without a copy and without memory of their own. */
#ifndef LS_AGENT_LOAD_WS_FRAME_H
#define LS_AGENT_LOAD_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attr.h"

#define WS_HEAD_MAX    14u  /* flags, a length of 64 bits, the mask */
#define WS_CONTROL_MAX 125u /* bytes that a control frame may carry */

enum ws_opcode {
    WS_CONTINUATION = 0x0,
    WS_TEXT = 0x1,
    WS_BINARY = 0x2,
    WS_CLOSE = 0x8,
    WS_PING = 0x9,
    WS_PONG = 0xa
};

#define WS_FIN  0x80u
#define WS_RSV1 0x40u /* of the first frame of a message: compressed (RFC 7692) */

/* Why a connection was closed (section 7.4.1), as far as we say or expect it. */
enum ws_close_code {
    WS_CLOSE_NORMAL = 1000,
    WS_CLOSE_PROTOCOL = 1002,
    WS_CLOSE_NONE = 1005, /* never sent: the frame had no code */
    WS_CLOSE_BAD_TEXT = 1007,
    WS_CLOSE_TOO_BIG = 1009
};

/* ---- writing --------------------------------------------------------------------------------- */

/* The head of a client's frame. first: WS_FIN, WS_RSV1 and opcode. mask: four bytes in the order in
 * which they are sent. Returns its length. */
size_t ws_head_write(unsigned char out[WS_HEAD_MAX], unsigned first, uint64_t len,
                     const unsigned char mask[4]);

/* out[i] = in[i] ^ mask[(at + i) % 4]; at: the place of in[0] in the frame's payload. In place is
 * fine. */
void ws_mask(unsigned char *out, const unsigned char *in, size_t n, const unsigned char mask[4],
             uint64_t at);

/* ---- reading --------------------------------------------------------------------------------- */

enum ws_step {
    WS_MORE,        /* all bytes are taken */
    WS_PIECE,       /* some of a message, where it was received */
    WS_MESSAGE_END, /* all of it was handed out */
    WS_CONTROL,     /* a whole control frame: opcode, control, control_len */
    WS_BAD          /* why and code say what; for good */
};

/* State of one stream; zeroed at first, and limit set. */
struct ws_reader {
    uint64_t left;  /* of the frame's payload */
    uint64_t total; /* of the message so far, as announced */
    uint64_t limit; /* of a message, in bytes as they travel */
    const char *why;
    uint16_t code;     /* enum ws_close_code */
    uint8_t head_len;  /* of the head that is being read */
    uint8_t opcode;    /* of the frame */
    uint8_t message;   /* opcode of the message under way; 0: none */
    uint8_t type;      /* the same, of the last one after its end */
    bool in_payload;   /* head is complete */
    bool fin;          /* the frame ends its message */
    bool compressed;   /* the message has WS_RSV1 */
    bool may_compress; /* RSV1 was agreed on */
    uint8_t control_len;
    unsigned char head[WS_HEAD_MAX];
    unsigned char control[WS_CONTROL_MAX];
};

/* Takes bytes off *in up to the next step. */
enum ws_step ws_read(struct ws_reader *reader, struct ls_bytes *in, struct ls_bytes *out_piece);

/* Between two messages, with nothing of the next: a whole one may be taken in one step. */
static inline bool ws_reader_is_idle(const struct ws_reader *reader)
{
    return reader->head_len == 0 && !reader->in_payload && reader->message == 0;
}

/* The next step needs no further byte. */
static inline bool ws_reader_is_ending(const struct ws_reader *reader)
{
    return reader->in_payload && reader->left == 0;
}

/* The payload of an unfragmented frame that begins with first and lies whole in in, at *out_at;
 * false: it is none, or not wholly there. For messages of up to 65535 bytes. */
static inline bool ws_whole(struct ls_bytes in, unsigned first, size_t *out_at, size_t *out_len)
{
    size_t at = 2;
    size_t len;

    if (in.len < 2 || in.data[0] != first || in.data[1] > 126)
        return false;
    len = in.data[1];
    if (len == 126) {
        if (in.len < 4)
            return false;
        at = 4;
        len = (size_t)in.data[2] << 8 | in.data[3];
        if (len < 126)
            return false; /* not in its shortest form: for ws_read() to say */
    }
    if (in.len - at < len)
        return false;
    *out_at = at;
    *out_len = len;
    return true;
}

/* The code of a received close frame, WS_CLOSE_NONE without one; 0: it may not be sent so. */
uint16_t ws_close_code_read(const unsigned char *control, size_t len);

/* What a connection that ended with the server's close frame (0: without one) is called. */
const char *ws_close_words(uint16_t code);

/* ---- UTF-8, in any slicing (section 8.1) ----------------------------------------------------- */

/* State 0 is between two characters. Returns the next state, or WS_UTF8_BAD. */
#define WS_UTF8_BAD UINT32_MAX
uint32_t ws_utf8_check(uint32_t state, struct ls_bytes text);

#endif
