/* What a coordinator spends on a fleet: `lockstep run --listen` itself, over TLS, with agents that
 * are simulated in this process (fleet_agents.h) and stream an interval a second each.
 *
 *     bench_fleet COORDINATOR-CPU AGENTS-CPU LOCKSTEP FOLDER AGENTS [SECONDS]
 *
 * FOLDER is made, and holds keys, plan and result. Prints one line of key=value: coordinator CPU
 * per report with everything that the coordinator does meanwhile (acknowledgements, clock
 * exchanges, the journal, histograms added and written), what its memory grows by with each agent,
 * how long the sessions and the barrier take. Exit status 0 only if every report is in the result.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/cpuset.h"
#include "common/fs.h"
#include "coordinator/result/store.h"
#include "tests/bench/fleet_agents.h"

#define SECONDS_DEFAULT 5u
#define AGENTS_MAX      9000u
#define DESCRIPTORS     3u /* for each agent: both ends, and its log */
#define PATIENCE_NS     (300 * LS_NS_PER_S)

struct bench {
    const char *coordinator_cpu;
    const char *lockstep;
    char folder[PATH_MAX - 100];
    uint32_t agents;
    uint32_t seconds;
    struct fleet *fleet; /* owned */
    pid_t pid;           /* of the coordinator; 0: none */
    int words_fd;        /* its stderr; owned */
    int log_fd;          /* FOLDER/coordinator.err, a copy; owned */
    char words[4096];    /* the last of them */
    size_t words_len;
    int64_t limit_ns;
    int64_t issued_ns;
    int64_t dialled_ns;
    int64_t welcomed_ns;
    long rss_before_kib;
    long rss_sessions_kib;
    long rss_load_kib;
    int64_t cpu_before_ns;
    int64_t cpu_sessions_ns;
    int64_t cpu_load_ns;
    int64_t cpu_after_ns;
};

static long resident_kib(pid_t pid)
{
    char path[64];
    FILE *file;
    long pages = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*s %ld", &pages) != 1)
        pages = 0;
    (void)fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static enum ls_err write_plan(const struct bench *b, struct ls_diag *diag)
{
    char path[PATH_MAX];
    char *text = NULL;
    int len = asprintf(&text,
                       "name: fleet\n"
                       "fleet: {clients: %" PRIu32 ", servers: 0}\n"
                       "targets: [{name: none, external: true, host: 127.0.0.1, port: 9}]\n"
                       "workloads:\n"
                       "  - name: simulated\n"
                       "    http: {requests: [{path: /}]}\n"
                       "    connections: %" PRIu32 "\n"
                       "    warmup: 0s\n"
                       "    measure: %" PRIu32 "s\n"
                       "    timeout: 60s\n"
                       "schedule: {repetitions: 1}\n",
                       b->agents, b->agents, b->seconds);
    enum ls_err rc;

    if (len < 0)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the plan");
    (void)snprintf(path, sizeof(path), "%s/plan.yaml", b->folder);
    rc = ls_fs_write(path, (struct ls_bytes){ (const unsigned char *)text, (size_t)len }, 0644,
                     diag);
    free(text);
    return rc;
}

static enum ls_err pin(const char *cpu, struct ls_diag *diag)
{
    struct ls_cpuset set;
    enum ls_err rc = ls_cpuset_parse(cpu, &set, diag);

    return rc == LS_OK ? ls_cpuset_set_affinity(0, &set, diag) : rc;
}

static void be_coordinator(const struct bench *b, pid_t parent, int words_fd)
{
    char plan[PATH_MAX], keys[PATH_MAX], out[PATH_MAX];
    struct ls_diag diag = { 0 };

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(words_fd, STDERR_FILENO) < 0 ||
        dup2(words_fd, STDOUT_FILENO) < 0 || pin(b->coordinator_cpu, &diag) != LS_OK)
        _exit(125);
    (void)snprintf(plan, sizeof(plan), "%s/plan.yaml", b->folder);
    (void)snprintf(keys, sizeof(keys), "%s/keys", b->folder);
    (void)snprintf(out, sizeof(out), "%s/result", b->folder);
    (void)execl(b->lockstep, b->lockstep, "run", plan, "--listen", "tls+tcp://127.0.0.1:0",
                "--keys", keys, "--out", out, "--wait", "300s", (char *)NULL);
    (void)fprintf(stderr, "%s: %s\n", b->lockstep, strerror(errno));
    _exit(125);
}

static enum ls_err start_coordinator(struct bench *b, struct ls_diag *diag)
{
    pid_t parent = getpid();
    int words[2];

    if (pipe2(words, O_CLOEXEC) != 0)
        return ls_fail(diag, LS_EIO, "pipe: %s", strerror(errno));
    b->pid = fork();
    if (b->pid == 0)
        be_coordinator(b, parent, words[1]);
    (void)close(words[1]);
    b->words_fd = words[0];
    if (b->pid < 0) {
        b->pid = 0;
        return ls_fail(diag, LS_EIO, "fork: %s", strerror(errno));
    }
    (void)fcntl(b->words_fd, F_SETFL, O_NONBLOCK);
    return LS_OK;
}

