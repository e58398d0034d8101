#include "agent/respond/h2.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/respond/h2_answer.h"
#include "agent/respond/ws.h"

#define OUR_WINDOW 0x3fffffff
#define UPDATE_AT  (1 << 20)

bool respond_h2_is(const unsigned char *data, size_t len)
{
    return len >= 3 && memcmp(data, RESPOND_H2_PREFACE, 3) == 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

bool respond_h2_begin(struct respond_loop *loop, struct respond_conn *conn)
{
    struct respond_h2 *h2 = calloc(1, sizeof(*h2));
    unsigned char settings[12] = { 0, H2_MAX_CONCURRENT_STREAMS, 0, 0, 0, 0,
                                   0, H2_INITIAL_WINDOW_SIZE };
    unsigned char window[4];

    if (h2 == NULL || nghttp2_hd_inflate_new(&h2->inflater) != 0) {
        free(h2);
        return false;
    }
    conn->h2 = h2;
    h2->window = h2->initial_window = 65535;
    h2_put32(settings + 2, loop->settings->streams);
    h2_put32(settings + 8, loop->settings->no_window ? 65535 : OUR_WINDOW);
    h2_put32(window, OUR_WINDOW - 65535);
    return h2_add(h2, H2_SETTINGS, 0, 0, settings, sizeof(settings)) &&
           (loop->settings->no_window ||
            h2_add(h2, H2_WINDOW_UPDATE, 0, 0, window, sizeof(window)));
}

void respond_h2_end(struct respond_loop *loop, struct respond_conn *conn)
{
    struct respond_h2 *h2 = conn->h2;

    if (h2 == NULL)
        return;
    for (uint32_t i = 0; i < h2->count; i++) {
        if (h2->streams[i].asked)
            respond_tally_add(&loop->tally.unanswered, 1);
    }
    respond_tally_add(&loop->tally.unanswered, h2->emitted); /* did not all leave */
    nghttp2_hd_inflate_del(h2->inflater);
    respond_bytes_fini(&h2->in);
    respond_bytes_fini(&h2->out);
    respond_bytes_fini(&h2->block);
    free(h2->streams);
    free(h2);
    conn->h2 = NULL;
}

/* What came is no HTTP/2: GOAWAY, and the end. */
static bool refuse(struct respond_loop *loop, struct respond_h2 *h2, uint32_t code)
{
    unsigned char bytes[8];

    if (h2->lost)
        return true;
    h2->lost = true;
    respond_tally_add(&loop->tally.bad_requests, 1);
    h2_put32(bytes, h2->last_id);
    h2_put32(bytes + 4, code);
    h2->ending = RESPOND_END_CLOSE;
    return h2_add(h2, H2_GOAWAY, 0, 0, bytes, sizeof(bytes));
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct h2_stream *find(struct respond_h2 *h2, uint32_t id)
{
    for (uint32_t i = 0; i < h2->count; i++) {
        if (h2->streams[i].id == id)
            return &h2->streams[i];
    }
    return NULL;
}

/* The request on s has ended. */
static bool asked(struct respond_loop *loop, struct respond_h2 *h2, struct h2_stream *s,
                  int64_t now_ns)
{
    s->asked = true;
    s->rule = respond_choose_rule(loop);
    respond_tally_add(&loop->tally.requests, 1);
    if (s->rule >= 0)
        respond_tally_add(&loop->tally.actions[loop->settings->rules[s->rule].action], 1);
    s->due_ns = respond_due_instant(
        loop, respond_answers_get(loop->answers, s->rule, s->head, false), now_ns);
    if (h2->ending != RESPOND_KEEP) {
        respond_tally_add(&loop->tally.unanswered, 1);
        h2_drop(h2, s);
        return true;
    }
    return s->rule < 0 || loop->settings->rules[s->rule].action != RESPOND_GOAWAY || h2_go(h2);
}

static bool open_stream(struct respond_h2 *h2, uint32_t id, struct h2_stream **out)
{
    if (h2->count == h2->cap) {
        uint32_t cap = h2->cap == 0 ? 16 : 2 * h2->cap;
        struct h2_stream *grown = realloc(h2->streams, cap * sizeof(*grown));

        if (grown == NULL)
            return false;
        h2->streams = grown;
        h2->cap = cap;
    }
    *out = &h2->streams[h2->count++];
    **out = (struct h2_stream){ .id = id, .rule = -1, .window = h2->initial_window };
    return true;
}

/* Reads the block; false: it is none. *out_head: the method is HEAD. */
static bool read_block(struct respond_h2 *h2, bool *out_head)
{
    const uint8_t *at = h2->block.data + h2->block.at;
    size_t len = h2->block.len - h2->block.at;
    bool has_method = false;

    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(h2->inflater, &nv, &flags, at, len, 1);

        if (n < 0)
            return false;
        at += n;
        len -= (size_t)n;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0 && nv.namelen == 7 &&
            memcmp(nv.name, ":method", 7) == 0) {
            has_method = true;
            *out_head = nv.valuelen == 4 && memcmp(nv.value, "HEAD", 4) == 0;
        }
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0)
            break;
    }
    (void)nghttp2_hd_inflate_end_headers(h2->inflater); /* always 0 */
    return has_method;
}

