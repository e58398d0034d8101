/* The least that a request over loopback TCP costs a client here: io_uring as bare as it can be,
 * and nothing is looked at but how many bytes have come. No tool that reads its answers can be
 * cheaper, so its ratio to wrk says how much of a target is the machine's.
 *
 *     bench_floor PORT CONNECTIONS SECONDS ANSWER-BYTES
 *
 * ANSWER-BYTES of head and body are an answer. One request on a connection at a time; prints
 * "requests=N bad=0 ".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"

#define CONNS_MAX 4096u
#define BUFS      512u /* a power of two; few and small, so that they stay in the cache */
#define BUF_BYTES 256u
#define GROUP     0
#define IS_SEND   (UINT64_C(1) << 32)

static const char get[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

static struct io_uring ring;
static struct io_uring_buf_ring *offers;
static unsigned char *bufs;
static size_t pending[CONNS_MAX]; /* bytes of the answer that are still to come */
static size_t answer_bytes;
static uint64_t answers;

static void die(const char *what, int error)
{
    (void)fprintf(stderr, "bench_floor: %s: %s\n", what, strerror(error));
    exit(1);
}

static struct io_uring_sqe *get_sqe(void)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

    if (sqe == NULL) {
        (void)io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    if (sqe == NULL)
        die("no room in the ring", ENOSPC);
    return sqe;
}

static void ask(unsigned i)
{
    struct io_uring_sqe *sqe = get_sqe();

    io_uring_prep_send(sqe, (int)i, get, sizeof(get) - 1, MSG_NOSIGNAL | MSG_WAITALL);
    sqe->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = IS_SEND | i;
    pending[i] = answer_bytes;
}

static void listen_to(unsigned i)
{
    struct io_uring_sqe *sqe = get_sqe();

    io_uring_prep_recv_multishot(sqe, (int)i, NULL, 0, 0);
    sqe->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
    sqe->buf_group = GROUP;
    sqe->user_data = i;
}

static void offer(unsigned id, int place)
{
    io_uring_buf_ring_add(offers, bufs + (size_t)id * BUF_BYTES, BUF_BYTES, (unsigned short)id,
                          io_uring_buf_ring_mask(BUFS), place);
}

static void open_ring(const int *fds, unsigned count)
{
    struct io_uring_params params = { .flags = IORING_SETUP_SINGLE_ISSUER |
                                               IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
                                      .cq_entries = 2 * CONNS_MAX };
    struct io_uring_buf_reg reg = { .ring_entries = BUFS, .bgid = GROUP };
    void *memory = NULL;
    int rc = io_uring_queue_init_params(CONNS_MAX, &ring, &params);

    if (rc < 0)
        die("io_uring", -rc);
    rc = io_uring_register_files(&ring, fds, count);
    if (rc < 0)
        die("io_uring files", -rc);
    (void)io_uring_register_ring_fd(&ring); /* only saves a look-up */
    bufs = malloc((size_t)BUFS * BUF_BYTES);
    if (bufs == NULL || posix_memalign(&memory, 4096, BUFS * sizeof(struct io_uring_buf)) != 0)
        die("buffers", ENOMEM);
    offers = memory;
    reg.ring_addr = (uintptr_t)memory;
    rc = io_uring_register_buf_ring(&ring, &reg, 0);
    if (rc < 0)
        die("io_uring buffers", -rc);
    io_uring_buf_ring_init(offers);
    for (unsigned id = 0; id < BUFS; id++)
        offer(id, (int)id);
    io_uring_buf_ring_advance(offers, BUFS);
}

static int open_connection(unsigned port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) != 0)
        die("connect", errno);
    return fd;
}

/* True if a buffer has been used up, and given back. */
static bool take(const struct io_uring_cqe *cqe, int given_back)
{
    unsigned i = (unsigned)cqe->user_data;

    if (cqe->res <= 0 && cqe->res != -ENOBUFS)
        die("a connection ended", -cqe->res);
    if (cqe->res > 0) {
        if ((size_t)cqe->res > pending[i])
            die("more bytes than an answer has", EPROTO);
        pending[i] -= (size_t)cqe->res;
        offer(cqe->flags >> IORING_CQE_BUFFER_SHIFT, given_back);
        if (pending[i] == 0) {
            answers++;
            ask(i);
        }
    }
    if ((cqe->flags & IORING_CQE_F_MORE) == 0)
        listen_to(i);
    return cqe->res > 0;
}

static void drive(int64_t until_ns)
{
    while (ls_clock_mono_ns() < until_ns) {
        struct io_uring_cqe *cqe;
        unsigned head;
        unsigned seen = 0;
        int given_back = 0;
        int rc = io_uring_submit_and_wait(&ring, 1);

        if (rc < 0 && rc != -EINTR)
            die("io_uring_enter", -rc);
        io_uring_for_each_cqe(&ring, head, cqe)
        {
            seen++;
            if ((cqe->user_data & IS_SEND) != 0)
                die("send", cqe->res < 0 ? -cqe->res : EIO);
            given_back += take(cqe, given_back);
        }
        io_uring_cq_advance(&ring, seen);
        io_uring_buf_ring_advance(offers, given_back);
    }
}

int main(int argc, char **argv)
{
    unsigned long numbers[4] = { 0 };
    static int fds[CONNS_MAX];

    for (int i = 1; i < argc && i < 5; i++) {
        char *end = NULL;

        numbers[i - 1] = strtoul(argv[i], &end, 10);
        if (*end != '\0')
            numbers[i - 1] = 0;
    }
    if (argc != 5 || numbers[0] > 65535 || numbers[1] == 0 || numbers[1] > CONNS_MAX ||
        numbers[2] == 0 || numbers[3] == 0) {
        (void)fprintf(stderr, "usage: bench_floor PORT CONNECTIONS SECONDS ANSWER-BYTES\n");
        return 2;
    }
    answer_bytes = numbers[3];
    for (unsigned i = 0; i < numbers[1]; i++)
        fds[i] = open_connection((unsigned)numbers[0]);
    open_ring(fds, (unsigned)numbers[1]);
    for (unsigned i = 0; i < numbers[1]; i++) {
        listen_to(i);
        ask(i);
    }
    drive(ls_clock_mono_ns() + (int64_t)numbers[2] * LS_NS_PER_S);
    (void)printf("requests=%lu bad=0 \n", (unsigned long)answers);
    return 0;
}
