#include "coordinator/run/run.h"
#include "coordinator/plan/load_law.h"

#include <ev.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/transport.h"
#include "coordinator/exit.h"
#include "coordinator/fleet/cpus.h"
#include "coordinator/fleet/fleet.h"
#include "coordinator/result/store.h"
#include "coordinator/result/summary.h"
#include "coordinator/run/ceiling.h"
#include "coordinator/run/fill.h"
#include "coordinator/run/merge.h"
#include "coordinator/run/progress.h"
#include "coordinator/run/ship.h"
#include "coordinator/run/trial.h"
#include "coordinator/run/verdict.h"

#define ENROL_TIMEOUT_NS (15 * LS_NS_PER_S)
#define BYE_TIMEOUT_NS   (5 * LS_NS_PER_S)
#define RESTARTS_MAX     3u

struct run {
    const struct coord_run_options *options;
    struct ev_loop *loop;
    ev_timer timer;
    ev_signal on_int;
    ev_signal on_term;
    struct coord_fleet *fleet;       /* owned */
    struct coord_store *store;       /* owned; NULL: nothing is written */
    struct coord_progress *progress; /* owned */
    struct ls_cpuset allowed;        /* what this process may use */
    struct coord_cpus cpus;
    struct coord_ship *ship;      /* owned; the targets' files */
    Ls__Calibration *calibration; /* owned; NULL: none, or not to be looked at */
    Ls__Result *result;           /* owned until handed out */
    char run_id[40];
    bool interrupted;
    bool leaving;  /* interrupted again: nothing is waited for any more */
    bool unusable; /* plan, command line and this machine do not fit */
    bool incomplete;
    bool invalid;
    uint32_t restarts;
    /* the trial that runs */
    const struct coord_trial *trial;
    struct coord_machine *machine;
    struct coord_merge *merge;
    struct coord_store_trial *files;
    char trouble_code[40]; /* what the target left behind; "" if nothing */
    char trouble[256];
    struct ls_diag store_error; /* a report could not be stored */
    bool store_failed;
    int64_t started_wall_ns;
};

/* ---- events */

static void on_signal(struct ev_loop *loop, ev_signal *w, int events)
{
    struct run *r = w->data;

    (void)loop;
    (void)events;
    if (r->interrupted) { /* the second one: leave at once, and take the agents along */
        r->leaving = true;
        return;
    }
    r->interrupted = true;
    coord_progress_say(r->progress,
                       "interrupted: ending the trial, finished ones are kept (again: leave now)");
    if (r->machine != NULL)
        coord_machine_abort(r->machine, "interrupted", "the run was interrupted",
                            ls_clock_mono_ns());
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop;
    (void)w;
    (void)events; /* pump() looks at what is due */
}

static struct coord_merge_clock clock_of(const struct coord_agent *agent, int64_t now_ns)
{
    return (struct coord_merge_clock){ .offset_ns = ls_offset_ns(&agent->offset),
                                       .error_ns = ls_offset_error_ns(&agent->offset, now_ns) };
}

static enum ls_err journal(struct run *r, uint32_t agent, const Ls__Envelope *report)
{
    size_t size = ls__envelope__get_packed_size(report);
    unsigned char *packed = malloc(size + 1);
    enum ls_err rc;

    if (packed == NULL)
        return ls_fail(&r->store_error, LS_ENOMEM, "out of memory for a report");
    (void)ls__envelope__pack(report, packed);
    rc = coord_store_append(r->files, agent, (struct ls_bytes){ packed, size }, &r->store_error);
    free(packed);
    return rc;
}

/* A report that cannot be kept ends the trial: a full disk never costs the trials before it. */
static void storing_failed(struct run *r, int64_t now_ns)
{
    if (r->store_failed)
        return;
    r->store_failed = true;
    if (r->machine != NULL)
        coord_machine_abort(r->machine, "not_stored", r->store_error.text, now_ns);
}

static enum ls_err on_report(void *ctx, struct coord_agent *agent, const Ls__Envelope *report)
{
    struct run *r = ctx;
    int64_t now_ns = ls_clock_mono_ns();
    struct coord_merge_clock clock = clock_of(agent, now_ns);
    struct ls_diag diag;
    enum ls_err rc;

