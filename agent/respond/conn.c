#include "agent/respond/conn.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/respond/h2.h"
#include "agent/respond/heap.h"
#include "agent/respond/ws.h"
#include "common/clock.h"

#define PARTS_MAX     32
#define LINGER_MAX_NS (2 * LS_NS_PER_S) /* for the peer's FIN after ours */

struct respond_conn *respond_conn_create(int fd, struct respond_tls *tls)
{
    struct respond_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL)
        return NULL;
    if (tls != NULL) {
        conn->tls = respond_tls_accept(tls, fd);
        if (conn->tls == NULL) {
            free(conn);
            return NULL;
        }
    }
    conn->fd = fd;
    conn->heap_at = RESPOND_NOT_QUEUED;
    conn->watched = EPOLLIN;
    return conn;
}

static struct respond_run *run_at(struct respond_conn *conn, uint32_t i)
{
    return &conn->runs[(conn->runs_first + i) % conn->runs_cap];
}

void respond_conn_destroy(struct respond_loop *loop, struct respond_conn *conn)
{
    for (uint32_t i = 0; i < conn->runs_len; i++) {
        if (run_at(conn, i)->answer->part != RESPOND_EXTRA)
            respond_tally_add(&loop->tally.unanswered, run_at(conn, i)->count);
    }
    respond_ws_end(loop, conn);
    respond_h2_end(loop, conn);
    respond_heap_remove(loop, conn);
    respond_parser_fini(&conn->parser);
    respond_tls_end(conn->tls);
    (void)close(conn->fd); /* nothing of ours is lost with it */
    free(conn->runs);
    free(conn);
    respond_tally_add(&loop->tally.closed, 1);
}

static int64_t draw_exponential(struct respond_loop *loop, int64_t mean_ns)
{
    return (int64_t)(-log(1 - ls_rng_unit(&loop->rng)) * (double)mean_ns);
}

/* When the one server of the queue is through with a request that comes now. It is an account of
 * instants, not a wait, so that how late the kernel wakes us takes nothing from its rate. */
static int64_t serve(struct respond_loop *loop, int64_t now_ns)
{
    const struct respond_settings *settings = loop->settings;
    int64_t begin_ns = now_ns > loop->queue_free_ns ? now_ns : loop->queue_free_ns;

    loop->queue_free_ns = begin_ns + (settings->queue == RESPOND_CONSTANT
                                          ? settings->queue_ns
                                          : draw_exponential(loop, settings->queue_ns));
    return loop->queue_free_ns;
}

int64_t respond_due_instant(struct respond_loop *loop, const struct respond_answer *answer,
                            int64_t now_ns)
{
    const struct respond_settings *settings = loop->settings;
    double span = (double)(settings->latency_high_ns - settings->latency_low_ns);
    bool queued = settings->queue != RESPOND_AT_ONCE;
    int64_t from_ns = queued ? serve(loop, now_ns) : now_ns;
    int64_t latency_ns = 0;

    switch (settings->latency) {
    case RESPOND_AT_ONCE:
        if (!queued && answer->later_ns == 0 && answer->drip_ns == 0)
            return 0;
        break;
    case RESPOND_CONSTANT:
        latency_ns = settings->latency_low_ns;
        break;
    case RESPOND_UNIFORM:
        latency_ns = settings->latency_low_ns + (int64_t)(span * ls_rng_unit(&loop->rng));
        break;
    case RESPOND_EXPONENTIAL:
        latency_ns = draw_exponential(loop, settings->latency_low_ns);
        break;
    }
    return from_ns + latency_ns + answer->later_ns;
}

static bool grow_runs(struct respond_conn *conn)
{
    uint32_t cap = conn->runs_cap == 0 ? 4 : conn->runs_cap * 2;
    struct respond_run *runs = calloc(cap, sizeof(*runs));

    if (runs == NULL)
        return false;
    for (uint32_t i = 0; i < conn->runs_len; i++)
        runs[i] = *run_at(conn, i);
    free(conn->runs);
    conn->runs = runs;
    conn->runs_cap = cap;
    conn->runs_first = 0;
    return true;
}

/* Puts an answer behind those that wait. false: no memory. */
static bool enqueue(struct respond_conn *conn, const struct respond_answer *answer, int64_t due_ns)
{
    struct respond_run *last = conn->runs_len > 0 ? run_at(conn, conn->runs_len - 1) : NULL;

    if (last != NULL && last->answer == answer && last->due_ns == due_ns && answer->drip_ns == 0) {
        last->count++;
    } else {
        if (conn->runs_len == conn->runs_cap && !grow_runs(conn))
            return false;
        *run_at(conn, conn->runs_len++) =
            (struct respond_run){ .answer = answer, .due_ns = due_ns, .count = 1 };
    }
    conn->waiting++;
    conn->ending = answer->ending != RESPOND_KEEP;
    return true;
}

