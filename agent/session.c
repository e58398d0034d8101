#include "agent/session.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/files.h"
#include "common/log.h"
#include "common/msg_model.h"
#include "common/pb.h"

/* An instant that is nearer than this cannot be made: connections have to be opened first. */
#define LEAD_MIN_NS INT64_C(1000000)
/* Longer than any plan may last; a few of them can be added up without a thought. */
#define TIME_MAX_NS (INT64_C(30) * 86400 * 1000000000)

struct agent_session {
    const struct agent_role_class *class;
    const struct agent_session_env *env;
    void *role;                /* owned */
    struct agent_files *files; /* owned */
    enum ls_phase phase;
    uint32_t trial;
    uint32_t attempt;
    struct load_window window;
    bool finished; /* the role has sent its last report of this trial */
    bool said_bye;
    bool abandoned; /* nobody is there to report to */
    char cpus[128];
    char io[32];
    char io_reason[sizeof(((struct ls_diag *)NULL)->text)];
    Ls__Requests preflight;
};

static void enter(struct agent_session *s, enum ls_phase phase, int64_t at_ns,
                  const struct agent_failure *failure);

enum ls_err agent_session_create(const struct agent_role_class *role, const char *work_dir,
                                 const struct agent_session_env *env, void (*wake)(void *ctx),
                                 void *wake_ctx, struct agent_session **out_session,
                                 struct ls_diag *diag)
{
    enum ls_err rc = LS_ENOMEM;
    struct agent_session *s = calloc(1, sizeof(*s));
    struct agent_role_env role_env;
    struct agent_files_limits limits;

    if (s == NULL)
        return ls_fail(diag, rc, "out of memory for the session");
    s->class = role;
    s->env = env;
    ls__requests__init(&s->preflight);
    agent_policy_files(env->policy, &limits);
    rc = agent_files_create(&limits, &s->files);
    if (rc != LS_OK) {
        (void)ls_fail(diag, rc, "out of memory for the session");
        goto out;
    }
    role_env = (struct agent_role_env){ .session = s,
                                        .files = s->files,
                                        .policy = env->policy,
                                        .work_dir = work_dir,
                                        .wake = wake,
                                        .ctx = wake_ctx };
    rc = role->create(&role_env, &s->role, diag);
    if (rc != LS_OK)
        goto out;
    *out_session = s;
    s = NULL;
out:
    agent_session_destroy(s);
    return rc;
}

void agent_session_destroy(struct agent_session *session)
{
    if (session == NULL)
        return;
    if (session->role != NULL)
        session->class->destroy(session->role);
    agent_files_destroy(session->files);
    free(session);
}

/* ---- reports */

enum ls_err agent_session_report(struct agent_session *s, Ls__Envelope *report)
{
    return s->abandoned ? LS_OK : s->env->report(s->env->ctx, report);
}

uint32_t agent_session_room(const struct agent_session *s)
{
    return s->abandoned ? UINT32_MAX : s->env->room(s->env->ctx);
}

uint32_t agent_session_trial(const struct agent_session *s)
{
    return s->trial;
}

enum ls_phase agent_session_phase(const struct agent_session *s)
{
    return s->phase;
}

bool agent_session_said_bye(const struct agent_session *s)
{
    return s->said_bye;
}

void agent_session_ready_facts(struct agent_session *s, const char *cpus, const char *io,
                               const char *io_reason, const Ls__Requests *preflight)
{
    (void)snprintf(s->cpus, sizeof(s->cpus), "%s", cpus);
    (void)snprintf(s->io, sizeof(s->io), "%s", io);
    (void)snprintf(s->io_reason, sizeof(s->io_reason), "%s", io_reason);
    if (preflight != NULL)
        s->preflight = *preflight;
}

