#include "coordinator/fleet/fleet.h"

#include <ev.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/pb.h"
#include "common/transport.h"

#define BURY_TIMEOUT_NS  (5 * LS_NS_PER_S)
#define CLOCK_REFRESH_NS LS_NS_PER_S

struct slot {
    struct coord_agent agent;
    ev_io ended; /* on the local process's pidfd */
    struct coord_fleet *fleet;
};

struct coord_fleet {
    struct ev_loop *loop;
    struct coord_fleet_env env;
    struct ls_listener *listener; /* owned */
    struct coord_clocks *clocks;  /* owned; NULL: the sessions' exchanges have to do */
    struct slot *slots;           /* owned */
    uint32_t count;
    struct ls_cpuset allowed; /* of this process at the beginning; agents begin with it */
    char program[4200];
    char folder[256]; /* private; "" if there is none */
    char url[300];
    bool leaving;
};

static void lose(struct coord_fleet *fleet, struct coord_agent *agent, const char *fmt, ...)
    LS_PRINTF(3, 4);

static void lose(struct coord_fleet *fleet, struct coord_agent *agent, const char *fmt, ...)
{
    va_list ap;

    if (agent->lost || fleet->leaving)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(agent->why_lost, sizeof(agent->why_lost), fmt, ap);
    va_end(ap);
    agent->lost = true;
    agent->enrolled = false;
    agent->up = false;
    coord_local_signal(&agent->local, SIGKILL); /* one that hangs would be in the next one's way */
    fleet->env.lost(fleet->env.ctx, agent);
}

/* ---- the listener's callbacks */

static struct coord_agent *find(struct coord_fleet *fleet, const char *name)
{
    for (uint32_t i = 0; i < fleet->count; i++) {
        if (strcmp(fleet->slots[i].agent.name, name) == 0)
            return &fleet->slots[i].agent;
    }
    return NULL;
}

/* A deep copy, by the wire; NULL: none, or out of memory. */
static Ls__HostLimits *copy_limits(const Ls__HostLimits *limits)
{
    size_t size = limits != NULL ? ls__host_limits__get_packed_size(limits) : 0;
    unsigned char *packed = limits != NULL ? malloc(size + 1) : NULL;
    Ls__HostLimits *copy = NULL;

    if (packed != NULL) {
        (void)ls__host_limits__pack(limits, packed);
        copy = ls__host_limits__unpack(NULL, size, packed);
    }
    free(packed);
    return copy;
}

static enum ls_err on_enrol(void *ctx, struct ls_peer *peer, const Ls__Hello *hello, void **out_ctx,
                            struct ls_diag *diag)
{
    struct coord_fleet *fleet = ctx;
    struct coord_agent *agent = find(fleet, hello->agent);
    Ls__Facts *facts = NULL;

    if (agent == NULL)
        return ls_fail(diag, LS_EINVAL, "this run has no agent named '%.40s'", hello->agent);
    if (agent->role != hello->role)
        return ls_fail(diag, LS_EINVAL, "agent %s has another role in this run", agent->name);
    if (agent->enrolled)
        return ls_fail(diag, LS_ESTATE, "agent %s is here already as another process", agent->name);
    if (agent->local.pid != 0 && (uint32_t)agent->local.pid != hello->pid)
        return ls_fail(diag, LS_ESTATE, "agent %s was started as process %d, not %" PRIu32,
                       agent->name, (int)agent->local.pid, hello->pid);
    if (hello->facts != NULL) { /* a deep copy, by the wire */
        size_t size = ls__facts__get_packed_size(hello->facts);
        unsigned char *packed = malloc(size + 1);

        if (packed != NULL) {
            (void)ls__facts__pack(hello->facts, packed);
            facts = ls__facts__unpack(NULL, size, packed);
        }
        free(packed);
        if (facts == NULL)
            return ls_fail(diag, LS_ENOMEM, "out of memory for agent %s", agent->name);
    }
    ls__facts__free_unpacked(agent->facts, NULL);
    agent->facts = facts;
    ls__host_limits__free_unpacked(agent->limits, NULL);
    agent->limits = copy_limits(hello->limits);
    agent->enrolled = true;
    agent->lost = false;
    agent->peer = peer;
    ls_offset_init(&agent->offset);
    ls_offset_init(&agent->udp_offset);
    agent->invited = false;
    (void)snprintf(agent->boot_id, sizeof(agent->boot_id), "%s", hello->boot_id);
    (void)snprintf(agent->software, sizeof(agent->software), "%s", hello->software);
    (void)snprintf(agent->address, sizeof(agent->address), "local");
    *out_ctx = agent;
    return LS_OK;
}