/* False: it has nothing more to say. */
static bool hear(struct bench *b)
{
    char text[1024];
    ssize_t n;

    while ((n = read(b->words_fd, text, sizeof(text) - 1)) > 0) {
        size_t len = (size_t)n;

        (void)!write(b->log_fd, text, len);
        if (b->words_len + len >= sizeof(b->words)) { /* the earlier half goes */
            size_t kept = b->words_len < sizeof(b->words) / 2 ? b->words_len : sizeof(b->words) / 2;

            memmove(b->words, b->words + b->words_len - kept, kept);
            b->words_len = kept;
        }
        memcpy(b->words + b->words_len, text, len);
        b->words_len += len;
        b->words[b->words_len] = '\0';
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static enum ls_err turn(struct bench *b, struct ls_diag *diag)
{
    const struct fleet_state *state = fleet_look(b->fleet);

    fleet_turn(b->fleet);
    if (!hear(b))
        return ls_fail(diag, LS_EIO, "the coordinator has ended: %.180s",
                       b->words + (b->words_len > 180 ? b->words_len - 180 : 0));
    if (state->trouble[0] != '\0')
        return ls_fail(diag, LS_EPROTO, "%.100s; the coordinator: %.180s", state->trouble,
                       b->words + (b->words_len > 180 ? b->words_len - 180 : 0));
    if (ls_clock_mono_ns() >= b->limit_ns)
        return ls_fail(diag, LS_ETIMEOUT,
                       "no end in sight: %u welcomed, %u armed at, %u intervals, %u of %u stored",
                       state->welcomed, state->attempts, state->reported, state->acked, b->agents);
    return LS_OK;
}

static enum ls_err find_port(struct bench *b, uint16_t *out_port, struct ls_diag *diag)
{
    static const char before[] = "waiting for agents at tls+tcp://127.0.0.1:";
    const char *at = NULL;
    enum ls_err rc = LS_OK;

    while (rc == LS_OK && (at == NULL || strchr(at, '\n') == NULL)) {
        rc = turn(b, diag);
        at = strstr(b->words, before);
    }
    if (rc == LS_OK)
        *out_port = (uint16_t)strtoul(at + sizeof(before) - 1, NULL, 10);
    return rc;
}

/* From the first connection to the last interval that is stored. */
static enum ls_err stream(struct bench *b, struct ls_diag *diag)
{
    const struct fleet_state *state = fleet_look(b->fleet);
    uint16_t port = 0;
    enum ls_err rc = find_port(b, &port, diag);

    b->rss_before_kib = resident_kib(b->pid);
    b->cpu_before_ns = ls_clock_of_process_ns(b->pid);
    b->dialled_ns = ls_clock_mono_ns();
    fleet_dial(b->fleet, port);
    while (rc == LS_OK && state->welcomed < b->agents)
        rc = turn(b, diag);
    b->welcomed_ns = ls_clock_mono_ns();
    b->rss_sessions_kib = resident_kib(b->pid);
    b->cpu_sessions_ns = ls_clock_of_process_ns(b->pid);
    while (rc == LS_OK && (state->start_ns == INT64_MAX || ls_clock_mono_ns() < state->start_ns))
        rc = turn(b, diag);
    b->cpu_load_ns = ls_clock_of_process_ns(b->pid);
    while (rc == LS_OK && (state->reported < b->seconds || state->acked < b->agents))
        rc = turn(b, diag);
    b->cpu_after_ns = ls_clock_of_process_ns(b->pid);
    b->rss_load_kib = resident_kib(b->pid);
    return rc;
}

/* Until the coordinator has ended by itself. */
static enum ls_err finish(struct bench *b, struct ls_diag *diag)
{
    const struct fleet_state *state = fleet_look(b->fleet);
    int status = 0;

    fleet_end(b->fleet);
    while (hear(b)) {
        fleet_turn(b->fleet);
        if (ls_clock_mono_ns() >= b->limit_ns)
            return ls_fail(diag, LS_ETIMEOUT, "the coordinator does not end");
    }
    if (waitpid(b->pid, &status, 0) != b->pid || !WIFEXITED(status))
        return ls_fail(diag, LS_EIO, "the coordinator did not end by itself");
    b->pid = 0;
    return WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 4
               ? LS_OK
               : ls_fail(diag, LS_EIO, "the coordinator's exit status is %d: %.100s%s",
                         WEXITSTATUS(status), state->trouble,
                         b->words + (b->words_len > 100 ? b->words_len - 100 : 0));
}

/* Is everything that was reported in the result? */
static enum ls_err verify(const struct bench *b, struct ls_diag *diag)
{
    uint64_t sent = (uint64_t)b->agents * b->seconds * FLEET_REQUESTS;
    char path[PATH_MAX];
    Ls__Result *result = NULL;
    const Ls__Trial *trial;
    enum ls_err rc;

    (void)snprintf(path, sizeof(path), "%s/result", b->folder);
    rc = coord_store_load(path, &result, diag);
    if (rc != LS_OK)
        return rc;
    trial = result->n_trials == 1 ? result->trials[0] : NULL;
    if (trial == NULL || trial->requests == NULL || trial->requests->ok != sent ||
        trial->n_clients != b->agents)
        rc = ls_fail(diag, LS_EPROTO,
                     "%" PRIu64 " requests of %u agents were reported, not so %" PRIu64, sent,
                     b->agents, trial != NULL && trial->requests != NULL ? trial->requests->ok : 0);
    ls__result__free_unpacked(result, NULL);
    return rc;
}

static void print(const struct bench *b)
{
    const struct fleet_state *state = fleet_look(b->fleet);
    double reports = (double)b->agents * b->seconds;

    (void)printf("agents=%u seconds=%u report_bytes=%u issue_us=%.0f session_cpu_us=%.0f "
                 "sessions_s=%.2f barrier_ms=%.0f attempts=%u probes=%.1f report_us=%.1f "
                 "session_kib=%.1f load_kib=%.1f rss_mib=%.0f\n",
                 b->agents, b->seconds, state->report_bytes, (double)b->issued_ns / b->agents / 1e3,
                 (double)(b->cpu_sessions_ns - b->cpu_before_ns) / b->agents / 1e3,
                 (double)(b->welcomed_ns - b->dialled_ns) / 1e9,
                 (double)(state->armed_ns - state->asked_ns) / 1e6, state->attempts,
                 (double)state->probes / b->agents,
                 (double)(b->cpu_after_ns - b->cpu_load_ns) / reports / 1e3,
                 (double)(b->rss_sessions_kib - b->rss_before_kib) / b->agents,
                 (double)(b->rss_load_kib - b->rss_before_kib) / b->agents,
                 (double)b->rss_load_kib / 1024);
}

static enum ls_err prepare(struct bench *b, struct ls_diag *diag)
{
    char path[PATH_MAX];
    struct rlimit files;
    enum ls_err rc;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
        if (files.rlim_max < DESCRIPTORS * (rlim_t)b->agents)
            return ls_fail(diag, LS_ERANGE, "%u agents need %u descriptors, and there are %lu",
                           b->agents, DESCRIPTORS * b->agents, (unsigned long)files.rlim_max);
    }
    b->issued_ns = -ls_clock_mono_ns();
    rc = fleet_create(b->agents, b->seconds, &b->fleet, diag);
    b->issued_ns += ls_clock_mono_ns();
    if (rc == LS_OK)
        rc = ls_fs_mkdirs(b->folder, 0700, diag);
    (void)snprintf(path, sizeof(path), "%s/keys", b->folder);
    if (rc == LS_OK)
        rc = fleet_write_keys(b->fleet, path, diag);
    if (rc == LS_OK)
        rc = write_plan(b, diag);
    (void)snprintf(path, sizeof(path), "%s/coordinator.err", b->folder);
    if (rc == LS_OK)
        b->log_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return rc == LS_OK ? start_coordinator(b, diag) : rc;
}

static bool read_number(const char *text, uint32_t max, uint32_t *out)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    *out = (uint32_t)number;
    return *text != '\0' && *end == '\0' && number >= 1 && number <= max;
}

