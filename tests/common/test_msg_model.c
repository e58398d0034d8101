#include "tests/support/test.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_model.h"
#include "common/msg_yaml.h"
#include "common/rng.h"
#include "proto/pki.pb-c.h"
#include "proto/plan.pb-c.h"
#include "proto/result.pb-c.h"
#include "proto/wire.pb-c.h"

static void no_message_of_the_vocabulary_contains_itself(void **state)
{
    const ProtobufCMessageDescriptor *roots[] = {
        &ls__plan__descriptor,
        &ls__result__descriptor,
        &ls__envelope__descriptor,
        &ls__pki__descriptor,
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(roots); i++) {
        struct ls_diag diag = { .text = "" };

        assert_int_equal(ls_msg_check_schema(roots[i], &diag), LS_OK);
        assert_string_equal(diag.text, "");
    }
}

static void recursion_is_found_however_long_the_way(void **state)
{
    ProtobufCMessageDescriptor outer = { .name = "t.Outer", .short_name = "Outer", .n_fields = 1 };
    ProtobufCMessageDescriptor inner = { .name = "t.Inner", .short_name = "Inner", .n_fields = 1 };
    const ProtobufCFieldDescriptor to_inner = { .name = "inner",
                                                .type = PROTOBUF_C_TYPE_MESSAGE,
                                                .descriptor = &inner };
    const ProtobufCFieldDescriptor to_outer = { .name = "again",
                                                .label = PROTOBUF_C_LABEL_REPEATED,
                                                .type = PROTOBUF_C_TYPE_MESSAGE,
                                                .descriptor = &outer };
    struct ls_diag diag;

    (void)state;
    outer.fields = &to_inner;
    inner.fields = &to_outer;
    assert_int_equal(ls_msg_check_schema(&outer, &diag), LS_EINVAL);
    assert_string_equal(diag.text, "recursion: Outer.inner.again is a t.Outer again");
}

static void enum_values_without_their_prefix_are_found(void **state)
{
    const ProtobufCEnumValue value = { .name = "FAST", .value = 0 };
    const ProtobufCIntRange ranges[] = { { 0, 0 }, { 0, 1 } };
    const ProtobufCEnumDescriptor type = { .magic = PROTOBUF_C__ENUM_DESCRIPTOR_MAGIC,
                                           .name = "t.Pace",
                                           .short_name = "Pace",
                                           .n_values = 1,
                                           .values = &value,
                                           .n_value_ranges = 1,
                                           .value_ranges = ranges };
    const ProtobufCFieldDescriptor field = { .name = "pace",
                                             .type = PROTOBUF_C_TYPE_ENUM,
                                             .descriptor = &type };
    const ProtobufCMessageDescriptor root = {
        .name = "t.Root", .short_name = "Root", .n_fields = 1, .fields = &field
    };
    struct ls_diag diag;

    (void)state;
    assert_int_equal(ls_msg_check_schema(&root, &diag), LS_EINVAL);
    assert_string_equal(diag.text, "enum value FAST of t.Pace does not begin with PACE_");
}

static void enum_words_are_the_lower_case_rest_of_the_name(void **state)
{
    char word[LS_MSG_WORD_MAX];
    int value = -1;

    (void)state;
    assert_string_equal(ls_msg_enum_word(&ls__order__descriptor, 2, word), "shuffled");
    assert_string_equal(ls_msg_enum_word(&ls__agent_loss__descriptor, 1, word), "continue");
    assert_null(ls_msg_enum_word(&ls__order__descriptor, 3, word));
    assert_true(ls_msg_enum_value(&ls__order__descriptor, "sequential", &value));
    assert_int_equal(value, LS__ORDER__ORDER_SEQUENTIAL);
    assert_false(ls_msg_enum_value(&ls__order__descriptor, "Sequential", &value));
    assert_false(ls_msg_enum_value(&ls__order__descriptor, "ORDER_SEQUENTIAL", &value));
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *type,
                                                const char *name)
{
    return protobuf_c_message_descriptor_get_field_by_name(type, name);
}

static void maps_are_told_from_lists_of_messages(void **state)
{
    (void)state;
    assert_true(ls_msg_is_map(&ls__target__descriptor, field_of(&ls__target__descriptor, "env")));
    assert_true(
        ls_msg_is_map(&ls__request__descriptor, field_of(&ls__request__descriptor, "headers")));
    assert_false(ls_msg_is_map(&ls__plan__descriptor, field_of(&ls__plan__descriptor, "targets")));
    assert_false(ls_msg_is_map(&ls__connections__descriptor,
                               field_of(&ls__connections__descriptor, "failures")));
}

static void doubles_are_written_as_short_as_they_read_back(void **state)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = { { 0, "0" },        { 0.1, "0.1" },   { 1.0 / 3, "0.3333333333333333" },
                 { 1e21, "1e+21" }, { -2.5, "-2.5" }, { 123456789, "123456789" } };
    struct ls_rng rng;
    char text[32];

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++)
        assert_string_equal(ls_msg_format_double(rows[i].value, text), rows[i].text);
    ls_rng_init(&rng, 7, 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = ls_rng_next(&rng);
        double value;

        (void)memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        assert_true(strtod(ls_msg_format_double(value, text), NULL) == value);
    }
    (void)ls_msg_format_double(-DBL_MAX, text);
    (void)ls_msg_format_double(DBL_TRUE_MIN, text);
}

