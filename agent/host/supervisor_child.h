/* agent/host/supervisor_child.h - from a supervisor's fork to the target's exec. */
#ifndef LS_AGENT_HOST_SUPERVISOR_CHILD_H
#define LS_AGENT_HOST_SUPERVISOR_CHILD_H

#include <sys/types.h>

#include "agent/host/supervisor.h"
#include "common/attr.h"

struct host_child {
    pid_t supervisor; /* as the child sees it: 0 from within a pid namespace */
    const char *path;
    const char *dir;
    char **groups; /* folders of control groups; NULL at the end */
    char **argv;
    char **envp;
    const struct ls_cpuset *cpus; /* NULL: as they are */
    const struct host_confine *confine;
    int output_fd;
};

/* What the child tells before exec; nothing at all: the exec has happened. */
struct host_child_failure {
    int step; /* enum host_supervisor_step */
    int error;
};

/* Makes a pid namespace for whatever this process forks from now on, and its first process: what
 * loses its parent in there comes to that one, and everything goes with it. *out_pid 0: it may not.
 * An errno value: nothing can be started any more. */
int host_child_make_init(pid_t *out_pid);

/* failure_fd: the end to write a failure to; exec closes it. */
LS_NORETURN void host_child_become(const struct host_child *child, int failure_fd);

#endif
