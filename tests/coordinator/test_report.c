/* Reports of made-up results, character by character: tests/golden/report. With LS_GOLDEN=write in
 * the environment the files are written instead, to be read through before they are committed. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/msg_json.h"
#include "coordinator/result/message.h"
#include "coordinator/result/report.h"
#include "coordinator/result/summary.h"
#include "tests/coordinator/sample_result.h"
#include "tests/support/failmalloc.h"

#define VALID   LS__VERDICT__VERDICT_VALID
#define SUSPECT LS__VERDICT__VERDICT_SUSPECT
#define INVALID LS__VERDICT__VERDICT_INVALID

enum { REPORT_MAX = 1 << 20 };

static char *render(const Ls__Result *result, enum coord_report_format format,
                    const struct coord_report_options *options)
{
    struct ls_buf buf;
    struct ls_diag diag;
    char *text;

    ls_buf_init(&buf, REPORT_MAX);
    assert_int_equal(coord_report(result, format, options, &buf, &diag), LS_OK);
    text = ls_buf_detach(&buf);
    assert_non_null(text);
    return text;
}

static void assert_golden(const char *name, const char *text)
{
    char path[500];
    char *expected = NULL;
    size_t len = 0;
    const char *write = getenv("LS_GOLDEN");

    (void)snprintf(path, sizeof(path), LS_SOURCE "/tests/golden/report/%s", name);
    if (write != NULL && strcmp(write, "write") == 0) {
        struct ls_bytes bytes = { .data = (const unsigned char *)text, .len = strlen(text) };

        assert_int_equal(ls_fs_write(path, bytes, 0644, NULL), LS_OK);
        return;
    }
    assert_int_equal(ls_fs_read(path, REPORT_MAX, &expected, &len, NULL), LS_OK);
    assert_string_equal(text, expected);
    free(expected);
}

static void check(const Ls__Result *result, const char *name, enum coord_report_format format,
                  const struct coord_report_options *options)
{
    char *text = render(result, format, options);

    assert_golden(name, text);
    free(text);
}

/* Six trials as the quickstart has them; the second of node is suspect. */
static Ls__Result *comparison(void)
{
    static const struct sample_trial six[] = {
        { "nginx", "hello", 1, 50123.4, 1.21, 9.12, 0, VALID },
        { "node", "hello", 1, 31234.5, 2.05, 19.8, 0, VALID },
        { "nginx", "hello", 2, 52345.6, 1.17, 8.87, 0, VALID },
        { "node", "hello", 2, 33456.7, 1.91, 18.9, 0, SUSPECT },
        { "nginx", "hello", 3, 51234.5, 1.19, 8.99, 0, VALID },
        { "node", "hello", 3, 38000.1, 1.68, 17.2, 0, VALID },
    };
    Ls__Result *result = sample_result(six, 6);

    sample_reason(result->trials[3], SUSPECT, "foreign_cpu",
                  "other processes used 7.3 % of the server's 1 CPU");
    return result;
}

static void a_comparison_reads_well_at_any_width(void **state)
{
    Ls__Result *result = comparison();

    (void)state;
    check(result, "comparison.80.txt", COORD_REPORT_TEXT,
          &(struct coord_report_options){ .columns = 80, .dir = "results/sample" });
    check(result, "comparison.60.txt", COORD_REPORT_TEXT,
          &(struct coord_report_options){ .columns = 60 });
    check(result, "comparison.120.txt", COORD_REPORT_TEXT,
          &(struct coord_report_options){ .columns = 120 });
    check(result, "comparison.colour.txt", COORD_REPORT_TEXT,
          &(struct coord_report_options){ .columns = 80, .colour = true });
    check(result, "comparison.md", COORD_REPORT_MARKDOWN, NULL);
    check(result, "comparison.csv", COORD_REPORT_CSV, NULL);
    ls__result__free_unpacked(result, NULL);
}

