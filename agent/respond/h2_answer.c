#include "agent/respond/h2_answer.h"

#include <stdio.h>
#include <string.h>

#include "agent/respond/ws.h"

#define FLOOD         20000u
#define ENDLESS_BYTES (1u << 20)
#define BLOCK_MAX     256u

bool h2_add(struct respond_h2 *h2, unsigned type, unsigned flags, uint32_t id, const void *payload,
            size_t len)
{
    unsigned char head[H2_HEAD_BYTES] = { (unsigned char)(len >> 16), (unsigned char)(len >> 8),
                                          (unsigned char)len, (unsigned char)type,
                                          (unsigned char)flags };

    h2_put32(head + 5, id);
    return respond_bytes_add(&h2->out, head, sizeof(head)) &&
           respond_bytes_add(&h2->out, payload, len);
}

void h2_drop(struct respond_h2 *h2, struct h2_stream *s)
{
    *s = h2->streams[--h2->count];
}

bool h2_go(struct respond_h2 *h2)
{
    unsigned char bytes[8] = { 0 };

    if (h2->going)
        return true;
    h2->going = true;
    h2_put32(bytes, h2->last_id);
    return h2_add(h2, H2_GOAWAY, 0, 0, bytes, sizeof(bytes));
}

static bool add_reset(struct respond_h2 *h2, uint32_t id, uint32_t code)
{
    unsigned char bytes[4];

    h2_put32(bytes, code);
    return h2_add(h2, H2_RST_STREAM, 0, id, bytes, sizeof(bytes));
}

/* ---- heads ----------------------------------------------------------------------------------- */

/* A field that the client does not keep; names are short. */
static size_t put_field(unsigned char *out, const char *name, const char *value)
{
    size_t name_len = strlen(name);
    size_t value_len = strlen(value);

    out[0] = 0;
    out[1] = (unsigned char)name_len;
    memcpy(out + 2, name, name_len);
    out[2 + name_len] = (unsigned char)value_len;
    memcpy(out + 3 + name_len, value, value_len);
    return 3 + name_len + value_len;
}

/* 200 with content-type and content-length: kept by the client's table, and then named by it. */
static size_t put_usual(struct respond_h2 *h2, size_t body_len, unsigned char *out)
{
    static const unsigned char known[] = { 0x88, 0xbf, 0xbe };
    static const unsigned char type[] = { 0x88, 0x5f, 10,  't', 'e', 'x', 't',
                                          '/',  'p',  'l', 'a', 'i', 'n', 0x5c };
    int digits;

    if (h2->indexed) {
        memcpy(out, known, sizeof(known));
        return sizeof(known);
    }
    h2->indexed = true;
    memcpy(out, type, sizeof(type));
    digits = snprintf((char *)out + sizeof(type) + 1, 24, "%zu", body_len);
    out[sizeof(type)] = (unsigned char)digits;
    return sizeof(type) + 1 + (size_t)digits;
}

static bool has_body(const struct h2_stream *s, unsigned status)
{
    return !s->head && status != 204 && status != 304;
}

static size_t put_block(const struct respond_settings *settings, struct respond_h2 *h2,
                        const struct h2_stream *s, const struct respond_rule *rule,
                        unsigned char *out)
{
    char text[40];
    size_t len;

    if (rule->action != RESPOND_STATUS && rule->action != RESPOND_BAD_LENGTH)
        len = put_usual(h2, settings->body_len, out);
    else {
        (void)snprintf(text, sizeof(text), "%u",
                       rule->action == RESPOND_STATUS ? rule->status : 200);
        len = put_field(out, ":status", text);
        (void)snprintf(text, sizeof(text), "%zu%s", settings->body_len,
                       rule->action == RESPOND_BAD_LENGTH ? "x" : "");
        if (has_body(s, rule->action == RESPOND_STATUS ? rule->status : 200))
            len += put_field(out + len, "content-length", text);
    }
    if (rule->action == RESPOND_BOTH_FRAMINGS)
        len += put_field(out + len, "transfer-encoding", "chunked");
    return len;
}

/* In frames of one byte each. */
static bool add_split(struct respond_h2 *h2, uint32_t id, unsigned flags,
                      const unsigned char *block, size_t len)
{
    bool ok = h2_add(h2, H2_HEADERS, flags & ~H2_END_HEADERS, id, block, 1);

    for (size_t i = 1; ok && i < len; i++)
        ok = h2_add(h2, H2_CONTINUATION, i + 1 == len ? H2_END_HEADERS : 0, id, block + i, 1);
    return ok;
}

