/* What the listener calls: who may stay, what agents say, who comes and goes. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/pb.h"
#include "coordinator/fleet/fleet_internal.h"

/* Slots are large, and there are thousands: only likely ones are looked into. */
static uint32_t number_of(const char *name)
{
    return name[0] == '\0' ? 0 : ls_hash_text(name) | 1;
}

void coord_fleet_note_name(struct coord_fleet *fleet, const struct coord_agent *agent)
{
    fleet->names[agent->place] = number_of(agent->name);
}

static struct coord_agent *find(struct coord_fleet *fleet, const char *name)
{
    uint32_t number = number_of(name);

    for (uint32_t i = 0; i < fleet->count; i++) {
        if (fleet->names[i] == number && strcmp(fleet->slots[i].agent.name, name) == 0)
            return &fleet->slots[i].agent;
    }
    return NULL;
}

static const char *role_name(Ls__Role role)
{
    return role == LS__ROLE__ROLE_SERVER ? "server" : "client";
}

/* ---- who may stay */

void coord_take_host(const char *address, char *out, size_t out_bytes)
{
    const char *colon = strrchr(address, ':');
    int len = colon != NULL ? (int)(colon - address) : 0;

    if (len >= 2 && address[0] == '[') {
        address++;
        len -= 2;
    }
    (void)snprintf(out, out_bytes, "%.*s", len, address);
}

/* Somebody of that name has a place: is this the same one, come anew? */
static enum ls_err check_known(const struct coord_agent *agent, const struct ls_peer *peer,
                               const Ls__Hello *hello, struct ls_diag *diag)
{
    if (agent->role != hello->role)
        return ls_fail(diag, LS_EINVAL,
                       "other_role: agent %s is a %s in this run: give this one another name",
                       agent->name, role_name(agent->role));
    /* A certificate proves that it is the same one: then the newest wins, for the older connection
     * may only seem to live. A name alone proves nothing, and who is here keeps it. */
    if (agent->enrolled && agent->up && !ls_peer_identity(peer)->proven)
        return ls_fail(diag, LS_ESTATE,
                       "name_taken: an agent %s is here already, from %s: give this one another "
                       "name, or end that one",
                       agent->name, agent->from[0] != '\0' ? agent->from : "this host");
    if (agent->local.pid != 0 && (uint32_t)agent->local.pid != hello->pid)
        return ls_fail(diag, LS_ESTATE, "agent %s was started as process %d, not %" PRIu32,
                       agent->name, (int)agent->local.pid, hello->pid);
    return LS_OK;
}

static enum ls_err no_seat(const struct coord_fleet *fleet, const Ls__Hello *hello,
                           struct ls_diag *diag)
{
    char missing[200];

    coord_fleet_missing(fleet, missing, sizeof(missing));
    if (fleet->bound || missing[0] == '\0')
        return ls_fail(diag, LS_ESTATE,
                       "no_seat: this run has all the agents that it asks for; wait for the next");
    return ls_fail(diag, LS_ESTATE, "no_seat: this run has no place for %s %.64s; missing here: %s",
                   role_name(hello->role), hello->agent, missing);
}

static struct coord_agent *free_place(struct coord_fleet *fleet, Ls__Role role)
{
    for (uint32_t i = 0; i < fleet->count; i++) {
        if (fleet->names[i] == 0 && fleet->slots[i].agent.role == role)
            return &fleet->slots[i].agent;
    }
    return NULL;
}

static Ls__Hello *copy_hello(const Ls__Hello *hello)
{
    size_t size = ls__hello__get_packed_size(hello);
    unsigned char *packed = malloc(size + 1);
    Ls__Hello *copy = NULL;

    if (packed != NULL) {
        (void)ls__hello__pack(hello, packed);
        copy = ls__hello__unpack(NULL, size, packed);
    }
    free(packed);
    return copy;
}

/* One that would refuse every plan is told so while somebody looks, not in the middle of a run. */
static bool runs_nothing(const Ls__Hello *hello, struct ls_diag *diag)
{
    if (hello->role != LS__ROLE__ROLE_SERVER || hello->limits == NULL ||
        hello->limits->n_programs > 0)
        return false;
    (void)ls_fail(
        diag, LS_EREFUSED,
        "policy: server %.64s runs no program for others: its host's policy (%.100s) has to "
        "allow one",
        hello->agent, hello->limits->policy[0] != '\0' ? hello->limits->policy : "there is none");
    return true;
}

