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
 * it says what was left over, and that the port is free again.
 */
#ifndef LS_AGENT_HOST_TARGET_H
#define LS_AGENT_HOST_TARGET_H

#include "agent/load/workload.h"
#include "common/err.h"

struct host_target;

struct host_file {
    const char *name; /* below dir: no "..", no absolute path, checked again here */
    struct ls_bytes data;
    bool executable;
};

struct host_target_spec {
    const char *dir; /* trial folder, made by the caller, private */
    const struct host_file *files;
    size_t file_count;
    char *const *argv;         /* expanded; argv[0] is looked up in the environment's PATH */
    char *const *envp;         /* the whole environment */
    char *const *version_argv; /* NULL: none */
    const char *cpus;          /* list; "" or NULL: as the agent's own */
    const char *host;          /* literal address */
    uint16_t port;
    const struct load_workload *ready; /* its request 0 must be answered as expected */
    int64_t ready_timeout_ns;
    int stop_signal;
    int64_t grace_ns;
    uint64_t log_max_bytes; /* kept of target.log; the rest is counted and dropped */
};

struct host_program {    /* owned by the target */
    const char *path;    /* real path of the binary; "" if it could not be found */
    const char *sha256;  /* hex */
    const char *version; /* first lines of what version_argv printed */
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
    const char *code; /* static */
    struct ls_diag diag;
    char log_tail[2048];         /* the last lines, as text; FAILED and EXITED */
    struct host_program program; /* UP */
    uint64_t readiness_requests;
    int64_t up_after_ns;
    char cpus[128]; /* UP: the affinity the process really has */
    char exit[64];  /* "exit 3", "signal SEGV" */
    bool stopped_by_us;
    uint32_t left_over; /* STOPPED: descendants killed after the target had gone */
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
    uint64_t rss_peak_bytes; /* sum of high-water marks since host_target_reset_peak() */
    uint32_t processes;
    uint32_t threads;
    uint64_t voluntary_switches;
    uint64_t involuntary_switches;
};

/* Before the first thread or nng call of the agent: nothing at the moment, the supervisor is a
 * fresh exec of the agent's own binary. Call from main() first: if this process was started as a
 * supervisor, it does not return. */
void host_target_main_hook(int argc, char **argv);

enum ls_err host_target_start(const struct host_target_spec *spec, const struct host_env *env,
                              struct host_target **out_target, struct ls_diag *diag) LS_NODISCARD;
void host_target_stop(struct host_target *target); /* TERM, grace, KILL; STOPPED follows */
bool host_target_poll(struct host_target *target, struct host_target_event *out_event);
void host_target_destroy(
    struct host_target *target); /* kills at once what still runs; NULL is fine */

/* LS_ESTATE when nothing of it lives. */
enum ls_err host_target_usage(struct host_target *target, int64_t now_ns,
                              struct host_usage *out_usage) LS_NODISCARD;
void host_target_reset_peak(struct host_target *target);

#endif