static void what_is_not_valid_is_not_published_as_a_figure(void **state)
{
    static const struct sample_trial trials[] = {
        { "nginx", "hello", 1, 50000, 1.2, 9, 0, INVALID },
        { "node", "hello", 1, 30000, 2.1, 20, 0, VALID },
        { "nginx", "hello", 2, 51000, 1.2, 9, 0, INVALID },
        { "node", "hello", 2, 30100, 2.1, 20, 0, INVALID },
        { "bun", "hello", 1, 30200, 2.1, 20, 0, VALID },
        { "bun", "hello", 2, 29900, 2.1, 20, 0, VALID },
        { "bun", "hello", 3, 30050, 2.1, 20, 0, VALID },
        { "deno", "hello", 1, 30100, 2.1, 20, 0, VALID },
        { "deno", "hello", 2, 30000, 2.1, 20, 0, VALID },
        { "deno", "hello", 3, 30250, 2.1, 20, 0, VALID },
    };
    Ls__Result *result = sample_result(trials, 10);

    (void)state;
    for (size_t i = 0; i < 3; i += 2)
        sample_reason(result->trials[i], INVALID, "generator_limited",
                      "a worker of client-1 was busy 98 % of the time and the server's CPUs were "
                      "71 % in use: this is the generator's limit, not the server's");
    sample_reason(result->trials[3], INVALID, "wrong_responses", "of 150500 requests: 3 timeout");
    result->trials[3]->requests->ok -= 3;
    result->trials[3]->requests->timeout = 3;
    for (size_t i = 0; i < result->n_trials; i++)
        sample_reason(result->trials[i], SUSPECT, "shared_cores", "CPUs are shared: 2 for 3");
    check(result, "invalid.txt", COORD_REPORT_TEXT,
          &(struct coord_report_options){ .columns = 100 });
    ls__result__free_unpacked(result, NULL);
}

static void open_loops_tell_response_times(void **state)
{
    static const struct sample_trial trials[] = {
        { "nginx", "steady", 1, 20000, 0.31, 9, 20000, VALID },
        { "node", "steady", 1, 20000, 0.52, 20, 20000, VALID },
        { "nginx", "steady", 2, 20000, 0.32, 9.1, 20000, VALID },
        { "node", "steady", 2, 20000, 0.55, 20.2, 20000, VALID },
        { "nginx", "steady", 3, 20000, 0.3, 8.9, 20000, VALID },
        { "node", "steady", 3, 20000, 0.5, 19.9, 20000, VALID },
    };
    Ls__Result *result = sample_result(trials, 6);

    (void)state;
    check(result, "open.txt", COORD_REPORT_TEXT, &(struct coord_report_options){ .columns = 100 });
    ls__result__free_unpacked(result, NULL);
}

static void a_single_trial_is_told_in_detail(void **state)
{
    static const struct sample_trial closed = {
        "127.0.0.1:8080", "bench", 1, 48123.4, 1.29, 0, 0, VALID
    };
    static const struct sample_trial open = { "127.0.0.1:8080", "bench", 1, 20000, 0.3, 9, 20000,
                                              SUSPECT };
    Ls__Result *result = sample_result(&closed, 1);

    (void)state;
    result->trials[0]->pipeline = 16;
    check(result, "bench.txt", COORD_REPORT_TEXT, NULL);
    check(result, "bench.md", COORD_REPORT_MARKDOWN, NULL);
    ls__result__free_unpacked(result, NULL);
    result = sample_result(&open, 1);
    result->trials[0]->connections->failed = 2;
    sample_tls(result->trials[0], 64, 1);
    sample_reason(result->trials[0], SUSPECT, "connect_errors", "2 attempts to connect failed");
    check(result, "bench-open.txt", COORD_REPORT_TEXT, NULL);
    ls__result__free_unpacked(result, NULL);
}

static void a_run_that_did_not_get_far_says_so(void **state)
{
    Ls__Result *result = sample_result(NULL, 0);

    (void)state;
    assert_true(coord_message_string(&result->status, "failed"));
    assert_true(coord_message_string(&result->error, "nginx: port 18080 is in use by somebody"));
    result->trials_planned = 6;
    check(result, "failed.txt", COORD_REPORT_TEXT, NULL);
    check(result, "failed.md", COORD_REPORT_MARKDOWN, NULL);
    check(result, "failed.csv", COORD_REPORT_CSV, NULL);
    ls__result__free_unpacked(result, NULL);
}

/* Tables are cut into pieces, sentences broken: whatever the names, unless a single word of one is
 * longer than the line. */
