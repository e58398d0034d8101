/* TCP on io_uring completion: receives stay armed and take the kernel's pick of the worker's
 * buffers, sends are gathered and go with the wait (or at once, where the instant counts). */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/load/links/source.h"
#include "agent/load/links/stamp.h"
#include "agent/load/links/uring_impl.h"
#include "common/clock.h"

#define NO_CHUNK UINT32_MAX
/* So many sends are gathered at most: the last of a batch leaves later than it was pulled by the
 * time that the others take, some 3.5 us each. */
#define BATCH 32u
/* Chunks that gathered sends may hold at once, so that 100,000 connections that start together do
 * not touch as many pages: beyond it, sends are made at once. */
#define CHUNKS_GATHERED 256u
/* Chunks begin at different places of a page, as buffers do. */
#define CHUNK_STRIDE (URING_CHUNK_BYTES + 192u)

/* ---- hub ------------------------------------------------------------------------------------- */

static void hub_destroy(struct agent_link_hub *hub)
{
    if (hub == NULL)
        return;
    uring_fini(&hub->uring);
    if (hub->wake_fd >= 0)
        (void)close(hub->wake_fd); /* holds nothing */
    if (hub->chunks != NULL)
        (void)munmap(hub->chunks, (size_t)hub->slot_count * CHUNK_STRIDE); /* mapped here */
    if (hub->bulk != NULL)
        (void)munmap(hub->bulk, URING_BULK_BYTES); /* mapped here */
    free(hub->slots);
    free(hub->free_slots);
    free(hub->free_chunks);
    free(hub);
}

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return at != MAP_FAILED ? at : NULL;
}

static enum ls_err alloc_slots(struct agent_link_hub *hub, uint32_t count)
{
    hub->slots = calloc(count, sizeof(*hub->slots));
    hub->free_slots = calloc(count, sizeof(*hub->free_slots));
    hub->free_chunks = calloc(count, sizeof(*hub->free_chunks));
    if (hub->slots == NULL || hub->free_slots == NULL || hub->free_chunks == NULL)
        return LS_ENOMEM;
    hub->chunks = map((size_t)count * CHUNK_STRIDE);
    hub->bulk = map(URING_BULK_BYTES);
    if (hub->chunks == NULL || hub->bulk == NULL)
        return LS_ENOMEM;
    hub->slot_count = hub->free_slot_count = hub->free_chunk_count = count;
    for (uint32_t i = 0; i < count; i++) {
        hub->slots[i].chunk = NO_CHUNK;
        hub->free_slots[i] = hub->free_chunks[i] = count - 1 - i;
    }
    return LS_OK;
}

static enum ls_err hub_create(const struct agent_link_env *env, uint32_t links_max,
                              struct agent_link_hub **out_hub, struct ls_diag *diag)
{
    struct agent_link_hub *hub = calloc(1, sizeof(*hub));
    enum ls_err rc = LS_ENOMEM;

    if (hub == NULL)
        goto out;
    hub->env = *env;
    hub->shape.msg_controllen = STAMP_CONTROL_BYTES;
    hub->wake_fd = -1;
    rc = alloc_slots(hub, 2 * links_max);
    if (rc != LS_OK)
        goto out;
    hub->wake_fd = eventfd(0, EFD_CLOEXEC); /* blocking: the ring reads it when it is readable */
    if (hub->wake_fd < 0) {
        rc = ls_fail(diag, LS_EIO, "cannot create an event descriptor: %s", strerror(errno));
        goto out;
    }
    rc = uring_init(&hub->uring, links_max, diag);
    if (rc != LS_OK)
        goto out;
    hub->min_wait_ns = hub->uring.has_min_wait ? env->min_wait_ns : 0;
    *out_hub = hub;
    hub = NULL; /* now the caller's */
out:
    if (rc == LS_ENOMEM)
        (void)ls_fail(diag, rc, "no memory for the buffers of %u connections", links_max);
    hub_destroy(hub);
    return rc;
}

