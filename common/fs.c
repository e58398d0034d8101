#include "common/fs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"

enum { PIECE = 16384, DEPTH_MAX = 32 };

static enum ls_err fail_path(struct ls_diag *diag, const char *verb, const char *path)
{
    return ls_fail(diag, LS_EIO, "cannot %s %s: %s", verb, path, strerror(errno));
}

/* ---- reading and writing whole files */

static enum ls_err read_fd(int fd, const char *path, struct ls_buf *buf, struct ls_diag *diag)
{
    unsigned char piece[PIECE];
    ssize_t got;

    for (;;) {
        got = read(fd, piece, sizeof(piece));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_path(diag, "read", path);
        if (got == 0)
            return LS_OK;
        if ((size_t)got > buf->max - buf->len)
            return ls_fail(diag, LS_ERANGE, "%s is larger than %zu bytes", path, buf->max);
        ls_buf_add(buf, piece, (size_t)got);
        if (!buf->ok)
            return ls_fail(diag, LS_ENOMEM, "no memory to read %s", path);
    }
}

enum ls_err ls_fs_open(const char *path, int *out_fd, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us up */

    if (fd < 0)
        return fail_path(diag, "open", path);
    if (fstat(fd, &st) != 0)
        rc = fail_path(diag, "look at", path);
    else if (!S_ISREG(st.st_mode))
        rc = ls_fail(diag, LS_EINVAL, "%s is not a regular file", path);
    if (rc == LS_OK)
        *out_fd = fd;
    else
        (void)close(fd);
    return rc;
}

enum ls_err ls_fs_read(const char *path, size_t max_bytes, char **out_data, size_t *out_len,
                       struct ls_diag *diag)
{
    struct ls_buf buf;
    size_t len;
    char *data;
    int fd = -1;
    enum ls_err rc = ls_fs_open(path, &fd, diag);

    if (rc != LS_OK)
        return rc;
    ls_buf_init(&buf, max_bytes);
    rc = read_fd(fd, path, &buf, diag);
    if (rc != LS_OK)
        goto out;
    len = buf.len;
    data = ls_buf_detach(&buf);
    if (data == NULL) {
        rc = ls_fail(diag, LS_ENOMEM, "no memory to read %s", path);
        goto out;
    }
    *out_data = data;
    *out_len = len;
out:
    ls_buf_fini(&buf);
    (void)close(fd);
    return rc;
}

static bool write_all(int fd, struct ls_bytes data)
{
    while (data.len > 0) {
        ssize_t put = write(fd, data.data, data.len);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        data.data += put;
        data.len -= (size_t)put;
    }
    return true;
}

enum ls_err ls_fs_write_all(int fd, struct ls_bytes data, struct ls_diag *diag)
{
    if (!write_all(fd, data))
        return ls_fail(diag, LS_EIO, "cannot write: %s", strerror(errno));
    return LS_OK;
}

/* A rename is durable once its folder is. Not every file system can sync a folder, which is no
 * error; a disk that fails at it is. */
static bool sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    bool ok = true;
    int fd;

    if (slash == NULL)
        (void)snprintf(folder, sizeof(folder), ".");
    else
        (void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path + 1), path);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        ok = fsync(fd) == 0 || (errno != EIO && errno != ENOSPC && errno != EDQUOT);
        (void)close(fd);
    }
    return ok;
}

enum ls_err ls_fs_write(const char *path, struct ls_bytes data, mode_t mode, struct ls_diag *diag)
{
    char temporary[PATH_MAX];
    int used = snprintf(temporary, sizeof(temporary), "%s.new-XXXXXX", path);
    int closed;
    int fd;

    if (used < 0 || (size_t)used >= sizeof(temporary))
        return ls_fail(diag, LS_ERANGE, "the path %.100s... is too long", path);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return fail_path(diag, "create a file beside", path);
    if (fchmod(fd, mode) != 0 || !write_all(fd, data) || fsync(fd) != 0) {
        (void)fail_path(diag, "write", path);
        (void)close(fd);
        goto undo;
    }
    closed = close(fd);
    if (closed != 0 || rename(temporary, path) != 0) {
        (void)fail_path(diag, "write", path);
        goto undo;
    }
    /* It is there, but may not be after a power failure. */
    return sync_folder_of(path)
               ? LS_OK
               : ls_fail(diag, LS_EIO, "cannot bring %.400s to the disk: %s", path, strerror(EIO));
undo:
    (void)unlink(temporary);
    return LS_EIO;
}

/* ---- making folders */

/* A folder that is there already is fine; a link to one, too. */
static bool make_folder(const char *path, mode_t mode)
{
    struct stat st;
    int why;

    if (mkdir(path, mode) == 0)
        return true;
    why = errno;
    if (why != EEXIST && why != EROFS && why != EACCES)
        return false;
    if (stat(path, &st) != 0) {
        errno = why; /* why it could not be made, not that it is not there */
        return false;
    }
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return false;
    }
    return true;
}

enum ls_err ls_fs_mkdirs(const char *path, mode_t mode, struct ls_diag *diag)
{
    char part[PATH_MAX];
    size_t len = strlen(path);

