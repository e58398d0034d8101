#include "tests/support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/load/gunzip.h"
#include "tests/support/failmalloc.h"

/* Coded as gzip by zlib's own deflate; the caller frees. */
static struct ls_bytes coded(struct ls_bytes plain)
{
    z_stream z = { 0 };
    uLong room;
    unsigned char *out;

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    room = deflateBound(&z, (uLong)plain.len);
    out = malloc(room);
    assert_non_null(out);
    z.next_in = (z_const Bytef *)(uintptr_t)plain.data;
    z.avail_in = (uInt)plain.len;
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    (void)deflateEnd(&z);
    return (struct ls_bytes){ out, room - z.avail_out };
}

struct sink {
    uint64_t bytes;
    uint32_t crc;
    uint64_t stop_at; /* 0: never */
};

static bool take(void *ctx, struct ls_bytes piece)
{
    struct sink *sink = ctx;

    sink->bytes += piece.len;
    sink->crc = (uint32_t)crc32(sink->crc, piece.data, (uInt)piece.len);
    return sink->stop_at == 0 || sink->bytes < sink->stop_at;
}

/* Feeds in pieces of step bytes; NULL, or what is wrong. */
static const char *feed(struct gunzip *g, struct ls_bytes in, size_t step, struct sink *sink)
{
    *sink = (struct sink){ .stop_at = sink->stop_at };
    gunzip_begin(g);
    for (size_t at = 0; at < in.len; at += step) {
        struct ls_bytes piece = { in.data + at, in.len - at < step ? in.len - at : step };
        const char *why = gunzip_feed(g, piece, take, sink);

        if (why != NULL)
            return why;
    }
    return gunzip_end(g);
}

static unsigned char *pattern_bytes(size_t len)
{
    unsigned char *data = malloc(len);
    uint32_t x = 1;

    assert_non_null(data);
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (unsigned char)((x >> 24) & 0x3f); /* compresses a little */
    }
    return data;
}

static void bodies_decode_in_any_fragmentation(void **state)
{
    static const size_t lengths[] = { 0, 1, 13, 32767, 32768, 65536, 200000 };
    struct gunzip *g = NULL;

    (void)state;
    assert_int_equal(gunzip_create(&g), LS_OK);
    for (size_t i = 0; i < LS_ARRAY_LEN(lengths); i++) {
        unsigned char *plain = pattern_bytes(lengths[i] + 1);
        struct ls_bytes in = coded((struct ls_bytes){ plain, lengths[i] });

        for (size_t step = 1; step <= in.len; step = step * 5 + 2) {
            struct sink sink = { 0 };

            assert_null(feed(g, in, step, &sink));
            assert_int_equal(sink.bytes, lengths[i]);
            assert_int_equal(sink.crc, crc32(0, plain, (uInt)lengths[i]));
        }
        free(plain);
        free((void *)(uintptr_t)in.data);
    }
    gunzip_destroy(g);
}

static void members_may_follow_each_other(void **state)
{
    struct ls_bytes one = coded((struct ls_bytes){ (const unsigned char *)"Hello, ", 7 });
    struct ls_bytes two = coded((struct ls_bytes){ (const unsigned char *)"World!", 6 });
    unsigned char both[128];
    struct gunzip *g = NULL;
    struct sink sink = { 0 };

    (void)state;
    memcpy(both, one.data, one.len);
    memcpy(both + one.len, two.data, two.len);
    assert_int_equal(gunzip_create(&g), LS_OK);
    for (size_t step = 1; step <= one.len + two.len; step++) {
        assert_null(feed(g, (struct ls_bytes){ both, one.len + two.len }, step, &sink));
        assert_int_equal(sink.crc, crc32(0, (const unsigned char *)"Hello, World!", 13));
    }
    gunzip_destroy(g);
    free((void *)(uintptr_t)one.data);
    free((void *)(uintptr_t)two.data);
}

static void damage_is_found(void **state)
{
    struct ls_bytes in = coded((struct ls_bytes){ (const unsigned char *)"Hello, World!", 13 });
    unsigned char copy[64];
    struct gunzip *g = NULL;
    struct sink sink = { 0 };

    (void)state;
    assert_int_equal(gunzip_create(&g), LS_OK);
    for (size_t len = 0; len < in.len; len++)
        assert_string_equal(feed(g, (struct ls_bytes){ in.data, len }, 64, &sink),
                            "the gzip data ends early");
    memcpy(copy, in.data, in.len);
    copy[in.len] = 'x'; /* what follows is no member */
    assert_string_equal(feed(g, (struct ls_bytes){ copy, in.len + 1 }, 64, &sink),
                        "the gzip data ends early");
    memcpy(copy + in.len, "rubbish, and more of it", 23);
    assert_string_equal(feed(g, (struct ls_bytes){ copy, in.len + 23 }, 64, &sink),
                        "the body is not gzip data");
    copy[in.len - 8] ^= 1; /* the checksum */
    assert_string_equal(feed(g, (struct ls_bytes){ copy, in.len }, 64, &sink),
                        "the body is not gzip data");
    assert_string_equal(feed(g, (struct ls_bytes){ (const unsigned char *)"Hello", 5 }, 5, &sink),
                        "the body is not gzip data");
    assert_null(feed(g, in, 3, &sink)); /* none of it stays */
    gunzip_destroy(g);
    free((void *)(uintptr_t)in.data);
}

static void a_bomb_is_not_followed_to_its_end(void **state)
{
    size_t len = (size_t)GUNZIP_RATIO_FREE * 8;
    unsigned char *zeros = calloc(1, len);
    struct ls_bytes in;
    struct gunzip *g = NULL;
    struct sink sink = { 0 };

    (void)state;
    assert_non_null(zeros);
    in = coded((struct ls_bytes){ zeros, len }); /* 1000 times smaller */
    assert_int_equal(gunzip_create(&g), LS_OK);
    assert_string_equal(feed(g, in, 64, &sink),
                        "the decoded body is out of proportion to the coded one");
    assert_true(sink.bytes <= GUNZIP_RATIO_FREE);
    sink.stop_at = 100; /* whoever has found a difference wants no more */
    assert_null(feed(g, in, 65536, &sink));
    assert_true(sink.bytes <= 32768);
    gunzip_destroy(g);
    free(zeros);
    free((void *)(uintptr_t)in.data);
}

static void attempt(void *ctx)
{
    struct gunzip *g = NULL;
    enum ls_err rc = gunzip_create(&g);

    (void)ctx;
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    gunzip_destroy(g);
}

static void each_failing_allocation_is_told(void **state)
{
    (void)state;
    assert_int_equal(failmalloc_each(attempt, NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_decode_in_any_fragmentation),
        cmocka_unit_test(members_may_follow_each_other),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(a_bomb_is_not_followed_to_its_end),
        cmocka_unit_test(each_failing_allocation_is_told),
    };

    return cmocka_run_group_tests_name("agent.gunzip", tests, NULL, NULL);
}
