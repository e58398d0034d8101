#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/cgroup.h"
#include "agent/host/proc.h"
#include "common/clock.h"
#include "tests/agent/host_fixture.h"

/* ---- where groups are */

#define V2 "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define HYBRID                                                                                      \
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"                             \
    "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw shared:1 master:2 - cgroup cgroup rw,cpu,cpuacct\n" \
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
#define CONTAINER "50 40 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"

static void the_folder_of_a_processes_group_is_found_in_what_is_mounted(void **state)
{
    static const struct {
        const char *mountinfo, *self, *controller, *expected; /* NULL: there is none */
    } cases[] = {
        { V2, "0::/system.slice/a.service\n", "", "/sys/fs/cgroup/system.slice/a.service" },
        { V2, "0::/\n", "", "/sys/fs/cgroup" },
        { V2, "0::/\n", "memory", NULL },
        { V2, "0::/../b\n", "", NULL },
        { HYBRID, "4:memory:/x/y\n1:cpu,cpuacct:/\n0::/z\n", "memory",
          "/sys/fs/cgroup/memory/x/y" },
        { HYBRID, "4:memory:/x/y\n1:cpu,cpuacct:/\n0::/z\n", "cpuacct",
          "/sys/fs/cgroup/cpu,cpuacct" },
        { HYBRID, "4:memory:/x/y\n1:cpu,cpuacct:/\n0::/z\n", "", "/sys/fs/cgroup/unified/z" },
        { HYBRID, "4:memory:/x/y\n0::/z\n", "pids", NULL },
        { HYBRID, "4:mem:/x/y\n", "memory", NULL },
        { CONTAINER, "0::/docker/abc/q\n", "", "/sys/fs/cgroup/q" },
        { CONTAINER, "0::/docker/abc\n", "", "/sys/fs/cgroup" },
        { CONTAINER, "0::/\n", "", "/sys/fs/cgroup" },
        { CONTAINER, "0::/elsewhere\n", "", NULL },
        { CONTAINER, "0::/docker/abcd\n", "", NULL },
        { "", "0::/\n", "", NULL },
        { "nonsense - cgroup2\n\n", "0::/\n", "", NULL },
        { V2, "", "", NULL },
        { V2, "0:\n:\n::", "", NULL },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char out[HOST_CGROUP_PATH] = "";
        bool found = host_cgroup_place(cases[i].mountinfo, cases[i].self, cases[i].controller, out);

        if (found != (cases[i].expected != NULL) || (found && strcmp(out, cases[i].expected) != 0))
            fail_msg("case %zu: \"%s\"", i, out);
    }
}

/* ---- processes in one */

/* Starts a process that has joined the folder, with a child of its own that has left its session.
 */
static pid_t start_in(const char *folder)
{
    int fds[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        if (host_cgroup_join(folder) != 0)
            _exit(1);
        if (fork() == 0) {
            (void)setsid();
            (void)!write(fds[1], "x", 1);
        }
        for (;;)
            (void)pause();
    }
    (void)close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    (void)close(fds[0]);
    return pid;
}

