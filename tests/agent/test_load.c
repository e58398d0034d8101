#include "tests/support/test.h"

#include <sched.h>
#include <string.h>

#include "common/clock.h"
#include "common/schedule.h"
#include "tests/support/failmalloc.h"
#include "tests/support/load_run.h"

#define MS LS_NS_PER_MS

static void run_null(struct load_run *run, const struct load_workload *workload)
{
    struct load_window window;

    load_run_init(run, workload);
    window = load_run_window(50 * MS, 30 * MS, 100 * MS);
    load_run_all(run, &window);
    load_run_fini(run);
}

static void closed_loop_books_balance_and_totals_are_the_sums_of_intervals(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        struct load_workload workload = load_run_null_workload();
        struct load_run run;

        workload.pipeline = workers;
        workload.workers = workload.workers_total = workers;
        workload.connections = 5;
        run_null(&run, &workload);
        assert_true(run.totals.warmup.sent > 0);
        assert_true(run.totals.measure.sent > 0);
        assert_int_equal(run.totals.measure.outcome[LOAD_OK], run.totals.measure.sent);
        assert_true(run.totals.ok_in_window > 0);
        assert_int_equal(run.totals.connections.asked, 5);
        assert_int_equal(run.totals.connections.opened, 5);
        assert_int_equal(run.totals.connections.peak, 5);
        assert_int_equal(run.totals.worker_count, workers);
        assert_true(run.totals.started_first_ns >= run.window.start_ns);
        assert_true(run.totals.started_ns >= run.totals.started_first_ns);
        assert_int_equal(run.totals.ended_ns, run.window.start_ns + 130 * MS);
        for (uint32_t i = 0; i < workers; i++) {
            assert_true(run.health[i].cpu_ns > 0);
            assert_true(run.health[i].window_ns > 0);
        }
    }
}

/* Agents of workers each, one after the other; each of them knows its place among all. */
static void run_agents(uint32_t agents, uint32_t workers, struct load_workload workload,
                       struct load_counts *out_warmup, struct load_counts *out_measure)
{
    *out_warmup = *out_measure = (struct load_counts){ 0 };
    for (uint32_t i = 0; i < agents; i++) {
        struct load_run run;

        workload.worker_base = i * workers;
        workload.workers = workers;
        workload.workers_total = agents * workers;
        run_null(&run, &workload);
        load_counts_add(out_warmup, &run.totals.warmup);
        load_counts_add(out_measure, &run.totals.measure);
    }
}

static void a_fixed_count_is_exact_for_any_number_of_agents_and_workers(void **state)
{
    (void)state;
    for (uint32_t agents = 1; agents <= 3; agents++) {
        for (uint32_t workers = 1; workers <= 2; workers++) {
            struct load_workload workload = load_run_null_workload();
            struct load_counts warmup, measure;

            workload.count = 1009;
            workload.connections = 11;
            workload.pipeline = 3;
            run_agents(agents, workers, workload, &warmup, &measure);
            assert_int_equal(measure.sent, 1009);
            assert_int_equal(measure.outcome[LOAD_OK], 1009);
        }
    }
}

static void a_fixed_count_ends_before_its_limit(void **state)
{
    struct load_workload workload = load_run_null_workload();
    struct load_window window = load_run_window(50 * MS, 0, 3600 * LS_NS_PER_S);
    struct load_run run;

    (void)state;
    workload.count = 100;
    load_run_init(&run, &workload);
    load_run_all(&run, &window);
    assert_int_equal(run.totals.ok_in_window, 100);
    assert_true(run.totals.ended_ns > run.window.start_ns);
    assert_true(run.totals.ended_ns < run.window.start_ns + window.measure_ns);
    load_run_fini(&run);
}

/* Warm-up at 2000/s, then 1000/s to 9000/s over half the window, then 4000/s. */
static struct ls_arrivals law_of(enum load_law law, struct ls_rate_piece pieces[3])
{
    pieces[0] = (struct ls_rate_piece){ .from_per_s = 2000, .to_per_s = 2000 };
    pieces[1] = (struct ls_rate_piece){ .at_ns = 30 * MS, .from_per_s = 1000, .to_per_s = 9000 };
    pieces[2] = (struct ls_rate_piece){ .at_ns = 80 * MS, .from_per_s = 4000, .to_per_s = 4000 };
    assert_int_equal(ls_rate_pieces_init(pieces, 3, NULL), LS_OK);
    return (struct ls_arrivals){ .law = law == LOAD_LAW_POISSON  ? LS_LAW_POISSON
                                        : law == LOAD_LAW_PIECES ? LS_LAW_PIECES
                                                                 : LS_LAW_CONSTANT,
                                 .rate_per_s = 3333,
                                 .seed = 11,
                                 .pieces = pieces,
                                 .piece_count = 3 };
}

