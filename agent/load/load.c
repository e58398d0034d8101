#include "agent/load/load.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/preflight.h"
#include "agent/load/tls.h"
#include "agent/load/variation.h"
#include "agent/load/worker.h"
#include "common/clock.h"
#include "common/utf8.h"

#define INTERVAL_MIN_NS LS_NS_PER_MS

enum load_state {
    STATE_IDLE,
    STATE_PREFLIGHT,
    STATE_ARMED,   /* workers open connections and wait */
    STATE_RUNNING, /* until everything they measured was polled */
    STATE_DONE
};

struct agent_load {
    const struct load_workload *workload;
    struct load_env env;
    const struct agent_driver *driver;
    const struct agent_link_class *link;
    const struct agent_link_class *carrier; /* of link, if that is TLS */
    struct agent_link_class tls_link;
    struct ls_diag io_reason; /* LS_OK: the link is and does what was asked for */
    enum load_state state;
    struct agent_preflight *preflight; /* owned */

    struct load_window window;
    struct agent_gate gate;
    struct agent_worker **workers; /* owned, and its entries */
    bool told_armed;
    bool stopped; /* no worker begins any more */

    /* The interval that is being put together: [next_index, covered_end) of every worker. */
    struct agent_slice sum;              /* owned */
    struct load_health *interval_health; /* owned */
    uint32_t *covered;                   /* owned; per worker: slices taken so far */
    uint32_t next_index;
    uint32_t covered_end;
    int64_t sum_end_ns;
    bool anything; /* was taken for it */
    bool told;     /* it was handed out; the next poll clears it */

    struct load_totals totals;
    struct load_health *total_health; /* owned */
};

/* ---- create, destroy ------------------------------------------------------------------------- */

static enum ls_err check_workload(const struct load_workload *w, struct ls_diag *diag)
{
    if (w->workers == 0 || w->worker_base + w->workers > w->workers_total)
        return ls_fail(diag, LS_EINVAL, "workers %" PRIu32 " to %" PRIu32 " of %" PRIu32,
                       w->worker_base, w->worker_base + w->workers, w->workers_total);
    if (w->request_count == 0 || w->pipeline == 0)
        return ls_fail(diag, LS_EINVAL,
                       "nothing to send: %" PRIu32 " requests, %" PRIu32
                       " in flight on a connection",
                       w->request_count, w->pipeline);
    if (w->connections < w->workers_total)
        return ls_fail(diag, LS_ERANGE,
                       "%" PRIu32 " connections leave some of %" PRIu32
                       " workers without one: open more, or use fewer workers",
                       w->connections, w->workers_total);
    if (w->timeout_ns <= 0)
        return ls_fail(diag, LS_ERANGE, "the timeout of a request must be longer than nothing");
    if ((unsigned)w->law >= LOAD_LAW_COUNT)
        return ls_fail(diag, LS_EINVAL, "unknown arrival law %d", (int)w->law);
    if ((w->law == LOAD_LAW_CONSTANT || w->law == LOAD_LAW_POISSON) && !(w->rate_per_s > 0))
        return ls_fail(diag, LS_ERANGE, "a rate of %g/s", w->rate_per_s);
    if (w->law == LOAD_LAW_WAVES && w->pipeline != 1 &&
        (w->websocket == NULL || w->websocket->room == NULL))
        return ls_fail(diag, LS_EINVAL, "waves have one request on a connection, not %" PRIu32,
                       w->pipeline);
    if (w->think_ns < 0 || (w->think_ns > 0 && (w->law != LOAD_LAW_CLOSED || w->pipeline != 1)))
        return ls_fail(diag, LS_EINVAL, "only a closed loop without pipelining can think");
    if (w->lifetime_ns < 0)
        return ls_fail(diag, LS_ERANGE, "connections must live longer than nothing");
    if (w->min_wait_ns < 0 || (w->min_wait_ns > 0 && w->law != LOAD_LAW_CLOSED))
        return ls_fail(diag, LS_EINVAL, "only a closed loop can wait for more answers");
    return LS_OK;
}

