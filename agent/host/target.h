/* agent/host/target.h - the program under test: started on its CPUs, awaited, watched, ended.
 *
 * A target runs under a small supervisor process (agent/host/supervisor.h) that is a child
 * subreaper and kills every descendant when the target has to go or the agent itself is gone. The
 * control thread calls everything here; nothing blocks: waiting happens on a thread of the target's
 * own, which calls env->wake when there is something to poll.
 *
 *     start -> (UP | FAILED) ... (EXITED) ... stop -> (STOPPED)
 *
 * FAILED and EXITED are final for the program, but stop() must still be called and STOPPED awaited:
 * it says what was left over, and that the port is free again. stop() before UP or FAILED leads to
 * STOPPED alone.
 *
 * A target of a process workload (spec.series) is no server: it is UP when its runs have ended.
 *
 * Codes of FAILED: skipped (a probe says that it is not there), runs_failed, port_in_use, policy,
 * limits, network, start_failed, exited, out_of_memory, not_ready, supervisor_lost. Of EXITED:
 * exited, out_of_memory, supervisor_lost. Of STOPPED: "" (all is well), left_behind (a process that
 * even KILL did not end), port_still_in_use. With a code goes a sentence in diag.
 */
#ifndef LS_AGENT_HOST_TARGET_H
#define LS_AGENT_HOST_TARGET_H

#include "agent/host/confine.h"
#include "agent/host/program.h"
#include "agent/load/workload.h"
#include "common/err.h"

#define HOST_INSTANCES_MAX 256u

struct host_series;
struct host_target;

struct host_file {
    const char *name; /* below dir: no "..", no absolute path, checked again here */
    struct ls_bytes data;
    bool executable;
};

/* Says whether what was found may be executed with these arguments (version: only to ask for its
 * version), and how it is to be confined. LS_EREFUSED. On the target's thread. */
struct host_permit {
    enum ls_err (*ask)(void *ctx, const struct host_program_file *file, char *const *argv,
                       bool version, struct host_confine *out, struct ls_diag *diag);
    void *ctx; /* lives as long as the target */
};

/* A process of it beside the first one. */
struct host_instance {
    char *const *argv;
    char *const *envp;
};

struct host_target_limits { /* 0: none */
    uint64_t memory_bytes;  /* of all processes together, as the next */
    uint32_t processes;
    uint32_t descriptors; /* of each process */
};

/* Whether a target is there: what is not is FAILED with code skipped. */
struct host_probe {
    char *const *argv;   /* asked with standard input closed; NULL: the program's file is enough */
    const char *expect;  /* extended regular expression for what it prints; NULL: anything */
    const char *version; /* another one: what does not fit is another version, and runs */
    const char *sha256;  /* of the program; NULL: any */
    int64_t timeout_ns;
};

/* Copied by host_target_start(), but for the files' data, ready, probe and series, which stay the
 * caller's and must live as long as the target. */
struct host_target_spec {
    const char *dir; /* trial folder, absolute, made by the caller, private */
    const struct host_file *files;
    size_t file_count;
    char *const *argv; /* expanded; argv[0] is looked up in the environment's PATH */
    char *const *envp; /* the whole environment */
    const struct host_instance *others; /* further ones on the same port; the same program */
    size_t other_count;                 /* below HOST_INSTANCES_MAX */
    struct host_target_limits limits;
    bool private_network;      /* loopback alone, made for it */
    char *const *version_argv; /* NULL: none */
    const char *cpus;          /* list; "" or NULL: as the agent's own */
    const char *host;          /* literal address */
    uint16_t port;
    /* Its request 0 must be answered as expected; NULL: a service, whose port (0: it has none) is
     * to accept connections. */
    const struct load_workload *ready;
    int64_t ready_timeout_ns;
    uint32_t ready_processes; /* of it, that must have taken a connection; 0, 1: it answers */
    int stop_signal;
    int64_t grace_ns;
    const struct host_probe *probe; /* NULL: it has to be there */
    struct host_series *series; /* the runs of a process workload, the caller's; NULL: a server */
    uint64_t log_max_bytes;     /* kept of target.log; the rest is counted and dropped */
    struct host_permit permit;  /* ask NULL: everything may be executed */
};

struct host_program {            /* owned by the target */
    const char *path;            /* real path of the binary; "" if it could not be found */
    const char *sha256;          /* hex; of a script: the script's */
    const char *interpreter;     /* of a script: what its "#!" line names; "" for a binary */
    const char *version;         /* what version_argv printed first, as one line; "unknown: why" */
    const char *probed;          /* what the probe printed, likewise; "" without one */
    const char *version_differs; /* from what the probe expects: how; "" if it does not */
    const char *binary; /* that the process which listens is an instance of; "": not known */
    const char *binary_sha256;
    const char *shim; /* a sentence, if path only starts it; "" */
};

