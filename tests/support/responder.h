/* tests/support/responder.h - "lockstep-agent respond" as a child process of a test.
 *
 * A real server of known behaviour on a port of its own, whose counters are independent of the
 * code under test. It ends with the test program, whatever happens to that.
 */
#ifndef LS_TESTS_SUPPORT_RESPONDER_H
#define LS_TESTS_SUPPORT_RESPONDER_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct responder {
    pid_t pid;
    uint16_t port;     /* on 127.0.0.1 */
    FILE *output;      /* owned: what it prints */
    char counts[2048]; /* the last line of counters, one JSON object */
};

/* Starts it with these options (NULL ends them) beside --listen 127.0.0.1:0, and waits until it
 * listens. A failure fails the test. */
void responder_start(struct responder *responder, const char *const *options);

/* Asks for the counters so far. */
void responder_ask(struct responder *responder);

/* Ends it; its final counters are then in counts. Its exit status must be 0. */
void responder_stop(struct responder *responder);

/* A number of counts: "requests", "p99_ns", or an action's name. 0 if there is none of the name. */
uint64_t responder_count(const struct responder *responder, const char *name);

#endif