static void no_line_is_wider_than_the_terminal(void **state)
{
    static const struct sample_trial trials[] = {
        { "a-target-with-quite-a-long-name-indeed", "and its workload as well", 1, 50000, 1.2, 9, 0,
          VALID },
        { "node", "hello", 1, 30000, 2.1, 20, 0, SUSPECT },
        { "node", "hello", 2, 30001, 2.1, 20, 0, INVALID },
    };
    Ls__Result *result = sample_result(trials, 3);

    (void)state;
    sample_reason(result->trials[1], SUSPECT, "trend",
                  "throughput rose by 14 % from the first "
                  "third of the window to the last");
    for (unsigned columns = 60; columns < 200; columns += 7) {
        char *text =
            render(result, COORD_REPORT_TEXT, &(struct coord_report_options){ .columns = columns });

        for (const char *line = text; *line != '\0';) {
            size_t len = strcspn(line, "\n");

            assert_true(len <= columns);
            line += len + (line[len] == '\n');
        }
        free(text);
    }
    ls__result__free_unpacked(result, NULL);
}

static void json_is_what_result_json_is(void **state)
{
    Ls__Result *result = comparison();
    char *text = render(result, COORD_REPORT_JSON, NULL),
         *expected = ls_msg_to_json(&result->base, 2);
    size_t len = strlen(expected);

    (void)state;
    assert_memory_equal(text, expected, len);
    assert_string_equal(text + len, "\n");
    free(text);
    free(expected);
    ls__result__free_unpacked(result, NULL);
}

/* ---- hostile names */

static const char hostile[] = "=cmd|'/c calc'!A1\033[2J\r\n| a | <script>alert(1)</script> "
                              "[x](javascript:1) `y` \xe2\x80\xae\xff,\"q\"";

static Ls__Result *hostile_result(void)
{
    const struct sample_trial trials[] = {
        { hostile, hostile, 1, 50000, 1.2, 9, 0, VALID },
        { "-node", hostile, 1, 30000, 2.1, 20, 0, VALID },
    };
    Ls__Result *result = sample_result(trials, 2);

    assert_true(coord_message_string(&result->name, hostile));
    assert_true(coord_message_string(&result->description, hostile));
    assert_true(coord_message_string(&result->error, hostile));
    assert_true(coord_message_string(&result->trials[0]->load, hostile));
    assert_true(coord_message_string(&result->hosts[0]->agent, hostile));
    assert_true(coord_message_string(&result->trials[0]->server->program->version, hostile));
    sample_reason(result->trials[0], SUSPECT, hostile, hostile);
    return result;
}

static void names_cannot_write_to_the_terminal(void **state)
{
    Ls__Result *result = hostile_result();
    char *text = render(result, COORD_REPORT_TEXT,
                        &(struct coord_report_options){ .columns = 100, .dir = hostile });

    (void)state;
    for (const char *p = text; *p != '\0'; p++)
        assert_true(*p == '\n' || ((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f));
    assert_non_null(strstr(text, "\\x1b[2J\\x0d\\x0a"));
    assert_non_null(strstr(text, "\\u202e\\xff"));
    free(text);
    ls__result__free_unpacked(result, NULL);
}

static void names_are_no_markup_in_markdown(void **state)
{
    Ls__Result *result = hostile_result();
    char *text = render(result, COORD_REPORT_MARKDOWN, NULL);

    (void)state;
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "[x]("));
    assert_null(strstr(text, " `y`"));
    assert_null(strchr(text, '\033'));
    /* Each row of the trials' table has as many bars as its head. */
    for (char *line = strstr(text, "| trial "); line != NULL && *line == '|';) {
        unsigned bars = 0;

        for (; *line != '\n' && *line != '\0'; line++)
            bars += *line == '|' && line[-1] != '\\';
        assert_int_equal(bars, 14);
        line += *line == '\n';
    }
    free(text);
    ls__result__free_unpacked(result, NULL);
}

static void names_are_no_formulas_in_a_spreadsheet(void **state)
{
    Ls__Result *result = hostile_result();
    char *text = render(result, COORD_REPORT_CSV, NULL);
    unsigned lines = 0;

    (void)state;
    assert_null(strstr(text, ",="));
    assert_null(strstr(text, ",\"="));
    assert_non_null(strstr(text, "1,\"'=cmd|"));
    assert_non_null(strstr(text, "2,\"'-node\","));
    assert_non_null(strstr(text, ",\"\"q\"\"\""));
    for (const char *p = text; *p != '\0'; p++)
        lines += *p == '\n';
    assert_int_equal(lines, 3);
    free(text);
    ls__result__free_unpacked(result, NULL);
}

static void formats_are_known_by_name(void **state)
{
    enum coord_report_format format = COORD_REPORT_TEXT;
    struct ls_diag diag;

    (void)state;
    assert_int_equal(coord_report_parse_format("markdown", &format, NULL), LS_OK);
    assert_int_equal(format, COORD_REPORT_MARKDOWN);
    assert_int_equal(coord_report_parse_format("xml", &format, &diag), LS_EINVAL);
    assert_int_equal(format, COORD_REPORT_MARKDOWN);
    assert_string_equal(diag.text, "no report format \"xml\": text, json, csv, markdown or html");
}

