#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "common/csv.h"
#include "tests/support/failmalloc.h"

static struct ls_bytes bytes(const char *text)
{
    return (struct ls_bytes){ (const unsigned char *)text, strlen(text) };
}

static struct ls_csv *parse(const char *text)
{
    struct ls_csv *csv = NULL;
    struct ls_diag diag = { 0 };

    if (ls_csv_parse(bytes(text), &csv, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    return csv;
}

static void assert_cell(const struct ls_csv *csv, uint32_t row, uint32_t column, const char *text)
{
    struct ls_bytes value = ls_csv_at(csv, row, column);

    assert_int_equal(value.len, strlen(text));
    assert_memory_equal(value.data, text, value.len);
}

static void fields_are_what_rfc_4180_says(void **state)
{
    struct ls_csv *csv = parse("name,\"pass,word\"\r\n"
                               "alice,\"a\"\"b\"\r\n"
                               "\"multi\r\nline\",\r\n"
                               "\"\",  spaces stay \n"
                               "last,without line end");

    (void)state;
    assert_int_equal(ls_csv_rows(csv), 4);
    assert_int_equal(ls_csv_columns(csv), 2);
    assert_string_equal(ls_csv_name(csv, 0), "name");
    assert_string_equal(ls_csv_name(csv, 1), "pass,word");
    assert_cell(csv, 0, 0, "alice");
    assert_cell(csv, 0, 1, "a\"b");
    assert_cell(csv, 1, 0, "multi\r\nline");
    assert_cell(csv, 1, 1, "");
    assert_cell(csv, 2, 0, "");
    assert_cell(csv, 2, 1, "  spaces stay ");
    assert_cell(csv, 3, 1, "without line end");
    ls_csv_destroy(csv);
}

static void marks_and_empty_lines_are_skipped(void **state)
{
    struct ls_csv *csv = parse("\xef\xbb\xbf"
                               "id\n\n1\r\n\r\n\n2\n\n");

    (void)state;
    assert_string_equal(ls_csv_name(csv, 0), "id");
    assert_int_equal(ls_csv_rows(csv), 2);
    assert_cell(csv, 0, 0, "1");
    assert_cell(csv, 1, 0, "2");
    ls_csv_destroy(csv);
}

static void a_lone_carriage_return_and_a_nul_are_text(void **state)
{
    static const char text[] = "a,b\nx\ry,1\0002\n";
    struct ls_csv *csv = NULL;

    (void)state;
    assert_int_equal(
        ls_csv_parse((struct ls_bytes){ (const unsigned char *)text, sizeof(text) - 1 }, &csv,
                     NULL),
        LS_OK);
    assert_cell(csv, 0, 0, "x\ry");
    assert_int_equal(ls_csv_at(csv, 0, 1).len, 3);
    ls_csv_destroy(csv);
}

static void what_is_no_table_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        { "", "has no rows" },
        { "a,b\n", "has no rows" },
        { "a,b\n1\n", "line 2: 1 fields where line 1 names 2 columns" },
        { "a,b\n1,2\n\n1,2,3\n", "line 4: 3 fields" },
        { "a,a\n1,2\n", "two columns are named 'a'" },
        { "a,\n1,2\n", "column 2 has no name" },
        { "a}\n1\n", "holds a NUL or a brace" },
        { "a\n\"x\n", "line 2: a quoted field does not end" },
        { "a\n\"x\"y\n", "line 2: text after a field's closing quote" },
        { "a\nx\"y\n", "line 2: a quote within a field" },
        { "a\n\"1\n\"\n\"x", "line 4: a quoted field does not end" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_csv *csv = NULL;
        struct ls_diag diag = { 0 };

        assert_int_equal(ls_csv_parse(bytes(cases[i].text), &csv, &diag), LS_EINVAL);
        assert_null(csv);
        if (strstr(diag.text, cases[i].says) == NULL)
            fail_msg("'%s' instead of '%s'", diag.text, cases[i].says);
    }
}

static void too_many_columns_are_refused(void **state)
{
    char text[2 * (LS_CSV_COLUMNS_MAX + 1) + 1];
    struct ls_csv *csv = NULL;

    (void)state;
    for (size_t i = 0; i <= LS_CSV_COLUMNS_MAX; i++)
        memcpy(text + 2 * i, "x,", 2);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(ls_csv_parse(bytes(text), &csv, NULL), LS_ERANGE);
}

static void attempt(void *ctx)
{
    struct ls_csv *csv = NULL;
    enum ls_err rc = ls_csv_parse(bytes("a,b\n1,2\n"), &csv, NULL);

    (void)ctx;
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    ls_csv_destroy(csv);
}

static void each_failing_allocation_is_told(void **state)
{
    (void)state;
    assert_true(failmalloc_each(attempt, NULL) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_what_rfc_4180_says),
        cmocka_unit_test(marks_and_empty_lines_are_skipped),
        cmocka_unit_test(a_lone_carriage_return_and_a_nul_are_text),
        cmocka_unit_test(what_is_no_table_is_refused_with_its_line),
        cmocka_unit_test(too_many_columns_are_refused),
        cmocka_unit_test(each_failing_allocation_is_told),
    };

    return cmocka_run_group_tests_name("common.csv", tests, NULL, NULL);
}
