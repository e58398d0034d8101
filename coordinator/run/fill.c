#include "coordinator/run/fill.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "coordinator/exit.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/result/message.h"

enum ls_err coord_fill_text(char **field, const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL)
        return LS_ENOMEM;
    if (*field != NULL && *field != (const char *)protobuf_c_empty_string)
        free(*field);
    *field = copy;
    return LS_OK;
}

/* For what people may miss, but not the run. */
static void try_text(char **field, const char *text)
{
    (void)!coord_fill_text(field, text);
}

static void try_now(char **field)
{
    char text[32];

    ls_clock_format_wall(ls_clock_wall_ns(), text, sizeof(text));
    try_text(field, text);
}

static enum ls_err fill_published(Ls__Result *result, const Ls__Target *target)
{
    for (size_t i = 0; i < target->n_published; i++) {
        const Ls__Published *from = target->published[i];
        Ls__Reference *to = coord_message_append(&result->n_published, &result->published,
                                                 &ls__reference__descriptor);

        if (to == NULL || !coord_message_string(&to->target, target->name) ||
            !coord_message_string(&to->workload, from->workload) ||
            !coord_message_string(&to->metric, from->metric) ||
            !coord_message_string(&to->unit, from->unit) ||
            !coord_message_string(&to->source, from->source) ||
            !coord_message_string(&to->date, from->date))
            return LS_ENOMEM;
        to->value = from->value;
    }
    return LS_OK;
}

enum ls_err coord_fill_begin(Ls__Result *result, const struct coord_run_options *options,
                             const char *run_id)
{
    const Ls__Plan *plan = options->plan;

    result->seed = options->trials->seed;
    result->trials_planned = (uint32_t)options->trials->count;
    try_now(&result->started_at);
    for (size_t i = 0; i < plan->n_targets; i++) {
        if (fill_published(result, plan->targets[i]) != LS_OK)
            return LS_ENOMEM;
    }
    if (coord_fill_text(&result->run_id, run_id) != LS_OK ||
        coord_fill_text(&result->name, plan->name) != LS_OK ||
        coord_fill_text(&result->lockstep_version, LS_VERSION) != LS_OK ||
        coord_fill_text(&result->plan_sha256, options->plan_sha256) != LS_OK)
        return LS_ENOMEM;
    if (options->quick && coord_fill_text(&result->profile, "quick") != LS_OK)
        return LS_ENOMEM;
    return plan->description != NULL ? coord_fill_text(&result->description, plan->description)
                                     : LS_OK;
}

static const char *status_name(int exit_status)
{
    switch (exit_status) {
    case COORD_EXIT_OK:
    case COORD_EXIT_THRESHOLD:
    case COORD_EXIT_INVALID:
        return "complete";
    case COORD_EXIT_INCOMPLETE:
        return "incomplete";
    case COORD_EXIT_INTERRUPTED:
        return "interrupted";
    default:
        return "failed";
    }
}

void coord_fill_unfinished(Ls__Result *result)
{
    result->exit_status = COORD_EXIT_INCOMPLETE;
    try_text(&result->status, status_name(COORD_EXIT_INCOMPLETE));
    try_text(&result->error, "the run has not come to its end");
}

void coord_fill_end(Ls__Result *result, int exit_status, const char *error)
{
    result->exit_status = (uint32_t)exit_status;
    if (result->lockstep_version[0] == '\0')
        try_text(&result->lockstep_version, LS_VERSION);
    try_text(&result->status, status_name(exit_status));
    try_text(&result->error, error);
    try_now(&result->finished_at);
}

/* ---- hosts */

static Ls__Facts *copy_facts(const Ls__Facts *facts)
{
    size_t size = ls__facts__get_packed_size(facts);
    unsigned char *packed = malloc(size + 1);
    Ls__Facts *copy = NULL;

    if (packed != NULL) {
        (void)ls__facts__pack(facts, packed);
        copy = ls__facts__unpack(NULL, size, packed);
    }
    free(packed);
    return copy;
}

static Ls__HostLimits *copy_limits(const Ls__HostLimits *limits)
{
    size_t size = ls__host_limits__get_packed_size(limits);
    unsigned char *packed = malloc(size + 1);
    Ls__HostLimits *copy = NULL;

    if (packed != NULL) {
        (void)ls__host_limits__pack(limits, packed);
        copy = ls__host_limits__unpack(NULL, size, packed);
    }
    free(packed);
    return copy;
}

