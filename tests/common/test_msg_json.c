#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_json.h"
#include "common/msg_yaml.h"
#include "common/rng.h"
#include "proto/plan.pb-c.h"
#include "proto/result.pb-c.h"
#include "proto/wire.pb-c.h"
#include "tests/support/failmalloc.h"

static struct ls_bytes bytes_of(const char *text)
{
    return (struct ls_bytes){ (const unsigned char *)text, strlen(text) };
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static void assert_json(const ProtobufCMessage *message, unsigned indent, const char *expected)
{
    char *text = ls_msg_to_json(message, indent);

    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void zeros_of_proto3_are_written_and_absent_messages_are_not(void **state)
{
    Ls__Window window = LS__WINDOW__INIT;
    Ls__Connections connections = LS__CONNECTIONS__INIT;

    (void)state;
    assert_json(&window.base, 0,
                "{\"start\":\"\",\"start_ns\":0,\"duration_ns\":0,\"start_skew_ns\":0,"
                "\"start_skew_error_ns\":0}");
    assert_json(&connections.base, 0,
                "{\"asked\":0,\"opened\":0,\"failed\":0,\"peak\":0,\"reopened\":0,"
                "\"failures\":[],\"retired\":0,\"renewed\":0}");
}

static void of_proto2_only_what_is_given_is_written(void **state)
{
    Ls__Fleet fleet = LS__FLEET__INIT;

    (void)state;
    assert_json(&fleet.base, 0, "{}");
    fleet.has_clients = 1;
    assert_json(&fleet.base, 0, "{\"clients\":1}");
}

static void indented_text_is_the_same_on_every_day(void **state)
{
    Ls__Duration grace = LS__DURATION__INIT;
    Ls__Stop stop = LS__STOP__INIT;
    Ls__Target target = LS__TARGET__INIT;
    Ls__Target__EnvEntry entry = LS__TARGET__ENV_ENTRY__INIT;
    Ls__Target__EnvEntry *env[] = { &entry };
    char one[] = "one";
    char two[] = "two";
    char *command[] = { one, two };

    (void)state;
    grace.ns = 6000000000;
    stop.grace = &grace;
    entry.key = one;
    entry.value = two;
    target.command = command;
    target.n_command = 2;
    target.env = env;
    target.n_env = 1;
    target.stop = &stop;
    assert_json(&target.base, 2,
                "{\n"
                "  \"command\": [\n"
                "    \"one\",\n"
                "    \"two\"\n"
                "  ],\n"
                "  \"env\": {\n"
                "    \"one\": \"two\"\n"
                "  },\n"
                "  \"stop\": {\n"
                "    \"grace\": \"6s\"\n"
                "  }\n"
                "}\n");
}

static void extreme_numbers_are_written_whole(void **state)
{
    Ls__Latency latency = LS__LATENCY__INIT;

    (void)state;
    latency.count = UINT64_MAX;
    latency.min_ns = INT64_MIN;
    latency.max_ns = INT64_MAX;
    latency.mean_ns = 1.0 / 3;
    latency.stdev_ns = 1e300;
    assert_json(&latency.base, 0,
                "{\"count\":18446744073709551615,\"min_ns\":-9223372036854775808,"
                "\"mean_ns\":0.3333333333333333,\"stdev_ns\":1e+300,\"p50_ns\":0,\"p75_ns\":0,"
                "\"p90_ns\":0,\"p99_ns\":0,\"p999_ns\":0,\"p9999_ns\":0,"
                "\"max_ns\":9223372036854775807,\"clipped\":0}");
}

static void whatever_a_target_prints_the_document_stays_json(void **state)
{
    static const struct {
        const char *text;
        const char *json;
    } rows[] = {
        { "", "\"\"" },
        { "a\"b\\c/d", "\"a\\\"b\\\\c/d\"" },
        { "\n\r\t\x01\x1f\x7f", "\"\\n\\r\\t\\u0001\\u001f\\u007f\"" },
        { "caf\xc3\xa9 \xf0\x9f\x98\x80", "\"caf\xc3\xa9 \xf0\x9f\x98\x80\"" },
        { "\xff\xc3(", "\"\xef\xbf\xbd\xef\xbf\xbd(\"" },
        { "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" }, /* a surrogate */
        { "\xc2\x85\xe2\x80\xa8\xef\xbb\xbf", "\"\\u0085\\u2028\\ufeff\"" },
        { "\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\"" }, /* cut off */
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        Ls__ErrnoCount message = LS__ERRNO_COUNT__INIT;
        ProtobufCMessage *back = NULL;
        char expected[80];
        char *text = strdup(rows[i].text);

        message.name = text;
        (void)snprintf(expected, sizeof(expected), "{\"name\":%s,\"count\":0}", rows[i].json);
        assert_json(&message.base, 0, expected);
        assert_int_equal(
            ls_msg_from_json(&ls__errno_count__descriptor, bytes_of(expected), &back, NULL), LS_OK);
        protobuf_c_message_free_unpacked(back, NULL);
        free(text);
    }
}

static void a_value_of_a_newer_schema_is_a_number(void **state)
{
    Ls__Reason reason = LS__REASON__INIT;

    (void)state;
    reason.verdict = (Ls__Verdict)7;
    assert_json(&reason.base, 0, "{\"code\":\"\",\"text\":\"\",\"verdict\":7}");
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static void mistakes_are_refused_with_their_place(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } rows[] = {
        { "", "line 1, column 0: '[' or '{' expected near end of file" },
        { "[]", "an object is expected, not an array" },
        { "{\"nmae\":1}", "nmae: unknown key of ls.Plan" },
        { "{\"name\":1}", "name: a text is expected, not a number" },
        { "{\"targets\":{}}", "targets: an array is expected, not an object" },
        { "{\"targets\":[null]}", "targets[0]: an object is expected, not null" },
        { "{\"targets\":[{},{\"port\":\"1\"}]}",
          "targets[1].port: a whole number is expected, not a string" },
        { "{\"targets\":[{\"port\":1.5}]}", "targets[0].port: '1.5' is not a whole number" },
        { "{\"targets\":[{\"port\":-1}]}", "targets[0].port: -1 is negative: 0 to 4294967295" },
        { "{\"targets\":[{\"env\":[]}]}", "targets[0].env: an object is expected, not an array" },
        { "{\"targets\":[{\"env\":{\"A\":1}}]}",
          "targets[0].env.A: a text is expected, not a number" },
        { "{\"targets\":[{\"external\":1}]}",
          "targets[0].external: true or false is expected, not a number" },
        { "{\"workloads\":[{\"measure\":\"10\"}]}",
          "workloads[0].measure: 10 has no unit: write 10s or 10ms" },
        { "{\"workloads\":[{\"measure\":true}]}",
          "workloads[0].measure: a duration such as 10s or 250ms is expected, not a boolean" },
        { "{\"workloads\":[{\"load\":{\"closed\":{},\"constant\":{}}}]}",
          "workloads[0].load.constant: excludes another field that is given, too" },
        { "{\"schedule\":{\"order\":\"random\"}}",
          "schedule.order: 'random' is none of interleaved, sequential, shuffled" },
        { "{\"name\":\"a\",\"name\":\"b\"}",
          "line 1, column 18: duplicate object key near '\"name\"'" },
        { "{\"name\":\"\\u0000\"}",
          "line 1, column 16: \\u0000 is not allowed without JSON_ALLOW_NUL near '\"\\u0000\"'" },
        { "{\"name\":\"\xff\"}", "line 1, column 9: unable to decode byte 0xff near '\"'" },
        { "{} {}", "line 1, column 4: end of file expected near '{'" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        ProtobufCMessage *message = NULL;
        struct ls_diag diag = { .text = "" };
        enum ls_err rc =
            ls_msg_from_json(&ls__plan__descriptor, bytes_of(rows[i].text), &message, &diag);

        assert_string_equal(diag.text, rows[i].why);
        assert_true(rc == LS_EINVAL || rc == LS_ERANGE);
        assert_null(message);
    }
}

static void null_reads_as_left_out(void **state)
{
    ProtobufCMessage *message = NULL;

    (void)state;
    assert_int_equal(ls_msg_from_json(&ls__plan__descriptor,
                                      bytes_of("{\"name\":null,\"fleet\":null,\"targets\":null}"),
                                      &message, NULL),
                     LS_OK);
    assert_json(message, 0, "{}");
    protobuf_c_message_free_unpacked(message, NULL);
}

static void deep_nesting_does_no_harm(void **state)
{
    static char text[1u << 20];
    ProtobufCMessage *message = NULL;

    (void)state;
    (void)memset(text, '[', sizeof(text) - 1);
    assert_int_equal(ls_msg_from_json(&ls__plan__descriptor, bytes_of(text), &message, NULL),
                     LS_EINVAL);
}

/* ---- both ways --------------------------------------------------------------------------------
 */

/* Fills every field with something that has to come back; deterministic. */
static void fill(ProtobufCMessage *message, struct ls_rng *rng, unsigned depth);

static char *random_text(struct ls_rng *rng)
{
    static const char *const pieces[] = { "a",
                                          "B",
                                          "7",
                                          " ",
                                          "\"",
                                          "\\",
                                          "\n",
                                          "{",
                                          ": ",
                                          "#",
                                          "'",
                                          ",",
                                          "\xc3\xa9",
                                          "\xe2\x80\xa8",
                                          "\xf0\x9f\x98\x80",
                                          "\x7f",
                                          "-",
                                          "null",
                                          "~" };
    char *text = calloc(1, 128);

    assert_non_null(text);
    for (uint64_t n = ls_rng_below(rng, 12); n > 0; n--)
        (void)snprintf(text + strlen(text), 8, "%s",
                       pieces[ls_rng_below(rng, LS_ARRAY_LEN(pieces))]);
    return text;
}

static void fill_value(const ProtobufCFieldDescriptor *field, void *at, struct ls_rng *rng,
                       unsigned depth)
{
    uint64_t bits = ls_rng_next(rng) >> ls_rng_below(rng, 64);
    const ProtobufCMessageDescriptor *type = field->descriptor;
    ProtobufCMessage *sub;

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        *(char **)at = random_text(rng);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        *(ProtobufCBinaryData *)at = (ProtobufCBinaryData){ .len = ls_rng_below(rng, 9),
                                                            .data = (uint8_t *)random_text(rng) };
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        sub = calloc(1, type->sizeof_message);
        assert_non_null(sub);
        type->message_init(sub);
        fill(sub, rng, depth + 1);
        *(ProtobufCMessage **)at = sub;
        break;
    case PROTOBUF_C_TYPE_ENUM:
        *(int *)at = (int)ls_rng_below(rng, 2);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = (int)(bits & 1);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)at = ls_rng_unit(rng) * pow(10, (double)ls_rng_below(rng, 9));
        break;
    case PROTOBUF_C_TYPE_UINT32:
        *(uint32_t *)at = (uint32_t)bits;
        break;
    default: /* the 64-bit ones; JSON readers take no more than 2^63 - 1 */
        *(uint64_t *)at = bits >> 1;
    }
}

static bool is_map_entry(const ProtobufCMessageDescriptor *type)
{
    size_t len = strlen(type->short_name);

    return len > 5 && strcmp(type->short_name + len - 5, "Entry") == 0;
}

static void fill(ProtobufCMessage *message, struct ls_rng *rng, unsigned depth)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &message->descriptor->fields[i];
        unsigned char *at = (unsigned char *)message + f->offset;
        unsigned char *quantifier = (unsigned char *)message + f->quantifier_offset;

        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = depth > 4 ? 0 : (size_t)ls_rng_below(rng, 3);
            bool is_short = f->type == PROTOBUF_C_TYPE_UINT32 || f->type == PROTOBUF_C_TYPE_ENUM;
            size_t size = is_short ? 4 : 8;
            unsigned char *list = n == 0 ? NULL : calloc(n, size);

