/* agent/budget.h - can this host hold a client's share of the connections at all? Looked at before
 * anything is opened, so that what cannot work is refused by the name of its limit. */
#ifndef LS_AGENT_BUDGET_H
#define LS_AGENT_BUDGET_H

#include "agent/load/workload.h"
#include "common/err.h"

struct agent_limits {
    uint64_t files;            /* RLIMIT_NOFILE, as high as it may be raised */
    uint64_t ports;            /* of one source address to one destination */
    uint64_t memory_bytes;     /* available; 0: not known */
    bool quick_reuse;          /* closed connections give their port back after a second */
    bool quick_reuse_loopback; /* the same, but only within the host */
};

/* Raises this process's limit of descriptors as far as it may. */
void agent_limits_raise(void);
void agent_limits_read(struct agent_limits *out);

/* A pure function. length_ns: of warm-up and window, in which connections of limited lifetime leave
 * ports behind; how many is known beforehand where a rate is given. LS_ERANGE: it does not fit;
 * diag names the limit and how to raise it. */
enum ls_err agent_budget_check(const struct load_workload *workload, int64_t length_ns,
                               const struct agent_limits *limits,
                               struct ls_diag *diag) LS_NODISCARD;

#endif
