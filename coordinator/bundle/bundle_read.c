#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/digest.h"
#include "common/fs.h"
#include "common/msg_json.h"
#include "coordinator/bundle/bundle.h"

enum { PIECE = 1 << 16 };

struct job {
    struct archive *archive;
    const char *name;
    const char *dir;
    struct ls_diag *diag;
};

static enum ls_err refuse(const struct job *job, const char *why, const char *what)
{
    return ls_fail(job->diag, LS_EPROTO, "%.200s: %s%.160s", job->name, why, what);
}

static enum ls_err archive_failed(const struct job *job)
{
    const char *why = archive_error_string(job->archive);

    if (archive_errno(job->archive) == ENOMEM)
        return ls_fail(job->diag, LS_ENOMEM, "no memory to read %.200s", job->name);
    return refuse(job, "it is no bundle, or damaged: ", why != NULL ? why : "it is cut off");
}

/* The next file: it must be a regular one of this name. *out_bytes: its size. */
static enum ls_err next_file(struct job *job, const char *path, uint64_t *out_bytes)
{
    struct archive_entry *entry;
    const char *name;
    int rc = archive_read_next_header(job->archive, &entry);

    if (rc == ARCHIVE_EOF)
        return refuse(job, "it ends before ", path);
    if (rc != ARCHIVE_OK)
        return archive_failed(job);
    name = archive_entry_pathname(entry);
    if (name == NULL || strcmp(name, path) != 0)
        return refuse(job, "it has another file in the place of ", path);
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != NULL ||
        archive_entry_symlink(entry) != NULL || !archive_entry_size_is_set(entry) ||
        archive_entry_size(entry) < 0)
        return refuse(job, "it has something that is no plain file: ", path);
    *out_bytes = (uint64_t)archive_entry_size(entry);
    return LS_OK;
}

/* ---- the manifest */

static enum ls_err check_path(const struct job *job, const Ls__Bundle *manifest, size_t i)
{
    const char *path = manifest->files[i]->path;

    if (ls_fs_name_check(path, NULL) != LS_OK ||
        (strncmp(path, COORD_BUNDLE_FILES "/", strlen(COORD_BUNDLE_FILES "/")) != 0 &&
         strncmp(path, COORD_BUNDLE_RESULT "/", strlen(COORD_BUNDLE_RESULT "/")) != 0))
        return refuse(job, "its manifest has a name that is not allowed: ", path);
    if (i > 0 && strcmp(manifest->files[i - 1]->path, path) >= 0)
        return refuse(job, "its manifest is not in order: ", path);
    return LS_OK;
}

static enum ls_err check_manifest(const struct job *job, const Ls__Bundle *manifest)
{
    uint64_t total = 0;
    enum ls_err rc = LS_OK;

    if (manifest->version != COORD_BUNDLE_VERSION)
        return ls_fail(job->diag, LS_EPROTO,
                       "%.200s is a bundle of version %" PRIu32 ", made by lockstep %.20s: this is "
                       "lockstep %s, which reads version %u",
                       job->name, manifest->version, manifest->lockstep_version, LS_VERSION,
                       COORD_BUNDLE_VERSION);
    if (manifest->folder[0] != '\0' && ls_fs_name_check(manifest->folder, NULL) != LS_OK)
        return refuse(job, "its manifest has a folder that is not allowed: ", manifest->folder);
    for (size_t i = 0; rc == LS_OK && i < manifest->n_files; i++) {
        rc = check_path(job, manifest, i);
        if (rc == LS_OK && manifest->files[i]->bytes > COORD_BUNDLE_MAX_BYTES - total)
            rc = ls_fail(job->diag, LS_ERANGE,
                         "%.200s would be larger than %" PRIu64 " GiB when it is unpacked",
                         job->name, COORD_BUNDLE_MAX_BYTES >> 30);
        total += rc == LS_OK ? manifest->files[i]->bytes : 0;
    }
    return rc;
}

static enum ls_err read_manifest(struct job *job, Ls__Bundle **out_manifest)
{
    ProtobufCMessage *message = NULL;
    struct ls_diag why = { .text = "" };
    uint64_t bytes = 0;
    char *text;
    enum ls_err rc = next_file(job, COORD_BUNDLE_MANIFEST, &bytes);

