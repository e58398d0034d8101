/* coordinator/fleet/seats.h - which agent fulfils which of the plan's wishes.
 *
 * A seat is for a server or a client, and may ask for a name or labels. Who comes gets a seat if
 * there is any way to seat all who are here, even if others have to move for it: an agent that
 * fits two seats never keeps one from an agent that fits only that.
 */
#ifndef LS_COORDINATOR_FLEET_SEATS_H
#define LS_COORDINATOR_FLEET_SEATS_H

#include "coordinator/fleet/fleet.h"

struct coord_seat {
    Ls__Role role;
    const Ls__FleetAgent *wish; /* NULL: anybody of that role */
    struct coord_agent *holder; /* NULL: free */
    bool tried;
};

struct coord_seats {
    struct coord_seat *items; /* owned */
    uint32_t count;
};

/* Servers first; in each role the plan's particular ones first. LS_ENOMEM. */
enum ls_err coord_seats_init(struct coord_seats *seats, const Ls__Fleet *wanted, uint32_t servers,
                             uint32_t clients, struct ls_diag *diag) LS_NODISCARD;
void coord_seats_fini(struct coord_seats *seats); /* all zero is fine */

/* By its name, role and hello's labels. False: there is none for it; nothing is changed then. Sets
 * the wish of all who have to move. */
bool coord_seats_take(struct coord_seats *seats, struct coord_agent *agent);
void coord_seats_leave(struct coord_seats *seats, const struct coord_agent *agent);

/* "client lab-1", "client with zone=a", "client". Returns out. */
const char *coord_seat_describe(const struct coord_seat *seat, char *out, size_t out_bytes);

#endif