            /* what the vocabulary's repeated fields hold: the sizes above are for these */
            assert_true(f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE ||
                        f->type == PROTOBUF_C_TYPE_UINT64 || f->type == PROTOBUF_C_TYPE_DOUBLE ||
                        is_short);
            for (size_t k = 0; k < n; k++) {
                fill_value(f, list + k * size, rng, depth);
                if (f->type == PROTOBUF_C_TYPE_MESSAGE && is_map_entry(f->descriptor)) {
                    /* keys differ */
                    char **key = (char **)(void *)(*(unsigned char **)(void *)(list + k * size) +
                                                   sizeof(ProtobufCMessage));
                    (*key)[strlen(*key)] = (char)('0' + k); /* what is behind is zero */
                }
            }
            *(void **)(void *)at = list;
            *(size_t *)(void *)quantifier = n;
        } else if ((f->flags & (unsigned)PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
            if (*(uint32_t *)(void *)quantifier != 0 || ls_rng_below(rng, 3) == 0)
                continue;
            fill_value(f, at, rng, depth);
            *(uint32_t *)(void *)quantifier = f->id;
        } else if (f->label == PROTOBUF_C_LABEL_REQUIRED || f->label == PROTOBUF_C_LABEL_NONE ||
                   strcmp(f->name, "key") == 0 || strcmp(f->name, "value") == 0 ||
                   ls_rng_below(rng, 3) > 0) {
            fill_value(f, at, rng, depth);
            if (f->label == PROTOBUF_C_LABEL_OPTIONAL && f->type != PROTOBUF_C_TYPE_STRING &&
                f->type != PROTOBUF_C_TYPE_MESSAGE)
                *(protobuf_c_boolean *)(void *)quantifier = 1;
        }
    }
}