    if (r->machine == NULL)
        return LS_OK; /* between trials: the end of one that was given up */
    if (r->files != NULL && !r->store_failed && journal(r, agent->index, report) != LS_OK)
        storing_failed(r, now_ns);
    if (report->body_case == LS__ENVELOPE__BODY_SERVER && report->server->failure != NULL &&
        report->server->trial == r->trial->index) {
        (void)snprintf(r->trouble_code, sizeof(r->trouble_code), "%s",
                       report->server->failure->code);
        (void)snprintf(r->trouble, sizeof(r->trouble), "%s", report->server->failure->text);
    }
    rc = coord_merge_report(r->merge, agent->index, &clock, report, &diag);
    if (rc == LS_EIO) {
        r->store_error = diag;
        storing_failed(r, now_ns);
    } else if (rc != LS_OK) {
        ls_log(LS_LOG_WARN, "run.report_refused", "agent=%s %s", agent->name, diag.text);
    }
    coord_machine_report(r->machine, agent->index, report, now_ns);
    return LS_OK; /* what could not be stored has been said; again would be no better */
}

static void on_clock(void *ctx, struct coord_agent *agent)
{
    struct run *r = ctx;

    if (r->machine != NULL)
        coord_machine_clock(r->machine, agent->index, ls_clock_mono_ns());
}

static void on_lost(void *ctx, struct coord_agent *agent)
{
    struct run *r = ctx;
    struct ls_diag diag;

    coord_progress_say(r->progress, "%s", agent->why_lost);
    if (r->machine == NULL)
        return;
    if (coord_merge_lost(r->merge, agent->index, &diag) != LS_OK)
        ls_log(LS_LOG_WARN, "run.merge", "%s", diag.text);
    coord_machine_lost(r->machine, agent->index, agent->why_lost, ls_clock_mono_ns());
}

static void on_changed(void *ctx, struct coord_agent *agent)
{
    (void)ctx;
    (void)agent; /* pump() looks again after every event */
}

/* ---- the loop */

static void show(struct run *r, int64_t now_ns)
{
    struct coord_merge_progress latest;
    const struct coord_merge_progress *known = NULL;
    const char *phase;
    int64_t end_ns = 0;
    const Ls__Workload *w;

    if (r->machine == NULL)
        return;
    w = r->trial->workload;
    phase = coord_stage_name(coord_machine_stage(r->machine));
    if (coord_machine_stage(r->machine) == COORD_STAGE_LOAD) {
        enum ls_phase part = coord_machine_load_phase(r->machine, now_ns);

        phase = ls_phase_name(part);
        if (part == LS_PHASE_WARMUP)
            end_ns = coord_machine_start_ns(r->machine) + w->warmup->ns;
        if (part == LS_PHASE_MEASURE)
            end_ns = coord_machine_start_ns(r->machine) + w->warmup->ns + w->measure->ns;
        known = coord_merge_latest(r->merge, &latest) ? &latest : NULL;
    }
    coord_progress_update(r->progress, now_ns, phase, end_ns, known);
}

/* Waits for the next event, at most until due_ns, and does what is due. */
static void pump(struct run *r, int64_t due_ns)
{
    int64_t now_ns = ls_clock_mono_ns();
    int64_t next_ns = now_ns + LS_NS_PER_S;
    int64_t machine_ns;

    coord_fleet_sweep(r->fleet, now_ns);
    if (r->machine != NULL) {
        machine_ns = coord_machine_tick(r->machine, now_ns);
        next_ns = machine_ns < next_ns ? machine_ns : next_ns;
        if (coord_machine_stage(r->machine) == COORD_STAGE_DONE)
            return;
    }
    show(r, now_ns);
    if (due_ns < next_ns)
        next_ns = due_ns;
    if (coord_progress_next_ns(r->progress) < next_ns)
        next_ns = coord_progress_next_ns(r->progress);
    ev_timer_stop(r->loop, &r->timer);
    ev_now_update(r->loop);
    ev_timer_set(&r->timer, next_ns > now_ns ? (double)(next_ns - now_ns) / 1e9 : 0., 0.);
    ev_timer_start(r->loop, &r->timer);
    ev_run(r->loop, EVRUN_ONCE);
}

