/* What a target may not do that its agent may: read from the target's own /proc/self/status. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/confine.h"
#include "agent/host/target.h"
#include "common/fs.h"
#include "tests/agent/host_fixture.h"
#include "tests/agent/host_play.h"

#define USER_ID  54321u /* nobody's */
#define GROUP_ID 54322u

/* What permit answers, and what it was asked. */
struct answer {
    struct host_confine confine;
    enum ls_err rc;
    bool version_too; /* rc is for that, too */
    unsigned asked, asked_version;
    char real[PATH_MAX];
    bool hashed; /* before it was asked */
};

static enum ls_err ask(void *ctx, const struct host_program_file *file, char *const *argv,
                       bool version, struct host_confine *out, struct ls_diag *diag)
{
    struct answer *answer = ctx;

    assert_non_null(argv[0]);
    *(version ? &answer->asked_version : &answer->asked) += 1;
    (void)snprintf(answer->real, sizeof(answer->real), "%s", file->real);
    answer->hashed |= file->sha256[0] != '\0';
    *out = answer->confine;
    if (answer->rc != LS_OK && version == answer->version_too)
        return ls_fail(diag, answer->rc, "policy.yaml: made to refuse");
    return LS_OK;
}

static void init(struct host_fixture *f, const char *role, struct answer *answer)
{
    host_fixture_init(f, role, "{port}", NULL);
    f->spec.permit = (struct host_permit){ .ask = ask, .ctx = answer };
}

static void assert_log(const char *log, const char *want)
{
    if (strstr(log, want) == NULL)
        fail_msg("no \"%s\" in\n%s", want, log);
}

static void every_target_starts_without_new_privileges_and_core_files(void **state)
{
    struct answer answer = { .rc = LS_OK };
    struct host_target_event event;
    struct host_fixture f;
    mode_t before = umask(0);

    (void)state;
    init(&f, "state", &answer);
    host_fixture_up(&f, &event);
    (void)umask(before);
    host_fixture_down(&f, &event);
    assert_log(host_fixture_log(&f), "NoNewPrivs:\t1\n");
    assert_log(host_fixture_log(&f), "limit core 0 0\n");
    assert_log(host_fixture_log(&f), "Umask:\t0022\n");
    assert_int_equal(answer.asked, 1);
    assert_string_equal(answer.real, f.self);
    assert_false(answer.hashed); /* not of what may not be run: it may be of any size */
    host_fixture_fini(&f);
}

/* CAP_NET_BIND_SERVICE, as a unit's AmbientCapabilities= gives it to the agent. False: no rights.
 */
static bool give_ambient(bool give)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &head, data) != 0)
        return false;
    if (!give)
        (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    data[0].inheritable = give ? data[0].inheritable | 1u << CAP_NET_BIND_SERVICE
                               : data[0].inheritable & ~(1u << CAP_NET_BIND_SERVICE);
    return syscall(SYS_capset, &head, data) == 0 &&
           (!give || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_BIND_SERVICE, 0, 0) == 0);
}

static void what_the_agent_was_given_does_not_stay_with_its_programs(void **state)
{
    struct answer answer = { .rc = LS_OK };
    struct host_target_event event;
    struct host_fixture f;

    (void)state;
    if (!give_ambient(true))
        skip();
    init(&f, "state", &answer);
    host_fixture_up(&f, &event);
    assert_true(give_ambient(false));
    host_fixture_down(&f, &event);
    assert_log(host_fixture_log(&f), "CapAmb:\t0000000000000000\n");
    host_fixture_fini(&f);
}

/* The target is this program: with a sanitizer it has terabytes for its shadow, and one of them
 * wants no limit of what is only reserved. */
#if defined(__SANITIZE_THREAD__)
#define MEMORY_BYTES  (UINT64_C(1) << 46)
#define ADDRESS_BYTES 0
#elif defined(__SANITIZE_ADDRESS__)
#define MEMORY_BYTES  (UINT64_C(1) << 46)
#define ADDRESS_BYTES (UINT64_C(1) << 47)
#else
#define MEMORY_BYTES  (UINT64_C(1) << 30)
#define ADDRESS_BYTES (UINT64_C(1) << 31)
#endif

static void assert_limit(const char *log, const char *name, uint64_t value)
{
    char line[100];

    (void)snprintf(line, sizeof(line), "limit %s %" PRIu64 " %" PRIu64 "\n", name, value, value);
    assert_log(log, line);
}

static void limits_hold_and_cannot_be_raised(void **state)
{
    struct answer answer = { .confine = { .memory_bytes = MEMORY_BYTES,
                                          .address_space_bytes = ADDRESS_BYTES,
                                          .file_bytes = 1u << 20,
                                          .processes = 60000,
                                          .descriptors = 100 } };
    struct host_target_event event;
    struct host_fixture f;

    (void)state;
    init(&f, "state", &answer);
    host_fixture_up(&f, &event);
    host_fixture_down(&f, &event);
    assert_limit(host_fixture_log(&f), "data", MEMORY_BYTES);
    if (ADDRESS_BYTES > 0)
        assert_limit(host_fixture_log(&f), "as", ADDRESS_BYTES);
    assert_limit(host_fixture_log(&f), "fsize", 1u << 20);
    assert_limit(host_fixture_log(&f), "nofile", 100);
    assert_log(host_fixture_log(&f), "limit nproc ");
    host_fixture_fini(&f);
}

