#include "tests/support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/msg_json.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/plan/plan_check.h"
#include "coordinator/plan/plan_file.h"
#include "coordinator/plan/trials.h"
#include "tests/support/failmalloc.h"

#define QUICKSTART LS_SOURCE "/deploy/plans/quickstart.yaml"

static const char small[] = "targets: [{name: t, command: [x], port: 1}]\n"
                            "workloads: [{name: w, http: {requests: [{}]}}]\n";

struct fixture {
    struct ls_issues issues;
    struct coord_plan plan;
    enum ls_err rc;
};

static struct fixture open_source(const struct coord_plan_source *source)
{
    struct fixture f = { .rc = LS_OK };

    ls_issues_init(&f.issues, source->file);
    f.rc = coord_plan_open(source, &f.issues, &f.plan);
    return f;
}

static struct fixture open_text(const char *text)
{
    return open_source(&(struct coord_plan_source){
        .file = "dir/my plan.yaml", .text = text, .text_bytes = strlen(text) });
}

static void end(struct fixture *f)
{
    coord_plan_close(&f->plan);
    ls_issues_fini(&f->issues);
}

static void assert_issues(const struct ls_issues *issues, const char *expected)
{
    char *text = ls_issues_format(issues);

    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

/* ---- good plans -------------------------------------------------------------------------------
 */

static void the_quickstart_plan_is_accepted_and_shown(void **state)
{
    struct fixture f = open_source(&(struct coord_plan_source){ .file = QUICKSTART });
    struct coord_trials trials;
    char *text;

    (void)state;
    assert_issues(&f.issues, "");
    assert_int_equal(f.rc, LS_OK);
    assert_string_equal(f.plan.base_dir, LS_SOURCE "/deploy/plans");
    assert_int_equal(coord_trials_expand(f.plan.plan, 42, NULL, &trials, NULL), LS_OK);
    text = coord_check_render(f.plan.plan, &trials,
                              &(struct coord_host_limits){ .files = 1024, .files_raised = 1024 });
    assert_string_equal(
        text, "quickstart: Hello, World! from two servers, three times each, in turn\n"
              "6 trials, interleaved, seed 42; about 1m3s, at most 3m9s\n"
              "\n"
              "#  target  workload  rep  load                    warm-up   measure\n"
              "1  nginx   hello       1  closed, 64 connections  3s        5s\n"
              "2  node    hello       1  closed, 64 connections  3s        5s\n"
              "3  nginx   hello       2  closed, 64 connections  3s        5s\n"
              "4  node    hello       2  closed, 64 connections  3s        5s\n"
              "5  nginx   hello       3  closed, 64 connections  3s        5s\n"
              "6  node    hello       3  closed, 64 connections  3s        5s\n"
              "\n"
              "agents            1 server, 2 clients; CPUs: server auto, client auto\n"
              "connections       64 at once, 32 of one client\n"
              "requests          64 unanswered at most\n"
              "file descriptors  160 of a client, 64 of a target for its connections; a process "
              "may have 1024 here\n"
              "memory            about 144 KiB for the connections of one client\n");
    free(text);
    coord_trials_fini(&trials);
    end(&f);
}

static void every_default_is_filled_in(void **state)
{
    struct fixture f = open_text(small);
    char *json;

    (void)state;
    assert_issues(&f.issues, "");
    assert_int_equal(f.rc, LS_OK);
    json = ls_msg_to_json(&f.plan.plan->base, 0);
    assert_string_equal(
        json,
        "{\"name\":\"my-plan\",\"fleet\":{\"clients\":1,\"servers\":1,\"cpus\":{\"server\":"
        "\"auto\",\"client\":\"auto\",\"allow_overlap\":false},\"max_start_skew\":\"5ms\","
        "\"on_agent_loss\":\"abort\"},\"targets\":[{\"name\":\"t\",\"command\":[\"x\"],"
        "\"host\":\"auto\",\"port\":1,\"external\":false,\"ready\":{\"request\":{"
        "\"method\":\"GET\",\"path\":\"/\"},\"timeout\":\"10s\",\"processes\":1},\"stop\":{\"signal\":"
        "\"TERM\",\"grace\":\"6s\"},\"instances\":1,\"network\":\"host\"}],\"workloads\":[{\"name\":\"w\",\"http\":{\"requests\":"
        "[{\"method\":\"GET\",\"path\":\"/\",\"weight\":1}],\"pipeline\":1,\"version\":\"http1\"},\"connections\":64,\"load\":{"
        "\"closed\":{}},\"warmup\":\"3s\",\"measure\":\"10s\",\"timeout\":\"5s\","
        "\"interval\":\"1s\",\"pacing\":\"precise\",\"io\":\"auto\",\"receive_stamps\":\"auto\"}],\"schedule\":{\"repetitions\":3,\"order\":\"interleaved\",\"discard\":0}}");
    free(json);
    end(&f);
}

/* What "lockstep check" says of the plan. Returns out. */
static const char *shown_by_check(const struct fixture *f, char *out, size_t out_bytes)
{
    struct coord_trials trials;
    char *text;

    assert_int_equal(coord_trials_expand(f->plan.plan, 42, NULL, &trials, NULL), LS_OK);
    text = coord_check_render(f->plan.plan, &trials, &(struct coord_host_limits){ .files = 1024 });
    assert_non_null(text);
    (void)snprintf(out, out_bytes, "%s", text);
    free(text);
    coord_trials_fini(&trials);
    return out;
}

static void tls_is_off_unless_it_is_given_and_then_complete(void **state)
{
    struct fixture f = open_text("targets: [{name: t, external: true, port: 1, tls: {}}]\n"
                                 "workloads: [{name: w, http: {requests: [{path: /}]}}]\n");
    char shown[4096];
    Ls__Tls *tls;

    (void)state;
    assert_issues(&f.issues, "");
    assert_int_equal(f.rc, LS_OK);
    tls = f.plan.plan->targets[0]->tls;
    assert_non_null(tls);
    assert_true(tls->has_verify && tls->verify && tls->has_resume && tls->resume);
    assert_string_equal(tls->min_version, "1.2");
    assert_string_equal(tls->max_version, "1.3");
    assert_int_equal(tls->n_alpn, 1);
    assert_string_equal(tls->alpn[0], "http/1.1");
    assert_null(tls->server_name); /* the agents take it from the request */
    assert_null(strstr(shown_by_check(&f, shown, sizeof(shown)), "certificate"));
    tls->verify = false;
    assert_non_null(strstr(shown_by_check(&f, shown, sizeof(shown)),
                           "note: t may have any certificate: tls.verify is false\n"));
    end(&f);
    f = open_text(small);
    assert_null(f.plan.plan->targets[0]->tls);
    end(&f);
}

static void http2_has_streams_in_place_of_a_pipeline(void **state)
{
    static const char streams[] =
        "targets: [{name: t, external: true, port: 1}]\n"
        "workloads:\n"
        "  - {name: a, http: {version: http2, streams: 16, requests: [{path: /}]}}\n"
        "  - {name: b, http: {version: http2, requests: [{path: /}]}}\n"
        "  - {name: c, http: {version: http1, pipeline: 4, requests: [{path: /}]}}\n";
    struct fixture f = open_text(streams);
    char shown[4096];

    (void)state;
    assert_issues(&f.issues, "");
    assert_int_equal(f.rc, LS_OK);
    assert_false(f.plan.plan->workloads[0]->http->has_pipeline);
    assert_int_equal(coord_load_pipeline(f.plan.plan->workloads[0]), 16);
    assert_true(f.plan.plan->workloads[1]->http->has_streams);
    assert_int_equal(coord_load_pipeline(f.plan.plan->workloads[1]), 1);
    assert_int_equal(coord_load_pipeline(f.plan.plan->workloads[2]), 4);
    (void)shown_by_check(&f, shown, sizeof(shown));
    assert_non_null(strstr(shown, "64 connections x 16 streams "));
    assert_non_null(strstr(shown, "64 connections x 1 stream "));
    assert_non_null(strstr(shown, "64 connections x 4 "));
    end(&f);
}

static void a_completed_plan_is_complete_and_stays_so(void **state)
{
    struct fixture f = open_text(small);
    struct fixture again;
    char *first = ls_msg_to_json(&f.plan.plan->base, 2);
    char *second;

    (void)state;
    again = open_text(first); /* our JSON is YAML, and a plan */
    assert_issues(&again.issues, "");
    assert_int_equal(again.rc, LS_OK);
    second = ls_msg_to_json(&again.plan.plan->base, 2);
    assert_string_equal(first, second);
    assert_int_equal(coord_plan_check(f.plan.plan, NULL, ".", &f.issues), LS_OK);
    free(first);
    free(second);
    end(&f);
    end(&again);
}

/* Whatever the first trial, the target is asked the same. */
static void readiness_is_asked_for_with_the_first_values(void **state)
{
    static const char text[] =
        "targets: [{name: t, command: [x], port: 1}]\n"
        "workloads:\n"
        "  - name: w\n"
        "    http:\n"
        "      data: {file: varied.csv}\n"
        "      requests:\n"
        "        - {path: '/{csv:id}/{seq:10-99}', headers: {X: '{rand:3-5}{{x}'}, weight: 3,\n"
        "           body: '{\"a\": {pick:b,c}}', expect: {body: '{csv:name} {seq}', decode: gzip}}\n"
        "        - {path: /, method: POST, body_file: varied.csv, expect: {body_file: varied.csv}}\n";
    struct fixture f = open_source(
        &(struct coord_plan_source){ .file = "p.yaml",
                                     .text = text,
                                     .text_bytes = sizeof(text) - 1,
                                     .base_dir = LS_SOURCE "/tests/coordinator/bad_plans" });
    const Ls__Request *request;
    const Ls__Http *http;

    (void)state;
    assert_issues(&f.issues, "");
    assert_int_equal(f.rc, LS_OK);
    request = f.plan.plan->targets[0]->ready->request;
    assert_string_equal(request->path, "/1/10");
    assert_string_equal(request->headers[0]->value, "3{{x}");
    assert_string_equal(request->body, "{{\"a\": b}");
    assert_string_equal(request->expect->body, "a b 10");
    assert_int_equal(request->expect->decode, LS__DECODE__DECODE_GZIP);
    assert_false(request->has_weight);
    http = f.plan.plan->workloads[0]->http;
    assert_string_equal(http->requests[0]->path, "/{csv:id}/{seq:10-99}"); /* as it was */
    assert_int_equal(http->data->order, LS__DATA_ORDER__DATA_ORDER_SEQUENTIAL);
    assert_true(http->data->has_order && http->requests[1]->has_weight);
    end(&f);
}

static void defaults_look_at_what_is_given(void **state)
{
    struct fixture f =
        open_text("targets:\n"
                  "  - {name: a, command: [x], port: 1, stop: {signal: sigquit}}\n"
                  "  - {name: b, command: [x], port: 1, ready: {request: {path: /up}}}\n"
                  "workloads:\n"
                  "  - {name: only-b, http: {requests: [{path: /b}]}, targets: [b]}\n"
                  "  - {name: all, http: {requests: [{path: /1, expect: {body: x}}, {}]},\n"
                  "     measure: 500ms}\n");
    const Ls__Plan *plan = f.plan.plan;

    (void)state;
    assert_issues(&f.issues, "");
    assert_string_equal(plan->targets[0]->stop->signal, "QUIT");
    assert_string_equal(plan->targets[0]->ready->request->path, "/1");
    assert_string_equal(plan->targets[0]->ready->request->expect->body, "x");
    assert_string_equal(plan->targets[1]->ready->request->path, "/up");
    assert_int_equal(plan->workloads[1]->interval->ns, 500000000);
    end(&f);
}

static void without_targets_to_start_there_is_no_server(void **state)
{
    struct fixture f = open_text("targets: [{name: t, external: true, port: 1, host: \"::1\"}]\n"
                                 "workloads: [{name: w, http: {requests: [{}]}}]\n");

    (void)state;
    assert_issues(&f.issues, "");
    assert_int_equal(f.plan.plan->fleet->servers, 0);
    end(&f);
}

/* ---- files ------------------------------------------------------------------------------------
 */

static void assert_unreadable(const char *path, enum ls_err rc, const char *text)
{
    struct fixture f = open_source(&(struct coord_plan_source){ .file = path });
    char expected[300];

    (void)snprintf(expected, sizeof(expected), "%s: %s\n", path, text);
    assert_issues(&f.issues, expected);
    assert_int_equal(f.rc, rc);
    assert_null(f.plan.plan);
    end(&f);
}

static void write_file(const char *path, const char *data, size_t len)
{
    if (ls_fs_write(path, (struct ls_bytes){ (const unsigned char *)data, len }, 0600, NULL) !=
        LS_OK)
        fail_msg("cannot write %s", path);
}

static void files_that_are_no_plans_are_named_as_what_they_are(void **state)
{
    static char large[LS_YAML_MAX_BYTES + 1];
    char dir[128];
    char path[200];

    (void)state;
    assert_int_equal(ls_fs_private_dir("ls-plan", dir, sizeof(dir), NULL), LS_OK);
    assert_unreadable(dir, LS_EIO, "is a folder: name the plan file in it");
    (void)snprintf(path, sizeof(path), "%s/none.yaml", dir);
    assert_unreadable(path, LS_EIO, "cannot be read: No such file or directory");
    (void)snprintf(path, sizeof(path), "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_unreadable(path, LS_EIO, "is not a regular file");
    (void)snprintf(path, sizeof(path), "%s/empty.yaml", dir);
    write_file(path, "", 0);
    assert_unreadable(path, LS_EINVAL, "is empty: a plan needs targets and workloads");
    (void)snprintf(path, sizeof(path), "%s/large.yaml", dir);
    write_file(path, large, sizeof(large));
    assert_unreadable(path, LS_EINVAL, "is 4194305 bytes long: the limit is 4 MiB");
    assert_int_equal(ls_fs_remove_tree(dir, NULL), LS_OK);
}

static void the_hash_is_that_of_the_text_as_given(void **state)
{
    struct fixture f = open_text(small);
    char sha[LS_SHA256_HEX];

    (void)state;
    ls_sha256_hex((struct ls_bytes){ (const unsigned char *)small, strlen(small) }, sha);
    assert_string_equal(f.plan.sha256, sha);
    assert_string_equal(f.plan.text, small);
    assert_string_equal(f.plan.base_dir, "dir");
    end(&f);
}

static void loading_alone_checks_nothing(void **state)
{
    struct ls_issues issues;
    struct ls_marks *marks = NULL;
    Ls__Plan *plan = NULL;
    char sha[LS_SHA256_HEX];
    char file_sha[LS_SHA256_HEX];

    (void)state;
    ls_issues_init(&issues, QUICKSTART);
    assert_int_equal(coord_plan_load(QUICKSTART, &issues, &plan, &marks, sha), LS_OK);
    assert_null(plan->workloads[0]->interval);
    assert_int_equal(ls_sha256_file(QUICKSTART, file_sha, NULL), LS_OK);
    assert_string_equal(sha, file_sha);
    ls__plan__free_unpacked(plan, NULL);
    ls_marks_destroy(marks);
    ls_issues_fini(&issues);
}

/* ---- changes ----------------------------------------------------------------------------------
 */

static void changes_are_made_in_order_and_checked_like_the_file(void **state)
{
    static const char *const good[] = { "targets[t].port=2", "targets[0].port=3",
                                        "schedule.repetitions=1" };
    static const char *const bad[] = { "targets[t].port=0", "nonsense", "=x",
                                       "workloads[0].measure=2", "workloads[0].targets=[u]" };
    struct coord_plan_source source = {
        .file = "p.yaml", .text = small, .text_bytes = strlen(small), .set = good, .set_count = 3
    };
    struct fixture f = open_source(&source);

    (void)state;
    assert_issues(&f.issues, "");
    assert_int_equal(f.plan.plan->targets[0]->port, 3);
    assert_int_equal(f.plan.plan->schedule->repetitions, 1);
    end(&f);

    source.set = bad;
    source.set_count = 5;
    f = open_source(&source);
    assert_int_equal(f.rc, LS_EINVAL);
    assert_issues(&f.issues,
                  "--set: 'nonsense' is no change: write path=value, such as "
                  "workloads[0].measure=2s\n"
                  "--set: '=x' is no change: write path=value, such as workloads[0].measure=2s\n"
                  "--set: workloads[0].measure: 2 has no unit: write 2s or 2ms\n"
                  "--set: targets[0].port: 0 is out of range: 1 to 65535\n"
                  "--set: workloads[0].targets[0]: there is no target 'u' in this plan\n");
    end(&f);
}

static void a_plan_that_was_made_is_checked_without_marks(void **state)
{
    Ls__Plan plan = LS__PLAN__INIT;
    struct ls_issues issues;

    (void)state;
    ls_issues_init(&issues, "made");
    assert_int_equal(coord_plan_check(&plan, NULL, NULL, &issues), LS_EINVAL);
    assert_issues(&issues,
                  "made: name: is missing: every plan needs one\n"
                  "made: targets: at least one is needed, for there is nothing to load\n"
                  "made: workloads: at least one is needed, for there is no load to make\n");
    ls_issues_fini(&issues);
}

/* ---- sizes ------------------------------------------------------------------------------------
 */

static void what_does_not_fit_into_a_frame_is_refused_beforehand(void **state)
{
    size_t len = 2u << 20;
    char *text = malloc(len + 512);
    size_t head;
    struct fixture f;

    (void)state;
    assert_non_null(text);
    head = (size_t)snprintf(text, 512,
                            "targets: [{name: t, command: [x], port: 1}]\n"
                            "workloads:\n"
                            "- name: w\n"
                            "  http: {requests: [{method: POST, body: \"");
    (void)memset(text + head, 'x', len);
    (void)snprintf(text + head + len, 64, "\"}]}\n");
    f = open_text(text);
    assert_int_equal(f.rc, LS_EINVAL);
    assert_int_equal(f.issues.count, 1);
    assert_int_equal(f.issues.items[0].line, 3);
    assert_non_null(strstr(f.issues.items[0].text, "at most 3932160 are allowed"));
    end(&f);
    free(text);
}

static void more_trials_than_anybody_waits_for_are_refused(void **state)
{
    struct fixture f = open_text("targets:\n"
                                 "- {name: a, command: [x], port: 1}\n"
                                 "- {name: b, command: [x], port: 1}\n"
                                 "- {name: c, command: [x], port: 1}\n"
                                 "- {name: d, command: [x], port: 1}\n"
                                 "workloads:\n"
                                 "- {name: a, http: {requests: [{}]}}\n"
                                 "- {name: b, http: {requests: [{}]}}\n"
                                 "- {name: c, http: {requests: [{}]}, targets: [a, b, c]}\n"
                                 "schedule: {repetitions: 1000}\n");

    (void)state;
    assert_issues(&f.issues,
                  "dir/my plan.yaml:7:1: workloads: 11 pairs of target and workload, 1000 times "
                  "each, are more than 10000 trials: repeat less often, or split the plan\n");
    end(&f);
}

/* ---- allocations ------------------------------------------------------------------------------
 */

static void open_once(void *ctx)
{
    static const char *const set[] = { "targets[0].env.A=b" };
    struct fixture f = open_source(&(struct coord_plan_source){
        .file = ctx, .base_dir = LS_SOURCE "/deploy/plans", .set = set, .set_count = 1 });

    assert_true(f.rc == LS_OK || failmalloc_hit());
    assert_true((f.rc == LS_OK) == (f.plan.plan != NULL));
    end(&f);
}

static void every_failed_allocation_is_survived(void **state)
{
    static char file[] = QUICKSTART;

    (void)state;
    assert_true(failmalloc_each(open_once, file) > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_quickstart_plan_is_accepted_and_shown),
        cmocka_unit_test(every_default_is_filled_in),
        cmocka_unit_test(tls_is_off_unless_it_is_given_and_then_complete),
        cmocka_unit_test(http2_has_streams_in_place_of_a_pipeline),
        cmocka_unit_test(a_completed_plan_is_complete_and_stays_so),
        cmocka_unit_test(readiness_is_asked_for_with_the_first_values),
        cmocka_unit_test(defaults_look_at_what_is_given),
        cmocka_unit_test(without_targets_to_start_there_is_no_server),
        cmocka_unit_test(files_that_are_no_plans_are_named_as_what_they_are),
        cmocka_unit_test(the_hash_is_that_of_the_text_as_given),
        cmocka_unit_test(loading_alone_checks_nothing),
        cmocka_unit_test(changes_are_made_in_order_and_checked_like_the_file),
        cmocka_unit_test(a_plan_that_was_made_is_checked_without_marks),
        cmocka_unit_test(what_does_not_fit_into_a_frame_is_refused_beforehand),
        cmocka_unit_test(more_trials_than_anybody_waits_for_are_refused),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests_name("coordinator.plan", tests, NULL, NULL);
}
