/* lockstep agents: who is there, before anything depends on it. */
#include <ev.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/credentials.h"
#include "common/options.h"
#include "common/transport.h"
#include "common/units.h"
#include "coordinator/cli.h"
#include "coordinator/fleet/roll.h"
#include "coordinator/result/escape.h"
#include "coordinator/result/table.h"
#include "coordinator/result/wall_clock.h"
#include "coordinator/run/fill.h"
#include "coordinator/signals.h"

#define WAIT_ALL_NS (5 * LS_NS_PER_S) /* where nobody has said how many there are to be */
#define CLOCKS_NS   (2 * LS_NS_PER_S) /* at most, when all are there */
#define BYE_NS      (2 * LS_NS_PER_S)
#define TICK_S      0.05

struct arguments {
    const char *listen;
    const char *keys;
    uint64_t expect;
    int64_t wait_ns;
    bool json;
    bool quiet;
    bool help;
};

#define ROW(field) offsetof(struct arguments, field)

static const struct ls_option rows[] = {
    { "listen", 0, LS_OPTION_TEXT, ROW(listen), "URL", NULL, 1, 0,
      "where agents dial to: tls+tcp://ADDRESS:PORT, or tcp://127.0.0.1:PORT on this host" },
    { "keys", 0, LS_OPTION_TEXT, ROW(keys), "DIR", NULL, 1, 0,
      "the coordinator's key and certificates, from 'lockstep pki issue coordinator NAME'" },
    { "expect", 0, LS_OPTION_COUNT, ROW(expect), "N", NULL, 1, 5000,
      "be done when so many are there, and fail if they do not come" },
    { "wait", 0, LS_OPTION_DURATION, ROW(wait_ns), "TIME", NULL, 1e8, 8.64e13,
      "for agents (60s with --expect, 5s without)" },
    { "json", 0, LS_OPTION_FLAG, ROW(json), NULL, NULL, 1, 0, "the list as one JSON document" },
    { "quiet", 'q', LS_OPTION_FLAG, ROW(quiet), NULL, NULL, 1, 0, "no progress on stderr" },
    { "help", 'h', LS_OPTION_FLAG, ROW(help), NULL, NULL, 1, 0, "this text" },
};

struct call {
    const struct arguments *args;
    struct ev_loop *loop;
    ev_timer tick;
    struct coord_signals signals;
    struct coord_roll *roll;
    uint32_t here;
    bool interrupted;
};

static void on_tick(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop;
    (void)w;
    (void)events; /* whoever waits looks again */
}

static void on_signal(void *ctx, int number)
{
    struct call *c = ctx;

    (void)number;
    c->interrupted = true;
}

static void on_came(void *ctx, const struct coord_agent *agent)
{
    struct call *c = ctx;

    c->here++;
    if (!c->args->quiet)
        (void)fprintf(stderr, "%s %s is there, from %s\n",
                      agent->role == LS__ROLE__ROLE_SERVER ? "server" : "client", agent->name,
                      agent->from);
}

static void on_went(void *ctx, const struct coord_agent *agent)
{
    struct call *c = ctx;

    c->here--;
    if (!c->args->quiet)
        (void)fprintf(stderr, "%s has gone\n", agent->name);
}

static void on_refused(void *ctx, const char *who, const char *why)
{
    const struct call *c = ctx;
    struct ls_buf text;

    if (c->args->quiet)
        return;
    ls_buf_init(&text, 4096);
    coord_escape_text(&text, why); /* it may quote what was said */
    (void)fprintf(stderr, "refused %s: %.*s\n", who, (int)text.len, (const char *)text.data);
    ls_buf_fini(&text);
}

/* ---- the list */

static void add_row(struct coord_table *table, const Ls__Host *host)
{
    char text[200];
    size_t used = 0;

    coord_table_text(table, host->agent, COORD_STYLE_NONE);
    coord_table_text(table, host->role, COORD_STYLE_NONE);
    coord_table_text(table, host->address, COORD_STYLE_NONE);
    coord_table_text(table, host->version, COORD_STYLE_NONE);
    if (host->clock != NULL) {
        coord_table_number(table, (double)host->clock->offset_ns, COORD_UNIT_NS);
        coord_table_number(table, (double)host->clock->error_ns, COORD_UNIT_NS);
        coord_table_number(table, (double)host->clock->wall_offset_ns, COORD_UNIT_NS);
    } else {
        coord_table_none(table);
        coord_table_none(table);
        coord_table_none(table);
    }
    coord_table_text(table, host->facts != NULL ? host->facts->cpus_allowed : "", COORD_STYLE_NONE);
    coord_table_maybe(table, host->facts != NULL,
                      host->facts != NULL ? (double)host->facts->memory_bytes : 0,
                      COORD_UNIT_BYTES);
    coord_table_maybe(table, host->facts != NULL,
                      host->facts != NULL ? (double)host->facts->open_files_limit : 0,
                      COORD_UNIT_COUNT);
    text[0] = '\0';
    for (size_t i = 0; i < host->n_labels && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > 0 ? "," : "",
                                 host->labels[i]);
    coord_table_text(table, text, COORD_STYLE_NONE);
}

