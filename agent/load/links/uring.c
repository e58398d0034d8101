/* TCP on io_uring completion: receives stay armed and take the kernel's pick of the worker's
 * buffers, sends are gathered and go with the wait (or at once, where the instant counts).
 *
 * What the kernel may still complete belongs to a slot, not to a link: a slot is used again only
 * when nothing of it is under way, so a late completion finds a slot without a link and touches
 * nothing else. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/load/link.h"
#include "agent/load/links/source.h"
#include "agent/load/links/stamp.h"
#include "agent/load/links/uring_ring.h"
#include "common/clock.h"

#define CHUNK_BYTES 16384u /* most that is pulled at once */
#define NO_CHUNK    UINT32_MAX
/* So many sends are gathered at most: the last of a batch leaves later than it was pulled by the
 * time that the others take, some 3.5 us each. */
#define BATCH 32u
/* Chunks that gathered sends may hold at once, so that 100,000 connections that start together do
 * not touch as many pages: beyond it, sends are made at once. */
#define CHUNKS_GATHERED 256u

enum kind { KIND_WAKE, KIND_CANCEL, KIND_CONNECT, KIND_RECV, KIND_SEND };

struct uring_link {
    void *ctx;
    uint32_t slot;
    int fd;
    bool is_open;
    bool connecting;
    bool sending;             /* its slot's chunk is under way */
    bool again;               /* flush() came meanwhile */
    int error;                /* of a failed send, until it is reported; 0: none */
    uint32_t out_at;          /* of the chunk: sent */
    uint32_t out_len;         /* and filled */
    struct io_uring_sqe *sqe; /* of the send, which may grow ... */
    uint64_t queued_at;       /* ... while hub->uring.submits has this value */
};

struct slot {
    struct uring_link *link; /* NULL: closed, or free */
    uint32_t chunk;          /* of the send under way; NO_CHUNK: none */
    uint32_t ops;            /* that will complete yet */
};

struct agent_link_hub {
    struct uring uring;
    struct agent_link_env env;
    uint32_t source_turn;
    struct msghdr shape; /* of what a stamped receive writes to its buffer */
    int wake_fd;         /* owned */
    int error;           /* why the ring did not start; 0: it has, or was not needed yet */
    uint64_t woken;      /* read from wake_fd by the kernel */
    /* Two for each link: the one that it has, and one of before that is still being cancelled. */
    struct slot *slots;    /* owned */
    uint32_t *free_slots;  /* owned; a stack */
    uint32_t *free_chunks; /* owned; a stack, so that the same few are used */
    uint8_t *chunks;       /* owned, mapped: costs memory only where it was used */
    uint32_t slot_count;   /* and chunks */
    uint32_t free_slot_count;
    uint32_t free_chunk_count;
    uint8_t out[CHUNK_BYTES];
};

/* ---- hub ------------------------------------------------------------------------------------- */

static void hub_destroy(struct agent_link_hub *hub)
{
    if (hub == NULL)
        return;
    uring_fini(&hub->uring);
    if (hub->wake_fd >= 0)
        (void)close(hub->wake_fd); /* holds nothing */
    if (hub->chunks != NULL)
        (void)munmap(hub->chunks, (size_t)hub->slot_count * CHUNK_BYTES); /* mapped here */
    free(hub->slots);
    free(hub->free_slots);
    free(hub->free_chunks);
    free(hub);
}

static enum ls_err alloc_slots(struct agent_link_hub *hub, uint32_t count)
{
    void *chunks;

