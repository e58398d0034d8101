/* agent/load/links/socket_call.h - send, recv and recvmsg for a thread that nobody cancels.
 *
 * The C library's are cancellation points: in a process of several threads each call costs two
 * atomic operations beside the system call. These are the system call.
 */
#ifndef LS_AGENT_LOAD_LINKS_SOCKET_CALL_H
#define LS_AGENT_LOAD_LINKS_SOCKET_CALL_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline ssize_t socket_send(int fd, const void *data, size_t len, int flags)
{
    return syscall(SYS_sendto, fd, data, len, flags, NULL, 0);
}

static inline ssize_t socket_receive(int fd, void *buffer, size_t cap, int flags)
{
    return syscall(SYS_recvfrom, fd, buffer, cap, flags, NULL, NULL);
}

static inline ssize_t socket_receive_message(int fd, struct msghdr *message, int flags)
{
    return syscall(SYS_recvmsg, fd, message, flags);
}

#endif
