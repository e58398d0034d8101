/* coordinator/result/summary.c: what repetitions add up to, and who is first. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/attr.h"
#include "coordinator/result/message.h"
#include "coordinator/result/report_parts.h"
#include "coordinator/result/summary.h"
#include "tests/coordinator/sample_result.h"
#include "tests/support/failmalloc.h"

#define VALID   LS__VERDICT__VERDICT_VALID
#define SUSPECT LS__VERDICT__VERDICT_SUSPECT
#define INVALID LS__VERDICT__VERDICT_INVALID

static const struct sample_trial six[] = {
    { "nginx", "hello", 1, 50000, 1.2, 9, 0, VALID },
    { "node", "hello", 1, 30000, 2.1, 20, 0, VALID },
    { "nginx", "hello", 2, 52000, 1.1, 9.5, 0, SUSPECT },
    { "node", "hello", 2, 40000, 1.6, 21, 0, VALID },
    { "nginx", "hello", 3, 51000, 1.3, 8.8, 0, VALID },
    { "node", "hello", 3, 90000, 0.4, 5, 0, INVALID },
};

static void invalid_trials_are_left_out_and_counted(void **state)
{
    Ls__Result *result = sample_result(six, 6);
    const Ls__Summary *nginx = coord_summary_find(result, "hello", "nginx", "throughput_per_s");
    const Ls__Summary *node = coord_summary_find(result, "hello", "node", "throughput_per_s");

    (void)state;
    assert_int_equal(nginx->n, 3);
    assert_int_equal(nginx->left_out, 0);
    assert_true(nginx->median == 51000 && nginx->min == 50000 && nginx->max == 52000);
    assert_false(nginx->noisy);
    assert_string_equal(nginx->note, "");
    assert_int_equal(node->n, 2);
    assert_int_equal(node->left_out, 1);
    assert_true(node->median == 35000 && node->max == 40000);
    assert_true(node->noisy);
    assert_string_equal(node->note, "two runs: the interval is their range; spread 29 % of the "
                                    "median; 1 of 3 trials left out");
    ls__result__free_unpacked(result, NULL);
}

static void a_target_of_which_nothing_counts_is_still_named(void **state)
{
    struct sample_trial one = { "node", "hello", 1, 90000, 0.4, 5, 0, INVALID };
    Ls__Result *result = sample_result(&one, 1);

    (void)state;
    assert_int_equal(result->n_summary, 1);
    assert_int_equal(result->summary[0]->n, 0);
    assert_int_equal(result->summary[0]->left_out, 1);
    assert_string_equal(result->summary[0]->note, "1 of 1 trials left out");
    ls__result__free_unpacked(result, NULL);
}

static void a_failed_trial_does_not_count_whatever_its_verdict(void **state)
{
    Ls__Result *result = sample_result(six, 2);

    (void)state;
    assert_true(coord_message_string(&result->trials[0]->status, "failed"));
    assert_int_equal(coord_summary_build(result), LS_OK);
    assert_int_equal(coord_summary_find(result, "hello", "nginx", "throughput_per_s")->n, 0);
    ls__result__free_unpacked(result, NULL);
}

static void latency_is_that_of_the_kind_of_load(void **state)
{
    struct sample_trial open = { "nginx", "hello", 1, 20000, 1.2, 9, 20000, VALID };
    Ls__Result *closed_result = sample_result(six, 1), *open_result = sample_result(&open, 1);

    (void)state;
    assert_null(coord_summary_find(closed_result, "hello", "nginx", "response_time_p99_ns"));
    assert_non_null(coord_summary_find(closed_result, "hello", "nginx", "service_time_p99_ns"));
    assert_non_null(coord_summary_find(open_result, "hello", "nginx", "response_time_p99_ns"));
    assert_non_null(coord_summary_find(open_result, "hello", "nginx", "service_time_p99_ns"));
    ls__result__free_unpacked(closed_result, NULL);
    ls__result__free_unpacked(open_result, NULL);
}

/* ---- places */

static void places_follow_each_metric_s_own_direction_and_ties_share(void **state)
{
    static const double values[] = { 10, 30, 20, 30, 5 };
    static const double equal[] = { 7, 7, 7 };
    unsigned places[5];

    (void)state;
    coord_places(values, 5, true, places);
    assert_memory_equal(places, ((unsigned[]){ 4, 1, 3, 1, 5 }), sizeof(places));
    coord_places(values, 5, false, places);
    assert_memory_equal(places, ((unsigned[]){ 2, 4, 3, 4, 1 }), sizeof(places));
    coord_places(equal, 3, true, places);
    assert_memory_equal(places, ((unsigned[]){ 0, 0, 0 }), 3 * sizeof(unsigned));
}

