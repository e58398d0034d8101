/* One trial of a run: from the first command to its place in the result and on the disk. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/pb.h"
#include "common/units.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/result/message.h"
#include "coordinator/result/series.h"
#include "coordinator/result/summary.h"
#include "coordinator/run/fill.h"
#include "coordinator/run/older.h"
#include "coordinator/run/pages.h"
#include "coordinator/run/run_internal.h"
#include "coordinator/run/verdict.h"

#define CLOCK_STEP_NS LS_NS_PER_MS /* less is a drift beyond what is assumed */

static void do_command(void *ctx, uint32_t agent, Ls__Envelope *command)
{
    struct run *r = ctx;
    struct ls_diag diag;

    enum ls_err rc = coord_fleet_command(r->fleet, agent, command, &diag);

    if (rc == LS_ESTATE) /* its loss is told separately */
        ls_log(LS_LOG_INFO, "run.command", "%s", diag.text);
    else if (rc != LS_OK && r->command_failed[0] == '\0')
        (void)snprintf(r->command_failed, sizeof(r->command_failed), "agent %s: %s",
                       coord_fleet_agent(r->fleet, agent)->name, diag.text);
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
    struct coord_clock clock;

    if (!coord_fleet_clock(a, ls_clock_mono_ns(), &clock))
        return false;
    *out_offset_ns = clock.offset_ns;
    *out_slowest_ns = ls_offset_slowest_ns(&a->offset); /* commands go through the session */
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
        run_storing_failed(r, ls_clock_mono_ns());
    } else if (rc != LS_OK) {
        coord_machine_abort(r->machine, "no_start", diag.text, ls_clock_mono_ns());
    }
    for (uint32_t i = 0; i < run_places(r); i++) {
        struct coord_clock clock;

        if (coord_fleet_clock(coord_fleet_agent(r->fleet, i), start_ns, &clock))
            coord_merge_start_clock(r->merge, i,
                                    &(struct coord_merge_clock){ .offset_ns = clock.offset_ns,
                                                                 .error_ns = clock.error_ns });
    }
}

/* What an agent needs to know, as the machine's spec wants it: one entry per agent. */
struct places {
    const char **names;
    const char **cpus;
    char (*cpu_texts)[128];
    uint32_t *workers;
    char **servers; /* addresses of server agents; entries are the fleet's */
    size_t server_count;
    struct coord_merge_agent *agents;
};

static void places_fini(struct places *p)
{
    free(p->names);
    free(p->cpus);
    free(p->cpu_texts);
    free(p->workers);
    free(p->servers);
    free(p->agents);
}

/* No worker without a connection: the first workers have the larger shares. */
static uint32_t workers_of(const struct run *r, const struct coord_agent *a, uint32_t connections)
{
    uint32_t n = r->options->workers_per_client;

    if (a->index < r->servers)
        return 0;
    if (n == 0)
        n = ls_cpuset_count(&a->cpus);
    if (r->clients_used > 0 && n > connections / r->clients_used)
        n = connections / r->clients_used;
    return n > 0 ? n : 1;
}

/* Where it wants to be reached, and where it has come from; local ones are on loopback. */
static void add_server(struct places *p, const struct run *r, struct coord_agent *a)
{
    if (a->index >= r->servers || a->address[0] == '\0')
        return;
    p->servers[p->server_count++] = a->address;
    if (strcmp(a->address, a->from) != 0)
        p->servers[p->server_count++] = a->from;
}

static enum ls_err places_init(const struct run *r, const Ls__Workload *workload,
                               struct places *out)
{
    uint32_t n = run_places(r);
    struct places p = { .names = calloc(n, sizeof(*p.names)),
                        .cpus = calloc(n, sizeof(*p.cpus)),
                        .cpu_texts = calloc(n, sizeof(*p.cpu_texts)),
                        .workers = calloc(n, sizeof(*p.workers)),
                        .servers = calloc(2 * (size_t)n, sizeof(*p.servers)),
                        .agents = calloc(n, sizeof(*p.agents)) };