/* ---- the fleet */

/* Starts whoever is not here and waits; a fleet that is complete already costs nothing. */
static enum ls_err gather(struct run *r, struct ls_diag *diag)
{
    int64_t limit_ns = ls_clock_mono_ns() + ENROL_TIMEOUT_NS;
    enum ls_err rc = coord_fleet_start(r->fleet, diag);

    while (rc == LS_OK && !coord_fleet_complete(r->fleet)) {
        if (r->interrupted)
            return ls_fail(diag, LS_ESTATE, "interrupted");
        for (uint32_t i = 0; i < coord_fleet_size(r->fleet); i++) {
            const struct coord_agent *a = coord_fleet_agent(r->fleet, i);

            if (a->lost && a->local.pid == 0)
                return ls_fail(diag, LS_EIO, "%s", a->why_lost);
            if (!a->up && ls_clock_mono_ns() >= limit_ns)
                return ls_fail(diag, LS_ETIMEOUT, "agent %s did not enrol within %d s", a->name,
                               (int)(ENROL_TIMEOUT_NS / LS_NS_PER_S));
        }
        pump(r, limit_ns);
    }
    return rc;
}

static void say_bye(struct run *r)
{
    int64_t limit_ns = ls_clock_mono_ns() + BYE_TIMEOUT_NS;

    if (r->fleet == NULL || r->leaving)
        return;
    coord_fleet_bye(r->fleet, "the run is over");
    while (!coord_fleet_gone(r->fleet) && ls_clock_mono_ns() < limit_ns && !r->leaving)
        pump(r, limit_ns);
}

/* The coordinator keeps off the CPUs of the server under test, where there are others. */
static void keep_off(const struct run *r)
{
    struct ls_cpuset rest = r->allowed;
    struct ls_diag diag;

    if (r->cpus.servers == 0)
        return;
    for (size_t i = 0; i < LS_ARRAY_LEN(rest.bits); i++)
        rest.bits[i] &= ~r->cpus.agents[0].bits[i];
    if (ls_cpuset_count(&rest) > 0 && ls_cpuset_set_affinity(0, &rest, &diag) != LS_OK)
        ls_log(LS_LOG_WARN, "run.not_pinned", "%s", diag.text);
}

static enum ls_err divide_cpus(struct run *r, struct ls_diag *diag)
{
    const Ls__Fleet *wish = r->options->plan->fleet;
    uint32_t servers = 0;
    enum ls_err rc = ls_cpuset_get_affinity(0, &r->allowed, diag);

    for (size_t i = 0; i < r->options->plan->n_targets; i++) {
        if (!r->options->plan->targets[i]->external)
            servers = wish->servers;
    }
    return rc == LS_OK
               ? coord_cpus_assign(wish->cpus, &r->allowed, servers, wish->clients, &r->cpus, diag)
               : rc;
}

static enum ls_err make_fleet(struct run *r, struct ls_diag *diag)
{
    const struct coord_fleet_env env = {
        .report = on_report, .clock = on_clock, .lost = on_lost, .changed = on_changed, .ctx = r
    };
    enum ls_err rc = coord_fleet_create(r->loop, r->run_id, r->cpus.servers, r->cpus.clients, &env,
                                        &r->fleet, diag);

    if (rc != LS_OK)
        return rc;
    for (uint32_t i = 0; i < coord_fleet_size(r->fleet); i++) {
        struct coord_agent *a = coord_fleet_agent(r->fleet, i);

        a->cpus = r->cpus.agents[i];
        a->cpus_shared = coord_cpus_is_shared(&r->cpus, i);
    }
    keep_off(r);
    return gather(r, diag);
}

/* ---- one trial */

static void do_command(void *ctx, uint32_t agent, Ls__Envelope *command)
{
    struct run *r = ctx;
    struct ls_diag diag;

    if (coord_fleet_command(r->fleet, agent, command, &diag) != LS_OK)
        ls_log(LS_LOG_WARN, "run.command", "%s", diag.text); /* its loss is told separately */
}

static void do_probe(void *ctx, uint32_t agent)
{
    struct run *r = ctx;

    coord_fleet_probe_clock(r->fleet, agent);
}

