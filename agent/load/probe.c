#include "agent/load/probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/load/probe_text.h"
#include "common/clock.h"

enum { IO_BYTES = 16384 };

struct load_probe {
    const struct load_workload *workload;
    const struct agent_driver *driver;
    void *conn; /* owned: the driver's state, zeroed before open() */
    bool open;  /* of the driver; without a socket only within an exchange */
    int fd;     /* -1: none */
    int cancel_fd;

    /* The exchange under way. */
    const struct load_request *request;
    int64_t begin_ns;
    int64_t deadline_ns;
    bool sent; /* at least a byte */
    bool done;
    bool deaf; /* the peer takes no more, but may have answered before */
    struct agent_reply reply;
    struct probe_answer answer;
    size_t out_len; /* out[out_at..out_len) waits to be sent */
    size_t out_at;
    uint8_t out[IO_BYTES];
    uint8_t in[IO_BYTES];
};

static void on_done(void *ctx, uint32_t op, const struct agent_reply *reply)
{
    struct load_probe *probe = ctx;

    (void)op; /* there is only one */
    probe->reply = *reply;
    probe->done = true;
}

enum ls_err load_probe_create(const struct load_workload *workload, int cancel_fd,
                              struct load_probe **out_probe, struct ls_diag *diag)
{
    const struct agent_driver *driver = agent_driver_find(workload->driver);
    enum ls_err rc;
    struct load_probe *probe;

    if (driver == NULL)
        return ls_fail(diag, LS_EINVAL, "there is no load driver \"%.40s\"", workload->driver);
    rc = driver->check(workload, diag);
    if (rc != LS_OK)
        return rc;
    probe = calloc(1, sizeof(*probe));
    if (probe == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a probe");
    probe->workload = workload;
    probe->driver = driver;
    probe->cancel_fd = cancel_fd;
    probe->fd = -1;
    probe_answer_init(&probe->answer);
    probe->conn = calloc(1, driver->conn_size > 0 ? driver->conn_size : 1);
    if (probe->conn == NULL) {
        load_probe_destroy(probe);
        return ls_fail(diag, LS_ENOMEM, "no memory for a probe");
    }
    *out_probe = probe;
    return LS_OK;
}

static void disconnect(struct load_probe *probe)
{
    if (probe->open)
        probe->driver->close(probe->conn);
    probe->open = false;
    if (probe->fd >= 0)
        (void)close(probe->fd); /* nothing was promised to arrive */
    probe->fd = -1;
}

void load_probe_destroy(struct load_probe *probe)
{
    if (probe == NULL)
        return;
    disconnect(probe);
    probe_answer_fini(&probe->answer);
    free(probe->conn);
    free(probe);
}

/* Waits for events on the socket; *out_events is what came. */
static enum ls_err wait_for(struct load_probe *probe, short events, short *out_events)
{
    for (;;) {
        struct pollfd fds[] = { { .fd = probe->fd, .events = events },
                                { .fd = probe->cancel_fd, .events = POLLIN } };
        int64_t left_ns = probe->deadline_ns - ls_clock_mono_ns();
        struct timespec left = { 0 };
        int n;

        if (left_ns > 0) {
            left.tv_sec = left_ns / LS_NS_PER_S;
            left.tv_nsec = left_ns % LS_NS_PER_S;
        }
        n = ppoll(fds, 2, &left, NULL);
        if (n < 0 && errno != EINTR)
            return LS_EIO;
        if (n > 0 && fds[1].revents != 0)
            return LS_ESTATE;
        if (n > 0) {
            *out_events = fds[0].revents;
            return LS_OK;
        }
        if (n == 0 && left_ns <= 0)
            return LS_ETIMEOUT;
    }
}

static enum ls_err connect_failed(struct load_probe *probe, int error, struct ls_diag *diag)
{
    char address[PROBE_ADDRESS_BYTES];

    probe_address_text(&probe->workload->address, probe->workload->address_len, address);
    if (error == ECONNREFUSED)
        return ls_fail(diag, LS_ECLOSED, "connection refused by %s", address);
    if (error == ECONNRESET)
        return ls_fail(diag, LS_ECLOSED, "connection reset by %s", address);
    return ls_fail(diag, LS_EIO, "cannot connect to %s: %s", address, strerror(error));
}

static enum ls_err connect_wait(struct load_probe *probe, struct ls_diag *diag)
{
    char address[PROBE_ADDRESS_BYTES];
    int error = 0;
    socklen_t len = sizeof(error);
    short events = 0;
    enum ls_err rc = wait_for(probe, POLLOUT, &events);

    probe_address_text(&probe->workload->address, probe->workload->address_len, address);
    if (rc == LS_ETIMEOUT)
        return ls_fail(diag, rc, "no connection to %s within %.3gs", address,
                       (double)(probe->deadline_ns - probe->begin_ns) / LS_NS_PER_S);
    if (rc == LS_ESTATE)
        return ls_fail(diag, rc, "given up while connecting to %s", address);
    if (rc != LS_OK)
        return ls_fail(diag, rc, "cannot wait for %s: %s", address, strerror(errno));
    if (getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    return error == 0 ? LS_OK : connect_failed(probe, error, diag);
}

static enum ls_err connect_now(struct load_probe *probe, struct ls_diag *diag)
{
    const struct load_workload *w = probe->workload;
    int on = 1;

