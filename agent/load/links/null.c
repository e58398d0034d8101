/* A link without a network: what is sent arrives again, as zeros, in the next turn. With the null
 * driver it measures what a request costs apart from sockets; and it works on completion, as
 * io_uring does. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/load/link.h"
#include "common/clock.h"

#define BUFFER_BYTES 16384u

struct null_link {
    void *ctx;
    struct null_link *next; /* in the hub's list, if is_pending */
    bool is_open;
    bool is_pending;
    bool connecting;
    size_t bytes; /* on their way back */
};

struct agent_link_hub {
    struct agent_link_env env;
    struct null_link *first;
    struct null_link *last;
    int wake_fd; /* owned */
    uint8_t out[BUFFER_BYTES];
    uint8_t zeros[BUFFER_BYTES];
};

static void hub_destroy(struct agent_link_hub *hub)
{
    if (hub == NULL)
        return;
    (void)close(hub->wake_fd); /* holds nothing */
    free(hub);
}

static enum ls_err hub_create(const struct agent_link_env *env, uint32_t links_max,
                              struct agent_link_hub **out_hub, struct ls_diag *diag)
{
    struct agent_link_hub *hub = calloc(1, sizeof(*hub));

    (void)links_max;
    if (hub == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a hub of null links");
    hub->env = *env;
    hub->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (hub->wake_fd < 0) {
        free(hub);
        return ls_fail(diag, LS_EIO, "cannot create an event descriptor: %s", strerror(errno));
    }
    *out_hub = hub;
    return LS_OK;
}

static void wake(struct agent_link_hub *hub)
{
    uint64_t one = 1;

    (void)!write(hub->wake_fd, &one, sizeof(one)); /* full means that it is readable: enough */
}

static void wait_until(struct agent_link_hub *hub, int64_t until_ns)
{
    struct pollfd wakes = { .fd = hub->wake_fd, .events = POLLIN };
    int64_t left_ns = until_ns - ls_clock_mono_ns();
    struct timespec left = { .tv_sec = left_ns / LS_NS_PER_S, .tv_nsec = left_ns % LS_NS_PER_S };
    uint64_t times;

    if (left_ns > 0 && ppoll(&wakes, 1, &left, NULL) > 0)
        (void)!read(hub->wake_fd, &times, sizeof(times)); /* only so that it is not ready */
}

static void make_pending(struct agent_link_hub *hub, struct null_link *link)
{
    if (link->is_pending)
        return;
    link->is_pending = true;
    link->next = NULL;
    *(hub->first != NULL ? &hub->last->next : &hub->first) = link;
    hub->last = link;
}

static void complete(struct agent_link_hub *hub, struct null_link *link)
{
    if (link->connecting) {
        link->connecting = false;
        hub->env.opened(link->ctx, 0);
        return;
    }
    while (link->is_open && link->bytes > 0) {
        size_t len = link->bytes < BUFFER_BYTES ? link->bytes : BUFFER_BYTES;

        link->bytes -= len;
        hub->env.bytes(link->ctx, (struct ls_bytes){ .data = hub->zeros, .len = len }, 0);
        if (link->is_pending)
            return; /* has sent more: its turn comes again */
    }
}

static void turn(struct agent_link_hub *hub, int64_t until_ns)
{
    struct null_link *last = hub->last; /* of this turn; what is sent meanwhile is the next one's */
    struct null_link *link;

    if (hub->first == NULL) {
        if (until_ns != 0)
            wait_until(hub, until_ns);
        return;
    }
    do {
        link = hub->first;
        hub->first = link->next;
        link->is_pending = false;
        if (link->is_open)
            complete(hub, link);
    } while (link != last && hub->first != NULL);
}

static void open_link(struct agent_link_hub *hub, void *state, void *ctx,
                      const struct sockaddr *address, socklen_t address_len)
{
    struct null_link *link = state;

    (void)address;
    (void)address_len;
    link->ctx = ctx;
    link->is_open = link->connecting = true;
    link->bytes = 0;
    make_pending(hub, link);
}

static void flush(struct agent_link_hub *hub, void *state)
{
    struct null_link *link = state;
    size_t len;

    while (link->is_open && (len = hub->env.pull(link->ctx, hub->out, sizeof(hub->out))) > 0) {
        link->bytes += len;
        make_pending(hub, link);
    }
}

static void close_link(struct agent_link_hub *hub, void *state)
{
    struct null_link *link = state;

    (void)hub; /* a closed one in the list of the pending is passed over */
    link->is_open = false;
}

const struct agent_link_class agent_link_null = {
    .name = "null",
    .io = "none",
    .link_size = sizeof(struct null_link),
    .hub_create = hub_create,
    .hub_destroy = hub_destroy,
    .turn = turn,
    .wake = wake,
    .open = open_link,
    .flush = flush,
    .close = close_link,
};
