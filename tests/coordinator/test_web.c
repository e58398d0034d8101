#include "tests/support/test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "coordinator/web/feed.h"
#include "coordinator/web/guard.h"
#include "coordinator/web/server.h"

#define PATIENCE_MS 20000

/* ---- a server, and somebody who talks to it byte by byte */

static unsigned stops;

static void say_page(void *ctx, struct coord_web_reply *reply)
{
    (void)ctx;
    reply->type = "text/html; charset=utf-8";
    ls_buf_adds(&reply->body, "<!doctype html>page");
}

static void say_metrics(void *ctx, struct coord_web_reply *reply)
{
    (void)ctx;
    ls_buf_adds(&reply->body, "up 1\n");
}

static void take_stop(void *ctx, struct coord_web_reply *reply)
{
    (void)ctx;
    stops++;
    reply->status = 204;
}

static void say_too_much(void *ctx, struct coord_web_reply *reply)
{
    char line[1025];

    (void)ctx;
    (void)memset(line, 'x', 1024);
    line[1024] = '\0';
    for (unsigned i = 0; i <= COORD_WEB_REPLY_MAX / 1024; i++)
        ls_buf_adds(&reply->body, line);
}

static void say_state(void *ctx, struct ls_buf *out, uint64_t *out_at)
{
    *out_at = coord_feed_last(ctx);
    ls_buf_addf(out, "{\"at\":%llu}", (unsigned long long)*out_at);
}

struct rig {
    struct coord_feed *feed;
    struct coord_web_route routes[5];
    struct coord_web *web;
    const char *path; /* "/TOKEN" */
    char token[64];
};

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    const char *url;

    assert_non_null(rig);
    rig->feed = coord_feed_create(4096);
    assert_non_null(rig->feed);
    rig->routes[0] = (struct coord_web_route){ .method = "GET", .path = "/", .answer = say_page };
    rig->routes[1] = (struct coord_web_route){
        .method = "GET", .path = "/metrics", .open = true, .answer = say_metrics
    };
    rig->routes[2] =
        (struct coord_web_route){ .method = "POST", .path = "/stop", .answer = take_stop };
    rig->routes[3] = (struct coord_web_route){ .method = "GET",
                                               .path = "/events",
                                               .feed = rig->feed,
                                               .snapshot = say_state,
                                               .ctx = rig->feed };
    rig->routes[4] =
        (struct coord_web_route){ .method = "GET", .path = "/huge", .answer = say_too_much };
    assert_int_equal(
        coord_web_start(&(struct coord_web_options){ .routes = rig->routes, .route_count = 5 },
                        &rig->web, NULL),
        LS_OK);
    url = coord_web_url(rig->web);
    assert_true(strlen(url) > 33);
    (void)snprintf(rig->token, sizeof(rig->token), "/%.32s", url + strlen(url) - 33);
    rig->path = rig->token;
    stops = 0;
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;

    coord_web_stop(rig->web);
    coord_feed_destroy(rig->feed);
    free(rig);
    return 0;
}

static int connect_to(const struct rig *rig)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(coord_web_port(rig->web)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static void put(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Reads until the text is there, the other side closes, or patience ends. True: it was there. */
static bool read_until(int fd, const char *text, struct ls_buf *out)
{
    for (;;) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        char piece[4096];
        ssize_t n;

        if (text != NULL && out->data != NULL && strstr((const char *)out->data, text) != NULL)
            return true;
        if (poll(&ready, 1, PATIENCE_MS) <= 0)
            return false;
        n = recv(fd, piece, sizeof(piece), 0);
        if (n <= 0)
            return text == NULL;
        ls_buf_add(out, piece, (size_t)n);
        assert_true(out->ok);
    }
}

/* One request with its own head, and the status of the answer; 0: closed without one. */
static unsigned ask_with(const struct rig *rig, const char *head, struct ls_buf *out)
{
    int fd = connect_to(rig);
    unsigned status = 0;

    ls_buf_reset(out);
    put(fd, head);
    (void)read_until(fd, NULL, out);
    (void)close(fd);
    if (out->len > 12 && memcmp(out->data, "HTTP/1.", 7) == 0)
        status = (unsigned)strtoul((const char *)out->data + 9, NULL, 10);
    return status;
}

static unsigned ask(const struct rig *rig, const char *method, const char *path, const char *host,
                    const char *more, struct ls_buf *out)
{
    char head[1024];

    (void)snprintf(head, sizeof(head),
                   "%s %s HTTP/1.1\r\nHost: %s:%u\r\nConnection: close\r\n%s\r\n", method, path,
                   host, coord_web_port(rig->web), more);
    return ask_with(rig, head, out);
}

static const char *below(const struct rig *rig, const char *path, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "%s%s", rig->path, path);
    return out;
}