    probe->fd = socket(w->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe->fd < 0)
        return ls_fail(diag, LS_EIO, "cannot make a socket: %s", strerror(errno));
    /* Fails on a Unix socket, which has no such delay. */
    (void)setsockopt(probe->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(probe->fd, (const struct sockaddr *)&w->address, w->address_len) == 0)
        return LS_OK;
    return errno == EINPROGRESS ? connect_wait(probe, diag) : connect_failed(probe, errno, diag);
}

/* Between exchanges there is nothing to read: if there is, the server hung up. */
static bool hung_up(const struct load_probe *probe)
{
    struct pollfd fds = { .fd = probe->fd, .events = POLLIN };

    return poll(&fds, 1, 0) != 0;
}

/* Sends what it can; a peer that takes no more may still have answered. */
static void send_some(struct load_probe *probe)
{
    while (!probe->deaf) {
        ssize_t n;

        if (probe->out_at == probe->out_len) {
            probe->out_at = 0;
            probe->out_len =
                probe->driver->drain(probe->conn, probe->out, sizeof(probe->out), NULL);
            if (probe->out_len == 0)
                return;
        }
        n = send(probe->fd, probe->out + probe->out_at, probe->out_len - probe->out_at,
                 MSG_NOSIGNAL);
        if (n > 0) {
            probe->sent = true;
            probe->out_at += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else if (n == 0 || errno != EINTR) {
            probe->deaf = true;
        }
    }
}

/* Reads once. False: the connection can be used no more. */
static bool receive_some(struct load_probe *probe)
{
    ssize_t n = recv(probe->fd, probe->in, sizeof(probe->in), 0);
    struct ls_bytes in = { probe->in, n > 0 ? (size_t)n : 0 };

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0) {
        probe->driver->eof(probe->conn, n == 0 ? LOAD_CLOSED_EARLY : LOAD_RESET);
        return false;
    }
    probe_answer_add(&probe->answer, in);
    if (probe->driver->feed(probe->conn, in) == LS_OK)
        return true;
    if (!probe->done)
        probe->driver->eof(probe->conn, LOAD_CLOSED_EARLY);
    return false;
}

/* From the first byte sent to the end of the operation. LS_OK: it ended, however. */
static enum ls_err converse(struct load_probe *probe, struct ls_diag *diag)
{
    bool usable = true;

    while (!probe->done) {
        short events = 0;
        enum ls_err rc;

        send_some(probe);
        rc = wait_for(probe,
                      probe->out_at < probe->out_len && !probe->deaf ? POLLIN | POLLOUT : POLLIN,
                      &events);
        if (rc == LS_ETIMEOUT) {
            probe->driver->eof(probe->conn, LOAD_TIMEOUT);
            return ls_fail(diag, rc, "%s: no complete answer within %.3gs: %zu bytes so far",
                           probe->request->label,
                           (double)(probe->deadline_ns - probe->begin_ns) / LS_NS_PER_S,
                           probe->answer.total);
        }
        if (rc != LS_OK) {
            probe->driver->eof(probe->conn, LOAD_ABORTED);
            return ls_fail(diag, rc, "%s: given up%s%s", probe->request->label,
                           rc == LS_EIO ? ": " : "", rc == LS_EIO ? strerror(errno) : "");
        }
        if ((events & ~POLLOUT) != 0)
            usable = receive_some(probe);
    }
    if (!usable || probe->out_at < probe->out_len)
        disconnect(probe);
    return LS_OK;
}

/* How the operation ended, as a return value and a sentence. */
static enum ls_err explain(struct load_probe *probe, struct ls_diag *diag)
{
    switch (probe->reply.outcome) {
    case LOAD_OK:
        return LS_OK;
    case LOAD_BAD_STATUS:
    case LOAD_BAD_BODY:
    case LOAD_BAD_FRAMING:
        probe_answer_explain(&probe->answer, probe->request, &probe->reply, diag);
        return LS_OK;
    default:
        break;
    }
    if (probe->answer.total == 0)
        return ls_fail(diag, LS_ECLOSED, "%s: %s", probe->request->label, probe->reply.why);
    return ls_fail(diag, LS_ECLOSED, "%s: %s: %zu bytes so far", probe->request->label,
                   probe->reply.why, probe->answer.total);
}

static enum ls_err exchange(struct load_probe *probe, uint32_t request, struct ls_diag *diag)
{
    const struct agent_driver_env env = { probe->workload, on_done, probe };
    uint32_t most = 0;
    enum ls_err rc;

    if (probe->open && (probe->fd < 0 || hung_up(probe)))
        disconnect(probe);
    if (!probe->open) {
        memset(probe->conn, 0, probe->driver->conn_size);
        probe->open = true; /* close() is safe after a failed open() */
        rc = probe->driver->open(probe->conn, &env, &most);
        if (rc != LS_OK)
            return ls_fail(diag, rc, "%s: cannot set up a connection", probe->request->label);
    }
    rc = probe->driver->submit(probe->conn, 0, request);
    if (rc != LS_OK)
        return ls_fail(diag, rc, "%s: the connection takes no request", probe->request->label);
    if (!probe->done && probe->fd < 0) {
        rc = connect_now(probe, diag);
        if (rc != LS_OK)
            return rc;
    }
    rc = converse(probe, diag);
    return rc == LS_OK ? explain(probe, diag) : rc;
}

enum ls_err load_probe_exchange(struct load_probe *probe, uint32_t request, int64_t deadline_ns,
                                struct agent_reply *out_reply, uint64_t *out_sent,
                                struct ls_diag *diag)
{
    enum ls_err rc;

    probe->request = &probe->workload->requests[request % probe->workload->request_count];
    probe->begin_ns = ls_clock_mono_ns();
    probe->deadline_ns = deadline_ns;
    probe->sent = false;
    probe->done = false;
    probe->deaf = false;
    probe->out_at = 0;
    probe->out_len = 0;
    probe_answer_reset(&probe->answer);

    rc = exchange(probe, request, diag);
    if (rc != LS_OK)
        disconnect(probe);
    if (probe->sent || rc == LS_OK) {
        (*out_sent)++;
        *out_reply = probe->reply;
    }
    return rc;
}