static void an_open_loop_schedules_the_same_for_any_number_of_agents_and_workers(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 9; round++) {
        enum load_law law = (enum load_law)(LOAD_LAW_CONSTANT + round / 3);
        struct load_workload workload = load_run_null_workload();
        struct load_counts warmup, measure;
        struct ls_rate_piece pieces[3];
        struct ls_arrivals arrivals = law_of(law, pieces);

        workload.law = law;
        workload.rate_per_s = 3333;
        workload.seed = 11;
        workload.pieces = pieces;
        workload.piece_count = 3;
        workload.connections = 8;
        workload.frugal = round % 2 == 1;
        run_agents(1 + round % 3, 1 + round % 2, workload, &warmup, &measure);
        assert_int_equal(warmup.scheduled, ls_schedule_count(&arrivals, 0, 0, 30 * MS));
        assert_int_equal(measure.scheduled, ls_schedule_count(&arrivals, 0, 30 * MS, 130 * MS));
        assert_true(measure.scheduled > 300);
        assert_int_equal(measure.shed, 0);
        assert_int_equal(measure.outcome[LOAD_OK], measure.scheduled);
    }
}

static void waves_are_counted_exactly_for_any_number_of_agents_and_workers(void **state)
{
    (void)state;
    for (uint32_t agents = 1; agents <= 3; agents++) {
        struct load_workload workload = load_run_null_workload();
        struct load_counts warmup, measure;

        workload.law = LOAD_LAW_WAVES;
        workload.count = 1003;
        workload.connections = 10;
        run_agents(agents, 1 + agents % 2, workload, &warmup, &measure);
        assert_int_equal(measure.scheduled, 1003);
        assert_int_equal(measure.outcome[LOAD_OK], 1003);
    }
}

static bool spins(bool frugal)
{
    struct load_workload workload = load_run_null_workload();
    struct load_run run;

    workload.law = LOAD_LAW_CONSTANT;
    workload.rate_per_s = 2000;
    workload.frugal = frugal;
    run_null(&run, &workload);
    return run.health[0].spin_ns > 0;
}

/* Who gets the CPU only when everything is overdue has nothing to spin for: a precise worker gets
 * some more chances. */
static void a_frugal_worker_spins_for_nothing_but_the_start(void **state)
{
    bool spun = false;

    (void)state;
    assert_false(spins(true));
    for (unsigned i = 0; i < 50 && !spun; i++)
        spun = spins(false);
    assert_true(spun);
}

static void connections_are_replaced_as_often_as_they_are_used_up(void **state)
{
    struct load_workload workload = load_run_null_workload();
    struct load_window window = load_run_window(50 * MS, 0, 3600 * LS_NS_PER_S);
    struct load_run run;

    (void)state;
    workload.count = 600;
    workload.connections = 6;
    workload.workers = workload.workers_total = 2;
    workload.lifetime_requests = 5;
    load_run_init(&run, &workload);
    load_run_all(&run, &window);
    assert_int_equal(run.totals.measure.outcome[LOAD_OK], 600);
    assert_int_equal(run.totals.connections.retired, 600 / 5);
    assert_int_equal(run.totals.connections.opened, 6 + run.totals.connections.renewed);
    assert_int_equal(run.totals.connections.reopened, 0);
    load_run_fini(&run);
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct load_workload workload = load_run_null_workload();
        struct load_env env = { 0 };
        struct agent_load *load = NULL;
        struct ls_diag diag = { 0 };

        workload.law = i == 0 ? LOAD_LAW_POISSON : i == 1 ? LOAD_LAW_WAVES : LOAD_LAW_CLOSED;
        workload.pipeline = i == 1 || i == 2 ? 2 : 1;
        workload.think_ns = i == 2 ? 1 : i == 3 ? -1 : 0;
        workload.lifetime_ns = i == 4 ? -1 : 0;
        if (i == 5)
            workload.law = LOAD_LAW_COUNT;
        assert_true(agent_load_create(&workload, &env, &load, &diag) != LS_OK);
        assert_true(diag.text[0] != '\0');
    }
}

