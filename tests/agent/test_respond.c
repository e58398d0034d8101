#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/respond/respond.h"
#include "common/attr.h"
#include "common/clock.h"
#include "tests/support/responder.h"

#define FIELDS   "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n"
#define HEAD     FIELDS "\r\n"
#define HELLO    HEAD "Hello, World!"
#define LAST     FIELDS "Connection: close\r\n\r\nHello, World!"
#define GET      "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define GET_LAST "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

#define OPTIONS(...)      \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

/* How a connection stood after it had been read. */
enum end { END_FIN, END_RESET };

struct got {
    char *data; /* owned, NUL-terminated */
    size_t len;
    enum end end;
};

static int dial(const struct responder *responder)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(responder->port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void put(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

        assert_true(n > 0);
        text += n;
        len -= (size_t)n;
    }
}

/* Reads until the connection ends. */
static struct got take(int fd)
{
    struct got got = { .end = END_FIN };
    size_t cap = 0;

    for (;;) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        ssize_t n;

        assert_int_equal(poll(&wait, 1, 20000), 1);
        if (got.len + 65536 >= cap) {
            cap = cap * 2 + 65537;
            got.data = realloc(got.data, cap);
            assert_non_null(got.data);
        }
        n = recv(fd, got.data + got.len, 65536, 0);
        if (n <= 0) {
            assert_true(n == 0 || errno == ECONNRESET);
            got.end = n == 0 ? END_FIN : END_RESET;
            got.data[got.len] = '\0';
            return got;
        }
        got.len += (size_t)n;
    }
}

/* The next bytes are these. */
static void expect_text(int fd, const char *expected)
{
    size_t want = strlen(expected);
    char *text = calloc(1, want + 1);
    size_t len = 0;

    assert_non_null(text);
    while (len < want) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        ssize_t n;

        assert_int_equal(poll(&wait, 1, 20000), 1);
        n = recv(fd, text + len, want - len, 0);
        assert_true(n > 0);
        len += (size_t)n;
    }
    assert_string_equal(text, expected);
    free(text);
}

static void books_balance(const struct responder *responder)
{
    assert_int_equal(responder_count(responder, "requests"),
                     responder_count(responder, "responses") +
                         responder_count(responder, "unanswered"));
}

static void every_request_is_answered_and_counted(void **state)
{
    static const char mixed[] =
        "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" GET;
    struct responder responder;
    int fd;

    (void)state;
    responder_start(&responder, NULL);
    fd = dial(&responder);
    put(fd, GET, strlen(GET));
    expect_text(fd, HELLO);
    put(fd, mixed, strlen(mixed));
    expect_text(fd, HEAD HELLO HELLO HELLO);
    responder_ask(&responder);
    assert_int_equal(responder_count(&responder, "open"), 1);
    assert_int_equal(responder_count(&responder, "requests"), 5);
    (void)close(fd);
    responder_stop(&responder);
    assert_int_equal(responder_count(&responder, "connections"), 1);
    assert_int_equal(responder_count(&responder, "requests"), 5);
    assert_int_equal(responder_count(&responder, "responses"), 5);
    assert_int_equal(responder_count(&responder, "unanswered"), 0);
    assert_int_equal(responder_count(&responder, "bytes_in"), strlen(GET) + strlen(mixed));
    assert_int_equal(responder_count(&responder, "bytes_out"), 5 * strlen(HELLO) - 13);
}

static void a_pipeline_is_answered_in_order_whatever_its_depth(void **state)
{
    enum { DEPTH = 5000 };
    struct responder responder;
    char *text = calloc(DEPTH, sizeof(GET));
    char *expected = calloc(DEPTH, sizeof(HELLO));
    int fd;

    (void)state;
    assert_non_null(text);
    assert_non_null(expected);
    for (size_t i = 0; i < DEPTH; i++)
        (void)memcpy(text + i * strlen(GET), GET, strlen(GET));
    for (size_t i = 0; i < DEPTH; i++)
        (void)memcpy(expected + i * strlen(HELLO), HELLO, strlen(HELLO));
    responder_start(&responder, OPTIONS("--latency", "uniform:1us-100us"));
    fd = dial(&responder);
    put(fd, text, DEPTH * strlen(GET));
    expect_text(fd, expected);
    free(expected);
    free(text);
    (void)close(fd);
    responder_stop(&responder);
    assert_int_equal(responder_count(&responder, "responses"), DEPTH);
}

