#include "agent/policy/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/policy/pattern.h"
#include "agent/policy/policy_impl.h"
#include "common/share.h"
#include "common/units.h"

/* ---- made */

enum ls_err agent_policy_without_file(enum agent_policy_kind kind, struct agent_policy **out_policy)
{
    struct agent_policy *policy = calloc(1, sizeof(*policy));

    if (policy == NULL)
        return LS_ENOMEM;
    policy->kind = kind;
    *out_policy = policy;
    return LS_OK;
}

void agent_policy_destroy(struct agent_policy *policy)
{
    if (policy == NULL)
        return;
    if (policy->message != NULL)
        ls__policy__free_unpacked(policy->message, NULL);
    free(policy->file);
    free(policy->programs);
    free(policy->targets.items);
    free(policy->sources.items);
    free(policy);
}

bool agent_policy_url_is_local(const char *url)
{
    static const char scheme[] = "ipc://";
    char folder[256];
    struct stat st;
    char *slash;

    if (strncmp(url, scheme, sizeof(scheme) - 1) != 0)
        return false;
    (void)snprintf(folder, sizeof(folder), "%s", url + sizeof(scheme) - 1);
    slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder)
        return false;
    *slash = '\0';
    return stat(folder, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 0077) == 0 &&
           (st.st_uid == geteuid() || st.st_uid == 0);
}

/* ---- whose */

bool agent_policy_is_local(const struct agent_policy *policy)
{
    return policy->message == NULL && policy->kind == AGENT_POLICY_LOCAL;
}

bool agent_policy_runs_programs(const struct agent_policy *policy)
{
    return agent_policy_is_local(policy) ||
           (policy->message != NULL && policy->message->n_programs > 0);
}

enum ls_err agent_policy_no_programs(const struct agent_policy *policy, struct ls_diag *diag)
{
    if (policy->message != NULL)
        return policy_refuse(policy, diag, "programs: none is allowed");
    return policy_refuse(
        policy, diag,
        "this host runs no program for others: allow it in %s, or in the file that "
        "--policy names",
        AGENT_POLICY_DEFAULT_FILE);
}

bool agent_policy_shares_user(const struct agent_policy *policy)
{
    for (size_t i = 0; policy->message != NULL && i < policy->message->n_programs; i++) {
        const struct host_confine *confine = &policy->programs[i].confine;

        if (!confine->change_user || confine->uid == geteuid())
            return true;
    }
    return false;
}

enum ls_err agent_policy_coordinator(const struct agent_policy *policy, const char *name,
                                     struct ls_diag *diag)
{
    const Ls__Policy *m = policy->message;

    if (m == NULL || m->n_coordinators == 0)
        return LS_OK;
    for (size_t i = 0; i < m->n_coordinators; i++) {
        if (name[0] != '\0' && policy_pattern_fits(m->coordinators[i], name, ""))
            return LS_OK;
    }
    if (name[0] == '\0')
        return policy_refuse(policy, diag,
                             "coordinators: this one has not proven who it is: use tls+tcp://");
    return policy_refuse(policy, diag, "coordinators: '%.64s' is not among them", name);
}

/* ---- programs */

static const char *rule_name(const Ls__AllowedProgram *rule)
{
    return rule->name != NULL ? rule->name : rule->path;
}

static enum ls_err check_content(const struct agent_policy *policy, const Ls__AllowedProgram *rule,
                                 const struct host_program_file *file, struct ls_diag *diag)
{
    struct host_program_file copy = *file;
    enum ls_err rc = LS_OK;

    if (rule->n_sha256 == 0)
        return LS_OK;
    if (copy.sha256[0] == '\0')
        rc = host_program_hash(&copy, diag);
    if (rc != LS_OK)
        return rc;
    for (size_t i = 0; i < rule->n_sha256; i++) {
        if (strcmp(rule->sha256[i], copy.sha256) == 0)
            return LS_OK;
    }
    return policy_refuse(policy, diag, "programs (%.64s): sha256: %.128s has %s", rule_name(rule),
                         file->real, copy.sha256);
}

