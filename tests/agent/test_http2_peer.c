/* The HTTP/2 driver against nghttp2's server: whole conversations that are drawn from a seed, cut
 * anywhere in both directions. nghttp2 refuses what it may not be sent; each operation has to end
 * as the server meant it. */
#include "tests/support/test.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/http2_conn.h"
#include "tests/support/http2_talk.h"

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }

enum { ROUNDS = 150, STREAMS = 7, OPS = 60, UPLOAD = 150000, EXPECTED = 3000, BODY_MAX = 120000 };

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

/* ---- the requests ------------------------------------------------------------------------------
 */

static unsigned char upload[UPLOAD + 100];
static unsigned char expected[EXPECTED];
static struct load_request requests[4];

static unsigned char letter(uint32_t i)
{
    return (unsigned char)('a' + i % 26);
}

static void make_requests(void)
{
    int head =
        snprintf((char *)upload, 100,
                 "PUT /up HTTP/1.1\r\nHost: x\r\nX-Own: 1\r\nContent-Length: %d\r\n\r\n", UPLOAD);

    for (uint32_t i = 0; i < UPLOAD; i++)
        upload[(uint32_t)head + i] = letter(i);
    for (uint32_t i = 0; i < EXPECTED; i++)
        expected[i] = letter(i);
    requests[0] =
        (struct load_request){ .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n"),
                               .label = "0" };
    requests[1] = (struct load_request){
        .bytes = BYTES("HEAD /h HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n"), .label = "1", .no_body = true
    };
    requests[2] = (struct load_request){ .bytes = { upload, (size_t)head + UPLOAD }, .label = "2" };
    requests[3] = (struct load_request){ .bytes = BYTES("GET /3?x HTTP/1.1\r\nHost: x\r\n\r\n"),
                                         .label = "3",
                                         .expect_body_given = true,
                                         .expect_body = { expected, EXPECTED } };
}

/* ---- the server --------------------------------------------------------------------------------
 */

struct answer {
    int32_t id;
    uint32_t request; /* which of the four */
    uint32_t op;
    uint32_t received; /* of the body */
    uint32_t body;
    uint32_t given;
    bool trailers;
    enum load_outcome outcome;
    uint16_t status;
};

struct server {
    nghttp2_session *session;
    uint32_t seen;   /* requests so far: the n-th is operation n */
    uint32_t window; /* of streams, as it was last said */
    struct answer answers[OPS];
};

static struct answer *answer_of(struct server *server, int32_t id)
{
    for (uint32_t i = 0; i < server->seen; i++) {
        if (server->answers[i].id == id)
            return &server->answers[i];
    }
    return NULL;
}

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct server *server = user;

    (void)session;
    assert_true(server->seen < OPS);
    server->answers[server->seen] =
        (struct answer){ .id = frame->hd.stream_id, .op = server->seen };
    server->seen++;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    static const char *const paths[] = { "/", "/h", "/up", "/3?x" };
    struct answer *a = answer_of(user, frame->hd.stream_id);

    (void)session;
    (void)flags;
    if (name_len != 5 || memcmp(name, ":path", 5) != 0)
        return 0;
    a->request = (uint32_t)LS_ARRAY_LEN(paths);
    for (uint32_t i = 0; i < LS_ARRAY_LEN(paths); i++) {
        if (strlen(paths[i]) == value_len && memcmp(paths[i], value, value_len) == 0)
            a->request = i;
    }
    assert_int_equal(a->request, a->op % LS_ARRAY_LEN(paths)); /* what was asked for, in order */
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *user)
{
    struct answer *a = answer_of(user, id);

    (void)session;
    (void)flags;
    for (size_t i = 0; i < len; i++)
        assert_int_equal(data[i], letter(a->received + (uint32_t)i));
    a->received += (uint32_t)len;
    return 0;
}

static nghttp2_nv nv(const char *name, char *value)
{
    return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
                         .value = (uint8_t *)value,
                         .namelen = strlen(name),
                         .valuelen = strlen(value) };
}

