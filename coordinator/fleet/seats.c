#include "coordinator/fleet/seats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Ls__Role role_of(const Ls__FleetAgent *wish)
{
    return wish->role == LS__AGENT_ROLE__AGENT_ROLE_SERVER ? LS__ROLE__ROLE_SERVER
                                                           : LS__ROLE__ROLE_CLIENT;
}

static void add_seats(struct coord_seats *seats, const Ls__Fleet *wanted, Ls__Role role,
                      uint32_t count)
{
    uint32_t end = seats->count + count;

    for (size_t i = 0; wanted != NULL && i < wanted->n_agents && seats->count < end; i++) {
        if (role_of(wanted->agents[i]) == role)
            seats->items[seats->count++] =
                (struct coord_seat){ .role = role, .wish = wanted->agents[i] };
    }
    while (seats->count < end)
        seats->items[seats->count++] = (struct coord_seat){ .role = role };
}

enum ls_err coord_seats_init(struct coord_seats *seats, const Ls__Fleet *wanted, uint32_t servers,
                             uint32_t clients, struct ls_diag *diag)
{
    *seats = (struct coord_seats){ .items = calloc((size_t)servers + clients + 1,
                                                   sizeof(*seats->items)) };
    if (seats->items == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the fleet");
    add_seats(seats, wanted, LS__ROLE__ROLE_SERVER, servers);
    add_seats(seats, wanted, LS__ROLE__ROLE_CLIENT, clients);
    return LS_OK;
}

void coord_seats_fini(struct coord_seats *seats)
{
    free(seats->items);
    *seats = (struct coord_seats){ 0 };
}

static bool has_label(const Ls__Hello *hello, const char *key, const char *value)
{
    for (size_t i = 0; hello != NULL && i < hello->n_labels; i++) {
        if (strcmp(hello->labels[i]->key, key) == 0 && strcmp(hello->labels[i]->value, value) == 0)
            return true;
    }
    return false;
}

static bool fits(const struct coord_seat *seat, const struct coord_agent *agent)
{
    const Ls__FleetAgent *wish = seat->wish;

    if (seat->role != agent->role)
        return false;
    if (wish == NULL)
        return true;
    if (wish->name != NULL && strcmp(wish->name, agent->name) != 0)
        return false;
    for (size_t i = 0; i < wish->n_labels; i++) {
        if (!has_label(agent->hello, wish->labels[i]->key, wish->labels[i]->value))
            return false;
    }
    return true;
}

/* A free seat for anybody, from first on: of a thousand such, each holder would move otherwise. */
static bool find_free(struct coord_seats *seats, struct coord_agent *agent, uint32_t first)
{
    for (uint32_t i = first; i < seats->count; i++) {
        struct coord_seat *seat = &seats->items[i];

        if (seat->holder != NULL || seat->wish != NULL || seat->role != agent->role)
            continue;
        seat->holder = agent;
        agent->wish = NULL;
        return true;
    }
    return false;
}

/* An augmenting path (Kuhn 1955): a free seat, or one whose holder finds another. A seat is tried
 * once in each search, so the depth is bounded by their number. */
static bool find_seat(struct coord_seats *seats, struct coord_agent *agent)
{
    for (uint32_t i = 0; i < seats->count; i++) {
        struct coord_seat *seat = &seats->items[i];

        if (seat->tried || !fits(seat, agent))
            continue;
        if (seat->wish == NULL && find_free(seats, agent, i))
            return true;
        seat->tried = true;
        if (seat->holder != NULL && !find_seat(seats, seat->holder))
            continue;
        seat->holder = agent;
        agent->wish = seat->wish;
        return true;
    }
    return false;
}

bool coord_seats_take(struct coord_seats *seats, struct coord_agent *agent)
{
    for (uint32_t i = 0; i < seats->count; i++)
        seats->items[i].tried = false;
    return find_seat(seats, agent);
}

void coord_seats_leave(struct coord_seats *seats, const struct coord_agent *agent)
{
    for (uint32_t i = 0; i < seats->count; i++) {
        if (seats->items[i].holder == agent)
            seats->items[i].holder = NULL;
    }
}

const char *coord_seat_describe(const struct coord_seat *seat, char *out, size_t out_bytes)
{
    const Ls__FleetAgent *wish = seat->wish;
    int used = snprintf(out, out_bytes, "%s%s%s",
                        seat->role == LS__ROLE__ROLE_SERVER ? "server" : "client",
                        wish != NULL && wish->name != NULL ? " " : "",
                        wish != NULL && wish->name != NULL ? wish->name : "");

    for (size_t i = 0; wish != NULL && i < wish->n_labels && (size_t)used < out_bytes; i++)
        used += snprintf(out + used, out_bytes - (size_t)used, "%s%s=%s", i == 0 ? " with " : ", ",
                         wish->labels[i]->key, wish->labels[i]->value);
    return out;
}
