#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/host/output.h"

/* A process workload as a checked plan leaves it, with what a case sets. */
struct rig {
    Ls__Process process;
    Ls__ProcessExpect expect;
    Ls__Size size;
    Ls__ProcessMetric metric;
    Ls__ProcessMetric *metrics[1];
    struct ls_bytes expected;
};

static void rig_init(struct rig *r)
{
    *r = (struct rig){ .metrics = { &r->metric } };
    ls__process__init(&r->process);
    ls__process_expect__init(&r->expect);
    ls__size__init(&r->size);
    ls__process_metric__init(&r->metric);
    r->size.bytes = 4096;
    r->process.output = &r->size;
    r->process.expect = &r->expect;
}

/* What becomes of a run that has ended well and printed text, in pieces of so many bytes. */
static Ls__ProcessRun *judge_in(const struct rig *r, const char *text, size_t piece)
{
    struct host_expectation *expectation = NULL;
    struct host_output *output = NULL;
    Ls__ProcessRun *run = malloc(sizeof(*run));
    size_t len = strlen(text);

    assert_non_null(run);
    ls__process_run__init(run);
    assert_int_equal(host_expectation_create(&r->process, r->expected, &expectation, NULL), LS_OK);
    assert_int_equal(host_output_create(expectation, &output, NULL), LS_OK);
    for (size_t at = 0; at < len; at += piece)
        host_output_feed(output, (struct ls_bytes){ (const unsigned char *)text + at,
                                                    len - at < piece ? len - at : piece });
    assert_int_equal(host_output_judge(output, true, run, NULL), LS_OK);
    host_output_destroy(output);
    host_expectation_destroy(expectation);
    return run;
}

static Ls__ProcessRun *judge(const struct rig *r, const char *text)
{
    return judge_in(r, text, 4096);
}

static void expect_outcome(const struct rig *r, const char *text, const char *outcome,
                           const char *why)
{
    Ls__ProcessRun *run = judge(r, text);

    assert_string_equal(run->outcome, outcome);
    assert_non_null(strstr(run->why, why));
    ls__process_run__free_unpacked(run, NULL);
}

/* ---- comparison */

static void output_is_compared_to_the_last_byte(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r);
    r.expected = (struct ls_bytes){ (const unsigned char *)"abc\n", 4 };
    expect_outcome(&r, "abc\n", "graceful", "");
    expect_outcome(&r, "abd\n", "output", "at byte 2");
    expect_outcome(&r, "abc", "output", "at byte 3");
    expect_outcome(&r, "abc\nd", "output", "at byte 4");
    expect_outcome(&r, "", "output", "at byte 0");
}

static void nothing_can_be_expected(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r);
    r.expected = (struct ls_bytes){ (const unsigned char *)"", 0 };
    expect_outcome(&r, "", "graceful", "");
    expect_outcome(&r, "x", "output", "at byte 0");
}

