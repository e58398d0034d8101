#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/cgroup.h"
#include "agent/host/netns.h"
#include "agent/host/port.h"
#include "common/clock.h"
#include "tests/agent/host_fixture.h"
#include "tests/agent/host_play.h"

/* A target with several processes, in a group, with limits, in a network of its own. */

static bool can_group(const char *controller)
{
    char text[200];

    return strstr(host_cgroup_describe(text, sizeof(text)), controller) != NULL;
}

static void says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* Tried by a child, which goes with what it has made. */
static bool can_unshare(void)
{
    int status = 1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(unshare(CLONE_NEWNET) == 0 ? 0 : 1);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- instances */

struct instances {
    struct host_fixture f;
    char *others[2][8];
    struct host_instance list[2];
};

/* Three that share the port; the last plays role. */
static void init_instances(struct instances *i, const char *role)
{
    host_fixture_init(&i->f, "share", "{port}", NULL);
    for (size_t k = 0; k < 2; k++) {
        (void)memcpy(i->others[k], i->f.argv, sizeof(i->others[k]));
        i->list[k] = (struct host_instance){ .argv = i->others[k], .envp = i->f.envp };
    }
    i->others[1][2] = (char *)(uintptr_t)role;
    i->f.spec.others = i->list;
    i->f.spec.other_count = 2;
}

static void instances_are_up_when_each_of_them_listens(void **state)
{
    struct instances i;
    struct host_target_event event;
    struct host_usage usage;

    (void)state;
    init_instances(&i, "share");
    host_fixture_up(&i.f, &event);
    assert_int_equal(host_fixture_alive(i.f.mark), 3);
    assert_int_equal(host_target_usage(i.f.target, ls_clock_mono_ns(), &usage), LS_OK);
    assert_int_equal(usage.processes, 3);
    host_fixture_down(&i.f, &event);
    assert_true(event.stopped_by_us);
    assert_string_equal(event.exit, "signal TERM");
    for (size_t k = 0; k < 3; k++)
        assert_string_equal(host_target_instance_exit(i.f.target, k), "signal TERM");
    host_fixture_fini(&i.f);
}

static void an_instance_that_does_not_listen_is_missed(void **state)
{
    struct instances i;
    struct host_target_event event;

    (void)state;
    init_instances(&i, "sleep");
    i.f.spec.ready_timeout_ns = LS_NS_PER_S;
    host_fixture_not_ready(&i.f, "2 of the target's 3 instances listened", 1, &event);
    host_fixture_down(&i.f, &event);
    host_fixture_fini(&i.f);
}

static void an_instance_that_ends_is_named(void **state)
{
    struct instances i;
    struct host_target_event event;

    (void)state;
    init_instances(&i, "exit");
    i.others[1][3] = (char *)(uintptr_t) "3";
    host_fixture_start(&i.f);
    host_fixture_expect(&i.f, HOST_TARGET_FAILED, &event);
    assert_string_equal(event.code, "exited");
    says(event.diag.text, "instance 2 of the target's 3");
    says(event.diag.text, "exit 3");
    host_fixture_down(&i.f, &event);
    assert_false(event.stopped_by_us);
    assert_string_equal(event.exit, "exit 3");
    assert_string_equal(host_target_instance_exit(i.f.target, 1), "signal TERM");
    assert_string_equal(host_target_instance_exit(i.f.target, 2), "exit 3");
    host_fixture_fini(&i.f);
}

static void let_work(const struct host_fixture *f, int worker)
{
    char path[300];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/w%d", f->dir, worker);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void a_cluster_is_ready_when_all_its_workers_have_taken_a_connection(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    for (int workers = 2; workers <= 3; workers++) {
        host_fixture_init(&f, "cluster", "{port}", "3");
        f.spec.ready_processes = 3;
        f.spec.ready_timeout_ns = workers == 3 ? FIXTURE_PATIENCE_NS : 4 * LS_NS_PER_S;
        host_fixture_start(&f);
        assert_true(host_fixture_await_alive(f.mark, 4));
        for (int i = 0; i < workers; i++)
            let_work(&f, i);
        host_fixture_expect(&f, workers == 3 ? HOST_TARGET_UP : HOST_TARGET_FAILED, &event);
        if (workers == 2)
            says(event.diag.text, "2 processes of the target took connections");
        host_fixture_down(&f, &event);
        host_fixture_fini(&f);
    }
}

/* ---- groups and limits */

