#include "tests/support/test.h"

#include "common/clock.h"
#include "common/rng.h"
#include "tests/support/failmalloc.h"
#include "tests/support/fake_link.h"

#define MS LS_NS_PER_MS
#define S  LS_NS_PER_S

/* ---- closed loop ----------------------------------------------------------------------------- */

static void closed_loop_keeps_its_requests_in_flight_on_every_connection(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    run.workload.pipeline = 3;
    fake_create(&run);
    fake_start(&run);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(fake_unanswered(&run, i), 3);
    fake_now_ns += 5 * MS;
    fake_answer(&run, 2, 2);
    fake_answer(&run, 1, 1);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(fake_unanswered(&run, i), 3);
    assert_int_equal(run.links[2]->got, 5);
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->sent, 15);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 3);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_ABORTED], 12);
    assert_int_equal(ls_hist_min(run.sum.series[LS_SERIES_SERVICE_TIME]), 5 * MS);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SERVICE_TIME]), 5 * MS);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]), 0);
    fake_fini(&run);
}

static void the_send_time_decides_between_warm_up_and_measure(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    run.workload.connections = 1;
    run.window.warmup_ns = S;
    fake_create(&run);
    fake_start(&run); /* sent at 1.0 s */
    fake_walk(&run, 2 * S - 1);
    fake_answer(&run, 0, 1); /* the next is the last of the warm-up */
    fake_walk(&run, 2 * S);
    fake_answer(&run, 0, 1); /* measured */
    fake_walk(&run, 3 * S - 1);
    fake_answer(&run, 0, 1); /* the last measured one */
    fake_walk(&run, 3 * S);
    assert_false(agent_engine_is_finished(run.engine));
    fake_answer(&run, 0, 1); /* too late for the throughput */
    assert_int_equal(fake_unanswered(&run, 0), 0);
    fake_tick(&run, 3 * S + 1);
    fake_check_over(&run);
    assert_int_equal(fake_warmup(&run)->sent, 2);
    assert_int_equal(fake_warmup(&run)->outcome[LOAD_OK], 2);
    assert_int_equal(fake_measure(&run)->sent, 2);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 2);
    assert_int_equal(run.sum.ok_in_window, 1);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_RESPONSE_TIME]), 2);
    assert_int_equal(run.sum.bytes_out, 2); /* of the window, not of the warm-up */
    assert_int_equal(run.sum.bytes_in, 2);
    assert_int_equal(agent_engine_summarise(run.engine)->ended_ns, 3 * S);
    fake_fini(&run);
}

static void a_fixed_count_is_sent_exactly_and_ends_with_its_last_answer(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    run.workload.count = 10;
    run.workload.pipeline = 2;
    run.window.warmup_ns = 100 * MS;
    fake_create(&run);
    fake_start(&run);
    fake_walk(&run, S + 50 * MS);
    for (unsigned i = 0; i < 4; i++)
        fake_answer(&run, i, 2);
    fake_walk(&run, S + 150 * MS); /* 8 of the warm-up are still in flight */
    for (unsigned i = 0; i < 4; i++)
        fake_answer(&run, i, 2);
    fake_walk(&run, S + 200 * MS);
    for (unsigned i = 0; i < 4; i++)
        fake_answer(&run, i, fake_unanswered(&run, i));
    fake_walk(&run, S + 250 * MS);
    assert_false(agent_engine_is_finished(run.engine));
    for (unsigned i = 0; i < 4; i++)
        fake_answer(&run, i, fake_unanswered(&run, i));
    fake_tick(&run, S + 251 * MS);
    fake_check_over(&run);
    assert_int_equal(fake_warmup(&run)->sent, 16);
    assert_int_equal(fake_measure(&run)->sent, 10);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 10);
    assert_int_equal(agent_engine_summarise(run.engine)->ended_ns, S + 250 * MS);
    fake_fini(&run);
}

