/* coordinator/plan/plan_check.h - what a schema cannot say about a plan, and its defaults.
 *
 * Afterwards everybody may rely on it: every field of the plan that has a default is filled in,
 * every message on the way is there, and each value makes sense by itself and with the others.
 */
#ifndef LS_COORDINATOR_PLAN_PLAN_CHECK_H
#define LS_COORDINATOR_PLAN_PLAN_CHECK_H

#include <stdbool.h>

#include "common/msg_yaml.h"
#include "proto/plan.pb-c.h"

#define COORD_PLAN_NAME_MAX 64u /* characters; names of targets and workloads name folders */
#define COORD_PLAN_ITEMS_MAX                                             \
    1000u /* targets, workloads, files of a target, headers of a request \
           */
#define COORD_PLAN_FILES_MAX (64u << 20)               /* bytes of all files of all targets */
#define COORD_PLAN_SEED_MAX  ((UINT64_C(1) << 53) - 1) /* every reader of JSON keeps it */

/* Letters, digits, '.', '_' and '-'. */
bool coord_plan_name_char(char c);

/* Checks all of it, and completes it if there is no issue at all. base_dir is what the targets'
 * files are relative to, which are looked at, not read, and the traces, which become points. marks
 * (NULL is fine) give positions. LS_EINVAL: there are issues. LS_ENOMEM. */
enum ls_err coord_plan_check(Ls__Plan *plan, const struct ls_marks *marks, const char *base_dir,
                             struct ls_issues *issues) LS_NODISCARD;

#endif
