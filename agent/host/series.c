#include "agent/host/series.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/host/cgroup.h"
#include "agent/host/series_state.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/msg_model.h"
#include "common/pb.h"

#define QUIET_LOOK_NS (20 * LS_NS_PER_MS)
#define LOUD_LOOK_NS  LS_NS_PER_MS
#define WAKE_RUNS     64u
#define WAKE_NS       LS_NS_PER_S
#define GIVE_UP_NS    (15 * LS_NS_PER_S) /* beyond its timeout: not even KILL has ended it */
#define RUNS_MOST     100000u
#define SPAWNER_NS    (10 * LS_NS_PER_S)

/* ---- made */

/* What the coordinator's check sees to; a message may come from elsewhere. */
static bool is_checked(const Ls__Process *p)
{
    for (size_t i = 0; i < p->n_metrics; i++) {
        if (p->metrics[i]->name == NULL)
            return false;
    }
    return p->expect != NULL && p->expect->n_outcomes > 0 && p->output != NULL &&
           p->output->bytes > 0 && p->output->bytes <= UINT64_C(64) << 20 && p->concurrency >= 1 &&
           p->concurrency <= SPAWNER_RUNS_MAX && (!p->has_runs || p->runs <= RUNS_MOST) &&
           p->warmup_runs <= RUNS_MOST;
}

/* A file's content, or else a text; neither: no data. */
static struct ls_bytes either(struct ls_bytes content, const char *text)
{
    return content.data != NULL || text == NULL
               ? content
               : (struct ls_bytes){ (const unsigned char *)text, strlen(text) };
}

static bool make_input(struct host_series *s)
{
    struct ls_bytes input = either(s->spec.input, s->process->stdin);
    struct ls_diag unused;

    if (input.data == NULL)
        return true;
    s->input_fd = memfd_create("ls-stdin", MFD_CLOEXEC);
    return s->input_fd >= 0 && ls_fs_write_all(s->input_fd, input, &unused) == LS_OK;
}

enum ls_err host_series_create(const struct host_series_spec *spec, struct host_series **out_series,
                               struct ls_diag *diag)
{
    struct host_series *s;
    enum ls_err rc;

    if (!is_checked(spec->process) || spec->timeout_ns <= 0 || spec->budget_ns < 0)
        return ls_fail(diag, LS_EINVAL, "the process workload makes no sense");
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a process workload");
    (void)pthread_mutex_init(&s->lock, NULL);
    ls__process_totals__init(&s->totals);
    s->error_fd = s->null_fd = s->input_fd = -1;
    s->spec = *spec;
    s->process = ls_msg_copy(spec->process);
    s->spawner_path = strdup(spec->spawner_path);
    s->slots = calloc(spec->process->concurrency, sizeof(*s->slots));
    s->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    rc = s->process != NULL && s->spawner_path != NULL && s->slots != NULL && s->null_fd >= 0 &&
                 make_input(s)
             ? LS_OK
             : ls_fail(diag, LS_ENOMEM, "no memory for a process workload");
    if (rc == LS_OK)
        rc = host_expectation_create(s->process, either(spec->expected, s->process->expect->output),
                                     &s->expectation, diag);
    if (rc != LS_OK) {
        host_series_destroy(s);
        return rc;
    }
    s->warmups_left = s->process->warmup_runs;
    *out_series = s;
    return LS_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

void host_series_destroy(struct host_series *series)
{
    if (series == NULL)
        return;
    for (uint32_t i = 0; series->slots != NULL && i < series->process->concurrency; i++)
        host_series_free_slot(&series->slots[i]);
    free(series->slots);
    host_spawner_destroy(series->spawner);
    host_expectation_destroy(series->expectation);
    for (size_t i = series->done_taken; i < series->done_count; i++)
        ls__process_run__free_unpacked(series->done[i], NULL);
    free(series->done);
    free(series->argv);
    free(series->spawner_path);
    if (series->process != NULL)
        ls__process__free_unpacked(series->process, NULL);
    close_fd(series->error_fd);
    close_fd(series->null_fd);
    close_fd(series->input_fd);
    (void)pthread_mutex_destroy(&series->lock);
    free(series);
}

/* ---- for the control thread */

Ls__ProcessRun *host_series_next(struct host_series *series)
{
    Ls__ProcessRun *run = NULL;

    (void)pthread_mutex_lock(&series->lock);
    if (series->done_taken < series->done_count)
        run = series->done[series->done_taken++];
    if (series->done_taken == series->done_count)
        series->done_taken = series->done_count = 0;
    (void)pthread_mutex_unlock(&series->lock);
    return run;
}

void host_series_totals(struct host_series *series, Ls__ProcessTotals *out)
{
    (void)pthread_mutex_lock(&series->lock);
    *out = series->totals;
    (void)pthread_mutex_unlock(&series->lock);
}

/* ---- the spawner */

enum ls_err host_series_prepare(struct host_series *s, int *fd, struct ls_diag *diag)
{
    enum ls_err rc = host_spawner_install(s->spawner_path, diag);

