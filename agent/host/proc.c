#include "agent/host/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"

ssize_t host_proc_slurp(const char *path, char *out, size_t out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;

    if (fd < 0)
        return -1;
    while (len < out_bytes - 1) {
        ssize_t n = read(fd, out + len, out_bytes - 1 - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && len == 0) { /* ESRCH: the process went between open and read */
            (void)close(fd);
            return -1;
        }
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
    (void)close(fd);
    return (ssize_t)len;
}

static int64_t ticks_to_ns(unsigned long long ticks)
{
    static long per_s; /* the same for all threads, so a race writes the same value */
    long hz = __atomic_load_n(&per_s, __ATOMIC_RELAXED);

    if (hz <= 0) {
        hz = sysconf(_SC_CLK_TCK);
        hz = hz > 0 ? hz : 100;
        __atomic_store_n(&per_s, hz, __ATOMIC_RELAXED);
    }
    return (int64_t)(ticks * (unsigned long long)(LS_NS_PER_S / hz));
}

/* The name stands in brackets and may itself hold brackets and blanks: the last ')' ends it. */
bool host_proc_parse(const char *text, struct host_proc *out)
{
    const char *open_at = strchr(text, '(');
    const char *close_at = strrchr(text, ')');
    struct host_proc proc = { 0 };
    unsigned long long cutime, cstime, start;
    long threads, rss;
    size_t len;

    if (open_at == NULL || close_at == NULL || close_at < open_at)
        return false;
    proc.pid = (pid_t)strtol(text, NULL, 10);
    if (sscanf(close_at + 1,
               " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %llu %llu %*d %*d %ld %*d %llu "
               "%*u %ld",
               &proc.state, &proc.ppid, &proc.group, &proc.session, &cutime, &cstime, &threads,
               &start, &rss) != 9)
        return false;
    len = (size_t)(close_at - open_at) - 1;
    len = len < sizeof(proc.name) ? len : sizeof(proc.name) - 1;
    (void)memcpy(proc.name, open_at + 1, len);
    proc.threads = threads > 0 ? (uint32_t)threads : 0;
    proc.start_ticks = start;
    proc.children_cpu_ns = ticks_to_ns(cutime + cstime);
    proc.rss_bytes = rss > 0 ? (uint64_t)rss * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    *out = proc;
    return true;
}

bool host_proc_read(pid_t pid, struct host_proc *out)
{
    char path[48], text[768];

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    return host_proc_slurp(path, text, sizeof(text)) > 0 && host_proc_parse(text, out);
}

enum ls_err host_proc_list(pid_t **out_pids, size_t *out_count, struct ls_diag *diag)
{
    DIR *dir = opendir("/proc");
    size_t count = 0, cap = 256;
    pid_t *pids = malloc(cap * sizeof(*pids));
    struct dirent *entry;

    if (dir == NULL || pids == NULL)
        goto fail;
    while ((entry = readdir(dir)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (count == cap) {
            pid_t *more = realloc(pids, 2 * cap * sizeof(*pids));

            if (more == NULL)
                goto fail;
            pids = more;
            cap *= 2;
        }
        pids[count++] = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    (void)closedir(dir);
    *out_pids = pids;
    *out_count = count;
    return LS_OK;
fail:
    if (dir != NULL)
        (void)closedir(dir);
    free(pids);
    return dir == NULL ? ls_fail(diag, LS_EIO, "cannot list /proc: %s", strerror(errno))
                       : ls_fail(diag, LS_ENOMEM, "no memory for a list of processes");
}

static int compare_parents(const void *a, const void *b)
{
    pid_t x = ((const struct host_proc *)a)->ppid, y = ((const struct host_proc *)b)->ppid;

    return (x > y) - (x < y);
}

/* The first of procs, sorted by parent, whose parent is not below ppid. */
static size_t first_child(const struct host_proc *procs, size_t count, pid_t ppid)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (procs[middle].ppid < ppid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Copies what hangs on root to out, parents before children; returns how many. procs gets sorted. A
 * pid that changed hands during the reading may close a circle, so nobody is taken twice. */
static size_t gather(struct host_proc *procs, size_t count, pid_t root, struct host_proc *out)
{
    size_t found = 0, looked = 0;
    pid_t parent = root;

    qsort(procs, count, sizeof(*procs), compare_parents);
    for (;;) {
        size_t i = first_child(procs, count, parent);

        for (; i < count && procs[i].ppid == parent; i++) {
            if (procs[i].pid == root || procs[i].state == '\0')
                continue;
            out[found++] = procs[i];
            procs[i].state = '\0'; /* taken */
        }
        if (looked == found)
            return found;
        parent = out[looked++].pid;
    }
}

enum ls_err host_proc_descendants(pid_t root, struct host_proc **out_procs, size_t *out_count,
                                  struct ls_diag *diag)
{
    struct host_proc *all, *below;
    pid_t *pids = NULL;
    size_t pid_count = 0, count = 0;
    enum ls_err rc = host_proc_list(&pids, &pid_count, diag);

    if (rc != LS_OK)
        return rc;
    all = calloc(pid_count + 1, sizeof(*all));
    below = calloc(pid_count + 1, sizeof(*below));
    if (all == NULL || below == NULL) {
        free(all);
        free(below);
        free(pids);
        return ls_fail(diag, LS_ENOMEM, "no memory for %zu processes", pid_count);
    }
    for (size_t i = 0; i < pid_count; i++) {
        if (host_proc_read(pids[i], &all[count]))
            count++;
    }
    *out_count = gather(all, count, root, below);
    *out_procs = below;
    free(all);
    free(pids);
    return LS_OK;
}

bool host_proc_own_children(pid_t *out_pids, size_t max, size_t *out_count)
{
    char path[64], text[4096];
    char *at = text;
    size_t count = 0;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    if (host_proc_slurp(path, text, sizeof(text)) < 0)
        return false;
    while (count < max) {
        char *end;
        long pid = strtol(at, &end, 10);

        if (end == at || *end != ' ') /* a number that was cut off has no blank behind it */
            break;
        out_pids[count++] = (pid_t)pid;
        at = end;
    }
    *out_count = count;
    return true;
}

bool host_proc_kill(const struct host_proc *proc, int signal)
{
    struct host_proc now;
    int fd = (int)syscall(SYS_pidfd_open, proc->pid, 0);
    bool sent = false;

    if (fd < 0 && errno == ESRCH)
        return false;
    if (!host_proc_read(proc->pid, &now) || now.start_ticks != proc->start_ticks) {
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    if (fd < 0) /* no pidfd here (old kernel, seccomp): a moment's race is what is left */
        return kill(proc->pid, signal) == 0;
    sent = syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) == 0;
    (void)close(fd);
    return sent;
}

const char *host_proc_command(pid_t pid, char *out, size_t out_bytes)
{
    char path[48];
    struct host_proc proc;
    ssize_t len;

    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    len = host_proc_slurp(path, out, out_bytes);
    while (len > 0 && out[len - 1] == '\0')
        len--;
    for (ssize_t i = 0; i < len; i++)
        out[i] = isprint((unsigned char)out[i]) ? out[i] : ' ';
    if (len > 0)
        return out;
    if (host_proc_read(pid, &proc))
        (void)snprintf(out, out_bytes, "[%s]", proc.name);
    else
        (void)snprintf(out, out_bytes, "[?]");
    return out;
}
