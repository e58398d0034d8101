#include "agent/load/links/ev_turn.h"

#include <errno.h>
#include <ev.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/clock.h"

struct ev_turn {
    struct ev_loop *loop; /* owned */
    ev_async wake;
    ev_io timer;
    int timer_fd;     /* owned */
    int64_t armed_ns; /* 0: the timer does not run */
};

static void on_wake(struct ev_loop *loop, ev_async *watcher, int events)
{
    (void)loop; /* that the loop turns is all that is wanted */
    (void)watcher;
    (void)events;
}

static void on_timer(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct ev_turn *turn = watcher->data;
    uint64_t times;

    (void)loop;
    (void)events;
    (void)!read(turn->timer_fd, &times, sizeof(times)); /* only so that it is not ready any more */
    turn->armed_ns = 0;
}

enum ls_err ev_turn_create(struct ev_turn **out_turn, struct ls_diag *diag)
{
    struct ev_turn *turn = calloc(1, sizeof(*turn));
    enum ls_err rc;

    if (turn == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for an event loop");
    turn->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (turn->timer_fd >= 0)
        turn->loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (turn->loop == NULL) {
        rc = ls_fail(diag, LS_EIO, "cannot create an event loop: %s", strerror(errno));
        ev_turn_destroy(turn);
        return rc;
    }
    ev_async_init(&turn->wake, on_wake);
    ev_async_start(turn->loop, &turn->wake);
    ev_io_init(&turn->timer, on_timer, turn->timer_fd, EV_READ);
    turn->timer.data = turn;
    ev_io_start(turn->loop, &turn->timer);
    *out_turn = turn;
    return LS_OK;
}

void ev_turn_destroy(struct ev_turn *turn)
{
    if (turn == NULL)
        return;
    if (turn->loop != NULL) {
        ev_io_stop(turn->loop, &turn->timer);
        ev_async_stop(turn->loop, &turn->wake);
        ev_loop_destroy(turn->loop);
    }
    if (turn->timer_fd >= 0)
        (void)close(turn->timer_fd); /* holds nothing */
    free(turn);
}

struct ev_loop *ev_turn_loop(const struct ev_turn *turn)
{
    return turn->loop;
}

void ev_turn_run(struct ev_turn *turn, int64_t until_ns)
{
    if (until_ns == 0) {
        (void)ev_run(turn->loop, EVRUN_NOWAIT);
        return;
    }
    if (until_ns != turn->armed_ns) {
        struct itimerspec when = { .it_value = { .tv_sec = until_ns / LS_NS_PER_S,
                                                 .tv_nsec = until_ns % LS_NS_PER_S } };

        (void)timerfd_settime(turn->timer_fd, TFD_TIMER_ABSTIME, &when, NULL); /* valid fd, time */
        turn->armed_ns = until_ns;
    }
    (void)ev_run(turn->loop, EVRUN_ONCE);
}

void ev_turn_wake(struct ev_turn *turn)
{
    ev_async_send(turn->loop, &turn->wake);
}
