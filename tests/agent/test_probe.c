/* The probe against a server that says what it is told to: what comes back, and in which words. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/load/probe.h"
#include "agent/load/probe_text.h"
#include "common/clock.h"
#include "tests/support/failmalloc.h"
#include "tests/support/script_server.h"

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }
#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n"
#define OK      OK_HEAD "Hello, World!"
#define UNCUT   "0123456789012345678901234567890123456789"

enum { LONG_S = 30 };

static const struct load_request requests[] = {
    { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
      .label = "GET /",
      .expect_status = 200,
      .expect_body_given = true,
      .expect_body = BYTES("Hello, World!") },
    { .bytes = BYTES("GET /any HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "GET /any" },
    { .bytes = BYTES("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "HEAD /", .no_body = true },
};

static struct load_workload workload_for(const struct script_server *server)
{
    return (struct load_workload){ .driver = "http1",
                                   .address = server->address,
                                   .address_len = server->address_len,
                                   .requests = requests,
                                   .request_count = LS_ARRAY_LEN(requests),
                                   .pipeline = 1 };
}

static int64_t far_away(void)
{
    return ls_clock_mono_ns() + LONG_S * LS_NS_PER_S;
}

static const struct {
    const char *answer; /* its NUL ends it */
    enum script_end end;
    uint32_t request;
    enum ls_err rc;
    enum load_outcome outcome;
    const char *says;
} cases[] = {
    { OK, SCRIPT_HOLD, 0, LS_OK, LOAD_OK, "" },
    { OK_HEAD, SCRIPT_HOLD, 2, LS_OK, LOAD_OK, "" },
    { "HTTP/1.1 200 OK\r\n\r\nHello, World!", SCRIPT_CLOSE, 0, LS_OK, LOAD_OK, "" },
    /* status */
    { "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found", SCRIPT_HOLD, 0, LS_OK,
      LOAD_BAD_STATUS, "GET /: expected status 200, got 404 Not Found (\"not found\")" },
    { "HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n", SCRIPT_HOLD, 1, LS_OK, LOAD_BAD_STATUS,
      "GET /any: expected a status of 200 to 399, got 503 (no body)" },
    { "HTTP/1.1 500 x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\x01\"\\\n\r\n3\r\n\xc3\xbc!\r\n0\r"
      "\n\r\n",
      SCRIPT_HOLD, 1, LS_OK, LOAD_BAD_STATUS,
      "GET /any: expected a status of 200 to 399, got 500 x "
      "(\"\\x01\\\"\\\\\\n\\xc3\\xbc!\")" },
    { "HTTP/1.1 500 x\r\nContent-Length: 80\r\n\r\n" UNCUT UNCUT, SCRIPT_HOLD, 1, LS_OK,
      LOAD_BAD_STATUS,
      "GET /any: expected a status of 200 to 399, got 500 x (\"" UNCUT "01234567\"...)" },
    /* body */
    { OK_HEAD "Hello, world!", SCRIPT_HOLD, 0, LS_OK, LOAD_BAD_BODY,
      "GET /: body differs at byte 7: expected \"World!\", got \"world!\"" },
    { "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello", SCRIPT_HOLD, 0, LS_OK, LOAD_BAD_BODY,
      "GET /: body is shorter than the 13 bytes expected: got 5: \"Hello\"" },
    { "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nHello, World!\r\n", SCRIPT_HOLD, 0, LS_OK,
      LOAD_BAD_BODY,
      "GET /: body is longer than the 13 bytes expected: got 15, the rest begins with "
      "\"\\r\\n\"" },
    /* framing */
    { "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", SCRIPT_HOLD, 0, LS_OK,
      LOAD_BAD_FRAMING,
      "GET /: not a proper HTTP/1 answer: content-length twice, with different values; it begins "
      "with \"HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\nContent-Leng\"..." },
    { "SSH-2.0-OpenSSH\r\n", SCRIPT_HOLD, 0, LS_OK, LOAD_BAD_FRAMING,
      "GET /: not a proper HTTP/1 answer: does not begin with a status line; it begins with "
      "\"SSH-2.0-OpenSSH\\r\\n\"" },
    /* the end comes first */
    { "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nHello", SCRIPT_CLOSE, 0, LS_ECLOSED,
      LOAD_CLOSED_EARLY, "GET /: closed before content-length was reached: 44 bytes so far" },
    { "", SCRIPT_CLOSE, 0, LS_ECLOSED, LOAD_CLOSED_EARLY, "GET /: closed without an answer" },
    { "", SCRIPT_RESET, 0, LS_ECLOSED, LOAD_RESET, "GET /: reset by the peer" },
};

