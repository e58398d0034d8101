/* agent/control.h - the agent's one control thread: event loop, session, signals, lease. */
#ifndef LS_AGENT_CONTROL_H
#define LS_AGENT_CONTROL_H

#include "agent/role.h"

struct agent_control_options {
    const char *url; /* of the coordinator */
    const char *name;
    const struct agent_role_class *role;
    const struct agent_policy *policy; /* what this host allows */
    const char *work_dir;              /* NULL: a private folder of its own, removed at the end */
    int64_t lease_ns; /* without the coordinator for longer than this, load and target end */
    bool once;        /* leave after the first BYE, or when the lease has run out */
};

/* Runs until it is told to leave. Returns the exit status; failures are logged. */
int agent_control_run(const struct agent_control_options *options);

#endif
