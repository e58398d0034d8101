#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/msg_json.h"
#include "coordinator/result/store_internal.h"

static enum ls_err check_folder(const char *dir, struct ls_diag *diag)
{
    struct stat st;

    if (stat(dir, &st) != 0)
        return ls_fail(diag, LS_EIO, "cannot open the result folder %s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return ls_fail(diag, LS_EINVAL, "%s is not a folder: give the folder of a result", dir);
    return LS_OK;
}

/* An interrupted write leaves no sums at all, and that is fine: see replace_all in store.c. */
static enum ls_err check_sum(const char *dir, struct ls_bytes text, struct ls_diag *diag)
{
    struct coord_sums sums = { 0 };
    char hex[LS_SHA256_HEX];
    const char *expected;
    enum ls_err rc = coord_sums_read(&sums, dir, diag);

    if (rc == LS_ESTATE)
        return LS_OK;
    if (rc != LS_OK)
        return rc;
    ls_sha256_hex(text, hex);
    expected = coord_sums_find(&sums, COORD_RESULT_FILE);
    if (expected == NULL)
        rc = ls_fail(diag, LS_EPROTO, "%s/" COORD_SUMS_FILE " does not list " COORD_RESULT_FILE,
                     dir);
    else if (strcmp(hex, expected) != 0)
        rc = ls_fail(diag, LS_EPROTO,
                     "%s/" COORD_RESULT_FILE " was cut off or changed after it was written: its "
                     "SHA-256 is %.12s..., " COORD_SUMS_FILE " says %.12s...",
                     dir, hex, expected);
    coord_sums_fini(&sums);
    return rc;
}

static enum ls_err parse(const char *dir, struct ls_bytes text, Ls__Result **out_result,
                         struct ls_diag *diag)
{
    ProtobufCMessage *message = NULL;
    Ls__Result *result;
    enum ls_err rc = ls_msg_from_json(&ls__result__descriptor, text, &message, diag);

    if (rc == LS_ENOMEM)
        return ls_fail_in(diag, rc, "%s/" COORD_RESULT_FILE, dir);
    if (rc != LS_OK)
        return ls_fail_in(diag, LS_EPROTO,
                          "%s/" COORD_RESULT_FILE " cannot be read as a result of lockstep %s", dir,
                          LS_VERSION);
    result = (Ls__Result *)message;
    if (result->run_id[0] == '\0' || result->lockstep_version[0] == '\0') {
        ls__result__free_unpacked(result, NULL);
        return ls_fail(diag, LS_EINVAL,
                       "%s/" COORD_RESULT_FILE " is not a lockstep result: it has no run_id or no "
                       "lockstep_version",
                       dir);
    }
    *out_result = result;
    return LS_OK;
}

static enum ls_err load(const char *dir, bool checked, Ls__Result **out_result,
                        struct ls_diag *diag)
{
    char path[PATH_MAX];
    struct stat st;
    char *text = NULL;
    size_t len = 0;
    struct ls_bytes bytes;
    enum ls_err rc = check_folder(dir, diag);

    if (rc == LS_OK)
        rc = coord_path(dir, COORD_RESULT_FILE, path, diag);
    if (rc != LS_OK)
        return rc;
    if (stat(path, &st) != 0 && errno == ENOENT)
        return ls_fail(diag, LS_EINVAL, "%s is not a lockstep result: it has no " COORD_RESULT_FILE,
                       dir);
    rc = ls_fs_read(path, COORD_RESULT_MAX_BYTES, &text, &len, diag);
    if (rc != LS_OK)
        return rc;
    bytes = (struct ls_bytes){ .data = (unsigned char *)text, .len = len };
    if (checked)
        rc = check_sum(dir, bytes, diag);
    if (rc == LS_OK)
        rc = parse(dir, bytes, out_result, diag);
    free(text);
    return rc;
}

enum ls_err coord_store_load(const char *dir, Ls__Result **out_result, struct ls_diag *diag)
{
    return load(dir, true, out_result, diag);
}

enum ls_err coord_store_load_unchecked(const char *dir, Ls__Result **out_result,
                                       struct ls_diag *diag)
{
    return load(dir, false, out_result, diag);
}

/* ---- verify */

struct verify {
    const char *dir;
    struct coord_sums listed;
    void (*problem)(void *ctx, const char *path, const char *what);
    void *ctx;
    uint32_t problems;
};

static void tell(struct verify *verify, const char *path, const char *what)
{
    verify->problems++;
    verify->problem(verify->ctx, path, what);
}

static void compare(struct verify *verify, const struct coord_sum *sum)
{
    char path[PATH_MAX], hex[LS_SHA256_HEX];
    struct ls_diag why;
    struct stat st;

    if (coord_path(verify->dir, sum->path, path, &why) != LS_OK)
        tell(verify, sum->path, why.text);
    else if (lstat(path, &st) != 0)
        tell(verify, sum->path, errno == ENOENT ? "is missing" : strerror(errno));
    else if (!S_ISREG(st.st_mode))
        tell(verify, sum->path, "is not a regular file");
    else if (ls_sha256_file(path, hex, &why) != LS_OK)
        tell(verify, sum->path, why.text);
    else if (strcmp(hex, sum->hex) != 0)
        tell(verify, sum->path, "was changed");
}

/* Files below folder that the list does not have; two levels of folders are all there is. */
static void find_unlisted(struct verify *verify, const char *folder, unsigned depth)
{
    char path[PATH_MAX];
    DIR *handle;

    if (coord_path(verify->dir, folder, path, NULL) != LS_OK)
        return;
    handle = opendir(path);
    if (handle == NULL)
        return;
    for (struct dirent *entry = readdir(handle); entry != NULL; entry = readdir(handle)) {
        char relative[PATH_MAX];
        struct stat st;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (snprintf(relative, sizeof(relative), "%s%s%s", folder, folder[0] != '\0' ? "/" : "",
                     entry->d_name) >= (int)sizeof(relative) ||
            coord_path(verify->dir, relative, path, NULL) != LS_OK || lstat(path, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < 2)
            find_unlisted(verify, relative, depth + 1);
        else if (strcmp(relative, COORD_SUMS_FILE) != 0 &&
                 strcmp(relative, COORD_SIGNATURE_FILE) != 0 &&
                 coord_sums_find(&verify->listed, relative) == NULL)
            tell(verify, relative, "is not in " COORD_SUMS_FILE);
    }
    (void)closedir(handle);
}

enum ls_err coord_store_verify(const char *dir,
                               void (*problem)(void *ctx, const char *path, const char *what),
                               void *ctx, uint32_t *out_files, uint32_t *out_problems,
                               struct ls_diag *diag)
{
    struct verify verify = { .dir = dir, .problem = problem, .ctx = ctx };
    enum ls_err rc = check_folder(dir, diag);

    if (rc == LS_OK)
        rc = coord_sums_read(&verify.listed, dir, diag);
    if (rc != LS_OK)
        return rc == LS_ESTATE ? LS_EPROTO : rc;
    for (size_t i = 0; i < verify.listed.n; i++)
        compare(&verify, &verify.listed.items[i]);
    find_unlisted(&verify, "", 0);
    *out_files = (uint32_t)verify.listed.n;
    *out_problems = verify.problems;
    coord_sums_fini(&verify.listed);
    return LS_OK;
}
