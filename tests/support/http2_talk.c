#include "tests/support/http2_talk.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/http2_frame.h"
#include "tests/support/test.h"

/* ---- workload ---------------------------------------------------------------------------------
 */

void http2_work_init(struct http2_work *work, const struct load_request *requests, size_t count,
                     uint32_t streams)
{
    struct ls_bytes heads[TALK_REQUESTS];
    size_t bytes = 0;
    unsigned char *at;

    memset(work, 0, sizeof(*work));
    assert_true(count <= TALK_REQUESTS);
    for (size_t i = 0; i < count; i++) {
        const char *end = strstr((const char *)requests[i].bytes.data, "\r\n\r\n");

        assert_non_null(end);
        heads[i] = (struct ls_bytes){ requests[i].bytes.data,
                                      (size_t)(end + 2 - (const char *)requests[i].bytes.data) };
        bytes += http2_encoded_max(requests[i].bytes.len);
    }
    assert_int_equal(http2_shared_create(heads, count, false, &work->shared, NULL), LS_OK);
    at = work->frames = malloc(bytes + 1);
    assert_non_null(at);
    for (size_t i = 0; i < count; i++) {
        struct ls_bytes body;
        size_t len = http2_encode(work->shared, requests[i].bytes, false, at, &body);

        if (len > work->shared->frame_max)
            work->shared->frame_max = (uint32_t)len;
        if (body.len > 0)
            memcpy(at + len, body.data, body.len);
        work->requests[i] = requests[i];
        work->requests[i].bytes = (struct ls_bytes){ at, len + body.len };
        at += len + body.len;
    }
    work->workload = (struct load_workload){ .driver = "http2",
                                             .http2 = work->shared,
                                             .requests = work->requests,
                                             .request_count = (uint32_t)count,
                                             .pipeline = streams,
                                             .connections = 1 };
}

void http2_work_fini(struct http2_work *work)
{
    http2_shared_destroy(work->shared);
    free(work->frames);
}

/* ---- talk -------------------------------------------------------------------------------------
 */

static void on_done(void *ctx, uint32_t op, const struct agent_reply *reply)
{
    struct http2_talk *talk = ctx;

    assert_true(op < talk->submitted);
    assert_false(talk->ends[op]);
    assert_non_null(reply->why);
    assert_int_equal(reply->outcome == LOAD_OK, reply->why[0] == '\0');
    talk->ends[op] = true;
    talk->replies[op] = *reply;
    talk->ended++;
}

static void on_began(void *ctx, uint32_t op)
{
    struct http2_talk *talk = ctx;

    assert_true(op < talk->submitted);
    assert_false(talk->begun[op]);
    talk->begun[op] = true;
}

void http2_talk_begin(struct http2_talk *talk, const struct http2_work *work)
{
    uint32_t most = 0;

    memset(talk, 0, sizeof(*talk));
    talk->driver = agent_driver_find("http2");
    talk->env = (struct agent_driver_env){ .workload = &work->workload,
                                           .done = on_done,
                                           .ctx = talk,
                                           .began = on_began,
                                           .http2 = &talk->use };
    talk->conn = calloc(1, talk->driver->conn_size);
    talk->said = malloc(TALK_BYTES_MAX);
    assert_non_null(talk->conn);
    assert_non_null(talk->said);
    assert_int_equal(talk->driver->open(talk->conn, &talk->env, &most), LS_OK);
    assert_int_equal(most, work->workload.pipeline);
}

void http2_talk_end(struct http2_talk *talk)
{
    talk->driver->close(talk->conn);
    free(talk->conn);
    free(talk->said);
}

void http2_talk_submit(struct http2_talk *talk, uint32_t count)
{
    for (; count > 0; count--) {
        uint32_t op = talk->submitted++;

        assert_true(op < TALK_OPS);
        if (talk->driver->submit(talk->conn, op, op) != LS_OK) {
            talk->submitted--;
            return;
        }
    }
}

void http2_talk_drain(struct http2_talk *talk)
{
    size_t n;

    do {
        assert_true(talk->said_len + 20000 < TALK_BYTES_MAX);
        n = talk->driver->drain(talk->conn, talk->said + talk->said_len, 20000, &talk->sent);
        talk->said_len += n;
    } while (n > 0);
}

void http2_talk_feed(struct http2_talk *talk, struct ls_bytes in, size_t step)
{
    talk->rc = LS_OK;
    while (in.len > 0 && (talk->rc == LS_OK || talk->rc == LS_EAGAIN)) {
        size_t n = in.len < step ? in.len : step;
        unsigned char *copy = malloc(n); /* so that a sanitizer sees reads beyond it */

        assert_non_null(copy);
        memcpy(copy, in.data, n);
        talk->rc = talk->driver->feed(talk->conn, (struct ls_bytes){ copy, n });
        free(copy);
        http2_talk_drain(talk);
        in.data += n;
        in.len -= n;
    }
}

/* ---- frames of text ---------------------------------------------------------------------------
 */

static const char letters[] = "DHPRSUIGWC";