static enum ls_err check_arguments(const struct agent_policy *policy,
                                   const Ls__AllowedProgram *rule,
                                   const struct agent_policy_command *command, struct ls_diag *diag)
{
    char *const *patterns = command->version ? rule->version : rule->arguments;
    size_t count = command->version ? rule->n_version : rule->n_arguments;
    char text[160];
    size_t used = 0;

    if (policy_arguments_fit(patterns, count, command->argv + 1, command->dir) &&
        (!command->version || count > 0))
        return LS_OK;
    text[0] = '\0';
    for (size_t i = 1; command->argv[i] != NULL && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > 1 ? " " : "",
                                 command->argv[i]);
    return policy_refuse(policy, diag, "programs (%.64s): %s: '%.150s' %s", rule_name(rule),
                         command->version ? "version" : "arguments", text,
                         count == 0 ? "is not allowed, none are" : "does not fit");
}

static enum ls_err check_environment(const struct agent_policy *policy,
                                     const Ls__AllowedProgram *rule,
                                     const struct agent_policy_command *command,
                                     struct ls_diag *diag)
{
    for (size_t i = 0; command->variables[i] != NULL; i++) {
        const char *name = command->variables[i];

        if (!policy_variable_fits(rule->environment, rule->n_environment, name))
            return policy_refuse(
                policy, diag, "programs (%.64s): environment: %.64s is not among them%s",
                rule_name(rule), name,
                policy_variable_is_dangerous(name)
                    ? ", and would have to be by its full name: it makes programs load or run "
                      "something else"
                    : "");
    }
    return LS_OK;
}

/* The first rule for this path whose arguments fit decides; if none does, the first for this path
 * says why. */
static enum ls_err find_rule(const struct agent_policy *policy,
                             const struct agent_policy_command *command, size_t *out_index,
                             struct ls_diag *diag)
{
    const Ls__Policy *m = policy->message;
    struct ls_diag why = { 0 };
    enum ls_err first = LS_OK;

    for (size_t i = 0; i < m->n_programs; i++) {
        struct ls_diag other = { 0 };
        enum ls_err rc;

        if (!policy_pattern_fits(m->programs[i]->path, command->file->real, command->dir))
            continue;
        rc = check_content(policy, m->programs[i], command->file, &other);
        if (rc == LS_OK)
            rc = check_arguments(policy, m->programs[i], command, &other);
        if (rc == LS_OK)
            rc = check_environment(policy, m->programs[i], command, &other);
        if (rc == LS_OK) {
            *out_index = i;
            return LS_OK;
        }
        if (first == LS_OK) {
            first = rc;
            why = other;
        }
    }
    if (first != LS_OK) {
        if (diag != NULL)
            *diag = why;
        return first;
    }
    return policy_refuse(policy, diag, "programs: %.200s is not among them", command->file->real);
}

enum ls_err agent_policy_program(const struct agent_policy *policy,
                                 const struct agent_policy_command *command,
                                 struct host_confine *out, struct ls_diag *diag)
{
    size_t index = 0;
    enum ls_err rc;

    *out = (struct host_confine){ 0 };
    if (agent_policy_is_local(policy))
        return LS_OK;
    if (!agent_policy_runs_programs(policy))
        return agent_policy_no_programs(policy, diag);
    rc = find_rule(policy, command, &index, diag);
    if (rc != LS_OK)
        return rc;
    *out = policy->programs[index].confine;
    out->by_real_path = !policy_pattern_fits(policy->message->programs[index]->path,
                                             command->file->path, command->dir);
    return LS_OK;
}

/* ---- load */

/* Literal addresses of the run's servers, as they are stated; what is none is left out. LS_ENOMEM.
 */
static enum ls_err parse_servers(char *const *servers, size_t count, struct policy_address **out,
                                 size_t *out_count)
{
    struct policy_address *list = calloc(count + 1, sizeof(*list));

    if (list == NULL)
        return LS_ENOMEM;
    *out_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (policy_address_parse(servers[i], &list[*out_count]))
            ++*out_count;
    }
    *out = list;
    return LS_OK;
}

static enum ls_err check_target(const struct agent_policy *policy,
                                const struct policy_address *address,
                                const struct policy_address *servers, size_t count,
                                struct ls_diag *diag)
{
    const char *why = policy_address_never(address);
    char text[64];

