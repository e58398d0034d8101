/* agent/load/link.h - moves the bytes of one connection: tcp, null, tls over another.
 *
 * The links of one worker share a hub: what they wait in, their receive buffer, room for what a
 * full socket did not take. The interface fits readiness (libev) and completion (io_uring) alike: a
 * link is told to open, is told that there is something to send, and hands over what arrived; the
 * hub is given the thread to wait with. A link knows no protocol and reads no clock.
 *
 * A hub is created and destroyed by the control thread while its worker does not run; wake() may be
 * called by any thread; everything else, and every callback, happens on the worker's thread. A
 * callback may call close(), but not open(), for the link that it is called for.
 */
#ifndef LS_AGENT_LOAD_LINK_H
#define LS_AGENT_LOAD_LINK_H

#include <sys/socket.h>

#include "agent/load/workload.h"
#include "common/err.h"

#define AGENT_PULL_LEAST 2048u /* room for a record of TLS with something in it */

struct agent_link_hub;

struct agent_link_env {
    /* error: an errno value; 0: connected. After an error the link is closed already. */
    void (*opened)(void *ctx, int error);
    /* Bytes arrived; the view is valid during the call only. wall_ns: when the kernel had the last
     * of them, by CLOCK_REALTIME; 0: unknown. */
    void (*bytes)(void *ctx, struct ls_bytes in, int64_t wall_ns);
    /* No more will come; how is LOAD_CLOSED_EARLY (FIN), LOAD_RESET (error: the errno value) or
     * LOAD_TLS_ERROR. The callee closes the link. */
    void (*ended)(void *ctx, enum load_outcome how, int error);
    /* Fills out with what is to be sent next; 0: nothing. Called from flush() and when a full
     * socket has room again, until it returns 0. cap is at least AGENT_PULL_LEAST. */
    size_t (*pull)(void *ctx, uint8_t *out, size_t cap);

    bool at_once; /* what flush() pulls is sent before it returns, not gathered until turn() */
    bool stamps;  /* have the kernel say when bytes arrived ... */
    uint32_t stamp_every; /* ... on each so manieth connection; 0: on all */
    /* A turn may wait so long for more to happen, although something has; 0: it must not. Without
     * effect where probe_min_wait() says so. */
    int64_t min_wait_ns;

    const struct sockaddr_storage *sources; /* what to bind to, by turns; outlive the hub */
    uint32_t source_count;                  /* 0: the kernel chooses */
    uint32_t source_first;                  /* the turn of the first connection */

    /* The rest is for links that wrap another (tls); links of one layer leave it alone. */

    /* The transport is connected; opened() follows when the layers above it have agreed. */
    void (*connected)(void *ctx);
    const struct agent_link_class *carrier; /* what is wrapped */
    const struct load_tls *tls;             /* lives as long as the hub */
    bool brief; /* connections carry so few requests that no preparation for more is worth it */
};

struct agent_link_class {
    const char *name; /* "tcp" */
    const char *io;   /* "libev": as results name it */
    size_t link_size; /* bytes of state per connection, handed over zeroed, 16-byte aligned */

    /* Does it work on this host, as far as this process may? LS_EIO, with the reason. NULL: it
     * does. */
    enum ls_err (*probe)(struct ls_diag *diag);

    /* Does env.min_wait_ns have an effect here? LS_EIO, with the reason. NULL: in no case. */
    enum ls_err (*probe_min_wait)(struct ls_diag *diag);

    /* At most links_max links will be open at once. */
    enum ls_err (*hub_create)(const struct agent_link_env *env, uint32_t links_max,
                              struct agent_link_hub **out_hub, struct ls_diag *diag);
    void (*hub_destroy)(struct agent_link_hub *hub); /* NULL is fine; links must be closed */

    /* Makes the callbacks for what has happened. If nothing has, waits for it until the monotonic
     * instant until_ns at the latest; 0: does not wait. May return early. */
    void (*turn)(struct agent_link_hub *hub, int64_t until_ns);
    /* The present or the next turn() returns soon. */
    void (*wake)(struct agent_link_hub *hub);

    /* Starts to connect; opened() follows, perhaps before this returns. */
    void (*open)(struct agent_link_hub *hub, void *link, void *ctx, const struct sockaddr *address,
                 socklen_t address_len);
    /* There is something to pull. Sends as much as the socket takes: at once if env.at_once, by the
     * next turn() otherwise. Never calls back but for pull(): a failed send is reported by ended()
     * in a later turn(). */
    void (*flush)(struct agent_link_hub *hub, void *link);
    void (*close)(struct agent_link_hub *hub, void *link); /* idempotent; no callback afterwards */
};

/* io: "libev", "io_uring"; NULL: whichever works everywhere. NULL if there is none. */
const struct agent_link_class *agent_link_find(const char *name, const char *io);

/* The class that moves the bytes of name here: LOAD_IO_AUTO takes io_uring where it works, and
 * out_why says why if it does not (code LS_OK: it does). LS_EINVAL: there is no such link, or what
 * was asked for does not work. */
enum ls_err agent_link_choose(const char *name, enum load_io io,
                              const struct agent_link_class **out_link, struct ls_diag *out_why,
                              struct ls_diag *diag) LS_NODISCARD;

/* TLS over carrier: a class whose hubs own one of carrier and translate. env.carrier and env.tls
 * have to be set for hub_create(). A failed handshake is opened() with EKEYREJECTED (the peer's
 * certificate does not verify), ECONNABORTED (hung up), ECONNRESET or EPROTO (all else). */
void agent_link_tls_over(const struct agent_link_class *carrier, struct agent_link_class *out);

struct tls_context;
/* The context of a hub of such a class, for its figures. */
const struct tls_context *agent_link_tls_context(const struct agent_link_hub *hub);

#endif
