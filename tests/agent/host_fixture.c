#include "tests/agent/host_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/host/proc.h"
#include "common/clock.h"
#include "common/fs.h"
#include "tests/support/test.h"

#define MARK  "LS_TEST_MARK="
#define GROUP "LS_TEST_GROUP"

static const char request_text[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
static const char answer_text[] = "Hello, World!";

uint16_t host_fixture_free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static void wake(void *ctx)
{
    (void)eventfd_write(*(const int *)ctx, 1);
}

static void prepare_request(struct host_fixture *f, uint16_t port)
{
    struct sockaddr_in *address = (struct sockaddr_in *)&f->ready.address;

    f->request = (struct load_request){
        .bytes = { (const unsigned char *)request_text, sizeof(request_text) - 1 },
        .label = "GET /",
        .expect_status = 200,
        .expect_body_given = true,
        .expect_body = { (const unsigned char *)answer_text, sizeof(answer_text) - 1 },
    };
    f->ready = (struct load_workload){ .driver = "http1",
                                       .link = "tcp",
                                       .address_len = sizeof(*address),
                                       .requests = &f->request,
                                       .request_count = 1,
                                       .pipeline = 1,
                                       .connections = 1 };
    address->sin_family = AF_INET;
    address->sin_port = htons(port);
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

/* The same for this process and the agents that it starts. */
static const char *group(void)
{
    static char own[16];

    if (getenv(GROUP) == NULL) {
        (void)snprintf(own, sizeof(own), "%d", (int)getpid());
        assert_int_equal(setenv(GROUP, own, 1), 0);
    }
    return getenv(GROUP);
}

void host_fixture_init(struct host_fixture *f, const char *role, const char *first,
                       const char *second)
{
    static unsigned counter;
    const char *args[] = { role, first, second };
    uint16_t port = host_fixture_free_port();
    ssize_t n;

    *f = (struct host_fixture){ .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
    assert_int_equal(ls_fs_private_dir("lockstep-test", f->dir, sizeof(f->dir), NULL), LS_OK);
    n = readlink("/proc/self/exe", f->self, sizeof(f->self) - 1);
    assert_true(n > 0);
    (void)snprintf(f->port, sizeof(f->port), "%u", port);
    (void)snprintf(f->mark, sizeof(f->mark), MARK "%s-%d-%u", group(), (int)getpid(), counter++);
    f->argv[0] = f->self;
    f->argv[1] = strdup("--play");
    for (int i = 0; i < 3 && args[i] != NULL; i++)
        f->argv[2 + i] = strdup(strcmp(args[i], "{port}") == 0 ? f->port : args[i]);
    f->envp[0] = strdup("PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    f->envp[1] = f->mark;
    prepare_request(f, port);
    f->spec = (struct host_target_spec){ .dir = f->dir,
                                         .argv = f->argv,
                                         .envp = f->envp,
                                         .host = "127.0.0.1",
                                         .port = port,
                                         .ready = &f->ready,
                                         .ready_timeout_ns = FIXTURE_PATIENCE_NS,
                                         .stop_signal = SIGTERM,
                                         .grace_ns = FIXTURE_PATIENCE_NS / 2,
                                         .log_max_bytes = 1u << 20 };
}

void host_fixture_fini(struct host_fixture *f)
{
    host_target_destroy(f->target);
    f->target = NULL;
    assert_int_equal(host_fixture_alive(f->mark), 0);
    assert_int_equal(ls_fs_remove_tree(f->dir, NULL), LS_OK);
    for (int i = 1; i < 5; i++)
        free(f->argv[i]);
    free(f->envp[0]);
    (void)close(f->wake_fd);
}

void host_fixture_start(struct host_fixture *f)
{
    struct host_env env = { wake, &f->wake_fd };
    struct ls_diag diag = { 0 };

    if (host_target_start(&f->spec, &env, &f->target, &diag) != LS_OK)
        fail_msg("cannot start: %s", diag.text);
}

static const char *const kinds[] = { "nothing", "UP", "FAILED", "EXITED", "STOPPED" };

void host_fixture_expect(struct host_fixture *f, enum host_target_event_kind kind,
                         struct host_target_event *out)
{
    int64_t give_up_ns = ls_clock_mono_ns() + FIXTURE_PATIENCE_NS;
    struct pollfd wait = { .fd = f->wake_fd, .events = POLLIN };

    while (!host_target_poll(f->target, out)) {
        if (ls_clock_mono_ns() > give_up_ns)
            fail_msg("waited in vain for %s", kinds[kind]);
        (void)poll(&wait, 1, 1000);
        (void)eventfd_read(f->wake_fd, &(eventfd_t){ 0 });
    }
    if (out->kind != kind)
        fail_msg("%s instead of %s: code \"%s\": %s\n%s", kinds[out->kind], kinds[kind], out->code,
                 out->diag.text, out->log_tail);
}

void host_fixture_up(struct host_fixture *f, struct host_target_event *out)
{
    host_fixture_start(f);
    host_fixture_expect(f, HOST_TARGET_UP, out);
}

void host_fixture_down(struct host_fixture *f, struct host_target_event *out)
{
    host_target_stop(f->target);
    host_fixture_expect(f, HOST_TARGET_STOPPED, out);
    assert_string_equal(out->code, "");
    assert_int_equal(host_fixture_alive(f->mark), 0);
}

void host_fixture_again(struct host_fixture *f)
{
    host_target_destroy(f->target);
    f->target = NULL;
    assert_int_equal(ls_fs_remove_tree(f->dir, NULL), LS_OK);
    assert_int_equal(mkdir(f->dir, 0700), 0);
}

void host_fixture_not_ready(struct host_fixture *f, const char *saying, uint64_t requests,
                            struct host_target_event *out)
{
    struct host_target_event end;

    for (;; f->spec.ready_timeout_ns *= 4) {
        host_fixture_start(f);
        host_fixture_expect(f, HOST_TARGET_FAILED, out);
        assert_string_equal(out->code, "not_ready");
        if (strstr(out->diag.text, saying) != NULL && out->readiness_requests >= requests)
            return;
        if (f->spec.ready_timeout_ns > FIXTURE_PATIENCE_NS / 6)
            fail_msg("\"%s\" after %llu requests does not say \"%s\"", out->diag.text,
                     (unsigned long long)out->readiness_requests, saying);
        host_fixture_down(f, &end);
        host_fixture_again(f);
    }
}

/* Does its environment hold a variable that begins so? */
static bool carries(pid_t pid, const char *mark, size_t len)
{
    char path[48], environment[16384];
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    n = host_proc_slurp(path, environment, sizeof(environment));
    for (ssize_t i = 0; i + (ssize_t)len <= n + 1; i++) { /* a NUL ends each, the last one too */
        if (memcmp(environment + i, mark, len) == 0)
            return true;
    }
    return false;
}

/* Those that carry the mark; signal 0: only counted. */
static unsigned signal_marked(const char *mark, size_t len, int signal)
{
    pid_t *pids = NULL;
    size_t count = 0;
    unsigned found = 0;

    assert_int_equal(host_proc_list(&pids, &count, NULL), LS_OK);
    for (size_t i = 0; i < count; i++) {
        if (!carries(pids[i], mark, len))
            continue;
        found++;
        if (signal != 0)
            (void)kill(pids[i], signal);
    }
    free(pids);
    return found;
}

unsigned host_fixture_alive(const char *mark)
{
    return signal_marked(mark, strlen(mark) + 1, 0); /* with the NUL: no longer mark is meant */
}

int host_fixture_begin(void **state)
{
    (void)state;
    (void)group(); /* for agents to inherit */
    return 0;
}

int host_fixture_sweep(void **state)
{
    char mark[64];

    (void)state;
    (void)snprintf(mark, sizeof(mark), MARK "%s-", group());
    for (int i = 0; i < 1000 && signal_marked(mark, strlen(mark), SIGKILL) > 0; i++)
        ls_clock_sleep_until(ls_clock_mono_ns() + LS_NS_PER_MS);
    return 0;
}

bool host_fixture_await_alive(const char *mark, unsigned count)
{
    int64_t give_up_ns = ls_clock_mono_ns() + FIXTURE_PATIENCE_NS;

    while (host_fixture_alive(mark) != count) {
        if (ls_clock_mono_ns() > give_up_ns)
            return false;
        ls_clock_sleep_until(ls_clock_mono_ns() + 5 * LS_NS_PER_MS);
    }
    return true;
}

const char *host_fixture_log(const struct host_fixture *f)
{
    static char text[65536];
    char path[300];

    (void)snprintf(path, sizeof(path), "%s/target.log", f->dir);
    assert_true(host_proc_slurp(path, text, sizeof(text)) >= 0);
    return text;
}

void host_fixture_await_announced(const struct host_fixture *f, unsigned count)
{
    int64_t give_up_ns = ls_clock_mono_ns() + FIXTURE_PATIENCE_NS;
    unsigned found;

    do {
        found = 0;
        for (const char *at = host_fixture_log(f); *at != '\0'; at++)
            found += *at == '+';
        if (ls_clock_mono_ns() > give_up_ns)
            fail_msg("%u of %u processes have announced themselves", found, count);
        ls_clock_sleep_until(ls_clock_mono_ns() + LS_NS_PER_MS);
    } while (found < count);
}
