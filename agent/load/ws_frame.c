#include "agent/load/ws_frame.h"

#include <string.h>

#define LENGTH_16 126u
#define LENGTH_64 127u

/* ---- writing --------------------------------------------------------------------------------- */

size_t ws_head_write(unsigned char out[WS_HEAD_MAX], unsigned first, uint64_t len,
                     const unsigned char mask[4])
{
    size_t n = 2;

    out[0] = (unsigned char)first;
    if (len < LENGTH_16) {
        out[1] = (unsigned char)(0x80u | len);
    } else {
        unsigned bytes = len <= UINT16_MAX ? 2 : 8;

        out[1] = (unsigned char)(0x80u | (bytes == 2 ? LENGTH_16 : LENGTH_64));
        for (unsigned i = bytes; i-- > 0;)
            out[n++] = (unsigned char)(len >> (8 * i));
    }
    memcpy(out + n, mask, 4);
    return n + 4;
}

void ws_mask(unsigned char *out, const unsigned char *in, size_t n, const unsigned char mask[4],
             uint64_t at)
{
    unsigned char turned[8];
    uint64_t word;
    size_t i = 0;

    for (unsigned k = 0; k < 8; k++)
        turned[k] = mask[(at + k) & 3];
    memcpy(&word, turned, 8);
    /* Bytes in, bytes out: whichever way the machine orders them, it does so in both. */
    for (; n - i >= 32; i += 32) {
        uint64_t words[4];

        memcpy(words, in + i, 32);
        words[0] ^= word;
        words[1] ^= word;
        words[2] ^= word;
        words[3] ^= word;
        memcpy(out + i, words, 32);
    }
    for (; n - i >= 8; i += 8) {
        uint64_t one;

        memcpy(&one, in + i, 8);
        one ^= word;
        memcpy(out + i, &one, 8);
    }
    for (unsigned k = 0; i < n; i++, k++)
        out[i] = in[i] ^ turned[k];
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum ws_step bad(struct ws_reader *r, enum ws_close_code code, const char *why)
{
    if (r->why == NULL) {
        r->why = why;
        r->code = (uint16_t)code;
    }
    return WS_BAD;
}

/* How long the head is, as far as that is known. */
static size_t head_bytes(const struct ws_reader *r)
{
    unsigned length = r->head[1] & 0x7fu;

    if (r->head_len < 2)
        return 2;
    return length == LENGTH_64 ? 10 : length == LENGTH_16 ? 4 : 2;
}

static uint64_t head_length(const struct ws_reader *r)
{
    uint64_t len = 0;

    if (r->head_len == 2)
        return r->head[1];
    for (unsigned i = 2; i < r->head_len; i++)
        len = len << 8 | r->head[i];
    return len;
}

static enum ws_step begin_control(struct ws_reader *r)
{
    if (r->opcode > WS_PONG)
        return bad(r, WS_CLOSE_PROTOCOL, "a frame with a reserved opcode");
    if (!r->fin)
        return bad(r, WS_CLOSE_PROTOCOL, "a control frame in fragments");
    if ((r->head[0] & WS_RSV1) != 0)
        return bad(r, WS_CLOSE_PROTOCOL, "a frame with reserved bits set");
    if (r->left > WS_CONTROL_MAX)
        return bad(r, WS_CLOSE_PROTOCOL, "a control frame of more than 125 bytes");
    r->control_len = 0;
    return WS_MORE;
}

static enum ws_step begin_data(struct ws_reader *r)
{
    bool rsv1 = (r->head[0] & WS_RSV1) != 0;

    if (r->opcode > WS_BINARY)
        return bad(r, WS_CLOSE_PROTOCOL, "a frame with a reserved opcode");
    if (r->opcode == WS_CONTINUATION && r->message == 0)
        return bad(r, WS_CLOSE_PROTOCOL, "a continuation of no message");
    if (r->opcode != WS_CONTINUATION && r->message != 0)
        return bad(r, WS_CLOSE_PROTOCOL, "a message within the fragments of another");
    if (rsv1 && (!r->may_compress || r->opcode == WS_CONTINUATION))
        return bad(r, WS_CLOSE_PROTOCOL, "a frame with reserved bits set");
    if (r->opcode != WS_CONTINUATION) {
        r->message = r->type = r->opcode;
        r->compressed = rsv1;
        r->total = 0;
    }
    if (r->left > r->limit || r->total > r->limit - r->left)
        return bad(r, WS_CLOSE_TOO_BIG, "a message of a length beyond all expectation");
    r->total += r->left;
    return WS_MORE;
}

/* The head is complete. */
static enum ws_step begin_frame(struct ws_reader *r)
{
    unsigned length = r->head[1] & 0x7fu;

    if ((r->head[1] & 0x80u) != 0)
        return bad(r, WS_CLOSE_PROTOCOL, "a masked frame: a server's must not be");
    if ((r->head[0] & 0x30u) != 0)
        return bad(r, WS_CLOSE_PROTOCOL, "a frame with reserved bits set");
    r->fin = (r->head[0] & WS_FIN) != 0;
    r->opcode = r->head[0] & 0x0fu;
    r->left = head_length(r);
    if ((r->left >> 63) != 0 || (length == LENGTH_16 && r->left < LENGTH_16) ||
        (length == LENGTH_64 && r->left <= UINT16_MAX))
        return bad(r, WS_CLOSE_PROTOCOL, "a length that is not in its shortest form");
    r->in_payload = true;
    r->head_len = 0;
    return r->opcode >= WS_CLOSE ? begin_control(r) : begin_data(r);
}

/* Reads the head. WS_MORE: it is complete, or all bytes are taken. */
static enum ws_step take_head(struct ws_reader *r, struct ls_bytes *in)
{
    while (in->len > 0) {
        r->head[r->head_len++] = *in->data++;
        in->len--;
        /* What the first byte says is wrong is wrong without the rest. */
        if (r->head_len >= 2 && r->head_len == head_bytes(r))
            return begin_frame(r);
    }
    return WS_MORE;
}

static enum ws_step take_control(struct ws_reader *r, struct ls_bytes *in)
{
    size_t n = r->left < in->len ? (size_t)r->left : in->len;

    if (n > 0)
        memcpy(r->control + r->control_len, in->data, n);
    r->control_len = (uint8_t)(r->control_len + n);
    r->left -= n;
    in->data += n;
    in->len -= n;
    if (r->left > 0)
        return WS_MORE;
    r->in_payload = false;
    return WS_CONTROL;
}

enum ws_step ws_read(struct ws_reader *r, struct ls_bytes *in, struct ls_bytes *out_piece)
{
    if (r->why != NULL)
        return WS_BAD;
    for (;;) {
        size_t n;

        if (!r->in_payload) {
            enum ws_step step = take_head(r, in);

            if (step != WS_MORE || !r->in_payload)
                return step;
        }
        if (r->opcode >= WS_CLOSE)
            return take_control(r, in);
        n = r->left < in->len ? (size_t)r->left : in->len;
        if (n > 0) {
            *out_piece = (struct ls_bytes){ in->data, n };
            r->left -= n;
            in->data += n;
            in->len -= n;
            return WS_PIECE;
        }
        if (r->left > 0)
            return WS_MORE;
        r->in_payload = false;
        if (r->fin) {
            r->message = 0;
            return WS_MESSAGE_END;
        }
    }
}

uint16_t ws_close_code_read(const unsigned char *control, size_t len)
{
    unsigned code;

    if (len == 0)
        return WS_CLOSE_NONE;
    if (len == 1)
        return 0;
    code = (unsigned)control[0] << 8 | control[1];
    /* 1004, 1005, 1006 and 1015 are for use within programs; below 1000 and above 4999 is nothing.
     */
    if (code < 1000 || code > 4999 || (code >= 1004 && code <= 1006) ||
        (code >= 1015 && code < 3000))
        return 0;
    return ws_utf8_check(0, (struct ls_bytes){ control + 2, len - 2 }) == 0 ? (uint16_t)code : 0;
}

const char *ws_close_words(uint16_t code)
{
    switch (code) {
    case 0:
        return "closed without an answer, and without a close frame";
    case WS_CLOSE_NORMAL:
        return "the server closed with 1000: normal";
    case 1001:
        return "the server closed with 1001: it goes away";
    case WS_CLOSE_PROTOCOL:
        return "the server closed with 1002: it says that we broke the protocol";
    case 1003:
        return "the server closed with 1003: it does not take such messages";
    case WS_CLOSE_NONE:
        return "the server closed without a code";
    case WS_CLOSE_BAD_TEXT:
        return "the server closed with 1007: it says that a message was no text";
    case 1008:
        return "the server closed with 1008: against its policy";
    case WS_CLOSE_TOO_BIG:
        return "the server closed with 1009: a message was too big for it";
    case 1011:
        return "the server closed with 1011: a fault of its own";
    case 1012:
        return "the server closed with 1012: it starts again";
    case 1013:
        return "the server closed with 1013: try again later";
    default:
        return "the server closed with another code";
    }
}

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* A state is how many bytes are missing and, in the next two bytes, between which values the next
 * of them has to lie: overlong forms, surrogates and what is past U+10FFFF are told by the second
 * byte (Unicode 15, table 3-7). */
static uint32_t state_of(unsigned missing, unsigned low, unsigned high)
{
    return missing | low << 8 | high << 16;
}

static uint32_t after_first(unsigned char c)
{
    if (c < 0x80)
        return 0;
    if (c < 0xc2 || c > 0xf4)
        return WS_UTF8_BAD;
    if (c < 0xe0)
        return state_of(1, 0x80, 0xbf);
    if (c < 0xf0)
        return state_of(2, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf);
    return state_of(3, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf);
}

uint32_t ws_utf8_check(uint32_t state, struct ls_bytes text)
{
    size_t i = 0;

    if (state == WS_UTF8_BAD)
        return state;
    while (i < text.len) {
        unsigned char c = text.data[i];

        if (state == 0) {
            uint64_t word;

            if (text.len - i >= 8) {
                memcpy(&word, text.data + i, 8);
                if ((word & UINT64_C(0x8080808080808080)) == 0) {
                    i += 8;
                    continue;
                }
            }
            state = after_first(c);
        } else {
            unsigned missing = (state & 0xffu) - 1;

            if (c < (state >> 8 & 0xffu) || c > (state >> 16 & 0xffu))
                return WS_UTF8_BAD;
            state = missing > 0 ? state_of(missing, 0x80, 0xbf) : 0;
        }
        if (state == WS_UTF8_BAD)
            return state;
        i++;
    }
    return state;
}
