/* Frames of WebSocket: RFC 6455's examples, masks, limits, UTF-8. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/ws_frame.h"
#include "agent/load/ws_handshake.h"
#include "common/rng.h"
#include "common/utf8.h"
#include "tests/support/guard.h"

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }

/* ---- writing --------------------------------------------------------------------------------- */

/* Section 5.7: a single-frame masked text message, "Hello". */
static void a_masked_hello_is_that_of_the_rfc(void **state)
{
    static const unsigned char want[] = { 0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d,
                                          0x7f, 0x9f, 0x4d, 0x51, 0x58 };
    static const unsigned char mask[4] = { 0x37, 0xfa, 0x21, 0x3d };
    unsigned char out[WS_HEAD_MAX + 5];
    size_t len = ws_head_write(out, WS_FIN | WS_TEXT, 5, mask);

    (void)state;
    ws_mask(out + len, (const unsigned char *)"Hello", 5, mask, 0);
    assert_int_equal(len + 5, sizeof(want));
    assert_memory_equal(out, want, sizeof(want));
}

static void lengths_are_written_in_their_shortest_form(void **state)
{
    static const struct {
        uint64_t len;
        size_t head;
        unsigned second;
    } rows[] = { { 0, 6, 0x80 },
                 { 125, 6, 0xfd },
                 { 126, 8, 0xfe },
                 { UINT16_MAX, 8, 0xfe },
                 { UINT16_MAX + 1, 14, 0xff },
                 { UINT64_MAX >> 1, 14, 0xff } };
    static const unsigned char mask[4] = { 1, 2, 3, 4 };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        unsigned char out[WS_HEAD_MAX];
        uint64_t seen = 0;

        assert_int_equal(ws_head_write(out, WS_FIN | WS_BINARY, rows[i].len, mask), rows[i].head);
        assert_int_equal(out[1], rows[i].second);
        for (size_t k = 2; k < rows[i].head - 4; k++)
            seen = seen << 8 | out[k];
        assert_int_equal(rows[i].head == 6 ? (out[1] & 0x7fu) : seen, rows[i].len);
        assert_memory_equal(out + rows[i].head - 4, mask, 4);
    }
}