static bool add_padded(struct respond_h2 *h2, unsigned type, uint32_t id, unsigned flags,
                       const void *content, size_t len)
{
    unsigned char frame[H2_FRAME_MAX] = { 7 };

    memcpy(frame + 1, content, len);
    memset(frame + 1 + len, 0, 7);
    return h2_add(h2, type, flags | H2_PADDED, id, frame, len + 8);
}

/* What an action sends before the answer. */
static bool add_before(const struct respond_settings *settings, struct respond_h2 *h2,
                       const struct h2_stream *s, enum respond_action action)
{
    static const unsigned char interim[] = { 0x08, 3, '1', '0', '2' };
    static const unsigned char hints[] = { 0x08, 3, '1', '0', '3' };
    unsigned char settings_entry[18] = { 0, H2_INITIAL_WINDOW_SIZE,    0, 0, 0, 0,
                                         0, H2_MAX_CONCURRENT_STREAMS, 0, 0, 0, 0,
                                         0, H2_HEADER_TABLE_SIZE };
    unsigned char promise[5] = { 0, 0, 0, 0, 0x82 };
    bool ok = true;

    if (settings->interim)
        ok = h2_add(h2, H2_HEADERS, H2_END_HEADERS, s->id, hints, sizeof(hints));
    for (unsigned i = 0; ok && action == RESPOND_INTERIM_FLOOD && i < FLOOD; i++)
        ok = h2_add(h2, H2_HEADERS, H2_END_HEADERS, s->id, interim, sizeof(interim));
    for (unsigned i = 0; ok && action == RESPOND_PING_FLOOD && i < FLOOD; i++)
        ok = h2_add(h2, H2_PING, 0, 0, "lockstep", 8);
    for (unsigned i = 0; ok && action == RESPOND_SETTINGS_FLOOD && i < FLOOD; i++)
        ok = h2_add(h2, H2_SETTINGS, 0, 0, NULL, 0);
    if (action == RESPOND_PING)
        ok = ok && h2_add(h2, H2_PING, 0, 0, "lockstep", 8);
    if (action == RESPOND_PUSH) {
        h2->promised += 2;
        h2_put32(promise, h2->promised);
        ok = ok && h2_add(h2, H2_PUSH_PROMISE, H2_END_HEADERS, s->id, promise, sizeof(promise));
    }
    if (action == RESPOND_SETTINGS) { /* other windows, streams and table each time */
        h2->changes++;
        h2_put32(settings_entry + 2, 1000 + 10007 * (h2->changes % 100));
        h2_put32(settings_entry + 8, 1 + settings->streams / (1 + h2->changes % 3));
        h2_put32(settings_entry + 14, h2->changes % 2 == 0 ? 4096 : 64);
        ok = ok && h2_add(h2, H2_SETTINGS, 0, 0, settings_entry, sizeof(settings_entry));
    }
    return ok;
}

static bool add_head(const struct respond_settings *settings, struct respond_h2 *h2,
                     const struct h2_stream *s, const struct respond_rule *rule)
{
    unsigned char block[BLOCK_MAX];
    size_t len;
    unsigned status = rule->action == RESPOND_STATUS ? rule->status : 200;
    unsigned flags = H2_END_HEADERS;

    if (!add_before(settings, h2, s, rule->action))
        return false;
    len = put_block(settings, h2, s, rule, block);
    if (!has_body(s, status) || settings->body_len == 0)
        flags |= H2_END_STREAM;
    if (rule->action == RESPOND_CONTINUATION)
        return add_split(h2, s->id, flags, block, len);
    if (rule->action == RESPOND_PADDING)
        return add_padded(h2, H2_HEADERS, s->id, flags, block, len);
    return h2_add(h2, H2_HEADERS, flags, s->id, block, len);
}

/* ---- what is no answer ------------------------------------------------------------------------
 */

