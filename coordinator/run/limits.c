#include "coordinator/run/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#define FILES_BESIDE    40u /* loop, threads of the transport, the result's files */
#define FILES_PER_AGENT 3u  /* its connection, its process, its log */

enum ls_err coord_limits_files(uint32_t agents, struct ls_diag *diag)
{
    uint64_t needed = FILES_BESIDE + (uint64_t)FILES_PER_AGENT * agents;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return ls_fail(diag, LS_EIO, "getrlimit: %s", strerror(errno));
    if (files.rlim_cur < files.rlim_max) {
        struct rlimit raised = { .rlim_cur = files.rlim_max, .rlim_max = files.rlim_max };

        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            files = raised;
    }
    if (files.rlim_cur < needed)
        return ls_fail(diag, LS_ERANGE,
                       "a run with %" PRIu32 " agents needs %" PRIu64
                       " file descriptors, this process may have %" PRIu64
                       ": raise RLIMIT_NOFILE (ulimit -n, as root)",
                       agents, needed, (uint64_t)files.rlim_cur);
    return LS_OK;
}
