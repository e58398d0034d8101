/* agent/host/supervisor.h - the small process that stands between the agent and a target.
 *
 * It is a fresh exec of the agent's own binary, single-threaded, in a session of its own and a
 * child subreaper: whatever a target starts, however it detaches, comes back to it. One end of a
 * SOCK_SEQPACKET pair leads to the agent; when that end closes, for whatever reason, the
 * supervisor kills everything below it and leaves. Terminal signals and TERM do not end it.
 *
 * One supervisor runs one program at a time, or several instances of it: start, then (STARTED |
 * START_FAILED), and so on for each instance; EXITED when the program itself has ended, CLEAN when
 * nothing below the supervisor is left. One thread at a time.
 */
#ifndef LS_AGENT_HOST_SUPERVISOR_H
#define LS_AGENT_HOST_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/host/cgroup.h"
#include "agent/host/confine.h"
#include "agent/host/target.h"
#include "common/cpuset.h"
#include "common/err.h"

struct host_supervisor;

struct host_supervisor_job {
    const char
        *path;       /* what is executed; argv[0] is only its name, and this is with by_real_path */
    const char *dir; /* working folder */
    char *const *argv;
    char *const *envp;
    const struct ls_cpuset *cpus;       /* NULL: as the agent's own */
    const struct host_confine *confine; /* NULL: what every program gets */
    int output_fd;                      /* becomes 1 and 2; stays the caller's */
    bool oneshot; /* when the program has ended, kill what it left behind: CLEAN follows at once */
    uint32_t instance;               /* 0 begins; others join it, below HOST_INSTANCES_MAX */
    const struct host_cgroup *group; /* that it is put into; NULL: none. The same for all */
    bool own_pids; /* in a pid namespace of its own, if that can be had, with the first instance */
};

enum host_supervisor_event_kind {
    HOST_SUPERVISOR_STARTED,      /* the exec has happened: pid and cpus */
    HOST_SUPERVISOR_START_FAILED, /* step and error; nothing runs */
    HOST_SUPERVISOR_EXITED,       /* the program itself: status; descendants may live */
    HOST_SUPERVISOR_CLEAN,        /* nothing is left: left_over */
    HOST_SUPERVISOR_STUCK,        /* pid has been killed and does not go: name, state */
    HOST_SUPERVISOR_LOST,         /* the supervisor itself is gone: destroy it */
    HOST_SUPERVISOR_EVENT_COUNT
};

/* What was being done when a start failed. */
enum host_supervisor_step {
    HOST_STEP_FORK,
    HOST_STEP_SESSION,
    HOST_STEP_FILES,
    HOST_STEP_GROUP,
    HOST_STEP_CPUS,
    HOST_STEP_LIMITS, /* this and the next two in the order of enum host_confine_step */
    HOST_STEP_USER,
    HOST_STEP_PRIVILEGES,
    HOST_STEP_FOLDER,
    HOST_STEP_EXEC,
    HOST_STEP_COUNT
};

struct host_supervisor_event {
    enum host_supervisor_event_kind kind;
    uint32_t instance; /* STARTED, START_FAILED, EXITED */
    pid_t pid;
    pid_t init; /* STARTED: the first process of its pid namespace; 0: it has none */
    int status; /* as waitpid() gives it */
    enum host_supervisor_step step;
    int error;             /* errno value */
    bool asked;            /* EXITED: it had been told to stop */
    bool others;           /* EXITED: something that it started still lives */
    uint32_t left_over;    /* processes that had to be killed, beside the program itself */
    struct ls_cpuset cpus; /* affinity as read back from the started program */
    char name[32];
    char state;
};

/* If this process was started as a supervisor, serves and does not return. */
void host_supervisor_main_hook(int argc, char **argv);

/* Starts one. Any thread may call it; no fork handler runs. LS_EIO, LS_ENOMEM. */
enum ls_err host_supervisor_create(struct host_supervisor **out_supervisor,
                                   struct ls_diag *diag) LS_NODISCARD;
/* Closes the connection, upon which the supervisor kills what there still is, and waits for its
 * end; not for ever, though (10 s), as there are processes that even KILL does not end: then it
 * stays and goes on trying. If it did not end by itself, what it left behind is killed here, see
 * host_adopt_orphans() in target.h. NULL is fine. */
void host_supervisor_destroy(struct host_supervisor *supervisor);

pid_t host_supervisor_pid(const struct host_supervisor *supervisor);
/* Readable when receive() has something. */
int host_supervisor_fd(const struct host_supervisor *supervisor);

/* LS_ERANGE: argv and environment are too long; LS_ECLOSED: the supervisor is gone. */
enum ls_err host_supervisor_start(struct host_supervisor *supervisor,
                                  const struct host_supervisor_job *job,
                                  struct ls_diag *diag) LS_NODISCARD;
/* Sends the signal once to each process below the supervisor, and KILL to those that are left
 * after grace_ns. CLEAN follows. A supervisor that is gone shows as LOST, not here. */
void host_supervisor_stop(struct host_supervisor *supervisor, int signal, int64_t grace_ns);

/* The next event, or LS_EAGAIN if there is none. */
enum ls_err host_supervisor_receive(struct host_supervisor *supervisor,
                                    struct host_supervisor_event *out_event) LS_NODISCARD;

#endif
