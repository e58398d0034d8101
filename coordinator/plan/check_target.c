#include "coordinator/plan/plan_check_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/identity.h"
#include "common/msg_model.h"
#include "common/units.h"
#include "coordinator/plan/trials.h"

#define MEMORY_LEAST_BYTES (UINT64_C(1) << 20)
#define MEMORY_MOST_BYTES  (UINT64_C(1) << 46)

/* ---- placeholders -----------------------------------------------------------------------------
 */

static const char *const placeholders[] = { "dir", "host", "port", "cpus", "program", "instance" };

/* Only {[a-z_]+} counts as a placeholder: programs have braces of their own. */
void coord_plan_check_placeholders(struct coord_plan_checker *c, const ProtobufCMessage *message,
                                   const char *field, int index, const char *text)
{
    char name[24];

    for (const char *open = strchr(text, '{'); open != NULL; open = strchr(open + 1, '{')) {
        size_t len = strspn(open + 1, "abcdefghijklmnopqrstuvwxyz_");
        const char *close;
        bool known = false;

        if (len == 0 || len >= sizeof(name) || open[1 + len] != '}')
            continue;
        (void)memcpy(name, open + 1, len);
        name[len] = '\0';
        for (size_t i = 0; i < LS_ARRAY_LEN(placeholders); i++)
            known |= strcmp(name, placeholders[i]) == 0;
        if (known)
            continue;
        close = ls_closest(name, placeholders, LS_ARRAY_LEN(placeholders));
        if (close != NULL)
            coord_plan_check_say(c, message, field, index,
                                 "unknown placeholder {%s}: did you mean {%s}?", name, close);
        else
            coord_plan_check_say(
                c, message, field, index,
                "unknown placeholder {%s}: known are {dir}, {host}, {port}, {cpus}, {program} and "
                "{instance}",
                name);
        return;
    }
}

static void check_words(struct coord_plan_checker *c, const Ls__Target *target, const char *field,
                        char *const *words, size_t count)
{
    if (count > 0 && words[0][0] == '\0')
        coord_plan_check_say(c, &target->base, field, 0,
                             "is empty: the name of a program is expected");
    for (size_t i = 0; i < count; i++)
        coord_plan_check_placeholders(c, &target->base, field, (int)i, words[i]);
}

/* ---- files ------------------------------------------------------------------------------------
 */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* 0, or why the file cannot be read. Only regular files are opened: opening is an act for others.
 */
static int look_at(const char *path, struct stat *out_st)
{
    int fd;

    if (stat(path, out_st) != 0)
        return errno;
    if (!S_ISREG(out_st->st_mode))
        return 0;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno;
    (void)close(fd);
    return 0;
}

static bool check_content(struct coord_plan_checker *c, const ProtobufCMessage *message,
                          const char *field, int index, const char *path, uint64_t max_bytes)
{
    char limit[48];
    struct stat st;
    int error = look_at(path, &st);

    if (error != 0) {
        coord_plan_check_say(c, message, field, index, "cannot be read: %s (%.160s)",
                             strerror(error), path);
    } else if (S_ISDIR(st.st_mode)) {
        coord_plan_check_say(c, message, field, index,
                             index >= 0 ? "is a folder: list its files one by one"
                                        : "is a folder: the name of a file is expected");
    } else if (!S_ISREG(st.st_mode)) {
        coord_plan_check_say(c, message, field, index, "is not a regular file");
    } else if ((uint64_t)st.st_size > max_bytes) {
        coord_plan_check_say(c, message, field, index, "is larger than %s",
                             ls_format_size(max_bytes, limit, sizeof(limit)));
    } else {
        bool fitted = c->file_bytes <= COORD_PLAN_FILES_MAX;

        c->file_bytes += (uint64_t)st.st_size;
        if (c->file_bytes <= COORD_PLAN_FILES_MAX)
            return true;
        if (fitted)
            coord_plan_check_say(
                c, message, field, index,
                "makes the files of this plan more than %s: install it on the host "
                "instead",
                ls_format_size(COORD_PLAN_FILES_MAX, limit, sizeof(limit)));
    }
    return false;
}

