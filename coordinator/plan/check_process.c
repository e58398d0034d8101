/* Process workloads, and the services beside a trial. */
#include <inttypes.h>
#include <regex.h>
#include <string.h>

#include "common/clock.h"
#include "common/cpuset.h"
#include "coordinator/plan/plan_check_parts.h"
#include "coordinator/plan/trials.h"

#define RUNS_MAX        100000u
#define WARMUP_RUNS_MAX 10000u
#define CONCURRENCY_MAX 256u
#define OUTPUT_MAX      (UINT64_C(64) << 20)
#define MEMORY_MIN      (UINT64_C(4) << 20)
#define MARKER_MAX      1000u
#define METRIC_NAME_MAX 64u
/* agent/host/output.c, coordinator/run/process.c */
#define METRIC_UNIT_MAX     16u
#define METRIC_CHECKSUM_MAX 128u

void coord_plan_check_pattern(struct coord_plan_checker *c, const ProtobufCMessage *message,
                              const char *field, const char *pattern)
{
    regex_t compiled;
    char why[120];
    int error;

    if (pattern == NULL)
        return;
    error = regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB);
    if (error == 0) {
        regfree(&compiled);
        return;
    }
    (void)regerror(error, &compiled, why, sizeof(why));
    coord_plan_check_say(c, message, field, -1, "is no extended regular expression: %s", why);
}

void coord_plan_check_sha256(struct coord_plan_checker *c, const ProtobufCMessage *message,
                             const char *field, const char *hex)
{
    if (hex != NULL && (strlen(hex) != 64 || strspn(hex, "0123456789abcdef") != 64))
        coord_plan_check_say(c, message, field, -1,
                             "is no SHA-256: 64 digits of lower-case hex, as sha256sum prints");
}

/* ---- what it expects --------------------------------------------------------------------------
 */

static void check_expect(struct coord_plan_checker *c, const Ls__ProcessExpect *e)
{
    if (e->output != NULL && e->output_file != NULL)
        coord_plan_check_say(c, &e->base, "output_file", -1,
                             "excludes output: give the one or the other");
    else if (e->output_file != NULL)
        (void)coord_plan_check_file(c, &e->base, "output_file", -1, e->output_file, OUTPUT_MAX);
    coord_plan_check_range(c, &e->base, "exit", e->exit, 0, 255);
    coord_plan_check_sha256(c, &e->base, "sha256", e->sha256);
    coord_plan_check_pattern(c, &e->base, "match", e->match);
    coord_plan_check_pattern(c, &e->base, "handled", e->handled);
    (void)coord_plan_check_few(c, &e->base, "outcomes", e->n_outcomes);
}

static bool is_metric_name(const char *name)
{
    size_t len = 0;

    while (coord_plan_name_char(name[len]) || name[len] == '/')
        len++;
    return len > 0 && len <= METRIC_NAME_MAX && name[len] == '\0';
}

/* As scripts may print them: what is longer no run's report would be taken with. */
static void check_metric_words(struct coord_plan_checker *c, const Ls__ProcessMetric *m)
{
    const struct {
        const char *field;
        const char *text;
        size_t most;
    } words[] = { { "unit", m->unit, METRIC_UNIT_MAX },
                  { "checksum", m->checksum, METRIC_CHECKSUM_MAX } };

    for (size_t i = 0; i < LS_ARRAY_LEN(words); i++) {
        if (words[i].text != NULL && strlen(words[i].text) > words[i].most)
            coord_plan_check_say(c, &m->base, words[i].field, -1, "is longer than %zu bytes",
                                 words[i].most);
    }
}