/* ---- claims */

static void a_route_is_served_to_who_has_the_token(void **state)
{
    const struct rig *rig = *state;
    struct ls_buf out;
    char path[128];

    ls_buf_init(&out, 1 << 20);
    assert_int_equal(ask(rig, "GET", below(rig, "/", path, sizeof(path)), "127.0.0.1", "", &out),
                     200);
    assert_non_null(strstr((const char *)out.data, "<!doctype html>page"));
    assert_non_null(strstr((const char *)out.data, "Referrer-Policy: no-referrer"));
    assert_non_null(strstr((const char *)out.data, "frame-ancestors 'none'"));
    assert_int_equal(ask(rig, "HEAD", below(rig, "/", path, sizeof(path)), "localhost", "", &out),
                     200);
    assert_null(strstr((const char *)out.data, "page"));
    assert_int_equal(ask(rig, "GET", "/metrics", "127.0.0.1", "", &out), 200);
    ls_buf_fini(&out);
}

static void without_the_token_nothing_is_found(void **state)
{
    const struct rig *rig = *state;
    struct ls_buf out;
    char path[256], wrong[64];

    ls_buf_init(&out, 1 << 20);
    (void)snprintf(wrong, sizeof(wrong), "%s", rig->path);
    wrong[32] = wrong[32] == '0' ? '1' : '0';
    const char *const paths[] = { "/",
                                  "/events",
                                  "/stop",
                                  wrong,
                                  "//",
                                  "/../",
                                  "/%2e%2e/etc/passwd",
                                  "/metrics/../../etc/passwd",
                                  "/index.html" };
    for (size_t i = 0; i < LS_ARRAY_LEN(paths); i++)
        assert_int_equal(ask(rig, "GET", paths[i], "127.0.0.1", "", &out), 404);
    (void)snprintf(path, sizeof(path), "%s/", wrong);
    assert_int_equal(ask(rig, "GET", path, "127.0.0.1", "", &out), 404);
    (void)snprintf(path, sizeof(path), "%s/stop", wrong);
    assert_int_equal(ask(rig, "POST", path, "127.0.0.1", "Content-Length: 0\r\n", &out), 404);
    assert_int_equal(
        ask(rig, "GET", below(rig, "/../../etc/passwd", path, sizeof(path)), "127.0.0.1", "", &out),
        404);
    assert_int_equal(
        ask(rig, "GET", below(rig, "/metrics", path, sizeof(path)), "127.0.0.1", "", &out), 404);
    assert_int_equal(stops, 0);
    ls_buf_fini(&out);
}

/* A page of evil.example that resolves to 127.0.0.1, and pages of others that know the address. */
static void names_of_others_are_refused(void **state)
{
    static const char *const hosts[] = {
        "evil.example", "127.0.0.1.evil.example", "localhost.evil", "[::1", "", "127.0.0.1:80"
    };
    static const char *const origins[] = { "http://evil.example", "null", "https://127.0.0.1",
                                           "http://127.0.0.1:1" };
    const struct rig *rig = *state;
    struct ls_buf out;
    char path[128], more[128];

    ls_buf_init(&out, 1 << 20);
    below(rig, "/", path, sizeof(path));
    for (size_t i = 0; i < LS_ARRAY_LEN(hosts); i++)
        assert_int_equal(ask(rig, "GET", path, hosts[i], "", &out), 421);
    assert_int_equal(ask_with(rig, "GET /metrics HTTP/1.0\r\n\r\n", &out), 421);
    below(rig, "/stop", path, sizeof(path));
    for (size_t i = 0; i < LS_ARRAY_LEN(origins); i++) {
        (void)snprintf(more, sizeof(more), "Content-Length: 0\r\nOrigin: %s\r\n", origins[i]);
        assert_int_equal(ask(rig, "POST", path, "127.0.0.1", more, &out), 403);
    }
    assert_int_equal(stops, 0);
    (void)snprintf(more, sizeof(more), "Content-Length: 0\r\nOrigin: http://127.0.0.1:%u\r\n",
                   coord_web_port(rig->web));
    assert_int_equal(ask(rig, "POST", path, "127.0.0.1", more, &out), 204);
    assert_int_equal(stops, 1);
    ls_buf_fini(&out);
}

