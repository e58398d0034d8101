#include "agent/respond/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/respond/conn.h"
#include "agent/respond/heap.h"
#include "agent/respond/ws.h"
#include "common/clock.h"

#define EVENTS_MAX      1024 /* so that all that came in a stall is read together */
#define EXPIRE_MAX      32
#define ACCEPT_PAUSE_NS (10 * LS_NS_PER_MS) /* out of descriptors: wait for some to come back */

struct respond_thread {
    struct respond_loop loop;
    struct respond_server *server;
    uint32_t index;
    pthread_t id;
    bool started;
    int64_t next_stall_ns;
    int64_t accept_again_ns; /* thread 0: 0 unless it pauses */
    uint32_t next_thread;    /* thread 0: who gets the next connection */
    pthread_mutex_t lock;    /* of the list: thread 0 adds to it, this one takes away */
    struct respond_conn *conns;
};

struct respond_server {
    const struct respond_settings *settings;
    struct respond_answers *answers;
    struct respond_tls *tls; /* owned; NULL: plain */
    struct sockaddr_storage address;
    int listen_fd;
    int stop_fd; /* eventfd, readable for ever once the server is to end */
    int64_t start_ns;
    _Atomic uint64_t sequence;
    _Atomic uint64_t upgrades;
    struct respond_thread *threads;
    uint32_t thread_count;
};

/* epoll's data.ptr: what is not a connection. */
static char listener_tag;
static char stop_tag;

static void list_add(struct respond_thread *thread, struct respond_conn *conn)
{
    (void)pthread_mutex_lock(&thread->lock);
    conn->next = thread->conns;
    if (conn->next != NULL)
        conn->next->prev = conn;
    thread->conns = conn;
    (void)pthread_mutex_unlock(&thread->lock);
}

static void drop(struct respond_thread *thread, struct respond_conn *conn)
{
    (void)pthread_mutex_lock(&thread->lock);
    if (conn->prev != NULL)
        conn->prev->next = conn->next;
    else
        thread->conns = conn->next;
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
    (void)pthread_mutex_unlock(&thread->lock);
    respond_conn_destroy(&thread->loop, conn);
}

static void watch_listener(struct respond_thread *thread, bool on)
{
    struct epoll_event event = { .events = on ? EPOLLIN : 0, .data.ptr = &listener_tag };

    /* Cannot fail: it is in the set since the start. */
    (void)epoll_ctl(thread->loop.epoll_fd, EPOLL_CTL_MOD, thread->server->listen_fd, &event);
    thread->accept_again_ns = on ? 0 : ls_clock_mono_ns() + ACCEPT_PAUSE_NS;
}

