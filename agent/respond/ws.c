#include "agent/respond/ws.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base64.h"
#include "common/digest.h"
#include "common/utf8.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

enum { CONTINUATION = 0, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10 };
#define FIN RESPOND_WS_FIN

/* ---- bytes ----------------------------------------------------------------------------------- */

bool respond_bytes_add(struct respond_bytes *b, const void *data, size_t len)
{
    if (b->at == b->len)
        b->at = b->len = 0;
    if (b->len + len > b->cap && b->at > 0) {
        memmove(b->data, b->data + b->at, b->len - b->at);
        b->len -= b->at;
        b->at = 0;
    }
    if (b->len + len > b->cap) {
        size_t cap = (b->len + len) * 2;
        unsigned char *grown = realloc(b->data, cap);

        if (grown == NULL)
            return false;
        b->data = grown;
        b->cap = cap;
    }
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    return true;
}

void respond_bytes_fini(struct respond_bytes *b)
{
    free(b->data);
    *b = (struct respond_bytes){ .data = NULL };
}

size_t respond_ws_head(unsigned char out[RESPOND_WS_HEAD], unsigned first, uint64_t len)
{
    unsigned bytes = len > UINT16_MAX ? 8 : len > 125 ? 2 : 0;
    size_t n = 2;

    out[0] = (unsigned char)first;
    out[1] = (unsigned char)(bytes == 8 ? 127 : bytes == 2 ? 126 : len);
    for (unsigned i = bytes; i-- > 0;)
        out[n++] = (unsigned char)(len >> (8 * i));
    return n;
}

