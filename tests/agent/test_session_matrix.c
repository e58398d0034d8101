/* Every message in every phase of an agent's session: what it may set going, and that nothing else
 * does. The messages come from the descriptors: a new one fails here until somebody has decided. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "agent/session.h"
#include "tests/common/wire_fill.h"

#define S INT64_C(1000000000)

static struct {
    unsigned prepared, armed;
    unsigned illegal; /* reports that say so */
    struct agent_session *session;
} seen;

static enum ls_err report(void *ctx, Ls__Envelope *envelope)
{
    (void)ctx;
    if (envelope->phase->failure != NULL &&
        strcmp(envelope->phase->failure->code, "illegal_command") == 0)
        seen.illegal++;
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
    return 1; /* COLLECT lasts */
}

static enum ls_err role_create(const struct agent_role_env *env, void **out, struct ls_diag *diag)
{
    (void)diag;
    seen.session = env->session;
    *out = &seen;
    return LS_OK;
}

static void role_nothing(void *role)
{
    (void)role;
}

static void role_disarm(void *role, struct ls_diag *why)
{
    (void)role;
    (void)why;
}

static enum ls_err role_prepare(void *role, const Ls__Prepare *prepare, struct ls_diag *diag)
{
    (void)role;
    (void)prepare;
    (void)diag;
    seen.prepared++;
    return LS_OK;
}

static enum ls_err role_arm(void *role, const struct load_window *window, struct ls_diag *diag)
{
    (void)role;
    (void)window;
    (void)diag;
    seen.armed++;
    return LS_OK;
}

static void role_entered(void *role, enum ls_phase phase, int64_t now_ns)
{
    (void)role;
    (void)phase;
    (void)now_ns;
}

static void role_poll(void *role, int64_t now_ns)
{
    (void)role;
    (void)now_ns;
}

static int64_t role_tick(void *role, int64_t now_ns)
{
    (void)role;
    (void)now_ns;
    return INT64_MAX;
}

static const struct agent_role_class fake = { .name = "fake",
                                              .create = role_create,
                                              .destroy = role_nothing,
                                              .prepare = role_prepare,
                                              .arm = role_arm,
                                              .disarm = role_disarm,
                                              .entered = role_entered,
                                              .finish = role_nothing,
                                              .release = role_nothing,
                                              .poll = role_poll,
                                              .tick = role_tick };

static struct agent_session_env env = { .report = report, .room = room, .unacked = unacked };

static void wake(void *ctx)
{
    (void)ctx;
}

static void command(struct agent_session *s, Ls__Envelope__BodyCase kind, void *body,
                    int64_t now_ns)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;

    envelope.body_case = kind;
    envelope.prepare = body; /* every member of the union is a pointer */
    agent_session_command(s, &envelope, now_ns);
}

static struct agent_session *session_in(enum ls_phase phase)
{
    Ls__Prepare prepare = LS__PREPARE__INIT;
    Ls__Arm arm = LS__ARM__INIT;
    struct agent_session *s = NULL;

    (void)memset(&seen, 0, sizeof(seen));
    assert_int_equal(agent_session_create(&fake, "/nowhere", &env, wake, NULL, &s, NULL), LS_OK);
    prepare.trial = 7;
    arm.trial = 7;
    arm.start_ns = 20 * S;
    arm.warmup_ns = arm.measure_ns = arm.interval_ns = S;
    if (phase > LS_PHASE_IDLE)
        command(s, LS__ENVELOPE__BODY_PREPARE, &prepare, S);
    if (phase > LS_PHASE_PREPARE)
        agent_session_on(s, LS_ON_READY, 2 * S, NULL);
    if (phase > LS_PHASE_READY)
        command(s, LS__ENVELOPE__BODY_ARM, &arm, 3 * S);
    if (phase > LS_PHASE_ARM)
        agent_session_on(s, LS_ON_ARMED, 4 * S, NULL);
    if (phase > LS_PHASE_ARMED)
        (void)agent_session_tick(s, 20 * S);
    if (phase > LS_PHASE_WARMUP)
        (void)agent_session_tick(s, 21 * S);
    if (phase > LS_PHASE_MEASURE)
        (void)agent_session_tick(s, 22 * S);
    if (phase > LS_PHASE_DRAIN)
        agent_session_on(s, LS_ON_DRAINED, 23 * S, NULL);
    assert_int_equal(agent_session_phase(s), phase);
    seen.prepared = seen.armed = seen.illegal = 0;
    return s;
}

#define STAY LS_PHASE_COUNT

/* Where a command of this trial leads from each phase; STAY: nothing happens. */
struct decision {
    Ls__Envelope__BodyCase body;
    bool refused; /* in phases where it leads nowhere, which is told; ignored otherwise */
    enum ls_phase to[LS_PHASE_COUNT];
};

#define I  LS_PHASE_IDLE
#define P  LS_PHASE_PREPARE
#define R  LS_PHASE_READY
#define A  LS_PHASE_ARM
#define C  LS_PHASE_COLLECT
#define __ STAY

