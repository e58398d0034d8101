#include "agent/host/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/cgroup_file.h"
#include "agent/host/proc.h"
#include "common/clock.h"

#define REMOVE_WAIT_NS (2 * LS_NS_PER_S)
#define MOUNTINFO_MAX  (256u << 10)
#define SELF_MAX       8192u
#define PROCS_MAX      16384u
#define BELOW_MAX      32u
#define PREFIX         "lockstep-"

/* The hierarchies that are of use. */
enum tree { TREE_V2, TREE_FREEZER, TREE_MEMORY, TREE_PIDS, TREE_CPUACCT, TREE_COUNT };

static const char *const controllers[] = { "", "freezer", "memory", "pids", "cpuacct" };
_Static_assert(LS_ARRAY_LEN(controllers) == TREE_COUNT, "the controller of each");

/* Where groups may be made: below the groups that this process was in when it first asked. */
static struct {
    pthread_once_t once;
    char above[TREE_COUNT][HOST_CGROUP_PATH]; /* "": not there, or not ours to make any in */
    char owner[64];                           /* "lockstep-PIDNS-PID-START": who made a group */
    unsigned long pid_namespace;
    pthread_mutex_t lock; /* of the next two, and of moving out of the way */
    unsigned serial;
    bool forbidden;
} host = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

struct host_cgroup {
    char at[TREE_COUNT][HOST_CGROUP_PATH]; /* "": it is not in that hierarchy */
    enum tree memory, pids;                /* which of them; TREE_COUNT: none */
    const char *kills_by;
    const char *memory_by, *processes_by;
    int peak_fd; /* of version 2: what is reset is what this descriptor shows (Linux 6.12); -1 */
    bool peak_is_reset;
};

/* ---- where */

/* Tried by a child, for not every group takes processes that may be made (threaded ones, foreign
 * ones). Between fork and exit it does nothing but write. */
static bool takes_processes(const char *above)
{
    char folder[HOST_CGROUP_FILE], path[HOST_CGROUP_FILE];
    int fd, status = 1;
    pid_t pid;

    if (snprintf(folder, sizeof(folder), "%s/%s-try", above, host.owner) >= (int)sizeof(folder) ||
        !host_cgroup_path(path, folder, "cgroup.procs") || mkdir(folder, 0755) != 0)
        return false;
    fd = open(path, O_WRONLY | O_CLOEXEC);
    pid = fd >= 0 ? fork() : -1;
    if (pid == 0)
        _exit(write(fd, "0", 1) == 1 ? 0 : 1);
    if (pid > 0 && waitpid(pid, &status, 0) != pid)
        status = 1;
    if (fd >= 0)
        (void)close(fd);
    return host_cgroup_remove(folder) && status == 0;
}

static void find_places(void)
{
    char *mountinfo = malloc(MOUNTINFO_MAX);
    char self[SELF_MAX];
    struct host_proc proc = { 0 };
    struct stat st = { 0 };

    (void)stat("/proc/self/ns/pid", &st);
    (void)host_proc_read(getpid(), &proc);
    host.pid_namespace = (unsigned long)st.st_ino;
    (void)snprintf(host.owner, sizeof(host.owner), PREFIX "%lu-%d-%" PRIu64, host.pid_namespace,
                   (int)getpid(), proc.start_ticks);
    if (mountinfo != NULL &&
        host_proc_slurp("/proc/self/mountinfo", mountinfo, MOUNTINFO_MAX) > 0 &&
        host_proc_slurp("/proc/self/cgroup", self, sizeof(self)) > 0) {
        for (unsigned i = 0; i < TREE_COUNT; i++) {
            if (!host_cgroup_place(mountinfo, self, controllers[i], host.above[i]) ||
                access(host.above[i], W_OK) != 0 || !takes_processes(host.above[i]))
                host.above[i][0] = '\0';
        }
    }
    free(mountinfo);
}

void host_cgroup_forbid(bool forbid)
{
    (void)pthread_mutex_lock(&host.lock);
    host.forbidden = forbid;
    (void)pthread_mutex_unlock(&host.lock);
}

static void look(void)
{
    (void)pthread_once(&host.once, find_places);
}

/* ---- what the supervisor does, too */

