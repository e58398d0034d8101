/* coordinator/run/run.h - one execution of a checked plan, from the first agent to the last file.
 */
#ifndef LS_COORDINATOR_RUN_RUN_H
#define LS_COORDINATOR_RUN_RUN_H

#include <stdbool.h>

#include "common/err.h"
#include "coordinator/plan/trials.h"
#include "coordinator/result/store.h"
#include "proto/plan.pb-c.h"
#include "proto/result.pb-c.h"

/* A run that was ended in the middle. */
struct coord_resumed {
    struct coord_store *store; /* owned */
    Ls__Result *result;        /* owned; as it was left */
};

struct coord_run_options {
    const Ls__Plan *plan; /* checked and completed */
    const struct coord_trials *trials;
    struct ls_bytes plan_text; /* as given, for plan.yaml */
    const char *plan_sha256;
    const char *base_dir;   /* what the targets' files are relative to */
    const char *out_dir;    /* NULL: results/NAME-TIME; "": nothing is written */
    const char *listen;     /* where agents come to; NULL: local ones, started by the run */
    const char *keys;       /* folder of key and certificates; NULL: none */
    int64_t wait_ns;        /* for remote agents that are missing */
    const char *const *set; /* changes of the command line, for who resumes the run */
    size_t set_count;
    const char *const *labels; /* key=value */
    size_t label_count;
    const char *ui;                /* address of the live page, "" any port; NULL: none */
    const char *metrics;           /* address of an endpoint for figures; NULL: none */
    const char *only;              /* NULL: all */
    struct coord_resumed *resumed; /* NULL: a new run; taken over by coord_run */
    const char *merge;             /* folder of an older result, or NULL: older.h */
    bool quick;
    bool quiet;
    bool calibrating;            /* its figures are not held against an earlier calibration */
    uint32_t workers_per_client; /* 0: one for each of its CPUs */
};

/* Runs it. *out_result is always made (but for LS_ENOMEM), also after a failure: its status, error
 * and exit_status say how it went. Caller frees with ls__result__free_unpacked(result, NULL).
 * out_dir_used (>= 512 bytes) is where it was written, "" if nowhere. Returns the exit status. */
int coord_run(const struct coord_run_options *options, Ls__Result **out_result, char *out_dir_used,
              size_t out_dir_bytes);

/* A result that only says what went wrong, for --json when there was no run. NULL: no memory. */
Ls__Result *coord_run_failed(int exit_status, const char *error);

#endif
