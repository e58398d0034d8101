#include "coordinator/run/trial.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/pattern.h"
#include "common/pb.h"
#include "common/transport.h"
#include "common/utf8.h"

#define CLOCK_PROBES 24 /* per agent and trial */
#define CLOCK_ENOUGH 16 /* answers that suffice */
/* Of so many agents the exchanges take longer than all else, and queue behind each other: half as
 * many of each do, beside those that have kept its clock fresh since it came. */
#define CLOCK_MANY       256u
#define CLOCK_SPACING_NS (2 * LS_NS_PER_MS)
#define CLOCK_TIMEOUT_NS LS_NS_PER_S
#define LEAD_BASE_NS     (400 * LS_NS_PER_MS) /* from ARM to the start, at the least */
#define LEAD_PER_CONN_NS (50 * LS_NS_PER_US)  /* connections open paced */
#define LEAD_MAX_NS      (30 * LS_NS_PER_S)
#define OPEN_MARGIN_NS   (500 * LS_NS_PER_MS)
/* All must be armed this long before the start, and two of the slowest round trips: a DISARM that
 * is late finds an agent that has begun, which costs the trial. */
#define ARM_GUARD_NS     (120 * LS_NS_PER_MS)
#define ARM_ATTEMPTS_MAX 6u
#define PREFLIGHT_MAX_NS (86400 * LS_NS_PER_S)
#define RUNS_MAX_NS      (7 * 86400 * LS_NS_PER_S)
#define GRACE_NS         (10 * LS_NS_PER_S) /* beyond what a stage may take by itself */

struct member {
    enum ls_phase phase; /* as it last said */
    bool lost;
    bool out; /* a server that has nothing to do in this trial */
    char why_lost[480];
    bool reported;        /* totals of a client, end of a server */
    bool active;          /* was asked to prepare, so it has to come back to idle */
    bool answered;        /* has said anything since then: idle is what it was before, too */
    uint32_t attempt;     /* at start, as it last said */
    uint32_t answers;     /* clock exchanges of this trial */
    uint32_t worker_base; /* workers of those before it */
};

struct coord_machine {
    struct coord_machine_spec spec;
    struct coord_machine_env env;
    enum coord_stage stage;
    struct member *members; /* owned */
    uint32_t count;
    uint32_t workers_total;
    int64_t deadline_ns; /* of the stage */
    int64_t next_probe_ns;
    uint32_t probes;
    uint32_t attempt;
    int64_t lead_ns;
    int64_t start_ns;
    int64_t open_ns;      /* connections are opened from then on: late, for idle servers hang up */
    uint32_t network_pid; /* who is in the target's private network; 0: it has none */
    uint64_t network_inode;
    bool disarming; /* waiting for everybody to be back at READY */
    char late[240]; /* who could not be armed last, and why */
    bool failed;
    struct coord_machine_failure failure;
};

static const char *const stage_names[] = { "start target", "preflight", "clocks", "arm",
                                           "load",         "collect",   "done" };
static_assert(LS_ARRAY_LEN(stage_names) == COORD_STAGE_COUNT, "a name for each stage");

const char *coord_stage_name(enum coord_stage stage)
{
    return (unsigned)stage < COORD_STAGE_COUNT ? stage_names[stage] : "?";
}

/* Its server has everything to do, and clients have nothing. */
static bool is_process(const struct coord_machine_spec *spec)
{
    return spec->workload->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS;
}

enum ls_err coord_machine_create(const struct coord_machine_spec *spec,
                                 const struct coord_machine_env *env,
                                 struct coord_machine **out_machine, struct ls_diag *diag)
{
    struct coord_machine *m;

