/* coordinator/fleet/fleet.h - who is enrolled: agents by role, their sessions, clocks and ends.
 *
 * Everything happens on the event loop's thread. An agent is known by its place in the fleet:
 * servers first, then clients. One that is lost keeps its place and may be started again.
 */
#ifndef LS_COORDINATOR_FLEET_FLEET_H
#define LS_COORDINATOR_FLEET_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cpuset.h"
#include "common/err.h"
#include "common/offset.h"
#include "common/phase.h"
#include "coordinator/fleet/clocks.h"
#include "coordinator/fleet/local.h"
#include "proto/wire.pb-c.h"

/* Without a connection for longer than this an agent is lost. */
#define COORD_FLEET_GRACE_NS INT64_C(10000000000)

struct ls_peer;
struct coord_fleet;

struct coord_agent {
    uint32_t index;
    char name[32];
    Ls__Role role;
    bool enrolled; /* has been, with the process it has now */
    bool up;       /* has a connection */
    bool lost;
    char why_lost[480];
    int64_t down_since_ns;
    struct ls_peer *peer;
    char boot_id[40];
    char software[64];
    char address[64];
    Ls__Facts *facts;            /* owned; NULL: never enrolled */
    Ls__HostLimits *limits;      /* owned; what its host allows; NULL: it did not say */
    bool refused;                /* lost, because its host's policy refuses */
    struct ls_offset offset;     /* by the session's exchanges */
    struct ls_offset udp_offset; /* and by those in datagrams */
    bool invited;                /* this process of it knows where to knock */
    int64_t next_probe_ns;       /* of those that keep the offset fresh */
    struct ls_cpuset cpus;       /* given by the coordinator; empty: not pinned */
    bool cpus_shared;
    struct coord_local local;
};

struct coord_fleet_env {
    /* Stored, then acknowledged; anything but LS_OK makes it come again. */
    enum ls_err (*report)(void *ctx, struct coord_agent *agent, const Ls__Envelope *report);
    void (*clock)(void *ctx, struct coord_agent *agent);   /* an exchange was added to its offset */
    void (*lost)(void *ctx, struct coord_agent *agent);    /* once; why_lost says more */
    void (*changed)(void *ctx, struct coord_agent *agent); /* enrolled, up, down */
    void *ctx;
};

/* Listens in a private folder; nobody is there yet. */
enum ls_err coord_fleet_create(void *ev_loop, const char *run_id, uint32_t servers,
                               uint32_t clients, const struct coord_fleet_env *env,
                               struct coord_fleet **out_fleet, struct ls_diag *diag) LS_NODISCARD;
/* Kills what has not left by itself, removes the private folder. NULL is fine. */
void coord_fleet_destroy(struct coord_fleet *fleet);

uint32_t coord_fleet_size(const struct coord_fleet *fleet);
struct coord_agent *coord_fleet_agent(struct coord_fleet *fleet, uint32_t index);

/* Starts those local agents that are not running; they enrol in their own time. */
enum ls_err coord_fleet_start(struct coord_fleet *fleet, struct ls_diag *diag) LS_NODISCARD;
bool coord_fleet_complete(const struct coord_fleet *fleet); /* all enrolled and up */

enum ls_err coord_fleet_command(struct coord_fleet *fleet, uint32_t agent, Ls__Envelope *command,
                                struct ls_diag *diag) LS_NODISCARD;
/* One exchange of either kind. */
void coord_fleet_probe_clock(struct coord_fleet *fleet, uint32_t agent);

/* Its clock as of an instant of ours; false: nothing is known yet. */
bool coord_fleet_clock(const struct coord_agent *agent, int64_t at_ns, struct coord_clock *out);

/* Once a second or so: agents that have been away for too long are lost, clocks are looked at
 * again.
 */
void coord_fleet_sweep(struct coord_fleet *fleet, int64_t now_ns);

/* An agent that does not do what it has to is lost, by this side's decision. */
void coord_fleet_give_up(struct coord_fleet *fleet, uint32_t agent, const char *why);

/* Says BYE to all; true once all local agents have ended. */
void coord_fleet_bye(struct coord_fleet *fleet, const char *why);
bool coord_fleet_gone(const struct coord_fleet *fleet);
void coord_fleet_kill(struct coord_fleet *fleet, int signal); /* every local agent */

#endif
