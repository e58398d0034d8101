#include "agent/host/thread.h"

#include <signal.h>
#include <string.h>

enum ls_err host_thread_create(const char *name, void *(*run)(void *arg), void *arg,
                               pthread_t *out_thread, struct ls_diag *diag)
{
    sigset_t all, before;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(out_thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return ls_fail(diag, LS_EIO, "cannot start the thread %s: %s", name, strerror(error));
    (void)pthread_setname_np(*out_thread, name); /* for people only */
    return LS_OK;
}
