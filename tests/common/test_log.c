#include "tests/support/test.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"

/* What one record leaves on stderr; out holds 2048 bytes. */
static size_t logged(char *out, enum ls_log_level level, const char *text)
{
    int ends[2];
    int before = dup(STDERR_FILENO);
    ssize_t len;

    assert_true(before >= 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    ls_log(level, "an-id", "text=%s", text);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    len = read(ends[0], out, 2047);
    assert_int_equal(close(before), 0);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
    len = len < 0 ? 0 : len;
    out[len] = '\0';
    return (size_t)len;
}

static void a_record_is_one_line_with_time_level_and_id(void **state)
{
    char out[2048];
    int end = 0;

    (void)state;
    (void)logged(out, LS_LOG_ERROR, "hello");
    assert_int_equal(
        sscanf(out, "%*4d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ error an-id text=hello%n", &end), 0);
    assert_true(end > 0);
    assert_string_equal(out + end, "\n");
}

static void what_is_quoted_cannot_make_a_second_line(void **state)
{
    char out[2048];

    (void)state;
    (void)logged(out, LS_LOG_ERROR, "a\nb\r\033[31m");
    assert_non_null(strstr(out, "text=a b  [31m\n"));
    (void)logged(out, LS_LOG_ERROR,
                 "a\x7f"
                 "b\xc2\x9b"
                 "31m \x9b"
                 "31m gr\xc3\xbc\xc3\x9f");
    assert_non_null(strstr(out, "text=a b??31m ?31m gr\xc3\xbc\xc3\x9f\n"));
    assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
}

static void a_long_record_is_cut_but_ends_in_a_newline(void **state)
{
    char out[2048];
    char text[3000];
    size_t len;

    (void)state;
    (void)memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    len = logged(out, LS_LOG_ERROR, text);
    assert_in_range(len, 500, 1024);
    assert_int_equal(out[len - 1], '\n');
}

static void only_records_of_the_level_and_above_are_written(void **state)
{
    (void)state;
    assert_int_equal(ls_log_level(), LS_LOG_WARN);
    for (int least = 0; least < LS_LOG_LEVEL_COUNT; least++) {
        ls_log_set_level((enum ls_log_level)least);
        assert_int_equal(ls_log_level(), least);
        for (int level = 0; level < LS_LOG_LEVEL_COUNT; level++) {
            char out[2048];

            assert_int_equal(logged(out, (enum ls_log_level)level, "x") > 0, level >= least);
        }
    }
    ls_log_set_level(LS_LOG_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_one_line_with_time_level_and_id),
        cmocka_unit_test(what_is_quoted_cannot_make_a_second_line),
        cmocka_unit_test(a_long_record_is_cut_but_ends_in_a_newline),
        cmocka_unit_test(only_records_of_the_level_and_above_are_written),
    };
    return cmocka_run_group_tests_name("common.log", tests, NULL, NULL);
}