/* What is masked by words is what is masked byte by byte, wherever it begins and ends. */
static void masks_do_not_depend_on_words(void **state)
{
    unsigned char in[300], out[308], want[300];
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 7, 0);
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (unsigned char)ls_rng_next(&rng);
    for (unsigned round = 0; round < 3000; round++) {
        size_t from = ls_rng_below(&rng, 40);
        size_t len = ls_rng_below(&rng, sizeof(in) - from);
        uint64_t at = ls_rng_next(&rng);
        uint64_t random = ls_rng_next(&rng);
        size_t skew = ls_rng_below(&rng, 8);
        unsigned char mask[4];

        memcpy(mask, &random, 4);
        for (size_t i = 0; i < len; i++)
            want[i] = in[from + i] ^ mask[(at + i) % 4];
        ws_mask(out + skew, in + from, len, mask, at);
        assert_memory_equal(out + skew, want, len);
        ws_mask(out + skew, out + skew, len, mask, at); /* in place, and back */
        assert_memory_equal(out + skew, in + from, len);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

struct seen {
    char text[512];
    struct ws_reader reader;
};

static void see(struct seen *s, const char *what)
{
    size_t len = strlen(s->text);

    assert_true(len + strlen(what) < sizeof(s->text));
    memcpy(s->text + len, what, strlen(what) + 1);
}

static void read_all(struct seen *s, struct ls_bytes in)
{
    struct ls_bytes piece;
    char word[200];

    for (;;) {
        switch (ws_read(&s->reader, &in, &piece)) {
        case WS_MORE:
            return;
        case WS_PIECE:
            (void)snprintf(word, sizeof(word), "%.*s", (int)piece.len, (const char *)piece.data);
            see(s, word);
            break;
        case WS_MESSAGE_END:
            see(s, s->reader.type == WS_TEXT ? "/t " : "/b ");
            break;
        case WS_CONTROL:
            (void)snprintf(word, sizeof(word), "[%x %.*s] ", s->reader.opcode,
                           s->reader.control_len, (const char *)s->reader.control);
            see(s, word);
            break;
        case WS_BAD:
            (void)snprintf(word, sizeof(word), "%u %s", s->reader.code, s->reader.why);
            see(s, word);
            return;
        }
    }
}

static const struct {
    const char *name;
    struct ls_bytes in;
    const char *want;
} streams[] = {
    { "hello of 5.7", BYTES("\x81\x05Hello"), "Hello/t " },
    { "fragments of 5.7", BYTES("\x01\x03Hel\x80\x02lo"), "Hello/t " },
    { "ping and pong of 5.7", BYTES("\x89\x05Hello\x8a\x05Hello"), "[9 Hello] [a Hello] " },
    { "control between fragments", BYTES("\x01\x03Hel\x89\x00\x80\x02lo"), "Hel[9 ] lo/t " },
    { "empty messages", BYTES("\x81\x00\x82\x00\x01\x00\x00\x00\x80\x00"), "/t /b /t " },
    { "close with a reason",
      BYTES("\x88\x05\x03\xe8"
            "bye"),
      "[8 \x03\xe8"
      "bye] " },
    { "masked", BYTES("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"),
      "1002 a masked frame: a server's must not be" },
    { "rsv1 without an extension", BYTES("\xc1\x00"), "1002 a frame with reserved bits set" },
    { "rsv2", BYTES("\xa1\x00"), "1002 a frame with reserved bits set" },
    { "rsv3 of a ping", BYTES("\x99\x00"), "1002 a frame with reserved bits set" },
    { "reserved data opcode", BYTES("\x83\x00"), "1002 a frame with a reserved opcode" },
    { "reserved control opcode", BYTES("\x8b\x00"), "1002 a frame with a reserved opcode" },
    { "ping in fragments", BYTES("\x09\x00"), "1002 a control frame in fragments" },
    { "long ping", BYTES("\x89\x7e\x00\x7e"), "1002 a control frame of more than 125 bytes" },
    { "continuation of nothing", BYTES("\x80\x01x"), "1002 a continuation of no message" },
    { "message within another", BYTES("\x01\x01x\x81\x01y"),
      "x1002 a message within the fragments of another" },
    { "125 in 16 bits", BYTES("\x81\x7e\x00\x7d"),
      "1002 a length that is not in its shortest form" },
    { "65535 in 64 bits", BYTES("\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xff"),
      "1002 a length that is not in its shortest form" },
    { "negative length", BYTES("\x81\x7f\x80\x00\x00\x00\x00\x00\x00\x00"),
      "1002 a length that is not in its shortest form" },
    { "giant length", BYTES("\x81\x7f\x3f\xff\xff\xff\xff\xff\xff\xff"),
      "1009 a message of a length beyond all expectation" },
    { "fragments that add up to too much", BYTES("\x01\x02xx\x80\x7e\x03\xff"),
      "xx1009 a message of a length beyond all expectation" },
};

static void every_stream_reads_alike_however_it_is_cut(void **state)
{
    struct guard guard;

    (void)state;
    guard_init(&guard, 64);
    for (size_t i = 0; i < LS_ARRAY_LEN(streams); i++) {
        struct ls_bytes in = streams[i].in;

        for (size_t at = 0; at <= in.len; at++) {
            struct seen s = { .reader = { .limit = 1024 } };

            read_all(&s, guard_copy(&guard, (struct ls_bytes){ in.data, at }));
            if (s.reader.why == NULL)
                read_all(&s, guard_copy(&guard, (struct ls_bytes){ in.data + at, in.len - at }));
            if (strcmp(s.text, streams[i].want) != 0)
                fail_msg("%s, split at %zu: want \"%s\", seen \"%s\"", streams[i].name, at,
                         streams[i].want, s.text);
        }
    }
    guard_fini(&guard);
}

static void a_whole_frame_is_taken_at_once_and_only_that(void **state)
{
    static unsigned char long_one[4 + 65535] = { 0x82, 126, 0xff, 0xff };
    size_t at, len;

    (void)state;
    assert_true(ws_whole((struct ls_bytes)BYTES("\x81\x05Hello..."), 0x81, &at, &len));
    assert_int_equal(at, 2);
    assert_int_equal(len, 5);
    assert_true(ws_whole((struct ls_bytes){ long_one, sizeof(long_one) }, 0x82, &at, &len));
    assert_int_equal(at, 4);
    assert_int_equal(len, 65535);
    assert_false(ws_whole((struct ls_bytes){ long_one, sizeof(long_one) - 1 }, 0x82, &at, &len));
    assert_false(ws_whole((struct ls_bytes)BYTES("\x81\x05Hell"), 0x81, &at, &len));
    assert_false(ws_whole((struct ls_bytes)BYTES("\x81"), 0x81, &at, &len));
    assert_false(ws_whole((struct ls_bytes)BYTES("\x01\x00"), 0x81, &at, &len));
    assert_false(ws_whole((struct ls_bytes)BYTES("\x81\x80...."), 0x81, &at, &len));
    assert_false(ws_whole((struct ls_bytes)BYTES("\x81\x7e\x00\x01x"), 0x81, &at, &len));
}

static void close_codes_are_those_that_may_be_sent(void **state)
{
    (void)state;
    assert_int_equal(ws_close_code_read(NULL, 0), WS_CLOSE_NONE);
    assert_int_equal(ws_close_code_read((const unsigned char *)"\x03", 1), 0);
    assert_int_equal(ws_close_code_read((const unsigned char *)"\x03\xe8ok", 4), 1000);
    assert_int_equal(ws_close_code_read((const unsigned char *)"\x03\xe8\xff", 3), 0);
    for (unsigned code = 0; code < 6000; code++) {
        unsigned char bytes[2] = { (unsigned char)(code >> 8), (unsigned char)code };
        bool may = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
                   (code >= 3000 && code <= 4999);

        assert_int_equal(ws_close_code_read(bytes, 2), may ? code : 0);
    }
}

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* The other reader of UTF-8 in this tree, which takes no NUL. */
static bool is_text(struct ls_bytes text)
{
    while (text.len > 0) {
        size_t n = *text.data == 0 ? 1 : ls_utf8_char_len(text.data, text.len);

        if (n == 0)
            return false;
        text.data += n;
        text.len -= n;
    }
    return true;
}

static void utf8_is_judged_alike_in_any_slicing(void **state)
{
    static const struct ls_bytes texts[] = {
        BYTES("Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!"),
        BYTES("\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5"),
        BYTES("\xed\xa0\x80"),
        BYTES("\xf4\x8f\xbf\xbf"),
        BYTES("\xf4\x90\x80\x80"),
        BYTES("\xc0\xaf"),
        BYTES("\xe0\x80\xaf"),
        BYTES("\xf0\x80\x80\xaf"),
        BYTES("\xff"),
        BYTES("\x80"),
        BYTES("eight by eight\xe2\x82"),
        BYTES("\xf8\x88\x80\x80\x80"),
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(texts); i++) {
        for (size_t at = 0; at <= texts[i].len; at++) {
            uint32_t one = ws_utf8_check(0, (struct ls_bytes){ texts[i].data, at });
            uint32_t all =
                ws_utf8_check(one, (struct ls_bytes){ texts[i].data + at, texts[i].len - at });

            assert_int_equal(all == 0, is_text(texts[i]));
        }
    }
}

static void utf8_agrees_with_the_other_reader_on_random_bytes(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 11, 0);
    for (unsigned round = 0; round < 200000; round++) {
        unsigned char text[12];
        size_t len = ls_rng_below(&rng, sizeof(text) + 1);

        for (size_t i = 0; i < len; i++) {
            uint64_t random = ls_rng_next(&rng);

            /* Mostly bytes of characters, so that some are whole. */
            text[i] = (unsigned char)(random % 3 == 0   ? random >> 8
                                      : random % 3 == 1 ? 0x80 | (random >> 8 & 0x3f)
                                                        : 0xe0 | (random >> 8 & 0x17));
        }
        assert_int_equal(ws_utf8_check(0, (struct ls_bytes){ text, len }) == 0,
                         is_text((struct ls_bytes){ text, len }));
    }
}

