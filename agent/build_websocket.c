#include "agent/build_websocket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/http_request.h"

#define KEY_FIELD    "Sec-WebSocket-Key"
#define KEY_PLACE    "AAAAAAAAAAAAAAAAAAAAAA==" /* of the length of any key */
#define NAME         "{name}"
#define OWN_FIELDS   6u
#define MESSAGE_MAX  (16u << 20)
#define FILLER_FIRST 'a'

struct agent_websocket {
    struct load_websocket websocket;
    struct load_room room;
    struct load_request handshake; /* owned: its bytes and label */
    struct load_request message;
    unsigned char *payload; /* owned */
    char *expected;         /* owned; NULL: the payload */
    char *subprotocol;      /* owned */
    char *ready;            /* owned */
    char *delivery;         /* owned */
    char label[96];
};

void agent_websocket_destroy(struct agent_websocket *w)
{
    if (w == NULL)
        return;
    agent_http_request_fini(&w->handshake);
    free(w->payload);
    free(w->expected);
    free(w->subprotocol);
    free(w->ready);
    free(w->delivery);
    free(w);
}

/* ---- the handshake */

static const char *extension_of(const Ls__WebSocket *in)
{
    /* Without takeover on our side one state serves all connections of a worker. */
    return in->deflate->server_takeover
               ? "permessage-deflate; client_no_context_takeover"
               : "permessage-deflate; client_no_context_takeover; server_no_context_takeover";
}

static enum ls_err find_places(struct agent_websocket *w, struct ls_diag *diag)
{
    const char *text = (const char *)w->handshake.bytes.data; /* ends with a NUL: see below */
    const char *key = strstr(text, KEY_FIELD ": " KEY_PLACE "\r\n");
    const char *name = strstr(text, NAME);

    if (key == NULL)
        return ls_fail(diag, LS_EINVAL, "the handshake has lost its key");
    w->websocket.handshake = w->handshake.bytes;
    w->websocket.key_at = (size_t)(key - text) + strlen(KEY_FIELD ": ");
    if (name != NULL && name < strstr(text, "\r\n")) {
        w->websocket.name_at = (size_t)(name - text);
        w->websocket.name_len = strlen(NAME);
    }
    return LS_OK;
}

