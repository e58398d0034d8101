#include "agent/budget.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "agent/host/proc.h"
#include "common/share.h"

#define FILES_BESIDE  128u                 /* what an agent opens beside its connections */
#define KERNEL_BYTES  UINT64_C(4096)       /* of a connection, in the kernel, at rest */
#define USER_BYTES    UINT64_C(512)        /* and here, plain */
#define TLS_BYTES     (UINT64_C(28) << 10) /* and here, with TLS */
#define TIME_WAIT_S   60.0
#define PORTS_DEFAULT UINT64_C(28232)
#define RESERVED_MAX  (64u << 10)

void agent_limits_raise(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE,
                    &files); /* what there is then is looked at by whoever needs it */
}

/* Of "8080,9000-9100" those between first and last. */
static uint64_t count_reserved(const char *text, unsigned long first, unsigned long last)
{
    uint64_t count = 0;

    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long from = strtoul(text, &end, 10), to = from;

        if (*end == '-')
            to = strtoul(end + 1, &end, 10);
        from = from > first ? from : first;
        to = to < last ? to : last;
        count += to >= from ? to - from + 1 : 0;
        text = *end == ',' ? end + 1 : end;
    }
    return count;
}

static uint64_t read_ports(void)
{
    unsigned long first = 0, last = 0;
    static char reserved[RESERVED_MAX]; /* one control thread */
    char text[64];
    uint64_t count;

    if (host_proc_slurp("/proc/sys/net/ipv4/ip_local_port_range", text, sizeof(text)) <= 0 ||
        sscanf(text, "%lu %lu", &first, &last) != 2 || last < first)
        return PORTS_DEFAULT;
    count = last - first + 1;
    if (host_proc_slurp("/proc/sys/net/ipv4/ip_local_reserved_ports", reserved, sizeof(reserved)) >
        0)
        count -= count_reserved(reserved, first, last);
    return count;
}

static uint64_t read_memory(void)
{
    char text[4096];
    const char *line;

    if (host_proc_slurp("/proc/meminfo", text, sizeof(text)) <= 0)
        return 0;
    line = strstr(text, "MemAvailable:");
    return line != NULL ? strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024 : 0;
}

void agent_limits_read(struct agent_limits *out)
{
    struct rlimit files;
    char reuse[16] = "";

    *out = (struct agent_limits){ .ports = read_ports(), .memory_bytes = read_memory() };
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        out->files = (uint64_t)files.rlim_cur;
    if (host_proc_slurp("/proc/sys/net/ipv4/tcp_tw_reuse", reuse, sizeof(reuse)) > 0) {
        out->quick_reuse = reuse[0] == '1';
        out->quick_reuse_loopback = reuse[0] == '1' || reuse[0] == '2';
    }
}

static uint64_t connections_of(const struct load_workload *w)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < w->workers; i++)
        sum += ls_share(w->connections, w->workers_total, w->worker_base + i);
    return sum;
}

static bool is_loopback(const struct load_workload *w)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&w->address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&w->address;

    if (w->address.ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return w->address.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* Connections of this agent that are closed by us in a second, as far as that is known. */
static double churn_per_s(const struct load_workload *w, uint64_t connections)
{
    bool rated = w->law == LOAD_LAW_CONSTANT || w->law == LOAD_LAW_POISSON;
    double churn = 0;

    if (w->lifetime_requests > 0 && rated)
        churn = w->rate_per_s * w->workers / w->workers_total / (double)w->lifetime_requests;
    if (w->lifetime_ns > 0 && (double)connections * 1e9 / (double)w->lifetime_ns > churn)
        churn = (double)connections * 1e9 / (double)w->lifetime_ns;
    return churn;
}

static enum ls_err check_ports(const struct load_workload *w, uint64_t connections,
                               int64_t length_ns, const struct agent_limits *limits,
                               struct ls_diag *diag)
{
    uint32_t sources = w->source_count > 0 ? w->source_count : 1;
    uint64_t ports = limits->ports * sources;
    bool quick = limits->quick_reuse || (limits->quick_reuse_loopback && is_loopback(w));
    double churn = churn_per_s(w, connections), wait_s = quick ? 1 : TIME_WAIT_S;
    double waiting = churn * (wait_s < (double)length_ns / 1e9 ? wait_s : (double)length_ns / 1e9);

    if (w->address.ss_family != AF_INET && w->address.ss_family != AF_INET6)
        return LS_OK;
    if (connections > ports)
        return ls_fail(
            diag, LS_ERANGE,
            "%" PRIu64 " connections from %" PRIu32 " address%s: there are %" PRIu64
            " local ports (sysctl net.ipv4.ip_local_port_range, ip_local_reserved_ports); "
            "widen that, or give source_addresses",
            connections, sources, sources == 1 ? "" : "es", ports);
    if ((double)connections + waiting > (double)ports)
        return ls_fail(diag, LS_ERANGE,
                       "%.0f connections closed a second keep %.0f ports in TIME_WAIT, of %" PRIu64
                       ": give source_addresses, a longer lifetime, or sysctl "
                       "net.ipv4.tcp_tw_reuse=1",
                       churn, waiting, ports);
    return LS_OK;
}

enum ls_err agent_budget_check(const struct load_workload *w, int64_t length_ns,
                               const struct agent_limits *limits, struct ls_diag *diag)
{
    uint64_t connections = connections_of(w);
    uint64_t each = KERNEL_BYTES + (w->tls != NULL ? TLS_BYTES : USER_BYTES);
    uint64_t bytes = connections * each;

    if (connections + FILES_BESIDE > limits->files)
        return ls_fail(diag, LS_ERANGE,
                       "%" PRIu64 " connections need %" PRIu64 " file descriptors, this agent may "
                       "have %" PRIu64 ": raise RLIMIT_NOFILE (ulimit -n, as root), or use more "
                       "clients",
                       connections, connections + FILES_BESIDE, limits->files);
    if (limits->memory_bytes > 0 && bytes > limits->memory_bytes)
        return ls_fail(diag, LS_ERANGE,
                       "%" PRIu64 " connections need about %" PRIu64 " MiB of memory, %" PRIu64
                       " MiB are available: use fewer, or more clients",
                       connections, bytes >> 20, limits->memory_bytes >> 20);
    return check_ports(w, connections, length_ns, limits, diag);
}
