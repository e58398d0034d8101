#include "agent/network.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/pb.h"

#define ASKED_MAX   256u /* connections; more would not make the median any better */
#define LOOKED_MAX  4096u
#define RTT_UNKNOWN UINT32_MAX
#define US          INT64_C(1000)

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

    if (a->ss_family != b->ss_family)
        return false;
    return a->ss_family == AF_INET6
               ? memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0
               : a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

static bool same_port(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;

    return a4->sin_port == b4->sin_port; /* at the same place in both families */
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    const struct sockaddr_in6 *in6 = (const void *)address;
    const struct sockaddr_in *in = (const void *)address;

    return address->ss_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr)
                                          : ntohl(in->sin_addr.s_addr) >> 24 == 127;
}

/* Our address on the way there: connecting a socket of datagrams sends none. */
static bool find_local(const struct sockaddr_storage *peer, socklen_t peer_len,
                       struct sockaddr_storage *out)
{
    int fd = socket(peer->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof(*out);
    bool found;

    if (fd < 0)
        return false;
    found = connect(fd, (const struct sockaddr *)peer, peer_len) == 0 &&
            getsockname(fd, (struct sockaddr *)out, &len) == 0;
    (void)close(fd); /* nothing is lost with it */
    return found;
}

static void find_interface(struct agent_network *net, const struct sockaddr_storage *local)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        struct sockaddr_storage address = { 0 };

        if (i->ifa_addr == NULL ||
            (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
            continue;
        (void)memcpy(&address, i->ifa_addr,
                     i->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                        : sizeof(struct sockaddr_in));
        if (!same_host(&address, local))
            continue;
        (void)snprintf(net->interface, sizeof(net->interface), "%s", i->ifa_name);
        break;
    }
    freeifaddrs(all);
}

static void find_speed(struct agent_network *net)
{
    struct ethtool_cmd command = { .cmd = ETHTOOL_GSET };
    struct ifreq request = { 0 };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint32_t mbit_per_s;

    if (fd < 0)
        return;
    (void)memcpy(request.ifr_name, net->interface, sizeof(request.ifr_name));
    request.ifr_data = (char *)&command;
    if (ioctl(fd, SIOCETHTOOL, &request) == 0) {
        mbit_per_s = ethtool_cmd_speed(&command);
        if (mbit_per_s != (uint32_t)SPEED_UNKNOWN)
            net->link_bits_per_s = (uint64_t)mbit_per_s * 1000000;
    }
    (void)close(fd); /* nothing is lost with it */
}

/* "eth0: bytes packets errs drop fifo frame compressed multicast bytes ...": received, sent. */
static void read_bytes(const char *interface, uint64_t *out_in, uint64_t *out_out)
{
    FILE *file = fopen("/proc/self/net/dev", "re");
    size_t len = strlen(interface);
    char line[512];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *at = line + strspn(line, " ");
        unsigned long long in, out;

        if (strncmp(at, interface, len) == 0 && at[len] == ':' &&
            sscanf(at + len + 1, "%llu %*u %*u %*u %*u %*u %*u %*u %llu", &in, &out) == 2) {
            *out_in = in;
            *out_out = out;
            break;
        }
    }
    if (file != NULL)
        (void)fclose(file);
}

/* The least round trip of a connection to the peer; 0: it is none, or nothing is known. */
static int64_t round_trip_of(int fd, const struct sockaddr_storage *peer)
{
    struct sockaddr_storage to;
    struct tcp_info info;
    socklen_t to_len = sizeof(to), info_len = sizeof(info);

    if (getpeername(fd, (struct sockaddr *)&to, &to_len) != 0 || !same_host(&to, peer) ||
        !same_port(&to, peer) || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_len) != 0 ||
        info_len < offsetof(struct tcp_info, tcpi_min_rtt) + sizeof(info.tcpi_min_rtt) ||
        info.tcpi_min_rtt == RTT_UNKNOWN)
        return 0;
    return info.tcpi_min_rtt > 0 ? (int64_t)info.tcpi_min_rtt * US : US;
}

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The workers go on meanwhile: a descriptor may be closed, or another connection's, by the time
 * that it is asked, and says so or is as good. At the window's end a load that had nothing to drain
 * has closed its connections: what was known at the beginning stays. */
static void ask_connections(struct agent_network *net)
{
    DIR *folder = opendir("/proc/self/fd");
    int64_t round_trips[ASKED_MAX];
    const struct dirent *entry;
    uint32_t count = 0;

    for (unsigned looked = 0; folder != NULL && count < ASKED_MAX && looked < LOOKED_MAX &&
                              (entry = readdir(folder)) != NULL;
         looked++) {
        int64_t ns = entry->d_name[0] == '.'
                         ? 0
                         : round_trip_of((int)strtol(entry->d_name, NULL, 10), &net->peer);

        if (ns > 0)
            round_trips[count++] = ns;
    }
    if (folder != NULL)
        (void)closedir(folder);
    if (count == 0 || count < net->connections)
        return;
    qsort(round_trips, count, sizeof(*round_trips), by_size);
    net->connections = count;
    net->round_trip_min_ns = round_trips[0];
    net->round_trip_p50_ns = round_trips[count / 2];
}

void agent_network_begin(struct agent_network *net, const struct sockaddr_storage *peer,
                         socklen_t peer_len)
{
    struct sockaddr_storage local = { 0 };

    *net = (struct agent_network){ .begun = true, .peer = *peer };
    if (is_loopback(peer))
        net->path = "loopback";
    else if (!find_local(peer, peer_len, &local))
        net->path = "network";
    else
        net->path = same_host(peer, &local) ? "same host" : "network";
    ask_connections(net);
    if (local.ss_family == 0)
        return;
    find_interface(net, &local);
    if (net->interface[0] == '\0')
        return;
    find_speed(net);
    read_bytes(net->interface, &net->in_bytes, &net->out_bytes);
}

void agent_network_end(struct agent_network *net)
{
    uint64_t in = net->in_bytes, out = net->out_bytes;

    if (!net->begun || net->ended)
        return;
    net->ended = true;
    ask_connections(net);
    if (net->interface[0] != '\0')
        read_bytes(net->interface, &in, &out);
    net->in_bytes = in - net->in_bytes; /* counters of 64 bits: they do not wrap */
    net->out_bytes = out - net->out_bytes;
}

bool agent_network_use(struct agent_network *net, Ls__NetworkUse *out)
{
    if (!net->ended)
        return false;
    out->path = ls_pb_text(net->path);
    out->connections = net->connections;
    out->round_trip_min_ns = net->round_trip_min_ns;
    out->round_trip_p50_ns = net->round_trip_p50_ns;
    out->interface = net->interface;
    out->link_bits_per_s = net->link_bits_per_s;
    out->link_bytes_in = net->in_bytes;
    out->link_bytes_out = net->out_bytes;
    return true;
}
