/* common/sources.c */
#include "tests/support/test.h"

#include <netinet/in.h>
#include <string.h>

#include "common/attr.h"
#include "common/sources.h"
#include "tests/support/failmalloc.h"

static void assert_nth(const struct ls_sources *sources, uint32_t i, const char *expected)
{
    char text[64];

    assert_true(i < sources->count);
    assert_string_equal(ls_source_format(&sources->items[i], text, sizeof(text)), expected);
}

static void addresses_and_ranges_are_taken_in_their_order(void **state)
{
    struct ls_sources sources = { 0 };

    (void)state;
    assert_int_equal(ls_sources_add(&sources, "127.0.0.9", AF_INET, NULL), LS_OK);
    assert_int_equal(ls_sources_add(&sources, "127.0.1.0/29", AF_INET, NULL), LS_OK);
    assert_int_equal(ls_sources_add(&sources, "127.0.2.4/31", AF_INET, NULL), LS_OK);
    assert_int_equal(ls_sources_add(&sources, "127.0.2.7/32", AF_INET, NULL), LS_OK);
    assert_int_equal(sources.count, 1 + 6 + 2 + 1);
    assert_nth(&sources, 0, "127.0.0.9");
    assert_nth(&sources, 1, "127.0.1.1"); /* neither the network nor its broadcast */
    assert_nth(&sources, 6, "127.0.1.6");
    assert_nth(&sources, 7, "127.0.2.4");
    assert_nth(&sources, 9, "127.0.2.7");
    assert_int_equal(ls_source_len(&sources.items[0]), sizeof(struct sockaddr_in));
    ls_sources_fini(&sources);
    assert_int_equal(ls_sources_add(&sources, "::1", AF_INET6, NULL), LS_OK);
    assert_nth(&sources, 0, "::1");
    assert_int_equal(ls_source_len(&sources.items[0]), sizeof(struct sockaddr_in6));
    ls_sources_fini(&sources);
}

static void what_is_no_source_is_refused_by_name(void **state)
{
    static const struct {
        const char *text;
        int family;
        enum ls_err rc;
        const char *words;
    } bad[] = {
        { "", AF_INET, LS_EINVAL, "neither a literal address" },
        { "localhost", AF_INET, LS_EINVAL, "'localhost' is neither" },
        { "127.0.0.1:80", AF_INET, LS_EINVAL, "neither" },
        { "127.0.0.1", AF_INET6, LS_EINVAL, "is IPv4" },
        { "::1", AF_INET, LS_EINVAL, "is IPv6" },
        { "::/120", AF_INET, LS_EINVAL, "no range such as" },
        { "127.0.0.0/", AF_INET, LS_EINVAL, "no range such as" },
        { "127.0.0.0/x", AF_INET, LS_EINVAL, "no range such as" },
        { "127.0.0.0/+4", AF_INET, LS_EINVAL, "no range such as" },
        { "127.0.0.0/33", AF_INET, LS_EINVAL, "no range such as" },
        { "/24", AF_INET, LS_EINVAL, "no range such as" },
        { "127.0.0.1/26", AF_INET, LS_EINVAL, "beyond /26" },
        { "127.0.0.0/8", AF_INET, LS_ERANGE, "more than 4096" },
        { "127.0.0.0/16", AF_INET, LS_ERANGE, "more than 4096" },
        { "127.0.0.3", AF_INET, LS_EINVAL, "127.0.0.3 is there twice" },
        { "127.0.0.0/29", AF_INET, LS_EINVAL, "127.0.0.3 is there twice" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(bad); i++) {
        struct ls_sources sources = { 0 };
        struct ls_diag diag = { .text = "" };

        assert_int_equal(ls_sources_add(&sources, "127.0.0.3", AF_INET, NULL), LS_OK);
        assert_int_equal(ls_sources_add(&sources, bad[i].text, bad[i].family, &diag), bad[i].rc);
        if (strstr(diag.text, bad[i].words) == NULL)
            fail_msg("%s: \"%s\"", bad[i].text, diag.text);
        ls_sources_fini(&sources);
    }
}

static void add_some(void *arg)
{
    struct ls_sources sources = { 0 };

    (void)arg;
    (void)!ls_sources_add(&sources, "10.0.0.0/28", AF_INET, NULL);
    ls_sources_fini(&sources);
}

static void a_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_true(failmalloc_each(add_some, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_and_ranges_are_taken_in_their_order),
        cmocka_unit_test(what_is_no_source_is_refused_by_name),
        cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
    };

    return cmocka_run_group_tests_name("common.sources", tests, NULL, NULL);
}