static void add_words(struct ls_buf *text, const char *what, char *const *words, size_t count)
{
    ls_buf_addf(text, " %s", what);
    for (size_t i = 0; i < count; i++) {
        ls_buf_adds(text, i > 0 ? ", " : " ");
        coord_escape_text(text, words[i]);
    }
    ls_buf_adds(text, count == 0 ? " nothing;" : ";");
}

/* What the host's policy says, in a line. */
static void add_limits(struct ls_buf *text, const Ls__Host *host)
{
    const Ls__HostLimits *l = host->limits;
    char number[48];

    if (l == NULL)
        return;
    coord_escape_text(text, host->agent);
    ls_buf_adds(text, " (");
    coord_escape_text(text, l->policy[0] != '\0' ? l->policy : "no policy file");
    ls_buf_adds(text, "):");
    if (strcmp(host->role, "server") == 0)
        add_words(text, "runs", l->programs, l->n_programs);
    else
        add_words(text, "loads", l->targets, l->n_targets);
    if (l->max_rate_per_s > 0)
        ls_buf_addf(text, " at most %s;",
                    ls_format_rate(l->max_rate_per_s, number, sizeof(number)));
    if (l->max_connections > 0)
        ls_buf_addf(text, " at most %" PRIu64 " connections;", l->max_connections);
    if (l->max_duration_ns > 0)
        ls_buf_addf(text, " at most %s;",
                    ls_format_duration(l->max_duration_ns, number, sizeof(number)));
    ls_buf_adds(text, "\n");
}

static void add_wall_clock(struct ls_buf *text, const Ls__Host *host)
{
    char sentence[400];

    if (host->clock == NULL ||
        !coord_wall_clock_is_off(host->agent, host->clock->wall_offset_ns, host->clock->error_ns,
                                 sentence, sizeof(sentence)))
        return;
    coord_escape_text(text, sentence);
    ls_buf_adds(text, "\n");
}

