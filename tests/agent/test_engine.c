#include "tests/support/test.h"

#include <errno.h>

#include "common/clock.h"
#include "common/rng.h"
#include "tests/support/failmalloc.h"
#include "tests/support/fake_link.h"

#define MS LS_NS_PER_MS
#define S  LS_NS_PER_S

static struct load_counts *measured(struct fake_run *run)
{
    return &run->sum.counts[AGENT_MEASURE];
}

static struct load_counts *warmed(struct fake_run *run)
{
    return &run->sum.counts[AGENT_WARMUP];
}

static void assert_over_and_balanced(struct fake_run *run)
{
    fake_collect(run);
    assert_true(agent_engine_is_finished(run->engine));
    assert_true(agent_recorder_is_drained(run->recorder));
    assert_true(load_counts_balance(warmed(run)));
    assert_true(load_counts_balance(measured(run)));
}

static const struct load_connections *connections(const struct fake_run *run)
{
    return &agent_engine_summarise(run->engine)->connections;
}

static void constant(struct fake_run *run, double rate_per_s)
{
    run->workload.law = LOAD_LAW_CONSTANT;
    run->workload.rate_per_s = rate_per_s;
}

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
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->sent, 15);
    assert_int_equal(measured(&run)->outcome[LOAD_OK], 3);
    assert_int_equal(measured(&run)->outcome[LOAD_ABORTED], 12);
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
    assert_over_and_balanced(&run);
    assert_int_equal(warmed(&run)->sent, 2);
    assert_int_equal(warmed(&run)->outcome[LOAD_OK], 2);
    assert_int_equal(measured(&run)->sent, 2);
    assert_int_equal(measured(&run)->outcome[LOAD_OK], 2);
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
    assert_over_and_balanced(&run);
    assert_int_equal(warmed(&run)->sent, 16);
    assert_int_equal(measured(&run)->sent, 10);
    assert_int_equal(measured(&run)->outcome[LOAD_OK], 10);
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
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->sent, 500);
    assert_true(measured(&run)->outcome[LOAD_RESET] > 0);
    assert_true(measured(&run)->outcome[LOAD_OK] > 0);
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
            assert_over_and_balanced(&run);
            sent += measured(&run)->sent;
            fake_fini(&run);
        }
        assert_int_equal(sent, 103);
    }
}

/* ---- open loop ------------------------------------------------------------------------------- */

#define ARRIVALS 1000

static struct {
    int64_t at_ns[ARRIVALS];
    uint32_t request[ARRIVALS];
    unsigned count;
} arrivals;

static enum ls_err note_submit(void *conn, uint32_t op, uint32_t request)
{
    assert_true(arrivals.count < ARRIVALS);
    arrivals.at_ns[arrivals.count] = fake_now_ns;
    arrivals.request[arrivals.count++] = request;
    return agent_driver_find("null")->submit(conn, op, request);
}

/* Arrival k of all workers together: when it was sent, and which request it was. */
static void run_schedule(uint32_t workers, int64_t out_at_ns[ARRIVALS], uint32_t out[ARRIVALS])
{
    for (uint32_t worker = 0; worker < workers; worker++) {
        struct fake_run run;

        fake_init(&run);
        constant(&run, 333.25);
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
        assert_over_and_balanced(&run);
        assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]), 0);
        fake_fini(&run);
    }
}

static void the_schedule_is_the_same_for_any_number_of_workers(void **state)
{
    static int64_t one_at[ARRIVALS], many_at[ARRIVALS];
    static uint32_t one[ARRIVALS], many[ARRIVALS];

    (void)state;
    run_schedule(1, one_at, one);
    for (uint32_t k = 0; k < 999; k++) {
        assert_int_equal(one_at[k], S + (int64_t)(k * 1e9 / 333.25));
        assert_int_equal(one[k], k % 5);
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
    constant(&run, 1000);
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
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->scheduled, 10);
    assert_int_equal(measured(&run)->sent, 5);
    assert_int_equal(measured(&run)->shed, 5);
    assert_int_equal(run.sum.ok_in_window, 1);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]),
                     12 * MS); /* due at 3, sent at 15 */
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_RESPONSE_TIME]), 14 * MS); /* due at 1 */
    fake_fini(&run);
}

