#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/units.h"
#include "coordinator/result/messages.h"
#include "coordinator/result/report_parts.h"
#include "coordinator/result/requests.h"
#include "coordinator/result/summary.h"
#include "coordinator/result/wall_clock.h"
#include "coordinator/run/verdict.h"

static void say(struct coord_say *to, enum coord_style style, const char *fmt, ...) LS_PRINTF(3, 4);
static void say(struct coord_say *to, enum coord_style style, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    to->say(to->ctx, style, text);
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void say_merged(const Ls__Merged *merged, struct coord_say *to)
{
    say(to, COORD_STYLE_NONE, "%zu row%s taken from run %.64s of %.10s (%.300s)", merged->n_rows,
        merged->n_rows == 1 ? " was" : "s were", merged->run_id, merged->started_at,
        merged->folder);
    for (size_t i = 0; i < merged->n_left; i++)
        say(to, COORD_STYLE_WARN, "not taken from there: %.400s", merged->left[i]);
    for (size_t i = 0; i < merged->n_differences; i++)
        say(to, COORD_STYLE_WARN, "different there: %.300s", merged->differences[i]);
}

void coord_part_status(const Ls__Result *result, struct coord_say *to)
{
    bool complete = strcmp(result->status, "complete") == 0;

    say(to, COORD_STYLE_NONE, "run %.64s, seed %" PRIu64 ", %zu of %u trial%s, %.32s%s%.20s%s",
        result->run_id, result->seed, result->n_trials, result->trials_planned,
        plural(result->trials_planned), result->status, result->profile[0] != '\0' ? ", " : "",
        result->profile, result->profile[0] != '\0' ? " profile: a first look" : "");
    for (size_t i = 0; i < result->n_merged; i++)
        say_merged(result->merged[i], to);
    if (result->error[0] != '\0')
        say(to, complete ? COORD_STYLE_WARN : COORD_STYLE_BAD, "%.900s", result->error);
}

/* ---- the load */

/* The first trial of a workload that counts; if there is none, that was measured; or any. */
static const Ls__Trial *first_of(const Ls__Result *result, const char *workload)
{
    const Ls__Trial *first = NULL, *measured = NULL;

    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (strcmp(trial->workload, workload) != 0)
            continue;
        if ((trial->window != NULL && trial->requests != NULL) || trial->process != NULL) {
            if (trial->verdict != LS__VERDICT__VERDICT_INVALID)
                return trial;
            measured = measured == NULL ? trial : measured;
        }
        first = first == NULL ? trial : first;
    }
    return measured != NULL ? measured : first;
}

/* "5s" as the plan had it; what a fixed count took is rounded. */
static void say_length(int64_t ns, char *out, size_t out_bytes)
{
    if (ns % LS_NS_PER_MS == 0)
        (void)ls_format_duration(ns, out, out_bytes);
    else
        (void)ls_human_duration((double)ns, out, out_bytes);
}

/* What the load did beside sending, and how punctual it was. */
static void say_pace(const Ls__Trial *trial, struct coord_say *to)
{
    char p50[48], p99[48];

    if (coord_trial_is_open(trial) && trial->send_lag != NULL && trial->pacing[0] != '\0')
        say(to, COORD_STYLE_NONE,
            "Pacing is %.16s: half of the requests left within %s of when they were due, 99 %% "
            "within %s.",
            trial->pacing, ls_human_duration((double)trial->send_lag->p50_ns, p50, sizeof(p50)),
            ls_human_duration((double)trial->send_lag->p99_ns, p99, sizeof(p99)));
    if (trial->think[0] != '\0')
        say(to, COORD_STYLE_NONE, "Connections think between requests: %.100s.", trial->think);
    if (trial->lifetime[0] != '\0')
        say(to, COORD_STYLE_NONE, "A connection lives for %.100s.", trial->lifetime);
    if (trial->min_wait[0] != '\0')
        say(to, COORD_STYLE_NONE,
            "Answers were collected for up to %.100s before they were read: that is part of the "
            "latencies and of the read delay.",
            trial->min_wait);
}