static void check_metrics(struct coord_plan_checker *c, const Ls__Process *p)
{
    if (!coord_plan_check_few(c, &p->base, "metrics", p->n_metrics))
        return;
    for (size_t i = 0; i < p->n_metrics; i++) {
        const Ls__ProcessMetric *m = p->metrics[i];

        check_metric_words(c, m);
        if (m->name == NULL || !is_metric_name(m->name)) {
            coord_plan_check_say(c, &m->base, "name", -1,
                                 m->name == NULL
                                     ? "is missing: what the script calls it"
                                     : "is no name of a metric: letters, digits, '.', '_', '-' and "
                                       "'/', at most 64");
            continue;
        }
        for (size_t k = 0; k < i; k++) {
            if (p->metrics[k]->name != NULL && strcmp(p->metrics[k]->name, m->name) == 0)
                coord_plan_check_say(c, &m->base, "name", -1,
                                     "'%s' is the name of metrics[%zu] already: keep one", m->name,
                                     k);
        }
    }
}

/* ---- what is run ------------------------------------------------------------------------------
 */

static void check_words(struct coord_plan_checker *c, const Ls__Process *p)
{
    if (p->n_command > 0 && p->command[0][0] == '\0')
        coord_plan_check_say(c, &p->base, "command", 0,
                             "is empty: the name of a program is expected");
    for (size_t i = 0; i < p->n_command; i++)
        coord_plan_check_placeholders(c, &p->base, "command", (int)i, p->command[i]);
    for (size_t i = 0; i < p->n_args; i++)
        coord_plan_check_placeholders(c, &p->base, "args", (int)i, p->args[i]);
    for (size_t i = 0; i < p->n_env; i++)
        coord_plan_check_variable(c, &p->env[i]->base, p->env[i]->key, p->env[i]->value);
    coord_plan_check_shipped(c, &p->base, p->files, p->n_files);
}

static void check_counts(struct coord_plan_checker *c, const Ls__Process *p)
{
    if (p->has_runs)
        coord_plan_check_range(c, &p->base, "runs", p->runs, 1, RUNS_MAX);
    coord_plan_check_range(c, &p->base, "warmup_runs", p->warmup_runs, 0, WARMUP_RUNS_MAX);
    coord_plan_check_range(c, &p->base, "concurrency", p->concurrency, 1, CONCURRENCY_MAX);
    if (p->memory != NULL && p->memory->bytes < MEMORY_MIN)
        coord_plan_check_say(c, &p->base, "memory", -1, "is out of range: at least 4MiB");
    if (p->output != NULL && (p->output->bytes == 0 || p->output->bytes > OUTPUT_MAX))
        coord_plan_check_say(c, &p->base, "output", -1, "is out of range: 1 to 64MiB");
    if (p->marker != NULL &&
        (p->marker[0] == '\0' || strlen(p->marker) > MARKER_MAX || strchr(p->marker, '\n') != NULL))
        coord_plan_check_say(c, &p->base, "marker", -1, "is one line of 1 to %u bytes", MARKER_MAX);
}

static void check_input(struct coord_plan_checker *c, const Ls__Process *p)
{
    if (p->stdin != NULL && p->stdin_file != NULL)
        coord_plan_check_say(c, &p->base, "stdin_file", -1,
                             "excludes stdin: give the one or the other");
    else if (p->stdin_file != NULL)
        (void)coord_plan_check_file(c, &p->base, "stdin_file", -1, p->stdin_file,
                                    COORD_PLAN_FILES_MAX);
}

/* What is about connections and requests, of which there are none. */
static void refuse_load(struct coord_plan_checker *c, const Ls__Workload *w)
{
    const struct {
        const char *field;
        bool given;
    } parts[] = {
        { "connections", w->has_connections },
        { "load", w->load != NULL },
        { "interval", w->interval != NULL },
        { "pacing", w->has_pacing },
        { "think", w->think != NULL },
        { "lifetime", w->lifetime != NULL },
        { "io", w->has_io },
        { "source_addresses", w->n_source_addresses > 0 },
        { "min_wait", w->min_wait != NULL },
        { "receive_stamps", w->has_receive_stamps },
    };

    for (size_t i = 0; i < LS_ARRAY_LEN(parts); i++) {
        if (parts[i].given)
            coord_plan_check_say(c, &w->base, parts[i].field, -1,
                                 "does not go with process: there are no connections, and its runs "
                                 "are counted in process.runs");
    }
    if (w->warmup != NULL)
        coord_plan_check_say(c, &w->base, "warmup", -1,
                             "does not go with process, whose warm-up is counted in runs: "
                             "process.warmup_runs");
}

