#include "coordinator/run/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hist_codec.h"
#include "common/transport.h"
#include "coordinator/result/message.h"
#include "coordinator/result/messages.h"
#include "coordinator/result/requests.h"
#include "coordinator/run/merge_internal.h"

/* Instants and lengths beyond it are nonsense; sums and differences of a few below it fit. */
#define SPAN_MAX_NS    (INT64_C(1) << 60)
#define INTERVALS_MAX  4000000u
#define INTERVALS_OVER 4u /* beyond the planned end: the last one, and what rounding makes */
#define LATE_MAX_NS    INT64_C(10000000000) /* as long as a client that stood still is waited for */
#define SAMPLES_OVER   64u

/* ---- life */

static void hists_fini(struct merge_hists *hists)
{
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        ls_hist_destroy(hists->of[s]);
}

static enum ls_err hists_init(struct merge_hists *hists)
{
    enum ls_err rc = LS_OK;

    for (unsigned s = 0; s < LS_SERIES_COUNT && rc == LS_OK; s++)
        rc = ls_hist_create(&hists->of[s]);
    return rc;
}

static enum ls_err report_init(struct merge_report *report)
{
    enum ls_err rc = LS_OK;

    for (unsigned s = 0; s < LS_SERIES_COUNT && rc == LS_OK; s++)
        rc = ls_hist_sparse_init(&report->of[s]);
    return rc;
}

static void report_fini(struct merge_report *report)
{
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        ls_hist_sparse_fini(&report->of[s]);
}

static void slot_fini(struct merge_slot *slot)
{
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        ls_hist_narrow_destroy(slot->sums[s]);
}

static void hists_reset(struct merge_hists *hists)
{
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        ls_hist_reset(hists->of[s]);
        hists->has[s] = false;
    }
}

static void agent_fini(struct merge_agent *agent)
{
    free(agent->name);
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        ls_hist_narrow_destroy(agent->hists[s]);
    coord_message_free(agent->ready);
    coord_message_free(agent->final);
    coord_message_free(agent->up);
    coord_message_free(agent->down);
    free(agent->samples);
}

void coord_merge_destroy(struct coord_merge *merge)
{
    if (merge == NULL)
        return;
    for (uint32_t i = 0; i < merge->agent_count; i++)
        agent_fini(&merge->agents[i]);
    for (unsigned i = 0; i < COORD_MERGE_WINDOW; i++)
        slot_fini(&merge->slots[i]);
    hists_fini(&merge->leaving);
    report_fini(&merge->at_hand);
    hists_fini(&merge->total);
    ls_hist_destroy(merge->wide);
    ls_hist_destroy(merge->coarse.sum);
    free(merge->points);
    free(merge->agents);
    free(merge);
}

static enum ls_err agents_init(struct coord_merge *merge, const struct coord_merge_options *options)
{
    enum ls_err rc = LS_OK;
    uint32_t clients = 0;

    merge->agents = calloc(options->agent_count + 1, sizeof(*merge->agents));
    if (merge->agents == NULL)
        return LS_ENOMEM;
    merge->agent_count = options->agent_count;
    for (uint32_t i = 0; i < options->agent_count && rc == LS_OK; i++) {
        struct merge_agent *agent = &merge->agents[i];

        agent->name = strdup(options->agents[i].name);
        agent->role = options->agents[i].role;
        agent->share = options->agents[i].share;
        if (agent->role == LS__ROLE__ROLE_CLIENT)
            agent->place = ++clients;
        ls__requests__init(&agent->sums.warmup);
        ls__requests__init(&agent->sums.measure);
        ls__messages__init(&agent->sums.messages);
        if (agent->name == NULL)
            rc = LS_ENOMEM;
    }
    return rc;
}

static bool span_ok(int64_t ns)
{
    return ns >= 0 && ns <= SPAN_MAX_NS / 4;
}

