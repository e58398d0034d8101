/* agent/load/drivers/websocket.c - WebSocket (RFC 6455): messages out, masked, and their answers
 * in, in order. Every answer is compared byte for byte. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/driver.h"
#include "agent/load/ws_frame.h"
#include "agent/load/ws_handshake.h"

#define PIPELINE_MAX 4096u
#define ANSWER_LEAST (1u << 20) /* a longer answer is beyond expectation, but may come */
#define CONTROL_OUT  (WS_HEAD_MAX + WS_CONTROL_MAX)
#define NUMBER_BYTES LOAD_WS_NUMBER_BYTES

struct op {
    uint32_t op;
    uint32_t request; /* index into the workload's requests */
    uint64_t number;  /* of the load */
};

/* The message that is being sent, frame by frame. */
struct sending {
    struct ls_bytes payload; /* of the message; its first bytes are number if that is set */
    size_t at;               /* of payload: what has been sent */
    size_t frame_start;      /* of payload: of the frame under way ... */
    size_t frame_end;
    uint8_t head_len;
    uint8_t head_at;
    unsigned char head[WS_HEAD_MAX];
    unsigned char mask[4];
    unsigned char number[NUMBER_BYTES];
};

struct ws_conn {
    const struct agent_driver_env *env;
    const struct load_websocket *websocket;
    struct ws_handshake *handshake; /* owned; as long as it is under way */

    /* Operations without an answer: count of them from first on, the last unsent of which have not
     * begun to be sent. */
    struct op *ring; /* &one, or owned; NULL: closed */
    struct op one;
    uint32_t cap;
    uint32_t first;
    uint32_t count;
    uint32_t unsent;
    struct sending out;

    bool over;    /* takes nothing more; eof() reports what is left */
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
    unsigned char expected_number[NUMBER_BYTES];
    struct ws_reader reader;
    unsigned char control[CONTROL_OUT];
};

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
        if (websocket->numbered && workload->requests[i].bytes.len < NUMBER_BYTES)
            return ls_fail(diag, LS_EINVAL, "%s: no room for its number",
                           workload->requests[i].label);
    }
    return LS_OK;
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
    c->cap = env->workload->pipeline;
    c->reader.limit = longest_answer(env->workload);
    c->ring = c->cap == 1 ? &c->one : calloc(c->cap, sizeof(*c->ring));
    memcpy(bytes, key, sizeof(bytes));
    if (c->ring == NULL ||
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
    c->over = true;
    c->count = c->unsent = 0;
    c->control_len = 0;
}

static enum agent_greeting ws_greeting(const void *conn)
{
    const struct ws_conn *c = conn;

    return c->agreed ? AGENT_READY : AGENT_GREETS;
}

static struct op *ring_at(struct ws_conn *c, uint32_t i)
{
    uint32_t at = c->first + i; /* both are below PIPELINE_MAX */

    return &c->ring[at < c->cap ? at : at - c->cap];
}

static const struct load_request *request_of(const struct ws_conn *c, const struct op *op)
{
    return &c->env->workload->requests[op->request];
}

static enum ls_err ws_submit(void *conn, uint32_t op, uint64_t request)
{
    struct ws_conn *c = conn;
    struct op *slot;