    s->error_fd = *fd;
    *fd = -1;
    return rc == LS_OK ? host_spawner_create(fd, &s->spawner, diag) : rc;
}

void host_series_job(const struct host_series *s, struct host_supervisor_job *job)
{
    static char name[] = "ls-spawner";
    static char *const spawner_argv[] = { name, NULL };
    static char *const nothing[] = { NULL };

    job->path = s->spawner_path;
    job->argv = spawner_argv;
    job->envp = nothing;
}

/* An argv whose first word is the path, where the policy wants programs to be called by it. */
static enum ls_err make_argv(struct host_series *s, struct host_target *t)
{
    size_t n = 0;

    while (t->instances[0].argv[n] != NULL)
        n++;
    s->argv = calloc(n + 1, sizeof(*s->argv));
    if (s->argv == NULL)
        return ls_fail(&t->diag, LS_ENOMEM, "no memory for a command of %zu words", n);
    (void)memcpy(s->argv, t->instances[0].argv, n * sizeof(*s->argv));
    if (t->confine.by_real_path)
        s->argv[0] = t->file.real;
    return LS_OK;
}

/* ---- a run begins */

static bool may_begin(struct host_series *s)
{
    const Ls__Process *p = s->process;
    uint32_t measured = s->started > p->warmup_runs ? s->started - p->warmup_runs : 0;

    if (s->active == p->concurrency || s->refused >= HOST_SERIES_REFUSED)
        return false;
    if (s->started < p->warmup_runs)
        return true;
    if (s->warmups_left > 0 || measured >= RUNS_MOST)
        return false;
    if (p->has_runs && measured >= p->runs)
        return false;
    return s->spec.budget_ns == 0 || measured == 0 ||
           ls_clock_mono_ns() - s->measure_ns < s->spec.budget_ns;
}

static void begin_measuring(struct host_series *s, const struct host_target *t)
{
    s->measure_ns = ls_clock_mono_ns();
    host_counters_read(t->cpus_text, 0, &s->before);
}

static int open_input(const struct host_series *s)
{
    char path[40];

    if (s->input_fd < 0)
        return fcntl(s->null_fd, F_DUPFD_CLOEXEC, 3);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", s->input_fd);
    return open(path, O_RDONLY | O_CLOEXEC); /* with a place of its own, from the beginning */
}

static enum ls_err order(struct host_series *s, struct host_target *t, struct host_slot *slot,
                         int in, int out)
{
    const struct host_spawner_run run = { .id = slot->index,
                                          .path = host_program_exec_path(&t->file, &t->confine),
                                          .argv = s->argv,
                                          .envp = t->instances[0].envp,
                                          .fds = { in, out, s->error_fd },
                                          .timeout_ns = s->spec.timeout_ns,
                                          .tell_start = s->process->marker != NULL };

    return host_spawner_run(s->spawner, &run, &t->diag);
}

static struct host_slot *take_slot(struct host_series *s)
{
    struct host_slot *slot = s->slots;

    while (slot->index != 0)
        slot++;
    slot->index = ++s->started;
    slot->warmup = slot->index <= s->process->warmup_runs;
    slot->read_fd = -1;
    slot->give_up_ns = ls_clock_mono_ns() + s->spec.timeout_ns + GIVE_UP_NS;
    s->active++;
    return slot;
}

static enum ls_err begin(struct host_series *s, struct host_target *t)
{
    struct host_slot *slot = take_slot(s);
    int fds[2] = { -1, -1 }, in = open_input(s);
    enum ls_err rc = host_output_create(s->expectation, &slot->output, &t->diag);

    if (rc == LS_OK && (in < 0 || !host_series_open_output(s, t, slot->warmup, fds)))
        rc = ls_fail(&t->diag, LS_EIO, "cannot open a run's input and output: %s", strerror(errno));
    slot->read_fd = fds[0];
    if (!slot->warmup && s->measure_ns == 0)
        begin_measuring(s, t);
    if (rc == LS_OK)
        rc = order(s, t, slot, in, fds[1]);
    close_fd(in);
    close_fd(fds[1]);
    return rc;
}

static enum ls_err not_started(struct host_target *t, int error)
{
    char text[300];

    host_program_explain_exec(&t->file, error, text, sizeof(text));
    return ls_fail(&t->diag, LS_EIO, "%s", text);
}

static struct host_slot *find_slot(struct host_series *s, uint32_t index)
{
    for (uint32_t i = 0; index != 0 && i < s->process->concurrency; i++) {
        if (s->slots[i].index == index)
            return &s->slots[i];
    }
    return NULL;
}

static enum ls_err take_report(struct host_series *s, struct host_target *t,
                               const struct spawner_report *report)
{
    struct host_slot *slot = find_slot(s, report->id);

    if (report->kind == SPAWNER_UP) {
        s->spawner_up = true;
        s->spawner_peak_bytes = report->peak_bytes;
        return LS_OK;
    }
    if (slot == NULL)
        return ls_fail(&t->diag, LS_EPROTO, "the spawner tells of a run that there is not");
    if (report->kind == SPAWNER_STARTED) {
        slot->pid = report->pid;
        host_series_note_marker(slot);
        return LS_OK;
    }
    return report->error != 0 ? not_started(t, report->error) : host_series_end(s, t, slot, report);
}

static enum ls_err take_reports(struct host_series *s, struct host_target *t)
{
    struct spawner_report report;
    enum ls_err rc;

