/* A policy from the first byte to what it allows. The oracle: it is refused with a printable
 * reason, or it says the same of an address, a program and a coordinator each time it is asked,
 * never allows what nothing may allow, and describes itself in a message that can be sent. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "agent/policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void check_issues(const struct ls_issues *issues)
{
    char *text = ls_issues_format(issues);

    demand(text != NULL && issues->count > 0);
    for (const char *c = text; *c != '\0'; c++)
        demand((unsigned char)*c >= 0x20 ? *c != 0x7f : *c == '\n');
    free(text);
}

static struct load_workload load_of(uint32_t address)
{
    struct load_workload w = { .law = LOAD_LAW_CONSTANT,
                               .rate_per_s = 1,
                               .connections = 1,
                               .pipeline = 1,
                               .workers = 1,
                               .workers_total = 1 };
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&w.address;

    in->sin_family = AF_INET;
    in->sin_port = htons(80);
    in->sin_addr.s_addr = htonl(address);
    return w;
}

static void check_load(const struct agent_policy *policy)
{
    static const uint32_t never[] = { 0, 1, 0xe0000001, 0xffffffff, 0xf0000000 };
    static const uint32_t maybe[] = { 0x7f000001, 0x0a000005, 0x08080808, 0xa9fea9fe };
    struct ls_diag diag;

    for (size_t i = 0; i < LS_ARRAY_LEN(never); i++) {
        struct load_workload w = load_of(never[i]);

        demand(agent_policy_workload(policy, &w, NULL, 0, &diag) == LS_EREFUSED);
    }
    for (size_t i = 0; i < LS_ARRAY_LEN(maybe); i++) {
        struct load_workload w = load_of(maybe[i]);
        enum ls_err rc = agent_policy_workload(policy, &w, NULL, 0, &diag);

        demand(rc == LS_OK || rc == LS_EREFUSED);
        demand(rc == agent_policy_workload(policy, &w, NULL, 0, &diag));
    }
    demand(agent_policy_duration(policy, 1, &diag) == LS_OK ||
           agent_policy_duration(policy, 1, &diag) == LS_EREFUSED);
}

static void check_program(const struct agent_policy *policy)
{
    static char name[] = "x", preload[] = "LD_PRELOAD";
    char *argv[] = { name, name, NULL }, *variables[] = { preload, NULL };
    struct host_program_file file = { .path = "/usr/bin/x", .real = "/usr/bin/x", .sha256 = "00" };
    struct agent_policy_command command = {
        .file = &file, .argv = argv, .dir = "/tmp/d", .variables = variables
    };
    struct host_confine confine;
    struct ls_diag diag;
    enum ls_err rc = agent_policy_program(policy, &command, &confine, &diag);

    demand(rc == LS_OK || rc == LS_EREFUSED);
    demand(rc == agent_policy_program(policy, &command, &confine, &diag));
    demand(rc != LS_OK || agent_policy_runs_programs(policy));
    (void)!agent_policy_coordinator(policy, "lab", &diag);
    demand(agent_policy_coordinator(policy, "", &diag) != LS_OK ||
           agent_policy_coordinator(policy, "lab", &diag) == LS_OK);
}

static void check_description(const struct agent_policy *policy)
{
    Ls__HostLimits *limits = malloc(sizeof(*limits));

    demand(limits != NULL);
    ls__host_limits__init(limits);
    demand(agent_policy_describe(policy, limits) == LS_OK);
    demand(ls__host_limits__get_packed_size(limits) > 0);
    ls__host_limits__free_unpacked(limits, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agent_policy *policy = NULL;
    struct ls_issues issues;
    enum ls_err rc;

    ls_issues_init(&issues, "fuzz.yaml");
    rc = agent_policy_parse((struct ls_bytes){ data, size }, "fuzz.yaml", false, &issues, &policy);
    demand(rc == LS_OK || rc == LS_EINVAL);
    if (rc == LS_OK) {
        check_load(policy);
        check_program(policy);
        check_description(policy);
    } else {
        check_issues(&issues);
    }
    agent_policy_destroy(policy);
    ls_issues_fini(&issues);
    return 0;
}