#define HOST_LIMITS_MAX 3

struct host_containment { /* owned by the target */
    const char *by;       /* "cgroup.kill", "cgroup freezer", "pid namespace", "subreaper" */
    const char *cpu_from; /* as host_cgroup_cpu_from() */
    char limits[HOST_LIMITS_MAX][96];
    unsigned limit_count;
    pid_t network_pid;      /* who is in the private network; 0: there is none */
    uint64_t network_inode; /* its number */
};

enum host_target_event_kind {
    HOST_TARGET_NONE,
    HOST_TARGET_UP,
    HOST_TARGET_FAILED, /* code and diag say why: port_in_use, start_failed, exited, not_ready */
    HOST_TARGET_EXITED, /* after UP, without being asked */
    HOST_TARGET_STOPPED
};

struct host_target_event {
    enum host_target_event_kind kind;
    const char *code; /* static; "" if there is nothing to say */
    struct ls_diag diag;
    char log_tail[2048];                        /* the last lines, as text; FAILED and EXITED */
    struct host_program program;                /* UP */
    const struct host_containment *containment; /* UP */
    uint64_t readiness_requests;
    int64_t up_after_ns;
    char cpus[128]; /* UP: the affinity the process really has */
    /* "exit 3", "signal SEGV", "signal KILL, out of memory", "unknown"; of several instances, the
     * first that ended without being asked, or "mixed"; "" if it was never started */
    char exit[64];
    uint64_t oom_kills; /* STOPPED: its processes that the kernel killed for want of memory */
    bool stopped_by_us;
    uint32_t left_over; /* STOPPED: descendants that had to be killed */
    uint64_t log_bytes; /* written to dir/target.log */
    uint64_t log_dropped_bytes;
};

struct host_env {
    void (*wake)(void *ctx);
    void *ctx;
};

/* The use of the whole process tree at one instant. */
struct host_usage {
    int64_t at_ns;
    int64_t cpu_ns;
    uint64_t rss_bytes;
    /* Largest sum of the living processes' high-water marks since host_target_reset_peak(), as seen
     * at each reading: never low by more than a process that lived between two of them. */
    uint64_t rss_peak_bytes;
    uint32_t processes;
    uint32_t threads;
    uint64_t voluntary_switches;
    uint64_t involuntary_switches;
    int64_t cgroup_cpu_ns; /* beside cpu_ns, as its control group counts; 0: it has none */
    uint64_t cgroup_memory_bytes;
    uint64_t cgroup_memory_peak_bytes; /* since host_target_reset_peak() */
};

/* Of a name with or without SIG; SIGTERM if there is none such. */
int host_signal_number(const char *name);

/* Call from main() first, before any option is read, thread started or nng called: the supervisor
 * is a fresh exec of the agent's own binary, and if this process was started as one, it does not
 * return. */
void host_target_main_hook(int argc, char **argv);

/* Makes the calling process the subreaper of last resort, so that the targets of a supervisor that
 * was killed come to it and are killed. From then on every child of
 * this process that is not a supervisor and was not there at the time of the call is taken for such
 * an orphan once a supervisor is lost. LS_EIO. */
enum ls_err host_adopt_orphans(struct ls_diag *diag) LS_NODISCARD;

/* LS_EINVAL: a CPU list that is none, an empty argv; LS_ENOMEM, LS_EIO. Everything else that goes
 * wrong comes as FAILED. On LS_OK the caller owns *out_target. */
enum ls_err host_target_start(const struct host_target_spec *spec, const struct host_env *env,
                              struct host_target **out_target, struct ls_diag *diag) LS_NODISCARD;
void host_target_stop(struct host_target *target); /* TERM, grace, KILL; STOPPED follows */
bool host_target_poll(struct host_target *target, struct host_target_event *out_event);
/* Kills at once what still runs, which takes some milliseconds; NULL is fine. */
void host_target_destroy(struct host_target *target);

/* How an instance ended, as event.exit; "" if it was never started. After STOPPED. */
const char *host_target_instance_exit(const struct host_target *target, size_t instance);

/* Well below a millisecond for ten processes. LS_ESTATE when nothing of it lives (not yet, or not
 * any more); *out_usage then holds what it had used, and zeros for what it holds. */
enum ls_err host_target_usage(struct host_target *target, int64_t now_ns,
                              struct host_usage *out_usage) LS_NODISCARD;
void host_target_reset_peak(struct host_target *target);

#endif
