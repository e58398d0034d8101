#include "coordinator/run/labels.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/attr.h"

static size_t key_length(const char *label)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strspn(label, allowed);

    return label[len] == '=' ? len : 0;
}

enum ls_err coord_labels_check(const char *const *labels, size_t count, struct ls_diag *diag)
{
    for (size_t i = 0; i < count; i++) {
        size_t len = key_length(labels[i]);

        if (len == 0)
            return ls_fail(diag, LS_EINVAL,
                           "--label '%.60s': key=value is expected, such as commit=1a2b3c",
                           labels[i]);
        for (size_t k = 0; k < i; k++) {
            if (strncmp(labels[k], labels[i], len + 1) == 0)
                return ls_fail(diag, LS_EINVAL, "--label: '%.*s' is given twice", (int)len,
                               labels[i]);
        }
    }
    return LS_OK;
}

const char *coord_label_find(const Ls__Result *result, const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < result->n_labels; i++) {
        if (strncmp(result->labels[i], key, len) == 0 && result->labels[i][len] == '=')
            return result->labels[i] + len + 1;
    }
    return NULL;
}

static bool add(Ls__Result *result, const char *key, const char *value)
{
    char **labels = realloc(result->labels, (result->n_labels + 1) * sizeof(*labels));

    if (labels == NULL)
        return false;
    result->labels = labels;
    if (asprintf(&labels[result->n_labels], "%s%s%s", key, key[0] != '\0' ? "=" : "", value) < 0)
        return false;
    result->n_labels++;
    return true;
}

/* The first of the variables that is set. */
static bool add_of_job(Ls__Result *result, const char *key, const char *const *variables)
{
    if (coord_label_find(result, key) != NULL)
        return true;
    for (; *variables != NULL; variables++) {
        const char *value = getenv(*variables);

        if (value != NULL && *value != '\0')
            return add(result, key, value);
    }
    return true;
}

enum ls_err coord_labels_fill(Ls__Result *result, const char *const *labels, size_t count)
{
    static const char *const commits[] = { "GITHUB_SHA",    "CI_COMMIT_SHA",
                                           "GIT_COMMIT",    "BUILDKITE_COMMIT",
                                           "CIRCLE_SHA1",   "DRONE_COMMIT_SHA",
                                           "TRAVIS_COMMIT", NULL };
    static const char *const branches[] = { "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME",
                                            "GIT_BRANCH",      "BUILDKITE_BRANCH",
                                            "CIRCLE_BRANCH",   "DRONE_BRANCH",
                                            "TRAVIS_BRANCH",   NULL };

    for (size_t i = 0; i < count; i++) {
        if (!add(result, "", labels[i]))
            return LS_ENOMEM;
    }
    return add_of_job(result, "commit", commits) && add_of_job(result, "branch", branches)
               ? LS_OK
               : LS_ENOMEM;
}
