/* agent/budget.c: what fits is let through, what does not is refused by its limit's name. */
#include "tests/support/test.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>

#include "agent/budget.h"
#include "common/clock.h"

static struct load_workload workload(uint32_t connections, const char *address)
{
    struct load_workload w = { .connections = connections, .workers = 1, .workers_total = 1 };
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&w.address;

    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(strcmp(address, "loopback") == 0 ? 0x7f000001 : 0x0a000001);
    return w;
}

static struct agent_limits limits(void)
{
    return (struct agent_limits){ .files = 20000, .ports = 28232, .memory_bytes = 1u << 30 };
}

static void assert_fits(const struct load_workload *w, int64_t length_s,
                        const struct agent_limits *l)
{
    struct ls_diag diag = { .text = "" };

    if (agent_budget_check(w, length_s * LS_NS_PER_S, l, &diag) != LS_OK)
        fail_msg("%s", diag.text);
}

static void assert_refused(const struct load_workload *w, int64_t length_s,
                           const struct agent_limits *l, const char *words, const char *remedy)
{
    struct ls_diag diag = { .text = "" };

    assert_int_equal(agent_budget_check(w, length_s * LS_NS_PER_S, l, &diag), LS_ERANGE);
    if (strstr(diag.text, words) == NULL || strstr(diag.text, remedy) == NULL)
        fail_msg("\"%s\" and \"%s\" in \"%s\"", words, remedy, diag.text);
}

static void descriptors_are_counted_for_the_own_share(void **state)
{
    struct agent_limits l = limits();
    struct load_workload w = workload(19872, "loopback");

    (void)state;
    assert_fits(&w, 10, &l);
    w = workload(19873, "loopback");
    assert_refused(&w, 10, &l, "need 20001 file descriptors, this agent may have 20000",
                   "ulimit -n");
    w.workers_total = 2; /* another client has the other half */
    assert_fits(&w, 10, &l);
}

static void ports_are_counted_by_source_address(void **state)
{
    struct agent_limits l = limits();
    struct load_workload w = workload(28232, "loopback");

    (void)state;
    l.files = 1u << 20;
    assert_fits(&w, 10, &l);
    w = workload(28233, "loopback");
    assert_refused(&w, 10, &l, "28233 connections from 1 address:", "ip_local_port_range");
    w.source_count = 2;
    assert_fits(&w, 10, &l);
    w = workload(100000, "loopback");
    w.source_count = 3;
    assert_refused(&w, 10, &l, "100000 connections from 3 addresses: there are 84696",
                   "source_addresses");
    w.address.ss_family = AF_UNIX;
    assert_fits(&w, 10, &l);
}

static void connections_that_we_close_keep_their_ports_for_a_minute(void **state)
{
    struct agent_limits l = limits();
    struct load_workload w = workload(100, "other");

    (void)state;
    w.law = LOAD_LAW_CONSTANT;
    w.rate_per_s = 1000;
    w.lifetime_requests = 1;
    assert_fits(&w, 28, &l); /* 28,000 of them, over so soon */
    assert_refused(&w, 60, &l, "keep 60000 ports in TIME_WAIT", "tcp_tw_reuse");
    w.lifetime_requests = 10;
    assert_fits(&w, 60, &l);
    w.lifetime_requests = 1;
    l.quick_reuse_loopback = true;
    assert_refused(&w, 60, &l, "TIME_WAIT", "source_addresses");
    l.quick_reuse = true;
    assert_fits(&w, 60, &l);
    l = limits();
    w = workload(100, "loopback");
    w.law = LOAD_LAW_CONSTANT;
    w.rate_per_s = 1000;
    w.lifetime_requests = 1;
    l.quick_reuse_loopback = true;
    assert_fits(&w, 60, &l);
    w = workload(1000, "other"); /* by time, whatever the law */
    l = limits();
    w.lifetime_ns = LS_NS_PER_S;
    assert_refused(&w, 60, &l, "1000 connections closed a second", "lifetime");
}

static void memory_is_counted_with_tls(void **state)
{
    struct agent_limits l = limits();
    struct load_workload w = workload(10000, "loopback");

    (void)state;
    l.memory_bytes = 100u << 20;
    assert_fits(&w, 10, &l);
    w.tls = (const struct load_tls *)(const void *)&l; /* only that there is one counts */
    assert_refused(&w, 10, &l, "10000 connections need about 312 MiB", "100 MiB are available");
    l.memory_bytes = 0; /* not known */
    assert_fits(&w, 10, &l);
}

static void the_soft_limit_of_descriptors_is_raised_to_the_hard_one(void **state)
{
    struct rlimit before, after;
    struct agent_limits l;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    after = before;
    after.rlim_cur = before.rlim_max > 256 ? 256 : before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &after), 0);
    agent_limits_raise();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &after), 0);
    assert_int_equal(after.rlim_cur, before.rlim_max);
    agent_limits_read(&l);
    assert_int_equal(l.files, before.rlim_max);
    assert_true(l.ports > 0 && l.ports <= 65536);
    assert_true(l.memory_bytes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_counted_for_the_own_share),
        cmocka_unit_test(ports_are_counted_by_source_address),
        cmocka_unit_test(connections_that_we_close_keep_their_ports_for_a_minute),
        cmocka_unit_test(memory_is_counted_with_tls),
        cmocka_unit_test(the_soft_limit_of_descriptors_is_raised_to_the_hard_one),
    };

    return cmocka_run_group_tests_name("agent.budget", tests, NULL, NULL);
}
