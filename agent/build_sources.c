#include "agent/build_sources.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* 0, or why it cannot be bound. */
static int try_bind(const struct sockaddr_storage *source)
{
    int fd = socket(source->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error;

    if (fd < 0)
        return errno;
    error = bind(fd, (const struct sockaddr *)source, ls_source_len(source)) == 0 ? 0 : errno;
    (void)close(fd);
    return error;
}

enum ls_err agent_build_sources(const Ls__Prepare *prepare, int family, struct ls_sources *out,
                                struct ls_diag *diag)
{
    const Ls__Workload *w = prepare->workload;
    bool alone = prepare->workers == prepare->workers_total;
    char text[64];
    uint32_t kept = 0;
    enum ls_err rc = LS_OK;

    for (size_t i = 0; i < w->n_source_addresses && rc == LS_OK; i++)
        rc = ls_sources_add(out, w->source_addresses[i], family, diag);
    for (uint32_t i = 0; i < out->count && rc == LS_OK; i++) {
        int error = try_bind(&out->items[i]);

        if (error == 0)
            out->items[kept++] = out->items[i];
        else if (alone || (kept == 0 && i + 1 == out->count))
            rc = ls_fail(diag, LS_EINVAL,
                         "source address %s cannot be used on this host (%s): give it to an "
                         "interface (ip address add), or leave it out",
                         ls_source_format(&out->items[i], text, sizeof(text)), strerror(error));
    }
    out->count = kept;
    return rc;
}
