/* coordinator/result/compare*.c: what two results say about each other. */
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/attr.h"
#include "common/fs.h"
#include "common/rng.h"
#include "coordinator/result/compare.h"
#include "coordinator/result/message.h"
#include "coordinator/result/summary.h"
#include "tests/coordinator/sample_result.h"
#include "tests/support/tmpdir.h"

#define VALID LS__VERDICT__VERDICT_VALID

enum { RUNS = 8 };

static const struct coord_compare_options plain = { .fail_on = 0 };
static const struct coord_compare_options gate = { .fail_on = 0.05 };

/* RUNS repetitions of one target whose throughput scatters by +-1 % around per_s. */
static Ls__Result *runs(const char *target, double per_s, double cpu_us, uint64_t seed)
{
    struct sample_trial trials[RUNS];
    struct ls_rng rng;

    ls_rng_init(&rng, seed, 1);
    for (uint32_t i = 0; i < RUNS; i++) {
        double scatter = 0.99 + 0.02 * ls_rng_unit(&rng);

        trials[i] = (struct sample_trial){ .target = target,
                                           .workload = "hello",
                                           .repetition = i + 1,
                                           .throughput_per_s = per_s * scatter,
                                           .p50_ms = 1.2 / scatter,
                                           .cpu_us = cpu_us / scatter,
                                           .verdict = VALID };
    }
    return sample_result(trials, RUNS);
}

struct pair {
    Ls__Result *a;
    Ls__Result *b;
    Ls__Comparisons *all;
    struct ls_diag diag;
};

static struct pair pair_of(Ls__Result *a, Ls__Result *b)
{
    struct pair pair = { .a = a, .b = b };

    pair.all = coord_message_new(&ls__comparisons__descriptor);
    assert_non_null(pair.all);
    return pair;
}

static enum ls_err compared(struct pair *pair, const struct coord_compare_options *options)
{
    pair->all->fail_on = options->fail_on;
    pair->all->level = COORD_COMPARE_LEVEL;
    return coord_compare(pair->a, "before", pair->b, "after", options, pair->all, &pair->diag);
}

static void drop(struct pair *pair)
{
    coord_message_free(pair->all);
    ls__result__free_unpacked(pair->a, NULL);
    ls__result__free_unpacked(pair->b, NULL);
}

static const Ls__ComparedMetric *metric(const struct pair *pair, const char *name)
{
    const Ls__Comparison *comparison = pair->all->comparisons[0];

    for (size_t i = 0; i < comparison->n_metrics; i++) {
        if (strcmp(comparison->metrics[i]->metric, name) == 0)
            return comparison->metrics[i];
    }
    fail_msg("no metric %s", name);
    return NULL;
}

static char *rendered(const struct pair *pair, enum coord_report_format format)
{
    struct ls_buf out;

    ls_buf_init(&out, 1u << 20);
    assert_int_equal(coord_compare_render(pair->all, format,
                                          &(struct coord_report_options){ .columns = 200 }, &out,
                                          NULL),
                     LS_OK);
    return ls_buf_detach(&out);
}

static void the_same_is_no_difference(void **state)
{
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 50000, 20, 2));
    char *text;

    (void)state;
    assert_int_equal(compared(&pair, &gate), LS_OK);
    assert_int_equal(pair.all->comparisons[0]->n_metrics, 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(pair.all->comparisons[0]->metrics[i]->finding, "no_difference");
    assert_int_equal(pair.all->comparisons[0]->failed, 0);
    assert_int_equal(pair.all->comparisons[0]->n_differences, 0);
    text = rendered(&pair, COORD_REPORT_TEXT);
    assert_non_null(strstr(text, "no difference shown"));
    assert_non_null(strstr(text, "Hosts, programs and loads were the same."));
    free(text);
    drop(&pair);
}

