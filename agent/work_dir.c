#include "agent/work_dir.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/fs.h"

#define ROOM_BYTES (256u << 10) /* that a disk has to have for an agent to begin */

enum ls_err agent_work_dir_choose(const char *given, char *own_dir, size_t own_dir_bytes,
                                  const char **out_dir, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    if (given != NULL)
        rc = ls_fs_mkdirs(given, 0700, diag);
    else
        rc = ls_fs_private_dir("lockstep-agent", own_dir, own_dir_bytes, diag);
    if (rc == LS_OK)
        rc = ls_fs_has_room(given != NULL ? given : own_dir, ROOM_BYTES, diag);
    if (rc != LS_OK)
        return ls_fail_in(diag, LS_EIO,
                          "no room for trials (make some, or name another folder: --work-dir, "
                          "TMPDIR)");
    *out_dir = given != NULL ? given : own_dir;
    return LS_OK;
}

/* The socket of a process that was killed refuses, that of one that is only stopped does not. */
static bool somebody_listens(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool yes = false;

    if (strlen(path) < sizeof(address.sun_path)) {
        (void)memcpy(address.sun_path, path, strlen(path) + 1);
        yes = fd >= 0 && (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
                          errno == EAGAIN); /* its queue is full */
    }
    if (fd >= 0)
        (void)close(fd);
    return yes;
}

void agent_work_dir_tidy(const char *url, const char *work_dir)
{
    static const char scheme[] = "ipc://";
    char folder[256];
    char log[512];
    char *slash;
    struct ls_diag diag;

    if (strncmp(url, scheme, strlen(scheme)) != 0)
        return;
    (void)snprintf(folder, sizeof(folder), "%s", url + strlen(scheme));
    if (somebody_listens(folder))
        return; /* it was stopped for a while, and needs its folder for other agents */
    (void)unlink(folder);
    slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder || ls_fs_remove_tree(work_dir, &diag) != LS_OK)
        return;
    *slash = '\0';
    (void)snprintf(log, sizeof(log), "%s.log", work_dir); /* our own stderr */
    (void)unlink(log);
    (void)rmdir(folder);
}
