/* Laws beyond closed and constant, and think times, on invented time. */
#include "tests/support/test.h"

#include "common/clock.h"
#include "common/rng.h"
#include "tests/support/failmalloc.h"
#include "tests/support/fake_link.h"

#define MS LS_NS_PER_MS
#define S  LS_NS_PER_S

/* Answers everything that is unanswered. */
static void answer_all(struct fake_run *run)
{
    for (unsigned i = 0; i < run->link_count; i++) {
        if (run->links[i]->is_open && fake_unanswered(run, i) > 0)
            fake_answer(run, i, fake_unanswered(run, i));
    }
}

/* ---- open laws ------------------------------------------------------------------------------- */

#define ARRIVALS 4000

static int64_t arrivals[ARRIVALS];
static unsigned arrival_count;

static enum ls_err note_submit(void *conn, uint32_t op, uint64_t request)
{
    assert_true(arrival_count < ARRIVALS);
    arrivals[arrival_count++] = fake_now_ns;
    return agent_driver_find("null")->submit(conn, op, request);
}

static void set_law(struct fake_run *run, enum load_law law, uint64_t seed)
{
    fake_constant(run, 500);
    run->workload.law = law;
    run->workload.seed = seed;
    run->pieces[0] = (struct ls_rate_piece){ .from_per_s = 100, .to_per_s = 100 };
    run->pieces[1] = (struct ls_rate_piece){ .at_ns = S, .from_per_s = 100, .to_per_s = 1100 };
    run->pieces[2] = (struct ls_rate_piece){ .at_ns = 2 * S, .from_per_s = 50, .to_per_s = 50 };
    assert_int_equal(ls_rate_pieces_init(run->pieces, 3, NULL), LS_OK);
    run->workload.piece_count = 3;
}

/* Arrival k of all workers together; returns how many. */
static unsigned run_schedule(enum load_law law, uint64_t seed, uint32_t workers,
                             int64_t out[ARRIVALS])
{
    unsigned total = 0;

    for (uint32_t worker = 0; worker < workers; worker++) {
        struct fake_run run;

        fake_init(&run);
        set_law(&run, law, seed);
        run.driver.submit = note_submit;
        run.workload.connections = 8;
        run.workload.pipeline = 400;
        run.workload.worker_base = worker;
        run.workload.workers_total = workers;
        run.window.warmup_ns = S;
        run.window.measure_ns = 2 * S;
        arrival_count = 0;
        fake_create(&run);
        fake_start(&run);
        fake_walk(&run, 4 * S);
        for (unsigned i = 0; i < arrival_count; i++)
            out[worker + i * workers] = arrivals[i];
        total += arrival_count;
        agent_engine_stop(run.engine, fake_now_ns);
        fake_check_over(&run);
        assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]), 0);
        fake_fini(&run);
    }
    return total;
}

static void every_law_has_one_schedule_for_any_number_of_workers(void **state)
{
    static int64_t one[ARRIVALS], many[ARRIVALS];

    (void)state;
    for (int law = LOAD_LAW_CONSTANT; law <= LOAD_LAW_PIECES; law++) {
        unsigned count = run_schedule((enum load_law)law, 3, 1, one);

        if (law == LOAD_LAW_PIECES)
            assert_int_equal(count, 100 + 600 + 50);
        for (uint32_t workers = 2; workers <= 6; workers++) {
            assert_int_equal(run_schedule((enum load_law)law, 3, workers, many), count);
            assert_memory_equal(one, many, count * sizeof(one[0]));
        }
    }
}

static void another_seed_is_another_schedule_with_poisson_only(void **state)
{
    static int64_t one[ARRIVALS], other[ARRIVALS];

    (void)state;
    for (int law = LOAD_LAW_CONSTANT; law <= LOAD_LAW_PIECES; law++) {
        unsigned count = run_schedule((enum load_law)law, 3, 1, one);
        unsigned same = 0;

        (void)run_schedule((enum load_law)law, 4, 1, other);
        for (unsigned i = 0; i < count; i++)
            same += one[i] == other[i];
        if (law == LOAD_LAW_POISSON)
            assert_true(same < 5);
        else
            assert_int_equal(same, count);
    }
}

static void what_a_ramp_cannot_send_is_shed(void **state)
{
    struct fake_run run;

    (void)state;
    fake_init(&run);
    set_law(&run, LOAD_LAW_PIECES, 1);
    run.workload.connections = 1;
    run.workload.queue_max = 10;
    run.window.warmup_ns = S;
    run.window.measure_ns = S; /* 600 arrivals */
    fake_create(&run);
    fake_start(&run);
    fake_walk(&run, 4 * S); /* never an answer */
    fake_check_over(&run);
    assert_int_equal(fake_warmup(&run)->scheduled, 100);
    assert_int_equal(fake_warmup(&run)->sent, 1);
    assert_int_equal(fake_measure(&run)->scheduled, 600);
    assert_int_equal(fake_measure(&run)->shed, 600);
    fake_fini(&run);
}

