/* agent/load/links/stamp.h - when the kernel had what a socket received (SO_TIMESTAMPING). */
#ifndef LS_AGENT_LOAD_LINKS_STAMP_H
#define LS_AGENT_LOAD_LINKS_STAMP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/errqueue.h> /* needs struct timespec */

/* Room for the control messages of one receive. */
#define STAMP_CONTROL_BYTES CMSG_SPACE(sizeof(struct scm_timestamping))

struct agent_link_env;

/* If it is its turn: what the socket receives will be stamped. True: look for stamps, which there
 * may be none of nevertheless. *turn is the hub's count of connections. */
bool stamp_request(int fd, const struct agent_link_env *env, uint32_t *turn);

/* If message is a stamp: the wall clock, in nanoseconds, when the last byte arrived. */
void stamp_read(const struct cmsghdr *message, int64_t *out_wall_ns);

/* recv(), and when the last of those bytes arrived; *out_wall_ns is left alone if nobody knows. */
ssize_t stamp_receive(int fd, void *buffer, size_t cap, int flags, int64_t *out_wall_ns);

#endif
