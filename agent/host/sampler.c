#include "agent/host/sampler.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/host/proc.h"
#include "common/clock.h"

#define PASSES     4  /* a process that ends during a reading makes it start again */
#define FORGET     64 /* readings after which pids of strangers are looked at again: numbers recur */
#define TICK_NS    (10 * LS_NS_PER_MS)
#define STATUS_MAX 4096

struct switches {
    uint64_t voluntary;
    uint64_t involuntary;
};

struct task { /* one thread but the first */
    pid_t tid;
    struct switches seen;
};

struct member {
    struct host_proc proc;
    int64_t cpu_ns;          /* own, counted so far */
    int64_t children_cpu_ns; /* counted so far */
    struct switches seen;    /* of the first thread */
    struct task *tasks;      /* owned */
    size_t task_count;
    uint64_t peak_bytes;
    bool gone;
};

struct host_sampler {
    pid_t root;
    pid_t left_out; /* 0: nobody */
    uint64_t root_start;
    int64_t root_children_ns; /* counted so far */
    struct member *members;   /* parents before children */
    size_t count;
    size_t cap;
    pid_t *strangers; /* sorted: processes known not to be below root */
    size_t stranger_count;
    unsigned readings;
    int64_t cpu_ns;
    int64_t owed_ns; /* <= 0: time of ended processes that their parents' ticks do not show yet */
    struct switches switches;
    uint64_t peak_bytes;
};

/* ---- who is below root */

static int compare_pids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

    return (x > y) - (x < y);
}

static bool has_pid(const pid_t *sorted, size_t count, pid_t pid)
{
    return count > 0 && bsearch(&pid, sorted, count, sizeof(pid), compare_pids) != NULL;
}

static bool is_member(const struct host_sampler *s, pid_t pid)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->members[i].proc.pid == pid)
            return true;
    }
    return false;
}

static bool add_member(struct host_sampler *s, const struct host_proc *proc)
{
    if (s->count == s->cap) {
        size_t cap = s->cap == 0 ? 16 : 2 * s->cap;
        struct member *more = realloc(s->members, cap * sizeof(*more));

        if (more == NULL)
            return false;
        s->members = more;
        s->cap = cap;
    }
    s->members[s->count++] = (struct member){ .proc = *proc };
    return true;
}

/* Moves the candidates that belong here to members and those that surely do not to strangers. Who
 * has lost its parent between listing and reading is neither, and is looked at again next time. */
static bool sort_out(struct host_sampler *s, struct host_proc *cands, size_t count,
                     pid_t *strangers, size_t *stranger_count)
{
    bool moved = true;

    while (moved) {
        size_t left = 0, known = *stranger_count;

        moved = false;
        for (size_t i = 0; i < count; i++) {
            pid_t parent = cands[i].ppid;

            if (parent == s->root || is_member(s, parent)) {
                if (!add_member(s, &cands[i]))
                    return false;
                moved = true;
            } else if (parent == 0 || has_pid(strangers, known, parent)) {
                strangers[(*stranger_count)++] = cands[i].pid;
                moved = true;
            } else {
                cands[left++] = cands[i];
            }
        }
        count = left;
        qsort(strangers, *stranger_count, sizeof(*strangers), compare_pids);
    }
    return true;
}

/* Looks for processes that were not there at the last reading. */
static enum ls_err discover(struct host_sampler *s, struct ls_diag *diag)
{
    struct host_proc *cands = NULL;
    pid_t *pids = NULL, *strangers = NULL;
    size_t pid_count = 0, cand_count = 0, stranger_count = 0;
    enum ls_err rc = host_proc_list(&pids, &pid_count, diag);

    if (rc != LS_OK)
        return rc;
    cands = calloc(pid_count + 1, sizeof(*cands));
    strangers = calloc(pid_count + 1, sizeof(*strangers));
    rc = ls_fail(diag, LS_ENOMEM, "no memory to look at %zu processes", pid_count);
    if (cands == NULL || strangers == NULL)
        goto out;
    if (s->readings++ % FORGET == 0)
        s->stranger_count = 0;
    for (size_t i = 0; i < pid_count; i++) {
        if (has_pid(s->strangers, s->stranger_count, pids[i]))
            strangers[stranger_count++] = pids[i];
        else if (pids[i] != s->root && !is_member(s, pids[i]) &&
                 host_proc_read(pids[i], &cands[cand_count]))
            cand_count++;
    }
    qsort(strangers, stranger_count, sizeof(*strangers), compare_pids);
    if (!sort_out(s, cands, cand_count, strangers, &stranger_count))
        goto out;
    free(s->strangers);
    s->strangers = strangers;
    s->stranger_count = stranger_count;
    strangers = NULL;
    rc = LS_OK;
out:
    free(strangers);
    free(cands);
    free(pids);
    return rc;
}

