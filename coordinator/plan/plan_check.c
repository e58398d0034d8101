#include "coordinator/plan/plan_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/cpuset.h"
#include "common/identity.h"
#include "common/msg_marks.h"
#include "common/msg_model.h"
#include "common/transport.h"
#include "common/units.h"
#include "coordinator/plan/plan_check_parts.h"
#include "coordinator/plan/trace_file.h"
#include "coordinator/plan/trials.h"

#define CLIENTS_MAX     8000u
#define SERVERS_MAX     64u
#define REPETITIONS_MAX 1000u
#define DISCARD_MAX     100u
/* What else is in the frame that hands a trial to an agent. */
#define FRAME_RESERVE (256u << 10)

/* ---- shared by the parts ----------------------------------------------------------------------
 */

void coord_plan_check_say(struct coord_plan_checker *c, const ProtobufCMessage *message,
                          const char *field, int index, const char *fmt, ...)
{
    char text[sizeof(((struct ls_diag *)NULL)->text)];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ls_issues_add_at(c->issues, c->marks, message, field, index, "%s", text);
}

void coord_plan_check_duration(struct coord_plan_checker *c, const ProtobufCMessage *message,
                               const char *field, const Ls__Duration *duration, int64_t min_ns,
                               int64_t max_ns)
{
    char value[48];
    char min[48];
    char max[48];

    if (duration == NULL || (duration->ns >= min_ns && duration->ns <= max_ns))
        return;
    coord_plan_check_say(c, message, field, -1, "%s is out of range: %s to %s",
                         ls_format_duration(duration->ns, value, sizeof(value)),
                         ls_format_duration(min_ns, min, sizeof(min)),
                         ls_format_duration(max_ns, max, sizeof(max)));
}

void coord_plan_check_range(struct coord_plan_checker *c, const ProtobufCMessage *message,
                            const char *field, uint64_t value, uint64_t min, uint64_t max)
{
    if (value < min || value > max)
        coord_plan_check_say(c, message, field, -1,
                             "%" PRIu64 " is out of range: %" PRIu64 " to %" PRIu64, value, min,
                             max);
}

bool coord_plan_check_few(struct coord_plan_checker *c, const ProtobufCMessage *message,
                          const char *field, size_t count)
{
    if (count <= COORD_PLAN_ITEMS_MAX)
        return true;
    coord_plan_check_say(c, message, field, -1, "there are %zu: at most %u are allowed", count,
                         COORD_PLAN_ITEMS_MAX);
    return false;
}

bool coord_plan_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

void coord_plan_check_name(struct coord_plan_checker *c, const ProtobufCMessage *message,
                           const char *name, const char *whose)
{
    char shown[LS_EXCERPT_MAX];
    size_t len = 0;

    if (name == NULL) {
        coord_plan_check_say(c, message, "name", -1, "is missing: every %s needs one", whose);
        return;
    }
    while (coord_plan_name_char(name[len]))
        len++;
    if (len == 0 && name[0] == '\0')
        coord_plan_check_say(c, message, "name", -1, "is empty: every %s needs one", whose);
    else if (name[len] != '\0')
        coord_plan_check_say(
            c, message, "name", -1,
            "'%s' names folders: use letters, digits, '.', '_' and '-' only",
            ls_excerpt((struct ls_bytes){ (const unsigned char *)name, strlen(name) }, shown));
    else if (len > COORD_PLAN_NAME_MAX)
        coord_plan_check_say(c, message, "name", -1,
                             "is %zu characters long: at most %u are allowed", len,
                             COORD_PLAN_NAME_MAX);
}

/* ---- fleet and schedule -----------------------------------------------------------------------
 */

static bool all_external(const Ls__Plan *plan)
{
    for (size_t i = 0; i < plan->n_targets; i++) {
        if (!plan->targets[i]->external)
            return false;
    }
    return plan->n_targets > 0;
}

