/* A target's own copy of what it was asked to be: the message that it came in goes before. */
#include <stdlib.h>
#include <string.h>

#include "agent/host/target_state.h"

static void free_list(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++)
        free(list[i]);
    free(list);
}

static char **copy_list(char *const *list)
{
    size_t n = 0;
    char **copy;

    while (list != NULL && list[n] != NULL)
        n++;
    copy = calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; copy != NULL && i < n; i++) {
        copy[i] = strdup(list[i]);
        if (copy[i] == NULL) {
            free_list(copy);
            return NULL;
        }
    }
    return copy;
}

/* With their names, as the message that they came in goes before they are written. */
static bool copy_files(struct host_target *t, const struct host_file *files, size_t count)
{
    t->files = calloc(count + 1, sizeof(*t->files));
    t->file_names = calloc(count + 1, sizeof(*t->file_names));
    if (t->files == NULL || t->file_names == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        t->file_names[i] = strdup(files[i].name);
        if (t->file_names[i] == NULL)
            return false;
        t->files[i] = files[i];
        t->files[i].name = t->file_names[i];
    }
    return true;
}

static bool copy_instances(struct host_target *t, const struct host_target_spec *spec)
{
    t->instance_count = 1 + spec->other_count;
    t->instances = calloc(t->instance_count, sizeof(*t->instances));
    for (size_t i = 0; t->instances != NULL && i < t->instance_count; i++) {
        const struct host_instance *other = i > 0 ? &spec->others[i - 1] : NULL;
        struct host_one *one = &t->instances[i];

        one->argv = copy_list(other != NULL ? other->argv : spec->argv);
        one->envp = copy_list(other != NULL ? other->envp : spec->envp);
        if (one->argv == NULL || one->envp == NULL)
            return false;
    }
    return t->instances != NULL;
}

enum ls_err host_target_copy_spec(struct host_target *t, const struct host_target_spec *spec,
                                  struct ls_diag *diag)
{
    t->dir = strdup(spec->dir);
    t->host = strdup(spec->host);
    t->cpu_list = strdup(spec->cpus != NULL ? spec->cpus : "");
    t->version_argv = copy_list(spec->version_argv);
    if (t->dir == NULL || t->host == NULL || t->cpu_list == NULL || t->version_argv == NULL ||
        !copy_instances(t, spec) || !copy_files(t, spec->files, spec->file_count))
        return ls_fail(diag, LS_ENOMEM, "no memory for a target");
    t->spec = *spec;
    t->spec.files = t->files;
    t->spec.dir = t->dir;
    t->spec.host = t->host;
    t->spec.cpus = t->cpu_list;
    t->spec.argv = t->instances[0].argv;
    t->spec.envp = t->instances[0].envp;
    t->spec.others = NULL; /* they are in instances */
    t->spec.version_argv = t->version_argv;
    return LS_OK;
}

void host_target_free_spec(struct host_target *t)
{
    free(t->dir);
    free(t->host);
    free(t->cpu_list);
    for (size_t i = 0; t->instances != NULL && i < t->instance_count; i++) {
        free_list(t->instances[i].argv);
        free_list(t->instances[i].envp);
    }
    free(t->instances);
    free_list(t->version_argv);
    free_list(t->file_names);
    free(t->files);
}
