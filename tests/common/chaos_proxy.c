#include "tests/common/chaos_proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/test.h"

struct chaos_side {
    ev_io readable;
    struct chaos_link *link;
    int fd;
    int other;
};

struct chaos_link {
    struct chaos_link *next;
    struct chaos_proxy *proxy;
    struct chaos_side sides[2];
    uint64_t left; /* bytes until the cut */
};

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };

    (void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
    return sun;
}

static void cut(struct chaos_link *link)
{
    struct chaos_proxy *proxy = link->proxy;
    struct chaos_link **at = &proxy->links;

    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    for (unsigned i = 0; i < 2; i++) {
        ev_io_stop(proxy->loop, &link->sides[i].readable);
        (void)close(link->sides[i].fd);
    }
    proxy->cuts++;
    free(link);
}

static void on_readable(struct ev_loop *loop, ev_io *w, int events)
{
    struct chaos_side *side = w->data;
    struct chaos_link *link = side->link;
    unsigned char bytes[4096];
    ssize_t got = read(side->fd, bytes, sizeof(bytes));
    size_t pass;

    (void)loop;
    (void)events;
    if (got < 0 && errno == EAGAIN)
        return;
    pass = got > 0 ? (size_t)got : 0;
    if (link->proxy->bytes_max != 0 && pass > link->left)
        pass = (size_t)link->left;
    link->left -= pass;
    /* The other side's socket blocks: a full buffer is waited for by nobody but us. */
    if (got <= 0 || send(side->other, bytes, pass, MSG_NOSIGNAL) != (ssize_t)pass ||
        (link->proxy->bytes_max != 0 && link->left == 0))
        cut(link);
}

static void on_accept(struct ev_loop *loop, ev_io *w, int events)
{
    struct chaos_proxy *proxy = w->data;
    struct sockaddr_un upstream = address_of(proxy->upstream);
    struct chaos_link *link;
    int down = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC);
    int up = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)events;
    if (down < 0 || up < 0 ||
        connect(up, (const struct sockaddr *)&upstream, sizeof(upstream)) != 0) {
        (void)close(down);
        (void)close(up);
        return;
    }
    link = calloc(1, sizeof(*link));
    assert_non_null(link);
    link->proxy = proxy;
    link->next = proxy->links;
    proxy->links = link;
    if (proxy->bytes_max != 0)
        link->left = 1 + ls_rng_below(&proxy->rng, proxy->bytes_max);
    for (unsigned i = 0; i < 2; i++) {
        struct chaos_side *side = &link->sides[i];

        side->link = link;
        side->fd = i == 0 ? down : up;
        side->other = i == 0 ? up : down;
        ev_io_init(&side->readable, on_readable, side->fd, EV_READ);
        side->readable.data = side;
        ev_io_start(loop, &side->readable);
    }
}

void chaos_proxy_init(struct chaos_proxy *proxy, struct ev_loop *loop, const char *path,
                      const char *upstream, uint64_t seed, uint64_t bytes_max)
{
    struct sockaddr_un sun = address_of(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *proxy = (struct chaos_proxy){ .loop = loop, .bytes_max = bytes_max };
    (void)snprintf(proxy->path, sizeof(proxy->path), "%s", path);
    (void)snprintf(proxy->upstream, sizeof(proxy->upstream), "%s", upstream);
    ls_rng_init(&proxy->rng, seed, 1);
    assert_int_equal(bind(fd, (const struct sockaddr *)&sun, sizeof(sun)), 0);
    assert_int_equal(listen(fd, 64), 0);
    ev_io_init(&proxy->accept, on_accept, fd, EV_READ);
    proxy->accept.data = proxy;
    ev_io_start(loop, &proxy->accept);
}

void chaos_proxy_cut_all(struct chaos_proxy *proxy)
{
    while (proxy->links != NULL)
        cut(proxy->links);
}

void chaos_proxy_freeze(struct chaos_proxy *proxy)
{
    for (struct chaos_link *link = proxy->links; link != NULL; link = link->next)
        for (unsigned i = 0; i < 2; i++)
            ev_io_stop(proxy->loop, &link->sides[i].readable);
}

void chaos_proxy_fini(struct chaos_proxy *proxy)
{
    chaos_proxy_cut_all(proxy);
    ev_io_stop(proxy->loop, &proxy->accept);
    (void)close(proxy->accept.fd);
    (void)unlink(proxy->path);
}
