/* agent/load/links/uring_ring.h - one thread's io_uring, with buffers that the kernel picks for
 * what arrives.
 *
 * Created and destroyed by the control thread, used by one other: the ring is born disabled, so
 * that the thread that starts it becomes its only submitter (SINGLE_ISSUER, which DEFER_TASKRUN
 * needs). Completions come about only inside uring_wait() and uring_submit_and_collect(). Nothing
 * here allocates after init().
 */
#ifndef LS_AGENT_LOAD_LINKS_URING_RING_H
#define LS_AGENT_LOAD_LINKS_URING_RING_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define URING_BUFFER_BYTES 16384u
#define URING_BUFFERS_MIN  64u
#define URING_BUFFERS_MAX  512u
#define URING_GROUP        0 /* of the buffers, as IOSQE_BUFFER_SELECT names it */

struct uring {
    struct io_uring ring;
    bool has_ring;
    bool started;
    bool registered;   /* the kernel knows it by a number of its own: enter by that */
    bool has_min_wait; /* the kernel can wait for several completions, for some time */
    struct io_uring_buf_ring *offers; /* owned, mapped; which buffers the kernel may take */
    uint8_t *buffers;                 /* owned, mapped */
    unsigned buffer_count;            /* a power of two */
    unsigned queued;                  /* since the last submit */
    uint64_t submits; /* so far: what was queued at an earlier count, the kernel has seen */
};

/* A buffer for each of links_max, within the limits above. LS_EIO: io_uring does not work here, and
 * diag says why; LS_ENOMEM. On failure fini() still has to be called, once. */
enum ls_err uring_init(struct uring *uring, uint32_t links_max, struct ls_diag *diag) LS_NODISCARD;
void uring_fini(struct uring *uring);

/* By the thread that will use it, before all that follows. 0, or an errno value. */
int uring_start(struct uring *uring);

/* Never NULL: submits what is queued if there is no room. */
struct io_uring_sqe *uring_sqe(struct uring *uring);
void uring_submit(struct uring *uring);
/* Also makes completions of what is complete; does not wait. */
void uring_submit_and_collect(struct uring *uring);
/* Submits, and waits for a completion until the monotonic instant until_ns at the latest. */
void uring_wait(struct uring *uring, int64_t until_ns);

/* The same, but for many completions, unless least_ns have passed: then one is enough. Needs
 * has_min_wait. */
void uring_wait_for_many(struct uring *uring, unsigned many, int64_t least_ns, int64_t until_ns);

/* How many completions are there. */
unsigned uring_ready(const struct uring *uring);
/* The first of them, to be given back by uring_seen() before anything else is called here. */
const struct io_uring_cqe *uring_first(struct uring *uring);
void uring_seen(struct uring *uring);

uint8_t *uring_buffer(const struct uring *uring, unsigned id);
void uring_offer(struct uring *uring, unsigned id); /* the kernel may fill it again */

/* Does io_uring work here, with all that is used of it? Tried once per process; the answer is kept.
 * LS_EIO, with the reason. Any thread. */
enum ls_err uring_probe(struct ls_diag *diag) LS_NODISCARD;
/* And uring_wait_for_many()? */
enum ls_err uring_probe_min_wait(struct ls_diag *diag) LS_NODISCARD;

#endif
