#include "coordinator/fleet/clocks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

#define READS_MAX 64u /* before other events have their turn */

struct entry {
    struct ls_clock_asker asker;
    bool invited;
    struct sockaddr_storage from; /* where its last knock came from */
    socklen_t from_len;           /* 0: it has not knocked */
};

struct coord_clocks {
    struct ev_loop *loop;
    ev_io io;
    int fd;
    char host[64]; /* "": the one that the agents have dialled */
    uint32_t port;
    struct entry *entries; /* owned */
    uint32_t count;
    coord_clocks_answer_fn answer;
    void *ctx;
};

/* ---- what is known */

/* Which of the two decides; NULL: nothing is known of either. */
static const struct ls_offset *choose(const struct ls_offset *session, const struct ls_offset *udp,
                                      int64_t at_ns, int64_t *out_offset_ns, int64_t *out_error_ns)
{
    int64_t offset_ns[2] = { 0, 0 };
    int64_t error_ns[2] = { INT64_MAX, INT64_MAX };
    bool by_session = ls_offset_at(session, at_ns, &offset_ns[0], &error_ns[0]);
    bool by_udp = ls_offset_at(udp, at_ns, &offset_ns[1], &error_ns[1]);
    ls_i128 apart = (ls_i128)offset_ns[0] - offset_ns[1];

    if (!by_session && !by_udp)
        return NULL;
    if (by_session && by_udp) {
        if ((apart < 0 ? -apart : apart) > (ls_i128)error_ns[0] + error_ns[1] + 2)
            by_udp = ls_offset_newest_ns(udp) >= ls_offset_newest_ns(session);
        else
            by_udp = error_ns[1] <= error_ns[0];
    }
    *out_offset_ns = offset_ns[by_udp];
    *out_error_ns = error_ns[by_udp];
    return by_udp ? udp : session;
}

bool coord_clock_offset(const struct ls_offset *session, const struct ls_offset *udp, int64_t at_ns,
                        int64_t *out_offset_ns, int64_t *out_error_ns)
{
    return choose(session, udp, at_ns, out_offset_ns, out_error_ns) != NULL;
}

bool coord_clock_at(const struct ls_offset *session, const struct ls_offset *udp, int64_t at_ns,
                    struct coord_clock *out)
{
    struct coord_clock clock = { 0 };
    const struct ls_offset *of = choose(session, udp, at_ns, &clock.offset_ns, &clock.error_ns);

    if (of == NULL)
        return false;
    clock.source = of == udp ? "udp" : "session";
    clock.round_trip_ns = ls_offset_round_trip_ns(of);
    if (!ls_offset_drift(of, &clock.drift_ppm, &clock.drift_error_ppm))
        clock.drift_ppm = clock.drift_error_ppm = 0;
    clock.steps = session->steps > udp->steps ? session->steps : udp->steps;
    clock.stepped_ns =
        session->stepped_ns > udp->stepped_ns ? session->stepped_ns : udp->stepped_ns;
    clock.exchanges = session->taken + udp->taken;
    *out = clock;
    return true;
}

int64_t coord_clock_wall(const struct coord_clock *clock, int64_t agent_zero_ns,
                         int64_t own_zero_ns)
{
    ls_i128 apart_ns = (ls_i128)agent_zero_ns + clock->offset_ns - own_zero_ns;

    if (apart_ns > COORD_WALL_MAX_NS)
        return COORD_WALL_MAX_NS;
    return apart_ns < -COORD_WALL_MAX_NS ? -COORD_WALL_MAX_NS : (int64_t)apart_ns;
}

/* ---- datagrams */

static void take(struct coord_clocks *clocks, struct ls_bytes in,
                 const struct sockaddr_storage *from, socklen_t from_len, int64_t now_ns)
{
    struct ls_clock_exchange exchange;
    struct ls_clock_datagram datagram;
    struct entry *entry;

    if (!ls_clock_parse(in, &datagram) || datagram.agent >= clocks->count)
        return;
    entry = &clocks->entries[datagram.agent];
    if (!entry->invited)
        return;
    switch (ls_clock_asker_take(&entry->asker, in, &exchange)) {
    case LS_CLOCK_KNOCKED:
        entry->from = *from;
        entry->from_len = from_len;
        coord_clocks_probe(clocks, datagram.agent); /* tells it that it was heard */
        return;
    case LS_CLOCK_ANSWERED:
        clocks->answer(clocks->ctx, datagram.agent, exchange.sent_ns, exchange.received_ns,
                       exchange.replied_ns, now_ns);
        return;
    case LS_CLOCK_NOTHING:
        return;
    }
}

static void on_readable(struct ev_loop *loop, ev_io *w, int events)
{
    struct coord_clocks *clocks = w->data;
    unsigned char in[LS_CLOCK_DATAGRAM_BYTES + 1]; /* one more, so that a longer one shows */

    (void)loop;
    (void)events;
    for (unsigned i = 0; i < READS_MAX; i++) {
        struct sockaddr_storage from;
        socklen_t from_len = sizeof(from);
        ssize_t n = recvfrom(clocks->fd, in, sizeof(in), 0, (struct sockaddr *)&from, &from_len);
        int64_t now_ns = ls_clock_mono_ns();

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n > 0) /* others: an ICMP message for a datagram of before; what was lost is lost */
            take(clocks, (struct ls_bytes){ in, (size_t)n }, &from, from_len, now_ns);
    }
}

