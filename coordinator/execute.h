/* coordinator/execute.h - from a plan's text to a printed result: what run and bench have in
 * common. */
#ifndef LS_COORDINATOR_EXECUTE_H
#define LS_COORDINATOR_EXECUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/options.h"
#include "proto/result.pb-c.h"

struct coord_resumed;

struct coord_execute_options {
    const char *file;              /* how messages name the text */
    const char *text;              /* the plan; NULL: read from file */
    const char *base_dir;          /* NULL: the folder of file */
    const char *out_dir;           /* NULL: a name by plan and time; "": write nothing */
    const char *listen;            /* where agents come to; NULL: local ones */
    const char *keys;              /* folder; NULL: none */
    int64_t wait_ns;               /* for agents that are missing */
    const char *only;              /* glob on target/workload; NULL: all */
    const char *seed;              /* NULL: the plan's, or drawn */
    struct ls_option_list set;     /* path=value */
    struct ls_option_list labels;  /* key=value, checked */
    const char *merge;             /* folder of an older result; NULL: none */
    const char *ui;                /* address of the live page, "" any port; NULL: none */
    const char *metrics;           /* where figures are served while it runs; NULL: nowhere */
    const char *resume;            /* folder of the run to go on with; NULL: a new one */
    struct coord_resumed *resumed; /* by coord_resume: what it has opened; NULL: a new run */
    uint32_t workers_per_client;   /* 0: one for each CPU */
    bool quick;                    /* seconds a row */
    bool json;
    bool quiet;
    bool suite;              /* one plan of many: --only may leave nothing of it */
    bool check_only;         /* say what would be done, do nothing */
    bool calibrating;        /* what is measured is the generator's own limit */
    Ls__Result **out_result; /* where the result goes instead of stdout; NULL: stdout */
};

#define COORD_EXIT_NOTHING (-1) /* of one plan of a suite: --only leaves nothing of it */

/* Prints the result, or what is wrong. Returns the exit status. */
int coord_execute(const struct coord_execute_options *options);

#endif
