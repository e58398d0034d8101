/* common/transport_hub.c - nng's streams meet the libev loop.
 *
 * nng completes an operation on one of its own threads. That thread stamps the operation, appends
 * it to the hub's queue and wakes the loop; every decision is taken in the loop's thread.
 *
 * What nng 1.5.2 leaves to us: accept is armed again after every error, and what may hang for ever
 * is found by the sweep (transport_sweep.c).
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/tls_engine.h"
#include "common/transport_nng.h"

#define DIAL_TIMEOUT_MS 5000
#define STRANGER_SHARE  4u /* of the room for strangers, at most this part for one address */
#define COLLECT_NS      LS_NS_PER_MS /* of many connections, what happens meanwhile is one burst */

#define PACE_DEFAULT                                                      \
    {                                                                     \
        .tick_ns = 200 * LS_NS_PER_MS, .heartbeat_ns = LS_HEARTBEAT_NS,   \
        .silence_ns = LS_SILENCE_NS, .greeting_ns = LS_HELLO_DEADLINE_NS, \
        .linger_ns = LS_NS_PER_S, .backoff_min_ns = 50 * LS_NS_PER_MS,    \
        .backoff_max_ns = 2 * LS_NS_PER_S,                                \
    }
const struct ls_pace ls_pace_default = PACE_DEFAULT;
static struct ls_pace next_pace = PACE_DEFAULT;
static bool nng_runs; /* its threads do */

void ls_transport_set_pace(const struct ls_pace *pace)
{
    next_pace = pace != NULL ? *pace : ls_pace_default;
}

/* ---- operations ---- */

/* nng wakes the thread that is to complete an operation while it holds the lock that this thread
 * takes first. On a busy CPU it would run at once, find the lock taken and wait for it: a few
 * switches for each report of a crowd. A batch thread (sched(7)) does not displace who woke it, and
 * finds more to do at once. A policy that somebody else chose stays. */
static void be_patient(bool patient)
{
    static _Thread_local bool is_patient;
    const struct sched_param none = { 0 };
    int from = patient ? SCHED_OTHER : SCHED_BATCH;

    if (patient == is_patient)
        return;
    is_patient = patient;
    if (sched_getscheduler(0) == from &&
        sched_setscheduler(0, patient ? SCHED_BATCH : SCHED_OTHER, &none) != 0) {
        /* Where it is forbidden, each report only costs more. */
    }
}

/* On a thread of nng's. */
static void completed(void *arg)
{
    struct ls_op *op = arg;
    struct ls_hub *hub = op->hub;
    int64_t now_ns = ls_clock_mono_ns();
    bool first;

    (void)pthread_mutex_lock(&hub->mutex);
    be_patient(hub->crowded);
    if (op->quiet && nng_aio_result(op->aio) == 0 && nng_aio_count(op->aio) == op->bytes) {
        op->done = true;
        (void)pthread_mutex_unlock(&hub->mutex);
        return;
    }
    first = hub->queue == NULL;
    op->done_ns = now_ns;
    op->queued = true;
    op->next = NULL;
    *hub->queue_end = op;
    hub->queue_end = &op->next;
    (void)pthread_mutex_unlock(&hub->mutex);
    if (first)
        ev_async_send(hub->loop, &hub->wake);
}

int ls_op_init(struct ls_op *op, struct ls_hub *hub, struct ls_conn *conn, enum ls_op_kind kind)
{
    *op = (struct ls_op){ .hub = hub, .conn = conn, .kind = kind };
    return nng_aio_alloc(&op->aio, completed, op);
}

void ls_op_fini(struct ls_op *op)
{
    if (op->aio == NULL)
        return;
    nng_aio_stop(op->aio);
    nng_aio_free(op->aio);
    op->aio = NULL;
}

bool ls_op_settle(struct ls_op *op)
{
    bool done;

    (void)pthread_mutex_lock(&op->hub->mutex);
    done = op->done;
    op->done = op->quiet = false;
    (void)pthread_mutex_unlock(&op->hub->mutex);
    return done;
}

/* ---- opening ---- */

static void open_next(struct ls_hub *hub)
{
    hub->open.busy = true;
    if (hub->credentials != NULL)
        ls_tls_opening();
    if (hub->dialer != NULL)
        nng_stream_dialer_dial(hub->dialer, hub->open.aio);
    else
        nng_stream_listener_accept(hub->listener, hub->open.aio);
}

/* Those who have not said who they are get half of the descriptors at most: a run goes on, and
 * writes its files, whoever knocks. The others wait in the kernel's queue. */
static rlim_t strangers_max(void)
{
    struct rlimit files;

    return getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY
               ? files.rlim_cur / 2
               : RLIM_INFINITY;
}

