/* Receives of the io_uring link, in one of two ways for each connection.
 *
 * Small answers: a receive stays armed (multishot) and takes the kernel's pick of the worker's
 * buffers: one completion for each, and nothing to be submitted.
 *
 * Bulk: once a buffer was not enough, the kernel only says that there is something to read (a poll,
 * armed again after each read), and all that is there is read at once into one large buffer. When
 * completions are made the kernel fills the buffers of many connections in one go; 64 KiB of each
 * would have left the cache before they are looked at, and each 16 KiB are a completion. A
 * connection that brings small answers for a while goes back to the first way. */
#include <errno.h>
#include <poll.h>

#include "agent/load/links/stamp.h"
#include "agent/load/links/uring_impl.h"

#define SMALL_BYTES (URING_BUFFER_BYTES / 4) /* a read that the first way is better for */
#define SMALL_READS 16u                      /* in a row */

static void arm_poll(struct agent_link_hub *hub, struct uring_link *link)
{
    struct io_uring_sqe *sqe = uring_sqe(&hub->uring);

    io_uring_prep_poll_add(sqe, link->fd, POLLIN | POLLRDHUP);
    uring_set_data(sqe, URING_READABLE, link->slot);
    hub->slots[link->slot].ops++;
}

void uring_arm_receive(struct agent_link_hub *hub, struct uring_link *link)
{
    struct io_uring_sqe *sqe;

    if (link->bulk) {
        arm_poll(hub, link);
        return;
    }
    sqe = uring_sqe(&hub->uring);
    if (link->stamped)
        io_uring_prep_recvmsg_multishot(sqe, link->fd, &hub->shape, 0);
    else
        io_uring_prep_recv_multishot(sqe, link->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = URING_GROUP;
    uring_set_data(sqe, URING_RECV, link->slot);
    hub->slots[link->slot].ops++;
}

/* What is armed may have filled more buffers by then; its last completion says that it is over. */
static void begin_bulk(struct agent_link_hub *hub, struct uring_link *link)
{
    struct io_uring_sqe *sqe = uring_sqe(&hub->uring);

    link->bulk = true;
    link->small_reads = 0;
    io_uring_prep_cancel64(sqe, (uint64_t)link->slot << 8 | (uint64_t)URING_RECV, 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    uring_set_data(sqe, URING_CANCEL, 0);
}

/* What a receive left in buffer: the bytes, and when the kernel had them. No bytes: the end. */
static struct ls_bytes unpack(struct agent_link_hub *hub, const struct uring_link *link,
                              uint8_t *buffer, int res, int64_t *out_wall_ns)
{
    struct io_uring_recvmsg_out *head;

    *out_wall_ns = 0;
    if (!link->stamped)
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

bool uring_on_received(struct agent_link_hub *hub, struct uring_slot *slot,
                       const struct io_uring_cqe *cqe)
{
    struct uring_link *link = slot->link;
    bool has_buffer = (cqe->flags & IORING_CQE_F_BUFFER) != 0;
    unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    bool armed = (cqe->flags & IORING_CQE_F_MORE) != 0;
    bool told = link != NULL;
    struct ls_bytes in = { 0 };
    int64_t wall_ns = 0;

    if (link != NULL && has_buffer && cqe->res > 0)
        in = unpack(hub, link, uring_buffer(&hub->uring, id), cqe->res, &wall_ns);
    if (link == NULL) {
        told = false;
    } else if (LS_LIKELY(in.len > 0)) {
        hub->env.bytes(link->ctx, in, wall_ns);
        link = slot->link; /* NULL: closed meanwhile */
    } else if (cqe->res == -ENOBUFS || (cqe->res == -ECANCELED && link->bulk)) {
        told = false; /* all were in use; those that were read are on offer again */
    } else if (cqe->res < 0 || !armed) {
        end(hub, link, cqe->res < 0 ? -cqe->res : 0);
        link = NULL; /* the callee has closed it */
    }
    if (has_buffer)
        uring_offer(&hub->uring, id);
    if (link == NULL)
        return told;
    if (!armed)
        uring_arm_receive(hub, link);
    else if (LS_UNLIKELY(cqe->res == (int)URING_BUFFER_BYTES && !link->bulk))
        begin_bulk(hub, link);
    return told;
}

static ssize_t read_bulk(struct agent_link_hub *hub, const struct uring_link *link,
                         int64_t *out_wall_ns)
{
    ssize_t n;

    do {
        n = link->stamped
                ? stamp_receive(link->fd, hub->bulk, URING_BULK_BYTES, MSG_DONTWAIT, out_wall_ns)
                : recv(link->fd, hub->bulk, URING_BULK_BYTES, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n;
}

bool uring_on_readable(struct agent_link_hub *hub, struct uring_slot *slot,
                       const struct io_uring_cqe *cqe)
{
    struct uring_link *link = slot->link;
    int64_t wall_ns = 0;
    ssize_t n;

    if (link == NULL)
        return false;
    n = cqe->res < 0 ? -1 : read_bulk(hub, link, &wall_ns);
    if (n > 0) {
        if ((size_t)n > SMALL_BYTES)
            link->small_reads = 0;
        else if (++link->small_reads == SMALL_READS)
            link->bulk = false;
        hub->env.bytes(link->ctx, (struct ls_bytes){ .data = hub->bulk, .len = (size_t)n },
                       wall_ns);
    } else if (n == 0 || cqe->res < 0 || errno != EAGAIN) {
        end(hub, link, n == 0 ? 0 : cqe->res < 0 ? -cqe->res : errno);
    }
    if (slot->link == NULL) /* closed by the callee */
        return true;
    uring_arm_receive(hub, link);
    return n > 0;
}
