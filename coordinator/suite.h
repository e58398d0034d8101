/* coordinator/suite.h - a folder of plans, run one after the other: all that a page has. */
#ifndef LS_COORDINATOR_SUITE_H
#define LS_COORDINATOR_SUITE_H

#include <stdbool.h>

#include "coordinator/execute.h"

/* Is it a folder, and so a suite? */
bool coord_suite_is(const char *path);

/* Runs (or checks) each NAME.yaml in the folder options->file, in the order of their names; results
 * go to folders of those names below options->out_dir, or below results/FOLDER-TIME. With only,
 * plans of which nothing matches are left out. Prints each report, or with json all results as one
 * document. A run that is interrupted is the last one. Returns the first exit status that is not
 * good. */
int coord_suite_execute(const struct coord_execute_options *options);

#endif