/* message -> JSON -> message -> JSON, and the same through YAML, of which our JSON is a part. */
static void round_trip(const ProtobufCMessageDescriptor *type, struct ls_rng *rng)
{
    ProtobufCMessage *message = calloc(1, type->sizeof_message);
    ProtobufCMessage *by_json = NULL;
    ProtobufCMessage *by_yaml = NULL;
    struct ls_marks *marks = NULL;
    struct ls_issues issues;
    struct ls_diag diag = { .text = "" };
    char *first;
    char *second;
    char *third;

    assert_non_null(message);
    type->message_init(message);
    fill(message, rng, 0);
    first = ls_msg_to_json(message, (unsigned)ls_rng_below(rng, 3));
    if (ls_msg_from_json(type, bytes_of(first), &by_json, &diag) != LS_OK)
        fail_msg("%s\n%s", diag.text, first);
    ls_issues_init(&issues, "json");
    if (ls_msg_from_yaml(type, bytes_of(first), &issues, &by_yaml, &marks) != LS_OK)
        fail_msg("%s\n%s", ls_issues_format(&issues), first);
    free(first);
    first = ls_msg_to_json(message, 1);
    second = ls_msg_to_json(by_json, 1);
    third = ls_msg_to_json(by_yaml, 1);
    assert_string_equal(first, second);
    assert_string_equal(first, third);
    free(first);
    free(second);
    free(third);
    protobuf_c_message_free_unpacked(message, NULL);
    protobuf_c_message_free_unpacked(by_json, NULL);
    protobuf_c_message_free_unpacked(by_yaml, NULL);
    ls_marks_destroy(marks);
    ls_issues_fini(&issues);
}

