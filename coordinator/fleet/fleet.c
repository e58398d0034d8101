#include "coordinator/fleet/fleet.h"

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
#include "coordinator/fleet/fleet_internal.h"

#define BURY_TIMEOUT_NS  (5 * LS_NS_PER_S)
#define CLOCK_REFRESH_NS LS_NS_PER_S
#define CLOCK_SHARE_NS   (30 * LS_NS_PER_MS) /* more for each agent, up to LS_CLOCK_SELDOM_NS */
#define CLOCK_FRESH_NS   (5 * LS_NS_PER_S)
/* Before the run begins nobody counts on them. */
#define CLOCK_WAITING_NS (2500 * LS_NS_PER_MS)
#define SESSION_EVERY    5u /* of the refreshing exchanges, where datagrams pass */
#define SWEEP_NS         (100 * LS_NS_PER_MS)
#define SWEEP_SHARE_NS   (100 * LS_NS_PER_US) /* more for each agent, up to a second */

void coord_session_dismiss(struct coord_session *session, const char *why)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Bye bye = LS__BYE__INIT;
    struct ls_diag diag;

    bye.why = ls_pb_text(why);
    envelope.body_case = LS__ENVELOPE__BODY_BYE;
    envelope.bye = &bye;
    if (ls_peer_command(session->peer, &envelope, &diag) != LS_OK)
        ls_log(LS_LOG_DEBUG, "fleet.no_bye", "agent=%s %s", session->name, diag.text);
}

/* A remote agent that may still be there is told, now or when it comes back. */
static void leave_behind(struct coord_fleet *fleet, struct coord_agent *agent)
{
    struct coord_session *session = agent->session;

    agent->session = NULL;
    agent->peer = NULL;
    if (session == NULL)
        return;
    session->agent = NULL;
    (void)snprintf(session->why, sizeof(session->why), "%s", agent->why_lost);
    if (!fleet->local && ls_peer_is_up(session->peer))
        coord_session_dismiss(session, session->why);
}

void coord_fleet_lose(struct coord_fleet *fleet, struct coord_agent *agent, const char *fmt, ...)
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
    leave_behind(fleet, agent);
    coord_local_signal(&agent->local, SIGKILL); /* one that hangs would be in the next one's way */
    fleet->env.lost(fleet->env.ctx, agent);
    if (!fleet->local && !fleet->bound)
        coord_fleet_vacate(fleet, agent);
}