static void nothing_is_changed_by_a_get(void **state)
{
    const struct rig *rig = *state;
    struct ls_buf out;
    char path[128];

    ls_buf_init(&out, 1 << 20);
    below(rig, "/stop", path, sizeof(path));
    assert_int_equal(ask(rig, "GET", path, "127.0.0.1", "", &out), 405);
    assert_int_equal(ask(rig, "HEAD", path, "127.0.0.1", "", &out), 405);
    assert_int_equal(ask(rig, "DELETE", below(rig, "/", path, sizeof(path)), "127.0.0.1", "", &out),
                     405);
    assert_int_equal(stops, 0);
    ls_buf_fini(&out);
}

static void what_is_too_much_is_refused(void **state)
{
    const struct rig *rig = *state;
    struct ls_buf out;
    char path[128];
    char *head = calloc(1, 200000 + 512);
    size_t at;

    assert_non_null(head);
    ls_buf_init(&out, 1 << 20);
    at = (size_t)snprintf(
        head, 512, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nX: ", coord_web_port(rig->web));
    (void)memset(head + at, 'a', 200000);
    (void)memcpy(head + at + 200000, "\r\n\r\n", 5);
    {
        int fd = connect_to(rig);
        /* It may hang up before it has read all of it. */
        ssize_t sent = send(fd, head, strlen(head), MSG_NOSIGNAL);

        assert_true(sent > 0);
        (void)read_until(fd, NULL, &out);
        (void)close(fd);
        assert_true(out.len == 0 || strstr((const char *)out.data, " 431 ") != NULL);
    }
    below(rig, "/stop", path, sizeof(path));
    (void)ask(rig, "POST", path, "127.0.0.1", "Content-Length: 5\r\n\r\nhello", &out);
    assert_int_equal(stops, 0);
    assert_int_equal(
        ask(rig, "GET", below(rig, "/huge", path, sizeof(path)), "127.0.0.1", "", &out), 500);
    free(head);
    ls_buf_fini(&out);
}

static int open_events(const struct rig *rig, const char *more)
{
    int fd = connect_to(rig);
    char head[512];

    (void)snprintf(head, sizeof(head), "GET %s/events HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s\r\n",
                   rig->path, coord_web_port(rig->web), more);
    put(fd, head);
    return fd;
}

static void a_reader_gets_a_snapshot_and_then_what_happens(void **state)
{
    const struct rig *rig = *state;
    struct ls_buf out;
    int fd;

    ls_buf_init(&out, 1 << 20);
    coord_feed_publish(rig->feed, "tick", "1");
    fd = open_events(rig, "");
    assert_true(read_until(fd, "id: 1\nevent: snapshot\ndata: {\"at\":1}", &out));
    assert_non_null(strstr((const char *)out.data, "text/event-stream"));
    coord_feed_publish(rig->feed, "tick", "2");
    assert_true(read_until(fd, "id: 2\nevent: tick\ndata: 2\n\n", &out));
    assert_null(strstr((const char *)out.data, "data: 1"));
    (void)close(fd);
    ls_buf_fini(&out);
}

static void a_reader_goes_on_where_it_was(void **state)
{
    const struct rig *rig = *state;
    struct ls_buf out;
    int fd;

    ls_buf_init(&out, 1 << 20);
    for (unsigned i = 1; i <= 5; i++) {
        char data[8];

        (void)snprintf(data, sizeof(data), "%u", i);
        coord_feed_publish(rig->feed, "tick", data);
    }
    fd = open_events(rig, "Last-Event-ID: 3\r\n");
    assert_true(read_until(fd, "id: 5\n", &out));
    assert_non_null(strstr((const char *)out.data, "id: 4\n"));
    assert_null(strstr((const char *)out.data, "id: 3\n"));
    assert_null(strstr((const char *)out.data, "snapshot"));
    (void)close(fd);
    /* Of another server, or of nobody. */
    static const char *const odd[] = { "77", "-1", "x", "3x", "99999999999999999999999" };
    for (size_t i = 0; i < LS_ARRAY_LEN(odd); i++) {
        char more[64];

        (void)snprintf(more, sizeof(more), "Last-Event-ID: %s\r\n", odd[i]);
        ls_buf_reset(&out);
        fd = open_events(rig, more);
        assert_true(read_until(fd, "event: snapshot", &out));
        (void)close(fd);
    }
    ls_buf_fini(&out);
}

/* One never reads; the writer neither waits nor keeps more than it may, and the others are served.
 */
static void who_never_reads_costs_nobody_anything(void **state)
{
    const struct rig *rig = *state;
    struct ls_buf out;
    char data[1024];
    int deaf = open_events(rig, ""), fd;

    ls_buf_init(&out, 1 << 20);
    (void)memset(data, 'x', sizeof(data) - 1);
    data[sizeof(data) - 1] = '\0';
    for (unsigned i = 0; i < 20000; i++)
        coord_feed_publish(rig->feed, "tick", data);
    fd = open_events(rig, "");
    assert_true(read_until(fd, "{\"at\":20000}", &out));
    coord_feed_publish(rig->feed, "last", "1");
    assert_true(read_until(fd, "event: last", &out));
    (void)close(fd);
    (void)close(deaf);
    ls_buf_fini(&out);
}

static void the_end_is_told_and_nobody_holds_it_up(void **state)
{
    struct rig *rig = *state;
    struct ls_buf out;
    int deaf = open_events(rig, ""), half = connect_to(rig), fd = open_events(rig, "");

    ls_buf_init(&out, 1 << 20);
    put(half, "GET / HT");
    assert_true(read_until(fd, "event: snapshot", &out));
    coord_feed_publish(rig->feed, "end", "1");
    coord_web_stop(rig->web);
    rig->web = NULL;
    assert_true(read_until(fd, "event: end", &out));
    assert_true(read_until(fd, NULL, &out)); /* closed */
    (void)close(fd);
    (void)close(deaf);
    (void)close(half);
    ls_buf_fini(&out);
}

static void more_readers_than_there_are_places_leave_the_server_alone(void **state)
{
    const struct rig *rig = *state;
    struct ls_buf out;
    int fds[200];

    ls_buf_init(&out, 1 << 20);
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++)
        fds[i] = open_events(rig, "");
    assert_true(read_until(fds[0], "event: snapshot", &out));
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    /* They are gone when something is written to them. */
    for (unsigned status = 0, tries = 0; status != 200; tries++) {
        coord_feed_publish(rig->feed, "tick", "1");
        status = ask(rig, "GET", "/metrics", "127.0.0.1", "", &out);
        assert_true(tries < 1000);
    }
    ls_buf_fini(&out);
}

