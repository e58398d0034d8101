#include "coordinator/run/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/transport.h"
#include "coordinator/bundle/plan_files.h"
#include "coordinator/exit.h"
#include "coordinator/pki/sign.h"
#include "coordinator/result/report.h"
#include "coordinator/result/summary.h"
#include "coordinator/run/fill.h"
#include "coordinator/run/labels.h"
#include "coordinator/run/limits.h"
#include "coordinator/run/older.h"
#include "coordinator/run/pages.h"
#include "coordinator/run/run_internal.h"

#define RESTARTS_MAX    3u
#define SAME_SECOND_MAX 99u /* runs of a plan */

/* What follows from the trials and the fleet as they are now. */
static enum ls_err complete_result(struct run *r, struct ls_diag *diag)
{
    enum ls_err rc;

    coord_fill_hosts(r->result, r->fleet);
    rc = coord_summary_build(r->result);
    if (rc == LS_OK)
        rc = coord_pages_build(r->result, r->options->plan);
    return rc == LS_OK ? rc : ls_fail(diag, rc, "out of memory for the summary");
}

static enum ls_err save(struct run *r, struct ls_diag *diag)
{
    enum ls_err rc = complete_result(r, diag);

    return rc == LS_OK && r->store != NULL ? coord_store_result(r->store, r->result, diag) : rc;
}

/* Agents that were lost are started anew for the next trial, but not for ever; remote ones are
 * waited for. */
static enum ls_err mend_fleet(struct run *r, struct ls_diag *diag)
{
    if (coord_fleet_complete(r->fleet))
        return LS_OK;
    if (coord_fleet_is_local(r->fleet) && r->restarts++ >= RESTARTS_MAX)
        return ls_fail(diag, LS_EIO, "agents were lost in %u trials; giving up", RESTARTS_MAX + 1);
    return run_gather(r, diag);
}

enum ls_err run_make_ready(struct run *r, struct ls_diag *diag)
{
    enum ls_err rc;

    do { /* one may go away just when it gets its files */
        rc = mend_fleet(r, diag);
        if (rc == LS_OK)
            rc = coord_ship_send(r->ship, r->fleet, diag);
    } while (rc == LS_ESTATE && !r->interrupted);
    return rc;
}

static bool is_there(const Ls__Result *result, uint32_t index)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        if (result->trials[i]->index == index)
            return true;
    }
    return false;
}

/* What is not run again, before anything is run: nothing was lost if it cannot be had. */
static enum ls_err merge_older(struct run *r, struct ls_diag *diag)
{
    const struct coord_older older = { .plan = r->options->plan,
                                       .running = r->options->trials,
                                       .base_dir = r->options->base_dir,
                                       .dir = r->options->merge };
    enum ls_err rc = coord_older_take(&older, r->store, r->result, diag);

    r->unusable = rc != LS_OK;
    if (rc != LS_OK)
        return rc;
    r->result->trials_planned += coord_older_count(r->result);
    return save(r, diag);
}

static enum ls_err run_all(struct run *r, struct ls_diag *diag)
{
    const struct coord_trials *trials = r->options->trials;
    uint32_t base;
    enum ls_err rc;

    rc = save(r, diag); /* with the hosts */
    if (rc == LS_OK && r->options->merge != NULL && r->result->n_merged == 0)
        rc = merge_older(r, diag);
    base = coord_older_count(r->result);
    for (size_t i = 0; i < trials->count && rc == LS_OK && !r->interrupted; i++) {
        struct coord_trial trial = trials->items[i];

        trial.index += base;
        if (is_there(r->result, trial.index))
            continue;
        rc = run_make_ready(r, diag);
        if (rc == LS_OK)
            rc = run_one_trial(r, &trial, diag);
        if (rc == LS_OK && !r->interrupted)
            rc = save(r, diag);
        coord_live_result(r->live, r->result);
    }
    return rc;
}

