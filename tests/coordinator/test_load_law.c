#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/plan/plan_file.h"
#include "coordinator/plan/trace_file.h"
#include "coordinator/plan/trials.h"
#include "tests/support/failmalloc.h"
#include "tests/support/tmpdir.h"

/* A plan whose one workload has these lines, checked and completed. */
static struct coord_plan open_workload(const char *file, const char *lines)
{
    char text[1000];
    struct ls_issues issues;
    struct coord_plan plan;
    enum ls_err rc;

    (void)snprintf(text, sizeof(text),
                   "targets: [{name: t, command: [x], port: 1}]\n"
                   "workloads: [{name: w, http: {requests: [{}]}, %s}]\n",
                   lines);
    ls_issues_init(&issues, file);
    rc = coord_plan_open(
        &(struct coord_plan_source){ .file = file, .text = text, .text_bytes = strlen(text) },
        &issues, &plan);
    if (rc != LS_OK)
        fail_msg("%s: %s", lines, ls_issues_format(&issues));
    ls_issues_fini(&issues);
    return plan;
}

static void every_law_is_described_and_has_its_mean_rate(void **state)
{
    static const struct {
        const char *lines;
        const char *text;
        double offered, warmup;
        int64_t measure_s;
        bool open, fixed, steady;
        uint32_t queue;
    } rows[] = {
        { "load: {closed: {}}", "closed", 0, 0, 10, false, false, true, 0 },
        { "load: {closed: {requests: 50k}}", "closed 50000 requests", 0, 0, 10, false, true, true,
          0 },
        { "load: {constant: {rate: 20k/s, queue: 7}}", "constant 20k/s", 20000, 20000, 10, true,
          false, true, 7 },
        { "load: {poisson: {rate: 1.5k/s}}", "poisson 1500/s", 1500, 1500, 10, true, false, true,
          100000 },
        { "load: {ramp: {from: 1k/s, to: 3k/s}}", "ramp 1k/s to 3k/s in 10s", 2000, 1000, 10, true,
          false, false, 100000 },
        { "load: {ramp: {from: 0/s, to: 4k/s, over: 5s}}, measure: 20s", "ramp 0/s to 4k/s in 5s",
          3500, 0, 20, true, false, false, 100000 },
        { "load: {steps: {rates: [1k/s, 0/s, 5k/s], each: 2s}}", "steps of 2s: 1k/s, 0/s, 5k/s",
          2000, 1000, 6, true, false, false, 100000 },
        { "load: {steps: {rates: [1k/s, 3k/s], each: 5s}}, measure: 10s", "steps of 5s: 1k/s, 3k/s",
          2000, 1000, 10, true, false, false, 100000 },
        { "load: {trace: {points: [{at: 0s, rate: 1k/s}, {at: 5s, rate: 3k/s}], scale: 2}}",
          "trace, 2 rates, 2k/s to 6k/s", 4000, 2000, 10, true, false, false, 100000 },
        { "load: {waves: {size: 9}}", "waves of 9", 0, 0, 10, false, false, true, 0 },
        { "load: {waves: {size: 9, requests: 1k}}, connections: 9", "waves of 9, 1000 requests", 0,
          0, 10, false, true, true, 0 },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct coord_plan plan = open_workload("plan.yaml", rows[i].lines);
        const Ls__Workload *w = plan.plan->workloads[0];
        char text[COORD_LAW_TEXT_MAX];

        assert_string_equal(coord_load_describe(w, text), rows[i].text);
        assert_true(fabs(coord_load_offered_per_s(w) - rows[i].offered) < 1e-9);
        assert_true(fabs(coord_load_warmup_per_s(w) - rows[i].warmup) < 1e-9);
        assert_int_equal(w->measure->ns, rows[i].measure_s * LS_NS_PER_S);
        assert_int_equal(coord_load_is_open(w), rows[i].open);
        assert_int_equal(coord_load_is_fixed_count(w), rows[i].fixed);
        assert_int_equal(coord_load_is_steady(w), rows[i].steady);
        assert_int_equal(coord_load_queue(w), rows[i].queue);
        coord_plan_close(&plan);
    }
}