static ssize_t give_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t cap,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct answer *a = source->ptr;
    uint32_t n = a->body - a->given;

    (void)user;
    if (n > cap)
        n = (uint32_t)cap;
    if (n > 1 && draw(4) == 0)
        n = 1 + draw(n);
    for (uint32_t i = 0; i < n; i++)
        out[i] = letter(a->given + i);
    a->given += n;
    if (a->given == a->body) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (a->trailers) {
            char value[] = "y";
            nghttp2_nv trailer = nv("x-trailer", value);

            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            assert_int_equal(nghttp2_submit_trailer(session, id, &trailer, 1), 0);
        }
    }
    return (ssize_t)n;
}

static uint32_t draw_size(const struct answer *a)
{
    if (a->request == 3 && draw(4) > 0)
        return EXPECTED;
    return draw(3) == 0 ? draw(BODY_MAX) : draw(50);
}

static void respond(struct server *server, struct answer *a)
{
    nghttp2_data_provider body = { .source.ptr = a, .read_callback = give_body };
    char status[] = "200";
    char length[16];
    char number[16];
    char date[] = "Mon, 30 Nov 2026 11:48:49 GMT";
    char kind[] = "text/plain";
    nghttp2_nv fields[5];
    size_t n = 0;
    bool bodiless = a->request == 1;

    a->body = draw_size(a);
    a->trailers = draw(6) == 0;
    memcpy(status, draw(10) == 0 ? "404" : draw(20) == 0 ? "299" : "200", 3);
    a->status = (uint16_t)strtoul(status, NULL, 10);
    a->outcome = a->status == 404                         ? LOAD_BAD_STATUS
                 : a->request == 3 && a->body != EXPECTED ? LOAD_BAD_BODY
                                                          : LOAD_OK;
    (void)snprintf(length, sizeof(length), "%u", a->body);
    (void)snprintf(number, sizeof(number), "%u", draw(5));
    fields[n++] = nv(":status", status);
    fields[n++] = nv("date", date);
    if (draw(2) == 0)
        fields[n++] = nv("content-length", length);
    if (draw(2) == 0)
        fields[n++] = nv("content-type", kind);
    if (draw(3) == 0)
        fields[n++] = nv("x-number", number);
    if (draw(8) == 0) {
        char early[] = "103";
        nghttp2_nv interim = nv(":status", early);

        assert_true(nghttp2_submit_headers(server->session, 0, a->id, NULL, &interim, 1, NULL) >=
                    0);
    }
    assert_int_equal(
        nghttp2_submit_response(server->session, a->id, fields, n, bodiless ? NULL : &body), 0);
    if (bodiless)
        a->body = 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct server *server = user;
    struct answer *a;

    if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
        return 0;
    a = answer_of(server, frame->hd.stream_id);
    assert_int_equal(a->received, a->request == 2 ? UPLOAD : 0);
    if (draw(15) == 0) {
        a->outcome = LOAD_RESET;
        assert_int_equal(nghttp2_submit_rst_stream(session, 0, a->id, draw(13)), 0);
    } else {
        respond(server, a);
    }
    return 0;
}

static ssize_t draw_padding(nghttp2_session *session, const nghttp2_frame *frame, size_t most,
                            void *user)
{
    size_t len = frame->hd.length;

    (void)session;
    (void)user;
    return (ssize_t)(draw(3) == 0 && most > len ? len + draw((uint32_t)(most - len)) : len);
}

static void server_begin(struct server *server)
{
    nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1 + draw(10) },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, draw(100000) },
        { NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, draw(3) == 0 ? draw(200) : 4096 },
    };
    uint32_t count = draw(4);
    nghttp2_session_callbacks *callbacks;

    memset(server, 0, sizeof(*server));
    server->window = count > 1 ? settings[1].value : HTTP2_WINDOW;
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_select_padding_callback(callbacks, draw_padding);
    assert_int_equal(nghttp2_session_server_new(&server->session, callbacks, server), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(server->session, 0, settings, count), 0);
}

/* What a server may say at any time. */
static void interfere(struct server *server)
{
    nghttp2_settings_entry settings[] = {
        /* Less of either, and it refuses what is rightly under way. */
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, server->window += draw(20000) },
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 10 },
        { NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, draw(3) == 0 ? draw(200) : 4096 },
    };

    if (draw(30) == 0)
        assert_int_equal(nghttp2_submit_ping(server->session, 0, NULL), 0);
    if (draw(40) == 0)
        assert_int_equal(nghttp2_submit_settings(server->session, 0, settings, 1 + draw(3)), 0);
}