int host_cgroup_join(const char *folder)
{
    return host_cgroup_put(folder, "cgroup.procs", "0");
}

/* Calls visit for each group right below one, which is this deep below where it all began. */
static void each_below(const char *folder, unsigned depth,
                       void (*visit)(const char *folder, unsigned depth))
{
    char path[HOST_CGROUP_FILE];
    struct dirent *entry;
    DIR *dir = depth < BELOW_MAX ? opendir(folder) : NULL;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0 && host_cgroup_path(path, folder, entry->d_name))
            visit(path, depth + 1);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

static void kill_listed(const char *folder)
{
    char text[PROCS_MAX];
    char *at = text;

    if (!host_cgroup_get(folder, "cgroup.procs", text, sizeof(text)))
        return;
    for (;;) {
        char *end;
        long pid = strtol(at, &end, 10);

        if (end == at || *end != '\n') /* a number that was cut off is left for the next round */
            break;
        if (pid > 0)
            (void)kill((pid_t)pid, SIGKILL);
        at = end;
    }
}

static void kill_with_below(const char *folder, unsigned depth)
{
    kill_listed(folder);
    each_below(folder, depth, kill_with_below);
}

/* Frozen, those below with it, so that nothing forks and no number changes hands meanwhile. */
static void kill_frozen(const char *folder)
{
    bool v1 = host_cgroup_put(folder, "freezer.state", "FROZEN") == 0;

    if (!v1 && host_cgroup_put(folder, "cgroup.freeze", "1") != 0)
        return;
    kill_with_below(folder, 0);
    (void)host_cgroup_put(folder, v1 ? "freezer.state" : "cgroup.freeze", v1 ? "THAWED" : "0");
}

void host_cgroup_kill(const char *folder)
{
    if (host_cgroup_put(folder, "cgroup.kill", "1") != 0)
        kill_frozen(folder);
}

/* With those that a target has made below its own; what somebody still is in stays. */
static void remove_with_below(const char *folder, unsigned depth)
{
    if (rmdir(folder) == 0 || errno != EBUSY)
        return;
    each_below(folder, depth, remove_with_below);
    (void)rmdir(folder); /* who asks sees whether it is there */
}

bool host_cgroup_remove(const char *folder)
{
    int64_t give_up_ns = ls_clock_mono_ns() + REMOVE_WAIT_NS;

    for (;;) {
        remove_with_below(folder, 0);
        if (rmdir(folder) == 0 || errno == ENOENT)
            return true;
        if (errno != EBUSY || ls_clock_mono_ns() >= give_up_ns)
            return false;
        ls_clock_sleep_until(ls_clock_mono_ns() + LS_NS_PER_MS / 2);
    }
}

/* ---- made */

static bool make_folder(struct host_cgroup *g, enum tree tree, const char *name)
{
    int n;

    if (host.above[tree][0] == '\0')
        return false;
    n = snprintf(g->at[tree], HOST_CGROUP_PATH, "%s/%s", host.above[tree], name);
    if (n > 0 && n < HOST_CGROUP_PATH && mkdir(g->at[tree], 0755) == 0)
        return true;
    g->at[tree][0] = '\0';
    return false;
}

/* Is everything in the group above this process, or its child? Then it can make room there. */
static bool is_ours(const char *above, char procs[PROCS_MAX])
{
    char *at = procs;

    if (!host_cgroup_get(above, "cgroup.procs", procs, PROCS_MAX))
        return false;
    for (;;) {
        char *end;
        struct host_proc proc;
        pid_t pid = (pid_t)strtol(at, &end, 10);

        if (end == at)
            return true;
        if (pid != getpid() && (!host_proc_read(pid, &proc) || proc.ppid != getpid()))
            return false;
        at = end;
    }
}

/* Moves what is in the group above to a leaf below it. */
static int make_room(const char *above)
{
    char leaf[HOST_CGROUP_PATH], procs[PROCS_MAX];
    char *rest = NULL;
    int n = snprintf(leaf, sizeof(leaf), "%s/%s-agent", above, host.owner);

    if (n < 0 || n >= HOST_CGROUP_PATH)
        return ENAMETOOLONG;
    if (!is_ours(above, procs))
        return EBUSY;
    if (mkdir(leaf, 0755) != 0 && errno != EEXIST)
        return errno;
    for (char *pid = strtok_r(procs, "\n", &rest); pid != NULL; pid = strtok_r(NULL, "\n", &rest)) {
        int error = host_cgroup_put(leaf, "cgroup.procs", pid);

        if (error != 0 && error != ESRCH)
            return error;
    }
    return 0;
}