enum ls_err coord_merge_create(const struct coord_merge_options *options,
                               struct coord_merge **out_merge, struct ls_diag *diag)
{
    struct coord_merge *merge;
    int64_t intervals;
    enum ls_err rc;

    if (!span_ok(options->warmup_ns) || !span_ok(options->measure_ns) ||
        !span_ok(options->drain_ns) || options->interval_ns <= 0 || !span_ok(options->interval_ns))
        return ls_fail(diag, LS_EINVAL, "a phase or an interval has no sensible length");
    if (options->limit_count > COORD_MERGE_LIMITS_MAX)
        return ls_fail(diag, LS_ERANGE, "%zu limits are too many", options->limit_count);
    intervals = (options->warmup_ns + options->measure_ns + options->drain_ns + LATE_MAX_NS) /
                    options->interval_ns +
                INTERVALS_OVER;
    if (intervals > INTERVALS_MAX)
        return ls_fail(diag, LS_ERANGE,
                       "a trial of %lld intervals is too long: choose a longer interval",
                       (long long)intervals);
    merge = calloc(1, sizeof(*merge));
    if (merge == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory to merge the reports");
    merge->options = *options;
    merge->options.agents = NULL;
    for (size_t i = 0; i < options->limit_count; i++)
        merge->limits_ns[i] = options->limits_ns[i];
    merge->options.limits_ns = merge->limits_ns;
    merge->index_end = (uint32_t)intervals;
    coord_heat_rows_init(&merge->heat_rows);
    merge->latest = -1;
    rc = agents_init(merge, options);
    if (rc == LS_OK)
        rc = report_init(&merge->at_hand);
    if (rc == LS_OK)
        rc = hists_init(&merge->leaving);
    if (rc == LS_OK)
        rc = hists_init(&merge->total);
    if (rc == LS_OK)
        rc = ls_hist_create(&merge->wide);
    if (rc != LS_OK) {
        coord_merge_destroy(merge);
        return ls_fail(diag, rc, "no memory to merge the reports of %u agents",
                       options->agent_count);
    }
    *out_merge = merge;
    return LS_OK;
}

enum ls_err coord_merge_arm(struct coord_merge *merge, int64_t start_ns, int64_t start_wall_ns,
                            struct ls_diag *diag)
{
    struct coord_store_trial *files = merge->options.files;
    enum ls_err rc = LS_OK;

