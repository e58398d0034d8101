/* coordinator/fleet/fleet.h - who is enrolled: agents by role, their sessions, clocks and ends.
 *
 * Everything happens on the event loop's thread. An agent is known by its place in the fleet:
 * servers first, then clients. One that is lost keeps its place, and takes it again with a new
 * session: for the trial at hand it stays lost.
 *
 * Local agents are processes that the fleet starts; they dial a socket in a private folder. Remote
 * ones come by themselves, and take a seat that they fit (seats.h) as long as the fleet is open.
 * Once it is bound the run has begun: places are in the order of names, and nobody else gets one.
 */
#ifndef LS_COORDINATOR_FLEET_FLEET_H
#define LS_COORDINATOR_FLEET_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cpuset.h"
#include "common/err.h"
#include "common/identity.h"
#include "common/offset.h"
#include "common/phase.h"
#include "coordinator/fleet/clocks.h"
#include "coordinator/fleet/local.h"
#include "proto/plan.pb-c.h"
#include "proto/wire.pb-c.h"

/* An agent that fell silent, behind a network that is cut or because it stands still, is lost after
 * this time without a connection. */
#define COORD_FLEET_GRACE_NS INT64_C(10000000000)
/* One whose connection was closed is mostly dead, or it would have come again within a fraction of
 * a second: the others' load and targets are not to go on for long without it. */
#define COORD_FLEET_CLOSED_GRACE_NS INT64_C(4000000000)
#define COORD_AGENT_NAME_MAX        64u

struct ls_credentials;
struct ls_peer;
struct coord_fleet;
struct coord_session;

struct coord_agent { /* what a sweep looks at is together */
    uint32_t index;
    Ls__Role role;
    bool enrolled; /* has been, with the session it has now */
    bool up;       /* has a connection */
    bool silent;   /* not up: it was not closed, nothing came any more */
    bool lost;
    int64_t down_since_ns;
    int64_t next_probe_ns;               /* of those that keep the offset fresh */
    struct coord_session *session;       /* NULL: none */
    struct ls_peer *peer;                /* of the session */
    char name[COORD_AGENT_NAME_MAX + 1]; /* "": a place that nobody has taken yet */
    char why_lost[480];
    struct ls_identity identity; /* as of its newest connection; not proven without TLS */
    char boot_id[40];
    char software[64];
    char address[64];             /* where it is reached; "" for local agents */
    char from[64];                /* where its connection comes from; "" for local agents */
    Ls__Hello *hello;             /* owned; what it has said of itself; NULL: never enrolled */
    const Ls__Facts *facts;       /* of hello; NULL: never enrolled, or it has told none */
    const Ls__HostLimits *limits; /* of hello; what its host allows; NULL: it did not say */
    bool refused;                 /* lost, because its host's policy refuses */
    struct ls_offset offset;      /* by the session's exchanges */
    struct ls_offset udp_offset;  /* and by those in datagrams */
    int64_t own_zero_ns; /* our wall time at the zero of our monotonic clock, when hello came */
    bool invited;        /* this session of it knows where to knock */
    bool wall_looked_at; /* whoever has the fleet has: is it far from ours? */
    uint32_t place;      /* in datagrams: other than index it never changes */
    uint32_t refreshes;
    struct ls_cpuset cpus; /* given by the coordinator; empty: not pinned */
    bool cpus_shared;
    const Ls__FleetAgent *wish; /* of the plan that it fulfils; NULL: it is one of the others */
    struct coord_local local;
};

struct coord_fleet_env {
    /* Taken; anything but LS_OK makes it come again. */
    enum ls_err (*report)(void *ctx, struct coord_agent *agent, const Ls__Envelope *report);
    /* All that were taken have to be stored now, for they are about to be acknowledged. */
    void (*settle)(void *ctx);
    void (*clock)(void *ctx, struct coord_agent *agent); /* an exchange was added to its offset */
    void (*lost)(void *ctx, struct coord_agent *agent);  /* once a session; why_lost says more */
    /* Somebody was refused, and has not been for this reason before. */
    void (*refused)(void *ctx, const char *who, const char *why);
    void *ctx;
};

