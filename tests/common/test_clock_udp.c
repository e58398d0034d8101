/* common/clock_udp.c: what is taken and what is not, and both ends over a network that delays,
 * loses, doubles and reorders, with clocks that drift and jump. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock_udp.h"
#include "common/offset.h"
#include "common/rng.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

static const unsigned char key[LS_CLOCK_KEY_BYTES] = "0123456789abcdef0123456789abcde";

static struct ls_bytes view(const unsigned char *data)
{
    return (struct ls_bytes){ data, LS_CLOCK_DATAGRAM_BYTES };
}

static void a_datagram_comes_out_as_it_went_in(void **state)
{
    const struct ls_clock_datagram in[] = {
        { .kind = LS_CLOCK_KNOCK, .agent = 0, .number = 1 },
        { .kind = LS_CLOCK_PROBE, .agent = UINT32_MAX, .number = UINT64_MAX },
        { LS_CLOCK_REPLY, 7, 8, INT64_MIN, INT64_MAX },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(in); i++) {
        unsigned char bytes[LS_CLOCK_DATAGRAM_BYTES];
        struct ls_clock_datagram out = { 0 };

        ls_clock_seal(&in[i], key, bytes);
        assert_true(ls_clock_parse(view(bytes), &out));
        assert_true(ls_clock_verify(view(bytes), key));
        assert_int_equal(out.kind, in[i].kind);
        assert_int_equal(out.agent, in[i].agent);
        assert_true(out.number == in[i].number);
        assert_true(out.received_ns == in[i].received_ns && out.replied_ns == in[i].replied_ns);
    }
}

static void one_altered_bit_is_noticed(void **state)
{
    const struct ls_clock_datagram reply = { LS_CLOCK_REPLY, 7, 8, 123456789, 123456999 };
    unsigned char bytes[LS_CLOCK_DATAGRAM_BYTES];
    struct ls_clock_datagram out;

    (void)state;
    ls_clock_seal(&reply, key, bytes);
    for (unsigned bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(ls_clock_parse(view(bytes), &out) && ls_clock_verify(view(bytes), key));
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_true(ls_clock_parse(view(bytes), &out) && ls_clock_verify(view(bytes), key));
}

static void what_is_none_of_ours_is_not_parsed(void **state)
{
    const struct ls_clock_datagram knock = { .kind = LS_CLOCK_KNOCK, .agent = 1, .number = 1 };
    const struct ls_clock_datagram zero = { .kind = LS_CLOCK_PROBE, .agent = 1, .number = 0 };
    const struct ls_clock_datagram times = { LS_CLOCK_PROBE, 1, 1, 5, 6 };
    unsigned char bytes[LS_CLOCK_DATAGRAM_BYTES + 1] = { 0 };
    unsigned char other[LS_CLOCK_KEY_BYTES] = { 0 };
    struct ls_clock_datagram out = { .agent = 99 };

    (void)state;
    ls_clock_seal(&knock, key, bytes);
    for (size_t len = 0; len <= sizeof(bytes); len++)
        assert_true(ls_clock_parse((struct ls_bytes){ bytes, len }, &out) ==
                    (len == LS_CLOCK_DATAGRAM_BYTES));
    assert_false(ls_clock_verify(view(bytes), other));
    out.agent = 99;
    ls_clock_seal(&zero, key, bytes);
    assert_false(ls_clock_parse(view(bytes), &out));
    ls_clock_seal(&times, key, bytes);
    assert_false(ls_clock_parse(view(bytes), &out));
    assert_int_equal(out.agent, 99);
}

static bool answers(struct ls_clock_echo *echo, uint64_t number)
{
    const struct ls_clock_datagram probe = { .kind = LS_CLOCK_PROBE, .agent = 7, .number = number };
    unsigned char bytes[LS_CLOCK_DATAGRAM_BYTES];
    uint64_t taken = 0;
    bool yes;

    ls_clock_seal(&probe, key, bytes);
    yes = ls_clock_echo_take(echo, view(bytes), &taken);
    assert_true(taken == (yes ? number : 0));
    return yes;
}

/* Whoever records datagrams and sends them again gets nothing for it. */
static void a_probe_is_answered_once(void **state)
{
    struct ls_clock_echo echo;

    (void)state;
    ls_clock_echo_init(&echo, 7, key);
    assert_true(answers(&echo, 1));
    assert_false(answers(&echo, 1));
    assert_true(answers(&echo, 5)); /* three have been lost, or overtaken */
    assert_true(answers(&echo, 3));
    assert_false(answers(&echo, 3));
    assert_false(answers(&echo, 5));
    assert_false(answers(&echo, 1));
    assert_true(answers(&echo, 68));
    assert_true(answers(&echo, 4)); /* 64 behind: the last that still counts */
    assert_false(answers(&echo, 4));
    assert_false(answers(&echo, 2));
    assert_true(answers(&echo, 132)); /* exactly 64 on */
    assert_false(answers(&echo, 68));
    assert_true(answers(&echo, 69));
    assert_true(answers(&echo, UINT64_MAX));
    assert_false(answers(&echo, UINT64_MAX));
    assert_false(answers(&echo, 133));
}