static void what_was_never_sent_is_shed_at_the_end(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    constant(&run, 1000);
    run.workload.connections = 1;
    run.window.warmup_ns = 5 * MS;
    run.window.measure_ns = 5 * MS;
    fake_create(&run);
    fake_start(&run);
    fake_walk(&run, 3 * S);
    assert_over_and_balanced(&run);
    assert_int_equal(warmed(&run)->scheduled, 5);
    assert_int_equal(warmed(&run)->sent, 1);
    assert_int_equal(warmed(&run)->outcome[LOAD_ABORTED], 1);
    assert_int_equal(measured(&run)->scheduled, 5);
    assert_int_equal(measured(&run)->shed, 5);
    fake_fini(&run);
}

static void a_late_generator_sends_late_and_says_so(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    constant(&run, 1000);
    fake_create(&run);
    fake_start(&run);
    fake_send_ns = 100000;
    fake_tick(&run, S + 3 * MS); /* 1, 2 and 3 ms are due; the sends take 0.1 ms each */
    agent_engine_stop(run.engine, fake_now_ns);
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->sent, 4);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]), 2 * MS);
    assert_int_equal(ls_hist_min(run.sum.series[LS_SERIES_SEND_LAG]), 0);
    assert_true(ls_hist_count_at(run.sum.series[LS_SERIES_SEND_LAG], ls_hist_index(200000)) ==
                1); /* the third */
    fake_fini(&run);
}

static void connections_take_turns_the_longest_free_first(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    constant(&run, 1000);
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
    assert_over_and_balanced(&run);
    fake_fini(&run);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void a_timeout_closes_the_connection_and_aborts_the_others_on_it(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    run.workload.connections = 2;
    run.workload.pipeline = 2;
    run.workload.timeout_ns = 300 * MS;
    fake_create(&run);
    fake_start(&run);
    fake_walk(&run, S + 100 * MS);
    fake_answer(&run, 0, 1); /* its second is of now, its first of the start */
    fake_walk(&run, S + 200 * MS);
    fake_answer(&run, 1, 2);
    fake_walk(&run, S + 299 * MS);
    assert_int_equal(run.links[0]->opens, 1);
    fake_walk(&run, S + 300 * MS + AGENT_SWEEP_NS);
    assert_int_equal(run.links[0]->opens, 2);
    assert_int_equal(run.links[1]->opens, 1);
    assert_int_equal(fake_unanswered(&run, 0), 2); /* the load goes on */
    agent_engine_stop(run.engine, fake_now_ns);
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->outcome[LOAD_OK], 3);
    assert_int_equal(measured(&run)->outcome[LOAD_TIMEOUT], 1);
    assert_int_equal(measured(&run)->outcome[LOAD_ABORTED], 5);
    assert_true(ls_hist_max(run.sum.series[LS_SERIES_RESPONSE_TIME]) >= 300 * MS);
    assert_true(ls_hist_max(run.sum.series[LS_SERIES_RESPONSE_TIME]) <= 300 * MS + AGENT_SWEEP_NS);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_RESPONSE_TIME]), 4);
    assert_int_equal(connections(&run)->reopened, 1);
    assert_int_equal(connections(&run)->failed, 0);
    assert_true(agent_engine_summarise(run.engine)->trouble);
    fake_fini(&run);
}

static void an_answer_after_its_time_is_a_timeout_before_any_sweep(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    run.workload.connections = 1;
    run.workload.timeout_ns = 5 * MS;
    fake_create(&run);
    fake_start(&run);
    fake_now_ns = S + 5 * MS; /* no tick has been */
    fake_answer(&run, 0, 1);
    assert_int_equal(run.links[0]->opens, 1);
    agent_engine_stop(run.engine, fake_now_ns);
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->outcome[LOAD_TIMEOUT], 1);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_RESPONSE_TIME]), 5 * MS);
    fake_fini(&run);
}

