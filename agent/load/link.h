/* agent/load/link.h - moves the bytes of one connection: tcp, later tls and io_uring.
 *
 * The interface fits readiness (libev) and completion (io_uring) alike: a link is told to open, is
 * told that there is something to send, and hands over what arrived. It knows no protocol. All
 * calls and callbacks of one link happen on its worker's thread; a callback may call close().
 */
#ifndef LS_AGENT_LOAD_LINK_H
#define LS_AGENT_LOAD_LINK_H

#include <sys/socket.h>

#include "agent/load/workload.h"
#include "common/err.h"

struct agent_link_hub; /* what links of one worker share: event loop, receive buffer */

struct agent_link_env {
    void (*opened)(void *ctx, int error); /* errno value, 0: connected */
    /* Bytes arrived; the view is valid during the call only. */
    void (*bytes)(void *ctx, struct ls_bytes in);
    /* No more will come; how is LOAD_CLOSED_EARLY (FIN), LOAD_RESET or LOAD_TLS_ERROR. */
    void (*ended)(void *ctx, enum load_outcome how);
    /* Fills out with what is to be sent next; 0: nothing. Called from flush() and when a full
     * socket has room again. */
    size_t (*pull)(void *ctx, uint8_t *out, size_t cap);
};

struct agent_link_class {
    const char *name; /* "tcp" */
    const char *io;   /* "libev": as results name it */
    size_t link_size; /* bytes of state per connection, handed over zeroed */

    enum ls_err (*hub_create)(void *ev_loop, const struct agent_link_env *env,
                              struct agent_link_hub **out_hub, struct ls_diag *diag);
    void (*hub_destroy)(struct agent_link_hub *hub);

    /* Starts to connect; opened() follows, now or later. */
    void (*open)(struct agent_link_hub *hub, void *link, void *ctx, const struct sockaddr *address,
                 socklen_t address_len);
    /* There is something to pull. Sends as much as the socket takes at once. */
    void (*flush)(struct agent_link_hub *hub, void *link);
    void (*close)(struct agent_link_hub *hub, void *link); /* idempotent; no callback afterwards */
};

const struct agent_link_class *agent_link_find(const char *name);

#endif