static void wake(struct agent_link_hub *hub)
{
    uint64_t one = 1;

    (void)!write(hub->wake_fd, &one, sizeof(one)); /* it takes 2^64 - 2 of them to block */
}

static void await_wake(struct agent_link_hub *hub)
{
    struct io_uring_sqe *sqe = uring_sqe(&hub->uring);

    io_uring_prep_read(sqe, hub->wake_fd, &hub->woken, sizeof(hub->woken), 0);
    uring_set_data(sqe, URING_WAKE, 0);
}

/* The first time on the worker's thread. False: it cannot be, and hub->error says why. */
static bool is_started(struct agent_link_hub *hub)
{
    if (LS_LIKELY(hub->uring.started))
        return true;
    if (hub->error != 0)
        return false;
    hub->error = uring_start(&hub->uring);
    if (hub->error != 0)
        return false;
    await_wake(hub);
    return true;
}

/* ---- slots, chunks --------------------------------------------------------------------------- */

static void release_chunk(struct agent_link_hub *hub, struct uring_slot *slot)
{
    hub->free_chunks[hub->free_chunk_count++] = slot->chunk;
    slot->chunk = NO_CHUNK;
}

static uint8_t *chunk_of(struct agent_link_hub *hub, const struct uring_slot *slot)
{
    return hub->chunks + (size_t)slot->chunk * CHUNK_STRIDE;
}

static uint8_t *take_chunk(struct agent_link_hub *hub, struct uring_slot *slot)
{
    slot->chunk = hub->free_chunks[--hub->free_chunk_count]; /* there is one for each slot */
    return chunk_of(hub, slot);
}

static void release_if_over(struct agent_link_hub *hub, struct uring_slot *slot)
{
    if (slot->link == NULL && slot->ops == 0)
        hub->free_slots[hub->free_slot_count++] = (uint32_t)(slot - hub->slots);
}

/* ---- send ------------------------------------------------------------------------------------ */

static void send_failed(struct uring_link *link, int error)
{
    link->error = error;
    /* The receive that is armed ends and tells it, after all that has arrived. */
    if (error != EPIPE && error != ECONNRESET)
        (void)shutdown(link->fd, SHUT_RDWR);
}

static void queue_send(struct agent_link_hub *hub, struct uring_link *link)
{
    struct uring_slot *slot = &hub->slots[link->slot];
    struct io_uring_sqe *sqe = uring_sqe(&hub->uring);

    io_uring_prep_send(sqe, link->fd, chunk_of(hub, slot) + link->out_at,
                       link->out_len - link->out_at, MSG_NOSIGNAL | MSG_WAITALL);
    uring_set_data(sqe, URING_SEND, link->slot);
    slot->ops++;
    link->sending = true;
    link->sqe = sqe;
    link->queued_at = hub->uring.submits;
}

/* Fills the rest of the link's chunk. */
static void fill(struct agent_link_hub *hub, struct uring_link *link)
{
    uint8_t *chunk = chunk_of(hub, &hub->slots[link->slot]);
    size_t len = 1;

    while (len > 0 && URING_CHUNK_BYTES - link->out_len >= AGENT_PULL_LEAST) {
        len = hub->env.pull(link->ctx, chunk + link->out_len, URING_CHUNK_BYTES - link->out_len);
        link->out_len += (uint32_t)len;
    }
    link->again = len > 0; /* the rest, if there is one, goes with the next chunk */
}

static void gather(struct agent_link_hub *hub, struct uring_link *link)
{
    struct uring_slot *slot = &hub->slots[link->slot];

    (void)take_chunk(hub, slot);
    link->out_at = link->out_len = 0;
    fill(hub, link);
    if (link->out_len == 0) {
        release_chunk(hub, slot);
        return;
    }
    queue_send(hub, link);
    if (hub->uring.queued >= BATCH)
        uring_submit(&hub->uring);
}

