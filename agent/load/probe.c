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
#include "agent/load/tls.h"
#include "agent/load/variation.h"
#include "common/clock.h"

enum { IO_BYTES = 16384, TRIES = 3 };

struct load_probe {
    const struct load_workload *workload;
    const struct agent_driver *driver;
    struct agent_driver_env driver_env;
    struct ls_rng rng;
    struct load_messages messages;
    void *conn; /* owned: the driver's state, zeroed before open() */
    bool open;  /* of the driver; without a socket only within an exchange */
    int fd;     /* -1: none */
    int cancel_fd;
    struct tls_context *tls;     /* owned; NULL: plain */
    struct tls_session *session; /* as long as there is a socket */

    /* The exchange under way. */
    struct load_request shown; /* the request at hand, as it is sent this time */
    char *shown_store;         /* owned; NULL: it does not vary */
    int64_t begin_ns;
    int64_t deadline_ns;
    bool sent;      /* at least a byte */
    uint32_t begun; /* operations of which the driver has given the first byte */
    bool done;
    bool deaf; /* the peer takes no more, but may have answered before */
    struct agent_reply reply;
    struct probe_answer answer;
    size_t out_len; /* out[out_at..out_len) waits to be sent */
    size_t out_at;
    uint8_t out[IO_BYTES];
    uint8_t in[IO_BYTES];
    uint8_t plain[TLS_OPEN_LEAST];
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
    ls_rng_init(&probe->rng, workload->seed, UINT64_MAX); /* a stream that no worker has */
    probe->driver_env = (struct agent_driver_env){ .workload = workload,
                                                   .done = on_done,
                                                   .ctx = probe,
                                                   .rng = &probe->rng,
                                                   .messages = &probe->messages };
    probe->fd = -1;
    probe_answer_init(&probe->answer);
    probe->answer.http2 = strcmp(driver->name, "http2") == 0;
    probe->conn = calloc(1, driver->conn_size > 0 ? driver->conn_size : 1);
    if (probe->conn == NULL) {
        load_probe_destroy(probe);
        return ls_fail(diag, LS_ENOMEM, "no memory for a probe");
    }
    rc = workload->tls != NULL ? tls_context_create(workload->tls, &probe->tls, diag) : LS_OK;
    if (rc != LS_OK) {
        load_probe_destroy(probe);
        return rc;
    }
    *out_probe = probe;
    return LS_OK;
}

static void disconnect(struct load_probe *probe)
{
    if (probe->open)
        probe->driver->close(probe->conn);
    probe->open = false;
    if (probe->session != NULL)
        tls_end(probe->session);
    probe->session = NULL;
    if (probe->fd >= 0)
        (void)close(probe->fd); /* nothing was promised to arrive */
    probe->fd = -1;
}

