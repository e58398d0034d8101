/* The HTTP/1 parser's limits: what is just within passes, one more is refused, for the same reason
 * in any fragmentation. What it makes of ordinary answers is in test_http1_golden.c. */
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "tests/support/http1_view.h"

enum { TEXT_BYTES = 8192 };

static struct http1_view view;

static void view_begin(void)
{
    memset(&view.parser, 0, sizeof(view.parser));
    view.begun = view.over = false;
    view.index = view.rows = 0;
}

static const char *seen_whole(const struct ls_buf *in, char out[TEXT_BYTES])
{
    view_begin();
    http1_view_feed(&view, (struct ls_bytes){ in->data, in->len });
    http1_view_end(&view);
    http1_view_text(&view, out, TEXT_BYTES);
    return out;
}

static const char *seen_in_pieces(const struct ls_buf *in, size_t piece, char out[TEXT_BYTES])
{
    view_begin();
    for (size_t at = 0; at < in->len; at += piece)
        http1_view_feed(
            &view, (struct ls_bytes){ in->data + at, in->len - at < piece ? in->len - at : piece });
    http1_view_end(&view);
    http1_view_text(&view, out, TEXT_BYTES);
    return out;
}

static void expect(const struct ls_buf *in, const char *name, const char *want)
{
    char whole[TEXT_BYTES];
    char pieces[TEXT_BYTES];

    assert_true(in->ok);
    if (strstr(seen_whole(in, whole), want) == NULL)
        fail_msg("%s: want %s, seen %s", name, want, whole);
    for (size_t piece = 1; piece < 5000; piece = piece * 3 + 1) {
        if (strcmp(seen_in_pieces(in, piece, pieces), whole) != 0)
            fail_msg("%s in pieces of %zu: want %s, seen %s", name, piece, whole, pieces);
    }
}

static void add_many(struct ls_buf *buf, const char *text, size_t times)
{
    for (size_t i = 0; i < times; i++)
        ls_buf_adds(buf, text);
}

static const char OK_LINE[] = "HTTP/1.1 200 OK\r\n";
static const char LENGTH_0[] = "Content-Length: 0\r\n\r\n";
static const char FINE[] = "HTTP/1.1 200 reason='OK' cl body=0";
static const char CHUNKED[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char FINE_CHUNKED[] = "HTTP/1.1 200 reason='OK' chunked body=";

/* --- One builder for each limit: n is the size that the limit is about --- */

static void long_name(struct ls_buf *in, size_t n)
{
    ls_buf_adds(in, OK_LINE);
    add_many(in, "n", n);
    ls_buf_addf(in, ": v\r\n%s", LENGTH_0);
}

static void long_value(struct ls_buf *in, size_t n)
{
    ls_buf_addf(in, "%sX:", OK_LINE);
    add_many(in, "v", n);
    ls_buf_addf(in, "\r\n%s", LENGTH_0);
}

static void long_reason(struct ls_buf *in, size_t n)
{
    ls_buf_adds(in, "HTTP/1.1 200 ");
    add_many(in, "O", n);
    ls_buf_addf(in, "\r\n%s", LENGTH_0);
}

static void many_fields(struct ls_buf *in, size_t n)
{
    ls_buf_adds(in, OK_LINE);
    add_many(in, "a:b\r\n", n - 1);
    ls_buf_adds(in, LENGTH_0);
}

static void large_head(struct ls_buf *in, size_t n)
{
    size_t rest = n - (sizeof(OK_LINE) - 1) - (sizeof(LENGTH_0) - 1);

    ls_buf_adds(in, OK_LINE);
    while (rest > 0) {
        size_t line = rest > 70000 + 10 ? 70000 : rest;

        ls_buf_adds(in, "X:");
        add_many(in, "v", line - 4);
        ls_buf_adds(in, "\r\n");
        rest -= line;
    }
    ls_buf_adds(in, LENGTH_0);
}

/* Nothing of a value that decides about framing is kept, so it has no limit but that of the head.
 */
static void long_length(struct ls_buf *in, size_t n)
{
    size_t zeros = n - (sizeof(OK_LINE) - 1) - (sizeof(LENGTH_0) - 1);

    ls_buf_addf(in, "%sContent-Length: ", OK_LINE);
    add_many(in, "0", zeros + 1);
    ls_buf_adds(in, "\r\n\r\n");
}

/* All limits hold for each head by itself: these are more together. */
static void many_interims(struct ls_buf *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ls_buf_adds(in, "HTTP/1.1 103 x\r\nX:");
        add_many(in, "v", HTTP1_HEAD_MAX / 16);
        add_many(in, "\r\na:b", HTTP1_FIELDS_MAX / 16);
        ls_buf_adds(in, "\r\n\r\n");
    }
    ls_buf_addf(in, "%s%s", OK_LINE, LENGTH_0);
}

