/* coordinator/run/capacity_confirm.c: what a search asks for when it has found something, told
 * share by share what came of it. */
#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/run/capacity.h"

#define MS       INT64_C(1000000)
#define S        INT64_C(1000000000)
#define OVERHEAD (INT64_C(2) * S)

static const struct coord_capacity_limit p99[] = {
    { .name = "p99", .allowed_share = 0.01, .limit_ns = 10 * MS }
};

static struct coord_capacity_settings settings_of_all(void)
{
    return (struct coord_capacity_settings){ .limits = p99,
                                             .limit_count = 1,
                                             .first_per_s = 100000, /* short probes suffice */
                                             .least_per_s = 1,
                                             .most_per_s = 1e6,
                                             .precision = 0.02,
                                             .budget_ns = 180 * S,
                                             .probe_ns = 2 * S,
                                             .probe_most_ns = 15 * S,
                                             .confirm_ns = 15 * S,
                                             .overhead_ns = OVERHEAD,
                                             .above = 0.1,
                                             .seed = 1 };
}

static bool verbose(void)
{
    return getenv("LS_CAPACITY_SHOW") != NULL;
}

/* Tells a search what share of a probe's first batch broke the limit, and of each of the others,
 * and for how long a client stood still. */
static void tell_late(struct coord_capacity *capacity, const struct coord_capacity_probe *probe,
                      double first, double others, int64_t late_ns)
{
    uint64_t requests = (uint64_t)(probe->rate_per_s * (double)probe->window_ns / 1e9 /
                                   (double)COORD_CAPACITY_BATCHES);
    struct coord_capacity_batch batches[COORD_CAPACITY_BATCHES];
    const struct coord_capacity_seen seen = { .batches = batches,
                                              .batch_count = COORD_CAPACITY_BATCHES,
                                              .limited_by = COORD_LIMITED_BY_SERVER,
                                              .took_ns = probe->window_ns + OVERHEAD,
                                              .client_late_ns = late_ns };

    for (size_t i = 0; i < COORD_CAPACITY_BATCHES; i++)
        batches[i] = (struct coord_capacity_batch){
            .requests = requests,
            .breaking = { (uint64_t)((double)requests * (i == 0 ? first : others)) }
        };
    if (verbose())
        (void)printf("  %-10s %.2f/s %5.1f s: %.3f %.3f\n", coord_capacity_kind_name(probe->kind),
                     probe->rate_per_s, (double)probe->window_ns / 1e9, first, others);
    assert_int_equal(coord_capacity_report(capacity, &seen, NULL), LS_OK);
}

static void tell(struct coord_capacity *capacity, const struct coord_capacity_probe *probe,
                 double first, double others)
{
    tell_late(capacity, probe, first, others, 0);
}

/* A hard ceiling, where a confirmation sees one burst: the next one is just below it, though
 * nothing was seen to hold between that and half of it. */
static void a_confirmation_that_fails_by_little_is_tried_a_little_lower(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct coord_capacity *capacity;
    struct coord_capacity_probe probe;
    struct coord_capacity_answer answer;
    double failed = 0;

    (void)state;
    settings.first_per_s = 1000;
    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    while (coord_capacity_next(capacity, &probe)) {
        if (probe.kind == COORD_PROBE_CONFIRM && failed <= 0) {
            failed = probe.rate_per_s;
            tell(capacity, &probe, 0.6, 0);
            assert_true(coord_capacity_next(capacity, &probe));
            assert_int_equal(probe.kind, COORD_PROBE_CONFIRM);
            assert_true(probe.rate_per_s > 0.94 * failed && probe.rate_per_s < failed);
        }
        tell(capacity, &probe, probe.rate_per_s > 2000, probe.rate_per_s > 2000);
    }
    assert_true(failed > 1900 && failed < 2001);
    coord_capacity_answer(capacity, &answer);
    assert_true(answer.found && answer.rate_per_s > 1800 && answer.rate_per_s <= 2000);
    coord_capacity_destroy(capacity);
}

