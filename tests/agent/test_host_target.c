#include "tests/support/test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/host/target.h"
#include "common/clock.h"
#include "common/cpuset.h"
#include "tests/agent/host_fixture.h"
#include "tests/agent/host_play.h"

/* ---- the good case */

static void a_target_comes_up_is_measured_and_leaves_nothing(void **state)
{
    struct host_fixture f;
    struct host_target_event event;
    struct host_usage usage;

    (void)state;
    host_fixture_init(&f, "serve", "{port}", NULL);
    host_fixture_up(&f, &event);
    assert_string_equal(event.program.path, f.self);
    assert_int_equal(strlen(event.program.sha256), 64);
    assert_string_equal(event.program.interpreter, "");
    assert_string_equal(event.program.version, "");
    assert_true(event.readiness_requests >= 1);
    assert_true(event.up_after_ns > 0);
    assert_int_not_equal(event.cpus[0], '\0');
    assert_int_equal(host_target_usage(f.target, 7, &usage), LS_OK);
    assert_int_equal(usage.at_ns, 7);
    assert_int_equal(usage.processes, 1);
    assert_true(usage.cpu_ns > 0 && usage.rss_bytes > 0 && usage.rss_peak_bytes > 0);
    host_fixture_down(&f, &event);
    assert_string_equal(event.exit, "signal TERM");
    assert_true(event.stopped_by_us);
    assert_int_equal(event.left_over, 0);
    assert_int_equal(host_target_usage(f.target, 8, &usage), LS_ESTATE);
    host_fixture_fini(&f);
}

static void a_target_gets_what_the_plan_says_and_nothing_else(void **state)
{
    struct host_fixture f;
    struct host_target_event event;
    char want[1024];
    const char *log;

    (void)state;
    (void)signal(SIGUSR2, SIG_IGN); /* must not be inherited */
    host_fixture_init(&f, "state", "{port}", NULL);
    host_fixture_up(&f, &event);
    host_fixture_down(&f, &event); /* all has been written */
    log = host_fixture_log(&f);
    (void)snprintf(want, sizeof(want), "env %s\nenv %s\nfd 0\nfd 1\nfd 2\n", f.envp[0], f.mark);
    assert_memory_equal(log, want, strlen(want));
    assert_non_null(strstr(log, "SigBlk:\t0000000000000000\n"));
    assert_non_null(strstr(log, "SigIgn:\t0000000000000000\n"));
    assert_non_null(strstr(log, "leads 1\n"));
    (void)snprintf(want, sizeof(want), "cwd %s\n", f.dir);
    assert_non_null(strstr(log, want));
    host_fixture_fini(&f);
    (void)signal(SIGUSR2, SIG_DFL);
}

static void files_are_written_below_the_folder_only(void **state)
{
    struct host_file files[] = {
        { .name = "etc/a.conf", .data = { (const unsigned char *)"text", 4 } },
        { .name = "run.sh", .data = { (const unsigned char *)"x", 1 }, .executable = true },
    };
    struct host_fixture f;
    struct host_target_event event;
    struct stat st;
    char path[300];

    (void)state;
    host_fixture_init(&f, "serve", "{port}", NULL);
    f.spec.files = files;
    f.spec.file_count = 2;
    host_fixture_up(&f, &event);
    (void)snprintf(path, sizeof(path), "%s/etc/a.conf", f.dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 4);
    assert_int_equal(st.st_mode & 0777, 0644);
    (void)snprintf(path, sizeof(path), "%s/run.sh", f.dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0755);
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);

    files[1].name = "../outside";
    host_fixture_init(&f, "serve", "{port}", NULL);
    f.spec.files = files;
    f.spec.file_count = 2;
    host_fixture_start(&f);
    host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
    assert_string_equal(event.code, "start_failed");
    assert_non_null(strstr(event.diag.text, "../outside"));
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

