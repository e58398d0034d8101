/* agent/load/links/uring_impl.h - what uring.c (hub, sends, connects, turns) and uring_recv.c
 * (receives) share. Nobody else includes this.
 *
 * What the kernel may still complete belongs to a slot, not to a link: a slot is used again only
 * when nothing of it is under way, so a late completion finds a slot without a link and touches
 * nothing else. */
#ifndef LS_AGENT_LOAD_LINKS_URING_IMPL_H
#define LS_AGENT_LOAD_LINKS_URING_IMPL_H

#include "agent/load/link.h"
#include "agent/load/links/uring_ring.h"

#define URING_CHUNK_BYTES 16384u /* most that is pulled at once */
/* Most that is read at once of a connection that brings much. Only what is used of it costs memory
 * and cache, and an answer and its head should fit. */
#define URING_BULK_BYTES 262144u

enum uring_kind {
    URING_WAKE,
    URING_CANCEL,
    URING_CONNECT,
    URING_RECV,
    URING_READABLE, /* of a connection in bulk */
    URING_SEND
};

struct uring_link {
    void *ctx;
    uint32_t slot;
    int fd;
    bool is_open;
    bool connecting;
    bool sending;             /* its slot's chunk is under way */
    bool again;               /* flush() came meanwhile */
    bool stamped;             /* by the kernel: receives come with a head and a stamp */
    bool bulk;                /* waits for bytes and reads them itself: see uring_recv.c */
    uint8_t small_reads;      /* in a row, in bulk */
    int error;                /* of a failed send, until it is reported; 0: none */
    uint32_t out_at;          /* of the chunk: sent */
    uint32_t out_len;         /* and filled */
    struct io_uring_sqe *sqe; /* of the send, which may grow ... */
    uint64_t queued_at;       /* ... while hub->uring.submits has this value */
};

struct uring_slot {
    struct uring_link *link; /* NULL: closed, or free */
    uint32_t chunk;          /* of the send under way */
    uint32_t ops;            /* that will complete yet */
};

struct agent_link_hub {
    struct uring uring;
    struct agent_link_env env;
    uint32_t source_turn;
    uint32_t stamp_turn;
    struct msghdr shape; /* of what a stamped receive writes to its buffer */
    int wake_fd;         /* owned */
    int error;           /* why the ring did not start; 0: it has, or was not needed yet */
    uint64_t woken;      /* read from wake_fd by the kernel */
    int64_t min_wait_ns; /* 0: turns end with the first completion */
    /* Two for each link: the one that it has, and one of before that is still being cancelled. */
    struct uring_slot *slots; /* owned */
    uint32_t *free_slots;     /* owned; a stack */
    uint32_t *free_chunks;    /* owned; a stack, so that the same few are used */
    uint8_t *chunks;          /* owned, mapped: costs memory only where it was used */
    uint8_t *bulk;            /* owned, mapped */
    uint32_t slot_count;      /* and chunks */
    uint32_t free_slot_count;
    uint32_t free_chunk_count;
    uint8_t out[URING_CHUNK_BYTES];
};

static inline void uring_set_data(struct io_uring_sqe *sqe, enum uring_kind kind, uint32_t slot)
{
    sqe->user_data = (uint64_t)slot << 8 | (uint64_t)kind;
}

/* uring_recv.c. A connection that has just been established waits for bytes from here on. */
void uring_arm_receive(struct agent_link_hub *hub, struct uring_link *link);
/* Completions of it; slot->link may be NULL. True if the link was told something. */
bool uring_on_received(struct agent_link_hub *hub, struct uring_slot *slot,
                       const struct io_uring_cqe *cqe);
bool uring_on_readable(struct agent_link_hub *hub, struct uring_slot *slot,
                       const struct io_uring_cqe *cqe);

#endif
