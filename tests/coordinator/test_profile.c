/* coordinator/run/profile.c: intervals of servers whose overload is known. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "coordinator/result/message.h"
#include "coordinator/run/profile.h"
#include "tests/coordinator/sample_result.h"

#define MS       INT64_C(1000000)
#define INTERVAL (50 * MS)

static const struct sample_trial from = { "nginx", "hello", 1,    1000,
                                          0.8,     9,       1000, LS__VERDICT__VERDICT_VALID };
static const struct coord_profile_spec spec = {
    .capacity_per_s = 1000, .limit = 1, .allowed_share = 0.01, .step_ns = 1000 * MS
};

static Ls__Trial *empty(void)
{
    Ls__Trial *trial = sample_trial(&from);

    coord_message_clear(&trial->n_intervals, &trial->intervals);
    return trial;
}

/* One interval: so many answers, of which so many break the second limit. */
static void add(Ls__Trial *trial, uint64_t completed, uint64_t slower, uint64_t errors)
{
    Ls__Interval *interval =
        coord_message_append(&trial->n_intervals, &trial->intervals, &ls__interval__descriptor);

    assert_non_null(interval);
    interval->at_ns = (int64_t)(trial->n_intervals - 1) * INTERVAL;
    interval->length_ns = INTERVAL;
    interval->completed = completed;
    interval->errors = errors;
    interval->slower = calloc(2, sizeof(*interval->slower));
    assert_non_null(interval->slower);
    interval->n_slower = 2;
    interval->slower[0] = completed; /* nobody asks for that limit */
    interval->slower[1] = slower;
}

static Ls__CapacityProfile *made(void)
{
    Ls__CapacityProfile *profile = coord_message_new(&ls__capacity_profile__descriptor);

    assert_non_null(profile);
    return profile;
}

/* A queue of 1000/s: what is offered beyond that waits, and while anything waits all answers are
 * too late. 0.2 + 0.5 + 0.2 s of backlog drain at 0.2 of the rate in the step at 0.8, and at 0.5 in
 * the last: 0.2 s in 1 s, the other 0.7 s never. */
static Ls__Trial *queue(double seconds_per_step)
{
    Ls__Trial *trial = empty();
    double backlog = 0;
    int each = (int)(seconds_per_step * 20);

    for (size_t i = 0; i < COORD_PROFILE_STEP_COUNT; i++) {
        for (int k = 0; k < each; k++) {
            uint64_t due = (uint64_t)lrint(coord_profile_step(i) * 50 + backlog);
            uint64_t answered = due < 50 ? due : 50;

            add(trial, answered, backlog > 0 ? answered : 0, 0);
            backlog = (double)(due - answered);
        }
    }
    return trial;
}

static void overload_collapses_and_recovery_takes_as_long_as_the_backlog(void **state)
{
    Ls__Trial *trial = queue(1);
    Ls__CapacityProfile *p = made();

    (void)state;
    assert_true(coord_profile_read_steps(&spec, trial, p));
    assert_int_equal(p->n_steps, COORD_PROFILE_STEP_COUNT);
    assert_true(fabs(p->steps[0]->rate_per_s - 500) < 1e-9);
    assert_true(fabs(p->steps[0]->good_per_s - 500) < 1e-9);
    assert_false(p->steps[4]->down);
    assert_true(p->steps[5]->down);
    assert_true(fabs(p->steps[4]->throughput_per_s - 1000) < 1e-9);
    assert_true(p->steps[4]->good_per_s <= 0 && p->steps[4]->share >= 1);
    assert_true(fabs(p->hysteresis - 1) < 1e-9); /* 1000/s is all lost on the way down */
    assert_true(fabs(p->recovery_rate_per_s - 800) < 1e-9);
    assert_false(p->recovered);
    coord_message_free(p);
    coord_message_free(trial);
}

/* It takes what the overload brings and never answers again; nothing has timed out by the end. */
static void a_server_that_hangs_neither_recovers_nor_holds_a_burst(void **state)
{
    Ls__Trial *trial = empty();
    Ls__CapacityProfile *p = made();

    (void)state;
    for (unsigned i = 0; i < 400; i++) {
        add(trial, i < 60 ? 40 : 0, 0, 0);
        trial->intervals[i]->scheduled = 40;
    }
    assert_true(coord_profile_read_steps(&spec, trial, p));
    assert_false(p->recovered);
    assert_true(p->steps[8]->share >= 1);
    assert_true(p->steps[0]->share <= 0);
    for (unsigned i = 0; i < 60; i++)
        trial->intervals[i]->completed = 0;
    assert_true(coord_profile_read_bursts(&spec, trial, p));
    for (size_t i = 0; i < p->n_bursts; i++)
        assert_false(p->bursts[i]->holds);
    assert_true(p->burst_per_s <= 0);
    coord_message_free(p);
    coord_message_free(trial);
}