/* Reads late, so that the server's socket is full for a while; and ends its own side first. */
static void a_slow_reader_gets_all_bytes_after_its_fin(void **state)
{
    enum { BODY = 4000000 };
    struct responder responder;
    struct got got;
    const char *body;
    int fd;

    (void)state;
    responder_start(&responder, OPTIONS("--body-bytes", "4000000"));
    fd = dial(&responder);
    put(fd, GET GET, strlen(GET GET));
    (void)shutdown(fd, SHUT_WR);
    do {
        responder_ask(&responder);
    } while (responder_count(&responder, "requests") < 2);
    got = take(fd);
    assert_int_equal(got.end, END_FIN);
    body = strstr(got.data, "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(got.len, 2 * ((size_t)(body + 4 - got.data) + BODY));
    for (size_t i = 0; i < BODY; i++)
        assert_int_equal(body[4 + i], '0' + i % 10);
    free(got.data);
    (void)close(fd);
    responder_stop(&responder);
    assert_int_equal(responder_count(&responder, "responses"), 2);
}

/* What the second of three pipelined requests gets; the third asks for the end of the connection
 * and is answered as usual unless the misbehaviour has ended it before. */
static const struct {
    const char *action;
    const char *bytes; /* all that comes for it, or how that begins */
    size_t len;        /* of all that comes, if bytes is only its beginning */
    bool goes_on;
    enum end end;
} misbehaviours[] = {
    { "close", "", 0, false, END_FIN },
    { "reset", "", 0, false, END_RESET },
    { "slow:1ms", HELLO, 0, true, END_FIN },
    { "drip:2ms", HELLO, 0, true, END_FIN },
    { "status:503",
      "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\n"
      "Hello, World!",
      0, true, END_FIN },
    { "status:204", "HTTP/1.1 204 No Content\r\nContent-Type: text/plain\r\n\r\n", 0, true,
      END_FIN },
    { "wrong-body", HEAD "Iello, World!", 0, true, END_FIN },
    { "short", HEAD "Hello, World", 0, false, END_FIN },
    { "long", HELLO "!", 0, true, END_FIN },
    { "garbage", "\x16\x03\x01\x02", 20, false, END_FIN },
    { "half", "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nCo", 0, false, END_RESET },
    { "cut-head", "HTTP/1.1 200 OK\r\nContent-Length:", 0, false, END_FIN },
    { "twice", HELLO HELLO, 0, true, END_FIN },
    { "both-framings",
      "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nTransfer-Encoding: chunked\r\n"
      "Content-Type: text/plain\r\n\r\n7\r\nHello, \r\n6\r\nWorld!\r\n0\r\n\r\n",
      0, true, END_FIN },
    { "bad-length",
      "HTTP/1.1 200 OK\r\nContent-Length: 13x\r\nContent-Type: text/plain\r\n\r\nHello, World!", 0,
      true, END_FIN },
    { "endless-head", "HTTP/1.1 200 OK\r\nX-Endless-0: and so on\r\nX-Endless-1: and so on\r\n",
      1048595, false, END_FIN },
    { "interim-flood", "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n",
      (size_t)10000 * 27 + sizeof(HELLO) - 1, true, END_FIN },
    { "bye", LAST, 0, false, END_FIN },
    { "unasked-408",
      HELLO "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 0,
      false, END_FIN },
};

static void expect_misbehaviour(size_t row)
{
    const char *action = misbehaviours[row].action;
    const char *bytes = misbehaviours[row].bytes;
    size_t len = misbehaviours[row].len > 0 ? misbehaviours[row].len : strlen(bytes);
    size_t tail = misbehaviours[row].goes_on ? strlen(LAST) : 0;
    struct responder responder;
    char rule[64];
    struct got got;
    int fd;

    (void)snprintf(rule, sizeof(rule), "2:%s", action);
    responder_start(&responder, OPTIONS("--every", rule));
    fd = dial(&responder);
    put(fd, GET GET GET_LAST, strlen(GET GET GET_LAST));
    got = take(fd);
    (void)close(fd);
    responder_stop(&responder);
    if (got.end != misbehaviours[row].end)
        fail_msg("%s: the connection ended in way %d", action, (int)got.end);
    /* An RST may overtake what was sent before it. */
    if (got.end != END_RESET || got.len > 0) {
        assert_memory_equal(got.data, HELLO, strlen(HELLO));
        assert_memory_equal(got.data + strlen(HELLO), bytes, strlen(bytes));
        assert_memory_equal(got.data + got.len - tail, LAST, tail);
        if (got.len != strlen(HELLO) + len + tail)
            fail_msg("%s: got %zu bytes: %.300s", action, got.len, got.data);
    }
    free(got.data);
    assert_int_equal(responder_count(&responder, "requests"), 3);
    books_balance(&responder);
    if (strchr(action, ':') == NULL)
        assert_int_equal(responder_count(&responder, action), 1);
}

static void every_misbehaviour_is_exactly_as_described(void **state)
{
    (void)state;
    for (size_t row = 0; row < LS_ARRAY_LEN(misbehaviours); row++)
        expect_misbehaviour(row);
}

static void after_no_answer_the_connection_is_silent_but_counted(void **state)
{
    struct responder responder;
    struct pollfd wait = { .events = POLLIN };

    (void)state;
    responder_start(&responder, OPTIONS("--every", "2:no-answer"));
    wait.fd = dial(&responder);
    put(wait.fd, GET, strlen(GET));
    expect_text(wait.fd, HELLO);
    put(wait.fd, GET GET, strlen(GET GET));
    do {
        responder_ask(&responder);
    } while (responder_count(&responder, "requests") < 3);
    assert_int_equal(responder_count(&responder, "open"), 1);
    assert_int_equal(poll(&wait, 1, 0), 0);
    (void)close(wait.fd);
    responder_stop(&responder);
    assert_int_equal(responder_count(&responder, "responses"), 1);
    assert_int_equal(responder_count(&responder, "unanswered"), 2);
}

/* Asks requests times, one by one, on connections in turn; an answered one must be HELLO. */
static unsigned ask_in_turn(const struct responder *responder, unsigned connections,
                            unsigned requests)
{
    int fds[16];
    unsigned answered = 0;

    assert_true(connections <= LS_ARRAY_LEN(fds));
    for (unsigned i = 0; i < connections; i++)
        fds[i] = dial(responder);
    for (unsigned i = 0; i < requests; i++) {
        int *fd = &fds[i % connections];
        char first;

        put(*fd, GET, strlen(GET));
        if (recv(*fd, &first, 1, MSG_PEEK) == 1) {
            expect_text(*fd, HELLO);
            answered++;
            continue;
        }
        (void)close(*fd);
        *fd = dial(responder);
    }
    for (unsigned i = 0; i < connections; i++)
        (void)close(fds[i]);
    return answered;
}

static void rules_count_requests_over_all_threads_and_connections(void **state)
{
    struct responder responder;

    (void)state;
    responder_start(&responder, OPTIONS("--threads", "3", "--every", "7:close", "--every",
                                        "10:reset", "--after", "95:close"));
    assert_int_equal(ask_in_turn(&responder, 8, 100), 100 - 14 - 9 - 3);
    responder_stop(&responder);
    /* 7 and 10 both divide 70; the first rule wins. 98 and 100 are past 95, but other rules' too.
     */
    assert_int_equal(responder_count(&responder, "close"), 14 + 3);
    assert_int_equal(responder_count(&responder, "reset"), 9);
    assert_int_equal(responder_count(&responder, "requests"), 100);
    books_balance(&responder);
}

static void an_answer_is_never_early(void **state)
{
    static const char *const laws[] = { "constant:3ms", "uniform:3ms-4ms" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(laws); i++) {
        struct responder responder;
        int64_t asked_ns;
        int fd;

        responder_start(&responder, OPTIONS("--latency", laws[i]));
        fd = dial(&responder);
        for (unsigned n = 0; n < 5; n++) {
            asked_ns = ls_clock_mono_ns();
            put(fd, GET, strlen(GET));
            expect_text(fd, HELLO);
            assert_true(ls_clock_mono_ns() - asked_ns >= 3 * LS_NS_PER_MS);
        }
        (void)close(fd);
        responder_stop(&responder);
        assert_int_equal(responder_count(&responder, "count"), 5);
    }
}

/* Each answer is due at the end of its own service, which begins at the end of the one before,
 * whichever connection that was on. */
static void a_queue_is_one_for_all_connections(void **state)
{
    struct responder responder;
    int64_t asked_ns;
    int fds[4];

    (void)state;
    responder_start(&responder, OPTIONS("--queue", "constant:5ms"));
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++)
        fds[i] = dial(&responder);
    asked_ns = ls_clock_mono_ns();
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++)
        put(fds[i], GET, strlen(GET));
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++)
        expect_text(fds[i], HELLO);
    assert_true(ls_clock_mono_ns() - asked_ns >= 20 * LS_NS_PER_MS);
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    responder_stop(&responder);
}

