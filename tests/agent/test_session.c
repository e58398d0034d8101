/* agent/session.c: a whole trial with invented times, a made-up role and a made-up connection. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "agent/session.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

/* What the session sent, and how full the made-up ring is. */
static struct {
    enum ls_phase phases[64];
    char codes[64][32];
    int64_t at[64];
    unsigned count;
    uint64_t unacked;
    bool full;
} sent;

static struct {
    unsigned prepared, armed, disarmed, finished, released;
    const char *late;
    struct load_window window;
    enum ls_phase entered[32];
    unsigned entered_count;
    enum ls_err prepare_result;
    bool finish_at_once;
    bool has_started; /* which the next poll tells */
    struct agent_session *session;
} role;

static enum ls_err report(void *ctx, Ls__Envelope *envelope)
{
    (void)ctx;
    if (sent.full)
        return LS_EAGAIN;
    assert_int_equal(envelope->body_case, LS__ENVELOPE__BODY_PHASE);
    sent.phases[sent.count] = (enum ls_phase)envelope->phase->phase;
    sent.at[sent.count] = envelope->phase->at_ns;
    if (envelope->phase->failure != NULL)
        (void)strncpy(sent.codes[sent.count], envelope->phase->failure->code, 31);
    sent.count++;
    sent.unacked++;
    return LS_OK;
}

static uint32_t room(void *ctx)
{
    (void)ctx;
    return 100;
}

static uint64_t unacked(void *ctx)
{
    (void)ctx;
    return sent.unacked;
}

static enum ls_err role_create(const struct agent_role_env *env, void **out, struct ls_diag *diag)
{
    (void)diag;
    role.session = env->session;
    *out = &role;
    return LS_OK;
}

static void role_destroy(void *r)
{
    (void)r;
}

static enum ls_err role_prepare(void *r, const Ls__Prepare *prepare, struct ls_diag *diag)
{
    (void)r;
    (void)prepare;
    role.prepared++;
    if (role.prepare_result != LS_OK)
        return ls_fail(diag, role.prepare_result, "made to fail");
    return LS_OK;
}

static enum ls_err role_arm(void *r, const struct load_window *window, struct ls_diag *diag)
{
    (void)r;
    (void)diag;
    role.armed++;
    role.window = *window;
    return LS_OK;
}

static void role_disarm(void *r, struct ls_diag *why)
{
    (void)r;
    role.disarmed++;
    if (role.late != NULL)
        (void)ls_fail(why, LS_ETIMEOUT, "%s", role.late);
}

static void role_entered(void *r, enum ls_phase phase, int64_t now_ns)
{
    (void)r;
    (void)now_ns;
    role.entered[role.entered_count++] = phase;
}

static void role_finish(void *r)
{
    (void)r;
    role.finished++;
    if (role.finish_at_once)
        agent_session_finished(role.session, 0);
}

static void role_release(void *r)
{
    (void)r;
    role.released++;
}

static void role_poll(void *r, int64_t now_ns)
{
    (void)r;
    if (role.has_started)
        agent_session_on(role.session, LS_ON_START, now_ns, NULL);
    role.has_started = false;
}

static int64_t role_tick(void *r, int64_t now_ns)
{
    (void)r;
    (void)now_ns;
    return INT64_MAX;
}

static struct agent_role_class fake = {
    .name = "fake",
    .create = role_create,
    .destroy = role_destroy,
    .prepare = role_prepare,
    .arm = role_arm,
    .disarm = role_disarm,
    .entered = role_entered,
    .finish = role_finish,
    .release = role_release,
    .poll = role_poll,
    .tick = role_tick,
};

static void no_wake(void *ctx)
{
    (void)ctx;
}

static struct agent_session_env env = { .report = report, .room = room, .unacked = unacked };

static struct agent_session *begin(bool tells_start)
{
    struct agent_session *session = NULL;

    (void)memset(&sent, 0, sizeof(sent));
    (void)memset(&role, 0, sizeof(role));
    role.finish_at_once = true;
    fake.tells_start = tells_start;
    assert_int_equal(agent_session_create(&fake, "/nowhere", &env, no_wake, NULL, &session, NULL),
                     LS_OK);
    return session;
}

static void command(struct agent_session *s, Ls__Envelope__BodyCase kind, void *body,
                    int64_t now_ns)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;

    envelope.body_case = kind;
    envelope.prepare = body; /* every member of the union is a pointer */
    agent_session_command(s, &envelope, now_ns);
}

static void prepare(struct agent_session *s, int64_t now_ns)
{
    Ls__Prepare body = LS__PREPARE__INIT;

    body.trial = 7;
    command(s, LS__ENVELOPE__BODY_PREPARE, &body, now_ns);
}