    if ((spec->clients == 0 && !is_process(spec)) ||
        spec->servers + spec->clients > COORD_MACHINE_AGENTS_MAX)
        return ls_fail(diag, LS_ERANGE, "a trial takes 1 to %u agents", COORD_MACHINE_AGENTS_MAX);
    m = calloc(1, sizeof(*m));
    if (m == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the trial");
    m->spec = *spec;
    m->env = *env;
    m->count = spec->servers + spec->clients;
    m->members = calloc(m->count, sizeof(*m->members));
    if (m->members == NULL) {
        free(m);
        return ls_fail(diag, LS_ENOMEM, "out of memory for the trial");
    }
    for (uint32_t i = 0; i < m->count; i++) {
        m->members[i].worker_base = m->workers_total;
        m->workers_total += spec->workers[i];
    }
    for (uint32_t i = 0; i < spec->servers; i++)
        m->members[i].out = i != spec->server || spec->target->external;
    for (uint32_t i = spec->servers; i < m->count; i++)
        m->members[i].out = is_process(spec);
    m->lead_ns = LEAD_BASE_NS + (int64_t)spec->workload->connections * LEAD_PER_CONN_NS;
    *out_machine = m;
    return LS_OK;
}

void coord_machine_destroy(struct coord_machine *machine)
{
    if (machine == NULL)
        return;
    free(machine->members);
    free(machine);
}

/* ---- who is who */

static bool is_server(const struct coord_machine *m, uint32_t agent)
{
    return agent < m->spec.servers;
}

/* Whom nothing is asked of, and nothing waited for from. */
static bool is_gone(const struct coord_machine *m, uint32_t agent)
{
    return m->members[agent].lost || m->members[agent].out;
}

static bool all(const struct coord_machine *m, bool servers, bool clients,
                bool (*holds)(const struct member *member))
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (!(is_server(m, i) ? servers : clients) || is_gone(m, i))
            continue;
        if (!holds(&m->members[i]))
            return false;
    }
    return true;
}

static bool at_ready(const struct member *member)
{
    return member->phase == LS_PHASE_READY;
}

static bool armed_or_on(const struct member *member)
{
    return member->phase >= LS_PHASE_ARMED;
}

/* Everybody has taken back this attempt. READY alone does not say so: it may be from before ARM. */
static bool stood_down(const struct coord_machine *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        const struct member *member = &m->members[i];

        if (!is_gone(m, i) && (member->phase != LS_PHASE_READY || member->attempt != m->attempt))
            return false;
    }
    return true;
}

static bool idle(const struct member *member)
{
    return !member->active || (member->answered && member->phase == LS_PHASE_IDLE);
}

static bool load_over(const struct member *member)
{
    return member->reported &&
           (member->phase == LS_PHASE_COLLECT || member->phase == LS_PHASE_IDLE);
}

static bool clock_known(const struct member *member)
{
    return member->answers > 0;
}

static bool clock_good(const struct member *member)
{
    return member->answers >= CLOCK_ENOUGH;
}

static bool clock_good_of_many(const struct member *member)
{
    return member->answers >= CLOCK_ENOUGH / 2;
}

static uint32_t probes_max(const struct coord_machine *m)
{
    return m->count >= CLOCK_MANY ? CLOCK_PROBES / 2 : CLOCK_PROBES;
}

/* ---- commands */

static void prepare(struct coord_machine *m, uint32_t agent)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Prepare command = LS__PREPARE__INIT;
    union {
        const Ls__Target *in;
        Ls__Target *out;
    } target = { .in = m->spec.target };
    union {
        const Ls__Workload *in;
        Ls__Workload *out;
    } workload = { .in = m->spec.workload };

    command.trial = m->spec.trial;
    command.cpus = ls_pb_text(m->spec.cpus[agent]);
    command.target = target.out;
    command.workload = workload.out;
    command.seed = m->spec.seed;
    command.workers = m->spec.workers[agent];
    command.workers_total = m->workers_total;
    command.worker_base = m->members[agent].worker_base;
    if (is_server(m, agent)) {
        command.files = m->spec.files;
        command.n_files = m->spec.file_count;
    } else {
        command.network_pid = m->network_pid;
        command.network_inode = m->network_inode;
    }
    command.keep = is_server(m, agent) && m->spec.keep_server;
    command.server_addresses = m->spec.server_addresses;
    command.n_server_addresses = m->spec.server_address_count;
    command.plan_files = m->spec.plan_files;
    command.n_plan_files = m->spec.plan_file_count;
    envelope.body_case = LS__ENVELOPE__BODY_PREPARE;
    envelope.prepare = &command;
    m->members[agent].active = true;
    m->members[agent].answered = false;
    m->members[agent].phase = LS_PHASE_IDLE;
    m->env.command(m->env.ctx, agent, &envelope);
}