static void what_is_not_permitted_is_not_started(void **state)
{
    struct answer answer = { .rc = LS_EREFUSED };
    struct host_target_event event;
    struct host_fixture f;

    (void)state;
    init(&f, "serve", &answer);
    host_fixture_start(&f);
    host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
    assert_string_equal(event.code, "policy");
    assert_string_equal(event.diag.text, "policy.yaml: made to refuse");
    assert_string_equal(event.exit, "");
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

static void a_version_that_may_not_be_asked_stops_the_trial(void **state)
{
    char *version[] = { NULL, NULL, NULL };
    struct answer answer = { .rc = LS_EREFUSED, .version_too = true };
    struct host_target_event event;
    struct host_fixture f;

    (void)state;
    init(&f, "serve", &answer);
    version[0] = f.self;
    f.spec.version_argv = version;
    host_fixture_start(&f);
    host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
    assert_string_equal(event.code, "policy");
    assert_int_equal(answer.asked_version, 1);
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

/* A command that is asked for a version must not be the way round what a policy has pinned. */
static void a_program_that_its_version_command_changes_is_not_run(void **state)
{
    static const char script[] = "#!/bin/sh\nexec sleep 100\n";
    static char sh[] = "/bin/sh", c[] = "-c", run[] = "./run", change[] = "echo >>run; echo 1.0";
    char *version[] = { sh, c, change, NULL };
    char *argv[] = { run, NULL };
    struct host_file file = { .name = "run",
                              .data = { (const unsigned char *)script, sizeof(script) - 1 },
                              .executable = true };
    struct answer answer = { .rc = LS_OK };
    struct host_target_event event;
    struct host_fixture f;

    (void)state;
    init(&f, "unused", &answer);
    f.spec.files = &file;
    f.spec.file_count = 1;
    f.spec.argv = argv;
    f.spec.version_argv = version;
    host_fixture_start(&f);
    host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
    assert_string_equal(event.code, "start_failed");
    assert_non_null(strstr(event.diag.text, "was changed after it had been looked at"));
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

static void cpus_have_to_be_among_those_allowed(void **state)
{
    struct answer answer = { .confine = { .has_cpus = true } };
    struct host_target_event event;
    struct host_fixture f;
    struct ls_cpuset own;
    char first[16];

    (void)state;
    assert_int_equal(ls_cpuset_get_affinity(0, &own, NULL), LS_OK);
    (void)snprintf(first, sizeof(first), "%d", ls_cpuset_nth(&own, 0));
    assert_int_equal(ls_cpuset_parse(first, &answer.confine.cpus, NULL), LS_OK);
    init(&f, "serve", &answer); /* a plan that says nothing gets those */
    host_fixture_up(&f, &event);
    assert_string_equal(event.cpus, first);
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);

    assert_int_equal(ls_cpuset_parse("1000", &answer.confine.cpus, NULL), LS_OK);
    init(&f, "serve", &answer);
    f.spec.cpus = first;
    host_fixture_start(&f);
    host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
    assert_string_equal(event.code, "policy");
    assert_non_null(strstr(event.diag.text, "limits.cpus: the target is to run on CPUs"));
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

/* ---- another user */

/* What a program of many names, such as busybox, does is up to argv[0] as much as to its arguments.
 */
static void a_program_does_not_hide_behind_the_name_of_a_link(void **state)
{
    (void)state;
    for (int by_real_path = 0; by_real_path < 2; by_real_path++) {
        struct answer answer = { .confine = { .by_real_path = by_real_path != 0 } };
        struct host_target_event event;
        struct host_fixture f;
        char link[PATH_MAX], line[PATH_MAX + 16];

        init(&f, "state", &answer);
        (void)snprintf(link, sizeof(link), "%s/sh", f.dir);
        assert_int_equal(symlink(f.self, link), 0);
        f.argv[0] = link;
        host_fixture_up(&f, &event);
        host_fixture_down(&f, &event);
        assert_string_equal(answer.real, f.self);
        (void)snprintf(line, sizeof(line), "called %s\n", by_real_path != 0 ? f.self : link);
        assert_log(host_fixture_log(&f), line);
        host_fixture_fini(&f);
    }
}

/* The test's own program, as a plan would ship it: another user may not get to where this one is.
 */
static void ship_self(struct host_fixture *f, struct host_file *file, char **out_data)
{
    static char shipped[] = "./self";
    size_t len = 0;

    assert_int_equal(ls_fs_read(f->self, 1u << 30, out_data, &len, NULL), LS_OK);
    *file = (struct host_file){ .name = "self",
                                .data = { (const unsigned char *)*out_data, len },
                                .executable = true };
    f->argv[0] = shipped;
    f->spec.files = file;
    f->spec.file_count = 1;
}

static void a_target_of_another_user_has_nothing_of_its_agents(void **state)
{
    struct answer answer = { .confine = { .change_user = true, .uid = USER_ID, .gid = GROUP_ID } };
    struct host_target_event event;
    struct host_fixture f;
    struct host_file file;
    gid_t before[64], further[] = { 54324, 54325 };
    int count = getgroups(64, before);
    char *data = NULL;
    char path[300];
    struct stat st;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_true(count >= 0 && setgroups(2, further) == 0); /* to be lost on the way */
    init(&f, "state", &answer);
    ship_self(&f, &file, &data);
    host_fixture_up(&f, &event);
    assert_int_equal(setgroups((size_t)count, before), 0);
    host_fixture_down(&f, &event);
    assert_log(host_fixture_log(&f), "Uid:\t54321\t54321\t54321\t54321\n");
    assert_log(host_fixture_log(&f), "Gid:\t54322\t54322\t54322\t54322\n");
    assert_log(host_fixture_log(&f), "Groups:\t \n");
    assert_log(host_fixture_log(&f), "CapEff:\t0000000000000000\n");
    assert_log(host_fixture_log(&f), "CapPrm:\t0000000000000000\n");
    assert_log(host_fixture_log(&f), "CapAmb:\t0000000000000000\n");
    assert_log(host_fixture_log(&f), "NoNewPrivs:\t1\n");
    (void)snprintf(path, sizeof(path), "cwd %s\n", f.dir);
    assert_log(host_fixture_log(&f), path);
    /* The folder and the files are his, the log is not. */
    assert_int_equal(stat(f.dir, &st), 0);
    assert_int_equal(st.st_uid, USER_ID);
    assert_int_equal(st.st_mode & 0777, 0700);
    (void)snprintf(path, sizeof(path), "%s/self", f.dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, USER_ID);
    (void)snprintf(path, sizeof(path), "%s/target.log", f.dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, 0);
    host_fixture_fini(&f);
    free(data);
}

/* Killing another user's processes needs the supervisor to be root still. */
static void a_target_of_another_user_is_ended_as_well(void **state)
{
    struct answer answer = { .confine = { .change_user = true, .uid = USER_ID, .gid = GROUP_ID } };
    struct host_target_event event;
    struct host_fixture f;
    struct host_file file;
    char *data = NULL;

    (void)state;
    if (geteuid() != 0)
        skip();
    init(&f, "daemon", &answer);
    ship_self(&f, &file, &data);
    host_fixture_up(&f, &event);
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
    free(data);
}

/* In a child, for it is for good. */
static int apply_as(uid_t own, const struct host_confine *confine)
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        enum host_confine_step step = HOST_CONFINE_STEP_COUNT;
        int error;

        if (own != 0 && (setgid(own) != 0 || setuid(own) != 0))
            _exit(100);
        error = host_confine_apply(confine, &step);
        if (error != 0)
            _exit(error == EPERM && step == HOST_CONFINE_USER ? 1 : 2);
        /* No way back, and no way to raise what was lowered. */
        if (confine->change_user && (setuid(0) == 0 || seteuid(0) == 0 || setgid(0) == 0))
            _exit(3);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_user_that_cannot_be_changed_is_an_error(void **state)
{
    const struct host_confine other = { .change_user = true, .uid = USER_ID, .gid = GROUP_ID };
    const struct host_confine same = { .change_user = false };

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(apply_as(0, &other), 0);
    assert_int_equal(apply_as(54323, &other), 1);
    assert_int_equal(apply_as(54323, &same), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_target_starts_without_new_privileges_and_core_files),
        cmocka_unit_test(what_the_agent_was_given_does_not_stay_with_its_programs),
        cmocka_unit_test(limits_hold_and_cannot_be_raised),
        cmocka_unit_test(what_is_not_permitted_is_not_started),
        cmocka_unit_test(a_version_that_may_not_be_asked_stops_the_trial),
        cmocka_unit_test(a_program_that_its_version_command_changes_is_not_run),
        cmocka_unit_test(cpus_have_to_be_among_those_allowed),
        cmocka_unit_test(a_program_does_not_hide_behind_the_name_of_a_link),
        cmocka_unit_test(a_target_of_another_user_has_nothing_of_its_agents),
        cmocka_unit_test(a_target_of_another_user_is_ended_as_well),
        cmocka_unit_test(a_user_that_cannot_be_changed_is_an_error),
    };

    host_target_main_hook(argc, argv);
    host_play_hook(argc, argv);
    return cmocka_run_group_tests_name("agent.host_confine", tests, host_fixture_begin,
                                       host_fixture_sweep);
}