bool coord_plan_check_file(struct coord_plan_checker *c, const ProtobufCMessage *message,
                           const char *field, int index, const char *file, uint64_t max_bytes)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s%s%s", file[0] == '/' ? "" : c->base_dir,
                     file[0] == '/' ? "" : "/", file);

    if (n < 0 || (size_t)n >= sizeof(path))
        coord_plan_check_say(c, message, field, index, "is a path that is too long");
    else
        return check_content(c, message, field, index, path, max_bytes);
    return false;
}

static void check_file(struct coord_plan_checker *c, const ProtobufCMessage *message,
                       char *const *files, size_t index)
{
    const char *file = files[index];
    const char *name = base_name(file);
    struct ls_diag diag;

    if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        coord_plan_check_say(c, message, "files", (int)index, "the name of a file is expected");
        return;
    }
    if (ls_fs_name_check(name, &diag) != LS_OK) {
        coord_plan_check_say(c, message, "files", (int)index, "%s", diag.text);
        return;
    }
    if (strcmp(name, "target.log") == 0) {
        coord_plan_check_say(c, message, "files", (int)index,
                             "'target.log' is where the target's output goes: rename the file");
        return;
    }
    for (size_t k = 0; k < index; k++) {
        if (ls_fs_names_clash(base_name(files[k]), name)) {
            coord_plan_check_say(
                c, message, "files", (int)index,
                "'%.64s' is the name of files[%zu], too%s, and both would be copied into "
                "{dir}: rename one",
                name, k, strcmp(base_name(files[k]), name) == 0 ? "" : " (but for case)");
            return;
        }
    }
    (void)coord_plan_check_file(c, message, "files", (int)index, file, COORD_PLAN_FILES_MAX);
}

void coord_plan_check_shipped(struct coord_plan_checker *c, const ProtobufCMessage *message,
                              char *const *files, size_t count)
{
    if (!coord_plan_check_few(c, message, "files", count))
        return;
    for (size_t i = 0; i < count; i++)
        check_file(c, message, files, i);
}

/* ---- the rest ---------------------------------------------------------------------------------
 */

void coord_plan_check_variable(struct coord_plan_checker *c, const ProtobufCMessage *message,
                               const char *name, const char *value)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    static const char others[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

    if (*name == '\0' || strchr(letters, *name) == NULL || name[strspn(name, others)] != '\0')
        coord_plan_check_say(c, message, NULL, -1,
                             "is no name for a variable: letters, digits and '_', and no digit "
                             "first");
    else
        coord_plan_check_placeholders(c, message, "value", -1, value);
}

static void check_env(struct coord_plan_checker *c, const Ls__Target *target)
{
    for (size_t i = 0; i < target->n_env; i++)
        coord_plan_check_variable(c, &target->env[i]->base, target->env[i]->key,
                                  target->env[i]->value);
}

void coord_plan_check_address(struct coord_plan_checker *c, const ProtobufCMessage *message,
                              const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    if (host == NULL || inet_pton(AF_INET, host, address) == 1 ||
        inet_pton(AF_INET6, host, address) == 1)
        return;
    if (strcasecmp(host, "localhost") == 0)
        coord_plan_check_say(c, message, "host", -1,
                             "names are not looked up: write 127.0.0.1, or ::1");
    else
        coord_plan_check_say(c, message, "host", -1,
                             "'%.64s' is no IPv4 or IPv6 address: names are not looked up", host);
}

