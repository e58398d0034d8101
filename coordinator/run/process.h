/* coordinator/run/process.h - the runs of one process trial, as its server reports them: added up,
 * kept one by one in runs.csv, and judged.
 *
 * What an agent says is not trusted further than it makes sense: a run that does not is refused,
 * and the trial with it. One thread.
 */
#ifndef LS_COORDINATOR_RUN_PROCESS_H
#define LS_COORDINATOR_RUN_PROCESS_H

#include <stdbool.h>

#include "common/err.h"
#include "proto/wire.pb-c.h"

struct coord_process;
struct coord_store_trial;

bool coord_process_is(const Ls__Workload *workload);

/* workload is borrowed. LS_ENOMEM. */
enum ls_err coord_process_create(const Ls__Workload *workload, struct coord_process **out_process,
                                 struct ls_diag *diag) LS_NODISCARD;
void coord_process_destroy(struct coord_process *process); /* NULL is fine */

/* LS_EPROTO: it makes no sense, and the trial will say so; LS_ENOMEM. */
enum ls_err coord_process_report(struct coord_process *process, const Ls__ProcessReport *report,
                                 struct ls_diag *diag) LS_NODISCARD;

/* Fills trial->process and writes runs.csv (files NULL: it does not). LS_ENOMEM, LS_EIO. */
enum ls_err coord_process_finish(struct coord_process *process, Ls__Trial *trial,
                                 struct coord_store_trial *files,
                                 struct ls_diag *diag) LS_NODISCARD;

/* What is wrong with the figures: reasons, and trial->verdict. earlier: the result so far, whose
 * trials of the same workload have to print the same checksums. */
void coord_process_judge(const struct coord_process *process, Ls__Trial *trial,
                         const Ls__Result *earlier);

#endif
