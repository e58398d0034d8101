/* coordinator/run/trial.c: whole trials with invented time against made-up agents that follow the
 * table both programs share. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/run/trial.h"

#define MS     INT64_C(1000000)
#define S      INT64_C(1000000000)
#define AGENTS 3u /* one server, two clients */

/* What can be made to go wrong. */
struct fault {
    uint32_t agent;
    bool fails_to_prepare;
    unsigned late_attempts; /* how many times it cannot make the start */
    bool mute;              /* never answers anything */
    bool dies_in_load;
    bool wrong_move;
    bool no_clock;
    bool varies;         /* the request, so that a preflight tries many of it */
    int64_t lead_ns;     /* fleet.start_lead */
    bool tells_network;  /* the server, that its target has a private network ... */
    bool asked_for_that; /* ... as the plan says */
};

struct world {
    struct coord_machine *machine;
    struct fault fault;
    enum ls_phase phase[AGENTS];
    int64_t start[AGENTS];
    int64_t open[AGENTS];
    int64_t armed_at[AGENTS];
    uint32_t attempt[AGENTS];
    bool reported[AGENTS];
    bool probe_due[AGENTS];
    unsigned prepared[AGENTS], collected[AGENTS], aborted[AGENTS], armed_calls;
    uint32_t base[AGENTS], workers_total;
    uint32_t network_pid[AGENTS];
    uint64_t network_inode[AGENTS];
    int64_t offset[AGENTS];
    Ls__Envelope *inbox[64]; /* commands not yet taken, packed copies */
    uint32_t inbox_agent[64];
    unsigned inbox_count;
    int64_t now_ns;
};

static Ls__Envelope *copy(const Ls__Envelope *e)
{
    size_t n = ls__envelope__get_packed_size(e);
    unsigned char *bytes = malloc(n + 1);
    Ls__Envelope *out;

    assert_non_null(bytes);
    (void)ls__envelope__pack(e, bytes);
    out = ls__envelope__unpack(NULL, n, bytes);
    free(bytes);
    assert_non_null(out);
    return out;
}

static void command(void *ctx, uint32_t agent, Ls__Envelope *c)
{
    struct world *w = ctx;

    assert_true(w->inbox_count < 64);
    w->inbox[w->inbox_count] = copy(c);
    w->inbox_agent[w->inbox_count++] = agent;
}

static void probe(void *ctx, uint32_t agent)
{
    struct world *w = ctx;

    w->probe_due[agent] = true;
}

static bool clock_of(void *ctx, uint32_t agent, int64_t *out_offset_ns, int64_t *out_slowest_ns)
{
    struct world *w = ctx;

    *out_offset_ns = w->offset[agent];
    *out_slowest_ns = MS;
    return true;
}

static void armed(void *ctx, int64_t start_ns)
{
    struct world *w = ctx;

    assert_true(start_ns > w->now_ns);
    w->armed_calls++;
}