/* A header block of a megabyte, or one that says as much with few bytes. */
static bool add_endless(struct respond_h2 *h2, uint32_t id, bool bomb)
{
    unsigned char block[H2_FRAME_MAX];
    unsigned type = H2_HEADERS;
    bool ok = true;

    /* One large field for the table, named over and over. */
    memset(block, bomb ? 0xbe : 'x', sizeof(block));
    if (bomb) {
        static const unsigned char field[] = { 0x88, 0x40, 1, 'b', 0x7f, 0x81, 0x1e };

        memcpy(block, field, sizeof(field)); /* a value of 4,000 bytes */
        memset(block + sizeof(field), 'x', 4000);
        return h2_add(h2, H2_HEADERS, H2_END_HEADERS, id, block, sizeof(block));
    }
    block[0] = 0x00;
    block[1] = 1;
    block[2] = 'e';
    block[3] = 0x7f; /* a value that fills the rest: 127 + 16,250 */
    block[4] = 0xfa;
    block[5] = 0x7e;
    for (size_t sent = 0; ok && sent < ENDLESS_BYTES; sent += sizeof(block)) {
        ok = h2_add(h2, type, 0, id, block, sizeof(block));
        type = H2_CONTINUATION;
    }
    return ok;
}

/* Half of what would be sent, and the end. */
static bool add_half(const struct respond_settings *settings, struct respond_h2 *h2,
                     const struct h2_stream *s, bool of_head)
{
    static const struct respond_rule normal = { .action = RESPOND_NORMAL };
    size_t from = h2->out.len - h2->out.at;

    if (!add_head(settings, h2, s, &normal))
        return false;
    if (of_head)
        h2->out.len -= (h2->out.len - h2->out.at - from) / 2;
    return of_head ||
           h2_add(h2, H2_DATA, 0, s->id, settings->body,
                  settings->body_len / 2 < H2_FRAME_MAX ? settings->body_len / 2 : H2_FRAME_MAX);
}

/* True if the action keeps s from an answer; *out_ok false: no memory. */
static bool breaks(struct respond_loop *loop, struct respond_h2 *h2, struct h2_stream *s,
                   enum respond_action action, bool *out_ok)
{
    bool ok = true;

    switch (action) {
    case RESPOND_CLOSE:
        h2->ending = RESPOND_END_CLOSE;
        break;
    case RESPOND_RESET:
        h2->ending = RESPOND_END_RESET;
        break;
    case RESPOND_NO_ANSWER:
        h2->mute = true;
        break;
    case RESPOND_GARBAGE:
        ok = respond_bytes_add(&h2->out, "\xff\xff\xff\xff garbage\r\n", 14);
        h2->ending = RESPOND_END_CLOSE;
        break;
    case RESPOND_HALF:
        ok = add_half(loop->settings, h2, s, false);
        h2->ending = RESPOND_END_RESET;
        break;
    case RESPOND_CUT_HEAD:
        ok = add_half(loop->settings, h2, s, true);
        h2->ending = RESPOND_END_CLOSE;
        break;
    case RESPOND_ENDLESS_HEAD:
    case RESPOND_BOMB:
        h2->indexed = false; /* its table is full of something else */
        ok = add_endless(h2, s->id, action == RESPOND_BOMB);
        h2->ending = action == RESPOND_BOMB ? RESPOND_KEEP : RESPOND_END_CLOSE;
        break;
    case RESPOND_RST:
        ok = add_reset(h2, s->id, H2_INTERNAL_ERROR);
        break;
    default:
        return false;
    }
    respond_tally_add(&loop->tally.unanswered, 1);
    h2_drop(h2, s);
    *out_ok = ok;
    return true;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* The next part of a body: as much as one frame, the windows and the action allow. */
static size_t next_part(const struct respond_h2 *h2, const struct h2_stream *s, size_t body_len,
                        enum respond_action action)
{
    size_t n = body_len - s->body_at;

