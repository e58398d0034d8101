/* agent/exit.h - the exit statuses of DESIGN's command line that an agent uses. */
#ifndef LS_AGENT_EXIT_H
#define LS_AGENT_EXIT_H

enum agent_exit {
    AGENT_EXIT_OK = 0,
    AGENT_EXIT_USAGE = 2,
    AGENT_EXIT_INCOMPLETE = 3, /* the coordinator went away in the middle */
    AGENT_EXIT_REFUSED = 5,
    AGENT_EXIT_FAULT = 70,
    AGENT_EXIT_INTERRUPTED = 130
};

#endif