/* 0.9 s of backlog would have taken longer than there was; here there is a tenth of it. */
static void a_server_that_recovers_is_told_when(void **state)
{
    Ls__Trial *trial = empty();
    Ls__CapacityProfile *p = made();

    (void)state;
    for (unsigned i = 0; i < 180; i++)
        add(trial, 40, i >= 60 && i < 145 ? 40 : 0, 0); /* late from 3 s to 7.25 s */
    assert_true(coord_profile_read_steps(&spec, trial, p));
    assert_true(p->recovered);
    assert_int_equal(p->recovery_ns, 250 * MS); /* the rate falls below 1 at 7 s */
    coord_message_free(p);
    coord_message_free(trial);
}

static void what_fails_breaks_the_limit_too(void **state)
{
    Ls__Trial *trial = empty();
    Ls__CapacityProfile *p = made();

    (void)state;
    for (unsigned i = 0; i < 180; i++)
        add(trial, 30, 0, 10);
    assert_true(coord_profile_read_steps(&spec, trial, p));
    assert_true(fabs(p->steps[2]->share - 0.25) < 1e-9);
    assert_true(fabs(p->steps[2]->good_per_s - 600) < 1e-9);
    assert_true(p->hysteresis <= 0);
    assert_false(p->recovered);
    coord_message_free(p);
    coord_message_free(trial);
}

/* The third burst begins at 1.25 + 2 x 1.5 = 4.25 s. */
static void a_burst_is_judged_by_what_was_due_in_it(void **state)
{
    Ls__Trial *trial = empty();
    Ls__CapacityProfile *p = made();

    (void)state;
    for (unsigned i = 0; i < 175; i++)
        add(trial, 25, i == 85 ? 3 : i == 90 ? 1 : 0, 0);
    assert_true(coord_profile_read_bursts(&spec, trial, p));
    assert_int_equal(p->n_bursts, COORD_PROFILE_BURST_COUNT);
    assert_true(p->bursts[0]->holds && p->bursts[1]->holds);
    assert_false(p->bursts[2]->holds);
    assert_true(fabs(p->bursts[2]->share - 4 / 375.0) < 1e-9);
    assert_true(p->bursts[3]->holds);
    assert_true(fabs(p->burst_per_s - 1250) <
                1e-9); /* what lies above one that broke does not count */
    coord_message_free(p);
    coord_message_free(trial);
}

/* Of each 25 that were due, one was shed: one in 25 of all that became due, which is too many. */
static void what_is_shed_breaks_the_limit_too(void **state)
{
    Ls__Trial *trial = empty();
    Ls__CapacityProfile *p = made();

    (void)state;
    for (unsigned i = 0; i < 400; i++) {
        add(trial, 24, 0, 0);
        trial->intervals[i]->scheduled = 25;
    }
    trial->requests->shed = 400;
    assert_true(coord_profile_read_steps(&spec, trial, p));
    assert_true(coord_profile_read_bursts(&spec, trial, p));
    assert_true(fabs(p->steps[0]->share - 1 / 25.0) < 1e-9);
    assert_true(fabs(p->steps[0]->good_per_s - 480) < 1e-9);
    assert_false(p->recovered);
    for (size_t i = 0; i < p->n_bursts; i++)
        assert_false(p->bursts[i]->holds);
    trial->requests->shed = 0; /* they were still under way */
    coord_message_free(p);
    p = made();
    assert_true(coord_profile_read_steps(&spec, trial, p));
    assert_true(p->recovered && p->steps[0]->share <= 0);
    coord_message_free(p);
    coord_message_free(trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overload_collapses_and_recovery_takes_as_long_as_the_backlog),
        cmocka_unit_test(a_server_that_hangs_neither_recovers_nor_holds_a_burst),
        cmocka_unit_test(a_server_that_recovers_is_told_when),
        cmocka_unit_test(what_fails_breaks_the_limit_too),
        cmocka_unit_test(what_is_shed_breaks_the_limit_too),
        cmocka_unit_test(a_burst_is_judged_by_what_was_due_in_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