static void open_loop_timeouts_count_from_the_scheduled_instant(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    constant(&run, 100); /* at 0, 10, 20 ... ms */
    run.workload.connections = 1;
    run.workload.timeout_ns = 100 * MS;
    run.window.measure_ns = 30 * MS;
    fake_create(&run);
    fake_start(&run);
    fake_walk(&run, S + 95 * MS);
    fake_answer(&run, 0, 1); /* the second is sent, 85 ms late */
    run.hold_opens = true;   /* the third finds no connection any more */
    fake_walk(&run, 3 * S);
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->scheduled, 3);
    assert_int_equal(measured(&run)->outcome[LOAD_OK], 1);
    assert_int_equal(measured(&run)->outcome[LOAD_TIMEOUT], 1);
    assert_int_equal(measured(&run)->shed, 1); /* its time was up before it could be sent */
    assert_true(ls_hist_max(run.sum.series[LS_SERIES_RESPONSE_TIME]) >= 100 * MS);
    assert_true(ls_hist_max(run.sum.series[LS_SERIES_RESPONSE_TIME]) <= 100 * MS + AGENT_SWEEP_NS);
    assert_true(ls_hist_min(run.sum.series[LS_SERIES_SERVICE_TIME]) <= 15 * MS + AGENT_SWEEP_NS);
    fake_fini(&run);
}

static void a_request_that_returned_from_a_failed_connection_times_out_on_time(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    constant(&run, 20); /* at 0 and 50 ms */
    run.workload.connections = 2;
    run.workload.timeout_ns = 100 * MS;
    run.window.measure_ns = 60 * MS;
    fake_create(&run);
    run.full = true;
    fake_start(&run); /* the first waits in a full socket */
    run.full = false;
    fake_walk(&run, S + 55 * MS); /* the second is sent */
    fake_end(&run, 0, LOAD_RESET);
    fake_walk(&run, S + 80 * MS); /* the first is sent, after the second */
    assert_int_equal(fake_unanswered(&run, 0), 1);
    assert_int_equal(fake_unanswered(&run, 1), 1);
    fake_walk(&run, S + 100 * MS + AGENT_SWEEP_NS);
    assert_int_equal(fake_unanswered(&run, 0), 0);
    assert_int_equal(fake_unanswered(&run, 1), 1);
    fake_answer(&run, 1, 1);
    fake_walk(&run, S + 200 * MS);
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->outcome[LOAD_TIMEOUT], 1);
    assert_int_equal(measured(&run)->outcome[LOAD_OK], 1);
    fake_fini(&run);
}

static void each_way_to_lose_a_connection_has_its_own_outcome(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    run.workload.pipeline = 2;
    fake_create(&run);
    fake_start(&run);
    fake_answer(&run, 0, 1); /* in use, so that they are reopened at once */
    fake_answer(&run, 1, 1);
    fake_answer(&run, 2, 1);
    fake_end(&run, 0, LOAD_RESET);
    fake_end(&run, 1, LOAD_CLOSED_EARLY);
    fake_answer(&run, 2, 3); /* one more than was asked for: the protocol is broken */
    fake_tick(&run, S + MS);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(run.links[i]->opens, i < 3 ? 2 : 1);
        assert_int_equal(fake_unanswered(&run, i), 2);
    }
    agent_engine_stop(run.engine, fake_now_ns);
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->outcome[LOAD_OK], 3);
    assert_int_equal(measured(&run)->outcome[LOAD_RESET], 2);
    assert_int_equal(measured(&run)->outcome[LOAD_CLOSED_EARLY], 2);
    assert_int_equal(measured(&run)->outcome[LOAD_ABORTED], 2 + 8);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_RESPONSE_TIME]), 3);
    assert_int_equal(connections(&run)->opened, 7);
    assert_int_equal(connections(&run)->reopened, 3);
    assert_int_equal(connections(&run)->peak, 4);
    fake_fini(&run);
}

static void a_connection_closed_while_idle_is_reopened_and_no_error(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    constant(&run, 10);
    run.workload.connections = 1;
    fake_create(&run);
    fake_start(&run);
    fake_walk(&run, S + 50 * MS);
    fake_answer(&run, 0, 1);
    fake_end(&run, 0, LOAD_CLOSED_EARLY);
    fake_walk(&run, S + 150 * MS);
    assert_int_equal(fake_unanswered(&run, 0), 1);
    fake_answer(&run, 0, 1);
    fake_end(&run, 0, LOAD_RESET);
    fake_walk(&run, S + 199 * MS);
    agent_engine_stop(run.engine, fake_now_ns);
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->sent, 2);
    assert_int_equal(measured(&run)->outcome[LOAD_OK], 2);
    assert_int_equal(connections(&run)->reopened, 2);
    assert_false(agent_engine_summarise(run.engine)->trouble);
    fake_fini(&run);
}