void load_probe_destroy(struct load_probe *probe)
{
    if (probe == NULL)
        return;
    disconnect(probe);
    tls_context_destroy(probe->tls);
    probe_answer_fini(&probe->answer);
    free(probe->shown_store);
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

/* ---- TLS ------------------------------------------------------------------------------------- */

static enum ls_err tls_refused(const struct load_probe *probe, enum ls_err rc, struct ls_diag *diag)
{
    char address[PROBE_ADDRESS_BYTES];
    char why[200];

    probe_address_text(&probe->workload->address, probe->workload->address_len, address);
    return ls_fail(diag, rc, "%s %s", address, tls_context_trouble(probe->tls, why, sizeof(why)));
}

/* Sends all that the handshake has to say. */
static enum ls_err send_handshake(struct load_probe *probe)
{
    size_t len;

    while ((len = tls_drain(probe->session, probe->out, sizeof(probe->out))) > 0) {
        for (size_t at = 0; at < len;) {
            ssize_t n = send(probe->fd, probe->out + at, len - at, MSG_NOSIGNAL);
            short events;
            enum ls_err rc = LS_OK;

            if (n > 0)
                at += (size_t)n;
            else if (n < 0 && errno == EAGAIN)
                rc = wait_for(probe, POLLOUT, &events);
            else if (n == 0 || errno != EINTR)
                return LS_OK; /* it takes no more, but may have said why */
            if (rc != LS_OK)
                return rc;
        }
    }
    return LS_OK;
}

/* Waits for the next part of the peer's handshake. */
static enum ls_err receive_handshake(struct load_probe *probe, struct ls_diag *diag)
{
    char address[PROBE_ADDRESS_BYTES];
    short events = 0;
    enum ls_err rc = wait_for(probe, POLLIN, &events);
    ssize_t n;

    probe_address_text(&probe->workload->address, probe->workload->address_len, address);
    if (rc == LS_ETIMEOUT)
        return ls_fail(diag, rc, "%s: no end of the TLS handshake within %.3gs", address,
                       (double)(probe->deadline_ns - probe->begin_ns) / LS_NS_PER_S);
    if (rc != LS_OK)
        return ls_fail(diag, rc, "given up during the TLS handshake with %s", address);
    n = recv(probe->fd, probe->in, sizeof(probe->in), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return LS_OK;
    if (n <= 0) {
        (void)tls_hung_up(probe->session); /* notes the words for it */
        return tls_refused(probe, LS_ECLOSED, diag);
    }
    tls_take(probe->session, (struct ls_bytes){ probe->in, (size_t)n });
    return LS_OK;
}

static enum ls_err secure(struct load_probe *probe, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    probe->session = tls_begin(probe->tls);
    if (probe->session == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a TLS session");
    while (rc == LS_OK && !tls_is_secured(probe->session)) {
        enum tls_result result = tls_shake(probe->session);

        rc = send_handshake(probe);
        if (result != TLS_OK)
            return tls_refused(probe, LS_EPROTO, diag);
        if (rc != LS_OK)
            return ls_fail(diag, rc, "given up during a TLS handshake");
        if (!tls_is_secured(probe->session))
            rc = receive_handshake(probe, diag);
    }
    return rc;
}

/* What the driver has to send, as it travels; 0: nothing. */
static size_t fill_out(struct load_probe *probe)
{
    size_t len;
    size_t sealed = 0;

    if (probe->session == NULL)
        return probe->driver->drain(probe->conn, probe->out, sizeof(probe->out), &probe->begun);
    len = tls_drain(probe->session, probe->out, sizeof(probe->out));
    if (len > 0)
        return len;
    len = probe->driver->drain(probe->conn, probe->plain, IO_BYTES - TLS_SEAL_ROOM, &probe->begun);
    if (len > 0 && tls_seal(probe->session, (struct ls_bytes){ probe->plain, len }, probe->out,
                            sizeof(probe->out), &sealed) != TLS_OK)
        probe->deaf = true;
    return sealed;
}

/* ---- requests and answers -------------------------------------------------------------------- */

/* Sends what it can; a peer that takes no more may still have answered. */
static void send_some(struct load_probe *probe)
{
    while (!probe->deaf) {
        ssize_t n;

        if (probe->out_at == probe->out_len) {
            probe->out_at = 0;
            probe->out_len = fill_out(probe);
            if (probe->out_len == 0)
                return;
        }
        n = send(probe->fd, probe->out + probe->out_at, probe->out_len - probe->out_at,
                 MSG_NOSIGNAL);
        if (n > 0) {
            probe->sent = probe->begun > 0;
            probe->out_at += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else if (n == 0 || errno != EINTR) {
            probe->deaf = true;
        }
    }
}

/* A piece of an answer. False: the connection can be used no more. */
static bool digest(struct load_probe *probe, struct ls_bytes in)
{
    enum ls_err rc;

    probe_answer_add(&probe->answer, in);
    rc = probe->driver->feed(probe->conn, in);
    if (rc == LS_OK || rc == LS_EAGAIN)
        return true;
    if (!probe->done)
        probe->driver->eof(probe->conn, LOAD_CLOSED_EARLY);
    return false;
}

/* The same, of what has been given to the session. */
static bool decrypt(struct load_probe *probe)
{
    enum tls_result result;
    size_t len;

    do {
        result = tls_open(probe->session, probe->plain, sizeof(probe->plain), &len);
        if (len > 0 && !digest(probe, (struct ls_bytes){ probe->plain, len }))
            return false;
    } while (result == TLS_OK && tls_has_more(probe->session));
    if (result == TLS_OK)
        return true;
    if (!probe->done)
        probe->driver->eof(probe->conn, result == TLS_CLOSED ? LOAD_CLOSED_EARLY : LOAD_TLS_ERROR);
    return false;
}

/* Reads once. False: the connection can be used no more. */
static bool receive_some(struct load_probe *probe)
{
    ssize_t n = recv(probe->fd, probe->in, sizeof(probe->in), 0);
    struct ls_bytes in = { probe->in, n > 0 ? (size_t)n : 0 };
    enum load_outcome how = n == 0 ? LOAD_CLOSED_EARLY : LOAD_RESET;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0) {
        if (n == 0 && probe->session != NULL && tls_hung_up(probe->session) != TLS_CLOSED)
            how = LOAD_TLS_ERROR;
        probe->driver->eof(probe->conn, how);
        return false;
    }
    if (probe->session == NULL)
        return digest(probe, in);
    tls_take(probe->session, in);
    return decrypt(probe);
}

/* The same, of a server that may have more to say: PING, SETTINGS, GOAWAY. */
static bool talked_away(struct load_probe *probe)
{
    struct pollfd fds = { .fd = probe->fd, .events = POLLIN };

    while (poll(&fds, 1, 0) > 0) {
        if (!receive_some(probe))
            return true;
    }
    return false;
}

/* Between exchanges a server has nothing to say but that it hangs up, and over TLS its tickets. */
static bool hung_up(struct load_probe *probe)
{
    struct pollfd fds = { .fd = probe->fd, .events = POLLIN };
    size_t len = 0;
    ssize_t n;

    if (probe->driver->greeting != NULL)
        return talked_away(probe);
    if (poll(&fds, 1, 0) == 0)
        return false;
    if (probe->session == NULL)
        return true;
    n = recv(probe->fd, probe->in, sizeof(probe->in), 0);
    if (n <= 0)
        return true;
    tls_take(probe->session, (struct ls_bytes){ probe->in, (size_t)n });
    return tls_open(probe->session, probe->plain, sizeof(probe->plain), &len) != TLS_OK || len > 0;
}

/* From the first byte sent to the end of the operation. LS_OK: it ended, however. usable: nothing
 * has come so far that makes the connection useless. */
static enum ls_err converse(struct load_probe *probe, bool usable, struct ls_diag *diag)
{
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
                           probe->shown.label,
                           (double)(probe->deadline_ns - probe->begin_ns) / LS_NS_PER_S,
                           probe->answer.total);
        }
        if (rc != LS_OK) {
            probe->driver->eof(probe->conn, LOAD_ABORTED);
            return ls_fail(diag, rc, "%s: given up%s%s", probe->shown.label,
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
        probe_answer_explain(&probe->answer, &probe->shown, &probe->reply, diag);
        return LS_OK;
    default:
        break;
    }
    if (probe->reply.outcome == LOAD_TLS_ERROR)
        return tls_refused(probe, LS_EPROTO, diag);
    if (probe->answer.total == 0)
        return ls_fail(diag, LS_ECLOSED, "%s: %s", probe->shown.label, probe->reply.why);
    return ls_fail(diag, LS_ECLOSED, "%s: %s: %zu bytes so far", probe->shown.label,
                   probe->reply.why, probe->answer.total);
}

static enum ls_err exchange(struct load_probe *probe, uint64_t request, struct ls_diag *diag)
{
    uint32_t most = 0;
    bool usable = true;
    enum ls_err rc;

    if (probe->open && (probe->fd < 0 || hung_up(probe)))
        disconnect(probe);
    if (!probe->open) {
        memset(probe->conn, 0, probe->driver->conn_size);
        probe->open = true; /* close() is safe after a failed open() */
        rc = probe->driver->open(probe->conn, &probe->driver_env, &most);
        if (rc != LS_OK)
            return ls_fail(diag, rc, "%s: cannot set up a connection", probe->shown.label);
    }
    rc = probe->driver->submit(probe->conn, 0, request);
    if (rc != LS_OK)
        return ls_fail(diag, rc, "%s: the connection takes no request", probe->shown.label);
    if (!probe->done && probe->fd < 0) {
        rc = connect_now(probe, diag);
        if (rc == LS_OK && probe->tls != NULL)
            rc = secure(probe, diag);
        if (rc != LS_OK)
            return rc;
        if (probe->session != NULL)
            usable = decrypt(probe); /* tickets; an answer before the question is none */
    }
    rc = converse(probe, usable, diag);
    return rc == LS_OK ? explain(probe, diag) : rc;
}

enum ls_err load_probe_exchange(struct load_probe *probe, uint64_t request, int64_t deadline_ns,
                                struct agent_reply *out_reply, uint64_t *out_sent,
                                struct ls_diag *diag)
{
    enum ls_err rc;

    probe->begin_ns = ls_clock_mono_ns();
    probe->deadline_ns = deadline_ns;
    probe->sent = false;
    free(probe->shown_store);
    probe->shown_store = NULL;
    rc = load_request_show(probe->workload, request, &probe->shown, &probe->shown_store);
    if (rc != LS_OK)
        return ls_fail(diag, rc, "no memory for a request");
    for (unsigned i = 0; i < TRIES; i++) {
        probe->begun = 0;
        probe->done = false;
        probe->deaf = false;
        probe->out_at = 0;
        probe->out_len = 0;
        probe->reply = (struct agent_reply){ .why = "" };
        probe_answer_reset(&probe->answer);
        rc = exchange(probe, request, diag);
        if (rc != LS_OK)
            disconnect(probe);
        if (!probe->reply.again)
            break; /* else the server was about to hang up */
    }
    if (probe->sent || rc == LS_OK) {
        (*out_sent)++;
        *out_reply = probe->reply;
    }
    return rc;
}
