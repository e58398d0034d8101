/* agent/policy/net.h - which addresses and ports a policy means: "10.0.0.0/24:8000-8099",
 * "[fd00::/8]:443", "loopback", "servers".
 *
 * Addresses are compared as the 128 bits of IPv6; IPv4 is ::ffff:a.b.c.d (RFC 4291, 2.5.5.2), so
 * that it cannot be smuggled in by being written the other way. Names are never looked up.
 */
#ifndef LS_AGENT_POLICY_NET_H
#define LS_AGENT_POLICY_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/err.h"

#define POLICY_PORT_RANGES_MAX 16u

struct policy_address {
    uint8_t bytes[16];
    uint16_t port;
};

enum policy_net_kind { POLICY_NET_RANGE, POLICY_NET_LOOPBACK, POLICY_NET_SERVERS };

struct policy_net {
    enum policy_net_kind kind;
    uint8_t bytes[16]; /* beyond the prefix all bits are 0 */
    unsigned prefix;   /* of the 128 bits; IPv4's are 96 more than written */
    struct {
        uint16_t first, last;
    } ports[POLICY_PORT_RANGES_MAX];
    unsigned port_count; /* 0: every port */
};

/* LS_EINVAL: what is wrong with it, and how it is written. */
enum ls_err policy_net_parse(const char *text, struct policy_net *out,
                             struct ls_diag *diag) LS_NODISCARD;

/* LS_EINVAL: neither IPv4 nor IPv6. */
enum ls_err policy_address_of(const struct sockaddr_storage *in, struct policy_address *out,
                              struct ls_diag *diag) LS_NODISCARD;
/* A literal address, with or without a port behind it: "10.0.0.5", "10.0.0.5:7400", "[::1]:7400";
 * the port is dropped. False: it is none. */
bool policy_address_parse(const char *text, struct policy_address *out);
/* "10.0.0.5 port 80", "::1"; out holds at least 64 bytes. Returns out. */
const char *policy_address_format(const struct policy_address *address, char *out,
                                  size_t out_bytes);

/* Why no entry can allow it: "is no address of a host"; NULL: one could. */
const char *policy_address_never(const struct policy_address *address);
bool policy_address_is_loopback(const struct policy_address *address);
/* Same host, whatever the port. */
bool policy_address_same(const struct policy_address *a, const struct policy_address *b);

/* Does the entry allow it? servers: addresses (count of them) of the run's server agents. An
 * address of a special kind (link-local, translated) needs an entry within that kind. */
bool policy_net_has(const struct policy_net *net, const struct policy_address *address,
                    const struct policy_address *servers, size_t count);

#endif