bool respond_ws_add_frame(struct respond_bytes *out, unsigned first, const unsigned char *payload,
                          size_t len)
{
    unsigned char head[RESPOND_WS_HEAD];
    size_t n = respond_ws_head(head, first, len);

    return respond_bytes_add(out, head, n) && respond_bytes_add(out, payload, len);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* What answers the client's key. */
static bool add_accept(struct ls_buf *out, const char *key, bool wrong)
{
    unsigned char digest[LS_SHA1_BYTES];
    char text[RESPOND_WORD_MAX + sizeof(GUID)];
    int len = snprintf(text, sizeof(text), "%s" GUID, key);

    if (len < 0 || (size_t)len >= sizeof(text))
        return false;
    ls_sha1((struct ls_bytes){ (const unsigned char *)text, (size_t)len }, digest);
    digest[0] ^= wrong;
    ls_base64_encode(out, (struct ls_bytes){ digest, sizeof(digest) });
    return true;
}

/* Is the next upgrade, counted over all threads, to be answered wrongly? */
static bool wants_bad_accept(struct respond_loop *loop)
{
    uint64_t n = atomic_fetch_add_explicit(loop->upgrades, 1, memory_order_relaxed) + 1;

    for (size_t i = 0; i < loop->settings->rule_count; i++) {
        const struct respond_rule *rule = &loop->settings->rules[i];

        if (rule->action == RESPOND_BAD_ACCEPT && (rule->after ? n > rule->n : n % rule->n == 0))
            return true;
    }
    return false;
}

bool respond_ws_begin(struct respond_loop *loop, struct respond_conn *conn)
{
    const struct respond_upgrade *upgrade = &conn->parser.upgrade;
    struct respond_ws *ws = calloc(1, sizeof(*ws));
    bool wrong = wants_bad_accept(loop);
    struct ls_buf head;
    bool ok;

    if (ws == NULL)
        return false;
    conn->ws = ws;
    memcpy(ws->name, upgrade->name, sizeof(ws->name));
    ls_buf_init(&head, 1024);
    ls_buf_adds(&head, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Accept: ");
    ok = add_accept(&head, upgrade->key, wrong);
    if (upgrade->protocol[0] != '\0')
        ls_buf_addf(&head, "\r\nSec-WebSocket-Protocol: %s", upgrade->protocol);
    ls_buf_adds(&head, "\r\n\r\n");
    ok = ok && head.ok && respond_bytes_add(&ws->out, head.data, head.len);
    ls_buf_fini(&head);
    respond_tally_add(&loop->tally.upgrades, 1);
    if (wrong)
        respond_tally_add(&loop->tally.actions[RESPOND_BAD_ACCEPT], 1);
    if (ok && loop->settings->room)
        ok = respond_room_join(loop, conn);
    return ok;
}

void respond_ws_end(struct respond_loop *loop, struct respond_conn *conn)
{
    struct respond_ws *ws = conn->ws;

    if (ws == NULL)
        return;
    if (loop->settings->room)
        respond_room_leave(loop, conn);
    respond_bytes_fini(&ws->in);
    respond_bytes_fini(&ws->out);
    respond_bytes_fini(&ws->message);
    respond_bytes_fini(&ws->held);
    free(ws);
    conn->ws = NULL;
}

/* ---- answers --------------------------------------------------------------------------------- */

static bool say_close(struct respond_ws *ws, unsigned code)
{
    unsigned char payload[2] = { (unsigned char)(code >> 8), (unsigned char)code };

    ws->closing = true;
    return respond_ws_add_frame(&ws->out, FIN | CLOSE, payload, 2);
}

/* In three fragments, with a ping between the first two. */
static bool echo_fragments(struct respond_ws *ws, unsigned opcode, const unsigned char *text,
                           size_t len)
{
    size_t third = len / 3;

    return respond_ws_add_frame(&ws->out, opcode, text, third) &&
           respond_ws_add_frame(&ws->out, FIN | PING, (const unsigned char *)"between", 7) &&
           respond_ws_add_frame(&ws->out, CONTINUATION, text + third, third) &&
           respond_ws_add_frame(&ws->out, FIN | CONTINUATION, text + 2 * third, len - 2 * third);
}

static bool echo_masked(struct respond_ws *ws, unsigned opcode, const unsigned char *text,
                        size_t len)
{
    unsigned char head[6] = { (unsigned char)(FIN | opcode), 0x80u | 4u }; /* a mask of zeros */
    unsigned char four[4] = { 'm', 'a', 's', 'k' };

    (void)text;
    (void)len;
    return respond_bytes_add(&ws->out, head, sizeof(head)) && respond_bytes_add(&ws->out, four, 4);
}

static bool echo_giant(struct respond_ws *ws, unsigned opcode)
{
    static const unsigned char length[9] = { 127, 0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    unsigned char first = (unsigned char)(FIN | opcode);

    return respond_bytes_add(&ws->out, &first, 1) && respond_bytes_add(&ws->out, length, 9);
}

/* Another byte first, one fewer, or one more. text may be written to. */
static bool echo_changed(struct respond_ws *ws, unsigned opcode, unsigned char *text, size_t len,
                         enum respond_action action)
{
    if (action == RESPOND_WRONG_BODY && len > 0)
        text[0] ^= 1;
    if (action == RESPOND_SHORT && len > 0)
        len--;
    if (action != RESPOND_LONG)
        return respond_ws_add_frame(&ws->out, FIN | opcode, text, len);
    return respond_ws_add_frame(&ws->out, opcode, text, len) &&
           respond_ws_add_frame(&ws->out, FIN | CONTINUATION, (const unsigned char *)"+", 1);
}

/* Ends the connection at once: with half of the answer and RST, without one, in good order or not.
 */
static bool echo_end(struct respond_ws *ws, unsigned opcode, const unsigned char *text, size_t len,
                     const struct respond_rule *rule)
{
    bool ok = true;

    if (rule->action == RESPOND_CLOSE_CODE)
        return say_close(ws, rule->status);
    if (rule->action == RESPOND_HALF) {
        ok = respond_ws_add_frame(&ws->out, FIN | opcode, text, len);
        ws->out.len -= ok ? len / 2 : 0;
    } else if (rule->action == RESPOND_GARBAGE) {
        ok = respond_bytes_add(&ws->out, "\xff\xff\xff\xff garbage", 12);
    }
    ws->closing = true;
    ws->reset = rule->action == RESPOND_RESET || rule->action == RESPOND_HALF;
    return ok;
}

/* Is the message answered whole, and once? Whatever else is wrong with it. */
static bool answers(enum respond_action action)
{
    switch (action) {
    case RESPOND_CLOSE:
    case RESPOND_RESET:
    case RESPOND_NO_ANSWER:
    case RESPOND_GARBAGE:
    case RESPOND_HALF:
    case RESPOND_GIANT:
    case RESPOND_CLOSE_CODE:
        return false;
    default:
        return true;
    }
}

static bool echo(struct respond_ws *ws, unsigned opcode, unsigned char *text, size_t len,
                 const struct respond_rule *rule)
{
    switch (rule->action) {
    case RESPOND_NO_ANSWER:
        return true;
    case RESPOND_CLOSE:
    case RESPOND_RESET:
    case RESPOND_GARBAGE:
    case RESPOND_HALF:
    case RESPOND_CLOSE_CODE:
        return echo_end(ws, opcode, text, len, rule);
    case RESPOND_WRONG_BODY:
    case RESPOND_SHORT:
    case RESPOND_LONG:
        return echo_changed(ws, opcode, text, len, rule->action);
    case RESPOND_MASKED:
        return echo_masked(ws, opcode, text, len);
    case RESPOND_RESERVED_BITS:
        return respond_ws_add_frame(&ws->out, FIN | 0x20u | opcode, text, len);
    case RESPOND_BAD_UTF8:
        return respond_ws_add_frame(&ws->out, FIN | TEXT, (const unsigned char *)"\xc0\xaf", 2);
    case RESPOND_GIANT:
        return echo_giant(ws, opcode);
    case RESPOND_FRAGMENTS:
        return echo_fragments(ws, opcode, text, len);
    case RESPOND_PING:
        return respond_ws_add_frame(&ws->out, FIN | PING, (const unsigned char *)"ping", 4) &&
               respond_ws_add_frame(&ws->out, FIN | opcode, text, len);
    case RESPOND_TWICE:
        return respond_ws_add_frame(&ws->out, FIN | opcode, text, len) &&
               respond_ws_add_frame(&ws->out, FIN | opcode, text, len);
    default:
        return respond_ws_add_frame(&ws->out, FIN | opcode, text, len);
    }
}

/* text may be written to. */
static bool take_message(struct respond_loop *loop, struct respond_conn *conn, unsigned opcode,
                         unsigned char *text, size_t len)
{
    static const struct respond_rule normal = { .action = RESPOND_NORMAL };
    int chosen = respond_choose_rule(loop);
    const struct respond_rule *rule = chosen >= 0 ? &loop->settings->rules[chosen] : &normal;

    respond_tally_add(&loop->tally.requests, 1);
    if (chosen >= 0 && rule->action == RESPOND_BAD_ACCEPT)
        rule = &normal; /* that is for upgrades */
    if (rule != &normal)
        respond_tally_add(&loop->tally.actions[rule->action], 1);
    respond_tally_add(answers(rule->action) ? &loop->tally.responses : &loop->tally.unanswered, 1);
    if (loop->settings->room)
        return respond_room_say(loop, conn, opcode, text, len, rule->action);
    return echo(conn->ws, opcode, text, len, rule);
}

/* ---- frames ---------------------------------------------------------------------------------- */

struct frame {
    unsigned opcode;
    bool fin;
    unsigned char *payload; /* unmasked in place */
    size_t len;
};

/* A frame at the start of data: its bytes, 0: not whole. *out_code: what is wrong with it. */
static size_t read_frame(unsigned char *data, size_t len, struct frame *out, unsigned *out_code)
{
    uint64_t payload;
    size_t at = 2;
    unsigned wide;

    if (len < 2)
        return 0;
    payload = data[1] & 0x7f;
    wide = payload == 127 ? 8 : payload == 126 ? 2 : 0;
    out->opcode = data[0] & 0x0f;
    out->fin = (data[0] & FIN) != 0;
    if ((data[1] & 0x80) == 0 || (data[0] & 0x70) != 0 ||
        (out->opcode >= CLOSE && (payload > 125 || !out->fin)) || out->opcode > PONG ||
        (out->opcode > BINARY && out->opcode < CLOSE)) {
        *out_code = 1002;
        return 0;
    }
    if (len < at + wide)
        return 0;
    if (wide > 0)
        payload = 0;
    for (unsigned i = 0; i < wide; i++)
        payload = payload << 8 | data[at++];
    if (payload > RESPOND_WS_MESSAGE_MAX) {
        *out_code = 1009;
        return 0;
    }
    if (len < at + 4 + payload)
        return 0;
    out->payload = data + at + 4;
    out->len = (size_t)payload;
    for (size_t i = 0; i < out->len; i++)
        out->payload[i] ^= data[at + (i & 3)];
    return at + 4 + out->len;
}

static bool is_text(const unsigned char *text, size_t len)
{
    while (len > 0) {
        size_t n = *text == 0 ? 1 : ls_utf8_char_len(text, len); /* NUL is a character here */

        if (n == 0)
            return false;
        text += n;
        len -= n;
    }
    return true;
}

/* *out_code: what is wrong with it. */
static bool take_data(struct respond_loop *loop, struct respond_conn *conn,
                      const struct frame *frame, unsigned *out_code)
{
    struct respond_ws *ws = conn->ws;
    bool whole = frame->fin && ws->opcode == 0;
    unsigned char *text = frame->payload;
    size_t len = frame->len;
    bool ok = true;

    if ((frame->opcode == CONTINUATION) != (ws->opcode != 0)) {
        *out_code = 1002;
        return true;
    }
    if (frame->opcode != CONTINUATION)
        ws->opcode = frame->opcode;
    if (!whole) {
        if (!respond_bytes_add(&ws->message, text, len))
            return false;
        text = ws->message.data + ws->message.at;
        len = ws->message.len - ws->message.at;
        if (len > RESPOND_WS_MESSAGE_MAX)
            *out_code = 1009;
    }
    if (!frame->fin || *out_code != 0)
        return true;
    if (ws->opcode == TEXT && !is_text(text, len))
        *out_code = 1007;
    else
        ok = take_message(loop, conn, ws->opcode, text, len);
    ws->opcode = 0;
    ws->message.at = ws->message.len = 0;
    return ok;
}

static bool take_frame(struct respond_loop *loop, struct respond_conn *conn,
                       const struct frame *frame, unsigned *out_code)
{
    struct respond_ws *ws = conn->ws;

    switch (frame->opcode) {
    case CLOSE:
        ws->closing = true;
        respond_tally_add(&loop->tally.closes, 1);
        return respond_ws_add_frame(&ws->out, FIN | CLOSE, frame->payload, frame->len);
    case PING:
        return respond_ws_add_frame(&ws->out, FIN | PONG, frame->payload, frame->len);
    case PONG:
        respond_tally_add(&loop->tally.pongs, 1);
        return true;
    default:
        return take_data(loop, conn, frame, out_code);
    }
}

bool respond_ws_take(struct respond_loop *loop, struct respond_conn *conn,
                     const unsigned char *data, size_t len)
{
    struct respond_ws *ws = conn->ws;
    unsigned code = 0;
    bool ok = respond_bytes_add(&ws->in, data, len);

    while (ok && !ws->closing) {
        struct frame frame;
        size_t n = read_frame(ws->in.data + ws->in.at, ws->in.len - ws->in.at, &frame, &code);

        if (n > 0)
            ok = take_frame(loop, conn, &frame, &code);
        if (ok && code != 0) {
            respond_tally_add(&loop->tally.bad_requests, 1);
            ok = say_close(ws, code);
        }
        if (n == 0)
            break;
        ws->in.at += n;
    }
    if (ws->closing)
        ws->in.at = ws->in.len = 0; /* nobody listens any more */
    return ok;
}

bool respond_ws_has_room(const struct respond_conn *conn)
{
    return conn->ws->out.len - conn->ws->out.at < RESPOND_WS_OUT_MAX;
}

bool respond_ws_flush(struct respond_loop *loop, struct respond_conn *conn, bool *out_over)
{
    struct respond_ws *ws = conn->ws;

    conn->blocked = false;
    while (ws->out.at < ws->out.len) {
        ssize_t n = respond_conn_send(conn, ws->out.data + ws->out.at, ws->out.len - ws->out.at);

        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (n <= 0) {
            conn->blocked = true;
            return true;
        }
        respond_tally_add(&loop->tally.bytes_out, (uint64_t)n);
        ws->out.at += (size_t)n;
    }
    *out_over = ws->closing;
    return true;
}
