#include "tests/support/test.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/rng.h"

static struct ls_bytes bytes_of(const char *text)
{
    return (struct ls_bytes){ (const unsigned char *)text, strlen(text) };
}

static void the_examples_of_rfc_4648_hold(void **state)
{
    static const char *const cases[][2] = {
        { "", "" },
        { "f", "Zg==" },
        { "fo", "Zm8=" },
        { "foo", "Zm9v" },
        { "foob", "Zm9vYg==" },
        { "fooba", "Zm9vYmE=" },
        { "foobar", "Zm9vYmFy" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_buf buf;

        ls_buf_init(&buf, 100);
        ls_buf_adds(&buf, ">");
        ls_base64_encode(&buf, bytes_of(cases[i][0]));
        assert_string_equal((const char *)buf.data + 1, cases[i][1]);
        ls_buf_reset(&buf);
        ls_buf_adds(&buf, ">");
        assert_int_equal(ls_base64_decode(&buf, bytes_of(cases[i][1])), LS_OK);
        assert_string_equal((const char *)buf.data + 1, cases[i][0]);
        ls_buf_fini(&buf);
    }
}

/* Beside another encoder: all lengths that a block of any kind may end in, and around the largest
 * piece that is appended at once. */
static void it_writes_what_openssl_writes(void **state)
{
    static unsigned char data[7000];
    static unsigned char expected[10000];
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 7, 0);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)ls_rng_below(&rng, 256);
    for (size_t len = 0; len <= sizeof(data); len += len == 200 || len == 3200 ? 2800 : 1) {
        unsigned char *copy = malloc(len + 1); /* ends with the data: reads beyond show */
        struct ls_buf buf;

        assert_non_null(copy);
        (void)memcpy(copy + 1, data, len);
        ls_buf_init(&buf, sizeof(expected));
        ls_base64_encode(&buf, (struct ls_bytes){ copy + 1, len });
        assert_int_equal(EVP_EncodeBlock(expected, data, (int)len), (int)buf.len);
        assert_memory_equal(buf.data == NULL ? (const unsigned char *)"" : buf.data, expected,
                            buf.len);
        ls_buf_fini(&buf);
        free(copy);
    }
}

/* From memory that ends with the text, so that a sanitizer sees a read beyond. */
static enum ls_err decode_copy(struct ls_buf *out, const char *text)
{
    size_t len = strlen(text);
    unsigned char *copy = malloc(len);
    enum ls_err rc;

    assert_non_null(copy);
    (void)memcpy(copy, text, len);
    rc = ls_base64_decode(out, (struct ls_bytes){ copy, len });
    free(copy);
    return rc;
}

static void what_is_not_base64_is_refused(void **state)
{
    static const char *const cases[] = {
        "Z",
        "Zg",
        "Zg=",
        "Zg==Zg==",
        "=g==",
        "Z===",
        "====",
        "Zm=v",
        "Zm9v\n",
        "Zm9v ",
        "Zm9-",
        "Zm_v",
        "Zh==" /* unused bits */,
        "Zm9=",
        "Zm9vZ",
        "Zm\x80v",
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_buf buf;

        ls_buf_init(&buf, 100);
        ls_buf_adds(&buf, "kept");
        if (decode_copy(&buf, cases[i]) != LS_EINVAL)
            fail_msg("accepted: %s", cases[i]);
        assert_true(buf.ok);
        assert_string_equal((const char *)buf.data, "kept");
        ls_buf_fini(&buf);
    }
}

static void any_bytes_come_back(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 64, 0);
    for (size_t len = 0; len < 300; len++) {
        unsigned char data[300];
        struct ls_buf text;
        struct ls_buf back;

        for (size_t i = 0; i < len; i++)
            data[i] = (unsigned char)ls_rng_next(&rng);
        ls_buf_init(&text, 400);
        ls_buf_init(&back, len);
        ls_base64_encode(&text, (struct ls_bytes){ data, len });
        assert_int_equal(text.len, (len + 2) / 3 * 4);
        assert_int_equal(ls_base64_decode(&back, (struct ls_bytes){ text.data, text.len }), LS_OK);
        assert_int_equal(back.len, len);
        if (len > 0)
            assert_memory_equal(back.data, data, len);
        ls_buf_fini(&text);
        ls_buf_fini(&back);
    }
}

static void a_full_buffer_is_out_of_memory(void **state)
{
    struct ls_buf buf;

    (void)state;
    ls_buf_init(&buf, 6);
    ls_buf_adds(&buf, "ab");
    assert_int_equal(ls_base64_decode(&buf, bytes_of("Zm9vYmFy")), LS_ENOMEM);
    assert_false(buf.ok);
    assert_string_equal((const char *)buf.data, "ab");
    ls_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_rfc_4648_hold),
        cmocka_unit_test(it_writes_what_openssl_writes),
        cmocka_unit_test(what_is_not_base64_is_refused),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(a_full_buffer_is_out_of_memory),
    };
    return cmocka_run_group_tests_name("common.base64", tests, NULL, NULL);
}
