#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "agent/policy/net.h"
#include "common/rng.h"

static struct policy_address at(const char *host, uint16_t port)
{
    struct sockaddr_storage storage = { 0 };
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&storage;
    struct policy_address out;

    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
    } else {
        assert_int_equal(inet_pton(AF_INET6, host, &v6->sin6_addr), 1);
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
    }
    assert_int_equal(policy_address_of(&storage, &out, NULL), LS_OK);
    return out;
}

static struct policy_net net(const char *text)
{
    struct policy_net out;
    struct ls_diag diag;

    if (policy_net_parse(text, &out, &diag) != LS_OK)
        fail_msg("%s: %s", text, diag.text);
    return out;
}

static void entries_mean_what_they_say_and_nothing_else(void **state)
{
    static const struct {
        const char *entry;
        const char *host;
        uint16_t port;
        bool has;
    } cases[] = {
        { "10.0.0.0/24", "10.0.0.5", 80, true },
        { "10.0.0.0/24", "10.0.1.5", 80, false },
        { "10.0.0.0/24", "::ffff:10.0.0.5", 80, true }, /* the same host */
        { "10.0.0.0/24", "::10.0.0.5", 80, false },     /* another one */
        { "10.0.0.7", "10.0.0.7", 1, true },
        { "10.0.0.7", "10.0.0.8", 1, false },
        { "10.0.0.7:8080", "10.0.0.7", 8080, true },
        { "10.0.0.7:8080", "10.0.0.7", 8081, false },
        { "10.0.0.7:80,8000-8099", "10.0.0.7", 80, true },
        { "10.0.0.7:80,8000-8099", "10.0.0.7", 8099, true },
        { "10.0.0.7:80,8000-8099", "10.0.0.7", 8100, false },
        { "::ffff:10.0.0.0/120", "10.0.0.9", 80, true }, /* written the long way */
        { "fd00::/8", "fd12::1", 443, true },
        { "[fd00::/8]:443", "fd12::1", 443, true },
        { "[fd00::/8]:443", "fd12::1", 444, false },
        { "fd00::/8", "fe00::1", 443, false },
        { "0.0.0.0/0", "8.8.8.8", 53, true },
        { "0.0.0.0/0", "fd00::1", 53, false },
        { "::/0", "fd00::1", 53, true },
        { "::/0", "8.8.8.8", 53, false }, /* ::ffff:8.8.8.8 is within ::/0, and not meant */
        { "::/0", "::ffff:8.8.8.8", 53, false },
        { "::/0", "::1", 53, true },
        { "loopback", "127.0.0.1", 80, true },
        { "loopback", "127.9.9.9", 80, true },
        { "loopback", "::1", 80, true },
        { "loopback", "::ffff:127.0.0.1", 80, true },
        { "loopback", "128.0.0.1", 80, false },
        { "loopback:80", "127.0.0.1", 81, false },
        { "servers", "192.0.2.9", 80, true },
        { "servers", "192.0.2.8", 80, false },
        { "servers:443", "192.0.2.9", 80, false },
        /* what a wide range does not mean */
        { "0.0.0.0/0", "169.254.169.254", 80, false },
        { "0.0.0.0/0", "::ffff:169.254.169.254", 80, false },
        { "169.254.0.0/16", "169.254.169.254", 80, true },
        { "169.0.0.0/8", "169.254.169.254", 80, false },
        { "::/0", "fe80::1", 80, false },
        { "fe80::/10", "fe80::1", 80, true },
        { "::/0", "64:ff9b::a9fe:a9fe", 80, false },
        { "::/0", "2002:a9fe:a9fe::1", 80, false },
        { "2000::/3", "2002:a9fe:a9fe::1", 80, false },
        { "2000::/3", "2001:db8::1", 80, true },
        { "64:ff9b::/96", "64:ff9b::a00:1", 80, true },
        /* what nothing allows */
        { "0.0.0.0/0", "0.0.0.0", 80, false },
        { "0.0.0.0", "0.0.0.0", 80, false },
        { "0.0.0.0/8", "0.1.2.3", 80, false },
        { "::", "::", 80, false },
        { "::/0", "::", 80, false },
        { "0.0.0.0/0", "::ffff:0.0.0.0", 80, false },
        { "0.0.0.0/0", "224.0.0.1", 80, false },
        { "224.0.0.0/4", "239.255.255.250", 80, false },
        { "0.0.0.0/0", "255.255.255.255", 80, false },
        { "ff00::/8", "ff02::1", 80, false },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        const struct policy_address server = at("192.0.2.9", 0);
        struct policy_net entry = net(cases[i].entry);
        struct policy_address address = at(cases[i].host, cases[i].port);

        if (policy_net_has(&entry, &address, &server, 1) != cases[i].has)
            fail_msg("%s %s %s port %u", cases[i].entry, cases[i].has ? "lacks" : "has",
                     cases[i].host, cases[i].port);
    }
}

