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

struct agent_files {
    struct file *items;
    size_t count;
    size_t bytes;
};

enum ls_err agent_files_create(struct agent_files **out_files)
{
    struct agent_files *files = calloc(1, sizeof(*files));

    if (files == NULL)
        return LS_ENOMEM;
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

static struct file *add(struct agent_files *files, const char *sha256)
{
    struct file *items;

    if (files->count == AGENT_FILES_MAX)
        return NULL;
    items = realloc(files->items, (files->count + 1) * sizeof(*items));
    if (items == NULL)
        return NULL;
    files->items = items;
    items += files->count++;
    (void)memset(items, 0, sizeof(*items));
    (void)memcpy(items->sha256, sha256, LS_SHA256_HEX);
    ls_buf_init(&items->content, AGENT_FILES_MAX_BYTES);
    return items;
}

static void forget(struct agent_files *files, struct file *file)
{
    files->bytes -= file->content.len;
    ls_buf_fini(&file->content);
    *file = files->items[--files->count];
}

static enum ls_err finish(struct agent_files *files, struct file *file, struct ls_diag *diag)
{
    char hex[LS_SHA256_HEX];

    ls_sha256_hex((struct ls_bytes){ file->content.data, file->content.len }, hex);
    if (strcmp(hex, file->sha256) == 0) {
        file->complete = true;
        return LS_OK;
    }
    (void)ls_fail(diag, LS_EPROTO, "a file announced as SHA-256 %s has %s", file->sha256, hex);
    forget(files, file);
    return LS_EPROTO;
}

enum ls_err agent_files_put(struct agent_files *files, const Ls__PutFile *piece,
                            struct ls_diag *diag)
{
    struct file *file;

    if (strlen(piece->sha256) != LS_SHA256_HEX - 1)
        return ls_fail(diag, LS_EPROTO, "a file's SHA-256 must have 64 digits");
    file = find(files, piece->sha256);
    if (file != NULL && file->complete)
        return LS_OK;
    if (file == NULL)
        file = add(files, piece->sha256);
    if (file == NULL)
        return ls_fail(diag, LS_ENOMEM, "no room for another file");
    if (piece->offset != file->content.len) {
        (void)ls_fail(diag, LS_EPROTO, "a piece of file %.12s at %" PRIu64 " where %zu was next",
                      piece->sha256, piece->offset, file->content.len);
        forget(files, file);
        return LS_EPROTO;
    }
    if (piece->data.len > AGENT_FILES_MAX_BYTES - files->bytes) {
        forget(files, file);
        return ls_fail(diag, LS_ERANGE, "the plan's files are larger than %u bytes together",
                       AGENT_FILES_MAX_BYTES);
    }
    ls_buf_add(&file->content, piece->data.data, piece->data.len);
    if (!file->content.ok) {
        forget(files, file);
        return ls_fail(diag, LS_ENOMEM, "out of memory for the plan's files");
    }
    files->bytes += piece->data.len;
    return piece->last ? finish(files, file, diag) : LS_OK;
}

enum ls_err agent_files_get(const struct agent_files *files, const char *sha256,
                            struct ls_bytes *out, struct ls_diag *diag)
{
    const struct file *file = find(files, sha256);

    if (file == NULL || !file->complete)
        return ls_fail(diag, LS_EINVAL, "file %.12s has not arrived", sha256);
    *out = (struct ls_bytes){ file->content.data, file->content.len };
    return LS_OK;
}
