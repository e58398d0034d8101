#include "tests/support/test.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/notify.h"
#include "common/clock.h"

/* A service manager: its socket has a name that the kernel has drawn (abstract). */
static int manager_begin(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t len = sizeof(address.sun_family);
    char name[sizeof(address.sun_path) + 1];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    len = sizeof(address);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(name, sizeof(name), "@%.*s",
                   (int)(len - offsetof(struct sockaddr_un, sun_path) - 1), address.sun_path + 1);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    return fd;
}

static const char *heard(int fd)
{
    static char text[1024];
    ssize_t got = recv(fd, text, sizeof(text) - 1, 0);

    text[got > 0 ? got : 0] = '\0';
    return text;
}

static void says_its_words_and_keeps_the_socket_from_others(void **state)
{
    struct agent_notify notify;
    struct ls_diag diag;
    int fd = manager_begin();

    (void)state;
    assert_int_equal(agent_notify_init(&notify, &diag), LS_OK);
    assert_null(getenv("NOTIFY_SOCKET"));
    agent_notify_say(&notify, "READY=1\nSTATUS=dials %s", "tls+tcp://10.0.0.1:7000");
    assert_string_equal(heard(fd), "READY=1\nSTATUS=dials tls+tcp://10.0.0.1:7000");
    agent_notify_beat(&notify); /* nobody has asked for signs of life */
    assert_string_equal(heard(fd), "");
    agent_notify_fini(&notify);
    (void)close(fd);
}

static void beats_for_a_watchdog_of_this_process_only(void **state)
{
    static const struct {
        const char *pid;
        const char *time_us;
        const char *heard;
        int64_t beat_ns;
    } cases[] = {
        { NULL, "30000000", "WATCHDOG=1", 15 * LS_NS_PER_S },
        { "self", "5000000", "WATCHDOG=1", 2500 * LS_NS_PER_MS },
        { "self", "99999999999999999999", "WATCHDOG=1", 60 * LS_NS_PER_S },
        { "self", "-99999999999999999999", "WATCHDOG=1", 100 * LS_NS_PER_MS },
        { "self", "soon", "WATCHDOG=1", 100 * LS_NS_PER_MS },
        { "1", "30000000", "", 0 },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct agent_notify notify;
        struct ls_diag diag;
        char pid[24];
        int fd = manager_begin();

        (void)snprintf(pid, sizeof(pid), "%ld", (long)getpid());
        assert_int_equal(setenv("WATCHDOG_USEC", cases[i].time_us, 1), 0);
        if (cases[i].pid != NULL)
            assert_int_equal(
                setenv("WATCHDOG_PID", strcmp(cases[i].pid, "self") == 0 ? pid : "1", 1), 0);
        assert_int_equal(agent_notify_init(&notify, &diag), LS_OK);
        assert_null(getenv("WATCHDOG_USEC"));
        assert_null(getenv("WATCHDOG_PID"));
        assert_int_equal(notify.beat_ns, cases[i].beat_ns);
        agent_notify_beat(&notify);
        assert_string_equal(heard(fd), cases[i].heard);
        agent_notify_fini(&notify);
        (void)close(fd);
    }
}

static void without_a_manager_nothing_happens(void **state)
{
    struct agent_notify notify;
    struct ls_diag diag;

    (void)state;
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    assert_int_equal(agent_notify_init(&notify, &diag), LS_OK);
    assert_int_equal(notify.fd, -1);
    agent_notify_say(&notify, "READY=1");
    agent_notify_beat(&notify);
    agent_notify_fini(&notify);
}

/* A manager that waits for READY=1 would kill the agent after minutes, and nobody would know why.
 */
static void an_address_that_cannot_be_used_is_named(void **state)
{
    static const char *const addresses[] = { "run/notify", "/", "@", "/nowhere/to/be/found" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(addresses); i++) {
        struct agent_notify notify;
        struct ls_diag diag = { 0 };

        assert_int_equal(setenv("NOTIFY_SOCKET", addresses[i], 1), 0);
        assert_int_not_equal(agent_notify_init(&notify, &diag), LS_OK);
        assert_non_null(strstr(diag.text, addresses[i]));
        agent_notify_fini(&notify);
    }
}

/* The lock of a full queue must not become the agent's. */
static void a_manager_that_does_not_listen_holds_nobody_up(void **state)
{
    struct agent_notify notify;
    struct ls_diag diag;
    int fd = manager_begin();

    (void)state;
    assert_int_equal(agent_notify_init(&notify, &diag), LS_OK);
    for (int i = 0; i < 5000; i++)
        agent_notify_say(&notify, "STATUS=%d", i);
    assert_string_equal(heard(fd), "STATUS=0");
    (void)close(fd);
    agent_notify_say(&notify, "STATUS=alone");
    agent_notify_fini(&notify);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_its_words_and_keeps_the_socket_from_others),
        cmocka_unit_test(beats_for_a_watchdog_of_this_process_only),
        cmocka_unit_test(without_a_manager_nothing_happens),
        cmocka_unit_test(an_address_that_cannot_be_used_is_named),
        cmocka_unit_test(a_manager_that_does_not_listen_holds_nobody_up),
    };
    return cmocka_run_group_tests_name("agent.notify", tests, NULL, NULL);
}