/* One that fails for certain is followed by ones that are lower by more and more: 2, 4, 8 %. */
static void confirmations_that_fail_again_and_again_are_tried_much_lower(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct coord_capacity *capacity;
    struct coord_capacity_probe probe;
    struct coord_capacity_answer answer;

    (void)state;
    settings.first_per_s = 100000; /* so that short probes are long enough */
    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    while (coord_capacity_next(capacity, &probe)) {
        bool breaks = probe.rate_per_s > (probe.window_ns < 10 * S ? 185000 : 160000);

        tell(capacity, &probe, breaks, breaks);
    }
    coord_capacity_answer(capacity, &answer);
    assert_true(answer.found && answer.rate_per_s > 150000 && answer.rate_per_s <= 160000);
    coord_capacity_destroy(capacity);
}

/* A burst in a short probe made a bracket that a longer one showed to be none: what follows is near
 * it, and not at the most that is allowed. */
static void a_bracket_that_was_luck_is_looked_for_again_nearby(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct coord_capacity *capacity;
    struct coord_capacity_probe probe;
    struct coord_capacity_answer answer;
    bool burst = true;

    (void)state;
    settings.first_per_s = 1000;
    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    while (coord_capacity_next(capacity, &probe)) {
        bool breaks = probe.rate_per_s > 4700;

        assert_true(probe.rate_per_s < 9000);
        if (burst && probe.rate_per_s > 3999) {
            tell(capacity, &probe, 0.6, 0);
            burst = false;
        } else {
            tell(capacity, &probe, breaks, breaks);
        }
    }
    assert_false(burst);
    coord_capacity_answer(capacity, &answer);
    assert_true(answer.found && answer.rate_per_s > 4300 && answer.rate_per_s <= 4700);
    coord_capacity_destroy(capacity);
}

/* What is asked for at the end of the interval that short probes gave: a search's probe that is as
 * long as a confirmation. */
static bool is_end(const struct coord_capacity_probe *probe)
{
    return probe->kind == COORD_PROBE_SEARCH && probe->window_ns >= 15 * S;
}

/* A hard ceiling of 200,000/s, but for what a short probe between said and the end's own is told.
 */
struct end_case {
    bool disturbed;   /* one short probe breaks below it */
    unsigned useless; /* so many looks at the end die */
    unsigned stands;  /* in so many confirmations a client stands still */
    double share; /* that breaks the limit when an end is looked at first; below 0: what is so */
    double end;   /* where that was, at last */
    unsigned looks;
    int64_t took_ns;
    struct coord_capacity_answer answer;
};

static void play(struct end_case *end, const struct coord_capacity_settings *settings)
{
    static const struct coord_capacity_batch none;
    struct coord_capacity_probe probe;
    struct coord_capacity *capacity;
    double disturbed = end->disturbed ? 0 : INFINITY;
    unsigned stood = 0;

    assert_int_equal(coord_capacity_create(settings, &capacity, NULL), LS_OK);
    while (coord_capacity_next(capacity, &probe)) {
        bool breaks = probe.rate_per_s > 200000;
        double share = breaks;

        if (disturbed <= 0 && probe.rate_per_s > 170000 && !breaks) {
            disturbed = probe.rate_per_s;
            share = 1;
        }
        end->took_ns += probe.window_ns + OVERHEAD;
        if (probe.kind == COORD_PROBE_CONFIRM && stood++ < end->stands) {
            tell_late(capacity, &probe, 0.6, 0, 10 * MS + 1);
            continue;
        }
        if (is_end(&probe)) {
            end->end = probe.rate_per_s;
            if (end->looks++ < end->useless) {
                const struct coord_capacity_seen died = { .batches = &none,
                                                          .batch_count = 1,
                                                          .died = true,
                                                          .took_ns = probe.window_ns + OVERHEAD };

                assert_int_equal(coord_capacity_report(capacity, &died, NULL), LS_OK);
                continue;
            }
            share = end->looks == 1 && end->share >= 0 ? end->share : share;
        }
        tell(capacity, &probe, share, share);
    }
    coord_capacity_answer(capacity, &end->answer);
    if (verbose())
        (void)printf("%g/s (%g to %g) %d: %s\n", end->answer.rate_per_s, end->answer.low_per_s,
                     end->answer.high_per_s, end->answer.settled, end->answer.why);
    coord_capacity_destroy(capacity);
}

/* One short probe was disturbed: where the interval ended is seen once more, for longer, and the
 * search goes on above it. */