/* SUITES.md, section 6: five systems over 74 metrics, of which the last two cannot run them all.
 * Without ties each place is given once per metric with so many runners, so the places sum to the
 * number of metrics that have them, and each system's row sums to its metrics. */
static void medals_add_up_per_system_and_per_place(void **state)
{
    static const unsigned metrics_of[] = { 74, 74, 73, 72, 53 };
    unsigned given[6] = { 0 }, taken[5] = { 0 };

    (void)state;
    for (unsigned m = 0; m < 74; m++) {
        double values[5];
        unsigned who[5], places[5], n = 0;

        for (unsigned s = 0; s < 5; s++) {
            if (m >= metrics_of[s])
                continue; /* n/a */
            who[n] = s;
            values[n++] = (double)((m * 7 + s * 31) % 101); /* different for each s */
        }
        coord_places(values, n, m % 2 == 0, places);
        for (unsigned i = 0; i < n; i++) {
            given[places[i]]++;
            taken[who[i]]++;
        }
    }
    assert_memory_equal(taken, metrics_of, sizeof(taken));
    assert_memory_equal(given, ((unsigned[]){ 0, 74, 74, 73, 72, 53 }), sizeof(given));
}

static void standings_count_places_over_all_ranked_metrics(void **state)
{
    Ls__Result *result = sample_result(six, 6);

    (void)state;
    /* throughput, p50, p99, p99.9, CPU: nginx first in all. Memory is equal: nobody's. */
    assert_int_equal(result->n_standings, 2);
    assert_string_equal(result->standings[0]->target, "nginx");
    assert_int_equal(result->standings[0]->firsts, 5);
    assert_int_equal(result->standings[0]->metrics, 5);
    assert_string_equal(result->standings[1]->target, "node");
    assert_int_equal(result->standings[1]->seconds, 5);
    assert_int_equal(result->standings[1]->firsts, 0);
    ls__result__free_unpacked(result, NULL);
}

static void an_open_loop_ranks_no_throughput_for_that_was_given(void **state)
{
    static const struct sample_trial open[] = {
        { "nginx", "hello", 1, 20000, 1.2, 9, 20000, VALID },
        { "node", "hello", 1, 20001, 2.1, 20, 20000, VALID },
    };
    Ls__Result *result = sample_result(open, 2);

    (void)state;
    assert_string_equal(result->standings[0]->target, "nginx");
    assert_int_equal(result->standings[0]->metrics, 4); /* p50, p99, p99.9, CPU */
    ls__result__free_unpacked(result, NULL);
}

/* The one that takes more has the longer response times: of the rate that it takes. */
static void searches_are_ranked_and_compared_by_their_capacity(void **state)
{
    static const struct sample_trial found[] = {
        { "nginx", "hello", 1, 20000, 2.1, 0, 20000, VALID },
        { "node", "hello", 1, 10000, 1.2, 0, 10000, VALID },
    };
    Ls__Result *result = sample_result(found, 2);
    const char *const *compared;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        result->trials[i]->capacity = coord_message_new(&ls__capacity_result__descriptor);
        assert_non_null(result->trials[i]->capacity);
        result->trials[i]->capacity->rate_per_s = found[i].offered_per_s;
        result->trials[i]->capacity->high_per_s = found[i].offered_per_s * 1.1;
    }
    assert_int_equal(coord_summary_build(result), LS_OK);
    assert_string_equal(result->standings[0]->target, "nginx");
    assert_int_equal(result->standings[0]->firsts, 1);
    assert_int_equal(result->standings[0]->metrics, 1);
    assert_int_equal(result->standings[1]->firsts, 0);
    compared = coord_report_compared(result, "hello");
    assert_string_equal(compared[0], "capacity_per_s");
    assert_null(compared[1]);
    ls__result__free_unpacked(result, NULL);
}

/* At least 10,000/s may be more than 20,000/s. */
static void a_lower_bound_of_a_capacity_has_no_place(void **state)
{
    static const struct sample_trial found[] = {
        { "nginx", "hello", 1, 20000, 2.1, 0, 20000, VALID },
        { "node", "hello", 1, 10000, 1.2, 0, 10000, VALID },
        { "bun", "hello", 1, 15000, 1.2, 0, 15000, VALID },
    };
    Ls__Result *result = sample_result(found, 3);

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        result->trials[i]->capacity = coord_message_new(&ls__capacity_result__descriptor);
        assert_non_null(result->trials[i]->capacity);
        result->trials[i]->capacity->rate_per_s = found[i].offered_per_s;
        result->trials[i]->capacity->settled = true;
    }
    result->trials[1]->capacity->settled = false;
    assert_int_equal(coord_summary_build(result), LS_OK);
    assert_false(coord_target_is_ranked(result, "hello", "node"));
    assert_non_null(coord_summary_find(result, "hello", "node", "capacity_per_s")); /* but shown */
    for (size_t i = 0; i < result->n_standings; i++)
        assert_int_equal(result->standings[i]->metrics,
                         strcmp(result->standings[i]->target, "node") != 0);
    result->trials[1]->capacity->high_per_s =
        11000; /* not settled, and yet known from both sides */
    assert_true(coord_target_is_ranked(result, "hello", "node"));
    ls__result__free_unpacked(result, NULL);
}