    if (action == RESPOND_DRIP) {
        size_t end = body_len * (s->pieces + 1) / RESPOND_DRIP_PIECES;

        n = end > s->body_at ? end - s->body_at : 0;
    }
    n = n < H2_FRAME_MAX - 8 ? n : H2_FRAME_MAX - 8;
    if (s->window < (int64_t)n)
        n = s->window > 0 ? (size_t)s->window : 0;
    if (h2->window < (int64_t)n)
        n = h2->window > 0 ? (size_t)h2->window : 0;
    if (action == RESPOND_PADDING && n > 8)
        n -= 8;
    return n;
}

static bool add_data(struct respond_h2 *h2, struct h2_stream *s, const char *data, size_t len,
                     unsigned flags, enum respond_action action)
{
    bool padded = action == RESPOND_PADDING && s->window >= (int64_t)len + 8 &&
                  h2->window >= (int64_t)len + 8;
    int64_t cost = (int64_t)len + (padded ? 8 : 0);

    s->window -= cost;
    h2->window -= cost;
    s->body_at += len;
    return padded ? add_padded(h2, H2_DATA, s->id, flags, data, len)
                  : h2_add(h2, H2_DATA, flags, s->id, data, len);
}

/* What follows a whole answer. */
static bool add_behind(struct respond_h2 *h2, enum respond_action action, bool close)
{
    static const unsigned char unasked[] = { 0x08, 3, '4', '0', '8' };
    bool ok = true;

    if (action == RESPOND_BYE || close)
        ok = h2_go(h2);
    if (action == RESPOND_UNASKED_408) {
        ok = h2_add(h2, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 0x7fffffff, unasked,
                    sizeof(unasked));
        h2->ending = RESPOND_END_CLOSE;
    }
    return ok;
}

static bool through(struct respond_loop *loop, struct respond_h2 *h2, struct h2_stream *s,
                    enum respond_action action, int64_t now_ns)
{
    bool ok;

    if (action == RESPOND_TWICE && s->again++ == 0) {
        s->headed = false;
        s->body_at = 0;
        return h2_emit(loop, h2, s, now_ns);
    }
    ok = add_behind(h2, action, loop->settings->close);
    if (s->due_ns > 0)
        ls_hist_record_n(loop->lateness, now_ns - s->due_ns, 1);
    if (action == RESPOND_SHORT)
        respond_tally_add(&loop->tally.unanswered, 1);
    else
        h2->emitted++;
    h2_drop(h2, s);
    return ok;
}

/* Parts of the body until it is through or has to wait. */
static bool emit_body(struct respond_loop *loop, struct respond_h2 *h2, struct h2_stream *s,
                      const struct respond_rule *rule, int64_t now_ns)
{
    const struct respond_settings *settings = loop->settings;
    enum respond_action action = rule->action;
    size_t len = settings->body_len - (action == RESPOND_SHORT);

    for (;;) {
        size_t n = next_part(h2, s, len, action);
        bool last = s->body_at + n == len;
        const char *data = settings->body + s->body_at;
        char wrong;

        if (n == 0 && s->body_at < len)
            return true; /* until a window is opened, or the next drop is due */
        if (action == RESPOND_WRONG_BODY && s->body_at == 0) {
            wrong = (char)(*data ^ 1);
            data = &wrong;
            last = len == 1;
            n = 1;
        }
        if (!add_data(h2, s, data, n,
                      last && action != RESPOND_LONG && action != RESPOND_TRAILERS ? H2_END_STREAM
                                                                                   : 0,
                      action))
            return false;
        if (last)
            break;
        if (action == RESPOND_DRIP) {
            s->pieces++;
            s->due_ns = now_ns + rule->duration_ns / RESPOND_DRIP_PIECES;
            return true;
        }
    }
    if (action == RESPOND_LONG && !h2_add(h2, H2_DATA, H2_END_STREAM, s->id, "!", 1))
        return false;
    if (action == RESPOND_TRAILERS &&
        !h2_add(h2, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, s->id, "\0\2ok\3yes", 8))
        return false;
    return through(loop, h2, s, action, now_ns);
}

bool h2_emit(struct respond_loop *loop, struct respond_h2 *h2, struct h2_stream *s, int64_t now_ns)
{
    static const struct respond_rule normal = { .action = RESPOND_NORMAL };
    const struct respond_rule *rule = s->rule < 0 ? &normal : &loop->settings->rules[s->rule];
    bool bodiless = !has_body(s, rule->action == RESPOND_STATUS ? rule->status : 200) ||
                    loop->settings->body_len == 0;
    bool ok = true;

    if (!s->headed) {
        if (breaks(loop, h2, s, rule->action, &ok))
            return ok;
        if (!add_head(loop->settings, h2, s, rule))
            return false;
        s->headed = true;
    }
    return bodiless ? through(loop, h2, s, rule->action, now_ns)
                    : emit_body(loop, h2, s, rule, now_ns);
}
