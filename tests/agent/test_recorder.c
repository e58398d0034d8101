#include "tests/support/test.h"

#include <pthread.h>

#include "agent/load/recorder.h"
#include "tests/support/failmalloc.h"

#define START    INT64_C(1000)
#define INTERVAL INT64_C(100)

static struct agent_recorder *new_recorder(void)
{
    struct agent_recorder *r = NULL;

    assert_int_equal(agent_recorder_create(START, INTERVAL, &r), LS_OK);
    return r;
}

static void count_one(struct agent_recorder *r, int64_t latency_ns)
{
    r->current->counts[AGENT_MEASURE].sent++;
    ls_hist_record(r->current->series[LS_SERIES_RESPONSE_TIME], latency_ns);
}

static void assert_slice(const struct agent_slice *slice, uint32_t index, uint32_t merged,
                         int64_t end_ns, uint64_t sent)
{
    assert_non_null(slice);
    assert_int_equal(slice->index, index);
    assert_int_equal(slice->merged, merged);
    assert_int_equal(slice->end_ns, end_ns);
    assert_int_equal(slice->counts[AGENT_MEASURE].sent, sent);
    assert_int_equal(ls_hist_count(slice->series[LS_SERIES_RESPONSE_TIME]), sent);
}

static void a_slice_is_handed_over_at_its_end_and_comes_back_empty(void **state)
{
    struct agent_recorder *r = new_recorder();

    (void)state;
    assert_null(agent_recorder_peek(r));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(r->next_ns, START + (i + 1) * INTERVAL);
        for (uint32_t n = 0; n <= i; n++)
            count_one(r, 5);
        assert_true(agent_recorder_roll(r, r->next_ns + 1));
        assert_slice(agent_recorder_peek(r), i, 0, START + (i + 1) * INTERVAL, i + 1);
        agent_recorder_release(r);
        assert_null(agent_recorder_peek(r));
    }
    assert_false(agent_recorder_is_drained(r));
    agent_recorder_destroy(r);
}

static void a_slow_reader_makes_it_coarser_and_loses_nothing(void **state)
{
    struct agent_recorder *r = new_recorder();

    (void)state;
    count_one(r, 1);
    assert_true(agent_recorder_roll(r, START + 1 * INTERVAL)); /* slice 0 */
    count_one(r, 2);
    assert_false(agent_recorder_roll(r, START + 2 * INTERVAL)); /* 1 goes on as 1 and 2 */
    count_one(r, 3);
    assert_false(agent_recorder_roll(r, START + 3 * INTERVAL + 7)); /* and 3 */
    assert_slice(agent_recorder_peek(r), 0, 0, START + 1 * INTERVAL, 1);
    agent_recorder_release(r);
    assert_null(agent_recorder_peek(r)); /* it is the worker's until its end */
    count_one(r, 4);
    assert_true(agent_recorder_roll(r, START + 4 * INTERVAL));
    assert_slice(agent_recorder_peek(r), 1, 2, START + 4 * INTERVAL, 3);
    agent_recorder_release(r);
    assert_int_equal(r->current->index, 4);
    agent_recorder_destroy(r);
}

static void a_worker_that_was_away_leaves_no_gap(void **state)
{
    struct agent_recorder *r = new_recorder();

    (void)state;
    count_one(r, 1);
    assert_true(agent_recorder_roll(r, START + 4 * INTERVAL + 50)); /* in slice 4 */
    count_one(r, 2);
    assert_slice(agent_recorder_peek(r), 0, 0, START + 1 * INTERVAL, 1);
    agent_recorder_release(r);
    assert_int_equal(r->next_ns, START + 5 * INTERVAL);
    assert_true(agent_recorder_roll(r, START + 5 * INTERVAL));
    assert_slice(agent_recorder_peek(r), 1, 3, START + 5 * INTERVAL, 1);
    agent_recorder_destroy(r);
}

static void the_last_slice_follows_the_one_handed_over_before(void **state)
{
    struct agent_recorder *r = new_recorder();

    (void)state;
    count_one(r, 1);
    assert_true(agent_recorder_roll(r, START + 1 * INTERVAL));
    count_one(r, 2);
    agent_recorder_finish(r, START + 1 * INTERVAL + 30);
    assert_false(agent_recorder_is_drained(r));
    assert_slice(agent_recorder_peek(r), 0, 0, START + 1 * INTERVAL, 1);
    agent_recorder_release(r);
    assert_false(agent_recorder_is_drained(r));
    assert_slice(agent_recorder_peek(r), 1, 0, START + 1 * INTERVAL + 30, 1);
    agent_recorder_release(r);
    assert_null(agent_recorder_peek(r));
    assert_true(agent_recorder_is_drained(r));
    agent_recorder_destroy(r);
}

#define EVENTS 200000

/* A worker with a clock of its own: one event each 3 units of time. */
static void *record_events(void *arg)
{
    struct agent_recorder *r = arg;
    int64_t now_ns = START;

    for (int i = 0; i < EVENTS; i++, now_ns += 3) {
        if (now_ns >= r->next_ns)
            (void)agent_recorder_roll(r, now_ns);
        count_one(r, i);
    }
    agent_recorder_finish(r, now_ns);
    return NULL;
}

static void two_threads_exchange_slices_without_losing_or_doubling_any(void **state)
{
    struct agent_recorder *r = new_recorder();
    struct agent_slice sum;
    uint32_t next_index = 0;
    pthread_t worker;

    (void)state;
    assert_int_equal(agent_slice_init(&sum), LS_OK);
    assert_int_equal(pthread_create(&worker, NULL, record_events, r), 0);
    while (!agent_recorder_is_drained(r)) {
        const struct agent_slice *slice = agent_recorder_peek(r);

        if (slice == NULL)
            continue;
        assert_int_equal(slice->index, next_index);
        next_index = slice->index + slice->merged + 1;
        agent_slice_add(&sum, slice);
        agent_recorder_release(r);
    }
    assert_int_equal(pthread_join(worker, NULL), 0);
    assert_int_equal(next_index, EVENTS * 3 / INTERVAL + 1); /* the last one is empty */
    assert_int_equal(sum.counts[AGENT_MEASURE].sent, EVENTS);
    assert_int_equal(ls_hist_count(sum.series[LS_SERIES_RESPONSE_TIME]), EVENTS);
    assert_int_equal(ls_hist_max(sum.series[LS_SERIES_RESPONSE_TIME]), EVENTS - 1);
    agent_slice_fini(&sum);
    agent_recorder_destroy(r);
}

static void create_once(void *ctx)
{
    struct agent_recorder *r = NULL;
    enum ls_err rc = agent_recorder_create(START, INTERVAL, &r);

    (void)ctx;
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_true((rc == LS_OK) == (r != NULL));
    agent_recorder_destroy(r);
}

static void creation_survives_each_failing_allocation(void **state)
{
    (void)state;
    /* itself, and two sets of histograms */
    assert_int_equal(failmalloc_each(create_once, NULL), 1 + 2 * LS_SERIES_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_is_handed_over_at_its_end_and_comes_back_empty),
        cmocka_unit_test(a_slow_reader_makes_it_coarser_and_loses_nothing),
        cmocka_unit_test(a_worker_that_was_away_leaves_no_gap),
        cmocka_unit_test(the_last_slice_follows_the_one_handed_over_before),
        cmocka_unit_test(two_threads_exchange_slices_without_losing_or_doubling_any),
        cmocka_unit_test(creation_survives_each_failing_allocation),
    };
    return cmocka_run_group_tests_name("agent.recorder", tests, NULL, NULL);
}