int respond_choose_rule(struct respond_loop *loop)
{
    const struct respond_settings *settings = loop->settings;
    uint64_t n;

    if (settings->rule_count == 0)
        return -1;
    n = atomic_fetch_add_explicit(loop->sequence, 1, memory_order_relaxed) + 1;
    for (size_t i = 0; i < settings->rule_count; i++) {
        const struct respond_rule *rule = &settings->rules[i];

        if (rule->after ? n > rule->n : n % rule->n == 0)
            return (int)i;
    }
    return -1;
}

static bool take_request(struct respond_loop *loop, struct respond_conn *conn,
                         const struct respond_request *request, int64_t now_ns)
{
    const struct respond_answer *answer;
    int rule;

    if (request->upgrade && conn->runs_len == 0 && !conn->ending)
        return respond_ws_begin(loop, conn);
    rule = respond_choose_rule(loop);
    respond_tally_add(&loop->tally.requests, 1);
    if (conn->ending) {
        respond_tally_add(&loop->tally.unanswered, 1);
        return true;
    }
    if (rule >= 0)
        respond_tally_add(&loop->tally.actions[loop->settings->rules[rule].action], 1);
    answer = respond_answers_get(loop->answers, rule, request->head, request->last);
    if (enqueue(conn, answer, respond_due_instant(loop, answer, now_ns)))
        return true;
    respond_tally_add(&loop->tally.unanswered, 1);
    return false;
}

static bool take_http1(struct respond_loop *loop, struct respond_conn *conn,
                       const unsigned char *data, size_t len, int64_t now_ns)
{
    struct respond_request request;
    bool ok = true;

    while (ok && len > 0 && !conn->lost) {
        if (conn->ws != NULL)
            return respond_ws_take(loop, conn, data, len);
        switch (respond_parser_next(&conn->parser, &loop->cache, &data, &len, &request)) {
        case RESPOND_MORE:
            return true;
        case RESPOND_REQUEST:
            ok = take_request(loop, conn, &request, now_ns);
            break;
        case RESPOND_EXPECTS:
            if (!conn->ending)
                ok = enqueue(conn, respond_answers_continue(loop->answers), 0);
            break;
        case RESPOND_BAD:
            conn->lost = true;
            respond_tally_add(&loop->tally.bad_requests, 1);
            if (!conn->ending)
                ok = enqueue(conn, respond_answers_bad(loop->answers), 0);
            break;
        case RESPOND_NOMEM:
            ok = false;
            break;
        }
    }
    return ok;
}

/* The first three bytes of a connection say which HTTP it is. */
static bool take_first(struct respond_loop *loop, struct respond_conn *conn,
                       const unsigned char **data, size_t *len, int64_t now_ns)
{
    while (conn->first_len < sizeof(conn->first) && *len > 0) {
        conn->first[conn->first_len++] = *(*data)++;
        --*len;
    }
    if (conn->first_len < sizeof(conn->first))
        return true;
    if (!respond_h2_is(conn->first, sizeof(conn->first)))
        return take_http1(loop, conn, conn->first, sizeof(conn->first), now_ns);
    return respond_h2_begin(loop, conn) &&
           respond_h2_take(loop, conn, conn->first, sizeof(conn->first), now_ns);
}

/* false: no memory. */
static bool take_bytes(struct respond_loop *loop, struct respond_conn *conn,
                       const unsigned char *data, size_t len, int64_t now_ns)
{
    respond_tally_add(&loop->tally.bytes_in, len);
    if (conn->first_len < sizeof(conn->first) && !take_first(loop, conn, &data, &len, now_ns))
        return false;
    if (len == 0)
        return true;
    return conn->h2 != NULL ? respond_h2_take(loop, conn, data, len, now_ns)
                            : take_http1(loop, conn, data, len, now_ns);
}

static ssize_t receive(struct respond_loop *loop, struct respond_conn *conn)
{
    if (conn->tls != NULL)
        return respond_tls_recv(conn->tls, loop->read_buffer, RESPOND_READ_BYTES);
    return recv(conn->fd, loop->read_buffer, RESPOND_READ_BYTES, 0);
}