static void fill_labels(Ls__Host *host, const Ls__Hello *hello)
{
    host->labels = calloc(hello->n_labels + 1, sizeof(char *));
    for (size_t i = 0; host->labels != NULL && i < hello->n_labels; i++) {
        const Ls__Label *label = hello->labels[i];

        if (asprintf(&host->labels[host->n_labels], "%s=%s", label->key, label->value) >= 0)
            host->n_labels++;
    }
}

Ls__Host *coord_fill_host(const struct coord_agent *a, int64_t now_ns)
{
    Ls__Host *host = malloc(sizeof(*host));
    struct coord_clock clock;
    int64_t wall_error_ns;
    char cpus[256];

    if (host == NULL)
        return NULL;
    ls__host__init(host);
    try_text(&host->agent, a->name);
    try_text(&host->role, a->role == LS__ROLE__ROLE_SERVER ? "server" : "client");
    try_text(&host->address, a->address[0] != '\0' ? a->address : "local");
    try_text(&host->version, a->software);
    try_text(&host->cpus, ls_cpuset_format(&a->cpus, cpus, sizeof(cpus)));
    host->cpus_shared = a->cpus_shared;
    if (a->facts != NULL)
        host->facts = copy_facts(a->facts);
    if (a->limits != NULL)
        host->limits = copy_limits(a->limits);
    if (a->hello != NULL) {
        try_text(&host->host_id, a->hello->host_id);
        fill_labels(host, a->hello);
    }
    if (a->identity.proven) {
        try_text(&host->identity, a->identity.uri);
        try_text(&host->fingerprint, a->identity.fingerprint);
    }
    if (coord_fleet_clock(a, now_ns, &clock))
        host->clock = malloc(sizeof(*host->clock));
    if (host->clock != NULL) {
        ls__host_clock__init(host->clock);
        host->clock->offset_ns = clock.offset_ns;
        host->clock->error_ns = clock.error_ns;
        host->clock->round_trip_ns = clock.round_trip_ns;
        host->clock->drift_ppm = clock.drift_ppm;
        host->clock->drift_error_ppm = clock.drift_error_ppm;
        host->clock->steps = clock.steps;
        host->clock->stepped_ns = clock.stepped_ns;
        host->clock->exchanges = clock.exchanges;
        (void)coord_fleet_wall(a, now_ns, &host->clock->wall_offset_ns, &wall_error_ns);
        try_text(&host->clock->source, clock.source);
    }
    return host;
}

static bool names_host(Ls__Host *const *hosts, size_t count, const char *agent)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(hosts[i]->agent, agent) == 0)
            return true;
    }
    return false;
}

/* One that has not come, for there is nothing left to do, says no less than it did. */
static bool is_news(const struct coord_agent *a, Ls__Host *const *older, size_t older_count)
{
    return a->name[0] != '\0' && (a->hello != NULL || !names_host(older, older_count, a->name));
}

void coord_fill_hosts(Ls__Result *result, struct coord_fleet *fleet)
{
    uint32_t n = coord_fleet_size(fleet);
    int64_t now_ns = ls_clock_mono_ns();
    Ls__Host **older = result->hosts;
    size_t older_count = result->n_hosts;
    Ls__Host **hosts = calloc(n + older_count + 1, sizeof(Ls__Host *));

    if (hosts == NULL)
        return; /* the older ones stay */
    result->hosts = hosts;
    result->n_hosts = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct coord_agent *a = coord_fleet_agent(fleet, i);

        hosts[result->n_hosts] = is_news(a, older, older_count) ? coord_fill_host(a, now_ns) : NULL;
        if (hosts[result->n_hosts] != NULL)
            result->n_hosts++;
    }
    for (size_t i = 0; i < older_count; i++) {
        if (names_host(hosts, result->n_hosts, older[i]->agent))
            ls__host__free_unpacked(older[i], NULL);
        else
            hosts[result->n_hosts++] = older[i];
    }
    free(older);
}

