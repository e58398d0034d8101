/* agent/deadman.c: a control thread that says nothing any more is noticed, and one that does costs
 * nothing. The clock is the test's where it says so, and timers are seen on their way to the kernel
 * (-Wl,--wrap). */
#include "tests/support/test.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/deadman.h"
#include "common/clock.h"

static _Atomic int64_t faked_ns; /* 0: the clock is the real one */
static _Atomic int64_t due_ns;   /* when the timer that was set last goes off, by the faked clock */
static atomic_uint timers_set;

int64_t __real_ls_clock_mono_ns(void);
int64_t __wrap_ls_clock_mono_ns(void);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *in, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *in, struct itimerspec *old);

int64_t __wrap_ls_clock_mono_ns(void)
{
    return faked_ns != 0 ? faked_ns : __real_ls_clock_mono_ns();
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *in, struct itimerspec *old)
{
    due_ns = faked_ns + in->it_value.tv_sec * LS_NS_PER_S + in->it_value.tv_nsec;
    (void)atomic_fetch_add(&timers_set, 1);
    return __real_timerfd_settime(fd, flags, in, old);
}

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

/* The thread that watches would be woken by the timer, and by nothing else. Turns are of 10 s here:
 * no real time passes that counts. */
static void beats_put_the_timer_off_once_a_turn(void **state)
{
    struct agent_deadman *deadman = NULL;
    int fd = -1; /* written to, it would fail */

    (void)state;
    faked_ns = 1000 * LS_NS_PER_S;
    timers_set = 0;
    assert_int_equal(agent_deadman_start(80 * LS_NS_PER_S, on_hung, &fd, &deadman, NULL), LS_OK);
    assert_int_equal(due_ns, 1020 * LS_NS_PER_S);
    assert_int_equal(timers_set, 1);
    faked_ns += 10 * LS_NS_PER_S - 1;
    agent_deadman_beat(deadman);
    assert_int_equal(timers_set, 1);
    for (unsigned i = 0; i < 3600 * 10; i++) { /* an hour of ten a second */
        faked_ns += 100 * LS_NS_PER_MS;
        assert_true(faked_ns < due_ns);
        agent_deadman_beat(deadman);
    }
    assert_in_range(timers_set, 350, 362);
    agent_deadman_stop(deadman);
    faked_ns = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_noticed),
        cmocka_unit_test(it_is_stopped_without_waiting_for_its_time),
        cmocka_unit_test(beats_put_the_timer_off_once_a_turn),
    };

    return cmocka_run_group_tests_name("agent.deadman", tests, NULL, NULL);
}
