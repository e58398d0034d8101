#include "tests/support/check_server.h"

#include "tests/support/test.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTIONS 64
#define IN_MAX      (32u << 20)

struct peer {
    struct ls_buf in;
    struct ls_buf out;
    size_t sent;
};

struct check_server {
    void (*answer)(void *ctx, const struct check_request *request, struct ls_buf *out);
    void *ctx;
    int stop[2];
    pthread_t thread;
    struct sockaddr_storage address;
    socklen_t address_len;
    struct pollfd fds[CONNECTIONS + 2]; /* 0: stop, 1: listener */
    struct peer peers[CONNECTIONS + 2];
};

static void drop(struct check_server *s, unsigned i)
{
    (void)close(s->fds[i].fd);
    s->fds[i].fd = -1;
    ls_buf_fini(&s->peers[i].in);
    ls_buf_fini(&s->peers[i].out);
}

static void take_connection(struct check_server *s)
{
    int fd = accept4(s->fds[1].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    for (unsigned i = 2; fd >= 0 && i < CONNECTIONS + 2; i++) {
        if (s->fds[i].fd >= 0)
            continue;
        s->fds[i] = (struct pollfd){ .fd = fd, .events = POLLIN };
        ls_buf_init(&s->peers[i].in, IN_MAX);
        ls_buf_init(&s->peers[i].out, IN_MAX);
        s->peers[i].sent = 0;
        return;
    }
    if (fd >= 0)
        (void)close(fd);
}

/* The value of a header, or NULL. */
static const char *find_header(const char *head, const char *name)
{
    const char *at = strcasestr(head, name);

    return at != NULL && at > head && at[-1] == '\n' ? at + strlen(name) : NULL;
}

/* Takes one whole request off what has come. False: there is none; *out_bad: there never will be.
 */
static bool take_request(struct check_server *s, struct peer *p, bool *out_bad)
{
    char *end = p->in.len > 0 ? strstr((char *)p->in.data, "\r\n\r\n") : NULL;
    const char *length;
    struct check_request request;
    size_t head;
    size_t body;
    size_t before = p->out.len;
    char *space;

    if (end == NULL)
        return false;
    head = (size_t)(end - (char *)p->in.data) + 4;
    *end = '\0';
    length = find_header((char *)p->in.data, "Content-Length: ");
    body = length != NULL ? strtoul(length, NULL, 10) : 0;
    *end = '\r';
    if (p->in.len - head < body)
        return false;
    *end = '\0';
    request.method = (char *)p->in.data;
    request.head = strchr(request.method, '\n');
    space = strchr(request.method, ' ');
    *out_bad = request.head == NULL || space == NULL ||
               strncmp(request.head - 10, " HTTP/1.1\r", 10) != 0 ||
               find_header(request.head, "Host: ") == NULL;
    if (!*out_bad) {
        *space = '\0';
        request.target = space + 1;
        *(char *)(uintptr_t)(request.head - 10) = '\0';
        request.body = (struct ls_bytes){ p->in.data + head, body };
        s->answer(s->ctx, &request, &p->out);
        *out_bad = p->out.len == before;
    }
    ls_buf_consume(&p->in, head + body);
    return true;
}

/* False: over. */
static bool serve(struct check_server *s, unsigned i)
{
    static char bytes[65536];
    struct peer *p = &s->peers[i];
    bool bad = false;
    ssize_t n = 0;

    if ((s->fds[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        n = read(s->fds[i].fd, bytes, sizeof(bytes));
        if (n <= 0)
            return false;
        ls_buf_add(&p->in, bytes, (size_t)n);
    }
    while (!bad && take_request(s, p, &bad))
        ;
    if (bad || !p->in.ok || !p->out.ok)
        return false;
    if (p->sent < p->out.len)
        n = send(s->fds[i].fd, p->out.data + p->sent, p->out.len - p->sent, MSG_NOSIGNAL);
    if (p->sent < p->out.len && n > 0)
        p->sent += (size_t)n;
    if (p->sent == p->out.len) {
        ls_buf_reset(&p->out);
        p->sent = 0;
    }
    s->fds[i].events = (short)(POLLIN | (p->out.len > 0 ? POLLOUT : 0));
    return true;
}

static void *run(void *arg)
{
    struct check_server *s = arg;

    while (poll(s->fds, CONNECTIONS + 2, -1) >= 0 && s->fds[0].revents == 0) {
        if (s->fds[1].revents != 0)
            take_connection(s);
        for (unsigned i = 2; i < CONNECTIONS + 2; i++) {
            if (s->fds[i].fd >= 0 && s->fds[i].revents != 0 && !serve(s, i))
                drop(s, i);
        }
    }
    return NULL;
}

struct check_server *check_server_start(
    void (*answer)(void *ctx, const struct check_request *request, struct ls_buf *out), void *ctx)
{
    struct check_server *s = calloc(1, sizeof(*s));
    struct sockaddr_in *in;

    assert_non_null(s);
    s->answer = answer;
    s->ctx = ctx;
    in = (struct sockaddr_in *)(void *)&s->address;
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->address_len = sizeof(*in);
    for (unsigned i = 0; i < CONNECTIONS + 2; i++)
        s->fds[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
    assert_int_equal(pipe(s->stop), 0);
    s->fds[0].fd = s->stop[0];
    s->fds[1].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s->fds[1].fd >= 0);
    assert_int_equal(bind(s->fds[1].fd, (struct sockaddr *)in, sizeof(*in)), 0);
    assert_int_equal(listen(s->fds[1].fd, CONNECTIONS), 0);
    assert_int_equal(getsockname(s->fds[1].fd, (struct sockaddr *)in, &s->address_len), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
    return s;
}

void check_server_address(const struct check_server *server, struct sockaddr_storage *out,
                          socklen_t *out_len)
{
    *out = server->address;
    *out_len = server->address_len;
}

void check_server_stop(struct check_server *server)
{
    assert_int_equal(write(server->stop[1], "", 1), 1);
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    for (unsigned i = 2; i < CONNECTIONS + 2; i++) {
        if (server->fds[i].fd >= 0)
            drop(server, i);
    }
    (void)close(server->fds[1].fd);
    (void)close(server->stop[0]);
    (void)close(server->stop[1]);
    free(server);
}