/* ---- waves ----------------------------------------------------------------------------------- */

static void init_waves(struct fake_run *run, uint32_t size, uint64_t count)
{
    fake_init(run);
    run->workload.law = LOAD_LAW_WAVES;
    run->workload.connections = size;
    run->workload.count = count;
}

static void a_wave_begins_when_the_last_of_the_one_before_has_ended(void **state)
{
    struct fake_run run;

    (void)state;
    init_waves(&run, 4, 0);
    fake_create(&run);
    fake_start(&run);
    for (unsigned wave = 1; wave <= 5; wave++) {
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(run.links[i]->got, wave);
        for (unsigned i = 0; i < 4; i++) {
            fake_walk(&run, fake_now_ns + 10 * MS);
            for (unsigned k = 0; k < 4; k++)
                assert_int_equal(fake_unanswered(&run, k), k >= i);
            fake_answer(&run, i, 1);
        }
    }
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], 20);
    assert_int_equal(fake_measure(&run)->outcome[LOAD_ABORTED], 4);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]), 0);
    fake_fini(&run);
}

static void how_long_a_wave_takes_to_send_is_send_lag(void **state)
{
    struct fake_run run;

    (void)state;
    init_waves(&run, 4, 4);
    fake_create(&run);
    fake_send_ns = 1000;
    fake_start(&run);
    fake_now_ns += MS;
    answer_all(&run);
    fake_tick(&run, fake_now_ns + MS);
    fake_check_over(&run);
    assert_int_equal(ls_hist_min(run.sum.series[LS_SERIES_SEND_LAG]), 0);
    assert_true(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]) >= 3000);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_LOOP_LAG]), 0); /* it is not late */
    fake_fini(&run);
}

static void a_count_is_scheduled_exactly_by_all_workers_and_its_last_wave_is_smaller(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++) {
        uint64_t scheduled = 0, warmup = 0;

        for (uint32_t worker = 0; worker < workers; worker++) {
            struct fake_run run;

            init_waves(&run, 7, 100);
            run.workload.worker_base = worker;
            run.workload.workers_total = workers;
            run.window.warmup_ns = 5 * MS;
            fake_create(&run);
            fake_start(&run);
            while (!agent_engine_is_finished(run.engine)) {
                fake_walk(&run, fake_now_ns + MS);
                answer_all(&run);
            }
            fake_check_over(&run);
            assert_int_equal(fake_measure(&run)->outcome[LOAD_OK], fake_measure(&run)->scheduled);
            assert_true(agent_engine_summarise(run.engine)->ended_ns < 2 * S);
            scheduled += fake_measure(&run)->scheduled;
            warmup += fake_warmup(&run)->scheduled;
            fake_fini(&run);
        }
        assert_int_equal(scheduled, 100);
        assert_int_equal(warmup % 7, 0); /* whole waves: all workers made as many */
    }
}

static void waves_never_overlap_whatever_the_server_does(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct fake_run run;
        struct ls_rng rng;

        init_waves(&run, 5, 0);
        ls_rng_init(&rng, seed, 1);
        run.workload.timeout_ns = 50 * MS;
        run.workload.lifetime_requests = seed % 3;
        fake_create(&run);
        fake_start(&run);
        while (!agent_engine_is_finished(run.engine)) {
            unsigned link = (unsigned)ls_rng_below(&rng, run.link_count);
            uint64_t under_way = 0;

            for (unsigned i = 0; i < run.link_count; i++) {
                assert_true(!run.links[i]->is_open || fake_unanswered(&run, i) <= 1);
                under_way += run.links[i]->is_open ? fake_unanswered(&run, i) : 0;
            }
            assert_true(under_way <= 5);
            run.open_error = ls_rng_below(&rng, 4) == 0 ? 111 : 0;
            if (run.links[link]->is_open && ls_rng_below(&rng, 6) == 0)
                fake_end(&run, link, LOAD_RESET);
            else if (run.links[link]->is_open && fake_unanswered(&run, link) > 0)
                fake_answer(&run, link, 1);
            fake_walk(&run, fake_now_ns + (int64_t)ls_rng_below(&rng, 3 * MS));
        }
        fake_check_over(&run);
        assert_int_equal(fake_measure(&run)->scheduled % 5, 0);
        assert_true(fake_measure(&run)->scheduled > 5);
        fake_fini(&run);
    }
}

