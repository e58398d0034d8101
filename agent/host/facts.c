#include "agent/host/facts.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "agent/host/cgroup.h"
#include "agent/host/facts_parts.h"
#include "agent/host/proc.h"
#include "common/clock.h"
#include "common/cpuset.h"
#include "common/topology.h"
#include "common/utf8.h"

#define UNKNOWN     "unknown"
#define UNLIMITED   ((UINT64_C(1) << 53) - 1)
#define CPU_FOLDER  HOST_CPU_FOLDER
#define CPUINFO_MAX (64u << 10)

/* ---- small files */

bool host_facts_line(const char *path, char *out, size_t out_bytes)
{
    ssize_t n = host_proc_slurp(path, out, out_bytes);

    if (n <= 0)
        return false;
    out[strcspn(out, "\r\n")] = '\0';
    for (size_t len = strlen(out); len > 0 && isspace((unsigned char)out[len - 1]);)
        out[--len] = '\0';
    return out[0] != '\0';
}

/* The rest of the line that begins with key, without what separates them. */
static bool find_line(const char *text, const char *key, char *out, size_t out_bytes)
{
    size_t key_len = strlen(key);

    while (text != NULL && strncmp(text, key, key_len) != 0) {
        text = strchr(text, '\n');
        text = text == NULL ? NULL : text + 1;
    }
    if (text == NULL)
        return false;
    text += key_len;
    text += strspn(text, " \t:=\"");
    (void)snprintf(out, out_bytes, "%.*s", (int)strcspn(text, "\"\r\n"), text);
    return out[0] != '\0';
}

static bool read_keyed(const char *path, const char *key, size_t file_bytes, char *out,
                       size_t out_bytes)
{
    char *text = malloc(file_bytes);
    bool found = text != NULL && host_proc_slurp(path, text, file_bytes) > 0 &&
                 find_line(text, key, out, out_bytes);

    free(text);
    return found;
}

/* protobuf-c's empty string is static, every other one is the message's. */
bool host_facts_set(char **field, const char *value)
{
    char *copy = strdup(value);

    if (copy != NULL) {
        ls_utf8_clean(copy, strlen(copy)); /* a host's name may be any bytes */
        *field = copy;
    }
    return copy != NULL;
}

/* ---- CPU */

static void read_cpu_model(char *out, size_t out_bytes)
{
    static const char *const keys[] = { "model name", "Model", "cpu model", "Hardware", "cpu" };

    for (size_t i = 0; i < LS_ARRAY_LEN(keys); i++) {
        if (read_keyed("/proc/cpuinfo", keys[i], CPUINFO_MAX, out, out_bytes))
            return;
    }
    if (!host_facts_line("/sys/firmware/devicetree/base/model", out, out_bytes))
        (void)snprintf(out, out_bytes, UNKNOWN);
}

const char *host_governor_read(char *out, size_t out_bytes)
{
    unsigned threads = (unsigned)sysconf(_SC_NPROCESSORS_CONF);
    char first[40] = "", next[40], path[96];

    for (unsigned i = 0; i < threads; i++) {
        (void)snprintf(path, sizeof(path), CPU_FOLDER "/cpu%u/cpufreq/scaling_governor", i);
        if (!host_facts_line(path, next, sizeof(next)))
            continue;
        if (first[0] == '\0') {
            (void)memcpy(first, next, sizeof(first));
        } else if (strcmp(first, next) != 0) {
            (void)snprintf(out, out_bytes, "mixed: %s, %s", first, next);
            return out;
        }
    }
    (void)snprintf(out, out_bytes, "%s", first[0] != '\0' ? first : UNKNOWN);
    return out;
}

static const char *read_boost(void)
{
    char text[16];

    if (host_facts_line(CPU_FOLDER "/intel_pstate/no_turbo", text, sizeof(text)))
        return text[0] == '0' ? "on" : "off";
    if (host_facts_line(CPU_FOLDER "/cpufreq/boost", text, sizeof(text)))
        return text[0] == '1' ? "on" : "off";
    return UNKNOWN;
}