static void arm(struct coord_machine *m, uint32_t agent)
{
    const Ls__Workload *w = m->spec.workload;
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Arm command = LS__ARM__INIT;
    int64_t offset_ns = 0;
    int64_t slowest_ns;

    (void)m->env.clock(m->env.ctx, agent, &offset_ns, &slowest_ns); /* known since the clocks */
    command.trial = m->spec.trial;
    command.attempt = m->attempt;
    command.start_ns = m->start_ns + offset_ns;
    command.warmup_ns = w->warmup->ns;
    command.measure_ns = w->measure->ns;
    command.drain_ns = w->timeout->ns;
    command.interval_ns = w->interval->ns;
    command.open_ns = m->open_ns + offset_ns;
    envelope.body_case = LS__ENVELOPE__BODY_ARM;
    envelope.arm = &command;
    m->env.command(m->env.ctx, agent, &envelope);
}

static void disarm(struct coord_machine *m, uint32_t agent)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Disarm command = LS__DISARM__INIT;

    command.trial = m->spec.trial;
    command.attempt = m->attempt;
    envelope.body_case = LS__ENVELOPE__BODY_DISARM;
    envelope.disarm = &command;
    m->env.command(m->env.ctx, agent, &envelope);
}

static void collect(struct coord_machine *m, uint32_t agent)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Collect command = LS__COLLECT__INIT;

    command.trial = m->spec.trial;
    envelope.body_case = LS__ENVELOPE__BODY_COLLECT;
    envelope.collect = &command;
    m->env.command(m->env.ctx, agent, &envelope);
}

static void abort_agent(struct coord_machine *m, uint32_t agent)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Abort command = LS__ABORT__INIT;

    command.trial = m->spec.trial;
    command.why = m->failure.text;
    envelope.body_case = LS__ENVELOPE__BODY_ABORT;
    envelope.abort = &command;
    m->env.command(m->env.ctx, agent, &envelope);
}

/* ---- failure */

static void note(struct coord_machine *m, uint32_t agent, const char *code, const char *text,
                 const char *log_tail)
{
    if (m->failed)
        return; /* the first one is the cause, the others follow from it */
    m->failed = true;
    m->failure.agent = agent;
    m->failure.before_load = m->stage < COORD_STAGE_LOAD;
    (void)snprintf(m->failure.code, sizeof(m->failure.code), "%s", code);
    (void)snprintf(m->failure.text, sizeof(m->failure.text), "%s", text);
    ls_utf8_clean(m->failure.text, strlen(m->failure.text)); /* ABORT carries it, cut or not */
    (void)snprintf(m->failure.log_tail, sizeof(m->failure.log_tail), "%s",
                   log_tail != NULL ? log_tail : "");
}

static int64_t collect_limit(const struct coord_machine *m, int64_t now_ns)
{
    return now_ns + m->spec.target->stop->grace->ns + 2 * GRACE_NS;
}

/* Ends everybody's part: a server is collected, or aborted before there was load; clients too. */
static void end(struct coord_machine *m, bool abort_clients, int64_t now_ns)
{
    if (m->stage >= COORD_STAGE_COLLECT)
        return;
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->members[i].lost || !m->members[i].active)
            continue;
        if (is_server(m, i))
            collect(m, i);
        else if (abort_clients)
            abort_agent(m, i);
    }
    m->stage = COORD_STAGE_COLLECT;
    m->deadline_ns = collect_limit(m, now_ns);
    if (all(m, true, true, idle))
        m->stage = COORD_STAGE_DONE;
}

static void fail(struct coord_machine *m, uint32_t agent, const char *code, const char *text,
                 const char *log_tail, int64_t now_ns)
{
    note(m, agent, code, text, log_tail);
    end(m, true, now_ns);
}

/* ---- stages */

/* What connections may be idle for beyond the time that it takes to open them: all there is, so
 * that an agent is armed as early as can be; on slow networks no more than its answer takes. */