static bool has_room_for_strangers(const struct ls_hub *hub)
{
    return hub->strangers < strangers_max();
}

bool ls_hub_is_overrun_by(const struct ls_hub *hub, const struct ls_conn *conn)
{
    size_t host_len = strcspn(conn->remote, "]"); /* "[2001:db8::7]:40312" */
    rlim_t share = strangers_max() / STRANGER_SHARE;
    rlim_t count = 0;

    if (!hub->tcp || hub->strangers <= share)
        return false;
    if (conn->remote[host_len] == '\0')
        host_len = strcspn(conn->remote, ":");
    for (const struct ls_conn *other = hub->conns; other != NULL && count <= share;
         other = other->next)
        count += other->stranger && strncmp(other->remote, conn->remote, host_len + 1) == 0;
    return count > share;
}

static void on_opened(struct ls_hub *hub, int result, int64_t now_ns)
{
    hub->alone = hub->loopback && result == NNG_ECONNREFUSED;
    if (result == 0)
        ls_conn_open(hub, nng_aio_get_output(hub->open.aio, 0), now_ns);
    else if (hub->dialer != NULL)
        hub->ops->dial_failed(hub->owner, nng_strerror(result));
    if (hub->dying || hub->dialer != NULL)
        return;
    if (result == 0 && has_room_for_strangers(hub))
        open_next(hub);
    else
        hub->accept_paused = true; /* out of descriptors, most likely: not in a tight loop */
}

void ls_hub_accept_again(struct ls_hub *hub)
{
    if (hub->dying || !hub->accept_paused || !has_room_for_strangers(hub))
        return;
    hub->accept_paused = false;
    open_next(hub);
}

void ls_hub_dial(struct ls_hub *hub)
{
    if (!hub->open.busy)
        open_next(hub);
}

/* ---- the loop ---- */

static void handle(struct ls_hub *hub, struct ls_op *op)
{
    struct ls_conn *conn = op->conn;
    int result = nng_aio_result(op->aio);

    op->queued = false;
    op->busy = false;
    if (op->kind == LS_OP_OPEN) {
        on_opened(hub, result, op->done_ns);
        return;
    }
    conn->pins++;
    if (op->kind == LS_OP_RECEIVE)
        ls_conn_on_received(conn, result);
    else
        ls_conn_on_sent(conn, result);
    conn->pins--;
    ls_conn_release(conn);
}

void ls_hub_handle_all(struct ls_hub *hub)
{
    struct ls_op *op;

    (void)pthread_mutex_lock(&hub->mutex);
    op = hub->queue;
    hub->queue = NULL;
    hub->queue_end = &hub->queue;
    (void)pthread_mutex_unlock(&hub->mutex);
    while (op != NULL && !hub->dying) {
        struct ls_op *next = op->next;

        handle(hub, op);
        op = next;
    }
}

static void on_wake(struct ev_loop *loop, ev_async *w, int events)
{
    struct ls_hub *hub = w->data;

    (void)loop;
    (void)events;
    ls_hub_enter(hub);
    ls_hub_handle_all(hub);
    ls_hub_leave(hub);
}

static void on_alarm(struct ev_loop *loop, ev_timer *w, int events)
{
    struct ls_hub *hub = w->data;

    (void)loop;
    (void)events;
    ls_hub_enter(hub);
    hub->ops->alarm(hub->owner);
    ls_hub_leave(hub);
}

void ls_hub_set_alarm(struct ls_hub *hub, int64_t delay_ns)
{
    ev_timer_stop(hub->loop, &hub->alarm);
    ev_timer_set(&hub->alarm, (double)delay_ns / (double)LS_NS_PER_S, 0.0);
    ev_timer_start(hub->loop, &hub->alarm);
}

/* ---- life ---- */

static enum ls_err nng_failure(struct ls_diag *diag, const char *url, int rv)
{
    return ls_fail(diag, rv == NNG_ENOMEM ? LS_ENOMEM : LS_EIO, "%s: %s", url, nng_strerror(rv));
}

