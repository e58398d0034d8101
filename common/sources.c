#include "common/sources.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/attr.h"

#define PREFIX_LEAST 20u /* a shorter one has more than LS_SOURCES_MAX */

socklen_t ls_source_len(const struct sockaddr_storage *source)
{
    return source->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

const char *ls_source_format(const struct sockaddr_storage *source, char *out, size_t out_bytes)
{
    const void *address =
        source->ss_family == AF_INET6
            ? (const void *)&((const struct sockaddr_in6 *)(const void *)source)->sin6_addr
            : (const void *)&((const struct sockaddr_in *)(const void *)source)->sin_addr;

    if (inet_ntop(source->ss_family, address, out, (socklen_t)out_bytes) == NULL)
        (void)snprintf(out, out_bytes, "?");
    return out;
}

void ls_sources_fini(struct ls_sources *sources)
{
    free(sources->items);
    *sources = (struct ls_sources){ 0 };
}

static enum ls_err append(struct ls_sources *sources, const struct sockaddr_storage *one,
                          struct ls_diag *diag)
{
    struct sockaddr_storage *items;
    char text[64];

    for (uint32_t i = 0; i < sources->count; i++) {
        if (memcmp(&sources->items[i], one, sizeof(*one)) == 0)
            return ls_fail(diag, LS_EINVAL, "%s is there twice",
                           ls_source_format(one, text, sizeof(text)));
    }
    if (sources->count == LS_SOURCES_MAX)
        return ls_fail(diag, LS_ERANGE, "more than %u addresses", LS_SOURCES_MAX);
    if ((sources->count & (sources->count - 1)) == 0) { /* full: 0, 1, 2, 4 ... */
        items = realloc(sources->items, (sources->count * 2 + 1) * sizeof(*items));
        if (items == NULL)
            return ls_fail(diag, LS_ENOMEM, "out of memory for the source addresses");
        sources->items = items;
    }
    sources->items[sources->count++] = *one;
    return LS_OK;
}

static struct sockaddr_storage v4(uint32_t address)
{
    struct sockaddr_storage out;
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&out;

    (void)memset(&out, 0, sizeof(out)); /* compared as bytes */
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(address);
    return out;
}

static enum ls_err add_range(struct ls_sources *sources, const char *text, const char *slash,
                             struct ls_diag *diag)
{
    char base[INET_ADDRSTRLEN] = "";
    char *end = NULL;
    struct in_addr address;
    unsigned long prefix = strtoul(slash + 1, &end, 10);
    uint32_t first, count, edge;
    enum ls_err rc = LS_OK;

    if ((size_t)(slash - text) < sizeof(base))
        (void)memcpy(base, text, (size_t)(slash - text));
    if (slash[1] < '0' || slash[1] > '9' || *end != '\0' || prefix > 32 ||
        inet_pton(AF_INET, base, &address) != 1)
        return ls_fail(diag, LS_EINVAL, "'%.60s' is no range such as 127.0.0.0/26", text);
    if (prefix < PREFIX_LEAST)
        return ls_fail(diag, LS_ERANGE, "%.60s has more than %u addresses", text, LS_SOURCES_MAX);
    count = 1u << (32 - prefix);
    first = ntohl(address.s_addr);
    if ((first & (count - 1)) != 0)
        return ls_fail(diag, LS_EINVAL, "%.60s: bits of the address are beyond /%lu", text, prefix);
    edge = count > 2 ? 1 : 0;
    for (uint32_t i = edge; i < count - edge && rc == LS_OK; i++) {
        struct sockaddr_storage one = v4(first + i);

        rc = append(sources, &one, diag);
    }
    return rc;
}

enum ls_err ls_sources_add(struct ls_sources *sources, const char *text, int family,
                           struct ls_diag *diag)
{
    const char *slash = strchr(text, '/');
    struct sockaddr_storage one;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&one;
    struct in_addr four;

    (void)memset(&one, 0, sizeof(one));
    if (slash != NULL || inet_pton(AF_INET, text, &four) == 1) {
        if (family != AF_INET)
            return ls_fail(diag, LS_EINVAL, "'%.60s' is IPv4, the target's address is not", text);
        if (slash != NULL)
            return add_range(sources, text, slash, diag);
        one = v4(ntohl(four.s_addr));
        return append(sources, &one, diag);
    }
    if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1)
        return ls_fail(diag, LS_EINVAL,
                       "'%.60s' is neither a literal address nor a range such as 127.0.0.0/26",
                       text);
    six->sin6_family = AF_INET6;
    if (family != AF_INET6)
        return ls_fail(diag, LS_EINVAL, "'%.60s' is IPv6, the target's address is not", text);
    return append(sources, &one, diag);
}