    (void)policy_address_format(address, text, sizeof(text));
    if (why != NULL)
        return policy_refuse(policy, diag, "load.targets: %s %s", text, why);
    for (size_t i = 0; i < policy->targets.count; i++) {
        if (policy_net_has(&policy->targets.items[i], address, servers, count))
            return LS_OK;
    }
    if (policy->message != NULL)
        return policy_refuse(policy, diag, "load.targets: %s is not in any of them", text);
    if (policy_address_is_loopback(address))
        return LS_OK;
    for (size_t i = 0; i < count; i++) {
        if (policy_address_same(&servers[i], address))
            return LS_OK;
    }
    return policy_refuse(policy, diag,
                         "%s is neither this host nor one that has a server agent in this run: it "
                         "would have to be in load.targets of %s",
                         text, AGENT_POLICY_DEFAULT_FILE);
}

static enum ls_err check_source(const struct agent_policy *policy,
                                const struct sockaddr_storage *source, struct ls_diag *diag)
{
    struct policy_address address;
    char text[64];
    enum ls_err rc = policy_address_of(source, &address, diag);
    const char *why;

    if (rc != LS_OK)
        return rc;
    why = policy_address_never(&address);
    (void)policy_address_format(&address, text, sizeof(text));
    if (why != NULL)
        return policy_refuse(policy, diag, "load.sources: %s %s", text, why);
    for (size_t i = 0; i < policy->sources.count; i++) {
        if (policy_net_has(&policy->sources.items[i], &address, NULL, 0))
            return LS_OK;
    }
    if (policy->sources.count == 0)
        return LS_OK; /* that it is this host's has been tried */
    return policy_refuse(policy, diag, "load.sources: %s is not in any of them", text);
}

static uint64_t connections_of(const struct load_workload *w)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < w->workers; i++)
        sum += ls_share(w->connections, w->workers_total, w->worker_base + i);
    return sum;
}

/* The highest rate that this agent's share can come to; INFINITY: there is no telling. */
static double peak_rate(const struct load_workload *w, uint64_t connections)
{
    double share = (double)w->workers / w->workers_total;
    double peak = 0;

    switch (w->law) {
    case LOAD_LAW_CONSTANT:
    case LOAD_LAW_POISSON:
        return w->rate_per_s * share;
    case LOAD_LAW_PIECES:
        for (size_t i = 0; i < w->piece_count; i++) {
            peak = fmax(peak, w->pieces[i].from_per_s);
            peak = fmax(peak, w->pieces[i].to_per_s);
        }
        return peak * share;
    case LOAD_LAW_CLOSED:
        return w->think_ns > 0 ? (double)connections * w->pipeline * 1e9 / (double)w->think_ns
                               : INFINITY;
    default:
        return INFINITY;
    }
}

static enum ls_err check_amount(const struct agent_policy *policy, const struct load_workload *w,
                                struct ls_diag *diag)
{
    const Ls__AllowedLoad *load = policy->message->load;
    uint64_t connections = connections_of(w);
    double rate = peak_rate(w, connections);
    char limit[48], wanted[48];

    if (load == NULL)
        return LS_OK;
    if (load->max_connections != NULL && connections > load->max_connections->n)
        return policy_refuse(policy, diag,
                             "load.max_connections: %" PRIu64 " are more than %" PRIu64,
                             connections, load->max_connections->n);
    if (load->max_rate == NULL || rate <= load->max_rate->per_s)
        return LS_OK;
    (void)ls_format_rate(load->max_rate->per_s, limit, sizeof(limit));
    if (isinf(rate))
        return policy_refuse(policy, diag,
                             "load.max_rate: a closed loop that does not think, and waves, are as "
                             "fast as the server, and could pass %s: give the load a rate",
                             limit);
    return policy_refuse(policy, diag, "load.max_rate: %s are more than %s",
                         ls_format_rate(rate, wanted, sizeof(wanted)), limit);
}

enum ls_err agent_policy_workload(const struct agent_policy *policy, const struct load_workload *w,
                                  char *const *servers, size_t server_count, struct ls_diag *diag)
{
    struct policy_address address, *list = NULL;
    size_t count = 0;
    enum ls_err rc;

    if (agent_policy_is_local(policy))
        return LS_OK;
    rc = policy_address_of(&w->address, &address, diag);
    if (rc == LS_OK && parse_servers(servers, server_count, &list, &count) != LS_OK)
        rc = ls_fail(diag, LS_ENOMEM, "out of memory for the servers' addresses");
    if (rc == LS_OK)
        rc = check_target(policy, &address, list, count, diag);
    free(list);
    for (uint32_t i = 0; i < w->source_count && rc == LS_OK; i++)
        rc = check_source(policy, &w->sources[i], diag);
    return rc == LS_OK && policy->message != NULL ? check_amount(policy, w, diag) : rc;
}

