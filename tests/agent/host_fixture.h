/* tests/agent/host_fixture.h - one target under test, its folder and port, and the proof that
 * nothing of it is left: each target carries a mark in its environment, which whatever it starts
 * inherits. */
#ifndef LS_TESTS_AGENT_HOST_FIXTURE_H
#define LS_TESTS_AGENT_HOST_FIXTURE_H

#include "agent/host/target.h"

#define FIXTURE_PATIENCE_NS INT64_C(60000000000) /* for whatever is awaited; far too long */

struct host_fixture {
    char dir[256];
    char port[8];
    char mark[64];
    char self[256];
    char *argv[8];
    char *envp[4];
    struct load_request request;
    struct load_workload ready;
    struct host_target_spec spec;
    struct host_target *target;
    int wake_fd;
};

/* A spec that plays role with up to two arguments: "{port}" stands for the port. */
void host_fixture_init(struct host_fixture *f, const char *role, const char *first,
                       const char *second);
/* Destroys the target if there is one, removes the folder, and fails if anything is left. */
void host_fixture_fini(struct host_fixture *f);

void host_fixture_start(struct host_fixture *f);
/* Waits for the next event and fails unless it is of that kind. */
void host_fixture_expect(struct host_fixture *f, enum host_target_event_kind kind,
                         struct host_target_event *out);
/* start, UP */
void host_fixture_up(struct host_fixture *f, struct host_target_event *out);
/* stop, STOPPED without complaint, nothing is left */
void host_fixture_down(struct host_fixture *f, struct host_target_event *out);
/* Nothing is left of the target; another one may be started, on the same port, in a fresh folder.
 */
void host_fixture_again(struct host_fixture *f);
/* start, and FAILED as it is not ready when its time is over, with these words and after at least
 * so many requests. As it may not have come to what it does instead by then, it is tried from
 * spec.ready_timeout_ns on with more and more time. */
void host_fixture_not_ready(struct host_fixture *f, const char *saying, uint64_t requests,
                            struct host_target_event *out);

/* A group's setup and teardown: when a test has failed, whatever it left is ended. */
int host_fixture_begin(void **state);
int host_fixture_sweep(void **state);

/* How many processes carry the mark. */
unsigned host_fixture_alive(const char *mark);
/* Waits until it is so; false: it is still not so. */
bool host_fixture_await_alive(const char *mark, unsigned count);
/* Waits until so many of the target's processes have announced themselves. */
void host_fixture_await_announced(const struct host_fixture *f, unsigned count);
/* What the target printed, as kept; valid until the next call. */
const char *host_fixture_log(const struct host_fixture *f);
uint16_t host_fixture_free_port(void);

#endif