/* What moved the bytes where it is not what was hoped for, and whose queue a latency is. */
static void say_reading(const Ls__Trial *trial, struct coord_say *to)
{
    char delay[48], kernel[48];

    for (size_t i = 0; i < trial->n_clients; i++) {
        const Ls__Client *client = trial->clients[i];

        if (client->io_reason[0] != '\0')
            say(to, COORD_STYLE_NONE, "%.64s ran on %.16s: %.240s.", client->agent, client->io,
                client->io_reason);
    }
    if (trial->read_delay == NULL || trial->kernel_time == NULL || trial->read_delay->count == 0)
        return;
    say(to, COORD_STYLE_NONE,
        "Half of the answers were in the client's kernel within %s of their sending, and half were "
        "read within %s of that.",
        ls_human_duration((double)trial->kernel_time->p50_ns, kernel, sizeof(kernel)),
        ls_human_duration((double)trial->read_delay->p50_ns, delay, sizeof(delay)));
}

void coord_part_load(const Ls__Result *result, const char *workload, struct coord_say *to)
{
    const Ls__Trial *trial = first_of(result, workload);
    char window[48];
    uint64_t connections;

    if (trial == NULL)
        return;
    if (trial->process != NULL) {
        say(to, COORD_STYLE_NONE,
            "%.200s on CPUs %.80s of %.64s; each figure is one of all runs of a trial", trial->load,
            trial->process->cpus, trial->process->agent);
        return;
    }
    if (trial->window == NULL) {
        say(to, COORD_STYLE_NONE, "%.200s, not measured",
            trial->load[0] != '\0' ? trial->load : "unknown load");
        return;
    }
    connections = trial->connections != NULL ? trial->connections->asked : 0;
    say_length(trial->window->duration_ns, window, sizeof(window));
    say(to, COORD_STYLE_NONE, "%.200s, %" PRIu64 " connection%s, %zu client%s, measured for %s",
        trial->load[0] != '\0' ? trial->load : "unknown load", connections, plural(connections),
        trial->n_clients, plural(trial->n_clients), window);
    if (coord_trial_is_open(trial))
        say(to, COORD_STYLE_NONE,
            "Latency is response time: from the instant a request was due to the answer's end.");
    else
        say(to, COORD_STYLE_NONE,
            "Latency is service time: from the first byte sent to the answer's end.");
    coord_part_path(trial, to);
    say_pace(trial, to);
    say_reading(trial, to);
    if (trial->http2 != NULL)
        say(to, COORD_STYLE_NONE, "HTTP/2, %u stream%s at once on a connection%s.", trial->pipeline,
            plural(trial->pipeline),
            trial->http2->streams_granted > 0 && trial->http2->streams_granted < trial->pipeline
                ? ": more than the server allows"
                : "");
    else if (trial->pipeline > 1)
        say(to, COORD_STYLE_WARN,
            "Pipelined, %u requests deep: this is the latency of a batch, not of a request.",
            trial->pipeline);
}

/* ---- comparisons */

/* The one with the larger median first, so that the ratio is at least 1. */
static void compare(const Ls__Result *result, const char *workload, const char *a, const char *b,
                    const struct coord_metric *metric, struct coord_say *to)
{
    const Ls__Summary *row_a = coord_summary_find(result, workload, a, metric->name);
    const Ls__Summary *row_b = coord_summary_find(result, workload, b, metric->name);
    char text[COORD_RATIO_TEXT_MAX];
    struct coord_ratio ratio;
    enum ls_err rc;

    if (row_a == NULL || row_b == NULL || row_a->n == 0 || row_b->n == 0)
        return;
    if (row_a->median < row_b->median) {
        const char *swap = a;

        a = b;
        b = swap;
    }
    rc = coord_summary_ratio(result, workload, a, b, metric, &ratio);
    to->failed = to->failed || rc == LS_ENOMEM;
    if (rc != LS_OK)
        return;
    say(to, ratio.differs ? COORD_STYLE_GOOD : COORD_STYLE_NONE, "%s",
        coord_ratio_describe(&ratio, metric, a, b, text, sizeof(text)));
}

/* Everybody against the best. */
static void compare_all(const Ls__Result *result, const char *workload, const char **targets,
                        size_t n, const struct coord_metric *metric, struct coord_say *to)
{
    const char *best = coord_report_best(result, workload, targets, n, metric);

    for (size_t i = 0; best != NULL && i < n; i++) {
        if (targets[i] != best && coord_target_is_ranked(result, workload, targets[i]))
            compare(result, workload, best, targets[i], metric, to);
    }
}

