#include "agent/services.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/expand.h"
#include "common/fs.h"
#include "common/pb.h"
#include "common/utf8.h"

#define LOG_MAX_BYTES (4u << 20)

struct service {
    struct agent_services *all;
    struct host_target *target; /* owned; NULL: it could not even be begun */
    char *name;                 /* owned, as are the following */
    char *dir;
    char **argv;
    char **envp;
    char **variables; /* names that the plan's env has */
    bool up;
    bool stopped;
    Ls__ServiceUse use; /* its texts are the following, and the target's */
    Ls__Program program;
    char exit[64];
    char path[PATH_MAX];
};

struct agent_services {
    struct agent_services_env env;
    struct service *items; /* owned */
    Ls__ServiceUse **use;  /* owned */
    size_t count;
    bool stop_asked;
    bool failed;
    bool failure_told;
    struct host_target_event failure;
};

size_t agent_services_count(const Ls__Prepare *prepare)
{
    return (prepare->target != NULL ? prepare->target->n_services : 0) +
           (prepare->workload != NULL ? prepare->workload->n_services : 0);
}

/* ---- start */

/* On the service's thread. */
static enum ls_err may_run(void *ctx, const struct host_program_file *file, char *const *argv,
                           bool version, struct host_confine *out, struct ls_diag *diag)
{
    const struct service *s = ctx;
    const struct agent_policy_command command = {
        .file = file, .argv = argv, .version = version, .dir = s->dir, .variables = s->variables
    };

    return agent_policy_program(s->all->env.policy, &command, out, diag);
}

/* The entries of two generated types of the same form. */
static enum ls_err expand_env(struct service *s, const Ls__Service *from,
                              const struct agent_expand *values, struct ls_diag *diag)
{
    Ls__Target__EnvEntry *entries = calloc(from->n_env + 1, sizeof(*entries));
    Ls__Target__EnvEntry **list = calloc(from->n_env + 1, sizeof(Ls__Target__EnvEntry *));
    enum ls_err rc = LS_ENOMEM;

    s->variables = calloc(from->n_env + 1, sizeof(*s->variables));
    if (entries == NULL || list == NULL || s->variables == NULL)
        goto out;
    for (size_t i = 0; i < from->n_env; i++) {
        ls__target__env_entry__init(&entries[i]);
        entries[i].key = from->env[i]->key;
        entries[i].value = from->env[i]->value;
        list[i] = &entries[i];
        s->variables[i] = strdup(from->env[i]->key);
        if (s->variables[i] == NULL)
            goto out;
    }
    rc = agent_expand_env(values, list, from->n_env, &s->envp, diag);
out:
    free(entries);
    free(list);
    return rc != LS_ENOMEM ? rc : ls_fail(diag, rc, "out of memory for an environment");
}

static enum ls_err make_folder(struct service *s, struct ls_diag *diag)
{
    return asprintf(&s->dir, "%s/services/%s", s->all->env.dir, s->name) >= 0
               ? ls_fs_mkdirs(s->dir, 0700, diag)
               : ls_fail(diag, LS_ENOMEM, "out of memory for a service's folder");
}

/* Whoever runs a service has to get to its folder. */
static enum ls_err open_way(const struct agent_services *all, struct ls_diag *diag)
{
    char path[600];

    (void)snprintf(path, sizeof(path), "%s/services", all->env.dir);
    if (agent_policy_changes_user(all->env.policy) &&
        (chmod(path, 0711) < 0 || chmod(all->env.dir, 0711) < 0))
        return ls_fail(diag, LS_EIO, "cannot open %.200s for other users' services: %s", path,
                       strerror(errno));
    return LS_OK;
}

static enum ls_err begin(struct service *s, const Ls__Service *from, const char *cpus,
                         struct ls_diag *diag)
{
    const struct agent_expand values = { .dir = s->dir,
                                         .host = from->host,
                                         .port = (uint16_t)from->port,
                                         .cpus = cpus,
                                         .home_is_dir =
                                             !agent_policy_is_local(s->all->env.policy) };
    enum ls_err rc = agent_expand_argv(&values, from->command, from->n_command, &s->argv, diag);

    if (rc == LS_OK)
        rc = expand_env(s, from, &values, diag);
    if (rc == LS_OK)
        rc = open_way(s->all, diag);
    if (rc != LS_OK)
        return rc;
    return host_target_start(
        &(struct host_target_spec){ .dir = s->dir,
                                    .argv = s->argv,
                                    .envp = s->envp,
                                    .cpus = cpus,
                                    .host = from->host,
                                    .port = (uint16_t)from->port,
                                    .ready_timeout_ns = from->timeout->ns,
                                    .stop_signal = host_signal_number(from->stop->signal),
                                    .grace_ns = from->stop->grace->ns,
                                    .log_max_bytes = LOG_MAX_BYTES,
                                    .permit = { .ask = may_run, .ctx = s } },
        &s->all->env.host, &s->target, diag);
}

static enum ls_err add(struct agent_services *all, const Ls__Service *from, const char *cpus,
                       struct ls_diag *diag)
{
    struct service *s = &all->items[all->count];
    enum ls_err rc;