/* ---- one reading of one process */

static uint64_t field(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10);
}

/* Grows *total by what was added since the last look, as long as it is the same counter. */
static void count_switches(const char *status, struct switches *seen, struct switches *total)
{
    struct switches now = { .voluntary = field(status, "\nvoluntary_ctxt_switches:"),
                            .involuntary = field(status, "\nnonvoluntary_ctxt_switches:") };

    if (now.voluntary >= seen->voluntary && now.involuntary >= seen->involuntary) {
        total->voluntary += now.voluntary - seen->voluntary;
        total->involuntary += now.involuntary - seen->involuntary;
    }
    *seen = now;
}

static struct switches *find_task(struct task *tasks, size_t count, size_t hint, pid_t tid)
{
    if (hint < count && tasks[hint].tid == tid) /* threads come and go rarely */
        return &tasks[hint].seen;
    for (size_t i = 0; i < count; i++) {
        if (tasks[i].tid == tid)
            return &tasks[i].seen;
    }
    return NULL;
}

/* The other threads. Without memory, or when the process has gone, nothing is counted. */
static void read_tasks(struct host_sampler *s, struct member *m)
{
    char path[64], status[STATUS_MAX];
    size_t cap = m->proc.threads + 8, count = 0;
    struct task *tasks = calloc(cap, sizeof(*tasks));
    struct dirent *entry;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)m->proc.pid);
    dir = opendir(path);
    while (dir != NULL && tasks != NULL && count < cap && (entry = readdir(dir)) != NULL) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct switches *seen;

        if (tid <= 0 || tid == m->proc.pid)
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)m->proc.pid, (int)tid);
        if (host_proc_slurp(path, status, sizeof(status)) <= 0)
            continue;
        seen = find_task(m->tasks, m->task_count, count, tid);
        tasks[count] = (struct task){ .tid = tid };
        if (seen != NULL)
            tasks[count].seen = *seen;
        count_switches(status, &tasks[count].seen, &s->switches);
        count++;
    }
    if (dir != NULL)
        (void)closedir(dir);
    free(m->tasks);
    m->tasks = tasks;
    m->task_count = count;
}

static void read_status(struct host_sampler *s, struct member *m)
{
    char path[48], status[STATUS_MAX];

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)m->proc.pid);
    if (host_proc_slurp(path, status, sizeof(status)) <= 0)
        return;
    m->peak_bytes = field(status, "\nVmHWM:") * 1024;
    count_switches(status, &m->seen, &s->switches);
    if (m->proc.threads > 1)
        read_tasks(s, m);
}

/* ---- CPU time of all, consistent */

struct times { /* what a pass found; counted only once the pass is known to be good */
    int64_t own_ns;
    int64_t children_ns;
};

static bool still_there(const struct member *m)
{
    return ls_clock_of_process_ns(m->proc.pid) >= 0;
}

/* Children before parents: a child that ends is then either read here or in what its parent waited
 * for. One that ends after it was read would be in both, so that the pass is good only if all that
 * were read are still there at its end. */
static bool pass(struct host_sampler *s, struct times *times, int64_t *out_root_ns)
{
    struct host_proc root;

    for (size_t i = s->count; i-- > 0;) {
        struct member *m = &s->members[i];
        struct host_proc proc;

        m->gone = !host_proc_read(m->proc.pid, &proc) || proc.start_ticks != m->proc.start_ticks ||
                  (times[i].own_ns = ls_clock_of_process_ns(m->proc.pid)) < 0;
        if (m->gone)
            continue;
        m->proc = proc;
        times[i].children_ns = proc.children_cpu_ns;
    }
    *out_root_ns = s->root_children_ns;
    if (host_proc_read(s->root, &root) && root.start_ticks == s->root_start)
        *out_root_ns = root.children_cpu_ns;
    for (size_t i = 0; i < s->count; i++) {
        if (!s->members[i].gone && !still_there(&s->members[i]))
            return false;
    }
    return true;
}