static void worse_by_a_tenth_fails_and_better_does_not(void **state)
{
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 45000, 18, 2));
    char *text;

    (void)state;
    assert_int_equal(compared(&pair, &gate), LS_OK);
    assert_string_equal(metric(&pair, "throughput_per_s")->finding, "worse");
    assert_true(metric(&pair, "throughput_per_s")->failed);
    assert_true(metric(&pair, "throughput_per_s")->ratio < 0.92);
    assert_true(metric(&pair, "throughput_per_s")->ratio_high < 0.95);
    assert_string_equal(metric(&pair, "cpu_ns_per_request")->finding, "better");
    assert_false(metric(&pair, "cpu_ns_per_request")->failed);
    assert_int_equal(pair.all->comparisons[0]->failed, 1);
    text = rendered(&pair, COORD_REPORT_MARKDOWN);
    assert_non_null(strstr(text, "is worse by more than 5 %"));
    free(text);
    drop(&pair);
}

static void worse_by_less_than_allowed_is_said_and_does_not_fail(void **state)
{
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 48500, 20, 2));

    (void)state;
    assert_int_equal(compared(&pair, &gate), LS_OK);
    assert_string_equal(metric(&pair, "throughput_per_s")->finding, "worse");
    assert_false(metric(&pair, "throughput_per_s")->failed);
    drop(&pair);
}

static void three_runs_cannot_tell(void **state)
{
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 25000, 20, 2));

    (void)state;
    for (unsigned i = 3; i < RUNS; i++) {
        pair.a->trials[i]->verdict = LS__VERDICT__VERDICT_INVALID;
        pair.b->trials[i]->verdict = LS__VERDICT__VERDICT_INVALID;
    }
    assert_int_equal(compared(&pair, &gate), LS_OK);
    assert_string_equal(metric(&pair, "throughput_per_s")->finding, "too_few");
    assert_int_equal(pair.all->comparisons[0]->failed, 0);
    assert_int_equal(pair.all->comparisons[0]->undecided, 1);
    assert_int_equal(metric(&pair, "throughput_per_s")->n_a, 3);
    /* Three tests: 2 / C(2n, n) x 3 has to be at most 0.05. */
    assert_in_range(metric(&pair, "throughput_per_s")->runs_needed, 5, 6);
    drop(&pair);
}

/* Holm's rule on his own kind of example: the smallest p counts three times, the next twice. */
static void p_is_adjusted_for_the_number_of_tests(void **state)
{
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 45000, 20.12, 2));
    const Ls__ComparedMetric *most, *next, *least;

    (void)state;
    assert_int_equal(compared(&pair, &plain), LS_OK);
    most = metric(&pair, "throughput_per_s");
    next = metric(&pair, "service_time_p99_ns");
    least = metric(&pair, "cpu_ns_per_request");
    if (next->p > least->p) {
        const Ls__ComparedMetric *swap = next;

        next = least;
        least = swap;
    }
    assert_true(most->p < next->p && next->p < least->p && next->p * 2 > most->p * 3);
    assert_true(fabs(most->p_adjusted - 3 * most->p) < 1e-12);
    assert_true(fabs(next->p_adjusted - 2 * next->p) < 1e-12);
    assert_true(fabs(least->p_adjusted - fmax(least->p, 2 * next->p > 1 ? 1 : 2 * next->p)) <
                1e-12);
    drop(&pair);
}

static void one_comparison_in_twenty_at_most_is_a_false_alarm(void **state)
{
    unsigned alarms = 0, rounds = 40;

    (void)state;
    for (unsigned round = 0; round < rounds; round++) {
        struct pair pair =
            pair_of(runs("node", 50000, 20, 2 * round + 1), runs("node", 50000, 20, 2 * round + 2));
        bool alarm = false;

        assert_int_equal(compared(&pair, &plain), LS_OK);
        for (size_t i = 0; i < 3; i++) {
            const char *finding = pair.all->comparisons[0]->metrics[i]->finding;

            alarm = alarm || strcmp(finding, "no_difference") != 0;
        }
        alarms += alarm;
        drop(&pair);
    }
    assert_in_range(alarms, 0, rounds / 20);
}

/* One search of this result: a capacity and its interval; high 0: a lower bound. */
static Ls__Result *searched(double rate, double low, double high)
{
    const struct sample_trial trial = { "node", "hello", 1,    5000,
                                        0.8,    9,       5000, LS__VERDICT__VERDICT_VALID };
    Ls__Result *result = sample_result(&trial, 1);
    Ls__CapacityResult *found = coord_message_new(&ls__capacity_result__descriptor);

    assert_non_null(found);
    found->rate_per_s = rate;
    found->low_per_s = low;
    found->high_per_s = high;
    result->trials[0]->capacity = found;
    return result;
}