/* The same rule, against a plain list of what was taken. */
static void numbers_in_any_order_are_taken_once_or_not_at_all(void **state)
{
    struct ls_clock_echo echo;
    struct ls_rng rng;
    bool seen[600] = { false };
    uint64_t newest = 0;

    (void)state;
    ls_rng_init(&rng, 5, 1);
    ls_clock_echo_init(&echo, 7, key);
    for (unsigned i = 0; i < 4000; i++) {
        uint64_t n = 1 + (i / 8 + ls_rng_below(&rng, 90)) % 590;
        bool due = !seen[n] && n + 64 >= newest;

        assert_true(answers(&echo, n) == due);
        seen[n] |= due;
        newest = n > newest ? n : newest;
    }
}

static void only_probes_for_this_agent_are_answered(void **state)
{
    const struct ls_clock_datagram wrong[] = {
        { .kind = LS_CLOCK_PROBE, .agent = 8, .number = 1 },
        { .kind = LS_CLOCK_KNOCK, .agent = 7, .number = 1 },
        { .kind = LS_CLOCK_REPLY, .agent = 7, .number = 1, .received_ns = 1, .replied_ns = 2 },
    };
    struct ls_clock_echo echo;
    uint64_t number;

    (void)state;
    ls_clock_echo_init(&echo, 7, key);
    for (size_t i = 0; i < LS_ARRAY_LEN(wrong); i++) {
        unsigned char bytes[LS_CLOCK_DATAGRAM_BYTES];

        ls_clock_seal(&wrong[i], key, bytes);
        assert_false(ls_clock_echo_take(&echo, view(bytes), &number));
    }
}

static void a_reply_is_taken_once_and_only_to_what_was_asked(void **state)
{
    struct ls_clock_asker asker;
    struct ls_clock_echo echo;
    struct ls_clock_exchange exchange = { 0 };
    unsigned char probe[LS_CLOCK_DATAGRAM_BYTES], reply[LS_CLOCK_DATAGRAM_BYTES];
    uint64_t number;

    (void)state;
    ls_clock_asker_init(&asker, 7, key);
    ls_clock_echo_init(&echo, 7, key);
    number = ls_clock_asker_probe(&asker, probe);
    ls_clock_asker_sent(&asker, number, 1000);
    assert_int_equal(ls_clock_asker_take(&asker, view(probe), &exchange), LS_CLOCK_NOTHING);
    assert_true(ls_clock_echo_take(&echo, view(probe), &number));
    ls_clock_echo_reply(&echo, number, 5000, 5010, reply);
    assert_int_equal(ls_clock_asker_take(&asker, view(reply), &exchange), LS_CLOCK_ANSWERED);
    assert_int_equal(exchange.sent_ns, 1000);
    assert_int_equal(exchange.received_ns, 5000);
    assert_int_equal(exchange.replied_ns, 5010);
    assert_int_equal(ls_clock_asker_take(&asker, view(reply), &exchange), LS_CLOCK_NOTHING);
    ls_clock_echo_reply(&echo, number + 1, 5000, 5010, reply);
    assert_int_equal(ls_clock_asker_take(&asker, view(reply), &exchange), LS_CLOCK_NOTHING);
}