    if (p.names == NULL || p.cpus == NULL || p.cpu_texts == NULL || p.workers == NULL ||
        p.servers == NULL || p.agents == NULL) {
        places_fini(&p);
        return LS_ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct coord_agent *a = coord_fleet_agent(r->fleet, i);

        p.names[i] = a->name;
        p.cpus[i] = ls_cpuset_format(&a->cpus, p.cpu_texts[i], sizeof(p.cpu_texts[i]));
        p.workers[i] = workers_of(r, a, workload->connections);
        add_server(&p, r, a);
        p.agents[i] =
            (struct coord_merge_agent){ .name = a->name, .role = a->role, .share = p.workers[i] };
    }
    *out = p;
    return LS_OK;
}

static int64_t start_lead_of(const Ls__Fleet *fleet)
{
    return fleet->start_lead != NULL ? fleet->start_lead->ns : 0;
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
        rc = coord_store_trial_begin(r->store, r->trial->index, r->trial->target->name, r->part,
                                     r->trial->repetition, &r->files, diag);
    if (rc == LS_OK && coord_process_is(w))
        rc = coord_process_create(w, &r->process, diag);
    if (rc == LS_OK)
        rc = coord_merge_create(
            &(struct coord_merge_options){ .trial = r->trial->index,
                                           .agents = p->agents,
                                           .agent_count = run_places(r),
                                           .warmup_ns = w->warmup->ns,
                                           .measure_ns = w->measure->ns,
                                           .drain_ns = w->timeout->ns,
                                           .interval_ns = w->interval->ns,
                                           .fixed_count = coord_load_is_fixed_count(w),
                                           .offered_per_s = coord_load_offered_per_s(w),
                                           .limits_ns = r->limits_ns,
                                           .limit_count = r->limit_count,
                                           .files = r->files },
            &r->merge, diag);
    if (rc != LS_OK)
        return rc;
    if (r->ship != NULL) {
        coord_ship_files(r->ship, r->trial->target, w, &files, &file_count);
        coord_ship_plan_files(r->ship, &plan_files, &plan_file_count);
    }
    return coord_machine_create(
        &(struct coord_machine_spec){ .trial = r->trial->index,
                                      .target = &r->target,
                                      .workload = w,
                                      .seed = r->trial->seed,
                                      .servers = r->servers,
                                      .server = run_server_of(r, r->trial->target),
                                      .clients = r->clients_used,
                                      .names = p->names,
                                      .cpus = p->cpus,
                                      .workers = p->workers,
                                      .server_addresses = p->servers,
                                      .server_address_count = p->server_count,
                                      .files = files,
                                      .file_count = file_count,
                                      .plan_files = plan_files,
                                      .plan_file_count = plan_file_count,
                                      .keep_server = r->keep_server,
                                      .start_lead_ns = start_lead_of(r->options->plan->fleet),
                                      .go_on_without_lost =
                                          r->options->plan->fleet->on_agent_loss ==
                                          LS__AGENT_LOSS__AGENT_LOSS_CONTINUE },
        &env, &r->machine, diag);
}

static bool has_died(const Ls__Server *server)
{
    return server != NULL && server->exit[0] != '\0' && !server->stopped_by_us;
}

/* Clocks that jump make nonsense of what was measured by them. */
static void give_step(const struct run *r, Ls__Trial *trial, const struct coord_agent *a)
{
    struct coord_clock clock;
    char stepped[48];

    if (!coord_fleet_clock(a, ls_clock_mono_ns(), &clock) ||
        clock.steps <= r->steps_before[a->index] || clock.stepped_ns < CLOCK_STEP_NS)
        return;
    coord_verdict_add(trial, "clock_step", LS__VERDICT__VERDICT_INVALID,
                      "the clock of agent %s jumped against ours by %s or more: was its machine "
                      "suspended, or moved?",
                      a->name,
                      ls_human_duration((double)clock.stepped_ns, stepped, sizeof(stepped)));
}

static void note_steps(struct run *r)
{
    struct coord_clock clock;

    for (uint32_t i = 0; i < run_places(r); i++)
        r->steps_before[i] =
            coord_fleet_clock(coord_fleet_agent(r->fleet, i), ls_clock_mono_ns(), &clock)
                ? clock.steps
                : 0;
}

