/* agent/respond/respond.h - "lockstep-agent respond": an HTTP/1.1 server of exactly known
 * behaviour.
 *
 * A null target, a server of known latency, and one that misbehaves on request; with counters of
 * its own, so that a load can be checked from the other side. README.md says what it promises.
 */
#ifndef LS_AGENT_RESPOND_RESPOND_H
#define LS_AGENT_RESPOND_RESPOND_H

/* Runs until SIGTERM or SIGINT. argv[0] is "respond". Returns the exit status: 0, 2 for options
 * that make no sense, 3 if it cannot listen, 70 for a fault of our own. */
int agent_respond_main(int argc, char **argv);

#endif
