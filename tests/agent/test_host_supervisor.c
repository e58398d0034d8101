#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/proc.h"
#include "agent/host/supervisor.h"
#include "agent/host/supervisor_wire.h"
#include "agent/host/version.h"
#include "common/clock.h"
#include "common/fs.h"
#include "tests/agent/host_fixture.h"
#include "tests/agent/host_play.h"

extern char **environ;

/* ---- an agent that can be killed: this program, started with "--agent MOMENT ROLE" */

static void say(const char *text)
{
    (void)printf("%s\n", text);
    (void)fflush(stdout);
}

/* Says mark and folder, then "here" at the wanted moment; then what happens to its target, until
 * its input is closed. */
static int be_agent(const char *moment, const char *role)
{
    struct host_fixture f;
    struct host_target_event event;
    struct ls_diag diag = { 0 };
    char byte;

    if (host_adopt_orphans(&diag) != LS_OK)
        return 1;
    host_fixture_init(&f, role, "{port}", NULL);
    say(f.mark);
    say(f.dir);
    host_fixture_start(&f);
    if (strcmp(moment, "starting") == 0) {
        if (!host_fixture_await_alive(f.mark, 1))
            return 1;
    } else {
        host_fixture_expect(&f, HOST_TARGET_UP, &event);
        if (strcmp(role, "ignore-term") != 0)
            host_fixture_await_announced(&f, 1);
    }
    if (strcmp(moment, "stopping") == 0)
        host_target_stop(f.target);
    say("here");
    if (strcmp(moment, "watching") != 0) {
        (void)pause();
        return 1;
    }
    host_fixture_expect(&f, HOST_TARGET_EXITED, &event);
    say(event.code);
    (void)!read(0, &byte, 1);
    host_fixture_down(&f, &event);
    say(event.exit);
    host_fixture_fini(&f);
    return 0;
}

struct agent {
    pid_t pid;
    FILE *out;
    int in;
    char mark[64];
    char dir[256];
};

static void read_line(struct agent *a, char *out, size_t out_bytes)
{
    struct pollfd wait = { .fd = fileno(a->out), .events = POLLIN };

    assert_true(poll(&wait, 1, (int)(FIXTURE_PATIENCE_NS / LS_NS_PER_MS)) == 1);
    assert_non_null(fgets(out, (int)out_bytes, a->out));
    out[strcspn(out, "\n")] = '\0';
}

static void start_agent(struct agent *a, const char *moment, const char *role)
{
    char *argv[] = { strdup("agent"), strdup("--agent"), strdup(moment), strdup(role), NULL };
    posix_spawn_file_actions_t actions;
    int in[2], out[2];
    char line[16];

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, in[0], 0), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out[1], 1), 0);
    assert_int_equal(posix_spawn(&a->pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    a->in = in[1];
    a->out = fdopen(out[0], "r");
    assert_int_equal(setvbuf(a->out, NULL, _IONBF, 0),
                     0); /* poll must see what has not been read */
    for (int i = 0; i < 4; i++)
        free(argv[i]);
    read_line(a, a->mark, sizeof(a->mark));
    read_line(a, a->dir, sizeof(a->dir));
    read_line(a, line, sizeof(line));
    assert_string_equal(line, "here");
}

static void end_agent(struct agent *a)
{
    (void)close(a->in);
    (void)fclose(a->out);
    assert_int_equal(ls_fs_remove_tree(a->dir, NULL), LS_OK);
}

static pid_t find_supervisor(pid_t agent)
{
    struct host_proc *procs = NULL;
    size_t count = 0;
    pid_t found = 0;

    assert_int_equal(host_proc_descendants(agent, &procs, &count, NULL), LS_OK);
    for (size_t i = 0; i < count && found == 0; i++) {
        char command[256];

        (void)host_proc_command(procs[i].pid, command, sizeof(command));
        if (procs[i].ppid == agent && strstr(command, SUPERVISOR_ARG) != NULL)
            found = procs[i].pid;
    }
    free(procs);
    assert_int_not_equal(found, 0);
    return found;
}

static void nothing_survives_an_agent_that_was_killed(void **state)
{
    static const char *const cases[][2] = {
        { "up", "stubborn-daemon" },   { "up", "chain" }, { "up", "breed" }, { "starting", "mute" },
        { "stopping", "ignore-term" },
    };

    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct agent a;
        pid_t supervisor;
        int status;

        start_agent(&a, cases[i][0], cases[i][1]);
        supervisor = find_supervisor(a.pid);
        assert_int_equal(kill(a.pid, SIGKILL), 0);
        assert_int_equal(waitpid(a.pid, NULL, 0), a.pid);
        assert_int_equal(waitpid(supervisor, &status, 0), supervisor); /* it comes to us */
        assert_int_equal(status, 0);
        assert_int_equal(host_fixture_alive(a.mark), 0);
        end_agent(&a);
    }
}