    if (merge->started)
        return ls_fail(diag, LS_ESTATE, "the load has begun: its start cannot be moved");
    if (!span_ok(start_ns))
        return ls_fail(diag, LS_EINVAL, "the start is no sensible instant");
    merge->start_ns = start_ns;
    merge->start_wall_ns = start_wall_ns;
    merge->armed = true;
    for (uint32_t i = 0; i < merge->agent_count; i++)
        merge->agents[i].start_known = false;
    if (files == NULL)
        return LS_OK;
    rc = coord_store_hlog_begin(files, NULL, start_wall_ns, &merge->log, diag);
    if (rc == LS_OK)
        rc = coord_merge_coarse_begin(merge, diag);
    for (uint32_t i = 0; i < merge->agent_count && rc == LS_OK; i++) {
        struct merge_agent *agent = &merge->agents[i];

        if (agent->role == LS__ROLE__ROLE_CLIENT)
            rc = coord_store_hlog_begin(files, agent->name, start_wall_ns, &agent->log, diag);
    }
    return rc;
}

void coord_merge_start_clock(struct coord_merge *merge, uint32_t agent,
                             const struct coord_merge_clock *clock)
{
    struct merge_agent *a = &merge->agents[agent];
    int64_t unused;

    if (!coord_merge_to_ours(clock, 0, &unused) ||
        (a->start_known && clock->error_ns >= a->start_clock.error_ns))
        return;
    a->start_clock = *clock;
    a->start_known = true;
}

/* ---- small questions */

bool coord_merge_to_ours(const struct coord_merge_clock *clock, int64_t at_ns, int64_t *out_ns)
{
    if (at_ns < -SPAN_MAX_NS || at_ns > SPAN_MAX_NS || clock->offset_ns < -SPAN_MAX_NS ||
        clock->offset_ns > SPAN_MAX_NS)
        return false;
    *out_ns = at_ns - clock->offset_ns;
    return true;
}

enum ls_series coord_merge_primary(const struct coord_merge *merge)
{
    return merge->options.offered_per_s > 0 ? LS_SERIES_RESPONSE_TIME : LS_SERIES_SERVICE_TIME;
}

bool coord_merge_has_client_report(const struct coord_merge *merge, uint32_t agent)
{
    return agent < merge->agent_count && merge->agents[agent].final != NULL;
}

bool coord_merge_has_server_report(const struct coord_merge *merge, uint32_t agent)
{
    return agent < merge->agent_count && merge->agents[agent].down != NULL;
}

bool coord_merge_hist(const struct coord_merge *merge, uint32_t client, unsigned kind,
                      struct ls_hist *dst)
{
    if (kind >= LS_SERIES_COUNT)
        return false;
    if (client == UINT32_MAX) {
        ls_hist_merge(dst, merge->total.of[kind]);
        return true;
    }
    if (client >= merge->agent_count || merge->agents[client].hists[kind] == NULL)
        return false;
    ls_hist_narrow_add_to(merge->agents[client].hists[kind], dst);
    return true;
}

bool coord_merge_latest(const struct coord_merge *merge, struct coord_merge_progress *out)
{
    const struct merge_point *point;

    if (merge->latest < 0)
        return false;
    point = &merge->points[merge->latest];
    *out = (struct coord_merge_progress){
        .at_ns = merge->latest * merge->options.interval_ns - merge->options.warmup_ns,
        .length_ns = point->length_ns,
        .completed = point->ok + point->warmup_ok,
        .errors = point->errors + point->warmup_errors,
        .scheduled = point->scheduled,
        .p50_ns = point->p50_ns,
        .p99_ns = point->p99_ns,
        .max_ns = point->max_ns,
    };
    return true;
}

/* A report that makes no sense: the first one is kept for the books. */
static enum ls_err refuse(struct coord_merge *merge, const struct merge_agent *agent,
                          const char *what, struct ls_diag *diag)
{
    if (merge->books.refused[0] == '\0')
        (void)snprintf(merge->books.refused, sizeof(merge->books.refused), "%.60s: %.160s",
                       agent->name, what);
    return ls_fail(diag, LS_EPROTO, "%s: %s", agent->name, what);
}

/* ---- intervals */

static bool touches_window(const struct coord_merge *merge, uint32_t index, int64_t length_ns)
{
    return (int64_t)index * merge->options.interval_ns + length_ns > merge->options.warmup_ns;
}

/* A line per series, in nanoseconds since the start of the load. */
static enum ls_err write_lines(struct coord_store_hlog *log, int64_t start_ns, int64_t length_ns,
                               const struct merge_hists *hists, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    if (log == NULL)
        return LS_OK;
    for (unsigned s = 0; s < LS_SERIES_COUNT && rc == LS_OK; s++) {
        if (hists->has[s])
            rc = coord_store_hlog_write(log, ls_series_name((enum ls_series)s),
                                        start_ns > 0 ? start_ns : 0, length_ns, hists->of[s], diag);
    }
    return rc;
}

/* The same of a client's report. */
static enum ls_err add_lines(struct coord_store_hlog *log, int64_t start_ns, int64_t length_ns,
                             const struct merge_report *report, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    if (log == NULL)
        return LS_OK;
    for (unsigned s = 0; s < LS_SERIES_COUNT && rc == LS_OK; s++) {
        if (report->has[s])
            rc = coord_store_hlog_add(log, ls_series_name((enum ls_series)s),
                                      start_ns > 0 ? start_ns : 0, length_ns, &report->of[s], diag);
    }
    return rc == LS_OK ? coord_store_hlog_flush(log, diag) : rc;
}

static struct merge_point *point_at(struct coord_merge *merge, uint32_t index)
{
    struct merge_point *points;
    uint32_t count = merge->point_count;