static void a_control_thread_that_does_not_poll_gets_coarser_intervals_and_all_of_it(void **state)
{
    struct load_workload workload = load_run_null_workload();
    struct load_window window = load_run_window(50 * MS, 20 * MS, 180 * MS);
    struct load_run run;

    (void)state;
    workload.workers = workload.workers_total = 2;
    load_run_init(&run, &workload);
    load_run_to_start(&run, &window);
    while (ls_clock_mono_ns() < run.window.start_ns + 200 * MS)
        ls_clock_sleep_until(run.window.start_ns + 200 * MS);
    load_run_until(&run, LOAD_EVENT_DONE);
    load_run_check_totals(&run);
    assert_true(run.merged > 0);
    assert_true(run.next_index >= 10);
    load_run_fini(&run);
}

static void an_instant_that_cannot_be_made_is_late_and_another_one_can_be_armed(void **state)
{
    struct load_workload workload = load_run_null_workload();
    struct load_window window = load_run_window(MS, 0, 20 * MS);
    struct load_run run;

    (void)state;
    workload.workers = workload.workers_total = 2;
    load_run_init(&run, &workload);
    for (int i = 0; i < 2; i++) {
        load_run_arm(&run, &window); /* within the 2 ms before it, and later long past */
        assert_int_equal(load_run_next(&run), LOAD_EVENT_LATE);
        assert_true(run.last.diag.text[0] != '\0');
    }
    run.seen[LOAD_EVENT_LATE] = 0;
    window = load_run_window(100 * MS, 0, 20 * MS);
    load_run_all(&run, &window);
    assert_true(run.totals.measure.sent > 0);
    load_run_fini(&run);
}

static void a_stop_before_the_start_leads_back_to_where_arm_is_possible(void **state)
{
    struct load_workload workload = load_run_null_workload();
    struct load_window window = load_run_window(3600 * LS_NS_PER_S, 0, 20 * MS);
    struct load_event event;
    struct load_run run;

    (void)state;
    workload.workers = workload.workers_total = 2;
    load_run_init(&run, &workload);
    assert_false(agent_load_stop(run.load, NULL)); /* nothing to stop */
    load_run_arm(&run, &window);
    assert_int_equal(agent_load_arm(run.load, &window, NULL), LS_ESTATE);
    load_run_until(&run, LOAD_EVENT_ARMED);
    assert_int_equal(agent_load_preflight(run.load, NULL), LS_ESTATE);
    assert_false(agent_load_stop(run.load, NULL));
    assert_false(agent_load_poll(run.load, &event));
    run.seen[LOAD_EVENT_ARMED] = 0;
    window = load_run_window(100 * MS, 0, 20 * MS);
    load_run_all(&run, &window);
    assert_false(agent_load_poll(run.load, &event));
    assert_int_equal(agent_load_arm(run.load, &window, NULL), LS_ESTATE); /* it is over */
    assert_false(agent_load_stop(run.load, NULL));
    load_run_fini(&run);
}

static void a_stop_after_the_start_ends_it_with_balanced_books(void **state)
{
    (void)state;
    for (unsigned intervals = 0; intervals < 4; intervals++) {
        struct load_workload workload = load_run_null_workload();
        struct load_window window = load_run_window(100 * MS, 20 * MS, 3600 * LS_NS_PER_S);
        struct load_run run;

        workload.workers = workload.workers_total = 2;
        workload.pipeline = 2;
        load_run_init(&run, &workload);
        load_run_to_start(&run, &window);
        while (run.seen[LOAD_EVENT_INTERVAL] < intervals)
            (void)load_run_next(&run);
        assert_true(agent_load_stop(run.load, NULL));
        assert_true(agent_load_stop(run.load, NULL)); /* once more is no harm */
        load_run_until(&run, LOAD_EVENT_DONE);
        load_run_check_totals(&run);
        /* In the warm-up, if the machine was not away for all of it. */
        assert_true(run.totals.warmup.sent + run.totals.measure.sent > 0);
        assert_true(run.totals.warmup.outcome[LOAD_ABORTED] +
                        run.totals.measure.outcome[LOAD_ABORTED] <=
                    8);
        assert_true(run.totals.ended_ns < run.window.start_ns + window.measure_ns);
        load_run_fini(&run);
    }
}