static void each_answer_is_judged_and_put_into_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_bytes answer = { (const unsigned char *)cases[i].answer,
                                   strlen(cases[i].answer) };
        struct script script = { { answer }, cases[i].end };
        struct agent_reply reply = { .outcome = LOAD_OUTCOME_COUNT };
        struct ls_diag diag = { .text = "" };
        struct script_server server;
        struct load_workload workload;
        struct load_probe *probe;
        uint64_t sent = 5;
        enum ls_err rc;

        script_server_start(&server, &script, 1, -1);
        workload = workload_for(&server);
        assert_int_equal(load_probe_create(&workload, -1, &probe, &diag), LS_OK);
        rc = load_probe_exchange(probe, cases[i].request, far_away(), &reply, &sent, &diag);
        load_probe_destroy(probe);
        script_server_stop(&server);
        if (rc != cases[i].rc || reply.outcome != cases[i].outcome ||
            strcmp(diag.text, cases[i].says) != 0)
            fail_msg("case %zu: %s, outcome %d, says: %s", i, ls_err_name(rc), (int)reply.outcome,
                     diag.text);
        assert_int_equal(sent, 6);
    }
}

static void exchanges_share_a_connection_as_long_as_it_lives(void **state)
{
    static const struct script scripts[] = {
        { { BYTES(OK), BYTES(OK), BYTES(OK) }, SCRIPT_CLOSE },
        { { BYTES("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\nHello, "
                  "World!") },
          SCRIPT_HOLD },
        { { BYTES(OK) }, SCRIPT_HOLD },
    };
    struct script_server server;
    struct load_workload workload;
    struct load_probe *probe;
    struct agent_reply reply;
    struct ls_diag diag = { .text = "" };
    uint64_t sent = 0;

    (void)state;
    script_server_start(&server, scripts, LS_ARRAY_LEN(scripts), -1);
    workload = workload_for(&server);
    assert_int_equal(load_probe_create(&workload, -1, &probe, &diag), LS_OK);
    for (unsigned i = 0; i < 5; i++) {
        if (i == 3)
            (void)sem_wait(&server.ended); /* the first connection: its FIN is here */
        if (load_probe_exchange(probe, i == 3 ? 0 : i, far_away(), &reply, &sent, &diag) != LS_OK)
            fail_msg("exchange %u: %s", i, diag.text);
    }
    assert_int_equal(sent, 5);
    load_probe_destroy(probe);
    script_server_stop(&server);
}

static void a_refused_connection_says_by_whom(void **state)
{
    static const struct script none = { .end = SCRIPT_HOLD };
    struct script_server server;
    struct load_workload workload;
    struct load_probe *probe;
    struct agent_reply reply = { .outcome = LOAD_OUTCOME_COUNT };
    struct ls_diag diag = { .text = "" };
    char want[64];
    uint64_t sent = 0;

    (void)state;
    script_server_start(&server, &none, 1, -1);
    workload = workload_for(&server);
    script_server_stop(&server); /* now nobody listens there */
    assert_int_equal(load_probe_create(&workload, -1, &probe, &diag), LS_OK);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(load_probe_exchange(probe, 0, far_away(), &reply, &sent, &diag),
                         LS_ECLOSED);
        (void)snprintf(want, sizeof(want), "connection refused by 127.0.0.1:%u",
                       ntohs(((struct sockaddr_in *)&workload.address)->sin_port));
        assert_string_equal(diag.text, want);
    }
    assert_int_equal(sent, 0);
    assert_int_equal(reply.outcome, LOAD_OUTCOME_COUNT);
    load_probe_destroy(probe);
}

