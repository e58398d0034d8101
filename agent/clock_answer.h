/* agent/clock_answer.h - the agent's socket for clock exchanges in datagrams (common/clock_udp.h):
 * it tells the coordinator where it is, and answers.
 *
 * The socket takes datagrams from the coordinator's address alone. What does not pass the network
 * is no failure: the session has exchanges of its own.
 */
#ifndef LS_AGENT_CLOCK_ANSWER_H
#define LS_AGENT_CLOCK_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock_udp.h"
#include "proto/wire.pb-c.h"

/* Without a question for this long, or never one: it knocks. Coordinators are not late by more than
 * the rest (a sweep of thousands comes once a second), or waiting agents would knock for nothing.
 */
#define AGENT_CLOCK_QUIET_NS (LS_CLOCK_SELDOM_NS + INT64_C(2000000000))
#define AGENT_CLOCK_KNOCK_NS INT64_C(1000000000) /* as often */

struct agent_clock {
    int fd; /* -1: none */
    struct ls_clock_echo echo;
    int64_t asked_ns; /* when the last question came; 0: never */
};

/* A struct with fd -1 is one that is closed. */
void agent_clock_fini(struct agent_clock *clock);

/* Does as the command says, in place of any earlier one, and knocks. session_host is where the
 * session goes, for a command that names no host; "": nowhere on a network. */
enum ls_err agent_clock_open(struct agent_clock *clock, const Ls__ClockUdp *command,
                             const char *session_host, int64_t now_ns,
                             struct ls_diag *diag) LS_NODISCARD;
/* Knocks if it is time to; returns in how many ns to look again. */
int64_t agent_clock_knock(struct agent_clock *clock, int64_t now_ns);
/* Answers all there are; true: there was a question, and there is no knocking for a while. */
bool agent_clock_readable(struct agent_clock *clock);

#endif