static void a_reply_that_is_too_late_is_to_nothing(void **state)
{
    struct ls_clock_asker asker;
    struct ls_clock_echo echo;
    struct ls_clock_exchange exchange;
    unsigned char probe[LS_CLOCK_DATAGRAM_BYTES], reply[LS_CLOCK_DATAGRAM_BYTES];

    (void)state;
    ls_clock_asker_init(&asker, 7, key);
    ls_clock_echo_init(&echo, 7, key);
    for (unsigned i = 0; i <= LS_CLOCK_PENDING; i++)
        ls_clock_asker_sent(&asker, ls_clock_asker_probe(&asker, probe), 1000 + (int)i);
    ls_clock_echo_reply(&echo, 1, 5000, 5010, reply);
    assert_int_equal(ls_clock_asker_take(&asker, view(reply), &exchange), LS_CLOCK_NOTHING);
    ls_clock_echo_reply(&echo, 2, 5000, 5010, reply);
    assert_int_equal(ls_clock_asker_take(&asker, view(reply), &exchange), LS_CLOCK_ANSWERED);
}

/* An old knock from somewhere else would draw the probes there. */
static void an_old_knock_moves_nobody(void **state)
{
    struct ls_clock_asker asker;
    struct ls_clock_echo echo;
    struct ls_clock_exchange exchange;
    unsigned char first[LS_CLOCK_DATAGRAM_BYTES], second[LS_CLOCK_DATAGRAM_BYTES];

    (void)state;
    ls_clock_asker_init(&asker, 7, key);
    ls_clock_echo_init(&echo, 7, key);
    ls_clock_echo_knock(&echo, first);
    ls_clock_echo_knock(&echo, second);
    assert_int_equal(ls_clock_asker_take(&asker, view(second), &exchange), LS_CLOCK_KNOCKED);
    assert_int_equal(ls_clock_asker_take(&asker, view(first), &exchange), LS_CLOCK_NOTHING);
    assert_int_equal(ls_clock_asker_take(&asker, view(second), &exchange), LS_CLOCK_NOTHING);
    ls_clock_asker_init(&asker, 8, key);
    assert_int_equal(ls_clock_asker_take(&asker, view(second), &exchange), LS_CLOCK_NOTHING);
}

/* ---- both ends, and what is between them */

struct weather {
    int64_t out_most_ns; /* one way, and the other: 0 to this */
    int64_t back_most_ns;
    unsigned lost_percent; /* each way */
    unsigned doubled_percent;
    int drift_ppm;
    int64_t jump_ns; /* of the agent's clock, in the middle */
};

struct scene {
    struct weather weather;
    struct ls_clock_asker asker;
    struct ls_clock_echo echo;
    struct ls_offset offset;
    struct ls_rng rng;
    unsigned exchanges;
};

/* The agent's clock minus ours. */
static int64_t truth(const struct scene *s, int64_t now_ns)
{
    int64_t ahead = 987654321 + now_ns / 1000000 * s->weather.drift_ppm;

    return now_ns >= 50 * S ? ahead + s->weather.jump_ns : ahead;
}

static bool happens(struct scene *s, unsigned percent)
{
    return ls_rng_below(&s->rng, 100) < percent;
}

static int64_t below(struct scene *s, int64_t most)
{
    return most > 0 ? (int64_t)ls_rng_below(&s->rng, (uint64_t)most) : 0;
}

static void come_back(struct scene *s, const unsigned char *reply, int64_t now_ns)
{
    struct ls_clock_exchange exchange;

    for (unsigned copies = happens(s, s->weather.doubled_percent) ? 2 : 1; copies > 0; copies--) {
        if (ls_clock_asker_take(&s->asker, view(reply), &exchange) != LS_CLOCK_ANSWERED)
            continue;
        ls_offset_add(&s->offset, exchange.sent_ns, exchange.received_ns, exchange.replied_ns,
                      now_ns);
        s->exchanges++;
    }
}

static void exchange_once(struct scene *s, int64_t now_ns)
{
    unsigned char probe[LS_CLOCK_DATAGRAM_BYTES], reply[LS_CLOCK_DATAGRAM_BYTES];
    int64_t there_ns = now_ns + 1000 + below(s, s->weather.out_most_ns);
    int64_t back_ns = there_ns + 2000 + below(s, s->weather.back_most_ns);
    uint64_t number = ls_clock_asker_probe(&s->asker, probe);

    ls_clock_asker_sent(&s->asker, number, now_ns);
    if (happens(s, s->weather.lost_percent) ||
        !ls_clock_echo_take(&s->echo, view(probe), &number) || happens(s, s->weather.lost_percent))
        return;
    ls_clock_echo_reply(&s->echo, number, there_ns + truth(s, there_ns),
                        there_ns + 1000 + truth(s, there_ns + 1000), reply);
    come_back(s, reply, back_ns);
}