static void it_can_be_destroyed_at_any_time(void **state)
{
    struct load_workload workload = load_run_null_workload();
    struct load_window window = load_run_window(3600 * LS_NS_PER_S, 0, MS);
    struct load_run run;

    (void)state;
    load_run_init(&run, &workload);
    load_run_fini(&run);
    load_run_init(&run, &workload);
    assert_int_equal(agent_load_preflight(run.load, NULL), LS_OK);
    load_run_fini(&run);
    load_run_init(&run, &workload);
    load_run_arm(&run, &window);
    load_run_fini(&run);
    load_run_init(&run, &workload);
    load_run_arm(&run, &window);
    load_run_until(&run, LOAD_EVENT_ARMED);
    load_run_fini(&run);
    window = load_run_window(100 * MS, 0, 3600 * LS_NS_PER_S);
    load_run_init(&run, &workload);
    load_run_to_start(&run, &window);
    load_run_until(&run, LOAD_EVENT_INTERVAL);
    load_run_fini(&run);
    agent_load_destroy(NULL);
}

static void a_load_without_an_address_passes_its_preflight(void **state)
{
    struct load_workload workload = load_run_null_workload();
    struct load_run run;

    (void)state;
    load_run_init(&run, &workload);
    assert_int_equal(agent_load_preflight(run.load, NULL), LS_OK);
    load_run_until(&run, LOAD_EVENT_PREFLIGHT);
    assert_true(run.last.ok);
    assert_int_equal(run.last.preflight.sent, 0);
    assert_string_equal(agent_load_io(run.load), "none");
    load_run_fini(&run);
}

static void workers_run_on_the_cpu_given_or_not_at_all(void **state)
{
    struct load_workload workload = load_run_null_workload();
    struct load_window window = load_run_window(3600 * LS_NS_PER_S, 0, MS);
    struct ls_diag diag = { 0 };
    struct load_run run;
    cpu_set_t allowed;
    int cpus[2] = { 0, 1023 };

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    while (!CPU_ISSET((unsigned)cpus[0], &allowed))
        cpus[0]++;
    workload.worker_cpus = cpus;
    run_null(&run, &workload);
    assert_true(run.totals.measure.sent > 0);
    if (CPU_ISSET((unsigned)cpus[1], &allowed))
        return; /* what a machine */
    workload.workers = workload.workers_total = 2;
    load_run_init(&run, &workload);
    assert_int_equal(agent_load_arm(run.load, &window, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "CPU 1023"));
    assert_int_equal(agent_load_arm(run.load, &window, NULL), LS_EIO); /* still possible to try */
    load_run_fini(&run);
}

static void break_driver(struct load_workload *w)
{
    w->driver = "telepathy";
}

static void break_link(struct load_workload *w)
{
    w->link = "string";
}

static void break_workers(struct load_workload *w)
{
    w->workers = 0;
}

static void break_base(struct load_workload *w)
{
    w->worker_base = 1;
}

static void break_requests(struct load_workload *w)
{
    w->request_count = 0;
}

static void break_pipeline(struct load_workload *w)
{
    w->pipeline = 0;
}

static void break_connections(struct load_workload *w)
{
    w->workers_total = 5;
}

static void break_timeout(struct load_workload *w)
{
    w->timeout_ns = 0;
}

static void break_rate(struct load_workload *w)
{
    w->law = LOAD_LAW_CONSTANT;
}

static void workloads_that_make_no_sense_are_refused_with_a_reason(void **state)
{
    static const struct {
        void (*damage)(struct load_workload *w);
        const char *say;
    } rows[] = {
        { break_driver, "unknown protocol 'telepathy'" },
        { break_link, "unknown link 'string'" },
        { break_workers, "workers 0 to 0 of 1" },
        { break_base, "workers 1 to 2 of 1" },
        { break_requests, "nothing to send" },
        { break_pipeline, "nothing to send" },
        { break_connections, "4 connections leave some of 5 workers without one" },
        { break_timeout, "timeout" },
        { break_rate, "a rate of 0/s" },
    };
    struct load_env env = { 0 };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct load_workload workload = load_run_null_workload();
        struct agent_load *load = NULL;
        struct ls_diag diag = { 0 };

        rows[i].damage(&workload);
        assert_int_not_equal(agent_load_create(&workload, &env, &load, &diag), LS_OK);
        assert_null(load);
        if (strstr(diag.text, rows[i].say) == NULL)
            fail_msg("row %zu: %s", i, diag.text);
    }
}