/* ---- virtualisation */

/* The hypervisor's own signature, which it puts where the CPU says that there is one. */
static bool read_hypervisor(char *out, size_t out_bytes)
{
#if defined(__x86_64__) || defined(__i386__)
    static const struct {
        const char *signature;
        const char *name;
    } known[] = { { "KVMKVMKVM", "kvm" },       { "VMwareVMware", "vmware" },
                  { "Microsoft Hv", "hyperv" }, { "XenVMMXenVMM", "xen" },
                  { "VBoxVBoxVBox", "vbox" },   { "TCGTCGTCGTCG", "qemu" },
                  { "bhyve bhyve ", "bhyve" },  { "ACRNACRNACRN", "acrn" } };
    unsigned a = 0, b = 0, c = 0, d = 0;
    char signature[13] = "";

    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & (1u << 31)) == 0)
        return false;
    __cpuid(0x40000000, a, b, c, d);
    (void)memcpy(signature, &b, 4);
    (void)memcpy(signature + 4, &c, 4);
    (void)memcpy(signature + 8, &d, 4);
    (void)snprintf(out, out_bytes, "virtual machine");
    for (size_t i = 0; i < LS_ARRAY_LEN(known); i++) {
        if (strncmp(signature, known[i].signature, strlen(known[i].signature)) == 0)
            (void)snprintf(out, out_bytes, "%s", known[i].name);
    }
    return true;
#else
    return host_facts_line("/sys/hypervisor/type", out, out_bytes);
#endif
}

/* Where the CPU does not tell, the maker's name may. */
static bool read_maker(char *out, size_t out_bytes)
{
    char vendor[80];

    if (!host_facts_line("/sys/class/dmi/id/sys_vendor", vendor, sizeof(vendor)))
        return false;
    if (strstr(vendor, "QEMU") != NULL)
        (void)snprintf(out, out_bytes, "qemu");
    else if (strstr(vendor, "Amazon EC2") != NULL && access("/sys/hypervisor", F_OK) == 0)
        (void)snprintf(out, out_bytes, "amazon");
    else
        return false;
    return true;
}

static bool read_container(char *out, size_t out_bytes)
{
    char text[80];

    if (host_facts_line("/run/systemd/container", text, sizeof(text))) {
        (void)snprintf(out, out_bytes, "%s", text);
    } else if (access("/.dockerenv", F_OK) == 0) {
        (void)snprintf(out, out_bytes, "docker");
    } else if (access("/run/.containerenv", F_OK) == 0) {
        (void)snprintf(out, out_bytes, "podman");
    } else if (getenv("KUBERNETES_SERVICE_HOST") != NULL) {
        (void)snprintf(out, out_bytes, "kubernetes");
    } else {
        return false;
    }
    return true;
}

/* "none", "kvm", "docker", "docker in kvm" */
static void read_virtualisation(char *out, size_t out_bytes)
{
    char machine[40] = "", container[80] = "";
    bool virtual = read_hypervisor(machine, sizeof(machine)) ||
                   read_maker(machine, sizeof(machine));

    if (!read_container(container, sizeof(container)))
        (void)snprintf(out, out_bytes, "%s", virtual ? machine : "none");
    else
        (void)snprintf(out, out_bytes, "%s%s%s", container, virtual ? " in " : "", machine);
}

/* ---- all */

static uint64_t limit_of(int resource)
{
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
        return 0;
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > UNLIMITED ? UNLIMITED
                                                                         : limit.rlim_cur;
}

static void read_cores(Ls__Facts *facts)
{
    struct ls_topology topology;
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    if (ls_topology_init(&topology, NULL, NULL) != LS_OK) {
        facts->cpu_threads = online > 0 ? (uint32_t)online : 0;
        return;
    }
    facts->cpu_cores = topology.core_count;
    facts->cpu_threads = topology.thread_count;
    facts->smt = topology.thread_count > topology.core_count;
    facts->numa_nodes = topology.numa_nodes;
    facts->cpu_sockets = topology.sockets;
    ls_topology_fini(&topology);
}

