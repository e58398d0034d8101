/* What the live page is told, as a browser gets it: the snapshot and the events behind it. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <jansson.h>

#include "common/buf.h"
#include "coordinator/result/heat.h"
#include "coordinator/web/live.h"
#include "tests/coordinator/sample_result.h"

#define PATIENCE_MS 20000
#define HOSTILE     "</script>\"\x1b]0;x\x07\xe2\x80\xae\n\nevent: end"

static atomic_uint stops;

static void count_stop(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&stops, 1);
}

static struct coord_live *start(void)
{
    struct coord_live *live = NULL;
    struct ls_diag diag;

    atomic_store(&stops, 0);
    assert_int_equal(coord_live_start("", HOSTILE, count_stop, NULL, &live, &diag), LS_OK);
    return live;
}

/* Sends METHOD to what is below the page's address. */
static int ask(const struct coord_live *live, const char *method, const char *what)
{
    const char *url = coord_live_url(live) + strlen("http://127.0.0.1:");
    char *path = NULL;
    unsigned port = (unsigned)strtoul(url, &path, 10);
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char head[512];
    int len = snprintf(head, sizeof(head),
                       "%s %s%s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\n"
                       "Content-Length: 0\r\n\r\n",
                       method, path, what, port);

    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(send(fd, head, (size_t)len, MSG_NOSIGNAL), len);
    return fd;
}

/* Until it is there; NULL: until the end. */
static void read_until(int fd, const char *text, struct ls_buf *out)
{
    while (text == NULL || out->data == NULL || strstr((const char *)out->data, text) == NULL) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        char piece[8192];
        ssize_t n;

        assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
        n = recv(fd, piece, sizeof(piece), 0);
        if (n <= 0 && text == NULL)
            return;
        if (n <= 0)
            fail_msg("no \"%s\" in: %s", text, (const char *)out->data);
        ls_buf_add(out, piece, (size_t)n);
        assert_true(out->ok);
    }
}

/* The data of the first event of a type; chunks of the body are cut at will, so they go first. */
static json_t *data_of(const struct ls_buf *out, const char *type)
{
    char mark[64];
    const char *from, *end;
    struct ls_buf line;
    json_error_t error;
    json_t *data;

    (void)snprintf(mark, sizeof(mark), "event: %s\ndata: ", type);
    from = strstr((const char *)out->data, mark);
    assert_non_null(from);
    from += strlen(mark);
    ls_buf_init(&line, 1 << 20);
    for (; strncmp(from, "\n\n", 2) != 0; from = end) {
        end = from + strcspn(from, "\r\n");
        ls_buf_add(&line, from, (size_t)(end - from));
        if (*end == '\r') { /* "\r\nSIZE\r\n" lies between chunks */
            end = strstr(end + 2, "\r\n");
            assert_non_null(end);
            end += 2;
        }
        if (*end == '\n')
            break;
    }
    data = json_loadb((const char *)line.data, line.len, 0, &error);
    if (data == NULL)
        fail_msg("%s: %s", error.text, (const char *)line.data);
    ls_buf_fini(&line);
    return data;
}

static struct coord_live_now interval(int64_t at_s, uint64_t completed)
{
    return (struct coord_live_now){ .phase = "measure",
                                    .left_s = 2,
                                    .has_interval = true,
                                    .at_ns = at_s * 1000000000,
                                    .length_ns = 1000000000,
                                    .completed = completed,
                                    .scheduled = completed,
                                    .p99_ns = 1000 * (at_s + 1),
                                    .cores = 0.5,
                                    .rss_bytes = -1,
                                    .switches_per_s = -1 };
}

static void who_comes_late_sees_all_of_it(void **state)
{
    static const struct sample_trial one[] = { { "nginx", "hello", 1, 50000, 1.2, 9, 0,
                                                 LS__VERDICT__VERDICT_VALID } };
    struct coord_live *live = start();
    Ls__Result *result = sample_result(one, 1);
    const struct coord_live_agent agents[] = {
        { "client-1", "client", "here", 42000, 0.5, 0.4, 0.3, 25000, -1 },
        { HOSTILE, "server", "lost", -1, -1, -1, -1, -1, -1 }
    };
    struct ls_buf out;
    json_t *all, *points, *agent;
    int fd;

    (void)state;
    ls_buf_init(&out, 4 << 20);
    coord_live_trial(live, 2, 6, HOSTILE, "hello", 1);
    for (int64_t s = -1; s < 3; s++) {
        struct coord_live_now now = interval(s, 1000);

        coord_live_tick(live, s * 1000000000, &now);
    }
    coord_live_agents(live, agents, 2);
    coord_live_said(live, "warn", HOSTILE);
    coord_live_result(live, result);
    fd = ask(live, "GET", "events");
    read_until(fd, "\n\n\r\n", &out);
    all = data_of(&out, "snapshot");
    points = json_object_get(all, "points");
    assert_int_equal(json_array_size(points), 3); /* none of the warm-up */
    assert_true(json_number_value(json_array_get(json_array_get(points, 2), 1)) == 1000);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(all, "trial"), "total")),
                     6);
    assert_int_equal(json_array_size(json_object_get(all, "agents")), 2);
    agent = json_array_get(json_object_get(all, "agents"), 0);
    assert_true(json_number_value(json_array_get(agent, 4)) == 0.5);
    assert_true(json_number_value(json_array_get(agent, 7)) == 25000);
    assert_true(json_is_null(json_array_get(agent, 8)));
    assert_int_equal(json_array_size(json_object_get(all, "said")), 1);
    assert_non_null(json_object_get(json_object_get(all, "result"), "trials"));
    json_decref(all);
    assert_null(strstr((const char *)out.data, "\nevent: end"));
    assert_null(strchr((const char *)out.data, '\x1b'));
    coord_live_said(live, "", "what comes next");
    read_until(fd, "what comes next", &out);
    (void)close(fd);
    coord_live_destroy(live);
    ls__result__free_unpacked(result, NULL);
    ls_buf_fini(&out);
}

