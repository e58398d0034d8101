/* agent/notify.h - what the service manager is told of this process: sd_notify(3)'s datagrams.
 *
 * Without NOTIFY_SOCKET in the environment nothing is sent. The words are read once and taken out
 * of the environment: no program that the agent starts may speak in its name. One thread.
 */
#ifndef LS_AGENT_NOTIFY_H
#define LS_AGENT_NOTIFY_H

#include <stdint.h>

#include "common/err.h"

struct agent_notify {
    int fd;          /* owned; -1: nobody wants to know */
    int64_t beat_ns; /* how often the manager wants a sign of life; 0: it waits for none */
};

/* LS_EINVAL, LS_EIO: the manager waits for words that cannot be sent. On LS_OK the caller ends with
 * agent_notify_fini(). */
enum ls_err agent_notify_init(struct agent_notify *notify, struct ls_diag *diag) LS_NODISCARD;
void agent_notify_fini(struct agent_notify *notify);

/* "READY=1", "STOPPING=1" or "STATUS=..." as systemctl status shows it. A manager that does not
 * take it has gone, or has more to do than it can: nobody is to wait for it. */
void agent_notify_say(const struct agent_notify *notify, const char *fmt, ...) LS_PRINTF(2, 3);
/* A sign of life, where a watchdog waits for one: each beat_ns. */
void agent_notify_beat(const struct agent_notify *notify);

#endif
