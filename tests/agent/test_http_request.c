/* What a plan says about a request becomes exactly these bytes, or is refused. */
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/http_request.h"
#include "tests/support/failmalloc.h"

#define HOST    "127.0.0.1:8080"
#define HEADERS (const struct agent_http_header[])
#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }

static const struct {
    struct agent_http_request request;
    const char *bytes;
    const char *label;
    bool no_body;
    bool closes;
} good[] = {
    { { "GET", "/", HOST, NULL, 0, { NULL, 0 } },
      "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
      "GET /",
      false,
      false },
    { { "HEAD", "/a?b=c%20d", HOST, NULL, 0, { NULL, 0 } },
      "HEAD /a?b=c%20d HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
      "HEAD /a?b=c%20d",
      true,
      false },
    { { "POST", "/echo", HOST, NULL, 0, BYTES("{\"a\":1}") },
      "POST /echo HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
      "POST /echo",
      false,
      false },
    { { "POST", "/", HOST, NULL, 0, { NULL, 0 } },
      "POST / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 0\r\n\r\n",
      "POST /",
      false,
      false },
    { { "DELETE", "/x", HOST, NULL, 0, { NULL, 0 } },
      "DELETE /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
      "DELETE /x",
      false,
      false },
    { { "OPTIONS", "*", HOST, NULL, 0, { NULL, 0 } },
      "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
      "OPTIONS *",
      false,
      false },
    { { "GET", "/", HOST, HEADERS{ { "host", "example" }, { "X-Y", "" } }, 2, { NULL, 0 } },
      "GET / HTTP/1.1\r\nhost: example\r\nX-Y: \r\n\r\n",
      "GET /",
      false,
      false },
    { { "PUT", "/", HOST, HEADERS{ { "content-length", "2" } }, 1, BYTES("ab") },
      "PUT / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\ncontent-length: 2\r\n\r\nab",
      "PUT /",
      false,
      false },
    { { "PUT", "/", HOST, HEADERS{ { "Transfer-Encoding", "chunked" } }, 1, BYTES("0\r\n\r\n") },
      "PUT / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "PUT /",
      false,
      false },
    { { "GET", "/", HOST, HEADERS{ { "Connection", "upgrade,\tClose " } }, 1, { NULL, 0 } },
      "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: upgrade,\tClose \r\n\r\n",
      "GET /",
      false,
      true },
    { { "GET", "/", HOST, HEADERS{ { "Connection", "keep-alive, closed" } }, 1, { NULL, 0 } },
      "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: keep-alive, closed\r\n\r\n",
      "GET /",
      false,
      false },
};

static void good_requests_become_these_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(good); i++) {
        struct load_request out = { .expect_status = 418 };
        struct ls_diag diag = { .text = "" };

        if (agent_http_request_format(&good[i].request, &out, &diag) != LS_OK)
            fail_msg("case %zu: %s", i, diag.text);
        assert_int_equal(out.bytes.len, strlen(good[i].bytes));
        assert_memory_equal(out.bytes.data, good[i].bytes, out.bytes.len);
        assert_string_equal(out.label, good[i].label);
        assert_int_equal(out.no_body, good[i].no_body);
        assert_int_equal(out.closes, good[i].closes);
        assert_int_equal(out.expect_status, 418); /* not ours */
        agent_http_request_fini(&out);
        assert_null(out.bytes.data);
        agent_http_request_fini(&out);
    }
}

