/* PREPARE as an agent takes it: any bytes that pass for one, up to a load that could begin. What a
 * plan check would have refused has to be refused here, too, for it may come from anybody who
 * speaks the protocol; nothing is connected to and nothing is run. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/budget.h"
#include "agent/build.h"
#include "agent/expand.h"
#include "agent/policy/policy.h"
#include "common/transport.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void expand(const Ls__Prepare *prepare)
{
    const Ls__Target *t = prepare->target;
    struct agent_expand values = { .dir = "/tmp/d", .cpus = prepare->cpus, .port = 1 };
    char **list = NULL;
    struct ls_diag diag;

    if (t == NULL)
        return;
    values.host = t->host;
    if (agent_expand_argv(&values, t->command, t->n_command, &list, &diag) == LS_OK)
        agent_expand_free(list);
    if (agent_expand_env(&values, t->env, t->n_env, &list, &diag) == LS_OK)
        agent_expand_free(list);
}

static void build(const Ls__Prepare *prepare, const struct agent_files *files,
                  const struct agent_policy *policy)
{
    struct agent_limits limits = { .files = 1024, .ports = 1000 };
    struct agent_build *made = NULL;
    struct ls_diag diag = { 0 };

    if (agent_build_workload(prepare, files, &made, &diag) == LS_OK) {
        const struct load_workload *w = agent_build_get(made);

        demand(w->request_count > 0 && w->workers > 0 && w->workers <= w->workers_total);
        (void)!agent_policy_workload(policy, w, prepare->server_addresses,
                                     prepare->n_server_addresses, &diag);
        (void)!agent_budget_check(w, 1, &limits, &diag);
    }
    agent_build_destroy(made);
    made = NULL;
    if (prepare->target != NULL && prepare->target->ready != NULL &&
        agent_build_ready(prepare, files, &made, &diag) == LS_OK)
        demand(agent_build_get(made)->request_count == 1);
    agent_build_destroy(made);
}

/* Strings may be absent in proto2: the wire's own checks come first, as they do in an agent. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char head[] = "\x08\x01\x12\x01r\x18\x01\xaa\x01"; /* version, run, seq, prepare */
    unsigned char *bytes = malloc(sizeof(head) + 5 + size);
    struct agent_policy *policy = NULL;
    struct agent_files *files = NULL;
    Ls__Envelope *envelope = NULL;
    size_t len = sizeof(head) - 1;

    demand(bytes != NULL && size < 1u << 21);
    (void)memcpy(bytes, head, len);
    for (size_t left = size;;) {
        bytes[len++] = (unsigned char)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
        left >>= 7;
        if (left == 0)
            break;
    }
    if (size > 0)
        (void)memcpy(bytes + len, data, size);
    demand(agent_policy_without_file(AGENT_POLICY_REMOTE, &policy) == LS_OK);
    demand(agent_files_create(NULL, &files) == LS_OK);
    if (ls_envelope_unpack((struct ls_bytes){ bytes, len + size }, &envelope, NULL) == LS_OK) {
        expand(envelope->prepare);
        build(envelope->prepare, files, policy);
    }
    ls_envelope_free(envelope);
    agent_files_destroy(files);
    agent_policy_destroy(policy);
    free(bytes);
    return 0;
}