static bool do_clock(void *ctx, uint32_t agent, int64_t *out_offset_ns, int64_t *out_slowest_ns)
{
    struct run *r = ctx;
    const struct coord_agent *a = coord_fleet_agent(r->fleet, agent);

    if (!ls_offset_known(&a->offset))
        return false;
    *out_offset_ns = ls_offset_ns(&a->offset);
    *out_slowest_ns = ls_offset_slowest_ns(&a->offset);
    return true;
}

static void do_armed(void *ctx, int64_t start_ns)
{
    struct run *r = ctx;
    struct ls_diag diag;
    int64_t start_wall_ns = ls_clock_wall_ns() + (start_ns - ls_clock_mono_ns());
    enum ls_err rc = coord_merge_arm(r->merge, start_ns, start_wall_ns, &diag);

    if (rc == LS_EIO) {
        r->store_error = diag;
        storing_failed(r, ls_clock_mono_ns());
    } else if (rc != LS_OK) {
        ls_log(LS_LOG_WARN, "run.arm", "%s", diag.text);
    }
}

/* What an agent needs to know, as the machine's spec wants it: one entry per agent. */
struct places {
    const char **names;
    const char **cpus;
    char (*cpu_texts)[128];
    uint32_t *workers;
    struct coord_merge_agent *agents;
};

static void places_fini(struct places *p)
{
    free(p->names);
    free(p->cpus);
    free(p->cpu_texts);
    free(p->workers);
    free(p->agents);
}

/* No worker without a connection: the first workers have the larger shares. */
static uint32_t workers_of(const struct run *r, const struct coord_agent *a, uint32_t connections)
{
    uint32_t servers = r->cpus.servers;
    uint32_t clients = coord_fleet_size(r->fleet) - servers;
    uint32_t n = r->options->workers_per_client;

    if (a->index < servers)
        return 0;
    if (n == 0)
        n = ls_cpuset_count(&a->cpus);
    if (n > connections / clients)
        n = connections / clients;
    return n > 0 ? n : 1;
}

static enum ls_err places_init(const struct run *r, const Ls__Workload *workload,
                               struct places *out)
{
    uint32_t n = coord_fleet_size(r->fleet);
    struct places p = { .names = calloc(n, sizeof(*p.names)),
                        .cpus = calloc(n, sizeof(*p.cpus)),
                        .cpu_texts = calloc(n, sizeof(*p.cpu_texts)),
                        .workers = calloc(n, sizeof(*p.workers)),
                        .agents = calloc(n, sizeof(*p.agents)) };

    if (p.names == NULL || p.cpus == NULL || p.cpu_texts == NULL || p.workers == NULL ||
        p.agents == NULL) {
        places_fini(&p);
        return LS_ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct coord_agent *a = coord_fleet_agent(r->fleet, i);

        p.names[i] = a->name;
        p.cpus[i] = ls_cpuset_format(&a->cpus, p.cpu_texts[i], sizeof(p.cpu_texts[i]));
        p.workers[i] = workers_of(r, a, workload->connections);
        p.agents[i] = (struct coord_merge_agent){ .name = a->name, .role = a->role };
    }
    *out = p;
    return LS_OK;
}

static enum ls_err open_trial(struct run *r, const struct places *p, struct ls_diag *diag)
{
    static const struct coord_machine_env actions = {
        .command = do_command, .probe_clock = do_probe, .clock = do_clock, .armed = do_armed
    };
    struct coord_machine_env env = actions;
    const Ls__Workload *w = r->trial->workload;
    Ls__FileRef **files = NULL;
    size_t file_count = 0;
    Ls__FileRef **plan_files = NULL;
    size_t plan_file_count = 0;
    enum ls_err rc = LS_OK;