static void report_phase(struct agent_session *s, int64_t at_ns,
                         const struct agent_failure *failure)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__PhaseReport phase = LS__PHASE_REPORT__INIT;
    Ls__Failure why = LS__FAILURE__INIT;

    phase.trial = s->trial;
    phase.phase = (Ls__AgentPhase)s->phase;
    phase.at_ns = at_ns;
    phase.attempt = s->attempt;
    if (failure != NULL) {
        why.code = ls_pb_text(failure->code);
        why.text = ls_pb_text(failure->text);
        if (failure->log_tail != NULL)
            why.log_tail = ls_pb_text(failure->log_tail);
        phase.failure = &why;
    }
    if (s->phase == LS_PHASE_READY) {
        phase.cpus = s->cpus;
        phase.io = s->io;
        phase.io_reason = s->io_reason;
        phase.preflight = &s->preflight;
    }
    envelope.body_case = LS__ENVELOPE__BODY_PHASE;
    envelope.phase = &phase;
    if (agent_session_report(s, &envelope) != LS_OK)
        ls_log(LS_LOG_ERROR, "session.report_lost", "trial=%" PRIu32 " phase=%s", s->trial,
               ls_phase_name(s->phase));
}

/* ---- moves */

static void collected_if_done(struct agent_session *s, int64_t now_ns)
{
    if (s->phase != LS_PHASE_COLLECT || !s->finished)
        return;
    if (!s->abandoned && s->env->unacked(s->env->ctx) != 0)
        return;
    agent_session_on(s, LS_ON_COLLECTED, now_ns, NULL);
}

/* The only writer of the phase. */
static void enter(struct agent_session *s, enum ls_phase phase, int64_t at_ns,
                  const struct agent_failure *failure)
{
    ls_log(LS_LOG_INFO, "session.phase", "trial=%" PRIu32 " from=%s to=%s%s%s", s->trial,
           ls_phase_name(s->phase), ls_phase_name(phase), failure != NULL ? " why=" : "",
           failure != NULL ? failure->text : "");
    s->phase = phase;
    report_phase(s, at_ns, failure);
    if (phase == LS_PHASE_COLLECT) {
        s->finished = false;
        s->class->finish(s->role);
        return;
    }
    if (phase == LS_PHASE_IDLE) {
        s->class->release(s->role);
        return;
    }
    s->class->entered(s->role, phase, at_ns);
}

void agent_session_on(struct agent_session *s, enum ls_event event, int64_t at_ns,
                      const struct agent_failure *failure)
{
    enum ls_phase to;

    if (ls_phase_next(s->phase, event, &to) != LS_OK) {
        ls_log(LS_LOG_WARN, "session.no_move", "trial=%" PRIu32 " phase=%s event=%s", s->trial,
               ls_phase_name(s->phase), ls_event_name(event));
        return;
    }
    enter(s, to, at_ns, failure);
}

void agent_session_finished(struct agent_session *s, int64_t now_ns)
{
    s->finished = true;
    collected_if_done(s, now_ns);
}

/* ---- commands */

static void fail(struct agent_session *s, int64_t now_ns, const char *code, const char *text)
{
    const struct agent_failure failure = { .code = code, .text = text };

    agent_session_on(s, LS_ON_FAIL, now_ns, &failure);
}

/* A command that does not fit the phase: the coordinator and we disagree, which it must hear. */
static void refuse(struct agent_session *s, const char *command, int64_t now_ns)
{
    struct agent_failure failure = { .code = "illegal_command" };
    char text[128];

    (void)snprintf(text, sizeof(text), "%s does not fit phase %s", command,
                   ls_phase_name(s->phase));
    failure.text = text;
    ls_log(LS_LOG_WARN, "session.illegal_command", "%s", text);
    report_phase(s, now_ns, &failure);
}

static bool is_time(int64_t ns, int64_t min_ns)
{
    return ns >= min_ns && ns <= TIME_MAX_NS;
}

/* A time and a rate of one message, if it is one. */
static bool is_amount(const ProtobufCMessage *message)
{
    const Ls__Duration *duration = (const Ls__Duration *)message;
    const Ls__Rate *rate = (const Ls__Rate *)message;

    switch (ls_msg_unit(message->descriptor)) {
    case LS_MSG_UNIT_DURATION:
        return is_time(duration->ns, 0);
    case LS_MSG_UNIT_RATE:
        return isfinite(rate->per_s) && rate->per_s >= 0;
    default:
        return true;
    }
}

/* Every time and every rate in it, wherever it stands: what a checked plan never has would make
 * sums overflow, in places that need not think of it then. As deep as the schema. */
static enum ls_err check_amounts(const ProtobufCMessage *message, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    for (unsigned i = 0; i < message->descriptor->n_fields && rc == LS_OK; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t count = ls_msg_of_field(field) != NULL ? ls_msg_count(message, field) : 0;

        for (size_t k = 0; k < count && rc == LS_OK; k++) {
            const ProtobufCMessage *sub = ls_msg_sub(message, field, k);

            rc = is_amount(sub)
                     ? check_amounts(sub, diag)
                     : ls_fail(diag, LS_EPROTO, "PREPARE came with a %s that makes no sense",
                               field->name);
        }
    }
    return rc;
}