static void a_fixed_count_is_exact_though_connections_fail(void **state)
{
    struct fake_run run;
    struct ls_rng rng;

    (void)state;
    fake_init(&run);
    ls_rng_init(&rng, 7, 1);
    run.workload.count = 500;
    run.workload.pipeline = 4;
    run.window.measure_ns = 1000 * S;
    fake_create(&run);
    fake_start(&run);
    while (!agent_engine_is_finished(run.engine)) {
        unsigned link = (unsigned)ls_rng_below(&rng, 4);

        fake_walk(&run, fake_now_ns + MS);
        run.full = ls_rng_below(&rng, 4) == 0;
        if (!run.links[link]->is_open)
            continue;
        if (ls_rng_below(&rng, 5) == 0)
            fake_end(&run, link, LOAD_RESET);
        else if (!run.full && ls_rng_below(&rng, 2) == 0)
            fake_drain(&run, link);
        else if (fake_unanswered(&run, link) > 0)
            fake_answer(&run, link, 1);
    }
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->sent, 500);
    assert_true(fake_measure(&run)->outcome[LOAD_RESET] > 0);
    assert_true(fake_measure(&run)->outcome[LOAD_OK] > 0);
    fake_fini(&run);
}

static void agents_and_workers_share_a_fixed_count_exactly(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 6; workers++) {
        uint64_t sent = 0;

        for (uint32_t worker = 0; worker < workers; worker++) {
            struct fake_run run;

            fake_init(&run);
            run.workload.count = 103;
            run.workload.connections = 8;
            run.workload.worker_base = worker;
            run.workload.workers_total = workers;
            fake_create(&run);
            fake_start(&run);
            while (!agent_engine_is_finished(run.engine)) {
                for (unsigned i = 0; i < run.link_count; i++)
                    fake_answer(&run, i, fake_unanswered(&run, i));
                fake_tick(&run, fake_now_ns + MS);
            }
            fake_check_over(&run);
            sent += fake_measure(&run)->sent;
            fake_fini(&run);
        }
        assert_int_equal(sent, 103);
    }
}

/* ---- open loop ------------------------------------------------------------------------------- */

#define ARRIVALS 1000

static struct {
    int64_t at_ns[ARRIVALS];
    uint64_t request[ARRIVALS];
    unsigned count;
} arrivals;

static enum ls_err note_submit(void *conn, uint32_t op, uint64_t request)
{
    assert_true(arrivals.count < ARRIVALS);
    arrivals.at_ns[arrivals.count] = fake_now_ns;
    arrivals.request[arrivals.count++] = request;
    return agent_driver_find("null")->submit(conn, op, request);
}

/* Arrival k of all workers together: when it was sent, and which number it had. */
static void run_schedule(uint32_t workers, int64_t out_at_ns[ARRIVALS], uint64_t out[ARRIVALS])
{
    for (uint32_t worker = 0; worker < workers; worker++) {
        struct fake_run run;

        fake_init(&run);
        fake_constant(&run, 333.25);
        run.driver.submit = note_submit;
        run.workload.request_count = 5;
        run.workload.connections = 60;
        run.workload.pipeline = 20;
        run.workload.worker_base = worker;
        run.workload.workers_total = workers;
        run.window.measure_ns = 3 * S;
        arrivals.count = 0;
        fake_create(&run);
        fake_start(&run);
        fake_walk(&run, 4 * S);
        for (unsigned i = 0; i < arrivals.count; i++) {
            out_at_ns[worker + i * workers] = arrivals.at_ns[i];
            out[worker + i * workers] = arrivals.request[i];
        }
        agent_engine_stop(run.engine, fake_now_ns);
        fake_check_over(&run);
        assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]), 0);
        fake_fini(&run);
    }
}

