#include "agent/host/series.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/cgroup.h"
#include "agent/host/facts.h"
#include "agent/host/output.h"
#include "agent/host/proc.h"
#include "agent/host/spawner.h"
#include "agent/host/target_state.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/msg_model.h"
#include "common/pb.h"

#define QUIET_LOOK_NS   (20 * LS_NS_PER_MS)
#define LOUD_LOOK_NS    LS_NS_PER_MS
#define LOUD_BYTES      65536u /* in one look */
#define CHUNK_BYTES     65536u
#define LOOK_CHUNKS     256u
#define DRAIN_MOST      65536u /* chunks, of a run that has ended */
#define GIVE_BACK_BYTES (1 << 20)
#define WAKE_RUNS       64u
#define WAKE_NS         LS_NS_PER_S
#define GIVE_UP_NS      (15 * LS_NS_PER_S) /* beyond its timeout: not even KILL has ended it */
#define RUNS_MOST       100000u
#define SPAWNER_NS      (10 * LS_NS_PER_S)

struct slot {
    uint32_t index; /* of the run; 0: free */
    bool warmup;
    int read_fd;                /* a pipe's, where a marker is awaited; else a file in memory */
    off_t at;                   /* what has been read of the file */
    off_t emptied;              /* and given back */
    struct host_output *output; /* owned */
    pid_t pid;                  /* where it is awaited for the marker */
    uint64_t marker_rss_bytes;
    int64_t give_up_ns;
};

struct host_series {
    struct host_series_spec spec;
    Ls__Process *process; /* owned, as are the following */
    char *spawner_path;
    struct host_expectation *expectation;
    struct host_spawner *spawner;
    struct slot *slots; /* process->concurrency of them */
    char **argv;        /* the list alone; the words are the target's */
    int error_fd;
    int null_fd;
    int input_fd; /* memfd; -1: none */
    uint32_t active;
    uint32_t started;
    uint32_t warmups_left; /* to be ended */
    uint32_t refused;
    int64_t first_ns;   /* begin of the first run */
    int64_t measure_ns; /* begin of the first measured one; 0: not yet */
    struct host_counters before;
    uint64_t oom_kills; /* of this machine, so far */
    uint64_t spawner_peak_bytes;
    bool spawner_up;
    bool has_figures; /* a run has printed metrics */
    bool loud;        /* a run printed much since the last look */
    int64_t woken_ns;

    pthread_mutex_t lock; /* of the following */
    Ls__ProcessRun **done;
    size_t done_count;
    size_t done_room;
    size_t done_taken;
    Ls__ProcessTotals totals;
};

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

static void free_slot(struct slot *slot)
{
    if (slot->index == 0)
        return;
    close_fd(slot->read_fd);
    host_output_destroy(slot->output);
    *slot = (struct slot){ 0 };
}

void host_series_destroy(struct host_series *series)
{
    if (series == NULL)
        return;
    for (uint32_t i = 0; series->slots != NULL && i < series->process->concurrency; i++)
        free_slot(&series->slots[i]);
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

/* ---- memory at the marker */

/* Exact, unlike the counters of /proc/PID/stat, which each thread adds to in pieces. */
static uint64_t resident_bytes(const struct host_proc *proc)
{
    char path[64], text[1024];
    const char *at;

    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)proc->pid);
    if (host_proc_slurp(path, text, sizeof(text)) < 0)
        return proc->rss_bytes;
    at = strstr(text, "\nRss:");
    return at != NULL ? strtoull(at + 5, NULL, 10) << 10 : proc->rss_bytes;
}

static void note_marker(struct slot *slot)
{
    struct host_proc top, *below = NULL;
    size_t count = 0;

    if (slot->marker_rss_bytes > 0 || slot->pid == 0 || !host_output_is_marked(slot->output) ||
        !host_proc_read(slot->pid, &top))
        return;
    slot->marker_rss_bytes = resident_bytes(&top);
    if (host_proc_descendants(slot->pid, &below, &count, NULL) != LS_OK)
        return;
    for (size_t i = 0; i < count; i++)
        slot->marker_rss_bytes += resident_bytes(&below[i]);
    free(below);
}

/* ---- output */

static ssize_t read_chunk(const struct host_series *s, struct slot *slot, unsigned char *chunk)
{
    ssize_t n;

    if (slot->read_fd < 0)
        return 0;
    if (s->process->marker != NULL)
        return read(slot->read_fd, chunk, CHUNK_BYTES);
    n = pread(slot->read_fd, chunk, CHUNK_BYTES, slot->at);
    slot->at += n > 0 ? n : 0;
    return n;
}

/* What has been read of a file need not be kept. */
static void give_back(const struct host_series *s, struct slot *slot)
{
    if (s->process->marker != NULL || slot->at - slot->emptied < GIVE_BACK_BYTES)
        return;
    (void)fallocate(slot->read_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, slot->emptied,
                    slot->at - slot->emptied);
    slot->emptied = slot->at;
}