static enum ls_err hub_new(void *ev_loop, const struct ls_address *address,
                           struct ls_credentials *credentials, const struct ls_hub_ops *ops,
                           void *owner, struct ls_hub **out, struct ls_diag *diag)
{
    struct ls_hub *hub = calloc(1, sizeof(*hub));
    const char *url = address->url;
    int rv;

    if (hub == NULL || (hub->url = strdup(url)) == NULL) {
        free(hub);
        return ls_fail(diag, LS_ENOMEM, "%s: out of memory", url);
    }
    hub->ops = ops;
    hub->owner = owner;
    hub->pace = next_pace;
    hub->tcp = address->path == NULL;
    hub->loopback = address->loopback;
    hub->loop = ev_loop;
    hub->queue_end = &hub->queue;
    nng_runs = true;
    rv = ls_op_init(&hub->open, hub, NULL, LS_OP_OPEN);
    if (rv != 0) {
        free(hub->url);
        free(hub);
        return nng_failure(diag, url, rv);
    }
    if (address->tls) {
        hub->credentials = credentials;
        ls_credentials_hold(credentials);
    }
    if (hub->credentials != NULL && !ls_credentials_has_crl(credentials))
        ls_log(LS_LOG_WARN, "tls.no_crl",
               "%s has no crl.pem: certificates that were revoked are taken: copy the authority's "
               "there, which 'lockstep pki revoke' renews",
               ls_credentials_folder(credentials));
    (void)pthread_mutex_init(&hub->mutex, NULL); /* without attributes it does not fail on Linux */
    ev_async_init(&hub->wake, on_wake);
    ev_timer_init(&hub->alarm, on_alarm, 0.0, 0.0);
    hub->wake.data = hub->alarm.data = hub;
    *out = hub;
    return LS_OK;
}

static void hub_start(struct ls_hub *hub)
{
    ev_async_start(hub->loop, &hub->wake);
    ls_sweep_start(hub);
}

static void hub_discard(struct ls_hub *hub)
{
    if (hub == NULL)
        return;
    if (hub->dialer != NULL)
        nng_stream_dialer_close(hub->dialer);
    if (hub->listener != NULL)
        nng_stream_listener_close(hub->listener); /* removes the socket's file, too */
    /* All operations are back before the first is freed: the queue leads through them. */
    nng_aio_stop(hub->open.aio);
    for (struct ls_conn *conn = hub->conns; conn != NULL; conn = conn->next) {
        nng_aio_stop(conn->receive.aio);
        nng_aio_stop(conn->send.aio);
    }
    while (hub->conns != NULL)
        ls_conn_free(hub->conns);
    if (hub->open.queued && nng_aio_result(hub->open.aio) == 0)
        nng_stream_free(nng_aio_get_output(hub->open.aio, 0)); /* came too late to be handled */
    ls_op_fini(&hub->open);
    if (hub->dialer != NULL)
        nng_stream_dialer_free(hub->dialer);
    if (hub->listener != NULL)
        nng_stream_listener_free(hub->listener);
    (void)pthread_mutex_destroy(&hub->mutex);
    ls_credentials_close(hub->credentials);
    free(hub->url);
    free(hub);
}

static void hub_free(struct ls_hub *hub)
{
    const struct ls_hub_ops *ops = hub->ops;
    void *owner = hub->owner;

    hub_discard(hub);
    ops->freed(owner);
}

void ls_hub_enter(struct ls_hub *hub)
{
    hub->depth++;
}

void ls_hub_leave(struct ls_hub *hub)
{
    if (--hub->depth == 0 && hub->dying)
        hub_free(hub);
}

const char *ls_hub_url(const struct ls_hub *hub)
{
    return hub->url;
}

const struct ls_pace *ls_hub_pace(const struct ls_hub *hub)
{
    return &hub->pace;
}

bool ls_hub_is_alone(const struct ls_hub *hub)
{
    return hub->alone;
}

bool ls_hub_is_tls(const struct ls_hub *hub)
{
    return hub->credentials != NULL;
}

bool ls_hub_is_crowded(const struct ls_hub *hub)
{
    return hub->count >= LS_CROWD;
}

/* Waking the loop for each of a thousand reports would cost more than reading them. When something
 * came is known all the same: the thread that received it has noted the time. */
void ls_hub_count(struct ls_hub *hub, int change)
{
    bool before = ls_hub_is_crowded(hub);

    hub->count += (unsigned)change;
    if (before == ls_hub_is_crowded(hub))
        return;
    (void)pthread_mutex_lock(&hub->mutex);
    hub->crowded = !before;
    (void)pthread_mutex_unlock(&hub->mutex);
    ev_set_io_collect_interval(hub->loop, before ? 0. : (double)COLLECT_NS / LS_NS_PER_S);
}

void ls_hub_destroy(struct ls_hub *hub)
{
    if (hub->dying)
        return;
    hub->dying = true;
    ev_async_stop(hub->loop, &hub->wake);
    ls_sweep_stop(hub);
    ev_timer_stop(hub->loop, &hub->alarm);
    for (struct ls_conn *conn = hub->conns; conn != NULL; conn = conn->next) {
        conn->closing = true;
        nng_stream_close(conn->stream);
    }
    if (hub->depth == 0)
        hub_free(hub);
}

/* nng's threads inherit the signal mask of the first call into it: with all signals blocked they
 * leave them to the loop's thread. */
static void block_signals(sigset_t *out_before)
{
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, out_before); /* fails for a wrong "how" only */
}

