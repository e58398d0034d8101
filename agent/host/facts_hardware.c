/* Caches, network interfaces, steal. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/host/facts_parts.h"
#include "common/attr.h"
#include "common/units.h"

#define CACHE_KINDS 8 /* L1d, L1i, L2, L3, L4, and sizes that differ from core to core */
#define CACHE_FILES 8 /* of one CPU */
#define NICS_MAX    32

/* protobuf-c frees lists with free(). False: no memory. */
static bool append_text(char ***list, size_t *count, const char *text)
{
    char **more = realloc(*list, (*count + 1) * sizeof(*more));
    char *copy = strdup(text);

    if (more != NULL)
        *list = more;
    if (more == NULL || copy == NULL) {
        free(copy);
        return false;
    }
    more[(*count)++] = copy;
    return true;
}

/* ---- caches */

#define CACHE_NAME_BYTES 40u

struct cache {
    char what[CACHE_NAME_BYTES]; /* "L1d 32KiB" */
    unsigned count;
};

/* A cache that several CPUs share is counted by the first of them. False: there is none such. */
static bool read_cache(unsigned cpu, unsigned index, char out[CACHE_NAME_BYTES], bool *out_counts)
{
    char path[96], level[8], type[24], size[16], shared[256], text[24];

    (void)snprintf(path, sizeof(path), HOST_CPU_FOLDER "/cpu%u/cache/index%u/level", cpu, index);
    if (!host_facts_line(path, level, sizeof(level)))
        return false;
    (void)snprintf(path, sizeof(path), HOST_CPU_FOLDER "/cpu%u/cache/index%u/type", cpu, index);
    if (!host_facts_line(path, type, sizeof(type)))
        return false;
    (void)snprintf(path, sizeof(path), HOST_CPU_FOLDER "/cpu%u/cache/index%u/size", cpu, index);
    if (!host_facts_line(path, size, sizeof(size)))
        return false;
    (void)snprintf(path, sizeof(path), HOST_CPU_FOLDER "/cpu%u/cache/index%u/shared_cpu_list", cpu,
                   index);
    *out_counts =
        !host_facts_line(path, shared, sizeof(shared)) || strtoul(shared, NULL, 10) == cpu;
    (void)snprintf(out, CACHE_NAME_BYTES, "L%s%s %s", level,
                   strcmp(type, "Data") == 0          ? "d"
                   : strcmp(type, "Instruction") == 0 ? "i"
                                                      : "",
                   ls_format_size(strtoull(size, NULL, 10) * 1024, text, sizeof(text)));
    return true;
}

static void count_cache(struct cache caches[CACHE_KINDS], const char *what)
{
    for (unsigned i = 0; i < CACHE_KINDS; i++) {
        if (caches[i].count == 0)
            (void)snprintf(caches[i].what, sizeof(caches[i].what), "%s", what);
        if (strcmp(caches[i].what, what) == 0) {
            caches[i].count++;
            return;
        }
    }
}

bool host_facts_caches(Ls__Facts *facts)
{
    struct cache caches[CACHE_KINDS] = { 0 };
    unsigned threads = (unsigned)sysconf(_SC_NPROCESSORS_CONF);
    char what[CACHE_NAME_BYTES], text[CACHE_NAME_BYTES + 16];
    bool counts;

    for (unsigned cpu = 0; cpu < threads; cpu++) {
        for (unsigned i = 0; i < CACHE_FILES && read_cache(cpu, i, what, &counts); i++) {
            if (counts)
                count_cache(caches, what);
        }
    }
    for (unsigned i = 0; i < CACHE_KINDS && caches[i].count > 0; i++) {
        (void)snprintf(text, sizeof(text), "%.39s x%u", caches[i].what, caches[i].count);
        if (!append_text(&facts->caches, &facts->n_caches, text))
            return false;
    }
    return true;
}

/* ---- network interfaces */

static bool ethtool(int fd, const char *name, void *command)
{
    struct ifreq request = { .ifr_name = "" };

    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    request.ifr_data = command;
    return ioctl(fd, SIOCETHTOOL, &request) == 0;
}