/* The sum of 200 such times has a standard deviation of 1.4 ms; the seed makes it always the same.
 */
static void a_queue_of_exponential_services_takes_their_sum(void **state)
{
    struct responder responder;
    int64_t asked_ns;
    int fd;

    (void)state;
    responder_start(&responder, OPTIONS("--queue", "exponential:100us"));
    fd = dial(&responder);
    asked_ns = ls_clock_mono_ns();
    for (unsigned n = 0; n < 200; n++)
        put(fd, GET, strlen(GET));
    for (unsigned n = 0; n < 200; n++)
        expect_text(fd, HELLO);
    assert_true(ls_clock_mono_ns() - asked_ns >= 14 * LS_NS_PER_MS);
    (void)close(fd);
    responder_stop(&responder);
}

/* Before the first stall there is time for ten requests of 2 ms in a row; of the other ten each
 * needs a stall, as an answer is due longer after its request than there is between stalls. */
static void in_a_stall_nothing_is_answered(void **state)
{
    struct responder responder;
    uint64_t stalls;

    (void)state;
    responder_start(&responder, OPTIONS("--stall", "20ms:19ms", "--latency", "constant:2ms"));
    assert_int_equal(ask_in_turn(&responder, 1, 20), 20);
    responder_ask(&responder);
    stalls = responder_count(&responder, "stalls");
    responder_stop(&responder);
    assert_true(stalls >= 9);
}

