#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/link.h"
#include "common/clock.h"
#include "common/schedule.h"
#include "tests/support/load_run.h"
#include "tests/support/rude_server.h"

#define MS LS_NS_PER_MS

/* A load of the null protocol over TCP on a server with that script, to its end. */
static enum load_io io; /* which link, and whether it stamps: each test runs over each */
static bool stamps;

struct scene {
    struct rude_script script;
    struct load_workload workload;
    struct load_window window;
    struct load_run run;
    uint64_t received; /* by the server */
    uint64_t accepted;
    int64_t longest_ns; /* response time */
};

static void prepare(struct scene *scene)
{
    *scene = (struct scene){ .workload = load_run_null_workload() };
    scene->workload.link = "tcp";
    scene->workload.io = io;
    scene->workload.stamps = stamps ? LOAD_STAMPS_ON : LOAD_STAMPS_OFF;
}

static void play_once(struct scene *scene, int64_t lead_ns)
{
    struct rude_server *server = rude_server_start(&scene->script);

    rude_server_address(server, &scene->workload.address, &scene->workload.address_len);
    load_run_init(&scene->run, &scene->workload);
    scene->window = load_run_window(lead_ns, 20 * MS, 100 * MS);
    load_run_all(&scene->run, &scene->window);
    scene->received = rude_server_received(server);
    scene->accepted = rude_server_connections(server);
    scene->longest_ns = ls_hist_max(scene->run.series[LS_SERIES_RESPONSE_TIME]);
    load_run_fini(&scene->run);
    rude_server_stop(server);
}

/* A load that was armed too late has opened its connections twice: then counts prove nothing. */
static void play(struct scene *scene)
{
    int64_t lead_ns = 300 * MS;

    do {
        assert_true(lead_ns < 20 * LS_NS_PER_S);
        play_once(scene, lead_ns);
        lead_ns *= 2;
    } while (scene->run.seen[LOAD_EVENT_LATE] > 0);
}

static uint64_t outcome(const struct scene *scene, enum load_outcome outcome)
{
    return scene->run.totals.warmup.outcome[outcome] + scene->run.totals.measure.outcome[outcome];
}

static uint64_t sent(const struct scene *scene)
{
    return scene->run.totals.warmup.sent + scene->run.totals.measure.sent;
}

static void what_the_server_received_is_what_was_sent(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct scene scene;

        prepare(&scene);
        scene.workload.workers = scene.workload.workers_total = workers;
        scene.workload.pipeline = 1 + workers;
        scene.workload.connections = 7;
        play(&scene);
        assert_int_equal(scene.received, sent(&scene));
        assert_int_equal(outcome(&scene, LOAD_OK), sent(&scene));
        assert_int_equal(scene.accepted, 7);
        assert_int_equal(scene.run.totals.connections.opened, 7);
        assert_int_equal(scene.run.totals.connections.peak, 7);
        assert_true(scene.run.totals.bytes_out > 0);
        assert_string_equal(scene.run.totals.sample, "");
    }
}

static void an_open_loop_sends_its_schedule_and_no_more(void **state)
{
    struct scene scene;

    (void)state;
    prepare(&scene);
    scene.workload.law = LOAD_LAW_CONSTANT;
    scene.workload.rate_per_s = 1777;
    scene.workload.workers = scene.workload.workers_total = 2;
    play(&scene);
    assert_int_equal(scene.run.totals.warmup.scheduled,
                     ls_schedule_count(&(struct ls_arrivals){ .rate_per_s = 1777 }, 0, 0, 20 * MS));
    assert_int_equal(
        scene.run.totals.measure.scheduled,
        ls_schedule_count(&(struct ls_arrivals){ .rate_per_s = 1777 }, 0, 20 * MS, 120 * MS));
    assert_int_equal(scene.received, sent(&scene));
}

static void resets_and_early_closes_are_counted_and_the_load_goes_on(void **state)
{
    static const struct {
        enum rude_end then;
        enum load_outcome outcome, or_else; /* a close with requests unread resets as well */
    } rows[] = { { RUDE_RESET, LOAD_RESET, LOAD_RESET },
                 { RUDE_FIN, LOAD_CLOSED_EARLY, LOAD_RESET } };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct scene scene;
        uint64_t lost;

        prepare(&scene);
        scene.script = (struct rude_script){ .answers = 5, .then = rows[i].then };
        scene.workload.pipeline = 2;
        play(&scene);
        lost = outcome(&scene, rows[i].outcome);
        if (rows[i].or_else != rows[i].outcome)
            lost += outcome(&scene, rows[i].or_else);
        assert_true(lost > 0);
        assert_int_equal(lost + outcome(&scene, LOAD_OK), sent(&scene));
        assert_true(scene.run.totals.connections.reopened > 0);
        assert_int_equal(scene.run.totals.connections.failed, 0);
        assert_non_null(strstr(scene.run.totals.sample, "a byte: "));
    }
}