/* Gives a new connection to the next thread. false: it could not be taken. */
static bool deal(struct respond_thread *thread, int fd)
{
    struct respond_server *server = thread->server;
    struct respond_thread *owner = &server->threads[thread->next_thread];
    struct epoll_event event = { .events = EPOLLIN };
    struct respond_conn *conn = respond_conn_create(fd, server->tls);
    int on = 1;

    if (conn == NULL)
        return false;
    thread->next_thread = (thread->next_thread + 1) % server->thread_count;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    respond_tally_add(&thread->loop.tally.opened, 1);
    list_add(owner, conn);
    event.data.ptr = conn;
    if (epoll_ctl(owner->loop.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        (void)shutdown(fd, SHUT_RDWR); /* closed with the server */
    return true;
}

static void accept_all(struct respond_thread *thread)
{
    for (;;) {
        int fd = accept4(thread->server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0 && deal(thread, fd))
            continue;
        if (fd < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (fd < 0 && errno == ECONNABORTED)
            continue;
        if (fd >= 0)
            (void)close(fd);
        respond_tally_add(&thread->loop.tally.accept_failures, 1);
        watch_listener(thread, false);
        return;
    }
}

/* Not all at once: meanwhile requests come in, and their time runs from when they are read. */
static void expire(struct respond_thread *thread)
{
    struct respond_loop *loop = &thread->loop;
    struct respond_conn *conn;

    for (unsigned i = 0; i < EXPIRE_MAX && (conn = respond_heap_first(loop)) != NULL; i++) {
        int64_t now_ns = ls_clock_mono_ns();

        if (conn->timer_ns > now_ns)
            return;
        if (!respond_conn_flush(loop, conn, now_ns))
            drop(thread, conn);
    }
}

/* Does nothing for the rest of a stall, if this is one. Returns its end, 0 if it is none. */
static int64_t stall(struct respond_thread *thread)
{
    const struct respond_settings *settings = thread->server->settings;
    struct pollfd stop = { .fd = thread->server->stop_fd, .events = POLLIN };
    int64_t now_ns = ls_clock_mono_ns();
    int64_t end_ns = thread->next_stall_ns + settings->stall_length_ns;

    if (settings->stall_period_ns == 0 || now_ns < thread->next_stall_ns)
        return 0;
    for (; now_ns < end_ns; now_ns = ls_clock_mono_ns()) {
        int64_t left_ns = end_ns - now_ns - settings->spin_ns;
        struct timespec left = { 0, 0 };

        if (left_ns > 0)
            left = (struct timespec){ left_ns / LS_NS_PER_S, left_ns % LS_NS_PER_S };
        if (ppoll(&stop, 1, &left, NULL) > 0)
            break; /* the loop sees it, too */
    }
    if (thread->index == 0)
        respond_tally_add(&thread->loop.tally.stalls, 1);
    thread->next_stall_ns += settings->stall_period_ns;
    return end_ns;
}

static int64_t earliest(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* Waits for events or the next instant at which there is something to do; not behind a stall. */
static int wait_events(struct respond_thread *thread, struct epoll_event *events, bool stalled)
{
    const struct respond_settings *settings = thread->server->settings;
    const struct respond_conn *first = respond_heap_first(&thread->loop);
    int64_t until_ns = first != NULL ? first->timer_ns : INT64_MAX;
    struct timespec left = { 0, 0 };
    int64_t wait_ns;

    if (settings->stall_period_ns > 0)
        until_ns = earliest(until_ns, thread->next_stall_ns);
    if (thread->accept_again_ns > 0)
        until_ns = earliest(until_ns, thread->accept_again_ns);
    if (until_ns == INT64_MAX && !stalled)
        return epoll_wait(thread->loop.epoll_fd, events, EVENTS_MAX, -1);
    wait_ns = until_ns - ls_clock_mono_ns() - settings->spin_ns;
    if (wait_ns > 0 && !stalled)
        left = (struct timespec){ wait_ns / LS_NS_PER_S, wait_ns % LS_NS_PER_S };
    return epoll_pwait2(thread->loop.epoll_fd, events, EVENTS_MAX, &left, NULL);
}

static void handle(struct respond_thread *thread, const struct epoll_event *event, int64_t now_ns)
{
    struct respond_conn *conn = event->data.ptr;
    bool alive = true;

    if ((event->events & EPOLLIN) != 0)
        alive = respond_conn_readable(&thread->loop, conn, now_ns);
    else if ((event->events & EPOLLOUT) != 0)
        alive = respond_conn_flush(&thread->loop, conn, now_ns);
    if (!alive || (event->events & (EPOLLERR | EPOLLHUP)) != 0)
        drop(thread, conn);
}

/* What the events of a turn had to say to the room. */
static void share(struct respond_thread *thread, int64_t now_ns)
{
    struct respond_loop *loop = &thread->loop;
    struct respond_conn *next;

    respond_room_settle(loop);
    if (!loop->room.dirty)
        return;
    loop->room.dirty = false;
    for (struct respond_conn *conn = loop->room.first; conn != NULL; conn = next) {
        next = conn->ws->next;
        if (!respond_conn_flush(loop, conn, now_ns))
            drop(thread, conn);
    }
}

static void *run_thread(void *arg)
{
    struct respond_thread *thread = arg;
    const struct respond_settings *settings = thread->server->settings;
    struct epoll_event events[EVENTS_MAX];
    unsigned cpus = ls_cpuset_count(&settings->cpus);

    (void)prctl(PR_SET_TIMERSLACK, 1UL); /* a hint: else waits end 50 us late */
    if (cpus > 0) {
        struct ls_cpuset one;

        ls_cpuset_clear(&one);
        ls_cpuset_add(&one, (unsigned)ls_cpuset_nth(&settings->cpus, thread->index % cpus));
        /* That the CPUs may be used was checked before the first thread. */
        if (ls_cpuset_set_affinity(0, &one, NULL) != LS_OK)
            return NULL;
    }
    thread->next_stall_ns = thread->server->start_ns + settings->stall_period_ns;
    for (;;) {
        int64_t now_ns;
        int64_t stalled_ns = stall(thread);
        int n;

        expire(thread);
        if (thread->accept_again_ns > 0 && ls_clock_mono_ns() >= thread->accept_again_ns)
            watch_listener(thread, true);
        n = wait_events(thread, events, stalled_ns != 0);
        if (n < 0 && errno != EINTR)
            return NULL;
        /* What had come by the end of a stall is read then, however long the reading takes. */
        now_ns = stalled_ns != 0 ? stalled_ns : ls_clock_mono_ns();
        if (settings->stall_period_ns > 0 && now_ns >= thread->next_stall_ns)
            continue; /* it came in a stall: nobody looks */
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &stop_tag)
                return NULL;
            if (events[i].data.ptr == &listener_tag)
                accept_all(thread);
            else
                handle(thread, &events[i], now_ns + i); /* those of one instant keep their order */
        }
        share(thread, now_ns);
    }
}

static enum ls_err open_listener(struct respond_server *server, struct ls_diag *diag)
{
    const struct respond_settings *settings = server->settings;
    socklen_t len = sizeof(server->address);
    char text[64];
    int on = 1;

    server->listen_fd =
        socket(settings->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->listen_fd < 0)
        return ls_fail(diag, LS_EIO, "no socket: %s", strerror(errno));
    (void)setsockopt(server->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(server->listen_fd, (const struct sockaddr *)&settings->address,
             settings->address_len) != 0 ||
        listen(server->listen_fd, 65535) != 0 ||
        getsockname(server->listen_fd, (struct sockaddr *)&server->address, &len) != 0)
        return ls_fail(diag, LS_EIO, "cannot listen on %s: %s",
                       respond_format_address(&settings->address, text, sizeof(text)),
                       strerror(errno));
    return LS_OK;
}

static enum ls_err watch_tag(int epoll_fd, int fd, void *tag)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = tag };

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? LS_OK : LS_EIO;
}