static void check_signal(struct coord_plan_checker *c, const Ls__Stop *stop)
{
    const char *names[64];
    const char *name = stop->signal;
    const char *close;
    size_t count = 0;

    if (name == NULL)
        return;
    if (strncasecmp(name, "SIG", 3) == 0)
        name += 3;
    for (int i = 1; i < SIGRTMIN && count < LS_ARRAY_LEN(names); i++) {
        const char *other = sigabbrev_np(i);

        if (other == NULL || i == SIGSTOP || i == SIGTSTP || i == SIGTTIN || i == SIGTTOU)
            continue; /* those only pause a process */
        if (strcasecmp(name, other) == 0)
            return;
        names[count++] = other;
    }
    close = ls_closest(name, names, count);
    if (close != NULL)
        coord_plan_check_say(c, &stop->base, "signal", -1,
                             "'%.32s' is no signal that ends a process: did you mean %s?",
                             stop->signal, close);
    else
        coord_plan_check_say(c, &stop->base, "signal", -1,
                             "'%.32s' is no signal that ends a process: TERM, INT and QUIT are",
                             stop->signal);
}

void coord_plan_check_stop(struct coord_plan_checker *c, const Ls__Stop *stop)
{
    check_signal(c, stop);
    coord_plan_check_duration(c, &stop->base, "grace", stop->grace, 0, 600 * LS_NS_PER_S);
}

/* What only makes sense for a program that Lockstep starts. */
static void refuse_start(struct coord_plan_checker *c, const Ls__Target *target)
{
    const struct {
        const char *field;
        bool given;
    } parts[] = {
        { "command", target->n_command > 0 },   { "files", target->n_files > 0 },
        { "version", target->n_version > 0 },   { "env", target->n_env > 0 },
        { "stop", target->stop != NULL },       { "server", target->server != NULL },
        { "probe", target->probe != NULL },     { "services", target->n_services > 0 },
        { "instances", target->has_instances }, { "limits", target->limits != NULL },
    };

    for (size_t i = 0; i < LS_ARRAY_LEN(parts); i++) {
        if (parts[i].given)
            coord_plan_check_say(c, &target->base, parts[i].field, -1,
                                 "does not go with external: true, for nothing is started then");
    }
    if (target->network != LS__NETWORK__NETWORK_HOST)
        coord_plan_check_say(c, &target->base, "network", -1,
                             "private does not go with external: true: who runs already is in a "
                             "network namespace already");
    if (target->ready != NULL && target->ready->has_processes)
        coord_plan_check_say(c, &target->ready->base, "processes", -1,
                             "does not go with external: true: its processes are not looked at");
}

static void check_limits(struct coord_plan_checker *c, const Ls__TargetLimits *limits)
{
    char least[48], most[48], given[48];

    if (limits->memory != NULL &&
        (limits->memory->bytes < MEMORY_LEAST_BYTES || limits->memory->bytes > MEMORY_MOST_BYTES))
        coord_plan_check_say(c, &limits->base, "memory", -1, "%s is out of range: %s to %s",
                             ls_format_size(limits->memory->bytes, given, sizeof(given)),
                             ls_format_size(MEMORY_LEAST_BYTES, least, sizeof(least)),
                             ls_format_size(MEMORY_MOST_BYTES, most, sizeof(most)));
    if (limits->has_processes)
        coord_plan_check_range(c, &limits->base, "processes", limits->processes, 1, 4194304);
    if (limits->has_descriptors)
        coord_plan_check_range(c, &limits->base, "descriptors", limits->descriptors, 8, 1073741816);
}