static void silence_ends_as_timeouts_on_time(void **state)
{
    static const enum rude_end ends[] = { RUDE_SILENCE, RUDE_STALL };

    (void)state;
    for (size_t i = 0, tries = 0; i < LS_ARRAY_LEN(ends); tries++) {
        struct scene scene;
        uint64_t timeouts;

        prepare(&scene);
        scene.script = (struct rude_script){ .answers = 3, .then = ends[i] };
        scene.workload.timeout_ns = 30 * MS;
        scene.workload.pipeline = 2;
        play(&scene);
        timeouts = outcome(&scene, LOAD_TIMEOUT);
        assert_true(timeouts > 0);
        assert_int_equal(timeouts + outcome(&scene, LOAD_ABORTED) + outcome(&scene, LOAD_OK),
                         sent(&scene));
        assert_true(scene.run.totals.measure.outcome[LOAD_TIMEOUT] > 0);
        assert_true(scene.longest_ns >= 30 * MS);
        /* A busy machine may find the window over before it comes to open them again. */
        assert_true(scene.run.totals.connections.reopened > 0 || tries < 5);
        i += scene.run.totals.connections.reopened > 0;
    }
}

static void answers_nobody_asked_for_close_the_connection(void **state)
{
    struct scene scene = { 0 };

    (void)state;
    /* A busy machine may find the window over before it comes to open them again. */
    for (int tries = 0; tries < 5 && scene.run.totals.connections.reopened == 0; tries++) {
        prepare(&scene);
        scene.script = (struct rude_script){ .answers = 4, .then = RUDE_BABBLE };
        play(&scene);
        assert_true(outcome(&scene, LOAD_OK) > 0);
    }
    assert_true(scene.run.totals.connections.reopened > 0);
}

static void a_server_that_closes_idle_connections_causes_no_errors(void **state)
{
    struct scene scene;

    (void)state;
    prepare(&scene);
    scene.script = (struct rude_script){ .answers = 1, .then = RUDE_FIN };
    scene.workload.law = LOAD_LAW_CONSTANT;
    scene.workload.rate_per_s = 200;
    scene.workload.connections = 100; /* each is used every half second */
    play(&scene);
    assert_int_equal(outcome(&scene, LOAD_OK), 24);
    assert_int_equal(sent(&scene), 24);
    assert_true(scene.run.totals.connections.reopened > 0);
    assert_string_equal(scene.run.totals.sample, "");
}

static void connections_are_not_opened_before_their_instant(void **state)
{
    struct rude_script script = { 0 };
    struct rude_server *server = rude_server_start(&script);
    struct scene scene;

    (void)state;
    prepare(&scene);
    rude_server_address(server, &scene.workload.address, &scene.workload.address_len);
    load_run_init(&scene.run, &scene.workload);
    scene.window = load_run_window(400 * MS, 0, 20 * MS);
    scene.window.open_ns = scene.window.start_ns - 200 * MS;
    load_run_arm(&scene.run, &scene.window);
    while (ls_clock_mono_ns() < scene.window.open_ns - 20 * MS) {
        uint64_t accepted = rude_server_connections(server);

        /* The clock after the count: what came late is not to be blamed on us. */
        assert_true(accepted == 0 || ls_clock_mono_ns() >= scene.window.open_ns);
        ls_clock_sleep_until(ls_clock_mono_ns() + 10 * MS);
    }
    if (load_run_next(&scene.run) == LOAD_EVENT_ARMED) { /* or LATE, on a busy machine */
        assert_true(ls_clock_mono_ns() >= scene.window.open_ns);
        load_run_until(&scene.run, LOAD_EVENT_DONE);
        assert_int_equal(rude_server_connections(server), 4);
    }
    load_run_fini(&scene.run);
    rude_server_stop(server);
}

/* Real-time priority is for the start alone. */
static void the_load_runs_at_ordinary_priority(void **state)
{
    struct rude_script script = { 0 };
    struct rude_server *server = rude_server_start(&script);
    unsigned workers = 0;
    struct scene scene;
    struct dirent *task;
    DIR *tasks;

    (void)state;
    prepare(&scene);
    scene.workload.workers = scene.workload.workers_total = 2;
    rude_server_address(server, &scene.workload.address, &scene.workload.address_len);
    load_run_init(&scene.run, &scene.workload);
    scene.window = load_run_window(300 * MS, 0, 200 * MS);
    load_run_to_start(&scene.run, &scene.window);
    load_run_until(&scene.run, LOAD_EVENT_INTERVAL);
    tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    while ((task = readdir(tasks)) != NULL) {
        char path[300], name[32] = "";
        FILE *file;

        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
        file = fopen(path, "re");
        if (file == NULL)
            continue;
        (void)!fgets(name, sizeof(name), file);
        (void)fclose(file);
        if (strncmp(name, "load-", 5) != 0)
            continue;
        assert_int_equal(sched_getscheduler((pid_t)strtol(task->d_name, NULL, 10)), SCHED_OTHER);
        workers++;
    }
    (void)closedir(tasks);
    assert_true(workers <= 2);
    load_run_until(&scene.run, LOAD_EVENT_DONE);
    load_run_fini(&scene.run);
    rude_server_stop(server);
}