enum ls_err agent_policy_duration(const struct agent_policy *policy, int64_t length_ns,
                                  struct ls_diag *diag)
{
    const Ls__AllowedLoad *load = policy->message != NULL ? policy->message->load : NULL;
    char limit[48], wanted[48];

    if (load == NULL || load->max_duration == NULL || length_ns <= load->max_duration->ns)
        return LS_OK;
    return policy_refuse(policy, diag, "load.max_duration: %s is longer than %s",
                         ls_format_duration(length_ns, wanted, sizeof(wanted)),
                         ls_format_duration(load->max_duration->ns, limit, sizeof(limit)));
}

/* ---- files */

void agent_policy_files(const struct agent_policy *policy, struct agent_files_limits *out)
{
    const Ls__AllowedFiles *files = policy->message != NULL ? policy->message->files : NULL;

    *out = (struct agent_files_limits){ .max_bytes = AGENT_FILES_MAX_BYTES,
                                        .max_file_bytes = AGENT_FILES_MAX_BYTES,
                                        .max_files = AGENT_FILES_MAX };
    if (files == NULL)
        return;
    out->policy = policy_file_name(policy);
    if (files->max_bytes != NULL)
        out->max_bytes = files->max_bytes->bytes;
    if (files->max_file_bytes != NULL)
        out->max_file_bytes = files->max_file_bytes->bytes;
    if (files->has_max_files)
        out->max_files = files->max_files;
}

bool agent_policy_changes_user(const struct agent_policy *policy)
{
    for (size_t i = 0; policy->message != NULL && i < policy->message->n_programs; i++) {
        if (policy->programs[i].confine.change_user)
            return true;
    }
    return false;
}

/* ---- described */

static enum ls_err add_text(char ***list, size_t *count, const char *text)
{
    char **items = realloc(*list, (*count + 1) * sizeof(*items));

    if (items == NULL)
        return LS_ENOMEM;
    *list = items;
    items[*count] = strdup(text);
    if (items[*count] == NULL)
        return LS_ENOMEM;
    ++*count;
    return LS_OK;
}

static enum ls_err describe_file(const struct agent_policy *policy, Ls__HostLimits *out)
{
    const Ls__Policy *m = policy->message;
    const Ls__AllowedLoad *load = m->load;
    char *file = strdup(policy->file);
    enum ls_err rc = LS_OK;

    if (file == NULL)
        return LS_ENOMEM;
    out->policy = file;
    for (size_t i = 0; i < m->n_programs && rc == LS_OK; i++)
        rc = add_text(&out->programs, &out->n_programs, rule_name(m->programs[i]));
    for (size_t i = 0; i < m->n_coordinators && rc == LS_OK; i++)
        rc = add_text(&out->coordinators, &out->n_coordinators, m->coordinators[i]);
    if (load == NULL || rc != LS_OK)
        return rc;
    for (size_t i = 0; i < load->n_targets && rc == LS_OK; i++)
        rc = add_text(&out->targets, &out->n_targets, load->targets[i]);
    if (load->max_connections != NULL)
        out->max_connections = load->max_connections->n;
    if (load->max_rate != NULL)
        out->max_rate_per_s = load->max_rate->per_s;
    if (load->max_duration != NULL)
        out->max_duration_ns = load->max_duration->ns;
    return rc;
}

enum ls_err agent_policy_describe(const struct agent_policy *policy, Ls__HostLimits *out)
{
    enum ls_err rc;

    if (policy->message != NULL)
        return describe_file(policy, out);
    if (policy->kind == AGENT_POLICY_LOCAL) {
        rc = add_text(&out->programs, &out->n_programs, "any");
        return rc == LS_OK ? add_text(&out->targets, &out->n_targets, "any") : rc;
    }
    rc = add_text(&out->targets, &out->n_targets, "loopback");
    return rc == LS_OK ? add_text(&out->targets, &out->n_targets, "servers") : rc;
}