static void is_killed(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void what_is_in_a_group_goes_with_it(void **state)
{
    const struct host_cgroup_limits none = { 0 };
    const char *folders[HOST_CGROUP_FOLDERS];
    struct host_cgroup *group = NULL;
    struct host_cgroup_use use;
    unsigned count;
    pid_t pid;

    (void)state;
    assert_int_equal(host_cgroup_create(&none, &group, NULL), LS_OK);
    if (group == NULL || host_cgroup_kills_by(group)[0] == '\0') {
        host_cgroup_destroy(group);
        skip();
    }
    count = host_cgroup_folders(group, folders);
    pid = start_in(folders[0]);
    host_cgroup_read(group, &use);
    assert_int_equal(use.oom_kills, 0);
    assert_int_equal(host_cgroup_remove(folders[0]), false); /* busy: it gives up in the end */
    host_cgroup_destroy(group);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(access(folders[i], F_OK), -1);
    is_killed(pid);
}

static void the_groups_that_a_target_has_made_below_go_with_it(void **state)
{
    const struct host_cgroup_limits none = { 0 };
    const char *folders[HOST_CGROUP_FOLDERS];
    char path[HOST_CGROUP_PATH + 64];
    struct host_cgroup *group = NULL;
    unsigned count;

    (void)state;
    assert_int_equal(host_cgroup_create(&none, &group, NULL), LS_OK);
    if (group == NULL)
        skip();
    count = host_cgroup_folders(group, folders);
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "%s/below", folders[i]);
        assert_int_equal(mkdir(path, 0755), 0);
        (void)snprintf(path, sizeof(path), "%s/below/more", folders[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    (void)snprintf(path, sizeof(path), "%s", folders[0]);
    host_cgroup_destroy(group);
    assert_int_equal(access(path, F_OK), -1);
}

/* The folder above ours in a hierarchy; false: skip. */
static bool above(const char *controller, char out[HOST_CGROUP_PATH])
{
    static char mountinfo[1u << 18];
    char self[8192];

    return host_proc_slurp("/proc/self/mountinfo", mountinfo, sizeof(mountinfo)) > 0 &&
           host_proc_slurp("/proc/self/cgroup", self, sizeof(self)) > 0 &&
           host_cgroup_place(mountinfo, self, controller, out) && access(out, W_OK) == 0;
}

static void a_freezer_kills_where_there_is_no_version_2(void **state)
{
    char folder[HOST_CGROUP_PATH], path[HOST_CGROUP_PATH + 64], below[HOST_CGROUP_PATH + 80];
    pid_t pid, pid_below;

    (void)state;
    if (!above("freezer", folder))
        skip();
    (void)snprintf(path, sizeof(path), "%s/lockstep-test-%d", folder, (int)getpid());
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(below, sizeof(below), "%s/below", path);
    assert_int_equal(mkdir(below, 0755), 0);
    pid = start_in(path);
    pid_below = start_in(below);
    host_cgroup_kill(path);
    is_killed(pid);
    is_killed(pid_below);
    assert_true(host_cgroup_remove(path));
}

/* As if an agent of our number had made it that began so many ticks after us; false: skip. */
static bool make_group(unsigned later, unsigned serial, char out[HOST_CGROUP_PATH + 96])
{
    char folder[HOST_CGROUP_PATH];
    struct host_proc self;
    struct stat st;

    if (!above("", folder) && !above("freezer", folder))
        return false;
    assert_true(host_proc_read(getpid(), &self));
    assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
    (void)snprintf(out, HOST_CGROUP_PATH + 96, "%s/lockstep-%lu-%d-%" PRIu64 "-%u", folder,
                   (unsigned long)st.st_ino, (int)getpid(), self.start_ticks + later, serial);
    assert_int_equal(mkdir(out, 0755), 0);
    return true;
}

static void what_a_dead_agent_has_left_is_swept_up_and_a_living_ones_is_not(void **state)
{
    char dead[HOST_CGROUP_PATH + 96], living[HOST_CGROUP_PATH + 96];
    pid_t pid;

    (void)state;
    if (!make_group(1, 0, dead) || !make_group(0, 77, living))
        skip();
    pid = start_in(dead);
    host_cgroup_sweep();
    is_killed(pid);
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(access(living, F_OK), 0);
    assert_true(host_cgroup_remove(living));
}

/* What is forked from now on finds that the system began some days earlier. */
static bool enter_another_time(void)
{
    static const char offset[] = "boottime 300000 0\n";
    int fd = unshare(CLONE_NEWTIME) == 0 ? open("/proc/self/timens_offsets", O_WRONLY) : -1;

    return fd >= 0 && write(fd, offset, sizeof(offset) - 1) == (ssize_t)sizeof(offset) - 1;
}

static void who_lives_is_not_dead_to_an_agent_of_another_time_namespace(void **state)
{
    char living[HOST_CGROUP_PATH + 96];
    int status = 1;
    pid_t pid;

    (void)state;
    if (!make_group(0, 78, living))
        skip();
    pid = fork();
    if (pid == 0) {
        if (!enter_another_time())
            _exit(77);
        pid = fork();
        if (pid == 0) {
            host_cgroup_sweep();
            _exit(0);
        }
        _exit(waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(access(living, F_OK), 0);
    assert_true(host_cgroup_remove(living));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* it takes CAP_SYS_ADMIN, and a kernel that has them */
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_folder_of_a_processes_group_is_found_in_what_is_mounted),
        cmocka_unit_test(what_is_in_a_group_goes_with_it),
        cmocka_unit_test(the_groups_that_a_target_has_made_below_go_with_it),
        cmocka_unit_test(a_freezer_kills_where_there_is_no_version_2),
        cmocka_unit_test(what_a_dead_agent_has_left_is_swept_up_and_a_living_ones_is_not),
        cmocka_unit_test(who_lives_is_not_dead_to_an_agent_of_another_time_namespace),
    };

    return cmocka_run_group_tests_name("agent.host_cgroup", tests, NULL, NULL);
}