/* Min-wait may have no effect here, which is no reason not to run but to say so. */
static void look_at_min_wait(const struct load_workload *workload,
                             const struct agent_link_class *link, struct ls_diag *reason)
{
    struct ls_diag why = { 0 };
    struct ls_diag before = *reason;

    if (workload->min_wait_ns == 0)
        return;
    if (link->probe_min_wait == NULL)
        (void)ls_fail(&why, LS_EINVAL, "it needs io_uring");
    else if (link->probe_min_wait(&why) == LS_OK)
        return;
    (void)ls_fail(reason, LS_EINVAL, "%.120s%smin_wait has no effect: %.90s", before.text,
                  before.text[0] != '\0' ? "; " : "", why.text);
}

static enum ls_err alloc_sums(struct agent_load *load, struct ls_diag *diag)
{
    uint32_t n = load->workload->workers;

    load->workers = calloc(n, sizeof(struct agent_worker *));
    load->interval_health = calloc(n, sizeof(*load->interval_health));
    load->total_health = calloc(n, sizeof(*load->total_health));
    load->covered = calloc(n, sizeof(*load->covered));
    if (load->workers == NULL || load->interval_health == NULL || load->total_health == NULL ||
        load->covered == NULL || agent_slice_init(&load->sum) != LS_OK)
        return ls_fail(diag, LS_ENOMEM, "no memory for a load of %" PRIu32 " workers", n);
    return LS_OK;
}

enum ls_err agent_load_create(const struct load_workload *workload, const struct load_env *env,
                              struct agent_load **out_load, struct ls_diag *diag)
{
    struct agent_load *load = NULL;
    enum ls_err rc = check_workload(workload, diag);

    if (rc != LS_OK)
        return rc;
    load = calloc(1, sizeof(*load));
    if (load == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a load");
    load->workload = workload;
    load->env = *env;
    load->driver = agent_driver_find(workload->driver);
    if (load->driver == NULL)
        rc = ls_fail(diag, LS_EINVAL, "unknown protocol '%s'", workload->driver);
    else
        rc = agent_link_choose(workload->link, workload->io, &load->link, &load->io_reason, diag);
    if (rc == LS_OK) {
        look_at_min_wait(workload, load->link, &load->io_reason);
        rc = load->driver->check(workload, diag);
    }
    if (rc == LS_OK)
        rc = alloc_sums(load, diag);
    if (rc == LS_OK && workload->tls != NULL) {
        load->carrier = load->link;
        agent_link_tls_over(load->carrier, &load->tls_link);
        load->link = &load->tls_link;
    }
    if (rc != LS_OK) {
        agent_load_destroy(load);
        return rc;
    }
    *out_load = load;
    return LS_OK;
}

static void destroy_workers(struct agent_load *load)
{
    /* All are told before the first is waited for. */
    for (uint32_t i = 0; i < load->workload->workers; i++) {
        if (load->workers[i] != NULL)
            agent_worker_stop(load->workers[i]);
    }
    for (uint32_t i = 0; i < load->workload->workers; i++) {
        agent_worker_destroy(load->workers[i]);
        load->workers[i] = NULL;
    }
}

void agent_load_destroy(struct agent_load *load)
{
    if (load == NULL)
        return;
    agent_preflight_destroy(load->preflight);
    if (load->workers != NULL)
        destroy_workers(load);
    agent_slice_fini(&load->sum);
    free(load->workers);
    free(load->interval_health);
    free(load->total_health);
    free(load->covered);
    free(load);
}

/* ---- preflight, arm, stop -------------------------------------------------------------------- */

enum ls_err agent_load_preflight(struct agent_load *load, struct ls_diag *diag)
{
    enum ls_err rc;

