#include "agent/introduce.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/host/facts.h"
#include "agent/host/proc.h"
#include "agent/policy/policy.h"
#include "common/pb.h"
#include "common/topology.h"

#define LABELS_MAX 64u
#define LABEL_MAX  128u

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

const char *agent_host_name(char *out, size_t out_bytes)
{
    if (gethostname(out, out_bytes) != 0 || out[0] == '\0')
        (void)snprintf(out, out_bytes, "agent");
    out[out_bytes - 1] = '\0';
    if (strlen(out) > LS_IDENTITY_NAME_MAX)
        out[LS_IDENTITY_NAME_MAX] = '\0';
    for (char *c = out; *c != '\0'; c++) {
        if (!is_name_char(*c))
            *c = '-';
    }
    if (!ls_identity_name_is_fine(out))
        (void)snprintf(out, out_bytes, "agent");
    return out;
}

/* Agents with the same one share CPUs and clock, whatever they are called and in whatever
 * namespace they live. */
static void read_host_id(char *out, size_t out_bytes)
{
    if (host_proc_slurp("/proc/sys/kernel/random/boot_id", out, out_bytes) <= 0)
        out[0] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
}

static enum ls_err read_cores(struct agent_introduction *intro, struct ls_diag *diag)
{
    struct ls_topology topology;
    char list[128];
    enum ls_err rc = ls_topology_init(&topology, NULL, diag);

    if (rc != LS_OK)
        return rc;
    intro->cores = calloc((size_t)topology.core_count + 1, sizeof(char *));
    for (unsigned i = 0; intro->cores != NULL && i < topology.core_count; i++) {
        if (ls_cpuset_count(&topology.cores[i]) == 0)
            continue;
        intro->cores[intro->core_count] =
            strdup(ls_cpuset_format(&topology.cores[i], list, sizeof(list)));
        if (intro->cores[intro->core_count] == NULL)
            rc = LS_ENOMEM;
        else
            intro->core_count++;
    }
    ls_topology_fini(&topology);
    if (intro->cores == NULL || rc != LS_OK)
        return ls_fail(diag, LS_ENOMEM, "no memory for the list of cores");
    return LS_OK;
}

static enum ls_err read_labels(struct agent_introduction *intro,
                               const struct ls_option_list *labels, struct ls_diag *diag)
{
    if (labels->count > LABELS_MAX)
        return ls_fail(diag, LS_ERANGE, "--label: %zu labels are more than %u", labels->count,
                       LABELS_MAX);
    intro->labels = calloc(labels->count + 1, sizeof(*intro->labels));
    intro->hello.labels = calloc(labels->count + 1, sizeof(Ls__Label *));
    if (intro->labels == NULL || intro->hello.labels == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the labels");
    for (size_t i = 0; i < labels->count; i++) {
        const char *equals = strchr(labels->items[i], '=');
        size_t len = equals != NULL ? (size_t)(equals - labels->items[i]) : 0;

        if (len == 0 || len > LABEL_MAX || strlen(equals + 1) > LABEL_MAX)
            return ls_fail(diag, LS_EINVAL,
                           "--label %.80s: write key=value, each of at most %u bytes",
                           labels->items[i], LABEL_MAX);
        ls__label__init(&intro->labels[i]);
        intro->labels[i].key = strndup(labels->items[i], len);
        intro->labels[i].value = ls_pb_text(equals + 1);
        intro->hello.labels[i] = &intro->labels[i];
        if (intro->labels[i].key == NULL)
            return ls_fail(diag, LS_ENOMEM, "no memory for the labels");
        intro->hello.n_labels++;
    }
    return LS_OK;
}

static enum ls_err check_address(const char *address, struct ls_diag *diag)
{
    unsigned char bytes[sizeof(struct in6_addr)];

    if (inet_pton(AF_INET, address, bytes) == 1 || inet_pton(AF_INET6, address, bytes) == 1)
        return LS_OK;
    return ls_fail(diag, LS_EINVAL,
                   "--address %.80s: an IPv4 or IPv6 address of this host is expected", address);
}

static enum ls_err describe_limits(struct agent_introduction *intro,
                                   const struct agent_policy *policy, struct ls_diag *diag)
{
    intro->hello.limits = malloc(sizeof(*intro->hello.limits));
    if (intro->hello.limits == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the host's limits");
    ls__host_limits__init(intro->hello.limits);
    return agent_policy_describe(policy, intro->hello.limits) == LS_OK
               ? LS_OK
               : ls_fail(diag, LS_ENOMEM, "no memory for the host's limits");
}

enum ls_err agent_introduction_init(struct agent_introduction *intro, const char *name,
                                    Ls__Role role, const char *address,
                                    const struct ls_option_list *labels,
                                    const struct agent_policy *policy, struct ls_diag *diag)
{
    static const struct agent_introduction empty = { .core_count = 0 };
    enum ls_err rc = address != NULL ? check_address(address, diag) : LS_OK;

    *intro = empty;
    ls__hello__init(&intro->hello);
    if (rc == LS_OK)
        rc = read_labels(intro, labels, diag);
    if (rc == LS_OK) {
        intro->hello.facts = malloc(sizeof(*intro->hello.facts));
        rc = intro->hello.facts != NULL
                 ? LS_OK
                 : ls_fail(diag, LS_ENOMEM, "no memory for the host's facts");
    }
    if (rc == LS_OK) {
        ls__facts__init(intro->hello.facts);
        rc = host_facts_read(intro->hello.facts, diag);
    }
    if (rc == LS_OK)
        rc = describe_limits(intro, policy, diag);
    if (rc == LS_OK)
        rc = read_cores(intro, diag);
    if (rc != LS_OK) {
        agent_introduction_fini(intro);
        return rc;
    }
    read_host_id(intro->host_id, sizeof(intro->host_id));
    intro->hello.agent = ls_pb_text(name);
    intro->hello.role = role;
    intro->hello.boot_id = intro->boot_id;
    intro->hello.software = ls_pb_text("lockstep " LS_VERSION);
    intro->hello.pid = (uint32_t)getpid();
    intro->hello.host_id = intro->host_id;
    intro->hello.cores = intro->cores;
    intro->hello.n_cores = intro->core_count;
    if (address != NULL)
        intro->hello.address = ls_pb_text(address);
    return LS_OK;
}

enum ls_err agent_introduction_begin(struct agent_introduction *intro, struct ls_diag *diag)
{
    unsigned char random[16];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return ls_fail(diag, LS_EIO, "no random numbers for the boot id: %s", strerror(errno));
    for (size_t i = 0; i < sizeof(random); i++)
        (void)snprintf(intro->boot_id + 2 * i, 3, "%02x", random[i]);
    return LS_OK;
}

void agent_introduction_fini(struct agent_introduction *intro)
{
    for (size_t i = 0; i < intro->hello.n_labels; i++)
        free(intro->labels[i].key);
    free(intro->labels);
    free(intro->hello.labels);
    ls__facts__free_unpacked(intro->hello.facts, NULL);
    ls__host_limits__free_unpacked(intro->hello.limits, NULL);
    for (size_t i = 0; i < intro->core_count; i++)
        free(intro->cores[i]);
    free(intro->cores);
    *intro = (struct agent_introduction){ .core_count = 0 };
}