static void single_searches_are_compared_by_their_intervals(void **state)
{
    static const struct {
        double b[3];
        const char *finding;
    } cases[] = { { { 5300, 5200, 5400 }, "better" },
                  { { 4700, 4600, 4800 }, "worse" },
                  { { 5150, 5050, 5250 }, "no_difference" },
                  { { 9000, 8900, 0 }, "lower_bound" } };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct pair pair = pair_of(searched(5000, 4900, 5100),
                                   searched(cases[i].b[0], cases[i].b[1], cases[i].b[2]));
        const Ls__ComparedMetric *row;

        assert_int_equal(compared(&pair, &gate), LS_OK);
        assert_int_equal(pair.all->comparisons[0]->n_metrics, 1);
        row = metric(&pair, "capacity_per_s");
        assert_string_equal(row->finding, cases[i].finding);
        if (row->by_intervals) {
            assert_true(row->ratio_low < row->ratio && row->ratio < row->ratio_high);
            assert_true(row->ratio_low * 5100 - cases[i].b[1] < 1e-6);
        }
        drop(&pair);
    }
}

static void a_lower_bound_is_no_figure_however_often_it_was_found(void **state)
{
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 40000, 20, 2));
    const Ls__ComparedMetric *row;
    char *text;

    (void)state;
    for (size_t i = 0; i < RUNS; i++) {
        Ls__Result *sides[] = { pair.a, pair.b };

        for (size_t k = 0; k < LS_ARRAY_LEN(sides); k++) {
            Ls__Trial *trial = sides[k]->trials[i];

            trial->capacity = coord_message_new(&ls__capacity_result__descriptor);
            assert_non_null(trial->capacity);
            trial->capacity->rate_per_s = trial->throughput_per_s;
            trial->capacity->settled = k == 0;
        }
    }
    assert_int_equal(compared(&pair, &gate), LS_OK);
    row = metric(&pair, "capacity_per_s");
    assert_string_equal(row->finding, "lower_bound");
    assert_false(row->failed);
    assert_int_equal(pair.all->comparisons[0]->failed, 0);
    assert_int_equal(pair.all->comparisons[0]->undecided, 1);
    text = rendered(&pair, COORD_REPORT_TEXT);
    assert_non_null(strstr(text, "1 known as a lower bound only"));
    assert_null(strstr(text, "-20"));
    free(text);
    drop(&pair);
}

static enum ls_err thresholds_of(const char *text, struct coord_thresholds *out,
                                 struct ls_diag *diag)
{
    struct tmpdir tmp;
    char path[300];
    enum ls_err rc;

    tmpdir_make(&tmp);
    (void)snprintf(path, sizeof(path), "%s/t.yaml", tmp.path);
    assert_int_equal(ls_fs_write(path,
                                 (struct ls_bytes){ (const unsigned char *)text, strlen(text) },
                                 0644, NULL),
                     LS_OK);
    rc = coord_thresholds_read(path, out, diag);
    tmpdir_remove(&tmp);
    return rc;
}

/* Whole processes, ten runs of which took so long each. */
static Ls__Result *processes(double wall_ns)
{
    struct sample_trial trials[6];
    Ls__Result *result;

    for (uint32_t i = 0; i < LS_ARRAY_LEN(trials); i++)
        trials[i] =
            (struct sample_trial){ "node", "hello", i + 1, 0, 1, 0, 0, LS__VERDICT__VERDICT_VALID };
    result = sample_result(trials, LS_ARRAY_LEN(trials));
    for (size_t i = 0; i < result->n_trials; i++) {
        Ls__Trial *trial = result->trials[i];
        Ls__Spread *wall = coord_message_new(&ls__spread__descriptor);

        coord_message_free(trial->requests);
        coord_message_free(trial->service_time);
        coord_message_free(trial->server);
        trial->requests = NULL;
        trial->service_time = NULL;
        trial->server = NULL;
        trial->process = coord_message_new(&ls__process_result__descriptor);
        assert_true(trial->process != NULL && wall != NULL);
        wall->n = 10;
        wall->median = wall_ns + (double)i;
        trial->process->wall_ns = wall;
        assert_true(coord_message_string(&trial->protocol, "process"));
    }
    assert_int_equal(coord_summary_build(result), LS_OK);
    return result;
}