static void check_servers(struct coord_plan_checker *c, const Ls__Fleet *fleet)
{
    bool external = all_external(c->plan);

    if (!fleet->has_servers)
        return;
    if (fleet->servers > SERVERS_MAX)
        coord_plan_check_range(c, &fleet->base, "servers", fleet->servers, 0, SERVERS_MAX);
    else if (fleet->servers > 0 && external)
        coord_plan_check_say(c, &fleet->base, "servers", -1,
                             "all targets are external, so there is nothing to do for a server: "
                             "write 0, or leave it out");
    else if (fleet->servers == 0 && !external && c->plan->n_targets > 0)
        coord_plan_check_say(c, &fleet->base, "servers", -1,
                             "targets that are not external are started by a server: write 1, or "
                             "leave it out");
}

/* False: not a list of CPUs; auto is none, either. */
static bool read_cpus(struct coord_plan_checker *c, const Ls__FleetCpus *cpus, const char *field,
                      const char *text, struct ls_cpuset *out)
{
    struct ls_diag diag;

    if (text == NULL || strcmp(text, "auto") == 0)
        return false;
    if (ls_cpuset_parse(text, out, &diag) != LS_OK) {
        coord_plan_check_say(c, &cpus->base, field, -1, "%s; or write auto", diag.text);
        return false;
    }
    if (ls_cpuset_count(out) == 0) {
        coord_plan_check_say(c, &cpus->base, field, -1,
                             "is empty: write auto, or a list such as 0-3,8");
        return false;
    }
    return true;
}

static void check_cpus(struct coord_plan_checker *c, const Ls__FleetCpus *cpus)
{
    struct ls_cpuset server;
    struct ls_cpuset client;
    struct ls_cpuset both;
    char text[64];
    bool has_server = read_cpus(c, cpus, "server", cpus->server, &server);
    bool has_client = read_cpus(c, cpus, "client", cpus->client, &client);

    if (!has_server || !has_client || cpus->allow_overlap ||
        !ls_cpuset_intersects(&server, &client))
        return;
    ls_cpuset_clear(&both);
    for (unsigned cpu = 0; cpu < LS_CPU_MAX; cpu++) {
        if (ls_cpuset_has(&server, cpu) && ls_cpuset_has(&client, cpu))
            ls_cpuset_add(&both, cpu);
    }
    coord_plan_check_say(c, &cpus->base, "client", -1,
                         "server and client share CPU %s: divide them, or set allow_overlap: true",
                         ls_cpuset_format(&both, text, sizeof(text)));
}

static uint32_t count_role(const Ls__Fleet *fleet, Ls__AgentRole role)
{
    uint32_t n = 0;

    for (size_t i = 0; i < fleet->n_agents; i++)
        n += fleet->agents[i]->role == role;
    return n;
}

/* Particular agents: each asks for something, no two for the same name, and there is room. */
static void check_agent(struct coord_plan_checker *c, const Ls__Fleet *fleet, size_t index)
{
    const Ls__FleetAgent *agent = fleet->agents[index];
    struct ls_cpuset unused;
    struct ls_diag diag;

    if (agent->name != NULL && !ls_identity_name_is_fine(agent->name))
        coord_plan_check_say(c, &agent->base, "name", -1,
                             "is no name of an agent: letters, digits, '.', '_' and '-', at most "
                             "64, and no sign of punctuation first");
    for (size_t k = 0; agent->name != NULL && k < index; k++) {
        if (fleet->agents[k]->name == NULL || strcmp(fleet->agents[k]->name, agent->name) != 0)
            continue;
        coord_plan_check_say(c, &agent->base, "name", -1,
                             "'%s' is the name of agents[%zu] already: each agent is listed once",
                             agent->name, k);
        break;
    }
    for (size_t i = 0; i < agent->n_labels; i++) {
        if (agent->labels[i]->key[0] == '\0')
            coord_plan_check_say(c, &agent->base, "labels", -1, "has a label without a name");
    }
    if (agent->cpus == NULL)
        return;
    if (ls_cpuset_parse(agent->cpus, &unused, &diag) != LS_OK)
        coord_plan_check_say(c, &agent->base, "cpus", -1, "%s; or leave it out", diag.text);
    else if (ls_cpuset_count(&unused) == 0)
        coord_plan_check_say(c, &agent->base, "cpus", -1,
                             "is empty: leave it out, or give a list such as 0-3,8");
}

