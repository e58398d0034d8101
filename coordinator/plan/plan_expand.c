#include "coordinator/plan/plan_expand.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

#define EXPANDED_MAX (1u << 20) /* bytes of one word */
#define PLAN         "{plan}"

/* The '}' that belongs to the '{' at open; NULL: there is none. */
static const char *closing(const char *open)
{
    unsigned depth = 0;

    for (const char *at = open; *at != '\0'; at++) {
        depth += *at == '{';
        if (*at == '}' && --depth == 0)
            return at;
    }
    return NULL;
}

static void expand(const char *text, size_t len, const char *folder, struct ls_buf *out);

/* "${NAME}" or "${NAME:-instead}" at text. Returns its length; 0: it is none, or not set. */
static size_t variable(const char *text, const char *end, const char *folder, struct ls_buf *out)
{
    const char *close = text[1] == '{' ? closing(text + 1) : NULL;
    const char *name = text + 2;
    size_t len = 0;
    char *copy;
    const char *value;

    if (close == NULL || close >= end)
        return 0;
    while (isalnum((unsigned char)name[len]) || name[len] == '_')
        len++;
    if (len == 0 || (name + len != close && strncmp(name + len, ":-", 2) != 0))
        return 0;
    copy = strndup(name, len);
    value = copy != NULL ? getenv(copy) : NULL;
    out->ok = out->ok && copy != NULL;
    free(copy);
    if (value != NULL && *value != '\0')
        ls_buf_adds(out, value);
    else if (name + len == close)
        return 0;
    else
        expand(name + len + 2, (size_t)(close - name) - len - 2, folder, out);
    return (size_t)(close - text) + 1;
}

static void expand(const char *text, size_t len, const char *folder, struct ls_buf *out)
{
    const char *end = text + len;

    while (text < end) {
        size_t used = *text == '$' ? variable(text, end, folder, out) : 0;

        if (used == 0 && strncmp(text, PLAN, strlen(PLAN)) == 0) {
            ls_buf_adds(out, folder);
            used = strlen(PLAN);
        }
        if (used == 0) {
            ls_buf_add(out, text, 1);
            used = 1;
        }
        text += used;
    }
}

static bool expand_word(char **word, const char *folder)
{
    struct ls_buf out;
    char *expanded;

    if (strstr(*word, PLAN) == NULL && strstr(*word, "${") == NULL)
        return true;
    ls_buf_init(&out, EXPANDED_MAX);
    expand(*word, strlen(*word), folder, &out);
    expanded = ls_buf_detach(&out);
    ls_buf_fini(&out);
    if (expanded == NULL)
        return false;
    free(*word);
    *word = expanded;
    return true;
}

static bool expand_words(char **words, size_t count, const char *folder)
{
    for (size_t i = 0; i < count; i++) {
        if (!expand_word(&words[i], folder))
            return false;
    }
    return true;
}

static bool expand_services(Ls__Service **services, size_t count, const char *folder)
{
    bool ok = true;

    for (size_t i = 0; i < count && ok; i++) {
        ok = expand_words(services[i]->command, services[i]->n_command, folder);
        for (size_t k = 0; k < services[i]->n_env && ok; k++)
            ok = expand_word(&services[i]->env[k]->value, folder);
    }
    return ok;
}

static bool expand_target(Ls__Target *target, const char *folder)
{
    bool ok = expand_words(target->command, target->n_command, folder) &&
              expand_words(target->version, target->n_version, folder) &&
              (target->program == NULL || expand_word(&target->program, folder)) &&
              (target->probe == NULL ||
               expand_words(target->probe->command, target->probe->n_command, folder)) &&
              expand_services(target->services, target->n_services, folder);

    for (size_t k = 0; k < target->n_env && ok; k++)
        ok = expand_word(&target->env[k]->value, folder);
    return ok;
}

static bool expand_process(Ls__Process *process, const char *folder)
{
    bool ok = expand_words(process->command, process->n_command, folder) &&
              expand_words(process->args, process->n_args, folder);

    for (size_t k = 0; k < process->n_env && ok; k++)
        ok = expand_word(&process->env[k]->value, folder);
    return ok;
}

enum ls_err coord_plan_expand(Ls__Plan *plan, const char *base_dir)
{
    char *folder = realpath(base_dir, NULL);
    bool ok = true;

    if (folder == NULL) /* its files will be missed elsewhere, by name */
        folder = strdup(base_dir);
    for (size_t i = 0; i < plan->n_targets && folder != NULL && ok; i++) {
        ok = expand_target(plan->targets[i], folder);
    }
    for (size_t i = 0; i < plan->n_workloads && folder != NULL && ok; i++) {
        Ls__Workload *w = plan->workloads[i];

        ok = expand_services(w->services, w->n_services, folder) &&
             (w->protocol_case != LS__WORKLOAD__PROTOCOL_PROCESS ||
              expand_process(w->process, folder));
    }
    ok = ok && folder != NULL;
    free(folder);
    return ok ? LS_OK : LS_ENOMEM;
}
