#include "coordinator/run/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "common/units.h"
#include "coordinator/result/store.h"

#define BYTES_PER_INTERVAL 650.0 /* of result.json: an interval of all clients, and a sample */
#define FILES_BESIDE       40u   /* loop, threads of the transport, the result's files */
#define FILES_PER_AGENT    3u    /* its connection, its process, its log */

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

enum ls_err coord_limits_series(const struct coord_trials *trials, struct ls_diag *diag)
{
    const double most = (double)COORD_RESULT_MAX_BYTES * 0.9; /* the rest is small */
    double bytes = 0, longest_ns = 0;
    char interval[48];

    for (size_t i = 0; i < trials->count; i++) {
        const Ls__Workload *w = trials->items[i].workload;

        if (w->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS || w->interval == NULL ||
            w->measure == NULL || w->interval->ns <= 0)
            continue;
        bytes += (double)w->measure->ns / (double)w->interval->ns * BYTES_PER_INTERVAL;
        if ((double)w->interval->ns > longest_ns)
            longest_ns = (double)w->interval->ns;
    }
    if (bytes <= most)
        return LS_OK;
    return ls_fail(
        diag, LS_ERANGE,
        "the time series of %zu trials would make a result of %.0f MiB, %u are the most: "
        "give the workloads an interval of %s or more, or run the plan in parts",
        trials->count, bytes / (1 << 20), COORD_RESULT_MAX_BYTES >> 20,
        ls_human_duration(longest_ns * (1 + bytes / most), interval, sizeof(interval)));
}