static enum ls_err prepare_thread(struct respond_server *server, uint32_t index)
{
    struct respond_thread *thread = &server->threads[index];
    struct respond_loop *loop = &thread->loop;

    thread->server = server;
    thread->index = index;
    (void)pthread_mutex_init(&thread->lock, NULL); /* cannot fail with default attributes */
    loop->settings = server->settings;
    loop->answers = server->answers;
    loop->sequence = &server->sequence;
    loop->upgrades = &server->upgrades;
    ls_rng_init(&loop->rng, server->settings->seed, index);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        return LS_EIO;
    loop->read_buffer = malloc(RESPOND_READ_BYTES);
    if (loop->read_buffer == NULL || ls_hist_create(&loop->lateness) != LS_OK)
        return LS_ENOMEM;
    if (watch_tag(loop->epoll_fd, server->stop_fd, &stop_tag) != LS_OK)
        return LS_EIO;
    return index == 0 ? watch_tag(loop->epoll_fd, server->listen_fd, &listener_tag) : LS_OK;
}

/* Are the CPUs there, and may we use them? */
static enum ls_err check_cpus(const struct respond_settings *settings, struct ls_diag *diag)
{
    struct ls_cpuset allowed;
    char text[128];
    enum ls_err rc = ls_cpuset_get_affinity(0, &allowed, diag);

    if (rc == LS_OK && !ls_cpuset_contains(&allowed, &settings->cpus))
        rc = ls_fail(diag, LS_EINVAL, "--cpus: only CPUs %s may be used here",
                     ls_cpuset_format(&allowed, text, sizeof(text)));
    return rc;
}

static enum ls_err start(struct respond_server *server, struct ls_diag *diag)
{
    enum ls_err rc = check_cpus(server->settings, diag);

    if (rc == LS_OK)
        rc = open_listener(server, diag);
    if (rc == LS_OK)
        rc = respond_answers_create(server->settings, &server->answers, diag);
    if (rc == LS_OK &&
        (server->settings->tls_self_signed || server->settings->tls_certificate != NULL))
        rc = respond_tls_create(server->settings, &server->tls, diag);
    if (rc != LS_OK)
        return rc;
    server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server->threads = calloc(server->settings->threads, sizeof(*server->threads));
    if (server->stop_fd < 0 || server->threads == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for %u threads", server->settings->threads);
    server->thread_count = server->settings->threads;
    for (uint32_t i = 0; i < server->thread_count; i++)
        server->threads[i].loop.epoll_fd = -1;
    for (uint32_t i = 0; i < server->thread_count; i++) {
        rc = prepare_thread(server, i);
        if (rc != LS_OK)
            return ls_fail(diag, rc, "cannot set up thread %u: %s", i, strerror(errno));
    }
    server->start_ns = ls_clock_mono_ns();
    for (uint32_t i = 0; i < server->thread_count; i++) {
        struct respond_thread *thread = &server->threads[i];

        thread->started = pthread_create(&thread->id, NULL, run_thread, thread) == 0;
        if (!thread->started)
            return ls_fail(diag, LS_EIO, "cannot start thread %u", i);
    }
    return LS_OK;
}

enum ls_err respond_server_create(const struct respond_settings *settings,
                                  struct respond_server **out_server, struct ls_diag *diag)
{
    struct respond_server *server = calloc(1, sizeof(*server));
    enum ls_err rc;

