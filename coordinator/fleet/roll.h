/* coordinator/fleet/roll.h - everybody who comes, for people who want to know who is there.
 *
 * Unlike a fleet it has a place for anybody and gives nothing to do. Clocks are asked for at once.
 */
#ifndef LS_COORDINATOR_FLEET_ROLL_H
#define LS_COORDINATOR_FLEET_ROLL_H

#include "coordinator/fleet/fleet.h"

struct coord_roll;

struct coord_roll_env {
    void (*came)(void *ctx, const struct coord_agent *agent);
    void (*went)(void *ctx, const struct coord_agent *agent);
    void (*refused)(void *ctx, const char *who, const char *why);
    void *ctx;
};

enum ls_err coord_roll_create(void *ev_loop, const char *url, struct ls_credentials *credentials,
                              const struct coord_roll_env *env, struct coord_roll **out_roll,
                              struct ls_diag *diag) LS_NODISCARD;
void coord_roll_destroy(struct coord_roll *roll); /* NULL is fine */
const char *coord_roll_url(const struct coord_roll *roll);

/* Asks for clocks where more answers are wanted; true: all who are here have given enough. */
bool coord_roll_ask(struct coord_roll *roll);
/* Who is here, by name. The list is the caller's to free, the agents are not; NULL: no memory. */
struct coord_agent **coord_roll_here(struct coord_roll *roll, uint32_t *out_count);
/* Sends everybody back to dialling; gone: they have heard it. */
void coord_roll_bye(struct coord_roll *roll);
bool coord_roll_gone(const struct coord_roll *roll);

#endif
