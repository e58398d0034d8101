/* What of a result goes into report.html; how it looks is e2e.report's business. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "coordinator/page/page.h"
#include "coordinator/result/heat.h"
#include "coordinator/result/html_series.h"
#include "coordinator/result/message.h"
#include "coordinator/result/report.h"
#include "coordinator/result/series.h"
#include "coordinator/result/summary.h"
#include "tests/coordinator/sample_result.h"

#define VALID LS__VERDICT__VERDICT_VALID

enum { MAX = 16 << 20 };

static char *page_of(const Ls__Result *result)
{
    struct ls_buf out;
    struct ls_diag diag;
    char *text;

    ls_buf_init(&out, MAX);
    assert_int_equal(coord_report(result, COORD_REPORT_HTML, NULL, &out, &diag), LS_OK);
    text = ls_buf_detach(&out);
    assert_non_null(text);
    return text;
}

/* What the page's script reads; *out_end is behind it. */
static json_t *data_of(char *text, char **out_end)
{
    static const char begin[] = "<script type=\"application/json\" id=\"data\">";
    char *from = strstr(text, begin), *end;
    json_error_t error;
    json_t *data;

    assert_non_null(from);
    from += strlen(begin);
    end = strchr(from, '<');
    assert_non_null(end);
    assert_memory_equal(end, "</script>", 9); /* the first '<' is the end: none was in the data */
    data = json_loadb(from, (size_t)(end - from), JSON_REJECT_DUPLICATES, &error);
    if (data == NULL)
        fail_msg("%s at %d", error.text, error.position);
    *out_end = end;
    return data;
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;

    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        n++;
    return n;
}

static void a_page_runs_what_it_was_built_with_and_nothing_else(void **state)
{
    static const struct sample_trial one[] = { { "nginx", "hello", 1, 50000, 1.2, 9, 0, VALID } };
    Ls__Result *result = sample_result(one, 1);
    char *text = page_of(result), *end;
    json_t *data = data_of(text, &end);

    (void)state;
    assert_int_equal(count(text, "<script type="), 1);
    assert_int_equal(count(text, "'sha256-"), 7);
    assert_non_null(strstr(text, "content=\"default-src 'none'; script-src 'sha256-"));
    assert_null(strstr(text, "unsafe-inline"));
    assert_null(strstr(text, "connect-src")); /* it talks to nobody */
    assert_null(strstr(text, " src="));
    assert_null(strstr(text, "https://fonts"));
    json_decref(data);
    free(text);
    ls__result__free_unpacked(result, NULL);
}

static void names_are_text_whatever_they_are(void **state)
{
    static const char *const names[] = { "</script><script>alert(1)</script>",
                                         "<img src=x onerror=alert(1)>",
                                         "\"quoted\" 'twice' \\ back",
                                         "\x1b]0;title\x07",
                                         "a\xe2\x80\xae"
                                         "b",
                                         "]]>-->&lt;",
                                         "\xff\xfe",
                                         "" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(names); i++) {
        const struct sample_trial two[] = { { names[i], names[i], 1, 5000, 1.2, 9, 0, VALID },
                                            { "node", names[i], 1, 4000, 1.2, 9, 0, VALID } };
        Ls__Result *result = sample_result(two, 2);
        char *text, *end;
        json_t *data;

        assert_true(coord_message_string(&result->name, names[i]));
        assert_true(coord_message_string(&result->error, names[i]));
        assert_true(coord_message_string(&result->hosts[0]->agent, names[i]));
        sample_reason(result->trials[0], LS__VERDICT__VERDICT_SUSPECT, "trend", names[i]);
        text = page_of(result);
        data = data_of(text, &end);
        for (const char *c = text; c < end; c++)
            assert_true((unsigned char)*c >= 0x20 || *c == '\n');
        assert_null(strstr(text, "\xe2\x80\xae"));
        *strstr(text, "<style>") = '\0'; /* the head, with the title */
        assert_null(strstr(text, "<img"));
        assert_int_equal(count(text, "<script"), 0);
        json_decref(data);
        free(text);
        ls__result__free_unpacked(result, NULL);
    }
}

