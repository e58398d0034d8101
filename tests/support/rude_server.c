#include "tests/support/rude_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/support/test.h"

#define CONNECTIONS 256
#define FIXED       2 /* of the polled: the wake-up and the listener */

struct rude_server {
    struct rude_script script;
    struct sockaddr_in address;
    pthread_t thread;
    int wake_fd;
    struct pollfd fds[FIXED + CONNECTIONS];
    uint64_t answered[FIXED + CONNECTIONS];
    unsigned matched[FIXED + CONNECTIONS]; /* of "\r\n\r\n" */
    nfds_t count;
    atomic_uint_least64_t received;
    atomic_uint_least64_t connections;
};

static int listen_somewhere(struct sockaddr_in *out)
{
    socklen_t len = sizeof(*out);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *out = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)out, len), 0);
    assert_int_equal(listen(fd, 256), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)out, &len), 0);
    return fd;
}

static void accept_one(struct rude_server *s)
{
    int fd = accept4(s->fds[1].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    if (s->count == FIXED + CONNECTIONS) {
        (void)close(fd);
        return;
    }
    s->fds[s->count] = (struct pollfd){ .fd = fd, .events = POLLIN };
    s->answered[s->count] = 0;
    s->matched[s->count] = 0;
    s->count++;
    atomic_fetch_add(&s->connections, 1);
}

static void drop(struct rude_server *s, nfds_t i, bool hard)
{
    struct linger linger = { .l_onoff = hard, .l_linger = 0 };

    (void)setsockopt(s->fds[i].fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    (void)close(s->fds[i].fd);
    s->count--;
    s->fds[i] = s->fds[s->count];
    s->answered[i] = s->answered[s->count];
    s->matched[i] = s->matched[s->count];
}

/* Answers what the script allows of n requests; false if the connection is gone. */
static bool answer(struct rude_server *s, nfds_t i, const char *data, size_t n)
{
    uint64_t left = s->script.answers - s->answered[i];
    bool end = s->script.then != RUDE_GO_ON && n >= left;
    size_t good = end ? (size_t)left : n;

    (void)send(s->fds[i].fd, data, good, MSG_NOSIGNAL);
    s->answered[i] += good;
    if (!end)
        return true;
    if (s->script.then == RUDE_FIN || s->script.then == RUDE_RESET) {
        drop(s, i, s->script.then == RUDE_RESET);
        return false;
    }
    if (s->script.then == RUDE_STALL)
        s->fds[i].events = 0;
    if (s->script.then == RUDE_BABBLE) {
        (void)send(s->fds[i].fd, data, n - good, MSG_NOSIGNAL);
        (void)send(s->fds[i].fd, data, n, MSG_NOSIGNAL);
    }
    return true;
}

static void greet(struct rude_server *s, nfds_t i, const char *data, size_t n)
{
    static const char end[] = "\r\n\r\n";

    for (size_t at = 0; at < n; at++) {
        s->matched[i] = data[at] == end[s->matched[i]] ? s->matched[i] + 1 : data[at] == '\r';
        if (s->matched[i] < 4)
            continue;
        s->matched[i] = 0;
        (void)send(s->fds[i].fd, s->script.greeting, strlen(s->script.greeting), MSG_NOSIGNAL);
    }
}

/* False if the connection is gone. */
static bool serve(struct rude_server *s, nfds_t i)
{
    static _Thread_local char data[65536];
    ssize_t n = recv(s->fds[i].fd, data, sizeof(data), 0);

    if (n <= 0) {
        drop(s, i, false);
        return false;
    }
    atomic_fetch_add(&s->received, (uint64_t)n);
    if (s->script.greeting == NULL)
        return answer(s, i, data, (size_t)n);
    greet(s, i, data, (size_t)n);
    return true;
}

static void *run(void *arg)
{
    struct rude_server *s = arg;

    while (poll(s->fds, s->count, -1) >= 0 && s->fds[0].revents == 0) {
        for (nfds_t i = FIXED; i < s->count;)
            i += s->fds[i].revents == 0 || serve(s, i);
        if (s->fds[1].revents != 0)
            accept_one(s);
    }
    return NULL;
}

struct rude_server *rude_server_start(const struct rude_script *script)
{
    struct rude_server *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->script = *script;
    s->wake_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(s->wake_fd >= 0);
    s->fds[0] = (struct pollfd){ .fd = s->wake_fd, .events = POLLIN };
    s->fds[1] = (struct pollfd){ .fd = listen_somewhere(&s->address), .events = POLLIN };
    s->count = FIXED;
    if (script->receive_bytes > 0)
        assert_int_equal(setsockopt(s->fds[1].fd, SOL_SOCKET, SO_RCVBUF, &script->receive_bytes,
                                    sizeof(script->receive_bytes)),
                         0);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
    return s;
}

void rude_server_stop(struct rude_server *s)
{
    uint64_t one = 1;

    assert_int_equal(write(s->wake_fd, &one, sizeof(one)), sizeof(one));
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    for (nfds_t i = 0; i < s->count; i++)
        (void)close(s->fds[i].fd);
    free(s);
}

void rude_server_address(const struct rude_server *s, struct sockaddr_storage *out,
                         socklen_t *out_len)
{
    (void)memcpy(out, &s->address, sizeof(s->address));
    *out_len = sizeof(s->address);
}

uint64_t rude_server_received(struct rude_server *s)
{
    return atomic_load(&s->received);
}

uint64_t rude_server_connections(struct rude_server *s)
{
    return atomic_load(&s->connections);
}

void rude_nobody(struct sockaddr_storage *out, socklen_t *out_len)
{
    struct sockaddr_in address;

    (void)close(listen_somewhere(&address));
    (void)memcpy(out, &address, sizeof(address));
    *out_len = sizeof(address);
}
