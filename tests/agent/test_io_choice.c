#include "tests/support/test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/load/link.h"

/* The probe is made once per process, so each test asks in a process of its own; the parent must
 * not have asked before. */
struct choice {
    enum ls_err rc;
    char io[16];
    struct ls_diag why;
    struct ls_diag diag; /* of a failure */
};

static void choose(enum load_io io, struct choice *out)
{
    const struct agent_link_class *link = NULL;

    out->rc = agent_link_choose("tcp", io, &link, &out->why, &out->diag);
    (void)snprintf(out->io, sizeof(out->io), "%s", link != NULL ? link->io : "");
}

static struct choice choose_in_child(enum load_io io, int (*restrain)(int arg), int arg)
{
    struct choice choice = { .rc = LS_ERR_COUNT };
    int ends[2];
    int status = 0;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (restrain != NULL && restrain(arg) != 0)
            _exit(1);
        choose(io, &choice);
        _exit(write(ends[1], &choice, sizeof(choice)) == (ssize_t)sizeof(choice) ? 0 : 2);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &choice, sizeof(choice)), sizeof(choice));
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return choice;
}

/* As container runtimes do it: io_uring_setup fails with error. */
static int forbid_rings(int error)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = LS_ARRAY_LEN(rules), .filter = rules };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int lock_no_memory(int user)
{
    struct rlimit none = { 0 };

    if (setrlimit(RLIMIT_MEMLOCK, &none) != 0)
        return -1;
    return geteuid() == 0 ? setuid((uid_t)user) : 0;
}

static void where_rings_are_refused_auto_takes_libev_and_says_why(void **state)
{
    static const struct {
        int error;
        const char *why;
    } rows[] = { { EPERM, "seccomp" },
                 { ENOSYS, "no io_uring" },
                 { EINVAL, "too old" },
                 { ENOMEM, "RLIMIT_MEMLOCK" },
                 { EMFILE, "Too many open files" } };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct choice choice = choose_in_child(LOAD_IO_AUTO, forbid_rings, rows[i].error);

        assert_int_equal(choice.rc, LS_OK);
        assert_string_equal(choice.io, "libev");
        assert_non_null(strstr(choice.why.text, rows[i].why));
    }
}

static void what_was_asked_for_and_cannot_be_had_is_an_error(void **state)
{
    struct choice choice = choose_in_child(LOAD_IO_URING, forbid_rings, EPERM);

    (void)state;
    assert_int_equal(choice.rc, LS_EINVAL);
    assert_string_equal(choice.io, "");
    assert_non_null(strstr(choice.diag.text, "io_uring"));
    assert_non_null(strstr(choice.diag.text, "seccomp"));
    assert_non_null(strstr(choice.diag.text, "libev")); /* what to do */
}

static void libev_is_taken_without_a_word_where_it_was_asked_for(void **state)
{
    struct choice choice = choose_in_child(LOAD_IO_LIBEV, forbid_rings, EPERM);

    (void)state;
    assert_int_equal(choice.rc, LS_OK);
    assert_string_equal(choice.io, "libev");
    assert_string_equal(choice.why.text, "");
}

/* Kernels differ in what they count as locked; none of them may end the load. */
static void without_lockable_memory_auto_still_finds_something(void **state)
{
    struct choice choice = choose_in_child(LOAD_IO_AUTO, lock_no_memory, 65534);

    (void)state;
    assert_int_equal(choice.rc, LS_OK);
    assert_true((strcmp(choice.io, "io_uring") == 0) == (choice.why.text[0] == '\0'));
}

static void auto_and_io_uring_agree_where_it_works(void **state)
{
    struct choice may = choose_in_child(LOAD_IO_AUTO, NULL, 0);
    struct choice must = choose_in_child(LOAD_IO_URING, NULL, 0);

    (void)state;
    if (may.why.text[0] != '\0') {
        print_message("io_uring does not work here: %s\n", may.why.text);
        assert_int_equal(must.rc, LS_EINVAL);
        return;
    }
    assert_string_equal(may.io, "io_uring");
    assert_int_equal(must.rc, LS_OK);
    assert_string_equal(must.io, "io_uring");
}

static void a_link_that_does_not_exist_is_no_choice(void **state)
{
    const struct agent_link_class *link = NULL;
    struct ls_diag why;
    struct ls_diag diag = { 0 };

    (void)state;
    assert_int_equal(agent_link_choose("udp", LOAD_IO_LIBEV, &link, &why, &diag), LS_EINVAL);
    assert_non_null(strstr(diag.text, "udp"));
    assert_null(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_rings_are_refused_auto_takes_libev_and_says_why),
        cmocka_unit_test(what_was_asked_for_and_cannot_be_had_is_an_error),
        cmocka_unit_test(libev_is_taken_without_a_word_where_it_was_asked_for),
        cmocka_unit_test(without_lockable_memory_auto_still_finds_something),
        cmocka_unit_test(auto_and_io_uring_agree_where_it_works),
        cmocka_unit_test(a_link_that_does_not_exist_is_no_choice),
    };
    return cmocka_run_group_tests_name("agent.io_choice", tests, NULL, NULL);
}