static void an_end_that_one_short_probe_saw_broken_is_seen_once_more(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct end_case end = { .disturbed = true, .share = -1 };

    (void)state;
    play(&end, &settings);
    assert_true(end.looks >= 1);
    assert_true(end.answer.settled);
    assert_true(end.answer.rate_per_s > 190000 && end.answer.rate_per_s <= 200000);
    assert_true(end.answer.low_per_s > 195000 && end.answer.high_per_s > 200000);
}

/* It is broken for as long as a confirmation, too: that is what ends the interval. */
static void an_end_that_is_broken_for_long_is_the_end(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct end_case end = { .share = -1 };

    (void)state;
    play(&end, &settings);
    assert_int_equal(end.looks, 1);
    assert_true(end.answer.settled);
    assert_true(end.answer.high_per_s >= end.end && end.answer.high_per_s < 1.03 * end.end);
    assert_true(end.answer.rate_per_s <= 200000 && end.end > 200000);
}

/* The limits were met by so little that a probe alone could not tell: that is not broken, so the
 * interval does not end there. */
static void an_end_that_held_by_little_ends_nothing(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct end_case end = { .disturbed = true, .share = 0.0099 };

    (void)state;
    play(&end, &settings);
    assert_true(end.looks >= 1);
    assert_true(!end.answer.settled || end.answer.high_per_s > 200000);
    assert_true(end.answer.rate_per_s > 175000 && end.answer.rate_per_s <= 200000);
}

/* A look that told nothing is made again, and where that is no use it is as if there was no time
 * for one. */
static void a_look_at_the_end_that_told_nothing_is_made_again(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct end_case once = { .share = -1, .useless = 1 };

    (void)state;
    settings.budget_ns = 300 * S;
    play(&once, &settings);
    assert_int_equal(once.looks, 2);
    assert_true(once.answer.settled && once.answer.high_per_s >= once.end &&
                once.answer.high_per_s < 1.03 * once.end);
}

/* Whatever has to be made again or is looked at once more; and there is time for the one above. */
static void no_search_takes_longer_than_its_budget(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    unsigned settled = 0, looked = 0;

    (void)state;
    for (int64_t budget_s = 60; budget_s < 300; budget_s += 7) {
        settings.budget_ns = budget_s * S;
        for (unsigned which = 0; which < 16; which++) {
            struct end_case end = {
                .disturbed = which & 1, .useless = which & 2, .stands = which & 4, .share = -1
            };

            settings.precision = (which & 8) != 0 ? 0.01 : 0.02;
            play(&end, &settings);
            assert_null(strstr(end.answer.why, "no time to see"));
            assert_true(end.took_ns <= settings.budget_ns);
            assert_false(end.answer.settled && end.answer.limited_by != COORD_LIMITED_BY_SERVER);
            settled += end.answer.settled;
            looked += end.looks > 0;
        }
    }
    assert_true(settled > 100 && looked > 100);
}

static const struct coord_capacity_point *last_of(const struct coord_capacity *capacity)
{
    const struct coord_capacity_point *points;
    size_t n = coord_capacity_points(capacity, &points);

    return &points[n - 1];
}

static bool is_same(const struct coord_capacity_probe *a, const struct coord_capacity_probe *b)
{
    return a->kind == b->kind && fabs(a->rate_per_s - b->rate_per_s) < 1 &&
           a->window_ns == b->window_ns;
}

/* What a client that stood still has sent in one go, a server near its limit does not work off in
 * time: that says nothing, three times. Far beyond it does. */