/* One stream more than we allow: whoever opened it did not know yet (RFC 9113, 5.1.2). */
static bool refuse_stream(struct respond_h2 *h2, uint32_t id)
{
    unsigned char code[4];

    h2_put32(code, H2_REFUSED_STREAM);
    return h2_add(h2, H2_RST_STREAM, 0, id, code, sizeof(code));
}

/* The block of a request is complete. */
static bool take_head(struct respond_loop *loop, struct respond_h2 *h2, int64_t now_ns)
{
    struct h2_stream *s = find(h2, h2->block_id);
    bool head = false;
    bool known = s != NULL; /* trailers */
    bool ok = read_block(h2, &head);
    uint32_t id = h2->block_id;

    h2->block_id = 0;
    h2->block.at = h2->block.len = 0;
    if (!ok && !known)
        return refuse(loop, h2, H2_COMPRESSION_ERROR);
    if (h2->going && id > h2->last_id)
        return true;
    if (!known) {
        if ((id & 1) == 0 || id <= h2->last_id)
            return refuse(loop, h2, H2_PROTOCOL_ERROR);
        h2->last_id = id;
        if (h2->count >= loop->settings->streams)
            return refuse_stream(h2, id);
        if (!open_stream(h2, id, &s))
            return false;
        s->head = head;
    }
    return !h2->block_ends || asked(loop, h2, s, now_ns);
}

static bool take_block(struct respond_loop *loop, struct respond_h2 *h2, const struct h2_frame *f,
                       int64_t now_ns)
{
    const unsigned char *at = f->payload;
    size_t len = f->len;
    size_t pad = 0;

    if (f->type == H2_HEADERS) {
        if (h2->block_id != 0 || f->id == 0)
            return refuse(loop, h2, H2_PROTOCOL_ERROR);
        if ((f->flags & H2_PADDED) != 0 && len > 0)
            pad = 1u + *at;
        if (pad > len || len - pad < ((f->flags & H2_PRIORITISED) != 0 ? 5u : 0u))
            return refuse(loop, h2, H2_PROTOCOL_ERROR);
        at += (pad > 0) + ((f->flags & H2_PRIORITISED) != 0 ? 5u : 0u);
        len -= pad + ((f->flags & H2_PRIORITISED) != 0 ? 5u : 0u);
        h2->block_id = f->id;
        h2->block_ends = (f->flags & H2_END_STREAM) != 0;
    } else if (h2->block_id == 0 || f->id != h2->block_id) {
        return refuse(loop, h2, H2_PROTOCOL_ERROR);
    }
    if (h2->block.len + len > RESPOND_HEAD_MAX)
        return refuse(loop, h2, H2_ENHANCE_YOUR_CALM);
    if (!respond_bytes_add(&h2->block, at, len))
        return false;
    return (f->flags & H2_END_HEADERS) == 0 || take_head(loop, h2, now_ns);
}

