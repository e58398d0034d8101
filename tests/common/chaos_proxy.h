/* tests/common/chaos_proxy.h - a bad network: passes bytes between two unix sockets and cuts the
 * connection after a random number of them, wherever that falls in a frame. */
#ifndef LS_TESTS_CHAOS_PROXY_H
#define LS_TESTS_CHAOS_PROXY_H

#include <ev.h>

#include "common/rng.h"

struct chaos_link;

struct chaos_proxy {
    struct ev_loop *loop;
    ev_io accept;
    char path[108];     /* dialled to */
    char upstream[108]; /* passed on to */
    struct ls_rng rng;
    uint64_t bytes_max; /* a link is cut after at most as many bytes; 0: never */
    unsigned cuts;
    struct chaos_link *links;
};

void chaos_proxy_init(struct chaos_proxy *proxy, struct ev_loop *loop, const char *path,
                      const char *upstream, uint64_t seed, uint64_t bytes_max);
void chaos_proxy_cut_all(struct chaos_proxy *proxy);
/* From now on nothing passes, and nobody is told. */
void chaos_proxy_freeze(struct chaos_proxy *proxy);
void chaos_proxy_fini(struct chaos_proxy *proxy);

#endif
