/* A known head is taken as the strict parser would take it; all else is left to the strict parser.
 */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "agent/load/http1_template.h"
#include "tests/support/guard.h"
#include "tests/support/http1_view.h"

#define DATE "Date: Mon, 30 Nov 2026 12:28:28 GMT\r\n"

enum { TEXT_BYTES = 8192 };

static const char known[] = "HTTP/1.1 200 OK\r\n" DATE "Connection: keep-alive\r\n"
                            "Content-Length: 13\r\n\r\nHello, World!";

static struct http1_view view;

static void see(const char *text, size_t len, struct http1_template *template, char *out)
{
    memset(&view.parser, 0, sizeof(view.parser));
    view.begun = view.over = false;
    view.index = view.rows = view.hits = 0;
    view.template = template;
    http1_view_feed(&view, (struct ls_bytes){ (const unsigned char *)text, len });
    http1_view_end(&view);
    http1_view_text(&view, out, TEXT_BYTES);
}

static unsigned hits_of(const char *text, struct http1_template *template)
{
    char seen[TEXT_BYTES];

    see(text, strlen(text), template, seen);
    return view.hits;
}

/* Each byte of the known answer becomes each other byte. */
static void a_head_that_differs_anywhere_is_judged_as_without_a_template(void **state)
{
    char text[sizeof(known)];
    char want[TEXT_BYTES];
    char seen[TEXT_BYTES];
    unsigned hits = 0;

    (void)state;
    memcpy(text, known, sizeof(known));
    for (size_t at = 0; at < sizeof(known) - 1; at++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            struct http1_template template = { .len = 0 };

            (void)hits_of(known, &template);
            text[at] = (char)byte;
            see(text, sizeof(known) - 1, NULL, want);
            see(text, sizeof(known) - 1, &template, seen);
            assert_string_equal(seen, want);
            hits += view.hits;
        }
        text[at] = known[at];
    }
    /* Each byte as it was; 9 other digits for each of the date's 12; any byte of the body. */
    assert_int_equal(hits, (sizeof(known) - 1 - 13) + 9 * 12 + 13 * 256);
}

static void digits_of_the_date_and_nothing_else_may_differ(void **state)
{
    static const struct {
        const char *text;
        unsigned hits;
    } cases[] = {
        { known, 1 },
        { "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 12:28:29 GMT\r\nConnection: keep-alive\r\n"
          "Content-Length: 13\r\n\r\n",
          1 },
        { "HTTP/1.1 200 OK\r\nDate: Tue, 01 Dec 2026 00:00:00 GMT\r\nConnection: keep-alive\r\n"
          "Content-Length: 13\r\n\r\n",
          0 },
        { "HTTP/1.1 200 OK\r\n" DATE "Connection: keep-alive\r\nContent-Length: 14\r\n\r\n", 0 },
        { "HTTP/1.1 201 OK\r\n" DATE "Connection: keep-alive\r\nContent-Length: 13\r\n\r\n", 0 },
        { "HTTP/1.1 200 OK\r\n" DATE "Connection: keep-alive\r\nContent-Length: 13\r\n\r", 0 },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct http1_template template = { .len = 0 };

        (void)hits_of(known, &template);
        assert_int_equal(hits_of(cases[i].text, &template), cases[i].hits);
        /* A head that came instead was learned; a date that moved on is the known one now. */
        if (strstr(cases[i].text, "\r\n\r\n") != NULL) {
            assert_int_equal(hits_of(cases[i].text, &template), 1);
            assert_memory_equal(template.head, cases[i].text, template.len);
        }
    }
}

static void what_the_answer_belongs_to_matters(void **state)
{
    struct http1_template template = { .len = 0 };
    struct http1_parser parser;
    struct ls_bytes in = { (const unsigned char *)known, sizeof(known) - 1 };

    (void)state;
    (void)hits_of(known, &template);
    assert_false(http1_template_use(&template, HTTP1_TO_HEAD, &in, &parser));
    assert_int_equal(in.len, sizeof(known) - 1);
    assert_true(http1_template_use(&template, 0, &in, &parser));
    assert_int_equal(in.len, 13);
    assert_int_equal(parser.status, 200);
}

