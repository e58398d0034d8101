/* agent/load/drivers/websocket.c - WebSocket (RFC 6455): messages out, masked, and their answers
 * in, in order. Every answer is compared byte for byte. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/ws_conn.h"
#include "agent/load/ws_handshake.h"

#define PIPELINE_MAX 4096u
#define ANSWER_LEAST (1u << 20) /* a longer answer is beyond expectation, but may come */

/* ---- life ------------------------------------------------------------------------------------ */

static enum ls_err ws_check(const struct load_workload *workload, struct ls_diag *diag)
{
    const struct load_websocket *websocket = workload->websocket;

    if (workload->request_count == 0 || websocket == NULL)
        return ls_fail(diag, LS_EINVAL, "websocket needs a message to send");
    if (workload->pipeline < 1 || workload->pipeline > PIPELINE_MAX)
        return ls_fail(diag, LS_ERANGE, "pipeline %" PRIu32 " is outside 1 to %u",
                       workload->pipeline, PIPELINE_MAX);
    if (websocket->handshake.len < websocket->key_at + WS_KEY_BYTES)
        return ls_fail(diag, LS_EINVAL, "websocket: the handshake has no place for its key");
    for (uint32_t i = 0; i < workload->request_count; i++) {
        if ((websocket->numbered || websocket->room != NULL) &&
            workload->requests[i].bytes.len < WS_NUMBER_BYTES)
            return ls_fail(diag, LS_EINVAL, "%s: no room for its number",
                           workload->requests[i].label);
    }
    return LS_OK;
}

static enum ls_err ws_share(const struct agent_driver_env *env, uint32_t connections,
                            void **out_shared, struct ls_diag *diag)
{
    struct ws_room *room = NULL;
    enum ls_err rc;

    if (env->workload->websocket->room == NULL)
        return LS_OK;
    rc = ws_room_create(env, connections, &room, diag);
    if (rc == LS_OK)
        *out_shared = room;
    return rc;
}

static void ws_unshare(void *shared)
{
    ws_room_destroy(shared);
}

static void ws_balance(void *shared)
{
    ws_room_balance(shared);
}

static uint64_t longest_answer(const struct load_workload *workload)
{
    uint64_t longest = ANSWER_LEAST;

    for (uint32_t i = 0; i < workload->request_count; i++) {
        if (workload->requests[i].expect_body.len > longest)
            longest = workload->requests[i].expect_body.len;
    }
    return 2 * longest;
}

static enum ls_err ws_open(void *conn, const struct agent_driver_env *env,
                           uint32_t *out_max_in_flight)
{
    struct ws_conn *c = conn;
    uint64_t key[2] = { ls_rng_next(env->rng), ls_rng_next(env->rng) };
    unsigned char bytes[16];

    c->env = env;
    c->websocket = env->workload->websocket;
    c->room = env->shared;
    c->cap = env->workload->pipeline;
    c->reader.limit = longest_answer(env->workload);
    c->ring = c->cap == 1 ? &c->one : calloc(c->cap, sizeof(*c->ring));
    memcpy(bytes, key, sizeof(bytes));
    if (c->room != NULL) {
        c->me = (uint32_t)(env->number / env->workload->workers_total);
        c->text_max = ws_room_longest(env->workload);
        c->text = malloc(c->text_max + 1);
    }
    if (c->ring == NULL || (c->room != NULL && c->text == NULL) ||
        ws_handshake_create(c->websocket, env->number, bytes, &c->handshake) != LS_OK)
        return LS_ENOMEM;
    *out_max_in_flight = c->cap;
    return LS_OK;
}

static void ws_close(void *conn)
{
    struct ws_conn *c = conn;

    if (c->ring != &c->one)
        free(c->ring);
    c->ring = NULL;
    free(c->handshake);
    c->handshake = NULL;
    free(c->text);
    c->text = NULL;
    c->over = true;
    c->count = c->unsent = 0;
    c->control_len = 0;
    if (c->room != NULL)
        ws_room_part(c->room, c->me);
}

static enum agent_greeting ws_greeting(const void *conn)
{
    const struct ws_conn *c = conn;

    if (!c->agreed)
        return AGENT_GREETS;
    return c->room == NULL || c->invited ? AGENT_READY : AGENT_WAITS;
}

static enum ls_err ws_submit(void *conn, uint32_t op, uint64_t request)
{
    struct ws_conn *c = conn;
    struct ws_op *slot;

