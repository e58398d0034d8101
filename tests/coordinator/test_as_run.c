/* coordinator/plan/plan_quick.c and plan_expand.c: a plan as it is run here, and in seconds. */
#include "tests/support/test.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "coordinator/plan/plan_file.h"

static void open_plan(const char *text, bool quick, const char *const *set, size_t set_count,
                      struct coord_plan *out)
{
    struct coord_plan_source source = { .file = "plan.yaml",
                                        .text = text,
                                        .text_bytes = strlen(text),
                                        .base_dir = "/usr/..",
                                        .set = set,
                                        .set_count = set_count,
                                        .quick = quick };
    struct ls_issues issues;

    ls_issues_init(&issues, "plan.yaml");
    if (coord_plan_open(&source, &issues, out) != LS_OK)
        fail_msg("%s", ls_issues_format(&issues));
    ls_issues_fini(&issues);
}

static const char loads[] =
    "targets: [{name: t, command: [x], port: 1}]\n"
    "workloads:\n"
    "  - {name: time, http: {requests: [{path: /}]}, warmup: 60s, measure: 60s}\n"
    "  - {name: usual, http: {requests: [{path: /}]}}\n"
    "  - {name: short, http: {requests: [{path: /}]}, warmup: 0s, measure: 300ms}\n"
    "  - {name: count, http: {requests: [{path: /}]}, load: {closed: {requests: 50k}}}\n"
    "  - {name: few, http: {requests: [{path: /}]}, load: {waves: {size: 20, requests: 1500}}}\n"
    "  - {name: steps, http: {requests: [{path: /}]}, load: {steps: {rates: [1/s, 2/s], each: 9s}}}\n"
    "  - {name: runs, process: {runs: 100, warmup_runs: 10}}\n"
    "schedule: {repetitions: 9, discard: 2}\n";

static void a_quick_plan_takes_seconds_a_row(void **state)
{
    struct coord_plan p;
    Ls__Workload **w;

    (void)state;
    open_plan(loads, true, NULL, 0, &p);
    w = p.plan->workloads;
    assert_int_equal(p.plan->schedule->repetitions, 1);
    assert_int_equal(p.plan->schedule->discard, 0);
    assert_true(w[0]->warmup->ns == 2 * LS_NS_PER_S && w[0]->measure->ns == 5 * LS_NS_PER_S);
    assert_true(w[1]->warmup->ns == 1200 * LS_NS_PER_MS && w[1]->measure->ns == 2 * LS_NS_PER_S);
    assert_true(w[2]->warmup->ns == 0 && w[2]->measure->ns == 300 * LS_NS_PER_MS);
    assert_int_equal(w[3]->load->closed->requests->n, 5000);
    assert_int_equal(w[4]->load->waves->requests->n, 1500);
    assert_true(w[5]->measure->ns == 18 * LS_NS_PER_S);
    assert_int_equal(w[6]->process->runs, 10);
    assert_int_equal(w[6]->process->warmup_runs, 1);
    coord_plan_close(&p);
}

/* They are accepted, too: what a search and a ladder may not be given is not put in. */
static void quick_searches_and_ladders_are_short(void **state)
{
    static const char text[] =
        "targets: [{name: t, command: [x], port: 1}]\n"
        "workloads:\n"
        "  - name: search\n"
        "    http: {requests: [{path: /}]}\n"
        "    warmup: 20s\n"
        "    load: {capacity: {limits: {p99: 10ms}, budget: 10m, profile: true, profile_step: 5s}}\n"
        "  - {name: usual, http: {requests: [{path: /}]}, load: {capacity: {limits: {p99: 10ms}}}}\n"
        "  - name: ladder\n"
        "    http: {requests: [{path: /}]}\n"
        "    load: {ladder: {connections: [2, 4], each: 10s, passes: 4}}\n";
    struct coord_plan p;
    Ls__Workload **w;

    (void)state;
    open_plan(text, true, NULL, 0, &p);
    w = p.plan->workloads;
    for (int i = 0; i < 2; i++) {
        assert_true(w[i]->load->capacity->budget->ns == 30 * LS_NS_PER_S);
        assert_true(w[i]->warmup->ns <= LS_NS_PER_S);
        assert_false(w[i]->load->capacity->profile);
    }
    assert_true(w[2]->load->ladder->each->ns == LS_NS_PER_S);
    assert_int_equal(w[2]->load->ladder->passes, 1);
    coord_plan_close(&p);
}

static void what_is_set_by_hand_is_not_shortened(void **state)
{
    static const char *const set[] = { "workloads[time].measure=7s", "schedule.repetitions=4" };
    struct coord_plan p;

    (void)state;
    open_plan(loads, true, set, 2, &p);
    assert_true(p.plan->workloads[0]->measure->ns == 7 * LS_NS_PER_S);
    assert_int_equal(p.plan->schedule->repetitions, 4);
    coord_plan_close(&p);
}

static void programs_are_found_from_the_plan_and_the_environment(void **state)
{
    static const char text[] =
        "targets:\n"
        "  - name: t\n"
        "    command: ['{plan}usr/${LS_TEST_SET}', '${LS_TEST_UNSET:-{plan}in/${LS_TEST_SET}}', "
        "'${LS_TEST_UNSET}', 'a$b ${ {', '{dir}', '${LS_TEST_SET:-other}']\n"
        "    env: {A: '${LS_TEST_SET}/x'}\n"
        "    version: ['{plan}', '{}']\n"
        "    port: 1\n"
        "workloads: [{name: w, http: {requests: [{path: '/${LS_TEST_SET}'}]}}]\n";
    static const char *const wanted[] = { "/usr/set", "/in/set", "${LS_TEST_UNSET}",
                                          "a$b ${ {", "{dir}",   "set" };
    struct coord_plan p;

    (void)state;
    assert_int_equal(setenv("LS_TEST_SET", "set", 1), 0);
    assert_int_equal(unsetenv("LS_TEST_UNSET"), 0);
    open_plan(text, false, NULL, 0, &p);
    for (size_t i = 0; i < LS_ARRAY_LEN(wanted); i++)
        assert_string_equal(p.plan->targets[0]->command[i], wanted[i]);
    assert_string_equal(p.plan->targets[0]->env[0]->value, "set/x");
    assert_string_equal(p.plan->targets[0]->version[0], "/");
    assert_string_equal(p.plan->targets[0]->version[1], "{}");
    assert_string_equal(p.plan->workloads[0]->http->requests[0]->path, "/${LS_TEST_SET}");
    coord_plan_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quick_plan_takes_seconds_a_row),
        cmocka_unit_test(quick_searches_and_ladders_are_short),
        cmocka_unit_test(what_is_set_by_hand_is_not_shortened),
        cmocka_unit_test(programs_are_found_from_the_plan_and_the_environment),
    };

    return cmocka_run_group_tests_name("coordinator.as_run", tests, NULL, NULL);
}
