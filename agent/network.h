/* agent/network.h - the way from a client to its target, as this host's kernel sees it: loopback or
 * not, the interface and what goes through it, and the round trips of the load's own connections.
 *
 * The round trip is TCP's smallest (tcp_info.tcpi_min_rtt, five minutes' minimum): it counts from
 * the connection's SYN on, which the peer's kernel answers, so that a slow or busy server is not in
 * it. Descriptors of this process are asked, whatever moves their bytes; nothing is sent.
 */
#ifndef LS_AGENT_NETWORK_H
#define LS_AGENT_NETWORK_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/result.pb-c.h"

struct agent_network {
    bool begun;
    bool ended;
    struct sockaddr_storage peer;
    const char *path; /* loopback, same host, network */
    char interface[IF_NAMESIZE];
    uint64_t link_bits_per_s;
    uint64_t in_bytes; /* at the beginning; after the end: between the two */
    uint64_t out_bytes;
    uint32_t connections;
    int64_t round_trip_min_ns;
    int64_t round_trip_p50_ns;
};

/* At the edges of the measure window. Forgets what was; what the kernel does not say stays 0. */
void agent_network_begin(struct agent_network *net, const struct sockaddr_storage *peer,
                         socklen_t peer_len);
void agent_network_end(struct agent_network *net); /* the second of several counts only once */

/* False: the window has not been seen from edge to edge. out borrows from net. */
bool agent_network_use(struct agent_network *net, Ls__NetworkUse *out);

#endif
