#include "agent/load/links/stamp.h"

#include <linux/net_tstamp.h>
#include <string.h>

#include "agent/load/link.h"
#include "common/clock.h"

bool stamp_request(int fd, const struct agent_link_env *env, uint32_t *turn)
{
    unsigned flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    uint32_t every = env->stamp_every > 0 ? env->stamp_every : 1;

    if (!env->stamps || (*turn)++ % every != 0)
        return false;
    /* Where it fails nothing is stamped, and no series is recorded. */
    (void)setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags));
    return true;
}

void stamp_read(const struct cmsghdr *message, int64_t *out_wall_ns)
{
    struct scm_timestamping stamps;

    if (message->cmsg_level != SOL_SOCKET || message->cmsg_type != SCM_TIMESTAMPING ||
        message->cmsg_len < CMSG_LEN(sizeof(stamps)))
        return;
    memcpy(&stamps, CMSG_DATA(message), sizeof(stamps));
    *out_wall_ns = stamps.ts[0].tv_sec * LS_NS_PER_S + stamps.ts[0].tv_nsec;
}

ssize_t stamp_receive(int fd, void *buffer, size_t cap, int flags, int64_t *out_wall_ns)
{
    union {
        struct cmsghdr align;
        uint8_t bytes[STAMP_CONTROL_BYTES];
    } control;
    struct iovec where = { .iov_base = buffer, .iov_len = cap };
    struct msghdr message = { .msg_iov = &where,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control) };
    ssize_t n = recvmsg(fd, &message, flags);

    for (struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL; c != NULL;
         c = CMSG_NXTHDR(&message, c))
        stamp_read(c, out_wall_ns);
    return n;
}
