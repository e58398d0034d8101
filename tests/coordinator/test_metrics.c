/* coordinator/web/metrics_text.c: what a run says to Prometheus, whatever it is called. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/web/metrics.h"
#include "tests/coordinator/sample_result.h"

static Ls__Result *a_result(const char *target)
{
    const struct sample_trial trials[] = {
        { target, "hello", 1, 50000, 1.5, 12, 0, LS__VERDICT__VERDICT_VALID },
        { "node", "hello", 1, 30000, 2.5, 20, 0, LS__VERDICT__VERDICT_INVALID },
    };

    return sample_result(trials, 2);
}

static struct ls_buf text_of(const Ls__Result *result, const struct coord_metrics_now *now)
{
    struct ls_buf out;

    ls_buf_init(&out, COORD_METRICS_MAX);
    assert_int_equal(coord_metrics_text(result, now, &out, NULL), LS_OK);
    return out;
}

static void assert_says(const struct ls_buf *text, const char *line)
{
    if (strstr((const char *)text->data, line) == NULL)
        fail_msg("no \"%s\" in %s", line, (const char *)text->data);
}

static void times_are_seconds_and_families_stand_together(void **state)
{
    Ls__Result *result = a_result("nginx");
    struct ls_buf text = text_of(result, NULL);
    unsigned n = 0;

    (void)state;
    assert_says(&text, "lockstep_service_time_p50_seconds{workload=\"hello\",target=\"nginx\","
                       "stat=\"median\"} 0.0015\n");
    assert_says(&text, "lockstep_throughput_per_second{workload=\"hello\",target=\"nginx\","
                       "stat=\"median\"} 50000\n");
    assert_says(&text, "lockstep_trials_finished{verdict=\"invalid\"} 1\n");
    assert_says(&text, "lockstep_run_active 0\n");
    assert_true(text.len > 6 && strcmp((const char *)text.data + text.len - 6, "# EOF\n") == 0);
    /* No family is named twice. */
    for (const char *at = (const char *)text.data; (at = strstr(at, "# TYPE ")) != NULL; at++) {
        char head[200];

        (void)snprintf(head, sizeof(head), "%.*s", (int)strcspn(at, "\n"), at);
        assert_null(strstr(at + 1, head));
        n++;
    }
    assert_true(n > 8);
    ls_buf_fini(&text);
    ls__result__free_unpacked(result, NULL);
}

static void names_are_labels_and_nothing_else(void **state)
{
    Ls__Result *result = a_result("a\"b\\c\nd\x1b[31m} 1\nevil 2");
    struct coord_metrics_now now = { .target = "x\"y",
                                     .workload = "w\n",
                                     .phase = "measure",
                                     .index = 3,
                                     .has_interval = true,
                                     .length_ns = 500000000,
                                     .completed = 100,
                                     .p50_ns = 1000,
                                     .p99_ns = 2000,
                                     .max_ns = 3000 };
    struct ls_buf text = text_of(result, &now);

    (void)state;
    assert_says(&text, "target=\"a\\\"b");
    assert_null(strstr((const char *)text.data, "\nevil"));
    assert_null(strstr((const char *)text.data, "\x1b"));
    assert_says(&text, "lockstep_now_info{target=\"x\\\"y\"");
    assert_says(&text, "lockstep_now_requests_per_second 200\n");
    assert_says(&text, "lockstep_now_latency_seconds{stat=\"p99\"} 2e-06\n");
    ls_buf_fini(&text);
    ls__result__free_unpacked(result, NULL);
}

static void an_address_is_a_port_or_has_one(void **state)
{
    static const char *const bad[] = {
        "", "x", "127.0.0.1", "127.0.0.1:", ":x", "1:65536", "host.example:1", "-1", "1 "
    };
    struct coord_metrics *metrics = NULL;
    struct ls_diag diag;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(bad); i++)
        assert_int_equal(coord_metrics_start(bad[i], &metrics, &diag), LS_EINVAL);
    assert_int_equal(coord_metrics_start("127.0.0.1:0", &metrics, NULL), LS_OK);
    assert_non_null(strstr(coord_metrics_url(metrics), "http://127.0.0.1:"));
    coord_metrics_publish(metrics, (struct ls_bytes){ (const unsigned char *)"x 1\n", 4 });
    coord_metrics_stop(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_seconds_and_families_stand_together),
        cmocka_unit_test(names_are_labels_and_nothing_else),
        cmocka_unit_test(an_address_is_a_port_or_has_one),
    };

    return cmocka_run_group_tests_name("coordinator.metrics", tests, NULL, NULL);
}
