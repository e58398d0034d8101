/* Vectors from the published pages (SUITES.md, section 6): what they printed has to come out of
 * what they printed it from, and what was wrong with them has to be noticed. */
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/attr.h"
#include "coordinator/result/message.h"
#include "coordinator/result/summary.h"
#include "coordinator/run/verdict.h"
#include "tests/coordinator/sample_result.h"

#define VALID LS__VERDICT__VERDICT_VALID

static void assert_near(double value, double expected, double error)
{
    if (!(fabs(value - expected) <= error))
        fail_msg("%.12g is not %.12g +- %.3g", value, expected, error);
}

/* ---- B1, medals */

/* Orders, best first, that add up to the published table, and how often each occurs: of 74 metrics
 * Deno, LLRT and esrun cannot run 1, 2 and 21. */
static const struct {
    const char *order;
    unsigned times;
} medals[] = {
    { "ENBLD", 11 }, { "DLNBE", 10 }, { "NBLDE", 9 }, { "BEDNL", 7 }, { "NDLBE", 4 },
    { "NLBED", 4 },  { "LDENB", 3 },  { "BNDLE", 2 }, { "NDEBL", 1 }, { "NLBDE", 1 },
    { "LDNBE", 1 },  { "NBDL", 11 },  { "DNBL", 4 },  { "NBLD", 2 },  { "NLBD", 2 },
    { "NBD", 1 },    { "NB", 1 },
};

static const struct {
    const char *target;
    unsigned places[5], metrics;
} standings[] = {
    { "N", { 36, 17, 11, 10, 0 }, 74 }, { "D", { 14, 9, 21, 14, 15 }, 73 },
    { "E", { 11, 7, 4, 4, 27 }, 53 },   { "B", { 9, 24, 22, 16, 3 }, 74 },
    { "L", { 4, 17, 15, 28, 8 }, 72 },
};

/* A trial with one ranked metric: CPU per request, of which less is better, or throughput, of which
 * more is. */
static Ls__Trial *ranked(char target, unsigned metric, unsigned place, bool higher_is_better)
{
    char name[2] = { target, '\0' }, workload[16];
    struct sample_trial from = { name, workload, 1, 1000, 1, 1, 0, VALID };
    Ls__Trial *trial;

    (void)snprintf(workload, sizeof(workload), "m%u", metric);
    from.throughput_per_s = higher_is_better ? 1000.0 - place : 1000;
    from.cpu_us = higher_is_better ? 0 : 10.0 + place;
    trial = sample_trial(&from);
    coord_message_free(trial->service_time);
    trial->service_time = NULL;
    if (!higher_is_better) {
        coord_message_free(trial->requests); /* no throughput then */
        trial->requests = NULL;
        trial->server->rss_peak_bytes = 0;
    }
    return trial;
}

static void the_medal_table_comes_out_of_its_metrics(void **state)
{
    Ls__Result *result = sample_result(NULL, 0);
    unsigned metric = 0, given[5] = { 0 };

    (void)state;
    result->trials = calloc(74 * 5, sizeof(*result->trials));
    assert_non_null(result->trials);
    for (size_t i = 0; i < LS_ARRAY_LEN(medals); i++) {
        for (unsigned k = 0; k < medals[i].times; k++, metric++) {
            for (unsigned place = 0; medals[i].order[place] != '\0'; place++)
                result->trials[result->n_trials++] =
                    ranked(medals[i].order[place], metric, place, metric % 2 == 0);
        }
    }
    assert_int_equal(metric, 74);
    assert_int_equal(coord_summary_build(result), LS_OK);
    assert_int_equal(result->n_standings, 5);
    for (size_t i = 0; i < 5; i++) {
        const Ls__Standing *standing = result->standings[i];

        assert_string_equal(standing->target, standings[i].target);
        assert_int_equal(standing->metrics, standings[i].metrics);
        assert_int_equal(standing->n_places, 5);
        for (unsigned p = 0; p < 5; p++) {
            assert_int_equal(standing->places[p], standings[i].places[p]);
            given[p] += standing->places[p];
        }
        assert_int_equal(standing->firsts, standings[i].places[0]);
    }
    /* Every k-th place is given once per metric with so many runners. */
    assert_memory_equal(given, ((unsigned[]){ 74, 74, 73, 72, 53 }), sizeof(given));
    ls__result__free_unpacked(result, NULL);
}