static void silence_ends_at_the_deadline(void **state)
{
    static const struct script scripts[] = {
        { { BYTES("HTTP/1.1 200 OK\r\n") }, SCRIPT_HOLD },
        { .end = SCRIPT_HOLD },
        { { BYTES(OK) }, SCRIPT_HOLD },
    };
    struct script_server server;
    struct load_workload workload;
    struct load_probe *probe;
    struct agent_reply reply = { .outcome = LOAD_OUTCOME_COUNT };
    struct ls_diag diag = { .text = "" };
    uint64_t sent = 0;

    (void)state;
    script_server_start(&server, scripts, LS_ARRAY_LEN(scripts), -1);
    workload = workload_for(&server);
    assert_int_equal(load_probe_create(&workload, -1, &probe, &diag), LS_OK);
    for (unsigned i = 0; i < 2; i++) {
        int64_t soon = ls_clock_mono_ns() + 50 * LS_NS_PER_MS;

        assert_int_equal(load_probe_exchange(probe, 0, soon, &reply, &sent, &diag), LS_ETIMEOUT);
        /* How much of the answer came in time is the scheduler's affair. */
        assert_non_null(strstr(diag.text, "GET /: no complete answer within 0.05s: "));
        assert_non_null(strstr(diag.text, " bytes so far"));
        assert_int_equal(reply.outcome, LOAD_TIMEOUT);
        assert_int_equal(sent, i + 1);
    }
    assert_int_equal(load_probe_exchange(probe, 0, far_away(), &reply, &sent, &diag), LS_OK);
    assert_int_equal(reply.outcome, LOAD_OK);
    load_probe_destroy(probe);
    script_server_stop(&server);
}

static void cancelling_ends_any_wait(void **state)
{
    static const struct script scripts[] = { { .end = SCRIPT_SIGNAL } };
    int cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct script_server server;
    struct load_workload workload;
    struct load_probe *probe;
    struct agent_reply reply = { .outcome = LOAD_OUTCOME_COUNT };
    struct ls_diag diag = { .text = "" };
    uint64_t sent = 0;

    (void)state;
    assert_true(cancel_fd >= 0);
    script_server_start(&server, scripts, 1, cancel_fd);
    workload = workload_for(&server);
    assert_int_equal(load_probe_create(&workload, cancel_fd, &probe, &diag), LS_OK);
    assert_int_equal(load_probe_exchange(probe, 0, far_away(), &reply, &sent, &diag), LS_ESTATE);
    assert_string_equal(diag.text, "GET /: given up");
    assert_int_equal(reply.outcome, LOAD_ABORTED);
    assert_int_equal(sent, 1);
    load_probe_destroy(probe);
    script_server_stop(&server);
    (void)close(cancel_fd);
}

