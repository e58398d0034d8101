#include "coordinator/fleet/roll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/fleet/fleet_internal.h"

#define CLOCK_ENOUGH 16u /* answers */
#define ROLL_MAX     5000u

struct entry {
    struct coord_session session; /* first: what the listener calls with */
    struct coord_agent agent;
    struct entry *next;
};

struct coord_roll {
    struct coord_roll_env env;
    struct ls_listener *listener; /* owned */
    struct entry *entries;        /* owned */
    uint32_t count;               /* of them */
    struct coord_refused refused;
    bool leaving;
};

static void entry_free(struct entry *e)
{
    ls__hello__free_unpacked(e->agent.hello, NULL);
    free(e);
}

static struct entry *find(struct coord_roll *roll, const char *name)
{
    struct entry *e = roll->entries;

    while (e != NULL && (e->session.agent == NULL || strcmp(e->agent.name, name) != 0))
        e = e->next;
    return e;
}

static enum ls_err on_enrol(void *ctx, struct ls_peer *peer, const Ls__Hello *hello, void **out_ctx,
                            struct ls_diag *diag)
{
    struct coord_roll *roll = ctx;
    struct entry *known = find(roll, hello->agent);
    struct entry *e;

    if (roll->leaving)
        return ls_fail(diag, LS_ESTATE, "over: whoever asked has gone; wait for a run");
    if (!ls_identity_name_is_fine(hello->agent))
        return ls_fail(diag, LS_EINVAL,
                       "bad_name: an agent's name has letters, digits, '.', '_' and '-' only");
    if (roll->count >= ROLL_MAX)
        return ls_fail(diag, LS_ERANGE, "no_seat: %u agents have come already", ROLL_MAX);
    if (known != NULL && known->agent.up && !ls_peer_identity(peer)->proven)
        return ls_fail(diag, LS_ESTATE,
                       "name_taken: an agent %s is here already, from %s: give this one another "
                       "name, or end that one",
                       known->agent.name, known->agent.from);
    e = calloc(1, sizeof(*e));
    if (e == NULL || !coord_agent_introduce(&e->agent, peer, hello)) {
        free(e);
        return ls_fail(diag, LS_ENOMEM, "out of memory for agent %.64s", hello->agent);
    }
    if (known != NULL)
        known->session.agent = NULL; /* left behind */
    e->agent.peer = e->session.peer = peer;
    e->session.agent = &e->agent;
    e->next = roll->entries;
    roll->entries = e;
    roll->count++;
    *out_ctx = e;
    return LS_OK;
}

static void on_up(void *ctx, void *peer_ctx)
{
    struct coord_roll *roll = ctx;
    struct entry *e = peer_ctx;

    e->agent.up = true;
    e->agent.identity = *ls_peer_identity(e->session.peer);
    roll->env.came(roll->env.ctx, &e->agent);
}

static void on_down(void *ctx, void *peer_ctx, const char *why)
{
    struct coord_roll *roll = ctx;
    struct entry *e = peer_ctx;

    (void)why;
    e->agent.up = false;
    if (!roll->leaving && e->session.agent != NULL)
        roll->env.went(roll->env.ctx, &e->agent);
}

static void on_forgotten(void *ctx, void *peer_ctx)
{
    struct coord_roll *roll = ctx;
    struct entry **at = &roll->entries;
    struct entry *e = peer_ctx;

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    roll->count--;
    entry_free(e);
}

static enum ls_err on_report(void *ctx, void *peer_ctx, const Ls__Envelope *report)
{
    (void)ctx;
    (void)peer_ctx;
    (void)report; /* nothing was asked for */
    return LS_OK;
}

