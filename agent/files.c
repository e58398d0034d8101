#include "agent/files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/digest.h"

struct file {
    char sha256[LS_SHA256_HEX];
    struct ls_buf content;
    bool complete;
};

#define REFUSALS_MAX 16u

/* Why a file is not here. */
struct refusal {
    char sha256[LS_SHA256_HEX];
    struct ls_diag diag;
};

struct agent_files {
    struct file *items;
    size_t count;
    size_t bytes;
    struct agent_files_limits limits;
    struct refusal refusals[REFUSALS_MAX]; /* the first ones */
    size_t refused;
};

static const struct agent_files_limits built_in = { .max_bytes = AGENT_FILES_MAX_BYTES,
                                                    .max_file_bytes = AGENT_FILES_MAX_BYTES,
                                                    .max_files = AGENT_FILES_MAX };

enum ls_err agent_files_create(const struct agent_files_limits *limits,
                               struct agent_files **out_files)
{
    struct agent_files *files = calloc(1, sizeof(*files));

    if (files == NULL)
        return LS_ENOMEM;
    files->limits = limits != NULL ? *limits : built_in;
    *out_files = files;
    return LS_OK;
}

void agent_files_destroy(struct agent_files *files)
{
    if (files == NULL)
        return;
    for (size_t i = 0; i < files->count; i++)
        ls_buf_fini(&files->items[i].content);
    free(files->items);
    free(files);
}

static struct file *find(const struct agent_files *files, const char *sha256)
{
    for (size_t i = 0; i < files->count; i++) {
        if (strcmp(files->items[i].sha256, sha256) == 0)
            return &files->items[i];
    }
    return NULL;
}

static const struct refusal *find_refusal(const struct agent_files *files, const char *sha256)
{
    for (size_t i = 0; i < files->refused; i++) {
        if (strcmp(files->refusals[i].sha256, sha256) == 0)
            return &files->refusals[i];
    }
    return NULL;
}

/* Beyond a limit: the policy's, by its name, or our own. */
static enum ls_err beyond(const struct agent_files *files, const char *rule, const char *what,
                          uint64_t limit, struct ls_diag *diag)
{
    if (files->limits.policy == NULL)
        return ls_fail(diag, LS_ERANGE, "%s more than %" PRIu64, what, limit);
    return ls_fail(diag, LS_EREFUSED, "%.64s: files.%s: %s more than %" PRIu64,
                   files->limits.policy, rule, what, limit);
}

static enum ls_err add(struct agent_files *files, const char *sha256, struct file **out_file,
                       struct ls_diag *diag)
{
    struct file *items;

    if (files->count >= files->limits.max_files)
        return beyond(files, "max_files", "the plan's files are", files->limits.max_files, diag);
    items = realloc(files->items, (files->count + 1) * sizeof(*items));
    if (items == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the plan's files");
    files->items = items;
    items += files->count++;
    (void)memset(items, 0, sizeof(*items));
    (void)memcpy(items->sha256, sha256, LS_SHA256_HEX);
    ls_buf_init(&items->content, AGENT_FILES_MAX_BYTES);
    *out_file = items;
    return LS_OK;
}

static void forget(struct agent_files *files, struct file *file)
{
    files->bytes -= file->content.len;
    ls_buf_fini(&file->content);
    *file = files->items[--files->count];
}

static enum ls_err finish(struct file *file, struct ls_diag *diag)
{
    char hex[LS_SHA256_HEX];

    ls_sha256_hex((struct ls_bytes){ file->content.data, file->content.len }, hex);
    if (strcmp(hex, file->sha256) != 0)
        return ls_fail(diag, LS_EPROTO, "a file announced as SHA-256 %s has %s", file->sha256, hex);
    file->complete = true;
    return LS_OK;
}

static enum ls_err append(struct agent_files *files, struct file *file, const Ls__PutFile *piece,
                          struct ls_diag *diag)
{
    if (piece->offset != file->content.len)
        return ls_fail(diag, LS_EPROTO, "a piece of file %.12s at %" PRIu64 " where %zu was next",
                       piece->sha256, piece->offset, file->content.len);
    if (piece->data.len > files->limits.max_file_bytes - file->content.len)
        return beyond(files, "max_file_bytes", "the bytes of a file of the plan are",
                      files->limits.max_file_bytes, diag);
    if (piece->data.len > files->limits.max_bytes - files->bytes)
        return beyond(files, "max_bytes", "the bytes of the plan's files are",
                      files->limits.max_bytes, diag);
    ls_buf_add(&file->content, piece->data.data, piece->data.len);
    if (!file->content.ok)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the plan's files");
    files->bytes += piece->data.len;
    return piece->last ? finish(file, diag) : LS_OK;
}

static enum ls_err refuse(struct agent_files *files, const char *sha256, const struct ls_diag *why,
                          struct ls_diag *diag)
{
    struct refusal *refusal = &files->refusals[files->refused];

    if (files->refused < REFUSALS_MAX) {
        files->refused++;
        (void)memcpy(refusal->sha256, sha256, LS_SHA256_HEX);
        refusal->diag = *why;
    }
    if (diag != NULL)
        *diag = *why;
    return why->code;
}

/* The digest of a file, in lower case, and nothing else. */
static bool is_sha256(const char *text)
{
    return strlen(text) == LS_SHA256_HEX - 1 && text[strspn(text, "0123456789abcdef")] == '\0';
}

enum ls_err agent_files_put(struct agent_files *files, const Ls__PutFile *piece,
                            struct ls_diag *diag)
{
    const struct refusal *before;
    struct ls_diag why = { 0 };
    struct file *file;
    enum ls_err rc = LS_OK;

    if (!is_sha256(piece->sha256))
        return ls_fail(diag, LS_EPROTO, "a file's SHA-256 must have 64 digits");
    before = find_refusal(files, piece->sha256);
    if (before != NULL) {
        if (diag != NULL)
            *diag = before->diag;
        return before->diag.code;
    }
    file = find(files, piece->sha256);
    if (file != NULL && file->complete)
        return LS_OK;
    if (file == NULL)
        rc = add(files, piece->sha256, &file, &why);
    if (rc == LS_OK) {
        rc = append(files, file, piece, &why);
        if (rc != LS_OK)
            forget(files, file);
    }
    return rc == LS_OK ? rc : refuse(files, piece->sha256, &why, diag);
}

enum ls_err agent_files_get(const struct agent_files *files, const char *sha256,
                            struct ls_bytes *out, struct ls_diag *diag)
{
    const struct refusal *refusal = find_refusal(files, sha256);
    const struct file *file = find(files, sha256);

    if (refusal != NULL) {
        if (diag != NULL)
            *diag = refusal->diag;
        return refusal->diag.code;
    }
    if (file == NULL || !file->complete)
        return ls_fail(diag, LS_EINVAL, "file %.12s has not arrived", sha256);
    *out = (struct ls_bytes){ file->content.data, file->content.len };
    return LS_OK;
}
