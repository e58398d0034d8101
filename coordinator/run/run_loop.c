/* The event loop of a run: signals, what agents report, who is there. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/transport.h"
#include "coordinator/exit.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/result/wall_clock.h"
#include "coordinator/run/run_internal.h"

#define METRICS_NS (500 * LS_NS_PER_MS) /* from one publication to the next */

/* ---- events */

void run_on_signal(void *ctx, int number)
{
    struct run *r = ctx;

    (void)number;
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

void run_on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop;
    (void)w;
    (void)events; /* run_pump() looks at what is due */
}

static struct coord_merge_clock clock_of(const struct coord_agent *agent, int64_t at_ns)
{
    struct coord_merge_clock clock = { .error_ns = INT64_MAX };

    /* Unknown: nothing is known to be near. */
    (void)coord_fleet_offset(agent, at_ns, &clock.offset_ns, &clock.error_ns);
    return clock;
}

/* Exchanges just before the start and just after it say most about it. */
static void look_at_start(struct run *r, const struct coord_agent *agent)
{
    int64_t start_ns = coord_machine_start_ns(r->machine);
    struct coord_merge_clock clock;

    if (start_ns == 0)
        return;
    clock = clock_of(agent, start_ns);
    coord_merge_start_clock(r->merge, agent->index, &clock);
}

/* A report that cannot be kept ends the trial: a full disk never costs the trials before it. */
void run_storing_failed(struct run *r, int64_t now_ns)
{
    if (r->store_failed)
        return;
    r->store_failed = true;
    if (r->machine != NULL)
        coord_machine_abort(r->machine, "not_stored", r->store_error.text, now_ns);
}

/* Between trials nobody does. */
static bool takes_part(const struct run *r, const struct coord_agent *agent)
{
    return r->machine != NULL && agent->index < run_places(r);
}

static enum ls_err on_report(void *ctx, struct coord_agent *agent, const Ls__Envelope *report)
{
    struct run *r = ctx;
    int64_t now_ns = ls_clock_mono_ns();
    struct coord_merge_clock clock = clock_of(agent, now_ns);
    struct ls_diag diag;
    enum ls_err rc;

    if (!takes_part(r, agent))
        return LS_OK; /* the end of a trial that was given up */
    if (r->files != NULL && !r->store_failed &&
        coord_store_append(r->files, agent->index, ls_peer_bytes(agent->peer), &r->store_error) !=
            LS_OK)
        run_storing_failed(r, now_ns);
    if (report->body_case == LS__ENVELOPE__BODY_SERVER && report->server->failure != NULL &&
        report->server->trial == r->trial->index) {
        (void)snprintf(r->trouble_code, sizeof(r->trouble_code), "%s",
                       report->server->failure->code);
        (void)snprintf(r->trouble, sizeof(r->trouble), "%s", report->server->failure->text);
    }
    if (report->body_case == LS__ENVELOPE__BODY_CLIENT)
        look_at_start(r, agent);
    rc = coord_merge_report(r->merge, agent->index, &clock, report, &diag);
    if (rc == LS_OK && r->process != NULL && report->body_case == LS__ENVELOPE__BODY_PROCESS &&
        report->process->trial == r->trial->index)
        rc = coord_process_report(r->process, report->process, &diag);
    if (rc == LS_EIO) {
        r->store_error = diag;
        run_storing_failed(r, now_ns);
    } else if (rc == LS_ENOMEM) { /* what is not counted would be missing unseen */
        coord_machine_abort(r->machine, "no_memory", diag.text, now_ns);
    } else if (rc != LS_OK) {
        ls_log(LS_LOG_WARN, "run.report_refused", "agent=%s %s", agent->name, diag.text);
    }
    coord_machine_report(r->machine, agent->index, report, now_ns);
    return LS_OK; /* what could not be stored has been said; again would be no better */
}

static void on_settle(void *ctx)
{
    struct run *r = ctx;

    if (r->files != NULL && !r->store_failed &&
        coord_store_settle(r->files, &r->store_error) != LS_OK)
        run_storing_failed(r, ls_clock_mono_ns());
}

