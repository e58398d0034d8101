#include "agent/deadman.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/exit.h"
#include "common/clock.h"
#include "common/log.h"

#define TURNS    8 /* without a beat */
#define PATIENCE 2 /* turns before anybody looks; beats put the timer off once a turn */

struct agent_deadman {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards stop */
    bool stop;
    int timer_fd;
    atomic_uint beats;
    int64_t turn_ns;
    int64_t wound_ns; /* when the timer was last put off; the beating thread's */
    void (*hung)(void *ctx);
    void *ctx;
};

static void end_process(void *ctx)
{
    (void)ctx;
    ls_log(LS_LOG_ERROR, "agent.hangs", "the control thread hangs: this process ends");
    _exit(AGENT_EXIT_FAULT);
}

/* The timer goes off in that time, whatever it was set to. */
static void wind(const struct agent_deadman *d, int64_t ns)
{
    const struct itimerspec in = { .it_value = { .tv_sec = ns / LS_NS_PER_S,
                                                 .tv_nsec = ns % LS_NS_PER_S } };

    (void)timerfd_settime(d->timer_fd, 0, &in, NULL); /* fails for a wrong argument only */
}

/* Until the timer goes off, which it does a turn later again; false: it is time to leave. */
static bool wait_turn(struct agent_deadman *d)
{
    uint64_t times;
    bool stop;

    while (read(d->timer_fd, &times, sizeof(times)) < 0 && errno == EINTR)
        continue;
    (void)pthread_mutex_lock(&d->mutex);
    stop = d->stop;
    if (!stop)
        wind(d, d->turn_ns);
    (void)pthread_mutex_unlock(&d->mutex);
    return !stop;
}

static void *watch(void *arg)
{
    struct agent_deadman *d = arg;
    unsigned seen = atomic_load(&d->beats);
    unsigned turns = 0;

    while (wait_turn(d)) {
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
    int error;

    if (d == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory to watch the control thread");
    d->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (d->timer_fd < 0) {
        free(d);
        return ls_fail(diag, LS_EIO, "no timer to watch the control thread: %s", strerror(errno));
    }
    d->hung = hung != NULL ? hung : end_process;
    d->ctx = ctx;
    d->turn_ns = after_ns / TURNS;
    d->wound_ns = ls_clock_mono_ns();
    wind(d, PATIENCE * d->turn_ns);
    (void)pthread_mutex_init(&d->mutex, NULL); /* without attributes it does not fail on Linux */
    error = start_thread(d);
    if (error != 0) {
        (void)pthread_mutex_destroy(&d->mutex);
        (void)close(d->timer_fd);
        free(d);
        return ls_fail(diag, LS_EIO, "no thread to watch the control thread: %s", strerror(error));
    }
    *out_deadman = d;
    return LS_OK;
}

void agent_deadman_beat(struct agent_deadman *deadman)
{
    int64_t now_ns;

    if (deadman == NULL)
        return;
    (void)atomic_fetch_add(&deadman->beats, 1);
    now_ns = ls_clock_mono_ns();
    if (now_ns - deadman->wound_ns < deadman->turn_ns)
        return;
    deadman->wound_ns = now_ns;
    wind(deadman, PATIENCE * deadman->turn_ns);
}

void agent_deadman_stop(struct agent_deadman *deadman)
{
    if (deadman == NULL)
        return;
    (void)pthread_mutex_lock(&deadman->mutex);
    deadman->stop = true;
    wind(deadman, 1); /* now */
    (void)pthread_mutex_unlock(&deadman->mutex);
    (void)pthread_join(deadman->thread, NULL);
    (void)pthread_mutex_destroy(&deadman->mutex);
    (void)close(deadman->timer_fd);
    free(deadman);
}