static bool is_unfinished(const struct run *r)
{
    const struct coord_trials *trials = r->options->trials;

    for (size_t i = 0; i < trials->count; i++) {
        if (!is_there(r->result, trials->items[i].index))
            return true;
    }
    return false;
}

/* A folder of our own choosing: another run of the plan may have begun in the same second. */
static enum ls_err create_store(struct run *r, struct ls_diag *diag)
{
    char name[256], numbered[272];
    enum ls_err rc;

    (void)coord_store_default_dir(r->options->plan->name, ls_clock_wall_ns(), name, sizeof(name));
    rc = coord_store_create(name, &r->store, diag);
    for (unsigned i = 2; rc == LS_ESTATE && i <= SAME_SECOND_MAX; i++) {
        (void)snprintf(numbered, sizeof(numbered), "%s-%u", name, i);
        rc = coord_store_create(numbered, &r->store, diag);
    }
    return rc;
}

static enum ls_err open_store(struct run *r, struct ls_diag *diag)
{
    const char *dir = r->options->out_dir;
    bool resumed = r->store != NULL;
    enum ls_err rc = LS_OK;

    if (!resumed && dir != NULL && *dir == '\0')
        return LS_OK;
    if (r->options->keys != NULL)
        rc = coord_signer_open(r->options->keys, &r->signer, diag);
    if (rc == LS_OK && !resumed)
        rc = dir != NULL ? coord_store_create(dir, &r->store, diag) : create_store(r, diag);
    if (rc == LS_OK)
        coord_store_sign(r->store, r->signer);
    if (rc == LS_OK && !resumed)
        rc = coord_store_plan(r->store, r->options->plan_text, diag);
    return rc;
}

/* What it takes to go on with this run one day. */
static enum ls_err note_origin(struct run *r, struct ls_diag *diag)
{
    const struct coord_run_options *o = r->options;
    const char *listen = coord_fleet_is_local(r->fleet) ? "" : coord_fleet_url(r->fleet);
    char *folder = realpath(o->base_dir, NULL);
    enum ls_err rc = folder != NULL ? coord_fill_text(&r->result->plan_folder, folder) : LS_OK;

    free(folder);
    if (rc == LS_OK)
        rc = coord_fill_text(&r->result->listen, listen);
    if (rc == LS_OK)
        rc = coord_fill_text(&r->result->agents_folder, coord_fleet_folder(r->fleet));
    if (rc == LS_OK && o->merge != NULL)
        rc = coord_fill_text(&r->result->merge, o->merge);
    if (rc == LS_OK && o->resumed == NULL)
        rc = coord_fill_changes(r->result, o->set, o->set_count, o->only);
    if (rc == LS_OK && o->resumed == NULL)
        rc = coord_labels_fill(r->result, o->labels, o->label_count);
    return rc == LS_OK ? rc : ls_fail(diag, rc, "out of memory for the result");
}

/* As Ctrl-C does. On a thread of the live page's. */
static void stop_run(void *ctx)
{
    (void)ctx;
    (void)kill(getpid(), SIGINT);
}

static enum ls_err start_live(struct run *r, struct ls_diag *diag)
{
    enum ls_err rc =
        coord_live_start(r->options->ui, r->options->plan->name, stop_run, r, &r->live, diag);

    r->unusable = rc != LS_OK;
    if (rc != LS_OK)
        return rc;
    coord_progress_say(r->progress, "live page: %s", coord_live_url(r->live));
    coord_progress_attach(r->progress, r->live);
    return LS_OK;
}

/* All that can be wrong before anything is started: nothing was run then. */
static enum ls_err look_around(struct run *r, struct ls_diag *diag)
{
    enum ls_err rc = coord_ship_create(r->options->plan, r->options->base_dir, &r->ship, diag);