/* Has a group of version 2 the controller, now or when the one above has passed it on? */
static int pass_on(const struct host_cgroup *g, const char *controller, const char *file)
{
    const char *above = host.above[TREE_V2];
    char word[32];
    int error;

    if (g->at[TREE_V2][0] == '\0')
        return ENOENT;
    if (host_cgroup_has(g->at[TREE_V2], file))
        return 0;
    (void)snprintf(word, sizeof(word), "+%s", controller);
    (void)pthread_mutex_lock(&host.lock);
    error = host_cgroup_put(above, "cgroup.subtree_control", word);
    if (error == EBUSY) {
        error = make_room(above);
        if (error == 0)
            error = host_cgroup_put(above, "cgroup.subtree_control", word);
    }
    (void)pthread_mutex_unlock(&host.lock);
    if (error == 0 && !host_cgroup_has(g->at[TREE_V2], file))
        error = ENOENT;
    return error;
}

static enum ls_err refuse(const char *limit, const char *controller, int error,
                          struct ls_diag *diag)
{
    const char *above = host.above[TREE_V2];

    if (error == EBUSY)
        return ls_fail(diag, LS_EREFUSED,
                       "limits.%s: the control group %.150s has other processes in it, so that no "
                       "group below can be limited: run the agent as a service with Delegate=yes",
                       limit, above);
    return ls_fail(diag, LS_EREFUSED,
                   "limits.%s: this agent can make no control group with the %s controller%s%s: it "
                   "needs root, or a service with Delegate=yes",
                   limit, controller, error != ENOENT ? ": " : "",
                   error != ENOENT ? strerror(error) : "");
}

static enum ls_err limit_memory(struct host_cgroup *g, uint64_t bytes, struct ls_diag *diag)
{
    int error = 0;

    if (g->memory == TREE_COUNT) {
        error = pass_on(g, "memory", "memory.max");
        if (error != 0)
            return refuse("memory", "memory", error, diag);
        g->memory = TREE_V2;
    }
    if (g->memory == TREE_V2) {
        g->memory_by = "memory.max";
        (void)host_cgroup_put(g->at[TREE_V2], "memory.swap.max",
                              "0"); /* without swap there is no such file */
    } else {
        g->memory_by = "memory.limit_in_bytes";
        (void)host_cgroup_put(g->at[TREE_MEMORY], "memory.swappiness", "0");
    }
    error = host_cgroup_put_number(g->at[g->memory], g->memory_by, bytes);
    if (error == 0 && g->memory == TREE_MEMORY)
        (void)host_cgroup_put_number(g->at[TREE_MEMORY], "memory.memsw.limit_in_bytes", bytes);
    return error == 0 ? LS_OK : refuse("memory", "memory", error, diag);
}

static enum ls_err limit_processes(struct host_cgroup *g, uint32_t count, struct ls_diag *diag)
{
    int error = 0;

    if (g->pids == TREE_COUNT) {
        error = pass_on(g, "pids", "pids.max");
        if (error != 0)
            return refuse("processes", "pids", error, diag);
        g->pids = TREE_V2;
    }
    g->processes_by = "pids.max";
    error = host_cgroup_put_number(g->at[g->pids], g->processes_by, count);
    return error == 0 ? LS_OK : refuse("processes", "pids", error, diag);
}

static void make_folders(struct host_cgroup *g, const char *name)
{
    if (make_folder(g, TREE_V2, name))
        g->kills_by =
            host_cgroup_has(g->at[TREE_V2], "cgroup.kill") ? "cgroup.kill" : "cgroup.freeze";
    else if (make_folder(g, TREE_FREEZER, name))
        g->kills_by = "cgroup freezer";
    if (g->at[TREE_V2][0] != '\0' && host_cgroup_has(g->at[TREE_V2], "memory.max"))
        g->memory = TREE_V2;
    else if (make_folder(g, TREE_MEMORY, name))
        g->memory = TREE_MEMORY;
    if (g->at[TREE_V2][0] != '\0' && host_cgroup_has(g->at[TREE_V2], "pids.max"))
        g->pids = TREE_V2;
    (void)make_folder(g, TREE_CPUACCT, name); /* nanoseconds, where cpu.stat has microseconds */
}

