/* What is wrong with a policy that its schema cannot say, and what it stands for on this host. */
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/files.h"
#include "agent/policy/policy_impl.h"
#include "common/digest.h"

#define ITEMS_MAX    256u
#define NAME_MAX_LEN 64u
#define WORD_MAX_LEN 4096u

struct checker {
    const struct ls_marks *marks;
    struct ls_issues *issues;
    bool root;
};

/* ---- lists of words */

static bool few(struct checker *c, const ProtobufCMessage *message, const char *field, size_t count)
{
    if (count <= ITEMS_MAX)
        return true;
    ls_issues_add_at(c->issues, c->marks, message, field, -1, "has more than %u entries",
                     ITEMS_MAX);
    return false;
}

static void check_words(struct checker *c, const ProtobufCMessage *message, const char *field,
                        char *const *words, size_t count, bool ellipsis)
{
    if (!few(c, message, field, count))
        return;
    for (size_t i = 0; i < count; i++) {
        if (strlen(words[i]) > WORD_MAX_LEN)
            ls_issues_add_at(c->issues, c->marks, message, field, (int)i, "is too long");
        if (ellipsis && strcmp(words[i], "...") == 0 && i + 1 < count)
            ls_issues_add_at(c->issues, c->marks, message, field, (int)i,
                             "'...' stands for all further arguments: nothing may follow it");
    }
}

static enum ls_err check_nets(struct checker *c, const ProtobufCMessage *message, const char *field,
                              char *const *words, size_t count, struct policy_nets *out)
{
    if (count == 0 || !few(c, message, field, count))
        return LS_OK;
    out->items = calloc(count, sizeof(*out->items));
    if (out->items == NULL)
        return LS_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct ls_diag diag;

        if (policy_net_parse(words[i], &out->items[out->count], &diag) == LS_OK)
            out->count++;
        else
            ls_issues_add_at(c->issues, c->marks, message, field, (int)i, "%s", diag.text);
    }
    return LS_OK;
}

/* ---- programs */

static bool is_number(const char *text)
{
    return text[0] != '\0' && strlen(text) < 10 && text[strspn(text, "0123456789")] == '\0';
}

/* By name or number; a number needs its group, for nobody is asked for it. False: said so. */
static bool look_up_user(struct checker *c, const Ls__AllowedProgram *p, struct host_confine *out)
{
    const struct passwd *user = NULL;
    const struct group *group = NULL;

    if (is_number(p->user)) {
        out->uid = (uid_t)strtoul(p->user, NULL, 10);
        if (p->group == NULL)
            ls_issues_add_at(c->issues, c->marks, &p->base, "user", -1,
                             "is a number, and then needs a group");
    } else {
        user = getpwnam(p->user); /* one thread: nothing has begun yet */
        if (user == NULL) {
            ls_issues_add_at(c->issues, c->marks, &p->base, "user", -1,
                             "'%.64s' is no user of this host", p->user);
            return false;
        }
        out->uid = user->pw_uid;
        out->gid = user->pw_gid;
    }
    if (p->group == NULL)
        return user != NULL;
    if (is_number(p->group)) {
        out->gid = (gid_t)strtoul(p->group, NULL, 10);
        return true;
    }
    group = getgrnam(p->group);
    if (group != NULL)
        out->gid = group->gr_gid;
    else
        ls_issues_add_at(c->issues, c->marks, &p->base, "group", -1,
                         "'%.64s' is no group of this host", p->group);
    return group != NULL;
}

static void check_user(struct checker *c, const Ls__AllowedProgram *p, struct host_confine *out)
{
    if (p->user == NULL) {
        if (p->group != NULL)
            ls_issues_add_at(c->issues, c->marks, &p->base, "group", -1, "needs a user");
        else if (c->root)
            ls_issues_add_at(c->issues, c->marks, &p->base, "user", -1,
                             "is missing: the agent is root's, and who this program runs as has to "
                             "be said, even if it is root");
        return;
    }
    if (!look_up_user(c, p, out))
        return;
    out->change_user = c->root || out->uid != geteuid() || out->gid != getegid();
    if (out->change_user && !c->root)
        ls_issues_add_at(c->issues, c->marks, &p->base, "user", -1,
                         "'%.64s' is not who the agent runs as, and only an agent of root's can "
                         "change that",
                         p->user);
}

/* A limit of 0 would be none. */
static uint64_t check_size(struct checker *c, const Ls__ProgramLimits *limits, const char *field,
                           const Ls__Size *size)
{
    if (size != NULL && size->bytes == 0)
        ls_issues_add_at(c->issues, c->marks, &limits->base, field, -1, "allows nothing");
    return size != NULL ? size->bytes : 0;
}

static void check_limits(struct checker *c, const Ls__AllowedProgram *p, struct host_confine *out)
{
    const Ls__ProgramLimits *limits = p->limits;
    struct ls_diag diag;

    if (limits == NULL)
        return;
    out->memory_bytes = check_size(c, limits, "memory", limits->memory);
    out->address_space_bytes = check_size(c, limits, "address_space", limits->address_space);
    out->file_bytes = check_size(c, limits, "file", limits->file);
    out->processes = limits->processes;
    out->descriptors = limits->descriptors;
    if (limits->has_descriptors && limits->descriptors < 8)
        ls_issues_add_at(c->issues, c->marks, &limits->base, "descriptors", -1,
                         "is too few for any program: 8 at the least");
    if (limits->has_processes && limits->processes == 0)
        ls_issues_add_at(c->issues, c->marks, &limits->base, "processes", -1,
                         "is too few for any program: 1 at the least");
    if (limits->has_processes && out->change_user && out->uid == 0)
        ls_issues_add_at(c->issues, c->marks, &limits->base, "processes", -1,
                         "does not hold for root: give the program another user");
    if (limits->cpus == NULL)
        return;
    out->has_cpus = true;
    if (ls_cpuset_parse(limits->cpus, &out->cpus, &diag) != LS_OK)
        ls_issues_add_at(c->issues, c->marks, &limits->base, "cpus", -1, "%s", diag.text);
    else if (ls_cpuset_count(&out->cpus) == 0)
        ls_issues_add_at(c->issues, c->marks, &limits->base, "cpus", -1,
                         "is empty: a list such as 0-3,8 is expected");
}

