/* agent/deadman.c: a control thread that says nothing any more is noticed. */
#include "tests/support/test.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/deadman.h"
#include "common/clock.h"

static void on_hung(void *ctx)
{
    const int *fd = ctx;
    uint64_t one = 1;

    assert_int_equal(write(*fd, &one, sizeof(one)), sizeof(one));
}

static void silence_is_noticed(void **state)
{
    struct agent_deadman *deadman = NULL;
    struct pollfd poll_fd = { .fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN };

    (void)state;
    assert_true(poll_fd.fd >= 0);
    assert_int_equal(agent_deadman_start(LS_NS_PER_MS, on_hung, &poll_fd.fd, &deadman, NULL),
                     LS_OK);
    assert_int_equal(poll(&poll_fd, 1, 60000), 1);
    agent_deadman_stop(deadman);
    (void)close(poll_fd.fd);
}

static void it_is_stopped_without_waiting_for_its_time(void **state)
{
    struct agent_deadman *deadman = NULL;
    int fd = -1; /* written to, it would fail */

    (void)state;
    assert_int_equal(agent_deadman_start(3600 * LS_NS_PER_S, on_hung, &fd, &deadman, NULL), LS_OK);
    agent_deadman_beat(deadman);
    agent_deadman_stop(deadman);
    agent_deadman_beat(NULL);
    agent_deadman_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_noticed),
        cmocka_unit_test(it_is_stopped_without_waiting_for_its_time),
    };

    return cmocka_run_group_tests_name("agent.deadman", tests, NULL, NULL);
}
