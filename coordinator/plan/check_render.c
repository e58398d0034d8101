#include "coordinator/plan/trials.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/msg_model.h"
#include "common/units.h"
#include "coordinator/plan/load_law.h"

#define LOAD_TEXT_MAX (4 * COORD_LAW_TEXT_MAX + 100)
#define ROWS_MAX      200u /* of trials that are listed one by one */
/* Local ports of one address on a Linux as it is installed: 32768 to 60999. */
#define PORTS_OF_ADDRESS 28232u

struct widths {
    int index;
    int target;
    int workload;
    int load;
};

/* "closed, 64 connections", "constant 20k/s, 64 connections x 16"; "x 16 streams": HTTP/2. Returns
 * out. */
static const char *load_text(const Ls__Workload *w, char *out, size_t out_bytes)
{
    char law[COORD_LAW_TEXT_MAX];
    char think[COORD_LAW_TEXT_MAX];
    char lifetime[COORD_LAW_TEXT_MAX];
    char min_wait[COORD_LAW_TEXT_MAX];
    char pipeline[24] = "";

    (void)coord_load_describe(w, law);
    if (w->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS) {
        (void)snprintf(out, out_bytes, "%s", law);
        return out;
    }
    (void)coord_load_think(w, think);
    (void)coord_load_lifetime(w, lifetime);
    (void)coord_load_min_wait(w, min_wait);
    if (coord_load_is_http2(w))
        (void)snprintf(pipeline, sizeof(pipeline), " x %" PRIu32 " stream%s",
                       coord_load_pipeline(w), coord_load_pipeline(w) == 1 ? "" : "s");
    else if (coord_load_pipeline(w) > 1)
        (void)snprintf(pipeline, sizeof(pipeline), " x %" PRIu32, coord_load_pipeline(w));
    (void)snprintf(out, out_bytes, "%s, %" PRIu32 " connection%s%s%s%s%s%s%s%s%s", law,
                   w->connections, w->connections == 1 ? "" : "s", pipeline,
                   think[0] != '\0' ? ", think " : "", think, lifetime[0] != '\0' ? ", for " : "",
                   lifetime, lifetime[0] != '\0' ? " each" : "",
                   min_wait[0] != '\0' ? ", min-wait " : "", min_wait);
    return out;
}

static void at_least(int *width, size_t len)
{
    if ((size_t)*width < len)
        *width = (int)len;
}

static struct widths measure(const struct coord_trials *trials)
{
    struct widths w = { .index = 1, .target = 6, .workload = 8, .load = 4 };
    char text[LOAD_TEXT_MAX];

    for (size_t i = 0; i < trials->count; i++) {
        const struct coord_trial *t = &trials->items[i];

        at_least(&w.target, strlen(t->target->name));
        at_least(&w.workload, strlen(t->workload->name));
        at_least(&w.load, strlen(load_text(t->workload, text, sizeof(text))));
    }
    at_least(&w.index, (size_t)snprintf(text, sizeof(text), "%zu", trials->count));
    return w;
}

/* Whole seconds, for a span that is an estimate anyway. */
static const char *about(int64_t ns, char *out, size_t out_bytes)
{
    int64_t s = (ns + LS_NS_PER_S / 2) / LS_NS_PER_S;

    return ls_format_duration((s < 1 ? 1 : s) * LS_NS_PER_S, out, out_bytes);
}

static void add_head(struct ls_buf *buf, const Ls__Plan *plan, const struct coord_trials *trials,
                     const struct coord_budget *budget)
{
    char expected[48];
    char longest[48];
    char word[LS_MSG_WORD_MAX];
    const char *order = ls_msg_enum_word(&ls__order__descriptor, (int)plan->schedule->order, word);

    ls_buf_adds(buf, plan->name);
    if (plan->description != NULL && plan->description[0] != '\0')
        ls_buf_addf(buf, ": %s", plan->description);
    ls_buf_addf(buf, "\n%zu trial%s, %s", trials->count, trials->count == 1 ? "" : "s",
                order == NULL ? "?" : order);
    if (plan->schedule->discard > 0)
        ls_buf_addf(buf, ", of which %" PRIu32 " round%s discarded (-)", plan->schedule->discard,
                    plan->schedule->discard == 1 ? " is" : "s are");
    ls_buf_addf(buf, ", seed %" PRIu64, trials->seed);
    ls_buf_addf(buf, "; about %s, at most %s\n\n",
                about(budget->expected_ns, expected, sizeof(expected)),
                about(budget->longest_ns, longest, sizeof(longest)));
}