    env.ctx = r;
    if (r->store != NULL)
        rc = coord_store_trial_begin(r->store, r->trial->index, r->trial->target->name, w->name,
                                     r->trial->repetition, &r->files, diag);
    if (rc == LS_OK)
        rc = coord_merge_create(
            &(struct coord_merge_options){ .agents = p->agents,
                                           .agent_count = coord_fleet_size(r->fleet),
                                           .warmup_ns = w->warmup->ns,
                                           .measure_ns = w->measure->ns,
                                           .drain_ns = w->timeout->ns,
                                           .interval_ns = w->interval->ns,
                                           .fixed_count = coord_load_is_fixed_count(w),
                                           .offered_per_s = coord_load_offered_per_s(w),
                                           .files = r->files },
            &r->merge, diag);
    if (rc != LS_OK)
        return rc;
    if (r->ship != NULL) {
        coord_ship_files(r->ship, r->trial->target, &files, &file_count);
        coord_ship_plan_files(r->ship, &plan_files, &plan_file_count);
    }
    return coord_machine_create(
        &(struct coord_machine_spec){ .trial = r->trial->index,
                                      .target = r->trial->target,
                                      .workload = w,
                                      .seed = r->options->trials->seed,
                                      .servers = r->cpus.servers,
                                      .clients = coord_fleet_size(r->fleet) - r->cpus.servers,
                                      .names = p->names,
                                      .cpus = p->cpus,
                                      .workers = p->workers,
                                      .files = files,
                                      .file_count = file_count,
                                      .plan_files = plan_files,
                                      .plan_file_count = plan_file_count,
                                      .go_on_without_lost =
                                          r->options->plan->fleet->on_agent_loss ==
                                          LS__AGENT_LOSS__AGENT_LOSS_CONTINUE },
        &env, &r->machine, diag);
}

static bool has_died(const Ls__Server *server)
{
    return server != NULL && server->exit[0] != '\0' && !server->stopped_by_us;
}

/* What the machine and the agents have said of the trial, beside what was measured. */
static void give_reasons(struct run *r, Ls__Trial *trial)
{
    const struct coord_machine_failure *failure = coord_machine_failure(r->machine);

    if (failure != NULL)
        coord_verdict_add(trial, failure->code, LS__VERDICT__VERDICT_INVALID, "%s%s%s",
                          failure->text, failure->log_tail[0] != '\0' ? "; its last words: " : "",
                          failure->log_tail);
    for (uint32_t i = 0; i < coord_fleet_size(r->fleet); i++) {
        if (coord_machine_is_lost(r->machine, i) &&
            (failure == NULL || !failure->agent_lost || failure->agent != i))
            coord_verdict_add(trial, "agent_lost", LS__VERDICT__VERDICT_INVALID, "%s",
                              coord_fleet_agent(r->fleet, i)->why_lost);
    }
    if (r->trouble_code[0] != '\0')
        coord_verdict_add(trial, r->trouble_code, LS__VERDICT__VERDICT_SUSPECT, "%s", r->trouble);
}

/* Of the first host where it changed during the trial. */
static void find_governors(const Ls__Trial *trial, struct coord_verdict_input *in)
{
    if (trial->server != NULL) {
        in->governor_before = trial->server->governor_before;
        in->governor_after = trial->server->governor_after;
        if (strcmp(in->governor_before, in->governor_after) != 0)
            return;
    }
    for (size_t i = 0; i < trial->n_clients; i++) {
        in->governor_before = trial->clients[i]->governor_before;
        in->governor_after = trial->clients[i]->governor_after;
        if (strcmp(in->governor_before, in->governor_after) != 0)
            return;
    }
}

static const Ls__Facts *facts_of(const struct run *r, const char *agent)
{
    for (uint32_t i = 0; i < coord_fleet_size(r->fleet); i++) {
        const struct coord_agent *a = coord_fleet_agent(r->fleet, i);

        if (strcmp(a->name, agent) == 0)
            return a->facts;
    }
    return NULL;
}

/* How near the clients came to what they can do, where that is known. */
static void find_headroom(const struct run *r, Ls__Trial *trial)
{
    const Ls__Facts **facts;

    if (r->calibration == NULL || trial->n_clients == 0)
        return;
    facts = calloc(trial->n_clients, sizeof(*facts));
    for (size_t i = 0; facts != NULL && i < trial->n_clients; i++)
        facts[i] = facts_of(r, trial->clients[i]->agent);
    if (facts == NULL || coord_ceiling_apply(r->calibration, trial, facts) != LS_OK)
        ls_log(LS_LOG_WARN, "run.headroom", "out of memory");
    free(facts);
}