static void any_message_comes_back_as_it_was(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 11, 0);
    for (int i = 0; i < 60; i++) {
        round_trip(&ls__plan__descriptor, &rng);
        round_trip(&ls__trial__descriptor, &rng);
        round_trip(&ls__host__descriptor, &rng);
        round_trip(&ls__put_file__descriptor, &rng);
        round_trip(&ls__interval_report__descriptor, &rng);
    }
}

static void read_once(void *ctx)
{
    static const char text[] = "{\"name\":\"x\",\"targets\":[{\"env\":{\"A\":\"b\"}}],"
                               "\"workloads\":[{\"measure\":\"1s\"}]}";
    ProtobufCMessage *message = NULL;
    char *json = NULL;
    enum ls_err rc = ls_msg_from_json(&ls__plan__descriptor, bytes_of(text), &message, NULL);

    (void)ctx;
    assert_int_equal(rc, rc == LS_OK ? LS_OK : LS_ENOMEM);
    if (rc == LS_OK) {
        json = ls_msg_to_json(message, 0);
        assert_true(json != NULL || failmalloc_hit());
        protobuf_c_message_free_unpacked(message, NULL);
    }
    free(json);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(failmalloc_each(read_once, NULL) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_of_proto3_are_written_and_absent_messages_are_not),
        cmocka_unit_test(of_proto2_only_what_is_given_is_written),
        cmocka_unit_test(indented_text_is_the_same_on_every_day),
        cmocka_unit_test(extreme_numbers_are_written_whole),
        cmocka_unit_test(whatever_a_target_prints_the_document_stays_json),
        cmocka_unit_test(a_value_of_a_newer_schema_is_a_number),
        cmocka_unit_test(mistakes_are_refused_with_their_place),
        cmocka_unit_test(null_reads_as_left_out),
        cmocka_unit_test(deep_nesting_does_no_harm),
        cmocka_unit_test(any_message_comes_back_as_it_was),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests_name("common.msg_json", tests, NULL, NULL);
}