/* ---- think times ----------------------------------------------------------------------------- */

static void init_think(struct fake_run *run, int64_t think_ns)
{
    fake_init(run);
    run->workload.think_ns = think_ns;
}

static void a_connection_thinks_from_its_answer_to_its_next_request(void **state)
{
    struct fake_run run;

    (void)state;
    init_think(&run, 100 * MS);
    fake_create(&run);
    fake_start(&run); /* the first ones are spread: at 0, 25, 50 and 75 ms */
    for (unsigned i = 0; i < 4; i++) {
        fake_walk(&run, S + (int64_t)i * 25 * MS - 1);
        assert_int_equal(run.links[i]->got, i == 0);
        fake_walk(&run, S + (int64_t)i * 25 * MS);
        assert_int_equal(run.links[i]->got, 1);
    }
    fake_answer(&run, 2, 1); /* at 75 ms */
    fake_walk(&run, S + 100 * MS);
    fake_answer(&run, 1, 1);
    fake_walk(&run, S + 175 * MS - 1);
    assert_int_equal(run.links[2]->got, 1);
    fake_walk(&run, S + 175 * MS);
    assert_int_equal(run.links[2]->got, 2);
    assert_int_equal(run.links[1]->got, 1);
    fake_walk(&run, S + 200 * MS);
    assert_int_equal(run.links[1]->got, 2);
    assert_int_equal(run.links[0]->got, 1); /* waits for its answer, not for a time */
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]), 0);
    assert_int_equal(ls_hist_max(run.sum.series[LS_SERIES_SERVICE_TIME]), 75 * MS);
    fake_fini(&run);
}

/* The books know when it was due, not when it was noticed. */
static void who_wakes_late_sends_late_and_says_so(void **state)
{
    struct fake_run run;

    (void)state;
    init_think(&run, 100 * MS);
    run.workload.connections = 1;
    run.window.warmup_ns = 150 * MS;
    fake_create(&run);
    fake_start(&run);
    fake_answer(&run, 0, 1);
    fake_tick(&run, S + 105 * MS);
    assert_int_equal(run.links[0]->got, 2);
    fake_answer(&run, 0, 1);
    fake_tick(&run, S + 212 * MS); /* due at 205 ms */
    fake_tick(&run, S + 215 * MS);
    fake_answer(&run, 0, 1);
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    assert_int_equal(fake_warmup(&run)->sent, 2);
    assert_int_equal(fake_measure(&run)->sent, 1);
    assert_int_equal(ls_hist_count(run.sum.series[LS_SERIES_SEND_LAG]), 1);
    assert_true(ls_hist_max(run.sum.series[LS_SERIES_SEND_LAG]) >= 7 * MS);
    assert_int_equal(run.sum.in_flight_ns, 10 * MS);
    fake_fini(&run);
}

/* Thinking is no work: the integral holds what waits for an answer only. */
static void who_thinks_is_not_in_flight(void **state)
{
    struct fake_run run;

    (void)state;
    init_think(&run, 20 * MS);
    run.workload.connections = 1;
    fake_create(&run);
    fake_start(&run);
    for (unsigned i = 0; i < 10; i++) {
        fake_walk(&run, fake_now_ns + 5 * MS);
        fake_answer(&run, 0, 1);
        fake_walk(&run, fake_now_ns + 20 * MS);
    }
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    assert_int_equal(fake_measure(&run)->sent, 11);
    assert_int_equal(run.sum.in_flight_ns, 10 * 5 * MS);
    fake_fini(&run);
}

static void a_thinking_connection_that_is_closed_thinks_on(void **state)
{
    struct fake_run run;

    (void)state;
    init_think(&run, 100 * MS);
    run.workload.connections = 1;
    fake_create(&run);
    fake_start(&run);
    fake_answer(&run, 0, 1);
    fake_walk(&run, S + 10 * MS);
    fake_end(&run, 0, LOAD_CLOSED_EARLY);
    fake_walk(&run, S + 100 * MS - 1);
    assert_int_equal(run.links[0]->opens, 2);
    assert_int_equal(run.links[0]->got, 1);
    fake_walk(&run, S + 100 * MS);
    assert_int_equal(run.links[0]->got, 2);
    fake_answer(&run, 0, 1);
    run.hold_opens = true;
    fake_end(&run, 0, LOAD_CLOSED_EARLY);
    fake_walk(&run, S + 300 * MS); /* it has thought, but cannot send */
    assert_int_equal(run.links[0]->got, 2);
    fake_opened(&run, 0, 0);
    assert_int_equal(run.links[0]->got, 3);
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    fake_fini(&run);
}

