/* From nothing to started: network, port, files, program, control group, supervisor, version,
 * start.
 */
#include "agent/host/target_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/host/netns.h"
#include "agent/host/port.h"
#include "agent/host/proc.h"
#include "agent/host/series.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/units.h"

#define VERSION_LIMIT_NS    (5 * LS_NS_PER_S)
#define HOST_MEMORY_OF_EACH "RLIMIT_DATA of each process"
#define SUBREAPER           "subreaper"
#define START_LIMIT_NS      (10 * LS_NS_PER_S)

/* ---- before the start */

/* The thread's: what it looks at, asks and starts from now on is in there. */
static enum ls_err make_network(struct host_target *t)
{
    enum ls_err rc;

    if (!t->spec.private_network)
        return LS_OK;
    t->code = "network";
    rc = host_netns_make(&t->diag);
    return rc == LS_EREFUSED ? LS_EIO : rc; /* it is no policy that refuses */
}

static enum ls_err check_port(struct host_target *t)
{
    enum ls_err rc = t->spec.series != NULL || t->spec.port == 0
                         ? LS_OK /* it listens on nothing that is known */
                         : host_port_check_free(t->spec.host, t->spec.port, &t->diag);

    t->code = rc == LS_ESTATE ? "port_in_use" : "start_failed";
    return rc;
}

static enum ls_err write_file(const char *dir, const struct host_file *file, struct ls_diag *diag)
{
    mode_t mode = file->executable ? 0755 : 0644;
    int fd = -1;
    enum ls_err rc = ls_fs_create_beneath(dir, file->name, mode, &fd, diag);

    if (rc != LS_OK)
        return rc;
    rc = ls_fs_write_all(fd, file->data, diag);
    if (rc == LS_OK &&
        fchmod(fd, mode) < 0) /* the umask must not decide whether a target can run */
        rc = ls_fail(diag, LS_EIO, "cannot set the mode: %s", strerror(errno));
    if (close(fd) < 0 && rc == LS_OK)
        rc = ls_fail(diag, LS_EIO, "cannot write: %s", strerror(errno));
    return rc == LS_OK ? rc : ls_fail_in(diag, rc, "file %.200s of the target", file->name);
}

static enum ls_err write_files(struct host_target *t)
{
    for (size_t i = 0; i < t->spec.file_count; i++) {
        enum ls_err rc = write_file(t->spec.dir, &t->spec.files[i], &t->diag);

        if (rc != LS_OK)
            return rc;
    }
    return LS_OK;
}

static enum ls_err find_program(struct host_target *t)
{
    enum ls_err rc =
        host_program_find(t->spec.argv[0], t->spec.dir, t->spec.envp, &t->file, &t->diag);

    if (rc == LS_EINVAL && t->spec.probe != NULL)
        t->code = "skipped";
    return rc;
}

/* Is it still what permission was given for? Commands that are asked for a version may write, and
 * by now the trial's folder may be another user's. */
static enum ls_err check_unchanged(struct host_target *t)
{
    struct host_program_file now;
    enum ls_err rc = host_program_find(t->spec.argv[0], t->spec.dir, t->spec.envp, &now, &t->diag);

    if (rc == LS_OK)
        rc = host_program_hash(&now, &t->diag);
    if (rc != LS_OK)
        return rc;
    if (strcmp(now.real, t->file.real) == 0 && strcmp(now.sha256, t->file.sha256) == 0)
        return LS_OK;
    return ls_fail(&t->diag, LS_EIO,
                   "%.300s was changed after it had been looked at, as by a command that was asked "
                   "for the version: it is not run",
                   t->file.path);
}

/* A plan's CPUs have to be among those that are permitted; unless it says which, it gets these. */
static enum ls_err check_permitted_cpus(struct host_target *t)
{
    char want[128], may[128];

    if (!t->confine.has_cpus)
        return LS_OK;
    for (size_t i = 0; t->has_cpus && i < LS_ARRAY_LEN(t->cpus.bits); i++) {
        if ((t->cpus.bits[i] & ~t->confine.cpus.bits[i]) != 0)
            return ls_fail(&t->diag, LS_EREFUSED,
                           "limits.cpus: the target is to run on CPUs %s, only %s are allowed",
                           ls_cpuset_format(&t->cpus, want, sizeof(want)),
                           ls_cpuset_format(&t->confine.cpus, may, sizeof(may)));
    }
    t->cpus = t->confine.cpus;
    t->has_cpus = true;
    return LS_OK;
}

