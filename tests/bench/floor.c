/* The least that a request over loopback TCP costs a client here: io_uring as bare as it can be,
 * and nothing is looked at but how many bytes have come. No tool that reads its answers can be
 * cheaper, so its ratio to wrk says how much of a target is the machine's.
 *
 *     bench_floor PORT CONNECTIONS SECONDS http1:DEPTH | websocket:SIZE [MIN-WAIT-US]
 *
 * http1: DEPTH times a GET, sent together and again when all answers have come; of DEPTH above 1
 * they are 4096 different ones. websocket: a text of SIZE bytes, below 126, which comes back. With
 * MIN-WAIT-US a wait lasts so long if not all connections have something before. Prints
 * "requests=N bad=0 ".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"

#define CONNS_MAX 4096u
#define BUFS      512u /* a power of two; few and small, so that they stay in the cache */
#define GROUP     0
#define IS_SEND   (UINT64_C(1) << 32)
#define URLS      4096u
#define DEPTH_MAX 64u
#define GET_MAX   64u
#define TEXT_MAX  125u

/* What is sent at once. */
struct batch {
    char bytes[DEPTH_MAX * GET_MAX];
    size_t len;
};

/* struct io_uring_getevents_arg, as kernels and headers of 6.12 have it. */
struct wait_argument {
    uint64_t sigmask;
    uint32_t sigmask_bytes;
    uint32_t min_wait_us;
    uint64_t timeout;
};

static struct io_uring ring;
static struct io_uring_buf_ring *offers;
static unsigned char *bufs;
static size_t pending[CONNS_MAX]; /* bytes of the answers that are still to come */
static struct batch batches[URLS];
static unsigned batch_count;
static unsigned next_batch;
static unsigned depth;
static size_t answer_bytes; /* to a batch */
static unsigned buf_bytes;  /* as small as hold most answers whole, for the same reason */
static uint64_t answered;   /* batches */
static unsigned connections;
static uint32_t min_wait_us;

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

    io_uring_prep_send(sqe, (int)i, batches[next_batch].bytes, batches[next_batch].len,
                       MSG_NOSIGNAL | MSG_WAITALL);
    next_batch = next_batch + 1 < batch_count ? next_batch + 1 : 0;
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
    io_uring_buf_ring_add(offers, bufs + (size_t)id * buf_bytes, buf_bytes, (unsigned short)id,
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
    buf_bytes = answer_bytes <= 256 ? 256 : 2048;
    bufs = malloc((size_t)BUFS * buf_bytes);
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
            answered++;
            ask(i);
        }
    }
    if ((cqe->flags & IORING_CQE_F_MORE) == 0)
        listen_to(i);
    return cqe->res > 0;
}

/* A negative errno value. */
static int wait_for_answers(void)
{
    struct __kernel_timespec left = { .tv_sec = 1 };
    struct wait_argument wait = { .min_wait_us = min_wait_us,
                                  .timeout = (uint64_t)(uintptr_t)&left };
    int rc;

    if (min_wait_us == 0)
        return io_uring_submit_and_wait(&ring, 1);
    rc = io_uring_submit(&ring);
    if (rc < 0)
        return rc;
    return io_uring_enter2((unsigned)ring.ring_fd, 0, connections,
                           IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, (sigset_t *)(void *)&wait,
                           sizeof(wait));
}

