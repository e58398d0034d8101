/* Dialers and listeners come and go: at any time, in any callback, with any allocation failing; and
 * the addresses they take. */
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/transport_rig.h"
#include "tests/support/failmalloc.h"

static bool ten_each_way(struct rig *rig)
{
    return rig->reports == 10 && rig->commands == 10 && rig->flushes > 0 && rig->takens > 0;
}

static bool went_down(struct rig *rig)
{
    return rig->peer_downs >= 1 && rig->downs >= 1;
}

/* ---- life ---- */

static void destroy_dialer_in(struct rig *rig)
{
    ls_dialer_destroy(rig->dialer);
    rig->dialer = NULL;
}

static void destroy_listener_in(struct rig *rig)
{
    ls_listener_destroy(rig->listener);
    rig->listener = NULL;
    rig->peer = NULL;
}

static enum ls_err enrol_destroys(struct rig *rig, const Ls__Hello *hello, struct ls_diag *diag)
{
    (void)hello;
    (void)diag;
    destroy_listener_in(rig);
    return LS_OK;
}

static enum ls_err report_destroys(struct rig *rig, const Ls__Envelope *report)
{
    (void)report;
    destroy_listener_in(rig);
    return LS_OK;
}

static void command_destroys(struct rig *rig, const Ls__Envelope *command)
{
    (void)command;
    destroy_dialer_in(rig);
}

static bool one_end_is_gone(struct rig *rig)
{
    if (rig->listener != NULL && rig->peer != NULL && rig->commands == 0)
        (void)rig_command(rig->peer, 1); /* refused when there are too many: fine */
    return rig->dialer == NULL || rig->listener == NULL;
}

static void either_end_may_be_destroyed_in_a_callback(void **state)
{
    static const struct rig_hooks cases[] = {
        { .enrol = enrol_destroys },
        { .report = report_destroys },
        { .command = command_destroys },
        { .dialer_up = destroy_dialer_in },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct rig rig;

        rig_init(&rig);
        rig.hooks = cases[i];
        rig_listen(&rig);
        rig_dial(&rig, "client-1", "boot-a");
        for (unsigned n = 1; n <= 3; n++)
            assert_int_equal(rig_report(rig.dialer, n), LS_OK);
        rig_until(&rig, one_end_is_gone);
        rig_run_ms(&rig, 20);
        rig_fini(&rig);
    }
}

static void either_end_may_be_destroyed_at_any_time(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 7, 1);
    for (unsigned round = 0; round < 60; round++) {
        uint64_t turns = ls_rng_below(&rng, 12);
        struct rig rig;

        rig_init(&rig);
        rig_listen(&rig);
        rig_dial(&rig, "client-1", "boot-a");
        for (unsigned n = 1; n <= 20; n++)
            assert_int_equal(rig_report(rig.dialer, n), LS_OK);
        ev_timer_again(rig.loop, &rig.poll);
        for (uint64_t i = 0; i < turns; i++) {
            if (rig.peer != NULL)
                assert_int_equal(rig_command(rig.peer, i + 1), LS_OK);
            ev_run(rig.loop, EVRUN_ONCE);
        }
        ev_timer_stop(rig.loop, &rig.poll);
        if (round % 2 == 0)
            destroy_listener_in(&rig);
        else
            destroy_dialer_in(&rig);
        rig_fini(&rig);
    }
}

static void create_both_once(void *ctx)
{
    struct rig *rig = ctx;
    struct ls_listener_env lenv = { .ctx = rig };
    struct ls_dialer_env denv = { .ctx = rig };
    struct ls_dialer_options options = { .url = rig->url };
    struct ls_listener *listener = NULL;
    struct ls_dialer *dialer = NULL;
    Ls__Hello hello = LS__HELLO__INIT;
    char name[] = "client-1";
    enum ls_err listens;
    enum ls_err dials;

    hello.agent = hello.boot_id = name;
    options.hello = &hello;
    listens = ls_listener_create(
        rig->loop, &(struct ls_listener_options){ .url = rig->url, .run_id = "run-1" }, &lenv,
        &listener, NULL);
    dials = ls_dialer_create(rig->loop, &options, &denv, &dialer, NULL);
    assert_true(listens == LS_OK || listens == LS_ENOMEM);
    assert_true(dials == LS_OK || dials == LS_ENOMEM);
    assert_true((listens != LS_OK || dials != LS_OK) == failmalloc_hit());
    ls_dialer_destroy(dialer);
    ls_listener_destroy(listener);
}

