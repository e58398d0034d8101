#include "agent/policy/net.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/attr.h"

#define V4_BITS 96u

static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

struct block {
    uint8_t bytes[16];
    unsigned prefix;
    const char *why; /* of special ones: what they are, for the reader */
};

#define V4(a, b, c, d)                                               \
    {                                                                \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, (a), (b), (c), (d) \
    }

/* Linux takes 0.0.0.0 and :: for the host itself; no connection leads to the others. */
static const struct block never[] = {
    { V4(0, 0, 0, 0), V4_BITS + 8, "is no address of a host" },
    { { 0 }, 128, "is no address of a host" },
    { V4(224, 0, 0, 0), V4_BITS + 4, "is multicast" },
    { V4(240, 0, 0, 0), V4_BITS + 4, "is broadcast or reserved" },
    { { 0xff }, 8, "is multicast" },
};

/* What a wide range such as 0.0.0.0/0 does not mean: neighbours that answer for the machine itself,
 * such as 169.254.169.254, and addresses that stand for others on the way. */
static const struct block special[] = {
    { V4(169, 254, 0, 0), V4_BITS + 16, "link-local" },
    { { 0xfe, 0x80 }, 10, "link-local" },
    { { 0x00, 0x64, 0xff, 0x9b }, 96, "translated (NAT64)" },
    { { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 }, 48, "translated (NAT64)" },
    { { 0x20, 0x02 }, 16, "translated (6to4)" },
    { { 0x20, 0x01 }, 32, "translated (Teredo)" },
    { { 0 }, 96, "IPv4-compatible" },
    { V4(0, 0, 0, 0), V4_BITS, "IPv4" }, /* which ::/0 does not mean either */
};

static bool within(const uint8_t bytes[16], const uint8_t block[16], unsigned prefix)
{
    unsigned whole = prefix / 8, rest = prefix % 8;
    uint8_t mask = (uint8_t)(0xff << (8 - rest));

    return memcmp(bytes, block, whole) == 0 &&
           (rest == 0 || (bytes[whole] & mask) == (block[whole] & mask));
}

static const struct block *find(const struct block *blocks, size_t count, const uint8_t bytes[16])
{
    for (size_t i = 0; i < count; i++) {
        if (within(bytes, blocks[i].bytes, blocks[i].prefix))
            return &blocks[i];
    }
    return NULL;
}

/* ---- addresses */

static void from_v4(const struct in_addr *in, uint8_t out[16])
{
    (void)memcpy(out, mapped, sizeof(mapped));
    (void)memcpy(out + sizeof(mapped), in, 4);
}

static bool is_v4(const uint8_t bytes[16])
{
    return memcmp(bytes, mapped, sizeof(mapped)) == 0;
}

/* Also of IPv6 written for IPv4: the bits are the same. */
static bool parse_plain(const char *text, uint8_t out[16], bool *out_v4)
{
    struct in6_addr six;
    struct in_addr four;

    if (inet_pton(AF_INET, text, &four) == 1) {
        from_v4(&four, out);
        *out_v4 = true;
        return true;
    }
    if (inet_pton(AF_INET6, text, &six) != 1)
        return false;
    (void)memcpy(out, &six, sizeof(six));
    *out_v4 = false;
    return true;
}

enum ls_err policy_address_of(const struct sockaddr_storage *in, struct policy_address *out,
                              struct ls_diag *diag)
{
    if (in->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)in;

        from_v4(&v4->sin_addr, out->bytes);
        out->port = ntohs(v4->sin_port);
        return LS_OK;
    }
    if (in->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)in;

        (void)memcpy(out->bytes, &v6->sin6_addr, sizeof(out->bytes));
        out->port = ntohs(v6->sin6_port);
        return LS_OK;
    }
    return ls_fail(diag, LS_EINVAL, "an address of family %d", (int)in->ss_family);
}

bool policy_address_parse(const char *text, struct policy_address *out)
{
    char copy[INET6_ADDRSTRLEN + 1];
    size_t len = strlen(text);
    bool v4;

    if (text[0] == '[') {
        text++;
        len = strcspn(text, "]");
    } else if (strchr(text, ':') != NULL && strchr(text, ':') == strrchr(text, ':')) {
        len = strcspn(text, ":");
    }
    if (len == 0 || len >= sizeof(copy))
        return false;
    (void)memcpy(copy, text, len);
    copy[len] = '\0';
    out->port = 0;
    return parse_plain(copy, out->bytes, &v4);
}

const char *policy_address_format(const struct policy_address *address, char *out, size_t out_bytes)
{
    char text[INET6_ADDRSTRLEN];
    bool v4 = is_v4(address->bytes);
    const uint8_t *bytes = v4 ? address->bytes + sizeof(mapped) : address->bytes;

    if (inet_ntop(v4 ? AF_INET : AF_INET6, bytes, text, sizeof(text)) == NULL)
        (void)snprintf(text, sizeof(text), "?");
    if (address->port != 0)
        (void)snprintf(out, out_bytes, "%s port %u", text, address->port);
    else
        (void)snprintf(out, out_bytes, "%s", text);
    return out;
}

const char *policy_address_never(const struct policy_address *address)
{
    const struct block *block = find(never, LS_ARRAY_LEN(never), address->bytes);

    return block != NULL ? block->why : NULL;
}

bool policy_address_is_loopback(const struct policy_address *address)
{
    static const uint8_t one[16] = { [15] = 1 };
    static const uint8_t net[16] = V4(127, 0, 0, 0);

    return within(address->bytes, one, 128) || within(address->bytes, net, V4_BITS + 8);
}