static void what_never_left_a_failed_connection_is_sent_on_another(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    constant(&run, 1000);
    run.driver.submit = note_submit;
    arrivals.count = 0;
    run.workload.request_count = 4;
    run.workload.connections = 1;
    run.workload.pipeline = 3;
    run.window.measure_ns = 4 * MS;
    fake_create(&run);
    fake_start(&run); /* request 0 is on its way */
    run.full = true;
    fake_walk(&run, S + 3 * MS); /* 1 and 2 are with the connection, 3 waits */
    fake_answer(&run, 0, 1);
    fake_now_ns = S + 4 * MS;
    run.full = false;
    fake_end(&run, 0, LOAD_RESET);
    fake_tick(&run, S + 5 * MS);
    assert_int_equal(run.links[0]->got, 1 + 3);
    assert_int_equal(arrivals.count, 4 + 3); /* 0 1 2 3, and again 1 2 3 in this order */
    assert_int_equal(arrivals.request[4], 1);
    assert_int_equal(arrivals.request[5], 2);
    assert_int_equal(arrivals.request[6], 3);
    fake_answer(&run, 0, 3);
    fake_tick(&run, S + 6 * MS);
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->scheduled, 4);
    assert_int_equal(measured(&run)->sent, 4);
    assert_int_equal(measured(&run)->outcome[LOAD_OK], 4);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]), 4 * MS);
    fake_fini(&run);
}

static void a_full_socket_shows_as_send_lag_of_the_closed_loop(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    run.workload.connections = 1;
    fake_create(&run);
    run.full = true;
    fake_start(&run);
    fake_walk(&run, S + 70 * MS);
    run.full = false;
    fake_drain(&run, 0);
    fake_answer(&run, 0, 1);
    agent_engine_stop(run.engine, fake_now_ns);
    assert_over_and_balanced(&run);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]), 70 * MS);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_RESPONSE_TIME]), 70 * MS);
    fake_fini(&run);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void connections_open_a_few_at_a_time(void **state)
{
    static const struct {
        uint32_t workers;
        unsigned most;
    } rows[] = { { 1, 64 }, { 2, 32 }, { 100, 4 } };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct fake_run run;
        unsigned next = 0;

        fake_init(&run);
        run.workload.connections = FAKE_LINKS * rows[i].workers;
        run.workload.workers_total = rows[i].workers;
        run.hold_opens = true;
        fake_create(&run);
        while (agent_engine_unsettled(run.engine) > 0) {
            fake_tick(&run, fake_now_ns + 1);
            fake_opened(&run, next++, 0);
        }
        assert_int_equal(run.most_connecting, rows[i].most);
        assert_int_equal(connections(&run)->opened, FAKE_LINKS);
        fake_fini(&run);
    }
}

static void refused_connects_are_counted_by_errno_and_tried_again_with_back_off(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    run.workload.connections = 1;
    run.open_error = ECONNREFUSED;
    fake_create(&run);
    fake_tick(&run, 1);
    assert_int_equal(agent_engine_unsettled(run.engine), 0); /* known to fail */
    fake_walk(&run, 1000 * MS);
    /* after 10, 20, 40, 80, 160, 320 and 320 ms, each noticed up to 10 ms late */
    assert_true(run.links[0]->opens >= 7 && run.links[0]->opens <= 8);
    run.open_error = EADDRNOTAVAIL;
    fake_walk(&run, 1340 * MS);
    run.open_error = 0;
    fake_walk(&run, 1700 * MS);
    assert_int_equal(connections(&run)->opened, 1);
    assert_int_equal(connections(&run)->reopened, 0);
    assert_int_equal(connections(&run)->failed, run.links[0]->opens - 1);
    assert_int_equal(connections(&run)->failures[0].error, ECONNREFUSED);
    assert_int_equal(connections(&run)->failures[1].error, EADDRNOTAVAIL);
    assert_int_equal(connections(&run)->failures[0].count + connections(&run)->failures[1].count,
                     connections(&run)->failed);
    fake_fini(&run);
}

static void a_connect_that_hangs_fails_after_a_second(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    run.workload.connections = 1;
    run.hold_opens = true;
    fake_create(&run);
    fake_walk(&run, 990 * MS);
    assert_int_equal(agent_engine_unsettled(run.engine), 1);
    fake_walk(&run, 1020 * MS);
    assert_int_equal(agent_engine_unsettled(run.engine), 0);
    assert_int_equal(connections(&run)->failures[0].error, ETIMEDOUT);
    assert_int_equal(connections(&run)->failures[0].count, 1);
    fake_fini(&run);
}

