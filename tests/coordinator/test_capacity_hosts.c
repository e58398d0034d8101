/* coordinator/run/capacity_hosts.h, alone and in whole searches: how many client hosts are taken.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/attr.h"
#include "coordinator/run/capacity.h"
#include "coordinator/run/capacity_hosts.h"

#define S        INT64_C(1000000000)
#define CAPACITY 5000.0 /* of the server: one in a hundred breaks the limit there */
#define STEEP    40.0   /* log odds, over the rate as a share of that */

struct fleet {
    uint32_t hosts;
    bool all;
    double host_max;      /* what one can offer */
    double calibrated;    /* what one is said to be good for; 0: unknown */
    uint32_t stumbles_at; /* the probe, from 1, in which the clients are the limit for once */
    double later_max;     /* what one can offer from the fourth probe on; 0: as before */
};

struct outcome {
    struct coord_capacity_answer answer;
    struct coord_capacity_point points[COORD_CAPACITY_PROBES_MAX];
    size_t count;
};

static const struct coord_capacity_limit p99[] = {
    { .name = "p99", .allowed_share = 0.01, .limit_ns = 10000000 }
};

/* Without any chance in it: all batches are alike. */
static void load(const struct coord_capacity_probe *probe, struct coord_capacity_batch *batches)
{
    double odds = log(0.01 / 0.99) + STEEP * (probe->rate_per_s / CAPACITY - 1);
    double requests = probe->rate_per_s * (double)probe->window_ns / 1e9 / COORD_CAPACITY_BATCHES;

    for (unsigned i = 0; i < COORD_CAPACITY_BATCHES; i++) {
        batches[i] = (struct coord_capacity_batch){ .requests = (uint64_t)requests };
        batches[i].breaking[0] = (uint64_t)(requests / (1 + exp(-odds)));
    }
}

static void search(const struct fleet *fleet, struct outcome *out)
{
    const struct coord_capacity_settings settings = { .limits = p99,
                                                      .limit_count = 1,
                                                      .first_per_s = 1000,
                                                      .least_per_s = 1,
                                                      .most_per_s = 1e6,
                                                      .precision = 0.02,
                                                      .budget_ns = 300 * S,
                                                      .probe_ns = 2 * S,
                                                      .probe_most_ns = 15 * S,
                                                      .confirm_ns = 15 * S,
                                                      .overhead_ns = 2 * S,
                                                      .above = 0.1,
                                                      .seed = 3,
                                                      .hosts = fleet->hosts,
                                                      .all_hosts = fleet->all };
    struct coord_capacity_batch batches[COORD_CAPACITY_BATCHES];
    const struct coord_capacity_point *points;
    struct coord_capacity *capacity;
    struct coord_capacity_probe probe;

    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    while (coord_capacity_next(capacity, &probe)) {
        double host_max =
            fleet->later_max > 0 && probe.index >= 3 ? fleet->later_max : fleet->host_max;
        bool struck =
            probe.rate_per_s > probe.hosts * host_max || probe.index + 1 == fleet->stumbles_at;
        const struct coord_capacity_seen seen = { .batches = batches,
                                                  .batch_count = COORD_CAPACITY_BATCHES,
                                                  .limited_by = struck ? COORD_LIMITED_BY_CLIENT
                                                                       : COORD_LIMITED_BY_SERVER,
                                                  .took_ns = probe.window_ns + 2 * S,
                                                  .host_per_s = fleet->calibrated };

        assert_in_range(probe.hosts, 1, fleet->hosts);
        load(&probe, batches);
        assert_int_equal(coord_capacity_report(capacity, &seen, NULL), LS_OK);
    }
    coord_capacity_answer(capacity, &out->answer);
    out->count = coord_capacity_points(capacity, &points);
    (void)memcpy(out->points, points, out->count * sizeof(*points));
    coord_capacity_destroy(capacity);
}

static bool is_found(const struct outcome *outcome)
{
    return outcome->answer.settled && fabs(outcome->answer.rate_per_s / CAPACITY - 1) < 0.02 &&
           outcome->answer.limited_by == COORD_LIMITED_BY_SERVER;
}

