/* TCP on libev readiness: optimistic sends and receives, EPOLLOUT only while a connect or a partial
 * send is under way, one receive buffer for all connections of the worker. */
#include <errno.h>
#include <ev.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/load/link.h"
#include "agent/load/links/ev_turn.h"
#include "agent/load/links/source.h"
#include "agent/load/links/stamp.h"

#define BUFFER_BYTES 65536u
#define SPILL_BYTES  16384u /* most that is pulled at once, and so left when a socket is full */
#define NO_SPILL     UINT32_MAX

struct tcp_link {
    ev_io io;
    void *ctx;
    struct agent_link_hub *hub;
    bool is_open;
    bool connecting;
    bool stamped;
    int error;      /* of a failed send, until it is reported; 0: none */
    uint32_t spill; /* slot of what a full socket did not take; NO_SPILL: none */
    uint32_t spill_at;
    uint32_t spill_len;
};

struct agent_link_hub {
    struct ev_turn *turn; /* owned */
    struct ev_loop *loop; /* turn's */
    struct agent_link_env env;
    uint32_t source_turn;
    uint32_t stamp_turn;
    /* Room for one partial send of every link at once: address space, which costs memory only where
     * a socket has been full. So that the hot path has nothing to allocate. */
    uint8_t *spills;       /* owned, mapped */
    uint32_t *free_spills; /* owned; a stack */
    uint32_t free_count;
    uint32_t links_max;
    uint8_t in[BUFFER_BYTES];
    uint8_t out[SPILL_BYTES];
};

static void hub_destroy(struct agent_link_hub *hub)
{
    if (hub == NULL)
        return;
    ev_turn_destroy(hub->turn);
    if (hub->spills != NULL)
        (void)munmap(hub->spills, (size_t)hub->links_max * SPILL_BYTES); /* mapped here */
    free(hub->free_spills);
    free(hub);
}

static enum ls_err hub_create(const struct agent_link_env *env, uint32_t links_max,
                              struct agent_link_hub **out_hub, struct ls_diag *diag)
{
    struct agent_link_hub *hub = calloc(1, sizeof(*hub));
    enum ls_err rc = LS_ENOMEM;
    void *spills = MAP_FAILED;

