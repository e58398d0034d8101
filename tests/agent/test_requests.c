/* Requests that vary, from a Prepare command to a server that looks at each of them. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/build.h"
#include "agent/files.h"
#include "agent/load/mix.h"
#include "agent/load/variation.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/msg_json.h"
#include "common/pb.h"
#include "tests/support/check_server.h"
#include "tests/support/load_run.h"

#define TABLE "id,name\r\n7,ann\r\n8,\"b, \"\"ob\"\"\"\r\n9,\r\n"
#define MS    LS_NS_PER_MS

/* ---- what the agent gets -----------------------------------------------------------------------
 */

struct scene {
    struct agent_files *files;
    Ls__Plan *plan;
    Ls__FileRef refs[4];
    Ls__FileRef *ref_pointers[4];
    char digests[4][LS_SHA256_HEX];
    size_t ref_count;
};

static void ship(struct scene *scene, const char *name, struct ls_bytes content)
{
    size_t i = scene->ref_count++;
    Ls__PutFile piece = LS__PUT_FILE__INIT;

    ls_sha256_hex(content, scene->digests[i]);
    ls__file_ref__init(&scene->refs[i]);
    scene->refs[i].name = ls_pb_text(name);
    scene->refs[i].sha256 = scene->digests[i];
    scene->ref_pointers[i] = &scene->refs[i];
    piece.sha256 = scene->digests[i];
    piece.data.data = (unsigned char *)(uintptr_t)content.data;
    piece.data.len = content.len;
    piece.last = true;
    assert_int_equal(agent_files_put(scene->files, &piece, NULL), LS_OK);
}

/* http: the JSON of a workload's protocol. */
static void scene_init(struct scene *scene, const char *http)
{
    char text[4096];
    struct ls_diag diag = { 0 };
    ProtobufCMessage *message = NULL;

    *scene = (struct scene){ 0 };
    assert_int_equal(agent_files_create(NULL, &scene->files), LS_OK);
    ship(scene, "users.csv", (struct ls_bytes){ (const unsigned char *)TABLE, strlen(TABLE) });
    (void)snprintf(
        text, sizeof(text),
        "{\"targets\":[{\"name\":\"t\",\"host\":\"127.0.0.1\",\"port\":1}],\"workloads\":"
        "[{\"http\":%s,\"timeout\":\"60s\",\"load\":{\"closed\":{}}}]}",
        http);
    if (ls_msg_from_json(&ls__plan__descriptor,
                         (struct ls_bytes){ (const unsigned char *)text, strlen(text) }, &message,
                         &diag) != LS_OK)
        fail_msg("%s", diag.text);
    scene->plan = (Ls__Plan *)(void *)message;
}

static void scene_fini(struct scene *scene)
{
    agent_files_destroy(scene->files);
    ls__plan__free_unpacked(scene->plan, NULL);
}

