#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/host/logpump.h"

struct log {
    struct host_logpump *pump;
    FILE *file;
    int out;
};

static void begin(struct log *l, uint64_t max_bytes)
{
    l->file = tmpfile();
    assert_non_null(l->file);
    assert_int_equal(host_logpump_create(dup(fileno(l->file)), max_bytes, &l->out, &l->pump, NULL),
                     LS_OK);
}

static void print(struct log *l, const char *text, size_t len)
{
    assert_int_equal(write(l->out, text, len), len);
}

static void end(struct log *l)
{
    (void)close(l->out);
    host_logpump_destroy(l->pump);
    (void)fclose(l->file);
}

static void the_head_is_kept_and_the_rest_is_counted(void **state)
{
    static const uint64_t limits[] = { 0, 1, 100, 999, 1000, 1001, 1u << 20 };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(limits); i++) {
        uint64_t want = limits[i] < 1000 ? limits[i] : 1000;
        struct host_logpump_totals totals;
        struct stat st;
        struct log l;

        begin(&l, limits[i]);
        for (int k = 0; k < 100; k++)
            print(&l, "123456789\n", 10);
        host_logpump_drain(l.pump);
        host_logpump_totals(l.pump, &totals);
        assert_int_equal(totals.kept_bytes, want);
        assert_int_equal(totals.dropped_bytes, 1000 - want);
        assert_int_equal(totals.error, 0);
        assert_int_equal(fstat(fileno(l.file), &st), 0);
        assert_int_equal(st.st_size, want);
        end(&l);
    }
}

static void the_tail_begins_with_a_line(void **state)
{
    static const struct {
        const char *text;
        size_t room;
        const char *tail;
    } cases[] = {
        { "", 10, "" },
        { "one", 10, "one" },
        { "one\n\n", 10, "one" },
        { "one\ntwo\n", 100, "one\ntwo" },
        { "one\ntwo\nthree\n", 12, "two\nthree" },
        { "one\ntwo\nthree\n", 10, "three" },
        { "a line that is too long", 9, "too long" },
        { "bell\a esc\033[1m tab\t", 100, "bell  esc [1m tab " },
        { "caf\xe9 \xc3\xa9\n", 100, "caf? \xc3\xa9" }, /* messages carry UTF-8 only */
        { "5\xe2\x82\xac", 3, "??" },                   /* cut in a character */
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char tail[128];
        struct log l;

        begin(&l, 1000);
        print(&l, cases[i].text, strlen(cases[i].text));
        host_logpump_drain(l.pump);
        assert_int_equal(host_logpump_tail(l.pump, tail, cases[i].room), strlen(cases[i].tail));
        assert_string_equal(tail, cases[i].tail);
        end(&l);
    }
}

static void the_tail_is_the_end_of_very_much(void **state)
{
    char text[64], tail[64];
    struct log l;

    (void)state;
    begin(&l, 10);
    for (int i = 0; i < 20000; i++) {
        int n = snprintf(text, sizeof(text), "line number %d\n", i);

        print(&l, text, (size_t)n); /* blocks for ever unless somebody reads */
    }
    host_logpump_drain(l.pump);
    (void)host_logpump_tail(l.pump, tail, 24);
    assert_string_equal(tail, "line number 19999");
    end(&l);
}

static void a_disk_that_refuses_does_not_hold_up_the_target(void **state)
{
    struct host_logpump_totals totals;
    struct host_logpump *pump = NULL;
    char text[1024], tail[16];
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC), out = -1;

    (void)state;
    assert_true(full >= 0);
    assert_int_equal(host_logpump_create(full, 1u << 20, &out, &pump, NULL), LS_OK);
    (void)memset(text, 'x', sizeof(text));
    for (int i = 0; i < 500; i++)
        assert_int_equal(write(out, text, sizeof(text)), sizeof(text));
    host_logpump_drain(pump);
    host_logpump_totals(pump, &totals);
    assert_int_equal(totals.kept_bytes, 0);
    assert_int_equal(totals.dropped_bytes, 500 * sizeof(text));
    assert_int_not_equal(totals.error, 0);
    assert_int_equal(host_logpump_tail(pump, tail, sizeof(tail)), 15);
    (void)close(out);
    host_logpump_destroy(pump);
    host_logpump_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_head_is_kept_and_the_rest_is_counted),
        cmocka_unit_test(the_tail_begins_with_a_line),
        cmocka_unit_test(the_tail_is_the_end_of_very_much),
        cmocka_unit_test(a_disk_that_refuses_does_not_hold_up_the_target),
    };

    return cmocka_run_group_tests_name("agent.host_logpump", tests, NULL, NULL);
}