/* ---- the handshake --------------------------------------------------------------------------- */

#define PLACE "AAAAAAAAAAAAAAAAAAAAAA=="
#define GOOD                                                                        \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade" \
    "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"

static const struct {
    const char *in;
    const char *want; /* "": agreed */
    bool deflate;     /* offered */
    const char *subprotocol;
} answers[] = {
    { GOOD "\r\n", "", false, NULL },
    { "HTTP/1.1 100 Continue\r\n\r\n" GOOD "\r\n", "", false, NULL },
    { "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1-100 x\r\n\r\n" GOOD "\r\n",
      "the answer to the upgrade is not HTTP", false, NULL },
    { "HTTP/1.1 101 \r\nUPGRADE:WebSocket\r\nconnection:keep-alive,upgrade\r\n"
      "sec-websocket-accept:  s3pPLMBiTxaQ9kYGzzhZRbK+xOo=  \r\n\r\n",
      "", false, NULL },
    { GOOD "Sec-WebSocket-Protocol: chat\r\n\r\n", "", false, "chat" },
    { GOOD "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", "", true, NULL },
    { GOOD "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; "
           "client_no_context_takeover; server_max_window_bits=10\r\n\r\n",
      "", true, NULL },
    { GOOD "\r\n", "", true, NULL }, /* it need not agree */
    { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "the server did not agree to the upgrade",
      false, NULL },
    { "PRI * HTTP/2.0", "the answer to the upgrade is not HTTP", false, NULL },
    { "\x81\x05Hello", "the answer to the upgrade is not HTTP", false, NULL },
    { "HTTP/1.1 one\r\n\r\n", "the answer to the upgrade is not HTTP", false, NULL },
    { "HTTP/1.1 101 \r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
      "the answer has no \"upgrade: websocket\"", false, NULL },
    { "HTTP/1.1 101 \r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
      "the answer has no \"connection: upgrade\"", false, NULL },
    { "HTTP/1.1 101 \r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
      "the answer has no sec-websocket-accept", false, NULL },
    { "HTTP/1.1 101 \r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
      "sec-websocket-accept is not the answer to our key", false, NULL },
    { GOOD "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
      "sec-websocket-accept is there twice", false, NULL },
    { GOOD "Sec-WebSocket-Protocol: chat\r\n\r\n", "a subprotocol that was not asked for", false,
      NULL },
    { GOOD "Sec-WebSocket-Protocol: Chat\r\n\r\n", "a subprotocol that was not asked for", false,
      "chat" },
    { GOOD "\r\n", "the server did not agree to the subprotocol", false, "chat" },
    { GOOD "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
      "an extension that was not asked for", false, NULL },
    { GOOD "Sec-WebSocket-Extensions: permessage-deflate, x\r\n\r\n",
      "an extension that was not asked for", true, NULL },
    { GOOD "Sec-WebSocket-Extensions: x\r\n\r\n", "an extension that was not asked for", true,
      NULL },
    { GOOD "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=9\r\n\r\n",
      "permessage-deflate with a parameter that was not offered", true, NULL },
};

