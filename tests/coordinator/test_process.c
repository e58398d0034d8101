#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/pb.h"
#include "coordinator/run/process.h"

static Ls__ProcessRun run_of(uint32_t index, int64_t wall_ns)
{
    Ls__ProcessRun run = LS__PROCESS_RUN__INIT;

    run.index = index;
    run.wall_ns = wall_ns;
    run.user_ns = wall_ns / 2;
    run.peak_bytes = 1000000 + index;
    run.outcome = ls_pb_text("graceful");
    run.detail = ls_pb_text("exit 0");
    return run;
}

static struct coord_process *create(Ls__Workload *workload, Ls__Process *process)
{
    struct coord_process *p = NULL;

    ls__workload__init(workload);
    ls__process__init(process);
    workload->protocol_case = LS__WORKLOAD__PROTOCOL_PROCESS;
    workload->process = process;
    assert_int_equal(coord_process_create(workload, &p, NULL), LS_OK);
    return p;
}

static enum ls_err report(struct coord_process *p, Ls__ProcessRun *run)
{
    Ls__ProcessReport message = LS__PROCESS_REPORT__INIT;

    message.runs = &run;
    message.n_runs = 1;
    return coord_process_report(p, &message, NULL);
}

static Ls__Trial *finish(struct coord_process *p, const Ls__Result *earlier)
{
    Ls__Trial *trial = malloc(sizeof(*trial));

    assert_non_null(trial);
    ls__trial__init(trial);
    assert_int_equal(coord_process_finish(p, trial, NULL, NULL), LS_OK);
    coord_process_judge(p, trial, earlier);
    return trial;
}

static bool has_reason(const Ls__Trial *trial, const char *code)
{
    for (size_t i = 0; i < trial->n_reasons; i++) {
        if (strcmp(trial->reasons[i]->code, code) == 0)
            return true;
    }
    return false;
}

static void warm_ups_are_in_no_figure(void **state)
{
    static const int64_t walls[] = { 900, 40, 10, 30, 20 };
    Ls__Workload workload;
    Ls__Process process;
    struct coord_process *p = create(&workload, &process);
    Ls__Trial *trial;

    (void)state;
    for (uint32_t i = 0; i < LS_ARRAY_LEN(walls); i++) {
        Ls__ProcessRun run = run_of(i + 1, walls[i]);

        run.warmup = i == 0;
        assert_int_equal(report(p, &run), LS_OK);
    }
    trial = finish(p, NULL);
    assert_int_equal(trial->process->runs, 4);
    assert_int_equal(trial->process->warmup_runs, 1);
    assert_int_equal(trial->process->wall_ns->n, 4);
    assert_true(trial->process->wall_ns->min == 10 && trial->process->wall_ns->max == 40);
    assert_true(trial->process->wall_ns->median == 25 && trial->process->wall_ns->mean == 25);
    assert_true(fabs(trial->process->wall_ns->stdev - sqrt(500. / 3)) < 1e-9);
    assert_int_equal(trial->process->outcomes[0]->count, 4);
    assert_int_equal(trial->verdict, LS__VERDICT__VERDICT_VALID);
    ls__trial__free_unpacked(trial, NULL);
    coord_process_destroy(p);
}

static void one_run_that_does_not_count_makes_the_trial_invalid(void **state)
{
    Ls__Workload workload;
    Ls__Process process;
    struct coord_process *p = create(&workload, &process);
    Ls__ProcessRun good = run_of(1, 10), bad = run_of(2, 10);
    Ls__Trial *trial;

    (void)state;
    bad.outcome = ls_pb_text("signal");
    bad.detail = ls_pb_text("signal SEGV");
    bad.why = ls_pb_text("it ended with signal");
    assert_int_equal(report(p, &good), LS_OK);
    assert_int_equal(report(p, &bad), LS_OK);
    trial = finish(p, NULL);
    assert_true(has_reason(trial, "runs_refused"));
    assert_int_equal(trial->verdict, LS__VERDICT__VERDICT_INVALID);
    assert_int_equal(trial->process->n_outcomes, 2);
    ls__trial__free_unpacked(trial, NULL);
    coord_process_destroy(p);
}

static void no_run_is_no_measurement(void **state)
{
    Ls__Workload workload;
    Ls__Process process;
    struct coord_process *p = create(&workload, &process);
    Ls__Trial *trial = finish(p, NULL);

    (void)state;
    assert_true(has_reason(trial, "not_measured"));
    assert_null(trial->process);
    ls__trial__free_unpacked(trial, NULL);
    coord_process_destroy(p);
}

/* What no agent of ours would say. */
static void spoil_wall(Ls__ProcessRun *run, Ls__ScriptValue *value)
{
    (void)value;
    run->wall_ns = -1;
}