static void long_extension(struct ls_buf *in, size_t n)
{
    ls_buf_addf(in, "%s1;", CHUNKED);
    add_many(in, "e", n);
    ls_buf_adds(in, "\r\n!\r\n0\r\n\r\n");
}

static void many_digits(struct ls_buf *in, size_t n)
{
    ls_buf_adds(in, CHUNKED);
    add_many(in, "0", n - 1);
    ls_buf_adds(in, "1\r\n!\r\n0\r\n\r\n");
}

static void many_trailers(struct ls_buf *in, size_t n)
{
    ls_buf_addf(in, "%s0\r\n", CHUNKED);
    add_many(in, "a:b\r\n", n);
    ls_buf_adds(in, "\r\n");
}

static void large_trailers(struct ls_buf *in, size_t n)
{
    ls_buf_addf(in, "%s0\r\nX:", CHUNKED);
    add_many(in, "v", HTTP1_VALUE_MAX);
    ls_buf_adds(in, "\r\nX:");
    add_many(in, "v", n - HTTP1_VALUE_MAX - 10);
    ls_buf_adds(in, "\r\n\r\n");
}

static void each_limit_is_exact(void **state)
{
    static const struct {
        void (*build)(struct ls_buf *in, size_t n);
        size_t limit;
        const char *fine;
        const char *refused;
    } cases[] = {
        { long_name, HTTP1_NAME_MAX, FINE, "BAD field name is too long" },
        { long_value, HTTP1_VALUE_MAX, FINE, "BAD field value is too long" },
        { long_reason, HTTP1_VALUE_MAX, "HTTP/1.1 200 reason='OOO",
          "BAD reason phrase is too long" },
        { many_fields, HTTP1_FIELDS_MAX, FINE, "BAD too many fields" },
        { large_head, HTTP1_HEAD_MAX, FINE, "BAD head is too large" },
        { long_length, HTTP1_HEAD_MAX, FINE, "BAD head is too large" },
        { many_interims, HTTP1_INTERIM_MAX, "reason='OK' cl body=0", "BAD too many 1xx responses" },
        { long_extension, HTTP1_CHUNK_EXT_MAX, FINE_CHUNKED, "BAD chunk extension is too long" },
        { many_digits, HTTP1_CHUNK_DIGITS, FINE_CHUNKED, "BAD chunk size is too large" },
        { many_trailers, HTTP1_FIELDS_MAX, FINE_CHUNKED, "BAD too many fields" },
        { large_trailers, HTTP1_HEAD_MAX, FINE_CHUNKED, "BAD head is too large" },
    };
    struct ls_buf in;

    (void)state;
    ls_buf_init(&in, 1 << 21);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        ls_buf_reset(&in);
        cases[i].build(&in, cases[i].limit);
        expect(&in, cases[i].refused, cases[i].fine);
        ls_buf_reset(&in);
        cases[i].build(&in, cases[i].limit + 1);
        expect(&in, cases[i].refused, cases[i].refused);
    }
    ls_buf_fini(&in);
}