/* ---- figures from figures */

/* B6: of the last two the printed inputs give another figure than the unrounded ones did. */
static void burst_changes_are_computed_before_anything_is_rounded(void **state)
{
    static const struct {
        double burst, sustained, printed;
    } exact[] = {
        { 82.1, 76.2, -7.2 }, { 78.3, 69.6, -11.1 }, { 49.34, 50.08, 1.5 }, { 40.36, 40.52, 0.4 }
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(exact); i++)
        assert_near(coord_stats_change(exact[i].burst, exact[i].sustained) * 100, exact[i].printed,
                    0.05);
    assert_near(coord_stats_change(49.3, 50.1) * 100, 1.6, 0.05);
    assert_near(coord_stats_change(40.4, 40.5) * 100, 0.2, 0.05);
}

static void one_core_is_what_cpu_per_request_makes_of_it(void **state)
{
    static const double rows[][2] = {
        { 11.9, 84.0 }, { 12.2, 82.0 }, { 18.2, 54.9 }, { 33.8, 29.6 }
    };
    double per_s;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct sample_trial from = { "x", "y", 1, 1000, 1, rows[i][0], 0, VALID };
        Ls__Trial *trial = sample_trial(&from);

        assert_true(coord_metric_get(coord_metric_find("one_core_per_s"), trial, &per_s));
        assert_near(per_s / 1000, rows[i][1], 0.1);
        coord_message_free(trial);
    }
}

/* B13 */
static void gains_of_http2_are_ratios_of_unrounded_figures(void **state)
{
    static const double rows[][3] = {
        { 38579, 93086, 0.41 }, { 22650, 95630, 0.24 }, { 39780, 48888, 0.81 },
        { 17090, 50576, 0.34 }, { 47262, 31297, 1.51 }, { 42404, 32001, 1.33 },
        { 69237, 18732, 3.70 }, { 45531, 26572, 1.71 },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct coord_ratio ratio;

        assert_int_equal(coord_stats_ratio(&rows[i][0], 1, &rows[i][1], 1, 1, 1, &ratio), LS_OK);
        assert_near(ratio.ratio, rows[i][2], 0.005);
        assert_true(ratio.is_range && !ratio.differs); /* from one run each nobody can tell */
    }
}

/* A4 */
static void the_mean_of_three_peaks_is_the_published_one(void **state)
{
    static const double runs[] = { 10697938, 10376454, 10648229 };
    struct coord_stats stats;

    (void)state;
    assert_int_equal(coord_stats_compute(runs, 3, 1, 1, &stats), LS_OK);
    assert_near(stats.mean, 10574207, 0.5);
    assert_true(stats.max == 10697938 && !stats.noisy);
}

/* A5: errors are added over the repetitions, not averaged. */
static void timeouts_of_three_runs_are_their_sum(void **state)
{
    static const unsigned timeouts[] = { 48, 42, 49 };
    double sum = 0, one;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(timeouts); i++) {
        struct sample_trial from = { "x", "y", 1, 1000, 1, 0, 0, VALID };
        Ls__Trial *trial = sample_trial(&from);

        trial->requests->timeout = timeouts[i];
        assert_true(coord_metric_get(coord_metric_find("timeouts"), trial, &one));
        sum += one;
        coord_message_free(trial);
    }
    assert_true(sum == 139);
}

/* ---- Little's law */

static const Ls__Reason *reason_of(const Ls__Trial *trial, const char *code)
{
    for (size_t i = 0; i < trial->n_reasons; i++) {
        if (strcmp(trial->reasons[i]->code, code) == 0)
            return trial->reasons[i];
    }
    return NULL;
}

/* connections of which so many carried the load, at that rate and mean latency. */
static Ls__Trial *loop(double rate_per_s, double mean_ms, unsigned asked, unsigned opened)
{
    struct sample_trial from = { "x", "y", 1, rate_per_s, mean_ms, 0, 0, VALID };
    Ls__Trial *trial = sample_trial(&from);
    struct coord_books books = { "", "", "" };

    trial->service_time->mean_ns = mean_ms * 1e6;
    trial->in_flight_mean = asked;
    trial->connections->asked = asked;
    trial->connections->opened = trial->connections->peak = opened;
    coord_verdict_judge(trial, &(struct coord_verdict_input){ .books = &books });
    return trial;
}

