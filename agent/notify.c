#include "agent/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"

#define SOCKET_VARIABLE   "NOTIFY_SOCKET"
#define WATCHDOG_VARIABLE "WATCHDOG_USEC"
#define WATCHDOG_PID      "WATCHDOG_PID"
#define TEXT_MAX          512u
#define BEAT_LEAST_NS     (100 * LS_NS_PER_MS)
#define BEAT_MOST_NS      (60 * LS_NS_PER_S)

/* The address is a path, or with '@' in front a name of the abstract namespace. */
static enum ls_err connect_to(const char *where, int *out_fd, struct ls_diag *diag)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = strlen(where);
    int fd;

    if ((where[0] != '/' && where[0] != '@') || len < 2 || len >= sizeof(address.sun_path))
        return ls_fail(diag, LS_EINVAL, SOCKET_VARIABLE "=%.80s: not the address of a socket",
                       where);
    (void)memcpy(address.sun_path, where, len + 1);
    if (where[0] == '@')
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) != 0) {
        int error = errno;

        if (fd >= 0)
            (void)close(fd);
        return ls_fail(diag, LS_EIO, SOCKET_VARIABLE "=%.80s: %s", where, strerror(error));
    }
    *out_fd = fd;
    return LS_OK;
}

/* Twice in the time that the watchdog waits, as sd_watchdog_enabled(3) has it. It may be meant for
 * another process, which has started this one. */
static int64_t read_beat_ns(void)
{
    const char *time_us = getenv(WATCHDOG_VARIABLE);
    const char *pid = getenv(WATCHDOG_PID);
    int64_t us;

    if (time_us == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    us = strtoll(time_us, NULL, 10) / 2;
    if (us > BEAT_MOST_NS / LS_NS_PER_US)
        return BEAT_MOST_NS;
    if (us < BEAT_LEAST_NS / LS_NS_PER_US)
        return BEAT_LEAST_NS;
    return us * LS_NS_PER_US;
}

enum ls_err agent_notify_init(struct agent_notify *notify, struct ls_diag *diag)
{
    const char *where = getenv(SOCKET_VARIABLE);
    enum ls_err rc = LS_OK;

    *notify = (struct agent_notify){ .fd = -1 };
    if (where != NULL && where[0] != '\0')
        rc = connect_to(where, &notify->fd, diag);
    if (notify->fd >= 0)
        notify->beat_ns = read_beat_ns();
    (void)unsetenv(SOCKET_VARIABLE);
    (void)unsetenv(WATCHDOG_VARIABLE);
    (void)unsetenv(WATCHDOG_PID);
    return rc;
}

void agent_notify_fini(struct agent_notify *notify)
{
    if (notify->fd >= 0)
        (void)close(notify->fd);
    notify->fd = -1;
}

void agent_notify_say(const struct agent_notify *notify, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;
    int len;

    if (notify->fd < 0)
        return;
    va_start(args, fmt);
    len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (len > 0)
        (void)send(notify->fd, text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1,
                   MSG_NOSIGNAL);
}

void agent_notify_beat(const struct agent_notify *notify)
{
    if (notify->beat_ns != 0)
        agent_notify_say(notify, "WATCHDOG=1");
}