static void the_schedule_is_the_same_for_any_number_of_workers(void **state)
{
    static int64_t one_at[ARRIVALS], many_at[ARRIVALS];
    static uint64_t one[ARRIVALS], many[ARRIVALS];

    (void)state;
    run_schedule(1, one_at, one);
    for (uint32_t k = 0; k < 999; k++) {
        assert_int_equal(one_at[k], S + (int64_t)(k * 1e9 / 333.25));
        assert_int_equal(one[k], k);
    }
    assert_int_equal(one_at[999], S + (int64_t)(999 * 1e9 / 333.25));
    for (uint32_t workers = 2; workers <= 5; workers++) {
        run_schedule(workers, many_at, many);
        assert_memory_equal(one_at, many_at, sizeof(one_at));
        assert_memory_equal(one, many, sizeof(one));
    }
}

static void arrivals_without_a_free_connection_wait_and_are_shed_beyond_the_queue(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 1000);
    run.workload.connections = 2;
    run.workload.queue_max = 3;
    run.window.measure_ns = 10 * MS; /* 10 arrivals */
    fake_create(&run);
    fake_start(&run);
    fake_walk(&run, S + 9 * MS); /* 2 sent, 3 wait, 5 shed */
    assert_int_equal(run.links[0]->got + run.links[1]->got, 2);
    fake_answer(&run, 0, 1); /* 9 ms; its place is taken by the one due at 2 ms */
    assert_int_equal(run.links[0]->got, 2);
    fake_walk(&run, S + 15 * MS);
    assert_false(agent_engine_is_finished(run.engine)); /* two wait still: they belong to it */
    fake_answer(&run, 1, 1);
    fake_answer(&run, 1, 1);
    fake_answer(&run, 1, 1);
    fake_answer(&run, 0, 1);
    fake_tick(&run, S + 16 * MS);
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->scheduled, 10);
    assert_int_equal(fake_measure(&run)->sent, 5);
    assert_int_equal(fake_measure(&run)->shed, 5);
    assert_int_equal(run.sum.ok_in_window, 1);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]),
                     12 * MS); /* due at 3, sent at 15 */
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_LOOP_LAG]), 10);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_LOOP_LAG]), 0); /* which is not ours */
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_RESPONSE_TIME]), 14 * MS); /* due at 1 */
    fake_fini(&run);
}

static void what_was_never_sent_is_shed_at_the_end(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 1000);
    run.workload.connections = 1;
    run.window.warmup_ns = 5 * MS;
    run.window.measure_ns = 5 * MS;
    fake_create(&run);
    fake_start(&run);
    fake_walk(&run, 3 * S);
    fake_check_over(&run);
    assert_int_equal(fake_warmup(&run)->scheduled, 5);
    assert_int_equal(fake_warmup(&run)->sent, 1);
    assert_int_equal(fake_warmup(&run)->outcome[LOAD_ABORTED], 1);
    assert_int_equal(fake_measure(&run)->scheduled, 5);
    assert_int_equal(fake_measure(&run)->shed, 5);
    fake_fini(&run);
}

static void a_late_generator_sends_late_and_says_so(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 1000);
    fake_create(&run);
    fake_start(&run);
    fake_send_ns = 100000;
    fake_tick(&run, S + 3 * MS); /* 1, 2 and 3 ms are due; the sends take 0.1 ms each */
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->sent, 4);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]), 2 * MS);
    assert_int_equal(ls_hist_min(run.sum.series[LS_SERIES_SEND_LAG]), 0);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_LOOP_LAG]), 2 * MS);
    assert_int_equal(ls_hist_min(run.sum.series[LS_SERIES_LOOP_LAG]), 0);
    assert_true(ls_hist_count_at(run.sum.series[LS_SERIES_SEND_LAG], ls_hist_index(200000)) ==
                1); /* the third */
    fake_fini(&run);
}

