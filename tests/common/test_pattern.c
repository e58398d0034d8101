#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/pattern.h"
#include "tests/support/failmalloc.h"

#define TABLE "name,word\nann,a b\nbob,x\ncid,\n"

static struct ls_csv *table(void)
{
    struct ls_csv *csv = NULL;

    assert_int_equal(
        ls_csv_parse((struct ls_bytes){ (const unsigned char *)TABLE, strlen(TABLE) }, &csv, NULL),
        LS_OK);
    return csv;
}

/* The pattern's text at a turn. */
static const char *text_at(const struct ls_variables *v, const struct ls_pattern *pattern,
                           uint64_t turn)
{
    static char out[256];
    size_t len = 0;

    for (size_t i = 0; i < pattern->count; i++) {
        const struct ls_piece *piece = &pattern->pieces[i];
        char digits[LS_PATTERN_DIGITS_MAX];
        struct ls_bytes text = piece->text;

        if (piece->kind == LS_PIECE_VALUE)
            text = ls_piece_value(v, piece, ls_variable_at(v, piece->variable, turn), digits);
        memcpy(out + len, text.data, text.len);
        len += text.len;
    }
    out[len] = '\0';
    return out;
}

static void placeholders_stand_for_their_values(void **state)
{
    struct ls_csv *csv = table();
    static const struct {
        const char *text;
        const char *at[3]; /* turns 0, 1, 2 */
    } cases[] = {
        { "plain", { "plain", "plain", "plain" } },
        { "", { "", "", "" } },
        { "/item/{seq:0-1}", { "/item/0", "/item/1", "/item/0" } },
        { "{seq:008-010}", { "008", "009", "010" } },
        { "{seq:0-0}{seq:5-6}x{seq:5-6}", { "05x5", "06x6", "05x5" } },
        { "{seq:3-5}-{seq}", { "3-3", "4-4", "5-5" } },
        { "{csv:name}:{csv:word}", { "ann:a b", "bob:x", "cid:" } },
        { "{rand:7-7}{pick:q}", { "7q", "7q", "7q" } },
        { "{{seq:0-1}", { "{seq:0-1}", "{seq:0-1}", "{seq:0-1}" } },
        { "{{{seq:0-1}}", { "{0}", "{1}", "{0}" } },
        { "{\"a\":1,\"b\":{}}",
          { "{\"a\":1,\"b\":{}}", "{\"a\":1,\"b\":{}}", "{\"a\":1,\"b\":{}}" } },
        { "{ x} {1} {a b} {", { "{ x} {1} {a b} {", "{ x} {1} {a b} {", "{ x} {1} {a b} {" } },
        { "{\"n\":{seq:0-2}}", { "{\"n\":0}", "{\"n\":1}", "{\"n\":2}" } },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_variables v = { .csv = csv, .seed = 9 };
        struct ls_pattern pattern;
        struct ls_diag diag = { 0 };

        if (ls_pattern_parse(&v, cases[i].text, 0, &pattern, &diag) != LS_OK)
            fail_msg("%s: %s", cases[i].text, diag.text);
        for (uint64_t turn = 0; turn < 3; turn++)
            assert_string_equal(text_at(&v, &pattern, turn), cases[i].at[turn]);
        ls_pattern_fini(&pattern);
        ls_variables_fini(&v);
    }
    ls_csv_destroy(csv);
}

static void what_is_no_placeholder_is_refused_with_its_place_and_what_was_meant(void **state)
{
    struct ls_csv *csv = table();
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        { "/a/{sqe:0-9}", "unknown placeholder {sqe} at byte 4: did you mean {seq}?" },
        { "{zzzzzz}", "known are {seq:0-9}, {rand:0-9}, {pick:a,b} and {csv:column}" },
        { "{seq}", "needs its numbers" },
        { "{pick}", "needs its choices" },
        { "{csv}", "needs the name of a column" },
        { "{csv:nmae}", "did you mean 'name'?" },
        { "{seq:9-0}", "the smaller one first" },
        { "{seq:0-9x}", "two numbers" },
        { "{seq:-5}", "two numbers" },
        { "{seq:0-9999999999999999999}", "up to 18 digits" },
        { "x{rand:0-9", "at byte 2 has no closing brace" },
        { "{length}", "unknown placeholder {length}" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_variables v = { .csv = csv };
        struct ls_pattern pattern = { 0 };
        struct ls_diag diag = { 0 };

        assert_int_equal(ls_pattern_parse(&v, cases[i].text, 0, &pattern, &diag), LS_EINVAL);
        assert_null(pattern.pieces);
        if (strstr(diag.text, cases[i].says) == NULL)
            fail_msg("%s: '%s' instead of '%s'", cases[i].text, diag.text, cases[i].says);
        ls_variables_fini(&v);
    }
    ls_csv_destroy(csv);
}