static int64_t open_margin_ns(int64_t slowest_ns)
{
    int64_t margin_ns = 4 * slowest_ns;

    if (margin_ns > OPEN_MARGIN_NS)
        margin_ns = 2 * slowest_ns > OPEN_MARGIN_NS ? 2 * slowest_ns : OPEN_MARGIN_NS;
    return margin_ns;
}

static void enter_arm(struct coord_machine *m, int64_t now_ns)
{
    int64_t slowest = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        int64_t offset_ns;
        int64_t slowest_ns = 0;

        if (!is_gone(m, i) && m->env.clock(m->env.ctx, i, &offset_ns, &slowest_ns) &&
            slowest_ns > slowest)
            slowest = slowest_ns;
    }
    m->stage = COORD_STAGE_ARM;
    m->disarming = false;
    m->attempt++;
    m->start_ns =
        now_ns + (m->lead_ns + 4 * slowest > m->spec.start_lead_ns ? m->lead_ns + 4 * slowest
                                                                   : m->spec.start_lead_ns);
    m->open_ns = m->start_ns - m->lead_ns - open_margin_ns(slowest);
    m->deadline_ns = m->start_ns - ARM_GUARD_NS - 2 * slowest;
    m->env.armed(m->env.ctx, m->start_ns);
    if (m->stage != COORD_STAGE_ARM)
        return; /* the caller could not, and has ended the trial */
    for (uint32_t i = 0; i < m->count; i++) {
        if (!is_gone(m, i))
            arm(m, i);
    }
}

static void enter_clocks(struct coord_machine *m, int64_t now_ns)
{
    m->stage = COORD_STAGE_CLOCKS;
    m->deadline_ns = now_ns + CLOCK_TIMEOUT_NS;
    m->next_probe_ns = now_ns;
    m->probes = 0;
    for (uint32_t i = 0; i < m->count; i++)
        m->members[i].answers = 0;
}

/* Some braces are just braces: then there is more time than is needed. */
static bool may_vary(const Ls__Request *request)
{
    bool braces = (request->path != NULL && strchr(request->path, '{') != NULL) ||
                  (request->body != NULL && strchr(request->body, '{') != NULL);

    for (size_t i = 0; i < request->n_headers && !braces; i++)
        braces =
            request->headers[i]->value != NULL && strchr(request->headers[i]->value, '{') != NULL;
    return braces;
}

/* Every request, and every value of it that is tried, may take its whole timeout. */
static int64_t preflight_limit_ns(const Ls__Workload *w)
{
    const Ls__Http *http = w->protocol_case == LS__WORKLOAD__PROTOCOL_HTTP ? w->http : NULL;
    int64_t exchanges = http == NULL;

    for (size_t i = 0; http != NULL && i < http->n_requests; i++)
        exchanges += may_vary(http->requests[i]) ? LS_PATTERN_TRIED_MAX : 1;
    return w->timeout->ns > PREFLIGHT_MAX_NS / (exchanges + 1) ? PREFLIGHT_MAX_NS
                                                               : exchanges * w->timeout->ns;
}

static void enter_clients(struct coord_machine *m, int64_t now_ns)
{
    const Ls__Workload *w = m->spec.workload;

    m->stage = COORD_STAGE_CLIENTS;
    m->deadline_ns = now_ns + GRACE_NS + preflight_limit_ns(w);
    for (uint32_t i = m->spec.servers; i < m->count; i++) {
        if (!is_gone(m, i))
            prepare(m, i);
    }
}

static void enter_load(struct coord_machine *m)
{
    const Ls__Workload *w = m->spec.workload;

    m->stage = COORD_STAGE_LOAD;
    m->deadline_ns = m->start_ns + w->warmup->ns + w->measure->ns + w->timeout->ns + GRACE_NS;
}