/* The request does not fit into the socket's buffers, and nobody reads it. */
static void an_early_answer_to_a_large_request_counts(void **state)
{
    enum { LARGE = 32 << 20 };
    static const struct script scripts[] = {
        { { BYTES("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n") }, SCRIPT_DEAF },
        { { BYTES("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") }, SCRIPT_HOLD }
    };
    static const char head[] = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 33554432\r\n\r\n";
    unsigned char *bytes = calloc(1, sizeof(head) - 1 + LARGE);
    int signal_fd = eventfd(0, EFD_CLOEXEC);
    struct load_request large = { .label = "POST /", .expect_status = 413 };
    struct script_server server;
    struct load_workload workload;
    struct load_probe *probe;
    struct agent_reply reply;
    struct ls_diag diag = { .text = "" };
    uint64_t sent = 0;

    (void)state;
    assert_non_null(bytes);
    memcpy(bytes, head, sizeof(head) - 1);
    large.bytes = (struct ls_bytes){ bytes, sizeof(head) - 1 + LARGE };
    script_server_start(&server, scripts, LS_ARRAY_LEN(scripts), signal_fd);
    workload = workload_for(&server);
    workload.requests = &large;
    workload.request_count = 1;
    assert_int_equal(load_probe_create(&workload, -1, &probe, &diag), LS_OK);
    if (load_probe_exchange(probe, 0, far_away(), &reply, &sent, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(reply.outcome, LOAD_OK);
    assert_int_equal(sent, 1);
    assert_int_equal(eventfd_write(signal_fd, 1), 0);
    /* What is left of that request must not run into the next one. */
    large.bytes = requests[0].bytes;
    large.expect_status = 200;
    if (load_probe_exchange(probe, 0, far_away(), &reply, &sent, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(reply.outcome, LOAD_OK);
    load_probe_destroy(probe);
    script_server_stop(&server);
    (void)close(signal_fd);
    free(bytes);
}

static void a_difference_beyond_what_is_kept_is_still_found(void **state)
{
    size_t head_len = strlen("HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n");
    size_t body_len = 2097152;
    unsigned char *answer = calloc(1, head_len + body_len + 1);
    unsigned char *body = calloc(1, body_len);
    struct load_request large = { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
                                  .label = "GET /",
                                  .expect_body_given = true };
    struct script script = { .end = SCRIPT_HOLD };
    struct script_server server;
    struct load_workload workload;
    struct load_probe *probe;
    struct agent_reply reply;
    struct ls_diag diag = { .text = "" };
    uint64_t sent = 0;

    (void)state;
    assert_non_null(answer);
    assert_non_null(body);
    (void)snprintf((char *)answer, head_len + 1,
                   "HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n");
    answer[head_len + 2000000] = 'x';
    script.answers[0] = (struct ls_bytes){ answer, head_len + body_len };
    large.expect_body = (struct ls_bytes){ body, body_len };
    script_server_start(&server, &script, 1, -1);
    workload = workload_for(&server);
    workload.requests = &large;
    workload.request_count = 1;
    assert_int_equal(load_probe_create(&workload, -1, &probe, &diag), LS_OK);
    assert_int_equal(load_probe_exchange(probe, 0, far_away(), &reply, &sent, &diag), LS_OK);
    assert_int_equal(reply.outcome, LOAD_BAD_BODY);
    assert_int_equal(reply.mismatch_at, 2000000);
    assert_non_null(strstr(diag.text, "GET /: body differs at byte 2000000: expected \"\\x00"));
    assert_non_null(strstr(diag.text, "got something else"));
    load_probe_destroy(probe);
    script_server_stop(&server);
    free(answer);
    free(body);
}

static void addresses_read_as_people_write_them(void **state)
{
    struct sockaddr_storage address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address;
    struct sockaddr_un *local = (struct sockaddr_un *)&address;
    char text[PROBE_ADDRESS_BYTES];

    (void)state;
    memset(&address, 0, sizeof(address));
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(80);
    six->sin6_addr = in6addr_loopback;
    probe_address_text(&address, sizeof(*six), text);
    assert_string_equal(text, "[::1]:80");
    memset(&address, 0, sizeof(address));
    local->sun_family = AF_UNIX;
    memcpy(local->sun_path, "/run/x", 7);
    probe_address_text(&address, sizeof(*local), text);
    assert_string_equal(text, "/run/x");
}

static void create_once(void *ctx)
{
    struct load_probe *probe = NULL;
    enum ls_err rc = load_probe_create(ctx, -1, &probe, NULL);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    load_probe_destroy(probe);
}

static void what_cannot_be_probed_is_refused(void **state)
{
    struct load_workload workload = {
        .driver = "gopher", .requests = requests, .request_count = 1, .pipeline = 1
    };
    struct load_probe *probe = NULL;
    struct ls_diag diag = { .text = "" };

    (void)state;
    assert_int_equal(load_probe_create(&workload, -1, &probe, &diag), LS_EINVAL);
    assert_string_equal(diag.text, "there is no load driver \"gopher\"");
    workload.driver = "http1";
    workload.pipeline = 0;
    assert_int_equal(load_probe_create(&workload, -1, &probe, &diag), LS_ERANGE);
    workload.pipeline = 1;
    assert_true(failmalloc_each(create_once, &workload) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_is_judged_and_put_into_words),
        cmocka_unit_test(exchanges_share_a_connection_as_long_as_it_lives),
        cmocka_unit_test(a_refused_connection_says_by_whom),
        cmocka_unit_test(silence_ends_at_the_deadline),
        cmocka_unit_test(cancelling_ends_any_wait),
        cmocka_unit_test(an_early_answer_to_a_large_request_counts),
        cmocka_unit_test(a_difference_beyond_what_is_kept_is_still_found),
        cmocka_unit_test(addresses_read_as_people_write_them),
        cmocka_unit_test(what_cannot_be_probed_is_refused),
    };

    return cmocka_run_group_tests_name("agent.probe", tests, NULL, NULL);
}