    do {
        rc = host_spawner_receive(s->spawner, &report);
        if (rc == LS_OK)
            rc = take_report(s, t, &report);
        else if (rc == LS_ECLOSED)
            return ls_fail(&t->diag, rc,
                           "the process that starts the runs was killed, by one of them or for "
                           "want of memory");
    } while (rc == LS_OK);
    return rc == LS_EAGAIN ? LS_OK : rc;
}

/* ---- all of them */

static void wake(struct host_series *s, struct host_target *t, bool now)
{
    int64_t at_ns = ls_clock_mono_ns();
    size_t waiting;

    (void)pthread_mutex_lock(&s->lock);
    waiting = s->done_count - s->done_taken;
    (void)pthread_mutex_unlock(&s->lock);
    if (waiting == 0 || (!now && waiting < WAKE_RUNS && at_ns - s->woken_ns < WAKE_NS))
        return;
    s->woken_ns = at_ns;
    t->env.wake(t->env.ctx);
}

static enum ls_err check_stuck(const struct host_series *s, struct host_target *t)
{
    int64_t now_ns = ls_clock_mono_ns();

    for (uint32_t i = 0; i < s->process->concurrency; i++) {
        if (s->slots[i].index != 0 && s->slots[i].give_up_ns <= now_ns)
            return ls_fail(&t->diag, LS_ETIMEOUT,
                           "run %u was killed after its time and does not end", s->slots[i].index);
    }
    return LS_OK;
}

static enum ls_err step(struct host_series *s, struct host_target *t)
{
    int64_t now_ns = ls_clock_mono_ns();
    enum ls_err rc;

    host_target_wait(t, now_ns + (s->loud ? LOUD_LOOK_NS : QUIET_LOOK_NS));
    if (t->lost || t->exited)
        return host_target_explain_end(t, "while its runs were under way");
    rc = take_reports(s, t);
    if (rc == LS_OK)
        rc = check_stuck(s, t);
    host_series_look(s);
    wake(s, t, false);
    return rc;
}

static void add_up(struct host_series *s, const struct host_target *t)
{
    struct host_counters after;

    host_counters_read(t->cpus_text, 0, &after);
    (void)pthread_mutex_lock(&s->lock);
    s->totals.spawner_peak_bytes = s->spawner_peak_bytes;
    s->totals.span_ns = s->measure_ns > 0 ? ls_clock_mono_ns() - s->measure_ns : 0;
    s->totals.cpus_busy_ns = after.cpus_busy_ns - s->before.cpus_busy_ns;
    s->totals.cpus_steal_ns = after.cpus_steal_ns - s->before.cpus_steal_ns;
    s->totals.memory_limit_bytes = t->spec.limits.memory_bytes;
    if (s->totals.memory_limit_bytes > 0)
        s->totals.memory_limit_by = ls_pb_text(
            t->group != NULL && host_cgroup_memory_by(t->group)[0] != '\0' ? "cgroup"
                                                                           : "RLIMIT_DATA");
    (void)pthread_mutex_unlock(&s->lock);
}

/* The spawner is there, and says so. */
static enum ls_err await_spawner(struct host_series *s, struct host_target *t)
{
    struct epoll_event event = { .events = EPOLLIN };
    int64_t give_up_ns = ls_clock_mono_ns() + SPAWNER_NS;
    enum ls_err rc = LS_OK;

    if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, host_spawner_fd(s->spawner), &event) < 0)
        return ls_fail(&t->diag, LS_EIO, "cannot watch the spawner: %s", strerror(errno));
    while (rc == LS_OK && !s->spawner_up) {
        host_target_wait(t, give_up_ns);
        rc = take_reports(s, t);
        if (rc == LS_OK && ls_clock_mono_ns() >= give_up_ns)
            rc = ls_fail(&t->diag, LS_ETIMEOUT, "the spawner does not answer");
    }
    return rc;
}

enum ls_err host_series_run(struct host_series *s, struct host_target *t)
{
    enum ls_err rc = make_argv(s, t);

    if (rc == LS_OK)
        rc = await_spawner(s, t);
    s->oom_kills = host_series_oom_kills(t);
    s->woken_ns = ls_clock_mono_ns();
    while (rc == LS_OK) {
        while (rc == LS_OK && may_begin(s))
            rc = begin(s, t);
        if (rc != LS_OK || s->active == 0)
            break;
        rc = host_target_stop_asked(t) ? LS_ESTATE : step(s, t);
    }
    if (rc == LS_OK)
        add_up(s, t);
    wake(s, t, true);
    return rc;
}