static void forms_of_answers_are_as_asked(void **state)
{
    struct responder responder;
    struct got got;
    int fd;

    (void)state;
    responder_start(&responder, OPTIONS("--chunked", "--interim", "--close", "--body", "abcd"));
    fd = dial(&responder);
    put(fd, GET, strlen(GET));
    got = take(fd);
    assert_int_equal(got.end, END_FIN);
    assert_string_equal(
        got.data, "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
                  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n"
                  "Connection: close\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n");
    free(got.data);
    (void)close(fd);
    responder_stop(&responder);
}

static void a_body_is_asked_for_when_its_sender_waits(void **state)
{
    static const char head[] =
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    struct responder responder;
    int fd;

    (void)state;
    responder_start(&responder, NULL);
    fd = dial(&responder);
    put(fd, head, strlen(head));
    expect_text(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    put(fd, "ab", 2);
    expect_text(fd, HELLO);
    (void)close(fd);
    responder_stop(&responder);
    assert_int_equal(responder_count(&responder, "responses"), 1);
}

static void what_is_no_request_gets_400_and_the_end(void **state)
{
    struct responder responder;
    struct got got;
    int fd;

    (void)state;
    responder_start(&responder, NULL);
    fd = dial(&responder);
    put(fd, GET "nonsense\r\n\r\n" GET, strlen(GET "nonsense\r\n\r\n" GET));
    got = take(fd);
    assert_int_equal(got.end, END_FIN);
    assert_string_equal(got.data, HELLO "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n"
                                        "Connection: close\r\n\r\n");
    free(got.data);
    (void)close(fd);
    responder_stop(&responder);
    assert_int_equal(responder_count(&responder, "requests"), 1);
    assert_int_equal(responder_count(&responder, "bad_requests"), 1);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        { "--listen", "127.0.0.1" },
        { "--listen", "localhost:80" },
        { "--listen", "127.0.0.1:http" },
        { "--listen", "127.0.0.1:65536" },
        { "--listen", "[127.0.0.1]:1" },
        { "--threads", "0" },
        { "--body-bytes", "0" },
        { "--latency", "1ms" },
        { "--latency", "constant:" },
        { "--latency", "uniform:2ms-1ms" },
        { "--latency", "uniform:2ms" },
        { "--latency", "constant:2h" },
        { "--queue", "1ms" },
        { "--queue", "uniform:1ms-2ms" },
        { "--queue", "constant:0s" },
        { "--queue", "constant:2h" },
        { "--stall", "1s" },
        { "--stall", "1s:1s" },
        { "--stall", "1s:0s" },
        { "--every", "close" },
        { "--every", "0:close" },
        { "--every", "1:normal" },
        { "--every", "1:clos" },
        { "--every", "1:close:1" },
        { "--every", "1:slow" },
        { "--every", "1:status:99" },
        { "--after", "x:close" },
        { "--cpus", "0-" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(wrong); i++) {
        char name[32];
        char value[32];
        char *argv[] = { name, name, value };

        (void)snprintf(name, sizeof(name), "%s", wrong[i][0]);
        (void)snprintf(value, sizeof(value), "%s", wrong[i][1]);
        if (agent_respond_main(3, argv) != 2)
            fail_msg("%s %s was taken", wrong[i][0], wrong[i][1]);
    }
}

static void a_port_in_use_is_said_to_be(void **state)
{
    struct responder responder;
    char listen[] = "--listen";
    char address[32];
    char *argv[] = { listen, listen, address };

    (void)state;
    responder_start(&responder, NULL);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)responder.port);
    assert_int_equal(agent_respond_main(3, argv), 3);
    responder_stop(&responder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_is_answered_and_counted),
        cmocka_unit_test(a_pipeline_is_answered_in_order_whatever_its_depth),
        cmocka_unit_test(a_slow_reader_gets_all_bytes_after_its_fin),
        cmocka_unit_test(every_misbehaviour_is_exactly_as_described),
        cmocka_unit_test(after_no_answer_the_connection_is_silent_but_counted),
        cmocka_unit_test(rules_count_requests_over_all_threads_and_connections),
        cmocka_unit_test(an_answer_is_never_early),
        cmocka_unit_test(a_queue_is_one_for_all_connections),
        cmocka_unit_test(a_queue_of_exponential_services_takes_their_sum),
        cmocka_unit_test(in_a_stall_nothing_is_answered),
        cmocka_unit_test(forms_of_answers_are_as_asked),
        cmocka_unit_test(a_body_is_asked_for_when_its_sender_waits),
        cmocka_unit_test(what_is_no_request_gets_400_and_the_end),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(a_port_in_use_is_said_to_be),
    };

    return cmocka_run_group_tests_name("agent.respond", tests, NULL, NULL);
}
