#include "tests/support/test.h"

#include "agent/load/pacer.h"
#include "common/attr.h"

#define US    INT64_C(1000)
#define NEVER AGENT_NEVER_NS

static void sleeps_for_the_long_part_and_spins_for_the_last_60_us(void **state)
{
    static const struct {
        int64_t now_ns, due_ns, coarse_ns;
        enum agent_pace pace;
        int64_t until_ns; /* 0: does not matter */
    } rows[] = {
        /* nothing but a coarse instant */
        { 1000 * US, NEVER, 5000 * US, AGENT_PACE_WAIT, 5000 * US },
        { 5000 * US, NEVER, 5000 * US, AGENT_PACE_ACT, 0 },
        { 5001 * US, NEVER, 5000 * US, AGENT_PACE_ACT, 0 },
        /* neither: as long as the sockets like */
        { 1000 * US, NEVER, NEVER, AGENT_PACE_WAIT, NEVER },
        /* a due instant far away, near, and over */
        { 1000 * US, 2000 * US, NEVER, AGENT_PACE_WAIT, 1940 * US },
        { 1939 * US, 2000 * US, NEVER, AGENT_PACE_WAIT, 1940 * US },
        { 1940 * US, 2000 * US, NEVER, AGENT_PACE_SPIN, 0 },
        { 2000 * US - 1, 2000 * US, NEVER, AGENT_PACE_SPIN, 0 },
        { 2000 * US, 2000 * US, NEVER, AGENT_PACE_ACT, 0 },
        { 9000 * US, 2000 * US, NEVER, AGENT_PACE_ACT, 0 },
        /* both: whichever comes first */
        { 1000 * US, 2000 * US, 1500 * US, AGENT_PACE_WAIT, 1500 * US },
        { 1000 * US, 2000 * US, 1960 * US, AGENT_PACE_WAIT, 1940 * US },
        { 1950 * US, 2000 * US, 1960 * US, AGENT_PACE_SPIN, 0 },
        { 1960 * US, 2000 * US, 1960 * US, AGENT_PACE_ACT, 0 },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct agent_pacer pacer = { 0 };
        enum agent_pace pace =
            agent_pacer_next(&pacer, rows[i].now_ns, rows[i].due_ns, rows[i].coarse_ns, 0);

        if (pace != rows[i].pace || (rows[i].until_ns != 0 && pacer.until_ns != rows[i].until_ns))
            fail_msg("row %zu: pace %d until %ld", i, (int)pace, (long)pacer.until_ns);
    }
}

static void a_frugal_one_sleeps_until_the_very_instant(void **state)
{
    struct agent_pacer pacer = { .frugal = true };

    (void)state;
    assert_int_equal(agent_pacer_next(&pacer, 1000 * US, 2000 * US, NEVER, 0), AGENT_PACE_WAIT);
    assert_int_equal(pacer.until_ns, 2000 * US);
    assert_int_equal(agent_pacer_next(&pacer, 2000 * US - 1, 2000 * US, NEVER, 0), AGENT_PACE_WAIT);
    assert_int_equal(pacer.until_ns, 2000 * US);
    assert_int_equal(agent_pacer_next(&pacer, 1000 * US, 2000 * US, 1500 * US, 0), AGENT_PACE_WAIT);
    assert_int_equal(pacer.until_ns, 1500 * US);
    assert_int_equal(agent_pacer_next(&pacer, 2000 * US, 2000 * US, NEVER, 0), AGENT_PACE_ACT);
    assert_int_equal(pacer.spun_ns, 0);
}

/* A walk like a worker's: when it was asked, how many events there had been, what had been spun. */
static void only_a_spin_in_vain_is_counted_as_spinning(void **state)
{
    static const struct {
        int64_t at_ns;
        uint64_t events;
        enum agent_pace pace;
        int64_t spun_ns;
    } walk[] = {
        { 100 * US, 0, AGENT_PACE_WAIT, 0 },
        { 945 * US, 0, AGENT_PACE_SPIN, 0 },      /* the sleep was no spin */
        { 946 * US, 0, AGENT_PACE_SPIN, 1 * US }, /* nothing happened */
        { 951 * US, 1, AGENT_PACE_SPIN, 1 * US }, /* an answer was worked on */
        { 952 * US, 1, AGENT_PACE_SPIN, 2 * US },
        { 1000 * US, 1, AGENT_PACE_ACT, 50 * US }, /* up to the instant */
        { 1010 * US, 1, AGENT_PACE_ACT, 50 * US }, /* acting is no spin */
    };
    struct agent_pacer pacer = { 0 };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(walk); i++) {
        enum agent_pace pace =
            agent_pacer_next(&pacer, walk[i].at_ns, 1000 * US, NEVER, walk[i].events);

        if (pace != walk[i].pace || pacer.spun_ns != walk[i].spun_ns)
            fail_msg("step %zu: pace %d spun %ld", i, (int)pace, (long)pacer.spun_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sleeps_for_the_long_part_and_spins_for_the_last_60_us),
        cmocka_unit_test(a_frugal_one_sleeps_until_the_very_instant),
        cmocka_unit_test(only_a_spin_in_vain_is_counted_as_spinning),
    };
    return cmocka_run_group_tests_name("agent.pacer", tests, NULL, NULL);
}