static void the_largest_lengths_are_numbers(void **state)
{
    struct ls_buf in;

    (void)state;
    ls_buf_init(&in, 1024);
    ls_buf_addf(&in, "%sContent-Length: 9223372036854775807\r\n\r\nx", OK_LINE);
    expect(&in, "2^63 - 1",
           "cl body=1 sha1=11f6ad8ec5 conn-hdr=keep SHORT want 9223372036854775807");
    ls_buf_reset(&in);
    ls_buf_addf(&in, "%sContent-Length: 9223372036854775808\r\n\r\nx", OK_LINE);
    expect(&in, "2^63", "BAD content-length is too large");
    ls_buf_reset(&in);
    ls_buf_addf(&in, "%s7fffffffffffffff\r\nx", CHUNKED);
    expect(&in, "chunk of 2^63 - 1", "chunked body=1 sha1=11f6ad8ec5 conn-hdr=keep CUT");
    ls_buf_fini(&in);
}

/* Each byte value in each place of a head: taken or refused, but the same in any fragmentation, and
 * never taken where RFC 9112 forbids it. */
static void no_byte_is_taken_where_it_must_not_be(void **state)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nAb: cd\r\nContent-Length: 0\r\n\r\n";
    char whole[TEXT_BYTES];
    char pieces[TEXT_BYTES];
    struct ls_buf in;

    (void)state;
    ls_buf_init(&in, sizeof(head));
    for (size_t at = 0; at < sizeof(head) - 1; at++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            bool control =
                (byte < ' ' && byte != '\t' && byte != '\r' && byte != '\n') || byte == 0x7f;

            ls_buf_reset(&in);
            ls_buf_adds(&in, head);
            in.data[at] = (unsigned char)byte;
            (void)seen_whole(&in, whole);
            (void)seen_in_pieces(&in, 1, pieces);
            assert_string_equal(whole, pieces);
            if (control && strstr(whole, "BAD") == NULL)
                fail_msg("byte %u at %zu was taken: %s", byte, at, whole);
        }
    }
    ls_buf_fini(&in);
}

static void a_length_in_an_interim_response_is_forgotten(void **state)
{
    static const char text[] = "HTTP/1.1 103 x\r\nContent-Length: 7\r\n\r\n"
                               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct http1_parser parser;
    struct ls_bytes in = { (const unsigned char *)text, sizeof(text) - 1 };
    struct ls_bytes body;

    (void)state;
    http1_begin(&parser, 0);
    assert_int_equal(http1_parse(&parser, &in, &body), HTTP1_INTERIM);
    assert_int_equal(http1_parse(&parser, &in, &body), HTTP1_HEAD);
    assert_int_equal(parser.content_length, 0);
}

static void what_was_read_is_not_touched_between_responses(void **state)
{
    struct http1_parser parser = { 0 };
    struct ls_bytes in = { (const unsigned char *)"HTTP", 4 };
    struct ls_bytes body;

    (void)state;
    assert_int_equal(http1_parse(&parser, &in, &body), HTTP1_DONE); /* not begun */
    assert_int_equal(in.len, 4);
    assert_false(http1_at_start(&parser));
    http1_begin(&parser, 0);
    assert_true(http1_at_start(&parser));
    assert_int_equal(http1_parse(&parser, &in, &body), HTTP1_MORE);
    assert_false(http1_at_start(&parser));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_is_exact),
        cmocka_unit_test(the_largest_lengths_are_numbers),
        cmocka_unit_test(no_byte_is_taken_where_it_must_not_be),
        cmocka_unit_test(a_length_in_an_interim_response_is_forgotten),
        cmocka_unit_test(what_was_read_is_not_touched_between_responses),
    };

    return cmocka_run_group_tests_name("agent.http1_parse", tests, NULL, NULL);
}