static int print_table(const Ls__Result *result)
{
    static const struct coord_column columns[] = {
        { "agent", "agent", true },          { "role", "role", true },
        { "address", "address", true },      { "version", "version", true },
        { "offset_ns", "clock", false },     { "error_ns", "+-", false },
        { "wall_ns", "wall", false },        { "cpus", "CPUs", true },
        { "memory_bytes", "memory", false }, { "open_files", "files", false },
        { "labels", "labels", true },
    };
    struct coord_table table;
    struct ls_buf text;
    int status = COORD_EXIT_OK;

    coord_table_init(&table, columns, LS_ARRAY_LEN(columns));
    for (size_t i = 0; i < result->n_hosts; i++)
        add_row(&table, result->hosts[i]);
    ls_buf_init(&text, 16u << 20);
    coord_table_write_text(&table, 160, false, &text);
    for (size_t i = 0; i < result->n_hosts; i++) {
        const Ls__Facts *f = result->hosts[i]->facts;

        if (f == NULL)
            continue;
        ls_buf_addf(&text, "%s%s: ", i == 0 ? "\n" : "", result->hosts[i]->agent);
        coord_escape_text(&text, f->hostname);
        ls_buf_adds(&text, ", ");
        coord_escape_text(&text, f->cpu_model);
        ls_buf_addf(&text, ", %" PRIu32 " cores, ", f->cpu_cores);
        coord_escape_text(&text, f->kernel);
        ls_buf_adds(&text, "\n");
    }
    for (size_t i = 0; i < result->n_hosts; i++)
        add_limits(&text, result->hosts[i]);
    for (size_t i = 0; i < result->n_hosts; i++)
        add_wall_clock(&text, result->hosts[i]);
    if (!text.ok || fwrite(text.data, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        status = coord_cli_fail(false, COORD_EXIT_FAULT, "the list could not be written to stdout");
    ls_buf_fini(&text);
    coord_table_fini(&table);
    return status;
}

/* The Result message carries it: hosts, and how it ended. */
static Ls__Result *make_result(struct call *c)
{
    Ls__Result *result = coord_run_failed(COORD_EXIT_OK, "");
    uint32_t n = 0;
    struct coord_agent **list = result != NULL ? coord_roll_here(c->roll, &n) : NULL;

    if (list != NULL)
        result->hosts = calloc((size_t)n + 1, sizeof(Ls__Host *));
    for (uint32_t i = 0; list != NULL && result->hosts != NULL && i < n; i++) {
        result->hosts[result->n_hosts] = coord_fill_host(list[i], ls_clock_mono_ns());
        if (result->hosts[result->n_hosts] != NULL)
            result->n_hosts++;
    }
    free(list);
    return result;
}

static int print(const struct arguments *args, Ls__Result *result, int status)
{
    char text[200];

    if (status == COORD_EXIT_INCOMPLETE)
        (void)snprintf(text, sizeof(text), "%zu of %" PRIu64 " agents are there", result->n_hosts,
                       args->expect);
    else
        (void)snprintf(text, sizeof(text), "%s",
                       status == COORD_EXIT_INTERRUPTED ? "interrupted" : "");
    if (text[0] != '\0')
        (void)fprintf(stderr, "lockstep: %s\n", text);
    coord_fill_end(result, status, text);
    if (args->json)
        return coord_cli_print(result, true, NULL, status);
    return print_table(result) == COORD_EXIT_OK ? status : COORD_EXIT_FAULT;
}

/* ---- the call */

static void turn(struct call *c)
{
    ev_run(c->loop, EVRUN_ONCE);
}

/* Returns the exit status. */
static int gather(struct call *c)
{
    const struct arguments *args = c->args;
    int64_t wait_ns = args->wait_ns > 0  ? args->wait_ns
                      : args->expect > 0 ? 60 * LS_NS_PER_S
                                         : WAIT_ALL_NS;
    int64_t limit_ns = ls_clock_mono_ns() + wait_ns;

    while (!c->interrupted && ls_clock_mono_ns() < limit_ns &&
           (args->expect == 0 || c->here < args->expect)) {
        (void)coord_roll_ask(c->roll);
        turn(c);
    }
    limit_ns = ls_clock_mono_ns() + CLOCKS_NS;
    while (!c->interrupted && ls_clock_mono_ns() < limit_ns && !coord_roll_ask(c->roll))
        turn(c);
    if (c->interrupted)
        return COORD_EXIT_INTERRUPTED;
    return c->here < args->expect ? COORD_EXIT_INCOMPLETE : COORD_EXIT_OK;
}

static void send_back(struct call *c)
{
    int64_t limit_ns = ls_clock_mono_ns() + BYE_NS;

    coord_roll_bye(c->roll);
    while (!coord_roll_gone(c->roll) && ls_clock_mono_ns() < limit_ns)
        turn(c);
}

static enum ls_err begin(struct call *c, struct ls_diag *diag)
{
    const struct coord_roll_env env = {
        .came = on_came, .went = on_went, .refused = on_refused, .ctx = c
    };
    struct ls_credentials *credentials = NULL;
    enum ls_err rc = LS_OK;

    c->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    if (c->loop == NULL)
        return ls_fail(diag, LS_ENOMEM, "no event loop could be made");
    ev_timer_init(&c->tick, on_tick, 0., TICK_S);
    ev_timer_again(c->loop, &c->tick);
    coord_signals_begin(&c->signals, c->loop, on_signal, c);
    if (c->args->keys != NULL)
        rc = ls_credentials_open(c->args->keys, LS_IDENTITY_COORDINATOR, &credentials, diag);
    if (rc == LS_OK)
        rc = coord_roll_create(c->loop, c->args->listen, credentials, &env, &c->roll, diag);
    ls_credentials_close(credentials);
    return rc;
}

static int call_roll(const struct arguments *args)
{
    struct call c = { .args = args };
    struct ls_diag diag = { 0 };
    Ls__Result *result = NULL;
    enum ls_err rc = begin(&c, &diag);
    int status;

    if (rc == LS_OK) {
        if (!args->quiet)
            (void)fprintf(stderr, "waiting for agents at %s\n", coord_roll_url(c.roll));
        status = gather(&c);
        result = make_result(&c);
        send_back(&c);
        if (result == NULL)
            status = coord_cli_fail(args->json, COORD_EXIT_FAULT, "out of memory");
        else
            status = print(args, result, status);
    } else {
        status = coord_cli_fail(
            args->json, rc == LS_EREFUSED ? COORD_EXIT_REFUSED : COORD_EXIT_USAGE, diag.text);
    }
    if (result != NULL)
        ls__result__free_unpacked(result, NULL);
    coord_roll_destroy(c.roll);
    ls_transport_fini();
    if (c.loop != NULL) {
        coord_signals_end(&c.signals);
        ev_loop_destroy(c.loop);
    }
    return status;
}

int coord_cmd_agents(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    size_t plain = 0;
    bool json = coord_cli_wants_json(argc, argv);

    if (ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &args, NULL, 0, &plain, &diag) !=
        LS_OK)
        return coord_cli_fail(json, COORD_EXIT_USAGE, diag.text);
    if (args.help) {
        (void)printf("usage: lockstep agents --listen URL [option ...]\n\n");
        ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
        return COORD_EXIT_OK;
    }
    if (args.listen == NULL)
        return coord_cli_fail(json, COORD_EXIT_USAGE,
                              "agents: --listen URL is missing: where do agents dial to?");
    return call_roll(&args);
}