static void check_agents(struct coord_plan_checker *c, const Ls__Fleet *fleet)
{
    uint32_t clients = count_role(fleet, LS__AGENT_ROLE__AGENT_ROLE_CLIENT);
    uint32_t servers = count_role(fleet, LS__AGENT_ROLE__AGENT_ROLE_SERVER);

    if (!coord_plan_check_few(c, &fleet->base, "agents", fleet->n_agents))
        return;
    for (size_t i = 0; i < fleet->n_agents; i++)
        check_agent(c, fleet, i);
    if (fleet->has_clients && clients > fleet->clients)
        coord_plan_check_say(c, &fleet->base, "clients", -1,
                             "%" PRIu32 " is less than the %" PRIu32
                             " clients in agents: raise it, or leave it out",
                             fleet->clients, clients);
    if (fleet->has_servers && servers > fleet->servers)
        coord_plan_check_say(c, &fleet->base, "servers", -1,
                             "%" PRIu32 " is less than the %" PRIu32
                             " servers in agents: raise it, or leave it out",
                             fleet->servers, servers);
    else if (servers > SERVERS_MAX)
        coord_plan_check_say(c, &fleet->base, "agents", -1,
                             "%" PRIu32 " are servers: at most %u are allowed", servers,
                             SERVERS_MAX);
    if (servers > 0 && all_external(c->plan))
        coord_plan_check_say(c, &fleet->base, "agents", -1,
                             "one is a server, and all targets are external: there is nothing for "
                             "it to do");
    if (!fleet->has_clients && clients > 0)
        c->clients = clients;
}

bool coord_plan_needs_clients(const Ls__Plan *plan)
{
    for (size_t i = 0; i < plan->n_workloads; i++) {
        if (plan->workloads[i]->protocol_case != LS__WORKLOAD__PROTOCOL_PROCESS)
            return true;
    }
    return plan->n_workloads == 0;
}

static void check_fleet(struct coord_plan_checker *c)
{
    const Ls__Fleet *fleet = c->plan->fleet;

    if (fleet == NULL)
        return;
    coord_plan_check_range(c, &fleet->base, "clients", fleet->clients,
                           coord_plan_needs_clients(c->plan), CLIENTS_MAX);
    if (fleet->clients >= 1 && fleet->clients <= CLIENTS_MAX)
        c->clients = fleet->clients;
    check_agents(c, fleet);
    check_servers(c, fleet);
    if (fleet->cpus != NULL)
        check_cpus(c, fleet->cpus);
    coord_plan_check_duration(c, &fleet->base, "max_start_skew", fleet->max_start_skew,
                              10 * LS_NS_PER_US, 10 * LS_NS_PER_S);
    coord_plan_check_duration(c, &fleet->base, "start_lead", fleet->start_lead, 100 * LS_NS_PER_MS,
                              LS_NS_PER_S * 60);
}

static void check_schedule(struct coord_plan_checker *c)
{
    const Ls__Schedule *schedule = c->plan->schedule;

    if (schedule == NULL)
        return;
    coord_plan_check_range(c, &schedule->base, "repetitions", schedule->repetitions, 1,
                           REPETITIONS_MAX);
    coord_plan_check_range(c, &schedule->base, "discard", schedule->discard, 0, DISCARD_MAX);
    if (schedule->has_seed && schedule->seed > COORD_PLAN_SEED_MAX)
        coord_plan_check_say(c, &schedule->base, "seed", -1,
                             "%" PRIu64 " is out of range: 0 to %" PRIu64
                             ", so that every reader of JSON keeps it",
                             schedule->seed, COORD_PLAN_SEED_MAX);
}

/* ---- names and references ---------------------------------------------------------------------
 */

