/* coordinator/result/escape.c: what a name may do to the place where it is shown. Nothing. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "common/attr.h"
#include "common/rng.h"
#include "coordinator/result/escape.h"

static char *escaped(void (*escape)(struct ls_buf *out, const char *text), const char *text)
{
    struct ls_buf buf;

    ls_buf_init(&buf, 1 << 16);
    ls_buf_adds(&buf, "");
    escape(&buf, text);
    assert_true(buf.ok);
    return ls_buf_detach(&buf);
}

struct row {
    const char *text;
    const char *expected;
};

static void check(void (*escape)(struct ls_buf *out, const char *text), const struct row *rows,
                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *got = escaped(escape, rows[i].text);

        assert_string_equal(got, rows[i].expected);
        free(got);
    }
}

static void what_cannot_be_seen_is_shown_as_an_escape(void **state)
{
    static const struct row rows[] = {
        { "plain", "plain" },
        { "", "" },
        { "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x9a\x80",
          "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x9a\x80" },
        { "\033[31mred\033[0m", "\\x1b[31mred\\x1b[0m" },
        { "a\r\nb\tc\x7f", "a\\x0d\\x0ab\\x09c\\x7f" },
        { "\xc2\x9b"
          "31m",
          "\\x9b31m" },                              /* C1: CSI in one character */
        { "\xe2\x80\xaetxt.exe", "\\u202etxt.exe" }, /* right-to-left override */
        { "a\xe2\x80\x8b"
          "b",
          "a\\u200bb" },                                /* zero width */
        { "\xff\xc3", "\\xff\\xc3" },                   /* no UTF-8; cut off */
        { "\xc0\xaf", "\\xc0\\xaf" },                   /* overlong */
        { "\xed\xa0\x80", "\\xed\\xa0\\x80" },          /* a surrogate */
        { "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" }, /* beyond U+10FFFF */
        { "\xf3\xa0\x81\x81", "\\ue0041" },             /* a tag character */
    };

    (void)state;
    check(coord_escape_text, rows, LS_ARRAY_LEN(rows));
}

static void markdown_has_no_markup_left(void **state)
{
    static const struct row rows[] = {
        { "node_20 is fast (1.5 ms)", "node_20 is fast (1.5 ms)" },
        { "_em_ *b* `c` ~s~", "\\_em\\_ \\*b\\* \\`c\\` \\~s\\~" },
        { "a|b\\c", "a\\|b\\\\c" },
        { "<b>&amp;", "&lt;b&gt;&amp;amp;" },
        { "[x](http://y)", "\\[x\\](http\\://y)" },
        { "- item", "\\- item" },
        { "1. item", "1\\. item" },
        { "===", "\\===" },
        { "#12 @me", "\\#12 \\@me" },
        { "two\nlines", "two\\\\x0alines" },
    };

    (void)state;
    check(coord_escape_markdown, rows, LS_ARRAY_LEN(rows));
}

static void csv_fields_are_quoted_and_never_computed(void **state)
{
    static const struct row rows[] = {
        { "plain", "plain" },
        { "a,b", "\"a,b\"" },
        { "say \"hi\"", "\"say \"\"hi\"\"\"" },
        { "=1+1", "\"'=1+1\"" },
        { "+1", "\"'+1\"" },
        { "-1", "\"'-1\"" },
        { "@SUM(A1)", "\"'@SUM(A1)\"" },
        { "\t=1", "\"'\\x09=1\"" },
        { "a\nb", "\"a\\x0ab\"" },
    };

    (void)state;
    check(coord_escape_csv, rows, LS_ARRAY_LEN(rows));
}

/* Whatever the bytes: valid, printable UTF-8 comes out, of a width that can be counted. */
static void random_bytes_become_printable_text(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 5, 5);
    for (unsigned k = 0; k < 5000; k++) {
        char text[17] = "", *once, *twice;
        unsigned n = (unsigned)ls_rng_below(&rng, 16);

        for (unsigned i = 0; i < n; i++)
            text[i] = (char)(1 + ls_rng_below(&rng, 255));
        once = escaped(coord_escape_text, text);
        for (const char *p = once; *p != '\0'; p++)
            assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
        twice = escaped(coord_escape_text, once); /* nothing is left to escape */
        assert_string_equal(once, twice);
        assert_true(coord_text_width(once) <= strlen(once));
        free(once);
        free(twice);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_seen_is_shown_as_an_escape),
        cmocka_unit_test(markdown_has_no_markup_left),
        cmocka_unit_test(csv_fields_are_quoted_and_never_computed),
        cmocka_unit_test(random_bytes_become_printable_text),
    };
    return cmocka_run_group_tests_name("coordinator.escape", tests, NULL, NULL);
}