void coord_clocks_probe(struct coord_clocks *clocks, uint32_t agent)
{
    struct entry *entry = &clocks->entries[agent];
    unsigned char out[LS_CLOCK_DATAGRAM_BYTES];
    uint64_t number;

    if (!entry->invited || entry->from_len == 0)
        return;
    number = ls_clock_asker_probe(&entry->asker, out);
    ls_clock_asker_sent(&entry->asker, number, ls_clock_mono_ns());
    /* One that cannot be sent is as good as lost on the way, which is allowed. */
    (void)sendto(clocks->fd, out, sizeof(out), 0, (const struct sockaddr *)&entry->from,
                 entry->from_len);
}

enum ls_err coord_clocks_invite(struct coord_clocks *clocks, uint32_t agent, Ls__ClockUdp *out,
                                struct ls_diag *diag)
{
    struct entry *entry = &clocks->entries[agent];
    unsigned char key[LS_CLOCK_KEY_BYTES];

    entry->invited = false;
    entry->from_len = 0;
    if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
        return ls_fail(diag, LS_EIO, "no random numbers for a key");
    ls_clock_asker_init(&entry->asker, agent, key);
    entry->invited = true;
    out->host = clocks->host;
    out->port = clocks->port;
    out->agent = agent;
    out->key = (ProtobufCBinaryData){ .data = entry->asker.key, .len = sizeof(entry->asker.key) };
    return LS_OK;
}

/* ---- life */

/* "tls+tcp://[::1]:7411" to an address; ipc: the loopback one, at any port. */
static enum ls_err find_address(const char *url, struct sockaddr_storage *out,
                                char out_host[static 64], struct ls_diag *diag)
{
    const char *host = strstr(url, "://");
    const char *colon = strrchr(url, ':');
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    char text[64];

    memset(out, 0, sizeof(*out));
    if (strncmp(url, "ipc:", 4) == 0) {
        host = "://127.0.0.1";
        colon = NULL;
    }
    if (host == NULL)
        return ls_fail(diag, LS_EINVAL, "%s: no address", url);
    host += 3;
    if (*host == '[')
        host++;
    (void)snprintf(text, sizeof(text), "%.*s", colon > host ? (int)(colon - host) : 63, host);
    text[strcspn(text, "]")] = '\0';
    if (strcmp(text, "*") == 0) /* any, in the transport's words */
        (void)snprintf(text, sizeof(text), "0.0.0.0");
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(colon != NULL ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0);
        if (v4->sin_addr.s_addr == htonl(INADDR_ANY))
            text[0] = '\0';
    } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(colon != NULL ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0);
        if (IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
            text[0] = '\0';
    } else {
        return ls_fail(diag, LS_EINVAL,
                       "%s has a name where datagrams need an address: clocks are asked within the "
                       "sessions alone, which is less exact; --listen with an address, such as "
                       "10.0.0.1 or 0.0.0.0, mends it",
                       url);
    }
    memcpy(out_host, text, sizeof(text));
    return LS_OK;
}

/* Of the family's two structs the port is in the same place. */
static in_port_t *port_of(struct sockaddr_storage *address)
{
    return &((struct sockaddr_in *)address)->sin_port;
}

static enum ls_err bind_socket(struct coord_clocks *clocks, struct sockaddr_storage *address,
                               struct ls_diag *diag)
{
    socklen_t len =
        address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

    clocks->fd = socket(address->ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (clocks->fd < 0)
        return ls_fail(diag, LS_EIO, "socket: %s", strerror(errno));
    if (bind(clocks->fd, (const struct sockaddr *)address, len) != 0) {
        *port_of(address) = 0; /* somebody else's number: any will do */
        if (bind(clocks->fd, (const struct sockaddr *)address, len) != 0)
            return ls_fail(diag, LS_EIO, "bind: %s", strerror(errno));
    }
    if (getsockname(clocks->fd, (struct sockaddr *)address, &len) != 0)
        return ls_fail(diag, LS_EIO, "getsockname: %s", strerror(errno));
    clocks->port = ntohs(*port_of(address));
    return LS_OK;
}

enum ls_err coord_clocks_create(void *ev_loop, const char *url, uint32_t agents,
                                coord_clocks_answer_fn answer, void *ctx,
                                struct coord_clocks **out_clocks, struct ls_diag *diag)
{
    struct coord_clocks *clocks = calloc(1, sizeof(*clocks));
    struct sockaddr_storage address;
    enum ls_err rc;

    if (clocks == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the agents' clocks");
    clocks->loop = ev_loop;
    clocks->fd = -1;
    clocks->count = agents;
    clocks->answer = answer;
    clocks->ctx = ctx;
    clocks->entries = calloc(agents, sizeof(*clocks->entries));
    rc = clocks->entries == NULL ? ls_fail(diag, LS_ENOMEM, "out of memory for the agents' clocks")
                                 : find_address(url, &address, clocks->host, diag);
    if (rc == LS_OK)
        rc = bind_socket(clocks, &address, diag);
    if (rc != LS_OK) {
        coord_clocks_destroy(clocks);
        return rc;
    }
    ev_io_init(&clocks->io, on_readable, clocks->fd, EV_READ);
    clocks->io.data = clocks;
    ev_io_start(clocks->loop, &clocks->io);
    *out_clocks = clocks;
    return LS_OK;
}

void coord_clocks_destroy(struct coord_clocks *clocks)
{
    if (clocks == NULL)
        return;
    ev_io_stop(clocks->loop, &clocks->io); /* one that was never begun, too */
    if (clocks->fd >= 0)
        (void)close(clocks->fd);
    free(clocks->entries);
    free(clocks);
}