/* A calibration that cannot be read is no reason not to run. */
static void load_calibration(struct run *r)
{
    char path[PATH_MAX];
    struct ls_diag diag;

    if (r->options->calibrating || coord_ceiling_path(path, sizeof(path), &diag) != LS_OK)
        return;
    if (coord_ceiling_load(path, &r->calibration, &diag) != LS_OK)
        coord_progress_say(r->progress, "no calibration: %s", diag.text);
}

static void judge(struct run *r, Ls__Trial *trial, const struct coord_books *books)
{
    const struct coord_machine_failure *failure = coord_machine_failure(r->machine);
    const Ls__Fleet *fleet = r->options->plan->fleet;
    const Ls__Workload *w = r->trial->workload;
    struct coord_verdict_input in;

    give_reasons(r, trial);
    if (failure != NULL && (failure->before_load || failure->agent_lost || r->interrupted)) {
        /* Nothing was measured that could be judged; but why did a preflight fail? */
        if (failure->agent != 0 && has_died(trial->server))
            coord_verdict_add(trial, "target_died", LS__VERDICT__VERDICT_INVALID,
                              "the target ended by itself (%.60s): see target.log",
                              trial->server->exit);
        return;
    }
    in = (struct coord_verdict_input){ .books = books,
                                       .max_start_skew_ns = fleet->max_start_skew->ns,
                                       .connections = w->connections,
                                       .fixed_count = coord_load_is_fixed_count(w),
                                       .has_gaps = coord_load_has_gaps(w),
                                       .is_random = w->load->law_case == LS__LOAD__LAW_POISSON,
                                       .changes = !coord_load_is_steady(w),
                                       .shared_cores = r->cpus.shared,
                                       .shared_why = r->cpus.why,
                                       .server_cpus = r->cpus.servers > 0
                                                          ? ls_cpuset_count(&r->cpus.agents[0])
                                                          : 0 };
    find_governors(trial, &in);
    find_headroom(r, trial);
    coord_verdict_judge(trial, &in);
}

/* From what was measured to a Trial in the result and on the disk. */
static enum ls_err close_trial(struct run *r, struct ls_diag *diag)
{
    const struct coord_machine_failure *failure = coord_machine_failure(r->machine);
    struct coord_books books = { "", "", "" };
    Ls__Trial *trial = coord_fill_trial(r->trial, r->started_wall_ns);
    const char *status =
        failure == NULL || (!failure->before_load && !failure->agent_lost) ? "done" : "failed";
    enum ls_err rc = LS_ENOMEM;

    if (trial == NULL)
        return ls_fail(diag, rc, "out of memory for the trial's result");
    if (coord_merge_finish(r->merge, trial, &books, diag) == LS_EIO) {
        r->store_error = *diag;
        r->store_failed = true;
    }
    if (r->interrupted)
        status = "interrupted";
    if (r->store_failed)
        status = "failed";
    rc = coord_fill_text(&trial->status, status);
    judge(r, trial, &books);
    if (rc == LS_OK && r->files != NULL)
        rc = coord_fill_text(&trial->folder, coord_store_trial_folder(r->files));
    r->incomplete |= strcmp(status, "failed") == 0;
    r->invalid |= trial->verdict == LS__VERDICT__VERDICT_INVALID;
    if (r->store_failed) {
        coord_store_trial_discard(r->files);
        *diag = r->store_error;
        rc = LS_EIO;
    } else if (rc == LS_OK && r->files != NULL && !r->interrupted) {
        rc = coord_store_trial_finish(r->files, trial, diag);
    } else {
        coord_store_trial_discard(r->files); /* an interrupted trial is not kept */
    }
    r->files = NULL;
    for (size_t i = 0; i < trial->n_reasons && !r->interrupted; i++)
        coord_progress_note(r->progress, "%s: %s (%s)",
                            coord_verdict_name(trial->reasons[i]->verdict), trial->reasons[i]->text,
                            trial->reasons[i]->code);
    if (r->interrupted || rc != LS_OK) {
        ls__trial__free_unpacked(trial, NULL);
        return rc;
    }
    return coord_fill_add_trial(r->result, trial, diag);
}

static enum ls_err save(struct run *r, struct ls_diag *diag)
{
    enum ls_err rc;