static void connections_take_turns_the_longest_free_first(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 1000);
    run.workload.connections = 3;
    run.workload.pipeline = 2;
    fake_create(&run);
    fake_start(&run); /* 0 has one */
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < 3; i++) {
            fake_walk(&run, S + (3 * round + i) * MS);
            assert_int_equal(run.links[i]->got, round + 1);
            fake_answer(&run, i, 1);
        }
    }
    /* Answers stay away: an idle connection comes before one with a request in flight. */
    fake_walk(&run, S + 14 * MS);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(fake_unanswered(&run, i), 1);
    fake_answer(&run, 1, 1);
    fake_walk(&run, S + 15 * MS);
    assert_int_equal(fake_unanswered(&run, 1), 1);
    fake_walk(&run, S + 18 * MS);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(fake_unanswered(&run, i), 2);
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    fake_fini(&run);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* With every answer inside the window, the integral of requests that are due is the sum of their
 * response times, to the nanosecond. */
static void the_in_flight_integral_obeys_littles_law(void **state)
{
    struct ls_rng rng;
    struct fake_run run;
    int64_t sum_ns = 0;
    uint64_t done = 0;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 500);
    ls_rng_init(&rng, 3, 1);
    run.window.warmup_ns = S;
    run.window.measure_ns = 1000 * S;
    run.window.interval_ns = 100 * MS;
    fake_create(&run);
    fake_start(&run);
    fake_walk(&run, 2 * S - 1);
    for (unsigned i = 0; i < 4; i++) /* the warm-up leaves nothing behind */
        while (fake_unanswered(&run, i) > 0)
            fake_answer(&run, i, 1);
    while (done < 300) {
        unsigned link = (unsigned)ls_rng_below(&rng, 4);

        fake_walk(&run, fake_now_ns + (int64_t)ls_rng_below(&rng, 3 * MS));
        if (fake_unanswered(&run, link) == 0)
            continue;
        fake_answer(&run, link, 1);
        done++;
    }
    for (unsigned i = 0; i < 4; i++)
        while (fake_unanswered(&run, i) > 0)
            fake_answer(&run, i, 1);
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->shed, 0);
    for (uint32_t i = 0; i < LS_HIST_LEN; i++) {
        int64_t middle_ns = (ls_hist_lowest_at(i) + ls_hist_highest_at(i)) / 2;

        sum_ns += (int64_t)ls_hist_count_at(run.sum.series[LS_SERIES_RESPONSE_TIME], i) * middle_ns;
    }
    assert_true(run.sum.in_flight_ns > sum_ns - sum_ns / 1000);
    assert_true(run.sum.in_flight_ns < sum_ns + sum_ns / 1000);
    fake_fini(&run);
}

static void a_request_noticed_late_was_in_flight_all_along(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 100);
    run.window.warmup_ns = 5 * MS;
    run.window.measure_ns = 20 * MS;
    fake_create(&run);
    fake_start(&run);            /* 0 ms: of the warm-up, in flight until 8 ms */
    fake_tick(&run, S + 8 * MS); /* the window began 3 ms ago */
    fake_answer(&run, 0, 1);
    fake_tick(&run, S + 24 * MS); /* 10 and 20 ms are noticed now */
    fake_tick(&run, S + 30 * MS); /* it ended at 25 ms */
    fake_answer(&run, 1, 1);
    fake_answer(&run, 2, 1);
    fake_tick(&run, S + 31 * MS);
    fake_check_over(&run);
    assert_int_equal(run.sum.in_flight_ns, (3 + 15 + 5) * MS);
    fake_fini(&run);
}

/* ---- the hot path ---------------------------------------------------------------------------- */

static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/* Half a second of answers, over slices that are handed over and such that are not. */
static void answer_for_a_while(void *ctx)
{
    struct fake_run *run = ctx;
    struct ls_bytes in = { .data = (const unsigned char *)hello, .len = sizeof(hello) - 1 };
    int64_t end_ns = fake_now_ns + 500 * MS;

    while (fake_now_ns < end_ns) {
        fake_now_ns += 100000;
        agent_engine_tick(run->engine, fake_now_ns);
        for (unsigned i = 0; i < run->link_count; i++)
            run->env.bytes(run->links[i]->ctx, in, 0);
        if (fake_now_ns % (3 * MS) == 0)
            fake_collect(run);
    }
}