static void a_thousand_trials_make_no_larger_page(void **state)
{
    struct sample_trial *from = calloc(1000, sizeof(*from));
    Ls__Result *result;
    char *text, *end, *name = calloc(1, 10001);
    json_t *data;

    (void)state;
    assert_non_null(from);
    assert_non_null(name);
    (void)memset(name, 'n', 10000);
    for (unsigned i = 0; i < 1000; i++)
        from[i] = (struct sample_trial){ i % 2 == 0 ? "nginx" : name,
                                         i % 4 < 2 ? "a" : "b",
                                         1 + i / 4,
                                         5000 + i,
                                         1.2,
                                         9,
                                         0,
                                         VALID };
    result = sample_result(from, 1000);
    text = page_of(result);
    assert_true(strlen(text) < 2000000);
    data = data_of(text, &end);
    assert_int_equal(json_array_size(json_object_get(json_object_get(data, "trials"), "rows")),
                     1000);
    assert_int_equal(json_array_size(json_object_get(data, "series")), 4); /* one of each pair */
    json_decref(data);
    free(text);
    free(name);
    free(from);
    ls__result__free_unpacked(result, NULL);
}

/* ---- the rule by which series become small */

static json_t *series_of(const Ls__Trial *trial, unsigned points)
{
    struct ls_buf out;
    json_t *series;

    ls_buf_init(&out, MAX);
    coord_html_intervals(trial, points, &out);
    assert_true(out.ok);
    series = json_loadb((const char *)out.data, out.len, 0, NULL);
    assert_non_null(series);
    ls_buf_fini(&out);
    return series;
}

static double at(json_t *series, const char *name, size_t i)
{
    return json_number_value(json_array_get(json_object_get(series, name), i));
}

static Ls__Trial *trial_of(unsigned seconds)
{
    Ls__Trial *trial =
        sample_trial(&(struct sample_trial){ "nginx", "hello", 1, 1000, 1.2, 9, 1000, VALID });

    coord_message_clear(&trial->n_intervals, &trial->intervals);
    trial->window->duration_ns = seconds * INT64_C(1000000000);
    for (unsigned i = 0; i < seconds; i++) {
        Ls__Interval *interval =
            coord_message_append(&trial->n_intervals, &trial->intervals, &ls__interval__descriptor);

        assert_non_null(interval);
        interval->at_ns = i * INT64_C(1000000000);
        interval->length_ns = INT64_C(1000000000);
        interval->completed = i == 7 ? 10 : 1000;
        interval->scheduled = 1000;
        interval->errors = i == 7 ? 990 : 0;
        interval->p99_ns = i == 7 ? 9000000 : 2000000;
    }
    return trial;
}

static void a_bucket_keeps_what_stood_out(void **state)
{
    Ls__Trial *trial = trial_of(100);
    json_t *series = series_of(trial, 10);

    (void)state;
    assert_int_equal(json_integer_value(json_object_get(series, "every")), 10);
    assert_int_equal(json_array_size(json_object_get(series, "at")), 10);
    assert_true(fabs(at(series, "rate", 0) - 901) < 1);
    assert_true(at(series, "low", 0) == 10);
    assert_true(at(series, "high", 0) == 1000);
    assert_true(at(series, "errors", 0) == 990);
    assert_true(at(series, "p99", 0) == 9000000);
    assert_true(at(series, "offered", 0) == 1000);
    assert_true(at(series, "rate", 1) == 1000);
    json_decref(series);
    series = series_of(trial, 100);
    assert_int_equal(json_integer_value(json_object_get(series, "every")), 1);
    assert_null(json_object_get(series, "low"));
    json_decref(series);
    ls__trial__free_unpacked(trial, NULL);
}

/* One that began in the warm-up has the rate of what it has of the window; what ended in the drain
 * has errors alone. */
static void edges_of_the_window_bend_no_rate(void **state)
{
    Ls__Trial *trial = trial_of(4);
    json_t *series;

    (void)state;
    trial->intervals[0]->at_ns = -500000000;
    trial->intervals[0]->completed = 500;
    trial->intervals[3]->errors = 4;
    trial->window->duration_ns = 3000000000;
    series = series_of(trial, 10);
    assert_int_equal(json_array_size(json_object_get(series, "at")), 3);
    assert_true(at(series, "rate", 0) == 1000);
    assert_true(at(series, "at", 0) == 0);
    assert_true(at(series, "errors", 2) == 4);
    json_decref(series);
    ls__trial__free_unpacked(trial, NULL);
}