static void arrivals_at_a_silent_server_queue_and_are_shed(void **state)
{
    struct scene scene;

    (void)state;
    prepare(&scene);
    scene.script = (struct rude_script){ .answers = 0, .then = RUDE_SILENCE };
    scene.workload.law = LOAD_LAW_CONSTANT;
    scene.workload.rate_per_s = 5000;
    scene.workload.queue_max = 10;
    scene.workload.timeout_ns = 60 * MS;
    play(&scene);
    assert_int_equal(scene.run.totals.warmup.scheduled + scene.run.totals.measure.scheduled, 600);
    assert_true(scene.run.totals.measure.shed > 0);
    assert_int_equal(outcome(&scene, LOAD_OK), 0);
}

static void refused_connections_are_counted_and_the_start_is_made(void **state)
{
    struct scene scene;

    (void)state;
    prepare(&scene);
    rude_nobody(&scene.workload.address, &scene.workload.address_len);
    load_run_init(&scene.run, &scene.workload);
    scene.window = load_run_window(100 * MS, 0, 50 * MS);
    load_run_all(&scene.run, &scene.window);
    assert_int_equal(scene.run.totals.measure.sent, 0);
    assert_int_equal(scene.run.totals.connections.opened, 0);
    assert_true(scene.run.totals.connections.failed >= 4);
    assert_int_equal(scene.run.totals.connections.failures[0].error, ECONNREFUSED);
    assert_int_equal(scene.run.totals.connections.failures[0].count,
                     scene.run.totals.connections.failed);
    load_run_fini(&scene.run);
}

/* ---- http1, from preflight to the end -------------------------------------------------------- */

static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

static struct load_request hello_request(const char *body)
{
    static const char text[] = "GET /hello HTTP/1.1\r\nHost: here\r\n\r\n";

    return (struct load_request){
        .bytes = { .data = (const unsigned char *)text, .len = sizeof(text) - 1 },
        .label = "GET /hello",
        .expect_status = 200,
        .expect_body_given = true,
        .expect_body = { .data = (const unsigned char *)body, .len = strlen(body) },
    };
}

static void http1_is_verified_from_the_preflight_on(void **state)
{
    struct load_request requests[] = { hello_request("hello"), hello_request("hello") };
    struct rude_script script = { .greeting = hello };
    struct rude_server *server = rude_server_start(&script);
    struct scene scene;

    (void)state;
    prepare(&scene);
    scene.workload.driver = "http1";
    scene.workload.requests = requests;
    scene.workload.request_count = 2;
    scene.workload.pipeline = 4;
    rude_server_address(server, &scene.workload.address, &scene.workload.address_len);
    load_run_init(&scene.run, &scene.workload);
    assert_int_equal(agent_load_preflight(scene.run.load, NULL), LS_OK);
    load_run_until(&scene.run, LOAD_EVENT_PREFLIGHT);
    if (!scene.run.last.ok)
        fail_msg("%s", scene.run.last.diag.text);
    assert_int_equal(scene.run.last.preflight.outcome[LOAD_OK], 2);
    scene.window = load_run_window(300 * MS, 20 * MS, 60 * MS);
    load_run_all(&scene.run, &scene.window);
    assert_int_equal(outcome(&scene, LOAD_OK), sent(&scene));
    assert_int_equal(scene.run.totals.preflight.sent, 2);
    assert_int_equal(rude_server_received(server), (sent(&scene) + 2) * requests[0].bytes.len);
    load_run_fini(&scene.run);
    rude_server_stop(server);
}