static void arm(struct agent_session *s, int64_t start_ns, int64_t now_ns)
{
    Ls__Arm body = LS__ARM__INIT;

    body.trial = 7;
    body.attempt = 1;
    body.start_ns = start_ns;
    body.warmup_ns = 2 * S;
    body.measure_ns = 5 * S;
    body.drain_ns = S;
    body.interval_ns = S;
    command(s, LS__ENVELOPE__BODY_ARM, &body, now_ns);
}

static void collect(struct agent_session *s, int64_t now_ns)
{
    Ls__Collect body = LS__COLLECT__INIT;

    body.trial = 7;
    command(s, LS__ENVELOPE__BODY_COLLECT, &body, now_ns);
}

static void acknowledge(struct agent_session *s, int64_t now_ns)
{
    sent.unacked = 0;
    agent_session_flushed(s, now_ns);
}

static void assert_phases(const enum ls_phase *expected, unsigned count)
{
    assert_int_equal(sent.count, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(sent.phases[i], expected[i]);
}

/* To ARMED, with the start at 10 s. */
static void to_armed(struct agent_session *s)
{
    prepare(s, S);
    agent_session_on(s, LS_ON_READY, 2 * S, NULL);
    arm(s, 10 * S, 9 * S);
    agent_session_on(s, LS_ON_ARMED, 9 * S + MS, NULL);
}

static void a_server_walks_through_its_trial_by_the_clock(void **state)
{
    static const enum ls_phase walk[] = { LS_PHASE_PREPARE, LS_PHASE_READY,   LS_PHASE_ARM,
                                          LS_PHASE_ARMED,   LS_PHASE_WARMUP,  LS_PHASE_MEASURE,
                                          LS_PHASE_DRAIN,   LS_PHASE_COLLECT, LS_PHASE_IDLE };
    struct agent_session *s = begin(false);

    (void)state;
    to_armed(s);
    assert_int_equal(role.window.measure_ns, 5 * S);
    assert_int_equal(agent_session_tick(s, 9 * S + 2 * MS), 10 * S);
    assert_int_equal(agent_session_tick(s, 10 * S), 12 * S);
    assert_int_equal(agent_session_tick(s, 12 * S), 17 * S);
    assert_int_equal(agent_session_tick(s, 17 * S), INT64_MAX);
    collect(s, 18 * S);
    acknowledge(s, 18 * S + MS);
    assert_phases(walk, 9);
    assert_int_equal(role.finished, 1);
    assert_int_equal(role.released, 1);
    agent_session_destroy(s);
}

static void a_late_tick_makes_up_for_all_that_was_due(void **state)
{
    struct agent_session *s = begin(false);

    (void)state;
    to_armed(s);
    assert_int_equal(agent_session_tick(s, 60 * S), INT64_MAX);
    assert_int_equal(agent_session_phase(s), LS_PHASE_DRAIN);
    agent_session_destroy(s);
}

static void a_client_starts_when_its_workers_do_and_not_before(void **state)
{
    struct agent_session *s = begin(true);

    (void)state;
    to_armed(s);
    assert_int_equal(agent_session_tick(s, 11 * S), INT64_MAX);
    assert_int_equal(agent_session_phase(s), LS_PHASE_ARMED);
    agent_session_on(s, LS_ON_START, 10 * S + 40, NULL);
    assert_int_equal(sent.at[sent.count - 1], 10 * S + 40);
    assert_int_equal(agent_session_tick(s, 11 * S), 12 * S);
    agent_session_destroy(s);
}

static void a_trial_is_over_only_when_its_reports_are_stored(void **state)
{
    struct agent_session *s = begin(false);

    (void)state;
    to_armed(s);
    (void)agent_session_tick(s, 17 * S);
    collect(s, 18 * S);
    assert_int_equal(agent_session_phase(s), LS_PHASE_COLLECT);
    (void)agent_session_tick(s, 100 * S);
    assert_int_equal(agent_session_phase(s), LS_PHASE_COLLECT);
    acknowledge(s, 101 * S);
    assert_int_equal(agent_session_phase(s), LS_PHASE_IDLE);
    agent_session_destroy(s);
}

static void a_start_that_has_passed_is_never_made_up_for(void **state)
{
    struct agent_session *s = begin(true);

    (void)state;
    prepare(s, S);
    agent_session_on(s, LS_ON_READY, 2 * S, NULL);
    arm(s, 3 * S, 3 * S);
    assert_int_equal(role.armed, 0);
    assert_int_equal(agent_session_phase(s), LS_PHASE_READY);
    assert_string_equal(sent.codes[sent.count - 1], "late");
    arm(s, 5 * S, 4 * S); /* and again, in time */
    assert_int_equal(role.armed, 1);
    agent_session_destroy(s);
}

static void disarm_leads_back_to_ready_unless_the_load_has_begun(void **state)
{
    Ls__Disarm body = LS__DISARM__INIT;
    struct agent_session *s = begin(false);

    (void)state;
    body.trial = 7;
    body.attempt = 1;
    role.late = "one connection was still opening";
    to_armed(s);
    command(s, LS__ENVELOPE__BODY_DISARM, &body, 9 * S + 2 * MS);
    assert_int_equal(role.disarmed, 1);
    assert_int_equal(agent_session_phase(s), LS_PHASE_READY);
    assert_string_equal(sent.codes[sent.count - 1], "late");
    arm(s, 20 * S, 19 * S);
    agent_session_on(s, LS_ON_ARMED, 19 * S, NULL);
    (void)agent_session_tick(s, 20 * S);
    command(s, LS__ENVELOPE__BODY_DISARM, &body, 20 * S + MS);
    assert_int_equal(agent_session_phase(s), LS_PHASE_COLLECT);
    assert_string_equal(sent.codes[sent.count - 1], "begun");
    agent_session_destroy(s);
}

static void a_load_that_has_begun_unseen_is_not_disarmed(void **state)
{
    Ls__Disarm body = LS__DISARM__INIT;
    struct agent_session *s = begin(true);

    (void)state;
    body.trial = 7;
    body.attempt = 1;
    to_armed(s);
    role.has_started = true;
    command(s, LS__ENVELOPE__BODY_DISARM, &body, 10 * S + MS);
    assert_int_equal(role.disarmed, 0);
    assert_int_equal(agent_session_phase(s), LS_PHASE_COLLECT);
    assert_string_equal(sent.codes[sent.count - 1], "begun");
    agent_session_destroy(s);
}

static void a_disarm_of_an_earlier_attempt_is_ignored(void **state)
{
    Ls__Disarm body = LS__DISARM__INIT;
    struct agent_session *s = begin(false);

    (void)state;
    to_armed(s);
    body.trial = 7;
    body.attempt = 0;
    command(s, LS__ENVELOPE__BODY_DISARM, &body, 9 * S + 2 * MS);
    assert_int_equal(agent_session_phase(s), LS_PHASE_ARMED);
    agent_session_destroy(s);
}

static void a_role_that_cannot_prepare_ends_in_collect_with_its_sentence(void **state)
{
    struct agent_session *s = begin(false);

    (void)state;
    role.prepare_result = LS_EIO;
    prepare(s, S);
    assert_int_equal(agent_session_phase(s), LS_PHASE_COLLECT);
    assert_string_equal(sent.codes[sent.count - 1], "prepare_failed");
    acknowledge(s, 2 * S);
    assert_int_equal(agent_session_phase(s), LS_PHASE_IDLE);
    role.prepare_result = LS_OK;
    prepare(s, 3 * S); /* and the next trial starts clean */
    assert_int_equal(agent_session_phase(s), LS_PHASE_PREPARE);
    agent_session_destroy(s);
}

static void commands_that_do_not_fit_are_told_and_change_nothing(void **state)
{
    struct agent_session *s = begin(false);

    (void)state;
    arm(s, 10 * S, S);
    assert_int_equal(agent_session_phase(s), LS_PHASE_IDLE);
    assert_string_equal(sent.codes[0], "illegal_command");
    prepare(s, S);
    prepare(s, S);
    assert_string_equal(sent.codes[sent.count - 1], "illegal_command");
    assert_int_equal(role.prepared, 1);
    agent_session_destroy(s);
}

static void a_role_that_the_policy_stops_says_so_by_its_code(void **state)
{
    struct agent_session *s = begin(false);

    (void)state;
    role.prepare_result = LS_EREFUSED;
    prepare(s, S);
    assert_int_equal(agent_session_phase(s), LS_PHASE_COLLECT);
    assert_string_equal(sent.codes[sent.count - 1], "policy");
    agent_session_destroy(s);
}

/* A step of 0 would never come to its end, and such sums overflow. */
static void times_that_make_no_sense_are_refused(void **state)
{
    static const struct {
        size_t field;
        int64_t value;
    } cases[] = {
        { offsetof(Ls__Arm, start_ns), 0 },           { offsetof(Ls__Arm, start_ns), INT64_MIN },
        { offsetof(Ls__Arm, start_ns), INT64_MAX },   { offsetof(Ls__Arm, warmup_ns), -1 },
        { offsetof(Ls__Arm, warmup_ns), INT64_MAX },  { offsetof(Ls__Arm, measure_ns), 0 },
        { offsetof(Ls__Arm, measure_ns), INT64_MAX }, { offsetof(Ls__Arm, drain_ns), -1 },
        { offsetof(Ls__Arm, drain_ns), INT64_MAX },   { offsetof(Ls__Arm, interval_ns), 0 },
        { offsetof(Ls__Arm, interval_ns), -S },
    };
    struct agent_session *s = begin(false);

    (void)state;
    prepare(s, S);
    agent_session_on(s, LS_ON_READY, 2 * S, NULL);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        Ls__Arm body = LS__ARM__INIT;

        body.trial = 7;
        body.attempt = 1;
        body.start_ns = 10 * S;
        body.measure_ns = S;
        body.interval_ns = S;
        (void)memcpy((char *)&body + cases[i].field, &cases[i].value, sizeof(cases[i].value));
        command(s, LS__ENVELOPE__BODY_ARM, &body, 9 * S);
        assert_int_equal(agent_session_phase(s), LS_PHASE_READY);
        assert_string_equal(sent.codes[sent.count - 1], "illegal_command");
    }
    assert_int_equal(role.armed, 0);
    agent_session_destroy(s);
}