static void nothing_survives_a_supervisor_that_was_killed(void **state)
{
    static const char *const roles[] = { "stubborn-daemon", "workers", "breed", "chain" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(roles); i++) {
        struct agent a;
        char line[64];
        int status;

        start_agent(&a, "watching", roles[i]);
        assert_int_equal(kill(find_supervisor(a.pid), SIGKILL), 0);
        read_line(&a, line, sizeof(line));
        assert_string_equal(line, "supervisor_lost");
        assert_int_equal(host_fixture_alive(a.mark), 0); /* while the agent lives on */
        (void)close(a.in);
        a.in = -1;
        read_line(&a, line, sizeof(line));
        assert_string_equal(line, "unknown: its supervisor was killed");
        assert_int_equal(waitpid(a.pid, &status, 0), a.pid);
        assert_int_equal(status, 0);
        end_agent(&a);
    }
}

/* ---- the supervisor itself */

static void a_supervisor_stands_apart_and_outlives_signals(void **state)
{
    static const int signals[] = { SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGPIPE,
                                   SIGALRM, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTOU };
    struct host_fixture f;
    struct host_target_event event;
    pid_t supervisor;

    (void)state;
    host_fixture_init(&f, "serve", "{port}", NULL);
    host_fixture_up(&f, &event);
    supervisor = find_supervisor(getpid());
    assert_int_equal(getsid(supervisor), supervisor);
    assert_int_not_equal(getsid(supervisor), getsid(0));
    for (size_t i = 0; i < LS_ARRAY_LEN(signals); i++)
        assert_int_equal(kill(supervisor, signals[i]), 0);
    host_fixture_down(&f, &event);
    assert_string_equal(event.exit, "signal TERM");
    assert_int_equal(kill(supervisor, 0), -1);
    host_fixture_fini(&f);
}

/* Starts the supervisor's program with this descriptor as its connection. */
static pid_t spawn_raw(int control)
{
    char *argv[] = { strdup("x"), strdup(SUPERVISOR_ARG), NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid;

    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, control, SUPERVISOR_CONTROL_FD), 0);
    assert_int_equal(posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0), 0);
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    free(argv[0]);
    free(argv[1]);
    return pid;
}

static void nonsense_ends_a_supervisor(void **state)
{
    struct supervisor_order order = { .magic = SUPERVISOR_MAGIC + 1, .kind = SUPERVISOR_STOP };
    static char large[SUPERVISOR_PACKET_MAX + 1];
    const struct ls_bytes packets[] = {
        { (const unsigned char *)"", 0 },
        { (const unsigned char *)"short", 5 },
        { (const unsigned char *)&order, sizeof(order) },
        { (const unsigned char *)large, sizeof(large) },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(packets); i++) {
        int fds[2], status;
        pid_t pid;

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        pid = spawn_raw(fds[1]);
        (void)close(fds[1]);
        assert_int_equal(send(fds[0], packets[i].data, packets[i].len, MSG_NOSIGNAL),
                         packets[i].len);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        (void)close(fds[0]);
    }
}