const char *const *coord_report_compared(const Ls__Result *result, const char *workload)
{
    static const char *const closed[] = { "throughput_per_s", "cpu_ns_per_request", NULL };
    static const char *const open[] = { "response_time_p99_ns", "cpu_ns_per_request", NULL };
    /* Each at the rate that its own search ended at: response times are those of different loads.
     */
    static const char *const searches[] = { "capacity_per_s", NULL };
    static const char *const runs[] = { "wall_median_ns", "process_peak_bytes", NULL };
    static const char *const nothing[] = { NULL };
    const Ls__Trial *trial = first_of(result, workload);

    return trial == NULL                ? nothing
           : trial->process != NULL     ? runs
           : trial->capacity != NULL    ? searches
           : coord_trial_is_open(trial) ? open
                                        : closed;
}

void coord_part_comparisons(const Ls__Result *result, const char *workload, struct coord_say *to)
{
    const char **targets = NULL;
    size_t n = coord_result_targets(result, &targets);

    to->failed = to->failed || targets == NULL;
    for (const char *const *name = coord_report_compared(result, workload); *name != NULL; name++) {
        const struct coord_metric *metric = coord_metric_find(*name);

        if (metric != NULL)
            compare_all(result, workload, targets, n, metric, to);
    }
    free(targets);
}

void coord_part_notes(const Ls__Result *result, const char *workload, struct coord_say *to)
{
    const char *metric =
        coord_report_is_process(result, workload) ? "wall_median_ns" : "throughput_per_s";

    coord_part_outcomes(result, workload, to);
    coord_part_cells(result, workload, to);
    for (size_t i = 0; i < result->n_summary; i++) {
        const Ls__Summary *row = result->summary[i];

        if (strcmp(row->workload, workload) == 0 && strcmp(row->metric, metric) == 0 &&
            row->note[0] != '\0')
            say(to, row->noisy || row->left_out > 0 ? COORD_STYLE_WARN : COORD_STYLE_NONE,
                "%.64s: %.300s", row->target, row->note);
    }
}

void coord_part_page_notes(const Ls__Page *page, struct coord_say *to)
{
    for (size_t i = 0; i < page->n_notes; i++)
        say(to, COORD_STYLE_NONE, "%.1000s", page->notes[i]);
}

/* Only what was compared by an interval needs to be explained. */
void coord_part_method(const Ls__Result *result, struct coord_say *to)
{
    unsigned fewest = UINT32_MAX;

    for (size_t i = 0; i < result->n_summary; i++) {
        if (result->summary[i]->n > 2 && result->summary[i]->n < fewest)
            fewest = result->summary[i]->n;
    }
    if (fewest == UINT32_MAX)
        return;
    say(to, COORD_STYLE_NONE,
        "Figures are medians of the trials that count, max is the longest of all. Intervals: 95 %% "
        "bootstrap of the medians, seed %" PRIu64 ". ~: the runs spread over more than 10 %% of "
        "their median.",
        result->seed);
    say(to, COORD_STYLE_NONE,
        "A difference is one where the interval of the ratio leaves 1 out and the rank-sum test of "
        "the runs says p <= 0.05; from too few runs for that, one of more than 10 %% between all of "
        "the one and all of the other.");
    if (fewest < COORD_STATS_ENOUGH)
        say(to, COORD_STYLE_NONE,
            "From %u runs an interval is hardly more than their range: fewer than %u cannot give "
            "95 %%.",
            fewest, COORD_STATS_ENOUGH);
}

/* ---- the verdict and its reasons */

void coord_part_verdict(const Ls__Result *result, struct coord_say *to)
{
    unsigned counts[4] = { 0 };
    char not_run[48] = "";
    enum coord_style style;

    for (size_t i = 0; i < result->n_trials; i++) {
        Ls__Verdict verdict = result->trials[i]->verdict;

        counts[verdict <= LS__VERDICT__VERDICT_NONE ? verdict : LS__VERDICT__VERDICT_INVALID]++;
    }
    style = counts[LS__VERDICT__VERDICT_INVALID] > 0   ? COORD_STYLE_BAD
            : counts[LS__VERDICT__VERDICT_SUSPECT] > 0 ? COORD_STYLE_WARN
                                                       : COORD_STYLE_GOOD;
    if (counts[LS__VERDICT__VERDICT_NONE] > 0)
        (void)snprintf(not_run, sizeof(not_run), ", %u not run", counts[LS__VERDICT__VERDICT_NONE]);
    if (result->n_trials == 1)
        say(to, style, "Verdict: %s", coord_trial_label(result->trials[0]));
    else if (result->n_trials > 1)
        say(to, style, "Verdict: %u valid, %u suspect, %u invalid%s",
            counts[LS__VERDICT__VERDICT_VALID], counts[LS__VERDICT__VERDICT_SUSPECT],
            counts[LS__VERDICT__VERDICT_INVALID], not_run);
}

