/* coordinator/run/older.h - what a run does not measure again, from an older result: run --merge.
 *
 * A row is a target on a workload. Rows that are run again come from this run alone. Another one is
 * taken, trial folders and all, if the plan still defines it in the same way and it was measured on
 * the same machine; its trials keep their date and say which run they are of. What is not taken is
 * named in the result, with the reason. The older result stays as it is.
 */
#ifndef LS_COORDINATOR_RUN_OLDER_H
#define LS_COORDINATOR_RUN_OLDER_H

#include "common/digest.h"
#include "common/err.h"
#include "coordinator/plan/trials.h"
#include "coordinator/result/store.h"
#include "proto/plan.pb-c.h"
#include "proto/result.pb-c.h"

/* What makes a row the same one: target and workload as checked and completed, and the content of
 * all files that either names, relative to base_dir. LS_EIO, LS_ERANGE, LS_ENOMEM. */
enum ls_err coord_older_row_sha256(const Ls__Target *target, const Ls__Workload *workload,
                                   const char *base_dir, char out[LS_SHA256_HEX],
                                   struct ls_diag *diag) LS_NODISCARD;

struct coord_older {
    const Ls__Plan *plan;
    const struct coord_trials *running; /* of this run */
    const char *base_dir;
    const char *dir; /* the older result */
};

/* Takes rows over into result, whose hosts are filled in, and its store; trials are numbered on
 * from its last one. LS_ESTATE: it is of another machine; else as coord_store_load and for writing.
 */
enum ls_err coord_older_take(const struct coord_older *older, struct coord_store *store,
                             Ls__Result *result, struct ls_diag *diag) LS_NODISCARD;

/* Trials of result that come from older ones. */
uint32_t coord_older_count(const Ls__Result *result);

#endif
