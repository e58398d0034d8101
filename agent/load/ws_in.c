/* What comes in on a connection of WebSocket: answers, compared byte by byte, and what is said in a
 * room. */
#include <string.h>

#include "agent/load/ws_conn.h"

void ws_finish(struct ws_conn *c, const struct agent_reply *reply)
{
    uint32_t op = ws_ring_at(c, 0)->op;

    c->first = c->first + 1 < c->cap ? c->first + 1 : 0;
    c->count--;
    if (c->unsent > c->count)
        c->unsent = c->count; /* it had not been sent */
    c->begun = false;
    c->env->done(c->env->ctx, op, reply);
}

enum ls_err ws_break_off(struct ws_conn *c, enum ws_close_code code,
                         const struct agent_reply *reply)
{
    ws_send_close(c, (uint16_t)code);
    c->over = true;
    c->broke = reply->why;
    c->env->messages->lost += c->count > c->unsent;
    if (c->count > 0 && c->room == NULL)
        ws_finish(c, reply);
    return LS_EPROTO;
}

static unsigned data_opcode(const struct ws_conn *c)
{
    return c->websocket->binary ? WS_BINARY : WS_TEXT;
}

bool ws_answer_at_once(struct ws_conn *c, struct ls_bytes *in)
{
    const struct ws_op *op = ws_ring_at(c, 0);
    const struct load_request *request = ws_request_of(c, op);
    struct agent_reply reply = { .outcome = LOAD_OK, .why = "" };
    const unsigned char *data;
    size_t at, len, skip = 0;

    if (!ws_reader_is_idle(&c->reader) || !request->expect_body_given ||
        !ws_whole(*in, WS_FIN | data_opcode(c), &at, &len) || len != request->expect_body.len)
        return false;
    data = in->data + at;
    if (c->websocket->numbered) {
        unsigned char number[WS_NUMBER_BYTES];

        ws_put_number(number, op->number);
        skip = WS_NUMBER_BYTES;
        if (memcmp(data, number, WS_NUMBER_BYTES) != 0)
            return false;
    }
    if (memcmp(data + skip, request->expect_body.data + skip, len - skip) != 0)
        return false;
    in->data += at + len;
    in->len -= at + len;
    reply.body_bytes = len;
    reply.more = in->len > 0;
    c->env->messages->received++;
    ws_finish(c, &reply);
    return true;
}

void ws_answer_begin(struct ws_conn *c, bool asked)
{
    c->begun = true;
    c->asked = asked;
    c->got = c->mismatch_at = 0;
    c->differs = false;
    c->utf8 = 0;
    if (asked && c->websocket->numbered)
        ws_put_number(c->expected_number, ws_ring_at(c, 0)->number);
}

/* How many bytes of got are as they have to be from expect on. */
static size_t same_bytes(const unsigned char *got, const unsigned char *expect, size_t len)
{
    size_t same = 0;

    if (memcmp(got, expect, len) == 0)
        return len;
    while (got[same] == expect[same])
        same++;
    return same;
}

static void compare(struct ws_conn *c, struct ls_bytes piece)
{
    const struct load_request *request = ws_request_of(c, ws_ring_at(c, 0));
    size_t at = (size_t)c->got;

    while (piece.len > 0 && !c->differs) {
        const unsigned char *expect = request->expect_body.data + at;
        size_t n = request->expect_body.len - at;
        size_t same;

        if (c->websocket->numbered && at < WS_NUMBER_BYTES) {
            expect = c->expected_number + at;
            n = WS_NUMBER_BYTES - at;
        }
        if (n > piece.len)
            n = piece.len;
        same = n > 0 ? same_bytes(piece.data, expect, n) : 0;
        at += same;
        c->differs = same < n || n == 0;
        c->mismatch_at = at;
        piece.data += n;
        piece.len -= n;
    }
}

static enum ls_err answer_piece(struct ws_conn *c, struct ls_bytes piece)
{
    static const struct agent_reply no_text = { .outcome = LOAD_BAD_FRAMING,
                                                .why = "a text message is not UTF-8" };

    if (c->reader.type == WS_TEXT)
        c->utf8 = ws_utf8_check(c->utf8, piece);
    if (c->utf8 == WS_UTF8_BAD)
        return ws_break_off(c, WS_CLOSE_BAD_TEXT, &no_text);
    if (c->asked && !c->differs && ws_request_of(c, ws_ring_at(c, 0))->expect_body_given)
        compare(c, piece);
    c->got += piece.len;
    return LS_OK;
}

static struct agent_reply judge(struct ws_conn *c)
{
    const struct load_request *request = ws_request_of(c, ws_ring_at(c, 0));
    struct agent_reply reply = { .outcome = LOAD_OK, .body_bytes = c->got, .why = "" };

