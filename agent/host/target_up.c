/* From nothing to ready: port, files, program, supervisor, version, start, readiness. */
#include "agent/host/target_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/host/port.h"
#include "agent/host/proc.h"
#include "agent/load/probe.h"
#include "common/clock.h"
#include "common/fs.h"

#define VERSION_LIMIT_NS (5 * LS_NS_PER_S)
#define START_LIMIT_NS   (10 * LS_NS_PER_S)
#define RETRY_REFUSED_NS (2 * LS_NS_PER_MS)
#define RETRY_WRONG_NS   (10 * LS_NS_PER_MS) /* it accepts: do not keep it busy with our asking */

/* ---- before the start */

static enum ls_err check_port(struct host_target *t)
{
    enum ls_err rc = host_port_check_free(t->spec.host, t->spec.port, &t->diag);

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

    if (rc == LS_OK)
        rc = host_program_hash(&t->file, &t->diag);
    return rc;
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
    return rc == LS_OK && t->confine.change_user ? hand_over(t) : rc;
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
    return LS_OK;
}

static struct host_supervisor_job make_job(const struct host_target *t, char *const *argv)
{
    return (struct host_supervisor_job){ .path = host_program_exec_path(&t->file, &t->confine),
                                         .dir = t->spec.dir,
                                         .argv = argv,
                                         .envp = t->spec.envp,
                                         .cpus = t->has_cpus ? &t->cpus : NULL,
                                         .confine = &t->confine };
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

static enum ls_err start_program(struct host_target *t)
{
    struct host_supervisor_job job = make_job(t, t->spec.argv);
    int64_t limit_ns = ls_clock_mono_ns() + START_LIMIT_NS;
    int file_fd = -1, output_fd = -1;
    enum ls_err rc = ls_fs_create_beneath(t->spec.dir, "target.log", 0644, &file_fd, &t->diag);

    if (rc == LS_OK)
        rc = host_logpump_create(file_fd, t->spec.log_max_bytes, &output_fd, &t->log, &t->diag);
    if (rc != LS_OK)
        return rc;
    job.output_fd = output_fd;
    t->begun_ns = ls_clock_mono_ns();
    t->clean = false; /* that was the version's */
    rc = host_supervisor_start(t->supervisor, &job, &t->diag);
    (void)close(output_fd);
    if (rc != LS_OK)
        return rc;
    /* A stop is not listened to here: fork and exec take a moment only. */
    while (!t->started && !t->start_failed && !t->lost && ls_clock_mono_ns() < limit_ns)
        host_target_wait(t, limit_ns);
    if (t->lost)
        return host_target_explain_end(t, "when the target was to be started");
    if (t->start_failed) {
        explain_start(t);
        return LS_EIO;
    }
    if (!t->started)
        return ls_fail(&t->diag, LS_ETIMEOUT, "%.200s was not executed within 10 s", t->file.path);
    return check_cpus(t);
}

/* ---- readiness */

/* What the last attempt met, for the message when time is up. */
struct attempt {
    bool accepted;
    struct ls_diag diag;
};

static bool try_ready(struct host_target *t, struct load_probe *probe, int64_t deadline_ns,
                      struct attempt *last)
{
    struct agent_reply reply = { .outcome = LOAD_ABORTED, .why = "" };
    struct ls_diag diag = { 0 };
    uint64_t sent = 0;
    enum ls_err rc = load_probe_exchange(probe, 0, deadline_ns, &reply, &sent, &diag);

    t->readiness_requests += sent;
    if (rc == LS_OK && reply.outcome == LOAD_OK)
        return true;
    if (rc == LS_ESTATE) /* cancelled: says nothing about the target */
        return false;
    if (sent > 0 || rc == LS_OK || !last->accepted)
        last->diag = diag;
    last->accepted = last->accepted || sent > 0 || rc == LS_OK;
    return false;
}

static enum ls_err not_ready(struct host_target *t, const struct attempt *last)
{
    double limit_s = (double)t->spec.ready_timeout_ns / LS_NS_PER_S;

    t->code = "not_ready";
    if (!last->accepted)
        return ls_fail(
            &t->diag, LS_ETIMEOUT,
            "the target did not accept a connection on %s port %u within %.3g s: does it "
            "listen on another address or port? (%.200s)",
            t->spec.host, t->spec.port, limit_s, last->diag.text);
    return ls_fail(&t->diag, LS_ETIMEOUT,
                   "the target did not answer as expected within %.3g s (%llu requests); the last "
                   "answer: %.300s",
                   limit_s, (unsigned long long)t->readiness_requests, last->diag.text);
}

static enum ls_err await_ready(struct host_target *t)
{
    int64_t deadline_ns = t->begun_ns + t->spec.ready_timeout_ns;
    struct attempt last = { 0 };
    struct load_probe *probe = NULL;
    enum ls_err rc = load_probe_create(t->spec.ready, t->epoll_fd, &probe, &t->diag);

    while (rc == LS_OK) {
        int64_t until_ns = ls_clock_mono_ns();
        bool ready = try_ready(t, probe, deadline_ns, &last);

        if (ready)
            t->up_after_ns = ls_clock_mono_ns() - t->begun_ns;
        else
            until_ns += last.accepted ? RETRY_WRONG_NS : RETRY_REFUSED_NS;
        host_target_wait(t, until_ns);
        if (t->exited || t->lost) /* what answers is not the program that was started */
            rc = host_target_explain_end(t, "before it was ready");
        else if (ready)
            break;
        else if (host_target_stop_asked(t))
            rc = LS_ESTATE;
        else if (ls_clock_mono_ns() >= deadline_ns)
            rc = not_ready(t, &last);
    }
    load_probe_destroy(probe);
    return rc;
}

enum ls_err host_target_bring_up(struct host_target *t)
{
    static enum ls_err (*const steps[])(struct host_target * t) = {
        check_port,        write_files,  find_program,  ask_permission,
        create_supervisor, read_version, start_program, await_ready,
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