/* Returns the bytes that were there, at most a few chunks. */
static size_t read_some(const struct host_series *s, struct slot *slot, unsigned most)
{
    unsigned char chunk[CHUNK_BYTES];
    size_t total = 0;

    for (unsigned i = 0; i < most; i++) {
        ssize_t n = read_chunk(s, slot, chunk);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        host_output_feed(slot->output, (struct ls_bytes){ chunk, (size_t)n });
        total += (size_t)n;
        note_marker(slot);
        give_back(s, slot);
    }
    return total;
}

/* Is there more than a look now and then would keep up with? */
static void look_at_outputs(struct host_series *s)
{
    s->loud = false;
    for (uint32_t i = 0; i < s->process->concurrency; i++) {
        if (s->slots[i].index != 0 && read_some(s, &s->slots[i], LOOK_CHUNKS) >= LOUD_BYTES)
            s->loud = true;
    }
}

/* Measured runs of which something is expected, or whose warm-ups have printed figures of their
 * own; without a warm-up there is no knowing. */
static bool is_heard(const struct host_series *s)
{
    return s->process->warmup_runs == 0 || s->has_figures ||
           host_expectation_listens(s->expectation);
}

/* A pipe for who is to be heard at once, and a file for all others, which nobody has to read while
 * they run. What is not looked at goes to /dev/null, where it makes the least work: Node needs a
 * twentieth more for a file, and as much for a pipe. */
