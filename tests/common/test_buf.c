#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/rng.h"
#include "tests/support/failmalloc.h"

static void appends_join_and_end_in_nul(void **state)
{
    struct ls_buf buf;

    (void)state;
    ls_buf_init(&buf, 100);
    ls_buf_adds(&buf, "one ");
    ls_buf_addf(&buf, "%d ", 2);
    ls_buf_add(&buf, "three", 5);
    ls_buf_add(&buf, NULL, 0);
    assert_true(buf.ok);
    assert_int_equal(buf.len, 11);
    assert_string_equal((const char *)buf.data, "one 2 three");
    ls_buf_fini(&buf);
    assert_null(buf.data);
}

/* Every way to append, at the edge of the cap. */
static void what_does_not_fit_leaves_the_buffer_as_it_was(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 4; way++) {
        struct ls_buf buf;

        ls_buf_init(&buf, 8);
        ls_buf_adds(&buf, "1234");
        if (way == 0)
            ls_buf_add(&buf, "56789", 5);
        else if (way == 1)
            ls_buf_adds(&buf, "56789");
        else if (way == 2)
            ls_buf_addu(&buf, 56789, 1);
        else
            ls_buf_addf(&buf, "%d", 56789);
        assert_false(buf.ok);
        assert_string_equal((const char *)buf.data, "1234");
        ls_buf_adds(&buf, "5"); /* a gap would be worse than nothing */
        assert_string_equal((const char *)buf.data, "1234");
        assert_null(ls_buf_detach(&buf));
        ls_buf_reset(&buf);
        assert_true(buf.ok);
        assert_int_equal(buf.len, 0);
        ls_buf_adds(&buf, "12345678"); /* exactly the cap */
        assert_true(buf.ok);
        assert_int_equal(buf.len, 8);
        ls_buf_fini(&buf);
    }
}

static void numbers_are_as_printf_writes_them(void **state)
{
    static const uint64_t numbers[] = { 0,          1,          9,         10,
                                        99,         100,        123456789, 999999,
                                        1000000000, UINT32_MAX, INT64_MAX, UINT64_MAX };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(numbers); i++) {
        for (unsigned digits = 0; digits <= 20; digits++) {
            char expected[32];
            struct ls_buf buf;

            (void)snprintf(expected, sizeof(expected), "%0*" PRIu64, (int)digits, numbers[i]);
            ls_buf_init(&buf, 20);
            ls_buf_addu(&buf, numbers[i], digits);
            assert_string_equal((const char *)buf.data, expected);
            ls_buf_fini(&buf);
        }
    }
}

static void an_absurd_length_is_not_an_overflow(void **state)
{
    struct ls_buf buf;

    (void)state;
    ls_buf_init(&buf, SIZE_MAX);
    ls_buf_adds(&buf, "x");
    ls_buf_add(&buf, "y", SIZE_MAX);
    assert_false(buf.ok);
    ls_buf_reset(&buf);
    ls_buf_adds(&buf, "x");
    ls_buf_add(&buf, "y", SIZE_MAX - 1);
    assert_false(buf.ok);
    assert_string_equal((const char *)buf.data, "x");
    ls_buf_fini(&buf);
}

static void consume_drops_from_the_front(void **state)
{
    struct ls_buf buf;

    (void)state;
    ls_buf_init(&buf, 100);
    ls_buf_consume(&buf, 3);
    ls_buf_adds(&buf, "abcdef");
    ls_buf_consume(&buf, 0);
    ls_buf_consume(&buf, 2);
    assert_string_equal((const char *)buf.data, "cdef");
    ls_buf_adds(&buf, "g");
    assert_string_equal((const char *)buf.data, "cdefg");
    ls_buf_consume(&buf, 99); /* more than there is: all */
    assert_int_equal(buf.len, 0);
    assert_string_equal((const char *)buf.data, "");
    ls_buf_fini(&buf);
}

static void detached_text_is_the_callers_and_the_buffer_starts_again(void **state)
{
    struct ls_buf buf;
    char *text;

    (void)state;
    ls_buf_init(&buf, 10);
    text = ls_buf_detach(&buf);
    assert_string_equal(text, "");
    free(text);
    ls_buf_adds(&buf, "hello");
    text = ls_buf_detach(&buf);
    assert_string_equal(text, "hello");
    free(text);
    assert_null(buf.data);
    ls_buf_adds(&buf, "0123456789");
    assert_true(buf.ok);
    ls_buf_adds(&buf, "!");
    assert_false(buf.ok); /* the cap is kept */
    ls_buf_fini(&buf);
}

/* Against a plain array that does the same. */
static void any_series_of_operations_behaves_like_an_array(void **state)
{
    enum { MAX = 300 };
    unsigned char model[MAX];
    size_t len = 0;
    struct ls_buf buf;
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 11, 0);
    ls_buf_init(&buf, MAX);
    for (unsigned i = 0; i < 20000; i++) {
        unsigned char piece[80];
        size_t n = ls_rng_below(&rng, sizeof(piece));

        if (ls_rng_below(&rng, 2) == 0) {
            (void)memset(piece, (int)(i & 0xff), n);
            ls_buf_add(&buf, piece, n);
            assert_int_equal(buf.ok, len + n <= MAX);
            if (len + n <= MAX) {
                (void)memcpy(model + len, piece, n);
                len += n;
            }
            buf.ok = true;
        } else {
            n = n > len ? len : n;
            ls_buf_consume(&buf, n);
            len -= n;
            (void)memmove(model, model + n, len);
        }
        assert_int_equal(buf.len, len);
        if (buf.data != NULL) {
            assert_memory_equal(buf.data, model, len);
            assert_int_equal(buf.data[len], 0);
        }
    }
    ls_buf_fini(&buf);
}

static void grow_once(void *ctx)
{
    struct ls_buf buf;

    (void)ctx;
    ls_buf_init(&buf, 1000);
    ls_buf_adds(&buf, "kept");
    if (buf.ok) {
        ls_buf_addf(&buf, "%200s", "");
        if (!buf.ok)
            assert_string_equal((const char *)buf.data, "kept");
    }
    assert_int_equal(buf.ok, !failmalloc_hit());
    ls_buf_fini(&buf);
}

static void a_failing_allocation_shows_in_ok(void **state)
{
    (void)state;
    assert_int_equal(failmalloc_each(grow_once, NULL), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_join_and_end_in_nul),
        cmocka_unit_test(what_does_not_fit_leaves_the_buffer_as_it_was),
        cmocka_unit_test(numbers_are_as_printf_writes_them),
        cmocka_unit_test(an_absurd_length_is_not_an_overflow),
        cmocka_unit_test(consume_drops_from_the_front),
        cmocka_unit_test(detached_text_is_the_callers_and_the_buffer_starts_again),
        cmocka_unit_test(any_series_of_operations_behaves_like_an_array),
        cmocka_unit_test(a_failing_allocation_shows_in_ok),
    };
    return cmocka_run_group_tests_name("common.buf", tests, NULL, NULL);
}