static ssize_t transmit(struct respond_conn *conn, struct msghdr *message)
{
    if (conn->tls != NULL)
        return respond_tls_send(conn->tls, message->msg_iov, message->msg_iovlen);
    return sendmsg(conn->fd, message, MSG_NOSIGNAL);
}

ssize_t respond_conn_send(struct respond_conn *conn, const void *data, size_t len)
{
    union {
        const void *in;
        void *out;
    } u = { .in = data };
    struct iovec part = { u.out, len };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

    return transmit(conn, &message);
}

/* Reads what is there. false: the connection is gone. */
static bool take_input(struct respond_loop *loop, struct respond_conn *conn, int64_t now_ns)
{
    while (conn->waiting < RESPOND_QUEUE_MAX || conn->ending) {
        ssize_t n = receive(loop, conn);

        if (n == 0) {
            conn->peer_done = true;
            return true;
        }
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (!take_bytes(loop, conn, loop->read_buffer, (size_t)n, now_ns))
            return false;
        if ((size_t)n < RESPOND_READ_BYTES)
            return true; /* level triggered: what came meanwhile is reported again */
    }
    return true;
}

/* Fills parts with answers that are due. A drip's piece goes alone. */
static int gather(struct respond_conn *conn, int64_t now_ns, struct iovec *parts)
{
    size_t skip = conn->sent;
    int n = 0;

    for (uint32_t i = 0; i < conn->runs_len && n < PARTS_MAX; i++) {
        const struct respond_run *run = run_at(conn, i);
        const struct respond_answer *answer = run->answer;
        uint32_t left = run->count;

        if (run->due_ns > now_ns || answer->len == 0)
            break;
        if (answer->drip_ns > 0) {
            size_t end = answer->len * (run->pieces + 1) / RESPOND_DRIP_PIECES;

            if (n == 0 && end > skip)
                parts[n++] = (struct iovec){ answer->bytes + skip, end - skip };
            break;
        }
        while (left > 0 && n < PARTS_MAX) {
            uint32_t copies = left < answer->copies ? left : answer->copies;

            parts[n++] = (struct iovec){ answer->bytes + skip, copies * answer->len - skip };
            left -= copies;
            skip = 0;
        }
    }
    return n;
}

static void pop_run(struct respond_conn *conn)
{
    conn->runs_first = (conn->runs_first + 1) % conn->runs_cap;
    conn->runs_len--;
}

/* count answers of the first run are through. */
static void finish_answers(struct respond_loop *loop, struct respond_conn *conn, uint32_t count,
                           int64_t now_ns)
{
    struct respond_run *run = run_at(conn, 0);

    if (run->answer->part == RESPOND_COMPLETE)
        respond_tally_add(&loop->tally.responses, count);
    else if (run->answer->part == RESPOND_BROKEN)
        respond_tally_add(&loop->tally.unanswered, count);
    if (run->due_ns > 0)
        ls_hist_record_n(loop->lateness, now_ns - run->due_ns, count);
    conn->waiting -= count;
    run->count -= count;
}

/* The first answer is through and it was the last: what becomes of the connection? */
static bool end_as_answered(struct respond_loop *loop, struct respond_conn *conn,
                            enum respond_ending ending, int64_t now_ns)
{
    struct linger reset = { .l_onoff = 1, .l_linger = 0 };