/* Workers base .. base + workers - 1 of total. */
static struct agent_build *build(const struct scene *scene, uint32_t base, uint32_t workers,
                                 uint32_t total)
{
    Ls__Prepare prepare = LS__PREPARE__INIT;
    struct agent_build *made = NULL;
    struct ls_diag diag = { 0 };

    prepare.cpus = ls_pb_text("");
    prepare.target = scene->plan->targets[0];
    prepare.workload = scene->plan->workloads[0];
    prepare.plan_files = (Ls__FileRef **)(uintptr_t)scene->ref_pointers;
    prepare.n_plan_files = scene->ref_count;
    prepare.worker_base = base;
    prepare.workers = workers;
    prepare.workers_total = total;
    prepare.seed = 77;
    if (agent_build_workload(&prepare, scene->files, &made, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    return made;
}

static void refused(const char *http, const char *says)
{
    struct scene scene;
    Ls__Prepare prepare = LS__PREPARE__INIT;
    struct agent_build *made = NULL;
    struct ls_diag diag = { 0 };

    scene_init(&scene, http);
    prepare.target = scene.plan->targets[0];
    prepare.workload = scene.plan->workloads[0];
    prepare.plan_files = scene.ref_pointers;
    prepare.n_plan_files = scene.ref_count;
    prepare.workers = prepare.workers_total = 1;
    assert_int_not_equal(agent_build_workload(&prepare, scene.files, &made, &diag), LS_OK);
    if (strstr(diag.text, says) == NULL)
        fail_msg("'%s' instead of '%s'", diag.text, says);
    scene_fini(&scene);
}

/* ---- the server that looks ---------------------------------------------------------------------
 */

#define ITEMS 16

struct seen {
    unsigned item[ITEMS];
    unsigned row[3];
    unsigned digit[10];
    unsigned head[4];
    unsigned others;
};

static void say(struct ls_buf *out, const char *body, bool with_body)
{
    ls_buf_addf(out, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(body),
                with_body ? body : "");
}

static void look(void *ctx, const struct check_request *request, struct ls_buf *out)
{
    static const char *const names[] = { "ann", "b, \"ob\"", "" };
    struct seen *seen = ctx;
    char expected[64];
    char answer[64];
    unsigned n = 0;
    unsigned digit;
    int used = 0;

    if (strcmp(request->method, "GET") == 0 && request->body.len == 0 &&
        sscanf(request->target, "/item/%02u%n", &n, &used) == 1 && used == 8 &&
        request->target[used] == '\0' && n < ITEMS) {
        seen->item[n]++;
        (void)snprintf(answer, sizeof(answer), "item %02u", n);
        say(out, answer, true);
        return;
    }
    if (strcmp(request->method, "HEAD") == 0 && sscanf(request->target, "/head/%u", &n) == 1 &&
        n < 4) {
        seen->head[n]++;
        say(out, "whatever", false);
        return;
    }
    if (strcmp(request->method, "POST") == 0 && sscanf(request->target, "/user/%u", &n) == 1 &&
        n >= 7 && n <= 9 && request->body.len > 0) {
        digit = (unsigned)request->body.data[request->body.len - 1] - '0';
        (void)snprintf(expected, sizeof(expected), "{\"user\":\"%s\"}%u", names[n - 7], digit);
        (void)snprintf(answer, sizeof(answer), "\nX-User: %u\r", n);
        if (digit < 10 && strlen(expected) == request->body.len &&
            memcmp(expected, request->body.data, request->body.len) == 0 &&
            strstr(request->head, answer) != NULL) {
            seen->row[n - 7]++;
            seen->digit[digit]++;
            say(out, names[n - 7], true);
            return;
        }
    }
    if (strcmp(request->target, "/empty") == 0)
        ls_buf_adds(out, "HTTP/1.1 204 No Content\r\n\r\n");
    else
        ls_buf_adds(out, "HTTP/1.1 404 What\r\nContent-Length: 0\r\n\r\n");
    seen->others++;
}

/* Sends count requests with that many agents of that many workers each. */
static void play(const struct scene *scene, struct check_server *server, uint64_t count,
                 uint32_t agents, uint32_t workers)
{
    uint64_t ok = 0;

    for (uint32_t agent = 0; agent < agents; agent++) {
        struct agent_build *made = build(scene, agent * workers, workers, agents * workers);
        struct load_workload workload = *agent_build_get(made);
        struct load_window window = load_run_window(300 * MS, 0, 20000 * MS);
        struct load_run run;

        workload.count = count;
        workload.connections = 7;
        check_server_address(server, &workload.address, &workload.address_len);
        load_run_init(&run, &workload);
        load_run_all(&run, &window);
        if (run.totals.measure.outcome[LOAD_OK] != run.totals.measure.sent)
            fail_msg("%s", run.totals.sample);
        ok += run.totals.measure.outcome[LOAD_OK];
        load_run_fini(&run);
        agent_build_destroy(made);
    }
    assert_int_equal(ok, count);
}

static void each_value_is_sent_equally_often_whatever_the_number_of_workers(void **state)
{
    /* A period of 3 + 1 + 1 + 1 requests: 240 of them. */
    static const char http[] =
        "{\"pipeline\":16,\"data\":{\"file\":\"users.csv\"},\"requests\":["
        "{\"method\":\"GET\",\"path\":\"/item/{seq:00-15}\",\"weight\":6,"
        "\"expect\":{\"body\":\"item {seq}\"}},"
        "{\"method\":\"POST\",\"path\":\"/user/{csv:id}\",\"weight\":2,"
        "\"headers\":{\"X-User\":\"{csv:id}\"},"
        "\"body\":\"{\\\"user\\\":\\\"{csv:name}\\\"}{seq:5-9}\","
        "\"expect\":{\"status\":200,\"body\":\"{csv:name}\"}},"
        "{\"method\":\"HEAD\",\"path\":\"/head/{seq:0-3}\",\"weight\":2},"
        "{\"method\":\"GET\",\"path\":\"/empty\",\"weight\":2,\"expect\":{\"status\":204}}]}";

    (void)state;
    for (uint32_t agents = 1; agents <= 3; agents++) {
        /* 7: the requests cannot be divided evenly. One connection each at least. */
        for (uint32_t workers = 1; agents * workers <= 7; workers += workers == 2 ? 5 : 1) {
            struct seen seen = { .others = 0 };
            struct check_server *server = check_server_start(look, &seen);
            struct scene scene;

            scene_init(&scene, http);
            play(&scene, server, 6 * 240, agents, workers);
            scene_fini(&scene);
            check_server_stop(server);
            for (unsigned i = 0; i < ITEMS; i++)
                assert_int_equal(seen.item[i], 45);
            for (unsigned i = 0; i < 3; i++)
                assert_int_equal(seen.row[i], 80);
            for (unsigned i = 5; i < 10; i++)
                assert_int_equal(seen.digit[i], 48);
            for (unsigned i = 0; i < 4; i++)
                assert_int_equal(seen.head[i], 60);
            assert_int_equal(seen.others, 240);
        }
    }
}

/* ---- more than fit into a table ----------------------------------------------------------------
 */

#define NUMBERS 3000

static void look_at_numbers(void *ctx, const struct check_request *request, struct ls_buf *out)
{
    unsigned *seen = ctx;
    unsigned n = NUMBERS;
    char expected[64];

    if (sscanf(request->target, "/n/%u", &n) == 1 && n < NUMBERS) {
        (void)snprintf(expected, sizeof(expected), "value=%u", n);
        if (request->body.len == strlen(expected) &&
            memcmp(request->body.data, expected, request->body.len) == 0)
            seen[n]++;
    }
    (void)snprintf(expected, sizeof(expected), "%u is it", n);
    say(out, expected, true);
}

static void values_without_a_table_are_rendered_when_they_are_sent(void **state)
{
    static unsigned seen[NUMBERS];
    struct check_server *server;
    struct agent_build *made;
    struct scene scene;

    (void)state;
    server = check_server_start(look_at_numbers, seen);
    scene_init(&scene, "{\"pipeline\":5,\"requests\":[{\"method\":\"POST\",\"weight\":1,\"path\":"
                       "\"/n/{seq:0-99999999}\",\"body\":\"value={seq}\","
                       "\"expect\":{\"body\":\"{seq} is it\"}}]}");
    made = build(&scene, 0, 1, 1);
    assert_null(agent_build_get(made)->requests[0].varied->table);
    agent_build_destroy(made);
    play(&scene, server, NUMBERS, 1, 2);
    scene_fini(&scene);
    check_server_stop(server);
    for (unsigned i = 0; i < NUMBERS; i++)
        assert_int_equal(seen[i], 1);
}

/* A table and its absence are two ways to the same bytes. */
static void a_table_holds_what_would_be_rendered(void **state)
{
    struct scene scene;
    struct agent_build *made;
    const struct load_variation *v;
    static unsigned char bytes[1024];

    (void)state;
    scene_init(
        &scene,
        "{\"pipeline\":1,\"data\":{\"file\":\"users.csv\",\"order\":\"random\"},"
        "\"requests\":[{\"method\":\"PUT\",\"weight\":1,\"path\":\"/{rand:0-11}{pick:a,bb}\","
        "\"body\":\"{csv:name}{{{rand}\",\"expect\":{\"body\":\"{pick}-{csv:id}\"}}]}");
    made = build(&scene, 0, 1, 1);
    v = agent_build_get(made)->requests[0].varied;
    assert_non_null(v->table);
    assert_int_equal(v->table_len, 12 * 2 * 3);
    for (uint64_t turn = 0; turn < 1000; turn++) {
        const struct load_rendering *r = &v->table[load_variation_place(v, turn)];

        assert_int_equal(load_variation_render(v, turn, bytes), r->len);
        assert_true(r->len <= v->bytes_max);
        assert_memory_equal(bytes, r->bytes, r->len);
        assert_int_equal(load_variation_expect(v, turn, bytes), r->expect_len);
        assert_memory_equal(bytes, r->expect, r->expect_len);
    }
    agent_build_destroy(made);
    scene_fini(&scene);
}

/* ---- large and binary bodies -------------------------------------------------------------------
 */

#define LARGE (10u << 20)

static unsigned char *large;

static void look_at_large(void *ctx, const struct check_request *request, struct ls_buf *out)
{
    unsigned *same = ctx;

    *same += request->body.len == LARGE && memcmp(request->body.data, large, LARGE) == 0;
    ls_buf_addf(out, "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n\r\n", LARGE);
    ls_buf_add(out, large, LARGE);
}

static void bodies_from_files_may_be_large_and_hold_anything(void **state)
{
    unsigned same = 0;
    struct check_server *server;
    struct scene scene;

    (void)state;
    large = malloc(LARGE);
    assert_non_null(large);
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (unsigned char)(i * 7 + (i >> 9)); /* NUL and line ends are among them */
    server = check_server_start(look_at_large, &same);
    scene_init(&scene, "{\"pipeline\":1,\"requests\":[{\"method\":\"POST\",\"path\":\"/{seq:0-9}\","
                       "\"weight\":1,\"body_file\":\"big\",\"expect\":{\"body_file\":\"big\"}},"
                       "{\"method\":\"POST\",\"path\":\"/\",\"weight\":1,\"body_file\":\"big\","
                       "\"expect\":{\"body_file\":\"big\"}}]}");
    ship(&scene, "big", (struct ls_bytes){ large, LARGE });
    play(&scene, server, 6, 1, 1);
    check_server_stop(server);
    scene_fini(&scene);
    free(large);
    assert_int_equal(same, 6);
}

/* ---- what is refused here, too -----------------------------------------------------------------
 */

static void what_would_break_a_request_apart_is_refused(void **state)
{
    (void)state;
    refused("{\"pipeline\":1,\"data\":{\"file\":\"users.csv\"},\"requests\":[{\"method\":\"GET\","
            "\"path\":\"/{csv:name}\"}]}",
            "holds a space");
    refused("{\"pipeline\":1,\"requests\":[{\"method\":\"GET\",\"path\":\"/{csv:name}\"}]}",
            "needs a table");
    refused(
        "{\"pipeline\":1,\"requests\":[{\"method\":\"GET\",\"path\":\"/\",\"body_file\":\"x\"}]}",
        "did not come with the plan");
    refused("{\"pipeline\":1,\"requests\":[{\"method\":\"GET\",\"path\":\"/\",\"weight\":0}]}",
            "weight of 0");
    refused("{\"pipeline\":1,\"requests\":[{\"method\":\"GET\",\"path\":\"/\",\"expect\":"
            "{\"body\":\"{seq:0-9}\"}}]}",
            "stands for nothing");
}

static void a_value_with_a_tab_may_stand_in_a_header_but_not_in_a_path(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene,
               "{\"pipeline\":1,\"requests\":[{\"method\":\"GET\",\"path\":\"/\",\"weight\":1,"
               "\"headers\":{\"X\":\"{pick:a\\tb,c}\"}}]}");
    agent_build_destroy(build(&scene, 0, 1, 1));
    scene_fini(&scene);
    refused("{\"pipeline\":1,\"requests\":[{\"method\":\"GET\",\"path\":\"/{pick:a\\tb,c}\"}]}",
            "control byte");
}

/* ---- mixes -------------------------------------------------------------------------------------
 */

static void a_mix_is_exact_over_its_period_and_smooth_within(void **state)
{
    static const uint32_t weights[][4] = {
        { 1, 1, 1, 1 }, { 5, 1, 1, 1 }, { 10, 20, 30, 40 }, { 7, 1, 0, 0 }, { 999, 1, 0, 0 },
    };

    (void)state;
    for (size_t w = 0; w < LS_ARRAY_LEN(weights); w++) {
        struct load_request requests[4] = { [3] = { .label = "d" } };
        struct load_workload workload = { .requests = requests };
        struct load_place *mix = NULL;
        uint64_t total = 0;
        uint64_t seen[4] = { 0 };

        for (; workload.request_count < 4 && weights[w][workload.request_count] > 0;
             workload.request_count++) {
            requests[workload.request_count].weight = weights[w][workload.request_count];
            total += weights[w][workload.request_count];
        }
        assert_int_equal(
            load_mix_create(requests, workload.request_count, &mix, &workload.mix_len, NULL),
            LS_OK);
        workload.mix = mix;
        for (uint64_t k = 0; k < 3 * total; k++) {
            struct load_turn turn = load_workload_turn(&workload, k);

            assert_int_equal(turn.turn, seen[turn.request]++);
            assert_int_equal(load_workload_find(&workload, turn), k);
            for (uint32_t i = 0; i < workload.request_count; i++) {
                double due = (double)(k + 1) * weights[w][i] / (double)total;

                assert_true((double)seen[i] > due - 2 && (double)seen[i] < due + 2);
            }
        }
        for (uint32_t i = 0; i < workload.request_count; i++)
            assert_int_equal(seen[i], 3 * weights[w][i]);
        free(mix);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mix_is_exact_over_its_period_and_smooth_within),
        cmocka_unit_test(a_table_holds_what_would_be_rendered),
        cmocka_unit_test(what_would_break_a_request_apart_is_refused),
        cmocka_unit_test(a_value_with_a_tab_may_stand_in_a_header_but_not_in_a_path),
        cmocka_unit_test(each_value_is_sent_equally_often_whatever_the_number_of_workers),
        cmocka_unit_test(values_without_a_table_are_rendered_when_they_are_sent),
        cmocka_unit_test(bodies_from_files_may_be_large_and_hold_anything),
    };

    return cmocka_run_group_tests_name("agent.requests", tests, NULL, NULL);
}
