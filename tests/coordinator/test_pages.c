/* coordinator/run/pages.c: a plan's tables, from made-up trials. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/attr.h"
#include "common/buf.h"
#include "coordinator/plan/plan_file.h"
#include "coordinator/result/message.h"
#include "coordinator/result/report.h"
#include "coordinator/result/report_parts.h"
#include "coordinator/result/summary.h"
#include "coordinator/run/pages.h"
#include "tests/coordinator/sample_result.h"
#include "tests/support/failmalloc.h"

#define VALID   LS__VERDICT__VERDICT_VALID
#define INVALID LS__VERDICT__VERDICT_INVALID

static const char plan_text[] =
    "name: page\n"
    "targets:\n"
    "  - {name: bun, command: [bun], port: 1, published: [{workload: burst, metric: throughput_per_s, "
    "value: 82.1, unit: k/s, source: there, date: 2026-05-01}]}\n"
    "  - {name: node, command: [node], port: 2}\n"
    "  - {name: deno, command: [deno], port: 3}\n"
    "workloads:\n"
    "  - {name: burst, http: {requests: [{path: /, expect: {body: 'Hello, World!'}}]}}\n"
    "  - {name: hold, http: {requests: [{path: /, expect: {body: 'Hello, World!'}}]}}\n"
    "  - {name: own, targets: [deno], process: {metrics: [{name: router}]}}\n"
    "schedule: {repetitions: 3, order: sequential}\n"
    "tables:\n"
    "  - title: Burst against sustained\n"
    "    note: compare down a column\n"
    "    columns:\n"
    "      - {title: burst, workload: burst}\n"
    "      - {title: sustained, workload: hold, statistic: best}\n"
    "      - {title: change, workload: hold, change_from: burst}\n"
    "      - {title: gain, workload: hold, over: burst}\n"
    "      - {title: runs, workload: hold, statistic: runs}\n"
    "  - {title: By workload, rows: workloads, targets: [bun, 'no*'], statistic: mean_sd}\n"
    "  - {title: Own, rows: metrics, workloads: [own], targets: [deno]}\n";

static const struct sample_trial trials[] = {
    { "bun", "burst", 0, 99000, 1, 9, 0, VALID }, /* discarded */
    { "bun", "burst", 1, 49300, 1, 9, 0, VALID },  { "bun", "burst", 2, 49340, 1, 9, 0, VALID },
    { "bun", "burst", 3, 49380, 1, 9, 0, VALID },  { "bun", "hold", 1, 50000, 1, 9, 0, VALID },
    { "bun", "hold", 2, 50080, 1, 9, 0, VALID },   { "bun", "hold", 3, 50100, 1, 9, 0, VALID },
    { "node", "burst", 1, 20000, 1, 9, 0, VALID }, { "node", "burst", 2, 30000, 1, 9, 0, VALID },
    { "node", "burst", 3, 25000, 1, 9, 0, VALID }, { "node", "hold", 1, 20000, 1, 9, 0, INVALID },
};

struct rig {
    struct coord_plan plan;
    Ls__Result *result;
};

static void rig_init(struct rig *rig)
{
    struct coord_plan_source source = {
        .file = "page.yaml", .text = plan_text, .text_bytes = sizeof(plan_text) - 1, .base_dir = "."
    };
    struct ls_issues issues;
    char *text;

    *rig = (struct rig){ 0 };
    ls_issues_init(&issues, "page.yaml");
    if (coord_plan_open(&source, &issues, &rig->plan) != LS_OK) {
        text = ls_issues_format(&issues);
        fail_msg("%s", text);
    }
    ls_issues_fini(&issues);
    rig->result = sample_result(trials, LS_ARRAY_LEN(trials));
    for (size_t i = 0; i < rig->result->n_trials; i++) {
        rig->result->trials[i]->body_bytes =
            coord_pages_body_bytes(rig->plan.plan->workloads[0], ".");
        assert_true(coord_message_string(&rig->result->trials[i]->protocol, "http1"));
    }
    assert_int_equal(coord_pages_build(rig->result, rig->plan.plan), LS_OK);
    assert_int_equal(rig->result->n_pages, 3);
}

static void rig_fini(struct rig *rig)
{
    ls__result__free_unpacked(rig->result, NULL);
    coord_plan_close(&rig->plan);
}

static const Ls__PageRow *row_of(const Ls__Page *page, const char *name)
{
    for (size_t i = 0; i < page->n_rows; i++) {
        if (strcmp(page->rows[i]->name, name) == 0)
            return page->rows[i];
    }
    fail_msg("no row %s", name);
    return NULL;
}

