/* coordinator/run/run_internal.h - one run, shared by run.c (the whole), run_loop.c (events, fleet)
 * and run_trial.c (one trial), by nobody else. */
#ifndef LS_COORDINATOR_RUN_RUN_INTERNAL_H
#define LS_COORDINATOR_RUN_RUN_INTERNAL_H

#include <ev.h>

#include "coordinator/fleet/cpus.h"
#include "coordinator/fleet/fleet.h"
#include "coordinator/result/store.h"
#include "coordinator/run/ceiling.h"
#include "coordinator/run/merge.h"
#include "coordinator/run/progress.h"
#include "coordinator/run/run.h"
#include "coordinator/run/ship.h"
#include "coordinator/run/trial.h"

struct run {
    const struct coord_run_options *options;
    struct ev_loop *loop;
    ev_timer timer;
    ev_signal on_int;
    ev_signal on_term;
    struct coord_fleet *fleet;       /* owned */
    struct coord_store *store;       /* owned; NULL: nothing is written */
    struct coord_progress *progress; /* owned */
    struct ls_cpuset allowed;        /* what this process may use */
    struct coord_cpus cpus;
    struct coord_ship *ship;      /* owned; the targets' files */
    Ls__Calibration *calibration; /* owned; NULL: none, or not to be looked at */
    Ls__Result *result;           /* owned until handed out */
    char run_id[40];
    bool interrupted;
    bool leaving;  /* interrupted again: nothing is waited for any more */
    bool unusable; /* plan, command line and this machine do not fit */
    bool incomplete;
    bool refused; /* by a host's policy */
    bool invalid;
    uint32_t restarts;
    /* the trial that runs */
    const struct coord_trial *trial;
    struct coord_machine *machine;
    struct coord_merge *merge;
    struct coord_store_trial *files;
    char trouble_code[40]; /* what the target left behind; "" if nothing */
    char trouble[256];
    struct ls_diag store_error; /* a report could not be stored */
    bool store_failed;
    int64_t started_wall_ns;
    uint32_t steps_before[COORD_MACHINE_AGENTS_MAX]; /* of the agents' clocks */
};

/* run_loop.c */
void run_on_signal(struct ev_loop *loop, ev_signal *w, int events);
void run_on_timer(struct ev_loop *loop, ev_timer *w, int events);
/* A report could not be kept (store_error says why): ends the trial. */
void run_storing_failed(struct run *r, int64_t now_ns);
/* Waits for the next event, at most until due_ns, and does what is due. */
void run_pump(struct run *r, int64_t due_ns);
enum ls_err run_divide_cpus(struct run *r, struct ls_diag *diag) LS_NODISCARD;
enum ls_err run_make_fleet(struct run *r, struct ls_diag *diag) LS_NODISCARD;
/* Starts whoever is not here and waits for all. */
enum ls_err run_gather(struct run *r, struct ls_diag *diag) LS_NODISCARD;
void run_say_bye(struct run *r);

/* run_trial.c */
void run_load_calibration(struct run *r);
/* From the first command to the trial in the result and on the disk. */
enum ls_err run_one_trial(struct run *r, const struct coord_trial *trial,
                          struct ls_diag *diag) LS_NODISCARD;

#endif