struct coord_fleet_options {
    const char *run_id;      /* of the sessions */
    const Ls__Fleet *wanted; /* completed; borrowed */
    uint32_t servers;
    uint32_t clients;
    const char *listen;                 /* NULL: local agents, started by the fleet */
    struct ls_credentials *credentials; /* to listen on other hosts' behalf; NULL: none */
};

/* Listens; nobody is there yet. */
enum ls_err coord_fleet_create(void *ev_loop, const struct coord_fleet_options *options,
                               const struct coord_fleet_env *env, struct coord_fleet **out_fleet,
                               struct ls_diag *diag) LS_NODISCARD;
/* Kills local agents that have not left by themselves, removes the private folder. NULL is fine. */
void coord_fleet_destroy(struct coord_fleet *fleet);

uint32_t coord_fleet_size(const struct coord_fleet *fleet);
struct coord_agent *coord_fleet_agent(struct coord_fleet *fleet, uint32_t index);
bool coord_fleet_is_local(const struct coord_fleet *fleet);
const char *coord_fleet_url(const struct coord_fleet *fleet);    /* with the port that was bound */
const char *coord_fleet_folder(const struct coord_fleet *fleet); /* of local agents; "" */

/* Starts those local agents that are not running; they enrol in their own time. */
enum ls_err coord_fleet_start(struct coord_fleet *fleet, struct ls_diag *diag) LS_NODISCARD;
bool coord_fleet_complete(struct coord_fleet *fleet); /* all enrolled and up */
/* Complete for the first time: from now on places belong to names. */
void coord_fleet_bind(struct coord_fleet *fleet);

/* "server lab-5, client lab-1"; who is here, and who is missing, or away; "" for nobody. */
void coord_fleet_here(const struct coord_fleet *fleet, char *out, size_t out_bytes);
void coord_fleet_missing(const struct coord_fleet *fleet, char *out, size_t out_bytes);
/* Who was refused and why, for people who wonder where an agent is; "" for nobody. */
void coord_fleet_refused(const struct coord_fleet *fleet, char *out, size_t out_bytes);

enum ls_err coord_fleet_command(struct coord_fleet *fleet, uint32_t agent, Ls__Envelope *command,
                                struct ls_diag *diag) LS_NODISCARD;
/* One exchange of either kind. */
void coord_fleet_probe_clock(struct coord_fleet *fleet, uint32_t agent);

/* Its clock as of an instant of ours; false: nothing is known yet. */
bool coord_fleet_clock(const struct coord_agent *agent, int64_t at_ns, struct coord_clock *out);
/* Its wall clock minus ours when it enrolled, and how far off that can be; false: not known yet. */
bool coord_fleet_wall(const struct coord_agent *agent, int64_t at_ns, int64_t *out_offset_ns,
                      int64_t *out_error_ns);
/* Only the agent's clock minus ours, and how far off that can be: for each report. */
bool coord_fleet_offset(const struct coord_agent *agent, int64_t at_ns, int64_t *out_offset_ns,
                        int64_t *out_error_ns);

/* Once a second at least: agents that have been away for too long are lost, clocks are looked at
 * again. Does nothing more than ten times a second, of many less often, so it may be called after
 * each event. */
void coord_fleet_sweep(struct coord_fleet *fleet, int64_t now_ns);

/* An agent that does not do what it has to is lost, by this side's decision. */
void coord_fleet_give_up(struct coord_fleet *fleet, uint32_t agent, const char *why);

/* Says BYE to all; gone: all local agents have ended, remote ones have heard it or are away. */
void coord_fleet_bye(struct coord_fleet *fleet, const char *why);
bool coord_fleet_gone(const struct coord_fleet *fleet);
void coord_fleet_kill(struct coord_fleet *fleet, int signal); /* every local agent */

#endif