/* More, while a send is under way: a second one might overtake it. */
static void append(struct agent_link_hub *hub, struct uring_link *link)
{
    if (link->queued_at != hub->uring.submits) {
        link->again = true;
        return;
    }
    fill(hub, link);
    link->sqe->len = link->out_len - link->out_at;
}

static void send_at_once(struct agent_link_hub *hub, struct uring_link *link)
{
    size_t len;

    while ((len = hub->env.pull(link->ctx, hub->out, URING_CHUNK_BYTES)) > 0) {
        ssize_t n = send(link->fd, hub->out, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (LS_LIKELY(n == (ssize_t)len))
            continue;
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            send_failed(link, errno);
            return;
        }
        n = n < 0 ? 0 : n;
        memcpy(take_chunk(hub, &hub->slots[link->slot]), hub->out + n, len - (size_t)n);
        link->out_at = 0;
        link->out_len = (uint32_t)(len - (size_t)n);
        link->again = true;
        queue_send(hub, link);
        return;
    }
}

static void flush(struct agent_link_hub *hub, void *state)
{
    struct uring_link *link = state;

    if (!link->is_open || link->connecting || link->error != 0)
        return;
    if (LS_UNLIKELY(link->sending))
        append(hub, link);
    else if (hub->env.at_once || hub->slot_count - hub->free_chunk_count >= CHUNKS_GATHERED)
        send_at_once(hub, link);
    else
        gather(hub, link);
}

static void on_sent(struct agent_link_hub *hub, struct uring_slot *slot, int res)
{
    struct uring_link *link = slot->link;

    if (link == NULL) {
        release_chunk(hub, slot);
        return;
    }
    link->sending = false;
    if (LS_LIKELY(res >= 0)) {
        link->out_at += (uint32_t)res;
        if (link->out_at < link->out_len) { /* an error that the rest will meet, too */
            queue_send(hub, link);
            return;
        }
    } else {
        send_failed(link, -res);
    }
    release_chunk(hub, slot);
    if (link->again)
        flush(hub, link);
}

/* ---- open, close ----------------------------------------------------------------------------- */

static void close_link(struct agent_link_hub *hub, void *state)
{
    struct uring_link *link = state;
    struct uring_slot *slot;

    if (!link->is_open)
        return;
    slot = &hub->slots[link->slot];
    link->is_open = false;
    slot->link = NULL;
    if (slot->ops > 0) {
        struct io_uring_sqe *sqe = uring_sqe(&hub->uring);

        io_uring_prep_cancel_fd(sqe, link->fd, IORING_ASYNC_CANCEL_ALL);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
        uring_set_data(sqe, URING_CANCEL, 0);
        /* At once: a queued send names the descriptor, and a receive under way keeps the
         * connection from being closed by the close of its descriptor. */
        uring_submit_and_collect(&hub->uring);
    }
    (void)close(link->fd); /* what it could say about lost bytes, we know already */
    release_if_over(hub, slot);
}

static void on_connected(struct agent_link_hub *hub, struct uring_slot *slot, int res)
{
    struct uring_link *link = slot->link;

    link->connecting = false;
    if (res == 0)
        uring_arm_receive(hub, link);
    else
        close_link(hub, link);
    hub->env.opened(link->ctx, -res);
}

/* -1: errno says why. */
static int open_socket(struct agent_link_hub *hub, int family)
{
    int yes = 1;
    /* Blocking: the ring waits for it, where a non-blocking one would say EAGAIN. */
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error;

    if (fd < 0)
        return -1;
    /* Fails for what is not TCP, where there is no delay to turn off. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    error = source_bind(fd, &hub->env, &hub->source_turn);
    if (error != 0) {
        (void)close(fd); /* never was connected */
        errno = error;
        return -1;
    }
    return fd;
}