    coord_fill_hosts(r->result, r->fleet);
    rc = coord_summary_build(r->result);
    if (rc != LS_OK)
        return ls_fail(diag, rc, "out of memory for the summary");
    if (r->store == NULL)
        return LS_OK;
    return coord_store_result(r->store, r->result, diag);
}

/* The next trial needs agents that listen. */
static void give_up_stuck(struct run *r)
{
    for (uint32_t i = 0; i < coord_fleet_size(r->fleet); i++) {
        if (coord_machine_is_stuck(r->machine, i))
            coord_fleet_give_up(r->fleet, i, "did not end its part of the trial in time");
    }
}

static enum ls_err run_trial(struct run *r, const struct coord_trial *trial, struct ls_diag *diag)
{
    struct places places = { 0 };
    enum ls_err rc;

    r->trial = trial;
    r->store_failed = false;
    r->trouble_code[0] = '\0';
    r->started_wall_ns = ls_clock_wall_ns();
    coord_progress_trial(r->progress, trial->index, (uint32_t)r->options->trials->count,
                         trial->target->name, trial->workload->name, trial->repetition);
    rc = places_init(r, trial->workload, &places);
    if (rc == LS_OK)
        rc = open_trial(r, &places, diag);
    else
        (void)ls_fail(diag, rc, "out of memory for the trial");
    if (rc == LS_OK) {
        coord_machine_start(r->machine, ls_clock_mono_ns());
        while (coord_machine_stage(r->machine) != COORD_STAGE_DONE && !r->leaving)
            pump(r, INT64_MAX);
        rc = close_trial(r, diag);
        give_up_stuck(r);
    }
    coord_store_trial_discard(r->files);
    r->files = NULL;
    coord_machine_destroy(r->machine);
    r->machine = NULL;
    coord_merge_destroy(r->merge);
    r->merge = NULL;
    places_fini(&places);
    return rc;
}

/* Agents that were lost are started anew for the next trial, but not for ever. */
static enum ls_err mend_fleet(struct run *r, struct ls_diag *diag)
{
    if (coord_fleet_complete(r->fleet))
        return LS_OK;
    if (r->restarts++ >= RESTARTS_MAX)
        return ls_fail(diag, LS_EIO, "agents were lost in %u trials; giving up", RESTARTS_MAX + 1);
    return gather(r, diag);
}

static enum ls_err run_all(struct run *r, struct ls_diag *diag)
{
    const struct coord_trials *trials = r->options->trials;
    enum ls_err rc;

    coord_fill_unfinished(r->result);
    rc = save(r, diag);
    for (size_t i = 0; i < trials->count && rc == LS_OK && !r->interrupted; i++) {
        rc = mend_fleet(r, diag);
        if (rc == LS_OK && r->ship != NULL)
            rc = coord_ship_send(r->ship, r->fleet, diag);
        if (rc == LS_OK)
            rc = run_trial(r, &trials->items[i], diag);
        if (rc == LS_OK && !r->interrupted)
            rc = save(r, diag);
    }
    return rc;
}

static enum ls_err open_store(struct run *r, struct ls_diag *diag)
{
    const char *dir = r->options->out_dir;
    char name[256];
    enum ls_err rc;

    if (dir != NULL && *dir == '\0')
        return LS_OK;
    if (dir == NULL)
        dir =
            coord_store_default_dir(r->options->plan->name, ls_clock_wall_ns(), name, sizeof(name));
    rc = coord_store_create(dir, &r->store, diag);
    return rc == LS_OK ? coord_store_plan(r->store, r->options->plan_text, diag) : rc;
}

/* All that can be wrong before anything is started: nothing was run then. */
static enum ls_err look_around(struct run *r, struct ls_diag *diag)
{
    enum ls_err rc = coord_ship_create(r->options->plan, r->options->base_dir, &r->ship, diag);

    if (rc == LS_OK)
        rc = divide_cpus(r, diag);
    if (rc == LS_OK)
        rc = open_store(r, diag);
    r->unusable = rc != LS_OK;
    load_calibration(r);
    return rc;
}

/* ---- the whole */