int main(int argc, char **argv)
{
    struct bench b = { .seconds = SECONDS_DEFAULT, .words_fd = -1, .log_fd = -1 };
    struct ls_diag diag = { 0 };
    enum ls_err rc;

    if (argc < 6 || argc > 7 || !read_number(argv[5], AGENTS_MAX, &b.agents) ||
        (argc == 7 && !read_number(argv[6], 3600, &b.seconds))) {
        (void)fprintf(stderr, "usage: bench_fleet COORDINATOR-CPU AGENTS-CPU LOCKSTEP FOLDER "
                              "AGENTS [SECONDS]\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    b.coordinator_cpu = argv[1];
    b.lockstep = argv[3];
    (void)snprintf(b.folder, sizeof(b.folder), "%s", argv[4]);
    b.limit_ns = ls_clock_mono_ns() + PATIENCE_NS;
    rc = pin(argv[2], &diag);
    if (rc == LS_OK)
        rc = prepare(&b, &diag);
    if (rc == LS_OK)
        rc = stream(&b, &diag);
    if (rc == LS_OK)
        rc = finish(&b, &diag);
    if (rc == LS_OK)
        rc = verify(&b, &diag);
    if (rc == LS_OK)
        print(&b);
    else
        (void)fprintf(stderr, "bench_fleet: %s\n", diag.text[0] != '\0' ? diag.text : "failed");
    if (b.pid > 0) {
        (void)kill(b.pid, SIGKILL);
        (void)waitpid(b.pid, NULL, 0);
    }
    fleet_destroy(b.fleet);
    if (b.words_fd >= 0)
        (void)close(b.words_fd);
    if (b.log_fd >= 0)
        (void)close(b.log_fd);
    return rc == LS_OK ? 0 : 1;
}
