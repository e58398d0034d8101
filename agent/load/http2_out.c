/* Frames that leave: what the peer has to be told, then requests, and bodies as windows allow. */
#include "agent/load/http2_conn.h"
#include "agent/load/variation.h"

#define SETTINGS_COUNT 3u
#define RESIZE_BYTES   8u /* of the peer's table, in front of a block */

/* ---- beside requests --------------------------------------------------------------------------
 */

bool http2_say(struct http2_conn *c, enum http2_type type, unsigned flags, uint32_t id,
               struct ls_bytes payload)
{
    uint8_t *at = c->control + c->control_len;

    if (c->control_cap - c->control_len < HTTP2_HEAD_BYTES + payload.len)
        return false;
    http2_put_head(at, (uint32_t)payload.len, type, flags, id);
    if (payload.len > 0)
        memcpy(at + HTTP2_HEAD_BYTES, payload.data, payload.len);
    c->control_len += HTTP2_HEAD_BYTES + (uint32_t)payload.len;
    return true;
}

void http2_greet(struct http2_conn *c)
{
    static const uint32_t settings[SETTINGS_COUNT][2] = {
        { HTTP2_ENABLE_PUSH, 0 },
        { HTTP2_INITIAL_WINDOW_SIZE, HTTP2_OUR_WINDOW },
        { HTTP2_MAX_HEADER_LIST_SIZE, HTTP2_LIST_MAX },
    };
    uint8_t bytes[SETTINGS_COUNT * 6] = { 0 };

    for (uint32_t i = 0; i < SETTINGS_COUNT; i++) {
        bytes[i * 6 + 1] = (uint8_t)settings[i][0];
        http2_put32(bytes + (size_t)i * 6 + 2, settings[i][1]);
    }
    memcpy(c->control, HTTP2_PREFACE, HTTP2_PREFACE_BYTES);
    c->control_len = HTTP2_PREFACE_BYTES;
    /* There is room: it is the first that is said. */
    (void)http2_say(c, HTTP2_SETTINGS, 0, 0, (struct ls_bytes){ bytes, sizeof(bytes) });
    http2_put32(bytes, HTTP2_WINDOW_MAX - HTTP2_WINDOW);
    (void)http2_say(c, HTTP2_WINDOW_UPDATE, 0, 0, (struct ls_bytes){ bytes, 4 });
}

bool http2_part(struct http2_conn *c)
{
    uint8_t bytes[8] = { 0 }; /* no stream of the server's was ever looked at */

    if (c->parted || c->streams == NULL)
        return false;
    http2_put32(bytes + 4, c->error);
    c->parted = http2_say(c, HTTP2_GOAWAY, 0, 0, (struct ls_bytes){ bytes, sizeof(bytes) });
    c->over = true;
    return c->parted;
}

static bool window_is_due(const struct http2_conn *c)
{
    return c->received >= HTTP2_UPDATE_AT && c->control_len == 0;
}

static void open_window(struct http2_conn *c)
{
    uint8_t bytes[4];

    http2_put32(bytes, c->received);
    if (http2_say(c, HTTP2_WINDOW_UPDATE, 0, 0, (struct ls_bytes){ bytes, sizeof(bytes) }))
        c->received = 0;
}

/* ---- bodies -----------------------------------------------------------------------------------
 */

static void send_later(struct http2_conn *c, struct http2_stream *s)
{
    uint32_t place = (uint32_t)(s - c->streams);

    s->waits = false;
    s->next = HTTP2_NO_STREAM;
    if (c->sending == HTTP2_NO_STREAM)
        c->sending = place;
    else
        c->streams[c->sending_last].next = place;
    c->sending_last = place;
}

void http2_resume(struct http2_conn *c, struct http2_stream *s)
{
    if (s->waits && s->window > 0)
        send_later(c, s);
}

