/* coordinator/signals.h - INT, TERM and HUP end what goes on in good order, from the first line of
 * a command on: held back until there is a loop that can take them. */
#ifndef LS_COORDINATOR_SIGNALS_H
#define LS_COORDINATOR_SIGNALS_H

#include <ev.h>

#define COORD_SIGNALS 3u

struct coord_signals {
    struct ev_loop *loop; /* NULL: not begun */
    ev_signal watchers[COORD_SIGNALS];
    void (*on_signal)(void *ctx, int number);
    void *ctx;
};

/* They wait, and children that are begun get them all the same (local.c, posix_spawn). */
void coord_signals_hold(void);
/* From now on they, and those that have waited, come to on_signal. */
void coord_signals_begin(struct coord_signals *signals, struct ev_loop *loop,
                         void (*on_signal)(void *ctx, int number), void *ctx);
/* What follows is the printing of the result: one document, whole. They are ignored. */
void coord_signals_end(struct coord_signals *signals);

#endif
