/* coordinator/run/run_internal.h - one run, shared by run.c (the whole), run_loop.c (events, fleet)
 * and run_trial.c (one trial), by nobody else. */
#ifndef LS_COORDINATOR_RUN_RUN_INTERNAL_H
#define LS_COORDINATOR_RUN_RUN_INTERNAL_H

#include <ev.h>

#include "coordinator/fleet/cpus.h"
#include "coordinator/fleet/fleet.h"
#include "coordinator/result/store.h"
#include "coordinator/run/ceiling.h"
#include "coordinator/run/limited_by.h"
#include "coordinator/run/merge.h"
#include "coordinator/run/process.h"
#include "coordinator/run/progress.h"
#include "coordinator/run/run.h"
#include "coordinator/run/ship.h"
#include "coordinator/run/trial.h"
#include "coordinator/signals.h"
#include "coordinator/web/live.h"
#include "coordinator/web/metrics.h"

struct run {
    const struct coord_run_options *options;
    struct ev_loop *loop;
    ev_timer timer;
    struct coord_signals signals;
    struct coord_fleet *fleet;       /* owned */
    struct coord_store *store;       /* owned; NULL: nothing is written */
    struct coord_signer *signer;     /* owned; NULL: no keys, nothing is signed */
    struct coord_progress *progress; /* owned */
    struct coord_metrics *metrics;   /* owned; NULL: nobody asked for figures */
    struct coord_live *live;         /* owned; NULL: nobody asked for a live page */
    int64_t agents_next_ns;          /* when the live page is told of them again */
    int64_t metrics_next_ns;         /* when they are published again */
    uint32_t servers;                /* places 0 .. servers - 1 of the fleet */
    uint32_t clients;
    uint32_t clients_used;        /* in the trial that runs: the first so many of them */
    struct ls_cpuset allowed;     /* what this process may use */
    struct coord_cpus cpus;       /* by place; of remote agents once they are there */
    struct coord_ship *ship;      /* owned; the targets' files */
    Ls__Calibration *calibration; /* owned; NULL: none, or not to be looked at */
    Ls__Result *result;           /* owned until handed out */
    char run_id[40];
    bool interrupted;
    bool leaving;  /* interrupted again: nothing is waited for any more */
    bool unusable; /* plan, command line and this machine do not fit */
    bool begun;    /* there is a place for the result, or none is wanted */
    bool incomplete;
    bool refused; /* by a host's policy, or for want of the right keys */
    bool invalid;
    size_t trials_before; /* those that a resumed run had */
    uint32_t restarts;
    char waited_for[1024]; /* what was said last of who is missing */
    /* the trial that runs */
    const struct coord_trial *trial;
    const char *part;         /* how its folder calls the workload */
    const int64_t *limits_ns; /* of a search; its intervals count what is slower */
    size_t limit_count;
    bool keep_server;  /* the target stays for the next part */
    Ls__Target target; /* the trial's, with the address that it is loaded at; borrows all else */
    struct coord_machine *machine;
    struct coord_merge *merge;
    struct coord_process *process; /* NULL: it is no process workload */
    struct coord_store_trial *files;
    char trouble_code[40]; /* what the target left behind; "" if nothing */
    char trouble[256];
    char command_failed[600];   /* one could not be handed over; "" */
    struct ls_diag store_error; /* a report could not be stored */
    bool store_failed;
    int64_t started_wall_ns;
    uint32_t steps_before[COORD_MACHINE_AGENTS_MAX]; /* of the agents' clocks */
};

/* run_loop.c */
extern const struct coord_fleet_env run_fleet_env; /* but for ctx, which is the run */
void run_on_signal(void *ctx, int number);
void run_on_timer(struct ev_loop *loop, ev_timer *w, int events);
/* A report could not be kept (store_error says why): ends the trial. */
void run_storing_failed(struct run *r, int64_t now_ns);
/* Waits for the next event, at most until due_ns, and does what is due. */
void run_pump(struct run *r, int64_t due_ns);

/* run.c */
/* Everybody is there, and has the files that the next trial needs. */
enum ls_err run_make_ready(struct run *r, struct ls_diag *diag) LS_NODISCARD;