static void a_preflight_names_the_request_and_what_was_got_instead(void **state)
{
    struct load_request requests[] = { hello_request("hello"), hello_request("jello") };
    struct rude_script script = { .greeting = hello };
    struct rude_server *server = rude_server_start(&script);
    struct scene scene;

    (void)state;
    prepare(&scene);
    scene.workload.driver = "http1";
    scene.workload.requests = requests;
    scene.workload.request_count = 2;
    rude_server_address(server, &scene.workload.address, &scene.workload.address_len);
    load_run_init(&scene.run, &scene.workload);
    assert_int_equal(agent_load_preflight(scene.run.load, NULL), LS_OK);
    load_run_until(&scene.run, LOAD_EVENT_PREFLIGHT);
    assert_false(scene.run.last.ok);
    assert_non_null(strstr(scene.run.last.diag.text, "request 2 of 2"));
    assert_non_null(strstr(scene.run.last.diag.text, "GET /hello"));
    assert_non_null(strstr(scene.run.last.diag.text, "hello"));
    assert_int_equal(scene.run.last.preflight.outcome[LOAD_OK], 1);
    assert_int_equal(scene.run.last.preflight.outcome[LOAD_BAD_BODY], 1);
    assert_true(load_counts_balance(&scene.run.last.preflight));
    load_run_fini(&scene.run);
    rude_server_stop(server);
}

static void a_preflight_can_be_cancelled_and_destroyed(void **state)
{
    struct load_request request = hello_request("hello");
    struct rude_script script = { .answers = 0, .then = RUDE_SILENCE };
    struct rude_server *server = rude_server_start(&script);
    struct scene scene;

    (void)state;
    prepare(&scene);
    scene.workload.driver = "http1";
    scene.workload.requests = &request;
    scene.workload.timeout_ns = 60 * LS_NS_PER_S;
    rude_server_address(server, &scene.workload.address, &scene.workload.address_len);
    load_run_init(&scene.run, &scene.workload);
    assert_int_equal(agent_load_preflight(scene.run.load, NULL), LS_OK);
    assert_int_equal(agent_load_preflight(scene.run.load, NULL), LS_ESTATE);
    assert_false(agent_load_stop(scene.run.load, NULL));
    load_run_until(&scene.run, LOAD_EVENT_PREFLIGHT);
    assert_false(scene.run.last.ok);
    assert_int_equal(scene.run.last.diag.code, LS_ESTATE);
    assert_true(load_counts_balance(&scene.run.last.preflight));
    assert_int_equal(agent_load_preflight(scene.run.load, NULL), LS_OK);
    load_run_fini(&scene.run); /* while it runs */
    rude_server_stop(server);
}

static void a_min_wait_is_had_or_the_reason_is_said(void **state)
{
    struct scene scene;
    struct load_run run;
    const char *reason;
    struct ls_diag why = { 0 };
    const struct agent_link_class *uring = agent_link_find("tcp", "io_uring");

    (void)state;
    prepare(&scene);
    scene.workload.min_wait_ns = MS / 2;
    scene.workload.connections = 7;
    play(&scene);
    assert_true(sent(&scene) > 0);
    assert_int_equal(outcome(&scene, LOAD_OK), sent(&scene));

    load_run_init(&run, &scene.workload);
    reason = agent_load_io_reason(run.load);
    if (io == LOAD_IO_LIBEV)
        assert_string_equal(reason, "min_wait has no effect: it needs io_uring");
    else if (uring->probe_min_wait(&why) != LS_OK)
        assert_non_null(strstr(reason, why.text));
    else
        assert_string_equal(reason, "");
    load_run_fini(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_server_received_is_what_was_sent),
        cmocka_unit_test(an_open_loop_sends_its_schedule_and_no_more),
        cmocka_unit_test(resets_and_early_closes_are_counted_and_the_load_goes_on),
        cmocka_unit_test(silence_ends_as_timeouts_on_time),
        cmocka_unit_test(answers_nobody_asked_for_close_the_connection),
        cmocka_unit_test(a_server_that_closes_idle_connections_causes_no_errors),
        cmocka_unit_test(connections_are_not_opened_before_their_instant),
        cmocka_unit_test(the_load_runs_at_ordinary_priority),
        cmocka_unit_test(arrivals_at_a_silent_server_queue_and_are_shed),
        cmocka_unit_test(a_min_wait_is_had_or_the_reason_is_said),
        cmocka_unit_test(refused_connections_are_counted_and_the_start_is_made),
        cmocka_unit_test(http1_is_verified_from_the_preflight_on),
        cmocka_unit_test(a_preflight_names_the_request_and_what_was_got_instead),
        cmocka_unit_test(a_preflight_can_be_cancelled_and_destroyed),
    };
    int failed = 0;

    for (unsigned with = 0; with < 4; with++) {
        const struct agent_link_class *link;
        struct ls_diag why = { 0 };
        struct ls_diag diag;

        io = with % 2 == 0 ? LOAD_IO_LIBEV : LOAD_IO_URING;
        stamps = with >= 2;
        if (agent_link_choose("tcp", io, &link, &why, &diag) != LS_OK) {
            print_message("skipped: %s\n", diag.text);
            continue;
        }
        print_message("over %s%s\n", link->io, stamps ? ", with receive stamps" : "");
        failed += cmocka_run_group_tests_name("agent.load_tcp", tests, NULL, NULL);
    }
    return failed;
}
