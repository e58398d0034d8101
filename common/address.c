/* common/address.c - which addresses the transport takes, and the socket file of ipc. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/transport_impl.h"

static const char ipc_scheme[] = "ipc://";
static const char tcp_scheme[] = "tcp://";

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

/* "127.0.0.1:80" or "[::1]:80": splits off the host. */
static bool take_host(const char *text, char *out, size_t out_bytes)
{
    const char *end = strrchr(text, ':');
    size_t len;

    if (end == NULL || strspn(end + 1, "0123456789") != strlen(end + 1) || end[1] == '\0')
        return false;
    len = (size_t)(end - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (len == 0 || len >= out_bytes)
        return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

enum ls_err ls_address_check(const char *url, struct ls_address *out, struct ls_diag *diag)
{
    struct ls_address address = { .url = url };
    struct sockaddr_un sun;
    char host[64];

    if (starts_with(url, ipc_scheme)) {
        address.path = url + strlen(ipc_scheme);
        if (address.path[0] != '/' || strlen(address.path) >= sizeof(sun.sun_path))
            return ls_fail(diag, LS_EINVAL,
                           "%s: ipc wants an absolute path of at most %zu bytes, ipc:///path", url,
                           sizeof(sun.sun_path) - 1);
    } else if (starts_with(url, tcp_scheme)) {
        if (!take_host(url + strlen(tcp_scheme), host, sizeof(host)))
            return ls_fail(diag, LS_EINVAL, "%s: tcp wants tcp://ADDRESS:PORT", url);
        if (!is_loopback(host))
            return ls_fail(diag, LS_EINVAL, "%s: plain tcp is accepted on loopback only", url);
    } else {
        return ls_fail(diag, LS_EINVAL, "%s: want ipc:///path", url);
    }
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