/* To knock, once for each process of an agent. */
static void invite(struct coord_fleet *fleet, struct coord_agent *agent)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__ClockUdp command = LS__CLOCK_UDP__INIT;
    struct ls_diag diag;

    if (fleet->clocks == NULL || agent->invited)
        return;
    agent->invited = true;
    envelope.body_case = LS__ENVELOPE__BODY_CLOCK_UDP;
    envelope.clock_udp = &command;
    if (coord_clocks_invite(fleet->clocks, agent->index, &command, &diag) != LS_OK ||
        ls_peer_command(agent->peer, &envelope, &diag) != LS_OK)
        ls_log(LS_LOG_WARN, "fleet.no_clock_udp", "agent=%s %s", agent->name, diag.text);
}

static void on_up(void *ctx, void *peer_ctx)
{
    struct coord_fleet *fleet = ctx;
    struct coord_agent *agent = peer_ctx;

    agent->up = true;
    invite(fleet, agent);
    fleet->env.changed(fleet->env.ctx, agent);
}

static void on_down(void *ctx, void *peer_ctx, const char *why)
{
    struct coord_fleet *fleet = ctx;
    struct coord_agent *agent = peer_ctx;

    ls_log(LS_LOG_INFO, "fleet.down", "agent=%s why=%s", agent->name, why);
    if (agent->up)
        agent->down_since_ns = ls_clock_mono_ns();
    agent->up = false;
    fleet->env.changed(fleet->env.ctx, agent);
}

static enum ls_err on_report(void *ctx, void *peer_ctx, const Ls__Envelope *report)
{
    struct coord_fleet *fleet = ctx;

    return fleet->env.report(fleet->env.ctx, peer_ctx, report);
}

static void on_clock(void *ctx, void *peer_ctx, int64_t sent_ns, int64_t peer_received_ns,
                     int64_t peer_replied_ns, int64_t received_ns)
{
    struct coord_fleet *fleet = ctx;
    struct coord_agent *agent = peer_ctx;

    ls_offset_add(&agent->offset, sent_ns, peer_received_ns, peer_replied_ns, received_ns);
    fleet->env.clock(fleet->env.ctx, agent);
}

static void on_answer(void *ctx, uint32_t agent, int64_t sent_ns, int64_t received_ns,
                      int64_t replied_ns, int64_t answered_ns)
{
    struct coord_fleet *fleet = ctx;

    ls_offset_add(&fleet->slots[agent].agent.udp_offset, sent_ns, received_ns, replied_ns,
                  answered_ns);
}

/* ---- local processes */

static void on_ended(struct ev_loop *loop, ev_io *w, int events)
{
    struct slot *slot = w->data;
    struct coord_agent *agent = &slot->agent;
    char how[64];
    char tail[300];

    (void)events;
    ev_io_stop(loop, w);
    if (!coord_local_reap(&agent->local, how, sizeof(how)))
        return;
    coord_local_log_tail(&agent->local, tail, sizeof(tail));
    agent->refused |= strcmp(how, "exit 5") == 0;
    lose(slot->fleet, agent, "agent %s has ended (%s)%s%s", agent->name, how,
         tail[0] != '\0' ? ": " : "", tail);
}

/* Waits for the end of a process that was killed. */
static enum ls_err bury(struct slot *slot, struct ls_diag *diag)
{
    struct coord_local *local = &slot->agent.local;
    int64_t limit_ns = ls_clock_mono_ns() + BURY_TIMEOUT_NS;
    char how[64];

    ev_io_stop(slot->fleet->loop, &slot->ended);
    while (local->pid != 0 && !coord_local_reap(local, how, sizeof(how))) {
        if (ls_clock_mono_ns() >= limit_ns)
            return ls_fail(diag, LS_EIO, "agent %s was killed and does not end (process %d)",
                           slot->agent.name, (int)local->pid);
        ls_clock_sleep_until(ls_clock_mono_ns() + LS_NS_PER_MS);
    }
    return LS_OK;
}

