/* A trial that is a ladder: a closed loop on a growing number of connections, each rung a trial of
 * its own with a folder. The rung of the largest throughput becomes the trial of the result. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/units.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/result/message.h"
#include "coordinator/run/fill.h"
#include "coordinator/run/ladder_result.h"
#include "coordinator/run/run_internal.h"
#include "coordinator/run/verdict.h"

#define INTERVALS     20 /* of a rung's window */
#define FAILURES_MOST 3u

struct ladder {
    struct run *r;
    const struct coord_trial *trial;
    const Ls__Ladder *plan;
    Ls__LadderResult *result; /* owned */
    Ls__Trial *kept;          /* owned: of the largest throughput */
    uint32_t failures;
    bool goes_on; /* false: interrupted */
};

static bool is_done(const Ls__Trial *trial)
{
    return strcmp(trial->status, "done") == 0 && trial->requests != NULL;
}

static enum ls_err add_rung(struct ladder *l, uint32_t pass, uint32_t connections,
                            const Ls__Trial *measured, struct ls_diag *diag)
{
    Ls__LadderRung *rung =
        coord_message_append(&l->result->n_rungs, &l->result->rungs, &ls__ladder_rung__descriptor);
    struct coord_cause cause;

    run_part_cause(l->r, l->trial, measured, NULL, 0, &cause);
    if (rung == NULL || !coord_message_string(&rung->folder, measured->folder) ||
        !coord_message_string(&rung->limited_by, coord_limited_by_name(cause.by)) ||
        !coord_message_string(&rung->limited_why, cause.why))
        return ls_fail(diag, LS_ENOMEM, "no memory for a ladder's result");
    rung->pass = pass;
    rung->connections = connections;
    rung->throughput_per_s = measured->throughput_per_s;
    rung->useful = is_done(measured) && measured->throughput_per_s > 0 &&
                   measured->verdict != LS__VERDICT__VERDICT_INVALID &&
                   cause.by != COORD_LIMITED_BY_CLIENT;
    if (measured->service_time != NULL) {
        rung->p50_ns = measured->service_time->p50_ns;
        rung->p99_ns = measured->service_time->p99_ns;
    }
    if (measured->server != NULL)
        rung->server_cores_used = measured->server->cpu_cores_used;
    return LS_OK;
}

static void say_rung(const struct ladder *l)
{
    const Ls__LadderRung *rung = l->result->rungs[l->result->n_rungs - 1];
    char rate[48], p50[48], p99[48];

    coord_progress_note(
        l->r->progress, "%u connections: %s/s, p50 %s, p99 %s, limited by: %s", rung->connections,
        ls_human_count(rung->throughput_per_s, rate, sizeof(rate)),
        ls_human_duration((double)rung->p50_ns, p50, sizeof(p50)),
        ls_human_duration((double)rung->p99_ns, p99, sizeof(p99)), rung->limited_by);
}

static void keep_better(struct ladder *l, Ls__Trial *measured)
{
    if (l->kept != NULL && l->kept->throughput_per_s >= measured->throughput_per_s) {
        ls__trial__free_unpacked(measured, NULL);
        return;
    }
    if (l->kept != NULL)
        ls__trial__free_unpacked(l->kept, NULL);
    l->kept = measured;
}

static enum ls_err climb(struct ladder *l, uint32_t pass, uint32_t connections,
                         struct ls_diag *diag)
{
    const Ls__Workload *w = l->trial->workload;
    int64_t each_ns = l->plan->each->ns;
    Ls__Trial *measured = NULL;
    struct run_load load;
    enum ls_err rc;

    run_load_init(&load, w, each_ns, each_ns / INTERVALS, w->timeout->ns);
    ls__closed__init(&load.law.closed);
    load.load.law_case = LS__LOAD__LAW_CLOSED;
    load.load.closed = &load.law.closed;
    load.workload.connections = connections;
    rc = run_part(l->r, l->trial, &load.workload, "rung", (uint32_t)l->result->n_rungs + 1,
                  &measured, diag);
    l->goes_on = measured != NULL;
    if (rc != LS_OK || measured == NULL)
        return rc;
    l->failures = is_done(measured) ? 0 : l->failures + 1;
    rc = add_rung(l, pass, connections, measured, diag);
    if (rc == LS_OK)
        say_rung(l);
    keep_better(l, measured);
    return rc;
}

static enum ls_err climb_all(struct ladder *l, struct ls_diag *diag)
{
    size_t n = l->plan->n_connections;
    enum ls_err rc = LS_OK;

    for (uint32_t pass = 1; pass <= l->plan->passes; pass++) {
        for (size_t i = 0; i < n; i++) {
            size_t at = pass % 2 == 1 ? i : n - 1 - i;

            if (rc != LS_OK || !l->goes_on || l->failures >= FAILURES_MOST)
                return rc;
            rc = climb(l, pass, l->plan->connections[at], diag);
        }
    }
    return rc;
}

/* ---- what it comes to */

static enum ls_err finish(struct ladder *l, int64_t took_ns, struct ls_diag *diag)
{
    size_t n = 0;

    if (!coord_ladder_result_end(l->result, l->r->options->trials->seed, &n))
        return ls_fail(diag, LS_ENOMEM, "no memory for a ladder's result");
    if (n == 0)
        coord_verdict_add(l->kept, "ladder_useless", LS__VERDICT__VERDICT_INVALID,
                          "no rung of the ladder measured the server: the clients were the limit, "
                          "it did not answer, or what it answered does not count");
    l->result->took_ns = took_ns;
    l->r->invalid |= l->kept->verdict == LS__VERDICT__VERDICT_INVALID;
    l->r->incomplete |= strcmp(l->kept->status, "done") != 0;
    l->kept->ladder = l->result;
    l->result = NULL;
    return LS_OK;
}

static enum ls_err run_it(struct ladder *l, struct ls_diag *diag)
{
    int64_t began_ns = ls_clock_mono_ns();
    char law[COORD_LAW_TEXT_MAX];
    enum ls_err rc;

    l->result = coord_message_new(&ls__ladder_result__descriptor);
    if (l->result == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a ladder");
    rc = climb_all(l, diag);
    if (rc != LS_OK || !l->goes_on || l->kept == NULL)
        return rc;
    rc = finish(l, ls_clock_mono_ns() - began_ns, diag);
    if (rc == LS_OK)
        rc = coord_fill_text(&l->kept->load, coord_load_describe(l->trial->workload, law));
    return rc;
}

enum ls_err run_ladder(struct run *r, const struct coord_trial *trial, Ls__Trial **out_trial,
                       struct ls_diag *diag)
{
    struct ladder l = {
        .r = r, .trial = trial, .plan = trial->workload->load->ladder, .goes_on = true
    };
    enum ls_err rc = run_it(&l, diag);

    *out_trial = NULL;
    if (rc == LS_OK && l.kept != NULL && l.kept->ladder != NULL) {
        *out_trial = l.kept;
        l.kept = NULL;
    }
    if (l.kept != NULL)
        ls__trial__free_unpacked(l.kept, NULL);
    coord_message_free(l.result);
    return rc;
}