/* The trial's folder, with all that has come into it so far, to the user who will run there: until
 * now nobody else could touch what was found in it. */
static enum ls_err hand_over(struct host_target *t)
{
    const struct host_confine *c = &t->confine;

    for (size_t i = 0; i < t->spec.file_count; i++) {
        enum ls_err rc =
            ls_fs_give_beneath(t->spec.dir, t->spec.files[i].name, c->uid, c->gid, &t->diag);

        if (rc != LS_OK)
            return rc;
    }
    if (chown(t->spec.dir, c->uid, c->gid) < 0)
        return ls_fail(&t->diag, LS_EIO, "cannot give %.200s to the user of the target: %s",
                       t->spec.dir, strerror(errno));
    return LS_OK;
}

static enum ls_err ask_permission(struct host_target *t)
{
    const struct host_permit *permit = &t->spec.permit;
    enum ls_err rc = LS_OK;

    if (permit->ask != NULL)
        rc = permit->ask(permit->ctx, &t->file, t->spec.argv, false, &t->confine, &t->diag);
    if (rc == LS_OK)
        rc = check_permitted_cpus(t);
    if (rc == LS_OK) /* not for who may not run it: it may be of any size */
        rc = host_program_hash(&t->file, &t->diag);
    return rc == LS_OK && t->confine.change_user ? hand_over(t) : rc;
}

static void add_limit(struct host_containment *c, const char *fmt, ...) LS_PRINTF(2, 3);

static void add_limit(struct host_containment *c, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(c->limits[c->limit_count], sizeof(c->limits[0]), fmt, args);
    va_end(args);
    c->limit_count++;
}

/* What the plan asks for, unless what the host permits is less. */
static enum ls_err limit_descriptors(struct host_target *t)
{
    uint32_t want = t->spec.limits.descriptors;

    if (want == 0)
        return LS_OK;
    if (t->confine.descriptors > 0 && t->confine.descriptors < want)
        return ls_fail(&t->diag, LS_EREFUSED, "limits.descriptors: %u are asked for, %u allowed",
                       want, t->confine.descriptors);
    t->confine.descriptors = want;
    return LS_OK;
}

/* Of runs that cannot be held to a limit together, each process. */
static void limit_each(struct host_target *t)
{
    uint64_t want = t->spec.limits.memory_bytes;
    char size[48];

    if (t->confine.memory_bytes == 0 || t->confine.memory_bytes > want)
        t->confine.memory_bytes = want;
    add_limit(&t->containment, "memory %s (" HOST_MEMORY_OF_EACH ")",
              ls_format_size(want, size, sizeof(size)));
}

static enum ls_err make_group(struct host_target *t)
{
    struct host_cgroup_limits limits = { .memory_bytes = t->spec.limits.memory_bytes,
                                         .processes = t->spec.limits.processes };
    struct host_containment *c = &t->containment;
    struct host_cgroup *group = NULL;
    enum ls_err rc = limit_descriptors(t);
    char size[48];

    if (rc != LS_OK)
        return rc;
    rc = host_cgroup_create(&limits, &group, &t->diag);
    t->code = "limits";
    if (rc == LS_EREFUSED && t->spec.series != NULL && limits.memory_bytes > 0) {
        limit_each(t);
        limits.memory_bytes = 0;
        rc = host_cgroup_create(&limits, &group, &t->diag);
    }
    if (rc != LS_OK)
        return rc == LS_EREFUSED ? LS_EIO : rc; /* it is no policy that refuses */
    c->by = SUBREAPER;
    c->cpu_from = "";
    if (group == NULL)
        return LS_OK;
    if (host_cgroup_kills_by(group)[0] != '\0')
        c->by = host_cgroup_kills_by(group);
    c->cpu_from = host_cgroup_cpu_from(group);
    if (limits.memory_bytes > 0)
        add_limit(c, "memory %s (%s)", ls_format_size(limits.memory_bytes, size, sizeof(size)),
                  host_cgroup_memory_by(group));
    if (limits.processes > 0)
        add_limit(c, "processes %u (%s)", limits.processes, host_cgroup_processes_by(group));
    (void)pthread_mutex_lock(&t->lock);
    t->group = group;
    (void)pthread_mutex_unlock(&t->lock);
    return LS_OK;
}