static void a_probe_in_which_a_client_stood_still_is_made_again(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct coord_capacity *capacity;
    struct coord_capacity_probe probe, next;
    struct coord_capacity_answer answer;

    (void)state;
    settings.first_per_s = 100000;
    settings.budget_ns = 400 * S;
    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    while (coord_capacity_next(capacity, &probe) && probe.kind != COORD_PROBE_CONFIRM)
        tell_late(capacity, &probe, probe.rate_per_s > 200000, probe.rate_per_s > 200000, 50 * MS);
    assert_int_equal(probe.kind, COORD_PROBE_CONFIRM);
    for (int i = 0; i < 3; i++) {
        tell_late(capacity, &probe, 0.6, 0, 10 * MS + 1);
        assert_int_equal(last_of(capacity)->verdict, COORD_USELESS);
        assert_true(coord_capacity_next(capacity, &next) && is_same(&probe, &next));
    }
    tell_late(capacity, &probe, 0.6, 0, 10 * MS + 1); /* it is no accident */
    assert_int_not_equal(last_of(capacity)->verdict, COORD_USELESS);
    while (coord_capacity_next(capacity, &probe))
        tell(capacity, &probe, probe.rate_per_s > 200000, probe.rate_per_s > 200000);
    coord_capacity_answer(capacity, &answer);
    assert_true(answer.found && answer.rate_per_s > 180000 && answer.rate_per_s <= 200000);
    coord_capacity_destroy(capacity);
}

/* A burst broke them once, at a rate at which they held for longer. */
static void limits_that_hold_up_to_the_most_allowed_have_nobody_to_name(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct coord_capacity *capacity;
    struct coord_capacity_probe probe;
    struct coord_capacity_answer answer;
    bool burst = true;

    (void)state;
    settings.most_per_s = 150000;
    settings.budget_ns = 400 * S;
    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    for (; coord_capacity_next(capacity, &probe); burst = false)
        tell(capacity, &probe, burst, burst);
    coord_capacity_answer(capacity, &answer);
    assert_false(answer.settled);
    assert_true(isinf(answer.high_per_s));
    assert_int_equal(answer.limited_by, COORD_LIMITED_BY_UNKNOWN);
    coord_capacity_destroy(capacity);
}

/* ---- whose limit it was, and what time there is */

/* Of that share, whoever's limit it was; took_ns 0: as long as a probe takes. */
static void report(struct coord_capacity *capacity, const struct coord_capacity_probe *probe,
                   double share, enum coord_limited_by by, int64_t took_ns)
{
    uint64_t requests = (uint64_t)(probe->rate_per_s * (double)probe->window_ns / 1e9);
    const struct coord_capacity_batch batch = {
        .requests = requests, .breaking = { (uint64_t)((double)requests * share) }
    };
    const struct coord_capacity_seen seen = { .batches = &batch,
                                              .batch_count = 1,
                                              .limited_by = by,
                                              .took_ns = took_ns > 0
                                                             ? took_ns
                                                             : probe->window_ns + OVERHEAD };

    assert_int_equal(coord_capacity_report(capacity, &seen, NULL), LS_OK);
}

/* A whole search of a server with a hard ceiling, whose clients have one, too. */
static struct coord_capacity_answer search_between(const struct coord_capacity_settings *settings,
                                                   double server_per_s, double clients_per_s)
{
    struct coord_capacity *capacity;
    struct coord_capacity_probe probe;
    struct coord_capacity_answer answer;

    assert_int_equal(coord_capacity_create(settings, &capacity, NULL), LS_OK);
    while (coord_capacity_next(capacity, &probe))
        report(capacity, &probe, probe.rate_per_s > server_per_s,
               probe.rate_per_s > clients_per_s ? COORD_LIMITED_BY_CLIENT : COORD_LIMITED_BY_SERVER,
               0);
    coord_capacity_answer(capacity, &answer);
    if (verbose())
        (void)printf("%g/s (%g to %g) by %s: %s\n", answer.rate_per_s, answer.low_per_s,
                     answer.high_per_s, coord_limited_by_name(answer.limited_by), answer.why);
    coord_capacity_destroy(capacity);
    return answer;
}

/* It breaks a little below what the clients can do, so that nothing a tenth above can be offered.
 */
static void a_server_that_breaks_just_below_its_clients_is_the_limit(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct coord_capacity_answer answer;

    (void)state;
    for (double clients = 203000; clients < 212000; clients += 1000) {
        answer = search_between(&settings, 192000, clients);
        assert_int_equal(answer.limited_by, COORD_LIMITED_BY_SERVER);
        assert_true(isfinite(answer.high_per_s) && answer.high_per_s >= 192000);
        assert_true(answer.rate_per_s > 180000 && answer.rate_per_s <= 192000);
    }
}