    if (hub == NULL)
        goto out;
    hub->env = *env;
    hub->links_max = links_max;
    hub->free_spills = calloc(links_max, sizeof(*hub->free_spills));
    if (hub->free_spills == NULL)
        goto out;
    while (hub->free_count < links_max) {
        hub->free_spills[hub->free_count] = links_max - 1 - hub->free_count;
        hub->free_count++;
    }
    spills = mmap(NULL, (size_t)links_max * SPILL_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (spills == MAP_FAILED)
        goto out;
    hub->spills = spills;
    rc = ev_turn_create(&hub->turn, diag);
    if (rc != LS_OK)
        goto out;
    hub->loop = ev_turn_loop(hub->turn);
    *out_hub = hub;
    hub = NULL; /* now the caller's */
out:
    if (rc == LS_ENOMEM)
        (void)ls_fail(diag, rc, "no memory for the buffers of %u connections", links_max);
    hub_destroy(hub);
    return rc;
}

static void turn(struct agent_link_hub *hub, int64_t until_ns)
{
    ev_turn_run(hub->turn, until_ns);
}

static void wake(struct agent_link_hub *hub)
{
    ev_turn_wake(hub->turn);
}

static void watch(struct tcp_link *link, int events)
{
    if ((link->io.events & (EV_READ | EV_WRITE)) == events && ev_is_active(&link->io))
        return;
    ev_io_stop(link->hub->loop, &link->io);
    ev_io_modify(&link->io, events);
    ev_io_start(link->hub->loop, &link->io);
}

static void drop_spill(struct tcp_link *link)
{
    if (link->spill != NO_SPILL)
        link->hub->free_spills[link->hub->free_count++] = link->spill;
    link->spill = NO_SPILL;
}

static void close_link(struct agent_link_hub *hub, void *state)
{
    struct tcp_link *link = state;

    if (!link->is_open)
        return;
    link->is_open = false;
    drop_spill(link);
    ev_io_stop(hub->loop, &link->io);
    (void)close(link->io.fd); /* what it could say about lost bytes, we know already */
}

/* How many bytes the socket took; after a failure link->error is set. */
static size_t send_some(struct tcp_link *link, const uint8_t *data, size_t len)
{
    ssize_t n = send(link->io.fd, data, len, MSG_NOSIGNAL);

    if (LS_LIKELY(n >= 0))
        return (size_t)n;
    if (errno != EAGAIN && errno != EINTR)
        link->error = errno; /* the socket is readable now: told from there, not from a send */
    return 0;
}

/* True if nothing is left. */
static bool send_spill(struct tcp_link *link)
{
    uint8_t *slot;
    size_t sent;

    if (link->spill == NO_SPILL)
        return true;
    slot = link->hub->spills + (size_t)link->spill * SPILL_BYTES;
    sent = send_some(link, slot + link->spill_at, link->spill_len - link->spill_at);
    link->spill_at += (uint32_t)sent;
    if (link->spill_at < link->spill_len)
        return false;
    drop_spill(link);
    return true;
}

static void keep_rest(struct tcp_link *link, const uint8_t *rest, size_t len)
{
    struct agent_link_hub *hub = link->hub;

    link->spill = hub->free_spills[--hub->free_count]; /* one for each link */
    link->spill_at = 0;
    link->spill_len = (uint32_t)len;
    memcpy(hub->spills + (size_t)link->spill * SPILL_BYTES, rest, len);
    watch(link, EV_READ | EV_WRITE);
}

static void flush(struct agent_link_hub *hub, void *state)
{
    struct tcp_link *link = state;

    if (!link->is_open || link->connecting || link->spill != NO_SPILL)
        return;
    while (link->error == 0) {
        size_t len = hub->env.pull(link->ctx, hub->out, sizeof(hub->out));
        size_t sent;

        if (len == 0)
            return;
        sent = send_some(link, hub->out, len);
        if (sent < len && link->error == 0) {
            keep_rest(link, hub->out + sent, len - sent);
            return;
        }
    }
}

static void on_writable(struct tcp_link *link)
{
    if (!send_spill(link) && link->error == 0)
        return;
    drop_spill(link);
    watch(link, EV_READ);
    flush(link->hub, link);
}

static void on_connected(struct tcp_link *link)
{
    struct agent_link_hub *hub = link->hub;
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(link->io.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    link->connecting = false;
    if (error != 0)
        close_link(hub, link);
    else
        watch(link, EV_READ);
    hub->env.opened(link->ctx, error);
}

static void on_readable(struct tcp_link *link)
{
    struct agent_link_hub *hub = link->hub;
    int64_t wall_ns = 0;
    ssize_t n = link->stamped ? stamp_receive(link->io.fd, hub->in, sizeof(hub->in), 0, &wall_ns)
                              : recv(link->io.fd, hub->in, sizeof(hub->in), 0);

    if (LS_LIKELY(n > 0)) {
        hub->env.bytes(link->ctx, (struct ls_bytes){ .data = hub->in, .len = (size_t)n }, wall_ns);
        return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0)
        link->error = errno;
    hub->env.ended(link->ctx, link->error != 0 ? LOAD_RESET : LOAD_CLOSED_EARLY, link->error);
}

static void on_event(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct tcp_link *link = watcher->data;

    (void)loop;
    if (LS_UNLIKELY(link->connecting)) {
        on_connected(link);
        return;
    }
    if (LS_UNLIKELY((events & EV_WRITE) != 0))
        on_writable(link);
    if (LS_LIKELY((events & EV_READ) != 0))
        on_readable(link);
}

static void open_link(struct agent_link_hub *hub, void *state, void *ctx,
                      const struct sockaddr *address, socklen_t address_len)
{
    struct tcp_link *link = state;
    int yes = 1;
    int error;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        hub->env.opened(ctx, errno);
        return;
    }
    *link = (struct tcp_link){ .ctx = ctx, .hub = hub, .spill = NO_SPILL };
    /* Fails for what is not TCP, where there is no delay to turn off. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    link->stamped = stamp_request(fd, &hub->env, &hub->stamp_turn);
    error = source_bind(fd, &hub->env, &hub->source_turn);
    if (error == 0 && connect(fd, address, address_len) != 0 && errno != EINPROGRESS)
        error = errno;
    if (error != 0) {
        (void)close(fd); /* never was connected */
        hub->env.opened(ctx, error);
        return;
    }
    /* Connected at once or not, the socket says so by being writable. */
    link->is_open = link->connecting = true;
    ev_io_init(&link->io, on_event, fd, EV_WRITE);
    link->io.data = link;
    ev_io_start(hub->loop, &link->io);
}

const struct agent_link_class agent_link_tcp = {
    .name = "tcp",
    .io = "libev",
    .link_size = sizeof(struct tcp_link),
    .hub_create = hub_create,
    .hub_destroy = hub_destroy,
    .turn = turn,
    .wake = wake,
    .open = open_link,
    .flush = flush,
    .close = close_link,
};