void http2_forget_body(struct http2_conn *c, struct http2_stream *s)
{
    uint32_t place = (uint32_t)(s - c->streams);
    uint32_t before = HTTP2_NO_STREAM;

    s->body_left = 0;
    if (s->waits)
        return;
    for (uint32_t at = c->sending; at != place; at = c->streams[at].next)
        before = at;
    if (before == HTTP2_NO_STREAM)
        c->sending = s->next;
    else
        c->streams[before].next = s->next;
    if (c->sending_last == place)
        c->sending_last = before;
}

static struct ls_bytes render(struct http2_conn *c, uint32_t request, uint64_t at)
{
    const struct load_variation *varied = http2_request_of(c, request)->varied;

    if (c->rendered_len == SIZE_MAX || c->rendered_at != at || c->rendered_request != request) {
        c->rendered_len = load_variation_render(varied, at, c->rendered);
        c->rendered_at = at;
        c->rendered_request = request;
    }
    return (struct ls_bytes){ c->rendered, c->rendered_len };
}

/* Two parts: what is prepared or rendered, and a file behind it. */
static void body_of(struct http2_conn *c, const struct http2_stream *s, struct ls_bytes parts[2])
{
    const struct load_request *request = http2_request_of(c, s->request);
    const struct load_variation *varied = request->varied;
    struct ls_bytes bytes = request->bytes;

    parts[1] = (struct ls_bytes){ NULL, 0 };
    if (varied != NULL) {
        parts[1] = varied->fixed_body;
        if (varied->table == NULL) {
            /* Only where the head ends has to be found again. */
            (void)http2_encode(c->shared, render(c, s->request, s->at), parts[1].len > 0,
                               c->scratch, &parts[0]);
            return;
        }
        bytes = (struct ls_bytes){ varied->table[s->at].bytes, varied->table[s->at].len };
    }
    parts[0].len = bytes.len - HTTP2_HEAD_BYTES - http2_frame_len(bytes.data);
    parts[0].data = bytes.data + bytes.len - parts[0].len;
}

/* The next frame of the first stream that has a body to send, as far as windows allow. */
static void send_body(struct http2_conn *c)
{
    struct http2_stream *s = &c->streams[c->sending];
    struct ls_bytes parts[2];
    struct ls_bytes part;
    uint64_t n = s->body_left;

    c->sending = s->next;
    if (s->window <= 0) {
        s->waits = true;
        return;
    }
    body_of(c, s, parts);
    part = parts[0];
    if (s->body_sent >= part.len) {
        part = parts[1];
        part.data += s->body_sent - parts[0].len;
        part.len -= (size_t)(s->body_sent - parts[0].len);
    } else {
        part.data += s->body_sent;
        part.len -= (size_t)s->body_sent;
    }
    n = n < part.len ? n : part.len;
    n = n < HTTP2_FRAME_MAX ? n : HTTP2_FRAME_MAX;
    n = n < (uint64_t)s->window ? n : (uint64_t)s->window;
    n = n < (uint64_t)c->window ? n : (uint64_t)c->window;
    s->window -= (int64_t)n;
    c->window -= (int64_t)n;
    s->body_sent += n;
    s->body_left -= n;
    c->idle = 0; /* the windows that the peer opens for a long body are no flood */
    http2_put_head(c->out_head, (uint32_t)n, HTTP2_DATA, s->body_left == 0 ? HTTP2_END_STREAM : 0,
                   s->id);
    c->out = (struct ls_bytes){ c->out_head, HTTP2_HEAD_BYTES };
    c->out_body = (struct ls_bytes){ part.data, (size_t)n };
    if (s->body_left > 0)
        send_later(c, s);
}

/* ---- requests ---------------------------------------------------------------------------------
 */

size_t http2_scratch_bytes(const struct load_workload *workload)
{
    const struct load_http2 *shared = workload->http2;
    size_t block = shared->frame_max + shared->first[0].len + shared->first[1].len +
                   shared->plain[0].len + shared->plain[1].len + RESIZE_BYTES;

    return block + HTTP2_HEAD_BYTES * (block / HTTP2_FRAME_MAX + 1);
}

/* Settings count from where they are acknowledged: not while there are more of them to come. */
static bool is_settling(const struct http2_conn *c)
{
    return c->in_frame && c->type == HTTP2_SETTINGS;
}

