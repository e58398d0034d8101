/* agent/session.h - the phase machine of an agent: commands, time and role events in, reports out.
 *
 * It does no network I/O and reads no clock, so a test drives a whole trial with invented times.
 * The legal moves are common/phase.h; only one function writes the phase, reports the move and
 * tells the role. A report that finds the ring full is held back by the role (agent_session_room),
 * never lost.
 */
#ifndef LS_AGENT_SESSION_H
#define LS_AGENT_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/policy/policy.h"
#include "agent/role.h"

struct agent_session_env {
    const struct agent_policy *policy; /* what this host allows; outlives the session */
    /* Numbers and keeps a report; body is copied. LS_EAGAIN: full. */
    enum ls_err (*report)(void *ctx, Ls__Envelope *report);
    uint32_t (*room)(void *ctx);    /* reports that still fit */
    uint64_t (*unacked)(void *ctx); /* reports not yet stored by the coordinator */
    void *ctx;
};

struct agent_failure {
    const char *code; /* short and stable */
    const char *text;
    const char *log_tail; /* NULL: none */
};

/* The role is created with it. env and work_dir must outlive the session; wake as in role.h. */
enum ls_err agent_session_create(const struct agent_role_class *role, const char *work_dir,
                                 const struct agent_session_env *env, void (*wake)(void *ctx),
                                 void *wake_ctx, struct agent_session **out_session,
                                 struct ls_diag *diag) LS_NODISCARD;
void agent_session_destroy(struct agent_session *session); /* NULL is fine */

void agent_session_command(struct agent_session *session, const Ls__Envelope *command,
                           int64_t now_ns);
void agent_session_poll(struct agent_session *session, int64_t now_ns);    /* woken */
void agent_session_flushed(struct agent_session *session, int64_t now_ns); /* all reports stored */
/* The coordinator is gone for longer than the lease: end the load and the target. */
void agent_session_abandon(struct agent_session *session, int64_t now_ns);

/* Does what is due and returns when to be called next; INT64_MAX: nothing is planned. */
int64_t agent_session_tick(struct agent_session *session, int64_t now_ns);

enum ls_phase agent_session_phase(const struct agent_session *session);
bool agent_session_said_bye(const struct agent_session *session);

/* ---- for roles */

/* A move by the role; failure only with LS_ON_FAIL and LS_ON_LATE (NULL otherwise). at_ns is when
 * it happened. A move that is not legal is our own bug or comes too late, and is logged. */
void agent_session_on(struct agent_session *session, enum ls_event event, int64_t at_ns,
                      const struct agent_failure *failure);
/* What READY is to carry; copied. */
void agent_session_ready_facts(struct agent_session *session, const char *cpus, const char *io,
                               const char *io_reason, const Ls__Requests *preflight);
/* Sends a report; the trial's number is the caller's. LS_EAGAIN: full. */
enum ls_err agent_session_report(struct agent_session *session, Ls__Envelope *report) LS_NODISCARD;
uint32_t agent_session_room(const struct agent_session *session);
uint32_t agent_session_trial(const struct agent_session *session);
/* After finish(): the role has sent everything. */
void agent_session_finished(struct agent_session *session, int64_t now_ns);

#endif