static void clients_that_could_not_offer_one_rate_are_no_limit_of_lower_ones(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct coord_capacity_answer answer;

    (void)state;
    settings.budget_ns = 70 * S;
    answer = search_between(&settings, 100, 60000);
    assert_int_not_equal(answer.limited_by, COORD_LIMITED_BY_CLIENT);
}

/* Nothing below it is known to hold. */
static void a_confirmation_that_fails_at_the_first_rate_is_tried_lower(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct coord_capacity *capacity;
    struct coord_capacity_probe probe;
    struct coord_capacity_answer answer;

    (void)state;
    settings.budget_ns = 300 * S;
    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    while (coord_capacity_next(capacity, &probe))
        report(capacity, &probe, probe.rate_per_s > (probe.window_ns < 10 * S ? 100000 : 99000),
               COORD_LIMITED_BY_SERVER, 0);
    coord_capacity_answer(capacity, &answer);
    assert_true(answer.found && answer.rate_per_s > 80000 && answer.rate_per_s <= 99000);
    coord_capacity_destroy(capacity);
}

static void nothing_begins_that_the_budget_has_no_time_for(void **state)
{
    struct coord_capacity_settings settings = settings_of_all();
    struct coord_capacity *capacity;
    struct coord_capacity_probe probe;
    struct coord_capacity_answer answer;

    (void)state;
    settings.budget_ns = 60 * S;
    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    assert_true(coord_capacity_next(capacity, &probe));
    report(capacity, &probe, 0, COORD_LIMITED_BY_SERVER, 0);
    assert_true(coord_capacity_next(capacity, &probe));
    report(capacity, &probe, 1, COORD_LIMITED_BY_SERVER, 60 * S); /* a server that hangs */
    assert_false(coord_capacity_next(capacity, &probe));
    coord_capacity_answer(capacity, &answer);
    assert_false(answer.settled);
    assert_non_null(strstr(answer.why, "could be confirmed"));
    coord_capacity_destroy(capacity);
}

/* Hosts that are added until there are enough are no probes that tell nothing. */
static void one_death_after_many_hosts_were_added_ends_nothing(void **state)
{
    static const struct coord_capacity_batch none;
    const struct coord_capacity_seen died = {
        .batches = &none, .batch_count = 1, .died = true, .took_ns = S
    };
    struct coord_capacity_settings settings = settings_of_all();
    struct coord_capacity *capacity;
    struct coord_capacity_probe probe;

    (void)state;
    settings.hosts = 8;
    settings.budget_ns = 600 * S;
    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    while (coord_capacity_next(capacity, &probe) && probe.hosts < 8)
        report(capacity, &probe, 0, COORD_LIMITED_BY_CLIENT, 0);
    assert_int_equal(probe.hosts, 8);
    assert_int_equal(coord_capacity_report(capacity, &died, NULL), LS_OK);
    assert_true(coord_capacity_next(capacity, &probe));
    coord_capacity_destroy(capacity);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_confirmation_that_fails_by_little_is_tried_a_little_lower),
        cmocka_unit_test(confirmations_that_fail_again_and_again_are_tried_much_lower),
        cmocka_unit_test(a_bracket_that_was_luck_is_looked_for_again_nearby),
        cmocka_unit_test(an_end_that_one_short_probe_saw_broken_is_seen_once_more),
        cmocka_unit_test(an_end_that_is_broken_for_long_is_the_end),
        cmocka_unit_test(an_end_that_held_by_little_ends_nothing),
        cmocka_unit_test(a_look_at_the_end_that_told_nothing_is_made_again),
        cmocka_unit_test(no_search_takes_longer_than_its_budget),
        cmocka_unit_test(a_probe_in_which_a_client_stood_still_is_made_again),
        cmocka_unit_test(limits_that_hold_up_to_the_most_allowed_have_nobody_to_name),
        cmocka_unit_test(a_server_that_breaks_just_below_its_clients_is_the_limit),
        cmocka_unit_test(clients_that_could_not_offer_one_rate_are_no_limit_of_lower_ones),
        cmocka_unit_test(a_confirmation_that_fails_at_the_first_rate_is_tried_lower),
        cmocka_unit_test(nothing_begins_that_the_budget_has_no_time_for),
        cmocka_unit_test(one_death_after_many_hosts_were_added_ends_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