static void creation_survives_each_failed_allocation(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    assert_true(failmalloc_each(create_both_once, &rig) > 8);
    rig_fini(&rig);
}

/* All of a session, with one allocation of it failing: connections are closed for it and come back,
 * and everything arrives all the same. */
static bool three_each_way(struct rig *rig)
{
    while (rig->reports_made < 3 && rig_report(rig->dialer, rig->reports_made + 1) == LS_OK)
        rig->reports_made++;
    while (rig->peer != NULL && rig->commands_made < 3 &&
           rig_command(rig->peer, rig->commands_made + 1) == LS_OK)
        rig->commands_made++;
    return rig->reports == 3 && rig->commands == 3;
}

static void hold_a_session_once(void *ctx)
{
    struct rig *rig = ctx;
    struct ls_listener_env env;

    rig_reset(rig);
    rig_listener_env(rig, &env);
    if (ls_listener_create(rig->loop,
                           &(struct ls_listener_options){ .url = rig->url, .run_id = "run-1" },
                           &env, &rig->listener, NULL) == LS_OK &&
        rig_dialer(rig, rig->url, "client-1", "boot-a", 0, &rig->dialer) == LS_OK) {
        rig_until(rig, three_each_way);
        assert_false(rig->out_of_order);
        assert_int_equal(rig->refusals, 0);
    }
    destroy_dialer_in(rig);
    destroy_listener_in(rig);
}

static void a_session_survives_each_failed_allocation(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    assert_true(failmalloc_each(hold_a_session_once, &rig) > 50);
    rig_fini(&rig);
}

/* ---- addresses ---- */

static void addresses_that_are_not_taken_say_why(void **state)
{
    static const struct {
        const char *url;
        enum ls_err rc;
        const char *says;
    } cases[] = {
        { "", LS_EINVAL, "want ipc://" },
        { "http://127.0.0.1:80", LS_EINVAL, "want ipc://" },
        { "ipc://relative/path", LS_EINVAL, "absolute path" },
        { "ipc:///tmp/0123456789012345678901234567890123456789012345678901234567890123456789"
          "01234567890123456789012345678901234567890123456789",
          LS_EINVAL, "at most 107 bytes" },
        { "ipc:///tmp/control", LS_EINVAL, "mode 0700" },
        { "ipc:///nowhere/at/all", LS_EIO, "No such file" },
        { "tcp://192.0.2.1:80", LS_EREFUSED, "plain tcp is accepted on loopback only" },
        { "tcp://0.0.0.0:80", LS_EREFUSED, "plain tcp is accepted on loopback only" },
        { "tcp://localhost:80", LS_EREFUSED, "plain tcp is accepted on loopback only" },
        { "tcp://[::]:80", LS_EREFUSED, "plain tcp is accepted on loopback only" },
        { "tcp://127.0.0.1", LS_EINVAL, "ADDRESS:PORT" },
        { "tcp://127.0.0.1:", LS_EINVAL, "ADDRESS:PORT" },
        { "tcp://127.0.0.1:x", LS_EINVAL, "ADDRESS:PORT" },
    };
    struct ls_listener_env env = { 0 };
    struct rig rig;

    (void)state;
    rig_init(&rig);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_listener *listener = NULL;
        struct ls_diag diag = { 0 };

        assert_int_equal(ls_listener_create(rig.loop,
                                            &(struct ls_listener_options){ .url = cases[i].url,
                                                                           .run_id = "run-1" },
                                            &env, &listener, &diag),
                         cases[i].rc);
        if (strstr(diag.text, cases[i].says) == NULL)
            fail_msg("%s: \"%s\"", cases[i].url, diag.text);
    }
    rig_fini(&rig);
}

