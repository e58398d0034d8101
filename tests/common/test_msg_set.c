#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_json.h"
#include "common/msg_marks.h"
#include "common/msg_yaml.h"
#include "proto/plan.pb-c.h"
#include "tests/support/failmalloc.h"

static const char plan_text[] = "name: p\n"
                                "targets:\n"
                                "  - {name: nginx, command: [nginx, -g], env: {A: b}, port: 1}\n"
                                "  - {name: node, command: [node], port: 2}\n"
                                "workloads:\n"
                                "  - {name: w, load: {closed: {}}, targets: [nginx, node]}\n";

struct fixture {
    struct ls_issues issues;
    ProtobufCMessage *plan;
    struct ls_marks *marks;
};

static void begin(struct fixture *f)
{
    *f = (struct fixture){ .plan = NULL };
    ls_issues_init(&f->issues, "p.yaml");
    if (ls_msg_from_yaml(&ls__plan__descriptor,
                         (struct ls_bytes){ (const unsigned char *)plan_text, strlen(plan_text) },
                         &f->issues, &f->plan, &f->marks) != LS_OK)
        fail_msg("the plan of this test is wrong");
}

static void end(struct fixture *f)
{
    protobuf_c_message_free_unpacked(f->plan, NULL);
    ls_marks_destroy(f->marks);
    ls_issues_fini(&f->issues);
}

static bool json_has(const ProtobufCMessage *message, const char *part)
{
    char *json = ls_msg_to_json(message, 0);
    bool found = json != NULL && strstr(json, part) != NULL;

    if (!found)
        print_error("%s\nlacks %s\n", json == NULL ? "(null)" : json, part);
    free(json);
    return found;
}