    if (load->state != STATE_IDLE)
        return ls_fail(diag, LS_ESTATE, "a preflight is possible before the load only");
    rc = agent_preflight_start(load->workload, &load->env, &load->preflight, diag);
    if (rc == LS_OK)
        load->state = STATE_PREFLIGHT;
    return rc;
}

static enum ls_err check_window(const struct load_window *window, struct ls_diag *diag)
{
    if (window->warmup_ns < 0 || window->measure_ns <= 0 || window->drain_ns < 0)
        return ls_fail(diag, LS_ERANGE, "a window of negative length, or nothing to measure");
    if (window->interval_ns < INTERVAL_MIN_NS)
        return ls_fail(diag, LS_ERANGE, "an interval is at least a millisecond");
    return LS_OK;
}

static void signal_control(void *ctx)
{
    struct agent_load *load = ctx;

    load->env.wake(load->env.ctx);
}

static enum ls_err create_workers(struct agent_load *load, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    for (uint32_t i = 0; rc == LS_OK && i < load->workload->workers; i++) {
        struct agent_worker_setup setup = { .workload = load->workload,
                                            .window = &load->window,
                                            .index = i,
                                            .driver = load->driver,
                                            .link = load->link,
                                            .carrier = load->carrier,
                                            .gate = &load->gate,
                                            .signal = signal_control,
                                            .ctx = load };

        rc = agent_worker_create(&setup, &load->workers[i], diag);
    }
    for (uint32_t i = 0; rc == LS_OK && i < load->workload->workers; i++)
        rc = agent_worker_start(load->workers[i], diag);
    return rc;
}

enum ls_err agent_load_arm(struct agent_load *load, const struct load_window *window,
                           struct ls_diag *diag)
{
    enum ls_err rc;