static void open_peak(struct host_cgroup *g)
{
    char path[HOST_CGROUP_FILE];

    if (g->memory == TREE_V2 && host_cgroup_path(path, g->at[TREE_V2], "memory.peak"))
        g->peak_fd = open(path, O_RDWR | O_CLOEXEC);
}

enum ls_err host_cgroup_create(const struct host_cgroup_limits *limits,
                               struct host_cgroup **out_group, struct ls_diag *diag)
{
    struct host_cgroup *g = calloc(1, sizeof(*g));
    enum ls_err rc = LS_OK;
    const char *folders[HOST_CGROUP_FOLDERS];
    char name[96];
    unsigned serial;
    bool forbidden;

    if (g == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a control group");
    look();
    (void)pthread_mutex_lock(&host.lock);
    serial = host.serial++;
    forbidden = host.forbidden;
    (void)pthread_mutex_unlock(&host.lock);
    (void)snprintf(name, sizeof(name), "%s-%u", host.owner, serial);
    *g = (struct host_cgroup){ .memory = TREE_COUNT,
                               .pids = TREE_COUNT,
                               .kills_by = "",
                               .memory_by = "",
                               .processes_by = "",
                               .peak_fd = -1 };
    if (!forbidden)
        make_folders(g, name);
    if (limits->memory_bytes > 0)
        rc = limit_memory(g, limits->memory_bytes, diag);
    if (rc == LS_OK && limits->processes > 0) {
        if (g->pids == TREE_COUNT && !forbidden && make_folder(g, TREE_PIDS, name))
            g->pids = TREE_PIDS;
        rc = limit_processes(g, limits->processes, diag);
    }
    open_peak(g);
    if (rc != LS_OK || host_cgroup_folders(g, folders) == 0) {
        host_cgroup_destroy(g);
        g = NULL;
    }
    if (rc == LS_OK)
        *out_group = g;
    return rc;
}

void host_cgroup_destroy(struct host_cgroup *g)
{
    if (g == NULL)
        return;
    if (g->peak_fd >= 0)
        (void)close(g->peak_fd);
    for (unsigned i = 0; i < TREE_COUNT; i++) { /* those to kill by are the first two */
        if (g->at[i][0] == '\0')
            continue;
        host_cgroup_kill(g->at[i]); /* who has moved to a group below does not show in this one */
        (void)host_cgroup_remove(g->at[i]); /* one that stays is swept up by the next agent */
    }
    free(g);
}

unsigned host_cgroup_folders(const struct host_cgroup *g, const char *out[HOST_CGROUP_FOLDERS])
{
    unsigned count = 0;

    for (unsigned i = 0; i < TREE_COUNT && count < HOST_CGROUP_FOLDERS; i++) {
        if (g->at[i][0] != '\0')
            out[count++] = g->at[i];
    }
    return count;
}

const char *host_cgroup_kills_by(const struct host_cgroup *g)
{
    return g->kills_by;
}

const char *host_cgroup_cpu_from(const struct host_cgroup *g)
{
    if (g->at[TREE_CPUACCT][0] != '\0')
        return "cpuacct.usage";
    return g->at[TREE_V2][0] != '\0' ? "cpu.stat" : "";
}

const char *host_cgroup_memory_by(const struct host_cgroup *g)
{
    return g->memory_by;
}

const char *host_cgroup_processes_by(const struct host_cgroup *g)
{
    return g->processes_by;
}

/* ---- read */

static uint64_t read_peak(struct host_cgroup *g)
{
    char text[32] = "";

    if (!g->peak_is_reset)
        return 0;
    if (g->memory == TREE_MEMORY)
        return host_cgroup_get_number(g->at[TREE_MEMORY], "memory.max_usage_in_bytes");
    return pread(g->peak_fd, text, sizeof(text) - 1, 0) > 0 ? strtoull(text, NULL, 10) : 0;
}

void host_cgroup_read(struct host_cgroup *g, struct host_cgroup_use *out)
{
    *out = (struct host_cgroup_use){ 0 };
    if (g->at[TREE_CPUACCT][0] != '\0')
        out->cpu_ns = (int64_t)host_cgroup_get_number(g->at[TREE_CPUACCT], "cpuacct.usage");
    else if (g->at[TREE_V2][0] != '\0')
        out->cpu_ns =
            (int64_t)host_cgroup_get_keyed(g->at[TREE_V2], "cpu.stat", "usage_usec") * LS_NS_PER_US;
    if (g->memory == TREE_V2) {
        out->memory_bytes = host_cgroup_get_number(g->at[TREE_V2], "memory.current");
        out->oom_kills = host_cgroup_get_keyed(g->at[TREE_V2], "memory.events", "oom_kill");
    } else if (g->memory == TREE_MEMORY) {
        out->memory_bytes = host_cgroup_get_number(g->at[TREE_MEMORY], "memory.usage_in_bytes");
        out->oom_kills =
            host_cgroup_get_keyed(g->at[TREE_MEMORY], "memory.oom_control", "oom_kill");
    }
    out->memory_peak_bytes = read_peak(g);
}

void host_cgroup_reset_peak(struct host_cgroup *g)
{
    if (g->memory == TREE_MEMORY)
        g->peak_is_reset =
            host_cgroup_put(g->at[TREE_MEMORY], "memory.max_usage_in_bytes", "0") == 0;
    else if (g->peak_fd >= 0)
        g->peak_is_reset = pwrite(g->peak_fd, "reset\n", 6, 0) == 6;
}

const char *host_cgroup_describe(char *out, size_t out_bytes)
{
    char available[256] = "";
    size_t used = 0;

    look();
    out[0] = '\0';
    if (host.above[TREE_V2][0] != '\0') {
        (void)host_cgroup_get(host.above[TREE_V2], "cgroup.controllers", available,
                              sizeof(available));
        available[strcspn(available, "\n")] = '\0';
        used =
            (size_t)snprintf(out, out_bytes, "v2%s%s", available[0] != '\0' ? " " : "", available);
    }
    for (unsigned i = TREE_FREEZER; i < TREE_COUNT && used < out_bytes; i++) {
        if (host.above[i][0] != '\0')
            used += (size_t)snprintf(out + used, out_bytes - used, "%sv1 %s", used > 0 ? ", " : "",
                                     controllers[i]);
    }
    if (used == 0)
        (void)snprintf(out, out_bytes, "none");
    return out;
}

/* ---- left over */

/* Does it tell the time since the system's start as this process does? In a time namespace
 * everybody has begun at another instant. Who may not be looked at is left alone. */
static bool shares_our_time(pid_t pid)
{
    struct stat ours, theirs;
    char path[48];

    if (stat("/proc/self/ns/time", &ours) != 0)
        return true; /* a kernel that has none */
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/time", (int)pid);
    return stat(path, &theirs) == 0 && theirs.st_ino == ours.st_ino;
}

/* Was it made by an agent of this system's that has ended? */
static bool is_orphan(const char *name)
{
    struct host_proc proc;
    unsigned long pid_namespace;
    uint64_t start;
    int pid;

    if (sscanf(name, PREFIX "%lu-%d-%" SCNu64 "-", &pid_namespace, &pid, &start) != 3 ||
        pid_namespace != host.pid_namespace)
        return false;
    if (host_proc_read((pid_t)pid, &proc))
        return proc.start_ticks != start && shares_our_time((pid_t)pid);
    return kill((pid_t)pid, 0) != 0 && errno == ESRCH; /* else it is hidden, and not gone */
}

static void sweep(const char *above)
{
    DIR *dir = opendir(above);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[HOST_CGROUP_FILE];

        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 || !is_orphan(entry->d_name) ||
            !host_cgroup_path(path, above, entry->d_name))
            continue;
        host_cgroup_kill(path);
        (void)host_cgroup_remove(path);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

void host_cgroup_sweep(void)
{
    look();
    for (unsigned i = 0; i < TREE_COUNT; i++) {
        if (host.above[i][0] != '\0')
            sweep(host.above[i]);
    }
}