static void start_orders_that_lie_start_nothing(void **state)
{
    static const struct {
        uint32_t argc, envc, text_bytes;
        const char *text;
        size_t bytes;
        bool output;
    } cases[] = {
        { 1, 0, 6, "/\0/\0x", 6, false },         /* no output */
        { 0, 0, 4, "/\0/\0", 4, true },           /* no argv */
        { 1, 0, 9, "/\0/\0x", 6, true },          /* length is wrong */
        { 1, 1, 6, "/\0/\0x", 6, true },          /* fewer strings than said */
        { UINT32_MAX, 0, 6, "/\0/\0x", 6, true }, /* very many strings */
        { 1, 0, 5, "/\0/\0x", 5, true },          /* the last has no end */
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct supervisor_order order = { .magic = SUPERVISOR_MAGIC,
                                          .kind = SUPERVISOR_START,
                                          .argc = cases[i].argc,
                                          .envc = cases[i].envc,
                                          .text_bytes = cases[i].text_bytes };
        struct supervisor_report report;
        char packet[sizeof(order) + 16];
        union {
            char bytes[CMSG_SPACE(sizeof(int))];
            struct cmsghdr align;
        } control = { 0 };
        struct iovec iov = { packet, sizeof(order) + cases[i].bytes };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
        int fds[2], status;
        pid_t pid;

        (void)memcpy(packet, &order, sizeof(order));
        (void)memcpy(packet + sizeof(order), cases[i].text, cases[i].bytes);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        pid = spawn_raw(fds[1]);
        (void)close(fds[1]);
        if (cases[i].output) {
            struct cmsghdr *c;
            int fd = 1;

            msg.msg_control = control.bytes;
            msg.msg_controllen = sizeof(control.bytes);
            c = CMSG_FIRSTHDR(&msg);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(sizeof(fd));
            (void)memcpy(CMSG_DATA(c), &fd, sizeof(fd));
        }
        assert_int_equal(sendmsg(fds[0], &msg, MSG_NOSIGNAL), iov.iov_len);
        assert_int_equal(recv(fds[0], &report, sizeof(report), 0), sizeof(report));
        assert_int_equal(report.event.kind, HOST_SUPERVISOR_START_FAILED);
        assert_int_equal(report.event.error, EPROTO);
        (void)close(fds[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

static void the_private_option_is_refused_to_people(void **state)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t pid = spawn_raw(fd);
    int status;

    (void)state;
    (void)close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 2);
}

static void a_command_that_is_too_long_is_refused(void **state)
{
    struct host_supervisor *s = NULL;
    struct ls_diag diag;
    char *text = malloc(SUPERVISOR_PACKET_MAX + 1);
    char *argv[] = { text, NULL };
    struct host_supervisor_job job = { .path = "/bin/true", .dir = "/", .argv = argv };

    (void)state;
    (void)memset(text, 'x', SUPERVISOR_PACKET_MAX);
    text[SUPERVISOR_PACKET_MAX] = '\0';
    assert_int_equal(host_supervisor_create(&s, &diag), LS_OK);
    assert_int_equal(host_supervisor_start(s, &job, &diag), LS_ERANGE);
    host_supervisor_destroy(s);
    free(text);
}

/* ---- versions */

struct version_case {
    const char *script;
    const char *want;
};

static void check_version(struct host_supervisor *s, char *const *argv, int64_t limit_ns,
                          const char *want)
{
    char *envp[] = { (char[]){ "PATH=/usr/bin:/bin" }, NULL };
    struct host_supervisor_job job = { .dir = "/", .argv = argv, .envp = envp };
    char out[HOST_VERSION_BYTES];
    struct ls_diag diag = { 0 };

    if (host_version_read(s, -1, &job, NULL, limit_ns, out, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    if (strncmp(out, want, strlen(want)) != 0)
        fail_msg("\"%s\" is not \"%s\"", out, want);
}

static void versions_are_read_whatever_the_program_does(void **state)
{
    static const struct version_case cases[] = {
        { "echo v1.2; echo more", "v1.2 more" },
        { "echo to stderr >&2", "to stderr" },
        { "cat; echo after", "after" }, /* its input is at its end */
        { "echo half; exit 3", "unknown: exit 3: half" },
        { "kill -SEGV $$", "unknown: signal SEGV" },
        { "yes | head -c 1000000", "y y y y" },
        { "sleep 1000 & echo fast", "fast" }, /* what it leaves is killed, not waited for */
        { "printf 'a\\tb\\033c'", "a b c" },
        { ":", "" },
    };
    struct host_supervisor *s = NULL;

    (void)state;
    assert_int_equal(host_supervisor_create(&s, NULL), LS_OK);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char *argv[] = { strdup("sh"), strdup("-c"), strdup(cases[i].script), NULL };

        check_version(s, argv, FIXTURE_PATIENCE_NS, cases[i].want);
        for (int k = 0; k < 3; k++)
            free(argv[k]);
    }
    check_version(s, (char *[]){ (char[]){ "sleep" }, (char[]){ "1000" }, NULL }, 50 * LS_NS_PER_MS,
                  "unknown: no end within 0.05 s");
    check_version(s, (char *[]){ (char[]){ "no-such-program" }, NULL }, 1, "unknown: no-such");
    check_version(s, (char *[]){ (char[]){ "/" }, NULL }, 1, "unknown: cannot run /");
    host_supervisor_destroy(s);
}

static void asking_for_a_version_can_be_cancelled(void **state)
{
    char *argv[] = { (char[]){ "sleep" }, (char[]){ "1000" }, NULL };
    char *envp[] = { (char[]){ "PATH=/usr/bin:/bin" }, NULL };
    struct host_supervisor_job job = { .dir = "/", .argv = argv, .envp = envp };
    struct host_supervisor *s = NULL;
    char out[HOST_VERSION_BYTES];
    int cancel = eventfd(1, EFD_CLOEXEC);

    (void)state;
    assert_int_equal(host_supervisor_create(&s, NULL), LS_OK);
    assert_int_equal(host_version_read(s, cancel, &job, NULL, FIXTURE_PATIENCE_NS, out, NULL),
                     LS_ESTATE);
    host_supervisor_destroy(s);
    (void)close(cancel);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_survives_an_agent_that_was_killed),
        cmocka_unit_test(nothing_survives_a_supervisor_that_was_killed),
        cmocka_unit_test(a_supervisor_stands_apart_and_outlives_signals),
        cmocka_unit_test(nonsense_ends_a_supervisor),
        cmocka_unit_test(start_orders_that_lie_start_nothing),
        cmocka_unit_test(the_private_option_is_refused_to_people),
        cmocka_unit_test(a_command_that_is_too_long_is_refused),
        cmocka_unit_test(versions_are_read_whatever_the_program_does),
        cmocka_unit_test(asking_for_a_version_can_be_cancelled),
    };

    host_target_main_hook(argc, argv);
    host_play_hook(argc, argv);
    if (argc == 4 && strcmp(argv[1], "--agent") == 0)
        return be_agent(argv[2], argv[3]);
    return cmocka_run_group_tests_name("agent.host_supervisor", tests, host_fixture_begin,
                                       host_fixture_sweep);
}