    if (index < count)
        return &merge->points[index];
    count = index + 1 + index / 2 < merge->index_end ? index + 1 + index / 2 : merge->index_end;
    points = realloc(merge->points, count * sizeof(*points));
    if (points == NULL)
        return NULL;
    (void)memset(points + merge->point_count, 0, (count - merge->point_count) * sizeof(*points));
    merge->points = points;
    merge->point_count = count;
    return &points[index];
}

/* Moves a slot's histograms to hists; only what was reported: an empty histogram is looked at in
 * vain, and costs pages of memory. */
static void empty_slot(struct merge_slot *slot, struct merge_hists *hists)
{
    hists_reset(hists);
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        if (!slot->has[s])
            continue;
        ls_hist_narrow_add_to(slot->sums[s], hists->of[s]);
        ls_hist_narrow_reset(slot->sums[s]);
        hists->has[s] = true;
        slot->has[s] = false;
    }
}

/* The oldest interval leaves the window. */
static enum ls_err write_out(struct coord_merge *merge, struct ls_diag *diag)
{
    struct merge_slot *slot = &merge->slots[merge->base % COORD_MERGE_WINDOW];
    const struct ls_hist *primary = merge->leaving.of[coord_merge_primary(merge)];
    int64_t start_ns = merge->base * merge->options.interval_ns;
    struct merge_point *point;
    enum ls_err rc = LS_OK;

    if (slot->used) {
        empty_slot(slot, &merge->leaving);
        point = &merge->points[merge->base]; /* made when the slot was first filled */
        point->p50_ns = ls_hist_quantile(primary, 0.50);
        point->p99_ns = ls_hist_quantile(primary, 0.99);
        point->max_ns = ls_hist_max(primary);
        merge->latest = merge->base;
        if (touches_window(merge, merge->base, slot->length_ns)) {
            rc = write_lines(merge->log, start_ns, slot->length_ns, &merge->leaving, diag);
            if (rc == LS_OK)
                rc = coord_merge_coarse_add(merge, start_ns, slot->length_ns, primary, diag);
            coord_heat_add(&merge->heat_rows, primary, merge->heat);
            merge->has_heat = true;
        }
        slot->used = false;
        slot->length_ns = 0;
    }
    merge->base++;
    return rc;
}

enum ls_err coord_merge_flush(struct coord_merge *merge, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    for (unsigned i = 0; i < COORD_MERGE_WINDOW && rc == LS_OK; i++)
        rc = write_out(merge, diag);
    return rc == LS_OK ? coord_merge_coarse_end(merge, diag) : rc;
}

/* Is the oldest interval of the window waiting for this agent? */
static bool holds(const struct coord_merge *merge, const struct merge_agent *agent)
{
    return agent->role == LS__ROLE__ROLE_CLIENT && agent->final == NULL && !agent->lost &&
           agent->next_index <= merge->base;
}

static void count_waiting(struct coord_merge *merge)
{
    merge->waiting = 0;
    merge->waiting_base = merge->base;
    for (uint32_t i = 0; i < merge->agent_count; i++)
        merge->waiting += holds(merge, &merge->agents[i]);
}

/* Intervals that everybody has delivered leave the window, after a report or the loss of agent,
 * which held it up before or not. Thousands of agents report at the same instant, so all of them
 * are looked at only when the last one has delivered. */
static enum ls_err advance(struct coord_merge *merge, const struct merge_agent *agent, bool held,
                           struct ls_diag *diag)
{
    uint32_t complete = UINT32_MAX, newest = 0;
    enum ls_err rc = LS_OK;

