#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/digest.h"

/* FIPS 180-2, appendix B, and the empty text. */
static const struct {
    const char *text;
    const char *hex;
} examples[] = {
    { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
};
static const char million_hex[] =
    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

static void the_examples_of_the_standard_hold(void **state)
{
    char hex[LS_SHA256_HEX];

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(examples); i++) {
        ls_sha256_hex(
            (struct ls_bytes){ (const unsigned char *)examples[i].text, strlen(examples[i].text) },
            hex);
        assert_string_equal(hex, examples[i].hex);
    }
    ls_sha256_hex((struct ls_bytes){ NULL, 0 }, hex);
    assert_string_equal(hex, examples[0].hex);
}

static void a_file_has_the_digest_of_its_content(void **state)
{
    char path[] = "/tmp/ls-digest-XXXXXX";
    char hex[LS_SHA256_HEX];
    int fd = mkstemp(path);
    char block[1000];

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0); /* gone, whatever happens; still there by its descriptor */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    assert_int_equal(ls_sha256_file(path, hex, NULL), LS_OK);
    assert_string_equal(hex, examples[0].hex);
    (void)memset(block, 'a', sizeof(block));
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
    assert_int_equal(ls_sha256_file(path, hex, NULL), LS_OK);
    assert_string_equal(hex, million_hex);
    assert_int_equal(close(fd), 0);
}

static void a_file_that_cannot_be_read_fails_with_the_reason(void **state)
{
    char hex[LS_SHA256_HEX] = "untouched";
    struct ls_diag diag = { 0 };

    (void)state;
    assert_int_equal(ls_sha256_file("/nonexistent/file", hex, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "/nonexistent/file"));
    assert_non_null(strstr(diag.text, "No such file"));
    assert_int_equal(ls_sha256_file("/", hex, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "Is a directory"));
    assert_string_equal(hex, "untouched");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_standard_hold),
        cmocka_unit_test(a_file_has_the_digest_of_its_content),
        cmocka_unit_test(a_file_that_cannot_be_read_fails_with_the_reason),
    };
    return cmocka_run_group_tests_name("common.digest", tests, NULL, NULL);
}