    if (server == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the server");
    server->settings = settings;
    server->listen_fd = -1;
    server->stop_fd = -1;
    rc = start(server, diag);
    if (rc != LS_OK) {
        respond_server_destroy(server);
        return rc;
    }
    *out_server = server;
    return LS_OK;
}

void respond_server_address(const struct respond_server *server,
                            struct sockaddr_storage *out_address)
{
    *out_address = server->address;
}

static uint64_t read_counter(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void respond_server_counts(struct respond_server *server, struct respond_counts *out)
{
    struct respond_counts sum = { 0 };
    uint64_t closed = 0;

    for (uint32_t i = 0; i < server->thread_count; i++) {
        struct respond_tally *tally = &server->threads[i].loop.tally;

        sum.connections += read_counter(&tally->opened);
        closed += read_counter(&tally->closed);
        sum.accept_failures += read_counter(&tally->accept_failures);
        sum.requests += read_counter(&tally->requests);
        sum.responses += read_counter(&tally->responses);
        sum.unanswered += read_counter(&tally->unanswered);
        sum.bad_requests += read_counter(&tally->bad_requests);
        sum.bytes_in += read_counter(&tally->bytes_in);
        sum.bytes_out += read_counter(&tally->bytes_out);
        sum.stalls += read_counter(&tally->stalls);
        sum.upgrades += read_counter(&tally->upgrades);
        sum.deliveries += read_counter(&tally->deliveries);
        sum.pongs += read_counter(&tally->pongs);
        sum.closes += read_counter(&tally->closes);
        for (size_t a = 0; a < RESPOND_ACTION_COUNT; a++)
            sum.actions[a] += read_counter(&tally->actions[a]);
    }
    /* Not one instant for all of them: a connection may open and close while we add. */
    sum.open = sum.connections > closed ? sum.connections - closed : 0;
    *out = sum;
}

void respond_server_stop(struct respond_server *server)
{
    uint64_t one = 1;

    if (server->stop_fd < 0)
        return;
    while (write(server->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR) {}
    for (uint32_t i = 0; i < server->thread_count; i++) {
        if (server->threads[i].started)
            (void)pthread_join(server->threads[i].id, NULL);
        server->threads[i].started = false;
    }
    for (uint32_t i = 0; i < server->thread_count; i++) {
        while (server->threads[i].conns != NULL)
            drop(&server->threads[i], server->threads[i].conns);
    }
}

void respond_server_lateness(const struct respond_server *server, struct respond_lateness *out)
{
    struct ls_hist *all = server->threads[0].loop.lateness;

    for (uint32_t i = 1; i < server->thread_count; i++) {
        ls_hist_merge(all, server->threads[i].loop.lateness);
        ls_hist_reset(server->threads[i].loop.lateness);
    }
    *out = (struct respond_lateness){
        .count = ls_hist_count(all),
        .p50_ns = ls_hist_quantile(all, 0.5),
        .p99_ns = ls_hist_quantile(all, 0.99),
        .max_ns = ls_hist_max(all),
    };
}

void respond_server_destroy(struct respond_server *server)
{
    if (server == NULL)
        return;
    respond_server_stop(server);
    for (uint32_t i = 0; i < server->thread_count; i++) {
        struct respond_loop *loop = &server->threads[i].loop;

        if (loop->epoll_fd >= 0)
            (void)close(loop->epoll_fd);
        ls_hist_destroy(loop->lateness);
        free(loop->read_buffer);
        free(loop->heap);
        respond_bytes_fini(&loop->room.shared);
        (void)pthread_mutex_destroy(&server->threads[i].lock);
    }
    free(server->threads);
    if (server->listen_fd >= 0)
        (void)close(server->listen_fd);
    if (server->stop_fd >= 0)
        (void)close(server->stop_fd);
    respond_tls_destroy(server->tls);
    respond_answers_destroy(server->answers);
    free(server);
}