    if (from->name == NULL || from->host == NULL || from->timeout == NULL || from->stop == NULL ||
        from->stop->grace == NULL || from->stop->signal == NULL || from->n_command == 0)
        return ls_fail(diag, LS_EPROTO, "PREPARE came with a service that makes no sense");
    rc = ls_fs_name_check(from->name, diag);
    if (rc != LS_OK)
        return rc;
    s->all = all;
    s->name = strdup(from->name);
    ls__service_use__init(&s->use);
    ls__program__init(&s->program);
    all->use[all->count++] = &s->use;
    if (s->name == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for a service");
    s->use.name = s->name;
    rc = make_folder(s, diag);
    if (rc == LS_OK)
        rc = begin(s, from, from->cpus != NULL ? from->cpus : cpus, diag);
    return rc == LS_OK ? rc : ls_fail_in(diag, rc, "service %.64s", from->name);
}

enum ls_err agent_services_start(const Ls__Prepare *prepare, const struct agent_services_env *env,
                                 struct agent_services **out_services, struct ls_diag *diag)
{
    size_t count = agent_services_count(prepare);
    struct agent_services *all = calloc(1, sizeof(*all));
    const Ls__Target *t = prepare->target;
    enum ls_err rc = LS_OK;

    if (all != NULL) {
        all->env = *env;
        all->items = calloc(count + 1, sizeof(*all->items));
        all->use = calloc(count + 1, sizeof(Ls__ServiceUse *));
    }
    if (all == NULL || all->items == NULL || all->use == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "out of memory for services");
    for (size_t i = 0; i < t->n_services && rc == LS_OK; i++)
        rc = add(all, t->services[i], prepare->cpus, diag);
    for (size_t i = t->n_services; i < count && rc == LS_OK; i++)
        rc = add(all, prepare->workload->services[i - t->n_services], prepare->cpus, diag);
    if (rc != LS_OK) {
        agent_services_destroy(all);
        return rc;
    }
    *out_services = all;
    return LS_OK;
}

void agent_services_destroy(struct agent_services *services)
{
    for (size_t i = 0; services != NULL && i < services->count; i++) {
        struct service *s = &services->items[i];

        host_target_destroy(s->target);
        agent_expand_free(s->argv);
        agent_expand_free(s->envp);
        agent_expand_free(s->variables);
        free(s->name);
        free(s->dir);
    }
    if (services == NULL)
        return;
    free(services->items);
    free(services->use);
    free(services);
}

/* ---- events */

static void note_up(struct service *s, const struct host_target_event *event)
{
    size_t n = 0;

    while (s->argv[n] != NULL)
        n++;
    s->up = true;
    (void)snprintf(s->path, sizeof(s->path), "%s", event->program.path);
    ls_utf8_clean(s->path, strlen(s->path));
    s->program.argv = s->argv;
    s->program.n_argv = n;
    s->program.path = s->path;
    s->program.sha256 = ls_pb_text(event->program.sha256); /* the target's, which stays */
    s->program.folder = s->dir;
    s->use.program = &s->program;
    s->use.up_after_ns = event->up_after_ns;
}

static void note_failure(struct service *s, const struct host_target_event *event)
{
    struct agent_services *all = s->all;

    if (all->failed || all->stop_asked)
        return;
    all->failed = true;
    all->failure = *event;
    if (strcmp(event->code, "policy") != 0)
        all->failure.code = "service";
    (void)ls_fail_in(&all->failure.diag, event->diag.code, "service %.64s", s->name);
}

static void note_stopped(struct service *s, const struct host_target_event *event)
{
    s->stopped = true;
    (void)snprintf(s->exit, sizeof(s->exit), "%s", event->exit);
    s->use.exit = s->exit;
    s->use.stopped_by_us = event->stopped_by_us;
}

void agent_services_poll(struct agent_services *services)
{
    struct host_target_event event;

    for (size_t i = 0; i < services->count; i++) {
        struct service *s = &services->items[i];

        while (s->target != NULL && host_target_poll(s->target, &event)) {
            if (event.kind == HOST_TARGET_UP)
                note_up(s, &event);
            else if (event.kind == HOST_TARGET_STOPPED)
                note_stopped(s, &event);
            else if (event.kind != HOST_TARGET_NONE)
                note_failure(s, &event);
        }
    }
}

bool agent_services_are_up(const struct agent_services *services)
{
    for (size_t i = 0; i < services->count; i++) {
        if (!services->items[i].up)
            return false;
    }
    return true;
}

bool agent_services_failure(struct agent_services *services, struct host_target_event *out_event)
{
    bool news = services->failed && !services->failure_told;

    services->failure_told |= news;
    if (news)
        *out_event = services->failure;
    return news;
}

void agent_services_stop(struct agent_services *services)
{
    if (services->stop_asked)
        return;
    services->stop_asked = true;
    for (size_t i = 0; i < services->count; i++)
        host_target_stop(services->items[i].target);
}

bool agent_services_are_stopped(const struct agent_services *services)
{
    for (size_t i = 0; i < services->count; i++) {
        if (!services->items[i].stopped)
            return false;
    }
    return true;
}

Ls__ServiceUse **agent_services_use(struct agent_services *services, size_t *out_count)
{
    *out_count = services->count;
    return services->use;
}