/*                                          idle prep ready arm armed warm meas drain collect */
static const struct decision decisions[] = {
    { LS__ENVELOPE__BODY_PUT_FILE, false, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_PREPARE, true, { P, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_ARM, true, { __, __, A, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_DISARM, false, { __, __, __, R, R, C, C, __, __ } },
    { LS__ENVELOPE__BODY_COLLECT, false, { __, C, C, C, C, C, C, C, __ } },
    { LS__ENVELOPE__BODY_ABORT, false, { __, C, C, C, C, C, C, C, __ } },
    { LS__ENVELOPE__BODY_BYE, false, { __, C, C, C, C, C, C, C, __ } },
    /* the connection's, and of the other direction: none gets here, and none does anything here */
    { LS__ENVELOPE__BODY_HELLO, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_WELCOME, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_REFUSE, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_ACK, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_PING, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_CLOCK_PROBE, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_CLOCK_REPLY, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_CLOCK_UDP, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_PHASE, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_INTERVAL, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_CLIENT, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_TARGET_UP, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_SAMPLE, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_TARGET_LOG, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_SERVER, true, { __, __, __, __, __, __, __, __, __ } },
    { LS__ENVELOPE__BODY_PROCESS, true, { __, __, __, __, __, __, __, __, __ } },
};
#undef I
#undef P
#undef R
#undef A
#undef C
#undef __

static const struct decision *decide(const ProtobufCFieldDescriptor *body)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(decisions); i++) {
        if ((unsigned)decisions[i].body == body->id)
            return &decisions[i];
    }
    fail_msg("what may %s set going, and in which phases? Decide in "
             "tests/agent/test_session_matrix.c",
             body->name);
    return NULL;
}

/* Of the trial at hand, with times that make sense. */
static Ls__Envelope *make(const ProtobufCFieldDescriptor *body)
{
    Ls__Envelope *envelope = wire_fill(body, "run-1", 1);

    switch (envelope->body_case) {
    case LS__ENVELOPE__BODY_PREPARE: /* its times are made up */
        ls__target__free_unpacked(envelope->prepare->target, NULL);
        ls__workload__free_unpacked(envelope->prepare->workload, NULL);
        envelope->prepare->target = NULL;
        envelope->prepare->workload = NULL;
        break;
    case LS__ENVELOPE__BODY_ARM:
        envelope->arm->trial = 7;
        envelope->arm->start_ns = 40 * S;
        envelope->arm->warmup_ns = envelope->arm->measure_ns = S;
        envelope->arm->drain_ns = envelope->arm->interval_ns = S;
        break;
    case LS__ENVELOPE__BODY_DISARM:
        envelope->disarm->trial = 7;
        envelope->disarm->attempt = 0;
        break;
    case LS__ENVELOPE__BODY_COLLECT:
        envelope->collect->trial = 7;
        break;
    case LS__ENVELOPE__BODY_ABORT:
        envelope->abort->trial = 7;
        break;
    default:
        break;
    }
    return envelope;
}

static void check(const ProtobufCFieldDescriptor *body, enum ls_phase phase)
{
    const struct decision *decision = decide(body);
    bool moves = decision->to[phase] != STAY;
    enum ls_phase want = moves ? decision->to[phase] : phase;
    struct agent_session *s = session_in(phase);
    Ls__Envelope *envelope = make(body);

    agent_session_command(s, envelope, 24 * S);
    /* An abandoned one, as BYE makes it, waits for nobody to store its reports. */
    if (agent_session_phase(s) != want)
        fail_msg("%s at %s leads to %s, not %s", body->name, ls_phase_name(phase),
                 ls_phase_name(agent_session_phase(s)), ls_phase_name(want));
    assert_int_equal(seen.prepared, moves && want == LS_PHASE_PREPARE);
    assert_int_equal(seen.armed, moves && want == LS_PHASE_ARM);
    if (seen.illegal != (!moves && decision->refused))
        fail_msg("%s at %s is %stold to be illegal", body->name, ls_phase_name(phase),
                 seen.illegal > 0 ? "" : "not ");
    ls_envelope_free(envelope);
    agent_session_destroy(s);
}

static void each_message_does_in_each_phase_what_was_decided(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ls__envelope__descriptor.n_fields; i++) {
        if (!wire_is_body(&ls__envelope__descriptor.fields[i]))
            continue;
        for (unsigned phase = 0; phase < LS_PHASE_COUNT; phase++)
            check(&ls__envelope__descriptor.fields[i], (enum ls_phase)phase);
    }
}

/* What is of another trial came late, or is made up. */
static void commands_of_another_trial_do_nothing(void **state)
{
    static const Ls__Envelope__BodyCase kinds[] = { LS__ENVELOPE__BODY_ARM,
                                                    LS__ENVELOPE__BODY_DISARM,
                                                    LS__ENVELOPE__BODY_COLLECT,
                                                    LS__ENVELOPE__BODY_ABORT };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(kinds); i++) {
        for (unsigned phase = 0; phase < LS_PHASE_COUNT; phase++) {
            struct agent_session *s = session_in((enum ls_phase)phase);
            Ls__Envelope *envelope = make(protobuf_c_message_descriptor_get_field(
                &ls__envelope__descriptor, (unsigned)kinds[i]));

            *(uint32_t *)(void *)((char *)envelope->arm + offsetof(Ls__Arm, trial)) = 8;
            agent_session_command(s, envelope, 24 * S);
            assert_int_equal(agent_session_phase(s), phase);
            assert_int_equal(seen.armed, 0);
            ls_envelope_free(envelope);
            agent_session_destroy(s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_message_does_in_each_phase_what_was_decided),
        cmocka_unit_test(commands_of_another_trial_do_nothing),
    };
    struct agent_policy *policy = NULL;
    int failed;

    _Static_assert(offsetof(Ls__Arm, trial) == offsetof(Ls__Disarm, trial) &&
                       offsetof(Ls__Arm, trial) == offsetof(Ls__Collect, trial) &&
                       offsetof(Ls__Arm, trial) == offsetof(Ls__Abort, trial),
                   "the trial comes first");
    if (agent_policy_without_file(AGENT_POLICY_LOCAL, &policy) != LS_OK)
        return 70;
    env.policy = policy;
    failed = cmocka_run_group_tests_name("agent.session_matrix", tests, NULL, NULL);
    agent_policy_destroy(policy);
    return failed;
}
