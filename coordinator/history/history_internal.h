/* coordinator/history/history_internal.h - shared by history*.c, by nobody else. */
#ifndef LS_COORDINATOR_HISTORY_HISTORY_INTERNAL_H
#define LS_COORDINATOR_HISTORY_HISTORY_INTERNAL_H

#include "coordinator/history/history.h"

struct sqlite3;

struct coord_history {
    struct sqlite3 *db; /* owned */
    char *path;         /* owned */
};

/* What SQLite says of its last call, as a sentence. */
enum ls_err history_fail(const struct coord_history *history, struct ls_diag *diag,
                         const char *what);

#endif
