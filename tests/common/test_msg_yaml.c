#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_json.h"
#include "common/msg_yaml.h"
#include "proto/plan.pb-c.h"
#include "tests/support/failmalloc.h"

static struct ls_bytes bytes_of(const char *text)
{
    return (struct ls_bytes){ (const unsigned char *)text, strlen(text) };
}

struct reading {
    struct ls_issues issues;
    Ls__Plan *plan;
    struct ls_marks *marks;
    enum ls_err rc;
};

static struct reading read_bytes(struct ls_bytes text)
{
    struct reading r = { .plan = NULL };
    ProtobufCMessage *message = NULL;

    ls_issues_init(&r.issues, "p.yaml");
    r.rc = ls_msg_from_yaml(&ls__plan__descriptor, text, &r.issues, &message, &r.marks);
    r.plan = (Ls__Plan *)message;
    return r;
}

static struct reading read_text(const char *text)
{
    return read_bytes(bytes_of(text));
}

static void reading_end(struct reading *r)
{
    if (r->plan != NULL)
        ls__plan__free_unpacked(r->plan, NULL);
    ls_marks_destroy(r->marks);
    ls_issues_fini(&r->issues);
}

static void assert_issues(const struct ls_issues *issues, const char *expected)
{
    char *text = ls_issues_format(issues);

    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

/* What the plan text says, as JSON on one line. */
static void assert_reads_as(const char *text, const char *json)
{
    struct reading r = read_text(text);
    char *got;

    assert_issues(&r.issues, "");
    assert_int_equal(r.rc, LS_OK);
    got = ls_msg_to_json(&r.plan->base, 0);
    assert_string_equal(got, json);
    free(got);
    reading_end(&r);
}

static void assert_refused(const char *text, const char *expected)
{
    struct reading r = read_text(text);

    assert_issues(&r.issues, expected);
    assert_int_equal(r.rc, LS_EINVAL);
    assert_null(r.plan);
    assert_null(r.marks);
    reading_end(&r);
}

/* ---- values -----------------------------------------------------------------------------------
 */

static void every_shape_of_a_field_is_read(void **state)
{
    (void)state;
    assert_reads_as("name: x", "{\"name\":\"x\"}");
    assert_reads_as("{name: x}", "{\"name\":\"x\"}");
    assert_reads_as("\xef\xbb\xbfname: x # with a byte order mark\n", "{\"name\":\"x\"}");
    assert_reads_as("name: x\r\nfleet: {clients: 2}\r\n",
                    "{\"name\":\"x\",\"fleet\":{\"clients\":2}}");
    assert_reads_as("targets: []", "{}");
    assert_reads_as("targets: [{command: [a, 'b c', \"d\\te\"]}]",
                    "{\"targets\":[{\"command\":[\"a\",\"b c\",\"d\\te\"]}]}");
    assert_reads_as("targets: [{env: {Z: 1, A: true, M: ''}}]",
                    "{\"targets\":[{\"env\":{\"Z\":\"1\",\"A\":\"true\",\"M\":\"\"}}]}");
    assert_reads_as("schedule: {order: shuffled, seed: 18446744073709551615}",
                    "{\"schedule\":{\"order\":\"shuffled\",\"seed\":18446744073709551615}}");
    assert_reads_as("workloads: [{load: {constant: {rate: 20k/s}}, measure: 90s}]",
                    "{\"workloads\":[{\"load\":{\"constant\":{\"rate\":\"20k/s\"}},"
                    "\"measure\":\"1m30s\"}]}");
    assert_reads_as("workloads: [{load: {closed: {requests: 50000}}}]",
                    "{\"workloads\":[{\"load\":{\"closed\":{\"requests\":\"50k\"}}}]}");
    assert_reads_as("workloads:\n- load:\n    closed:\n",
                    "{\"workloads\":[{\"load\":{\"closed\":{}}}]}");
    assert_reads_as("fleet: {clients: \"2\"}", "{\"fleet\":{\"clients\":2}}");
}

static void words_that_yaml_knows_are_texts_where_a_text_is_due(void **state)
{
    static const char *const words[] = { "true", "no",    "404",  "1.5",  "2026-11-30", "0x1f",
                                         "1e3",  ".inf",  "-",    "=",    "a,b",        "a#b",
                                         "it's", "/?x=1", "NULL", "Null", "50%",        "a: b: c" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(words); i++) {
        char text[64];
        struct reading r;

        /* the last one only in quotes */
        (void)snprintf(text, sizeof(text), i + 1 < LS_ARRAY_LEN(words) ? "name: %s" : "name: '%s'",
                       words[i]);
        r = read_text(text);
        if (r.rc == LS_OK) {
            assert_string_equal(r.plan->name, words[i]);
        } else {
            assert_string_equal(words[i], "-"); /* a list item */
        }
        reading_end(&r);
    }
}

static void texts_of_several_lines_keep_them(void **state)
{
    struct reading r = read_text("description: |\n  one\n  two: {x}\nname: >-\n  a\n  b\n");

    (void)state;
    assert_int_equal(r.rc, LS_OK);
    assert_string_equal(r.plan->description, "one\ntwo: {x}\n");
    assert_string_equal(r.plan->name, "a b");
    reading_end(&r);
}

static void what_is_left_out_is_the_schemas_default_and_not_given(void **state)
{
    struct reading r = read_text("fleet: {}\ntargets: [{}]");

    (void)state;
    assert_int_equal(r.rc, LS_OK);
    assert_int_equal(r.plan->fleet->clients, 1);
    assert_false(r.plan->fleet->has_clients);
    assert_string_equal(r.plan->targets[0]->host, "auto");
    assert_ptr_equal(r.plan->targets[0]->host, ls__target__host__default_value);
    reading_end(&r);
}

/* ---- mistakes ---------------------------------------------------------------------------------
 */

static void all_mistakes_are_reported_by_position_and_only_once(void **state)
{
    (void)state;
    assert_refused("targets: [{port: x}, {port: y}]\nnmae: z\nfleet: {clients: -1}\n",
                   "p.yaml:1:18: targets[0].port: 'x' is not a whole number\n"
                   "p.yaml:1:29: targets[1].port: 'y' is not a whole number\n"
                   "p.yaml:2:1: nmae: unknown key: did you mean 'name'?\n"
                   "p.yaml:3:18: fleet.clients: -1 is negative: 0 to 4294967295\n");
}

static void columns_count_characters_not_bytes(void **state)
{
    (void)state;
    assert_refused("{name: \xc3\xa9\xe2\x82\xac, port: 1}",
                   "p.yaml:1:12: port: unknown key here: it belongs to 'targets[]'\n");
}

static void a_message_with_mistakes_is_not_half_accepted(void **state)
{
    static const char text[] = "name: x\nfleet: {clients: x, servers: 1}\n";
    struct ls_issues issues;
    ProtobufCMessage *message = NULL;
    struct ls_marks *marks = NULL;
    char *json;

    (void)state;
    assert_refused(text, "p.yaml:2:18: fleet.clients: 'x' is not a whole number\n");
    ls_issues_init(&issues, "p.yaml");
    assert_int_equal(
        ls_msg_from_yaml_partial(&ls__plan__descriptor, bytes_of(text), &issues, &message, &marks),
        LS_EINVAL);
    json = ls_msg_to_json(message, 0); /* but what could be read can be checked */
    assert_string_equal(json, "{\"name\":\"x\",\"fleet\":{\"servers\":1}}");
    free(json);
    protobuf_c_message_free_unpacked(message, NULL);
    ls_marks_destroy(marks);
    ls_issues_fini(&issues);
}

static void limits_are_reached_at_once_and_said(void **state)
{
    static char text[LS_YAML_MAX_BYTES + 2];
    struct reading r;
    size_t len = 0;

    (void)state;
    (void)memset(text, ' ', LS_YAML_MAX_BYTES + 1);
    r = read_bytes((struct ls_bytes){ (const unsigned char *)text, LS_YAML_MAX_BYTES + 1 });
    assert_issues(&r.issues, "p.yaml: is 4194305 bytes long: the limit is 4 MiB\n");
    reading_end(&r);

    len = (size_t)snprintf(text, sizeof(text), "targets: [{command: [");
    for (unsigned i = 0; i < LS_YAML_MAX_NODES; i++) {
        (void)memcpy(text + len, "a,\n ", 4);
        len += 4;
    }
    r = read_bytes((struct ls_bytes){ (const unsigned char *)text, len });
    assert_issues(&r.issues,
                  "p.yaml:99995:2: there are more than 100000 values up to here: split the file\n");
    reading_end(&r);

    len = 0;
    for (unsigned i = 0; i < LS_YAML_MAX_ISSUES + 5; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "unknown%u: x\n", i);
    r = read_bytes((struct ls_bytes){ (const unsigned char *)text, len });
    assert_int_equal(r.issues.count, LS_YAML_MAX_ISSUES);
    assert_int_equal(r.issues.dropped, 5);
    assert_int_equal(r.rc, LS_EINVAL);
    reading_end(&r);
}

static void a_great_many_keys_are_compared_quickly(void **state)
{
    static char text[1u << 20];
    size_t len = (size_t)snprintf(text, sizeof(text), "targets: [{env: {");
    struct reading r;

    (void)state;
    for (unsigned i = 0; i < 40000; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "K%u: v,\n", i);
    len += (size_t)snprintf(text + len, sizeof(text) - len, "K7: w}}]");
    r = read_bytes((struct ls_bytes){ (const unsigned char *)text, len });
    assert_issues(&r.issues, "p.yaml:40001:1: targets[0].env.K7: is given twice, first in line 8: "
                             "keep one\n");
    reading_end(&r);
}

static void control_characters_never_reach_the_terminal(void **state)
{
    (void)state;
    assert_refused("\"\\e[31m\\n\": x",
                   "p.yaml:1:1: [\"?[31m\\n\"]: unknown key: known here are name, "
                   "description, fleet, targets, workloads, schedule, tables\n");
}

/* ---- marks ------------------------------------------------------------------------------------
 */

static void a_later_check_points_at_what_it_means(void **state)
{
    struct reading r = read_text("targets:\n"
                                 "  - name: a\n"
                                 "    command: [x, y]\n"
                                 "    env: {A: b, \"C D\": e}\n");
    const Ls__Target *target = r.plan->targets[0];

    (void)state;
    assert_int_equal(r.rc, LS_OK);
    ls_issues_add_at(&r.issues, r.marks, &target->base, "name", -1, "name %d", 1);
    ls_issues_add_at(&r.issues, r.marks, &target->base, "command", 1, "element");
    ls_issues_add_at(&r.issues, r.marks, &target->base, "command", -1, "list");
    ls_issues_add_at(&r.issues, r.marks, &target->base, "port", -1, "left out");
    ls_issues_add_at(&r.issues, r.marks, &target->base, NULL, -1, "message");
    ls_issues_add_at(&r.issues, r.marks, &target->env[0]->base, "value", -1, "value");
    ls_issues_add_at(&r.issues, r.marks, &target->env[1]->base, NULL, -1, "entry");
    ls_issues_add_at(&r.issues, r.marks, &r.plan->base, "fleet", -1, "root");
    ls_issues_sort(&r.issues);
    assert_issues(&r.issues, "p.yaml:1:1: fleet: root\n"
                             "p.yaml:2:5: targets[0].port: left out\n"
                             "p.yaml:2:5: targets[0]: message\n"
                             "p.yaml:2:11: targets[0].name: name 1\n"
                             "p.yaml:3:14: targets[0].command: list\n"
                             "p.yaml:3:18: targets[0].command[1]: element\n"
                             "p.yaml:4:14: targets[0].env.A: value\n"
                             "p.yaml:4:17: targets[0].env[\"C D\"]: entry\n");
    reading_end(&r);
}

static void messages_that_were_made_have_paths_without_positions(void **state)
{
    Ls__Plan plan = LS__PLAN__INIT;
    Ls__Target first = LS__TARGET__INIT;
    Ls__Target second = LS__TARGET__INIT;
    Ls__Stop stop = LS__STOP__INIT;
    Ls__Target *targets[] = { &first, &second };
    struct ls_issues issues;
    struct ls_marks *marks;

    (void)state;
    second.stop = &stop;
    plan.targets = targets;
    plan.n_targets = 2;
    marks = ls_marks_of(&plan.base, "bench");
    ls_issues_init(&issues, "p.yaml");
    ls_issues_add_at(&issues, marks, &stop.base, "grace", -1, "too long");
    ls_issues_add_at(&issues, NULL, &stop.base, "grace", -1, "without marks");
    assert_issues(&issues, "bench: targets[1].stop.grace: too long\n"
                           "p.yaml: grace: without marks\n");
    ls_issues_fini(&issues);
    ls_marks_destroy(marks);
}

static void what_could_not_be_read_is_not_missed_later(void **state)
{
    static const char text[] = "targets:\n"
                               "  - {name: a, prot: 1}\n"
                               "  - {name: b, port: x, host: y}\n"
                               "  - {name: c}\n";
    struct ls_issues issues;
    ProtobufCMessage *message = NULL;
    struct ls_marks *marks = NULL;
    Ls__Plan *plan;

    (void)state;
    ls_issues_init(&issues, "p.yaml");
    assert_int_equal(
        ls_msg_from_yaml_partial(&ls__plan__descriptor, bytes_of(text), &issues, &message, &marks),
        LS_EINVAL);
    plan = (Ls__Plan *)message;
    assert_int_equal(plan->n_targets, 3);
    for (size_t i = 0; i < plan->n_targets; i++) {
        ls_issues_add_at(&issues, marks, &plan->targets[i]->base, "port", -1, "is missing");
        ls_issues_add_at(&issues, marks, &plan->targets[i]->base, "name", -1, "is bad");
    }
    ls_issues_sort(&issues);
    assert_issues(&issues, "p.yaml:2:12: targets[0].name: is bad\n"
                           "p.yaml:2:15: targets[0].prot: unknown key: did you mean 'port'?\n"
                           "p.yaml:3:12: targets[1].name: is bad\n"
                           "p.yaml:3:21: targets[1].port: 'x' is not a whole number\n"
                           "p.yaml:4:5: targets[2].port: is missing\n"
                           "p.yaml:4:12: targets[2].name: is bad\n");
    protobuf_c_message_free_unpacked(message, NULL);
    ls_marks_destroy(marks);
    ls_issues_fini(&issues);
}

/* ---- allocations ------------------------------------------------------------------------------
 */

static const char rich[] = "name: x\n"
                           "targets:\n"
                           "  - {name: a, command: [b, c], env: {D: e, F: g}, port: 1}\n"
                           "workloads:\n"
                           "  - load: {closed: {requests: 5}}\n"
                           "    http: {requests: [{headers: {A: b}}]}\n";

static void read_once(void *ctx)
{
    struct reading r = read_text(rich);

    (void)ctx;
    if (failmalloc_hit()) {
        assert_true(r.rc == LS_ENOMEM || r.rc == LS_OK); /* the issues' own name may fail */
        assert_true((r.rc == LS_OK) == (r.plan != NULL));
    } else {
        assert_int_equal(r.rc, LS_OK);
    }
    reading_end(&r);
}

static void report_once(void *ctx)
{
    struct reading r = read_text("nmae: 1\ntargets: [{port: x}]\nfleet: [1]\n");
    char *text = ls_issues_format(&r.issues);

    (void)ctx;
    assert_true(r.rc == LS_EINVAL || r.rc == LS_ENOMEM);
    assert_null(r.plan);
    free(text);
    reading_end(&r);
}

static void every_failed_allocation_is_survived_and_said(void **state)
{
    (void)state;
    assert_true(failmalloc_each(read_once, NULL) > 50);
    assert_true(failmalloc_each(report_once, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_of_a_field_is_read),
        cmocka_unit_test(words_that_yaml_knows_are_texts_where_a_text_is_due),
        cmocka_unit_test(texts_of_several_lines_keep_them),
        cmocka_unit_test(what_is_left_out_is_the_schemas_default_and_not_given),
        cmocka_unit_test(all_mistakes_are_reported_by_position_and_only_once),
        cmocka_unit_test(columns_count_characters_not_bytes),
        cmocka_unit_test(a_message_with_mistakes_is_not_half_accepted),
        cmocka_unit_test(limits_are_reached_at_once_and_said),
        cmocka_unit_test(a_great_many_keys_are_compared_quickly),
        cmocka_unit_test(control_characters_never_reach_the_terminal),
        cmocka_unit_test(a_later_check_points_at_what_it_means),
        cmocka_unit_test(messages_that_were_made_have_paths_without_positions),
        cmocka_unit_test(what_could_not_be_read_is_not_missed_later),
        cmocka_unit_test(every_failed_allocation_is_survived_and_said),
    };

    return cmocka_run_group_tests_name("common.msg_yaml", tests, NULL, NULL);
}