static void assert_cells(const Ls__PageRow *row, const char *const *texts, size_t count)
{
    assert_int_equal(row->n_cells, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(row->cells[i]->text, texts[i]);
}

static bool has_note(const Ls__Page *page, const char *words)
{
    for (size_t i = 0; i < page->n_notes; i++) {
        if (strstr(page->notes[i], words) != NULL)
            return true;
    }
    return false;
}

/* The change is of the medians as they are, 49,340 to 50,080, not as they are shown; what did not
 * run, or does not count, is a word; a warm-up round is in no figure. */
static void rows_are_targets_and_columns_what_the_plan_says(void **state)
{
    static const char *const bun[] = {
        "49.3 k", "50.1 k", "+1.5 %", "1.01x", "50.0 k, 50.1 k, 50.1 k", "82.1 k/s"
    };
    static const char *const node[] = { "~25.0 k", "invalid", "invalid", "invalid", "invalid", "" };
    static const char *const deno[] = { "not measured", "not measured", "not measured",
                                        "not measured", "not measured", "" };
    struct rig rig;
    const Ls__Page *page;

    (void)state;
    rig_init(&rig);
    page = rig.result->pages[0];
    assert_string_equal(page->title, "Burst against sustained");
    assert_string_equal(page->columns[5], "burst, published");
    assert_cells(row_of(page, "bun"), bun, LS_ARRAY_LEN(bun));
    assert_cells(row_of(page, "node"), node, LS_ARRAY_LEN(node));
    assert_cells(row_of(page, "deno"), deno, LS_ARRAY_LEN(deno));
    assert_true(row_of(page, "bun")->cells[2]->value > 0.01499);
    assert_true(row_of(page, "node")->cells[0]->noisy);
    rig_fini(&rig);
}

static void rows_may_be_workloads(void **state)
{
    struct rig rig;
    const Ls__Page *page;

    (void)state;
    rig_init(&rig);
    page = rig.result->pages[1];
    assert_string_equal(page->rows_are, "workload");
    assert_string_equal(page->columns[0], "bun");
    assert_string_equal(page->columns[1], "node");
    assert_string_equal(row_of(page, "burst")->cells[0]->text, "49.3 k +- 40");
    assert_string_equal(row_of(page, "hold")->cells[1]->text, "invalid");
    rig_fini(&rig);
}

/* Who has not run has its rows nevertheless: those that the plan asks for. */
static void rows_of_a_script_are_there_before_it_has_run(void **state)
{
    struct rig rig;
    const Ls__Page *page;

    (void)state;
    rig_init(&rig);
    page = rig.result->pages[2];
    assert_int_equal(page->n_rows, 1);
    assert_string_equal(page->rows[0]->name, "script/router");
    assert_string_equal(page->rows[0]->cells[0]->text, "not measured");
    rig_fini(&rig);
}

static void a_change_that_doubles_or_halves_is_a_ratio(void **state)
{
    static const struct {
        double rate;
        const char *text;
    } cases[] = { { 98600, "+99.8 %" }, { 98680, "2.00x" }, { 244400, "4.95x" },
                  { 24700, "-49.9 %" }, { 24670, "0.50x" }, { 4934, "0.10x" } };
    struct rig rig;

    (void)state;
    rig_init(&rig);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        for (size_t k = 4; k <= 6; k++)
            rig.result->trials[k]->throughput_per_s = cases[i].rate;
        assert_int_equal(coord_pages_build(rig.result, rig.plan.plan), LS_OK);
        assert_string_equal(row_of(rig.result->pages[0], "bun")->cells[2]->text, cases[i].text);
    }
    rig_fini(&rig);
}

static void what_is_compared_with_little_or_with_others_says_so(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    assert_true(has_note(rig.result->pages[0], "Published: there, 2026-05-01, on another machine"));
    assert_false(has_note(rig.result->pages[0], "no finding"));
    assert_false(has_note(rig.result->pages[2], "Published"));
    rig.result->trials[6]->verdict = INVALID;
    assert_int_equal(coord_pages_build(rig.result, rig.plan.plan), LS_OK);
    assert_true(has_note(rig.result->pages[0], "change: from one or two runs"));
    assert_true(has_note(rig.result->pages[0], "gain: from one or two runs"));
    rig_fini(&rig);
}

