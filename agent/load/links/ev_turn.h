/* agent/load/links/ev_turn.h - a libev loop that waits until a monotonic instant in nanoseconds.
 *
 * libev's own timers are wall-clock doubles with the millisecond of epoll_wait; here a timerfd with
 * an absolute instant wakes the loop. For the links that work on readiness; their hubs hold one.
 */
#ifndef LS_AGENT_LOAD_LINKS_EV_TURN_H
#define LS_AGENT_LOAD_LINKS_EV_TURN_H

#include <stdint.h>

#include "common/err.h"

struct ev_loop;
struct ev_turn;

/* LS_ENOMEM, LS_EIO. On LS_OK the caller owns *out_turn. */
enum ls_err ev_turn_create(struct ev_turn **out_turn, struct ls_diag *diag) LS_NODISCARD;
void ev_turn_destroy(struct ev_turn *turn); /* NULL is fine */

struct ev_loop *ev_turn_loop(const struct ev_turn *turn);
void ev_turn_run(struct ev_turn *turn, int64_t until_ns); /* as agent_link_class.turn */
void ev_turn_wake(struct ev_turn *turn);                  /* any thread */

#endif