static void answers_to_the_upgrade_are_judged(void **state)
{
    static const unsigned char nonce[] = "the sample nonce";

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(answers); i++) {
        const struct load_websocket websocket = {
            .handshake = BYTES(PLACE),
            .deflate = answers[i].deflate,
            .server_takeover = true,
            .subprotocol = answers[i].subprotocol,
        };
        size_t len = strlen(answers[i].in);

        for (size_t step = 1; step <= len; step += step) {
            struct ws_handshake *h = NULL;
            struct ws_agreement agreement = { .why = "it never ended" };
            enum ws_handshake_step end = WS_SHAKE_MORE;

            assert_int_equal(ws_handshake_create(&websocket, 0, nonce, &h), LS_OK);
            for (size_t at = 0; at < len && end == WS_SHAKE_MORE; at += step) {
                struct ls_bytes in = { (const unsigned char *)answers[i].in + at,
                                       len - at < step ? len - at : step };

                end = ws_handshake_take(h, &websocket, &in, &agreement);
            }
            free(h);
            assert_string_equal(agreement.why, answers[i].want);
            assert_int_equal(end, answers[i].want[0] == '\0' ? WS_SHAKE_DONE : WS_SHAKE_BAD);
        }
    }
}

static void a_head_without_end_is_refused(void **state)
{
    const struct load_websocket websocket = { .handshake = BYTES(PLACE) };
    static const unsigned char nonce[] = "the sample nonce";
    static const char line[] = "X-Endless: yes\r\n";
    struct ws_handshake *h = NULL;
    struct ws_agreement agreement;
    struct ls_bytes in = BYTES("HTTP/1.1 101 \r\n");
    unsigned lines = 0;

    (void)state;
    assert_int_equal(ws_handshake_create(&websocket, 0, nonce, &h), LS_OK);
    while (ws_handshake_take(h, &websocket, &in, &agreement) == WS_SHAKE_MORE) {
        in = (struct ls_bytes)BYTES(line);
        assert_true(++lines < 2000);
    }
    assert_string_equal(agreement.why, "the head of the answer is longer than 16 KiB");
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_masked_hello_is_that_of_the_rfc),
        cmocka_unit_test(lengths_are_written_in_their_shortest_form),
        cmocka_unit_test(masks_do_not_depend_on_words),
        cmocka_unit_test(every_stream_reads_alike_however_it_is_cut),
        cmocka_unit_test(a_whole_frame_is_taken_at_once_and_only_that),
        cmocka_unit_test(close_codes_are_those_that_may_be_sent),
        cmocka_unit_test(utf8_is_judged_alike_in_any_slicing),
        cmocka_unit_test(utf8_agrees_with_the_other_reader_on_random_bytes),
        cmocka_unit_test(answers_to_the_upgrade_are_judged),
        cmocka_unit_test(a_head_without_end_is_refused),
    };

    return cmocka_run_group_tests_name("agent.ws_frame", tests, NULL, NULL);
}