bool policy_address_same(const struct policy_address *a, const struct policy_address *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* ---- entries */

static bool take_number(const char **at, unsigned long max, unsigned long *out)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    *out = strtoul(*at, &end, 10);
    if (*out > max || end - *at > 5)
        return false;
    *at = end;
    return true;
}

/* "80,8000-8099"; the colon is behind us. */
static enum ls_err parse_ports(const char *text, struct policy_net *out, struct ls_diag *diag)
{
    const char *at = text;

    do {
        unsigned long first, last;

        if (out->port_count == POLICY_PORT_RANGES_MAX)
            return ls_fail(diag, LS_EINVAL, "has more than %u ranges of ports",
                           POLICY_PORT_RANGES_MAX);
        if (!take_number(&at, UINT16_MAX, &first) || first == 0)
            break;
        last = first;
        if (*at == '-') {
            at++;
            if (!take_number(&at, UINT16_MAX, &last) || last < first)
                break;
        }
        out->ports[out->port_count].first = (uint16_t)first;
        out->ports[out->port_count++].last = (uint16_t)last;
        if (*at == '\0')
            return LS_OK;
    } while (*at++ == ',');
    return ls_fail(diag, LS_EINVAL, "'%.40s' is no list of ports such as 80,8000-8099", text);
}

static bool has_host_bits(const struct policy_net *net)
{
    for (unsigned bit = net->prefix; bit < 128; bit++) {
        if ((net->bytes[bit / 8] >> (7 - bit % 8) & 1) != 0)
            return true;
    }
    return false;
}

/* "10.0.0.0/24", "fd00::1"; text is the whole entry, for messages. */
static enum ls_err parse_range(char *range, const char *text, struct policy_net *out,
                               struct ls_diag *diag)
{
    char *slash = strchr(range, '/');
    unsigned long prefix = 128;
    bool v4 = false;

    if (slash != NULL)
        *slash = '\0';
    if (!parse_plain(range, out->bytes, &v4))
        return ls_fail(diag, LS_EINVAL,
                       "'%.60s' is none of loopback, servers, a literal address or a range such as "
                       "10.0.0.0/24: names are not looked up",
                       text);
    if (slash != NULL) {
        const char *at = slash + 1;

        if (!take_number(&at, v4 ? 32 : 128, &prefix) || *at != '\0')
            return ls_fail(diag, LS_EINVAL, "'%.60s': /0 to /%u is expected", text, v4 ? 32 : 128);
        prefix += v4 ? V4_BITS : 0;
    }
    out->prefix = (unsigned)prefix;
    if (has_host_bits(out))
        return ls_fail(diag, LS_EINVAL, "'%.60s': bits of the address are beyond /%lu", text,
                       v4 ? prefix - V4_BITS : prefix);
    return LS_OK;
}

enum ls_err policy_net_parse(const char *text, struct policy_net *out, struct ls_diag *diag)
{
    struct policy_net net = { .kind = POLICY_NET_RANGE };
    const char *ports = NULL;
    const char *from = text;
    char range[INET6_ADDRSTRLEN + 8];
    size_t len = strlen(text);
    enum ls_err rc = LS_OK;

    if (text[0] == '[') {
        from = text + 1;
        len = strcspn(from, "]");
        if (from[len] == '\0' || (from[len + 1] != '\0' && from[len + 1] != ':'))
            return ls_fail(diag, LS_EINVAL, "'%.60s': write [fd00::/8]:443", text);
        ports = from[len + 1] == ':' ? from + len + 2 : NULL;
    } else if (strchr(text, ':') != NULL && strchr(text, ':') == strrchr(text, ':')) {
        len = strcspn(text, ":");
        ports = text + len + 1;
    }
    if (len >= sizeof(range))
        return ls_fail(diag, LS_EINVAL, "'%.60s' is too long for an address", text);
    (void)memcpy(range, from, len);
    range[len] = '\0';
    if (strcmp(range, "loopback") == 0)
        net.kind = POLICY_NET_LOOPBACK;
    else if (strcmp(range, "servers") == 0)
        net.kind = POLICY_NET_SERVERS;
    else
        rc = parse_range(range, text, &net, diag);
    if (rc == LS_OK && ports != NULL)
        rc = parse_ports(ports, &net, diag);
    if (rc == LS_OK)
        *out = net;
    return rc;
}

static bool has_port(const struct policy_net *net, uint16_t port)
{
    for (unsigned i = 0; i < net->port_count; i++) {
        if (port >= net->ports[i].first && port <= net->ports[i].last)
            return true;
    }
    return net->port_count == 0;
}

static bool range_has(const struct policy_net *net, const struct policy_address *address)
{
    static const uint8_t one[16] = { [15] = 1 };
    const struct block *block = find(special, LS_ARRAY_LEN(special), address->bytes);

    if (!within(address->bytes, net->bytes, net->prefix))
        return false;
    return block == NULL || net->prefix >= block->prefix || within(address->bytes, one, 128);
}

bool policy_net_has(const struct policy_net *net, const struct policy_address *address,
                    const struct policy_address *servers, size_t count)
{
    if (policy_address_never(address) != NULL || !has_port(net, address->port))
        return false;
    if (net->kind == POLICY_NET_LOOPBACK)
        return policy_address_is_loopback(address);
    if (net->kind == POLICY_NET_RANGE)
        return range_has(net, address);
    for (size_t i = 0; i < count; i++) {
        if (policy_address_same(&servers[i], address))
            return true;
    }
    return false;
}