/* Two targets, or two workloads, of one name; name_at gives the i-th one's. */
static void check_unique(struct coord_plan_checker *c, const char *const *names, size_t count,
                         const ProtobufCMessage *const *messages, const char *field)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (names[i] == NULL || names[k] == NULL || strcmp(names[i], names[k]) != 0)
                continue;
            coord_plan_check_say(c, messages[i], "name", -1,
                                 "'%s' is the name of %s[%zu] already: choose another", names[i],
                                 field, k);
            break;
        }
    }
}

/* Are all targets known by name, so that a reference can be judged? */
static bool targets_known(const struct coord_plan_checker *c)
{
    const ProtobufCMessage *plan = &c->plan->base;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(plan->descriptor, "targets");

    if (c->plan->n_targets == 0 || c->plan->n_targets > COORD_PLAN_ITEMS_MAX ||
        ls_marks_broken(c->marks, plan, field))
        return false;
    for (size_t i = 0; i < c->plan->n_targets; i++) {
        if (c->plan->targets[i]->name == NULL)
            return false;
    }
    return true;
}

static void check_references(struct coord_plan_checker *c, const Ls__Workload *workload,
                             const char *const *names)
{
    size_t count = c->plan->n_targets;

    for (size_t i = 0; i < workload->n_targets; i++) {
        const char *wanted = workload->targets[i];
        const char *close;
        size_t k = 0;

        while (k < count && strcmp(names[k], wanted) != 0)
            k++;
        if (k < count)
            continue;
        /* A suggestion that nobody sees is not worth looking for. */
        close = c->issues->count < LS_YAML_MAX_ISSUES ? ls_closest(wanted, names, count) : NULL;
        if (close != NULL)
            coord_plan_check_say(c, &workload->base, "targets", (int)i,
                                 "there is no target '%.64s': did you mean '%s'?", wanted, close);
        else
            coord_plan_check_say(c, &workload->base, "targets", (int)i,
                                 "there is no target '%.64s' in this plan", wanted);
    }
    for (size_t i = 1; i < workload->n_targets; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(workload->targets[i], workload->targets[k]) == 0) {
                coord_plan_check_say(c, &workload->base, "targets", (int)i,
                                     "is listed twice: keep one");
                break;
            }
        }
    }
}

static void check_targets(struct coord_plan_checker *c)
{
    const Ls__Plan *plan = c->plan;
    const char *names[COORD_PLAN_ITEMS_MAX];
    const ProtobufCMessage *messages[COORD_PLAN_ITEMS_MAX];
    bool known = targets_known(c);

    if (plan->n_targets == 0)
        coord_plan_check_say(c, &plan->base, "targets", -1,
                             "at least one is needed, for there is nothing to load");
    if (!coord_plan_check_few(c, &plan->base, "targets", plan->n_targets))
        return;
    for (size_t i = 0; i < plan->n_targets; i++) {
        names[i] = plan->targets[i]->name;
        messages[i] = &plan->targets[i]->base;
        coord_plan_check_target(c, plan->targets[i]);
    }
    check_unique(c, names, plan->n_targets, messages, "targets");
    for (size_t i = 0; known && i < plan->n_workloads; i++) {
        const Ls__Workload *w = plan->workloads[i];

        if (coord_plan_check_few(c, &w->base, "targets", w->n_targets))
            check_references(c, w, names);
    }
}

static void check_workloads(struct coord_plan_checker *c)
{
    const Ls__Plan *plan = c->plan;
    const char *names[COORD_PLAN_ITEMS_MAX];
    const ProtobufCMessage *messages[COORD_PLAN_ITEMS_MAX];

    if (plan->n_workloads == 0)
        coord_plan_check_say(c, &plan->base, "workloads", -1,
                             "at least one is needed, for there is no load to make");
    if (!coord_plan_check_few(c, &plan->base, "workloads", plan->n_workloads))
        return;
    for (size_t i = 0; i < plan->n_workloads; i++) {
        names[i] = plan->workloads[i]->name;
        messages[i] = &plan->workloads[i]->base;
        coord_plan_check_workload(c, plan->workloads[i]);
    }
    check_unique(c, names, plan->n_workloads, messages, "workloads");
}

/* ---- the whole --------------------------------------------------------------------------------
 */