static void there_are_no_places_where_nothing_counts(void **state)
{
    static const struct sample_trial none[] = {
        { "nginx", "hello", 1, 50000, 1.2, 9, 0, INVALID },
        { "node", "hello", 1, 30000, 2.1, 20, 0, VALID },
    };
    Ls__Result *result = sample_result(none, 2);

    (void)state;
    assert_int_equal(result->n_standings, 0);
    ls__result__free_unpacked(result, NULL);
}

static void who_runs_alone_wins_nothing(void **state)
{
    Ls__Result *result = sample_result(six, 1);

    (void)state;
    assert_int_equal(result->n_standings, 0);
    ls__result__free_unpacked(result, NULL);
}

static void ratios_are_of_the_trials_that_count(void **state)
{
    Ls__Result *result = sample_result(six, 6);
    struct coord_ratio ratio;

    (void)state;
    assert_int_equal(coord_summary_ratio(result, "hello", "nginx", "node",
                                         coord_metric_find("throughput_per_s"), &ratio),
                     LS_OK);
    assert_true(ratio.ratio == 51000.0 / 35000.0);
    assert_true(ratio.is_range);
    assert_int_equal(coord_summary_ratio(result, "hello", "nginx", "nobody",
                                         coord_metric_find("throughput_per_s"), &ratio),
                     LS_EINVAL);
    ls__result__free_unpacked(result, NULL);
}

static void building_again_gives_the_same(void **state)
{
    Ls__Result *result = sample_result(six, 6);
    size_t rows = result->n_summary;
    double low = result->summary[0]->ci95_low;

    (void)state;
    assert_int_equal(coord_summary_build(result), LS_OK);
    assert_int_equal(result->n_summary, rows);
    assert_true(result->summary[0]->ci95_low == low);
    assert_int_equal(result->n_standings, 2);
    ls__result__free_unpacked(result, NULL);
}

/* SUITES.md, section 6: requests/s of one core from CPU time per request. */
static void one_core_s_throughput_follows_from_cpu_per_request(void **state)
{
    static const struct {
        double cpu_us, k_per_s;
    } rows[] = { { 11.9, 84.0 }, { 12.2, 82.0 }, { 18.2, 54.9 }, { 33.8, 29.6 } };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct sample_trial from = { "x", "y", 1, 1000, 1, rows[i].cpu_us, 0, VALID };
        Ls__Trial *trial = sample_trial(&from);
        double cpu_ns;

        assert_true(coord_metric_get(coord_metric_find("cpu_ns_per_request"), trial, &cpu_ns));
        assert_true(fabs(1e9 / cpu_ns / 1000 - rows[i].k_per_s) < 0.05);
        coord_message_free(trial);
    }
}

static void build_again(void *ctx)
{
    Ls__Result *result = ctx;
    enum ls_err rc = coord_summary_build(result);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_int_equal(result->n_summary > 0, rc == LS_OK);
}

static void every_failed_allocation_is_reported_and_nothing_leaks(void **state)
{
    Ls__Result *result = sample_result(six, 2);

    (void)state;
    assert_true(failmalloc_each(build_again, result) > 50);
    ls__result__free_unpacked(result, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_trials_are_left_out_and_counted),
        cmocka_unit_test(a_target_of_which_nothing_counts_is_still_named),
        cmocka_unit_test(a_failed_trial_does_not_count_whatever_its_verdict),
        cmocka_unit_test(latency_is_that_of_the_kind_of_load),
        cmocka_unit_test(places_follow_each_metric_s_own_direction_and_ties_share),
        cmocka_unit_test(medals_add_up_per_system_and_per_place),
        cmocka_unit_test(standings_count_places_over_all_ranked_metrics),
        cmocka_unit_test(an_open_loop_ranks_no_throughput_for_that_was_given),
        cmocka_unit_test(searches_are_ranked_and_compared_by_their_capacity),
        cmocka_unit_test(a_lower_bound_of_a_capacity_has_no_place),
        cmocka_unit_test(there_are_no_places_where_nothing_counts),
        cmocka_unit_test(who_runs_alone_wins_nothing),
        cmocka_unit_test(ratios_are_of_the_trials_that_count),
        cmocka_unit_test(building_again_gives_the_same),
        cmocka_unit_test(one_core_s_throughput_follows_from_cpu_per_request),
        cmocka_unit_test(every_failed_allocation_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests_name("coordinator.summary", tests, NULL, NULL);
}
