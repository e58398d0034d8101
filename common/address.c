/* common/address.c - which addresses the transport takes, and the socket file of ipc. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/transport_impl.h"

static const char ipc_scheme[] = "ipc://";
static const char tcp_scheme[] = "tcp://";
static const char tls_scheme[] = "tls+tcp://";

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* "host:80", "127.0.0.1:80" or "[::1]:80": splits off the host. */
static bool take_host(const char *text, char *out, size_t out_bytes)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    const char *end = strrchr(text, ':');
    size_t len;

    if (end == NULL || strspn(end + 1, "0123456789") != strlen(end + 1) || end[1] == '\0' ||
        strlen(end + 1) > 5 || strtoul(end + 1, NULL, 10) > UINT16_MAX)
        return false;
    len = (size_t)(end - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
        if (strspn(text, "0123456789abcdefABCDEF:.") < len)
            return false;
    } else if (strspn(text, letters) < len && !(len == 1 && text[0] == '*')) {
        return false;
    }
    if (len == 0 || len >= out_bytes)
        return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

static enum ls_err check_tcp(struct ls_address *address, struct ls_diag *diag)
{
    const char *scheme = address->tls ? tls_scheme : tcp_scheme;
    const char *rest = address->url + strlen(scheme);

    if (!take_host(rest, address->host, sizeof(address->host)))
        return ls_fail(diag, LS_EINVAL, "%s: want %s%s:PORT", address->url, scheme,
                       address->tls ? "HOST" : "ADDRESS");
    address->loopback = is_loopback(address->host) || strcasecmp(address->host, "localhost") == 0;
    if (!address->tls && !is_loopback(address->host))
        return ls_fail(diag, LS_EREFUSED,
                       "%s: plain tcp is accepted on loopback only: use tls+tcp://%s and --keys "
                       "DIR (keys are made with 'lockstep pki')",
                       address->url, rest);
    return LS_OK;
}

enum ls_err ls_address_check(const char *url, struct ls_address *out, struct ls_diag *diag)
{
    struct ls_address address = { .url = url };
    struct sockaddr_un sun;
    enum ls_err rc = LS_OK;

    if (starts_with(url, ipc_scheme)) {
        address.path = url + strlen(ipc_scheme);
        if (address.path[0] != '/' || strlen(address.path) >= sizeof(sun.sun_path))
            return ls_fail(diag, LS_EINVAL,
                           "%s: ipc wants an absolute path of at most %zu bytes, ipc:///path", url,
                           sizeof(sun.sun_path) - 1);
    } else if (starts_with(url, tcp_scheme) || starts_with(url, tls_scheme)) {
        address.tls = starts_with(url, tls_scheme);
        rc = check_tcp(&address, diag);
    } else {
        return ls_fail(diag, LS_EINVAL,
                       "%s: want ipc:///path, tls+tcp://HOST:PORT or, on loopback, "
                       "tcp://ADDRESS:PORT",
                       url);
    }
    if (rc != LS_OK)
        return rc;
    *out = address;
    return LS_OK;
}

/* Whoever can reach the socket can command agents: the folder must be this user's alone. */
static enum ls_err check_folder(const char *path, struct ls_diag *diag)
{
    char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
    const char *slash = strrchr(path, '/');
    struct stat st;

    (void)snprintf(folder, sizeof(folder), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (lstat(folder, &st) != 0)
        return ls_fail(diag, LS_EIO, "%s: %s", folder, strerror(errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        return ls_fail(diag, LS_EINVAL,
                       "%s: must be a folder of this user with mode 0700 to hold a control socket",
                       folder);
    return LS_OK;
}

static bool is_alive(const char *path)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool alive;

    if (fd < 0)
        return true; /* cannot tell: leave the file alone */
    (void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
    alive = connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) == 0 || errno == EAGAIN;
    (void)close(fd);
    return alive;
}

enum ls_err ls_address_prepare(const struct ls_address *address, struct ls_diag *diag)
{
    struct stat st;
    enum ls_err rc;

    if (address->path == NULL)
        return LS_OK;
    rc = check_folder(address->path, diag);
    if (rc != LS_OK)
        return rc;
    if (lstat(address->path, &st) != 0)
        return errno == ENOENT ? LS_OK
                               : ls_fail(diag, LS_EIO, "%s: %s", address->path, strerror(errno));
    if (!S_ISSOCK(st.st_mode))
        return ls_fail(diag, LS_EINVAL, "%s: is there and is not a socket", address->path);
    if (is_alive(address->path))
        return ls_fail(diag, LS_ESTATE, "%s: another coordinator listens there", address->path);
    if (unlink(address->path) != 0 && errno != ENOENT)
        return ls_fail(diag, LS_EIO, "%s: %s", address->path, strerror(errno));
    return LS_OK;
}