static void on_prepare(struct agent_session *s, const Ls__Prepare *prepare, int64_t now_ns)
{
    struct ls_diag diag = { 0 };
    enum ls_err rc;

    if (s->phase != LS_PHASE_IDLE) {
        refuse(s, "PREPARE", now_ns);
        return;
    }
    s->trial = prepare->trial;
    s->attempt = 0;
    s->abandoned = false;
    s->cpus[0] = s->io[0] = s->io_reason[0] = '\0';
    ls__requests__init(&s->preflight);
    agent_session_on(s, LS_ON_PREPARE, now_ns, NULL);
    rc = check_amounts(&prepare->base, &diag);
    if (rc == LS_OK)
        rc = s->class->prepare(s->role, prepare, &diag);
    if (rc != LS_OK)
        fail(s, now_ns, rc == LS_EREFUSED ? "policy" : "prepare_failed", diag.text);
}

/* What a coordinator of ours never sends: such sums and steps would never end. */
static bool makes_sense(const Ls__Arm *arm, int64_t now_ns)
{
    return arm->start_ns > 0 && arm->start_ns <= now_ns + TIME_MAX_NS &&
           is_time(arm->warmup_ns, 0) && is_time(arm->measure_ns, 1) && is_time(arm->drain_ns, 0) &&
           is_time(arm->interval_ns, 1);
}

static void on_arm(struct agent_session *s, const Ls__Arm *arm, int64_t now_ns)
{
    struct ls_diag diag = { 0 };
    enum ls_err rc;

    if (s->phase != LS_PHASE_READY || arm->trial != s->trial) {
        refuse(s, "ARM", now_ns);
        return;
    }
    if (!makes_sense(arm, now_ns)) {
        refuse(s, "ARM with such times", now_ns);
        return;
    }
    s->attempt = arm->attempt;
    s->window = (struct load_window){ .start_ns = arm->start_ns,
                                      .warmup_ns = arm->warmup_ns,
                                      .measure_ns = arm->measure_ns,
                                      .drain_ns = arm->drain_ns,
                                      .interval_ns = arm->interval_ns,
                                      .open_ns = arm->open_ns };
    agent_session_on(s, LS_ON_ARM, now_ns, NULL);
    if (now_ns + LEAD_MIN_NS > arm->start_ns) {
        const struct agent_failure late = { .code = "late",
                                            .text = "the start had passed when ARM arrived" };

        agent_session_on(s, LS_ON_LATE, now_ns, &late);
        return;
    }
    rc = s->class->arm(s->role, &s->window, &diag);
    if (rc != LS_OK)
        fail(s, now_ns, rc == LS_EREFUSED ? "policy" : "arm_failed", diag.text);
}

static void on_disarm(struct agent_session *s, const Ls__Disarm *disarm, int64_t now_ns)
{
    const struct agent_failure begun = { .code = "begun", .text = "DISARM came after the start" };
    struct ls_diag diag = { 0 };
    const struct agent_failure late = { .code = "late", .text = diag.text };

    if (disarm->trial != s->trial || disarm->attempt != s->attempt)
        return; /* of an attempt that is over */
    /* The workers may have begun or given up, and nobody has looked yet: a load that runs on behind
     * READY could be neither armed again nor told apart from the next attempt. */
    if (s->phase == LS_PHASE_ARM || s->phase == LS_PHASE_ARMED)
        s->class->poll(s->role, now_ns);
    if (s->phase == LS_PHASE_ARM || s->phase == LS_PHASE_ARMED) {
        s->class->disarm(s->role, &diag);
        agent_session_on(s, LS_ON_DISARM, now_ns, diag.text[0] != '\0' ? &late : NULL);
    } else if (s->phase == LS_PHASE_WARMUP || s->phase == LS_PHASE_MEASURE) {
        agent_session_on(s, LS_ON_ABORT, now_ns, &begun);
    }
}