static void a_long_list_of_steps_is_cut_short(void **state)
{
    char lines[800] = "load: {steps: {each: 10ms, rates: [";
    struct coord_plan plan;
    char text[COORD_LAW_TEXT_MAX];

    (void)state;
    for (unsigned i = 0; i < 50; i++)
        (void)snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s1234.567/s",
                       i > 0 ? ", " : "");
    (void)snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "]}}");
    plan = open_workload("plan.yaml", lines);
    (void)coord_load_describe(plan.plan->workloads[0], text);
    assert_non_null(strstr(text, "steps of 10ms: 1234.567/s, "));
    assert_string_equal(text + strlen(text) - strlen(", ... 50 rates"), ", ... 50 rates");
    coord_plan_close(&plan);
}

static void think_times_lifetimes_and_min_wait_are_described(void **state)
{
    struct coord_plan plan =
        open_workload("plan.yaml", "pacing: frugal, think: {mean: 50ms}, lifetime: {requests: 1}");
    char text[COORD_LAW_TEXT_MAX];

    (void)state;
    assert_string_equal(coord_load_pacing(plan.plan->workloads[0]), "frugal");
    assert_string_equal(coord_load_think(plan.plan->workloads[0], text), "50ms");
    assert_string_equal(coord_load_lifetime(plan.plan->workloads[0], text), "1 request");
    assert_string_equal(coord_load_min_wait(plan.plan->workloads[0], text), "");
    assert_true(coord_load_has_gaps(plan.plan->workloads[0]));
    coord_plan_close(&plan);
    plan = open_workload("plan.yaml", "min_wait: 100us, receive_stamps: on, io: io_uring");
    assert_string_equal(coord_load_min_wait(plan.plan->workloads[0], text), "100us");
    coord_plan_close(&plan);
    plan = open_workload("plan.yaml", "think: {mean: 1s, distribution: exponential}, "
                                      "lifetime: {requests: 100, time: 10s}");
    assert_string_equal(coord_load_pacing(plan.plan->workloads[0]), "precise");
    assert_string_equal(coord_load_think(plan.plan->workloads[0], text), "exponential 1s");
    assert_string_equal(coord_load_lifetime(plan.plan->workloads[0], text), "100 requests or 10s");
    coord_plan_close(&plan);
    plan = open_workload("plan.yaml", "connections: 1");
    assert_string_equal(coord_load_think(plan.plan->workloads[0], text), "");
    assert_string_equal(coord_load_lifetime(plan.plan->workloads[0], text), "");
    assert_false(coord_load_has_gaps(plan.plan->workloads[0]));
    coord_plan_close(&plan);
}

static void a_wave_has_a_connection_for_each_of_its_requests(void **state)
{
    struct coord_plan plan = open_workload("plan.yaml", "load: {waves: {size: 9}}");

    (void)state;
    assert_int_equal(plan.plan->workloads[0]->connections, 9);
    coord_plan_close(&plan);
}