static void drive(int64_t until_ns)
{
    while (ls_clock_mono_ns() < until_ns) {
        struct io_uring_cqe *cqe;
        unsigned head;
        unsigned seen = 0;
        int given_back = 0;
        int rc = wait_for_answers();

        if (rc < 0 && rc != -EINTR && rc != -ETIME)
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

/* ---- what is asked --------------------------------------------------------------------------- */

static void send_all(int fd, const char *bytes, size_t len)
{
    if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
        die("send", errno);
}

/* Reads a head and no byte more. */
static void read_head(int fd, char *head, size_t cap)
{
    size_t len = 0;

    while (len + 1 < cap && (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0)) {
        if (recv(fd, head + len, 1, 0) != 1)
            die("an answer's head", errno != 0 ? errno : EPROTO);
        len++;
    }
    head[len] = '\0';
}

/* How many bytes answer the first GET. */
static size_t length_of_answer(int fd)
{
    char head[4096];
    const char *length;
    size_t left;

    send_all(fd, batches[0].bytes,
             (size_t)(strstr(batches[0].bytes, "\r\n\r\n") + 4 - batches[0].bytes));
    read_head(fd, head, sizeof(head));
    length = strstr(head, "ontent-");
    while (length != NULL && strncmp(length, "ontent-Length: ", 15) != 0 &&
           strncmp(length, "ontent-length: ", 15) != 0)
        length = strstr(length + 1, "ontent-");
    if (length == NULL)
        die("an answer without a length", EPROTO);
    left = strtoul(length + 15, NULL, 10);
    for (size_t i = 0; i < left; i++) {
        char byte;

        if (recv(fd, &byte, 1, 0) != 1)
            die("an answer's body", EPROTO);
    }
    return strlen(head) + left;
}

static void prepare_http1(unsigned port)
{
    int fd = open_connection(port);

    batch_count = depth == 1 ? 1 : URLS / depth;
    for (unsigned i = 0; i < batch_count; i++) {
        struct batch *batch = &batches[i];

        for (unsigned k = 0; k < depth; k++) {
            char path[16] = "";

            if (depth > 1)
                (void)snprintf(path, sizeof(path), "item/%u", i * depth + k);
            batch->len += (size_t)snprintf(batch->bytes + batch->len, GET_MAX,
                                           "GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
        }
    }
    answer_bytes = depth * length_of_answer(fd);
    (void)close(fd); /* has done its work */
}

/* A masked text, the same each time. */
static void prepare_websocket(unsigned size)
{
    static const unsigned char mask[4] = { 0x12, 0x34, 0x56, 0x78 };
    struct batch *batch = &batches[0];

    batch_count = depth = 1;
    batch->bytes[0] = (char)0x81;
    batch->bytes[1] = (char)(0x80u | size);
    memcpy(batch->bytes + 2, mask, 4);
    for (unsigned i = 0; i < size; i++)
        batch->bytes[6 + i] = (char)((unsigned char)'x' ^ mask[i & 3]);
    batch->len = 6 + size;
    answer_bytes = 2 + size;
}

static void upgrade(int fd)
{
    static const char ask_for_it[] =
        "GET /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    char head[4096];

    send_all(fd, ask_for_it, sizeof(ask_for_it) - 1);
    read_head(fd, head, sizeof(head));
    if (strncmp(head, "HTTP/1.1 101", 12) != 0)
        die("no WebSocket there", EPROTO);
}

/* ---- main ------------------------------------------------------------------------------------ */

/* 0: it is no number between 1 and most. */
static unsigned number_of(const char *text, unsigned most)
{
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);

    return *text != '\0' && *end == '\0' && number <= most ? (unsigned)number : 0;
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: bench_floor PORT CONNECTIONS SECONDS http1:DEPTH|websocket:SIZE"
                          " [MIN-WAIT-US]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static int fds[CONNS_MAX];
    unsigned port = argc > 4 ? number_of(argv[1], 65535) : 0;
    unsigned seconds = argc > 4 ? number_of(argv[3], 3600) : 0;
    unsigned size = 0;

    if (argc < 5 || argc > 6)
        return usage();
    connections = number_of(argv[2], CONNS_MAX);
    min_wait_us = argc == 6 ? number_of(argv[5], 1000000) : 0;
    if (strncmp(argv[4], "http1:", 6) == 0)
        depth = number_of(argv[4] + 6, DEPTH_MAX);
    else if (strncmp(argv[4], "websocket:", 10) == 0)
        size = number_of(argv[4] + 10, TEXT_MAX);
    if (port == 0 || connections == 0 || seconds == 0 || (depth == 0 && size == 0) ||
        (argc == 6 && min_wait_us == 0))
        return usage();
    if (size > 0)
        prepare_websocket(size);
    else
        prepare_http1(port);
    for (unsigned i = 0; i < connections; i++) {
        fds[i] = open_connection(port);
        if (size > 0)
            upgrade(fds[i]);
    }
    open_ring(fds, connections);
    for (unsigned i = 0; i < connections; i++) {
        listen_to(i);
        ask(i);
    }
    drive(ls_clock_mono_ns() + (int64_t)seconds * LS_NS_PER_S);
    (void)printf("requests=%" PRIu64 " bad=0 \n", answered * depth);
    return 0;
}