    if (merge->waiting_base == merge->base && merge->waiting > 0) {
        if (held && !holds(merge, agent))
            merge->waiting--;
        if (merge->waiting > 0)
            return LS_OK;
    }
    for (uint32_t i = 0; i < merge->agent_count; i++) {
        const struct merge_agent *one = &merge->agents[i];

        if (one->role != LS__ROLE__ROLE_CLIENT)
            continue;
        if (one->next_index > newest)
            newest = one->next_index;
        if (one->final == NULL && !one->lost && one->next_index < complete)
            complete = one->next_index;
    }
    if (complete > newest)
        complete = newest;
    while (merge->base < complete && rc == LS_OK)
        rc = write_out(merge, diag);
    count_waiting(merge);
    return rc;
}

static void add_counts(struct merge_point *point, const Ls__IntervalReport *report)
{
    if (report->length_ns > point->length_ns)
        point->length_ns = report->length_ns;
    point->used = true;
    point->scheduled += report->measure != NULL ? report->measure->scheduled : 0;
    point->ok += report->measure != NULL ? report->measure->ok : 0;
    point->errors += coord_requests_errors(report->measure);
    point->warmup_ok += report->warmup != NULL ? report->warmup->ok : 0;
    point->warmup_errors += coord_requests_errors(report->warmup);
}

static enum ls_err add_late(struct coord_merge *merge, const Ls__IntervalReport *report,
                            struct ls_diag *diag)
{
    int64_t start_ns = report->index * merge->options.interval_ns;

    coord_merge_coarse_late(merge, start_ns, report->length_ns,
                            &merge->at_hand.of[coord_merge_primary(merge)]);
    return add_lines(merge->log, start_ns, report->length_ns, &merge->at_hand, diag);
}

/* A worker that stood still at the window's start counts what was due then, before it ends the
 * interval that was over by then: such samples are of the trial, though the interval is not. */
static bool is_to_be_kept(const struct coord_merge *merge, const Ls__IntervalReport *report)
{
    uint64_t samples = 0;

    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        samples += merge->at_hand.has[s] ? merge->at_hand.of[s].count : 0;
    return samples > 0 || touches_window(merge, report->index, report->length_ns);
}

static const char too_many[] = "more values than anybody can have measured";

/* Adds what was reported to one sum for each series. */
static enum ls_err add_report(const struct merge_report *report,
                              struct ls_hist_narrow *sums[LS_SERIES_COUNT], struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    for (unsigned s = 0; s < LS_SERIES_COUNT && rc == LS_OK; s++) {
        if (report->has[s] && sums[s] == NULL)
            rc = ls_hist_narrow_create(&sums[s]);
        if (report->has[s] && rc == LS_OK)
            rc = ls_hist_narrow_add(sums[s], &report->of[s]);
    }
    if (rc == LS_ERANGE)
        return ls_fail(diag, LS_EPROTO, "%s", too_many);
    return rc == LS_OK ? rc : ls_fail(diag, rc, "no memory for a report's histograms");
}

static enum ls_err add_to_slot(struct coord_merge *merge, const struct merge_agent *agent,
                               struct merge_slot *slot, struct ls_diag *diag)
{
    enum ls_err rc = add_report(&merge->at_hand, slot->sums, diag);

    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        slot->has[s] |= merge->at_hand.has[s] && slot->sums[s] != NULL;
    return rc == LS_EPROTO ? refuse(merge, agent, too_many, diag) : rc;
}