    hub->slots = calloc(count, sizeof(*hub->slots));
    hub->free_slots = calloc(count, sizeof(*hub->free_slots));
    hub->free_chunks = calloc(count, sizeof(*hub->free_chunks));
    if (hub->slots == NULL || hub->free_slots == NULL || hub->free_chunks == NULL)
        return LS_ENOMEM;
    chunks = mmap(NULL, (size_t)count * CHUNK_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (chunks == MAP_FAILED)
        return LS_ENOMEM;
    hub->chunks = chunks;
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

static void set_data(struct io_uring_sqe *sqe, enum kind kind, uint32_t slot)
{
    sqe->user_data = (uint64_t)slot << 8 | (uint64_t)kind;
}

static void await_wake(struct agent_link_hub *hub)
{
    struct io_uring_sqe *sqe = uring_sqe(&hub->uring);

    io_uring_prep_read(sqe, hub->wake_fd, &hub->woken, sizeof(hub->woken), 0);
    set_data(sqe, KIND_WAKE, 0);
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

static void release_chunk(struct agent_link_hub *hub, struct slot *slot)
{
    hub->free_chunks[hub->free_chunk_count++] = slot->chunk;
    slot->chunk = NO_CHUNK;
}

static uint8_t *take_chunk(struct agent_link_hub *hub, struct slot *slot)
{
    slot->chunk = hub->free_chunks[--hub->free_chunk_count]; /* there is one for each slot */
    return hub->chunks + (size_t)slot->chunk * CHUNK_BYTES;
}

static void release_if_over(struct agent_link_hub *hub, struct slot *slot)
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
    struct slot *slot = &hub->slots[link->slot];
    struct io_uring_sqe *sqe = uring_sqe(&hub->uring);

    io_uring_prep_send(sqe, link->fd,
                       hub->chunks + (size_t)slot->chunk * CHUNK_BYTES + link->out_at,
                       link->out_len - link->out_at, MSG_NOSIGNAL | MSG_WAITALL);
    set_data(sqe, KIND_SEND, link->slot);
    slot->ops++;
    link->sending = true;
    link->sqe = sqe;
    link->queued_at = hub->uring.submits;
}

/* Fills the rest of the link's chunk. */
static void fill(struct agent_link_hub *hub, struct uring_link *link)
{
    uint8_t *chunk = hub->chunks + (size_t)hub->slots[link->slot].chunk * CHUNK_BYTES;
    size_t len = 1;

    while (len > 0 && CHUNK_BYTES - link->out_len >= AGENT_PULL_LEAST) {
        len = hub->env.pull(link->ctx, chunk + link->out_len, CHUNK_BYTES - link->out_len);
        link->out_len += (uint32_t)len;
    }
    link->again = len > 0; /* the rest, if there is one, goes with the next chunk */
}

static void gather(struct agent_link_hub *hub, struct uring_link *link)
{
    struct slot *slot = &hub->slots[link->slot];

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

    while ((len = hub->env.pull(link->ctx, hub->out, CHUNK_BYTES)) > 0) {
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

static void on_sent(struct agent_link_hub *hub, struct slot *slot, int res)
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

/* ---- receive --------------------------------------------------------------------------------- */

static void arm_receive(struct agent_link_hub *hub, struct uring_link *link)
{
    struct io_uring_sqe *sqe = uring_sqe(&hub->uring);

    if (hub->env.stamps)
        io_uring_prep_recvmsg_multishot(sqe, link->fd, &hub->shape, 0);
    else
        io_uring_prep_recv_multishot(sqe, link->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = URING_GROUP;
    set_data(sqe, KIND_RECV, link->slot);
    hub->slots[link->slot].ops++;
}

/* What a receive left in buffer: the bytes, and when the kernel had them. No bytes: the end. */
static struct ls_bytes unpack(struct agent_link_hub *hub, uint8_t *buffer, int res,
                              int64_t *out_wall_ns)
{
    struct io_uring_recvmsg_out *head;

    *out_wall_ns = 0;
    if (!hub->env.stamps)
        return (struct ls_bytes){ .data = buffer, .len = (size_t)res };
    head = io_uring_recvmsg_validate(buffer, res, &hub->shape);
    if (head == NULL)
        return (struct ls_bytes){ 0 };
    for (struct cmsghdr *c = io_uring_recvmsg_cmsg_firsthdr(head, &hub->shape); c != NULL;
         c = io_uring_recvmsg_cmsg_nexthdr(head, &hub->shape, c))
        stamp_read(c, out_wall_ns);
    return (struct ls_bytes){ .data = io_uring_recvmsg_payload(head, &hub->shape),
                              .len = io_uring_recvmsg_payload_length(head, res, &hub->shape) };
}

static void end(struct agent_link_hub *hub, struct uring_link *link, int error)
{
    if (link->error == 0)
        link->error = error;
    hub->env.ended(link->ctx, link->error != 0 ? LOAD_RESET : LOAD_CLOSED_EARLY, link->error);
}

/* True if the link was told something. */
static bool on_received(struct agent_link_hub *hub, struct slot *slot,
                        const struct io_uring_cqe *cqe)
{
    struct uring_link *link = slot->link;
    bool has_buffer = (cqe->flags & IORING_CQE_F_BUFFER) != 0;
    unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    bool armed = (cqe->flags & IORING_CQE_F_MORE) != 0;
    bool told = link != NULL;
    struct ls_bytes in = { 0 };
    int64_t wall_ns = 0;

    if (has_buffer && cqe->res > 0)
        in = unpack(hub, uring_buffer(&hub->uring, id), cqe->res, &wall_ns);
    if (link == NULL) {
        told = false;
    } else if (LS_LIKELY(in.len > 0)) {
        hub->env.bytes(link->ctx, in, wall_ns);
        link = slot->link; /* NULL: closed meanwhile */
    } else if (cqe->res == -ENOBUFS) {
        told = false; /* all were in use; those that were read are on offer again */
    } else if (cqe->res < 0 || !armed) {
        end(hub, link, cqe->res < 0 ? -cqe->res : 0);
        link = NULL; /* the callee has closed it */
    }
    if (has_buffer)
        uring_offer(&hub->uring, id);
    if (link != NULL && !armed)
        arm_receive(hub, link);
    return told;
}

/* ---- open, close ----------------------------------------------------------------------------- */

static void close_link(struct agent_link_hub *hub, void *state)
{
    struct uring_link *link = state;
    struct slot *slot;

    if (!link->is_open)
        return;
    slot = &hub->slots[link->slot];
    link->is_open = false;
    slot->link = NULL;
    if (slot->ops > 0) {
        struct io_uring_sqe *sqe = uring_sqe(&hub->uring);

        io_uring_prep_cancel_fd(sqe, link->fd, IORING_ASYNC_CANCEL_ALL);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
        set_data(sqe, KIND_CANCEL, 0);
        /* At once: a queued send names the descriptor, and a receive under way keeps the
         * connection from being closed by the close of its descriptor. */
        uring_submit_and_collect(&hub->uring);
    }
    (void)close(link->fd); /* what it could say about lost bytes, we know already */
    release_if_over(hub, slot);
}

static void on_connected(struct agent_link_hub *hub, struct slot *slot, int res)
{
    struct uring_link *link = slot->link;

    link->connecting = false;
    if (res == 0)
        arm_receive(hub, link);
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
    if (hub->env.stamps)
        stamp_request(fd);
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
    link->slot = hub->free_slots[--hub->free_slot_count];
    hub->slots[link->slot].link = link;
    hub->slots[link->slot].ops = 1;
    sqe = uring_sqe(&hub->uring);
    io_uring_prep_connect(sqe, fd, address, address_len);
    set_data(sqe, KIND_CONNECT, link->slot);
    uring_submit(&hub->uring); /* the address is the caller's */
}

/* ---- turn ------------------------------------------------------------------------------------ */

/* True if anybody was told of it. */
static bool complete(struct agent_link_hub *hub, const struct io_uring_cqe *cqe)
{
    struct slot *slot = &hub->slots[cqe->user_data >> 8];
    enum kind kind = (enum kind)(cqe->user_data & 0xff);
    bool is_late;
    bool told = false;

    if (kind == KIND_CANCEL) /* nothing was left to cancel */
        return false;
    if (kind == KIND_WAKE) {
        await_wake(hub);
        return true;
    }
    is_late = slot->link == NULL;
    slot->ops -= (cqe->flags & IORING_CQE_F_MORE) == 0;
    if (LS_LIKELY(kind == KIND_RECV)) {
        told = on_received(hub, slot, cqe);
    } else if (kind == KIND_SEND) {
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

static enum ls_err probe(struct ls_diag *diag)
{
    return uring_probe(diag);
}

const struct agent_link_class agent_link_uring = {
    .name = "tcp",
    .io = "io_uring",
    .link_size = sizeof(struct uring_link),
    .probe = probe,
    .hub_create = hub_create,
    .hub_destroy = hub_destroy,
    .turn = turn,
    .wake = wake,
    .open = open_link,
    .flush = flush,
    .close = close_link,
};