static void a_target_runs_on_the_cpus_it_was_given(void **state)
{
    struct host_fixture f;
    struct host_target_event event;
    struct ls_cpuset own;
    char one[16];

    (void)state;
    assert_int_equal(ls_cpuset_get_affinity(0, &own, NULL), LS_OK);
    (void)snprintf(one, sizeof(one), "%d", ls_cpuset_nth(&own, ls_cpuset_count(&own) - 1));
    host_fixture_init(&f, "serve", "{port}", NULL);
    f.spec.cpus = one;
    host_fixture_up(&f, &event);
    assert_string_equal(event.cpus, one);
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

static void cpus_that_are_not_there_are_refused_by_name(void **state)
{
    char both[32];
    const char *lists[] = { "1023", both };

    (void)state;
    (void)snprintf(both, sizeof(both), "0,1023"); /* the kernel would silently take 0 */
    for (size_t i = 0; i < 2; i++) {
        struct host_fixture f;
        struct host_target_event event;

        host_fixture_init(&f, "serve", "{port}", NULL);
        f.spec.cpus = lists[i];
        host_fixture_start(&f);
        host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
        assert_string_equal(event.code, "start_failed");
        assert_non_null(strstr(event.diag.text, "1023"));
        host_fixture_down(&f, &event);
        host_fixture_fini(&f);
    }
}

/* ---- not coming up */

static void a_target_that_exits_is_explained_with_its_last_words(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    host_fixture_init(&f, "exit", "3", NULL);
    host_fixture_start(&f);
    host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
    assert_string_equal(event.code, "exited");
    assert_string_equal(event.exit, "exit 3");
    assert_non_null(strstr(event.diag.text, "exit 3"));
    assert_string_equal(event.log_tail, "last words");
    host_fixture_down(&f, &event);
    assert_false(event.stopped_by_us);
    assert_string_equal(event.exit, "exit 3");
    host_fixture_fini(&f);
}

static void fail_to_get_ready(const char *role, const char *second, const char *saying,
                              bool asked_often)
{
    struct host_fixture f;
    struct host_target_event event;

    host_fixture_init(&f, role, "{port}", second);
    f.spec.ready_timeout_ns = 300 * LS_NS_PER_MS;
    host_fixture_not_ready(&f, saying, asked_often ? 2 : 0, &event);
    assert_true((event.readiness_requests > 1) == asked_often);
    host_fixture_down(&f, &event);
    assert_string_equal(event.exit, "signal TERM");
    host_fixture_fini(&f);
}

static void a_target_that_does_not_get_ready_is_explained(void **state)
{
    (void)state;
    fail_to_get_ready("sleep", NULL, "it listens nowhere", false);
    fail_to_get_ready("wrong", "-1", "503", true);
    fail_to_get_ready("mute", NULL, "0 bytes so far", false);
}

static void wrong_answers_at_first_are_waited_out(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    host_fixture_init(&f, "wrong", "{port}", "3");
    host_fixture_up(&f, &event);
    assert_int_equal(event.readiness_requests, 4);
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

static void a_target_that_leaves_for_the_background_is_told_to_stay(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    host_fixture_init(&f, "goes-daemon", "{port}", NULL);
    host_fixture_start(&f);
    host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
    assert_string_equal(event.code, "exited");
    assert_non_null(strstr(event.diag.text, "foreground"));
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
}

struct bad_program {
    const char *argv0;
    const char *content; /* of the file of that name below the folder; NULL: none is made */
    mode_t mode;
    const char *saying;
};

static void programs_that_cannot_run_are_explained(void **state)
{
    static const struct bad_program cases[] = {
        { "no-such-program", NULL, 0, "not installed" },
        { "/no/such/program", NULL, 0, "No such file" },
        { "./absent", NULL, 0, "No such file" },
        { "./plain", "#!/bin/sh\n", 0644, "chmod +x" },
        { "./orphan", "#!/no/such/interpreter -x\n", 0755, "/no/such/interpreter" },
        { "./junk", "\x01\x02\x03\x04 neither", 0755, "\"#!\"" },
        { "./etc", NULL, 0, "No such file" },
        { "/", NULL, 0, "directory" },
        { "", NULL, 0, "empty" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct host_fixture f;
        struct host_target_event event;
        struct host_file file = { .executable = (cases[i].mode & 0111) != 0 };
        char *argv[] = { strdup(cases[i].argv0), NULL };

        host_fixture_init(&f, "serve", "{port}", NULL);
        f.spec.argv = argv;
        if (cases[i].content != NULL) {
            file.name = cases[i].argv0 + 2;
            file.data.data = (const unsigned char *)cases[i].content;
            file.data.len = strlen(cases[i].content);
            f.spec.files = &file;
            f.spec.file_count = 1;
        }
        host_fixture_start(&f);
        host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
        assert_string_equal(event.code, "start_failed");
        if (strstr(event.diag.text, cases[i].saying) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", event.diag.text, cases[i].saying);
        host_fixture_down(&f, &event);
        assert_string_equal(event.exit, "");
        assert_false(event.stopped_by_us);
        host_fixture_fini(&f);
        free(argv[0]);
    }
}

static void a_script_is_named_as_one(void **state)
{
    static const char script[] = "#! /bin/sh\nexec \"$@\"\n";
    struct host_file file = { .name = "wrap",
                              .data = { (const unsigned char *)script, sizeof(script) - 1 },
                              .executable = true };
    struct host_fixture f;
    struct host_target_event event;
    char path[300];
    char *argv[6];

    (void)state;
    host_fixture_init(&f, "serve", "{port}", NULL);
    argv[0] = strdup("./wrap");
    for (int i = 0; i < 5; i++)
        argv[i + 1] = f.argv[i];
    f.spec.argv = argv;
    f.spec.files = &file;
    f.spec.file_count = 1;
    host_fixture_up(&f, &event);
    (void)snprintf(path, sizeof(path), "%s/wrap", f.dir);
    assert_string_equal(event.program.path, path);
    assert_string_equal(event.program.interpreter, "/bin/sh");
    host_fixture_down(&f, &event);
    host_fixture_fini(&f);
    free(argv[0]);
}

/* ---- ports */

static int hold_port(const struct host_fixture *f, bool share)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(f->spec.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (share)
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void a_port_in_use_is_noticed_even_when_it_could_be_shared(void **state)
{
    (void)state;
    for (int share = 0; share < 2; share++) {
        struct host_fixture f;
        struct host_target_event event;
        char self[32];
        int fd;

        host_fixture_init(&f, "share", "{port}", NULL);
        fd = hold_port(&f, share);
        host_fixture_start(&f);
        host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
        assert_string_equal(event.code, "port_in_use");
        (void)snprintf(self, sizeof(self), "process %d (", (int)getpid());
        assert_non_null(strstr(event.diag.text, self));
        assert_non_null(strstr(event.diag.text, "test_agent_host_target"));
        host_fixture_down(&f, &event);
        (void)close(fd);
        host_fixture_fini(&f);
    }
}

static void a_port_that_stays_in_use_is_reported(void **state)
{
    struct host_fixture f;
    struct host_target_event event;
    int fd;

    (void)state;
    host_fixture_init(&f, "share", "{port}", NULL);
    host_fixture_up(&f, &event);
    fd = hold_port(&f, true);
    host_target_stop(f.target);
    host_fixture_expect(&f, HOST_TARGET_STOPPED, &event);
    assert_string_equal(event.code, "port_still_in_use");
    assert_non_null(strstr(event.diag.text, "test_agent_host_target"));
    (void)close(fd);
    host_fixture_fini(&f);
}

static void hosts_that_are_none_are_refused(void **state)
{
    static const char *const hosts[] = { "localhost", "192.0.2.1", "" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(hosts); i++) {
        struct host_fixture f;
        struct host_target_event event;

        host_fixture_init(&f, "serve", "{port}", NULL);
        f.spec.host = hosts[i];
        host_fixture_start(&f);
        host_fixture_expect(&f, HOST_TARGET_FAILED, &event);
        assert_string_equal(event.code, "start_failed");
        assert_non_null(strstr(event.diag.text, hosts[i]));
        host_fixture_down(&f, &event);
        host_fixture_fini(&f);
    }
}

/* ---- ends */

/* What "crash" waits for, so that it does not go before it is up. */
static void tell_to_crash(const struct host_fixture *f)
{
    char path[300];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/crash", f->dir);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void a_target_that_ignores_term_is_killed_after_its_grace_time(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    host_fixture_init(&f, "ignore-term", "{port}", NULL);
    f.spec.grace_ns = 50 * LS_NS_PER_MS;
    host_fixture_up(&f, &event);
    host_fixture_down(&f, &event);
    assert_string_equal(event.exit, "signal KILL");
    assert_true(event.stopped_by_us);
    host_fixture_fini(&f);
}

static void whatever_a_target_starts_goes_with_it(void **state)
{
    static const struct {
        const char *role;
        unsigned announced;
        bool grace; /* they obey TERM */
    } cases[] = {
        { "daemon", 1, true }, { "stubborn-daemon", 1, false }, { "workers", 3, true },
        { "chain", 1, false }, { "breed", 1, false },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct host_fixture f;
        struct host_target_event event;

        host_fixture_init(&f, cases[i].role, "{port}", NULL);
        if (!cases[i].grace)
            f.spec.grace_ns = 50 * LS_NS_PER_MS;
        host_fixture_up(&f, &event);
        host_fixture_await_announced(&f, cases[i].announced);
        host_fixture_down(&f, &event);
        if (cases[i].grace)
            assert_int_equal(event.left_over, 0);
        else
            assert_true(event.left_over >= 1);
        host_fixture_fini(&f);
    }
}

static void a_target_that_dies_is_reported_at_once(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    host_fixture_init(&f, "crash", "{port}", NULL);
    host_fixture_up(&f, &event);
    tell_to_crash(&f);
    host_fixture_expect(&f, HOST_TARGET_EXITED, &event);
    assert_string_equal(event.code, "exited");
    assert_string_equal(event.exit, "signal USR1");
    host_fixture_down(&f, &event);
    assert_false(event.stopped_by_us);
    assert_string_equal(event.exit, "signal USR1");
    host_fixture_fini(&f);
}

/* Whoever learns of the death by another way, a client by its connection say, may be quicker to ask
 * for the stop than the supervisor is to report. */
static void who_has_died_before_the_stop_was_not_stopped_by_us(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    host_fixture_init(&f, "crash", "{port}", NULL);
    host_fixture_up(&f, &event);
    tell_to_crash(&f);
    assert_true(host_fixture_await_alive(f.mark, 0));
    host_target_stop(f.target);
    do {
        struct pollfd wait = { .fd = f.wake_fd, .events = POLLIN };
        eventfd_t times;

        if (host_target_poll(f.target, &event))
            continue;
        assert_int_equal(poll(&wait, 1, (int)(FIXTURE_PATIENCE_NS / LS_NS_PER_MS)), 1);
        assert_int_equal(eventfd_read(f.wake_fd, &times), 0);
    } while (event.kind != HOST_TARGET_STOPPED);
    assert_false(event.stopped_by_us);
    assert_string_equal(event.exit, "signal USR1");
    host_fixture_fini(&f);
}

static void a_stop_while_starting_leads_to_stopped_alone(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    host_fixture_init(&f, "mute", "{port}", NULL);
    host_fixture_start(&f);
    assert_true(host_fixture_await_alive(f.mark, 1));
    host_fixture_down(&f, &event);
    assert_false(host_target_poll(f.target, &event));
    host_fixture_fini(&f);
}

static void destroying_a_target_kills_it(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    host_fixture_init(&f, "stubborn-daemon", "{port}", NULL);
    host_fixture_up(&f, &event);
    host_fixture_await_announced(&f, 1);
    host_fixture_fini(&f); /* checks that nothing is left */

    host_fixture_init(&f, "ignore-term", "{port}", NULL); /* in the midst of a long grace time */
    host_fixture_up(&f, &event);
    host_target_stop(f.target);
    host_fixture_fini(&f);

    host_fixture_init(&f, "sleep", NULL, NULL); /* while it is starting */
    host_fixture_start(&f);
    host_fixture_fini(&f);
}

static void each_process_gets_the_stop_signal_once(void **state)
{
    struct host_fixture f;
    struct host_target_event event;

    (void)state;
    host_fixture_init(&f, "count-terms", "{port}", NULL);
    host_fixture_up(&f, &event);
    host_fixture_await_announced(&f, 2); /* the target and one that has left its group */
    host_fixture_down(&f, &event);
    assert_string_equal(event.exit, "exit 1");
    assert_non_null(strstr(host_fixture_log(&f), "daemon 1 terms"));
    host_fixture_fini(&f);
}

/* ---- output */

static void a_talkative_target_is_read_and_its_log_is_bounded(void **state)
{
    struct host_fixture f;
    struct host_target_event event;
    struct stat st;
    char path[300];

    (void)state;
    host_fixture_init(&f, "print", "{port}", "10000000");
    f.spec.log_max_bytes = 65536;
    host_fixture_up(&f, &event);
    host_fixture_down(&f, &event);
    assert_int_equal(event.log_bytes, 65536);
    assert_int_equal(event.log_dropped_bytes, 10000000 - 65536);
    (void)snprintf(path, sizeof(path), "%s/target.log", f.dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 65536);
    host_fixture_fini(&f);
}

static void a_target_may_call_itself_what_it_likes(void **state)
{
    struct host_fixture f;
    struct host_target_event event;
    struct host_usage usage;

    (void)state;
    host_fixture_init(&f, "title", "{port}", NULL);
    host_fixture_up(&f, &event);
    assert_int_equal(host_target_usage(f.target, 0, &usage), LS_OK);
    assert_int_equal(usage.processes, 1);
    host_fixture_down(&f, &event);
    assert_string_equal(event.exit, "signal TERM");
    host_fixture_fini(&f);
}

static void senseless_specs_are_refused_at_once(void **state)
{
    struct host_env env = { NULL, NULL };
    struct host_target *target = NULL;
    struct host_fixture f;
    struct ls_diag diag;
    char *none[] = { NULL };

    (void)state;
    host_fixture_init(&f, "serve", "{port}", NULL);
    f.spec.cpus = "3-1";
    assert_int_not_equal(host_target_start(&f.spec, &env, &target, &diag), LS_OK);
    f.spec.cpus = NULL;
    f.spec.argv = none;
    assert_int_equal(host_target_start(&f.spec, &env, &target, &diag), LS_EINVAL);
    assert_null(target);
    host_fixture_fini(&f);
}

/* ---- real servers, where they are installed */

struct real_server {
    const char *program;
    char *version_option;
    const char *version_begins;
    const char *config_name;
    const char *config; /* PORT stands for the port */
    char *argv[6];
    uint32_t processes; /* at least */
};

static char *with_port(const char *text, const char *port)
{
    const char *at = strstr(text, "PORT");
    size_t bytes = strlen(text) + strlen(port) + 1;
    char *out = malloc(bytes);

    (void)snprintf(out, bytes, "%.*s%s%s", (int)(at - text), text, port, at + 4);
    return out;
}

static bool installed(const char *program)
{
    char path[128];
    static const char *const folders[] = { "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin" };

    for (size_t i = 0; i < LS_ARRAY_LEN(folders); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folders[i], program);
        if (access(path, X_OK) == 0)
            return true;
    }
    print_message("%s is not installed: skipped\n", program);
    return false;
}

static void run_real(struct real_server *server)
{
    char *version[] = { server->argv[0], server->version_option, NULL };
    struct host_file file = { .name = server->config_name };
    struct host_fixture f;
    struct host_target_event event;
    struct host_usage usage;
    char *config;

    if (!installed(server->program))
        skip();
    host_fixture_init(&f, "unused", NULL, NULL);
    config = with_port(server->config, f.port);
    file.data = (struct ls_bytes){ (const unsigned char *)config, strlen(config) };
    f.spec.files = &file;
    f.spec.file_count = 1;
    f.spec.argv = server->argv;
    f.spec.version_argv = version;
    for (int i = 0; i < 2; i++) { /* twice on the same port, in a folder that is fresh */
        if (i > 0)
            host_fixture_again(&f);
        host_fixture_up(&f, &event);
        assert_memory_equal(event.program.version, server->version_begins,
                            strlen(server->version_begins));
        assert_int_equal(event.program.path[0], '/');
        do /* the first worker answers before the second is there */
            assert_int_equal(host_target_usage(f.target, 1, &usage), LS_OK);
        while (usage.processes < server->processes);
        assert_true(usage.cpu_ns > 0);
        host_fixture_down(&f, &event);
        assert_true(event.stopped_by_us);
        assert_int_equal(event.left_over, 0);
    }
    host_fixture_fini(&f);
    free(config);
}

static void nginx_is_run_again_and_again(void **state)
{
    struct real_server nginx = {
        .program = "nginx",
        .version_option = (char[]){ "-v" },
        .version_begins = "nginx version: ",
        .config_name = "nginx.conf",
        .config = "daemon off; worker_processes 2; pid nginx.pid; error_log stderr;\n"
                  "events { worker_connections 64; }\n"
                  "http { access_log off; client_body_temp_path b; proxy_temp_path p;\n"
                  "  fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n"
                  "  server { listen 127.0.0.1:PORT;\n"
                  "    location / { return 200 \"Hello, World!\"; } } }\n",
        .argv = { (char[]){ "nginx" }, (char[]){ "-p" }, (char[]){ "." }, (char[]){ "-c" },
                  (char[]){ "nginx.conf" } },
        .processes = 3,
    };

    (void)state;
    run_real(&nginx);
}

static void node_is_run_again_and_again(void **state)
{
    struct real_server node = {
        .program = "node",
        .version_option = (char[]){ "--version" },
        .version_begins = "v",
        .config_name = "server.mjs",
        .config = "import { createServer } from 'node:http';\n"
                  "createServer((_, res) => res.end('Hello, World!')).listen(PORT, '127.0.0.1');\n",
        .argv = { (char[]){ "node" }, (char[]){ "server.mjs" } },
        .processes = 1,
    };

    (void)state;
    run_real(&node);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_comes_up_is_measured_and_leaves_nothing),
        cmocka_unit_test(a_target_gets_what_the_plan_says_and_nothing_else),
        cmocka_unit_test(files_are_written_below_the_folder_only),
        cmocka_unit_test(a_target_runs_on_the_cpus_it_was_given),
        cmocka_unit_test(cpus_that_are_not_there_are_refused_by_name),
        cmocka_unit_test(a_target_that_exits_is_explained_with_its_last_words),
        cmocka_unit_test(a_target_that_does_not_get_ready_is_explained),
        cmocka_unit_test(wrong_answers_at_first_are_waited_out),
        cmocka_unit_test(a_target_that_leaves_for_the_background_is_told_to_stay),
        cmocka_unit_test(programs_that_cannot_run_are_explained),
        cmocka_unit_test(a_script_is_named_as_one),
        cmocka_unit_test(a_port_in_use_is_noticed_even_when_it_could_be_shared),
        cmocka_unit_test(a_port_that_stays_in_use_is_reported),
        cmocka_unit_test(hosts_that_are_none_are_refused),
        cmocka_unit_test(a_target_that_ignores_term_is_killed_after_its_grace_time),
        cmocka_unit_test(whatever_a_target_starts_goes_with_it),
        cmocka_unit_test(a_target_that_dies_is_reported_at_once),
        cmocka_unit_test(each_process_gets_the_stop_signal_once),
        cmocka_unit_test(who_has_died_before_the_stop_was_not_stopped_by_us),
        cmocka_unit_test(a_stop_while_starting_leads_to_stopped_alone),
        cmocka_unit_test(destroying_a_target_kills_it),
        cmocka_unit_test(a_talkative_target_is_read_and_its_log_is_bounded),
        cmocka_unit_test(a_target_may_call_itself_what_it_likes),
        cmocka_unit_test(senseless_specs_are_refused_at_once),
        cmocka_unit_test(nginx_is_run_again_and_again),
        cmocka_unit_test(node_is_run_again_and_again),
    };

    host_target_main_hook(argc, argv);
    host_play_hook(argc, argv);
    return cmocka_run_group_tests_name("agent.host_target", tests, host_fixture_begin,
                                       host_fixture_sweep);
}
