/* Processes that die without a word: kill -9 of the coordinator and of the agent, again and again,
 * while reports and commands flow. The test starts itself in the two roles; the coordinator keeps
 * what it stored in a journal, which is what is looked at in the end. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/common/transport_rig.h"

#define REPORTS     20000u
#define DEADLINE_NS (40 * LS_NS_PER_S)

extern char **environ;

struct record { /* of the journal */
    uint64_t boot;
    uint64_t seq;
    uint64_t value;
};

static uint64_t value_of(uint64_t boot, uint64_t seq)
{
    return (boot * 1000003 + seq) * UINT64_C(0x9e3779b97f4a7c15);
}

/* ---- the coordinator's process ---- */

struct coordinator {
    struct ls_peer *peer;
    uint64_t boot;
    uint64_t stored[100]; /* by boot */
    int journal;
};

static enum ls_err coord_enrol(void *ctx, struct ls_peer *peer, const Ls__Hello *hello,
                               void **out_ctx, struct ls_diag *diag)
{
    struct coordinator *c = ctx;

    (void)diag;
    c->peer = peer;
    c->boot = strtoull(hello->boot_id, NULL, 10);
    if (c->boot >= LS_ARRAY_LEN(c->stored))
        return LS_EINVAL;
    ls_peer_set_stored(peer, c->stored[c->boot]);
    *out_ctx = c;
    return LS_OK;
}

static void coord_up(void *ctx, void *peer_ctx)
{
    (void)ctx;
    (void)peer_ctx;
}

static void coord_down(void *ctx, void *peer_ctx, const char *why)
{
    (void)ctx;
    (void)peer_ctx;
    (void)why;
}

static enum ls_err coord_report(void *ctx, void *peer_ctx, const Ls__Envelope *report)
{
    struct coordinator *c = ctx;
    struct record record = { .boot = c->boot, .seq = report->seq };

    (void)peer_ctx;
    record.value = report->target_log->offset;
    if (write(c->journal, &record, sizeof(record)) != sizeof(record))
        return LS_EIO;
    /* A command now and then, as it would be. A full outbox is fine: there will be others. */
    if (report->seq % 10 == 0)
        (void)!rig_command(c->peer, report->seq);
    return LS_OK;
}

static int run_coordinator(const char *url, const char *journal)
{
    static struct coordinator c;
    struct ls_listener_env env = {
        .enrol = coord_enrol, .up = coord_up, .down = coord_down, .report = coord_report, .ctx = &c
    };
    struct ls_listener *listener = NULL;
    struct ls_diag diag = { 0 };
    struct record record;

    c.journal = open(journal, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    while (read(c.journal, &record, sizeof(record)) == (ssize_t)sizeof(record))
        c.stored[record.boot] = record.seq;
    if (ls_listener_create(EV_DEFAULT,
                           &(struct ls_listener_options){ .url = url, .run_id = "run-1" }, &env,
                           &listener, &diag) != LS_OK) {
        (void)fprintf(stderr, "coordinator: %s\n", diag.text);
        return 1;
    }
    ev_run(EV_DEFAULT, 0);
    return 0;
}

/* ---- the agent's process ---- */

struct agent {
    struct ls_dialer *dialer;
    uint64_t boot;
    uint64_t made;
    uint64_t total;
    uint64_t commands;
    bool wrong;
};

static void agent_up(void *ctx, bool resumed)
{
    (void)ctx;
    (void)resumed;
}

static void agent_down(void *ctx, const char *why)
{
    (void)ctx;
    (void)why;
}

static void agent_command(void *ctx, const Ls__Envelope *command)
{
    struct agent *a = ctx;

    if (command->seq != ++a->commands)
        a->wrong = true;
}

static void agent_refused(void *ctx, const char *code, const char *text)
{
    struct agent *a = ctx;

    (void)fprintf(stderr, "agent: refused: %s: %s\n", code, text);
    a->wrong = true;
}

/* Whatever there is room for, each time before the loop waits. */
static void agent_produce(struct ev_loop *loop, ev_timer *w, int events)
{
    struct agent *a = w->data;

    (void)events;
    while (a->made < a->total && ls_dialer_room(a->dialer) > 0 &&
           rig_report(a->dialer, value_of(a->boot, a->made + 1)) == LS_OK)
        a->made++;
    if (a->wrong || (a->made == a->total && ls_dialer_unacked(a->dialer) == 0))
        ev_break(loop, EVBREAK_ALL);
}

static int run_agent(const char *url, const char *boot, uint64_t total)
{
    struct agent a = { .boot = strtoull(boot, NULL, 10), .total = total };
    struct ls_dialer_env env = { .up = agent_up,
                                 .down = agent_down,
                                 .command = agent_command,
                                 .refused = agent_refused,
                                 .ctx = &a };
    struct ls_dialer_options options = { .url = url, .reports_max = 256 };
    Ls__Hello hello = LS__HELLO__INIT;
    struct ls_diag diag = { 0 };
    char name[] = "client-1";
    char boot_id[32];
    ev_timer produce;

    (void)snprintf(boot_id, sizeof(boot_id), "%s", boot);
    hello.agent = name;
    hello.boot_id = boot_id;
    options.hello = &hello;
    if (ls_dialer_create(EV_DEFAULT, &options, &env, &a.dialer, &diag) != LS_OK) {
        (void)fprintf(stderr, "agent: %s\n", diag.text);
        return 1;
    }
    ev_timer_init(&produce, agent_produce, 0.0, 0.001);
    produce.data = &a;
    ev_timer_start(EV_DEFAULT, &produce);
    ev_run(EV_DEFAULT, 0);
    ls_dialer_destroy(a.dialer);
    ls_transport_fini();
    return a.wrong ? 1 : 0;
}

/* ---- the test ---- */

struct stage {
    struct tmpdir dir;
    char url[96];
    char journal[96];
};

static void stage_init(struct stage *stage)
{
    tmpdir_make(&stage->dir);
    (void)snprintf(stage->url, sizeof(stage->url), "ipc://%.80s/control", stage->dir.path);
    (void)snprintf(stage->journal, sizeof(stage->journal), "%.80s/journal", stage->dir.path);
}

static pid_t start(const char *role, const char *first, const char *second)
{
    char program[] = "/proc/self/exe";
    char args[3][96];
    char *argv[] = { program, args[0], args[1], args[2], NULL };
    pid_t pid = -1;

    (void)snprintf(args[0], sizeof(args[0]), "%s", role);
    (void)snprintf(args[1], sizeof(args[1]), "%s", first);
    (void)snprintf(args[2], sizeof(args[2]), "%s", second);
    assert_int_equal(posix_spawn(&pid, program, NULL, NULL, argv, environ), 0);
    return pid;
}

static void kill_it(pid_t pid)
{
    int status = 0;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status)); /* it had not ended by itself */
}