static uint32_t most_hosts(const struct outcome *outcome)
{
    uint32_t most = 0;

    for (size_t i = 0; i < outcome->count; i++)
        most = outcome->points[i].probe.hosts > most ? outcome->points[i].probe.hosts : most;
    return most;
}

static size_t useless(const struct outcome *outcome)
{
    size_t n = 0;

    for (size_t i = 0; i < outcome->count; i++)
        n += outcome->points[i].verdict == COORD_USELESS;
    return n;
}

/* ---- alone */

static void a_rate_needs_as_many_hosts_as_it_is_times_what_one_is_good_for(void **state)
{
    struct coord_hosts hosts;

    (void)state;
    coord_hosts_init(&hosts, 8, false);
    assert_int_equal(coord_hosts_for(&hosts, 1e9), 1); /* nothing is known against it */
    coord_hosts_calibrated(&hosts, 1000);
    for (uint32_t n = 1; n <= 8; n++) {
        assert_int_equal(coord_hosts_for(&hosts, n * 1000.0), n);
        assert_int_equal(coord_hosts_for(&hosts, n * 1000.0 + 1), n < 8 ? n + 1 : 8);
    }
    coord_hosts_calibrated(&hosts, 5000); /* another one knows better; this one is no better */
    assert_int_equal(coord_hosts_for(&hosts, 2000), 2);
    coord_hosts_init(&hosts, 8, true);
    assert_int_equal(coord_hosts_for(&hosts, 1), 8);
    coord_hosts_init(&hosts, 0, false);
    assert_int_equal(coord_hosts_for(&hosts, 1), 1);
}

static void hosts_are_added_until_there_are_no_more(void **state)
{
    (void)state;
    for (uint32_t there = 1; there <= 1000; there++) {
        struct coord_hosts hosts;
        uint32_t used, steps = 0;

        coord_hosts_init(&hosts, there, false);
        for (used = 1; coord_hosts_add(&hosts, used, 12345.678); steps++) {
            uint32_t more = coord_hosts_for(&hosts, 12345.678);

            assert_true(more > used && more <= there);
            assert_true(more <= used + (used + 1) / 2);
            used = more;
        }
        assert_int_equal(used, there);
        assert_true(steps <= 18);
    }
}

/* ---- in a search */

static void one_host_does_it_all_if_it_can(void **state)
{
    const struct fleet fleet = { .hosts = 4, .host_max = 1e6 };
    struct outcome outcome;

    (void)state;
    search(&fleet, &outcome);
    assert_true(is_found(&outcome));
    assert_int_equal(most_hosts(&outcome), 1);
    assert_int_equal(outcome.answer.hosts, 1);
}

static void the_answer_is_the_same_whatever_the_number_of_hosts(void **state)
{
    static const struct fleet fleets[] = {
        { .hosts = 1, .host_max = 1e6 },
        { .hosts = 3, .host_max = 2000 },
        { .hosts = 8, .host_max = 2000 },
        { .hosts = 50, .host_max = 150 },
        { .hosts = 8, .host_max = 2000, .all = true },
        { .hosts = 8, .host_max = 2000, .calibrated = 1400 },
    };
    static const uint32_t needed[] = { 1, 3, 3, 42, 8, 4 }; /* with 10 % above: 5500 of 2000 each */

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(fleets); i++) {
        struct outcome outcome;

        search(&fleets[i], &outcome);
        assert_true(is_found(&outcome));
        /* What is taken is within the half that is added at a time. */
        assert_true(outcome.answer.hosts + 1 >= needed[i]);
        assert_true(2 * outcome.answer.hosts <= 3 * needed[i] + 1);
    }
}

static void hosts_that_are_known_to_be_too_few_are_not_even_tried(void **state)
{
    const struct fleet fleet = { .hosts = 8, .host_max = 2000, .calibrated = 1400 };
    struct outcome outcome;

    (void)state;
    search(&fleet, &outcome);
    assert_int_equal(useless(&outcome), 0);
    for (size_t i = 1; i < outcome.count; i++) /* after the first, which tells the shape */
        assert_true(outcome.points[i].probe.rate_per_s <= outcome.points[i].probe.hosts * 1400.1);
}

