#include "agent/load/links/uring_ring.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"

#define SQ_ENTRIES 256u
#define CQ_ENTRIES 4096u /* the kernel keeps more than that until there is room */
/* Buffers begin at different places of a page: the first lines of all of them would otherwise share
 * a few sets of the cache. */
#define STRIDE_BYTES (URING_BUFFER_BYTES + 192u)

#define FEATURE_MIN_WAIT (1u << 15) /* IORING_FEAT_MIN_TIMEOUT, Linux 6.12 */

/* struct io_uring_getevents_arg, as kernels and headers of 6.12 have it. */
struct wait_argument {
    uint64_t sigmask;
    uint32_t sigmask_bytes;
    uint32_t min_wait_us;
    uint64_t timeout;
};
static_assert(sizeof(struct wait_argument) == sizeof(struct io_uring_getevents_arg), "kernel's");

/* ---- life ------------------------------------------------------------------------------------ */

static enum ls_err explain(int error, const char *what, struct ls_diag *diag)
{
    const char *why = strerror(error);

    if (error == ENOSYS)
        why = "this kernel has no io_uring, or a filter (seccomp, of containers) hides it";
    else if (error == EINVAL)
        why = "this kernel is too old for it (6.1 or newer is needed)";
    else if (error == EPERM || error == EACCES)
        why = "not permitted: a seccomp filter, as containers have, or kernel.io_uring_disabled";
    else if (error == ENOMEM)
        why = "no memory, or more of it locked than RLIMIT_MEMLOCK allows (ulimit -l)";
    return ls_fail(diag, LS_EIO, "io_uring: %s: %s", what, why);
}

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return at != MAP_FAILED ? at : NULL;
}

static size_t offers_bytes(const struct uring *uring)
{
    return uring->buffer_count * sizeof(struct io_uring_buf);
}

static enum ls_err init_buffers(struct uring *uring, uint32_t links_max, struct ls_diag *diag)
{
    struct io_uring_buf_reg reg = { .bgid = URING_GROUP };
    int error;

    uring->buffer_count = URING_BUFFERS_MIN;
    while (uring->buffer_count < links_max && uring->buffer_count < URING_BUFFERS_MAX)
        uring->buffer_count *= 2;
    uring->buffers = map((size_t)uring->buffer_count * STRIDE_BYTES);
    uring->offers = map(offers_bytes(uring));
    if (uring->buffers == NULL || uring->offers == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for %u receive buffers", uring->buffer_count);
    io_uring_buf_ring_init(uring->offers);
    for (unsigned id = 0; id < uring->buffer_count; id++)
        uring_offer(uring, id);
    reg.ring_addr = (uint64_t)(uintptr_t)uring->offers;
    reg.ring_entries = uring->buffer_count;
    error = -io_uring_register_buf_ring(&uring->ring, &reg, 0);
    return error == 0 ? LS_OK : explain(error, "cannot register receive buffers", diag);
}

enum ls_err uring_init(struct uring *uring, uint32_t links_max, struct ls_diag *diag)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
        .cq_entries = CQ_ENTRIES,
    };
    int error;

    *uring = (struct uring){ 0 };
    error = -io_uring_queue_init_params(SQ_ENTRIES, &uring->ring, &params);
    if (error != 0)
        return explain(error, "cannot set up a ring", diag);
    uring->has_ring = true;
    if ((params.features & IORING_FEAT_EXT_ARG) == 0 || (params.features & IORING_FEAT_NODROP) == 0)
        return explain(EINVAL, "cannot set up a ring", diag);
    uring->has_min_wait = (params.features & FEATURE_MIN_WAIT) != 0;
    return init_buffers(uring, links_max, diag);
}

void uring_fini(struct uring *uring)
{
    if (uring->has_ring)
        io_uring_queue_exit(&uring->ring);
    if (uring->buffers != NULL)
        (void)munmap(uring->buffers, (size_t)uring->buffer_count * STRIDE_BYTES); /* mapped here */
    if (uring->offers != NULL)
        (void)munmap(uring->offers, offers_bytes(uring));
    *uring = (struct uring){ 0 };
}

int uring_start(struct uring *uring)
{
    /* liburing 2.3 has io_uring_enable_rings() in its header but not in its library. */
    if (syscall(SYS_io_uring_register, uring->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL,
                0) != 0)
        return errno;
    uring->started = true;
    /* Saves a look-up in each call; where it fails, that look-up is made. */
    uring->registered = io_uring_register_ring_fd(&uring->ring) == 1;
    return 0;
}

/* ---- queues ---------------------------------------------------------------------------------- */

struct io_uring_sqe *uring_sqe(struct uring *uring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

    while (sqe == NULL) { /* a kernel short of memory takes them later */
        uring_submit_and_collect(uring);
        sqe = io_uring_get_sqe(&uring->ring);
        if (sqe == NULL)
            (void)sched_yield(); /* cannot fail on Linux */
    }
    uring->queued++;
    return sqe;
}

