#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/digest.h"
#include "common/fs.h"
#include "common/msg_json.h"
#include "coordinator/bundle/bundle.h"
#include "coordinator/bundle/plan_files.h"
#include "coordinator/result/message.h"
#include "coordinator/result/store.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/sums.h"

enum { PIECE = 1 << 16 };

struct source {
    Ls__BundledFile *file; /* the manifest's */
    char *path;            /* owned; where it is now */
};

struct job {
    const char *dir;
    const struct coord_bundle_options *options;
    Ls__Result *result;     /* owned */
    Ls__Bundle *manifest;   /* owned */
    struct source *sources; /* owned; as many as the manifest has files */
    struct ls_diag *diag;
};

static enum ls_err no_memory(struct ls_diag *diag)
{
    return ls_fail(diag, LS_ENOMEM, "no memory for a bundle");
}

/* ---- what goes into it */

static enum ls_err add(struct job *job, const char *name, const char *path, const char *sha256,
                       bool executable)
{
    struct source *sources =
        realloc(job->sources, (job->manifest->n_files + 1) * sizeof(*job->sources));
    size_t n = job->manifest->n_files;
    Ls__BundledFile *file;
    char hex[LS_SHA256_HEX];
    struct stat st;
    enum ls_err rc = LS_OK;

    if (sources == NULL)
        return no_memory(job->diag);
    job->sources = sources;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(job->manifest->files[i]->path, name) == 0)
            return LS_OK; /* by another name: a/../b */
    }
    if (stat(path, &st) != 0)
        return ls_fail(job->diag, LS_EIO, "cannot look at %s: %s", path, strerror(errno));
    if (sha256 == NULL)
        rc = ls_sha256_file(path, hex, job->diag);
    if (rc != LS_OK)
        return rc;
    sources[n] = (struct source){ .path = strdup(path) };
    file = sources[n].path != NULL
               ? coord_message_append(&job->manifest->n_files, &job->manifest->files,
                                      &ls__bundled_file__descriptor)
               : NULL;
    if (file == NULL) {
        free(sources[n].path);
        return no_memory(job->diag);
    }
    sources[n].file = file;
    file->bytes = (uint64_t)st.st_size;
    file->executable = executable;
    return coord_message_string(&file->path, name) &&
                   coord_message_string(&file->sha256, sha256 != NULL ? sha256 : hex)
               ? LS_OK
               : no_memory(job->diag);
}

static enum ls_err add_of_result(struct job *job, const char *name, const char *sha256)
{
    char inside[PATH_MAX], path[PATH_MAX];
    enum ls_err rc = coord_path(COORD_BUNDLE_RESULT, name, inside, job->diag);

    if (rc == LS_OK)
        rc = coord_path(job->dir, name, path, job->diag);
    return rc == LS_OK ? add(job, inside, path, sha256, false) : rc;
}

struct first_problem {
    char path[200];
    char what[200];
};

static void note_problem(void *ctx, const char *path, const char *what)
{
    struct first_problem *first = ctx;

    if (first->path[0] != '\0')
        return;
    (void)snprintf(first->path, sizeof(first->path), "%s", path);
    (void)snprintf(first->what, sizeof(first->what), "%s", what);
}

static enum ls_err add_result(struct job *job)
{
    struct first_problem first = { .path = "" };
    struct coord_sums sums = { 0 };
    char signature[PATH_MAX];
    uint32_t files, problems;
    enum ls_err rc =
        coord_store_verify(job->dir, note_problem, &first, &files, &problems, job->diag);