static void open_link(struct agent_link_hub *hub, void *state, void *ctx,
                      const struct sockaddr *address, socklen_t address_len)
{
    struct uring_link *link = state;
    struct io_uring_sqe *sqe;
    int fd;

    if (!is_started(hub) || hub->free_slot_count == 0) {
        hub->env.opened(ctx, hub->error != 0 ? hub->error : EAGAIN);
        return;
    }
    fd = open_socket(hub, address->sa_family);
    if (fd < 0) {
        hub->env.opened(ctx, errno);
        return;
    }
    *link = (struct uring_link){ .ctx = ctx, .fd = fd, .is_open = true, .connecting = true };
    link->stamped = stamp_request(fd, &hub->env, &hub->stamp_turn);
    link->slot = hub->free_slots[--hub->free_slot_count];
    hub->slots[link->slot].link = link;
    hub->slots[link->slot].ops = 1;
    sqe = uring_sqe(&hub->uring);
    io_uring_prep_connect(sqe, fd, address, address_len);
    uring_set_data(sqe, URING_CONNECT, link->slot);
    uring_submit(&hub->uring); /* the address is the caller's */
}

/* ---- turn ------------------------------------------------------------------------------------ */

/* True if anybody was told of it. */
static bool complete(struct agent_link_hub *hub, const struct io_uring_cqe *cqe)
{
    struct uring_slot *slot = &hub->slots[cqe->user_data >> 8];
    enum uring_kind kind = (enum uring_kind)(cqe->user_data & 0xff);
    bool is_late;
    bool told = false;

    if (kind == URING_CANCEL) /* nothing was left to cancel */
        return false;
    if (kind == URING_WAKE) {
        await_wake(hub);
        return true;
    }
    is_late = slot->link == NULL;
    slot->ops -= (cqe->flags & IORING_CQE_F_MORE) == 0;
    if (LS_LIKELY(kind == URING_RECV)) {
        told = uring_on_received(hub, slot, cqe);
    } else if (kind == URING_READABLE) {
        told = uring_on_readable(hub, slot, cqe);
    } else if (kind == URING_SEND) {
        on_sent(hub, slot, cqe->res);
    } else if (slot->link != NULL) {
        on_connected(hub, slot, cqe->res);
        told = true;
    }
    if (is_late)
        release_if_over(hub, slot);
    return told;
}

static void wait_for_wake(const struct agent_link_hub *hub, int64_t until_ns)
{
    struct pollfd wakes = { .fd = hub->wake_fd, .events = POLLIN };
    int64_t left_ns = until_ns - ls_clock_mono_ns();
    struct timespec left = { .tv_sec = left_ns / LS_NS_PER_S, .tv_nsec = left_ns % LS_NS_PER_S };

    if (left_ns > 0)
        (void)ppoll(&wakes, 1, &left, NULL); /* that it ends is all that is wanted */
}

static void turn(struct agent_link_hub *hub, int64_t until_ns)
{
    bool told = false;

    if (!is_started(hub)) {
        wait_for_wake(hub, until_ns);
        return;
    }
    do {
        /* What completes during the callbacks is the next turn's. */
        unsigned n = uring_ready(&hub->uring);

        if (n == 0 && hub->min_wait_ns > 0)
            uring_wait_for_many(&hub->uring, hub->slot_count - hub->free_slot_count,
                                hub->min_wait_ns, until_ns);
        else
            uring_wait(&hub->uring, n > 0 ? 0 : until_ns);
        n = uring_ready(&hub->uring);
        if (n == 0)
            return;
        for (; n > 0; n--) {
            struct io_uring_cqe cqe = *uring_first(&hub->uring);

            uring_seen(&hub->uring);
            told |= complete(hub, &cqe);
        }
        /* Sends that completed are no reason to come back. */
    } while (!told && until_ns != 0);
}

const struct agent_link_class agent_link_uring = {
    .name = "tcp",
    .io = "io_uring",
    .link_size = sizeof(struct uring_link),
    .probe = uring_probe,
    .probe_min_wait = uring_probe_min_wait,
    .hub_create = hub_create,
    .hub_destroy = hub_destroy,
    .turn = turn,
    .wake = wake,
    .open = open_link,
    .flush = flush,
    .close = close_link,
};