static bool open_window(struct respond_h2 *h2, uint32_t id, uint32_t by)
{
    unsigned char bytes[4];

    h2_put32(bytes, by);
    return h2_add(h2, H2_WINDOW_UPDATE, 0, id, bytes, sizeof(bytes));
}

static bool take_data(struct respond_loop *loop, struct respond_h2 *h2, const struct h2_frame *f,
                      int64_t now_ns)
{
    struct h2_stream *s = find(h2, f->id);
    bool ok = true;

    if (f->id == 0 || f->id > h2->last_id + (h2->going ? 1u << 20 : 0))
        return refuse(loop, h2, H2_PROTOCOL_ERROR);
    h2->received += f->len;
    if (h2->received >= UPDATE_AT && !loop->settings->no_window) {
        ok = open_window(h2, 0, h2->received);
        h2->received = 0;
    }
    if (s == NULL || s->asked)
        return ok;
    s->received += f->len;
    if (s->received >= UPDATE_AT && !loop->settings->no_window) {
        ok = ok && open_window(h2, f->id, s->received);
        s->received = 0;
    }
    if ((f->flags & H2_END_STREAM) != 0)
        ok = asked(loop, h2, s, now_ns) && ok;
    return ok;
}

static bool take_settings(struct respond_loop *loop, struct respond_h2 *h2,
                          const struct h2_frame *f)
{
    if ((f->flags & H2_ACK) != 0)
        return true;
    if (f->id != 0 || f->len % 6 != 0)
        return refuse(loop, h2, H2_PROTOCOL_ERROR);
    for (const unsigned char *at = f->payload; at < f->payload + f->len; at += 6) {
        uint32_t value = h2_get32(at + 2);

        if ((at[0] << 8 | at[1]) != H2_INITIAL_WINDOW_SIZE)
            continue;
        if (value > 0x7fffffff)
            return refuse(loop, h2, H2_FLOW_CONTROL_ERROR);
        for (uint32_t i = 0; i < h2->count; i++)
            h2->streams[i].window += (int64_t)value - h2->initial_window;
        h2->initial_window = value;
    }
    return h2_add(h2, H2_SETTINGS, H2_ACK, 0, NULL, 0);
}

static bool take_window(struct respond_loop *loop, struct respond_h2 *h2, const struct h2_frame *f)
{
    struct h2_stream *s = f->id != 0 ? find(h2, f->id) : NULL;
    int64_t *window = f->id == 0 ? &h2->window : s != NULL ? &s->window : NULL;

    if (f->len != 4)
        return refuse(loop, h2, H2_PROTOCOL_ERROR);
    if (window != NULL)
        *window += h2_get32(f->payload) & 0x7fffffff;
    return true;
}

static void take_reset(struct respond_loop *loop, struct respond_h2 *h2, const struct h2_frame *f)
{
    struct h2_stream *s = find(h2, f->id);

    if (s == NULL)
        return;
    if (s->asked)
        respond_tally_add(&loop->tally.unanswered, 1);
    h2_drop(h2, s);
}

static bool take_frame(struct respond_loop *loop, struct respond_h2 *h2, const struct h2_frame *f,
                       int64_t now_ns)
{
    if (h2->block_id != 0 && f->type != H2_CONTINUATION)
        return refuse(loop, h2, H2_PROTOCOL_ERROR);
    switch (f->type) {
    case H2_HEADERS:
    case H2_CONTINUATION:
        return take_block(loop, h2, f, now_ns);
    case H2_DATA:
        return take_data(loop, h2, f, now_ns);
    case H2_SETTINGS:
        return take_settings(loop, h2, f);
    case H2_WINDOW_UPDATE:
        return take_window(loop, h2, f);
    case H2_RST_STREAM:
        take_reset(loop, h2, f);
        return true;
    case H2_PING:
        if (f->len != 8)
            return refuse(loop, h2, H2_PROTOCOL_ERROR);
        return (f->flags & H2_ACK) != 0 || h2_add(h2, H2_PING, H2_ACK, 0, f->payload, 8);
    default: /* GOAWAY: the client closes; the rest says nothing to us */
        return true;
    }
}