static const struct {
    struct agent_http_request request;
    const char *says;
} wrong[] = {
    { { "", "/", HOST, NULL, 0, { NULL, 0 } }, "method" },
    { { "GET /x", "/", HOST, NULL, 0, { NULL, 0 } }, "method \"GET /x\" is not a token" },
    { { "GET\r\n", "/", HOST, NULL, 0, { NULL, 0 } }, "method" },
    { { "CONNECT", "a:1", HOST, NULL, 0, { NULL, 0 } }, "tunnel" },
    { { "GET", "", HOST, NULL, 0, { NULL, 0 } }, "path" },
    { { "GET", "/a b", HOST, NULL, 0, { NULL, 0 } }, "%20" },
    { { "GET", "/\r\nX: y", HOST, NULL, 0, { NULL, 0 } }, "path" },
    { { "GET", "/\x7f", HOST, NULL, 0, { NULL, 0 } }, "path" },
    { { "GET", "/", "a\r\nX: y", NULL, 0, { NULL, 0 } }, "host" },
    { { "GET", "/", HOST, HEADERS{ { "", "x" } }, 1, { NULL, 0 } }, "header name" },
    { { "GET", "/", HOST, HEADERS{ { "A B", "x" } }, 1, { NULL, 0 } }, "\"A B\"" },
    { { "GET", "/", HOST, HEADERS{ { "A:", "x" } }, 1, { NULL, 0 } }, "\"A:\"" },
    { { "GET", "/", HOST, HEADERS{ { "A", "x\r\nB: y" } }, 1, { NULL, 0 } }, "header A" },
    { { "GET", "/", HOST, HEADERS{ { "Host", "a" }, { "HOST", "b" } }, 2, { NULL, 0 } }, "twice" },
    { { "PUT", "/", HOST, HEADERS{ { "Content-Length", "3" } }, 1, BYTES("ab") },
      "says 3 but the body has 2 bytes" },
    { { "PUT", "/", HOST, HEADERS{ { "Content-Length", "+2" } }, 1, BYTES("ab") }, "says +2" },
    { { "PUT", "/", HOST, HEADERS{ { "Content-Length", "2" }, { "Content-Length", "2" } }, 2,
        BYTES("ab") },
      "twice" },
    { { "PUT", "/", HOST, HEADERS{ { "Content-Length", "2" }, { "Transfer-Encoding", "chunked" } },
        2, BYTES("ab") },
      "exclude" },
};

static void wrong_requests_are_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(wrong); i++) {
        struct load_request out = { .label = "untouched" };
        struct ls_diag diag = { .text = "" };

        assert_int_equal(agent_http_request_format(&wrong[i].request, &out, &diag), LS_EINVAL);
        if (strstr(diag.text, wrong[i].says) == NULL)
            fail_msg("case %zu says: %s", i, diag.text);
        assert_string_equal(out.label, "untouched");
        assert_null(out.bytes.data);
    }
}

static void heads_have_a_limit(void **state)
{
    char *value = malloc(AGENT_HTTP_REQUEST_HEAD_MAX + 1);
    struct agent_http_header header = { "X", value };
    struct agent_http_request request = { "GET", "/", HOST, &header, 1, { NULL, 0 } };
    size_t fits = AGENT_HTTP_REQUEST_HEAD_MAX -
                  strlen("GET"
                         "/" HOST "X") -
                  4;
    struct load_request out = { 0 };

    (void)state;
    assert_non_null(value);
    memset(value, 'v', fits);
    value[fits] = '\0';
    assert_int_equal(agent_http_request_format(&request, &out, NULL), LS_OK);
    agent_http_request_fini(&out);
    value[fits] = 'v';
    value[fits + 1] = '\0';
    assert_int_equal(agent_http_request_format(&request, &out, NULL), LS_ERANGE);
    free(value);
}

static void format_once(void *ctx)
{
    struct load_request out = { 0 };
    enum ls_err rc = agent_http_request_format(ctx, &out, NULL);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    agent_http_request_fini(&out);
}

static void a_failed_allocation_is_reported(void **state)
{
    struct agent_http_request request = good[2].request;

    (void)state;
    assert_true(failmalloc_each(format_once, &request) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_requests_become_these_bytes),
        cmocka_unit_test(wrong_requests_are_refused_with_the_reason),
        cmocka_unit_test(heads_have_a_limit),
        cmocka_unit_test(a_failed_allocation_is_reported),
    };

    return cmocka_run_group_tests_name("agent.http_request", tests, NULL, NULL);
}
