/* common/fs_beneath.c - files beneath a folder, named by a peer, amid what a hostile program may
 * have left there. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fs.h"

#define PART_MAX 255u

static atomic_bool no_openat2;

void ls_fs_without_openat2(bool without)
{
    no_openat2 = without;
}

/* ---- names */

static bool part_is_fine(const char *part, size_t len)
{
    if (len == 0 || len > PART_MAX || (len == 1 && part[0] == '.') ||
        (len == 2 && part[0] == '.' && part[1] == '.'))
        return false;
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)part[i] < 0x20 || part[i] == 0x7f || part[i] == '\\')
            return false;
    }
    return true;
}

enum ls_err ls_fs_name_check(const char *name, struct ls_diag *diag)
{
    const char *at = name;

    if (strlen(name) > LS_FS_NAME_MAX)
        return ls_fail(diag, LS_EINVAL, "\"%.60s...\" is longer than %u bytes", name,
                       LS_FS_NAME_MAX);
    for (;;) {
        size_t len = strcspn(at, "/");

        if (!part_is_fine(at, len))
            return ls_fail(diag, LS_EINVAL, "\"%.100s\" is not a plain relative file name", name);
        if (at[len] == '\0')
            return LS_OK;
        at += len + 1;
    }
}

bool ls_fs_names_clash(const char *a, const char *b)
{
    while (*a != '\0' && tolower((unsigned char)*a) == tolower((unsigned char)*b)) {
        a++;
        b++;
    }
    return (*a == '\0' || *a == '/') && (*b == '\0' || *b == '/') && (*a == '\0' || *b == '\0');
}

/* ---- opening */

/* Part by part: each is opened in the folder before it, and none may be a link. */
static int walk(int folder, const char *name, int flags, mode_t mode)
{
    int at = dup(folder);

    while (at >= 0) {
        char part[PART_MAX + 1];
        size_t len = strcspn(name, "/");
        bool last = name[len] == '\0';
        int next, error;

        (void)memcpy(part, name, len);
        part[len] = '\0';
        next = last ? openat(at, part, flags | O_NOFOLLOW | O_CLOEXEC, mode)
                    : openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        error = errno;
        (void)close(at);
        errno = error;
        if (last)
            return next;
        at = next;
        name += len + 1;
    }
    return -1;
}

/* The name has been checked. */
static int open_beneath(int folder, const char *name, int flags, mode_t mode)
{
    struct open_how how = { .flags = (unsigned)(flags | O_NOFOLLOW | O_CLOEXEC),
                            .mode = (flags & O_CREAT) != 0 ? mode : 0,
                            .resolve =
                                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    long fd;

    if (!no_openat2) {
        fd = syscall(SYS_openat2, folder, name, &how, sizeof(how));
        /* Kernels before 5.6 do not have it, and some sandboxes say that it is forbidden. */
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
            return (int)fd;
    }
    return walk(folder, name, flags, mode);
}

/* Each folder on the way to name that is not there yet. */
static bool make_folders(int folder, const char *name)
{
    char path[LS_FS_NAME_MAX + 1];

    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - name);
        const char *part;
        int parent = folder;
        bool made;

        (void)memcpy(path, name, len);
        path[len] = '\0';
        part = strrchr(path, '/');
        if (part != NULL) {
            path[part - path] = '\0';
            parent = open_beneath(folder, path, O_PATH | O_DIRECTORY, 0);
            part++;
        } else {
            part = path;
        }
        made = parent >= 0 && (mkdirat(parent, part, 0755) == 0 || errno == EEXIST);
        if (parent >= 0 && parent != folder) {
            int error = errno;

            (void)close(parent);
            errno = error;
        }
        if (!made)
            return false;
    }
    return true;
}

static enum ls_err open_folder(const char *folder, int *out_fd, struct ls_diag *diag)
{
    *out_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*out_fd >= 0)
        return LS_OK;
    return ls_fail(diag, LS_EIO, "cannot open folder %.300s: %s", folder, strerror(errno));
}

enum ls_err ls_fs_create_beneath(const char *folder, const char *name, mode_t mode, int *out_fd,
                                 struct ls_diag *diag)
{
    enum ls_err rc = ls_fs_name_check(name, diag);
    int base = -1;
    int fd = -1;

    if (rc == LS_OK)
        rc = open_folder(folder, &base, diag);
    if (rc != LS_OK)
        return rc;
    if (make_folders(base, name))
        fd = open_beneath(base, name, O_WRONLY | O_CREAT | O_EXCL, mode);
    if (fd < 0)
        rc = ls_fail(diag, LS_EIO, "cannot create %.200s below %.200s: %s", name, folder,
                     errno == EXDEV || errno == ELOOP ? "a link is in the way" : strerror(errno));
    (void)close(base);
    if (rc == LS_OK)
        *out_fd = fd;
    return rc;
}

enum ls_err ls_fs_give_beneath(const char *folder, const char *name, uid_t uid, gid_t gid,
                               struct ls_diag *diag)
{
    enum ls_err rc = ls_fs_name_check(name, diag);
    int base = -1;
    int fd = -1;

    if (rc == LS_OK)
        rc = open_folder(folder, &base, diag);
    if (rc != LS_OK)
        return rc;
    fd = open_beneath(base, name, O_PATH, 0);
    if (fd < 0 || fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0)
        rc = ls_fail(diag, LS_EIO, "cannot give %.200s below %.200s to another user: %s", name,
                     folder, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    (void)close(base);
    return rc;
}
