/* agent/host/port.h - is a TCP port free, and if not, who has it. */
#ifndef LS_AGENT_HOST_PORT_H
#define LS_AGENT_HOST_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define HOST_TCP_ESTABLISHED 0x01 /* include/net/tcp_states.h */
#define HOST_TCP_LISTEN      0x0A

/* One line of /proc/net/tcp or tcp6. */
struct host_tcp_socket {
    uint32_t words[4];   /* of the local address, as the kernel has them */
    unsigned word_count; /* 1, 4 */
    uint16_t port;       /* local */
    unsigned state;
    unsigned long inode; /* 0: no process has it */
};

/* False: it is not such a line. */
bool host_tcp_parse(const char *line, struct host_tcp_socket *out);

/* LS_OK: nobody accepts connections on host:port and a server may take it. Somebody who shares the
 * port (SO_REUSEPORT) is noticed, which a bind alone would not do. LS_ESTATE: it is in use, diag
 * names who. LS_EINVAL: host is no literal address, or none of this machine; LS_EIO, LS_ETIMEOUT:
 * that could not be found out. Blocks for at most a second. */
enum ls_err host_port_check_free(const char *host, uint16_t port,
                                 struct ls_diag *diag) LS_NODISCARD;

/* Does somebody accept connections there? A literal address of this machine. Blocks for at most a
 * second. */
bool host_port_accepts(const char *host, uint16_t port);

#endif