static enum ls_err make_handshake(struct agent_websocket *w, const Ls__WebSocket *in,
                                  const Ls__Target *target, struct ls_diag *diag)
{
    struct agent_http_header *headers = calloc(in->n_headers + OWN_FIELDS, sizeof(*headers));
    char host[128];
    size_t n = 0;
    enum ls_err rc;

    if (headers == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for a handshake's headers");
    (void)snprintf(host, sizeof(host), strchr(target->host, ':') != NULL ? "[%s]:%u" : "%s:%u",
                   target->host, target->port);
    /* In front of the plan's own, so that what is looked for below is ours. */
    headers[n++] = (struct agent_http_header){ KEY_FIELD, KEY_PLACE };
    headers[n++] = (struct agent_http_header){ "Upgrade", "websocket" };
    headers[n++] = (struct agent_http_header){ "Connection", "Upgrade" };
    headers[n++] = (struct agent_http_header){ "Sec-WebSocket-Version", "13" };
    if (in->subprotocol != NULL)
        headers[n++] = (struct agent_http_header){ "Sec-WebSocket-Protocol", w->subprotocol };
    if (in->deflate != NULL)
        headers[n++] = (struct agent_http_header){ "Sec-WebSocket-Extensions", extension_of(in) };
    for (size_t i = 0; i < in->n_headers; i++) {
        const char *value = in->headers[i]->value;

        headers[n++] =
            (struct agent_http_header){ in->headers[i]->key, value != NULL ? value : "" };
    }
    rc = agent_http_request_format(&(struct agent_http_request){ .method = "GET",
                                                                 .target = in->path,
                                                                 .host = host,
                                                                 .headers = headers,
                                                                 .header_count = n },
                                   &w->handshake, diag);
    free(headers);
    return rc == LS_OK ? find_places(w, diag) : rc;
}

/* ---- the message */

static enum ls_err make_payload(struct agent_websocket *w, const Ls__Message *in,
                                struct ls_diag *diag)
{
    size_t len = in->text != NULL ? strlen(in->text) : (size_t)in->size->bytes;

    if (len > MESSAGE_MAX)
        return ls_fail(diag, LS_ERANGE, "a message of %zu bytes is too long", len);
    w->payload = malloc(len + 1);
    if (w->payload == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for a message of %zu bytes", len);
    if (in->text != NULL)
        memcpy(w->payload, in->text, len);
    for (size_t i = 0; in->text == NULL && i < len; i++)
        w->payload[i] = (unsigned char)(FILLER_FIRST + i % 26);
    w->message.bytes = (struct ls_bytes){ w->payload, len };
    w->websocket.binary = in->binary;
    w->websocket.numbered = in->text == NULL && len >= LOAD_WS_NUMBER_BYTES;
    return LS_OK;
}

static enum ls_err make_message(struct agent_websocket *w, const Ls__WebSocket *in,
                                struct ls_diag *diag)
{
    const char *expect =
        in->kind_case == LS__WEB_SOCKET__KIND_ECHO && in->echo != NULL ? in->echo->expect : NULL;
    enum ls_err rc = make_payload(w, in->message, diag);

    if (rc != LS_OK)
        return rc;
    w->message.expect_body = w->message.bytes;
    if (expect != NULL) {
        w->expected = strdup(expect);
        if (w->expected == NULL)
            return ls_fail(diag, LS_ENOMEM, "out of memory for an expected message");
        w->message.expect_body =
            (struct ls_bytes){ (const unsigned char *)w->expected, strlen(expect) };
        w->websocket.numbered = false;
    }
    w->message.expect_body_given = true;
    w->message.expect_status = 101;
    w->message.frames = true;
    w->message.weight = 1;
    (void)snprintf(w->label, sizeof(w->label), "WebSocket %.48s, message of %zu bytes", in->path,
                   w->message.bytes.len);
    w->message.label = w->label;
    return LS_OK;
}

static struct ls_bytes piece(const char *from, const char *to)
{
    return (struct ls_bytes){ (const unsigned char *)from, (size_t)(to - from) };
}

/* "{name}: {message}" taken apart. */
static enum ls_err make_room(struct agent_websocket *w, const Ls__Room *in, struct ls_diag *diag)
{
    struct load_room *room = &w->room;
    const char *name, *message, *rest;

    if (in->delivery == NULL || w->message.bytes.len < LOAD_WS_NUMBER_BYTES)
        return ls_fail(diag, LS_EPROTO, "PREPARE came with a room that is not complete");
    w->delivery = strdup(in->delivery);
    w->ready = strdup(in->ready != NULL ? in->ready : "");
    if (w->delivery == NULL || w->ready == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for a room");
    message = strstr(w->delivery, "{message}");
    if (message == NULL)
        return ls_fail(diag, LS_EPROTO, "PREPARE came with a room without {message}");
    name = strstr(w->delivery, NAME);
    rest = w->delivery;
    room->named = name != NULL && name < message;
    if (room->named) {
        room->before = piece(rest, name);
        rest = name + strlen(NAME);
    }
    room->between = piece(rest, message);
    rest = message + strlen("{message}");
    room->after = piece(rest, rest + strlen(rest));
    room->ready = piece(w->ready, w->ready + strlen(w->ready));
    room->to_sender = in->to_sender;
    w->websocket.room = room;
    w->websocket.numbered = false;
    return LS_OK;
}

enum ls_err agent_websocket_create(const Ls__WebSocket *in, const Ls__Target *target,
                                   struct agent_websocket **out, struct ls_diag *diag)
{
    struct agent_websocket *w;
    enum ls_err rc = LS_ENOMEM;

    if (in->path == NULL || in->message == NULL ||
        (in->message->text == NULL && in->message->size == NULL))
        return ls_fail(diag, LS_EPROTO, "PREPARE came with a WebSocket that is not complete");
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the workload");
    if (in->subprotocol != NULL)
        w->subprotocol = strdup(in->subprotocol);
    if (in->subprotocol != NULL && w->subprotocol == NULL)
        (void)ls_fail(diag, rc, "out of memory for the workload");
    else
        rc = make_handshake(w, in, target, diag);
    if (rc == LS_OK)
        rc = make_message(w, in, diag);
    if (rc == LS_OK && in->kind_case == LS__WEB_SOCKET__KIND_ROOM)
        rc = make_room(w, in->room, diag);
    if (rc != LS_OK) {
        agent_websocket_destroy(w);
        return rc;
    }
    w->websocket.subprotocol = w->subprotocol;
    w->websocket.deflate = in->deflate != NULL;
    w->websocket.server_takeover = in->deflate != NULL && in->deflate->server_takeover;
    w->websocket.fragment_bytes = in->fragment != NULL ? (size_t)in->fragment->bytes : 0;
    *out = w;
    return LS_OK;
}

void agent_websocket_give(const struct agent_websocket *w, struct load_workload *workload)
{
    workload->driver = "websocket";
    workload->websocket = &w->websocket;
    workload->requests = &w->message;
    workload->request_count = 1;
}