/* Every run may take its whole timeout, but none begins after the time there is for them. */
static int64_t runs_limit_ns(const struct coord_machine *m)
{
    const Ls__Workload *w = m->spec.workload;
    const Ls__Process *p = is_process(&m->spec) ? w->process : NULL;
    int64_t runs = p == NULL ? 0 : (int64_t)p->warmup_runs + (p->has_runs ? p->runs : 1);
    int64_t all_ns =
        runs > 0 && w->timeout->ns > RUNS_MAX_NS / runs ? RUNS_MAX_NS : runs * w->timeout->ns;
    int64_t timed_ns =
        p == NULL ? 0 : (int64_t)(p->warmup_runs + 2) * w->timeout->ns + w->measure->ns;

    return p != NULL && w->measure->ns > 0 && (timed_ns < all_ns || !p->has_runs) ? timed_ns
                                                                                  : all_ns;
}

/* Of the target and the workload, each after the other. */
static int64_t services_limit_ns(const struct coord_machine *m)
{
    const Ls__Target *t = m->spec.target;
    const Ls__Workload *w = m->spec.workload;
    int64_t sum_ns = t->probe != NULL ? t->probe->timeout->ns : 0;

    for (size_t i = 0; i < t->n_services; i++)
        sum_ns += t->services[i]->timeout->ns;
    for (size_t i = 0; i < w->n_services; i++)
        sum_ns += w->services[i]->timeout->ns;
    return sum_ns;
}

void coord_machine_start(struct coord_machine *m, int64_t now_ns)
{
    m->stage = COORD_STAGE_SERVER;
    m->deadline_ns = now_ns + m->spec.target->ready->timeout->ns + m->spec.target->stop->grace->ns +
                     3 * GRACE_NS + runs_limit_ns(m) + services_limit_ns(m);
    if (m->spec.servers == 0 || m->spec.target->external) {
        enter_clients(m, now_ns);
        return;
    }
    prepare(m, m->spec.server);
}

/* Somebody cannot make the instant: all stand down, then a later one is agreed. */
static void begin_disarm(struct coord_machine *m, int64_t now_ns)
{
    char text[sizeof(m->late) + 80];

    if (m->attempt >= ARM_ATTEMPTS_MAX) {
        (void)snprintf(text, sizeof(text), "the agents could not agree on a start%s%s",
                       m->late[0] != '\0' ? ": " : "", m->late);
        fail(m, UINT32_MAX, "no_start", text, NULL, now_ns);
        return;
    }
    m->disarming = true;
    m->deadline_ns = now_ns + GRACE_NS;
    m->lead_ns = 2 * m->lead_ns < LEAD_MAX_NS ? 2 * m->lead_ns : LEAD_MAX_NS;
    for (uint32_t i = 0; i < m->count; i++) {
        if (!is_gone(m, i))
            disarm(m, i); /* one that is back already ignores it */
    }
}

/* After any change: is the stage over? */
static void advance(struct coord_machine *m, int64_t now_ns)
{
    if (m->stage == COORD_STAGE_SERVER && all(m, true, false, at_ready)) {
        if (is_process(&m->spec))
            end(m, false, now_ns);
        else
            enter_clients(m, now_ns);
    }
    if (m->stage == COORD_STAGE_CLIENTS && all(m, true, true, at_ready))
        enter_clocks(m, now_ns);
    if (m->stage == COORD_STAGE_CLOCKS &&
        all(m, true, true, m->count >= CLOCK_MANY ? clock_good_of_many : clock_good))
        enter_arm(m, now_ns);
    if (m->stage == COORD_STAGE_ARM && m->disarming && stood_down(m))
        enter_arm(m, now_ns);
    if (m->stage == COORD_STAGE_ARM && !m->disarming && all(m, true, true, armed_or_on))
        enter_load(m);
    if (m->stage == COORD_STAGE_LOAD && all(m, false, true, load_over))
        end(m, false, now_ns);
    if (m->stage == COORD_STAGE_COLLECT && all(m, true, true, idle))
        m->stage = COORD_STAGE_DONE;
}

/* Whom the stage waits for. */
static bool lags(const struct coord_machine *m, uint32_t agent)
{
    const struct member *member = &m->members[agent];

    if (is_gone(m, agent))
        return false;
    switch (m->stage) {
    case COORD_STAGE_SERVER:
        return is_server(m, agent) && !at_ready(member);
    case COORD_STAGE_CLIENTS:
        return !at_ready(member);
    case COORD_STAGE_CLOCKS:
        return !clock_known(member);
    case COORD_STAGE_ARM:
        return !at_ready(member) || member->attempt != m->attempt;
    case COORD_STAGE_LOAD:
        return !is_server(m, agent) && !load_over(member);
    default:
        return !idle(member);
    }
}

