/* agent/respond/server.h - threads, connections and timers of the responder.
 *
 * Plain epoll with one loop for each thread: the responder is the other side of what the load
 * generator's event loop does, and shares no code with it. Thread 0 accepts and deals connections
 * out in turn.
 */
#ifndef LS_AGENT_RESPOND_SERVER_H
#define LS_AGENT_RESPOND_SERVER_H

#include "agent/respond/settings.h"

struct respond_server;

/* requests = responses + unanswered once all connections have ended. */
struct respond_counts {
    uint64_t connections; /* accepted so far */
    uint64_t open;        /* of them, now */
    uint64_t accept_failures;
    uint64_t requests;   /* read to their end */
    uint64_t responses;  /* complete answers handed to the kernel */
    uint64_t unanswered; /* what a fault or the end of a connection kept from one */
    uint64_t bad_requests;
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t stalls;
    uint64_t upgrades;   /* connections that became WebSocket; their requests are messages */
    uint64_t deliveries; /* room: messages to members */
    uint64_t pongs;
    uint64_t closes;                        /* close frames from clients */
    uint64_t actions[RESPOND_ACTION_COUNT]; /* how often each was chosen */
};

/* How much later than they were due answers left; known after respond_server_stop(). */
struct respond_lateness {
    uint64_t count;
    int64_t p50_ns;
    int64_t p99_ns;
    int64_t max_ns;
};

/* Listens and starts the threads. LS_EIO: the address cannot be had. The settings must outlive the
 * server. */
enum ls_err respond_server_create(const struct respond_settings *settings,
                                  struct respond_server **out_server,
                                  struct ls_diag *diag) LS_NODISCARD;
void respond_server_address(const struct respond_server *server,
                            struct sockaddr_storage *out_address);
/* At any time, from any thread. */
void respond_server_counts(struct respond_server *server, struct respond_counts *out);
/* Ends the threads and closes every connection; idempotent. */
void respond_server_stop(struct respond_server *server);
/* After respond_server_stop(). */
void respond_server_lateness(const struct respond_server *server, struct respond_lateness *out);
void respond_server_destroy(struct respond_server *server); /* NULL is fine */

#endif