    if (rc == LS_OK && problems > 0)
        rc = ls_fail(
            job->diag, LS_EPROTO,
            "%.200s: %s %s: what is not as it was written is not bundled ('lockstep verify' "
            "says all that is wrong)",
            job->dir, first.path, first.what);
    if (rc == LS_OK)
        rc = coord_sums_read(&sums, job->dir, job->diag);
    for (size_t i = 0; rc == LS_OK && i < sums.n; i++)
        rc = add_of_result(job, sums.items[i].path, sums.items[i].hex);
    if (rc == LS_OK)
        rc = add_of_result(job, COORD_SUMS_FILE, NULL);
    if (rc == LS_OK)
        rc = coord_path(job->dir, COORD_SIGNATURE_FILE, signature, job->diag);
    if (rc == LS_OK && access(signature, F_OK) == 0)
        rc = add_of_result(job, COORD_SIGNATURE_FILE, NULL);
    coord_sums_fini(&sums);
    return rc;
}

/* How many folders above the plan's its files reach: "../../x" is 2. */
static unsigned reach_up(const char *name)
{
    int depth = 0, lowest = 0;

    for (const char *at = name; *at != '\0';) {
        size_t len = strcspn(at, "/");

        if (len == 2 && strncmp(at, "..", 2) == 0)
            depth--;
        else if (len > 0 && !(len == 1 && *at == '.'))
            depth++;
        lowest = depth < lowest ? depth : lowest;
        at += len + (at[len] == '/');
    }
    return (unsigned)-lowest;
}

/* The last parts of the plan's folder, as many as its files reach up: "deploy/plans". */
static const char *base_of(const Ls__Result *result)
{
    const char *folder = result->plan_folder;
    const char *base = folder + strlen(folder);
    unsigned parts = 0;

    for (size_t i = 0; i < result->n_files; i++) {
        unsigned up = result->files[i]->name[0] != '/' ? reach_up(result->files[i]->name) : 0;

        parts = up > parts ? up : parts;
    }
    for (; parts > 0 && base > folder; parts--) {
        while (base > folder && base[-1] == '/')
            base--;
        while (base > folder && base[-1] != '/')
            base--;
    }
    while (*base == '/')
        base++;
    return base;
}

/* base/name without "." and "..", below files/. False: it is too long, or leaves. */
static bool place_of(const char *base, const char *name, char *out)
{
    char joined[PATH_MAX];
    size_t len = 0, root;

    if (snprintf(joined, sizeof(joined), "%s/%s", base, name) >= (int)sizeof(joined))
        return false;
    len = root = (size_t)snprintf(out, PATH_MAX, COORD_BUNDLE_FILES);
    for (const char *at = joined; *at != '\0';) {
        size_t part = strcspn(at, "/");

        if (part == 2 && strncmp(at, "..", 2) == 0) {
            if (len == root)
                return false;
            while (out[len] != '/')
                len--;
            out[len] = '\0';
        } else if (part > 0 && !(part == 1 && *at == '.')) {
            if (len + part + 2 > PATH_MAX)
                return false;
            len += (size_t)snprintf(out + len, PATH_MAX - len, "/%.*s", (int)part, at);
        }
        at += part + (at[part] == '/');
    }
    return len > root && ls_fs_name_check(out, NULL) == LS_OK;
}

static enum ls_err add_elsewhere(struct job *job, const Ls__PlanFile *file)
{
    Ls__PlanFile *kept = coord_message_append(
        &job->manifest->n_elsewhere, &job->manifest->elsewhere, &ls__plan_file__descriptor);

    if (kept == NULL || !coord_message_string(&kept->name, file->name) ||
        !coord_message_string(&kept->sha256, file->sha256))
        return no_memory(job->diag);
    kept->bytes = file->bytes;
    kept->executable = file->executable;
    kept->secret = file->secret;
    return LS_OK;
}

static enum ls_err leave_out(struct job *job, const char *name)
{
    char **names =
        realloc(job->manifest->left_out, (job->manifest->n_left_out + 1) * sizeof(*names));

    if (names == NULL)
        return no_memory(job->diag);
    job->manifest->left_out = names;
    names[job->manifest->n_left_out] = strdup(name);
    if (names[job->manifest->n_left_out] == NULL)
        return no_memory(job->diag);
    job->manifest->n_left_out++;
    return LS_OK;
}

