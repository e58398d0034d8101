/* Is a target there, and is it what the plan expects? */
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "agent/host/target_state.h"

/* What cannot be compiled was no checked plan's, and fits nothing. */
static bool fits(const char *pattern, const char *text)
{
    regex_t compiled;
    bool found;

    if (pattern == NULL)
        return true;
    if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    found = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return found;
}

static bool is_unknown(const char *text)
{
    static const char begin[] = "unknown: ";

    return strncmp(text, begin, sizeof(begin) - 1) == 0;
}

static enum ls_err ask(struct host_target *t)
{
    const struct host_supervisor_job job = { .dir = t->spec.dir,
                                             .argv = t->spec.probe->argv,
                                             .envp = t->spec.envp,
                                             .cpus = t->has_cpus ? &t->cpus : NULL,
                                             .group = t->group };
    enum ls_err rc = host_version_read(t->supervisor, t->wake_fd, &job, &t->spec.permit,
                                       t->spec.probe->timeout_ns, t->probed, &t->diag);

    if (rc != LS_ECLOSED)
        return rc;
    t->lost = true;
    host_target_wait(t, 0);
    return host_target_explain_end(t, "while it was probed");
}

/* Another one than the plan is about runs nevertheless, and is marked. */
static void compare(struct host_target *t)
{
    const struct host_probe *probe = t->spec.probe;

    if (probe->sha256 != NULL && strcmp(probe->sha256, t->file.sha256) != 0)
        (void)snprintf(t->version_differs, sizeof(t->version_differs),
                       "SHA-256 is %.12s..., expected was %.12s...", t->file.sha256, probe->sha256);
    else if (!fits(probe->version, t->probed))
        (void)snprintf(t->version_differs, sizeof(t->version_differs),
                       "the probe printed \"%.120s\", expected was /%.100s/", t->probed,
                       probe->version);
}

enum ls_err host_target_probe(struct host_target *t)
{
    const struct host_probe *probe = t->spec.probe;
    enum ls_err rc;

    if (probe == NULL)
        return LS_OK;
    if (probe->argv != NULL) {
        rc = ask(t);
        if (rc != LS_OK)
            return rc;
        t->code = "skipped";
        if (is_unknown(t->probed))
            return ls_fail(&t->diag, LS_ESTATE, "the probe failed: %.200s",
                           t->probed + strlen("unknown: "));
        if (!fits(probe->expect, t->probed))
            return ls_fail(&t->diag, LS_ESTATE,
                           "the probe printed \"%.120s\", expected was /%.80s/", t->probed,
                           probe->expect);
    }
    compare(t);
    return LS_OK;
}