static void abort_ends_every_phase_of_a_trial(void **state)
{
    Ls__Abort body = LS__ABORT__INIT;

    (void)state;
    body.trial = 7;
    for (unsigned stop = 0; stop < 5; stop++) {
        struct agent_session *s = begin(false);

        prepare(s, S);
        if (stop > 0)
            agent_session_on(s, LS_ON_READY, 2 * S, NULL);
        if (stop > 1)
            arm(s, 10 * S, 9 * S);
        if (stop > 2)
            agent_session_on(s, LS_ON_ARMED, 9 * S, NULL);
        if (stop > 3)
            (void)agent_session_tick(s, 13 * S);
        command(s, LS__ENVELOPE__BODY_ABORT, &body, 13 * S);
        assert_int_equal(agent_session_phase(s), LS_PHASE_COLLECT);
        acknowledge(s, 14 * S);
        assert_int_equal(agent_session_phase(s), LS_PHASE_IDLE);
        assert_int_equal(role.finished, 1);
        agent_session_destroy(s);
    }
}

static void an_abandoned_agent_ends_its_trial_with_nobody_to_tell(void **state)
{
    struct agent_session *s = begin(false);
    unsigned before;

    (void)state;
    to_armed(s);
    (void)agent_session_tick(s, 12 * S);
    before = sent.count;
    agent_session_abandon(s, 13 * S);
    assert_int_equal(agent_session_phase(s), LS_PHASE_IDLE);
    assert_int_equal(role.finished, 1);
    assert_int_equal(sent.count, before);
    agent_session_destroy(s);
}

