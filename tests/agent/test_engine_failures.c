#include "tests/support/test.h"

#include <errno.h>

#include "common/clock.h"
#include "common/rng.h"
#include "tests/support/fake_link.h"

#define MS LS_NS_PER_MS
#define S  LS_NS_PER_S

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
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 3);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_TIMEOUT], 1);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_ABORTED], 5);
    assert_true(ls_hist_max(run.sum.series[LS_SERIES_RESPONSE_TIME]) >= 300 * MS);
    assert_true(ls_hist_max(run.sum.series[LS_SERIES_RESPONSE_TIME]) <= 300 * MS + AGENT_SWEEP_NS);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_RESPONSE_TIME]), 4);
    assert_int_equal(fake_connections(&run)->reopened, 1);
    assert_int_equal(fake_connections(&run)->failed, 0);
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
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_TIMEOUT], 1);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_RESPONSE_TIME]), 5 * MS);
    fake_fini(&run);
}

static void open_loop_timeouts_count_from_the_scheduled_instant(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 100); /* at 0, 10, 20 ... ms */
    run.workload.connections = 1;
    run.workload.timeout_ns = 100 * MS;
    run.window.measure_ns = 30 * MS;
    fake_create(&run);
    fake_start(&run);
    fake_walk(&run, S + 95 * MS);
    fake_answer(&run, 0, 1); /* the second is sent, 85 ms late */
    run.hold_opens = true;   /* the third finds no connection any more */
    fake_walk(&run, 3 * S);
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->scheduled, 3);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 1);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_TIMEOUT], 1);
    assert_int_equal(fake_measure(&run)->shed, 1); /* its time was up before it could be sent */
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
    fake_constant(&run, 20); /* at 0 and 50 ms */
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
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_TIMEOUT], 1);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 1);
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
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 3);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_RESET], 2);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_CLOSED_EARLY], 2);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_ABORTED], 2 + 8);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_RESPONSE_TIME]), 3);
    assert_int_equal(fake_connections(&run)->opened, 7);
    assert_int_equal(fake_connections(&run)->reopened, 3);
    assert_int_equal(fake_connections(&run)->peak, 4);
    fake_fini(&run);
}

static void a_connection_closed_while_idle_is_reopened_and_no_error(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 10);
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
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->sent, 2);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 2);
    assert_int_equal(fake_connections(&run)->reopened, 2);
    assert_false(agent_engine_summarise(run.engine)->trouble);
    fake_fini(&run);
}

static uint64_t submitted[16];
static unsigned submit_count;

static enum ls_err note_submit(void *conn, uint32_t op, uint64_t request)
{
    assert_true(submit_count < LS_ARRAY_LEN(submitted));
    submitted[submit_count++] = request;
    return agent_driver_find("null")->submit(conn, op, request);
}

static void what_never_left_a_failed_connection_is_sent_on_another(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    fake_constant(&run, 1000);
    run.driver.submit = note_submit;
    submit_count = 0;
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
    assert_int_equal(submit_count, 4 + 3); /* 0 1 2 3, and again 1 2 3 in this order */
    assert_int_equal(submitted[4], 1);
    assert_int_equal(submitted[5], 2);
    assert_int_equal(submitted[6], 3);
    fake_answer(&run, 0, 3);
    fake_tick(&run, S + 6 * MS);
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->scheduled, 4);
    assert_int_equal(fake_measure(&run)->sent, 4);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 4);
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
    fake_check_over(&run);
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
        assert_int_equal(fake_connections(&run)->opened, FAKE_LINKS);
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
    assert_int_equal(fake_connections(&run)->opened, 1);
    assert_int_equal(fake_connections(&run)->reopened, 0);
    assert_int_equal(fake_connections(&run)->failed, run.links[0]->opens - 1);
    assert_int_equal(fake_connections(&run)->failures[0].error, ECONNREFUSED);
    assert_int_equal(fake_connections(&run)->failures[1].error, EADDRNOTAVAIL);
    assert_int_equal(fake_connections(&run)->failures[0].count +
                         fake_connections(&run)->failures[1].count,
                     fake_connections(&run)->failed);
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
    assert_int_equal(fake_connections(&run)->failures[0].error, ETIMEDOUT);
    assert_int_equal(fake_connections(&run)->failures[0].count, 1);
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
    fake_check_over(&run);
    assert_true(run.links[0]->opens < 20);
    assert_int_equal(fake_measure(&run)->sent, fake_measure(&run)->outcome[LOAD_CLOSED_EARLY]);
    fake_fini(&run);
}