    if (rc == LS_OK)
        rc = run_plan_fleet(r, diag);
    if (rc == LS_OK)
        rc = coord_limits_files(r->servers + r->clients, diag);
    if (rc == LS_OK)
        rc = coord_limits_series(r->options->trials, diag);
    r->unusable = rc != LS_OK;
    if (rc == LS_OK && r->options->ui != NULL)
        rc = start_live(r, diag);
    if (rc == LS_OK && r->options->metrics != NULL) {
        rc = coord_metrics_start(r->options->metrics, &r->metrics, diag);
        r->unusable = rc != LS_OK;
        if (rc == LS_OK)
            coord_progress_say(r->progress, "metrics: %s", coord_metrics_url(r->metrics));
    }
    if (rc == LS_OK)
        rc = run_create_fleet(r, diag);
    if (rc != LS_OK)
        return rc;
    rc = open_store(r, diag);
    if (rc == LS_OK)
        rc = note_origin(r, diag);
    if (rc == LS_OK && r->options->resumed == NULL)
        rc = coord_plan_files(r->options->plan, r->options->base_dir, r->result, diag);
    if (rc == LS_OK) { /* from now on it can be resumed, whatever happens */
        coord_fill_unfinished(r->result);
        rc = save(r, diag);
    }
    r->begun = rc == LS_OK;
    r->unusable = !r->begun;
    run_load_calibration(r);
    return rc;
}

static enum ls_err set_up(struct run *r, struct ls_diag *diag)
{
    unsigned char random[8];
    enum ls_err rc;

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return ls_fail(diag, LS_EIO, "no random numbers for the run's id");
    for (size_t i = 0; i < sizeof(random); i++)
        (void)snprintf(r->run_id + 2 * i, 3, "%02x", random[i]);
    rc = r->options->resumed == NULL ? coord_fill_begin(r->result, r->options, r->run_id) : LS_OK;
    if (rc != LS_OK)
        return ls_fail(diag, rc, "out of memory for the result");
    r->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    if (r->loop == NULL)
        return ls_fail(diag, LS_ENOMEM, "no event loop could be made");
    ev_timer_init(&r->timer, run_on_timer, 0., 0.);
    coord_signals_begin(&r->signals, r->loop, run_on_signal, r);
    return LS_OK;
}

/* The run has moved off the servers' CPUs; the next one of this process divides all of them anew.
 */
static void give_cpus_back(const struct run *r)
{
    struct ls_diag diag;

    if (ls_cpuset_count(&r->allowed) > 0 && ls_cpuset_set_affinity(0, &r->allowed, &diag) != LS_OK)
        coord_progress_say(r->progress, "lockstep: %s", diag.text);
}

static void tear_down(struct run *r)
{
    run_say_bye(r);
    coord_fleet_destroy(r->fleet);
    ls_transport_fini();
    coord_ship_destroy(r->ship);
    coord_cpus_fini(&r->cpus);
    if (r->calibration != NULL)
        ls__calibration__free_unpacked(r->calibration, NULL);
    coord_metrics_stop(r->metrics);
    coord_live_destroy(r->live);
    give_cpus_back(r);
    coord_progress_destroy(r->progress);
    r->progress = NULL;
    if (r->loop == NULL)
        return;
    coord_signals_end(&r->signals);
    ev_loop_destroy(r->loop);
}

static int exit_status(const struct run *r, enum ls_err rc)
{
    if (r->interrupted)
        return COORD_EXIT_INTERRUPTED;
    if (rc == LS_ENOMEM)
        return COORD_EXIT_FAULT;
    if (r->unusable)
        return COORD_EXIT_USAGE;
    if (r->refused)
        return COORD_EXIT_REFUSED;
    if (rc != LS_OK || r->incomplete)
        return COORD_EXIT_INCOMPLETE;
    return r->invalid ? COORD_EXIT_INVALID : COORD_EXIT_OK;
}