static void the_faults_of_a_table_are_said_below_it(void **state)
{
    struct rig rig;
    const Ls__Page *page;

    (void)state;
    rig_init(&rig);
    page = rig.result->pages[0];
    assert_true(has_note(page, "compare down a column"));
    assert_true(has_note(page, "Not interleaved"));
    assert_true(has_note(page, "bun: 1.97x (1.64 to 2.47) more requests/s than node"));
    assert_false(has_note(page, "quick"));
    assert_false(has_note(page, "bodies"));
    for (size_t i = 7; i <= 9; i++)
        rig.result->trials[i]->body_bytes = 17;
    assert_true(coord_message_string(&rig.result->profile, "quick"));
    assert_int_equal(coord_pages_build(rig.result, rig.plan.plan), LS_OK);
    page = rig.result->pages[0];
    assert_true(has_note(page, "The bodies differ: 13 to 17 bytes"));
    assert_true(has_note(page, "The quick profile"));
    for (size_t i = 7; i <= 9; i++)
        rig.result->trials[i]->body_bytes = 0;
    assert_int_equal(coord_pages_build(rig.result, rig.plan.plan), LS_OK);
    assert_true(has_note(rig.result->pages[0], "does not say what bodies"));
    rig_fini(&rig);
}

/* It is the fastest, and of another version than the plan is about. */
static void another_version_is_shown_and_compared_with_nobody(void **state)
{
    static const char *const names[] = { "throughput_per_s", "cpu_ns_per_request" };
    struct rig rig;
    const Ls__Page *page;
    struct ls_buf out;

    (void)state;
    rig_init(&rig);
    for (size_t i = 1; i <= 3; i++)
        assert_true(coord_message_string(&rig.result->trials[i]->outcome, "version_differs"));
    assert_int_equal(coord_pages_build(rig.result, rig.plan.plan), LS_OK);
    page = rig.result->pages[0];
    assert_string_equal(row_of(page, "bun")->cells[0]->text, "49.3 k");
    assert_false(has_note(page, "than node"));
    for (size_t i = 0; i < LS_ARRAY_LEN(names); i++) {
        const char *targets[] = { "bun", "node" };

        assert_string_equal(
            coord_report_best(rig.result, "burst", targets, 2, coord_metric_find(names[i])),
            "node");
    }
    coord_message_clear(&rig.result->n_pages, &rig.result->pages);
    ls_buf_init(&out, 1 << 20);
    assert_int_equal(coord_report(rig.result, COORD_REPORT_TEXT,
                                  &(struct coord_report_options){ .columns = 200 }, &out, NULL),
                     LS_OK);
    assert_null(strstr((const char *)out.data, "requests/s than"));
    ls_buf_fini(&out);
    rig_fini(&rig);
}

static void reports_show_the_tables_in_the_place_of_workloads(void **state)
{
    static const char *const wanted[] = { "Burst against sustained", "+1.5 %", "~25.0 k",
                                          "82.1 k/s", "By workload" };
    struct rig rig;

    (void)state;
    rig_init(&rig);
    for (int format = 0; format < 2; format++) {
        struct ls_buf out;

        ls_buf_init(&out, 1 << 20);
        assert_int_equal(coord_report(rig.result,
                                      format == 0 ? COORD_REPORT_TEXT : COORD_REPORT_MARKDOWN,
                                      &(struct coord_report_options){ .columns = 200 }, &out, NULL),
                         LS_OK);
        for (size_t i = 0; i < LS_ARRAY_LEN(wanted); i++) {
            if (strstr((const char *)out.data, wanted[i]) == NULL)
                fail_msg("no %s in %s", wanted[i], (const char *)out.data);
        }
        assert_null(strstr((const char *)out.data, "measured for"));
        ls_buf_fini(&out);
    }
    rig_fini(&rig);
}

static void build_again(void *ctx)
{
    struct rig *rig = ctx;
    enum ls_err rc = coord_pages_build(rig->result, rig->plan.plan);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_int_equal(rig->result->n_pages, rc == LS_OK ? 3 : 0);
}

static void every_failed_allocation_is_reported(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    assert_true(failmalloc_each(build_again, &rig) > 100);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_targets_and_columns_what_the_plan_says),
        cmocka_unit_test(rows_may_be_workloads),
        cmocka_unit_test(rows_of_a_script_are_there_before_it_has_run),
        cmocka_unit_test(a_change_that_doubles_or_halves_is_a_ratio),
        cmocka_unit_test(what_is_compared_with_little_or_with_others_says_so),
        cmocka_unit_test(the_faults_of_a_table_are_said_below_it),
        cmocka_unit_test(another_version_is_shown_and_compared_with_nobody),
        cmocka_unit_test(reports_show_the_tables_in_the_place_of_workloads),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };

    return cmocka_run_group_tests_name("coordinator.pages", tests, NULL, NULL);
}
