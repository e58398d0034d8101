#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/host/series.h"
#include "agent/host/target.h"
#include "tests/agent/host_fixture.h"
#include "tests/agent/host_play.h"

#define LARGE_BYTES (UINT64_C(384) << 20)

/* A process workload, and the target that runs it. */
struct rig {
    struct host_fixture f;
    Ls__Process process;
    Ls__ProcessExpect expect;
    Ls__ProcessOutcome outcomes[7];
    Ls__Size size;
    char spawner[300];
    char *argv[5];
    int64_t timeout_ns;
    struct host_series *series;
};

/* sh -c SCRIPT, so many runs, of which any end is as expected. */
static void rig_init(struct rig *r, const char *script, uint32_t runs)
{
    *r = (struct rig){ .timeout_ns = FIXTURE_PATIENCE_NS };
    host_fixture_init(&r->f, "unused", NULL, NULL);
    ls__process__init(&r->process);
    ls__process_expect__init(&r->expect);
    ls__size__init(&r->size);
    r->size.bytes = 1 << 20;
    r->process.output = &r->size;
    r->process.expect = &r->expect;
    r->process.has_runs = 1;
    r->process.runs = runs;
    r->process.has_warmup_runs = r->process.has_concurrency = 1;
    r->process.warmup_runs = 0;
    for (int i = 0; i < 7; i++)
        r->outcomes[i] = (Ls__ProcessOutcome)i;
    r->expect.outcomes = r->outcomes;
    r->expect.n_outcomes = 7;
    (void)snprintf(r->spawner, sizeof(r->spawner), "%s/ls-spawner", r->f.dir);
    r->argv[0] = strdup("sh");
    r->argv[1] = strdup("-c");
    r->argv[2] = strdup(script);
    r->f.spec.argv = r->argv;
    r->f.spec.ready = NULL;
    r->f.spec.port = 0;
    r->f.spec.grace_ns = 0;
}

static void rig_start(struct rig *r)
{
    const struct host_series_spec spec = { .process = &r->process,
                                           .timeout_ns = r->timeout_ns,
                                           .spawner_path = r->spawner };
    struct ls_diag diag = { 0 };

    if (host_series_create(&spec, &r->series, &diag) != LS_OK)
        fail_msg("no series: %s", diag.text);
    r->f.spec.series = r->series;
    host_fixture_start(&r->f);
}

/* Stopped, and nothing is left, of whichever run. */
static void rig_fini(struct rig *r)
{
    struct host_target_event event;

    host_fixture_down(&r->f, &event);
    host_fixture_fini(&r->f);
    host_series_destroy(r->series);
    for (int i = 0; i < 3; i++)
        free(r->argv[i]);
}

/* The next run, which there must be. */
static Ls__ProcessRun *next(struct rig *r)
{
    Ls__ProcessRun *run = host_series_next(r->series);

    assert_non_null(run);
    return run;
}

static void expect_run(struct rig *r, const char *outcome, const char *detail)
{
    Ls__ProcessRun *run = next(r);

    assert_string_equal(run->outcome, outcome);
    assert_string_equal(run->detail, detail);
    assert_true(run->wall_ns > 0);
    ls__process_run__free_unpacked(run, NULL);
}

static void how_a_run_ends_is_told_by_name(void **state)
{
    static const char script[] = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n\n"
                                 "case $n in 0) exit 0;; 1) exit 3;; 2) kill -SEGV $$;;\n"
                                 "3) kill -KILL $$;; *) kill -TERM $$; esac";
    struct host_target_event event;
    struct rig r;

    (void)state;
    rig_init(&r, script, 5);
    rig_start(&r);
    host_fixture_expect(&r.f, HOST_TARGET_UP, &event);
    expect_run(&r, "graceful", "exit 0");
    expect_run(&r, "non_zero", "exit 3");
    expect_run(&r, "signal", "signal SEGV");
    expect_run(&r, "signal", "signal KILL");
    expect_run(&r, "signal", "signal TERM");
    assert_null(host_series_next(r.series));
    rig_fini(&r);
}

static void a_run_that_takes_too_long_is_ended_with_all_it_has_started(void **state)
{
    struct host_target_event event;
    struct rig r;
    Ls__ProcessRun *run;

    (void)state;
    rig_init(&r, "setsid sh -c 'setsid sleep 1000 & sleep 1000' & trap '' TERM; sleep 1000", 1);
    r.timeout_ns = INT64_C(300000000);
    rig_start(&r);
    host_fixture_expect(&r.f, HOST_TARGET_UP, &event);
    run = next(&r);
    assert_string_equal(run->outcome, "timeout");
    assert_true(run->wall_ns >= r.timeout_ns);
    ls__process_run__free_unpacked(run, NULL);
    assert_int_equal(host_fixture_alive(r.f.mark), 0); /* before anything is stopped */
    rig_fini(&r);
}

