/* common/transport_sweep.c - what no event brings about: heartbeats, peers that have fallen silent,
 * keys that end, and connections of which nng says nothing any more.
 *
 * A TCP error under TLS may leave a receive of nng 1.5.2 hanging for ever, its timeout too: the
 * sweep asks each tcp stream for its peer's address, which fails once the connection is gone.
 */
#include "common/clock.h"
#include "common/transport_nng.h"

#define STALL_TICKS 2            /* a sweep this many ticks late means that we stood still */
#define EARLY_NS    LS_NS_PER_MS /* so much before its time a timer of libev may come */

/* Of many, only who has not been heard lately: each question is a system call. */
static bool is_gone(const struct ls_conn *conn, int64_t now_ns)
{
    const struct ls_hub *hub = conn->hub;
    nng_sockaddr address;

    if (!hub->tcp || (ls_hub_is_crowded(hub) && now_ns - conn->heard_ns < hub->pace.heartbeat_ns))
        return false;
    return nng_stream_get_addr(conn->stream, NNG_OPT_REMADDR, &address) != 0;
}

static const char no_sign_of_life[] = "no sign of life";

/* Why the sweep closes conn; NULL: it does not. */
static const char *sweep_reason(const struct ls_conn *conn, int64_t now_ns)
{
    const struct ls_pace *pace = &conn->hub->pace;

    if (conn->starved)
        return "out of memory";
    if (is_gone(conn, now_ns))
        return "the connection is gone";
    if (conn->lingering)
        return now_ns - conn->since_ns >= pace->linger_ns ? "refused" : NULL;
    if (!conn->up)
        return now_ns - conn->since_ns >= pace->greeting_ns ? "no greeting in time" : NULL;
    return now_ns - conn->heard_ns >= pace->silence_ns ? no_sign_of_life : NULL;
}

/* A callback may close any connection, also the next one: conn is pinned until next is read. */
static void sweep(struct ls_hub *hub, int64_t now_ns)
{
    for (struct ls_conn *conn = hub->conns, *next; conn != NULL && !hub->dying; conn = next) {
        const char *why = conn->closing ? NULL : sweep_reason(conn, now_ns);

        conn->pins++;
        conn->silent = why == no_sign_of_life;
        if (why != NULL)
            ls_conn_close(conn, why);
        else if (ls_conn_ping_due(conn, now_ns))
            ls_conn_kick(conn);
        next = conn->next;
        conn->pins--;
        ls_conn_release(conn);
    }
}

/* An agent whose sessions are up has nothing to do before the next heartbeat, and does not wake a
 * CPU for it: there may be load on it, or hundreds of agents. */
static int64_t next_sweep_ns(const struct ls_hub *hub, int64_t now_ns)
{
    int64_t soonest_ns = now_ns + hub->pace.tick_ns;
    int64_t next_ns = now_ns + hub->pace.heartbeat_ns;

    if (hub->listener != NULL)
        return soonest_ns;
    for (const struct ls_conn *conn = hub->conns; conn != NULL; conn = conn->next) {
        int64_t ping_ns = conn->spoke_ns + hub->pace.heartbeat_ns + EARLY_NS;

        if (!conn->up || conn->closing || conn->lingering || conn->starved)
            return soonest_ns;
        next_ns = ping_ns < next_ns ? ping_ns : next_ns;
    }
    return next_ns > soonest_ns ? next_ns : soonest_ns;
}

static void arm(struct ls_hub *hub, int64_t now_ns)
{
    hub->sweep_due_ns = next_sweep_ns(hub, now_ns);
    ev_timer_set(&hub->tick, (double)(hub->sweep_due_ns - now_ns) / (double)LS_NS_PER_S, 0.0);
    ev_timer_start(hub->loop, &hub->tick);
}

static void on_tick(struct ev_loop *loop, ev_timer *w, int events)
{
    struct ls_hub *hub = w->data;
    int64_t now_ns = ls_clock_mono_ns();
    int64_t late_ns = now_ns - hub->sweep_due_ns;

    (void)loop;
    (void)events;
    ls_hub_enter(hub);
    ls_hub_handle_all(hub);
    /* We stood still (stopped, or a long callback): the peers' silence meanwhile is our own. */
    if (late_ns > STALL_TICKS * hub->pace.tick_ns)
        for (struct ls_conn *conn = hub->conns; conn != NULL; conn = conn->next) {
            conn->heard_ns += late_ns;
            conn->since_ns += late_ns;
        }
    sweep(hub, now_ns);
    ls_hub_look_at_keys(hub, now_ns);
    ls_hub_accept_again(hub);
    if (!hub->dying)
        arm(hub, now_ns);
    ls_hub_leave(hub);
}

void ls_sweep_start(struct ls_hub *hub)
{
    ev_init(&hub->tick, on_tick);
    hub->tick.data = hub;
    arm(hub, ls_clock_mono_ns());
}

void ls_sweep_stop(struct ls_hub *hub)
{
    ev_timer_stop(hub->loop, &hub->tick);
}
