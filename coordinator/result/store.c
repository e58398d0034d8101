#include "coordinator/result/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/msg_json.h"
#include "coordinator/pki/sign.h"
#include "coordinator/result/store_internal.h"

const char *coord_store_default_dir(const char *name, int64_t wall_ns, char *out, size_t out_bytes)
{
    time_t seconds = (time_t)(wall_ns / LS_NS_PER_S);
    char piece[64], stamp[32];
    struct tm tm;

    (void)coord_path_piece(name, piece, sizeof(piece));
    (void)gmtime_r(&seconds, &tm);
    (void)strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
    (void)snprintf(out, out_bytes, "results/%s-%s", piece, stamp);
    return out;
}

const char *coord_store_dir(const struct coord_store *store)
{
    return store->dir;
}

void coord_store_close(struct coord_store *store)
{
    if (store == NULL)
        return;
    coord_store_trial_discard(store->trial);
    coord_sums_fini(&store->sums);
    if (store->lock_fd >= 0)
        (void)close(store->lock_fd);
    free(store->dir);
    free(store);
}

static bool is_empty(const char *dir)
{
    DIR *handle = opendir(dir);
    bool empty = true;

    if (handle == NULL)
        return false;
    for (struct dirent *entry = readdir(handle); entry != NULL && empty; entry = readdir(handle))
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    (void)closedir(handle);
    return empty;
}

/* One writer a folder. The lock goes with the descriptor, whatever ends the process. */
static enum ls_err lock(const char *dir, int *out_fd, struct ls_diag *diag)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return ls_fail(diag, LS_EIO, "cannot open the folder %s: %s", dir, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)close(fd);
        return ls_fail(diag, LS_ESTATE, "another run is writing to %s", dir);
    }
    *out_fd = fd;
    return LS_OK;
}

static enum ls_err open_store(const char *dir, struct coord_store **out_store, struct ls_diag *diag)
{
    struct coord_store *store = calloc(1, sizeof(*store));
    enum ls_err rc = LS_ENOMEM;

    if (store == NULL)
        return ls_fail(diag, rc, "no memory for the result folder");
    store->lock_fd = -1;
    store->dir = strdup(dir);
    if (store->dir == NULL)
        (void)ls_fail(diag, rc, "no memory for the result folder");
    else
        rc = lock(dir, &store->lock_fd, diag);
    if (rc != LS_OK) {
        coord_store_close(store);
        return rc;
    }
    *out_store = store;
    return LS_OK;
}

enum ls_err coord_store_create(const char *dir, struct coord_store **out_store,
                               struct ls_diag *diag)
{
    struct coord_store *store = NULL;
    char path[PATH_MAX];
    enum ls_err rc;

    rc = coord_path(dir, COORD_TRIALS_DIR, path, diag);
    if (rc == LS_OK)
        rc = ls_fs_mkdirs(dir, 0755, diag);
    if (rc == LS_OK)
        rc = open_store(dir, &store, diag);
    if (rc != LS_OK)
        return ls_fail_in(diag, rc, "result folder");
    if (!is_empty(dir))
        rc = ls_fail(diag, LS_ESTATE,
                     "%s is not empty: choose another folder, or go on with --resume if it holds "
                     "a result",
                     dir);
    if (rc == LS_OK)
        rc = ls_fs_mkdirs(path, 0755, diag);
    if (rc != LS_OK) {
        coord_store_close(store);
        return ls_fail_in(diag, rc, "result folder");
    }
    *out_store = store;
    return LS_OK;
}

/* ---- resume */

static bool is_trial_of(const Ls__Result *result, const char *name)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        const char *folder = result->trials[i]->folder;
        size_t skip = strlen(COORD_TRIALS_DIR "/");

        if (strncmp(folder, COORD_TRIALS_DIR "/", skip) == 0 && strcmp(folder + skip, name) == 0)
            return true;
    }
    return false;
}

/* "001-...": what coord_store_trial_begin makes. Nothing else is ever removed. */
static bool looks_like_a_trial(const char *name)
{
    size_t digits = strspn(name, "0123456789");

    return digits >= 3 && name[digits] == '-';
}

