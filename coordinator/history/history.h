/* coordinator/history/history.h - what runs have found over time: a SQLite file beside the results.
 *
 * It holds nothing that the result folders do not, and is made anew from them at any time. Many
 * processes may write to it: each change is one transaction, whoever comes second waits (up to
 * COORD_HISTORY_WAIT_MS). A file that is no history of ours, or of a later version, is refused and
 * left as it is.
 */
#ifndef LS_COORDINATOR_HISTORY_HISTORY_H
#define LS_COORDINATOR_HISTORY_HISTORY_H

#include <stdint.h>

#include "common/err.h"
#include "proto/result.pb-c.h"

#define COORD_HISTORY_FILE    "history.sqlite"
#define COORD_HISTORY_WAIT_MS 30000
#define COORD_HISTORY_LAST    200u /* runs of a series that are shown, unless asked otherwise */

struct coord_history;

/* Opens path, and makes it unless it is there. LS_EIO, LS_EINVAL (not a history), LS_ENOMEM. */
enum ls_err coord_history_open(const char *path, struct coord_history **out,
                               struct ls_diag *diag) LS_NODISCARD;
void coord_history_close(struct coord_history *history); /* NULL is fine */

/* Adds a result, whose folder is dir; one that is there already (by its run id) is replaced. */
enum ls_err coord_history_add(struct coord_history *history, const char *dir,
                              const Ls__Result *result, struct ls_diag *diag) LS_NODISCARD;
/* Forgets all, and adds every result that is in dir or up to two folders below it: all or nothing.
 * tell is called with each folder that could not be read, and why; it is left out. */
enum ls_err coord_history_rebuild(struct coord_history *history, const char *dir,
                                  void (*tell)(void *ctx, const char *folder, const char *why),
                                  void *ctx, uint32_t *out_added,
                                  struct ls_diag *diag) LS_NODISCARD;

/* What is asked for; NULL: any. Patterns as the shell's: '*' and '?'. */
struct coord_history_filter {
    const char *plan;
    const char *workload;
    const char *target;
    const char *host;   /* one of the run's host names */
    const char *commit; /* how the label begins */
    const char *metric; /* NULL: those that loads are judged by */
    uint32_t last;      /* runs of each series, at most COORD_CHANGE_MOST */
};

/* Fills out->series, by plan, workload, target, hosts and metric, points by time. */
enum ls_err coord_history_read(struct coord_history *history,
                               const struct coord_history_filter *filter, Ls__History *out,
                               struct ls_diag *diag) LS_NODISCARD;
/* Fills the changes of each series. LS_ENOMEM. */
enum ls_err coord_history_find_changes(Ls__History *history, struct ls_diag *diag) LS_NODISCARD;

#endif