static bool open_output(const struct host_series *s, struct host_target *t, bool warmup, int fds[2])
{
    struct epoll_event event = { .events = EPOLLIN };

    if (s->process->marker != NULL)
        return pipe2(fds, O_CLOEXEC) == 0 && fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0 &&
               epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fds[0], &event) == 0;
    if (!warmup && !is_heard(s)) {
        fds[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
        return fds[1] >= 0;
    }
    fds[0] = memfd_create("ls-stdout", MFD_CLOEXEC);
    fds[1] = fds[0] >= 0 ? fcntl(fds[0], F_DUPFD_CLOEXEC, 3) : -1;
    return fds[1] >= 0;
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

static enum ls_err order(struct host_series *s, struct host_target *t, struct slot *slot, int in,
                         int out)
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

static struct slot *take_slot(struct host_series *s)
{
    struct slot *slot = s->slots;

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
    struct slot *slot = take_slot(s);
    int fds[2] = { -1, -1 }, in = open_input(s);
    enum ls_err rc = host_output_create(s->expectation, &slot->output, &t->diag);

    if (rc == LS_OK && (in < 0 || !open_output(s, t, slot->warmup, fds)))
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

/* ---- a run ends */

static uint64_t count_oom_kills(void)
{
    char text[16384];
    const char *at;

    if (host_proc_slurp("/proc/vmstat", text, sizeof(text)) < 0)
        return 0;
    at = strstr(text, "\noom_kill ");
    return at != NULL ? strtoull(at + 10, NULL, 10) : 0;
}

static uint64_t oom_kills_of(struct host_target *t)
{
    struct host_cgroup_use use = { 0 };

    if (t->group == NULL || host_cgroup_memory_by(t->group)[0] == '\0')
        return count_oom_kills();
    host_cgroup_read(t->group, &use);
    return use.oom_kills;
}

/* Its group's count, and this machine's where there is no group that is limited. */
static bool was_out_of_memory(struct host_series *s, struct host_target *t)
{
    uint64_t before = s->oom_kills;

    s->oom_kills = oom_kills_of(t);
    return s->oom_kills > before;
}

static bool say(char **field, const char *text)
{
    *field = strdup(text);
    return *field != NULL;
}

/* How it ended, but for what it has printed. NULL: as expected. */
static const char *outcome_of(struct host_series *s, struct host_target *t,
                              const struct spawner_report *report, char detail[64])
{
    if (report->timed_out != 0) {
        (void)snprintf(detail, 64, "after %.3g s", (double)s->spec.timeout_ns / LS_NS_PER_S);
        return "timeout";
    }
    if (WIFSIGNALED(report->status)) {
        const char *name = sigabbrev_np(WTERMSIG(report->status));

        (void)snprintf(detail, 64, "signal %s", name != NULL ? name : "unknown");
        return WTERMSIG(report->status) == SIGKILL && was_out_of_memory(s, t) ? "memory" : "signal";
    }
    (void)snprintf(detail, 64, "exit %d", WEXITSTATUS(report->status));
    return (uint32_t)WEXITSTATUS(report->status) == s->process->expect->exit ? NULL : "non_zero";
}

/* An outcome that the plan does not expect. */
static bool is_refused(const struct host_series *s, const char *outcome)
{
    const Ls__ProcessExpect *expect = s->process->expect;
    char word[LS_MSG_WORD_MAX];

    for (size_t i = 0; i < expect->n_outcomes; i++) {
        const char *name =
            ls_msg_enum_word(&ls__process_outcome__descriptor, (int)expect->outcomes[i], word);

        if (name != NULL && strcmp(name, outcome) == 0)
            return false;
    }
    return true;
}

static bool explain(const struct host_output *output, const char *outcome, const char *detail,
                    Ls__ProcessRun *run)
{
    char tail[120], text[300];

    if (run->why[0] != '\0')
        return true;
    (void)host_output_tail(output, tail, sizeof(tail));
    (void)snprintf(text, sizeof(text), "it ended with %s (%s)%s%s", outcome, detail,
                   tail[0] != '\0' ? "; it printed: " : "", tail);
    return say(&run->why, text);
}

static enum ls_err keep(struct host_series *s, Ls__ProcessRun *run, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    (void)pthread_mutex_lock(&s->lock);
    if (s->done_count == s->done_room) {
        size_t room = 2 * s->done_room + 64;
        Ls__ProcessRun **grown = realloc(s->done, room * sizeof(Ls__ProcessRun *));

        if (grown == NULL)
            rc = LS_ENOMEM;
        else
            s->done = grown;
        s->done_room = grown != NULL ? room : s->done_room;
    }
    if (rc == LS_OK)
        s->done[s->done_count++] = run;
    (void)pthread_mutex_unlock(&s->lock);
    return rc == LS_OK ? rc : ls_fail(diag, rc, "no memory for the runs of a process workload");
}

static Ls__ProcessRun *make_run(struct host_series *s, const struct slot *slot,
                                const struct spawner_report *report)
{
    Ls__ProcessRun *run = malloc(sizeof(*run));

    if (run == NULL)
        return NULL;
    ls__process_run__init(run);
    if (s->first_ns == 0)
        s->first_ns = report->begin_ns;
    run->index = slot->index;
    run->warmup = slot->warmup;
    run->start_ns = report->begin_ns - s->first_ns;
    run->wall_ns = report->wall_ns;
    run->user_ns = report->user_ns;
    run->system_ns = report->system_ns;
    run->peak_bytes = report->peak_bytes;
    run->marker_rss_bytes = slot->marker_rss_bytes;
    run->left_over = report->left_over;
    return run;
}

static enum ls_err conclude(struct host_series *s, struct host_target *t, struct slot *slot,
                            const struct spawner_report *report, Ls__ProcessRun *run)
{
    struct ls_diag *diag = &t->diag;
    char detail[64];
    const char *outcome = outcome_of(s, t, report, detail);
    enum ls_err rc = host_output_judge(slot->output, outcome == NULL, run, diag);
    bool ok = rc == LS_OK && say(&run->detail, detail);

    s->has_figures |= run->n_values > 0;
    if (slot->read_fd < 0 && ok) { /* nobody knows what it has printed */
        free(run->output_sha256);
        ok = say(&run->output_sha256, "");
    }
    if (ok && outcome != NULL)
        ok = say(&run->outcome, outcome);
    if (ok && is_refused(s, run->outcome)) {
        s->refused++;
        ok = explain(slot->output, run->outcome, detail, run);
    }
    return ok || rc != LS_OK ? rc : ls_fail(diag, LS_ENOMEM, "no memory for a run");
}

static enum ls_err end(struct host_series *s, struct host_target *t, struct slot *slot,
                       const struct spawner_report *report)
{
    Ls__ProcessRun *run = make_run(s, slot, report);
    enum ls_err rc;

    if (run == NULL)
        return ls_fail(&t->diag, LS_ENOMEM, "no memory for a run");
    (void)read_some(s, slot, DRAIN_MOST);
    rc = conclude(s, t, slot, report, run);
    if (rc == LS_OK)
        rc = keep(s, run, &t->diag);
    if (rc != LS_OK)
        ls__process_run__free_unpacked(run, NULL);
    if (slot->warmup)
        s->warmups_left--;
    s->active--;
    free_slot(slot);
    return rc;
}

static enum ls_err not_started(struct host_target *t, int error)
{
    char text[300];

    host_program_explain_exec(&t->file, error, text, sizeof(text));
    return ls_fail(&t->diag, LS_EIO, "%s", text);
}

static struct slot *find_slot(struct host_series *s, uint32_t index)
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
    struct slot *slot = find_slot(s, report->id);

    if (report->kind == SPAWNER_UP) {
        s->spawner_up = true;
        s->spawner_peak_bytes = report->peak_bytes;
        return LS_OK;
    }
    if (slot == NULL)
        return ls_fail(&t->diag, LS_EPROTO, "the spawner tells of a run that there is not");
    if (report->kind == SPAWNER_STARTED) {
        slot->pid = report->pid;
        note_marker(slot);
        return LS_OK;
    }
    return report->error != 0 ? not_started(t, report->error) : end(s, t, slot, report);
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
    look_at_outputs(s);
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
    s->oom_kills = oom_kills_of(t);
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
