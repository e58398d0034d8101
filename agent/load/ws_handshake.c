#include "agent/load/ws_handshake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/digest.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* section 1.3 */

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Without a buffer that might grow: connections are opened under load, too. */
static void encode(const unsigned char *data, size_t len, char *out)
{
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t bits = (uint32_t)data[i] << 16;

        bits |= left > 1 ? (uint32_t)data[i + 1] << 8 : 0;
        bits |= left > 2 ? data[i + 2] : 0;
        *out++ = base64[bits >> 18];
        *out++ = base64[bits >> 12 & 63];
        *out++ = left > 1 ? base64[bits >> 6 & 63] : '=';
        *out++ = left > 2 ? base64[bits & 63] : '=';
    }
}

void ws_accept_of(const char *key, char out[WS_ACCEPT_BYTES])
{
    unsigned char text[WS_KEY_BYTES + sizeof(GUID) - 1];
    unsigned char digest[LS_SHA1_BYTES];

    memcpy(text, key, WS_KEY_BYTES);
    memcpy(text + WS_KEY_BYTES, GUID, sizeof(GUID) - 1);
    ls_sha1((struct ls_bytes){ text, sizeof(text) }, digest);
    encode(digest, sizeof(digest), out);
}

size_t ws_name_write(char out[WS_NAME_MAX], uint64_t number)
{
    int n = snprintf(out, WS_NAME_MAX, "c%u", (unsigned)(uint32_t)number);

    return n > 0 ? (size_t)n : 0;
}