static void what_is_no_entry_is_refused_with_the_way_to_write_it(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        { "", "none of loopback" },
        { "example.test", "names are not looked up" },
        { "localhost", "names are not looked up" },
        { "10.0.0.5/24", "beyond /24" },
        { "fd00::1/8", "beyond /8" },
        { "10.0.0.0/33", "/0 to /32" },
        { "fd00::/129", "/0 to /128" },
        { "10.0.0.0/", "/0 to /32" },
        { "10.0.0.0/-1", "/0 to /32" },
        { "10.0.0.0/8x", "/0 to /32" },
        { "10.0.0.0/000008", "/0 to /32" },
        { "10.0.0", "names are not looked up" },
        { "2130706433", "names are not looked up" },
        { "0x7f.1", "names are not looked up" },
        { "010.0.0.1", "names are not looked up" },
        { "127.1", "names are not looked up" },
        { "10.0.0.7:", "no list of ports" },
        { "10.0.0.7:0", "no list of ports" },
        { "10.0.0.7:65536", "no list of ports" },
        { "10.0.0.7:99999999999999999999", "no list of ports" },
        { "10.0.0.7:80-", "no list of ports" },
        { "10.0.0.7:80-79", "no list of ports" },
        { "10.0.0.7:80,", "no list of ports" },
        { "10.0.0.7:80;81", "no list of ports" },
        { "10.0.0.7: 80", "no list of ports" },
        { "10.0.0.7:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16" },
        { "[fd00::/8", "write [fd00::/8]:443" },
        { "[fd00::/8]443", "write [fd00::/8]:443" },
        { "fe80::1%lo", "names are not looked up" },
        { "*", "names are not looked up" },
        { "1111111111111111111111111111111111111111111111111111111111111", "too long" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct policy_net out = { .prefix = 77 };
        struct ls_diag diag = { 0 };

        assert_int_equal(policy_net_parse(cases[i].text, &out, &diag), LS_EINVAL);
        assert_int_equal(out.prefix, 77);
        if (strstr(diag.text, cases[i].says) == NULL)
            fail_msg("'%s': \"%s\" instead of \"%s\"", cases[i].text, diag.text, cases[i].says);
    }
}

static void an_agents_address_is_read_with_its_port_or_without(void **state)
{
    static const char *const good[] = { "10.0.0.5", "10.0.0.5:7400", "::ffff:10.0.0.5",
                                        "[::ffff:10.0.0.5]:7400" };
    static const char *const bad[] = { "", "local", "server-1", ":80", "[]:80", "10.0.0", "[::1" };
    struct policy_address want = at("10.0.0.5", 0), got;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(good); i++) {
        assert_true(policy_address_parse(good[i], &got));
        assert_true(policy_address_same(&got, &want));
        assert_int_equal(got.port, 0);
    }
    for (size_t i = 0; i + 1 < LS_ARRAY_LEN(bad); i++)
        assert_false(policy_address_parse(bad[i], &got));
}

/* Bit by bit, as RFC 4632 defines a prefix. */
static void a_range_has_exactly_the_addresses_that_share_its_prefix(void **state)
{
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 4, 0);
    for (unsigned i = 0; i < 20000; i++) {
        unsigned prefix = 1 + (unsigned)(ls_rng_next(&rng) % 32);
        uint32_t mask = UINT32_MAX << (32 - prefix);
        uint32_t base = (UINT32_C(0x0a000000) | ((uint32_t)ls_rng_next(&rng) & 0x00ffffff)) & mask;
        uint32_t flips = (uint32_t)(ls_rng_next(&rng) & ls_rng_next(&rng) & ls_rng_next(&rng));
        uint32_t host = base ^ (flips & 0x00ffffff);
        struct in_addr a = { htonl(base) }, b = { htonl(host) };
        char base_text[INET_ADDRSTRLEN], host_text[INET_ADDRSTRLEN], entry[32];
        struct policy_net range;
        struct policy_address address;

        if (base >> 24 != 10) /* a short prefix: 0.0.0.0/8 and others have rules of their own */
            continue;
        assert_non_null(inet_ntop(AF_INET, &a, base_text, sizeof(base_text)));
        assert_non_null(inet_ntop(AF_INET, &b, host_text, sizeof(host_text)));
        (void)snprintf(entry, sizeof(entry), "%s/%u", base_text, prefix);
        range = net(entry);
        address = at(host_text, 80);
        if (policy_net_has(&range, &address, NULL, 0) != ((host & mask) == base))
            fail_msg("%s and %s", entry, host_text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_mean_what_they_say_and_nothing_else),
        cmocka_unit_test(what_is_no_entry_is_refused_with_the_way_to_write_it),
        cmocka_unit_test(an_agents_address_is_read_with_its_port_or_without),
        cmocka_unit_test(a_range_has_exactly_the_addresses_that_share_its_prefix),
    };

    return cmocka_run_group_tests_name("agent.policy_net", tests, NULL, NULL);
}