static void windows_that_make_no_sense_are_refused(void **state)
{
    static const struct load_window windows[] = {
        { .measure_ns = 0, .interval_ns = MS },
        { .measure_ns = 1, .interval_ns = 0 },
        { .measure_ns = 1, .interval_ns = MS - 1 },
        { .measure_ns = 1, .interval_ns = MS, .warmup_ns = -1 },
        { .measure_ns = 1, .interval_ns = MS, .drain_ns = -1 },
    };
    struct load_workload workload = load_run_null_workload();
    struct load_run run;

    (void)state;
    load_run_init(&run, &workload);
    for (size_t i = 0; i < LS_ARRAY_LEN(windows); i++)
        assert_int_equal(agent_load_arm(run.load, &windows[i], NULL), LS_ERANGE);
    load_run_fini(&run);
}

static void wake_nobody(void *ctx)
{
    (void)ctx;
}

static void create_and_arm_once(void *ctx)
{
    struct load_workload workload = load_run_null_workload();
    struct load_window window = load_run_window(3600 * LS_NS_PER_S, 0, MS);
    struct load_env env = { .wake = wake_nobody };
    struct agent_load *load = NULL;
    struct ls_diag diag = { 0 };
    enum ls_err rc = agent_load_create(&workload, &env, &load, &diag);

    (void)ctx;
    workload.workers = 1;
    if (rc == LS_OK)
        rc = agent_load_arm(load, &window, &diag);
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_true((rc == LS_OK) == (diag.text[0] == '\0'));
    agent_load_destroy(load);
}

static void create_and_arm_survive_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(failmalloc_each(create_and_arm_once, NULL) >= 15);
}

static void outcomes_have_names_and_counts_balance_or_not(void **state)
{
    struct load_counts counts = { .scheduled = 6, .sent = 5, .shed = 1 };
    struct load_counts sum = { 0 };

    (void)state;
    assert_string_equal(load_outcome_name(LOAD_OK), "ok");
    assert_string_equal(load_outcome_name(LOAD_ABORTED), "aborted");
    assert_string_equal(load_outcome_name(LOAD_OUTCOME_COUNT), "?");
    assert_false(load_counts_balance(&counts));
    counts.outcome[LOAD_OK] = 3;
    counts.outcome[LOAD_TIMEOUT] = 2;
    assert_true(load_counts_balance(&counts));
    load_counts_add(&sum, &counts);
    load_counts_add(&sum, &counts);
    assert_int_equal(sum.scheduled, 12);
    assert_int_equal(sum.outcome[LOAD_TIMEOUT], 4);
    assert_true(load_counts_balance(&sum));
    counts.shed = 0;
    assert_false(load_counts_balance(&counts));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_loop_books_balance_and_totals_are_the_sums_of_intervals),
        cmocka_unit_test(a_fixed_count_is_exact_for_any_number_of_agents_and_workers),
        cmocka_unit_test(a_fixed_count_ends_before_its_limit),
        cmocka_unit_test(an_open_loop_schedules_the_same_for_any_number_of_agents_and_workers),
        cmocka_unit_test(waves_are_counted_exactly_for_any_number_of_agents_and_workers),
        cmocka_unit_test(a_frugal_worker_spins_for_nothing_but_the_start),
        cmocka_unit_test(connections_are_replaced_as_often_as_they_are_used_up),
        cmocka_unit_test(what_does_not_go_together_is_refused),
        cmocka_unit_test(a_control_thread_that_does_not_poll_gets_coarser_intervals_and_all_of_it),
        cmocka_unit_test(an_instant_that_cannot_be_made_is_late_and_another_one_can_be_armed),
        cmocka_unit_test(a_stop_before_the_start_leads_back_to_where_arm_is_possible),
        cmocka_unit_test(a_stop_after_the_start_ends_it_with_balanced_books),
        cmocka_unit_test(it_can_be_destroyed_at_any_time),
        cmocka_unit_test(a_load_without_an_address_passes_its_preflight),
        cmocka_unit_test(workers_run_on_the_cpu_given_or_not_at_all),
        cmocka_unit_test(workloads_that_make_no_sense_are_refused_with_a_reason),
        cmocka_unit_test(windows_that_make_no_sense_are_refused),
        cmocka_unit_test(create_and_arm_survive_each_failing_allocation),
        cmocka_unit_test(outcomes_have_names_and_counts_balance_or_not),
    };
    return cmocka_run_group_tests_name("agent.load", tests, NULL, NULL);
}