static bool may_open(const struct http2_conn *c)
{
    return c->count > 0 && c->settled && !c->going && c->open < c->limit && !is_settling(c);
}

static bool may_send_body(const struct http2_conn *c)
{
    return c->sending != HTTP2_NO_STREAM && c->window > 0 && !is_settling(c);
}

/* The next stream id whose place is free. */
static struct http2_stream *open_stream(struct http2_conn *c)
{
    const struct http2_waiting *waiting = &c->waiting[c->first];
    struct http2_stream *s;

    while ((s = &c->streams[(c->next_id >> 1) & c->mask])->id != 0)
        c->next_id += 2;
    s->id = c->next_id;
    c->next_id += 2;
    /* Past the middle of all ids there are enough for what is in flight, and then for none. */
    if (LS_UNLIKELY(c->next_id > HTTP2_ID_MAX - 4 * (c->mask + 1)))
        c->going = true;
    s->op = waiting->op;
    s->request = waiting->request;
    s->at = waiting->at;
    s->begun = s->headed = s->differs = s->waits = false;
    s->head = (struct http2_head){ 0 };
    s->body_bytes = s->coded_bytes = 0;
    s->received = 0;
    s->window = c->initial_window;
    s->interims = 0;
    s->heard = c->heard;
    s->body_left = 0;
    c->first = c->first + 1 < c->asked ? c->first + 1 : 0;
    c->count--;
    c->open++;
    return s;
}

static unsigned char *put_part(unsigned char *at, struct ls_bytes part)
{
    if (part.len > 0)
        memcpy(at, part.data, part.len);
    return at + part.len;
}

static unsigned char *put_resize(struct http2_conn *c, unsigned char *at)
{
    uint32_t rest = c->table;

    c->say_resize = false;
    if (rest < 31) {
        *at++ = (unsigned char)(0x20 | rest);
        return at;
    }
    *at++ = 0x3f;
    for (rest -= 31; rest >= 0x80; rest >>= 7)
        *at++ = (unsigned char)(0x80 | (rest & 0x7f));
    *at++ = (unsigned char)rest;
    return at;
}

/* Cuts a block that is longer than a frame may be. Returns the bytes of all its frames. */
static size_t cut_block(uint8_t *frames, size_t len, uint32_t id)
{
    size_t block = len - HTTP2_HEAD_BYTES;
    size_t n = (block + HTTP2_FRAME_MAX - 1) / HTTP2_FRAME_MAX;
    unsigned ends = frames[4] & HTTP2_END_STREAM;

    if (n <= 1)
        return len;
    for (size_t i = n; i-- > 0;) { /* from the last: parts move towards the end */
        size_t part = i + 1 < n ? HTTP2_FRAME_MAX : block - (n - 1) * HTTP2_FRAME_MAX;
        uint8_t *at = frames + i * (HTTP2_FRAME_MAX + HTTP2_HEAD_BYTES);

        memmove(at + HTTP2_HEAD_BYTES, frames + HTTP2_HEAD_BYTES + i * HTTP2_FRAME_MAX, part);
        http2_put_head(at, (uint32_t)part, i == 0 ? HTTP2_HEADERS : HTTP2_CONTINUATION,
                       (i == 0 ? ends : 0) | (i + 1 == n ? HTTP2_END_HEADERS : 0), id);
    }
    return len + (n - 1) * HTTP2_HEAD_BYTES;
}

/* The frame with what shared fields need now, in scratch: the first on a connection, or where the
 * peer's table is too small. */