static void on_clock(void *ctx, void *peer_ctx, int64_t sent_ns, int64_t peer_received_ns,
                     int64_t peer_replied_ns, int64_t received_ns)
{
    struct entry *e = peer_ctx;

    (void)ctx;
    ls_offset_add(&e->agent.offset, sent_ns, peer_received_ns, peer_replied_ns, received_ns);
    if (e->agent.offset.taken < CLOCK_ENOUGH && ls_peer_probe_clock(e->session.peer) != LS_OK)
        ls_log(LS_LOG_DEBUG, "roll.no_probe", "agent=%s", e->agent.name);
}

static void on_refused(void *ctx, const char *address, const char *agent, const char *text)
{
    struct coord_roll *roll = ctx;
    unsigned i;

    if (!roll->leaving && coord_refused_note(&roll->refused, address, agent, text, &i))
        roll->env.refused(roll->env.ctx, roll->refused.items[i].who, roll->refused.items[i].why);
}

enum ls_err coord_roll_create(void *ev_loop, const char *url, struct ls_credentials *credentials,
                              const struct coord_roll_env *env, struct coord_roll **out_roll,
                              struct ls_diag *diag)
{
    struct coord_roll *roll = calloc(1, sizeof(*roll));
    struct ls_listener_env callbacks = { .enrol = on_enrol,
                                         .up = on_up,
                                         .down = on_down,
                                         .report = on_report,
                                         .forgotten = on_forgotten,
                                         .refused = on_refused,
                                         .clock = on_clock,
                                         .ctx = roll };
    enum ls_err rc;

    if (roll == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the list of agents");
    roll->env = *env;
    rc = ls_listener_create(ev_loop,
                            &(struct ls_listener_options){
                                .url = url, .run_id = "roll-call", .credentials = credentials },
                            &callbacks, &roll->listener, diag);
    if (rc != LS_OK) {
        free(roll);
        return rc;
    }
    *out_roll = roll;
    return LS_OK;
}

void coord_roll_destroy(struct coord_roll *roll)
{
    if (roll == NULL)
        return;
    roll->leaving = true;
    ls_listener_destroy(roll->listener);
    while (roll->entries != NULL) {
        struct entry *e = roll->entries;

        roll->entries = e->next;
        entry_free(e);
    }
    free(roll);
}

const char *coord_roll_url(const struct coord_roll *roll)
{
    return ls_listener_url(roll->listener);
}

static bool is_here(const struct entry *e)
{
    return e->session.agent != NULL && e->agent.up;
}

bool coord_roll_ask(struct coord_roll *roll)
{
    bool all = true;

    for (struct entry *e = roll->entries; e != NULL; e = e->next) {
        if (!is_here(e) || e->agent.offset.taken >= CLOCK_ENOUGH)
            continue;
        all = false;
        if (ls_peer_probe_clock(e->session.peer) != LS_OK)
            ls_log(LS_LOG_DEBUG, "roll.no_probe", "agent=%s", e->agent.name);
    }
    return all;
}

static int compare_names(const void *a, const void *b)
{
    const struct coord_agent *const *x = a;
    const struct coord_agent *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

struct coord_agent **coord_roll_here(struct coord_roll *roll, uint32_t *out_count)
{
    struct coord_agent **list = calloc((size_t)roll->count + 1, sizeof(struct coord_agent *));
    uint32_t n = 0;

    if (list == NULL)
        return NULL;
    for (struct entry *e = roll->entries; e != NULL; e = e->next) {
        if (is_here(e))
            list[n++] = &e->agent;
    }
    qsort(list, n, sizeof(struct coord_agent *), compare_names);
    *out_count = n;
    return list;
}

void coord_roll_bye(struct coord_roll *roll)
{
    roll->leaving = true;
    for (struct entry *e = roll->entries; e != NULL; e = e->next) {
        if (is_here(e))
            coord_session_dismiss(&e->session, "who is there has been asked");
    }
}

bool coord_roll_gone(const struct coord_roll *roll)
{
    for (const struct entry *e = roll->entries; e != NULL; e = e->next) {
        if (is_here(e) && ls_peer_unacked(e->session.peer) > 0)
            return false;
    }
    return true;
}