static void the_longest_trial_is_kept_in_little(void **state)
{
    struct coord_live *live = start();
    struct ls_buf out;
    json_t *all, *points;
    double sum = 0, highest = 0;
    int fd;

    (void)state;
    ls_buf_init(&out, 4 << 20);
    coord_live_trial(live, 1, 1, "nginx", "hello", 1);
    for (int64_t s = 0; s < 28800; s++) {
        struct coord_live_now now = interval(s, 1000);

        coord_live_tick(live, s * 1000000000, &now);
    }
    fd = ask(live, "GET", "events");
    read_until(fd, "]}\n\n", &out);
    all = data_of(&out, "snapshot");
    points = json_object_get(all, "points");
    assert_in_range(json_array_size(points), 300, 600);
    for (size_t i = 0; i < json_array_size(points); i++) {
        json_t *point = json_array_get(points, i);
        double p99 = json_number_value(json_array_get(point, 5));

        sum += json_number_value(json_array_get(point, 1));
        highest = p99 > highest ? p99 : highest;
    }
    assert_true(sum == 1000.0 * (double)json_array_size(points)); /* rates stay rates */
    assert_true(highest == 28800000);
    json_decref(all);
    (void)close(fd);
    coord_live_destroy(live);
    ls_buf_fini(&out);
}

/* Of every request, whether its interval was passed on or not: that is done some times a second. */
static void a_heat_map_has_every_request_once(void **state)
{
    struct coord_live *live = start();
    uint64_t column[COORD_HEAT_ROWS] = { 0 };
    struct ls_buf out;
    json_t *all, *points;
    json_int_t sum = 0;
    int fd;

    (void)state;
    ls_buf_init(&out, 4 << 20);
    coord_live_trial(live, 1, 1, "nginx", "hello", 1);
    column[20] = 7;
    column[22] = 1;
    for (int64_t i = 0; i < 12000; i++) {
        struct coord_live_now now = interval(0, 1000);

        now.at_ns = i * 50000000;
        now.heat = i % 2 == 0 ? column : NULL; /* looked at more often than there is news */
        coord_live_tick(live, i * 50000000, &now);
    }
    fd = ask(live, "GET", "events");
    read_until(fd, "]}\n\n", &out);
    all = data_of(&out, "snapshot");
    points = json_object_get(all, "points");
    for (size_t i = 0; i < json_array_size(points); i++) {
        json_t *cells = json_array_get(json_array_get(points, i), 7);

        assert_int_equal(json_array_size(cells), 4);
        assert_int_equal(json_integer_value(json_array_get(cells, 0)), 20);
        assert_int_equal(json_integer_value(json_array_get(cells, 2)), 0);
        sum += json_integer_value(json_array_get(cells, 1));
    }
    assert_in_range(sum, 7 * (6000 - 2), 7 * 6000); /* what came last waits for its interval */
    json_decref(all);
    (void)close(fd);
    coord_live_destroy(live);
    ls_buf_fini(&out);
}

static void the_run_is_stopped_once(void **state)
{
    struct coord_live *live = start();
    struct ls_buf out;

    (void)state;
    ls_buf_init(&out, 4 << 20);
    for (unsigned i = 0; i < 3; i++) {
        int fd = ask(live, "POST", "stop");

        ls_buf_reset(&out);
        read_until(fd, NULL, &out);
        (void)close(fd);
        assert_non_null(strstr((const char *)out.data, "HTTP/1.1 200"));
        assert_int_equal(atomic_load(&stops), 1);
    }
    coord_live_destroy(live);
    ls_buf_fini(&out);
}

static void the_page_lets_nothing_else_run(void **state)
{
    struct coord_live *live = start();
    struct ls_buf out;
    int fd = ask(live, "GET", "");

    (void)state;
    ls_buf_init(&out, 4 << 20);
    read_until(fd, NULL, &out);
    assert_non_null(strstr((const char *)out.data, "Content-Security-Policy: default-src 'none'"));
    assert_non_null(strstr((const char *)out.data, "connect-src 'self'"));
    assert_non_null(strstr((const char *)out.data, "frame-ancestors 'none'"));
    assert_non_null(strstr((const char *)out.data, "\\u003c/script"));
    (void)close(fd);
    coord_live_destroy(live);
    ls_buf_fini(&out);
}

static void nobody_is_needed(void **state)
{
    (void)state;
    coord_live_trial(NULL, 1, 1, "", "", 1);
    coord_live_tick(NULL, 0, NULL);
    coord_live_agents(NULL, NULL, 0);
    coord_live_said(NULL, "", "");
    coord_live_result(NULL, NULL);
    coord_live_end(NULL, "", "");
    coord_live_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_late_sees_all_of_it),
        cmocka_unit_test(the_longest_trial_is_kept_in_little),
        cmocka_unit_test(a_heat_map_has_every_request_once),
        cmocka_unit_test(the_run_is_stopped_once),
        cmocka_unit_test(the_page_lets_nothing_else_run),
        cmocka_unit_test(nobody_is_needed),
    };

    return cmocka_run_group_tests_name("coordinator.live", tests, NULL, NULL);
}