    if (load->state != STATE_IDLE)
        return ls_fail(diag, LS_ESTATE, "the load is armed already, or over");
    rc = check_window(window, diag);
    if (rc != LS_OK)
        return rc;
    load->window = *window;
    load->told_armed = false;
    load->covered_end = 1;
    load->sum_end_ns = window->start_ns;
    agent_gate_init(&load->gate, load->workload->workers);
    rc = create_workers(load, diag);
    if (rc != LS_OK)
        destroy_workers(load);
    else
        load->state = STATE_ARMED;
    return rc;
}

/* Of workers that have been joined; false: all connections were ready. */
static bool explain_late(const struct agent_load *load, struct ls_diag *why)
{
    uint32_t unsettled = 0;
    uint32_t uninvited = 0;

    for (uint32_t i = 0; i < load->workload->workers; i++) {
        const struct agent_engine *engine = agent_worker_engine(load->workers[i]);

        unsettled += agent_engine_unsettled(engine);
        uninvited += agent_engine_uninvited(engine);
    }
    if (uninvited > 0)
        (void)ls_fail(
            why, LS_ETIMEOUT,
            "%" PRIu32 " of %" PRIu32 " connections are open, but the server has not said "
            "that they may begin (%s)",
            uninvited, load->workload->connections,
            load->workload->websocket != NULL ? "the room's ready" : "it allows no streams");
    else if (unsettled > 0)
        (void)ls_fail(why, LS_ETIMEOUT, "%" PRIu32 " of %" PRIu32 " connections were still opening",
                      unsettled, load->workload->connections);
    return unsettled > 0;
}

bool agent_load_stop(struct agent_load *load, struct ls_diag *why)
{
    bool any_started = false;

    if (load->state == STATE_PREFLIGHT)
        agent_preflight_cancel(load->preflight);
    if (load->state != STATE_ARMED && load->state != STATE_RUNNING)
        return false;
    for (uint32_t i = 0; i < load->workload->workers; i++)
        agent_worker_stop(load->workers[i]);
    for (uint32_t i = 0; i < load->workload->workers; i++) {
        agent_worker_join(load->workers[i]);
        any_started = any_started || agent_worker_started_ns(load->workers[i]) != 0;
    }
    if (any_started) {
        load->stopped = true;
        load->state = STATE_RUNNING;
        load->env.wake(load->env.ctx);
    } else {
        if (why != NULL)
            (void)explain_late(load, why);
        destroy_workers(load);
        load->state = STATE_IDLE;
    }
    return any_started;
}

const char *agent_load_io(const struct agent_load *load)
{
    return load->link->io;
}

const char *agent_load_io_reason(const struct agent_load *load)
{
    return load->io_reason.text;
}

/* ---- intervals ------------------------------------------------------------------------------- */

/* Takes from worker i what belongs to the interval being put together; true if it made that one
 * longer. */
static bool take_slices(struct agent_load *load, uint32_t i)
{
    struct agent_recorder *recorder = agent_worker_recorder(load->workers[i]);
    const struct agent_slice *slice;
    uint32_t covered_end = load->covered_end;

    while (load->covered[i] < load->covered_end &&
           (slice = agent_recorder_peek(recorder)) != NULL) {
        agent_slice_add(&load->sum, slice);
        load_health_add(&load->interval_health[i], &slice->health);
        load->covered[i] = slice->index + slice->merged + 1;
        if (load->covered[i] > load->covered_end)
            load->covered_end = load->covered[i];
        if (slice->end_ns > load->sum_end_ns)
            load->sum_end_ns = slice->end_ns;
        load->anything = true;
        agent_recorder_release(recorder);
    }
    return load->covered_end > covered_end;
}

static bool is_drained(struct agent_load *load, uint32_t i)
{
    struct agent_worker *worker = load->workers[i];

    /* After a stop at the very start, some workers have not begun and never will. */
    return agent_recorder_is_drained(agent_worker_recorder(worker)) ||
           (load->stopped && agent_worker_started_ns(worker) == 0);
}

/* True if every worker's part of the interval is there. */
static bool gather(struct agent_load *load)
{
    bool longer;
    bool complete = true;

    do {
        longer = false;
        for (uint32_t i = 0; i < load->workload->workers; i++)
            longer = take_slices(load, i) || longer;
    } while (longer);
    for (uint32_t i = 0; i < load->workload->workers; i++) {
        if (load->covered[i] < load->covered_end && !is_drained(load, i))
            complete = false;
    }
    return complete && load->anything;
}

static void add_to_totals(struct agent_load *load)
{
    struct load_totals *totals = &load->totals;
    const struct agent_slice *sum = &load->sum;

    load_counts_add(&totals->warmup, &sum->counts[AGENT_WARMUP]);
    load_counts_add(&totals->measure, &sum->counts[AGENT_MEASURE]);
    totals->ok_in_window += sum->ok_in_window;
    for (unsigned i = 0; i < AGENT_PART_COUNT; i++)
        load_messages_add(&totals->messages, &sum->messages[i]);
    totals->received_in_window += sum->messages[AGENT_MEASURE].received;
    totals->bytes_in += sum->bytes_in;
    totals->bytes_out += sum->bytes_out;
    totals->in_flight_ns += sum->in_flight_ns;
    totals->intervals++;
    for (uint32_t i = 0; i < load->workload->workers; i++)
        load_health_add(&load->total_health[i], &load->interval_health[i]);
}

static void tell_interval(struct agent_load *load, struct load_event *out)
{
    const struct agent_slice *sum = &load->sum;
    int64_t start_ns = load->window.start_ns + load->next_index * load->window.interval_ns;

    add_to_totals(load);
    out->kind = LOAD_EVENT_INTERVAL;
    out->ok = true;
    out->at_ns = load->sum_end_ns;
    out->interval = (struct load_interval){
        .index = load->next_index,
        .merged = load->covered_end - load->next_index - 1,
        .start_ns = start_ns,
        .length_ns = load->sum_end_ns - start_ns,
        .warmup = sum->counts[AGENT_WARMUP],
        .measure = sum->counts[AGENT_MEASURE],
        .ok_in_window = sum->ok_in_window,
        .messages = sum->messages[AGENT_WARMUP],
        .received_in_window = sum->messages[AGENT_MEASURE].received,
        .bytes_in = sum->bytes_in,
        .bytes_out = sum->bytes_out,
        .in_flight_ns = sum->in_flight_ns,
        .series = (const struct ls_hist *const *)sum->series,
        .workers = load->interval_health,
        .worker_count = load->workload->workers,
    };
    load_messages_add(&out->interval.messages, &sum->messages[AGENT_MEASURE]);
    load->told = true;
}

static void begin_interval(struct agent_load *load)
{
    if (!load->told)
        return;
    agent_slice_reset(&load->sum);
    (void)memset(load->interval_health, 0, load->workload->workers * sizeof(struct load_health));
    load->next_index = load->covered_end;
    load->covered_end++;
    load->told = load->anything = false;
}

/* ---- totals ---------------------------------------------------------------------------------- */

static void add_failures(struct load_connections *dst, int error, uint64_t count)
{
    for (unsigned i = 0; count > 0 && i < LOAD_ERRNO_MAX; i++) {
        if (dst->failures[i].error != error && dst->failures[i].error != 0)
            continue;
        dst->failures[i].error = error;
        dst->failures[i].count += count;
        return;
    }
}

static void add_connections(struct load_connections *dst, const struct load_connections *src)
{
    dst->asked += src->asked;
    dst->opened += src->opened;
    dst->failed += src->failed;
    dst->peak += src->peak;
    dst->reopened += src->reopened;
    dst->retired += src->retired;
    dst->renewed += src->renewed;
    for (unsigned i = 0; i < LOAD_ERRNO_MAX; i++)
        add_failures(dst, src->failures[i].error, src->failures[i].count);
}

static void describe_trouble(const struct agent_load *load,
                             const struct agent_engine_summary *summary, char *out, size_t cap)
{
    const struct agent_reply *reply = &summary->reply;
    struct load_request shown = { .label = NULL };
    char *store = NULL;
    int n;

    if (load->workload->requests != NULL &&
        load_request_show(load->workload, summary->request, &shown, &store) != LS_OK)
        shown.label = NULL; /* without memory, without a name */
    n = snprintf(out, cap, "%s: %s", shown.label != NULL ? shown.label : "a request",
                 load_outcome_name(reply->outcome));
    free(store);

    if (reply->status != 0 && n > 0 && (size_t)n < cap)
        n += snprintf(out + n, cap - (size_t)n, ", status %u", (unsigned)reply->status);
    if (reply->outcome == LOAD_BAD_BODY && n > 0 && (size_t)n < cap)
        n += snprintf(out + n, cap - (size_t)n, ", first difference at byte %" PRIu64,
                      reply->mismatch_at);
    if (reply->why != NULL && reply->why[0] != '\0' && n > 0 && (size_t)n < cap)
        (void)snprintf(out + n, cap - (size_t)n, ": %s", reply->why);
}

static void note_starts(struct agent_load *load)
{
    struct load_totals *totals = &load->totals;

    totals->started_first_ns = totals->started_ns = 0;
    for (uint32_t i = 0; i < load->workload->workers; i++) {
        int64_t at_ns = agent_worker_started_ns(load->workers[i]);

        if (at_ns != 0 && (totals->started_first_ns == 0 || at_ns < totals->started_first_ns))
            totals->started_first_ns = at_ns;
        if (at_ns > totals->started_ns)
            totals->started_ns = at_ns;
    }
}

static void add_name(char *dst, size_t cap, const char *name)
{
    if (name != NULL)
        (void)snprintf(dst, cap, "%s", dst[0] == '\0' || strcmp(dst, name) == 0 ? name : "mixed");
}

static void add_tls(struct load_totals *totals, const struct tls_context *context)
{
    const struct tls_stats *stats = tls_context_stats(context);
    char why[200];

    totals->tls.full += stats->full;
    totals->tls.resumed += stats->resumed;
    add_name(totals->tls.version, sizeof(totals->tls.version), stats->version);
    add_name(totals->tls.cipher, sizeof(totals->tls.cipher), stats->cipher);
    if (totals->sample[0] == '\0' && tls_context_trouble(context, why, sizeof(why))[0] != '\0')
        (void)snprintf(totals->sample, sizeof(totals->sample), "the server %s", why);
}

static void tell_done(struct agent_load *load, struct load_event *out)
{
    struct load_totals *totals = &load->totals;

    for (uint32_t i = 0; i < load->workload->workers; i++) {
        const struct agent_engine_summary *summary;

        agent_worker_join(load->workers[i]);
        summary = agent_engine_summarise(agent_worker_engine(load->workers[i]));
        add_connections(&totals->connections, &summary->connections);
        if (summary->ended_ns > totals->ended_ns)
            totals->ended_ns = summary->ended_ns;
        if (summary->trouble && totals->sample[0] == '\0')
            describe_trouble(load, summary, totals->sample, sizeof(totals->sample));
        if (agent_worker_tls(load->workers[i]) != NULL)
            add_tls(totals, agent_worker_tls(load->workers[i]));
        load_http2_use_add(&totals->http2, &summary->http2);
    }
    if (totals->sample[0] == '\0' && totals->http2.why != NULL)
        (void)snprintf(totals->sample, sizeof(totals->sample), "%s", totals->http2.why);
    ls_utf8_clean(totals->sample,
                  strlen(totals->sample)); /* it quotes the server, and may be cut */
    note_starts(load);
    totals->workers = load->total_health;
    totals->worker_count = load->workload->workers;
    destroy_workers(load);
    load->state = STATE_DONE;
    out->kind = LOAD_EVENT_DONE;
    out->ok = true;
    out->at_ns = totals->ended_ns;
    out->totals = *totals;
}

/* ---- poll ------------------------------------------------------------------------------------ */

static bool poll_preflight(struct agent_load *load, struct load_event *out)
{
    if (!agent_preflight_poll(load->preflight, out))
        return false;
    load->totals.preflight = out->preflight;
    agent_preflight_destroy(load->preflight);
    load->preflight = NULL;
    load->state = STATE_IDLE;
    return true;
}

static void tell_late(struct agent_load *load, struct load_event *out)
{
    for (uint32_t i = 0; i < load->workload->workers; i++)
        agent_worker_stop(load->workers[i]);
    for (uint32_t i = 0; i < load->workload->workers; i++)
        agent_worker_join(load->workers[i]);
    if (!explain_late(load, &out->diag))
        (void)ls_fail(&out->diag, LS_ETIMEOUT, "armed too shortly before the start");
    destroy_workers(load);
    load->state = STATE_IDLE;
    out->kind = LOAD_EVENT_LATE;
    out->at_ns = ls_clock_mono_ns();
}

static bool have_all_started(struct agent_load *load)
{
    for (uint32_t i = 0; i < load->workload->workers; i++) {
        if (agent_worker_started_ns(load->workers[i]) == 0)
            return false;
    }
    return true;
}

static bool poll_armed(struct agent_load *load, struct load_event *out)
{
    if (agent_gate_is_shut(&load->gate)) {
        tell_late(load, out);
        return true;
    }
    if (!load->told_armed && agent_gate_is_open(&load->gate)) {
        load->told_armed = true;
        out->kind = LOAD_EVENT_ARMED;
        out->ok = true;
        out->at_ns = ls_clock_mono_ns();
        return true;
    }
    if (!have_all_started(load))
        return false;
    note_starts(load);
    load->state = STATE_RUNNING;
    out->kind = LOAD_EVENT_STARTED;
    out->ok = true;
    out->at_ns = load->totals.started_ns;
    return true;
}

static bool poll_running(struct agent_load *load, struct load_event *out)
{
    begin_interval(load);
    if (gather(load)) {
        tell_interval(load, out);
        return true;
    }
    for (uint32_t i = 0; i < load->workload->workers; i++) {
        if (!is_drained(load, i))
            return false;
    }
    tell_done(load, out);
    return true;
}

bool agent_load_poll(struct agent_load *load, struct load_event *out_event)
{
    *out_event = (struct load_event){ .kind = LOAD_EVENT_NONE };
    switch (load->state) {
    case STATE_PREFLIGHT:
        return poll_preflight(load, out_event);
    case STATE_ARMED:
        return poll_armed(load, out_event);
    case STATE_RUNNING:
        return poll_running(load, out_event);
    case STATE_IDLE:
    case STATE_DONE:
        break;
    }
    return false;
}