/* With the first answer of each session: before any load, which waits for more of them. */
static void look_at_wall(struct run *r, struct coord_agent *agent, int64_t now_ns)
{
    int64_t offset_ns, error_ns;
    char text[400];

    if (agent->wall_looked_at || !coord_fleet_wall(agent, now_ns, &offset_ns, &error_ns))
        return;
    agent->wall_looked_at = true;
    if (coord_wall_clock_is_off(agent->name, offset_ns, error_ns, text, sizeof(text)))
        coord_progress_say(r->progress, "%s", text);
}

static void on_clock(void *ctx, struct coord_agent *agent)
{
    struct run *r = ctx;
    int64_t now_ns = ls_clock_mono_ns();
    int64_t offset_ns, error_ns;

    look_at_wall(r, agent, now_ns);
    if (!takes_part(r, agent))
        return;
    look_at_start(r, agent);
    /* An answer that makes no sense is none. */
    if (coord_fleet_offset(agent, now_ns, &offset_ns, &error_ns))
        coord_machine_clock(r->machine, agent->index, now_ns);
}

static void on_lost(void *ctx, struct coord_agent *agent)
{
    struct run *r = ctx;
    struct ls_diag diag;

    r->refused |= agent->refused;
    coord_progress_say(r->progress, "%s", agent->why_lost);
    if (!takes_part(r, agent))
        return;
    if (coord_merge_lost(r->merge, agent->index, &diag) != LS_OK) {
        r->store_error = diag;
        run_storing_failed(r, ls_clock_mono_ns());
    }
    coord_machine_lost(r->machine, agent->index, agent->why_lost, ls_clock_mono_ns());
}

static void on_refused(void *ctx, const char *who, const char *why)
{
    struct run *r = ctx;

    coord_progress_note(r->progress, "refused %s: %s", who, why);
}

const struct coord_fleet_env run_fleet_env = { .report = on_report,
                                               .settle = on_settle,
                                               .clock = on_clock,
                                               .lost = on_lost,
                                               .refused = on_refused };

/* ---- the loop */

/* Figures of now, for whoever scrapes them. */
static void publish(struct run *r, const char *phase, const struct coord_merge_progress *latest,
                    int64_t now_ns)
{
    struct coord_metrics_now now = { .phase = phase };
    struct ls_buf text;

    if (r->metrics == NULL || now_ns < r->metrics_next_ns)
        return;
    r->metrics_next_ns = now_ns + METRICS_NS;
    if (r->machine != NULL) {
        now.target = r->trial->target->name;
        now.workload = r->trial->workload->name;
        now.index = r->trial->index;
        now.repetition = r->trial->repetition;
    }
    if (latest != NULL) {
        now.has_interval = true;
        now.length_ns = latest->length_ns;
        now.completed = latest->completed;
        now.errors = latest->errors;
        now.p50_ns = latest->p50_ns;
        now.p99_ns = latest->p99_ns;
        now.max_ns = latest->max_ns;
    }
    for (uint32_t i = 0; i < coord_fleet_size(r->fleet); i++)
        now.agents += coord_fleet_agent(r->fleet, i)->up;
    ls_buf_init(&text, COORD_METRICS_MAX);
    if (coord_metrics_text(r->result, &now, &text, NULL) == LS_OK)
        coord_metrics_publish(r->metrics, (struct ls_bytes){ text.data, text.len });
    ls_buf_fini(&text);
}

/* What the trial's reports say of the agents; between trials nothing. */
static void look_at_agents(const struct run *r, struct coord_live_agent *agents, uint32_t n)
{
    struct coord_merge_now now;
    double all = 0;

    for (uint32_t i = 0; i < n; i++) {
        agents[i].share = agents[i].cores = agents[i].busiest = -1;
        agents[i].send_lag_p99_ns = agents[i].rss_bytes = -1;
        if (r->merge == NULL)
            continue;
        coord_merge_now(r->merge, i, &now);
        agents[i].share = now.sent_per_s; /* until the sum is known */
        agents[i].cores = now.cores;
        agents[i].busiest = now.busiest;
        agents[i].send_lag_p99_ns = now.send_lag_p99_ns;
        agents[i].rss_bytes = now.rss_bytes;
        all += now.sent_per_s > 0 ? now.sent_per_s : 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (agents[i].share >= 0)
            agents[i].share = all > 0 ? agents[i].share / all : -1;
    }
}