static void check_programs(struct coord_plan_checker *c, const Ls__Workload *w)
{
    for (size_t i = 0; i < c->plan->n_targets; i++) {
        const Ls__Target *t = c->plan->targets[i];

        if (t->name != NULL && t->external && coord_workload_has_target(w, t->name))
            coord_plan_check_say(c, &w->base, "targets", -1,
                                 "target '%.64s' is external, and there is nothing of it to run",
                                 t->name);
    }
}

void coord_plan_check_process(struct coord_plan_checker *c, const Ls__Workload *w)
{
    const Ls__Process *p = w->process;

    refuse_load(c, w);
    check_words(c, p);
    check_counts(c, p);
    check_input(c, p);
    if (p->expect != NULL)
        check_expect(c, p->expect);
    check_metrics(c, p);
    check_programs(c, w);
    coord_plan_check_duration(c, &w->base, "measure", w->measure, 100 * LS_NS_PER_MS,
                              86400 * LS_NS_PER_S);
    coord_plan_check_duration(c, &w->base, "timeout", w->timeout, LS_NS_PER_MS, 3600 * LS_NS_PER_S);
}

/* ---- services ---------------------------------------------------------------------------------
 */

static void check_service(struct coord_plan_checker *c, const Ls__Service *s)
{
    struct ls_cpuset cpus;
    struct ls_diag diag;

    coord_plan_check_name(c, &s->base, s->name, "service");
    if (s->n_command == 0)
        coord_plan_check_say(c, &s->base, "command", -1,
                             "is missing: the program and its arguments, such as [redis-server, "
                             "--port, \"{port}\"]");
    for (size_t i = 0; i < s->n_command; i++)
        coord_plan_check_placeholders(c, &s->base, "command", (int)i, s->command[i]);
    for (size_t i = 0; i < s->n_env; i++)
        coord_plan_check_variable(c, &s->env[i]->base, s->env[i]->key, s->env[i]->value);
    if (s->has_port)
        coord_plan_check_range(c, &s->base, "port", s->port, 1, 65535);
    coord_plan_check_address(c, &s->base, s->host);
    coord_plan_check_duration(c, &s->base, "timeout", s->timeout, 100 * LS_NS_PER_MS,
                              3600 * LS_NS_PER_S);
    if (s->stop != NULL)
        coord_plan_check_stop(c, s->stop);
    if (s->cpus != NULL && ls_cpuset_parse(s->cpus, &cpus, &diag) != LS_OK)
        coord_plan_check_say(c, &s->base, "cpus", -1, "%s; or leave it out", diag.text);
}

/* A private network has a loopback of its own. */
void coord_plan_check_reach(struct coord_plan_checker *c, const Ls__Workload *w)
{
    for (size_t i = 0; i < c->plan->n_targets; i++) {
        const Ls__Target *t = c->plan->targets[i];

        if (t->network == LS__NETWORK__NETWORK_PRIVATE && t->name != NULL &&
            coord_workload_has_target(w, t->name) && w->n_services + t->n_services > 0)
            coord_plan_check_say(c, w->n_services > 0 ? &w->base : &t->base, "services", -1,
                                 "do not go with network: private of target '%.64s', which cannot "
                                 "reach them: leave out the one or the other",
                                 t->name);
    }
}

void coord_plan_check_services(struct coord_plan_checker *c, const ProtobufCMessage *message,
                               Ls__Service *const *services, size_t count)
{
    if (!coord_plan_check_few(c, message, "services", count))
        return;
    for (size_t i = 0; i < count; i++) {
        check_service(c, services[i]);
        for (size_t k = 0; k < i && services[i]->name != NULL; k++) {
            if (services[k]->name != NULL && strcmp(services[k]->name, services[i]->name) == 0)
                coord_plan_check_say(c, &services[i]->base, "name", -1,
                                     "'%.64s' is the name of services[%zu] already: choose another",
                                     services[i]->name, k);
        }
    }
}
