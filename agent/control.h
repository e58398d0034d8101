/* agent/control.h - the agent's one control thread: event loop, session, signals, lease.
 *
 * An agent serves run after run. Each run, and each try to take part in one, is a session of its
 * own, with a boot id of its own: a coordinator that comes back never mistakes what is left of an
 * earlier session for its own. A session ends by the coordinator's BYE, by a refusal, or when the
 * lease is over; load and target end with it, and only then does the agent dial again.
 */
#ifndef LS_AGENT_CONTROL_H
#define LS_AGENT_CONTROL_H

#include "agent/role.h"
#include "common/options.h"

struct ls_credentials;

struct agent_control_options {
    const char *url; /* of the coordinator */
    const char *name;
    const struct agent_role_class *role;
    const struct agent_policy *policy; /* what this host allows */
    const char *address; /* where targets are to be reached; NULL: as the coordinator sees it */
    struct ls_credentials *credentials; /* NULL: none, so no TLS */
    const char *work_dir;               /* NULL: a private folder of its own, removed at the end */
    struct ls_option_list labels;
    int64_t lease_ns; /* without the coordinator for longer than this, load and target end */
    int64_t wait_ns;  /* for a coordinator that takes it, and refusals are final; 0: for ever */
    bool once;        /* leave after one session */
};

/* Runs until it is told to leave. Returns the exit status; failures are logged. */
int agent_control_run(const struct agent_control_options *options);

#endif
