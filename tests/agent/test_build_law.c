#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "agent/build_law.h"
#include "common/clock.h"
#include "common/msg_yaml.h"

/* The workload that this YAML is; the caller frees. */
static Ls__Workload *read(const char *text)
{
    struct ls_issues issues;
    ProtobufCMessage *message = NULL;
    struct ls_marks *marks = NULL;
    enum ls_err rc;

    ls_issues_init(&issues, "test");
    rc = ls_msg_from_yaml_partial(&ls__workload__descriptor,
                                  (struct ls_bytes){ (const unsigned char *)text, strlen(text) },
                                  &issues, &message, &marks);
    if (rc != LS_OK)
        fail_msg("%s: %s", text, ls_issues_format(&issues));
    ls_issues_fini(&issues);
    ls_marks_destroy(marks);
    return (Ls__Workload *)message;
}

static void assert_piece(const struct ls_rate_piece *piece, int64_t at_ns, double from, double to)
{
    assert_int_equal(piece->at_ns, at_ns);
    assert_true(piece->from_per_s == from && piece->to_per_s == to);
}

static void rates_begin_behind_a_warm_up_at_the_first_of_them(void **state)
{
    static const struct {
        const char *text;
        size_t count;
        struct ls_rate_piece pieces[4];
    } rows[] = {
        { "{load: {ramp: {from: 1/s, to: 5/s, over: 4s}}, warmup: 2s, measure: 9s}",
          3,
          { { 0, 1, 1, 0, 0, 0 },
            { 2 * LS_NS_PER_S, 1, 5, 0, 0, 0 },
            { 6 * LS_NS_PER_S, 5, 5, 0, 0, 0 } } },
        { "{load: {ramp: {from: 1/s, to: 5/s, over: 4s}}, warmup: 0s, measure: 9s}",
          2,
          { { 0, 1, 5, 0, 0, 0 }, { 4 * LS_NS_PER_S, 5, 5, 0, 0, 0 } } },
        { "{load: {steps: {rates: [3/s, 0/s, 7/s], each: 1s}}, warmup: 2s, measure: 3s}",
          4,
          { { 0, 3, 3, 0, 0, 0 },
            { 2 * LS_NS_PER_S, 3, 3, 0, 0, 0 },
            { 3 * LS_NS_PER_S, 0, 0, 0, 0, 0 },
            { 4 * LS_NS_PER_S, 7, 7, 0, 0, 0 } } },
        { "{load: {trace: {points: [{at: 0s, rate: 2/s}, {at: 1s, rate: 4/s}], scale: 10}}, "
          "warmup: 1s, measure: 3s}",
          3,
          { { 0, 20, 20, 0, 0, 0 },
            { 1 * LS_NS_PER_S, 20, 20, 0, 0, 0 },
            { 2 * LS_NS_PER_S, 40, 40, 0, 0, 0 } } },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        Ls__Workload *in = read(rows[i].text);
        struct load_workload out = { 0 };
        struct ls_rate_piece *pieces = NULL;

        assert_int_equal(agent_build_law(in, &out, &pieces, NULL), LS_OK);
        assert_int_equal(out.law, LOAD_LAW_PIECES);
        assert_int_equal(out.queue_max, 100000);
        assert_ptr_equal(out.pieces, pieces);
        assert_int_equal(out.piece_count, rows[i].count);
        for (size_t k = 0; k < rows[i].count; k++)
            assert_piece(&pieces[k], rows[i].pieces[k].at_ns, rows[i].pieces[k].from_per_s,
                         rows[i].pieces[k].to_per_s);
        free(pieces);
        ls__workload__free_unpacked(in, NULL);
    }
}