/* A trial's target and workload travel in one frame. */
static void check_sizes(struct coord_plan_checker *c)
{
    const Ls__Plan *plan = c->plan;

    for (size_t w = 0; w < plan->n_workloads; w++) {
        const Ls__Workload *workload = plan->workloads[w];
        size_t bytes = ls__workload__get_packed_size(workload);
        size_t first =
            workload->protocol_case == LS__WORKLOAD__PROTOCOL_HTTP && workload->http->n_requests > 0
                ? ls__request__get_packed_size(workload->http->requests[0])
                : 0;
        size_t largest = 0;

        for (size_t t = 0; t < plan->n_targets; t++) {
            size_t target = ls__target__get_packed_size(plan->targets[t]);

            largest = target > largest ? target : largest;
        }
        /* The first request stands in for a target's readiness request, too. */
        if (bytes + first + largest > LS_FRAME_MAX_FROM_COORD - FRAME_RESERVE)
            coord_plan_check_say(
                c, &workload->base, NULL, -1,
                "takes %zu bytes with its target: at most %u are allowed, use shorter "
                "bodies or fewer requests",
                bytes + first + largest, LS_FRAME_MAX_FROM_COORD - FRAME_RESERVE);
    }
}

static void check_trial_count(struct coord_plan_checker *c)
{
    const Ls__Plan *plan = c->plan;
    uint64_t repetitions = plan->schedule == NULL
                               ? 3
                               : (uint64_t)plan->schedule->repetitions + plan->schedule->discard;
    uint64_t pairs = 0;

    for (size_t w = 0; w < plan->n_workloads; w++)
        pairs +=
            plan->workloads[w]->n_targets == 0 ? plan->n_targets : plan->workloads[w]->n_targets;
    if (repetitions <= REPETITIONS_MAX + DISCARD_MAX && pairs * repetitions > COORD_TRIALS_MAX)
        coord_plan_check_say(c, &plan->base, "workloads", -1,
                             "%" PRIu64 " pairs of target and workload, %" PRIu64
                             " times each, are "
                             "more than %u trials: repeat less often, or split the plan",
                             pairs, repetitions, COORD_TRIALS_MAX);
}

/* Rates from files into the plan, where everybody finds them. */
static void read_traces(struct coord_plan_checker *c, Ls__Plan *plan)
{
    for (size_t i = 0; i < plan->n_workloads; i++) {
        const Ls__Load *load = plan->workloads[i]->load;
        struct ls_diag diag;

        if (load == NULL || load->law_case != LS__LOAD__LAW_TRACE || load->trace->file == NULL ||
            load->trace->n_points > 0)
            continue;
        if (coord_trace_read(load->trace, c->base_dir, &diag) != LS_OK)
            coord_plan_check_say(c, &load->trace->base, "file", -1, "%s", diag.text);
    }
}

static void check_description(struct coord_plan_checker *c)
{
    const char *text = c->plan->description == NULL ? "" : c->plan->description;

    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 && *text != '\n' && *text != '\t') {
            coord_plan_check_say(c, &c->plan->base, "description", -1,
                                 "holds control characters: remove them");
            return;
        }
    }
}

enum ls_err coord_plan_check(Ls__Plan *plan, const struct ls_marks *marks, const char *base_dir,
                             struct ls_issues *issues)
{
    struct coord_plan_checker c = { .plan = plan,
                                    .marks = marks,
                                    .base_dir = base_dir == NULL ? "." : base_dir,
                                    .issues = issues,
                                    .clients = 1 };

    coord_plan_check_name(&c, &plan->base, plan->name, "plan");
    check_description(&c);
    check_fleet(&c);
    check_schedule(&c);
    check_targets(&c);
    read_traces(&c, plan);
    check_workloads(&c);
    coord_plan_check_tables(&c);
    check_trial_count(&c);
    if (issues->count + issues->dropped == 0)
        check_sizes(&c);
    ls_issues_sort(issues);
    if (issues->count + issues->dropped > 0)
        return LS_EINVAL;
    return coord_plan_complete(plan, c.base_dir);
}
