/* How a long trial's series becomes short: nothing is lost that is added up, and what stood out
 * stays. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "common/msg_json.h"
#include "coordinator/result/message.h"
#include "coordinator/result/series.h"
#include "coordinator/result/store.h"
#include "tests/coordinator/sample_result.h"

#define SECOND INT64_C(1000000000)
#define ODD    1007u /* the second that is not as the others */

static void add_sample(Ls__Server *server, unsigned second)
{
    Ls__Sample *sample =
        coord_message_append(&server->n_samples, &server->samples, &ls__sample__descriptor);

    assert_non_null(sample);
    sample->at_ns = second * SECOND;
    sample->cpu_ns = (int64_t)second * SECOND / 2 + (second >= ODD ? SECOND : 0);
    sample->rss_bytes = second == ODD ? 999 : 100;
    sample->threads = second == ODD ? 9 : 2;
    sample->voluntary_switches = 10ull * second;
}

/* An interval a second, drain ones behind the window. */
static Ls__Trial *trial_of(unsigned seconds, unsigned drain)
{
    Ls__Trial *trial = sample_trial(&(struct sample_trial){ "nginx", "hello", 1, 1000, 1.2, 9, 1000,
                                                            LS__VERDICT__VERDICT_VALID });

    coord_message_clear(&trial->n_intervals, &trial->intervals);
    coord_message_clear(&trial->server->n_samples, &trial->server->samples);
    trial->window->duration_ns = seconds * SECOND;
    for (unsigned i = 0; i < seconds + drain; i++) {
        Ls__Interval *interval =
            coord_message_append(&trial->n_intervals, &trial->intervals, &ls__interval__descriptor);

        assert_non_null(interval);
        interval->at_ns = i * SECOND;
        interval->length_ns = SECOND;
        interval->completed = i == ODD ? 10 : i >= seconds ? 1 : 1000;
        interval->scheduled = i >= seconds ? 0 : 1000;
        interval->errors = i == ODD ? 990 : 0;
        interval->p50_ns = 1000000;
        interval->p99_ns = interval->max_ns = i == ODD ? 9000000 : 2000000;
        interval->slower = calloc(1, sizeof(*interval->slower));
        assert_non_null(interval->slower);
        interval->slower[0] = 1;
        interval->n_slower = 1;
    }
    for (unsigned i = 0; i <= seconds; i++)
        add_sample(trial->server, i);
    return trial;
}

struct sums {
    uint64_t completed, scheduled, errors, slower;
};

static struct sums sums_of(const Ls__Trial *trial)
{
    struct sums sums = { 0 };

    for (size_t i = 0; i < trial->n_intervals; i++) {
        sums.completed += trial->intervals[i]->completed;
        sums.scheduled += trial->intervals[i]->scheduled;
        sums.errors += trial->intervals[i]->errors;
        sums.slower += trial->intervals[i]->slower[0];
    }
    return sums;
}

static void what_fits_stays_as_it_is(void **state)
{
    Ls__Trial *trial = trial_of(600, 0);

    (void)state;
    assert_int_equal(coord_series_thin(trial, 600), LS_OK);
    assert_int_equal(trial->n_intervals, 600);
    assert_null(trial->intervals_thinned);
    assert_int_equal(trial->server->n_samples, 601);
    assert_null(trial->server->samples_thinned);
    ls__trial__free_unpacked(trial, NULL);
}

static void counts_are_added_and_what_stood_out_stays(void **state)
{
    for (unsigned points = 60; points <= 600; points += 45) {
        Ls__Trial *trial = trial_of(7200, 0);
        struct sums before = sums_of(trial), after;
        const Ls__ThinnedIntervals *thinned;
        size_t odd;

        (void)state;
        assert_int_equal(coord_series_thin(trial, points), LS_OK);
        thinned = trial->intervals_thinned;
        assert_non_null(thinned);
        assert_in_range(trial->n_intervals, points / 2, points);
        assert_int_equal(thinned->n_least_per_s, trial->n_intervals);
        assert_int_equal(thinned->n_most_per_s, trial->n_intervals);
        after = sums_of(trial);
        assert_memory_equal(&before, &after, sizeof(before));
        odd = ODD / thinned->every;
        assert_int_equal(trial->intervals[odd]->at_ns, (int64_t)odd * thinned->every * SECOND);
        assert_int_equal(trial->intervals[odd]->length_ns, (int64_t)thinned->every * SECOND);
        assert_int_equal(trial->intervals[odd]->p99_ns, 9000000);
        assert_true(thinned->least_per_s[odd] == 10 && thinned->most_per_s[odd] == 1000);
        assert_true(thinned->least_per_s[odd + 1] == 1000);
        assert_int_equal(trial->intervals[odd + 1]->p99_ns, 2000000);
        ls__trial__free_unpacked(trial, NULL);
    }
}

/* A point that were of both would have the drain's answers in the window's rate. */
static void no_point_is_of_window_and_drain(void **state)
{
    Ls__Trial *trial = trial_of(1201, 30);
    const Ls__Interval *last, *drained;

    (void)state;
    assert_int_equal(coord_series_thin_intervals(trial, 100), LS_OK);
    assert_int_equal(trial->n_intervals, 14);
    last = trial->intervals[12];
    drained = trial->intervals[13];
    assert_int_equal(last->at_ns, 1200 * SECOND);
    assert_int_equal(last->length_ns, SECOND);
    assert_int_equal(last->completed, 1000);
    assert_int_equal(drained->at_ns, 1201 * SECOND);
    assert_int_equal(drained->completed, 30);
    assert_true(trial->intervals_thinned->most_per_s[13] == 0);
    ls__trial__free_unpacked(trial, NULL);
}