static void a_server_that_hangs_up_at_once_is_not_stormed(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    run.workload.connections = 1;
    run.window.measure_ns = 2 * S;
    fake_create(&run);
    fake_start(&run);
    for (int64_t at_ns = S; at_ns < 3 * S; at_ns += MS) {
        fake_walk(&run, at_ns);
        if (run.links[0]->is_open)
            fake_end(&run, 0, LOAD_CLOSED_EARLY);
    }
    fake_walk(&run, 5 * S);
    assert_over_and_balanced(&run);
    assert_true(run.links[0]->opens < 20);
    assert_int_equal(measured(&run)->sent, measured(&run)->outcome[LOAD_CLOSED_EARLY]);
    fake_fini(&run);
}

static void an_answer_makes_the_back_off_short_again(void **state)
{
    struct fake_run run;
    unsigned opens;

    (void)state;
    fake_init(&run);
    run.workload.connections = 1;
    fake_create(&run);
    fake_start(&run);
    for (int i = 0; i < 4; i++) {
        fake_end(&run, 0, LOAD_CLOSED_EARLY);
        fake_walk(&run, fake_now_ns + 200 * MS);
    }
    fake_answer(&run, 0, 1);
    fake_end(&run, 0, LOAD_CLOSED_EARLY);
    fake_walk(&run, fake_now_ns + MS); /* at once */
    opens = run.links[0]->opens;
    fake_end(&run, 0, LOAD_CLOSED_EARLY);
    fake_walk(&run, fake_now_ns + 2 * AGENT_BACKOFF_NS);
    assert_int_equal(run.links[0]->opens, opens + 1);
    agent_engine_stop(run.engine, fake_now_ns);
    assert_over_and_balanced(&run);
    fake_fini(&run);
}

/* A driver that takes nothing, ever. */
static enum ls_err refuse_submit(void *conn, uint32_t op, uint32_t request)
{
    (void)conn;
    (void)op;
    (void)request;
    return LS_ESTATE;
}

static void a_connection_that_takes_no_requests_is_replaced(void **state)
{
    (void)state;
    for (int law = 0; law < LOAD_LAW_COUNT; law++) {
        struct fake_run run;

        fake_init(&run);
        constant(&run, 100);
        run.workload.law = (enum load_law)law;
        run.workload.connections = 1;
        run.driver.submit = refuse_submit;
        fake_create(&run);
        fake_start(&run);
        fake_walk(&run, S + 100 * MS);
        assert_true(run.links[0]->opens > 1);
        assert_true(run.links[0]->opens < 10);
        agent_engine_stop(run.engine, fake_now_ns);
        assert_over_and_balanced(&run);
        assert_int_equal(measured(&run)->sent, 0);
        fake_fini(&run);
    }
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
    constant(&run, 500);
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
    assert_over_and_balanced(&run);
    assert_int_equal(measured(&run)->shed, 0);
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
    constant(&run, 100);
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
    assert_over_and_balanced(&run);
    assert_int_equal(run.sum.in_flight_ns, (3 + 15 + 5) * MS);
    fake_fini(&run);
}

/* One random step of a hostile world. */
static void random_event(struct fake_run *run, struct ls_rng *rng)
{
    unsigned link = (unsigned)ls_rng_below(rng, run->link_count);
    struct fake_link *l = run->links[link];

    run->full = ls_rng_below(rng, 8) == 0;
    run->open_error = ls_rng_below(rng, 8) == 0 ? ECONNREFUSED : 0;
    run->hold_opens = ls_rng_below(rng, 16) == 0;
    fake_send_ns = (int64_t)ls_rng_below(rng, 20000);
    if (l->connecting) {
        fake_opened(run, link, (int)ls_rng_below(rng, 2) * EHOSTUNREACH);
        return;
    }
    if (!l->is_open)
        return;
    switch (ls_rng_below(rng, 12)) {
    case 0:
        fake_end(run, link, LOAD_RESET);
        break;
    case 1:
        fake_end(run, link, LOAD_CLOSED_EARLY);
        break;
    case 2:
        fake_answer(run, link, 1 + ls_rng_below(rng, 9)); /* perhaps too many */
        break;
    case 3:
        fake_drain(run, link);
        break;
    default:
        if (fake_unanswered(run, link) > 0)
            fake_answer(run, link, 1 + ls_rng_below(rng, fake_unanswered(run, link)));
        break;
    }
}