static void say(struct world *w, uint32_t agent, enum ls_phase phase, const char *code)
{
    Ls__Envelope e = LS__ENVELOPE__INIT;
    Ls__PhaseReport r = LS__PHASE_REPORT__INIT;
    Ls__Failure f = LS__FAILURE__INIT;
    char text[32];
    char made[] = "made to fail";

    w->phase[agent] = phase;
    r.trial = 3;
    r.phase = (Ls__AgentPhase)phase;
    r.at_ns = w->now_ns;
    r.attempt = w->attempt[agent];
    if (code != NULL) {
        (void)strncpy(text, code, sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        f.code = text;
        f.text = made;
        r.failure = &f;
    }
    e.body_case = LS__ENVELOPE__BODY_PHASE;
    e.phase = &r;
    coord_machine_report(w->machine, agent, &e, w->now_ns);
}

static void say_totals(struct world *w, uint32_t agent)
{
    Ls__Envelope e = LS__ENVELOPE__INIT;
    Ls__ClientReport c = LS__CLIENT_REPORT__INIT;
    Ls__ServerReport s = LS__SERVER_REPORT__INIT;

    c.trial = s.trial = 3;
    w->reported[agent] = true;
    if (agent == 0) {
        e.body_case = LS__ENVELOPE__BODY_SERVER;
        e.server = &s;
    } else {
        e.body_case = LS__ENVELOPE__BODY_CLIENT;
        e.client = &c;
    }
    coord_machine_report(w->machine, agent, &e, w->now_ns);
}

static void say_network(struct world *w, uint32_t agent)
{
    Ls__Envelope e = LS__ENVELOPE__INIT;
    Ls__TargetUp up = LS__TARGET_UP__INIT;

    up.trial = 3;
    up.network_pid = 77;
    up.network_inode = 4026532000;
    e.body_case = LS__ENVELOPE__BODY_TARGET_UP;
    e.target_up = &up;
    coord_machine_report(w->machine, agent, &e, w->now_ns);
}

static void end(struct world *w, uint32_t agent, const char *code)
{
    say(w, agent, LS_PHASE_COLLECT, code);
    say_totals(w, agent);
    say(w, agent, LS_PHASE_IDLE, NULL);
}

static void take_arm(struct world *w, uint32_t agent, const Ls__Arm *arm)
{
    w->attempt[agent] = arm->attempt;
    w->start[agent] = arm->start_ns - w->offset[agent];
    w->open[agent] = arm->open_ns - w->offset[agent];
    w->armed_at[agent] = w->now_ns;
    say(w, agent, LS_PHASE_ARM, NULL);
    if (w->fault.agent == agent && w->fault.late_attempts > 0) {
        w->fault.late_attempts--;
        say(w, agent, LS_PHASE_READY, "late");
    } else {
        say(w, agent, LS_PHASE_ARMED, NULL);
    }
}

static void take(struct world *w, uint32_t agent, const Ls__Envelope *c)
{
    if (w->fault.mute && w->fault.agent == agent)
        return;
    switch (c->body_case) {
    case LS__ENVELOPE__BODY_PREPARE:
        w->prepared[agent]++;
        w->base[agent] = c->prepare->worker_base;
        w->workers_total = c->prepare->workers_total;
        w->network_pid[agent] = c->prepare->network_pid;
        w->network_inode[agent] = c->prepare->network_inode;
        say(w, agent, LS_PHASE_PREPARE, NULL);
        if (agent == 0 && w->fault.tells_network)
            say_network(w, agent);
        if (w->fault.fails_to_prepare && w->fault.agent == agent)
            end(w, agent, "port_in_use");
        else if (w->fault.wrong_move && w->fault.agent == agent)
            say(w, agent, LS_PHASE_DRAIN, NULL);
        else
            say(w, agent, LS_PHASE_READY, NULL);
        return;
    case LS__ENVELOPE__BODY_ARM:
        take_arm(w, agent, c->arm);
        return;
    case LS__ENVELOPE__BODY_DISARM:
        if (w->phase[agent] == LS_PHASE_ARMED)
            say(w, agent, LS_PHASE_READY, NULL);
        return;
    case LS__ENVELOPE__BODY_COLLECT:
        w->collected[agent]++;
        if (w->phase[agent] != LS_PHASE_IDLE)
            end(w, agent, NULL);
        return;
    case LS__ENVELOPE__BODY_ABORT:
        w->aborted[agent]++;
        if (w->phase[agent] != LS_PHASE_IDLE)
            end(w, agent, NULL);
        return;
    default:
        fail_msg("an unexpected command");
    }
}

/* The agents' own clocks move them on. */
static void agents_tick(struct world *w)
{
    for (uint32_t i = 0; i < AGENTS; i++) {
        if (w->phase[i] == LS_PHASE_ARMED && w->now_ns >= w->start[i])
            say(w, i, LS_PHASE_WARMUP, NULL);
        if (w->phase[i] == LS_PHASE_WARMUP && w->now_ns >= w->start[i] + S)
            say(w, i, LS_PHASE_MEASURE, NULL);
        if (w->phase[i] == LS_PHASE_MEASURE && w->fault.dies_in_load && w->fault.agent == i)
            end(w, i, "target_exited");
        if (w->phase[i] == LS_PHASE_MEASURE && w->now_ns >= w->start[i] + 3 * S)
            say(w, i, LS_PHASE_DRAIN, NULL);
        if (w->phase[i] == LS_PHASE_DRAIN && i > 0)
            end(w, i, NULL);
        if (w->probe_due[i] && !(w->fault.no_clock && w->fault.agent == i) &&
            !(w->fault.mute && w->fault.agent == i)) {
            w->probe_due[i] = false;
            coord_machine_clock(w->machine, i, w->now_ns);
        }
    }
}

static struct world make(const struct fault *fault)
{
    struct world w = { .now_ns = 100 * S, .offset = { 5 * S, -7 * S, 0 } };

    if (fault != NULL)
        w.fault = *fault;
    return w;
}

/* Runs until it is done or the limit has passed. */
static void play(struct world *w, bool go_on)
{
    static const char *const names[] = { "server", "client-1", "client-2" };
    static const char *const cpus[] = { "0", "1", "1" };
    static const uint32_t workers[] = { 0, 2, 3 };
    Ls__Target target = LS__TARGET__INIT;
    Ls__Ready ready = LS__READY__INIT;
    Ls__Stop stop = LS__STOP__INIT;
    Ls__Workload load = LS__WORKLOAD__INIT;
    Ls__Http http = LS__HTTP__INIT;
    Ls__Duration d1 = LS__DURATION__INIT;
    Ls__Duration d2 = LS__DURATION__INIT;
    const struct coord_machine_env env = {
        .command = command, .probe_clock = probe, .clock = clock_of, .armed = armed, .ctx = w
    };
    const struct coord_machine_spec spec = { .trial = 3,
                                             .target = &target,
                                             .workload = &load,
                                             .servers = 1,
                                             .clients = 2,
                                             .names = names,
                                             .cpus = cpus,
                                             .workers = workers,
                                             .start_lead_ns = w->fault.lead_ns,
                                             .go_on_without_lost = go_on };
    Ls__Request request = LS__REQUEST__INIT;
    Ls__Request *requests[] = { &request };
    char path[] = "/{seq:0-999}";

    if (w->fault.varies)
        request.path = path;
    d1.ns = S;
    d2.ns = 2 * S;
    ready.timeout = &d1;
    stop.grace = &d1;
    target.ready = &ready;
    if (w->fault.asked_for_that)
        target.network = LS__NETWORK__NETWORK_PRIVATE;
    target.stop = &stop;
    http.requests = requests;
    http.n_requests = 1;
    load.protocol_case = LS__WORKLOAD__PROTOCOL_HTTP;
    load.http = &http;
    load.warmup = &d1;
    load.measure = &d2;
    load.timeout = &d1;
    load.interval = &d1;
    load.connections = 10;
    assert_int_equal(coord_machine_create(&spec, &env, &w->machine, NULL), LS_OK);
    coord_machine_start(w->machine, w->now_ns);
    for (int i = 0; i < 400000 && coord_machine_stage(w->machine) != COORD_STAGE_DONE; i++) {
        unsigned n = w->inbox_count;

        for (unsigned k = 0; k < n; k++) {
            take(w, w->inbox_agent[k], w->inbox[k]);
            ls__envelope__free_unpacked(w->inbox[k], NULL);
        }
        w->inbox_count -= n;
        (void)memmove(w->inbox, w->inbox + n, w->inbox_count * sizeof(w->inbox[0]));
        (void)memmove(w->inbox_agent, w->inbox_agent + n,
                      w->inbox_count * sizeof(w->inbox_agent[0]));
        w->now_ns += MS;
        agents_tick(w);
        (void)coord_machine_tick(w->machine, w->now_ns);
    }
    for (unsigned k = 0; k < w->inbox_count; k++)
        ls__envelope__free_unpacked(w->inbox[k], NULL);
    assert_int_equal(coord_machine_stage(w->machine), COORD_STAGE_DONE);
}

static void a_trial_goes_through_all_its_stages(void **state)
{
    struct world w = make(NULL);

    (void)state;
    play(&w, false);
    assert_null(coord_machine_failure(w.machine));
    assert_int_equal(w.armed_calls, 1);
    for (uint32_t i = 0; i < AGENTS; i++) {
        assert_int_equal(w.prepared[i], 1);
        assert_int_equal(w.phase[i], LS_PHASE_IDLE);
        assert_true(w.reported[i]);
        assert_int_equal(w.aborted[i], 0);
    }
    assert_int_equal(w.base[1], 0);
    assert_int_equal(w.base[2], 2);
    assert_int_equal(w.workers_total, 5);
    coord_machine_destroy(w.machine);
}

static void clients_are_told_of_a_private_network_that_the_plan_asks_for(void **state)
{
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        struct world w = make(&(struct fault){
            .agent = AGENTS, .tells_network = true, .asked_for_that = asked != 0 });

        play(&w, false);
        assert_null(coord_machine_failure(w.machine));
        for (uint32_t i = 0; i < AGENTS; i++) {
            assert_int_equal(w.network_pid[i], asked != 0 && i > 0 ? 77 : 0);
            assert_true(w.network_inode[i] == (asked != 0 && i > 0 ? 4026532000 : 0));
        }
        coord_machine_destroy(w.machine);
    }
}

