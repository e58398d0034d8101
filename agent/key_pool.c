#include "agent/key_pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The certificate tells a folder of keys; what is in it is a matter of common/credentials. */
static bool has_certificate(const char *dir)
{
    char path[sizeof(((struct agent_key_pool *)0)->dir) + sizeof("/cert.pem")];

    (void)snprintf(path, sizeof(path), "%s/cert.pem", dir);
    return access(path, F_OK) == 0;
}

/* The lock is the kernel's, on the folder itself: it needs no file, works through a read-only
 * mount, for all containers of a host, and goes with the process. errno: why not; EWOULDBLOCK is
 * another process that has it. */
static bool take(struct agent_key_pool *pool)
{
    int error;

    pool->fd = open(pool->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pool->fd >= 0 && flock(pool->fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    error = errno;
    agent_key_pool_fini(pool);
    errno = error;
    return false;
}

/* "process 4711 of this host", as far as the kernel tells: not of a process in another container,
 * nor where a file system calls its device otherwise than stat(2) does (btrfs). */
static const char *name_holder(const char *dir, char *out, size_t out_bytes)
{
    FILE *locks = fopen("/proc/locks", "re");
    unsigned on_major, on_minor;
    unsigned long long inode;
    char line[256];
    struct stat st;
    int pid;

    (void)snprintf(out, out_bytes, "another process (in another container, perhaps)");
    if (stat(dir, &st) != 0)
        st = (struct stat){ 0 }; /* no folder has this number */
    while (locks != NULL && fgets(line, sizeof(line), locks) != NULL) {
        if (sscanf(line, "%*u: FLOCK ADVISORY WRITE %d %x:%x:%llu", &pid, &on_major, &on_minor,
                   &inode) == 4 &&
            pid > 0 && inode == st.st_ino && on_major == major(st.st_dev) &&
            on_minor == minor(st.st_dev))
            (void)snprintf(out, out_bytes, "process %d of this host", pid);
    }
    if (locks != NULL)
        (void)fclose(locks);
    return out;
}

/* Two agents with one name would throw each other out. Where nothing can be locked, as on some
 * network file systems, only the coordinator can tell them apart. */
static enum ls_err take_alone(struct agent_key_pool *pool, struct ls_diag *diag)
{
    char holder[80];

    if (take(pool) || errno != EWOULDBLOCK)
        return LS_OK;
    return ls_fail(diag, LS_ESTATE,
                   "%s: %s is an agent with these keys: end that one, or give this one an identity "
                   "of its own ('lockstep pki issue agent NAME')",
                   pool->dir, name_holder(pool->dir, holder, sizeof(holder)));
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

enum ls_err agent_key_pool_init(struct agent_key_pool *pool, const char *dir, struct ls_diag *diag)
{
    struct dirent **entries = NULL;
    unsigned seen = 0;
    bool taken = false;
    int n;

    pool->fd = -1;
    if (strlen(dir) + NAME_MAX + 2 > sizeof(pool->dir))
        return ls_fail(diag, LS_EREFUSED, "--keys: the path is too long");
    (void)snprintf(pool->dir, sizeof(pool->dir), "%s", dir);
    if (has_certificate(dir))
        return take_alone(pool, diag);
    n = scandir(dir, &entries, is_visible, versionsort);
    for (int i = 0; i < n; i++) {
        if (!taken) {
            (void)snprintf(pool->dir, sizeof(pool->dir), "%s/%s", dir, entries[i]->d_name);
            if (has_certificate(pool->dir)) {
                seen++;
                taken = take(pool);
            }
        }
        free(entries[i]);
    }
    free(entries);
    if (taken)
        return LS_OK;
    (void)snprintf(pool->dir, sizeof(pool->dir), "%s", dir);
    if (seen == 0) /* none of ours: what is missing in it is said by whoever opens it */
        return LS_OK;
    return ls_fail(diag, LS_ESTATE,
                   "%s: all of its %u folders of keys are taken by agents of this host: issue one "
                   "more ('lockstep pki issue agent NAME'), or start fewer",
                   dir, seen);
}

void agent_key_pool_fini(struct agent_key_pool *pool)
{
    if (pool->fd >= 0)
        (void)close(pool->fd);
    pool->fd = -1;
}
