#include "tests/support/test.h"

#include <string.h>

#include "common/rng.h"
#include "common/utf8.h"

static struct ls_bytes bytes_of(const char *text)
{
    return (struct ls_bytes){ (const unsigned char *)text, strlen(text) };
}

static void well_formed_text_is_accepted(void **state)
{
    static const char *const texts[] = {
        "",
        "plain",
        "\x7f",
        "\xc2\x80",
        "gr\xc3\xbc\xc3\x9f",
        "\xe0\xa0\x80",
        "\xed\x9f\xbf",
        "\xee\x80\x80",
        "\xef\xbf\xbf",
        "\xf0\x90\x80\x80",
        "\xf4\x8f\xbf\xbf",
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(texts); i++)
        assert_true(ls_utf8_is_text(bytes_of(texts[i])));
}

static void everything_else_is_not(void **state)
{
    static const char *const texts[] = {
        "\x80",             /* a continuation alone */
        "\xc0\xaf",         /* overlong '/' */
        "\xc1\xbf",         /* overlong */
        "\xe0\x9f\xbf",     /* overlong */
        "\xed\xa0\x80",     /* a surrogate */
        "\xf0\x8f\xbf\xbf", /* overlong */
        "\xf4\x90\x80\x80", /* past U+10FFFF */
        "\xf5\x80\x80\x80",
        "\xff",
        "\xc3", /* cut short */
        "\xe2\x82",
        "\xf0\x9f\x98",
        "\xc3(",
        "a\xe2\x28\xa1",
        "ok\xf0\x9f\x98.",
    };
    static const unsigned char with_nul[] = { 'a', 0, 'b' };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(texts); i++)
        assert_false(ls_utf8_is_text(bytes_of(texts[i])));
    assert_false(ls_utf8_is_text((struct ls_bytes){ with_nul, sizeof(with_nul) }));
}

static void cleaned_bytes_are_text_of_the_same_length(void **state)
{
    char mixed[] = "caf\xc3\xa9 \xff\xfe \xc2\x9b\xc2\xa0 \xe2\x82 end\xc3";
    struct ls_rng rng;
    char bytes[64];

    (void)state;
    ls_utf8_clean(mixed, sizeof(mixed) - 1);
    assert_string_equal(mixed, "caf\xc3\xa9 ?? ??\xc2\xa0 ?? end?");
    ls_rng_init(&rng, 1, 1);
    for (unsigned round = 0; round < 10000; round++) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (char)ls_rng_below(&rng, 256);
        ls_utf8_clean(bytes, sizeof(bytes));
        assert_true(ls_utf8_is_text((struct ls_bytes){ (unsigned char *)bytes, sizeof(bytes) }));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_text_is_accepted),
        cmocka_unit_test(everything_else_is_not),
        cmocka_unit_test(cleaned_bytes_are_text_of_the_same_length),
    };
    return cmocka_run_group_tests_name("common.utf8", tests, NULL, NULL);
}
