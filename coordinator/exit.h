/* coordinator/exit.h - exit statuses, as DESIGN's command line promises them. */
#ifndef LS_COORDINATOR_EXIT_H
#define LS_COORDINATOR_EXIT_H

enum coord_exit {
    COORD_EXIT_OK = 0,
    COORD_EXIT_THRESHOLD = 1,
    COORD_EXIT_USAGE = 2,      /* the command line or the plan */
    COORD_EXIT_INCOMPLETE = 3, /* agent lost, target did not start or did not answer as expected */
    COORD_EXIT_INVALID = 4,    /* a result is not to be believed */
    COORD_EXIT_REFUSED = 5,
    COORD_EXIT_FAULT = 70, /* ours */
    COORD_EXIT_INTERRUPTED = 130
};

#endif