static void processes_are_compared_by_their_wall_time(void **state)
{
    static const char *const rate[] = { "throughput_per_s" };
    static const struct coord_compare_options other = { .metrics = rate, .metric_count = 1 };
    struct pair pair = pair_of(processes(1000), processes(1200));

    (void)state;
    assert_int_equal(compared(&pair, &gate), LS_OK);
    assert_string_equal(metric(&pair, "wall_median_ns")->finding, "worse");
    assert_int_equal(pair.all->comparisons[0]->failed, 1);
    drop(&pair);
    pair = pair_of(processes(1000), processes(1200));
    assert_int_equal(compared(&pair, &other), LS_EINVAL); /* nothing of that was measured */
    drop(&pair);
}

/* processes() whose scripts have printed operations per second, too. */
static Ls__Result *scripts(double per_s)
{
    Ls__Result *result = processes(1000);

    for (size_t i = 0; i < result->n_trials; i++) {
        Ls__ProcessResult *process = result->trials[i]->process;
        Ls__ScriptMetric *own = coord_message_append(&process->n_metrics, &process->metrics,
                                                     &ls__script_metric__descriptor);

        assert_non_null(own);
        own->value = coord_message_new(&ls__spread__descriptor);
        assert_non_null(own->value);
        own->value->n = 10;
        own->value->median = per_s + (double)i;
        assert_true(coord_message_string(&own->name, "sha256") &&
                    coord_message_string(&own->better, "higher"));
    }
    return result;
}

static void what_scripts_print_is_compared_in_its_own_direction(void **state)
{
    static const char *const names[] = { "script/sha256" }, *const none[] = { "script/md5" };
    static const struct coord_compare_options one = { .metrics = names, .metric_count = 1 };
    static const struct coord_compare_options other = { .metrics = none, .metric_count = 1 };
    struct pair pair = pair_of(scripts(5000), scripts(4000));
    struct coord_thresholds thresholds;
    struct coord_compare_options own = { .thresholds = &thresholds };
    struct ls_diag diag = { .text = "" };

    (void)state;
    assert_int_equal(compared(&pair, &plain), LS_OK); /* without being asked for */
    assert_string_equal(metric(&pair, "script/sha256")->finding, "worse");
    assert_string_equal(metric(&pair, "wall_median_ns")->finding, "no_difference");
    drop(&pair);
    pair = pair_of(scripts(4000), scripts(5000));
    assert_int_equal(compared(&pair, &one), LS_OK);
    assert_string_equal(metric(&pair, "script/sha256")->finding, "better");
    drop(&pair);
    pair = pair_of(scripts(5000), scripts(4000));
    assert_int_equal(thresholds_of("fail_on: {script/sha256: 10%}\n", &thresholds, &diag), LS_OK);
    assert_int_equal(compared(&pair, &own), LS_OK);
    assert_true(metric(&pair, "script/sha256")->failed);
    drop(&pair);
    coord_thresholds_fini(&thresholds);
    pair = pair_of(scripts(5000), scripts(4000));
    assert_int_equal(compared(&pair, &other), LS_EINVAL);
    assert_non_null(strstr(pair.diag.text, "no script of these results has printed 'md5'"));
    drop(&pair);
}

static void another_load_is_refused_and_named(void **state)
{
    const struct coord_compare_options anyway = { .anyway = true };
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 50000, 20, 2));
    char *text;

    (void)state;
    for (unsigned i = 0; i < RUNS; i++)
        pair.b->trials[i]->connections->asked = 256;
    assert_int_equal(compared(&pair, &plain), LS_EINVAL);
    assert_non_null(strstr(pair.diag.text, "hello: connections: '64', then '256'"));
    assert_non_null(strstr(pair.diag.text, "--anyway"));
    coord_message_clear(&pair.all->n_comparisons, &pair.all->comparisons);
    assert_int_equal(compared(&pair, &anyway), LS_OK);
    text = rendered(&pair, COORD_REPORT_TEXT);
    assert_non_null(strstr(text, "Not the same load: hello: connections"));
    free(text);
    drop(&pair);
}