/* First instants of connection c of all, by whichever worker it is. */
static void think_once(uint32_t workers, int64_t out_at_ns[12])
{
    for (uint32_t worker = 0; worker < workers; worker++) {
        struct fake_run run;

        init_think(&run, 100 * MS);
        run.workload.think_exponential = true;
        run.workload.seed = 5;
        run.workload.connections = 12;
        run.workload.worker_base = worker;
        run.workload.workers_total = workers;
        run.window.measure_ns = 10 * S;
        fake_create(&run);
        fake_start(&run);
        for (int64_t at_ns = S; at_ns < 4 * S; at_ns += MS) {
            fake_walk(&run, at_ns);
            for (unsigned i = 0; i < run.link_count; i++) {
                if (run.links[i]->got == 2 && out_at_ns[worker + i * workers] == 0)
                    out_at_ns[worker + i * workers] = at_ns;
                if (fake_unanswered(&run, i) > 0)
                    fake_answer(&run, i, 1);
            }
        }
        agent_engine_stop(run.engine, fake_now_ns);
        fake_check_over(&run);
        fake_fini(&run);
    }
}

static void random_think_times_are_the_same_in_whatever_worker(void **state)
{
    int64_t one[12] = { 0 };

    (void)state;
    think_once(1, one);
    for (unsigned i = 1; i < 12; i++)
        assert_true(one[i] > S && one[i] != one[i - 1]);
    for (uint32_t workers = 2; workers <= 4; workers++) {
        int64_t many[12] = { 0 };

        think_once(workers, many);
        assert_memory_equal(one, many, sizeof(one));
    }
}

static void random_think_times_have_their_mean(void **state)
{
    struct fake_run run;
    uint64_t sent;

    (void)state;
    init_think(&run, 10 * MS);
    run.workload.think_exponential = true;
    run.workload.connections = 20;
    run.window.measure_ns = 20 * S;
    fake_create(&run);
    fake_start(&run);
    while (!agent_engine_is_finished(run.engine)) {
        answer_all(&run);
        fake_walk(&run, agent_engine_coarse_ns(run.engine));
    }
    fake_check_over(&run);
    sent = fake_measure(&run)->sent; /* a Poisson process of 40,000 */
    assert_true(sent > 40000 - 4 * 200 && sent < 40000 + 4 * 200);
    fake_fini(&run);
}

/* ---- the hot path ---------------------------------------------------------------------------- */

static void answer_for_a_while(void *ctx)
{
    struct fake_run *run = ctx;
    int64_t end_ns = fake_now_ns + 500 * MS;

    while (fake_now_ns < end_ns) {
        fake_walk(run, fake_now_ns + MS / 4);
        for (unsigned i = 0; i < run->link_count; i++) {
            if (run->links[i]->is_open && fake_unanswered(run, i) > 0)
                fake_answer(run, i, 1);
        }
    }
}

static void thinking_allocates_nothing(void **state)
{
    struct fake_run run;

    (void)state;
    init_think(&run, MS);
    run.workload.connections = 50;
    run.workload.think_exponential = true;
    run.window.measure_ns = 10 * S;
    fake_create(&run);
    fake_start(&run);
    assert_int_equal(failmalloc_each(answer_for_a_while, &run), 0);
    agent_engine_stop(run.engine, fake_now_ns);
    fake_check_over(&run);
    assert_true(fake_measure(&run)->outcome[LOAD_OK] > 1000);
    fake_fini(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_law_has_one_schedule_for_any_number_of_workers),
        cmocka_unit_test(another_seed_is_another_schedule_with_poisson_only),
        cmocka_unit_test(what_a_ramp_cannot_send_is_shed),
        cmocka_unit_test(a_wave_begins_when_the_last_of_the_one_before_has_ended),
        cmocka_unit_test(how_long_a_wave_takes_to_send_is_send_lag),
        cmocka_unit_test(a_count_is_scheduled_exactly_by_all_workers_and_its_last_wave_is_smaller),
        cmocka_unit_test(waves_never_overlap_whatever_the_server_does),
        cmocka_unit_test(a_connection_thinks_from_its_answer_to_its_next_request),
        cmocka_unit_test(who_wakes_late_sends_late_and_says_so),
        cmocka_unit_test(who_thinks_is_not_in_flight),
        cmocka_unit_test(a_thinking_connection_that_is_closed_thinks_on),
        cmocka_unit_test(random_think_times_are_the_same_in_whatever_worker),
        cmocka_unit_test(random_think_times_have_their_mean),
        cmocka_unit_test(thinking_allocates_nothing),
    };
    return cmocka_run_group_tests_name("agent.engine_laws", tests, NULL, NULL);
}