static enum ls_err create_supervisor(struct host_target *t)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct host_sampler *sampler = NULL;
    enum ls_err rc = host_supervisor_create(&t->supervisor, &t->diag);

    if (rc != LS_OK)
        return rc;
    if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, host_supervisor_fd(t->supervisor), &event) < 0)
        return ls_fail(&t->diag, LS_EIO, "cannot watch the supervisor: %s", strerror(errno));
    rc = host_sampler_create(host_supervisor_pid(t->supervisor), &sampler, &t->diag);
    if (rc != LS_OK)
        return rc;
    (void)pthread_mutex_lock(&t->lock);
    t->sampler = sampler;
    (void)pthread_mutex_unlock(&t->lock);
    if (t->spec.private_network) {
        t->containment.network_pid = host_supervisor_pid(t->supervisor);
        t->containment.network_inode = host_netns_inode(t->containment.network_pid);
    }
    return LS_OK;
}

static struct host_supervisor_job make_job(const struct host_target *t, char *const *argv)
{
    return (struct host_supervisor_job){ .path = host_program_exec_path(&t->file, &t->confine),
                                         .dir = t->spec.dir,
                                         .argv = argv,
                                         .envp = t->spec.envp,
                                         .cpus = t->has_cpus ? &t->cpus : NULL,
                                         .confine = &t->confine,
                                         .group = t->group };
}

static enum ls_err read_version(struct host_target *t)
{
    struct host_supervisor_job job = make_job(t, t->spec.version_argv);
    enum ls_err rc;

    if (t->spec.version_argv[0] == NULL)
        return LS_OK;
    rc = host_version_read(t->supervisor, t->wake_fd, &job, &t->spec.permit, VERSION_LIMIT_NS,
                           t->version, &t->diag);
    if (rc != LS_ECLOSED)
        return rc;
    t->lost = true;
    host_target_wait(t, 0);
    return host_target_explain_end(t, "while the version was asked for");
}

/* ---- start */

static void explain_start(struct host_target *t)
{
    static const char *const doing[] = { "fork",
                                         "make a session for",
                                         "arrange the files of",
                                         "put into its control group",
                                         "set the CPUs of",
                                         "limit",
                                         "change the user of",
                                         "take further privileges from",
                                         "enter the trial folder for",
                                         "execute" };
    enum host_supervisor_step step = t->news.step;
    char text[300], list[128];

    _Static_assert(LS_ARRAY_LEN(doing) == HOST_STEP_COUNT, "words for each step");
    if (step == HOST_STEP_EXEC) {
        host_program_explain_exec(&t->file, t->news.error, text, sizeof(text));
        (void)ls_fail(&t->diag, LS_EIO, "%s", text);
    } else if (step == HOST_STEP_CPUS) {
        (void)ls_fail(
            &t->diag, LS_EIO,
            "cannot run the target on CPUs %s: %s; this host or its cgroup has other CPUs",
            ls_cpuset_format(&t->cpus, list, sizeof(list)), strerror(t->news.error));
    } else {
        (void)ls_fail(&t->diag, LS_EIO, "cannot %s the target: %s", doing[step],
                      strerror(t->news.error));
    }
}

/* The kernel drops CPUs that it may not give without a word. */
static enum ls_err check_cpus(struct host_target *t)
{
    char want[128];

    (void)ls_cpuset_format(&t->news.cpus, t->cpus_text, sizeof(t->cpus_text));
    if (!t->has_cpus || ls_cpuset_equal(&t->cpus, &t->news.cpus))
        return LS_OK;
    return ls_fail(
        &t->diag, LS_EIO,
        "the target was to run on CPUs %s but the system allows it %s only: choose among "
        "those",
        ls_cpuset_format(&t->cpus, want, sizeof(want)), t->cpus_text);
}