enum ls_err coord_fill_changes(Ls__Result *result, const char *const *set, size_t set_count,
                               const char *only)
{
    result->changes = calloc(set_count + 1, sizeof(char *));
    if (result->changes == NULL)
        return LS_ENOMEM;
    for (size_t i = 0; i < set_count; i++) {
        result->changes[i] = strdup(set[i]);
        if (result->changes[i] == NULL)
            return LS_ENOMEM;
        result->n_changes++;
    }
    return only != NULL ? coord_fill_text(&result->only, only) : LS_OK;
}

/* ---- trials */

static const char *protocol_of(const Ls__Workload *w)
{
    if (w->protocol_case == LS__WORKLOAD__PROTOCOL_WEBSOCKET)
        return "websocket";
    if (w->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS)
        return "process";
    return coord_load_is_http2(w) ? "http2" : "http1";
}

Ls__Trial *coord_fill_trial(const struct coord_trial *trial, int64_t started_wall_ns)
{
    Ls__Trial *message = malloc(sizeof(*message));
    const Ls__Workload *w = trial->workload;
    char load[COORD_LAW_TEXT_MAX], think[COORD_LAW_TEXT_MAX], lifetime[COORD_LAW_TEXT_MAX];
    char min_wait[COORD_LAW_TEXT_MAX];
    bool is_process = w->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS;
    char when[32];

    if (message == NULL)
        return NULL;
    ls__trial__init(message);
    ls_clock_format_wall(started_wall_ns, when, sizeof(when));
    message->index = trial->index;
    message->repetition = trial->repetition;
    message->pipeline = coord_load_pipeline(trial->workload);
    if (coord_fill_text(&message->target, trial->target->name) == LS_OK &&
        coord_fill_text(&message->workload, trial->workload->name) == LS_OK &&
        coord_fill_text(&message->load, coord_load_describe(w, load)) == LS_OK &&
        coord_fill_text(&message->pacing, is_process ? "" : coord_load_pacing(w)) == LS_OK &&
        coord_fill_text(&message->think, coord_load_think(w, think)) == LS_OK &&
        coord_fill_text(&message->lifetime, coord_load_lifetime(w, lifetime)) == LS_OK &&
        coord_fill_text(&message->min_wait, coord_load_min_wait(w, min_wait)) == LS_OK &&
        coord_fill_text(&message->protocol, protocol_of(w)) == LS_OK &&
        coord_fill_text(&message->started_at, when) == LS_OK)
        return message;
    ls__trial__free_unpacked(message, NULL);
    return NULL;
}

Ls__Knee *coord_fill_knee(const struct coord_knee *knee)
{
    Ls__Knee *to = coord_message_new(&ls__knee__descriptor);

    if (to == NULL)
        return NULL;
    to->at = knee->at;
    to->low = knee->low;
    to->high = knee->high;
    to->bend = knee->bend;
    if (!coord_message_string(&to->method, COORD_KNEE_METHOD)) {
        coord_message_free(to);
        return NULL;
    }
    return to;
}

enum ls_err coord_fill_add_trial(Ls__Result *result, Ls__Trial *trial, struct ls_diag *diag)
{
    Ls__Trial **trials = realloc(result->trials, (result->n_trials + 1) * sizeof(Ls__Trial *));

    if (trials == NULL) {
        ls__trial__free_unpacked(trial, NULL);
        return ls_fail(diag, LS_ENOMEM, "out of memory for the trial's result");
    }
    result->trials = trials;
    trials[result->n_trials++] = trial;
    return LS_OK;
}

static enum ls_err plan_trial(Ls__Result *result, const struct coord_trial *trial)
{
    Ls__Trial *message = coord_fill_trial(trial, 0);

    if (message == NULL)
        return LS_ENOMEM;
    try_text(&message->started_at, "");
    try_text(&message->status, "planned");
    return coord_fill_add_trial(result, message, NULL);
}

Ls__Result *coord_fill_planned(const struct coord_run_options *options)
{
    Ls__Result *result = malloc(sizeof(*result));
    enum ls_err rc;

    if (result == NULL)
        return NULL;
    ls__result__init(result);
    rc = coord_fill_begin(result, options, "");
    for (size_t i = 0; i < options->trials->count && rc == LS_OK; i++)
        rc = plan_trial(result, &options->trials->items[i]);
    try_text(&result->started_at, "");
    try_text(&result->status, "checked");
    if (rc == LS_OK)
        return result;
    ls__result__free_unpacked(result, NULL);
    return NULL;
}