/* What a run that was ended in the middle has left: trials that result.json does not know. */
static enum ls_err remove_unknown_trials(const char *trials, const Ls__Result *result,
                                         struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;
    char path[PATH_MAX];
    DIR *handle = opendir(trials);

    if (handle == NULL)
        return errno == ENOENT ? LS_OK
                               : ls_fail(diag, LS_EIO, "cannot read the folder %s: %s", trials,
                                         strerror(errno));
    for (struct dirent *entry = readdir(handle); entry != NULL && rc == LS_OK;
         entry = readdir(handle)) {
        if (!looks_like_a_trial(entry->d_name) || is_trial_of(result, entry->d_name))
            continue;
        rc = coord_path(trials, entry->d_name, path, diag);
        if (rc == LS_OK)
            rc = ls_fs_remove_tree(path, diag);
    }
    (void)closedir(handle);
    return rc;
}

enum ls_err coord_hash_folder(struct coord_sums *sums, const char *dir, const char *folder,
                              struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;
    char absolute[PATH_MAX], path[PATH_MAX], relative[PATH_MAX], hex[LS_SHA256_HEX];
    DIR *handle;

    rc = coord_path(dir, folder, absolute, diag);
    if (rc != LS_OK)
        return rc;
    handle = opendir(absolute);
    if (handle == NULL)
        return ls_fail(diag, LS_EIO, "cannot read the folder %s: %s", absolute, strerror(errno));
    for (struct dirent *entry = readdir(handle); entry != NULL && rc == LS_OK;
         entry = readdir(handle)) {
        if (entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN)
            continue;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        rc = coord_path(absolute, entry->d_name, path, diag);
        if (rc == LS_OK)
            rc = coord_path(folder, entry->d_name, relative, diag);
        if (rc != LS_OK || coord_sums_find(sums, relative) != NULL)
            continue;
        rc = ls_sha256_file(path, hex, diag);
        if (rc == LS_OK && !coord_sums_set(sums, relative, hex))
            rc = ls_fail(diag, LS_ENOMEM, "no memory for the checksums");
    }
    (void)closedir(handle);
    return rc;
}

/* The list that is there is believed: a file that was changed since stays a changed file. */
static enum ls_err take_over(struct coord_store *store, const Ls__Result *result,
                             struct ls_diag *diag)
{
    char trials[PATH_MAX];
    enum ls_err rc;

    rc = coord_sums_read(&store->sums, store->dir, diag);
    if (rc == LS_ESTATE)
        rc = LS_OK;
    if (rc == LS_OK)
        rc = coord_path(store->dir, COORD_TRIALS_DIR, trials, diag);
    if (rc == LS_OK)
        rc = remove_unknown_trials(trials, result, diag);
    if (rc == LS_OK)
        rc = ls_fs_mkdirs(trials, 0755, diag);
    for (size_t i = 0; i < result->n_trials && rc == LS_OK; i++) {
        const char *folder = result->trials[i]->folder;

        if (strncmp(folder, COORD_TRIALS_DIR "/", strlen(COORD_TRIALS_DIR "/")) == 0 &&
            is_trial_of(result, folder + strlen(COORD_TRIALS_DIR "/")) &&
            strchr(folder + strlen(COORD_TRIALS_DIR "/"), '/') == NULL)
            rc = coord_hash_folder(&store->sums, store->dir, folder, diag);
    }
    return rc;
}

enum ls_err coord_store_resume(const char *dir, struct coord_store **out_store,
                               Ls__Result **out_result, struct ls_diag *diag)
{
    struct coord_store *store = NULL;
    Ls__Result *result = NULL;
    enum ls_err rc = coord_store_load(dir, &result, diag);

    if (rc != LS_OK)
        return rc;
    rc = open_store(dir, &store, diag);
    if (rc == LS_OK) { /* again: until now another run may have written to it */
        ls__result__free_unpacked(result, NULL);
        result = NULL;
        rc = coord_store_load(dir, &result, diag);
    }
    if (rc == LS_OK)
        rc = take_over(store, result, diag);
    if (rc != LS_OK) {
        coord_store_close(store);
        if (result != NULL)
            ls__result__free_unpacked(result, NULL);
        return ls_fail_in(diag, rc, "cannot go on in %s", dir);
    }
    *out_store = store;
    *out_result = result;
    return LS_OK;
}

/* ---- files of the run */