static void compose(struct http2_conn *c, struct http2_stream *s, const uint8_t *frame)
{
    const struct load_http2 *shared = c->shared;
    const struct ls_bytes *form = c->plain ? shared->plain : shared->first;
    uint32_t len = http2_frame_len(frame);
    struct ls_bytes own = { frame + HTTP2_HEAD_BYTES + shared->front,
                            len - shared->front - shared->back };
    uint8_t *at = c->scratch + HTTP2_HEAD_BYTES;

    if (c->say_resize)
        at = put_resize(c, at);
    if (c->greeted && !c->plain) { /* as it stands: its size does not count here */
        at = put_part(at, (struct ls_bytes){ frame + HTTP2_HEAD_BYTES, len });
    } else {
        at = put_part(at, form[0]);
        at = put_part(at, own);
        at = put_part(at, form[1]);
    }
    http2_put_head(c->scratch, (uint32_t)(at - c->scratch - HTTP2_HEAD_BYTES), HTTP2_HEADERS,
                   frame[4], s->id);
    c->out =
        (struct ls_bytes){ c->scratch, cut_block(c->scratch, (size_t)(at - c->scratch), s->id) };
    c->greeted = true;
}

/* The prepared frame of a request, and how many bytes of body follow. */
static const uint8_t *frame_of(struct http2_conn *c, const struct http2_stream *s,
                               uint64_t *out_body)
{
    const struct load_request *request = http2_request_of(c, s->request);
    const struct load_variation *varied = request->varied;
    struct ls_bytes bytes = request->bytes;
    uint64_t more = 0;

    if (varied != NULL) {
        more = varied->fixed_body.len;
        if (varied->table == NULL) {
            struct ls_bytes body;

            (void)http2_encode(c->shared, render(c, s->request, s->at), more > 0, c->encoded,
                               &body);
            *out_body = body.len + more;
            return c->encoded;
        }
        bytes = (struct ls_bytes){ varied->table[s->at].bytes, varied->table[s->at].len };
    }
    *out_body = bytes.len - HTTP2_HEAD_BYTES - http2_frame_len(bytes.data) + more;
    return bytes.data;
}

/* Begins the next request; writes its head to out if there is room. Returns the bytes written. */
static size_t send_request(struct http2_conn *c, uint8_t *out, size_t cap)
{
    struct http2_stream *s = open_stream(c);
    uint64_t body;
    const uint8_t *frame = frame_of(c, s, &body);
    size_t len = HTTP2_HEAD_BYTES + http2_frame_len(frame);

    if (LS_UNLIKELY(http2_request_of(c, s->request)->gunzip)) {
        s->undecoded = NULL;
        gunzip_begin(s->gunzip);
    }
    if (LS_UNLIKELY(body > 0)) {
        s->body_sent = 0;
        s->body_left = body;
        send_later(c, s);
    }
    if (LS_LIKELY(c->greeted && !c->plain && !c->say_resize && len <= cap &&
                  len <= HTTP2_FRAME_MAX)) {
        memcpy(out, frame, len);
        http2_put32(out + 5, s->id);
        return len;
    }
    compose(c, s, frame);
    return 0;
}

/* ---- */

bool http2_has_output(const struct http2_conn *c)
{
    if (c->out.len > 0 || c->out_body.len > 0 || c->control_len > 0)
        return true;
    return !c->over && (window_is_due(c) || may_open(c) || may_send_body(c));
}

static size_t take(struct ls_bytes *from, uint8_t *out, size_t cap)
{
    size_t n = from->len < cap ? from->len : cap;

    memcpy(out, from->data, n);
    from->data += n;
    from->len -= n;
    return n;
}

size_t http2_drain(struct http2_conn *c, uint8_t *out, size_t cap, uint32_t *out_ops)
{
    size_t len = 0;

    while (len < cap) {
        if (c->out.len > 0) {
            len += take(&c->out, out + len, cap - len);
        } else if (c->out_body.len > 0) {
            len += take(&c->out_body, out + len, cap - len);
        } else if (c->control_len > 0) {
            struct ls_bytes control = { c->control, c->control_len };

            len += take(&control, out + len, cap - len);
            c->control_len = (uint32_t)control.len;
            memmove(c->control, control.data, control.len);
        } else if (c->over) {
            break;
        } else if (LS_UNLIKELY(window_is_due(c))) {
            open_window(c);
        } else if (may_send_body(c)) {
            send_body(c);
        } else if (may_open(c)) {
            len += send_request(c, out + len, cap - len);
            if (out_ops != NULL)
                (*out_ops)++;
        } else {
            break;
        }
    }
    return len;
}
