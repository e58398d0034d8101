/* coordinator/resume.h - lockstep run --resume DIR: the same run, from its first missing trial on.
 */
#ifndef LS_COORDINATOR_RESUME_H
#define LS_COORDINATOR_RESUME_H

#include "coordinator/execute.h"

/* options->resume is the folder; what the run was begun with comes from its result. options->file
 * may be NULL: the plan in the folder. Prints and returns as coord_execute. */
int coord_resume(const struct coord_execute_options *options);

#endif