static enum ls_err put(struct coord_store *store, const char *name, struct ls_bytes data,
                       struct ls_diag *diag)
{
    char path[PATH_MAX], hex[LS_SHA256_HEX];
    enum ls_err rc = coord_path(store->dir, name, path, diag);

    if (rc == LS_OK)
        rc = ls_fs_write(path, data, 0644, diag);
    if (rc != LS_OK)
        return rc;
    ls_sha256_hex(data, hex);
    if (!coord_sums_set(&store->sums, name, hex))
        return ls_fail(diag, LS_ENOMEM, "no memory for the checksum of %s", name);
    return LS_OK;
}

/* A folder in which nothing could be begun is left empty, so that it can be tried again. */
enum ls_err coord_store_plan(struct coord_store *store, struct ls_bytes text, struct ls_diag *diag)
{
    enum ls_err rc = put(store, COORD_PLAN_FILE, text, diag);
    char trials[PATH_MAX];

    if (rc != LS_OK && coord_path(store->dir, COORD_TRIALS_DIR, trials, NULL) == LS_OK)
        (void)rmdir(trials); /* there may be trials in it already, then it stays */
    return rc;
}

enum ls_err coord_store_report(struct coord_store *store, struct ls_bytes page,
                               struct ls_diag *diag)
{
    return put(store, COORD_REPORT_FILE, page, diag);
}

static enum ls_err format_hosts(const Ls__Result *result, struct ls_buf *out)
{
    ls_buf_adds(out, "[");
    for (size_t i = 0; i < result->n_hosts; i++) {
        char *json = ls_msg_to_json(&result->hosts[i]->base, 2);

        ls_buf_addf(out, "%s\n%s", i == 0 ? "" : ",", json != NULL ? json : "");
        out->ok = out->ok && json != NULL;
        free(json);
    }
    ls_buf_adds(out, "\n]\n");
    return out->ok ? LS_OK : LS_ENOMEM;
}

static enum ls_err format_result(const Ls__Result *result, struct ls_buf *out)
{
    char *json = ls_msg_to_json(&result->base, 2);

    ls_buf_adds(out, json != NULL ? json : "");
    ls_buf_adds(out, "\n");
    out->ok = out->ok && json != NULL;
    free(json);
    return out->ok ? LS_OK : LS_ENOMEM;
}

/* ---- what changes as the run goes on: hosts, result, signature and sums, all or none -------- */

enum { HOSTS, RESULT, SIGNER, SIGNATURE, SUMS, REPLACED_COUNT };

static const char *const replaced_names[REPLACED_COUNT] = { COORD_HOSTS_FILE, COORD_RESULT_FILE,
                                                            COORD_SIGNER_FILE, COORD_SIGNATURE_FILE,
                                                            COORD_SUMS_FILE };

/* Those of the signature are gone when there is nobody to sign. */
static bool is_kept(const struct coord_store *store, unsigned file)
{
    return store->signer != NULL || (file != SIGNER && file != SIGNATURE);
}

/* Where a file waits until it may take its place. out: PATH_MAX bytes. */
static enum ls_err next_path(const struct coord_store *store, unsigned file, char *out,
                             struct ls_diag *diag)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "%s.next", replaced_names[file]);
    return coord_path(store->dir, name, out, diag);
}

static enum ls_err stage(const struct coord_store *store, unsigned file, const struct ls_buf *data,
                         struct ls_diag *diag)
{
    char path[PATH_MAX];
    enum ls_err rc = next_path(store, file, path, diag);

    return rc == LS_OK
               ? ls_fs_write(path, (struct ls_bytes){ .data = data->data, .len = data->len }, 0644,
                             diag)
               : rc;
}

static enum ls_err unstage(const struct coord_store *store, unsigned file, struct ls_diag *diag)
{
    char from[PATH_MAX], path[PATH_MAX];
    enum ls_err rc = next_path(store, file, from, diag);

    if (rc == LS_OK)
        rc = coord_path(store->dir, replaced_names[file], path, diag);
    if (rc == LS_OK && rename(from, path) != 0)
        rc = ls_fail(diag, LS_EIO, "cannot write %s: %s", path, strerror(errno));
    return rc;
}