/* ---- parts */

static void hosts_are_told_apart(void **state)
{
    static const struct {
        const char *host;
        bool fine;
    } cases[] = { { "127.0.0.1:8080", true },
                  { "localhost:8080", true },
                  { "LOCALHOST:8080", true },
                  { "[::1]:8080", true },
                  { "192.0.2.7:8080", true },
                  { "127.0.0.1", false },
                  { "127.0.0.1:8081", false },
                  { "127.0.0.1:8080x", false },
                  { "1:8080", false },
                  { "[evil]:8080", false },
                  { "[::1]8080", false },
                  { "a.localhost:8080", false },
                  { "", false },
                  { ":8080", false } };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++)
        assert_int_equal(coord_guard_host(cases[i].host, 8080), cases[i].fine);
    assert_false(coord_guard_host(NULL, 8080));
    assert_true(coord_guard_host("127.0.0.1", 80));
}

static void the_token_is_the_first_part_of_the_path(void **state)
{
    (void)state;
    assert_string_equal(coord_guard_token("/abc/", "abc"), "/");
    assert_string_equal(coord_guard_token("/abc/events", "abc"), "/events");
    static const char *const wrong[] = { "/abc",   "abc/", "/abd/", "/ab/",
                                         "/abcd/", "/",    "",      "//abc/" };
    for (size_t i = 0; i < LS_ARRAY_LEN(wrong); i++)
        assert_null(coord_guard_token(wrong[i], "abc"));
}