static void an_expectation_may_only_repeat_what_was_sent(void **state)
{
    struct ls_variables v = { 0 };
    struct ls_pattern pattern;
    struct ls_diag diag = { 0 };

    (void)state;
    assert_int_equal(ls_pattern_parse(&v, "/{seq:0-9}", 0, &pattern, NULL), LS_OK);
    ls_pattern_fini(&pattern);
    assert_int_equal(ls_pattern_parse(&v, "{rand:0-9}", LS_PATTERN_KNOWN, &pattern, &diag),
                     LS_EINVAL);
    assert_non_null(strstr(diag.text, "stands for nothing that the request sends"));
    assert_int_equal(ls_pattern_parse(&v, "item {seq}", LS_PATTERN_KNOWN, &pattern, NULL), LS_OK);
    assert_string_equal(text_at(&v, &pattern, 17), "item 7");
    ls_pattern_fini(&pattern);
    ls_variables_fini(&v);
}

static void limits_are_limits(void **state)
{
    struct ls_variables v = { 0 };
    struct ls_pattern pattern = { 0 };
    char text[512] = "";
    char *many = calloc(1, 2 * LS_PATTERN_CHOICES_MAX + 16);

    (void)state;
    for (unsigned i = 0; i <= LS_PATTERN_VARIABLES_MAX; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "{seq:0-%u}", i);
    assert_int_equal(ls_pattern_parse(&v, text, 0, &pattern, NULL), LS_ERANGE);
    ls_variables_fini(&v);
    assert_non_null(many);
    memcpy(many, "{pick:a", 7);
    for (unsigned i = 0; i < LS_PATTERN_CHOICES_MAX; i++)
        memcpy(many + 7 + 2 * i, ",a", 2);
    many[7 + 2 * LS_PATTERN_CHOICES_MAX] = '}';
    assert_int_equal(ls_pattern_parse(&v, many, 0, &pattern, NULL), LS_ERANGE);
    ls_variables_fini(&v);
    free(many);
}

static void drawn_values_follow_the_seed_and_all_come_about_equally_often(void **state)
{
    enum { VALUES = 10, TURNS = 100000 };
    unsigned seen[2][VALUES] = { { 0 } };
    unsigned same = 0;

    (void)state;
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        uint64_t at[2];

        for (unsigned seed = 0; seed < 2; seed++) {
            struct ls_variables v = { .seed = seed, .count = 1 };

            v.items[0] = (struct ls_variable){ .drawn = true, .count = VALUES };
            at[seed] = ls_variable_at(&v, 0, turn);
            assert_int_equal(at[seed], ls_variable_at(&v, 0, turn));
            assert_true(at[seed] < VALUES);
            seen[seed][at[seed]]++;
        }
        same += at[0] == at[1];
    }
    for (unsigned i = 0; i < 2 * VALUES; i++) /* the standard deviation is 95 */
        assert_in_range(seen[i / VALUES][i % VALUES], TURNS / VALUES - 500, TURNS / VALUES + 500);
    assert_in_range(same, TURNS / VALUES - 500, TURNS / VALUES + 500);
}

static void the_first_values_are_a_pattern_that_does_not_vary(void **state)
{
    struct ls_variables v = { 0 };
    struct ls_pattern pattern;
    char *first;

    (void)state;
    assert_int_equal(ls_pattern_parse(&v, "{{x}{pick:b,c}{{seq:0-9}{seq:07-9}", 0, &pattern, NULL),
                     LS_OK);
    first = ls_pattern_first(&v, &pattern);
    ls_pattern_fini(&pattern);
    assert_string_equal(first, "{{x}b{{seq:0-9}07");
    assert_int_equal(ls_pattern_parse(&v, first, 0, &pattern, NULL), LS_OK);
    assert_false(pattern.varies);
    assert_string_equal(text_at(&v, &pattern, 5), "{x}b{seq:0-9}07");
    free(first);
    ls_pattern_fini(&pattern);
    ls_variables_fini(&v);
}

static void attempt(void *ctx)
{
    struct ls_variables v = { 0 };
    struct ls_pattern pattern;
    enum ls_err rc = ls_pattern_parse(&v, "{seq:0-9}{pick:a,b}", 0, &pattern, NULL);

    (void)ctx;
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    if (rc == LS_OK)
        ls_pattern_fini(&pattern);
    ls_variables_fini(&v);
}

static void each_failing_allocation_is_told(void **state)
{
    (void)state;
    assert_true(failmalloc_each(attempt, NULL) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placeholders_stand_for_their_values),
        cmocka_unit_test(what_is_no_placeholder_is_refused_with_its_place_and_what_was_meant),
        cmocka_unit_test(an_expectation_may_only_repeat_what_was_sent),
        cmocka_unit_test(limits_are_limits),
        cmocka_unit_test(drawn_values_follow_the_seed_and_all_come_about_equally_often),
        cmocka_unit_test(the_first_values_are_a_pattern_that_does_not_vary),
        cmocka_unit_test(each_failing_allocation_is_told),
    };

    return cmocka_run_group_tests_name("common.pattern", tests, NULL, NULL);
}