static bool same(const Ls__Reason *a, const Ls__Reason *b)
{
    return a->verdict == b->verdict && strcmp(a->code, b->code) == 0 &&
           strcmp(a->text, b->text) == 0;
}

static bool has_reason(const Ls__Trial *trial, const Ls__Reason *reason)
{
    for (size_t i = 0; i < trial->n_reasons; i++) {
        if (same(trial->reasons[i], reason))
            return true;
    }
    return false;
}

static bool seen_before(const Ls__Result *result, size_t trial, size_t reason)
{
    const Ls__Reason *one = result->trials[trial]->reasons[reason];

    for (size_t i = 0; i < reason; i++) {
        if (same(result->trials[trial]->reasons[i], one))
            return true;
    }
    for (size_t t = 0; t < trial; t++) {
        if (has_reason(result->trials[t], one))
            return true;
    }
    return false;
}

/* "trial 3", "trials 1, 2, 5" */
static void list_trials(const Ls__Result *result, const Ls__Reason *reason, char *out,
                        size_t out_bytes)
{
    size_t len = 0, n = 0;

    out[0] = '\0';
    for (size_t t = 0; t < result->n_trials; t++)
        n += has_reason(result->trials[t], reason);
    if (n > 1 && n == result->n_trials) {
        (void)snprintf(out, out_bytes, "all trials");
        return;
    }
    for (size_t t = 0; t < result->n_trials && len < out_bytes; t++) {
        int used;

        if (!has_reason(result->trials[t], reason))
            continue;
        used = snprintf(out + len, out_bytes - len, "%s%u",
                        len > 0 ? ", "
                        : n > 1 ? "trials "
                                : "trial ",
                        result->trials[t]->index);
        len += used > 0 ? (size_t)used : 0;
    }
}

static void say_reasons(const Ls__Result *result, Ls__Verdict verdict, enum coord_style style,
                        struct coord_say *to)
{
    char trials[200];

    for (size_t t = 0; t < result->n_trials; t++) {
        for (size_t i = 0; i < result->trials[t]->n_reasons; i++) {
            const Ls__Reason *reason = result->trials[t]->reasons[i];

            if (reason->verdict != verdict || seen_before(result, t, i))
                continue;
            list_trials(result, reason, trials, sizeof(trials));
            say(to, style, "%s (%.40s), %s: %.500s", coord_verdict_name(verdict), reason->code,
                trials, reason->text);
        }
    }
}

void coord_part_reasons(const Ls__Result *result, struct coord_say *to)
{
    say_reasons(result, LS__VERDICT__VERDICT_INVALID, COORD_STYLE_BAD, to);
    say_reasons(result, LS__VERDICT__VERDICT_SUSPECT, COORD_STYLE_WARN, to);
}

/* ---- one trial in detail */

static void say_requests(const Ls__Trial *trial, struct coord_say *to)
{
    const Ls__Requests *requests = trial->requests;
    const Ls__Requests *warmup = trial->warmup != NULL ? trial->warmup->requests : NULL;
    char kinds[256];

    say(to, COORD_STYLE_NONE, "requests: %" PRIu64 " sent, %" PRIu64 " answered as expected",
        requests->sent, requests->ok);
    if (coord_requests_errors(requests) > 0)
        say(to, COORD_STYLE_BAD, "errors: %s",
            coord_requests_describe(requests, kinds, sizeof(kinds)));
    if (requests->shed > 0)
        say(to, COORD_STYLE_WARN, "shed: %" PRIu64, requests->shed);
    if (warmup != NULL && warmup->sent > 0)
        say(to, COORD_STYLE_NONE, "warm-up: %" PRIu64 " sent, %" PRIu64 " answered as expected",
            warmup->sent, warmup->ok);
}

