#include "coordinator/fleet/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool runnable(const char *path)
{
    return access(path, X_OK) == 0;
}

enum ls_err coord_local_find_agent(char *out, size_t out_bytes, struct ls_diag *diag)
{
    const char *given = getenv("LOCKSTEP_AGENT");
    char self[4096];
    char *slash;
    ssize_t n;

    if (given != NULL && *given != '\0') {
        (void)snprintf(out, out_bytes, "%s", given);
        return runnable(out)
                   ? LS_OK
                   : ls_fail(diag, LS_EIO, "LOCKSTEP_AGENT=%s: %s", given, strerror(errno));
    }
    n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n < 0)
        return ls_fail(diag, LS_EIO, "/proc/self/exe: %s", strerror(errno));
    self[n] = '\0';
    slash = strrchr(self, '/');
    *slash = '\0';
    (void)snprintf(out, out_bytes, "%s/lockstep-agent", self);
    if (runnable(out))
        return LS_OK;
    (void)snprintf(out, out_bytes, "%s/../agent/lockstep-agent", self);
    if (runnable(out))
        return LS_OK;
    return ls_fail(diag, LS_EIO,
                   "the program lockstep-agent is not beside lockstep in %s: build it, or set "
                   "LOCKSTEP_AGENT to its path",
                   self);
}

/* With the CPUs that this process was given, and not those that it keeps to by itself. */
static int spawn_on(const struct ls_cpuset *cpus, const char *program, char *const *argv,
                    const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                    pid_t *out_pid)
{
    struct ls_cpuset own;
    bool moved = ls_cpuset_get_affinity(0, &own, NULL) == LS_OK && !ls_cpuset_equal(&own, cpus) &&
                 ls_cpuset_set_affinity(0, cpus, NULL) == LS_OK;
    int error = posix_spawn(out_pid, program, actions, attributes, argv, environ);

    if (moved && ls_cpuset_set_affinity(0, &own, NULL) != LS_OK) {
        /* It stays where it may be; that it would rather be elsewhere was a courtesy. */
    }
    return error;
}

static enum ls_err spawn(const struct ls_cpuset *cpus, const char *program, char *const *argv,
                         struct coord_local *out, struct ls_diag *diag)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t defaults;
    int error;

    (void)sigemptyset(&none);
    (void)sigfillset(&defaults);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, out->log,
                                           O_WRONLY | O_CREAT | O_TRUNC, 0600);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &defaults);
    /* A session of its own: Ctrl-C goes to the coordinator alone, which ends the run in order. */
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
    error = spawn_on(cpus, program, argv, &actions, &attributes, &out->pid);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    if (error != 0)
        return ls_fail(diag, LS_EIO, "cannot start %s: %s", program, strerror(error));
    out->pidfd = pidfd_open(out->pid, 0);
    if (out->pidfd >= 0)
        return LS_OK;
    error = errno;
    (void)kill(out->pid, SIGKILL);
    (void)waitpid(out->pid, NULL, 0);
    return ls_fail(diag, LS_EIO, "pidfd_open: %s", strerror(error));
}

enum ls_err coord_local_start(const struct ls_cpuset *cpus, const char *program, const char *folder,
                              const char *url, const char *name, Ls__Role role,
                              struct coord_local *out, struct ls_diag *diag)
{
    char work[320];
    struct coord_local local = { .pidfd = -1 };
    const char *argv[] = { "lockstep-agent",
                           "--dial",
                           url,
                           "--name",
                           name,
                           "--role",
                           role == LS__ROLE__ROLE_SERVER ? "server" : "client",
                           "--work-dir",
                           work,
                           "--lease",
                           COORD_LOCAL_LEASE,
                           "--wait",
                           COORD_LOCAL_LEASE,
                           "--once",
                           getenv("LOCKSTEP_AGENT_VERBOSE") != NULL ? "--verbose" : NULL,
                           NULL };
    union {
        const char **in;
        char **out;
    } args = { .in = argv }; /* posix_spawn does not write to them */
    enum ls_err rc;

    if (snprintf(work, sizeof(work), "%s/%s", folder, name) >= (int)sizeof(work) ||
        snprintf(local.log, sizeof(local.log), "%s/%s.log", folder, name) >= (int)sizeof(local.log))
        return ls_fail(diag, LS_ERANGE, "the private folder's path is too long: %s", folder);
    rc = spawn(cpus, program, args.out, &local, diag);
    if (rc == LS_OK)
        *out = local;
    return rc;
}

bool coord_local_reap(struct coord_local *local, char *out, size_t out_bytes)
{
    siginfo_t info = { 0 };

    if (local->pid == 0)
        return false;
    if (waitid(P_PID, (id_t)local->pid, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0)
        return false;
    if (info.si_code == CLD_EXITED)
        (void)snprintf(out, out_bytes, "exit %d", info.si_status);
    else
        (void)snprintf(out, out_bytes, "signal %s",
                       sigabbrev_np(info.si_status) != NULL ? sigabbrev_np(info.si_status) : "?");
    (void)close(local->pidfd);
    local->pidfd = -1;
    local->pid = 0;
    return true;
}

void coord_local_signal(const struct coord_local *local, int signal)
{
    if (local->pid != 0)
        (void)kill(local->pid, signal); /* not reaped yet, so the number is still its own */
}

static bool mentions(const char *pid, const char *folder)
{
    char path[64], text[4096];
    size_t n, len = strlen(folder);
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    n = fread(text, 1, sizeof(text), file);
    (void)fclose(file);
    return memmem(text, n, folder, len) != NULL;
}

bool coord_local_is_used(const char *folder)
{
    DIR *proc = opendir("/proc");
    bool used = false;

    if (proc == NULL)
        return false;
    for (struct dirent *entry = readdir(proc); entry != NULL && !used; entry = readdir(proc))
        used =
            entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && mentions(entry->d_name, folder);
    (void)closedir(proc);
    return used;
}

void coord_local_log_tail(const struct coord_local *local, char *out, size_t out_bytes)
{
    FILE *file = fopen(local->log, "re");
    char tail[256];
    char *line = tail;
    char *rest = NULL;
    bool cut;
    size_t used = 0;
    size_t n;

    out[0] = '\0';
    if (file == NULL)
        return;
    if (fseek(file, -(long)(sizeof(tail) - 1), SEEK_END) != 0)
        rewind(file);
    cut = ftell(file) > 0; /* it begins in the middle of a line */
    n = fread(tail, 1, sizeof(tail) - 1, file);
    (void)fclose(file);
    tail[n] = '\0';
    if (cut && strchr(tail, '\n') != NULL)
        line = strchr(tail, '\n') + 1;
    for (line = strtok_r(line, "\n", &rest); line != NULL && used + 1 < out_bytes;
         line = strtok_r(NULL, "\n", &rest))
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s", used > 0 ? " | " : "", line);
}