    if (len == 0 || len >= sizeof(part))
        return ls_fail(diag, LS_ERANGE, "a path of %zu bytes cannot be a folder", len);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        (void)memcpy(part, path, i);
        part[i] = '\0';
        if (!make_folder(part, mode))
            return fail_path(diag, "create folder", part);
    }
    return LS_OK;
}

enum ls_err ls_fs_has_room(const char *folder, size_t bytes, struct ls_diag *diag)
{
    static const unsigned char piece[PIECE];
    char path[PATH_MAX];
    int used = snprintf(path, sizeof(path), "%s/room-XXXXXX", folder);
    enum ls_err rc = LS_OK;
    int fd;

    if (used < 0 || (size_t)used >= sizeof(path))
        return ls_fail(diag, LS_ERANGE, "the path %.100s... is too long", folder);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return fail_path(diag, "create a file in", folder);
    (void)unlink(path);
    while (bytes > 0 && rc == LS_OK) {
        size_t some = bytes < sizeof(piece) ? bytes : sizeof(piece);

        if (!write_all(fd, (struct ls_bytes){ piece, some }))
            rc = fail_path(diag, "write to", folder);
        bytes -= some;
    }
    (void)close(fd);
    return rc;
}

enum ls_err ls_fs_private_dir(const char *prefix, char *out, size_t out_bytes, struct ls_diag *diag)
{
    const char *base = getenv("TMPDIR");
    char path[PATH_MAX];
    int used;

    if (base == NULL || base[0] == '\0')
        base = "/tmp";
    used = snprintf(path, sizeof(path), "%s/%s-XXXXXX", base, prefix);
    if (used < 0 || (size_t)used >= sizeof(path) || (size_t)used >= out_bytes)
        return ls_fail(diag, LS_ERANGE, "the path of a temporary folder below %.100s is too long",
                       base);
    if (mkdtemp(path) == NULL)
        return fail_path(diag, "create the temporary folder", path);
    (void)memcpy(out, path, (size_t)used + 1);
    return LS_OK;
}

/* ---- removing trees */

struct removal {
    int root;        /* the folder that is being removed */
    unsigned lifted; /* folders that were moved up to the root so far */
    bool again;      /* ... in this pass: the root needs another one */
};

static bool remove_entries(struct removal *job, int folder, unsigned depth);

/* What was started here may have taken the permissions of its own folders away. */
static int open_folder(int parent, const char *name)
{
    const int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    char self[64];
    int path_fd;
    int fd = openat(parent, name, O_RDONLY | flags);

    if (fd >= 0 || errno != EACCES)
        return fd;
    path_fd = openat(parent, name, O_PATH | flags);
    if (path_fd < 0)
        return -1;
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
    if (chmod(self, 0700) == 0)
        fd = openat(parent, name, O_RDONLY | flags);
    (void)close(path_fd);
    return fd;
}

/* Depth costs a descriptor and stack each. A folder that is too deep moves up to the root, so that
 * a hostile tree costs no more than a wide one. */
static bool lift(struct removal *job, int folder, const char *name)
{
    char to[48];

    job->again = true;
    for (;;) {
        (void)snprintf(to, sizeof(to), ".ls-remove-%u", job->lifted++);
        if (renameat(folder, name, job->root, to) == 0)
            return true;
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            return errno == ENOENT;
    }
}

static bool remove_entry(struct removal *job, int folder, const char *name, unsigned depth)
{
    int fd;

    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return true;
    if (errno != EISDIR)
        return false;
    if (unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return true;
    if (depth >= DEPTH_MAX)
        return lift(job, folder, name);
    fd = open_folder(folder, name);
    if (fd < 0)
        return errno == ENOENT;
    if (!remove_entries(job, fd, depth + 1))
        return false;
    return unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

/* Takes folder, an open descriptor. */
static bool remove_entries(struct removal *job, int folder, unsigned depth)
{
    const struct dirent *entry;
    bool ok = true;
    int error = 0;
    DIR *dir = fdopendir(folder);

    if (dir == NULL) {
        error = errno;
        (void)close(folder);
        errno = error;
        return false;
    }
    (void)fchmod(folder, 0700); /* if it is not ours, unlinkat says so */
    while (ok && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ok = remove_entry(job, folder, entry->d_name, depth);
        error = errno;
    }
    (void)closedir(dir);
    errno = error;
    return ok;
}

enum ls_err ls_fs_remove_tree(const char *path, struct ls_diag *diag)
{
    struct removal job = { 0 };
    bool ok;

    if (unlink(path) == 0 || errno == ENOENT)
        return LS_OK;
    if (errno != EISDIR)
        return fail_path(diag, "remove", path);
    job.root = open_folder(AT_FDCWD, path);
    if (job.root < 0)
        return fail_path(diag, "remove", path);
    do {
        int pass = openat(job.root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        job.again = false;
        ok = pass >= 0 && remove_entries(&job, pass, 0);
    } while (ok && job.again);
    ok = ok && rmdir(path) == 0;
    if (!ok)
        (void)fail_path(diag, "remove all of", path);
    (void)close(job.root);
    return ok ? LS_OK : LS_EIO;
}

/* ---- the standard descriptors */

void ls_fs_hold_std(void)
{
    static const int flags[] = { O_RDONLY, O_RDONLY, O_WRONLY };

    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", flags[fd]); /* gets the lowest number, which is fd */
    }
}