    if (c->over || c->leaving)
        return LS_ESTATE;
    if (c->count == c->cap)
        return LS_EAGAIN;
    slot = ws_ring_at(c, c->count);
    slot->op = op;
    slot->request = load_workload_turn(c->env->workload, request).request;
    slot->number = request;
    c->count++;
    c->unsent++;
    return LS_OK;
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Ends the oldest operation. The state is consistent before done(), which may call back. */
static void finish(struct ws_conn *c, const struct agent_reply *reply)
{
    uint32_t op = ws_ring_at(c, 0)->op;

    c->first = c->first + 1 < c->cap ? c->first + 1 : 0;
    c->count--;
    c->begun = false;
    c->env->done(c->env->ctx, op, reply);
}

/* The peer broke the rules. What is at fault, if anything, is the oldest operation. */
static enum ls_err break_off(struct ws_conn *c, enum ws_close_code code,
                             const struct agent_reply *reply)
{
    ws_send_close(c, (uint16_t)code);
    c->over = true;
    c->broke = reply->why;
    c->env->messages->lost += c->count > c->unsent;
    if (c->count > 0 && c->room == NULL)
        finish(c, reply);
    return LS_EPROTO;
}

static enum ls_err bad_frame(struct ws_conn *c)
{
    struct agent_reply reply = { .outcome = LOAD_BAD_FRAMING,
                                 .body_bytes = c->got,
                                 .why = c->reader.why };

    return break_off(c, (enum ws_close_code)c->reader.code, &reply);
}

static unsigned data_opcode(const struct ws_conn *c)
{
    return c->websocket->binary ? WS_BINARY : WS_TEXT;
}

/* The common case in one step: a whole frame with what is expected. False: nothing has happened,
 * and the reader has to find out. */
static bool answer_at_once(struct ws_conn *c, struct ls_bytes *in)
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
    finish(c, &reply);
    return true;
}

static void answer_begin(struct ws_conn *c, bool asked)
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

static enum ls_err take_piece(struct ws_conn *c, struct ls_bytes piece)
{
    static const struct agent_reply no_text = { .outcome = LOAD_BAD_FRAMING,
                                                .why = "a text message is not UTF-8" };

    if (c->reader.type == WS_TEXT)
        c->utf8 = ws_utf8_check(c->utf8, piece);
    if (c->utf8 == WS_UTF8_BAD)
        return break_off(c, WS_CLOSE_BAD_TEXT, &no_text);
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

static enum ls_err message_done(struct ws_conn *c, bool more)
{
    static const struct agent_reply cut = { .outcome = LOAD_BAD_FRAMING,
                                            .why = "a text message ends within a character" };
    struct agent_reply reply;

    if (c->reader.type == WS_TEXT && c->utf8 != 0)
        return break_off(c, WS_CLOSE_BAD_TEXT, &cut);
    if (!c->asked) {
        c->begun = false;
        c->env->messages->duplicated++;
        return LS_OK;
    }
    c->env->messages->received++;
    reply = judge(c);
    reply.more = more;
    finish(c, &reply);
    return LS_OK;
}

static enum ls_err take_close(struct ws_conn *c)
{
    uint16_t code = ws_close_code_read(c->reader.control, c->reader.control_len);
    struct agent_reply reply = { .outcome = LOAD_BAD_FRAMING,
                                 .why = "a close frame with a code or a text that may not be" };

    if (code == 0)
        return break_off(c, WS_CLOSE_PROTOCOL, &reply);
    c->closed_with = code;
    c->env->messages->closes++;
    if (c->env->messages->close_code == 0)
        c->env->messages->close_code = code;
    if (c->leaving)
        return LS_ECLOSED; /* the answer to ours */
    ws_send_close(c, code);
    return LS_OK;
}

static enum ls_err take_control(struct ws_conn *c)
{
    if (c->reader.opcode == WS_CLOSE)
        return take_close(c);
    if (c->reader.opcode == WS_PING) {
        c->env->messages->pings++;
        ws_send_control(c, WS_PONG, c->reader.control, c->reader.control_len);
    }
    return LS_OK; /* a pong that nobody asked for is fine */
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
        return break_off(c, WS_CLOSE_BAD_TEXT, &no_text);
    if (c->got > c->text_max)
        c->env->messages->corrupted++;
    else
        hear(c, c->reader.type, (struct ls_bytes){ c->text, (size_t)c->got });
    go_if_complete(c);
    return LS_OK;
}

/* The common case in one step, as in answer_at_once(). */
static bool room_at_once(struct ws_conn *c, struct ls_bytes *in)
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

/* ---- frames ---------------------------------------------------------------------------------- */

/* Up to the next message's or control frame's end. *asked: how many answers may come. */
static enum ls_err take_frame(struct ws_conn *c, struct ls_bytes *in, uint32_t *asked)
{
    struct ls_bytes piece;
    enum ws_step step;