static void a_group_counts_what_the_clocks_of_processes_count(void **state)
{
    struct host_fixture f;
    struct host_target_event event;
    struct host_usage usage;

    (void)state;
    if (!can_group("v"))
        skip();
    host_fixture_init(&f, "busy", "{port}", "400");
    host_fixture_up(&f, &event);
    assert_string_not_equal(event.containment->cpu_from, "");
    host_fixture_await_announced(&f, 1);
    assert_int_equal(host_target_usage(f.target, ls_clock_mono_ns(), &usage), LS_OK);
    assert_true(usage.cpu_ns >= 400 * LS_NS_PER_MS);
    if (usage.cgroup_cpu_ns > usage.cpu_ns + usage.cpu_ns / 33 + 20 * LS_NS_PER_MS ||
        usage.cpu_ns > usage.cgroup_cpu_ns + usage.cgroup_cpu_ns / 33 + 20 * LS_NS_PER_MS)
        fail_msg("%lld ns by the clocks, %lld ns by the group", (long long)usage.cpu_ns,
                 (long long)usage.cgroup_cpu_ns);
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

static void who_is_killed_for_memory_is_called_that(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    if (!can_group("memory"))
        skip();
    host_fixture_init(&f, "eat", "{port}", "256");
    f.spec.limits.memory_bytes = 32u << 20;
    host_fixture_start(&f);
    host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
    assert_string_equal(event.code, "out_of_memory");
    says(event.diag.text, "its limit of 32MiB");
    assert_string_equal(event.exit, "signal KILL, out of memory");
    host_fixture_down(&f, &event);
    assert_int_equal(event.oom_kills, 1);
    host_fixture_fini(&f);
}

static void limits_hold_and_are_told(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    if (!can_group("memory") || !can_group("pids"))
        skip();
    host_fixture_init(&f, "state", "{port}", NULL);
    f.spec.limits = (struct host_target_limits){ 64u << 20, 20, 100 };
    host_fixture_up(&f, &event);
    assert_int_equal(event.containment->limit_count, 3);
    says(event.containment->limits[0], "memory 64MiB (memory.");
    says(event.containment->limits[1], "processes 20 (pids.max)");
    assert_string_equal(event.containment->limits[2], "descriptors 100");
    host_fixture_down(&f, &event);
    says(host_fixture_log(&f), "limit nofile 100 100\n");
    host_fixture_fini(&f);
}

/* A sanitizer's threads count, too. */
static void no_more_processes_than_the_limit(void **state)
{
    struct host_fixture f;
    struct host_target_event event;
    const char *said;

    (void)state;
    if (!can_group("pids"))
        skip();
    host_fixture_init(&f, "try-forks", "{port}", NULL);
    f.spec.limits.processes = 12;
    host_fixture_start(&f);
    host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
    said = strstr(event.log_tail, "forks ");
    assert_non_null(said);
    assert_in_range(strtol(said + strlen("forks "), NULL, 10), 1, 11);
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

static void descriptors_beyond_what_is_permitted_are_refused(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    host_fixture_init(&f, "serve", "{port}", NULL);
    f.spec.limits.descriptors = 1073741816; /* beyond fs.nr_open */
    host_fixture_start(&f);
    host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

/* ---- where there are no groups */

static void without_groups_a_pid_namespace_holds_them(void **state)
{
    static const char *const roles[] = { "serve", "stubborn-daemon", "chain", "breed", "workers" };

    (void)state;
    if (geteuid() != 0)
        skip();
    host_cgroup_forbid(true);
    for (size_t i = 0; i < LS_ARRAY_LEN(roles); i++) {
        struct host_fixture f;
        struct host_target_event event;
        struct host_usage usage;

        host_fixture_init(&f, roles[i], "{port}", NULL);
        f.spec.grace_ns = LS_NS_PER_S; /* who obeys has done so by then */
        host_fixture_up(&f, &event);
        if (strcmp(event.containment->by, "pid namespace") != 0) {
            host_fixture_down(&f, &event);
            host_fixture_fini(&f);
            host_cgroup_forbid(false);
            skip(); /* it takes CAP_SYS_ADMIN */
        }
        assert_int_equal(host_target_usage(f.target, ls_clock_mono_ns(), &usage), LS_OK);
        if (i == 0)
            assert_int_equal(usage.processes, 1);
        if (strcmp(roles[i], "stubborn-daemon") == 0)
            host_fixture_await_announced(&f, 1);
        host_fixture_down(&f, &event);
        assert_true(event.stopped_by_us);
        assert_string_equal(event.exit, "signal TERM");
        if (strcmp(roles[i], "stubborn-daemon") == 0)
            assert_int_equal(event.left_over, 1);
        host_fixture_fini(&f);
    }
    host_cgroup_forbid(false);
}

static void limits_without_groups_are_refused_by_name(void **state)
{
    static const struct {
        struct host_target_limits limits;
        const char *saying;
    } cases[] = { { { .memory_bytes = 64u << 20 }, "limits.memory" },
                  { { .processes = 10 }, "limits.processes" } };

    (void)state;
    host_cgroup_forbid(true);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct host_fixture f;
        struct host_target_event event;

        host_fixture_init(&f, "serve", "{port}", NULL);
        f.spec.limits = cases[i].limits;
        host_fixture_start(&f);
        host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
        assert_string_equal(event.code, "limits");
        says(event.diag.text, cases[i].saying);
        host_fixture_down(&f, &event);
        host_fixture_fini(&f);
    }
    host_cgroup_forbid(false);
}

/* ---- network */

static void a_private_network_is_the_targets_alone_and_goes_with_it(void **state)
{
    struct host_fixture f;
    struct host_target_event event;
    uint64_t own = host_netns_inode(0), inode;
    struct ls_diag diag;
    pid_t pid;
    int back = -1;

    (void)state;
    if (!can_unshare())
        skip();
    host_fixture_init(&f, "serve", "{port}", NULL);
    f.spec.private_network = true;
    host_fixture_up(&f, &event);
    pid = event.containment->network_pid;
    inode = event.containment->network_inode;
    assert_true(inode != 0 && inode != own);
    assert_int_equal(host_netns_inode(pid), inode);
    assert_int_equal(host_netns_inode(0), own);
    /* Its port is taken in there, and not out here. */
    assert_int_equal(host_port_check_free("127.0.0.1", f.spec.port, &diag), LS_OK);
    assert_int_equal(host_netns_enter(pid, inode + 1, &back, &diag), LS_ESTATE);
    assert_int_equal(host_netns_enter(getpid(), own, &back, &diag), LS_ESTATE); /* no target's */
    assert_int_equal(host_netns_enter(pid, inode, &back, &diag), LS_OK);
    assert_int_equal(host_netns_inode(0), inode);
    assert_int_equal(host_port_check_free("127.0.0.1", f.spec.port, &diag), LS_ESTATE);
    assert_int_equal(host_netns_leave(back, &diag), LS_OK);
    assert_int_equal(host_netns_inode(0), own);
    host_fixture_down(&f, &event);
    assert_int_equal(host_netns_inode(pid), 0);
    host_fixture_fini(&f);
}

/* ---- what really runs */

static void write_script(const struct host_fixture *f, const char *first_line, char path[300])
{
    FILE *file;

    (void)snprintf(path, 300, "%s/server", f->dir);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fprintf(file, "%s\nexec '%s' \"$@\"\n", first_line, f->self);
    assert_int_equal(fchmod(fileno(file), 0755), 0);
    assert_int_equal(fclose(file), 0);
}

static void a_script_that_only_starts_a_program_is_seen_through_and_said(void **state)
{
    struct host_fixture f;
    struct host_target_event event;
    char path[300];

    (void)state;
    host_fixture_init(&f, "serve", "{port}", NULL);
    write_script(&f, "#!/bin/sh", path);
    f.argv[0] = path;
    host_fixture_up(&f, &event);
    assert_string_equal(event.program.path, path);
    assert_string_equal(event.program.interpreter, "/bin/sh");
    assert_string_equal(event.program.binary, f.self);
    assert_string_not_equal(event.program.binary_sha256, event.program.sha256);
    says(event.program.shim, path);
    says(event.program.shim, "is a script, which starts");
    says(event.program.shim, f.self);
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
    host_fixture_init(&f, "serve", "{port}", NULL);
    host_fixture_up(&f, &event);
    assert_string_equal(event.program.binary, event.program.path);
    assert_string_equal(event.program.binary_sha256, event.program.sha256);
    assert_string_equal(event.program.shim, "");
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

static void who_listens_elsewhere_is_told_where(void **state)
{
    struct host_fixture f;
    struct host_target_event event;
    char port[8], want[64];

    (void)state;
    (void)snprintf(port, sizeof(port), "%u", host_fixture_free_port());
    (void)snprintf(want, sizeof(want), "it listens on port %s instead", port);
    host_fixture_init(&f, "serve", port, NULL);
    f.spec.ready_timeout_ns = LS_NS_PER_S;
    host_fixture_not_ready(&f, want, 0, &event);
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instances_are_up_when_each_of_them_listens),
        cmocka_unit_test(an_instance_that_does_not_listen_is_missed),
        cmocka_unit_test(an_instance_that_ends_is_named),
        cmocka_unit_test(a_cluster_is_ready_when_all_its_workers_have_taken_a_connection),
        cmocka_unit_test(a_group_counts_what_the_clocks_of_processes_count),
        cmocka_unit_test(who_is_killed_for_memory_is_called_that),
        cmocka_unit_test(limits_hold_and_are_told),
        cmocka_unit_test(no_more_processes_than_the_limit),
        cmocka_unit_test(descriptors_beyond_what_is_permitted_are_refused),
        cmocka_unit_test(without_groups_a_pid_namespace_holds_them),
        cmocka_unit_test(limits_without_groups_are_refused_by_name),
        cmocka_unit_test(a_private_network_is_the_targets_alone_and_goes_with_it),
        cmocka_unit_test(a_script_that_only_starts_a_program_is_seen_through_and_said),
        cmocka_unit_test(who_listens_elsewhere_is_told_where),
    };

    host_target_main_hook(argc, argv);
    host_play_hook(argc, argv);
    return cmocka_run_group_tests_name("agent.host_contained", tests, host_fixture_begin,
                                       host_fixture_sweep);
}