static void between_start_and_end_nothing_is_allocated(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    const struct load_request request = { .bytes = { .data = (const unsigned char *)text,
                                                     .len = sizeof(text) - 1 },
                                          .label = "GET /",
                                          .expect_status = 200 };

    (void)state;
    for (int law = 0; law < LOAD_LAW_COUNT; law++) {
        struct fake_run run;

        fake_init(&run);
        fake_constant(&run, 1e6); /* there is always one that waits */
        run.workload.law = (enum load_law)law;
        run.workload.requests = &request;
        run.workload.queue_max = 1000;
        run.driver = *agent_driver_find("http1");
        run.window.warmup_ns = 100 * MS;
        run.window.measure_ns = 10 * S;
        run.window.interval_ns = MS;
        fake_create(&run);
        fake_start(&run);
        assert_int_equal(failmalloc_each(answer_for_a_while, &run), 0);
        agent_engine_stop(run.engine, fake_now_ns);
        fake_check_over(&run);
        assert_true(fake_measure(&run)->outcome[LOAD_OK] > 10000);
        fake_fini(&run);
    }
}

static void a_stop_before_the_start_leaves_nothing_open(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_create(&run);
    fake_tick(&run, 1);
    assert_int_equal(run.open_now, 4);
    agent_engine_stop(run.engine, 2);
    assert_int_equal(run.open_now, 0);
    assert_true(agent_engine_is_finished(run.engine));
    assert_null(agent_recorder_peek(run.recorder));
    fake_tick(&run, 3);
    assert_int_equal(run.open_now, 0);
    fake_fini(&run);
}

static void create_once(void *ctx)
{
    struct load_workload workload = *(const struct load_workload *)ctx;
    struct load_window window = { .start_ns = S, .measure_ns = S, .interval_ns = S };
    struct agent_engine_setup setup = { .workload = &workload,
                                        .window = &window,
                                        .driver = agent_driver_find("null"),
                                        .link = agent_link_find("null", NULL) };
    struct agent_engine *engine = NULL;
    struct ls_diag diag = { 0 };
    enum ls_err rc = agent_engine_create(&setup, &engine, &diag);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_true((rc == LS_OK) == (diag.text[0] == '\0'));
    agent_engine_destroy(engine);
}

static void creation_survives_each_failing_allocation(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 1);
    assert_int_equal(failmalloc_each(create_once, &run.workload), 6);
    agent_slice_fini(&run.sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_loop_keeps_its_requests_in_flight_on_every_connection),
        cmocka_unit_test(the_send_time_decides_between_warm_up_and_measure),
        cmocka_unit_test(a_fixed_count_is_sent_exactly_and_ends_with_its_last_answer),
        cmocka_unit_test(a_fixed_count_is_exact_though_connections_fail),
        cmocka_unit_test(agents_and_workers_share_a_fixed_count_exactly),
        cmocka_unit_test(the_schedule_is_the_same_for_any_number_of_workers),
        cmocka_unit_test(arrivals_without_a_free_connection_wait_and_are_shed_beyond_the_queue),
        cmocka_unit_test(what_was_never_sent_is_shed_at_the_end),
        cmocka_unit_test(a_late_generator_sends_late_and_says_so),
        cmocka_unit_test(connections_take_turns_the_longest_free_first),
        cmocka_unit_test(the_in_flight_integral_obeys_littles_law),
        cmocka_unit_test(a_request_noticed_late_was_in_flight_all_along),
        cmocka_unit_test(between_start_and_end_nothing_is_allocated),
        cmocka_unit_test(a_stop_before_the_start_leaves_nothing_open),
        cmocka_unit_test(creation_survives_each_failing_allocation),
    };
    return cmocka_run_group_tests_name("agent.engine", tests, NULL, NULL);
}