/* For whoever opens the folder. Without it the result is no worse. */
static void write_report(struct run *r)
{
    struct ls_diag diag = { 0 };
    struct ls_buf page;
    enum ls_err rc;

    ls_buf_init(&page, COORD_RESULT_MAX_BYTES);
    rc = coord_report(r->result, COORD_REPORT_HTML,
                      &(struct coord_report_options){ .dir = coord_store_dir(r->store) }, &page,
                      &diag);
    if (rc == LS_OK)
        rc = coord_store_report(r->store, (struct ls_bytes){ page.data, page.len }, &diag);
    if (rc != LS_OK)
        coord_progress_say(r->progress, "lockstep: no report.html: %s", diag.text);
    ls_buf_fini(&page);
}

static enum ls_err save_with_report(struct run *r, struct ls_diag *diag)
{
    enum ls_err rc = complete_result(r, diag);

    if (rc != LS_OK || r->store == NULL)
        return rc;
    write_report(r);
    return coord_store_result(r->store, r->result, diag);
}

/* The last word on the run, in the result and on the disk. */
static int finish(struct run *r, enum ls_err rc, struct ls_diag *diag)
{
    int status;

    if (rc == LS_OK && !r->interrupted && !run_cell_any_ran(r->result))
        rc = ls_fail(diag, LS_ESTATE, "nothing was run: every trial was skipped or does not apply");
    status = exit_status(r, rc);

    if (r->interrupted)
        (void)ls_fail(diag, LS_ESTATE, "the run was interrupted");
    else if (rc != LS_OK)
        coord_progress_say(r->progress, "lockstep: %s", diag->text);
    coord_fill_end(r->result, status, rc != LS_OK || r->interrupted ? diag->text : "");
    if (!r->begun || save_with_report(r, diag) == LS_OK)
        return status;
    coord_progress_say(r->progress, "lockstep: %s", diag->text);
    if (status != COORD_EXIT_OK && status != COORD_EXIT_INVALID)
        return status;
    coord_fill_end(r->result, COORD_EXIT_INCOMPLETE, diag->text);
    return COORD_EXIT_INCOMPLETE;
}

/* A new one, or that of the run to be resumed; its agents must not be in the new ones' way. */
static bool take_result(struct run *r)
{
    struct coord_resumed *resumed = r->options->resumed;

    if (resumed == NULL) {
        r->result = malloc(sizeof(*r->result));
        if (r->result != NULL)
            ls__result__init(r->result);
        return r->result != NULL;
    }
    r->result = resumed->result;
    r->store = resumed->store;
    resumed->result = NULL;
    resumed->store = NULL;
    r->result->resumed++;
    r->trials_before = r->result->n_trials;
    for (size_t i = 0; i < r->result->n_trials; i++) {
        r->incomplete |= strcmp(r->result->trials[i]->status, "failed") == 0;
        r->invalid |= r->result->trials[i]->verdict == LS__VERDICT__VERDICT_INVALID &&
                      !coord_trial_is_discarded(r->result->trials[i]);
    }
    return true;
}

int coord_run(const struct coord_run_options *options, Ls__Result **out_result, char *out_dir_used,
              size_t out_dir_bytes)
{
    struct run r = { .options = options };
    struct ls_diag diag = { 0 };
    enum ls_err rc;
    int status;

    if (!take_result(&r))
        return COORD_EXIT_FAULT;
    r.progress = coord_progress_create(options->quiet);
    out_dir_used[0] = '\0';
    rc = set_up(&r, &diag);
    if (rc == LS_OK)
        rc = run_await_earlier_agents(&r, &diag);
    if (rc == LS_OK)
        rc = look_around(&r, &diag);
    if (rc == LS_OK && is_unfinished(&r)) /* else nobody would have anything to do */
        rc = run_first_gather(&r, &diag);
    if (rc == LS_OK)
        rc = run_all(&r, &diag);
    status = finish(&r, rc, &diag);
    coord_live_end(r.live, r.result->status, r.store != NULL ? coord_store_dir(r.store) : "");
    tear_down(&r);
    if (r.store != NULL)
        (void)snprintf(out_dir_used, out_dir_bytes, "%s", coord_store_dir(r.store));
    coord_store_close(r.store);
    coord_signer_close(r.signer);
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
