#include "tests/support/test.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "common/phase.h"
#include "proto/wire.pb-c.h"

/* An agent reports its phase by number. */
static_assert((int)LS_PHASE_IDLE == (int)LS__AGENT_PHASE__AGENT_PHASE_IDLE, "one number");
static_assert((int)LS_PHASE_PREPARE == (int)LS__AGENT_PHASE__AGENT_PHASE_PREPARE, "one number");
static_assert((int)LS_PHASE_READY == (int)LS__AGENT_PHASE__AGENT_PHASE_READY, "one number");
static_assert((int)LS_PHASE_ARM == (int)LS__AGENT_PHASE__AGENT_PHASE_ARM, "one number");
static_assert((int)LS_PHASE_ARMED == (int)LS__AGENT_PHASE__AGENT_PHASE_ARMED, "one number");
static_assert((int)LS_PHASE_WARMUP == (int)LS__AGENT_PHASE__AGENT_PHASE_WARMUP, "one number");
static_assert((int)LS_PHASE_MEASURE == (int)LS__AGENT_PHASE__AGENT_PHASE_MEASURE, "one number");
static_assert((int)LS_PHASE_DRAIN == (int)LS__AGENT_PHASE__AGENT_PHASE_DRAIN, "one number");
static_assert((int)LS_PHASE_COLLECT == (int)LS__AGENT_PHASE__AGENT_PHASE_COLLECT, "one number");

static void the_wire_has_the_same_phases_by_the_same_names(void **state)
{
    (void)state;
    assert_int_equal(ls__agent_phase__descriptor.n_values, LS_PHASE_COUNT);
    for (int phase = 0; phase < LS_PHASE_COUNT; phase++) {
        const ProtobufCEnumValue *value =
            protobuf_c_enum_descriptor_get_value(&ls__agent_phase__descriptor, phase);
        const char *name = ls_phase_name((enum ls_phase)phase);

        assert_non_null(value);
        assert_int_equal(strncmp(value->name, "AGENT_PHASE_", 12), 0);
        assert_int_equal(strcasecmp(value->name + 12, name), 0);
    }
}

static void a_trial_walks_through_all_phases(void **state)
{
    static const enum ls_event course[] = {
        LS_ON_PREPARE, LS_ON_READY, LS_ON_ARM,     LS_ON_ARMED,     LS_ON_START,
        LS_ON_MEASURE, LS_ON_STOP,  LS_ON_DRAINED, LS_ON_COLLECTED,
    };
    enum ls_phase phase = LS_PHASE_IDLE;

    (void)state;
    for (int i = 0; i < LS_PHASE_COUNT; i++) {
        assert_int_equal(phase, i);
        assert_int_equal(ls_phase_next(phase, course[i], &phase), LS_OK);
    }
    assert_int_equal(phase, LS_PHASE_IDLE);
}

/* The whole table, written the other way round: a row a phase, a column an event. */
static void every_move_is_the_one_that_was_agreed(void **state)
{
    enum { I, P, R, A, D, W, M, N, C, _ = -1 }; /* idle ... drain, collect; no such move */
    static const int to[LS_PHASE_COUNT][LS_EVENT_COUNT] = {
        /*    prep ready fail arm armed late disarm start meas stop drained coll abort */
        /* I */ { P, _, _, _, _, _, _, _, _, _, _, _, _ },
        /* P */ { _, R, C, _, _, _, _, _, _, _, _, _, C },
        /* R */ { _, _, C, A, _, _, _, _, _, _, C, _, C },
        /* A */ { _, _, C, _, D, R, R, _, _, _, _, _, C },
        /* D */ { _, _, C, _, _, R, R, W, _, _, _, _, C },
        /* W */ { _, _, C, _, _, _, _, _, M, _, _, _, C },
        /* M */ { _, _, C, _, _, _, _, _, _, N, _, _, C },
        /* N */ { _, _, C, _, _, _, _, _, _, _, C, _, C },
        /* C */ { _, _, _, _, _, _, _, _, _, _, _, I, _ },
    };

    (void)state;
    for (int from = 0; from < LS_PHASE_COUNT; from++) {
        for (int on = 0; on < LS_EVENT_COUNT; on++) {
            enum ls_phase got = LS_PHASE_COUNT; /* stays if there is no move */
            enum ls_err rc = ls_phase_next((enum ls_phase)from, (enum ls_event)on, &got);

            if (rc != (to[from][on] == _ ? LS_ESTATE : LS_OK) ||
                (int)got != (to[from][on] == _ ? LS_PHASE_COUNT : to[from][on]))
                fail_msg("%s on %s", ls_phase_name((enum ls_phase)from),
                         ls_event_name((enum ls_event)on));
        }
    }
}

