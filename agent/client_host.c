#include "agent/client_host.h"

#include <stdio.h>
#include <unistd.h>

#include "agent/host/proc.h"
#include "common/clock.h"
#include "common/pb.h"

/* From statm, which is exact to a page or, per thread, to a few dozen. */
static uint64_t read_rss(void)
{
    unsigned long long pages = 0;
    char text[128];

    if (host_proc_slurp("/proc/self/statm", text, sizeof(text)) <= 0 ||
        sscanf(text, "%*u %llu", &pages) != 1)
        return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void client_host_arm(struct client_host *host, pid_t network_pid)
{
    *host = (struct client_host){ .network_pid = network_pid, .rss_before_bytes = read_rss() };
}

void client_host_armed(struct client_host *host)
{
    host->rss_open_bytes = read_rss();
}

void client_host_begin(struct client_host *host, const char *cpus)
{
    host->begun = true;
    host_counters_read(cpus, host->network_pid, &host->counters);
    (void)host_governor_read(host->governor_before, sizeof(host->governor_before));
    host->own_ns = ls_clock_process_cpu_ns();
    host->at_ns = ls_clock_mono_ns();
}

static uint64_t grown(uint64_t before, uint64_t after)
{
    return after > before ? after - before : 0;
}

void client_host_end(struct client_host *host, const char *cpus)
{
    struct host_counters now;

    if (!host->begun || host->ended)
        return;
    host->ended = true;
    host_counters_read(cpus, host->network_pid, &now);
    (void)host_governor_read(host->governor_after, sizeof(host->governor_after));
    host->own_ns = ls_clock_process_cpu_ns() - host->own_ns;
    host->at_ns = ls_clock_mono_ns() - host->at_ns;
    host->counters.listen_overflows = grown(host->counters.listen_overflows, now.listen_overflows);
    host->counters.tcp_retransmits = grown(host->counters.tcp_retransmits, now.tcp_retransmits);
    host->counters.cpus_busy_ns = now.cpus_busy_ns - host->counters.cpus_busy_ns;
    host->counters.cpus_steal_ns = now.cpus_steal_ns - host->counters.cpus_steal_ns;
}

bool client_host_use(const struct client_host *host, Ls__HostUse *out)
{
    if (!host->ended)
        return false;
    out->span_ns = host->at_ns;
    out->busy_ns = host->counters.cpus_busy_ns;
    out->steal_ns = host->counters.cpus_steal_ns;
    out->own_ns = host->own_ns;
    out->listen_overflows = host->counters.listen_overflows;
    out->tcp_retransmits = host->counters.tcp_retransmits;
    out->governor_before = ls_pb_text(host->governor_before);
    out->governor_after = ls_pb_text(host->governor_after);
    return true;
}