/* The bracket's rates may be far above what can be had; what is compared is offered alike. */
static void hosts_do_not_come_and_go_in_the_search(void **state)
{
    const struct fleet fleet = { .hosts = 8, .host_max = 2000, .calibrated = 1400 };
    struct outcome outcome;
    uint32_t before = 0;

    (void)state;
    search(&fleet, &outcome);
    for (size_t i = 0; i < outcome.count; i++) {
        if (outcome.points[i].probe.kind == COORD_PROBE_BRACKET)
            continue;
        assert_true(outcome.points[i].probe.hosts >= before);
        before = outcome.points[i].probe.hosts;
    }
    assert_int_equal(outcome.points[0].probe.hosts, 1);
}

static void a_stumble_brings_in_nobody(void **state)
{
    const struct fleet fleet = { .hosts = 4, .host_max = 1e6, .stumbles_at = 3 };
    struct outcome outcome;

    (void)state;
    search(&fleet, &outcome);
    assert_true(is_found(&outcome));
    assert_int_equal(useless(&outcome), 1);
    assert_int_equal(most_hosts(&outcome), 1);
}

static void too_few_hosts_make_it_a_lower_bound(void **state)
{
    const struct fleet fleet = { .hosts = 2, .host_max = 2000 };
    struct outcome outcome;

    (void)state;
    search(&fleet, &outcome);
    assert_false(outcome.answer.settled);
    assert_int_equal(outcome.answer.limited_by, COORD_LIMITED_BY_CLIENT);
    assert_int_equal(outcome.answer.hosts, 2);
    assert_true(outcome.answer.rate_per_s > 3000 && outcome.answer.rate_per_s <= 4000);
    assert_true(isinf(outcome.answer.high_per_s));
}

/* What held once, when the clients could, is no answer after they could not offer even less. */
static void the_lower_bound_is_below_what_the_clients_could_not_offer(void **state)
{
    const struct fleet fleet = { .hosts = 1, .host_max = 1e6, .later_max = 1500 };
    struct outcome outcome;

    (void)state;
    search(&fleet, &outcome);
    assert_int_equal(outcome.answer.limited_by, COORD_LIMITED_BY_CLIENT);
    assert_true(outcome.answer.rate_per_s >= 1000);
    for (size_t i = 0; i < outcome.count; i++)
        assert_true(outcome.points[i].verdict != COORD_USELESS ||
                    outcome.points[i].probe.rate_per_s > outcome.answer.rate_per_s);
    assert_true(outcome.answer.low_per_s <= outcome.answer.rate_per_s);
}

static void the_same_search_takes_the_same_hosts(void **state)
{
    const struct fleet fleet = { .hosts = 8, .host_max = 1700 };
    struct outcome first, again;

    (void)state;
    search(&fleet, &first);
    search(&fleet, &again);
    assert_int_equal(first.count, again.count);
    for (size_t i = 0; i < first.count; i++) {
        assert_int_equal(first.points[i].probe.hosts, again.points[i].probe.hosts);
        assert_memory_equal(&first.points[i].probe.rate_per_s, &again.points[i].probe.rate_per_s,
                            sizeof(double));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_needs_as_many_hosts_as_it_is_times_what_one_is_good_for),
        cmocka_unit_test(hosts_are_added_until_there_are_no_more),
        cmocka_unit_test(one_host_does_it_all_if_it_can),
        cmocka_unit_test(the_answer_is_the_same_whatever_the_number_of_hosts),
        cmocka_unit_test(hosts_that_are_known_to_be_too_few_are_not_even_tried),
        cmocka_unit_test(hosts_do_not_come_and_go_in_the_search),
        cmocka_unit_test(a_stumble_brings_in_nobody),
        cmocka_unit_test(too_few_hosts_make_it_a_lower_bound),
        cmocka_unit_test(the_lower_bound_is_below_what_the_clients_could_not_offer),
        cmocka_unit_test(the_same_search_takes_the_same_hosts),
    };

    return cmocka_run_group_tests_name("coordinator.capacity_hosts", tests, NULL, NULL);
}