static void no_byte_beyond_the_input_is_read(void **state)
{
    struct http1_template template = { .len = 0 };
    struct http1_parser parser;
    struct guard guard;

    (void)state;
    guard_init(&guard, sizeof(known));
    (void)hits_of(known, &template);
    for (size_t len = 0; len < sizeof(known); len++) {
        struct ls_bytes in =
            guard_copy(&guard, (struct ls_bytes){ (const unsigned char *)known, len });

        assert_int_equal(http1_template_use(&template, 0, &in, &parser), len >= template.len);
    }
    guard_fini(&guard);
}

static void heads_that_never_come_again_are_left_alone_after_a_while(void **state)
{
    struct http1_template template = { .len = 0 };
    char text[128];
    unsigned learned = 0;

    (void)state;
    for (unsigned i = 0; i < 1024; i++) {
        (void)snprintf(text, sizeof(text),
                       "HTTP/1.1 200 OK\r\nX-Id: %u\r\nContent-Length: 0\r\n\r\n", 10000 + i);
        assert_int_equal(hits_of(text, &template), 0);
        learned += strncmp((const char *)template.head, text, template.len) == 0;
    }
    assert_true(learned > 8 && learned < 64);
    /* Later, when they do come again, that is noticed. */
    for (unsigned i = 0; i < 256; i++)
        (void)hits_of(known, &template);
    assert_int_equal(hits_of(known, &template), 1);
}

static void heads_that_change_now_and_then_are_learned_each_time(void **state)
{
    struct http1_template template = { .len = 0 };
    char text[128];

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        (void)snprintf(text, sizeof(text),
                       "HTTP/1.1 200 OK\r\nX-Id: %u\r\nContent-Length: 0\r\n\r\n", i / 3);
        assert_int_equal(hits_of(text, &template), i % 3 != 0);
    }
}

static void heads_that_take_turns_are_not_learned_for_ever(void **state)
{
    struct http1_template template = { .len = 0 };
    unsigned changes = 0;

    (void)state;
    for (unsigned i = 0; i < 1024; i++) {
        struct http1_template before = template;

        (void)hits_of(i % 2 == 0 ? known : "HTTP/1.1 204 No Content\r\n\r\n", &template);
        changes += before.len != template.len;
    }
    assert_true(changes > 8 && changes < 64);
}

static void long_heads_are_parsed(void **state)
{
    struct http1_template template = { .len = 0 };
    char text[HTTP1_TEMPLATE_MAX + 64];
    static const char rest[] = "\r\nContent-Length: 0\r\n\r\n";

    (void)state;
    for (size_t len = HTTP1_TEMPLATE_MAX; len <= HTTP1_TEMPLATE_MAX + 1; len++) {
        size_t from = (size_t)snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nX: ");

        memset(text + from, 'x', len - from);
        memcpy(text + len - (sizeof(rest) - 1), rest, sizeof(rest));
        template = (struct http1_template){ .len = 0 };
        assert_int_equal(hits_of(text, &template), 0);
        assert_int_equal(hits_of(text, &template), len <= HTTP1_TEMPLATE_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_that_differs_anywhere_is_judged_as_without_a_template),
        cmocka_unit_test(digits_of_the_date_and_nothing_else_may_differ),
        cmocka_unit_test(what_the_answer_belongs_to_matters),
        cmocka_unit_test(no_byte_beyond_the_input_is_read),
        cmocka_unit_test(heads_that_never_come_again_are_left_alone_after_a_while),
        cmocka_unit_test(heads_that_change_now_and_then_are_learned_each_time),
        cmocka_unit_test(heads_that_take_turns_are_not_learned_for_ever),
        cmocka_unit_test(long_heads_are_parsed),
    };

    return cmocka_run_group_tests_name("agent.http1_template", tests, NULL, NULL);
}
