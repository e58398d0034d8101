/* coordinator/libraries.h - what lockstep is made of: for --version --verbose. */
#ifndef LS_COORDINATOR_LIBRARIES_H
#define LS_COORDINATOR_LIBRARIES_H

#include <stdio.h>

/* As ls_libraries_print(), with those that lockstep has and the agent has not. */
void coord_libraries_print(FILE *file);

#endif