/* "client-2: ", for a sentence of one of several that does not say whose it is. */
static const char *whose(const struct run *r, const struct coord_machine_failure *failure,
                         char *out, size_t out_bytes)
{
    const struct coord_agent *a;

    out[0] = '\0';
    if (failure->agent == UINT32_MAX)
        return out;
    a = coord_fleet_agent(r->fleet, failure->agent);
    if (a->role == LS__ROLE__ROLE_CLIENT && strstr(failure->text, a->name) == NULL)
        (void)snprintf(out, out_bytes, "%s: ", a->name);
    return out;
}

/* How much of the load there was, where the others went on. Returns out. */
static const char *describe_coverage(const Ls__Trial *trial, char *out, size_t out_bytes)
{
    const Ls__Coverage *c = trial->coverage;
    char since[48];

    out[0] = '\0';
    if (c != NULL)
        (void)snprintf(out, out_bytes,
                       "; without %u of %u clients from %s of the window on, %.1f %% of the "
                       "planned load was there",
                       c->clients_lost, c->clients,
                       ls_human_duration((double)c->since_ns, since, sizeof(since)), 100 * c->load);
    return out;
}

/* What the machine and the agents have said of the trial, beside what was measured. */
static void give_reasons(struct run *r, Ls__Trial *trial)
{
    const struct coord_machine_failure *failure = coord_machine_failure(r->machine);
    char name[160];
    char coverage[160];

    if (failure != NULL)
        coord_verdict_add(trial, failure->code, LS__VERDICT__VERDICT_INVALID, "%s%s%s%s",
                          whose(r, failure, name, sizeof(name)), failure->text,
                          failure->log_tail[0] != '\0' ? "; its last words: " : "",
                          failure->log_tail);
    for (uint32_t i = 0; i < run_places(r); i++)
        give_step(r, trial, coord_fleet_agent(r->fleet, i));
    for (uint32_t i = 0; i < run_places(r); i++) {
        if (coord_machine_is_lost(r->machine, i) &&
            (failure == NULL || !failure->agent_lost || failure->agent != i))
            coord_verdict_add(trial, "agent_lost", LS__VERDICT__VERDICT_INVALID, "%s%s",
                              coord_machine_why_lost(r->machine, i),
                              describe_coverage(trial, coverage, sizeof(coverage)));
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
void run_load_calibration(struct run *r)
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

    if (run_cell_is_skipped(failure))
        return;
    give_reasons(r, trial);
    if (failure != NULL && (failure->before_load || failure->agent_lost || r->interrupted)) {
        /* Nothing was measured that could be judged; but why did a preflight fail? */
        if (failure->agent != 0 && has_died(trial->server))
            coord_verdict_add(trial, "target_died", LS__VERDICT__VERDICT_INVALID,
                              "the target ended by itself (%.60s): see target.log",
                              trial->server->exit);
        return;
    }
    if (r->process != NULL) {
        coord_process_judge(r->process, trial, r->result);
        return;
    }
    in = (struct coord_verdict_input){
        .books = books,
        .max_start_skew_ns = fleet->max_start_skew->ns,
        .connections = w->connections,
        .fixed_count = coord_load_is_fixed_count(w),
        .has_gaps = coord_load_has_gaps(w),
        .is_random = w->load->law_case == LS__LOAD__LAW_POISSON,
        .changes = !coord_load_is_steady(w),
        .shared_cores = r->cpus.shared,
        .shared_why = r->cpus.why,
        .server_cpus = r->servers > 0 && !r->trial->target->external
                           ? ls_cpuset_count(&r->cpus.agents[run_server_of(r, r->trial->target)])
                           : 0
    };
    find_governors(trial, &in);
    find_headroom(r, trial);
    coord_verdict_judge(trial, &in);
}

/* A client that has an address of its own may still be a neighbour on the server's machine: in a
 * lab of namespaces, or a container. */
static enum ls_err find_path(const struct run *r, Ls__Trial *trial)
{
    const char *server_host, *path = NULL;

    if (trial->server == NULL || trial->network == NULL)
        return LS_OK;
    server_host = coord_fleet_agent(r->fleet, run_server_of(r, r->trial->target))->hello->host_id;
    for (size_t i = 0; i < trial->n_clients; i++) {
        Ls__NetworkUse *network = trial->clients[i]->network;
        const struct coord_agent *a = coord_fleet_agent(r->fleet, r->servers + (uint32_t)i);

        if (network == NULL)
            continue;
        if (strcmp(network->path, "network") == 0 && strcmp(a->hello->host_id, server_host) == 0 &&
            coord_fill_text(&network->path, "same host") != LS_OK)
            return LS_ENOMEM;
        path = path == NULL || strcmp(path, network->path) == 0 ? network->path : "mixed";
    }
    return path != NULL ? coord_fill_text(&trial->network->path, path) : LS_OK;
}

static enum ls_err fill_address(const struct run *r, Ls__Trial *trial)
{
    char address[80];

    if (r->process != NULL)
        return LS_OK; /* nobody connects to it */
    (void)snprintf(address, sizeof(address),
                   strchr(r->target.host, ':') != NULL ? "[%s]:%" PRIu32 : "%s:%" PRIu32,
                   r->target.host, r->target.port);
    return coord_fill_text(&trial->address, address);
}

/* What makes it the same row in a later run: as the plan has it, also where this is a probe. */
static enum ls_err fill_row(const struct run *r, Ls__Trial *trial, struct ls_diag *diag)
{
    const Ls__Plan *plan = r->options->plan;
    const Ls__Target *target = plan->targets[0];
    const Ls__Workload *workload = plan->workloads[0];
    char hex[LS_SHA256_HEX];
    enum ls_err rc;

    for (size_t i = 0; i < plan->n_targets; i++) {
        if (strcmp(plan->targets[i]->name, trial->target) == 0)
            target = plan->targets[i];
    }
    for (size_t i = 0; i < plan->n_workloads; i++) {
        if (strcmp(plan->workloads[i]->name, trial->workload) == 0)
            workload = plan->workloads[i];
    }
    rc = coord_older_row_sha256(target, workload, r->options->base_dir, hex, diag);
    return rc == LS_OK ? coord_fill_text(&trial->row_sha256, hex) : rc;
}

/* What everybody has looked at is kept in fewer points, where it is long. Who asks for parts of a
 * trial looks at them afterwards, and no result lists them. */
static enum ls_err make_shorter(const struct run *r, Ls__Trial *trial, struct ls_diag *diag)
{
    if (strcmp(r->part, r->trial->workload->name) != 0 ||
        coord_series_thin(trial, coord_series_points(r->result->trials_planned)) == LS_OK)
        return LS_OK;
    return ls_fail(diag, LS_ENOMEM, "no memory for the trial's time series");
}

/* From what was measured to a Trial on the disk. It is handed out unless the run was interrupted or
 * the disk did not take it: *out_trial is then NULL. */
static enum ls_err close_trial(struct run *r, Ls__Trial **out_trial, struct ls_diag *diag)
{
    const struct coord_machine_failure *failure = coord_machine_failure(r->machine);
    struct coord_books books = { "", "", "" };
    enum ls_err merged;
    Ls__Trial *trial = coord_fill_trial(r->trial, r->started_wall_ns);
    const char *status =
        failure == NULL || (!failure->before_load && !failure->agent_lost) ? "done" : "failed";
    enum ls_err rc = LS_ENOMEM;

    if (trial == NULL)
        return ls_fail(diag, rc, "out of memory for the trial's result");
    merged = coord_merge_finish(r->merge, trial, &books, diag);
    if (merged == LS_OK && r->process != NULL)
        merged = coord_process_finish(r->process, trial, r->files, diag);
    if (merged == LS_EIO) {
        r->store_error = *diag;
        r->store_failed = true;
    } else if (merged != LS_OK) { /* half a result is none */
        coord_store_trial_discard(r->files);
        r->files = NULL;
        ls__trial__free_unpacked(trial, NULL);
        return merged;
    }
    if (run_cell_is_skipped(failure))
        status = "skipped";
    if (r->interrupted)
        status = "interrupted";
    if (r->store_failed)
        status = "failed";
    rc = coord_fill_text(&trial->status, status);
    if (rc == LS_OK)
        rc = fill_address(r, trial);
    trial->body_bytes = coord_pages_body_bytes(r->trial->workload, r->options->base_dir);
    if (rc == LS_OK)
        rc = find_path(r, trial);
    if (rc == LS_OK)
        rc = fill_row(r, trial, diag);
    judge(r, trial, &books);
    if (rc == LS_OK)
        rc = make_shorter(r, trial, diag);
    if (rc == LS_OK)
        rc = run_cell_fill(failure, trial);
    if (rc == LS_OK && r->files != NULL)
        rc = coord_fill_text(&trial->folder, coord_store_trial_folder(r->files));
    r->incomplete |= strcmp(status, "failed") == 0;
    r->refused |= failure != NULL && strcmp(failure->code, "policy") == 0;
    r->invalid |=
        trial->verdict == LS__VERDICT__VERDICT_INVALID && !coord_trial_is_discarded(trial);
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
    if (!r->interrupted)
        coord_progress_reasons(r->progress, trial);
    if (r->interrupted || rc != LS_OK) {
        ls__trial__free_unpacked(trial, NULL);
        return rc;
    }
    *out_trial = trial;
    return LS_OK;
}

/* The next trial needs agents that listen. */
static void give_up_stuck(struct run *r)
{
    for (uint32_t i = 0; i < run_places(r); i++) {
        if (coord_machine_is_stuck(r->machine, i))
            coord_fleet_give_up(r->fleet, i, "did not end its part of the trial in time");
    }
}

/* A trial on its own, whatever becomes of it. part: how its folder calls the workload. */
enum ls_err run_measure(struct run *r, const struct coord_trial *trial, const char *part,
                        Ls__Trial **out_trial, struct ls_diag *diag)
{
    struct places places = { 0 };
    enum ls_err rc;

    *out_trial = NULL;
    r->trial = trial;
    r->part = part;
    r->target = *trial->target;
    r->target.host = ls_pb_text(run_target_host(r, trial->target));
    r->store_failed = false;
    r->trouble_code[0] = '\0';
    r->command_failed[0] = '\0';
    r->started_wall_ns = ls_clock_wall_ns();
    coord_progress_trial(r->progress, trial->index, r->result->trials_planned, trial->target->name,
                         trial->workload->name, trial->repetition);
    note_steps(r);
    rc = places_init(r, trial->workload, &places);
    if (rc == LS_OK)
        rc = open_trial(r, &places, diag);
    else
        (void)ls_fail(diag, rc, "out of memory for the trial");
    if (rc == LS_OK) {
        coord_machine_start(r->machine, ls_clock_mono_ns());
        while (coord_machine_stage(r->machine) != COORD_STAGE_DONE && !r->leaving)
            run_pump(r, INT64_MAX);
        rc = close_trial(r, out_trial, diag);
        give_up_stuck(r);
    }
    coord_store_trial_discard(r->files);
    r->files = NULL;
    coord_machine_destroy(r->machine);
    r->machine = NULL;
    coord_merge_destroy(r->merge);
    r->merge = NULL;
    coord_process_destroy(r->process);
    r->process = NULL;
    places_fini(&places);
    return rc;
}

enum ls_err run_one_trial(struct run *r, const struct coord_trial *trial, struct ls_diag *diag)
{
    Ls__Trial *measured = NULL;
    enum ls_err rc = run_cell_without_trial(r, trial, &measured);

    if (rc != LS_OK)
        return ls_fail(diag, rc, "out of memory for the trial's result");
    if (measured != NULL) { /* a cell without figures */
        coord_progress_trial(r->progress, trial->index, r->result->trials_planned,
                             trial->target->name, trial->workload->name, trial->repetition);
        rc = fill_row(r, measured, diag);
    }
    if (measured == NULL)
        rc = coord_load_is_search(trial->workload) ? run_search(r, trial, &measured, diag)
             : coord_load_is_ladder(trial->workload)
                 ? run_ladder(r, trial, &measured, diag)
                 : run_measure(r, trial, trial->workload->name, &measured, diag);
    if (rc != LS_OK)
        coord_message_free(measured);
    if (rc != LS_OK || measured == NULL)
        return rc;
    coord_progress_done(r->progress, measured);
    return coord_fill_add_trial(r->result, measured, diag);
}