    if (c->room != NULL) {
        if (LS_LIKELY(room_at_once(c, in)))
            return LS_OK;
    } else if (LS_LIKELY(*asked > 0) && LS_LIKELY(answer_at_once(c, in))) {
        (*asked)--;
        return LS_OK;
    }
    step = ws_read(&c->reader, in, &piece);
    if (!c->begun && (step == WS_PIECE || step == WS_MESSAGE_END))
        answer_begin(c, *asked > 0);
    switch (step) {
    case WS_PIECE:
        return c->room != NULL ? room_piece(c, piece) : take_piece(c, piece);
    case WS_MESSAGE_END:
        if (c->room != NULL)
            return room_message(c);
        *asked -= c->asked;
        return message_done(c, in->len > 0);
    case WS_CONTROL:
        return take_control(c);
    case WS_BAD:
        return bad_frame(c);
    case WS_MORE:
        break;
    }
    return LS_OK;
}

/* It hears from now on, and says something as soon as the server calls all of them ready. */
static void join(struct ws_conn *c)
{
    c->invited = c->websocket->room->ready.len == 0;
    ws_room_join(c->room, c->me);
}

/* A probe of a room has no room: that it would be let in is all that can be asked of it. */
static void end_probe(struct ws_conn *c)
{
    static const struct agent_reply fine = { .outcome = LOAD_OK, .status = 101, .why = "" };

    while (c->count > 0) {
        c->unsent--;
        finish(c, &fine);
    }
}

/* LS_OK: it is over, in whatever way that can be gone on from. */
static enum ls_err take_handshake(struct ws_conn *c, struct ls_bytes *in)
{
    struct ws_agreement agreement;
    struct agent_reply reply;

    switch (ws_handshake_take(c->handshake, c->websocket, in, &agreement)) {
    case WS_SHAKE_MORE:
        return LS_OK;
    case WS_SHAKE_DONE:
        free(c->handshake);
        c->handshake = NULL;
        c->agreed = true;
        if (c->websocket->room != NULL && c->room == NULL)
            end_probe(c);
        if (c->room != NULL)
            join(c);
        return LS_OK;
    case WS_SHAKE_BAD:
        break;
    }
    c->over = true;
    reply = (struct agent_reply){ .outcome = agreement.outcome,
                                  .status = agreement.status,
                                  .why = agreement.why };
    if (c->count > 0)
        finish(c, &reply);
    return LS_EPROTO;
}

static enum ls_err ws_feed(void *conn, struct ls_bytes in)
{
    struct ws_conn *c = conn;
    /* These bytes can only answer what was asked before they came, whatever done() adds. */
    uint32_t asked = c->room == NULL ? c->count - c->unsent : 0;
    enum ls_err rc = LS_OK;

    if (c->over)
        return LS_ECLOSED;
    if (c->handshake != NULL)
        rc = take_handshake(c, &in);
    while (rc == LS_OK && (in.len > 0 || ws_reader_is_ending(&c->reader)) && !c->over &&
           c->closed_with == 0)
        rc = take_frame(c, &in, &asked);
    if (rc == LS_OK && c->over)
        return LS_ECLOSED; /* done() closed it */
    return rc == LS_OK && c->control_len > 0 ? LS_EAGAIN : rc;
}

/* ---- the end --------------------------------------------------------------------------------- */

static const char *why_ended(const struct ws_conn *c, enum load_outcome how)
{
    switch (how) {
    case LOAD_TIMEOUT:
        return "no complete answer in time";
    case LOAD_RESET:
        return "reset by the peer";
    case LOAD_CLOSED_EARLY:
        return ws_close_words(c->closed_with);
    case LOAD_TLS_ERROR:
        return "TLS failed";
    default:
        return c->broke != NULL ? c->broke : "given up";
    }
}

static bool ws_part(void *conn)
{
    struct ws_conn *c = conn;

    if (c->over || c->leaving || c->handshake != NULL)
        return false;
    ws_send_close(c, WS_CLOSE_NORMAL);
    return c->control_len > 0;
}

static bool ws_leave(void *conn)
{
    struct ws_conn *c = conn;

    /* Messages of other workers may be on their way to us. */
    if (c->room != NULL && c->env->workload->workers_total > 1) {
        c->last_due = true;
        return true;
    }
    ws_send_close(c, WS_CLOSE_NORMAL);
    return false;
}

static void ws_eof(void *conn, enum load_outcome how)
{
    struct ws_conn *c = conn;
    uint64_t got = c->begun ? c->got : 0;

    c->over = true;
    /* A farewell may still go, unless a frame has been cut. */
    if (!c->leaving || c->out.head_at < c->out.head_len || c->out.at < c->out.frame_end)
        c->control_len = 0;
    c->out = (struct ws_sending){ .head_len = 0 };
    c->env->messages->lost += c->count - c->unsent;
    if (c->room != NULL)
        ws_room_forget(c->room, c->me,
                       &(struct agent_reply){ .outcome = how, .why = why_ended(c, how) });
    while (c->count > 0) {
        struct agent_reply reply = { .outcome = how, .body_bytes = got, .why = why_ended(c, how) };

        got = 0;
        finish(c, &reply);
    }
}

extern const struct agent_driver agent_driver_websocket;

const struct agent_driver agent_driver_websocket = {
    .name = "websocket",
    .conn_size = sizeof(struct ws_conn),
    .check = ws_check,
    .share = ws_share,
    .unshare = ws_unshare,
    .balance = ws_balance,
    .open = ws_open,
    .submit = ws_submit,
    .greeting = ws_greeting,
    .feed = ws_feed,
    .drain = ws_drain,
    .eof = ws_eof,
    .leave = ws_leave,
    .part = ws_part,
    .close = ws_close,
};