bool respond_h2_take(struct respond_loop *loop, struct respond_conn *conn,
                     const unsigned char *data, size_t len, int64_t now_ns)
{
    struct respond_h2 *h2 = conn->h2;
    bool ok;

    if (h2->lost)
        return true;
    if (h2->preface < sizeof(RESPOND_H2_PREFACE) - 1) {
        size_t n = sizeof(RESPOND_H2_PREFACE) - 1 - h2->preface;

        n = n < len ? n : len;
        if (memcmp(data, &RESPOND_H2_PREFACE[h2->preface], n) != 0)
            return refuse(loop, h2, H2_PROTOCOL_ERROR);
        h2->preface += n;
        data += n;
        len -= n;
    }
    ok = respond_bytes_add(&h2->in, data, len);
    while (ok && !h2->lost && h2->in.len - h2->in.at >= H2_HEAD_BYTES) {
        const unsigned char *at = h2->in.data + h2->in.at;
        struct h2_frame f = { .len = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2],
                              .type = at[3],
                              .flags = at[4],
                              .id = h2_get32(at + 5) & 0x7fffffff,
                              .payload = at + H2_HEAD_BYTES };

        if (f.len > H2_FRAME_MAX)
            return refuse(loop, h2, H2_FRAME_SIZE_ERROR);
        if (h2->in.len - h2->in.at < H2_HEAD_BYTES + f.len)
            break;
        ok = take_frame(loop, h2, &f, now_ns);
        h2->in.at += H2_HEAD_BYTES + f.len;
    }
    return ok;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Everything that was put into out has left. */
static void all_left(struct respond_loop *loop, struct respond_h2 *h2)
{
    respond_tally_add(&loop->tally.responses, h2->emitted);
    h2->emitted = 0;
}

static bool emit_due(struct respond_loop *loop, struct respond_h2 *h2, int64_t now_ns)
{
    for (uint32_t i = 0; i < h2->count && h2->ending == RESPOND_KEEP && !h2->mute &&
                         h2->out.len - h2->out.at < RESPOND_H2_OUT_MAX;) {
        struct h2_stream *s = &h2->streams[i];
        uint32_t id = s->id;

        if (s->asked && s->due_ns <= now_ns && !h2_emit(loop, h2, s, now_ns))
            return false;
        if (i < h2->count && h2->streams[i].id == id)
            i++; /* else it is through, and another one has its place */
    }
    return true;
}

bool respond_h2_flush(struct respond_loop *loop, struct respond_conn *conn, int64_t now_ns,
                      enum respond_ending *out_ending)
{
    struct respond_h2 *h2 = conn->h2;

    *out_ending = RESPOND_KEEP;
    conn->blocked = false;
    if (!emit_due(loop, h2, now_ns))
        return false;
    while (h2->out.at < h2->out.len) {
        ssize_t n = respond_conn_send(conn, h2->out.data + h2->out.at, h2->out.len - h2->out.at);

        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (n <= 0) {
            conn->blocked = true;
            return true;
        }
        respond_tally_add(&loop->tally.bytes_out, (uint64_t)n);
        h2->out.at += (size_t)n;
    }
    all_left(loop, h2);
    if (h2->going && h2->count == 0 && h2->ending == RESPOND_KEEP)
        h2->ending = RESPOND_END_CLOSE;
    *out_ending = h2->ending;
    return true;
}

int64_t respond_h2_due_ns(const struct respond_conn *conn)
{
    const struct respond_h2 *h2 = conn->h2;
    int64_t due_ns = INT64_MAX;

    for (uint32_t i = 0; i < h2->count && !h2->mute; i++) {
        const struct h2_stream *s = &h2->streams[i];

        /* One that has begun waits for a window, not for an instant. */
        if (s->asked && (!s->headed || s->pieces > 0) && s->due_ns < due_ns)
            due_ns = s->due_ns;
    }
    return due_ns;
}

bool respond_h2_has_room(const struct respond_conn *conn)
{
    return conn->h2->out.len - conn->h2->out.at < RESPOND_H2_OUT_MAX;
}

bool respond_h2_is_idle(const struct respond_conn *conn)
{
    return conn->h2->count == 0 && conn->h2->out.at == conn->h2->out.len;
}