/* ---- memory */

static void all_formats(void *ctx)
{
    struct ls_buf buf;
    bool ok = true;

    ls_buf_init(&buf, REPORT_MAX);
    for (int format = 0; format < COORD_REPORT_FORMAT_COUNT && ok; format++) {
        if (format != COORD_REPORT_JSON) /* common/msg_json has a test of its own */
            ok = coord_report(ctx, (enum coord_report_format)format, NULL, &buf, NULL) == LS_OK;
    }
    assert_int_equal(ok, !failmalloc_hit());
    ls_buf_fini(&buf);
}

static void every_failed_allocation_is_reported_and_nothing_leaks(void **state)
{
    static const struct sample_trial trials[] = {
        { "nginx", "hello", 1, 50000, 1.2, 9, 0, VALID },
        { "node", "hello", 1, 30000, 2.1, 20, 0, VALID },
    };
    Ls__Result *result = sample_result(trials, 2);

    (void)state;
    sample_reason(result->trials[0], SUSPECT, "trend", "throughput rose");
    assert_true(failmalloc_each(all_formats, result) > 100);
    ls__result__free_unpacked(result, NULL);
}

static void a_report_that_is_too_large_is_an_error(void **state)
{
    Ls__Result *result = comparison();

    (void)state;
    for (size_t max = 0; max < 2000; max += 111) {
        struct ls_buf buf;

        ls_buf_init(&buf, max);
        assert_int_equal(coord_report(result, COORD_REPORT_TEXT, NULL, &buf, NULL), LS_ENOMEM);
        assert_int_equal(coord_report(result, COORD_REPORT_MARKDOWN, NULL, &buf, NULL), LS_ENOMEM);
        ls_buf_fini(&buf);
    }
    ls__result__free_unpacked(result, NULL);
}

/* Not rounded: it is not ours to do so. */
static void published_figures_are_shown_as_they_were_given(void **state)
{
    static const struct sample_trial two[] = { { "nginx", "hello", 1, 50000, 1.2, 9, 0, VALID },
                                               { "node", "hello", 1, 30000, 2.1, 20, 0, VALID } };
    static const enum coord_report_format formats[] = { COORD_REPORT_TEXT, COORD_REPORT_MARKDOWN };
    Ls__Result *result = sample_result(two, 2);
    Ls__Reference *published =
        coord_message_append(&result->n_published, &result->published, &ls__reference__descriptor);

    (void)state;
    assert_non_null(published);
    published->value = 1234567.5;
    assert_true(coord_message_string(&published->target, "node") &&
                coord_message_string(&published->workload, "hello") &&
                coord_message_string(&published->metric, "throughput_per_s") &&
                coord_message_string(&published->unit, "req/s") &&
                coord_message_string(&published->source, "there") &&
                coord_message_string(&published->date, "2026-05-01"));
    for (size_t i = 0; i < LS_ARRAY_LEN(formats); i++) {
        char *text = render(result, formats[i], &(struct coord_report_options){ .columns = 200 });

        assert_non_null(strstr(text, "1234567.5 req/s"));
        free(text);
    }
    ls__result__free_unpacked(result, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comparison_reads_well_at_any_width),
        cmocka_unit_test(what_is_not_valid_is_not_published_as_a_figure),
        cmocka_unit_test(published_figures_are_shown_as_they_were_given),
        cmocka_unit_test(open_loops_tell_response_times),
        cmocka_unit_test(a_single_trial_is_told_in_detail),
        cmocka_unit_test(a_run_that_did_not_get_far_says_so),
        cmocka_unit_test(no_line_is_wider_than_the_terminal),
        cmocka_unit_test(json_is_what_result_json_is),
        cmocka_unit_test(names_cannot_write_to_the_terminal),
        cmocka_unit_test(names_are_no_markup_in_markdown),
        cmocka_unit_test(names_are_no_formulas_in_a_spreadsheet),
        cmocka_unit_test(formats_are_known_by_name),
        cmocka_unit_test(every_failed_allocation_is_reported_and_nothing_leaks),
        cmocka_unit_test(a_report_that_is_too_large_is_an_error),
    };
    return cmocka_run_group_tests_name("coordinator.report", tests, NULL, NULL);
}
