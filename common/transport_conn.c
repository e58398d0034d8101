/* common/transport_conn.c - one connection: a stream, its two buffers, and the frames in them.
 *
 * A connection has one operation for each direction; it is freed when both are back and no frame of
 * it is being handled. Buffers are small while little is going on: thousands of agents stay
 * connected.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/tls_engine.h"
#include "common/transport_nng.h"

#define CONN_IDLE_BYTES  4096u /* of each buffer while little is going on */
#define CONN_READ_BYTES  LS_BATCH_BYTES
#define CONN_SPARE_BYTES 1024u /* what a report may grow by */
#define CONN_SMALL_MAX   16u   /* small reads before the buffer for large ones is given up */
#define CONN_OUT_BYTES   512u  /* to begin with: heartbeats, acknowledgements */
#define CONN_QUIET_BYTES 1024u /* less than this is all that there is to send */

/* ---- life ---- */

static void no_stranger(struct ls_conn *conn)
{
    if (conn->stranger)
        conn->hub->strangers--;
    conn->stranger = false;
}

void ls_conn_free(struct ls_conn *conn)
{
    struct ls_hub *hub = conn->hub;

    no_stranger(conn);
    ls_op_fini(&conn->receive);
    ls_op_fini(&conn->send);
    nng_stream_free(conn->stream);
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
    if (conn->prev != NULL)
        conn->prev->next = conn->next;
    else
        hub->conns = conn->next;
    ls_hub_count(hub, -1);
    free(conn->in);
    free(conn->out);
    free(conn);
}

/* The end of a small send is not told by itself, but found when it matters. */
static bool is_sending(struct ls_conn *conn)
{
    if (conn->send.busy && ls_op_settle(&conn->send)) {
        conn->send.busy = false;
        conn->out_sent = conn->out_len;
    }
    return conn->send.busy;
}

void ls_conn_release(struct ls_conn *conn)
{
    if (conn->closing && !conn->hub->dying && conn->pins == 0 && !conn->receive.busy &&
        !is_sending(conn))
        ls_conn_free(conn);
}

void ls_conn_close(struct ls_conn *conn, const char *why)
{
    struct ls_tls_peer peer = { 0 };

    if (conn->closing)
        return;
    if (conn->hub->credentials != NULL)
        ls_tls_look(conn->stream, &peer);
    if (peer.trouble[0] != '\0')
        why = peer.trouble; /* what comes of an error of TLS says less than it */
    conn->closing = true;
    nng_stream_close(conn->stream);
    conn->pins++;
    if (!conn->lingering)
        conn->hub->ops->closed(conn->hub->owner, conn, why);
    conn->pins--;
    ls_conn_release(conn);
}

static bool resize(unsigned char **data, size_t *cap, size_t want)
{
    unsigned char *bigger = realloc(*data, want);

    if (bigger == NULL)
        return false;
    *data = bigger;
    *cap = want;
    return true;
}

static void receive_more(struct ls_conn *conn)
{
    nng_iov iov = { .iov_buf = conn->in + conn->in_len, .iov_len = conn->in_cap - conn->in_len };

    (void)nng_aio_set_iov(conn->receive.aio, 1, &iov); /* fails on more than eight pieces only */
    conn->receive.busy = true;
    nng_stream_recv(conn->stream, conn->receive.aio);
}

static struct ls_conn *conn_new(struct ls_hub *hub, nng_stream *stream, int64_t now_ns)
{
    struct ls_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL) {
        nng_stream_free(stream);
        return NULL;
    }
    conn->hub = hub;
    conn->stream = stream;
    conn->since_ns = conn->heard_ns = conn->spoke_ns = now_ns;
    ls_hub_count(hub, 1);
    conn->next = hub->conns;
    if (hub->conns != NULL)
        hub->conns->prev = conn;
    hub->conns = conn;
    if (ls_op_init(&conn->receive, hub, conn, LS_OP_RECEIVE) != 0 ||
        ls_op_init(&conn->send, hub, conn, LS_OP_SEND) != 0 ||
        !resize(&conn->in, &conn->in_cap, CONN_IDLE_BYTES)) {
        ls_conn_free(conn);
        return NULL;
    }
    return conn;
}

/* At once, for it is not known any more when the connection is gone. */
static void learn_remote(struct ls_conn *conn)
{
    struct ls_tls_peer peer = { 0 };
    nng_sockaddr address;
    char host[INET6_ADDRSTRLEN];

    if (conn->hub->credentials != NULL)
        ls_tls_look(conn->stream, &peer);
    conn->generation = peer.generation;

    (void)snprintf(conn->remote, sizeof(conn->remote), "%s", conn->hub->tcp ? "unknown" : "local");
    if (!conn->hub->tcp || nng_stream_get_addr(conn->stream, NNG_OPT_REMADDR, &address) != 0)
        return;
    if (address.s_family == NNG_AF_INET &&
        inet_ntop(AF_INET, &address.s_in.sa_addr, host, sizeof(host)) != NULL)
        (void)snprintf(conn->remote, sizeof(conn->remote), "%s:%u", host,
                       ntohs(address.s_in.sa_port));
    else if (address.s_family == NNG_AF_INET6 &&
             inet_ntop(AF_INET6, &address.s_in6.sa_addr, host, sizeof(host)) != NULL)
        (void)snprintf(conn->remote, sizeof(conn->remote), "[%s]:%u", host,
                       ntohs(address.s_in6.sa_port));
}