static bool read_offloads(int fd, Ls__Nic *nic)
{
    static const struct {
        uint32_t command;
        uint32_t flag; /* of the value; 0: any */
        const char *name;
    } offloads[] = {
        { ETHTOOL_GRXCSUM, 0, "rx-checksumming" },
        { ETHTOOL_GTXCSUM, 0, "tx-checksumming" },
        { ETHTOOL_GSG, 0, "scatter-gather" },
        { ETHTOOL_GTSO, 0, "tcp-segmentation-offload" },
        { ETHTOOL_GGSO, 0, "generic-segmentation-offload" },
        { ETHTOOL_GGRO, 0, "generic-receive-offload" },
        { ETHTOOL_GFLAGS, ETH_FLAG_LRO, "large-receive-offload" },
        { ETHTOOL_GFLAGS, ETH_FLAG_NTUPLE, "ntuple-filters" },
        { ETHTOOL_GFLAGS, ETH_FLAG_RXHASH, "receive-hashing" },
    };

    for (size_t i = 0; i < LS_ARRAY_LEN(offloads); i++) {
        struct ethtool_value value = { .cmd = offloads[i].command };

        if (!ethtool(fd, nic->name, &value) ||
            (offloads[i].flag != 0 ? (value.data & offloads[i].flag) == 0 : value.data == 0))
            continue;
        if (!append_text(&nic->offloads, &nic->n_offloads, offloads[i].name))
            return false;
    }
    return true;
}

static uint32_t number_of(const char *name, const char *file)
{
    char path[96], text[24];

    (void)snprintf(path, sizeof(path), "/sys/class/net/%.20s/%s", name, file);
    if (!host_facts_line(path, text, sizeof(text)) || text[0] == '-')
        return 0;
    return (uint32_t)strtoul(text, NULL, 10);
}

static bool fill_nic(int fd, const char *name, Ls__Nic *nic)
{
    struct ethtool_drvinfo driver = { .cmd = ETHTOOL_GDRVINFO };
    struct ifreq request = { .ifr_name = "" };

    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (ioctl(fd, SIOCGIFMTU, &request) == 0)
        nic->mtu = (uint32_t)request.ifr_mtu;
    if (!ethtool(fd, name, &driver))
        driver.driver[0] = '\0';
    nic->speed_mbit_per_s = number_of(name, "speed");
    return host_facts_set(&nic->name, name) &&
           host_facts_set(&nic->driver, driver.driver[0] != '\0' ? driver.driver : "unknown") &&
           read_offloads(fd, nic);
}

static bool append_nic(int fd, const char *name, Ls__Facts *facts)
{
    Ls__Nic **more = realloc(facts->nics, (facts->n_nics + 1) * sizeof(Ls__Nic *));
    Ls__Nic *nic = malloc(sizeof(*nic));

    if (more != NULL)
        facts->nics = more;
    if (more == NULL || nic == NULL) {
        free(nic);
        return false;
    }
    ls__nic__init(nic);
    more[facts->n_nics++] = nic;
    return fill_nic(fd, name, nic);
}

static bool is_up(int fd, const char *name)
{
    struct ifreq request = { .ifr_name = "" };

    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    return ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0 &&
           (request.ifr_flags & IFF_LOOPBACK) == 0;
}

bool host_facts_nics(Ls__Facts *facts)
{
    struct if_nameindex *names = if_nameindex();
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok = true;

    for (size_t i = 0; ok && fd >= 0 && names != NULL && names[i].if_name != NULL; i++) {
        if (facts->n_nics < NICS_MAX && is_up(fd, names[i].if_name))
            ok = append_nic(fd, names[i].if_name, facts);
    }
    if (fd >= 0)
        (void)close(fd);
    if_freenameindex(names);
    return ok;
}

/* ---- steal */

/* "cpu user nice system idle iowait irq softirq steal guest guest_nice": guest is in user, too. */
double host_facts_steal(void)
{
    char line[256];
    unsigned long long t[8] = { 0 }, all = 0;

    if (!host_facts_line("/proc/stat", line, sizeof(line)) ||
        sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
               &t[4], &t[5], &t[6], &t[7]) != 8)
        return 0;
    for (unsigned i = 0; i < LS_ARRAY_LEN(t); i++)
        all += t[i];
    return all > 0 ? (double)t[7] / (double)all : 0;
}