    if (c->reader.type != data_opcode(c)) {
        reply.outcome = LOAD_BAD_BODY;
        reply.why = c->websocket->binary ? "a text message answers a binary one"
                                         : "a binary message answers a text";
    } else if (c->differs) {
        reply.outcome = LOAD_BAD_BODY;
        reply.mismatch_at = c->mismatch_at;
        reply.why = c->mismatch_at == request->expect_body.len
                        ? "the message is longer than expected"
                        : "the message differs";
    } else if (request->expect_body_given && c->got < request->expect_body.len) {
        reply.outcome = LOAD_BAD_BODY;
        reply.mismatch_at = c->got;
        reply.why = "the message is shorter than expected";
    }
    return reply;
}

static enum ls_err answer_end(struct ws_conn *c, bool more)
{
    static const struct agent_reply cut = { .outcome = LOAD_BAD_FRAMING,
                                            .why = "a text message ends within a character" };
    struct agent_reply reply;

    if (c->reader.type == WS_TEXT && c->utf8 != 0)
        return ws_break_off(c, WS_CLOSE_BAD_TEXT, &cut);
    if (!c->asked) {
        c->begun = false;
        c->env->messages->duplicated++;
        return LS_OK;
    }
    c->env->messages->received++;
    reply = judge(c);
    reply.more = more;
    ws_finish(c, &reply);
    return LS_OK;
}

/* ---- room ------------------------------------------------------------------------------------ */

static void hear(struct ws_conn *c, unsigned opcode, struct ls_bytes text)
{
    const struct ls_bytes ready = c->websocket->room->ready;

    if (opcode == data_opcode(c) && ws_room_hear(c->room, c->me, text))
        return;
    if (opcode == WS_TEXT && text.len == ready.len && memcmp(text.data, ready.data, ready.len) == 0)
        c->invited = true; /* perhaps again: somebody has come back */
    else
        c->env->messages->corrupted++;
}

/* All have said their last word, so that we may go. */
static void go_if_complete(struct ws_conn *c)
{
    if (c->last_said && ws_room_is_complete(c->room, c->me))
        ws_send_close(c, WS_CLOSE_NORMAL);
}

static enum ls_err room_piece(struct ws_conn *c, struct ls_bytes piece)
{
    size_t kept = c->got < c->text_max ? (size_t)c->got : c->text_max;
    size_t left = c->text_max - kept;

    memcpy(c->text + kept, piece.data, piece.len < left ? piece.len : left);
    if (c->reader.type == WS_TEXT)
        c->utf8 = ws_utf8_check(c->utf8, piece);
    c->got += piece.len;
    return LS_OK;
}

static enum ls_err room_message(struct ws_conn *c)
{
    static const struct agent_reply no_text = { .outcome = LOAD_BAD_FRAMING,
                                                .why = "a text message is not UTF-8" };

    c->begun = false;
    if (c->reader.type == WS_TEXT && c->utf8 != 0)
        return ws_break_off(c, WS_CLOSE_BAD_TEXT, &no_text);
    if (c->got > c->text_max)
        c->env->messages->corrupted++;
    else
        hear(c, c->reader.type, (struct ls_bytes){ c->text, (size_t)c->got });
    go_if_complete(c);
    return LS_OK;
}

bool ws_room_at_once(struct ws_conn *c, struct ls_bytes *in)
{
    size_t at, len;

    if (!ws_reader_is_idle(&c->reader) || !ws_whole(*in, WS_FIN | data_opcode(c), &at, &len) ||
        !ws_room_hear(c->room, c->me, (struct ls_bytes){ in->data + at, len }))
        return false;
    in->data += at + len;
    in->len -= at + len;
    if (LS_UNLIKELY(c->last_said))
        go_if_complete(c);
    return true;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Of a message as it was before it was compressed. */
static enum ls_err plain_piece(void *conn, struct ls_bytes piece)
{
    static const struct agent_reply too_much = {
        .outcome = LOAD_BAD_FRAMING, .why = "a compressed message beyond all expectation"
    };
    struct ws_conn *c = conn;

    if (c->got + piece.len > c->reader.limit)
        return ws_break_off(c, WS_CLOSE_TOO_BIG, &too_much);
    return c->room != NULL ? room_piece(c, piece) : answer_piece(c, piece);
}

static enum ls_err inflated(struct ws_conn *c, enum ls_err rc)
{
    static const struct agent_reply broken = { .outcome = LOAD_BAD_FRAMING,
                                               .why = "a message is not well compressed" };

    /* What a piece broke off has been said already. */
    return rc == LS_EPROTO && c->broke == NULL ? ws_break_off(c, WS_CLOSE_BAD_TEXT, &broken) : rc;
}

enum ls_err ws_take_piece(struct ws_conn *c, struct ls_bytes piece)
{
    if (LS_UNLIKELY(c->reader.compressed))
        return inflated(c, ws_inflate_piece(c->deflate, piece, plain_piece, c));
    return plain_piece(c, piece);
}

enum ls_err ws_take_end(struct ws_conn *c, bool more)
{
    enum ls_err rc = LS_OK;

    if (LS_UNLIKELY(c->reader.compressed))
        rc = inflated(c, ws_inflate_end(c->deflate, c->takeover, plain_piece, c));
    if (rc != LS_OK)
        return rc;
    return c->room != NULL ? room_message(c) : answer_end(c, more);
}
