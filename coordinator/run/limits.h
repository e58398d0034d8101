/* coordinator/run/limits.h - what the system lets this process have, looked at before anything is
 * begun that would run out of it halfway. */
#ifndef LS_COORDINATOR_RUN_LIMITS_H
#define LS_COORDINATOR_RUN_LIMITS_H

#include <stdint.h>

#include "common/err.h"
#include "coordinator/plan/trials.h"

/* Raises the limit of file descriptors as far as this process may. LS_ERANGE: that is not enough
 * for so many agents; says what to do. */
enum ls_err coord_limits_files(uint32_t agents, struct ls_diag *diag) LS_NODISCARD;

/* LS_ERANGE: the time series of so long trials would not fit into a result.json; says which
 * interval would do. trials are checked and completed. */
enum ls_err coord_limits_series(const struct coord_trials *trials,
                                struct ls_diag *diag) LS_NODISCARD;

#endif