    if (rc == LS_OK && bytes > COORD_BUNDLE_MANIFEST_MAX)
        rc = refuse(job, "its manifest is too large", "");
    if (rc != LS_OK)
        return rc;
    text = malloc((size_t)bytes + 1);
    if (text == NULL)
        return ls_fail(job->diag, LS_ENOMEM, "no memory for the manifest of %.200s", job->name);
    if (archive_read_data(job->archive, text, (size_t)bytes) != (la_ssize_t)bytes)
        rc = archive_failed(job);
    if (rc == LS_OK) {
        rc = ls_msg_from_json(&ls__bundle__descriptor,
                              (struct ls_bytes){ (unsigned char *)text, (size_t)bytes }, &message,
                              &why);
        if (rc == LS_ENOMEM)
            (void)ls_fail(job->diag, rc, "no memory for the manifest of %.200s", job->name);
        else if (rc != LS_OK)
            rc = refuse(job, "its manifest: ", why.text);
    }
    if (rc == LS_OK)
        rc = check_manifest(job, (Ls__Bundle *)message);
    free(text);
    if (rc != LS_OK && message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
    if (rc == LS_OK)
        *out_manifest = (Ls__Bundle *)message;
    return rc;
}

/* ---- the files */

static enum ls_err copy(struct job *job, uint64_t bytes, int fd)
{
    static char piece[PIECE];
    enum ls_err rc = LS_OK;

    while (rc == LS_OK && bytes > 0) {
        la_ssize_t got =
            archive_read_data(job->archive, piece, bytes < PIECE ? (size_t)bytes : PIECE);

        if (got <= 0)
            return archive_failed(job);
        rc = ls_fs_write_all(fd, (struct ls_bytes){ (unsigned char *)piece, (size_t)got },
                             job->diag);
        bytes -= (uint64_t)got;
    }
    return rc;
}

static enum ls_err read_file(struct job *job, const Ls__BundledFile *file)
{
    char hex[LS_SHA256_HEX], path[4096];
    uint64_t bytes = 0;
    int fd = -1;
    enum ls_err rc = next_file(job, file->path, &bytes);

    if (rc == LS_OK && bytes != file->bytes)
        rc = refuse(job, "it has another size than its manifest says: ", file->path);
    if (rc == LS_OK &&
        snprintf(path, sizeof(path), "%s/%s", job->dir, file->path) >= (int)sizeof(path))
        rc = ls_fail(job->diag, LS_ERANGE, "the path %.100s... is too long", job->dir);
    if (rc == LS_OK)
        rc = ls_fs_create_beneath(job->dir, file->path, file->executable ? 0755 : 0644, &fd,
                                  job->diag);
    if (rc != LS_OK)
        return rc;
    rc = copy(job, bytes, fd);
    if (close(fd) != 0 && rc == LS_OK)
        rc = ls_fail(job->diag, LS_EIO, "cannot write %s: %s", path, strerror(errno));
    if (rc == LS_OK)
        rc = ls_sha256_file(path, hex, job->diag);
    if (rc == LS_OK && strcmp(hex, file->sha256) != 0)
        rc = refuse(job, "it was changed: the SHA-256 is another one of ", file->path);
    return rc;
}

static enum ls_err read_end(struct job *job)
{
    struct archive_entry *entry;
    int rc = archive_read_next_header(job->archive, &entry);

    if (rc == ARCHIVE_EOF)
        return LS_OK;
    return rc == ARCHIVE_OK ? refuse(job, "it has more files than its manifest", "")
                            : archive_failed(job);
}

enum ls_err coord_bundle_read_fd(int fd, const char *name, const char *dir,
                                 Ls__Bundle **out_manifest, struct ls_diag *diag)
{
    struct job job = { .archive = archive_read_new(), .name = name, .dir = dir, .diag = diag };
    Ls__Bundle *manifest = NULL;
    enum ls_err rc = LS_OK;

    if (job.archive == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory to read %.200s", name);
    if (archive_read_support_filter_zstd(job.archive) != ARCHIVE_OK ||
        archive_read_support_format_tar(job.archive) != ARCHIVE_OK ||
        archive_read_open_fd(job.archive, fd, PIECE) != ARCHIVE_OK)
        rc = archive_failed(&job);
    if (rc == LS_OK)
        rc = read_manifest(&job, &manifest);
    for (size_t i = 0; rc == LS_OK && i < manifest->n_files; i++)
        rc = read_file(&job, manifest->files[i]);
    if (rc == LS_OK)
        rc = read_end(&job);
    (void)archive_read_free(job.archive);
    if (rc == LS_OK)
        *out_manifest = manifest;
    else if (manifest != NULL)
        ls__bundle__free_unpacked(manifest, NULL);
    return rc;
}

enum ls_err coord_bundle_read(const char *file, const char *dir, Ls__Bundle **out_manifest,
                              struct ls_diag *diag)
{
    int fd = -1;
    enum ls_err rc = ls_fs_open(file, &fd, diag);

    if (rc != LS_OK)
        return rc;
    rc = coord_bundle_read_fd(fd, file, dir, out_manifest, diag);
    (void)close(fd);
    return rc;
}