static void what_check_shows_holds_law_think_time_and_lifetime(void **state)
{
    struct coord_plan plan =
        open_workload("plan.yaml", "connections: 5, think: {mean: 50ms}, lifetime: {time: 2s}");
    struct coord_trials trials;
    char *text;

    (void)state;
    assert_int_equal(coord_trials_expand(plan.plan, 1, NULL, &trials, NULL), LS_OK);
    text = coord_check_render(plan.plan, &trials,
                              &(struct coord_host_limits){ .files = 1024, .files_raised = 1024 });
    assert_non_null(strstr(text, "closed, 5 connections, think 50ms, for 2s each"));
    free(text);
    coord_trials_fini(&trials);
    coord_plan_close(&plan);
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void a_trace_is_read_from_beside_the_plan(void **state)
{
    static const char text[] = "# measured on a Monday\n"
                               "second;rate\n"
                               "\n"
                               "0 100 # the night\r\n"
                               "1.5,\t200\n"
                               "  2.000000001  3e2";
    struct tmpdir folder;
    char path[300];
    struct coord_plan plan;
    const Ls__Trace *trace;
    char shown[COORD_LAW_TEXT_MAX];

    (void)state;
    tmpdir_make(&folder);
    (void)snprintf(path, sizeof(path), "%s/rates.csv", folder.path);
    assert_int_equal(ls_fs_write(path,
                                 (struct ls_bytes){ (const unsigned char *)text, sizeof(text) - 1 },
                                 0600, NULL),
                     LS_OK);
    (void)snprintf(path, sizeof(path), "%s/plan.yaml", folder.path);
    plan = open_workload(path, "load: {trace: {file: rates.csv}}, measure: 4s");
    trace = plan.plan->workloads[0]->load->trace;
    assert_int_equal(trace->n_points, 3);
    assert_int_equal(trace->points[0]->at->ns, 0);
    assert_int_equal(trace->points[1]->at->ns, 1500000000);
    assert_int_equal(trace->points[2]->at->ns, 2000000001);
    assert_true(trace->points[2]->rate->per_s == 300);
    assert_true(trace->scale == 1);
    assert_string_equal(coord_load_describe(plan.plan->workloads[0], shown),
                        "trace rates.csv, 3 rates, 100/s to 300/s");
    assert_true(fabs(coord_load_offered_per_s(plan.plan->workloads[0]) - 850.0 / 4) < 1e-3);
    coord_plan_close(&plan);
    tmpdir_remove(&folder);
}

static enum ls_err parse(const char *text, struct ls_diag *diag)
{
    static char copy[1u << 18];
    Ls__Trace trace = LS__TRACE__INIT;
    enum ls_err rc;

    assert_true(snprintf(copy, sizeof(copy), "%s", text) < (int)sizeof(copy));
    rc = coord_trace_parse(&trace, copy, diag);

    assert_true(rc == LS_OK || (trace.n_points == 0 && trace.points == NULL));
    for (size_t i = 0; i < trace.n_points; i++)
        ls__trace_point__free_unpacked(trace.points[i], NULL);
    free(trace.points);
    return rc;
}

static void what_is_no_trace_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } rows[] = {
        { "", "holds no rates" },
        { "# nothing\nseconds rate\n", "holds no rates" },
        { "0", "line 1: two numbers" },
        { "0 1 2", "line 1: two numbers" },
        { "0 -1", "line 1: two numbers" },
        { "0 nan", "line 1: two numbers" },
        { "0 0x10", "line 1: two numbers" },
        { "0 1e999", "line 1: two numbers" },
        { "0 1e", "line 1: two numbers" },
        { "0 1\nnext 2", "line 2: two numbers" },
        { "1 1", "line 1: the first rate begins at 0" },
        { "0 1\n\n1 2\n1 3", "line 4: 1 s is not later" },
        { "0 1\n2 2\n1 3", "line 3: 1 s is not later" },
        { "0 1\n86401 2", "line 2: 86401 s at 2/s is out of range" },
        { "0 2e9", "line 1: 0 s at 2e+09/s is out of range" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct ls_diag diag = { 0 };

        assert_int_equal(parse(rows[i].text, &diag), LS_EINVAL);
        if (strstr(diag.text, rows[i].why) != diag.text)
            fail_msg("'%s': %s", rows[i].text, diag.text);
    }
}

static void a_trace_has_a_limit(void **state)
{
    size_t cap = 20 * (COORD_TRACE_POINTS_MAX + 1);
    char *text = calloc(1, cap);
    struct ls_diag diag = { 0 };
    size_t len = 0;

    (void)state;
    for (unsigned i = 0; i < COORD_TRACE_POINTS_MAX; i++)
        len += (size_t)snprintf(text + len, cap - len, "%u 5\n", i);
    assert_int_equal(parse(text, &diag), LS_OK);
    (void)snprintf(text + len, cap - len, "%u 5\n", COORD_TRACE_POINTS_MAX);
    assert_int_equal(parse(text, &diag), LS_EINVAL);
    assert_non_null(strstr(diag.text, "line 10001: more than 10000 rates"));
    free(text);
}

static void parse_once(void *ctx)
{
    struct ls_diag diag = { 0 };
    enum ls_err rc = parse("0 1\n1 2\n", &diag);

    (void)ctx;
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
}

static void reading_survives_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(failmalloc_each(parse_once, NULL) >= 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_law_is_described_and_has_its_mean_rate),
        cmocka_unit_test(a_long_list_of_steps_is_cut_short),
        cmocka_unit_test(think_times_lifetimes_and_min_wait_are_described),
        cmocka_unit_test(a_wave_has_a_connection_for_each_of_its_requests),
        cmocka_unit_test(what_check_shows_holds_law_think_time_and_lifetime),
        cmocka_unit_test(a_trace_is_read_from_beside_the_plan),
        cmocka_unit_test(what_is_no_trace_is_refused_with_its_line),
        cmocka_unit_test(a_trace_has_a_limit),
        cmocka_unit_test(reading_survives_each_failing_allocation),
    };
    return cmocka_run_group_tests_name("coordinator.load_law", tests, NULL, NULL);
}