static void what_a_run_leaves_behind_is_gone_before_the_next_one(void **state)
{
    struct host_target_event event;
    struct rig r;

    (void)state;
    rig_init(&r, "(setsid sleep 1000 &); exit 0", 3);
    rig_start(&r);
    host_fixture_expect(&r.f, HOST_TARGET_UP, &event);
    for (int i = 0; i < 3; i++) {
        Ls__ProcessRun *run = next(&r);

        assert_int_equal(run->left_over, 1);
        ls__process_run__free_unpacked(run, NULL);
    }
    assert_int_equal(host_fixture_alive(r.f.mark), 0);
    rig_fini(&r);
}

static void stopping_ends_runs_that_are_under_way(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, "setsid sleep 1000 & sleep 1000", 4);
    r.process.concurrency = 2;
    rig_start(&r);
    assert_true(host_fixture_await_alive(r.f.mark, 6));
    rig_fini(&r);
}

static void no_more_runs_are_begun_after_three_that_were_refused(void **state)
{
    struct host_target_event event;
    struct rig r;

    (void)state;
    rig_init(&r, "echo no licence; exit 7", 100);
    r.expect.n_outcomes = 1;
    rig_start(&r);
    host_fixture_expect(&r.f, HOST_TARGET_UP, &event);
    for (unsigned i = 0; i < HOST_SERIES_REFUSED; i++) {
        Ls__ProcessRun *run = next(&r);

        assert_non_null(strstr(run->why, "exit 7"));
        assert_non_null(strstr(run->why, "no licence"));
        ls__process_run__free_unpacked(run, NULL);
    }
    assert_null(host_series_next(r.series));
    rig_fini(&r);
}

static void a_program_that_cannot_be_executed_fails_the_series(void **state)
{
    struct host_target_event event;
    struct rig r;

    (void)state;
    rig_init(&r, "exit 0", 1);
    free(r.argv[0]);
    r.argv[0] = strdup("/etc/passwd");
    rig_start(&r);
    host_fixture_expect(&r.f, HOST_TARGET_FAILED, &event);
    assert_string_equal(event.code, "start_failed");
    rig_fini(&r);
}

static void input_and_marker_are_at_hand(void **state)
{
    char text[] = "as given\n", marker[] = "READY";
    struct host_target_event event;
    struct rig r;
    Ls__ProcessRun *run;

    (void)state;
    rig_init(&r, "cat; echo READY; sleep 1", 2); /* time to look at what it holds */
    r.process.stdin = text;
    r.process.marker = marker;
    rig_start(&r);
    host_fixture_expect(&r.f, HOST_TARGET_UP, &event);
    for (int i = 0; i < 2; i++) {
        run = next(&r);
        assert_string_equal(run->outcome, "graceful");
        assert_int_equal(run->output_bytes, sizeof("as given\nREADY\n") - 1);
        assert_true(run->marker_rss_bytes > 100000);
        ls__process_run__free_unpacked(run, NULL);
    }
    rig_fini(&r);
}

/* The least peak of some runs of /bin/true. */
static uint64_t peak_of_true(void)
{
    struct host_target_event event;
    uint64_t least = UINT64_MAX;
    struct rig r;

    rig_init(&r, "", 5);
    free(r.argv[0]);
    free(r.argv[1]);
    free(r.argv[2]);
    r.argv[0] = strdup("/bin/true");
    r.argv[1] = r.argv[2] = NULL;
    rig_start(&r);
    host_fixture_expect(&r.f, HOST_TARGET_UP, &event);
    for (int i = 0; i < 5; i++) {
        Ls__ProcessRun *run = next(&r);

        if (run->peak_bytes < least)
            least = run->peak_bytes;
        ls__process_run__free_unpacked(run, NULL);
    }
    rig_fini(&r);
    return least;
}

static void a_large_agent_does_not_show_in_the_peak_of_a_small_program(void **state)
{
    uint64_t small = peak_of_true(), large;
    volatile unsigned char *memory = malloc(LARGE_BYTES);

    (void)state;
    assert_non_null((void *)(uintptr_t)memory);
    for (uint64_t i = 0; i < LARGE_BYTES; i += 4096)
        memory[i] = 1;
    large = peak_of_true();
    free((void *)(uintptr_t)memory);
    assert_true(small > 0 && small < UINT64_C(8) << 20);
    assert_true(large < small + small / 2); /* pages of libc that happen to be there or not */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_a_run_ends_is_told_by_name),
        cmocka_unit_test(a_run_that_takes_too_long_is_ended_with_all_it_has_started),
        cmocka_unit_test(what_a_run_leaves_behind_is_gone_before_the_next_one),
        cmocka_unit_test(stopping_ends_runs_that_are_under_way),
        cmocka_unit_test(no_more_runs_are_begun_after_three_that_were_refused),
        cmocka_unit_test(a_program_that_cannot_be_executed_fails_the_series),
        cmocka_unit_test(input_and_marker_are_at_hand),
        cmocka_unit_test(a_large_agent_does_not_show_in_the_peak_of_a_small_program),
    };

    host_target_main_hook(argc, argv);
    host_play_hook(argc, argv);
    return cmocka_run_group_tests_name("agent.host_series", tests, host_fixture_begin,
                                       host_fixture_sweep);
}