void coord_fleet_vacate(struct coord_fleet *fleet, struct coord_agent *agent)
{
    coord_seats_leave(&fleet->seats, agent);
    if (agent->session != NULL)
        agent->session->agent = NULL;
    agent->session = NULL;
    agent->peer = NULL;
    agent->name[0] = '\0';
    coord_fleet_note_name(fleet, agent);
    agent->enrolled = agent->up = agent->lost = false;
    if (agent->hello != NULL)
        ls__hello__free_unpacked(agent->hello, NULL);
    agent->hello = NULL;
    agent->facts = NULL;
    agent->limits = NULL;
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
    coord_fleet_lose(slot->fleet, agent, "agent %s has ended (%s)%s%s", agent->name, how,
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

/* As the plan calls them, or by role and number. */
static void name_local(struct coord_fleet *fleet)
{
    uint32_t numbers[2] = { 0, 0 };

    for (uint32_t i = 0; i < fleet->count; i++) {
        struct coord_agent *agent = &fleet->slots[i].agent;
        bool server = agent->role == LS__ROLE__ROLE_SERVER;
        bool only = server && (i + 1 == fleet->count || fleet->slots[1].agent.role != agent->role);

        numbers[server]++;
        agent->wish = fleet->seats.items[i].wish;
        fleet->seats.items[i].holder = agent;
        if (agent->wish != NULL && agent->wish->name != NULL)
            (void)snprintf(agent->name, sizeof(agent->name), "%s", agent->wish->name);
        else if (only)
            (void)snprintf(agent->name, sizeof(agent->name), "server");
        else
            (void)snprintf(agent->name, sizeof(agent->name), "%s-%" PRIu32,
                           server ? "server" : "client", numbers[server]);
        coord_fleet_note_name(fleet, agent);
    }
}

static enum ls_err make_places(struct coord_fleet *fleet, const struct coord_fleet_options *options,
                               struct ls_diag *diag)
{
    enum ls_err rc;

    fleet->count = options->servers + options->clients;
    fleet->slots = calloc(fleet->count, sizeof(*fleet->slots));
    fleet->names = calloc(fleet->count, sizeof(*fleet->names));
    fleet->order = calloc(fleet->count, sizeof(struct coord_agent *));
    if (fleet->slots == NULL || fleet->names == NULL || fleet->order == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the fleet");
    rc = coord_seats_init(&fleet->seats, options->wanted, options->servers, options->clients, diag);
    for (uint32_t i = 0; i < fleet->count; i++) {
        struct coord_agent *agent = &fleet->slots[i].agent;

        fleet->slots[i].fleet = fleet;
        fleet->order[i] = agent;
        agent->index = agent->place = i;
        agent->local.pidfd = -1;
        agent->role = i < options->servers ? LS__ROLE__ROLE_SERVER : LS__ROLE__ROLE_CLIENT;
        ls_offset_init(&agent->offset);
    }
    return rc;
}

/* A socket in a private folder, and what local agents are started with. */
static enum ls_err prepare_local(struct coord_fleet *fleet, struct ls_diag *diag)
{
    enum ls_err rc = ls_cpuset_get_affinity(0, &fleet->allowed, diag);

    name_local(fleet);
    fleet->bound = true;
    if (rc == LS_OK)
        rc = coord_local_find_agent(fleet->program, sizeof(fleet->program), diag);
    if (rc == LS_OK)
        rc = ls_fs_private_dir("lockstep", fleet->folder, sizeof(fleet->folder), diag);
    if (rc == LS_OK)
        (void)snprintf(fleet->url, sizeof(fleet->url), "ipc://%s/coordinator", fleet->folder);
    return rc;
}

enum ls_err coord_fleet_create(void *ev_loop, const struct coord_fleet_options *options,
                               const struct coord_fleet_env *env, struct coord_fleet **out_fleet,
                               struct ls_diag *diag)
{
    struct ls_listener_env callbacks = coord_fleet_callbacks;
    struct coord_fleet *fleet = calloc(1, sizeof(*fleet));
    enum ls_err rc;

    if (fleet == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the fleet");
    fleet->loop = ev_loop;
    fleet->env = *env;
    fleet->local = options->listen == NULL;
    rc = make_places(fleet, options, diag);
    if (rc == LS_OK && fleet->local)
        rc = prepare_local(fleet, diag);
    callbacks.ctx = fleet;
    if (rc == LS_OK)
        rc = ls_listener_create(
            ev_loop,
            &(struct ls_listener_options){ .url = fleet->local ? fleet->url : options->listen,
                                           .run_id = options->run_id,
                                           .credentials = options->credentials },
            &callbacks, &fleet->listener, diag);
    if (rc != LS_OK) {
        coord_fleet_destroy(fleet);
        return rc;
    }
    if (coord_clocks_create(ev_loop, ls_listener_url(fleet->listener), fleet->count, on_answer,
                            fleet, &fleet->clocks, diag) != LS_OK)
        ls_log(LS_LOG_WARN, "fleet.no_clock_udp", "%s", diag->text);
    *out_fleet = fleet;
    return LS_OK;
}

static void end_local(struct slot *slot)
{
    char how[64];

    if (slot->agent.local.pid == 0)
        return;
    ev_io_stop(slot->fleet->loop, &slot->ended);
    coord_local_signal(&slot->agent.local, SIGKILL);
    while (slot->agent.local.pid != 0 && !coord_local_reap(&slot->agent.local, how, sizeof(how)))
        ls_clock_sleep_until(ls_clock_mono_ns() + LS_NS_PER_MS);
}

void coord_fleet_destroy(struct coord_fleet *fleet)
{
    struct ls_diag diag;

    if (fleet == NULL)
        return;
    fleet->leaving = true;
    for (uint32_t i = 0; fleet->slots != NULL && i < fleet->count; i++) {
        end_local(&fleet->slots[i]);
        if (fleet->slots[i].agent.hello != NULL)
            ls__hello__free_unpacked(fleet->slots[i].agent.hello, NULL);
    }
    coord_clocks_destroy(fleet->clocks);
    ls_listener_destroy(fleet->listener);
    while (fleet->sessions != NULL) {
        struct coord_session *session = fleet->sessions;

        fleet->sessions = session->next;
        free(session);
    }
    if (fleet->folder[0] != '\0' && ls_fs_remove_tree(fleet->folder, &diag) != LS_OK)
        ls_log(LS_LOG_WARN, "fleet.folder_left", "%s", diag.text);
    coord_seats_fini(&fleet->seats);
    free(fleet->order);
    free(fleet->names);
    free(fleet->slots);
    free(fleet);
}

uint32_t coord_fleet_size(const struct coord_fleet *fleet)
{
    return fleet->count;
}

struct coord_agent *coord_fleet_agent(struct coord_fleet *fleet, uint32_t index)
{
    return fleet->order[index];
}

bool coord_fleet_is_local(const struct coord_fleet *fleet)
{
    return fleet->local;
}

const char *coord_fleet_url(const struct coord_fleet *fleet)
{
    return ls_listener_url(fleet->listener);
}

const char *coord_fleet_folder(const struct coord_fleet *fleet)
{
    return fleet->folder;
}

/* Begins with whom it found missing last: this is asked after each event. */
bool coord_fleet_complete(struct coord_fleet *fleet)
{
    for (uint32_t n = 0; n < fleet->count; n++) {
        uint32_t i = (fleet->awaited + n) % fleet->count;

        if (!fleet->order[i]->enrolled || !fleet->order[i]->up) {
            fleet->awaited = i;
            return false;
        }
    }
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const struct coord_agent *const *x = a;
    const struct coord_agent *const *y = b;

    if ((*x)->role != (*y)->role)
        return (*x)->role == LS__ROLE__ROLE_SERVER ? -1 : 1;
    return strcmp((*x)->name, (*y)->name);
}

/* By name and not by arrival: the shares of the load are the same in each run of these agents. */
void coord_fleet_bind(struct coord_fleet *fleet)
{
    if (fleet->bound)
        return;
    fleet->bound = true;
    qsort(fleet->order, fleet->count, sizeof(struct coord_agent *), compare_names);
    for (uint32_t i = 0; i < fleet->count; i++)
        fleet->order[i]->index = i;
}

enum ls_err coord_fleet_command(struct coord_fleet *fleet, uint32_t agent, Ls__Envelope *command,
                                struct ls_diag *diag)
{
    struct coord_agent *a = fleet->order[agent];

    if (a->peer == NULL)
        return ls_fail(diag, LS_ESTATE, "agent %s is not here", a->name);
    return ls_peer_command(a->peer, command, diag);
}

static void probe_session(const struct coord_agent *a)
{
    if (a->peer != NULL && a->up && ls_peer_probe_clock(a->peer) != LS_OK)
        ls_log(LS_LOG_DEBUG, "fleet.no_probe", "agent=%s", a->name); /* the next one will do */
}

static void probe_udp(struct coord_fleet *fleet, const struct coord_agent *a)
{
    if (fleet->clocks != NULL && a->up)
        coord_clocks_probe(fleet->clocks, a->place);
}

/* Datagrams cost less; where they pass, the session's exchanges are for the case that they stop to.
 */
static void refresh_clock(struct coord_fleet *fleet, struct coord_agent *a, int64_t now_ns)
{
    int64_t one_ns = fleet->bound ? CLOCK_REFRESH_NS : CLOCK_WAITING_NS;
    int64_t many_ns = one_ns + fleet->count * CLOCK_SHARE_NS;
    int64_t wait_ns = many_ns < LS_CLOCK_SELDOM_NS ? many_ns : LS_CLOCK_SELDOM_NS;
    bool by_udp = ls_offset_known(&a->udp_offset) &&
                  now_ns - ls_offset_newest_ns(&a->udp_offset) < wait_ns + CLOCK_FRESH_NS;

    a->next_probe_ns = now_ns + wait_ns;
    probe_udp(fleet, a);
    if (!by_udp || a->refreshes++ % SESSION_EVERY == 0)
        probe_session(a);
}

bool coord_fleet_clock(const struct coord_agent *agent, int64_t at_ns, struct coord_clock *out)
{
    return coord_clock_at(&agent->offset, &agent->udp_offset, at_ns, out);
}

bool coord_fleet_wall(const struct coord_agent *agent, int64_t at_ns, int64_t *out_offset_ns,
                      int64_t *out_error_ns)
{
    struct coord_clock clock;

    if (agent->hello == NULL || agent->hello->wall_zero_ns == 0 ||
        !coord_fleet_clock(agent, at_ns, &clock))
        return false;
    *out_offset_ns = coord_clock_wall(&clock, agent->hello->wall_zero_ns, agent->own_zero_ns);
    *out_error_ns = clock.error_ns;
    return true;
}

bool coord_fleet_offset(const struct coord_agent *agent, int64_t at_ns, int64_t *out_offset_ns,
                        int64_t *out_error_ns)
{
    return coord_clock_offset(&agent->offset, &agent->udp_offset, at_ns, out_offset_ns,
                              out_error_ns);
}

void coord_fleet_probe_clock(struct coord_fleet *fleet, uint32_t agent)
{
    probe_session(fleet->order[agent]);
    probe_udp(fleet, fleet->order[agent]);
}

/* How long has it been away? */
static void look_for(struct coord_fleet *fleet, struct coord_agent *a, int64_t now_ns)
{
    int64_t away_ns = now_ns - a->down_since_ns;

    if (a->silent && away_ns > COORD_FLEET_GRACE_NS)
        coord_fleet_lose(fleet, a, "agent %s has been without a connection for %" PRId64 " s",
                         a->name, away_ns / LS_NS_PER_S);
    else if (!a->silent && away_ns > COORD_FLEET_CLOSED_GRACE_NS)
        coord_fleet_lose(fleet, a,
                         "agent %s has been without a connection for %" PRId64
                         " s, since it was closed",
                         a->name, away_ns / LS_NS_PER_S);
}

void coord_fleet_sweep(struct coord_fleet *fleet, int64_t now_ns)
{
    int64_t many_ns = SWEEP_NS + fleet->count * SWEEP_SHARE_NS;

    if (now_ns < fleet->swept_ns + (many_ns < LS_NS_PER_S ? many_ns : LS_NS_PER_S))
        return; /* whoever waits for events calls after each */
    fleet->swept_ns = now_ns;
    for (uint32_t i = 0; i < fleet->count; i++) {
        struct coord_agent *a = fleet->order[i];

        if (a->enrolled && !a->up)
            look_for(fleet, a, now_ns);
        if (a->up && now_ns >= a->next_probe_ns)
            refresh_clock(fleet, a, now_ns);
    }
}

void coord_fleet_give_up(struct coord_fleet *fleet, uint32_t agent, const char *why)
{
    coord_fleet_lose(fleet, fleet->order[agent], "agent %s %s", fleet->order[agent]->name, why);
}

void coord_fleet_bye(struct coord_fleet *fleet, const char *why)
{
    fleet->leaving = true;
    for (uint32_t i = 0; i < fleet->count; i++) {
        struct coord_agent *a = fleet->order[i];

        if (a->session != NULL)
            coord_session_dismiss(a->session, why);
        else
            coord_local_signal(&a->local, SIGTERM);
    }
}

bool coord_fleet_gone(const struct coord_fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->count; i++) {
        const struct coord_agent *a = fleet->order[i];

        if (a->local.pid != 0)
            return false;
        if (!fleet->local && a->peer != NULL && a->up && ls_peer_unacked(a->peer) > 0)
            return false;
    }
    return true;
}

void coord_fleet_kill(struct coord_fleet *fleet, int signal)
{
    for (uint32_t i = 0; i < fleet->count; i++)
        coord_local_signal(&fleet->order[i]->local, signal);
}