static enum ls_err add_plan_file(struct job *job, const Ls__PlanFile *file)
{
    char path[PATH_MAX], inside[PATH_MAX], hex[LS_SHA256_HEX];
    enum ls_err rc;

    if (file->name[0] == '/')
        return add_elsewhere(job, file);
    if (file->secret && !job->options->with_keys)
        return leave_out(job, file->name);
    if (!place_of(job->manifest->folder, file->name, inside))
        return ls_fail(job->diag, LS_EINVAL, "the file %.100s of the plan has no place in a bundle",
                       file->name);
    rc = coord_plan_file_path(job->result->plan_folder, file->name, path, job->diag);
    if (rc == LS_OK)
        rc = ls_sha256_file(path, hex, job->diag);
    if (rc == LS_OK && strcmp(hex, file->sha256) != 0)
        rc = ls_fail(job->diag, LS_EPROTO,
                     "%.200s is not the file that the run had: its SHA-256 is %.12s..., it was "
                     "%.12s...",
                     path, hex, file->sha256);
    return rc == LS_OK ? add(job, inside, path, file->sha256, file->executable) : rc;
}

static int by_path(const void *a, const void *b)
{
    const struct source *x = a, *y = b;

    return strcmp(x->file->path, y->file->path);
}

static enum ls_err collect(struct job *job)
{
    Ls__Bundle *m = job->manifest;
    const Ls__Result *result = job->result;
    enum ls_err rc = LS_OK;

    m->version = COORD_BUNDLE_VERSION;
    if (!coord_message_string(&m->lockstep_version, LS_VERSION) ||
        !coord_message_string(&m->run_id, result->run_id) ||
        !coord_message_string(&m->name, result->name) ||
        !coord_message_string(&m->plan_sha256, result->plan_sha256) ||
        !coord_message_string(&m->folder, base_of(result)))
        return no_memory(job->diag);
    for (size_t i = 0; rc == LS_OK && i < result->n_files; i++)
        rc = add_plan_file(job, result->files[i]);
    if (rc == LS_OK)
        rc = add_result(job);
    if (rc != LS_OK)
        return rc;
    qsort(job->sources, m->n_files, sizeof(*job->sources), by_path);
    for (size_t i = 0; i < m->n_files; i++)
        m->files[i] = job->sources[i].file;
    return LS_OK;
}

/* ---- writing */

static enum ls_err archive_failed(struct archive *a, struct ls_diag *diag)
{
    return ls_fail(diag, archive_errno(a) == ENOMEM ? LS_ENOMEM : LS_EIO,
                   "cannot write the bundle: %s", archive_error_string(a));
}

static enum ls_err put_header(struct archive *a, const char *path, uint64_t bytes, bool executable,
                              struct ls_diag *diag)
{
    struct archive_entry *entry = archive_entry_new();
    enum ls_err rc;

    if (entry == NULL)
        return no_memory(diag);
    archive_entry_set_pathname(entry, path);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, executable ? 0755 : 0644);
    archive_entry_set_size(entry, (la_int64_t)bytes);
    archive_entry_set_mtime(entry, 0, 0);
    rc = archive_write_header(a, entry) == ARCHIVE_OK ? LS_OK : archive_failed(a, diag);
    archive_entry_free(entry);
    return rc;
}

static enum ls_err put_manifest(struct archive *a, const Ls__Bundle *manifest, struct ls_diag *diag)
{
    char *text = ls_msg_to_json(&manifest->base, 2);
    size_t len = text != NULL ? strlen(text) : 0;
    enum ls_err rc;

    if (text == NULL)
        return no_memory(diag);
    rc = len <= COORD_BUNDLE_MANIFEST_MAX
             ? put_header(a, COORD_BUNDLE_MANIFEST, len, false, diag)
             : ls_fail(diag, LS_ERANGE, "these are too many files for a bundle");
    if (rc == LS_OK && archive_write_data(a, text, len) != (la_ssize_t)len)
        rc = archive_failed(a, diag);
    free(text);
    return rc;
}

