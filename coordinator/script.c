#include "coordinator/script.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/fleet/local.h"

static enum ls_err own_path(char out[PATH_MAX], struct ls_diag *diag)
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

    if (n < 0)
        return ls_fail(diag, LS_EIO, "/proc/self/exe: %s", strerror(errno));
    out[n] = '\0';
    return LS_OK;
}

enum ls_err coord_script_find(const char *name, char *out, size_t out_bytes, struct ls_diag *diag)
{
    /* As it is installed, and as it is built: build/PRESET/coordinator/lockstep. */
    static const char *const places[] = { "../share/lockstep", "../../../deploy" };
    char self[PATH_MAX];
    enum ls_err rc = own_path(self, diag);

    if (rc != LS_OK)
        return rc;
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < LS_ARRAY_LEN(places); i++) {
        int n = snprintf(out, out_bytes, "%s/%s/%s", self, places[i], name);

        if (n > 0 && (size_t)n < out_bytes && access(out, R_OK) == 0)
            return LS_OK;
    }
    return ls_fail(diag, LS_EIO, "%s is neither in %s/%s nor in %s/%s: install lockstep as a whole",
                   name, self, places[0], self, places[1]);
}

enum ls_err coord_script_become(const char *script, const char *const *words, size_t count,
                                struct ls_diag *diag)
{
    const char **argv = calloc(count + 3, sizeof(*argv));
    char self[PATH_MAX];
    char agent[PATH_MAX];
    enum ls_err rc = argv != NULL ? own_path(self, diag) : LS_ENOMEM;

    if (rc == LS_OK)
        rc = coord_local_find_agent(agent, sizeof(agent), diag);
    if (rc == LS_OK &&
        (setenv("LOCKSTEP", self, 1) != 0 || setenv("LOCKSTEP_AGENT", agent, 1) != 0))
        rc = LS_ENOMEM;
    if (rc == LS_OK) {
        argv[0] = "sh";
        argv[1] = script;
        for (size_t i = 0; i < count; i++)
            argv[2 + i] = words[i];
        (void)execv("/bin/sh", (char **)(void *)argv);
        rc = ls_fail(diag, LS_EIO, "/bin/sh %s: %s", script, strerror(errno));
    }
    if (rc == LS_ENOMEM)
        (void)ls_fail(diag, LS_ENOMEM, "no memory to start %s", script);
    free(argv);
    return rc;
}
