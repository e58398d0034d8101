#include "coordinator/signals.h"

#include <pthread.h>
#include <signal.h>

static const int numbers[COORD_SIGNALS] = { SIGINT, SIGTERM, SIGHUP };

static void mask(int how)
{
    sigset_t set;

    (void)sigemptyset(&set);
    for (unsigned i = 0; i < COORD_SIGNALS; i++)
        (void)sigaddset(&set, numbers[i]);
    (void)pthread_sigmask(how, &set, NULL);
}

void coord_signals_hold(void)
{
    mask(SIG_BLOCK);
}

static void on_event(struct ev_loop *loop, ev_signal *w, int events)
{
    struct coord_signals *signals = w->data;

    (void)loop;
    (void)events;
    signals->on_signal(signals->ctx, w->signum);
}

void coord_signals_begin(struct coord_signals *signals, struct ev_loop *loop,
                         void (*on_signal)(void *ctx, int number), void *ctx)
{
    *signals = (struct coord_signals){ .loop = loop, .on_signal = on_signal, .ctx = ctx };
    for (unsigned i = 0; i < COORD_SIGNALS; i++) {
        struct sigaction now;

        ev_signal_init(&signals->watchers[i], on_event, numbers[i]);
        signals->watchers[i].data = signals;
        /* nohup: it was told to outlive its terminal */
        if (numbers[i] != SIGHUP || sigaction(SIGHUP, NULL, &now) != 0 || now.sa_handler != SIG_IGN)
            ev_signal_start(loop, &signals->watchers[i]);
    }
    mask(SIG_UNBLOCK);
}

void coord_signals_end(struct coord_signals *signals)
{
    if (signals->loop == NULL)
        return;
    for (unsigned i = 0; i < COORD_SIGNALS; i++) {
        ev_signal_stop(signals->loop, &signals->watchers[i]);
        (void)signal(numbers[i], SIG_IGN);
    }
    signals->loop = NULL;
}
