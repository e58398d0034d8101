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
    ws_deflate_destroy(c->deflate);
    c->deflate = NULL;
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

static enum ls_err bad_frame(struct ws_conn *c)
{
    struct agent_reply reply = { .outcome = LOAD_BAD_FRAMING,
                                 .body_bytes = c->got,
                                 .why = c->reader.why };

    return ws_break_off(c, (enum ws_close_code)c->reader.code, &reply);
}

static enum ls_err take_close(struct ws_conn *c)
{
    uint16_t code = ws_close_code_read(c->reader.control, c->reader.control_len);
    struct agent_reply reply = { .outcome = LOAD_BAD_FRAMING,
                                 .why = "a close frame with a code or a text that may not be" };

    if (code == 0)
        return ws_break_off(c, WS_CLOSE_PROTOCOL, &reply);
    c->closed_with = code;
    if (c->leaving)
        return LS_ECLOSED; /* the answer to ours */
    c->env->messages->closes++;
    if (c->env->messages->close_code == 0)
        c->env->messages->close_code = code;
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

/* ---- frames ---------------------------------------------------------------------------------- */

/* Up to the next message's or control frame's end. *asked: how many answers may come. */
static enum ls_err take_frame(struct ws_conn *c, struct ls_bytes *in, uint32_t *asked)
{
    struct ls_bytes piece;
    enum ws_step step;

    if (c->room != NULL) {
        if (LS_LIKELY(ws_room_at_once(c, in)))
            return LS_OK;
    } else if (LS_LIKELY(*asked > 0) && LS_LIKELY(ws_answer_at_once(c, in))) {
        (*asked)--;
        return LS_OK;
    }
    step = ws_read(&c->reader, in, &piece);
    if (!c->begun && (step == WS_PIECE || step == WS_MESSAGE_END))
        ws_answer_begin(c, *asked > 0);
    switch (step) {
    case WS_PIECE:
        return ws_take_piece(c, piece);
    case WS_MESSAGE_END:
        *asked -= c->room == NULL && c->asked;
        return ws_take_end(c, in->len > 0);
    case WS_CONTROL:
        return take_control(c);
    case WS_BAD:
        return bad_frame(c);
    case WS_MORE:
        break;
    }
    return LS_OK;
}

/* As agreed. False: no memory. */
static bool set_up_deflate(struct ws_conn *c, const struct ws_agreement *agreement)
{
    c->reader.may_compress = agreement->deflate;
    c->takeover = agreement->server_takeover;
    return !agreement->deflate ||
           ws_deflate_create(c->env->workload->requests[0].bytes.len, &c->deflate) == LS_OK;
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

    while (c->count > 0)
        ws_finish(c, &fine);
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
        if (!set_up_deflate(c, &agreement))
            return LS_EPROTO; /* no memory: it is closed, and tried again */
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
        ws_finish(c, &reply);
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

    if (how == LOAD_RESET && c->closed_with != 0)
        how = LOAD_CLOSED_EARLY; /* our answer came too late for it: it had said goodbye */

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
        ws_finish(c, &reply);
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