enum ls_err ws_handshake_create(const struct load_websocket *websocket, uint64_t number,
                                const unsigned char key[16], struct ws_handshake **out)
{
    struct ls_bytes text = websocket->handshake;
    struct ws_handshake *h = malloc(sizeof(*h) + text.len + WS_NAME_MAX);
    size_t key_at = websocket->key_at;
    char name[WS_NAME_MAX];
    size_t name_len;

    if (h == NULL)
        return LS_ENOMEM;
    h->head_len = h->out_at = 0;
    h->out_len = text.len;
    memcpy(h->out, text.data, text.len);
    encode(key, 16, (char *)h->out + key_at);
    ws_accept_of((const char *)h->out + key_at, h->accept);
    if (websocket->name_len > 0) {
        size_t after = websocket->name_at + websocket->name_len;

        name_len = ws_name_write(name, number);
        memmove(h->out + websocket->name_at + name_len, h->out + after, text.len - after);
        memcpy(h->out + websocket->name_at, name, name_len);
        h->out_len = text.len - websocket->name_len + name_len;
    }
    *out = h;
    return LS_OK;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* What the answer's fields say. */
struct found {
    const char *why; /* static text: what is wrong; NULL: nothing so far */
    bool upgrade;
    bool connection;
    bool accept;
    bool protocol;
    bool extension;
};

static struct ls_bytes trimmed(struct ls_bytes text)
{
    while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text.data++;
        text.len--;
    }
    while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static bool is_word(struct ls_bytes text, const char *word)
{
    return text.len == strlen(word) && strncasecmp((const char *)text.data, word, text.len) == 0;
}

/* Takes the text before the next separator off *list. */
static struct ls_bytes next_of(struct ls_bytes *list, unsigned char separator)
{
    const unsigned char *end = memchr(list->data, separator, list->len);
    size_t len = end != NULL ? (size_t)(end - list->data) : list->len;
    struct ls_bytes item = { list->data, len };

    list->data += len + (end != NULL);
    list->len -= len + (end != NULL);
    return trimmed(item);
}

static bool list_has(struct ls_bytes list, const char *word)
{
    while (list.len > 0) {
        if (is_word(next_of(&list, ','), word))
            return true;
    }
    return false;
}

/* The parameters that a server may answer with (RFC 7692, section 7.1) to what we offer. */
static const char *take_parameter(struct ls_bytes parameter, struct ws_agreement *out)
{
    struct ls_bytes rest = parameter;
    struct ls_bytes name = next_of(&rest, '=');

    if (is_word(name, "server_no_context_takeover")) {
        out->server_takeover = false;
        return NULL;
    }
    if (is_word(name, "client_no_context_takeover"))
        return NULL; /* which we offer, and do anyway */
    if (is_word(name, "server_max_window_bits"))
        return NULL; /* a smaller window is within ours */
    return "permessage-deflate with a parameter that was not offered";
}

static const char *take_extensions(struct ls_bytes list, const struct load_websocket *websocket,
                                   struct ws_agreement *out)
{
    struct ls_bytes parameters;
    const char *why = NULL;

    parameters = next_of(&list, ',');
    if (!websocket->deflate || list.len > 0 ||
        !is_word(next_of(&parameters, ';'), "permessage-deflate"))
        return "an extension that was not asked for";
    out->deflate = out->server_takeover = true;
    while (why == NULL && parameters.len > 0)
        why = take_parameter(next_of(&parameters, ';'), out);
    if (why == NULL && !websocket->server_takeover && out->server_takeover)
        return "permessage-deflate without server_no_context_takeover, which was asked for";
    return why;
}

static void take_field(const struct ws_handshake *h, const struct load_websocket *websocket,
                       struct ls_bytes name, struct ls_bytes value, struct found *found,
                       struct ws_agreement *out)
{
    const char *why = NULL;

    if (is_word(name, "upgrade")) {
        found->upgrade = is_word(value, "websocket");
    } else if (is_word(name, "connection")) {
        found->connection = found->connection || list_has(value, "upgrade");
    } else if (is_word(name, "sec-websocket-accept")) {
        if (found->accept)
            why = "sec-websocket-accept is there twice";
        else if (value.len != WS_ACCEPT_BYTES || memcmp(value.data, h->accept, value.len) != 0)
            why = "sec-websocket-accept is not the answer to our key";
        found->accept = true;
    } else if (is_word(name, "sec-websocket-protocol")) {
        if (found->protocol || websocket->subprotocol == NULL ||
            value.len != strlen(websocket->subprotocol) ||
            memcmp(value.data, websocket->subprotocol, value.len) != 0)
            why = "a subprotocol that was not asked for";
        found->protocol = true;
    } else if (is_word(name, "sec-websocket-extensions")) {
        why = found->extension ? "extensions are there twice"
                               : take_extensions(value, websocket, out);
        found->extension = true;
    }
    if (found->why == NULL)
        found->why = why;
}

/* "HTTP/1.1 101 ..." */
static bool read_status(struct ls_bytes line, uint16_t *out)
{
    unsigned status = 0;

    if (line.len < 12 || memcmp(line.data, "HTTP/1.", 7) != 0 || line.data[8] != ' ')
        return false;
    for (size_t i = 9; i < 12; i++) {
        if (line.data[i] < '0' || line.data[i] > '9')
            return false;
        status = status * 10 + line.data[i] - '0';
    }
    *out = (uint16_t)status;
    return true;
}

static struct ls_bytes next_line(struct ls_bytes *text)
{
    struct ls_bytes line = next_of(text, '\n');

    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    return line;
}

static enum ws_handshake_step refuse(struct ws_agreement *out, enum load_outcome outcome,
                                     const char *why)
{
    out->outcome = outcome;
    out->why = why;
    return WS_SHAKE_BAD;
}

/* The head is complete, from the status line to before the empty one. */
static enum ws_handshake_step judge(const struct ws_handshake *h,
                                    const struct load_websocket *websocket,
                                    struct ws_agreement *out)
{
    struct ls_bytes text = { h->head, h->head_len };
    struct found found = { .why = NULL };

    out->status = 0; /* of an interim answer before this one */
    if (!read_status(next_line(&text), &out->status))
        return refuse(out, LOAD_BAD_FRAMING, "the answer to the upgrade is not HTTP");
    if (out->status != 101)
        return refuse(out, LOAD_BAD_STATUS, "the server did not agree to the upgrade");
    while (text.len > 0) {
        struct ls_bytes value = next_line(&text);
        struct ls_bytes name;

        if (value.len == 0)
            break;
        name = next_of(&value, ':');
        take_field(h, websocket, name, trimmed(value), &found, out);
    }
    if (found.why == NULL && !found.upgrade)
        found.why = "the answer has no \"upgrade: websocket\"";
    if (found.why == NULL && !found.connection)
        found.why = "the answer has no \"connection: upgrade\"";
    if (found.why == NULL && !found.accept)
        found.why = "the answer has no sec-websocket-accept";
    if (found.why == NULL && websocket->subprotocol != NULL && !found.protocol)
        found.why = "the server did not agree to the subprotocol";
    if (found.why != NULL)
        return refuse(out, LOAD_BAD_FRAMING, found.why);
    out->outcome = LOAD_OK;
    out->why = "";
    return WS_SHAKE_DONE;
}

/* Does the head, of which a byte was just added, end with it? */
static bool has_ended(const struct ws_handshake *h)
{
    size_t n = h->head_len;

    if (h->head[n - 1] != '\n')
        return false;
    return (n >= 2 && h->head[n - 2] == '\n') ||
           (n >= 3 && h->head[n - 2] == '\r' && h->head[n - 3] == '\n');
}

enum ws_handshake_step ws_handshake_take(struct ws_handshake *h,
                                         const struct load_websocket *websocket,
                                         struct ls_bytes *in, struct ws_agreement *out)
{
    static const char start[] = "HTTP/1.";

    *out = (struct ws_agreement){ .outcome = LOAD_OK, .why = "" };
    while (in->len > 0) {
        if (h->head_len == sizeof(h->head))
            return refuse(out, LOAD_BAD_FRAMING, "the head of the answer is longer than 16 KiB");
        h->head[h->head_len++] = *in->data++;
        in->len--;
        if (h->head_len <= sizeof(start) - 1 &&
            h->head[h->head_len - 1] != (unsigned char)start[h->head_len - 1])
            return refuse(out, LOAD_BAD_FRAMING, "the answer to the upgrade is not HTTP");
        if (has_ended(h)) {
            enum ws_handshake_step step = judge(h, websocket, out);

            if (out->status < 100 || out->status > 199 || out->status == 101)
                return step;
            h->head_len = 0; /* an interim answer: the one that counts follows */
        }
    }
    return WS_SHAKE_MORE;
}