static void all_start_at_one_instant_whatever_their_clocks_say(void **state)
{
    struct world w = make(NULL);

    (void)state;
    play(&w, false);
    assert_int_equal(w.start[0], w.start[1]);
    assert_int_equal(w.start[1], w.start[2]);
    coord_machine_destroy(w.machine);
}

/* Idle servers hang up: a long lead is spent without connections. */
static void connections_are_opened_late_however_long_the_lead(void **state)
{
    static const int64_t leads[] = { 0, 100 * MS, 20 * S };

    (void)state;
    for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
        struct world w = make(&(struct fault){ .lead_ns = leads[i] });

        play(&w, false);
        assert_null(coord_machine_failure(w.machine));
        for (uint32_t k = 0; k < AGENTS; k++) {
            assert_true(w.start[k] - w.armed_at[k] >= leads[i]);
            assert_true(w.open[k] >= w.armed_at[k]);
            assert_int_equal(w.start[k] - w.open[k], w.start[0] - w.open[0]);
            assert_true(w.start[k] - w.open[k] >= 400 * MS && w.start[k] - w.open[k] <= 410 * MS);
        }
        coord_machine_destroy(w.machine);
    }
}

static void an_agent_that_is_late_makes_all_of_them_start_later(void **state)
{
    struct world w = make(&(struct fault){ .agent = 2, .late_attempts = 2 });

    (void)state;
    play(&w, false);
    assert_null(coord_machine_failure(w.machine));
    assert_int_equal(w.armed_calls, 3);
    assert_int_equal(coord_machine_attempts(w.machine), 3);
    assert_int_equal(w.start[0], w.start[2]);
    coord_machine_destroy(w.machine);
}

