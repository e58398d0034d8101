#include "coordinator/web/guard.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/digest.h"

static bool is_address(int family, const char *text, size_t len)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr address; /* holds either */

    if (len >= sizeof(copy))
        return false;
    (void)memcpy(copy, text, len);
    copy[len] = '\0';
    return inet_pton(family, copy, &address) == 1;
}

/* "localhost", "127.0.0.1", "[::1]" at the start; its length, 0: none of them. */
static size_t name_len(const char *host)
{
    const char *end = *host == '[' ? strchr(host, ']') : host + strcspn(host, ":");
    size_t len;

    if (end == NULL)
        return 0;
    if (*host == '[')
        return is_address(AF_INET6, host + 1, (size_t)(end - host) - 1) ? (size_t)(end - host) + 1
                                                                        : 0;
    len = (size_t)(end - host);
    if (len == strlen("localhost") && strncasecmp(host, "localhost", len) == 0)
        return len;
    return is_address(AF_INET, host, len) ? len : 0;
}

bool coord_guard_host(const char *host, uint16_t port)
{
    char expected[8];
    size_t len = host != NULL ? name_len(host) : 0;

    if (len == 0)
        return false;
    (void)snprintf(expected, sizeof(expected), ":%u", port);
    return strcmp(host + len, expected) == 0 || (port == 80 && host[len] == '\0');
}

bool coord_guard_origin(const char *origin, const char *host)
{
    static const char scheme[] = "http://";

    if (origin == NULL)
        return true;
    return strncmp(origin, scheme, strlen(scheme)) == 0 &&
           strcasecmp(origin + strlen(scheme), host) == 0;
}

const char *coord_guard_token(const char *path, const char *token)
{
    size_t len = strlen(token);

    if (path[0] != '/' || strlen(path + 1) <= len || path[1 + len] != '/' ||
        !ls_bytes_equal_secret((const unsigned char *)path + 1, (const unsigned char *)token, len))
        return NULL;
    return path + 1 + len;
}
