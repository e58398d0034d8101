#include "coordinator/bundle/plan_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/digest.h"
#include "common/msg_model.h"
#include "coordinator/result/message.h"

enum ls_err coord_plan_file_path(const char *folder, const char *name, char *out,
                                 struct ls_diag *diag)
{
    int used = name[0] == '/' ? snprintf(out, PATH_MAX, "%s", name)
                              : snprintf(out, PATH_MAX, "%s/%s", folder, name);

    if (used < 0 || used >= PATH_MAX)
        return ls_fail(diag, LS_ERANGE, "the path of the file %.60s... is too long", name);
    return LS_OK;
}

struct walk {
    const char *base_dir;
    Ls__Result *result;
    struct ls_diag *diag;
};

static enum ls_err describe(const char *path, Ls__PlanFile *file, struct ls_diag *diag)
{
    char hex[LS_SHA256_HEX];
    struct stat st;
    enum ls_err rc;

    if (stat(path, &st) != 0)
        return ls_fail(diag, LS_EIO, "cannot look at %s: %s", path, strerror(errno));
    rc = ls_sha256_file(path, hex, diag);
    if (rc != LS_OK)
        return rc;
    file->bytes = (uint64_t)st.st_size;
    file->executable = (st.st_mode & S_IXUSR) != 0;
    return coord_message_string(&file->sha256, hex)
               ? LS_OK
               : ls_fail(diag, LS_ENOMEM, "no memory for the plan's files");
}

static enum ls_err add(struct walk *walk, const char *name, bool secret)
{
    char path[PATH_MAX];
    Ls__PlanFile *file;
    enum ls_err rc;

    for (size_t i = 0; i < walk->result->n_files; i++) {
        if (strcmp(walk->result->files[i]->name, name) == 0) {
            walk->result->files[i]->secret = walk->result->files[i]->secret || secret;
            return LS_OK;
        }
    }
    rc = coord_plan_file_path(walk->base_dir, name, path, walk->diag);
    if (rc != LS_OK)
        return rc;
    file = coord_message_append(&walk->result->n_files, &walk->result->files,
                                &ls__plan_file__descriptor);
    if (file == NULL || !coord_message_string(&file->name, name))
        return ls_fail(walk->diag, LS_ENOMEM, "no memory for the plan's files");
    file->secret = secret;
    return describe(path, file, walk->diag);
}

static bool names_a_file(const ProtobufCFieldDescriptor *field)
{
    size_t len = strlen(field->name);

    return field->type == PROTOBUF_C_TYPE_STRING &&
           (strcmp(field->name, "file") == 0 || strcmp(field->name, "files") == 0 ||
            (len > 5 && strcmp(field->name + len - 5, "_file") == 0));
}

/* As deep as the schema, which is not recursive. */
static enum ls_err walk_message(struct walk *walk, const ProtobufCMessage *message)
{
    enum ls_err rc = LS_OK;

    for (unsigned i = 0; i < message->descriptor->n_fields && rc == LS_OK; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t n = ls_msg_count(message, field);

        for (size_t k = 0; k < n && rc == LS_OK; k++) {
            if (field->type == PROTOBUF_C_TYPE_MESSAGE)
                rc = walk_message(walk, ls_msg_sub(message, field, k));
            else if (names_a_file(field))
                rc = add(walk, *(char *const *)ls_msg_at(message, field, k),
                         strcmp(field->name, "key_file") == 0);
        }
    }
    return rc;
}

enum ls_err coord_plan_files_of(const ProtobufCMessage *part, const char *base_dir,
                                Ls__Result *result, struct ls_diag *diag)
{
    struct walk walk = { .base_dir = base_dir, .result = result, .diag = diag };

    return walk_message(&walk, part);
}

enum ls_err coord_plan_files(const Ls__Plan *plan, const char *base_dir, Ls__Result *result,
                             struct ls_diag *diag)
{
    return coord_plan_files_of(&plan->base, base_dir, result, diag);
}