/* A protocol whose answers last until the server closes. */
static void eof_answers(void *conn, enum load_outcome how)
{
    agent_driver_find("null")->eof(conn, how == LOAD_CLOSED_EARLY ? LOAD_OK : how);
}

static void answers_that_end_with_the_connection_need_no_back_off(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    run.workload.connections = 1;
    run.driver.eof = eof_answers;
    fake_create(&run);
    fake_start(&run);
    for (unsigned i = 1; i <= 50; i++) {
        fake_end(&run, 0, LOAD_CLOSED_EARLY);
        fake_tick(&run, fake_now_ns + 1);
        assert_int_equal(run.links[0]->opens, i + 1);
        assert_int_equal(fake_unanswered(&run, 0), 1);
    }
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 50);
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
    fake_check_over(&run);
    fake_fini(&run);
}

/* A driver that takes nothing, ever. */
static enum ls_err refuse_submit(void *conn, uint32_t op, uint64_t request)
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
        fake_constant(&run, 100);
        run.workload.law = (enum load_law)law;
        run.workload.connections = 1;
        run.driver.submit = refuse_submit;
        fake_create(&run);
        fake_start(&run);
        fake_walk(&run, S + 100 * MS);
        assert_true(run.links[0]->opens > 1);
        assert_true(run.links[0]->opens < 10);
        agent_engine_stop(run.engine, fake_now_ns);
        fake_check_over(&run);
        assert_int_equal(fake_measure(&run)->sent, 0);
        fake_fini(&run);
    }
}

/* ---- everything at once ---------------------------------------------------------------------- */

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

static void check_connections(const struct fake_run *run)
{
    const struct load_connections *all = fake_connections(run);

    assert_true(all->renewed <= all->retired);
    assert_true(all->opened - all->reopened - all->renewed <= run->workload.connections);
    if (run->workload.lifetime_requests == 0 && run->workload.lifetime_ns == 0)
        assert_int_equal(all->retired, 0);
}

static void random_run(uint64_t seed)
{
    struct ls_rng rng;
    struct fake_run run;

    fake_init(&run);
    ls_rng_init(&rng, seed, 1);
    fake_constant(&run, (double)(1 + ls_rng_below(&rng, 5000)));
    run.workload.law = (enum load_law)(seed % LOAD_LAW_COUNT);
    run.workload.count = seed % 4 == 0 ? ls_rng_below(&rng, 300) : 0;
    run.workload.pipeline = 1 + (uint32_t)ls_rng_below(&rng, 4);
    run.workload.connections = 1 + (uint32_t)ls_rng_below(&rng, 6);
    run.workload.queue_max = (uint32_t)ls_rng_below(&rng, 50);
    run.workload.timeout_ns = (int64_t)(1 + ls_rng_below(&rng, 100)) * MS;
    run.workload.lifetime_requests = ls_rng_below(&rng, 2) * ls_rng_below(&rng, 20);
    run.workload.lifetime_ns = (int64_t)(ls_rng_below(&rng, 2) * ls_rng_below(&rng, 40)) * MS;
    run.workload.think_exponential = ls_rng_below(&rng, 2) == 0;
    if (run.workload.law == LOAD_LAW_CLOSED && run.workload.pipeline == 1)
        run.workload.think_ns = (int64_t)ls_rng_below(&rng, 10) * MS;
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
    fake_check_over(&run);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_SEND_LAG]), fake_measure(&run)->sent);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_RESPONSE_TIME]),
                     fake_measure(&run)->outcome[LOAD_OK] +
                         fake_measure(&run)->outcome[LOAD_TIMEOUT]);
    if (!load_law_is_open(run.workload.law) && run.workload.count > 0)
        assert_true(fake_measure(&run)->scheduled <= run.workload.count);
    check_connections(&run);
    fake_fini(&run);
}

static void the_books_balance_whatever_happens(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        random_run(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        cmocka_unit_test(answers_that_end_with_the_connection_need_no_back_off),
        cmocka_unit_test(an_answer_makes_the_back_off_short_again),
        cmocka_unit_test(a_connection_that_takes_no_requests_is_replaced),
        cmocka_unit_test(the_books_balance_whatever_happens),
    };
    return cmocka_run_group_tests_name("agent.engine_failures", tests, NULL, NULL);
}
