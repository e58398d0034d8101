/* coordinator/run/fill.h - the parts of a Result that are not measured: who, when, what was
 * planned. */
#ifndef LS_COORDINATOR_RUN_FILL_H
#define LS_COORDINATOR_RUN_FILL_H

#include "common/err.h"
#include "coordinator/fleet/fleet.h"
#include "coordinator/run/knee.h"
#include "coordinator/run/run.h"

/* *field = a copy of text; what it held before is freed. LS_ENOMEM. */
enum ls_err coord_fill_text(char **field, const char *text) LS_NODISCARD;

enum ls_err coord_fill_begin(Ls__Result *result, const struct coord_run_options *options,
                             const char *run_id) LS_NODISCARD;
/* What a resumed run has to be begun with. only NULL: all. LS_ENOMEM. */
enum ls_err coord_fill_changes(Ls__Result *result, const char *const *set, size_t set_count,
                               const char *only) LS_NODISCARD;
/* One agent, with its clock as it is at now_ns. NULL: out of memory. */
Ls__Host *coord_fill_host(const struct coord_agent *agent, int64_t now_ns);
/* Hosts with their clocks as they are now; those of the run's earlier agents stay. Out of memory:
 * fewer of them. */
void coord_fill_hosts(Ls__Result *result, struct coord_fleet *fleet);
/* What is on the disk while the run goes on, for the case that it is killed. */
void coord_fill_unfinished(Ls__Result *result);
/* Status by the exit status, the error and the time. */
void coord_fill_end(Ls__Result *result, int exit_status, const char *error);

/* NULL: out of memory. */
Ls__Trial *coord_fill_trial(const struct coord_trial *trial, int64_t started_wall_ns);
/* What a run of this would do, as the result of a run that has not begun: status "checked", trials
 * "planned". NULL: out of memory. */
Ls__Result *coord_fill_planned(const struct coord_run_options *options);
/* NULL: out of memory. */
Ls__Knee *coord_fill_knee(const struct coord_knee *knee);
/* Takes the trial over, also when it fails. */
enum ls_err coord_fill_add_trial(Ls__Result *result, Ls__Trial *trial,
                                 struct ls_diag *diag) LS_NODISCARD;

#endif