static void abort_is_legal_in_every_phase_but_idle_and_collect(void **state)
{
    (void)state;
    for (int from = 0; from < LS_PHASE_COUNT; from++) {
        enum ls_phase to = LS_PHASE_COUNT;
        enum ls_err rc = ls_phase_next((enum ls_phase)from, LS_ON_ABORT, &to);
        bool legal = from != LS_PHASE_IDLE && from != LS_PHASE_COLLECT;

        assert_int_equal(rc, legal ? LS_OK : LS_ESTATE);
        assert_int_equal(to, legal ? LS_PHASE_COLLECT : LS_PHASE_COUNT);
    }
}

/* An event is found for a pair exactly if some event leads there, and it does lead there. */
static void the_event_between_two_phases_is_one_that_leads_there(void **state)
{
    (void)state;
    for (int from = 0; from < LS_PHASE_COUNT; from++) {
        for (int to = 0; to < LS_PHASE_COUNT; to++) {
            bool leads = false;
            bool only_abort = true;
            enum ls_event on = LS_EVENT_COUNT;
            enum ls_err rc = ls_phase_event((enum ls_phase)from, (enum ls_phase)to, &on);

            for (int e = 0; e < LS_EVENT_COUNT; e++) {
                enum ls_phase got = LS_PHASE_COUNT;

                if (ls_phase_next((enum ls_phase)from, (enum ls_event)e, &got) == LS_OK &&
                    (int)got == to) {
                    leads = true;
                    only_abort = only_abort && e == LS_ON_ABORT;
                }
            }
            assert_int_equal(rc, leads ? LS_OK : LS_ESTATE);
            if (leads) {
                enum ls_phase got = LS_PHASE_COUNT;

                assert_int_equal(ls_phase_next((enum ls_phase)from, on, &got), LS_OK);
                assert_int_equal(got, to);
                assert_true(on != LS_ON_ABORT || only_abort);
            } else {
                assert_int_equal(on, LS_EVENT_COUNT);
            }
        }
    }
}

static void names_are_distinct_and_out_of_range_is_a_question_mark(void **state)
{
    (void)state;
    for (int i = 0; i < LS_PHASE_COUNT; i++) {
        for (int j = 0; j < i; j++)
            assert_string_not_equal(ls_phase_name((enum ls_phase)i),
                                    ls_phase_name((enum ls_phase)j));
    }
    for (int i = 0; i < LS_EVENT_COUNT; i++) {
        for (int j = 0; j < i; j++)
            assert_string_not_equal(ls_event_name((enum ls_event)i),
                                    ls_event_name((enum ls_event)j));
    }
    assert_string_equal(ls_phase_name(LS_PHASE_COUNT), "?");
    assert_string_equal(ls_phase_name((enum ls_phase) - 1), "?");
    assert_string_equal(ls_event_name(LS_EVENT_COUNT), "?");
    assert_string_equal(ls_event_name((enum ls_event) - 1), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wire_has_the_same_phases_by_the_same_names),
        cmocka_unit_test(a_trial_walks_through_all_phases),
        cmocka_unit_test(every_move_is_the_one_that_was_agreed),
        cmocka_unit_test(abort_is_legal_in_every_phase_but_idle_and_collect),
        cmocka_unit_test(the_event_between_two_phases_is_one_that_leads_there),
        cmocka_unit_test(names_are_distinct_and_out_of_range_is_a_question_mark),
    };
    return cmocka_run_group_tests_name("common.phase", tests, NULL, NULL);
}