static void say_connections(const Ls__Trial *trial, struct coord_say *to)
{
    const Ls__Connections *connections = trial->connections;
    uint64_t again = connections->reopened + connections->renewed;
    uint64_t first = connections->opened > again ? connections->opened - again : 0;

    say(to, first < connections->asked ? COORD_STYLE_BAD : COORD_STYLE_NONE,
        "connections: %" PRIu64 " of %" PRIu64 " opened, %" PRIu64 " opened again, %" PRIu64
        " attempts failed",
        first, connections->asked, connections->reopened, connections->failed);
    if (connections->retired > 0)
        say(to, COORD_STYLE_NONE,
            "lifetime: %" PRIu64 " connections closed at its end, %" PRIu64
            " opened in their place",
            connections->retired, connections->renewed);
    for (size_t i = 0; i < connections->n_failures; i++)
        say(to, COORD_STYLE_BAD, "connect: %" PRIu64 " %.40s", connections->failures[i]->count,
            connections->failures[i]->name);
}

static void say_tls(const Ls__TlsUse *tls, struct coord_say *to)
{
    say(to, COORD_STYLE_NONE,
        "TLS: %.16s, %.48s; %" PRIu64 " full and %" PRIu64 " resumed handshake%s",
        tls->version[0] != '\0' ? tls->version : "no version agreed on",
        tls->cipher[0] != '\0' ? tls->cipher : "no cipher", tls->full, tls->resumed,
        plural(tls->resumed));
    if (!tls->verified)
        say(to, COORD_STYLE_WARN, "TLS: the server's certificate was not verified, as asked for");
}

static void say_codes(const char *what, Ls__CodeCount *const *codes, size_t n, struct coord_say *to)
{
    for (size_t i = 0; i < n; i++)
        say(to, COORD_STYLE_NONE, "HTTP/2: %" PRIu64 " %s%s %.40s", codes[i]->count, what,
            plural(codes[i]->count), codes[i]->name);
}

static void say_http2(const Ls__Http2Use *use, struct coord_say *to)
{
    if (use->streams_granted == use->streams_granted_most)
        say(to, COORD_STYLE_NONE, "HTTP/2: %u stream%s per connection of %u asked for",
            use->streams_granted, plural(use->streams_granted), use->streams_asked);
    else
        say(to, COORD_STYLE_NONE, "HTTP/2: %u to %u streams per connection of %u asked for",
            use->streams_granted, use->streams_granted_most, use->streams_asked);
    say_codes("stream reset", use->resets, use->n_resets, to);
    say_codes("GOAWAY", use->goaways, use->n_goaways, to);
    if (use->retried > 0)
        say(to, COORD_STYLE_NONE,
            "HTTP/2: %" PRIu64 " request%s behind a GOAWAY, sent again on another connection",
            use->retried, plural(use->retried));
    if (use->pushes_refused > 0)
        say(to, COORD_STYLE_NONE, "HTTP/2: %" PRIu64 " push%s refused", use->pushes_refused,
            use->pushes_refused == 1 ? "" : "es");
}

static void say_bytes(const Ls__Trial *trial, struct coord_say *to)
{
    double seconds = trial->window != NULL ? (double)trial->window->duration_ns / 1e9 : 0;
    char in[48], out[48], rate[48];

    if (seconds <= 0)
        return;
    say(to, COORD_STYLE_NONE, "bytes: %s received (%s/s), %s sent",
        ls_human_size((double)trial->bytes_in, in, sizeof(in)),
        ls_human_size((double)trial->bytes_in / seconds, rate, sizeof(rate)),
        ls_human_size((double)trial->bytes_out, out, sizeof(out)));
}

static void say_server(const Ls__Server *server, struct coord_say *to)
{
    char cpu[48], memory[48];

    if (server->cpu_ns <= 0)
        return;
    say(to, COORD_STYLE_NONE,
        "server: %s CPU per request, %.2f cores used, %s peak memory, %u process%s, %u thread%s",
        ls_human_duration(server->cpu_ns_per_request, cpu, sizeof(cpu)), server->cpu_cores_used,
        ls_human_size((double)server->rss_peak_bytes, memory, sizeof(memory)), server->processes,
        server->processes == 1 ? "" : "es", server->threads, plural(server->threads));
}