static void add_rows(struct ls_buf *buf, const struct coord_trials *trials)
{
    struct widths w = measure(trials);
    size_t shown = trials->count <= ROWS_MAX ? trials->count : ROWS_MAX;

    ls_buf_addf(buf, "%*s  %-*s  %-*s  %3s  %-*s  %-8s  %s\n", w.index, "#", w.target, "target",
                w.workload, "workload", "rep", w.load, "load", "warm-up", "measure");
    for (size_t i = 0; i < shown; i++) {
        const struct coord_trial *t = &trials->items[i];
        char load[LOAD_TEXT_MAX];
        char warmup[48];
        char window[48];
        char round[16] = "-"; /* discarded */

        if (t->repetition > 0)
            (void)snprintf(round, sizeof(round), "%" PRIu32, t->repetition);
        ls_buf_addf(buf, "%*" PRIu32 "  %-*s  %-*s  %3s  %-*s  %-8s  %s%s\n", w.index, t->index,
                    w.target, t->target->name, w.workload, t->workload->name, round, w.load,
                    load_text(t->workload, load, sizeof(load)),
                    ls_format_duration(t->workload->warmup->ns, warmup, sizeof(warmup)),
                    coord_load_is_fixed_count(t->workload) ? "up to " : "",
                    ls_format_duration(t->workload->measure->ns, window, sizeof(window)));
    }
    if (shown < trials->count)
        ls_buf_addf(buf, "... and %zu more\n", trials->count - shown);
}

static void add_files(struct ls_buf *buf, const struct coord_budget *b,
                      const struct coord_host_limits *limits)
{
    ls_buf_addf(buf,
                "\nfile descriptors  %" PRIu64 " of a client, %" PRIu64
                " of a target for its connections",
                b->files_per_client, b->files_target);
    if (limits->files > 0)
        ls_buf_addf(buf, "; a process may have %" PRIu64 " here", limits->files);
    if (limits->files_raised > limits->files)
        ls_buf_addf(buf, ", agents %" PRIu64, limits->files_raised);
    ls_buf_adds(buf, "\n");
    if (limits->files > 0 &&
        (b->files_per_client > limits->files_raised || b->files_target > limits->files))
        ls_buf_adds(buf, "note: that is more than this host allows: raise it (ulimit -n), or use "
                         "fewer connections or more clients\n");
}

static void add_warnings(struct ls_buf *buf, const Ls__Plan *plan)
{
    for (size_t i = 0; i < plan->n_targets; i++) {
        const Ls__Target *target = plan->targets[i];

        if (target->tls != NULL && !target->tls->verify)
            ls_buf_addf(buf, "note: %s may have any certificate: tls.verify is false\n",
                        target->name);
    }
}

static void add_needs(struct ls_buf *buf, const Ls__Plan *plan, const struct coord_budget *b,
                      const struct coord_host_limits *limits)
{
    uint64_t ports = limits->ports > 0 ? limits->ports : PORTS_OF_ADDRESS;
    char memory[48];

    ls_buf_addf(buf,
                "\nagents            %" PRIu32 " server%s, %" PRIu32 " client%s; CPUs: server %s, "
                "client %s\n",
                plan->fleet->servers, plan->fleet->servers == 1 ? "" : "s", plan->fleet->clients,
                plan->fleet->clients == 1 ? "" : "s", plan->fleet->cpus->server,
                plan->fleet->cpus->client);
    ls_buf_addf(buf, "connections       %" PRIu32 " at once, %" PRIu32 " of one client\n",
                b->connections, b->connections_per_client);
    ls_buf_addf(buf, "requests          %" PRIu64 " unanswered at most", b->in_flight);
    if (b->queued > 0)
        ls_buf_addf(buf, ", %" PRIu64 " waiting to be sent", b->queued);
    add_files(buf, b, limits);
    ls_buf_addf(buf, "memory            about %s for the connections of one client\n",
                ls_human_size((double)b->memory_per_client, memory, sizeof(memory)));
    if (b->connections_per_source > ports)
        ls_buf_addf(buf,
                    "note: %" PRIu32 " connections from one address are more than its %" PRIu64
                    " local ports (sysctl net.ipv4.ip_local_port_range): give source_addresses, or "
                    "clients hosts of their own\n",
                    b->connections_per_source, ports);
}

char *coord_check_render(const Ls__Plan *plan, const struct coord_trials *trials,
                         const struct coord_host_limits *limits)
{
    struct coord_budget budget;
    struct ls_buf buf;
    char *text;

    coord_trials_budget(plan, trials, &budget);
    ls_buf_init(&buf, (size_t)1 << 24);
    add_head(&buf, plan, trials, &budget);
    add_rows(&buf, trials);
    add_needs(&buf, plan, &budget, limits);
    add_warnings(&buf, plan);
    text = ls_buf_detach(&buf);
    ls_buf_fini(&buf);
    return text;
}
