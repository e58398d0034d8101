#include "agent/load/preflight.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/load/probe.h"
#include "agent/load/variation.h"
#include "common/clock.h"
#include "common/pattern.h"

struct agent_preflight {
    const struct load_workload *workload;
    struct load_env env;
    struct load_event result; /* the thread's until done */
    atomic_bool done;
    int cancel_fd; /* owned */
    pthread_t thread;
    bool running; /* the thread has to be joined */
};

/* How many of a request's values are tried: with one of each, a large table would take minutes. */
static uint64_t turns_of(const struct load_request *request)
{
    uint64_t turns = 1;

    if (request->varied == NULL)
        return 1;
    for (size_t i = 0; i < request->varied->variables.count && turns < LS_PATTERN_TRIED_MAX; i++) {
        uint64_t count = request->varied->variables.items[i].count;

        turns = count > LS_PATTERN_TRIED_MAX ? LS_PATTERN_TRIED_MAX : turns * count;
    }
    return turns < LS_PATTERN_TRIED_MAX ? turns : LS_PATTERN_TRIED_MAX;
}

static enum ls_err run_request(struct agent_preflight *p, struct load_probe *probe, uint64_t number,
                               struct ls_diag *diag)
{
    struct load_counts *counts = &p->result.preflight;
    struct agent_reply reply = { 0 };
    uint64_t sent = 0;
    enum ls_err rc = load_probe_exchange(
        probe, number, ls_clock_mono_ns() + p->workload->timeout_ns, &reply, &sent, diag);

    counts->scheduled += sent;
    counts->sent += sent;
    if (sent > 0)
        counts->outcome[reply.outcome]++;
    if (rc == LS_OK && reply.outcome != LOAD_OK)
        rc = LS_EPROTO; /* diag says what was got instead */
    return rc;
}

static enum ls_err run_requests(struct agent_preflight *p, struct ls_diag *diag)
{
    const struct load_workload *workload = p->workload;
    struct load_probe *probe = NULL;
    enum ls_err rc;

    if (p->workload->address_len == 0)
        return LS_OK; /* the null link: nobody to ask */
    rc = load_probe_create(p->workload, p->cancel_fd, &probe, diag);
    for (uint32_t i = 0; rc == LS_OK && i < workload->request_count; i++) {
        for (uint64_t turn = 0; rc == LS_OK && turn < turns_of(&workload->requests[i]); turn++)
            rc = run_request(p, probe, load_workload_find(workload, (struct load_turn){ i, turn }),
                             diag);
        if (rc != LS_OK)
            (void)ls_fail_in(diag, rc, "preflight, request %u of %u", i + 1,
                             workload->request_count);
    }
    load_probe_destroy(probe);
    return rc;
}

static void *run(void *arg)
{
    struct agent_preflight *p = arg;

    p->result.ok = run_requests(p, &p->result.diag) == LS_OK;
    p->result.at_ns = ls_clock_mono_ns();
    atomic_store(&p->done, true);
    p->env.wake(p->env.ctx);
    return NULL;
}

enum ls_err agent_preflight_start(const struct load_workload *workload, const struct load_env *env,
                                  struct agent_preflight **out_preflight, struct ls_diag *diag)
{
    struct agent_preflight *p = calloc(1, sizeof(*p));
    enum ls_err rc;
    int error;

    if (p == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a preflight");
    p->workload = workload;
    p->env = *env;
    p->result.kind = LOAD_EVENT_PREFLIGHT;
    atomic_init(&p->done, false);
    p->cancel_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    error = p->cancel_fd < 0 ? errno : pthread_create(&p->thread, NULL, run, p);
    if (error != 0) {
        rc = ls_fail(diag, LS_EIO, "cannot start the preflight: %s", strerror(error));
        agent_preflight_destroy(p);
        return rc;
    }
    p->running = true;
    *out_preflight = p;
    return LS_OK;
}

void agent_preflight_cancel(struct agent_preflight *preflight)
{
    uint64_t one = 1;

    (void)!write(preflight->cancel_fd, &one, sizeof(one)); /* full means that it is readable */
}

void agent_preflight_destroy(struct agent_preflight *preflight)
{
    if (preflight == NULL)
        return;
    if (preflight->running) {
        agent_preflight_cancel(preflight);
        (void)pthread_join(preflight->thread, NULL); /* it is ours, and joined once */
    }
    if (preflight->cancel_fd >= 0)
        (void)close(preflight->cancel_fd); /* holds nothing */
    free(preflight);
}

bool agent_preflight_poll(struct agent_preflight *preflight, struct load_event *out_event)
{
    if (!atomic_load(&preflight->done))
        return false;
    *out_event = preflight->result;
    return true;
}