/* A hundred seconds, looked at after each exchange. Returns how often the bound did not hold. */
static unsigned live_through(struct scene *s, const struct weather *weather, uint64_t seed)
{
    unsigned wrong = 0;

    s->weather = *weather;
    s->exchanges = 0;
    ls_rng_init(&s->rng, seed, 1);
    ls_offset_init(&s->offset);
    ls_clock_asker_init(&s->asker, 7, key);
    ls_clock_echo_init(&s->echo, 7, key);
    for (int64_t now_ns = 0; now_ns < 100 * S; now_ns += 250 * MS) {
        int64_t offset_ns = 0, error_ns = 0;

        exchange_once(s, now_ns);
        if (!ls_offset_at(&s->offset, now_ns + MS, &offset_ns, &error_ns))
            continue;
        /* The truth above moves once a millisecond, by as many nanoseconds as the drift's number.
         */
        wrong +=
            llabs(offset_ns - truth(s, now_ns + MS)) > error_ns + llabs(s->weather.drift_ppm) + 1;
    }
    return wrong;
}

static void the_truth_is_within_the_bound_in_any_weather(void **state)
{
    static const struct weather weathers[] = {
        { 0, 0, 0, 0, 0, 0 },
        { 50000, 50000, 0, 0, 0, 0 },
        { 5000000, 1000, 0, 0, 0, 0 }, /* one way is a hundred times the other */
        { 1000, 5000000, 30, 0, 0, 0 },
        { 200000, 200000, 60, 30, 20, 0 },
        { 100000, 900000, 10, 10, LS_OFFSET_DRIFT_PPM, 0 },
        { 900000, 100000, 10, 10, -LS_OFFSET_DRIFT_PPM, 0 },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(weathers); i++) {
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct scene scene;

            assert_int_equal(live_through(&scene, &weathers[i], seed), 0);
            assert_true(scene.exchanges > 20 && scene.exchanges <= 400);
            assert_int_equal(scene.offset.steps, 0);
        }
    }
}

static void a_jump_is_noticed_at_once_and_forgotten_soon(void **state)
{
    static const int64_t jumps[] = { 3600 * S, -3600 * S, 20 * MS, -20 * MS };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(jumps); i++) {
        const struct weather weather = { 100000, 100000, 20, 10, 10, jumps[i] };
        struct scene scene;
        unsigned wrong = live_through(&scene, &weather, 3);

        assert_true(wrong <= 10); /* until the next answer that was not lost */
        assert_int_equal(scene.offset.steps, 1);
        assert_true(scene.offset.stepped_ns <= llabs(jumps[i]) &&
                    scene.offset.stepped_ns > llabs(jumps[i]) - 3 * MS);
    }
}

static void the_drift_is_measured_with_its_bound(void **state)
{
    static const int drifts[] = { 0, 20, -20, LS_OFFSET_DRIFT_PPM };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(drifts); i++) {
        const struct weather weather = { 50000, 50000, 10, 0, drifts[i], 0 };
        struct scene scene;
        double ppm = 0, error = 0;

        (void)live_through(&scene, &weather, 9);
        assert_true(ls_offset_drift(&scene.offset, &ppm, &error));
        assert_true(error < 1 && ppm > drifts[i] - error - 0.1 && ppm < drifts[i] + error + 0.1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_datagram_comes_out_as_it_went_in),
        cmocka_unit_test(one_altered_bit_is_noticed),
        cmocka_unit_test(what_is_none_of_ours_is_not_parsed),
        cmocka_unit_test(a_probe_is_answered_once),
        cmocka_unit_test(numbers_in_any_order_are_taken_once_or_not_at_all),
        cmocka_unit_test(only_probes_for_this_agent_are_answered),
        cmocka_unit_test(a_reply_is_taken_once_and_only_to_what_was_asked),
        cmocka_unit_test(a_reply_that_is_too_late_is_to_nothing),
        cmocka_unit_test(an_old_knock_moves_nobody),
        cmocka_unit_test(the_truth_is_within_the_bound_in_any_weather),
        cmocka_unit_test(a_jump_is_noticed_at_once_and_forgotten_soon),
        cmocka_unit_test(the_drift_is_measured_with_its_bound),
    };
    return cmocka_run_group_tests_name("common.clock_udp", tests, NULL, NULL);
}