/* A result that somebody made up: the lengths of its intervals add up to more than an integer. */
static void lengths_past_any_integer_are_added_up(void **state)
{
    Ls__Trial *trial = trial_of(4);
    json_t *series;

    (void)state;
    trial->window->duration_ns = INT64_MAX;
    for (size_t i = 0; i < trial->n_intervals; i++)
        trial->intervals[i]->length_ns = INT64_MAX;
    series = series_of(trial, 1);
    assert_int_equal(json_array_size(json_object_get(series, "rate")), 1);
    assert_true(at(series, "rate", 0) > 0);
    json_decref(series);
    ls__trial__free_unpacked(trial, NULL);
}

/* Twice by the rule is once by the rule, but for what the last point stands for. */
static void a_series_that_was_thinned_before_shows_the_same(void **state)
{
    Ls__Trial *whole = trial_of(1200), *thinned = trial_of(1200);
    json_t *a, *b;

    (void)state;
    assert_int_equal(coord_series_thin_intervals(thinned, 10), LS_OK);
    a = series_of(whole, 12);
    b = series_of(thinned, 12);
    assert_int_equal(json_integer_value(json_object_get(a, "kept")), 1);
    assert_int_equal(json_integer_value(json_object_get(b, "kept")), 10);
    json_object_del(a, "kept");
    json_object_del(b, "kept");
    assert_true(json_equal(a, b));
    json_decref(a);
    json_decref(b);
    b = series_of(thinned, 1000); /* nothing to do: the shade is there all the same */
    assert_true(at(b, "low", 0) == 10 && at(b, "high", 0) == 1000);
    json_decref(b);
    ls__trial__free_unpacked(whole, NULL);
    ls__trial__free_unpacked(thinned, NULL);
}

static void quantiles_end_with_the_exact_maximum(void **state)
{
    struct ls_hist *hist = NULL;
    struct ls_buf out;
    json_t *curve, *xs, *ys;

    (void)state;
    assert_int_equal(ls_hist_create(&hist), LS_OK);
    for (int64_t i = 1; i <= 1000; i++)
        ls_hist_record(hist, i * 1000);
    ls_hist_record(hist, 123456789);
    ls_buf_init(&out, MAX);
    coord_html_quantiles(hist, &out);
    curve = json_loadb((const char *)out.data, out.len, 0, NULL);
    assert_non_null(curve);
    xs = json_array_get(curve, 0);
    ys = json_array_get(curve, 1);
    assert_int_equal(json_array_size(xs), json_array_size(ys));
    assert_true(json_number_value(json_array_get(xs, 0)) == 1);
    assert_true(fabs(json_number_value(json_array_get(xs, 12)) - 10) < 0.01);
    assert_true(fabs(json_number_value(json_array_get(ys, 12)) - 901000) < 2000);
    assert_true(fabs(json_number_value(json_array_get(ys, json_array_size(ys) - 1)) - 123456789) <
                50000);
    json_decref(curve);
    ls_buf_fini(&out);
    ls_hist_destroy(hist);
}

static void rows_of_a_heat_map_are_eighths_of_a_decade(void **state)
{
    (void)state;
    assert_int_equal(coord_heat_row(0), 0);
    assert_int_equal(coord_heat_row(101), 0);
    assert_int_equal(coord_heat_row(1001), 8);
    assert_int_equal(coord_heat_row(1000001), 32);
    assert_int_equal(coord_heat_row(INT64_MAX), COORD_HEAT_ROWS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_runs_what_it_was_built_with_and_nothing_else),
        cmocka_unit_test(names_are_text_whatever_they_are),
        cmocka_unit_test(a_thousand_trials_make_no_larger_page),
        cmocka_unit_test(a_bucket_keeps_what_stood_out),
        cmocka_unit_test(edges_of_the_window_bend_no_rate),
        cmocka_unit_test(lengths_past_any_integer_are_added_up),
        cmocka_unit_test(a_series_that_was_thinned_before_shows_the_same),
        cmocka_unit_test(quantiles_end_with_the_exact_maximum),
        cmocka_unit_test(rows_of_a_heat_map_are_eighths_of_a_decade),
    };

    return cmocka_run_group_tests_name("coordinator.html", tests, NULL, NULL);
}