/* What the kernel did not take stays queued and goes with the next call: no error is final. */
static void submitted(struct uring *uring)
{
    uring->queued = 0;
    uring->submits++;
}

void uring_submit(struct uring *uring)
{
    (void)io_uring_submit(&uring->ring); /* see above */
    submitted(uring);
}

void uring_submit_and_collect(struct uring *uring)
{
    (void)io_uring_submit_and_get_events(&uring->ring); /* see above */
    submitted(uring);
}

void uring_wait(struct uring *uring, int64_t until_ns)
{
    int64_t left_ns = until_ns - ls_clock_mono_ns();
    struct __kernel_timespec left;
    struct io_uring_cqe *cqe;

    if (left_ns <= 0) {
        uring_submit_and_collect(uring);
        return;
    }
    left = (struct __kernel_timespec){ .tv_sec = left_ns / LS_NS_PER_S,
                                       .tv_nsec = left_ns % LS_NS_PER_S };
    /* Ends in time, by a signal or with a completion: whoever called looks for those. */
    (void)io_uring_submit_and_wait_timeout(&uring->ring, &cqe, 1, &left, NULL);
    submitted(uring);
}

void uring_wait_for_many(struct uring *uring, unsigned many, int64_t least_ns, int64_t until_ns)
{
    int64_t left_ns = until_ns - ls_clock_mono_ns();
    unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG |
                     (uring->registered ? IORING_ENTER_REGISTERED_RING : 0);
    struct __kernel_timespec left = { .tv_sec = left_ns / LS_NS_PER_S,
                                      .tv_nsec = left_ns % LS_NS_PER_S };
    struct wait_argument wait = { .min_wait_us = (uint32_t)(least_ns / LS_NS_PER_US),
                                  .timeout = (uint64_t)(uintptr_t)&left };

    if (left_ns <= least_ns) {
        uring_wait(uring, until_ns);
        return;
    }
    /* Two calls: the library cannot say min_wait_us. What has been sent has completed by then. */
    uring_submit_and_collect(uring);
    if (uring_ready(uring) > 0)
        return;
    (void)io_uring_enter2(uring->ring.enter_ring_fd, 0, uring_ready(uring) + many, flags,
                          (sigset_t *)(void *)&wait, sizeof(wait)); /* as in uring_wait() */
}

unsigned uring_ready(const struct uring *uring)
{
    return io_uring_cq_ready(&uring->ring);
}

const struct io_uring_cqe *uring_first(struct uring *uring)
{
    const struct io_uring_cq *cq = &uring->ring.cq;

    return &cq->cqes[*cq->khead & *cq->kring_mask];
}

void uring_seen(struct uring *uring)
{
    io_uring_cq_advance(&uring->ring, 1);
}

uint8_t *uring_buffer(const struct uring *uring, unsigned id)
{
    return uring->buffers + (size_t)id * STRIDE_BYTES;
}

void uring_offer(struct uring *uring, unsigned id)
{
    io_uring_buf_ring_add(uring->offers, uring_buffer(uring, id), URING_BUFFER_BYTES,
                          (unsigned short)id, (int)(uring->buffer_count - 1), 0);
    io_uring_buf_ring_advance(uring->offers, 1);
}

/* ---- probe ----------------------------------------------------------------------------------- */

static pthread_once_t probe_once = PTHREAD_ONCE_INIT;
static struct ls_diag probe_diag; /* LS_OK: it works */
static bool probe_min_wait;

/* A thread's whole road but for the sockets. That DEFER_TASKRUN is known means that multishot
 * receives are: they are older. */
static void try_once(void)
{
    struct uring uring;

    probe_diag.code = uring_init(&uring, 1, &probe_diag);
    if (probe_diag.code == LS_OK) {
        int error = uring_start(&uring);

        if (error == 0) {
            io_uring_prep_nop(uring_sqe(&uring));
            uring_submit_and_collect(&uring);
            error = uring_ready(&uring) == 1 ? 0 : EIO;
            probe_min_wait = uring.has_min_wait;
        }
        if (error != 0)
            probe_diag.code = explain(error, "cannot use a ring", &probe_diag);
    }
    uring_fini(&uring);
}

enum ls_err uring_probe(struct ls_diag *diag)
{
    (void)pthread_once(&probe_once, try_once); /* fails for a bad argument only */
    if (probe_diag.code != LS_OK && diag != NULL)
        *diag = probe_diag;
    return probe_diag.code;
}

enum ls_err uring_probe_min_wait(struct ls_diag *diag)
{
    enum ls_err rc = uring_probe(diag);

    if (rc == LS_OK && !probe_min_wait)
        rc = ls_fail(diag, LS_EIO, "this kernel is too old for it (6.12 or newer is needed)");
    return rc;
}