void ls_conn_open(struct ls_hub *hub, nng_stream *stream, int64_t now_ns)
{
    struct ls_conn *conn = conn_new(hub, stream, now_ns);

    if (conn == NULL) {
        if (hub->dialer != NULL)
            hub->ops->dial_failed(hub->owner, "out of memory");
        return;
    }
    if (hub->listener != NULL) {
        conn->stranger = true;
        hub->strangers++;
    }
    learn_remote(conn);
    ls_hub_log_news(hub);
    conn->pins++;
    hub->ops->opened(hub->owner, conn);
    if (!conn->closing && conn->stranger && ls_hub_is_overrun_by(hub, conn))
        ls_conn_close(conn, "too many others from there have not said who they are");
    if (!conn->closing) {
        receive_more(conn);
        ls_conn_kick(conn);
    }
    conn->pins--;
    ls_conn_release(conn);
}

/* ---- sending ---- */

static void send_more(struct ls_conn *conn)
{
    nng_iov iov = { .iov_buf = conn->out + conn->out_sent,
                    .iov_len = conn->out_len - conn->out_sent };

    (void)nng_aio_set_iov(conn->send.aio, 1, &iov); /* fails on more than eight pieces only */
    conn->send.busy = true;
    conn->send.bytes = iov.iov_len; /* not under way: the loop's thread alone has it */
    conn->send.quiet = iov.iov_len < CONN_QUIET_BYTES && conn->out_cap <= CONN_IDLE_BYTES;
    conn->spoke_ns = ls_clock_mono_ns();
    nng_stream_send(conn->stream, conn->send.aio);
}

void ls_conn_kick(struct ls_conn *conn)
{
    struct ls_hub *hub = conn->hub;

    if (conn->closing || conn->starved || conn->handling || is_sending(conn))
        return;
    if (conn->out_sent == conn->out_len) {
        conn->out_sent = conn->out_len = 0;
        conn->handling = true; /* what it causes goes with it */
        if (!conn->lingering)
            hub->ops->fill(hub->owner, conn);
        conn->handling = false;
        if (conn->starved)
            return;
    }
    if (conn->out_len > conn->out_sent) {
        send_more(conn);
    } else if (conn->out_cap > CONN_IDLE_BYTES) {
        free(conn->out);
        conn->out = NULL;
        conn->out_cap = 0;
    }
}

/* Room for a frame of len bytes, its head written; NULL: no memory. */
static unsigned char *put_frame(struct ls_conn *conn, size_t len)
{
    size_t need = conn->out_len + LS_FRAME_HEAD + len;
    size_t twice = conn->out_cap * 2 > CONN_OUT_BYTES ? conn->out_cap * 2 : CONN_OUT_BYTES;
    unsigned char *at;

    if (conn->starved)
        return NULL;
    if (need > conn->out_cap && !resize(&conn->out, &conn->out_cap, need > twice ? need : twice)) {
        conn->starved = true;
        return NULL;
    }
    at = conn->out + conn->out_len;
    for (unsigned i = 0; i < LS_FRAME_HEAD; i++)
        at[i] = (unsigned char)(len >> (8 * i));
    conn->out_len = need;
    return at + LS_FRAME_HEAD;
}

void ls_conn_put(struct ls_conn *conn, Ls__Envelope *envelope)
{
    unsigned char *at;

    envelope->version = LS_WIRE_VERSION;
    at = put_frame(conn, ls__envelope__get_packed_size(envelope));
    if (at != NULL)
        (void)ls__envelope__pack(envelope, at);
}

void ls_conn_put_packed(struct ls_conn *conn, char *run_id, uint64_t seq,
                        const struct ls_packed *packed)
{
    Ls__Envelope head = LS__ENVELOPE__INIT;
    unsigned char *at;

    head.version = LS_WIRE_VERSION;
    head.run_id = run_id;
    head.seq = seq;
    at = put_frame(conn, ls__envelope__get_packed_size(&head) + packed->len);
    if (at != NULL)
        memcpy(at + ls__envelope__pack(&head, at), packed->data, packed->len);
}

size_t ls_conn_pending(const struct ls_conn *conn)
{
    return conn->out_len - conn->out_sent;
}