/* Exactly as many bytes as the manifest says: a file that somebody writes to is no file to send. */
static enum ls_err put_file(struct archive *a, const struct source *source, struct ls_diag *diag)
{
    static char piece[PIECE];
    uint64_t left = source->file->bytes;
    ssize_t got = 1;
    int fd = -1;
    enum ls_err rc = ls_fs_open(source->path, &fd, diag);

    if (rc == LS_OK)
        rc = put_header(a, source->file->path, left, source->file->executable, diag);
    while (rc == LS_OK && left > 0 && got > 0) {
        got = read(fd, piece, left < PIECE ? (size_t)left : PIECE);
        if (got < 0 && errno == EINTR) {
            got = 1;
            continue;
        }
        if (got <= 0)
            rc = ls_fail(diag, LS_EIO, "cannot read %s: %s", source->path,
                         got < 0 ? strerror(errno) : "it has become shorter");
        else if (archive_write_data(a, piece, (size_t)got) != got)
            rc = archive_failed(a, diag);
        else
            left -= (uint64_t)got;
    }
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static enum ls_err put_all(struct job *job, int fd)
{
    struct archive *a = archive_write_new();
    enum ls_err rc = LS_OK;

    if (a == NULL)
        return no_memory(job->diag);
    if (archive_write_set_format_pax_restricted(a) != ARCHIVE_OK ||
        archive_write_add_filter_zstd(a) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
        archive_write_open_fd(a, fd) != ARCHIVE_OK)
        rc = archive_failed(a, job->diag);
    if (rc == LS_OK)
        rc = put_manifest(a, job->manifest, job->diag);
    for (size_t i = 0; rc == LS_OK && i < job->manifest->n_files; i++)
        rc = put_file(a, &job->sources[i], job->diag);
    if (rc == LS_OK && archive_write_close(a) != ARCHIVE_OK)
        rc = archive_failed(a, job->diag);
    (void)archive_write_free(a); /* on failure: the file is thrown away */
    return rc;
}

/* Beside its place until it is whole and on the disk. */
static enum ls_err write_file(struct job *job, const char *file)
{
    char temporary[PATH_MAX];
    enum ls_err rc;
    int fd;

    if (snprintf(temporary, sizeof(temporary), "%s.new-XXXXXX", file) >= (int)sizeof(temporary))
        return ls_fail(job->diag, LS_ERANGE, "the path %.100s... is too long", file);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return ls_fail(job->diag, LS_EIO, "cannot create a file beside %s: %s", file,
                       strerror(errno));
    rc = put_all(job, fd);
    if (rc == LS_OK && (fchmod(fd, 0644) != 0 || fsync(fd) != 0))
        rc = ls_fail(job->diag, LS_EIO, "cannot write %s: %s", file, strerror(errno));
    if (close(fd) != 0 && rc == LS_OK)
        rc = ls_fail(job->diag, LS_EIO, "cannot write %s: %s", file, strerror(errno));
    if (rc == LS_OK && rename(temporary, file) != 0)
        rc = ls_fail(job->diag, LS_EIO, "cannot write %s: %s", file, strerror(errno));
    if (rc != LS_OK)
        (void)unlink(temporary);
    return rc;
}

enum ls_err coord_bundle_write(const char *dir, const char *file,
                               const struct coord_bundle_options *options, struct ls_diag *diag)
{
    struct job job = { .dir = dir, .options = options, .diag = diag };
    enum ls_err rc = coord_store_load(dir, &job.result, diag);

    if (rc != LS_OK)
        return rc;
    job.manifest = coord_message_new(&ls__bundle__descriptor);
    rc = job.manifest != NULL ? collect(&job) : no_memory(diag);
    if (rc == LS_OK)
        rc = write_file(&job, file);
    for (size_t i = 0; job.manifest != NULL && i < job.manifest->n_files; i++)
        free(job.sources[i].path);
    free(job.sources);
    coord_message_free(job.manifest);
    ls__result__free_unpacked(job.result, NULL);
    return rc;
}
