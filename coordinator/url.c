#include "coordinator/url.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *scheme;
    bool tls;
    bool websocket;
} schemes[] = {
    { "http://", false, false },
    { "https://", true, false },
    { "ws://", false, true },
    { "wss://", true, true },
};

static enum ls_err take_port(const char *text, size_t len, struct coord_url *url,
                             struct ls_diag *diag)
{
    uint32_t port = 0;

    if (len == 0 || len > 5)
        return ls_fail(diag, LS_EINVAL, "the URL's port is not a number from 1 to 65535");
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return ls_fail(diag, LS_EINVAL, "the URL's port is not a number from 1 to 65535");
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    if (port == 0 || port > 65535)
        return ls_fail(diag, LS_EINVAL, "the URL's port %u is not from 1 to 65535", port);
    url->port = port;
    return LS_OK;
}

/* host, host:port, [v6], [v6]:port */
static enum ls_err take_authority(const char *text, size_t len, struct coord_url *url,
                                  struct ls_diag *diag)
{
    const char *host = text;
    const char *end = text + len;
    const char *host_end;
    const char *colon;

    if (memchr(text, '@', len) != NULL)
        return ls_fail(diag, LS_EINVAL, "a user name in the URL is not supported; use -H");
    if (len > 0 && text[0] == '[') {
        host++;
        host_end = memchr(host, ']', (size_t)(end - host));
        if (host_end == NULL)
            return ls_fail(diag, LS_EINVAL, "the URL's '[' has no ']'");
        colon = host_end + 1 < end ? host_end + 1 : NULL;
        if (colon != NULL && *colon != ':')
            return ls_fail(diag, LS_EINVAL, "only a port may follow ']' in the URL");
    } else {
        colon = memchr(text, ':', len);
        host_end = colon != NULL ? colon : end;
    }
    if (host_end == host || (size_t)(host_end - host) >= sizeof(url->host) ||
        len >= sizeof(url->authority))
        return ls_fail(diag, LS_EINVAL, "the URL has no host, or one that is too long");
    (void)snprintf(url->host, sizeof(url->host), "%.*s", (int)(host_end - host), host);
    (void)snprintf(url->authority, sizeof(url->authority), "%.*s", (int)len, text);
    return colon != NULL ? take_port(colon + 1, (size_t)(end - colon - 1), url, diag) : LS_OK;
}

static enum ls_err resolve(struct coord_url *url, struct ls_diag *diag)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int error = getaddrinfo(url->host, NULL, &hints, &found);
    enum ls_err rc = LS_OK;

    if (error != 0)
        return ls_fail(diag, LS_EIO, "the name %.200s does not resolve: %s", url->host,
                       gai_strerror(error));
    if (getnameinfo(found->ai_addr, found->ai_addrlen, url->address, sizeof(url->address), NULL, 0,
                    NI_NUMERICHOST) != 0)
        rc = ls_fail(diag, LS_EIO, "the address of %.200s cannot be written", url->host);
    freeaddrinfo(found);
    return rc;
}

/* Without one it is http. Returns what follows. */
static const char *take_scheme(const char *text, struct coord_url *url)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(schemes); i++) {
        size_t len = strlen(schemes[i].scheme);

        if (strncmp(text, schemes[i].scheme, len) != 0)
            continue;
        url->tls = schemes[i].tls;
        url->websocket = schemes[i].websocket;
        return text + len;
    }
    return text;
}

enum ls_err coord_url_parse(const char *text, struct coord_url *out, struct ls_diag *diag)
{
    struct coord_url url = { .tls = false };
    const char *rest;
    size_t len;
    size_t path_len;
    enum ls_err rc;

    rest = take_scheme(text, &url);
    url.port = url.tls ? 443 : 80;
    if (rest == text && strstr(text, "://") != NULL)
        return ls_fail(diag, LS_EINVAL, "'%.60s' is not an http://, https://, ws:// or wss:// URL",
                       text);
    text = rest;
    len = strcspn(text, "/?#");
    rc = take_authority(text, len, &url, diag);
    if (rc != LS_OK)
        return rc;
    rest = text + len;
    path_len = strcspn(rest, "#");
    if (path_len + 2 > sizeof(url.path))
        return ls_fail(diag, LS_ERANGE, "the URL's path is longer than %zu bytes",
                       sizeof(url.path) - 2);
    (void)snprintf(url.path, sizeof(url.path), "%s%.*s", *rest == '/' ? "" : "/", (int)path_len,
                   rest);
    rc = resolve(&url, diag);
    if (rc == LS_OK)
        *out = url;
    return rc;
}
