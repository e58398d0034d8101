/* What follows from several trials: the answer of a search, a ladder's knee and law. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/result/message.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/verify_internal.h"
#include "coordinator/run/capacity_result.h"
#include "coordinator/run/ladder_result.h"

/* A probe of a search is a trial that only its own folder has. */
static void check_probe(struct verify *v, const Ls__CapacityProbe *probe, const char *where)
{
    static const char *const names[] = { "throughput_per_s",  "p50_ns", "p99_ns", "p999_ns",
                                         "server_cores_used", NULL };
    Ls__CapacityProbe computed = LS__CAPACITY_PROBE__INIT;
    char relative[PATH_MAX];
    Ls__Trial *trial = verify_read_trial(v, probe->folder, relative);
    const struct verify_source source = { .file = COORD_RESULT_FILE, .from = relative };

    if (trial == NULL)
        return;
    computed.throughput_per_s = trial->throughput_per_s;
    if (trial->response_time != NULL) {
        computed.p50_ns = trial->response_time->p50_ns;
        computed.p99_ns = trial->response_time->p99_ns;
        computed.p999_ns = trial->response_time->p999_ns;
    }
    if (trial->server != NULL)
        computed.server_cores_used = trial->server->cpu_cores_used;
    verify_fields(v, &source, where, &probe->base, &computed.base, names);
    verify_trial(v, trial, where, relative);
    coord_message_free(trial);
}

static void check_rung(struct verify *v, const Ls__LadderRung *rung, const char *where)
{
    static const char *const names[] = { "throughput_per_s", "p50_ns", "p99_ns",
                                         "server_cores_used", NULL };
    Ls__LadderRung computed = LS__LADDER_RUNG__INIT;
    char relative[PATH_MAX];
    Ls__Trial *trial = verify_read_trial(v, rung->folder, relative);
    const struct verify_source source = { .file = COORD_RESULT_FILE, .from = relative };

    if (trial == NULL)
        return;
    computed.throughput_per_s = trial->throughput_per_s;
    if (trial->service_time != NULL) {
        computed.p50_ns = trial->service_time->p50_ns;
        computed.p99_ns = trial->service_time->p99_ns;
    }
    if (trial->server != NULL)
        computed.server_cores_used = trial->server->cpu_cores_used;
    verify_fields(v, &source, where, &rung->base, &computed.base, names);
    verify_trial(v, trial, where, relative);
    coord_message_free(trial);
}

/* ---- what they come to */

static Ls__Trial *trial_of(void *ctx, const Ls__CapacityProbe *probe)
{
    char relative[PATH_MAX];

    return verify_read_trial(ctx, probe->folder, relative);
}

/* The search again, from what its probes saw. */
static void check_search(struct verify *v, const Ls__CapacityResult *kept, const char *where)
{
    static const char *const others[] = { "settings", "took_ns", "server", "profile", NULL };
    const struct verify_source source = { .file = COORD_RESULT_FILE, .from = "its probes" };
    struct ls_diag why = { .text = "" };
    Ls__CapacityResult *again = NULL;
    char figure[400], text[600];
    enum ls_err rc;

    if (kept->settings == NULL && v->older)
        return;
    (void)snprintf(figure, sizeof(figure), "%s.capacity", where);
    rc = coord_capacity_result_again(kept, trial_of, v, &again, &why);
    if (rc == LS_OK) {
        verify_other_fields(v, &source, figure, &kept->base, &again->base, others);
    } else if (rc == LS_ENOMEM) {
        v->no_memory = true;
    } else {
        (void)snprintf(text, sizeof(text), "the search cannot be made again: %s", why.text);
        verify_differs(v, COORD_RESULT_FILE, figure, NULL, NULL, text);
    }
    coord_message_free(again);
}

/* The knee and the law again, from the rungs. */
static void check_ladder(struct verify *v, const Ls__LadderResult *kept, const char *where)
{
    static const char *const names[] = { "knee", "scalability", NULL };
    static const char *const seedless[] = { "knee", NULL };
    const struct verify_source source = { .file = COORD_RESULT_FILE, .from = "its rungs" };
    Ls__LadderResult *again = coord_message_copy(kept);
    char figure[400];
    size_t useful;

    if (again == NULL) {
        v->no_memory = true;
        return;
    }
    coord_message_free(again->knee);
    coord_message_free(again->scalability);
    again->knee = NULL;
    again->scalability = NULL;
    (void)snprintf(figure, sizeof(figure), "%s.ladder", where);
    if (coord_ladder_result_end(again, v->result->seed, &useful))
        /* The law's intervals are of the seed of the run that climbed it: an older one, maybe. */
        verify_fields(v, &source, figure, &kept->base, &again->base,
                      v->result->n_merged > 0 ? seedless : names);
    else
        v->no_memory = true;
    coord_message_free(again);
}

void verify_whole(struct verify *v, const Ls__Trial *trial, const char *where)
{
    char part[400];

    for (size_t i = 0; trial->capacity != NULL && i < trial->capacity->n_probes; i++) {
        (void)snprintf(part, sizeof(part), "%s.capacity.probes[%zu]", where, i);
        if (trial->capacity->probes[i]->folder[0] != '\0')
            check_probe(v, trial->capacity->probes[i], part);
    }
    for (size_t i = 0; trial->ladder != NULL && i < trial->ladder->n_rungs; i++) {
        (void)snprintf(part, sizeof(part), "%s.ladder.rungs[%zu]", where, i);
        if (trial->ladder->rungs[i]->folder[0] != '\0')
            check_rung(v, trial->ladder->rungs[i], part);
    }
    if (trial->capacity != NULL)
        check_search(v, trial->capacity, where);
    if (trial->ladder != NULL)
        check_ladder(v, trial->ladder, where);
}
