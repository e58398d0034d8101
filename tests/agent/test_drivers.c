/* Every driver there is passes the one suite. */
#include "tests/support/test.h"

#include <string.h>

#include "tests/support/driver_suite.h"

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }
#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n"

static const struct load_request http_requests[] = {
    { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
      .label = "GET /",
      .expect_body_given = true,
      .expect_body = BYTES("Hello, World!") },
    { .bytes = BYTES("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "HEAD /", .no_body = true },
    { .bytes = BYTES("GET /abc HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "GET /abc" },
};

static struct ls_bytes http1_answer(uint32_t request)
{
    static const struct ls_bytes answers[LS_ARRAY_LEN(http_requests)] = {
        BYTES(OK_HEAD "Hello, World!"),
        BYTES(OK_HEAD),
        BYTES("HTTP/1.1 100 Continue\r\n\r\n"
              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    };

    return answers[request];
}

static struct ls_bytes null_answer(uint32_t request)
{
    (void)request;
    return (struct ls_bytes)BYTES(".");
}

/* A flawless peer for each driver. */
static const struct {
    const char *driver;
    struct ls_bytes (*answer)(uint32_t request);
} peers[] = {
    { "http1", http1_answer },
    { "null", null_answer },
};

static void every_driver_passes_the_suite(void **state)
{
    struct load_workload workload = { .requests = http_requests,
                                      .request_count = LS_ARRAY_LEN(http_requests) };
    const struct agent_driver *driver;

    (void)state;
    for (unsigned i = 0; (driver = agent_driver_at(i)) != NULL; i++) {
        size_t peer = 0;

        while (peer < LS_ARRAY_LEN(peers) && strcmp(peers[peer].driver, driver->name) != 0)
            peer++;
        if (peer == LS_ARRAY_LEN(peers))
            fail_msg("driver %s has no peer here: add one", driver->name);
        for (workload.pipeline = 1; workload.pipeline <= 5; workload.pipeline++) {
            struct driver_suite suite = { driver->name, &workload, peers[peer].answer };

            driver_suite_run(&suite);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_driver_passes_the_suite) };

    return cmocka_run_group_tests_name("agent.drivers", tests, NULL, NULL);
}