static enum ls_err listen_again(struct rig *rig, struct ls_diag *diag)
{
    struct ls_listener_env env = { 0 };
    struct ls_listener *listener = NULL;
    enum ls_err rc = ls_listener_create(
        rig->loop, &(struct ls_listener_options){ .url = rig->url, .run_id = "run-1" }, &env,
        &listener, diag);

    ls_listener_destroy(listener);
    return rc;
}

static void the_socket_file_is_looked_after(void **state)
{
    const char *path;
    struct ls_diag diag = { 0 };
    struct stat st;
    struct rig rig;

    (void)state;
    rig_init(&rig);
    path = rig.url + strlen("ipc://");
    rig_listen(&rig);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(listen_again(&rig, &diag), LS_ESTATE); /* in use */
    assert_int_equal(stat(path, &st), 0);
    destroy_listener_in(&rig);
    assert_int_equal(stat(path, &st), -1);

    assert_int_equal(close(creat(path, 0600)), 0); /* not a socket: not ours to remove */
    assert_int_equal(listen_again(&rig, &diag), LS_EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(chmod(rig.dir.path, 0750), 0);
    assert_int_equal(listen_again(&rig, &diag), LS_EINVAL);
    assert_int_equal(chmod(rig.dir.path, 0700), 0);
    assert_int_equal(listen_again(&rig, &diag), LS_OK);
    rig_fini(&rig);
}

static void loopback_tcp_carries_sessions_too(void **state)
{
    static const char *const urls[] = { "tcp://127.0.0.1:0", "tcp://[::1]:0" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(urls); i++) {
        struct rig rig;

        rig_init(&rig);
        rig_listen_at(&rig, urls[i], "run-1");
        assert_string_not_equal(ls_listener_url(rig.listener), urls[i]);
        assert_int_equal(
            rig_dialer(&rig, ls_listener_url(rig.listener), "client-1", "boot-a", 0, &rig.dialer),
            LS_OK);
        for (unsigned n = 1; n <= 10; n++)
            assert_int_equal(rig_report(rig.dialer, n), LS_OK);
        rig_until(&rig, rig_both_up);
        for (unsigned n = 1; n <= 10; n++)
            assert_int_equal(rig_command(rig.peer, n), LS_OK);
        rig_until(&rig, ten_each_way);
        ls_dialer_drop(rig.dialer);
        rig_until(&rig, went_down);
        rig_until(&rig, rig_both_up);
        rig_fini(&rig);
    }
}

/* A signal that the process gets must find the loop's thread, or a timer or a wait there is not
 * interrupted. /proc tells each thread's mask. */
static void the_threads_of_the_library_take_no_signals(void **state)
{
    unsigned threads = 0;
    struct rig rig;
    DIR *tasks;

    (void)state;
    rig_init(&rig);
    rig_listen(&rig);
    tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        unsigned long long mask = 0;
        char line[256];
        char path[320];
        FILE *file;

        if (task->d_name[0] == '.' || strtol(task->d_name, NULL, 10) == getpid())
            continue;
        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
        file = fopen(path, "re");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file) != NULL)
            if (strncmp(line, "SigBlk:", 7) == 0)
                mask = strtoull(line + 7, NULL, 16);
        (void)fclose(file);
        threads++;
        assert_true((mask >> (SIGTERM - 1) & 1) != 0 && (mask >> (SIGCHLD - 1) & 1) != 0);
    }
    (void)closedir(tasks);
    assert_true(threads > 3);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(either_end_may_be_destroyed_in_a_callback),
        cmocka_unit_test(either_end_may_be_destroyed_at_any_time),
        cmocka_unit_test(creation_survives_each_failed_allocation),
        cmocka_unit_test(a_session_survives_each_failed_allocation),
        cmocka_unit_test(addresses_that_are_not_taken_say_why),
        cmocka_unit_test(the_socket_file_is_looked_after),
        cmocka_unit_test(loopback_tcp_carries_sessions_too),
        cmocka_unit_test(the_threads_of_the_library_take_no_signals),
    };
    return cmocka_run_group_tests_name("common.transport_life", tests, NULL, NULL);
}