static void patterns_and_sums_decide(void **state)
{
    char sum[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; /* of abc */
    char match[] = "^a.c$", handled[] = "caught";
    struct rig r;

    (void)state;
    rig_init(&r);
    r.expect.match = match;
    expect_outcome(&r, "abc", "graceful", "");
    expect_outcome(&r, "abcd", "output", "does not match");
    rig_init(&r);
    r.expect.sha256 = sum;
    expect_outcome(&r, "abc", "graceful", "");
    expect_outcome(&r, "abd", "output", "SHA-256");
    rig_init(&r);
    r.expect.handled = handled;
    expect_outcome(&r, "caught it", "handled", "");
    expect_outcome(&r, "all fine", "graceful", "");
}

static void what_is_too_long_to_compare_is_counted_and_refused(void **state)
{
    struct rig r;
    char *text = malloc(20001);
    Ls__ProcessRun *run;
    char match[] = "x";

    (void)state;
    assert_non_null(text);
    (void)memset(text, 'x', 20000);
    text[20000] = '\0';
    rig_init(&r);
    run = judge(&r, text);
    assert_int_equal(run->output_bytes, 20000);
    assert_string_equal(run->outcome, "graceful");
    assert_string_equal(run->output_sha256, ""); /* not of a part */
    ls__process_run__free_unpacked(run, NULL);
    r.expect.match = match;
    expect_outcome(&r, text, "output", "4096 are the most");
    free(text);
}

/* ---- metrics */

static void metrics_are_read_among_other_lines_and_byte_by_byte(void **state)
{
    static const char text[] =
        "starting\r\n"
        "{\"metric\":\"a\",\"value\":1.5,\"unit\":\"ms\"}\r\n"
        "{\"no\":\"metric of ours\"\n"
        "{\"other\": 1}\n"
        "  {\"metric\":\"b/c\",\"value\":2,\"better\":\"higher\",\"checksum\":"
        "\"x\"}\n"
        "{\"metric\":\"d\",\"not_applicable\":\"no such thing\"}";
    struct rig r;

    (void)state;
    rig_init(&r);
    for (size_t piece = 1; piece < sizeof(text); piece++) {
        Ls__ProcessRun *run = judge_in(&r, text, piece);

        assert_string_equal(run->outcome, "graceful");
        assert_int_equal(run->lines_ignored, 3);
        assert_int_equal(run->n_values, 3);
        assert_string_equal(run->values[0]->name, "a");
        assert_true(run->values[0]->value == 1.5);
        assert_string_equal(run->values[0]->unit, "ms");
        assert_false(run->values[0]->higher_is_better);
        assert_true(run->values[1]->higher_is_better);
        assert_string_equal(run->values[1]->checksum, "x");
        assert_string_equal(run->values[2]->not_applicable, "no such thing");
        ls__process_run__free_unpacked(run, NULL);
    }
}

static void metrics_that_make_no_sense_are_named(void **state)
{
    static const struct {
        const char *line;
        const char *why;
    } cases[] = {
        { "{\"metric\":\"a\"}", "it has no value" },
        { "{\"metric\":\"a\",\"value\":1,\"not_applicable\":\"x\"}", "both a value and a reason" },
        { "{\"metric\":\"\",\"value\":1}", "name" },
        { "{\"metric\":\"a b\",\"value\":1}", "name" },
        { "{\"metric\":\"a\",\"value\":1e999}", "" },
        { "{\"metric\":\"a\",\"value\":\"1\"}", "cannot be read" },
        { "{\"metric\":\"a\",\"value\":1,\"unit\":\"longer than sixteen bytes\"}", "unit" },
        { "{\"metric\":\"a\",\"value\":1,\"better\":\"sideways\"}", "cannot be read" },
        { "{\"metric\":\"a\",\"value\":1,\"colour\":\"red\"}", "cannot be read" },
        { "{\"metric\":\"a\",\"value\":1}\n{\"metric\":\"a\",\"value\":2}", "twice" },
    };
    struct rig r;

    (void)state;
    rig_init(&r);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++)
        expect_outcome(&r, cases[i].line, "output", cases[i].why);
}

static void wanted_metrics_must_come_with_the_wanted_checksum(void **state)
{
    char name[] = "a", checksum[] = "good", unit[] = "s";
    struct rig r;
    Ls__ProcessRun *run;

    (void)state;
    rig_init(&r);
    r.metric.name = name;
    r.process.metrics = r.metrics;
    r.process.n_metrics = 1;
    expect_outcome(&r, "{\"metric\":\"b\",\"value\":1}", "output", "did not print the metric a");
    expect_outcome(&r, "{\"metric\":\"a\",\"value\":1}", "graceful", "");
    expect_outcome(&r, "{\"metric\":\"a\",\"not_applicable\":\"x\"}", "graceful", "");
    r.metric.checksum = checksum;
    expect_outcome(&r, "{\"metric\":\"a\",\"value\":1}", "output", "checksum none");
    expect_outcome(&r, "{\"metric\":\"a\",\"value\":1,\"checksum\":\"bad\"}", "output",
                   "expected was good");
    r.metric.checksum = NULL;
    r.metric.unit = unit;
    r.metric.has_better = 1;
    r.metric.better = LS__BETTER__BETTER_HIGHER;
    run = judge(&r, "{\"metric\":\"a\",\"value\":1,\"unit\":\"ms\"}");
    assert_string_equal(run->values[0]->unit, "s"); /* the plan's word comes first */
    assert_true(run->values[0]->higher_is_better);
    ls__process_run__free_unpacked(run, NULL);
}

