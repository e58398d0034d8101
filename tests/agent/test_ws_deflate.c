/* permessage-deflate: what is compressed comes back, in any slicing; RFC 7692's examples. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/load/ws_deflate.h"
#include "tests/support/failmalloc.h"

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }

struct sink {
    unsigned char text[70000];
    size_t len;
    size_t most;
};

static enum ls_err collect(void *ctx, struct ls_bytes piece)
{
    struct sink *sink = ctx;

    if (sink->len + piece.len > sink->most)
        return LS_ERANGE;
    memcpy(sink->text + sink->len, piece.data, piece.len);
    sink->len += piece.len;
    return LS_OK;
}

static struct sink sink;

/* All of it, step bytes at a time. */
static enum ls_err inflate_all(struct ws_deflate *d, struct ls_bytes in, size_t step, bool takeover)
{
    enum ls_err rc = LS_OK;

    sink.len = 0;
    sink.most = sizeof(sink.text);
    for (size_t at = 0; at < in.len && rc == LS_OK; at += step) {
        struct ls_bytes piece = { in.data + at, in.len - at < step ? in.len - at : step };

        rc = ws_inflate_piece(d, piece, collect, &sink);
    }
    return rc == LS_OK ? ws_inflate_end(d, takeover, collect, &sink) : rc;
}

/* Section 7.2.3. */
static void the_examples_of_the_rfc_are_read(void **state)
{
    static const struct ls_bytes one = BYTES("\xf2\x48\xcd\xc9\xc9\x07\x00");
    static const struct ls_bytes again = BYTES("\xf2\x00\x11\x00\x00"); /* refers to the first */
    static const struct ls_bytes stored = BYTES("\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00");
    static const struct ls_bytes final = BYTES("\xf3\x48\xcd\xc9\xc9\x07\x00\x00");
    static const struct ls_bytes blocks =
        BYTES("\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00");
    static const struct ls_bytes empty = BYTES("\x00");
    const struct ls_bytes hellos[] = { one, again, stored, blocks, one, again, final };

    (void)state;
    for (size_t step = 1; step < 20; step++) {
        struct ws_deflate *d = NULL;

        assert_int_equal(ws_deflate_create(100, &d), LS_OK);
        for (size_t i = 0; i < LS_ARRAY_LEN(hellos); i++) {
            assert_int_equal(inflate_all(d, hellos[i], step, true), LS_OK);
            assert_int_equal(sink.len, 5);
            assert_memory_equal(sink.text, "Hello", 5);
        }
        assert_int_equal(inflate_all(d, empty, step, true), LS_OK);
        assert_int_equal(sink.len, 0);
        ws_deflate_destroy(d);
    }
}

static void what_is_compressed_comes_back(void **state)
{
    static unsigned char text[65536];
    struct ws_deflate *ours = NULL;
    struct ws_deflate *theirs = NULL;

    (void)state;
    assert_int_equal(ws_deflate_create(sizeof(text), &ours), LS_OK);
    assert_int_equal(ws_deflate_create(0, &theirs), LS_OK);
    for (size_t len = 0; len <= sizeof(text); len = len * 2 + 1) {
        for (unsigned random = 0; random < 2; random++) {
            struct ls_bytes packed;
            size_t first = len < 16 ? len : 16;

            for (size_t i = 0; i < len; i++)
                text[i] = (unsigned char)(random ? i * i * 2654435761u >> 13 : 'a' + i % 26);
            packed = ws_deflate_message(ours, (struct ls_bytes){ text, first },
                                        (struct ls_bytes){ text + first, len - first });
            assert_true(packed.len > 0);
            /* Each of ours stands alone. */
            assert_int_equal(inflate_all(theirs, packed, 1 + len / 7, false), LS_OK);
            assert_int_equal(sink.len, len);
            assert_memory_equal(sink.text, text, len);
        }
    }
    ws_deflate_destroy(ours);
    ws_deflate_destroy(theirs);
}

static void what_is_no_deflate_is_refused_and_a_bomb_is_the_callers_to_stop(void **state)
{
    static unsigned char zeros[1 << 20];
    static unsigned char packed[1 << 16];
    struct ws_deflate *d = NULL;
    uLongf len = sizeof(packed);

    (void)state;
    assert_int_equal(ws_deflate_create(10, &d), LS_OK);
    assert_int_equal(inflate_all(d, (struct ls_bytes)BYTES("\xff\xff\xff\xff"), 4, false),
                     LS_EPROTO);
    ws_deflate_destroy(d);
    assert_int_equal(ws_deflate_create(10, &d), LS_OK);
    assert_int_equal(compress2(packed, &len, zeros, sizeof(zeros), 9), Z_OK);
    sink.len = 0;
    sink.most = 40000;
    /* Without zlib's head of two bytes. */
    assert_int_equal(ws_inflate_piece(d, (struct ls_bytes){ packed + 2, len - 6 }, collect, &sink),
                     LS_ERANGE);
    assert_true(sink.len <= sink.most);
    ws_deflate_destroy(d);
}

static void create_once(void *ctx)
{
    struct ws_deflate *d = NULL;
    enum ls_err rc = ws_deflate_create(100, &d);

    (void)ctx;
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    ws_deflate_destroy(d);
}

static void creation_survives_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(failmalloc_each(create_once, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc_are_read),
        cmocka_unit_test(what_is_compressed_comes_back),
        cmocka_unit_test(what_is_no_deflate_is_refused_and_a_bomb_is_the_callers_to_stop),
        cmocka_unit_test(creation_survives_each_failing_allocation),
    };

    return cmocka_run_group_tests_name("agent.ws_deflate", tests, NULL, NULL);
}
