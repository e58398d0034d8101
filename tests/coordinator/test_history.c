/* coordinator/history: changes are found where they are and seldom where they are not; a history
 * keeps what was added, whoever adds at the same time. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/rng.h"
#include "coordinator/history/change_points.h"
#include "coordinator/history/history.h"
#include "coordinator/history/history_render.h"
#include "coordinator/result/message.h"
#include "coordinator/result/store.h"
#include "coordinator/result/summary.h"
#include "tests/coordinator/sample_result.h"
#include "tests/support/tmpdir.h"

struct rig {
    struct tmpdir tmp;
    char path[300];
};

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));

    assert_non_null(rig);
    tmpdir_make(&rig->tmp);
    (void)snprintf(rig->path, sizeof(rig->path), "%s/h.sqlite", rig->tmp.path);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;

    tmpdir_remove(&rig->tmp);
    free(rig);
    return 0;
}

/* ---- changes */

/* Roughly normal: the sum of twelve. */
static double noise(struct ls_rng *rng)
{
    double sum = 0;

    for (int i = 0; i < 12; i++)
        sum += ls_rng_unit(rng);
    return sum - 6;
}

static size_t count_changes(const double *values, size_t n, size_t *out_first)
{
    struct coord_change *changes = NULL;
    size_t count = 0;

    assert_int_equal(coord_change_points(values, n, 1, &changes, &count), LS_OK);
    *out_first = count > 0 ? changes[0].at : 0;
    free(changes);
    return count;
}