/* Into its place of the window, or before or past it as a line of its own. */
static enum ls_err add_to_all(struct coord_merge *merge, const struct merge_agent *agent,
                              const Ls__IntervalReport *report, struct ls_diag *diag)
{
    struct merge_point *point = point_at(merge, report->index);
    bool in_place =
        report->index >= merge->base && touches_window(merge, report->index, report->length_ns);
    struct merge_slot *slot;
    enum ls_err rc = LS_OK;

    if (point == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the time series");
    add_counts(point, report);
    for (size_t i = 0; i < merge->options.limit_count; i++)
        point->slower[i] += ls_hist_sparse_above(&merge->at_hand.of[coord_merge_primary(merge)],
                                                 merge->limits_ns[i]);
    if (!in_place && is_to_be_kept(merge, report))
        rc = add_late(merge, report, diag);
    if (rc != LS_OK || report->index < merge->base)
        return rc;
    while (report->index >= merge->base + COORD_MERGE_WINDOW && rc == LS_OK)
        rc = write_out(merge, diag);
    if (rc != LS_OK)
        return rc;
    slot = &merge->slots[report->index % COORD_MERGE_WINDOW];
    slot->used = true;
    if (report->length_ns > slot->length_ns)
        slot->length_ns = report->length_ns;
    return in_place ? add_to_slot(merge, agent, slot, diag) : LS_OK;
}

static const char *check_interval(const struct coord_merge *merge, const struct merge_agent *agent,
                                  const Ls__IntervalReport *report)
{
    if (!merge->armed)
        return "an interval before the start was agreed";
    if (agent->role != LS__ROLE__ROLE_CLIENT)
        return "an interval from a server";
    if (agent->final != NULL)
        return "an interval after the last report";
    if (report->index < agent->next_index)
        return "an interval that was delivered before";
    if (report->index >= merge->index_end || report->merged >= merge->index_end - report->index)
        return "an interval after the end of the trial";
    if (report->length_ns <= 0 || report->length_ns > SPAN_MAX_NS / 4)
        return "an interval of no sensible length";
    if (report->in_flight_ns < 0 || report->in_flight_ns > SPAN_MAX_NS ||
        agent->sums.in_flight_ns > SPAN_MAX_NS)
        return "requests in flight beyond reason";
    return NULL;
}

static enum ls_err decode(struct coord_merge *merge, const Ls__IntervalReport *report,
                          struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        merge->at_hand.has[s] = false;
    ls_hist_sparse_clear(
        &merge->at_hand.of[coord_merge_primary(merge)]); /* looked at in any case */
    for (size_t i = 0; i < report->n_series && rc == LS_OK; i++) {
        const Ls__Series *series = report->series[i];
        unsigned s = (unsigned)series->kind;

        if (s >= LS_SERIES_COUNT || merge->at_hand.has[s])
            return ls_fail(diag, LS_EPROTO, "a series that is unknown, or there twice: %u", s);
        rc = ls_hist_decode((struct ls_bytes){ series->histogram.data, series->histogram.len },
                            &merge->at_hand.of[s], diag);
        merge->at_hand.has[s] = rc == LS_OK;
    }
    return rc;
}

static void add_to_client(struct merge_agent *agent, const Ls__IntervalReport *report)
{
    struct merge_totals *sums = &agent->sums;

    coord_requests_add(&sums->warmup, report->warmup);
    coord_requests_add(&sums->measure, report->measure);
    sums->ok_in_window += report->ok_in_window;
    sums->bytes_in += report->bytes_in;
    sums->bytes_out += report->bytes_out;
    sums->in_flight_ns += report->in_flight_ns;
    if (report->messages != NULL) {
        sums->has_messages = true;
        coord_messages_add(&sums->messages, report->messages);
    }
    sums->reports++;
    sums->merged += report->merged;
    agent->next_index = report->index + report->merged + 1;
}

static enum ls_err take_interval(struct coord_merge *merge, struct merge_agent *agent,
                                 const struct coord_merge_clock *clock,
                                 const Ls__IntervalReport *report, struct ls_diag *diag)
{
    struct ls_diag why = { .text = "" };
    const char *wrong = check_interval(merge, agent, report);
    bool held = holds(merge, agent);
    int64_t start_ns = 0;
    enum ls_err rc;

    if (wrong == NULL && !coord_merge_to_ours(clock, report->start_ns, &start_ns))
        wrong = "an interval at no sensible instant";
    if (wrong != NULL)
        return refuse(merge, agent, wrong, diag);
    rc = decode(merge, report, &why);
    /* Memory that runs out ends the trial: part of the report may have been added then. */
    if (rc == LS_OK)
        rc = add_report(&merge->at_hand, agent->hists, &why);
    if (rc == LS_ENOMEM)
        return ls_fail(diag, rc, "%s", why.text);
    if (rc != LS_OK)
        return refuse(merge, agent, why.text, diag);
    merge->started = true;
    add_to_client(agent, report);
    coord_merge_note_now(merge, agent, report);
    if (is_to_be_kept(merge, report))
        rc = add_lines(agent->log, start_ns - merge->start_ns, report->length_ns, &merge->at_hand,
                       diag);
    if (rc == LS_OK)
        rc = coord_merge_keep_interval(merge, agent, start_ns - merge->start_ns, report, diag);
    if (rc == LS_OK)
        rc = add_to_all(merge, agent, report, diag);
    if (rc == LS_OK)
        rc = advance(merge, agent, held, diag);
    return rc;
}

/* ---- the other reports */

/* Keeps a copy of a report that comes once. */
static enum ls_err keep(const void *report, void *place, struct ls_diag *diag)
{
    void *copy = coord_message_copy(report), *old;

    if (copy == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a report");
    (void)memcpy(&old, place, sizeof(old));
    coord_message_free(old);
    (void)memcpy(place, &copy, sizeof(copy));
    return LS_OK;
}

static enum ls_err take_client(struct coord_merge *merge, struct merge_agent *agent,
                               const struct coord_merge_clock *clock,
                               const Ls__ClientReport *report, struct ls_diag *diag)
{
    bool held = holds(merge, agent);
    int64_t unused;
    enum ls_err rc;

    if (agent->role != LS__ROLE__ROLE_CLIENT)
        return refuse(merge, agent, "a client's report from a server", diag);
    if (agent->final != NULL)
        return refuse(merge, agent, "a second last report", diag);
    if (!coord_merge_to_ours(clock, report->started_ns, &unused) ||
        !coord_merge_to_ours(clock, report->started_first_ns, &unused) ||
        !coord_merge_to_ours(clock, report->ended_ns, &unused))
        return refuse(merge, agent, "a last report with no sensible instants", diag);
    rc = keep(report, &agent->final, diag);
    if (rc != LS_OK)
        return rc;
    agent->final_clock = *clock;
    return advance(merge, agent, held, diag);
}

static bool sample_ok(const Ls__SampleReport *report)
{
    return report->usage != NULL && report->usage->cpu_ns >= 0 &&
           report->usage->cpu_ns <= SPAN_MAX_NS && report->usage->cpu_cgroup_ns >= 0 &&
           report->usage->cpu_cgroup_ns <= SPAN_MAX_NS && report->cpus_busy_ns >= 0 &&
           report->cpus_busy_ns <= SPAN_MAX_NS && report->cpus_steal_ns >= 0 &&
           report->cpus_steal_ns <= SPAN_MAX_NS;
}

static enum ls_err take_sample(struct coord_merge *merge, struct merge_agent *agent,
                               const struct coord_merge_clock *clock,
                               const Ls__SampleReport *report, struct ls_diag *diag)
{
    struct merge_sample *samples;
    int64_t at_ns;

    if (agent->role != LS__ROLE__ROLE_SERVER)
        return refuse(merge, agent, "a server's sample from a client", diag);
    if (!sample_ok(report) || !coord_merge_to_ours(clock, report->at_ns, &at_ns))
        return refuse(merge, agent, "a sample that makes no sense", diag);
    if (agent->sample_count >= merge->index_end + SAMPLES_OVER)
        return refuse(merge, agent, "more samples than the trial has intervals", diag);
    samples = realloc(agent->samples, (agent->sample_count + 1) * sizeof(*samples));
    if (samples == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a sample");
    agent->samples = samples;
    samples[agent->sample_count++] = (struct merge_sample){
        .at_ns = at_ns,
        .edge = report->edge,
        .usage = *report->usage, /* numbers only */
        .rss_peak_bytes = report->rss_peak_bytes,
        .listen_overflows = report->listen_overflows,
        .tcp_retransmits = report->tcp_retransmits,
        .cpus_busy_ns = report->cpus_busy_ns,
        .cpus_steal_ns = report->cpus_steal_ns,
    };
    return LS_OK;
}

static enum ls_err take_log(struct coord_merge *merge, const Ls__TargetLog *log,
                            struct ls_diag *diag)
{
    if (merge->options.files == NULL)
        return LS_OK;
    return coord_store_log(merge->options.files, log->offset,
                           (struct ls_bytes){ log->data.data, log->data.len }, diag);
}

/* UINT32_MAX: not a report of a trial. */
static uint32_t trial_of(const Ls__Envelope *report)
{
    switch (report->body_case) {
    case LS__ENVELOPE__BODY_PHASE:
        return report->phase->trial;
    case LS__ENVELOPE__BODY_INTERVAL:
        return report->interval->trial;
    case LS__ENVELOPE__BODY_CLIENT:
        return report->client->trial;
    case LS__ENVELOPE__BODY_TARGET_UP:
        return report->target_up->trial;
    case LS__ENVELOPE__BODY_SAMPLE:
        return report->sample->trial;
    case LS__ENVELOPE__BODY_TARGET_LOG:
        return report->target_log->trial;
    case LS__ENVELOPE__BODY_SERVER:
        return report->server->trial;
    case LS__ENVELOPE__BODY_PROCESS:
        return report->process->trial; /* of coord_process_report() */
    default:
        return UINT32_MAX;
    }
}

enum ls_err coord_merge_report(struct coord_merge *merge, uint32_t index,
                               const struct coord_merge_clock *clock, const Ls__Envelope *report,
                               struct ls_diag *diag)
{
    struct merge_agent *agent;

    if (index >= merge->agent_count)
        return ls_fail(diag, LS_EINVAL, "no agent number %u", index);
    agent = &merge->agents[index];
    if (!ls_report_fits_role(report->body_case, agent->role))
        return refuse(merge, agent, "a report that agents of its role do not send", diag);
    if (trial_of(report) != merge->options.trial)
        return LS_OK; /* of one that was given up */
    switch (report->body_case) {
    case LS__ENVELOPE__BODY_PHASE:
        if (report->phase->phase != LS__AGENT_PHASE__AGENT_PHASE_READY ||
            report->phase->failure != NULL || agent->ready != NULL)
            return LS_OK;
        return keep(report->phase, &agent->ready, diag);
    case LS__ENVELOPE__BODY_INTERVAL:
        return take_interval(merge, agent, clock, report->interval, diag);
    case LS__ENVELOPE__BODY_CLIENT:
        return take_client(merge, agent, clock, report->client, diag);
    case LS__ENVELOPE__BODY_TARGET_UP:
        return keep(report->target_up, &agent->up, diag);
    case LS__ENVELOPE__BODY_SAMPLE:
        return take_sample(merge, agent, clock, report->sample, diag);
    case LS__ENVELOPE__BODY_TARGET_LOG:
        return take_log(merge, report->target_log, diag);
    case LS__ENVELOPE__BODY_SERVER:
        return keep(report->server, &agent->down, diag);
    default:
        return LS_OK;
    }
}

enum ls_err coord_merge_lost(struct coord_merge *merge, uint32_t agent, struct ls_diag *diag)
{
    bool held;

    if (agent >= merge->agent_count)
        return ls_fail(diag, LS_EINVAL, "no agent number %u", agent);
    held = holds(merge, &merge->agents[agent]);
    merge->agents[agent].lost = true;
    return advance(merge, &merge->agents[agent], held, diag);
}