static void say_client(const Ls__Client *client, struct coord_say *to)
{
    char lag[48], memory[48], rate[48];

    say(to, COORD_STYLE_NONE,
        "%.64s: %.2f cores used, busiest worker %.0f %% busy, at most %s late", client->agent,
        client->cpu->cores_used, client->cpu->busiest * 100,
        ls_human_duration((double)client->cpu->loop_lag_ns, lag, sizeof(lag)));
    if (client->foreign_cpu_cores >= 0.005 || client->steal_cores >= 0.005)
        say(to, COORD_STYLE_NONE, "%.64s's CPUs: others used %.2f cores, %.2f were stolen",
            client->agent, client->foreign_cpu_cores, client->steal_cores);
    if (client->headroom != NULL)
        say(to, COORD_STYLE_NONE,
            "%.64s: %.0f %% of its ceiling, %s/s by the calibration of %.10s%s", client->agent,
            client->headroom->used * 100,
            ls_human_count(client->headroom->ceiling_per_s, rate, sizeof(rate)),
            client->headroom->measured_at,
            strcmp(client->headroom->limited_by, "generator") == 0 ? "" : ", or more");
    if (client->tcp_retransmits > 0 || client->listen_overflows > 0)
        say(to, COORD_STYLE_NONE,
            "%.64s's TCP: %" PRIu64 " segments sent again, %" PRIu64 " listen overflows",
            client->agent, client->tcp_retransmits, client->listen_overflows);
    if (client->memory_per_connection_bytes > 0)
        say(to, COORD_STYLE_NONE, "%.64s's memory: %s per connection", client->agent,
            ls_human_size(client->memory_per_connection_bytes, memory, sizeof(memory)));
}

static void say_messages(const Ls__Messages *messages, struct coord_say *to)
{
    char rate[48], wrong[200];
    bool fine = coord_messages_describe(messages, wrong, sizeof(wrong))[0] == '\0';

    say(to, fine ? COORD_STYLE_NONE : COORD_STYLE_WARN,
        "messages: %s/s received in the window; of all, %" PRIu64 " sent, %" PRIu64 " of %" PRIu64
        " received%s%s",
        ls_human_count(messages->received_per_s, rate, sizeof(rate)), messages->sent,
        messages->received, messages->expected, fine ? "" : ": ", wrong);
    if (messages->pings > 0 || messages->closes > 0)
        say(to, COORD_STYLE_NONE,
            "the server: %" PRIu64 " pings, %" PRIu64 " close frames (first code %u)",
            messages->pings, messages->closes, messages->close_code);
}

static void say_clients(const Ls__Trial *trial, struct coord_say *to)
{
    char skew[48], error[48];

    for (size_t i = 0; i < trial->n_clients; i++) {
        const Ls__Client *client = trial->clients[i];

        if (client->cpu == NULL)
            continue;
        say_client(client, to);
    }
    if (trial->client_cpu_ns_per_request > 0 && trial->server != NULL)
        say(to, COORD_STYLE_NONE,
            "a request costs the clients %s of CPU and %.3g context switches, the server %.3g",
            ls_human_duration(trial->client_cpu_ns_per_request, skew, sizeof(skew)),
            trial->client_switches_per_request, trial->server->switches_per_request);
    if (trial->window != NULL && trial->n_clients > 1)
        say(to, COORD_STYLE_NONE, "start skew: %s, +- %s of the clocks",
            ls_human_duration((double)trial->window->start_skew_ns, skew, sizeof(skew)),
            ls_human_duration((double)trial->window->start_skew_error_ns, error, sizeof(error)));
}

void coord_part_details(const Ls__Trial *trial, struct coord_say *to)
{
    char rate[48];

    coord_part_process_details(trial, to);
    if (trial->requests == NULL)
        return;
    say(to, COORD_STYLE_NONE, "throughput: %s requests/s",
        ls_human_count(trial->throughput_per_s, rate, sizeof(rate)));
    say_requests(trial, to);
    if (trial->messages != NULL)
        say_messages(trial->messages, to);
    if (trial->connections != NULL)
        say_connections(trial, to);
    if (trial->tls != NULL)
        say_tls(trial->tls, to);
    if (trial->http2 != NULL)
        say_http2(trial->http2, to);
    say_bytes(trial, to);
    if (trial->server != NULL)
        say_server(trial->server, to);
    say_clients(trial, to);
    coord_part_network(trial, to);
}

/* ---- what and where */