static void bye_is_remembered_and_ends_what_runs(void **state)
{
    Ls__Bye body = LS__BYE__INIT;
    struct agent_session *s = begin(false);

    (void)state;
    prepare(s, S);
    command(s, LS__ENVELOPE__BODY_BYE, &body, 2 * S);
    assert_true(agent_session_said_bye(s));
    assert_int_equal(agent_session_phase(s), LS_PHASE_IDLE);
    agent_session_destroy(s);
}

int main(void)
{
    struct agent_policy *policy = NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_walks_through_its_trial_by_the_clock),
        cmocka_unit_test(a_late_tick_makes_up_for_all_that_was_due),
        cmocka_unit_test(a_client_starts_when_its_workers_do_and_not_before),
        cmocka_unit_test(a_trial_is_over_only_when_its_reports_are_stored),
        cmocka_unit_test(a_start_that_has_passed_is_never_made_up_for),
        cmocka_unit_test(disarm_leads_back_to_ready_unless_the_load_has_begun),
        cmocka_unit_test(a_load_that_has_begun_unseen_is_not_disarmed),
        cmocka_unit_test(a_disarm_of_an_earlier_attempt_is_ignored),
        cmocka_unit_test(a_role_that_cannot_prepare_ends_in_collect_with_its_sentence),
        cmocka_unit_test(commands_that_do_not_fit_are_told_and_change_nothing),
        cmocka_unit_test(a_role_that_the_policy_stops_says_so_by_its_code),
        cmocka_unit_test(times_that_make_no_sense_are_refused),
        cmocka_unit_test(abort_ends_every_phase_of_a_trial),
        cmocka_unit_test(an_abandoned_agent_ends_its_trial_with_nobody_to_tell),
        cmocka_unit_test(bye_is_remembered_and_ends_what_runs),
    };

    int failed;

    if (agent_policy_without_file(AGENT_POLICY_LOCAL, &policy) != LS_OK)
        return 70;
    env.policy = policy;
    failed = cmocka_run_group_tests_name("agent.session", tests, NULL, NULL);
    agent_policy_destroy(policy);
    return failed;
}