static void name_laggards(const struct coord_machine *m, char *out, size_t out_bytes)
{
    size_t used = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < m->count && used < out_bytes; i++) {
        if (lags(m, i))
            used += (size_t)snprintf(out + used, out_bytes - used, "%s%s is at %s",
                                     used > 0 ? ", " : "", m->spec.names[i],
                                     ls_phase_name(m->members[i].phase));
    }
}

static void on_deadline(struct coord_machine *m, int64_t now_ns)
{
    char who[200];
    char text[300];

    if (m->stage == COORD_STAGE_CLOCKS && all(m, true, true, clock_known)) {
        enter_arm(m, now_ns);
        return;
    }
    if (m->stage == COORD_STAGE_ARM && !m->disarming) {
        begin_disarm(m, now_ns);
        return;
    }
    name_laggards(m, who, sizeof(who));
    (void)snprintf(text, sizeof(text), "stage '%s' took too long (%s)", coord_stage_name(m->stage),
                   who[0] != '\0' ? who : "nobody answers");
    if (m->stage == COORD_STAGE_COLLECT) {
        note(m, UINT32_MAX, "stuck", text, NULL);
        m->stage = COORD_STAGE_DONE;
        return;
    }
    fail(m, UINT32_MAX, "stuck", text, NULL, now_ns);
}

/* ---- events */

static void on_late(struct coord_machine *m, uint32_t agent, const char *why, int64_t now_ns)
{
    (void)snprintf(m->late, sizeof(m->late), "%s: %s", m->spec.names[agent], why);
    if (!m->disarming)
        begin_disarm(m, now_ns);
}

static void on_phase(struct coord_machine *m, uint32_t agent, const Ls__PhaseReport *report,
                     int64_t now_ns)
{
    struct member *member = &m->members[agent];
    enum ls_phase to = (enum ls_phase)report->phase;
    const Ls__Failure *failure = report->failure;
    enum ls_event event;
    char text[200];

    if (report->trial != m->spec.trial)
        return; /* of an earlier trial that was given up */
    if (failure != NULL && strcmp(failure->code, "illegal_command") == 0) {
        fail(m, agent, failure->code, failure->text, NULL, now_ns);
        return;
    }
    if ((unsigned)to >= LS_PHASE_COUNT || ls_phase_event(member->phase, to, &event) != LS_OK) {
        (void)snprintf(text, sizeof(text), "it went from %s to %s, which is no legal move",
                       ls_phase_name(member->phase), ls_phase_name(to));
        fail(m, agent, "illegal_move", text, NULL, now_ns);
        return;
    }
    member->answered = true;
    member->phase = to;
    member->attempt = report->attempt;
    if (failure != NULL && to == LS_PHASE_COLLECT)
        fail(m, agent, failure->code, failure->text, failure->log_tail, now_ns);
    else if (failure != NULL && to == LS_PHASE_READY && m->stage == COORD_STAGE_ARM)
        on_late(m, agent, failure->text, now_ns);
    advance(m, now_ns);
}

void coord_machine_report(struct coord_machine *m, uint32_t agent, const Ls__Envelope *report,
                          int64_t now_ns)
{
    if (!ls_report_fits_role(report->body_case,
                             is_server(m, agent) ? LS__ROLE__ROLE_SERVER : LS__ROLE__ROLE_CLIENT))
        return; /* the merge says so */
    switch (report->body_case) {
    case LS__ENVELOPE__BODY_PHASE:
        on_phase(m, agent, report->phase, now_ns);
        return;
    case LS__ENVELOPE__BODY_CLIENT:
        m->members[agent].reported |= report->client->trial == m->spec.trial;
        break;
    case LS__ENVELOPE__BODY_TARGET_UP: /* before it says that it is ready */
        if (report->target_up->trial == m->spec.trial &&
            m->spec.target->network == LS__NETWORK__NETWORK_PRIVATE) {
            m->network_pid = report->target_up->network_pid;
            m->network_inode = report->target_up->network_inode;
        }
        return;
    case LS__ENVELOPE__BODY_SERVER:
        m->members[agent].reported |= report->server->trial == m->spec.trial;
        break;
    default:
        return;
    }
    advance(m, now_ns);
}