static void drop_gone(struct host_sampler *s)
{
    size_t left = 0;

    for (size_t i = 0; i < s->count; i++) {
        if (s->members[i].gone)
            free(s->members[i].tasks);
        else
            s->members[left++] = s->members[i];
    }
    s->count = left;
}

/* What has ended must have come up in what its parents waited for. Ticks hide up to 10 ms of user
 * and of system time in each parent: that much is owed and settled later. What is missing beyond
 * was waited for by nobody and stays as it was counted. */
static void settle(struct host_sampler *s, const struct times *times, int64_t root_ns)
{
    int64_t slack_ns = 2 * TICK_NS * (int64_t)(s->count + 1);
    int64_t waited_ns = s->owed_ns + root_ns - s->root_children_ns;

    for (size_t i = 0; i < s->count; i++) {
        struct member *m = &s->members[i];

        if (m->gone) {
            waited_ns -= m->cpu_ns + m->children_cpu_ns;
            continue;
        }
        s->cpu_ns += times[i].own_ns - m->cpu_ns;
        waited_ns += times[i].children_ns - m->children_cpu_ns;
        m->cpu_ns = times[i].own_ns;
        m->children_cpu_ns = times[i].children_ns;
    }
    s->root_children_ns = root_ns;
    if (waited_ns > 0)
        s->cpu_ns += waited_ns;
    s->owed_ns = waited_ns < 0 ? waited_ns : 0;
    if (s->owed_ns < -slack_ns)
        s->owed_ns = -slack_ns;
}

static enum ls_err read_times(struct host_sampler *s, struct ls_diag *diag)
{
    struct times *times = calloc(s->count + 1, sizeof(*times));
    int64_t root_ns = 0;

    if (times == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the times of %zu processes", s->count);
    for (int i = 0; i < PASSES && !pass(s, times, &root_ns); i++)
        ;
    settle(s, times, root_ns);
    free(times);
    drop_gone(s);
    return LS_OK;
}

/* ---- interface */

enum ls_err host_sampler_create(pid_t root, struct host_sampler **out_sampler, struct ls_diag *diag)
{
    struct host_sampler *s = calloc(1, sizeof(*s));
    struct host_proc proc;

    if (s == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a sampler");
    if (!host_proc_read(root, &proc)) {
        free(s);
        return ls_fail(diag, LS_ESTATE, "there is no process %d to sample", (int)root);
    }
    s->root = root;
    s->root_start = proc.start_ticks;
    s->root_children_ns = proc.children_cpu_ns;
    *out_sampler = s;
    return LS_OK;
}

void host_sampler_destroy(struct host_sampler *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->count; i++)
        free(s->members[i].tasks);
    free(s->members);
    free(s->strangers);
    free(s);
}

enum ls_err host_sampler_read(struct host_sampler *s, int64_t now_ns, struct host_usage *out_usage,
                              struct ls_diag *diag)
{
    struct host_usage usage = { .at_ns = now_ns };
    uint64_t peak_bytes = 0;
    enum ls_err rc = discover(s, diag);

    if (rc == LS_OK)
        rc = read_times(s, diag);
    if (rc != LS_OK)
        return rc;
    for (size_t i = 0; i < s->count; i++) {
        struct member *m = &s->members[i];

        if (m->proc.state == 'Z' || m->proc.state == 'X' || m->proc.pid == s->left_out)
            continue;
        read_status(s, m);
        usage.processes++;
        usage.threads += m->proc.threads;
        usage.rss_bytes += m->proc.rss_bytes;
        peak_bytes += m->peak_bytes;
    }
    s->peak_bytes = peak_bytes > s->peak_bytes ? peak_bytes : s->peak_bytes;
    usage.cpu_ns = s->cpu_ns;
    usage.rss_peak_bytes = s->peak_bytes;
    usage.voluntary_switches = s->switches.voluntary;
    usage.involuntary_switches = s->switches.involuntary;
    *out_usage = usage;
    return usage.processes > 0 ? LS_OK
                               : ls_fail(diag, LS_ESTATE, "nothing of the target lives any more");
}

void host_sampler_leave_out(struct host_sampler *s, pid_t pid)
{
    s->left_out = pid;
}

void host_sampler_reset_peak(struct host_sampler *s)
{
    s->peak_bytes = 0;
    for (size_t i = 0; i < s->count; i++) {
        char path[48];
        int fd;

        (void)snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)s->members[i].proc.pid);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        (void)!write(fd, "5", 1); /* refused: the mark then counts from the process's start */
        (void)close(fd);
    }
}