static void an_agent_that_is_always_late_ends_the_trial(void **state)
{
    struct world w = make(&(struct fault){ .agent = 1, .late_attempts = 1000 });

    (void)state;
    play(&w, false);
    assert_non_null(coord_machine_failure(w.machine));
    assert_string_equal(coord_machine_failure(w.machine)->code, "no_start");
    assert_non_null(strstr(coord_machine_failure(w.machine)->text, "client-1: "));
    assert_true(coord_machine_failure(w.machine)->before_load);
    coord_machine_destroy(w.machine);
}

static void a_target_that_does_not_start_keeps_its_code_and_no_client_is_asked(void **state)
{
    struct world w = make(&(struct fault){ .agent = 0, .fails_to_prepare = true });

    (void)state;
    play(&w, false);
    assert_string_equal(coord_machine_failure(w.machine)->code, "port_in_use");
    assert_true(coord_machine_failure(w.machine)->before_load);
    assert_int_equal(w.prepared[1] + w.prepared[2], 0);
    coord_machine_destroy(w.machine);
}

static void a_failed_preflight_ends_the_other_client_and_collects_the_target(void **state)
{
    struct world w = make(&(struct fault){ .agent = 1, .fails_to_prepare = true });

    (void)state;
    play(&w, false);
    assert_true(coord_machine_failure(w.machine)->before_load);
    assert_int_equal(coord_machine_failure(w.machine)->agent, 1);
    assert_int_equal(w.collected[0], 1);
    for (uint32_t i = 0; i < AGENTS; i++)
        assert_int_equal(w.phase[i], LS_PHASE_IDLE);
    coord_machine_destroy(w.machine);
}

