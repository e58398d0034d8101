#include "tests/common/tamper_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { HEAD = 5, RECORD_MAX = HEAD + 16384 + 256 };

struct half { /* one direction */
    struct tamper_link *link;
    ev_io io; /* readable where it comes from */
    int to;
    enum tamper_way way;
    unsigned records;
    unsigned char data[RECORD_MAX];
    size_t len;
    unsigned char held[RECORD_MAX]; /* to be swapped with the next one */
    size_t held_len;
};

struct tamper_link {
    struct tamper_link *next;
    struct tamper_proxy *proxy;
    unsigned number;
    struct half halves[2];
};

static void unlink_link(struct tamper_link *link)
{
    struct tamper_link **at = &link->proxy->links;

    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    for (int i = 0; i < 2; i++) {
        ev_io_stop(link->proxy->loop, &link->halves[i].io);
        (void)close(link->halves[i].io.fd);
    }
    free(link);
}

static void pass(struct half *half, const unsigned char *data, size_t len)
{
    /* What we carry is less than a socket's buffer; who has hung up does not hear it. */
    (void)!send(half->to, data, len, MSG_NOSIGNAL);
}

static void tamper(struct half *half, unsigned char *data, size_t len)
{
    struct tamper_proxy *proxy = half->link->proxy;

    proxy->touched = true;
    proxy->touched_type = data[0];
    switch (proxy->what) {
    case TAMPER_FLIP:
        data[HEAD + (len - HEAD) / 2] ^= 0x10;
        pass(half, data, len);
        break;
    case TAMPER_TWICE:
        pass(half, data, len);
        pass(half, data, len);
        break;
    case TAMPER_SWAP:
        memcpy(half->held, data, len);
        half->held_len = len;
        break;
    case TAMPER_NOTHING:
    case TAMPER_DROP:
    case TAMPER_COUNT:
        break;
    }
}

static void on_record(struct half *half, unsigned char *data, size_t len)
{
    struct tamper_proxy *proxy = half->link->proxy;
    bool meant = proxy->what != TAMPER_NOTHING && !proxy->touched && half->way == proxy->way &&
                 half->records == proxy->record;

    half->records++;
    if (meant) {
        tamper(half, data, len);
        return;
    }
    pass(half, data, len);
    if (half->held_len > 0)
        pass(half, half->held, half->held_len);
    half->held_len = 0;
}

static void record(struct half *half, const unsigned char *data, size_t len)
{
    struct tamper_proxy *proxy = half->link->proxy;
    unsigned char *more;

    if (half->link->number != 1 || half->way != TAMPER_FROM_AGENT)
        return;
    more = realloc(proxy->recorded, proxy->recorded_len + len);
    assert_non_null(more);
    proxy->recorded = more;
    memcpy(more + proxy->recorded_len, data, len);
    proxy->recorded_len += len;
}

static void on_readable(struct ev_loop *loop, ev_io *w, int events)
{
    struct half *half = w->data;
    ssize_t got = recv(w->fd, half->data + half->len, sizeof(half->data) - half->len, MSG_DONTWAIT);
    size_t done = 0;

    (void)loop;
    (void)events;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        unlink_link(half->link);
        return;
    }
    record(half, half->data + half->len, (size_t)got);
    half->len += (size_t)got;
    while (half->len - done >= HEAD) {
        size_t len = HEAD + ((size_t)half->data[done + 3] << 8 | half->data[done + 4]);

        assert_true(len <= RECORD_MAX);
        if (half->len - done < len)
            break;
        on_record(half, half->data + done, len);
        done += len;
    }
    half->len -= done;
    memmove(half->data, half->data + done, half->len);
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_addr = { htonl(INADDR_LOOPBACK) },
                                 .sin_port = htons(port) };
}

static void on_accept(struct ev_loop *loop, ev_io *w, int events)
{
    struct tamper_proxy *proxy = w->data;
    struct sockaddr_in sin = loopback(proxy->upstream);
    struct tamper_link *link = calloc(1, sizeof(*link));
    int fds[2];

    (void)events;
    assert_non_null(link);
    fds[0] = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC);
    fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fds[0] >= 0 && fds[1] >= 0);
    assert_int_equal(connect(fds[1], (const struct sockaddr *)&sin, sizeof(sin)), 0);
    link->proxy = proxy;
    link->number = ++proxy->accepted;
    link->next = proxy->links;
    proxy->links = link;
    for (int i = 0; i < 2; i++) {
        struct half *half = &link->halves[i];

        half->link = link;
        half->to = fds[1 - i];
        half->way = i == 0 ? TAMPER_FROM_AGENT : TAMPER_TO_AGENT;
        ev_io_init(&half->io, on_readable, fds[i], EV_READ);
        half->io.data = half;
        ev_io_start(loop, &half->io);
    }
}

void tamper_proxy_init(struct tamper_proxy *proxy, struct ev_loop *loop, uint16_t upstream)
{
    struct sockaddr_in sin = loopback(0);
    socklen_t len = sizeof(sin);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *proxy = (struct tamper_proxy){ .loop = loop, .upstream = upstream };
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&sin, sizeof(sin)), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
    proxy->port = ntohs(sin.sin_port);
    ev_io_init(&proxy->accept, on_accept, fd, EV_READ);
    proxy->accept.data = proxy;
    ev_io_start(loop, &proxy->accept);
}

void tamper_proxy_fini(struct tamper_proxy *proxy)
{
    while (proxy->links != NULL)
        unlink_link(proxy->links);
    ev_io_stop(proxy->loop, &proxy->accept);
    (void)close(proxy->accept.fd);
    free(proxy->recorded);
}