static uint64_t records(const struct stage *stage)
{
    struct stat st;

    return stat(stage->journal, &st) == 0 ? (uint64_t)st.st_size / sizeof(struct record) : 0;
}

static void pause_before(int64_t deadline_ns, const char *what)
{
    if (ls_clock_mono_ns() >= deadline_ns)
        fail_msg("not within the deadline: %s", what);
    ls_clock_sleep_until(ls_clock_mono_ns() + LS_NS_PER_MS);
}

static void wait_for_records(const struct stage *stage, uint64_t count)
{
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    while (records(stage) < count)
        pause_before(deadline_ns, "records in the journal");
}

static void wait_for_success(pid_t pid)
{
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0)
        pause_before(deadline_ns, "the agent's end");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Each boot's reports are there from 1 on, once, in order; the last boot's are complete. */
static void check_journal(const struct stage *stage, uint64_t last_boot)
{
    uint64_t seen[100] = { 0 };
    struct record record;
    FILE *file = fopen(stage->journal, "re");

    assert_non_null(file);
    while (fread(&record, sizeof(record), 1, file) == 1) {
        assert_true(record.boot < LS_ARRAY_LEN(seen));
        assert_int_equal(record.seq, ++seen[record.boot]);
        assert_int_equal(record.value, value_of(record.boot, record.seq));
    }
    (void)fclose(file);
    assert_int_equal(seen[last_boot], REPORTS);
}

static void a_coordinator_that_is_killed_takes_up_where_its_journal_ends(void **state)
{
    struct stage stage;
    pid_t coordinator;
    pid_t agent;

    (void)state;
    stage_init(&stage);
    coordinator = start("coordinator", stage.url, stage.journal);
    agent = start("agent", stage.url, "1");
    for (unsigned i = 1; i <= 8; i++) {
        wait_for_records(&stage, i * REPORTS / 10);
        kill_it(coordinator);
        coordinator = start("coordinator", stage.url, stage.journal);
    }
    wait_for_success(agent);
    kill_it(coordinator);
    check_journal(&stage, 1);
    tmpdir_remove(&stage.dir);
}

static void an_agent_that_is_killed_starts_again_as_another_process(void **state)
{
    struct stage stage;
    pid_t coordinator;
    pid_t agent;
    char boot[16];

    (void)state;
    stage_init(&stage);
    coordinator = start("coordinator", stage.url, stage.journal);
    for (unsigned i = 1; i <= 5; i++) {
        uint64_t before = records(&stage);

        (void)snprintf(boot, sizeof(boot), "%u", i);
        agent = start(i < 5 ? "endless" : "agent", stage.url, boot);
        if (i < 5) {
            wait_for_records(&stage, before + REPORTS / 10);
            kill_it(agent);
        } else {
            wait_for_success(agent);
        }
    }
    kill_it(coordinator);
    check_journal(&stage, 5);
    tmpdir_remove(&stage.dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_coordinator_that_is_killed_takes_up_where_its_journal_ends),
        cmocka_unit_test(an_agent_that_is_killed_starts_again_as_another_process),
    };

    if (argc == 4) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives the test */
        rig_set_pace();
        if (strcmp(argv[1], "coordinator") == 0)
            return run_coordinator(argv[2], argv[3]);
        return run_agent(argv[2], argv[3], strcmp(argv[1], "agent") == 0 ? REPORTS : UINT64_MAX);
    }
    return cmocka_run_group_tests_name("common.transport_kill", tests, NULL, NULL);
}