/* Leads to COLLECT from wherever a trial is; a client that has ended by itself is there already. */
static void on_collect(struct agent_session *s, uint32_t trial, int64_t now_ns)
{
    if (trial != s->trial || s->phase == LS_PHASE_COLLECT || s->phase == LS_PHASE_IDLE)
        return;
    if (s->phase == LS_PHASE_MEASURE)
        agent_session_on(s, LS_ON_STOP, now_ns, NULL);
    if (s->phase == LS_PHASE_DRAIN || s->phase == LS_PHASE_READY)
        agent_session_on(s, LS_ON_DRAINED, now_ns, NULL);
    else
        agent_session_on(s, LS_ON_ABORT, now_ns, NULL);
}

static void on_abort(struct agent_session *s, const Ls__Abort *abort, int64_t now_ns)
{
    const struct agent_failure why = { .code = "aborted", .text = abort->why };

    if (abort->trial == s->trial && s->phase != LS_PHASE_IDLE && s->phase != LS_PHASE_COLLECT)
        agent_session_on(s, LS_ON_ABORT, now_ns, &why);
}

void agent_session_command(struct agent_session *s, const Ls__Envelope *command, int64_t now_ns)
{
    struct ls_diag diag = { 0 };

    switch (command->body_case) {
    case LS__ENVELOPE__BODY_PUT_FILE:
        if (agent_files_put(s->files, command->put_file, &diag) != LS_OK)
            ls_log(LS_LOG_ERROR, "session.file_refused", "%s", diag.text);
        return;
    case LS__ENVELOPE__BODY_PREPARE:
        on_prepare(s, command->prepare, now_ns);
        return;
    case LS__ENVELOPE__BODY_ARM:
        on_arm(s, command->arm, now_ns);
        return;
    case LS__ENVELOPE__BODY_DISARM:
        on_disarm(s, command->disarm, now_ns);
        return;
    case LS__ENVELOPE__BODY_COLLECT:
        on_collect(s, command->collect->trial, now_ns);
        return;
    case LS__ENVELOPE__BODY_ABORT:
        on_abort(s, command->abort, now_ns);
        return;
    case LS__ENVELOPE__BODY_BYE:
        s->said_bye = true;
        if (s->phase != LS_PHASE_IDLE)
            agent_session_abandon(s, now_ns);
        return;
    default:
        refuse(s, "an unknown command", now_ns);
    }
}

void agent_session_poll(struct agent_session *s, int64_t now_ns)
{
    s->class->poll(s->role, now_ns);
}

void agent_session_flushed(struct agent_session *s, int64_t now_ns)
{
    s->class->poll(s->role, now_ns); /* there is room again */
    collected_if_done(s, now_ns);
}

void agent_session_abandon(struct agent_session *s, int64_t now_ns)
{
    const struct agent_failure why = { .code = "abandoned", .text = "the coordinator is gone" };

    if (s->phase == LS_PHASE_IDLE)
        return;
    s->abandoned = true;
    if (s->phase != LS_PHASE_COLLECT)
        agent_session_on(s, LS_ON_ABORT, now_ns, &why);
    else
        agent_session_poll(s, now_ns);
    collected_if_done(s, now_ns);
}

/* ---- time */

/* When the next move by the clock is due, and which; INT64_MAX: none. A client's start is the
 * load's to tell (LS_ON_START comes from its workers); everybody's window ends by the clock. */
static int64_t next_move(const struct agent_session *s, enum ls_event *out_event)
{
    const struct load_window *w = &s->window;

    switch (s->phase) {
    case LS_PHASE_ARMED:
        *out_event = LS_ON_START;
        return s->class->tells_start ? INT64_MAX : w->start_ns;
    case LS_PHASE_WARMUP:
        *out_event = LS_ON_MEASURE;
        return w->start_ns + w->warmup_ns;
    case LS_PHASE_MEASURE:
        *out_event = LS_ON_STOP;
        return w->start_ns + w->warmup_ns + w->measure_ns;
    default:
        return INT64_MAX;
    }
}

int64_t agent_session_tick(struct agent_session *s, int64_t now_ns)
{
    enum ls_event event = LS_EVENT_COUNT;
    int64_t due = next_move(s, &event);
    int64_t wish;

    while (due <= now_ns) {
        agent_session_on(s, event, now_ns, NULL);
        due = next_move(s, &event);
    }
    wish = s->class->tick(s->role, now_ns);
    due = next_move(s, &event);
    return wish < due ? wish : due;
}