/* Who is there, for whoever looks on. */
static void tell_agents(struct run *r, int64_t now_ns)
{
    uint32_t n = coord_fleet_size(r->fleet);
    struct coord_live_agent *agents;

    if (now_ns < r->agents_next_ns)
        return;
    r->agents_next_ns = now_ns + LS_NS_PER_S;
    agents = calloc(n + 1, sizeof(*agents));
    for (uint32_t i = 0; agents != NULL && i < n; i++) {
        const struct coord_agent *agent = coord_fleet_agent(r->fleet, i);
        int64_t offset_ns;

        agents[i].name = agent->name;
        agents[i].role = i < r->servers ? "server" : "client";
        agents[i].state = agent->lost ? "lost" : agent->up ? "here" : "silent";
        agents[i].clock_error_ns = -1;
        (void)coord_fleet_offset(agent, now_ns, &offset_ns, &agents[i].clock_error_ns);
    }
    if (agents != NULL) {
        look_at_agents(r, agents, n);
        coord_live_agents(r->live, agents, n);
        coord_progress_agents(r->progress, agents, n);
    }
    free(agents);
}

static void look_at_server(const struct run *r, struct coord_live_now *now)
{
    struct coord_merge_now server;

    now->cores = now->rss_bytes = now->switches_per_s = -1;
    if (r->merge == NULL || r->servers == 0)
        return;
    coord_merge_now(r->merge, run_server_of(r, r->trial->target), &server);
    now->cores = server.cores;
    now->rss_bytes = (double)server.rss_bytes;
    now->switches_per_s = server.switches_per_s;
}

static void tell_live(struct run *r, const char *phase, int64_t end_ns,
                      const struct coord_merge_progress *latest, int64_t now_ns)
{
    struct coord_live_now now = { .phase = phase, .left_s = -1 };
    uint64_t heat[COORD_HEAT_ROWS] = { 0 };

    if (r->live == NULL)
        return;
    if (r->merge != NULL && coord_merge_take_heat(r->merge, heat))
        now.heat = heat;
    look_at_server(r, &now);
    if (end_ns > now_ns)
        now.left_s = (double)(end_ns - now_ns) / 1e9;
    if (latest != NULL) {
        now.has_interval = true;
        now.at_ns = latest->at_ns;
        now.length_ns = latest->length_ns;
        now.completed = latest->completed;
        now.scheduled = latest->scheduled;
        now.errors = latest->errors;
        now.p50_ns = latest->p50_ns;
        now.p99_ns = latest->p99_ns;
        now.max_ns = latest->max_ns;
        now.open_loop = coord_load_is_open(r->trial->workload);
    }
    coord_live_tick(r->live, now_ns, &now);
}

static void show(struct run *r, int64_t now_ns)
{
    struct coord_merge_progress latest;
    const struct coord_merge_progress *known = NULL;
    const char *phase;
    int64_t end_ns = 0;
    const Ls__Workload *w;

    tell_agents(r, now_ns);
    if (r->machine == NULL) {
        publish(r, "", NULL, now_ns);
        tell_live(r, "between trials", 0, NULL, now_ns);
        return;
    }
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
    publish(r, phase, known, now_ns);
    tell_live(r, phase, end_ns, known, now_ns);
}

/* Waits for the next event, at most until due_ns, and does what is due. */
void run_pump(struct run *r, int64_t due_ns)
{
    int64_t now_ns = ls_clock_mono_ns();
    int64_t next_ns = now_ns + LS_NS_PER_S;
    int64_t machine_ns;

    coord_fleet_sweep(r->fleet, now_ns);
    if (r->machine != NULL && r->command_failed[0] != '\0')
        coord_machine_abort(r->machine, "command", r->command_failed, now_ns);
    if (r->machine != NULL) {
        machine_ns = coord_machine_tick(r->machine, now_ns);
        next_ns = machine_ns < next_ns ? machine_ns : next_ns;
        if (coord_machine_stage(r->machine) == COORD_STAGE_DONE)
            return;
    }
    show(r, now_ns);
    if (due_ns < next_ns)
        next_ns = due_ns;
    if (r->machine != NULL && coord_progress_next_ns(r->progress) < next_ns)
        next_ns = coord_progress_next_ns(r->progress);
    ev_timer_stop(r->loop, &r->timer);
    ev_now_update(r->loop);
    ev_timer_set(&r->timer, next_ns > now_ns ? (double)(next_ns - now_ns) / 1e9 : 0., 0.);
    ev_timer_start(r->loop, &r->timer);
    ev_run(r->loop, EVRUN_ONCE);
}