static void a_path_leads_to_any_field_element_or_entry(void **state)
{
    static const struct {
        const char *path;
        const char *value;
        const char *part; /* of the JSON afterwards */
    } rows[] = {
        { "name", "q", "{\"name\":\"q\"" },
        { "name", "a: {b", "{\"name\":\"a: {b\"" }, /* texts are taken as they are */
        { "name", "", "{\"name\":\"\"" },
        { "targets[0].port", "9000", "-g\"],\"env\":{\"A\":\"b\"},\"port\":9000" },
        { "targets[node].port", "9000", "[\"node\"],\"port\":9000" },
        { "targets[1].name", "deno", "{\"name\":\"deno\"" },
        { "targets[0].command", "[a, \"b c\"]", "\"command\":[\"a\",\"b c\"]" },
        { "targets[0].command[1]", "-c [x]", "\"command\":[\"nginx\",\"-c [x]\"]" },
        { "targets[0].env.A", "c", "\"env\":{\"A\":\"c\"}" },
        { "targets[0].env[B.C]", "{d}", "\"env\":{\"A\":\"b\",\"B.C\":\"{d}\"}" },
        { "targets[0].env", "{X: y}", "\"env\":{\"X\":\"y\"}" },
        { "targets[1].env.X.Y", "z", "\"env\":{\"X.Y\":\"z\"}" },
        { "targets[1].stop.grace", "2s", "\"stop\":{\"grace\":\"2s\"}" },
        { "targets[1].ready.request.expect.status", "201",
          "\"ready\":{\"request\":{\"expect\":{\"status\":201}}}" },
        { "targets[1]", "{name: z, port: 3}", "{\"name\":\"z\",\"port\":3}]" },
        { "targets", "[]", "{\"name\":\"p\",\"workloads\"" },
        { "schedule.repetitions", "1", "\"schedule\":{\"repetitions\":1}" },
        { "schedule.order", "shuffled", "\"schedule\":{\"order\":\"shuffled\"}" },
        { "workloads[w].measure", "2s", "\"measure\":\"2s\"" },
        { "workloads[0].load.closed.requests", "1k",
          "\"load\":{\"closed\":{\"requests\":\"1k\"}}" },
        { "workloads[0].load.constant.rate", "5k/s",
          "\"load\":{\"constant\":{\"rate\":\"5k/s\"}}" },
        { "workloads[0].load.constant", "{rate: 1/s}",
          "\"load\":{\"constant\":{\"rate\":\"1/s\"}}" },
        { "workloads[0].targets[1]", "deno", "\"targets\":[\"nginx\",\"deno\"]" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct fixture f;

        begin(&f);
        assert_int_equal(ls_msg_set(f.plan, f.marks, rows[i].path, rows[i].value, &f.issues),
                         LS_OK);
        assert_int_equal(f.issues.count, 0);
        assert_true(json_has(f.plan, rows[i].part));
        end(&f);
    }
}

static void a_mistake_is_said_and_changes_nothing(void **state)
{
    static const struct {
        const char *path;
        const char *value;
        const char *issue;
    } rows[] = {
        { "nmae", "x", "nmae: unknown key: did you mean 'name'?" },
        { "", "x",
          "[\"\"]: unknown key: known here are name, description, fleet, targets, workloads, "
          "schedule, tables" },
        { "targets[2].port", "1", "targets: there is no [2]: there are 2, counted from 0" },
        { "targets[99999999999999999999].port", "1",
          "targets: there is no [99999999999999999999]: there are 2, counted from 0" },
        { "targets[nod].port", "1",
          "targets: none of these is called 'nod': did you mean 'node'?" },
        { "targets[-1].port", "1",
          "targets: none of these is called '-1': take a number from 0 on, or a name" },
        { "targets[].port", "1", "targets: ']' is missing: write a number or a name in brackets" },
        { "targets[0", "1", "targets: ']' is missing: write a number or a name in brackets" },
        { "targets[0]port", "1", "targets[0]: '.' is expected behind ']'" },
        { "targets.port", "1", "targets: is a list: name one of it, such as targets[0]" },
        { "fleet[0]", "1", "fleet: is no list: leave out the brackets" },
        { "name.x", "1", "name: has no parts: leave out what is behind it" },
        { "workloads[0].measure.ns", "1",
          "workloads[0].measure: has no parts: leave out what is behind it" },
        { "targets[0].env[A", "1", "targets[0].env: ']' is missing at the end" },
        { "targets[0].env.", "1", "targets[0].env: a name is missing behind it" },
        { "targets[0].port", "x", "targets[0].port: 'x' is not a whole number" },
        { "targets[0].port", "", "targets[0].port: is empty: a whole number is expected" },
        { "targets[0].command", "nginx -p x",
          "targets[0].command: a list is expected: write [nginx, -p, x]" },
        { "targets[0].command", "[a", "targets[0].command: '[' is never closed: ']' is missing" },
        { "targets[1]", "{port: x}", "targets[1].port: 'x' is not a whole number" },
        { "targets[1].stop.grace", "2", "targets[1].stop.grace: 2 has no unit: write 2s or 2ms" },
        { "workloads[0].load.constant.rate", "5",
          "workloads[0].load.constant.rate: 5 has no unit: "
          "write 5/s" },
        { "schedule.order", "x",
          "schedule.order: 'x' is none of interleaved, sequential, shuffled" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        char expected[300];
        struct fixture f;
        char *before;
        char *after;
        char *text;

        begin(&f);
        before = ls_msg_to_json(f.plan, 0);
        assert_int_equal(ls_msg_set(f.plan, f.marks, rows[i].path, rows[i].value, &f.issues),
                         LS_EINVAL);
        after = ls_msg_to_json(f.plan, 0);
        text = ls_issues_format(&f.issues);
        (void)snprintf(expected, sizeof(expected), "--set: %s\n", rows[i].issue);
        assert_string_equal(text, expected);
        assert_string_equal(before, after);
        free(text);
        free(before);
        free(after);
        end(&f);
    }
}

static void later_issues_about_it_show_where_it_came_from(void **state)
{
    struct fixture f;
    Ls__Plan *plan;
    char *text;

    (void)state;
    begin(&f);
    plan = (Ls__Plan *)f.plan;
    assert_int_equal(ls_msg_set(f.plan, f.marks, "targets[0].port", "0", &f.issues), LS_OK);
    assert_int_equal(ls_msg_set(f.plan, f.marks, "targets[1].stop.grace", "9h", &f.issues), LS_OK);
    assert_int_equal(ls_msg_set(f.plan, f.marks, "workloads[0].targets[1]", "x", &f.issues), LS_OK);
    ls_issues_add_at(&f.issues, f.marks, &plan->targets[1]->base, "port", -1, "from the file");
    ls_issues_add_at(&f.issues, f.marks, &plan->targets[0]->base, "port", -1, "bad");
    ls_issues_add_at(&f.issues, f.marks, &plan->targets[1]->stop->base, "grace", -1, "long");
    ls_issues_add_at(&f.issues, f.marks, &plan->workloads[0]->base, "targets", 1, "unknown");
    ls_issues_add_at(&f.issues, f.marks, &plan->workloads[0]->base, "targets", 0, "known");
    ls_issues_sort(&f.issues);
    text = ls_issues_format(&f.issues);
    assert_string_equal(text, "p.yaml:4:41: targets[1].port: from the file\n"
                              "p.yaml:6:45: workloads[0].targets[0]: known\n"
                              "--set: targets[0].port: bad\n"
                              "--set: targets[1].stop.grace: long\n"
                              "--set: workloads[0].targets[1]: unknown\n");
    free(text);
    end(&f);
}

static void marks_of_an_earlier_message_at_the_same_address_are_forgotten(void **state)
{
    const struct ls_mark first = { .line = 7, .column = 1 };
    const struct ls_mark second = { .line = 9, .column = 1 };
    const ProtobufCFieldDescriptor *port =
        protobuf_c_message_descriptor_get_field_by_name(&ls__target__descriptor, "port");
    Ls__Target target = LS__TARGET__INIT;
    struct ls_marks *marks = ls_marks_create();
    struct ls_issues issues;

    (void)state;
    ls_issues_init(&issues, "p.yaml");
    assert_int_equal(ls_marks_put_message(marks, &target.base, NULL, NULL, -1, &first), LS_OK);
    assert_int_equal(ls_marks_put(marks, &target.base, port, -1, &first), LS_OK);
    assert_int_equal(ls_marks_put_message(marks, &target.base, NULL, NULL, -1, &second), LS_OK);
    ls_issues_add_at(&issues, marks, &target.base, "port", -1, "is missing");
    assert_int_equal(issues.items[0].line, 9);
    ls_issues_fini(&issues);
    ls_marks_destroy(marks);
}

static void set_once(void *ctx)
{
    const char *const *change = ctx;
    struct fixture f = { .plan = NULL };
    enum ls_err rc;

    ls_issues_init(&f.issues, "p.yaml");
    rc = ls_msg_from_yaml(&ls__plan__descriptor,
                          (struct ls_bytes){ (const unsigned char *)plan_text, strlen(plan_text) },
                          &f.issues, &f.plan, &f.marks);
    if (rc == LS_OK) {
        rc = ls_msg_set(f.plan, f.marks, change[0], change[1], &f.issues);
        assert_true(rc == LS_OK || (rc == LS_ENOMEM && failmalloc_hit()));
        protobuf_c_message_free_unpacked(f.plan, NULL);
    }
    ls_marks_destroy(f.marks);
    ls_issues_fini(&f.issues);
}

static void every_failed_allocation_is_survived(void **state)
{
    const char *changes[][2] = { { "targets[1].ready.request.path", "/x" },
                                 { "targets[0].env.Q", "r" },
                                 { "targets[0].command", "[a, b]" },
                                 { "workloads[0].load.constant.rate", "5/s" } };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(changes); i++)
        assert_true(failmalloc_each(set_once, changes[i]) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_leads_to_any_field_element_or_entry),
        cmocka_unit_test(a_mistake_is_said_and_changes_nothing),
        cmocka_unit_test(later_issues_about_it_show_where_it_came_from),
        cmocka_unit_test(marks_of_an_earlier_message_at_the_same_address_are_forgotten),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests_name("common.msg_set", tests, NULL, NULL);
}