    if (c->over || c->leaving)
        return LS_ESTATE;
    if (c->count == c->cap)
        return LS_EAGAIN;
    slot = ring_at(c, c->count);
    slot->op = op;
    slot->request = load_workload_turn(c->env->workload, request).request;
    slot->number = request;
    c->count++;
    c->unsent++;
    return LS_OK;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* Sixteen hexadecimal digits. */
static void put_number(unsigned char out[NUMBER_BYTES], uint64_t number)
{
    static const unsigned char digits[16] = "0123456789abcdef";

    for (unsigned i = 0; i < NUMBER_BYTES; i++)
        out[i] = digits[number >> (60 - 4 * i) & 15];
}

/* The next frame of the message under way. first: of the message. */
static void frame_begin(struct ws_conn *c, bool first)
{
    struct sending *s = &c->out;
    size_t left = s->payload.len - s->at;
    size_t part = c->websocket->fragment_bytes;
    uint64_t mask = ls_rng_next(c->env->rng);
    unsigned flags = first ? c->websocket->binary ? WS_BINARY : WS_TEXT : WS_CONTINUATION;

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

static void message_begin(struct ws_conn *c)
{
    const struct op *op = ring_at(c, c->count - c->unsent);
    struct sending *s = &c->out;

    s->payload = request_of(c, op)->bytes;
    s->at = 0;
    if (c->websocket->numbered)
        put_number(s->number, op->number);
    c->unsent--;
    c->env->messages->sent++;
    c->env->messages->expected++;
    frame_begin(c, true);
}

/* Up to n bytes of the frame's payload, masked. */
static size_t put_payload(struct ws_conn *c, unsigned char *out, size_t n)
{
    struct sending *s = &c->out;
    size_t done = 0;

    if (n > s->frame_end - s->at)
        n = s->frame_end - s->at;
    while (done < n) {
        const unsigned char *from = s->payload.data + s->at;
        size_t part = n - done;

        if (c->websocket->numbered && s->at < NUMBER_BYTES) {
            from = s->number + s->at;
            if (part > NUMBER_BYTES - s->at)
                part = NUMBER_BYTES - s->at;
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
    struct sending *s = &c->out;
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

static size_t ws_drain(void *conn, uint8_t *out, size_t cap, uint32_t *out_ops)
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
        } else {
            break;
        }
    }
    return len;
}

/* A control frame, in the place of one that has not been begun: of several pings the latest is
 * answered, and nothing follows a close frame. */
static void send_control(struct ws_conn *c, enum ws_opcode opcode, const unsigned char *payload,
                         size_t len)
{
    uint64_t random = ls_rng_next(c->env->rng);
    unsigned char mask[4];
    size_t head;

    if (c->leaving || c->control_at > 0)
        return;
    memcpy(mask, &random, sizeof(mask));
    head = ws_head_write(c->control, WS_FIN | (unsigned)opcode, len, mask);
    ws_mask(c->control + head, payload, len, mask, 0);
    c->control_len = (uint8_t)(head + len);
    c->leaving = opcode == WS_CLOSE;
}

static void send_close(struct ws_conn *c, uint16_t code)
{
    unsigned char payload[2] = { (unsigned char)(code >> 8), (unsigned char)code };

    send_control(c, WS_CLOSE, payload, code == WS_CLOSE_NONE ? 0 : sizeof(payload));
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Ends the oldest operation. The state is consistent before done(), which may call back. */
static void finish(struct ws_conn *c, const struct agent_reply *reply)
{
    uint32_t op = ring_at(c, 0)->op;

    c->first = c->first + 1 < c->cap ? c->first + 1 : 0;
    c->count--;
    c->begun = false;
    c->env->done(c->env->ctx, op, reply);
}

/* The peer broke the rules. What is at fault, if anything, is the oldest operation. */
static enum ls_err break_off(struct ws_conn *c, enum ws_close_code code,
                             const struct agent_reply *reply)
{
    send_close(c, (uint16_t)code);
    c->over = true;
    c->env->messages->lost += c->count > c->unsent;
    if (c->count > 0)
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
    const struct op *op = ring_at(c, 0);
    const struct load_request *request = request_of(c, op);
    struct agent_reply reply = { .outcome = LOAD_OK, .why = "" };
    const unsigned char *data;
    size_t at, len, skip = 0;

    if (!ws_reader_is_idle(&c->reader) || !request->expect_body_given ||
        !ws_whole(*in, WS_FIN | data_opcode(c), &at, &len) || len != request->expect_body.len)
        return false;
    data = in->data + at;
    if (c->websocket->numbered) {
        unsigned char number[NUMBER_BYTES];

        put_number(number, op->number);
        skip = NUMBER_BYTES;
        if (memcmp(data, number, NUMBER_BYTES) != 0)
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
        put_number(c->expected_number, ring_at(c, 0)->number);
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
    const struct load_request *request = request_of(c, ring_at(c, 0));
    size_t at = (size_t)c->got;

    while (piece.len > 0 && !c->differs) {
        const unsigned char *expect = request->expect_body.data + at;
        size_t n = request->expect_body.len - at;
        size_t same;

        if (c->websocket->numbered && at < NUMBER_BYTES) {
            expect = c->expected_number + at;
            n = NUMBER_BYTES - at;
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
    if (c->asked && !c->differs && request_of(c, ring_at(c, 0))->expect_body_given)
        compare(c, piece);
    c->got += piece.len;
    return LS_OK;
}

static struct agent_reply judge(struct ws_conn *c)
{
    const struct load_request *request = request_of(c, ring_at(c, 0));
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
    send_close(c, code);
    return LS_OK;
}

static enum ls_err take_control(struct ws_conn *c)
{
    if (c->reader.opcode == WS_CLOSE)
        return take_close(c);
    if (c->reader.opcode == WS_PING) {
        c->env->messages->pings++;
        send_control(c, WS_PONG, c->reader.control, c->reader.control_len);
    }
    return LS_OK; /* a pong that nobody asked for is fine */
}

/* Up to the next message's or control frame's end. *asked: how many answers may come. */
static enum ls_err take_frame(struct ws_conn *c, struct ls_bytes *in, uint32_t *asked)
{
    struct ls_bytes piece;
    enum ws_step step;

    if (LS_LIKELY(*asked > 0) && LS_LIKELY(answer_at_once(c, in))) {
        (*asked)--;
        return LS_OK;
    }
    step = ws_read(&c->reader, in, &piece);
    if (!c->begun && (step == WS_PIECE || step == WS_MESSAGE_END))
        answer_begin(c, *asked > 0);
    switch (step) {
    case WS_PIECE:
        return take_piece(c, piece);
    case WS_MESSAGE_END:
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
    uint32_t asked = c->count - c->unsent;
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

static const char *why_closed(uint16_t code)
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

static const char *why_ended(const struct ws_conn *c, enum load_outcome how)
{
    switch (how) {
    case LOAD_TIMEOUT:
        return "no complete answer in time";
    case LOAD_RESET:
        return "reset by the peer";
    case LOAD_CLOSED_EARLY:
        return why_closed(c->closed_with);
    case LOAD_TLS_ERROR:
        return "TLS failed";
    default:
        return "given up";
    }
}

static void ws_eof(void *conn, enum load_outcome how)
{
    struct ws_conn *c = conn;
    uint64_t got = c->begun ? c->got : 0;

    c->over = true;
    c->control_len = 0;
    c->out = (struct sending){ .head_len = 0 };
    c->env->messages->lost += c->count - c->unsent;
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
    .open = ws_open,
    .submit = ws_submit,
    .greeting = ws_greeting,
    .feed = ws_feed,
    .drain = ws_drain,
    .eof = ws_eof,
    .close = ws_close,
};