static void remove_staged(const struct coord_store *store)
{
    char path[PATH_MAX];

    for (unsigned file = 0; file < REPLACED_COUNT; file++) {
        if (next_path(store, file, path, NULL) == LS_OK)
            (void)unlink(path);
    }
}

static enum ls_err remove_old(const struct coord_store *store, unsigned file, struct ls_diag *diag)
{
    char path[PATH_MAX];
    enum ls_err rc = coord_path(store->dir, replaced_names[file], path, diag);

    if (rc == LS_OK && unlink(path) != 0 && errno != ENOENT)
        rc = ls_fail(diag, LS_EIO, "cannot replace %s: %s", path, strerror(errno));
    return rc;
}

/* All are on the disk before any takes its place, so a full disk changes nothing. A crash between
 * the renames must not leave a result beside the sums of another one: the old sums go first, and a
 * result without sums reads as one that was not finished. */
static enum ls_err replace_all(const struct coord_store *store, const struct ls_buf *data,
                               struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    for (unsigned file = 0; file < REPLACED_COUNT && rc == LS_OK; file++)
        rc = is_kept(store, file) ? stage(store, file, &data[file], diag) : LS_OK;
    if (rc == LS_OK)
        rc = remove_old(store, SUMS, diag);
    for (unsigned file = 0; file < REPLACED_COUNT && rc == LS_OK; file++)
        rc = is_kept(store, file) ? unstage(store, file, diag) : remove_old(store, file, diag);
    if (rc != LS_OK) {
        remove_staged(store);
        return rc;
    }
    return coord_sync_folder(store->dir, diag);
}

static bool note_sum(struct coord_store *store, unsigned file, const struct ls_buf *data)
{
    char hex[LS_SHA256_HEX];

    ls_sha256_hex((struct ls_bytes){ .data = data->data, .len = data->len }, hex);
    return coord_sums_set(&store->sums, replaced_names[file], hex);
}

/* The certificate is one of the files that are summed up, and so are signed. */
static enum ls_err format_signer(struct coord_store *store, struct ls_buf *out,
                                 struct ls_diag *diag)
{
    enum ls_err rc;

    if (store->signer == NULL) {
        coord_sums_drop(&store->sums, COORD_SIGNER_FILE);
        return LS_OK;
    }
    rc = coord_signer_certificate(store->signer, out, diag);
    return rc == LS_OK && !note_sum(store, SIGNER, out) ? LS_ENOMEM : rc;
}

static enum ls_err format_sums(struct coord_store *store, struct ls_buf *out,
                               struct ls_buf *out_signature, struct ls_diag *diag)
{
    coord_sums_format(&store->sums, out);
    if (!out->ok)
        return LS_ENOMEM;
    if (store->signer == NULL)
        return LS_OK;
    return coord_sign(store->signer, (struct ls_bytes){ out->data, out->len }, out_signature, diag);
}

void coord_store_sign(struct coord_store *store, struct coord_signer *signer)
{
    store->signer = signer;
}

enum ls_err coord_store_result(struct coord_store *store, const Ls__Result *result,
                               struct ls_diag *diag)
{
    struct ls_buf data[REPLACED_COUNT];
    enum ls_err rc;

    for (unsigned file = 0; file < REPLACED_COUNT; file++)
        ls_buf_init(&data[file], file == SUMS ? COORD_SUMS_MAX_BYTES : COORD_RESULT_MAX_BYTES);
    rc = format_hosts(result, &data[HOSTS]);
    if (rc == LS_OK)
        rc = format_result(result, &data[RESULT]);
    if (rc == LS_OK &&
        (!note_sum(store, HOSTS, &data[HOSTS]) || !note_sum(store, RESULT, &data[RESULT])))
        rc = LS_ENOMEM;
    if (rc == LS_OK)
        rc = format_signer(store, &data[SIGNER], diag);
    if (rc == LS_OK)
        rc = format_sums(store, &data[SUMS], &data[SIGNATURE], diag);
    if (rc == LS_OK)
        rc = replace_all(store, data, diag);
    if (rc == LS_ENOMEM)
        (void)ls_fail(diag, rc, "no memory for " COORD_RESULT_FILE);
    for (unsigned file = 0; file < REPLACED_COUNT; file++)
        ls_buf_fini(&data[file]);
    return rc;
}