/* In a namespace of its own there is no other address. */
static void check_network(struct coord_plan_checker *c, const Ls__Target *target)
{
    struct in_addr v4;

    if (target->network != LS__NETWORK__NETWORK_PRIVATE || target->host == NULL ||
        strcmp(target->host, "auto") == 0 || strcmp(target->host, "::1") == 0 ||
        (inet_pton(AF_INET, target->host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127))
        return;
    coord_plan_check_say(c, &target->base, "host", -1,
                         "in a private network there is loopback alone: leave it out, or write "
                         "127.0.0.1 or ::1");
}

static void check_started(struct coord_plan_checker *c, const Ls__Target *target)
{
    if (target->n_command == 0)
        coord_plan_check_say(
            c, &target->base, "command", -1,
            "is missing: the program and its arguments, such as [node, server.mjs]; or "
            "external: true if it runs already");
    check_words(c, target, "command", target->command, target->n_command);
    check_words(c, target, "version", target->version, target->n_version);
    check_env(c, target);
    if (target->has_instances)
        coord_plan_check_range(c, &target->base, "instances", target->instances, 1,
                               COORD_PLAN_INSTANCES_MAX);
    if (target->ready != NULL && target->ready->has_processes)
        coord_plan_check_range(c, &target->ready->base, "processes", target->ready->processes, 1,
                               COORD_PLAN_INSTANCES_MAX);
    check_network(c, target);
    if (target->limits != NULL)
        check_limits(c, target->limits);
    coord_plan_check_shipped(c, &target->base, target->files, target->n_files);
    if (target->stop != NULL)
        coord_plan_check_stop(c, target->stop);
    coord_plan_check_services(c, &target->base, target->services, target->n_services);
    coord_plan_check_absent(c, target);
}

/* Who is not listed may still come, where there are seats for anybody. */
static void check_server(struct coord_plan_checker *c, const Ls__Target *target)
{
    const Ls__Fleet *fleet = c->plan->fleet;
    uint32_t listed = 0;

    if (target->server == NULL)
        return;
    for (size_t i = 0; fleet != NULL && i < fleet->n_agents; i++) {
        const Ls__FleetAgent *agent = fleet->agents[i];

        if (agent->role != LS__AGENT_ROLE__AGENT_ROLE_SERVER)
            continue;
        listed++;
        if (agent->name != NULL && strcmp(agent->name, target->server) == 0)
            return;
    }
    if (!ls_identity_name_is_fine(target->server) ||
        (listed > 0 && (!fleet->has_servers || listed >= fleet->servers)))
        coord_plan_check_say(c, &target->base, "server", -1,
                             "'%.64s' is not the name of a server in fleet.agents", target->server);
}

/* Is it asked for by a workload whose clients connect to it, or by none? */
static bool is_loaded(const struct coord_plan_checker *c, const Ls__Target *target)
{
    bool is_run = false;

    for (size_t i = 0; i < c->plan->n_workloads && target->name != NULL; i++) {
        const Ls__Workload *w = c->plan->workloads[i];

        if (!coord_workload_has_target(w, target->name))
            continue;
        if (w->protocol_case != LS__WORKLOAD__PROTOCOL_PROCESS)
            return true;
        is_run = true;
    }
    return !is_run;
}

void coord_plan_check_target(struct coord_plan_checker *c, const Ls__Target *target)
{
    coord_plan_check_name(c, &target->base, target->name, "target");
    if (!target->has_port && !is_loaded(c, target))
        ; /* a program that is only run listens on nothing */
    else if (!target->has_port)
        coord_plan_check_say(c, &target->base, "port", -1,
                             "is missing: the port that it listens on, 1 to 65535");
    else
        coord_plan_check_range(c, &target->base, "port", target->port, 1, 65535);
    if (target->host == NULL || strcmp(target->host, "auto") != 0)
        coord_plan_check_address(c, &target->base, target->host);
    check_server(c, target);
    if (target->external)
        refuse_start(c, target);
    else
        check_started(c, target);
    if (target->tls != NULL)
        coord_plan_check_tls(c, target->tls);
    if (target->ready != NULL) {
        coord_plan_check_duration(c, &target->ready->base, "timeout", target->ready->timeout,
                                  100 * LS_NS_PER_MS, 3600 * LS_NS_PER_S);
        if (target->ready->request != NULL)
            coord_plan_check_request(c, target->ready->request);
    }
}