static void nothing_in_common_is_refused(void **state)
{
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("bun", 50000, 20, 2));

    (void)state;
    assert_int_equal(compared(&pair, &plain), LS_EINVAL);
    assert_non_null(strstr(pair.diag.text, "no target and workload in common"));
    drop(&pair);
}

static void an_unknown_metric_is_refused_with_those_there_are(void **state)
{
    const char *const names[] = { "speed" };
    const struct coord_compare_options options = { .metrics = names, .metric_count = 1 };
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 50000, 20, 2));

    (void)state;
    assert_int_equal(compared(&pair, &options), LS_EINVAL);
    assert_non_null(strstr(pair.diag.text, "'speed'; there are throughput_per_s"));
    drop(&pair);
}

static void another_host_is_said(void **state)
{
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 50000, 20, 2));
    bool found = false;

    (void)state;
    assert_true(pair.b->n_hosts > 0 && pair.b->hosts[0]->facts != NULL);
    assert_true(coord_message_string(&pair.b->hosts[0]->facts->governor, "powersave"));
    assert_int_equal(compared(&pair, &plain), LS_OK);
    for (size_t i = 0; i < pair.all->comparisons[0]->n_differences; i++) {
        const Ls__Difference *difference = pair.all->comparisons[0]->differences[i];

        found = found || (strstr(difference->what, " governor") != NULL &&
                          strcmp(difference->b, "powersave") == 0 && !difference->grave);
    }
    assert_true(found);
    assert_int_equal(pair.all->comparisons[0]->n_differences, 1);
    drop(&pair);
}

static void names_are_data(void **state)
{
    struct pair pair =
        pair_of(runs("<b>|\033[31m", 50000, 20, 1), runs("<b>|\033[31m", 50000, 20, 2));
    char *text, *markdown, *csv;

    (void)state;
    assert_int_equal(compared(&pair, &plain), LS_OK);
    text = rendered(&pair, COORD_REPORT_TEXT);
    markdown = rendered(&pair, COORD_REPORT_MARKDOWN);
    csv = rendered(&pair, COORD_REPORT_CSV);
    assert_null(strchr(text, '\033'));
    assert_null(strchr(csv, '\033'));
    assert_null(strstr(markdown, "<b>|"));
    free(csv);
    free(markdown);
    free(text);
    drop(&pair);
}

static void csv_has_every_digit(void **state)
{
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 45000, 18, 2));
    const Ls__ComparedMetric *row;
    char number[48];
    char *csv;

    (void)state;
    assert_int_equal(compared(&pair, &gate), LS_OK);
    row = metric(&pair, "throughput_per_s");
    csv = rendered(&pair, COORD_REPORT_CSV);
    assert_non_null(strstr(csv, "before,after,hello,node,throughput_per_s,8,8,"));
    assert_non_null(strstr(csv, coord_unit_exact(row->ratio, number, sizeof(number))));
    assert_non_null(strstr(csv, coord_unit_exact(row->ratio_low, number, sizeof(number))));
    assert_non_null(strstr(csv, coord_unit_exact(row->p_adjusted, number, sizeof(number))));
    free(csv);
    drop(&pair);
}

/* ---- thresholds */

/* The median falls by a tenth: more than 5 %, less than 15 %. */
static void each_metric_has_a_threshold_of_its_own(void **state)
{
    struct coord_thresholds thresholds;
    struct coord_compare_options options = { .fail_on = 0.05, .thresholds = &thresholds };
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 45000, 20, 2));
    struct ls_diag diag = { .text = "" };

    (void)state;
    assert_int_equal(thresholds_of("fail_on:\n  throughput_per_s: 15%\n  rss_peak_bytes: 2.5\n",
                                   &thresholds, &diag),
                     LS_OK);
    assert_int_equal(thresholds.count, 2);
    assert_int_equal(compared(&pair, &options), LS_OK);
    assert_string_equal(metric(&pair, "throughput_per_s")->finding, "worse");
    assert_false(metric(&pair, "throughput_per_s")->failed);
    assert_true(metric(&pair, "throughput_per_s")->fail_on > 0.14);
    assert_true(metric(&pair, "cpu_ns_per_request")->fail_on < 0.06);
    assert_int_equal(pair.all->comparisons[0]->failed, 0);
    drop(&pair);
    coord_thresholds_fini(&thresholds);
}