static enum ls_err set_up(struct run *r, struct ls_diag *diag)
{
    unsigned char random[8];
    enum ls_err rc;

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return ls_fail(diag, LS_EIO, "no random numbers for the run's id");
    for (size_t i = 0; i < sizeof(random); i++)
        (void)snprintf(r->run_id + 2 * i, 3, "%02x", random[i]);
    rc = coord_fill_begin(r->result, r->options, r->run_id);
    if (rc != LS_OK)
        return ls_fail(diag, rc, "out of memory for the result");
    r->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    if (r->loop == NULL)
        return ls_fail(diag, LS_ENOMEM, "no event loop could be made");
    ev_timer_init(&r->timer, on_timer, 0., 0.);
    ev_signal_init(&r->on_int, on_signal, SIGINT);
    ev_signal_init(&r->on_term, on_signal, SIGTERM);
    r->on_int.data = r->on_term.data = r;
    ev_signal_start(r->loop, &r->on_int);
    ev_signal_start(r->loop, &r->on_term);
    return LS_OK;
}

static void tear_down(struct run *r)
{
    say_bye(r);
    coord_fleet_destroy(r->fleet);
    ls_transport_fini();
    coord_ship_destroy(r->ship);
    coord_cpus_fini(&r->cpus);
    if (r->calibration != NULL)
        ls__calibration__free_unpacked(r->calibration, NULL);
    coord_progress_destroy(r->progress);
    r->progress = NULL;
    if (r->loop == NULL)
        return;
    ev_signal_stop(r->loop, &r->on_int);
    ev_signal_stop(r->loop, &r->on_term);
    ev_loop_destroy(r->loop);
    /* What follows is the printing of the result: one document, whole. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
}

static int exit_status(const struct run *r, enum ls_err rc)
{
    if (r->interrupted)
        return COORD_EXIT_INTERRUPTED;
    if (rc == LS_ENOMEM)
        return COORD_EXIT_FAULT;
    if (r->unusable)
        return COORD_EXIT_USAGE;
    if (rc != LS_OK || r->incomplete)
        return COORD_EXIT_INCOMPLETE;
    return r->invalid ? COORD_EXIT_INVALID : COORD_EXIT_OK;
}

/* The last word on the run, in the result and on the disk. */
static int finish(struct run *r, enum ls_err rc, struct ls_diag *diag)
{
    int status = exit_status(r, rc);

    if (r->interrupted)
        (void)ls_fail(diag, LS_ESTATE, "the run was interrupted");
    else if (rc != LS_OK)
        coord_progress_say(r->progress, "lockstep: %s", diag->text);
    coord_fill_end(r->result, status, rc != LS_OK || r->interrupted ? diag->text : "");
    if (r->fleet == NULL || save(r, diag) == LS_OK)
        return status;
    coord_progress_say(r->progress, "lockstep: %s", diag->text);
    if (status != COORD_EXIT_OK && status != COORD_EXIT_INVALID)
        return status;
    coord_fill_end(r->result, COORD_EXIT_INCOMPLETE, diag->text);
    return COORD_EXIT_INCOMPLETE;
}

int coord_run(const struct coord_run_options *options, Ls__Result **out_result, char *out_dir_used,
              size_t out_dir_bytes)
{
    struct run r = { .options = options };
    struct ls_diag diag = { 0 };
    enum ls_err rc;
    int status;

    r.result = malloc(sizeof(*r.result));
    if (r.result == NULL)
        return COORD_EXIT_FAULT;
    ls__result__init(r.result);
    r.progress = coord_progress_create(options->quiet);
    out_dir_used[0] = '\0';
    rc = set_up(&r, &diag);
    if (rc == LS_OK)
        rc = look_around(&r, &diag);
    if (rc == LS_OK)
        rc = make_fleet(&r, &diag);
    if (rc == LS_OK)
        rc = run_all(&r, &diag);
    status = finish(&r, rc, &diag);
    tear_down(&r);
    if (r.store != NULL)
        (void)snprintf(out_dir_used, out_dir_bytes, "%s", coord_store_dir(r.store));
    coord_store_close(r.store);
    *out_result = r.result;
    return status;
}

Ls__Result *coord_run_failed(int exit_status, const char *error)
{
    Ls__Result *result = malloc(sizeof(*result));

    if (result == NULL)
        return NULL;
    ls__result__init(result);
    coord_fill_end(result, exit_status, error);
    return result;
}