static bool read_system(Ls__Facts *facts)
{
    struct utsname names = { .nodename = UNKNOWN };
    char os[160] = UNKNOWN, kernel[160] = UNKNOWN;

    if (!read_keyed("/etc/os-release", "PRETTY_NAME", 8192, os, sizeof(os)))
        (void)read_keyed("/usr/lib/os-release", "PRETTY_NAME", 8192, os, sizeof(os));
    if (uname(&names) == 0)
        (void)snprintf(kernel, sizeof(kernel), "%s %s", names.sysname, names.release);
    return host_facts_set(&facts->hostname, names.nodename) && host_facts_set(&facts->os, os) &&
           host_facts_set(&facts->kernel, kernel) &&
           host_facts_set(&facts->architecture, names.machine);
}

static bool read_machine(Ls__Facts *facts)
{
    char text[160], list[256] = UNKNOWN, memory[64];
    struct ls_cpuset allowed;
    bool ok;

    read_cpu_model(text, sizeof(text));
    ok = host_facts_set(&facts->cpu_model, text);
    ok = ok && host_facts_set(&facts->governor, host_governor_read(text, sizeof(text))) &&
         host_facts_set(&facts->boost, read_boost());
    read_virtualisation(text, sizeof(text));
    ok = ok && host_facts_set(&facts->virtualisation, text);
    if (ls_cpuset_get_affinity(0, &allowed, NULL) == LS_OK)
        (void)ls_cpuset_format(&allowed, list, sizeof(list));
    ok = ok && host_facts_set(&facts->cpus_allowed, list);
    if (!host_facts_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", text,
                         sizeof(text)))
        (void)snprintf(text, sizeof(text), UNKNOWN);
    ok = ok && host_facts_set(&facts->clock_source, text);
    if (read_keyed("/proc/meminfo", "MemTotal", 8192, memory, sizeof(memory)))
        facts->memory_bytes = strtoull(memory, NULL, 10) * 1024;
    if (read_keyed("/proc/meminfo", "SwapTotal", 8192, memory, sizeof(memory)))
        facts->swap_bytes = strtoull(memory, NULL, 10) * 1024;
    return ok;
}

/* What is set, and what can be. */
static bool read_control(Ls__Facts *facts)
{
    char text[200];
    bool ok;

    if (!host_facts_line(CPU_FOLDER "/smt/control", text, sizeof(text)))
        (void)snprintf(text, sizeof(text), UNKNOWN);
    ok = host_facts_set(&facts->smt_control, text);
    if (!host_facts_line(CPU_FOLDER "/cpu0/cpufreq/scaling_driver", text, sizeof(text)))
        (void)snprintf(text, sizeof(text), "none");
    ok = ok && host_facts_set(&facts->cpu_driver, text);
    if (host_facts_line("/proc/sys/net/core/somaxconn", text, sizeof(text)))
        facts->listen_backlog_limit = (uint32_t)strtoul(text, NULL, 10);
    if (host_facts_line("/proc/sys/net/ipv4/ip_local_port_range", text, sizeof(text)))
        text[strcspn(text, "\t ")] = '-';
    else
        (void)snprintf(text, sizeof(text), UNKNOWN);
    return ok && host_facts_set(&facts->local_ports, text) &&
           host_facts_set(&facts->cgroups, host_cgroup_describe(text, sizeof(text)));
}

enum ls_err host_facts_read(Ls__Facts *facts, struct ls_diag *diag)
{
    read_cores(facts);
    facts->open_files_limit = limit_of(RLIMIT_NOFILE);
    facts->locked_memory_limit_bytes = limit_of(RLIMIT_MEMLOCK);
    facts->processes_limit = limit_of(RLIMIT_NPROC);
    facts->steal_share = host_facts_steal();
    if (!read_system(facts) || !read_machine(facts) || !read_control(facts) ||
        !host_facts_caches(facts) || !host_facts_nics(facts))
        return ls_fail(diag, LS_ENOMEM, "no memory for the facts of this host");
    return LS_OK;
}