static void spoil_outcome(Ls__ProcessRun *run, Ls__ScriptValue *value)
{
    (void)value;
    run->outcome = ls_pb_text("an outcome that nobody knows");
}

static void spoil_peak(Ls__ProcessRun *run, Ls__ScriptValue *value)
{
    (void)value;
    run->peak_bytes = UINT64_MAX;
}

static void spoil_value(Ls__ProcessRun *run, Ls__ScriptValue *value)
{
    (void)run;
    value->value = NAN;
}

static void spoil_line(Ls__ProcessRun *run, Ls__ScriptValue *value)
{
    (void)value;
    run->detail = ls_pb_text("exit 0,1,x\n8,measure");
}

static void spoil_cell(Ls__ProcessRun *run, Ls__ScriptValue *value)
{
    (void)value;
    run->detail = ls_pb_text("=1+1");
}

static void a_report_that_makes_no_sense_is_refused(void **state)
{
    static void (*const spoils[])(Ls__ProcessRun *,
                                  Ls__ScriptValue *) = { spoil_wall,  spoil_outcome, spoil_peak,
                                                         spoil_value, spoil_line,    spoil_cell };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(spoils); i++) {
        Ls__Workload workload;
        Ls__Process process;
        struct coord_process *p = create(&workload, &process);
        Ls__ProcessRun run = run_of(1, 10);
        Ls__ScriptValue value = LS__SCRIPT_VALUE__INIT, *values[] = { &value };
        Ls__Trial *trial;

        value.name = ls_pb_text("a");
        run.values = values;
        run.n_values = 1;
        spoils[i](&run, &value);
        assert_int_equal(report(p, &run), LS_EPROTO);
        trial = finish(p, NULL);
        assert_true(has_reason(trial, "bad_report"));
        ls__trial__free_unpacked(trial, NULL);
        coord_process_destroy(p);
    }
}

/* A trial of workload w whose script printed a with these checksums, run by run. */
static Ls__Trial *trial_with(const char *target, const char *const *checksums, size_t count,
                             const Ls__Result *earlier)
{
    Ls__Workload workload;
    Ls__Process process;
    struct coord_process *p = create(&workload, &process);
    Ls__Trial *trial = malloc(sizeof(*trial));

    assert_non_null(trial);
    for (size_t i = 0; i < count; i++) {
        Ls__ProcessRun run = run_of((uint32_t)i + 1, 10);
        Ls__ScriptValue value = LS__SCRIPT_VALUE__INIT, *values[] = { &value };

        value.name = ls_pb_text("a");
        value.value = (double)i;
        value.checksum = ls_pb_text(checksums[i]);
        run.values = values;
        run.n_values = 1;
        assert_int_equal(report(p, &run), LS_OK);
    }
    ls__trial__init(trial);
    trial->target = strdup(target);
    trial->workload = strdup("w");
    assert_int_equal(coord_process_finish(p, trial, NULL, NULL), LS_OK);
    coord_process_judge(p, trial, earlier);
    coord_process_destroy(p);
    return trial;
}

static void checksums_have_to_agree_between_runs_and_targets(void **state)
{
    static const char *const same[] = { "x", "x", "x" }, *const other[] = { "y", "y" },
                             *const varies[] = { "x", "y" }, *const none[] = { "" };
    Ls__Trial *first = trial_with("one", same, 3, NULL), *trials[] = { first };
    Ls__Result earlier = LS__RESULT__INIT;
    Ls__Trial *trial;

    (void)state;
    assert_int_equal(first->verdict, LS__VERDICT__VERDICT_VALID);
    assert_true(first->process->metrics[0]->value->median == 1);
    earlier.trials = trials;
    earlier.n_trials = 1;
    trial = trial_with("two", same, 2, &earlier);
    assert_int_equal(trial->verdict, LS__VERDICT__VERDICT_VALID);
    ls__trial__free_unpacked(trial, NULL);
    trial = trial_with("two", other, 2, &earlier);
    assert_true(has_reason(trial, "checksum_differs"));
    ls__trial__free_unpacked(trial, NULL);
    trial = trial_with("two", none, 1, &earlier);
    assert_true(has_reason(trial, "checksum_differs"));
    ls__trial__free_unpacked(trial, NULL);
    trial = trial_with("two", varies, 2, NULL);
    assert_true(has_reason(trial, "checksum_varies"));
    ls__trial__free_unpacked(trial, NULL);
    first->verdict = LS__VERDICT__VERDICT_INVALID; /* a wrong one sets no measure */
    trial = trial_with("two", other, 2, &earlier);
    assert_int_equal(trial->verdict, LS__VERDICT__VERDICT_VALID);
    ls__trial__free_unpacked(trial, NULL);
    ls__trial__free_unpacked(first, NULL);
}

