/* agent/role_server.h - the inside of the server's role, for role_server.c (its life) and
 * role_server_start.c (from PREPARE to a target that starts) and role_server_tell.c; nobody else
 * includes it. */
#ifndef LS_AGENT_ROLE_SERVER_H
#define LS_AGENT_ROLE_SERVER_H

#include "agent/build.h"
#include "agent/host/target.h"
#include "agent/role.h"
#include "agent/services.h"

struct server {
    struct agent_role_env env;
    struct host_target *target; /* owned */
    struct agent_build *ready;  /* owned */
    Ls__Probe *probe_message;   /* owned; what probe points into */
    char **probe_argv;          /* owned; NULL: there is nothing to ask */
    struct host_probe probe;
    struct agent_services *services; /* owned; NULL: there are none */
    Ls__Prepare *waiting;            /* owned: what is to be started when they are up */
    struct host_series *series;      /* owned; of a process workload */
    bool series_over;                /* all runs have ended; up is how */
    struct host_target_event up;
    char **argv; /* owned; NULL-terminated, like the next two */
    char **envp;
    struct host_instance *others; /* owned, with their lists; of a target with instances */
    size_t other_count;
    char **version;
    char **variables;  /* names that the plan's env has */
    char dir[512];     /* of the trial; "" if there is none */
    pid_t network_pid; /* who is in the target's private network; 0: it has none */
    char cpus[128];    /* as the target really has them */
    char governor_before[64];
    char governor_after[64];
    struct load_window window;
    int64_t next_sample_ns; /* INT64_MAX: none is due */
    bool finishing;
    bool stop_asked;
    /* after STOPPED */
    bool stopped;
    struct host_target_event end;
    int log_fd;
    uint64_t log_sent; /* all of it, in earlier trials too ... */
    uint64_t log_from; /* ... and where this trial's begins */
    bool reported;
    /* A target that stays from trial to trial. */
    bool keep;     /* as PREPARE says */
    bool measured; /* the window came to its end */
    bool kept;     /* between two of its trials */
    bool gone;     /* ended meanwhile */
    int64_t kept_until_ns;
    uint8_t *identity; /* owned; what was prepared, packed */
    size_t identity_bytes;
};

/* What the plan writes with placeholders, for this trial: commands, environment, probe. LS_EINVAL,
 * LS_ERANGE, LS_ENOMEM; what there is until then is the server's. */
enum ls_err server_expand(struct server *s, const Ls__Prepare *prepare,
                          struct ls_diag *diag) LS_NODISCARD;
/* Hands all of it to a new target. Errors of host_target_start() and of the plan's files. */
enum ls_err server_start(struct server *s, const Ls__Prepare *prepare,
                         struct ls_diag *diag) LS_NODISCARD;
/* Reports TARGET_UP. */
void server_tell_up(struct server *s, const struct host_target_event *event);

#endif
