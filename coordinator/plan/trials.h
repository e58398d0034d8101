/* coordinator/plan/trials.h - a checked plan as the ordered list of trials, and what they need. */
#ifndef LS_COORDINATOR_PLAN_TRIALS_H
#define LS_COORDINATOR_PLAN_TRIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "proto/plan.pb-c.h"

#define COORD_TRIALS_MAX       10000u /* of one run, before --only */
#define COORD_TRIAL_FOLDER_MAX 160u   /* bytes, with the NUL */

/* What a trial takes beside warm-up and window, for estimates: start and readiness of the target,
 * preflight, clocks, the lead to the agreed start, drain and stop. */
#define COORD_TRIAL_OVERHEAD_NS INT64_C(2500000000)

/* One target x one workload x one repetition. Target and workload are the plan's, which must
 * outlive the list. */
struct coord_trial {
    uint32_t index; /* from 1, in the order of execution */
    const Ls__Target *target;
    const Ls__Workload *workload;
    uint32_t repetition; /* from 1; 0: of a round that is discarded */
    uint64_t seed;       /* of its arrivals and of what is drawn for its requests */
};

struct coord_trials {
    struct coord_trial *items; /* owned */
    size_t count;
    uint64_t seed;
};

/* The trials of a plan that passed coord_plan_check(). In a round, each workload meets its targets
 * in turn, so that what is compared stands close together in time:
 *   interleaved  all rounds in the plan's order
 *   sequential   all repetitions of a pair, then the next pair
 *   shuffled     each round in an order of its own, drawn from seed
 * The rounds that are discarded come before the repetitions, as rounds like them.
 * only (NULL: all) is a glob on "target/workload", or on the target alone if it has no slash. What
 * it leaves keeps its order, and is numbered from 1. LS_ESTATE: it leaves nothing; diag lists what
 * there is. LS_ERANGE: more than COORD_TRIALS_MAX. LS_ENOMEM. On LS_OK the caller ends with
 * coord_trials_fini(). */
enum ls_err coord_trials_expand(const Ls__Plan *plan, uint64_t seed, const char *only,
                                struct coord_trials *out_trials, struct ls_diag *diag) LS_NODISCARD;
void coord_trials_fini(struct coord_trials *trials);

/* "001-node-hello-r1", the trial's folder below trials/. Returns out, of COORD_TRIAL_FOLDER_MAX. */
const char *coord_trial_folder(const struct coord_trial *trial, char *out, size_t out_bytes);

/* Does the target belong to the workload? One without a list of targets takes all. */
bool coord_workload_has_target(const Ls__Workload *workload, const char *target);

/* What a run needs, before it runs. Maxima are over its trials. */
struct coord_budget {
    int64_t expected_ns;             /* COORD_TRIAL_OVERHEAD_NS, warm-up and window of each trial */
    int64_t longest_ns;              /* if every wait lasts until its limit */
    uint32_t connections;            /* of all clients together */
    uint32_t connections_per_client; /* the largest share */
    uint32_t connections_per_source; /* of all clients, as if on one host: from one address */
    uint64_t memory_per_client;      /* bytes for its connections, kernel and agent, about */
    uint64_t in_flight;              /* requests that may be unanswered at once */
    uint64_t queued;                 /* requests that may be due but unsent, open loop */
    uint64_t files_per_client;       /* file descriptors of a client agent */
    uint64_t files_target;           /* file descriptors that a target needs for its connections */
};

void coord_trials_budget(const Ls__Plan *plan, const struct coord_trials *trials,
                         struct coord_budget *out_budget);

/* Of the host where `check` runs; 0: unknown. */
struct coord_host_limits {
    uint64_t files;        /* descriptors of a process as it starts */
    uint64_t files_raised; /* and as far as it may raise that, which agents do */
    uint64_t ports;        /* local ports of one address to one destination */
};

/* What `lockstep check` prints: the trials in order, the time they take, what they need. The caller
 * frees; NULL: out of memory. */
char *coord_check_render(const Ls__Plan *plan, const struct coord_trials *trials,
                         const struct coord_host_limits *limits) LS_NODISCARD;

#endif
