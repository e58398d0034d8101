/* agent/host/thread.h - a thread that signals meant for the program never interrupt. */
#ifndef LS_AGENT_HOST_THREAD_H
#define LS_AGENT_HOST_THREAD_H

#include <pthread.h>

#include "common/err.h"

/* name: at most 15 characters, as the system shows it. LS_EIO. */
enum ls_err host_thread_create(const char *name, void *(*run)(void *arg), void *arg,
                               pthread_t *out_thread, struct ls_diag *diag) LS_NODISCARD;

#endif
