#include "agent/host/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/host/proc.h"
#include "agent/host/supervisor_wire.h"

#define OWN "/proc/thread-self/ns/net"

static enum ls_err explain(int error, const char *what, struct ls_diag *diag)
{
    if (error == EPERM)
        return ls_fail(diag, LS_EREFUSED,
                       "cannot %s a private network: that takes the capability CAP_SYS_ADMIN; run "
                       "the agent as root, or leave network: private out",
                       what);
    return ls_fail(diag, LS_EIO, "cannot %s a private network: %s", what, strerror(error));
}

static int raise_loopback(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int error = 0;

    if (fd < 0)
        return errno;
    if (ioctl(fd, SIOCGIFFLAGS, &request) < 0) {
        error = errno;
    } else {
        request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
        if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
            error = errno;
    }
    (void)close(fd);
    return error;
}

enum ls_err host_netns_make(struct ls_diag *diag)
{
    int error;

    if (unshare(CLONE_NEWNET) < 0)
        return explain(errno, "make", diag);
    error = raise_loopback();
    return error == 0 ? LS_OK : explain(error, "raise loopback in", diag);
}

static uint64_t inode_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

uint64_t host_netns_inode(pid_t pid)
{
    char path[48];

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    return inode_of(pid == 0 ? OWN : path);
}

/* Whoever names the process is a peer: it is to lead to what an agent has made, and not to what
 * else is on this host. */
static bool is_supervisor(pid_t pid)
{
    char path[48], text[80];
    const char *word;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    n = host_proc_slurp(path, text, sizeof(text));
    word = n > 0 ? memchr(text, '\0', (size_t)n) : NULL;
    return word != NULL && strcmp(word + 1, SUPERVISOR_ARG) == 0;
}

enum ls_err host_netns_enter(pid_t pid, uint64_t inode, int *out_back, struct ls_diag *diag)
{
    char path[48];
    struct stat st;
    int back, fd, error = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || (uint64_t)st.st_ino != inode || !is_supervisor(pid)) {
        if (fd >= 0)
            (void)close(fd);
        return ls_fail(diag, LS_ESTATE,
                       "the target's private network is not to be found at process %d: its clients "
                       "have to run on its host, and not in a container of their own",
                       (int)pid);
    }
    back = open(OWN, O_RDONLY | O_CLOEXEC);
    if (back < 0 || setns(fd, CLONE_NEWNET) != 0)
        error = errno;
    (void)close(fd);
    if (error == 0) {
        *out_back = back;
        return LS_OK;
    }
    if (back >= 0)
        (void)close(back);
    return explain(error, "enter", diag);
}

enum ls_err host_netns_leave(int back, struct ls_diag *diag)
{
    int error = 0;

    if (back < 0)
        return LS_OK;
    if (setns(back, CLONE_NEWNET) != 0)
        error = errno;
    (void)close(back);
    return error == 0 ? LS_OK : explain(error, "leave", diag);
}