static void a_level_that_changes_is_found_where_it_does(void **state)
{
    double values[60];
    struct ls_rng rng;
    struct coord_change *changes = NULL;
    size_t count = 0;

    (void)state;
    ls_rng_init(&rng, 5, 1);
    for (size_t i = 0; i < 60; i++)
        values[i] = (i < 20 ? 100 : i < 45 ? 95 : 103) + noise(&rng);
    assert_int_equal(coord_change_points(values, 60, 1, &changes, &count), LS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(changes[0].at, 20);
    assert_int_equal(changes[1].at, 45);
    assert_true(changes[0].p <= COORD_CHANGE_LEVEL);
    free(changes);
}

/* One in a hundred is its level; of 300 series that is 3, give or take. */
static void a_level_that_stays_seldom_looks_as_if_it_changed(void **state)
{
    struct ls_rng rng;
    size_t alarms = 0, first;

    (void)state;
    ls_rng_init(&rng, 11, 2);
    for (unsigned k = 0; k < 300; k++) {
        double values[20];

        for (size_t i = 0; i < 20; i++)
            values[i] = 100 + noise(&rng);
        alarms += count_changes(values, 20, &first) > 0;
    }
    assert_true(alarms <= 9);
}

static void few_or_equal_values_show_nothing(void **state)
{
    double values[COORD_CHANGE_MOST + 1] = { 1, 2, 3, 400, 500 };
    struct coord_change *changes = NULL;
    size_t first, count = 0;

    (void)state;
    for (size_t n = 0; n <= 5; n++)
        assert_int_equal(count_changes(values, n, &first), 0);
    for (size_t i = 0; i < 50; i++)
        values[i] = 7;
    assert_int_equal(count_changes(values, 50, &first), 0);
    assert_int_equal(coord_change_points(values, COORD_CHANGE_MOST + 1, 1, &changes, &count),
                     LS_ERANGE);
}

/* ---- the file */

static Ls__Result *a_run(unsigned number, double per_s, const char *commit)
{
    const struct sample_trial trials[] = {
        { "node", "hello", 1, per_s, 2, 20, 0, LS__VERDICT__VERDICT_VALID },
        { "node", "hello", 2, per_s * 1.01, 2, 20, 0, LS__VERDICT__VERDICT_VALID },
    };
    Ls__Result *result = sample_result(trials, 2);
    char text[64];

    (void)snprintf(text, sizeof(text), "run-%u", number);
    assert_true(coord_message_string(&result->run_id, text));
    (void)snprintf(text, sizeof(text), "2026-11-30T%02u:%02u:00.000Z", number / 60, number % 60);
    assert_true(coord_message_string(&result->started_at, text));
    result->labels = calloc(1, sizeof(char *));
    assert_non_null(result->labels);
    (void)snprintf(text, sizeof(text), "commit=%s", commit);
    result->labels[0] = strdup(text);
    result->n_labels = 1;
    return result;
}

static void add(struct coord_history *history, unsigned number, double per_s, const char *commit)
{
    Ls__Result *result = a_run(number, per_s, commit);
    struct ls_diag diag = { .text = "" };
    enum ls_err rc = coord_history_add(history, "results/x", result, &diag);

    assert_string_equal(diag.text, "");
    assert_int_equal(rc, LS_OK);
    ls__result__free_unpacked(result, NULL);
}

static struct coord_history *open_it(const struct rig *rig)
{
    struct coord_history *history = NULL;
    struct ls_diag diag = { .text = "" };

    if (coord_history_open(rig->path, &history, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    return history;
}

static Ls__History *read_it(struct coord_history *history,
                            const struct coord_history_filter *filter)
{
    Ls__History *found = coord_message_new(&ls__history__descriptor);

    assert_non_null(found);
    assert_int_equal(coord_history_read(history, filter, found, NULL), LS_OK);
    return found;
}

static size_t points(struct coord_history *history, const struct coord_history_filter *filter)
{
    Ls__History *found = read_it(history, filter);
    size_t n = found->n_series > 0 ? found->series[0]->n_points : 0;

    coord_message_free(found);
    return n;
}

static void runs_are_kept_once_each_and_found_by_what_is_asked_for(void **state)
{
    const struct rig *rig = *state;
    struct coord_history *history = open_it(rig);

    add(history, 1, 100, "aaa111");
    add(history, 2, 110, "bbb222");
    add(history, 1, 100, "aaa111"); /* again */
    coord_history_close(history);
    history = open_it(rig);
#define WITH(...) &(struct coord_history_filter){ __VA_ARGS__ }
    assert_int_equal(points(history, WITH(.metric = "throughput_per_s")), 2);
    assert_int_equal(points(history, WITH(.target = "no*", .last = 1)), 1);
    assert_int_equal(points(history, WITH(.target = "nginx")), 0);
    assert_int_equal(points(history, WITH(.commit = "bbb")), 1);
    assert_int_equal(points(history, WITH(.commit = "b' OR 1=1 --")), 0);
    assert_int_equal(points(history, WITH(.host = "nowhere")), 0);
    assert_int_equal(points(history, WITH(.plan = "*", .workload = "h?llo")), 2);
    coord_history_close(history);
}

static void a_trend_names_the_commit_of_the_change(void **state)
{
    const struct rig *rig = *state;
    struct coord_history *history = open_it(rig);
    const struct coord_report_options plain = { .columns = 100 };
    Ls__History *found;
    struct ls_buf text;

    for (unsigned i = 0; i < 30; i++) {
        char commit[16];

        (void)snprintf(commit, sizeof(commit), "c%02u<b>", i);
        add(history, i, (i < 15 ? 1000 : 930) + (i * 7) % 5, commit);
    }
    found = read_it(history, WITH(.metric = "throughput_per_s"));
    assert_int_equal(coord_history_find_changes(found, NULL), LS_OK);
    assert_int_equal(found->n_series, 1);
    assert_int_equal(found->series[0]->n_changes, 1);
    assert_int_equal(found->series[0]->changes[0]->at, 15);
    assert_string_equal(found->series[0]->changes[0]->commit, "c15<b>");
    assert_false(found->series[0]->changes[0]->better);
    ls_buf_init(&text, 1 << 20);
    assert_int_equal(coord_history_trend(found, COORD_REPORT_TEXT, &plain, &text, NULL), LS_OK);
    assert_non_null(strstr((const char *)text.data, "c15<b>"));
    assert_non_null(strstr((const char *)text.data, "worse"));
    ls_buf_reset(&text);
    assert_int_equal(coord_history_page(found, &text, NULL), LS_OK);
    assert_non_null(strstr((const char *)text.data, "c15&lt;b&gt;"));
    assert_null(strstr((const char *)text.data, "<b>"));
    assert_null(strstr((const char *)text.data, "<script"));
    ls_buf_fini(&text);
    coord_message_free(found);
    coord_history_close(history);
}

/* What a script counts in a second, and its direction is known from it alone. */
static void add_script(struct coord_history *history, unsigned number, double per_s)
{
    Ls__Result *result = a_run(number, 1000, "abc");
    Ls__Trial *trial = result->trials[0];
    Ls__ScriptMetric *metric;
    Ls__Summary *row;

    trial->process = coord_message_new(&ls__process_result__descriptor);
    assert_non_null(trial->process);
    metric = coord_message_append(&trial->process->n_metrics, &trial->process->metrics,
                                  &ls__script_metric__descriptor);
    row = coord_message_append(&result->n_summary, &result->summary, &ls__summary__descriptor);
    assert_non_null(metric);
    assert_non_null(row);
    assert_true(coord_message_string(&metric->name, "ops"));
    assert_true(coord_message_string(&metric->better, "higher"));
    assert_true(coord_message_string(&row->workload, "hello"));
    assert_true(coord_message_string(&row->target, "node"));
    assert_true(coord_message_string(&row->metric, "script/ops"));
    row->n = 1;
    row->median = row->ci95_low = row->ci95_high = per_s;
    assert_int_equal(coord_history_add(history, "results/x", result, NULL), LS_OK);
    ls__result__free_unpacked(result, NULL);
}

static void a_scripts_figure_gets_worse_in_its_own_direction(void **state)
{
    const struct rig *rig = *state;
    struct coord_history *history = open_it(rig);
    Ls__History *found;

    for (unsigned i = 0; i < 30; i++)
        add_script(history, i, (i < 15 ? 1000 : 1070) + (i * 7) % 5);
    found = read_it(history, WITH(.metric = "script/ops"));
    assert_int_equal(coord_history_find_changes(found, NULL), LS_OK);
    assert_int_equal(found->n_series, 1);
    assert_int_equal(found->series[0]->n_changes, 1);
    assert_true(found->series[0]->changes[0]->better);
    coord_message_free(found);
    coord_history_close(history);
}

/* A search whose answer is "at least" beside one that ended. */
static void a_lower_bound_is_no_point_of_a_series(void **state)
{
    const struct rig *rig = *state;
    struct coord_history *history = open_it(rig);
    Ls__History *found;

    for (unsigned i = 0; i < 3; i++) {
        Ls__Result *result = a_run(i, 1000, "abc");

        for (size_t k = 0; k < result->n_trials; k++) {
            Ls__CapacityResult *search = coord_message_new(&ls__capacity_result__descriptor);

            assert_non_null(search);
            search->rate_per_s = 1000;
            search->settled = i != 1;
            result->trials[k]->capacity = search;
        }
        assert_int_equal(coord_summary_build(result), LS_OK);
        assert_int_equal(coord_history_add(history, "results/x", result, NULL), LS_OK);
        ls__result__free_unpacked(result, NULL);
    }
    found = read_it(history, WITH(.metric = "capacity_per_s"));
    assert_int_equal(found->n_series, 1);
    assert_int_equal(found->series[0]->n_points, 2);
    assert_string_equal(found->series[0]->points[1]->run_id, "run-2");
    coord_message_free(found);
    coord_history_close(history);
}

enum { WRITERS = 4, EACH = 15 };

/* All make the file, too. */
static void many_writers_lose_nothing(void **state)
{
    const struct rig *rig = *state;
    pid_t writers[WRITERS];
    struct coord_history *history;

    for (unsigned w = 0; w < WRITERS; w++) {
        writers[w] = fork();
        assert_true(writers[w] >= 0);
        if (writers[w] == 0) {
            history = open_it(rig);
            for (unsigned i = 0; i < EACH; i++)
                add(history, w * EACH + i, 100, "abc");
            coord_history_close(history);
            _exit(0);
        }
    }
    for (unsigned w = 0; w < WRITERS; w++) {
        int status = -1;

        assert_int_equal(waitpid(writers[w], &status, 0), writers[w]);
        assert_int_equal(status, 0);
    }
    history = open_it(rig);
    assert_int_equal(points(history, WITH(.metric = "throughput_per_s", .last = 500)),
                     WRITERS * EACH);
    coord_history_close(history);
}

static void count_told(void *ctx, const char *folder, const char *why)
{
    unsigned *told = ctx;

    assert_non_null(strstr(folder, "broken"));
    assert_true(strlen(why) > 10);
    (*told)++;
}

static void it_is_made_anew_from_the_folders(void **state)
{
    const struct rig *rig = *state;
    struct coord_history *history = open_it(rig);
    char dir[400];
    uint32_t added = 0;
    unsigned told = 0;

    for (unsigned i = 0; i < 3; i++) {
        Ls__Result *result = a_run(i, 100, "abc");
        struct coord_store *store = NULL;

        (void)snprintf(dir, sizeof(dir), "%s/results/%s%u", rig->tmp.path, i == 2 ? "broken" : "r",
                       i);
        assert_int_equal(coord_store_create(dir, &store, NULL), LS_OK);
        assert_int_equal(coord_store_result(store, result, NULL), LS_OK);
        coord_store_close(store);
        ls__result__free_unpacked(result, NULL);
    }
    (void)snprintf(dir, sizeof(dir), "%s/results/broken2/result.json", rig->tmp.path);
    assert_int_equal(
        ls_fs_write(dir, (struct ls_bytes){ (const unsigned char *)"{", 1 }, 0644, NULL), LS_OK);
    add(history, 9, 100, "gone");
    (void)snprintf(dir, sizeof(dir), "%s/results", rig->tmp.path);
    assert_int_equal(coord_history_rebuild(history, dir, count_told, &told, &added, NULL), LS_OK);
    assert_int_equal(added, 2);
    assert_int_equal(told, 1);
    assert_int_equal(points(history, WITH(.metric = "throughput_per_s")), 2);
    (void)snprintf(dir, sizeof(dir), "%s/nowhere", rig->tmp.path);
    assert_int_equal(coord_history_rebuild(history, dir, count_told, &told, &added, NULL), LS_EIO);
    assert_int_equal(points(history, WITH(.metric = "throughput_per_s")), 2); /* as it was */
    coord_history_close(history);
}

static void a_file_that_is_no_history_is_left_as_it_is(void **state)
{
    const struct rig *rig = *state;
    static const char text[] = "this is a letter, and has been one for many years now, thank you";
    struct coord_history *history = NULL;
    struct ls_diag diag = { .text = "" };
    char *after = NULL;
    size_t len = 0;

    assert_int_equal(ls_fs_write(rig->path,
                                 (struct ls_bytes){ (const unsigned char *)text, sizeof(text) },
                                 0644, NULL),
                     LS_OK);
    assert_int_equal(coord_history_open(rig->path, &history, &diag), LS_EINVAL);
    assert_non_null(strstr(diag.text, "is no history"));
    assert_int_equal(ls_fs_read(rig->path, 1 << 20, &after, &len, NULL), LS_OK);
    assert_int_equal(len, sizeof(text));
    assert_memory_equal(after, text, len);
    free(after);
    assert_int_equal(coord_history_open("/nowhere/at/all", &history, &diag), LS_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_that_changes_is_found_where_it_does),
        cmocka_unit_test(a_level_that_stays_seldom_looks_as_if_it_changed),
        cmocka_unit_test(few_or_equal_values_show_nothing),
        cmocka_unit_test_setup_teardown(runs_are_kept_once_each_and_found_by_what_is_asked_for,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_trend_names_the_commit_of_the_change, setup, teardown),
        cmocka_unit_test_setup_teardown(a_scripts_figure_gets_worse_in_its_own_direction, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_lower_bound_is_no_point_of_a_series, setup, teardown),
        cmocka_unit_test_setup_teardown(many_writers_lose_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_made_anew_from_the_folders, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_no_history_is_left_as_it_is, setup,
                                        teardown),
    };

    return cmocka_run_group_tests_name("coordinator.history", tests, NULL, NULL);
}