/* A3: connections are requests/s times latency; the median is near the mean. C: 245 / 135,983 per
 * second are the 1.81 ms that were printed, so that many connections ran, and not 400. */
static void a_closed_loop_obeys_little_s_law_or_is_invalid(void **state)
{
    static const double clean[][2] = {
        { 0.403, 0.38 }, { 1.566, 1.54 }, { 1.631, 1.60 }, { 2.073, 2.03 }
    };
    Ls__Trial *trial;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(clean); i++) {
        trial = loop(256 / clean[i][0] * 1000, clean[i][0], 256, 256);
        assert_null(reason_of(trial, "littles_law"));
        assert_true(fabs(clean[i][1] / clean[i][0] - 1) < 0.06);
        coord_message_free(trial);
    }
    assert_near(245 / 135983.0 * 1000, 1.81, 0.01);
    trial = loop(135983, 1.81, 400, 400);
    assert_non_null(reason_of(trial, "littles_law"));
    assert_int_equal(trial->verdict, LS__VERDICT__VERDICT_INVALID);
    coord_message_free(trial);
    trial = loop(135983, 1.81, 400, 400 - 155);
    assert_non_null(reason_of(trial, "connections_short"));
    assert_int_equal(trial->verdict, LS__VERDICT__VERDICT_INVALID);
    coord_message_free(trial);
}

/* ---- bytes per response */

/* C: transfer over requests is a whole number, for only the Date header's text changes; three
 * different ones in one table say that not the same was answered. */
static void bytes_per_response_are_whole_and_tell_bodies_apart(void **state)
{
    static const double rows[][3] = {
        { 499.08, 4088491, 128 }, { 568.22, 4654876, 128 }, { 277.45, 1547495, 188 },
        { 440.73, 2458204, 188 }, { 804.16, 4763980, 177 },
    };
    double bytes;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct sample_trial from = { "x", "y", 1, rows[i][1] / 30, 1, 0, 0, VALID };
        Ls__Trial *trial = sample_trial(&from);

        trial->window->duration_ns = INT64_C(30000000000);
        trial->bytes_in = (uint64_t)(rows[i][0] * 1048576);
        assert_true(coord_metric_get(coord_metric_find("response_bytes"), trial, &bytes));
        assert_near(bytes, rows[i][2], 0.01);
        coord_message_free(trial);
    }
}

/* C: 158,276 against 155,001 requests/s, one run each, and three that scatter like that. */
static void two_per_cent_are_no_win(void **state)
{
    static const double fastify[] = { 158276, 158100, 158500 },
                        elysia[] = { 155001, 155200, 154900 };
    char text[COORD_RATIO_TEXT_MAX];
    struct coord_ratio ratio;

    (void)state;
    for (size_t n = 1; n <= 3; n++) {
        assert_int_equal(coord_stats_ratio(fastify, n, elysia, n, 1, 1, &ratio), LS_OK);
        assert_false(ratio.differs);
        (void)coord_ratio_describe(&ratio, coord_metric_find("throughput_per_s"), "fastify",
                                   "elysia", text, sizeof(text));
        assert_non_null(strstr(text, n < 3 ? "too few runs to tell" : "no difference shown"));
    }
    assert_non_null(strstr(text, "1.02x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_medal_table_comes_out_of_its_metrics),
        cmocka_unit_test(burst_changes_are_computed_before_anything_is_rounded),
        cmocka_unit_test(one_core_is_what_cpu_per_request_makes_of_it),
        cmocka_unit_test(gains_of_http2_are_ratios_of_unrounded_figures),
        cmocka_unit_test(the_mean_of_three_peaks_is_the_published_one),
        cmocka_unit_test(timeouts_of_three_runs_are_their_sum),
        cmocka_unit_test(a_closed_loop_obeys_little_s_law_or_is_invalid),
        cmocka_unit_test(bytes_per_response_are_whole_and_tell_bodies_apart),
        cmocka_unit_test(two_per_cent_are_no_win),
    };

    return cmocka_run_group_tests_name("coordinator.published", tests, NULL, NULL);
}
