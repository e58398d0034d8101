#include "agent/deadman.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/exit.h"
#include "common/clock.h"
#include "common/log.h"

#define TURNS 8 /* few: each wakes a CPU that may have nothing else to do, or be under load */

struct agent_deadman {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards stop */
    pthread_cond_t stopped;
    bool stop;
    atomic_uint beats;
    int64_t turn_ns;
    void (*hung)(void *ctx);
    void *ctx;
};

static void end_process(void *ctx)
{
    (void)ctx;
    ls_log(LS_LOG_ERROR, "agent.hangs", "the control thread hangs: this process ends");
    _exit(AGENT_EXIT_FAULT);
}

/* One turn; true: it is time to leave. */
static bool wait_turn(struct agent_deadman *d)
{
    int64_t until_ns = ls_clock_mono_ns() + d->turn_ns;
    const struct timespec until = { .tv_sec = until_ns / LS_NS_PER_S,
                                    .tv_nsec = until_ns % LS_NS_PER_S };
    bool stop;
    int error = 0;

    (void)pthread_mutex_lock(&d->mutex);
    while (!d->stop && error == 0)
        error = pthread_cond_timedwait(&d->stopped, &d->mutex, &until);
    stop = d->stop;
    (void)pthread_mutex_unlock(&d->mutex);
    return stop;
}

static void *watch(void *arg)
{
    struct agent_deadman *d = arg;
    unsigned seen = atomic_load(&d->beats);
    unsigned turns = 0;

    while (!wait_turn(d)) {
        unsigned now = atomic_load(&d->beats);

        turns = now == seen ? turns + 1 : 0;
        seen = now;
        if (turns < TURNS)
            continue;
        d->hung(d->ctx);
        turns = 0;
    }
    return NULL;
}

static int start_thread(struct agent_deadman *d)
{
    sigset_t all, before;
    int error;

    (void)sigfillset(&all); /* signals are the control thread's */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&d->thread, NULL, watch, d);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum ls_err agent_deadman_start(int64_t after_ns, void (*hung)(void *ctx), void *ctx,
                                struct agent_deadman **out_deadman, struct ls_diag *diag)
{
    struct agent_deadman *d = calloc(1, sizeof(*d));
    pthread_condattr_t attributes;
    int error;

    if (d == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory to watch the control thread");
    d->hung = hung != NULL ? hung : end_process;
    d->ctx = ctx;
    d->turn_ns = after_ns / TURNS;
    (void)pthread_mutex_init(&d->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&d->stopped, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    error = start_thread(d);
    if (error != 0) {
        (void)pthread_cond_destroy(&d->stopped);
        (void)pthread_mutex_destroy(&d->mutex);
        free(d);
        return ls_fail(diag, LS_EIO, "no thread to watch the control thread: %s", strerror(error));
    }
    *out_deadman = d;
    return LS_OK;
}

void agent_deadman_beat(struct agent_deadman *deadman)
{
    if (deadman != NULL)
        (void)atomic_fetch_add(&deadman->beats, 1);
}

void agent_deadman_stop(struct agent_deadman *deadman)
{
    if (deadman == NULL)
        return;
    (void)pthread_mutex_lock(&deadman->mutex);
    deadman->stop = true;
    (void)pthread_cond_signal(&deadman->stopped);
    (void)pthread_mutex_unlock(&deadman->mutex);
    (void)pthread_join(deadman->thread, NULL);
    (void)pthread_cond_destroy(&deadman->stopped);
    (void)pthread_mutex_destroy(&deadman->mutex);
    free(deadman);
}