static enum ls_err check_url(const char *url, const struct ls_credentials *credentials,
                             struct ls_address *out, struct ls_diag *diag)
{
    enum ls_err rc = ls_address_check(url, out, diag);

    if (rc == LS_OK && out->tls && credentials == NULL)
        return ls_fail(diag, LS_EREFUSED,
                       "%s: TLS needs keys: --keys DIR (made with 'lockstep pki issue')", url);
    return rc;
}

static bool can_be_dialled(const struct ls_address *address)
{
    return address->path != NULL || (strcmp(address->host, "*") != 0 &&
                                     strtoul(strrchr(address->url, ':') + 1, NULL, 10) != 0);
}

static enum ls_err dialer_new(struct ls_hub *hub, const struct ls_address *address,
                              struct ls_diag *diag)
{
    int rv = nng_stream_dialer_alloc(&hub->dialer, address->url);

    if (rv != 0)
        return nng_failure(diag, address->url, rv);
    return address->tls ? ls_tls_dialer(hub->dialer, hub->credentials, address->host, diag) : LS_OK;
}

enum ls_err ls_hub_dialer(void *ev_loop, const char *url, struct ls_credentials *credentials,
                          const struct ls_hub_ops *ops, void *owner, struct ls_hub **out,
                          struct ls_diag *diag)
{
    struct ls_hub *hub = NULL;
    struct ls_address address;
    sigset_t before;
    enum ls_err rc = check_url(url, credentials, &address, diag);

    if (rc == LS_OK && !can_be_dialled(&address))
        rc = ls_fail(diag, LS_EINVAL, "%s: to dial, say which host and which port", url);
    if (rc != LS_OK)
        return rc;
    block_signals(&before);
    rc = hub_new(ev_loop, &address, credentials, ops, owner, &hub, diag);
    if (rc == LS_OK)
        rc = dialer_new(hub, &address, diag);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != LS_OK) {
        hub_discard(hub);
        return rc;
    }
    nng_aio_set_timeout(hub->open.aio, DIAL_TIMEOUT_MS);
    hub_start(hub);
    *out = hub;
    return LS_OK;
}

/* "tcp://127.0.0.1:0" becomes what was bound. */
static enum ls_err learn_port(struct ls_hub *hub, struct ls_diag *diag)
{
    size_t host_len = (size_t)(strrchr(hub->url, ':') - hub->url);
    char *url;
    int port;
    int rv = nng_stream_listener_get_int(hub->listener, NNG_OPT_TCP_BOUND_PORT, &port);

    if (rv != 0)
        return nng_failure(diag, hub->url, rv);
    if (asprintf(&url, "%.*s:%d", (int)host_len, hub->url, port) < 0)
        return ls_fail(diag, LS_ENOMEM, "%s: out of memory", hub->url);
    free(hub->url);
    hub->url = url;
    return LS_OK;
}

static enum ls_err listen_on(struct ls_hub *hub, const struct ls_address *address,
                             struct ls_diag *diag)
{
    enum ls_err rc = ls_address_prepare(address, diag);
    int rv;

    if (rc != LS_OK)
        return rc;
    rv = nng_stream_listener_alloc(&hub->listener, address->url);
    if (rv == 0 && address->path != NULL)
        rv = nng_stream_listener_set_int(hub->listener, NNG_OPT_IPC_PERMISSIONS, 0600);
    if (rv == 0 && address->tls) {
        rc = ls_tls_listener(hub->listener, hub->credentials, diag);
        if (rc != LS_OK)
            return rc;
    }
    if (rv == 0)
        rv = nng_stream_listener_listen(hub->listener);
    if (rv != 0)
        return nng_failure(diag, address->url, rv);
    return address->path != NULL ? LS_OK : learn_port(hub, diag);
}

enum ls_err ls_hub_listener(void *ev_loop, const char *url, struct ls_credentials *credentials,
                            const struct ls_hub_ops *ops, void *owner, struct ls_hub **out,
                            struct ls_diag *diag)
{
    struct ls_hub *hub = NULL;
    struct ls_address address;
    sigset_t before;
    enum ls_err rc = check_url(url, credentials, &address, diag);

    if (rc != LS_OK)
        return rc;
    block_signals(&before);
    rc = hub_new(ev_loop, &address, credentials, ops, owner, &hub, diag);
    if (rc == LS_OK)
        rc = listen_on(hub, &address, diag);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != LS_OK) {
        hub_discard(hub);
        return rc;
    }
    hub_start(hub);
    open_next(hub);
    *out = hub;
    return LS_OK;
}

void ls_transport_fini(void)
{
    if (nng_runs)
        (void)ls_tls_engine_end();
    nng_runs = false;
}