static void a_target_that_dies_under_load_ends_the_trial_after_it_began(void **state)
{
    struct world w = make(&(struct fault){ .agent = 0, .dies_in_load = true });

    (void)state;
    play(&w, false);
    assert_string_equal(coord_machine_failure(w.machine)->code, "target_exited");
    assert_false(coord_machine_failure(w.machine)->before_load);
    assert_true(w.aborted[1] == 1 && w.aborted[2] == 1);
    coord_machine_destroy(w.machine);
}

static void a_mute_agent_ends_every_stage_by_its_limit(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < AGENTS; i++) {
        struct world w = make(&(struct fault){ .agent = i, .mute = true });

        play(&w, false);
        assert_string_equal(coord_machine_failure(w.machine)->code, "stuck");
        assert_non_null(
            strstr(coord_machine_failure(w.machine)->text, i == 0 ? "server is at" : "client-"));
        for (uint32_t k = 0; k < AGENTS; k++)
            assert_int_equal(coord_machine_is_stuck(w.machine, k), k == i);
        coord_machine_destroy(w.machine);
    }
}

static void a_preflight_has_time_for_all_that_it_tries(void **state)
{
    (void)state;
    for (int varies = 0; varies < 2; varies++) {
        struct world w = make(&(struct fault){ .agent = 1, .mute = true, .varies = varies == 1 });
        int64_t begun_ns = w.now_ns;

        play(&w, false); /* each of them may take a second */
        assert_non_null(strstr(coord_machine_failure(w.machine)->text, "preflight"));
        assert_int_equal(w.now_ns - begun_ns > 256 * S, varies);
        coord_machine_destroy(w.machine);
    }
}

static void an_agent_whose_clock_is_unknown_gets_no_start(void **state)
{
    struct world w = make(&(struct fault){ .agent = 2, .no_clock = true });

    (void)state;
    play(&w, false);
    assert_string_equal(coord_machine_failure(w.machine)->code, "stuck");
    assert_int_equal(w.armed_calls, 0);
    coord_machine_destroy(w.machine);
}

static void an_illegal_move_of_an_agent_ends_the_trial(void **state)
{
    struct world w = make(&(struct fault){ .agent = 1, .wrong_move = true });

    (void)state;
    play(&w, false);
    assert_string_equal(coord_machine_failure(w.machine)->code, "illegal_move");
    coord_machine_destroy(w.machine);
}

static void a_lost_agent_ends_the_trial_at_any_stage(void **state)
{
    (void)state;
    for (uint32_t agent = 0; agent < AGENTS; agent++) {
        struct world w = make(NULL);
        static const char *const names[] = { "s", "a", "b" };
        static const char *const cpus[] = { "", "", "" };
        static const uint32_t workers[] = { 0, 1, 1 };
        Ls__Target target = LS__TARGET__INIT;
        Ls__Ready ready = LS__READY__INIT;
        Ls__Stop stop = LS__STOP__INIT;
        Ls__Workload load = LS__WORKLOAD__INIT;
        Ls__Http http = LS__HTTP__INIT;
        Ls__Duration d = LS__DURATION__INIT;
        const struct coord_machine_env env = {
            .command = command, .probe_clock = probe, .clock = clock_of, .armed = armed, .ctx = &w
        };
        const struct coord_machine_spec spec = { .trial = 3,
                                                 .target = &target,
                                                 .workload = &load,
                                                 .servers = 1,
                                                 .clients = 2,
                                                 .names = names,
                                                 .cpus = cpus,
                                                 .workers = workers };

        d.ns = S;
        ready.timeout = stop.grace = load.warmup = load.measure = load.timeout = load.interval = &d;
        target.ready = &ready;
        target.stop = &stop;
        load.protocol_case = LS__WORKLOAD__PROTOCOL_HTTP;
        load.http = &http;
        assert_int_equal(coord_machine_create(&spec, &env, &w.machine, NULL), LS_OK);
        coord_machine_start(w.machine, w.now_ns);
        coord_machine_lost(w.machine, agent, "it is gone: caf\xe9", w.now_ns);
        assert_true(coord_machine_failure(w.machine)->agent_lost);
        /* As text, for ABORT carries it to the others, and no message carries anything else. */
        assert_string_equal(coord_machine_failure(w.machine)->text, "it is gone: caf?");
        assert_true(coord_machine_is_lost(w.machine, agent));
        for (unsigned k = 0; k < w.inbox_count; k++)
            ls__envelope__free_unpacked(w.inbox[k], NULL);
        coord_machine_destroy(w.machine);
    }
}