static void other_laws_and_options_are_taken_over(void **state)
{
    Ls__Workload *in = read("{load: {poisson: {rate: 9/s, queue: 3}}, pacing: frugal, "
                            "lifetime: {requests: 5, time: 2s}}");
    struct load_workload out = { 0 };
    struct ls_rate_piece *pieces = NULL;

    (void)state;
    assert_int_equal(agent_build_law(in, &out, &pieces, NULL), LS_OK);
    assert_null(pieces);
    assert_int_equal(out.law, LOAD_LAW_POISSON);
    assert_true(out.rate_per_s == 9 && out.frugal);
    assert_int_equal(out.queue_max, 3);
    assert_int_equal(out.lifetime_requests, 5);
    assert_int_equal(out.lifetime_ns, 2 * LS_NS_PER_S);
    ls__workload__free_unpacked(in, NULL);
    in = read("{load: {waves: {size: 4, requests: 40}}}");
    out = (struct load_workload){ 0 };
    assert_int_equal(agent_build_law(in, &out, &pieces, NULL), LS_OK);
    assert_int_equal(out.law, LOAD_LAW_WAVES);
    assert_int_equal(out.count, 40);
    assert_false(out.frugal);
    ls__workload__free_unpacked(in, NULL);
    in = read("{load: {closed: {}}, think: {mean: 5ms, distribution: exponential}}");
    out = (struct load_workload){ 0 };
    assert_int_equal(agent_build_law(in, &out, &pieces, NULL), LS_OK);
    assert_int_equal(out.law, LOAD_LAW_CLOSED);
    assert_int_equal(out.think_ns, 5 * LS_NS_PER_MS);
    assert_true(out.think_exponential);
    ls__workload__free_unpacked(in, NULL);
}

/* From a coordinator that has not checked its plan. */
static void what_no_checked_plan_has_is_refused(void **state)
{
    static const char *const texts[] = {
        "{load: {}}",
        "{load: {ramp: {from: 1/s, to: 2/s}}, warmup: 1s, measure: 1s}",
        "{load: {ramp: {from: 1/s, over: 1s}}, warmup: 1s, measure: 1s}",
        "{load: {ramp: {from: 1/s, to: 2/s, over: 1s}}, measure: 1s}",
        "{load: {ramp: {from: 1/s, to: 2/s, over: 1s}}, warmup: 1000h, measure: 1s}",
        "{load: {ramp: {from: 1/s, to: 2/s, over: 0s}}, warmup: 1s, measure: 1s}",
        "{load: {ramp: {from: 1/s, to: 2000000/s, over: 1000h}}, warmup: 1s, measure: 1s}",
        "{load: {steps: {rates: [], each: 1s}}, warmup: 1s, measure: 1s}",
        "{load: {steps: {rates: [1/s]}}, warmup: 1s, measure: 1s}",
        "{load: {steps: {rates: [1/s, 2/s], each: 30h}}, warmup: 1s, measure: 1s}",
        "{load: {steps: {rates: [20G/s], each: 1s}}, warmup: 1s, measure: 1s}",
        "{load: {trace: {}}, warmup: 1s, measure: 1s}",
        "{load: {trace: {points: [{at: 0s}]}}, warmup: 1s, measure: 1s}",
        "{load: {trace: {points: [{at: 0s, rate: 1/s}, {at: 0s, rate: 1/s}]}}, warmup: 1s, "
        "measure: 1s}",
        "{load: {closed: {}}, think: {}}",
        "{load: {closed: {}}, think: {mean: 1000h}}",
        "{load: {closed: {}}, lifetime: {time: 1000h}}",
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(texts); i++) {
        Ls__Workload *in = read(texts[i]);
        struct load_workload out = { 0 };
        struct ls_rate_piece *pieces = NULL;
        struct ls_diag diag = { 0 };

        if (agent_build_law(in, &out, &pieces, &diag) == LS_OK)
            fail_msg("%s", texts[i]);
        assert_true(diag.text[0] != '\0');
        assert_null(pieces);
        ls__workload__free_unpacked(in, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_begin_behind_a_warm_up_at_the_first_of_them),
        cmocka_unit_test(other_laws_and_options_are_taken_over),
        cmocka_unit_test(what_no_checked_plan_has_is_refused),
    };
    return cmocka_run_group_tests_name("agent.build_law", tests, NULL, NULL);
}
