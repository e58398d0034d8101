/* Host-wide counters of agent/host/facts.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/host/facts.h"
#include "common/clock.h"
#include "common/cpuset.h"

/* /proc/net/netstat and snmp: a line of names and a line of values, each "Group: a b c". */
static uint64_t net_counter(FILE *file, const char *group, const char *name)
{
    static const char blanks[] = " \n";
    char names[4096], values[4096];
    size_t group_len = strlen(group);
    char *save_name = NULL, *save_value = NULL;
    char *n, *v;

    rewind(file);
    do {
        if (fgets(names, sizeof(names), file) == NULL ||
            fgets(values, sizeof(values), file) == NULL)
            return 0;
    } while (strncmp(names, group, group_len) != 0 || names[group_len] != ':');
    n = strtok_r(names, blanks, &save_name);
    v = strtok_r(values, blanks, &save_value);
    while (n != NULL && v != NULL) {
        if (strcmp(n, name) == 0)
            return strtoull(v, NULL, 10);
        n = strtok_r(NULL, blanks, &save_name);
        v = strtok_r(NULL, blanks, &save_value);
    }
    return 0;
}

static FILE *open_table(pid_t pid, const char *name)
{
    char path[64];

    if (pid == 0)
        pid = getpid();
    (void)snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, name);
    return fopen(path, "re");
}

static void read_net(pid_t pid, struct host_counters *out)
{
    FILE *file = open_table(pid, "netstat");

    if (file != NULL) {
        out->listen_overflows = net_counter(file, "TcpExt", "ListenOverflows");
        (void)fclose(file);
    }
    file = open_table(pid, "snmp");
    if (file != NULL) {
        out->tcp_retransmits = net_counter(file, "Tcp", "RetransSegs");
        (void)fclose(file);
    }
}

/* cpuN user nice system idle iowait irq softirq steal guest guest_nice, in ticks; guest time is in
 * user time too. */
static bool cpu_line(const char *line, unsigned *out_cpu, uint64_t *out_busy, uint64_t *out_steal)
{
    unsigned long long t[8] = { 0 };

    if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", out_cpu, &t[0], &t[1], &t[2],
               &t[3], &t[4], &t[5], &t[6], &t[7]) < 5)
        return false;
    *out_busy = t[0] + t[1] + t[2] + t[5] + t[6];
    *out_steal = t[7];
    return true;
}

static void read_cpus(const char *cpus, struct host_counters *out)
{
    FILE *file = fopen("/proc/stat", "re");
    int64_t tick_ns = LS_NS_PER_S / sysconf(_SC_CLK_TCK);
    struct ls_cpuset only = { { 0 } };
    bool all = cpus == NULL || cpus[0] == '\0';
    char line[512];

    if (file == NULL)
        return;
    if (!all && ls_cpuset_parse(cpus, &only, NULL) != LS_OK)
        all = true;
    while (fgets(line, sizeof(line), file) != NULL && strncmp(line, "cpu", 3) == 0) {
        unsigned cpu = 0;
        uint64_t busy = 0, steal = 0;

        if (!cpu_line(line, &cpu, &busy, &steal) || !(all || ls_cpuset_has(&only, cpu)))
            continue;
        out->cpus_busy_ns += (int64_t)busy * tick_ns;
        out->cpus_steal_ns += (int64_t)steal * tick_ns;
    }
    (void)fclose(file);
}

void host_counters_read(const char *cpus, pid_t network_pid, struct host_counters *out)
{
    *out = (struct host_counters){ 0 };
    read_net(network_pid, out);
    read_cpus(cpus, out);
}