/* The limit as it is: one that may not be raised stays where it was. */
static enum ls_err check_descriptors(struct host_target *t, pid_t pid)
{
    uint32_t want = t->spec.limits.descriptors;
    struct rlimit limit = { 0 };

    if (want == 0)
        return LS_OK;
    if (prlimit(pid, RLIMIT_NOFILE, NULL, &limit) == 0 && limit.rlim_cur != want)
        return ls_fail(&t->diag, LS_EIO,
                       "limits.descriptors: the target may have %llu at most, %u are asked for",
                       (unsigned long long)limit.rlim_cur, want);
    return LS_OK;
}

/* A stop is not listened to here: fork and exec take a moment only. */
static enum ls_err start_instance(struct host_target *t, size_t index, int output_fd)
{
    struct host_supervisor_job job = make_job(t, t->instances[index].argv);
    int64_t limit_ns = ls_clock_mono_ns() + START_LIMIT_NS;
    enum ls_err rc;

    job.envp = t->instances[index].envp;
    job.instance = (uint32_t)index;
    /* The spawner and this process have to mean the same by a number. */
    job.own_pids = t->spec.series == NULL && strcmp(t->containment.by, SUBREAPER) == 0;
    job.output_fd = output_fd;
    if (t->spec.series != NULL)
        host_series_job(t->spec.series, &job);
    rc = host_supervisor_start(t->supervisor, &job, &t->diag);
    while (rc == LS_OK && t->started_count <= index && !t->start_failed && !t->lost &&
           ls_clock_mono_ns() < limit_ns)
        host_target_wait(t, limit_ns);
    if (rc != LS_OK)
        return rc;
    if (t->lost)
        return host_target_explain_end(t, "when the target was to be started");
    if (t->start_failed) {
        explain_start(t);
        return LS_EIO;
    }
    if (t->started_count <= index)
        return ls_fail(&t->diag, LS_ETIMEOUT, "%.200s was not executed within 10 s", t->file.path);
    rc = check_cpus(t);
    return rc == LS_OK ? check_descriptors(t, t->instances[index].pid) : rc;
}

static enum ls_err start_program(struct host_target *t)
{
    int file_fd = -1, output_fd = -1;
    enum ls_err rc = ls_fs_create_beneath(t->spec.dir, "target.log", 0644, &file_fd, &t->diag);

    if (rc == LS_OK)
        rc = host_logpump_create(file_fd, t->spec.log_max_bytes, &output_fd, &t->log, &t->diag);
    if (rc != LS_OK)
        return rc;
    if (t->spec.series != NULL)
        rc = host_series_prepare(t->spec.series, &output_fd, &t->diag);
    if (rc != LS_OK)
        return rc;
    t->begun_ns = ls_clock_mono_ns();
    t->clean = false; /* that was the version's */
    for (size_t i = 0; i < t->instance_count && rc == LS_OK; i++)
        rc = start_instance(t, i, output_fd);
    (void)close(output_fd);
    if (rc == LS_OK && t->spec.limits.descriptors > 0)
        add_limit(&t->containment, "descriptors %u", t->spec.limits.descriptors);
    return rc;
}

/* A server is to answer, a series to come to its end. */
static enum ls_err await(struct host_target *t)
{
    if (t->spec.series == NULL)
        return t->spec.ready != NULL ? host_target_await_ready(t) : host_target_await_accepting(t);
    t->code = "runs_failed";
    return host_series_run(t->spec.series, t);
}

enum ls_err host_target_bring_up(struct host_target *t)
{
    static enum ls_err (*const steps[])(struct host_target * t) = {
        make_network,   check_port,      write_files,       find_program,
        ask_permission, make_group,      create_supervisor, host_target_probe,
        read_version,   check_unchanged, start_program,     await,
    };
    enum ls_err rc = LS_OK;

    for (size_t i = 0; i < LS_ARRAY_LEN(steps) && rc == LS_OK; i++) {
        if (host_target_stop_asked(t)) {
            rc = LS_ESTATE;
        } else {
            t->code = "start_failed"; /* unless the step knows better */
            rc = steps[i](t);
            if (rc == LS_EREFUSED)
                t->code = "policy";
        }
    }
    if (rc == LS_OK || host_target_stop_asked(t))
        t->code = NULL;
    return rc;
}