/* Agents 0 and 1 are servers, 2 is the client. A target that runs already needs neither. */
static void who_takes_part(bool external)
{
    const uint32_t first = external ? 2 : 1;

    for (uint32_t agent = 0; agent < 2; agent++) {
        struct world w = make(NULL);
        static const char *const names[] = { "s1", "s2", "c" };
        static const char *const cpus[] = { "", "", "" };
        static const uint32_t workers[] = { 0, 0, 1 };
        Ls__Target target = LS__TARGET__INIT;
        Ls__Ready ready = LS__READY__INIT;
        Ls__Stop stop = LS__STOP__INIT;
        Ls__Workload load = LS__WORKLOAD__INIT;
        Ls__Http http = LS__HTTP__INIT;
        Ls__Duration d = LS__DURATION__INIT;
        const struct coord_machine_env env = {
            .command = command, .probe_clock = probe, .clock = clock_of, .armed = armed, .ctx = &w
        };
        const struct coord_machine_spec spec = { .trial = 3,
                                                 .target = &target,
                                                 .workload = &load,
                                                 .servers = 2,
                                                 .server = 1,
                                                 .clients = 1,
                                                 .names = names,
                                                 .cpus = cpus,
                                                 .workers = workers };

        d.ns = S;
        ready.timeout = stop.grace = load.warmup = load.measure = load.timeout = load.interval = &d;
        target.external = external;
        target.ready = &ready;
        target.stop = &stop;
        load.protocol_case = LS__WORKLOAD__PROTOCOL_HTTP;
        load.http = &http;
        assert_int_equal(coord_machine_create(&spec, &env, &w.machine, NULL), LS_OK);
        coord_machine_start(w.machine, w.now_ns);
        assert_int_equal(w.inbox_count, 1);
        assert_int_equal(w.inbox_agent[0], first);
        assert_int_equal(w.inbox[0]->body_case, LS__ENVELOPE__BODY_PREPARE);
        coord_machine_lost(w.machine, agent, "it is gone", w.now_ns);
        assert_int_equal(coord_machine_is_lost(w.machine, agent), agent == first);
        assert_int_equal(coord_machine_failure(w.machine) != NULL, agent == first);
        assert_false(coord_machine_is_stuck(w.machine, 0));
        for (unsigned k = 0; k < w.inbox_count; k++)
            ls__envelope__free_unpacked(w.inbox[k], NULL);
        coord_machine_destroy(w.machine);
    }
}

static void of_two_servers_one_takes_part_and_the_other_is_not_missed(void **state)
{
    (void)state;
    who_takes_part(false);
}

static void a_target_that_runs_already_takes_no_server(void **state)
{
    (void)state;
    who_takes_part(true);
}

/* ---- more than a handful */

#define MANY 5000u

struct crowd {
    unsigned probes[MANY];
    uint32_t base[MANY];
    unsigned prepared, armed, arms;
};

static void crowd_command(void *ctx, uint32_t agent, Ls__Envelope *c)
{
    struct crowd *crowd = ctx;

    if (c->body_case == LS__ENVELOPE__BODY_PREPARE) {
        crowd->prepared++;
        crowd->base[agent] = c->prepare->worker_base;
        assert_int_equal(c->prepare->workers_total, MANY + MANY / 2);
    }
    crowd->arms += c->body_case == LS__ENVELOPE__BODY_ARM;
}

static void crowd_probe(void *ctx, uint32_t agent)
{
    struct crowd *crowd = ctx;

    crowd->probes[agent]++;
}

static bool crowd_clock(void *ctx, uint32_t agent, int64_t *out_offset_ns, int64_t *out_slowest_ns)
{
    (void)ctx;
    (void)agent;
    *out_offset_ns = *out_slowest_ns = 0;
    return true;
}

static void crowd_armed(void *ctx, int64_t start_ns)
{
    struct crowd *crowd = ctx;

    (void)start_ns;
    crowd->armed++;
}