static bool is_sha256(const char *text)
{
    return strlen(text) == LS_SHA256_HEX - 1 && text[strspn(text, "0123456789abcdef")] == '\0';
}

static void check_program(struct checker *c, const Ls__AllowedProgram *p, struct host_confine *out)
{
    if (p->name != NULL && (p->name[0] == '\0' || strlen(p->name) > NAME_MAX_LEN))
        ls_issues_add_at(c->issues, c->marks, &p->base, "name", -1,
                         "has to have 1 to %u characters", NAME_MAX_LEN);
    if (p->path == NULL)
        ls_issues_add_at(c->issues, c->marks, &p->base, "path", -1,
                         "is missing: the program's file, such as /usr/sbin/nginx");
    else if (p->path[0] != '/' && strncmp(p->path, "{dir}/", 6) != 0)
        ls_issues_add_at(c->issues, c->marks, &p->base, "path", -1,
                         "has to be absolute, or {dir}/... for what comes with a plan");
    for (size_t i = 0; few(c, &p->base, "sha256", p->n_sha256) && i < p->n_sha256; i++) {
        if (!is_sha256(p->sha256[i]))
            ls_issues_add_at(c->issues, c->marks, &p->base, "sha256", (int)i,
                             "is no SHA-256: 64 digits of 0-9 and a-f, as sha256sum prints them");
    }
    check_words(c, &p->base, "arguments", p->arguments, p->n_arguments, true);
    check_words(c, &p->base, "version", p->version, p->n_version, true);
    check_words(c, &p->base, "environment", p->environment, p->n_environment, false);
    check_user(c, p, out);
    check_limits(c, p, out);
}

static enum ls_err check_programs(struct checker *c, struct agent_policy *policy)
{
    const Ls__Policy *m = policy->message;

    if (!few(c, &m->base, "programs", m->n_programs))
        return LS_OK;
    policy->programs = calloc(m->n_programs + 1, sizeof(*policy->programs));
    if (policy->programs == NULL)
        return LS_ENOMEM;
    for (size_t i = 0; i < m->n_programs; i++)
        check_program(c, m->programs[i], &policy->programs[i].confine);
    return LS_OK;
}

/* ---- load and files */

static enum ls_err check_load(struct checker *c, struct agent_policy *policy)
{
    const Ls__AllowedLoad *load = policy->message->load;
    enum ls_err rc;

    if (load == NULL)
        return LS_OK;
    rc = check_nets(c, &load->base, "targets", load->targets, load->n_targets, &policy->targets);
    if (rc == LS_OK)
        rc =
            check_nets(c, &load->base, "sources", load->sources, load->n_sources, &policy->sources);
    if (load->max_rate != NULL && !(load->max_rate->per_s > 0))
        ls_issues_add_at(c->issues, c->marks, &load->base, "max_rate", -1,
                         "allows nothing: leave targets empty for that");
    if (load->max_connections != NULL && load->max_connections->n == 0)
        ls_issues_add_at(c->issues, c->marks, &load->base, "max_connections", -1,
                         "allows nothing: leave targets empty for that");
    if (load->max_duration != NULL && load->max_duration->ns <= 0)
        ls_issues_add_at(c->issues, c->marks, &load->base, "max_duration", -1,
                         "allows nothing: leave targets empty for that");
    return rc;
}

static void check_files(struct checker *c, const Ls__AllowedFiles *files)
{
    if (files == NULL)
        return;
    if (files->max_bytes != NULL && files->max_bytes->bytes > AGENT_FILES_MAX_BYTES)
        ls_issues_add_at(c->issues, c->marks, &files->base, "max_bytes", -1, "is at most %u MiB",
                         AGENT_FILES_MAX_BYTES >> 20);
    if (files->max_file_bytes != NULL && files->max_file_bytes->bytes > AGENT_FILES_MAX_BYTES)
        ls_issues_add_at(c->issues, c->marks, &files->base, "max_file_bytes", -1,
                         "is at most %u MiB", AGENT_FILES_MAX_BYTES >> 20);
    if (files->has_max_files && files->max_files > AGENT_FILES_MAX)
        ls_issues_add_at(c->issues, c->marks, &files->base, "max_files", -1, "is at most %u",
                         AGENT_FILES_MAX);
}

enum ls_err policy_check(struct agent_policy *policy, const struct ls_marks *marks, bool root,
                         struct ls_issues *issues)
{
    struct checker c = { .marks = marks, .issues = issues, .root = root };
    const Ls__Policy *m = policy->message;
    size_t before = issues->count + issues->dropped;
    enum ls_err rc;

    check_words(&c, &m->base, "coordinators", m->coordinators, m->n_coordinators, false);
    rc = check_programs(&c, policy);
    if (rc == LS_OK)
        rc = check_load(&c, policy);
    check_files(&c, m->files);
    if (rc != LS_OK)
        return rc;
    return issues->count + issues->dropped == before ? LS_OK : LS_EINVAL;
}