enum ls_err coord_fleet_start(struct coord_fleet *fleet, struct ls_diag *diag)
{
    for (uint32_t i = 0; i < fleet->count; i++) {
        struct slot *slot = &fleet->slots[i];
        struct coord_agent *agent = &slot->agent;
        enum ls_err rc;

        if (agent->local.pid != 0 && !agent->lost)
            continue;
        rc = bury(slot, diag);
        if (rc != LS_OK)
            return rc;
        rc = coord_local_start(&fleet->allowed, fleet->program, fleet->folder, fleet->url,
                               agent->name, agent->role, &agent->local, diag);
        if (rc != LS_OK)
            return rc;
        agent->lost = false;
        ev_io_init(&slot->ended, on_ended, agent->local.pidfd, EV_READ);
        slot->ended.data = slot;
        ev_io_start(fleet->loop, &slot->ended);
    }
    return LS_OK;
}

/* ---- life */

static void name_agents(struct coord_fleet *fleet, uint32_t servers)
{
    for (uint32_t i = 0; i < fleet->count; i++) {
        struct coord_agent *agent = &fleet->slots[i].agent;

        fleet->slots[i].fleet = fleet;
        agent->index = i;
        agent->local.pidfd = -1;
        agent->role = i < servers ? LS__ROLE__ROLE_SERVER : LS__ROLE__ROLE_CLIENT;
        ls_offset_init(&agent->offset);
        if (i < servers && servers == 1)
            (void)snprintf(agent->name, sizeof(agent->name), "server");
        else
            (void)snprintf(agent->name, sizeof(agent->name), "%s-%" PRIu32,
                           i < servers ? "server" : "client",
                           i < servers ? i + 1 : i - servers + 1);
    }
}

enum ls_err coord_fleet_create(void *ev_loop, const char *run_id, uint32_t servers,
                               uint32_t clients, const struct coord_fleet_env *env,
                               struct coord_fleet **out_fleet, struct ls_diag *diag)
{
    struct ls_listener_env callbacks = {
        .enrol = on_enrol, .up = on_up, .down = on_down, .report = on_report, .clock = on_clock
    };
    struct coord_fleet *fleet = calloc(1, sizeof(*fleet));
    enum ls_err rc = LS_ENOMEM;

    if (fleet == NULL)
        return ls_fail(diag, rc, "out of memory for the fleet");
    fleet->loop = ev_loop;
    fleet->env = *env;
    fleet->count = servers + clients;
    fleet->slots = calloc(fleet->count, sizeof(*fleet->slots));
    if (fleet->slots == NULL) {
        (void)ls_fail(diag, rc, "out of memory for the fleet");
        goto out;
    }
    name_agents(fleet, servers);
    rc = ls_cpuset_get_affinity(0, &fleet->allowed, diag);
    if (rc != LS_OK)
        goto out;
    rc = coord_local_find_agent(fleet->program, sizeof(fleet->program), diag);
    if (rc != LS_OK)
        goto out;
    rc = ls_fs_private_dir("lockstep", fleet->folder, sizeof(fleet->folder), diag);
    if (rc != LS_OK)
        goto out;
    (void)snprintf(fleet->url, sizeof(fleet->url), "ipc://%s/coordinator", fleet->folder);
    callbacks.ctx = fleet;
    rc = ls_listener_create(ev_loop,
                            &(struct ls_listener_options){ .url = fleet->url, .run_id = run_id },
                            &callbacks, &fleet->listener, diag);
    if (rc != LS_OK)
        goto out;
    if (coord_clocks_create(ev_loop, ls_listener_url(fleet->listener), fleet->count, on_answer,
                            fleet, &fleet->clocks, diag) != LS_OK)
        ls_log(LS_LOG_WARN, "fleet.no_clock_udp", "%s", diag->text);
    *out_fleet = fleet;
    fleet = NULL;
out:
    coord_fleet_destroy(fleet);
    return rc;
}