static void thousands_are_prepared_and_half_as_many_exchanges_suffice_for_each(void **state)
{
    static struct crowd crowd;
    static struct world w; /* the machine and its time */
    static const char *texts[MANY];
    static uint32_t workers[MANY];
    Ls__Target target = LS__TARGET__INIT;
    Ls__Ready ready = LS__READY__INIT;
    Ls__Stop stop = LS__STOP__INIT;
    Ls__Workload load = LS__WORKLOAD__INIT;
    Ls__Http http = LS__HTTP__INIT;
    Ls__Duration d = LS__DURATION__INIT;
    const struct coord_machine_env env = { .command = crowd_command,
                                           .probe_clock = crowd_probe,
                                           .clock = crowd_clock,
                                           .armed = crowd_armed,
                                           .ctx = &crowd };
    const struct coord_machine_spec spec = { .trial = 3,
                                             .target = &target,
                                             .workload = &load,
                                             .clients = MANY,
                                             .names = texts,
                                             .cpus = texts,
                                             .workers = workers };

    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        texts[i] = "";
        workers[i] = 1 + i % 2;
    }
    d.ns = S;
    ready.timeout = stop.grace = load.warmup = load.measure = load.timeout = load.interval = &d;
    target.ready = &ready;
    target.stop = &stop;
    load.protocol_case = LS__WORKLOAD__PROTOCOL_HTTP;
    load.http = &http;
    assert_int_equal(coord_machine_create(&spec, &env, &w.machine, NULL), LS_OK);
    coord_machine_start(w.machine, w.now_ns);
    assert_int_equal(crowd.prepared, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(crowd.base[i], i + i / 2);
    for (unsigned phase = LS_PHASE_PREPARE; phase <= LS_PHASE_READY; phase++) {
        for (uint32_t i = 0; i < MANY; i++) {
            Ls__Envelope e = LS__ENVELOPE__INIT;
            Ls__PhaseReport r = LS__PHASE_REPORT__INIT;

            r.trial = 3;
            r.phase = (Ls__AgentPhase)phase;
            e.body_case = LS__ENVELOPE__BODY_PHASE;
            e.phase = &r;
            coord_machine_report(w.machine, i, &e, w.now_ns);
        }
    }
    assert_int_equal(coord_machine_stage(w.machine), COORD_STAGE_CLOCKS);
    for (unsigned round = 0; round < 8; round++) {
        assert_int_equal(crowd.armed, 0);
        w.now_ns += 2 * MS;
        (void)coord_machine_tick(w.machine, w.now_ns);
        for (uint32_t i = 0; i < MANY; i++)
            coord_machine_clock(w.machine, i, w.now_ns);
    }
    assert_int_equal(crowd.probes[MANY - 1], 8);
    assert_int_equal(crowd.armed, 1);
    assert_int_equal(crowd.arms, MANY);
    coord_machine_destroy(w.machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trial_goes_through_all_its_stages),
        cmocka_unit_test(clients_are_told_of_a_private_network_that_the_plan_asks_for),
        cmocka_unit_test(all_start_at_one_instant_whatever_their_clocks_say),
        cmocka_unit_test(connections_are_opened_late_however_long_the_lead),
        cmocka_unit_test(an_agent_that_is_late_makes_all_of_them_start_later),
        cmocka_unit_test(an_agent_that_is_always_late_ends_the_trial),
        cmocka_unit_test(a_target_that_does_not_start_keeps_its_code_and_no_client_is_asked),
        cmocka_unit_test(a_failed_preflight_ends_the_other_client_and_collects_the_target),
        cmocka_unit_test(a_target_that_dies_under_load_ends_the_trial_after_it_began),
        cmocka_unit_test(a_mute_agent_ends_every_stage_by_its_limit),
        cmocka_unit_test(a_preflight_has_time_for_all_that_it_tries),
        cmocka_unit_test(an_agent_whose_clock_is_unknown_gets_no_start),
        cmocka_unit_test(an_illegal_move_of_an_agent_ends_the_trial),
        cmocka_unit_test(a_lost_agent_ends_the_trial_at_any_stage),
        cmocka_unit_test(of_two_servers_one_takes_part_and_the_other_is_not_missed),
        cmocka_unit_test(a_target_that_runs_already_takes_no_server),
        cmocka_unit_test(thousands_are_prepared_and_half_as_many_exchanges_suffice_for_each),
    };

    return cmocka_run_group_tests_name("coordinator.trial", tests, NULL, NULL);
}
