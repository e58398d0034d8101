#include "agent/clock_answer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"

#define READS_MAX 64u /* before other events have their turn */

void agent_clock_fini(struct agent_clock *clock)
{
    if (clock->fd >= 0)
        (void)close(clock->fd);
    clock->fd = -1;
}

static enum ls_err connect_to(const char *host, uint32_t port, int *out_fd, struct ls_diag *diag)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
    bool is_v4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;
    int fd;

    if (port == 0 || port > UINT16_MAX)
        return ls_fail(diag, LS_EINVAL, "no port: %u", port);
    if (!is_v4 && inet_pton(AF_INET6, host, &v6.sin6_addr) != 1)
        return ls_fail(diag, LS_EINVAL, "no literal address: '%.60s'", host);
    fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return ls_fail(diag, LS_EIO, "socket: %s", strerror(errno));
    if (connect(fd, is_v4 ? (const struct sockaddr *)&v4 : (const struct sockaddr *)&v6,
                is_v4 ? sizeof(v4) : sizeof(v6)) != 0) {
        (void)ls_fail(diag, LS_EIO, "connect: %s", strerror(errno));
        (void)close(fd);
        return LS_EIO;
    }
    *out_fd = fd;
    return LS_OK;
}

/* What it is told must not make an agent knock at strangers. session_host "": it is on this host.
 */
static bool is_the_coordinator(const char *host, const char *session_host)
{
    return strcmp(host, session_host) == 0 ||
           (session_host[0] == '\0' && (strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0));
}

enum ls_err agent_clock_open(struct agent_clock *clock, const Ls__ClockUdp *command,
                             const char *session_host, int64_t now_ns, struct ls_diag *diag)
{
    const char *host = command->host[0] != '\0' ? command->host : session_host;
    enum ls_err rc;

    agent_clock_fini(clock);
    clock->asked_ns = 0;
    if (command->key.len != LS_CLOCK_KEY_BYTES)
        return ls_fail(diag, LS_EPROTO, "a key of %zu bytes", command->key.len);
    rc = connect_to(host, command->port, &clock->fd, diag);
    if (rc != LS_OK)
        return rc;
    if (!is_the_coordinator(host, session_host)) {
        agent_clock_fini(clock);
        return ls_fail(
            diag, LS_EREFUSED,
            "datagrams are wanted at %.60s, and the coordinator is at %.60s: nobody else "
            "gets any",
            host, session_host[0] != '\0' ? session_host : "this host");
    }
    ls_clock_echo_init(&clock->echo, command->agent, command->key.data);
    (void)agent_clock_knock(clock, now_ns);
    return LS_OK;
}

int64_t agent_clock_knock(struct agent_clock *clock, int64_t now_ns)
{
    unsigned char out[LS_CLOCK_DATAGRAM_BYTES];
    int64_t quiet_ns = now_ns - clock->asked_ns;

    if (clock->asked_ns != 0 && quiet_ns < AGENT_CLOCK_QUIET_NS)
        return AGENT_CLOCK_QUIET_NS - quiet_ns;
    if (clock->fd < 0)
        return AGENT_CLOCK_KNOCK_NS;
    ls_clock_echo_knock(&clock->echo, out);
    (void)send(clock->fd, out, sizeof(out), 0); /* if it is lost, there will be another */
    return AGENT_CLOCK_KNOCK_NS;
}

bool agent_clock_readable(struct agent_clock *clock)
{
    unsigned char in[LS_CLOCK_DATAGRAM_BYTES + 1]; /* one more, so that a longer one shows */
    unsigned char out[LS_CLOCK_DATAGRAM_BYTES];
    bool asked = false;
    uint64_t number;

    for (unsigned i = 0; i < READS_MAX; i++) {
        ssize_t n = recv(clock->fd, in, sizeof(in), 0);
        int64_t received_ns = ls_clock_mono_ns();

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n <= 0 ||
            !ls_clock_echo_take(&clock->echo, (struct ls_bytes){ in, (size_t)n }, &number))
            continue; /* also what ICMP says of an earlier one */
        clock->asked_ns = received_ns;
        asked = true;
        ls_clock_echo_reply(&clock->echo, number, received_ns, ls_clock_mono_ns(), out);
        (void)send(clock->fd, out, sizeof(out), 0);
    }
    return asked;
}