static void a_feed_keeps_what_it_may_and_says_what_is_gone(void **state)
{
    struct coord_feed *feed = coord_feed_create(200);
    struct ls_buf out;
    uint64_t at = 0;

    (void)state;
    assert_non_null(feed);
    ls_buf_init(&out, 1 << 16);
    assert_int_equal(coord_feed_read(feed, &at, &out), LS_OK);
    assert_int_equal(out.len, 0);
    for (unsigned i = 0; i < 50; i++)
        coord_feed_publish(feed, "e", "0123456789");
    assert_int_equal(coord_feed_read(feed, &at, &out), LS_ERANGE);
    assert_int_equal(at, 0);
    at = 48;
    assert_int_equal(coord_feed_read(feed, &at, &out), LS_OK);
    assert_int_equal(at, 50);
    assert_string_equal((const char *)out.data, "id: 49\nevent: e\ndata: 0123456789\n\n"
                                                "id: 50\nevent: e\ndata: 0123456789\n\n");
    at = 51;
    assert_int_equal(coord_feed_read(feed, &at, &out), LS_ERANGE);
    /* One that does not fit at all is as good as lost. */
    char large[400];
    (void)memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    coord_feed_publish(feed, "e", large);
    assert_int_equal(coord_feed_last(feed), 51);
    at = 50;
    assert_int_equal(coord_feed_read(feed, &at, &out), LS_ERANGE);
    at = 51;
    assert_int_equal(coord_feed_read(feed, &at, &out), LS_OK);
    coord_feed_publish(feed, "e", "1");
    ls_buf_reset(&out);
    assert_int_equal(coord_feed_read(feed, &at, &out), LS_OK);
    assert_string_equal((const char *)out.data, "id: 52\nevent: e\ndata: 1\n\n");
    ls_buf_fini(&out);
    coord_feed_destroy(feed);
}

static void an_address_that_is_none_is_refused(void **state)
{
    struct coord_web *web = NULL;
    struct ls_diag diag;

    (void)state;
    assert_int_equal(
        coord_web_start(&(struct coord_web_options){ .address = "localhost" }, &web, &diag),
        LS_EINVAL);
    assert_string_equal(diag.text, "localhost is not an IP address");
    assert_int_equal(
        coord_web_start(&(struct coord_web_options){ .address = "192.0.2.1" }, &web, &diag),
        LS_EIO);
    assert_null(web);
    coord_web_stop(NULL);
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVER(a_route_is_served_to_who_has_the_token),
        WITH_SERVER(without_the_token_nothing_is_found),
        WITH_SERVER(names_of_others_are_refused),
        WITH_SERVER(nothing_is_changed_by_a_get),
        WITH_SERVER(what_is_too_much_is_refused),
        WITH_SERVER(a_reader_gets_a_snapshot_and_then_what_happens),
        WITH_SERVER(a_reader_goes_on_where_it_was),
        WITH_SERVER(who_never_reads_costs_nobody_anything),
        WITH_SERVER(the_end_is_told_and_nobody_holds_it_up),
        WITH_SERVER(more_readers_than_there_are_places_leave_the_server_alone),
        cmocka_unit_test(hosts_are_told_apart),
        cmocka_unit_test(the_token_is_the_first_part_of_the_path),
        cmocka_unit_test(a_feed_keeps_what_it_may_and_says_what_is_gone),
        cmocka_unit_test(an_address_that_is_none_is_refused),
    };

    return cmocka_run_group_tests_name("coordinator.web", tests, NULL, NULL);
}