static void there_is_an_end_to_metrics_and_to_lines(void **state)
{
    struct rig r;
    size_t len = 0, room = 64 * (HOST_OUTPUT_METRICS_MAX + 1) + HOST_OUTPUT_LINE_MAX + 64;
    char *text = malloc(room);
    Ls__ProcessRun *run;

    (void)state;
    assert_non_null(text);
    rig_init(&r);
    (void)memset(text, ' ', HOST_OUTPUT_LINE_MAX);
    len = HOST_OUTPUT_LINE_MAX;
    len += (size_t)snprintf(text + len, room - len, "{\"metric\":\"long\",\"value\":1}\n");
    for (unsigned i = 0; i <= HOST_OUTPUT_METRICS_MAX; i++)
        len += (size_t)snprintf(text + len, room - len, "{\"metric\":\"m%u\",\"value\":1}\n", i);
    run = judge(&r, text);
    assert_int_equal(run->n_values, HOST_OUTPUT_METRICS_MAX);
    assert_string_equal(run->values[0]->name, "m0"); /* a line that is too long is not looked at */
    assert_non_null(strstr(run->why, "more than 1000 metrics"));
    ls__process_run__free_unpacked(run, NULL);
    free(text);
}

/* ---- marker */

static void the_marker_is_a_whole_line(void **state)
{
    char marker[] = "READY";
    struct rig r;
    struct host_expectation *expectation = NULL;
    struct host_output *output = NULL;
    static const char *const not_yet[] = { "ALREADY\n", "READY ", "\nREAD", "Y" };

    (void)state;
    rig_init(&r);
    r.process.marker = marker;
    expect_outcome(&r, "ALREADY\nREADY or not\n", "output", "did not print the line \"READY\"");
    assert_int_equal(host_expectation_create(&r.process, r.expected, &expectation, NULL), LS_OK);
    assert_int_equal(host_output_create(expectation, &output, NULL), LS_OK);
    for (size_t i = 0; i < LS_ARRAY_LEN(not_yet); i++) {
        host_output_feed(
            output, (struct ls_bytes){ (const unsigned char *)not_yet[i], strlen(not_yet[i]) });
        assert_false(host_output_is_marked(output));
    }
    host_output_feed(output, (struct ls_bytes){ (const unsigned char *)"\n", 1 });
    assert_true(host_output_is_marked(output));
    host_output_destroy(output);
    host_expectation_destroy(expectation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_is_compared_to_the_last_byte),
        cmocka_unit_test(nothing_can_be_expected),
        cmocka_unit_test(patterns_and_sums_decide),
        cmocka_unit_test(what_is_too_long_to_compare_is_counted_and_refused),
        cmocka_unit_test(metrics_are_read_among_other_lines_and_byte_by_byte),
        cmocka_unit_test(metrics_that_make_no_sense_are_named),
        cmocka_unit_test(wanted_metrics_must_come_with_the_wanted_checksum),
        cmocka_unit_test(there_is_an_end_to_metrics_and_to_lines),
        cmocka_unit_test(the_marker_is_a_whole_line),
    };

    return cmocka_run_group_tests_name("agent.host_output", tests, NULL, NULL);
}