void coord_machine_clock(struct coord_machine *m, uint32_t agent, int64_t now_ns)
{
    m->members[agent].answers++;
    advance(m, now_ns);
}

void coord_machine_lost(struct coord_machine *m, uint32_t agent, const char *why, int64_t now_ns)
{
    bool client_left = false;

    if (is_gone(m, agent))
        return;
    m->members[agent].lost = true;
    (void)snprintf(m->members[agent].why_lost, sizeof(m->members[agent].why_lost), "%s", why);
    for (uint32_t i = m->spec.servers; i < m->count; i++)
        client_left |= !m->members[i].lost;
    if (m->spec.go_on_without_lost && !is_server(m, agent) && client_left &&
        m->stage == COORD_STAGE_LOAD) {
        advance(m, now_ns);
        return;
    }
    if (!m->failed)
        m->failure.agent_lost = true;
    fail(m, agent, "agent_lost", why, NULL, now_ns);
    advance(m, now_ns);
}

void coord_machine_abort(struct coord_machine *m, const char *code, const char *text,
                         int64_t now_ns)
{
    fail(m, UINT32_MAX, code, text, NULL, now_ns);
    advance(m, now_ns);
}

static void probe_all(struct coord_machine *m, int64_t now_ns)
{
    if (m->stage != COORD_STAGE_CLOCKS || m->probes >= probes_max(m) || now_ns < m->next_probe_ns)
        return;
    for (uint32_t i = 0; i < m->count; i++) {
        if (!is_gone(m, i))
            m->env.probe_clock(m->env.ctx, i);
    }
    m->probes++;
    m->next_probe_ns = now_ns + CLOCK_SPACING_NS;
}

int64_t coord_machine_tick(struct coord_machine *m, int64_t now_ns)
{
    if (m->stage == COORD_STAGE_DONE)
        return INT64_MAX;
    if (now_ns >= m->deadline_ns)
        on_deadline(m, now_ns);
    probe_all(m, now_ns);
    if (m->stage == COORD_STAGE_DONE)
        return INT64_MAX;
    if (m->stage == COORD_STAGE_CLOCKS && m->probes < probes_max(m) &&
        m->next_probe_ns < m->deadline_ns)
        return m->next_probe_ns;
    return m->deadline_ns;
}

/* ---- what is known */

enum coord_stage coord_machine_stage(const struct coord_machine *m)
{
    return m->stage;
}

enum ls_phase coord_machine_load_phase(const struct coord_machine *m, int64_t now_ns)
{
    const Ls__Workload *w = m->spec.workload;
    int64_t at_ns = now_ns - m->start_ns;

    if (m->start_ns == 0 || at_ns < 0)
        return LS_PHASE_ARMED;
    if (at_ns < w->warmup->ns)
        return LS_PHASE_WARMUP;
    return at_ns < w->warmup->ns + w->measure->ns ? LS_PHASE_MEASURE : LS_PHASE_DRAIN;
}

int64_t coord_machine_start_ns(const struct coord_machine *m)
{
    return m->start_ns;
}

uint32_t coord_machine_attempts(const struct coord_machine *m)
{
    return m->attempt;
}

const struct coord_machine_failure *coord_machine_failure(const struct coord_machine *m)
{
    return m->failed ? &m->failure : NULL;
}

bool coord_machine_is_stuck(const struct coord_machine *m, uint32_t agent)
{
    return m->stage == COORD_STAGE_DONE && !m->members[agent].lost && !idle(&m->members[agent]);
}

const char *coord_machine_why_lost(const struct coord_machine *m, uint32_t agent)
{
    return m->members[agent].why_lost;
}

bool coord_machine_is_lost(const struct coord_machine *m, uint32_t agent)
{
    return m->members[agent].lost;
}