/* The frames are the same; what is measured need not be. */
static bool is_other_version(const Ls__Hello *hello, struct ls_diag *diag)
{
    if (strcmp(hello->software, "lockstep " LS_VERSION) == 0)
        return false;
    (void)ls_fail(diag, LS_EINVAL,
                  "version: agent %.64s is %.40s, and this is lockstep " LS_VERSION
                  ": bring the same version to both hosts",
                  hello->agent, hello->software[0] != '\0' ? hello->software : "of no version");
    return true;
}

/* A seat for somebody new. */
static struct coord_agent *seat(struct coord_fleet *fleet, const struct ls_peer *peer,
                                const Ls__Hello *hello, struct ls_diag *diag)
{
    struct coord_agent *agent = fleet->bound ? NULL : free_place(fleet, hello->role);

    if (is_other_version(hello, diag) || runs_nothing(hello, diag))
        return NULL;
    if (agent == NULL) {
        (void)no_seat(fleet, hello, diag);
        return NULL;
    }
    if (!coord_agent_introduce(agent, peer, hello)) {
        (void)ls_fail(diag, LS_ENOMEM, "out of memory for agent %.64s", hello->agent);
        return NULL;
    }
    coord_fleet_note_name(fleet, agent);
    if (coord_seats_take(&fleet->seats, agent))
        return agent;
    coord_fleet_vacate(fleet, agent);
    (void)no_seat(fleet, hello, diag);
    return NULL;
}

/* One that had a seat comes anew, before the run. If there is none for it now, for it says other
 * things of itself, the one before has lost its own as well, and has to hear of it. */
static struct coord_agent *seat_anew(struct coord_fleet *fleet, struct coord_agent *agent,
                                     const struct ls_peer *peer, const Ls__Hello *hello,
                                     struct ls_diag *diag)
{
    struct coord_session *before = agent->session;

    coord_fleet_vacate(fleet, agent);
    agent = seat(fleet, peer, hello, diag);
    if (agent != NULL || before == NULL)
        return agent;
    (void)snprintf(before->why, sizeof(before->why),
                   "another process of this name came and does not fit: begin anew");
    if (ls_peer_is_up(before->peer))
        coord_session_dismiss(before, before->why);
    return NULL;
}

/* The place that this agent may have; NULL: none, diag says why. */
static struct coord_agent *choose_place(struct coord_fleet *fleet, const struct ls_peer *peer,
                                        const Ls__Hello *hello, struct ls_diag *diag)
{
    struct coord_agent *agent;

    if (fleet->leaving) {
        (void)ls_fail(diag, LS_ESTATE, "over: this run is over; wait for the next");
        return NULL;
    }
    if (!ls_identity_name_is_fine(hello->agent)) {
        (void)ls_fail(diag, LS_EINVAL,
                      "bad_name: an agent's name has letters, digits, '.', '_' and '-' only");
        return NULL;
    }
    agent = find(fleet, hello->agent);
    if (agent != NULL && check_known(agent, peer, hello, diag) != LS_OK)
        return NULL;
    if (agent != NULL && fleet->bound) {
        if (coord_agent_introduce(agent, peer, hello))
            return agent;
        (void)ls_fail(diag, LS_ENOMEM, "out of memory for agent %.64s", hello->agent);
        return NULL;
    }
    if (agent != NULL)
        return seat_anew(fleet, agent, peer, hello, diag);
    if (!fleet->local)
        return seat(fleet, peer, hello, diag);
    (void)ls_fail(diag, LS_EINVAL, "this run has no agent named '%.40s'", hello->agent);
    return NULL;
}

