/* agent/host/spawner.h - starts processes one after the other, or some at once, and times them.
 *
 * What is started from a large process shows that one's memory as its own peak, until exec() and
 * for good (agent/spawner/main.c says why). So between the agent and the runs of a process workload
 * stands the spawner, a static program of less than a MiB that the agent carries in itself. It is
 * the program that a supervisor runs, with the CPUs, the user and the limits of the target, and its
 * runs inherit all of that; it is a subreaper, so nothing that a run leaves behind goes to the
 * next.
 *
 * A run's time begins just before posix_spawn() and ends when the kernel says that it has ended.
 * One thread at a time.
 */
#ifndef LS_AGENT_HOST_SPAWNER_H
#define LS_AGENT_HOST_SPAWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/host/spawner_wire.h"
#include "common/err.h"

struct host_spawner;

/* Writes the spawner's binary to path, replacing what is there. LS_EIO. */
enum ls_err host_spawner_install(const char *path, struct ls_diag *diag) LS_NODISCARD;

/* *out_child_fd becomes 1 and 2 of the binary, and is the caller's to close. LS_EIO, LS_ENOMEM. */
enum ls_err host_spawner_create(int *out_child_fd, struct host_spawner **out_spawner,
                                struct ls_diag *diag) LS_NODISCARD;
void host_spawner_destroy(struct host_spawner *spawner); /* it leaves; NULL is fine */

/* Readable when receive() has something. */
int host_spawner_fd(const struct host_spawner *spawner);

struct host_spawner_run {
    uint32_t id;
    const char *path;
    char *const *argv;
    char *const *envp;
    int fds[3]; /* become 0, 1 and 2; stay the caller's */
    int64_t timeout_ns;
    bool tell_start;
};

/* LS_ERANGE: argv and environment are too long; LS_ECLOSED: the spawner is gone. */
enum ls_err host_spawner_run(struct host_spawner *spawner, const struct host_spawner_run *run,
                             struct ls_diag *diag) LS_NODISCARD;

/* The next report; LS_EAGAIN: none; LS_ECLOSED: the spawner is gone. */
enum ls_err host_spawner_receive(struct host_spawner *spawner,
                                 struct spawner_report *out_report) LS_NODISCARD;

#endif
