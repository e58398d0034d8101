#include "agent/key_pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The certificate tells a folder of keys; what is in it is a matter of common/credentials. */
static bool has_certificate(const char *dir)
{
    char path[sizeof(((struct agent_key_pool *)0)->dir) + sizeof("/cert.pem")];

    (void)snprintf(path, sizeof(path), "%s/cert.pem", dir);
    return access(path, F_OK) == 0;
}

/* The lock is the kernel's, on the folder itself: it needs no file, works through a read-only
 * mount, for all containers of a host, and goes with the process. */
static bool take(struct agent_key_pool *pool)
{
    pool->fd = open(pool->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pool->fd >= 0 && flock(pool->fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    agent_key_pool_fini(pool);
    return false;
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
    n = has_certificate(dir) ? 0 : scandir(dir, &entries, is_visible, versionsort);
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
