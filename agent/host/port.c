#include "agent/host/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/host/proc.h"

#define CONNECT_WAIT_MS 1000

struct place {
    struct sockaddr_storage address;
    socklen_t len;
};

static bool parse_place(const char *host, uint16_t port, struct place *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&out->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out->address;

    (void)memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        out->len = sizeof(*v4);
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        out->len = sizeof(*v6);
        return true;
    }
    return false;
}

/* ---- who has it */

/* The address is printed as 32-bit words in host order. */
bool host_tcp_parse(const char *line, struct host_tcp_socket *out)
{
    char address[33];
    unsigned port;
    size_t len;

    if (sscanf(line, " %*d: %32[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*u %*d %lu",
               address, &port, &out->state, &out->inode) != 4)
        return false;
    len = strlen(address);
    if (len != 8 && len != 32)
        return false;
    out->port = (uint16_t)port;
    out->word_count = (unsigned)len / 8;
    for (unsigned i = 0; i < out->word_count; i++) {
        char word[9] = "";

        (void)memcpy(word, address + (size_t)8 * i, 8);
        out->words[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    return true;
}

/* Would a listener on this address get connections to place? Wildcards do, of either family. */
static bool covers(const uint32_t *words, unsigned count, const struct place *place)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&place->address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&place->address;
    bool wildcard = true;

    for (unsigned i = 0; i < count; i++)
        wildcard = wildcard && words[i] == 0;
    if (wildcard)
        return true;
    if (place->address.ss_family == AF_INET)
        return words[count - 1] == v4->sin_addr.s_addr;
    return count == 4 && memcmp(words, &v6->sin6_addr, sizeof(v6->sin6_addr)) == 0;
}

static unsigned long find_listener(const char *table, const struct place *place, uint16_t port)
{
    FILE *file = fopen(table, "re");
    unsigned long found = 0;
    char line[512];

    while (file != NULL && found == 0 && fgets(line, sizeof(line), file) != NULL) {
        struct host_tcp_socket socket;

        if (host_tcp_parse(line, &socket) && socket.state == HOST_TCP_LISTEN &&
            socket.port == port && covers(socket.words, socket.word_count, place))
            found = socket.inode;
    }
    if (file != NULL)
        (void)fclose(file);
    return found;
}

static bool holds(pid_t pid, unsigned long inode)
{
    char path[64], want[48], link[48];

    (void)snprintf(want, sizeof(want), "socket:[%lu]", inode);
    for (int fd = 0, misses = 0; misses < 64; fd++) {
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
        n = readlink(path, link, sizeof(link) - 1);
        misses = n < 0 ? misses + 1 : 0;
        link[n < 0 ? 0 : n] = '\0';
        if (strcmp(link, want) == 0)
            return true;
    }
    return false;
}

/* "process 12 (nginx: master ...)"; false: nobody listens there. */
static bool name_owner(const struct place *place, uint16_t port, char *out, size_t out_bytes)
{
    unsigned long inode = find_listener("/proc/thread-self/net/tcp", place, port);
    pid_t *pids = NULL;
    size_t count = 0;

    /* Another user's, or in a container of its own: */
    (void)snprintf(out, out_bytes, "a process that cannot be seen from here");
    if (inode == 0)
        inode = find_listener("/proc/thread-self/net/tcp6", place, port);
    if (inode == 0 || host_proc_list(&pids, &count, NULL) != LS_OK)
        return inode != 0;
    for (size_t i = 0; i < count; i++) {
        char command[160];

        if (!holds(pids[i], inode))
            continue;
        (void)snprintf(out, out_bytes, "process %d (%s)", (int)pids[i],
                       host_proc_command(pids[i], command, sizeof(command)));
        break;
    }
    free(pids);
    return true;
}

/* ---- is it free */

/* 0: connected; else an errno value. */
static int try_connect(const struct place *place)
{
    int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0;
    socklen_t len = sizeof(error);
    struct pollfd wait = { .fd = fd, .events = POLLOUT };

    if (fd < 0)
        return errno;
    if (connect(fd, (const struct sockaddr *)&place->address, place->len) < 0)
        error = errno;
    if (error == EINPROGRESS) {
        error = ETIMEDOUT;
        if (poll(&wait, 1, CONNECT_WAIT_MS) == 1)
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    }
    if (error ==
        0) { /* a port connects to itself when the kernel happens to pick it: nobody there */
        struct sockaddr_storage self = { 0 };
        socklen_t self_len = sizeof(self);

        if (getsockname(fd, (struct sockaddr *)&self, &self_len) == 0 && self_len == place->len &&
            memcmp(&self, &place->address, self_len) == 0)
            error = ECONNREFUSED;
    }
    (void)close(fd);
    return error;
}

/* As servers bind, who mostly set SO_REUSEADDR. 0 or an errno value. */
static int try_bind(const struct place *place)
{
    int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1, error = 0;

    if (fd < 0)
        return errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (const struct sockaddr *)&place->address, place->len) < 0)
        error = errno;
    (void)close(fd);
    return error;
}

enum ls_err host_port_check_free(const char *host, uint16_t port, struct ls_diag *diag)
{
    struct place place;
    char owner[240];
    bool listens;
    int connected, error;

    if (!parse_place(host, port, &place))
        return ls_fail(diag, LS_EINVAL,
                       "host %s is not a literal IPv4 or IPv6 address: write 127.0.0.1, for "
                       "instance",
                       host);
    error = try_bind(&place);
    if (error == EADDRNOTAVAIL)
        return ls_fail(diag, LS_EINVAL,
                       "%s is not an address of this machine: nothing can listen "
                       "there",
                       host);
    connected = try_connect(&place);
    if (connected == 0 || connected == ETIMEDOUT) { /* or a listener whose backlog is full */
        listens = name_owner(&place, port, owner, sizeof(owner));
        if (listens || connected == 0)
            return ls_fail(diag, LS_ESTATE,
                           "%s port %u is in use, by %s: end it or choose another port", host, port,
                           owner);
        return ls_fail(diag, LS_ETIMEOUT,
                       "%s port %u neither accepts nor refuses a connection: look for a packet "
                       "filter that drops it",
                       host, port);
    }
    if (connected != ECONNREFUSED)
        return ls_fail(diag, LS_EIO, "cannot find out whether %s port %u is free: %s", host, port,
                       strerror(connected));
    if (error == EADDRINUSE)
        return ls_fail(
            diag, LS_ESTATE,
            "%s port %u is taken, though nobody listens: a connection of another program "
            "uses it; choose a port outside net.ipv4.ip_local_port_range, or wait",
            host, port);
    return LS_OK; /* EACCES and the like are the target's to explain: it may have more rights */
}

bool host_port_accepts(const char *host, uint16_t port)
{
    struct place place;

    return parse_place(host, port, &place) && try_connect(&place) == 0;
}
