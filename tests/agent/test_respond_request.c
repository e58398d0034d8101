#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "agent/respond/request.h"
#include "common/attr.h"
#include "tests/support/guard.h"

#define HOST "Host: a\r\n"

/* What a stream of bytes is to be read as: one letter for each find, in order. "g" a request, "h" a
 * HEAD, capitals if it is the sender's last, "e" one that expects, "!" no request. */
static const struct {
    const char *text;
    const char *found;
} streams[] = {
    { "GET / HTTP/1.1\r\n" HOST "\r\n", "g" },
    { "HEAD /x?y=1 HTTP/1.1\r\n" HOST "\r\n", "h" },
    { "GET / HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\n" HOST "\r\nGET /b HTTP/1.1\r\n" HOST "\r\n",
      "ggg" },
    { "GET / HTTP/1.0\r\n\r\n", "G" },
    { "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "g" },
    { "GET / HTTP/1.1\r\n" HOST "Connection: x, close\r\n\r\n", "G" },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n" HOST "\r\n",
      "gg" },
    { "POST / HTTP/1.1\r\n" HOST "content-length:0\r\n\r\n", "g" },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
      "HEAD / HTTP/1.1\r\n" HOST "\r\n",
      "gh" },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n"
      "00a;x=y\r\n0123456789\r\n1\r\nA\r\n0\r\nTrailer: 1\r\nOther: 2\r\n\r\n",
      "g" },
    { "POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", "eg" },
    { "POST / HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nhello", "" },
    { "GET / HTTP/1.1\r\n" HOST, "" },
    { "GET / HTTP/1.1\r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST HOST "\r\n", "!" },
    { "GET / HTTP/1.2\r\n" HOST "\r\n", "!" },
    { "GET / HTTP/2.0\r\n" HOST "\r\n", "!" },
    { "GET /\r\n" HOST "\r\n", "!" },
    { "GET  HTTP/1.1\r\n" HOST "\r\n", "!" },
    { "GET /a b HTTP/1.1\r\n" HOST "\r\n", "!" },
    { "G(T / HTTP/1.1\r\n" HOST "\r\n", "!" },
    { "\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "!" },
    { "GET / HTTP/1.1\n" HOST "\r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST "No colon\r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST ": no name\r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST "A b: c\r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST "A: \x01\r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST " folded\r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST "Content-Length: 1234567890123456\r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST "Content-Length: \r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", "!" },
    { "GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", "!" },
    { "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "!" },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nx\r\n", "!" },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n\r\n", "!" },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\nA\r\n", "!" },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nAB\r\n", "!" },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1234567890123\r\n", "!" },
    { "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n: x\r\n\r\n", "!" },
};

struct reading {
    struct respond_parser parser;
    struct respond_cache *cache;
    char found[256];
    size_t count;
};

static void read_piece(struct reading *reading, struct ls_bytes piece)
{
    const unsigned char *data = piece.data;
    size_t len = piece.len;

    for (;;) {
        struct respond_request request = { .head = false };
        enum respond_found found =
            respond_parser_next(&reading->parser, reading->cache, &data, &len, &request);
        char letter = request.head ? 'h' : 'g';

        assert_true(data + len == piece.data + piece.len);
        if (found == RESPOND_MORE)
            return;
        assert_true(reading->count + 1 < sizeof(reading->found));
        if (found == RESPOND_BAD) {
            if (reading->count == 0 || reading->found[reading->count - 1] != '!')
                reading->found[reading->count++] = '!';
            return;
        }
        assert_int_not_equal(found, RESPOND_NOMEM);
        if (found == RESPOND_EXPECTS)
            letter = 'e';
        else if (request.last)
            letter = (char)(letter - 'a' + 'A');
        reading->found[reading->count++] = letter;
    }
}

/* Reads text in pieces: the first of first bytes, then step bytes each. */
static void expect_reading(const char *text, const char *expected, size_t first, size_t step,
                           struct respond_cache *cache, struct guard *guard)
{
    struct reading reading = { .cache = cache };
    size_t len = strlen(text);
    size_t at = 0;

    while (at < len) {
        size_t want = at == 0 ? first : step;
        size_t n = len - at < want ? len - at : want;
        struct ls_bytes piece = { (const unsigned char *)text + at, n };

        read_piece(&reading, guard_copy(guard, piece));
        at += n;
    }
    respond_parser_fini(&reading.parser);
    assert_string_equal(reading.found, expected);
}

static void streams_are_read_alike_in_any_slicing(void **state)
{
    struct guard guard;

    (void)state;
    guard_init(&guard, 4096);
    for (size_t i = 0; i < LS_ARRAY_LEN(streams); i++) {
        size_t len = strlen(streams[i].text);

        for (size_t first = 1; first <= len; first++) {
            struct respond_cache cache = { .len = 0 };

            expect_reading(streams[i].text, streams[i].found, first, len, &cache, &guard);
            /* Again with what the first reading put into the cache. */
            expect_reading(streams[i].text, streams[i].found, first, len, &cache, &guard);
        }
        for (size_t step = 1; step <= 3; step++) {
            struct respond_cache cache = { .len = 0 };

            expect_reading(streams[i].text, streams[i].found, step, step, &cache, &guard);
        }
    }
    guard_fini(&guard);
}

static void a_head_without_end_is_refused_within_its_limit(void **state)
{
    struct respond_parser parser = { .state = 0 };
    struct respond_cache cache = { .len = 0 };
    struct respond_request request;
    enum respond_found found = RESPOND_MORE;
    static const unsigned char line[] = "X-Again: and again\r\n";
    size_t fed = 0;

    (void)state;
    while (found == RESPOND_MORE && fed < (size_t)4 * RESPOND_HEAD_MAX) {
        const unsigned char *data = line;
        size_t len = sizeof(line) - 1;

        found = respond_parser_next(&parser, &cache, &data, &len, &request);
        fed += sizeof(line) - 1;
    }
    respond_parser_fini(&parser);
    assert_int_equal(found, RESPOND_BAD);
    assert_in_range(fed, RESPOND_HEAD_MAX, RESPOND_HEAD_MAX + sizeof(line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_read_alike_in_any_slicing),
        cmocka_unit_test(a_head_without_end_is_refused_within_its_limit),
    };

    return cmocka_run_group_tests_name("agent.respond_request", tests, NULL, NULL);
}
