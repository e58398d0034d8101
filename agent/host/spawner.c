#include "agent/host/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/host/spawner_image.h"
#include "common/buf.h"
#include "common/fs.h"

struct host_spawner {
    int fd;
};

enum ls_err host_spawner_install(const char *path, struct ls_diag *diag)
{
    int fd;
    enum ls_err rc;

    (void)unlink(path);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0755);
    if (fd < 0)
        return ls_fail(diag, LS_EIO, "cannot create %.200s: %s", path, strerror(errno));
    rc = ls_fs_write_all(fd, (struct ls_bytes){ host_spawner_image, host_spawner_image_bytes },
                         diag);
    if (rc == LS_OK && fchmod(fd, 0755) < 0) /* whatever the umask */
        rc = ls_fail(diag, LS_EIO, "cannot set the mode: %s", strerror(errno));
    if (close(fd) < 0 && rc == LS_OK)
        rc = ls_fail(diag, LS_EIO, "cannot write: %s", strerror(errno));
    return rc == LS_OK ? rc : ls_fail_in(diag, rc, "%.200s", path);
}

enum ls_err host_spawner_create(int *out_child_fd, struct host_spawner **out_spawner,
                                struct ls_diag *diag)
{
    struct host_spawner *s = malloc(sizeof(*s));
    int fds[2];

    if (s == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a spawner");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
        free(s);
        return ls_fail(diag, LS_EIO, "cannot make a socket pair for the spawner: %s",
                       strerror(errno));
    }
    s->fd = fds[0];
    *out_child_fd = fds[1];
    *out_spawner = s;
    return LS_OK;
}

void host_spawner_destroy(struct host_spawner *spawner)
{
    if (spawner == NULL)
        return;
    (void)close(spawner->fd);
    free(spawner);
}

int host_spawner_fd(const struct host_spawner *spawner)
{
    return spawner->fd;
}

static uint32_t add_list(struct ls_buf *buf, char *const *list)
{
    uint32_t n = 0;

    for (; list[n] != NULL; n++)
        ls_buf_add(buf, list[n], strlen(list[n]) + 1);
    return n;
}

static bool send_packet(int fd, const struct ls_buf *packet, const int fds[3])
{
    union {
        char bytes[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr align;
    } control = { 0 };
    struct iovec iov = { .iov_base = packet->data, .iov_len = packet->len };
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = control.bytes,
                          .msg_controllen = sizeof(control.bytes) };
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(3 * sizeof(int));
    (void)memcpy(CMSG_DATA(c), fds, 3 * sizeof(int));
    return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)packet->len;
}

enum ls_err host_spawner_run(struct host_spawner *spawner, const struct host_spawner_run *run,
                             struct ls_diag *diag)
{
    struct spawner_order order = { .magic = SPAWNER_MAGIC,
                                   .id = run->id,
                                   .tell_start = run->tell_start,
                                   .timeout_ns = run->timeout_ns };
    enum ls_err rc = LS_OK;
    struct ls_buf buf;

    ls_buf_init(&buf, SPAWNER_PACKET_MAX);
    ls_buf_add(&buf, &order, sizeof(order));
    ls_buf_add(&buf, run->path, strlen(run->path) + 1);
    order.argc = add_list(&buf, run->argv);
    order.envc = add_list(&buf, run->envp);
    if (!buf.ok) {
        rc = ls_fail(diag, LS_ERANGE,
                     "command and environment of %.100s are longer than %u KiB: shorten them, or "
                     "put what is long into a file",
                     run->argv[0], SPAWNER_PACKET_MAX >> 10);
    } else {
        order.text_bytes = (uint32_t)(buf.len - sizeof(order));
        (void)memcpy(buf.data, &order, sizeof(order));
        if (!send_packet(spawner->fd, &buf, run->fds))
            rc = ls_fail(diag, LS_ECLOSED, "the spawner process is gone: %s", strerror(errno));
    }
    ls_buf_fini(&buf);
    return rc;
}

enum ls_err host_spawner_receive(struct host_spawner *spawner, struct spawner_report *out_report)
{
    struct spawner_report report;
    ssize_t n;

    do
        n = recv(spawner->fd, &report, sizeof(report), MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return LS_EAGAIN;
    if (n != (ssize_t)sizeof(report) || report.magic != SPAWNER_MAGIC)
        return LS_ECLOSED;
    *out_report = report;
    return LS_OK;
}
