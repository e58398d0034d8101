/* coordinator/run/ship.h - files on their way to the agents, by content: a target's and a process
 * workload's own files to the servers; what the plan names by a path (certificates, tables, bodies)
 * to all. */
#ifndef LS_COORDINATOR_RUN_SHIP_H
#define LS_COORDINATOR_RUN_SHIP_H

#include "common/err.h"
#include "coordinator/fleet/fleet.h"
#include "proto/plan.pb-c.h"
#include "proto/wire.pb-c.h"

#define COORD_SHIP_PIECE_BYTES (256u << 10)
#define COORD_SHIP_MAX_BYTES   (64u << 20) /* all files of a plan; agents have the same limit */

struct coord_ship;

/* Reads every target's files and what else the plan names, relative to base_dir. LS_EIO, LS_ERANGE.
 */
enum ls_err coord_ship_create(const Ls__Plan *plan, const char *base_dir,
                              struct coord_ship **out_ship, struct ls_diag *diag) LS_NODISCARD;
void coord_ship_destroy(struct coord_ship *ship); /* NULL is fine */

/* Hands each agent the files that it needs and does not have; a process that is new has none. */
enum ls_err coord_ship_send(struct coord_ship *ship, struct coord_fleet *fleet,
                            struct ls_diag *diag) LS_NODISCARD;

/* What goes into the folder of a trial of these, owned by ship and good until the next call. */
void coord_ship_files(struct coord_ship *ship, const Ls__Target *target,
                      const Ls__Workload *workload, Ls__FileRef ***out_files, size_t *out_count);
/* What the plan names by a path, owned by ship; a ref's name is that path. */
void coord_ship_plan_files(const struct coord_ship *ship, Ls__FileRef ***out_files,
                           size_t *out_count);

#endif