    if (ending == RESPOND_END_CLOSE && !conn->peer_done) {
        conn->lingering = true;
        if (conn->tls != NULL)
            respond_tls_farewell(conn->tls);
        (void)shutdown(conn->fd, SHUT_WR); /* fails if the peer is gone: epoll says so, too */
        return respond_heap_set(loop, conn, now_ns + LINGER_MAX_NS) == LS_OK;
    }
    if (ending == RESPOND_END_RESET) {
        (void)take_input(loop, conn, now_ns); /* counted before it is thrown away */
        (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        return false;
    }
    return ending == RESPOND_END_NEVER;
}

/* Takes sent bytes off the queue. *out_alive is false once the connection has ended. */
static void advance(struct respond_loop *loop, struct respond_conn *conn, size_t sent,
                    int64_t now_ns, bool *out_alive)
{
    respond_tally_add(&loop->tally.bytes_out, sent);
    sent += conn->sent;
    while (conn->runs_len > 0) {
        struct respond_run *run = run_at(conn, 0);
        const struct respond_answer *answer = run->answer;
        size_t whole = answer->len > 0 ? sent / answer->len : run->due_ns <= now_ns ? 1 : 0;
        uint32_t count = whole < run->count ? (uint32_t)whole : run->count;

        sent -= count * answer->len;
        if (count > 0)
            finish_answers(loop, conn, count, now_ns);
        if (run->count > 0) {
            if (answer->drip_ns > 0 && run->pieces + 1 < RESPOND_DRIP_PIECES &&
                sent >= answer->len * (run->pieces + 1) / RESPOND_DRIP_PIECES) {
                run->pieces++;
                run->due_ns = now_ns + answer->drip_ns / RESPOND_DRIP_PIECES;
            }
            break;
        }
        pop_run(conn);
        if (answer->ending != RESPOND_KEEP) {
            *out_alive = end_as_answered(loop, conn, answer->ending, now_ns);
            break;
        }
    }
    conn->sent = sent;
}

/* Sends what is due. false: the connection has ended. */
static bool send_due(struct respond_loop *loop, struct respond_conn *conn, int64_t now_ns)
{
    bool alive = true;

    conn->blocked = false;
    while (alive && conn->runs_len > 0 && run_at(conn, 0)->due_ns <= now_ns) {
        struct iovec parts[PARTS_MAX];
        struct msghdr message = { .msg_iov = parts };
        size_t wanted = 0;
        ssize_t n = 0;

        message.msg_iovlen = (size_t)gather(conn, now_ns, parts);
        for (size_t i = 0; i < message.msg_iovlen; i++)
            wanted += parts[i].iov_len;
        if (wanted > 0)
            n = transmit(conn, &message);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (n < 0)
            n = 0;
        advance(loop, conn, (size_t)n, now_ns, &alive);
        if ((size_t)n < wanted) {
            conn->blocked = true;
            break;
        }
    }
    return alive;
}

/* Asks epoll for what can be used now. */
static bool watch(struct respond_loop *loop, struct respond_conn *conn)
{
    bool room = conn->ws != NULL   ? respond_ws_has_room(conn)
                : conn->h2 != NULL ? respond_h2_has_room(conn) || conn->lingering
                                   : conn->waiting < RESPOND_QUEUE_MAX || conn->ending;
    struct epoll_event event = { .data.ptr = conn };

    event.events = (room && !conn->peer_done ? EPOLLIN : 0u) | (conn->blocked ? EPOLLOUT : 0u);
    if (event.events == conn->watched)
        return true;
    conn->watched = event.events;
    return epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event) == 0;
}

static bool flush_h2(struct respond_loop *loop, struct respond_conn *conn, int64_t now_ns)
{
    enum respond_ending ending;

    if (!respond_h2_flush(loop, conn, now_ns, &ending))
        return false;
    if (ending != RESPOND_KEEP && !conn->blocked)
        return end_as_answered(loop, conn, ending, now_ns) && watch(loop, conn);
    if (conn->peer_done && respond_h2_is_idle(conn))
        return false;
    if (conn->blocked || respond_h2_due_ns(conn) == INT64_MAX)
        respond_heap_remove(loop, conn);
    else if (respond_heap_set(loop, conn, respond_h2_due_ns(conn)) != LS_OK)
        return false;
    return watch(loop, conn);
}

static bool flush_ws(struct respond_loop *loop, struct respond_conn *conn, int64_t now_ns)
{
    bool over = false;

    if (!respond_ws_flush(loop, conn, &over) || conn->peer_done)
        return false;
    if (over && !end_as_answered(loop, conn,
                                 conn->ws->reset ? RESPOND_END_RESET : RESPOND_END_CLOSE, now_ns))
        return false;
    return watch(loop, conn);
}

bool respond_conn_flush(struct respond_loop *loop, struct respond_conn *conn, int64_t now_ns)
{
    if (conn->lingering)
        return !conn->peer_done && now_ns < conn->timer_ns;
    if (conn->ws != NULL)
        return flush_ws(loop, conn, now_ns);
    if (conn->h2 != NULL)
        return flush_h2(loop, conn, now_ns);
    if (!send_due(loop, conn, now_ns))
        return false;
    if (conn->lingering)
        return watch(loop, conn);
    if (conn->runs_len == 0 && conn->peer_done)
        return false;
    if (conn->runs_len == 0 || conn->blocked)
        respond_heap_remove(loop, conn);
    else if (respond_heap_set(loop, conn, run_at(conn, 0)->due_ns) != LS_OK)
        return false;
    return watch(loop, conn);
}

bool respond_conn_readable(struct respond_loop *loop, struct respond_conn *conn, int64_t now_ns)
{
    return take_input(loop, conn, now_ns) && respond_conn_flush(loop, conn, now_ns);
}