/* A trial whose script printed a in these units, run by run. */
static Ls__Trial *trial_in(const char *const *units, size_t count, bool higher,
                           const Ls__Result *earlier)
{
    Ls__Workload workload;
    Ls__Process process;
    struct coord_process *p = create(&workload, &process);
    Ls__Trial *trial = malloc(sizeof(*trial));

    assert_non_null(trial);
    for (size_t i = 0; i < count; i++) {
        Ls__ProcessRun run = run_of((uint32_t)i + 1, 10);
        Ls__ScriptValue value = LS__SCRIPT_VALUE__INIT, *values[] = { &value };

        value.name = ls_pb_text("a");
        value.value = 1;
        value.unit = ls_pb_text(units[i]);
        value.higher_is_better = higher;
        run.values = values;
        run.n_values = 1;
        assert_int_equal(report(p, &run), LS_OK);
    }
    ls__trial__init(trial);
    trial->target = strdup("one");
    trial->workload = strdup("w");
    assert_int_equal(coord_process_finish(p, trial, NULL, NULL), LS_OK);
    coord_process_judge(p, trial, earlier);
    coord_process_destroy(p);
    return trial;
}

static void units_and_directions_have_to_agree_between_runs_and_targets(void **state)
{
    static const char *const ms[] = { "ms", "ms" }, *const s[] = { "s", "s" },
                             *const both[] = { "ms", "s" };
    Ls__Trial *first = trial_in(ms, 2, false, NULL), *trials[] = { first }, *trial;
    Ls__Result earlier = LS__RESULT__INIT;

    (void)state;
    assert_int_equal(first->verdict, LS__VERDICT__VERDICT_VALID);
    earlier.trials = trials;
    earlier.n_trials = 1;
    trial = trial_in(ms, 2, false, &earlier);
    assert_int_equal(trial->verdict, LS__VERDICT__VERDICT_VALID);
    ls__trial__free_unpacked(trial, NULL);
    trial = trial_in(s, 2, false, &earlier);
    assert_true(has_reason(trial, "unit_differs"));
    assert_int_equal(trial->verdict, LS__VERDICT__VERDICT_INVALID);
    ls__trial__free_unpacked(trial, NULL);
    trial = trial_in(ms, 2, true, &earlier);
    assert_true(has_reason(trial, "unit_differs"));
    ls__trial__free_unpacked(trial, NULL);
    trial = trial_in(both, 2, false, NULL);
    assert_true(has_reason(trial, "unit_varies"));
    assert_int_equal(trial->verdict, LS__VERDICT__VERDICT_INVALID);
    ls__trial__free_unpacked(trial, NULL);
    ls__trial__free_unpacked(first, NULL);
}

static void others_on_the_cpus_are_told(void **state)
{
    Ls__Workload workload;
    Ls__Process process;
    struct coord_process *p = create(&workload, &process);
    Ls__ProcessRun run = run_of(1, 1000000000), *runs[] = { &run };
    Ls__ProcessTotals totals = LS__PROCESS_TOTALS__INIT;
    Ls__ProcessReport message = LS__PROCESS_REPORT__INIT;
    Ls__Trial *trial;

    (void)state;
    run.user_ns = 1000000000;
    totals.span_ns = 2000000000;
    totals.cpus_busy_ns = 1800000000;
    totals.cpus_steal_ns = 100000000;
    message.runs = runs;
    message.n_runs = 1;
    message.totals = &totals;
    assert_int_equal(coord_process_report(p, &message, NULL), LS_OK);
    trial = finish(p, NULL);
    assert_true(fabs(trial->process->foreign_cpu_cores - 0.4) < 1e-9);
    assert_true(has_reason(trial, "foreign_cpu") && has_reason(trial, "cpu_steal"));
    assert_int_equal(trial->verdict, LS__VERDICT__VERDICT_SUSPECT);
    ls__trial__free_unpacked(trial, NULL);
    coord_process_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_ups_are_in_no_figure),
        cmocka_unit_test(one_run_that_does_not_count_makes_the_trial_invalid),
        cmocka_unit_test(no_run_is_no_measurement),
        cmocka_unit_test(a_report_that_makes_no_sense_is_refused),
        cmocka_unit_test(checksums_have_to_agree_between_runs_and_targets),
        cmocka_unit_test(units_and_directions_have_to_agree_between_runs_and_targets),
        cmocka_unit_test(others_on_the_cpus_are_told),
    };

    return cmocka_run_group_tests_name("coordinator.process", tests, NULL, NULL);
}
