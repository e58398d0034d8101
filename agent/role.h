/* agent/role.h - what an agent does in a trial: generate load (client) or keep the target (server).
 *
 * The session (agent/session.h) owns the phase and calls a role through this table; the role
 * answers with agent_session_on() and reports. Everything happens on the control thread and nothing
 * blocks.
 */
#ifndef LS_AGENT_ROLE_H
#define LS_AGENT_ROLE_H

#include "agent/load/workload.h"
#include "common/err.h"
#include "common/phase.h"
#include "proto/wire.pb-c.h"

struct agent_session;
struct agent_files;
struct agent_policy;

struct agent_role_env {
    struct agent_session *session;
    struct agent_files *files;         /* what PUT_FILE brought */
    const struct agent_policy *policy; /* what this host allows */
    const char *work_dir;              /* private folder of this agent */
    void (*wake)(void *ctx);           /* from any thread: poll() is to be called */
    void *ctx;
};

struct agent_role_class {
    const char *name;
    bool tells_start; /* LS_ON_START comes from the role (its workers), not by the clock */

    enum ls_err (*create)(const struct agent_role_env *env, void **out_role, struct ls_diag *diag);
    void (*destroy)(void *role); /* ends at once whatever runs; NULL is fine */

    /* Starts to prepare; LS_ON_READY or LS_ON_FAIL follows. A failure here is a failure too. */
    enum ls_err (*prepare)(void *role, const Ls__Prepare *prepare, struct ls_diag *diag);
    /* LS_ON_ARMED or LS_ON_LATE follows. */
    enum ls_err (*arm)(void *role, const struct load_window *window, struct ls_diag *diag);
    /* *why: what it has not been ready for until now, if there is anything. */
    void (*disarm)(void *role, struct ls_diag *why);
    /* A phase was entered by the clock or by the role itself. */
    void (*entered)(void *role, enum ls_phase phase, int64_t now_ns);
    /* Ends what runs, sends the last reports, then calls agent_session_finished(). */
    void (*finish)(void *role);
    /* The trial is over and reported: forget it. */
    void (*release)(void *role);

    void (*poll)(void *role, int64_t now_ns);
    /* Work of its own that is due; returns when it wants to be called next, INT64_MAX: never. */
    int64_t (*tick)(void *role, int64_t now_ns);
};

extern const struct agent_role_class agent_role_client;
extern const struct agent_role_class agent_role_server;

#endif