/* run_fleet.c */
/* A coordinator that was killed leaves local agents, which end by themselves within seconds. */
enum ls_err run_await_earlier_agents(struct run *r, struct ls_diag *diag) LS_NODISCARD;
/* How many agents there are to be, and which CPUs local ones get. */
enum ls_err run_plan_fleet(struct run *r, struct ls_diag *diag) LS_NODISCARD;
/* Listens; nobody has come yet. */
enum ls_err run_create_fleet(struct run *r, struct ls_diag *diag) LS_NODISCARD;
enum ls_err run_first_gather(struct run *r, struct ls_diag *diag) LS_NODISCARD;
/* Starts whoever is not here, or waits for all. */
enum ls_err run_gather(struct run *r, struct ls_diag *diag) LS_NODISCARD;
void run_say_bye(struct run *r);
/* Places 0 to that take part in the trial that runs: all servers, and the clients that it uses. */
uint32_t run_places(const struct run *r);
/* The place of the server that keeps a target; 0 also where there is none. */
uint32_t run_server_of(const struct run *r, const Ls__Target *target);
/* The address that clients load a target at. */
const char *run_target_host(const struct run *r, const Ls__Target *target);

/* run_cell.c */
/* NULL: the trial is to be run. Else what stands in its place: not_applicable, or skipped because
 * its target is known not to be there. LS_ENOMEM. */
enum ls_err run_cell_without_trial(const struct run *r, const struct coord_trial *trial,
                                   Ls__Trial **out_trial) LS_NODISCARD;
bool run_cell_is_skipped(const struct coord_machine_failure *failure);
/* outcome and its reason, by status and what the server says. LS_ENOMEM. */
enum ls_err run_cell_fill(const struct coord_machine_failure *failure,
                          Ls__Trial *trial) LS_NODISCARD;
/* Is there a trial that was run? Of none at all: yes. */
bool run_cell_any_ran(const Ls__Result *result);

/* run_trial.c */
void run_load_calibration(struct run *r);
/* From the first command to a trial on the disk. *out_trial is the caller's; NULL: interrupted, or
 * the disk did not take it. */
enum ls_err run_measure(struct run *r, const struct coord_trial *trial, const char *part,
                        Ls__Trial **out_trial, struct ls_diag *diag) LS_NODISCARD;
/* run_part.c: a trial of several, such as a probe of a search, with a workload of its own and a
 * folder that is called by number. What is wrong with it is a finding, not the run's failure.
 * *out_trial as above. */
enum ls_err run_part(struct run *r, const struct coord_trial *whole, const Ls__Workload *workload,
                     const char *kind, uint32_t number, Ls__Trial **out_trial,
                     struct ls_diag *diag) LS_NODISCARD;
/* Whose limit such a part met; limits NULL: it was held to none. */
void run_part_cause(const struct run *r, const struct coord_trial *whole, const Ls__Trial *measured,
                    const struct coord_load_limit *limits, size_t limit_count,
                    struct coord_cause *out);
/* The workload with another load in place of its own: what differs, on the caller's stack. Nothing
 * but workload and what it points to here is new, and it has to stay where it is. */
struct run_load {
    Ls__Workload workload;
    Ls__Load load;
    union {
        Ls__Closed closed;
        Ls__Poisson poisson;
        Ls__Constant constant;
        Ls__Trace trace;
    } law;
    Ls__Rate rate;
    Ls__Duration warmup;
    Ls__Duration measure;
    Ls__Duration interval;
    Ls__Duration timeout;
};
void run_load_init(struct run_load *load, const Ls__Workload *from, int64_t measure_ns,
                   int64_t interval_ns, int64_t timeout_ns);

/* run_profile.c: what happens beyond a capacity that was found. The run's limits are in force. */
struct run_profile_spec {
    const struct coord_trial *trial;
    double capacity_per_s;
    uint32_t limit; /* the one that decides, of the run's, whose names and shares these are */
    const struct coord_load_limit *limits;
    size_t limit_count;
    int64_t timeout_ns;
};
/* *out_profile is the caller's, also after a failure; *out_goes_on false: interrupted. */
enum ls_err run_profile(struct run *r, const struct run_profile_spec *spec,
                        Ls__CapacityProfile **out_profile, bool *out_goes_on,
                        struct ls_diag *diag) LS_NODISCARD;
/* run_ladder.c: a trial that climbs a ladder of connections. *out_trial as above. */
enum ls_err run_ladder(struct run *r, const struct coord_trial *trial, Ls__Trial **out_trial,
                       struct ls_diag *diag) LS_NODISCARD;
/* run_search.c: a trial that looks for the largest rate, probe by probe. *out_trial as above. */
enum ls_err run_search(struct run *r, const struct coord_trial *trial, Ls__Trial **out_trial,
                       struct ls_diag *diag) LS_NODISCARD;
/* From the first command to the trial in the result and on the disk. */
enum ls_err run_one_trial(struct run *r, const struct coord_trial *trial,
                          struct ls_diag *diag) LS_NODISCARD;

#endif