/* Wherever it stands among the others. */
static void a_search_s_threshold_is_judged_by_its_intervals(void **state)
{
    static const char *const files[] = {
        "fail_on:\n  capacity_per_s: 5%\n  cpu_ns_per_request: 50%\n",
        "fail_on:\n  cpu_ns_per_request: 50%\n  capacity_per_s: 5%\n",
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(files); i++) {
        struct coord_thresholds thresholds;
        struct coord_compare_options options = { .thresholds = &thresholds };
        struct pair pair = pair_of(searched(5000, 4900, 5100), searched(4000, 3900, 4100));
        struct ls_diag diag = { .text = "" };

        assert_int_equal(thresholds_of(files[i], &thresholds, &diag), LS_OK);
        assert_int_equal(compared(&pair, &options), LS_OK);
        assert_true(metric(&pair, "capacity_per_s")->by_intervals);
        assert_string_equal(metric(&pair, "capacity_per_s")->finding, "worse");
        assert_int_equal(pair.all->comparisons[0]->failed, 1);
        assert_int_equal(pair.all->comparisons[0]->undecided, 0);
        drop(&pair);
        coord_thresholds_fini(&thresholds);
    }
}

static void what_is_no_threshold_is_refused_at_its_place(void **state)
{
    static const char *const bad[] = { "fail_on: {throughput: 5%}",
                                       "fail_on: {throughput_per_s: fast}",
                                       "fail_on: {throughput_per_s: 0}",
                                       "fail_on: {throughput_per_s: -5%}",
                                       "fail_on: {throughput_per_s: 5%%}",
                                       "fail_at: {throughput_per_s: 5%}",
                                       "fail_on: {}",
                                       "- 5%",
                                       "" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(bad); i++) {
        struct coord_thresholds thresholds;
        struct ls_diag diag = { .text = "" };

        assert_int_equal(thresholds_of(bad[i], &thresholds, &diag), LS_EINVAL);
        assert_non_null(strstr(diag.text, "t.yaml"));
        coord_thresholds_fini(&thresholds);
    }
}

static void the_headline_counts_findings(void **state)
{
    struct pair pair = pair_of(runs("node", 50000, 20, 1), runs("node", 45000, 18, 2));
    char *text;

    (void)state;
    assert_int_equal(compared(&pair, &gate), LS_OK);
    text = rendered(&pair, COORD_REPORT_MARKDOWN);
    assert_non_null(strstr(text, "**1 worse (1 by more than allowed), 1 better, 1 without a "
                                 "difference shown**"));
    free(text);
    drop(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_is_no_difference),
        cmocka_unit_test(worse_by_a_tenth_fails_and_better_does_not),
        cmocka_unit_test(worse_by_less_than_allowed_is_said_and_does_not_fail),
        cmocka_unit_test(three_runs_cannot_tell),
        cmocka_unit_test(p_is_adjusted_for_the_number_of_tests),
        cmocka_unit_test(one_comparison_in_twenty_at_most_is_a_false_alarm),
        cmocka_unit_test(single_searches_are_compared_by_their_intervals),
        cmocka_unit_test(a_lower_bound_is_no_figure_however_often_it_was_found),
        cmocka_unit_test(processes_are_compared_by_their_wall_time),
        cmocka_unit_test(what_scripts_print_is_compared_in_its_own_direction),
        cmocka_unit_test(another_load_is_refused_and_named),
        cmocka_unit_test(nothing_in_common_is_refused),
        cmocka_unit_test(an_unknown_metric_is_refused_with_those_there_are),
        cmocka_unit_test(another_host_is_said),
        cmocka_unit_test(names_are_data),
        cmocka_unit_test(csv_has_every_digit),
        cmocka_unit_test(each_metric_has_a_threshold_of_its_own),
        cmocka_unit_test(a_search_s_threshold_is_judged_by_its_intervals),
        cmocka_unit_test(what_is_no_threshold_is_refused_at_its_place),
        cmocka_unit_test(the_headline_counts_findings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
