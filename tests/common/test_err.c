#include "tests/support/test.h"

#include <string.h>

#include "common/err.h"

static void a_failure_fills_the_diagnostic_and_returns_the_code(void **state)
{
    struct ls_diag diag = { 0 };

    (void)state;
    assert_int_equal(ls_fail(&diag, LS_ERANGE, "%d is too %s", 7, "large"), LS_ERANGE);
    assert_int_equal(diag.code, LS_ERANGE);
    assert_string_equal(diag.text, "7 is too large");
    assert_int_equal(ls_fail(NULL, LS_EIO, "%s", "unheard"), LS_EIO);
    assert_int_equal(ls_fail_in(NULL, LS_EIO, "%s", "unheard"), LS_EIO);
}

static void a_caller_puts_its_own_words_in_front(void **state)
{
    struct ls_diag diag = { 0 };

    (void)state;
    (void)ls_fail(&diag, LS_EIO, "no space");
    assert_int_equal(ls_fail_in(&diag, LS_ESTATE, "trial %d", 3), LS_ESTATE);
    assert_int_equal(diag.code, LS_ESTATE);
    assert_string_equal(diag.text, "trial 3: no space");
}

static void a_sentence_stays_one_line_whatever_is_quoted_in_it(void **state)
{
    struct ls_diag diag = { 0 };

    (void)state;
    (void)ls_fail(&diag, LS_EPROTO, "got \"%s\"", "a\r\nb\tc\033[31m\177");
    assert_string_equal(diag.text, "got \"a  b c [31m \"");
    (void)ls_fail_in(&diag, LS_EPROTO, "line\n1");
    assert_string_equal(diag.text, "line 1: got \"a  b c [31m \"");
}

static void a_long_sentence_is_cut(void **state)
{
    char text[2000];
    struct ls_diag diag = { 0 };

    (void)state;
    (void)memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    (void)ls_fail(&diag, LS_EINVAL, "%s", text);
    assert_int_equal(strlen(diag.text), sizeof(diag.text) - 1);
    (void)ls_fail_in(&diag, LS_EINVAL, "file");
    assert_memory_equal(diag.text, "file: xxx", 9);
    assert_true(strlen(diag.text) < sizeof(diag.text));
    (void)ls_fail_in(&diag, LS_EINVAL, "%s", text);
    assert_int_equal(strlen(diag.text), sizeof(diag.text) - 1);
}

static void a_sentence_is_text_that_a_message_can_carry(void **state)
{
    char text[sizeof(((struct ls_diag *)NULL)->text) + 2];
    struct ls_diag diag = { 0 };

    (void)state;
    (void)ls_fail(&diag, LS_EIO, "%s",
                  "caf\xe9 \xc2\x9b"
                  "31m");
    assert_string_equal(diag.text, "caf? ??31m");
    (void)ls_fail(&diag, LS_EIO, "%.2s", "a\xc3\xa9");
    assert_string_equal(diag.text, "a?");
    (void)memset(text, 'x', sizeof(text));
    (void)memcpy(text + sizeof(diag.text) - 2, "\xc3\xa9", 3); /* the last byte does not fit */
    (void)ls_fail(&diag, LS_EIO, "%s", text);
    assert_int_equal(diag.text[sizeof(diag.text) - 2], '?');
}

static void codes_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < LS_ERR_COUNT; i++) {
        assert_memory_equal(ls_err_name((enum ls_err)i), "LS_", 3);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(ls_err_name((enum ls_err)i), ls_err_name((enum ls_err)j));
    }
    assert_string_equal(ls_err_name(LS_EPROTO), "LS_EPROTO");
    assert_string_equal(ls_err_name(LS_ERR_COUNT), "LS_?");
    assert_string_equal(ls_err_name((enum ls_err) - 1), "LS_?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_fills_the_diagnostic_and_returns_the_code),
        cmocka_unit_test(a_caller_puts_its_own_words_in_front),
        cmocka_unit_test(a_sentence_stays_one_line_whatever_is_quoted_in_it),
        cmocka_unit_test(a_long_sentence_is_cut),
        cmocka_unit_test(a_sentence_is_text_that_a_message_can_carry),
        cmocka_unit_test(codes_have_names),
    };
    return cmocka_run_group_tests_name("common.err", tests, NULL, NULL);
}
