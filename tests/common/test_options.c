#include "tests/support/test.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"

struct fields {
    uint64_t count;
    int64_t time_ns;
    double rate_per_s;
    const char *text;
    struct ls_option_list list;
    bool flag;
    const char *maybe;
};

static const struct ls_option rows[] = {
    { "count", 'c', LS_OPTION_COUNT, offsetof(struct fields, count), "N", "10", 1, 1000, "" },
    { "time", 't', LS_OPTION_DURATION, offsetof(struct fields, time_ns), "TIME", "5s", 1e6, 6e10,
      "" },
    { "rate", 'R', LS_OPTION_RATE, offsetof(struct fields, rate_per_s), "RATE", NULL, 0.5, 1e6,
      "" },
    { "text", 0, LS_OPTION_TEXT, offsetof(struct fields, text), "TEXT", NULL, 1, 0, "" },
    { "list", 'l', LS_OPTION_LIST, offsetof(struct fields, list), "ITEM", NULL, 1, 0, "" },
    { "flag", 'f', LS_OPTION_FLAG, offsetof(struct fields, flag), NULL, NULL, 1, 0, "" },
    { "maybe", 'm', LS_OPTION_MAYBE, offsetof(struct fields, maybe), "TEXT", NULL, 1, 0, "" },
};

/* Words are separated by a space; "_" stands for an empty one. */
static enum ls_err parse(const char *line, struct fields *out, const char **positional,
                         size_t *out_count, struct ls_diag *diag)
{
    static char copy[256];
    char *argv[32] = { (char[]){ "program" } };
    int argc = 1;
    char *rest = NULL;

    *out = (struct fields){ 0 };
    (void)snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = strcmp(word, "_") == 0 ? word + 1 : word;
    return ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, out, positional, 2, out_count,
                            diag);
}

static void what_is_not_given_has_its_default(void **state)
{
    const char *words[2];
    size_t count = 9;
    struct fields f;

    (void)state;
    assert_int_equal(parse("", &f, words, &count, NULL), LS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(f.count, 10);
    assert_int_equal(f.time_ns, INT64_C(5000000000));
    assert_true(f.rate_per_s == 0 && f.text == NULL && f.list.count == 0 && !f.flag);
}

static void a_value_may_stand_behind_an_equals_sign_a_space_or_its_letter(void **state)
{
    static const char *const lines[] = { "--count=7", "--count 7", "-c7", "-c 7", "-c 3 -c 7" };
    const char *words[2];
    size_t count;
    struct fields f;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(lines); i++) {
        assert_int_equal(parse(lines[i], &f, words, &count, NULL), LS_OK);
        assert_int_equal(f.count, 7);
    }
}

static void a_value_that_may_be_missing_is_never_the_next_word(void **state)
{
    const char *words[2];
    size_t count;
    struct fields f;

    (void)state;
    assert_int_equal(parse("", &f, words, &count, NULL), LS_OK);
    assert_null(f.maybe);
    assert_int_equal(parse("--maybe 7", &f, words, &count, NULL), LS_OK);
    assert_string_equal(f.maybe, "");
    assert_int_equal(count, 1);
    assert_int_equal(parse("--maybe=7", &f, words, &count, NULL), LS_OK);
    assert_string_equal(f.maybe, "7");
    assert_int_equal(parse("-m7 -f", &f, words, &count, NULL), LS_OK);
    assert_string_equal(f.maybe, "7");
    assert_int_equal(parse("-m -f", &f, words, &count, NULL), LS_OK);
    assert_string_equal(f.maybe, "");
    assert_true(f.flag);
}

static void lists_grow_and_words_are_kept_apart(void **state)
{
    const char *words[2];
    size_t count;
    struct fields f;

    (void)state;
    assert_int_equal(parse("-l a one --list=b -f -- -c", &f, words, &count, NULL), LS_OK);
    assert_int_equal(f.list.count, 2);
    assert_string_equal(f.list.items[0], "a");
    assert_string_equal(f.list.items[1], "b");
    assert_true(f.flag);
    assert_int_equal(count, 2);
    assert_string_equal(words[0], "one");
    assert_string_equal(words[1], "-c");
    ls_options_fini(rows, LS_ARRAY_LEN(rows), &f);
    assert_int_equal(f.list.count, 0);
}

static void times_and_rates_need_no_unit_here(void **state)
{
    static const struct {
        const char *line;
        int64_t time_ns;
        double rate_per_s;
    } cases[] = {
        { "-t 30", INT64_C(30000000000), 0 },     { "-t 250ms", INT64_C(250000000), 0 },
        { "-R 20k", INT64_C(5000000000), 20e3 },  { "-R 20k/s", INT64_C(5000000000), 20e3 },
        { "-R 0.5/s", INT64_C(5000000000), 0.5 },
    };
    const char *words[2];
    size_t count;
    struct fields f;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        assert_int_equal(parse(cases[i].line, &f, words, &count, NULL), LS_OK);
        assert_int_equal(f.time_ns, cases[i].time_ns);
        assert_true(f.rate_per_s == cases[i].rate_per_s);
    }
}

static void what_is_wrong_is_said_with_the_option_and_the_range(void **state)
{
    static const struct {
        const char *line;
        const char *text;
    } cases[] = {
        { "--cuont 5", "unknown option --cuont; did you mean --count?" },
        { "--something-else", "unknown option --something-else; --help lists them" },
        { "-x", "unknown option -x; --help lists them" },
        { "--count", "--count needs a value: N" },
        { "-c", "-c needs a value: N" },
        { "--count= 5", "--count: \"\"" },
        { "-c x", "--count: \"x\"" },
        { "-c 0", "--count 0: must be from 1 to 1k" },
        { "-c 2k", "--count 2k: must be from 1 to 1k" },
        { "-t 0", "--time 0: must be from 1ms to 1m" },
        { "-t 61", "--time 61: must be from 1ms to 1m" },
        { "-t 99999999999999999999999999999999", "--time" },
        { "-t -5", "--time: \"-5\"" },
        { "-R 0", "--rate 0: must be from 0.5/s to 1M/s" },
        { "--flag=yes", "--flag takes no value" },
        { "a b c", "unexpected argument 'c'" },
    };
    const char *words[2];
    size_t count;
    struct fields f;
    struct ls_diag diag;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        diag.text[0] = '\0';
        assert_int_not_equal(parse(cases[i].line, &f, words, &count, &diag), LS_OK);
        ls_options_fini(rows, LS_ARRAY_LEN(rows), &f);
        if (strstr(diag.text, cases[i].text) == NULL)
            fail_msg("%s: %s", cases[i].line, diag.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_given_has_its_default),
        cmocka_unit_test(a_value_may_stand_behind_an_equals_sign_a_space_or_its_letter),
        cmocka_unit_test(a_value_that_may_be_missing_is_never_the_next_word),
        cmocka_unit_test(lists_grow_and_words_are_kept_apart),
        cmocka_unit_test(times_and_rates_need_no_unit_here),
        cmocka_unit_test(what_is_wrong_is_said_with_the_option_and_the_range),
    };

    return cmocka_run_group_tests_name("common.options", tests, NULL, NULL);
}