/* ---- the conversation --------------------------------------------------------------------------
 */

/* From the driver to the server, in pieces. True if there was anything. */
static bool to_server(struct http2_talk *talk, struct server *server)
{
    static unsigned char out[20000];
    size_t n = talk->driver->drain(talk->conn, out, 1 + draw(draw(2) == 0 ? 40 : sizeof(out) - 1),
                                   &talk->sent);

    for (size_t at = 0; at < n;) {
        size_t piece = 1 + draw((uint32_t)(n - at));

        assert_int_equal(nghttp2_session_mem_recv(server->session, out + at, piece), piece);
        at += piece;
    }
    return n > 0;
}

static bool to_driver(struct http2_talk *talk, struct server *server)
{
    const uint8_t *data;
    ssize_t n = nghttp2_session_mem_send(server->session, &data);

    assert_true(n >= 0);
    for (ssize_t at = 0; at < n;) {
        size_t piece = 1 + draw((uint32_t)(n - at));
        enum ls_err rc = talk->driver->feed(talk->conn, (struct ls_bytes){ data + at, piece });

        assert_true(rc == LS_OK || rc == LS_EAGAIN);
        at += (ssize_t)piece;
    }
    return n > 0;
}

/* Submits what there is room for; operation n is request n. */
static void submit_some(struct http2_talk *talk)
{
    while (talk->submitted < OPS) {
        uint32_t op = talk->submitted++;

        if (talk->driver->submit(talk->conn, op, op) != LS_OK) {
            talk->submitted--;
            return;
        }
    }
}

static void check_ends(const struct http2_talk *talk, const struct server *server)
{
    assert_int_equal(server->seen, OPS);
    assert_int_equal(talk->sent, OPS);
    assert_int_equal(talk->ended, OPS);
    for (uint32_t i = 0; i < OPS; i++) {
        const struct answer *a = &server->answers[i];
        const struct agent_reply *reply = &talk->replies[i];

        if (reply->outcome != a->outcome)
            fail_msg("operation %u: %s, the server meant %s: %s", i,
                     load_outcome_name(reply->outcome), load_outcome_name(a->outcome), reply->why);
        if (a->outcome == LOAD_RESET)
            continue;
        assert_int_equal(reply->status, a->status);
        assert_int_equal(reply->body_bytes, a->body);
        assert_true(talk->begun[i]);
    }
}

static void converse(const struct http2_work *work)
{
    static struct http2_talk talk;
    static struct server server;
    unsigned idle = 0;

    http2_talk_begin(&talk, work);
    server_begin(&server);
    while (talk.ended < OPS && idle < 100) {
        bool moved = false;

        submit_some(&talk);
        interfere(&server);
        if (draw(2) == 0)
            moved = to_server(&talk, &server);
        if (draw(2) == 0)
            moved = to_driver(&talk, &server) || moved;
        idle = moved ? 0 : idle + 1;
        if (idle == 50) { /* windows that SETTINGS have closed */
            nghttp2_settings_entry open[] = { { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                                                server.window += 100000 },
                                              { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 10 } };

            assert_int_equal(nghttp2_submit_settings(server.session, 0, open, 2), 0);
        }
    }
    check_ends(&talk, &server);
    assert_true(talk.driver->part(talk.conn));
    while (to_server(&talk, &server)) {}
    assert_int_equal(nghttp2_session_want_read(server.session), 0); /* it has understood GOAWAY */
    http2_talk_end(&talk);
    nghttp2_session_del(server.session);
}

static void conversations_with_nghttp2_end_as_it_means_them(void **state)
{
    struct http2_work work;

    (void)state;
    make_requests();
    http2_work_init(&work, requests, LS_ARRAY_LEN(requests), STREAMS);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        seed = round;
        converse(&work);
    }
    http2_work_fini(&work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_with_nghttp2_end_as_it_means_them),
    };

    return cmocka_run_group_tests_name("agent.http2_peer", tests, NULL, NULL);
}
