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

/* RFC 4231, sections 4.2 to 4.4 and 4.7. */
static void hmac_is_that_of_the_standard(void **state)
{
    static const unsigned char twenty_0b[20] = { 11, 11, 11, 11, 11, 11, 11, 11, 11, 11,
                                                 11, 11, 11, 11, 11, 11, 11, 11, 11, 11 };
    unsigned char aa[131], dd[50];
    const struct {
        struct ls_bytes key, data;
        const unsigned char *out;
    } rows[] = {
        { { twenty_0b, 20 },
          { (const unsigned char *)"Hi There", 8 },
          (const unsigned char
               *)"\xb0\x34\x4c\x61\xd8\xdb\x38\x53\x5c\xa8\xaf\xce\xaf\x0b\xf1\x2b"
                 "\x88\x1d\xc2\x00\xc9\x83\x3d\xa7\x26\xe9\x37\x6c\x2e\x32\xcf\xf7" },
        { { (const unsigned char *)"Jefe", 4 },
          { (const unsigned char *)"what do ya want for nothing?", 28 },
          (const unsigned char
               *)"\x5b\xdc\xc1\x46\xbf\x60\x75\x4e\x6a\x04\x24\x26\x08\x95\x75\xc7"
                 "\x5a\x00\x3f\x08\x9d\x27\x39\x83\x9d\xec\x58\xb9\x64\xec\x38\x43" },
        { { aa, 20 },
          { dd, 50 },
          (const unsigned char
               *)"\x77\x3e\xa9\x1e\x36\x80\x0e\x46\x85\x4d\xb8\xeb\xd0\x91\x81\xa7"
                 "\x29\x59\x09\x8b\x3e\xf8\xc1\x22\xd9\x63\x55\x14\xce\xd5\x65\xfe" },
        { { aa, 131 }, /* longer than a block */
          { (const unsigned char *)"Test Using Larger Than Block-Size Key - Hash Key First", 54 },
          (const unsigned char
               *)"\x60\xe4\x31\x59\x1e\xe0\xb6\x7f\x0d\x8a\x26\xaa\xcb\xf5\xb7\x7f"
                 "\x8e\x0b\xc6\x21\x37\x28\xc5\x14\x05\x46\x04\x0f\x0e\xe3\x7f\x54" },
    };

    (void)state;
    memset(aa, 0xaa, sizeof(aa));
    memset(dd, 0xdd, sizeof(dd));
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        unsigned char out[LS_HMAC_SHA256_BYTES];

        ls_hmac_sha256(rows[i].key, rows[i].data, out);
        assert_memory_equal(out, rows[i].out, sizeof(out));
        assert_true(ls_bytes_equal_secret(out, rows[i].out, sizeof(out)));
        out[31] ^= 1;
        assert_false(ls_bytes_equal_secret(out, rows[i].out, sizeof(out)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_standard_hold),
        cmocka_unit_test(a_file_has_the_digest_of_its_content),
        cmocka_unit_test(hmac_is_that_of_the_standard),
        cmocka_unit_test(a_file_that_cannot_be_read_fails_with_the_reason),
    };
    return cmocka_run_group_tests_name("common.digest", tests, NULL, NULL);
}