static void random_run(uint64_t seed)
{
    struct ls_rng rng;
    struct fake_run run;

    fake_init(&run);
    ls_rng_init(&rng, seed, 1);
    constant(&run, (double)(1 + ls_rng_below(&rng, 5000)));
    run.workload.law = (enum load_law)(seed % LOAD_LAW_COUNT);
    run.workload.count = seed % 4 == 0 ? ls_rng_below(&rng, 300) : 0;
    run.workload.pipeline = 1 + (uint32_t)ls_rng_below(&rng, 4);
    run.workload.connections = 1 + (uint32_t)ls_rng_below(&rng, 6);
    run.workload.queue_max = (uint32_t)ls_rng_below(&rng, 50);
    run.workload.timeout_ns = (int64_t)(1 + ls_rng_below(&rng, 100)) * MS;
    run.window.warmup_ns = (int64_t)ls_rng_below(&rng, 100) * MS;
    run.window.measure_ns = (int64_t)(1 + ls_rng_below(&rng, 200)) * MS;
    run.window.drain_ns = (int64_t)ls_rng_below(&rng, 100) * MS;
    run.window.interval_ns = (int64_t)(1 + ls_rng_below(&rng, 50)) * MS;
    fake_create(&run);
    fake_start(&run);
    for (unsigned steps = 0; !agent_engine_is_finished(run.engine); steps++) {
        random_event(&run, &rng);
        if (seed % 7 == 0 && steps == 150)
            agent_engine_stop(run.engine, fake_now_ns);
        else
            fake_walk(&run, fake_now_ns + (int64_t)ls_rng_below(&rng, 2 * MS));
    }
    assert_over_and_balanced(&run);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_SEND_LAG]), measured(&run)->sent);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_RESPONSE_TIME]),
                     measured(&run)->outcome[LOAD_OK] + measured(&run)->outcome[LOAD_TIMEOUT]);
    if (run.workload.law == LOAD_LAW_CLOSED && run.workload.count > 0)
        assert_true(measured(&run)->sent <= run.workload.count);
    fake_fini(&run);
}

static void the_books_balance_whatever_happens(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        random_run(seed);
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
                                        .link = agent_link_find("null") };
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
    constant(&run, 1);
    assert_int_equal(failmalloc_each(create_once, &run.workload), 4);
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
        cmocka_unit_test(a_timeout_closes_the_connection_and_aborts_the_others_on_it),
        cmocka_unit_test(an_answer_after_its_time_is_a_timeout_before_any_sweep),
        cmocka_unit_test(open_loop_timeouts_count_from_the_scheduled_instant),
        cmocka_unit_test(a_request_that_returned_from_a_failed_connection_times_out_on_time),
        cmocka_unit_test(each_way_to_lose_a_connection_has_its_own_outcome),
        cmocka_unit_test(a_connection_closed_while_idle_is_reopened_and_no_error),
        cmocka_unit_test(what_never_left_a_failed_connection_is_sent_on_another),
        cmocka_unit_test(a_full_socket_shows_as_send_lag_of_the_closed_loop),
        cmocka_unit_test(connections_open_a_few_at_a_time),
        cmocka_unit_test(refused_connects_are_counted_by_errno_and_tried_again_with_back_off),
        cmocka_unit_test(a_connect_that_hangs_fails_after_a_second),
        cmocka_unit_test(a_server_that_hangs_up_at_once_is_not_stormed),
        cmocka_unit_test(an_answer_makes_the_back_off_short_again),
        cmocka_unit_test(a_connection_that_takes_no_requests_is_replaced),
        cmocka_unit_test(the_in_flight_integral_obeys_littles_law),
        cmocka_unit_test(a_request_noticed_late_was_in_flight_all_along),
        cmocka_unit_test(the_books_balance_whatever_happens),
        cmocka_unit_test(a_stop_before_the_start_leaves_nothing_open),
        cmocka_unit_test(creation_survives_each_failing_allocation),
    };
    return cmocka_run_group_tests_name("agent.engine", tests, NULL, NULL);
}
