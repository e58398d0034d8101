/* Frames about the connection (RFC 9113, 6): SETTINGS, PING, GOAWAY, windows, streams that are
 * reset. */
#include "agent/load/http2_conn.h"
#include "agent/load/http2_use.h"

#define ID_MASK 0x7fffffffu

static enum ls_err fail(struct http2_conn *c, enum http2_error error, const char *why)
{
    return http2_fail(c, NULL, error, why);
}

/* The peer's windows of new streams are now so large: those that are open change by as much. */
static enum ls_err set_initial_window(struct http2_conn *c, uint32_t value)
{
    int64_t change = (int64_t)value - c->initial_window;

    if (value > HTTP2_WINDOW_MAX)
        return fail(c, HTTP2_FLOW_CONTROL_ERROR, "SETTINGS with a window that is too large");
    c->initial_window = value;
    for (uint32_t i = 0; i <= c->mask; i++) {
        struct http2_stream *s = &c->streams[i];

        if (s->id == 0)
            continue;
        s->window += change;
        if (s->window > HTTP2_WINDOW_MAX)
            return http2_fail(c, s, HTTP2_FLOW_CONTROL_ERROR, "SETTINGS make a window too large");
        http2_resume(c, s);
    }
    return LS_OK;
}

static void set_table(struct http2_conn *c, uint32_t value)
{
    if (value >= c->table)
        return; /* more than we use */
    c->say_resize = true;
    c->table = value;
    if (value < c->shared->table_bytes) {
        c->plain = true;
        c->table = 0;
    }
}

static enum ls_err take_setting(struct http2_conn *c, const uint8_t *entry)
{
    uint32_t value = http2_get32(entry + 2);

    switch (entry[0] << 8 | entry[1]) {
    case HTTP2_HEADER_TABLE_SIZE:
        set_table(c, value);
        return LS_OK;
    case HTTP2_ENABLE_PUSH:
        return value == 0 ? LS_OK : fail(c, HTTP2_PROTOCOL_ERROR, "a server that enables push");
    case HTTP2_MAX_CONCURRENT_STREAMS:
        c->limit = value < c->asked ? value : c->asked;
        return LS_OK;
    case HTTP2_INITIAL_WINDOW_SIZE:
        return set_initial_window(c, value);
    case HTTP2_MAX_FRAME_SIZE:
        return value >= HTTP2_FRAME_MAX && value < 1u << 24
                   ? LS_OK
                   : fail(c, HTTP2_PROTOCOL_ERROR, "SETTINGS with a frame size that cannot be");
    default:
        return LS_OK;
    }
}

enum ls_err http2_settings_bytes(struct http2_conn *c, struct ls_bytes in)
{
    while (in.len > 0) {
        enum ls_err rc;

        c->small[c->small_len++] = *in.data++;
        in.len--;
        if (c->small_len < 6)
            continue;
        c->small_len = 0;
        rc = take_setting(c, c->small);
        if (rc != LS_OK)
            return rc;
    }
    return LS_OK;
}

/* None at all is a beginning, to be changed. */
static void count_granted(struct load_http2_use *use, uint32_t streams)
{
    if (streams == 0)
        return;
    if (use->granted_least == 0 || streams < use->granted_least)
        use->granted_least = streams;
    if (streams > use->granted_most)
        use->granted_most = streams;
}

enum ls_err http2_settings_end(struct http2_conn *c)
{
    if ((c->flags & HTTP2_ACK) != 0) {
        c->acked = true;
        return LS_OK;
    }
    if (!c->settled)
        c->use->connections++;
    c->settled = true;
    count_granted(c->use, c->limit);
    return http2_say(c, HTTP2_SETTINGS, HTTP2_ACK, 0, (struct ls_bytes){ NULL, 0 })
               ? LS_OK
               : fail(c, HTTP2_ENHANCE_YOUR_CALM, HTTP2_FLOOD);
}

enum ls_err http2_ping_end(struct http2_conn *c)
{
    if ((c->flags & HTTP2_ACK) != 0)
        return LS_OK;
    c->use->pings++;
    return http2_say(c, HTTP2_PING, HTTP2_ACK, 0, (struct ls_bytes){ c->small, 8 })
               ? LS_OK
               : fail(c, HTTP2_ENHANCE_YOUR_CALM, HTTP2_FLOOD);
}

enum ls_err http2_reset_end(struct http2_conn *c)
{
    struct http2_stream *s = http2_stream_of(c, c->id);
    uint32_t code = http2_get32(c->small);
    struct agent_reply reply = { .outcome = LOAD_RESET, .why = http2_reset_text(code) };

    if (s == NULL)
        return http2_idle_frame(c); /* it was over before */
    c->use->resets[code < HTTP2_ERROR_COUNT ? code : HTTP2_ERROR_COUNT]++;
    reply.status = s->head.status;
    reply.body_bytes = s->body_bytes;
    http2_finish(c, s, &reply);
    return LS_OK;
}

/* No stream is opened any more, and those behind the last one are not looked at (RFC 9113, 6.8). */
enum ls_err http2_goaway_end(struct http2_conn *c)
{
    const struct agent_reply reply = { .outcome = LOAD_ABORTED,
                                       .why = "the server sent GOAWAY before this request",
                                       .again = true };
    uint32_t last = http2_get32(c->small) & ID_MASK;
    uint32_t code = http2_get32(c->small + 4);

    c->going = true;
    c->use->goaways[code < HTTP2_ERROR_COUNT ? code : HTTP2_ERROR_COUNT]++;
    for (uint32_t i = 0; i <= c->mask; i++) {
        struct http2_stream *s = &c->streams[i];

        if (s->id <= last)
            continue;
        c->reset_some = true;
        c->use->retried++;
        http2_finish(c, s, &reply);
    }
    return http2_idle_frame(c);
}

enum ls_err http2_window_end(struct http2_conn *c)
{
    uint32_t more = http2_get32(c->small) & ID_MASK;
    struct http2_stream *s = c->id != 0 ? http2_stream_of(c, c->id) : NULL;

    if (c->id == 0) {
        c->window += more;
        if (more == 0 || c->window > HTTP2_WINDOW_MAX)
            return fail(c, more == 0 ? HTTP2_PROTOCOL_ERROR : HTTP2_FLOW_CONTROL_ERROR,
                        "a window is opened by nothing, or too far");
        return LS_OK;
    }
    if (s == NULL)
        return http2_idle_frame(c); /* it was over before */
    s->window += more;
    if (more == 0 || s->window > HTTP2_WINDOW_MAX) {
        http2_malformed(c, s, more == 0 ? HTTP2_PROTOCOL_ERROR : HTTP2_FLOW_CONTROL_ERROR,
                        "a window is opened by nothing, or too far");
        return LS_OK;
    }
    http2_resume(c, s);
    return s->body_left > 0 ? LS_OK : http2_idle_frame(c);
}
