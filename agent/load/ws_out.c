#include <string.h>

#include "agent/load/ws_conn.h"
#include "agent/load/ws_handshake.h"

void ws_put_number(unsigned char out[WS_NUMBER_BYTES], uint64_t number)
{
    static const unsigned char digits[16] = "0123456789abcdef";

    for (unsigned i = 0; i < WS_NUMBER_BYTES; i++)
        out[i] = digits[number >> (60 - 4 * i) & 15];
}

/* The next frame of the message under way. first: of the message. */
static void frame_begin(struct ws_conn *c, bool first)
{
    struct ws_sending *s = &c->out;
    size_t left = s->payload.len - s->at;
    size_t part = c->websocket->fragment_bytes;
    uint64_t mask = ls_rng_next(c->env->rng);
    unsigned flags = first ? c->websocket->binary ? WS_BINARY : WS_TEXT : WS_CONTINUATION;

    if (first && s->compressed)
        flags |= WS_RSV1;

    if (part == 0 || part >= left) {
        part = left;
        flags |= WS_FIN;
    }
    memcpy(s->mask, &mask, sizeof(s->mask));
    s->frame_start = s->at;
    s->frame_end = s->at + part;
    s->head_at = 0;
    s->head_len = (uint8_t)ws_head_write(s->head, flags, part, s->mask);
}

static bool has_number(const struct ws_conn *c)
{
    return c->websocket->numbered || c->room != NULL;
}

/* The message that is to be sent, in the form in which it travels. */
static void compress(struct ws_conn *c)
{
    struct ws_sending *s = &c->out;
    size_t skip = has_number(c) ? WS_NUMBER_BYTES : 0;

    s->compressed = c->deflate != NULL;
    if (s->compressed)
        s->payload =
            ws_deflate_message(c->deflate, (struct ls_bytes){ s->number, skip },
                               (struct ls_bytes){ s->payload.data + skip, s->payload.len - skip });
}

static void message_begin(struct ws_conn *c)
{
    const struct ws_op *op = ws_ring_at(c, c->count - c->unsent);
    struct ws_sending *s = &c->out;

    s->payload = ws_request_of(c, op)->bytes;
    s->at = 0;
    if (c->room != NULL) { /* which has it from now on */
        ws_room_say(c->room, c->me, op->op, s->number);
        c->first = c->first + 1 < c->cap ? c->first + 1 : 0;
        c->count--;
    } else {
        if (c->websocket->numbered)
            ws_put_number(s->number, op->number);
        c->env->messages->sent++;
        c->env->messages->expected++;
    }
    c->unsent--;
    compress(c);
    frame_begin(c, true);
}

/* Room: the last word, which others know as such. */
static void last_begin(struct ws_conn *c)
{
    struct ws_sending *s = &c->out;

    s->payload = c->env->workload->requests[0].bytes;
    s->at = 0;
    ws_room_say_last(c->room, c->me, s->number);
    c->last_due = false;
    c->last_said = true;
    compress(c);
    frame_begin(c, true);
}

/* Up to n bytes of the frame's payload, masked. */
static size_t put_payload(struct ws_conn *c, unsigned char *out, size_t n)
{
    struct ws_sending *s = &c->out;
    size_t done = 0;

    if (n > s->frame_end - s->at)
        n = s->frame_end - s->at;
    while (done < n) {
        const unsigned char *from = s->payload.data + s->at;
        size_t part = n - done;

        if (has_number(c) && !s->compressed && s->at < WS_NUMBER_BYTES) {
            from = s->number + s->at;
            if (part > WS_NUMBER_BYTES - s->at)
                part = WS_NUMBER_BYTES - s->at;
        }
        ws_mask(out + done, from, part, s->mask, s->at - s->frame_start);
        s->at += part;
        done += part;
    }
    return n;
}

/* The least of what is wanted and there is. */
static size_t put_plain(unsigned char *out, size_t room, const unsigned char *from, size_t len)
{
    size_t n = len < room ? len : room;

    memcpy(out, from, n);
    return n;
}

/* Of what has been begun, or of a frame that may go now; 0: there is nothing of the kind. */
static size_t put_some(struct ws_conn *c, unsigned char *out, size_t room)
{
    struct ws_sending *s = &c->out;
    size_t n;

    if (s->head_at < s->head_len) {
        n = put_plain(out, room, s->head + s->head_at, s->head_len - s->head_at);
        s->head_at = (uint8_t)(s->head_at + n);
        return n;
    }
    if (s->at < s->frame_end)
        return put_payload(c, out, room);
    if (c->control_at < c->control_len) {
        n = put_plain(out, room, c->control + c->control_at, c->control_len - c->control_at);
        c->control_at = (uint8_t)(c->control_at + n);
        return n;
    }
    c->control_at = c->control_len = 0;
    return 0;
}

static size_t drain_handshake(struct ws_conn *c, uint8_t *out, size_t cap)
{
    struct ws_handshake *h = c->handshake;
    size_t n = put_plain(out, cap, h->out + h->out_at, h->out_len - h->out_at);

    h->out_at += n;
    return n;
}

size_t ws_drain(void *conn, uint8_t *out, size_t cap, uint32_t *out_ops)
{
    struct ws_conn *c = conn;
    size_t len = 0;

    if (c->handshake != NULL)
        return c->over ? 0 : drain_handshake(c, out, cap);
    while (len < cap) {
        size_t n = put_some(c, out + len, cap - len);

        len += n;
        if (n > 0)
            continue;
        if (c->over || c->leaving)
            break;
        if (c->out.at < c->out.payload.len) {
            frame_begin(c, false);
        } else if (c->unsent > 0) {
            message_begin(c);
            if (out_ops != NULL)
                (*out_ops)++;
        } else if (c->last_due) {
            last_begin(c);
        } else {
            break;
        }
    }
    return len;
}

void ws_send_control(struct ws_conn *c, enum ws_opcode opcode, const unsigned char *payload,
                     size_t len)
{
    uint64_t random = ls_rng_next(c->env->rng);
    unsigned char *at = c->control;
    unsigned char mask[4];
    size_t head;

    if (c->control_at == c->control_len)
        c->control_at = c->control_len = 0; /* the last one has left */
    if (c->leaving || (c->control_at > 0 && opcode != WS_CLOSE))
        return;
    if (c->control_at > 0)
        at += c->control_len;
    memcpy(mask, &random, sizeof(mask));
    head = ws_head_write(at, WS_FIN | (unsigned)opcode, len, mask);
    ws_mask(at + head, payload, len, mask, 0);
    c->control_len = (uint8_t)((size_t)(at - c->control) + head + len);
    c->leaving = opcode == WS_CLOSE;
}

void ws_send_close(struct ws_conn *c, uint16_t code)
{
    unsigned char payload[2] = { (unsigned char)(code >> 8), (unsigned char)code };

    ws_send_control(c, WS_CLOSE, payload, code == WS_CLOSE_NONE ? 0 : sizeof(payload));
}
