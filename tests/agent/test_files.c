#include "tests/support/test.h"

#include <string.h>

#include "agent/files.h"
#include "common/digest.h"
#include "common/pb.h"
#include "tests/support/failmalloc.h"

static struct agent_files *create(uint64_t bytes, uint64_t file_bytes, uint32_t count)
{
    const struct agent_files_limits limits = {
        .max_bytes = bytes, .max_file_bytes = file_bytes, .max_files = count, .policy = "p.yaml"
    };
    struct agent_files *files = NULL;

    assert_int_equal(agent_files_create(&limits, &files), LS_OK);
    return files;
}

static const char *digest(const char *text)
{
    static char hex[LS_SHA256_HEX];

    ls_sha256_hex((struct ls_bytes){ (const unsigned char *)text, strlen(text) }, hex);
    return hex;
}

/* One piece of a file that has that digest in the end. */
static enum ls_err put(struct agent_files *files, const char *sha256, uint64_t offset,
                       const char *text, bool last, struct ls_diag *diag)
{
    Ls__PutFile piece = LS__PUT_FILE__INIT;

    piece.sha256 = ls_pb_text(sha256);
    piece.offset = offset;
    piece.data.data = (unsigned char *)ls_pb_text(text);
    piece.data.len = strlen(text);
    piece.last = last;
    return agent_files_put(files, &piece, diag);
}

static void a_file_is_there_when_its_digest_is_right(void **state)
{
    struct agent_files *files = create(100, 100, 10);
    struct ls_bytes out;
    struct ls_diag diag;
    char sha256[LS_SHA256_HEX];

    (void)state;
    (void)memcpy(sha256, digest("hello, world"), LS_SHA256_HEX);
    assert_int_equal(agent_files_get(files, sha256, &out, &diag), LS_EINVAL);
    assert_int_equal(put(files, sha256, 0, "hello, ", false, &diag), LS_OK);
    assert_int_equal(agent_files_get(files, sha256, &out, &diag), LS_EINVAL);
    assert_int_equal(put(files, sha256, 7, "world", true, &diag), LS_OK);
    assert_int_equal(agent_files_get(files, sha256, &out, &diag), LS_OK);
    assert_int_equal(out.len, 12);
    assert_memory_equal(out.data, "hello, world", 12);
    assert_int_equal(put(files, sha256, 0, "other", true, &diag), LS_OK); /* it is there already */
    assert_int_equal(agent_files_get(files, sha256, &out, &diag), LS_OK);
    assert_memory_equal(out.data, "hello, world", 12);
    agent_files_destroy(files);
}

static void what_is_not_what_it_was_said_to_be_is_refused(void **state)
{
    static const char *const names[] = { "", "abc", "../../../../etc/passwd",
                                         "ABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABC"
                                         "DEFABCD",
                                         "g0000000000000000000000000000000000000000000000000000000"
                                         "00000000" };
    struct agent_files *files = create(100, 100, 10);
    struct ls_bytes out;
    struct ls_diag diag = { 0 };
    char sha256[LS_SHA256_HEX];

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(names); i++)
        assert_int_equal(put(files, names[i], 0, "x", true, &diag), LS_EPROTO);
    (void)memcpy(sha256, digest("hello"), LS_SHA256_HEX);
    assert_int_equal(put(files, sha256, 0, "hellx", true, &diag), LS_EPROTO);
    assert_non_null(strstr(diag.text, "announced as SHA-256"));
    assert_int_equal(agent_files_get(files, sha256, &out, &diag), LS_EPROTO);
    assert_int_equal(put(files, sha256, 0, "hello", true, &diag), LS_EPROTO); /* no second try */
    (void)memcpy(sha256, digest("other"), LS_SHA256_HEX);
    assert_int_equal(put(files, sha256, 3, "er", true, &diag), LS_EPROTO);
    assert_non_null(strstr(diag.text, "at 3 where 0 was next"));
    agent_files_destroy(files);
}

static void limits_hold_for_each_and_for_all(void **state)
{
    struct agent_files *files = create(10, 6, 2);
    struct ls_bytes out;
    struct ls_diag diag = { 0 };
    char one[LS_SHA256_HEX], two[LS_SHA256_HEX], three[LS_SHA256_HEX];

    (void)state;
    (void)memcpy(one, digest("123456"), LS_SHA256_HEX);
    (void)memcpy(two, digest("abcde"), LS_SHA256_HEX);
    (void)memcpy(three, digest("x"), LS_SHA256_HEX);
    assert_int_equal(put(files, digest("1234567"), 0, "1234567", true, &diag), LS_EREFUSED);
    assert_string_equal(diag.text, "p.yaml: files.max_file_bytes: the bytes of a file of the plan "
                                   "are more than 6");
    assert_int_equal(put(files, one, 0, "123456", true, &diag), LS_OK);
    assert_int_equal(put(files, two, 0, "abcd", false, &diag), LS_OK);
    assert_int_equal(put(files, three, 0, "x", true, &diag), LS_EREFUSED);
    assert_string_equal(diag.text, "p.yaml: files.max_files: the plan's files are more than 2");
    assert_int_equal(put(files, two, 4, "e", true, &diag), LS_EREFUSED);
    assert_string_equal(diag.text,
                        "p.yaml: files.max_bytes: the bytes of the plan's files are more than 10");
    /* and whoever asks for it later hears the same */
    assert_int_equal(agent_files_get(files, two, &out, &diag), LS_EREFUSED);
    assert_non_null(strstr(diag.text, "files.max_bytes"));
    assert_int_equal(agent_files_get(files, one, &out, &diag), LS_OK);
    agent_files_destroy(files);
}

/* A piece's offset and length come from anywhere. */
static void numbers_at_their_ends_do_no_harm(void **state)
{
    struct agent_files *files = create(10, 6, 2);
    struct ls_diag diag;

    (void)state;
    assert_int_equal(put(files, digest("a"), UINT64_MAX, "a", true, &diag), LS_EPROTO);
    assert_int_equal(put(files, digest("b"), 0, "", false, &diag), LS_OK);
    assert_int_equal(put(files, digest("b"), 0, "", false, &diag), LS_OK);
    assert_int_equal(put(files, digest("b"), 0, "b", true, &diag), LS_OK);
    assert_int_equal(put(files, digest(""), 0, "", true, &diag), LS_OK);
    agent_files_destroy(files);
}

static void put_once(void *ctx)
{
    struct agent_files *files = NULL;
    enum ls_err rc;

    (void)ctx;
    if (agent_files_create(NULL, &files) != LS_OK) {
        assert_true(failmalloc_hit());
        return;
    }
    rc = put(files, digest("text"), 0, "text", true, NULL);
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    agent_files_destroy(files);
}

static void each_failed_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(failmalloc_each(put_once, NULL) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_there_when_its_digest_is_right),
        cmocka_unit_test(what_is_not_what_it_was_said_to_be_is_refused),
        cmocka_unit_test(limits_hold_for_each_and_for_all),
        cmocka_unit_test(numbers_at_their_ends_do_no_harm),
        cmocka_unit_test(each_failed_allocation_is_reported),
    };

    return cmocka_run_group_tests_name("agent.files", tests, NULL, NULL);
}