/* What began in the warm-up counts for what it has of the window. */
static void the_first_interval_bends_no_rate(void **state)
{
    Ls__Trial *trial = trial_of(1000, 0);
    double rate = 0;

    (void)state;
    for (size_t i = 0; i < trial->n_intervals; i++)
        trial->intervals[i]->at_ns -= SECOND / 2;
    trial->intervals[0]->completed = 500;
    assert_int_equal(coord_series_thin_intervals(trial, 10), LS_OK);
    assert_true(trial->intervals_thinned->least_per_s[0] == 1000);
    assert_true(coord_series_rate(trial, trial->intervals[0], &rate));
    assert_true(rate == 1000);
    ls__trial__free_unpacked(trial, NULL);
}

/* Both clients have an interval of their own at the same time, one of them a long one. */
static void what_overlaps_is_counted_once_in_time(void **state)
{
    Ls__Trial *trial = trial_of(1000, 0);

    (void)state;
    trial->intervals[3]->length_ns = 3 * SECOND;
    assert_int_equal(coord_series_thin_intervals(trial, 10), LS_OK);
    assert_int_equal(trial->intervals[0]->length_ns, 10 * SECOND);
    ls__trial__free_unpacked(trial, NULL);
}

/* Edited by hand: no number makes it do what no number may do (run by the sanitizers). */
static void any_numbers_are_taken(void **state)
{
    static const int64_t odd[] = { INT64_MIN, -1, 0, 1, INT64_MAX };
    Ls__Trial *trial = trial_of(1000, 0);

    (void)state;
    for (size_t i = 0; i < trial->n_intervals; i++) {
        trial->intervals[i]->at_ns = odd[i % 5];
        trial->intervals[i]->length_ns = odd[i / 5 % 5];
        trial->intervals[i]->completed = UINT64_MAX;
        trial->server->samples[i]->at_ns = odd[i % 5];
        trial->server->samples[i]->cpu_ns = odd[i / 5 % 5];
    }
    assert_int_equal(coord_series_thin(trial, 60), LS_OK);
    assert_in_range(trial->n_intervals, 1, 1000);
    ls__trial__free_unpacked(trial, NULL);
}

static void samples_count_up_and_keep_their_peaks(void **state)
{
    Ls__Trial *trial = trial_of(28800, 0);
    const Ls__Server *server = trial->server;
    const Ls__ThinnedSamples *thinned;
    size_t odd;

    (void)state;
    assert_int_equal(coord_series_thin(trial, 600), LS_OK);
    thinned = server->samples_thinned;
    assert_non_null(thinned);
    assert_int_equal(thinned->every, 48);
    assert_int_equal(server->n_samples, 601);
    assert_int_equal(thinned->n_cores_most, 601);
    assert_int_equal(server->samples[0]->at_ns, 0);
    assert_int_equal(server->samples[600]->at_ns, 28800 * SECOND);
    assert_int_equal(server->samples[600]->cpu_ns, 28800 * SECOND / 2 + SECOND);
    odd = (ODD + 47) / 48;
    assert_int_equal(server->samples[odd]->rss_bytes, 999);
    assert_int_equal(server->samples[odd]->threads, 9);
    assert_true(thinned->cores_most[odd] == 1.5); /* half a CPU, and a second's worth in one */
    assert_true(thinned->cores_most[odd + 1] == 0.5);
    assert_true(thinned->switches_most_per_s[1] == 10);
    assert_int_equal(server->samples[odd + 1]->rss_bytes, 100);
    ls__trial__free_unpacked(trial, NULL);
}

/* Whatever the number of trials: their series are short enough to be read again. */
static void every_run_has_room_in_result_json(void **state)
{
    static const uint32_t trials[] = { 1, 60, 100, 600, 1000 };

    (void)state;
    assert_int_equal(coord_series_points(0), COORD_SERIES_MOST);
    assert_int_equal(coord_series_points(1), COORD_SERIES_MOST);
    assert_int_equal(coord_series_points(60), 600);
    assert_int_equal(coord_series_points(100), 360);
    assert_int_equal(coord_series_points(UINT32_MAX), COORD_SERIES_LEAST);
    for (size_t i = 0; i < LS_ARRAY_LEN(trials); i++) {
        Ls__Trial *trial = trial_of(7200, 10); /* a longer one has no more points */
        char *text;

        assert_int_equal(coord_series_thin(trial, coord_series_points(trials[i])), LS_OK);
        text = ls_msg_to_json(&trial->base, 2);
        assert_non_null(text);
        assert_true(strlen(text) * trials[i] < COORD_RESULT_MAX_BYTES / 2);
        free(text);
        ls__trial__free_unpacked(trial, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_stays_as_it_is),
        cmocka_unit_test(counts_are_added_and_what_stood_out_stays),
        cmocka_unit_test(no_point_is_of_window_and_drain),
        cmocka_unit_test(the_first_interval_bends_no_rate),
        cmocka_unit_test(what_overlaps_is_counted_once_in_time),
        cmocka_unit_test(any_numbers_are_taken),
        cmocka_unit_test(samples_count_up_and_keep_their_peaks),
        cmocka_unit_test(every_run_has_room_in_result_json),
    };

    return cmocka_run_group_tests_name("coordinator.series", tests, NULL, NULL);
}