static size_t payload_of(const char **text, unsigned char *out)
{
    size_t len = 0;
    unsigned byte;

    while (**text != '\0' && **text != ';') {
        if (**text == '\'') {
            for (++*text; **text != '\''; ++*text)
                out[len++] = (unsigned char)**text;
            ++*text;
        } else if (isspace((unsigned char)**text)) {
            ++*text;
        } else {
            if (sscanf(*text, "%2x", &byte) != 1)
                fail_msg("no payload: %s", *text);
            out[len++] = (unsigned char)byte;
            *text += 2;
        }
    }
    if (**text == ';')
        ++*text;
    return len;
}

size_t http2_frames(const char *text, unsigned char *out, size_t cap)
{
    size_t len = 0;

    while (*text != '\0') {
        unsigned times = 1;
        unsigned id = 0;
        unsigned flags = 0;
        char type;
        int used = 0;
        size_t head;
        size_t n;

        if (sscanf(text, " %u x%n", &times, &used) == 1 && used > 0)
            text += used;
        else
            times = 1;
        used = 0;
        assert_int_equal(sscanf(text, " %c%n", &type, &used), 1);
        text += used;
        head = type == 'X' ? 0 : HTTP2_HEAD_BYTES;
        if (head > 0) {
            assert_int_equal(sscanf(text, " %u %x%n", &id, &flags, &used), 2);
            text += used;
        }
        assert_true(cap - len > 70000);
        n = payload_of(&text, out + len + head);
        if (head > 0)
            http2_put_head(out + len, (uint32_t)n,
                           type == 'E' ? (enum http2_type)0xef
                                       : (enum http2_type)(strchr(letters, type) - letters),
                           flags, id);
        for (; times > 1; times--) {
            memcpy(out + len + head + n, out + len, head + n);
            len += head + n;
            assert_true(cap - len > 70000);
        }
        len += head + n;
        while (*text == ' ' || *text == '\n')
            text++;
    }
    return len;
}

/* ---- what it came to --------------------------------------------------------------------------
 */

const char *http2_talk_replies(const struct http2_talk *talk, char out[TALK_TEXT])
{
    size_t len = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < talk->submitted; i++) {
        const struct agent_reply *reply = &talk->replies[i];
        const char *bar = i > 0 ? " | " : "";

        if (!talk->ends[i])
            len += (size_t)snprintf(out + len, TALK_TEXT - len, "%s-", bar);
        else if (reply->again)
            len += (size_t)snprintf(out + len, TALK_TEXT - len, "%sagain", bar);
        else
            len += (size_t)snprintf(out + len, TALK_TEXT - len, "%s%s %u %llu%s%s", bar,
                                    load_outcome_name(reply->outcome), reply->status,
                                    (unsigned long long)reply->body_bytes,
                                    reply->why[0] != '\0' ? ": " : "", reply->why);
    }
    return out;
}

static size_t say_frame(const unsigned char *frame, size_t payload, char *out, size_t cap)
{
    static const char *const names[] = { "DATA",          "HEADERS",      "PRIORITY", "RST_STREAM",
                                         "SETTINGS",      "PUSH_PROMISE", "PING",     "GOAWAY",
                                         "WINDOW_UPDATE", "CONTINUATION" };
    unsigned type = frame[3];
    uint32_t id = http2_get32(frame + 5);
    const unsigned char *content = frame + HTTP2_HEAD_BYTES;

    assert_true(type < LS_ARRAY_LEN(names));
    if (type == HTTP2_RST_STREAM)
        return (size_t)snprintf(out, cap, "RST_STREAM %u %s", id,
                                load_http2_code_name(http2_get32(content)));
    if (type == HTTP2_GOAWAY)
        return (size_t)snprintf(out, cap, "GOAWAY %s",
                                load_http2_code_name(http2_get32(content + 4)));
    if (type == HTTP2_WINDOW_UPDATE)
        return (size_t)snprintf(out, cap, "WINDOW_UPDATE %u %u", id, http2_get32(content));
    if (type == HTTP2_PING)
        return (size_t)snprintf(out, cap, "PING ack %.*s", (int)payload, (const char *)content);
    return (size_t)snprintf(out, cap, "%s%s", names[type],
                            (frame[4] & HTTP2_ACK) != 0 ? " ack" : "");
}

const char *http2_talk_said(const struct http2_talk *talk, char out[TALK_TEXT])
{
    const unsigned char *at = talk->said + HTTP2_PREFACE_BYTES;
    const unsigned char *end = talk->said + talk->said_len;
    unsigned number = 0;
    size_t len = 0;

    out[0] = '\0';
    assert_true(talk->said_len >= HTTP2_PREFACE_BYTES);
    for (; end - at >= (ptrdiff_t)HTTP2_HEAD_BYTES; number++) {
        size_t payload = http2_frame_len(at);

        assert_true((size_t)(end - at) >= HTTP2_HEAD_BYTES + payload);
        /* The first two are SETTINGS and the connection's window. */
        if (number >= 2 && at[3] != HTTP2_DATA && at[3] != HTTP2_HEADERS &&
            at[3] != HTTP2_CONTINUATION) {
            if (len > 0)
                len += (size_t)snprintf(out + len, TALK_TEXT - len, ", ");
            len += say_frame(at, payload, out + len, TALK_TEXT - len);
        }
        at += HTTP2_HEAD_BYTES + payload;
    }
    assert_ptr_equal(at, end);
    return out;
}
