#include "agent/host/logpump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/host/thread.h"
#include "common/utf8.h"

#define RING_BYTES  4096
#define CHUNK_BYTES (64u << 10)
#define DRAIN_BYTES (4u << 20) /* a target that goes on printing does not hold up a drain */

struct host_logpump {
    pthread_mutex_t lock; /* of everything below, and over read and write, so order is kept */
    pthread_t thread;
    int read_fd;
    int file_fd;
    int stop_fd;
    uint64_t max_bytes;
    struct host_logpump_totals totals;
    uint64_t seen_bytes;
    char ring[RING_BYTES]; /* byte number n of the output is at n % RING_BYTES */
    unsigned char chunk[CHUNK_BYTES];
};

static void remember(struct host_logpump *p, size_t len)
{
    size_t skip = len > RING_BYTES ? len - RING_BYTES : 0;

    for (size_t i = skip; i < len; i++)
        p->ring[(p->seen_bytes + i) % RING_BYTES] = (char)p->chunk[i];
    p->seen_bytes += len;
}

static void keep(struct host_logpump *p, size_t len)
{
    size_t want = len;
    size_t done = 0;

    if (p->file_fd < 0 || p->totals.error != 0)
        want = 0;
    else if (want > p->max_bytes - p->totals.kept_bytes)
        want = (size_t)(p->max_bytes - p->totals.kept_bytes);
    while (done < want) {
        ssize_t n = write(p->file_fd, p->chunk + done, want - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            p->totals.error = n < 0 ? errno : EIO;
            break;
        }
        done += (size_t)n;
    }
    p->totals.kept_bytes += done;
    p->totals.dropped_bytes += len - done;
}

/* Takes one chunk; 0: nothing there at the moment, -1: all writers have gone. */
static ssize_t step(struct host_logpump *p)
{
    ssize_t n;

    (void)pthread_mutex_lock(&p->lock);
    do
        n = read(p->read_fd, p->chunk, sizeof(p->chunk));
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        remember(p, (size_t)n);
        keep(p, (size_t)n);
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (n == 0)
        return -1;
    return n < 0 ? 0 : n;
}

static void *run(void *arg)
{
    struct host_logpump *p = arg;
    struct pollfd fds[] = { { .fd = p->stop_fd, .events = POLLIN },
                            { .fd = p->read_fd, .events = POLLIN } };

    for (;;) {
        if (poll(fds, LS_ARRAY_LEN(fds), -1) < 0)
            continue;
        if (fds[0].revents != 0)
            return NULL;
        if (fds[1].revents != 0 && step(p) < 0)
            fds[1].fd = -1; /* no writer is left: only the stop is to come */
    }
}

enum ls_err host_logpump_create(int file_fd, uint64_t max_bytes, int *out_write_fd,
                                struct host_logpump **out_pump, struct ls_diag *diag)
{
    struct host_logpump *p = calloc(1, sizeof(*p));
    int fds[2] = { -1, -1 };
    enum ls_err rc = LS_OK;

    if (p == NULL) {
        if (file_fd >= 0)
            (void)close(file_fd);
        return ls_fail(diag, LS_ENOMEM, "no memory for a target's log");
    }
    (void)pthread_mutex_init(&p->lock, NULL);
    p->file_fd = file_fd;
    p->max_bytes = max_bytes;
    p->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* Not blocking at our end only: the two ends are two open files. */
    if (p->stop_fd < 0 || pipe2(fds, O_CLOEXEC) < 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
        rc = ls_fail(diag, LS_EIO, "cannot make a pipe for a target's log: %s", strerror(errno));
    p->read_fd = fds[0];
    if (rc == LS_OK)
        rc = host_thread_create("target-log", run, p, &p->thread, diag);
    if (rc == LS_OK) {
        *out_write_fd = fds[1];
        *out_pump = p;
        return LS_OK;
    }
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
    }
    if (p->stop_fd >= 0)
        (void)close(p->stop_fd);
    if (file_fd >= 0)
        (void)close(file_fd);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
    return rc;
}

void host_logpump_destroy(struct host_logpump *p)
{
    if (p == NULL)
        return;
    (void)eventfd_write(p->stop_fd, 1); /* cannot fail: it is written once */
    (void)pthread_join(p->thread, NULL);
    host_logpump_drain(p);
    (void)close(p->read_fd);
    (void)close(p->stop_fd);
    if (p->file_fd >= 0)
        (void)close(p->file_fd);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

void host_logpump_drain(struct host_logpump *p)
{
    for (size_t taken = 0; taken < DRAIN_BYTES;) {
        ssize_t n = step(p);

        if (n <= 0)
            return;
        taken += (size_t)n;
    }
}

static size_t copy_ring(struct host_logpump *p, char *out, size_t room)
{
    size_t len = p->seen_bytes < RING_BYTES ? (size_t)p->seen_bytes : RING_BYTES;

    len = len < room ? len : room;
    for (size_t i = 0; i < len; i++)
        out[i] = p->ring[(p->seen_bytes - len + i) % RING_BYTES];
    return len;
}

size_t host_logpump_tail(struct host_logpump *p, char *out, size_t out_bytes)
{
    size_t len;
    bool cut;

    (void)pthread_mutex_lock(&p->lock);
    len = copy_ring(p, out, out_bytes - 1);
    cut = p->seen_bytes > len;
    (void)pthread_mutex_unlock(&p->lock);
    while (len > 0 && (out[len - 1] == '\n' || out[len - 1] == '\r'))
        len--;
    if (cut) { /* begins in the middle of a line */
        const char *end = memchr(out, '\n', len);

        if (end != NULL) {
            len -= (size_t)(end + 1 - out);
            (void)memmove(out, end + 1, len);
        }
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)out[i];

        if ((c < 0x20 && c != '\n') || c == 0x7f)
            out[i] = ' ';
    }
    ls_utf8_clean(out, len);
    out[len] = '\0';
    return len;
}

void host_logpump_totals(struct host_logpump *p, struct host_logpump_totals *out)
{
    (void)pthread_mutex_lock(&p->lock);
    *out = p->totals;
    (void)pthread_mutex_unlock(&p->lock);
}