void coord_fleet_destroy(struct coord_fleet *fleet)
{
    struct ls_diag diag;
    char how[64];

    if (fleet == NULL)
        return;
    fleet->leaving = true;
    for (uint32_t i = 0; fleet->slots != NULL && i < fleet->count; i++) {
        struct slot *slot = &fleet->slots[i];

        if (slot->agent.local.pid != 0) {
            ev_io_stop(fleet->loop, &slot->ended);
            coord_local_signal(&slot->agent.local, SIGKILL);
            while (slot->agent.local.pid != 0 &&
                   !coord_local_reap(&slot->agent.local, how, sizeof(how)))
                ls_clock_sleep_until(ls_clock_mono_ns() + LS_NS_PER_MS);
        }
        ls__facts__free_unpacked(slot->agent.facts, NULL);
        ls__host_limits__free_unpacked(slot->agent.limits, NULL);
    }
    coord_clocks_destroy(fleet->clocks);
    ls_listener_destroy(fleet->listener);
    if (fleet->folder[0] != '\0' && ls_fs_remove_tree(fleet->folder, &diag) != LS_OK)
        ls_log(LS_LOG_WARN, "fleet.folder_left", "%s", diag.text);
    free(fleet->slots);
    free(fleet);
}

uint32_t coord_fleet_size(const struct coord_fleet *fleet)
{
    return fleet->count;
}

struct coord_agent *coord_fleet_agent(struct coord_fleet *fleet, uint32_t index)
{
    return &fleet->slots[index].agent;
}

bool coord_fleet_complete(const struct coord_fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->count; i++) {
        if (!fleet->slots[i].agent.enrolled || !fleet->slots[i].agent.up)
            return false;
    }
    return true;
}

enum ls_err coord_fleet_command(struct coord_fleet *fleet, uint32_t agent, Ls__Envelope *command,
                                struct ls_diag *diag)
{
    struct coord_agent *a = &fleet->slots[agent].agent;

    if (a->peer == NULL || a->lost)
        return ls_fail(diag, LS_ESTATE, "agent %s is not here", a->name);
    return ls_peer_command(a->peer, command, diag);
}

void coord_fleet_probe_clock(struct coord_fleet *fleet, uint32_t agent)
{
    struct coord_agent *a = &fleet->slots[agent].agent;

    if (a->peer != NULL && a->up && ls_peer_probe_clock(a->peer) != LS_OK)
        ls_log(LS_LOG_DEBUG, "fleet.no_probe", "agent=%s", a->name); /* the next one will do */
    if (fleet->clocks != NULL && a->up)
        coord_clocks_probe(fleet->clocks, agent);
}

bool coord_fleet_clock(const struct coord_agent *agent, int64_t at_ns, struct coord_clock *out)
{
    return coord_clock_at(&agent->offset, &agent->udp_offset, at_ns, out);
}

void coord_fleet_sweep(struct coord_fleet *fleet, int64_t now_ns)
{
    for (uint32_t i = 0; i < fleet->count; i++) {
        struct coord_agent *a = &fleet->slots[i].agent;

        if (a->enrolled && !a->up && now_ns - a->down_since_ns > COORD_FLEET_GRACE_NS)
            lose(fleet, a, "agent %s has been without a connection for %" PRId64 " s", a->name,
                 (now_ns - a->down_since_ns) / LS_NS_PER_S);
        if (a->up && now_ns >= a->next_probe_ns) {
            a->next_probe_ns = now_ns + CLOCK_REFRESH_NS;
            coord_fleet_probe_clock(fleet, i);
        }
    }
}

void coord_fleet_give_up(struct coord_fleet *fleet, uint32_t agent, const char *why)
{
    lose(fleet, &fleet->slots[agent].agent, "agent %s %s", fleet->slots[agent].agent.name, why);
}

void coord_fleet_bye(struct coord_fleet *fleet, const char *why)
{
    fleet->leaving = true;
    for (uint32_t i = 0; i < fleet->count; i++) {
        Ls__Envelope envelope = LS__ENVELOPE__INIT;
        Ls__Bye bye = LS__BYE__INIT;
        struct ls_diag diag;

        bye.why = ls_pb_text(why);
        envelope.body_case = LS__ENVELOPE__BODY_BYE;
        envelope.bye = &bye;
        if (coord_fleet_command(fleet, i, &envelope, &diag) != LS_OK)
            coord_local_signal(&fleet->slots[i].agent.local, SIGTERM);
    }
}

bool coord_fleet_gone(const struct coord_fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->count; i++) {
        if (fleet->slots[i].agent.local.pid != 0)
            return false;
    }
    return true;
}

void coord_fleet_kill(struct coord_fleet *fleet, int signal)
{
    for (uint32_t i = 0; i < fleet->count; i++)
        coord_local_signal(&fleet->slots[i].agent.local, signal);
}