void ls_conn_on_sent(struct ls_conn *conn, int result)
{
    if (conn->closing)
        return;
    if (result != 0) {
        ls_conn_close(conn, nng_strerror(result));
        return;
    }
    conn->out_sent += nng_aio_count(conn->send.aio);
    ls_conn_kick(conn);
}

/* ---- receiving ---- */

/* Handles the frames that are complete; returns how many bytes the next one needs in all. */
static size_t split(struct ls_conn *conn)
{
    struct ls_hub *hub = conn->hub;
    struct ls_diag diag = { 0 };
    size_t done = 0;
    size_t need = 0;

    while (!conn->closing && !conn->lingering) {
        struct ls_bytes left = { conn->in + done, conn->in_len - done };
        struct ls_bytes envelope;
        enum ls_err rc = ls_frame_next(left, hub->ops->frame_max, &envelope, &need, &diag);

        if (rc == LS_EAGAIN)
            break;
        if (rc != LS_OK) {
            ls_conn_close(conn, diag.text);
            break;
        }
        hub->ops->frame(hub->owner, conn, envelope, conn->receive.done_ns);
        done += need;
    }
    if (conn->lingering)
        done = conn->in_len;
    conn->in_len -= done;
    memmove(conn->in, conn->in + done, conn->in_len);
    return need;
}

/* The buffer grows as bytes come in, never on a stranger's mere announcement, to what a report
 * takes: each read is a round through nng's threads. It shrinks when only few come for a while. */
static bool fit_buffer(struct ls_conn *conn, size_t read_bytes, bool was_full, size_t need)
{
    size_t cap = conn->in_cap;

    conn->small = read_bytes < CONN_IDLE_BYTES ? conn->small + 1 : 0;
    if (conn->in_len == cap && conn->up && need <= CONN_READ_BYTES)
        cap = need + CONN_SPARE_BYTES - need % CONN_SPARE_BYTES;
    else if (conn->in_len == cap)
        cap = cap * 2 < need ? cap * 2 : need;
    else if (was_full && conn->in_len > 0 && cap < CONN_READ_BYTES)
        cap += CONN_IDLE_BYTES;
    else if (conn->in_len == 0 && conn->small >= CONN_SMALL_MAX)
        cap = CONN_IDLE_BYTES;
    return cap == conn->in_cap || resize(&conn->in, &conn->in_cap, cap);
}

void ls_conn_on_received(struct ls_conn *conn, int result)
{
    size_t count = nng_aio_count(conn->receive.aio);
    bool was_full;
    size_t need;

    if (conn->closing)
        return;
    if (result != 0 || count == 0) {
        ls_conn_close(conn, result == 0 || result == NNG_ECONNSHUT
                                ? "the peer closed the connection"
                                : nng_strerror(result));
        return;
    }
    conn->heard_ns = conn->receive.done_ns;
    conn->in_len += count;
    was_full = conn->in_len == conn->in_cap;
    conn->handling = true;
    need = split(conn);
    conn->handling = false;
    if (!conn->closing && !fit_buffer(conn, count, was_full, need))
        ls_conn_close(conn, "out of memory");
    if (conn->closing)
        return;
    receive_more(conn);
    ls_conn_kick(conn);
}

void ls_conn_linger(struct ls_conn *conn)
{
    conn->lingering = true;
    conn->since_ns = ls_clock_mono_ns();
}

void ls_conn_set_user(struct ls_conn *conn, void *user)
{
    conn->user = user;
}

void *ls_conn_user(const struct ls_conn *conn)
{
    return conn->user;
}

void ls_conn_set_up(struct ls_conn *conn)
{
    struct ls_tls_peer peer = { 0 };

    if (conn->hub->credentials != NULL)
        ls_tls_look(conn->stream, &peer);
    conn->expiry_wall_ns = peer.expiry_wall_ns;
    conn->up = true;
    no_stranger(conn);
}

/* Of many, each is a part of what they cost: as seldom as leaves the other ends half of their
 * patience. */
bool ls_conn_ping_due(const struct ls_conn *conn, int64_t now_ns)
{
    int64_t heartbeat_ns = conn->hub->pace.heartbeat_ns;

    if (ls_hub_is_crowded(conn->hub))
        heartbeat_ns += heartbeat_ns / 2;
    return conn->up && now_ns - conn->spoke_ns >= heartbeat_ns;
}

bool ls_conn_is_closing(const struct ls_conn *conn)
{
    return conn->closing;
}

bool ls_conn_fell_silent(const struct ls_conn *conn)
{
    return conn->silent;
}

const char *ls_conn_remote(const struct ls_conn *conn)
{
    return conn->remote;
}

void ls_conn_identity(const struct ls_conn *conn, struct ls_identity *out)
{
    struct ls_tls_peer peer = { 0 };

    if (conn->hub->credentials != NULL)
        ls_tls_look(conn->stream, &peer);
    *out = peer.identity;
}