static void excerpts_are_short_whole_and_printable(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        const char *excerpt;
    } rows[] = {
        { "", 0, "" },
        { "caf\xc3\xa9", 5, "caf\xc3\xa9" },
        { "a\nb\tc", 5, "a\\nb\\tc" },
        { "a\x1b[0m\x7f\0z", 8, "a?[0m??z" },
        { "\xc2\x9b\xff", 3, "??" },
        { "0123456789012345678901234567890123456789", 40,
          "0123456789012345678901234567890123456789" },
        { "01234567890123456789012345678901234567890", 41,
          "0123456789012345678901234567890123456789..." },
        /* no half character at the end */
        { "012345678901234567890123456789012345678\xc3\xa9", 41,
          "012345678901234567890123456789012345678..." },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        char out[LS_EXCERPT_MAX];
        struct ls_bytes text = { (const unsigned char *)rows[i].text, rows[i].len };

        assert_string_equal(ls_excerpt(text, out), rows[i].excerpt);
    }
}

static void the_closest_name_is_one_that_may_be_meant(void **state)
{
    static const char *const names[] = { "name", "command", "port", "targets", "env", NULL };
    static const struct {
        const char *word;
        const char *closest; /* NULL: none */
    } rows[] = {
        { "comand", "command" },
        { "prot", "port" },
        { "nmae", "name" },
        { "Port", "port" },
        { "target", "targets" },
        { "ports", "port" },
        { "COMMAND", "command" },
        { "colour", NULL },
        { "x", NULL },
        { "", NULL },
        { "en", "env" },
        { "a-very-long-word-that-is-longer-than-any-name-may-be-here", NULL },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        const char *found = ls_closest(rows[i].word, names, LS_ARRAY_LEN(names));

        if (rows[i].closest == NULL)
            assert_null(found);
        else
            assert_string_equal(found, rows[i].closest);
    }
    assert_null(ls_closest("x", NULL, 0));
}

/* ls.Facts and ls.Client cover the numbers of proto3, ls.Http those of proto2. */
static void numbers_are_taken_in_their_range_and_in_one_form_only(void **state)
{
    const ProtobufCFieldDescriptor *u32 = field_of(&ls__http__descriptor, "pipeline");
    const ProtobufCFieldDescriptor *u64 = field_of(&ls__schedule__descriptor, "seed");
    const ProtobufCFieldDescriptor *i64 = field_of(&ls__latency__descriptor, "min_ns");
    const ProtobufCFieldDescriptor *real = field_of(&ls__latency__descriptor, "mean_ns");
    const ProtobufCFieldDescriptor *flag = field_of(&ls__target__descriptor, "external");
    const struct {
        const ProtobufCFieldDescriptor *field;
        const char *text;
        enum ls_err rc;
    } rows[] = {
        { u32, "0", LS_OK },
        { u32, "4294967295", LS_OK },
        { u32, "4294967296", LS_ERANGE },
        { u32, "99999999999999999999999", LS_ERANGE },
        { u32, "-1", LS_ERANGE },
        { u32, "+1", LS_EINVAL },
        { u32, "01", LS_EINVAL },
        { u32, "0x1", LS_EINVAL },
        { u32, "1.0", LS_EINVAL },
        { u32, "1e3", LS_EINVAL },
        { u32, " 1", LS_EINVAL },
        { u32, "1 ", LS_EINVAL },
        { u32, "", LS_EINVAL },
        { u32, "-", LS_EINVAL },
        { u64, "18446744073709551615", LS_OK },
        { u64, "18446744073709551616", LS_ERANGE },
        { i64, "-9223372036854775808", LS_OK },
        { i64, "9223372036854775808", LS_ERANGE },
        { real, "1", LS_OK },
        { real, "-1.5e-3", LS_OK },
        { real, "1e999", LS_ERANGE },
        { real, "nan", LS_EINVAL },
        { real, ".5", LS_EINVAL },
        { real, "5.", LS_EINVAL },
        { real, "1e", LS_EINVAL },
        { real, "0x1p3", LS_EINVAL },
        { flag, "true", LS_OK },
        { flag, "false", LS_OK },
        { flag, "True", LS_EINVAL },
        { flag, "yes", LS_EINVAL },
        { flag, "1", LS_EINVAL },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct ls_bytes text = { (const unsigned char *)rows[i].text, strlen(rows[i].text) };
        struct ls_diag diag = { .text = "" };
        uint64_t out = 0;
        enum ls_err rc = ls_msg_parse(rows[i].field, text, &out, &diag);

        if (rc != rows[i].rc)
            fail_msg("'%s': %s, %s", rows[i].text, ls_err_name(rc), diag.text);
        assert_true((rc == LS_OK) == (diag.text[0] == '\0'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_message_of_the_vocabulary_contains_itself),
        cmocka_unit_test(recursion_is_found_however_long_the_way),
        cmocka_unit_test(enum_values_without_their_prefix_are_found),
        cmocka_unit_test(enum_words_are_the_lower_case_rest_of_the_name),
        cmocka_unit_test(maps_are_told_from_lists_of_messages),
        cmocka_unit_test(doubles_are_written_as_short_as_they_read_back),
        cmocka_unit_test(excerpts_are_short_whole_and_printable),
        cmocka_unit_test(the_closest_name_is_one_that_may_be_meant),
        cmocka_unit_test(numbers_are_taken_in_their_range_and_in_one_form_only),
    };

    return cmocka_run_group_tests_name("common.msg_model", tests, NULL, NULL);
}
