/* agent/host/target_state.h - the inside of a target, shared by target.c (interface, life, end),
 * target_spec.c (what it is to be), target_up.c (from nothing to started) and target_ready.c.
 * Fields belong to the target's thread unless they say so. */
#ifndef LS_AGENT_HOST_TARGET_STATE_H
#define LS_AGENT_HOST_TARGET_STATE_H

#include <pthread.h>

#include "agent/host/logpump.h"
#include "agent/host/program.h"
#include "agent/host/sampler.h"
#include "agent/host/supervisor.h"
#include "agent/host/target.h"
#include "agent/host/version.h"

#define HOST_TARGET_EVENTS 4 /* UP, EXITED, STOPPED at most */

struct host_one { /* an instance */
    char **argv;  /* owned, as is the next; the first one's are the target's */
    char **envp;
    pid_t pid; /* 0: not started */
    bool exited;
    char exit[64];
};

struct host_target {
    struct host_target_spec spec; /* its strings and lists are the following */
    char *dir;                    /* owned, as are the following */
    char *host;
    char *cpu_list;
    struct host_one *instances; /* 1 + spec.other_count */
    size_t instance_count;
    char **version_argv;
    char **file_names;
    struct host_file *files; /* their data is the caller's */
    struct ls_cpuset cpus;
    bool has_cpus;
    struct host_confine confine; /* as permitted */
    struct host_env env;
    pthread_t thread;
    int wake_fd;  /* eventfd: stop or kill was asked */
    int epoll_fd; /* readable: wake_fd or the supervisor has something */

    pthread_mutex_t lock; /* of the following */
    bool stop_asked;
    bool kill_asked; /* at once */
    struct host_target_event events[HOST_TARGET_EVENTS];
    unsigned event_count;
    struct host_sampler *sampler; /* used by whoever calls host_target_usage() */
    struct host_cgroup *group;    /* likewise; NULL: this host lets none be made */

    struct host_supervisor *supervisor; /* NULL: none yet, or lost */
    struct host_logpump *log;
    struct host_program_file file;
    struct host_program_file binary;
    char shim[400];
    struct host_containment containment;
    char version[HOST_VERSION_BYTES];
    char probed[HOST_VERSION_BYTES];
    char version_differs[300];
    char cpus_text[128]; /* as read back */
    int64_t begun_ns;    /* of the start order */
    int64_t up_after_ns;
    uint64_t readiness_requests;

    /* What the supervisor has said. */
    size_t started_count;
    size_t exited_count;
    size_t ended; /* the instance that ended without being asked */
    bool start_failed;
    bool exited; /* one, without being asked, or all */
    bool exited_unasked;
    bool went_away; /* exited with status 0, and something that it started lives */
    bool clean;
    bool stuck;
    bool lost;
    struct host_supervisor_event news; /* of start_failed, stuck, clean */
    char exit[64];
    uint64_t oom_kills;

    const char *code; /* of the failure that is being reported */
    struct ls_diag diag;
};

/* Copies the spec into t, but for the content of files. LS_ENOMEM; free_spec() frees what there is.
 */
enum ls_err host_target_copy_spec(struct host_target *t, const struct host_target_spec *spec,
                                  struct ls_diag *diag) LS_NODISCARD;
void host_target_free_spec(struct host_target *t);

/* Up to READY. LS_ESTATE with t->code NULL: stop was asked; else t->code and t->diag say why not.
 */
enum ls_err host_target_bring_up(struct host_target *t) LS_NODISCARD;

/* Its last step. */
enum ls_err host_target_await_ready(struct host_target *t) LS_NODISCARD;
enum ls_err host_target_await_accepting(struct host_target *t) LS_NODISCARD;
/* A step of it: is what the supervisor is to start there, and of which version? */
enum ls_err host_target_probe(struct host_target *t) LS_NODISCARD;

/* Waits until something happens, at most until the instant (-1: for ever), and takes the
 * supervisor's news. */
void host_target_wait(struct host_target *t, int64_t until_ns);
bool host_target_stop_asked(struct host_target *t);

/* The target ended or its supervisor is gone: fills code and diag. */
enum ls_err host_target_explain_end(struct host_target *t, const char *when);

#endif
