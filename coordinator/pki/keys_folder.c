#include "coordinator/pki/keys_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"

static enum ls_err write_file(const char *dir, const char *name, const char *text, mode_t mode,
                              struct ls_diag *diag)
{
    char path[PATH_MAX];
    int used = snprintf(path, sizeof(path), "%s/%s", dir, name);

    if (used < 0 || (size_t)used >= sizeof(path))
        return ls_fail(diag, LS_ERANGE, "the path of %.100s... is too long", dir);
    return ls_fs_write(path, (struct ls_bytes){ (const unsigned char *)text, strlen(text) }, mode,
                       diag);
}

/* -1: it is not there; otherwise how many entries are in it, counted up to one. */
static int entries_of(const char *dir)
{
    DIR *open_dir = opendir(dir);
    const struct dirent *entry;
    int count = 0;

    if (open_dir == NULL)
        return errno == ENOENT ? -1 : 1; /* a file, or a folder that we may not see into */
    while (count == 0 && (entry = readdir(open_dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            count++;
    }
    (void)closedir(open_dir);
    return count;
}

static enum ls_err make_parents(const char *dir, struct ls_diag *diag)
{
    char parent[PATH_MAX];
    char *slash;

    (void)snprintf(parent, sizeof(parent), "%s", dir);
    slash = strrchr(parent, '/');
    if (slash == NULL || slash == parent)
        return LS_OK;
    *slash = '\0';
    return ls_fs_mkdirs(parent, 0700, diag);
}

enum ls_err coord_keys_folder_begin(const char *dir, char *out, struct ls_diag *diag)
{
    size_t len = strlen(dir);
    enum ls_err rc;
    int used;

    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (entries_of(dir) > 0)
        return ls_fail(diag, LS_ESTATE, "%s is there already and not empty: nothing was changed",
                       dir);
    used = snprintf(out, PATH_MAX, "%.*s.new-XXXXXX", (int)len, dir);
    if (len == 0 || used < 0 || used >= PATH_MAX)
        return ls_fail(diag, LS_ERANGE, "a path of %zu bytes cannot be a folder", len);
    rc = make_parents(out, diag);
    if (rc != LS_OK)
        return rc;
    if (mkdtemp(out) == NULL)
        return ls_fail(diag, LS_EIO, "cannot create a folder beside %s: %s", dir, strerror(errno));
    if (chmod(out, 0700) != 0) { /* mkdtemp obeys the umask, which may take too much */
        rc = ls_fail(diag, LS_EIO, "chmod %s: %s", out, strerror(errno));
        (void)rmdir(out);
    }
    return rc;
}

enum ls_err coord_keys_folder_end(const char *fresh, const char *dir, enum ls_err filled,
                                  struct ls_diag *diag)
{
    enum ls_err rc = filled;

    if (rc == LS_OK && rename(fresh, dir) != 0) /* over an empty one, too */
        rc = ls_fail(diag, LS_EIO, "cannot rename %s to %s: %s", fresh, dir, strerror(errno));
    if (rc != LS_OK && ls_fs_remove_tree(fresh, NULL) != LS_OK)
        return rc; /* the first failure is the one to tell */
    return rc;
}

enum ls_err coord_keys_folder_check(const char *dir, bool replace, struct ls_diag *diag)
{
    int entries = entries_of(dir);

    if (entries > 0 && !replace)
        return ls_fail(diag, LS_ESTATE,
                       "%s is there already and not empty (--renew replaces keys, --out DIR names "
                       "another folder)",
                       dir);
    return LS_OK;
}

/* The certificate last: with it, the set is in order again, and who has the old one in use keeps it
 * until then. */
static enum ls_err write_all(const char *dir, const struct coord_keys_folder *files,
                             struct ls_diag *diag)
{
    enum ls_err rc = write_file(dir, "ca.pem", files->ca, 0644, diag);

    if (rc == LS_OK)
        rc = write_file(dir, "crl.pem", files->crl, 0644, diag);
    if (rc == LS_OK)
        rc = write_file(dir, "key.pem", files->key, 0600, diag);
    if (rc == LS_OK)
        rc = write_file(dir, "cert.pem", files->certificate, 0644, diag);
    return rc;
}

enum ls_err coord_keys_folder_write(const char *dir, const struct coord_keys_folder *files,
                                    bool replace, struct ls_diag *diag)
{
    char fresh[PATH_MAX];
    enum ls_err rc;

    if (replace && entries_of(dir) > 0)
        return write_all(dir, files, diag);
    rc = coord_keys_folder_begin(dir, fresh, diag);
    if (rc != LS_OK)
        return rc;
    return coord_keys_folder_end(fresh, dir, write_all(fresh, files, diag), diag);
}

enum ls_err coord_keys_folders_set_crl(const char *dir, const char *crl, struct ls_diag *diag)
{
    DIR *open_dir = opendir(dir);
    const struct dirent *entry;
    enum ls_err rc = LS_OK;
    char path[PATH_MAX];

    if (open_dir == NULL)
        return errno == ENOENT ? LS_OK
                               : ls_fail(diag, LS_EIO, "cannot open %s: %s", dir, strerror(errno));
    while (rc == LS_OK && (entry = readdir(open_dir)) != NULL) {
        if (entry->d_name[0] == '.' ||
            (size_t)snprintf(path, sizeof(path), "%s/%s/cert.pem", dir, entry->d_name) >=
                sizeof(path) ||
            access(path, F_OK) != 0)
            continue;
        *strrchr(path, '/') = '\0';
        rc = write_file(path, "crl.pem", crl, 0644, diag);
    }
    (void)closedir(open_dir);
    return rc;
}