/* What is not as it mostly is: how it is held and what really runs. */
static void say_containment(const char *target, const Ls__Server *server, struct coord_say *to)
{
    const Ls__Containment *held = server->containment;
    struct ls_buf text;

    if (server->program != NULL && server->program->shim[0] != '\0')
        say(to, COORD_STYLE_NONE, "%.64s: %.400s", target, server->program->shim);
    if (held == NULL)
        return;
    ls_buf_init(&text, 1024);
    if (held->instances > 1)
        ls_buf_addf(&text, ", %" PRIu32 " instances", held->instances);
    if (strcmp(held->network, "private") == 0)
        ls_buf_adds(&text, ", a private network");
    for (size_t i = 0; i < held->n_limits; i++)
        ls_buf_addf(&text, ", at most %.90s", held->limits[i]);
    if (text.ok && text.len > 2)
        say(to, COORD_STYLE_NONE, "%.64s: %.*s", target, (int)text.len - 2,
            (const char *)text.data + 2);
    ls_buf_fini(&text);
}

void coord_part_targets(const Ls__Result *result, struct coord_say *to)
{
    const char **targets = NULL;
    size_t n = coord_result_targets(result, &targets);

    to->failed = to->failed || targets == NULL;
    for (size_t t = 0; t < n; t++) {
        const Ls__Program *program = NULL;
        const Ls__Server *server = NULL;

        for (size_t i = 0; i < result->n_trials && program == NULL; i++) {
            const Ls__Trial *trial = result->trials[i];

            if (strcmp(trial->target, targets[t]) == 0 && trial->server != NULL)
                program = (server = trial->server)->program;
        }
        if (program != NULL)
            say(to, COORD_STYLE_NONE, "%.64s: %.200s%s%.300s%s%.100s, SHA-256 %.12s", targets[t],
                program->version, program->version[0] != '\0' ? ", " : "", program->path,
                program->interpreter[0] != '\0' ? ", a script for " : "", program->interpreter,
                program->sha256);
        if (program != NULL)
            say_containment(targets[t], server, to);
    }
    free(targets);
}

static void say_clock(const char *agent, const Ls__HostClock *clock, struct coord_say *to)
{
    char offset[48], error[48], drift[64] = "", wall[400];
    double ahead_ns = (double)clock->offset_ns;

    if (clock->drift_error_ppm > 0)
        (void)snprintf(drift, sizeof(drift), ", drift %.1f ppm +- %.1f", clock->drift_ppm,
                       clock->drift_error_ppm);
    say(to, COORD_STYLE_NONE, "%.64s's clock: %s%s, +- %s (%.16s, %" PRIu64 " exchanges)%s", agent,
        ahead_ns < 0 ? "-" : "",
        ls_human_duration(ahead_ns < 0 ? -ahead_ns : ahead_ns, offset, sizeof(offset)),
        ls_human_duration((double)clock->error_ns, error, sizeof(error)), clock->source,
        clock->exchanges, drift);
    if (clock->steps > 0)
        say(to, COORD_STYLE_WARN, "%.64s's clock jumped %" PRIu32 " times, by %s or more", agent,
            clock->steps, ls_human_duration((double)clock->stepped_ns, offset, sizeof(offset)));
    if (coord_wall_clock_is_off(agent, clock->wall_offset_ns, clock->error_ns, wall, sizeof(wall)))
        say(to, COORD_STYLE_WARN, "%s", wall);
}

void coord_part_hosts(const Ls__Result *result, struct coord_say *to)
{
    for (size_t i = 0; i < result->n_hosts; i++) {
        const Ls__Host *host = result->hosts[i];
        const Ls__Facts *facts = host->facts;

        say(to, COORD_STYLE_NONE, "%.64s (%.16s): CPUs %.80s%s%s%.100s%s%.80s", host->agent,
            host->role, host->cpus[0] != '\0' ? host->cpus : "any",
            host->cpus_shared ? " (shared)" : "", facts != NULL ? ", " : "",
            facts != NULL ? facts->cpu_model : "", facts != NULL ? ", " : "",
            facts != NULL ? facts->kernel : "");
        if (host->identity[0] != '\0')
            say(to, COORD_STYLE_NONE, "%.64s has proven to be %.100s, SHA-256 %.64s", host->agent,
                host->identity, host->fingerprint);
        if (host->clock != NULL && host->clock->exchanges > 0)
            say_clock(host->agent, host->clock, to);
    }
}