static bool is_address(const char *text)
{
    unsigned char bytes[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

bool coord_agent_introduce(struct coord_agent *agent, const struct ls_peer *peer,
                           const Ls__Hello *hello)
{
    Ls__Hello *copy = copy_hello(hello);

    if (copy == NULL)
        return false;
    if (agent->hello != NULL)
        ls__hello__free_unpacked(agent->hello, NULL);
    agent->hello = copy;
    agent->facts = copy->facts;
    agent->limits = copy->limits;
    agent->role = copy->role;
    ls_offset_init(&agent->offset);
    ls_offset_init(&agent->udp_offset);
    agent->own_zero_ns = ls_clock_wall_ns() - ls_clock_mono_ns();
    agent->invited = agent->wall_looked_at = false;
    (void)snprintf(agent->name, sizeof(agent->name), "%s", copy->agent);
    (void)snprintf(agent->boot_id, sizeof(agent->boot_id), "%s", copy->boot_id);
    (void)snprintf(agent->software, sizeof(agent->software), "%s", copy->software);
    coord_take_host(ls_peer_address(peer), agent->from, sizeof(agent->from));
    (void)snprintf(agent->address, sizeof(agent->address), "%s",
                   is_address(copy->address) ? copy->address : agent->from);
    return true;
}

/* A place with a new session. */
static void move_in(struct coord_fleet *fleet, struct coord_agent *agent,
                    struct coord_session *session)
{
    if (agent->session != NULL) { /* not dismissed: the listener turns it away for good */
        agent->session->agent = NULL;
        agent->session = NULL;
    }
    if (agent->enrolled)
        coord_fleet_lose(fleet, agent, "agent %s has been restarted", agent->name);
    agent->enrolled = true;
    agent->lost = false;
    agent->session = session;
    agent->peer = session->peer;
    session->agent = agent;
    (void)snprintf(session->name, sizeof(session->name), "%s", agent->name);
    session->next = fleet->sessions;
    fleet->sessions = session;
}

static enum ls_err on_enrol(void *ctx, struct ls_peer *peer, const Ls__Hello *hello, void **out_ctx,
                            struct ls_diag *diag)
{
    struct coord_fleet *fleet = ctx;
    struct coord_session *session = calloc(1, sizeof(*session));
    struct coord_agent *agent;

    if (session == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for agent %.64s", hello->agent);
    session->peer = peer;
    agent = choose_place(fleet, peer, hello, diag);
    if (agent == NULL) {
        free(session);
        return diag->code;
    }
    move_in(fleet, agent, session);
    *out_ctx = session;
    return LS_OK;
}

/* ---- who comes and goes */

/* To knock, once for each session of an agent. */
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
    if (coord_clocks_invite(fleet->clocks, agent->place, &command, &diag) != LS_OK ||
        ls_peer_command(agent->peer, &envelope, &diag) != LS_OK)
        ls_log(LS_LOG_WARN, "fleet.no_clock_udp", "agent=%s %s", agent->name, diag.text);
}

static void on_up(void *ctx, void *peer_ctx)
{
    struct coord_fleet *fleet = ctx;
    struct coord_session *session = peer_ctx;

    if (session->agent == NULL) {
        coord_session_dismiss(session, session->why);
        return;
    }
    session->agent->up = true;
    session->agent->identity = *ls_peer_identity(session->peer);
    invite(fleet, session->agent);
}

static void on_forgotten(void *ctx, void *peer_ctx)
{
    struct coord_fleet *fleet = ctx;
    struct coord_session *session = peer_ctx;
    struct coord_session **at = &fleet->sessions;

    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    if (session->agent != NULL)
        session->agent->session = NULL;
    free(session);
}

static void on_down(void *ctx, void *peer_ctx, const char *why)
{
    struct coord_session *session = peer_ctx;
    struct coord_agent *agent = session->agent;

    (void)ctx;
    ls_log(LS_LOG_INFO, "fleet.down", "agent=%s why=%s", session->name, why);
    if (agent == NULL)
        return;
    if (agent->up)
        agent->down_since_ns = ls_clock_mono_ns();
    agent->up = false;
    agent->silent = ls_peer_fell_silent(session->peer);
}

/* What was left behind has nothing to add: its part of the trial is over. */
static enum ls_err on_report(void *ctx, void *peer_ctx, const Ls__Envelope *report)
{
    struct coord_fleet *fleet = ctx;
    struct coord_session *session = peer_ctx;

    if (session->agent == NULL)
        return LS_OK;
    return fleet->env.report(fleet->env.ctx, session->agent, report);
}

static void on_settle(void *ctx)
{
    struct coord_fleet *fleet = ctx;

    fleet->env.settle(fleet->env.ctx);
}

static void on_clock(void *ctx, void *peer_ctx, int64_t sent_ns, int64_t peer_received_ns,
                     int64_t peer_replied_ns, int64_t received_ns)
{
    struct coord_fleet *fleet = ctx;
    struct coord_session *session = peer_ctx;

    if (session->agent == NULL)
        return;
    ls_offset_add(&session->agent->offset, sent_ns, peer_received_ns, peer_replied_ns, received_ns);
    fleet->env.clock(fleet->env.ctx, session->agent);
}

bool coord_refused_note(struct coord_refused *refused, const char *address, const char *agent,
                        const char *text, unsigned *out_item)
{
    char who[sizeof(refused->items[0].who)], from[64];
    unsigned i = 0;
    bool news;

    if (strncmp(text, "foreign_run: ", 13) == 0)
        return false; /* nobody has to do anything about it */
    coord_take_host(address, from, sizeof(from));
    /* A name that is none may hold anything, and is shown on a terminal. */
    (void)snprintf(who, sizeof(who), "%s%s%s", ls_identity_name_is_fine(agent) ? agent : "an agent",
                   from[0] != '\0' ? " at " : "", from);
    ls_log(LS_LOG_INFO, "fleet.refused", "%s: %s", who, text);
    while (i < refused->count && strcmp(refused->items[i].who, who) != 0)
        i++;
    if (i == COORD_REFUSED_MAX)
        return false;
    news = i == refused->count ||
           strncmp(refused->items[i].why, text, sizeof(refused->items[i].why) - 1) != 0;
    if (i == refused->count)
        refused->count++;
    (void)snprintf(refused->items[i].who, sizeof(refused->items[i].who), "%s", who);
    (void)snprintf(refused->items[i].why, sizeof(refused->items[i].why), "%s", text);
    *out_item = i;
    return news;
}

static void on_refused(void *ctx, const char *address, const char *agent, const char *text)
{
    struct coord_fleet *fleet = ctx;
    unsigned i;

    if (!fleet->leaving && coord_refused_note(&fleet->refused, address, agent, text, &i))
        fleet->env.refused(fleet->env.ctx, fleet->refused.items[i].who,
                           fleet->refused.items[i].why);
}

const struct ls_listener_env coord_fleet_callbacks = { .enrol = on_enrol,
                                                       .up = on_up,
                                                       .down = on_down,
                                                       .report = on_report,
                                                       .settle = on_settle,
                                                       .forgotten = on_forgotten,
                                                       .refused = on_refused,
                                                       .clock = on_clock };

/* ---- in words */

static void add(char *out, size_t out_bytes, size_t *used, const char *text)
{
    int n;

    if (*used >= out_bytes)
        return;
    n = snprintf(out + *used, out_bytes - *used, "%s%s", *used > 0 ? ", " : "", text);
    *used += n > 0 ? (size_t)n : 0;
}

void coord_fleet_here(const struct coord_fleet *fleet, char *out, size_t out_bytes)
{
    size_t used = 0;
    char text[200];

    out[0] = '\0';
    for (uint32_t i = 0; i < fleet->count && used < out_bytes; i++) {
        const struct coord_agent *a = fleet->order[i];

        if (!a->enrolled || !a->up)
            continue;
        (void)snprintf(text, sizeof(text), "%s %s%s%s%s", role_name(a->role), a->name,
                       a->address[0] != '\0' ? " (" : "", a->address,
                       a->address[0] != '\0' ? ")" : "");
        add(out, out_bytes, &used, text);
    }
}

/* Seats that nobody has, those for anybody by their number; and agents that have gone away. */
void coord_fleet_missing(const struct coord_fleet *fleet, char *out, size_t out_bytes)
{
    uint32_t any[2] = { 0, 0 };
    size_t used = 0;
    char text[300];

    out[0] = '\0';
    for (uint32_t i = 0; i < fleet->count && !fleet->bound && !fleet->local; i++) {
        const struct coord_seat *seat = &fleet->seats.items[i];

        if (seat->holder == NULL && seat->wish != NULL)
            add(out, out_bytes, &used, coord_seat_describe(seat, text, sizeof(text)));
        else if (seat->holder == NULL)
            any[seat->role == LS__ROLE__ROLE_SERVER]++;
    }
    for (unsigned role = 2; role-- > 0;) {
        if (any[role] == 0)
            continue;
        (void)snprintf(text, sizeof(text), "%" PRIu32 " %s%s", any[role],
                       role == 1 ? "server" : "client", any[role] == 1 ? "" : "s");
        add(out, out_bytes, &used, text);
    }
    for (uint32_t i = 0; i < fleet->count; i++) {
        const struct coord_agent *a = fleet->order[i];

        if (a->name[0] == '\0' || (a->enrolled && a->up))
            continue;
        (void)snprintf(text, sizeof(text), "%s %s%s", role_name(a->role), a->name,
                       a->hello != NULL ? " (it was here, and has gone)" : "");
        add(out, out_bytes, &used, text);
    }
}

void coord_fleet_refused(const struct coord_fleet *fleet, char *out, size_t out_bytes)
{
    size_t used = 0;
    char text[500];

    out[0] = '\0';
    for (unsigned i = 0; i < fleet->refused.count; i++) {
        (void)snprintf(text, sizeof(text), "%s (%s)", fleet->refused.items[i].who,
                       fleet->refused.items[i].why);
        add(out, out_bytes, &used, text);
    }
}
